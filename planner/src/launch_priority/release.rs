//! When the launch priority controller lets containers start (spec 30 §17): a lower priority only after
//! all containers of a higher one are ready.

use std::collections::BTreeSet;

use api::annotations::CONTAINER_LAUNCH_PRIORITY_COMPLETED;
use api::environment::CONTAINER_BARRIER;
use serde::Deserialize;

use super::{barrier_key, barrier_name};
use crate::json_patch::string;

/// The parts of a Pod that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub name: String,
    /// The Pod's identity.
    pub uid: String,
    /// The annotation says that every container was released.
    pub completed: bool,
    /// Condition `ContainersReady` is `True`.
    pub containers_ready: bool,
    /// Priorities of the containers that have a barrier and are not ready.
    pub waiting: BTreeSet<i64>,
}

/// What the controller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the Pod has no barrier, is completed, or waits for containers to become ready.
    Wait,
    /// Create the barrier, empty, and decide again.
    CreateBarrier,
    /// Add this key to the barrier; `completes` where no other key will follow.
    Open {
        /// The key.
        key: String,
        /// Mark the Pod as completed afterwards.
        completes: bool,
    },
    /// Mark the Pod as completed.
    Complete,
}

/// Decides the next step. `barrier` holds the keys of the Pod's barrier, `None` while there is none.
pub fn release(pod: &PodFacts, barrier: Option<&BTreeSet<String>>) -> Step {
    if pod.completed || pod.containers_ready {
        return Step::Wait;
    }
    let (Some(lowest), Some(highest)) = (pod.waiting.first(), pod.waiting.last()) else { return Step::Wait };
    let Some(keys) = barrier else { return Step::CreateBarrier };
    if keys.contains(&barrier_key(*lowest)) {
        return Step::Complete;
    }
    let key = barrier_key(*highest);
    if keys.contains(&key) {
        return Step::Wait;
    }
    Step::Open { key, completes: highest == lowest }
}

impl PodFacts {
    /// Reads the facts from a Pod. A barrier variable that some user wrote in another form counts as no
    /// priority.
    ///
    /// # Errors
    /// The parser's error where `pod` is not a Pod.
    pub fn read(pod: &str) -> Result<Self, serde_json::Error> {
        let pod: Pod = serde_json::from_str(pod)?;
        let status = pod.status.unwrap_or_default();
        let statuses = status.container_statuses.unwrap_or_default();
        let is_ready = |name: &str| statuses.iter().any(|status| status.name == name && status.ready);
        let containers = pod.spec.unwrap_or_default().containers.unwrap_or_default();
        let waiting = containers.iter().filter(|container| !is_ready(&container.name));
        let mut conditions = status.conditions.iter().flatten();
        let completed = pod.metadata.annotations.iter().flatten();
        let mut completed = completed.filter(|(key, _)| *key == CONTAINER_LAUNCH_PRIORITY_COMPLETED);
        Ok(Self {
            completed: completed.any(|(_, value)| value == "true"),
            containers_ready: conditions
                .any(|condition| condition.kind == "ContainersReady" && condition.status == "True"),
            waiting: waiting.filter_map(Container::priority).collect(),
            namespace: pod.metadata.namespace,
            name: pod.metadata.name,
            uid: pod.metadata.uid,
        })
    }

    /// The empty barrier, owned by the Pod but not controlled by it.
    pub fn barrier(&self) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":{},"name":{},"ownerReferences":[{{"apiVersion":"v1","kind":"Pod","name":{},"uid":{}}}]}}}}"#,
            string(&self.namespace),
            string(&barrier_name(&self.name)),
            string(&self.name),
            string(&self.uid)
        )
    }
}

/// The merge patch of the barrier that adds `key`.
pub fn open_patch(key: &str) -> String {
    format!(r#"{{"data":{{{}:"true"}}}}"#, string(key))
}

/// The merge patch of the Pod that marks it as completed.
pub fn completed_patch() -> String {
    format!(r#"{{"metadata":{{"annotations":{{"{CONTAINER_LAUNCH_PRIORITY_COMPLETED}":"true"}}}}}}"#)
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct Spec {
    containers: Option<Vec<Container>>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    name: String,
    env: Option<Vec<Variable>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    #[serde(default)]
    name: String,
    value_from: Option<ValueFrom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom {
    config_map_key_ref: Option<KeyReference>,
}

#[derive(Deserialize)]
struct KeyReference {
    #[serde(default)]
    key: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    ready: bool,
}

impl Container {
    fn priority(&self) -> Option<i64> {
        let barrier = self.env.iter().flatten().rev().find(|variable| variable.name == CONTAINER_BARRIER)?;
        barrier.value_from.as_ref()?.config_map_key_ref.as_ref()?.key.strip_prefix("p_")?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(waiting: &[i64]) -> PodFacts {
        PodFacts {
            name: "web-0".to_owned(),
            waiting: waiting.iter().copied().collect(),
            ..PodFacts::default()
        }
    }

    fn keys(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn keys_are_added_from_high_to_low() {
        let open = |key: &str, completes| Step::Open { key: key.to_owned(), completes };
        assert_eq!(release(&pod(&[1, 0]), None), Step::CreateBarrier);
        assert_eq!(release(&pod(&[1, 0]), Some(&keys(&[]))), open("p_1", false));
        assert_eq!(release(&pod(&[1, 0]), Some(&keys(&["p_1"]))), Step::Wait);
        assert_eq!(release(&pod(&[0]), Some(&keys(&["p_1"]))), open("p_0", true));
        assert_eq!(release(&pod(&[0]), Some(&keys(&["p_1", "p_0"]))), Step::Complete);
        assert_eq!(release(&pod(&[0, -1]), Some(&keys(&["p_0", "p_-1"]))), Step::Complete);
    }

    #[test]
    fn finished_pods_and_pods_without_barrier_are_left_alone() {
        assert_eq!(release(&pod(&[]), None), Step::Wait);
        assert_eq!(release(&PodFacts { completed: true, ..pod(&[1, 0]) }, None), Step::Wait);
        assert_eq!(release(&PodFacts { containers_ready: true, ..pod(&[1, 0]) }, None), Step::Wait);
    }

    #[test]
    fn every_pod_is_completed_in_as_many_rounds_as_it_has_priorities() {
        let mut waiting: BTreeSet<i64> = [7, 3, 0, -2].into();
        let mut barrier = BTreeSet::new();
        let mut opened = Vec::new();
        while let Step::Open { key, completes } =
            release(&PodFacts { waiting: waiting.clone(), ..PodFacts::default() }, Some(&barrier))
        {
            opened.push(key.clone());
            barrier.insert(key);
            assert_eq!(completes, waiting.len() == 1);
            // The containers of the highest priority become ready.
            waiting.pop_last();
        }
        assert_eq!(opened, ["p_7", "p_3", "p_0", "p_-2"]);
    }

    #[test]
    fn facts_come_from_the_pod_and_malformed_barriers_count_as_none() {
        let barrier = |key: &str| {
            format!(
                r#"{{"name":"KRUISE_CONTAINER_BARRIER","valueFrom":{{"configMapKeyRef":{{"key":"{key}"}}}}}}"#
            )
        };
        let pod = format!(
            r#"{{"metadata":{{"namespace":"n","name":"web-0","uid":"u"}},
            "spec":{{"containers":[{{"name":"a","env":[{}]}},{{"name":"b","env":[{}]}},{{"name":"c","env":[{}]}},{{"name":"d","env":[{{"name":"KRUISE_CONTAINER_BARRIER","value":"p_9"}}]}},{{"name":"e"}}]}},
            "status":{{"containerStatuses":[{{"name":"a","ready":true}},{{"name":"b","ready":false}}],"conditions":[{{"type":"ContainersReady","status":"False"}}]}}}}"#,
            barrier("p_2"),
            barrier("p_-1"),
            barrier("p")
        );
        let facts = PodFacts::read(&pod).unwrap();
        assert_eq!(facts.waiting, BTreeSet::from([-1]));
        assert!(!facts.completed && !facts.containers_ready);
        assert_eq!(
            facts.barrier(),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"web-0-barrier","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-0","uid":"u"}]}}"#
        );
    }
}
