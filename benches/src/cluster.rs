//! What needs a cluster: the time to the first review, API calls, and memory with many objects.

use std::time::{Duration, Instant};

use benches::audited::Audited;
use benches::load;
use benches::process::{Core, Generator, Memory};
use benches::program::Program;
use benches::report::{figure, median, megabytes, progress};
use benches::review::{self, Template};
use benches::stand::create;
use serde_json::Value;

use crate::cpu::{Contestant, POD_PATH, is_allowed, is_injected};
use crate::product::Product;
use crate::{Run, Scenario, manifests};

const STARTS: usize = 7;
/// Reviews per second of the steady load, and its seconds.
const STEADY: (u32, u32) = (500, 10);
/// The longest that 99 of 100 reviews of the steady load may take, in microseconds
/// (docs/behaviour/pod-mutation.md#what-a-review-waits-for).
const STEADY_P99: f64 = 10_000.0;
/// How long the memory must stay as it is before we believe that it has peaked.
const QUIET: Duration = Duration::from_secs(5);
struct Bench<'a> {
    run: &'a Run,
    stand: Audited,
    directory: tempfile::TempDir,
}

/// Measures those of its scenarios that are wanted, one after the other on one API server.
pub(crate) async fn measure(run: &Run, wants: impl Fn(Scenario) -> bool) {
    let bench = Bench::start(run).await;
    let mut kutter = bench.kutter(Core::Any, bench.stand.port, "first");
    kutter.program.wait_ready().await;
    bench.wait_registered().await;
    if wants(Scenario::FirstReview) {
        kutter.program.stop();
        bench.first_review().await;
        kutter = bench.kutter(Core::Any, bench.stand.port, "filling");
        kutter.program.wait_ready().await;
    }
    if wants(Scenario::OwnerUnknown) || wants(Scenario::Memory) {
        bench.create((0..2).map(manifests::sidecar_set)).await;
        kutter.wait_for_answer(POD_PATH, review::pod(), is_injected).await;
    }
    if wants(Scenario::OwnerUnknown) {
        bench.owner_unknown(&kutter);
    }
    if wants(Scenario::Memory) {
        bench.fill().await;
        kutter.program.stop();
        bench.memory().await;
    }
}

impl<'a> Bench<'a> {
    async fn start(run: &'a Run) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let stand = Audited::start(&run.kutter, directory.path()).await;
        let bench = Self { run, stand, directory };
        bench.create([manifests::namespace(0)]).await;
        bench
    }

    fn kutter(&self, core: Core, port: u16, name: &str) -> Product {
        let log = self.directory.path().join(format!("{name}.log"));
        Product::with_cluster(self.run, core, port, self.stand.server.kubeconfig(), &log)
    }

    /// Waits until Pods come to us.
    async fn wait_registered(&self) {
        kit::wait_for("the registration of the Pod webhook", async || {
            let name = "mutatingwebhookconfiguration/kruise-mutating-webhook-configuration";
            let output = self.stand.server.kubectl(["get", name, "-o", "jsonpath={.webhooks[*].name}"]).await;
            if output.stdout.contains("mpod.kb.io") { Ok(()) } else { Err(output) }
        })
        .await;
    }

    /// From the start of the process to the first answer, with Secret and registrations in place.
    async fn first_review(&self) {
        progress(&format!("first review: starting kutter {STARTS} times"));
        let review = Template::new(review::pod()).fill(0);
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let start = Instant::now();
            let kutter = self.kutter(Core::Any, self.stand.port, "starting");
            loop {
                let answer = load::ask(kutter.address, POD_PATH, review.clone()).await;
                if answer.as_ref().is_ok_and(is_allowed) {
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(30), "no answer in 30 s; at last: {answer:?}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            times.push(start.elapsed().as_secs_f64() * 1e3);
            kutter.program.stop();
        }
        figure("first-review", median(times), "ms", Some(300.0));
    }

    /// Reviews of Pods whose owners nobody knows: how many calls to the API server they cost.
    fn owner_unknown(&self, kutter: &Product) {
        progress("Pods of unknown owners");
        let mut generator = Generator::start(
            self.directory.path(),
            kutter.address,
            POD_PATH,
            &review::pod(),
            self.run.requests,
        );
        let before = self.stand.calls("kruise-manager").len();
        generator.round();
        let calls = self.stand.calls("kruise-manager").split_off(before);
        for call in &calls {
            progress(&format!("call: {} {}", call["verb"], call["requestURI"]));
        }
        figure("owner-unknown-api-calls", calls.len() as f64, "calls", Some(0.0));
    }

    /// Creates the objects of a large cluster, through the webhooks.
    async fn fill(&self) {
        let Run { pods, sidecar_sets, namespaces, .. } = *self.run;
        progress(&format!("creating {namespaces} namespaces, {sidecar_sets} SidecarSets, {pods} Pods"));
        let start = Instant::now();
        self.create((1..namespaces).map(manifests::namespace)).await;
        self.create((2..sidecar_sets).map(manifests::sidecar_set)).await;
        self.create((0..pods).map(|number| manifests::pod(number, sidecar_sets, namespaces))).await;
        progress(&format!("created in {:.0} s", start.elapsed().as_secs_f64()));
    }

    async fn create(&self, objects: impl IntoIterator<Item = Value>) {
        create(&self.stand.server.client(), objects).await;
    }

    /// Peak memory of two fresh replicas, after each served rounds of reviews and a steady load.
    async fn memory(&self) {
        progress("starting two replicas");
        let leader = self.kutter(Core::Server, self.stand.port, "leader");
        leader.program.wait_ready().await;
        leader.program.wait_leading().await;
        let standby = self.kutter(Core::Server, kit::api_server::free_port(), "standby");
        standby.program.wait_ready().await;
        // The standby comes first: without its leader it would soon lead itself.
        for (name, goal, kutter) in [("standby", 40.0, standby), ("leader", 60.0, leader)] {
            kutter.wait_for_answer(POD_PATH, review::pod(), is_injected).await;
            wait_quiet(&kutter.program).await;
            let started = megabytes(kutter.program.memory(Memory::Peak));
            let (directory, address) = (self.directory.path(), kutter.address);
            let generator = Generator::start(directory, address, POD_PATH, &review::pod(), self.run.requests);
            let mut contestant =
                Contestant::new(&format!("{name}-injected"), kutter.into_server(), generator);
            for _ in 0..self.run.rounds {
                contestant.play(self.run.requests);
            }
            let mut steady = Generator::steady(directory, address, POD_PATH, &review::pod(), STEADY);
            figure(&format!("{name}-steady-p99"), steady.round().p99, "us", Some(STEADY_P99));
            figure(&format!("{name}-memory-before-load"), started, "MB", None);
            figure(&format!("{name}-memory"), megabytes(contestant.peak_memory()), "MB", Some(goal));
            contestant.report_times();
        }
    }
}

/// Waits until the peak memory has not grown for a while.
async fn wait_quiet(program: &Program) {
    let (mut peak, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        let now = program.memory(Memory::Peak);
        if now > peak {
            (peak, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
