//! What a change concerns (docs/behaviour/persistentpodstate.md#triggers).

use super::generation::{ANNOTATIONS, asks};
use crate::workload::resolved::ResolvedWorkload;
use pod::observed::ObservedPod;

/// Whether a change of a Pod matters to what is remembered of it: it has become ready, is about to go, or is another
/// one than before.
pub fn of_pod(old: Option<&ObservedPod>, new: Option<&ObservedPod>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) if old.metadata.uid == new.metadata.uid => {
            let leaves =
                new.metadata.deletion_timestamp.is_some() && old.metadata.deletion_timestamp.is_none();
            leaves || new.is_ready() && !old.is_ready()
        }
        // A new one has nothing to be remembered yet.
        (None, Some(new)) => new.is_ready(),
        (_, _) => true,
    }
}

/// Whether a change of a workload matters to what is remembered of its Pods: it has come or gone, or wants other Pods.
pub fn of_records(old: Option<&ResolvedWorkload>, new: Option<&ResolvedWorkload>) -> bool {
    let said = |workload: &ResolvedWorkload| {
        let is_deleted = workload.metadata.deletion_timestamp.is_some();
        let ResolvedWorkload { metadata, replicas, start_ordinal, reserved_ordinals, .. } = workload;
        (metadata.uid.clone(), *replicas, *start_ordinal, reserved_ordinals.clone(), is_deleted)
    };
    old.map(said) != new.map(said)
}

/// Whether a change of a workload matters to the object that it asks for.
pub fn of_generation(old: Option<&ResolvedWorkload>, new: Option<&ResolvedWorkload>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) if old.metadata.uid == new.metadata.uid => {
            let said = |workload: &ResolvedWorkload, key: &str| {
                workload.metadata.annotations.get(key).map(str::to_owned)
            };
            ANNOTATIONS.iter().any(|key| said(old, key) != said(new, key))
        }
        (_, Some(new)) => asks(new),
        // It is deleted with its owner.
        (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, ready: &str, deleted: bool) -> ObservedPod {
        let mut pod = json!({"metadata": {"name": "web-0", "uid": uid},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        ObservedPod::read(&pod.to_string()).unwrap()
    }

    #[test]
    fn pods_matter_when_they_become_ready_or_go() {
        let (waiting, ready, leaving) =
            (pod("a", "False", false), pod("a", "True", false), pod("a", "True", true));
        let next = pod("b", "True", false);
        for (old, new, expected) in [
            (None, Some(&waiting), false),
            (None, Some(&ready), true),
            (Some(&waiting), Some(&ready), true),
            (Some(&ready), Some(&waiting), false),
            (Some(&ready), Some(&ready), false),
            (Some(&ready), Some(&leaving), true),
            (Some(&leaving), Some(&leaving), false),
            (Some(&leaving), None, true),
            // The watch was away while one went and the next one came.
            (Some(&ready), Some(&next), true),
        ] {
            assert_eq!(of_pod(old, new), expected, "{old:?} {new:?}");
        }
    }

    fn set(uid: &str, spec: &Value, annotations: &Value) -> ResolvedWorkload {
        let object =
            json!({"metadata": {"name": "web", "uid": uid, "annotations": annotations}, "spec": spec});
        ResolvedWorkload::read("apps.kruise.io", "StatefulSet", &object.to_string()).unwrap()
    }

    #[test]
    fn workloads_matter_when_they_want_other_pods() {
        let three = set("a", &json!({"replicas": 3}), &json!({}));
        let other = [
            set("a", &json!({"replicas": 2}), &json!({})),
            set("a", &json!({"replicas": 3, "reserveOrdinals": [1]}), &json!({})),
            set("a", &json!({"replicas": 3, "ordinals": {"start": 1}}), &json!({})),
            set("b", &json!({"replicas": 3}), &json!({})),
        ];
        assert!(other.iter().all(|other| of_records(Some(&three), Some(other))));
        assert!(of_records(None, Some(&three)) && of_records(Some(&three), None));
        assert!(!of_records(
            Some(&three),
            Some(&set("a", &json!({"replicas": 3, "x": 1}), &json!({"y": "z"})))
        ));
    }

    #[test]
    fn each_of_the_four_annotations_matters() {
        let plain = set("a", &json!({}), &json!({}));
        let asking = set("a", &json!({}), &json!({"kruise.io/auto-generate-persistent-pod-state": "true"}));
        for key in ANNOTATIONS {
            let with = set("a", &json!({}), &json!({key: "x"}));
            assert!(
                of_generation(Some(&plain), Some(&with)) && of_generation(Some(&with), Some(&plain)),
                "{key}"
            );
        }
        assert!(of_generation(None, Some(&asking)) && !of_generation(None, Some(&plain)));
        let another = set("b", &json!({}), &json!({"kruise.io/auto-generate-persistent-pod-state": "true"}));
        assert!(of_generation(Some(&asking), Some(&another)), "a later workload of the name");
        let scaled = set("a", &json!({"replicas": 5}), &json!({"other": "x"}));
        assert!(!of_generation(Some(&plain), Some(&scaled)) && !of_generation(Some(&asking), None));
    }
}
