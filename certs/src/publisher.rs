//! The task that keeps store, published bundles and served certificate in step. It runs on every
//! replica and has no leader: writes that are based on an old view are refused by the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::events::{Recorder, Severity};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use planner::moment::Moment;
use planner::registration::{Configuration, ConfigurationKind, Plan, Wanted};
use planner::rotation::{self, Authority, Leaf, Observation, Step};
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::material::{self, Material, MaterialError};
use crate::objects::{self, ObjectError, Objects};
use crate::probe::Probe;
use crate::settings::{Mode, Settings};
use crate::store::{Content, Store, StoreError};
use crate::watches::Watches;
use crate::{CertificateResolver, Clock, Status};

/// Rounds of one pass. A rotation takes three; each lost race one more.
const ROUNDS: usize = 12;
/// Retries after a failure (spec 00 §4.4).
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
}

enum Outcome {
    Settled,
    Waiting(String),
}

type Configurations = Vec<(ConfigurationKind, Option<Configuration>)>;

pub(crate) struct Publisher {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) objects: Objects,
    pub(crate) resolver: Arc<CertificateResolver>,
    pub(crate) bundle: Arc<ArcSwap<String>>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) recorder: Recorder,
    pub(crate) probe: Probe,
    pub(crate) clock: Clock,
    pub(crate) memory: Memory,
}

/// What the task remembers from pass to pass.
#[derive(Default)]
pub(crate) struct Memory {
    /// What the store held last.
    material: Option<Material>,
    served: Option<Leaf>,
    /// The bundle published last, base64.
    published: Option<String>,
    added: Option<Instant>,
}

impl Publisher {
    /// Runs until the task is aborted.
    pub(crate) async fn run(mut self, mut watches: Watches) {
        if let Err(error) = self.load().await {
            debug!(%error, "no certificate at the start");
        }
        let mut random = Moment { now: (self.clock)(), seed: u64::from(std::process::id()) }.random();
        let (mut failures, mut waits) = (0, 0);
        loop {
            let pause = match watches.definitions().cloned() {
                None => {
                    self.report_trouble(&watches);
                    self.settings.resync
                }
                Some(definitions) => match self.pass(&definitions).await {
                    Ok(Outcome::Settled) => {
                        (failures, waits) = (0, 0);
                        self.settings.resync.mul_f64(1.0 + 0.2 * random.next_fraction())
                    }
                    Ok(Outcome::Waiting(reason)) => {
                        info!(reason, "webhooks are not registered yet");
                        self.status.send_modify(|status| status.reason = reason);
                        (failures, waits) = (0, waits + 1);
                        backoff(WAIT, waits)
                    }
                    Err(error) => {
                        warn!(%error, "certificates are not in order");
                        self.status.send_modify(|status| status.reason = error.to_string());
                        failures += 1;
                        backoff(RETRY, failures)
                    }
                },
            };
            // A change ends the pause; watches that fail are tried again by themselves.
            drop(tokio::time::timeout(pause, watches.changed()).await);
        }
    }

    fn report_trouble(&self, watches: &Watches) {
        if let Some(trouble) = watches.trouble() {
            let reason = format!("CustomResourceDefinitions can't be watched: {trouble}");
            self.status.send_modify(|status| status.reason = reason);
        }
    }

    /// Serves what is stored before anything else is looked at: a server that starts beside a stored
    /// certificate and registered webhooks answers at once.
    async fn load(&mut self) -> Result<(), PassError> {
        if let Some(material) = self.store.read().await?.material {
            self.serve(&material, false)?;
        }
        Ok(())
    }

    async fn pass(&mut self, versions: &BTreeMap<String, String>) -> Result<Outcome, PassError> {
        let mut reachable = false;
        for _ in 0..ROUNDS {
            // Objects are read before the store: see `planner::rotation`.
            self.objects.refresh(versions).await?;
            let configurations = self.objects.configurations().await?;
            let content = self.store.read().await?;
            if self.settings.mode == Mode::External {
                return self.compare(&configurations, versions, content);
            }
            let Some(material) = self.advance(&content, &configurations, false).await? else { continue };
            let text = self.published_bundle(&material, &configurations);
            let bundle = STANDARD.encode(&text);
            let Some(waiting) = self.publish(&configurations, versions, &bundle, reachable).await? else {
                continue;
            };
            if self.advance(&content, &configurations, true).await?.is_none() {
                continue;
            }
            self.bundle.store(Arc::new(text.clone()));
            self.memory.published = Some(bundle);
            self.serve(&material, true)?;
            self.report_published(waiting.is_empty());
            if waiting.is_empty() {
                return Ok(Outcome::Settled);
            }
            if self.memory.added.is_some_and(|added| added.elapsed() < ADDITION_PAUSE) {
                return Ok(Outcome::Waiting(format!("removed again by somebody: {}", waiting.join(", "))));
            }
            if let Err(error) = (self.probe)(text).await {
                let entries = waiting.join(", ");
                return Ok(Outcome::Waiting(format!(
                    "the webhook server does not answer yet: {error} ({entries})"
                )));
            }
            reachable = true;
        }
        Err(PassError::Contended)
    }

    fn report_published(&self, registered: bool) {
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
        published: bool,
    ) -> Result<Option<Material>, PassError> {
        let dns_name = self.settings.dns_name();
        let now = (self.clock)();
        let stored = content.material.as_ref().map(|material| material.facts(&dns_name));
        let remembered = self.memory.material.as_ref().map(|material| material.facts(&dns_name));
        let seen = self.own_authorities(configurations);
        let authorities: Vec<Authority> = seen.iter().filter_map(material::authority).collect();
        let step = rotation::next(
            &Observation {
                stored: stored.as_ref(),
                remembered: remembered.as_ref(),
                served: self.memory.served.as_ref(),
                authorities: &authorities,
                published,
            },
            self.settings.renew_before,
            now,
        );
        let base = match (&step, &content.material, &self.memory.material) {
            (Step::Keep | Step::AwaitPublication, Some(material), _) => return Ok(Some(material.clone())),
            (Step::Restore { .. }, _, Some(memory)) => memory.clone(),
            (_, material, _) => material.clone().unwrap_or_default(),
        };
        let mut known = seen;
        for material in [&content.material, &self.memory.material].into_iter().flatten() {
            known.extend(material::certificates(&material.authorities));
        }
        info!(step = step_name(&step), "certificates change");
        let restored = matches!(step, Step::Restore { .. });
        let making = move || material::carry_out(&step, &base, &known, &dns_name, now);
        let material = tokio::task::spawn_blocking(making).await??;
        if self.store.write(content, &material).await? && restored {
            self.announce_restored().await;
        }
        Ok(None)
    }

    async fn announce_restored(&self) {
        let secret = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(self.settings.secret.clone()),
            namespace: Some(self.settings.registration.namespace.clone()),
            ..ObjectReference::default()
        };
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
    /// published (spec 00, sharp edge 17), the youngest first.
    fn published_bundle(&self, material: &Material, configurations: &Configurations) -> String {
        if self.settings.mode != Mode::Files {
            return material.authorities.clone();
        }
        let own = material::certificates(&material.authorities);
        let mut all = self.own_authorities(configurations);
        all.extend(own.iter().filter(|certificate| !all.contains(certificate)).cloned().collect::<Vec<_>>());
        material::shared_bundle(&all, &own, MAX_SHARED, (self.clock)())
    }

    /// Publishes to all objects. The entries that wait for the Service, or `None` where an object has
    /// changed in between.
    async fn publish(
        &mut self,
        configurations: &Configurations,
        versions: &BTreeMap<String, String>,
        bundle: &str,
        reachable: bool,
    ) -> Result<Option<Vec<String>>, PassError> {
        let mut complete = self.publish_definitions(bundle).await?;
        let existing = versions.keys().cloned().collect();
        let mut waiting = Vec::new();
        for (kind, configuration) in configurations {
            let Some(configuration) = configuration else {
                info!(configuration = kind.name(), "the webhook configuration is missing and is created");
                self.objects.create(*kind).await?;
                complete = false;
                continue;
            };
            let wanted = Wanted {
                settings: &self.settings.registration,
                gates: &self.settings.gates,
                served: &self.settings.served,
                definitions: &existing,
                bundle,
                reachable,
            };
            let plan = configuration.plan(*kind, &wanted);
            if !plan.patch.is_empty() {
                if self.objects.patch_configuration(*kind, &plan.patch).await? {
                    self.announce(*kind, configuration, &plan, bundle).await;
                    if reachable {
                        self.memory.added = Some(Instant::now());
                    }
                } else {
                    complete = false;
                }
            }
            waiting.extend(plan.waiting);
        }
        Ok(complete.then_some(waiting))
    }

    async fn publish_definitions(&mut self, bundle: &str) -> Result<bool, PassError> {
        let endpoint = &self.settings.registration.endpoint;
        let planned: Vec<_> = self
            .objects
            .definitions()
            .filter_map(|definition| {
                let patch = definition.plan(endpoint, bundle)?;
                let foreign = self.is_foreign(definition.bundle(), bundle);
                Some((
                    definition.name().to_owned(),
                    foreign.then(|| objects::definition_reference(definition)),
                    patch,
                ))
            })
            .collect();
        let mut complete = true;
        for (name, foreign, patch) in planned {
            let written = self.objects.patch_definition(&name, &patch).await?;
            self.objects.forget(&name);
            complete &= written;
            if let Some(reference) = foreign.filter(|_| written) {
                let note = "the caBundle of the conversion webhook was not ours; it was repaired".to_owned();
                self.recorder.record(&reference, Severity::Warning, "Repair", "BundleRepaired", note).await;
            }
        }
        Ok(complete)
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
        let earlier = || {
            let (live, wanted) = (material::own_authorities(live), material::own_authorities(wanted));
            !live.is_empty() && live.iter().all(|certificate| wanted.contains(certificate))
        };
        !live.is_empty() && live != wanted && self.memory.published.as_deref() != Some(live) && !earlier()
    }

    /// Compares with what somebody else publishes; writes nothing (spec 00 §4.4).
    fn compare(
        &mut self,
        configurations: &Configurations,
        versions: &BTreeMap<String, String>,
        content: Content,
    ) -> Result<Outcome, PassError> {
        let material = content.material.ok_or_else(|| StoreError::Missing(self.settings.secret.clone()))?;
        let bundle = STANDARD.encode(&material.authorities);
        let existing = versions.keys().cloned().collect();
        let wanted = Wanted {
            settings: &self.settings.registration,
            gates: &self.settings.gates,
            served: &self.settings.served,
            definitions: &existing,
            bundle: &bundle,
            reachable: false,
        };
        let mut mismatches: Vec<String> =
            self.objects.definitions().filter_map(|definition| definition.mismatch(&bundle)).collect();
        for (kind, configuration) in configurations {
            match configuration {
                Some(configuration) => mismatches.extend(configuration.mismatches(*kind, &wanted)),
                None => mismatches.push(format!("not found {} {}", kind.kind(), kind.name())),
            }
        }
        self.serve(&material, mismatches.is_empty())?;
        if mismatches.is_empty() {
            self.bundle.store(Arc::new(material.authorities));
            self.report_published(true);
            return Ok(Outcome::Settled);
        }
        self.status.send_modify(|status| (status.published, status.registered) = (false, false));
        Ok(Outcome::Waiting(mismatches.join("; ")))
    }

    /// Hands the material's certificate to new handshakes, if nobody loses by it.
    fn serve(&mut self, material: &Material, published: bool) -> Result<(), PassError> {
        let now = (self.clock)();
        if let Some(leaf) = material.facts(&self.settings.dns_name()).leaf {
            let known = self.memory.served.is_some_and(|served| served.id == leaf.id);
            if rotation::may_serve(self.memory.served.as_ref(), &leaf, published, now) && !known {
                self.resolver.swap(material.certified_key()?);
                info!(expires = %leaf.expires(), "serving a certificate");
                self.memory.served = Some(leaf);
                if !published {
                    self.bundle.store(Arc::new(material.authorities.clone()));
                }
            }
        }
        self.memory.material = Some(material.clone());
        Ok(())
    }
}

fn step_name(step: &Step) -> &'static str {
    match step {
        Step::Keep => "keep",
        Step::AwaitPublication => "await publication",
        Step::Restore { .. } => "restore",
        Step::Create { .. } => "create",
        Step::AddAuthority { .. } => "add authority",
        Step::SignLeaf => "sign leaf",
        Step::SetBundle { .. } => "set bundle",
    }
}

fn backoff((first, most): (Duration, Duration), attempts: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(most)
}

/// The certificate of a server without an API server: read from the files, or made and written there.
pub(crate) async fn load_files(settings: &Settings, now: Timestamp) -> Result<Material, crate::OfflineError> {
    let store = Store::files(settings);
    let dns_name = settings.dns_name();
    let mut content = store.read().await?;
    loop {
        let stored = content.material.as_ref().map(|material| material.facts(&dns_name));
        let observation = Observation {
            stored: stored.as_ref(),
            remembered: None,
            served: None,
            authorities: &[],
            published: true,
        };
        let step = rotation::next(&observation, settings.renew_before, now);
        let base = content.material.unwrap_or_default();
        if step == Step::Keep {
            return Ok(base);
        }
        let (name, known) = (dns_name.clone(), material::certificates(&base.authorities));
        let making = move || material::carry_out(&step, &base, &known, &name, now);
        let material = tokio::task::spawn_blocking(making).await??;
        store.write(&Content::default(), &material).await?;
        content = store.read().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_double_up_to_their_limit() {
        let at = |attempts| backoff(RETRY, attempts);
        assert_eq!([at(1), at(2), at(4)], [5, 10, 40].map(Duration::from_millis));
        assert_eq!(at(60), Duration::from_secs(1000));
    }
}
