//! Test kit: a real Kubernetes, in the parts a test needs.
//!
//! | a test of | uses |
//! |---|---|
//! | admission, CRDs, controllers | [`shared()`] (one API server per test process) and a [`namespace()`] of its own |
//! | gates, certificates, registrations, outages | [`ApiServer::start`], an API server of its own |
//! | controllers with Pods that run | either, with [`fake_nodes`] |
//! | real containers, exec, Services | [`Cluster::start`] (as root), real nodes |
//! | one caller, and how it takes errors | a [`double`] of the API server |
//! | what asks a container runtime | a [`fake_runtime`] at a socket |
//!
//! The kit knows nothing of the product. Whatever goes wrong in it panics: a failure of the harness
//! is a failure of the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test harness: a failure is a test failure"
)]

pub mod api_server;
pub mod binaries;
pub mod builders;
pub mod cluster;
pub mod double;
pub mod fake_nodes;
pub mod fake_runtime;
pub mod merge;
pub mod objects;
pub mod provisioner;
pub mod proxy;
pub mod scheduling;
mod sharing;
mod stored;
mod supervisor;
pub mod wait;

pub use api_server::{ApiServer, Options, Output};
pub use cluster::{Cluster, Image};
pub use fake_nodes::FakeNodes;
pub use provisioner::{Expansion, Provisioner};
pub use proxy::Proxy;
pub use sharing::Shared;
pub use wait::{DEADLINE, wait_for, wait_until, wait_within};

use tokio::sync::OnceCell;

/// The API server that all tests of this process share, started at first use. With the environment
/// variable `KUTTER_TEST_KUBECONFIG` it is the existing cluster of that file instead.
///
/// Whatever a test makes here lies in a namespace of its own (see [`namespace()`]) or has a unique
/// name; no test stops it.
pub async fn shared() -> &'static ApiServer {
    static SHARED: OnceCell<ApiServer> = OnceCell::const_new();
    SHARED
        .get_or_init(async || match std::env::var_os("KUTTER_TEST_KUBECONFIG") {
            Some(kubeconfig) => ApiServer::existing(kubeconfig.as_ref()).await,
            None => ApiServer::start(Options::default()).await,
        })
        .await
}

/// Creates a namespace with a unique name that begins with `prefix` on the [`shared()`] API server.
pub async fn namespace(prefix: &str) -> String {
    shared().await.namespace(prefix).await
}

/// Makes aws-lc-rs the cryptography of this process. [`ApiServer`] does it by itself; call it in
/// tests that use rustls without one.
pub fn install_crypto_provider() {
    // The error says that a provider is installed already, by a test that ran before.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
