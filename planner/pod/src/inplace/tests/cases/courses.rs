//! Updates that do not go straight on, and such as nothing has to restart for.

use super::*;

pub(super) const COURSES: &[Case] = &[
    Case {
        thread: "kruise#463",
        about: "while the grace period runs the Pod has its new revision, but is not done",
        play: || {
            let mut scene = in_grace();
            scene.now = at("2026-05-01T08:00:29Z");
            scene
        },
        decision: "Updating, out of service: Grace",
    },
    Case {
        thread: "kruise#463",
        about: "after it the image changes before anything is told to be done",
        play: || {
            let mut scene = in_grace();
            scene.now = at("2026-05-01T08:00:31Z");
            assert_eq!(scene.turn(), "Updating, out of service");
            assert_eq!(&*scene.pod.spec.containers[0].image, "nginx:stable");
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "kruise#418",
        about: "a rollback in the grace period waits for its end, and then takes the Pod back",
        play: || {
            let mut scene = in_grace();
            scene.now = at("2026-05-01T08:00:31Z");
            scene.turn();
            scene.wants("demo-1", "nginx:1.25");
            scene.turn();
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "superseded",
        about: "the end of an update does not end a newer one",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", true);
            scene.wants("demo-3", "nginx:1.27");
            scene.turn();
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "superseded",
        about: "nor do the restarts of an earlier one that has the same content",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            assert_eq!(scene.turn(), SERVES);
            scene.now = at("2026-05-01T09:00:00Z");
            scene.wants("demo-3", "nginx:1.25-again");
            scene.turn();
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "superseded",
        about: "a newer one of which nothing restarts still waits for what the older one changed",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.target = "demo-3".to_owned();
            let metadata_patch = Some(MetadataPatch::default());
            let revision = scene.target.clone();
            scene.change = Some(UpdateSpec { revision, metadata_patch, ..UpdateSpec::default() });
            scene.turn();
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "nothing restarts",
        about: "a label alone is done with its write",
        play: || {
            let mut scene = Scene::new();
            scene.target = "demo-2".to_owned();
            let labels = [("v".to_owned(), Some("2".to_owned()))].into();
            let metadata_patch = Some(MetadataPatch { labels, ..MetadataPatch::default() });
            let revision = scene.target.clone();
            scene.change = Some(UpdateSpec { revision, metadata_patch, ..UpdateSpec::default() });
            scene.turn();
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "docs/behaviour/in-place-update.md#completion",
        about: "a Pod whose containers have no status yet starts with the new image, and is done",
        play: || {
            let mut scene = Scene::new();
            scene.pod.status.container_statuses = Box::default();
            scene.wants("demo-2", "nginx:1.26");
            scene.turn();
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "status missing",
        about: "injected containers without a status do not count, for they were not changed",
        play: || {
            let mut scene = Scene::new();
            let sidecar = r#"[{"name":"main","image":"nginx:1.25"},{"name":"proxy","image":"proxy:1"}]"#;
            scene.pod.spec.containers = serde_json::from_str(sidecar).unwrap();
            scene.update("nginx:1.26");
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "status missing",
        about: "a changed container whose status is gone does count",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.pod.status.container_statuses = Box::default();
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "metadata env",
        about: "a new environment waits for the node agent",
        play: || {
            let mut scene = shows_metadata();
            scene.turn();
            scene.reports(&json!({"plainHash": 1, "extractedEnvFromMetadataHash": 1}));
            scene
        },
        decision: "Updating, out of service: Environment",
    },
    Case {
        thread: "metadata env",
        about: "the node agent has seen the container with it",
        play: || {
            let mut scene = shows_metadata();
            scene.turn();
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            scene.reports(&json!({"plainHash": 1, "extractedEnvFromMetadataHash": 4_274_367_333_u64}));
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "metadata env",
        about: "what it saw of the container before does not count",
        play: || {
            let mut scene = shows_metadata();
            scene.turn();
            scene.reports(&json!({"plainHash": 1, "extractedEnvFromMetadataHash": 4_274_367_333_u64}));
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            scene
        },
        decision: "Updating, out of service: Environment",
    },
    Case {
        thread: "kruise#2519",
        about: "a resize ends though the kubelet does not report extended resources",
        play: || {
            let mut scene = Scene::new();
            let mut resources = scene.pod.spec.containers[0].resources.clone();
            resources.limits = [("cpu", "1"), ("example.com/device", "1")].into_iter().collect();
            scene.pod.spec.containers[0].resources = resources;
            scene.target = "demo-2".to_owned();
            scene.change = Some(resource_change());
            assert_eq!(scene.turn(), "Updating, in service: Resources");
            let carried_out = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
            scene.status().resources = serde_json::from_value(carried_out).unwrap();
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "unreadable",
        about: "a record that nobody of us wrote is told of",
        play: || {
            let mut scene = Scene::new();
            let mut write = PodWrite::default();
            write.set_annotation("apps.kruise.io/inplace-update-state", "[]]");
            write.apply(&mut scene.pod);
            scene
        },
        decision: "annotation apps.kruise.io/inplace-update-state can't be read: trailing characters at line 1 column 3; remove it if the Pod runs what it should",
    },
];
