//! What Rollouts cost beside their workloads: a CloneSet is updated in place without one, by one in steps that are approved,
//! and by one that leads the traffic of an Ingress too; then many Rollouts rest.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, megabytes, progress};
use benches::stand::{Stand, TIMEOUT, kind_of};
use kit::builders::{Object, object, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_within;
use serde_json::{Value, json};

use crate::rollout::{has_all_replicas, is_refused};

const OLD: &str = "registry.example.com/shop/checkout:2.41.0";
const NEW: &str = "registry.example.com/shop/checkout:2.42.0";
const API_VERSION: &str = "rollouts.kruise.io/v1beta1";
const GATES: &str = "--feature-gates=Rollouts=true";
const NODES: usize = 10;
/// The share of new Pods after each step; those in between are alike.
const SHARES: [&str; 5] = ["10%", "20%", "30%", "40%", "100%"];
/// Rollouts that rest in each namespace.
const IN_NAMESPACE: usize = 10;
/// The most calls of a step beside those of the workload.
const CALLS: f64 = 6.0;
/// The most memory that the Rollouts may take, in megabytes.
const MEMORY: f64 = 10.0;
/// How long the program is looked at whose CPU time at rest is deducted.
const REST: Duration = Duration::from_secs(10);

/// What leads an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// The CloneSet alone.
    None,
    /// A Rollout.
    Rollout,
    /// A Rollout with an Ingress.
    Ingress,
}

/// What an update cost.
struct Cost {
    /// CPU time beyond that at rest, in microseconds.
    cpu: f64,
    /// The calls from one approval to the next.
    stages: Vec<Vec<Value>>,
}

/// Measures releases of these numbers of Pods, and so many Rollouts at rest for so many seconds.
pub(crate) async fn measure(stand: &Stand, pods: &[usize], rollouts: usize, rest: u64) {
    let crds = Command::new(stand.named("kutter")).args(["crds", "--rollouts"]).output();
    let crds = String::from_utf8(crds.expect("kutter runs").stdout).expect("YAML");
    stand.server().kubectl_with_input(["apply", "--server-side", "-f", "-"], &crds).await.success();
    stand.server().wait_established().await;
    let program = stand.program_with("releasing", &[GATES]).await;
    wait_validated(stand).await;
    let cpu = program.cpu();
    tokio::time::sleep(REST).await;
    let at_rest = program.cpu().saturating_sub(cpu).as_secs_f64() / REST.as_secs_f64();
    for &count in pods {
        let plain = update(stand, &program, count, Lead::None, at_rest).await;
        let name = format!("release-none-{count}");
        figure(&format!("{name}-calls-per-pod"), plain.writes_of_pods() / count as f64, "calls", None);
        figure(&format!("{name}-cpu-per-pod"), plain.cpu / count as f64, "us", None);
        for (name, lead) in [("release", Lead::Rollout), ("release-ingress", Lead::Ingress)] {
            let release = update(stand, &program, count, lead, at_rest).await;
            release.report(&format!("{name}-{count}"), &plain, count);
        }
    }
    idle(stand, program, rollouts, rest).await;
}

/// Waits until Rollouts come to us.
async fn wait_validated(stand: &Stand) {
    let namespace = stand.server().namespace("asked").await;
    let without_steps = released(&namespace, "trial", &json!({"steps": []})).build();
    wait_within(TIMEOUT, "Rollouts to be validated", async || {
        let words = ["create", "--dry-run=server", "-f", "-"];
        let output = stand.server().kubectl_with_input(words, &without_steps.to_string()).await;
        if output.stderr.contains("vrollout.kb.io") { Ok(()) } else { Err(output) }
    })
    .await;
}

/// A CloneSet whose Pods are updated in place.
fn clone_set(namespace: &str, name: &str, replicas: usize) -> Object {
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "10%"});
    workload("apps.kruise.io/v1beta1", "CloneSet", name)
        .in_namespace(namespace)
        .matching("app", name)
        .replicas(u32::try_from(replicas).expect("a number of Pods"))
        .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
        .container("checkout", OLD)
}

/// The Rollout `<workload>-release` of a CloneSet. Events are told apart by the names of their objects.
fn released(namespace: &str, workload: &str, canary: &Value) -> Object {
    let reference = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": workload});
    object(API_VERSION, "Rollout", &format!("{workload}-release"))
        .in_namespace(namespace)
        .with("/spec", json!({"workloadRef": reference, "strategy": {"canary": canary}}))
}

/// A Service of the Pods, and an Ingress that leads to it.
fn network(namespace: &str) -> [Object; 2] {
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let rules = json!([{"host": "shop.example.com", "http": {"paths": [path]}}]);
    [
        object("v1", "Service", "web").with("/spec", spec),
        object("networking.k8s.io/v1", "Ingress", "web")
            .with("/spec", json!({"ingressClassName": "nginx", "rules": rules})),
    ]
    .map(|object| object.in_namespace(namespace))
}

/// Updates a new CloneSet of so many Pods.
async fn update(stand: &Stand, program: &Program, count: usize, lead: Lead, at_rest: f64) -> Cost {
    let (client, namespace) = (stand.server().client(), stand.server().namespace("released").await);
    let options = fake_nodes::Options::nodes(NODES).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(client.clone(), options).await;
    progress(&format!("{lead:?}: {count} Pods are created"));
    stand.create([clone_set(&namespace, "web", count)]).await;
    let set = ["clonesets.apps.kruise.io", "web", "--namespace", &namespace];
    stand.wait_status(&set, |spec, status| has_all_replicas(spec, status, count)).await;
    let rollout = ["rollouts.rollouts.kruise.io", "web-release", "--namespace", &namespace];
    if lead != Lead::None {
        let mut steps = SHARES.map(|share| json!({"replicas": share}));
        let mut canary = json!({});
        if lead == Lead::Ingress {
            stand.create(network(&namespace)).await;
            let ingress = json!({"classType": "nginx", "name": "web"});
            canary["trafficRoutings"] =
                json!([{"service": "web", "gracePeriodSeconds": 1, "ingress": ingress}]);
            // The last step has all traffic in any case.
            let (_, earlier) = steps.split_last_mut().expect("there are steps");
            earlier.iter_mut().for_each(|step| step["traffic"] = step["replicas"].clone());
        }
        canary["steps"] = json!(steps);
        stand.create([released(&namespace, "web", &canary)]).await;
        stand.wait_status(&rollout, |_, status| status["phase"] == "Healthy").await;
    }
    program.wait_quiet().await;

    progress(&format!("{lead:?}: they are updated"));
    let (cpu, start) = (program.cpu(), Instant::now());
    let mut seen = stand.calls_of_all().len();
    let mut stages = Vec::new();
    let mut stage_ends = || {
        let calls = stand.calls_of_all().split_off(seen);
        seen += calls.len();
        stages.push(calls);
    };
    let change = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": NEW}])
        .to_string();
    let words = ["patch", "--type=json", "--output=json", "--patch", &change];
    let text = stand.server().kubectl(words.into_iter().chain(set)).await.success();
    if lead != Lead::None {
        let changed: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(changed["spec"]["updateStrategy"]["rollingUpdate"]["partition"], "100%", "it is held");
        for step in 1..SHARES.len() {
            let is_paused = |_: &Value, status: &Value| {
                status["currentStepIndex"] == step && status["currentStepState"] == "StepPaused"
            };
            stand.wait_status(&rollout, is_paused).await;
            program.wait_quiet().await;
            stage_ends();
            let approval = json!({"status": {"canaryStatus": {"currentStepState": "StepReady"}}}).to_string();
            let words = ["patch", "--subresource=status", "--type=merge", "--patch", &approval];
            stand.server().kubectl(words.into_iter().chain(rollout)).await.success();
        }
        stand.wait_status(&rollout, |_, status| status["phase"] == "Healthy").await;
    }
    stand.wait_status(&set, |spec, status| has_all_replicas(spec, status, count)).await;
    program.wait_quiet().await;
    stage_ends();
    let cpu = program.cpu().saturating_sub(cpu).as_secs_f64() - at_rest * start.elapsed().as_secs_f64();
    Cost { cpu: cpu * 1e6, stages }
}

impl Cost {
    /// Writes of Pods that were not refused. Those of their status are left out: some fall together with others by chance.
    fn writes_of_pods(&self) -> f64 {
        let calls = self.stages.iter().flatten().filter(|call| !is_refused(call));
        // Admission tries now and then whether the API server calls it.
        let own = calls
            .filter(|call| call["objectRef"]["name"].as_str().is_some_and(|name| name.starts_with("web-")));
        own.filter(|call| kind_of(call).ends_with(" pods")).count() as f64
    }

    /// What a release cost beside the same update without one.
    fn report(&self, name: &str, plain: &Self, pods: usize) {
        for (number, calls) in self.stages.iter().enumerate() {
            let (own, of_workload): (Vec<&Value>, _) = calls.iter().partition(|call| !is_of_workload(call));
            progress(&format!("{name}, step {}: {:?}", number + 1, counts(own)));
            progress(&format!("{name}, step {}, of the workload: {:?}", number + 1, counts(of_workload)));
        }
        let own = |calls: &Vec<Value>, are_events: bool| {
            let own = calls.iter().filter(|call| !is_of_workload(call));
            own.filter(|call| kind_of(call).ends_with(" events") == are_events).count()
        };
        let calls: Vec<usize> = self.stages.iter().map(|calls| own(calls, false)).collect();
        let events: usize = self.stages.iter().map(|calls| own(calls, true)).sum();
        let [first, between @ .., last] = calls.as_slice() else { panic!("{calls:?}") };
        let most = between.iter().max().expect("steps in between");
        // The first one begins the release and the last one ends it.
        figure(&format!("{name}-calls-per-step"), *most as f64, "calls", Some(CALLS));
        figure(&format!("{name}-calls-of-first-step"), *first as f64, "calls", None);
        figure(&format!("{name}-calls-of-last-step"), *last as f64, "calls", None);
        figure(&format!("{name}-events-per-step"), events as f64 / SHARES.len() as f64, "calls", None);
        let further = (self.writes_of_pods() - plain.writes_of_pods()) / pods as f64;
        figure(&format!("{name}-calls-per-pod"), further, "calls", Some(0.0));
        figure(&format!("{name}-cpu-per-step"), (self.cpu - plain.cpu) / SHARES.len() as f64, "us", None);
    }
}

/// Whether such a call comes without a Rollout too: for Pods of the CloneSet, its revisions, status and Events, and the trial
/// of its template.
fn is_of_workload(call: &Value) -> bool {
    let kind = kind_of(call);
    let is_of_release =
        call["objectRef"]["name"].as_str().is_some_and(|name| name.starts_with("web-release."));
    kind.contains(" pods")
        || kind.contains(" controllerrevisions")
        || kind == "create podtemplates"
        // The trial of the registration, as above.
        || kind == "get mutatingwebhookconfigurations"
        || kind.ends_with(" clonesets/status")
        || (kind.ends_with(" events") && !is_of_release)
}

fn counts<'a>(calls: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        let refused = if is_refused(call) { ", refused" } else { "" };
        *counts.entry(format!("{}{refused}", kind_of(call))).or_default() += 1;
    }
    counts
}

/// What a leader takes that has so many Rollouts at rest, beside one with the same CloneSets and without the gate.
async fn idle(stand: &Stand, program: Program, rollouts: usize, seconds: u64) {
    progress(&format!("{rollouts} Rollouts are created"));
    let options = fake_nodes::Options::nodes(NODES).binding_pods();
    let _nodes = FakeNodes::start(stand.server().client(), options).await;
    let steps = json!({"steps": SHARES.map(|share| json!({"replicas": share}))});
    for first in (0..rollouts).step_by(IN_NAMESPACE) {
        let namespace = stand.server().namespace("rested").await;
        let names = || (first..rollouts.min(first + IN_NAMESPACE)).map(|number| format!("web-{number:04}"));
        stand.create(names().map(|name| clone_set(&namespace, &name, 1))).await;
        let released = |name: String| released(&namespace, &name, &steps).label("rests", "true");
        stand.create(names().map(released)).await;
    }
    wait_within(TIMEOUT, "the Rollouts to rest", async || {
        program.wait_quiet().await;
        let words =
            ["get", "rollouts.rollouts.kruise.io", "--all-namespaces", "--selector=rests", "--output"];
        let phases = stand.server().kubectl(words.into_iter().chain(["jsonpath={.items[*].status.phase}"]));
        let healthy = phases.await.success().split(' ').filter(|phase| *phase == "Healthy").count();
        if healthy == rollouts { Ok(()) } else { Err(healthy) }
    })
    .await;
    program.stop();

    let memories = |program: &Program| [Memory::Now, Memory::Peak].map(|memory| program.memory(memory));
    progress("a leader without the gate begins");
    let program = stand.program("without").await;
    let without = memories(&program);
    program.stop();
    progress(&format!("a leader with the gate begins, and rests for {seconds} s"));
    let program = stand.program_with("with", &[GATES]).await;
    // Those of admission are trials of the registration, which come whatever there is.
    let (cpu, before) = (program.cpu(), stand.calls().len());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let calls = stand.calls().split_off(before);
    let cpu = program.cpu().saturating_sub(cpu).as_secs_f64() * 1e3 / seconds as f64;
    let with = memories(&program);
    program.stop();
    let name = format!("release-rest-{rollouts}");
    progress(&format!("{name}: {:?}", counts(&calls)));
    figure(&format!("{name}-calls"), calls.len() as f64, "calls", Some(0.0));
    figure(&format!("{name}-cpu"), cpu, "ms/s", None);
    for (what, with, without) in [("memory", with[0], without[0]), ("peak-memory", with[1], without[1])] {
        let further = megabytes(with) - megabytes(without);
        figure(&format!("{name}-{what}"), further, "MB", Some(MEMORY));
    }
}
