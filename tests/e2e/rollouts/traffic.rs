//! Releases that traffic follows.

use std::collections::BTreeMap;

use super::*;

const HASH: &str = "pod-template-hash";
const WEIGHT: &str = "nginx.ingress.kubernetes.io/canary-weight";

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
fn ingress() -> Object {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    object("networking.k8s.io/v1", "Ingress", "web").with(
        "/spec",
        json!({"ingressClassName": "nginx", "rules": [{"host": "shop.example", "http": {"paths": [path]}}]}),
    )
}

/// A CloneSet with a fifth of the traffic in its first step.
pub(super) async fn with_ingress(server: &ApiServer, prefix: &str) -> (Release, Stored) {
    let routing = json!([{"service": "web", "gracePeriodSeconds": 1,
        "ingress": {"classType": "nginx", "name": "web"}}]);
    let strategy = json!({"canary": {"trafficRoutings": routing,
        "steps": [{"replicas": "20%", "traffic": "20%"}, {"replicas": "60%"}, {"replicas": "100%"}]}});
    let set = |shop: &Shop| web(shop, "apps.kruise.io/v1alpha1", "CloneSet").replicas(5);
    let release = Release::open_on(server, prefix, set, strategy).await;
    let service = release.with(service()).await;
    release.with(ingress()).await;
    (release, service)
}

/// The step has brought one new Pod, and a fifth of the traffic to it.
pub(super) async fn has_a_fifth(release: &Release, service: &Stored) {
    let status = release.paused(1).await;
    assert_eq!(release.new_pods().await, 1);
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
async fn scenario_5_a_template_that_is_put_back_brings_traffic_back() {
    let (release, service) = with_ingress(&site().await.server, "ro-back").await;
    release.roll(NEW).await;
    has_a_fifth(&release, &service).await;
    release.roll(OLD).await;
    release.over("False").await;
    is_as_before(&release, &service).await;
    release.settled(OLD).await;
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
