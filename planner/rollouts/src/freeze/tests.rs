use api::annotations::DEPLOYMENT_STRATEGY;
use values::json_patch;

use super::*;
use crate::view::ListName;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn workload(api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "w"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("v1"), "later": {"kept": 1.50}},
    })
}

fn cloneset() -> Value {
    workload("apps.kruise.io/v1alpha1", "CloneSet")
}

fn deployment() -> Value {
    workload("apps/v1", "Deployment")
}

fn with(workload: &Value, pointer: &str, value: Value) -> Value {
    let mut workload = workload.clone();
    let path: Vec<String> = pointer.split('/').skip(1).map(|part| part.replace("~1", "/")).collect();
    set(&mut workload, &path.iter().map(String::as_str).collect::<Vec<_>>(), value);
    workload
}

fn updated(workload: &Value) -> Value {
    with(workload, "/spec/template", template("v2"))
}

const IN: &str = "/metadata/annotations/rollouts.kruise.io~1in-progressing";

fn running(workload: &Value) -> Value {
    with(workload, IN, json!(r#"{"rolloutName":"web"}"#))
}

fn rollout(workload: &Value, strategy: &Value) -> Rollout {
    let reference = reference::to(workload);
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": reference, "strategy": strategy}, "status": {"phase": "Healthy"},
    }))
    .unwrap()
}

fn batches() -> Value {
    json!({"canary": {"steps": [{"replicas": 1}]}})
}

fn routed() -> Value {
    json!({"canary": {"trafficRoutings": [{"service": "web", "ingress": {"name": "web"}}],
        "steps": [{"replicas": 1, "traffic": "10%"}]}})
}

/// ReplicaSets of the Deployment: their hash, and how many Pods they are to have; the oldest first.
fn sets(sets: &[(&str, i64)]) -> View {
    let objects = sets.iter().enumerate().map(|(age, (hash, replicas))| {
        json!({
            "metadata": {"name": hash, "namespace": "shop", "labels": {"app": "web", POD_TEMPLATE_HASH: hash},
                "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
                "ownerReferences": [{"uid": "w", "controller": true}]},
            "spec": {"replicas": replicas},
        })
    });
    let mut view = View::default();
    let list = ListName {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "shop".to_owned(),
        selector: "app=web".to_owned(),
    };
    view.has_list(list, objects.collect());
    view
}

fn reviewed_by(rollout: Rollout, old: &Value, new: &Value, view: &View) -> Value {
    let (rollouts, gates) = ([Arc::new(rollout)], FeatureGates::parse("", "").unwrap());
    let patch = review(old, new, &Context { rollouts: &rollouts, gates: &gates, view }).unwrap();
    serde_json::from_str(&json_patch::apply(&new.to_string(), &patch).unwrap()).unwrap()
}

fn reviewed(strategy: &Value, old: &Value, new: &Value) -> Value {
    reviewed_by(rollout(old, strategy), old, new, &sets(&[("stable", 3)]))
}

fn is_frozen(workload: &Value) -> bool {
    workload.annotation(IN_PROGRESSING).is_some()
}

#[test]
fn a_clone_set_is_held_where_its_version_has_the_partition() {
    for (api_version, pointer) in [
        ("apps.kruise.io/v1alpha1", "/spec/updateStrategy/partition"),
        ("apps.kruise.io/v1beta1", "/spec/updateStrategy/rollingUpdate/partition"),
    ] {
        let old = workload(api_version, "CloneSet");
        let held = reviewed(&batches(), &old, &updated(&old));
        assert_eq!(held.pointer(pointer), Some(&json!("100%")), "{api_version}: {held:#}");
    }
}

#[test]
fn each_kind_is_frozen_in_its_way_and_nothing_else_changes() {
    let all = "/spec/updateStrategy/rollingUpdate/partition";
    for (object, pointer, value) in [
        (cloneset(), "/spec/updateStrategy/partition", json!("100%")),
        (deployment(), "/spec/paused", json!(true)),
        (workload("apps/v1", "StatefulSet"), all, json!(32767)),
        (workload("apps.kruise.io/v1beta1", "StatefulSet"), all, json!(32767)),
        (workload("apps.kruise.io/v1alpha1", "DaemonSet"), all, json!(32767)),
    ] {
        let new = updated(&object);
        let mut expected = with(&running(&new), pointer, value);
        if object["kind"] == "Deployment" {
            expected["metadata"]["labels"] = json!({STABLE_REVISION: "stable"});
        }
        assert_eq!(reviewed(&batches(), &object, &new), expected);
        assert_eq!(reviewed(&batches(), &object, &object), object, "without a new template nothing is done");
    }
}

#[test]
fn a_daemonset_of_kubernetes_saves_its_type_once() {
    let daemonset =
        with(&workload("apps/v1", "DaemonSet"), "/spec/updateStrategy/type", json!("RollingUpdate"));
    let frozen = reviewed(&batches(), &daemonset, &updated(&daemonset));
    assert_eq!(frozen["spec"]["updateStrategy"]["type"], "OnDelete");
    assert_eq!(frozen.annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY), Some("RollingUpdate"));
    let again = reviewed(&batches(), &frozen, &with(&frozen, "/spec/template", template("v3")));
    assert_eq!(again.annotation(DAEMONSET_ORIGINAL_UPDATE_STRATEGY), Some("RollingUpdate"));
}

#[test]
fn a_kind_like_statefulsets_is_frozen_where_it_rolls() {
    let game = workload("example.com/v1", "Game");
    assert!(!is_frozen(&reviewed(&batches(), &game, &updated(&game))));
    let rolling = with(&game, "/spec/updateStrategy/type", json!("RollingUpdate"));
    assert!(is_frozen(&reviewed(&batches(), &rolling, &updated(&rolling))));
    let manual = with(&workload("apps/v1", "StatefulSet"), "/spec/updateStrategy/type", json!("OnDelete"));
    assert!(!is_frozen(&reviewed(&batches(), &manual, &updated(&manual))));
}

#[test]
fn only_a_rollout_that_acts_and_names_the_workload_freezes_it() {
    let (old, new) = (cloneset(), updated(&cloneset()));
    let view = View::default();
    let base = rollout(&old, &batches());
    let frozen = |change: &dyn Fn(&mut Rollout)| {
        let mut rollout = base.clone();
        change(&mut rollout);
        is_frozen(&reviewed_by(rollout, &old, &new, &view))
    };
    assert!(frozen(&|_| {}));
    assert!(frozen(&|rollout| rollout.spec.workload_ref.api_version = "apps.kruise.io/v1beta1".to_owned()));
    assert!(!frozen(&|rollout| rollout.spec.workload_ref.name = "api".to_owned()));
    assert!(!frozen(&|rollout| rollout.spec.workload_ref.api_version = "apps/v1".to_owned()));
    assert!(!frozen(&|rollout| rollout.status.phase = Phase::Disabled));
    assert!(!frozen(&|rollout| rollout.spec.disabled = true));
    assert!(!frozen(
        &|rollout| rollout.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into())
    ));
    assert!(!frozen(&|rollout| rollout.spec.strategy.canary = None));
}

#[test]
fn a_workload_without_pods_is_left_alone_unless_it_has_one_on_each_node() {
    let empty = |object: &Value| with(object, "/spec/replicas", json!(0));
    let old = empty(&cloneset());
    assert!(!is_frozen(&reviewed(&batches(), &old, &updated(&old))));
    let daemonset = empty(&workload("apps.kruise.io/v1alpha1", "DaemonSet"));
    assert!(is_frozen(&reviewed(&batches(), &daemonset, &updated(&daemonset))));
}

#[test]
fn what_defaults_complete_is_no_change_of_a_template() {
    let old = with(&cloneset(), "/spec/template/spec/restartPolicy", json!("Always"));
    assert!(!is_frozen(&reviewed(&batches(), &old, &cloneset())));
    let hash = format!("/spec/template/metadata/labels/{POD_TEMPLATE_HASH}");
    assert!(!is_frozen(&reviewed(&batches(), &old, &with(&old, &hash, json!("1")))));
    assert!(is_frozen(&reviewed(
        &batches(),
        &old,
        &with(&old, "/spec/template/spec/restartPolicy", json!("Never"))
    )));
}

#[test]
fn an_identity_begins_a_release_and_a_template_alone_does_not_beside_it() {
    for place in ["labels", "annotations"] {
        let id = format!("/metadata/{place}/rollouts.kruise.io~1rollout-id");
        let old = with(&cloneset(), &id, json!("1"));
        assert!(is_frozen(&reviewed(&batches(), &old, &with(&old, &id, json!("2")))), "{place}");
        assert!(is_frozen(&reviewed(&batches(), &cloneset(), &old)), "{place}");
        assert!(!is_frozen(&reviewed(&batches(), &old, &updated(&old))), "{place}");
        let released = running(&old);
        let again = reviewed(&batches(), &released, &updated(&released));
        assert_eq!(again["spec"]["updateStrategy"]["partition"], "100%", "{place}");
    }
}

#[test]
fn traffic_needs_pods_of_one_version_until_a_release_is_running() {
    let rolling = with(&cloneset(), "/status", json!({"replicas": 3, "updatedReplicas": 1}));
    assert!(!is_frozen(&reviewed(&routed(), &rolling, &updated(&rolling))));
    assert!(is_frozen(&reviewed(&batches(), &rolling, &updated(&rolling))));
    let released = running(&rolling);
    let again = reviewed(&routed(), &released, &updated(&released));
    assert_eq!(again["spec"]["updateStrategy"]["partition"], "100%");
    let uniform = with(&cloneset(), "/status", json!({"replicas": 3, "updatedReplicas": 3}));
    assert!(is_frozen(&reviewed(&routed(), &uniform, &updated(&uniform))));
}

#[test]
fn a_deployment_is_stable_at_its_largest_replica_set() {
    let (old, new) = (deployment(), updated(&deployment()));
    for (list, is_routed, stable) in [
        (vec![("a", 0), ("b", 2), ("c", 2), ("d", 1)], false, Some("b")),
        (vec![("a", 0), ("b", 2), ("c", 1)], true, None),
        (vec![("a", 0), ("b", 3)], true, Some("b")),
        (vec![("a", 0)], false, None),
        (vec![], false, None),
    ] {
        let strategy = if is_routed { routed() } else { batches() };
        let frozen = reviewed_by(rollout(&old, &strategy), &old, &new, &sets(&list));
        assert_eq!(frozen.label(STABLE_REVISION), stable, "{list:?}");
        assert_eq!(
            (is_frozen(&frozen), frozen["spec"]["paused"] == true),
            (stable.is_some(), stable.is_some())
        );
    }
    // While its release ends there are Pods of two versions.
    let mut ending = rollout(&old, &routed());
    ending.status.phase = Phase::Progressing;
    let frozen = reviewed_by(ending, &old, &new, &sets(&[("b", 1), ("c", 2)]));
    assert_eq!(frozen.label(STABLE_REVISION), Some("c"));
    let (rollouts, gates) = ([Arc::new(rollout(&old, &batches()))], FeatureGates::parse("", "").unwrap());
    let context = Context { rollouts: &rollouts, gates: &gates, view: &View::default() };
    assert!(matches!(review(&old, &new, &context), Err(Unread::List(_))));
}

fn held(note: &Value) -> Value {
    let held = with(&running(&deployment()), "/spec/paused", json!(true));
    let held = with(&held, "/spec/strategy", json!({"type": "Recreate"}));
    with(&held, "/metadata/annotations/rollouts.kruise.io~1deployment-strategy", json!(note.to_string()))
}

fn note_of(deployment: &Value) -> Value {
    serde_json::from_str(deployment.annotation(DEPLOYMENT_STRATEGY).unwrap()).unwrap()
}

#[test]
fn a_deployment_in_batches_stays_paused_and_of_type_recreate() {
    let old = held(&json!({"rollingStyle": "Partition", "partition": 1, "later": true}));
    let resumed = with(&old, "/spec/paused", json!(false));
    assert_eq!(reviewed(&batches(), &old, &resumed), old);
    let mut disabled = rollout(&old, &batches());
    disabled.status.phase = Phase::Disabled;
    assert_eq!(reviewed_by(disabled, &old, &resumed, &View::default()), resumed);
    let rolling_update = json!({"maxSurge": "50%"});
    let rolling =
        with(&old, "/spec/strategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling_update}));
    let noted = reviewed(&batches(), &old, &rolling);
    assert_eq!(noted["spec"]["strategy"], json!({"type": "Recreate"}));
    let expected =
        json!({"rollingStyle": "Partition", "partition": 1, "later": true, "rollingUpdate": rolling_update});
    assert_eq!(note_of(&noted), expected);
    let third = reviewed(&batches(), &old, &updated(&old));
    assert_eq!((&third["spec"]["paused"], &note_of(&third)["paused"]), (&json!(true), &json!(true)));
}

#[test]
fn a_deployment_that_is_frozen_and_not_held_yet_stays_paused() {
    let old = with(&running(&deployment()), "/spec/paused", json!(true));
    let old = with(&old, "/spec/strategy", json!({"type": "RollingUpdate"}));
    let resumed = with(&old, "/spec/paused", json!(false));
    assert_eq!(reviewed(&batches(), &old, &resumed), old);
}

#[test]
fn a_deployment_beside_a_second_one_stays_paused_and_keeps_its_type() {
    let strategy = json!({"canary": {"enableExtraWorkloadForCanary": true, "steps": [{"replicas": 1}]}});
    let old = with(&running(&deployment()), "/spec/paused", json!(true));
    let old =
        with(&old, "/spec/strategy", json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}));
    let mut new = with(&updated(&old), "/spec/strategy", json!({"type": "Recreate"}));
    new["spec"]["paused"] = false.into();
    assert_eq!(reviewed(&strategy, &old, &new), updated(&old));
}

#[test]
fn a_blue_green_deployment_pauses_for_a_third_version_and_keeps_its_type() {
    let strategy = json!({"blueGreen": {"steps": [{"replicas": 1}]}});
    let old = with(&running(&deployment()), "/spec/strategy", json!({"type": "RollingUpdate"}));
    let scaled = with(&old, "/spec/replicas", json!(5));
    assert_eq!(reviewed(&strategy, &old, &scaled), scaled);
    let third = updated(&with(&old, "/spec/strategy", json!({"type": "Recreate"})));
    let kept = reviewed(&strategy, &old, &third);
    assert_eq!(kept, with(&updated(&old), "/spec/paused", json!(true)));
}

#[test]
fn blue_green_settings_are_put_back_and_those_of_their_author_saved() {
    const SAVED: &str = "/metadata/annotations/rollouts.kruise.io~1original-deployment-strategy";
    let strategy = json!({"blueGreen": {"steps": [{"replicas": 1}]}});
    for (object, settings) in [
        (deployment(), "/spec/strategy/rollingUpdate"),
        (cloneset(), "/spec/updateStrategy"),
        (workload("apps.kruise.io/v1beta1", "CloneSet"), "/spec/updateStrategy/rollingUpdate"),
    ] {
        let saved = |surge: &str| json!(json!({"heldSurge": surge, "maxUnavailable": 1}).to_string());
        let held = with(&running(&object), settings, json!({"maxSurge": "50%", "maxUnavailable": 0}));
        let mut held = with(&held, SAVED, saved("50%"));
        held["spec"]["minReadySeconds"] = 2147483646.into();
        if object["kind"] == "Deployment" {
            held["spec"]["progressDeadlineSeconds"] = 2147483647.into();
            held["spec"]["strategy"]["type"] = "RollingUpdate".into();
        }
        let mut applied = with(&held, settings, json!({"maxSurge": 2, "maxUnavailable": "10%"}));
        applied["spec"]["minReadySeconds"] = 5.into();
        let kept = reviewed(&strategy, &held, &applied);
        assert_eq!(kept["spec"], held["spec"]);
        let noted = kept.annotation("rollouts.kruise.io/original-deployment-strategy").unwrap();
        let expected =
            json!({"heldSurge": "50%", "maxSurge": 2, "maxUnavailable": "10%", "minReadySeconds": 5});
        assert_eq!(serde_json::from_str::<Value>(noted).unwrap(), expected);
        // The release itself lets it grow.
        let grown = with(&held, &format!("{settings}/maxSurge"), json!("100%"));
        let grown = with(&grown, SAVED, saved("100%"));
        assert_eq!(reviewed(&strategy, &held, &grown), grown);
    }
}

/// Whoever applies a manifest again with a `partition` in it opens nothing.
#[test]
fn a_workload_is_opened_no_further_than_its_release_has_noted() {
    const HELD: &str = "/metadata/annotations/kutter.io~1held-partition";
    for (object, path, held, open) in [
        (cloneset(), "/spec/updateStrategy/partition", json!("80%"), json!(0)),
        (
            workload("apps.kruise.io/v1beta1", "CloneSet"),
            "/spec/updateStrategy/rollingUpdate/partition",
            json!("80%"),
            json!("20%"),
        ),
        (
            workload("apps/v1", "StatefulSet"),
            "/spec/updateStrategy/rollingUpdate/partition",
            json!(4),
            json!(0),
        ),
        (
            workload("apps.kruise.io/v1beta1", "StatefulSet"),
            "/spec/updateStrategy/rollingUpdate/partition",
            json!(4),
            Value::Null,
        ),
    ] {
        let old = with(&with(&running(&object), path, held.clone()), HELD, json!(held.to_string()));
        let applied = with(&old, path, open.clone());
        assert_eq!(reviewed(&batches(), &old, &applied), old, "{path}");
        let mut replaced = applied.clone();
        replaced["metadata"]["annotations"] = json!({"note": "mine"});
        assert_eq!(reviewed(&batches(), &old, &replaced)["spec"], old["spec"], "{path}: without annotations");
        // The release itself opens it, and a person may close it.
        let opened = with(&with(&old, path, json!(1)), HELD, json!("1"));
        assert_eq!(reviewed(&batches(), &old, &opened), opened);
        let closed = with(&old, path, if held.is_string() { json!("90%") } else { json!(5) });
        assert_eq!(reviewed(&batches(), &old, &closed), closed);
        // A new version holds all Pods, and nothing opens it after that.
        let frozen = reviewed(&batches(), &old, &updated(&applied));
        let all = frozen.pointer(path).unwrap();
        assert!(*all == "100%" || *all == ALL_PODS, "{all}");
        let again = reviewed(&batches(), &frozen, &with(&frozen, path, open));
        assert_eq!(again, frozen);
        // What another release has left behind opens nothing.
        let stale = with(&frozen, HELD, json!("1"));
        assert_eq!(reviewed(&batches(), &stale, &stale), stale);
    }
}

#[test]
fn a_deployment_whose_release_ends_is_let_go() {
    let old = held(&json!({"rollingStyle": "Partition"}));
    let mut unmarked = old.clone();
    unmarked["metadata"]["annotations"].as_object_mut().unwrap().remove(IN_PROGRESSING);
    assert_eq!(reviewed(&batches(), &old, &unmarked), unmarked);
    let released = with(&unmarked, "/spec/paused", json!(false));
    assert_eq!(reviewed(&batches(), &unmarked, &released), released);
}

#[test]
fn a_write_without_the_mark_that_changes_more_than_metadata_ends_no_release() {
    let id = "/metadata/annotations/rollouts.kruise.io~1rollout-id";
    let old = held(&json!({"rollingStyle": "Partition", "partition": 1}));
    let old =
        with(&old, &format!("/metadata/labels/{}", STABLE_REVISION.replace('/', "~1")), json!("stable"));
    let old = with(&old, "/metadata/annotations/batchrelease.rollouts.kruise.io~1control-info", json!("{}"));
    let old = with(&old, id, json!("1"));
    // As `kubectl replace` with the object as its author knows it.
    for new in [deployment(), updated(&deployment())] {
        let kept =
            reviewed(&batches(), &old, &with(&new, "/spec/strategy", json!({"type": "RollingUpdate"})));
        assert_eq!(kept["spec"]["template"], new["spec"]["template"]);
        let held =
            (&kept["spec"]["paused"], &kept["spec"]["strategy"]["type"], note_of(&kept)["partition"].clone());
        assert_eq!(held, (&json!(true), &json!("Recreate"), json!(1)));
        assert_eq!((kept.label(STABLE_REVISION), is_frozen(&kept)), (Some("stable"), true));
        assert_eq!(
            (kept.annotation("batchrelease.rollouts.kruise.io/control-info"), kept.annotation(ROLLOUT_ID)),
            (None, None)
        );
    }
    let running = with(&running(&cloneset()), id, json!("1"));
    let replaced = with(&updated(&cloneset()), id, json!("1"));
    let again = reviewed(&batches(), &running, &replaced);
    assert_eq!((is_frozen(&again), &again["spec"]["updateStrategy"]["partition"]), (true, &json!("100%")));
}
