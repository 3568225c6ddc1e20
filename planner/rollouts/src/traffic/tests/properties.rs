use super::*;

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "User", "canary-by-cookie"])
}

fn kind() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("Exact"), Some("RegularExpression")])
}

fn condition() -> impl Strategy<Value = Value> {
    let conditions = || {
        prop::collection::vec((name(), kind()), 0..3).prop_map(|conditions| {
            let condition = |(name, kind): (&str, Option<&str>)| match kind {
                None => json!({"name": name, "value": "v"}),
                Some(kind) => json!({"name": name, "value": "v", "type": kind}),
            };
            conditions.into_iter().map(condition).collect::<Vec<_>>()
        })
    };
    let path = prop::sample::select(vec![None, Some("/"), Some("/beta")]);
    (conditions(), conditions(), path).prop_map(|(headers, parameters, path)| {
        let mut condition = json!({"headers": headers, "queryParams": parameters});
        if let Some(path) = path {
            condition["path"] = json!({"type": "Exact", "value": path});
        }
        condition
    })
}

fn step() -> impl Strategy<Value = Value> {
    let traffic = (0..=100_u32).prop_map(|weight| json!({"traffic": format!("{weight}%")}));
    let matches = prop::collection::vec(condition(), 1..3).prop_map(|matches| json!({"matches": matches}));
    let modifier = prop::sample::select(vec![
        json!(null),
        json!({"set": [{"name": "x", "value": "1"}], "remove": ["y"]}),
    ]);
    (prop_oneof![traffic, matches, Just(json!({}))], modifier).prop_map(|(mut step, modifier)| {
        step["requestHeaderModifier"] = modifier;
        step
    })
}

/// A rule of an HTTPRoute.
fn rule() -> impl Strategy<Value = Value> {
    let backends =
        prop::collection::vec((prop::sample::select(vec!["web", "other", "third"]), 0..5_u32), 1..3);
    let paths = prop::collection::vec(prop::sample::select(vec!["/", "/a", "/b"]), 0..3);
    (backends, paths, any::<bool>()).prop_map(|(backends, paths, filtered)| {
        let matches = paths.iter().map(|path| json!({"path": {"type": "PathPrefix", "value": path}}));
        let backends = backends.iter().map(|(name, weight)| json!({"name": name, "port": 80, "weight": weight}));
        let mut rule = json!({"backendRefs": backends.collect::<Vec<_>>()});
        if !paths.is_empty() {
            rule["matches"] = matches.collect::<Vec<_>>().into();
        }
        if filtered {
            rule["filters"] = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": "0"}]}}]);
        }
        rule
    })
}

/// All providers in front of one Service.
fn world(mut rules: Vec<Value>, disable_canary_service: bool) -> World {
    rules.push(json!({"backendRefs": [{"name": "web", "port": 80}]}));
    let routing = json!({"service": "web", "ingress": {"name": "in", "classType": "mse"}, "gateway": {"httpRouteName": "route"}, "customNetworkRefs": [
        {"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "name": "vs"},
        {"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "name": "dr"},
    ]});
    let object = |api_version: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let to = |host: &str| json!([{"destination": {"host": host}}]);
    let mut world = World::new(
        routing,
        [
            web_service(),
            object(
                "networking.k8s.io/v1",
                "Ingress",
                "in",
                json!({"rules": [{"http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}),
            ),
            object("gateway.networking.k8s.io/v1", "HTTPRoute", "route", json!({"rules": rules})),
            object(
                "networking.istio.io/v1",
                "VirtualService",
                "vs",
                json!({"http": [{"route": to("web")}, {"route": to("other")}], "hosts": []}),
            ),
            object("networking.istio.io/v1", "DestinationRule", "dr", json!({"host": "web"})),
        ],
    );
    world.disable_canary_service = disable_canary_service;
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_steps_and_then_a_restore_leave_everything_as_it_was(
        steps in prop::collection::vec(step(), 1..5),
        rules in prop::collection::vec(rule(), 0..4),
        disable_canary_service in any::<bool>(),
    ) {
        let mut world = world(rules, disable_canary_service);
        let before = world.settled();
        for step in steps {
            world.route(step.clone());
            prop_assert_eq!(world.route(step), 0);
        }
        world.restore();
        prop_assert_eq!(world.settled(), before);
    }

    #[test]
    fn a_release_that_is_cut_off_anywhere_can_be_put_back(
        steps in prop::collection::vec(step(), 1..4),
        rules in prop::collection::vec(rule(), 0..4),
        passes in 0..8_usize,
    ) {
        let mut world = world(rules, false);
        let before = world.settled();
        let mut left = passes;
        'release: for step in steps {
            let step: Step = serde_json::from_value(step).unwrap();
            loop {
                if left == 0 {
                    break 'release;
                }
                left -= 1;
                let progress = world.act(&|context, view| route_step(context, &step, view)).unwrap();
                if progress.done {
                    break;
                }
                world.now += progress.again.unwrap();
            }
        }
        world.now += Duration::from_secs(60);
        world.restore();
        prop_assert_eq!(world.settled(), before);
    }

    #[test]
    fn a_rule_that_a_user_adds_at_any_step_stays(
        steps in prop::collection::vec(step(), 1..4),
        rules in prop::collection::vec(rule(), 0..3),
        at in 0..4_usize,
    ) {
        let mut world = world(rules, false);
        let mut before = world.settled();
        let added = json!({"matches": [{"path": {"type": "Exact", "value": "/added"}}], "backendRefs": [{"name": "web", "port": 80, "weight": 1}]});
        for (position, step) in steps.into_iter().enumerate() {
            world.route(step);
            if position == at {
                let mut rules = world.object("HTTPRoute", "route")["spec"]["rules"].clone();
                rules.as_array_mut().unwrap().push(added.clone());
                world.edit("HTTPRoute", "route", &json!({"spec": {"rules": rules}}));
                let original = before.values_mut().find(|object| object.name() == "route").unwrap();
                original["spec"]["rules"].as_array_mut().unwrap().push(added.clone());
            }
        }
        world.restore();
        prop_assert_eq!(world.settled(), before);
    }
}
