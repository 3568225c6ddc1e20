//! What the program counts is written down, and its caches have a size (docs/behaviour/server.md#metrics).

use std::collections::{BTreeMap, BTreeSet};

use kit::builders::{object, workload};
use kit::fake_runtime::{FakeRuntime, Pull};
use kit::{ApiServer, wait_for};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::product::{self, NAMESPACE, Options, Product, get};
use crate::support::{Shop, Stored, agent, authority, call, direct_with, in_use, shared};

/// Many: other tests come and go.
const SETS: u64 = 200;
const CLONE_SETS: &str = r#"{cache="cloneset-controller",kind="CloneSet"}"#;
const CACHES: [&str; 6] = [
    CLONE_SETS,
    r#"{cache="admission",kind="SidecarSet"}"#,
    r#"{cache="admission",kind="Namespace"}"#,
    r#"{cache="sidecarset-controller",kind="SidecarSet"}"#,
    r#"{cache="pods",kind="Pod"}"#,
    r#"{cache="sidecarset-accounts",kind="Pod"}"#,
];
const PAGE: &str = include_str!("../../docs/metrics.md");

/// Sizes of caches by cache and kind.
fn sizes(metrics: &str) -> BTreeMap<String, u64> {
    let series = metrics.lines().filter_map(|line| line.strip_prefix("kutter_cache_objects"));
    series
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(labels, size)| (labels.to_owned(), size.parse().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sizes_of_caches_follow_what_is_in_the_cluster() {
    let (_, product) = shared().await;
    let shop = Shop::open("sizes").await;
    let clone_sets = async || sizes(&product.metrics().await).get(CLONE_SETS).copied();
    wait_for("all caches to be counted", async || {
        let sizes = sizes(&product.metrics().await);
        if CACHES.iter().all(|cache| sizes.contains_key(*cache)) { Ok(()) } else { Err(sizes) }
    })
    .await;
    let before = clone_sets().await.unwrap();
    for number in 0..SETS {
        let set = workload("apps.kruise.io/v1beta1", "CloneSet", &format!("web-{number}"));
        let set = set.in_namespace(&shop.namespace).matching("app", "web").replicas(0);
        Stored::create(&shop.client, set.container("main", "nginx:1.25")).await;
    }
    wait_for("the CloneSets to be counted", async || match clone_sets().await {
        Some(now) if now >= before + SETS / 2 => Ok(()),
        now => Err((before, now)),
    })
    .await;
    let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets", shop.namespace);
    Stored::existing(&shop.client, path, Value::Null).deleted().await;
    wait_for("the CloneSets not to be counted", async || match clone_sets().await {
        Some(now) if now < before + SETS / 2 => Ok(()),
        now => Err((before, now)),
    })
    .await;
}

/// No metric of ours without a line in the documentation, and none there that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_ours_is_on_its_page() {
    let (_, product) = shared().await;
    let shop = Shop::open("documented").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `kutter_"));
    let names = rows.map(|row| format!("kutter_{}", row.split(['`', '{']).next().unwrap()));
    let documented: BTreeSet<String> = names.collect();
    wait_for("the page to say what is served", async || {
        let text = product.metrics().await;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let served =
            types.filter_map(|line| line.split(' ').next()).filter(|name| name.starts_with("kutter_"));
        let served: BTreeSet<String> = served.map(str::to_owned).collect();
        if served == documented { Ok(()) } else { Err((served, documented.clone())) }
    })
    .await;
}

/// docs/metrics.md#objects
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_shows_the_objects_of_the_kinds_that_are_named() {
    let server = product::server(kit::Options::default()).await;
    let options = Options::default().argument("--object-metrics=cloneset,statefulset");
    let product = Product::serve(&server, options).await;
    in_use(&server).await;
    let shop = Shop::open_on(&server, "shown").await;
    let create = async |kind: &str, name: &str, spec: Value| {
        let object = workload("apps.kruise.io/v1beta1", kind, name).in_namespace(&shop.namespace);
        let object = object.with("/spec", spec).matching("app", name).container("main", "nginx:1.25");
        Stored::create(&shop.client, object).await
    };
    create("DaemonSet", "logs", json!({})).await;
    create("StatefulSet", "db", json!({"replicas": 3, "podManagementPolicy": "Parallel"})).await;
    let web = create("CloneSet", "web", json!({"replicas": 2})).await;

    let series = |kind: &str, name: &str, metric: &str, number: u32| {
        let labels = format!("namespace=\"{}\",{kind}=\"{name}\"", shop.namespace);
        format!("kruise_{kind}_{metric}{{{labels}}} {number}")
    };
    let shown = async |expected: &[String]| {
        wait_for("the objects to be shown", async || match get(product.metrics, "/metrics/objects").await {
            Ok((200, text)) if expected.iter().all(|series| text.lines().any(|line| line == series)) => {
                Ok(text)
            }
            answer => Err(answer),
        })
        .await
    };
    let of_db = ["spec_replicas", "status_replicas"].map(|metric| series("statefulset", "db", metric, 3));
    let of_web = ["spec_replicas", "status_replicas"].map(|metric| series("cloneset", "web", metric, 2));
    wait_for("the DaemonSet to be known", async || {
        let sizes = sizes(&product.metrics().await);
        if sizes.get(r#"{cache="daemonset-controller",kind="DaemonSet"}"#) == Some(&1) {
            Ok(())
        } else {
            Err(sizes)
        }
    })
    .await;
    let text = shown(&[of_db.clone(), of_web].concat()).await;
    assert!(!text.contains("daemonset"), "{text}");

    web.deleted().await;
    wait_for("the CloneSet not to be shown", async || match get(product.metrics, "/metrics/objects").await {
        Ok((200, text)) if !text.contains("cloneset") => Ok(()),
        answer => Err(answer),
    })
    .await;
    shown(&of_db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_objects_cannot_be_shown_ends_the_program() {
    let output = product::run(&["serve", "--object-metrics=cloneset,pod"]).await;
    assert!(!output.status.success());
    let error = format!("{}{}", output.stdout, output.stderr);
    assert!(error.contains("--object-metrics") && error.contains("\"pod\""), "{error}");
}

/// Asks for protected metrics as accounts with the right and without it, and gives them. Each token is a new one: what the
/// program remembers of an earlier one does not count.
async fn protected(server: &ApiServer, place: &str, ask: impl AsyncFn(Value) -> (u16, Value)) -> String {
    let shop = Shop::open(place).await;
    let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", &shop.namespace);
    Stored::create(
        &shop.client,
        role.with("/rules", json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])),
    )
    .await;
    for name in ["may", "may-not"] {
        Stored::create(&shop.client, object("v1", "ServiceAccount", name).in_namespace(&shop.namespace))
            .await;
    }
    let subject = json!({"kind": "ServiceAccount", "namespace": shop.namespace, "name": "may"});
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": shop.namespace});
    let binding = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &shop.namespace);
    Stored::create(&shop.client, binding.with("/subjects", json!([subject])).with("/roleRef", role)).await;

    let token = async |account: &str| {
        let token =
            server.kubectl(["create", "token", account, "--namespace", &shop.namespace]).await.success();
        json!({"token": token.trim()})
    };
    let text = wait_for("the role to count", async || match ask(token("may").await).await {
        (200, text) => Ok(text),
        answer => Err(answer),
    })
    .await;
    assert_eq!(ask(token("may-not").await).await.0, 403);
    assert_eq!(ask(json!({"token": "forged"})).await.0, 401);
    assert_eq!(ask(json!({})).await.0, 401);
    text.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_metrics_are_for_those_who_may_get_them() {
    let server = shared().await.0;
    let options = Options::default().argument("--webhooks-only").argument("--metrics-secure");
    let mut product = Product::start(server, options).await;
    product.wait_ready().await;
    let authority = authority(server).await;
    let ask = async |path: &str, user: Value| {
        let name = format!("kruise-webhook-service.{NAMESPACE}.svc");
        let client = direct_with(product.metrics, &authority, &name, &user).await;
        call(&client, "GET", path, &Value::Null).await
    };
    let text = protected(server, "scrapers", async |user| ask("/metrics", user).await).await;
    assert!(text.contains("kutter_connections "), "{text}");
    let objects =
        protected(server, "object-scrapers", async |user| ask("/metrics/objects", user).await).await;
    assert_eq!(objects, "", "it does not lead");
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_metrics_of_an_agent_are_for_those_who_may_get_them() {
    let server = shared().await.0;
    let directory = TempDir::new().unwrap();
    let _runtime = FakeRuntime::start(directory.path(), |_| Pull::Hangs);
    let port = kit::api_server::free_port();
    let mut arguments = agent::arguments(server, directory.path(), port);
    arguments.push("--metrics-secure".to_owned());
    let _agent = agent::command(&arguments, Some("protected")).spawn().unwrap();
    // Nobody can know its certificate.
    let ask = async |path: &str, user: Value| {
        kit::install_crypto_provider();
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.accept_invalid_certs = true;
        config.auth_info = serde_json::from_value(user).unwrap();
        call(&Client::try_from(config).unwrap(), "GET", path, &Value::Null).await
    };
    wait_for("the agent to be well, which is no secret", async || match get(port, "/healthz").await {
        // It takes no plain HTTP.
        Err(_) if TcpStream::connect(("127.0.0.1", port)).await.is_ok() => {
            match ask("/healthz", json!({})).await {
                (200, _) => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        }
        answer => Err(format!("{answer:?}")),
    })
    .await;
    let text = protected(server, "agent-scrapers", async |user| ask("/metrics", user).await).await;
    assert!(text.contains("kruise_daemon_image_pulls_running 0"), "{text}");
}
