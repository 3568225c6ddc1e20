//! The controllers: they run on the replica that holds the Lease.
//!
//! ```text
//!   lib         what a controller is given to run (Context), and the start of all of them
//!     '-- workload    what all controllers share: watches, stores, queue, Events, writes
//!           '-- cloneset, sidecarset, ...   one file or folder for each kind: what it watches, what it plans
//! ```
//!
//! Keys go through queues that keep each key once and never block who feeds them; a reconcile that
//! fails or panics is tried again with growing pauses and disturbs no other object.

mod error;
pub mod workload;

pub mod advancedcronjob;
pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod ephemeraljob;
pub mod imagelistpulljob;
pub mod imagepulljob;
mod images;
pub mod launch_priority;
pub mod nodeimage;
mod nodepodprobe;
pub mod persistentpodstate;
pub mod pod_readiness;
mod podprobemarker;
pub mod podunavailablebudget;
mod probes;
pub mod resourcedistribution;
mod restart_on;
mod rollouts;
pub mod sidecar_terminator;
pub mod sidecarset;
pub mod statefulset;
pub mod storage_version;
pub mod uniteddeployment;
pub mod workloadspread;

pub mod metrics;

use std::sync::Arc;
use std::time::Duration;

use api::features::{Feature, FeatureGates};
use cluster::election::Election;
use informers::Index;
use jiff::tz::TimeZone;
use kinds::workloadspread::version::VersionedKinds;
#[cfg(test)]
use kit::double as fake;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{error, info};

pub use crate::error::ReconcileError;

use crate::images::Images;
use crate::metrics::Metrics;
use crate::probes::Probes;
use crate::workload::pods::Pods;
use crate::workload::stores::Stores;

/// Pause before controllers start again after one of them failed.
const RESTART_PAUSE: Duration = Duration::from_secs(5);

/// What the controllers need to run.
#[derive(Clone)]
pub struct Context {
    /// A client of the controllers' own runtime.
    pub client: Client,
    /// A client that asks once, for evictions: budgets refuse them for long, and have the client try again.
    pub evicting: Client,
    /// Where they count.
    pub metrics: Arc<Metrics>,
    /// What admission knows of the cluster: they read Namespaces there.
    pub index: Arc<Index>,
    /// How they run.
    pub settings: Arc<Settings>,
}

/// How the controllers run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which of them run, and how.
    pub gates: FeatureGates,
    /// Where ControllerRevisions of cluster-wide objects are.
    pub install_namespace: String,
    /// CloneSets that are reconciled at a time.
    pub cloneset_workers: usize,
    /// Pods that prepare for their deletion do not count when CloneSets are scaled.
    pub cloneset_scaling_exclude_preparing_delete: bool,
    /// StatefulSets that are reconciled at a time.
    pub statefulset_workers: usize,
    /// DaemonSets that are reconciled at a time.
    pub daemonset_workers: usize,
    /// BroadcastJobs that are reconciled at a time.
    pub broadcastjob_workers: usize,
    /// The kinds whose Pods are created on their Nodes; the scheduler binds those of others.
    pub bypassing_scheduler: Vec<&'static str>,
    /// SidecarSets that are reconciled at a time.
    pub sidecarset_workers: usize,
    /// ContainerRecreateRequests that are reconciled at a time.
    pub crr_workers: usize,
    /// AdvancedCronJobs that are reconciled at a time.
    pub advancedcronjob_workers: usize,
    /// The zone of schedules that name none.
    pub time_zone: TimeZone,
    /// Pods that the SidecarTerminator reconciles at a time.
    pub sidecarterminator_workers: usize,
    /// ResourceDistributions that are reconciled at a time.
    pub resourcedistribution_workers: usize,
    /// UnitedDeployments that are reconciled at a time.
    pub uniteddeployment_workers: usize,
    /// WorkloadSpreads that are reconciled at a time.
    pub workloadspread_workers: usize,
    /// PersistentPodStates that are reconciled at a time.
    pub persistentpodstate_workers: usize,
    /// The kinds whose Pods have quotas in WorkloadSpreads for each version.
    pub versioned: VersionedKinds,
    /// PodUnavailableBudgets that are reconciled at a time.
    pub podunavailablebudget_workers: usize,
    /// NodeImages that are reconciled at a time.
    pub nodeimage_workers: usize,
    /// ImagePullJobs that are reconciled at a time.
    pub imagepulljob_workers: usize,
    /// How long a Node must have been ready before it gets a NodeImage.
    pub nodeimage_creation_delay: Duration,
    /// Seconds that tasks stay on NodeImages beyond the time of a job that ends.
    pub task_ttl_seconds: i32,
    /// PodProbeMarkers that are reconciled at a time.
    pub podprobemarker_workers: usize,
    /// NodePodProbes that are reconciled at a time.
    pub nodepodprobe_workers: usize,
    /// Where the agents of the nodes may read Secrets.
    pub config_namespace: String,
    /// Rollouts that are reconciled at a time.
    pub rollout_workers: usize,
    /// BatchReleases that are reconciled at a time.
    pub batchrelease_workers: usize,
    /// TrafficRoutings that are reconciled at a time.
    pub trafficrouting_workers: usize,
    /// Deployments of Rollouts that are reconciled at a time.
    pub deployment_workers: usize,
    /// DaemonSets of Rollouts that are reconciled at a time.
    pub nativedaemonset_workers: usize,
    /// Rollouts whose histories are reconciled at a time.
    pub rollouthistory_workers: usize,
}

#[cfg(test)]
impl Context {
    /// That of tests: nothing changes in what admission knows, and each controller has one worker.
    pub(crate) fn fixed(client: Client, known: admission::world::World) -> Self {
        Self {
            evicting: client.clone(),
            client,
            metrics: Arc::new(Metrics::register(&prometheus::Registry::new(), "test").unwrap()),
            index: Arc::new(Index::fixed(known)),
            settings: Arc::new(Settings::of_one_worker()),
        }
    }
}

#[cfg(test)]
impl Settings {
    /// Those of tests: each controller has one worker.
    pub(crate) fn of_one_worker() -> Self {
        Self {
            gates: FeatureGates::default(),
            install_namespace: "kruise-system".to_owned(),
            cloneset_workers: 1,
            cloneset_scaling_exclude_preparing_delete: false,
            statefulset_workers: 1,
            daemonset_workers: 1,
            broadcastjob_workers: 1,
            bypassing_scheduler: Vec::new(),
            sidecarset_workers: 1,
            crr_workers: 1,
            advancedcronjob_workers: 1,
            time_zone: TimeZone::UTC,
            sidecarterminator_workers: 1,
            resourcedistribution_workers: 1,
            uniteddeployment_workers: 1,
            workloadspread_workers: 1,
            persistentpodstate_workers: 1,
            versioned: VersionedKinds::default(),
            podunavailablebudget_workers: 1,
            nodeimage_workers: 1,
            imagepulljob_workers: 1,
            nodeimage_creation_delay: Duration::from_secs(30),
            task_ttl_seconds: 300,
            podprobemarker_workers: 1,
            nodepodprobe_workers: 1,
            config_namespace: "kruise-daemon-config".to_owned(),
            rollout_workers: 1,
            batchrelease_workers: 1,
            trafficrouting_workers: 1,
            deployment_workers: 1,
            nativedaemonset_workers: 1,
            rollouthistory_workers: 1,
        }
    }
}

/// Runs every controller whenever this replica leads; ends when the election does. Stopping in the
/// middle of anything is safe: each write leaves a state from which the next leader continues.
pub async fn run_while_leading(context: Context, election: &Election) {
    let metrics = context.metrics.clone();
    while_leading(&metrics, election.leading.clone(), || run(context.clone())).await;
}

/// Runs every controller until it is dropped, on a replica that takes part in no election.
pub async fn run_unelected(context: Context) {
    context.metrics.set_unelected();
    run(context).await;
}

/// Runs every controller until it is dropped.
pub async fn run(context: Context) {
    supervise(|| start(&context)).await;
}

async fn while_leading<F: Future<Output = ()>>(
    metrics: &Metrics,
    mut leading: watch::Receiver<bool>,
    work: impl Fn() -> F,
) {
    loop {
        let leads = *leading.borrow_and_update();
        metrics.set_leader(leads);
        let changed = if leads {
            info!("leading: controllers start");
            tokio::select! {
                () = work() => Ok(()),
                lost = lost(&mut leading) => lost,
            }
        } else {
            leading.changed().await
        };
        if changed.is_err() {
            break;
        }
    }
    // The last word of an election that ended may have been that we lead.
    info!("the election ended: controllers stop");
    metrics.set_leader(false);
}

async fn lost(leading: &mut watch::Receiver<bool>) -> Result<(), watch::error::RecvError> {
    drop(leading.wait_for(|leads| !leads).await?);
    info!("not leading any more: controllers stop");
    Ok(())
}

/// Runs the tasks that `start` starts; when one ends or panics, all are stopped and started again, for
/// the others wait for what it sends.
async fn supervise(start: impl Fn() -> JoinSet<()>) {
    loop {
        let mut tasks = start();
        match tasks.join_next().await {
            Some(Err(error)) => error!(%error, "a controller failed: all start again"),
            Some(Ok(())) | None => error!("a controller ended: all start again"),
        }
        tasks.shutdown().await;
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

fn start(context: &Context) -> JoinSet<()> {
    let terminator = context.settings.gates.enabled(Feature::SidecarTerminator);
    let pods = Arc::new(Pods::new(terminator));
    let namespace = &context.settings.install_namespace;
    let stores = Arc::new(Stores::new(pods.clone(), context.index.clone(), namespace));
    stores.count(&context.metrics);
    let caches = &context.metrics.caches;
    caches.count("pods", "Pod", &pods, Pods::len);
    caches.count("waiting-pods", "Pod", &pods, |pods| pods.waiting().len());
    caches.count("sidecarset-accounts", "Pod", &pods, |pods| pods.ledger().len());
    let mut tasks = JoinSet::new();
    if podunavailablebudget::is_on(context) {
        podunavailablebudget::ask_for_pods(context, &stores);
        tasks.spawn(podunavailablebudget::run(context.clone(), stores.clone()));
    }
    tasks.spawn(stores.clone().follow(context.client.clone()));
    tasks.spawn(pod_readiness::run(context.clone(), pods.clone()));
    tasks.spawn(launch_priority::run(context.clone(), pods.clone()));
    tasks.spawn(sidecarset::run(context.clone(), stores.clone()));
    tasks.spawn(cloneset::run(context.clone(), stores.clone()));
    tasks.spawn(statefulset::run(context.clone(), stores.clone()));
    tasks.spawn(daemonset::run(context.clone(), stores.clone()));
    tasks.spawn(broadcastjob::run(context.clone(), stores.clone()));
    tasks.spawn(ephemeraljob::run(context.clone(), pods.clone()));
    tasks.spawn(advancedcronjob::run(context.clone()));
    tasks.spawn(uniteddeployment::run(context.clone(), stores.clone()));
    if containerrecreaterequest::is_on(context) {
        tasks.spawn(containerrecreaterequest::run(context.clone(), pods.clone()));
    }
    if context.settings.gates.enabled(Feature::KruiseDaemon) {
        start_images(context, &stores, &mut tasks);
    }
    if context.settings.gates.enabled(Feature::PodProbeMarkerGate) {
        start_probes(context, &stores, &mut tasks);
    }
    if workloadspread::is_on(context) {
        tasks.spawn(workloadspread::run(context.clone(), stores.clone()));
    }
    rollouts::start(context, &stores, &mut tasks);
    tasks.spawn(persistentpodstate::run(context.clone(), stores));
    if terminator {
        tasks.spawn(sidecar_terminator::run(context.clone(), pods));
    }
    if context.settings.gates.enabled(Feature::ResourceDistributionGate) {
        tasks.spawn(resourcedistribution::run(context.clone()));
    }
    if context.settings.gates.enabled(Feature::RestartOnConfiguration) {
        tasks.spawn(restart_on::run(context.clone()));
    }
    let with_rollouts = context.settings.gates.enabled(Feature::Rollouts);
    tasks.spawn(storage_version::run(context.client.clone(), with_rollouts));
    tasks
}

/// Starts the controllers of images.
fn start_images(context: &Context, stores: &Arc<Stores>, tasks: &mut JoinSet<()>) {
    let images = Arc::new(Images::default());
    images.count(&context.metrics);
    let pulls = context.settings.gates.enabled(Feature::ImagePullJobGate);
    let config_namespace = pulls.then(|| context.settings.config_namespace.clone());
    tasks.spawn(images::watch(images.clone(), context.client.clone(), config_namespace));
    if pulls {
        tasks.spawn(imagepulljob::run(context.clone(), images.clone(), stores.clone()));
        tasks.spawn(imagelistpulljob::run(context.clone(), images.clone()));
    }
    tasks.spawn(nodeimage::run(context.clone(), images, stores.clone()));
}

/// Starts the controllers of probes.
fn start_probes(context: &Context, stores: &Arc<Stores>, tasks: &mut JoinSet<()>) {
    let probes = Arc::new(Probes::default());
    probes.count(&context.metrics);
    let (names, named) = mpsc::unbounded_channel();
    tasks.spawn(probes::watch(probes.clone(), context.client.clone()));
    tasks.spawn(nodepodprobe::run(context.clone(), probes.clone(), stores.clone(), (names.clone(), named)));
    tasks.spawn(podprobemarker::run(context.clone(), probes, stores.clone(), names));
}

/// The clock of the controllers, and their chance: the one place where they read either.
fn now() -> values::moment::Moment {
    use std::hash::{BuildHasher, RandomState};
    // The hasher's keys are random per process and other ones each time.
    values::moment::Moment { now: jiff::Timestamp::now(), seed: RandomState::new().hash_one(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::{Instant, timeout};

    fn metrics() -> Metrics {
        Metrics::register(&prometheus::Registry::new(), "test").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_or_ends_stops_all_and_starts_them_again() {
        let (starts, alive) = (AtomicUsize::new(0), Arc::new(()));
        let begun = Instant::now();
        let (third, mut reached) = watch::channel(false);
        let supervised = supervise(|| {
            let mut tasks = JoinSet::new();
            let held = alive.clone();
            // Of each start, this is the only task left.
            assert_eq!(Arc::strong_count(&alive), 2);
            tasks.spawn(async move {
                pending::<()>().await;
                drop(held);
            });
            match starts.fetch_add(1, Ordering::SeqCst) {
                0 => drop(tasks.spawn(async { panic!("a defect") })),
                1 => drop(tasks.spawn(async {})),
                _ => drop(third.send(true)),
            }
            tasks
        });
        tokio::select! {
            () = supervised => {}
            third = reached.wait_for(|reached| *reached) => drop(third.unwrap()),
        }
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert_eq!(begun.elapsed(), RESTART_PAUSE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_election_that_ends_while_we_lead_stops_the_controllers_for_good() {
        let (sender, leading) = watch::channel(true);
        let (metrics, starts) = (metrics(), AtomicUsize::new(0));
        let work = || {
            starts.fetch_add(1, Ordering::SeqCst);
            assert!(metrics.leads());
            pending()
        };
        let running = while_leading(&metrics, leading, work);
        let end = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(sender);
        };
        tokio::join!(async { timeout(Duration::from_secs(60), running).await.unwrap() }, end);
        assert_eq!(starts.load(Ordering::SeqCst), 1);
        assert!(!metrics.leads());
    }

    #[tokio::test]
    async fn controllers_without_an_election_lead() {
        let (client, _requests) = fake::api_server(|_| (503, fake::status(503)));
        let context = Context::fixed(client, admission::world::World::new("kruise-system"));
        let running = tokio::spawn(run_unelected(context.clone()));
        while !context.metrics.leads() {
            assert!(!running.is_finished());
            tokio::task::yield_now().await;
        }
        running.abort();
    }
}
