//! Notices when the API server does not call us although it should
//! (docs/behaviour/server.md#silence-of-the-api-server). What is asked, and what an answer says, is decided in
//! `admission::silence`; here the leader asks.

use std::sync::Arc;
use std::time::Duration;

use admission::registration::{Configuration, ConfigurationKind};
use admission::silence::{Missed, Probe};
use cluster::events::{Recorder, Severity, about};
use cluster::resource::{MUTATING_WEBHOOKS, PODS};
use cluster::write;
use controllers::metrics::Metrics as ControllerMetrics;
use informers::Index;
use kube::Client;
use prometheus::{IntGauge, Registry};
use tracing::{debug, info, warn};

/// What is asked with.
pub(crate) struct Listener {
    pub(crate) client: Client,
    pub(crate) index: Arc<Index>,
    pub(crate) recorder: Recorder,
    pub(crate) controllers: Arc<ControllerMetrics>,
}

impl Listener {
    /// Asks once a `window` until the task is aborted, and ten times as often while calls are missing.
    ///
    /// # Errors
    /// The metric is registered already.
    pub(crate) fn start(self, window: Duration, registry: &Registry) -> prometheus::Result<()> {
        let help = "Whether the API server lets Pods pass without their review.";
        let gauge = IntGauge::new("kutter_webhook_silent", help)?;
        registry.register(Box::new(gauge.clone()))?;
        tokio::spawn(async move {
            let (mut missed, mut pause) = (Missed::default(), window / 10);
            loop {
                tokio::time::sleep(pause).await;
                (missed, pause) = self.listen(missed, window).await;
                gauge.set(i64::from(missed.is_silence()));
            }
        });
        Ok(())
    }

    /// What is known after another probe, and when the next one is due.
    async fn listen(&self, before: Missed, window: Duration) -> (Missed, Duration) {
        let nobody_asks = (Missed::default(), window / 10);
        if !self.controllers.leads() {
            return nobody_asks;
        }
        let path = MUTATING_WEBHOOKS.all().name(ConfigurationKind::Mutating.name());
        let Ok(found) = write::get(&self.client, &path).await else { return (before, window) };
        let found = found.and_then(|text| Configuration::parse(&text).ok());
        let probe = |found| Probe::new(found, &self.index.world(), super::moment());
        let Some((configuration, probe)) = found.as_ref().and_then(|found| Some((found, probe(found)?)))
        else {
            return nobody_asks;
        };
        let Some(was_reviewed) = self.ask(&probe).await else { return (before, window) };
        let missed = before.after(was_reviewed);
        match (before.is_silence(), missed.is_silence()) {
            (false, true) => self.warn(configuration.uid()).await,
            (true, false) => info!("the API server calls for reviews of Pods again"),
            _ => {}
        }
        (missed, if was_reviewed { window } else { window / 10 })
    }

    /// Whether the Pod was reviewed; `None` where it was let in nowhere.
    async fn ask(&self, probe: &Probe) -> Option<bool> {
        for namespace in &probe.namespaces {
            let path = PODS.namespaced(namespace).query("dryRun=All");
            match write::create(&self.client, &path, probe.pod.clone()).await {
                Ok(pod) => return Some(probe.was_reviewed(&pod)),
                Err(error) => debug!(namespace, %error, "a Pod can't be tried out"),
            }
        }
        None
    }

    async fn warn(&self, uid: &str) {
        let kind = ConfigurationKind::Mutating;
        let note = "a Pod was let in without its review: can the API server reach the Service? \
                    Look at network policies, firewalls and the port";
        warn!("{note}");
        let about = about(MUTATING_WEBHOOKS.api_version, kind.kind(), kind.name(), uid);
        self.recorder.record(&about, Severity::Warning, "Listen", "WebhookSilent", note.to_owned()).await;
    }
}
