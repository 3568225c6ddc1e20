//! When the launch priority controller lets containers start
//! (docs/behaviour/launch-priority.md#release-of-the-containers): a lower priority only after all containers
//! of a higher one are ready, or have ended for good.

use std::collections::{BTreeMap, BTreeSet};

use api::annotations::CONTAINER_LAUNCH_PRIORITY_COMPLETED;
use api::environment::CONTAINER_BARRIER;
use serde::Deserialize;

use super::{barrier_key, barrier_name};
use crate::restart_policy::{RestartRule, ends_for_good};
use values::json_patch::string;

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
    /// Priorities of the containers that have a barrier, are not ready, and have not ended for good.
    pub waiting: BTreeSet<i64>,
}

/// The parts of the ConfigMap `<pod>-barrier` that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// The keys that are there: containers of these priorities may start.
    pub keys: BTreeSet<String>,
    /// Identities of its owners.
    pub owners: BTreeSet<String>,
    /// Its version; a patch that names it is refused (409) once the barrier has changed.
    pub resource_version: String,
}

/// What the controller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the Pod has no barrier, is completed, or waits for containers to become ready.
    Wait,
    /// Create the barrier ([`PodFacts::barrier`]) and decide again.
    CreateBarrier,
    /// Make the barrier of an earlier Pod of that name ours ([`PodFacts::take_over_patch`]) and decide
    /// again.
    TakeOver {
        /// The version of the barrier that was observed.
        resource_version: String,
    },
    /// Add this key to the barrier ([`open_patch`]) and decide again.
    Open {
        /// The key.
        key: String,
        /// The version of the barrier that was observed.
        resource_version: String,
    },
    /// Mark the Pod as completed ([`PodFacts::completed_patch`]).
    Complete,
}

/// Decides the next step. `barrier` is the Pod's barrier, `None` while there is none.
///
/// A barrier without our Pod among its owners is left from an earlier Pod of that name: its keys would
/// let all containers start at once, and it will be collected with its owner.
pub fn release(pod: &PodFacts, barrier: Option<&Barrier>) -> Step {
    if pod.completed || pod.containers_ready {
        return Step::Wait;
    }
    let (Some(lowest), Some(highest)) = (pod.waiting.first(), pod.waiting.last()) else { return Step::Wait };
    let Some(barrier) = barrier else { return Step::CreateBarrier };
    let resource_version = barrier.resource_version.clone();
    // One without any owner was made by a person: it is used as it is.
    if !barrier.owners.is_empty() && !barrier.owners.contains(&pod.uid) {
        return Step::TakeOver { resource_version };
    }
    if barrier.keys.contains(&barrier_key(*lowest)) {
        return Step::Complete;
    }
    let key = barrier_key(*highest);
    if barrier.keys.contains(&key) {
        return Step::Wait;
    }
    Step::Open { key, resource_version }
}

impl Barrier {
    /// Reads the facts from a ConfigMap.
    ///
    /// # Errors
    /// The parser's error where `config_map` is not a ConfigMap.
    pub fn read(config_map: &str) -> Result<Self, serde_json::Error> {
        let ConfigMap { metadata, data } = serde_json::from_str(config_map)?;
        let owners = metadata.owner_references.unwrap_or_default().into_iter();
        Ok(Self {
            keys: data.unwrap_or_default().into_keys().collect(),
            owners: owners.map(|owner| owner.uid).collect(),
            resource_version: metadata.resource_version,
        })
    }
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
        let spec = pod.spec.unwrap_or_default();
        let policy = spec.restart_policy.unwrap_or_default();
        let is_past = |status: &ContainerStatus, container: &Container| {
            status.name == container.name && (status.ready || container.has_ended(status, &policy))
        };
        let containers = spec.containers.unwrap_or_default();
        let waiting =
            containers.iter().filter(|container| !statuses.iter().any(|status| is_past(status, container)));
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
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":{},"name":{},"ownerReferences":{}}}}}"#,
            string(&self.namespace),
            string(&barrier_name(&self.name)),
            self.owner_references()
        )
    }

    /// The merge patch that makes the barrier at `resource_version` ours, and empty.
    pub fn take_over_patch(&self, resource_version: &str) -> String {
        format!(
            r#"{{"metadata":{{"resourceVersion":{},"ownerReferences":{}}},"data":null}}"#,
            string(resource_version),
            self.owner_references()
        )
    }

    /// The merge patch of the Pod that marks it as completed; another Pod of that name refuses it (409).
    pub fn completed_patch(&self) -> String {
        format!(
            r#"{{"metadata":{{"uid":{},"annotations":{{"{CONTAINER_LAUNCH_PRIORITY_COMPLETED}":"true"}}}}}}"#,
            string(&self.uid)
        )
    }

    fn owner_references(&self) -> String {
        let (name, uid) = (string(&self.name), string(&self.uid));
        format!(r#"[{{"apiVersion":"v1","kind":"Pod","name":{name},"uid":{uid}}}]"#)
    }
}

/// The merge patch that adds `key` to the barrier at `resource_version`.
pub fn open_patch(key: &str, resource_version: &str) -> String {
    format!(
        r#"{{"metadata":{{"resourceVersion":{}}},"data":{{{}:"true"}}}}"#,
        string(resource_version),
        string(key)
    )
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    metadata: ConfigMapMetadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigMapMetadata {
    resource_version: String,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Deserialize)]
struct OwnerReference {
    #[serde(default)]
    uid: String,
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
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    containers: Option<Vec<Container>>,
    restart_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    name: String,
    env: Option<Vec<Variable>>,
    restart_policy: Option<String>,
    restart_policy_rules: Option<Vec<RestartRule>>,
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
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    #[serde(default)]
    exit_code: i32,
}

impl Container {
    /// It will not run again under this restart policy of its Pod.
    fn has_ended(&self, status: &ContainerStatus, of_pod: &str) -> bool {
        let terminated = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        let (rules, own) = (self.restart_policy_rules.as_deref(), self.restart_policy.as_deref());
        terminated.is_some_and(|end| {
            ends_for_good(rules.unwrap_or_default(), own.unwrap_or_default(), of_pod, end.exit_code)
        })
    }

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
            uid: "new".to_owned(),
            waiting: waiting.iter().copied().collect(),
            ..PodFacts::default()
        }
    }

    fn barrier(owner: &str, keys: &[&str]) -> Barrier {
        Barrier {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            owners: [owner.to_owned()].into(),
            resource_version: "7".to_owned(),
        }
    }

    #[test]
    fn keys_are_added_from_high_to_low() {
        let decide = |waiting: &[i64], keys: &[&str]| release(&pod(waiting), Some(&barrier("new", keys)));
        let open = |key: &str| Step::Open { key: key.to_owned(), resource_version: "7".to_owned() };
        assert_eq!(release(&pod(&[1, 0]), None), Step::CreateBarrier);
        assert_eq!(decide(&[1, 0], &[]), open("p_1"));
        assert_eq!(decide(&[1, 0], &["p_1"]), Step::Wait);
        assert_eq!(decide(&[0], &["p_1"]), open("p_0"));
        assert_eq!(decide(&[0], &["p_1", "p_0"]), Step::Complete);
        assert_eq!(decide(&[0, -1], &["p_0", "p_-1"]), Step::Complete);
    }

    /// A container of a Job that has done its work would be waited for forever.
    #[test]
    fn a_container_that_has_ended_for_good_is_not_waited_for() {
        let waiting = |policy: &str, own: &str, code: i32| {
            let env = |key: &str| {
                format!(
                    r#"[{{"name":"KRUISE_CONTAINER_BARRIER","valueFrom":{{"configMapKeyRef":{{"name":"b","key":"{key}"}}}}}}]"#
                )
            };
            let pod = format!(
                r#"{{"metadata":{{"namespace":"shop","name":"job","uid":"u"}},"spec":{{"restartPolicy":"{policy}","containers":[
                    {{"name":"main",{own}"env":{}}},{{"name":"aside","env":{}}}]}},"status":{{"containerStatuses":[
                    {{"name":"main","ready":false,"state":{{"terminated":{{"exitCode":{code}}}}}}},
                    {{"name":"aside","ready":false,"state":{{"waiting":{{}}}}}}]}}}}"#,
                env("p_5"),
                env("p_0")
            );
            PodFacts::read(&pod).unwrap().waiting.into_iter().collect::<Vec<_>>()
        };
        let rules = r#""restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[42]}}],"#;
        for (policy, own, code, expected) in [
            ("Never", "", 0, vec![0]),
            ("Never", "", 1, vec![0]),
            ("OnFailure", "", 0, vec![0]),
            ("OnFailure", "", 1, vec![0, 5]),
            ("Always", "", 0, vec![0, 5]),
            ("Always", r#""restartPolicy":"Never","#, 1, vec![0]),
            ("Always", rules, 1, vec![0]),
            ("Always", rules, 42, vec![0, 5]),
        ] {
            assert_eq!(waiting(policy, own, code), expected, "{policy} {own} {code}");
        }
    }

    #[test]
    fn the_barrier_of_an_earlier_pod_of_that_name_is_taken_over() {
        let left = Barrier::read(
            r#"{"metadata":{"name":"web-0-barrier","uid":"b","resourceVersion":"7","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-0","uid":"old"}]},"data":{"p_1":"true","p_0":"true"}}"#,
        );
        let left = left.unwrap();
        assert_eq!(left, barrier("old", &["p_1", "p_0"]));
        let pod = pod(&[1, 0]);
        assert_eq!(release(&pod, Some(&left)), Step::TakeOver { resource_version: "7".to_owned() });
        let unowned = Barrier::read(r#"{"metadata":{"resourceVersion":"7"},"data":{"p_0":"true"}}"#).unwrap();
        assert_eq!(release(&pod, Some(&unowned)), Step::Complete);
        assert_eq!(
            pod.take_over_patch("7"),
            r#"{"metadata":{"resourceVersion":"7","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-0","uid":"new"}]},"data":null}"#
        );
    }

    #[test]
    fn patches_name_what_they_were_decided_for() {
        assert_eq!(open_patch("p_1", "7"), r#"{"metadata":{"resourceVersion":"7"},"data":{"p_1":"true"}}"#);
        let patch = pod(&[]).completed_patch();
        assert!(patch.starts_with(r#"{"metadata":{"uid":"new","annotations":{"#), "{patch}");
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
        let mut barrier = barrier("new", &[]);
        let mut opened = Vec::new();
        loop {
            let left: Vec<i64> = waiting.iter().copied().collect();
            match release(&pod(&left), Some(&barrier)) {
                Step::Open { key, .. } => {
                    opened.push(key.clone());
                    barrier.keys.insert(key);
                }
                // The containers of the highest priority become ready.
                Step::Wait => drop(waiting.pop_last()),
                step => break assert_eq!(step, Step::Complete),
            }
        }
        assert_eq!(waiting, BTreeSet::from([-2]));
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
