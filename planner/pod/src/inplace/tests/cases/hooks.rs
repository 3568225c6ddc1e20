//! Hooks, and the states that they lead to.

use super::*;

pub(super) const HOOKS: &[Case] = &[
    Case {
        thread: "kruise#528",
        about: "one of two labels that hold it still holds it",
        play: || {
            let mut scene = Scene::new().hooked(&json!({"labelsHandler": {"one": "yes", "two": "yes"}}));
            scene.label("one", Some("yes"));
            scene.label("two", Some("yes"));
            scene.wants("demo-2", "nginx:1.26");
            scene.turn();
            scene.label("one", Some("no"));
            scene
        },
        decision: "PreparingUpdate, in service",
    },
    Case {
        thread: "kruise#528",
        about: "one of two labels does not bring it back",
        play: || {
            let mut scene = Scene::new().hooked(&json!({"labelsHandler": {"one": "yes", "two": "yes"}}));
            scene.update("nginx:1.26");
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", true);
            scene.turn();
            scene.label("one", Some("yes"));
            scene
        },
        decision: "Updated, in service",
    },
    Case {
        thread: "kruise#528",
        about: "both labels do",
        play: || {
            let mut scene = Scene::new().hooked(&json!({"labelsHandler": {"one": "yes", "two": "yes"}}));
            scene.update("nginx:1.26");
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", true);
            scene.turn();
            scene.label("one", Some("yes"));
            scene.label("two", Some("yes"));
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#1156",
        about: "a rollback while the hook holds it: it goes back to its life, untouched",
        play: || {
            let mut scene = prepared();
            (scene.target, scene.change) = ("demo-1".to_owned(), None);
            scene
        },
        decision: SERVES,
    },
    Case {
        thread: "kruise#1606",
        about: "let go by its hook, a Pod that was marked not ready is updated",
        play: || {
            let mut scene = prepared();
            scene.label("drained", None);
            scene
        },
        decision: WAITS,
    },
    Case {
        thread: "deletion",
        about: "a Pod that is to be deleted is not updated any more",
        play: || {
            let mut scene = Scene::new();
            scene.label(LIFECYCLE_STATE, Some("PreparingDelete"));
            scene.wants("demo-2", "nginx:1.26");
            scene
        },
        decision: "PreparingDelete, left alone",
    },
    Case {
        thread: "deletion",
        about: "one that was chosen for deletion while it is updated stays so when the update ends",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            scene.label(LIFECYCLE_STATE, Some("PreparingDelete"));
            scene.restarts("docker.io/library/nginx:1.26", "sha256:bb", true);
            scene
        },
        decision: "PreparingDelete, in service",
    },
    Case {
        thread: "kruise#996",
        about: "a gate that is shut counts, whatever Ready a late kubelet wrote over ours",
        play: || {
            let mut scene = Scene::new();
            scene.update("nginx:1.26");
            let late = crate::write::condition("Ready", "True", "", "", scene.now);
            PodWrite { conditions: vec![late], ..PodWrite::to(Target::Status) }.apply(&mut scene.pod);
            scene
        },
        decision: WAITS,
    },
];
