//! The order in which containers end, as admission writes it (docs/behaviour/exit-priority.md).

use kit::builders::Object;
use kit::objects;
use serde_json::{Value, json};

use crate::docs::Reader;
use crate::support::{Shop, Stored, gated, names, shared};

const PRIORITY: &str = "kruise.io/container-exit-priority";
const MODE: &str = "kruise.io/container-exit-mode";

fn ordered(shop: &Shop, name: &str, order: &str) -> Object {
    let pod = shop.pod(name).container("log-agent", "busybox:1.36").container("envoy", "busybox:1.36");
    pod.annotation(PRIORITY, order)
}

fn hook(pod: &Value, index: usize) -> &Value {
    &pod["spec"]["containers"][index]["lifecycle"]["preStop"]["exec"]["command"]
}

#[tokio::test]
async fn the_page_works() {
    let server = shared().await.0;
    let namespace = server.namespace("docs-exit").await;
    let mut page = Reader::open(server, &namespace, "container-exit-priority.md").await;
    page.read("A Pod with an order").await;
    let printed = page.read("See it").await;
    assert!(printed.contains("--after=main,log-agent"), "{printed}");
    page.end();
}

/// Scenario 31.
#[tokio::test]
async fn an_order_that_can_not_be_is_refused() {
    let shop = Shop::open("exit-refused").await;
    for (order, detail) in [
        (r#"{"envoy":-1}"#, "must not be negative"),
        (r#"{"envoy":"1"}"#, "must be an integer"),
        ("not json", "must be a JSON object"),
        (r#"{"nope":1}"#, r#"container "nope" not found in the Pod"#),
        (r#"{"setup":1}"#, r#"init container "setup" can not have an exit priority"#),
    ] {
        let pod = ordered(&shop, "refused", order).init_container("setup", "busybox:1.36");
        let (code, message) = shop.refuse(pod).await;
        assert_eq!(code, 400, "{message}");
        assert!(message.contains(&format!("metadata.annotations[{PRIORITY}]: Invalid value: ")), "{message}");
        assert!(message.contains(detail), "{message}");
    }
}

/// Scenario 33.
#[tokio::test]
async fn pods_keep_their_quality_of_service() {
    let shop = Shop::open("exit-class").await;
    let plain = shop.admit(ordered(&shop, "plain", r#"{"envoy":1}"#)).await;
    assert_eq!(plain["status"]["qosClass"], "BestEffort");
    assert_eq!(hook(&plain, 2)[3], "--after=main,log-agent");
    assert_eq!(names(&plain["spec"]["initContainers"]), ["kruise-exit-init"]);
    let limits = json!({"limits": {"cpu": "100m", "memory": "64Mi"}});
    let limited = ["main", "envoy"].into_iter().fold(shop.bare_pod("limited"), |pod, name| {
        pod.container(name, "busybox:1.36").having("resources", limits.clone())
    });
    let limited = shop.admit(limited.annotation(PRIORITY, r#"{"envoy":1}"#)).await;
    assert_eq!(limited["status"]["qosClass"], "Guaranteed");
}

/// The API server adds to the init container, and asks again.
#[tokio::test]
async fn limits_of_the_namespace_hold_for_the_init_container() {
    let shop = Shop::open("exit-limits").await;
    let limits = json!({"type": "Container", "max": {"ephemeral-storage": "2Gi"},
        "default": {"ephemeral-storage": "1Gi", "cpu": "200m", "memory": "64Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
        "min": {"cpu": "50m", "memory": "64Mi"}, "maxLimitRequestRatio": {"cpu": "4"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "range", "namespace": shop.namespace}, "spec": {"limits": [limits]}});
    objects::create(&shop.client, range).await.unwrap();
    let pod = shop.admit(ordered(&shop, "limited", r#"{"envoy":1}"#)).await;
    let limits = &pod["spec"]["initContainers"][0]["resources"]["limits"];
    assert_eq!(*limits, json!({"cpu": "200m", "ephemeral-storage": "1Gi", "memory": "64Mi"}));
}

/// Scenario 34.
#[tokio::test]
async fn a_change_in_a_running_pod_is_reported() {
    let shop = Shop::open("exit-change").await;
    let pod = Stored::create(&shop.client, ordered(&shop, "running", r#"{"envoy":1}"#)).await;
    let order = format!(r#"{PRIORITY}={{"envoy":0}}"#);
    let words = ["annotate", "--overwrite", "-n", &shop.namespace, "pod", "running", &order];
    let output = shared().await.0.kubectl(words).await;
    let warning = format!("{PRIORITY} has no effect on a running Pod");
    assert!(output.status.success() && output.stderr.contains(&warning), "{}", output.stderr);
    assert_eq!(pod.get().await.1["spec"]["containers"], pod.object["spec"]["containers"]);
}

/// Scenarios 36 and 37. The program of this site has no image for the hook.
#[tokio::test]
async fn native_sidecars_are_checked() {
    let shop = Shop::open_on(&gated().await.server, "exit-native").await;
    let order = r#"{"log-agent":1,"envoy":2}"#;
    let moved = shop.admit(ordered(&shop, "moved", order)).await;
    assert_eq!(names(&moved["spec"]["containers"]), ["main"]);
    assert_eq!(names(&moved["spec"]["initContainers"]), ["envoy", "log-agent"]);
    assert_eq!(moved["spec"]["initContainers"][0]["restartPolicy"], "Always");
    let in_place = |name| ordered(&shop, name, order).readiness_gate("InPlaceUpdateReady");
    let stays = shop.admit(in_place("stays")).await;
    assert_eq!(names(&stays["spec"]["containers"]), ["main", "log-agent", "envoy"]);
    let (code, message) = shop.refuse(in_place("refused").annotation(MODE, "NativeSidecar")).await;
    assert_eq!(code, 400, "{message}");
    assert!(message.contains("InPlaceUpdateReady"), "{message}");
    let own = |name, order| {
        let pod = ordered(&shop, name, order).init_container("own", "busybox:1.36");
        pod.having("restartPolicy", "Always")
    };
    shop.admit(own("own", r#"{"log-agent":1,"own":2}"#)).await;
    let (code, message) = shop.refuse(own("early", r#"{"own":0}"#)).await;
    assert_eq!(code, 400, "{message}");
    assert!(message.contains(r#"native sidecar "own" exits after all regular containers"#), "{message}");
}
