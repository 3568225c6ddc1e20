use std::collections::BTreeMap;

use super::*;
use api::features::FeatureGates;
use serde_json::{Value, json};

use crate::observed::{ContainerState, Terminated};
use crate::revision_labels::RevisionLabels;
use crate::template::comparison::canonical;
use crate::write::condition;
use values::canonical::Unknown;
use values::server_version::ServerVersion;

mod annotations;
mod cases;
mod decision;
mod simulation;

pub(super) const RULES: Rules = Rules {
    labels: RevisionLabels::CloneSet { short: false },
    sets_updating: SetsUpdating::Always,
    env_from_metadata: true,
    vertical_scaling: true,
    server: ServerVersion::NEWEST,
};

pub(super) fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

pub(super) fn now() -> Timestamp {
    at("2026-05-01T08:00:00Z")
}

pub(super) fn template(template: &Value) -> Template {
    recorded(template, true)
}

/// The template as a revision records it, with the fields that OpenKruise does not know or without them.
fn recorded(template: &Value, is_whole: bool) -> Template {
    let template = template.to_string();
    let data = |unknown| format!(r#"{{"spec":{{"template":{}}}}}"#, canonical(&template, unknown).unwrap());
    Template::of_data(is_whole.then(|| data(Unknown::Keep)).as_deref(), &data(Unknown::Drop)).unwrap()
}

/// A ready Pod of one container `main`, `nginx:1.25`.
fn pod() -> ObservedPod {
    let pod = json!({
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "1",
            "labels": {"controller-revision-hash": "demo-1", "lifecycle.apps.kruise.io/state": "Normal"}},
        "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
            "containers": [{"name": "main", "image": "nginx:1.25", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running",
            "conditions": [{"type": "InPlaceUpdateReady", "status": "True"},
                {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "image": "docker.io/library/nginx:1.25", "ready": true, "containerID": "c://1",
                "imageID": "docker.io/library/nginx@sha256:aa", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]}});
    ObservedPod::read(&pod.to_string()).unwrap()
}

fn image_change(grace_seconds: i32) -> UpdateSpec {
    UpdateSpec {
        revision: "demo-788944f45".to_owned(),
        container_images: [("main".to_owned(), "nginx:1.26".to_owned())].into(),
        grace_seconds,
        ..UpdateSpec::default()
    }
}

fn apply(writes: &[PodWrite], pod: &mut ObservedPod) {
    for write in writes {
        write.apply(pod);
    }
}

fn runs(pod: &mut ObservedPod, image: &str, image_id: &str) {
    let status = pod.status.container_statuses.first_mut().unwrap();
    (status.image, status.image_id) = (image.into(), image_id.into());
}

#[test]
fn scenario_1_to_3_an_image_takes_three_writes() {
    let mut pod = pod();
    let started = start(&pod, &image_change(0), &RULES, now());
    assert_eq!(started.requeue, None);
    let [status, change] = started.writes.as_slice() else { panic!("{:?}", started.writes) };
    assert_eq!((status.target, change.target), (Target::Status, Target::Pod));
    status.apply(&mut pod);
    let gate = pod.condition(IN_PLACE_UPDATE_READY).unwrap();
    assert_eq!((&*gate.status, &*gate.reason), ("False", "StartInPlaceUpdate"));
    let ready = pod.condition("Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "ReadinessGatesNotReady"));
    assert_eq!(
        &*ready.message,
        r#"the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False"#
    );
    assert_eq!(ready.since(), Some(now()));
    assert_eq!(&*pod.spec.containers[0].image, "nginx:1.25");
    change.apply(&mut pod);
    assert_eq!(&*pod.spec.containers[0].image, "nginx:1.26");
    assert_eq!(pod.label("controller-revision-hash"), Some("demo-788944f45"));
    assert_eq!(pod.label("pod-template-hash"), Some("788944f45"));
    assert_eq!(pod.label(LIFECYCLE_STATE), Some("Updating"));
    assert_eq!(
        pod.annotation("apps.kruise.io/inplace-update-state"),
        Some(
            r#"{"revision":"demo-788944f45","updateTimestamp":"2026-05-01T08:00:00Z","lastContainerStatuses":{"main":{"imageID":"docker.io/library/nginx@sha256:aa"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-05-01T08:00:00Z","containers":["main"]}]}"#
        )
    );
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Image("main".to_owned())));

    runs(&mut pod, "docker.io/library/nginx:1.26", "docker.io/library/nginx@sha256:bb");
    assert_eq!(completed(&pod, &RULES), Ok(()));
    let hooks = api::kinds::shared::Lifecycle::default();
    let refresh =
        crate::lifecycle::refresh(&pod, &hooks, crate::lifecycle::Flavour::CloneSet, &RULES, true, now())
            .unwrap();
    assert_eq!(refresh.progress, Progress::Done);
    let [last] = refresh.writes.as_slice() else { panic!("{:?}", refresh.writes) };
    assert_eq!(last.target, Target::Status);
    last.apply(&mut pod);
    assert_eq!(pod.label(LIFECYCLE_STATE), Some("Normal"));
    assert!(pod.condition_is_true(IN_PLACE_UPDATE_READY));
    assert!(!pod.is_ready(), "Ready is left to the kubelet");
}

#[test]
fn scenario_9_the_grace_period_comes_before_the_change() {
    let mut pod = pod();
    let started = start(&pod, &image_change(10), &RULES, at("2026-05-01T08:00:00.25Z"));
    assert_eq!(started.requeue, Some(Duration::from_secs(10)));
    apply(&started.writes, &mut pod);
    assert_eq!(&*pod.spec.containers[0].image, "nginx:1.25");
    assert_eq!(
        pod.annotation("apps.kruise.io/inplace-update-state"),
        Some(
            r#"{"revision":"demo-788944f45","updateTimestamp":"2026-05-01T08:00:01Z","lastContainerStatuses":null,"updateImages":true}"#
        )
    );
    assert_eq!(
        pod.annotation("apps.kruise.io/inplace-update-grace"),
        Some(r#"{"revision":"demo-788944f45","containerImages":{"main":"nginx:1.26"},"graceSeconds":10}"#)
    );
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Grace));
    let early = refresh(&pod, &RULES, at("2026-05-01T08:00:10.5Z")).unwrap();
    assert_eq!((early.writes, early.requeue), (Vec::new(), Some(Duration::from_secs(1))));
    let due = refresh(&pod, &RULES, at("2026-05-01T08:00:11Z")).unwrap();
    assert_eq!((due.writes.len(), due.progress), (1, Progress::Advances));
    apply(&due.writes, &mut pod);
    assert_eq!(&*pod.spec.containers[0].image, "nginx:1.26");
    assert!(!in_grace(&pod));
    let state = State::of(&pod).unwrap().unwrap();
    assert_eq!(state.update_timestamp.0, at("2026-05-01T08:00:01Z"), "the start of the whole update");
    assert!(state.last_container_statuses.contains_key("main"));
}

#[test]
fn a_grace_period_of_another_revision_ends_without_a_change() {
    let mut pod = pod();
    apply(&start(&pod, &image_change(10), &RULES, now()).writes, &mut pod);
    let mut other = PodWrite::default();
    other.set_label("controller-revision-hash", "demo-2");
    other.apply(&mut pod);
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    assert!(!in_grace(&pod));
    assert_eq!(&*pod.spec.containers[0].image, "nginx:1.25");
}

#[test]
fn what_the_kubelet_tells_of_a_resize_is_told() {
    let told = |edit: &dyn Fn(&mut ObservedPod)| {
        let mut pod = pod();
        let resources = Resources { limits: [("cpu", "2")].into_iter().collect(), ..Resources::default() };
        let spec = UpdateSpec {
            container_resources: [("main".to_owned(), resources)].into(),
            container_images: BTreeMap::new(),
            ..image_change(0)
        };
        apply(&start(&pod, &spec, &RULES, now()).writes, &mut pod);
        edit(&mut pod);
        completed(&pod, &RULES).unwrap_err().to_string()
    };
    let with = |kind: &'static str, status: &'static str, reason: &'static str| {
        move |pod: &mut ObservedPod| {
            pod.status.conditions = [condition(kind, status, reason, "no room", now())].into();
        }
    };
    let waits = "container main does not have its new resources yet";
    for (edit, message) in [
        (with("PodResizePending", "True", "Infeasible"), "its resize is not possible on its node: no room"),
        (with("PodResizePending", "True", "Deferred"), "its resize waits for room on its node: no room"),
        (with("PodResizeInProgress", "True", "Error"), "its resize fails: no room"),
        (with("PodResizeInProgress", "True", ""), waits),
        (with("PodResizePending", "False", "Infeasible"), waits),
    ] {
        assert_eq!(told(&edit), message);
    }
    // The kubelet does not know the newest resources yet: it speaks of others.
    let stale = |pod: &mut ObservedPod| {
        with("PodResizePending", "True", "Infeasible")(pod);
        (pod.metadata.generation, pod.status.observed_generation) = (2, 1);
    };
    assert_eq!(told(&stale), waits);
}

#[test]
fn a_container_that_has_ended_for_good_is_not_waited_for() {
    let mut pod = pod();
    apply(&start(&pod, &image_change(0), &RULES, now()).writes, &mut pod);
    let terminated = Some(Terminated { exit_code: 0 });
    pod.status.container_statuses[0].state = ContainerState { terminated, ..ContainerState::default() };
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Image("main".to_owned())));
    pod.spec.containers[0].restart_policy = "OnFailure".into();
    assert_eq!(completed(&pod, &RULES), Ok(()));
}

#[test]
fn a_pod_without_the_gate_is_changed_in_one_write_and_needs_no_other() {
    let mut pod = pod();
    pod.spec.readiness_gates = [].into();
    let started = start(&pod, &image_change(0), &RULES, now());
    assert_eq!(started.writes.len(), 1);
    apply(&started.writes, &mut pod);
    runs(&mut pod, "nginx:1.26", "docker.io/library/nginx@sha256:aa");
    assert_eq!(completed(&pod, &RULES), Ok(()), "same digest under another tag");
    assert_eq!(refresh(&pod, &RULES, now()).unwrap().writes, []);
}

#[test]
fn the_kinds_of_workloads_differ_in_labels_and_state() {
    let gates = FeatureGates::parse("CloneSetShortHash=true", "").unwrap();
    let server = ServerVersion::parse("v1.31.0");
    let written = |rules: Rules, pod: &ObservedPod| {
        let write = start(pod, &image_change(0), &rules, now()).writes.pop().unwrap();
        (
            write.labels.get("controller-revision-hash").cloned().flatten(),
            write.labels.contains_key(LIFECYCLE_STATE),
        )
    };
    let mut stateless = pod();
    stateless.metadata.labels = [("controller-revision-hash", "x")].into_iter().collect();
    assert_eq!(written(Rules::clone_set(&gates, server), &stateless), (Some("788944f45".to_owned()), true));
    let full = Some("demo-788944f45".to_owned());
    assert_eq!(written(Rules::stateful_set(&gates, server), &stateless), (full.clone(), false));
    assert_eq!(written(Rules::stateful_set(&gates, server), &pod()), (full, true));
    assert_eq!(written(Rules::daemon_set(&gates, server), &pod()), (Some("788944f45".to_owned()), false));
}

fn resource_change() -> UpdateSpec {
    let resources = Resources {
        limits: [("cpu", "2")].into_iter().collect(),
        requests: [("cpu", "1000m")].into_iter().collect(),
    };
    UpdateSpec {
        revision: "demo-2".to_owned(),
        container_resources: [("main".to_owned(), resources)].into(),
        ..UpdateSpec::default()
    }
}

#[test]
fn scenario_27_resources_go_through_their_own_endpoint_and_the_pod_stays_ready() {
    let mut pod = pod();
    let started = start(&pod, &resource_change(), &RULES, now());
    let [resize, change] = started.writes.as_slice() else { panic!("{:?}", started.writes) };
    assert_eq!(resize.target, Target::Resize);
    assert!(change.containers.is_empty());
    assert_eq!(
        resize.to_json(&pod),
        r#"{"metadata":{"uid":"u","resourceVersion":"1"},"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"2"}}}]}}"#,
        "only what differs"
    );
    apply(&started.writes, &mut pod);
    assert!(pod.is_ready());
    assert!(
        pod.annotation("apps.kruise.io/inplace-update-state").unwrap().contains(r#""updateResources":true"#)
    );
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Resources("main".to_owned())));
    pod.status.container_statuses[0].resources = Some(pod.spec.containers[0].resources.clone());
    assert_eq!(completed(&pod, &RULES), Ok(()));
    assert_eq!(refresh(&pod, &RULES, now()).unwrap().writes, []);

    let older = Rules { server: ServerVersion::default(), ..RULES };
    let started = start(&self::pod(), &resource_change(), &older, now());
    assert_eq!(started.writes.len(), 1);
    assert_eq!(started.writes[0].containers[0].resources.limits.get("cpu"), Some("2"));
}

#[test]
fn a_change_that_no_container_shows_is_one_write_and_leaves_the_pod_ready() {
    let labels = BTreeMap::from([("team".to_owned(), Some("blue".to_owned()))]);
    let patch = MetadataPatch { labels, ..MetadataPatch::default() };
    let change = |grace_seconds| UpdateSpec {
        revision: "demo-2".to_owned(),
        metadata_patch: Some(patch.clone()),
        grace_seconds,
        ..UpdateSpec::default()
    };
    for grace_seconds in [0, 10] {
        let mut pod = pod();
        let started = start(&pod, &change(grace_seconds), &RULES, now());
        assert_eq!((started.writes.len(), started.requeue), (1, None));
        apply(&started.writes, &mut pod);
        assert_eq!(
            (pod.label("team"), pod.label("lifecycle.apps.kruise.io/state")),
            (Some("blue"), Some("Normal"))
        );
        assert!(pod.is_ready() && pod.condition_is_true("InPlaceUpdateReady"));
        assert_eq!(completed(&pod, &RULES), Ok(()));
        assert_eq!(refresh(&pod, &RULES, now()).unwrap().writes, []);
    }
    // A hook that was told of the update before is told of its end.
    let mut pod = pod();
    let mut told = PodWrite::default();
    told.set_label("lifecycle.apps.kruise.io/state", "PreparingUpdate");
    apply(&[told], &mut pod);
    apply(&start(&pod, &change(0), &RULES, now()).writes, &mut pod);
    assert_eq!(pod.label("lifecycle.apps.kruise.io/state"), Some("Updating"));
}

#[test]
fn scenario_28_a_resize_that_restarts_takes_the_pod_out_of_service_first() {
    let mut pod = pod();
    let policy = |resource: &str| {
        let policy = json!([{"resourceName": resource, "restartPolicy": "RestartContainer"}]);
        serde_json::from_value::<Box<[crate::observed::ResizePolicy]>>(policy).unwrap()
    };
    pod.spec.containers[0].resize_policy = policy("memory");
    assert_eq!(start(&pod, &resource_change(), &RULES, now()).writes[0].target, Target::Resize);
    pod.spec.containers[0].resize_policy = policy("cpu");
    assert_eq!(start(&pod, &resource_change(), &RULES, now()).writes[0].target, Target::Status);
}

#[test]
fn missing_and_empty_resources_are_the_same() {
    let mut pod = pod();
    apply(&start(&pod, &resource_change(), &RULES, now()).writes, &mut pod);
    pod.spec.containers[0].resources = Resources::default();
    pod.status.container_statuses[0].resources = None;
    assert_eq!(completed(&pod, &RULES), Ok(()));
}

#[test]
fn scenario_34_older_keys_are_read_and_replaced() {
    let mut pod = pod();
    let state = r#"{"revision":"demo-1","updateTimestamp":null,"lastContainerStatuses":null,"nextContainerImages":{"main":"nginx:1.26"}}"#;
    let mut older = PodWrite::default();
    older.set_annotation("inplace-update-state", state);
    older.apply(&mut pod);
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::LaterBatch(vec!["main".to_owned()])));
    let started = start(&pod, &image_change(0), &RULES, now());
    apply(&started.writes, &mut pod);
    assert_eq!(pod.annotation("inplace-update-state"), None);
    assert!(pod.annotation("apps.kruise.io/inplace-update-state").is_some());
}

#[test]
fn annotations_that_nobody_wrote_are_reported_and_not_guessed() {
    let mut pod = pod();
    let mut write = PodWrite::default();
    write.set_annotation("apps.kruise.io/inplace-update-state", "{");
    write.apply(&mut pod);
    assert!(matches!(refresh(&pod, &RULES, now()), Err(StateError::Malformed { .. })));
    assert!(matches!(completed(&pod, &RULES), Err(Incomplete::Unknown(_))));
    write.remove_annotation("apps.kruise.io/inplace-update-state");
    write.set_annotation("apps.kruise.io/inplace-update-grace", r#"{"revision":"demo-1","graceSeconds":5}"#);
    write.apply(&mut pod);
    assert_eq!(refresh(&pod, &RULES, now()), Err(StateError::GraceWithoutState));
}

fn pod_of(containers: &[(&str, Option<i64>)]) -> ObservedPod {
    let mut pod = pod();
    let spec: Vec<Value> = containers
        .iter()
        .map(|(name, priority)| {
            let barrier = priority.map(|priority| {
                json!({"name": "KRUISE_CONTAINER_BARRIER",
                "valueFrom": {"configMapKeyRef": {"name": "p-barrier", "key": format!("p_{priority}")}}})
            });
            json!({"name": name, "image": "app:v1", "env": barrier.into_iter().collect::<Vec<_>>()})
        })
        .collect();
    let status: Vec<Value> = containers
        .iter()
        .map(|(name, _)| json!({"name": name, "image": "app:v1", "imageID": "sha256:1", "ready": true}))
        .collect();
    pod.spec.containers = serde_json::from_value(spec.into()).unwrap();
    pod.status.container_statuses = serde_json::from_value(status.into()).unwrap();
    pod
}

fn images_of(names: &[&str]) -> UpdateSpec {
    UpdateSpec {
        revision: "demo-2".to_owned(),
        container_images: names.iter().map(|name| ((*name).to_owned(), "app:v2".to_owned())).collect(),
        ..UpdateSpec::default()
    }
}

fn batch(pod: &ObservedPod) -> Vec<String> {
    State::of(pod).unwrap().unwrap().container_batches_record.pop().unwrap().containers
}

#[test]
fn scenario_11_containers_change_in_the_order_of_their_priority() {
    let mut pod = pod_of(&[("high", Some(10)), ("low", Some(0)), ("idle", Some(20))]);
    apply(&start(&pod, &images_of(&["high", "low"]), &RULES, now()).writes, &mut pod);
    assert_eq!(batch(&pod), ["high"]);
    let state = State::of(&pod).unwrap().unwrap();
    assert_eq!(state.next_container_images, [("low".to_owned(), "app:v2".to_owned())].into());
    let required = state.pre_check_before_next.unwrap().containers_required_ready;
    assert_eq!(required, ["high"]);
    let waiting = |pod: &ObservedPod| refresh(pod, &RULES, now()).unwrap().progress;
    assert_eq!(waiting(&pod), Progress::Waiting(Incomplete::Image("high".to_owned())));
    pod.status.container_statuses[0].image_id = "sha256:2".into();
    pod.status.container_statuses[0].ready = false;
    assert_eq!(waiting(&pod), Progress::Waiting(Incomplete::NotReady("high".to_owned())));
    pod.status.container_statuses[0].ready = true;
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::LaterBatch(vec!["low".to_owned()])));
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    assert_eq!(&*pod.container("low").unwrap().image, "app:v2");
    let state = State::of(&pod).unwrap().unwrap();
    assert!(!state.has_next() && state.pre_check_before_next.is_none());
    let batches: Vec<_> =
        state.container_batches_record.iter().map(|batch| batch.containers.clone()).collect();
    assert_eq!(batches, [["high"], ["low"]]);
}

#[test]
fn containers_without_a_usable_priority_change_at_once() {
    let mut pod = pod_of(&[("none", None), ("high", Some(1)), ("low", Some(0)), ("odd", Some(0))]);
    let odd = json!([{"name": "KRUISE_CONTAINER_BARRIER", "value": "p"},
        {"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"name": "b", "key": "p"}}}]);
    pod.spec.containers[3].env = serde_json::from_value(odd).unwrap();
    apply(&start(&pod, &images_of(&["none", "high", "low", "odd"]), &RULES, now()).writes, &mut pod);
    assert_eq!(batch(&pod), ["high", "none", "odd"]);
}

/// A Pod of `main` behind the native sidecar `proxy`, whose hand-written variable means nothing.
fn with_sidecar() -> ObservedPod {
    let mut pod = pod_of(&[("proxy", Some(0)), ("main", Some(1))]);
    let (mut spec, mut status) = (pod.spec.containers.to_vec(), pod.status.container_statuses.to_vec());
    spec[0].restart_policy = "Always".into();
    pod.spec.containers = spec.split_off(1).into();
    pod.spec.init_containers = spec.into();
    pod.status.container_statuses = status.split_off(1).into();
    pod.status.init_container_statuses = status.into();
    pod
}

#[test]
fn a_native_sidecar_changes_at_once_and_is_waited_for() {
    let mut pod = with_sidecar();
    apply(&start(&pod, &images_of(&["proxy", "main"]), &RULES, now()).writes, &mut pod);
    assert_eq!(batch(&pod), ["main", "proxy"], "the order of launch is one of containers");
    let images = pod.running_containers().map(|container| &*container.image);
    assert_eq!(images.collect::<Vec<_>>(), ["app:v2"; 2]);
    let runs = |status: &mut ContainerStatus| (status.image, status.restart_count) = ("app:v2".into(), 1);
    runs(&mut pod.status.container_statuses[0]);
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Image("proxy".to_owned())));
    let hash = values::hash::deep_hash(r#"{"image":"app:v2","name":"main"}"#);
    let mut write = PodWrite::default();
    write.set_annotation(
        "apps.kruise.io/runtime-containers-meta",
        format!(r#"{{"containers":[{{"name":"main","hashes":{{"plainHash":{hash}}}}}]}}"#),
    );
    write.apply(&mut pod);
    let told = completed(&pod, &RULES);
    assert_eq!(told, Err(Incomplete::Image("proxy".to_owned())), "the node agent speaks of containers");
    runs(&mut pod.status.init_container_statuses[0]);
    assert_eq!(completed(&pod, &RULES), Ok(()));
}

#[test]
fn a_native_sidecar_is_resized_through_the_same_endpoint() {
    let mut pod = with_sidecar();
    let resources = Resources { limits: [("cpu", "2")].into_iter().collect(), ..Resources::default() };
    let spec = UpdateSpec { container_resources: [("proxy".to_owned(), resources)].into(), ..images_of(&[]) };
    let started = start(&pod, &spec, &RULES, now());
    assert_eq!(
        started.writes[0].to_json(&pod),
        r#"{"metadata":{"uid":"u","resourceVersion":"1"},"spec":{"initContainers":[{"name":"proxy","resources":{"limits":{"cpu":"2"}}}]}}"#,
    );
    apply(&started.writes, &mut pod);
    pod.status.init_container_statuses[0].resources = Some(Resources::default());
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::Resources("proxy".to_owned())));
    pod.status.init_container_statuses[0].resources = Some(pod.spec.init_containers[0].resources.clone());
    assert_eq!(completed(&pod, &RULES), Ok(()));
    pod.status.init_container_statuses[0].resources = None;
    assert_eq!(completed(&pod, &RULES), Ok(()), "an older kubelet reports none");
}

#[test]
fn scenario_12_containers_that_show_the_same_metadata_change_together() {
    let mut pod = pod_of(&[("high", Some(10)), ("low", Some(0)), ("other", Some(0))]);
    let mut spec = images_of(&["other"]);
    for name in ["high", "low"] {
        let mut metadata = ReferencedMetadata::default();
        metadata.annotations.insert("k".to_owned(), "v2".to_owned());
        spec.container_ref_metadata.insert(name.to_owned(), metadata);
    }
    spec.update_env_from_metadata = true;
    apply(&start(&pod, &spec, &RULES, now()).writes, &mut pod);
    assert_eq!(batch(&pod), ["high", "low"]);
    assert_eq!(pod.annotation("k"), Some("v2"));
}

#[test]
fn a_batch_of_resources_alone_is_not_forgotten() {
    let mut pod = pod_of(&[("high", Some(10)), ("low", Some(0))]);
    let mut spec = images_of(&["high"]);
    let resources = Resources { limits: [("cpu", "2")].into_iter().collect(), ..Resources::default() };
    spec.container_resources.insert("low".to_owned(), resources.clone());
    apply(&start(&pod, &spec, &RULES, now()).writes, &mut pod);
    assert_eq!(
        State::of(&pod).unwrap().unwrap().next_container_resources,
        [("low".to_owned(), resources)].into()
    );
    pod.status.container_statuses[0].image_id = "sha256:2".into();
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    assert_eq!(pod.container("low").unwrap().resources.limits.get("cpu"), Some("2"));
    assert!(!State::of(&pod).unwrap().unwrap().has_next());
}

#[test]
fn scenario_5_a_new_environment_is_complete_when_the_node_agent_says_so() {
    let mut pod = pod();
    let env = json!([{"name": "APP_CONFIG", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['k']"}}},
        {"name": "SIDECARSET_VERSION", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['v']"}}}]);
    pod.spec.containers[0].env = serde_json::from_value(env).unwrap();
    let mut metadata = ReferencedMetadata::default();
    metadata.annotations.insert("k".to_owned(), "v1".to_owned());
    let spec = UpdateSpec {
        revision: "demo-2".to_owned(),
        container_ref_metadata: [("main".to_owned(), metadata)].into(),
        update_env_from_metadata: true,
        ..UpdateSpec::default()
    };
    apply(&start(&pod, &spec, &RULES, now()).writes, &mut pod);
    assert_eq!(pod.annotation("k"), Some("v1"));
    let environment = Err(Incomplete::Environment("main".to_owned()));
    assert_eq!(completed(&pod, &RULES), environment);
    let mut report = |id: &str, hash: u32| {
        let mut write = PodWrite::default();
        write.set_annotation(
            "apps.kruise.io/runtime-containers-meta",
            format!(r#"{{"containers":[{{"name":"main","containerID":"{id}","restartCount":0,"hashes":{{"plainHash":1,"extractedEnvFromMetadataHash":{hash}}}}}]}}"#),
        );
        write.apply(&mut pod);
        completed(&pod, &RULES)
    };
    assert_eq!(report("c://1", 1), environment);
    assert_eq!(report("c://0", 4_274_367_333), environment, "of a container that runs no more");
    assert_eq!(report("c://1", 4_274_367_333), Ok(()));
}

#[test]
fn what_the_node_agent_saw_completes_an_image_whose_digest_stayed() {
    let mut pod = pod();
    apply(&start(&pod, &image_change(0), &RULES, now()).writes, &mut pod);
    assert!(completed(&pod, &RULES).is_err());
    let hash = values::hash::deep_hash(r#"{"image":"nginx:1.26","name":"main"}"#);
    let mut write = PodWrite::default();
    write.set_annotation(
        "apps.kruise.io/runtime-containers-meta",
        format!(r#"{{"containers":[{{"name":"other","containerID":"c://1"}},{{"name":"main","containerID":"c://1","hashes":{{"plainHash":{hash}}}}}]}}"#),
    );
    write.apply(&mut pod);
    assert_eq!(completed(&pod, &RULES), Ok(()));
}

#[test]
fn the_gate_says_true_and_nothing_else() {
    let mut pod = pod();
    let odd = crate::write::condition(IN_PLACE_UPDATE_READY, "True", "Why", "x", at("2026-01-01T00:00:00Z"));
    PodWrite { conditions: vec![odd], ..PodWrite::to(Target::Status) }.apply(&mut pod);
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    let gate = pod.condition(IN_PLACE_UPDATE_READY).unwrap();
    assert_eq!((&*gate.reason, gate.since()), ("", Some(at("2026-01-01T00:00:00Z"))));
    assert_eq!(refresh(&pod, &RULES, now()).unwrap().writes, []);
}

#[test]
fn ready_turns_false_only_where_containers_are_ready_and_names_every_gate() {
    let mut pod = pod();
    pod.spec.readiness_gates =
        serde_json::from_value(json!([{"conditionType": "A"}, {"conditionType": "InPlaceUpdateReady"}]))
            .unwrap();
    let conditions = readiness::not_ready(&pod, now());
    assert_eq!(
        &*conditions[1].message,
        r#"corresponding condition of pod readiness gate "A" does not exist., the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False"#
    );
    PodWrite { conditions, ..PodWrite::to(Target::Status) }.apply(&mut pod);
    assert_eq!(readiness::not_ready(&pod, now()), [], "nothing is written twice");
    let mut unready = self::pod();
    unready.status.conditions =
        serde_json::from_value(json!([{"type": "Ready", "status": "False"}])).unwrap();
    assert_eq!(readiness::not_ready(&unready, now()).len(), 1);
}
