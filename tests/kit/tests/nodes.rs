//! Real nodes. Without root this test has nothing to run on, and says so.

use k8s_openapi::api::core::v1::Pod;
use kit::builders::{object, pod};
use kit::{Cluster, objects, wait_for};
use kube::Api;
use serde_json::json;

#[tokio::test]
async fn pods_run_and_services_lead_to_them_across_nodes() {
    if !kit::cluster::can_run() {
        eprintln!("skipped: real nodes need root");
        return;
    }
    let cluster = Cluster::start(2).await;
    let server = cluster.server();
    let client = server.client();
    let namespace = server.namespace("smoke").await;
    let [first, second] = cluster.nodes() else { panic!("two nodes were asked for") };
    let web = pod("web")
        .in_namespace(&namespace)
        .label("app", "web")
        .container("main", "nginx:1.25")
        .on_node(first);
    let caller = pod("caller")
        .in_namespace(&namespace)
        .container("main", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]))
        .with("/spec/terminationGracePeriodSeconds", 0)
        .on_node(second);
    let service = object("v1", "Service", "web")
        .in_namespace(&namespace)
        .with("/spec", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}));
    for object in [web, caller, service] {
        objects::create(&client, object).await.unwrap();
    }
    let pods = Api::<Pod>::namespaced(client, &namespace);
    for name in ["web", "caller"] {
        kit::wait_until(&pods, name, "is ready", |pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
        .await;
    }

    let address =
        server.kubectl(["get", "service", "web", "-n", &namespace, "-o", "jsonpath={.spec.clusterIP}"]);
    let url = format!("http://{}/", address.await.success());
    let answer = wait_for("the Service to answer", async || {
        let call = ["exec", "-n", &namespace, "caller", "--", "wget", "-q", "-O", "-", &url];
        let output = server.kubectl(call).await;
        if output.status.success() { Ok(output.stdout) } else { Err(output.stderr) }
    })
    .await;
    assert_eq!(answer, "web\n");
}
