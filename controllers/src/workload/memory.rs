//! What is remembered of a workload beside the objects; losing it costs extra work, nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kinds::workload::action::Action;
use kinds::workload::children::Claim;
use kinds::workload::failures::Failures;
use kinds::workload::snapshot::Refusal;
use tokio::time::Instant;
use values::backoff::doubled;

/// Pause before what was refused is tried again; doubled with each further refusal, up to the longest.
pub(crate) const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(120));
/// What pauses of the creations are known by. They share one: each try has a new name.
pub(crate) const CREATIONS: &str = "creations";
/// What a pause of the status is known by.
pub(crate) const STATUS: &str = "status";

/// The memory of one workload.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The workload that it is about: another one may have taken its name.
    pub(crate) uid: String,
    /// Instance ids of Pods that could not be created: their claims are kept for the next try.
    pub(crate) refused: BTreeSet<String>,
    /// The namespace is being deleted: nothing is tried any more.
    pub(crate) namespace_ends: bool,
    /// What is not tried for a while.
    pub(crate) pauses: Pauses,
    /// What could not be planned or done, as it was reported last.
    problem: Option<String>,
    /// The revision at which there were no ImagePullJobs left.
    pub(crate) cleared: String,
    /// Where Pods failed.
    pub(crate) failures: Failures,
    /// How far names of revisions collided.
    pub(crate) collision_count: Option<i32>,
}

impl Memory {
    /// Nothing is known of the workload with this UID.
    pub(crate) fn of(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// Forgets Pods that were refused and have left no claim behind.
    pub(crate) fn keep_refused(&mut self, claims: &[Arc<Claim>]) {
        if !self.refused.is_empty() {
            let ids: HashSet<&str> = claims.iter().filter_map(|claim| claim.instance_id()).collect();
            self.refused.retain(|id| ids.contains(id.as_str()));
        }
    }

    /// Notes why not everything is done; true where that is news.
    pub(crate) fn is_news(&mut self, problem: Option<&str>) -> bool {
        let known = std::mem::replace(&mut self.problem, problem.map(str::to_owned));
        problem.is_some() && known.as_deref() != problem
    }
}

/// What the API server refused, by what it was asked for: that alone is held up, for longer with each refusal
/// in a row. Everything else continues, updates in progress above all.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    pauses: HashMap<Box<str>, Pause>,
    /// Pods when they were last counted.
    pods: usize,
}

#[derive(Debug)]
struct Pause {
    failures: u32,
    ends: Instant,
    error: Box<str>,
    /// Of the first failure in a row.
    since: Timestamp,
    /// The Pod whose update it is.
    pod: Option<Box<str>>,
}

impl Pauses {
    /// Begins a pause of what has this key.
    pub(crate) fn failed(&mut self, key: &str, error: &str) {
        let now = Instant::now();
        let fresh = || Pause { failures: 0, ends: now, error: "".into(), since: crate::now().now, pod: None };
        let pause = self.pauses.entry(key.into()).or_insert_with(fresh);
        pause.ends = now + doubled(PAUSE, pause.failures);
        pause.failures = pause.failures.saturating_add(1);
        pause.error = error.into();
    }

    /// Begins a pause of this action.
    pub(crate) fn action_failed(&mut self, action: &Action, error: &str) {
        let key = key(action);
        self.failed(&key, error);
        if let Some(pause) = self.pauses.get_mut(&*key)
            && let Some(pod) = action.updated_pod()
        {
            pause.pod = Some(pod.uid.as_str().into());
        }
    }

    /// The Pods whose update is held up, by UID.
    pub(crate) fn held_updates(&self) -> BTreeMap<Box<str>, Refusal> {
        let now = Instant::now();
        let held = self.pauses.values().filter(|pause| pause.ends > now);
        let refusal = |pause: &Pause| Refusal { message: pause.error.clone(), since: pause.since };
        held.filter_map(|pause| Some((pause.pod.clone()?, refusal(pause)))).collect()
    }

    /// The update of some Pod was refused, and that of another may well be refused, too.
    pub(crate) fn refuse_updates(&self) -> bool {
        self.pauses.values().any(|pause| pause.pod.is_some())
    }

    /// The next failure is the first again.
    pub(crate) fn succeeded(&mut self, key: &str) {
        self.pauses.remove(key);
    }

    /// Why this is not tried now.
    pub(crate) fn held(&self, key: &str) -> Option<String> {
        let pause = self.pauses.get(key).filter(|pause| pause.ends > Instant::now())?;
        Some(pause.error.to_string())
    }

    /// The time until the first pause ends.
    pub(crate) fn next(&self) -> Option<Duration> {
        let now = Instant::now();
        let remaining = self.pauses.values().map(|pause| pause.ends.saturating_duration_since(now));
        remaining.filter(|remaining| !remaining.is_zero()).min()
    }

    /// Forgets what is not planned any more, a while after its pause: updates that are held up are not planned
    /// either. With fewer `pods` than before there may be room for others: they are created at once.
    pub(crate) fn review<'a>(&mut self, planned: impl Iterator<Item = &'a Action>, pods: usize) {
        if pods < std::mem::replace(&mut self.pods, pods) {
            self.succeeded(CREATIONS);
        }
        if !self.pauses.is_empty() {
            let planned: HashSet<String> = planned.map(key).collect();
            let now = Instant::now();
            self.pauses.retain(|key, pause| planned.contains(&**key) || pause.ends + PAUSE.1 > now);
        }
    }

    /// Tries everything again: the spec says something else.
    pub(crate) fn clear(&mut self) {
        self.pauses.clear();
    }
}

/// What a pause of the action is known by.
pub(crate) fn key(action: &Action) -> String {
    match action {
        Action::CreatePod { .. } => CREATIONS.to_owned(),
        Action::DeletePod { pod, .. } => format!("delete {}", pod.uid),
        Action::WritePod { pod, reason, .. } => format!("{reason:?} {}", pod.uid),
        Action::CreateClaim { claim, .. } => format!("create claim {}", claim.name),
        Action::WriteClaim { claim, reason, .. } => format!("{reason:?} {}", claim.uid),
        Action::DeleteClaim(claim) => format!("delete {}", claim.uid),
        Action::HandOverClaim { claim, .. } => format!("hand over {}", claim.uid),
        Action::CreateChild { kind, name, .. } => format!("create {} {name}", kind.kind),
        Action::AdoptChild { child, .. } => format!("adopt {}", child.uid),
        Action::PatchChild { child, .. } => format!("patch {}", child.uid),
        Action::DeleteChild { child, .. } => format!("delete {}", child.uid),
    }
}

#[cfg(test)]
impl Pauses {
    /// All began earlier.
    pub(crate) fn age(&mut self, by: jiff::SignedDuration) {
        self.pauses.values_mut().for_each(|pause| pause.since -= by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinds::workload::action::WriteReason;
    use kinds::workload::object_version::ObjectVersion;
    use tokio::time::advance;

    fn deletion() -> Action {
        Action::DeleteClaim(ObjectVersion { uid: "u".to_owned(), ..ObjectVersion::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_held_up_for_longer_each_time_and_nothing_else() {
        let mut pauses = Pauses::default();
        for milliseconds in [100, 200, 400, 800] {
            pauses.failed("a", "no");
            let pause = Duration::from_millis(milliseconds);
            assert_eq!((pauses.held("a"), pauses.held("b")), (Some("no".to_owned()), None));
            assert_eq!(pauses.next(), Some(pause));
            advance(pause).await;
            assert_eq!((pauses.held("a"), pauses.next()), (None, None));
        }
        for _ in 0..50 {
            pauses.failed("a", "no");
        }
        assert_eq!(pauses.next(), Some(PAUSE.1));
        pauses.succeeded("a");
        pauses.failed("a", "no");
        assert_eq!(pauses.next(), Some(PAUSE.0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_planned_any_more_is_forgotten() {
        let mut pauses = Pauses::default();
        for key in [key(&deletion()), "delete other".to_owned(), STATUS.to_owned()] {
            pauses.failed(&key, "no");
        }
        pauses.review([deletion()].iter(), 3);
        assert_eq!(pauses.pauses.len(), 3, "it may come again");
        advance(PAUSE.0 + PAUSE.1).await;
        pauses.review([deletion()].iter(), 3);
        assert_eq!(pauses.pauses.len(), 1, "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pods_whose_update_is_refused_are_known_by_their_identity() {
        let write = |reason| Action::WritePod {
            pod: ObjectVersion { uid: "u".to_owned(), ..ObjectVersion::default() },
            writes: Vec::new(),
            reason,
            revision: String::new(),
        };
        let mut pauses = Pauses::default();
        pauses.action_failed(&write(WriteReason::Progress), "no");
        assert!(pauses.held_updates().is_empty(), "its update is not refused");
        pauses.action_failed(&write(WriteReason::UpdateInPlace), "first");
        let since = pauses.held_updates()["u"].since;
        advance(PAUSE.0).await;
        assert!(pauses.held_updates().is_empty(), "it is tried again");
        pauses.review([].iter(), 3);
        pauses.action_failed(&write(WriteReason::UpdateInPlace), "second");
        let refusal = Refusal { message: "second".into(), since };
        assert_eq!(pauses.held_updates(), [("u".into(), refusal)].into());
        assert_eq!(pauses.next(), Some(PAUSE.0 * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn where_a_pod_is_gone_another_one_is_tried_at_once() {
        let mut pauses = Pauses::default();
        let creation = Action::CreatePod {
            name: "web-a".to_owned(),
            instance_id: "a".to_owned(),
            revision: String::new(),
            json: String::new(),
            claims: Vec::new(),
        };
        let planned = [creation];
        pauses.review(planned.iter(), 3);
        pauses.failed(CREATIONS, "exceeded quota");
        for pods in [3, 4] {
            pauses.review(planned.iter(), pods);
            assert!(pauses.held(CREATIONS).is_some());
        }
        pauses.review(planned.iter(), 3);
        assert!(pauses.held(CREATIONS).is_none());
    }
}
