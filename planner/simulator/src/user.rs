//! What users do to the workload and its Pods, and what chance does to Pods, nodes and the controller.

use std::sync::Arc;

use api::kinds::Object;
use api::labels::SPECIFIED_DELETE;

use super::agenda::Milliseconds;
use super::kind::Simulated;
use super::kubelet::{Duty, NodeEdit};
use super::server::Kind;
use super::timeline::Actor;
use super::{Cluster, Event};
use pod::observed::ObservedPod;
use pod::write::PodWrite;

/// One of the workload's Pods, counted from the first in alphabetical order, and from the beginning again
/// behind the last.
pub type PodNumber = usize;

/// A step of a history.
#[derive(Clone, Debug)]
pub enum Step<W: Simulated> {
    /// A user applies this spec.
    Apply(Box<W::Spec>),
    /// A user writes this object; its Rollout may hold it back.
    Update(Box<W>),
    /// A user changes the spec to this one; what edits named in it stays.
    Amend(Box<W::Spec>),
    /// A user does something else to the workload.
    Edit(W::Edit),
    /// A Pod is labelled for deletion.
    Mark(PodNumber),
    /// The label is taken back from all Pods.
    Unmark,
    /// A user deletes a Pod.
    Delete(PodNumber),
    /// A Pod is taken out of the workload by its labels.
    TakeOut(PodNumber),
    /// A container of a Pod dies.
    Kill(PodNumber),
    /// A Pod is evicted by its node: it ends and stays.
    Evict(PodNumber),
    /// A node falls silent, and comes back after a time if there is one.
    FailNode(usize, Option<Milliseconds>),
    /// People do something to a node.
    EditNode(usize, NodeEdit),
    /// The controller crashes.
    Crash,
    /// Some policy lets the controller neither change nor delete a Pod, its status left out: until a time has
    /// passed if there is one, and no longer than there are faults.
    Refuse(PodNumber, Option<Milliseconds>),
    /// Kutter takes over what OpenKruise leaves at this moment; what is there is as a very old version leaves
    /// it where that is true.
    TakeOver(bool),
    /// A watch breaks and begins anew after a time.
    LoseWatch(usize, Milliseconds),
}

/// The Pod of this number among `pods`.
pub(super) fn chosen(pods: &[Arc<ObservedPod>], number: PodNumber) -> Option<&Arc<ObservedPod>> {
    pods.get(number.checked_rem(pods.len())?)
}

/// The pause between two accidents, at the highest rate of faults and in the mean.
const ACCIDENTS: Milliseconds = 4_000;

impl<W: Simulated> Cluster<'_, W> {
    /// Lets chance act for `duration` from now, as often as the rate of faults says: calls fail, containers
    /// die, Pods are evicted, nodes fall silent for a while, watches break, changes of Pods are refused, the
    /// controller crashes.
    pub fn disturb(&mut self, duration: Milliseconds) {
        let rate = self.settings.fault_rate.clamp(0.0, 1.0);
        if rate == 0.0 {
            return;
        }
        self.is_calm = false;
        let pause = (ACCIDENTS as f64 / rate) as Milliseconds;
        let mut time = self.below(2 * pause);
        while time < duration {
            let number = usize::try_from(self.below(1_000)).unwrap_or(0);
            let step = match self.below(9) {
                0..=2 => Step::Kill(number),
                3 => Step::Evict(number),
                4 => Step::FailNode(number, Some(self.between(1_000, 30_000))),
                5 => Step::Crash,
                6 => Step::Refuse(number, Some(self.between(1_000, 30_000))),
                _ => Step::LoseWatch(number, self.between(500, 10_000)),
            };
            self.add(time, step);
            time += 1 + self.below(2 * pause);
        }
    }

    pub(super) fn user_does(&mut self, step: Step<W>) {
        match step {
            Step::Apply(spec) => self.user_edits(|workload| workload.object_mut().spec = *spec),
            Step::Update(workload) => {
                let admitted = self.held_back(&workload).unwrap_or(*workload);
                self.user_edits(|workload| {
                    let Object { metadata, spec, .. } = admitted.object().clone();
                    let object = workload.object_mut();
                    (object.metadata.labels, object.metadata.annotations) =
                        (metadata.labels, metadata.annotations);
                    object.spec = spec;
                });
            }
            Step::Amend(spec) => self.user_edits(|workload| workload.amend(*spec)),
            Step::Edit(edit) => {
                let mut edited = (*self.server.workload).clone();
                let Some(text) = edited.edit(&edit, &self.active_pods()) else { return };
                self.record(Actor::User, text);
                self.server.change_workload(|workload| *workload = edited);
            }
            Step::Mark(number) => self.user_changes(number, |pod| {
                let mut write = PodWrite::default();
                write.set_label(SPECIFIED_DELETE, "true");
                write.apply(pod);
            }),
            Step::Unmark => {
                for number in 0..self.server.pods.len() {
                    self.user_changes(number, |pod| {
                        let mut write = PodWrite::default();
                        write.labels.insert(SPECIFIED_DELETE.to_owned(), None);
                        write.apply(pod);
                    });
                }
            }
            Step::Delete(number) => {
                if let Some(pod) = self.chosen(number) {
                    self.delete(Actor::User, &pod);
                }
            }
            Step::TakeOut(number) => self.take_out(number),
            Step::Kill(number) => {
                if let Some(pod) = self.chosen(number)
                    && &*pod.status.phase == "Running"
                {
                    self.add_duty(&pod, Duty::Die(0), 0, 1);
                }
            }
            Step::Evict(number) => {
                if let Some(pod) = self.chosen(number)
                    && !pod.spec.node_name.is_empty()
                {
                    self.change(Actor::Fault, &pod, |pod| {
                        pod.status.phase = "Failed".into();
                        let now = pod.metadata.created().unwrap_or_default();
                        super::kubelet::set_condition(pod, "Ready", false, "Evicted", now);
                    });
                }
            }
            Step::FailNode(index, recovers_after) => self.lose_node(index, recovers_after),
            Step::EditNode(index, edit) => self.edit_node(index, edit),
            Step::Crash => self.crash(),
            Step::Refuse(number, relents_after) => self.guard(number, relents_after),
            Step::TakeOver(is_old) => self.take_over(is_old),
            Step::LoseWatch(index, pause) => {
                if let Some(kind) = Kind::ALL.get(index % Kind::ALL.len()) {
                    self.record(Actor::Fault, format!("the watch of {} breaks", kind.name::<W>()));
                    self.controller.cache.lose_watch(*kind);
                    self.agenda.add(pause, Event::List { kind: *kind });
                }
            }
        }
    }

    /// A user changes the workload.
    fn user_edits(&mut self, edit: impl FnOnce(&mut W)) {
        self.record(Actor::User, format!("changes the {}", W::KIND));
        self.server.change_workload(edit);
        let pods: Vec<_> = self.own_pods().cloned().collect();
        pods.iter().for_each(|pod| self.call_hooks(pod));
    }

    /// Pods of the workload that have not ended.
    pub(super) fn active_pods(&self) -> Vec<Arc<ObservedPod>> {
        self.own_pods().filter(|pod| pod.is_active()).cloned().collect()
    }

    fn chosen(&self, number: PodNumber) -> Option<Arc<ObservedPod>> {
        chosen(&self.active_pods(), number).cloned()
    }

    fn user_changes(&mut self, number: PodNumber, change: impl FnOnce(&mut ObservedPod)) {
        // Also those that wait for finalizers.
        let pods: Vec<_> = self.own_pods().cloned().collect();
        if let Some(pod) = chosen(&pods, number) {
            self.change(Actor::User, pod, change);
            if self.server.pod(&pod.metadata.name, &pod.metadata.uid).is_none() {
                self.record(
                    Actor::User,
                    format!("Pod {} is gone with its last finalizer", pod.metadata.name),
                );
            }
        }
    }

    /// Changes the labels of a Pod so that the selector does not match it any more.
    fn take_out(&mut self, number: PodNumber) {
        let Some(pod) = self.chosen(number) else { return };
        let mut write = PodWrite::default();
        for key in self.server.workload.selector().match_labels.iter().flatten().map(|(key, _)| key) {
            write.labels.insert(key.clone(), None);
        }
        self.change(Actor::User, &pod, |pod| write.apply(pod));
    }

    /// Has changes of a Pod refused.
    fn guard(&mut self, number: PodNumber, relents_after: Option<Milliseconds>) {
        let Some(pod) = self.chosen(number) else { return };
        let uid = pod.metadata.uid.clone();
        self.record(Actor::Fault, format!("changes of Pod {} are refused", pod.metadata.name));
        self.server.refusing.insert(uid.clone());
        if let Some(pause) = relents_after {
            self.agenda.add(pause, Event::Relent { uid });
        }
    }

    fn lose_node(&mut self, index: usize, recovers_after: Option<Milliseconds>) {
        let alive = self.nodes.iter().filter(|node| node.is_alive).count();
        let Some(index) = index.checked_rem(self.nodes.len()) else { return };
        let Some(node) = self.nodes.get(index).filter(|node| node.is_alive && alive > 1) else { return };
        self.record(Actor::Fault, format!("{} falls silent", node.name));
        self.fail_node(index);
        if let Some(pause) = recovers_after {
            self.agenda.add(pause, Event::Recover(index));
        }
    }

    /// Ends what disturbs: nodes come back, watches begin anew, no call fails or is refused any more.
    pub(super) fn calm_down(&mut self) {
        self.is_calm = true;
        self.server.refusing.clear();
        for index in 0..self.nodes.len() {
            self.recover_node(index);
        }
    }
}
