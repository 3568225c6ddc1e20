//! Claims: whose they are, and what becomes of them (docs/behaviour/cloneset.md#volume-claims and
//! docs/behaviour/cloneset.md#acceptance-scenarios).

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::fixture::{Fleet, template};
use super::super::*;
use super::{claims, created, in_place, names, with};

use crate::workload::storage_class::StorageClass;
use ::pod::observed::Pairs;
use ::pod::write::PodWrite;
use api::features::FeatureGates;

#[test]
fn scenario_1_pods_and_claims_share_an_id() {
    let fleet = Fleet::running(3, claims());
    assert_eq!(fleet.claims.len(), 3);
    for pod in &fleet.pods {
        let id = pod.label("apps.kruise.io/cloneset-instance-id").unwrap();
        assert_eq!(*pod.metadata.name, *format!("web-{id}"));
        let claim =
            fleet.claims.iter().find(|claim| *claim.metadata.name == *format!("data-web-{id}")).unwrap();
        assert_eq!(claim.metadata.labels.get("apps.kruise.io/cloneset-instance-id"), Some(id));
        assert_eq!(claim.metadata.labels.get("app"), Some("web"));
        assert!(pod.has_readiness_gate("InPlaceUpdateReady"));
        assert_eq!(pod.label("lifecycle.apps.kruise.io/state"), Some("Normal"));
    }
}

#[test]
fn scenario_16_without_reuse_the_claim_goes_with_the_pod() {
    let mut fleet = Fleet::running(2, claims());
    let name = fleet.name(0);
    fleet.lingering = true;
    fleet.remove(&name);
    let plan = fleet.settled_plan();
    let [Action::HandOverClaim { pod, patch, .. }] = plan.release.as_slice() else { panic!("{plan}") };
    assert_eq!(*pod, name);
    let patch: Value = serde_json::from_str(patch).unwrap();
    assert_eq!(patch["metadata"]["ownerReferences"][0], json!({"$patch": "delete", "uid": "set-uid"}));
    let owner = &patch["metadata"]["ownerReferences"][1];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Pod"), &json!(true)));
    assert!(owner["blockOwnerDeletion"].is_null(), "that would need rights to the finalizers of Pods");
    assert_eq!(created(&plan), 1, "the replacement does not wait");
    fleet.step();
    assert_eq!(fleet.claims.len(), 3, "that of the replacement is new");
}

#[test]
fn scenario_17_with_reuse_the_replacement_takes_over_name_and_claim() {
    let reuse = with(claims(), json!({"scaleStrategy": {"enablePVCReuse": true}}));
    let mut fleet = Fleet::running(2, reuse);
    let (before, claims) = (names(&fleet), fleet.claims.clone());
    let name = fleet.name(0);
    fleet.lingering = true;
    fleet.remove(&name);
    let plan = fleet.step();
    assert!(plan.release.is_empty() && created(&plan) == 0, "the name is not free yet: {plan}");
    assert!(plan.explanation.blockers.iter().any(|blocker| blocker.reason == "ClaimInUse"), "{plan}");
    fleet.lingering = false;
    fleet.remove(&name);
    fleet.settle();
    assert_eq!(names(&fleet), before);
    assert_eq!(fleet.claims, claims);
}

#[test]
fn scenario_18_recreation_renews_claims() {
    // What cannot be changed in place comes with new Pods, too.
    let mut variable = template("nginx:2");
    variable["spec"]["containers"][0]["env"] = json!([{"name": "MODE", "value": "b"}]);
    for (rolling, template) in
        [(json!({}), template("nginx:2")), (in_place(json!({"maxUnavailable": 1})), variable)]
    {
        let mut fleet = Fleet::running(2, with(rolling, claims()));
        let old: Vec<_> = fleet.claims.iter().map(|claim| claim.metadata.uid.clone()).collect();
        fleet.edit(json!({"spec": {"template": template}}));
        fleet.step();
        let marks = fleet.pods.iter().filter_map(|pod| pod.label("apps.kruise.io/specified-delete"));
        assert_eq!((marks.collect::<Vec<_>>(), fleet.pods.len()), (vec!["true"], 2), "marked before it goes");
        fleet.settle();
        assert_eq!((fleet.pods.len(), fleet.claims.len(), fleet.with_image("nginx:2")), (2, 2, 2));
        assert!(fleet.claims.iter().all(|claim| !old.contains(&claim.metadata.uid)));
    }
}

#[test]
fn scenario_19_claim_templates_count_only_with_the_gate() {
    for gate in [false, true] {
        let mut fleet = Fleet::running(2, with(in_place(json!({})), claims()));
        fleet.gates = FeatureGates::default().with(Feature::RecreatePodWhenChangeVCTInCloneSetGate, gate);
        let before = names(&fleet);
        let mut bigger = claims();
        bigger["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
        fleet.edit(json!({"spec": bigger}));
        fleet.settle();
        assert!(fleet.revisions.len() == 1 && names(&fleet) == before, "claims alone make no revision");
        fleet.image("nginx:2");
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), 2);
        assert_eq!(names(&fleet) == before, !gate);
        let size = |claim: &Arc<Claim>| claim.spec.resources.requests.get("storage").unwrap().to_owned();
        let sizes: Vec<String> = fleet.claims.iter().map(size).collect();
        assert_eq!(sizes, [if gate { "2Gi" } else { "1Gi" }; 2]);
    }
}

#[test]
fn a_pod_that_is_let_go_keeps_its_name_and_its_claim() {
    let reuse = json!({"scaleStrategy": {"enablePVCReuse": true}});
    for set in [claims(), with(claims(), reuse)] {
        let mut fleet = Fleet::running(2, set);
        let (name, before) = (fleet.name(0), fleet.claims.clone());
        let mut relabel = PodWrite::default();
        relabel.set_label("app", "debug");
        relabel.apply(fleet.pod_mut(&name));
        let plan = fleet.step();
        let [Action::HandOverClaim { pod, .. }] = plan.release.as_slice() else { panic!("{plan}") };
        assert_eq!((pod, created(&plan)), (&name, 1), "{plan}");
        fleet.settle();
        assert!(fleet.pod_mut(&name).controller().is_none());
        assert_eq!((fleet.pods.len(), fleet.claims.len()), (3, 3));
        assert!(
            before
                .iter()
                .all(|known| fleet.claims.iter().any(|claim| claim.metadata.uid == known.metadata.uid))
        );
    }
}

#[test]
fn sharp_edge_18_refused_pods_keep_their_claims() {
    let mut fleet = Fleet::new(with(claims(), json!({"replicas": 1})));
    let plan = fleet.settled_plan();
    let [Action::CreatePod { instance_id, claims, .. }] = plan.scale.as_slice() else { panic!("{plan}") };
    // The claim was created, the Pod refused.
    fleet.claims.push(Arc::new(Claim::read(&claims[0].json).unwrap()));
    assert!(matches!(fleet.plan().release.as_slice(), [Action::DeleteClaim(_)]));
    fleet.refused.insert(instance_id.clone());
    let again = fleet.plan();
    let [Action::CreatePod { instance_id: id, claims, .. }] = again.scale.as_slice() else {
        panic!("{again}")
    };
    assert!(id == instance_id && claims.is_empty() && again.release.is_empty());
}

/// Two containers mount claims of these names; of each the templates have fields that nobody knows.
fn mounting(names: &[&str]) -> Value {
    let mounts: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
    let claim = |name: &&str| {
        json!({"metadata": {"name": name, "annotations": {"for": name}}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "future": 1.50}})
    };
    let mut template = super::super::fixture::template("nginx:1");
    for container in template["spec"]["containers"].as_array_mut().unwrap() {
        container["volumeMounts"] = json!(mounts);
    }
    json!({"template": template, "volumeClaimTemplates": names.iter().map(claim).collect::<Vec<_>>()})
}

/// A Pod with two claims, of which one is taken out of the template, which comes to no Pod yet.
fn one_claim_less(replicas: i32) -> Fleet {
    let rolling = Fleet::rolling("ReCreate", json!({"partition": 3}));
    let mut fleet = Fleet::running(replicas, with(rolling, mounting(&["one", "two"])));
    fleet.edit(json!({"spec": mounting(&["one"])}));
    fleet
}

fn claim_names(fleet: &Fleet) -> Vec<String> {
    let mut names: Vec<String> =
        fleet.claims.iter().map(|claim| claim.metadata.name.split('-').next().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn pods_of_an_older_revision_have_its_claims() {
    let mut fleet = one_claim_less(1);
    fleet.edit(json!({"spec": {"replicas": 3}}));
    let plan = fleet.settled_plan();
    let [Action::CreatePod { json, claims, .. }, _] = plan.scale.as_slice() else { panic!("{plan}") };
    let pod: Value = serde_json::from_str(json).unwrap();
    let volumes: Vec<&Value> =
        pod["spec"]["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    assert_eq!(volumes, ["one", "two"]);
    let claim: Value = serde_json::from_str(&claims[1].json).unwrap();
    assert_eq!(
        (&claim["spec"]["future"], &claim["metadata"]["annotations"]["for"]),
        (&json!(1.5), &json!("two"))
    );
    fleet.settle();
    assert_eq!(claim_names(&fleet), ["one", "one", "one", "two", "two", "two"]);
    assert!(fleet.pods.iter().all(|pod| pod.spec.claims.len() == 2));
    fleet.edit(json!({"spec": Fleet::rolling("ReCreate", json!({"partition": 0}))}));
    fleet.settle();
    assert_eq!(claim_names(&fleet), ["one", "one", "one"]);
}

/// As OpenKruise leaves revisions: the Pod that is there shows what the next ones need.
#[test]
fn pods_show_the_claims_of_a_revision_that_records_none() {
    let mut fleet = one_claim_less(1);
    fleet.settle();
    for revision in &mut fleet.revisions {
        Arc::make_mut(revision).metadata.annotations.clear();
    }
    let before = fleet.revisions.clone();
    fleet.edit(json!({"spec": {"replicas": 3}}));
    let plan = fleet.settled_plan();
    let [Action::CreatePod { claims, .. }, _] = plan.scale.as_slice() else { panic!("{plan}") };
    let specs: Vec<Value> = claims
        .iter()
        .map(|claim| serde_json::from_str::<Value>(&claim.json).unwrap()["spec"].clone())
        .collect();
    let shown = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    assert_eq!(specs, [with(shown.clone(), json!({"future": 1.50})), shown]);
    fleet.settle();
    assert_eq!(claim_names(&fleet), ["one", "one", "one", "two", "two", "two"]);
    assert_eq!(fleet.revisions.len(), before.len());
    assert!(
        fleet.revisions.iter().all(|revision| revision.claim_templates().is_none()),
        "nothing is written"
    );
}

/// No revision records its claim templates, no Pod shows them, and claims are left for the next Pods.
fn nothing_known() -> Fleet {
    let mut fleet = one_claim_less(1);
    fleet.edit(json!({"spec": {"scaleStrategy": {"enablePVCReuse": true}}}));
    fleet.settle();
    for revision in &mut fleet.revisions {
        Arc::make_mut(revision).metadata.annotations.clear();
    }
    fleet.pods.clear();
    fleet
}

/// A webhook adds it to Pods.
#[test]
fn a_volume_that_was_no_claim_is_left_to_others() {
    let mut fleet = nothing_known();
    fleet.claims.clear();
    fleet.settle();
    assert_eq!((fleet.pods.len(), claim_names(&fleet)), (1, vec!["one".to_owned()]));
}

#[test]
fn a_pod_whose_claims_nobody_knows_any_more_is_reported_and_gets_no_claim() {
    let mut fleet = nothing_known();
    fleet.settle();
    assert!(fleet.pods.is_empty());
    assert_eq!(claim_names(&fleet), ["one", "two"], "nothing comes, nothing goes");
    let status = fleet.status();
    let reported = status.conditions.iter().find(|condition| condition.kind == "FailedScale").unwrap();
    assert!(
        reported.message.contains(r#"mounts volume "two", and there is no such claim template"#),
        "{reported:?}"
    );
    fleet.edit(json!({"spec": {"volumeClaimTemplates": mounting(&["one", "two"])["volumeClaimTemplates"]}}));
    fleet.settle();
    assert_eq!(claim_names(&fleet), ["one", "two"]);
}

/// A change of the claim templates alone makes no revision: the one that there is follows.
#[test]
fn the_newest_revision_records_the_present_claim_templates() {
    let mut fleet = Fleet::running(1, mounting(&["one", "two"]));
    let names =
        |revision: &StoredRevision| revision.claim_templates().map(|raw| raw.get().matches("name").count());
    assert_eq!(names(&fleet.revisions[0]), Some(2));
    fleet.edit(
        json!({"spec": {"volumeClaimTemplates": mounting(&["one", "two", "three"])["volumeClaimTemplates"]}}),
    );
    fleet.settle();
    assert_eq!((fleet.revisions.len(), names(&fleet.revisions[0])), (1, Some(3)));
    fleet.edit(json!({"spec": {"volumeClaimTemplates": null}}));
    fleet.settle();
    assert_eq!((fleet.revisions.len(), names(&fleet.revisions[0])), (1, Some(0)));
}

/// The API server refuses more annotations than so many: Pods come all the same.
#[test]
fn claim_templates_are_not_recorded_where_there_is_no_room_for_them() {
    let mut fleet = Fleet::new(with(mounting(&["one"]), json!({"replicas": 1})));
    fleet.object["metadata"]["annotations"] = json!({"note": "x".repeat(256 * 1024 - 100)});
    fleet.settle();
    assert_eq!((fleet.pods.len(), fleet.revisions.len()), (1, 1));
    assert!(fleet.revisions[0].claim_templates().is_none());
}

fn of_class(size: &str) -> Value {
    let mut claims = claims();
    let spec = &mut claims["volumeClaimTemplates"][0]["spec"];
    spec["storageClassName"] = json!("fast");
    spec["resources"]["requests"]["storage"] = json!(size);
    claims
}

/// Three Pods with a claim of 1Gi each, and a StorageClass that lets them grow or not.
fn growing(gates: &str, allows_expansion: bool) -> Fleet {
    let spec = with(in_place(json!({})), with(of_class("1Gi"), json!({"replicas": 3})));
    let mut fleet = Fleet::with_gates(spec, FeatureGates::parse(gates, "").unwrap());
    let class = StorageClass { name: "fast".into(), allows_expansion, is_default: false, created: None };
    fleet.storage_classes.apply(class);
    fleet.object["metadata"]["annotations"] = json!({"kutter.io/grow-claims": "true"});
    fleet.settle();
    for claim in &mut fleet.claims {
        let claim = Arc::make_mut(claim);
        claim.status.capacity = claim.spec.resources.requests.clone();
    }
    fleet
}

fn sizes(fleet: &Fleet) -> Vec<&str> {
    let mut sizes: Vec<&str> =
        fleet.claims.iter().filter_map(|claim| claim.spec.resources.requests.get("storage")).collect();
    sizes.sort_unstable();
    sizes
}

const GROWS: &str = "StatefulSetAutoResizePVCGate=true";

#[test]
fn claims_of_updated_pods_grow_without_touching_a_pod() {
    let mut fleet = growing(GROWS, true);
    let before = names(&fleet);
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}));
    fleet.image("nginx:2");
    fleet.settle();
    fleet.edit(json!({"spec": of_class("2Gi")}));
    fleet.settle();
    assert_eq!(sizes(&fleet), ["1Gi", "1Gi", "2Gi"], "those of older Pods wait for their turn");
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0, "paused": true}}}}));
    fleet.edit(json!({"spec": of_class("3Gi")}));
    fleet.settle();
    assert_eq!(sizes(&fleet), ["1Gi", "1Gi", "2Gi"], "a pause holds them");
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": false}}}}));
    fleet.settle();
    assert_eq!((sizes(&fleet), names(&fleet)), (vec!["3Gi"; 3], before));
    fleet.edit(json!({"spec": of_class("1Gi")}));
    fleet.settle();
    assert_eq!(sizes(&fleet), ["3Gi"; 3], "nothing shrinks");
}

#[test]
fn claims_stay_without_gate_annotation_or_volume_and_where_the_class_lets_none_grow() {
    let mut without_gate = growing("", true);
    let mut without_annotation = growing(GROWS, true);
    without_annotation.object["metadata"]["annotations"] = json!({});
    let mut without_expansion = growing(GROWS, false);
    let mut without_volumes = growing(GROWS, true);
    without_volumes
        .claims
        .iter_mut()
        .for_each(|claim| Arc::make_mut(claim).status.capacity = Pairs::default());
    for fleet in [&mut without_gate, &mut without_annotation, &mut without_expansion, &mut without_volumes] {
        fleet.edit(json!({"spec": of_class("2Gi")}));
        fleet.settle();
        assert_eq!(sizes(fleet), ["1Gi"; 3]);
    }
    let problem = without_expansion.plan().problems.update.unwrap();
    assert!(problem.starts_with("storage class fast for web-"), "{problem}");
    assert!(problem.ends_with(" does not support volume expansion"), "{problem}");
    assert_eq!(without_gate.plan().problems.update, None);
}
