//! Ends the sidecars of job Pods when the main containers are done
//! (docs/behaviour/sidecarset.md#sidecarterminator).
//!
//! On a node with a kubelet sidecars are killed by a ContainerRecreateRequest, which the node agent carries
//! out; on a virtual node they get an image that ends. Only `spec.containers` counts: the kubelet itself
//! ends native sidecars.
//!
//! Decided otherwise than OpenKruise (docs/behaviour/sidecarset.md#pods-that-are-due): a Pod that has
//! sidecars alone is left alone, since nothing says when it is done; a sidecar that can't be ended on its
//! node gives a Warning; sidecars whose exit code is ignored get a request of their own beside that of the
//! others; names are sorted.

use api::conditions::SIDECAR_TERMINATED;
use api::environment::{
    TERMINATE_SIDECAR_IGNORE_EXIT_CODE, TERMINATE_SIDECAR_WHEN_JOB_EXIT,
    TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE,
};
use jiff::Timestamp;

use crate::workload::recreate::{RecreateRequest, Spec, Strategy, named};
use pod::observed::{Container, ObservedPod, Terminated};
use pod::write::{self, PodWrite, Target};
use values::event::Event;

/// Reason of the Events.
const REASON: &str = "SidecarTerminator";

/// What to do for one Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write to the Pod in the state that was observed; then record the Event, if there is one.
    Write(PodWrite, Option<Event>),
    /// Create a ContainerRecreateRequest; then record the Event. If one of that name exists, nothing is to
    /// be done. It belongs to the Pod without holding up its deletion, which takes a right on Pods.
    Recreate(RecreateRequest, Event),
    /// Record an Event: nothing can be done for some sidecar.
    Warn(Event),
}

/// How a container is to be ended.
#[derive(Clone, Copy, Debug, Default)]
struct Kind<'p> {
    /// Killed.
    killed: bool,
    /// Killed when all others have ended, and its exit code is no part of the Pod's phase.
    ignored: bool,
    /// Given this image.
    image: Option<&'p str>,
}

impl<'p> Kind<'p> {
    fn of(container: &'p Container) -> Self {
        let value = |name: &str| container.variable(name).map_or("", |variable| &variable.value);
        let is_true = |name: &str| value(name).eq_ignore_ascii_case("true");
        let killed = is_true(TERMINATE_SIDECAR_WHEN_JOB_EXIT);
        let image = value(TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE);
        Self {
            killed,
            ignored: killed && is_true(TERMINATE_SIDECAR_IGNORE_EXIT_CODE),
            image: (!image.is_empty()).then_some(image),
        }
    }

    fn is_sidecar(&self) -> bool {
        self.killed || self.image.is_some()
    }
}

/// A sidecar of a Pod.
#[derive(Clone, Copy)]
struct Sidecar<'p> {
    container: &'p Container,
    kind: Kind<'p>,
    ended: bool,
}

/// True if the Pod has sidecars to end now (docs/behaviour/sidecarset.md#pods-that-are-due). Ask it before
/// the Pod's Node is fetched.
pub fn is_due(pod: &ObservedPod) -> bool {
    let sidecars = sidecars(pod);
    let is_job = matches!(&*pod.spec.restart_policy, "Never" | "OnFailure");
    pod.metadata.deletion_timestamp.is_none()
        && &*pod.status.phase != "Pending"
        && is_job
        && sidecars.iter().any(|sidecar| !sidecar.ended)
        && main_containers_are_done(pod)
}

/// What to do for a Pod on a node that is virtual or not: label `type` is `virtual-kubelet` or not.
pub fn plan(pod: &ObservedPod, virtual_node: bool, now: Timestamp) -> Vec<Action> {
    if !is_due(pod) {
        return Vec::new();
    }
    let sidecars = sidecars(pod);
    let mut actions = if virtual_node { in_place(&sidecars) } else { kill(pod, &sidecars, now) };
    let stuck = |sidecar: &&Sidecar<'_>| {
        !sidecar.ended && if virtual_node { sidecar.kind.image.is_none() } else { !sidecar.kind.killed }
    };
    let stuck: Vec<&str> = sidecars.iter().filter(stuck).map(|sidecar| &*sidecar.container.name).collect();
    if !stuck.is_empty() {
        let (node, variable) = if virtual_node {
            ("a virtual node", TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE)
        } else {
            ("a node with a kubelet", TERMINATE_SIDECAR_WHEN_JOB_EXIT)
        };
        let message =
            format!("sidecar {} can't be terminated on {node} without variable {variable}", list(&stuck));
        actions.push(Action::Warn(Event { warning: true, reason: REASON, message }));
    }
    actions
}

fn in_place(sidecars: &[Sidecar<'_>]) -> Vec<Action> {
    let mut write = PodWrite::to(Target::Pod);
    let mut names = Vec::new();
    for Sidecar { container, kind, ended } in sidecars {
        if let Some(image) = kind.image.filter(|image| !ended && *image != &*container.image) {
            write.container(&container.name).image = Some(image.to_owned());
            names.push(&*container.name);
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    vec![Action::Write(write, Some(trying(&names, "in-place update")))]
}

fn kill(pod: &ObservedPod, sidecars: &[Sidecar<'_>], now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    let running = |ignored: bool| -> Vec<&str> {
        let wanted =
            |sidecar: &&Sidecar<'_>| sidecar.kind.killed && sidecar.kind.ignored == ignored && !sidecar.ended;
        sidecars.iter().filter(wanted).map(|sidecar| &*sidecar.container.name).collect()
    };
    let normal = running(false);
    if !normal.is_empty() {
        actions.push(recreate(pod, &normal, ""));
        return actions;
    }
    // One that can't be ended here has a say in the Pod's phase as well.
    if sidecars.iter().any(|sidecar| !sidecar.kind.ignored && !sidecar.ended) {
        return actions;
    }
    let ignored = running(true);
    if ignored.is_empty() {
        return actions;
    }
    if !matches!(&*pod.status.phase, "Succeeded" | "Failed") {
        actions.push(Action::Write(ended(pod, now), None));
    }
    let beside_others = sidecars.iter().any(|sidecar| sidecar.kind.killed && !sidecar.kind.ignored);
    actions.push(recreate(pod, &ignored, if beside_others { "-ignored" } else { "" }));
    actions
}

/// Sets the phase by the main containers alone, so that what follows does not count.
fn ended(pod: &ObservedPod, now: Timestamp) -> PodWrite {
    let succeeded = main_containers(pod).all(|container| {
        terminated(pod, &container.name).is_some_and(|terminated| terminated.exit_code == 0)
    });
    let mut write = PodWrite::to(Target::Status);
    write.phase = Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned());
    let message = "Terminated by Sidecar Terminator";
    write.conditions.push(write::condition(SIDECAR_TERMINATED, "True", "", message, now));
    write
}

fn sidecars(pod: &ObservedPod) -> Vec<Sidecar<'_>> {
    let containers = pod.spec.containers.iter().map(|container| Sidecar {
        container,
        kind: Kind::of(container),
        ended: terminated(pod, &container.name).is_some(),
    });
    let mut sidecars: Vec<Sidecar<'_>> = containers.filter(|sidecar| sidecar.kind.is_sidecar()).collect();
    sidecars.sort_by(|left, right| left.container.name.cmp(&right.container.name));
    sidecars
}

fn main_containers(pod: &ObservedPod) -> impl Iterator<Item = &Container> {
    pod.spec.containers.iter().filter(|container| !Kind::of(container).is_sidecar())
}

/// All have ended, and the kubelet starts none of them again.
fn main_containers_are_done(pod: &ObservedPod) -> bool {
    let done = |container: &Container| {
        pod.container_status(&container.name).is_some_and(|status| pod.has_ended_for_good(status))
    };
    pod.status.container_statuses.len() == pod.spec.containers.len()
        && main_containers(pod).next().is_some()
        && main_containers(pod).all(done)
}

fn terminated<'p>(pod: &'p ObservedPod, container: &str) -> Option<&'p Terminated> {
    pod.container_status(container)?.state.terminated.as_ref()
}

/// Names as Go prints a list of texts.
fn list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn trying(names: &[&str], means: &str) -> Event {
    let names = list(names);
    let message = format!("Kruise SidecarTerminator is trying to terminate sidecar {names} using {means}");
    Event { warning: false, reason: REASON, message }
}

fn recreate(pod: &ObservedPod, containers: &[&str], suffix: &str) -> Action {
    let metadata = &pod.metadata;
    let name = format!("sidecar-termination-{}{suffix}", metadata.uid);
    let spec = Spec {
        pod_name: &metadata.name,
        containers: named(containers),
        strategy: Strategy { failure_policy: Some("Ignore"), force_recreate: true },
        ttl_seconds_after_finished: None,
    };
    Action::Recreate(RecreateRequest::new(pod, name, spec), trying(containers, "crr"))
}

#[cfg(test)]
mod tests;
