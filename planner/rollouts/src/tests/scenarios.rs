//! Releases from their beginning to their end (docs/behaviour/rollouts.md).

use api::features::FeatureGates;
use serde_json::{Value, json};

use super::pods::image;
use super::world::{World, named};
use crate::object::{Object as _, ObjectName};

mod deployments;
mod endings;
mod rollbacks;
mod side_by_side;

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

fn blue_green() -> Value {
    json!({"blueGreen": {"trafficRoutings": routings(),
        "steps": steps(&[(json!("50%"), None), (json!("100%"), Some("100%"))])}})
}

/// Five Pods of a workload whose release with traffic waits at its first step, with a second Deployment or in batches.
fn at_first_step(workload: &ObjectName, extra: bool) -> World {
    let mut world = world(workload, 5);
    let mut strategy = traffic_steps();
    strategy["canary"]["enableExtraWorkloadForCanary"] = extra.into();
    world.release_by(workload, &strategy);
    world.release(workload, "v2");
    world.run_to(1, "StepPaused");
    world
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
fn a_newer_version_begins_anew_with_all_traffic_at_the_old_one() {
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        let mut world = at_first_step(&workload, extra);
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

/// Gives the Rollout an annotation.
pub(super) fn annotate(world: &mut World, key: &str, value: &str) {
    world.update(&rollout(), &json!({"metadata": {"annotations": {key: value}}}));
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

/// Creates a TrafficRouting; gives its name.
fn gray(world: &mut World) -> ObjectName {
    world.create(json!({
        "apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "TrafficRouting", "metadata": {"name": "gray"},
        "spec": {"objectRef": [{"service": "web", "ingress": {"name": "web"}}], "strategy": {"weight": 30}},
    }));
    named("rollouts.kruise.io/v1alpha1", "TrafficRouting", "gray")
}

#[test]
fn a_traffic_routing_follows_the_releases_that_name_it() {
    let mut world = world(&cloneset(), 5);
    let routing = gray(&mut world);
    world.release_by(&cloneset(), &three_steps());
    world.update(&rollout(), &json!({"spec": {"strategy": {"canary": {"trafficRoutingRef": "gray"}}}}));
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
