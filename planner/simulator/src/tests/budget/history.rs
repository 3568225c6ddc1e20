//! One history: what happens, and to whom.

use std::collections::VecDeque;
use std::sync::Arc;

use api::Raw;
use api::annotations::{IN_PLACE_UPDATE_STATE, UNHEALTHY_PODS};
use api::features::FeatureGates;
use api::kinds::podunavailablebudget::PodUnavailableBudget;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Defect;
use crate::agenda::{Agenda, Milliseconds, timestamp};
use kinds::podunavailablebudget::budget::Budget;
use kinds::podunavailablebudget::check::budget_of;
use kinds::podunavailablebudget::plan::{Snapshot, Workload, ended, plan};
use kinds::podunavailablebudget::reserve::{Answer, Claim, Rules};
use kinds::podunavailablebudget::terms::Operation;
use pod::observed::ObservedPod;
use values::moment::{Moment, Random};
use values::reservation::{ReservationState, Step};

/// How long a replica waits for the answer to a read, and to a write.
const TIMEOUT: (Milliseconds, Milliseconds) = (5_000, 2_000);
/// How late what nobody waits for any more may arrive.
const LATE: Milliseconds = 10_000;
/// The longest time from the admission of a deletion or eviction to its effect.
const LEAVES: Milliseconds = 8_000;
/// The same of a change.
const CHANGES: Milliseconds = 2_000;
/// When no more requests come.
const REQUESTS_END: Milliseconds = 30_000;
/// When everything has settled.
const END: Milliseconds = 90_000;
/// How long after a change of the spec what was admitted by the earlier one may take effect.
const AFTERMATH: Milliseconds = 20_000;
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
    Do { pod: Arc<ObservedPod>, operation: Operation, by_controller: bool },
    /// A Pod that was deleted is gone.
    Gone { uid: Box<str> },
    /// The workload brings a Pod.
    Bring { name: String },
    /// A Pod becomes ready.
    Ready { uid: Box<str> },
    /// The leader reconciles the budget.
    Reconcile { term: u32 },
    /// A replica starts anew.
    Crash { replica: usize },
    /// Another controller leads.
    TakeOver,
    /// The user changes the budget.
    Edit,
}

#[derive(Clone, Copy)]
enum Sender {
    Replica(usize, u64),
    Controller,
}

/// A request about a Pod.
struct Request {
    claim: Claim,
    pod: Arc<ObservedPod>,
    is_trial: bool,
}

/// A replica of the admission server.
#[derive(Default)]
struct Replica {
    reservations: ReservationState,
    /// The state of the budget that the watch has shown.
    seen: usize,
    clock: Milliseconds,
    waiting: VecDeque<Request>,
    batch: Vec<Request>,
    /// What the write in progress grants.
    granted: Vec<Answer>,
    call: u64,
    tries: u32,
}

/// The controller that leads.
#[derive(Default)]
struct Controller {
    term: u32,
    seen: usize,
    pods: usize,
    /// Pods that were read.
    read: Vec<(Milliseconds, Arc<ObservedPod>)>,
    /// How far its watch of Pods is behind, for a while.
    behind: Milliseconds,
    clock: Milliseconds,
}

pub(super) struct History {
    random: Random,
    agenda: Agenda<Event>,
    /// Names and UIDs that were given out.
    count: u64,
    /// All states of the budget and of the Pods, the newest last.
    budgets: Vec<(Milliseconds, Raw, Arc<PodUnavailableBudget>)>,
    pods: Vec<(Milliseconds, Pods)>,
    replicas: Vec<Replica>,
    leader: Controller,
    total: usize,
    /// How many may be away, since when, and how many until what an earlier spec allowed is over.
    most: usize,
    edited: Milliseconds,
    tolerated: usize,
    /// Pods come back under their names, as those of a StatefulSet do.
    keeps_names: bool,
    /// Whom the budget protects, which no edit changes.
    protection: [Budget; 1],
    /// The longest time that a watch stays behind.
    lag: Milliseconds,
    faults: bool,
    defect: Option<Defect>,
    failure: Option<String>,
    pub(super) granted: usize,
    /// Requests about Pods that were not ready, granted and refused.
    pub(super) unready: [usize; 2],
    pub(super) story: Option<Vec<String>>,
}

impl History {
    pub(super) fn new(seed: u64, defect: Option<Defect>, reported: bool) -> Self {
        let mut random = Moment { now: Timestamp::UNIX_EPOCH, seed }.random();
        let mut upto = |most: u64| random.next_u64() % (most + 1);
        let total = 3 + upto(5) as usize;
        let most = upto(3) as usize;
        let (replicas, lag, faults) = (1 + upto(2), [50, 500, 3_000, 8_000][upto(3) as usize], upto(3) > 0);
        let keeps_names = upto(1) == 0;
        let unhealthy = ["Release", "Protect"][upto(1) as usize];
        let replica = |_| Replica { clock: upto(2 * SKEW), ..Replica::default() };
        let replicas = (0..replicas).map(replica).collect();
        let budget = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "budget", "generation": 1, "resourceVersion": "1",
                "annotations": {UNHEALTHY_PODS: unhealthy}},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "unavailableAllowed": most, "currentAvailable": total,
                "desiredAvailable": total.saturating_sub(most), "totalReplicas": total},
        });
        let mut history = Self {
            agenda: Agenda::default(),
            count: 0,
            budgets: Vec::new(),
            pods: Vec::new(),
            replicas,
            leader: Controller::default(),
            random,
            total,
            most,
            edited: 0,
            tolerated: most,
            keeps_names,
            protection: [Budget::read(&budget.to_string()).unwrap()],
            lag,
            faults,
            defect,
            failure: None,
            granted: 0,
            unready: [0, 0],
            story: reported.then(Vec::new),
        };
        history.store_budget(budget);
        history.pods.push((0, Pods::default()));
        for number in 0..total {
            let pod = history.pod(&format!("web-{number}"), true);
            history.change(|pods| pods.push(pod));
        }
        history.agenda.add(0, Event::TakeOver);
        for _ in 0..25 {
            history.later(REQUESTS_END, Event::Request);
        }
        if history.faults {
            for replica in 0..history.replicas.len() {
                history.later(REQUESTS_END, Event::Crash { replica });
            }
            for _ in 0..2 {
                history.later(REQUESTS_END, Event::TakeOver);
                // For a while after, an earlier spec excuses what a defect does.
                if defect.is_none() {
                    history.later(REQUESTS_END, Event::Edit);
                }
            }
        }
        history
    }

    fn upto(&mut self, most: Milliseconds) -> Milliseconds {
        self.random.next_u64() % (most + 1)
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn goes_wrong(&mut self) -> bool {
        self.faults && self.now() < REQUESTS_END && self.upto(9) == 0
    }

    fn record(&mut self, text: impl FnOnce() -> String) {
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
        pod.metadata.creation_timestamp = Some(self.clock().into());
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
        let is_made_for_it = patch["metadata"]["resourceVersion"] == budget["metadata"]["resourceVersion"];
        if !is_made_for_it && !self.has(Defect::AnyVersion) {
            return Err(());
        }
        json_patch::merge(&mut budget["status"], &patch["status"]);
        self.record(|| format!("status {}", budget["status"]));
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

    fn watched_pods(&mut self) -> usize {
        if self.upto(3) == 0 || self.now() >= REQUESTS_END {
            self.leader.behind = self.now() - self.behind();
        }
        let time = self.now().saturating_sub(self.leader.behind);
        let shown = self.pods.partition_point(|(changed, _)| *changed <= time).saturating_sub(1);
        shown.max(self.leader.pods)
    }

    /// Whether more Pods are away than may be.
    fn check(&mut self) {
        let away = self.total - self.available().min(self.total);
        if self.now() > self.edited + AFTERMATH && away <= self.most {
            self.tolerated = self.most;
        }
        if away > self.tolerated && self.failure.is_none() {
            self.failure = Some(format!("Budget: {away} Pods are away, {} may be", self.tolerated));
        }
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        while self.agenda.next_time().is_some_and(|time| time < END) {
            let Some(event) = self.agenda.next() else { break };
            self.happen(event);
            self.check();
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        let status = &self.budgets.last().unwrap().2.status;
        let is_at_rest = status.disrupted_pods.is_empty()
            && status.unavailable_pods.is_empty()
            && status.current_available as usize == self.total
            && self.replicas.iter().all(|replica| replica.batch.is_empty() && replica.waiting.is_empty());
        if is_at_rest { Ok(()) } else { Err(format!("Rest: {status:?}, {} available", self.available())) }
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
                let reservations = &mut self.replicas[replica].reservations;
                match answer {
                    Ok(budget) if granted.is_empty() => reservations.read(budget),
                    Ok(budget) => {
                        reservations.written(budget);
                        return self.answer(replica, &granted);
                    }
                    Err(()) => reservations.forget(),
                }
                self.decide(replica);
            }
            Event::Silence { replica, call } if self.replicas[replica].call == call => {
                self.record(|| format!("replica {replica} hears nothing"));
                let replica_now = &mut self.replicas[replica];
                replica_now.granted.clear();
                replica_now.reservations.forget();
                self.decide(replica);
            }
            Event::Answer { .. } | Event::Silence { .. } => {}
            Event::Do { pod, operation, by_controller } => self.carry_out(&pod, operation, by_controller),
            Event::Gone { uid } => {
                let gone = self.live().iter().find(|pod| pod.metadata.uid == uid).cloned();
                if let Some(gone) = gone {
                    self.change(|pods| pods.retain(|pod| pod.metadata.uid != uid));
                    self.count += 1;
                    let name = format!("web-{}", self.count);
                    let name = if self.keeps_names { gone.metadata.name.to_string() } else { name };
                    self.later(1_000, Event::Bring { name });
                }
            }
            Event::Bring { name } => {
                let pod = self.pod(&name, false);
                let uid = pod.metadata.uid.clone();
                self.record(|| format!("{name} is created"));
                self.change(|pods| pods.push(pod));
                self.later(6_000, Event::Ready { uid });
            }
            Event::Ready { uid } => {
                self.change_pod(&uid, |pod| set_ready(pod, "True"));
            }
            Event::Reconcile { term } if self.leader.term == term => self.reconcile(),
            Event::Reconcile { .. } => {}
            Event::Crash { replica } => {
                self.record(|| format!("replica {replica} crashes"));
                let now = &mut self.replicas[replica];
                let (seen, call) = (now.seen, now.call + 1);
                *now = Replica { seen, call, clock: now.clock, ..Replica::default() };
            }
            Event::TakeOver => {
                self.record(|| "another controller leads".to_owned());
                // It lists everything after it has begun to lead.
                let (seen, pods) = (self.budgets.len() - 1, self.pods.len() - 1);
                let (term, clock) = (self.leader.term + 1, self.upto(2 * SKEW));
                self.leader = Controller { term, seen, pods, clock, ..Controller::default() };
                self.later(500, Event::Reconcile { term });
            }
            Event::Edit => {
                let most = self.upto(3) as usize;
                (self.most, self.edited, self.tolerated) = (most, self.now(), self.tolerated.max(most));
                let mut budget = self.budget();
                budget["spec"]["maxUnavailable"] = json!(most);
                let generation = budget["metadata"]["generation"].as_i64().unwrap() + 1;
                budget["metadata"]["generation"] = json!(generation);
                self.record(|| format!("maxUnavailable {most}"));
                self.store_budget(budget);
            }
        }
    }

    fn request(&mut self) {
        let at = self.upto(self.live().len().max(1) as u64 - 1) as usize;
        let Some(pod) = self.live().get(at).cloned() else { return };
        let operation = [Operation::Delete, Operation::Evict, Operation::Update][self.upto(2) as usize];
        if budget_of(&pod, &self.protection, &FeatureGates::default()).unwrap().is_none() {
            return self.carry_out(&pod, operation, false);
        }
        let by_controller = operation == Operation::Update && self.upto(1) == 0;
        if by_controller {
            // What the leader updates it knows.
            self.leader.pods = self.pods.len() - 1;
        }
        let is_trial = self.upto(7) == 0;
        let number = self.upto(self.replicas.len() as u64 - 1) as usize;
        let seen = self.watched_budget(self.replicas[number].seen);
        let watched = self.budgets[seen].1.clone();
        let replica = &mut self.replicas[number];
        replica.seen = seen;
        replica.reservations.watched(&watched);
        let dry_run = is_trial && self.defect != Some(Defect::TrialsTake);
        let claim = Claim { by_controller, ..Claim::new(&pod, operation, dry_run) };
        replica.waiting.push_back(Request { claim, pod, is_trial });
        if replica.batch.is_empty() {
            self.open(number);
        }
    }

    /// Takes in the claims at hand.
    fn open(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        replica.batch = replica.waiting.drain(..).collect();
        replica.tries = 0;
        replica.reservations.open();
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
        let claims: Vec<Claim> = replica.batch.iter().map(|request| request.claim.clone()).collect();
        let are_trials = replica.batch.iter().all(|request| request.is_trial);
        let (step, call) =
            (replica.reservations.decide(&Rules::new(&FeatureGates::default()), &claims, now), replica.call);
        let (event, way, timeout) = match step {
            Step::Answer(answers) => return self.answer(number, &answers),
            Step::Write { answers, .. } if self.has(Defect::Unwritten) => {
                return self.answer(number, &answers);
            }
            Step::Read => (Event::Read { replica: number, call }, 300, TIMEOUT.0),
            Step::Write { patch, answers } => {
                if are_trials {
                    self.failure = Some(format!("Trial: {patch} is written"));
                }
                self.replicas[number].granted = answers;
                let from = Sender::Replica(number, call);
                (Event::Write { from, patch, answer: !self.goes_wrong() }, 1_500, TIMEOUT.1)
            }
        };
        // A call may never arrive, or when nobody waits for its answer any more.
        if !self.goes_wrong() {
            let way = if self.goes_wrong() { LATE } else { way };
            self.later(way, event);
        }
        self.agenda.add(timeout, Event::Silence { replica: number, call });
    }

    fn answer(&mut self, number: usize, answers: &[Answer]) {
        self.replicas[number].call += 1;
        let batch = std::mem::take(&mut self.replicas[number].batch);
        assert_eq!(batch.len(), answers.len());
        for (Request { claim, pod, is_trial }, answer) in batch.into_iter().zip(answers) {
            self.record(|| format!("replica {number}: {:?} of {}: {answer:?}", claim.operation, claim.pod));
            if !pod.is_ready() {
                self.unready[usize::from(*answer != Answer::Granted)] += 1;
            }
            // What was admitted may come to nothing: another webhook refuses, or the client is gone.
            if *answer == Answer::Granted && !is_trial && !self.goes_wrong() {
                self.granted += 1;
                let time = if claim.operation == Operation::Update { CHANGES } else { LEAVES };
                let Claim { operation, by_controller, .. } = claim;
                self.later(time, Event::Do { pod, operation, by_controller });
            }
        }
        self.open(number);
    }

    fn carry_out(&mut self, pod: &ObservedPod, operation: Operation, by_controller: bool) {
        // Of a Pod that has changed meanwhile a change is admitted anew, or conflicts.
        if operation == Operation::Update && !self.live().iter().any(|live| **live == *pod) {
            return;
        }
        self.record(|| format!("{operation:?} of {}", pod.metadata.name));
        self.count += 1;
        let trace = [(IN_PLACE_UPDATE_STATE, self.count.to_string())].into_iter().collect();
        let (uid, now) = (pod.metadata.uid.clone(), self.clock());
        if operation == Operation::Update {
            let update = |pod: &mut ObservedPod| {
                set_ready(pod, "False");
                if by_controller {
                    pod.metadata.annotations = trace;
                }
            };
            if self.change_pod(&uid, update) {
                self.later(8_000, Event::Ready { uid });
            }
        } else if self.change_pod(&uid, |pod| pod.metadata.deletion_timestamp = Some(now.into())) {
            self.later(3_000, Event::Gone { uid });
        }
    }

    /// The Pods that the leader knows: what it has read is newer than what the watch has shown.
    fn known(&self) -> Vec<Arc<ObservedPod>> {
        let mut pods = (*self.pods[self.leader.pods].1).clone();
        for (_, read) in &self.leader.read {
            pods.retain(|pod| pod.metadata.name != read.metadata.name);
            pods.push(read.clone());
        }
        pods
    }

    fn reconcile(&mut self) {
        let pause = if self.now() < REQUESTS_END { 200 + self.upto(3_000) } else { 6_000 };
        self.agenda.add(pause, Event::Reconcile { term: self.leader.term });
        let seen = self.watched_budget(self.leader.seen);
        let pods = self.watched_pods();
        let time = self.pods[pods].0;
        (self.leader.seen, self.leader.pods) = (seen, pods);
        self.leader.read.retain(|(read, _)| time < *read);
        let now = timestamp(self.now() + self.leader.clock);
        let mut budget = (*self.budgets[seen].2).clone();
        if self.has(Defect::CountsRecorded) {
            budget.status.disrupted_pods.clear();
            budget.status.unavailable_pods.clear();
        }
        let replicas = i32::try_from(self.total).ok();
        let workloads = [Workload { uid: "set".to_owned(), replicas, is_deleted: false }];
        let gates = FeatureGates::default();
        let snapshot =
            |pods| Snapshot { budget: &budget, others: &[], pods, workloads: &workloads, gates: &gates };
        let known = self.known();
        for name in ended(&snapshot(&known), now) {
            let live = self.live().iter().find(|pod| *pod.metadata.name == *name).cloned();
            match live {
                Some(live) => self.leader.read.push((self.now(), live)),
                None if known.iter().any(|pod| *pod.metadata.name == *name) => return,
                None => {}
            }
        }
        let known = self.known();
        let Some(mut patch) = plan(&snapshot(&known), now).status else { return };
        if self.has(Defect::DropsAtOnce) {
            let mut changed: Value = serde_json::from_str(&patch).unwrap();
            for pod in budget.status.disrupted_pods.keys() {
                changed["status"]["disruptedPods"][pod] = Value::Null;
            }
            patch = changed.to_string();
        }
        if !self.goes_wrong() {
            let way = if self.goes_wrong() { LATE } else { 300 };
            self.later(way, Event::Write { from: Sender::Controller, patch, answer: false });
        }
    }
}

fn set_ready(pod: &mut ObservedPod, status: &str) {
    let condition = serde_json::from_value(json!({"type": "Ready", "status": status})).unwrap();
    pod.status.conditions = vec![condition].into();
}
