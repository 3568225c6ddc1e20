//! NodePodProbes.

use super::*;

#[tokio::test]
async fn a_ready_node_has_a_node_pod_probe_until_it_goes() {
    let site = Site::open("npp").await;
    let platform = site.add_node(&site.shop.name("platform"), json!({"type": "virtual-kubelet"})).await;
    let machine = site.add_node(&site.shop.name("machine"), json!({})).await;
    let probe = site.node_probe(&site.shop.name("machine")).await;
    machine.deleted().await;
    probe.gone().await;
    let path = format!("/apis/{ALPHA}/nodepodprobes/{}", site.shop.name("platform"));
    assert_eq!(call(&site.shop.client, "GET", &path, &Value::Null).await.0, 404);
    platform.deleted().await;
}

#[tokio::test]
async fn the_agent_gets_pods_by_address_and_numbers_of_ports() {
    let site = Site::open("npp").await;
    let pod = site.running("web").await;
    let probes = json!([{"name": "open", "containerName": "main", "podConditionType": "game/open",
        "probe": {"tcpSocket": {"port": "http"}, "periodSeconds": 5}}]);
    site.create(site.marker("game", probes)).await;
    let entry = |address: &str| {
        json!([{"namespace": site.shop.namespace, "name": "web", "uid": pod.object["metadata"]["uid"],
            "IP": address, "probes": [{"name": "game#open", "containerName": "main",
                "probe": {"tcpSocket": {"port": 8080}, "periodSeconds": 5}}]}])
    };
    site.says(&entry("10.0.0.7")).await;
    pod.patch_status(&json!({"podIP": "10.0.0.8", "podIPs": [{"ip": "10.0.0.8"}]})).await;
    site.says(&entry("10.0.0.8")).await;
    pod.delete_with(&json!({"gracePeriodSeconds": 0})).await;
    site.says(&json!([])).await;
}
