//! Which Pods have the sidecars of a SidecarSet, and why the others have not: as annotation, metric, Event,
//! warning and command say it, in the same words (docs/sidecarset-pods.md).

mod missed;
mod reasons;

use kit::builders::Object;
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, Output, wait_for};
use serde_json::{Value, json};

use crate::product;
use crate::support::{Shop, Stored, shared};

const PODS: &str = "kutter.io/sidecarset-pods";
const EVICT: &str = "kutter.io/evict-missed-pods";
const INJECTED: &str = "kruise.io/sidecarset-injected-list";
const OLD: &str = "busybox:1.35";
const NEW: &str = "busybox:1.36";

/// A namespace with fake nodes, and a SidecarSet for its Pods.
struct Fleet {
    server: &'static ApiServer,
    shop: Shop,
    set: Stored,
    _nodes: FakeNodes,
}

impl Fleet {
    /// `refine` completes the SidecarSet, which has the sidecar `log`.
    async fn open(prefix: &str, refine: impl FnOnce(Object) -> Object) -> Self {
        let shop = Shop::open(prefix).await;
        Self::open_in(shop, refine).await
    }

    /// As [`open`](Self::open), in a namespace in which Pods may be already.
    async fn open_in(shop: Shop, refine: impl FnOnce(Object) -> Object) -> Self {
        let options = fake_nodes::Options::nodes(1).in_namespace(&shop.namespace).binding_pods();
        let nodes = FakeNodes::start(shop.client.clone(), options).await;
        let set = refine(sidecar(shop.sidecar_set("log")));
        let set = Stored::create(&shop.client, set).await;
        shop.settle().await;
        Self { server: shared().await.0, shop, set, _nodes: nodes }
    }

    fn name(&self) -> String {
        self.shop.name("log")
    }

    /// What the annotation says, once it holds.
    async fn reported(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        reported(&self.set, what, holds).await
    }

    /// The reason of this word, once the annotation gives it.
    async fn reason(&self, word: &str) -> Value {
        let reported = self.reported(word, |reported| reason(reported, word).is_some()).await;
        reason(&reported, word).unwrap().clone()
    }

    async fn explain(&self, words: &[&str]) -> Output {
        let namespace: &[&str] = &["-n", &self.shop.namespace];
        explain(self.server, &[words, namespace].concat()).await
    }

    /// Asserts that annotation and command give this reason for a Pod in the same words, and gives them.
    async fn agree(&self, word: &str, pod: &str) -> String {
        let found = self.reason(word).await;
        let message = found["message"].as_str().unwrap().to_owned();
        let full = format!("{}/{pod}", self.shop.namespace);
        assert!(found["pods"].as_array().unwrap().contains(&json!(full)), "{full}: {found:#}");
        let name = self.name();
        let of_pod = self.explain(&["pod", pod]).await;
        let line = |answer: &str| format!("  SidecarSet {name}: {answer}: {message}\n");
        let lines = [line("yes"), line("no")];
        assert!(lines.iter().any(|line| of_pod.stdout.contains(line)), "{lines:?}: {of_pod:?}");
        let of_set = self.explain(&["sidecarset", &name]).await;
        assert!(of_set.stdout.contains(&format!(": {message}\n")), "{message}: {of_set:?}");
        assert!(of_set.stdout.contains(&full), "{full}: {of_set:?}");
        message
    }
}

fn sidecar(set: Object) -> Object {
    set.container("log", OLD).having("podInjectPolicy", "AfterAppContainer")
}

/// What the annotation of a SidecarSet says, once it holds.
async fn reported(set: &Stored, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    wait_for(&format!("the account to tell {what}"), async || {
        let reported = account(&set.get().await.1);
        if holds(&reported) { Ok(reported) } else { Err(reported) }
    })
    .await
}

/// What the annotation says now; null where it is not there.
fn account(set: &Value) -> Value {
    let text = set["metadata"]["annotations"][PODS].as_str().unwrap_or("null");
    serde_json::from_str(text).unwrap()
}

fn reason<'v>(reported: &'v Value, word: &str) -> Option<&'v Value> {
    reported["reasons"].as_array().into_iter().flatten().find(|reason| reason["reason"] == word)
}

/// Runs `kutter explain`.
async fn explain(server: &ApiServer, words: &[&str]) -> Output {
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig().display());
    let kubeconfig: &[&str] = &[&kubeconfig];
    product::run(&[&["explain"], words, kubeconfig].concat()).await
}

#[tokio::test]
async fn a_number_of_evictions_that_is_none_is_refused() {
    let shop = Shop::open("number").await;
    for number in ["0", "10%", "many"] {
        let set = sidecar(shop.sidecar_set("log")).annotation(EVICT, number);
        let (code, message) = shop.refuse(set).await;
        let expected = format!(
            "metadata.annotations[{EVICT}]: Invalid value: \"{number}\": must be a whole number from 1 to 1000: \
             how many Pods may be away at a time"
        );
        assert!(code == 500 && message.ends_with(&expected), "{message}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_not_explained() {
    let shop = Shop::open("nothing").await;
    let server = shared().await.0;
    let namespace = &*shop.namespace;
    for (words, expected) in [
        (&["pod", "web", "-n", namespace][..], format!("there is no Pod web in namespace {namespace}")),
        (&["pod/web", "-n", namespace][..], format!("there is no Pod web in namespace {namespace}")),
        (&["sidecarset/none"][..], "there is no SidecarSet none, or it can't be read".to_owned()),
        (&["service/web"][..], "\"service/web\" can't be explained: see kutter explain --help".to_owned()),
    ] {
        let output = explain(server, words).await;
        assert_eq!((output.status.code(), output.stderr), (Some(1), format!("error: {expected}\n")));
    }
}

/// The manifests in the documentation.
#[tokio::test]
async fn the_documented_manifests_work() {
    let (server, _) = shared().await;
    let shop = Shop::open("documented").await;
    let text =
        std::fs::read_to_string(format!("{}/docs/sidecarset-pods.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let manifests: Vec<&str> =
        text.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert_eq!(manifests.len(), 1);
    for manifest in manifests {
        let words = ["apply", "--filename=-", "--output=json"];
        let set = server.kubectl_with_input(words, manifest).await.success();
        let set: Value = serde_json::from_str(&set).unwrap();
        let name = set["metadata"]["name"].as_str().unwrap();
        shop.settle().await;
        let labels = set["spec"]["selector"]["matchLabels"].clone();
        shop.admit(shop.pod("web").with("/metadata/labels", labels)).await;
        let stored = Stored::existing(
            &shop.client,
            format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{name}"),
            Value::Null,
        );
        reported(&stored, "one Pod", |reported| reported["injected"] == 1).await;
        let output = explain(server, &["pod/web", "-n", &shop.namespace]).await;
        assert!(output.stdout.contains(&format!("SidecarSet {name}: yes: injected\n")), "{output:?}");
        server.kubectl_with_input(["delete", "-f", "-"], manifest).await.success();
    }
}
