use super::*;
use api::annotations::RELEASED_NETWORK;

fn backend(name: &str, weight: u64) -> Value {
    json!({"group": "", "kind": "Service", "name": name, "port": 80, "weight": weight})
}

fn prefix(value: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": value}})
}

fn rules() -> Value {
    json!([
        {"name": "api", "matches": [prefix("/api"), prefix("/v1")], "backendRefs": [backend("web", 5)], "timeouts": {"request": "5s"}},
        {"matches": [prefix("/other")], "backendRefs": [backend("other", 1)]},
        {"matches": [prefix("/")], "backendRefs": [backend("web", 3), backend("other", 1)]},
        {"matches": [prefix("/old")], "filters": [{"type": "RequestRedirect"}]},
    ])
}

fn route_object(rules: &Value) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "route"},
        "spec": {"parentRefs": [{"name": "gw"}], "rules": rules}})
}

fn of_rules(rules: &Value) -> World {
    let mut world = World::new(
        json!({"service": "web", "gateway": {"httpRouteName": "route"}}),
        [web_service(), route_object(rules)],
    );
    world.finish(&patch_stable_service);
    world.finish(&|context, view| route_to_new(context, view));
    world.finish(&route_to_stable);
    world
}

fn world() -> World {
    of_rules(&rules())
}

fn present(world: &World) -> Value {
    world.object("HTTPRoute", "route")["spec"]["rules"].clone()
}

#[test]
fn a_weight_divides_what_the_service_gets_in_every_rule() {
    let mut world = world();
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    let rules = present(&world);
    assert_eq!(rules[0]["backendRefs"], json!([backend("web", 80), backend("web-canary", 20)]));
    assert_eq!(rules[1], super::gateway::rules()[1]);
    let divided = json!([backend("web", 240), backend("web-canary", 60), backend("other", 100)]);
    assert_eq!(rules[2]["backendRefs"], divided, "the share of others stays the same");
    assert_eq!(rules[3], super::gateway::rules()[3]);
    world.finish(&route_to_new);
    assert_eq!(present(&world)[0]["backendRefs"], json!([backend("web", 0), backend("web-canary", 100)]));
}

#[test]
fn weights_too_large_for_a_hundredfold_are_divided_as_they_are() {
    let mut world =
        of_rules(&json!([{"backendRefs": [backend("web", 500_000), backend("other", 1_000_000)]}]));
    world.route(json!({"traffic": "20%"}));
    let expected =
        json!([backend("web", 400_000), backend("web-canary", 100_000), backend("other", 1_000_000)]);
    assert_eq!(present(&world)[0]["backendRefs"], expected);
}

#[test]
fn matching_requests_go_to_new_pods_by_a_copy_of_each_rule() {
    let mut world = world();
    let step = json!({"matches": [
        {"headers": [{"name": "user", "value": "me"}], "queryParams": [{"name": "q", "value": "1", "type": "RegularExpression"}]},
        {"path": {"type": "Exact", "value": "/beta"}},
    ]});
    assert_eq!(world.route(step), 1);
    let now = present(&world);
    assert_eq!(now.as_array().unwrap().len(), 6);
    let user = json!([{"name": "user", "type": "Exact", "value": "me"}]);
    let query = json!([{"name": "q", "type": "RegularExpression", "value": "1"}]);
    let path = |value: &str| json!({"path": {"type": "PathPrefix", "value": value}, "headers": user, "queryParams": query});
    let beta = json!({"path": {"type": "Exact", "value": "/beta"}});
    let copy = json!({"matches": [path("/api"), path("/v1"), beta], "backendRefs": [backend("web-canary", 1)], "timeouts": {"request": "5s"}});
    assert_eq!(now[0], copy);
    assert_eq!(now[3], json!({"matches": [path("/"), beta], "backendRefs": [backend("web-canary", 1)]}));
    let users: Vec<Value> = [1, 2, 4, 5].iter().map(|position| now[*position].clone()).collect();
    assert_eq!(json!(users), rules(), "the user's own rules stay");
}

#[test]
fn a_condition_that_contradicts_the_rule_widens_nothing() {
    let rule = json!({"matches": [{"headers": [{"name": "Env", "value": "prod"}]}, prefix("/a")], "backendRefs": [backend("web", 1)]});
    let mut world = of_rules(&json!([rule]));
    world.route(json!({"matches": [{"headers": [{"name": "env", "value": "test"}]}]}));
    let env = json!([{"name": "env", "type": "Exact", "value": "test"}]);
    assert_eq!(
        present(&world)[0]["matches"],
        json!([{"path": {"type": "PathPrefix", "value": "/a"}, "headers": env}])
    );
    world.edit(
        "HTTPRoute",
        "route",
        &json!({"spec": {"rules": [{"matches": [rule["matches"][0]], "backendRefs": [backend("web", 1)]}]}}),
    );
    world.route(json!({"matches": [{"headers": [{"name": "env", "value": "test"}]}]}));
    assert_eq!(present(&world).as_array().unwrap().len(), 1, "no request meets both");
    world.route(
        json!({"matches": [{"headers": [{"name": "env", "value": "prod"}, {"name": "a", "value": "b"}]}]}),
    );
    assert_eq!(present(&world)[0]["matches"][0]["headers"].as_array().unwrap().len(), 2, "each header once");
}

#[test]
fn a_rule_without_conditions_gets_those_of_the_step() {
    let mut world = of_rules(&json!([{"backendRefs": [{"name": "web", "port": 80}]}]));
    world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}));
    let header = json!([{"headers": [{"name": "a", "type": "Exact", "value": "b"}]}]);
    let expected = json!([
        {"matches": header, "backendRefs": [{"name": "web-canary", "port": 80, "weight": 1}]},
        {"backendRefs": [{"name": "web", "port": 80}]},
    ]);
    assert_eq!(present(&world), expected);
}

#[test]
fn headers_are_changed_on_requests_to_new_pods_alone() {
    let filter =
        |modifier: Value| json!({"type": "RequestHeaderModifier", "requestHeaderModifier": modifier});
    let of_user = json!({"set": [{"name": "X", "value": "user"}, {"name": "y", "value": "user"}]});
    let rule =
        json!({"backendRefs": [backend("web", 1)], "filters": [{"type": "URLRewrite"}, filter(of_user)]});
    let mut world = of_rules(&json!([rule]));
    let modifier = json!({"set": [{"name": "x", "value": "gray"}], "remove": ["z"]});
    world.route(json!({"traffic": "10%", "requestHeaderModifier": modifier}));
    let now = present(&world);
    assert_eq!(now[0]["backendRefs"][1]["filters"], json!([filter(modifier.clone())]));
    assert_eq!(now[0]["backendRefs"][0], backend("web", 90));
    assert_eq!(now[0]["filters"], rule["filters"]);

    world.route(
        json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}], "requestHeaderModifier": modifier}),
    );
    let now = present(&world);
    let both =
        json!({"set": [{"name": "y", "value": "user"}, {"name": "x", "value": "gray"}], "remove": ["z"]});
    assert_eq!(
        now[0]["filters"],
        json!([{"type": "URLRewrite"}, filter(both)]),
        "a rule has one filter of this type"
    );
    assert_eq!(now[0]["backendRefs"], json!([backend("web-canary", 1)]));
    assert_eq!(now[1], rule);
}

#[test]
fn a_weight_a_header_and_a_weight_leave_every_rule_and_end_as_it_was() {
    let mut world = world();
    world.finish(&restore_stable_service);
    world.finish(&remove_canary_service);
    let before = world.settled();
    assert_eq!(
        before,
        World::new(json!({"service": "web"}), [web_service(), route_object(&rules())]).objects
    );
    for step in [
        json!({"traffic": "20%"}),
        json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}),
        json!({"traffic": "60%"}),
    ] {
        world.route(step);
        let now = present(&world);
        for rule in rules().as_array().unwrap() {
            let is_there = now.as_array().unwrap().iter().any(|found| {
                found["matches"] == rule["matches"]
                    && found["backendRefs"][0]["name"] == rule["backendRefs"][0]["name"]
            });
            assert!(is_there, "{rule} is gone from {now}");
        }
    }
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn what_a_user_changes_during_the_release_stays() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let mut edited = present(&world);
    edited[0]["timeouts"] = json!({"request": "9s"});
    edited[0]["matches"].as_array_mut().unwrap().push(prefix("/v2"));
    edited.as_array_mut().unwrap().remove(1);
    edited
        .as_array_mut()
        .unwrap()
        .insert(1, json!({"matches": [prefix("/added")], "backendRefs": [backend("web", 1)]}));
    world.edit("HTTPRoute", "route", &json!({"spec": {"rules": edited, "hostnames": ["a.example"]}}));
    world.route(json!({"traffic": "50%"}));
    let now = present(&world);
    assert_eq!(
        now[1]["backendRefs"],
        json!([backend("web", 50), backend("web-canary", 50)]),
        "new rules are divided too"
    );
    world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}));
    world.restore();
    let mut expected = rules();
    expected[0]["timeouts"] = json!({"request": "9s"});
    expected[0]["matches"] = json!([prefix("/api"), prefix("/v1"), prefix("/v2")]);
    expected[1] = json!({"matches": [prefix("/added")], "backendRefs": [backend("web", 1)]});
    assert_eq!(present(&world), expected);
    assert_eq!(world.object("HTTPRoute", "route")["spec"]["hostnames"], json!(["a.example"]));
    assert_eq!(world.object("HTTPRoute", "route")["metadata"].get("annotations"), None);
}

#[test]
fn a_route_that_a_user_applies_anew_is_the_original_from_then_on() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let applied = json!([{"matches": [prefix("/new")], "backendRefs": [backend("web", 7)]}]);
    world.edit("HTTPRoute", "route", &json!({"spec": {"rules": applied}}));
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    assert_eq!(present(&world)[0]["backendRefs"], json!([backend("web", 80), backend("web-canary", 20)]));
    world.restore();
    assert_eq!(present(&world), applied);
}

#[test]
fn what_the_api_server_fills_in_is_not_written_again() {
    let mut world = of_rules(&json!([{"backendRefs": [{"name": "web", "port": 80}]}]));
    world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}));
    let mut filled = present(&world);
    for rule in filled.as_array_mut().unwrap() {
        rule["backendRefs"][0]["group"] = "".into();
        rule["backendRefs"][0]["kind"] = "Service".into();
        rule["backendRefs"][0]["weight"] = 1.into();
    }
    filled[0]["matches"][0]["path"] = json!({"type": "PathPrefix", "value": "/"});
    filled[1]["matches"] = json!([prefix("/")]);
    world.edit("HTTPRoute", "route", &json!({"spec": {"rules": filled}}));
    let again = world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]}));
    assert!(again <= 1, "{again}");
    assert_eq!(world.route(json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]})), 0);
    world.restore();
    assert_eq!(present(&world), json!([filled[1]]));
}

#[test]
fn a_route_that_openkruise_has_changed_is_taken_over() {
    let changed = json!([
        {"matches": [prefix("/")], "backendRefs": [backend("web", 80), backend("web-canary", 20)]},
        {"matches": [prefix("/gray")], "backendRefs": [backend("web-canary", 1)]},
        {"matches": [prefix("/other")], "backendRefs": [backend("other", 4)]},
    ]);
    let restored = json!([
        {"matches": [prefix("/")], "backendRefs": [backend("web", 1)]},
        {"matches": [prefix("/other")], "backendRefs": [backend("other", 4)]},
    ]);
    let routing = json!({"service": "web", "gateway": {"httpRouteName": "route"}});
    let mut world = World::new(routing.clone(), [web_service(), route_object(&changed)]);
    world.finish(&route_to_stable);
    assert_eq!(present(&world), restored);

    let mut world = World::new(routing, [web_service(), route_object(&changed)]);
    world.route(json!({"traffic": "30%"}));
    assert_eq!(present(&world)[0]["backendRefs"], json!([backend("web", 70), backend("web-canary", 30)]));
    world.restore();
    assert_eq!(present(&world), restored);
}

#[test]
fn a_route_that_openkruise_put_back_forgets_the_earlier_release() {
    let mut world = world();
    world.route(json!({"traffic": "20%"}));
    let back = json!([{"matches": [prefix("/")], "backendRefs": [backend("web", 1)]}]);
    world.edit("HTTPRoute", "route", &json!({"spec": {"rules": back}}));
    world.finish(&route_to_stable);
    assert_eq!(present(&world), back);
    assert_eq!(world.object("HTTPRoute", "route")["metadata"].get("annotations"), None);
}

#[test]
fn two_releases_share_a_route_and_each_puts_back_its_own() {
    let rules = json!([
        {"matches": [prefix("/web")], "backendRefs": [backend("web", 5)]},
        {"matches": [prefix("/shop")], "backendRefs": [backend("shop", 1)]},
    ]);
    let mut shop = web_service();
    shop["metadata"]["name"] = "shop".into();
    let routing = json!({"service": "web", "gateway": {"httpRouteName": "route"}});
    let mut world = World::new(routing, [web_service(), shop, route_object(&rules)]);
    let of = |world: &mut World, service: &str| {
        world.routing.service = service.to_owned();
        world.owner["name"] = service.into();
    };
    of(&mut world, "web");
    let header = json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}]});
    for (first, second) in [
        (json!({"traffic": "20%"}), header.clone()),
        (header.clone(), json!({"traffic": "20%"})),
        (header.clone(), header),
    ] {
        world.route(first);
        of(&mut world, "shop");
        world.route(second.clone());
        of(&mut world, "web");
        world.route(json!({"traffic": "40%"}));
        let now = present(&world).to_string();
        assert!(now.contains("shop-canary") && now.contains("web-canary"), "{now}");
        world.restore();
        assert!(!present(&world).to_string().contains("web-canary"));
        assert!(present(&world).to_string().contains("shop-canary"));
        of(&mut world, "shop");
        let rules_of_shop = present(&world);
        assert!(world.route(second) <= 1, "what it puts back is no longer the same");
        assert_eq!(present(&world), rules_of_shop);
        world.restore();
        assert_eq!(present(&world), rules);
        of(&mut world, "web");
    }
}

#[test]
fn a_route_without_a_canary_service_marks_requests_and_is_put_back() {
    let mut world = world();
    world.restore();
    let before = world.settled();
    world.disable_canary_service = true;
    let modifier = json!({"set": [{"name": "x-gray", "value": "1"}]});
    let marked = json!({"type": "RequestHeaderModifier", "requestHeaderModifier": modifier});
    world.route(json!({"traffic": "20%", "requestHeaderModifier": modifier}));
    let gray =
        json!({"group": "", "kind": "Service", "name": "web", "port": 80, "weight": 20, "filters": [marked]});
    assert_eq!(present(&world)[0]["backendRefs"], json!([backend("web", 80), gray]));
    world.route(
        json!({"matches": [{"headers": [{"name": "a", "value": "b"}]}], "requestHeaderModifier": modifier}),
    );
    assert_eq!(present(&world)[0]["filters"], json!([marked]));
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn a_route_that_does_not_lead_to_the_service_is_a_problem() {
    for other in [
        json!({"name": "other"}),
        json!({"name": "web", "namespace": "elsewhere"}),
        json!({"name": "web", "group": "example.org", "kind": "Bucket"}),
    ] {
        let rules = json!([{"backendRefs": [other]}, {"matches": []}]);
        let mut world = World::new(
            json!({"service": "web", "gateway": {"httpRouteName": "route"}}),
            [web_service(), route_object(&rules)],
        );
        world.disable_canary_service = true;
        assert_eq!(
            world.route_problem(json!({"traffic": "20%"})),
            "HTTPRoute route sends nothing to Service web"
        );
    }
}

#[test]
fn a_memory_that_can_not_be_read_is_a_problem() {
    let mut world = world();
    world.edit("HTTPRoute", "route", &json!({"metadata": {"annotations": {RELEASED_NETWORK: "no"}}}));
    assert!(world.call(&route_to_stable).unwrap_err().contains("of HTTPRoute route can't be read"));
}
