//! Keeps store, published bundles and served certificate in step: a controller with one key. It runs on every
//! replica and has no leader: writes that are based on an old view are refused by the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::callers::{self, Call, Callers};
use admission::endpoint;
use admission::registration::{Configuration, ConfigurationKind, Definition, Owner, Plan, Waiting, Wanted};
use admission::rotation::{self, Authority, Observation, Step};
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Retry;
use cluster::event_sender::event_sender;
use cluster::events::{Recorder, Severity, about_in};
use cluster::queue::{self, Failure, Next, QueueSettings, Reconciler};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Mutex, watch};
use tracing::{debug, info};
use values::backoff::doubled;
use values::moment::Moment;
use values::segment::Segment;

use crate::material::{self, Material, MaterialError};
use crate::memory::{Edition, PublisherMemory};
use crate::metrics::CertificateMetrics;
use crate::objects::{self, ObjectError, Objects};
use crate::probe::Probe;
use crate::settings::{CertificateSettings, Mode};
use crate::store::{Content, Store, StoreError};
use crate::watches::{Definitions, Wake, watch_all};
use crate::{CertificateResolver, Clock, Status};

const QUEUE: QueueSettings = QueueSettings { name: "certificates", workers: 1 };
/// Rounds of one pass. A rotation takes three; each lost race one more.
const ROUNDS: usize = 12;
/// Retries after a failure (docs/behaviour/api-and-registration.md#how-entries-are-kept).
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));
/// Retries while the Service doesn't answer, or an external issuer has not published.
const WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Two releases side by side may disagree on an entry: they must not fill the API server's time.
const ADDITION_PAUSE: Duration = Duration::from_secs(2);
/// In mode `fs` replicas share the published bundle: at most this many authorities.
const MAX_SHARED: usize = 8;

#[derive(Debug, Error)]
pub(crate) enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Material(#[from] MaterialError),
    #[error("making a certificate was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
    #[error("the objects change faster than they can be written")]
    Contended,
    #[error("namespace {0} is being deleted: nothing is registered any more")]
    Leaving(String),
}

pub(crate) enum PassOutcome {
    Settled,
    Waiting(String),
    /// Tries again after this time.
    Paused(Duration, String),
}

/// What everything is published with in one round.
pub(crate) struct Round<'a> {
    pub(crate) existing: BTreeSet<String>,
    pub(crate) edition: &'a Edition,
    /// The paths that are answered everywhere.
    pub(crate) answering: &'a BTreeSet<String>,
    pub(crate) owner: Option<&'a Owner>,
    pub(crate) leaving: bool,
}

/// How far one round came.
#[derive(Default)]
struct Publication {
    /// An object has changed in between.
    contended: bool,
    /// The API server lets nobody name an owner who may not delete.
    owner_refused: bool,
    waiting: Vec<Waiting>,
    paused: Option<(Duration, String)>,
    /// The first one.
    failure: Option<PassError>,
}

pub(crate) type Configurations = Vec<(ConfigurationKind, Option<Configuration>)>;

pub(crate) struct Publisher {
    pub(crate) settings: CertificateSettings,
    pub(crate) store: Store,
    pub(crate) objects: Objects,
    pub(crate) resolver: Arc<CertificateResolver>,
    pub(crate) bundle: Arc<ArcSwap<String>>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) callers: watch::Sender<Callers>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: CertificateMetrics,
    pub(crate) probe: Probe,
    pub(crate) clock: Clock,
    pub(crate) memory: PublisherMemory,
}

/// The publisher, as its queue calls it.
struct Publishing {
    publisher: Mutex<Publisher>,
    definitions: Definitions,
}

/// A pass that failed.
#[derive(Debug, Error)]
#[error("certificates are not in order: {error}")]
struct Failed {
    error: PassError,
    /// How long what waits has to wait yet.
    due: Option<Duration>,
}

impl Failure for Failed {
    fn retry(&self) -> Retry {
        Retry::WhenHealthy
    }

    fn pauses(&self) -> (Duration, Duration) {
        (RETRY.0, self.due.map_or(RETRY.1, |due| due.min(RETRY.1)))
    }
}

impl Reconciler for Publishing {
    type Key = ();
    type Error = Failed;

    async fn reconcile(&self, (): &()) -> Result<Next, Failed> {
        let mut publisher = self.publisher.lock().await;
        let outcome = match self.definitions.versions() {
            Ok(versions) => publisher.counted_pass(&versions).await,
            Err(unknown) => Ok(PassOutcome::Paused(publisher.settings.resync, unknown)),
        };
        publisher.settle(outcome).await.map(Next::After)
    }

    fn object(&self, (): &()) -> Option<ObjectReference> {
        None
    }
}

impl Publisher {
    /// Runs until the task is aborted.
    pub(crate) async fn run(mut self, client: Client) {
        if let Err(error) = self.load().await {
            debug!(%error, "no certificate at the start");
        }
        let (wake, keys) = unbounded_channel();
        let (settings, recorder, queues) =
            (self.settings.clone(), self.recorder.clone(), self.metrics.queues.clone());
        let definitions = Definitions::new(Wake(wake));
        let publishing = Arc::new(Publishing { publisher: Mutex::new(self), definitions });
        tokio::join!(
            watch_all(&client, &settings, &publishing.definitions),
            queue::serve(
                QUEUE,
                (recorder, &queues),
                ready(()),
                keys,
                publishing.clone(),
                event_sender("Publish")
            ),
        );
    }

    /// Says what came of a pass. Gives when the next one is due, if nothing begins it before.
    async fn settle(&mut self, outcome: Result<PassOutcome, PassError>) -> Result<Duration, Failed> {
        let reason = match &outcome {
            Ok(PassOutcome::Settled) => None,
            Ok(PassOutcome::Waiting(reason) | PassOutcome::Paused(_, reason)) => Some(reason.clone()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            self.status.send_modify(|status| status.reason = reason);
        }
        let pause = match outcome {
            Ok(PassOutcome::Settled) => {
                self.memory.waits = 0;
                let now = (self.clock)();
                let seed = now.subsec_nanosecond().unsigned_abs().into();
                self.settings.resync.mul_f64(1.0 + 0.2 * Moment { now, seed }.random().next_fraction())
            }
            Ok(PassOutcome::Waiting(reason)) => {
                info!(reason, "webhooks are not registered yet");
                self.announce_missing(&reason).await;
                let waits = self.memory.waits;
                self.memory.waits = waits.saturating_add(1);
                doubled(WAIT, waits)
            }
            Ok(PassOutcome::Paused(pause, _)) => pause,
            Err(error) => return Err(Failed { error, due: self.until_due() }),
        };
        Ok(self.until_due().map_or(pause, |due| due.min(pause)))
    }

    /// How long what waits has to wait yet.
    fn until_due(&self) -> Option<Duration> {
        let wait = self.memory.due?.duration_since((self.clock)());
        Some(Duration::try_from(wait).unwrap_or_default())
    }

    /// Serves what is stored before anything else is read: a server that starts beside a stored
    /// certificate and registered webhooks answers at once.
    async fn load(&mut self) -> Result<(), PassError> {
        if let Some(material) = self.read().await?.material {
            self.serve(&material, None)?;
            self.answer(&Segment::parse_all(&material.segments));
        }
        Ok(())
    }

    pub(crate) async fn read(&self) -> Result<Content, StoreError> {
        self.metrics.reads.inc();
        self.store.read().await.inspect_err(|_| self.metrics.read_errors.inc())
    }

    /// A pass, with a metric that says whether it left something to do.
    async fn counted_pass(&mut self, versions: &BTreeMap<String, String>) -> Result<PassOutcome, PassError> {
        let outcome = self.pass(versions).await;
        self.metrics.in_order.set(i64::from(matches!(outcome, Ok(PassOutcome::Settled))));
        outcome
    }

    async fn pass(&mut self, versions: &BTreeMap<String, String>) -> Result<PassOutcome, PassError> {
        self.memory.due = None;
        let (mut answering, mut answered) = (BTreeSet::new(), None);
        let namespace = self.objects.namespace(&self.settings.registration.namespace).await;
        let namespace = namespace.unwrap_or_else(|error| {
            debug!(%error, "the configurations are published without an owner");
            None
        });
        let (mut owner, leaving) = namespace.map_or((None, false), |(owner, leaving)| (Some(owner), leaving));
        for _ in 0..ROUNDS {
            // Objects are read before the store: see `admission::rotation`.
            self.objects.refresh(versions).await?;
            let configurations = self.objects.configurations().await?;
            self.settle_choices(&configurations).await?;
            if self.settings.mode == Mode::External {
                return self.compare(&configurations, versions).await;
            }
            let content = self.read().await?;
            let stored = content.material.as_ref().map_or("", |material| &material.segments);
            let segments = Segment::parse_all(stored);
            self.allow_callers(&configurations, &segments);
            let Some(material) = self.advance(&content, &configurations, None).await? else { continue };
            let text = self.published_bundle(&material, &configurations);
            let wanted = segments.first().copied();
            // Not every replica may know it.
            let changes =
                answered != wanted && self.calls(&configurations).iter().any(|(live, _)| *live != wanted);
            let segment = wanted.filter(|_| !changes);
            let edition = Edition { bundle: STANDARD.encode(&text), segment };
            let round = Round {
                existing: versions.keys().cloned().collect(),
                edition: &edition,
                answering: &answering,
                owner: owner.as_ref(),
                leaving,
            };
            let Publication { contended, owner_refused, waiting, paused, failure } =
                self.publish(&configurations, &round).await;
            if owner_refused {
                owner = None;
            }
            if contended {
                continue;
            }
            if failure.is_none() && paused.is_none() {
                let since = self.memory.published_since(&edition, (self.clock)());
                if self.advance(&content, &configurations, Some(since)).await?.is_none() {
                    continue;
                }
                self.bundle.store(Arc::new(text.clone()));
                self.serve(&material, Some(since))?;
                self.report_published(waiting.is_empty() && !changes);
            }
            // What can't be written must not keep the entries away.
            let outcome = match paused {
                Some((pause, reason)) => Err(PassOutcome::Paused(pause, reason)),
                None => self.probe_paths(waiting, wanted, changes, text).await,
            };
            match (outcome, failure) {
                (Ok(paths), _) => (answering, answered) = (paths, wanted),
                (Err(_), Some(failure)) => return Err(failure),
                (Err(outcome), None) => return Ok(outcome),
            }
        }
        Err(PassError::Contended)
    }

    /// The paths of the entries that may be added now, or why there is none. Everything is called behind
    /// `segment`, which `changes`.
    async fn probe_paths(
        &self,
        waiting: Vec<Waiting>,
        segment: Option<Segment>,
        changes: bool,
        bundle: String,
    ) -> Result<BTreeSet<String>, PassOutcome> {
        if waiting.is_empty() && !changes {
            return Err(PassOutcome::Settled);
        }
        let (names, paths): (Vec<String>, BTreeSet<String>) =
            waiting.into_iter().map(|entry| (entry.name, entry.path)).unzip();
        let names = names.join(", ");
        let pause = self.memory.added.and_then(|added| ADDITION_PAUSE.checked_sub(added.elapsed()));
        if let Some(pause) = pause.filter(|_| !paths.is_empty()) {
            return Err(PassOutcome::Paused(pause, format!("removed again by somebody: {names}")));
        }
        // Any path shows that something changes.
        let any = endpoint::paths(&self.settings.gates).min().filter(|_| paths.is_empty());
        let asked = paths.iter().map(String::as_str).chain(any);
        let called =
            asked.map(|path| segment.map_or_else(|| path.to_owned(), |segment| segment.before(path)));
        match (self.probe)(bundle, called.collect()).await {
            Ok(()) => Ok(paths),
            Err(error) => {
                let reason = format!("the webhook server does not answer yet: {error} ({names})");
                Err(PassOutcome::Waiting(reason))
            }
        }
    }

    pub(crate) fn report_published(&self, registered: bool) {
        self.status.send_if_modified(|status| {
            let wanted = Status { published: true, registered, reason: String::new() };
            let differs = *status != wanted;
            *status = wanted;
            differs
        });
    }

    /// Takes the next step of the rotation. The material, or `None` where the store has changed.
    async fn advance(
        &mut self,
        content: &Content,
        configurations: &Configurations,
        published: Option<Timestamp>,
    ) -> Result<Option<Material>, PassError> {
        let dns_name = self.settings.dns_name();
        let now = (self.clock)();
        let stored = content.material.as_ref().map(|material| material.facts(&dns_name));
        let remembered = self.memory.material.as_ref().map(|material| material.facts(&dns_name));
        let observed = self.own_authorities(configurations);
        let authorities: Vec<Authority> = observed.iter().filter_map(material::authority).collect();
        let step = rotation::next(
            &Observation {
                stored: stored.as_ref(),
                remembered: remembered.as_ref(),
                served: self.memory.served.as_ref(),
                authorities: &authorities,
                published,
            },
            self.settings.timing,
            now,
        );
        if let Step::AwaitUptake { until } = step {
            self.wait_until(until);
        }
        let base = match (&step, &content.material, &self.memory.material) {
            (Step::Keep | Step::AwaitPublication | Step::AwaitUptake { .. }, Some(material), _) => {
                let segments = self.segments(material, false, published)?;
                if segments == material.segments {
                    return Ok(Some(material.clone()));
                }
                info!("the segments in front of paths change");
                self.store.write(content, &Material { segments, ..material.clone() }).await?;
                return Ok(None);
            }
            (Step::Restore { .. }, _, Some(memory)) => memory.clone(),
            (_, material, _) => material.clone().unwrap_or_default(),
        };
        let mut known = observed;
        for material in [&content.material, &self.memory.material].into_iter().flatten() {
            known.extend(material::certificates(&material.authorities));
        }
        info!(step = step_name(&step), "certificates change");
        let restored = matches!(step, Step::Restore { .. });
        let rotates = matches!(step, Step::Create { .. } | Step::SignLeaf);
        let segments = self.segments(&base, rotates, published)?;
        let making = move || material::carry_out(&step, &base, &known, &dns_name, now);
        let material = Material { segments, ..tokio::task::spawn_blocking(making).await?? };
        if self.store.write(content, &material).await? && restored {
            self.announce_restored().await;
        }
        Ok(None)
    }

    /// The segments to store beside this material.
    fn segments(
        &mut self,
        material: &Material,
        rotates: bool,
        published: Option<Timestamp>,
    ) -> Result<String, MaterialError> {
        if !self.settings.has_segments() {
            return Ok(String::new());
        }
        let (now, uptake) = ((self.clock)(), self.settings.timing.uptake);
        let stored = Segment::parse_all(&material.segments);
        let fresh = material::fresh_segment()?;
        let first =
            |edition: &Edition| edition.segment.is_some() && edition.segment.as_ref() == stored.first();
        let published = published.filter(|_| self.memory.published.as_ref().is_some_and(first));
        let kept = callers::kept(&stored, fresh, rotates, published, uptake, now);
        if let (Some(since), [_, _, ..]) = (published, kept.as_slice()) {
            self.wait_until(since.checked_add(uptake).unwrap_or(Timestamp::MAX));
        }
        Ok(if kept == stored { material.segments.clone() } else { Segment::store(&kept) })
    }

    /// How everything is registered.
    fn calls(&self, configurations: &Configurations) -> Vec<Call> {
        let configurations = configurations.iter().filter_map(|(_, configuration)| configuration.as_ref());
        let definitions = self.objects.definitions().filter_map(Definition::call);
        configurations.flat_map(Configuration::calls).chain(definitions).collect()
    }

    /// Lets those call who may by what is registered, and by the `segments` of our own store.
    pub(crate) fn allow_callers(&mut self, configurations: &Configurations, segments: &[Segment]) {
        let live = self.calls(configurations);
        let again = self.memory.calls.see(live, self.settings.timing.uptake, (self.clock)());
        if let Some(again) = again {
            self.wait_until(again);
        }
        self.answer(segments);
    }

    fn answer(&self, segments: &[Segment]) {
        let wanted = self.memory.calls.callers(segments, self.settings.answers_everybody());
        self.callers.send_if_modified(|callers| {
            let differs = *callers != wanted;
            *callers = wanted;
            differs
        });
    }

    async fn announce_restored(&self) {
        let namespace = &self.settings.registration.namespace;
        let secret = about_in(namespace, "v1", "Secret", &self.settings.secret, "");
        let note = "the certificates were lost; they were restored from what this server serves".to_owned();
        self.recorder.record(&secret, Severity::Warning, "Restore", "CertificatesRestored", note).await;
    }

    /// Certificates of our own authorities in everything that is published.
    fn own_authorities(&self, configurations: &Configurations) -> Vec<CertificateDer<'static>> {
        let configurations = configurations.iter().filter_map(|(_, configuration)| configuration.as_ref());
        let mut bundles: Vec<String> = configurations.flat_map(Configuration::bundles).collect();
        bundles.extend(
            self.objects.definitions().filter_map(|definition| definition.bundle().map(str::to_owned)),
        );
        bundles.sort();
        bundles.dedup();
        let mut found: Vec<CertificateDer<'static>> = Vec::new();
        for certificate in bundles.iter().flat_map(|bundle| material::own_authorities(bundle)) {
            if !found.contains(&certificate) {
                found.push(certificate);
            }
        }
        found
    }

    /// The stored bundle. In mode `fs` each replica has an authority of its own, and they share what is
    /// published (docs/behaviour/server.md#modes-of-certificates), the youngest first.
    fn published_bundle(&self, material: &Material, configurations: &Configurations) -> String {
        if self.settings.mode != Mode::Files {
            return material.authorities.clone();
        }
        let own = material::certificates(&material.authorities);
        let mut all = self.own_authorities(configurations);
        all.extend(own.iter().filter(|certificate| !all.contains(certificate)).cloned().collect::<Vec<_>>());
        material::shared_bundle(&all, &own, MAX_SHARED, (self.clock)())
    }

    /// Publishes to all objects, the configurations first; an error at one keeps no other away.
    async fn publish(&mut self, configurations: &Configurations, round: &Round<'_>) -> Publication {
        let mut publication = Publication::default();
        for (kind, configuration) in configurations {
            let published =
                self.publish_configuration(*kind, configuration.as_ref(), round, &mut publication).await;
            if let Err(error) = published {
                publication.failure.get_or_insert(error);
            }
        }
        self.publish_definitions(round.edition, &mut publication).await;
        publication
    }

    async fn publish_configuration(
        &mut self,
        kind: ConfigurationKind,
        configuration: Option<&Configuration>,
        round: &Round<'_>,
        publication: &mut Publication,
    ) -> Result<(), PassError> {
        let Some(configuration) = configuration else {
            if round.leaving {
                return Err(PassError::Leaving(self.settings.registration.namespace.clone()));
            }
            info!(configuration = kind.name(), "the webhook configuration is missing and is created");
            self.objects.create(kind).await?;
            publication.contended = true;
            return Ok(());
        };
        if !kind.is_published(&self.settings.gates) {
            return self.withdraw(kind, configuration, publication).await;
        }
        let plan = configuration.plan(kind, &self.wanted(round));
        publication.waiting.extend(plan.waiting.iter().cloned());
        if plan.patch.is_empty() {
            return Ok(());
        }
        // Additions have a pause of their own.
        let repairs = round.answering.is_empty();
        if let Some(pause) = self.memory.pause(kind.name(), round.edition).filter(|_| repairs) {
            publication.paused = Some((pause, format!("{} is changed again by somebody", kind.name())));
            return Ok(());
        }
        match self.objects.patch_configuration(kind, &plan.patch).await {
            Ok(true) => {
                self.announce(kind, configuration, &plan, &round.edition.bundle).await;
                if repairs {
                    self.memory.remember(kind.name(), round.edition);
                } else {
                    self.memory.added = Some(Instant::now());
                }
            }
            Ok(false) => publication.contended = true,
            Err(error) if error.is_forbidden() && round.owner.is_some() => {
                (publication.owner_refused, publication.contended) = (true, true);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes our entries out of a configuration that is not published.
    async fn withdraw(
        &self,
        kind: ConfigurationKind,
        configuration: &Configuration,
        publication: &mut Publication,
    ) -> Result<(), PassError> {
        let patch = configuration.withdrawal(&self.settings.registration.endpoint);
        if !patch.is_empty() {
            info!(
                configuration = kind.name(),
                "its feature gate is off, and the webhook entries are removed"
            );
            publication.contended |= !self.objects.patch_configuration(kind, &patch).await?;
        }
        Ok(())
    }

    pub(crate) fn wanted<'a>(&'a self, round: &'a Round<'_>) -> Wanted<'a> {
        Wanted {
            settings: &self.settings.registration,
            refusal: self.memory.refusal.as_deref(),
            gates: &self.settings.gates,
            definitions: &round.existing,
            bundle: &round.edition.bundle,
            segment: round.edition.segment,
            answering: round.answering,
            owner: round.owner,
        }
    }

    async fn publish_definitions(&mut self, edition: &Edition, publication: &mut Publication) {
        let endpoint = &self.settings.registration.endpoint;
        let planned: Vec<_> = self
            .objects
            .definitions()
            .filter_map(|definition| {
                let patch = definition.plan(endpoint, edition.segment, &edition.bundle)?;
                let foreign = self.is_foreign(definition.bundle(), &edition.bundle);
                Some((
                    definition.name().to_owned(),
                    foreign.then(|| objects::definition_reference(definition)),
                    patch,
                ))
            })
            .collect();
        for (name, foreign, patch) in planned {
            if let Some(pause) = self.memory.pause(&name, edition) {
                publication.paused = Some((pause, format!("{name} is changed again by somebody")));
                continue;
            }
            let written = self.objects.patch_definition(&name, &patch).await;
            self.objects.forget(&name);
            match written {
                Ok(true) => self.memory.remember(&name, edition),
                Ok(false) => {
                    publication.contended = true;
                    continue;
                }
                Err(error) => {
                    publication.failure.get_or_insert(error.into());
                    continue;
                }
            }
            if let Some(reference) = foreign {
                let note = "the caBundle of the conversion webhook was not ours; it was repaired".to_owned();
                self.recorder.record(&reference, Severity::Warning, "Repair", "BundleRepaired", note).await;
            }
        }
    }

    async fn announce(
        &self,
        kind: ConfigurationKind,
        configuration: &Configuration,
        plan: &Plan,
        bundle: &str,
    ) {
        info!(
            configuration = kind.name(),
            operations = plan.patch.operations().len(),
            "the webhook configuration is updated"
        );
        if configuration.bundles().iter().any(|live| self.is_foreign(Some(live), bundle)) {
            let reference = objects::configuration_reference(kind, configuration.uid());
            let note =
                format!("the caBundle was not ours; it was repaired in {}", plan.foreign_bundles.join(", "));
            self.recorder.record(&reference, Severity::Warning, "Repair", "BundleRepaired", note).await;
        }
    }

    /// A bundle that is neither wanted, nor the one before it, nor an earlier form of it.
    fn is_foreign(&self, live: Option<&str>, wanted: &str) -> bool {
        let live = live.unwrap_or_default();
        let before = |live| self.memory.published.as_ref().is_some_and(|edition| edition.bundle == live);
        let earlier = || {
            let (live, wanted) = (material::own_authorities(live), material::own_authorities(wanted));
            !live.is_empty() && live.iter().all(|certificate| wanted.contains(certificate))
        };
        !live.is_empty() && live != wanted && !before(live) && !earlier()
    }

    /// Hands the material's certificate to new handshakes, as soon as nobody loses by it.
    pub(crate) fn serve(
        &mut self,
        material: &Material,
        published: Option<Timestamp>,
    ) -> Result<(), PassError> {
        let (now, timing) = ((self.clock)(), self.settings.timing);
        let stored = material.facts(&self.settings.dns_name());
        let served = self.memory.served.as_ref();
        match (stored.leaf, rotation::serves_from(served, &stored, published, timing, now)) {
            (Some(leaf), Some(from)) if from <= now => {
                if served.is_none_or(|served| served.id != leaf.id) {
                    self.resolver.swap(material.certified_key()?);
                    info!(expires = %leaf.expires(), "serving a certificate");
                    self.metrics.expiry.set(leaf.expires().as_second());
                    self.memory.served = Some(leaf);
                    if published.is_none() {
                        self.bundle.store(Arc::new(material.authorities.clone()));
                    }
                }
            }
            (_, Some(from)) => self.wait_until(from),
            (_, None) => {}
        }
        self.memory.material = Some(material.clone());
        Ok(())
    }

    /// Lets the next pass begin at `time`, if nothing begins it before.
    pub(crate) fn wait_until(&mut self, time: Timestamp) {
        self.memory.due = Some(self.memory.due.map_or(time, |due| due.min(time)));
    }
}

fn step_name(step: &Step) -> &'static str {
    match step {
        Step::Keep => "keep",
        Step::AwaitPublication => "await publication",
        Step::AwaitUptake { .. } => "await uptake",
        Step::Restore { .. } => "restore",
        Step::Create { .. } => "create",
        Step::AddAuthority { .. } => "add authority",
        Step::SignLeaf => "sign leaf",
        Step::SetBundle { .. } => "set bundle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_failed_is_repeated_when_something_is_due_at_the_latest() {
        let pauses = |due| Failed { error: PassError::Contended, due }.pauses();
        assert_eq!(pauses(None), (Duration::from_millis(5), Duration::from_secs(1000)));
        assert_eq!(pauses(Some(Duration::from_secs(3))).1, Duration::from_secs(3));
        assert_eq!(pauses(Some(Duration::MAX)).1, Duration::from_secs(1000));
    }
}
