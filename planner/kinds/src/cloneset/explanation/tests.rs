use std::sync::Arc;

use api::kinds::cloneset::Status;
use serde_json::{Value, json};

use crate::cloneset::fixture::{Fleet, merge, template};
use crate::workload::explanation::BLOCKED;
use crate::workload::plan::{Outcome, Plan};
use crate::workload::snapshot::Refusal;
use pod::lifecycle::specify_delete;
use pod::write::{PodWrite, Target, condition};

fn reasons(plan: &Plan<Status>) -> Vec<&'static str> {
    plan.explanation.blockers.iter().map(|blocker| blocker.reason).collect()
}

/// A rollout whose first Pod never gets ready.
fn stuck() -> Fleet {
    let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceIfPossible", json!({"maxUnavailable": 1})));
    fleet.image("nginx:broken");
    fleet.step();
    fleet.step();
    fleet
}

#[test]
fn a_used_up_budget_is_named_with_the_pods_that_use_it() {
    let mut fleet = stuck();
    let plan = fleet.settled_plan();
    let text = plan.explanation.to_string();
    assert_eq!(reasons(&plan), ["Updating"], "{plan}");
    let name = &plan.explanation.blockers[0].pod;
    assert!(
        text.contains(&format!(
            "maxUnavailable 1 of 3 Pods and 0 surge Pods is used up; unavailable 1: {name}"
        )),
        "{text}"
    );
    assert!(text.contains("does not run its new image yet"), "{text}");
}

#[test]
fn the_condition_comes_after_a_minute_and_goes_with_the_blocker() {
    let mut fleet = stuck();
    let blocked =
        |fleet: &Fleet| fleet.status().conditions.into_iter().find(|condition| condition.kind == BLOCKED);
    let early = fleet.step();
    assert!(blocked(&fleet).is_none() && early.requeue_after.is_some(), "{early}");
    fleet.later(61);
    fleet.step();
    let first = blocked(&fleet).unwrap();
    assert!(first.reason == "Updating" && first.message.contains("maxUnavailable 1"), "{first:?}");
    fleet.later(600);
    fleet.step();
    assert_eq!(blocked(&fleet).unwrap(), first, "it is written once");
    fleet.kubelet();
    fleet.settle();
    assert!(blocked(&fleet).is_none());
}

#[test]
fn what_people_decided_is_a_limit_and_no_blockade() {
    for (setting, expected) in [
        (json!({"paused": true}), "paused: 3 Pods are not updated"),
        (json!({"partition": 2}), "partition 2: 2 Pods stay at older revisions"),
    ] {
        let mut fleet = Fleet::running(3, Fleet::rolling("InPlaceIfPossible", setting));
        fleet.image("nginx:2");
        fleet.settle();
        fleet.later(3600);
        fleet.step();
        let plan = fleet.plan();
        assert_eq!(plan.explanation.limits, [expected]);
        assert!(plan.explanation.blockers.is_empty() && fleet.status().conditions.is_empty(), "{plan}");
    }
    let mut fleet = Fleet::running(2, json!({"updateStrategy": {"type": "OnDelete"}}));
    fleet.image("nginx:2");
    fleet.settle();
    assert_eq!(
        fleet.plan().explanation.limits,
        ["type OnDelete: 2 Pods are updated when somebody deletes them"]
    );
}

#[test]
fn a_pod_without_a_node_says_why() {
    let mut fleet = Fleet::new(json!({"replicas": 1}));
    fleet.step();
    let plan = fleet.settled_plan();
    assert_eq!(reasons(&plan), ["Unschedulable"]);
    fleet.kubelet();
    fleet.settle();
    assert!(fleet.plan().explanation.is_complete);
}

#[test]
fn minimum_ready_seconds_are_reported_with_their_end() {
    let mut fleet = Fleet::running(1, json!({}));
    fleet.edit(json!({"spec": {"minReadySeconds": 30}}));
    let plan = fleet.settled_plan();
    assert_eq!(reasons(&plan), ["MinReadySeconds"]);
    assert!(plan.explanation.to_string().contains("available from 2026-05-01T08:00:30Z"), "{plan}");
}

/// A CloneSet whose Pods are born with label `hold`, and with these hooks.
fn hooked(hooks: &Value, rolling: Value) -> (Fleet, Value) {
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["hold"] = "yes".into();
    let mut spec = Fleet::rolling("InPlaceIfPossible", rolling);
    merge(&mut spec, json!({"lifecycle": hooks, "template": labelled.clone()}));
    labelled["spec"]["containers"][0]["image"] = "nginx:2".into();
    (Fleet::running(2, spec), json!({"spec": {"template": labelled}}))
}

/// A way to stall.
struct Stuck {
    fleet: Fleet,
    reason: &'static str,
    /// What the sentence says.
    says: &'static str,
    /// What names the rule, where one is at its limit.
    limit: &'static str,
}

/// Each way in which a CloneSet is stalled in what users complain of (docs/behaviour/cloneset.md#blocked,
/// 12 and 13): what is asked for is there, and the Pod that blocks progress is the first one, since now.
fn ways() -> Vec<Stuck> {
    let hook = json!({"labelsHandler": {"hold": "yes"}});
    let one = || json!({"maxUnavailable": 1});
    let mut ways = Vec::new();
    let mut add = |fleet, reason, says, limit| ways.push(Stuck { fleet, reason, says, limit });
    add(stuck(), "Updating", "does not run its new image yet", "maxUnavailable 1 of 3 Pods");

    let mut fleet = Fleet::running(
        2,
        Fleet::rolling(
            "InPlaceIfPossible",
            json!({
        "maxUnavailable": 1, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 600}}),
        ),
    );
    fleet.image("nginx:2");
    fleet.step();
    add(fleet, "Updating", "the grace period before the change", "maxUnavailable 1 of 2 Pods");

    let (mut fleet, edit) = hooked(&json!({"inPlaceUpdate": hook}), one());
    fleet.edit(edit);
    fleet.settle();
    add(fleet, "InPlaceUpdateHook", "is held by hook inPlaceUpdate", "maxUnavailable 1 of 2 Pods");

    let (mut fleet, edit) = hooked(&json!({"inPlaceUpdate": {"labelsHandler": {"back": "yes"}}}), one());
    fleet.edit(edit);
    fleet.settle();
    add(fleet, "InPlaceUpdateHook", "waits for hook inPlaceUpdate", "maxUnavailable 1 of 2 Pods");

    let (mut fleet, _) = hooked(&json!({"preDelete": hook}), one());
    fleet.edit(json!({"spec": {"replicas": 1}}));
    fleet.settle();
    add(fleet, "PreDeleteHook", "is held by hook preDelete", "");

    let mut fleet =
        Fleet::new(json!({"replicas": 1, "lifecycle": {"preNormal": {"labelsHandler": {"in": "yes"}}}}));
    fleet.settle();
    add(fleet, "PreNormalHook", "waits for hook preNormal", "");

    let mut fleet = Fleet::running(2, Fleet::rolling("InPlaceIfPossible", one()));
    fleet.image("nginx:2");
    let (uid, since) = (fleet.pods[0].metadata.uid.clone(), fleet.now);
    fleet.held.insert(uid, Refusal { message: "denied by policy".into(), since });
    fleet.settle();
    add(fleet, "Refused", "the API server refuses it: denied by policy", "");

    let mut fleet = Fleet::running(1, Fleet::rolling("InPlaceOnly", one()));
    let mut other = template("nginx:1");
    other["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    fleet.edit(json!({"spec": {"template": other}}));
    fleet.settled_plan();
    let now = fleet.now;
    Arc::make_mut(fleet.revisions.last_mut().unwrap()).metadata.creation_timestamp = Some(now.into());
    fleet.step();
    add(fleet, "InPlaceImpossible", "can't be updated in place: add /spec/containers/0/env", "");

    let mut fleet = Fleet::running(3, Fleet::rolling("ReCreate", one()));
    fleet.break_pod(0);
    let name = fleet.name(1);
    specify_delete(&fleet.pods[1]).unwrap().apply(fleet.pod_mut(&name));
    fleet.step();
    add(fleet, "NotReady", "is not ready", "maxUnavailable 1 keeps Pods that are ready from being deleted");

    let mut fleet = Fleet::new(json!({"replicas": 4, "scaleStrategy": {"maxUnavailable": 1}}));
    fleet.step();
    add(fleet, "Unschedulable", "has no node yet", "scaleStrategy.maxUnavailable 1 lets 0 of 3 missing Pods");

    let mut fleet = Fleet::running(2, json!({}));
    fleet.break_pod(0);
    let name = fleet.name(0);
    let status = json!([{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    fleet.pod_mut(&name).status.container_statuses = serde_json::from_value(status).unwrap();
    add(fleet, "NotReady", "container main waits: CrashLoopBackOff", "");

    let mut fleet = Fleet::running(1, json!({}));
    fleet.break_pod(0);
    let name = fleet.name(0);
    let status =
        json!([{"name": "load"}, {"name": "proxy", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
    fleet.pod_mut(&name).status.init_container_statuses = serde_json::from_value(status).unwrap();
    add(fleet, "NotReady", "container proxy waits: ImagePullBackOff", "");

    let mut fleet = Fleet::running(1, json!({}));
    fleet.break_pod(0);
    let (name, now) = (fleet.name(0), fleet.now);
    let conditions = [("ContainersReady", "True"), ("KruisePodReady", "False")];
    let conditions = conditions.into_iter().map(|(kind, status)| condition(kind, status, "", "", now));
    PodWrite { conditions: conditions.collect(), ..PodWrite::to(Target::Status) }.apply(fleet.pod_mut(&name));
    let gates = json!([{"conditionType": "KruisePodReady"}]);
    fleet.pod_mut(&name).spec.readiness_gates = serde_json::from_value(gates).unwrap();
    add(fleet, "ReadinessGates", "its readiness gates KruisePodReady are not true", "");

    let claims = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "scaleStrategy": {"enablePVCReuse": true}});
    let mut fleet = Fleet::running(2, claims);
    let name = fleet.name(0);
    fleet.lingering = true;
    fleet.remove(&name);
    add(fleet, "ClaimInUse", "wait for the names of Pods that are ending", "");
    ways
}

#[test]
fn each_way_to_stand_still_is_named_within_one_plan() {
    for Stuck { mut fleet, reason, says, limit } in ways() {
        let plan = fleet.settled_plan();
        let explanation = &plan.explanation;
        assert!(!explanation.is_complete, "{reason}: {plan}");
        let found = explanation.blockers.iter().find(|blocker| blocker.reason == reason);
        let blocker = found.unwrap_or_else(|| panic!("{reason}: {plan}"));
        assert!(fleet.pods.iter().any(|pod| *pod.metadata.name == *blocker.pod), "{reason}: {plan}");
        assert!(blocker.message.contains(says), "{reason}: {}", blocker.message);
        assert_eq!(blocker.since, Some(fleet.now), "{reason}: {plan}");
        assert!(!blocker.remedy.is_empty());
        let named = explanation.limits.iter().any(|text| text.contains(limit));
        assert!(limit.is_empty() || named, "{reason}: {limit} is not in {:?}", explanation.limits);
        assert!(plan.to_string().contains(&format!("waits: Pod {} ", blocker.pod)), "{plan}");
    }
}

#[test]
fn what_cannot_be_planned_is_reported_since_it_failed() {
    let mut fleet = Fleet::running(1, json!({}));
    let name = fleet.name(0);
    let mut write = PodWrite::default();
    write.set_annotation("apps.kruise.io/inplace-update-state", "{");
    write.apply(fleet.pod_mut(&name));
    fleet.step();
    fleet.later(30);
    let blockers = fleet.plan().explanation.blockers;
    assert_eq!(
        (blockers[0].reason, blockers[0].since),
        ("Failed", Some(crate::cloneset::fixture::NOW.parse().unwrap()))
    );
    assert!(blockers[0].message.contains(&name), "{blockers:?}");
}

/// The condition after the next plan came to nothing, or was carried out in part.
fn blocked(fleet: &mut Fleet, (scale, update): (&str, &str), is_in_part: bool) -> Option<Value> {
    let outcome = |error: &str| match error {
        "" => Outcome::Succeeded,
        error => Outcome::Failed(error.to_owned()),
    };
    let plan = fleet.settled_plan();
    assert!(plan.explanation.is_moving, "{plan}");
    let mut status = plan.status.unwrap();
    if !is_in_part {
        status.nothing_was_done();
    }
    let patch = status.patch(&outcome(scale), &outcome(update)).unwrap_or_else(|| "{}".to_owned());
    let patch: Value = serde_json::from_str(&patch).unwrap();
    let stored = &fleet.object["status"]["conditions"];
    let conditions = patch.pointer("/status/conditions").unwrap_or(stored).as_array()?;
    conditions.iter().find(|condition| condition["type"] == BLOCKED).cloned()
}

#[test]
fn the_condition_comes_and_stays_while_the_only_thing_to_do_is_refused() {
    let mut rollout = Fleet::running(1, Fleet::rolling("InPlaceIfPossible", json!({})));
    rollout.image("nginx:2");
    let growing = Fleet::new(json!({"replicas": 2}));
    for (mut fleet, failed, outcomes) in
        [(rollout, "FailedUpdate", ("", "no")), (growing, "FailedScale", ("no", ""))]
    {
        let since = values::moment::rfc3339(fleet.now);
        let condition =
            json!({"type": failed, "status": "True", "message": "no", "lastTransitionTime": since});
        fleet.object["status"]["conditions"] = json!([condition]);
        fleet.later(59);
        assert_eq!(blocked(&mut fleet, outcomes, false), None, "too early");
        fleet.later(1);
        assert_eq!(blocked(&mut fleet, outcomes, true), None, "something moves");
        let first = blocked(&mut fleet, outcomes, false).unwrap();
        assert_eq!((&first["reason"], &first["status"]), (&json!(failed), &json!("True")), "{first}");
        assert!(first["message"].as_str().unwrap().starts_with("no; "), "{first}");
        fleet.object["status"]["conditions"] = json!([condition, first]);
        fleet.later(60);
        assert_eq!(blocked(&mut fleet, outcomes, false), Some(first), "the next try is refused, too");
        assert_eq!(blocked(&mut fleet, ("", ""), false), None, "nothing is refused any more");
        assert_eq!(blocked(&mut fleet, outcomes, true), None, "something moves again");
    }
}
