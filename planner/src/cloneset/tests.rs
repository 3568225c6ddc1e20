//! Acceptance scenarios of spec 31 §17 that need no API server, and properties of whole plans.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Fleet, merge, template};
use super::*;

mod courses;
mod documented;
mod limits;
mod threads;
mod updates;

fn in_place(more: Value) -> Value {
    Fleet::rolling("InPlaceIfPossible", more)
}

fn with(mut spec: Value, more: Value) -> Value {
    merge(&mut spec, more);
    spec
}

fn claims() -> Value {
    json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "future": 1.50}}]})
}

fn names(fleet: &Fleet) -> Vec<String> {
    let mut names: Vec<String> = (0..fleet.pods.len()).map(|index| fleet.name(index)).collect();
    names.sort();
    names
}

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
fn scenario_2_scaling_in_takes_the_claims_along() {
    let mut fleet = Fleet::running(3, claims());
    for replicas in [5, 2] {
        fleet.edit(json!({"spec": {"replicas": replicas}}));
        fleet.settle();
        assert_eq!((fleet.pods.len(), fleet.claims.len()), (replicas, replicas));
        assert_eq!(usize::try_from(fleet.status().replicas), Ok(replicas));
    }
}

#[test]
fn scenario_3_the_named_pod_goes_and_its_name_too() {
    let mut fleet = Fleet::running(3, json!({}));
    let named = fleet.name(1);
    fleet.edit(json!({"spec": {"replicas": 2, "scaleStrategy": {"podsToDelete": [named]}}}));
    let before = names(&fleet);
    fleet.settle();
    let left: Vec<String> = before.into_iter().filter(|name| *name != named).collect();
    assert_eq!(names(&fleet), left);
    assert_eq!(fleet.object["spec"]["scaleStrategy"]["podsToDelete"], json!([]));
}

#[test]
fn scenario_4_a_named_pod_is_replaced() {
    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    let named = fleet.name(0);
    fleet.edit(json!({"spec": {"scaleStrategy": {"podsToDelete": [named]}}}));
    fleet.settle();
    assert!(fleet.pods.len() == 3 && !names(&fleet).contains(&named));
}

/// Labels the Pod for deletion.
fn specify(fleet: &mut Fleet, index: usize) -> String {
    let name = fleet.name(index);
    let write = crate::lifecycle::specify_delete(&fleet.pods[index]).unwrap();
    write.apply(fleet.pod_mut(&name));
    name
}

fn deleted(plan: &Plan) -> Vec<&str> {
    let deleted = plan.scale.iter().filter_map(|action| match action {
        Action::DeletePod { pod, .. } => Some(pod.name.as_str()),
        _ => None,
    });
    deleted.collect()
}

fn created(plan: &Plan) -> usize {
    plan.scale.iter().filter(|action| matches!(action, Action::CreatePod { .. })).count()
}

#[test]
fn scenario_5_surge_comes_before_a_ready_pod_goes() {
    let fleet = |unavailable: i32| {
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": 1});
        let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", rolling));
        fleet.break_pod(0);
        fleet
    };
    let mut tight = fleet(1);
    let ready = specify(&mut tight, 1);
    let first = tight.step();
    assert_eq!((created(&first), deleted(&first)), (1, vec![]));
    tight.kubelet_of(3);
    tight.step();
    tight.kubelet_of(3);
    assert_eq!(deleted(&tight.step()), [ready]);

    let mut roomy = fleet(2);
    let ready = specify(&mut roomy, 1);
    assert_eq!(deleted(&roomy.step()), [ready]);

    let mut broken = fleet(1);
    let name = specify(&mut broken, 0);
    assert!(deleted(&broken.step()).contains(&name.as_str()));
}

#[test]
fn scenario_6_a_partition_holds_pods_back() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
    let old = fleet.status().update_revision;
    let before = names(&fleet);
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:2"), fleet.with_image("nginx:1")), (2, 3));
    assert_eq!(names(&fleet), before, "in place");
    let status = fleet.status();
    assert_eq!((status.updated_replicas, status.expected_updated_replicas), (2, Some(2)));
    assert_eq!(status.current_revision, old);
    assert_ne!(status.update_revision, old);
}

#[test]
fn scenario_7_percentages_of_the_partition() {
    for (replicas, partition, updated) in [(5, "99%", 1), (5, "100%", 0), (1, "99%", 0)] {
        let mut fleet = Fleet::running(replicas, in_place(json!({"partition": partition})));
        fleet.image("nginx:2");
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), updated, "{partition} of {replicas}");
    }
}

#[test]
fn scenario_8_raising_the_partition_rolls_back_only_with_the_gate() {
    for (gate, updated) in [(false, 2), (true, 0)] {
        let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
        fleet.gates = FeatureGates::default().with(Feature::CloneSetPartitionRollback, gate);
        let before = names(&fleet);
        fleet.image("nginx:2");
        fleet.settle();
        fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 5}}}}));
        fleet.settle();
        assert_eq!(fleet.with_image("nginx:2"), updated);
        assert_eq!(names(&fleet), before);
    }
}

#[test]
fn scenario_9_surge_alone_never_takes_a_pod_away() {
    let mut fleet =
        Fleet::running(5, Fleet::rolling("ReCreate", json!({"maxUnavailable": 0, "maxSurge": 1})));
    fleet.image("nginx:2");
    for _ in 0..200 {
        fleet.step();
        assert!(fleet.pods.len() <= 6 && fleet.available() >= 5, "{}", fleet.plan());
        fleet.kubelet();
    }
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (5, 5));
}

#[test]
fn scenario_10_percentages_of_max_unavailable() {
    for (surge, most) in [(0, 3), (1, 2)] {
        let rolling = json!({"maxUnavailable": "25%", "maxSurge": surge});
        let mut fleet = Fleet::running(10, in_place(rolling));
        fleet.image("nginx:2");
        let mut worst = 0;
        for _ in 0..100 {
            fleet.step();
            worst = worst.max(10_usize.saturating_sub(fleet.available()));
            fleet.kubelet();
        }
        assert_eq!((worst, fleet.with_image("nginx:2")), (most, 10));
    }
}

#[test]
fn scenario_13_paused_scales_but_updates_nothing() {
    let mut fleet = Fleet::running(3, in_place(json!({"paused": true})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 3);
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.settle();
    assert_eq!(fleet.pods.len(), 4);
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": false}}}}));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 4);
}

#[test]
fn scenario_14_on_delete_waits_for_people() {
    let mut fleet = Fleet::running(3, json!({"updateStrategy": {"type": "OnDelete"}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 3);
    let name = fleet.name(0);
    fleet.remove(&name);
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (2, 1));
}

#[test]
fn scenario_15_creation_is_limited() {
    let spec = json!({"replicas": 3, "minReadySeconds": 10, "scaleStrategy": {"maxUnavailable": 1}});
    let mut fleet = Fleet::new(spec);
    for expected in 1..=3 {
        for _ in 0..4 {
            fleet.step();
            fleet.kubelet();
            fleet.later(1);
        }
        assert_eq!(fleet.pods.len(), expected);
        fleet.later(10);
    }
    let limited: Vec<_> = fleet.events.iter().filter(|event| event.reason == "ScaleUpLimited").collect();
    let message = "scaleUp is limited because of scaleStrategy.maxUnavailable, limit: 1";
    assert_eq!(limited.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), [message; 2]);
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
    let mut fleet = Fleet::running(2, claims());
    let old: Vec<_> = fleet.claims.iter().map(|claim| claim.metadata.uid.clone()).collect();
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!((fleet.pods.len(), fleet.claims.len(), fleet.with_image("nginx:2")), (2, 2, 2));
    assert!(fleet.claims.iter().all(|claim| !old.contains(&claim.metadata.uid)));
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
    }
}

#[test]
fn scenario_24_a_pod_that_waits_for_deletion_comes_back() {
    for marks in [false, true] {
        let hook = json!({"labelsHandler": {"hold": "yes"}, "markPodNotReady": marks});
        let mut labelled = template("nginx:1");
        labelled["metadata"]["labels"]["hold"] = "yes".into();
        let spec = json!({"lifecycle": {"preDelete": hook}, "template": labelled});
        let mut fleet = Fleet::running(3, spec);
        let before = names(&fleet);
        fleet.edit(json!({"spec": {"replicas": 2}}));
        fleet.step();
        let preparing = |fleet: &Fleet| {
            let state = |pod: &&Arc<ObservedPod>| {
                pod.label("lifecycle.apps.kruise.io/state") == Some("PreparingDelete")
            };
            fleet.pods.iter().filter(state).map(|pod| pod.metadata.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((preparing(&fleet).len(), fleet.pods.len()), (1, 3));
        fleet.settle();
        let held = preparing(&fleet);
        assert_eq!((held.len(), fleet.pods.len()), (1, 3), "the hook holds it");
        let plan = fleet.plan();
        assert!(plan.explanation.to_string().contains("remove label hold=yes from it"), "{plan}");
        fleet.edit(json!({"spec": {"replicas": 3}}));
        fleet.settle();
        if marks {
            assert_eq!(preparing(&fleet), held);
            let mut release = PodWrite::default();
            release.labels.insert("hold".to_owned(), None);
            release.apply(fleet.pod_mut(&held[0]));
            fleet.settle();
            assert!(!names(&fleet).contains(&held[0]));
        } else {
            assert!(preparing(&fleet).is_empty());
            assert_eq!(names(&fleet), before);
        }
        assert_eq!(fleet.pods.len(), 3);
    }
}

#[test]
fn scenario_25_pods_that_wait_for_deletion_may_be_left_out() {
    for exclude in [false, true] {
        let mut labelled = template("nginx:1");
        labelled["metadata"]["labels"]["hold"] = "yes".into();
        let mut fleet = Fleet::running(
            2,
            json!({"lifecycle": {"preDelete": {"labelsHandler": {"hold": "yes"}}}, "template": labelled,
                "scaleStrategy": {"excludePreparingDelete": exclude}}),
        );
        specify(&mut fleet, 0);
        fleet.settle();
        assert_eq!(fleet.pods.len(), if exclude { 3 } else { 2 });
    }
}

#[test]
fn scenario_28_a_rollback_touches_only_what_was_changed() {
    let mut fleet = Fleet::running(5, in_place(json!({"partition": 3, "maxUnavailable": 2})));
    fleet.image("nginx:2");
    fleet.settle();
    let (before, first) = (fleet.pods.clone(), fleet.revisions[0].name().to_owned());
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}, "template": template("nginx:1")}}));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 5);
    assert_eq!((fleet.status().update_revision, fleet.revisions.len()), (first, 2));
    let untouched = |pod: &&Arc<ObservedPod>| &*pod.spec.containers[0].image == "nginx:1";
    assert!(before.iter().filter(untouched).all(|pod| fleet.pods.contains(pod)));
}

#[test]
fn scenario_29_a_pod_that_is_not_selected_is_let_go() {
    let mut fleet = Fleet::running(2, json!({}));
    let name = fleet.name(0);
    let mut relabel = PodWrite::default();
    relabel.set_label("app", "debug");
    relabel.apply(fleet.pod_mut(&name));
    let plan = fleet.step();
    assert_eq!((plan.release.len(), created(&plan)), (1, 1), "{plan}");
    fleet.settle();
    assert!(fleet.pod_mut(&name).controller().is_none());
    assert_eq!(fleet.pods.len(), 3);
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
fn scenario_35_availability_comes_by_itself() {
    let mut fleet = Fleet::new(json!({"replicas": 3, "minReadySeconds": 20}));
    for _ in 0..4 {
        fleet.step();
        fleet.kubelet();
    }
    let plan = fleet.step();
    assert_eq!((fleet.status().ready_replicas, fleet.status().available_replicas), (3, 0));
    assert_eq!(plan.requeue_after, Some(Duration::from_millis(20_010)));
    fleet.now += SignedDuration::try_from(plan.requeue_after.unwrap()).unwrap();
    fleet.step();
    assert_eq!(fleet.status().available_replicas, 3);
    assert!(fleet.plan().is_idle());
}

#[test]
fn minimum_ready_seconds_do_not_hold_scaling_in_up() {
    let mut fleet = Fleet::running(5, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    fleet.edit(json!({"spec": {"replicas": 3, "minReadySeconds": 3600}}));
    assert_eq!(deleted(&fleet.step()).len(), 2);
}

#[test]
fn sharp_edge_7_missing_pods_do_not_hold_deletions_up() {
    let mut fleet = Fleet::running(4, json!({"scaleStrategy": {"maxUnavailable": 1}}));
    fleet.break_pod(0);
    fleet.break_pod(1);
    let broken = specify(&mut fleet, 0);
    fleet.edit(json!({"spec": {"replicas": 6}}));
    let plan = fleet.settled_plan();
    assert_eq!((created(&plan), deleted(&plan)), (0, vec![broken.as_str()]), "{plan}");
}

#[test]
fn sharp_edge_8_a_marked_pod_is_told_of_once() {
    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    fleet.settle();
    let told = fleet.reasons().iter().filter(|reason| **reason == "SuccessfulUpdatePodReCreate").count();
    assert_eq!(told, 3, "{:?}", fleet.events);
}

#[test]
fn sharp_edge_17_an_impossible_pod_stops_no_other() {
    let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceOnly", json!({"maxUnavailable": 3})));
    // A Pod whose revision is not in the history.
    let name = fleet.name(0);
    let mut write = PodWrite::default();
    write.set_label("controller-revision-hash", "web-gone");
    write.apply(fleet.pod_mut(&name));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 2);
    let status = fleet.status();
    let failed = status.conditions.iter().find(|condition| condition.kind == "FailedUpdate").unwrap();
    let expected = format!("find Pod {name} update strategy is InPlaceOnly but can not update in-place");
    assert!(failed.message.starts_with(&expected), "{}", failed.message);
    let blocked = status.conditions.iter().find(|condition| condition.kind == explanation::BLOCKED).unwrap();
    assert!(blocked.message.contains(&name), "{}", blocked.message);
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

#[test]
fn a_clone_set_that_is_being_deleted_only_gets_a_status() {
    let mut fleet = Fleet::running(3, claims());
    fleet.object["metadata"]["deletionTimestamp"] = fixture::NOW.into();
    fleet.image("nginx:2");
    fleet.break_pod(0);
    let plan = fleet.plan();
    assert!(plan.is_idle() && plan.status.is_some());
    assert_eq!(plan.status.unwrap().status().ready_replicas, 2);
}

#[test]
fn settings_that_cannot_be_read_change_nothing() {
    let mut fleet = Fleet::running(2, json!({}));
    fleet.object["spec"]["template"] = json!("odd");
    let plan = fleet.plan();
    assert!(plan.is_idle() && plan.problems.scale.is_some(), "{plan}");
    fleet.object["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert!(fleet.plan().problems.scale.unwrap().contains("spec.selector"));
}

#[test]
fn a_marked_pod_keeps_its_place_in_the_partition() {
    // The marked Pod waits for surge; meanwhile the order of the others changes.
    let rolling = json!({"partition": 4, "maxUnavailable": 0, "maxSurge": 1});
    let mut fleet = Fleet::running(5, Fleet::rolling("ReCreate", rolling));
    fleet.image("nginx:2");
    for turn in 0..40 {
        fleet.step();
        let marked = |pod: &&Arc<ObservedPod>| pod.label("apps.kruise.io/specified-delete").is_some();
        assert!(fleet.pods.iter().filter(marked).count() <= 1);
        fleet.break_pod(turn % 3);
        fleet.later(5);
        fleet.kubelet();
    }
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (4, 1));
}

#[test]
fn the_order_of_the_lists_does_not_matter() {
    let mut fleet = Fleet::running(6, in_place(json!({"maxUnavailable": 3})));
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.image("nginx:2");
    let one = fleet.settled_plan();
    fleet.pods.reverse();
    fleet.revisions.reverse();
    assert_eq!(one, fleet.plan());
    assert!(one.to_string().contains("delete Pod"), "{one}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever users and Pods do: no Pod is touched twice by a step, the number of Pods and of available
    /// ones keeps its bounds by our own doing, and in the end everything is as it is asked for.
    #[test]
    fn plans_keep_the_bounds_and_converge(
        policy in prop::sample::select(vec!["ReCreate", "InPlaceIfPossible"]),
        replicas in 1..7_i32, unavailable in 0..3_i32, surge in 0..3_i32, partition in 0..4_i32,
        moves in prop::collection::vec((0..8_u8, any::<usize>()), 1..40),
    ) {
        prop_assume!(unavailable + surge > 0);
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge, "partition": partition});
        let mut fleet = Fleet::running(replicas, Fleet::rolling(policy, rolling));
        let mut wanted = replicas;
        for (choice, number) in moves {
            let index = number % fleet.pods.len().max(1);
            let some = !fleet.pods.is_empty();
            match choice {
                0 => fleet.image(&format!("nginx:{}", number % 3)),
                1 if some => fleet.break_pod(index),
                2 if some => { let name = fleet.name(index); fleet.remove(&name); }
                3 if some && fleet.pods[index].label("apps.kruise.io/specified-delete").is_none() => { specify(&mut fleet, index); }
                4 if some => fleet.kubelet_of(index),
                5 => { wanted = i32::try_from(number % 7).unwrap(); fleet.edit(json!({"spec": {"replicas": wanted}})); }
                _ => fleet.kubelet(),
            }
            fleet.later(1);
            let before = (fleet.pods.len(), fleet.available());
            let plan = fleet.step();
            for actions in [&plan.scale, &plan.update, &plan.release] {
                let objects: BTreeSet<&str> = actions.iter().map(Action::object).collect();
                prop_assert_eq!(objects.len(), actions.len(), "{}", plan);
            }
            let most = usize::try_from(wanted + surge).unwrap();
            prop_assert!(fleet.pods.len() <= most.max(before.0), "{} Pods: {}", fleet.pods.len(), plan);
            let least = usize::try_from((wanted - unavailable).max(0)).unwrap();
            prop_assert!(fleet.available() >= before.1.min(least), "{} available: {}", fleet.available(), plan);
        }
        fleet.settle();
        let plan = fleet.plan();
        prop_assert!(plan.is_idle() && plan.explanation.is_complete, "{}", plan);
        prop_assert_eq!(fleet.pods.len(), usize::try_from(wanted).unwrap());
        let status = fleet.status();
        prop_assert!(status.updated_replicas >= wanted - partition.min(wanted), "{:?}", status);
    }
}

#[test]
fn where_nothing_can_be_planned_the_status_tells_why() {
    let mut fleet = Fleet::running(3, claims());
    let before = fleet.status();
    // As an older release let it in.
    fleet.object["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!("ReadWriteOnce");
    fleet.object["metadata"]["generation"] = json!(9);
    let plan = fleet.step();
    assert!(plan.is_idle() && plan.problems.scale.is_some(), "{plan}");
    let status = fleet.status();
    assert_eq!((status.replicas, status.observed_generation), (3, before.observed_generation));
    for (kind, reason) in [("FailedScale", ""), ("kutter.io/Blocked", "Unreadable")] {
        let condition = status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
        assert!(condition.reason == reason && condition.message.contains("accessModes"), "{condition:?}");
    }
    let idle = fleet.plan().status.unwrap();
    let failed = Outcome::Failed(plan.problems.scale.unwrap());
    assert_eq!(idle.patch(&failed, &Outcome::Succeeded), None, "it is told once");
    fleet.object["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    fleet.settle();
    assert!(fleet.status().conditions.is_empty(), "{:?}", fleet.status().conditions);
}
