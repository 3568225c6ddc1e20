//! What the controller of CloneSets costs: 0 to 500, 1,000 and 5,000 Pods, and all of them updated in place and
//! then recreated with `maxUnavailable: 10%`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use benches::report::{figure, progress};
use kit::builders::workload;
use kit::fake_nodes::{self, FakeNodes};
use serde_json::{Value, json};

use crate::program::{Memory, Program};
use crate::stand::{GROWTH, Stand, kind_of};

const OLD: &str = "registry.example.com/shop/checkout:2.41.0";
const NEW: &str = "registry.example.com/shop/checkout:2.42.0";
/// The most memory that a leader may have, in megabytes.
const MEMORY: f64 = 60.0;
/// The most writes of Events per Pod: their number depends on time, not on Pods.
const EVENTS: f64 = 0.1;

/// What is done to the CloneSet.
struct Step {
    name: &'static str,
    /// The most writes per Pod beside its creation.
    writes: f64,
    /// The longest time per Pod, in milliseconds: half of what OpenKruise took for 500 Pods on such a stand.
    time: Option<f64>,
}

/// A created Pod gets all its conditions in one write; one that is updated in place takes three; one that is
/// recreated is marked and deleted besides.
const STEPS: [Step; 3] = [
    Step { name: "scale", writes: 1.0, time: None },
    Step { name: "roll", writes: 3.0, time: None },
    Step { name: "recreate", writes: 3.0, time: Some(68.0) },
];

/// What one step cost.
struct Cost {
    pods: usize,
    cpu: Duration,
    took: Duration,
    calls: Vec<Value>,
}

/// Measures with these numbers of Pods, from small to large.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let program = stand.program("cloneset").await;
    let mut last: Option<[Cost; 3]> = None;
    for &count in pods {
        let costs = run(stand, &program, count).await;
        for (cost, step) in costs.iter().zip(&STEPS) {
            cost.report(step);
        }
        if let Some(last) = &last {
            for ((cost, before), step) in costs.iter().zip(last).zip(&STEPS) {
                let growth = cost.cpu_per_pod() / before.cpu_per_pod();
                let name = format!("cloneset-{}-cpu-growth-{}-{count}", step.name, before.pods);
                figure(&name, growth, "x", Some(GROWTH));
            }
        }
        let peak = program.memory(Memory::Peak) as f64 / 1e6;
        figure(&format!("cloneset-{count}-peak-memory"), peak, "MB", Some(MEMORY));
        last = Some(costs);
    }
    program.stop();
}

/// Scales a new CloneSet from 0 to `count` Pods, updates them in place and recreates them.
async fn run(stand: &Stand, program: &Program, count: usize) -> [Cost; 3] {
    let namespace = stand.server().namespace("bench").await;
    let client = stand.server().client();
    let options = fake_nodes::Options::nodes(10).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(client.clone(), options).await;
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
        .in_namespace(&namespace)
        .matching("app", "web")
        .replicas(0)
        .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
        .template_annotation("example.com/owner", "team-shop")
        .container("checkout", OLD)
        .env("LOG_LEVEL", "info")
        .container("log", "registry.example.com/platform/log-shipper:3.1.7");
    kit::objects::create(&client, set).await.expect("the CloneSet can be created");
    let object = ["cloneset", "web", "--namespace", &namespace];
    stand.wait_status(&object, |_, status| !status["updateRevision"].is_null()).await;

    let change = async |what: &str, patch: Value| {
        let patch = format!("--patch={patch}");
        let words: Vec<&str> = ["patch", "--type=json", &patch].iter().chain(&object).copied().collect();
        program.wait_quiet().await;
        progress(&format!("{count} Pods: {what}"));
        let (cpu, before, start) = (program.cpu(), stand.calls().len(), Instant::now());
        stand.server().kubectl(words).await.success();
        stand
            .wait_status(&object, |spec, status| {
                status["updatedAvailableReplicas"] == count
                    && spec["replicas"] == count
                    && status["currentRevision"] == status["updateRevision"]
            })
            .await;
        let took = start.elapsed();
        program.wait_quiet().await;
        let calls = stand.calls().split_off(before);
        Cost { pods: count, cpu: program.cpu().saturating_sub(cpu), took, calls }
    };
    let replicas = json!([{"op": "replace", "path": "/spec/replicas", "value": count}]);
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": NEW}]);
    // A variable can't be changed in place.
    let variable =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/env/0/value", "value": "debug"}]);
    [
        change("creating", replicas).await,
        change("updating in place", image).await,
        change("recreating", variable).await,
    ]
}

/// Whether the API server refused a call, as after a change by others.
fn is_refused(call: &Value) -> bool {
    call["responseStatus"]["code"].as_u64().is_some_and(|code| code >= 400)
}

impl Cost {
    fn cpu_per_pod(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.pods as f64
    }

    fn report(&self, step: &Step) {
        let name = format!("cloneset-{}-{}", step.name, self.pods);
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
        let status = count(&["patch clonesets/status"], false) / seconds;
        figure(&format!("{name}-status-writes-per-second"), status, "calls", None);
        figure(&format!("{name}-other-calls"), counts.values().sum::<usize>() as f64, "calls", None);
        figure(&format!("{name}-cpu-per-pod"), self.cpu_per_pod(), "us", None);
        figure(&format!("{name}-time"), seconds, "s", None);
        figure(&format!("{name}-time-per-pod"), seconds * 1e3 / pods, "ms", step.time);
    }
}
