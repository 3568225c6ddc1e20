//! Certificates of the admission server: made, stored, rotated, served and published.
//!
//! ```text
//!            watches (Secret, configurations, CRDs)
//!                              |
//!                              v
//!   Secret <--read, write-- publisher --patch--> webhook entries, conversion stanzas
//!                              |
//!                              +--swap--> CertificateResolver --> new TLS handshakes
//!                              +--------> Status, SelfCheck   --> readiness
//! ```
//!
//! Every replica runs one publisher; there is no leader. What it does next is decided by
//! `admission::rotation` and `admission::registration`; this crate reads, writes and watches.
//!
//! - [`start`] returns at once. A stored certificate is served a moment later, before anything is
//!   published, so that nothing waits for caches: `/convert` answers from the first handshake.
//! - [`Status::published`] says that every existing entry and stanza trusts what is served.
//!   New entries come after that, once a call through the Service succeeds: readiness must not wait for
//!   [`Status::registered`], since the Service routes to ready replicas only.
//! - No error ends the process; the reason is in [`Status::reason`]. Where an external issuer lets us wait, an
//!   Event on our own Pod reports it too.

mod choices;
mod clients;
mod external;
mod material;
mod memory;
mod metrics;
mod objects;
mod offline;
mod probe;
mod publisher;
mod resolver;
mod settings;
mod store;
mod watches;

use std::sync::Arc;

use admission::callers::Callers;
use arc_swap::ArcSwap;
use cluster::events::Recorder;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use clients::{ClientAuthorityError, ClientCertificates};
pub use material::{Material, MaterialError, carry_out, certificates};
pub use metrics::CertificateMetrics;
pub use objects::ObjectError;
pub use offline::{OfflineError, offline};
pub use probe::{CallError, Probe, SelfCheck, through};
pub use resolver::CertificateResolver;
pub use settings::{CertificateSettings, Mode, SettingsError};
pub use store::StoreError;

use memory::PublisherMemory;
use objects::Objects;
use publisher::Publisher;
use store::Store;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How far the publication is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Every existing webhook entry and conversion stanza trusts the certificate that is served.
    pub published: bool,
    /// Every entry that this server answers is registered.
    pub registered: bool,
    /// What is missing or went wrong last; empty when all is well.
    pub reason: String,
}

/// The certificates of this server.
#[derive(Debug)]
pub struct Certificates {
    /// For the TLS server.
    pub resolver: Arc<CertificateResolver>,
    /// For readiness.
    pub status: watch::Receiver<Status>,
    /// For the webhook paths: whom they answer.
    pub callers: watch::Receiver<Callers>,
    /// For readiness: does this process answer over TLS?
    pub self_check: SelfCheck,
    /// The publisher; abort it at shutdown.
    pub task: JoinHandle<()>,
}

/// Starts the publisher on the current runtime, which must be the one that `client` was made on.
pub fn start(
    client: Client,
    settings: CertificateSettings,
    recorder: Recorder,
    metrics: CertificateMetrics,
) -> Certificates {
    let probe = through(client.clone(), settings.registration.endpoint.clone());
    start_with(client, settings, recorder, metrics, probe, Arc::new(Timestamp::now))
}

/// [`start`] with a probe and a clock of the caller's.
pub fn start_with(
    client: Client,
    settings: CertificateSettings,
    recorder: Recorder,
    metrics: CertificateMetrics,
    probe: Probe,
    clock: Clock,
) -> Certificates {
    let resolver = Arc::new(CertificateResolver::default());
    let bundle = Arc::new(ArcSwap::default());
    let reason = "their objects were not read yet".to_owned();
    let (sender, status) = watch::channel(Status { reason, ..Status::default() });
    let everybody = settings.answers_everybody();
    let (tell, callers) = watch::channel(if everybody { Callers::everybody() } else { Callers::default() });
    let self_check = SelfCheck { port: settings.port, bundle: Arc::clone(&bundle), callers: callers.clone() };
    let publisher = Publisher {
        store: Store::new(client.clone(), &settings),
        objects: Objects::new(client.clone(), settings.gates.clone()),
        settings,
        resolver: Arc::clone(&resolver),
        bundle,
        status: sender,
        callers: tell,
        recorder,
        metrics,
        probe,
        clock,
        memory: PublisherMemory::default(),
    };
    Certificates { resolver, status, callers, self_check, task: tokio::spawn(publisher.run(client)) }
}
