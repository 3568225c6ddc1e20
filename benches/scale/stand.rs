//! The program at an API server that holds a large cluster, and what it costs there.

use std::iter::repeat_n;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use benches::calls::{self, Call, Calls};
use benches::process::{Generator, Memory};
use benches::program::Program;
use benches::report::{figure, megabytes, progress};
use benches::review;
use benches::stand::{TIMEOUT, create};
use futures::future::join;
use kit::builders::object;
use kit::fake_nodes::{FakeNodes, Options};
use kit::{objects, wait_within};
use kube::Client;
use serde_json::Value;

use crate::Run;
use crate::rollout::{self, Cost, Rollout};
use crate::unit::{NODES, PODS, POOL, Unit};

/// Reviews per second, and seconds of a round of them.
const REVIEWS: (u32, u32) = (500, 5);
/// The namespace of the Pod under review.
const REVIEWED: &str = "team-000";
/// How much more a rollout may cost among all than alone.
const RATIO: f64 = 1.2;
/// The load knows the paths of reviews by their plain names. A machine that is busy with other things deposes no leader.
const ARGUMENTS: [&str; 3] =
    ["--legacy-paths", "--leader-election-lease-duration=120s", "--leader-election-renew-deadline=90s"];
/// How long the traffic goes on before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// An API server for which the program is installed, and what is measured there.
pub(crate) struct Stand<'a> {
    /// What the figures begin with.
    pub(crate) name: &'static str,
    /// The most memory that a leader and a standby may have, in megabytes.
    pub(crate) memory: [f64; 2],
    /// Of how many units the cluster consists.
    pub(crate) units: u32,
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    /// Where the program is to listen.
    pub(crate) port: u16,
    /// The calls that the API server got so far.
    pub(crate) calls: Box<dyn Fn() -> Calls + 'a>,
    pub(crate) arguments: &'a Run,
    /// For logs.
    pub(crate) directory: tempfile::TempDir,
}

impl Stand<'_> {
    /// A rollout in a cluster that has nothing else.
    pub(crate) async fn alone(&self) -> Cost {
        let program = self.leading("alone").await;
        program.wait_quiet().await;
        self.figure("empty-leader-memory", megabytes(program.memory(Memory::Peak)), "MB", None);
        let _nodes = rollout::nodes(&self.client).await;
        let rollout = Rollout::prepare(self).await;
        program.wait_quiet().await;
        let cost = rollout.roll(&program, "alone").await;
        program.stop();
        cost
    }

    /// The program makes the first units. Their nodes run on.
    pub(crate) async fn settle(&self, units: u32) -> FakeNodes {
        progress(&format!("the program settles {units} units"));
        let program = self.leading("first").await;
        let units: Vec<Unit> = (0..units).map(Unit::new).collect();
        let pools = units.iter().flat_map(|unit| repeat_n(unit.token(), NODES)).enumerate();
        let options = Options::nodes(units.len() * NODES).binding_pods();
        let options = pools.fold(options, |options, (node, pool)| options.label(node, POOL, &pool));
        let nodes = FakeNodes::start(self.client.clone(), options).await;
        create(&self.client, units.iter().flat_map(|unit| unit.foundations())).await;
        program.wait_quiet().await;
        create(&self.client, units.iter().flat_map(|unit| unit.workloads())).await;
        for unit in &units {
            let owner = objects::create(&self.client, unit.replica_set()).await.expect("a ReplicaSet");
            create(&self.client, unit.foreign_pods(&serde_json::to_value(owner).expect("JSON"))).await;
        }
        for (path, is_done) in units.iter().flat_map(|unit| unit.goals()) {
            self.wait_status(&path, is_done).await;
        }
        program.wait_quiet().await;
        program.stop();
        nodes
    }

    /// Waits until the status of the object at this path is of its present generation and holds what is wanted.
    pub(crate) async fn wait_status(&self, path: &str, holds: impl Fn(&Value) -> bool) {
        wait_within(TIMEOUT, path, async || {
            let request = http::Request::get(path).body(Vec::new()).expect("a path");
            let object: Value = self.client.request(request).await.expect("the object is there");
            let status = &object["status"];
            let observed = status.get("observedGeneration");
            let is_new = observed.is_none_or(|observed| *observed == object["metadata"]["generation"]);
            if is_new && holds(status) { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    }

    pub(crate) fn calls(&self) -> Calls {
        (self.calls)()
    }

    pub(crate) fn calls_since(&self, before: &Calls) -> Calls {
        calls::since(self.calls(), before)
    }

    pub(crate) fn program(&self, name: &str) -> Program {
        self.program_at(self.port, name)
    }

    fn program_at(&self, port: u16, name: &str) -> Program {
        let log = self.directory.path().join(format!("{name}.log"));
        Program::start(&self.arguments.kutter, port, &self.kubeconfig, &log, &ARGUMENTS)
    }

    async fn leading(&self, name: &str) -> Program {
        let program = self.program(name);
        program.wait_ready().await;
        program.wait_leading().await;
        program
    }

    /// Waits until the caches of the program are full, most of all those of a leader.
    pub(crate) async fn wait_filled(&self, program: &Program) {
        for (cache, objects) in [("sidecarset-accounts", PODS), ("nodes", NODES), ("nodeimages", NODES)] {
            program.wait_cached(cache, self.units as usize * objects).await;
        }
    }

    /// A leader begins in a cluster at rest, and a standby beside it for a while.
    pub(crate) async fn replicas(&self) -> Program {
        progress("a leader begins");
        let before = self.calls();
        let start = Instant::now();
        let leader = self.program("leader");
        leader.wait_ready().await;
        self.figure("admission-ready", start.elapsed().as_secs_f64(), "s", None);
        self.wait_filled(&leader).await;
        self.figure("start", start.elapsed().as_secs_f64(), "s", Some(15.0));
        leader.wait_quiet().await;
        self.figure("start-quiet", start.elapsed().as_secs_f64(), "s", None);
        self.figure("start-cpu", leader.cpu().as_secs_f64(), "s", None);
        self.figure("leader-memory-at-start", megabytes(leader.memory(Memory::Peak)), "MB", None);
        let writes =
            self.report("written at start", &before, |call| call.verb != "get" && call.verb != "list");
        self.figure("restart-writes", writes as f64, "calls", Some(0.0));

        progress("a standby begins");
        let standby = self.program_at(kit::api_server::free_port(), "standby");
        standby.wait_ready().await;
        standby.wait_quiet().await;
        let peak = megabytes(standby.memory(Memory::Peak));
        self.figure("standby-memory", peak, "MB", Some(self.memory[1]));
        standby.stop();
        leader
    }

    /// The leader among all: at rest, and while a rollout goes on.
    pub(crate) async fn among(&self, leader: Program, alone: &Cost) {
        tokio::time::sleep(SETTLE).await;
        let rest = self.rest(&leader).await;
        self.rollouts(&leader, alone, rest).await;
        let peak = megabytes(leader.memory(Memory::Peak));
        self.figure("leader-memory", peak, "MB", Some(self.memory[0]));
        leader.stop();
    }

    /// Nothing happens that is our concern; the CPU share that this takes.
    async fn rest(&self, leader: &Program) -> f64 {
        let time = Duration::from_secs(self.arguments.rest);
        progress(&format!("{} s of rest", time.as_secs()));
        let before = self.calls();
        let (cpu, start) = (leader.cpu(), Instant::now());
        tokio::time::sleep(time).await;
        let share = leader.cpu().saturating_sub(cpu).as_secs_f64() / start.elapsed().as_secs_f64();
        self.figure("rest-cpu", share * 100.0, "%", Some(15.0));
        let calls = self.report("called at rest", &before, |_| true);
        self.figure("rest-calls", calls as f64 / time.as_secs_f64(), "calls/s", Some(0.0));
        share
    }

    /// A rollout among all, without and with reviews.
    async fn rollouts(&self, leader: &Program, alone: &Cost, rest: f64) {
        let rollout = Rollout::prepare(self).await;
        tokio::time::sleep(SETTLE).await;
        let among = rollout.roll(leader, "among").await;
        let per_pod = |value: f64| value / f64::from(self.arguments.pods);
        for (name, cost) in [("alone", alone), ("among", &among)] {
            let name = format!("roll-{name}");
            self.figure(&format!("{name}-calls-per-pod"), per_pod(cost.calls as f64), "calls", None);
            self.figure(&format!("{name}-cpu-per-pod"), per_pod(cost.cpu.as_secs_f64() * 1e6), "us", None);
            self.figure(&format!("{name}-time"), cost.took.as_secs_f64(), "s", None);
        }
        // What the rest of the cluster costs is a figure of its own.
        let cpu = among.cpu.as_secs_f64() - among.took.as_secs_f64() * rest;
        self.figure("roll-calls-ratio", among.calls as f64 / alone.calls as f64, "x", Some(RATIO));
        self.figure("roll-cpu-ratio", cpu / alone.cpu.as_secs_f64(), "x", Some(RATIO));

        create(&self.client, [object("v1", "Namespace", REVIEWED)]).await;
        let address = ([127, 0, 0, 1], self.port).into();
        // A SidecarSet of the first unit is for this Pod.
        let app = format!(r#""app":"{}-web-00""#, Unit::new(0).token());
        let body = String::from_utf8(review::pod()).expect("JSON").replacen(r#""app":"checkout""#, &app, 1);
        // It ends with the thread that starts it, which is ours.
        let directory = self.directory.path();
        let mut reviews = Generator::steady(directory, address, "/mutate-pod", body.as_bytes(), REVIEWS);
        let (done, mut ended) = tokio::sync::oneshot::channel();
        let rounds = tokio::task::spawn_blocking(move || {
            let mut rounds = Vec::new();
            while ended.try_recv().is_err() {
                rounds.push(reviews.round().p99);
            }
            rounds
        });
        let rolled = async {
            rollout.roll(leader, "reviewed").await;
            done.send(()).expect("reviews go on");
        };
        let ((), rounds) = join(rolled, rounds).await;
        let slowest = rounds.expect("reviews are answered").into_iter().fold(0.0, f64::max);
        self.figure("roll-review-p99", slowest, "us", Some(10_000.0));
    }

    /// Counts the calls that are meant, other than for Leases and Events, and prints them.
    fn report(&self, what: &str, before: &Calls, is_meant: impl Fn(&Call) -> bool) -> usize {
        let mut total = 0;
        for (call, count) in self.calls_since(before) {
            let is_ours = call.agent.starts_with("kruise-manager") && is_meant(&call);
            if is_ours && !["leases", "events"].contains(&call.resource.as_str()) {
                progress(&format!("  {what}: {count} {} {} {}", call.verb, call.resource, call.code));
                total += count;
            }
        }
        total
    }

    fn figure(&self, name: &str, value: f64, unit: &str, goal: Option<f64>) {
        figure(&format!("{}-{name}", self.name), value, unit, goal);
    }
}
