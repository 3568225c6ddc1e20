//! `kutter serve`: wiring. Admission and controllers live in one process on runtimes of their own, so
//! that a stuck controller can't delay an answer.

mod controllers_runtime;
mod heartbeat;
mod objects;
mod readiness;
mod settings;
mod silence;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admission::world::World;
use anyhow::Context;
use api::features::Feature;
use axum::Router;
use certs::{CertificateResolver, ClientCertificates};
use cluster::client::Connector;
use cluster::events::Recorder;
use cluster::requests::Requests;
use cluster::reservation::Reservations;
use controllers::metrics::Metrics as ControllerMetrics;
use informers::{Lookup, feed};
use kinds::podunavailablebudget::reserve::Rules;
use kinds::workloadspread::slots::Slots;
use kube::Client;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::{debug, error, info, warn};
use values::moment::Moment;
use values::server_version::ServerVersion;
use webhooks::probes::{self, Checks};
use webhooks::router::{Limits, router};
use webhooks::server::{ConnectionLimits, Drained, Server, bind};
use webhooks::{Admission, Metrics, MetricsAccess, ProtectionLog, PullSecrets, Refusals};

use crate::arguments::ServeArguments;
use crate::logging;
use heartbeat::Heartbeat;
use readiness::Readiness;
use settings::Settings;

/// Longest time for calls in flight after draining.
const IN_FLIGHT: Duration = Duration::from_secs(30);
/// Longest time for the controllers to stop and the Lease to be given up.
const RESIGN: Duration = Duration::from_secs(5);
/// Pause before an API server that does not report its version is asked again.
const VERSION_RETRY: Duration = Duration::from_secs(1);

/// Serves until a stop signal.
pub(crate) fn run(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    cluster::client::install_cryptography();
    logging::start(arguments.v, &arguments.logging_format);
    let settings = Settings::new(arguments)?;
    let admission = runtime("admission")?;
    if let Some(directory) = &arguments.objects {
        return admission.block_on(objects::serve(directory, &settings));
    }
    let controllers = runtime("controllers")?;
    let code = admission.block_on(serve(&settings, &admission, &controllers));
    controllers.shutdown_background();
    admission.shutdown_background();
    code
}

fn runtime(name: &str) -> anyhow::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    Builder::new_multi_thread()
        .thread_name(name)
        .worker_threads(if name == "admission" { threads } else { 1 })
        .enable_all()
        .build()
        .with_context(|| format!("the {name} runtime can't start"))
}

async fn serve(settings: &Settings, admission: &Runtime, controllers: &Runtime) -> anyhow::Result<ExitCode> {
    let mut stop = stop_signal()?;
    let metrics = Metrics::new()?;
    let configuration = cluster::client::configuration(settings.kubeconfig.as_deref()).await?;
    let connector = Connector::new(configuration, Requests::register(metrics.registry())?);
    let client = connector.connect("kruise-manager")?;

    let world = World::new(&settings.install_namespace).versioning(settings.controllers.versioned.clone());
    let index = feed::awaiting(world.clone(), &settings.gates);
    let mut feeding = {
        let (client, index, namespace) = (client.clone(), index.clone(), settings.install_namespace.clone());
        tokio::spawn(async move { feed::run(client, &namespace, world, index).await })
    };
    let recorder = Recorder::new(client.clone(), "kruise-manager", std::env::var("POD_NAME").ok());
    let counted = ControllerMetrics::register(metrics.registry(), &settings.election.name)?;
    let counted = Arc::new(counted.showing(settings.shown_kinds.clone()));
    let certificate_metrics =
        certs::CertificateMetrics::register(metrics.registry(), counted.queues.clone())?;
    let mut certificates =
        certs::start(client.clone(), settings.certificates.clone(), recorder.clone(), certificate_metrics);

    let state = Arc::new(Admission {
        gates: settings.gates.clone(),
        index: index.clone(),
        lookup: Lookup::cluster(client.clone()),
        flags: settings.admission_flags(),
        metrics: metrics.clone(),
        protection_log: ProtectionLog::open(&settings.protection_log_path),
        spreads: Reservations::new(Some(client.clone()), Slots),
        budgets: Reservations::new(Some(client.clone()), Rules::new(&settings.gates)),
        refusals: Some(Refusals::new(Recorder::new(
            client.clone(),
            "pub-controller",
            std::env::var("POD_NAME").ok(),
        ))),
        clock: settings::clock(),
    });
    let mut server = serve_webhooks(settings, state, client.clone(), &certificates, &metrics)?;
    let _metrics = serve_metrics(settings, client.clone(), &certificates, &metrics, counted.clone()).await?;
    let readiness = Readiness::new(index.clone(), &certificates);
    let heartbeats = [
        Heartbeat::start("admission", admission.handle()),
        Heartbeat::start("controllers", controllers.handle()),
    ];
    let _health = serve_health(settings, &metrics, &readiness, heartbeats).await?;
    let mut leading = controllers_runtime::start(
        settings,
        connector,
        counted.clone(),
        index.clone(),
        readiness.clone(),
        controllers,
    );
    for kind in index.kinds() {
        counted.caches.count("admission", kind, &index, move |index| index.world().count(kind));
    }
    let too_old = too_old(client.clone());
    let listener = silence::Listener { client, index, recorder, controllers: counted };
    listener.start(settings.silence, metrics.registry())?;
    settings.warn_of_traps();

    let mut code = ExitCode::SUCCESS;
    tokio::select! {
        () = stop.received() => info!("stopping"),
        // What is cached is of a state that is no more, and watches go on from there.
        () = leading.restored() => {
            warn!("stopping, to begin anew from what etcd was restored to");
            code = ExitCode::FAILURE;
        }
        refusal = too_old => return Err(anyhow::Error::msg(refusal)),
        // An external issuer takes its time; ending would not make it faster.
        () = readiness.failed_to_initialize(settings.initialize_timeout),
            if settings.certificates.mode != certs::Mode::External =>
        {
            error!(timeout = ?settings.initialize_timeout, reason = readiness.reason(), "not initialized in time");
            return Ok(ExitCode::FAILURE);
        }
        // All run forever: if one ends, this replica would be deaf or grow stale unseen.
        () = server.ended() => return Err(anyhow::anyhow!("the webhook server ended")),
        end = &mut feeding => return Err(anyhow::anyhow!("the watches ended: {end:?}")),
        end = &mut certificates.task => return Err(anyhow::anyhow!("the publication of certificates ended: {end:?}")),
    }
    readiness.stop();
    // A replica that leaves must not undo what its successor publishes.
    certificates.task.abort();
    let (drained, resigned) =
        tokio::join!(server.drain(settings.drain, IN_FLIGHT), timeout(RESIGN, leading.stop()));
    if drained == Drained::Cut {
        warn!("some calls were not answered");
    }
    if resigned.is_err() {
        warn!("the controllers did not stop in time");
    }
    feeding.abort();
    info!("stopped");
    Ok(code)
}

/// Ends with what is needed where the API server is too old; else never.
async fn too_old(client: Client) -> String {
    loop {
        match client.apiserver_version().await {
            Ok(version) => match ServerVersion::OLDEST.refuse_older(&version.git_version) {
                Ok(()) => std::future::pending().await,
                Err(refusal) => return refusal,
            },
            Err(error) => debug!(%error, "the API server does not tell its version"),
        }
        tokio::time::sleep(VERSION_RETRY).await;
    }
}

fn serve_webhooks(
    settings: &Settings,
    state: Arc<Admission>,
    client: Client,
    certificates: &certs::Certificates,
    metrics: &Metrics,
) -> anyhow::Result<Server> {
    let listener = bind(settings.webhook_port)
        .with_context(|| format!("port {} can't be used", settings.webhook_port))?;
    let mut router = router(state, Limits::default()).with_callers(certificates.callers.clone());
    if settings.gates.enabled(Feature::KruiseDaemon) {
        let namespace = settings.controllers.config_namespace.clone();
        router = router.with_pull_secrets(PullSecrets::new(client, &settings.install_namespace, namespace));
    }
    let (resolver, limits) = (certificates.resolver.clone(), ConnectionLimits::default());
    let server = match &settings.client_authorities {
        Some((file, names)) => {
            let clients =
                Arc::new(ClientCertificates::read(file.clone(), names.clone()).context("--client-ca-file")?);
            let following = clients.clone();
            tokio::spawn(async move { following.follow().await });
            Server::start_for(clients, listener, resolver, router.for_certified(), limits, metrics)
        }
        None => Server::start(listener, resolver, router, limits, metrics),
    };
    server.context("the webhook server can't start")
}

async fn serve_metrics(
    settings: &Settings,
    client: Client,
    certificates: &certs::Certificates,
    metrics: &Metrics,
    counted: Arc<ControllerMetrics>,
) -> anyhow::Result<Option<Server>> {
    let protection =
        settings.metrics_secure.then(|| (MetricsAccess::new(client), certificates.resolver.clone()));
    let (access, resolver) = protection.unzip();
    let objects: probes::ObjectMetrics = Arc::new(move || counted.object_text());
    let router = probes::metrics_router(metrics.registry().clone(), Some(objects), access);
    serve_at(&settings.metrics_addr, resolver, router, metrics).await
}

async fn serve_health(
    settings: &Settings,
    metrics: &Metrics,
    readiness: &Readiness,
    heartbeats: [Heartbeat; 2],
) -> anyhow::Result<Option<Server>> {
    let ready = readiness.clone();
    let checks = Checks {
        liveness: Arc::new(move || heartbeats.iter().try_for_each(Heartbeat::check)),
        readiness: Arc::new(move || ready.check()),
    };
    serve_at(&settings.health_probe_addr, None, probes::health_router(checks), metrics).await
}

/// Serves `router` until the server is dropped, over TLS where there are certificates; address `0` switches it off.
async fn serve_at(
    address: &str,
    certificates: Option<Arc<CertificateResolver>>,
    router: Router,
    metrics: &Metrics,
) -> anyhow::Result<Option<Server>> {
    if address == "0" {
        return Ok(None);
    }
    let listener = bind_address(address).await.with_context(|| format!("address {address} can't be used"))?;
    let limits = ConnectionLimits::default();
    let server = match certificates {
        Some(certificates) => Server::start(listener, certificates, router, limits, metrics),
        None => Server::start_plain(listener, router, limits, metrics),
    };
    Ok(Some(server.with_context(|| format!("address {address} can't be served"))?))
}

/// Listens on `:8080` (every address) or on `127.0.0.1:8080`.
pub(crate) async fn bind_address(address: &str) -> anyhow::Result<TcpListener> {
    match address.strip_prefix(':') {
        Some(port) => Ok(bind(port.parse()?)?),
        None => Ok(TcpListener::bind(address).await?),
    }
}

/// SIGTERM or SIGINT.
pub(crate) struct StopSignal {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

/// Listens for stop signals from now on.
pub(crate) fn stop_signal() -> anyhow::Result<StopSignal> {
    Ok(StopSignal {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    })
}

impl StopSignal {
    /// Waits for the first of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The time and a seed for one decision.
pub(crate) fn moment() -> Moment {
    let now = jiff::Timestamp::now();
    // The hasher's keys are random per process, the counter in it makes each seed new.
    let seed = std::hash::BuildHasher::hash_one(
        &std::collections::hash_map::RandomState::new(),
        now.as_nanosecond(),
    );
    Moment { now, seed }
}
