//! `kutter serve --objects DIR`: admission over HTTPS with no API server, for tests of other programs.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cluster::reservation::Reservations;
use informers::files::Objects;
use informers::{Index, Lookup};
use kinds::podunavailablebudget::reserve::Rules;
use kinds::workloadspread::slots::Slots;
use tracing::info;
use webhooks::probes::{self, Checks};
use webhooks::router::{Limits, router};
use webhooks::server::{ConnectionLimits, Server, bind};
use webhooks::{Admission, Metrics, ProtectionLog};

use super::settings::{self, Settings};

/// Serves the answers that the objects in `directory` give, until a stop signal.
pub(crate) async fn serve(directory: &Path, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut stop = super::stop_signal()?;
    let objects = Objects::read(&[directory.to_owned()])?;
    let world = objects.world("default", &settings.install_namespace);
    let metrics = Metrics::new()?;
    let state = Arc::new(Admission {
        gates: settings.gates.clone(),
        index: Arc::new(Index::fixed(world)),
        lookup: Lookup::files(objects),
        flags: settings.admission_flags(),
        metrics: metrics.clone(),
        protection_log: ProtectionLog::open(&settings.protection_log_path),
        spreads: Reservations::new(None, Slots),
        budgets: Reservations::new(None, Rules::new(&settings.gates)),
        refusals: None,
        clock: settings::clock(),
    });
    let (resolver, _) = certs::offline(&settings.certificates).await?;
    let listener = bind(settings.webhook_port)
        .with_context(|| format!("port {} can't be used", settings.webhook_port))?;
    let router = router(state, Limits::default());
    let server = Server::start(listener, resolver, router, ConnectionLimits::default(), &metrics)
        .context("the webhook server can't start")?;
    let checks = Checks { liveness: Arc::new(|| Ok(())), readiness: Arc::new(|| Ok(())) };
    let _health =
        super::serve_at(&settings.health_probe_addr, None, probes::health_router(checks), &metrics).await?;
    let _metrics = super::serve_at(
        &settings.metrics_addr,
        None,
        probes::metrics_router(metrics.registry().clone(), None, None),
        &metrics,
    )
    .await?;
    let authority = settings.certificates.directory.join("ca-cert.pem");
    info!(address = %server.local_address(), authority = %authority.display(), "serving from files");
    stop.received().await;
    server.drain(Duration::ZERO, Duration::from_secs(5)).await;
    Ok(ExitCode::SUCCESS)
}
