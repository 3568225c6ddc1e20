//! Notices when the API server does not call us although it should
//! (docs/behaviour/server.md#silence-of-the-api-server). The judgement is `admission::silence`; here
//! the facts are gathered.
//!
//! Calls may all go to one replica, and Pods are watched on the leader. So other replicas write down on the
//! Lease when they were called last, at most four times a window, and the leader reads that only when it heard
//! nothing itself for a whole window.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission::registration::{Configuration, ConfigurationKind};
use admission::silence::{Observation, Suspicion};
use cluster::ApiError;
use cluster::events::{Recorder, Severity, about};
use cluster::resource::{LEASES, MUTATING_WEBHOOKS};
use cluster::write::{self, PatchKind};
use controllers::metrics::Metrics as ControllerMetrics;
use informers::Index;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use prometheus::IntGauge;
use serde::Deserialize;
use tracing::{debug, info, warn};
use webhooks::Metrics;

use super::settings::Settings;

/// Where new Pods are reviewed.
const PATH: &str = "/mutate-pod";
/// On the Lease: when a replica that does not lead was called last.
const LAST_REVIEW: &str = "kutter.io/last-pod-review";

/// What is listened with.
pub(crate) struct Listener {
    pub(crate) client: Client,
    pub(crate) index: Arc<Index>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) controllers: Arc<ControllerMetrics>,
}

/// What was heard so far.
struct Heard {
    reviews: u64,
    since: Timestamp,
    last_review: Option<Timestamp>,
    /// The last review that others were told of, and when they were.
    told: Option<(Timestamp, Timestamp)>,
    suspicion: Option<Suspicion>,
    silent: bool,
}

#[derive(Deserialize)]
struct Annotated {
    metadata: Annotations,
}

#[derive(Deserialize)]
struct Annotations {
    annotations: Option<BTreeMap<String, String>>,
}

impl Listener {
    /// Listens until the task is aborted.
    ///
    /// # Errors
    /// The metric is registered already.
    pub(crate) fn start(self, settings: &Settings) -> prometheus::Result<()> {
        let help = "Whether no review of a Pod came for long although Pods were created.";
        let gauge = IntGauge::new("kutter_webhook_silent", help)?;
        self.metrics.registry().register(Box::new(gauge.clone()))?;
        let window = settings.silence;
        let (namespace, name) = (&settings.election.namespace, &settings.election.name);
        let lease = LEASES.namespaced(namespace).name(name);
        let installation = settings.install_namespace.clone();
        tokio::spawn(async move {
            let since = Timestamp::now();
            let mut heard =
                Heard { reviews: 0, since, last_review: None, told: None, suspicion: None, silent: false };
            loop {
                tokio::time::sleep(window / 10).await;
                self.listen(&mut heard, window, &lease, &installation).await;
                gauge.set(i64::from(heard.silent));
            }
        });
        Ok(())
    }

    async fn listen(&self, heard: &mut Heard, window: Duration, lease: &str, installation: &str) {
        let now = Timestamp::now();
        let reviews = self.metrics.reviews_received(PATH);
        if reviews != heard.reviews {
            (heard.reviews, heard.last_review) = (reviews, Some(now));
        }
        if !self.controllers.leads() {
            (heard.since, heard.suspicion, heard.silent) = (now, None, false);
            return self.tell(heard, now, window, lease).await;
        }
        let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
        let observe = |heard: &Heard, newest_pod| {
            let (since, last_review) = (heard.since, heard.last_review);
            Observation { now, since, last_review, newest_pod, window }
        };
        let elsewhere = |namespace: &str| namespace != "kube-system" && namespace != installation;
        let created = &self.controllers.created_pods;
        let mut observation = observe(heard, created.newest(elsewhere));
        let mut uid = String::new();
        if observation.seems_silent() {
            // So far nobody but us was asked.
            let (others, configuration) = tokio::join!(self.others(lease), self.configuration());
            // Where the API server can't be asked nothing new is known.
            let (Ok(others), Ok(configuration)) = (others, configuration) else { return };
            heard.last_review = heard.last_review.max(others);
            let scope = configuration.as_ref().and_then(Configuration::namespaces_of_reviewed_pods);
            let world = self.index.world();
            let reviewed = |namespace: &str| {
                let labels = world.namespace(namespace).and_then(|namespace| namespace.labels());
                scope.as_ref().zip(labels).is_some_and(|(scope, labels)| scope.matches(labels))
            };
            observation = observe(heard, created.newest(|name| elsewhere(name) && reviewed(name)));
            uid = configuration.as_ref().map_or("", Configuration::uid).to_owned();
        }
        heard.suspicion = observation.suspicion(heard.suspicion);
        let silent = observation.is_silent(heard.suspicion);
        if silent && !heard.silent {
            self.warn(&uid, window).await;
        }
        if heard.silent && !silent {
            info!("the API server calls for reviews of Pods again");
        }
        heard.silent = silent;
    }

    async fn warn(&self, uid: &str, window: SignedDuration) {
        let kind = ConfigurationKind::Mutating;
        let note = format!(
            "Pods were created but no review of one came for {window:#}: can the API server reach the Service? \
             Look at network policies, firewalls and the port"
        );
        warn!("{note}");
        let about = about(MUTATING_WEBHOOKS.api_version, kind.kind(), kind.name(), uid);
        self.recorder.record(&about, Severity::Warning, "Listen", "WebhookSilent", note).await;
    }

    /// Writes down when we were called last, for the leader to read.
    async fn tell(&self, heard: &mut Heard, now: Timestamp, window: Duration, lease: &str) {
        let Some(review) = heard.last_review else { return };
        let pause = SignedDuration::try_from(window / 4).unwrap_or(SignedDuration::MAX);
        if heard.told.is_some_and(|(told, when)| told == review || now.duration_since(when) < pause) {
            return;
        }
        let body = format!(r#"{{"metadata":{{"annotations":{{"{LAST_REVIEW}":"{review}"}}}}}}"#);
        match write::patch(&self.client, lease, PatchKind::Merge, body).await {
            Ok(_) => heard.told = Some((review, now)),
            Err(error) => debug!(%error, "the last review was not written down"),
        }
    }

    /// When another replica was called last, as far as it was told.
    async fn others(&self, lease: &str) -> Result<Option<Timestamp>, ApiError> {
        let lease = write::get(&self.client, lease).await?;
        let lease = lease.and_then(|text| serde_json::from_str::<Annotated>(&text).ok());
        let annotations = lease.and_then(|lease| lease.metadata.annotations);
        Ok(annotations.and_then(|annotations| annotations.get(LAST_REVIEW)?.parse().ok()))
    }

    async fn configuration(&self) -> Result<Option<Configuration>, ApiError> {
        let path = MUTATING_WEBHOOKS.all().name(ConfigurationKind::Mutating.name());
        let text = write::get(&self.client, &path).await?;
        Ok(text.and_then(|text| Configuration::parse(&text).ok()))
    }
}
