//! The images of a container: those that an update leads to, and what the runtime says of them.

use super::*;

pub(super) const IMAGES: &[Case] = &[
    Case {
        thread: "kruise#369",
        about: "a restarted container that runs the new image ends its update, and the rollout goes on",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.restarts("nginx:1.26", "sha256:bb", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#369",
        about: "until then it waits, however long that takes",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.now = at("2026-05-02T08:00:00Z");
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "kruise#635",
        about: "another repository with the same content: the image's identity stays, its name tells",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx-copy:1.25");
            scene.restarts("docker.io/library/nginx-copy:1.25", "sha256:aa", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#1493",
        about: "another spelling of the image that runs is no other image",
        play: || {
            let mut scene = Scene::new();
            scene.wants("demo-2", "docker.io/library/nginx:1.25");
            scene.turn();
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#2297",
        about: "another tag of the same content, which the runtime goes on to report by its first name",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#2297",
        about: "the same before the container was replaced",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "kruise#2297",
        about: "the same while the new container starts",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", false);
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "kruise#2297",
        about: "a node agent whose hash is built from the other name does not stand in the way",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            scene.reports(&json!({"plainHash": 3_430_505_291_u64}));
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#1493",
        about: "a node agent that saw the new image started ends the update by itself",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.25-rebuilt");
            let hash = values::hash::deep_hash(r#"{"image":"nginx:1.25-rebuilt","name":"main"}"#);
            scene.reports(&json!({"plainHash": hash}));
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#2297",
        about: "an update that OpenKruise began, which records no restarts, ends by the image alone",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            let mut forget = PodWrite::default();
            forget.remove_annotation("kutter.io/inplace-update-restarts");
            forget.apply(&mut scene.pod);
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            assert_eq!(scene.turn(), WAITS);
            scene.restarts("docker.io/library/nginx:latest", "sha256:bb", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "crash loop",
        about: "the old image starts once more before the kubelet knows of the new one",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.generations(2, 1);
            scene.restarts("docker.io/library/nginx:1.25", "sha256:aa", true);
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "crash loop",
        about: "the same where the old tag was moved meanwhile",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.generations(2, 1);
            scene.restarts("docker.io/library/nginx:1.25", "sha256:cc", true);
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "crash loop",
        about: "the kubelet knows of the new image and has started it",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.generations(2, 2);
            scene.restarts("docker.io/library/nginx:latest", "sha256:bb", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#418",
        about: "back to an image without a tag, which the runtime reports with one",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx");
            scene.restarts("docker.io/library/nginx:latest", "sha256:aa", true);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "node lost",
        about: "a node that is silent says nothing of the update, and it waits",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            let lost = crate::write::condition("Ready", "False", "NodeNotReady", "", scene.now);
            PodWrite { conditions: vec![lost], ..PodWrite::to(Target::Status) }.apply(&mut scene.pod);
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "node lost",
        about: "the node is back and has done what it was asked for",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.now = at("2026-05-01T09:00:00Z");
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", false);
            scene
        },
        decision: SERVES,
    },
];
