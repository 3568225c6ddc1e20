//! CPU time, throughput and latency per review, beside the echo server.

use std::net::SocketAddr;
use std::path::Path;

use benches::load;
use benches::process::{self, Generator, Memory, Process};
use benches::report::{figure, median, median_ratio, megabytes, progress};
use benches::review::{self, Template};
use bytes::Bytes;
use serde_json::Value;

use crate::product::Product;
use crate::{Run, manifests};

pub(crate) const POD_PATH: &str = "/mutate-pod";
const NAMESPACE_PATH: &str = "/validate-namespace";
const POD_VALIDATION_PATH: &str = "/validate-pod";
/// Budgets of other Pods in the namespace of a Pod that is deleted.
const BUDGETS: usize = 20;
const SIDECAR_SETS: [usize; 3] = [2, 100, 1_000];

/// One of the servers that are measured in turn. All times are in microseconds.
pub(crate) struct Contestant {
    name: String,
    process: Process,
    generator: Generator,
    cpu: Vec<f64>,
    time: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Contestant {
    /// Connects to a server and warms it up.
    pub(crate) fn new(name: &str, server: (Process, SocketAddr), generator: Generator) -> Self {
        let mut contestant = Self {
            name: name.to_owned(),
            process: server.0,
            generator,
            cpu: Vec::new(),
            time: Vec::new(),
            p50: Vec::new(),
            p99: Vec::new(),
        };
        contestant.generator.round();
        contestant
    }

    /// Has its turn.
    pub(crate) fn play(&mut self, requests: u32) {
        let requests = f64::from(requests);
        let before = self.process.cpu();
        let round = self.generator.round();
        let cpu = self.process.cpu() - before;
        self.cpu.push(cpu.as_secs_f64() * 1e6 / requests);
        self.time.push(round.seconds * 1e6 / requests);
        self.p50.push(round.p50);
        self.p99.push(round.p99);
        self.process.assert_running();
    }

    fn series(&self) -> [(&'static str, &[f64]); 4] {
        [("cpu", &self.cpu), ("time-on-one-core", &self.time), ("p50", &self.p50), ("p99", &self.p99)]
    }

    fn report(&self) {
        self.report_times();
        figure(&format!("{}-memory", self.name), megabytes(self.peak_memory()), "MB", None);
    }

    pub(crate) fn report_times(&self) {
        for (what, values) in self.series() {
            figure(&format!("{}-{what}", self.name), median(values.iter().copied()), "us", None);
        }
        let throughput = 1e6 / median(self.time.iter().copied());
        progress(&format!("{}: {throughput:.0} reviews per second on one core", self.name));
    }

    fn report_beside(&self, echo: &Self, cpu_goal: f64) {
        self.report();
        for ((what, values), (_, base)) in self.series().into_iter().zip(echo.series()) {
            let goal = (what == "cpu").then_some(cpu_goal);
            figure(&format!("{}-{what}-ratio", self.name), median_ratio(values, base), "x", goal);
        }
        let memory = self.peak_memory() as f64 / echo.peak_memory() as f64;
        figure(&format!("{}-memory-ratio", self.name), memory, "x", None);
    }

    pub(crate) fn peak_memory(&self) -> u64 {
        self.process.memory(Memory::Peak)
    }
}

/// Injected reviews with few and with many SidecarSets, of which 2 match.
pub(crate) async fn injected(run: &Run) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut contestants = Vec::new();
    let mut answer_bytes = 0;
    for count in SIDECAR_SETS {
        progress(&format!("injected reviews: starting kutter with {count} SidecarSets"));
        let objects = (0..count).map(manifests::sidecar_set).chain([manifests::namespace(0)]);
        let folder = directory.path().join(format!("sets-{count}"));
        let product = Product::with_objects(run, &folder, objects);
        answer_bytes = product.wait_for_answer(POD_PATH, review::pod(), is_injected).await.len();
        let name = if count == 2 { "injected".to_owned() } else { format!("injected-{count}") };
        contestants.push(contestant(
            run,
            directory.path(),
            &name,
            product.into_server(),
            POD_PATH,
            &review::pod(),
        ));
    }
    let echo = echo(run, directory.path(), "injected-echo", answer_bytes, POD_PATH, &review::pod()).await;
    contestants.insert(0, echo);
    play(run, &mut contestants);
    let [echo, few, hundred, thousand] = contestants.as_slice() else { panic!("four contestants") };
    echo.report();
    for contestant in [few, hundred, thousand] {
        contestant.report_beside(echo, 2.0);
    }
    figure("thousand-sets-ratio", median_ratio(&thousand.cpu, &few.cpu), "x", Some(1.2));
}

/// A review that is measured beside the echo.
struct Trial {
    name: &'static str,
    path: &'static str,
    body: Vec<u8>,
    objects: Vec<Value>,
    /// Whether the answer is the one that is meant.
    wanted: fn(&Bytes) -> bool,
    /// The most CPU time beside the echo.
    goal: f64,
}

/// Deletes of a protected Namespace.
pub(crate) async fn refused(run: &Run) {
    let refused = Trial {
        name: "refused-delete",
        path: NAMESPACE_PATH,
        body: review::namespace_delete(),
        objects: vec![manifests::namespace(0)],
        wanted: is_refused,
        goal: 1.5,
    };
    refused.play(run).await;
}

/// Deletes and evictions of a Pod that no budget covers: there is none in its namespace, or only those of others.
pub(crate) async fn unbudgeted(run: &Run) {
    let others: Vec<Value> = (0..BUDGETS).map(manifests::budget).collect();
    let deleted = review::pod_delete();
    let evicted = review::pod_eviction();
    for (name, body, budgets) in [
        ("delete-without-budgets", &deleted, &[][..]),
        ("delete-beside-budgets", &deleted, &others),
        ("eviction-without-budgets", &evicted, &[]),
        ("eviction-beside-budgets", &evicted, &others),
    ] {
        let objects = [manifests::namespace(0), review::running_pod()].into_iter();
        let unbudgeted = Trial {
            name,
            path: POD_VALIDATION_PATH,
            body: body.clone(),
            objects: objects.chain(budgets.iter().cloned()).collect(),
            wanted: is_allowed,
            goal: 1.3,
        };
        unbudgeted.play(run).await;
    }
}

impl Trial {
    /// Measures it, in turn with an echo of its own.
    async fn play(self, run: &Run) {
        let Self { name, path, body, objects, wanted, goal } = self;
        progress(&format!("{name}: starting kutter"));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let product = Product::with_objects(run, &directory.path().join("objects"), objects);
        let answer = product.wait_for_answer(path, body.clone(), wanted).await;
        let echo = echo(run, directory.path(), &format!("{name}-echo"), answer.len(), path, &body).await;
        let kutter = contestant(run, directory.path(), name, product.into_server(), path, &body);
        let mut contestants = [echo, kutter];
        play(run, &mut contestants);
        let [echo, kutter] = &contestants;
        echo.report();
        kutter.report_beside(echo, goal);
    }
}

fn play(run: &Run, contestants: &mut [Contestant]) {
    for round in 1..=run.rounds {
        progress(&format!("round {round} of {}", run.rounds));
        for contestant in &mut *contestants {
            contestant.play(run.requests);
        }
    }
}

fn contestant(
    run: &Run,
    directory: &Path,
    name: &str,
    server: (Process, SocketAddr),
    path: &str,
    body: &[u8],
) -> Contestant {
    let generator = Generator::start(directory, server.1, path, body, run.requests);
    Contestant::new(name, server, generator)
}

async fn echo(
    run: &Run,
    directory: &Path,
    name: &str,
    answer_bytes: usize,
    path: &str,
    body: &[u8],
) -> Contestant {
    let server = process::echo(directory, answer_bytes);
    let review = Template::new(body.to_vec()).fill(0);
    let answer =
        kit::wait_for("the echo server", async || load::ask(server.1, path, review.clone()).await).await;
    assert_eq!(answer.len(), answer_bytes);
    contestant(run, directory, name, server, path, body)
}

/// Whether the answer allows the Pod with sidecars.
pub(crate) fn is_injected(answer: &Bytes) -> bool {
    let answer = response(answer);
    answer["allowed"] == true && answer["patch"].as_str().is_some_and(|patch| patch.len() > 1_000)
}

/// Whether the answer allows the Pod, with or without sidecars.
pub(crate) fn is_allowed(answer: &Bytes) -> bool {
    response(answer)["allowed"] == true
}

fn is_refused(answer: &Bytes) -> bool {
    let answer = response(answer);
    answer["allowed"] == false && answer["status"]["code"] == 403
}

fn response(answer: &Bytes) -> Value {
    let mut review: Value = serde_json::from_slice(answer).unwrap_or_default();
    review["response"].take()
}
