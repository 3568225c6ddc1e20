use super::*;

fn retaining(when_deleted: &str, when_scaled: &str) -> serde_json::Value {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    let mut spec = parallel(json!({"persistentVolumeClaimRetentionPolicy": policy}));
    merge(&mut spec, claims("1Gi"));
    spec
}

fn owners(fleet: &Fleet, claim: &str) -> Vec<String> {
    let claim = fleet.claims.iter().find(|known| &*known.metadata.name == claim).unwrap();
    claim.metadata.owner_references.iter().map(|owner| owner.kind.clone()).collect()
}

#[test]
fn scenario_25_claims_go_with_the_set_where_that_is_wanted() {
    for (when_deleted, expected) in [("Delete", vec!["StatefulSet"]), ("Retain", vec![])] {
        let mut fleet = Fleet::running(1, retaining(when_deleted, "Retain"));
        assert_eq!(owners(&fleet, "www-web-0"), expected);
        let other = if when_deleted == "Delete" { "Retain" } else { "Delete" };
        fleet.edit(json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": other}}}));
        fleet.settle();
        assert_eq!(owners(&fleet, "www-web-0").len(), 1 - expected.len());
    }
    let fleet = Fleet::with_gates(retaining("Delete", "Delete"), gates("StatefulSetAutoDeletePVC=false"));
    let mut fleet = fleet;
    fleet.settle();
    assert_eq!(owners(&fleet, "www-web-0"), [""; 0]);
}

#[test]
fn scenario_26_claims_go_with_pods_that_are_scaled_in() {
    for change in [json!({"replicas": 2}), json!({"replicas": 2, "reserveOrdinals": [2]})] {
        let mut fleet = Fleet::running(3, retaining("Delete", "Delete"));
        assert_eq!(owners(&fleet, "www-web-2"), ["StatefulSet"]);
        fleet.edit(json!({"spec": change}));
        fleet.step();
        assert_eq!(owners(&fleet, "www-web-2"), ["Pod"]);
        assert_eq!(fleet.ordinals(), [0, 1, 2], "its claim comes first");
        fleet.step();
        assert_eq!(fleet.ordinals(), [0, 1]);
        fleet.edit(json!({"spec": {"replicas": 3, "reserveOrdinals": null}}));
        assert!(fleet.settled_plan().scale.is_empty(), "the claim is still to go");
        fleet.claims.retain(|claim| &*claim.metadata.name != "www-web-2");
        fleet.settle();
        assert_eq!(fleet.ordinals(), [0, 1, 2]);
        assert_eq!(owners(&fleet, "www-web-2"), ["StatefulSet"]);
    }
}

#[test]
fn scenario_42_a_claim_that_a_pod_waits_for_is_made_again() {
    let mut fleet = Fleet::new(retaining("Retain", "Retain"));
    fleet.step();
    fleet.claims.clear();
    fleet.step();
    assert_eq!(fleet.claims.len(), 1);
    fleet.kubelet();
    fleet.claims.clear();
    fleet.step();
    assert_eq!(fleet.claims.len(), 0, "a Pod that runs needs none");
}

#[test]
fn sharp_edge_7_a_new_claim_template_waits_for_new_pods() {
    let mut fleet = Fleet::running(2, retaining("Retain", "Retain"));
    let both = json!([
        claims("1Gi")["volumeClaimTemplates"][0],
        {"metadata": {"name": "log"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
    ]);
    fleet.edit(json!({"spec": {"volumeClaimTemplates": both, "replicas": 3}}));
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 1, 2]);
    let condition = fleet.set_status().conditions.into_iter().find(|known| known.kind == "FailedUpdatePod");
    let message = condition.unwrap().message;
    assert!(message.contains(r#"pod web-0 has no volume of claim template "log""#), "{message}");
    for name in ["web-0", "web-1"] {
        fleet.remove(name);
        fleet.settle();
    }
    assert!(fleet.set_status().conditions.is_empty());
}
