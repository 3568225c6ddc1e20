//! The certificates by which API servers show who they are (docs/behaviour/server.md#client-certificates).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use thiserror::Error as ThisError;
use tracing::{info, warn};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::material::provider;

/// How often the file is read.
const LOOK: Duration = Duration::from_secs(10);

/// Why the authorities of clients can't be used.
#[derive(Debug, ThisError)]
pub enum ClientAuthorityError {
    /// The file can't be read.
    #[error("{file}: {error}", file = file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It holds no certificate that can be trusted.
    #[error("{file} holds no certificate of an authority: {detail}", file = file.display())]
    NoAuthority {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// Accepts certificates by the authorities of a file, for some names. Who shows none is let in too: whether it is
/// answered, the paths decide.
pub struct ClientCertificates {
    file: PathBuf,
    names: Vec<String>,
    current: ArcSwap<Authorities>,
}

struct Authorities {
    text: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCertificates {
    /// Trusts the authorities in `file`, in PEM, and certificates for one of `names`; without names, all.
    ///
    /// # Errors
    /// The file holds no authority.
    pub fn read(file: PathBuf, names: Vec<String>) -> Result<Self, ClientAuthorityError> {
        let current = ArcSwap::from_pointee(authorities(&file)?);
        Ok(Self { file, names, current })
    }

    /// Follows the file forever. Where it can't be used the authorities stay that it held before.
    pub async fn follow(&self) {
        let mut reported = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let failure = self.reload().err().map(|error| error.to_string());
            if let Some(error) = failure.as_ref().filter(|_| failure != reported) {
                warn!(error, "authorities of client certificates stay as they were");
            }
            reported = failure;
        }
    }

    fn reload(&self) -> Result<(), ClientAuthorityError> {
        let found = authorities(&self.file)?;
        if found.text != self.current.load().text {
            info!(file = %self.file.display(), "authorities of client certificates were replaced");
            self.current.store(Arc::new(found));
        }
        Ok(())
    }

    fn is_allowed(&self, certificate: &CertificateDer<'_>) -> bool {
        self.names.is_empty() || names(certificate).iter().any(|name| self.names.contains(name))
    }
}

fn authorities(file: &Path) -> Result<Authorities, ClientAuthorityError> {
    let text =
        fs::read(file).map_err(|error| ClientAuthorityError::Unreadable { file: file.to_owned(), error })?;
    let unusable = |detail: String| ClientAuthorityError::NoAuthority { file: file.to_owned(), detail };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    Ok(Authorities { verifier: verifier.map_err(|error| unusable(error.to_string()))?, text })
}

/// The common name and the DNS names of a certificate.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|names| &names.value.general_names);
    let dns = alternative.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    common.chain(dns).map(str::to_owned).collect()
}

impl fmt::Debug for ClientCertificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientCertificates").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: they may change. A caller then shows what it has.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.current.load().verifier.verify_client_cert(certificate, intermediates, now)?;
        if self.is_allowed(certificate) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    };

    use super::*;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn parameters(common: &str, names: &[&str]) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, common);
        parameters
    }

    fn authority() -> Authority {
        let mut parameters = parameters("clients", &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    }

    fn signed(
        by: &Authority,
        common: &str,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut parameters = parameters(common, names);
        parameters.extended_key_usages = vec![usage];
        parameters.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
    }

    fn client(by: &Authority, common: &str, names: &[&str]) -> CertificateDer<'static> {
        signed(by, common, names, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A file with an authority, and whom it lets in.
    fn clients(authority: &Authority, names: &[&str]) -> (tempfile::NamedTempFile, ClientCertificates) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, authority.pem()).unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let clients = ClientCertificates::read(file.path().to_owned(), names).unwrap();
        (file, clients)
    }

    fn counts(clients: &ClientCertificates, certificate: &CertificateDer<'_>) -> bool {
        clients.verify_client_cert(certificate, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn a_certificate_counts_by_one_of_its_names() {
        let ours = authority();
        let (_file, clients) = clients(&ours, &["kube-apiserver", "api.example"]);
        assert!(!clients.client_auth_mandatory() && clients.root_hint_subjects().is_empty());
        for (common, names, is_allowed) in [
            ("kube-apiserver", &[][..], true),
            ("", &["other", "api.example"], true),
            ("kube-apiserver.evil", &["*.example", "api.example.evil"], false),
            ("KUBE-APISERVER", &["127.0.0.1"], false),
            ("", &[], false),
        ] {
            assert_eq!(counts(&clients, &client(&ours, common, names)), is_allowed, "{common} {names:?}");
        }
    }

    #[test]
    fn without_names_all_clients_of_the_authority_count_and_nobody_else() {
        let ours = authority();
        let (_file, clients) = clients(&ours, &[]);
        assert!(counts(&clients, &client(&ours, "anybody", &[])));
        assert!(!counts(&clients, &client(&authority(), "anybody", &[])));
        assert!(!counts(&clients, &signed(&ours, "server", &[], ExtendedKeyUsagePurpose::ServerAuth)));
    }

    #[test]
    fn authorities_follow_the_file_and_outlast_a_bad_one() {
        let [former, next] = [authority(), authority()];
        let (file, clients) = clients(&former, &[]);
        let [by_former, by_next] = [&former, &next].map(|authority| client(authority, "api", &[]));
        for bad in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(&file, bad).unwrap();
            assert!(clients.reload().is_err() && counts(&clients, &by_former), "{bad}");
            assert!(ClientCertificates::read(file.path().to_owned(), Vec::new()).is_err(), "{bad}");
        }
        fs::write(&file, former.pem() + &next.pem()).unwrap();
        clients.reload().unwrap();
        assert!(counts(&clients, &by_former) && counts(&clients, &by_next));
        fs::write(&file, next.pem()).unwrap();
        clients.reload().unwrap();
        assert!(!counts(&clients, &by_former) && counts(&clients, &by_next));
        drop(file);
        assert!(clients.reload().is_err() && counts(&clients, &by_next));
    }
}
