//! Updates in place from wherever a Pod may be, with writes that are refused or come to nothing.

use std::sync::Arc;

use api::conditions::IN_PLACE_UPDATE_READY;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixture::{Fleet, image, template};
use super::super::*;
use super::{in_place, specify, with};
use crate::workload::snapshot::Refusal;
use ::pod::write::PodWrite;
use ::pod::write::{Target, condition};

/// The writes of the plan to this Pod.
fn writes<'p>(plan: &'p Plan<Status>, name: &str) -> &'p [PodWrite] {
    let found = plan.update.iter().find_map(|action| match action {
        Action::WritePod { pod, writes, .. } if pod.name == name => Some(writes.as_slice()),
        _ => None,
    });
    found.unwrap_or_default()
}

fn closes_gate(write: &PodWrite) -> bool {
    let shut = |condition: &::pod::observed::PodCondition| {
        *condition.kind == *IN_PLACE_UPDATE_READY && &*condition.status == "False"
    };
    write.conditions.iter().any(shut)
}

fn opens_gate(write: &PodWrite) -> bool {
    let open = |condition: &::pod::observed::PodCondition| {
        *condition.kind == *IN_PLACE_UPDATE_READY && &*condition.status == "True"
    };
    write.conditions.iter().any(open)
}

/// The first write of an update gets through, the second does not.
fn half_begun() -> (Fleet, String) {
    let mut fleet = Fleet::running(2, in_place(json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    let plan = fleet.settled_plan();
    let name = plan.update[0].object().to_owned();
    let first = writes(&plan, &name)[0].clone();
    assert!(closes_gate(&first));
    first.apply(fleet.pod_mut(&name));
    (fleet, name)
}

/// Somebody else wrote to the Pod in between: the update continues, and the Pod does not serve in between.
#[test]
fn kruise_1351_a_conflict_is_no_failure_and_does_not_let_the_pod_flap() {
    let (mut fleet, name) = half_begun();
    let mut other = PodWrite::default();
    other.set_annotation("somebody", "else");
    other.apply(fleet.pod_mut(&name));
    let plan = fleet.step();
    assert!(!writes(&plan, &name).iter().any(|write| opens_gate(write) || closes_gate(write)), "{plan}");
    assert_eq!(image(fleet.pod_mut(&name)), "nginx:2");
    assert!(fleet.status().conditions.is_empty());
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 2);
}

/// The API server refuses the Pod: it serves again at once, others are updated in its place, and it is left
/// alone until it is to be tried again.
#[test]
fn kruise_1730_a_refused_pod_serves_and_others_are_updated() {
    let (mut fleet, name) = half_begun();
    let uid = fleet.pod_mut(&name).metadata.uid.clone();
    let since = fleet.now;
    fleet.held.insert(uid, Refusal { message: "no such registry".into(), since });
    let plan = fleet.step();
    assert!(writes(&plan, &name).iter().any(opens_gate), "{plan}");
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 1, "the other one");
    assert_eq!((fleet.available(), fleet.plan().is_idle()), (2, true));
    let explanation = fleet.plan().explanation;
    let blocker = &explanation.blockers[0];
    assert_eq!(
        (blocker.pod.as_str(), blocker.reason, blocker.since),
        (name.as_str(), "Refused", Some(since))
    );
    assert!(blocker.message.contains("no such registry") && !explanation.is_complete);
    fleet.held.clear();
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 2);
}

/// A Pod that its hook let go and that is refused then does not have to ask its hook again.
#[test]
fn a_refused_pod_stays_prepared() {
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["serves"] = "yes".into();
    let spec =
        json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"serves": "yes"}}}, "template": labelled});
    let mut fleet = Fleet::running(1, with(in_place(json!({"maxUnavailable": 1})), spec));
    labelled["spec"]["containers"][0]["image"] = "nginx:2".into();
    fleet.edit(json!({"spec": {"template": labelled}}));
    fleet.settle();
    let name = fleet.name(0);
    let uid = fleet.pods[0].metadata.uid.clone();
    fleet.held.insert(uid, Refusal { message: "no".into(), since: fleet.now });
    let mut release = PodWrite::default();
    release.labels.insert("serves".to_owned(), None);
    release.apply(fleet.pod_mut(&name));
    fleet.settle();
    assert_eq!(fleet.pods[0].label("lifecycle.apps.kruise.io/state"), Some("PreparingUpdate"));
    fleet.held.clear();
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:2"), 1);
}

/// The type decides who is updated, not who serves.
#[test]
fn kruise_2291_pods_become_available_and_finish_their_update_under_on_delete() {
    let mut fleet = Fleet::new(json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}));
    fleet.settle();
    assert_eq!(fleet.available(), 3);
    let mut fleet = Fleet::running(3, in_place(json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    fleet.step();
    fleet.edit(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
    fleet.settle();
    assert_eq!((fleet.available(), fleet.with_image("nginx:2")), (3, 1));
}

/// A Pod that is to be deleted while it is updated is deleted and replaced.
#[test]
fn deletion_while_updating_has_an_end() {
    for by_user in [false, true] {
        let mut fleet = Fleet::running(3, in_place(json!({"maxUnavailable": 1})));
        fleet.image("nginx:broken");
        fleet.step();
        let updating =
            |pod: &Arc<ObservedPod>| pod.label("lifecycle.apps.kruise.io/state") == Some("Updating");
        let index = fleet.pods.iter().position(updating).unwrap();
        let name = fleet.name(index);
        if by_user {
            fleet.remove(&name);
        } else {
            specify(&mut fleet, index);
        }
        fleet.image("nginx:3");
        fleet.settle();
        assert!(fleet.pods.iter().all(|pod| *pod.metadata.name != *name));
        assert_eq!((fleet.pods.len(), fleet.with_image("nginx:3")), (3, 3));
    }
}

/// A node is lost with a Pod that is updated: that is reported, and ends when the Pod is given up.
#[test]
fn node_lost_while_updating_has_an_end() {
    let mut fleet = Fleet::running(3, in_place(json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    let name = fleet.step().update[0].object().to_owned();
    let now = fleet.now;
    let lost = vec![condition("Ready", "Unknown", "NodeStatusUnknown", "", now)];
    PodWrite { conditions: lost, ..PodWrite::to(Target::Status) }.apply(fleet.pod_mut(&name));
    let blockers = fleet.settled_plan().explanation.blockers;
    assert_eq!((blockers[0].pod.as_str(), blockers[0].since), (name.as_str(), Some(now)));
    fleet.lingering = true;
    fleet.remove(&name);
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:2"), fleet.available()), (4, 3), "the lost one is replaced");
}

const HOOKS: [&str; 4] = [
    "{}",
    r#"{"inPlaceUpdate": {"labelsHandler": {"hold": "yes"}, "markPodNotReady": true}}"#,
    r#"{"inPlaceUpdate": {"labelsHandler": {"hold": "yes"}, "finalizersHandler": ["x/y"]},
        "preDelete": {"labelsHandler": {"hold": "yes"}}, "preNormal": {"labelsHandler": {"hold": "yes"}}}"#,
    r#"{"preDelete": {"finalizersHandler": ["x/y"], "markPodNotReady": true}}"#,
];

/// Records that Pods may carry: none, of an update that is done, in progress, between two batches, of OpenKruise.
/// `REVISION` means the Pod's own.
const RECORDS: [&str; 5] = [
    "",
    r#"{"revision":"REVISION","updateTimestamp":"2026-04-01T08:00:00Z","lastContainerStatuses":{"main":{"imageID":"x"}},"updateImages":true}"#,
    r#"{"revision":"REVISION","updateTimestamp":"2026-04-01T08:00:00Z","lastContainerStatuses":{"main":{"imageID":"id:nginx:1"}},"updateImages":true}"#,
    r#"{"revision":"REVISION","updateTimestamp":"2026-04-01T08:00:00Z","lastContainerStatuses":null,"nextContainerImages":{"main":"nginx:1"},"preCheckBeforeNext":{"containersRequiredReady":["main"]}}"#,
    r#"{"revision":"REVISION","updateTimestamp":null,"lastContainerStatuses":null}"#,
];

/// The program behind the hooks lets every Pod continue that waits for it.
fn answer_hooks(fleet: &mut Fleet) {
    let hooks = fleet.set().spec.lifecycle;
    for index in 0..fleet.pods.len() {
        let pod = Arc::make_mut(&mut fleet.pods[index]);
        let (hook, present) = match pod.label("lifecycle.apps.kruise.io/state") {
            Some("PreparingDelete") => (&hooks.pre_delete, false),
            Some("PreparingUpdate") => (&hooks.in_place_update, false),
            Some("Updated") => (&hooks.in_place_update, true),
            Some("PreparingNormal") => (&hooks.pre_normal, true),
            _ => continue,
        };
        let Some(hook) = hook else { continue };
        let mut write = PodWrite::default();
        for (key, value) in &hook.labels_handler {
            write.labels.insert(key.clone(), present.then(|| value.clone()));
        }
        let finalizers = hook.finalizers_handler.clone();
        if present {
            write.finalizers = finalizers;
        } else {
            write.removed_finalizers = finalizers;
        }
        write.apply(pod);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// From any state, with hooks that answer and a kubelet that works, every Pod comes to its revision and
    /// serves, within a number of steps; and its gate closes only together with the change that it is for.
    #[test]
    fn whatever_state_a_pod_is_in_it_comes_to_its_revision_and_serves(
        hooks in prop::sample::select(HOOKS.to_vec()),
        state in prop::sample::select(vec!["", "PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated", "PreparingDelete"]),
        record in prop::sample::select(RECORDS.to_vec()),
        held in any::<bool>(), is_new in any::<bool>(), gate_open in any::<bool>(), marked in any::<bool>(),
        change in 0..4_u8, grace in prop::sample::select(vec![0, 2]),
    ) {
        let mut labelled = template("nginx:1");
        labelled["metadata"]["labels"]["hold"] = "yes".into();
        let hooks: Value = serde_json::from_str(hooks).unwrap();
        let strategy = json!({"maxUnavailable": 1, "inPlaceUpdateStrategy": {"gracePeriodSeconds": grace}});
        let mut fleet = Fleet::running(2, with(in_place(strategy), json!({"template": labelled})));
        fleet.edit(json!({"spec": {"lifecycle": hooks}}));
        if is_new {
            labelled["spec"]["containers"][0]["image"] = "nginx:2".into();
            fleet.edit(json!({"spec": {"template": labelled}}));
            fleet.settled_plan();
        }
        let now = fleet.now;
        let name = fleet.name(0);
        let pod = fleet.pod_mut(&name);
        let mut write = PodWrite::to(Target::Status);
        write.labels.insert("lifecycle.apps.kruise.io/state".to_owned(), Some(state.to_owned()).filter(|state| !state.is_empty()));
        write.labels.insert("hold".to_owned(), held.then(|| "yes".to_owned()));
        if !record.is_empty() {
            let revision = pod.label("controller-revision-hash").unwrap();
            write.set_annotation("apps.kruise.io/inplace-update-state", record.replace("REVISION", revision));
        }
        let status = if gate_open { "True" } else { "False" };
        write.conditions.push(condition(IN_PLACE_UPDATE_READY, status, "", "", now));
        if marked {
            let key = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
            write.conditions.push(condition("KruisePodReady", "False", "", key, now));
        }
        write.apply(pod);
        let wanted = match change {
            0 => "nginx:1",
            1 => "nginx:2",
            _ => "nginx:3",
        };
        let mut wanted_template = labelled.clone();
        wanted_template["spec"]["containers"][0]["image"] = wanted.into();
        fleet.edit(json!({"spec": {"template": wanted_template}}));
        let mut came = false;
        for _ in 0..60 {
            let plan = fleet.step();
            for action in &plan.update {
                let Action::WritePod { writes, .. } = action else { continue };
                if let Some(position) = writes.iter().position(closes_gate) {
                    let change = writes.get(position + 1);
                    prop_assert!(change.is_some_and(|write| write.target == Target::Pod), "{}", plan);
                }
            }
            answer_hooks(&mut fleet);
            fleet.kubelet();
            fleet.later(1);
            if plan.is_idle() && plan.explanation.is_complete && fleet.with_image(wanted) == 2 {
                came = true;
                break;
            }
        }
        prop_assert!(came, "{}\n{:?}", fleet.plan(), fleet.pods);
    }
}
