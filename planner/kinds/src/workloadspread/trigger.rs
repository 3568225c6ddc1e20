//! Which WorkloadSpreads a change concerns, and when (docs/behaviour/workloadspread.md#triggers).

use std::time::Duration;

use super::record::Matched;
use super::spread::Spread;
use super::status::is_unschedulable;
use super::version::VersionedKinds;
use crate::workload::resolved::{DEPLOYMENT_REVISION, ResolvedWorkload};
use crate::workload::target::Workload;
use pod::observed::ObservedPod;

/// How long changes are gathered that come in great numbers and that nobody waits for: slots that are taken or given
/// back are in the status already.
const GATHERED: Duration = Duration::from_millis(200);

/// When to reconcile a WorkloadSpread that has changed.
pub fn of_spread(old: Option<&Spread>, new: Option<&Spread>) -> Duration {
    let said = |spread: &Spread| {
        let metadata = &spread.object().metadata;
        (
            metadata.uid.clone(),
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            metadata.annotations.clone(),
        )
    };
    if old.map(said) == new.map(said) { GATHERED } else { Duration::ZERO }
}

/// The WorkloadSpread of a Pod to which its change matters, and when. Pods without a mark are of no concern: those
/// that got no slot stay as they are until something else happens.
pub fn of_pod(
    old: Option<&ObservedPod>,
    new: Option<&ObservedPod>,
    versioned: &VersionedKinds,
) -> Option<(String, Duration)> {
    let name = Matched::of(new.or(old)?)?.name;
    let due = match (old, new) {
        (None, Some(_)) => GATHERED,
        (Some(old), Some(new)) => {
            let ended = old.is_active() && !new.is_active();
            let schedulability_changed = is_unschedulable(old) != is_unschedulable(new);
            if !ended && !schedulability_changed && versioned.of(old) == versioned.of(new) {
                return None;
            }
            Duration::ZERO
        }
        (_, None) => Duration::ZERO,
    };
    Some((name, due))
}

/// Whether a change of a workload concerns a WorkloadSpread: its target, or a ReplicaSet of it, has come or gone,
/// wants another number of Pods, or has another revision.
pub fn of_workload(spread: &Spread, old: Option<&ResolvedWorkload>, new: Option<&ResolvedWorkload>) -> bool {
    let said = |workload: &ResolvedWorkload| {
        let revision = workload.metadata.annotations.get(DEPLOYMENT_REVISION).map(str::to_owned);
        let is_deleted = workload.metadata.deletion_timestamp.is_some();
        (workload.metadata.uid.clone(), workload.replicas, workload.parallelism, revision, is_deleted)
    };
    if old.map(said) == new.map(said) {
        return false;
    }
    let target = spread.target();
    new.or(old).is_some_and(|workload| {
        let itself = Workload::new(&workload.group, &workload.kind, &workload.metadata.name);
        let owner = workload.metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
        itself == *target
            || (itself.is("apps", "ReplicaSet")
                && target.is("apps", "Deployment")
                && owner.is_some_and(|owner| Workload::from(owner) == *target))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(change: impl Fn(&mut serde_json::Value)) -> ObservedPod {
        let mark = json!({"name": "ws", "subset": "a"}).to_string();
        let mut pod = json!({"metadata": {"name": "p", "annotations": {"apps.kruise.io/matched-workloadspread": mark}},
            "spec": {}, "status": {"phase": "Pending"}});
        change(&mut pod);
        ObservedPod::read(&pod.to_string()).unwrap()
    }

    #[test]
    fn changes_of_marked_pods_that_count_are_reported() {
        let plain = pod(|_| ());
        let of = |old: Option<&ObservedPod>, new: Option<&ObservedPod>| {
            of_pod(old, new, &VersionedKinds::default())
        };
        let at_once = Some(("ws".to_owned(), Duration::ZERO));
        assert_eq!(of(None, Some(&plain)), Some(("ws".to_owned(), GATHERED)));
        assert_eq!(of(Some(&plain), None), at_once);
        let ended = pod(|pod| pod["status"]["phase"] = json!("Succeeded"));
        let stuck = pod(|pod| {
            pod["status"]["conditions"] =
                json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        });
        assert_eq!(of(Some(&plain), Some(&ended)), at_once);
        assert_eq!(of(Some(&plain), Some(&stuck)), at_once);
        let ready = pod(|pod| pod["status"]["phase"] = json!("Running"));
        assert_eq!(of(Some(&plain), Some(&ready)), None);
        let unmarked = pod(|pod| pod["metadata"]["annotations"] = json!({}));
        assert_eq!(of(None, Some(&unmarked)), None);
    }

    #[test]
    fn workloads_concern_their_spread_when_they_want_other_pods() {
        let object = json!({"metadata": {"name": "ws"}, "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let spread = Spread::read(&object.to_string()).unwrap();
        let workload = |kind: &str, name: &str, replicas: i32| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
            let metadata = json!({"name": name, "uid": name, "ownerReferences": if kind == "ReplicaSet" { owner } else { json!([]) }});
            ResolvedWorkload::read(
                "apps",
                kind,
                &json!({"metadata": metadata, "spec": {"replicas": replicas}}).to_string(),
            )
            .unwrap()
        };
        let (three, four) = (workload("Deployment", "web", 3), workload("Deployment", "web", 4));
        assert!(of_workload(&spread, Some(&three), Some(&four)) && of_workload(&spread, None, Some(&three)));
        assert!(!of_workload(&spread, Some(&three), Some(&three)));
        assert!(!of_workload(&spread, None, Some(&workload("Deployment", "db", 1))));
        assert!(of_workload(&spread, None, Some(&workload("ReplicaSet", "web-1", 1))));
    }
}
