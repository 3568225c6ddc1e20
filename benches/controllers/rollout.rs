//! What the controller of a kind of workload costs: what is done to a workload on fake nodes, step by step, and the
//! calls, the CPU time and the time per Pod that each step takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, progress};
use benches::stand::{GROWTH, Stand, kind_of};
use kit::builders::{Object, workload};
use kit::fake_nodes::{self, FakeNodes};
use serde_json::{Value, json};

const OLD: &str = "registry.example.com/shop/checkout:2.41.0";
const NEW: &str = "registry.example.com/shop/checkout:2.42.0";
/// Nodes of workloads that have no Pod on each of them.
const NODES: usize = 10;
/// The label of the Nodes of one run.
const RUN: &str = "example.com/run";
/// Kubelets that report.
const HEARTBEATS: usize = 500;
/// The most memory that a leader may have, in megabytes.
const MEMORY: f64 = 60.0;
/// The most writes of Events per Pod: their number depends on time, not on Pods.
const EVENTS: f64 = 0.1;

/// A kind of workload with settings, and what is done to it.
pub(crate) struct Subject {
    /// What its figures begin with.
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// It has a Pod on each Node, so that there are as many Nodes as Pods.
    pub(crate) has_pod_per_node: bool,
    /// Its controller has looked at it, by its status.
    pub(crate) is_known: fn(&Value) -> bool,
    /// A step is done, by its spec and its status, for so many Pods.
    pub(crate) is_done: fn(&Value, &Value, usize) -> bool,
    /// Completes its manifest.
    pub(crate) refine: fn(Object) -> Object,
    pub(crate) steps: &'static [Step],
}

/// What is done to the workload at a time.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) change: Change,
    /// The most writes per Pod beside its creation.
    pub(crate) writes: f64,
    /// The longest time per Pod, in milliseconds.
    pub(crate) time: Option<f64>,
}

/// A workload with revisions is known by that of its update.
pub(crate) fn has_update_revision(status: &Value) -> bool {
    !status["updateRevision"].is_null()
}

/// All replicas of a workload are updated and available.
pub(crate) fn has_all_replicas(spec: &Value, status: &Value, count: usize) -> bool {
    status["updatedAvailableReplicas"] == count
        && spec["replicas"] == count
        && status["currentRevision"] == status["updateRevision"]
}

/// A change of its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// From no Pods to all.
    Scale,
    /// The image of a container, which is updated in place.
    Image,
    /// A variable, which can't be changed in place.
    Variable,
}

impl Change {
    fn doing(self) -> &'static str {
        match self {
            Self::Scale => "creating",
            Self::Image => "updating in place",
            Self::Variable => "recreating",
        }
    }

    fn patch(self, subject: &Subject, count: usize, run: &str) -> Value {
        let (field, value) = match self {
            Self::Scale if subject.has_pod_per_node => ("template/spec/nodeSelector", json!({RUN: run})),
            Self::Scale => ("replicas", json!(count)),
            Self::Image => ("template/spec/containers/0/image", json!(NEW)),
            Self::Variable => ("template/spec/containers/0/env/0/value", json!("debug")),
        };
        json!([{"op": "replace", "path": format!("/spec/{field}"), "value": value}])
    }
}

/// What one step cost.
struct Cost {
    pods: usize,
    cpu: Duration,
    took: Duration,
    calls: Vec<Value>,
}

/// Measures with these numbers of Pods, from small to large.
pub(crate) async fn measure(stand: &Stand, program: &Program, subject: &Subject, pods: &[usize]) {
    let mut last: Option<Vec<Cost>> = None;
    for &count in pods {
        let costs = run(stand, program, subject, count).await;
        for (cost, step) in costs.iter().zip(subject.steps) {
            cost.report(subject, step);
        }
        if let Some(last) = &last {
            for ((cost, before), step) in costs.iter().zip(last).zip(subject.steps) {
                let growth = cost.cpu_per_pod() / before.cpu_per_pod();
                let name = format!("{}-{}-cpu-growth-{}-{count}", subject.name, step.name, before.pods);
                figure(&name, growth, "x", Some(GROWTH));
            }
        }
        let peak = program.memory(Memory::Peak) as f64 / 1e6;
        figure(&format!("{}-{count}-peak-memory", subject.name), peak, "MB", Some(MEMORY));
        last = Some(costs);
    }
}

/// Takes a new workload, which is to have `count` Pods, through the steps.
async fn run(stand: &Stand, program: &Program, subject: &Subject, count: usize) -> Vec<Cost> {
    let namespace = stand.server().namespace("bench").await;
    let client = stand.server().client();
    let machines = if subject.has_pod_per_node { count } else { NODES };
    let mut options = fake_nodes::Options::nodes(machines).in_namespace(&namespace).binding_pods();
    for index in 0..machines {
        options = options.label(index, RUN, &namespace);
    }
    let nodes = FakeNodes::start(client.clone(), options).await;
    let set = workload("apps.kruise.io/v1beta1", subject.kind, "web").in_namespace(&namespace);
    // The Nodes of earlier runs are still there.
    let set = match subject.has_pod_per_node {
        true => set.with("/spec/template/spec/nodeSelector", json!({RUN: "none-yet"})),
        false => set.replicas(0),
    };
    let set = set
        .matching("app", "web")
        .template_annotation("example.com/owner", "team-shop")
        .container("checkout", OLD)
        .env("LOG_LEVEL", "info")
        .container("log", "registry.example.com/platform/log-shipper:3.1.7");
    kit::objects::create(&client, (subject.refine)(set)).await.expect("the workload can be created");
    let resource = format!("{}.apps.kruise.io", subject.plural);
    let object = [resource.as_str(), "web", "--namespace", &namespace];
    stand.wait_status(&object, |_, status| (subject.is_known)(status)).await;

    let mut costs = Vec::new();
    for step in subject.steps {
        let patch = format!("--patch={}", step.change.patch(subject, count, &namespace));
        let words: Vec<&str> = ["patch", "--type=json", &patch].iter().chain(&object).copied().collect();
        program.wait_quiet().await;
        progress(&format!("{}, {count} Pods: {}", subject.name, step.change.doing()));
        let (cpu, before, start) = (program.cpu(), stand.calls().len(), Instant::now());
        stand.server().kubectl(words).await.success();
        stand.wait_status(&object, |spec, status| (subject.is_done)(spec, status, count)).await;
        let took = start.elapsed();
        program.wait_quiet().await;
        let calls = stand.calls().split_off(before);
        costs.push(Cost { pods: count, cpu: program.cpu().saturating_sub(cpu), took, calls });
    }
    if subject.has_pod_per_node {
        report_heartbeats(stand, program, subject, nodes.names()).await;
    }
    costs
}

/// What it costs that kubelets report.
async fn report_heartbeats(stand: &Stand, program: &Program, subject: &Subject, nodes: &[String]) {
    let name = format!("{}-heartbeat-{}", subject.name, nodes.len());
    let client = stand.server().client();
    let nodes = nodes.iter().take(HEARTBEATS);
    program.wait_quiet().await;
    let (cpu, before) = (program.cpu(), stand.calls().len());
    for node in nodes {
        let condition =
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"});
        let body = json!({"status": {"conditions": [condition]}});
        let request = http::Request::patch(format!("/api/v1/nodes/{node}/status"))
            .header("content-type", "application/strategic-merge-patch+json")
            .body(body.to_string().into_bytes())
            .expect("a request");
        client.request_text(request).await.expect("a Node can be patched");
    }
    program.wait_quiet().await;
    figure(&format!("{name}-calls"), (stand.calls().len() - before) as f64, "calls", Some(0.0));
    let cost = program.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / HEARTBEATS as f64;
    figure(&format!("{name}-cpu"), cost, "us", None);
}

/// Whether the API server refused a call, as after a change by others.
pub(crate) fn is_refused(call: &Value) -> bool {
    call["responseStatus"]["code"].as_u64().is_some_and(|code| code >= 400)
}

impl Cost {
    fn cpu_per_pod(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.pods as f64
    }

    fn report(&self, subject: &Subject, step: &Step) {
        let name = format!("{}-{}-{}", subject.name, step.name, self.pods);
        let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
        for call in &self.calls {
            *counts.entry((kind_of(call), is_refused(call))).or_default() += 1;
        }
        progress(&format!("{name}: {counts:?}"));
        let mut count = |kinds: &[&str], refused: bool| {
            let taken = kinds.iter().filter_map(|kind| counts.remove(&((*kind).to_owned(), refused)));
            taken.sum::<usize>() as f64
        };
        let (pods, seconds) = (self.pods as f64, self.took.as_secs_f64());
        const WRITES: [&str; 4] = ["patch pods", "patch pods/status", "patch pods/resize", "delete pods"];
        let per_pod = |what: &str, calls: f64, goal| {
            figure(&format!("{name}-{what}-per-pod"), calls / pods, "calls", goal);
        };
        per_pod("creates", count(&["create pods"], false), Some(1.0));
        per_pod("writes", count(&WRITES, false), Some(step.writes));
        per_pod("refused-writes", count(&WRITES, true), None);
        per_pod("events", count(&["create events", "patch events"], false), Some(EVENTS));
        let status = count(&[&format!("patch {}/status", subject.plural)], false) / seconds;
        figure(&format!("{name}-status-writes-per-second"), status, "calls", None);
        figure(&format!("{name}-other-calls"), counts.values().sum::<usize>() as f64, "calls", None);
        figure(&format!("{name}-cpu-per-pod"), self.cpu_per_pod(), "us", None);
        figure(&format!("{name}-time"), seconds, "s", None);
        figure(&format!("{name}-time-per-pod"), seconds * 1e3 / pods, "ms", step.time);
    }
}
