//! No object is too odd for the plugin.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::described::Page;
use super::kinds::WorkloadKind;
use super::progress::{bar, is_paused, pause_pointer, progress, updated_pods};
use super::{pods, staged};

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[0-9%]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        let name = prop::sample::select(vec![
            "spec",
            "status",
            "metadata",
            "generation",
            "observedGeneration",
            "replicas",
            "updateStrategy",
            "rollingUpdate",
            "partition",
            "updatedReplicas",
            "conditions",
            "subsetStatuses",
            "type",
            "desiredNumberScheduled",
            "strategy",
            "canary",
            "canaryStatus",
            "steps",
            "matches",
            "headers",
            "labels",
            "creationTimestamp",
            "containerStatuses",
            "state",
            "waiting",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..8).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_object_is_too_odd_to_be_looked_at(object in anything(), other in anything()) {
        for kind in WorkloadKind::ALL.into_iter().chain([WorkloadKind::Deployment]) {
            let _ = (progress(kind, &object), pause_pointer(kind, &object), is_paused(&object), bar(kind, &object));
        }
        let all = [other.clone(), object.clone()];
        let _ = (updated_pods(&object, &all), pods::slowest(&all, 2, Timestamp::UNIX_EPOCH));
        let _ = pods::newest_warning(&all, "", &all, Timestamp::UNIX_EPOCH);
        let _ = (staged::approve(&object), staged::undo_fast(&object), staged::workload(&object));
        let now = Timestamp::UNIX_EPOCH;
        let page = Page { rollout: &object, workload: Some(&other), pods: &all, all: true, colour: true, now };
        let _ = page.text();
    }
}
