//! The cluster that all tests share, and the chart in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::builders::{object, pod, sidecar_set};
use kit::{ApiServer, Cluster, Image, Options, Output, objects, scheduling, wait_for, wait_within};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The install namespace of the chart's defaults.
pub const NAMESPACE: &str = "kruise-system";
/// The Helm release.
pub const RELEASE: &str = "kutter";
/// How long tests wait for rollouts and whatever else takes several containers: far more than it takes.
/// kubectl and Helm have the same time where they wait.
pub const TIMEOUT: Duration = Duration::from_secs(240);
/// Arguments that make an installation of this build.
pub const VALUES: [&str; 7] = [
    "--set=manager.image.tag=test",
    // The API server learns late on a busy machine that a replica ends.
    "--set=manager.drainSeconds=20",
    "--set=featureGates=ResourcesDeletionProtection=true\\,SidecarTerminator=true\\,PreDownloadImageForInPlaceUpdate=true\\,InPlaceWorkloadVerticalScaling=true\\,StatefulSetAutoResizePVCGate=true\\,RestartOnConfiguration=true",
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

/// Tests that share the cluster read, and one that has it alone writes. The lock is fair: nobody overtakes who waits.
static TURNS: RwLock<()> = RwLock::const_new(());
/// Whether the chart is as [`VALUES`] say. Held by the test that installs it; the others that share the cluster wait
/// for that.
static IS_INSTALLED: Mutex<bool> = Mutex::const_new(false);

/// The cluster, for as long as one test uses it.
pub struct Site {
    cluster: &'static Cluster,
    client: Client,
    _turn: Turn,
}

enum Turn {
    Shared { _turn: RwLockReadGuard<'static, ()> },
    Alone { _turn: RwLockWriteGuard<'static, ()> },
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

/// Whether there can't be nodes; says so.
fn is_skipped() -> bool {
    let is_skipped = !kit::cluster::can_run();
    if is_skipped {
        // Past the harness, which shows what tests print only of those that fail.
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let skip = format!("skipped {test}: real nodes need root\n");
        std::io::stderr().write_all(skip.as_bytes()).unwrap();
    }
    is_skipped
}

impl Site {
    /// Shares the cluster with other tests, with the chart installed as [`VALUES`] say and its webhooks in use; `None`
    /// where there can't be nodes.
    ///
    /// What such a test makes lies in namespaces of its own, or has a name that no other test uses and concerns these
    /// namespaces alone. It leaves nodes, the chart and its Pods as they are, counts nothing that others make, and
    /// bears that it gets less of the processor than it would like.
    pub async fn installed() -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let site = Self::enter(Turn::Shared { _turn: TURNS.read().await }).await;
        let mut is_installed = IS_INSTALLED.lock().await;
        if !*is_installed {
            site.install().await;
            *is_installed = true;
        }
        Some(site)
    }

    /// Has the cluster alone, with the chart installed as [`installed`](Self::installed) does.
    pub async fn alone() -> Option<Self> {
        let site = Self::as_found().await?;
        site.install().await;
        Some(site)
    }

    /// Has the cluster alone, with the chart as earlier tests left it; `None` where there can't be nodes.
    pub async fn as_found() -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let site = Self::enter(Turn::Alone { _turn: TURNS.write().await }).await;
        // However this test ends, it may leave another chart than it found.
        *IS_INSTALLED.lock().await = false;
        Some(site)
    }

    async fn enter(turn: Turn) -> Self {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        let cluster = CLUSTER.get_or_init(start).await;
        Self { cluster, client: cluster.server().client(), _turn: turn }
    }

    /// Brings the chart to what [`VALUES`] say and waits until its webhooks are in use.
    pub async fn install(&self) {
        let output = self.upgrade(&[]).await;
        if !output.status.success() {
            let events = self.kubectl(&format!("get events -n {NAMESPACE} --sort-by=.lastTimestamp")).await;
            panic!("the chart can't be installed: {}\n{}", output.stderr, events.stdout);
        }
        self.wait_in_use().await;
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

    /// What the API server has at a path, such as `/api/v1/nodes`. kubectl, which is a process each time, would be
    /// most of what a test that waits costs.
    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// [`get`](Self::get), of Kubernetes' first group in a namespace: `pods/web`, or `pods?labelSelector=app=web`.
    pub async fn core(&self, namespace: &str, what: &str) -> Value {
        self.get(&format!("/api/v1/namespaces/{namespace}/{what}")).await
    }

    /// [`get`](Self::get), of group `apps.kruise.io` in a namespace: `clonesets/web`.
    pub async fn kruise(&self, namespace: &str, what: &str) -> Value {
        self.get(&format!("/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/{what}")).await
    }

    /// What a container has printed, or its predecessor; each line begins with its time.
    pub async fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> String {
        let pod = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let path = format!("{pod}/log?container={container}&previous={previous}&timestamps=true");
        let request = Request::get(&path).body(Vec::new()).unwrap();
        self.client.request_text(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
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
        let mut names = Vec::new();
        for kind in ["mutating", "validating"] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
            let list = self.get(&path).await;
            let configurations = list["items"].as_array().unwrap().iter();
            let entries = configurations
                .flat_map(|configuration| configuration["webhooks"].as_array().into_iter().flatten());
            names.extend(entries.map(|entry| entry["name"].as_str().unwrap().to_owned()));
        }
        names
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

    /// Waits until the server has registered itself, and the API server calls it.
    pub async fn wait_in_use(&self) {
        self.wait_registered().await;
        let set = || sidecar_set("in-use").container("main", "busybox:1.36");
        wait_for("the webhooks to be called", async || {
            // It has no selector: the last word is that of the validation, the hash comes from the defaulting.
            match self.try_create(&set().build()).await {
                Err(refusal) if refusal.contains("no selector defined") => {}
                answer => return Err(answer),
            }
            match self.try_create(&set().matching("in", "use").build()).await {
                Ok(set) if !set["metadata"]["annotations"]["kruise.io/sidecarset-hash"].is_null() => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }

    /// The Pods of the program that are not being deleted.
    pub async fn replicas(&self, namespace: &str) -> Vec<Value> {
        let list = self.core(namespace, "pods?labelSelector=control-plane=controller-manager").await;
        let all = list["items"].as_array().unwrap().iter();
        all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).cloned().collect()
    }

    /// The Pod of the agent on a node.
    pub async fn agent(&self, node: &str) -> Value {
        wait_for("the agent", async || {
            let runs = format!("fieldSelector=spec.nodeName={node},status.phase=Running");
            let list = self.core(NAMESPACE, &format!("pods?labelSelector=control-plane=daemon&{runs}")).await;
            let mut agents = list["items"].as_array().unwrap().iter();
            let agent = agents.find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            agent.cloned().ok_or(list.clone())
        })
        .await
    }

    /// Cordons a node, and waits until the scheduler knows.
    pub async fn cordon(&self, node: &str) {
        let namespace = self.server().namespace("cordon").await;
        scheduling::cordon(&self.client, &namespace, node).await;
    }

    /// Uncordons a node, and waits until the scheduler knows.
    pub async fn uncordon(&self, node: &str) {
        let namespace = self.server().namespace("uncordon").await;
        scheduling::uncordon(&self.client, &namespace, node).await;
    }

    /// Gives a node a label that no other has, and waits until the scheduler knows.
    pub async fn label(&self, node: &str, key: &str, value: &str) {
        self.kubectl(&format!("label node {node} {key}={value}")).await.success();
        let namespace = self.server().namespace("label").await;
        scheduling::placed(&self.client, &namespace, &json!({key: value})).await;
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
        objects::create(&self.client, set).await.unwrap();
        self.wait_injected(&trial(&namespace)).await;
        namespace
    }

    /// Waits until the API server and both replicas give a Pod its sidecars.
    pub async fn wait_injected(&self, pod: &Value) {
        wait_within(TIMEOUT, "the SidecarSet to be known", async || {
            for response in self.reviews("/mutate-pod", pod).await? {
                let patch = STANDARD.decode(response["patch"].as_str().unwrap_or_default()).unwrap();
                if !String::from_utf8_lossy(&patch).contains("sidecarset-injected-list") {
                    return Err(response.to_string());
                }
            }
            let pod = self.try_create(pod).await?;
            let list = &pod["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"];
            if list.is_null() { Err(pod.to_string()) } else { Ok(()) }
        })
        .await;
    }

    /// Waits until both replicas know a WorkloadSpread: they would refuse a second one of its target.
    pub async fn wait_known_spread(&self, second: &Value) {
        wait_within(TIMEOUT, "both replicas to know the WorkloadSpread", async || {
            for response in self.reviews("/validate-apps-kruise-io-workloadspread", second).await? {
                let message = response["status"]["message"].as_str().unwrap_or_default();
                if !message.contains("in conflict with other WorkloadSpread") {
                    return Err(response.to_string());
                }
            }
            Ok(())
        })
        .await;
    }

    /// What both replicas, asked themselves, answer to the creation of an object for a trial. The API server would ask
    /// one of them time and again: it keeps its connections.
    pub async fn reviews(&self, path: &str, object: &Value) -> Result<Vec<Value>, String> {
        let replicas = self.replicas(NAMESPACE).await;
        if replicas.len() != 2 {
            return Err(format!("{} replicas", replicas.len()));
        }
        let text = |field: &str| object[field].as_str().unwrap();
        let resource = objects::kind(text("apiVersion"), text("kind"));
        let (group, version) = (resource.group, resource.version);
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "trial", "operation": "CREATE", "dryRun": true,
                "kind": {"group": group, "version": version, "kind": resource.kind},
                "resource": {"group": group, "version": version, "resource": resource.plural},
                "namespace": object["metadata"]["namespace"], "userInfo": {"username": "tester"},
                "object": object,
            },
        });
        let mut responses = Vec::new();
        let segments =
            objects::secret_text(&self.client, NAMESPACE, "kruise-webhook-certs", "path-segments").await;
        let segment = segments.split(' ').next().unwrap();
        for replica in &replicas {
            let name = replica["metadata"]["name"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/https:{name}:9876/proxy/{segment}{path}");
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(review.to_string().into_bytes()).unwrap();
            let answer: Value = self.client.request(request).await.map_err(|error| error.to_string())?;
            responses.push(answer["response"].clone());
        }
        Ok(responses)
    }

    /// Creates a Pod with label `tier: web` for a trial: what it would become.
    pub async fn try_pod(&self, namespace: &str) -> Result<Value, String> {
        self.try_create(&trial(namespace)).await
    }

    /// Creates an object for a trial: what it would become.
    async fn try_create(&self, object: &Value) -> Result<Value, String> {
        let created = objects::try_create(&self.client, object.clone()).await;
        created.map(|object| serde_json::to_value(object).unwrap()).map_err(|error| error.to_string())
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
