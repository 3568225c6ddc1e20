use std::sync::Arc;

use serde_json::json;

use super::world::{World, template};
use super::*;
use api::kinds::uniteddeployment::Status;

use crate::uniteddeployment::Failure;

fn conditions(world: &World) -> Vec<String> {
    let all = world.united.status.conditions.iter();
    all.map(|one| format!("{}={}", one.kind, serde_json::to_value(&one.status).unwrap().as_str().unwrap()))
        .collect()
}

fn reserving() -> Value {
    json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}})
}

#[test]
fn each_subset_gets_a_workload_of_each_kind() {
    for kind in ChildKind::ALL {
        let mut world = World::new(kind, &json!({}));
        let first = world.look();
        assert_eq!(first.creations.len(), 2, "{kind:?}");
        world.settle(100);
        assert_eq!(world.shares(), [3, 3]);
        let status = &world.united.status;
        assert_eq!(
            (status.replicas, status.ready_replicas, status.updated_ready_replicas),
            (6, Some(6), Some(6))
        );
        assert_eq!(status.label_selector, "app=web");
        assert_eq!(status.current_revision, status.updated_revision);
        assert_eq!(
            conditions(&world),
            ["UnitedDeploymentUpdated=True", "SubsetProvisioned=True", "SubsetUpdated=True"]
        );
        let last = world.plan();
        assert!(
            last.creations.is_empty()
                && last.updates.is_empty()
                && last.status.unwrap().patch(&world.united, None).is_none()
        );
    }
}

#[test]
fn a_new_template_reaches_all_subsets_but_for_their_partitions() {
    let mut world = World::new(
        ChildKind::CloneSet,
        &json!({"updateStrategy": {"manualUpdate": {"partitions": {"a": 2}}}}),
    );
    world.settle(100);
    let first = world.united.status.updated_revision.clone();
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:2")}));
    world.settle(200);
    let status = &world.united.status;
    assert_eq!((status.updated_replicas, status.subset_statuses[0].partition), (4, Some(2)));
    assert_eq!(status.current_revision, first);
    assert_eq!(conditions(&world)[0], "SubsetProvisioned=True", "what changed goes to the end");
    world.edit(&json!({"updateStrategy": {}}));
    world.settle(200);
    let status = &world.united.status;
    assert_eq!((status.updated_replicas, &status.current_revision), (6, &status.updated_revision));
    // Back to the first template: its revision is used again.
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:1")}));
    world.settle(200);
    assert_eq!(world.united.status.updated_revision, first);
    assert_eq!(world.revisions.iter().map(|revision| revision.revision).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn a_rollout_is_not_over_while_a_workload_lacks_pods() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let first = world.united.status.updated_revision.clone();
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:2")}));
    world.look();
    world.look();
    // One workload is done, the other has deleted its Pods.
    let updated = world.united.status.updated_revision.clone();
    let [(_, done), (_, empty)] = &mut world.children[..] else { panic!("two workloads") };
    done["status"] = json!({"replicas": 3, "readyReplicas": 3});
    empty["status"] = json!({"replicas": 0, "readyReplicas": 0});
    let gone = empty["metadata"]["uid"].clone();
    world.pods.retain(|pod| pod["child"] != gone);
    for pod in &mut world.pods {
        pod["metadata"]["labels"]["apps.kruise.io/controller-revision-hash"] = updated.as_str().into();
    }
    world.look();
    let status = &world.united.status;
    assert_eq!((status.replicas, status.updated_ready_replicas), (3, Some(3)));
    assert_eq!(status.current_revision, first);
    assert!(conditions(&world).contains(&"UnitedDeploymentUpdated=False".to_owned()), "{status:?}");
    world.settle(100);
    assert_eq!(world.united.status.current_revision, updated);
}

#[test]
fn a_partition_never_exceeds_its_subset() {
    let mut world = World::new(
        ChildKind::StatefulSet,
        &json!({"updateStrategy": {"manualUpdate": {"partitions": {"a": 5}}}}),
    );
    world.settle(100);
    let partition =
        |world: &World| world.child("a")["spec"]["updateStrategy"]["rollingUpdate"]["partition"].clone();
    assert_eq!(partition(&world), 3);
    world.edit(&json!({"replicas": 12}));
    world.settle(100);
    assert_eq!(partition(&world), 5);
}

#[test]
fn history_has_a_limit() {
    let mut world = World::new(ChildKind::Deployment, &json!({"revisionHistoryLimit": 2}));
    for image in 1..=6 {
        world.edit(&json!({"template": template(ChildKind::Deployment, &format!("nginx:{image}"))}));
        world.settle(200);
    }
    let names: Vec<&str> = world.revisions.iter().map(|revision| revision.name()).collect();
    assert!(names.len() <= 3 && names.contains(&world.united.status.updated_revision.as_str()), "{names:?}");
    // While a rollout continues both ends of it stay.
    world.united.spec.revision_history_limit = Some(0);
    let current = world.united.status.current_revision.clone();
    for image in 7..=9 {
        world.edit(&json!({"template": template(ChildKind::Deployment, &format!("nginx:{image}"))}));
        world.look();
        world.look();
    }
    let status = &world.united.status;
    assert_eq!(status.current_revision, current);
    let mut names: Vec<&str> = world.revisions.iter().map(|revision| revision.name()).collect();
    names.sort_unstable();
    let mut used = [current.as_str(), status.updated_revision.as_str()];
    used.sort_unstable();
    assert_eq!(names, used);
}

#[test]
fn the_share_of_a_subset_that_goes_is_divided() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    world.edit(&json!({"topology": {"subsets": [{"name": "a"}]}}));
    let plan = world.look();
    assert_eq!((plan.creations.len(), plan.deletions.len(), plan.updates.len()), (0, 1, 1));
    assert_eq!(world.shares(), [6]);
}

#[test]
fn what_serves_stays_until_what_takes_its_place_is_there() {
    let mut world = World::new(ChildKind::StatefulSet, &json!({}));
    world.settle(100);
    world.refuses = true;
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:1")}));
    world.settle(50);
    assert!(world.children.len() == 2 && world.pods.len() == 6);
    world.refuses = false;
    world.settle(100);
    assert!(world.children.iter().all(|(kind, _)| *kind == ChildKind::CloneSet) && world.pods.len() == 6);
}

#[test]
fn a_workload_whose_label_is_gone_stays_and_gets_it_back() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let labels =
        |world: &mut World| world.children[0].1["metadata"]["labels"].as_object_mut().unwrap().clone();
    let before = labels(&mut world);
    world.children[0].1["metadata"]["labels"].as_object_mut().unwrap().remove(SUBSET_NAME);
    let plan = world.look();
    assert!(plan.deletions.is_empty() && plan.creations.is_empty() && plan.updates.len() == 1, "{plan:?}");
    assert_eq!(labels(&mut world), before);
    // Its selector does not name the subset either: it is not known what it is for.
    world.children[0].1["metadata"]["labels"].as_object_mut().unwrap().remove(SUBSET_NAME);
    world.children[0].1["spec"]["selector"]["matchLabels"].as_object_mut().unwrap().remove(SUBSET_NAME);
    let plan = world.look();
    assert!(plan.deletions.is_empty(), "{plan:?}");
    assert!(plan.events[0].reason == "FailedFindSubsets" && plan.events[0].message.contains("web-a-"));
    assert!(conditions(&world).contains(&"SubsetProvisioned=False".to_owned()));
}

#[test]
fn a_wrong_patch_stops_no_other_update() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let wrong = json!({"spec": {"containers": [{"image": "a"}]}});
    let right = json!({"metadata": {"annotations": {"zone": "b"}}});
    world.edit(
        &json!({"topology": {"subsets": [{"name": "a", "patch": wrong}, {"name": "b", "patch": right}]}}),
    );
    world.look();
    assert_eq!(world.child("b")["spec"]["template"]["metadata"]["annotations"]["zone"], "b");
    let reported = world.united.status.conditions.iter().find(|one| one.kind == "SubsetUpdated").unwrap();
    assert!(reported.message.contains("failed to merge the patch of subset a"), "{reported:?}");
}

#[test]
fn only_what_is_wanted_stays() {
    let mut world = World::new(ChildKind::StatefulSet, &json!({}));
    world.settle(100);
    world.edit(&json!({"topology": {"subsets": [{"name": "a"}, {"name": "c"}]}}));
    let plan = world.look();
    assert_eq!((plan.creations.len(), plan.deletions.len(), plan.updates.len()), (1, 1, 0));
    world.settle(100);
    let reported: Vec<&str> =
        world.united.status.subset_statuses.iter().map(|subset| subset.name.as_str()).collect();
    assert_eq!((reported, world.shares()), (vec!["a", "c"], vec![3, 3]));
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:1")}));
    let plan = world.look();
    assert_eq!((plan.creations.len(), plan.deletions.len()), (2, 2));
    assert!(world.children.iter().all(|(kind, _)| *kind == ChildKind::CloneSet));
    world.edit(&json!({"topology": {}}));
    world.settle(100);
    assert!(world.children.is_empty() && world.united.status.subset_statuses.is_empty());
}

#[test]
fn a_second_workload_goes_and_a_lost_one_is_adopted() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let (kind, mut second) = world.children[0].clone();
    (second["metadata"]["uid"], second["metadata"]["name"]) = ("second".into(), "web-a-second".into());
    second["metadata"]["creationTimestamp"] = world.now.to_string().into();
    world.children.push((kind, second.clone()));
    assert_eq!(world.look().deletions[0].1.uid, "second");
    // Without an owner, a stranger without a subset, of another kind, or of one that is there, is left alone.
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o"});
    second["metadata"]["ownerReferences"] = json!([other]);
    world.children.push((kind, second.clone()));
    world.children.push((ChildKind::Deployment, second.clone()));
    let plan = world.look();
    assert!(plan.deletions.is_empty() && plan.adoptions.is_empty());
    world.children.retain(|(kind, child)| {
        *kind == ChildKind::CloneSet && child["metadata"]["labels"]["apps.kruise.io/subset-name"] != "a"
    });
    world.children.push((kind, second));
    let plan = world.look();
    assert_eq!((plan.adoptions.len(), plan.creations.len()), (1, 0));
    let owners = &world.child("a")["metadata"]["ownerReferences"];
    assert_eq!((&owners[0]["uid"], &owners[1]["uid"]), (&json!("o"), &json!("u")), "other owners stay");
    assert!(world.look().adoptions.is_empty());
}

#[test]
fn a_patch_changes_its_workload_and_no_revision() {
    let mut world = World::new(ChildKind::Deployment, &json!({}));
    world.settle(100);
    let revision = world.united.status.updated_revision.clone();
    let patch = json!({"metadata": {"annotations": {"zone": "a"}}});
    world.edit(&json!({"topology": {"subsets": [{"name": "a", "patch": patch}, {"name": "b"}]}}));
    let plan = world.look();
    assert_eq!(plan.updates.len(), 1);
    assert_eq!(world.child("a")["spec"]["template"]["metadata"]["annotations"]["zone"], "a");
    assert_eq!(world.united.status.updated_revision, revision);
}

#[test]
fn shares_that_can_not_be_change_nothing() {
    let subsets = json!([{"name": "a", "replicas": 3}, {"name": "b", "replicas": 3}]);
    let mut world = World::new(ChildKind::CloneSet, &json!({"topology": {"subsets": subsets}}));
    world.settle(100);
    world.edit(&json!({"replicas": 4}));
    let plan = world.look();
    assert_eq!(plan.events[0].reason, "Failed SpecifySubsetReplicas");
    assert!(
        plan.events[0]
            .message
            .starts_with("Specified subset replicas is ineffective: specified subsets' replica (6)")
    );
    assert!(plan.updates.is_empty() && world.shares() == [3, 3]);
    assert_eq!(world.united.status.observed_generation, world.united.metadata.generation);
    assert!(conditions(&world).contains(&"SubsetProvisioned=False".to_owned()));
    // What there is, is counted all the same.
    world.children[0].1["status"]["readyReplicas"] = json!(1);
    world.look();
    let status = &world.united.status;
    assert_eq!((status.ready_replicas, status.subset_statuses[0].replicas), (Some(4), Some(3)));
}

#[test]
fn a_revision_that_can_not_be_written_is_reported() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:2")}));
    let plan = world.plan();
    assert!(plan.revision.is_some() && plan.updates.is_empty());
    let write =
        plan.status.unwrap().patch(&world.united, Some(&Failure::Provision("no".to_owned()))).unwrap();
    let patch: Value = serde_json::from_str(&write.patch).unwrap();
    assert_eq!(patch["status"]["observedGeneration"], 2);
    assert_eq!(patch["status"].get("updatedRevision"), None);
    assert!(
        write
            .patch
            .contains(r#""message":"no","reason":"Error","status":"False","type":"SubsetProvisioned""#)
    );
}

#[test]
fn failures_are_reported_and_forgotten() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.refuses = true;
    world.look();
    assert!(conditions(&world).contains(&"SubsetProvisioned=False".to_owned()));
    world.refuses = false;
    world.settle(100);
    assert!(conditions(&world).contains(&"SubsetProvisioned=True".to_owned()));
    let draft = world.plan().status.unwrap();
    let patch = draft.patch(&world.united, Some(&Failure::Update("no".to_owned()))).unwrap().patch;
    assert!(
        patch.contains(r#""message":"no","reason":"Error","status":"False","type":"SubsetUpdated""#),
        "{patch}"
    );
    // Provisioning went well, whatever came of the updates; and a failure in other words may wait to be reported.
    world.refuses = true;
    world.edit(&json!({"topology": {"subsets": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}}));
    world.look();
    let draft = world.plan().status.unwrap();
    let write =
        draft.clone().patch(&world.united, Some(&Failure::Provision("otherwise".to_owned()))).unwrap();
    assert!(!write.is_urgent && write.patch.contains("otherwise"), "{write:?}");
    let write = draft.patch(&world.united, Some(&Failure::Update("no".to_owned()))).unwrap();
    assert!(write.patch.contains(r#""status":"True","type":"SubsetProvisioned""#), "{write:?}");
}

/// In adaptive mode the Pods are gone by then from which it could be observed again.
#[test]
fn a_mark_is_reported_though_the_object_has_changed() {
    let subsets = json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}]);
    let topology = json!({"scheduleStrategy": {"type": "Adaptive"}, "subsets": subsets});
    let mut world = World::new(ChildKind::CloneSet, &json!({"replicas": 3, "topology": topology}));
    world.capacity.insert("a".to_owned(), 1);
    world.settle(30);
    world.pass(31);
    let draft = world.plan().status.unwrap();
    world.edit(&json!({"replicas": 4}));
    let patch = draft.clone().patch(&world.united, None).unwrap().patch;
    assert!(patch.contains("timeout pending pods found"), "{patch}");
    world.united.status.observed_generation = Some(2);
    assert!(draft.patch(&world.united, None).is_none(), "what is newer stays");
}

#[test]
fn counts_of_pods_on_their_way_may_wait() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let draft = world.plan().status.unwrap();
    let urgent = |status: Status| {
        let mut before = world.united.clone();
        before.status = status;
        draft.clone().patch(&before, None).map(|write| write.is_urgent)
    };
    let whole = draft.status.clone();
    assert_eq!(urgent(Status { ready_replicas: Some(1), ..whole.clone() }), Some(true), "all are there now");
    assert_eq!(urgent(Status { observed_generation: None, ..whole.clone() }), Some(true));
    let on_its_way = Draft { status: Status { ready_replicas: Some(3), ..whole.clone() }, ..draft.clone() };
    let mut before = world.united.clone();
    before.status = Status { ready_replicas: Some(2), ..whole };
    let write = on_its_way.patch(&before, None).unwrap();
    assert!(!write.is_urgent && write.patch.contains(r#""readyReplicas":3"#), "{write:?}");
}

#[test]
fn hand_made_changes_of_numbers_are_put_back() {
    let mut world = World::new(ChildKind::Deployment, &json!({}));
    world.settle(100);
    world.children[0].1["spec"]["replicas"] = json!(9);
    world.children[1].1["spec"]["paused"] = json!(true);
    assert_eq!(world.look().updates.len(), 1);
    assert_eq!(world.shares(), [3, 3]);
    assert_eq!(world.children[1].1["spec"]["paused"], true, "others stay");
}

#[test]
fn a_broken_pod_does_not_stop_a_stateful_set() {
    let mut world = World::new(ChildKind::StatefulSet, &json!({}));
    world.settle(100);
    world.pods[0]["status"] = json!({"phase": "Pending"});
    assert!(world.plan().stuck.is_empty(), "it is at the newest revision");
    world.edit(&json!({"template": template(ChildKind::StatefulSet, "nginx:2")}));
    assert!(world.look().stuck.is_empty(), "its workload does not know of the revision yet");
    let stuck: Vec<String> = world.plan().stuck.into_iter().map(|pod| pod.uid).collect();
    assert_eq!(stuck, [world.pods[0]["metadata"]["uid"].as_str().unwrap()]);
    // Not those that the partition keeps, and none where somebody else replaces Pods.
    let kind =
        std::mem::replace(&mut world.children[0].1["spec"]["updateStrategy"]["type"], json!("OnDelete"));
    assert!(world.plan().stuck.is_empty());
    world.children[0].1["spec"]["updateStrategy"]["type"] = kind;
    world.edit(&json!({"updateStrategy": {"manualUpdate": {"partitions": {"a": 3}}}}));
    world.look();
    assert_eq!(world.plan().stuck.len(), 1);
    world.pods[0]["metadata"]["name"] = "web-a-2".into();
    assert!(world.plan().stuck.is_empty());
}

#[test]
fn pods_without_room_move_and_stay_where_they_run() {
    let subsets = json!([{"name": "a", "maxReplicas": 3}, {"name": "b"}]);
    let topology = json!({"scheduleStrategy": {"type": "Adaptive"}, "subsets": subsets});
    let mut world = World::new(ChildKind::CloneSet, &json!({"replicas": 3, "topology": topology}));
    world.capacity.insert("a".to_owned(), 1);
    world.settle(30);
    assert_eq!(world.shares(), [3, 0]);
    world.settle(60);
    assert_eq!((world.shares(), world.running()["b"]), (vec![1, 2], 2));
    let condition = |world: &World| {
        let condition = &world.united.status.subset_statuses[0].conditions[0];
        (condition.status.clone(), condition.reason.clone())
    };
    assert_eq!(condition(&world), (api::kinds::shared::ConditionStatus::False, "reschedule".to_owned()));
    world.capacity.clear();
    world.settle(320);
    assert_eq!(condition(&world), (api::kinds::shared::ConditionStatus::True, "recover".to_owned()));
    assert_eq!(world.shares(), [1, 2], "running Pods do not move");
    world.edit(&json!({"replicas": 5}));
    world.settle(50);
    assert_eq!(world.shares(), [3, 2]);
}

#[test]
fn reserved_pods_wait_beside_temporary_ones() {
    for kind in [ChildKind::CloneSet, ChildKind::Deployment] {
        let topology = json!({"scheduleStrategy": reserving(), "subsets": [{"name": "a"}, {"name": "b"}]});
        let mut world = World::new(kind, &json!({"replicas": 3, "topology": topology}));
        world.capacity.insert("a".to_owned(), 1);
        world.settle(100);
        let status = &world.united.status;
        assert_eq!((world.shares(), status.replicas, status.reserved_pods), (vec![3, 2], 3, Some(2)));
        assert_eq!(status.label_selector, "app=web,apps.kruise.io/united-deployment-reserved-pod=false");
        world.capacity.clear();
        world.settle(250);
        assert_eq!(world.shares(), [3, 2], "they are not trusted yet");
        world.settle(150);
        assert_eq!((world.shares(), world.united.status.reserved_pods), (vec![3, 0], Some(0)));
        assert!(world.pods.iter().all(|pod| pod["metadata"]["labels"][RESERVED_POD] == "false"));
    }
}

/// What comes in front of others takes their Pods over one by one, once it serves itself.
#[test]
fn a_new_subset_takes_no_pods_away_before_it_serves() {
    for kind in [ChildKind::CloneSet, ChildKind::Deployment] {
        let names =
            |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
        let topology = |list: &[&str]| json!({"scheduleStrategy": reserving(), "subsets": names(list)});
        let mut world = World::new(kind, &json!({"replicas": 3, "topology": topology(&["a", "b"])}));
        world.settle(100);
        let served = |world: &World| world.running().values().sum::<usize>();
        world.edit(&json!({"topology": topology(&["c", "a", "b"])}));
        world.capacity.insert("c".to_owned(), 2);
        for _ in 0..60 {
            world.look();
            assert!(world.running()["a"] == 3 || world.running()["c"] == 2, "{:?}", world.running());
            world.run();
            assert!(served(&world) >= 3, "{kind:?}: {:?}", world.running());
            world.pass(10);
        }
        assert_eq!(world.shares(), [3, 1, 0], "{kind:?}: two are ready in it");
        world.capacity.clear();
        world.settle(600);
        assert_eq!(world.shares(), [3, 0, 0]);
    }
}

/// A subset that waited for capacity when its workload went is not trusted because it is made anew.
#[test]
fn a_marked_subset_without_workload_is_not_trusted() {
    let topology = json!({"scheduleStrategy": reserving(), "subsets": [{"name": "a"}, {"name": "b"}]});
    let mut world = World::new(ChildKind::CloneSet, &json!({"replicas": 3, "topology": topology}));
    world.capacity.insert("a".to_owned(), 0);
    world.settle(100);
    assert_eq!(world.shares(), [3, 3]);
    let uid = world.child("a")["metadata"]["uid"].clone();
    world.children.retain(|(_, child)| child["metadata"]["uid"] != uid);
    world.pods.retain(|pod| pod["child"] != uid);
    for _ in 0..20 {
        world.look();
        assert_eq!(world.shares(), [3, 3]);
        world.run();
        world.pass(10);
    }
}

/// Two Pods of ten find no capacity: the eight others are updated all the same, at the pace of the template.
#[test]
fn a_rollout_goes_on_beside_pods_without_room() {
    for kind in [ChildKind::CloneSet, ChildKind::Deployment] {
        let topology = json!({"scheduleStrategy": reserving(), "subsets": [{"name": "a"}, {"name": "b"}]});
        let mut world = World::new(kind, &json!({"replicas": 10, "topology": topology}));
        world.capacity.insert("a".to_owned(), 8);
        world.settle(200);
        assert_eq!((world.shares(), world.running()["a"]), (vec![10, 2], 8));
        world.edit(&json!({"template": template(kind, "nginx:2")}));
        let mut updates = 0;
        let limit = |world: &World| {
            world.child("a")["spec"][kind.strategy()]["rollingUpdate"]["maxUnavailable"].clone()
        };
        world.look();
        assert_eq!(limit(&world), 4, "{kind:?}: two that wait, and 2 of 10");
        for _ in 0..40 {
            world.run();
            world.pass(10);
            // The other subset has more temporary Pods while those that were replaced are not trusted.
            let plan = world.look();
            updates += plan.updates.iter().filter(|(_, target)| target.subset.name == "a").count();
        }
        let updated = &world.united.status.updated_revision;
        let old = world.pods.iter().filter(|pod| pod["metadata"]["labels"][UNITED_REVISION] != **updated);
        assert_eq!((old.count(), world.running()["a"]), (0, 8), "{kind:?}");
        assert!(updates <= 1, "{kind:?}: {updates} writes");
    }
}

/// The rollout of the second template begins with it: its Pods have their time.
#[test]
fn a_second_template_restarts_the_time_of_the_rollout() {
    let topology = json!({"scheduleStrategy": reserving(), "subsets": [{"name": "a"}]});
    let mut world = World::new(ChildKind::CloneSet, &json!({"replicas": 3, "topology": topology}));
    world.settle(100);
    world.pods[0]["status"] = json!({"phase": "Running"});
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:2")}));
    world.look();
    world.pass(29);
    world.edit(&json!({"template": template(ChildKind::CloneSet, "nginx:3")}));
    world.look();
    world.pass(29);
    world.look();
    let status = &world.united.status;
    assert_eq!(status.reserved_pods, Some(0));
    let message =
        &status.conditions.iter().find(|one| one.kind == "UnitedDeploymentUpdated").unwrap().message;
    assert_eq!(*message, format!("updating to revision {}", status.updated_revision));
    world.pass(2);
    world.look();
    assert_eq!(world.united.status.reserved_pods, Some(1));
}

#[test]
fn revisions_and_workloads_of_openkruise_are_taken_over() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    // As OpenKruise leaves it: a name of its own making, no label on the revision, empty members in its data.
    let old = world.united.status.updated_revision.clone();
    let mut data = template(ChildKind::CloneSet, "nginx:1");
    data["$patch"] = "replace".into();
    data["cloneSetTemplate"]["metadata"]["creationTimestamp"] = Value::Null;
    data["cloneSetTemplate"]["spec"]["updateStrategy"] = json!({});
    let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment", "name": "web", "uid": "u", "controller": true}]);
    let revision = json!({"metadata": {"name": "web-theirs", "namespace": "shop", "uid": "r", "ownerReferences": owner},
        "data": {"spec": {"template": data}}, "revision": 1});
    world.revisions = vec![Arc::new(StoredRevision::read(&revision.to_string()).unwrap())];
    for object in world.children.iter_mut().map(|(_, child)| child).chain(&mut world.pods) {
        *object = serde_json::from_str(&object.to_string().replace(&old, "web-theirs")).unwrap();
    }
    (world.united.status.updated_revision, world.united.status.current_revision) =
        ("web-theirs".into(), "web-theirs".into());
    let plan = world.plan();
    assert!(
        plan.revision.is_none()
            && plan.updates.is_empty()
            && plan.creations.is_empty()
            && plan.deletions.is_empty()
    );
    assert!(plan.status.unwrap().patch(&world.united, None).is_none());
}

/// What OpenKruise selected once and no longer does is neither used nor released.
#[test]
fn workloads_that_are_not_selected_are_left_alone() {
    let mut world = World::new(ChildKind::CloneSet, &json!({}));
    world.settle(100);
    let (kind, mut stranded) = world.children[0].clone();
    stranded["metadata"]["name"] = "web-old".into();
    stranded["metadata"]["uid"] = "old".into();
    stranded["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    stranded["metadata"]["labels"]["app"] = "before".into();
    world.children.push((kind, stranded));
    let plan = world.plan();
    assert!(plan.deletions.is_empty() && plan.updates.is_empty() && plan.adoptions.is_empty(), "{plan:?}");
    // Where it is the only one it serves: another would not be selected either.
    world.children.remove(0);
    let plan = world.plan();
    assert!(plan.creations.is_empty() && plan.deletions.is_empty(), "{plan:?}");
    world.edit(&json!({"topology": {"subsets": [{"name": "b"}]}}));
    assert!(world.plan().deletions.is_empty(), "its subset is gone");
}

/// The revision of one that was deleted without it is used again; those of others with its name are left alone.
#[test]
fn an_orphaned_revision_is_used_again() {
    let mut world = World::new(ChildKind::CloneSet, &json!({"revisionHistoryLimit": 0}));
    world.settle(100);
    let revision = &world.revisions[0];
    let name = revision.name().to_owned();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o"});
    let json = json!({"metadata": {"name": name, "namespace": "shop", "uid": "r", "annotations": revision.metadata.annotations,
        "labels": {"app": "web"}, "ownerReferences": [other]},
        "data": serde_json::from_str::<Value>(revision.data.get()).unwrap(), "revision": 1});
    let stranger = |name: &str, data: Value| json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}}, "data": data, "revision": 1});
    let of_stateful_set =
        json!({"spec": {"template": {"$patch": "replace", "metadata": {}, "spec": {"containers": []}}}});
    let objects = [json, stranger("web-zone-a-x-1", json!({})), stranger("web-5d4f", of_stateful_set)];
    world.revisions =
        objects.map(|object| Arc::new(StoredRevision::read(&object.to_string()).unwrap())).to_vec();
    let plan = world.look();
    assert!(plan.revision.is_none() && plan.obsolete.is_empty() && plan.updates.is_empty(), "{plan:?}");
    let owners = |at: usize| {
        let owners = world.revisions[at].metadata.owner_references.iter();
        owners.map(|owner| owner.uid.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((owners(0), owners(1), owners(2)), (vec!["o", "u"], vec![], vec![]));
    // OpenKruise gives revisions of CloneSets no labels; those of other kinds are known by theirs.
    for (kind, is_taken) in [(ChildKind::CloneSet, true), (ChildKind::Deployment, false)] {
        let mut world = World::new(kind, &json!({}));
        world.settle(100);
        let revision = Arc::make_mut(&mut world.revisions[0]);
        revision.metadata.owner_references.clear();
        revision.metadata.labels.retain(|key, _| key == CONTROLLER_HASH);
        let step = world.plan().revision.unwrap();
        assert_eq!(matches!(step, RevisionStep::Patch { .. }), is_taken, "{kind:?}");
    }
}
