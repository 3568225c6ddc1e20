//! What happens to a new Pod behind injection and launch order
//! (docs/behaviour/pod-mutation.md#podunavailablebudget-mark,
//! docs/behaviour/pod-mutation.md#enhanced-liveness-probe,
//! docs/behaviour/pod-mutation.md#podprobemarker-on-serverless-platforms): the mark of its budget, enhanced
//! liveness probes, and the probes of a serverless platform.

use kit::builders::{Object, deployment, object};
use kit::wait_for;
use serde_json::{Value, json};

use crate::podunavailablebudget::guarded;
use crate::probes::{GATES, place};
use crate::product::{self, Product, run};
use crate::support::{Shop, Stored, annotation, call, create, direct_of, names, patched, pod_review, review};

const MARKS: [&str; 2] = ["pub.kruise.io/related-pub", "kruise.io/related-pub"];
const PROBE_CONTEXT: &str = "apps.kruise.io/container-probe-context";
const PROBES: &str = "kruise.io/podprobe";
const MARKERS: &str = "kruise.io/podprobemarker-list";

async fn shop() -> Shop {
    Shop::open_on(&place().await.server, "steps").await
}

fn budget(shop: &Shop, version: &str, name: &str) -> Object {
    object(&format!("policy.kruise.io/{version}"), "PodUnavailableBudget", name)
        .in_namespace(&shop.namespace)
        .with("/spec/maxUnavailable", 1)
}

fn targeting(budget: Object, api_version: &str, kind: &str, name: &str) -> Object {
    budget.with("/spec/targetRef", json!({"apiVersion": api_version, "kind": kind, "name": name}))
}

/// The name with which both marks are set; empty for none.
fn mark(pod: &Value) -> &str {
    let [mark, older] = MARKS.map(|key| pod["metadata"]["annotations"][key].as_str().unwrap_or_default());
    assert_eq!(mark, older, "{pod:#}");
    mark
}

/// Waits until a Pod would be stored as `holds` says; its creation is only tried.
async fn tried(shop: &Shop, pod: &Object, holds: impl Fn(&Value) -> bool) -> Value {
    wait_for("the program to know the objects", async || {
        match create(&shop.client, pod.clone(), "?dryRun=All").await {
            (201, pod) if holds(&pod) => Ok(pod),
            (_, answer) => Err(answer),
        }
    })
    .await
}

fn clone_set(name: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": name, "uid": "f7c4d5a2-0c1b-4c6e-9d1f-5a2b3c4d5e6f"}})
}

/// Scenario 25, with a real Deployment and a budget written in the older version.
#[tokio::test]
async fn pods_of_a_deployment_are_marked_with_its_budget() {
    let shop = Shop::open_on(&guarded().await.server, "steps").await;
    let keep = targeting(budget(&shop, "v1alpha1", "keep"), "apps/v1", "Deployment", "front");
    Stored::create(&shop.client, keep).await;
    let replica_set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "front-5d4f", "uid": "f7c4d5a2-0c1b-4c6e-9d1f-5a2b3c4d5e6f"}});
    let example = shop.pod("example").label("pod-template-hash", "5d4f").controlled_by(&replica_set);
    tried(&shop, &example, |pod| mark(pod) == "keep").await;

    for name in ["front", "back"] {
        let workload = deployment(name).in_namespace(&shop.namespace).matching("app", name);
        Stored::create(&shop.client, workload.replicas(1).container("main", "nginx:1.25")).await;
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector=app={name}", shop.namespace);
        let pod = wait_for("the Deployment to make its Pod", async || {
            let pods = call(&shop.client, "GET", &path, &Value::Null).await.1;
            if pods["items"][0].is_object() { Ok(pods["items"][0].clone()) } else { Err(pods) }
        })
        .await;
        assert_eq!(mark(&pod), if name == "front" { "keep" } else { "" }, "{pod:#}");
    }
}

/// Scenario 25: with both gates off there is no mark. This replica is not behind the Service.
#[tokio::test]
async fn without_the_gates_of_budgets_no_pod_is_marked() {
    let (shop, server) = (shop().await, &place().await.server);
    let web = budget(&shop, "v1beta1", "web").with("/spec/selector/matchLabels/app", "web");
    Stored::create(&shop.client, web).await;
    tried(&shop, &shop.pod("tried"), |pod| mark(pod) == "web").await;
    let gates = format!("{GATES},PodUnavailableBudgetDeleteGate=false");
    let mut product = Product::start(server, product::Options::default().gates(&gates)).await;
    product.wait_ready().await;
    let asked = pod_review(&shop.namespace, "CREATE", "", &shop.pod("asked").build());
    let answer = review(&direct_of(server, product.port).await, &asked).await;
    assert!(answer["allowed"] == true && answer["patch"].is_null(), "{answer:#}");
}

/// docs/behaviour/pod-mutation.md#podunavailablebudget-mark: the mark follows the budgets there are, and the
/// user's is overwritten.
#[tokio::test]
async fn the_mark_is_that_of_the_first_budget_that_matches() {
    let shop = shop().await;
    let web = budget(&shop, "v1beta1", "web").with("/spec/selector/matchLabels/app", "web");
    let web = Stored::create(&shop.client, web).await;
    let single = shop.pod("single");
    tried(&shop, &single, |pod| mark(pod) == "web").await;
    let set = targeting(budget(&shop, "v1beta1", "set"), "apps.kruise.io/v1alpha1", "CloneSet", "web");
    let set = Stored::create(&shop.client, set).await;
    let owned = shop.pod("owned").controlled_by(&clone_set("web")).annotation(MARKS[1], "mine");
    tried(&shop, &owned, |pod| mark(pod) == "set").await;
    assert_eq!(mark(&shop.admit(single).await), "web");
    set.deleted().await;
    tried(&shop, &owned, |pod| mark(pod) == "web").await;
    web.deleted().await;
    let unmarked = |pod: &Value| pod["metadata"]["annotations"] == json!({MARKS[1]: "mine"});
    tried(&shop, &owned, unmarked).await;
}

/// Scenario 29.
#[tokio::test]
async fn liveness_probes_of_kruise_pods_move_into_an_annotation() {
    let shop = shop().await;
    let probe = json!({"httpGet": {"path": "/health", "port": 7001}});
    let sidecar = shop.sidecar_set("agent").matching("with", "agent").container("agent", "busybox:1.36");
    shop.stock([sidecar.having("livenessProbe", json!({"exec": {"command": ["true"]}}))]).await;
    let asking = |name: &str| {
        let pod = shop.pod(name).having("livenessProbe", probe.clone()).container("other", "nginx:1.25");
        pod.label("with", "agent").annotation("apps.kruise.io/using-enhanced-liveness", "true")
    };
    let moved = shop.admit(asking("moved").controlled_by(&clone_set("web"))).await;
    let containers = moved["spec"]["containers"].as_array().unwrap();
    assert_eq!(names(&moved["spec"]["containers"]), ["agent", "main", "other"]);
    assert!(containers.iter().all(|container| container["livenessProbe"].is_null()), "{moved:#}");
    let numbers = r#""timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3"#;
    let expected = format!(
        r#"[{{"name":"agent","livenessProbe":{{"exec":{{"command":["true"]}},{numbers}}}}},{{"name":"main","livenessProbe":{{"httpGet":{{"path":"/health","port":7001,"scheme":"HTTP"}},{numbers}}}}}]"#
    );
    assert_eq!(annotation(&moved, PROBE_CONTEXT), expected);

    let replicated =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": clone_set("web")["metadata"]});
    let stays = shop.admit(asking("stays").controlled_by(&replicated)).await;
    assert!(stays["metadata"]["annotations"][PROBE_CONTEXT].is_null(), "{stays:#}");
    assert_eq!(stays["spec"]["containers"][1]["livenessProbe"]["httpGet"]["path"], "/health");
}

fn marker(shop: &Shop, name: &str, probes: Value) -> Object {
    object("apps.kruise.io/v1alpha1", "PodProbeMarker", name)
        .in_namespace(&shop.namespace)
        .with("/spec/selector/matchLabels/app", "web")
        .with("/spec/probes", probes)
}

/// Scenario 30.
#[tokio::test]
async fn the_first_probe_of_a_condition_is_written_on_the_pod() {
    let shop = shop().await;
    let probe = |name: &str, condition: &str| {
        json!({"name": name, "containerName": "main", "podConditionType": condition,
            "probe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
            "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "true"}}]})
    };
    let later = marker(&shop, "b", json!([probe("later", "game/idle")]));
    Stored::create(&shop.client, later).await;
    tried(&shop, &shop.pod("tried"), |pod| pod["metadata"]["annotations"][MARKERS] == "b").await;
    let first = marker(&shop, "a", json!([probe("first", "game/idle")]));
    Stored::create(&shop.client, first).await;
    tried(&shop, &shop.pod("tried"), |pod| pod["metadata"]["annotations"][MARKERS] == "a").await;
    let pod = shop.admit(shop.pod("web")).await;
    assert_eq!(
        annotation(&pod, PROBES),
        r#"[{"name":"first","containerName":"main","probe":{"exec":{"command":["true"]},"periodSeconds":5},"podConditionType":"game/idle"}]"#
    );
    assert_eq!(annotation(&pod, MARKERS), "a");

    // The Pod names its marker; and a second review, as of a Pod that was written down and created again,
    // comes to the same.
    let naming = shop.pod("naming").annotation(MARKERS, "b").build();
    let program = direct_of(&place().await.server, place().await.product.port).await;
    let ask = async |pod: &Value| review(&program, &pod_review(&shop.namespace, "CREATE", "", pod)).await;
    let once = patched(&naming, &ask(&naming).await);
    assert!(annotation(&once, PROBES).contains(r#""name":"later""#), "{once:#}");
    assert!(ask(&once).await["patch"].is_null());
}

/// Without a cluster the same is shown, and why.
#[tokio::test]
async fn a_review_says_what_budgets_and_markers_are_to_a_pod() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let manifests = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main}]}}}
---
apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: keep}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: front}, maxUnavailable: 1}
---
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: elsewhere, namespace: other}
spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}
---
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: game}
spec: {selector: {matchLabels: {app: web}}, probes: [{name: idle, containerName: main, podConditionType: a/b, probe: {tcpSocket: {port: 80}}}]}
";
    std::fs::write(&file, manifests).unwrap();
    let gates = "EnablePodProbeMarkerOnServerless=true";
    let output = run(&["review", "-f", file.to_str().unwrap(), "-n", "shop", "--feature-gates", gates])
        .await
        .success();
    for line in [
        "# PodUnavailableBudget keep: protects the Pod\n",
        "# PodProbeMarker game: written on the Pod: main/idle\n",
        "pub.kruise.io/related-pub: keep\n",
    ] {
        assert!(output.contains(line), "{output}");
    }
    assert!(!output.contains("PodUnavailableBudget elsewhere"), "{output}");
}

/// A right that is granted is one that is used.
#[tokio::test]
async fn the_chart_lets_markers_be_watched_only_with_the_gate() {
    let server = &place().await.server;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kutter");
    for (gates, granted) in [("EnablePodProbeMarkerOnServerless=true", true), ("AllAlpha=false", false)] {
        let gates = format!("featureGates={gates}");
        let rendered = server.helm(["template", "kutter", chart, "--set", &gates]).await.success();
        assert!(rendered.contains("resources: [podunavailablebudgets]\n  verbs: [get, list, watch]"));
        let marker = "resources: [podprobemarkers]\n  verbs: [list, watch]";
        assert_eq!(rendered.contains(marker), granted, "{gates}");
    }
}

/// The manifests in a page of the documentation.
fn manifests(page: &str) -> String {
    let path = format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("---\n")
}

#[tokio::test]
async fn the_documented_manifests_work() {
    let (shop, server) = (shop().await, &place().await.server);
    for (page, annotation) in
        [("enhanced-liveness-probe.md", PROBE_CONTEXT), ("pod-probe-marker-serverless.md", PROBES)]
    {
        let manifests = manifests(page);
        let apply = ["apply", "-n", &shop.namespace, "-f", "-"];
        // The program, which has yet to learn of the new Namespace, may not read it in the time of a review.
        wait_for("the manifests to be applied", async || {
            let output = server.kubectl_with_input(apply, &manifests).await;
            if output.status.success() { Ok(()) } else { Err(output.stderr) }
        })
        .await;
        let arguments = ["review", "-f", "-", "--feature-gates", GATES];
        let output = product::run_with_input(&arguments, &manifests).await.success();
        assert!(output.contains(&format!("{annotation}: ")), "{output}");
    }
}
