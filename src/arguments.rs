//! Arguments of `kutter serve`: those of OpenKruise's manager (docs/behaviour/server.md#arguments), and a few
//! of our own.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kubectl_kruise::arguments::{boolean, duration};

/// Arguments of `kutter serve`. Flags of controllers that this build does not contain are accepted, so
/// that existing manifests start unchanged.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArguments {
    /// Kubeconfig to use outside a cluster
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Answer reviews from the objects in this folder, with no API server; HTTPS with a certificate of
    /// its own
    #[arg(long, value_name = "DIR")]
    pub objects: Option<PathBuf>,
    /// Serve webhooks only; run no controllers and take no part in the election
    #[arg(long)]
    pub webhooks_only: bool,
    /// Feature gates: A=true,B=false
    #[arg(long, default_value = "", value_delimiter = ',', action = clap::ArgAction::Append)]
    pub feature_gates: Vec<String>,
    /// Address of /metrics
    #[arg(long, default_value = ":8080")]
    pub metrics_addr: String,
    /// Serve /metrics over TLS, to those whose token may get it at the API server, instead of plain HTTP to everybody
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set, conflicts_with = "objects")]
    pub metrics_secure: bool,
    /// Kinds whose objects the leader serves as metrics at /metrics/objects, in small letters with commas between them
    #[arg(long, value_name = "KINDS", default_value = "")]
    pub object_metrics: String,
    /// Address of /healthz and /readyz, plain HTTP
    #[arg(long, default_value = ":8000")]
    pub health_probe_addr: String,
    /// Templates may hold privileged containers
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub allow_privileged: bool,
    /// Run controllers only on the replica that holds the Lease
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub enable_leader_election: bool,
    /// Namespace of the Lease; empty: the install namespace
    #[arg(long, default_value = "")]
    pub leader_election_namespace: String,
    /// Name of the Lease
    #[arg(long, default_value = "kruise-manager")]
    pub leader_election_id: String,
    /// How long a Lease holds without being renewed
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub leader_election_lease_duration: Duration,
    /// After this time without a renewal a leader stops
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub leader_election_renew_deadline: Duration,
    /// Pause before a failed renewal is tried again, and between two reads by the others; at most a third of the deadline
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub leader_election_retry_period: Duration,
    /// How long to wait for the first publication of certificates and registrations before giving up
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub webhook_initialize_timeout: Duration,
    /// Folder of protection.log
    #[arg(long, default_value = "/log")]
    pub protection_log_path: PathBuf,
    /// Name users in the metrics of refused deletes; false leaves that label empty
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub user_names_in_metrics: bool,
    /// Answer refused evictions with 429, so that kubectl drain waits and tries again, instead of 403
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub retry_refused_evictions: bool,
    /// How the containers of Pods are made to end in their order, where the Pod does not say it
    #[arg(long, default_value = "Hook", value_parser = ["Hook", "NativeSidecar"])]
    pub container_exit_mode: String,
    /// Image with the program of the exit hook; without one the mode Hook can't be used
    #[arg(long, default_value = "")]
    pub exit_hook_image: String,
    /// As whom the program of the exit hook is copied into a Pod; 0 leaves it to the cluster
    #[arg(long, default_value = "65534")]
    pub exit_hook_run_as_user: u32,
    /// How long the exit hook of a container waits to hear from the agent of the node, in whole seconds
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub exit_hook_window: Duration,
    /// After the stop signal: how long to continue accepting while unready
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub drain_duration: Duration,
    /// failurePolicy of the deletion protection entries: Fail or Ignore
    #[arg(long, default_value = "Fail", value_parser = ["Fail", "Ignore"])]
    pub protection_failure_policy: String,
    /// Register no webhooks for the kinds whose deletion protection the chart's policies decide alone
    #[arg(long)]
    pub protection_by_policies: bool,
    /// failurePolicy of the Pod entries: Fail or Ignore
    #[arg(long, default_value = "Fail", value_parser = ["Fail", "Ignore"])]
    pub pod_failure_policy: String,
    /// timeoutSeconds of every webhook entry
    #[arg(long, default_value = "10", value_parser = clap::value_parser!(u8).range(1..=30))]
    pub webhook_timeout_seconds: u8,
    /// Namespaces whose objects are never sent to the webhooks, besides kube-system and our own
    #[arg(long, value_delimiter = ',')]
    pub webhook_excluded_namespaces: Vec<String>,
    /// Answer webhook paths for any caller, as registrations need that this server doesn't write
    #[arg(long)]
    pub legacy_paths: bool,
    /// Answer reviews only to callers with a certificate by an authority in this file, PEM
    #[arg(long, value_name = "FILE", conflicts_with = "objects")]
    pub client_ca_file: Option<PathBuf>,
    /// Common name or DNS name that such a certificate must have, if any is given
    #[arg(long, value_name = "NAME", action = clap::ArgAction::Append, requires = "client_ca_file")]
    pub client_allowed_name: Vec<String>,
    /// How long every API server takes at most to follow a change of what is registered
    #[arg(long, default_value = "90s", value_parser = duration)]
    pub registration_uptake: Duration,
    /// How often to try, by a dry run, whether the API server calls for reviews of Pods
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub webhook_silence: Duration,
    /// Log lines as `text` or `json`
    #[arg(long, default_value = "text")]
    pub logging_format: String,
    /// Log level: up to 3 logs what is important, 4 is normal, 5 and more logs details
    #[arg(long, default_value = "4")]
    pub v: i32,
    /// CloneSets that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub cloneset_workers: u16,
    /// Pods that prepare for their deletion do not count when a CloneSet is scaled
    #[arg(long, default_value = "false", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub cloneset_scaling_exclude_preparing_delete: bool,
    /// StatefulSets that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub statefulset_workers: u16,
    /// DaemonSets that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub daemonset_workers: u16,
    /// BroadcastJobs that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub broadcastjob_workers: u16,
    /// The scheduler binds Pods of BroadcastJobs to their nodes; they are created there otherwise
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub assign_bcj_pods_by_scheduler: bool,
    /// The scheduler binds Pods of DaemonSets to their nodes; they are created there otherwise
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub assign_pods_by_scheduler: bool,
    /// SidecarSets that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub sidecarset_workers: u16,
    /// ContainerRecreateRequests that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub crr_workers: u16,
    /// AdvancedCronJobs that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub advancedcronjob_workers: u16,
    /// UnitedDeployments that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub uniteddeployment_workers: u16,
    /// WorkloadSpreads that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub workloadspread_workers: u16,
    /// PersistentPodStates that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub persistentpodstate_workers: u16,
    /// Kinds of workloads, with commas between them, whose Pods have quotas in WorkloadSpreads for each version
    #[arg(long, default_value = "deployment,replicaset")]
    pub ws_enabled_versioned_status: String,
    /// Pods that the SidecarTerminator reconciles at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub sidecarterminator_workers: u16,
    /// ResourceDistributions that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub resourcedistribution_workers: u16,
    /// PodUnavailableBudgets that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub podunavailablebudget_workers: u16,
    /// NodeImages that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub nodeimage_workers: u16,
    /// ImagePullJobs, and ImageListPullJobs, that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub imagepulljob_workers: u16,
    /// How long a Node must have been ready before it gets a NodeImage
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub nodeimage_creation_delay: Duration,
    /// Seconds that tasks stay on NodeImages beyond the time of an ImagePullJob that ends
    #[arg(long, default_value = "300", value_parser = clap::value_parser!(i32).range(0..=2_678_400))]
    pub default_ttlseconds_for_always_nodeimage: i32,
    /// PodProbeMarkers that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub podprobemarker_workers: u16,
    /// NodePodProbes that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub nodepodprobe_workers: u16,
    /// Rollouts that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub rollout_workers: u16,
    /// BatchReleases that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub batchrelease_workers: u16,
    /// TrafficRoutings that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub trafficrouting_workers: u16,
    /// Deployments of Rollouts that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub deployment_workers: u16,
    /// DaemonSets of Rollouts that are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub nativedaemonset_workers: u16,
    /// Rollouts whose histories are reconciled at a time
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub rollouthistory_workers: u16,
    /// The most that a step of a Rollout with traffic may replace of a workload's own Pods, in percent
    #[arg(long, default_value = "50", value_parser = clap::value_parser!(i32).range(0..=100))]
    pub partition_percent_limit: i32,
    /// Rollouts may name workloads of known kinds alone, not those of any kind that looks like a StatefulSet
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub filter_workload_type: bool,
    /// Address of OpenKruise's profiles, which this program does not have
    #[arg(long, hide = true)]
    pub pprof_addr: Option<String>,
    /// As pprof-addr
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = boolean)]
    pub enable_pprof: Option<bool>,
    /// The one namespace that OpenKruise's manager would watch; this program serves whole clusters only
    #[arg(long, hide = true, default_value = "")]
    pub namespace: String,
    #[command(flatten)]
    pub accepted: AcceptedArguments,
}

macro_rules! accepted {
    ($($name:ident)*) => {
        /// Flags that OpenKruise's manager knows and that change nothing here: they tune parts which
        /// this program does without, or which it does not contain yet.
        #[derive(Clone, Debug, Args)]
        pub(crate) struct AcceptedArguments {
            $(#[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
            $name: Option<String>,)*
        }

        impl AcceptedArguments {
            /// The names of those that were given.
            pub(crate) fn given(&self) -> Vec<&'static str> {
                [$((stringify!($name), &self.$name)),*]
                    .into_iter()
                    .filter_map(|(name, value)| value.is_some().then_some(name))
                    .collect()
            }
        }
    };
}

accepted! {
    leader_election_resource_lock sync_period
    controller_cache_sync_timeout rest_config_qps rest_config_burst
    expectation_timeout rate_limiter_base_delay
    rate_limiter_max_delay rate_limiter_qps rate_limiter_bucket_size disable_no_deepcopy vmodule
    log_flush_frequency log_text_split_stream log_text_info_buffer_size log_json_split_stream
    log_json_info_buffer_size logtostderr alsologtostderr stderrthreshold log_dir log_file log_file_max_size
    add_dir_header skip_headers skip_log_headers one_output log_backtrace_at
}

impl ServeArguments {
    /// The gates that the command line and the environment ask for.
    pub(crate) fn feature_gates(&self) -> Result<api::features::FeatureGates, api::features::FeatureError> {
        let legacy = std::env::var("CUSTOM_RESOURCE_ENABLE").unwrap_or_default();
        api::features::FeatureGates::parse(&self.feature_gates.join(","), &legacy)
    }
}

/// The value of an environment variable, or `default` where it is unset or empty.
pub(crate) fn environment(name: &str, default: &str) -> String {
    std::env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}
