//! The SidecarTerminator up to the request that it makes of the node
//! (docs/behaviour/sidecarset.md#sidecarterminator). The tests play the kubelet themselves: they write what
//! it would report.

use kit::builders::{Object, object, pod};
use kit::fake_nodes::{EXIT, reported};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use crate::product::Product;
use crate::support::{Shop, Stored, call, gated, named, names};

const NORMAL: (&str, &str) = ("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "true");
const IGNORED: (&str, &str) = ("KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE", "True");
const IN_PLACE: (&str, &str) = ("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE", "busybox:exit");

struct Jobs {
    shop: Shop,
    node: String,
}

impl Jobs {
    async fn open(prefix: &str) -> Self {
        Self::open_on(&gated().await.server, prefix, &[]).await
    }

    /// With a node that has these labels.
    async fn open_on(server: &ApiServer, prefix: &str, labels: &[(&str, &str)]) -> Self {
        let shop = Shop::open_on(server, prefix).await;
        let node = shop.name("node");
        let mut manifest = object("v1", "Node", &node);
        for (key, value) in labels {
            manifest = manifest.label(key, value);
        }
        Stored::create(&shop.client, manifest).await;
        Self { shop, node }
    }

    /// A Pod of a job with the container `main` and no sidecar yet.
    fn job(&self, name: &str, restart_policy: &str) -> Object {
        let pod = pod(name).in_namespace(&self.shop.namespace).on_node(&self.node);
        pod.with("/spec/restartPolicy", restart_policy).container("main", "busybox:1.36")
    }

    /// Creates a Pod and says that it runs: of its containers those have ended that have a code here.
    async fn report(&self, manifest: Object, phase: &str, codes: &[(&str, i64)]) -> Stored {
        let pod = Stored::create(&self.shop.client, manifest).await;
        self.report_again(&pod, phase, codes).await;
        pod
    }

    async fn report_again(&self, pod: &Stored, phase: &str, codes: &[(&str, i64)]) {
        let exits: Vec<String> = codes.iter().map(|(name, code)| format!("{name}={code}")).collect();
        let mut running = pod.object.clone();
        running["metadata"]["annotations"][EXIT] = json!(exits.join(","));
        let statuses = &reported(&running)["containerStatuses"];
        pod.patch_status(&json!({"phase": phase, "containerStatuses": statuses})).await;
    }

    async fn requests(&self) -> Vec<Value> {
        let path = format!(
            "/apis/apps.kruise.io/v1alpha1/namespaces/{}/containerrecreaterequests",
            self.shop.namespace
        );
        call(&self.shop.client, "GET", &path, &Value::Null).await.1["items"].as_array().unwrap().clone()
    }

    /// Waits for the request about a Pod.
    async fn request(&self, pod: &Stored) -> Value {
        let name = format!("sidecar-termination-{}", pod.object["metadata"]["uid"].as_str().unwrap());
        wait_for("the request", async || {
            let list = self.requests().await;
            list.iter().find(|request| request["metadata"]["name"] == name.as_str()).cloned().ok_or(list)
        })
        .await
    }

    /// Waits for an Event about a Pod and gives its message.
    async fn event(&self, pod: &str) -> String {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.shop.namespace);
        wait_for("the Event", async || {
            let list = call(&self.shop.client, "GET", &path, &Value::Null).await.1;
            let found =
                list["items"].as_array().unwrap().iter().find(|event| {
                    event["regarding"]["name"] == pod && event["reason"] == "SidecarTerminator"
                });
            found.map(|event| event["note"].as_str().unwrap().to_owned()).ok_or(list)
        })
        .await
    }
}

fn sidecar(pod: Object, name: &str, variables: &[(&str, &str)]) -> Object {
    let pod = pod.container(name, "busybox:1.36");
    variables.iter().fold(pod, |pod, (key, value)| pod.env(key, value))
}

/// Scenario 27.
#[tokio::test]
async fn a_request_ends_the_sidecars_once_the_main_container_is_done() {
    let jobs = Jobs::open("jobs").await;
    for (name, code) in [("good", 0), ("bad", 1)] {
        let pod = sidecar(jobs.job(name, "Never"), "zeta", &[NORMAL]);
        let pod = sidecar(pod, "alpha", &[NORMAL]);
        let pod = jobs.report(pod, "Running", &[]).await;
        jobs.report_again(&pod, "Running", &[("main", code)]).await;
        let request = jobs.request(&pod).await;
        let expected = json!({
            "podName": name, "containers": [{"name": "alpha"}, {"name": "zeta"}],
            "strategy": {"forceRecreate": true, "failurePolicy": "Ignore"},
        });
        crate::support::assert_holds(&request["spec"], &expected);
        let owner = &request["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Pod"), &json!(true)));
        assert_eq!(owner["uid"], pod.object["metadata"]["uid"]);
        let note = jobs.event(name).await;
        assert_eq!(note, "Kruise SidecarTerminator is trying to terminate sidecar [alpha zeta] using crr");
        let names = request["metadata"]["name"].clone();
        jobs.report_again(&pod, "Running", &[("main", code), ("alpha", 0)]).await;
        assert_eq!(jobs.requests().await.iter().filter(|it| it["metadata"]["name"] == names).count(), 1);
    }
}

/// Scenarios 28 and 31: nothing happens to these Pods, of which each was reported before one that counts.
#[tokio::test]
async fn unfinished_and_ordinary_pods_are_left_alone() {
    let jobs = Jobs::open("alone").await;
    for (name, policy, codes) in [
        ("failed", "OnFailure", &[("main", 1)][..]),
        ("ordinary", "Always", &[("main", 0)]),
        ("running", "Never", &[]),
        ("ended", "Never", &[("main", 0), ("side", 0)]),
    ] {
        jobs.report(sidecar(jobs.job(name, policy), "side", &[NORMAL]), "Running", codes).await;
    }
    jobs.report(jobs.job("bare", "Never").container("side", "busybox:1.36"), "Running", &[("main", 0)]).await;
    let done = sidecar(jobs.job("done", "OnFailure"), "side", &[NORMAL]);
    let done = jobs.report(done, "Running", &[("main", 0)]).await;
    jobs.request(&done).await;
    assert_eq!(jobs.requests().await.len(), 1);
}

/// Scenario 29.
#[tokio::test]
async fn an_exit_code_to_be_ignored_does_not_decide_over_the_pod() {
    let jobs = Jobs::open("ignored").await;
    for (name, code, phase) in [("good", 0, "Succeeded"), ("bad", 3, "Failed")] {
        let pod = sidecar(jobs.job(name, "Never"), "side", &[NORMAL, IGNORED]);
        let pod = jobs.report(pod, "Running", &[("main", code)]).await;
        let request = jobs.request(&pod).await;
        assert_eq!(request["spec"]["containers"][0]["name"], "side");
        let after = pod.get().await.1;
        assert_eq!(after["status"]["phase"], phase);
        let conditions = after["status"]["conditions"].as_array().unwrap();
        let terminated =
            conditions.iter().find(|condition| condition["type"] == "SidecarTerminated").unwrap();
        assert_eq!(terminated["status"], "True");
        assert_eq!(terminated["message"], "Terminated by Sidecar Terminator");

        // The sidecar is killed; a kubelet leaves a phase alone that is the last one.
        jobs.report_again(&pod, phase, &[("main", code), ("side", 137)]).await;
        let next = sidecar(jobs.job(&format!("after-{name}"), "Never"), "side", &[NORMAL]);
        let next = jobs.report(next, "Running", &[("main", 0)]).await;
        jobs.request(&next).await;
        let ended = pod.get().await.1;
        assert_eq!(
            (&ended["status"]["phase"], &ended["status"]["conditions"]),
            (&json!(phase), &after["status"]["conditions"])
        );
        assert_eq!(ended["metadata"]["generation"], after["metadata"]["generation"]);
        let names = request["metadata"]["name"].clone();
        assert_eq!(jobs.requests().await.iter().filter(|it| it["metadata"]["name"] == names).count(), 1);
    }
}

/// docs/behaviour/sidecarset.md#ending-sidecars: those whose code counts come first.
#[tokio::test]
async fn sidecars_to_be_ignored_wait_for_the_others() {
    let jobs = Jobs::open("both").await;
    let pod = sidecar(jobs.job("both", "Never"), "counted", &[NORMAL]);
    let pod = sidecar(pod, "ignored", &[NORMAL, IGNORED]);
    let pod = jobs.report(pod, "Running", &[("main", 0)]).await;
    let request = jobs.request(&pod).await;
    assert_eq!(request["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(request["spec"]["containers"][0]["name"], "counted");
    assert_eq!(pod.get().await.1["status"]["phase"], "Running");
    jobs.report_again(&pod, "Running", &[("main", 0), ("counted", 0)]).await;
    wait_for("the Pod to have succeeded", async || {
        let status = pod.get().await.1["status"].clone();
        if status["phase"] == "Succeeded" { Ok(()) } else { Err(status) }
    })
    .await;
}

/// Scenario 30. Containers keep their places, which are not those of the alphabet.
#[tokio::test]
async fn on_a_virtual_node_the_image_changes() {
    let jobs = Jobs::open_on(&gated().await.server, "virtual", &[("type", "virtual-kubelet")]).await;
    let pod = sidecar(jobs.job("virtual", "Never"), "side", &[IN_PLACE]);
    let pod = sidecar(pod, "aside", &[IN_PLACE]);
    let pod = jobs.report(pod, "Running", &[("main", 0)]).await;
    let containers = wait_for("the images to change", async || {
        let containers = pod.get().await.1["spec"]["containers"].take();
        let changed = ["side", "aside"].iter().all(|name| named(&containers, name)["image"] == IN_PLACE.1);
        if changed { Ok(containers) } else { Err(containers) }
    })
    .await;
    assert_eq!(names(&containers), ["main", "side", "aside"]);
    assert_eq!(named(&containers, "main")["image"], "busybox:1.36");
    let note = jobs.event("virtual").await;
    assert_eq!(
        note,
        "Kruise SidecarTerminator is trying to terminate sidecar [aside side] using in-place update"
    );
    assert_eq!(jobs.requests().await.len(), 0);
}

/// Scenario 31.
#[tokio::test]
async fn without_the_gate_nothing_happens() {
    // With the gate there is a controller, which counts what it does.
    let runs = async |product: &Product| product.metrics().await.contains("sidecarterminator-controller");
    let jobs = Jobs::open("gated").await;
    let done = sidecar(jobs.job("done", "Never"), "side", &[NORMAL]);
    let done = jobs.report(done, "Running", &[("main", 0)]).await;
    jobs.request(&done).await;
    assert!(runs(&gated().await.product).await);

    let (shared, product) = crate::support::shared().await;
    let jobs = Jobs::open_on(shared, "gateless", &[]).await;
    let pod = sidecar(jobs.job("done", "Never"), "side", &[NORMAL]).readiness_gate("KruisePodReady");
    let pod = jobs.report(pod, "Running", &[("main", 0)]).await;
    // Another controller of the same watch has observed the Pod by now.
    wait_for("the Pod to be seen", async || {
        let status = pod.get().await.1["status"].clone();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["type"] == "KruisePodReady") { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(jobs.requests().await.len(), 0);
    assert!(!runs(product).await);
}
