//! The filters against "no filter": whatever changes in an object, if the plan is another one, they let it
//! through.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::super::fixture::Fleet;
use super::super::*;
use crate::workload::plan::Outcome;
use crate::workload::trigger::{Name, of_claim, of_pod, of_revision, of_workload};
use ::pod::observed::{Pairs, Part};
use ::pod::write::PodWrite;
use ::pod::write::condition;
use jiff::Timestamp;

/// What the plan comes to, without what it remembers of the state that it was made from.
fn answer(fleet: &Fleet) -> (Plan<Status>, Option<Value>) {
    let mut plan = fleet.plan();
    let patch = plan.status.take().and_then(|status| status.patch(&Outcome::Succeeded, &Outcome::Succeeded));
    let patch = patch.map(|patch| serde_json::from_str::<Value>(&patch).unwrap()["status"].take());
    (plan, patch)
}

fn web() -> Name {
    ("shop".to_owned(), "web".to_owned())
}

fn write(pod: &mut ObservedPod, change: impl FnOnce(&mut PodWrite)) {
    let mut write = PodWrite::default();
    change(&mut write);
    write.apply(pod);
}

/// What others do to a Pod.
fn change_pod(pod: &mut ObservedPod, kind: usize, number: usize, now: Timestamp) {
    let states =
        ["PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete", "Odd"];
    let conditions = ["Ready", "ContainersReady", "InPlaceUpdateReady", "KruisePodReady"];
    match kind {
        0 => write(pod, |write| drop(write.labels.insert("app".to_owned(), None))),
        1 => write(pod, |write| write.set_label("apps.kruise.io/specified-delete", "true")),
        2 => write(pod, |write| write.set_label("lifecycle.apps.kruise.io/state", states[number % 7])),
        3 => write(pod, |write| write.set_label("controller-revision-hash", format!("web-{}", number % 3))),
        4 => {
            let status = if number.is_multiple_of(2) { "False" } else { "True" };
            let conditions = vec![condition(conditions[number % 4], status, "", "", now)];
            PodWrite { conditions, ..PodWrite::to(::pod::write::Target::Status) }.apply(pod);
        }
        5 => pod.status.phase = ["Failed", "Pending", "Succeeded", "Running"][number % 4].into(),
        6 => pod.metadata.deletion_timestamp = Some(now.into()),
        7 => pod.status.container_statuses = Box::default(),
        8 => pod.metadata.owner_references = Part::default(),
        9 => {
            let mut owners = pod.metadata.owner_references.to_vec();
            owners.iter_mut().for_each(|owner| owner.api_version = "apps.kruise.io/v1alpha1".to_owned());
            pod.metadata.owner_references = owners.into();
        }
        10 => write(pod, |write| write.set_annotation("apps.kruise.io/inplace-update-state", "{")),
        11 => write(pod, |write| {
            write.set_annotation("controller.kubernetes.io/pod-deletion-cost", number.to_string());
        }),
        12 => pod.spec.node_name = "".into(),
        _ => pod.metadata.finalizers = ["hold/on".into()].into(),
    }
}

/// What users and others do to the CloneSet.
fn edits() -> Vec<Value> {
    let rolling = |rolling: Value| json!({"spec": {"updateStrategy": {"rollingUpdate": rolling}}});
    vec![
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"minReadySeconds": 10}}),
        json!({"spec": {"template": super::super::fixture::template("nginx:7")}}),
        json!({"spec": {"progressDeadlineSeconds": 9}}),
        json!({"spec": {"scaleStrategy": {"podsToDelete": ["web-none"]}}}),
        rolling(json!({"partition": 1})),
        rolling(json!({"paused": true})),
        rolling(json!({"maxUnavailable": 3})),
        json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "x"}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"deletionTimestamp": fixture::NOW}}),
        json!({"metadata": {"resourceVersion": "77"}}),
        json!({"status": {"replicas": 9}}),
        json!({"status": {"updatedReplicas": 0}}),
        json!({"status": {"collisionCount": 4}}),
        json!({"status": {"currentRevision": "web-gone"}}),
        json!({"status": {"observedGeneration": 0}}),
        json!({"status": {"labelSelector": "x=y"}}),
        json!({"status": {"conditions": [{"type": "FailedUpdate", "status": "True", "message": "old"}]}}),
    ]
}

/// A CloneSet with claims in the middle of a rollout.
fn fleet(steps: usize) -> Fleet {
    let mut spec = Fleet::rolling("InPlaceIfPossible", json!({"maxUnavailable": 1}));
    super::super::fixture::merge(
        &mut spec,
        json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]}),
    );
    let mut fleet = Fleet::running(3, spec);
    fleet.image("nginx:2");
    fleet.settled_plan();
    for _ in 0..steps {
        fleet.step();
        fleet.kubelet();
    }
    fleet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_pod_that_makes_a_difference_is_let_through(
        steps in 0..6_usize, which: Index, kind in 0..16_usize, number in 0..100_usize,
    ) {
        let mut fleet = fleet(steps);
        let before = answer(&fleet);
        let index = which.index(fleet.pods.len());
        let old = fleet.pods[index].clone();
        let filtered = match kind {
            14 => {
                fleet.pods.remove(index);
                of_pod::<CloneSet>(Some(&old), None)
            }
            15 => {
                let mut twin = (*old).clone();
                (twin.metadata.name, twin.metadata.uid) = ("web-twin".into(), "twin".into());
                fleet.pods.push(Arc::new(twin.clone()));
                of_pod::<CloneSet>(None, Some(&twin))
            }
            _ => {
                let now = fleet.now;
                change_pod(Arc::make_mut(&mut fleet.pods[index]), kind, number, now);
                of_pod::<CloneSet>(Some(&old), Some(&fleet.pods[index]))
            }
        };
        prop_assert!(answer(&fleet) == before || filtered.contains(&web()), "kind {}", kind);
    }

    #[test]
    fn a_clone_set_that_makes_a_difference_is_let_through(steps in 0..6_usize, which: Index) {
        let mut fleet = fleet(steps);
        let (before, old) = (answer(&fleet), fleet.set());
        let edits = edits();
        let edit = &edits[which.index(edits.len())];
        if edit.get("spec").is_some() {
            fleet.edit(edit.clone());
        } else {
            super::super::fixture::merge(&mut fleet.object, edit.clone());
        }
        let filtered = of_workload(Some(&old), Some(&fleet.set()));
        prop_assert!(answer(&fleet) == before || filtered == Some(web()), "{}", edit);
    }

    #[test]
    fn claims_and_revisions_that_make_a_difference_are_let_through(
        steps in 0..6_usize, which: Index, kind in 0..9_usize,
    ) {
        let mut fleet = fleet(steps);
        let before = answer(&fleet);
        let claim = which.index(fleet.claims.len());
        let revision = which.index(fleet.revisions.len());
        let (old_claim, old_revision) = (fleet.claims[claim].clone(), fleet.revisions[revision].clone());
        let filtered = if kind < 5 {
            let now = fleet.now;
            let metadata = &mut Arc::make_mut(&mut fleet.claims[claim]).metadata;
            match kind {
                0 => metadata.deletion_timestamp = Some(now.into()),
                1 => metadata.owner_references = Part::default(),
                2 => metadata.labels = Pairs::default(),
                3 => metadata.finalizers = ["x/y".into()].into(),
                _ => drop(fleet.claims.remove(claim)),
            }
            let new = fleet.claims.get(claim).filter(|_| kind < 4);
            of_claim::<CloneSet>(Some(&old_claim), new.map(|claim| &**claim))
        } else {
            let changed = Arc::make_mut(&mut fleet.revisions[revision]);
            match kind {
                5 => changed.revision += 10,
                6 => changed.metadata.labels.clear(),
                7 => changed.metadata.owner_references.clear(),
                _ => drop(fleet.revisions.remove(revision)),
            }
            let new = fleet.revisions.get(revision).filter(|_| kind < 8);
            of_revision::<CloneSet>(Some(&old_revision), new.map(|revision| &**revision))
        };
        prop_assert!(answer(&fleet) == before || filtered.contains(&web()), "kind {}", kind);
    }
}

#[test]
fn kruise_2520_an_owner_of_another_version_is_the_same_owner() {
    let fleet = fleet(0);
    let mut pod = (*fleet.pods[0]).clone();
    change_pod(&mut pod, 9, 0, fleet.now);
    assert_eq!(pod.controller().unwrap().api_version, "apps.kruise.io/v1alpha1");
    assert_eq!(of_pod::<CloneSet>(None, Some(&pod)), [web()].into());
    for (group, kind) in [("apps/v1", "CloneSet"), ("apps.kruise.io/v1beta1", "StatefulSet")] {
        let mut owners = pod.metadata.owner_references.to_vec();
        (owners[0].api_version, owners[0].kind) = (group.to_owned(), kind.to_owned());
        pod.metadata.owner_references = owners.into();
        assert!(of_pod::<CloneSet>(None, Some(&pod)).is_empty());
    }
}

#[test]
fn a_new_version_alone_is_no_change() {
    let fleet = fleet(0);
    let old = fleet.set();
    let mut new = old.clone();
    new.metadata.resource_version = "99".to_owned();
    assert_eq!(of_workload(Some(&old), Some(&new)), None);
    assert_eq!((of_workload(None, Some(&new)), of_workload(Some(&old), None)), (Some(web()), Some(web())));
}
