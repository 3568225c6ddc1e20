//! Pods are changed without being recreated (docs/behaviour/in-place-update.md#acceptance-scenarios).

use serde_json::{Value, json};

use super::{
    Fleet, GRACE, IN_PLACE_UPDATE_READY, LIFECYCLE_STATE, NEW, OLD, REVISION, STATE, condition, image,
    in_place, label, name, restarts, time, uids, update_state, with_image,
};
use crate::support::fleet::has_begun;
use crate::support::{annotation, named};

const KEY: &str = "example.com/config";
const RUNTIME_META: &str = "apps.kruise.io/runtime-containers-meta";

/// docs/behaviour/in-place-update.md#order-of-containers
#[tokio::test]
async fn all_images_change_in_one_edit() {
    let fleet = Fleet::launch("cloneset-order", |set| in_place(set.replicas(2), json!({}))).await;
    fleet.roll_all(Fleet::complete).await;
}

/// Scenarios 1 to 3.
#[tokio::test]
async fn an_image_changes_while_the_pod_stays() {
    let fleet = Fleet::launch("cloneset-inplace", |set| in_place(set.replicas(3), json!({}))).await;
    let before = fleet.pods().await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    let status = fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!((uids(&after), with_image(&after, NEW)), (uids(&before), 3));
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(restarts(new, "main"), 1);
        assert_eq!(
            (label(new, REVISION), label(new, LIFECYCLE_STATE)),
            (status["updateRevision"].as_str().unwrap(), "Normal")
        );
        assert!(status["updateRevision"].as_str().unwrap().ends_with(label(new, "pod-template-hash")));
        let state = update_state(new);
        assert_eq!(state["updateImages"], true);
        assert_eq!(state["revision"], status["updateRevision"]);
        let image_id = &named(&old["status"]["containerStatuses"], "main")["imageID"];
        assert_eq!(state["lastContainerStatuses"], json!({"main": {"imageID": image_id}}));
        let batches = state["containerBatchesRecord"].as_array().unwrap();
        assert_eq!((batches.len(), &batches[0]["containers"]), (1, &json!(["main"])));

        // Both conditions change in one write, which is therefore not the node's.
        let reported = [
            ("False", "StartInPlaceUpdate", ""),
            (
                "False",
                "ReadinessGatesNotReady",
                r#"the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False"#,
            ),
        ];
        let steps = chronicle
            .course(&name(old), |pod| {
                let of = |kind: &str| {
                    let text = |key: &str| condition(pod, kind)[key].as_str().unwrap_or_default().to_owned();
                    (text("status"), text("reason"), text("message"))
                };
                (image(pod) == NEW, [of(IN_PLACE_UPDATE_READY), of("Ready")])
            })
            .await;
        let owned = |(status, reason, message): (&str, &str, &str)| {
            (status.to_owned(), reason.to_owned(), message.to_owned())
        };
        assert_eq!(steps[0], (false, [("True", "", ""); 2].map(owned)));
        assert_eq!(steps[1], (false, reported.map(owned)), "before the image changes");
        let changed = steps.iter().position(|(new, _)| *new).unwrap();
        for (_, conditions) in &steps[1..=changed] {
            assert_eq!(conditions[0], owned(reported[0]));
            assert_eq!((conditions[1].0.as_str(), conditions[1].1.as_str()), (reported[1].0, reported[1].1));
        }
    }
    let message = fleet.event("SuccessfulUpdatePodInPlace").await;
    assert!(message.starts_with("successfully update pod web-"), "{message}");
}

#[tokio::test]
async fn the_next_pod_waits_for_no_clock() {
    let one_by_one = json!({"maxUnavailable": 1});
    let fleet = Fleet::launch("cloneset-pace", |set| in_place(set.replicas(6), one_by_one)).await;
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    fleet.complete().await;
    chronicle.assert_no_clock("CloneSet", has_begun).await;
}

/// Scenario 4.
#[tokio::test]
async fn labels_and_annotations_change_without_a_restart() {
    let fleet = Fleet::launch("cloneset-labels", |set| in_place(set.replicas(2), json!({}))).await;
    let before = fleet.pods().await;
    let metadata = json!({"labels": {"tier": "gold"}, "annotations": {KEY: "v1"}});
    fleet.change(json!({"template": {"metadata": metadata}})).await;
    fleet.complete().await;
    let after = fleet.pods().await;
    assert_eq!(uids(&after), uids(&before));
    for pod in &after {
        assert_eq!((label(pod, "tier"), annotation(pod, KEY), restarts(pod, "main")), ("gold", "v1", 0));
    }
}

/// The template's only container, which knows the annotation [`KEY`].
fn reader() -> Value {
    let source =
        json!({"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.annotations['{KEY}']")}});
    json!([{"name": "main", "image": OLD, "env": [{"name": "APP_CONFIG", "valueFrom": source}]}])
}

/// Scenario 5, with the node agent's part played here.
#[tokio::test]
async fn an_annotation_that_a_container_reads_is_waited_for() {
    const OLD_HASH: u64 = 1;
    // docs/behaviour/in-place-update.md#deep-hash-and-hash-of-variables: of APP_CONFIG=v1.
    const NEW_HASH: u64 = 4_274_367_333;
    let fleet = Fleet::launch("cloneset-env", |set| {
        let set = set.with("/spec/template/spec/containers", reader()).template_annotation(KEY, "v0");
        in_place(set.replicas(1), json!({}))
    })
    .await;
    let pod = &fleet.names().await[0];
    let report = async |hash: u64| {
        let now = fleet.pod(pod).get().await.1;
        let id = &named(&now["status"]["containerStatuses"], "main")["containerID"];
        let meta = json!({"containers": [{"name": "main", "containerID": id, "restartCount": 0,
            "hashes": {"plainHash": 1, "extractedEnvFromMetadataHash": hash}}]});
        fleet.annotate(pod, RUNTIME_META, meta.to_string()).await;
    };
    report(OLD_HASH).await;
    let chronicle = fleet.chronicle().await;
    fleet.change(json!({"template": {"metadata": {"annotations": {KEY: "v1"}}}})).await;
    let changed = fleet.wait_pod(pod, "the annotation to change", |pod| annotation(pod, KEY) == "v1").await;
    assert_eq!(label(&changed, LIFECYCLE_STATE), "Updating");
    assert_eq!(update_state(&changed)["updateEnvFromMetadata"], true);
    assert_eq!(condition(&changed, IN_PLACE_UPDATE_READY)["status"], "False");
    // The same again, and another reconcile: the container still has the old value.
    fleet.annotate(pod, "example.com/touched", "yes").await;
    fleet.change(json!({"minReadySeconds": 0, "revisionHistoryLimit": 9})).await;
    fleet.settled().await;
    assert_eq!(label(&fleet.pod(pod).get().await.1, LIFECYCLE_STATE), "Updating");
    report(NEW_HASH).await;
    fleet.complete().await;
    let states = chronicle
        .course(pod, |pod| {
            let hash = annotation(pod, RUNTIME_META).contains(&NEW_HASH.to_string());
            (label(pod, LIFECYCLE_STATE).to_owned(), hash)
        })
        .await;
    let expected = [("Normal", false), ("Updating", false), ("Updating", true), ("Normal", true)];
    assert_eq!(states, expected.map(|(state, hash)| (state.to_owned(), hash)));
}

/// Scenario 9, with a shorter time.
#[tokio::test]
async fn a_grace_period_comes_before_the_change() {
    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 2}});
    let fleet = Fleet::launch("cloneset-grace", |set| in_place(set.replicas(1), grace)).await;
    let pod = &fleet.names().await[0];
    let chronicle = fleet.chronicle().await;
    fleet.roll(NEW).await;
    let status = fleet.complete().await;
    let course = chronicle
        .course(pod, |pod| {
            let annotations = &pod["metadata"]["annotations"];
            let at_new = label(pod, REVISION) == status["updateRevision"];
            (at_new, !annotations[STATE].is_null(), !annotations[GRACE].is_null(), image(pod) == NEW)
        })
        .await;
    let expected = [(false, false, false, false), (true, true, true, false), (true, true, false, true)];
    assert_eq!(course, expected);
    let state = update_state(&fleet.pod(pod).get().await.1);
    let begun = time(&state["updateTimestamp"]);
    let waited = time(&state["containerBatchesRecord"][0]["timestamp"]).duration_since(begun).as_secs();
    assert!((2..32).contains(&waited), "{state:#}");
}
