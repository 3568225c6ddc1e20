//! What happens to Pods without anybody's decision: they are scheduled, their containers start, restart with
//! another image, become ready, stop. Nodes fail and come back.

use std::sync::Arc;

use api::conditions::KRUISE_POD_READY;
use jiff::Timestamp;

use super::agenda::Milliseconds;
use super::kind::Simulated;
use super::server::Precondition;
use super::timeline::Actor;
use super::{Cluster, Event};
use pod::kruise_pod_ready;
use pod::node_fit::{NodeFacts, Nodes, Taint};
use pod::observed::{Container, ContainerReport, ContainerState, ContainerStatus};
use pod::observed::{ObservedPod, Terminated, Waiting};
use pod::write::condition;

mod ending;

use ending::{ends, has_ended};

/// An image whose name holds this cannot be pulled.
const BAD: &str = "bad";
/// How long a node is silent before its Pods count as not ready, before they are evicted, and before their
/// objects are removed by force. Kubernetes takes minutes; nothing here depends on that.
const SILENCE: [Milliseconds; 3] = [5_000, 15_000, 40_000];

/// What is done for one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Choose a node.
    Schedule,
    /// Set the first condition of readiness gate `KruisePodReady`.
    OpenGate,
    /// Start the Pod's containers.
    Start,
    /// Look at what changed in the Pod.
    Observe,
    /// Start a container that was stopped.
    StartContainer(usize),
    /// The container passes its probe, if it is still the one with this number of restarts.
    Ready(usize, i32),
    /// The container comes to its end, if it is still the one with this number of restarts.
    End(usize, i32),
    /// The Pod's containers have stopped.
    Stop,
    /// A container dies.
    Die(usize),
    /// The program behind the workload's hooks lets the Pod continue.
    Answer,
}

/// A node of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: Box<str>,
    pub(super) is_alive: bool,
    /// It has left the cluster.
    is_gone: bool,
    facts: Arc<NodeFacts>,
    /// Counts failures: what was planned for an earlier one does not hold for the next.
    failures: u32,
}

impl Node {
    pub(super) fn new(index: usize) -> Self {
        let name = format!("node-{index}");
        let labels = [("kubernetes.io/hostname", name.as_str())].into_iter().collect();
        let allocatable = [("pods", "110"), ("cpu", "8"), ("memory", "32Gi")].into_iter().collect();
        let facts = Arc::new(NodeFacts { labels, allocatable, ..NodeFacts::default() });
        Self { name: name.into(), is_alive: true, is_gone: false, facts, failures: 0 }
    }
}

/// What people do to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEdit {
    /// They put a taint with this effect on it, or take it away.
    Taint(Option<&'static str>),
    /// They cordon it, or let Pods come again.
    Cordon(bool),
    /// It leaves the cluster, and its Pods with it.
    Leave,
    /// A new one joins.
    Join,
}

/// The taint that people put on nodes.
const TAINT: &str = "example.com/taken";

/// Steps after the failure of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Its Pods count as not ready.
    NotReady,
    /// Its Pods are evicted.
    Evict,
    /// The node is given up: its Pods' objects are removed.
    GiveUp,
}

impl<W: Simulated> Cluster<'_, W> {
    /// Lets `duty` be done for the Pod between `from` and `to` milliseconds from now.
    pub(super) fn add_duty(&mut self, pod: &ObservedPod, duty: Duty, from: Milliseconds, to: Milliseconds) {
        let delay = self.between(from, to);
        let (name, uid) = (pod.metadata.name.clone(), pod.metadata.uid.clone());
        self.agenda.add(delay, Event::Duty { name, uid, duty });
    }

    /// A Pod was created.
    pub(super) fn pod_appears(&mut self, pod: &ObservedPod) {
        self.add_duty(pod, Duty::Schedule, 10, 500);
        self.call_hooks(pod);
        if pod.has_readiness_gate(KRUISE_POD_READY) {
            self.add_duty(pod, Duty::OpenGate, 5, 300);
        }
    }

    /// Somebody wrote to a Pod: its kubelet hears of that soon.
    pub(super) fn pod_changes(&mut self, pod: &ObservedPod) {
        if !pod.spec.node_name.is_empty() && self.observing.insert(pod.metadata.uid.clone()) {
            self.add_duty(pod, Duty::Observe, 10, 600);
        }
        self.call_hooks(pod);
    }

    /// Does what is due for a Pod, if it still exists and its node lives.
    pub(super) fn carry_out(&mut self, name: &str, uid: &str, duty: Duty) {
        match duty {
            Duty::Observe => self.observing.remove(uid),
            Duty::Answer => self.answering.remove(uid),
            _ => false,
        };
        let Some(pod) = self.server.pod(name, uid).cloned() else { return };
        let is_of_node = !pod.spec.node_name.is_empty() && !matches!(duty, Duty::OpenGate | Duty::Answer);
        if is_of_node && !self.node_is_alive(&pod.spec.node_name) {
            return;
        }
        let now = self.now();
        match duty {
            Duty::Schedule => self.schedule(&pod),
            Duty::OpenGate => self.open_gate(&pod),
            Duty::Start => self.start_containers(&pod),
            Duty::Observe => self.observe(&pod),
            Duty::StartContainer(index) => self.start_container(&pod, index),
            Duty::Ready(index, restarts) => self.change(Actor::Kubelet, &pod, |pod| {
                let is_the_same = |status: &ContainerStatus| {
                    status.restart_count == restarts && status.state == ContainerState::default()
                };
                if pod.metadata.deletion_timestamp.is_none()
                    && statuses(pod).nth(index).is_some_and(is_the_same)
                {
                    statuses_mut(pod).nth(index).into_iter().for_each(|status| status.ready = true);
                    judge(pod, now);
                }
            }),
            Duty::End(index, restarts) => self.end_container(&pod, index, restarts),
            Duty::Stop => {
                self.change(Actor::Kubelet, &pod, |pod| {
                    statuses_mut(pod).for_each(stop);
                    judge(pod, now);
                });
                self.server.stop_pod(name, uid);
            }
            Duty::Die(index) if ends(&pod) => self.kill_container(&pod, index),
            Duty::Die(index) => {
                self.change(Actor::Fault, &pod, |pod| {
                    statuses_mut(pod).nth(index).into_iter().for_each(stop);
                    judge(pod, now);
                });
                self.add_duty(&pod, Duty::StartContainer(index), 500, 8_000);
            }
            Duty::Answer => self.answer_hook(&pod),
        }
    }

    fn node_is_alive(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| *node.name == *name && node.is_alive)
    }

    fn schedule(&mut self, pod: &ObservedPod) {
        if pod.metadata.deletion_timestamp.is_some() || !pod.spec.node_name.is_empty() {
            return;
        }
        let alive: Vec<Box<str>> =
            self.nodes.iter().filter(|node| node.is_alive).map(|node| node.name.clone()).collect();
        let alive: Vec<Box<str>> = match &pod.spec.assigned_node {
            Some(assigned) => alive.into_iter().filter(|node| **node == **assigned).collect(),
            None => alive,
        };
        let choice = self.below(alive.len() as u64);
        let Some(node) = usize::try_from(choice).ok().and_then(|choice| alive.get(choice)) else {
            self.add_duty(pod, Duty::Schedule, 1_000, 2_000);
            return;
        };
        let now = self.now();
        self.change(Actor::Scheduler, pod, |pod| {
            pod.spec.node_name = node.as_ref().into();
            set_condition(pod, "PodScheduled", true, "", now);
        });
        self.add_duty(pod, Duty::Start, 200, 3_000);
    }

    /// What the controller of this gate does. Pods with a workload get the condition from that one's controller, but for
    /// those of jobs.
    fn open_gate(&mut self, pod: &ObservedPod) {
        let now = self.now();
        if (pod.controller().is_none() || W::PODS_END) && kruise_pod_ready::first(pod, now).is_some() {
            self.change(Actor::Kutter, pod, |pod| set_condition(pod, KRUISE_POD_READY, true, "", now));
        }
    }

    fn start_containers(&mut self, pod: &ObservedPod) {
        if pod.metadata.deletion_timestamp.is_some() || &*pod.status.phase != "Pending" {
            return;
        }
        let now = self.now();
        self.change(Actor::Kubelet, pod, |pod| {
            let status = |container: &Container| {
                let waiting = Some(Waiting::default());
                ContainerStatus::from(ContainerReport {
                    name: container.name.clone(),
                    state: ContainerState { waiting, ..ContainerState::default() },
                    restart_count: -1,
                    ..ContainerReport::default()
                })
            };
            let mut statuses: Vec<_> = pod.spec.containers.iter().map(status).collect();
            statuses.sort_by(|one, other| one.name.cmp(&other.name));
            pod.status.container_statuses = statuses.into();
            pod.status.init_container_statuses = pod.native_sidecars().map(status).collect();
            pod.status.phase = "Running".into();
            set_condition(pod, "Initialized", true, "", now);
        });
        for index in 0..pod.running_containers().count() {
            if let Some(pod) = self.server.pod(&pod.metadata.name, &pod.metadata.uid).cloned() {
                self.start_container(&pod, index);
            }
        }
    }

    /// Starts a container that does not run, with the image that the Pod asks for now.
    fn start_container(&mut self, pod: &ObservedPod, index: usize) {
        let Some(status) = statuses(pod).nth(index) else { return };
        let Some(container) = pod.container(&status.name) else { return };
        if pod.metadata.deletion_timestamp.is_some()
            || &*pod.status.phase != "Running"
            || status.state == ContainerState::default()
            || has_ended(pod, index)
        {
            return;
        }
        let image = container.image.clone();
        let restarts = status.restart_count + 1;
        let bad = image.contains(BAD);
        let now = self.now();
        let number = self.next_number();
        self.change(Actor::Kubelet, pod, |pod| {
            if let Some(status) = statuses_mut(pod).nth(index) {
                status.image = image.clone();
                status.ready = false;
                if bad {
                    let waiting = Waiting { reason: "ImagePullBackOff".into() };
                    status.image_id = "".into();
                    status.restart_count = status.restart_count.max(0);
                    status.state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
                } else {
                    status.image_id = digest(&image).into();
                    status.container_id = format!("containerd://{number}").into();
                    status.restart_count = restarts;
                    status.state = ContainerState::default();
                }
            }
            judge(pod, now);
        });
        if !bad {
            let slow = self.settings.fault_rate > 0.0 && self.chance(0.1);
            let (from, to) = if slow { (10_000, 60_000) } else { (100, 5_000) };
            self.add_duty(pod, Duty::Ready(index, restarts), from, to);
            self.expect_end(pod, index, restarts);
        }
    }

    /// The kubelet compares the Pod with what runs.
    fn observe(&mut self, pod: &ObservedPod) {
        let now = self.now();
        if pod.metadata.deletion_timestamp.is_some() {
            self.add_duty(pod, Duty::Stop, 100, 3_000);
            return;
        }
        if &*pod.status.phase != "Running" {
            return;
        }
        let differs = |status: &ContainerStatus| {
            pod.container(&status.name).is_some_and(|container| container.image != status.image)
        };
        let outdated = statuses(pod).enumerate().filter(|(_, status)| differs(status));
        let outdated: Vec<usize> = outdated.map(|(index, _)| index).collect();
        self.change(Actor::Kubelet, pod, |pod| {
            for (index, status) in statuses_mut(pod).enumerate() {
                if outdated.contains(&index) {
                    stop(status);
                }
            }
            judge(pod, now);
        });
        for index in outdated {
            self.add_duty(pod, Duty::StartContainer(index), 300, 4_000);
        }
    }

    // --- nodes ------------------------------------------------------------------------------------

    /// What rules read of the nodes that there are.
    pub(super) fn present_nodes(&self) -> Arc<Nodes> {
        let present = self.nodes.iter().filter(|node| !node.is_gone);
        Arc::new(present.map(|node| (node.name.clone(), node.facts.clone())).collect())
    }

    /// People do something to a node. The last one stays.
    pub(super) fn edit_node(&mut self, index: usize, edit: NodeEdit) {
        let present = self.nodes.iter().filter(|node| !node.is_gone).count();
        let Some(index) = index.checked_rem(self.nodes.len()) else { return };
        let Some(node) = self.nodes.get_mut(index).filter(|node| !node.is_gone) else { return };
        let facts = Arc::make_mut(&mut node.facts);
        let text = match edit {
            NodeEdit::Taint(effect) => {
                let taint =
                    |effect: &str| Taint { key: TAINT.into(), value: "".into(), effect: effect.into() };
                facts.taints = effect.map(taint).into_iter().collect();
                format!("taints {} {effect:?}", node.name)
            }
            NodeEdit::Cordon(is_cordoned) => {
                facts.unschedulable = is_cordoned;
                format!("cordons {}: {is_cordoned}", node.name)
            }
            NodeEdit::Leave if present > 1 => {
                node.is_gone = true;
                node.is_alive = false;
                node.failures += 1;
                let failure = node.failures;
                self.agenda.add(2_000, Event::Silence { node: index, failure, step: Silence::GiveUp });
                format!("takes {} away", node.name)
            }
            NodeEdit::Leave => return,
            NodeEdit::Join => {
                let node = Node::new(self.nodes.len() + 1);
                let text = format!("adds {}", node.name);
                self.nodes.push(node);
                text
            }
        };
        self.record(Actor::User, text);
        self.facts = self.present_nodes();
        let lag = self.below(self.settings.lag + 1);
        self.wake(lag.max(1));
    }

    /// The node falls silent.
    pub(super) fn fail_node(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index).filter(|node| node.is_alive) else { return };
        node.is_alive = false;
        node.failures += 1;
        let failure = node.failures;
        let steps = [Silence::NotReady, Silence::Evict, Silence::GiveUp];
        for (step, delay) in steps.into_iter().zip(SILENCE) {
            self.agenda.add(delay, Event::Silence { node: index, failure, step });
        }
    }

    /// The node is back; its kubelet checks all its Pods.
    pub(super) fn recover_node(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index).filter(|node| !node.is_alive && !node.is_gone) else {
            return;
        };
        node.is_alive = true;
        for pod in self.pods_of_node(index) {
            if &*pod.status.phase == "Pending" {
                self.add_duty(&pod, Duty::Start, 200, 3_000);
            }
            for (position, status) in statuses(&pod).enumerate() {
                if status.state != ContainerState::default() {
                    self.add_duty(&pod, Duty::StartContainer(position), 200, 3_000);
                } else {
                    if !status.ready {
                        self.add_duty(&pod, Duty::Ready(position, status.restart_count), 200, 3_000);
                    }
                    self.expect_end(&pod, position, status.restart_count);
                }
            }
            self.observing.remove(&pod.metadata.uid);
            self.pod_changes(&pod);
        }
    }

    /// The cluster draws its conclusions from a node's silence.
    pub(super) fn endure_silence(&mut self, index: usize, failure: u32, step: Silence) {
        let silent = self.nodes.get(index).is_some_and(|node| !node.is_alive && node.failures == failure);
        if !silent {
            return;
        }
        let now = self.now();
        for pod in self.pods_of_node(index) {
            match step {
                Silence::NotReady => self.change(Actor::Node, &pod, |pod| {
                    if pod.is_ready() {
                        set_condition(pod, "Ready", false, "NodeNotReady", now);
                    }
                }),
                Silence::Evict => self.delete(Actor::Node, &pod),
                Silence::GiveUp => {
                    self.delete(Actor::Node, &pod);
                    self.server.stop_pod(&pod.metadata.name, &pod.metadata.uid);
                }
            }
        }
    }

    fn pods_of_node(&self, index: usize) -> Vec<std::sync::Arc<ObservedPod>> {
        let Some(node) = self.nodes.get(index) else { return Vec::new() };
        self.server.pods.values().filter(|pod| *pod.spec.node_name == *node.name).cloned().collect()
    }

    /// Changes a Pod whatever its version, as those do who own what they change.
    pub(super) fn change(&mut self, actor: Actor, pod: &ObservedPod, change: impl FnOnce(&mut ObservedPod)) {
        let precondition = Precondition { uid: &pod.metadata.uid, version: "" };
        let before = self.server.version();
        let Ok(changed) = self.server.change_pod(&pod.metadata.name, precondition, change) else { return };
        if self.server.version() != before {
            self.settle(actor, pod, &changed);
        }
    }

    /// Asks for the deletion of a Pod.
    pub(super) fn delete(&mut self, actor: Actor, pod: &ObservedPod) {
        let precondition = Precondition { uid: &pod.metadata.uid, version: "" };
        let now = self.now();
        if self.server.delete_pod(&pod.metadata.name, precondition, now).is_ok() {
            self.deleted(actor, pod);
        }
    }
}

/// Containers, then native sidecars; other init containers are not simulated.
fn statuses(pod: &ObservedPod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses)
}

fn statuses_mut(pod: &mut ObservedPod) -> impl Iterator<Item = &mut ContainerStatus> {
    pod.status.container_statuses.iter_mut().chain(&mut pod.status.init_container_statuses)
}

/// What identifies the content of an image: tags that differ only behind a `-` are the same.
fn digest(image: &str) -> String {
    format!("sha256:{}", image.split('-').next().unwrap_or(image))
}

fn stop(status: &mut ContainerStatus) {
    status.ready = false;
    let terminated = Some(Terminated { exit_code: 0 });
    status.state = ContainerState { terminated, ..ContainerState::default() };
}

/// Sets the conditions that follow from the state of the containers and from readiness gates, as the kubelet
/// does.
fn judge(pod: &mut ObservedPod, now: Timestamp) {
    let containers = statuses(pod).next().is_some() && statuses(pod).all(|status| status.ready);
    let gates = pod.spec.readiness_gates.iter().all(|gate| pod.condition_is_true(&gate.condition_type));
    let reason = match (containers, gates) {
        (false, _) => "ContainersNotReady",
        (true, false) => "ReadinessGatesNotReady",
        (true, true) => "",
    };
    set_condition(pod, "ContainersReady", containers, if containers { "" } else { reason }, now);
    set_condition(pod, "Ready", containers && gates, reason, now);
}

pub(super) fn set_condition(pod: &mut ObservedPod, kind: &str, holds: bool, reason: &str, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let changed = condition(kind, status, reason, "", now);
    let mut conditions = std::mem::take(&mut pod.status.conditions).into_vec();
    match conditions.iter_mut().find(|condition| *condition.kind == *kind) {
        Some(known) if *known.status == *status => {
            known.reason = reason.into();
        }
        Some(known) => *known = changed,
        None => conditions.push(changed),
    }
    pod.status.conditions = conditions.into();
}
