//! ControllerRevisions (docs/behaviour/in-place-update.md#acceptance-scenarios).

use futures::{StreamExt, stream};
use kit::builders::{object, workload};
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};

use super::{Fleet, NEW, OLD, REVISION, asked, in_place, label, name, restarts, uids, with_image};
use crate::support::Stored;

/// Scenario 13: name, data and labels as a running reference wrote them.
#[tokio::test]
async fn a_revision_is_the_same_as_that_of_the_reference() {
    let options = fake_nodes::Options::nodes(1).binding_pods();
    let fleet = Fleet::found(asked().await, "cloneset-revision", options, |shop| {
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&shop.namespace);
        set.matching("app", "demo").container("main", OLD)
    })
    .await;
    fleet.complete().await;
    let revisions = fleet.revisions().await;
    assert_eq!(revisions.len(), 1);
    let revision = &revisions[0];
    assert_eq!((name(revision), &revision["revision"]), ("web-86f599f8d5".to_owned(), &json!(1)));
    let labels = json!({"app": "demo", "controller.kubernetes.io/hash": "86f599f8d5"});
    assert_eq!(revision["metadata"]["labels"], labels);
    let data: Value = serde_json::from_str(super::takeover::DATA).unwrap();
    assert_eq!(revision["data"], data);
    let pod = &fleet.pods().await[0];
    assert_eq!((label(pod, REVISION), label(pod, "pod-template-hash")), ("web-86f599f8d5", "86f599f8d5"));
}

/// Scenario 14 and scenario 28 of docs/behaviour/cloneset.md.
#[tokio::test]
async fn a_rollout_that_is_taken_back_touches_only_what_had_changed() {
    let fleet =
        Fleet::launch("cloneset-back", |set| in_place(set.replicas(4), json!({"partition": 2}))).await;
    let before = fleet.pods().await;
    fleet.roll(NEW).await;
    fleet.status("two Pods to be updated", json!({"updatedReplicas": 2, "availableReplicas": 4})).await;
    let first = fleet.revisions().await[0].clone();
    let rolling = json!({"rollingUpdate": {"partition": 0}});
    fleet.roll_and(OLD, json!({"updateStrategy": rolling})).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!((uids(&after), with_image(&after, OLD)), (uids(&before), 4));
    let mut counts: Vec<i64> = after.iter().map(|pod| restarts(pod, "main")).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 2, 2]);
    let revisions = fleet.revisions().await;
    let names: Vec<(String, i64)> =
        revisions.iter().map(|each| (name(each), each["revision"].as_i64().unwrap())).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1], (name(&first), 3));
}

/// Scenario 15.
#[tokio::test]
async fn old_revisions_are_removed() {
    let fleet = Fleet::launch("cloneset-history", |set| {
        in_place(set.replicas(1).with("/spec/revisionHistoryLimit", 2), json!({}))
    })
    .await;
    for step in 0..6 {
        fleet.change(json!({"template": {"metadata": {"labels": {"step": step.to_string()}}}})).await;
        fleet.complete().await;
    }
    let numbers = wait_for("three revisions to be left", async || {
        let revisions = fleet.revisions().await;
        let numbers: Vec<i64> =
            revisions.iter().map(|revision| revision["revision"].as_i64().unwrap()).collect();
        if numbers.len() == 3 { Ok(numbers) } else { Err(numbers) }
    })
    .await;
    assert_eq!(numbers, [5, 6, 7]);
}

/// `kutter explain` reads in pages, and of a large namespace what the selector matches.
#[tokio::test]
async fn an_explanation_finds_what_comes_behind_the_first_page() {
    const PAGE: usize = 500;
    let fleet = Fleet::launch("cloneset-pages", |set| set.replicas(2)).await;
    let stranger = object("v1", "ConfigMap", "stranger").in_namespace(&fleet.shop.namespace);
    let stranger = Stored::create(&fleet.shop.client, stranger).await.object;
    let revisions = (0..=PAGE).map(|number| {
        object("apps/v1", "ControllerRevision", &format!("a-{number}"))
            .in_namespace(&fleet.shop.namespace)
            .label("app", "web")
            .controlled_by(&stranger)
            .with("/data", json!({}))
            .with("/revision", 1)
    });
    let creations = revisions.map(|revision| Stored::create(&fleet.shop.client, revision));
    stream::iter(creations).buffer_unordered(16).collect::<Vec<_>>().await;
    let output = fleet.explained().await;
    assert_eq!(output.status.code(), Some(0), "{}{}", output.stdout, output.stderr);
}
