//! Certificates of an external issuer: what it publishes is compared, and only missing entries are written.
//! While something is missing, this replica is not ready; the status and an Event on our own Pod say why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::events::Severity;
use jiff::SignedDuration;
use tracing::{info, warn};

use crate::memory::Edition;
use crate::publisher::{Configurations, PassError, PassOutcome, Publisher, Round};
use crate::settings::Mode;
use crate::store::{Content, StoreError};

/// An issuer has this long before an Event says what is missing.
const GRACE: SignedDuration = SignedDuration::from_secs(30);
/// Pause between two such Events.
const REPEAT: SignedDuration = SignedDuration::from_mins(10);

impl Publisher {
    /// Compares with what somebody else publishes. Only entries that are missing are added, for the issuer
    /// to fill in their bundle.
    pub(crate) async fn compare(
        &mut self,
        configurations: &Configurations,
        versions: &BTreeMap<String, String>,
    ) -> Result<PassOutcome, PassError> {
        let material = match self.read().await {
            Ok(Content { material, .. }) => material.unwrap_or_default(),
            Err(error @ StoreError::Incomplete { .. }) => return Ok(PassOutcome::Waiting(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let edition = Edition { bundle: STANDARD.encode(&material.authorities), segment: None };
        self.allow_callers(configurations, &[]);
        let round = Round {
            existing: versions.keys().cloned().collect(),
            edition: &edition,
            answering: &BTreeSet::new(),
            owner: None,
            leaving: false,
        };
        let mut mismatches: Vec<String> = self
            .objects
            .definitions()
            .filter_map(|definition| definition.mismatch(&edition.bundle))
            .collect();
        let mut additions = Vec::new();
        let published = configurations.iter().filter(|(kind, _)| kind.is_published(&self.settings.gates));
        for (kind, configuration) in published {
            let Some(configuration) = configuration else {
                mismatches.push(format!("not found {} {}", kind.kind(), kind.name()));
                continue;
            };
            let wanted = self.wanted(&round);
            mismatches.extend(configuration.mismatches(*kind, &wanted));
            additions.extend(configuration.plan_external(*kind, &wanted).map(|patch| (*kind, patch)));
        }
        if mismatches.is_empty() {
            let since = self.memory.published_since(&edition, (self.clock)());
            self.serve(&material, Some(since))?;
            self.bundle.store(Arc::new(material.authorities));
            self.report_published(true);
            self.memory.missed_since = None;
            return Ok(PassOutcome::Settled);
        }
        self.serve(&material, None)?;
        self.status.send_modify(|status| (status.published, status.registered) = (false, false));
        for (kind, patch) in additions {
            if self.memory.pause(kind.name(), &edition).is_none()
                && self.objects.patch_configuration(kind, &patch).await?
            {
                info!(configuration = kind.name(), "missing entries are added without a caBundle");
                self.memory.remember(kind.name(), &edition);
            }
        }
        Ok(PassOutcome::Waiting(mismatches.join("; ")))
    }

    /// Says on our own Pod what the issuer has not provided, some time after it was first missed, and again
    /// while it lasts.
    pub(crate) async fn announce_missing(&mut self, reason: &str) {
        if self.settings.mode != Mode::External || self.status.borrow().published {
            return;
        }
        let now = (self.clock)();
        let missed = *self.memory.missed_since.get_or_insert(now) + GRACE;
        let due = self.memory.missing_reported.map_or(missed, |reported| missed.max(reported + REPEAT));
        if now < due {
            return self.wait_until(due);
        }
        self.memory.missing_reported = Some(now);
        self.wait_until(now + REPEAT);
        warn!(reason, "an external issuer has not provided the certificates");
        if let Some(pod) = &self.settings.pod {
            let pod = self.objects.pod_reference(&self.settings.registration.namespace, pod).await;
            let note = format!("this replica is not ready: {reason}");
            let why = "ExternalCertificatesMissing";
            self.recorder.record(&pod, Severity::Warning, "AwaitCertificates", why, note).await;
        }
    }
}
