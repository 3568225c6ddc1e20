use super::*;

#[test]
fn both_services_are_parted_at_once_and_joined_in_the_end() {
    let mut world = plain();
    let before = world.settled();
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    assert_eq!(world.writes.len(), 2, "the canary Service comes first");
    assert!(matches!(&world.writes[0], Write::Create { name, .. } if name.name == "web-canary"));
    assert_eq!(
        world.object("Service", "web")["spec"]["selector"],
        json!({"app": "web", "pod-template-hash": "old"})
    );
    assert_eq!(
        world.object("Service", "web-canary")["spec"]["selector"],
        json!({"app": "web", "pod-template-hash": "new"})
    );
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn the_canary_service_has_all_of_the_stable_one_but_what_there_can_be_only_once() {
    let mut service = web_service();
    service["metadata"]["annotations"] =
        json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    service["spec"] = json!({
        "selector": {"app": "web"}, "type": "LoadBalancer", "newField": {"kept": [1]},
        "ports": [{"port": 80, "nodePort": 30000, "name": "http"}, {"port": 81}],
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "externalIPs": ["1.1.1.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "loadBalancerIP": "2.2.2.2", "healthCheckNodePort": 30001,
    });
    let mut world = World::new(json!({"service": "web"}), [service]);
    world.route(json!({"traffic": "20%"}));
    let canary = world.object("Service", "web-canary");
    let expected = json!({
        "selector": {"app": "web", "pod-template-hash": "new"}, "type": "LoadBalancer", "newField": {"kept": [1]},
        "ports": [{"port": 80, "name": "http"}, {"port": 81}],
    });
    assert_eq!(canary["spec"], expected);
    assert_eq!(canary["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(canary["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(canary["metadata"]["ownerReferences"], json!([world.owner]));
}

#[test]
fn labels_of_new_pods_replace_those_that_are_selected_and_only_with_the_gate_come_to_them() {
    let mut world = plain();
    world.patch_labels =
        [("app", "gray"), ("color", "blue")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    world.route(json!({"traffic": "20%"}));
    let selector = |world: &World| world.object("Service", "web-canary")["spec"]["selector"].clone();
    assert_eq!(selector(&world), json!({"app": "gray", "pod-template-hash": "new"}));
    world.append_pod_selector = true;
    world.route(json!({"traffic": "20%"}));
    assert_eq!(selector(&world), json!({"app": "gray", "color": "blue", "pod-template-hash": "new"}));
    world.append_pod_selector = false;
    world.route(json!({"traffic": "20%"}));
    assert_eq!(selector(&world), json!({"app": "gray", "pod-template-hash": "new"}));
}

#[test]
fn selectors_of_an_earlier_release_are_corrected() {
    let mut world = plain();
    world.route(json!({"traffic": "20%"}));
    world.edit("Service", "web-canary", &json!({"spec": {"selector": {"pod-template-hash": "older"}}}));
    world.edit("Service", "web", &json!({"spec": {"selector": {"pod-template-hash": "oldest"}}}));
    assert_eq!(world.route(json!({"traffic": "20%"})), 1);
    assert_eq!(world.object("Service", "web")["spec"]["selector"]["pod-template-hash"], "old");
    assert_eq!(world.object("Service", "web-canary")["spec"]["selector"]["pod-template-hash"], "new");
}

#[test]
fn the_stable_service_is_narrowed_before_there_are_new_pods() {
    let mut world = plain();
    assert_eq!(world.finish(&patch_stable_service), 1);
    assert_eq!(world.object("Service", "web")["spec"]["selector"]["pod-template-hash"], "old");
    assert_eq!(world.get("Service", "web-canary"), None);
}

#[test]
fn without_a_canary_service_no_service_is_touched() {
    let mut world = plain();
    world.disable_canary_service = true;
    world.edit("Service", "web", &json!({"spec": {"selector": {"pod-template-hash": "a user's own"}}}));
    assert_eq!(world.finish(&patch_stable_service), 0);
    assert_eq!(world.route(json!({"traffic": "20%"})), 0);
    world.restore();
    assert_eq!(world.writes, []);
}

#[test]
fn services_that_were_parted_are_joined_though_the_user_wants_no_canary_service_any_more() {
    let mut world = plain();
    let before = world.settled();
    world.route(json!({"traffic": "20%"}));
    world.disable_canary_service = true;
    world.restore();
    assert_eq!(world.settled(), before);
}

#[test]
fn the_stable_service_is_widened_though_nobody_knows_its_label_any_more() {
    let mut world = plain();
    for label in ["pod-template-hash", "controller-revision-hash"] {
        world.edit("Service", "web", &json!({"spec": {"selector": {label: "old"}}}));
        assert_eq!(world.finish(&restore_stable_service), 1);
        assert_eq!(world.object("Service", "web")["spec"]["selector"], json!({"app": "web"}));
    }
}

#[test]
fn a_service_that_selects_no_pods_is_a_problem() {
    let mut world = plain();
    world.edit("Service", "web", &json!({"spec": {"selector": null}}));
    assert_eq!(world.route_problem(json!({"traffic": "20%"})), "Service web selects no Pods");
    assert!(world.call(&patch_stable_service).is_err());
}

#[test]
fn an_unknown_revision_is_a_problem_and_selects_nothing() {
    let world = plain();
    let of_new: Function<'_> = &|context, view| {
        let step = Step { traffic: Some("20%".to_owned()), ..Step::default() };
        route_step(&Context { canary_revision: "", ..*context }, &step, view)
    };
    assert_eq!(world.call(of_new).unwrap_err(), "the new revision is not known yet");
    let of_old: Function<'_> =
        &|context, view| patch_stable_service(&Context { stable_revision: "", ..*context }, view);
    assert_eq!(world.call(of_old).unwrap_err(), "the old revision is not known yet");
}

#[test]
fn a_service_of_somebody_else_is_neither_used_nor_deleted() {
    let mut world = plain();
    let mut other = web_service();
    other["metadata"]["name"] = "web-canary".into();
    world.put(other);
    assert_eq!(
        world.route_problem(json!({"traffic": "20%"})),
        "Service web-canary exists and belongs to somebody else"
    );
    assert_eq!(world.finish(&remove_canary_service), 0);
    assert!(world.get("Service", "web-canary").is_some());
}

#[test]
fn a_canary_service_that_is_being_deleted_is_waited_for() {
    let mut world = plain();
    world.route(json!({"traffic": "20%"}));
    world.edit("Service", "web-canary", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(world.route_problem(json!({"traffic": "20%"})), "Service web-canary is still being deleted");
    assert_eq!(world.finish(&remove_canary_service), 0);
}
