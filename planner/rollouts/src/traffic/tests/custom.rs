use super::*;

const ORIGINAL: &str = "rollouts.kruise.io/original-spec-configuration";

fn virtual_service() -> Value {
    json!({"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService",
    "metadata": {"name": "vs", "labels": {"team": "a"}, "annotations": {"note": "mine"}},
    "spec": {"hosts": ["web"], "http": [
        {"match": [{"uri": {"prefix": "/api"}}], "route": [{"destination": {"host": "web"}}]},
        {"route": [{"destination": {"host": "other"}}]},
    ]}})
}

fn reference() -> Value {
    json!([{"apiVersion": "networking.istio.io/v1beta1", "kind": "VirtualService", "name": "vs"}])
}

fn world() -> World {
    let mut world = World::new(
        json!({"service": "web", "customNetworkRefs": reference()}),
        [web_service(), virtual_service()],
    );
    world.disable_canary_service = true;
    world
}

/// A route of a kind that only the user's script knows.
fn scripted(script: &str) -> World {
    let routing = json!({"service": "web", "customNetworkRefs": [{"apiVersion": "example.org/v2", "kind": "Route", "name": "r"}]});
    let object = json!({"apiVersion": "example.org/v2", "kind": "Route", "metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {"weight": 100}});
    let mut world = World::new(routing, [web_service(), object]);
    world.disable_canary_service = true;
    world.scripts = Scripts::of(Some(&json!({"data": {"lua.traffic.routing.Route.example.org": script}})));
    world
}

fn spec(world: &World) -> &Value {
    &world.object("VirtualService", "vs")["spec"]
}

fn destination(weight: i32, subset: Option<&str>) -> Value {
    match subset {
        None => json!({"destination": {"host": "web"}, "weight": weight}),
        Some(subset) => json!({"destination": {"host": "web", "subset": subset}, "weight": weight}),
    }
}

#[test]
fn a_weight_a_header_and_a_weight_each_begin_from_what_was_before() {
    let mut world = world();
    let before = world.settled();
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    let divided = |weight: i32| json!([destination(100 - weight, None), destination(weight, Some("canary"))]);
    assert_eq!(spec(&world)["http"][0]["route"], divided(20));
    world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}));
    assert_eq!(spec(&world)["http"].as_array().unwrap().len(), 3);
    assert_eq!(spec(&world)["http"][1], virtual_service()["spec"]["http"][0]);
    world.route(json!({"traffic": "60%"}));
    assert_eq!(spec(&world)["http"][0]["route"], divided(60));
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn the_original_is_kept_in_the_form_that_openkruise_reads() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let object = world.object("VirtualService", "vs");
    let original: Value = serde_json::from_str(object.annotation(ORIGINAL).unwrap()).unwrap();
    let expected =
        json!({"spec": virtual_service()["spec"], "labels": {"team": "a"}, "annotations": {"note": "mine"}});
    assert_eq!(original, expected);
    assert_eq!(object.annotation("note"), Some("mine"));
}

#[test]
fn with_a_canary_service_requests_go_there() {
    let mut world = world();
    world.disable_canary_service = false;
    let before = world.settled();
    assert_eq!(world.route(json!({"traffic": "20%"})), 2);
    assert_eq!(
        spec(&world)["http"][0]["route"][1],
        json!({"destination": {"host": "web-canary"}, "weight": 20})
    );
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn what_a_user_changes_during_the_release_stays() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let mut edited = spec(&world).clone();
    edited["http"][0]["timeout"] = "5s".into();
    edited["http"].as_array_mut().unwrap().insert(
        1,
        json!({"match": [{"uri": {"prefix": "/new"}}], "route": [{"destination": {"host": "web"}}]}),
    );
    edited["gateways"] = json!(["gw"]);
    world.edit("VirtualService", "vs", &json!({"spec": edited, "metadata": {"labels": {"team": "b"}, "annotations": {"note": null, "more": "x"}}}));
    world.route(json!({"traffic": "50%"}));
    assert_eq!(spec(&world)["http"][1]["route"][1]["weight"], 50, "new rules are divided too");
    world.restore();
    let mut expected = virtual_service();
    expected["metadata"] = json!({"name": "vs", "namespace": "shop", "uid": "vs", "labels": {"team": "b"}, "annotations": {"more": "x"}});
    expected["spec"]["gateways"] = json!(["gw"]);
    expected["spec"]["http"][0]["timeout"] = "5s".into();
    let added = json!({"match": [{"uri": {"prefix": "/new"}}], "route": [{"destination": {"host": "web"}}]});
    expected["spec"]["http"].as_array_mut().unwrap().insert(1, added);
    assert_eq!(*world.object("VirtualService", "vs"), expected);
}

#[test]
fn an_object_that_openkruise_has_changed_is_taken_over() {
    let mut object = virtual_service();
    let original =
        json!({"spec": object["spec"], "labels": {"team": "a"}, "annotations": {"note": "mine"}}).to_string();
    object["spec"]["http"][0]["route"] = json!([destination(70, None), destination(30, Some("canary"))]);
    object["metadata"]["annotations"][ORIGINAL] = original.into();
    for steps in [vec![], vec![json!({"traffic": "40%"})]] {
        let mut world = world();
        world.put(object.clone());
        for step in steps {
            world.route(step);
            assert_eq!(spec(&world)["http"][0]["route"][1]["weight"], 40);
        }
        world.restore();
        assert_eq!(world.settled(), self::world().settled());
    }
}

#[test]
fn a_script_gets_numbers_and_both_services() {
    let mut world = scripted(
        "obj.data.spec = { w = obj.canaryWeight, s = obj.stableWeight, cs = obj.canaryService, ss = obj.stableService,
            none = obj.matches == nil, modifier = obj.requestHeaderModifier == nil, before = obj.data.spec.weight }
        return obj.data",
    );
    world.route(json!({"traffic": "20%"}));
    let expected =
        json!({"w": 20, "s": 80, "cs": "web", "ss": "web", "none": true, "modifier": true, "before": 100});
    assert_eq!(world.object("Route", "r")["spec"], expected);
    world.route(json!({"matches": [{"path": {"value": "/a"}}]}));
    let expected =
        json!({"w": -1, "s": 101, "cs": "web", "ss": "web", "none": false, "modifier": true, "before": 100});
    assert_eq!(world.object("Route", "r")["spec"], expected);
}

#[test]
fn a_part_that_a_script_does_not_return_stays() {
    let mut world = scripted("return { spec = { weight = obj.canaryWeight } }");
    let before = world.settled();
    world.route(json!({"traffic": "20%"}));
    assert_eq!(world.object("Route", "r")["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(world.object("Route", "r")["spec"], json!({"weight": 20}));
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn labels_and_annotations_that_a_script_sets_go_with_the_release() {
    let mut world = scripted(
        "obj.data.labels.gray = 'yes' obj.data.labels.a = nil
        if obj.canaryWeight == 20 then obj.data.annotations.first = 'step' end
        return obj.data",
    );
    let before = world.settled();
    world.route(json!({"traffic": "20%"}));
    let object = world.object("Route", "r");
    assert_eq!(object["metadata"]["labels"], json!({"gray": "yes"}));
    assert_eq!(object.annotation("first"), Some("step"));
    world.route(json!({"traffic": "30%"}));
    assert_eq!(world.object("Route", "r").annotation("first"), None);
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn a_script_that_returns_something_else_is_a_problem() {
    for script in [
        "return { spec = 5 }",
        "return { labels = { a = 1 } }",
        "return { annotations = { 'a' } }",
        "return nil",
        "return obj.data.nothing.at.all",
        "local s = 'x' while true do s = s .. s end",
        "return { spec = io.open('/etc/passwd') }",
    ] {
        let problem = scripted(script).route_problem(json!({"traffic": "20%"}));
        assert!(problem.starts_with("script lua.traffic.routing.Route.example.org"), "{script}: {problem}");
    }
    let world = scripted("return obj.data");
    let problem = World { scripts: Scripts::default(), ..world }.route_problem(json!({"traffic": "20%"}));
    assert!(problem.contains("there is no script lua.traffic.routing.Route.example.org"), "{problem}");
}

#[test]
fn an_object_that_another_release_has_changed_is_left_to_it() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let routed = world.settled();
    let mut other = web_service();
    other["metadata"]["name"] = "other".into();
    world.put(other.clone());
    world.routing.service = "other".to_owned();
    world.owner["name"] = "another".into();
    let problem = world.route_problem(json!({"traffic": "20%"}));
    assert_eq!(problem, "VirtualService vs is changed by Rollout release");
    world.finish(&route_to_stable);
    assert_eq!(world.get("VirtualService", "vs"), routed.values().find(|object| object.name() == "vs"));
}

#[test]
fn an_original_that_can_not_be_read_is_a_problem() {
    let mut world = world();
    world.edit("VirtualService", "vs", &json!({"metadata": {"annotations": {ORIGINAL: "no"}}}));
    assert!(world.call(&route_to_stable).unwrap_err().contains(ORIGINAL));
    assert!(world.route_problem(json!({"traffic": "20%"})).contains(ORIGINAL));
}
