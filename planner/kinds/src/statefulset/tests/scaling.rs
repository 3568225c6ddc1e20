use super::*;

fn ordered(more: serde_json::Value) -> serde_json::Value {
    let mut spec = json!({"podManagementPolicy": "OrderedReady"});
    merge(&mut spec, more);
    spec
}

#[test]
fn scenario_1_ordered_pods_come_one_after_another() {
    let mut spec = ordered(json!({"replicas": 3}));
    merge(&mut spec, claims("1Gi"));
    merge(
        &mut spec,
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"minReadySeconds": 10}}}),
    );
    let mut fleet = Fleet::new(spec);
    fleet.step();
    assert_eq!(fleet.ordinals(), [0]);
    let claim = &fleet.claims[0].metadata;
    assert_eq!((&*claim.name, claim.owner_references.len()), ("www-web-0", 0));
    fleet.step();
    assert_eq!(fleet.ordinals(), [0], "it is not ready");
    fleet.kubelet();
    let plan = fleet.step();
    assert_eq!(fleet.ordinals(), [0], "it is not available");
    assert_eq!(plan.requeue_after, Some(std::time::Duration::from_millis(10_010)));
    fleet.later(11);
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1]);
}

#[test]
fn scenario_2_parallel_pods_come_at_once() {
    let mut fleet = Fleet::new(parallel(json!({"replicas": 3})));
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1, 2]);
}

#[test]
fn scenario_3_an_ordinal_that_is_reserved_is_replaced_before_it_goes() {
    let mut fleet = Fleet::running(4, ordered(json!({"reserveOrdinals": [1]})));
    assert_eq!(fleet.ordinals(), [0, 2, 3, 4]);
    fleet.edit(json!({"spec": {"reserveOrdinals": [1, 3]}}));
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 2, 3, 4, 5]);
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 2, 3, 4, 5], "its replacement is not ready");
    fleet.kubelet();
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 2, 4, 5]);
}

#[test]
fn scenario_6_the_first_ordinal_counts_where_its_gate_is_on() {
    let spec = parallel(json!({"replicas": 5, "ordinals": {"start": 3}}));
    let mut fleet = Fleet::with_gates(spec.clone(), gates("StatefulSetStartOrdinal=true"));
    fleet.step();
    assert_eq!(fleet.ordinals(), [3, 4, 5, 6, 7]);
    let mut fleet = Fleet::new(spec);
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1, 2, 3, 4]);
}

#[test]
fn scenario_7_a_new_pod_is_known_by_its_labels() {
    let mut fleet = Fleet::new(parallel(json!({"serviceName": "db", "replicas": 1})));
    let plan = fleet.settled_plan();
    let Some(Action::CreatePod { json, .. }) = plan.scale.first() else { panic!("{plan}") };
    let pod: serde_json::Value = serde_json::from_str(json).unwrap();
    let update = &plan.status.as_ref().unwrap().status().update_revision;
    let label = |key: &str| pod.pointer("/metadata/labels").and_then(|labels| labels.get(key)).cloned();
    assert_eq!(label("controller-revision-hash"), Some(json!(update)));
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), Some(json!("web-0")));
    assert_eq!(label("apps.kubernetes.io/pod-index"), Some(json!("0")));
    assert_eq!(label("lifecycle.apps.kruise.io/state"), Some(json!("Normal")));
    assert_eq!(pod.pointer("/spec/hostname"), Some(&json!("web-0")));
    assert_eq!(pod.pointer("/spec/subdomain"), Some(&json!("db")));
    assert_eq!(pod.pointer("/spec/readinessGates"), None, "users ask for updates in place themselves");
    fleet.gates = gates("PodIndexLabel=false");
    let plan = fleet.settled_plan();
    assert!(!plan.to_string().contains("pod-index"));
}

#[test]
fn scenario_8_a_scale_budget_limits_pods_that_are_not_available() {
    let mut fleet = Fleet::new(parallel(json!({"replicas": 5, "scaleStrategy": {"maxUnavailable": 2}})));
    fleet.step();
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1]);
    fleet.kubelet_of(0);
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1, 2]);
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 1, 2, 3, 4]);
}

#[test]
fn scenario_29_and_sharp_edge_2_a_pod_that_failed_is_replaced() {
    for spec in
        [parallel(json!({})), ordered(json!({})), parallel(json!({"scaleStrategy": {"maxUnavailable": 1}}))]
    {
        let mut fleet = Fleet::running(3, spec);
        for phase in ["Failed", "Succeeded"] {
            let before = fleet.uid("web-1");
            fleet.pod_mut("web-1").status.phase = phase.into();
            fleet.settle();
            assert_eq!(fleet.ordinals(), [0, 1, 2]);
            assert_ne!(fleet.uid("web-1"), before, "{phase}");
        }
    }
}

#[test]
fn scenario_30_a_pod_that_does_not_end_holds_up_no_other_of_parallel_ones() {
    for (spec, expected) in [(parallel(json!({})), vec![0, 1, 2, 3]), (ordered(json!({})), vec![0, 1, 2])] {
        let mut fleet = Fleet::running(3, spec);
        fleet.lingering = true;
        fleet.remove("web-1");
        fleet.edit(json!({"spec": {"replicas": 4}}));
        fleet.settle();
        assert_eq!(fleet.ordinals(), expected);
    }
}

#[test]
fn sharp_edge_3_a_pod_that_ends_spends_the_scale_budget_once() {
    let mut fleet = Fleet::running(3, parallel(json!({"scaleStrategy": {"maxUnavailable": 2}})));
    fleet.lingering = true;
    fleet.remove("web-0");
    fleet.break_pod(0);
    fleet.edit(json!({"spec": {"replicas": 5}}));
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1, 2, 3]);
}

#[test]
fn scenario_44_ordered_pods_that_are_not_ready_hold_up_scaling() {
    for replicas in [1, 5] {
        let mut fleet = Fleet::running(3, ordered(json!({})));
        for index in 0..3 {
            fleet.break_pod(index);
        }
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        assert!(fleet.settled_plan().is_idle());
        fleet.kubelet();
        fleet.settle();
        assert_eq!(fleet.ordinals(), (0..replicas).collect::<Vec<i32>>());
    }
}

#[test]
fn scenario_23_hook_pre_normal_holds_new_pods() {
    let hook = json!({"lifecycle": {"preNormal": {"labelsHandler": {"checked": "yes"}}}});
    let mut fleet = Fleet::new(parallel(hook));
    fleet.edit(json!({"spec": {"replicas": 2}}));
    fleet.step();
    fleet.kubelet();
    fleet.step();
    let status = fleet.set_status();
    assert_eq!((status.ready_replicas, status.available_replicas), (2, 0));
    fleet.labelled("web-0", "checked", Some("yes"));
    fleet.settle();
    assert_eq!(fleet.set_status().available_replicas, 1);
    fleet.edit(json!({"spec": {"template": {"metadata": {"labels": {"checked": "yes"}}}, "replicas": 3}}));
    let plan = fleet.settled_plan();
    let Some(Action::CreatePod { json, .. }) = plan.scale.first() else { panic!("{plan}") };
    assert!(json.contains(r#""lifecycle.apps.kruise.io/state":"Normal""#), "the template has the hook");
}

#[test]
fn sharp_edge_28_a_slot_that_cannot_be_filled_holds_up_no_other() {
    let mut spec = parallel(json!({}));
    merge(&mut spec, claims("1Gi"));
    let mut fleet = Fleet::running(3, spec);
    fleet.remove("web-0");
    let now = fleet.now;
    fleet.claim_mut("www-web-0").metadata.deletion_timestamp = Some(now.into());
    fleet.edit(json!({"spec": {"replicas": 4}}));
    let plan = fleet.step();
    assert_eq!(plan.problems.scale.as_deref(), Some("pvc www-web-0 is to be deleted"));
    assert_eq!(fleet.ordinals(), [1, 2, 3]);
    let status = fleet.set_status();
    assert_eq!(status.conditions[0].kind, "FailedCreatePod");
    assert_eq!(
        status.conditions[0].message,
        "StatefulPodControl failed to create Pod error: pvc www-web-0 is to be deleted"
    );
}

#[test]
fn what_was_refused_is_tried_last() {
    let mut fleet = Fleet::new(parallel(json!({"replicas": 3})));
    fleet.refused.insert("web-0".to_owned());
    let plan = fleet.settled_plan();
    let names: Vec<&str> = plan.scale.iter().map(Action::object).collect();
    assert_eq!(names, ["web-1", "web-2", "web-0"]);
}

#[test]
fn very_many_pods_are_created_in_parts() {
    let mut fleet = Fleet::new(parallel(json!({"replicas": i32::MAX})));
    let plan = fleet.settled_plan();
    assert_eq!(plan.scale.len(), 500);
    fleet.edit(json!({"spec": {"reserveOrdinals": ["0-2000000000"]}}));
    assert_eq!(fleet.settled_plan().scale.first().map(Action::object), Some("web-2000000001"));
}

#[test]
fn sharp_edge_11_a_rollout_is_not_finished_while_pods_are_missing() {
    let mut fleet = Fleet::running(
        3,
        parallel(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}})),
    );
    let current = fleet.set_status().current_revision;
    fleet.edit(json!({"spec": {"replicas": 0}}));
    fleet.settle();
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    let status = fleet.set_status();
    assert_ne!(status.current_revision, current, "no Pod is wanted: there is nothing to finish");
    fleet.edit(json!({"spec": {"replicas": 3, "template": template("nginx:3")}}));
    fleet.step();
    let status = fleet.set_status();
    assert_ne!(status.current_revision, status.update_revision);
}

#[test]
fn a_creation_that_is_refused_for_ever_takes_nothing_of_the_budget() {
    let mut fleet = Fleet::new(parallel(json!({"replicas": 3, "scaleStrategy": {"maxUnavailable": 1}})));
    let planned = |fleet: &mut Fleet| {
        let plan = fleet.settled_plan();
        plan.scale.iter().map(|action| action.object().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(planned(&mut fleet), ["web-0"]);
    fleet.refused.insert("web-0".to_owned());
    assert_eq!(planned(&mut fleet), ["web-1", "web-0"]);
    // They may all pass at once.
    fleet.refused.extend(["web-1", "web-2"].map(str::to_owned));
    assert_eq!(planned(&mut fleet).len(), 1);
}
