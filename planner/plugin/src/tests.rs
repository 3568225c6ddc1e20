//! No object is too odd for the plugin.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::described::Page;
use super::edit::restartable;
use super::kinds::WorkloadKind;
use super::progress::{awaits_workload, bar, is_held, pause_pointer, progress, updated_pods};
use super::template::described;
use super::{deployment, pods, staged};

/// Members of metadata that somebody reads.
const METADATA: [&str; 9] = [
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "labels",
    "name",
    "ownerReferences",
    "resourceVersion",
    "uid",
];
/// Members of the spec, and of what is in it.
const SPEC: [&str; 24] = [
    "blueGreen",
    "canary",
    "containers",
    "env",
    "image",
    "matches",
    "headers",
    "name",
    "objectRef",
    "partition",
    "paused",
    "podUpdatePolicy",
    "ports",
    "replicas",
    "rollingUpdate",
    "selector",
    "spec",
    "steps",
    "strategy",
    "template",
    "traffic",
    "trafficRoutings",
    "type",
    "workloadRef",
];
/// Members of the status, and of what is in it.
const STATUS: [&str; 34] = [
    "availableReplicas",
    "blueGreenStatus",
    "canaryStatus",
    "conditions",
    "containerStatuses",
    "currentRevision",
    "currentStepIndex",
    "currentStepState",
    "desiredNumberScheduled",
    "expectedUpdatedReplicas",
    "matchedPods",
    "numberAvailable",
    "numberReady",
    "observedGeneration",
    "observedWorkloadGeneration",
    "partition",
    "phase",
    "podTemplateHash",
    "readyPods",
    "readyReplicas",
    "reason",
    "replicas",
    "restartCount",
    "stableRevision",
    "state",
    "status",
    "subsetStatuses",
    "type",
    "updateRevision",
    "updatedNumberScheduled",
    "updatedPods",
    "updatedReadyReplicas",
    "updatedReplicas",
    "waiting",
];

/// A value in which members have these names.
fn anything(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let numbers = prop_oneof![any::<i64>(), 0..5_i64, Just(i64::MIN), Just(i64::MAX)];
    let words = ["True", "False", "Progressing", "Healthy", "StepPaused", "OnDelete", "RollingUpdate"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers.prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        "[0-9%]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 48, 12, move |inner| {
        let members = prop::collection::btree_map(prop::sample::select(names), inner.clone(), 0..12);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
            3 => members.prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}

/// An object with the sections that every object has, and with what viewers read in them.
fn object() -> impl Strategy<Value = Value> {
    let update = anything(&SPEC);
    (anything(&METADATA), anything(&SPEC), update, anything(&STATUS)).prop_map(
        |(metadata, mut spec, update, status)| {
            if let Some(members) = spec.as_object_mut() {
                members.insert("updateStrategy".to_owned(), update);
            }
            json!({"metadata": metadata, "spec": spec, "status": status})
        },
    )
}

proptest! {
    #[test]
    fn no_object_is_too_odd_to_be_checked(object in object(), other in object()) {
        for &kind in WorkloadKind::WITH_DEPLOYMENTS {
            let _ = (progress(kind, &object), pause_pointer(kind, &object), is_held(kind, &object), bar(kind, &object));
            let _ = restartable(kind, &object);
        }
        let _ = awaits_workload(&object, &other);
        let _ = described(object.pointer("/spec/template").unwrap_or(&other));
        let _ = deployment::undo(&object, std::slice::from_ref(&other), 0);
        let all = [other.clone(), object.clone()];
        let _ = (updated_pods(&object, &all), pods::slowest(&all, 2, Timestamp::UNIX_EPOCH));
        let _ = pods::newest_warning(&all, "", &all, Timestamp::UNIX_EPOCH);
        let _ = (staged::approve(&object), staged::undo_fast(&object), staged::workload(&object));
        let _ = (staged::jump(&object, 1), staged::step_lines(&object));
        let now = Timestamp::UNIX_EPOCH;
        let page = Page { rollout: &object, workload: Some(&other), pods: &all, all: true, colour: true, now };
        let _ = page.text();
    }
}
