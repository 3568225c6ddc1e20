//! Certificates of an external issuer: what it publishes is compared, and only missing entries are written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tracing::info;

use crate::publisher::{Configurations, Outcome, PassError, Publisher, Round};
use crate::store::{Content, StoreError};

impl Publisher {
    /// Compares with what somebody else publishes (spec 00 §4.4). Only entries that are missing are
    /// added, for the issuer to fill in their bundle.
    pub(crate) async fn compare(
        &mut self,
        configurations: &Configurations,
        versions: &BTreeMap<String, String>,
        content: Content,
    ) -> Result<Outcome, PassError> {
        let material = content.material.ok_or_else(|| StoreError::Missing(self.settings.secret.clone()))?;
        let bundle = STANDARD.encode(&material.authorities);
        let round = Round {
            existing: versions.keys().cloned().collect(),
            bundle: &bundle,
            answering: &BTreeSet::new(),
            owner: None,
            leaving: false,
        };
        let mut mismatches: Vec<String> =
            self.objects.definitions().filter_map(|definition| definition.mismatch(&bundle)).collect();
        let mut additions = Vec::new();
        for (kind, configuration) in configurations {
            let Some(configuration) = configuration else {
                mismatches.push(format!("not found {} {}", kind.kind(), kind.name()));
                continue;
            };
            let wanted = self.wanted(&round);
            mismatches.extend(configuration.mismatches(*kind, &wanted));
            additions.extend(configuration.plan_external(*kind, &wanted).map(|patch| (*kind, patch)));
        }
        if mismatches.is_empty() {
            let since = self.memory.published_since(&bundle, (self.clock)());
            self.serve(&material, Some(since))?;
            self.bundle.store(Arc::new(material.authorities));
            self.report_published(true);
            return Ok(Outcome::Settled);
        }
        self.serve(&material, None)?;
        self.status.send_modify(|status| (status.published, status.registered) = (false, false));
        for (kind, patch) in additions {
            if self.memory.pause(kind.name(), &bundle).is_none()
                && self.objects.patch_configuration(kind, &patch).await?
            {
                info!(configuration = kind.name(), "missing entries are added without a caBundle");
                self.memory.remember(kind.name(), &bundle);
            }
        }
        Ok(Outcome::Waiting(mismatches.join("; ")))
    }
}
