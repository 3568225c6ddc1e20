//! What the controller of UnitedDeployments costs beside those of its workloads: three CloneSets get their Pods, and these
//! are updated in place with `maxUnavailable: 10%`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, median, progress};
use benches::stand::{Stand, kind_of};
use kit::builders::object;
use kit::fake_nodes::{self, FakeNodes};
use serde_json::{Value, json};

const OLD: &str = "registry.example.com/shop/checkout:2.41.0";
const NEW: &str = "registry.example.com/shop/checkout:2.42.0";
const NODES: usize = 10;
/// The most calls per Pod.
const CALLS: f64 = 0.05;

/// How long the plugin may take to start, in milliseconds.
const START: f64 = 50.0;

/// Measures with these numbers of Pods.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    start_plugin(stand);
    let program = stand.program("uniteddeployment").await;
    for &count in pods {
        run(stand, &program, count).await;
    }
    let peak = program.memory(Memory::Peak) as f64 / 1e6;
    figure("united-peak-memory", peak, "MB", None);
    program.stop();
}

/// How long the plugin takes for what needs no cluster.
fn start_plugin(stand: &Stand) {
    let plugin = stand.named("kubectl-kruise");
    let times = (0..20).map(|_| {
        let start = Instant::now();
        let output = Command::new(&plugin).args(["version", "--client"]).output().expect("the plugin starts");
        assert!(output.status.success(), "the plugin failed");
        start.elapsed().as_secs_f64() * 1e3
    });
    figure("plugin-start", median(times), "ms", Some(START));
}

async fn run(stand: &Stand, program: &Program, count: usize) {
    let namespace = stand.server().namespace("united").await;
    let options = fake_nodes::Options::nodes(NODES).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(stand.server().client(), options).await;
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "checkout", "image": OLD}]);
    let rolling = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"}});
    let set = json!({"selector": {"matchLabels": labels}, "updateStrategy": rolling,
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}});
    let subsets = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "topology": {"subsets": subsets},
        "template": {"cloneSetTemplate": {"metadata": {"labels": labels}, "spec": set}}});
    let united = object("apps.kruise.io/v1beta1", "UnitedDeployment", "web").in_namespace(&namespace);
    stand.create([united.with("/spec", spec)]).await;
    let name = ["uniteddeployment", "web", "--namespace", &namespace];
    stand
        .wait_status(&name, |_, status| status["subsetStatuses"].as_array().is_some_and(|all| all.len() == 3))
        .await;
    let image = "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image";
    for (step, path, value) in [("scale", "/spec/replicas", json!(count)), ("roll", image, json!(NEW))] {
        program.wait_quiet().await;
        progress(&format!("united, {count} Pods: {step}"));
        let (cpu, before, start) = (program.cpu(), stand.calls().len(), Instant::now());
        let patch = format!("--patch={}", json!([{"op": "replace", "path": path, "value": value}]));
        stand.server().kubectl(["patch", "--type=json", &patch].into_iter().chain(name)).await.success();
        stand
            .wait_status(&name, |_, status| {
                status["updatedReadyReplicas"] == count
                    && status["updatedRevision"] == status["currentRevision"]
            })
            .await;
        let took = start.elapsed().as_secs_f64();
        program.wait_quiet().await;
        report(&format!("united-{step}-{count}"), count, &stand.calls().split_off(before));
        let cpu = program.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / count as f64;
        figure(&format!("united-{step}-{count}-cpu-per-pod"), cpu, "us", None);
        figure(&format!("united-{step}-{count}-time"), took, "s", None);
    }
}

/// Tells of the calls for the UnitedDeployment itself, and of those for Pods.
fn report(name: &str, count: usize, calls: &[Value]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(kind_of(call)).or_default() += 1;
    }
    progress(&format!("{name}: {counts:?}"));
    let is_own = |kind: &str| {
        kind.contains("uniteddeployments") || (kind.contains(" clonesets") && !kind.ends_with("/status"))
    };
    let own: usize = counts.iter().filter(|(kind, _)| is_own(kind)).map(|(_, calls)| calls).sum();
    figure(&format!("{name}-calls-per-pod"), own as f64 / count as f64, "calls", Some(CALLS));
    let pods: usize = counts.iter().filter(|(kind, _)| kind.contains(" pods")).map(|(_, calls)| calls).sum();
    figure(&format!("{name}-calls-of-workloads-per-pod"), pods as f64 / count as f64, "calls", None);
}
