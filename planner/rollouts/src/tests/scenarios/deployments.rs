//! Deployments: held, rolled in place of Kubernetes' own controller, and beside a second one.

use super::*;

#[test]
fn a_deployment_is_held_while_its_own_pods_are_replaced() {
    let mut world = world(&deployment(), 10);
    world.release_by(
        &deployment(),
        &json!({"canary": {"steps": steps(&[(json!("30%"), None), (json!("100%"), None)])}}),
    );
    world.release(&deployment(), "v2");
    assert_eq!(world.get(&deployment())["spec"]["paused"], true);
    world.run_to(1, "StepPaused");
    assert_eq!((world.count("v2"), world.count("v1")), (3, 7));
    // As `kubectl rollout resume` does.
    world.update(&deployment(), &json!({"spec": {"paused": false}}));
    let held = world.get(&deployment()).clone();
    assert_eq!(
        (&held["spec"]["paused"], &held["spec"]["strategy"]["type"]),
        (&json!(true), &json!("Recreate"))
    );
    world.run(5);
    assert_eq!(world.count("v2"), 3);
    world.approve();
    world.run_until("the end", World::is_over);
    world.run(20);
    assert_eq!((world.count("v2"), world.count("v1")), (10, 0));
    world.assert_clean(&deployment());
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    assert_eq!(world.get(&deployment())["spec"]["strategy"], strategy);
}

#[test]
fn a_deployment_that_is_scaled_down_keeps_old_pods_for_its_service() {
    let mut world = world(&deployment(), 10);
    let steps = steps(&[(json!("30%"), Some("20%")), (json!("100%"), None)]);
    world.release_by(&deployment(), &json!({"canary": {"trafficRoutings": routings(), "steps": steps}}));
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.update(&deployment(), &json!({"spec": {"replicas": 3}}));
    for _ in 0..10 {
        world.run(1);
        assert!(world.serves("web", "v1"), "{:?}", world.images());
    }
    assert_eq!((world.count("v1"), world.count("v2")), (2, 1));
}

#[test]
fn a_service_selects_all_pods_where_no_old_one_is_left() {
    let mut world = world(&cloneset(), 10);
    let steps = steps(&[(json!(4), Some("20%")), (json!(10), None)]);
    world.release_by(&cloneset(), &json!({"canary": {"trafficRoutings": routings(), "steps": steps}}));
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.update(&cloneset(), &json!({"spec": {"replicas": 3}}));
    world.run(10);
    assert!(world.is_at(1, "StepPaused") && world.count("v1") == 0);
    assert!(world.serves("web", "v2"));
}

#[test]
fn a_deployment_of_type_recreate_is_of_that_type_again_in_the_end() {
    let mut world = world(&deployment(), 5);
    let recreate = json!({"type": "Recreate", "rollingUpdate": null});
    world.update(&deployment(), &json!({"spec": {"strategy": recreate}}));
    world.release_by(&deployment(), &three_steps());
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.release(&deployment(), "v3");
    world.run_until("the newer version", |world| world.count("v3") == 1);
    for step in [1, 2] {
        world.run_to(step, "StepPaused");
        world.approve();
    }
    world.run_until("the end", World::is_over);
    assert_eq!(world.get(&deployment())["spec"]["strategy"], json!({"type": "Recreate"}));
    world.assert_clean(&deployment());
}

#[test]
fn a_release_goes_on_once_the_webhook_is_back() {
    let mut world = world(&deployment(), 5);
    world.release_by(&deployment(), &three_steps());
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    let kind = "MutatingWebhookConfiguration";
    let webhook = world.of_kind(kind).remove(0);
    world.objects.retain(|name, _| name.kind != kind);
    world.run(3);
    let released = world.get(&deployment())["spec"].clone();
    assert_eq!((&released["strategy"]["type"], &released["paused"]), (&json!("RollingUpdate"), &json!(true)));
    // Nobody keeps this from happening meanwhile.
    world.update(&deployment(), &json!({"spec": {"paused": false}}));
    world.reconcile();
    assert_eq!((&world.get(&deployment())["spec"]["paused"], world.count("v2")), (&json!(true), 1));
    world.create(webhook);
    world.run(3);
    assert_eq!(world.get(&deployment())["spec"]["strategy"], json!({"type": "Recreate"}));
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 3);
}

#[test]
fn a_second_deployment_runs_the_new_pods() {
    let mut world = world(&deployment(), 4);
    let strategy = json!({"canary": {"enableExtraWorkloadForCanary": true, "trafficRoutings": routings(),
        "steps": steps(&[(json!(2), Some("50%"))])}});
    world.release_by(&deployment(), &strategy);
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    let canary = world.of_kind("Deployment").into_iter().find(|found| found.name() != "web").unwrap();
    assert_eq!(canary.label("rollouts.kruise.io/canary-deployment"), Some("web"));
    assert_eq!((world.count("v2"), world.count("v1")), (2, 4));
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.of_kind("Deployment").len(), 1);
    assert_eq!((world.count("v2"), world.count("v1")), (4, 0));
    world.assert_clean(&deployment());
}

#[test]
fn a_newer_version_of_a_deployment_without_pods_begins_anew() {
    let mut world = world(&deployment(), 10);
    world.release_by(&deployment(), &three_steps());
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    world.update(&deployment(), &json!({"spec": {"replicas": 0}}));
    world.run(5);
    world.release(&deployment(), "v3");
    world.run(20);
    world.update(&deployment(), &json!({"spec": {"replicas": 10}}));
    world.run(10);
    assert_eq!((world.state(), world.count("v3")), ((1, "StepPaused".to_owned()), 2));
}
