//! Start, election and end of the program, and what it answers whom it serves (spec 00).

use std::time::Duration;

use axum::http::Request;
use kit::builders::{pod, workload};
use kit::{ApiServer, wait_for, wait_within};
use kube::client::Body;
use serde_json::{Value, json};

use crate::product::{self, Options, Product};
use crate::registration::get;
use crate::service;
use crate::support::{Stored, call, create, direct_of, in_use, pod_review, review, shared};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases/kruise-manager";

/// Scenario 36.
#[tokio::test]
async fn an_unknown_gate_ends_the_program() {
    let refusal = product::run(&["serve", "--feature-gates=NoSuchGate=true"]).await.failure();
    assert!(refusal.contains("NoSuchGate"), "{refusal}");
}

/// Scenarios 33, 34, 37 and 40, and the second half of 6.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_the_work_of_an_incomplete_cluster() {
    let server = ApiServer::start(kit::Options::default()).await;
    product::install(&server).await;
    server.kubectl(["delete", "crd", "ephemeraljobs.apps.kruise.io"]).await.success();
    what_cannot_be_published_ends_the_program_in_time(&server).await;

    let gates = "AllAlpha=true,EnableExternalCerts=false,TemplateNoDefaults=false";
    let options = Options::default()
        .gates(gates)
        .argument("--leader-election-lease-duration=3s")
        .argument("--leader-election-renew-deadline=2s");
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let product = Product::start(&server, options.clone()).await;
        let endpoint = service::join(&server, &product).await;
        replicas.push((product, endpoint));
    }
    for (product, _) in &mut replicas {
        product.wait_ready().await;
    }
    in_use(&server).await;
    gates_of_a_stage_are_switched_together(&server).await;
    the_uninstall_guard_sees_workloads(&server).await;
    both_answer_and_the_lease_moves(&server, replicas).await;
}

/// Scenario 6: the time for the first publication is limited.
async fn what_cannot_be_published_ends_the_program_in_time(server: &ApiServer) {
    let options =
        Options::default().argument("--webhook-initialize-timeout=2s").environment("POD_NAMESPACE", "absent");
    let mut product = Product::start(server, options).await;
    wait_for("an answer", async || match product.readiness().await {
        Ok((500, _)) => Ok(()),
        answer => Err(answer),
    })
    .await;
    assert!(!product.wait_exit().await.success());
    assert!(product.log().contains("not initialized in time"), "{}", product.log());
}

/// Scenario 37: gates of stage alpha are on, those named are off.
async fn gates_of_a_stage_are_switched_together(server: &ApiServer) {
    let client = server.client();
    let namespace = server.namespace("gates").await;
    let pod = pod("web").in_namespace(&namespace).container("main", "nginx:1.25");
    let (code, pod) = create(&client, pod, "?dryRun=All").await;
    assert_eq!(code, 201, "{pod:#}");
    assert_eq!(pod["spec"]["readinessGates"], json!([{"conditionType": "KruisePodReady"}]));
    // EnableExternalCerts is off: the Secret was made.
    let secret = get(&client, &crate::registration::secret_path("kruise-webhook-certs")).await;
    assert!(secret["data"]["ca-key.pem"].is_string());
}

/// Scenario 40.
async fn the_uninstall_guard_sees_workloads(server: &ApiServer) {
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    product::run(&["finalizer", &kubeconfig]).await.success();
    let namespace = server.namespace("guard").await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&namespace);
    let set =
        Stored::create(&server.client(), set.matching("app", "web").container("main", "nginx:1.25")).await;
    let guard = product::run(&["finalizer", &kubeconfig]).await;
    assert_eq!(guard.status.code(), Some(1));
    assert!(guard.stderr.contains("there still exists some clonesets in the cluster"), "{}", guard.stderr);
    set.deleted().await;
    product::run(&["finalizer", &kubeconfig]).await.success();
}

/// Scenario 34.
async fn both_answer_and_the_lease_moves(server: &ApiServer, replicas: Vec<(Product, service::Endpoint)>) {
    let client = server.client();
    for (product, _) in &replicas {
        let direct = direct_of(server, product.port).await;
        let answer = review(&direct, &pod_review("default", "CREATE", "", &pod("a").build())).await;
        assert_eq!(answer["allowed"], true, "{answer:#}");
    }
    let leader = wait_for("one leader", async || {
        let mut leaders = Vec::new();
        for (index, (product, _)) in replicas.iter().enumerate() {
            if leads(product).await {
                leaders.push(index);
            }
        }
        if let [leader] = leaders[..] { Ok(leader) } else { Err(leaders) }
    })
    .await;
    let holder = async || get(&client, LEASE).await["spec"]["holderIdentity"].clone();
    let first = holder().await;
    assert!(first.is_string());
    let (mut killed, mut other) = (None, None);
    for (index, replica) in replicas.into_iter().enumerate() {
        *if index == leader { &mut killed } else { &mut other } = Some(replica);
    }
    let (product, endpoint) = killed.unwrap();
    product.kill().await;
    endpoint.leave().await;
    let (product, _endpoint) = other.unwrap();
    wait_within(Duration::from_secs(15), "the Lease to move", async || {
        let holder = holder().await;
        if holder.is_string() && holder != first && leads(&product).await { Ok(()) } else { Err(holder) }
    })
    .await;
    // A leader that stops gives the Lease up.
    assert!(product.stop().await.success());
    let left = holder().await;
    assert!(left.as_str().unwrap_or_default().is_empty(), "{left}");
}

async fn leads(product: &Product) -> bool {
    product.metrics().await.lines().any(|line| line == "kruise_manager_is_leader 1")
}

/// Scenario 38: what the server answers to calls that do not come from an API server of today.
#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_answered_in_their_version() {
    let (server, product) = shared().await;
    let direct = direct_of(server, product.port).await;
    for version in ["v1", "v1beta1"] {
        let mut asked = pod_review("default", "CREATE", "", &pod("a").build());
        asked["apiVersion"] = format!("admission.k8s.io/{version}").into();
        let (code, answer) = call(&direct, "POST", "/mutate-pod", &asked).await;
        assert_eq!((code, &answer["apiVersion"]), (200, &asked["apiVersion"]));
        assert_eq!(answer["response"]["uid"], asked["request"]["uid"]);
        assert_eq!(answer["response"]["allowed"], true, "{answer:#}");
    }
    let text = Request::post("/mutate-pod").header("content-type", "text/plain");
    let text = text.body(Body::from(b"{}".to_vec())).unwrap();
    let empty = Request::get("/mutate-pod").body(Body::empty()).unwrap();
    for (request, message) in
        [(empty, "request body is empty"), (text, "contentType=text/plain, expected application/json")]
    {
        let answer = direct.send(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect_bytes().await.unwrap();
        let review: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(review["response"]["status"]["code"], 400, "{review:#}");
        assert_eq!(review["response"]["status"]["message"], message);
        assert_eq!(review["response"]["uid"], "");
        assert!(review.get("apiVersion").is_none(), "{review:#}");
    }
    assert_eq!(product.liveness().await.unwrap(), (200, "ok".to_owned()));
}

/// Spec 00 §3.6: the names that dashboards know.
#[tokio::test(flavor = "multi_thread")]
async fn dashboards_find_their_metrics() {
    let (server, product) = shared().await;
    let metrics = product.metrics().await;
    let host = server.config().cluster_url.authority().unwrap().to_string();
    for line in [
        format!("rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"GET\"}} "),
        "certwatcher_read_certificate_total ".to_owned(),
        "certwatcher_read_certificate_errors_total 0".to_owned(),
        "controller_runtime_webhook_requests_total{code=\"200\"".to_owned(),
        "leader_election_master_status{name=\"kruise-manager\"} ".to_owned(),
        "kutter_webhook_silent 0".to_owned(),
        "process_resident_memory_bytes ".to_owned(),
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(&line)), "{line} is not in\n{metrics}");
    }
}
