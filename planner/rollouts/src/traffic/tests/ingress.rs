use super::*;
use api::annotations::RELEASED_NETWORK;

const NGINX: &str = "nginx.ingress.kubernetes.io/";

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

fn path(path: &str, service: &str) -> Value {
    json!({"path": path, "pathType": "Prefix", "backend": backend(service)})
}

fn ingress() -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
    "metadata": {"name": "in", "labels": {"team": "a"}, "annotations": {"rate": "5", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
    "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["a.example"]}], "defaultBackend": backend("web"), "rules": [
        {"host": "a.example", "http": {"paths": [path("/", "web"), path("/other", "other")]}},
        {"host": "b.example", "http": {"paths": [path("/", "other")]}},
        {"host": "c.example"},
        {"host": "d.example", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"resource": {"kind": "Bucket", "name": "web"}}},
            path("/api", "web"),
        ]}},
    ]}})
}

fn world() -> World {
    World::new(json!({"service": "web", "ingress": {"name": "in"}}), [web_service(), ingress()])
}

fn annotations(world: &World) -> Value {
    let mut annotations = world.object("Ingress", "in-canary")["metadata"]["annotations"].clone();
    annotations.as_object_mut().unwrap().remove(RELEASED_NETWORK).unwrap();
    annotations
}

#[test]
fn the_canary_ingress_begins_without_requests_and_has_only_rules_of_the_service() {
    let mut world = world();
    assert_eq!(world.route(json!({"traffic": "20%"})), 3, "Services, Ingress, its annotations");
    let Write::Create { object, .. } = &world.writes[2] else { panic!("{:?}", world.writes) };
    assert_eq!(object["metadata"]["annotations"][format!("{NGINX}canary-weight")], "0");
    assert_eq!(object["metadata"]["ownerReferences"], json!([world.owner]));
    assert_eq!(object["metadata"]["labels"], json!({"team": "a"}));
    let expected = json!({"ingressClassName": "nginx", "tls": [{"hosts": ["a.example"]}], "rules": [
        {"host": "a.example", "http": {"paths": [path("/", "web-canary")]}},
        {"host": "d.example", "http": {"paths": [path("/api", "web-canary")]}},
    ]});
    assert_eq!(object["spec"], expected);
    let expected =
        json!({"rate": "5", format!("{NGINX}canary"): "true", format!("{NGINX}canary-weight"): "20"});
    assert_eq!(annotations(&world), expected);
}

#[test]
fn a_weight_a_header_and_a_weight_follow_each_other() {
    let mut world = world();
    let before = world.settled();
    world.route(json!({"traffic": "20%"}));
    let changes =
        world.route(json!({"traffic": "50%", "matches": [{"headers": [{"name": "user", "value": "me"}]}]}));
    assert_eq!(changes, 1);
    let by_header = format!("{NGINX}canary-by-header");
    let expected = json!({"rate": "5", format!("{NGINX}canary"): "true", by_header.clone(): "user", format!("{by_header}-value"): "me"});
    assert_eq!(annotations(&world), expected, "conditions come before a share");
    assert_eq!(world.route(json!({"traffic": "60%"})), 1);
    let expected =
        json!({"rate": "5", format!("{NGINX}canary"): "true", format!("{NGINX}canary-weight"): "60"});
    assert_eq!(annotations(&world), expected);
    world.finish(&route_to_new);
    assert_eq!(annotations(&world)[format!("{NGINX}canary-weight")], "100");
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn the_canary_ingress_follows_the_users_edits_and_keeps_what_others_wrote_on_it() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    world.edit("Ingress", "in-canary", &json!({"metadata": {"annotations": {"of-the-controller": "x"}}}));
    assert_eq!(world.route(json!({"traffic": "20%"})), 0, "what others write is no difference");
    let rules = json!([{"host": "new.example", "http": {"paths": [path("/", "web")]}}]);
    let edit = json!({"metadata": {"annotations": {"rate": null, "limit": "7"}}, "spec": {"rules": rules, "tls": null}});
    world.edit("Ingress", "in", &edit);
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    let expected = json!({"limit": "7", "of-the-controller": "x", format!("{NGINX}canary"): "true", format!("{NGINX}canary-weight"): "20"});
    assert_eq!(annotations(&world), expected);
    let spec = &world.object("Ingress", "in-canary")["spec"];
    assert_eq!(
        *spec,
        json!({"ingressClassName": "nginx", "rules": [{"host": "new.example", "http": {"paths": [path("/", "web-canary")]}}]})
    );
    world.edit(
        "Ingress",
        "in-canary",
        &json!({"metadata": {"annotations": {format!("{NGINX}canary-weight"): "90"}}}),
    );
    assert_eq!(world.route(json!({"traffic": "20%"})), 1, "what is ours is put right");
}

#[test]
fn an_ingress_that_openkruise_made_is_taken_over() {
    let mut world = world();
    world.put(json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "in-canary",
        "ownerReferences": [{"apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "Rollout", "name": "release", "uid": "1"}],
        "annotations": {"rate": "5", format!("{NGINX}canary"): "true", format!("{NGINX}canary-by-header"): "a"}},
        "spec": {"ingressClassName": "nginx", "rules": []}}));
    assert_eq!(world.route(json!({"traffic": "30%"})), 2, "Services, then the Ingress");
    let expected =
        json!({"rate": "5", format!("{NGINX}canary"): "true", format!("{NGINX}canary-weight"): "30"});
    assert_eq!(annotations(&world), expected);
    assert_eq!(world.object("Ingress", "in-canary")["spec"]["rules"].as_array().unwrap().len(), 2);
    world.restore();
    assert_eq!(world.get("Ingress", "in-canary"), None);
}

#[test]
fn an_ingress_of_somebody_else_is_neither_used_nor_deleted() {
    let mut world = world();
    let mut other = ingress();
    other["metadata"]["name"] = "in-canary".into();
    world.put(other);
    world.act(&|context, view| route_to_new(context, view)).unwrap();
    world.now += Duration::from_secs(3);
    assert!(world.route_problem(json!({"traffic": "20%"})).contains("Ingress in-canary exists"));
    assert_eq!(world.finish(&route_to_stable), 0);
}

#[test]
fn an_ingress_that_does_not_lead_to_the_service_is_a_problem() {
    let mut world = world();
    world.edit("Ingress", "in", &json!({"spec": {"rules": [{"host": "c.example"}]}}));
    world.act(&|context, view| route_to_new(context, view)).unwrap();
    world.now += Duration::from_secs(3);
    assert_eq!(world.route_problem(json!({"traffic": "20%"})), "no rule of Ingress in leads to Service web");
}

#[test]
fn a_users_script_gets_and_returns_annotations() {
    let script = r#"
        local found = obj.annotations
        found.seen = obj.weight .. " " .. obj.canaryService .. " " .. tostring(obj.matches and obj.matches[1].headers[1].type)
            .. " " .. tostring(obj.requestHeaderModifier and obj.requestHeaderModifier.set[1].name)
        return found"#;
    let mut world = world();
    world.routing.ingress.as_mut().unwrap().class_type = "mine".to_owned();
    world.scripts = Scripts::of(Some(&json!({"data": {"lua.traffic.routing.ingress.mine": script}})));
    world.route(json!({"traffic": "20%"}));
    assert_eq!(annotations(&world), json!({"rate": "5", "seen": "20 web-canary nil nil"}));
    let modifier = json!({"set": [{"name": "x", "value": "y"}]});
    world.route(
        json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}], "requestHeaderModifier": modifier}),
    );
    assert_eq!(annotations(&world), json!({"rate": "5", "seen": "-1 web-canary Exact x"}));
}

#[test]
fn a_script_that_returns_no_annotations_is_a_problem() {
    for script in ["return {1, 2}", "return { a = 1 }", "return 1", "error('oh')", "while true do end"] {
        let mut world = world();
        world.scripts = Scripts::of(Some(&json!({"data": {"lua.traffic.routing.ingress.nginx": script}})));
        world.act(&|context, view| route_to_new(context, view)).unwrap();
        world.now += Duration::from_secs(3);
        let problem = world.route_problem(json!({"traffic": "20%"}));
        assert!(problem.contains("script lua.traffic.routing.ingress.nginx"), "{script}: {problem}");
        assert_eq!(world.get("Ingress", "in-canary"), None);
    }
}

fn problem(class: &str, matches: &Value) -> Option<String> {
    let routing = json!({"service": "web", "ingress": {"name": "in", "classType": class}});
    let step: Step = serde_json::from_value(json!({"matches": matches})).unwrap();
    unsupported(&serde_json::from_value(routing).unwrap(), &step, &Scripts::default())
}

#[test]
fn conditions_that_a_class_can_not_express_are_told() {
    let header = |name: &str| json!({"name": name, "value": "v"});
    let query = json!({"queryParams": [{"name": "q", "value": "v"}]});
    let cookie = json!({"headers": [header("canary-by-cookie")]});
    let one = json!({"headers": [header("a")]});
    for class in ["nginx", "aliyun-alb", "mse", "higress", ""] {
        assert_eq!(problem(class, &json!([])), None);
        assert_eq!(problem(class, &json!([one, cookie])), None);
        assert!(
            problem(class, &json!([{"headers": [header("a"), header("b")]}]))
                .unwrap()
                .contains("one header or cookie")
        );
        assert!(
            problem(class, &json!([one, one])).unwrap().contains("a second header: matches[1]"),
            "{class}"
        );
        assert!(problem(class, &json!([{"path": {"value": "/a"}}])).unwrap().contains("a path: matches[0]"));
        assert!(problem(class, &json!([{"path": {"value": "/a"}, "headers": [header("a")]}])).is_some());
        assert!(problem(class, &json!([{}])).is_some());
    }
    assert!(problem("nginx", &json!([query])).unwrap().contains("a query parameter"));
    assert_eq!(problem("mse", &json!([query, one, cookie])), None);
    assert_eq!(
        problem("traefik", &json!([{"path": {"value": "/a"}}])),
        None,
        "nobody knows what its script can do"
    );
    assert!(problem("nginx", &json!([{"path": {"value": "/a"}}])).unwrap().contains("class nginx"));
}

#[test]
fn a_step_says_what_of_it_can_not_be_expressed_unless_a_user_brings_the_script() {
    let mut world = world();
    let step: Step = serde_json::from_value(json!({"matches": [{"path": {"value": "/a"}}]})).unwrap();
    let route: Function<'_> = &|context, view| route_step(context, &step, view);
    world.finish(route);
    assert!(world.call(route).unwrap().message.unwrap().contains("can't match a path"));
    world.scripts =
        Scripts::of(Some(&json!({"data": {"lua.traffic.routing.ingress.nginx": "return obj.annotations"}})));
    world.finish(route);
    assert_eq!(world.call(route).unwrap().message, None);
}
