//! The chart on an API server with a controller manager; the program runs beside it as a process.

use std::time::Duration;

use kit::builders::workload;
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{NAMESPACE, Options, Product};
use crate::registration::{CONFIGURATIONS, entries, get};
use crate::service::{self, Endpoint};
use crate::support::{Shop, Stored, call, create, in_use, names};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kutter");
const GATES: &str = "--set=featureGates=ResourcesDeletionProtection=true";
/// Longer than what anybody needs who wants to undo what another one wrote.
const CALM: Duration = Duration::from_secs(5);

/// An installation of the chart whose replicas are processes.
struct Installation {
    server: ApiServer,
    client: Client,
}

impl Installation {
    async fn new() -> Self {
        let server = ApiServer::start(kit::Options::default().with_controller_manager()).await;
        let installation = Self { client: server.client(), server };
        installation.helm(&[]).await;
        installation
    }

    /// Installs or upgrades.
    async fn helm(&self, values: &[&str]) {
        let words =
            ["upgrade", "--install", "kutter", CHART, "--namespace=default", "--take-ownership", GATES];
        self.server.helm(words.iter().chain(values)).await.success();
        self.server.wait_established().await;
    }

    /// Starts a replica and waits until all is registered.
    async fn replica(&self, arguments: &[&str]) -> (Product, Endpoint) {
        let options = Options::default().gates("ResourcesDeletionProtection=true");
        let options = arguments.iter().fold(options, |options, argument| options.argument(argument));
        let mut product = Product::start(&self.server, options).await;
        let endpoint = service::join(&self.server, &product).await;
        product.wait_ready().await;
        in_use(&self.server).await;
        (product, endpoint)
    }

    /// What `kubectl diff` has to say about the chart, as those who apply it by themselves would see it.
    async fn difference(&self, values: &[&str]) -> String {
        let words = ["template", "kutter", CHART, "--no-hooks", "--namespace=default", GATES];
        let rendered = self.server.helm(words.iter().chain(values)).await.success();
        let mut found = String::new();
        for how in [&["diff", "-f", "-"][..], &["diff", "--server-side", "--force-conflicts", "-f", "-"]] {
            let output = self.server.kubectl_with_input(how, &rendered).await;
            // 1 means a difference, more an error.
            found += &output.stdout;
            if output.status.code().is_none_or(|code| code > 1) {
                found += &output.stderr;
            }
        }
        found
    }

    /// The versions of what both the chart and the program write to.
    async fn versions(&self) -> Vec<(String, String)> {
        let kinds = "crds,mutatingwebhookconfigurations,validatingwebhookconfigurations";
        let list = self.server.kubectl(["get", kinds, "--output=json"]).await.success();
        let list: Value = serde_json::from_str(&list).unwrap();
        let metadata = list["items"].as_array().unwrap().iter().map(|object| &object["metadata"]);
        metadata.map(|one| (one["name"].to_string(), one["resourceVersion"].to_string())).collect()
    }

    /// Waits until nobody writes to them any more.
    async fn calm(&self) {
        wait_for("nobody to undo what another one writes", async || {
            let before = self.versions().await;
            tokio::time::sleep(CALM).await;
            let after = self.versions().await;
            if before == after { Ok(()) } else { Err((before, after)) }
        })
        .await;
    }

    async fn timeouts(&self) -> Vec<u64> {
        let mut all: Vec<u64> = entries(&self.client)
            .await
            .iter()
            .map(|entry| entry["timeoutSeconds"].as_u64().unwrap())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// docs/behaviour/server.md#installed-objects.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_and_the_program_never_undo_what_the_other_wrote() {
    let site = Installation::new().await;
    let (product, endpoint) = site.replica(&[]).await;
    site.calm().await;
    let registered = entries(&site.client).await;
    assert_eq!(site.difference(&[]).await, "");

    // An upgrade that changes nothing.
    site.helm(&[]).await;
    site.calm().await;
    assert_eq!(entries(&site.client).await, registered);
    assert_eq!(site.difference(&[]).await, "");

    // Settings of the user take effect, and no upgrade takes them back.
    let text = "defaults: {timeoutSeconds: 7}";
    let settings = kit::builders::config_map("kruise-configuration", "Webhook_Settings", text);
    let settings = Stored::create(&site.client, settings.in_namespace(NAMESPACE)).await;
    let registered = async |seconds: u64| {
        wait_for("the setting to be registered", async || {
            let timeouts = site.timeouts().await;
            if timeouts == [seconds] { Ok(()) } else { Err(timeouts) }
        })
        .await;
    };
    registered(7).await;
    assert_eq!(site.difference(&[]).await, "");
    site.helm(&[]).await;
    site.calm().await;
    assert_eq!(site.timeouts().await, [7]);
    assert_eq!(site.difference(&[]).await, "");

    // A value of the chart, as the new replicas of its Deployment get it.
    settings.deleted().await;
    let values = ["--set=webhookConfiguration.timeoutSeconds=12"];
    assert!(
        site.difference(&values).await.contains("--webhook-timeout-seconds=12"),
        "a change is a difference"
    );
    site.helm(&values).await;
    assert!(product.stop().await.success());
    endpoint.leave().await;
    let (product, _endpoint) = site.replica(&["--webhook-timeout-seconds=12"]).await;
    registered(12).await;
    site.calm().await;
    assert_eq!(site.difference(&values).await, "");
    assert!(product.stop().await.success());
}

/// docs/behaviour/api-and-registration.md#how-entries-are-kept: the namespace is deleted with all replicas,
/// of which none has time for anything.
#[tokio::test(flavor = "multi_thread")]
async fn pods_can_be_created_soon_after_the_namespace_of_the_program_was_deleted() {
    let site = Installation::new().await;
    let (product, endpoint) = site.replica(&[]).await;
    let shop = Shop::open_on(&site.server, "shop").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    let mut sets = Vec::new();
    for number in 0..10 {
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", &format!("web-{number}"));
        let set = set.in_namespace(&shop.namespace).matching("set", "web").replicas(1);
        sets.push(Stored::create(&site.client, set.container("main", "nginx:1.25")).await);
    }
    let pods = async || {
        let path = format!("/api/v1/namespaces/{}/pods", shop.namespace);
        get(&site.client, &path).await["items"].as_array().unwrap().len()
    };
    let counted = async |wanted: usize| {
        wait_for("the Pods of the CloneSets", async || {
            let count = pods().await;
            if count == wanted { Ok(()) } else { Err(count) }
        })
        .await;
    };
    counted(10).await;
    let fail_closed = entries(&site.client).await;
    assert!(
        fail_closed.iter().any(|entry| entry["name"] == "mpod.kb.io" && entry["failurePolicy"] == "Fail")
    );

    product.kill().await;
    drop(endpoint);
    let refused = create(&site.client, shop.pod("early"), "").await;
    assert_eq!(refused.0, 500, "nobody answers: {refused:?}");
    let namespace = Stored::existing(&site.client, format!("/api/v1/namespaces/{NAMESPACE}"), Value::Null);
    namespace.deleted().await;
    namespace.gone().await;
    let free =
        wait_for("Pods to be admitted", async || match create(&site.client, shop.pod("free"), "").await {
            (201, pod) => Ok(pod),
            (_, answer) => Err(answer),
        })
        .await;
    assert_eq!(names(&free["spec"]["containers"]), ["main"]);
    // The garbage collector deletes one after the other: Pods are admitted once the first is gone.
    for path in CONFIGURATIONS {
        wait_for("the registrations to go", async || match get(&site.client, path).await {
            Value::Null => Ok(()),
            left => Err(left),
        })
        .await;
    }
    for set in &sets {
        let (code, now) = set.get().await;
        assert_eq!((code, &now["metadata"]["uid"]), (200, &set.object["metadata"]["uid"]), "{now:#}");
    }
    assert_eq!(pods().await, 11);

    // Objects continue.
    site.helm(&[]).await;
    let (product, _endpoint) = site.replica(&[]).await;
    shop.settle().await;
    let pod = shop.admit(shop.pod("late")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["log", "main"]);
    for set in &sets {
        set.patch(&json!({"spec": {"replicas": 2}})).await;
    }
    counted(22).await;
    let path = format!("{}/{}", "/apis/apps.kruise.io/v1beta1/sidecarsets", shop.name("log"));
    assert_eq!(call(&site.client, "GET", &path, &Value::Null).await.0, 200);
    assert!(product.stop().await.success());
}
