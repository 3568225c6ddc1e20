//! The cluster that all tests share, and the chart in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use kit::builders::{object, pod, sidecar_set};
use kit::{ApiServer, Cluster, Image, Options, Output, objects, scheduling, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The install namespace of the chart's defaults.
pub const NAMESPACE: &str = "kruise-system";
/// The Helm release.
pub const RELEASE: &str = "kutter";
/// How long tests wait for rollouts and whatever else takes several containers: far more than it takes.
/// kubectl and Helm have the same time where they wait.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Arguments that make an installation of this build.
pub const VALUES: [&str; 6] = [
    "--set=manager.image.tag=test",
    "--set=featureGates=ResourcesDeletionProtection=true\\,SidecarTerminator=true\\,PreDownloadImageForInPlaceUpdate=true\\,InPlaceWorkloadVerticalScaling=true\\,StatefulSetAutoResizePVCGate=true",
    "--wait",
    "--timeout=4m",
    "--namespace=default",
    "--take-ownership",
];
/// Requests of our own account, one JSON object a line.
const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "Metadata", "users": ["system:serviceaccount:kruise-system:kruise-manager"]},
    {"level": "None"}
  ]
}"#;

/// The shared cluster, for one test at a time.
pub struct Site {
    cluster: &'static Cluster,
    _turn: MutexGuard<'static, ()>,
}

fn audit_directory() -> &'static TempDir {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().unwrap())
}

async fn start() -> Cluster {
    let audit = audit_directory().path();
    std::fs::write(audit.join("policy.json"), AUDIT_POLICY).unwrap();
    let options = Options::default()
        .argument(&format!("--audit-policy-file={}", audit.join("policy.json").display()))
        .argument(&format!("--audit-log-path={}", audit.join(AUDIT_LOG).display()));
    let cluster = Cluster::start_in(&std::env::temp_dir().join("kutter-nodes"), 2, options).await;
    let program = Path::new(env!("CARGO_BIN_EXE_kutter"));
    let image = Image::new()
        .file("/manager", program)
        // Cargo puts all programs of a build into one directory.
        .file("/kruise-exit-hook", &program.with_file_name("kruise-exit-hook"))
        .link("/kutter", "/manager")
        .link("/kruise-daemon", "/manager")
        .entrypoint(["/manager"])
        .user("65534:65534");
    cluster.push_image("kutter/manager:test", &image);
    cluster
}

impl Site {
    /// Waits for this test's turn; `None` where there can't be nodes.
    pub async fn enter() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::const_new(());
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        if !kit::cluster::can_run() {
            // Past the harness, which shows what tests print only of those that fail.
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            let skip = format!("skipped {test}: real nodes need root\n");
            std::io::stderr().write_all(skip.as_bytes()).unwrap();
            return None;
        }
        let turn = TURN.lock().await;
        Some(Self { cluster: CLUSTER.get_or_init(start).await, _turn: turn })
    }

    /// [`enter`](Self::enter), with the chart installed as [`VALUES`] say and everything registered.
    pub async fn installed() -> Option<Self> {
        let site = Self::enter().await?;
        site.install().await;
        Some(site)
    }

    /// Brings the chart to what [`VALUES`] say and waits until everything is registered.
    pub async fn install(&self) {
        let output = self.upgrade(&[]).await;
        if !output.status.success() {
            let events = self.kubectl(&format!("get events -n {NAMESPACE} --sort-by=.lastTimestamp")).await;
            panic!("the chart can't be installed: {}\n{}", output.stderr, events.stdout);
        }
        self.wait_registered().await;
    }

    /// The cluster.
    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// The control plane.
    pub fn server(&self) -> &'static ApiServer {
        self.cluster.server()
    }

    /// Runs kubectl, with its words in one text.
    pub async fn kubectl(&self, words: &str) -> Output {
        self.server().kubectl(words.split_whitespace()).await
    }

    /// What kubectl reads, as JSON.
    pub async fn get(&self, words: &str) -> Value {
        let text = self.kubectl(&format!("get {words} --output=json")).await.success();
        serde_json::from_str(&text).unwrap()
    }

    /// Installs or upgrades the chart.
    pub async fn upgrade(&self, further: &[&str]) -> Output {
        let chart = chart();
        let words = ["upgrade", "--install", RELEASE, chart.to_str().unwrap()];
        self.server().helm(words.iter().chain(&VALUES).chain(further)).await
    }

    /// Asks for an uninstall and, where it is allowed, waits until everything is gone.
    pub async fn uninstall(&self) -> Output {
        let output = self.server().helm(["uninstall", RELEASE, "--timeout=4m", "--namespace=default"]).await;
        if output.status.success() {
            self.kubectl(&format!("wait --for=delete namespace/{NAMESPACE} --timeout=4m")).await.success();
        }
        output
    }

    /// Names of the webhook entries that are registered.
    pub async fn entries(&self) -> Vec<String> {
        let list = self.get("mutatingwebhookconfigurations,validatingwebhookconfigurations").await;
        let configurations = list["items"].as_array().unwrap().iter();
        let entries = configurations
            .flat_map(|configuration| configuration["webhooks"].as_array().into_iter().flatten());
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the server has registered itself.
    pub async fn wait_registered(&self) {
        wait_for("the entries to be registered", async || {
            let entries = self.entries().await;
            let wanted = ["mpod.kb.io", "msidecarset.kb.io", "vbuiltindeployment.kb.io", "vnamespace.kb.io"];
            let complete = wanted.iter().all(|name| entries.iter().any(|entry| entry == name));
            if complete { Ok(()) } else { Err(entries) }
        })
        .await;
    }

    /// The Pods of the program that are not being deleted.
    pub async fn replicas(&self, namespace: &str) -> Vec<Value> {
        let list = self.get(&format!("pods -n {namespace} -l control-plane=controller-manager")).await;
        let all = list["items"].as_array().unwrap().iter();
        all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
    }

    /// The Pod of the agent on a node.
    pub async fn agent(&self, node: &str) -> Value {
        wait_for("the agent", async || {
            let words = format!(
                "pods -n {NAMESPACE} -l control-plane=daemon --field-selector=spec.nodeName={node},status.phase=Running"
            );
            let list = self.get(&words).await;
            let mut agents = list["items"].as_array().unwrap().iter();
            let agent = agents.find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            agent.cloned().ok_or(list.clone())
        })
        .await
    }

    /// Cordons a node, and waits until the scheduler knows.
    pub async fn cordon(&self, node: &str) {
        let namespace = self.server().namespace("cordon").await;
        scheduling::cordon(&self.server().client(), &namespace, node).await;
    }

    /// A namespace in which Pods with label `tier: web` get a sidecar, once admission knows it.
    pub async fn namespace_with_sidecars(&self, prefix: &str) -> String {
        let namespace = self.server().namespace(prefix).await;
        let set = sidecar_set(&format!("set-{namespace}"))
            .matching("tier", "web")
            .with(
                "/spec/namespaceSelector",
                json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}}),
            )
            .container("sidecar", "busybox:1.36")
            .having("command", json!(["sleep", "infinity"]));
        objects::create(&self.server().client(), set).await.unwrap();
        wait_for("both replicas to know the SidecarSet", async || {
            for _ in 0..10 {
                let answer = self.try_pod(&namespace).await?;
                if !injected(&answer) {
                    return Err("a Pod came back without its sidecar".to_owned());
                }
            }
            Ok(())
        })
        .await;
        namespace
    }

    /// Creates a Pod with label `tier: web` for a trial: what it would become.
    pub async fn try_pod(&self, namespace: &str) -> Result<Value, String> {
        let words = ["create", "--dry-run=server", "--output=json", "--filename=-"];
        let output = self.server().kubectl_with_input(words, &trial(namespace).to_string()).await;
        if !output.status.success() {
            return Err(output.stderr);
        }
        serde_json::from_str(&output.stdout).map_err(|error| error.to_string())
    }

    /// What our own account asked of the API server: one JSON object for each request.
    pub fn audit(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(audit_directory().path().join(AUDIT_LOG)).unwrap_or_default();
        // The last line may be half written.
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// A Pod that a SidecarSet of [`Site::namespace_with_sidecars`] matches.
pub fn trial(namespace: &str) -> Value {
    pod("trial").in_namespace(namespace).label("tier", "web").container("main", "nginx:1.25").build()
}

/// Whether a Pod has the sidecar.
pub fn injected(pod: &Value) -> bool {
    pod["spec"]["containers"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "sidecar"))
}

/// A CloneSet that wants no Pods.
pub fn clone_set(namespace: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}});
    object("apps.kruise.io/v1alpha1", "CloneSet", "web")
        .in_namespace(namespace)
        .with(
            "/spec",
            json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}),
        )
        .build()
}

/// The chart's folder.
pub fn chart() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts/kutter")
}
