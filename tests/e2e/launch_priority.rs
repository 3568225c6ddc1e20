//! Readiness and the order of launch: the step at admission and its controller
//! (docs/behaviour/lifecycle.md#kruisepodready, docs/behaviour/launch-priority.md#release-of-the-containers,
//! docs/behaviour/launch-priority.md).

use kit::fake_nodes::{self, FakeNodes};
use kit::objects::{condition, is_ready};
use kit::wait_for;
use serde_json::{Value, json};

use crate::support::{Shop, Stored, annotation, call, denied, named, names};

const ORDER: &str = "apps.kruise.io/container-launch-priority";
const COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";
const PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";
const BARRIER: &str = "KRUISE_CONTAINER_BARRIER";

/// ConfigMap and key that each container waits for.
fn barriers(pod: &Value) -> Vec<(&str, &str)> {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let barrier = containers.filter_map(|container| {
        let variable = container["env"].as_array()?.iter().find(|variable| variable["name"] == BARRIER)?;
        let key = &variable["valueFrom"]["configMapKeyRef"];
        Some((key["name"].as_str().unwrap(), key["key"].as_str().unwrap()))
    });
    barrier.collect()
}

async fn nodes(shop: &Shop) -> FakeNodes {
    let options = fake_nodes::Options::nodes(1).in_namespace(&shop.namespace).binding_pods();
    FakeNodes::start(shop.client.clone(), options).await
}

/// Example 12.5.
#[tokio::test]
async fn a_generated_name_is_fixed_for_the_barrier() {
    let shop = Shop::open("generated").await;
    let job = || {
        let job = shop.bare_pod("unused").container("main", "nginx:1.25").container("sc", "nginx:1.25");
        job.env(PRIORITY, "1").with("/metadata/name", "").with("/metadata/generateName", "job-")
    };
    let pod = shop.admit(job()).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert!(name.len() == 9 && name.starts_with("job-"), "{name}");
    let map = format!("{name}-barrier");
    assert_eq!(barriers(&pod), [(map.as_str(), "p_0"), (map.as_str(), "p_1")]);
    assert_eq!(names(&pod["spec"]["containers"][1]["env"]), [PRIORITY, BARRIER]);
    let ordered = shop.admit(job().annotation(ORDER, "Ordered")).await;
    let keys: Vec<&str> = barriers(&ordered).into_iter().map(|(_, key)| key).collect();
    assert_eq!(keys, ["p_0", "p_-1"]);
}

/// Scenario 23 of docs/behaviour/launch-priority.md.
#[tokio::test]
async fn barriers_follow_order_sidecars_and_differences() {
    let shop = Shop::open("barriers").await;
    shop.stock([shop
        .sidecar_set("log")
        .matching("with", "sidecar")
        .container("log", "busybox:1.36")
        .env(PRIORITY, "1")])
        .await;
    let keys = async |pod: kit::builders::Object| {
        let pod = shop.admit(pod).await;
        let keys: Vec<String> = barriers(&pod).into_iter().map(|(_, key)| key.to_owned()).collect();
        keys
    };
    let three = shop.pod("three").container("b", "nginx:1.25").container("c", "nginx:1.25");
    assert_eq!(keys(three.annotation(ORDER, "Ordered")).await, ["p_0", "p_-1", "p_-2"]);
    let injected = shop.pod("injected").label("with", "sidecar");
    assert_eq!(keys(injected).await, ["p_1", "p_0"]);
    let ordered = shop.pod("ordered").label("with", "sidecar").annotation(ORDER, "Ordered");
    assert_eq!(keys(ordered).await, ["p_0", "p_-1"]);
    let equal = shop.pod("equal").env(PRIORITY, "5").container("b", "nginx:1.25").env(PRIORITY, "5");
    assert_eq!(keys(equal).await, Vec::<String>::new());
}

/// Scenario 24 and scenario 26 of docs/behaviour/launch-priority.md.
#[tokio::test]
async fn a_priority_that_is_no_number_denies_pods_of_several_containers() {
    let shop = Shop::open("numbers").await;
    for value in ["x", "abc", ""] {
        let two = shop.pod("two").env(PRIORITY, value).container("b", "nginx:1.25");
        let answer = crate::support::create(&shop.client, two, "").await;
        let text = format!("strconv.Atoi: parsing {value:?}: invalid syntax");
        assert_eq!(answer, denied("mpod.kb.io", 500, &text));
    }
    let one = shop.admit(shop.pod("one").env(PRIORITY, "x")).await;
    assert_eq!(barriers(&one), []);
}

/// Scenario 23 of docs/behaviour/lifecycle.md.
#[tokio::test]
async fn pods_with_the_gate_become_ready() {
    let shop = Shop::open("ready").await;
    let _nodes = nodes(&shop).await;
    // Of a kind whose controller writes no conditions, and of nobody who would delete it.
    let job = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob",
        "metadata": {"name": "web", "uid": "f7c4d5a2-0c1b-4c6e-9d1f-5a2b3c4d5e6f"}});
    let pod = Stored::create(&shop.client, shop.pod("web-0").controlled_by(&job)).await;
    assert_eq!(pod.object["spec"]["readinessGates"], json!([{"conditionType": "KruisePodReady"}]));
    let ready = wait_for("the Pod to be ready", async || {
        let pod = pod.get().await.1;
        if is_ready(&pod) { Ok(pod) } else { Err(pod) }
    })
    .await;
    let kruise = condition(&ready, "KruisePodReady");
    assert_eq!(kruise["status"], "True");
    assert!(kruise["lastTransitionTime"].is_string(), "{kruise:#}");
}

/// Scenario 25 of docs/behaviour/lifecycle.md.
#[tokio::test]
async fn containers_start_one_after_the_other() {
    let shop = Shop::open("launch").await;
    let _nodes = nodes(&shop).await;
    let pod = shop.bare_pod("web").container("a", "nginx:1.25").container("b", "nginx:1.25");
    let pod = pod.annotation(ORDER, "Ordered").annotation(fake_nodes::READY_AFTER, "never");
    let pod = Stored::create(&shop.client, pod).await;
    assert_eq!(barriers(&pod.object), [("web-barrier", "p_0"), ("web-barrier", "p_-1")]);
    wait_for("b to wait for a", async || {
        let pod = pod.get().await.1;
        let statuses = &pod["status"]["containerStatuses"];
        if !statuses.is_array() {
            return Err(pod);
        }
        let running = !named(statuses, "a")["state"]["running"].is_null();
        let waiting = named(statuses, "b")["state"]["waiting"]["reason"] == "CreateContainerConfigError";
        if running && waiting { Ok(()) } else { Err(pod) }
    })
    .await;
    let path = format!("/api/v1/namespaces/{}/configmaps/web-barrier", shop.namespace);
    let map = call(&shop.client, "GET", &path, &Value::Null).await.1;
    assert_eq!(map["data"], json!({"p_0": "true"}));
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Pod"), &pod.object["metadata"]["uid"]));
    assert!(owner["controller"].is_null(), "{owner:#}");

    pod.patch(&json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: "0"}}})).await;
    let done = wait_for("all containers to be ready", async || {
        let pod = pod.get().await.1;
        let completed = pod["metadata"]["annotations"][COMPLETED] == "true";
        let is_done = completed && condition(&pod, "ContainersReady")["status"] == "True";
        if is_done { Ok(pod) } else { Err(pod) }
    })
    .await;
    assert_eq!(annotation(&done, COMPLETED), "true");
    let map = call(&shop.client, "GET", &path, &Value::Null).await.1;
    assert_eq!(map["data"], json!({"p_0": "true", "p_-1": "true"}));
}
