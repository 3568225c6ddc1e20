//! Which Pods are updated, and when.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::daemonset::fixture::{Fleet, gates, image, rolling, sized, template};
use crate::workload::action::{Action, IMAGE_PULL_JOB};
use crate::workload::children::Child;
use crate::workload::object_version::ObjectVersion;
use crate::workload::plan::Plan;
use pod::observed::ObservedPod;
use pod::write::PodWrite;
use values::server_version::ServerVersion;

/// An image that can be updated in place.
fn in_place(more: &Value) -> Value {
    let mut settings = json!({"rollingUpdateType": "InPlaceIfPossible"});
    crate::daemonset::fixture::merge(&mut settings, more.clone());
    rolling(settings)
}

#[test]
fn a_rollout_takes_no_more_nodes_down_than_it_may() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxUnavailable": 2})));
    fleet.image("nginx:2");
    for _ in 0..40 {
        fleet.step();
        assert!(fleet.without_available() <= 2);
        fleet.kubelet();
    }
    assert_eq!(fleet.nodes_with("nginx:2").len(), 5);
    assert_eq!(fleet.status().updated_number_scheduled, 5);
    assert!(fleet.plan().explanation.is_complete);
}

#[test]
fn pods_that_are_not_available_are_replaced_at_once() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxUnavailable": 1})));
    (0..5).for_each(|index| fleet.break_pod(index));
    fleet.image("nginx:2");
    fleet.step();
    assert!(fleet.pods.is_empty());
}

#[test]
fn a_partition_keeps_the_nodes_with_the_lowest_names() {
    let mut fleet = Fleet::on_nodes(4, rolling(json!({"partition": 3})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n4"]);
    assert!(fleet.plan().explanation.is_complete);
    fleet.edit(json!({"spec": rolling(json!({"partition": 1}))}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n2", "n3", "n4"]);
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"partition": "50%"})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n3", "n4", "n5"]);
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"partition": 10})));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.status().updated_number_scheduled, 0);
}

/// A Pod that is not available, on any Node: it is updated first, and counts where it is kept.
#[test]
fn pods_that_are_not_available_go_first_and_count_also_where_they_are_kept() {
    let nodes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let none: &[&str] = &[];
    // The last column: Nodes whose Pods the first step takes away.
    for (partition, max_unavailable, selected, broken, gone) in [
        (2, 1, none, none, &["n4"][..]),
        (2, 1, none, &["n1"], &["n1"]),
        (2, 2, none, &["n1"], &["n1", "n4"]),
        (3, 4, none, &["n1"], &["n1"]),
        (3, 1, none, &["n1", "n2"], &["n2"]),
        (1, 1, none, &["n1", "n2"], &["n1", "n2"]),
        (4, 4, none, &["n1"], none),
        (0, 1, &["n3", "n4"], &["n1"], none),
        (0, 2, &["n3", "n4"], &["n1"], &["n4"]),
        (0, 1, &["n3", "n4"], &["n1", "n3"], &["n3"]),
    ] {
        let mut settings = json!({"partition": partition, "maxUnavailable": max_unavailable});
        if !selected.is_empty() {
            let terms = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": selected}]);
            settings["selector"] = json!({"matchExpressions": terms});
        }
        let mut fleet = Fleet::on_nodes(4, rolling(settings.clone()));
        for node in broken {
            fleet.break_pod(fleet.on(node));
        }
        fleet.image("nginx:2");
        fleet.step();
        let left = fleet.nodes_with("nginx:1");
        let mut taken = nodes(&["n1", "n2", "n3", "n4"]);
        taken.retain(|node| !left.contains(node));
        assert_eq!(taken, nodes(gone), "{settings} with broken {broken:?}");
    }
}

#[test]
fn a_pod_that_was_not_ready_for_long_enough_goes_before_those_that_were() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"partition": 2})));
    fleet.later(60);
    let name = fleet.name_on("n1");
    fleet.remove(&name);
    fleet.settle();
    let mut spec = rolling(json!({"partition": 2}));
    spec["minReadySeconds"] = json!(30);
    fleet.edit(json!({"spec": spec}));
    fleet.image("nginx:2");
    fleet.step();
    assert_eq!(fleet.nodes_with("nginx:1"), ["n2", "n3"]);
}

/// Its Node does not use the quota up for which others could be updated.
#[test]
fn a_pod_whose_update_is_refused_keeps_its_place_and_counts() {
    for (max_unavailable, left) in [(1, vec!["n1", "n2", "n3"]), (2, vec!["n1", "n2"])] {
        let settings = json!({"partition": 2, "maxUnavailable": max_unavailable});
        let mut fleet = Fleet::on_nodes(3, rolling(settings));
        let broken = fleet.on("n1");
        let (uid, since) = (fleet.pods[broken].metadata.uid.clone(), fleet.now);
        fleet.break_pod(broken);
        fleet.held.insert(uid, crate::workload::snapshot::Refusal { message: "no".into(), since });
        fleet.image("nginx:2");
        fleet.step();
        assert_eq!(fleet.nodes_with("nginx:1"), left, "maxUnavailable {max_unavailable}");
    }
}

#[test]
fn a_surge_begins_where_nothing_is_available() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"partition": 2, "maxSurge": 1, "maxUnavailable": 0})));
    fleet.break_pod(fleet.on("n1"));
    fleet.image("nginx:2");
    fleet.step();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1"]);
}

#[test]
fn a_selector_takes_the_nodes_that_it_matches() {
    let selector = json!({"selector": {"matchLabels": {"canary": "yes"}}});
    let mut fleet = Fleet::on_nodes(3, rolling(selector));
    fleet.node("n1", json!({"metadata": {"labels": {"canary": "yes"}}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1"]);
    fleet.node("n2", json!({"metadata": {"labels": {"canary": "yes"}}}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1", "n2"]);
}

#[test]
fn updated_nodes_use_up_the_quota_first() {
    let mut fleet =
        Fleet::on_nodes(4, rolling(json!({"selector": {"matchLabels": {"kubernetes.io/hostname": "n2"}}})));
    fleet.image("nginx:2");
    fleet.settle();
    for node in ["n1", "n3", "n4"] {
        fleet.node(node, json!({"metadata": {"labels": {"chosen": "yes"}}}));
    }
    let settings = json!({"selector": {"matchLabels": {"kubernetes.io/hostname": null, "chosen": "yes"}}, "partition": 2});
    fleet.edit(json!({"spec": rolling(settings)}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n2", "n4"]);
}

#[test]
fn nothing_is_updated_while_paused_or_on_delete() {
    let mut fleet = Fleet::on_nodes(2, rolling(json!({"paused": true})));
    fleet.image("nginx:2");
    fleet.settle();
    assert!(fleet.nodes_with("nginx:2").is_empty());
    let name = fleet.name_on("n1");
    fleet.remove(&name);
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1"], "new Pods are at the present template");
    fleet.edit(json!({"spec": rolling(json!({"paused": false}))}));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2").len(), 2);
    let mut fleet = Fleet::on_nodes(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert!(fleet.nodes_with("nginx:2").is_empty());
    let name = fleet.name_on("n2");
    fleet.remove(&name);
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n2"]);
}

#[test]
fn a_surge_starts_the_new_pod_first() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxSurge": 2, "maxUnavailable": 0})));
    fleet.image("nginx:2");
    for _ in 0..60 {
        fleet.step();
        assert_eq!(fleet.without_available(), 0);
        assert!(fleet.pods.len() <= 7);
        fleet.kubelet();
    }
    assert_eq!((fleet.nodes_with("nginx:2").len(), fleet.pods.len()), (5, 5));
}

#[test]
fn an_edit_during_a_surge_takes_no_pod_that_serves() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxSurge": "100%", "maxUnavailable": 0})));
    // All Pods are of one age: those of the first edit are not ready, and some have the smaller names.
    for image in ["nginx:2", "nginx:3"] {
        fleet.image(image);
        fleet.step();
        assert_eq!(fleet.without_available(), 0);
    }
    fleet.settle();
    assert_eq!((fleet.nodes_with("nginx:3").len(), fleet.pods.len()), (5, 5));
}

#[test]
fn a_surge_goes_beyond_its_limit_for_a_pod_that_is_not_ready() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"maxSurge": 1, "maxUnavailable": 0})));
    fleet.break_pod(fleet.on("n1"));
    fleet.image("nginx:2");
    fleet.step();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1", "n3"]);
    // The old one, which is not ready, need not wait for the new one.
    fleet.step();
    assert!(!fleet.nodes_with("nginx:1").contains(&"n1".to_owned()));
}

#[test]
fn a_surge_that_has_begun_is_finished_though_paused() {
    let mut fleet = Fleet::on_nodes(2, rolling(json!({"maxSurge": 1, "maxUnavailable": 0})));
    fleet.image("nginx:2");
    fleet.step();
    fleet.edit(json!({"spec": rolling(json!({"paused": true}))}));
    fleet.settle();
    assert_eq!((fleet.nodes_with("nginx:2").len(), fleet.pods.len()), (1, 2));
}

#[test]
fn a_surge_waits_until_the_new_pod_was_ready_for_long_enough() {
    let mut spec = rolling(json!({"maxSurge": 1, "maxUnavailable": 0}));
    spec["minReadySeconds"] = json!(15);
    let mut fleet = Fleet::unsettled(1, spec);
    fleet.settle();
    fleet.later(20);
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.pods.len(), 2);
    let wait = fleet.plan().requeue_after.unwrap();
    assert!((14.9..15.1).contains(&wait.as_secs_f64()), "{wait:?}");
    fleet.later(16);
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2").len(), 1);
    assert_eq!(fleet.pods.len(), 1);
}

#[test]
fn pods_are_updated_in_place_where_that_is_possible() {
    let mut fleet = Fleet::on_nodes(3, in_place(&json!({})));
    let before: Vec<String> = fleet.pods.iter().map(|pod| pod.metadata.uid.to_string()).collect();
    fleet.image("nginx:2");
    fleet.settle();
    let after: Vec<String> = fleet.pods.iter().map(|pod| pod.metadata.uid.to_string()).collect();
    assert_eq!((fleet.nodes_with("nginx:2").len(), &after), (3, &before));
    assert!(fleet.reasons().contains(&"SuccessfulUpdatePodInPlace"));
    assert_eq!(
        fleet.pods[0].label("controller-revision-hash"),
        Some(fleet.status().update_revision.as_str())
    );
    let mut other = template("nginx:2");
    other["spec"]["containers"][0]["env"] = json!([{"name": "LEVEL", "value": "debug"}]);
    fleet.edit(json!({"spec": {"template": other}}));
    fleet.settle();
    assert!(fleet.pods.iter().all(|pod| !before.contains(&pod.metadata.uid.to_string())));
}

#[test]
fn all_resources_change_in_one_edit() {
    let mut spec = in_place(&json!({}));
    spec["template"] = sized("200m");
    let mut fleet = Fleet::unsettled(2, spec);
    fleet.gates = gates("InPlaceWorkloadVerticalScaling=true");
    fleet.environment.server = ServerVersion::parse("v1.35.0");
    fleet.settle();
    fleet.resize_all();
}

#[test]
fn images_are_pulled_ahead_of_a_rollout_in_several_batches() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"paused": true})));
    fleet.gates = gates("PreDownloadImageForDaemonSetUpdate=true");
    fleet.environment.pull_jobs = true;
    fleet.image("nginx:2");
    fleet.step();
    let plan = fleet.plan();
    let [
        Action::CreateChild { name, .. },
        Action::CreateChild { .. },
        Action::PatchChild { child: revision, patch, .. },
    ] = plan.pre_download.as_slice()
    else {
        panic!("{plan}")
    };
    assert_eq!(*name, format!("web-{}-main", fleet.status().update_revision));
    assert!(patch.contains("pre-predownload-created"), "{patch}");
    assert_eq!(revision.name, format!("web-{}", fleet.status().update_revision));
    // The job is there until the rollout is over.
    let job = ObjectVersion { name: name.clone(), ..ObjectVersion::default() };
    fleet.children.push(Arc::new(Child { kind: IMAGE_PULL_JOB, observed: job.clone() }));
    fleet.edit(json!({"spec": rolling(json!({"paused": false}))}));
    let deletes = |plan: &Plan<_>| {
        plan.pre_download.contains(&Action::DeleteChild { kind: IMAGE_PULL_JOB, child: job.clone() })
    };
    while fleet.nodes_with("nginx:2").len() < 3 {
        assert!(!deletes(&fleet.step()));
        fleet.kubelet();
    }
    fleet.settle();
    assert!(deletes(&fleet.plan()));
    fleet.children.clear();
    fleet.edit(json!({"spec": rolling(json!({"maxUnavailable": 3}))}));
    fleet.image("nginx:3");
    let plan = fleet.settled_plan();
    let [Action::PatchChild { patch, .. }] = plan.pre_download.as_slice() else { panic!("{plan}") };
    assert!(patch.contains("image-predownload-ignored"), "{patch}");
}

#[test]
fn volumes_that_are_images_are_pulled_ahead_too() {
    let with_model = |model: &str| {
        let mut template = template("nginx:1");
        template["spec"]["volumes"] = json!([{"name": "model", "image": {"reference": model}}]);
        json!({"spec": {"template": template}})
    };
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"maxUnavailable": 1})));
    fleet.edit(with_model("model:1"));
    fleet.settle();
    fleet.gates = gates("PreDownloadImageForDaemonSetUpdate=true");
    fleet.environment.pull_jobs = true;
    fleet.edit(with_model("model:2"));
    fleet.step();
    let plan = fleet.plan();
    let jobs = plan.pre_download.iter().filter_map(|action| match action {
        Action::CreateChild { name, json, .. } => {
            Some((name.clone(), json.contains("\"image\":\"model:2\"")))
        }
        _ => None,
    });
    let name = format!("web-{}-volume.model", fleet.status().update_revision);
    assert_eq!(jobs.collect::<Vec<_>>(), [(name, true)]);
}

#[test]
fn a_hook_holds_a_rollout() {
    let mut spec = rolling(json!({"maxUnavailable": 1}));
    spec["lifecycle"] = json!({"preDelete": {"labelsHandler": {"block": "true"}}});
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["block"] = json!("true");
    spec["template"] = labelled.clone();
    let mut fleet = Fleet::on_nodes(2, spec);
    labelled["spec"]["containers"][0]["image"] = json!("nginx:2");
    fleet.edit(json!({"spec": {"template": labelled}}));
    fleet.settle();
    let held = |fleet: &Fleet| -> Vec<String> {
        let is_held =
            |pod: &&Arc<ObservedPod>| pod.label("lifecycle.apps.kruise.io/state") == Some("PreparingDelete");
        fleet.pods.iter().filter(is_held).map(|pod| pod.metadata.name.to_string()).collect()
    };
    assert_eq!((held(&fleet).len(), fleet.nodes_with("nginx:1").len()), (1, 2));
    let status = fleet.status();
    assert_eq!(status.observed_generation, fleet.set().metadata.generation);
    assert!(
        fleet
            .revisions
            .iter()
            .max_by_key(|revision| revision.revision)
            .unwrap()
            .name()
            .ends_with(&status.update_revision)
    );
    let name = held(&fleet).remove(0);
    let mut release = PodWrite::default();
    release.labels.insert("block".to_owned(), None);
    release.apply(fleet.pod_mut(&name));
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2").len(), 1);
    assert_eq!(held(&fleet).len(), 1, "the next one is held");
}

#[test]
fn pods_without_the_gate_are_recreated_once() {
    let mut fleet = Fleet::on_nodes(2, json!({}));
    let before: Vec<String> = fleet.pods.iter().map(|pod| pod.metadata.uid.to_string()).collect();
    fleet.edit(json!({"spec": in_place(&json!({}))}));
    fleet.settle();
    assert!(fleet.pods.iter().all(|pod| before.contains(&pod.metadata.uid.to_string())));
    fleet.image("nginx:2");
    fleet.settle();
    assert!(fleet.pods.iter().all(|pod| pod.has_readiness_gate("InPlaceUpdateReady")));
}

#[test]
fn a_rollback_takes_the_old_revision() {
    let mut fleet = Fleet::on_nodes(2, json!({"revisionHistoryLimit": 1}));
    let first = fleet.status().update_revision;
    for image in ["nginx:2", "nginx:3", "nginx:4"] {
        fleet.image(image);
        fleet.settle();
    }
    assert_eq!(fleet.revisions.len(), 2, "the present one and one more");
    let uid = |fleet: &Fleet, newest: bool| {
        let mut revisions: Vec<_> = fleet.revisions.iter().collect();
        revisions.sort_by_key(|revision| revision.revision);
        revisions[usize::from(newest)].metadata.uid.clone()
    };
    let older = uid(&fleet, false);
    fleet.image("nginx:3");
    fleet.settle();
    assert_eq!(fleet.revisions.len(), 2);
    assert_ne!(fleet.status().update_revision, first);
    let newest = fleet.revisions.iter().max_by_key(|revision| revision.revision).unwrap();
    assert!(newest.name().ends_with(&fleet.status().update_revision));
    assert_eq!(uid(&fleet, true), older, "the older one is the newest now");
}

#[test]
fn nodes_that_are_excluded_do_not_hold_up_the_others_with_the_gate() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxUnavailable": 1})));
    fleet.gates = gates("DaemonSetPruneIneligibleNodes=true");
    fleet.lingering = true;
    for node in ["n1", "n2"] {
        fleet.break_pod(fleet.on(node));
        fleet.taint(node, "gone", "NoExecute");
        let name = fleet.name_on(node);
        fleet.remove(&name);
    }
    fleet.lingering = false;
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n3", "n4", "n5"]);
}

#[test]
fn nodes_that_one_edit_excludes_do_not_hold_up_its_image_with_the_gate() {
    let mut fleet = Fleet::on_nodes(5, rolling(json!({"maxUnavailable": 1})));
    fleet.gates = gates("DaemonSetPruneIneligibleNodes=true");
    for node in ["n1", "n2"] {
        fleet.break_pod(fleet.on(node));
    }
    let elsewhere = json!([{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}]);
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": elsewhere}]});
    let mut other = template("nginx:2");
    other["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    fleet.edit(json!({"spec": {"template": other}}));
    fleet.lingering = true;
    fleet.step();
    fleet.lingering = false;
    // The update of another Node has begun beside, and its Pod ends.
    let begun = fleet.name_on("n5");
    fleet.remove(&begun);
    for _ in 0..20 {
        fleet.step();
        assert!(fleet.without_available() <= 3, "one beside those that are excluded");
        fleet.kubelet();
    }
    assert_eq!(fleet.nodes_with("nginx:2"), ["n3", "n4", "n5"]);
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1", "n2"], "these do not end");
}

#[test]
fn pods_on_nodes_that_would_get_no_other_are_left_as_they_are() {
    let mut fleet = Fleet::on_nodes(2, json!({}));
    fleet.taint("n2", "gpu", "NoSchedule");
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(
        (fleet.nodes_with("nginx:1"), fleet.nodes_with("nginx:2")),
        (vec!["n2".to_owned()], vec!["n1".to_owned()])
    );
}

#[test]
fn a_node_that_rejects_pods_gets_no_crowd_of_them_with_a_surge() {
    let mut fleet = Fleet::on_nodes(1, rolling(json!({"maxSurge": 1, "maxUnavailable": 0})));
    fleet.image("nginx:2");
    for _ in 0..20 {
        fleet.step();
        for at in 0..fleet.pods.len() {
            let name = fleet.name(at);
            if image(&fleet.pods[at]) == "nginx:2" {
                fleet.pod_mut(&name).status.phase = "Failed".into();
            }
        }
        assert!(fleet.pods.len() <= 2, "{:?}", fleet.nodes_with("nginx:2"));
        fleet.later(1);
    }
    assert_eq!(fleet.nodes_with("nginx:1"), ["n1"]);
}

#[test]
fn a_pod_that_can_not_be_deleted_holds_up_no_other() {
    let mut fleet = Fleet::on_nodes(3, rolling(json!({"maxUnavailable": 1})));
    let (uid, since) = (fleet.pods[fleet.on("n3")].metadata.uid.clone(), fleet.now);
    fleet.held.insert(uid, crate::workload::snapshot::Refusal { message: "no".into(), since });
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1", "n2"]);
}

/// A longer `minReadySeconds` makes no Pod broken: what serves counts against the budget.
#[test]
fn serving_pods_go_within_the_budget_however_long_pods_have_to_be_ready() {
    for (settings, updated, pods) in
        [(json!({"maxUnavailable": 2}), 2, 5), (json!({"maxSurge": 2, "maxUnavailable": 0}), 2, 7)]
    {
        let mut fleet = Fleet::on_nodes(5, rolling(settings));
        fleet.edit(json!({"spec": {"minReadySeconds": 3_600}}));
        fleet.image("nginx:2");
        fleet.settle();
        let found = (fleet.nodes_with("nginx:2").len(), fleet.pods.len());
        assert_eq!(found, (updated, pods), "{}", fleet.plan());
        fleet.edit(json!({"spec": {"minReadySeconds": 0}}));
        fleet.settle();
        assert_eq!((fleet.nodes_with("nginx:2").len(), fleet.pods.len()), (5, 5));
    }
}

#[test]
fn a_node_that_lacks_its_pod_holds_no_update_of_others_up() {
    let mut fleet = Fleet::on_nodes(4, rolling(json!({"maxUnavailable": 3})));
    fleet.image("nginx:2");
    let lost = fleet.name_on("n1");
    fleet.remove(&lost);
    let plan = fleet.settled_plan();
    assert_eq!((plan.scale.len(), plan.update.len()), (1, 2), "{plan}");
    assert_eq!(plan.split_update().0.len(), 2);
    fleet.step();
    assert_eq!((fleet.nodes_with("nginx:1").len(), fleet.nodes_with("nginx:2").len()), (1, 1));
}

#[test]
fn pods_that_are_created_by_both_steps_of_a_plan_have_names_of_their_own() {
    let mut fleet = Fleet::on_nodes(2, rolling(json!({"maxSurge": 2, "maxUnavailable": 0})));
    fleet.image("nginx:2");
    let lost = fleet.name_on("n1");
    fleet.remove(&lost);
    let plan = fleet.step();
    assert_eq!((plan.scale.len(), plan.update.len()), (1, 1), "{plan}");
    assert_eq!(fleet.nodes_with("nginx:2"), ["n1", "n2"]);
}

/// Another manager may have left two revisions of the DaemonSet that record the same.
#[test]
fn pods_of_an_equal_revision_are_relabelled_and_not_replaced() {
    for settings in [json!({}), json!({"maxSurge": 1, "maxUnavailable": 0}), json!({"paused": true})] {
        let mut fleet = Fleet::on_nodes(3, rolling(settings));
        let mut twin = (*fleet.revisions[0]).clone();
        twin.metadata.name = "web-twin".to_owned();
        twin.metadata.uid = "twin".to_owned();
        twin.revision = 0;
        fleet.revisions.insert(0, Arc::new(twin));
        let mut write = PodWrite::default();
        write.set_label("controller-revision-hash", "twin");
        for name in (0..3).map(|index| fleet.name(index)).collect::<Vec<_>>() {
            write.apply(fleet.pod_mut(&name));
        }
        let uids = |fleet: &Fleet| fleet.pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>();
        let before = uids(&fleet);
        assert!(fleet.plan().status.is_some_and(|status| status.status().updated_number_scheduled == 3));
        fleet.settle();
        assert_eq!(uids(&fleet), before);
        let revision = fleet.status().update_revision;
        let is_at = |pod: &Arc<ObservedPod>| pod.label("controller-revision-hash") == Some(&*revision);
        assert!(fleet.pods.iter().all(is_at) && revision != "twin");
    }
}
