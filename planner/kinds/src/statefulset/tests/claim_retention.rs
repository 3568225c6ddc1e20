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
    let uids = |fleet: &Fleet| [fleet.uid("web-0"), fleet.uid("web-1")];
    let before = uids(&fleet);
    let both = json!([
        claims("1Gi")["volumeClaimTemplates"][0],
        {"metadata": {"name": "log"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
    ]);
    fleet.edit(json!({"spec": {"volumeClaimTemplates": both, "replicas": 3}}));
    fleet.settle();
    assert_eq!((fleet.ordinals(), uids(&fleet)), (vec![0, 1, 2], before));
    let condition = fleet.set_status().conditions.into_iter().find(|known| known.kind == "FailedUpdatePod");
    let message = condition.unwrap().message;
    assert!(message.contains(r#"pod web-0 has no volume of claim template "log""#), "{message}");
    for name in ["web-0", "web-1"] {
        fleet.remove(name);
        fleet.settle();
    }
    assert!(fleet.set_status().conditions.is_empty());
    assert_eq!(fleet.claims.len(), 6);
}

/// A StatefulSet of one Pod whose claim `log` and its mount are taken out of the template, which comes to no Pod yet.
fn one_claim_less() -> Fleet {
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}})
    };
    let mounting = |names: &[&str]| {
        let mut template = template("nginx:1");
        let mounts = names.iter().map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
        template["spec"]["initContainers"][0]["volumeMounts"] = mounts.collect();
        let claims: Vec<serde_json::Value> = names.iter().map(|name| claim(name)).collect();
        json!({"template": template, "volumeClaimTemplates": claims})
    };
    let mut spec = retaining("Delete", "Retain");
    merge(&mut spec, mounting(&["www", "log"]));
    merge(&mut spec, json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}));
    let mut fleet = Fleet::running(1, spec);
    fleet.edit(json!({"spec": mounting(&["www"])}));
    fleet.settle();
    fleet
}

#[test]
fn pods_below_the_partition_have_the_claims_of_their_revision() {
    for is_recorded in [true, false] {
        let mut fleet = one_claim_less();
        for revision in fleet.revisions.iter_mut().filter(|_| !is_recorded) {
            std::sync::Arc::make_mut(revision).metadata.annotations.clear();
        }
        fleet.edit(json!({"spec": {"replicas": 4}}));
        fleet.settle();
        assert_eq!(fleet.ordinals(), [0, 1, 2, 3]);
        let mut claims: Vec<&str> = fleet.claims.iter().map(|claim| &*claim.metadata.name).collect();
        claims.sort_unstable();
        let old = ["log-web-0", "log-web-1", "log-web-2", "www-web-0", "www-web-1", "www-web-2"];
        assert_eq!(claims, [&old[..], &["www-web-3"]].concat(), "{is_recorded}");
        assert_eq!(owners(&fleet, "log-web-2"), ["StatefulSet"], "it goes with the set like the others");
        assert!(fleet.set_status().conditions.is_empty(), "no Pod lacks a volume of its revision");
        fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
        fleet.settle();
        assert!(fleet.pods.iter().all(|pod| pod.spec.claims.len() == 1));
    }
}

#[test]
fn a_pending_pod_gets_back_the_claims_of_its_own_revision() {
    let mut fleet = one_claim_less();
    fleet.pod_mut("web-0").status.phase = "Pending".into();
    fleet.claims.clear();
    fleet.step();
    assert_eq!(fleet.claims.len(), 2);
}

#[test]
fn what_an_earlier_revision_left_behind_stays_when_pods_are_scaled_in() {
    let mut fleet = one_claim_less();
    for edit in [
        json!({"replicas": 3, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}}),
        json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}),
    ] {
        fleet.edit(json!({"spec": edit}));
        fleet.settle();
    }
    assert!(fleet.pods.iter().all(|pod| pod.spec.claims.len() == 1), "the new revision has no claim log");
    fleet.edit(json!({"spec": {"replicas": 2}}));
    fleet.step();
    assert_eq!(owners(&fleet, "www-web-2"), ["Pod"]);
    assert_eq!(owners(&fleet, "log-web-2"), [""; 0]);
}

/// As OpenKruise leaves revisions, without a Pod that shows what the next ones need.
fn nothing_known() -> Fleet {
    let mut fleet = one_claim_less();
    for revision in &mut fleet.revisions {
        std::sync::Arc::make_mut(revision).metadata.annotations.clear();
    }
    fleet.pods.clear();
    fleet
}

#[test]
fn a_slot_whose_claims_nobody_knows_any_more_is_reported_and_gets_no_claim() {
    let mut fleet = nothing_known();
    let before = fleet.claims.clone();
    fleet.settle();
    assert!(fleet.claims == before && fleet.pods.is_empty());
    let reported =
        fleet.set_status().conditions.into_iter().find(|known| known.kind == "FailedCreatePod").unwrap();
    assert!(reported.message.contains(r#"mounts volume "log""#), "{}", reported.message);
    let stems = fleet.set().claim_stems(&[], &fleet.revisions);
    assert_eq!(stems, ["log-web", "www-web"], "by which its claims are found");
}

/// A webhook adds it to Pods.
#[test]
fn a_volume_that_was_no_claim_is_left_to_others() {
    let mut fleet = nothing_known();
    fleet.claims.clear();
    fleet.settle();
    assert_eq!((fleet.ordinals(), fleet.claims.len()), (vec![0], 1));
    assert!(fleet.set_status().conditions.is_empty());
}
