//! Carries out the actions of a plan.
//!
//! What each write returned is put into the stores at once, so that no plan is made on something older. An
//! answer that did not come leaves open what happened: then the object is read again before the next plan.
//! What is refused is held up for a while, for longer each time; nothing else is.

use cluster::resource::{CLAIMS, PODS, Path, Resource};
use cluster::watched::Key;
use cluster::write::{self, PatchKind, deletion, unless_outdated};
use cluster::{ErrorReason, Retry};
use futures::{StreamExt, stream};
use kinds::podunavailablebudget::terms::Operation;
use kinds::workload::action::{Action, DeleteReason, Part, WriteReason};
use kinds::workload::children::Claim;
use kinds::workload::kind::{Workload, WorkloadStatus};
use kinds::workload::new_pod::NewClaim;
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::plan::Outcome;
use pod::observed::ObservedPod;

use super::batches::growing;
use super::carry_out::{Carried, carry_out};
use super::controller::{Controller, Work, key_of};
use super::memory::{CREATIONS, key};
use super::reading::NameOwner;
use super::rehearsal::rehearse;
use crate::{ReconcileError, now};

/// Writes of one workload that are in progress at a time.
const CONCURRENCY: usize = 8;

/// What came of a step.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// At least one action succeeded, if only in part.
    pub(super) acted: bool,
    /// No answer came to at least one, which may have been carried out.
    pub(super) unanswered: bool,
    /// Some object had changed: a new plan has to be made.
    pub(super) outdated: bool,
    /// At least one action was tried and failed.
    pub(super) failed: bool,
    /// The first failure, also of an action that is held up for an earlier one.
    pub(super) failure: Option<String>,
}

/// What came of one action.
enum Attempt {
    Done,
    /// Done in part, the rest had changed.
    Outdated {
        acted: bool,
    },
    Failed {
        acted: bool,
        unanswered: bool,
        error: String,
    },
    /// Not begun: the budget of the Pod has nothing left, and wakes the workload when it has.
    Withheld,
    /// Not tried: it failed a short while ago.
    Held(String),
}

impl Attempt {
    /// The API server has refused it, and not because the object had changed: then somebody else may have done it.
    fn is_refused(&self) -> bool {
        matches!(self, Self::Failed { acted: false, unanswered: false, .. })
    }
}

/// What the budget of its Pod has to bear before the action.
fn disruption(action: &Action) -> Option<Operation> {
    match action {
        Action::DeletePod { .. } => Some(Operation::Delete),
        // Its hook takes it out of service.
        Action::WritePod { reason: WriteReason::PrepareDelete, writes, .. } => {
            writes.iter().any(|write| !write.conditions.is_empty()).then_some(Operation::Delete)
        }
        _ => action.updated_pod().map(|_| Operation::Update),
    }
}

impl Done {
    fn add(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Done => self.acted = true,
            Attempt::Outdated { acted } => {
                self.acted |= acted;
                self.outdated = true;
            }
            Attempt::Failed { acted, unanswered, error } => {
                self.acted |= acted;
                self.unanswered |= unanswered;
                self.failed = true;
                self.failure.get_or_insert(error);
            }
            Attempt::Withheld => {}
            Attempt::Held(error) => drop(self.failure.get_or_insert(error)),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            acted: self.acted || other.acted,
            unanswered: self.unanswered || other.unanswered,
            outdated: self.outdated || other.outdated,
            failed: self.failed || other.failed,
            failure: self.failure.or(other.failure),
        }
    }

    /// Whether updates may begin after the scale step `self`: they were planned on the Pods as they were before it.
    pub(super) fn lets_updates_begin(&self) -> bool {
        !self.acted && !self.unanswered
    }

    /// The outcome for the status; what could not be planned comes first.
    pub(super) fn outcome(&self, problem: Option<String>) -> Outcome {
        match problem.or_else(|| self.failure.clone()) {
            Some(message) => Outcome::Failed(message),
            None => Outcome::Succeeded,
        }
    }
}

impl<W: Workload> Controller<W> {
    /// Carries out all actions, but those that are held up. The creations and the others do not wait for one
    /// another.
    pub(super) async fn act<'p>(
        &self,
        work: &Work<'_, W>,
        actions: impl IntoIterator<Item = &'p Action>,
    ) -> Done {
        let (creations, others): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, Action::CreatePod { .. }));
        let (created, done) = tokio::join!(self.create_all(work, &creations), self.batch(work, &others));
        created.and(done)
    }

    /// Creations go in batches of 1, 2, 4, ... (docs/behaviour/in-place-update.md#creation-in-batches): after
    /// one with a failure no other begins, and then they pause together.
    async fn create_all(&self, work: &Work<'_, W>, creations: &[&Action]) -> Done {
        let mut done = Done::default();
        if creations.is_empty() {
            return done;
        }
        if let Some(error) = self.memory(work.workload, |memory| memory.pauses.held(CREATIONS)) {
            done.add(Attempt::Held(error));
            return done;
        }
        for batch in growing(creations, usize::MAX) {
            if done.failure.is_some() || self.namespace_ends(work) {
                break;
            }
            done = done.and(self.batch(work, batch).await);
        }
        self.memory(work.workload, |memory| match &done.failure {
            Some(error) => memory.pauses.failed(CREATIONS, error),
            None => memory.pauses.succeeded(CREATIONS),
        });
        done
    }

    fn namespace_ends(&self, work: &Work<'_, W>) -> bool {
        self.memory(work.workload, |memory| memory.namespace_ends)
    }

    async fn batch(&self, work: &Work<'_, W>, actions: &[&Action]) -> Done {
        let attempts: Vec<_> = actions.iter().map(|action| self.attempt(work, action)).collect();
        let mut attempts = stream::iter(attempts).buffer_unordered(CONCURRENCY);
        let mut done = Done::default();
        while let Some(attempt) = attempts.next().await {
            done.add(attempt);
        }
        done
    }

    async fn attempt(&self, work: &Work<'_, W>, action: &Action) -> Attempt {
        // Creations pause together.
        if matches!(action, Action::CreatePod { .. }) {
            return self.carry_out_one(work, action).await;
        }
        let key = key(action);
        if let Some(error) = self.memory(work.workload, |memory| memory.pauses.held(&key)) {
            return Attempt::Held(error);
        }
        let attempt = self.carry_out_one(work, action).await;
        self.memory(work.workload, |memory| match &attempt {
            Attempt::Failed { error, .. } => memory.pauses.action_failed(action, error),
            _ => memory.pauses.succeeded(&key),
        });
        attempt
    }

    async fn carry_out_one(&self, work: &Work<'_, W>, action: &Action) -> Attempt {
        match action {
            Action::CreatePod { instance_id, json, claims, .. } => {
                let attempt = self.create(work, action, instance_id, json, claims).await;
                if W::HAS_PLACES {
                    self.memory(work.workload, |memory| match &attempt {
                        Attempt::Failed { .. } => memory.refused.insert(instance_id.clone()),
                        _ => memory.refused.remove(instance_id),
                    });
                }
                attempt
            }
            Action::DeletePod { pod, claims, reason } => {
                let known = self.stores.pods.get(&work.key_of(&pod.name));
                let known = known.filter(|known| *known.metadata.uid == *pod.uid);
                if let Some(known) = &known
                    && let Some(attempt) = self.unborne(work, action, known).await
                {
                    return attempt;
                }
                let attempt = self.delete(work, action, pod, claims).await;
                if let Some(known) = known.as_ref().filter(|_| attempt.is_refused()) {
                    self.spread_slots.refused(&work.workload.metadata().namespace, known).await;
                }
                if W::HAS_POD_PER_NODE
                    && *reason == DeleteReason::Ended
                    && let (Attempt::Done, Some(node)) =
                        (&attempt, known.as_ref().and_then(|pod| pod.spec.node()))
                {
                    let generation = work.workload.status().observed_generation();
                    self.memory(work.workload, |memory| memory.failures.record(node, generation, now().now));
                }
                attempt
            }
            Action::WritePod { pod, writes, reason, .. } => {
                let Some(known) = work.pod(pod) else { return Attempt::Outdated { acted: false } };
                if *reason == WriteReason::Adopt {
                    match self.still_exists(work.workload).await {
                        Ok(true) => {}
                        Ok(false) => return Attempt::Outdated { acted: false },
                        Err(error) => return self.failed(work, action, Part::Itself, &error, false),
                    }
                }
                if let Some(attempt) = self.unborne(work, action, known).await {
                    return attempt;
                }
                if *reason == WriteReason::UpdateInPlace
                    && self.memory(work.workload, |memory| memory.pauses.refuse_updates())
                    && let Err(error) = rehearse(&self.client, known, writes).await
                {
                    return self.failed(work, action, Part::Itself, &error, false);
                }
                match carry_out(&self.client, &self.stores.pods, known, writes).await {
                    Ok(Carried::Written(_)) => self.succeeded(work, action),
                    Ok(Carried::Outdated) => Attempt::Outdated { acted: false },
                    Err(error) => self.failed(work, action, Part::Itself, &error, false),
                }
            }
            Action::CreateClaim { claim, .. } => match self.create_claim(work, action, claim).await {
                Ok(true) => Attempt::Done,
                Ok(false) => Attempt::Outdated { acted: false },
                Err(error) => self.failed(work, action, Part::Itself, &error, false),
            },
            Action::DeleteClaim(claim) => {
                let done = match self.has_pod(work, claim).await {
                    Ok(true) => return Attempt::Outdated { acted: false },
                    Ok(false) => self.delete_claim(work, claim).await,
                    Err(error) => Err(error),
                };
                match done {
                    Ok(()) => Attempt::Done,
                    Err(error) => self.failed(work, action, Part::Itself, &error, false),
                }
            }
            Action::HandOverClaim { claim, patch, .. } | Action::WriteClaim { claim, patch, .. } => {
                let path = work.of(CLAIMS).name(&claim.name);
                let text = write::patch(&self.client, &path, PatchKind::StrategicMerge, patch.clone()).await;
                match text.map(|text| self.take_in_claim(&text)) {
                    Ok(()) => self.succeeded(work, action),
                    Err(error) if error.retry() == Retry::Now => Attempt::Outdated { acted: false },
                    Err(error) => self.failed(work, action, Part::Itself, &error.into(), false),
                }
            }
            Action::CreateChild { .. }
            | Action::PatchChild { .. }
            | Action::AdoptChild { .. }
            | Action::DeleteChild { .. } => match self.change_child(work, action).await {
                Ok(()) => Attempt::Done,
                Err(error) => self.failed(work, action, Part::Itself, &error, false),
            },
        }
    }

    /// What comes of an action for which the budget of its Pod does not give a unit; `None` where it does.
    async fn unborne(&self, work: &Work<'_, W>, action: &Action, pod: &ObservedPod) -> Option<Attempt> {
        let operation = disruption(action)?;
        let workload = work.key_of(&work.workload.metadata().name);
        match self.budgets.bear(&workload, pod, operation, &work.spent).await {
            Ok(None) => None,
            Ok(Some(_)) => Some(Attempt::Withheld),
            Err(error) => Some(self.failed(work, action, Part::Itself, &error, false)),
        }
    }

    async fn create(
        &self,
        work: &Work<'_, W>,
        action: &Action,
        instance_id: &str,
        json: &str,
        claims: &[NewClaim],
    ) -> Attempt {
        if !claims.is_empty() && !W::HAS_PLACES {
            // Until the Pod is there, whatever happens: the claims are for its next try.
            self.memory(work.workload, |memory| memory.refused.insert(instance_id.to_owned()));
        }
        let mut acted = false;
        for claim in claims {
            match self.create_claim(work, action, claim).await {
                Ok(true) => acted = true,
                Ok(false) => return Attempt::Outdated { acted },
                Err(error) => return self.failed(work, action, Part::Claim(&claim.name), &error, acted),
            }
        }
        match write::create(&self.client, &work.of(PODS), json.to_owned()).await {
            Ok(text) => {
                self.memory(work.workload, |memory| memory.refused.remove(instance_id));
                match self.stores.pods.written(&text) {
                    Ok(_) => self.succeeded(work, action),
                    Err(error) => self.failed(work, action, Part::Itself, &error, true),
                }
            }
            Err(error) if error.reason() == ErrorReason::AlreadyExists => {
                match self.holder_of_pod(work.workload, action.object()).await {
                    Ok(NameOwner::Ours | NameOwner::Nobody) => Attempt::Outdated { acted },
                    Ok(NameOwner::Other) => self.failed(work, action, Part::Itself, &error.into(), acted),
                    Err(error) => self.failed(work, action, Part::Itself, &error, acted),
                }
            }
            Err(error) => {
                let error: ReconcileError = error.into();
                if !error.may_have_acted()
                    && let Ok(pod) = ObservedPod::read(json)
                {
                    self.spread_slots.refused(&work.workload.metadata().namespace, &pod).await;
                }
                self.failed(work, action, Part::Itself, &error, acted)
            }
        }
    }

    /// Creates a claim; false where it has to be planned anew, since one of its name was there and is gone.
    async fn create_claim(
        &self,
        work: &Work<'_, W>,
        action: &Action,
        claim: &NewClaim,
    ) -> Result<bool, ReconcileError> {
        match write::create(&self.client, &work.of(CLAIMS), claim.json.clone()).await {
            Ok(text) => {
                self.take_in_claim(&text);
                let event = work.workload.success(action, Part::Claim(&claim.name));
                event.into_iter().for_each(|event| self.record(work.workload, event));
                Ok(true)
            }
            // Made by an attempt whose answer did not come; else the name is not ours.
            Err(error) if error.reason() == ErrorReason::AlreadyExists => {
                match self.holder_of_claim(work.workload, &claim.name).await? {
                    NameOwner::Ours => Ok(true),
                    NameOwner::Nobody => Ok(false),
                    NameOwner::Other => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn delete(
        &self,
        work: &Work<'_, W>,
        action: &Action,
        pod: &ObjectVersion,
        claims: &[ObjectVersion],
    ) -> Attempt {
        let options = deletion(&pod.uid, Some(&pod.resource_version));
        match write::delete(&self.client, &work.of(PODS).name(&pod.name), options).await {
            Ok(text) => self.take_in_deleted(work, pod, &text),
            Err(error) if error.retry() == Retry::Now => {
                if error.reason() == ErrorReason::NotFound {
                    self.stores.pods.deleted(&work.key_of(&pod.name), &pod.resource_version);
                }
                return Attempt::Outdated { acted: false };
            }
            Err(error) => return self.failed(work, action, Part::Itself, &error.into(), false),
        }
        for claim in claims {
            if let Err(error) = self.delete_claim(work, claim).await {
                self.record_success(work, action);
                return self.failed(work, action, Part::Claim(&claim.name), &error, true);
            }
        }
        self.succeeded(work, action)
    }

    /// A claim is deleted in whatever state it is: its volume may have been bound meanwhile.
    async fn delete_claim(&self, work: &Work<'_, W>, claim: &ObjectVersion) -> Result<(), ReconcileError> {
        let path = work.of(CLAIMS).name(&claim.name);
        let answer = write::delete(&self.client, &path, deletion(&claim.uid, None)).await;
        if let Some(text) = unless_outdated(answer)? {
            let ends = |claim: &Claim| claim.metadata.deletion_timestamp.is_some();
            let namespace = &work.workload.metadata().namespace;
            self.stores.claims.ended(namespace, claim, Claim::read(&text).ok().filter(ends));
        }
        Ok(())
    }

    /// The answer to a delete is the Pod as it ends. One that is gone at once comes without a time.
    fn take_in_deleted(&self, work: &Work<'_, W>, observed: &ObjectVersion, text: &str) {
        let ends = ObservedPod::read(text).is_ok_and(|pod| pod.metadata.deletion_timestamp.is_some());
        if !ends || self.stores.pods.written(text).is_err() {
            self.stores.pods.deleted(&work.key_of(&observed.name), &observed.resource_version);
        }
    }

    pub(super) fn take_in_claim(&self, text: &str) {
        if let Ok(claim) = Claim::read(text) {
            self.stores.claims.written(claim);
        }
    }

    fn succeeded(&self, work: &Work<'_, W>, action: &Action) -> Attempt {
        self.record_success(work, action);
        Attempt::Done
    }

    fn record_success(&self, work: &Work<'_, W>, action: &Action) {
        if let Some(event) = work.workload.success(action, Part::Itself) {
            self.record(work.workload, event);
        }
    }

    fn failed(
        &self,
        work: &Work<'_, W>,
        action: &Action,
        part: Part<'_>,
        error: &ReconcileError,
        acted: bool,
    ) -> Attempt {
        if error.retry() == Retry::Never {
            self.memory(work.workload, |memory| memory.namespace_ends = true);
            return Attempt::Outdated { acted };
        }
        let object = match (part, action) {
            (Part::Claim(name), _) => Some((CLAIMS, name.to_owned())),
            (
                _,
                Action::CreateClaim { .. }
                | Action::DeleteClaim(_)
                | Action::HandOverClaim { .. }
                | Action::WriteClaim { .. },
            ) => Some((CLAIMS, action.object().to_owned())),
            (_, Action::CreatePod { .. } | Action::DeletePod { .. } | Action::WritePod { .. }) => {
                Some((PODS, action.object().to_owned()))
            }
            // Each of these writes may be repeated.
            _ => None,
        };
        if let Some((resource, name)) = object.filter(|_| error.may_have_acted()) {
            self.unconfirmed.note(&key_of(work.workload), (resource, work.key_of(&name)));
        }
        let message = error.message();
        if let Some(event) = work.workload.failure(action, part, &message) {
            self.record(work.workload, event);
        }
        Attempt::Failed { acted, unanswered: error.is_unanswered(), error: message }
    }
}

impl<W: Workload> Work<'_, W> {
    pub(super) fn of(&self, resource: Resource<'_>) -> Path {
        resource.namespaced(&self.workload.metadata().namespace)
    }

    pub(super) fn key_of(&self, name: &str) -> Key {
        (self.workload.metadata().namespace.clone(), name.to_owned())
    }
}
