//! A workload's life in a simulated cluster: what users, nodes, chance and the controller do to it, in steps
//! that can be repeated. Nothing here reads a clock or talks to anybody; all that is random comes from one
//! seed.
//!
//! ```text
//!   user ----edits---.                          .--> kubelet, scheduler, nodes
//!                    v                          |       starts, restarts, becomes ready, dies
//!   controller --> server --news, late or lost--'
//!       ^                         |
//!       '------ cache <-----------'
//! ```
//!
//! The controller is the real planner ([`Workload::plan`], or whatever is given in its place), carried out as [`Plan`] documents it: one call after another, any of which may fail,
//! lose its answer, or be the last before a crash. It sees the cluster only through its cache.
//!
//! `checks` watches each call. It distinguishes what the controller itself takes away from what users and
//! faults take, by comparing the Pods as they are with those that the plan was made from.
//!
//! What belongs here makes up a cluster, or checks what a plan did to it: rules of the product belong to their kind.
//!
//! Server, cache, controller, kubelet, hooks and faults know Pods, claims, revisions and nodes. A kind of
//! workload adds a file like [`cloneset`] or [`statefulset`]: an implementation of [`Simulated`], which says how users edit the
//! object and which rules hold for it alone.
//!
//! A cluster has one workload. A UnitedDeployment ([`fleet`], for tests) has one for each of its workloads, in step.
//!
//! A workload may have a Rollout, whose plans are carried out beside its own.
//!
//! Not simulated: ImagePullJobs, PodUnavailableBudgets, changes of resources, the deletion of a workload by users.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::features::FeatureGates;
use jiff::Timestamp;

use kinds::workload::kind::Parts;
use kinds::workload::plan::Plan;
use kinds::workload::snapshot::Snapshot;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;
use values::moment::{Moment, Random};

mod agenda;
pub mod broadcastjob;
mod cache;
pub mod chart;
mod checks;
pub mod cloneset;
mod controller;
pub mod daemonset;
#[cfg(any(test, feature = "test-util"))]
pub mod fleet;
mod hooks;
mod kind;
mod kubelet;
mod release;
mod server;
pub mod statefulset;
mod takeover;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod user;

pub use agenda::Milliseconds;
pub use controller::STORAGE_CLASS;
pub use hooks::answer;
pub use kind::{Bounds, Deed, End, Scene, Simulated, Violation};
pub use kubelet::NodeEdit;
pub use timeline::{Actor, Timeline};
pub use user::Step;

use agenda::{Agenda, timestamp};
use checks::Ledger;
use controller::Controller;
use kubelet::{Duty, Node, Silence};
use release::Release;
use server::{News, Server};

/// A workload that has not settled after so many events never does.
const MANY_EVENTS: u32 = 20_000;

/// The decision that is simulated.
pub type Planner<'p, W> = &'p (dyn Fn(&Snapshot<'_, W>, Moment) -> Plan<<W as Parts>::Status> + Sync);

/// How rough the cluster is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where all random numbers start.
    pub seed: u64,
    /// How often a call fails, loses its answer, or is the controller's last: from 0, never, to 1.
    pub fault_rate: f64,
    /// The longest time for which a watch stays behind.
    pub lag: Milliseconds,
    /// The longest time for which a hook of the workload's lifecycle holds a Pod; forever where there is
    /// none.
    pub hook: Option<Milliseconds>,
    /// Number of nodes.
    pub nodes: usize,
    /// The feature gates.
    pub gates: FeatureGates,
    /// Write down what happens.
    pub record: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            fault_rate: 0.0,
            lag: 200,
            hook: Some(5_000),
            nodes: 3,
            gates: FeatureGates::default(),
            record: false,
        }
    }
}

/// How a simulation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Every Pod is where it belongs, and nobody does anything any more.
    Converged,
    /// Nobody does anything any more, or a release waits for longer; but this is not as it should be.
    Unfinished(Vec<String>),
    /// There is no end to what is done, or a rule was broken. This is what would come next.
    Restless(String),
}

/// What is going to happen.
#[derive(Clone, Debug)]
enum Event<W: Simulated> {
    /// Something is due for a Pod.
    Duty { name: Box<str>, uid: Box<str>, duty: Duty },
    /// A watch delivers something to the controller.
    Hear { connection: u32, news: News<W> },
    /// A broken watch begins anew, with a list.
    List { kind: server::Kind },
    /// A page of that list arrives.
    Page { connection: u32, kind: server::Kind, page: Vec<News<W>>, is_last: bool },
    /// The controller reconciles the workload.
    Look { life: u32 },
    /// The controller makes its next call.
    Call { life: u32 },
    /// The controller starts again after a crash.
    Restart { life: u32 },
    /// The cluster draws its conclusions from a node's silence.
    Silence { node: usize, failure: u32, step: Silence },
    /// A node comes back.
    Recover(usize),
    /// The API server does not refuse changes of a Pod any more.
    Relent { uid: Box<str> },
    /// A user does something.
    User(Step<W>),
    /// The controllers of the Rollout look at it.
    Lead,
    /// A user approves a step of the Rollout.
    Approve(i32),
}

/// The simulated cluster.
#[derive(Clone)]
pub struct Cluster<'p, W: Simulated> {
    settings: Settings,
    planner: Planner<'p, W>,
    random: Random,
    numbers: u64,
    agenda: Agenda<Event<W>>,
    server: Server<W>,
    nodes: Vec<Node>,
    /// What rules read of the Nodes.
    facts: Arc<Nodes>,
    /// Pods whose kubelet was notified of a change and has not looked yet.
    observing: BTreeSet<Box<str>>,
    /// Pods that the program behind the hooks was notified of and has not answered yet.
    answering: BTreeSet<Box<str>>,
    controller: Controller<W>,
    /// The Rollout, where the workload has one.
    release: Option<Release>,
    /// When the last news of each kind arrive: later ones do not overtake them.
    arrivals: [Milliseconds; server::Kind::ALL.len()],
    ledger: Ledger,
    timeline: Timeline,
    /// Users and chance have come to their end: no fault happens any more.
    is_calm: bool,
}

impl<'p, W: Simulated> Cluster<'p, W> {
    /// A cluster in which `workload` is created now.
    pub fn new(workload: W, settings: Settings, planner: Planner<'p, W>) -> Self {
        let random = Moment { now: Timestamp::UNIX_EPOCH, seed: settings.seed }.random();
        let mut cluster = Self {
            random,
            planner,
            numbers: 0,
            agenda: Agenda::default(),
            server: Server::new(workload),
            nodes: (1..=settings.nodes).map(Node::new).collect(),
            facts: Arc::default(),
            observing: BTreeSet::new(),
            answering: BTreeSet::new(),
            controller: Controller::default(),
            release: None,
            arrivals: Default::default(),
            ledger: Ledger::default(),
            timeline: Timeline::default(),
            is_calm: settings.fault_rate == 0.0,
            settings,
        };
        cluster.facts = cluster.present_nodes();
        let replicas = cluster.server.workload.bounds(&cluster.facts).replicas;
        let text = format!("creates the {} with {replicas} replicas", W::KIND);
        cluster.record(Actor::User, text);
        cluster.controller.start(&cluster.server);
        cluster.wake(0);
        cluster.after_event();
        cluster
    }

    /// Lets a user do `step` after `delay`.
    pub fn add(&mut self, delay: Milliseconds, step: Step<W>) {
        self.agenda.add(delay, Event::User(step));
    }

    /// Lets things happen until `time` has passed, nothing more would happen, or a rule is broken.
    pub fn run_until(&mut self, time: Milliseconds) {
        while self.violations().is_empty() && self.agenda.next_time().is_some_and(|next| next <= time) {
            self.step();
        }
        self.agenda.pass_until(time);
    }

    /// From now on chance decides by another seed, and watches stay behind for so long.
    pub fn diverge(&mut self, seed: u64, lag: Milliseconds) {
        self.random = Moment { now: self.now(), seed }.random();
        self.settings.lag = lag;
    }

    /// Ends all faults and lets things happen until nothing happens any more, for at most `limit`.
    pub fn settle_down(&mut self, limit: Milliseconds) -> Rest {
        self.calm_down();
        let end = self.agenda.now().saturating_add(limit);
        let mut events = 0;
        while self.violations().is_empty()
            && events < MANY_EVENTS
            && self.agenda.next_time().is_some_and(|next| next <= end)
        {
            self.step();
            events += 1;
        }
        let (reconcile, lead) = (self.controller.due(), self.release.as_ref().and_then(Release::due));
        let next = self.agenda.peek(|event, time| match event {
            Event::Look { .. } => reconcile == Some(time),
            Event::Lead => lead == Some(time),
            _ => true,
        });
        let waits = matches!(next, Some(Event::Lead | Event::Approve(_)));
        if let Some(event) = next.filter(|_| !waits) {
            return Rest::Restless(format!("{event:?}"));
        }
        let mut unrest = self.unrest();
        unrest.extend(self.unreleased());
        if unrest.is_empty() && !waits { Rest::Converged } else { Rest::Unfinished(unrest) }
    }

    /// What has happened so far; nothing where it is not recorded.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The rules that were broken.
    pub fn violations(&self) -> &[Violation] {
        &self.ledger.violations
    }

    /// Milliseconds since the start.
    pub fn elapsed(&self) -> Milliseconds {
        self.agenda.now()
    }

    /// The workload as the API server has it.
    pub fn workload(&self) -> &W {
        &self.server.workload
    }

    /// How many Pods the workload asks for now, and how far their number may differ.
    pub fn bounds(&self) -> Bounds {
        self.server.workload.bounds(&self.facts)
    }

    /// The Pods of the workload, by their names.
    pub fn pods(&self) -> Vec<Arc<ObservedPod>> {
        self.own_pods().cloned().collect()
    }

    /// The claims that are not being deleted: their names, and how much storage they have.
    pub fn claims(&self) -> Vec<(&str, &str)> {
        let claims = self.server.claims.values();
        let staying = claims.filter(|claim| claim.metadata.deletion_timestamp.is_none());
        staying
            .map(|claim| (&*claim.metadata.name, claim.status.capacity.get("storage").unwrap_or_default()))
            .collect()
    }

    /// No fault is to come.
    pub fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// What the controller says about the workload, and what blocks its progress.
    pub fn blockers(&self) -> Vec<String> {
        self.controller.blockers()
    }

    fn step(&mut self) {
        let Some(event) = self.agenda.next() else { return };
        match event {
            Event::Duty { name, uid, duty } => self.carry_out(&name, &uid, duty),
            Event::Hear { connection, news } => {
                if self.controller.cache.hear(connection, news) {
                    self.wake(0);
                }
            }
            Event::List { kind } => self.list(kind),
            Event::Page { connection, kind, page, is_last } => {
                if self.controller.cache.turn_page(connection, kind, page, is_last) {
                    self.wake(0);
                }
            }
            Event::Look { life } => self.look(life),
            Event::Call { life } => self.call(life),
            Event::Restart { life } => self.restart(life),
            Event::Silence { node, failure, step } => self.endure_silence(node, failure, step),
            Event::Recover(node) => self.recover_node(node),
            Event::Relent { uid } => drop(self.server.refusing.remove(&uid)),
            Event::User(step) => self.user_does(step),
            Event::Lead => self.lead(),
            Event::Approve(step) => self.approve(step),
        }
        self.after_event();
    }

    /// Sends the news on their way, and records.
    fn after_event(&mut self) {
        let all_news = self.server.take_news();
        if !all_news.is_empty() {
            self.lead_after(release::PAUSE);
        }
        for news in all_news {
            let kind = news.kind;
            let lag = self.settings.lag;
            let lag = if self.is_calm { lag.min(200) } else { self.below(lag + 1) };
            let Some(connection) = self.controller.cache.connection(kind) else { continue };
            let Some(arrival) = self.arrivals.get_mut(kind as usize) else { continue };
            *arrival = (*arrival).max(self.agenda.now() + lag);
            let delay = *arrival - self.agenda.now();
            self.agenda.add(delay, Event::Hear { connection, news: news.clone() });
            // Connections are resumed from a little before where they broke.
            if !self.is_calm && self.settings.fault_rate > 0.0 && self.chance(self.settings.fault_rate * 0.1)
            {
                self.agenda.add(delay, Event::Hear { connection, news });
            }
        }
        if self.settings.record {
            let (counts, now, time) = (self.counts(), self.agenda.now(), self.now());
            let min_ready = self.server.workload.bounds(&self.facts).min_ready_seconds;
            let pods: Vec<_> =
                self.own_pods().map(|pod| (pod.clone(), checks::look(pod, min_ready, time))).collect();
            self.timeline.draw(now, pods.iter().map(|(pod, look)| (&**pod, *look)), counts);
        }
    }

    /// A watch lists what there is now, page by page. What changes meanwhile it delivers after the last one.
    fn list(&mut self, kind: server::Kind) {
        let connection = self.controller.cache.list_begins(kind);
        let mut rest = cache::shown(kind, &self.server);
        let mut time = 0;
        loop {
            let size =
                if self.is_calm { rest.len() } else { 1 + usize::try_from(self.below(3)).unwrap_or(0) };
            let page: Vec<News<W>> = rest.drain(..size.min(rest.len())).collect();
            let is_last = rest.is_empty();
            time += self.between(1, self.settings.lag.clamp(1, 2_000));
            self.agenda.add(time, Event::Page { connection, kind, page, is_last });
            if is_last {
                break;
            }
        }
        if let Some(arrival) = self.arrivals.get_mut(kind as usize) {
            *arrival = self.agenda.now() + time;
        }
    }

    /// Somebody changed a Pod: others hear of it.
    fn settle(&mut self, actor: Actor, before: &ObservedPod, after: &Arc<ObservedPod>) {
        self.pod_changes(after);
        self.ledger.observe(actor, before, after, self.server.workload.selector());
        if self.settings.record {
            for change in timeline::describe(before, after) {
                self.record(actor, format!("Pod {} {change}", after.metadata.name));
            }
        }
    }

    /// Somebody asked for the deletion of a Pod.
    fn deleted(&mut self, actor: Actor, before: &ObservedPod) {
        let metadata = &before.metadata;
        match self.server.pod(&metadata.name, &metadata.uid).cloned() {
            Some(after) => self.settle(actor, before, &after),
            None => {
                self.ledger.lose(actor, before);
                self.record(actor, format!("Pod {} is deleted", metadata.name));
            }
        }
    }

    fn record(&mut self, actor: Actor, text: String) {
        if self.settings.record {
            let counts = self.counts();
            self.timeline.record(self.agenda.now(), actor, text, counts);
        }
    }

    // --- time and chance --------------------------------------------------------------------------

    fn now(&self) -> Timestamp {
        timestamp(self.agenda.now())
    }

    /// A number that was not given before.
    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A random number below `limit`; 0 where there is none.
    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64().checked_rem(limit).unwrap_or(0)
    }

    /// A random number from `from` to `to`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.next_fraction() < probability
    }

    /// Pods that belong to the workload, whatever state they are in.
    fn own_pods(&self) -> impl Iterator<Item = &Arc<ObservedPod>> {
        let uid = self.server.uid();
        self.server.pods.values().filter(move |pod| pod.controller().is_some_and(|owner| owner.uid == uid))
    }
}
