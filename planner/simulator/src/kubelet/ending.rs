//! Pods that run to an end of their own, as those of jobs do.

use crate::Cluster;
use crate::kind::Simulated;
use crate::timeline::Actor;
use pod::observed::{ContainerState, ObservedPod, Terminated};

use super::{Duty, judge};

/// An image whose name holds this fails now and then.
const FLAKY: &str = "flaky";
/// The exit code of a container that was killed.
const KILLED: i32 = 137;

/// The Pod's containers are not to run forever.
pub(super) fn ends(pod: &ObservedPod) -> bool {
    matches!(&*pod.spec.restart_policy, "Never" | "OnFailure")
}

/// The container at this place has ended, and is not started again.
pub(super) fn has_ended(pod: &ObservedPod, index: usize) -> bool {
    let status = pod.status.container_statuses.get(index);
    let exit = status.and_then(|status| status.state.terminated.as_ref()).map(|end| end.exit_code);
    ends(pod) && exit.is_some_and(|code| code == 0 || &*pod.spec.restart_policy == "Never")
}

impl<W: Simulated> Cluster<'_, W> {
    /// A container that was started comes to its end in a while, if it does.
    pub(super) fn expect_end(&mut self, pod: &ObservedPod, index: usize, restarts: i32) {
        if ends(pod) {
            self.add_duty(pod, Duty::End(index, restarts), 500, 20_000);
        }
    }

    /// The container comes to its end, if it is still the one with this number of restarts.
    pub(super) fn end_container(&mut self, pod: &ObservedPod, index: usize, restarts: i32) {
        let status = pod.status.container_statuses.get(index);
        let Some(status) = status.filter(|status| status.restart_count == restarts) else { return };
        let fails = status.image.contains(FLAKY) && self.chance(0.3);
        self.exit(Actor::Kubelet, pod, index, i32::from(fails));
    }

    /// The container is killed.
    pub(super) fn kill_container(&mut self, pod: &ObservedPod, index: usize) {
        self.exit(Actor::Fault, pod, index, KILLED);
    }

    fn exit(&mut self, actor: Actor, pod: &ObservedPod, index: usize, exit_code: i32) {
        let status = pod.status.container_statuses.get(index);
        let runs = status.is_some_and(|status| status.state == ContainerState::default());
        if !runs || &*pod.status.phase != "Running" || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let now = self.now();
        self.change(actor, pod, |pod| {
            if let Some(status) = pod.status.container_statuses.get_mut(index) {
                status.ready = false;
                let terminated = Some(Terminated { exit_code });
                status.state = ContainerState { terminated, ..ContainerState::default() };
            }
            judge(pod, now);
            let statuses = &pod.status.container_statuses;
            if (0..statuses.len()).all(|index| has_ended(pod, index)) {
                let ended = |code: i32| Some(Terminated { exit_code: code });
                let succeeded = statuses.iter().all(|status| status.state.terminated == ended(0));
                pod.status.phase = if succeeded { "Succeeded" } else { "Failed" }.into();
            }
        });
        self.add_duty(pod, Duty::StartContainer(index), 500, 8_000);
    }
}
