//! The certificate of a server without an API server: nothing is published, so a new one is served at once.

use std::sync::Arc;

use admission::callers::Callers;
use admission::rotation::{self, Observation, Step};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::watch;

use crate::material::{self, Material, MaterialError};
use crate::settings::CertificateSettings;
use crate::store::{Content, Store, StoreError};
use crate::{CertificateResolver, SelfCheck};

/// Why there is no certificate without an API server.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// The files can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A certificate can't be made or used.
    #[error(transparent)]
    Material(#[from] MaterialError),
    /// The work was interrupted.
    #[error("making a certificate was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// The certificate of a server without an API server, from the files of `settings.directory`, made
/// where there is none.
///
/// # Errors
/// The files can't be read or written, or a certificate can't be made.
pub async fn offline(
    settings: &CertificateSettings,
) -> Result<(Arc<CertificateResolver>, SelfCheck), OfflineError> {
    let material = load_files(settings, Timestamp::now()).await?;
    let resolver = Arc::new(CertificateResolver::default());
    resolver.swap(material.certified_key()?);
    let bundle = Arc::new(ArcSwap::from_pointee(material.authorities));
    let callers = watch::channel(Callers::everybody()).1;
    Ok((resolver, SelfCheck { port: settings.port, bundle, callers }))
}

/// The certificate of a server without an API server: read from the files, or made and written there.
async fn load_files(settings: &CertificateSettings, now: Timestamp) -> Result<Material, OfflineError> {
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
            // Nothing is published.
            published: Some(Timestamp::MIN),
        };
        let step = rotation::next(&observation, settings.timing, now);
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
