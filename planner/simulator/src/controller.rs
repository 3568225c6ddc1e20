//! The controller: reads its cache, has a plan made, and makes the calls of the plan one after another,
//! as [`Plan`] documents. Between any two of them the world continues, and the controller may crash.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::agenda::Milliseconds;
use super::cache::Cache;
use super::kind::{Simulated, View};
use super::server::{Kind, Refusal, Server};
use super::timeline::Actor;
use super::{Cluster, Event};
use kinds::workload::action::Action;
use kinds::workload::explanation::Explanation;
use kinds::workload::failures::Failures;
use kinds::workload::kind::WorkloadStatus;
use kinds::workload::new_pod::NewClaim;
use kinds::workload::object_version::ObjectVersion;
use kinds::workload::plan::{Outcome, Plan};
use kinds::workload::revision::{NewRevision, RevisionStep};
use kinds::workload::snapshot::{Costs, Environment, Snapshot};
use kinds::workload::status::StatusPlan;
use kinds::workload::storage_class::{StorageClass, StorageClasses};
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::moment::Moment;
use values::selector::Selector;
use values::server_version::ServerVersion;

mod calls;
mod holds;

use holds::Holds;

/// The StorageClass that there is.
pub const STORAGE_CLASS: &str = "fast";
/// The shortest and the longest pause after failures.
const PAUSES: (Milliseconds, Milliseconds) = (20, 5_000);

/// One call to the API server.
#[derive(Clone, Debug)]
enum Call {
    CreateRevision(Box<NewRevision>),
    PatchRevision { revision: ObjectVersion, patch: String },
    CreateClaim(NewClaim),
    CreatePod { name: String, json: String, id: String },
    DeletePod(ObjectVersion),
    DeleteClaim(ObjectVersion),
    HandOver { claim: ObjectVersion, patch: String },
    WritePod { pod: ObjectVersion, write: PodWrite },
    Status(String),
    Owner(String),
    DeleteRevision(ObjectVersion),
    DeleteWorkload(ObjectVersion),
}

/// The parts of a plan, in the order in which they are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Revision,
    Release,
    Scale,
    Update,
    Closing,
}

/// The calls of one action: one after another, until one fails.
#[derive(Clone, Debug)]
struct Errand {
    stage: Stage,
    action: Option<Action>,
    calls: VecDeque<Call>,
    /// The version that the last write of the errand returned.
    version: Option<String>,
}

/// A plan that is being carried out.
#[derive(Clone, Debug)]
struct Task<W: Simulated> {
    view: Arc<View<W>>,
    plan: Plan<W::Status>,
    stage: Stage,
    errands: Vec<Errand>,
    /// A call of the scale step succeeded.
    has_scaled: bool,
    scale: Outcome,
    update: Outcome,
    /// Something is to be tried again.
    has_failed: bool,
    /// Creations tried, and the end of the batch in progress.
    created: usize,
    batch_end: usize,
}

/// The controller of the workload.
#[derive(Clone, Debug)]
pub(super) struct Controller<W: Simulated> {
    pub(super) cache: Cache<W>,
    /// Counts starts: what was planned in an earlier life does not happen.
    life: u32,
    is_running: bool,
    /// Something changed since the last reconcile.
    is_dirty: bool,
    /// When the next reconcile is due.
    reconcile_at: Option<Milliseconds>,
    task: Option<Task<W>>,
    tries: u32,
    refused: BTreeSet<String>,
    holds: Holds,
    failures: Failures,
    collision_count: Option<i32>,
    /// An answer was lost: the objects are to be read before the next plan.
    is_unsure: bool,
    revision_steps: u32,
    explanation: Explanation,
}

impl<W: Simulated> Default for Controller<W> {
    fn default() -> Self {
        Self {
            cache: Cache::default(),
            life: 0,
            is_running: false,
            is_dirty: false,
            reconcile_at: None,
            task: None,
            tries: 0,
            refused: BTreeSet::new(),
            holds: Holds::default(),
            failures: Failures::default(),
            collision_count: None,
            is_unsure: false,
            revision_steps: 0,
            explanation: Explanation::default(),
        }
    }
}

impl<W: Simulated> Controller<W> {
    /// Starts with everything listed.
    pub(super) fn start(&mut self, server: &Server<W>) {
        let cache = std::mem::take(&mut self.cache);
        *self = Self { cache, life: self.life + 1, is_running: true, ..Self::default() };
        for kind in Kind::ALL {
            self.cache.list(kind, server);
        }
    }

    /// When the next reconcile is due.
    pub(super) fn due(&self) -> Option<Milliseconds> {
        self.reconcile_at
    }

    /// What blocks progress.
    pub(super) fn blockers(&self) -> Vec<String> {
        self.explanation.to_string().lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl<W: Simulated> Cluster<'_, W> {
    /// Lets the controller reconcile the workload after `delay`.
    pub(super) fn wake(&mut self, delay: Milliseconds) {
        let controller = &mut self.controller;
        if delay == 0 {
            controller.is_dirty = true;
        }
        if !controller.is_running || (delay == 0 && controller.task.is_some()) {
            return;
        }
        let life = controller.life;
        let pause = if delay == 0 { 1 + self.below(20) } else { delay };
        let due = self.agenda.now() + pause;
        let controller = &mut self.controller;
        if controller.reconcile_at.is_none_or(|known| due < known) {
            controller.reconcile_at = Some(due);
            self.agenda.add(pause, Event::Look { life });
        }
    }

    /// Looks at the cache and begins to carry out a plan.
    pub(super) fn look(&mut self, life: u32) {
        let now = self.agenda.now();
        let controller = &mut self.controller;
        if life != controller.life
            || !controller.is_running
            || controller.reconcile_at.is_none_or(|due| due > now)
        {
            return;
        }
        controller.reconcile_at = None;
        if controller.task.is_some() {
            controller.is_dirty = true;
            return;
        }
        controller.is_dirty = false;
        if std::mem::take(&mut controller.is_unsure) {
            for kind in Kind::ALL {
                controller.cache.list(kind, &self.server);
            }
        }
        let Some(workload) = self.controller.cache.workload() else { return };
        self.controller.holds.review(workload.metadata().generation);
        let (plan, view) = self.plan(workload);
        let controller = &mut self.controller;
        controller.explanation = plan.explanation.clone();
        let again = plan.requeue_after;
        self.ledger.review(&plan, &view, &self.server);
        if let Some(delay) = again {
            let delay = Milliseconds::try_from(delay.as_millis()).unwrap_or(Milliseconds::MAX);
            self.wake(delay.max(1));
        }
        if let Some(delay) = self.controller.holds.next(now) {
            self.wake(delay);
        }
        self.controller.task = Some(Task::new(plan, view));
        self.next_call();
    }

    fn plan(&mut self, workload: Arc<W>) -> (Plan<W::Status>, Arc<View<W>>) {
        let moment = Moment { now: self.now(), seed: self.random.next_u64() };
        let controller = &self.controller;
        let uid = &workload.metadata().uid;
        let owned =
            |pod: &&Arc<ObservedPod>| pod.metadata.owner_references.iter().any(|owner| owner.uid == *uid);
        let pods: Vec<Arc<ObservedPod>> = controller.cache.pods().filter(owned).cloned().collect();
        let is_orphan = |pod: &&Arc<ObservedPod>| W::could_adopt(pod);
        let orphans: Vec<Arc<ObservedPod>> = controller.cache.pods().filter(is_orphan).cloned().collect();
        let held = controller.holds.held(self.agenda.now());
        let snapshot = Snapshot {
            workload: &*workload,
            pods: &pods,
            orphans: &orphans,
            claims: &controller.cache.claims(),
            storage_classes: &storage_classes(),
            children: &[],
            revisions: &controller.cache.revisions(),
            nodes: &self.facts,
            refused: &controller.refused,
            held: &held,
            costs: &Costs::new(),
            failures: &controller.failures,
            collision_count: controller.collision_count,
            gates: &self.settings.gates,
            environment: Environment { server: ServerVersion::NEWEST, ..Environment::default() },
        };
        let mut plan = (self.planner)(&snapshot, moment);
        // Updates that are held up are not in the plan; the trouble is the same.
        if let Some(refusal) = held.values().next() {
            plan.problems.update.get_or_insert(refusal.message.to_string());
        }
        let status = plan.status.as_ref().map(StatusPlan::status);
        let update_revision = status.map_or("", WorkloadStatus::update_revision).to_owned();
        let selector = Selector::compile(workload.selector()).ok();
        let gates = self.settings.gates.clone();
        (
            plan,
            Arc::new(View {
                workload,
                selector,
                pods,
                nodes: self.facts.clone(),
                held: held.into_keys().collect(),
                update_revision,
                gates,
                now: moment.now,
            }),
        )
    }

    /// Puts the next call of the task on the agenda, or ends the task.
    fn next_call(&mut self) {
        let latency = self.between(1, 15);
        let controller = &mut self.controller;
        let Some(task) = &mut controller.task else { return };
        if task.advance() {
            let life = controller.life;
            self.agenda.add(latency, Event::Call { life });
            return;
        }
        let has_failed = task.has_failed || controller.is_unsure;
        let planned_revision = task.plan.revision.is_some();
        controller.task = None;
        if planned_revision {
            controller.revision_steps += 1;
        } else {
            controller.revision_steps = 0;
        }
        // A second revision in a row is an error of the reconcile; it is tried again like any other.
        let has_failed = has_failed || controller.revision_steps > 1;
        if has_failed {
            let exponent = controller.tries.min(12);
            controller.tries += 1;
            let pause = (PAUSES.0 << exponent).min(PAUSES.1);
            self.wake(pause);
        } else {
            controller.tries = 0;
        }
        if planned_revision || self.controller.is_dirty {
            self.wake(0);
        }
    }

    /// Makes one call of the task.
    pub(super) fn call(&mut self, life: u32) {
        if life != self.controller.life || !self.controller.is_running {
            return;
        }
        if !self.is_calm {
            let rate = self.settings.fault_rate;
            if self.chance(rate * 0.05) {
                self.crash();
                return;
            }
        }
        let Some(mut task) = self.controller.task.take() else { return };
        let choice = task.choices();
        let choice = usize::try_from(self.below(choice as u64)).unwrap_or(0);
        if let Some(position) = task.position(choice)
            && let Some(errand) = task.errands.get_mut(position)
            && let Some(call) = errand.calls.pop_front()
        {
            let view = task.view.clone();
            let result = self.perform(&view, errand, call);
            let (now, time) = (self.agenda.now(), self.now());
            match (result, errand.action.as_ref().and_then(Action::updated_pod)) {
                (Err(Refusal::Denied), Some(pod)) => self.controller.holds.refused(&pod.uid, now, time),
                (Ok(()), Some(pod)) if errand.calls.is_empty() => self.controller.holds.succeeded(&pod.uid),
                _ => {}
            }
            task.note(position, result, &mut self.controller);
        }
        self.controller.task = Some(task);
        self.next_call();
    }

    /// The controller stops where it is, forgets everything and starts again.
    pub(super) fn crash(&mut self) {
        self.record(Actor::Fault, "the controller crashes".to_owned());
        let controller = &mut self.controller;
        let mut cache = std::mem::take(&mut controller.cache);
        cache.forget();
        *controller = Controller { cache, life: controller.life + 1, ..Controller::default() };
        let life = controller.life;
        let pause = self.between(50, 5_000);
        self.agenda.add(pause, Event::Restart { life });
    }

    pub(super) fn restart(&mut self, life: u32) {
        if life == self.controller.life && !self.controller.is_running {
            self.controller.start(&self.server);
            self.wake(0);
        }
    }
}

impl<W: Simulated> Task<W> {
    fn new(plan: Plan<W::Status>, view: Arc<View<W>>) -> Self {
        let mut task = Self {
            view,
            stage: Stage::Revision,
            errands: Vec::new(),
            has_scaled: false,
            scale: Outcome::Skipped,
            update: Outcome::Skipped,
            has_failed: false,
            created: 0,
            batch_end: 1,
            plan,
        };
        task.enter(Stage::Revision);
        task
    }

    /// Prepares the errands of a stage.
    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        let actions = match stage {
            Stage::Revision => {
                let call = match self.plan.revision.clone() {
                    None => return,
                    Some(RevisionStep::Create(revision)) => Call::CreateRevision(revision),
                    Some(RevisionStep::Patch { revision, patch }) => Call::PatchRevision { revision, patch },
                };
                self.errands.push(Errand::new(stage, None, [call]));
                return;
            }
            Stage::Release => std::mem::take(&mut self.plan.release),
            Stage::Scale => {
                self.scale = outcome(self.plan.problems.scale.as_ref());
                self.update = outcome(self.plan.problems.update.as_ref());
                let (beside, after) = self.plan.split_update();
                let beside: Vec<Action> = beside.into_iter().cloned().collect();
                let after = after.into_iter().cloned().collect();
                self.plan.update = after;
                self.add(Stage::Update, beside);
                std::mem::take(&mut self.plan.scale)
            }
            Stage::Update if self.has_scaled => {
                if !self.plan.update.is_empty() && matches!(self.update, Outcome::Succeeded) {
                    self.update = Outcome::Skipped;
                }
                return;
            }
            Stage::Update => std::mem::take(&mut self.plan.update),
            Stage::Closing => {
                let status = self.plan.status.take();
                let patch = status.and_then(|status| status.patch(&self.scale, &self.update));
                let owner = self.plan.owner_patch.take();
                let obsolete = std::mem::take(&mut self.plan.obsolete_revisions);
                let calls = patch.into_iter().map(Call::Status).chain(owner.map(Call::Owner));
                for call in calls.chain(obsolete.into_iter().map(Call::DeleteRevision)) {
                    self.errands.push(Errand::new(stage, None, [call]));
                }
                return;
            }
        };
        self.add(stage, actions);
    }

    fn add(&mut self, stage: Stage, actions: Vec<Action>) {
        self.errands.extend(actions.into_iter().map(|action| {
            let calls = calls_of::<W>(&action);
            Errand::new(stage, Some(action), calls)
        }));
    }

    /// Goes to the stage of the next call; false where there is none.
    fn advance(&mut self) -> bool {
        loop {
            self.errands.retain(|errand| !errand.calls.is_empty());
            if !self.errands.is_empty() {
                return true;
            }
            let next = match self.stage {
                Stage::Revision if self.plan.revision.is_some() => return false,
                Stage::Revision => Stage::Release,
                Stage::Release => Stage::Scale,
                Stage::Scale => Stage::Update,
                Stage::Update => Stage::Closing,
                Stage::Closing => return false,
            };
            self.enter(next);
        }
    }

    /// How many errands may continue now: creations are made in their order, closing calls too, the others in
    /// any order.
    fn choices(&self) -> usize {
        if self.stage == Stage::Closing { 1 } else { self.errands.len() }
    }

    /// Where the errand is that continues with this choice.
    fn position(&self, choice: usize) -> Option<usize> {
        let is_creation = |errand: &Errand| matches!(errand.action, Some(Action::CreatePod { .. }));
        match self.errands.get(choice)? {
            errand if is_creation(errand) => self.errands.iter().position(is_creation),
            _ => Some(choice),
        }
    }

    /// Takes note of how a call went.
    fn note(&mut self, position: usize, result: Result<(), Refusal>, controller: &mut Controller<W>) {
        let Some(errand) = self.errands.get_mut(position) else { return };
        let is_creation = matches!(errand.action, Some(Action::CreatePod { .. }));
        let stage = errand.stage;
        let is_over = errand.calls.is_empty();
        let refusal = match result {
            Ok(()) => {
                // Also an action of which only a part was done makes the update step out of date.
                self.has_scaled |= stage == Stage::Scale;
                if is_over && is_creation {
                    self.count_creation();
                }
                return;
            }
            Err(refusal) => refusal,
        };
        self.has_failed = true;
        // A call without an answer may have been carried out.
        self.has_scaled |= stage == Stage::Scale && refusal == Refusal::Unavailable;
        if let Some(Action::CreatePod { instance_id, .. }) = &errand.action {
            controller.refused.insert(instance_id.clone());
        }
        errand.calls.clear();
        let outcome = match stage {
            Stage::Scale => Some(&mut self.scale),
            Stage::Update => Some(&mut self.update),
            Stage::Revision | Stage::Release | Stage::Closing => None,
        };
        if let Some(outcome) = outcome
            && refusal != Refusal::Conflict
            && !matches!(outcome, Outcome::Failed(_))
        {
            *outcome = Outcome::Failed(format!("{refusal:?}"));
        }
        if is_creation {
            let left = self.batch_end.saturating_sub(self.created + 1);
            self.count_creation();
            let mut kept = 0;
            self.errands.retain(|errand| {
                let is_creation = matches!(errand.action, Some(Action::CreatePod { .. }));
                kept += usize::from(is_creation && !errand.calls.is_empty());
                !is_creation || kept <= left
            });
        }
    }

    fn count_creation(&mut self) {
        self.created += 1;
        if self.created == self.batch_end {
            // Batches of 1, 2, 4, ...: this one and all before it make a power of two less one.
            self.batch_end = self.batch_end * 2 + 1;
        }
    }
}

/// One class, whose volumes can grow.
fn storage_classes() -> StorageClasses {
    let mut classes = StorageClasses::default();
    let name = STORAGE_CLASS.into();
    classes.apply(StorageClass { name, allows_expansion: true, is_default: false, created: None });
    classes
}

fn outcome(problem: Option<&String>) -> Outcome {
    problem.map_or(Outcome::Succeeded, |problem| Outcome::Failed(problem.clone()))
}

impl Errand {
    fn new(stage: Stage, action: Option<Action>, calls: impl IntoIterator<Item = Call>) -> Self {
        Self { stage, action, calls: calls.into_iter().collect(), version: None }
    }
}

/// The calls that an action takes.
fn calls_of<W: Simulated>(action: &Action) -> Vec<Call> {
    match action {
        Action::CreatePod { name, json, claims, instance_id, .. } => {
            let claims = claims.iter().cloned().map(Call::CreateClaim);
            let (name, json, id) = (name.clone(), json.clone(), instance_id.clone());
            let pod = Call::CreatePod { name, json, id };
            claims.chain([pod]).collect()
        }
        Action::DeletePod { pod, claims, .. } => {
            let claims = claims.iter().cloned().map(Call::DeleteClaim);
            [Call::DeletePod(pod.clone())].into_iter().chain(claims).collect()
        }
        Action::WritePod { pod, writes, .. } => {
            let write = |write: &PodWrite| Call::WritePod { pod: pod.clone(), write: write.clone() };
            writes.iter().map(write).collect()
        }
        Action::DeleteClaim(claim) => vec![Call::DeleteClaim(claim.clone())],
        Action::CreateClaim { claim, .. } => vec![Call::CreateClaim(claim.clone())],
        Action::HandOverClaim { claim, patch, .. } | Action::WriteClaim { claim, patch, .. } => {
            vec![Call::HandOver { claim: claim.clone(), patch: patch.clone() }]
        }
        Action::DeleteChild { kind, child } if kind.kind == W::KIND => {
            vec![Call::DeleteWorkload(child.clone())]
        }
        // Not simulated.
        Action::CreateChild { .. }
        | Action::PatchChild { .. }
        | Action::AdoptChild { .. }
        | Action::DeleteChild { .. } => Vec::new(),
    }
}
