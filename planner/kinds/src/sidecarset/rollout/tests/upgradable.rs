use api::conditions::SIDECARSET_UPGRADABLE;

use super::fixture::*;
use crate::sidecarset::history;
use crate::sidecarset::rollout::{Hold, Snapshot, Step, plan};
use crate::workload::revision::{RevisionStep, StoredRevision};
use pod::observed::ObservedPod;
use pod::write::condition;

/// The same sidecar with another variable.
fn other_variable(image: &str) -> Wanted {
    let wanted = Wanted::cold(image);
    Wanted {
        containers: wanted.containers.replace(r#""value":"1""#, r#""value":"2""#),
        generation: 2,
        ..wanted
    }
}

fn said(pod: &ObservedPod) -> (String, String, String) {
    let condition = pod.condition(SIDECARSET_UPGRADABLE).unwrap();
    (condition.status.to_string(), condition.reason.to_string(), condition.message.to_string())
}

fn says(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn a_change_beyond_images_is_reported_once_and_touches_nothing_else() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 2);
    let mut wanted = other_variable("log:2");
    let plan = cluster.round(&wanted.set());
    assert_eq!(names(&plan, Step::Condition), ["p00", "p01"]);
    assert!(names(&plan, Step::Upgrade).is_empty());
    assert_eq!(plan.waiting[0].hold, Hold::NotUpgradable(None));
    let [event] = &plan.events[..] else { panic!("{plan:?}") };
    assert_eq!((event.warning, event.reason), (false, "NotUpgradablePods"));
    assert_eq!(
        event.message,
        "SidecarSet in-place update detected 2 not upgradable pod(s) in this round, will skip them."
    );
    let pod = cluster.pod("p00");
    assert_eq!(said(pod), says("False", "UpdateImmutableField", r#"{"side":false}"#));
    assert_eq!(&*pod.spec.containers[1].image, "log:1");
    wanted.status = r#"{"observedGeneration":2}"#.to_owned();
    let again = cluster.plan(&wanted.set());
    assert!(again.pods.is_empty() && again.events.is_empty(), "{again:?}");
    wanted.generation = 3;
    assert_eq!(cluster.plan(&wanted.set()).events.len(), 1, "another change of the SidecarSet is told again");
}

#[test]
fn the_condition_is_cleared_when_the_pod_is_updated_or_upgradable_again() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 2);
    cluster.round(&other_variable("log:2").set());
    let mut reverted = cluster.clone();
    let plan = reverted.round(&Wanted::cold("log:1").set());
    assert_eq!(names(&plan, Step::Condition), ["p00", "p01"]);
    assert_eq!(said(reverted.pod("p00")), says("True", "AllSidecarsetUpgradable", r#"{"side":true}"#));
    assert!(reverted.plan(&Wanted::cold("log:1").set()).pods.is_empty());
    let plan = cluster.round(&Wanted::cold("log:3").set());
    assert_eq!((names(&plan, Step::Upgrade), names(&plan, Step::Condition)), (vec!["p00"], vec!["p01"]));
    for name in ["p00", "p01"] {
        assert_eq!(said(cluster.pod(name)).0, "True", "{name}");
    }
}

#[test]
fn other_sidecarsets_keep_their_word() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 1);
    let since = at(-100);
    cluster.change("p00", |pod| {
        let message = r#"{"zz":false,"aa":true}"#;
        let mut conditions = pod.status.conditions.to_vec();
        conditions.push(condition(SIDECARSET_UPGRADABLE, "False", "UpdateImmutableField", message, since));
        pod.status.conditions = conditions.into();
    });
    cluster.round(&Wanted::cold("log:2").set());
    let pod = cluster.pod("p00");
    assert_eq!(said(pod), says("False", "UpdateImmutableField", r#"{"aa":true,"side":true,"zz":false}"#));
    let condition = pod.condition(SIDECARSET_UPGRADABLE).unwrap();
    assert_eq!(condition.since(), Some(since), "the status did not change");
}

#[test]
fn pods_that_are_not_selected_are_not_judged() {
    let cluster = fleet(&Wanted::cold("log:1").set(), 2);
    let wanted = other_variable("log:2").strategy(r#"{"selector":{"matchLabels":{"canary":"true"}}}"#);
    let plan = cluster.plan(&wanted.set());
    assert!(plan.pods.is_empty() && plan.events.is_empty());
}

#[test]
fn a_crash_between_the_update_and_the_condition_is_made_good() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 1);
    let set = Wanted::cold("log:2").set();
    let plan = cluster.plan(&set);
    assert!(cluster.write(&plan.pods[0], 1));
    assert!(cluster.pod("p00").condition(SIDECARSET_UPGRADABLE).is_none());
    let plan = cluster.round(&set);
    assert_eq!(names(&plan, Step::Condition), ["p00"]);
    assert_eq!(said(cluster.pod("p00")).0, "True");
}

#[test]
fn the_fields_that_differ_are_named() {
    let old = Wanted::cold("log:1").set();
    let registration = history::plan(&old, &[], &[], "kruise-system").unwrap().unwrap();
    let Some(RevisionStep::Create(revision)) = registration.step else { panic!() };
    let mut stored = StoredRevision::read(&revision.to_json()).unwrap();
    stored.metadata.name = "side-1".to_owned();
    let hold = |wanted: &Wanted| {
        let (set, cluster) = (wanted.set(), fleet(&old, 1));
        let revisions = std::slice::from_ref(&stored);
        let snapshot = Snapshot {
            set: &set,
            pods: &cluster.pods,
            revisions,
            latest_revision: "side-2",
            collision_count: 0,
        };
        plan(&snapshot, at(0)).waiting[0].hold.to_string()
    };
    assert_eq!(
        hold(&other_variable("log:2")),
        "more than images changed (container log: env): recreate the Pod"
    );
    let with_native = Wanted::cold("log:2")
        .more(r#","initContainers":[{"name":"net","image":"n","restartPolicy":"Always"}]"#);
    assert_eq!(hold(&with_native), "more than images changed (container net is new): recreate the Pod");
}
