//! What the agent of a node costs: beside Pods, at rest and when an image is to be pulled; and what it takes to hand
//! an image to many nodes.

use std::time::{Duration, Instant};

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, megabytes, progress};
use benches::stand::{Stand, TIMEOUT, kind_of};
use kit::builders::{object, pod};
use kit::fake_nodes::{self, FakeNodes};
use kit::fake_runtime::{FakeRuntime, Pull};
use kit::wait_within;
use serde_json::{Value, json};

const REST: Duration = Duration::from_secs(60);
/// Nodes without agents.
const MANY: usize = 1_000;
/// With how many Pods the memory has a goal, and which.
const GOAL: (usize, f64) = (100, 15.0);

/// Measures with these numbers of Pods on a node.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let further = ["--feature-gates=ImagePullJobGate=true", "--nodeimage-creation-delay=0s"];
    let server = stand.program_with("node", &further).await;
    for &count in pods {
        agent(stand, count).await;
    }
    hand_out(stand, &server).await;
    server.stop();
}

/// The agent of a node with that many Pods.
async fn agent(stand: &Stand, count: usize) {
    let namespace = stand.server().namespace("node").await;
    let options = fake_nodes::Options::nodes(1).in_namespace(&namespace);
    let nodes = FakeNodes::start(stand.server().client(), options).await;
    let node = nodes.names()[0].clone();
    progress(&format!("{count} Pods on a node"));
    let running = (0..count).map(|number| {
        pod(&format!("web-{number:05}"))
            .in_namespace(&namespace)
            .label("app", "web")
            .on_node(&node)
            .container("checkout", "registry.example.com/shop/checkout:2.41.0")
            .env("LOG_LEVEL", "info")
    });
    stand.create(running).await;
    let words =
        ["wait", "pods", "--all", "--for=condition=Ready", "--timeout=600s", "--namespace", &namespace];
    stand.server().kubectl(words).await.success();
    wait_node_images(stand, std::slice::from_ref(&node)).await;

    let sockets = tempfile::tempdir().expect("a temporary directory");
    let runtime = FakeRuntime::start(sockets.path(), |_| Pull::Comes);
    let agent = stand.agent(&node, sockets.path()).await;
    let report = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
        figure(&format!("node-{count}-{what}"), value, unit, goal);
    };
    rest(stand, &agent, report).await;
    pull(stand, &namespace, &node, &runtime, report).await;
    let goal = (count == GOAL.0).then_some(GOAL.1);
    report("memory", megabytes(agent.memory(Memory::Now)), "MB", goal);
    report("peak-memory", megabytes(agent.memory(Memory::Peak)), "MB", goal);
    agent.stop();
    stand.server().kubectl(["delete", "namespace", &namespace, "--wait=false"]).await.success();
}

/// What the agent does while nothing happens.
async fn rest(stand: &Stand, agent: &Program, report: impl Fn(&str, f64, &str, Option<f64>)) {
    let (cpu, rests, writes) = (agent.cpu(), agent.rests(), writes(&stand.calls_of_agents(), "").len());
    tokio::time::sleep(REST).await;
    let milliseconds = agent.cpu().saturating_sub(cpu).as_secs_f64() * 1e3;
    report("cpu-at-rest", milliseconds / REST.as_secs_f64(), "ms/s", None);
    report("wake-ups", (agent.rests() - rests) as f64 / REST.as_secs_f64(), "1/s", None);
    let written = self::writes(&stand.calls_of_agents(), "").len() - writes;
    report("writes-at-rest", written as f64, "calls", Some(0.0));
}

/// One image, from the job to the runtime and back.
async fn pull(
    stand: &Stand,
    namespace: &str,
    node: &str,
    runtime: &FakeRuntime,
    report: impl Fn(&str, f64, &str, Option<f64>),
) {
    let (agents, controllers) = (stand.calls_of_agents().len(), stand.calls().len());
    let start = Instant::now();
    stand.create([job(namespace, &[node.to_owned()])]).await;
    while runtime.pulls().is_empty() {
        assert!(start.elapsed() < TIMEOUT, "nothing is pulled");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    report("first-pull", start.elapsed().as_secs_f64() * 1e3, "ms", Some(1000.0));
    wait_within(TIMEOUT, "the job to complete", async || {
        let words = ["get", "imagepulljob", "image", "--output=json", "--namespace", namespace];
        let text = stand.server().kubectl(words).await.success();
        let job: Value = serde_json::from_str(&text).expect("JSON");
        if job["status"]["succeeded"] == 1 { Ok(()) } else { Err(job["status"].clone()) }
    })
    .await;
    let written = writes(&stand.calls_of_agents()[agents..], " nodeimages/status").len();
    report("writes-per-image", written as f64, "calls", Some(1.0));
    let written = writes(&stand.calls()[controllers..], " nodeimages").len();
    report("controller-writes-per-image", written as f64, "calls", Some(1.0));
}

/// One image for many nodes that have no agents.
async fn hand_out(stand: &Stand, server: &Program) {
    progress(&format!("{MANY} nodes without agents"));
    let namespace = stand.server().namespace("many").await;
    let options = fake_nodes::Options::nodes(MANY).in_namespace(&namespace);
    let nodes = FakeNodes::start(stand.server().client(), options).await;
    wait_node_images(stand, nodes.names()).await;
    server.wait_quiet().await;
    let (cpu, calls) = (server.cpu(), stand.calls().len());
    let start = Instant::now();
    stand.create([job(&namespace, nodes.names())]).await;
    let mut first = None;
    wait_within(TIMEOUT, "all nodes to have the image", async || {
        let handed = writes(&stand.calls()[calls..], " nodeimages").len();
        if handed > 0 {
            first.get_or_insert_with(|| start.elapsed());
        }
        if handed < MANY { Err(handed) } else { Ok(()) }
    })
    .await;
    let all = start.elapsed();
    server.wait_quiet().await;
    let report = |what: &str, value: f64, unit: &str, goal: Option<f64>| {
        figure(&format!("handed-out-{MANY}-{what}"), value, unit, goal);
    };
    report("first", first.unwrap_or(all).as_secs_f64() * 1e3, "ms", Some(1000.0));
    report("all", all.as_secs_f64() * 1e3, "ms", None);
    let written = writes(&stand.calls()[calls..], " nodeimages").len();
    report("writes-per-node", written as f64 / MANY as f64, "calls", Some(1.0));
    report("cpu-per-node", server.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / MANY as f64, "us", None);
}

fn job(namespace: &str, nodes: &[String]) -> Value {
    object("apps.kruise.io/v1beta1", "ImagePullJob", "image")
        .in_namespace(namespace)
        .with(
            "/spec",
            json!({
                "image": format!("registry.example.com/{namespace}:1"), "parallelism": MANY,
                "selector": {"names": nodes}, "completionPolicy": {},
            }),
        )
        .build()
}

/// Waits until these nodes have NodeImages.
async fn wait_node_images(stand: &Stand, nodes: &[String]) {
    wait_within(TIMEOUT, "the NodeImages", async || {
        let text = stand.server().kubectl(["get", "nodeimages", "--output=name"]).await.success();
        let missing =
            nodes.iter().filter(|node| !text.lines().any(|line| line.ends_with(&format!("/{node}"))));
        match missing.count() {
            0 => Ok(()),
            count => Err(format!("{count} are missing")),
        }
    })
    .await;
}

/// The calls that write, to objects of this kind, such as ` nodeimages`, or to all.
fn writes<'c>(calls: &'c [Value], kind: &str) -> Vec<&'c Value> {
    let is_write = |call: &&Value| {
        let what = kind_of(call);
        let verb = what.split(' ').next().unwrap_or_default();
        ["create", "update", "patch", "delete"].contains(&verb) && what.ends_with(kind)
    };
    calls.iter().filter(is_write).collect()
}
