//! Releases from their beginning to their end.

use api::kinds::batchrelease::KIND;
use serde_json::{Value, json};

use super::*;
use crate::object::Object;
use crate::workload::fixture::*;
use values::percent;

const SHARES: [&str; 3] = ["20%", "60%", "100%"];

/// A CloneSet of five that was held when its template changed from `old` to `new`.
fn cloneset() -> Value {
    object(
        CLONE_SETS,
        "CloneSet",
        "web",
        json!({
            "metadata": {"annotations": {"rollouts.kruise.io/in-progressing": "{\"rolloutName\":\"rel\"}"}},
            "spec": {"replicas": 5, "template": template("v2"), "updateStrategy": {"partition": "100%"}},
            "status": {"observedGeneration": 1, "replicas": 5, "readyReplicas": 5, "updatedReplicas": 0, "updatedReadyReplicas": 0,
                "currentRevision": "web-old", "updateRevision": "web-new"},
        }),
    )
}

fn cluster(more: Value) -> Cluster {
    let batches = SHARES.map(Value::from);
    Cluster::of([cloneset(), release(&reference("apps.kruise.io/v1alpha1", "CloneSet"), &batches, more)])
}

fn clone_set_partition(cluster: &Cluster) -> Value {
    cluster.get("CloneSet", "web")["spec"]["updateStrategy"]["partition"].clone()
}

/// The controller of the CloneSet makes Pods new, of which so many are not ready. With an owner it shows them.
fn work(cluster: &mut Cluster, unready: i32) {
    let web = cluster.get("CloneSet", "web").clone();
    let replicas = i32::try_from(web.number("/spec/replicas").unwrap()).unwrap();
    let partition = web.pointer("/spec/updateStrategy/partition").cloned();
    let partition = partition.map(|partition| serde_json::from_value(partition).unwrap());
    let updated = replicas - percent::partition(partition.as_ref(), replicas);
    let updated = updated.max(i32::try_from(web.number("/status/updatedReplicas").unwrap()).unwrap());
    let update = web.text("/status/updateRevision").to_owned();
    let current = if updated == replicas { update } else { web.text("/status/currentRevision").to_owned() };
    cluster.report(
        "CloneSet",
        "web",
        json!({"replicas": replicas, "readyReplicas": replicas - unready,
        "updatedReplicas": updated, "updatedReadyReplicas": updated - unready, "currentRevision": current}),
    );
}

/// The Rollout lets batches run; without one the release ends, of which the workload says nothing any more.
fn allow(cluster: &mut Cluster, batch: Option<i32>) {
    if batch.is_none() {
        let unmarked = json!({"rollouts.kruise.io/in-progressing": null});
        cluster.change("CloneSet", "web", json!({"metadata": {"annotations": unmarked}}));
    }
    cluster.change(KIND, "rel", json!({"spec": {"releasePlan": {"batchPartition": batch}}}));
}

fn state(cluster: &Cluster) -> (Phase, i32, BatchState) {
    let status = cluster.release().status;
    let present = status.canary_status.unwrap();
    (status.phase, present.current_batch, present.batch_state)
}

fn rolled(cluster: &Cluster) -> (Value, i64) {
    (clone_set_partition(cluster), cluster.get("CloneSet", "web").number("/status/updatedReplicas").unwrap())
}

#[test]
fn a_release_brings_batch_after_batch_with_one_write_each() {
    let mut cluster = cluster(json!({}));
    for (batch, partition, updated) in [(0, "80%", 1), (1, "40%", 3), (2, "0%", 5)] {
        allow(&mut cluster, Some(batch));
        // Holding the workload and opening it for the first batch is one write.
        assert_eq!(cluster.step().writes.len(), 1);
        assert_eq!(state(&cluster), (Phase::Progressing, batch, BatchState::Verifying));
        assert_eq!(cluster.step().writes, []);
        work(&mut cluster, 0);
        let plan = cluster.step();
        assert_eq!((plan.writes.len(), plan.again), (0, None));
        assert_eq!(state(&cluster), (Phase::Progressing, batch, BatchState::Ready));
        assert_eq!(rolled(&cluster), (partition.into(), updated));
        let status = cluster.release().status;
        let present = status.canary_status.unwrap();
        assert_eq!(
            (i64::from(present.updated_replicas), i64::from(present.updated_ready_replicas)),
            (updated, updated)
        );
        assert_eq!(present.batch_ready_time, Some(moment().now.into()));
        assert_eq!((&*status.stable_revision, &*status.update_revision), ("old", "new"));
        assert_eq!(status.observed_workload_replicas, Some(5));
        assert_eq!(cluster.plan(), Plan::only(cluster.release().status));
    }
    allow(&mut cluster, None);
    assert_eq!(cluster.step().writes.len(), 1);
    assert_eq!(cluster.release().status.phase, Phase::Completed);
    let web = cluster.get("CloneSet", "web");
    assert_eq!(
        (&web["spec"]["updateStrategy"], web.annotation("batchrelease.rollouts.kruise.io/control-info")),
        (&json!({}), None)
    );
    assert_eq!(cluster.plan(), Plan::only(cluster.release().status));
}

#[test]
fn what_is_killed_between_any_two_writes_ends_the_same() {
    let run = |kills: bool| {
        let mut cluster =
            cluster(json!({"metadata": {"finalizers": null}, "spec": {"releasePlan": {"rolloutID": "r"}}}));
        for batch in [Some(0), Some(1), Some(2), None] {
            allow(&mut cluster, batch);
            for _ in 0..4 {
                let writes = cluster.plan().writes.len();
                // The writes are made, some of them, and the status is not.
                for made in (0..=writes).filter(|_| kills) {
                    let plan = cluster.plan();
                    plan.writes.iter().take(made).for_each(|write| cluster.carry_out(write));
                }
                cluster.step();
                work(&mut cluster, 0);
                show_pods(&mut cluster);
            }
        }
        (
            cluster.get("CloneSet", "web")["spec"].clone(),
            cluster.release().status,
            batches_of_pods(&cluster, "r"),
        )
    };
    let (spec, status, pods) = run(true);
    assert_eq!((spec, status, pods.clone()), run(false));
    assert_eq!(pods, ["1", "2", "2", "3", "3"]);
}

/// The Pods of the CloneSet, as many new ones as its status says.
fn show_pods(cluster: &mut Cluster) {
    let updated = cluster.get("CloneSet", "web").number("/status/updatedReplicas").unwrap();
    let update = cluster.get("CloneSet", "web").text("/status/updateRevision").to_owned();
    for number in 0..updated {
        let name = format!("new-{number}");
        if cluster.find("Pod", &name).is_none() {
            cluster.put(pod(&name, "web-uid", &json!({"controller-revision-hash": update}), true));
        }
    }
}

/// The batches of the Pods of a release.
fn batches_of_pods(cluster: &Cluster, id: &str) -> Vec<String> {
    let pods = cluster.all("Pod").into_iter();
    let pods = pods.filter(|pod| pod.label("rollouts.kruise.io/rollout-id") == Some(id));
    let mut batches: Vec<String> =
        pods.map(|pod| pod.label("rollouts.kruise.io/rollout-batch-id").unwrap().to_owned()).collect();
    batches.sort();
    batches
}

#[test]
fn the_finalizer_is_there_before_anything_is_held() {
    let cluster = cluster(json!({"metadata": {"finalizers": ["other"]}}));
    let writes = cluster.plan().writes;
    let Some(Write::Patch { name, patch, .. }) = writes.first() else { panic!("{writes:?}") };
    assert_eq!(
        (&*name.kind, &patch["metadata"]["finalizers"]),
        (KIND, &json!(["other", "rollouts.kruise.io/batch-release-finalizer"]))
    );
    assert_eq!(patch["metadata"]["resourceVersion"], cluster.get(KIND, "rel").resource_version());
}

#[test]
fn a_batch_waits_for_its_pods_and_goes_back_when_they_fail() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"batchPartition": 1}}}));
    cluster.step();
    work(&mut cluster, 1);
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 0, BatchState::Verifying));
    work(&mut cluster, 0);
    // The batch that is ready and the next one take one plan.
    assert_eq!(cluster.step().writes.len(), 1);
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Verifying));
    work(&mut cluster, 0);
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Ready));
    work(&mut cluster, 2);
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Verifying));
    assert_eq!(cluster.release().status.canary_status.unwrap().batch_ready_time, None);
}

#[test]
fn so_many_new_pods_may_be_unready_as_the_threshold_says_but_not_all() {
    let is_ready = |threshold: Value, updated: i32, ready: i32| {
        let mut cluster = cluster(json!({"spec": {"releasePlan": {"failureThreshold": threshold}}}));
        cluster.change(KIND, "rel", json!({"spec": {"releasePlan": {"batches": [{"canaryReplicas": 4}]}}}));
        cluster.step();
        cluster.report("CloneSet", "web", json!({"updatedReplicas": updated, "updatedReadyReplicas": ready}));
        cluster.step();
        state(&cluster).2 == BatchState::Ready
    };
    assert!(is_ready(Value::Null, 4, 4) && !is_ready(Value::Null, 4, 3));
    assert!(is_ready(json!(1), 4, 3) && !is_ready(json!(1), 4, 2));
    // A third of four, rounded up.
    assert!(is_ready(json!("30%"), 4, 2) && !is_ready(json!("30%"), 4, 1));
    assert!(is_ready(json!("100%"), 4, 1) && !is_ready(json!("100%"), 4, 0));
    assert!(!is_ready(json!("100%"), 3, 3));
}

#[test]
fn a_workload_without_pods_is_ready_at_once() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"batchPartition": 2}}}));
    cluster.change("CloneSet", "web", json!({"spec": {"replicas": 0}}));
    cluster.report("CloneSet", "web", json!({"replicas": 0, "readyReplicas": 0}));
    cluster.step();
    cluster.report("CloneSet", "web", json!({}));
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 2, BatchState::Ready));
    assert_eq!(clone_set_partition(&cluster), "100%");
}

#[test]
fn batches_that_change_are_computed_anew() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"batchPartition": 1, "rolloutID": "r"}}}));
    for _ in 0..3 {
        cluster.step();
        work(&mut cluster, 0);
        show_pods(&mut cluster);
    }
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Ready));
    let batches = json!([{"canaryReplicas": "20%"}, {"canaryReplicas": "80%"}]);
    cluster.change(KIND, "rel", json!({"spec": {"releasePlan": {"batches": batches, "batchPartition": 1}}}));
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Verifying));
    assert_eq!(clone_set_partition(&cluster), "20%");
    let plan = cluster.release().spec.release_plan;
    assert_eq!(cluster.release().status.observed_release_plan_hash, plan_hash(&plan.batches));
    assert_eq!(cluster.release().status.observed_generation, cluster.release().metadata.generation);

    // Another release of the same Pods labels them from the first batch on.
    work(&mut cluster, 0);
    show_pods(&mut cluster);
    cluster.step();
    cluster.change(KIND, "rel", json!({"spec": {"releasePlan": {"rolloutID": "s"}}}));
    cluster.step();
    assert_eq!(batches_of_pods(&cluster, "s"), ["1", "2", "2", "2"]);
}

#[test]
fn the_hash_of_batches_is_that_of_openkruise() {
    let batches = vec![
        ReleaseBatch { canary_replicas: api::kinds::shared::IntOrString::Int(1) },
        ReleaseBatch { canary_replicas: api::kinds::shared::IntOrString::String("50%".to_owned()) },
    ];
    assert_eq!(plan_hash(&batches), hex_sha256("[{\"canaryReplicas\":1},{\"canaryReplicas\":\"50%\"}]"));
}

#[test]
fn a_batch_that_is_not_there_begins_the_release_anew() {
    for status in [
        json!({"phase": "Progressing", "canaryStatus": {"currentBatch": 7, "batchState": "Ready"}}),
        json!({"phase": "Progressing", "canaryStatus": {"currentBatch": -1, "batchState": "Ready"}}),
        json!({"phase": "Elsewhere", "canaryStatus": {"currentBatch": 2, "batchState": "Ready"}}),
    ] {
        let mut cluster = cluster(json!({"status": status}));
        let hash = plan_hash(&cluster.release().spec.release_plan.batches);
        cluster.change(KIND, "rel", json!({"status": {"observedReleasePlanHash": hash}}));
        cluster.step();
        assert_eq!(state(&cluster), (Phase::Progressing, 0, BatchState::Verifying));
        assert_eq!(cluster.release().status.update_revision, "new");
    }
}

#[test]
fn a_release_without_batches_says_so() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"batches": []}}}));
    cluster.step();
    assert_eq!(cluster.release().status.message, "the release has no batches");
    assert_eq!(clone_set_partition(&cluster), "100%");
}

#[test]
fn a_workload_that_is_scaled_has_its_batch_anew() {
    let mut cluster = cluster(json!({}));
    cluster.change(KIND, "rel", json!({"spec": {"releasePlan": {"batches": [{"canaryReplicas": 2}]}}}));
    cluster.step();
    work(&mut cluster, 0);
    cluster.step();
    assert_eq!((clone_set_partition(&cluster), state(&cluster).2), (json!(3), BatchState::Ready));
    cluster.change("CloneSet", "web", json!({"spec": {"replicas": 9}}));
    assert_eq!(cluster.step().writes, [], "nothing is known of it yet");
    cluster.report("CloneSet", "web", json!({"replicas": 9}));
    cluster.step();
    assert_eq!((clone_set_partition(&cluster), state(&cluster).2), (json!(7), BatchState::Verifying));
    assert_eq!(cluster.release().status.observed_workload_replicas, Some(9));
}

#[test]
fn a_template_that_changes_again_stops_the_release() {
    let mut cluster = cluster(json!({}));
    cluster.step();
    work(&mut cluster, 0);
    cluster.step();
    allow(&mut cluster, Some(2));
    cluster.report("CloneSet", "web", json!({"updateRevision": "web-newer", "updatedReplicas": 0}));
    let plan = cluster.step();
    assert_eq!((plan.writes.len(), plan.again), (0, None));
    assert_eq!(
        plan.status.message,
        "the template of CloneSet `web` has changed again: waits for the Rollout"
    );
    assert_eq!(plan.status.update_revision, "new");
    assert_eq!(clone_set_partition(&cluster), "80%");
}

#[test]
fn nothing_is_read_from_a_status_that_is_older_than_the_spec() {
    let mut cluster = cluster(json!({}));
    cluster.change("CloneSet", "web", json!({"spec": {"minReadySeconds": 1}}));
    let plan = cluster.step();
    assert_eq!(plan.writes, []);
    assert_eq!(plan.status.message, "waits for the controller of CloneSet `web` to see its present spec");
    assert_eq!(plan.status.phase, Phase::Preparing);
}

#[test]
fn a_rollback_in_batches_takes_back_only_what_was_new() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"rolloutID": "r"}}}));
    cluster.change("CloneSet", "web", json!({"spec": {"replicas": 10}}));
    work(&mut cluster, 0);
    for batch in [0, 1] {
        allow(&mut cluster, Some(batch));
        cluster.step();
        work(&mut cluster, 0);
        show_pods(&mut cluster);
        cluster.step();
    }
    assert_eq!(rolled(&cluster), (json!("40%"), 6));
    for number in 0..4 {
        cluster.put(pod(
            &format!("old-{number}"),
            "web-uid",
            &json!({"controller-revision-hash": "web-old"}),
            true,
        ));
    }
    // The webhook holds all Pods again, and the Rollout says how to go back.
    cluster.change("CloneSet", "web", json!({"spec": {"updateStrategy": {"partition": "100%"}}}));
    cluster.report(
        "CloneSet",
        "web",
        json!({"updateRevision": "web-old", "updatedReplicas": 4, "updatedReadyReplicas": 4}),
    );
    cluster.change(
        KIND,
        "rel",
        json!({
            "metadata": {"annotations": {"rollouts.kruise.io/rollback-in-batch": "true"}},
            "spec": {"releasePlan": {"batchPartition": 0, "rolloutID": "back"}},
        }),
    );
    let plan = cluster.step();
    assert_eq!((plan.writes.len(), plan.again), (4, Some(PODS_LAG)));
    let marked = cluster
        .all("Pod")
        .into_iter()
        .filter(|pod| pod.label("rollouts.kruise.io/no-need-update") == Some("back"));
    assert_eq!(marked.map(Object::name).collect::<Vec<_>>(), ["old-0", "old-1", "old-2", "old-3"]);
    assert_eq!(cluster.step().writes.len(), 1);
    let status = cluster.release().status;
    assert_eq!(status.canary_status.unwrap().no_need_update_replicas, Some(4));
    assert_eq!(status.update_revision, "old");
    // 20 % of the six that are to go back are two: eight have the old version then less two.
    assert_eq!(clone_set_partition(&cluster), "40%");
    cluster.report("CloneSet", "web", json!({}));
    assert_eq!(cluster.step().writes, [], "the first batch is that of the Pods that go back");
    work(&mut cluster, 0);
    assert_eq!(rolled(&cluster).1, 6);
    for number in 4..6 {
        cluster.put(pod(
            &format!("old-{number}"),
            "web-uid",
            &json!({"controller-revision-hash": "web-old"}),
            true,
        ));
    }
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 0, BatchState::Ready));
    let first = |name: &str| cluster.get("Pod", name).label("rollouts.kruise.io/rollout-batch-id");
    // Those that went back come with the first batch, the others only where it has room.
    assert_eq!(["old-0", "old-1", "old-4", "old-5"].map(first), [None, None, Some("1"), Some("1")]);
}

#[test]
fn pods_fill_the_present_batch_first() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"rolloutID": "r", "batchPartition": 1}}}));
    let labelled = |name: &str, id: &str, batch: &str| {
        pod(
            name,
            "web-uid",
            &json!({"controller-revision-hash": "web-new", "rollouts.kruise.io/rollout-id": id,
            "rollouts.kruise.io/rollout-batch-id": batch}),
            true,
        )
    };
    cluster.step();
    work(&mut cluster, 0);
    cluster.put(labelled("a", "r", "1"));
    cluster.put(labelled("b", "before", "3"));
    cluster.put(labelled("c", "r", "9"));
    cluster.put(labelled("d", "r", ""));
    cluster.put(pod("e", "web-uid", &json!({"controller-revision-hash": "web-new"}), true));
    cluster.put(pod("f", "web-uid", &json!({"controller-revision-hash": "web-old"}), true));
    cluster.step();
    let batch = |name: &str| {
        cluster.get("Pod", name).label("rollouts.kruise.io/rollout-batch-id").unwrap_or("none").to_owned()
    };
    // The second batch has room for two of those that belong to no batch yet.
    assert_eq!(["a", "b", "c", "d", "e", "f"].map(batch), ["1", "2", "2", "", "none", "none"]);
    let other = cluster.get("Pod", "b");
    assert_eq!(other.label("rollouts.kruise.io/rollout-id"), Some("r"));
}

#[test]
fn pods_that_are_counted_and_not_seen_yet_are_looked_for_again() {
    let mut cluster = cluster(
        json!({"spec": {"releasePlan": {"rolloutID": "r", "batchPartition": 0, "batches": [{"canaryReplicas": 2}]}}}),
    );
    cluster.step();
    work(&mut cluster, 0);
    let new = |name| pod(name, "web-uid", &json!({"controller-revision-hash": "web-new"}), true);
    cluster.put(new("a"));
    let plan = cluster.step();
    assert_eq!((plan.writes.len(), plan.again), (1, Some(PODS_LAG)));
    cluster.put(new("b"));
    let plan = cluster.step();
    assert_eq!((plan.writes.len(), plan.again, state(&cluster).2), (1, None, BatchState::Ready));
}

#[test]
fn a_kind_that_cannot_be_released_is_refused_once() {
    for (api_version, kind, plan) in [
        ("apps/v1", "ReplicaSet", json!({})),
        ("batch/v1", "Job", json!({})),
        ("apps/v1", "StatefulSet", json!({"rollingStyle": "BlueGreen"})),
    ] {
        let mut cluster = Cluster::of([release(
            &reference(api_version, kind),
            &[json!(1)],
            json!({"spec": {"releasePlan": plan}}),
        )]);
        let refused = cluster.step();
        let reasons: Vec<_> = refused.events.iter().map(|event| (event.warning, event.reason)).collect();
        assert_eq!((reasons, refused.writes.len()), (vec![(true, "UnsupportedWorkload")], 0), "{kind}");
        assert_eq!(cluster.step().events, []);
        cluster.change(KIND, "rel", json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}));
        cluster.step();
        assert!(cluster.find(KIND, "rel").is_none());
    }
    let nothing = json!({"spec": {"workloadRef": null}});
    let cluster = Cluster::of([release(&reference("apps/v1", "Deployment"), &[], nothing)]);
    assert_eq!(cluster.plan().events.len(), 1);
}

#[test]
fn a_cloneset_that_is_updated_in_place_has_no_second_set_of_pods() {
    let mut cluster = cluster(json!({"spec": {"releasePlan": {"rollingStyle": "BlueGreen"}}}));
    cluster.change("CloneSet", "web", json!({"spec": {"updateStrategy": {"type": "InPlaceIfPossible"}}}));
    cluster.report("CloneSet", "web", json!({}));
    let plan = cluster.step();
    assert_eq!((plan.events.len(), plan.writes.len()), (1, 0));
    assert!(plan.status.message.contains("ReCreate"), "{}", plan.status.message);
    assert_eq!(cluster.step().events, []);
}

#[test]
fn a_workload_that_is_gone_completes_a_release_that_had_begun() {
    let reference = reference(CLONE_SETS, "CloneSet");
    let gone = |more| Cluster::of([release(&reference, &[json!(1)], more)]);
    let mut early = gone(json!({}));
    early.step();
    assert_eq!(early.release().status.message, "CloneSet `web` is not there");
    assert_ne!(early.release().status.phase, Phase::Completed);
    let mut late = gone(json!({"status": {"phase": "Progressing"}}));
    late.step();
    assert_eq!(late.release().status.phase, Phase::Completed);
    let mut deleted = gone(json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}));
    deleted.step();
    assert!(deleted.find(KIND, "rel").is_none());
}

#[test]
fn a_release_that_is_deleted_leaves_the_workload_to_the_next_one() {
    let delete = |cluster: &mut Cluster| {
        cluster.change(KIND, "rel", json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}));
        let before = cluster.release().status;
        let plan = cluster.step();
        // Its status is not written: it is gone.
        assert_eq!((plan.status, plan.writes.len()), (before, 2));
        assert!(cluster.find(KIND, "rel").is_none());
        let web = cluster.get("CloneSet", "web");
        assert_eq!(web.annotation("batchrelease.rollouts.kruise.io/control-info"), None);
    };
    let mut running = cluster(json!({}));
    running.step();
    delete(&mut running);
    assert_eq!(clone_set_partition(&running), "80%");
    // The next one holds all Pods again first: its batches are its own.
    running.put(release(&reference(CLONE_SETS, "CloneSet"), &[json!(1)], json!({})));
    running.report("CloneSet", "web", json!({"updateRevision": "web-newer"}));
    running.step();
    assert_eq!(clone_set_partition(&running), 4);
    // Without a mark nobody follows: a Rollout that goes lets the workload go on, and a person leaves it as it is.
    let owner =
        json!({"apiVersion": API_VERSION, "kind": "Rollout", "name": "rel", "uid": "r", "controller": true});
    for (owners, left) in [(json!([owner]), Value::Null), (json!([]), json!("80%"))] {
        let mut last = cluster(json!({"metadata": {"ownerReferences": owners}}));
        last.step();
        last.change(
            "CloneSet",
            "web",
            json!({"metadata": {"annotations": {"rollouts.kruise.io/in-progressing": null}}}),
        );
        delete(&mut last);
        assert_eq!(clone_set_partition(&last), left);
    }
}

#[test]
fn one_that_is_deleted_after_its_end_only_goes() {
    let mut cluster = cluster(
        json!({"status": {"phase": "Completed"}, "metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}}),
    );
    assert_eq!(cluster.plan().writes.len(), 1);
    cluster.step();
    assert!(cluster.find(KIND, "rel").is_none());
    let without = |more: Value| {
        let mut release = release(&reference(CLONE_SETS, "CloneSet"), &[], more);
        merge(&mut release, json!({"metadata": {"finalizers": null}}));
        Cluster::of([cloneset(), release]).plan().writes
    };
    assert_eq!(without(json!({"metadata": {"deletionTimestamp": "2026-05-01T08:00:00Z"}})), []);
}

#[test]
fn a_release_that_openkruise_began_goes_on_where_it_is() {
    let batches = SHARES.map(|size| json!({"canaryReplicas": size}));
    let hash = hex_sha256(&json!(batches).to_string());
    let held = json!({"metadata": {"annotations": {"batchrelease.rollouts.kruise.io/control-info":
        "{\"apiVersion\":\"rollouts.kruise.io/v1beta1\",\"kind\":\"BatchRelease\",\"name\":\"rel\",\"uid\":\"rel-uid\",\"controller\":true}"}}});
    for (state, written) in [("Upgrading", 1), ("Verifying", 1), ("Ready", 1)] {
        let status = json!({"phase": "Progressing", "observedReleasePlanHash": hash, "observedRolloutID": "", "observedGeneration": 1,
            "observedWorkloadReplicas": 5, "stableRevision": "old", "updateRevision": "new",
            "canaryStatus": {"currentBatch": 0, "batchState": state, "updatedReplicas": 1, "updatedReadyReplicas": 1}});
        let mut cluster = cluster(json!({"status": status, "spec": {"releasePlan": {"batchPartition": 1}}}));
        cluster.change("CloneSet", "web", held.clone());
        cluster.change("CloneSet", "web", json!({"spec": {"updateStrategy": {"partition": "80%"}}}));
        work(&mut cluster, 0);
        assert_eq!(cluster.step().writes.len(), written, "{state}");
        assert_eq!(rolled(&cluster), (json!("40%"), 1));
        assert_eq!(super::tests::state(&cluster), (Phase::Progressing, 1, BatchState::Verifying));
    }
}

#[test]
fn a_deployment_whose_version_openkruise_named_goes_on_too() {
    let web = reference(APPS, "Deployment");
    let deployment = object(
        APPS,
        "Deployment",
        "web",
        json!({
            "metadata": {"labels": {"rollouts.kruise.io/stable-revision": "old"}, "annotations": {
                "rollouts.kruise.io/in-progressing": "{\"rolloutName\":\"rel\"}",
                "rollouts.kruise.io/deployment-strategy": "{\"rollingStyle\":\"Partition\",\"partition\":\"20%\"}",
                "batchrelease.rollouts.kruise.io/control-info": "{\"uid\":\"rel-uid\"}"}},
            "spec": {"replicas": 5, "selector": selector(), "template": template("v2"), "paused": true, "strategy": {"type": "Recreate"}},
            "status": {"observedGeneration": 1, "replicas": 5, "readyReplicas": 5},
        }),
    );
    let status = json!({"phase": "Progressing", "observedWorkloadReplicas": 5, "updateRevision": "5f7d8c", "stableRevision": "old",
        "canaryStatus": {"currentBatch": 0, "batchState": "Ready"}});
    let mut cluster = Cluster::of([
        deployment,
        replica_set("old", "v1", 4, 4, "2026-05-01T07:00:00Z"),
        replica_set("new", "v2", 1, 1, "2026-05-01T07:30:00Z"),
        release(
            &web,
            &SHARES.map(Value::from),
            json!({"status": status, "spec": {"releasePlan": {"batchPartition": 1, "rolloutID": "r"}}}),
        ),
        pod("p", "web-new-uid", &json!({}), true),
    ]);
    let hash = plan_hash(&cluster.release().spec.release_plan.batches);
    cluster.change(
        KIND,
        "rel",
        json!({"status": {"observedReleasePlanHash": hash, "observedRolloutID": "r"}}),
    );
    cluster.step();
    assert_eq!(state(&cluster), (Phase::Progressing, 1, BatchState::Verifying));
    let strategy =
        cluster.get("Deployment", "web").annotation("rollouts.kruise.io/deployment-strategy").unwrap();
    assert!(strategy.contains("\"60%\""), "{strategy}");
    let revision = cluster.release().status.update_revision;
    assert_ne!(revision, "5f7d8c");
    // Pods of ReplicaSets say which version they have in a label of their own.
    assert_eq!(cluster.get("Pod", "p").label("controller-revision-hash"), Some(&*revision));
}

#[test]
fn what_a_batch_waits_for_is_said_in_words() {
    let words = |cluster: &Cluster| {
        let release = cluster.release();
        let reference = release.spec.workload_ref.clone().unwrap();
        cluster.read(|view| {
            let workload = workload::read(&reference, "shop", Style::Partition, view)?.unwrap();
            waiting(&release, &workload, view)
        })
    };
    let mut cluster = cluster(
        json!({"spec": {"releasePlan": {"batches": [{"canaryReplicas": 1}, {"canaryReplicas": 5}]}}}),
    );
    assert_eq!(words(&cluster), None);
    cluster.step();
    assert_eq!(words(&cluster).as_deref(), Some("batch 1: 0 of 1 pods new"));
    work(&mut cluster, 0);
    cluster.step();
    assert_eq!(words(&cluster), None);
    allow(&mut cluster, Some(1));
    cluster.step();
    work(&mut cluster, 2);
    cluster.step();
    let unready = |name, status: Value| {
        let mut pod = pod(name, "web-uid", &json!({"controller-revision-hash": "web-new"}), false);
        merge(&mut pod, json!({"status": status}));
        pod
    };
    cluster.put(unready("web-5x", json!({"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]})));
    assert_eq!(words(&cluster).as_deref(), Some("batch 2: 3 of 5 new pods ready; `web-5x` is not ready"));
    cluster.put(unready("web-7x", json!({"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]})));
    assert_eq!(words(&cluster).as_deref(), Some("batch 2: 3 of 5 new pods ready; `web-7x` ImagePullBackOff"));
    cluster.put(unready(
        "web-6x",
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
    ));
    assert_eq!(words(&cluster).as_deref(), Some("batch 2: 3 of 5 new pods ready; `web-6x` Unschedulable"));
}
