//! Random histories of workloads against the running program. `make histories` plays many.
//!
//! A history is a workload and what people do to it, some changes at a time. It is played twice: by the program, on an API
//! server with fake nodes, and by the simulation, which uses the same planner. After each step both have to come to the
//! same Pods, claims and counts, and Pods have to have the same fate: who stays, whose containers restart, how many are new.
//! From outside a watch says whether too few Pods were ready or too many there, and the audit log how much was written.
//! Where Kubernetes runs the Pods of a UnitedDeployment, only subsets, revisions, images and counts are compared.
//!
//! `make chaos` plays them while faults happen to two replicas of the program at random moments.
//!
//! A history comes from one seed. Where one goes wrong, it is played again without those changes that it goes wrong
//! without, and printed.
//!
//! | environment | means |
//! |---|---|
//! | `KUTTER_HISTORY_SEED` | the seed of the first history; the next ones have the next numbers |
//! | `KUTTER_HISTORY_LAST_SEED` | that of the last one |
//! | `KUTTER_HISTORY_SECONDS` | how long histories are played; one that goes wrong ends it |
//! | `KUTTER_HISTORY_CHANGES` | how many changes are played, however long it takes and whatever goes wrong |

mod author;
mod change;
mod faults;
mod oracle;
mod state;
mod trial;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Mutex as Lock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::features::FeatureGates;
use api::kinds::broadcastjob::BroadcastJob;
use api::kinds::cloneset::CloneSet;
use api::kinds::daemonset::DaemonSet;
use api::kinds::statefulset::StatefulSet;
use futures::future::{self, join_all};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kinds::uniteddeployment::children::ChildKind;
use kinds::uniteddeployment::plan::world::World;
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, Expansion, Provisioner, Proxy};
use serde_json::Value;
use simulator::fleet::Fleet;
use simulator::{Cluster, STORAGE_CLASS};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::product::{self, Product};
use crate::service::{self, Endpoint};
use crate::support::in_use;
use author::Dice;
use change::{History, Of};
use trial::{Failure, Figures};

/// Nodes of the cluster.
const NODES: usize = 4;
/// Histories that are played at the same time.
const BESIDE: usize = 6;
/// After so many changes each it is said how many there were.
const REPORTED: usize = 500;
/// The kinds of workload, as often as they are chosen.
const KINDS: [Of; 15] = [
    Of::Kind("CloneSet"),
    Of::Kind("CloneSet"),
    Of::Kind("CloneSet"),
    Of::Kind("StatefulSet"),
    Of::Kind("StatefulSet"),
    Of::Kind("StatefulSet"),
    Of::Kind("DaemonSet"),
    Of::Kind("DaemonSet"),
    Of::Kind("BroadcastJob"),
    Of::Subsets(ChildKind::CloneSet),
    Of::Subsets(ChildKind::CloneSet),
    Of::Subsets(ChildKind::AdvancedStatefulSet),
    Of::Subsets(ChildKind::AdvancedStatefulSet),
    Of::Subsets(ChildKind::Deployment),
    Of::Subsets(ChildKind::StatefulSet),
];
/// Steps of a history.
const STEPS: usize = 12;

/// An API server with the program on it, which may be killed and start again.
pub struct Site {
    server: ApiServer,
    gates: FeatureGates,
    options: product::Options,
    /// Its replicas, which are called while they are ready.
    replicas: Mutex<Vec<(Product, Endpoint)>>,
    /// How often it was killed.
    restarts: AtomicUsize,
    /// What was written, by whom.
    audit: PathBuf,
    /// The program's way to the API server, where faults happen.
    proxy: Option<Proxy>,
    _nodes: FakeNodes,
    _volumes: Provisioner,
    _directory: TempDir,
}

/// Every write that the API server has answered.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request", "verbs": ["create", "update", "patch", "delete"], "resources": [{"group": ""}]}]}"#;

impl Site {
    /// `has_faults` where faults are to happen to two replicas of the program, instead of none to one.
    async fn open(has_faults: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (policy, audit) = (directory.path().join("policy.json"), directory.path().join("audit.log"));
        std::fs::write(&policy, AUDIT_POLICY).unwrap();
        let options = kit::Options::default()
            .with_controller_manager()
            .argument(&format!("--audit-policy-file={}", policy.display()))
            .argument(&format!("--audit-log-path={}", audit.display()));
        let server = product::server(options).await;
        let gates = format!(
            "{},PodUnavailableBudgetUpdateGate=true,StatefulSetAutoResizePVCGate=true",
            product::GATES
        );
        let options = product::Options::default()
            .gates(&gates)
            .argument("--leader-election-lease-duration=4s")
            .argument("--leader-election-renew-deadline=3s")
            .argument("--leader-election-retry-period=1s");
        let proxy = if has_faults { Some(Proxy::start(&server).await) } else { None };
        let options = proxy.iter().fold(options, |options, proxy| options.server(&proxy.url));
        let mut replicas = Vec::new();
        for _ in 0..=usize::from(has_faults) {
            replicas.push(replica(&server, &options).await);
        }
        in_use(&server).await;
        let nodes = fake_nodes::Options::nodes(NODES).binding_pods();
        let nodes = FakeNodes::start(server.client(), nodes).await;
        let gates = FeatureGates::parse(&gates, "").unwrap();
        let expansion = Some(Expansion::AtOnce);
        let volumes = Provisioner::start(server.client(), STORAGE_CLASS, expansion, directory.path()).await;
        Self {
            server,
            gates,
            options,
            replicas: Mutex::new(replicas),
            restarts: AtomicUsize::new(0),
            audit,
            proxy,
            _nodes: nodes,
            _volumes: volumes,
            _directory: directory,
        }
    }

    /// Writes of the program to Pods of this namespace that were carried out and arrived since this moment; they are beyond
    /// this place in the audit log.
    fn writes(&self, namespace: &str, (place, moment): (u64, Timestamp)) -> Vec<String> {
        let mut file = File::open(&self.audit).unwrap();
        file.seek(SeekFrom::Start(place)).unwrap();
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let arrived = |entry: &Value| entry["requestReceivedTimestamp"].as_str()?.parse::<Timestamp>().ok();
        // The last line may not be whole yet.
        let entries = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let is_ours = |entry: &Value| {
            entry["objectRef"]["namespace"] == namespace
                && entry["objectRef"]["resource"] == "pods"
                && entry["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kruise-manager"))
                && entry["responseStatus"]["code"].as_u64().is_some_and(|code| code < 400)
                // Entries are written when requests have been answered: some come late.
                && arrived(entry) >= Some(moment)
        };
        let line = |entry: Value| {
            let object = &entry["objectRef"];
            let of_creation = entry["verb"] == "create";
            let body = if of_creation { Value::Null } else { entry["requestObject"].clone() };
            format!("{} {} {} {body}", entry["verb"], object["name"], object["subresource"])
        };
        entries.filter(is_ours).map(line).collect()
    }

    /// The end of the audit log, and the present moment.
    fn audited(&self) -> (u64, Timestamp) {
        (std::fs::metadata(&self.audit).map_or(0, |file| file.len()), Timestamp::now())
    }

    /// How often the program was killed so far.
    fn restarts(&self) -> usize {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Kills all replicas, or only the one that leads, and starts as many.
    async fn restart(&self, only_leader: bool) {
        let mut replicas = self.replicas.lock().await;
        self.restarts.fetch_add(1, Ordering::Relaxed);
        for (product, endpoint) in std::mem::take(&mut *replicas) {
            if only_leader && !product.leads().await {
                replicas.push((product, endpoint));
                continue;
            }
            product.kill().await;
            endpoint.leave().await;
            replicas.push(replica(&self.server, &self.options).await);
        }
    }
}

/// A replica of the program, which has just started.
async fn replica(server: &ApiServer, options: &product::Options) -> (Product, Endpoint) {
    let product = Product::start(server, options.clone()).await;
    let endpoint = service::join(server, &product).await;
    (product, endpoint)
}

async fn play(site: &Site, history: &History, deadline: Instant) -> Result<Figures, (usize, Failure)> {
    match history.of {
        Of::Kind("CloneSet") => trial::play::<Cluster<'static, CloneSet>>(site, history, deadline).await,
        Of::Kind("StatefulSet") => {
            trial::play::<Cluster<'static, StatefulSet>>(site, history, deadline).await
        }
        Of::Kind("BroadcastJob") => {
            trial::play::<Cluster<'static, BroadcastJob>>(site, history, deadline).await
        }
        Of::Kind(_) => trial::play::<Cluster<'static, DaemonSet>>(site, history, deadline).await,
        Of::Subsets(ChildKind::CloneSet) => {
            trial::play::<Fleet<'static, CloneSet>>(site, history, deadline).await
        }
        Of::Subsets(ChildKind::AdvancedStatefulSet) => {
            trial::play::<Fleet<'static, StatefulSet>>(site, history, deadline).await
        }
        Of::Subsets(_) => trial::play::<World>(site, history, deadline).await,
    }
}

/// The history without the changes without which it goes wrong all the same.
async fn shortened(site: &Site, mut history: History, deadline: Instant) -> History {
    while Instant::now() < deadline {
        let fails = async |candidate: &History| play(site, candidate, deadline).await.is_err();
        let candidates = history.places().into_iter().map(|place| {
            let shorter = history.without(&[place]);
            async move { fails(&shorter).await.then_some(place) }
        });
        let needless: Vec<_> =
            stream::iter(candidates).buffered(BESIDE).filter_map(future::ready).collect().await;
        let Some(first) = needless.first() else { break };
        let shortest = history.without(&needless);
        history = if fails(&shortest).await { shortest } else { history.without(&[*first]) };
    }
    history
}

/// A number that the environment may replace.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Says something also where the test's output is kept back.
fn say(text: &str) {
    _ = writeln!(std::io::stderr(), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_changes_lead_to_where_the_simulation_leads() {
    histories(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "played by `make chaos`"]
async fn they_lead_there_also_through_faults() {
    histories(true).await;
}

/// Plays histories, while faults happen or not.
async fn histories(has_faults: bool) {
    let now = u64::try_from(Timestamp::now().as_microsecond()).unwrap();
    let seed = setting("KUTTER_HISTORY_SEED", now % 1_000_000_000);
    let wanted = setting("KUTTER_HISTORY_CHANGES", 0) as usize;
    let time = Duration::from_secs(setting("KUTTER_HISTORY_SECONDS", if wanted > 0 { 36_000 } else { 60 }));
    say(&format!("histories from KUTTER_HISTORY_SEED={seed}"));
    let site = Site::open(has_faults).await;
    let deadline = Instant::now() + time;
    let last = setting("KUTTER_HISTORY_LAST_SEED", u64::MAX);
    let next = AtomicU64::new(seed);
    let done = Lock::new(BTreeMap::<Of, Figures>::new());
    let failed = Lock::new(Vec::new());
    let line = async || {
        while Instant::now() < deadline {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > last {
                break;
            }
            let history = author::history(Dice::new(seed).of(&KINDS), seed, STEPS);
            let played = play(&site, &history, deadline).await;
            let mut done = done.lock().unwrap();
            let figures = done.entry(history.of).or_default();
            let is_enough = match played {
                Ok(own) => {
                    figures.add(&own);
                    let changes = done.values().map(|own| own.changes).sum::<usize>();
                    if wanted > 0 && changes / REPORTED > (changes - own.changes) / REPORTED {
                        say(&format!("{changes} changes"));
                    }
                    wanted > 0 && changes >= wanted
                }
                Err((steps, failure)) => {
                    figures.failures += 1;
                    say(&format!("{} {seed}: {failure}", history.of));
                    failed.lock().unwrap().push((history.until(steps), failure));
                    wanted == 0
                }
            };
            if is_enough {
                break;
            }
        }
    };
    let faults = faults::Counts::default();
    let happen = async {
        match has_faults {
            true => faults::happen(&site, seed, &faults).await,
            false => future::pending().await,
        }
    };
    tokio::select! {
        _ = join_all((0..BESIDE).map(|_| line())) => {}
        () = happen => {}
    }
    for (fault, count) in faults.into_inner().unwrap() {
        say(&format!("{fault:?}: {count}"));
    }
    if let Some(proxy) = &site.proxy {
        proxy.set_away(false);
        proxy.fail_writes(false);
        in_use(&site.server).await;
    }
    let mut all = Figures::default();
    for (of, figures) in done.into_inner().unwrap() {
        say(&format!("{of}: {figures}"));
        all.add(&figures);
    }
    say(&format!("all: {all}"));
    let failed = failed.into_inner().unwrap();
    if let Some((history, failure)) = failed.into_iter().next() {
        let limit = Instant::now() + time.min(Duration::from_secs(600));
        let shortest = shortened(&site, history.clone(), limit).await;
        panic!(
            "KUTTER_HISTORY_SEED={} {}: {failure}\nthe shortest history that goes wrong:\n{shortest}",
            history.seed, history.of
        );
    }
}
