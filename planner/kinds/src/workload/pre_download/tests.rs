use super::*;
use serde_json::{Value, json};

fn revision(name: &str, image: &str, labels: &Value) -> StoredRevision {
    let template = json!({"metadata": {"labels": {"app": "demo"}, "annotations": {"team": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}, {"name": "log", "image": "log:1"}],
                 "imagePullSecrets": [{"name": "regcred"}]}});
    let object = json!({"metadata": {"name": name, "uid": "r", "labels": labels},
        "data": {"spec": {"template": template}}, "revision": 1});
    StoredRevision::read(&object.to_string()).unwrap()
}

fn planned(
    update: &StoredRevision,
    updated_ready: i32,
    settings: &PreDownloadSettings,
    worthwhile: bool,
) -> Vec<Action> {
    let selector: LabelSelector = serde_json::from_str(r#"{"matchLabels":{"app":"demo"}}"#).unwrap();
    let old = revision("demo-1", "app:1", &json!({}));
    plan(&Rollout {
        owner: Owner::new("apps.kruise.io/v1beta1", "CloneSet", "demo", "u"),
        namespace: "shop",
        selector: &selector,
        hash_label: api::labels::CONTROLLER_HASH,
        old: &[&old],
        update,
        settings,
        updated_ready,
        worthwhile,
    })
    .unwrap()
}

/// The mark of a revision.
fn marked(revision: &StoredRevision, label: &str) -> Action {
    let child = ObjectVersion {
        name: revision.name().to_owned(),
        uid: "r".to_owned(),
        resource_version: String::new(),
    };
    let patch = format!(r#"{{"metadata":{{"uid":"r","labels":{{"{label}":"true"}}}}}}"#);
    Action::PatchChild { kind: CONTROLLER_REVISION, child, patch }
}

#[test]
fn scenario_30_one_job_pulls_each_new_image() {
    let update = revision("demo-2", "app:2", &json!({}));
    let settings = PreDownloadSettings::of_strategy(&InPlaceUpdateStrategy::default());
    let actions = planned(&update, 0, &settings, is_worthwhile(5, 4, 1, true));
    let [Action::CreateChild { json: job, .. }, mark] = actions.as_slice() else {
        panic!("the other container keeps its image: {actions:?}")
    };
    assert_eq!(*mark, marked(&update, "apps.kruise.io/pre-predownload-created"));
    let labels = json!({"app": "demo", "controller.kubernetes.io/hash": "2"});
    let expected = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
        "metadata": {"name": "demo-2-main", "namespace": "shop", "labels": labels, "ownerReferences": [{
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "demo", "uid": "u",
            "controller": true, "blockOwnerDeletion": true}]},
        "spec": {
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
            "image": "app:2", "parallelism": 1,
            "podSelector": {"matchLabels": {"app": "demo"}, "matchExpressions": [
                {"key": "controller-revision-hash", "operator": "NotIn", "values": ["demo-2", "2"]}]},
            "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": 300},
            "pullSecrets": ["regcred"],
            "sandboxConfig": {"annotations": {"team": "web"}, "labels": labels}}});
    assert_eq!(serde_json::from_str::<Value>(job).unwrap(), expected);
}

#[test]
fn volumes_that_are_images_are_pulled_like_containers() {
    let with_volumes = |name: &str, model: &str| {
        let template = json!({"spec": {
            "containers": [{"name": "model", "image": "app:1"}],
            "volumes": [{"name": "model", "image": {"reference": model}}, {"name": "rest", "emptyDir": {}},
                        {"name": "later", "image": {"pullPolicy": "Always"}},
                        {"name": "same", "image": {"reference": "same:1"}}]}});
        let object = json!({"metadata": {"name": name, "uid": "r"}, "data": {"spec": {"template": template}},
            "revision": 1});
        StoredRevision::read(&object.to_string()).unwrap()
    };
    let selector: LabelSelector = serde_json::from_str(r#"{"matchLabels":{"app":"demo"}}"#).unwrap();
    let settings = PreDownloadSettings::of_strategy(&InPlaceUpdateStrategy::default());
    let (old, update) = (with_volumes("demo-1", "model:1"), with_volumes("demo-2", "model:2"));
    let actions = plan(&Rollout {
        owner: Owner::new("apps.kruise.io/v1beta1", "DaemonSet", "demo", "u"),
        namespace: "shop",
        selector: &selector,
        hash_label: CONTROLLER_REVISION_HASH,
        old: &[&old],
        update: &update,
        settings: &settings,
        updated_ready: 0,
        worthwhile: true,
    });
    let actions = actions.unwrap();
    let [Action::CreateChild { name, json: job, .. }, _] = actions.as_slice() else { panic!("{actions:?}") };
    let job: Value = serde_json::from_str(job).unwrap();
    assert_eq!((name.as_str(), &job["spec"]["image"]), ("demo-2-volume.model", &json!("model:2")));
}

#[test]
fn scenario_31_few_replicas_and_single_batches_are_not_worth_it() {
    let update = revision("demo-2", "app:2", &json!({}));
    let settings = PreDownloadSettings::of_strategy(&InPlaceUpdateStrategy::default());
    for (replicas, partition, max_unavailable, in_place, expected) in [
        (3, 0, 1, true, false),
        (4, 0, 1, true, true),
        (5, 0, 5, true, false),
        (5, 1, 5, true, true),
        (5, 0, 1, false, false),
    ] {
        let worthwhile = is_worthwhile(replicas, partition, max_unavailable, in_place);
        assert_eq!(worthwhile, expected, "{replicas} {partition} {max_unavailable} {in_place}");
        let ignored = [marked(&update, "apps.kruise.io/image-predownload-ignored")];
        assert_eq!(planned(&update, 0, &settings, worthwhile) == ignored, !expected);
    }
}

#[test]
fn the_question_is_asked_once_and_after_enough_pods() {
    let settings = PreDownloadSettings {
        min_updated_ready_pods: 2,
        ..PreDownloadSettings::of_strategy(&InPlaceUpdateStrategy::default())
    };
    let update = revision("demo-2", "app:2", &json!({}));
    assert_eq!(planned(&update, 1, &settings, true), []);
    assert_eq!(planned(&update, 2, &settings, true).len(), 2);
    for label in ["apps.kruise.io/pre-predownload-created", "apps.kruise.io/image-predownload-ignored"] {
        let decided = revision("demo-2", "app:2", &json!({label: "true"}));
        assert_eq!(planned(&decided, 2, &settings, true), []);
    }
}

#[test]
fn annotations_of_other_workloads_are_read_leniently() {
    let settings = |parallelism: &str, timeout: &str, min: &str| {
        let annotations = [
            (IMAGE_PREDOWNLOAD_PARALLELISM, parallelism),
            (IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS, timeout),
            (IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, min),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let PreDownloadSettings { parallelism, timeout_seconds, min_updated_ready_pods } =
            PreDownloadSettings::of_annotations(&annotations, &InPlaceUpdateStrategy::default(), 10);
        (parallelism, timeout_seconds, min_updated_ready_pods)
    };
    assert_eq!(settings("3", "60", "2"), (IntOrString::Int(3), 60, 2));
    assert_eq!(settings("50%", "x", "25%"), (IntOrString::Int(1), 300, 3));
}
