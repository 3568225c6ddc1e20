//! Takes units from what a budget has left, for several requests at once
//! (docs/behaviour/podunavailablebudget.md#taking-a-unit).
//!
//! Invariants:
//! 1. A Pod is recorded in the same write that takes its unit.
//! 2. A Pod that is recorded already takes none: it is not counted as available.
//! 3. Nothing is given where nothing is left.

use api::Raw;
use api::features::{Feature, FeatureGates};
use api::kinds::podunavailablebudget::{PodUnavailableBudget, Status};
use jiff::Timestamp;

use super::available::trace;
use super::record::{self, Entry};
use super::terms::{Operation, desired_available, given_total, protected_operations};
use pod::observed::ObservedPod;
use values::reservation::{Reservable, Reserved};
use values::verdict::Denial;

/// The most Pods that may be recorded before another one.
const MOST_RECORDED: usize = 2000;

/// What a request wants of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The Pod's name.
    pub pod: String,
    /// The Pod's identity.
    pub uid: String,
    /// When the Pod was created.
    pub created: Option<Timestamp>,
    /// What is to be done to it.
    pub operation: Operation,
    /// It is only tried out: nothing is taken.
    pub dry_run: bool,
    /// The trace of earlier updates on the Pod.
    pub trace: i32,
    /// It is made by the leader before it updates the Pod, and from its own cache: none that it counts by is older.
    pub by_controller: bool,
}

impl Claim {
    /// The claim of a request about this Pod.
    pub fn new(pod: &ObservedPod, operation: Operation, dry_run: bool) -> Self {
        let metadata = &pod.metadata;
        Self {
            pod: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
            created: metadata.created(),
            operation,
            dry_run,
            trace: trace(pod),
            by_controller: false,
        }
    }
}

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request may pass.
    Granted,
    /// It may not.
    Refused(Refusal),
}

/// Why a claim is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No more Pods may become unavailable.
    NothingLeft,
    /// Too many admitted requests have not taken effect yet.
    TooManyRecorded,
    /// The budget can't be read.
    Unreadable(String),
}

impl Refusal {
    /// The answer of the webhook (docs/behaviour/podunavailablebudget.md#refusals).
    pub fn denial(&self, budget: &str) -> Denial {
        let why = match self {
            Self::NothingLeft => "pub unavailable allowed is negative",
            Self::TooManyRecorded => {
                "DisruptedPods and UnavailablePods map too big - too many unavailable not confirmed by PUB controller"
            }
            Self::Unreadable(problem) => return Denial { code: 400, message: problem.clone() },
        };
        let message = format!(r#"podunavailablebudget.policy.kruise.io "{budget}" is forbidden: {why}"#);
        Denial { code: 403, message }
    }
}

/// What becomes of a claim on some state of its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// It is refused.
    Refused,
    /// It is granted, and its Pod recorded, or its entry renewed.
    Recorded,
    /// It is granted without a write.
    Free,
}

/// How claims on budgets are decided.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    vertical_scaling: bool,
}

impl Rules {
    /// The rules under these gates.
    pub fn new(gates: &FeatureGates) -> Self {
        Self { vertical_scaling: gates.enabled(Feature::InPlacePodVerticalScaling) }
    }

    /// What becomes of a claim if this state of its budget is the newest.
    pub fn foresee(self, budget: &Raw, claim: &Claim, now: Timestamp) -> Foreseen {
        let Reserved { patch, answers } = self.reserve(budget.get(), std::slice::from_ref(claim), now);
        match patch {
            _ if answers.iter().any(Self::is_refusal) => Foreseen::Refused,
            Some(_) => Foreseen::Recorded,
            None => Foreseen::Free,
        }
    }

    fn decide(self, budget: &PodUnavailableBudget, claims: &[Claim], now: Timestamp) -> Reserved<Answer> {
        let protected = protected_operations(budget, self.vertical_scaling);
        let mut left = current(budget);
        let mut is_taken = false;
        let answers = claims.iter().map(|claim| {
            if budget.metadata.deletion_timestamp.is_some()
                || left.desired_available <= 0
                || !protected.contains(&claim.operation)
            {
                return Answer::Granted;
            }
            let recorded = Entry::of(&left, &claim.pod, claim.created);
            let recorded = recorded.filter(|entry| !entry.is_over(&claim.uid, claim.trace));
            let leaves = matches!(claim.operation, Operation::Delete | Operation::Evict);
            match recorded {
                // The times do not show which of the two Pods was there first, and nothing may be recorded in
                // place of a later one. The entry ends soon.
                Some(entry) if !entry.is_of(&claim.uid) => return Answer::Refused(Refusal::NothingLeft),
                // A change is forgotten sooner than a deletion may take.
                Some(entry) if !entry.is_old(now) && (entry.leaves || !leaves) => return Answer::Granted,
                // It holds a unit of an earlier spec, or of before other Pods failed. Renewed it would hold it forever.
                Some(_) if left.current_available < left.desired_available => {
                    return Answer::Refused(Refusal::NothingLeft);
                }
                Some(_) => {}
                None if left.unavailable_allowed <= 0 => return Answer::Refused(Refusal::NothingLeft),
                None if record::count(&left) > MOST_RECORDED => {
                    return Answer::Refused(Refusal::TooManyRecorded);
                }
                None => {}
            }
            if !claim.dry_run {
                if recorded.is_none() {
                    left.unavailable_allowed -= 1;
                    // As the controller will count it, which so has nothing to write.
                    left.current_available = left.current_available.saturating_sub(1).max(0);
                }
                // By a clock that is behind, the entry would seem to be that of an earlier Pod.
                let since = claim.created.map_or(now, |created| now.max(created));
                let leaves = leaves || recorded.is_some_and(|entry| entry.leaves);
                let trace = if claim.by_controller && !leaves { claim.trace } else { 0 };
                record::record(&mut left, &claim.pod, &claim.uid, leaves, trace, since);
                is_taken = true;
            }
            Answer::Granted
        });
        let answers = answers.collect();
        Reserved { patch: if is_taken { record::patch(budget, &left) } else { None }, answers }
    }
}

/// The status, with its numbers brought up to date where the spec has changed since: the controller knows of that a
/// moment later (docs/behaviour/podunavailablebudget.md#a-budget-that-was-just-changed).
fn current(budget: &PodUnavailableBudget) -> Status {
    let mut status = budget.status.clone();
    let is_older =
        status.observed_generation.is_some() && status.observed_generation < budget.metadata.generation;
    let total = given_total(budget).unwrap_or(status.total_replicas);
    let Ok(desired) = desired_available(&budget.spec, total) else { return status };
    if is_older {
        let surplus = status.current_available.saturating_sub(status.desired_available).max(0);
        let taken = surplus.saturating_sub(status.unavailable_allowed).max(0);
        status.current_available = status.current_available.saturating_sub(taken);
        status.total_replicas = total;
        status.desired_available = desired;
        status.unavailable_allowed = status.current_available.saturating_sub(desired).max(0);
    }
    status
}

impl Reservable for Rules {
    type Claim = Claim;
    type Answer = Answer;

    fn reserve(&self, object: &str, claims: &[Claim], now: Timestamp) -> Reserved<Answer> {
        match serde_json::from_str(object) {
            Ok(budget) => self.decide(&budget, claims, now),
            Err(error) => {
                let refused = Answer::Refused(Refusal::Unreadable(error.to_string()));
                Reserved { patch: None, answers: vec![refused; claims.len()] }
            }
        }
    }

    fn is_refusal(answer: &Answer) -> bool {
        matches!(answer, Answer::Refused(_))
    }
}
