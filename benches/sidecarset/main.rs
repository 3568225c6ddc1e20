//! `bench-sidecarset`: what the controller of SidecarSets costs. It rolls the sidecar of 100, 1,000 and
//! 5,000 Pods on fake nodes, and reads the CPU time and the memory of the program and its calls from the
//! audit log of the API server.
//!
//! Whatever goes wrong panics: a bench that could not measure has no result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "bench: a failure ends the measurement"
)]

mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::{StreamExt, stream};
use kit::builders::{pod, sidecar_set};
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_within};
use program::Program;
use serde_json::{Value, json};

const INSTALL_NAMESPACE: &str = "kruise-system";
const WRITERS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(900);
/// Cost per Pod may grow that much from one size to the next.
const GROWTH: f64 = 1.2;
/// Leases are renewed and watches end whatever there is to do.
const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
  verbs: [get, list, create, update, patch, delete, deletecollection]
"#;

/// Bench of Kutter's controller of SidecarSets
#[derive(Parser)]
struct Arguments {
    /// The program to measure, built with --release
    #[arg(long)]
    kutter: PathBuf,
    /// Numbers of Pods, from small to large
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000")]
    pods: Vec<usize>,
}

fn main() {
    let arguments = Arguments::parse();
    kit::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(&arguments));
}

struct Bench {
    server: ApiServer,
    port: u16,
    directory: tempfile::TempDir,
    kutter: PathBuf,
}

/// What a rollout cost, per Pod.
struct Cost {
    microseconds: f64,
    calls: f64,
}

async fn measure(arguments: &Arguments) {
    let bench = Bench::start(&arguments.kutter).await;
    let mut program = bench.program("first").await;
    bench.wait_registered().await;
    program.stop();
    // A process that served nothing yet, without Pods and with all of them.
    program = bench.program("empty").await;
    let empty = program.memory();
    let mut costs: Vec<(usize, Cost)> = Vec::new();
    for &count in &arguments.pods {
        let cost = bench.roll(&program, count).await;
        figure(&format!("sidecarset-roll-{count}-cpu-per-pod"), cost.microseconds, "us", None);
        figure(&format!("sidecarset-roll-{count}-calls-per-pod"), cost.calls, "calls", Some(2.5));
        if let Some((before, previous)) = costs.last() {
            let growth = cost.microseconds / previous.microseconds;
            figure(&format!("sidecarset-roll-cpu-growth-{before}-{count}"), growth, "x", Some(GROWTH));
        }
        costs.push((count, cost));
    }
    program.stop();
    let program = bench.program("full").await;
    let total: usize = arguments.pods.iter().sum();
    let grown = program.memory().saturating_sub(empty);
    figure("sidecarset-memory-per-cached-pod", grown as f64 / total as f64, "bytes", Some(3000.0));
    program.stop();
}

impl Bench {
    async fn start(kutter: &Path) -> Self {
        progress("starting an API server");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let policy = directory.path().join("audit.yaml");
        fs::write(&policy, AUDIT_POLICY).expect("the policy can be written");
        let log = directory.path().join("audit.log");
        let options = kit::Options::default()
            .argument(&format!("--audit-policy-file={}", policy.display()))
            .argument(&format!("--audit-log-path={}", log.display()));
        let server = ApiServer::start(options).await;
        let crds = std::process::Command::new(kutter).arg("crds").output().expect("kutter runs");
        let crds = String::from_utf8(crds.stdout).expect("YAML");
        server.kubectl_with_input(["apply", "--server-side", "-f", "-"], &crds).await.success();
        server.kubectl(["create", "namespace", INSTALL_NAMESPACE]).await.success();
        let port = kit::api_server::free_port();
        server.route_service(INSTALL_NAMESPACE, "kruise-webhook-service", port).await;
        Self { server, port, directory, kutter: kutter.to_owned() }
    }

    /// The program, leading and with its caches filled.
    async fn program(&self, name: &str) -> Program {
        let log = self.directory.path().join(format!("{name}.log"));
        let program = Program::start(&self.kutter, self.port, self.server.kubeconfig(), &log);
        program.wait_leading().await;
        program.wait_quiet().await;
        program
    }

    async fn wait_registered(&self) {
        let set = sidecar_set("trial").matching("app", "trial").container("trial", "busybox:1").build();
        let client = self.server.client();
        wait_within(PATIENCE, "the webhooks to be called", async || {
            let created =
                kit::objects::create(&client, set.clone()).await.map_err(|error| error.to_string())?;
            let defaulted = created.metadata.annotations.is_some();
            self.server.kubectl(["delete", "sidecarset", "trial"]).await.success();
            if defaulted { Ok(()) } else { Err("not defaulted".to_owned()) }
        })
        .await;
    }

    async fn status(&self, set: &str) -> (bool, Value) {
        let text = self.server.kubectl(["get", "sidecarset", set, "--output=json"]).await.success();
        let set: Value = serde_json::from_str(&text).expect("JSON");
        (set["status"]["observedGeneration"] == set["metadata"]["generation"], set["status"].clone())
    }

    async fn wait_status(&self, set: &str, field: &str, count: usize) {
        wait_within(PATIENCE, &format!("{field} to be {count}"), async || {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let (observed, status) = self.status(set).await;
            if observed && status[field] == count { Ok(()) } else { Err(status) }
        })
        .await;
    }

    /// Rolls the sidecar of `count` Pods.
    async fn roll(&self, program: &Program, count: usize) -> Cost {
        progress(&format!("{count} Pods: creating"));
        let client = self.server.client();
        let namespace = self.server.namespace("roll").await;
        let options = fake_nodes::Options::nodes(10).in_namespace(&namespace).binding_pods();
        let _nodes = FakeNodes::start(client.clone(), options).await;
        let set = format!("roll-{count}");
        let manifest = sidecar_set(&set)
            .matching("app", "web")
            .with("/spec/namespaceSelector/matchLabels", json!({"kubernetes.io/metadata.name": namespace}))
            .with("/spec/updateStrategy", json!({"maxUnavailable": "20%"}))
            .container("log", "registry.example.com/platform/log-shipper:3.1.7");
        kit::objects::create(&client, manifest).await.expect("the SidecarSet can be created");
        let injected = |pod: &kube::api::DynamicObject| pod.data["spec"]["containers"][1].is_object();
        wait_within(PATIENCE, "injection", async || {
            let trial = kit::objects::create(&client, web(&namespace, "trial")).await.expect("a Pod");
            self.server
                .kubectl(["delete", "pod", "trial", "--namespace", &namespace, "--now"])
                .await
                .success();
            if injected(&trial) { Ok(()) } else { Err("no sidecar") }
        })
        .await;
        let start = Instant::now();
        stream::iter(0..count)
            .for_each_concurrent(WRITERS, |number| {
                let (client, manifest) = (client.clone(), web(&namespace, &format!("web-{number:05}")));
                async move { drop(kit::objects::create(&client, manifest).await.expect("a Pod can be created")) }
            })
            .await;
        self.wait_status(&set, "readyPods", count).await;
        program.wait_quiet().await;
        progress(&format!("{count} Pods: ready after {:.0} s; rolling", start.elapsed().as_secs_f64()));

        let (cpu, calls, start) = (program.cpu(), self.calls(), Instant::now());
        let patch = r#"[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example.com/platform/log-shipper:3.1.8"}]"#;
        let words = ["patch", "sidecarset", &set, "--type=json", "--patch", patch];
        self.server.kubectl(words).await.success();
        self.wait_status(&set, "updatedReadyPods", count).await;
        program.wait_quiet().await;
        let (cpu, calls) = (program.cpu().saturating_sub(cpu), self.calls() - calls);
        progress(&format!("{count} Pods: rolled in {:.0} s", start.elapsed().as_secs_f64()));
        Cost { microseconds: cpu.as_secs_f64() * 1e6 / count as f64, calls: calls as f64 / count as f64 }
    }

    /// How many calls the controllers have made so far.
    fn calls(&self) -> usize {
        let log =
            fs::read_to_string(self.directory.path().join("audit.log")).expect("the audit log is there");
        log.lines().filter(|line| line.contains(r#""userAgent":"kruise-manager/controllers"#)).count()
    }
}

fn web(namespace: &str, name: &str) -> Value {
    pod(name)
        .in_namespace(namespace)
        .label("app", "web")
        .label("pod-template-hash", "6d4b75cb6d")
        .annotation("example.com/owner", "team-shop")
        .container("checkout", "registry.example.com/shop/checkout:2.41.0")
        .env("LOG_LEVEL", "info")
        .build()
}

/// Prints `figure NAME VALUE UNIT goal GOAL`; smaller is better. No goal prints as `-`.
fn figure(name: &str, value: f64, unit: &str, goal: Option<f64>) {
    let goal = goal.map_or("-".to_owned(), |goal| goal.to_string());
    println!("figure {name} {} {unit} goal {goal}", (value * 1000.0).round() / 1000.0);
}

/// Says what is going on, beside the figures.
fn progress(text: &str) {
    eprintln!("# {text}");
}
