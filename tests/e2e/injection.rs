//! Mutation of Pods at their creation (docs/behaviour/pod-mutation.md#acceptance-scenarios), by clients of an
//! API server that calls the program.

mod annotations;
mod direct;
mod examples;
mod revisions;

use kit::builders::Object;
use serde_json::{Value, json};

use crate::support::{Shop, annotation, gated, named, names};

const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
const GATE: &str = "KruisePodReady";

/// Adds a sidecar that comes after the app's containers.
fn after(set: Object, name: &str) -> Object {
    set.container(name, "busybox:1.36").having("podInjectPolicy", "AfterAppContainer")
}

fn gates(pod: &Value) -> usize {
    let gates = pod["spec"]["readinessGates"].as_array();
    gates.into_iter().flatten().filter(|gate| gate["conditionType"] == GATE).count()
}

/// A controller owner that need not exist.
fn owner(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "owner", "uid": "f7c4d5a2-0c1b-4c6e-9d1f-5a2b3c4d5e6f"}})
}

/// Scenario 1.
#[tokio::test]
async fn pods_of_kruise_workloads_get_the_readiness_gate_once() {
    let shop = Shop::open("gate").await;
    let cloned = owner("apps.kruise.io/v1alpha1", "CloneSet");
    assert_eq!(gates(&shop.admit(shop.pod("cloned").controlled_by(&cloned)).await), 1);
    let gated = shop.pod("gated").controlled_by(&cloned).readiness_gate(GATE);
    assert_eq!(gates(&shop.admit(gated).await), 1);
    let replicated = shop.pod("replicated").controlled_by(&owner("apps/v1", "ReplicaSet"));
    assert_eq!(gates(&shop.admit(replicated).await), 0);
    assert_eq!(gates(&shop.admit(shop.pod("single")).await), 0);
}

/// Scenario 1.
#[tokio::test]
async fn every_pod_gets_the_readiness_gate_where_the_feature_gate_is_on() {
    let shop = Shop::open_on(&gated().await.server, "gate").await;
    let replicated = shop.pod("replicated").controlled_by(&owner("apps/v1", "ReplicaSet"));
    assert_eq!(gates(&shop.admit(replicated).await), 1);
    assert_eq!(gates(&shop.admit(shop.pod("single")).await), 1);
}

/// Scenario 7.
#[tokio::test]
async fn sidecars_are_sorted_by_name_where_the_gate_is_on() {
    for (shop, expected) in [
        (Shop::open_on(&gated().await.server, "sorted").await, ["main", "x", "y"]),
        (Shop::open("unsorted").await, ["main", "y", "x"]),
    ] {
        shop.stock([after(shop.sidecar_set("s1"), "y"), after(shop.sidecar_set("s2"), "x")]).await;
        assert_eq!(names(&shop.admit(shop.pod("web")).await["spec"]["containers"]), expected);
    }
}

/// Scenario 16.
#[tokio::test]
async fn native_sidecars_are_recorded_and_plain_init_containers_are_not() {
    let shop = Shop::open("native").await;
    let set =
        shop.sidecar_set("mesh").init_container("proxy", "busybox:1.36").having("restartPolicy", "Always");
    let set = set.init_container("setup", "busybox:1.36").with("/spec/updateStrategy/type", "NotUpdate");
    shop.stock([set]).await;
    let pod = shop.admit(shop.pod("web")).await;
    assert_eq!(names(&pod["spec"]["initContainers"]), ["proxy", "setup"]);
    assert_eq!(named(&pod["spec"]["initContainers"], "proxy")["restartPolicy"], "Always");
    assert!(annotation(&pod, HASH).contains(r#""sidecarList":["proxy"]"#));
}

/// Scenario 20.
#[tokio::test]
async fn a_canary_stands_in_for_its_base() {
    let shop = Shop::open("canary").await;
    let canary = after(shop.sidecar_set("s2"), "c")
        .matching("canary", "yes")
        .annotation("apps.kruise.io/sidecarset-canary", "true")
        .annotation("apps.kruise.io/sidecarset-base", &shop.name("s1"))
        .with("/spec/updateStrategy/type", "NotUpdate");
    shop.stock([after(shop.sidecar_set("s1"), "c")]).await;
    shop.stock([canary]).await;
    let plain = shop.admit(shop.pod("plain")).await;
    assert_eq!(annotation(&plain, INJECTED_LIST), shop.name("s1"));
    let chosen = shop.admit(shop.pod("chosen").label("canary", "yes")).await;
    assert_eq!(names(&chosen["spec"]["containers"]), ["main", "c"]);
    assert_eq!(annotation(&chosen, INJECTED_LIST), shop.name("s2"));
}
