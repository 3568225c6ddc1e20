//! How far an EphemeralJob is in one Pod.

use api::environment::EPHEMERAL_JOB_ID;
use api::kinds::ephemeraljob::EphemeralJob;
use serde_json::{Value, json};

use pod::observed::{Container, ContainerStatus, ObservedPod};
use values::json_patch::{Patch, Pointer, apply};

/// How far the job is in a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Somebody else has added a container of a name that the job needs: the Pod is not the job's.
    Foreign,
    /// Nothing was added.
    Untouched,
    /// Containers were added, and nothing was reported of them that counts.
    Added,
    Waiting,
    Running,
    Succeeded,
    Failed,
}

impl State {
    /// Takes one of the places of `spec.parallelism`.
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, Self::Added | Self::Waiting | Self::Running)
    }
}

/// What a job adds to Pods.
#[derive(Debug)]
pub(super) struct Template {
    names: Vec<String>,
    uid: String,
    /// The list of containers, as JSON text.
    containers: String,
}

impl Template {
    /// The template of a job; `None` where it holds nothing that could be added.
    pub(super) fn of(job: &EphemeralJob) -> Option<Self> {
        let raw = job.spec.template.ephemeral_containers.as_ref()?;
        let list: Vec<Value> = serde_json::from_str(raw.get()).ok()?;
        let name = |container: &Value| Some(container.get("name")?.as_str()?.to_owned());
        let names: Vec<String> = list.iter().map(name).collect::<Option<_>>()?;
        if names.is_empty() {
            return None;
        }
        let uid = &job.metadata.uid;
        let variable = json!({"name": EPHEMERAL_JOB_ID, "value": uid});
        let mut patch = Patch::default();
        for (index, container) in list.iter().enumerate() {
            let place = Pointer::root().index(index).key("env");
            if container.get("env").is_some_and(Value::is_array) {
                // Of variables of one name the last counts.
                patch.add(place.end(), variable.to_string());
            } else {
                patch.add(place, json!([variable]).to_string());
            }
        }
        let containers = apply(raw.get(), &patch).ok()?;
        Some(Self { names, uid: uid.clone(), containers })
    }

    /// How far the job is in this Pod.
    pub(super) fn state(&self, pod: &ObservedPod) -> State {
        let is_named = |name: &str| self.names.iter().any(|known| known == name);
        let added = pod.spec.ephemeral_containers.iter().filter(|container| is_named(&container.name));
        let is_ours = |container: &&Container| {
            container.variable(EPHEMERAL_JOB_ID).is_some_and(|id| *id.value == *self.uid)
        };
        let (ours, others): (Vec<_>, Vec<_>) = added.partition(is_ours);
        if !others.is_empty() {
            return State::Foreign;
        }
        if ours.is_empty() {
            return State::Untouched;
        }
        let statuses = pod.status.ephemeral_container_statuses.iter();
        let states: Vec<State> = statuses.filter(|status| is_named(&status.name)).map(of_container).collect();
        if states.len() == self.names.len() && states.iter().all(|state| *state == State::Succeeded) {
            return State::Succeeded;
        }
        let first =
            [State::Failed, State::Running, State::Waiting].into_iter().find(|state| states.contains(state));
        first.unwrap_or(State::Added)
    }

    /// The strategic merge patch of `pods/ephemeralcontainers` that adds the containers to this state of the Pod.
    pub(super) fn patch(&self, pod: &ObservedPod) -> String {
        let metadata = &pod.metadata;
        let metadata = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        format!(r#"{{"metadata":{metadata},"spec":{{"ephemeralContainers":{}}}}}"#, self.containers)
    }
}

fn of_container(status: &ContainerStatus) -> State {
    let state = &status.state;
    match (&state.terminated, &state.waiting) {
        (Some(terminated), _) if terminated.exit_code == 0 => State::Succeeded,
        (Some(_), _) => State::Failed,
        (None, _) if status.running.is_some() => State::Running,
        (None, Some(waiting)) if &*waiting.reason == "RunContainerError" => State::Failed,
        (None, Some(_)) => State::Waiting,
        (None, None) => State::Added,
    }
}
