//! Moving from a Deployment to a CloneSet (docs/behaviour/kubectl-kruise.md#migrate). What was planned is written on the
//! CloneSet, and how far it is follows from both objects: whoever starts it again goes on where it was.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::edit::bound;
use crate::text::json_patch::{Patch, Pointer, string};

/// The annotation of a CloneSet with its [`Migration`].
pub const PLAN: &str = "kutter.io/migration";
/// Annotations of a Deployment that mean nothing for another workload.
const LEFT_BEHIND: [&str; 3] = [
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment",
];

/// What was planned, and where both workloads stood.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The Deployment.
    pub source: String,
    /// Its replicas at the start.
    pub source_replicas: i64,
    /// Those of the CloneSet at the start.
    pub destination_replicas: i64,
    /// How many move.
    pub replicas: i64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The CloneSet gets this many replicas.
    Grow(i64),
    /// The Deployment gets this many replicas.
    Shrink(i64),
    /// Nothing, until either object changes.
    Wait,
    /// All have moved.
    Done,
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

impl Migration {
    /// The plan that is written on a CloneSet.
    pub fn of(clone_set: &Value) -> Option<Self> {
        let text = clone_set.pointer("/metadata/annotations")?.get(PLAN)?.as_str()?;
        serde_json::from_str(text).ok()
    }

    /// A plan for all replicas of the Deployment, or for so many.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn new(deployment: &Value, clone_set: &Value, wanted: Option<i64>) -> Result<Self, String> {
        let source_replicas = replicas(deployment);
        let wanted = wanted.unwrap_or(source_replicas);
        if wanted <= 0 || wanted > source_replicas {
            return Err(format!("invalid replicas {wanted}: the Deployment has {source_replicas}"));
        }
        let source = deployment.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            source: source.to_owned(),
            source_replicas,
            destination_replicas: replicas(clone_set),
            replicas: wanted,
        })
    }

    /// How many left the Deployment, and how many were added to the CloneSet.
    pub fn progress(&self, deployment: &Value, clone_set: &Value) -> (i64, i64) {
        (self.source_replicas - replicas(deployment), replicas(clone_set) - self.destination_replicas)
    }

    /// The next step; at most `surge` more replicas than before exist at any time.
    pub fn step(&self, deployment: &Value, clone_set: &Value, surge: i64) -> Step {
        let (moved, added) = self.progress(deployment, clone_set);
        if moved >= self.replicas && added >= self.replicas {
            return Step::Done;
        }
        if !is_observed(deployment) || !is_observed(clone_set) {
            return Step::Wait;
        }
        let more = (surge.max(1) - (added - moved)).min(self.replicas - added);
        if more > 0 {
            return Step::Grow(replicas(clone_set) + more);
        }
        let is_available = number(clone_set, "/status/availableReplicas") == Some(replicas(clone_set));
        let fewer = replicas(deployment).min(self.replicas - moved).min(added - moved);
        if is_available && fewer > 0 {
            return Step::Shrink(replicas(deployment) - fewer);
        }
        Step::Wait
    }

    /// Writes the plan on a CloneSet.
    pub fn noted(&self, clone_set: &Value) -> Patch {
        let mut edits = Patch::default();
        let path = Pointer::from_escaped("/metadata/annotations");
        if !clone_set.pointer(path.as_str()).is_some_and(Value::is_object) {
            edits.add(path.clone(), "{}");
        }
        edits.add(path.key(PLAN), string(&json!(self).to_string()));
        bound(clone_set, edits)
    }
}

/// Takes the plan away.
pub fn forgotten(clone_set: &Value) -> Patch {
    let mut edits = Patch::default();
    edits.remove(Pointer::from_escaped("/metadata/annotations").key(PLAN));
    bound(clone_set, edits)
}

/// Sets the number of replicas.
pub fn scaled(workload: &Value, replicas: i64) -> Patch {
    let mut edits = Patch::default();
    edits.add(Pointer::from_escaped("/spec/replicas"), replicas.to_string());
    bound(workload, edits)
}

/// A CloneSet like a Deployment, with no replicas or with as many.
pub fn clone_set_of(deployment: &Value, name: &str, with_replicas: bool) -> Value {
    let from = |pointer: &str| deployment.pointer(pointer).filter(|value| !value.is_null()).cloned();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    metadata.extend(from("/metadata/namespace").map(|namespace| ("namespace".to_owned(), namespace)));
    metadata.extend(from("/metadata/labels").map(|labels| ("labels".to_owned(), labels)));
    let mut annotations = from("/metadata/annotations").unwrap_or_default();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.retain(|key, _| !LEFT_BEHIND.iter().any(|left| key.starts_with(left)));
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let mut spec = Map::new();
    let replicas = if with_replicas { replicas(deployment) } else { 0 };
    spec.insert("replicas".to_owned(), replicas.into());
    for member in ["selector", "template", "revisionHistoryLimit", "minReadySeconds"] {
        spec.extend(from(&format!("/spec/{member}")).map(|value| (member.to_owned(), value)));
    }
    let mut rolling =
        json!({"podUpdatePolicy": "ReCreate", "paused": from("/spec/paused") == Some(json!(true))});
    if let Some(rolling) = rolling.as_object_mut() {
        for member in ["maxUnavailable", "maxSurge"] {
            let value = from(&format!("/spec/strategy/rollingUpdate/{member}"));
            rolling.extend(value.map(|value| (member.to_owned(), value)));
        }
    }
    spec.insert("updateStrategy".to_owned(), json!({"rollingUpdate": rolling}));
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deployment(replicas: i64) -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}, "finalizers": ["x"], "generation": 1,
                "annotations": {"deployment.kubernetes.io/revision": "3", "team": "t"}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"fieldOfTomorrow": 1},
                "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}, "status": {"observedGeneration": 1}})
    }

    fn clone_set(replicas: i64, available: i64) -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"replicas": replicas},
            "status": {"observedGeneration": 1, "availableReplicas": available}})
    }

    #[test]
    fn a_clone_set_takes_what_means_the_same_for_it() {
        let made = clone_set_of(&deployment(6), "new", false);
        let expected = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "new", "namespace": "shop", "labels": {"a": "b"}, "annotations": {"team": "t"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {"fieldOfTomorrow": 1},
                "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "ReCreate", "paused": false, "maxSurge": "25%"}}}});
        assert_eq!(made, expected);
        assert_eq!(clone_set_of(&deployment(6), "new", true)["spec"]["replicas"], 6);
    }

    #[test]
    fn a_plan_is_kept_on_the_clone_set() {
        let plan = Migration::new(&deployment(6), &clone_set(0, 0), None).unwrap();
        assert_eq!(plan.replicas, 6);
        let annotated = json!({"metadata": {"annotations": {PLAN: json!(plan).to_string()}}});
        assert_eq!(Migration::of(&annotated), Some(plan));
        for wanted in [0, -3, 7] {
            assert!(Migration::new(&deployment(6), &clone_set(0, 0), Some(wanted)).is_err(), "{wanted}");
        }
        assert_eq!(Migration::of(&json!({"metadata": {"annotations": {PLAN: "x"}}})), None);
    }

    proptest! {
        /// Whatever is available when, no replica is lost, none too many is made, and it comes to an end.
        #[test]
        fn a_move_keeps_the_sum_of_replicas(all in 1..20_i64, part in 1..20_i64, start in 0..5_i64, surge in 0..6_i64, lags in prop::collection::vec(any::<bool>(), 200)) {
            let wanted = part.min(all);
            let (mut source, mut destination, mut available) = (all, start, start);
            let plan = Migration::new(&deployment(all), &clone_set(start, start), Some(wanted)).unwrap();
            let mut lags = lags.into_iter();
            for _ in 0..400 {
                match plan.step(&deployment(source), &clone_set(destination, available), surge) {
                    Step::Grow(replicas) => destination = replicas,
                    Step::Shrink(replicas) => source = replicas,
                    Step::Wait if lags.next().unwrap_or(false) => {}
                    Step::Wait => available = destination,
                    Step::Done => break,
                }
                prop_assert!(source + available >= all + start.min(available), "{source} {available}");
                prop_assert!(source + destination <= all + start + surge.max(1));
            }
            prop_assert_eq!((source, destination), (all - wanted, start + wanted));
        }
    }
}
