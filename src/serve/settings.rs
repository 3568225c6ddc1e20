//! Arguments and environment, checked and brought into the form that the crates understand.

use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admission::registration::FailurePolicy;
use anyhow::{Context, ensure};
use api::features::{Feature, FeatureGates};
use api::kinds::{broadcastjob, daemonset};
use cluster::election;
use controllers::metrics::objects::ShownKinds;
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use kinds::advancedcronjob::schedule::zone;
use kinds::workloadspread::version::VersionedKinds;
use pod::exit_priority;
use tracing::warn;

use crate::arguments::{ServeArguments, environment};

/// What `kutter serve` runs with.
pub(crate) struct Settings {
    pub kubeconfig: Option<PathBuf>,
    pub gates: FeatureGates,
    pub install_namespace: String,
    pub webhook_port: u16,
    pub health_probe_addr: String,
    pub metrics_addr: String,
    /// Whether metrics are served over TLS, to those who may read them.
    pub metrics_secure: bool,
    /// The kinds whose objects have metrics.
    pub shown_kinds: ShownKinds,
    pub protection_log_path: PathBuf,
    pub initialize_timeout: Duration,
    pub drain: Duration,
    /// How often it is tried whether the API server calls for reviews of Pods.
    pub silence: Duration,
    pub webhooks_only: bool,
    pub elected: bool,
    pub election: election::Settings,
    pub certificates: certs::CertificateSettings,
    /// The file with the authorities of API servers' certificates, and the names that count.
    pub client_authorities: Option<(PathBuf, Vec<String>)>,
    pub controllers: Arc<controllers::Settings>,
    allow_privileged: bool,
    user_names_in_metrics: bool,
    /// Whether clients are asked to try a refused eviction again.
    retry_refused_evictions: bool,
    exit_priority: exit_priority::Settings,
    partition_percent_limit: i32,
    filter_workload_type: bool,
    profiles_wanted: bool,
    without_effect: Vec<&'static str>,
}

/// The clock of admission.
pub(crate) fn clock() -> webhooks::admission::Clock {
    Arc::new(super::moment)
}

impl Settings {
    /// Checks the arguments and reads the environment (docs/behaviour/server.md#arguments and
    /// docs/behaviour/server.md#environment).
    pub(crate) fn new(arguments: &ServeArguments) -> anyhow::Result<Self> {
        let gates = arguments.feature_gates().context("--feature-gates")?;
        let certificates = certificates(arguments, &gates)?;
        let install_namespace = certificates.registration.namespace.clone();
        let lease_namespace =
            Some(arguments.leader_election_namespace.clone()).filter(|name| !name.is_empty());
        let renew_deadline = arguments.leader_election_renew_deadline;
        ensure!(
            renew_deadline < arguments.leader_election_lease_duration,
            "--leader-election-renew-deadline must be shorter than --leader-election-lease-duration"
        );
        ensure!(arguments.namespace.is_empty(), "--namespace is not supported: the whole cluster is served");
        let replica = environment("POD_NAME", &environment("HOSTNAME", "kutter"));
        let bypassing = [
            (!arguments.assign_pods_by_scheduler).then_some(daemonset::KIND),
            (!arguments.assign_bcj_pods_by_scheduler).then_some(broadcastjob::KIND),
        ];
        let controllers = controllers::Settings {
            gates: gates.clone(),
            install_namespace: install_namespace.clone(),
            cloneset_workers: arguments.cloneset_workers.into(),
            statefulset_workers: arguments.statefulset_workers.into(),
            daemonset_workers: arguments.daemonset_workers.into(),
            broadcastjob_workers: arguments.broadcastjob_workers.into(),
            bypassing_scheduler: bypassing.into_iter().flatten().collect(),
            cloneset_scaling_exclude_preparing_delete: arguments.cloneset_scaling_exclude_preparing_delete,
            crr_workers: arguments.crr_workers.into(),
            advancedcronjob_workers: arguments.advancedcronjob_workers.into(),
            time_zone: time_zone(&environment("TZ", "")),
            uniteddeployment_workers: arguments.uniteddeployment_workers.into(),
            sidecarset_workers: arguments.sidecarset_workers.into(),
            sidecarterminator_workers: arguments.sidecarterminator_workers.into(),
            resourcedistribution_workers: arguments.resourcedistribution_workers.into(),
            workloadspread_workers: arguments.workloadspread_workers.into(),
            persistentpodstate_workers: arguments.persistentpodstate_workers.into(),
            versioned: VersionedKinds::parse(&arguments.ws_enabled_versioned_status),
            podunavailablebudget_workers: arguments.podunavailablebudget_workers.into(),
            nodeimage_workers: arguments.nodeimage_workers.into(),
            imagepulljob_workers: arguments.imagepulljob_workers.into(),
            nodeimage_creation_delay: arguments.nodeimage_creation_delay,
            task_ttl_seconds: arguments.default_ttlseconds_for_always_nodeimage,
            podprobemarker_workers: arguments.podprobemarker_workers.into(),
            nodepodprobe_workers: arguments.nodepodprobe_workers.into(),
            config_namespace: environment("KRUISE_DAEMON_CONFIG_NS", "kruise-daemon-config"),
            rollout_workers: arguments.rollout_workers.into(),
            batchrelease_workers: arguments.batchrelease_workers.into(),
            trafficrouting_workers: arguments.trafficrouting_workers.into(),
            deployment_workers: arguments.deployment_workers.into(),
            nativedaemonset_workers: arguments.nativedaemonset_workers.into(),
            rollouthistory_workers: arguments.rollouthistory_workers.into(),
        };
        Ok(Self {
            kubeconfig: arguments.kubeconfig.clone(),
            gates,
            webhook_port: certificates.port,
            client_authorities: arguments
                .client_ca_file
                .clone()
                .map(|file| (file, arguments.client_allowed_name.clone())),
            health_probe_addr: arguments.health_probe_addr.clone(),
            metrics_addr: arguments.metrics_addr.clone(),
            metrics_secure: arguments.metrics_secure,
            shown_kinds: ShownKinds::parse(&arguments.object_metrics).context("--object-metrics")?,
            protection_log_path: arguments.protection_log_path.clone(),
            initialize_timeout: arguments.webhook_initialize_timeout,
            drain: arguments.drain_duration,
            silence: arguments.webhook_silence,
            webhooks_only: arguments.webhooks_only,
            elected: arguments.enable_leader_election,
            election: election::Settings {
                namespace: lease_namespace.unwrap_or_else(|| install_namespace.clone()),
                name: arguments.leader_election_id.clone(),
                // Several replicas may share a host name, for example in tests.
                identity: format!("{replica}_{:016x}", super::moment().seed),
                lease_duration: arguments.leader_election_lease_duration,
                renew_deadline,
                retry_period: arguments.leader_election_retry_period.min(renew_deadline / 3),
            },
            controllers: Arc::new(controllers),
            allow_privileged: arguments.allow_privileged,
            user_names_in_metrics: arguments.user_names_in_metrics,
            retry_refused_evictions: arguments.retry_refused_evictions,
            exit_priority: exit_priority::Settings {
                mode: exit_priority::Mode::parse(&arguments.container_exit_mode).unwrap_or_default(),
                image: arguments.exit_hook_image.clone(),
                run_as_user: arguments.exit_hook_run_as_user,
                window: arguments.exit_hook_window,
            },
            partition_percent_limit: arguments.partition_percent_limit,
            filter_workload_type: arguments.filter_workload_type,
            profiles_wanted: arguments.enable_pprof.unwrap_or(arguments.pprof_addr.is_some()),
            without_effect: arguments.accepted.given(),
            certificates,
            install_namespace,
        })
    }

    /// The settings of admission.
    pub(crate) fn admission_flags(&self) -> webhooks::AdmissionFlags {
        webhooks::AdmissionFlags {
            allow_privileged: self.allow_privileged,
            user_names_in_metrics: self.user_names_in_metrics,
            retry_refused_evictions: self.retry_refused_evictions,
            exit_priority: self.exit_priority.clone(),
            partition_percent_limit: self.partition_percent_limit,
            filter_workload_type: self.filter_workload_type,
        }
    }

    /// Reports arguments and combinations that surprise.
    pub(crate) fn warn_of_traps(&self) {
        if self.profiles_wanted {
            warn!("--enable-pprof and --pprof-addr have no effect: this program serves no /debug/pprof");
        }
        if !self.without_effect.is_empty() {
            warn!(arguments = ?self.without_effect, "arguments without effect: what they tune does not exist here");
        }
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

/// How certificates are kept, and webhooks registered.
fn certificates(
    arguments: &ServeArguments,
    gates: &FeatureGates,
) -> anyhow::Result<certs::CertificateSettings> {
    let mut certificates =
        certs::CertificateSettings::from_environment(|name| std::env::var(name).ok(), gates.clone())?;
    certificates.legacy_paths = arguments.legacy_paths;
    certificates.timing.uptake =
        SignedDuration::try_from(arguments.registration_uptake).context("--registration-uptake")?;
    let registration = &mut certificates.registration;
    registration.pod_failure_policy = policy(&arguments.pod_failure_policy);
    registration.protection_failure_policy = policy(&arguments.protection_failure_policy);
    registration.protection_by_policies = arguments.protection_by_policies;
    registration.timeout_seconds =
        NonZeroU8::new(arguments.webhook_timeout_seconds).context("--webhook-timeout-seconds")?;
    registration.excluded_namespaces.clone_from(&arguments.webhook_excluded_namespaces);
    Ok(certificates)
}

/// The zone of schedules that name none: that of the environment, by its name, or UTC.
fn time_zone(name: &str) -> TimeZone {
    zone(name.strip_prefix(':').unwrap_or(name)).unwrap_or_else(|error| {
        warn!(%error, "TZ names no zone: schedules that name none are read in UTC");
        TimeZone::UTC
    })
}

fn policy(word: &str) -> FailurePolicy {
    if word == "Ignore" { FailurePolicy::Ignore } else { FailurePolicy::Fail }
}
