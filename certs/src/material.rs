//! Certificates and keys as text: what they say, and how they are made
//! (docs/behaviour/server.md#certificate-material).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use admission::rotation::{Authority, Fingerprint, LIFETIME, Leaf, Step, Stored};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, RsaKeySize,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use thiserror::Error;
use values::segment::Segment;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Common name and alternative name of our authorities.
const AUTHORITY_NAME: &str = "webhook-cert-ca";
/// Certificates are valid from a little earlier, for API servers whose clock is behind ours.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Why certificates can't be made or used.
#[derive(Debug, Error)]
pub enum MaterialError {
    /// A certificate or key can't be made.
    #[error("making a certificate failed: {0}")]
    Generate(#[from] rcgen::Error),
    /// The key isn't what was expected.
    #[error("the generated key has an unexpected form")]
    KeyForm,
    /// The bundle is empty where an authority is needed.
    #[error("there is no authority to sign with")]
    NoAuthority,
    /// The system gives no random bits.
    #[error("there are no random bits")]
    Random,
    /// No serving certificate, or its text is broken.
    #[error("the serving certificate or its key is not readable")]
    Unreadable,
    /// Certificate and key don't belong together.
    #[error("serving certificate and key can't be used: {0}")]
    Unusable(#[source] rustls::Error),
}

/// The content of a certificate store. All parts are PEM text, empty where missing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Material {
    /// The bundle; its first certificate signs.
    pub authorities: String,
    /// Key of the first authority.
    pub authority_key: String,
    /// The serving certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// The prefix of the paths that are registered, the one to publish first.
    pub segments: String,
}

impl fmt::Debug for Material {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Material").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

impl Material {
    /// What it says, for a server that is called `dns_name`. What is not readable counts as missing.
    pub fn facts(&self, dns_name: &str) -> Stored {
        let certificates = certificates(&self.authorities);
        let authorities: Vec<Authority> = certificates.iter().filter_map(authority).collect();
        let can_sign = KeyPair::from_pem(&self.authority_key).is_ok_and(|key| {
            certificates.first().is_some_and(|first| public_key(first) == Some(key.subject_public_key_info()))
        });
        Stored { authorities, can_sign, leaf: self.leaf(&certificates, dns_name) }
    }

    fn leaf(&self, authorities: &[CertificateDer<'static>], dns_name: &str) -> Option<Leaf> {
        let chain = crate::material::certificates(&self.certificate);
        let own = authority(chain.first()?)?;
        let named = ParsedCertificate::try_from(chain.first()?).is_ok_and(|parsed| {
            ServerName::try_from(dns_name).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
        });
        // Whether it has expired is judged apart; here only who signed it.
        let within = own.not_after.checked_sub(SignedDuration::from_secs(1)).unwrap_or(own.not_after);
        let issuer = authorities.iter().find(|candidate| signed_by(&chain, candidate, within));
        Some(Leaf {
            id: own.id,
            issuer: issuer.and_then(authority),
            not_before: own.not_before,
            not_after: own.not_after,
            fits: named && self.certified_key().is_ok(),
        })
    }

    /// Chain and key as rustls serves them.
    ///
    /// # Errors
    /// Certificate or key is missing, or they don't belong together.
    pub fn certified_key(&self) -> Result<Arc<CertifiedKey>, MaterialError> {
        let chain = certificates(&self.certificate);
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| MaterialError::Unreadable)?;
        if chain.is_empty() {
            return Err(MaterialError::Unreadable);
        }
        CertifiedKey::from_der(chain, key, &provider()).map(Arc::new).map_err(MaterialError::Unusable)
    }
}

/// A segment that nobody can guess.
pub(crate) fn fresh_segment() -> Result<Segment, MaterialError> {
    let mut random = [0; 16];
    provider().secure_random.fill(&mut random).map_err(|_| MaterialError::Random)?;
    Ok(Segment::new(u128::from_be_bytes(random)))
}

/// Carries out `step` on what is stored or, for a restore, remembered. `known` holds the certificates
/// that the step may name. Takes some 100 ms of CPU where a key is made.
///
/// # Errors
/// A certificate can't be made.
pub fn carry_out(
    step: &Step,
    base: &Material,
    known: &[CertificateDer<'static>],
    dns_name: &str,
    now: Timestamp,
) -> Result<Material, MaterialError> {
    let pick = |bundle: &[Fingerprint]| -> String {
        let find = |id: &Fingerprint| known.iter().find(|certificate| fingerprint(certificate) == *id);
        bundle.iter().filter_map(find).map(|certificate| pem("CERTIFICATE", certificate)).collect()
    };
    match step {
        Step::Keep | Step::AwaitPublication | Step::AwaitUptake { .. } => Ok(base.clone()),
        Step::SetBundle { bundle } | Step::Restore { bundle } => {
            Ok(Material { authorities: pick(bundle), ..base.clone() })
        }
        Step::AddAuthority { bundle } => add_authority(base, &pick(bundle), now),
        Step::SignLeaf => sign_leaf(base, dns_name, now),
        Step::Create { bundle } => sign_leaf(&add_authority(base, &pick(bundle), now)?, dns_name, now),
    }
}

fn add_authority(base: &Material, bundle: &str, now: Timestamp) -> Result<Material, MaterialError> {
    let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    let mut parameters = CertificateParams::new(vec![AUTHORITY_NAME.to_owned()])?;
    parameters.distinguished_name = common_name(AUTHORITY_NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    parameters.not_before = SystemTime::from(now.checked_sub(CLOCK_SKEW).unwrap_or(now)).into();
    parameters.not_after = SystemTime::from(now.checked_add(LIFETIME).unwrap_or(now)).into();
    let certificate = parameters.self_signed(&key)?;
    Ok(Material {
        authorities: pem("CERTIFICATE", certificate.der()) + bundle,
        authority_key: pkcs1_pem(&key)?,
        ..base.clone()
    })
}

fn sign_leaf(base: &Material, dns_name: &str, now: Timestamp) -> Result<Material, MaterialError> {
    let authorities = certificates(&base.authorities);
    let first = authorities.first().ok_or(MaterialError::NoAuthority)?;
    let not_before = authority(first).map_or(now, |authority| authority.not_before);
    let issuer = Issuer::from_ca_cert_der(first, KeyPair::from_pem(&base.authority_key)?)?;
    let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned(), dns_name.to_owned()])?;
    parameters.distinguished_name = common_name(dns_name);
    parameters.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.use_authority_key_identifier_extension = true;
    parameters.not_before = SystemTime::from(not_before).into();
    parameters.not_after = SystemTime::from(now.checked_add(LIFETIME).unwrap_or(now)).into();
    let certificate = parameters.signed_by(&key, &issuer)?;
    Ok(Material { certificate: pem("CERTIFICATE", certificate.der()), key: pkcs1_pem(&key)?, ..base.clone() })
}

fn common_name(name: &str) -> rcgen::DistinguishedName {
    let mut distinguished_name = rcgen::DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}

/// The certificates of PEM text; what isn't one is passed over.
pub fn certificates(text: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok).collect()
}

/// Certificates of our own authorities in a published bundle, which is base64 of PEM.
pub(crate) fn own_authorities(bundle: &str) -> Vec<CertificateDer<'static>> {
    let Some(text) = STANDARD.decode(bundle).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Vec::new();
    };
    let named = |certificate: &CertificateDer<'_>| {
        X509Certificate::from_der(certificate).is_ok_and(|(_, certificate)| {
            certificate.is_ca()
                && certificate.subject().iter_common_name().any(|name| name.as_str() == Ok(AUTHORITY_NAME))
        })
    };
    certificates(&text).into_iter().filter(named).collect()
}

/// One bundle of several replicas' authorities: all of `own` and the youngest others that have not
/// expired, `most` in all, the youngest first.
pub(crate) fn shared_bundle(
    all: &[CertificateDer<'static>],
    own: &[CertificateDer<'static>],
    most: usize,
    now: Timestamp,
) -> String {
    let mut valid: Vec<(Authority, &CertificateDer<'static>)> = all
        .iter()
        .filter_map(|certificate| authority(certificate).map(|authority| (authority, certificate)))
        .filter(|(authority, _)| authority.not_after > now)
        .collect();
    valid.sort_by_key(|(authority, _)| (std::cmp::Reverse(authority.not_before), authority.id));
    let (ours, others): (Vec<_>, Vec<_>) =
        valid.into_iter().partition(|(_, certificate)| own.contains(certificate));
    let mut kept: Vec<(Authority, &CertificateDer<'static>)> =
        ours.into_iter().chain(others).take(most).collect();
    // All replicas must write the same text, or they would never settle.
    kept.sort_by_key(|(authority, _)| (std::cmp::Reverse(authority.not_before), authority.id));
    kept.into_iter().map(|(_, certificate)| pem("CERTIFICATE", certificate)).collect()
}

/// What a certificate says as an authority; `None` where it isn't readable.
pub(crate) fn authority(certificate: &CertificateDer<'_>) -> Option<Authority> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    Some(Authority {
        id: fingerprint(certificate),
        not_before: time(parsed.validity().not_before)?,
        not_after: time(parsed.validity().not_after)?,
    })
}

fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.public_key().raw.to_vec())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    Fingerprint(Sha256::digest(certificate).into())
}

fn signed_by(chain: &[CertificateDer<'_>], authority: &CertificateDer<'_>, time: Timestamp) -> bool {
    let Some((leaf, intermediates)) = chain.split_first() else { return false };
    let mut roots = RootCertStore::empty();
    let time =
        UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default()));
    let algorithms = provider().signature_verification_algorithms.all;
    roots.add(authority.clone().into_owned()).is_ok()
        && ParsedCertificate::try_from(leaf).is_ok_and(|leaf| {
            verify_server_cert_signed_by_trust_anchor(&leaf, &roots, intermediates, time, algorithms).is_ok()
        })
}

/// The cryptography of all certificates and connections here.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// RSA keys are stored as PKCS#1, the only form in which OpenKruise reads its authority's key.
fn pkcs1_pem(key: &KeyPair) -> Result<String, MaterialError> {
    use x509_parser::der_parser::der::parse_der_sequence;
    let (_, outer) = parse_der_sequence(key.serialized_der()).map_err(|_| MaterialError::KeyForm)?;
    let parts = outer.as_sequence().map_err(|_| MaterialError::KeyForm)?;
    let inner = parts.get(2).and_then(|part| part.as_slice().ok()).ok_or(MaterialError::KeyForm)?;
    Ok(pem("RSA PRIVATE KEY", inner))
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes make a line of 64 characters.
    for line in der.chunks(48) {
        STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests;
