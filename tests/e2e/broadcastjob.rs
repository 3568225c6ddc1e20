//! What the controller and the webhooks of BroadcastJobs do (docs/behaviour/broadcastjob.md).

use kit::ApiServer;
use kit::builders::{Object, workload};
use kit::fake_nodes;
use kit::wait_for;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::fleet::{Fleet, label, name};
use crate::support::{Shop, Stored, create, message, shared};

/// The label by which a test's own Nodes are known: others share the API server.
const SITE: &str = "example.com/site";

/// The job that the tests begin with; it is for the Nodes of its namespace alone.
fn job(shop: &Shop, version: &str) -> Object {
    workload(&format!("apps.kruise.io/{version}"), "BroadcastJob", "web")
        .in_namespace(&shop.namespace)
        .with("/spec/template/spec/restartPolicy", "Never")
        .container("main", "busybox:1")
        .with("/spec/template/spec/nodeSelector", json!({SITE: shop.namespace}))
}

/// Pods end with this exit code, once they have run for so many milliseconds.
fn ending(job: Object, code: u8, after: &str) -> Object {
    job.template_annotation(fake_nodes::EXIT, &format!("main={code}"))
        .template_annotation(fake_nodes::READY_AFTER, after)
}

async fn asked() -> &'static ApiServer {
    static ASKED: OnceCell<()> = OnceCell::const_new();
    let server = shared().await.0;
    ASKED
        .get_or_init(async || {
            let shop = Shop::open_on(server, "broadcastjob-asked").await;
            let always = job(&shop, "v1beta1").with("/spec/template/spec/restartPolicy", "Always");
            let (always, job) = (always.build(), job(&shop, "v1beta1").build());
            wait_for("BroadcastJobs to be reviewed", async || {
                let (code, answer) = create(&shop.client, always.clone(), "?dryRun=All").await;
                if code != 500 {
                    return Err(answer);
                }
                match create(&shop.client, job.clone(), "?dryRun=All").await {
                    (201, job) if job["spec"]["parallelism"] == 2_147_483_647 => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
        })
        .await;
    server
}

/// A job that was just created, in a cluster with so many Nodes of its own. `refine` completes it.
async fn open(prefix: &str, nodes: usize, refine: impl FnOnce(Object) -> Object) -> Fleet {
    let shop = Shop::open_on(asked().await, prefix).await;
    let served = shop.namespace.clone();
    open_in(shop, &served, nodes, refine).await
}

/// The kubelets run the Pods of one namespace.
async fn open_in(shop: Shop, served: &str, nodes: usize, refine: impl FnOnce(Object) -> Object) -> Fleet {
    let mut options = fake_nodes::Options::nodes(nodes).binding_pods().in_namespace(served);
    for index in 0..nodes {
        options = options.label(index, SITE, &shop.namespace);
    }
    let nodes = fake_nodes::FakeNodes::start(shop.client.clone(), options).await;
    let set = Stored::create(&shop.client, refine(job(&shop, "v1beta1"))).await;
    Fleet { shop, set, nodes }
}

/// The status, once these fields hold.
async fn status(fleet: &Fleet, what: &str, fields: Value) -> Value {
    let fields = fields.as_object().unwrap();
    wait_for(what, async || {
        let status = fleet.set.get().await.1["status"].take();
        if fields.iter().all(|(key, value)| status[key] == *value) {
            Ok(status)
        } else {
            Err((status, fleet.summary().await))
        }
    })
    .await
}

fn node(fleet: &Fleet, index: usize) -> Stored {
    let path = format!("/api/v1/nodes/{}", fleet.nodes.names()[index]);
    Stored::existing(&fleet.shop.client, path, Value::Null)
}

/// Another Node joins the site.
async fn join(fleet: &Fleet) -> fake_nodes::FakeNodes {
    let options = fake_nodes::Options::nodes(1).binding_pods().in_namespace(&fleet.shop.namespace);
    let options = options.label(0, SITE, &fleet.shop.namespace);
    fake_nodes::FakeNodes::start(fleet.shop.client.clone(), options).await
}

/// Lets a running Pod end with this exit code.
async fn finish(fleet: &Fleet, pod: &Value, code: u8) {
    fleet.annotate(&name(pod), fake_nodes::EXIT, format!("main={code}")).await;
}

/// Scenarios 1, 2, 3 and 4.
#[tokio::test]
async fn objects_are_completed_and_checked() {
    let shop = Shop::open_on(asked().await, "broadcastjob-checks").await;
    for version in ["v1alpha1", "v1beta1"] {
        let (code, stored) = create(&shop.client, job(&shop, version), "?dryRun=All").await;
        assert_eq!(code, 201, "{stored:#}");
        let spec = &stored["spec"];
        assert_eq!(
            (&spec["parallelism"], &spec["completionPolicy"]["type"]),
            (&json!(2_147_483_647), &json!("Always"))
        );
        assert_eq!(
            (&spec["failurePolicy"]["type"], &spec["template"]["spec"]["dnsPolicy"]),
            (&json!("FailFast"), &json!("ClusterFirst"))
        );
        let mut unnamed = job(&shop, version).build();
        unnamed["metadata"]["name"] = json!("a.b");
        let mut unsaid = job(&shop, version).build();
        unsaid["spec"]["template"]["spec"]["restartPolicy"].take();
        let never = json!({"type": "Never", "ttlSecondsAfterFinished": 5});
        for (object, text) in [
            (unsaid, "pod restartPolicy can only be Never or OnFailure"),
            (unnamed, "BroadcastJob name must consist of"),
            (
                job(&shop, version).with("/spec/completionPolicy", never).build(),
                "spec.completionPolicy.ttlSecondsAfterFinished",
            ),
            (
                job(&shop, version).template_label("broadcastjob-name", "x").build(),
                "are not allowed to preset in pod labels",
            ),
        ] {
            let answer = create(&shop.client, object, "?dryRun=All").await;
            assert_eq!(answer.0, 500, "{answer:#?}");
            assert!(message(&answer).contains(text), "{text}: {answer:#?}");
        }
    }
}

/// Scenarios 5, 6, 7, 9 and 13.
#[tokio::test]
async fn each_node_that_suits_runs_a_pod_to_its_end() {
    let shop_nodes = 6;
    let fleet = open("broadcastjob-run", shop_nodes, |job| {
        ending(job, 0, "0").with("/spec/paused", true).having("resources", json!({"requests": {"cpu": "2"}}))
    })
    .await;
    // All Nodes are known before some are taken away.
    let paused = json!({"phase": "paused", "active": 0, "desired": shop_nodes});
    status(&fleet, "the job to be paused", paused).await;
    assert!(fleet.pods().await.is_empty(), "scenario 13");
    node(&fleet, 3).patch(&json!({"spec": {"unschedulable": true}})).await;
    node(&fleet, 4).patch(&json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})).await;
    node(&fleet, 5).patch_status(&json!({"allocatable": {"cpu": "1"}})).await;
    status(&fleet, "three Nodes to suit", json!({"desired": 3})).await;
    fleet.change(json!({"paused": false})).await;
    let done =
        status(&fleet, "the job to be complete", json!({"phase": "completed", "succeeded": 3, "desired": 3}))
            .await;
    assert_eq!(
        (&done["conditions"][0]["type"], &done["conditions"][0]["status"]),
        (&json!("Complete"), &json!("True"))
    );
    assert!(!done["completionTime"].is_null() && !done["startTime"].is_null());
    let pods = fleet.pods().await;
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| label(pod, "broadcastjob-name") == "web"));
    assert!(
        pods.iter()
            .all(|pod| label(pod, "broadcastjob-controller-uid") == fleet.set.object["metadata"]["uid"])
    );
    assert_eq!(fleet.event("Continue").await, "continue to process job");
    assert!(fleet.event("JobComplete").await.ends_with("is completed, 3 pods succeeded, 0 pods failed"));
    let explained = fleet.explained().await.success();
    assert!(explained.contains("the job is completed: 3 Pods succeeded, 0 failed"), "{explained}");
}

#[tokio::test]
async fn the_next_pod_waits_for_no_clock() {
    let fleet = open("broadcastjob-pace", 6, |job| {
        ending(job, 0, "0").with("/spec/paused", true).with("/spec/parallelism", 1)
    })
    .await;
    status(&fleet, "the job to be paused", json!({"phase": "paused", "desired": 6})).await;
    let chronicle = fleet.chronicle().await;
    fleet.change(json!({"paused": false})).await;
    status(&fleet, "the job to be complete", json!({"phase": "completed", "succeeded": 6})).await;
    chronicle.assert_no_clock("BroadcastJob", |_| true).await;
}

/// Scenario 10.
#[tokio::test]
async fn one_failure_ends_the_job() {
    let fleet = open("broadcastjob-failfast", 3, |job| job).await;
    let pods = fleet
        .wait_pods("all to run", |pods| pods.len() == 3 && pods.iter().all(crate::support::fleet::is_ready))
        .await;
    finish(&fleet, &pods[0], 1).await;
    let failed =
        status(&fleet, "the job to fail", json!({"phase": "failed", "failed": 3, "active": 0})).await;
    let text = "failure policy is FailurePolicyTypeFailFast and failed pod is found";
    assert_eq!(
        (&failed["conditions"][0]["type"], &failed["conditions"][0]["message"]),
        (&json!("Failed"), &json!(text))
    );
    fleet.wait_pods("the others to go", |pods| pods.len() == 1).await;
}

/// Scenario 15.
#[tokio::test]
async fn a_job_that_is_over_goes_after_its_time() {
    let policy = json!({"ttlSecondsAfterFinished": 2});
    let fleet = open("broadcastjob-ttl", 1, |job| job.with("/spec/completionPolicy", policy)).await;
    let pods = fleet
        .wait_pods("the Pod to run", |pods| pods.len() == 1 && crate::support::fleet::is_ready(&pods[0]))
        .await;
    finish(&fleet, &pods[0], 0).await;
    fleet.set.gone().await;
    // By this reference the garbage collector, which does not run here, finds the Pod: the job went without orphans.
    let (_, pod) = fleet.pod(&name(&pods[0])).get().await;
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], fleet.set.object["metadata"]["uid"]);
}

/// Scenarios 16 and 19.
#[tokio::test]
async fn a_job_that_never_completes_serves_nodes_that_join() {
    let policy = json!({"type": "Never"});
    let fleet =
        open("broadcastjob-never", 0, |job| ending(job, 0, "0").with("/spec/completionPolicy", policy)).await;
    status(&fleet, "the job to wait", json!({"phase": "running", "desired": 0})).await;
    let _first = join(&fleet).await;
    status(&fleet, "the Pod to succeed", json!({"succeeded": 1, "desired": 1})).await;
    let _second = join(&fleet).await;
    let status =
        status(&fleet, "the other one, too", json!({"phase": "running", "succeeded": 2, "desired": 2})).await;
    assert!(status["conditions"].is_null() && status["completionTime"].is_null());
}

/// Scenario 18.
#[tokio::test]
async fn both_versions_are_the_same() {
    let shop = Shop::open_on(asked().await, "broadcastjob-versions").await;
    let stored = Stored::create(&shop.client, job(&shop, "v1alpha1")).await;
    wait_for("the status", async || {
        let (alpha, beta) = (stored.get().await.1, stored.in_version("v1beta1").get().await.1);
        let is_same = alpha["spec"] == beta["spec"] && alpha["status"] == beta["status"];
        if is_same && alpha["status"]["phase"] == "running" { Ok(()) } else { Err((alpha, beta)) }
    })
    .await;
}
