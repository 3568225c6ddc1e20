use std::sync::Arc;

use super::*;
use crate::statefulset::fixture::{image, sized};
use crate::workload::action::IMAGE_PULL_JOB;
use crate::workload::children::Child;
use crate::workload::object_version::ObjectVersion;
use pod::observed::{ContainerReport, ContainerState, Waiting};
use values::server_version::ServerVersion;

fn rolling(more: serde_json::Value) -> serde_json::Value {
    let mut strategy = json!({"type": "RollingUpdate"});
    strategy["rollingUpdate"] = more;
    parallel(json!({"updateStrategy": strategy}))
}

#[test]
fn scenarios_9_and_10_partition_counts_pods() {
    let mut fleet = Fleet::running(6, rolling(json!({"partition": 3, "maxUnavailable": 3})));
    let current = fleet.set_status().current_revision;
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [3, 4, 5]);
    let status = fleet.set_status();
    assert_eq!((status.current_revision, status.updated_replicas, status.current_replicas), (current, 3, 3));
    let mut fleet = Fleet::running(3, rolling(json!({"partition": 2})));
    fleet.edit(json!({"spec": {"reserveOrdinals": [1, 3]}}));
    fleet.settle();
    assert_eq!(fleet.ordinals(), [0, 2, 4]);
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [4]);
}

#[test]
fn scenario_11_a_pod_comes_back_at_the_revision_of_its_place() {
    let mut fleet = Fleet::running(3, rolling(json!({"partition": 2})));
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    for name in ["web-0", "web-2"] {
        fleet.remove(name);
        fleet.settle();
    }
    assert_eq!(fleet.running_image("nginx:1"), [0, 1]);
    assert_eq!(fleet.running_image("nginx:2"), [2]);
}

#[test]
fn scenarios_12_and_13_the_budget_counts_all_pods_that_are_not_available() {
    for (limit, expected) in [("10%", 1), ("50%", 2)] {
        let mut fleet = Fleet::running(5, rolling(json!({"maxUnavailable": limit})));
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        let plan = fleet.settled_plan();
        assert_eq!(plan.update.len(), expected, "{limit}");
    }
    let mut fleet = Fleet::running(5, rolling(json!({"maxUnavailable": 2})));
    fleet.break_pod(0);
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    let plan = fleet.settled_plan();
    let names: Vec<&str> = plan.update.iter().map(Action::object).collect();
    assert_eq!(names, ["web-4", "web-0"], "one that serves, and the one that does not");
}

#[test]
fn scenario_16_images_are_updated_in_place_from_the_highest_ordinal_down() {
    let mut fleet = Fleet::running(3, in_place(json!({})));
    let before: Vec<String> = (0..3).map(|ordinal| fleet.uid(&format!("web-{ordinal}"))).collect();
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
    fleet.step();
    assert_eq!(fleet.running_image("nginx:2"), [2]);
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2]);
    let after: Vec<String> = (0..3).map(|ordinal| fleet.uid(&format!("web-{ordinal}"))).collect();
    assert_eq!(before, after);
    assert_eq!(fleet.reasons(), ["SuccessfulUpdatePodInPlace"; 3]);
    let status = fleet.set_status();
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn all_resources_change_in_one_edit() {
    let mut spec = in_place(json!({}));
    merge(&mut spec["template"], sized("200m"));
    let mut fleet = Fleet::with_gates(spec, gates("InPlaceWorkloadVerticalScaling=true"));
    fleet.environment.server = ServerVersion::parse("v1.35.0");
    fleet.edit(json!({"spec": {"replicas": 2}}));
    fleet.settle();
    fleet.resize_all();
}

#[test]
fn scenario_38_images_are_pulled_ahead() {
    let mut fleet =
        Fleet::with_gates(in_place(json!({"partition": 3})), gates("PreDownloadImageForInPlaceUpdate=true"));
    fleet.environment.pull_jobs = true;
    fleet.object["metadata"]["annotations"] = json!({"apps.kruise.io/image-predownload-parallelism": "2"});
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.settle();
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
    let plan = fleet.settled_plan();
    let [
        Action::CreateChild { name, json, .. },
        Action::CreateChild { .. },
        Action::PatchChild { patch, .. },
    ] = plan.pre_download.as_slice()
    else {
        panic!("{plan}")
    };
    fleet.settle();
    assert_eq!(*name, format!("{}-main", fleet.set_status().update_revision));
    let job: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!((&job["spec"]["image"], &job["spec"]["parallelism"]), (&json!("nginx:2"), &json!(2)));
    assert!(patch.contains("pre-predownload-created"), "{patch}");
    let job = ObjectVersion { name: name.clone(), ..ObjectVersion::default() };
    fleet.children.push(Arc::new(Child { kind: IMAGE_PULL_JOB, observed: job.clone() }));
    let delete = Action::DeleteChild { kind: IMAGE_PULL_JOB, child: job };
    assert!(!fleet.plan().pre_download.contains(&delete), "the rollout is not over");
    fleet.edit(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    fleet.settle();
    assert!(fleet.plan().pre_download.contains(&delete));
    fleet.children.clear();
    // Few Pods need none.
    fleet.edit(json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 3}}}}));
    fleet.settle();
    fleet.edit(json!({"spec": {"template": in_place_template("nginx:3")}}));
    let plan = fleet.settled_plan();
    let [Action::PatchChild { patch, .. }] = plan.pre_download.as_slice() else { panic!("{plan}") };
    assert!(patch.contains("image-predownload-ignored"), "{patch}");
}

#[test]
fn scenario_17_what_cannot_be_changed_in_place_needs_new_pods() {
    let mut fleet = Fleet::running(2, in_place(json!({})));
    let before = fleet.uid("web-0");
    let mut changed = in_place_template("nginx:1");
    changed["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    fleet.edit(json!({"spec": {"template": changed}}));
    fleet.settle();
    assert_ne!(fleet.uid("web-0"), before);
    assert_eq!(fleet.set_status().updated_ready_replicas, Some(2));
}

#[test]
fn scenario_18_a_paused_set_scales_only() {
    let mut fleet = Fleet::running(3, rolling(json!({"paused": true})));
    fleet.edit(json!({"spec": {"template": template("nginx:2"), "replicas": 4}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:1"), [0, 1, 2]);
    assert_eq!(fleet.running_image("nginx:2"), [3]);
}

#[test]
fn scenario_19_an_update_without_order_goes_by_priority() {
    let weights = json!({"weightPriority": [
        {"weight": 10, "matchSelector": {"matchLabels": {"tier": "back"}}},
        {"weight": 5, "matchSelector": {"matchLabels": {"zone": "a"}}},
    ]});
    let order = json!({"orderPriority": [{"orderedKey": "turn"}]});
    let cases = [
        (weights, ["web-1", "web-0", "web-2"]),
        (order, ["web-2", "web-0", "web-1"]),
        (json!({}), ["web-2", "web-1", "web-0"]),
    ];
    for (priority, expected) in cases {
        let mut fleet =
            Fleet::running(3, rolling(json!({"unorderedUpdate": {"priorityStrategy": priority}})));
        for (name, key, value) in [
            ("web-1", "tier", "back"),
            ("web-0", "zone", "a"),
            ("web-0", "turn", "x-7"),
            ("web-1", "turn", "x-3"),
        ] {
            fleet.labelled(name, key, Some(value));
        }
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        let mut updated = Vec::new();
        for _ in 0..40 {
            let plan = fleet.step();
            if plan.scale.is_empty() {
                updated.extend(plan.update.iter().filter_map(|action| match action {
                    Action::DeletePod { pod, .. } => Some(pod.name.clone()),
                    _ => None,
                }));
            }
            fleet.kubelet();
        }
        assert_eq!(updated, expected);
    }
}

#[test]
fn scenario_20_the_next_pod_waits_until_the_one_before_is_available() {
    let mut fleet = Fleet::running(2, rolling(json!({"minReadySeconds": 10})));
    fleet.later(20);
    fleet.settle();
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [1]);
    fleet.later(9);
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [1]);
    fleet.later(2);
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [0, 1]);
}

#[test]
fn scenario_24_hook_in_place_update_holds_pods_before_and_after() {
    for policy in ["Parallel", "OrderedReady"] {
        hook_in_place_update(policy);
    }
}

fn hook_in_place_update(policy: &str) {
    let mut spec = in_place(json!({}));
    spec["podManagementPolicy"] = policy.into();
    merge(&mut spec, json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"serving": "yes"}}}}));
    merge(&mut spec["template"], json!({"metadata": {"labels": {"serving": "yes"}}}));
    let mut fleet = Fleet::running(1, spec);
    let state =
        |fleet: &Fleet| fleet.pods[0].label("lifecycle.apps.kruise.io/state").unwrap_or_default().to_owned();
    assert_eq!(state(&fleet), "Normal");
    fleet.edit(json!({"spec": {"template": {"spec": in_place_template("nginx:2")["spec"]}}}));
    fleet.settle();
    assert_eq!((state(&fleet), fleet.with_image("nginx:2")), ("PreparingUpdate".to_owned(), 0));
    assert_eq!(fleet.set_status().current_replicas, 0, "it is on its way");
    fleet.labelled("web-0", "serving", None);
    fleet.step();
    assert_eq!((state(&fleet), fleet.with_image("nginx:2")), ("Updating".to_owned(), 1));
    fleet.settle();
    assert_eq!(state(&fleet), "Updated");
    fleet.labelled("web-0", "serving", Some("yes"));
    fleet.settle();
    assert_eq!(state(&fleet), "Normal");
}

#[test]
fn scenario_30_updates_go_on_beside_a_pod_that_does_not_end() {
    for (limit, first, updated) in [(1, &[][..], &[][..]), (3, &["web-4", "web-3"][..], &[0, 2, 3, 4][..])] {
        let mut fleet = Fleet::running(5, rolling(json!({"maxUnavailable": limit})));
        fleet.lingering = true;
        fleet.remove("web-1");
        fleet.lingering = false;
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        let plan = fleet.settled_plan();
        let names: Vec<&str> = plan.update.iter().map(Action::object).collect();
        assert_eq!(names, first, "it counts as unavailable: {limit}");
        fleet.settle();
        assert_eq!(fleet.running_image("nginx:2"), updated);
        assert_eq!(fleet.ordinals(), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn scenario_31_a_revision_is_used_again() {
    let mut fleet = Fleet::running(1, parallel(json!({})));
    let first = fleet.set_status().update_revision;
    for image in ["nginx:2", "nginx:1"] {
        fleet.edit(json!({"spec": {"template": template(image)}}));
        fleet.settle();
    }
    assert_eq!(fleet.set_status().update_revision, first);
    let numbers: Vec<i64> = fleet.revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [3, 2]);
}

#[test]
fn scenario_32_old_revisions_go() {
    let mut fleet = Fleet::running(1, parallel(json!({"revisionHistoryLimit": 1})));
    for number in 2..7 {
        fleet.edit(json!({"spec": {"template": template(&format!("nginx:{number}"))}}));
        fleet.settle();
    }
    assert_eq!(fleet.revisions.len(), 2);
}

#[test]
fn scenario_34_with_on_delete_nothing_happens_until_a_pod_is_deleted() {
    let mut fleet = Fleet::running(2, parallel(json!({"updateStrategy": {"type": "OnDelete"}})));
    let current = fleet.set_status().current_revision;
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:1"), [0, 1]);
    fleet.remove("web-1");
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [1]);
    assert_eq!(fleet.set_status().current_revision, current);
}

#[test]
fn scenario_45_what_is_unavailable_already_is_updated() {
    let mut spec = rolling(json!({"maxUnavailable": 2}));
    merge(&mut spec, json!({"scaleStrategy": {"maxUnavailable": 2}}));
    let mut fleet = Fleet::running(5, spec);
    for index in 0..5 {
        fleet.break_pod(index);
    }
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    for _ in 0..10 {
        fleet.step();
        for name in fleet.running_image("nginx:2") {
            let index = fleet.at(&format!("web-{name}"));
            fleet.kubelet_of(index);
        }
    }
    assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2, 3, 4]);
}

/// The two that a broken template was tried with use up all budgets.
#[test]
fn scenario_45_a_corrected_template_heals_what_a_broken_one_left() {
    let mut spec = rolling(json!({"maxUnavailable": 2}));
    merge(&mut spec, json!({"scaleStrategy": {"maxUnavailable": 2}}));
    let mut fleet = Fleet::running(4, spec);
    fleet.edit(json!({"spec": {"template": template("nginx:missing")}}));
    let kubelet = |fleet: &mut Fleet| {
        let runs = |pod: &Arc<ObservedPod>| image(pod) != "nginx:missing";
        for index in (0..fleet.pods.len()).filter(|index| runs(&fleet.pods[*index])).collect::<Vec<_>>() {
            fleet.kubelet_of(index);
        }
    };
    for _ in 0..10 {
        fleet.step();
        kubelet(&mut fleet);
    }
    assert_eq!((fleet.running_image("nginx:missing"), fleet.ordinals()), (vec![2, 3], vec![0, 1, 2, 3]));
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    for _ in 0..20 {
        fleet.step();
        kubelet(&mut fleet);
    }
    assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2, 3]);
}

#[test]
fn ordered_pods_are_updated_only_while_all_are_available() {
    let mut fleet = Fleet::running(3, json!({"podManagementPolicy": "OrderedReady"}));
    fleet.break_pod(0);
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    assert!(fleet.settled_plan().is_idle());
    fleet.kubelet();
    fleet.step();
    assert_eq!(fleet.ordinals(), [0, 1]);
    fleet.settle();
    assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2]);
}

fn ordered(more: serde_json::Value) -> serde_json::Value {
    let mut spec = rolling(more);
    spec["podManagementPolicy"] = "OrderedReady".into();
    spec
}

/// The kubelet finds no image of this name.
const MISSING: &str = "nginx:missing";

/// All Pods run but those whose image is missing.
fn kubelet_without_image(fleet: &mut Fleet) {
    for index in 0..fleet.pods.len() {
        if image(&fleet.pods[index]) != MISSING {
            fleet.kubelet_of(index);
            continue;
        }
        let name = fleet.name(index);
        let pod = fleet.pod_mut(&name);
        let waiting = Waiting { reason: "ImagePullBackOff".into() };
        let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
        let report = ContainerReport { name: "main".into(), state, ..ContainerReport::default() };
        pod.spec.node_name = "node".into();
        pod.status.phase = "Pending".into();
        pod.status.container_statuses = [report.into()].into();
    }
}

fn settle_without_image(fleet: &mut Fleet) {
    for _ in 0..40 {
        fleet.step();
        kubelet_without_image(fleet);
    }
}

#[test]
fn scenario_47_ordered_pods_are_updated_as_many_at_a_time_as_may_be_unavailable() {
    for limit in [json!(2), json!("40%")] {
        let mut fleet = Fleet::running(5, ordered(json!({"maxUnavailable": limit})));
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        let (mut taken, mut made) = (Vec::new(), Vec::new());
        for _ in 0..12 {
            let plan = fleet.step();
            let names =
                |actions: &[Action]| actions.iter().map(|action| action.object().to_owned()).collect();
            let (deleted, created): (Vec<String>, Vec<String>) = (names(&plan.update), names(&plan.scale));
            taken.extend(Some(deleted.join(" ")).filter(|names| !names.is_empty()));
            made.extend(Some(created.join(" ")).filter(|names| !names.is_empty()));
            assert!(fleet.pods.len() >= 3, "{:?}", fleet.ordinals());
            fleet.kubelet();
        }
        assert_eq!(taken, ["web-4 web-3", "web-2 web-1", "web-0"]);
        assert_eq!(made, ["web-3", "web-4", "web-1", "web-2", "web-0"], "one after another");
    }
    // No update begins while one is not available, however many may be.
    let mut fleet = Fleet::running(5, ordered(json!({"maxUnavailable": 3, "partition": 1})));
    fleet.break_pod(1);
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    assert!(fleet.settled_plan().is_idle());
    fleet.kubelet();
    fleet.settle();
    assert_eq!((fleet.running_image("nginx:1"), fleet.ordinals()), (vec![0], vec![0, 1, 2, 3, 4]));
}

#[test]
fn scenario_47_ordered_pods_whose_hooks_let_them_go_wait_for_no_other() {
    for first in ["web-2", "web-1"] {
        let mut spec = ordered(json!({"maxUnavailable": 2, "podUpdatePolicy": "InPlaceIfPossible"}));
        merge(
            &mut spec,
            json!({"template": in_place_template("nginx:1"),
                "lifecycle": {"inPlaceUpdate": {"labelsHandler": {"serving": "yes"}}}}),
        );
        let mut fleet = Fleet::running(3, spec);
        for name in ["web-0", "web-1", "web-2"] {
            fleet.labelled(name, "serving", Some("yes"));
        }
        fleet.edit(json!({"spec": {"template": in_place_template("nginx:2")}}));
        fleet.settle();
        let state = |fleet: &Fleet, ordinal: usize| {
            let pod = &fleet.pods[fleet.at(&format!("web-{ordinal}"))];
            pod.label("lifecycle.apps.kruise.io/state").unwrap_or_default().to_owned()
        };
        let states = [0, 1, 2].map(|ordinal| state(&fleet, ordinal));
        assert_eq!(states, ["Normal", "PreparingUpdate", "PreparingUpdate"]);
        fleet.labelled(first, "serving", None);
        fleet.step();
        assert_eq!(fleet.with_image("nginx:2"), 1);
        let other = if first == "web-1" { "web-2" } else { "web-1" };
        fleet.labelled(other, "serving", None);
        fleet.step();
        assert_eq!(fleet.running_image("nginx:2"), [1, 2], "though {first} is not available");
    }
}

/// The first Pod never came up, and further ones wait for it.
#[test]
fn scenario_48_a_broken_first_revision_heals() {
    for limit in [1, 2] {
        let mut spec = ordered(json!({"maxUnavailable": limit}));
        merge(&mut spec, json!({"replicas": 3, "template": template(MISSING)}));
        let mut fleet = Fleet::new(spec);
        settle_without_image(&mut fleet);
        assert_eq!(fleet.ordinals(), [0]);
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        settle_without_image(&mut fleet);
        assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2]);
    }
}

#[test]
fn scenario_48_a_corrected_template_heals_ordered_pods() {
    for (limit, broken) in [(1, 2..=2), (2, 1..=1)] {
        let mut fleet = Fleet::running(3, ordered(json!({"maxUnavailable": limit})));
        fleet.edit(json!({"spec": {"template": template(MISSING)}}));
        settle_without_image(&mut fleet);
        assert_eq!(fleet.running_image(MISSING), broken.collect::<Vec<_>>());
        let served: Vec<String> =
            fleet.running_image("nginx:1").iter().map(|one| format!("web-{one}")).collect();
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        let plan = fleet.settled_plan();
        assert!(plan.update.iter().all(|action| !served.contains(&action.object().to_owned())), "{plan}");
        settle_without_image(&mut fleet);
        assert_eq!(fleet.running_image("nginx:2"), [0, 1, 2]);
    }
    // Several that are scaled in do not wait for each other.
    let mut fleet = Fleet::running(3, ordered(json!({"maxUnavailable": 2})));
    for name in ["web-1", "web-2"] {
        let pod = fleet.pod_mut(name);
        pod.spec.containers.last_mut().unwrap().image = MISSING.into();
    }
    for index in 0..3 {
        fleet.break_pod(index);
    }
    kubelet_without_image(&mut fleet);
    fleet.edit(json!({"spec": {"replicas": 1}}));
    settle_without_image(&mut fleet);
    assert_eq!(fleet.ordinals(), [0]);
    // What partition keeps is not replaced.
    let mut spec = ordered(json!({"partition": 1}));
    merge(&mut spec, json!({"replicas": 2, "template": template(MISSING)}));
    let mut fleet = Fleet::new(spec);
    settle_without_image(&mut fleet);
    fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
    assert!(fleet.settled_plan().is_idle());
}

/// A longer `minReadySeconds` makes no Pod broken: what serves counts against the budget.
#[test]
fn serving_pods_go_within_the_budget_however_long_pods_have_to_be_ready() {
    for unavailable in [1, 2] {
        let settings = |seconds: i32| {
            json!({"updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": unavailable, "minReadySeconds": seconds}}})
        };
        let mut fleet = Fleet::running(5, parallel(settings(0)));
        fleet.edit(json!({"spec": settings(300)}));
        fleet.edit(json!({"spec": {"template": template("nginx:2")}}));
        for _ in 0..10 {
            fleet.step();
            fleet.kubelet();
        }
        assert_eq!(fleet.running_image("nginx:1").len(), 5 - unavailable, "{}", fleet.plan());
        fleet.edit(json!({"spec": settings(0)}));
        fleet.settle();
        assert_eq!(fleet.running_image("nginx:2").len(), 5);
    }
}
