//! What PodUnavailableBudgets cost: the calls of reviews that take a unit, 60 evictions at once, an update behind a
//! budget of one, and the controller with a budget for every ten Pods.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use benches::process::Memory;
use benches::program::Program;
use benches::report::{figure, median, median_ratio, progress};
use benches::stand::{Stand, TIMEOUT, kind_of};
use futures::future::join_all;
use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::{objects, wait_within};
use kube::Client;
use serde_json::{Value, json};

/// Evictions at once.
const EVICTIONS: usize = 60;
/// How often they are.
const ROUNDS: usize = 5;
/// The longest time for their answers, in seconds.
const TIME: f64 = 0.5;
/// Deletions and evictions one after another.
const REVIEWS: usize = 20;
/// Pods of a CloneSet that is updated, and for how many seconds each of them is out of service.
const ROLLED: (usize, u32) = (6, 2);
/// How much longer an update may take behind a budget of one than where the workload itself keeps to one.
const WAIT: f64 = 1.3;
/// Pods of one budget, and budgets of one namespace.
const SHARE: (usize, usize) = (10, 100);
/// How long nothing happens.
const REST: Duration = Duration::from_secs(60);

/// Measures the reviews, and the controller with these numbers of Pods.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let program = stand.program("budget").await;
    one_by_one(stand).await;
    at_once(stand, &program).await;
    program.stop();
    rolled(stand).await;
    for &count in pods {
        counted(stand, count).await;
    }
}

/// A namespace with a ReplicaSet that nobody looks after, its running Pods, and a budget for them.
struct Protected<'s> {
    stand: &'s Stand,
    client: Client,
    namespace: String,
    _nodes: FakeNodes,
}

impl<'s> Protected<'s> {
    async fn open(stand: &'s Stand, pods: usize, allowed: usize) -> Self {
        let namespace = stand.server().namespace("evicted").await;
        let client = stand.server().client();
        let options = fake_nodes::Options::nodes(2).in_namespace(&namespace);
        let nodes = FakeNodes::start(client.clone(), options).await;
        stand.create(members(&client, &namespace, "web", pods, nodes.names()).await).await;
        stand.create([budget(&namespace, "web", 0, json!(allowed))]).await;
        let object = ["podunavailablebudget", "web", "--namespace", &namespace];
        stand
            .wait_status(&object, |_, status| {
                status["currentAvailable"] == pods && status["unavailableAllowed"] == allowed
            })
            .await;
        Self { stand, client, namespace, _nodes: nodes }
    }

    /// Deletes or evicts a Pod; whether that was allowed.
    async fn remove(&self, number: usize, subresource: &str) -> bool {
        let name = member("web", number);
        let path = format!("/api/v1/namespaces/{}/pods/{name}{subresource}", self.namespace);
        let (method, body) = if subresource.is_empty() {
            ("DELETE", json!({}))
        } else {
            let metadata = json!({"name": name, "namespace": self.namespace});
            ("POST", json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}))
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json").body(body.to_string().into_bytes());
        let answer = self.client.request_text(request.expect("a request")).await;
        if let Err(error) = &answer {
            progress(&format!("refused: {error}"));
        }
        answer.is_ok()
    }

    /// Evicts Pods at once, each of which may go; the time until all are answered, in seconds.
    async fn evict(&self, numbers: Range<usize>) -> f64 {
        let start = Instant::now();
        let allowed = join_all(numbers.map(|number| self.remove(number, "/eviction"))).await;
        let took = start.elapsed();
        assert!(allowed.iter().all(|&allowed| allowed), "all of them are allowed");
        took.as_secs_f64()
    }

    /// Prints how many calls admission has made per review since there were `before`.
    fn report(&self, name: &str, before: usize, reviews: usize) {
        let calls = self.stand.calls_of_reviews().split_off(before);
        progress(&format!("{name}: {:?}", counts(&calls)));
        let reads = calls.iter().filter(|call| is_read(call)).count();
        let per_review = |what: &str, calls: usize| {
            figure(&format!("{name}-{what}-per-review"), calls as f64 / reviews as f64, "calls", Some(1.0));
        };
        per_review("reads", reads);
        per_review("writes", calls.len() - reads);
    }
}

/// The calls of reviews that come one after another: nothing is shared between them.
async fn one_by_one(stand: &Stand) {
    let protected = Protected::open(stand, 3 * REVIEWS, 2 * REVIEWS).await;
    for (name, subresource, first) in [("budget-delete", "", 0), ("budget-eviction", "/eviction", REVIEWS)] {
        progress(&format!("{name}: {REVIEWS}, one after another"));
        let before = stand.calls_of_reviews().len();
        for number in first..first + REVIEWS {
            assert!(protected.remove(number, subresource).await, "the budget allows it");
        }
        protected.report(name, before, REVIEWS);
    }
}

/// Evictions at once, all of which the budget allows, beside as many that it no longer covers.
async fn at_once(stand: &Stand, program: &Program) {
    let (mut covered, mut free) = (Vec::new(), Vec::new());
    let before = stand.calls_of_reviews().len();
    for round in 1..=ROUNDS {
        progress(&format!("{EVICTIONS} evictions at once: round {round} of {ROUNDS}"));
        let protected = Protected::open(stand, 2 * EVICTIONS, EVICTIONS).await;
        covered.push(protected.evict(0..EVICTIONS).await);
        if round == ROUNDS {
            protected.report("budget-evictions-at-once", before, EVICTIONS * ROUNDS);
        }
        let budget = ["delete", "podunavailablebudget", "web", "--namespace", &protected.namespace];
        stand.server().kubectl(budget).await.success();
        program.wait_quiet().await;
        free.push(protected.evict(EVICTIONS..2 * EVICTIONS).await);
    }
    figure("budget-evictions-at-once", median(covered.iter().copied()), "s", Some(TIME));
    figure("free-evictions-at-once", median(free.iter().copied()), "s", None);
    figure("budget-evictions-at-once-ratio", median_ratio(&covered, &free), "x", None);
}

/// Updates in place where the workload keeps to one Pod at a time, and where a budget does.
async fn rolled(stand: &Stand) {
    let gates = "--feature-gates=PodUnavailableBudgetUpdateGate=true";
    let program = stand.program_with("rolling", &[gates]).await;
    let free = roll(stand, json!(1), None).await;
    let before = stand.calls().len();
    let covered = roll(stand, json!("100%"), Some(json!(1))).await;
    let calls = stand.calls().split_off(before);
    let refused = calls.iter().filter(|call| call["responseStatus"]["code"] == 403).count();
    let own = ROLLED.0 as f64 * f64::from(ROLLED.1);
    figure("budget-rollout-time", covered, "s", Some(own * WAIT));
    figure("budget-rollout-ratio", covered / free, "x", Some(WAIT));
    figure("budget-rollout-refusals-per-pod", refused as f64 / ROLLED.0 as f64, "calls", Some(1.0));
    program.stop();
}

/// Updates the Pods of a new CloneSet, which itself lets `limit` be away; the time that it takes, in seconds.
async fn roll(stand: &Stand, limit: Value, allowed: Option<Value>) -> f64 {
    let (pods, seconds) = ROLLED;
    let (client, namespace) = (stand.server().client(), stand.server().namespace("rolled").await);
    let options = fake_nodes::Options::nodes(2).in_namespace(&namespace).binding_pods();
    let _nodes = FakeNodes::start(client, options).await;
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web").in_namespace(&namespace);
    let set = set.matching("app", "web").replicas(u32::try_from(pods).expect("a number of Pods"));
    let rolling = json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": limit});
    let set = set
        .with("/spec/updateStrategy", json!({"rollingUpdate": rolling}))
        .template_annotation(fake_nodes::READY_AFTER, &(seconds * 1_000).to_string())
        .container("checkout", "registry.example.com/shop/checkout:2.41.0");
    stand.create([set]).await;
    let object = ["clonesets.apps.kruise.io", "web", "--namespace", &namespace];
    let are_updated = |_: &Value, status: &Value| status["updatedReadyReplicas"] == pods;
    stand.wait_status(&object, are_updated).await;
    if let Some(allowed) = allowed {
        stand.create([budget(&namespace, "web", 1, allowed.clone())]).await;
        let object = ["podunavailablebudget", "web", "--namespace", &namespace];
        stand.wait_status(&object, |_, status| status["unavailableAllowed"] == allowed).await;
    }
    let change = json!([{
        "op": "replace", "path": "/spec/template/spec/containers/0/image",
        "value": "registry.example.com/shop/checkout:2.42.0",
    }]);
    let patch = format!("--patch={change}");
    let words: Vec<&str> = ["patch", "--type=json", &patch].iter().chain(&object).copied().collect();
    let start = Instant::now();
    stand.server().kubectl(words).await.success();
    stand.wait_status(&object, are_updated).await;
    start.elapsed().as_secs_f64()
}

/// What the controller does for `count` Pods that were there before their budgets, and for a leader that begins.
async fn counted(stand: &Stand, count: usize) {
    let budgets = count / SHARE.0;
    let program = stand.program("counting").await;
    let client = stand.server().client();
    progress(&format!("creating {count} Pods"));
    let start = Instant::now();
    let nodes = FakeNodes::start(client.clone(), fake_nodes::Options::nodes(10)).await;
    let mut manifests = Vec::new();
    for first in (0..budgets).step_by(SHARE.1) {
        let namespace = stand.server().namespace("counted").await;
        for number in first..budgets.min(first + SHARE.1) {
            let name = format!("web-{number:04}");
            stand.create(members(&client, &namespace, &name, SHARE.0, nodes.names()).await).await;
            manifests.push(budget(&namespace, &name, number, json!(1)).label("pods", &count.to_string()));
        }
    }
    wait_running(&client).await;
    program.wait_quiet().await;
    progress(&format!(
        "{count} Pods: running after {:.0} s; creating budgets",
        start.elapsed().as_secs_f64()
    ));

    let name = format!("budgets-{budgets}");
    let cost = Cost::begin(stand, &program);
    stand.create(manifests).await;
    settle(stand, &program, count).await;
    cost.report(&format!("{name}-created"));
    let cost = Cost::begin(stand, &program);
    tokio::time::sleep(REST).await;
    cost.report_at_rest(&format!("{name}-rest"));
    figure(&format!("{name}-peak-memory"), program.memory(Memory::Peak) as f64 / 1e6, "MB", None);
    program.stop();

    progress(&format!("{budgets} budgets: a leader begins"));
    let before = stand.calls().len();
    let program = stand.program("beginning").await;
    settle(stand, &program, count).await;
    let writes = stand.calls().split_off(before).iter().filter(|call| !is_read(call)).count();
    figure(&format!("{name}-begin-cpu"), program.cpu().as_secs_f64(), "s", None);
    figure(&format!("{name}-begin-writes"), writes as f64, "calls", Some(0.0));
    figure(&format!("{name}-begin-peak-memory"), program.memory(Memory::Peak) as f64 / 1e6, "MB", None);
    program.stop();
}

/// What the leader had done at some time.
struct Cost<'a> {
    stand: &'a Stand,
    program: &'a Program,
    cpu: Duration,
    calls: usize,
}

impl<'a> Cost<'a> {
    fn begin(stand: &'a Stand, program: &'a Program) -> Self {
        Self { stand, program, cpu: program.cpu(), calls: stand.calls().len() }
    }

    fn cpu(&self) -> f64 {
        self.program.cpu().saturating_sub(self.cpu).as_secs_f64()
    }

    fn report(&self, name: &str) {
        figure(&format!("{name}-cpu"), self.cpu(), "s", None);
        let calls = self.stand.calls().split_off(self.calls);
        let counts = counts(&calls);
        progress(&format!("{name}: {counts:?}"));
        figure(&format!("{name}-calls"), calls.len() as f64, "calls", None);
        let of = |kind: &str| counts.get(kind).copied().unwrap_or_default() as f64;
        figure(&format!("{name}-status-writes"), of("patch podunavailablebudgets/status"), "calls", None);
        figure(&format!("{name}-marks"), of("patch pods"), "calls", None);
    }

    fn report_at_rest(&self, name: &str) {
        let calls = self.stand.calls().split_off(self.calls);
        progress(&format!("{name}: {:?}", counts(&calls)));
        let writes = calls.iter().filter(|call| !is_read(call)).count();
        figure(&format!("{name}-writes"), writes as f64, "calls", Some(0.0));
        figure(&format!("{name}-reads"), (calls.len() - writes) as f64, "calls", None);
        figure(&format!("{name}-cpu"), self.cpu() * 1e3 / REST.as_secs_f64(), "ms/s", None);
    }
}

/// Calls by verb and resource.
fn counts(calls: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(kind_of(call)).or_default() += 1;
    }
    counts
}

fn is_read(call: &Value) -> bool {
    call["verb"] == "get" || call["verb"] == "list"
}

/// Waits until no Pod is there that does not run.
async fn wait_running(client: &Client) {
    wait_within(TIMEOUT, "the Pods to run", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let request = http::Request::get("/api/v1/pods?fieldSelector=status.phase!=Running&limit=1");
        let page = client.request(request.body(Vec::new()).expect("a request"));
        let page: Value = page.await.expect("a list");
        match page["items"].as_array().and_then(|items| items.first()) {
            None => Ok(()),
            Some(pod) => Err(pod["metadata"]["name"].clone()),
        }
    })
    .await;
}

/// Waits until each budget has its status and the program has nothing to do.
async fn settle(stand: &Stand, program: &Program, count: usize) {
    let selector = format!("--selector=pods={count}");
    wait_within(TIMEOUT, "the budgets to be counted", async || {
        program.wait_quiet().await;
        let words = ["get", "podunavailablebudgets", "--all-namespaces", &selector, "--output=json"];
        let list = stand.server().kubectl(words).await.success();
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let items = list["items"].as_array().into_iter().flatten();
        let counted = items.filter(|budget| budget["status"]["currentAvailable"] == SHARE.0).count();
        if counted == count / SHARE.0 { Ok(()) } else { Err(counted) }
    })
    .await;
}

/// The Pods of a new ReplicaSet.
async fn members(
    client: &Client,
    namespace: &str,
    name: &str,
    count: usize,
    nodes: &[String],
) -> impl Iterator<Item = Object> {
    let replicas = u32::try_from(count).expect("a number of Pods");
    let set = workload("apps/v1", "ReplicaSet", name).in_namespace(namespace).matching("app", name);
    let set = set.replicas(replicas).container("checkout", "registry.example.com/shop/checkout:2.41.0");
    let set = objects::create(client, set).await.expect("a ReplicaSet can be created");
    let set = serde_json::to_value(set).expect("JSON");
    (0..count).map(move |number| {
        pod(&member(name, number))
            .in_namespace(namespace)
            .label("app", name)
            .label("pod-template-hash", "6d4b75cb6d")
            .annotation("example.com/owner", "team-shop")
            .controlled_by(&set)
            .on_node(&nodes[number % nodes.len()])
            .with("/spec/terminationGracePeriodSeconds", 1)
            .container("checkout", "registry.example.com/shop/checkout:2.41.0")
            .env("LOG_LEVEL", "info")
    })
}

fn member(name: &str, number: usize) -> String {
    format!("{name}-{number:05}")
}

/// A budget for the Pods of the ReplicaSet `name`: by turns by their workload and by their label.
fn budget(namespace: &str, name: &str, number: usize, max_unavailable: Value) -> Object {
    let budget = object("policy.kruise.io/v1beta1", "PodUnavailableBudget", name).in_namespace(namespace);
    let budget = budget.with("/spec/maxUnavailable", max_unavailable);
    if number.is_multiple_of(2) {
        budget.with("/spec/targetRef", json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}))
    } else {
        budget.matching("app", name)
    }
}
