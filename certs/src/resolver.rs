//! The certificate that TLS handshakes get.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Hands the current certificate to each new handshake. Connections that exist keep theirs, so that
/// a rotation closes none. Before the first certificate, handshakes fail.
#[derive(Debug, Default)]
pub struct CertificateResolver {
    current: ArcSwapOption<CertifiedKey>,
}

impl CertificateResolver {
    /// Serves `key` from the next handshake on.
    pub(crate) fn swap(&self, key: Arc<CertifiedKey>) {
        self.current.store(Some(key));
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}
