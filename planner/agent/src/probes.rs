//! Which probes run, what their results are, and what the status of the NodePodProbe says
//! (docs/behaviour/node-agent.md#probes).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Time;
use api::kinds::nodepodprobe::{NodePodProbe, PodProbeStatus, ProbeState};
use jiff::Timestamp;
use serde_json::json;

use super::tasks::{Change, Worker};
use values::event::Event;

mod record;
#[cfg(test)]
mod tests;
mod work;

use record::Record;
pub use work::{Handler, Terms, Work};

/// A result that stays the same is reported again after so long.
const AGAIN_SECONDS: i64 = 600;
/// How long the write of a state waits for others.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long other writes wait.
const AT_LEISURE: Duration = Duration::from_secs(1);

/// One probe of one Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The UID of the Pod.
    pub uid: String,
    /// The name of the probe.
    pub probe: String,
}

/// What to do about workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop this worker. What it still finds does not count.
    Stop(Worker),
    /// Start this worker.
    Start(Worker, Arc<Work>),
    /// Start this worker in the place of one that was stopped, at once.
    Restart(Worker, Arc<Work>),
}

/// What a worker has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The ID of the container that it checked.
    pub container: String,
    /// When that was started, where that is known.
    pub started: Option<Timestamp>,
    /// What came of the run.
    pub outcome: Outcome,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The container does not run.
    Stopped,
    /// It is too early, or the probe could not be run.
    Nothing,
    /// The probe has an answer.
    Ended {
        /// Whether it is a good one.
        succeeded: bool,
        /// What it says.
        message: String,
    },
}

/// What follows from a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The API server does not know the result.
    pub is_news: bool,
    /// The Event of the Pod.
    pub event: Option<Event>,
}

/// What this process knows of the probes of its node.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    known: BTreeMap<Key, Known>,
    workers: Worker,
}

#[derive(Clone, Debug)]
struct Known {
    worker: Worker,
    work: Arc<Work>,
    record: Option<Record>,
}

impl Work {
    /// Which probe it is.
    pub fn key(&self) -> Key {
        Key { uid: self.uid.clone(), probe: self.name.clone() }
    }
}

impl Probes {
    /// What to start and to stop, for the NodePodProbe as it is now. A probe that has changed gets another worker; it
    /// keeps its result where it checks the same as before.
    pub fn follow(&mut self, node: Option<&NodePodProbe>) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut wanted = wanted(node);
        self.known.retain(|key, known| {
            let keeps = wanted.contains_key(key);
            if !keeps {
                steps.push(Step::Stop(known.worker));
            }
            keeps
        });
        while let Some((key, work)) = wanted.pop_first() {
            let (start, record): (fn(Worker, Arc<Work>) -> Step, _) = match self.known.get(&key) {
                Some(known) if *known.work == work => continue,
                Some(known) => {
                    steps.push(Step::Stop(known.worker));
                    let mut record = known.record.clone();
                    if known.work.handler != work.handler || known.work.container != work.container {
                        record.iter_mut().for_each(Record::forget_container);
                    }
                    (Step::Restart, record)
                }
                None => (Step::Start, None),
            };
            self.workers = self.workers.saturating_add(1);
            let work = Arc::new(work);
            self.known.insert(key, Known { worker: self.workers, work: work.clone(), record });
            steps.push(start(self.workers, work));
        }
        steps
    }

    /// Takes down what a worker has found; `None` where the worker has been stopped before.
    pub fn report(
        &mut self,
        node: Option<&NodePodProbe>,
        key: &Key,
        worker: Worker,
        finding: Finding,
        now: Timestamp,
    ) -> Option<Heard> {
        let known = self.known.get_mut(key).filter(|known| known.worker == worker)?;
        let Finding { container, started, outcome } = finding;
        let reported = node.and_then(|node| reported(node, key));
        let record = match &mut known.record {
            Some(record) if record.is_of(&container) => record,
            before => {
                // A result that an earlier process has reported still counts, if it is one of this container.
                let reported = reported.filter(|_| before.is_none());
                let reported = reported.and_then(|reported| Record::reported(reported, &container, started?));
                before.insert(reported.unwrap_or_else(|| Record::unknown(container, now)))
            }
        };
        let event = match outcome {
            Outcome::Nothing => None,
            Outcome::Stopped => record.stopped(&known.work.container, now),
            Outcome::Ended { succeeded, message } => {
                record.ended(succeeded, &message, &known.work.terms, now)
            }
        };
        Some(Heard { is_news: gather(reported, &record.state(&key.probe)).is_some(), event })
    }

    /// The write of the status that is due; none where the API server knows all. What this process has not checked
    /// yet stays as it is.
    pub fn change(&self, node: &NodePodProbe) -> Option<Change> {
        let mut statuses: Vec<PodProbeStatus> = Vec::new();
        let (mut count, mut due): (usize, Option<Duration>) = (0, None);
        for (key, known) in &self.known {
            let reported = reported(node, key);
            let state = match &known.record {
                Some(record) => {
                    let state = record.state(&key.probe);
                    due = gather(reported, &state).into_iter().chain(due).min();
                    state
                }
                None => match reported {
                    Some(reported) => reported.clone(),
                    None => continue,
                },
            };
            count = count.saturating_add(1);
            match statuses.last_mut().filter(|status| status.uid == key.uid) {
                Some(status) => status.probe_states.push(state),
                None => statuses.push(PodProbeStatus {
                    name: known.work.pod.clone(),
                    namespace: known.work.namespace.clone(),
                    probe_states: vec![state],
                    uid: key.uid.clone(),
                }),
            }
        }
        if node.status.pod_probe_statuses.iter().map(|pod| pod.probe_states.len()).sum::<usize>() > count {
            due = Some(RETRY_DELAY);
        }
        let metadata = json!({"resourceVersion": node.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": {"podProbeStatuses": statuses}}).to_string();
        due.map(|gather| Change { patch, gather })
    }
}

/// The probes that are to run; of those with one name the first.
fn wanted(node: Option<&NodePodProbe>) -> BTreeMap<Key, Work> {
    let mut wanted = BTreeMap::new();
    let node = node.filter(|node| node.metadata.deletion_timestamp.is_none());
    for pod in node.into_iter().flat_map(|node| &node.spec.pod_probes) {
        for probe in &pod.probes {
            let key = Key { uid: pod.uid.clone(), probe: probe.name.clone() };
            if let Entry::Vacant(vacant) = wanted.entry(key) {
                vacant.insert(Work::new(pod, probe));
            }
        }
    }
    wanted
}

/// What the API server knows of a probe.
fn reported<'n>(node: &'n NodePodProbe, key: &Key) -> Option<&'n ProbeState> {
    let mut pods = node.status.pod_probe_statuses.iter().filter(|pod| pod.uid == key.uid);
    pods.find_map(|pod| pod.probe_states.iter().find(|state| state.name == key.probe))
}

/// How long the write of a result waits for others; `None` where it is known. Controllers wait for states; that a message
/// has changed, and that a result is still the same, is reported later.
fn gather(reported: Option<&ProbeState>, found: &ProbeState) -> Option<Duration> {
    let Some(reported) = reported.filter(|reported| {
        reported.state == found.state && reported.last_transition_time == found.last_transition_time
    }) else {
        return Some(RETRY_DELAY);
    };
    let seconds = |state: &ProbeState| {
        let time = state.last_probe_time.as_ref().and_then(Time::timestamp);
        time.map_or(0, Timestamp::as_second)
    };
    let is_stale = seconds(found).saturating_sub(seconds(reported)) >= AGAIN_SECONDS;
    (is_stale || reported.message != found.message).then_some(AT_LEISURE)
}
