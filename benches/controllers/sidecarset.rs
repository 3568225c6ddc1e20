//! What the controller of SidecarSets costs: the sidecar of 100, 1,000 and 5,000 Pods is rolled.

use std::time::Instant;

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, progress};
use benches::stand::{GROWTH, Stand, TIMEOUT};
use kit::builders::{pod, sidecar_set};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_within;
use serde_json::{Value, json};

/// What a rollout cost, per Pod.
struct Cost {
    microseconds: f64,
    calls: f64,
}

/// Measures with these numbers of Pods, from small to large.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    // A process that served nothing yet, without Pods and with all of them.
    let program = stand.program("empty").await;
    let empty = program.memory(Memory::Now);
    let mut costs: Vec<(usize, Cost)> = Vec::new();
    for &count in pods {
        let cost = roll(stand, &program, count).await;
        figure(&format!("sidecarset-roll-{count}-cpu-per-pod"), cost.microseconds, "us", None);
        figure(&format!("sidecarset-roll-{count}-calls-per-pod"), cost.calls, "calls", Some(2.5));
        if let Some((before, previous)) = costs.last() {
            let growth = cost.microseconds / previous.microseconds;
            figure(&format!("sidecarset-roll-cpu-growth-{before}-{count}"), growth, "x", Some(GROWTH));
        }
        costs.push((count, cost));
    }
    program.stop();
    let program = stand.program("full").await;
    let total: usize = pods.iter().sum();
    let grown = program.memory(Memory::Now).saturating_sub(empty);
    figure("sidecarset-memory-per-cached-pod", grown as f64 / total as f64, "bytes", Some(3000.0));
    program.stop();
}

async fn wait_status(stand: &Stand, set: &str, field: &str, count: usize) {
    stand.wait_status(&["sidecarset", set], |_, status| status[field] == count).await;
}

/// Rolls the sidecar of `count` Pods.
async fn roll(stand: &Stand, program: &Program, count: usize) -> Cost {
    progress(&format!("{count} Pods: creating"));
    let client = stand.server().client();
    let namespace = stand.server().namespace("roll").await;
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
    wait_within(TIMEOUT, "injection", async || {
        let trial = kit::objects::create(&client, web(&namespace, "trial")).await.expect("a Pod");
        stand
            .server()
            .kubectl(["delete", "pod", "trial", "--namespace", &namespace, "--now"])
            .await
            .success();
        if injected(&trial) { Ok(()) } else { Err("no sidecar") }
    })
    .await;
    let start = Instant::now();
    stand.create((0..count).map(|number| web(&namespace, &format!("web-{number:05}")))).await;
    wait_status(stand, &set, "readyPods", count).await;
    program.wait_quiet().await;
    progress(&format!("{count} Pods: ready after {:.0} s; rolling", start.elapsed().as_secs_f64()));

    let (cpu, calls, start) = (program.cpu(), stand.calls().len(), Instant::now());
    let patch = r#"[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example.com/platform/log-shipper:3.1.8"}]"#;
    let words = ["patch", "sidecarset", &set, "--type=json", "--patch", patch];
    stand.server().kubectl(words).await.success();
    wait_status(stand, &set, "updatedReadyPods", count).await;
    program.wait_quiet().await;
    let (cpu, calls) = (program.cpu().saturating_sub(cpu), stand.calls().len() - calls);
    progress(&format!("{count} Pods: rolled in {:.0} s", start.elapsed().as_secs_f64()));
    Cost { microseconds: cpu.as_secs_f64() * 1e6 / count as f64, calls: calls as f64 / count as f64 }
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
