//! Releases from their beginning to their end (docs/behaviour/rollouts.md).

use api::features::FeatureGates;
use serde_json::{Value, json};

use super::pods::image;
use super::world::{World, named};
use crate::object::{Object as _, ObjectName};

pub(super) const CLONE_SET: &str = "apps.kruise.io/v1alpha1";

pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

pub(super) fn cloneset() -> ObjectName {
    named(CLONE_SET, "CloneSet", "web")
}

pub(super) fn deployment() -> ObjectName {
    named("apps/v1", "Deployment", "web")
}

pub(super) fn rollout() -> ObjectName {
    named("rollouts.kruise.io/v1beta1", "Rollout", "web")
}

/// A workload with its Pods at v1, its Service and its Ingress.
pub(super) fn world(workload: &ObjectName, replicas: i64) -> World {
    let mut world = World::new();
    world.create(json!({
        "apiVersion": workload.api_version, "kind": workload.kind, "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("v1"),
            "futureField": {"kept": true}},
    }));
    world.create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }));
    world.create(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]},
    }));
    if workload.kind == "Deployment" {
        world.update(
            workload,
            &json!({"spec": {"strategy":
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}),
        );
    }
    (0..3).for_each(|_| world.work());
    world
}

/// Steps of a strategy: how many Pods are new, and which share of the traffic they get.
pub(super) fn steps(steps: &[(Value, Option<&str>)]) -> Value {
    let steps = steps.iter().map(|(replicas, traffic)| match traffic {
        Some(traffic) => json!({"replicas": replicas, "traffic": traffic}),
        None => json!({"replicas": replicas}),
    });
    steps.collect::<Vec<_>>().into()
}

pub(super) fn routings() -> Value {
    json!([{"service": "web", "ingress": {"name": "web"}}])
}

impl World {
    pub(super) fn rollout(&self) -> &Value {
        self.get(&rollout())
    }

    /// Adds a Rollout with a strategy.
    pub(super) fn release_by(&mut self, workload: &ObjectName, strategy: &Value) {
        self.create(json!({
            "apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": "web"},
            "spec": {"workloadRef": {"apiVersion": workload.api_version, "kind": workload.kind, "name": "web"},
                "strategy": strategy},
        }));
        self.run(2);
    }

    pub(super) fn release(&mut self, workload: &ObjectName, image: &str) {
        self.update(workload, &json!({"spec": {"template": template(image)}}));
    }

    fn block(&self) -> &'static str {
        if self.rollout()["spec"]["strategy"]["blueGreen"].is_null() {
            "canaryStatus"
        } else {
            "blueGreenStatus"
        }
    }

    pub(super) fn state(&self) -> (i64, String) {
        let status = &self.rollout()["status"][self.block()];
        (status["currentStepIndex"].as_i64().unwrap_or(0), status.text("/currentStepState").to_owned())
    }

    pub(super) fn is_at(&self, index: i64, state: &str) -> bool {
        self.state() == (index, state.to_owned())
    }

    #[track_caller]
    pub(super) fn run_to(&mut self, index: i64, state: &str) {
        self.run_until(&format!("step {index}, {state}"), |world| world.is_at(index, state));
        let status = &self.rollout()["status"];
        let mirrored = (status["currentStepIndex"].as_i64(), status.text("/currentStepState"));
        assert_eq!(mirrored, (Some(index), state));
    }

    pub(super) fn approve(&mut self) {
        let block = self.block();
        self.update_status(&rollout(), &json!({block: {"currentStepState": "StepReady"}}));
    }

    pub(super) fn jump(&mut self, index: i64) {
        let block = self.block();
        self.update_status(&rollout(), &json!({block: {"nextStepIndex": index}}));
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        self.rollout().items("/status/conditions").iter().find(|condition| condition["type"] == kind)
    }

    pub(super) fn phase(&self) -> &str {
        self.rollout().text("/status/phase")
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase() == "Healthy" && self.condition("Succeeded").is_some()
    }

    pub(super) fn selector(&self, service: &str) -> Option<&Value> {
        self.objects.get(&named("v1", "Service", service)).map(|service| &service["spec"]["selector"])
    }

    pub(super) fn canary_weight(&self) -> Option<&str> {
        let ingress = self.objects.get(&named("networking.k8s.io/v1", "Ingress", "web-canary"))?;
        ingress.annotation("nginx.ingress.kubernetes.io/canary-weight")
    }

    /// No request that goes through the Service reaches a Pod of an image.
    pub(super) fn serves(&self, service: &str, wanted: &str) -> bool {
        let Some(selector) = self.selector(service).and_then(Value::as_object) else { return false };
        self.of_kind("Pod")
            .iter()
            .filter(|pod| image(pod) == wanted)
            .any(|pod| selector.iter().all(|(key, value)| pod.label(key) == value.as_str()))
    }

    /// All traces of a release are gone but what the Rollout itself says.
    #[track_caller]
    pub(super) fn assert_clean(&self, workload: &ObjectName) {
        assert_eq!(self.selector("web"), Some(&json!({"app": "web"})));
        assert_eq!(self.selector("web-canary"), None);
        assert_eq!(self.canary_weight(), None);
        assert_eq!(self.of_kind("BatchRelease"), Vec::<Value>::new());
        let object = self.get(workload);
        let annotations = object.members("/metadata/annotations").cloned().unwrap_or_default();
        assert_eq!(annotations, serde_json::Map::new());
        let labels: Vec<String> = object
            .members("/metadata/labels")
            .into_iter()
            .flat_map(|labels| labels.keys().cloned())
            .collect();
        let is_known = self.objects.contains_key(&rollout());
        assert_eq!(labels, Vec::from_iter(is_known.then_some("rollouts.kruise.io/workload-type")));
        assert_eq!(object["spec"]["futureField"], json!({"kept": true}));
        assert_ne!(object["spec"]["paused"], true);
    }
}

fn three_steps() -> Value {
    json!({"canary": {"steps": steps(&[(json!("20%"), None), (json!("60%"), None), (json!("100%"), None)])}})
}

#[test]
fn a_cloneset_is_released_step_by_step_with_a_persons_approval() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    assert_eq!((world.phase(), world.state()), ("Healthy", (3, "Completed".to_owned())));
    world.release(&cloneset(), "v2");
    let frozen = world.get(&cloneset());
    assert_eq!(frozen["spec"]["updateStrategy"]["partition"], "100%");
    assert_eq!(frozen.annotation("rollouts.kruise.io/in-progressing"), Some(r#"{"rolloutName":"web"}"#));
    for (step, new) in [(1, 1), (2, 3)] {
        world.run_to(step, "StepPaused");
        world.run(30);
        assert_eq!((world.count("v2"), world.state()), (new, (step, "StepPaused".to_owned())));
        let message =
            format!("Rollout is in step({step}/3), and you need manually confirm to enter the next step");
        assert_eq!(world.rollout()["status"]["message"], *message);
        assert_eq!(world.condition("Progressing").unwrap()["message"], *message);
        world.approve();
    }
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
    assert_eq!(world.condition("Succeeded").unwrap()["status"], "True");
    world.assert_clean(&cloneset());
}

#[test]
fn a_pause_with_a_duration_ends_by_itself() {
    let mut world = world(&cloneset(), 5);
    let strategy = json!({"canary": {"steps": [
        {"replicas": 1, "pause": {"duration": 10}},
        {"replicas": 2, "pause": {"duration": 0}},
        {"replicas": 3},
    ]}});
    world.release_by(&cloneset(), &strategy);
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let since = world.now;
    assert!(world.sleeps().is_some_and(|sleeps| sleeps.as_secs() <= 10));
    world.run_until("the next step", |world| world.state().0 > 1);
    let seconds = world.now.duration_since(since).as_secs();
    assert!((10..=13).contains(&seconds), "{seconds}");
    // The second step waits for nobody.
    world.run_to(3, "StepPaused");
    assert_eq!(world.count("v2"), 3);
}

#[test]
fn somebody_may_choose_another_step() {
    let mut world = world(&cloneset(), 10);
    let four: Vec<_> = ["10%", "20%", "30%", "40%"].map(|share| (json!(share), None)).into();
    world.release_by(&cloneset(), &json!({"canary": {"steps": steps(&four)}}));
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    world.jump(4);
    world.run_to(4, "StepPaused");
    assert_eq!(world.count("v2"), 4);
    assert_eq!(world.rollout()["status"]["canaryStatus"]["nextStepIndex"], -1);
    // What is no step is put right.
    world.jump(9);
    world.run(3);
    assert_eq!(world.state(), (4, "StepPaused".to_owned()));
    assert_eq!(world.rollout()["status"]["canaryStatus"]["nextStepIndex"], -1);
}

fn traffic_steps() -> Value {
    let steps = steps(&[(json!("20%"), Some("20%")), (json!("50%"), Some("50%")), (json!("100%"), None)]);
    json!({"canary": {"trafficRoutings": routings(), "steps": steps}})
}

#[test]
fn traffic_reaches_new_pods_only_when_their_step_says_so() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    for _ in 0..60 {
        if world.canary_weight() == Some("20") {
            break;
        }
        assert!(!world.serves("web", "v2"), "the Service selects new Pods");
        world.run(1);
    }
    world.run_to(1, "StepPaused");
    assert_eq!(world.canary_weight(), Some("20"));
    assert!(world.serves("web-canary", "v2") && !world.serves("web-canary", "v1"));
    assert!(world.serves("web", "v1") && !world.serves("web", "v2"));
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!((world.canary_weight(), world.count("v2")), (Some("50"), 3));
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
    world.assert_clean(&cloneset());
}

#[test]
fn a_rollback_takes_traffic_away_before_new_pods_go() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.release(&cloneset(), "v1");
    while world.canary_weight().is_some() {
        assert_eq!(world.count("v2"), 1, "new Pods go before traffic has left them");
        world.run(1);
    }
    world.run_until("the end", World::is_over);
    assert_eq!((world.count("v1"), world.count("v2")), (5, 0));
    assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
    world.assert_clean(&cloneset());
    assert!(world.events.iter().any(|event| event.contains("canceled")));
}

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

fn blue_green() -> Value {
    json!({"blueGreen": {"trafficRoutings": routings(),
        "steps": steps(&[(json!("50%"), None), (json!("100%"), Some("100%"))])}})
}

#[test]
fn blue_and_green_stand_side_by_side_until_the_last_approval() {
    for workload in [deployment(), cloneset()] {
        let mut world = world(&workload, 3);
        world.update(&workload, &json!({"spec": {"minReadySeconds": 7}}));
        (0..2).for_each(|_| world.work());
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        assert_eq!((world.count("v1"), world.count("v2")), (3, 2), "{}", workload.kind);
        world.approve();
        world.run_to(2, "StepPaused");
        assert_eq!((world.count("v1"), world.count("v2")), (3, 3));
        assert_eq!(world.canary_weight(), Some("100"));
        world.run(10);
        assert!(world.is_at(2, "StepPaused"), "the last step waits too");
        world.approve();
        world.run_until("the end", World::is_over);
        assert_eq!((world.count("v1"), world.count("v2")), (0, 3));
        assert_eq!(world.get(&workload)["spec"]["minReadySeconds"], 7);
        world.assert_clean(&workload);
    }
}

#[test]
fn a_manifest_that_is_applied_again_ends_no_blue_green_release() {
    let settings = json!({"maxSurge": "10%", "maxUnavailable": "50%"});
    for (workload, applied) in [
        (deployment(), json!({"minReadySeconds": 5, "strategy": {"rollingUpdate": settings}})),
        (cloneset(), json!({"minReadySeconds": 5, "updateStrategy": settings})),
    ] {
        let mut world = world(&workload, 3);
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        let held = world.get(&workload)["spec"].clone();
        world.update(&workload, &json!({"spec": applied}));
        assert_eq!(world.get(&workload)["spec"], held);
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (3, 2), "{}", workload.kind);
        // The same where no webhook sees it.
        let kind = "MutatingWebhookConfiguration";
        let webhook = world.of_kind(kind).remove(0);
        world.objects.retain(|name, _| name.kind != kind);
        world.update(&workload, &json!({"spec": applied}));
        world.reconcile();
        assert_eq!(world.get(&workload)["spec"], held);
        world.create(webhook);
        for step in [1, 2] {
            world.run_to(step, "StepPaused");
            world.approve();
        }
        world.run_until("the end", World::is_over);
        let spec = &world.get(&workload)["spec"];
        let strategy = if workload.kind == "Deployment" {
            &spec["strategy"]["rollingUpdate"]
        } else {
            &spec["updateStrategy"]
        };
        assert_eq!((&spec["minReadySeconds"], strategy), (&json!(5), &settings));
        world.assert_clean(&workload);
    }
}

#[test]
fn a_third_version_waits_while_blue_and_green_stand() {
    for workload in [deployment(), cloneset()] {
        let mut world = world(&workload, 3);
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.release(&workload, "v3");
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v3")), (3, 0), "{}", workload.kind);
        let message =
            "new version releasing detected in the progress of blue-green release, please rollback first";
        assert_eq!(world.rollout()["status"]["message"], message);
        world.release(&workload, "v1");
        world.run_until("the end", World::is_over);
        assert_eq!((world.count("v1"), world.count("v2"), world.count("v3")), (3, 0, 0));
        world.assert_clean(&workload);
    }
}

#[test]
fn a_newer_version_begins_anew_with_all_traffic_at_the_old_one() {
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        let mut world = world(&workload, 5);
        let mut strategy = traffic_steps();
        strategy["canary"]["enableExtraWorkloadForCanary"] = extra.into();
        world.release_by(&workload, &strategy);
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.release(&workload, "v3");
        world.run_until("the new release", |world| {
            world.condition("Progressing").unwrap()["reason"] == "Initializing"
        });
        assert_eq!(world.canary_weight(), None, "{} {extra}", workload.kind);
        assert!(!world.serves("web", "v2") && !world.serves("web", "v3"));
        assert_eq!(world.count("v3"), 0);
        world.run_to(1, "StepPaused");
        assert_eq!((world.count("v3"), world.canary_weight()), (1, Some("20")));
        assert!(!world.serves("web-canary", "v1"));
        world.approve();
        world.run_to(2, "StepPaused");
        world.approve();
        world.run_until("the end", World::is_over);
        world.run(20);
        assert_eq!(world.count("v3"), 5);
        world.assert_clean(&workload);
    }
}

#[test]
fn the_service_selects_what_runs_when_a_version_follows_one_that_all_pods_have() {
    for workload in [deployment(), cloneset()] {
        let mut world = world(&workload, 5);
        let steps = steps(&[(json!("20%"), Some("20%")), (json!("100%"), None), (json!("100%"), None)]);
        world.release_by(&workload, &json!({"canary": {"trafficRoutings": routings(), "steps": steps}}));
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.approve();
        world.run_to(2, "StepPaused");
        assert_eq!(world.count("v2"), 5);
        // Somebody has second thoughts.
        world.release(&workload, "v3");
        world.run(2);
        world.release(&workload, "v2");
        for _ in 0..30 {
            world.run(1);
            assert!(world.serves("web", "v2"), "{}", world.rollout());
        }
        world.release(&workload, "v3");
        world.run_until("another version", |world| world.count("v3") == 1);
        while !world.is_at(1, "StepPaused") {
            world.run(1);
            assert!(world.serves("web", "v2") && !world.serves("web", "v3"), "{}", world.rollout());
        }
        assert_eq!(world.canary_weight(), Some("20"));
        world.release(&workload, "v2");
        world.run_until("the end", World::is_over);
        assert_eq!(
            (world.count("v2"), world.condition("Succeeded").unwrap()["status"].clone()),
            (5, json!("False"))
        );
        world.assert_clean(&workload);
    }
}

#[test]
fn a_workload_without_pods_passes_no_step() {
    let mut world = world(&cloneset(), 10);
    world.release_by(
        &cloneset(),
        &json!({"canary": {"trafficRoutings": routings(),
        "steps": [{"replicas": "20%", "traffic": "20%", "pause": {"duration": 30}}]}}),
    );
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let narrowed = world.selector("web").cloned();
    world.update(&cloneset(), &json!({"spec": {"replicas": 0}}));
    world.run(40);
    assert_eq!((world.images(), world.state()), (Vec::new(), (1, "StepPaused".to_owned())));
    assert_eq!(world.selector("web").cloned(), narrowed);
    world.update(&cloneset(), &json!({"spec": {"replicas": 4}}));
    world.run(5);
    assert!(world.serves("web", "v2"), "all Pods are new now, and nothing else is there");
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

#[test]
fn a_pause_holds_the_release_and_a_rollback_wins_over_it() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.update(&rollout(), &json!({"spec": {"strategy": {"paused": true}}}));
    world.run(2);
    assert_eq!(world.condition("Progressing").unwrap()["reason"], "Paused");
    world.approve();
    world.run(10);
    assert_eq!((world.count("v2"), world.state()), (1, (1, "StepReady".to_owned())));
    world.release(&cloneset(), "v1");
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v1"), 5);
    assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
    world.assert_clean(&cloneset());
}

#[test]
fn an_approval_made_during_a_pause_counts_once_it_is_over() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.update(&rollout(), &json!({"spec": {"strategy": {"paused": true}}}));
    world.approve();
    world.run(5);
    world.update(&rollout(), &json!({"spec": {"strategy": {"paused": false}}}));
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 3);
}

#[test]
fn a_step_back_takes_requests_back_and_then_pods() {
    let mut strategy = traffic_steps();
    strategy["canary"]["enableExtraWorkloadForCanary"] = true.into();
    let mut world = world(&deployment(), 5);
    world.release_by(&deployment(), &strategy);
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (3, Some("50")));
    world.jump(1);
    while world.canary_weight() == Some("50") {
        assert_eq!(world.count("v2"), 3);
        world.run(1);
    }
    world.run_to(1, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (1, Some("20")));
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (3, Some("50")));
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
    world.assert_clean(&deployment());
}

#[test]
fn a_step_back_gives_a_cloneset_its_partition_of_that_step() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let partition = |world: &World| world.get(&cloneset())["spec"]["updateStrategy"]["partition"].clone();
    let first = partition(&world);
    world.approve();
    world.run_to(2, "StepPaused");
    assert_ne!(partition(&world), first);
    world.jump(1);
    world.run_to(1, "StepPaused");
    assert_eq!(partition(&world), first);
    // The last step is as near from there as the next one.
    world.jump(3);
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
}

#[test]
fn a_rollout_that_is_deleted_or_disabled_lets_its_workload_go() {
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        for is_deleted in [true, false] {
            let mut world = world(&workload, 5);
            let mut strategy = traffic_steps();
            strategy["canary"]["enableExtraWorkloadForCanary"] = extra.into();
            world.release_by(&workload, &strategy);
            world.release(&workload, "v2");
            world.run_to(1, "StepPaused");
            if is_deleted {
                world.delete(&rollout());
                world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
            } else {
                world.update(&rollout(), &json!({"spec": {"disabled": true}}));
                world.run_until("the end", |world| world.phase() == "Disabled");
            }
            world.run(20);
            assert_eq!(world.count("v2"), 5, "{} {extra} {is_deleted}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_disabled_rollout_holds_no_release_and_acts_again_once_enabled() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.update(&rollout(), &json!({"spec": {"disabled": true}}));
    // Before its controller has seen it.
    world.release(&cloneset(), "v2");
    world.run(5);
    assert_eq!((world.phase(), world.count("v2")), ("Disabled", 5));
    world.update(&rollout(), &json!({"spec": {"disabled": false}}));
    world.run(2);
    assert_eq!(world.phase(), "Healthy");
    world.release(&cloneset(), "v3");
    world.run_to(1, "StepPaused");
    assert_eq!(world.count("v3"), 1);
}

#[test]
fn an_identity_as_label_or_annotation_begins_a_release_and_reaches_pods() {
    for place in ["labels", "annotations"] {
        let mut world = world(&cloneset(), 5);
        world.release_by(&cloneset(), &three_steps());
        let id = json!({place: {"rollouts.kruise.io/rollout-id": "spring"}});
        world.update(&cloneset(), &json!({"metadata": id, "spec": {"template": template("v2")}}));
        world.run_to(1, "StepPaused");
        world.approve();
        world.run_to(2, "StepPaused");
        let mut batches: Vec<String> = Vec::new();
        for pod in world.of_kind("Pod").iter().filter(|pod| image(pod) == "v2") {
            assert_eq!(pod.label("rollouts.kruise.io/rollout-id"), Some("spring"), "{place}");
            batches.push(pod.label("rollouts.kruise.io/rollout-batch-id").unwrap().to_owned());
        }
        batches.sort_unstable();
        assert_eq!(batches, ["1", "2", "2"]);
        // Where the user names releases, a template alone begins none but resets the one that is running.
        world.release(&cloneset(), "v3");
        assert_eq!(world.get(&cloneset())["spec"]["updateStrategy"]["partition"], "100%");
    }
}

#[test]
fn a_rollout_written_with_a_template_change_holds_all_but_the_first_step() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        world.create(json!({
            "apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": "web"},
            "spec": {"workloadRef": {"apiVersion": workload.api_version, "kind": workload.kind, "name": "web"},
                "strategy": three_steps()},
        }));
        world.release(&workload, "v2");
        for _ in 0..30 {
            world.work();
            world.run(1);
            assert!(world.count("v2") <= 1, "{}", workload.kind);
        }
        assert!(world.is_at(1, "StepPaused"));
    }
}

#[test]
fn a_rollback_in_batches_takes_the_steps_again() {
    let mut world = world(&cloneset(), 10);
    world.release_by(&cloneset(), &three_steps());
    world.update(
        &rollout(),
        &json!({"metadata": {"annotations": {"rollouts.kruise.io/rollback-in-batch": "true"}}}),
    );
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 6);
    world.release(&cloneset(), "v1");
    world.run_to(1, "StepPaused");
    assert_eq!(world.condition("Progressing").unwrap()["reason"], "InRolling");
    assert!(world.count("v2") < 6 && world.count("v2") > 0, "{}", world.count("v2"));
    world.approve();
    world.run_to(2, "StepPaused");
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v1"), 10);
    world.assert_clean(&cloneset());
}

#[test]
fn a_plan_that_changes_takes_up_the_step_that_its_pods_have_reached() {
    let mut world = world(&cloneset(), 10);
    let traffic = json!({"canary": {"trafficRoutings": routings(),
        "steps": steps(&[(json!("10%"), Some("10%")), (json!("30%"), Some("30%")), (json!("50%"), None)])}});
    world.release_by(&cloneset(), &traffic);
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.canary_weight(), Some("30"));
    // The present step with other traffic.
    let mut strategy = traffic.clone();
    strategy["canary"]["steps"][1]["traffic"] = "35%".into();
    world.update(&rollout(), &json!({"spec": {"strategy": strategy}}));
    world.run_until("the traffic", |world| {
        world.canary_weight() == Some("35") && world.is_at(2, "StepPaused")
    });
    // A larger first step covers what is new already.
    strategy["canary"]["steps"][1]["replicas"] = "20%".into();
    world.update(&rollout(), &json!({"spec": {"strategy": strategy}}));
    world.run_to(3, "StepPaused");
    assert_eq!(world.count("v2"), 5);
}

#[test]
fn pauses_and_thresholds_change_without_a_step_being_taken_anew() {
    let mut world = world(&cloneset(), 10);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let since = world.rollout()["status"]["canaryStatus"]["lastUpdateTime"].clone();
    let mut strategy = three_steps();
    strategy["canary"]["steps"][0]["pause"] = json!({"duration": 3600});
    world.update(&rollout(), &json!({"spec": {"strategy": strategy}}));
    world.run(5);
    assert!(world.is_at(1, "StepPaused"));
    assert_eq!(world.rollout()["status"]["canaryStatus"]["lastUpdateTime"], since);
}

#[test]
fn a_workload_that_is_not_there_resets_the_status() {
    let mut world = World::new();
    world.release_by(&cloneset(), &three_steps());
    assert_eq!((world.phase(), world.rollout().text("/status/message")), ("Initial", "Workload Not Found"));
    assert_eq!(world.rollout()["metadata"]["finalizers"], json!(["rollouts.kruise.io/rollout"]));
}

#[test]
fn a_workload_that_goes_during_its_release_leaves_no_traffic_behind() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.delete(&cloneset());
    world.run_until("the reset", |world| world.phase() == "Initial");
    assert_eq!(world.selector("web"), Some(&json!({"app": "web"})));
    assert_eq!((world.selector("web-canary"), world.canary_weight()), (None, None));
    assert!(world.of_kind("BatchRelease").is_empty());
}

#[test]
fn a_workload_that_is_made_anew_is_not_the_one_that_is_released() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        let object = world.get(&workload).clone();
        world.release_by(&workload, &traffic_steps());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.delete(&workload);
        world.create(json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": "web"},
            "spec": {"replicas": 4, "selector": object["spec"]["selector"], "template": template("v3"),
                "updateStrategy": {"partition": 2}, "futureField": {"kept": true}},
        }));
        (0..3).for_each(|_| world.work());
        world.run_until("the end", |world| world.phase() == "Healthy");
        world.run(5);
        assert_eq!((world.count("v3"), world.images().len()), (4, 4), "{}", workload.kind);
        assert_eq!(world.get(&workload)["spec"]["updateStrategy"]["partition"], 2);
        world.assert_clean(&workload);
        world.release(&workload, "v4");
        world.run_until("the next release", |world| world.count("v4") == 1);
        world.run_to(1, "StepPaused");
        assert_eq!((world.count("v3"), world.count("v4")), (3, 1));
    }
}

#[test]
fn a_release_that_ends_before_its_first_step_lets_its_workload_go() {
    for workload in [cloneset(), deployment()] {
        for is_deleted in [true, false] {
            let mut world = world(&workload, 5);
            world.release_by(&workload, &three_steps());
            world.release(&workload, "v2");
            world.work();
            world.run(1);
            assert_eq!(world.condition("Progressing").unwrap()["reason"], "Initializing");
            if is_deleted {
                world.delete(&rollout());
                world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
            } else {
                world.release(&workload, "v1");
                world.run_until("the end", World::is_over);
            }
            world.run(20);
            let wanted = if is_deleted { "v2" } else { "v1" };
            assert_eq!(world.count(wanted), 5, "{} {is_deleted}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_step_whose_pods_do_not_come_up_says_which_and_stalls() {
    let mut world = world(&cloneset(), 5);
    world.broken.push("v2".to_owned());
    world.release_by(&cloneset(), &three_steps());
    world.update(
        &rollout(),
        &json!({"metadata": {"annotations": {"kutter.io/rollout-deadline-seconds": "60"}}}),
    );
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepUpgrade");
    world.run(10);
    let message = world.rollout().text("/status/message").to_owned();
    assert!(message.starts_with("batch 1: 0 of 1 new pods ready; `web-"), "{message}");
    assert_eq!(world.condition("Stalled"), None);
    world.run(70);
    assert_eq!(world.condition("Stalled").unwrap()["status"], "True");
    assert_eq!(world.condition("Stalled").unwrap()["message"], *message);
    world.mend("v2");
    world.run_to(1, "StepPaused");
    assert_eq!(world.condition("Stalled"), None);
}

/// Annotations of the Rollout by which releases roll themselves back.
pub(super) fn rolls_itself_back(world: &mut World, key: &str, value: &str) {
    world.update(&rollout(), &json!({"metadata": {"annotations": {key: value}}}));
}

#[test]
fn a_release_without_progress_rolls_itself_back() {
    let mut extra = traffic_steps();
    extra["canary"]["enableExtraWorkloadForCanary"] = true.into();
    for (workload, strategy) in [
        (cloneset(), traffic_steps()),
        (deployment(), traffic_steps()),
        (deployment(), extra),
        (deployment(), blue_green()),
        (cloneset(), blue_green()),
    ] {
        let mut world = world(&workload, 5);
        world.broken.push("v2".to_owned());
        world.release_by(&workload, &strategy);
        rolls_itself_back(&mut world, "kutter.io/rollback-after-seconds", "60");
        world.release(&workload, "v2");
        world.run_to(1, "StepUpgrade");
        world.run(50);
        assert!(world.is_at(1, "StepUpgrade") && world.count("v2") > 0, "{} {strategy}", workload.kind);
        world.run_until("the end", World::is_over);
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (5, 0), "{} {strategy}", workload.kind);
        assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
        assert!(
            world.events.iter().any(|event| event.starts_with("no progress for 60 seconds: batch 1: 0 of "))
        );
        world.assert_clean(&workload);
    }
}

#[test]
fn a_release_of_which_more_new_pods_fail_than_may_rolls_itself_back() {
    let mut world = world(&cloneset(), 10);
    world.release_by(&cloneset(), &three_steps());
    rolls_itself_back(&mut world, "kutter.io/rollback-failure-share", "50%");
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let new: Vec<Value> = world.of_kind("Pod").into_iter().filter(|pod| image(pod) == "v2").collect();
    let fail = |world: &mut World, pod: &Value| {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let status = json!({"containerStatuses": [{"name": "main", "ready": false, "restartCount": 2, "image": "v2",
            "imageID": "", "state": waiting}]});
        world.update_status(&named("v1", "Pod", pod.name()), &status);
    };
    assert_eq!(new.len(), 2);
    fail(&mut world, &new[0]);
    world.run(5);
    assert!(world.is_at(1, "StepPaused"), "one of two is not more than half");
    fail(&mut world, &new[1]);
    world.run_until("the end", World::is_over);
    assert_eq!(
        (world.count("v1"), world.condition("Succeeded").unwrap()["status"].clone()),
        (10, json!("False"))
    );
    assert!(
        world.events.iter().any(|event| event.starts_with("2 of 2 new pods fail: `web-")),
        "{:?}",
        world.events
    );
    world.assert_clean(&cloneset());
}

#[test]
fn a_release_stays_where_nothing_records_what_to_go_back_to() {
    let mut world = world(&cloneset(), 5);
    world.broken.push("v2".to_owned());
    world.release_by(&cloneset(), &three_steps());
    rolls_itself_back(&mut world, "kutter.io/rollback-after-seconds", "10");
    for revision in world.of_kind("ControllerRevision") {
        world.delete(&named("apps/v1", "ControllerRevision", revision.name()));
    }
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepUpgrade");
    world.run(20);
    assert!(world.rollout().text("/status/message").contains("no record of version"), "{}", world.rollout());
    world.mend("v2");
    world.run_to(1, "StepPaused");
}

#[test]
fn the_generation_of_the_workload_is_followed_at_rest() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    for replicas in [6, 7] {
        world.update(&cloneset(), &json!({"spec": {"replicas": replicas}}));
        world.run(10);
        let generation = &world.get(&cloneset())["metadata"]["generation"];
        assert_eq!(&world.rollout()["status"]["canaryStatus"]["observedWorkloadGeneration"], generation);
    }
}

#[test]
fn a_traffic_routing_follows_the_releases_that_name_it() {
    let mut world = world(&cloneset(), 5);
    world.create(json!({
        "apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "TrafficRouting", "metadata": {"name": "gray"},
        "spec": {"objectRef": [{"service": "web", "ingress": {"name": "web"}}], "strategy": {"weight": 30}},
    }));
    world.release_by(&cloneset(), &three_steps());
    world.update(&rollout(), &json!({"spec": {"strategy": {"canary": {"trafficRoutingRef": "gray"}}}}));
    let routing = named("rollouts.kruise.io/v1alpha1", "TrafficRouting", "gray");
    assert_eq!(world.get(&routing)["status"]["phase"], "Healthy");
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    assert_eq!(world.get(&routing)["status"]["phase"], "Progressing");
    assert!(world.get(&routing).has_finalizer("progressing.rollouts.kruise.io/web"));
    assert_eq!((world.canary_weight(), world.selector("web-canary")), (Some("30"), None));
    world.release(&cloneset(), "v1");
    world.run_until("the end", World::is_over);
    world.run(5);
    assert_eq!(world.get(&routing)["status"]["phase"], "Healthy");
    assert_eq!(world.get(&routing)["metadata"]["finalizers"], json!(["rollouts.kruise.io/trafficrouting"]));
    assert_eq!(world.canary_weight(), None);
}

#[test]
fn a_step_costs_few_writes() {
    for (strategy, limit) in [(three_steps(), 6), (traffic_steps(), 8)] {
        let mut world = world(&cloneset(), 5);
        world.release_by(&cloneset(), &strategy);
        world.release(&cloneset(), "v2");
        world.run_to(1, "StepPaused");
        world.run(5);
        let before = world.calls;
        world.approve();
        world.run_to(2, "StepPaused");
        world.run(5);
        let calls: Vec<&String> = world.log[before..].iter().filter(|call| !call.contains(" Pod ")).collect();
        assert!(calls.len() <= limit, "{calls:#?}");
        let before = world.calls;
        world.run(60);
        assert_eq!(world.calls, before, "a release that waits writes nothing");
    }
}

#[test]
fn a_template_that_changes_while_a_release_ends_waits_for_its_own_release() {
    for (routed, share) in [(json!([]), None), (routings(), Some("20%"))] {
        let one = steps(&[(json!(1), share)]);
        let two = steps(&[(json!("50%"), None), (json!("100%"), share)]);
        let extra = json!({"enableExtraWorkloadForCanary": true, "trafficRoutings": routed, "steps": one});
        let green = json!({"trafficRoutings": routed, "steps": two});
        for (strategy, last, first) in [(json!({"canary": extra}), 1, 1), (json!({"blueGreen": green}), 2, 3)]
        {
            let mut world = world(&deployment(), 6);
            world.release_by(&deployment(), &strategy);
            world.release(&deployment(), "v2");
            let take_steps = |world: &mut World| {
                for step in 1..=last {
                    world.run_to(step, "StepPaused");
                    world.approve();
                }
            };
            take_steps(&mut world);
            world.run_until("the end", |world| {
                world.of_kind("BatchRelease").iter().any(|release| release["status"]["phase"] == "Finalizing")
            });
            world.release(&deployment(), "v3");
            for _ in 0..100 {
                assert!(world.count("v3") <= first, "{strategy}");
                world.run(1);
            }
            assert_eq!((world.count("v3"), world.is_at(1, "StepPaused")), (first, true), "{strategy}");
            take_steps(&mut world);
            world.run_until("the end", World::is_over);
            assert_eq!((world.count("v3"), world.images().len()), (6, 6));
            world.assert_clean(&deployment());
        }
    }
}

#[test]
fn a_rollout_that_is_deleted_after_a_template_changed_at_the_end_lets_its_workload_go() {
    for deleted in 0..8 {
        let mut world = world(&deployment(), 6);
        let extra = json!({"enableExtraWorkloadForCanary": true, "steps": steps(&[(json!(1), None)])});
        world.release_by(&deployment(), &json!({"canary": extra}));
        world.release(&deployment(), "v2");
        world.run_to(1, "StepPaused");
        world.approve();
        world.run_until("the end", |world| {
            world.of_kind("BatchRelease").iter().any(|release| release["status"]["phase"] == "Finalizing")
        });
        world.release(&deployment(), "v3");
        world.run(deleted);
        world.delete(&rollout());
        world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
        world.run(20);
        assert_eq!((world.count("v3"), world.images().len()), (6, 6), "{deleted}");
        world.assert_clean(&deployment());
    }
}

#[test]
fn the_garbage_collector_may_delete_the_batch_release_before_the_rollout_ends_it() {
    let batches = named("rollouts.kruise.io/v1beta1", "BatchRelease", "web");
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        for collected in 0..8 {
            let mut world = world(&workload, 5);
            let mut strategy = traffic_steps();
            strategy["canary"]["enableExtraWorkloadForCanary"] = extra.into();
            world.release_by(&workload, &strategy);
            world.release(&workload, "v2");
            world.run_to(1, "StepPaused");
            // As a deletion in the foreground does.
            world.delete(&rollout());
            for second in 0..60 {
                if second >= collected {
                    world.delete(&batches);
                }
                world.run(1);
            }
            assert!(!world.objects.contains_key(&rollout()), "{} {extra} {collected}", workload.kind);
            assert_eq!(world.count("v2"), 5, "{} {extra} {collected}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_deleted_rollout_leaves_its_workload_as_it_is_where_the_gate_says_so() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        world.gates =
            FeatureGates::parse("Rollouts=true,KeepWorkloadPausedOnRolloutDeletion=true", "").unwrap();
        world.release_by(&workload, &traffic_steps());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.delete(&rollout());
        world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (4, 1), "{}", workload.kind);
        assert!(world.of_kind("BatchRelease").is_empty() && world.serves("web", "v2"));
    }
}

#[test]
fn a_rollout_that_is_disabled_before_it_has_seen_a_release_lets_its_workload_go() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        world.release_by(&workload, &three_steps());
        world.release(&workload, "v2");
        world.update(&rollout(), &json!({"spec": {"disabled": true}}));
        world.run(20);
        assert_eq!((world.phase(), world.count("v2")), ("Disabled", 5), "{}", workload.kind);
        world.assert_clean(&workload);
    }
}

/// A Deployment of ten at a step with half of its Pods and requests, whose old version is wanted again.
fn rolled_back_half_way(old_pods_come: bool) -> World {
    let mut world = world(&deployment(), 10);
    world.release_by(&deployment(), &traffic_steps());
    rolls_itself_back(&mut world, "kutter.io/rollout-deadline-seconds", "60");
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 5);
    if !old_pods_come {
        world.broken.push("v1".to_owned());
    }
    world.release(&deployment(), "v1");
    world
}

#[test]
fn pods_that_are_rolled_back_get_no_requests_until_they_are_gone() {
    let mut world = rolled_back_half_way(true);
    while !world.is_over() {
        assert!(!world.serves("web", "v2"));
        world.run(1);
    }
    assert_eq!(world.count("v2"), 0);
    world.assert_clean(&deployment());
}

#[test]
fn pods_that_do_not_roll_back_hold_the_service_until_the_deadline() {
    let mut world = rolled_back_half_way(false);
    for _ in 0..60 {
        assert!(!world.serves("web", "v2"));
        world.run(1);
    }
    world.run_until("the end", World::is_over);
    assert!(world.count("v2") > 0);
    world.assert_clean(&deployment());
}

#[test]
fn a_newer_version_during_a_rollback_finds_a_service_of_old_pods() {
    let mut world = rolled_back_half_way(false);
    world.run_until("the wait", |world| {
        world.rollout().text("/status/message").ends_with("pods have the old version again")
    });
    world.release(&deployment(), "v3");
    for _ in 0..100 {
        assert!(!world.serves("web", "v2") && !world.serves("web", "v3"));
        world.run(1);
    }
    assert!(world.is_at(1, "StepPaused"), "{}", world.rollout());
}

#[test]
fn of_two_rollouts_of_a_workload_one_releases_it() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    let mut second = world.rollout().clone();
    second["metadata"] = json!({"name": "web-again"});
    second.as_object_mut().unwrap().remove("status");
    world.create(second);
    world.run(2);
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.run(10);
    let again = named("rollouts.kruise.io/v1beta1", "Rollout", "web-again");
    assert_eq!(world.get(&again).text("/status/phase"), "Healthy");
    assert_eq!(world.of_kind("BatchRelease").len(), 1);
    let before = world.calls;
    world.run(20);
    assert_eq!(world.calls, before, "{:#?}", &world.log[before..]);
    // It has nothing to end either.
    world.delete(&again);
    world.run(10);
    assert!(!world.objects.contains_key(&again));
    assert!(world.is_at(1, "StepPaused") && world.count("v2") == 1);
}

#[test]
fn a_release_of_a_rollout_that_is_gone_is_taken_over() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    let mark = json!({"rollouts.kruise.io/in-progressing": r#"{"rolloutName":"former"}"#});
    world.update(&cloneset(), &json!({"metadata": {"annotations": mark}}));
    world.run_to(1, "StepPaused");
}

#[test]
fn a_traffic_routing_is_told_of_the_end_also_where_the_rollout_no_longer_names_it() {
    let mut world = world(&cloneset(), 5);
    world.create(json!({
        "apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "TrafficRouting", "metadata": {"name": "gray"},
        "spec": {"objectRef": [{"service": "web", "ingress": {"name": "web"}}], "strategy": {"weight": 30}},
    }));
    world.release_by(&cloneset(), &three_steps());
    rolls_itself_back(&mut world, "rollouts.kruise.io/trafficrouting", "gray");
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let routing = named("rollouts.kruise.io/v1alpha1", "TrafficRouting", "gray");
    assert!(world.get(&routing).has_finalizer("progressing.rollouts.kruise.io/web"));
    rolls_itself_back(&mut world, "rollouts.kruise.io/trafficrouting", "");
    world.release(&cloneset(), "v1");
    world.run_until("the end", World::is_over);
    assert_eq!(world.get(&routing)["metadata"]["finalizers"], json!(["rollouts.kruise.io/trafficrouting"]));
}
