//! Where certificates are kept, and whom they are published to (docs/behaviour/server.md#environment and
//! docs/behaviour/server.md#modes-of-certificates).

use std::path::PathBuf;
use std::time::Duration;

use admission::registration::{self, ServerAddress};
use admission::rotation::{self, Timing};
use api::features::{Feature, FeatureGates};
use thiserror::Error;

/// Who makes the certificates, and where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// We, in a Secret that all replicas share.
    Secret,
    /// We, in files of this machine.
    Files,
    /// Somebody else, in a Secret; only entries that are missing are written.
    External,
}

/// All that the certificates of one server depend on.
#[derive(Clone, Debug)]
pub struct CertificateSettings {
    /// Who makes them.
    pub mode: Mode,
    /// Name of the Secret; it lies in the install namespace.
    pub secret: String,
    /// Directory of the files (mode [`Mode::Files`]).
    pub directory: PathBuf,
    /// The port on which this process listens.
    pub port: u16,
    /// How long before its expiry a certificate is renewed, and when API servers trust a new authority.
    pub timing: Timing,
    /// What the webhook entries say.
    pub registration: registration::Settings,
    /// Feature gates.
    pub gates: FeatureGates,
    /// Plain paths are answered for any caller: registrations that this server doesn't write need that.
    pub legacy_paths: bool,
    /// Name of our own Pod in the install namespace, for Events; `None` outside of a cluster.
    pub pod: Option<String>,
    /// Everything is compared again after this time even if nothing happened.
    pub resync: Duration,
}

/// An environment variable that can't be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// `WEBHOOK_PORT` isn't a port.
    #[error("WEBHOOK_PORT={0} is not a port: give a number from 1 to 65535")]
    Port(String),
}

impl CertificateSettings {
    /// Reads the environment through `variable`; an empty value counts as unset.
    ///
    /// # Errors
    /// `WEBHOOK_PORT` isn't a port, which is fatal (docs/behaviour/server.md#environment).
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        gates: FeatureGates,
    ) -> Result<Self, SettingsError> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let or = |name: &str, default: &str| get(name).unwrap_or_else(|| default.to_owned());
        let namespace = or("POD_NAMESPACE", api::DEFAULT_NAMESPACE);
        let port = or("WEBHOOK_PORT", "9876");
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(SettingsError::Port(port))?;
        let host = get("WEBHOOK_HOST");
        let writer = get("WEBHOOK_CERT_WRITER");
        let mode = match writer.as_deref() {
            _ if gates.enabled(Feature::EnableExternalCerts) => Mode::External,
            Some("fs") => Mode::Files,
            None if host.is_some() => Mode::Files,
            _ => Mode::Secret,
        };
        let endpoint = match host {
            Some(host) => ServerAddress::Host { host, port },
            None => ServerAddress::Service {
                namespace: namespace.clone(),
                name: or("SERVICE_NAME", "kruise-webhook-service"),
            },
        };
        Ok(Self {
            mode,
            secret: or("SECRET_NAME", "kruise-webhook-certs"),
            directory: PathBuf::from(or("WEBHOOK_CERT_DIR", "/tmp/kruise-webhook-certs")),
            port,
            timing: Timing {
                renew_before: rotation::parse_renew_before(get("CERTS_RENEW_BEFORE").as_deref()),
                uptake: rotation::UPTAKE,
            },
            registration: registration::Settings::new(namespace, endpoint),
            gates,
            legacy_paths: false,
            pod: get("POD_NAME"),
            // Nothing reports a change to a file.
            resync: Duration::from_secs(if mode == Mode::Files { 60 } else { 600 }),
        })
    }

    /// Whether registered paths begin with a segment. Replicas must agree on it, so it needs a store that they share.
    pub(crate) fn has_segments(&self) -> bool {
        self.mode == Mode::Secret
    }

    /// Whether plain paths are answered to everybody.
    pub(crate) fn answers_everybody(&self) -> bool {
        self.legacy_paths || !self.has_segments()
    }

    /// The name that the serving certificate must carry.
    pub fn dns_name(&self) -> String {
        self.registration.endpoint.dns_name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], flags: &str) -> Result<CertificateSettings, SettingsError> {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        CertificateSettings::from_environment(find, FeatureGates::parse(flags, "").unwrap())
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let settings = read(&[("WEBHOOK_HOST", "")], "").unwrap();
        assert_eq!((settings.mode, settings.port), (Mode::Secret, 9876));
        assert_eq!(settings.dns_name(), "kruise-webhook-service.kruise-system.svc");
        assert_eq!(settings.secret, "kruise-webhook-certs");
    }

    #[test]
    fn mode_follows_gate_then_writer_then_host() {
        let mode = |variables: &[(&str, &str)], flags| read(variables, flags).unwrap().mode;
        assert_eq!(mode(&[("WEBHOOK_HOST", "10.0.0.5")], ""), Mode::Files);
        assert_eq!(
            mode(&[("WEBHOOK_HOST", "10.0.0.5"), ("WEBHOOK_CERT_WRITER", "secret")], ""),
            Mode::Secret
        );
        assert_eq!(mode(&[("WEBHOOK_CERT_WRITER", "fs")], ""), Mode::Files);
        assert_eq!(mode(&[("WEBHOOK_CERT_WRITER", "fs")], "EnableExternalCerts=true"), Mode::External);
    }

    #[test]
    fn a_bad_port_is_fatal() {
        for port in ["x", "0", "65536"] {
            assert_eq!(
                read(&[("WEBHOOK_PORT", port)], "").unwrap_err(),
                SettingsError::Port(port.to_owned())
            );
        }
    }
}
