use super::*;

const SPECIFIED: &str = "apps.kruise.io/specified-delete";

#[test]
fn scenario_21_a_labelled_pod_is_replaced_within_the_budget() {
    let mut spec = parallel(json!({}));
    merge(&mut spec, claims("1Gi"));
    let mut fleet = Fleet::running(3, spec);
    let before = fleet.uid("web-1");
    fleet.labelled("web-1", SPECIFIED, Some("true"));
    fleet.break_pod(0);
    assert!(fleet.settled_plan().is_idle(), "another Pod is unavailable");
    fleet.kubelet();
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 1, 2]);
    assert_ne!(fleet.uid("web-1"), before);
    assert_eq!(fleet.claims.len(), 3);
}

#[test]
fn sharp_edge_9_a_labelled_pod_that_ends_is_not_deleted_again() {
    let mut fleet = Fleet::running(3, parallel(json!({})));
    fleet.lingering = true;
    fleet.labelled("web-1", SPECIFIED, Some("true"));
    fleet.labelled("web-2", SPECIFIED, Some("true"));
    fleet.step();
    assert_eq!(fleet.reasons(), ["SuccessfulDelete"]);
    assert!(fleet.settled_plan().is_idle());
}

#[test]
fn a_labelled_pod_waits_while_the_set_is_paused_and_the_explanation_says_so() {
    let strategies = [json!({"rollingUpdate": {"paused": true}}), json!({"type": "OnDelete"})];
    for strategy in strategies {
        let mut fleet = Fleet::running(2, parallel(json!({})));
        fleet.edit(json!({"spec": {"updateStrategy": strategy}}));
        fleet.labelled("web-1", SPECIFIED, Some("true"));
        let plan = fleet.settled_plan();
        assert!(plan.is_idle());
        let reasons: Vec<_> =
            plan.explanation.blockers.iter().map(|blocker| (&*blocker.pod, blocker.reason)).collect();
        assert_eq!(reasons, [("web-1", "Held")]);
    }
}

#[test]
fn scenario_22_and_sharp_edge_4_hook_pre_delete_holds_pods() {
    for policy in ["OrderedReady", "Parallel"] {
        let hook = json!({"podManagementPolicy": policy, "lifecycle": {"preDelete": {"labelsHandler": {"serving": "yes"}, "markPodNotReady": true}}});
        let mut fleet = Fleet::running(3, hook);
        for name in ["web-1", "web-2"] {
            fleet.labelled(name, "serving", Some("yes"));
        }
        fleet.edit(json!({"spec": {"replicas": 1}}));
        fleet.settle();
        let preparing = |fleet: &Fleet, name: &str| {
            fleet.pods[fleet.at(name)].label("lifecycle.apps.kruise.io/state") == Some("PreparingDelete")
        };
        assert!(preparing(&fleet, "web-2"));
        assert_eq!(preparing(&fleet, "web-1"), policy == "Parallel");
        fleet.labelled("web-2", "serving", None);
        fleet.settle();
        assert_eq!(fleet.ordinals(), [0, 1]);
        fleet.labelled("web-1", "serving", None);
        fleet.settle();
        assert_eq!(fleet.ordinals(), [0]);
    }
}

#[test]
fn sharp_edge_8_a_pod_that_is_wanted_again_stays() {
    let hook = json!({"lifecycle": {"preDelete": {"labelsHandler": {"serving": "yes"}}}});
    let mut fleet = Fleet::running(2, parallel(hook));
    fleet.labelled("web-1", "serving", Some("yes"));
    fleet.edit(json!({"spec": {"replicas": 1}}));
    fleet.settle();
    assert_eq!(fleet.set_status().available_replicas, 1);
    fleet.edit(json!({"spec": {"replicas": 2}}));
    fleet.settle();
    assert_eq!(fleet.set_status().available_replicas, 2);
}

/// Its budget may let it go only once there are as many as are wanted by now.
#[test]
fn further_pods_come_while_a_ready_one_waits_for_its_hook() {
    let ordered = json!({"podManagementPolicy": "OrderedReady"});
    let limited = parallel(json!({"scaleStrategy": {"maxUnavailable": 1}}));
    for (policy, is_ready) in [(&ordered, true), (&ordered, false), (&limited, true), (&limited, false)] {
        let mut spec = policy.clone();
        merge(&mut spec, json!({"lifecycle": {"preDelete": {"labelsHandler": {"serving": "yes"}}}}));
        let mut fleet = Fleet::running(2, spec);
        for name in ["web-0", "web-1"] {
            fleet.labelled(name, "serving", Some("yes"));
        }
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        fleet.settle();
        let first = fleet.uid("web-1");
        if !is_ready {
            fleet.break_pod(fleet.at("web-1"));
        }
        fleet.edit(json!({"spec": {"replicas": 3}}));
        let creations = fleet.settled_plan().scale.len();
        assert_eq!(creations, usize::from(is_ready), "{policy} {is_ready}");
        fleet.settle();
        let state = |name: &str| fleet.pods[fleet.at(name)].label("lifecycle.apps.kruise.io/state");
        assert_eq!((state("web-1"), fleet.uid("web-1")), (Some("PreparingDelete"), first.clone()));
        assert_ne!(state("web-0"), Some("PreparingDelete"), "one at a time");
        fleet.labelled("web-1", "serving", None);
        fleet.settle();
        assert_eq!(fleet.running_image("nginx:2"), [1, 2], "{policy} {is_ready}");
        assert_ne!(fleet.uid("web-1"), first);
    }
}

/// It is updated though the Pod that was created meanwhile never becomes ready.
#[test]
fn a_pod_that_its_hook_let_go_waits_for_no_further_pod() {
    let hook = json!({"preDelete": {"labelsHandler": {"serving": "yes"}}});
    let mut fleet = Fleet::running(2, json!({"podManagementPolicy": "OrderedReady", "lifecycle": hook}));
    fleet.labelled("web-1", "serving", Some("yes"));
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    let first = fleet.uid("web-1");
    fleet.edit(json!({"spec": {"replicas": 3}}));
    fleet.step();
    assert_eq!((fleet.ordinals(), fleet.uid("web-1")), (vec![0, 1, 2], first.clone()));
    fleet.labelled("web-1", "serving", None);
    fleet.step();
    fleet.step();
    assert_ne!(fleet.uid("web-1"), first);
}

#[test]
fn ordered_pods_go_from_the_highest_ordinal_down() {
    let mut fleet = Fleet::running(3, json!({"podManagementPolicy": "OrderedReady"}));
    fleet.lingering = true;
    fleet.edit(json!({"spec": {"replicas": 1}}));
    fleet.step();
    fleet.step();
    let ending: Vec<&str> = fleet
        .pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some())
        .map(|pod| &*pod.metadata.name)
        .collect();
    assert_eq!(ending, ["web-2"]);
}

#[test]
fn a_set_that_is_deleted_is_left_to_the_garbage_collector() {
    let mut fleet = Fleet::running(2, parallel(json!({})));
    merge(&mut fleet.object, json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}));
    fleet.remove("web-1");
    let plan = fleet.settled_plan();
    assert!(plan.is_idle());
    assert_eq!(plan.status.unwrap().status().replicas, 1);
}
