//! Releases that traffic follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinSet;

use super::requests::Requests;
use super::*;

const HASH: &str = "pod-template-hash";
pub(super) const WEIGHT: &str = "nginx.ingress.kubernetes.io/canary-weight";

/// The Service of the workload.
pub(super) fn service() -> Object {
    object("v1", "Service", "web").with("/spec", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}))
}

/// The weights of backends, by the name that each has at the pointer.
pub(super) fn weights(backends: &Value, name: &str) -> BTreeMap<String, i64> {
    let backends = backends.as_array().unwrap_or_else(|| panic!("{backends:#}")).iter();
    let name = |backend: &Value| backend.pointer(name).unwrap().as_str().unwrap().to_owned();
    backends.map(|backend| (name(backend), backend["weight"].as_i64().unwrap())).collect()
}

/// A fifth of the requests goes to new Pods.
pub(super) fn twenty() -> BTreeMap<String, i64> {
    [("web", 80), ("web-canary", 20)].map(|(name, weight)| (name.to_owned(), weight)).into()
}

/// The Ingress of the Service.
pub(super) fn ingress() -> Object {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    object("networking.k8s.io/v1", "Ingress", "web").with(
        "/spec",
        json!({"ingressClassName": "nginx", "rules": [{"host": "shop.example", "http": {"paths": [path]}}]}),
    )
}

/// Routings by the Ingress, each change of which gets so many seconds.
pub(super) fn by_ingress(grace: u32) -> Value {
    json!([{"service": "web", "gracePeriodSeconds": grace, "ingress": {"classType": "nginx", "name": "web"}}])
}

/// Creates the Service and its Ingress; gives the Service.
pub(super) async fn lead(release: &Release) -> Stored {
    release.with(ingress()).await;
    release.with(service()).await
}

/// A CloneSet of 5 Pods.
pub(super) fn clone_set(shop: &Shop) -> Object {
    web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(5)
}

/// A fifth of the traffic goes to new Pods in the first step.
pub(super) fn a_fifth_first(grace: u32) -> Value {
    json!({"canary": {"trafficRoutings": by_ingress(grace),
        "steps": [{"replicas": "20%", "traffic": "20%"}, {"replicas": "60%"}, {"replicas": "100%"}]}})
}

/// A CloneSet with a fifth of the traffic in its first step.
pub(super) async fn with_ingress(server: &ApiServer, prefix: &str, grace: u32) -> (Release, Stored) {
    let release = Release::open_on(server, prefix, clone_set, a_fifth_first(grace)).await;
    let service = lead(&release).await;
    (release, service)
}

/// The step has brought one Pod with this image, and a fifth of the traffic to it.
pub(super) async fn has_a_fifth(release: &Release, service: &Stored, image: &str) {
    let status = release.paused(1).await;
    assert_eq!(with_image(&release.fleet.pods().await, image), 1);
    let canary = release.object("v1", "Service", "web-canary").get().await.1;
    let selector = |hash: &Value| json!({"app": "web", HASH: hash});
    assert_eq!(canary["spec"]["selector"], selector(&status["podTemplateHash"]));
    assert_eq!(service.get().await.1["spec"]["selector"], selector(&status["stableRevision"]));
    let route = release.object("networking.k8s.io/v1", "Ingress", "web-canary").get().await.1;
    assert_eq!(route["metadata"]["annotations"][WEIGHT], "20", "{route:#}");
}

/// Traffic is as it was before the release.
pub(super) async fn is_as_before(release: &Release, service: &Stored) {
    release.object("v1", "Service", "web-canary").gone().await;
    release.object("networking.k8s.io/v1", "Ingress", "web-canary").gone().await;
    assert_eq!(service.get().await.1["spec"]["selector"], json!({"app": "web"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_4_requests_reach_new_pods_as_the_step_says_and_none_fails() {
    let (release, service) = with_ingress(&site().await.server, "ro-requests", 3).await;
    let requests = Requests::begin(&release.fleet.shop).await;
    release.roll(NEW).await;
    has_a_fifth(&release, &service, NEW).await;
    requests.reached("web-canary", NEW).await;
    let answer = |service, image: &str| (service, Some(image.to_owned()));
    let shares = [(answer("web", OLD), 80), (answer("web-canary", NEW), 20)];
    assert_eq!(requests.hundred().await, BTreeMap::from(shares));
    // None went to a new Pod but by the canary Ingress.
    requests.assert_all_answered_by(&[("web", OLD), ("web-canary", NEW)]);

    release.approve().await;
    release.paused(2).await;
    is_as_before(&release, &service).await;
    release.approve().await;
    release.over("True").await;
    release.settled(NEW).await;
    wait_for("all requests to reach new Pods", async || {
        let answers = requests.hundred().await;
        if answers == BTreeMap::from([(answer("web", NEW), 100)]) { Ok(()) } else { Err(answers) }
    })
    .await;
    requests.assert_all_answered_by(&[("web", OLD), ("web", NEW), ("web-canary", NEW)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_5_a_template_that_is_put_back_takes_traffic_away_before_its_pods() {
    let (release, service) = with_ingress(&site().await.server, "ro-back", 3).await;
    let requests = Requests::begin(&release.fleet.shop).await;
    release.roll(NEW).await;
    has_a_fifth(&release, &service, NEW).await;
    requests.reached("web-canary", NEW).await;
    release.roll(OLD).await;
    release.over("False").await;
    is_as_before(&release, &service).await;
    release.settled(OLD).await;
    // A request to the canary Service without its Pod would have failed.
    requests.assert_all_answered_by(&[("web", OLD), ("web-canary", NEW)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_8_blue_green_runs_two_sets_of_pods_until_its_approval() {
    let original = json!({"parentRefs": [{"name": "gate"}], "rules": [
        {"backendRefs": [{"name": "web", "port": 80}], "filters": []},
        {"backendRefs": [{"name": "other", "port": 80}]}]});
    let routing = json!([{"service": "web", "gracePeriodSeconds": 1, "gateway": {"httpRouteName": "web"}}]);
    let strategy = json!({"blueGreen": {"trafficRoutings": routing,
        "steps": [{"replicas": "100%", "traffic": "20%"}]}});
    let set = |shop: &Shop| web(shop, "apps/v1", "Deployment").replicas(3).with("/spec/minReadySeconds", 1);
    let release = Release::open("ro-blue", set, strategy).await;
    let service = release.with(service()).await;
    let route = object("gateway.networking.k8s.io/v1", "HTTPRoute", "web").with("/spec", original.clone());
    let route = release.with(route).await;

    release.roll(NEW).await;
    release.paused(1).await;
    assert_eq!((release.fleet.pods().await.len(), release.new_pods().await), (6, 3));
    let rules = &route.get().await.1["spec"]["rules"];
    assert_eq!(weights(&rules[0]["backendRefs"], "/name"), twenty());
    assert_eq!(rules[1], original["rules"][1]);
    release.approve().await;
    release.over("True").await;
    release.settled(NEW).await;
    assert_eq!(release.fleet.pods().await.len(), 3);
    assert_eq!(release.workload().await["spec"]["minReadySeconds"], 1);
    assert_eq!(route.get().await.1["spec"], original);
    assert_eq!(service.get().await.1["spec"]["selector"], json!({"app": "web"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_12_a_rollback_wins_over_a_pause_and_an_approval_does_not() {
    let (release, service) = with_ingress(&site().await.server, "ro-held", 1).await;
    release.roll(NEW).await;
    has_a_fifth(&release, &service, NEW).await;
    release.rollout.patch(&json!({"spec": {"strategy": {"paused": true}}})).await;
    let is_held = |status: &Value| condition_of(status, "Progressing")["reason"] == "Paused";
    release.reaches("the release to be held", is_held).await;
    release.approve().await;
    // A change that moves nothing, and that is seen after the approval.
    let changed =
        release.rollout.patch(&json!({"spec": {"strategy": {"canary": {"failureThreshold": 1}}}})).await;
    let generation = &changed["metadata"]["generation"];
    let seen =
        release.reaches("the change to be seen", |status| status["observedGeneration"] == *generation).await;
    let status = &seen["status"][release.block];
    assert_eq!((&status["currentStepIndex"], &status["currentStepState"]), (&json!(1), &json!("StepReady")));
    assert_eq!(release.new_pods().await, 1);
    let route = release.object("networking.k8s.io/v1", "Ingress", "web-canary").get().await.1;
    assert_eq!(route["metadata"]["annotations"][WEIGHT], "20", "{route:#}");

    release.roll(OLD).await;
    release.over("False").await;
    is_as_before(&release, &service).await;
    release.settled(OLD).await;
    assert_eq!(release.rollout.get().await.1["spec"]["strategy"]["paused"], true);
}

/// All states of the only object of a kind in a namespace from now on, until the second value is dropped.
async fn states(shop: &Shop, api_version: &str, kind: &str) -> (Arc<Mutex<Vec<DynamicObject>>>, JoinSet<()>) {
    let objects =
        kit::objects::namespaced(&shop.client, &kit::objects::kind(api_version, kind), &shop.namespace);
    let states = Arc::<Mutex<Vec<DynamicObject>>>::default();
    let record = Arc::clone(&states);
    let mut task = JoinSet::new();
    let events = watcher(objects, watcher::Config::default()).default_backoff().applied_objects();
    task.spawn(events.for_each(move |object| {
        record.lock().unwrap().extend(object);
        std::future::ready(())
    }));
    wait_for("the first state", async || if states.lock().unwrap().is_empty() { Err(()) } else { Ok(()) })
        .await;
    (states, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_15_an_httproute_keeps_its_rules_from_a_share_to_headers_and_back() {
    const GATEWAY: &str = "gateway.networking.k8s.io/v1";
    let backend = |name: &str| json!([{"name": name, "port": 80, "weight": 1}]);
    let path = |value: &str| json!([{"path": {"type": "PathPrefix", "value": value}}]);
    let original = json!({"parentRefs": [{"name": "gate"}], "rules": [
        {"matches": path("/shop"), "backendRefs": backend("web")},
        {"matches": path("/pay"), "backendRefs": backend("web")},
        {"matches": path("/"), "backendRefs": backend("other")}]});
    let routing = json!([{"service": "web", "gracePeriodSeconds": 1, "gateway": {"httpRouteName": "web"}}]);
    let tester = json!({"name": "user", "type": "Exact", "value": "tester"});
    let strategy = json!({"canary": {"trafficRoutings": routing, "steps": [
        {"replicas": 1, "traffic": "20%"}, {"replicas": 1, "matches": [{"headers": [tester]}]},
        {"replicas": "100%"}]}});
    let set = |shop: &Shop| web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(2);
    let release = Release::open("ro-route", set, strategy).await;
    release.with(service()).await;
    let route = release.with(object(GATEWAY, "HTTPRoute", "web").with("/spec", original.clone())).await;
    let (states, _watch) = states(&release.fleet.shop, GATEWAY, "HTTPRoute").await;
    release.roll(NEW).await;
    release.paused(1).await;
    let rules = route.get().await.1["spec"]["rules"].clone();
    for (rule, before) in rules.as_array().unwrap()[..2].iter().zip(original["rules"].as_array().unwrap()) {
        assert_eq!(weights(&rule["backendRefs"], "/name"), twenty());
        assert_eq!(rule["matches"], before["matches"]);
    }

    release.approve().await;
    release.paused(2).await;
    let rules = route.get().await.1["spec"]["rules"].clone();
    let (new, old): (Vec<&Value>, Vec<&Value>) =
        rules.as_array().unwrap().iter().partition(|rule| rule["backendRefs"][0]["name"] == "web-canary");
    assert_eq!(json!(old), original["rules"]);
    let conditions: Vec<&Value> = new.iter().map(|rule| &rule["matches"]).collect();
    let both = |value: &str| json!([{"path": {"type": "PathPrefix", "value": value}, "headers": [tester]}]);
    assert_eq!(conditions, [&both("/shop"), &both("/pay")]);

    release.approve().await;
    release.over("True").await;
    assert_eq!(route.get().await.1["spec"], original);
    wait_for("the watch to show the end", async || {
        let states = states.lock().unwrap();
        let last = &states.last().unwrap().data["spec"];
        if states.len() > 3 && *last == original { Ok(()) } else { Err(last.clone()) }
    })
    .await;
    for state in &*states.lock().unwrap() {
        let rules = state.data["spec"]["rules"].as_array().unwrap();
        for before in original["rules"].as_array().unwrap() {
            let is_kept = |rule: &&Value| {
                let backends = rule["backendRefs"].as_array().unwrap();
                rule["matches"] == before["matches"]
                    && backends.iter().any(|backend| backend["name"] == before["backendRefs"][0]["name"])
            };
            assert!(rules.iter().any(|rule| is_kept(&rule)), "{before:#} is missing in {rules:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trafficrouting_holds_until_the_last_of_its_rollouts_is_over() {
    const OWN: &str = "rollouts.kruise.io/trafficrouting";
    let held_by = |rollouts: &[&str]| -> Value {
        let progressing = rollouts.iter().map(|name| format!("progressing.rollouts.kruise.io/{name}"));
        [OWN.to_owned()].into_iter().chain(progressing).collect()
    };
    let strategy = json!({"canary": {"trafficRoutingRef": "gray", "steps": steps(&[json!(1)])}});
    let set = |shop: &Shop| web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(2);
    let release = Release::open("ro-gray", set, strategy).await;
    let service = lead(&release).await;
    let rule = json!({"objectRef": by_ingress(1), "strategy": {"weight": 30}});
    let gray = object("rollouts.kruise.io/v1alpha1", "TrafficRouting", "gray").with("/spec", rule);
    let gray = release.with(gray).await;
    let reaches = async |phase: &str, rollouts: &[&str]| {
        wait_for("the TrafficRouting", async || {
            let now = gray.get().await.1;
            let is_it = now["status"]["phase"] == phase && now["metadata"]["finalizers"] == held_by(rollouts);
            if is_it { Ok(()) } else { Err(now) }
        })
        .await;
    };
    reaches("Healthy", &[]).await;
    // Another one names it by annotation.
    let other = workload("apps.kruise.io/v1alpha1", "CloneSet", "api").matching("app", "api").replicas(2);
    let other = release.with(other.container("main", OLD)).await;
    let second = object(API_VERSION, "Rollout", "api").annotation(OWN, "gray").with(
        "/spec",
        json!({"workloadRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "api"},
            "strategy": {"canary": {"steps": steps(&[json!(1)])}}}),
    );
    let second = release.with(second).await;
    let second_is = async |what: &str, holds: fn(&Value) -> bool| {
        wait_for(what, async || {
            let now = second.get().await.1;
            if holds(&now["status"]) { Ok(()) } else { Err(now) }
        })
        .await;
    };
    second_is("the second Rollout to be healthy", |status| status["phase"] == "Healthy").await;

    release.roll(NEW).await;
    release.paused(1).await;
    reaches("Progressing", &["web"]).await;
    let route = release.object("networking.k8s.io/v1", "Ingress", "web-canary");
    wait_for("the rule to hold", async || {
        let now = route.get().await.1;
        if now["metadata"]["annotations"][WEIGHT] == "30" { Ok(()) } else { Err(now) }
    })
    .await;
    let backend = &route.get().await.1["spec"]["rules"][0]["http"]["paths"][0]["backend"];
    assert_eq!(backend["service"]["name"], "web");
    assert_eq!(release.object("v1", "Service", "web-canary").get().await.0, 404);
    let containers = json!([{"name": "main", "image": NEW}]);
    other.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    second_is("the second step", |status| status["currentStepState"] == "StepPaused").await;
    reaches("Progressing", &["web", "api"]).await;

    release.approve().await;
    release.over("True").await;
    reaches("Progressing", &["api"]).await;
    assert_eq!(route.get().await.0, 200);
    second.patch_status(&json!({"canaryStatus": {"currentStepState": "StepReady"}})).await;
    reaches("Healthy", &[]).await;
    is_as_before(&release, &service).await;
    gray.deleted().await;
    gray.gone().await;
}
