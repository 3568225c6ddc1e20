//! The program at an API server in memory that holds the whole cluster, and what it costs there.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use benches::in_memory::{ApiServer, Call, Calls};
use benches::process::Generator;
use benches::program::{Memory, Program};
use benches::report::{figure, megabytes, progress};
use benches::review;
use futures::future::join;
use kit::builders::object;
use serde_json::{Value, json};

use crate::Run;
use crate::copies;
use crate::rollout::{Cost, Rollout};
use crate::traffic::Traffic;
use crate::unit::{NODES, PODS, Unit};

const INSTALL_NAMESPACE: &str = "kruise-system";
const SERVICE: &str = "kruise-webhook-service";
/// Reviews per second, and seconds of a round of them.
const REVIEWS: (u32, u32) = (500, 5);
/// How much more a rollout may cost among all than alone.
const RATIO: f64 = 1.2;
/// The load knows the paths of reviews by their plain names. A machine that is busy with other things deposes no leader.
const ARGUMENTS: [&str; 3] =
    ["--legacy-paths", "--leader-election-lease-duration=120s", "--leader-election-renew-deadline=90s"];
/// How long the traffic goes on before anything is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// Measures everything.
pub(crate) async fn measure(arguments: &Run) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let alone = alone(arguments, directory.path()).await;
    let stand = Stand::start(arguments, directory.path()).await;
    let program = stand.program("first");
    program.wait_ready().await;
    program.wait_leading().await;
    copies::fill(&stand.server, program, arguments.units()).await;

    progress("the program takes the copies over: hashes of names differ");
    let program = stand.program("second");
    stand.wait_filled(&program).await;
    program.wait_quiet().await;
    program.stop();

    let leader = stand.begin().await;
    stand.standby().await;
    let traffic = Traffic::start(&stand.server);
    tokio::time::sleep(SETTLE).await;
    let rest = stand.rest(&leader, arguments.rest()).await;
    stand.rollouts(&leader, arguments.pods, &alone, rest).await;
    drop(traffic);
    let peak = megabytes(leader.memory(Memory::Peak));
    figure("scale-leader-memory", peak, "MB", Some(250.0));
    leader.stop();
}

/// A rollout in a cluster that has nothing else.
async fn alone(arguments: &Run, directory: &Path) -> Cost {
    let stand = Stand::start(arguments, directory).await;
    let program = stand.program("alone");
    program.wait_ready().await;
    program.wait_leading().await;
    program.wait_quiet().await;
    figure("scale-empty-leader-memory", megabytes(program.memory(Memory::Peak)), "MB", None);
    let rollout = Rollout::prepare(&stand.server, arguments.pods).await;
    program.wait_quiet().await;
    let cost = rollout.roll(&program, "2.42.0").await;
    program.stop();
    cost
}

/// An API server in memory for which the program is installed.
struct Stand<'a> {
    server: ApiServer,
    arguments: &'a Run,
    directory: &'a Path,
    port: u16,
}

impl<'a> Stand<'a> {
    async fn start(arguments: &'a Run, directory: &'a Path) -> Self {
        let port = kit::api_server::free_port();
        let server = ApiServer::start(Some(port)).await;
        for definition in definitions(&arguments.kutter) {
            server.put(definition);
        }
        // The Pod under review is in the last one.
        for namespace in [INSTALL_NAMESPACE, "kruise-daemon-config", "kube-node-lease", "team-000"] {
            server.put(object("v1", "Namespace", namespace));
        }
        let ports = json!([{"name": "https", "port": 443, "targetPort": port}]);
        let service = object("v1", "Service", SERVICE).in_namespace(INSTALL_NAMESPACE);
        server.put(service.with("/spec", json!({"clusterIP": "127.0.0.1", "ports": ports})));
        let slice = object("discovery.k8s.io/v1", "EndpointSlice", SERVICE).in_namespace(INSTALL_NAMESPACE);
        let endpoint = json!({"addresses": ["127.0.0.1"], "conditions": {"ready": true}});
        server.put(
            slice
                .label("kubernetes.io/service-name", SERVICE)
                .with("/addressType", "IPv4")
                .with("/ports", json!([{"name": "https", "port": port, "protocol": "TCP"}]))
                .with("/endpoints", json!([endpoint])),
        );
        Self { server, arguments, directory, port }
    }

    fn program(&self, name: &str) -> Program {
        self.program_at(self.port, name)
    }

    fn program_at(&self, port: u16, name: &str) -> Program {
        let log = self.directory.join(format!("{name}.log"));
        let kubeconfig = self.server.kubeconfig(self.directory);
        Program::start(&self.arguments.kutter, port, &kubeconfig, &log, &ARGUMENTS)
    }

    /// Waits until the caches of the program are full, most of all those of a leader.
    async fn wait_filled(&self, program: &Program) {
        let units = self.arguments.units() as usize;
        for (cache, objects) in [("sidecarset-accounts", PODS), ("nodes", NODES), ("nodeimages", NODES)] {
            program.wait_cached(cache, units * objects).await;
        }
    }

    /// A leader begins in a cluster at rest.
    async fn begin(&self) -> Program {
        progress("a leader begins");
        let (before, start) = (self.server.calls(), Instant::now());
        let leader = self.program("leader");
        leader.wait_ready().await;
        figure("scale-admission-ready", start.elapsed().as_secs_f64(), "s", None);
        self.wait_filled(&leader).await;
        figure("scale-start", start.elapsed().as_secs_f64(), "s", Some(15.0));
        leader.wait_quiet().await;
        figure("scale-start-quiet", start.elapsed().as_secs_f64(), "s", None);
        figure("scale-start-cpu", leader.cpu().as_secs_f64(), "s", None);
        figure("scale-leader-memory-at-start", megabytes(leader.memory(Memory::Peak)), "MB", None);
        let writes =
            self.report("written at start", &before, |call| call.verb != "get" && call.verb != "list");
        figure("scale-restart-writes", writes as f64, "calls", Some(0.0));
        leader
    }

    /// A standby, which serves admission.
    async fn standby(&self) {
        progress("a standby begins");
        let standby = self.program_at(kit::api_server::free_port(), "standby");
        standby.wait_ready().await;
        standby.wait_quiet().await;
        figure("scale-standby-memory", megabytes(standby.memory(Memory::Peak)), "MB", Some(60.0));
        standby.stop();
    }

    /// Nothing happens that is our concern; the CPU share that this takes.
    async fn rest(&self, leader: &Program, time: Duration) -> f64 {
        progress(&format!("{} s of rest", time.as_secs()));
        let (before, cpu, start) = (self.server.calls(), leader.cpu(), Instant::now());
        tokio::time::sleep(time).await;
        let share = leader.cpu().saturating_sub(cpu).as_secs_f64() / start.elapsed().as_secs_f64();
        figure("scale-rest-cpu", share * 100.0, "%", Some(15.0));
        let calls = self.report("called at rest", &before, |_| true);
        figure("scale-rest-calls", calls as f64 / time.as_secs_f64(), "calls/s", Some(0.0));
        share
    }

    /// A rollout among all, without and with reviews.
    async fn rollouts(&self, leader: &Program, pods: u32, alone: &Cost, rest: f64) {
        let rollout = Rollout::prepare(&self.server, pods).await;
        tokio::time::sleep(SETTLE).await;
        let among = rollout.roll(leader, "2.42.0").await;
        let per_pod = |value: f64| value / f64::from(pods);
        for (name, cost) in [("alone", alone), ("among", &among)] {
            let name = format!("scale-roll-{name}");
            figure(&format!("{name}-calls-per-pod"), per_pod(cost.calls as f64), "calls", None);
            figure(&format!("{name}-cpu-per-pod"), per_pod(cost.cpu.as_secs_f64() * 1e6), "us", None);
            figure(&format!("{name}-time"), cost.took.as_secs_f64(), "s", None);
        }
        // What the rest of the cluster costs is a figure of its own.
        let cpu = among.cpu.as_secs_f64() - among.took.as_secs_f64() * rest;
        figure("scale-roll-calls-ratio", among.calls as f64 / alone.calls as f64, "x", Some(RATIO));
        figure("scale-roll-cpu-ratio", cpu / alone.cpu.as_secs_f64(), "x", Some(RATIO));

        let address = ([127, 0, 0, 1], self.port).into();
        // A SidecarSet of the first unit is for this Pod.
        let app = format!(r#""app":"{}-web-00""#, Unit::new(0).token());
        let body = String::from_utf8(review::pod()).expect("JSON").replacen(r#""app":"checkout""#, &app, 1);
        // It ends with the thread that starts it, which is ours.
        let mut reviews = Generator::steady(self.directory, address, "/mutate-pod", body.as_bytes(), REVIEWS);
        let (done, mut ended) = tokio::sync::oneshot::channel();
        let rounds = tokio::task::spawn_blocking(move || {
            let mut rounds = Vec::new();
            while ended.try_recv().is_err() {
                rounds.push(reviews.round().p99);
            }
            rounds
        });
        let rolled = async {
            rollout.roll(leader, "2.43.0").await;
            done.send(()).expect("reviews go on");
        };
        let ((), rounds) = join(rolled, rounds).await;
        let slowest = rounds.expect("reviews are answered").into_iter().fold(0.0, f64::max);
        figure("scale-roll-review-p99", slowest, "us", Some(10_000.0));
    }

    /// Counts the calls that are meant, other than for Leases and Events, and prints them.
    fn report(&self, what: &str, before: &Calls, is_meant: impl Fn(&Call) -> bool) -> usize {
        let mut total = 0;
        for (call, count) in self.server.calls_since(before) {
            let is_ours = call.agent.starts_with("kruise-manager") && is_meant(&call);
            if is_ours && !["leases", "events"].contains(&call.resource.as_str()) {
                progress(&format!("  {what}: {count} {} {} {}", call.verb, call.resource, call.code));
                total += count;
            }
        }
        total
    }
}

/// The definitions of the program's kinds, as an API server has them that serves them.
fn definitions(kutter: &Path) -> Vec<Value> {
    let output = Command::new(kutter).arg("crds").output().expect("kutter runs");
    assert!(output.status.success(), "kutter crds failed");
    let text = String::from_utf8(output.stdout).expect("YAML");
    let definitions = text.split("---\n").skip(1);
    let definitions = definitions.map(|text| serde_saphyr::from_str::<Value>(text).expect("YAML"));
    definitions
        .map(|mut definition| {
            let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
            let stored = versions.filter(|version| version["storage"] == true);
            let stored: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
            let conditions =
                ["NamesAccepted", "Established"].map(|kind| json!({"type": kind, "status": "True"}));
            let names = definition["spec"]["names"].clone();
            definition["status"] =
                json!({"storedVersions": stored, "conditions": conditions, "acceptedNames": names});
            definition
        })
        .collect()
}
