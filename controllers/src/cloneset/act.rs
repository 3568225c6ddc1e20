//! Carries out the actions of a plan.
//!
//! What each write returned goes into the stores at once, so that no plan is made on something older. An
//! answer that did not come leaves open what happened: then the Pods are read again before the next plan.

use cluster::watched::Key;
use cluster::write::{self, PatchKind};
use futures::{StreamExt, stream};
use planner::cloneset::{Action, Claim, NewClaim, Outcome, Part, Seen};
use planner::json_patch::string;
use planner::observed_pod::ObservedPod;

use super::{Controller, Work};
use crate::ReconcileError;
use crate::carry_out::{self, carry_out};

/// Writes of one CloneSet that are under way at a time.
const CONCURRENCY: usize = 8;

/// What came of a step.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// At least one action succeeded, if only in part, or may have: no answer came.
    pub(super) acted: bool,
    /// Some object had changed: a new plan has to be made.
    pub(super) outdated: bool,
    /// The first failure.
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
        error: String,
    },
}

/// Options for a delete of just this object, in this state where one is named.
pub(super) fn deletion(uid: &str, resource_version: Option<&str>) -> String {
    let version = resource_version.map(|version| format!(r#","resourceVersion":{}"#, string(version)));
    format!(
        r#"{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":{}{}}}}}"#,
        string(uid),
        version.unwrap_or_default()
    )
}

/// The object is gone, or in another state by now, of which the watch will tell.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

impl Done {
    fn add(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Done => self.acted = true,
            Attempt::Outdated { acted } => {
                self.acted |= acted;
                self.outdated = true;
            }
            Attempt::Failed { acted, error } => {
                self.acted |= acted;
                self.failure.get_or_insert(error);
            }
        }
    }

    /// The outcome for the status; what could not be planned comes first.
    pub(super) fn outcome(&self, problem: Option<String>) -> Outcome {
        match problem.or_else(|| self.failure.clone()) {
            Some(message) => Outcome::Failed(message),
            None => Outcome::Succeeded,
        }
    }
}

impl Controller {
    /// Carries out all actions. Creations go in batches of 1, 2, 4, ... (spec 30 §15): after one with a
    /// failure no other begins. The other actions do not wait for one another.
    pub(super) async fn act(&self, work: &Work<'_>, actions: &[Action]) -> Done {
        let (creations, others): (Vec<_>, Vec<_>) =
            actions.iter().partition(|action| matches!(action, Action::CreatePod { .. }));
        let mut done = Done::default();
        self.batch(work, &others, &mut done).await;
        let (mut rest, mut size) = (creations.as_slice(), 1);
        while !rest.is_empty() && done.failure.is_none() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            self.batch(work, batch, &mut done).await;
            (rest, size) = (later, size * 2);
        }
        done
    }

    async fn batch(&self, work: &Work<'_>, actions: &[&Action], done: &mut Done) {
        let attempts: Vec<_> = actions.iter().map(|action| self.attempt(work, action)).collect();
        let mut attempts = stream::iter(attempts).buffer_unordered(CONCURRENCY);
        while let Some(attempt) = attempts.next().await {
            done.add(attempt);
        }
    }

    async fn attempt(&self, work: &Work<'_>, action: &Action) -> Attempt {
        match action {
            Action::CreatePod { instance_id, json, claims, .. } => {
                self.create(work, action, instance_id, json, claims).await
            }
            Action::DeletePod { pod, claims, .. } => self.delete(work, action, pod, claims).await,
            Action::WritePod { pod, writes, .. } => {
                let Some(known) = work.pod(pod) else { return Attempt::Outdated { acted: false } };
                match carry_out(&self.client, &self.pods, known, writes).await {
                    Ok(carry_out::Outcome::Written(_)) => self.succeeded(work, action),
                    Ok(carry_out::Outcome::Outdated) => Attempt::Outdated { acted: false },
                    Err(error) => self.failed(work, action, Part::Itself, &error, false),
                }
            }
            Action::DeleteClaim(claim) => match self.delete_claim(work, claim).await {
                Ok(()) => Attempt::Done,
                Err(error) => self.failed(work, action, Part::Itself, &error, false),
            },
            Action::HandOverClaim { claim, patch, .. } => {
                let path = work.path("persistentvolumeclaims", &claim.name);
                let text = write::patch(&self.client, &path, PatchKind::StrategicMerge, patch.clone()).await;
                match text.map(|text| self.take_in_claim(&text)) {
                    Ok(()) => Attempt::Done,
                    Err(error) if is_outdated(&error) => Attempt::Outdated { acted: false },
                    Err(error) => self.failed(work, action, Part::Itself, &error.into(), false),
                }
            }
        }
    }

    async fn create(
        &self,
        work: &Work<'_>,
        action: &Action,
        instance_id: &str,
        json: &str,
        claims: &[NewClaim],
    ) -> Attempt {
        let mut acted = false;
        for claim in claims {
            match write::create(&self.client, &work.path("persistentvolumeclaims", ""), claim.json.clone())
                .await
            {
                Ok(text) => {
                    self.take_in_claim(&text);
                    acted = true;
                }
                // Made by an attempt whose answer did not come; else the name is not ours.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    self.lost_sight(work);
                    match self.has_claim(work, &claim.name).await {
                        Ok(true) => {}
                        Ok(false) => return Attempt::Outdated { acted },
                        Err(error) => {
                            return self.failed(work, action, Part::Claim(&claim.name), &error, acted);
                        }
                    }
                }
                Err(error) => {
                    return self.failed(work, action, Part::Claim(&claim.name), &error.into(), acted);
                }
            }
        }
        match write::create(&self.client, &work.path("pods", ""), json.to_owned()).await {
            Ok(text) => {
                self.memory(work, |memory| memory.refused.remove(instance_id));
                match self.pods.written(&text) {
                    Ok(_) => self.succeeded(work, action),
                    Err(error) => self.failed(work, action, Part::Itself, &error.into(), true),
                }
            }
            // A Pod of this name that is not known, or not yet gone.
            Err(error) if is_outdated(&error) => {
                self.lost_sight(work);
                Attempt::Outdated { acted }
            }
            Err(error) => {
                if matches!(error, kube::Error::Api(_)) && !claims.is_empty() {
                    self.memory(work, |memory| memory.refused.insert(instance_id.to_owned()));
                }
                self.failed(work, action, Part::Itself, &error.into(), acted)
            }
        }
    }

    /// Whether there is a claim of this name that is the CloneSet's, and stays.
    async fn has_claim(&self, work: &Work<'_>, name: &str) -> Result<bool, ReconcileError> {
        let Some(text) = write::get(&self.client, &work.path("persistentvolumeclaims", name)).await? else {
            return Ok(false);
        };
        let Claim { metadata } = Claim::read(&text)?;
        let mut owners = metadata.owner_references.iter();
        Ok(metadata.deletion_timestamp.is_none() && owners.any(|owner| owner.uid == work.set.metadata.uid))
    }

    async fn delete(&self, work: &Work<'_>, action: &Action, pod: &Seen, claims: &[Seen]) -> Attempt {
        let options = deletion(&pod.uid, Some(&pod.resource_version));
        match write::delete(&self.client, &work.path("pods", &pod.name), options).await {
            Ok(text) => self.take_in_deleted(work, pod, &text),
            Err(error) if is_outdated(&error) => return Attempt::Outdated { acted: false },
            Err(error) => return self.failed(work, action, Part::Itself, &error.into(), false),
        }
        for claim in claims {
            if let Err(error) = self.delete_claim(work, claim).await {
                self.tell_success(work, action);
                return self.failed(work, action, Part::Claim(&claim.name), &error, true);
            }
        }
        self.succeeded(work, action)
    }

    /// A claim is deleted in whatever state it is: its volume may have been bound meanwhile.
    async fn delete_claim(&self, work: &Work<'_>, claim: &Seen) -> Result<(), ReconcileError> {
        let path = work.path("persistentvolumeclaims", &claim.name);
        match write::delete(&self.client, &path, deletion(&claim.uid, None)).await {
            Ok(text) => {
                let still_there =
                    Claim::read(&text).ok().filter(|claim| claim.metadata.deletion_timestamp.is_some());
                match still_there {
                    Some(ending) => self.stores.claims.written(ending),
                    None => self.stores.claims.delete(&work.key_of(&claim.name), &claim.resource_version),
                }
                Ok(())
            }
            Err(error) if is_outdated(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The answer to a delete is the Pod as it ends. One that is gone at once comes without a time.
    fn take_in_deleted(&self, work: &Work<'_>, seen: &Seen, text: &str) {
        let ends = ObservedPod::read(text).is_ok_and(|pod| pod.metadata.deletion_timestamp.is_some());
        if !ends || self.pods.written(text).is_err() {
            self.pods.deleted(&work.key_of(&seen.name), &seen.resource_version);
        }
    }

    fn take_in_claim(&self, text: &str) {
        if let Ok(claim) = Claim::read(text) {
            self.stores.claims.written(claim);
        }
    }

    fn succeeded(&self, work: &Work<'_>, action: &Action) -> Attempt {
        self.tell_success(work, action);
        Attempt::Done
    }

    fn tell_success(&self, work: &Work<'_>, action: &Action) {
        if let Some(event) = action.success() {
            self.tell(work.set, event);
        }
    }

    fn failed(
        &self,
        work: &Work<'_>,
        action: &Action,
        part: Part<'_>,
        error: &ReconcileError,
        acted: bool,
    ) -> Attempt {
        // Whoever did not answer may have done what was asked for.
        let unanswered =
            !matches!(error, ReconcileError::Cluster(kube::Error::Api(status)) if status.code < 500);
        if unanswered {
            self.lost_sight(work);
        }
        if let Some(event) = action.failure(part, error) {
            self.tell(work.set, event);
        }
        Attempt::Failed { acted: acted || unanswered, error: error.to_string() }
    }

    /// What there is may be more than what is known.
    fn lost_sight(&self, work: &Work<'_>) {
        self.memory(work, |memory| memory.lost_sight = true);
    }
}

impl Work<'_> {
    fn path(&self, plural: &str, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/api/v1/namespaces/{}/{plural}{slash}{name}", self.set.metadata.namespace)
    }

    fn key_of(&self, name: &str) -> Key {
        (self.set.metadata.namespace.clone(), name.to_owned())
    }
}
