//! Arguments and environment, checked and brought into the form that the rooms understand.

use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::features::{Feature, FeatureGates};
use cluster::election;
use planner::registration::{self, Endpoint, FailurePolicy};
use tracing::warn;

use crate::arguments::{ServeArguments, environment};

/// What `kutter serve` runs with.
pub struct Settings {
    pub kubeconfig: Option<PathBuf>,
    pub gates: FeatureGates,
    pub install_namespace: String,
    pub webhook_port: u16,
    pub health_probe_addr: String,
    pub metrics_addr: String,
    pub protection_log_path: PathBuf,
    pub initialize_timeout: Duration,
    pub drain: Duration,
    pub webhooks_only: bool,
    pub elected: bool,
    pub election: election::Settings,
    allow_privileged: bool,
    pod_failure_policy: FailurePolicy,
    protection_failure_policy: FailurePolicy,
    timeout_seconds: NonZeroU8,
    excluded_namespaces: Vec<String>,
}

/// Lines on standard error, as text or JSON.
pub fn start_logging(arguments: &ServeArguments) {
    let builder = tracing_subscriber::fmt().with_max_level(arguments.log_level()).with_writer(std::io::stderr);
    if arguments.logging_format == "json" {
        builder.json().init();
    } else {
        builder.with_ansi(false).init();
    }
}

/// The clock of admission.
pub fn clock() -> webhooks::admission::Clock {
    Arc::new(super::moment)
}

impl Settings {
    /// Checks the arguments and reads the environment (spec 00 §3.2, §3.4).
    pub fn new(arguments: &ServeArguments) -> anyhow::Result<Self> {
        let install_namespace = environment("POD_NAMESPACE", api::DEFAULT_NAMESPACE);
        let port = environment("WEBHOOK_PORT", "9876");
        let lease_namespace = Some(arguments.leader_election_namespace.clone()).filter(|name| !name.is_empty());
        let replica = environment("POD_NAME", &environment("HOSTNAME", "kutter"));
        Ok(Self {
            kubeconfig: arguments.kubeconfig.clone(),
            gates: arguments.feature_gates().context("--feature-gates")?,
            webhook_port: port.parse().with_context(|| format!("WEBHOOK_PORT={port:?} is not a port"))?,
            health_probe_addr: arguments.health_probe_addr.clone(),
            metrics_addr: arguments.metrics_addr.clone(),
            protection_log_path: arguments.protection_log_path.clone(),
            initialize_timeout: arguments.webhook_initialize_timeout,
            drain: arguments.drain_duration,
            webhooks_only: arguments.webhooks_only,
            elected: arguments.enable_leader_election,
            election: election::Settings {
                namespace: lease_namespace.unwrap_or_else(|| install_namespace.clone()),
                name: arguments.leader_election_id.clone(),
                // Several replicas may share a host name, for example in tests.
                identity: format!("{replica}_{}_{}", std::process::id(), super::moment().seed),
                lease_duration: arguments.leader_election_lease_duration,
                renew_deadline: arguments.leader_election_renew_deadline,
            },
            allow_privileged: arguments.allow_privileged,
            pod_failure_policy: policy(&arguments.pod_failure_policy),
            protection_failure_policy: policy(&arguments.protection_failure_policy),
            timeout_seconds: NonZeroU8::new(arguments.webhook_timeout_seconds).context("--webhook-timeout-seconds")?,
            excluded_namespaces: arguments.webhook_excluded_namespaces.clone(),
            install_namespace,
        })
    }

    /// What admission is told.
    pub fn admission(&self) -> webhooks::Settings {
        webhooks::Settings {
            install_namespace: self.install_namespace.clone(),
            allow_privileged: self.allow_privileged,
            ..webhooks::Settings::default()
        }
    }

    /// What the webhook entries are to say.
    pub fn registration(&self) -> registration::Settings {
        registration::Settings {
            pod_failure_policy: self.pod_failure_policy,
            protection_failure_policy: self.protection_failure_policy,
            timeout_seconds: self.timeout_seconds,
            excluded_namespaces: self.excluded_namespaces.clone(),
            ..registration::Settings::new(&self.install_namespace, self.endpoint())
        }
    }

    /// How the API server reaches us: by Service, or by URL where `WEBHOOK_HOST` says so.
    fn endpoint(&self) -> Endpoint {
        let host = environment("WEBHOOK_HOST", "");
        if host.is_empty() {
            let name = environment("SERVICE_NAME", "kruise-webhook-service");
            return Endpoint::Service { namespace: self.install_namespace.clone(), name };
        }
        Endpoint::Host { host, port: self.webhook_port }
    }

    /// Tells of combinations that surprise.
    pub fn warn_of_traps(&self) {
        if self.gates.enabled(Feature::ResourcesDeletionProtection)
            && !self.gates.enabled(Feature::DeletionProtectionForCRDCascadingGate)
        {
            warn!(
                "CustomResourceDefinitions labelled policy.kruise.io/delete-protection=Cascading can't be deleted at \
                 all while the gate DeletionProtectionForCRDCascadingGate is off"
            );
        }
    }
}

fn policy(word: &str) -> FailurePolicy {
    if word == "Ignore" { FailurePolicy::Ignore } else { FailurePolicy::Fail }
}
