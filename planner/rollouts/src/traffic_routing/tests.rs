use serde_json::Value;

use super::*;

fn routing(status: &Value, finalizers: &Value) -> TrafficRouting {
    serde_json::from_value(json!({
        "metadata": {"name": "gray", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
            "finalizers": finalizers},
        "spec": {"objectRef": [{"service": "web", "gateway": {"httpRouteName": "web"}}], "strategy": {"weight": 30}},
        "status": status,
    }))
    .unwrap()
}

fn route() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "r", "resourceVersion": "1"},
        "spec": {"rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}})
}

fn view(route: Option<Value>) -> View {
    let mut view = View::default();
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}});
    view.has_object(ObjectName::new("v1", "Service", "shop", "web"), Some(service));
    view.has_object(ObjectName::new("gateway.networking.k8s.io/v1", "HTTPRoute", "shop", "web"), route);
    view
}

fn planned(routing: &TrafficRouting, view: &View) -> Plan<Status> {
    let moment = Moment { now: jiff::Timestamp::UNIX_EPOCH, seed: 1 };
    plan(routing, view, "kutter", &moment).unwrap()
}

fn patches(plan: &Plan<Status>) -> Vec<&Value> {
    let mut patches = Vec::new();
    for write in &plan.writes {
        let Write::Patch { patch, .. } = write else { panic!("{write:?}") };
        patches.push(patch);
    }
    patches
}

const OWN: &str = "rollouts.kruise.io/trafficrouting";
const RELEASING: &str = "progressing.rollouts.kruise.io/web";

#[test]
fn it_is_healthy_once_all_objects_are_there() {
    let plan = planned(&routing(&json!({}), &json!(["others"])), &view(Some(route())));
    assert_eq!((&plan.status.phase, plan.status.observed_generation), (&Phase::Healthy, Some(2)));
    assert_eq!(patches(&plan)[0]["metadata"]["finalizers"], json!(["others", OWN]));
    assert_eq!(patches(&plan)[0]["metadata"]["resourceVersion"], "7");
    let missing = planned(&routing(&json!({}), &json!([OWN])), &view(None));
    assert_eq!((&missing.status.phase, missing.again.is_some()), (&Phase::Initial, true));
    assert!(missing.status.message.contains("HTTPRoute web"), "{}", missing.status.message);
}

#[test]
fn the_rule_holds_while_a_rollout_is_releasing() {
    let healthy = json!({"phase": "Healthy"});
    let plan = planned(&routing(&healthy, &json!([OWN, RELEASING])), &view(Some(route())));
    assert_eq!(plan.status.phase, Phase::Progressing);
    assert_eq!(plan.writes.len(), 1);
    let idle = planned(&routing(&healthy, &json!([OWN])), &view(Some(route())));
    assert_eq!((idle.writes.len(), &idle.status.phase), (0, &Phase::Healthy));
}

#[test]
fn traffic_is_put_back_when_the_last_release_is_over() {
    let progressing = json!({"phase": "Progressing"});
    let routed = planned(&routing(&progressing, &json!([OWN, RELEASING])), &view(Some(route())));
    let mut changed = route();
    changed["metadata"]["annotations"] = patches(&routed)[0]["metadata"]["annotations"].clone();
    changed["spec"]["rules"] = patches(&routed)[0]["spec"]["rules"].clone();
    let ended = planned(&routing(&progressing, &json!([OWN])), &view(Some(changed.clone())));
    assert_eq!(ended.status.phase, Phase::Finalizing);
    assert_eq!(patches(&ended)[0]["spec"]["rules"], route()["spec"]["rules"]);
    let finalizing = json!({"phase": "Finalizing"});
    assert_eq!(
        planned(&routing(&finalizing, &json!([OWN])), &view(Some(route()))).status.phase,
        Phase::Healthy
    );
    // A deletion puts it back too, and goes on to the finalizer when that is done.
    let mut deleted = routing(&progressing, &json!([OWN, RELEASING]));
    deleted.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    let terminating = planned(&deleted, &view(Some(changed)));
    assert_eq!((&terminating.status.phase, terminating.writes.len()), (&Phase::Terminating, 1));
    let gone = planned(&deleted, &view(Some(route())));
    assert_eq!(patches(&gone)[0]["metadata"]["finalizers"], json!([RELEASING]));
    assert_eq!(gone.status, deleted.status);
}
