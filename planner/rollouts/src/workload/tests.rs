//! Versions of each kind of workload, and what a release does to it.

use api::kinds::rollout::{BlueGreenStrategy, CanaryStrategy};
use proptest::{prop_assert, proptest};
use serde_json::json;

use super::batch::Batch;
use super::fixture::*;
use super::task::{End, Task};
use super::*;
use crate::write::Write;
use api::kinds::batchrelease::BatchRelease;
use api::kinds::shared::IntOrString;

const KRUISE: &str = CLONE_SETS;

fn read_in(cluster: &Cluster, reference: &WorkloadRef, style: Style) -> Workload {
    cluster.read(|view| read(reference, "shop", style, view)).unwrap()
}

fn in_release(more: Value) -> Value {
    let mut workload = json!({"metadata": {"annotations": {"rollouts.kruise.io/in-progressing": "{\"rolloutName\":\"roll\"}"}}});
    merge(&mut workload, more);
    workload
}

fn cloneset(more: Value) -> Value {
    let mut cloneset = object(
        KRUISE,
        "CloneSet",
        "web",
        in_release(json!({
            "spec": {"replicas": 5, "template": template("v2"), "updateStrategy": {"partition": "100%"}},
            "status": {"observedGeneration": 1, "replicas": 5, "readyReplicas": 5, "availableReplicas": 4, "updatedReplicas": 2,
                "updatedReadyReplicas": 1, "currentRevision": "web-old", "updateRevision": "web-new"},
        })),
    );
    merge(&mut cloneset, more);
    cloneset
}

fn deployment(image: &str, more: Value) -> Value {
    let mut deployment = object(
        APPS,
        "Deployment",
        "web",
        in_release(json!({
            "metadata": {"labels": {"rollouts.kruise.io/stable-revision": "old"}},
            "spec": {"replicas": 5, "selector": selector(), "template": template(image), "paused": true,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "progressDeadlineSeconds": 600},
            "status": {"observedGeneration": 1, "replicas": 5, "readyReplicas": 5, "availableReplicas": 5},
        })),
    );
    merge(&mut deployment, more);
    deployment
}

fn daemonset(api_version: &str, more: Value) -> Value {
    let mut daemonset = object(
        api_version,
        "DaemonSet",
        "web",
        in_release(json!({
            "spec": {"selector": selector(), "template": template("v2"),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "currentNumberScheduled": 4, "numberReady": 4,
                "numberAvailable": 4, "updatedNumberScheduled": 0},
        })),
    );
    merge(&mut daemonset, more);
    daemonset
}

fn revision(number: i32, hash: &str) -> Value {
    object(
        APPS,
        "ControllerRevision",
        &format!("web-{hash}"),
        json!({"revision": number, "metadata": {
        "labels": {"app": "web", "controller-revision-hash": hash}, "ownerReferences": managed_by("web-uid")}}),
    )
}

#[test]
fn kinds_are_known_by_group_and_kind_whatever_their_version() {
    let kind = |api_version, kind| WorkloadKind::of(&reference(api_version, kind));
    for (api_version, name, expected) in [
        ("apps.kruise.io/v1alpha1", "CloneSet", Some(WorkloadKind::CloneSet)),
        ("apps.kruise.io/v1beta1", "CloneSet", Some(WorkloadKind::CloneSet)),
        ("apps.kruise.io/v1beta1", "StatefulSet", Some(WorkloadKind::AdvancedStatefulSet)),
        ("apps.kruise.io/v1alpha1", "DaemonSet", Some(WorkloadKind::AdvancedDaemonSet)),
        ("apps/v1", "Deployment", Some(WorkloadKind::Deployment)),
        ("apps/v1", "StatefulSet", Some(WorkloadKind::StatefulSet)),
        ("apps/v1", "DaemonSet", Some(WorkloadKind::DaemonSet)),
        ("database.example.com/v1", "Cluster", Some(WorkloadKind::StatefulSetLike)),
        ("apps/v1", "ReplicaSet", None),
        ("apps.kruise.io/v1beta1", "BroadcastJob", None),
        ("batch/v1", "Job", None),
        ("v1", "Pod", None),
        ("metrics.k8s.io/v1", "PodMetrics", None),
        ("", "", None),
    ] {
        assert_eq!(kind(api_version, name), expected, "{api_version} {name}");
    }
}

#[test]
fn only_a_deployment_gets_a_second_one() {
    let canary = |extra| Strategy {
        canary: Some(CanaryStrategy { enable_extra_workload_for_canary: extra, ..CanaryStrategy::default() }),
        ..Strategy::default()
    };
    let blue_green = Strategy { blue_green: Some(BlueGreenStrategy::default()), ..Strategy::default() };
    let deployment = reference(APPS, "Deployment");
    assert_eq!(Style::of(&canary(true), &deployment), Style::Canary);
    assert_eq!(Style::of(&canary(false), &deployment), Style::Partition);
    assert_eq!(Style::of(&canary(true), &reference(KRUISE, "CloneSet")), Style::Partition);
    assert_eq!(Style::of(&blue_green, &deployment), Style::BlueGreen);
}

#[test]
fn a_batchrelease_says_its_style_in_either_of_two_fields() {
    let of =
        |plan: Value, kind| Style::of_plan(&serde_json::from_value(plan).unwrap(), &reference(APPS, kind));
    for (plan, expected) in [
        (json!({}), Style::Partition),
        (json!({"enableExtraWorkloadForCanary": true}), Style::Canary),
        (json!({"rollingStyle": "Canary"}), Style::Canary),
        (json!({"rollingStyle": "Partition", "enableExtraWorkloadForCanary": true}), Style::Partition),
        (json!({"rollingStyle": "BlueGreen"}), Style::BlueGreen),
    ] {
        assert_eq!(of(plan.clone(), "Deployment"), expected, "{plan}");
    }
    assert_eq!(of(json!({"rollingStyle": "Canary"}), "StatefulSet"), Style::Partition);
}

#[test]
fn a_cloneset_names_its_versions_in_its_status() {
    let web = reference("apps.kruise.io/v1alpha1", "CloneSet");
    let workload = read_in(&Cluster::of([cloneset(json!({}))]), &web, Style::Partition);
    assert_eq!((&*workload.stable_revision, &*workload.update_revision), ("old", "new"));
    assert_eq!((&*workload.pod_template_hash, workload.revision_label), ("new", "pod-template-hash"));
    assert_eq!((workload.replicas, workload.status_replicas, workload.ready_replicas), (5, 5, 5));
    assert_eq!(
        (workload.updated_replicas, workload.updated_ready_replicas, workload.available_replicas),
        (2, 1, 4)
    );
    assert_eq!((workload.in_progressing.as_deref(), &*workload.rollout_id), (Some("roll"), "new"));
    assert!(!workload.is_rolled_back && workload.is_observed());
}

#[test]
fn a_cloneset_is_rolled_back_where_the_current_version_is_wanted_and_not_all_pods_have_it() {
    let web = reference(KRUISE, "CloneSet");
    let rolled_back = |more| read_in(&Cluster::of([cloneset(more)]), &web, Style::Partition);
    let back = json!({"status": {"updateRevision": "web-old", "updatedReplicas": 3}});
    let workload = rolled_back(back.clone());
    assert!(workload.is_rolled_back);
    assert_eq!(workload.rollout_id, "rollback-old");
    assert!(
        !rolled_back(json!({"status": {"updateRevision": "web-old", "updatedReplicas": 5}})).is_rolled_back
    );
    let mut idle = back;
    idle["metadata"] = json!({"annotations": null});
    assert!(!rolled_back(idle).is_rolled_back);
}

#[test]
fn the_identity_of_a_release_is_read_from_label_then_annotation() {
    let id = |more| {
        read_in(&Cluster::of([cloneset(more)]), &reference(KRUISE, "CloneSet"), Style::Partition).rollout_id
    };
    let label = json!({"metadata": {"labels": {"rollouts.kruise.io/rollout-id": "l"}}});
    let mut both = json!({"metadata": {"annotations": {"rollouts.kruise.io/rollout-id": "a"}}});
    assert_eq!(id(both.clone()), "a");
    assert_eq!(id(label.clone()), "l");
    merge(&mut both, label);
    assert_eq!(id(both.clone()), "l");
    merge(&mut both, json!({"metadata": {"labels": {"rollouts.kruise.io/rollout-id": ""}}}));
    assert_eq!(id(both), "a");
}

#[test]
fn a_statefulset_has_whole_names_of_revisions() {
    let set = object(
        APPS,
        "StatefulSet",
        "web",
        in_release(json!({
            "spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2, "updatedReplicas": 2,
                "currentRevision": "web-old", "updateRevision": "web-new"},
        })),
    );
    let label = |revision: &str| json!({"controller-revision-hash": revision});
    let cluster = Cluster::of([
        set,
        pod("web-0", "web-uid", &label("web-old"), true),
        pod("web-1", "web-uid", &label("web-new"), true),
        pod("web-2", "web-uid", &label("web-new"), false),
    ]);
    let workload = read_in(&cluster, &reference(APPS, "StatefulSet"), Style::Partition);
    assert_eq!((&*workload.stable_revision, &*workload.update_revision), ("web-old", "web-new"));
    assert_eq!(
        (&*workload.pod_template_hash, workload.revision_label),
        ("web-new", "controller-revision-hash")
    );
    // Its status does not say how many new Pods are ready, and so they are counted.
    assert_eq!((workload.updated_replicas, workload.updated_ready_replicas), (2, 1));
    let names: Vec<String> = cluster
        .read(|view| Ok(workload.new_pods(view)?.iter().map(|pod| pod.metadata.name.to_string()).collect()));
    assert_eq!(names, ["web-1", "web-2"]);
}

#[test]
fn pods_are_not_read_where_the_status_says_enough() {
    let view = |status: Value| {
        let set = object(APPS, "StatefulSet", "web", json!({"status": status}));
        let mut view = View::default();
        view.has_object(ObjectName::new(APPS, "StatefulSet", "shop", "web"), Some(set));
        read(&reference(APPS, "StatefulSet"), "shop", Style::Partition, &view)
            .map(|workload| workload.unwrap().updated_ready_replicas)
    };
    assert_eq!(view(json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 2})), Ok(2));
    assert_eq!(view(json!({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 0})), Ok(0));
    assert_eq!(
        view(json!({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2, "updatedReadyReplicas": 1})),
        Ok(1)
    );
    let unread = view(json!({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2}));
    assert_eq!(unread, Err(Unread::PodsOf { owner: "web-uid".to_owned() }));
}

#[test]
fn an_advanced_daemonset_has_its_stable_version_from_its_revisions() {
    let cluster = |status: Value, annotations: Value| {
        Cluster::of([
            daemonset(KRUISE, json!({"status": status, "metadata": {"annotations": annotations}})),
            revision(1, "first"),
            revision(2, "second"),
            revision(3, "third"),
            object(
                APPS,
                "ControllerRevision",
                "other-x",
                json!({"revision": 9, "metadata": {"labels": {"app": "web"}}}),
            ),
        ])
    };
    let web = reference("apps.kruise.io/v1alpha1", "DaemonSet");
    for field in ["daemonSetHash", "updateRevision"] {
        let workload = read_in(&cluster(json!({field: "web-third"}), json!({})), &web, Style::Partition);
        assert_eq!((&*workload.stable_revision, &*workload.update_revision), ("second", "third"), "{field}");
        assert_eq!((workload.replicas, workload.status_replicas), (4, 4));
        assert!(!workload.is_rolled_back);
    }
    let noted = json!({"rollouts.kruise.io/daemonset-revision": "{\"stable-revision\":\"first\",\"canary-revision\":\"second\"}"});
    let workload =
        read_in(&cluster(json!({"daemonSetHash": "third"}), noted.clone()), &web, Style::Partition);
    assert_eq!((&*workload.stable_revision, workload.is_rolled_back), ("first", false));
    let workload = read_in(&cluster(json!({"daemonSetHash": "first"}), noted), &web, Style::Partition);
    assert_eq!((&*workload.stable_revision, workload.is_rolled_back), ("first", true));
}

#[test]
fn the_stable_version_of_a_daemonset_is_one_that_pods_have() {
    let web = reference(APPS, "DaemonSet");
    let stable = |note: Option<&str>, running: &[&str]| {
        let note = note.map(|stable| json!({"stable-revision": stable}).to_string());
        let annotations = json!({"annotations": {"rollouts.kruise.io/daemonset-revision": note}});
        let mut cluster = Cluster::of([
            daemonset(APPS, json!({"metadata": annotations})),
            revision(1, "a"),
            revision(2, "b"),
            revision(3, "c"),
        ]);
        for hash in running {
            cluster.put(pod(hash, "web-uid", &json!({"controller-revision-hash": hash}), true));
        }
        read_in(&cluster, &web, Style::Partition).stable_revision
    };
    // No Pod ever had the version before the newest.
    assert_eq!(stable(None, &["a"]), "a");
    assert_eq!(stable(Some("a"), &["a", "b"]), "a");
    // All Pods had the next one when the newest came.
    assert_eq!(stable(Some("a"), &["b"]), "b");
    // All Pods are new.
    assert_eq!(stable(Some("a"), &["c"]), "a");
}

#[test]
fn a_daemonset_of_kubernetes_is_rolled_back_where_the_noted_version_is_the_newest() {
    let noted = json!({"rollouts.kruise.io/daemonset-revision": "{\"stable-revision\":\"a\"}"});
    let noted = json!({"metadata": {"annotations": noted}});
    let web = reference(APPS, "DaemonSet");
    let running = Cluster::of([daemonset(APPS, noted.clone()), revision(1, "a"), revision(2, "b")]);
    let workload = read_in(&running, &web, Style::Partition);
    assert_eq!(
        (&*workload.stable_revision, &*workload.update_revision, workload.is_rolled_back),
        ("a", "b", false)
    );
    let back = Cluster::of([daemonset(APPS, noted), revision(3, "a"), revision(2, "b")]);
    let workload = read_in(&back, &web, Style::Partition);
    assert_eq!(
        (&*workload.stable_revision, &*workload.update_revision, workload.is_rolled_back),
        ("a", "a", true)
    );
    let single =
        read_in(&Cluster::of([daemonset(APPS, json!({})), revision(1, "a")]), &web, Style::Partition);
    assert_eq!((&*single.stable_revision, single.is_rolled_back), ("a", false));
}

#[test]
fn the_new_version_of_a_deployment_is_that_of_the_replicaset_with_its_template() {
    let web = reference(APPS, "Deployment");
    let old = replica_set("old", "v1", 4, 4, "2026-05-01T07:00:00Z");
    let before = Cluster::of([deployment("v2", json!({})), old]);
    let early = read_in(&before, &web, Style::Partition);
    assert_eq!((&*early.stable_revision, &*early.pod_template_hash, early.updated_replicas), ("old", "", 0));
    assert!(!early.update_revision.is_empty());

    let mut cluster = before;
    cluster.put(replica_set("new", "v2", 2, 1, "2026-05-01T07:30:00Z"));
    let workload = read_in(&cluster, &web, Style::Partition);
    assert_eq!((&*workload.pod_template_hash, workload.revision_label), ("new", "pod-template-hash"));
    assert_eq!((workload.updated_replicas, workload.updated_ready_replicas), (2, 1));
    // The name of the version does not depend on whether there are Pods of it.
    assert_eq!(workload.update_revision, early.update_revision);
    assert!(!workload.is_rolled_back);
}

#[test]
fn without_a_label_the_oldest_replicaset_in_use_is_the_stable_one() {
    let cluster = Cluster::of([
        deployment("v3", json!({"metadata": {"labels": null}})),
        replica_set("unused", "v0", 0, 0, "2026-05-01T05:00:00Z"),
        replica_set("older", "v1", 4, 4, "2026-05-01T06:00:00Z"),
        replica_set("newer", "v2", 1, 1, "2026-05-01T07:00:00Z"),
    ]);
    let workload = read_in(&cluster, &reference(APPS, "Deployment"), Style::Partition);
    assert_eq!(workload.stable_revision, "older");
}

#[test]
fn a_deployment_is_rolled_back_where_its_template_is_that_of_the_stable_replicaset() {
    let web = reference(APPS, "Deployment");
    let cluster =
        |more| Cluster::of([deployment("v1", more), replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z")]);
    assert!(read_in(&cluster(json!({})), &web, Style::Partition).is_rolled_back);
    // A release that its user names may be one of the same template.
    let named = json!({"metadata": {"annotations": {"rollouts.kruise.io/rollout-id": "2"}}});
    assert!(!read_in(&cluster(named), &web, Style::Partition).is_rolled_back);
    let mut cluster = cluster(json!({"metadata": {"annotations": {"rollouts.kruise.io/rollout-id": "2"}}}));
    cluster.put(replica_set("new", "v2", 1, 1, "2026-05-01T07:30:00Z"));
    cluster.change("Deployment", "web", json!({"status": {"replicas": 6}}));
    assert!(read_in(&cluster, &web, Style::Partition).is_rolled_back);
}

#[test]
fn a_version_that_openkruise_named_is_the_present_one_unless_a_third_one_has_pods() {
    let web = reference(APPS, "Deployment");
    let mut cluster = Cluster::of([
        deployment("v2", json!({})),
        replica_set("old", "v1", 4, 4, "2026-05-01T07:00:00Z"),
        replica_set("new", "v2", 1, 1, "2026-05-01T07:30:00Z"),
        replica_set("unused", "v0", 0, 0, "2026-05-01T05:00:00Z"),
    ]);
    let workload = read_in(&cluster, &web, Style::Partition);
    assert!(workload.is_release_of(&workload.update_revision) && workload.is_release_of("5f7d8c"));
    cluster.change("Deployment", "web", json!({"spec": {"template": template("v3")}}));
    assert!(!read_in(&cluster, &web, Style::Partition).is_release_of("5f7d8c"));
    cluster.change("Deployment", "web", json!({"spec": {"template": template("v1")}}));
    assert!(!read_in(&cluster, &web, Style::Partition).is_release_of("5f7d8c"));
    let cloneset =
        read_in(&Cluster::of([cloneset(json!({}))]), &reference(KRUISE, "CloneSet"), Style::Partition);
    assert!(
        cloneset.is_release_of("new")
            && cloneset.is_release_of("web-new")
            && !cloneset.is_release_of("5f7d8c")
    );
}

/// What an object becomes when a release does something to it, and the other writes.
fn done(
    cluster: &Cluster,
    reference: &WorkloadRef,
    style: Style,
    act: impl Fn(&mut Task<'_>) -> Result<(), Unread>,
) -> (Value, Vec<Write>) {
    let workload = read_in(cluster, reference, style);
    let release: BatchRelease = serde_json::from_value(release(reference, &[], json!({}))).unwrap();
    let writes: Vec<Write> = cluster.read(|view| {
        let mut task = Task::of(&release, &workload, view);
        act(&mut task)?;
        Ok(task.into_writes().collect())
    });
    let mut changed = cluster.clone();
    writes.iter().for_each(|write| changed.carry_out(write));
    let others = writes
        .into_iter()
        .filter(|write| !matches!(write, Write::Patch { name, .. } if *name == workload.name));
    (changed.get(&reference.kind, "web").clone(), others.collect())
}

fn spec_of(workload: &Value) -> &Value {
    &workload["spec"]
}

fn hold(task: &mut Task<'_>) -> Result<(), Unread> {
    actions::hold(task)
}

const CONTROL: &str = "batchrelease.rollouts.kruise.io/control-info";

#[test]
fn a_held_workload_says_who_holds_it() {
    let cluster =
        Cluster::of([cloneset(json!({"spec": {"updateStrategy": {"partition": 0, "paused": true}}}))]);
    let web = reference(KRUISE, "CloneSet");
    let (held, others) = done(&cluster, &web, Style::Partition, hold);
    assert_eq!(spec_of(&held)["updateStrategy"], json!({"partition": "100%", "paused": false}));
    let info: Value = serde_json::from_str(held.annotation(CONTROL).unwrap()).unwrap();
    assert_eq!(
        info,
        json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "BatchRelease", "name": "rel",
        "uid": "rel-uid", "controller": true, "blockOwnerDeletion": true})
    );
    assert!(others.is_empty());
    // A release that holds it already, whoever began it, does not close what is open.
    let mut opened = held;
    merge(&mut opened, json!({"spec": {"updateStrategy": {"partition": "60%"}}}));
    let (again, _) = done(&Cluster::of([opened]), &web, Style::Partition, hold);
    assert_eq!(spec_of(&again)["updateStrategy"]["partition"], "60%");
}

#[test]
fn statefulsets_are_held_by_a_partition_beyond_all_ordinals() {
    for (api_version, given, expected) in [
        (APPS, json!({"partition": 2}), json!({"partition": 32767})),
        (KRUISE, json!({"partition": 2, "paused": true}), json!({"partition": 32767, "paused": false})),
        ("database.example.com/v1", Value::Null, json!({"partition": 32767})),
    ] {
        let set = object(
            api_version,
            "StatefulSet",
            "web",
            json!({"spec": {"updateStrategy": {"rollingUpdate": given}}}),
        );
        let (held, _) =
            done(&Cluster::of([set]), &reference(api_version, "StatefulSet"), Style::Partition, hold);
        assert_eq!(spec_of(&held)["updateStrategy"]["rollingUpdate"], expected, "{api_version}");
    }
}

#[test]
fn an_advanced_daemonset_without_settings_of_its_update_is_held_too() {
    let set = daemonset(KRUISE, json!({"spec": {"updateStrategy": null}, "status": {"daemonSetHash": "b"}}));
    let cluster = Cluster::of([set, revision(1, "a"), revision(2, "b")]);
    let (held, _) = done(&cluster, &reference(KRUISE, "DaemonSet"), Style::Partition, hold);
    assert_eq!(spec_of(&held)["updateStrategy"], json!({"rollingUpdate": {"partition": 4}}));
    let noted: Value =
        serde_json::from_str(held.annotation("rollouts.kruise.io/daemonset-revision").unwrap()).unwrap();
    assert_eq!(noted, json!({"stable-revision": "a", "canary-revision": "b"}));
}

#[test]
fn a_daemonset_of_kubernetes_keeps_the_type_that_it_had_first() {
    const SAVED: &str = "rollouts.kruise.io/daemonset-original-update-strategy";
    let web = reference(APPS, "DaemonSet");
    let cluster = Cluster::of([daemonset(APPS, json!({})), revision(1, "a"), revision(2, "b")]);
    let (held, _) = done(&cluster, &web, Style::Partition, hold);
    assert_eq!(held.annotation(SAVED), Some("RollingUpdate"));
    assert_eq!(
        spec_of(&held)["updateStrategy"],
        json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}})
    );
    // A second release finds OnDelete, and a newer revision.
    let mut next = held;
    merge(&mut next, json!({"metadata": {"annotations": {CONTROL: null}}}));
    let cluster = Cluster::of([next, revision(1, "a"), revision(2, "b"), revision(3, "c")]);
    let (held, _) = done(&cluster, &web, Style::Partition, hold);
    assert_eq!(held.annotation(SAVED), Some("RollingUpdate"));
    let noted: Value =
        serde_json::from_str(held.annotation("rollouts.kruise.io/daemonset-revision").unwrap()).unwrap();
    assert_eq!(noted, json!({"stable-revision": "a", "canary-revision": "c"}));
    let (back, _) = done(&Cluster::of([held, revision(1, "a")]), &web, Style::Partition, |task| {
        actions::end(task, End::HandBack).map(|_| ())
    });
    assert_eq!(
        spec_of(&back)["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})
    );
    assert_eq!(
        back["metadata"]["annotations"],
        json!({"rollouts.kruise.io/in-progressing": "{\"rolloutName\":\"roll\"}"})
    );
}

#[test]
fn a_deployment_is_held_paused_and_gets_its_strategy_back() {
    let web = reference(APPS, "Deployment");
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let future = json!({"metadata": {"annotations": {"rollouts.kruise.io/deployment-strategy": "{\"future\":1,\"paused\":true}"}}});
    let (held, _) = done(&Cluster::of([deployment("v2", future), old.clone()]), &web, Style::Partition, hold);
    assert_eq!(spec_of(&held)["strategy"], json!({"type": "Recreate"}));
    assert_eq!(held.label("rollouts.kruise.io/controlled-by-advanced-deployment-controller"), Some("true"));
    let strategy: Value =
        serde_json::from_str(held.annotation("rollouts.kruise.io/deployment-strategy").unwrap()).unwrap();
    assert_eq!(
        strategy,
        json!({"future": 1, "paused": false, "rollingStyle": "Partition", "partition": 0,
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    for (end, paused) in [(End::HandBack, false), (End::Leave, true)] {
        let cluster = Cluster::of([held.clone(), old.clone()]);
        let (back, _) = done(&cluster, &web, Style::Partition, |task| actions::end(task, end).map(|_| ()));
        assert_eq!(spec_of(&back)["paused"], paused);
        assert_eq!(spec_of(&back)["strategy"], spec_of(&deployment("v2", json!({})))["strategy"]);
        assert_eq!(back["metadata"]["labels"], json!({}));
        assert_eq!(
            back["metadata"]["annotations"],
            json!({"rollouts.kruise.io/in-progressing": "{\"rolloutName\":\"roll\"}"})
        );
    }
    let (next, _) = done(&Cluster::of([held.clone(), old]), &web, Style::Partition, |task| {
        actions::end(task, End::Continue).map(|_| ())
    });
    assert_eq!((spec_of(&next), next.annotation(CONTROL)), (spec_of(&held), None));
}

#[test]
fn a_release_that_another_follows_leaves_its_workload_as_it_is() {
    let opened = cloneset(
        json!({"spec": {"updateStrategy": {"partition": "60%"}}, "metadata": {"annotations": {CONTROL: "{}"}}}),
    );
    let web = reference(KRUISE, "CloneSet");
    for (end, partition) in
        [(End::HandBack, Value::Null), (End::Leave, json!("60%")), (End::Continue, json!("60%"))]
    {
        let (ended, _) = done(&Cluster::of([opened.clone()]), &web, Style::Partition, |task| {
            actions::end(task, end).map(|_| ())
        });
        assert_eq!(
            (&spec_of(&ended)["updateStrategy"]["partition"], ended.annotation(CONTROL)),
            (&partition, None)
        );
    }
}

/// The partition after a batch, of what it was before.
fn opened(workload: Value, batch: Value, is_scaled: bool) -> Value {
    let reference = WorkloadRef {
        api_version: workload.text("/apiVersion").to_owned(),
        kind: workload.text("/kind").to_owned(),
        name: "web".to_owned(),
    };
    let size: IntOrString = serde_json::from_value(batch).unwrap();
    let cluster = Cluster::of([
        workload,
        revision(1, "a"),
        revision(2, "b"),
        replica_set("old", "v1", 10, 10, "2026-05-01T07:00:00Z"),
    ]);
    let read = read_in(&cluster, &reference, Style::Partition);
    let (changed, others) = done(&cluster, &reference, Style::Partition, |task| {
        actions::open(task, &Batch::of(&size, &read, None), is_scaled)
    });
    assert!(others.is_empty());
    changed
}

#[test]
fn each_kind_is_opened_in_its_own_words_and_never_closed() {
    let cloneset = |partition: Value| {
        cloneset(json!({"spec": {"replicas": 10, "updateStrategy": {"partition": partition}}}))
    };
    let partition = |before: Value, batch: Value| {
        opened(cloneset(before), batch, false)["spec"]["updateStrategy"]["partition"].clone()
    };
    assert_eq!(partition(json!("100%"), json!("20%")), "80%");
    assert_eq!(partition(json!("100%"), json!(3)), 7);
    assert_eq!(partition(json!("50%"), json!("20%")), "50%");
    assert_eq!(partition(json!(5), json!("50%")), 5);
    assert_eq!(partition(json!(5), json!("100%")), "0%");

    for api_version in [APPS, KRUISE] {
        let set = |partition: i32| {
            object(
                api_version,
                "StatefulSet",
                "web",
                json!({
            "spec": {"replicas": 10, "updateStrategy": {"rollingUpdate": {"partition": partition}}}}),
            )
        };
        let partition = |before, batch: Value| {
            opened(set(before), batch, false)["spec"]["updateStrategy"]["rollingUpdate"]["partition"].clone()
        };
        assert_eq!(partition(32767, json!("15%")), 8);
        assert_eq!(partition(4, json!("15%")), 4);
    }

    let daemons = daemonset(
        KRUISE,
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 4}}}, "status": {"daemonSetHash": "b"}}),
    );
    assert_eq!(
        opened(daemons, json!("30%"), false)["spec"]["updateStrategy"]["rollingUpdate"]["partition"],
        2
    );
}

#[test]
fn the_two_controllers_of_this_product_read_annotations() {
    const CONTROL: &str = "rollouts.kruise.io/daemonset-advanced-control";
    let control = |before: &str, batch: Value| {
        let daemons = daemonset(APPS, json!({"metadata": {"annotations": {CONTROL: before}}}));
        let changed = opened(daemons, batch, false);
        serde_json::from_str::<Value>(changed.annotation(CONTROL).unwrap()).unwrap()
    };
    let wanted = |partition: &str| json!({"partition": partition, "batch-revision": "b"});
    assert_eq!(control("{}", json!(1)), wanted("3"));
    assert_eq!(control("{\"partition\":\"3\",\"batch-revision\":\"b\"}", json!(2)), wanted("2"));
    assert_eq!(control("{\"partition\":\"1\",\"batch-revision\":\"b\"}", json!(2)), wanted("1"));
    // What an older version was allowed says nothing about this one.
    assert_eq!(control("{\"partition\":\"1\",\"batch-revision\":\"a\"}", json!(2)), wanted("2"));

    const STRATEGY: &str = "rollouts.kruise.io/deployment-strategy";
    let strategy = |before: &str, batch: Value| {
        let changed =
            opened(deployment("v2", json!({"metadata": {"annotations": {STRATEGY: before}}})), batch, false);
        serde_json::from_str::<Value>(changed.annotation(STRATEGY).unwrap()).unwrap()
    };
    let held = "{\"partition\":0,\"rollingStyle\":\"Partition\"}";
    assert_eq!(strategy(held, json!("30%"))["partition"], "30%");
    assert_eq!(strategy("{\"partition\":4}", json!("30%"))["partition"], 4);
    assert_eq!(strategy("{\"partition\":2}", json!("100%"))["partition"], "100%");
    assert_eq!(
        strategy("{\"partition\":\"60%\",\"paused\":true}", json!("60%")),
        json!({"partition": "60%", "paused": false})
    );
}

#[test]
fn a_workload_that_grew_opens_no_more_than_the_batch_says() {
    let grown = cloneset(json!({"spec": {"replicas": 20, "updateStrategy": {"partition": 7}}}));
    assert_eq!(opened(grown.clone(), json!(3), true)["spec"]["updateStrategy"]["partition"], 17);
    assert_eq!(opened(grown, json!(3), false)["spec"]["updateStrategy"]["partition"], 7);
}

proptest! {
    #[test]
    fn the_partition_of_a_cloneset_lets_as_many_pods_be_new_as_its_batch_waits_for(
        replicas in 1..3000_i32, share in 1..=100_i32, no_need in proptest::option::of(0..3000_i32),
    ) {
        let cluster = Cluster::of([cloneset(json!({"spec": {"replicas": replicas}}))]);
        let workload = read_in(&cluster, &reference(KRUISE, "CloneSet"), Style::Partition);
        for size in [IntOrString::String(format!("{share}%")), IntOrString::Int(share)] {
            let batch = Batch::of(&size, &workload, no_need);
            let partition = batch.clone_set_partition(replicas);
            let kept = values::percent::partition(Some(&partition), replicas);
            // No waiting for Pods that stay old, and no Pod more than a hundredth of all is new before its time.
            prop_assert!(replicas - kept >= batch.updated, "{batch:?} {partition:?}");
            prop_assert!(replicas - kept <= batch.updated + replicas / 100 + 1, "{batch:?} {partition:?}");
            let is_all = size == IntOrString::String("100%".to_owned());
            prop_assert!(!is_all || kept == 0, "{partition:?}");
            prop_assert!(kept < replicas, "the first Pod is new");
            if matches!(size, IntOrString::String(_)) && !is_all && replicas - batch.stable < replicas {
                prop_assert!(kept > 0, "a Pod stays old: {partition:?}");
            }
        }
    }

    #[test]
    fn batches_never_shrink_and_stay_within_the_workload(
        replicas in 0..500_i32, one in 0..120_i32, other in 0..120_i32, no_need in proptest::option::of(0..500_i32),
    ) {
        let (less, more) = (one.min(other), one.max(other));
        for (api_version, kind) in [(KRUISE, "CloneSet"), (APPS, "StatefulSet"), (APPS, "Deployment")] {
            let object = object(api_version, kind, "web", json!({"spec": {"replicas": replicas}}));
            let workload = read_in(&Cluster::of([object]), &reference(api_version, kind), Style::Partition);
            let of = |size| Batch::of(size, &workload, no_need);
            let counts = [less, more].map(IntOrString::Int);
            let shares = [less, more].map(|share| IntOrString::String(format!("{share}%")));
            for sizes in [&counts, &shares] {
                let [smaller, larger] = sizes.each_ref().map(of);
                prop_assert!(smaller.updated <= larger.updated && smaller.stable >= larger.stable);
                for batch in [smaller, larger] {
                    prop_assert!((0..=replicas).contains(&batch.updated) && (0..=replicas).contains(&batch.stable));
                    prop_assert!(batch.planned <= replicas);
                }
            }
        }
    }
}

#[test]
fn less_than_all_of_a_deployment_is_never_all_of_it() {
    let cluster = Cluster::of([deployment("v2", json!({"spec": {"replicas": 10}}))]);
    let updated = |style, size: &str| {
        let workload = read_in(&cluster, &reference(APPS, "Deployment"), style);
        Batch::of(&IntOrString::String(size.to_owned()), &workload, None).updated
    };
    assert_eq!(
        [Style::Partition, Style::BlueGreen, Style::Canary].map(|style| updated(style, "99%")),
        [9, 9, 10]
    );
    assert_eq!(
        [Style::Partition, Style::BlueGreen, Style::Canary].map(|style| updated(style, "100%")),
        [10, 10, 10]
    );
}

#[test]
fn pods_in_order_are_taken_back_batch_by_batch() {
    let batch = |more: Value, api_version: &str, kind: &str| {
        let mut object = object(api_version, kind, "web", json!({"spec": {"replicas": 10}}));
        merge(&mut object, more);
        let workload = read_in(&Cluster::of([object]), &reference(api_version, kind), Style::Partition);
        let size = IntOrString::String("50%".to_owned());
        let batch = Batch::of(&size, &workload, Some(6));
        (batch.updated, batch.stable, batch.planned)
    };
    // Six of ten have the old version already, and two of the other four get it back.
    assert_eq!(batch(json!({}), KRUISE, "CloneSet"), (8, 2, 5));
    assert_eq!(batch(json!({}), APPS, "StatefulSet"), (8, 8, 5));
    let unordered = json!({"spec": {"updateStrategy": {"rollingUpdate": {"unorderedUpdate": {}}}}});
    assert_eq!(batch(unordered, KRUISE, "StatefulSet"), (8, 2, 5));
}

mod styles;
