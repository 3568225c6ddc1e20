//! A Pod that is to be deleted or evicted gives its slot back at once, before it is gone
//! (docs/behaviour/workloadspread.md#deletion-of-a-pod). Nothing is ever refused.

use super::member::id;
use super::record::Matched;
use super::slots::{Claim, PodEvent};
use super::spread::Spread;
use super::spreads::Spreads;
use crate::workload::target::Workload;
use pod::observed::ObservedPod;

/// The WorkloadSpread that has to record the deletion, and the claim on it; `None` where none has.
pub fn claim<'s>(pod: &ObservedPod, spreads: &'s Spreads) -> Option<(&'s Spread, Claim)> {
    let of_namespace = spreads.of(&pod.metadata.namespace);
    if of_namespace.is_empty() || !pod.is_active() || pod.controller().is_none() {
        return None;
    }
    let matched = Matched::of(pod)?;
    let spread = of_namespace.iter().find(|spread| spread.name() == matched.name)?;
    let is_limited = spread.subset(&matched.subset).is_some_and(|subset| subset.max_replicas.is_some());
    (is_limited && !spread.goes_by_ordinal()).then(|| {
        let version = spreads.versioned.of(pod).to_owned();
        let id = id(pod, Some(&matched));
        let event = PodEvent::Deletion { pod: pod.metadata.name.to_string(), id, subset: matched.subset };
        (spread, Claim { version, replicas: None, event })
    })
}

/// What to report, and to which WorkloadSpread, where others refused to create or delete a named Pod of `namespace`:
/// admission may have noted it.
pub fn refused<'s>(namespace: &str, pod: &ObservedPod, spreads: &'s Spreads) -> Option<(&'s Spread, Claim)> {
    let spread = spreads.dividing(namespace, &Workload::from(pod.controller()?))?;
    let is_limited = spread.subsets().iter().any(|subset| subset.max_replicas.is_some());
    (is_limited && !spread.goes_by_ordinal()).then(|| {
        let version = spreads.versioned.of(pod).to_owned();
        let event = PodEvent::Refusal { pod: pod.metadata.name.to_string() };
        (spread, Claim { version, replicas: None, event })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::namespaced::Namespaced;

    fn claimed(pod: &str) -> Option<PodEvent> {
        let mut spreads = Spreads::default();
        let object = r#"{"metadata":{"name":"ws","namespace":"shop"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"},
            "subsets":[{"name":"a","maxReplicas":3},{"name":"b"}]}}"#;
        Namespaced::apply(&mut spreads.listed.objects, "shop", "ws", Spread::read(object)).unwrap();
        claim(&ObservedPod::read(pod).unwrap(), &spreads).map(|(_, claim)| claim.event)
    }

    fn pod(mark: &str, more: &str, status: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"p","namespace":"shop","annotations":{{"apps.kruise.io/matched-workloadspread":{}}},
            "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true}}]{more}}},"status":{{"phase":"{status}"}}}}"#,
            values::json_patch::string(mark)
        )
    }

    #[test]
    fn only_active_pods_of_limited_subsets_give_a_slot_back() {
        let mark = r#"{"name":"ws","subset":"a"}"#;
        let noted =
            |id: &str| PodEvent::Deletion { pod: "p".to_owned(), id: id.to_owned(), subset: "a".to_owned() };
        assert_eq!(claimed(&pod(mark, "", "Running")), Some(noted("p")));
        let unnamed = r#"{"name":"ws","subset":"a","uid":"uuid"}"#;
        assert_eq!(claimed(&pod(unnamed, "", "Running")), Some(noted("uuid")));
        for other in [
            pod(r#"{"name":"ws","subset":"b"}"#, "", "Running"),
            pod(r#"{"name":"ws","subset":"gone"}"#, "", "Running"),
            pod(r#"{"name":"other","subset":"a"}"#, "", "Running"),
            pod("oops", "", "Running"),
            pod(mark, "", "Succeeded"),
            pod(mark, r#","deletionTimestamp":"2026-01-01T00:00:00Z""#, "Running"),
            r#"{"metadata":{"name":"p","namespace":"shop"}}"#.to_owned(),
        ] {
            assert_eq!(claimed(&other), None, "{other}");
        }
    }
}
