//! What users of OpenKruise met with, a case for each thread: what was recorded when the update began, what
//! the kubelet reports, and what is decided then.

use api::kinds::shared::Lifecycle;

use super::*;
use crate::lifecycle::{self, BeforeUpdate, Flavour};
use crate::observed::ContainerStatus;

mod courses;
mod hooks;
mod images;

/// A Pod of one container `main`, `nginx:1.25`, and what its CloneSet wants of it.
struct Scene {
    pod: ObservedPod,
    hooks: Lifecycle,
    /// The change to make, if it is the Pod's turn.
    change: Option<UpdateSpec>,
    /// The revision that the Pod belongs to.
    target: String,
    now: Timestamp,
}

impl Scene {
    fn new() -> Self {
        let (hooks, target) = (Lifecycle::default(), "demo-1".to_owned());
        Self { pod: pod(), hooks, change: None, target, now: now() }
    }

    fn hooked(mut self, hook: &Value) -> Self {
        self.hooks = serde_json::from_value(json!({"inPlaceUpdate": hook})).unwrap();
        self
    }

    fn label(&mut self, key: &str, value: Option<&str>) {
        let mut write = PodWrite::default();
        write.labels.insert(key.to_owned(), value.map(str::to_owned));
        write.apply(&mut self.pod);
    }

    /// The template gets this image; it is the Pod's turn.
    fn wants(&mut self, revision: &str, image: &str) {
        self.target = revision.to_owned();
        let mut change = image_change(0);
        (change.revision, change.container_images) =
            (revision.to_owned(), [("main".to_owned(), image.to_owned())].into());
        self.change = Some(change);
    }

    /// The template gets this image, and the Pod's update begins.
    fn update(&mut self, image: &str) {
        self.wants("demo-2", image);
        assert_eq!(self.turn(), "Updating, out of service: Image");
    }

    fn status(&mut self) -> &mut ContainerStatus {
        self.pod.status.container_statuses.first_mut().unwrap()
    }

    /// The kubelet has started the container again.
    fn restarts(&mut self, image: &str, content: &str, ready: bool) {
        let status = self.status();
        (status.image, status.image_id) = (image.into(), format!("docker.io/library/nginx@{content}").into());
        status.restart_count += 1;
        status.container_id = format!("c://main-{}", status.restart_count).into();
        status.ready = ready;
    }

    /// What the Pod's `spec` has come to, and how far the kubelet follows.
    fn generations(&mut self, asked: i64, observed: i64) {
        self.pod.metadata.generation = asked;
        self.pod.status.observed_generation = observed;
    }

    fn reports(&mut self, hashes: &Value) {
        let id = self.pod.status.container_statuses[0].container_id.to_string();
        let meta = json!({"containers": [{"name": "main", "containerID": id, "hashes": hashes}]});
        let mut write = PodWrite::default();
        write.set_annotation("apps.kruise.io/runtime-containers-meta", meta.to_string());
        write.apply(&mut self.pod);
    }

    /// One reconcile of the Pod. Gives what comes of it.
    fn turn(&mut self) -> String {
        let is_updated = RULES.labels.is_at(&self.pod, &self.target);
        let looked =
            lifecycle::refresh(&self.pod, &self.hooks, Flavour::CloneSet, &RULES, is_updated, self.now);
        let mut progress = match looked {
            Ok(looked) => {
                apply(&looked.writes, &mut self.pod);
                looked.progress
            }
            Err(error) => return error.to_string(),
        };
        if let (false, Some(change)) = (is_updated, self.change.clone()) {
            match lifecycle::before_update(&self.pod, &self.hooks, self.now) {
                BeforeUpdate::Update => {
                    apply(&start(&self.pod, &change, &RULES, self.now).writes, &mut self.pod);
                    progress =
                        completed(&self.pod, &RULES).map_or_else(Progress::Waiting, |()| Progress::Done);
                }
                BeforeUpdate::Prepare(writes) => apply(&writes, &mut self.pod),
                BeforeUpdate::Wait => {}
                BeforeUpdate::Refuse(state) => return format!("{state}, left alone"),
            }
        }
        let state = self.pod.label(LIFECYCLE_STATE).unwrap_or_default();
        let service = if readiness::gate_is_open(&self.pod) { "in service" } else { "out of service" };
        let waits = match progress {
            Progress::Waiting(incomplete) => {
                let kind = format!("{incomplete:?}");
                format!(": {}", kind.split('(').next().unwrap_or_default())
            }
            Progress::Done | Progress::Advances => String::new(),
        };
        format!("{state}, {service}{waits}")
    }
}

struct Case {
    /// The thread, or the edge of docs/behaviour/in-place-update.md.
    thread: &'static str,
    about: &'static str,
    play: fn() -> Scene,
    decision: &'static str,
}

const SERVES: &str = "Normal, in service";
const WAITS: &str = "Updating, out of service: Image";
/// The container's environment shows annotation `k`.
const SHOWS_K: &str =
    r#"[{"name":"APP_CONFIG","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['k']"}}}]"#;

fn shows_metadata() -> Scene {
    let mut scene = Scene::new();
    scene.pod.spec.containers[0].env = serde_json::from_str(SHOWS_K).unwrap();
    let mut metadata = ReferencedMetadata::default();
    metadata.annotations.insert("k".to_owned(), "v1".to_owned());
    scene.target = "demo-2".to_owned();
    scene.change = Some(UpdateSpec {
        revision: "demo-2".to_owned(),
        container_ref_metadata: [("main".to_owned(), metadata)].into(),
        update_env_from_metadata: true,
        ..UpdateSpec::default()
    });
    scene
}

fn in_grace() -> Scene {
    let mut scene = Scene::new();
    scene.wants("demo-2", "nginx:stable");
    scene.change.as_mut().unwrap().grace_seconds = 30;
    assert_eq!(scene.turn(), "Updating, out of service: Grace");
    scene
}

fn prepared() -> Scene {
    let hook = json!({"labelsHandler": {"drained": "no"}, "markPodNotReady": true});
    let mut scene = Scene::new().hooked(&hook);
    scene.label("drained", Some("no"));
    scene.wants("demo-2", "nginx:1.26");
    assert_eq!(scene.turn(), "PreparingUpdate, in service");
    scene
}

#[test]
fn every_thread_has_its_decision() {
    let cases: Vec<&Case> = [images::IMAGES, courses::COURSES, hooks::HOOKS].into_iter().flatten().collect();
    assert!(cases.len() >= 20);
    for Case { thread, about, play, decision } in cases {
        let found = play().turn();
        assert_eq!(found, *decision, "{thread}: {about}");
    }
}

#[test]
fn kruise_1156_a_rolled_back_pod_keeps_nothing_of_its_preparation() {
    let mut scene = prepared();
    assert!(
        !scene.pod.condition_is_true("KruisePodReady") || !scene.pod.has_readiness_gate("KruisePodReady")
    );
    (scene.target, scene.change) = ("demo-1".to_owned(), None);
    scene.turn();
    assert_eq!(&*scene.pod.spec.containers[0].image, "nginx:1.25");
    assert!(crate::kruise_pod_ready::keys(&scene.pod).is_empty());
}

/// Two containers, `side` before `main`; v2 changes both, and the image of `side` can't be pulled.
fn half_updated() -> ObservedPod {
    let mut pod = pod_of(&[("side", Some(5)), ("main", Some(0))]);
    apply(&start(&pod, &images_of(&["side", "main"]), &RULES, now()).writes, &mut pod);
    assert_eq!(&*pod.container("main").unwrap().image, "app:v1");
    pod
}

fn change(name: &str, image: &str) -> UpdateSpec {
    UpdateSpec {
        revision: "demo-3".to_owned(),
        container_images: [(name.to_owned(), image.to_owned())].into(),
        ..UpdateSpec::default()
    }
}

fn image<'p>(pod: &'p ObservedPod, name: &str) -> &'p str {
    &pod.container(name).unwrap().image
}

#[test]
fn a_newer_update_goes_on_with_the_containers_that_still_wait() {
    let mut pod = half_updated();
    apply(&start(&pod, &change("side", "app:v3"), &RULES, now()).writes, &mut pod);
    assert_eq!((image(&pod, "side"), image(&pod, "main")), ("app:v3", "app:v1"));
    assert_eq!(completed(&pod, &RULES), Err(Incomplete::LaterBatch(vec!["main".to_owned()])));
    pod.status.container_statuses[0].image_id = "sha256:3".into();
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    assert_eq!(image(&pod, "main"), "app:v2");
}

#[test]
fn a_newer_update_of_the_container_that_waits_keeps_its_place() {
    let mut pod = half_updated();
    apply(&start(&pod, &change("main", "app:v3"), &RULES, now()).writes, &mut pod);
    assert_eq!((image(&pod, "side"), image(&pod, "main")), ("app:v2", "app:v1"), "side is not ready yet");
    pod.status.container_statuses[0].image_id = "sha256:2".into();
    pod.status.container_statuses[0].ready = false;
    assert_eq!(refresh(&pod, &RULES, now()).unwrap().writes, []);
    pod.status.container_statuses[0].ready = true;
    apply(&refresh(&pod, &RULES, now()).unwrap().writes, &mut pod);
    assert_eq!(image(&pod, "main"), "app:v3");
}

#[test]
fn a_newer_update_of_metadata_waits_for_the_environment_of_the_older_one() {
    let mut scene = shows_metadata();
    scene.turn();
    scene.target = "demo-3".to_owned();
    let labels = [("v".to_owned(), Some("2".to_owned()))].into();
    let metadata_patch = Some(MetadataPatch { labels, ..MetadataPatch::default() });
    scene.change =
        Some(UpdateSpec { revision: "demo-3".to_owned(), metadata_patch, ..UpdateSpec::default() });
    assert_eq!(scene.turn(), "Updating, out of service: Environment");
    assert_eq!(scene.pod.label("v"), Some("2"));
    scene.reports(&json!({"plainHash": 1, "extractedEnvFromMetadataHash": 4_274_367_333_u64}));
    assert_eq!(scene.turn(), SERVES);
}
