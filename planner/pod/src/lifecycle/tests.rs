use super::*;
use crate::observed::PodCondition;
use crate::revision_labels::RevisionLabels;
use crate::write::condition;
use api::annotations::LIFECYCLE_TIMESTAMP;
use serde_json::{Value, json};
use values::server_version::ServerVersion;

const RULES: Rules = Rules {
    labels: RevisionLabels::CloneSet { short: false },
    sets_updating: inplace::SetsUpdating::Always,
    env_from_metadata: true,
    vertical_scaling: false,
    server: ServerVersion::OLDEST,
};

fn now() -> Timestamp {
    "2026-05-01T08:00:00Z".parse().unwrap()
}

fn hooks(json: Value) -> Lifecycle {
    serde_json::from_value(json).unwrap()
}

fn pod(state: &str, labels: &Value, finalizers: &[&str]) -> ObservedPod {
    let mut metadata = json!({"name": "p", "labels": labels, "finalizers": finalizers});
    if !state.is_empty() {
        metadata["labels"][LIFECYCLE_STATE] = state.into();
    }
    let gates = json!([{"conditionType": "KruisePodReady"}, {"conditionType": "InPlaceUpdateReady"}]);
    let conditions = json!([{"type": "InPlaceUpdateReady", "status": "True"}, {"type": "KruisePodReady", "status": "True"},
        {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]);
    let pod = json!({"metadata": metadata, "spec": {"readinessGates": gates, "nodeName": "n"},
        "status": {"conditions": conditions}});
    ObservedPod::read(&pod.to_string()).unwrap()
}

fn apply(writes: &[PodWrite], pod: &mut ObservedPod) {
    for write in writes {
        write.apply(pod);
    }
}

#[test]
fn hooks_block_by_any_and_release_by_all() {
    let both =
        hooks(json!({"preDelete": {"labelsHandler": {"a": "1"}, "finalizersHandler": ["x/y"]}})).pre_delete;
    let empty = Some(LifecycleHook::default());
    for (hook, labels, finalizers, any, all) in [
        (&both, json!({}), &[][..], false, false),
        (&both, json!({"a": "1"}), &[][..], true, false),
        (&both, json!({"a": "2"}), &[][..], false, false),
        (&both, json!({}), &["x/y"][..], true, false),
        (&both, json!({"a": "1"}), &["x/y"][..], true, true),
        (&None, json!({"a": "1"}), &["x/y"][..], false, false),
        (&empty, json!({}), &[][..], false, true),
    ] {
        let pod = pod("Normal", &labels, finalizers);
        assert_eq!(
            (hooked(hook.as_ref(), &pod.metadata), all_hooked(hook.as_ref(), &pod.metadata)),
            (any, all)
        );
    }
}

#[test]
fn scenario_19_the_hook_holds_before_the_update_and_after_it() {
    let hooks = hooks(json!({"inPlaceUpdate": {"labelsHandler": {"hook": "1"}}}));
    let mut pod = pod("Normal", &json!({"hook": "1"}), &[]);
    let BeforeUpdate::Prepare(writes) = before_update(&pod, &hooks, now()) else { panic!("not held") };
    apply(&writes, &mut pod);
    assert_eq!(State::of(&pod), Some(State::PreparingUpdate));
    assert_eq!(pod.annotation(LIFECYCLE_TIMESTAMP), Some("2026-05-01T08:00:00Z"));
    assert_eq!(before_update(&pod, &hooks, now()), BeforeUpdate::Wait);
    let mut release = PodWrite::default();
    release.labels.insert("hook".to_owned(), None);
    release.apply(&mut pod);
    assert_eq!(before_update(&pod, &hooks, now()), BeforeUpdate::Update);

    release.set_label(LIFECYCLE_STATE, "Updating");
    release.apply(&mut pod);
    assert_eq!(next_state(&pod, &hooks, Flavour::CloneSet, true, false), None);
    assert_eq!(next_state(&pod, &hooks, Flavour::CloneSet, true, true), Some(State::Updated));
    apply(&enter(&pod, State::Updated, true, now()), &mut pod);
    assert_eq!(next_state(&pod, &hooks, Flavour::CloneSet, true, true), None);
    let mut back = PodWrite::default();
    back.set_label("hook", "1");
    back.apply(&mut pod);
    assert_eq!(next_state(&pod, &hooks, Flavour::CloneSet, true, true), Some(State::Normal));
}

#[test]
fn scenario_20_a_newer_template_puts_the_hook_back() {
    let hooks = hooks(
        json!({"inPlaceUpdate": {"labelsHandler": {"hook": "1"}, "finalizersHandler": ["x/y"], "markPodNotReady": true}}),
    );
    let mut pod = pod("Updated", &json!({}), &[]);
    let BeforeUpdate::Prepare(writes) = before_update(&pod, &hooks, now()) else { panic!("not held") };
    let targets: Vec<Target> = writes.iter().map(|write| write.target).collect();
    assert_eq!(targets, [Target::Status, Target::Pod], "not ready first; finalizers belong to the Pod");
    apply(&writes, &mut pod);
    assert_eq!(State::of(&pod), Some(State::PreparingUpdate));
    assert!(all_hooked(hooks.in_place_update.as_ref(), &pod.metadata));
    assert!(!pod.condition_is_true("KruisePodReady"));
    assert!(!pod.is_ready());
    assert_eq!(before_update(&pod, &hooks, now()), BeforeUpdate::Wait);
}

#[test]
fn scenario_21_a_rollback_before_the_update_returns_to_normal() {
    let hooks = hooks(json!({"inPlaceUpdate": {"labelsHandler": {"hook": "1"}, "markPodNotReady": true}}));
    let mut pod = pod("Normal", &json!({"hook": "1"}), &[]);
    let BeforeUpdate::Prepare(writes) = before_update(&pod, &hooks, now()) else { panic!("not held") };
    assert_eq!(writes.len(), 1, "labels go with the condition");
    apply(&writes, &mut pod);
    assert!(!pod.condition_is_true("KruisePodReady"));
    assert_eq!(next_state(&pod, &hooks, Flavour::CloneSet, false, true), None);
    let refresh = refresh(&pod, &hooks, Flavour::CloneSet, &RULES, true, now()).unwrap();
    assert_eq!(refresh.writes.len(), 1);
    apply(&refresh.writes, &mut pod);
    assert_eq!(State::of(&pod), Some(State::Normal));
    assert!(pod.condition_is_true("KruisePodReady"), "the key goes on entering Normal, too");
}

#[test]
fn a_key_that_another_version_left_on_a_normal_pod_is_removed() {
    let mut pod = pod("Normal", &json!({}), &[]);
    let leaked = condition(
        "KruisePodReady",
        "False",
        "",
        r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#,
        now(),
    );
    PodWrite { conditions: vec![leaked], ..PodWrite::to(Target::Status) }.apply(&mut pod);
    let refresh = refresh(&pod, &Lifecycle::default(), Flavour::CloneSet, &RULES, true, now()).unwrap();
    apply(&refresh.writes, &mut pod);
    assert!(pod.condition_is_true("KruisePodReady"));
}

#[test]
fn a_pod_that_is_kept_after_all_serves_again_whatever_the_hooks_say_by_then() {
    let hooks = hooks(json!({"preDelete": {"finalizersHandler": ["x/y"], "markPodNotReady": true}}));
    let mut pod = pod("Normal", &json!({}), &["x/y"]);
    apply(&before_delete(&pod, &hooks, now()).unwrap(), &mut pod);
    assert!(!pod.condition_is_true("KruisePodReady"));
    apply(&enter(&pod, State::PreparingNormal, false, now()), &mut pod);
    assert!(pod.condition_is_true("KruisePodReady"), "{:?}", pod.condition("KruisePodReady"));
}

#[test]
fn scenario_17_and_18_the_delete_hook_holds_the_pod_and_can_take_it_out_of_service() {
    for mark in [false, true] {
        let hooks = hooks(json!({"preDelete": {"finalizersHandler": ["x/y"], "markPodNotReady": mark}}));
        let mut pod = pod("Normal", &json!({}), &["x/y"]);
        let writes = before_delete(&pod, &hooks, now()).unwrap();
        assert_eq!(writes.len(), 1);
        apply(&writes, &mut pod);
        assert_eq!(State::of(&pod), Some(State::PreparingDelete));
        assert_eq!(before_delete(&pod, &hooks, now()), Some(Vec::new()), "told once");
        let message = &pod.condition("KruisePodReady").unwrap().message;
        let expected = if mark { r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"# } else { "" };
        assert_eq!((&**message, pod.is_ready()), (expected, !mark));
        assert_eq!(before_update(&pod, &hooks, now()), BeforeUpdate::Refuse("PreparingDelete".to_owned()));
        pod.metadata.finalizers = [].into();
        assert_eq!(before_delete(&pod, &hooks, now()), None);
    }
}

#[test]
fn scenario_22_new_pods_wait_for_their_hook_or_their_node() {
    let none = Lifecycle::default();
    let hook = hooks(json!({"preNormal": {"labelsHandler": {"in": "1"}}}));
    let placed = pod("PreparingNormal", &json!({}), &[]);
    let mut unplaced = placed.clone();
    unplaced.spec.node_name = "".into();
    let hooked = pod("PreparingNormal", &json!({"in": "1"}), &[]);
    let next = |pod, hooks, flavour| next_state(pod, hooks, flavour, true, true);
    assert_eq!(next(&placed, &none, Flavour::CloneSet), Some(State::Normal));
    assert_eq!(next(&unplaced, &none, Flavour::CloneSet), None);
    assert_eq!(next(&unplaced, &none, Flavour::StatefulSet), Some(State::Normal));
    assert_eq!(next(&placed, &hook, Flavour::CloneSet), None);
    assert_eq!(next(&hooked, &hook, Flavour::CloneSet), Some(State::Normal));
    assert!(!is_normal(&placed) && is_normal(&pod("", &json!({}), &[])));
}

#[test]
fn a_new_pod_needs_one_write_when_it_is_on_its_node() {
    let mut pod = pod("PreparingNormal", &json!({}), &[]);
    pod.status.conditions = [].into();
    pod.spec.node_name = "".into();
    let planned = |pod: &ObservedPod| {
        refresh(pod, &Lifecycle::default(), Flavour::CloneSet, &RULES, true, now()).unwrap().writes
    };
    assert_eq!(planned(&pod), []);
    pod.spec.node_name = "n".into();
    let writes = planned(&pod);
    assert_eq!(writes.len(), 1);
    apply(&writes, &mut pod);
    assert_eq!(State::of(&pod), Some(State::Normal));
    assert!(pod.condition_is_true("InPlaceUpdateReady"));
    assert_eq!(planned(&pod), []);
}

#[test]
fn an_unknown_state_is_not_updated_and_not_touched() {
    let pod = pod("Sleeping", &json!({}), &[]);
    assert_eq!(
        before_update(&pod, &Lifecycle::default(), now()),
        BeforeUpdate::Refuse("Sleeping".to_owned())
    );
    assert_eq!(next_state(&pod, &Lifecycle::default(), Flavour::CloneSet, true, true), None);
    assert!(!is_normal(&pod));
}

#[test]
fn pods_are_specified_for_deletion_by_label_or_by_name() {
    let plain = pod("Normal", &json!({}), &[]);
    assert!(!is_specified_delete(&plain, &[]));
    assert!(is_specified_delete(&plain, &["p".to_owned()]));
    assert!(is_specified_delete(&pod("Normal", &json!({SPECIFIED_DELETE: ""}), &[]), &[]));
    let mut marked = plain.clone();
    specify_delete(&plain).unwrap().apply(&mut marked);
    assert_eq!(marked.label(SPECIFIED_DELETE), Some("true"));
    assert_eq!(specify_delete(&marked), None);
}

#[test]
fn without_a_hook_for_updates_the_pod_is_normal_at_once() {
    for lifecycle in [Lifecycle::default(), hooks(json!({"preDelete": {"finalizersHandler": ["x/y"]}}))] {
        let updating = pod("Updating", &json!({}), &[]);
        assert_eq!(next_state(&updating, &lifecycle, Flavour::CloneSet, true, true), Some(State::Normal));
        let updated = pod("Updated", &json!({}), &[]);
        assert_eq!(next_state(&updated, &lifecycle, Flavour::CloneSet, true, true), Some(State::Normal));
    }
}

#[test]
fn the_first_condition_of_the_gate_is_false_when_a_hook_comes_before_its_controller() {
    let mut pod = pod("Normal", &json!({}), &["x/y"]);
    let others = |condition: &&PodCondition| &*condition.kind != "KruisePodReady";
    pod.status.conditions = pod.status.conditions.iter().filter(others).cloned().collect();
    let hooks = hooks(json!({"preDelete": {"finalizersHandler": ["x/y"], "markPodNotReady": true}}));
    apply(&before_delete(&pod, &hooks, now()).unwrap(), &mut pod);
    assert_eq!(&*pod.condition("KruisePodReady").unwrap().status, "False");
}

#[test]
fn all_that_is_due_for_a_new_pod_is_one_write() {
    let gates = json!([{"conditionType": "KruisePodReady"}, {"conditionType": "InPlaceUpdateReady"}]);
    let new = |node: &str| {
        let metadata = json!({"name": "p", "labels": {LIFECYCLE_STATE: "PreparingNormal"}});
        let pod = json!({"metadata": metadata, "spec": {"readinessGates": gates, "nodeName": node}});
        ObservedPod::read(&pod.to_string()).unwrap()
    };
    let writes = |pod: &ObservedPod, hooks: &Lifecycle| {
        refresh(pod, hooks, Flavour::CloneSet, &RULES, true, now()).unwrap().writes
    };
    let none = Lifecycle::default();
    assert_eq!(writes(&new(""), &none), [], "it can't become ready before it is on a node");
    let mut pod = new("n");
    let first = writes(&pod, &none);
    assert_eq!(first.len(), 1, "{first:?}");
    apply(&first, &mut pod);
    assert_eq!(State::of(&pod), Some(State::Normal));
    assert!(pod.condition_is_true("KruisePodReady") && pod.condition_is_true("InPlaceUpdateReady"));
    assert_eq!(writes(&pod, &none), []);

    let held = hooks(json!({"preNormal": {"labelsHandler": {"warm": "yes"}}}));
    let mut pod = new("n");
    let first = writes(&pod, &held);
    assert_eq!(first.len(), 1, "{first:?}");
    apply(&first, &mut pod);
    assert_eq!(State::of(&pod), Some(State::PreparingNormal), "its hook holds its state, not its readiness");
    assert!(pod.condition_is_true("KruisePodReady") && pod.condition_is_true("InPlaceUpdateReady"));
}
