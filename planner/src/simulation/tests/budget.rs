//! A PodUnavailableBudget under many requests: replicas of the server that take units by compare-and-swap, the
//! controller that counts, a workload that brings Pods back, and all that may go wrong between them. In no moment may
//! fewer Pods be available than the budget wants.
//!
//! Watches lag, answers get lost or come late, writes are carried out after the one who sent them has given up,
//! replicas crash, two controllers believe that they lead, clocks differ, and requests that were admitted come to
//! nothing. `KUTTER_SIMULATION_HISTORIES` sets twice the number of histories; a failure names its seed, and
//! `KUTTER_SIMULATION_SEED=<seed> cargo test -p kutter-planner --lib simulation::tests::budget::one_history` tells it.

use std::collections::VecDeque;
use std::sync::Arc;

use api::Raw;
use api::features::FeatureGates;
use api::kinds::podunavailablebudget::PodUnavailableBudget;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::number;
use crate::kinds::podunavailablebudget::plan::{Snapshot, Workload, ended, plan};
use crate::kinds::podunavailablebudget::reserve::{Answer, Claim, Rules};
use crate::kinds::podunavailablebudget::terms::Operation;
use crate::pod::observed::ObservedPod;
use crate::simulation::agenda::{Agenda, Milliseconds, timestamp, whole_seconds};
use crate::text::moment::{Moment, Random};
use crate::workload::reservation::{Desk, Step};

/// Histories that are run where nothing else is said.
const HISTORIES: u64 = 1_000;
/// How long a replica waits for an answer.
const PATIENCE: Milliseconds = 5_000;
/// When no more requests come.
const REQUESTS_END: Milliseconds = 30_000;
/// When everything has come to rest.
const END: Milliseconds = 90_000;
/// How long what an earlier spec allowed may last: a request that was admitted late, and a Pod that comes back late.
const AFTERMATH: Milliseconds = 22_000;
/// Clocks differ from that of the API server by so much at most.
const SKEW: Milliseconds = 2_000;

type Pods = Arc<Vec<Arc<ObservedPod>>>;

/// Something that happens.
enum Event {
    /// Somebody asks for something to be done to a Pod.
    Request,
    /// A write of the budget's status comes to the API server.
    Write { from: Sender, patch: String, answer: bool },
    /// A replica's read comes to the API server.
    Read { replica: usize, call: u64 },
    /// An answer comes back to a replica.
    Answer { replica: usize, call: u64, answer: Result<Raw, ()> },
    /// A replica has waited for long enough.
    Silence { replica: usize, call: u64 },
    /// What was admitted is done.
    Do { pod: Arc<ObservedPod>, operation: Operation },
    /// A Pod that was deleted is gone.
    Gone { uid: Box<str> },
    /// The workload brings a Pod.
    Bring { name: String },
    /// A Pod becomes ready.
    Ready { uid: Box<str> },
    /// A controller looks at the budget.
    Reconcile { controller: usize },
    /// A replica or a controller starts anew.
    Crash { one: usize },
    /// The user changes the budget.
    Edit,
}

#[derive(Clone, Copy)]
enum Sender {
    Replica(usize, u64),
    Controller,
}

/// A replica of the admission server.
#[derive(Default)]
struct Replica {
    desk: Desk,
    /// The state of the budget that the watch has shown.
    seen: usize,
    clock: Milliseconds,
    waiting: VecDeque<(Claim, Arc<ObservedPod>)>,
    batch: Vec<(Claim, Arc<ObservedPod>)>,
    /// What the write under way grants.
    granted: Vec<Answer>,
    call: u64,
    tries: u32,
}

#[derive(Default)]
struct Controller {
    seen: usize,
    pods: usize,
    /// Pods that were read, by name; `None` for one that was gone.
    read: Vec<(Milliseconds, String, Option<Arc<ObservedPod>>)>,
    clock: Milliseconds,
}

struct History {
    random: Random,
    agenda: Agenda<Event>,
    /// Names and UIDs that were given out.
    count: u64,
    /// All states of the budget and of the Pods, the newest last.
    budgets: Vec<(Milliseconds, Raw, Arc<PodUnavailableBudget>)>,
    pods: Vec<(Milliseconds, Pods)>,
    replicas: Vec<Replica>,
    controllers: Vec<Controller>,
    total: usize,
    /// How many may be away, and since when.
    allowed: Vec<(Milliseconds, usize)>,
    /// The longest time that a watch stays behind.
    lag: Milliseconds,
    faults: bool,
    granted: usize,
    story: Option<Vec<String>>,
}

impl History {
    fn new(seed: u64, told: bool) -> Self {
        let mut random = Moment { now: Timestamp::UNIX_EPOCH, seed }.random();
        let mut upto = |most: u64| random.next_u64() % (most + 1);
        let total = 3 + upto(5) as usize;
        let most = upto(3) as usize;
        let (replicas, lag, faults) =
            (1 + upto(2), [100, 1_000, 4_000, 60_000][upto(3) as usize], upto(3) > 0);
        let mut clock = || upto(2 * SKEW);
        let replicas = (0..replicas).map(|_| Replica { clock: clock(), ..Replica::default() }).collect();
        let controllers = (0..2).map(|_| Controller { clock: clock(), ..Controller::default() }).collect();
        let mut history = Self {
            agenda: Agenda::default(),
            count: 0,
            budgets: Vec::new(),
            pods: Vec::new(),
            replicas,
            controllers,
            random,
            total,
            allowed: vec![(0, most)],
            lag,
            faults,
            granted: 0,
            story: told.then(Vec::new),
        };
        history.store_budget(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "budget", "generation": 1, "resourceVersion": "1"},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "unavailableAllowed": most, "currentAvailable": total,
                "desiredAvailable": total.saturating_sub(most), "totalReplicas": total},
        }));
        history.pods.push((0, Pods::default()));
        for number in 0..total {
            let pod = history.pod(&format!("web-{number}"), true);
            history.change(|pods| pods.push(pod));
        }
        for controller in 0..history.controllers.len() {
            history.later(1, Event::Reconcile { controller });
        }
        for _ in 0..25 {
            history.later(REQUESTS_END, Event::Request);
        }
        if history.faults {
            for one in 0..3 {
                history.later(REQUESTS_END, Event::Crash { one });
            }
            history.later(REQUESTS_END / 3, Event::Edit);
        }
        history
    }

    fn upto(&mut self, most: Milliseconds) -> Milliseconds {
        self.random.next_u64() % (most + 1)
    }

    fn goes_wrong(&mut self) -> bool {
        self.faults && self.now() < REQUESTS_END && self.upto(9) == 0
    }

    fn tell(&mut self, text: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(story) = &mut self.story {
            story.push(format!("{now:>7} {}", text()));
        }
    }

    fn now(&self) -> Milliseconds {
        self.agenda.now()
    }

    /// The clock of the API server.
    fn clock(&self) -> Timestamp {
        timestamp(self.now() + SKEW)
    }

    /// Lets something happen within this time.
    fn later(&mut self, most: Milliseconds, event: Event) {
        let delay = self.upto(most);
        self.agenda.add(delay, event);
    }

    fn pod(&mut self, name: &str, ready: bool) -> Arc<ObservedPod> {
        self.count += 1;
        let mut pod = ObservedPod::default();
        pod.metadata.namespace = "shop".into();
        pod.metadata.name = name.into();
        pod.metadata.uid = format!("uid-{}", self.count).into();
        pod.metadata.creation_timestamp = Some(whole_seconds(self.clock()));
        pod.metadata.labels = [("app", "web")].into_iter().collect();
        pod.status.phase = "Running".into();
        let status = if ready { "True" } else { "False" };
        let condition = serde_json::from_value(json!({"type": "Ready", "status": status})).unwrap();
        pod.status.conditions = vec![condition].into();
        Arc::new(pod)
    }

    fn live(&self) -> &Pods {
        &self.pods.last().unwrap().1
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<Arc<ObservedPod>>)) {
        let mut pods = (**self.live()).clone();
        change(&mut pods);
        self.pods.push((self.now(), Arc::new(pods)));
    }

    /// Changes a Pod that is still there.
    fn change_pod(&mut self, uid: &str, change: impl FnOnce(&mut ObservedPod)) -> bool {
        let mut found = false;
        self.change(|pods| {
            if let Some(pod) = pods.iter_mut().find(|pod| *pod.metadata.uid == *uid) {
                change(Arc::make_mut(pod));
                found = true;
            }
        });
        found
    }

    fn available(&self) -> usize {
        self.live().iter().filter(|pod| pod.is_active() && pod.is_ready()).count()
    }

    fn store_budget(&mut self, mut budget: Value) {
        budget["metadata"]["resourceVersion"] = json!((self.budgets.len() + 1).to_string());
        let raw = Raw::parse(budget.to_string()).unwrap();
        self.budgets.push((self.now(), raw, Arc::new(serde_json::from_value(budget).unwrap())));
    }

    fn budget(&self) -> Value {
        serde_json::from_str(self.budgets.last().unwrap().1.get()).unwrap()
    }

    /// Carries out a patch of the status, if it was made for the present state.
    fn write(&mut self, patch: &str) -> Result<Raw, ()> {
        let patch: Value = serde_json::from_str(patch).unwrap();
        let mut budget = self.budget();
        if patch["metadata"]["resourceVersion"] != budget["metadata"]["resourceVersion"] {
            return Err(());
        }
        merge(&mut budget["status"], &patch["status"]);
        self.tell(|| format!("status {}", budget["status"]));
        self.store_budget(budget);
        Ok(self.budgets.last().unwrap().1.clone())
    }

    /// The time up to which a watch has come, at least.
    fn behind(&mut self) -> Milliseconds {
        let longest = if self.now() < REQUESTS_END { self.lag } else { 100 };
        self.now().saturating_sub(self.upto(longest))
    }

    fn watched_budget(&mut self, seen: usize) -> usize {
        let time = self.behind();
        self.budgets.partition_point(|(changed, ..)| *changed <= time).saturating_sub(1).max(seen)
    }

    fn watched_pods(&mut self, seen: usize) -> usize {
        let time = self.behind();
        self.pods.partition_point(|(changed, _)| *changed <= time).saturating_sub(1).max(seen)
    }

    /// The fewest Pods that have to be available.
    fn wanted(&self) -> usize {
        let since = self.allowed.iter().map(|(since, _)| *since).skip(1).chain([Milliseconds::MAX]);
        let counts =
            self.allowed.iter().zip(since).filter(|(_, until)| until.saturating_add(AFTERMATH) > self.now());
        self.total.saturating_sub(counts.map(|((_, most), _)| *most).max().unwrap_or_default())
    }

    fn run(&mut self) -> Result<(), String> {
        while self.agenda.next_time().is_some_and(|time| time < END) {
            let Some(event) = self.agenda.next() else { break };
            self.happen(event);
            let (available, wanted) = (self.available(), self.wanted());
            if available < wanted {
                return Err(format!("{available} of {} Pods are available, {wanted} are wanted", self.total));
            }
        }
        let status = &self.budgets.last().unwrap().2.status;
        let is_at_rest = status.disrupted_pods.is_empty()
            && status.unavailable_pods.is_empty()
            && status.current_available as usize == self.total
            && self.replicas.iter().all(|replica| replica.batch.is_empty() && replica.waiting.is_empty());
        if is_at_rest {
            Ok(())
        } else {
            Err(format!("not at rest: {status:?}, {} available", self.available()))
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request => self.request(),
            Event::Write { from, patch, answer } => {
                let outcome = self.write(&patch);
                if let (Sender::Replica(replica, call), true) = (from, answer) {
                    self.later(300, Event::Answer { replica, call, answer: outcome });
                }
            }
            Event::Read { replica, call } => {
                let budget = self.budgets.last().unwrap().1.clone();
                if !self.goes_wrong() {
                    self.later(300, Event::Answer { replica, call, answer: Ok(budget) });
                }
            }
            Event::Answer { replica, call, answer } if self.replicas[replica].call == call => {
                let granted = std::mem::take(&mut self.replicas[replica].granted);
                let desk = &mut self.replicas[replica].desk;
                match answer {
                    Ok(budget) if granted.is_empty() => desk.read(budget),
                    Ok(budget) => {
                        desk.written(budget);
                        return self.answer(replica, &granted);
                    }
                    Err(()) => desk.forget(),
                }
                self.decide(replica);
            }
            Event::Silence { replica, call } if self.replicas[replica].call == call => {
                self.tell(|| format!("replica {replica} hears nothing"));
                let replica_now = &mut self.replicas[replica];
                replica_now.granted.clear();
                replica_now.desk.forget();
                self.decide(replica);
            }
            Event::Answer { .. } | Event::Silence { .. } => {}
            Event::Do { pod, operation } => self.carry_out(&pod, operation),
            Event::Gone { uid } => {
                let gone = self.live().iter().find(|pod| pod.metadata.uid == uid).cloned();
                self.change(|pods| pods.retain(|pod| pod.metadata.uid != uid));
                if let Some(pod) = gone {
                    // Some workloads give a new Pod the name of the old one.
                    let keeps = self.upto(1) == 0;
                    self.count += 1;
                    let name =
                        if keeps { pod.metadata.name.to_string() } else { format!("web-{}", self.count) };
                    self.later(1_000, Event::Bring { name });
                }
            }
            Event::Bring { name } => {
                let pod = self.pod(&name, false);
                let uid = pod.metadata.uid.clone();
                self.tell(|| format!("{name} is created"));
                self.change(|pods| pods.push(pod));
                self.later(6_000, Event::Ready { uid });
            }
            Event::Ready { uid } => {
                self.change_pod(&uid, |pod| set_ready(pod, "True"));
            }
            Event::Reconcile { controller } => self.reconcile(controller),
            Event::Crash { one } => {
                self.tell(|| format!("replica {one} crashes"));
                if let Some(replica) = self.replicas.get_mut(one) {
                    let (seen, call) = (replica.seen, replica.call + 1);
                    *replica = Replica { seen, call, clock: replica.clock, ..Replica::default() };
                }
            }
            Event::Edit => {
                let most = self.upto(3) as usize;
                self.allowed.push((self.now(), most));
                let mut budget = self.budget();
                budget["spec"]["maxUnavailable"] = json!(most);
                let generation = budget["metadata"]["generation"].as_i64().unwrap() + 1;
                budget["metadata"]["generation"] = json!(generation);
                self.tell(|| format!("maxUnavailable {most}"));
                self.store_budget(budget);
            }
        }
    }

    fn request(&mut self) {
        let at = self.upto(self.live().len().max(1) as u64 - 1) as usize;
        let Some(pod) = self.live().get(at).cloned() else { return };
        let operation = [Operation::Delete, Operation::Evict, Operation::Update][self.upto(2) as usize];
        if !pod.is_active() || !pod.is_ready() {
            // It is not counted: nothing is asked.
            return self.carry_out(&pod, operation);
        }
        let number = self.upto(self.replicas.len() as u64 - 1) as usize;
        let seen = self.watched_budget(self.replicas[number].seen);
        let watched = self.budgets[seen].1.clone();
        let replica = &mut self.replicas[number];
        replica.seen = seen;
        replica.desk.watched(&watched);
        replica.waiting.push_back((Claim::new(&pod, operation, false), pod));
        if replica.batch.is_empty() {
            self.open(number);
        }
    }

    /// Takes in the claims at hand.
    fn open(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        replica.batch = replica.waiting.drain(..).collect();
        replica.tries = 0;
        replica.desk.open();
        if !replica.batch.is_empty() {
            self.decide(number);
        }
    }

    fn decide(&mut self, number: usize) {
        let now = timestamp(self.now() + self.replicas[number].clock);
        let replica = &mut self.replicas[number];
        (replica.call, replica.tries) = (replica.call + 1, replica.tries + 1);
        if replica.tries > 20 {
            replica.batch.clear();
            return self.open(number);
        }
        let claims: Vec<Claim> = replica.batch.iter().map(|(claim, _)| claim.clone()).collect();
        let (step, call) =
            (replica.desk.decide(&Rules::new(&FeatureGates::default()), &claims, now), replica.call);
        let event = match step {
            Step::Answer(answers) => return self.answer(number, &answers),
            Step::Read => Event::Read { replica: number, call },
            Step::Write { patch, answers } => {
                self.replicas[number].granted = answers;
                Event::Write { from: Sender::Replica(number, call), patch, answer: !self.goes_wrong() }
            }
        };
        // A call may never arrive, or when nobody waits for its answer any more.
        if !self.goes_wrong() {
            let way = if self.goes_wrong() { 2 * PATIENCE } else { 300 };
            self.later(way, event);
        }
        self.agenda.add(PATIENCE, Event::Silence { replica: number, call });
    }

    fn answer(&mut self, number: usize, answers: &[Answer]) {
        self.replicas[number].call += 1;
        let batch = std::mem::take(&mut self.replicas[number].batch);
        assert_eq!(batch.len(), answers.len());
        for ((claim, pod), answer) in batch.into_iter().zip(answers) {
            self.tell(|| format!("replica {number}: {:?} of {}: {answer:?}", claim.operation, claim.pod));
            // What was admitted may come to nothing: another webhook refuses, or the client is gone.
            if *answer == Answer::Granted && !self.goes_wrong() {
                self.granted += 1;
                self.later(2_000, Event::Do { pod, operation: claim.operation });
            }
        }
        self.open(number);
    }

    fn carry_out(&mut self, pod: &ObservedPod, operation: Operation) {
        self.tell(|| format!("{operation:?} of {}", pod.metadata.name));
        let (uid, now) = (pod.metadata.uid.clone(), self.clock());
        if operation == Operation::Update {
            if self.change_pod(&uid, |pod| set_ready(pod, "False")) {
                self.later(8_000, Event::Ready { uid });
            }
        } else if self.change_pod(&uid, |pod| pod.metadata.deletion_timestamp = Some(now)) {
            self.later(3_000, Event::Gone { uid });
        }
    }

    /// The Pods that a controller knows: what it has read is newer than what the watch has shown.
    fn known(&self, number: usize) -> Vec<Arc<ObservedPod>> {
        let controller = &self.controllers[number];
        let mut pods = (*self.pods[controller.pods].1).clone();
        for (_, name, read) in &controller.read {
            pods.retain(|pod| *pod.metadata.name != **name);
            pods.extend(read.clone());
        }
        pods
    }

    fn reconcile(&mut self, number: usize) {
        let (seen, pods) = (self.controllers[number].seen, self.controllers[number].pods);
        let seen = self.watched_budget(seen);
        let pods = self.watched_pods(pods);
        let time = self.pods[pods].0;
        let controller = &mut self.controllers[number];
        (controller.seen, controller.pods) = (seen, pods);
        controller.read.retain(|(read, ..)| time < *read);
        let clock = controller.clock;
        let now = timestamp(self.now() + clock);
        let budget = self.budgets[seen].2.clone();
        let workloads =
            [Workload { uid: "set".to_owned(), replicas: i32::try_from(self.total).ok(), is_deleted: false }];
        let gates = FeatureGates::default();
        let snapshot =
            |pods| Snapshot { budget: &budget, others: &[], pods, workloads: &workloads, gates: &gates };
        let known = self.known(number);
        for name in ended(&snapshot(&known), now) {
            let live = self.live().iter().find(|pod| *pod.metadata.name == *name).cloned();
            let time = self.now();
            self.controllers[number].read.push((time, name, live));
        }
        let known = self.known(number);
        let snapshot = snapshot(&known);
        if let Some(patch) = plan(&snapshot, now).status
            && !self.goes_wrong()
        {
            let way = if self.goes_wrong() { 2 * PATIENCE } else { 300 };
            self.later(way, Event::Write { from: Sender::Controller, patch, answer: false });
        }
        let pause = if self.now() < REQUESTS_END { 200 + self.upto(3_000) } else { 6_000 };
        self.agenda.add(pause, Event::Reconcile { controller: number });
    }
}

fn set_ready(pod: &mut ObservedPod, status: &str) {
    let condition = serde_json::from_value(json!({"type": "Ready", "status": status})).unwrap();
    pod.status.conditions = vec![condition].into();
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return object.clone_from(patch) };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

#[test]
fn never_are_more_pods_gone_than_allowed() {
    let count = number("KUTTER_SIMULATION_HISTORIES").map_or(HISTORIES, |count| count / 2);
    let first = number("KUTTER_SIMULATION_FIRST").unwrap_or(0);
    let mut granted = 0;
    for seed in first..first + count {
        let mut history = History::new(seed, false);
        if let Err(failure) = history.run() {
            let mut history = History::new(seed, true);
            drop(history.run());
            let story = history.story.unwrap_or_default().join("\n");
            panic!("{story}\nKUTTER_SIMULATION_SEED={seed}: {failure}");
        }
        granted += history.granted;
    }
    assert!(granted as u64 > count * 3, "the histories do nothing: {granted} requests were granted");
}

#[test]
fn one_history() {
    let Some(seed) = number("KUTTER_SIMULATION_SEED") else { return };
    let mut history = History::new(seed, true);
    let outcome = history.run();
    let story = history.story.unwrap_or_default().join("\n");
    assert!(outcome.is_ok(), "{story}\n{outcome:?}");
}
