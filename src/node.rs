//! `kutter node`: wiring of the agent of one node (docs/behaviour/node-agent.md).

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admission::rotation::Step;
use anyhow::{Context, anyhow};
use api::features::{Feature, FeatureGates};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::Args;
use cluster::client::Connector;
use cluster::queue::QueueMetrics;
use cluster::requests::Requests;
use cri::Runtime;
use cri::runtime::Calls;
use jiff::Timestamp;
use kube::Client;
use node::exit_order::{self, ExitOrder};
use node::images::providers::Providers;
use node::images::records::Records;
use node::images::{self, Images};
use node::meta::{self, Meta};
use node::metrics::Metrics;
use node::pods;
use node::probes::{self, Probing};
use node::recreate::{self, Recreate};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use rustls::sign::SingleCertAndKey;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tracing::{info, warn};
use values::server_version::ServerVersion;
use webhooks::MetricsAccess;
use webhooks::probes::metrics_router;
use webhooks::server::{ConnectionLimits, Server};

use crate::arguments::{AcceptedArguments, environment};
use crate::logging;
use crate::serve::{bind_address, stop_signal};
use cluster::client::install_cryptography;
use kubectl_kruise::arguments::boolean;

/// Arguments of `kutter node`: those of OpenKruise's daemon (docs/behaviour/node-agent.md#arguments), and a few of
/// our own.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArguments {
    /// Kubeconfig to use outside a cluster
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Address of /healthz and /metrics
    #[arg(long, default_value = ":10221")]
    addr: String,
    /// Serve that address over TLS, and /metrics to those whose token may get it at the API server, instead of plain HTTP
    /// to everybody
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    metrics_secure: bool,
    /// Socket of the container runtime below --socket-directory; empty: the usual ones
    #[arg(long, default_value = "")]
    socket_file: String,
    /// Where the sockets of container runtimes are
    #[arg(long, value_name = "DIR", default_value = "/hostvarrun")]
    socket_directory: PathBuf,
    /// The most images that are pulled at a time; 0 and less: no limit
    #[arg(long, default_value = "-1", allow_hyphen_values = true)]
    max_workers_for_pull_image: i64,
    /// Where it is kept which images came with pull Secrets; without it a restart forgets that
    #[arg(long, value_name = "DIR")]
    state_directory: Option<PathBuf>,
    /// File of the token with which the server is asked for pull Secrets
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/kutter/token")]
    token_file: PathBuf,
    /// Configuration of credential providers, as of the kubelet; without the file there are none
    #[arg(long, value_name = "FILE", default_value = "/kruise/CredentialProviderPlugin.yaml")]
    plugin_config_file: PathBuf,
    /// Directory of the programs of credential providers
    #[arg(long, value_name = "DIR", default_value = "/kruise/plugins")]
    plugin_bin_dir: PathBuf,
    /// Feature gates: A=true,B=false
    #[arg(long, default_value = "", value_delimiter = ',', action = clap::ArgAction::Append)]
    feature_gates: Vec<String>,
    /// Log lines as `text` or `json`
    #[arg(long, default_value = "text")]
    logging_format: String,
    /// Log level: up to 3 logs what is important, 4 is normal, 5 and more logs details
    #[arg(long, default_value = "4")]
    v: i32,
    /// Address of OpenKruise's profiles, which this program does not have
    #[arg(long, hide = true)]
    pprof_addr: Option<String>,
    /// As pprof-addr
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    enable_pprof: Option<bool>,
    #[command(flatten)]
    accepted: AcceptedArguments,
}

/// Serves the node until a stop signal.
pub(crate) fn run(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    install_cryptography();
    logging::start(arguments.v, &arguments.logging_format);
    // One thread is enough: what takes time is done by the runtime and the API server.
    let runtime = Builder::new_current_thread().enable_all().build().context("no runtime can start")?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    let mut stop = stop_signal()?;
    let gates = arguments.gates()?;
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self()))?;
    let configuration = cluster::client::configuration(arguments.kubeconfig.as_deref()).await?;
    let connector = Connector::new(configuration, Requests::register(&registry)?);
    let version = connector.connect("kruise-daemon")?.apiserver_version().await;
    let version = version.context("the API server does not tell its version")?;
    info!(version = version.git_version, "the API server answers");
    ServerVersion::OLDEST_OF_AGENTS.refuse_older(&version.git_version).map_err(anyhow::Error::msg)?;
    let node = environment("NODE_NAME", "");
    if node.is_empty() {
        return Err(anyhow!("not found NODE_NAME in environments"));
    }
    let address = &arguments.addr;
    let listener = bind_address(address).await.with_context(|| format!("address {address} can't be used"))?;
    let runtimes = arguments.runtimes(&Calls::register(&registry)?).await?;
    let names: Vec<&str> = runtimes.iter().map(Runtime::name).collect();
    info!(?names, node, "the container runtime answers");
    arguments.warn_of_traps();

    let agent = Agent {
        connector,
        node,
        runtimes,
        metrics: Metrics::register(&registry)?,
        probes: probes::Metrics::register(&registry)?,
        queues: QueueMetrics::register(&registry)?,
    };
    let providers = Providers::read(&arguments.plugin_config_file, &arguments.plugin_bin_dir).await;
    let (mut tasks, checks) = agent.start(arguments, providers, &gates)?;
    let server = agent.serve(arguments.metrics_secure, listener, registry, checks);
    let mut server = server.with_context(|| format!("address {address} can't be served"))?;
    tokio::select! {
        () = stop.received() => info!("stopping"),
        () = server.ended() => return Err(anyhow!("the server of {address} ended")),
        ended = tasks.join_next() => return Err(anyhow!("a part of the agent ended: {ended:?}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// What all parts of the agent need.
struct Agent {
    connector: Connector,
    node: String,
    runtimes: Arc<[Runtime]>,
    metrics: Metrics,
    probes: probes::Metrics,
    queues: QueueMetrics,
}

/// Whether something holds.
type Check = Box<dyn Fn() -> bool + Send + Sync>;
/// What has to hold before the agent is healthy, by name.
type Checks = Vec<(&'static str, Check)>;

impl Agent {
    /// Starts the parts of the agent.
    fn start(
        &self,
        arguments: &NodeArguments,
        providers: Providers,
        gates: &FeatureGates,
    ) -> anyhow::Result<(JoinSet<()>, Checks)> {
        let mut tasks = JoinSet::new();
        let synced = Arc::new(AtomicBool::new(false));
        tasks.spawn(images::run(Images {
            client: self.client("imagepuller")?,
            token: arguments.token_file.clone(),
            providers,
            records: arguments.records()?,
            node: self.node.clone(),
            runtime: self.first_runtime()?,
            most: usize::try_from(arguments.max_workers_for_pull_image).ok().and_then(NonZeroUsize::new),
            metrics: self.metrics.clone(),
            synced: synced.clone(),
        }));
        let requests = Arc::new(recreate::requests());
        tasks.spawn(recreate::run(Recreate {
            client: self.client("crr")?,
            node: self.node.clone(),
            runtimes: self.runtimes.clone(),
            metrics: self.metrics.clone(),
            queues: self.queues.clone(),
            requests: requests.clone(),
        }));
        if gates.enabled(Feature::DaemonWatchingPod) {
            self.start_with_pods(gates, &mut tasks)?;
        }
        let mut checks: Checks = vec![
            ("nodeImageInformerSynced", Box::new(move || synced.load(Ordering::Relaxed))),
            ("crrInformerSynced", Box::new(move || requests.is_synced())),
        ];
        if gates.enabled(Feature::PodProbeMarkerGate) {
            let synced = Arc::new(AtomicBool::new(false));
            tasks.spawn(probes::run(Probing {
                client: self.client("podprobe")?,
                node: self.node.clone(),
                runtime: self.first_runtime()?,
                metrics: self.probes.clone(),
                synced: synced.clone(),
            }));
            checks.push(("nodePodProbeInformerSynced", Box::new(move || synced.load(Ordering::Relaxed))));
        }
        Ok((tasks, checks))
    }

    /// Starts the parts that follow the Pods of the node.
    fn start_with_pods(&self, gates: &FeatureGates, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
        let pods = Arc::new(pods::pods());
        let (client, node) = (self.client("containermeta")?, self.node.clone());
        tasks.spawn(meta::run(Meta {
            client: client.clone(),
            node: node.clone(),
            runtimes: self.runtimes.clone(),
            metrics: self.metrics.clone(),
            queues: self.queues.clone(),
            pods: pods.clone(),
            with_environment: gates.enabled(Feature::InPlaceUpdateEnvFromMetadata),
        }));
        if gates.enabled(Feature::ContainerExitPriority) {
            tasks.spawn(exit_order::run(ExitOrder {
                client: self.client("exitorder")?,
                node: node.clone(),
                runtimes: self.runtimes.clone(),
                metrics: self.metrics.clone(),
                pods: pods.clone(),
            }));
        }
        tasks.spawn(async move { pods::watch(client, &node, &pods).await });
        Ok(())
    }

    /// Serves `/healthz` and `/metrics`. A caller of protected ones has no authority to know the agent by: its certificate
    /// is as good as any.
    fn serve(
        &self,
        is_secure: bool,
        listener: TcpListener,
        registry: Registry,
        checks: Checks,
    ) -> anyhow::Result<Server> {
        // The counters of connections are those of admission, which are not shown here.
        let (limits, unseen) = (ConnectionLimits::default(), webhooks::Metrics::new()?);
        if !is_secure {
            return Ok(Server::start_plain(listener, pages(registry, checks, None), limits, &unseen)?);
        }
        let access = MetricsAccess::new(self.client("metrics")?);
        let create = Step::Create { bundle: Vec::new() };
        let made = certs::carry_out(&create, &certs::Material::default(), &[], &self.node, Timestamp::now())?;
        let certificate = Arc::new(SingleCertAndKey::from(made.certified_key()?));
        Ok(Server::start(listener, certificate, pages(registry, checks, Some(access)), limits, &unseen)?)
    }

    /// The runtime of images and probes.
    fn first_runtime(&self) -> anyhow::Result<Runtime> {
        self.runtimes.first().cloned().context("no container runtime is left")
    }

    /// A client that names itself as a part of the agent.
    fn client(&self, part: &str) -> anyhow::Result<Client> {
        Ok(self.connector.connect(&format!("kruise-daemon/kruise-daemon-{part}"))?)
    }
}

/// `/healthz` and `/metrics`.
fn pages(registry: Registry, checks: Checks, access: Option<MetricsAccess>) -> Router {
    let checks = Arc::new(checks);
    let health = move || {
        let failing = checks.iter().find(|(_, holds)| !holds());
        let answer = match failing {
            None => (StatusCode::OK, "ok".to_owned()),
            Some((name, _)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("check {name} failed, err: not synced"))
            }
        };
        async move { answer }
    };
    metrics_router(registry, None, access).route("/healthz", get(health))
}

impl NodeArguments {
    fn gates(&self) -> anyhow::Result<FeatureGates> {
        let legacy = environment("CUSTOM_RESOURCE_ENABLE", "");
        FeatureGates::parse(&self.feature_gates.join(","), &legacy).context("--feature-gates")
    }

    /// What is known of private images.
    fn records(&self) -> anyhow::Result<Records> {
        let Some(directory) = &self.state_directory else { return Ok(Records::default()) };
        Records::open(directory).with_context(|| format!("directory {} can't be used", directory.display()))
    }

    /// The runtimes of the node; the first one has its images.
    async fn runtimes(&self, calls: &Calls) -> anyhow::Result<Arc<[Runtime]>> {
        let file = Some(self.socket_file.as_str()).filter(|file| !file.is_empty());
        let detected = cri::detect(&self.socket_directory, file, calls).await?;
        for (socket, error) in detected.passed_over {
            warn!(socket = %socket.display(), %error, "a container runtime can't be used and is passed over");
        }
        Ok(detected.runtimes.into())
    }

    /// Reports arguments that are missing or without effect.
    fn warn_of_traps(&self) {
        if self.state_directory.is_none() {
            warn!("without --state-directory a restart forgets which images came with pull Secrets");
        }
        if self.enable_pprof.unwrap_or(self.pprof_addr.is_some()) {
            warn!("--enable-pprof and --pprof-addr have no effect: this program serves no /debug/pprof");
        }
        let given = self.accepted.given();
        if !given.is_empty() {
            warn!(arguments = ?given, "arguments without effect: what they tune does not exist here");
        }
    }
}
