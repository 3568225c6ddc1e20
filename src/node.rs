//! `kutter node`: wiring of the agent of one node (docs/behaviour/node-agent.md).

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::Args;
use cluster::client::Connector;
use cluster::requests::Requests;
use cri::runtime::Calls;
use node::images::{self, Images};
use node::metrics::Metrics;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Registry, TextEncoder};
use tokio::runtime::Builder;
use tracing::{info, warn};
use webhooks::server::{ConnectionLimits, Server};

use crate::arguments::{AcceptedArguments, boolean, environment};
use crate::serve::{bind_address, install_cryptography, settings, stop_signal};

/// Arguments of `kutter node`: those of OpenKruise's daemon (docs/behaviour/node-agent.md#arguments), and a few of
/// our own.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArguments {
    /// Kubeconfig to use outside a cluster
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Address of /healthz and /metrics, plain HTTP
    #[arg(long, default_value = ":10221")]
    addr: String,
    /// Socket of the container runtime below --socket-directory; empty: the usual ones
    #[arg(long, default_value = "")]
    socket_file: String,
    /// Where the sockets of container runtimes are
    #[arg(long, value_name = "DIR", default_value = "/hostvarrun")]
    socket_directory: PathBuf,
    /// The most images that are pulled at a time; 0 and less: no limit
    #[arg(long, default_value = "-1", allow_hyphen_values = true)]
    max_workers_for_pull_image: i64,
    /// File of the token with which the server is asked for pull Secrets
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/kutter/token")]
    token_file: PathBuf,
    /// Feature gates: A=true,B=false
    #[arg(long, default_value = "", value_delimiter = ',', action = clap::ArgAction::Append)]
    feature_gates: Vec<String>,
    /// Log lines as `text` or `json`
    #[arg(long, default_value = "text")]
    logging_format: String,
    /// Log level: up to 3 tells the important, 4 is normal, 5 and more tells details
    #[arg(long, default_value = "4")]
    v: i32,
    /// Configuration of credential providers, which this program does not ask
    #[arg(long, hide = true)]
    plugin_config_file: Option<PathBuf>,
    /// As plugin-config-file
    #[arg(long, hide = true)]
    plugin_bin_dir: Option<PathBuf>,
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
    settings::start_logging(arguments.v, &arguments.logging_format);
    // One thread is enough: what takes time is done by the runtime and the API server.
    let runtime = Builder::new_current_thread().enable_all().build().context("no runtime can start")?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    let mut stop = stop_signal()?;
    arguments.gates()?;
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self()))?;
    let configuration = cluster::client::configuration(arguments.kubeconfig.as_deref()).await?;
    let connector = Connector::new(configuration, Requests::register(&registry)?);
    let version = connector.connect("kruise-daemon")?.apiserver_version().await;
    let version = version.context("the API server does not tell its version")?;
    info!(version = version.git_version, "the API server answers");
    let node = environment("NODE_NAME", "");
    if node.is_empty() {
        return Err(anyhow!("not found NODE_NAME in environments"));
    }
    let address = &arguments.addr;
    let listener = bind_address(address).await.with_context(|| format!("address {address} can't be used"))?;
    let runtime = arguments.runtime(&Calls::register(&registry)?).await?;
    info!(runtime = runtime.name(), node, "the container runtime answers");
    arguments.warn_of_traps();

    let synced = Arc::new(AtomicBool::new(false));
    let images = Images {
        client: connector.connect("kruise-daemon/kruise-daemon-imagepuller")?,
        token: arguments.token_file.clone(),
        node,
        runtime,
        most: usize::try_from(arguments.max_workers_for_pull_image).ok().and_then(NonZeroUsize::new),
        metrics: Metrics::register(&registry)?,
        synced: synced.clone(),
    };
    // The counters of connections are those of admission, which are not shown here.
    let limits = ConnectionLimits::default();
    let mut server =
        Server::start_plain(listener, pages(registry, synced), limits, &webhooks::Metrics::new()?)
            .with_context(|| format!("address {address} can't be served"))?;
    tokio::select! {
        () = stop.received() => info!("stopping"),
        () = server.ended() => return Err(anyhow!("the server of {address} ended")),
        () = images::run(images) => return Err(anyhow!("the watch of the NodeImage ended")),
    }
    Ok(ExitCode::SUCCESS)
}

/// `/healthz` and `/metrics`.
fn pages(registry: Registry, synced: Arc<AtomicBool>) -> Router {
    let health = move || {
        let answer = if synced.load(Ordering::Relaxed) {
            (StatusCode::OK, "ok")
        } else {
            let reason = "check nodeImageInformerSynced failed, err: not synced";
            (StatusCode::INTERNAL_SERVER_ERROR, reason)
        };
        async move { answer }
    };
    let metrics = move || {
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let answer = match text {
            Ok(text) => (StatusCode::OK, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        async move { answer }
    };
    Router::new().route("/healthz", get(health)).route("/metrics", get(metrics))
}

impl NodeArguments {
    fn gates(&self) -> anyhow::Result<api::features::FeatureGates> {
        let legacy = environment("CUSTOM_RESOURCE_ENABLE", "");
        api::features::FeatureGates::parse(&self.feature_gates.join(","), &legacy).context("--feature-gates")
    }

    /// The runtime that has the images of the node.
    async fn runtime(&self, calls: &Calls) -> anyhow::Result<cri::Runtime> {
        let file = Some(self.socket_file.as_str()).filter(|file| !file.is_empty());
        let detected = cri::detect(&self.socket_directory, file, calls).await?;
        for (socket, error) in detected.passed_over {
            warn!(socket = %socket.display(), %error, "a container runtime can't be used and is passed over");
        }
        detected.runtimes.into_iter().next().context("no container runtime is left")
    }

    /// Tells of arguments without effect.
    fn warn_of_traps(&self) {
        if self.enable_pprof.unwrap_or(self.pprof_addr.is_some()) {
            warn!("--enable-pprof and --pprof-addr have no effect: this program serves no /debug/pprof");
        }
        if self.plugin_config_file.is_some() || self.plugin_bin_dir.is_some() {
            warn!(
                "--plugin-config-file and --plugin-bin-dir have no effect: no credential providers are asked"
            );
        }
        let given = self.accepted.given();
        if !given.is_empty() {
            warn!(arguments = ?given, "arguments without effect: what they tune does not exist here");
        }
    }
}
