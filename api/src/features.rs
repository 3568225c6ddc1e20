//! Feature gates: names, defaults, stages and the dependency rules between them
//! (docs/behaviour/api-and-registration.md#dependencies-between-gates).

use std::fmt;

use thiserror::Error;

/// Maturity of a gate; `AllAlpha` and `AllBeta` flip every gate of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on by default.
    Beta,
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $default:literal, $stage:ident;)*) => {
        /// A feature gate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature { $($(#[$doc])* $name,)* }

        impl Feature {
            /// Every gate, in the order of the catalogue.
            pub const ALL: &'static [Feature] = &[$(Feature::$name,)*];

            /// The gate's name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Feature::$name => stringify!($name),)* }
            }

            /// Whether the gate is on when nothing is said.
            pub fn default_enabled(self) -> bool {
                match self { $(Feature::$name => $default,)* }
            }

            /// The gate's stage.
            pub fn stage(self) -> Stage {
                match self { $(Feature::$name => Stage::$stage,)* }
            }
        }
    };
}

features! {
    /// Serving and registration of `/mutate-pod` and `/validate-pod`.
    PodWebhook = true, Beta;
    /// Node images, image jobs, container restarts and probes.
    KruiseDaemon = true, Beta;
    /// The node agent watches the Pods of its node.
    DaemonWatchingPod = true, Beta;
    /// CloneSet's Pod label `controller-revision-hash` holds only the hash.
    CloneSetShortHash = false, Alpha;
    /// The readiness gate `KruisePodReady` on all Pods.
    KruisePodReadinessGate = false, Alpha;
    /// CloneSet and StatefulSet create ImagePullJobs for a new revision.
    PreDownloadImageForInPlaceUpdate = false, Alpha;
    /// DaemonSet creates ImagePullJobs for a new revision.
    PreDownloadImageForDaemonSetUpdate = false, Alpha;
    /// CloneSet moves updated Pods back when the partition grows.
    CloneSetPartitionRollback = false, Alpha;
    /// Deletion protection by label.
    ResourcesDeletionProtection = false, Beta;
    /// `Cascading` protection of CustomResourceDefinitions.
    DeletionProtectionForCRDCascadingGate = false, Alpha;
    /// PodUnavailableBudget for deletes and evictions.
    PodUnavailableBudgetDeleteGate = true, Beta;
    /// PodUnavailableBudget for updates.
    PodUnavailableBudgetUpdateGate = false, Alpha;
    /// PodUnavailableBudget treats in-place resize as its own operation.
    InPlacePodVerticalScaling = false, Alpha;
    /// WorkloadSpread, controller and webhook.
    WorkloadSpread = true, Beta;
    /// No defaulting of Pod and claim templates.
    TemplateNoDefaults = false, Alpha;
    /// `hostPort` defaulting in templates with `hostNetwork: true`.
    DefaultHostNetworkHostPortsInPodTemplates = false, Alpha;
    /// In-place restart when env from labels or annotations changes.
    InPlaceUpdateEnvFromMetadata = true, Beta;
    /// In-place update of container resources.
    InPlaceWorkloadVerticalScaling = false, Alpha;
    /// CloneSet recreates Pods when volumeClaimTemplates change.
    RecreatePodWhenChangeVCTInCloneSetGate = false, Alpha;
    /// Pods in PreparingUpdate count as updated while scaling.
    PreparingUpdateAsUpdate = false, Alpha;
    /// CloneSet ignores Pod updates that do not matter.
    CloneSetEventHandlerOptimization = false, Alpha;
    /// Drop expectations older than `--expectation-timeout`.
    ForceDeleteTimeoutExpectationGate = false, Alpha;
    /// Claim retention policy of Advanced StatefulSet.
    StatefulSetAutoDeletePVC = true, Beta;
    /// Claim resize of Advanced StatefulSet.
    StatefulSetAutoResizePVCGate = false, Alpha;
    /// `spec.ordinals.start` of Advanced StatefulSet.
    StatefulSetStartOrdinal = false, Alpha;
    /// Label `apps.kubernetes.io/pod-index` on Advanced StatefulSet Pods.
    PodIndexLabel = true, Beta;
    /// SidecarSet may patch any Pod annotation without an allow-list.
    SidecarSetPatchPodMetadataDefaultsAllowed = false, Alpha;
    /// Injected sidecars are sorted by name.
    EnableSortSidecarContainerByName = false, Alpha;
    /// The sidecar terminator controller.
    SidecarTerminator = false, Alpha;
    /// PodProbeMarker and NodePodProbe.
    PodProbeMarkerGate = true, Beta;
    /// Probe annotation on serverless Pods.
    EnablePodProbeMarkerOnServerless = false, Alpha;
    /// The Pod webhook moves liveness probes to an annotation.
    EnhancedLivenessProbe = false, Alpha;
    /// ImagePullJob and ImageListPullJob.
    ImagePullJobGate = false, Alpha;
    /// ResourceDistribution.
    ResourceDistributionGate = false, Beta;
    /// Certificates are issued from outside.
    EnableExternalCerts = false, Alpha;
    /// The order in which the containers of a Pod end.
    ContainerExitPriority = true, Beta;
    /// Pods restart when ConfigMaps and Secrets change that an annotation of their workload names.
    RestartOnConfiguration = false, Alpha;
    /// DaemonSet ignores Pods on nodes that became ineligible in maxUnavailable.
    DaemonSetPruneIneligibleNodes = false, Alpha;
    /// The kinds of group `rollouts.kruise.io`, their controllers and webhooks. The other gates of Rollouts do nothing
    /// without it.
    Rollouts = false, Alpha;
    /// The Deployment controller of Rollouts, without which no Deployment is released in batches of its own Pods.
    AdvancedDeployment = true, Beta;
    /// A RolloutHistory for every release.
    RolloutHistory = false, Alpha;
    /// Labels that a release adds to Pods are added to the selector of the Service of the new Pods.
    AppendPodSelector = false, Alpha;
    /// A Rollout that is deleted during a release leaves the workload where it is.
    KeepWorkloadPausedOnRolloutDeletion = false, Alpha;
}

/// Names that user documentation gives to gates of another name
/// (docs/behaviour/api-and-registration.md#other-names-of-gates).
const ALIASES: &[(&str, Feature)] = &[
    ("EnhancedLivenessProbeGate", Feature::EnhancedLivenessProbe),
    ("ForceDeleteTimeoutExpectationFeatureGate", Feature::ForceDeleteTimeoutExpectationGate),
];

impl fmt::Display for Feature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why `--feature-gates` was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FeatureError {
    /// No gate of this name.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// An entry without `=`.
    #[error("missing bool value for feature gate {0}: write {0}=true or {0}=false")]
    MissingValue(String),
    /// A value that is not a boolean.
    #[error("invalid value of feature gate {name}={value}: must be true or false")]
    InvalidValue {
        /// The gate.
        name: String,
        /// What was given.
        value: String,
    },
}

/// The gates of one process after defaults, the command line and the dependency rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates(Vec<bool>);

impl Default for FeatureGates {
    fn default() -> Self {
        Settings::default().resolve()
    }
}

/// What the command line and the environment say about the gates.
#[derive(Clone, Debug, Default)]
struct Settings {
    explicit: Vec<(Feature, bool)>,
    all_alpha: Option<bool>,
    all_beta: Option<bool>,
    pod_webhook_by_default: Option<bool>,
}

impl FeatureGates {
    /// Reads `A=true,B=false`. `custom_resource_enable` is the environment variable
    /// `CUSTOM_RESOURCE_ENABLE`: non-empty and without `SidecarSet` it turns the default of
    /// `PodWebhook` off.
    ///
    /// # Errors
    /// An unknown gate or a value that is not a boolean.
    pub fn parse(flags: &str, custom_resource_enable: &str) -> Result<Self, FeatureError> {
        let mut settings = Settings::default();
        if !custom_resource_enable.is_empty()
            && !custom_resource_enable.split(',').any(|kind| kind == "SidecarSet")
        {
            settings.pod_webhook_by_default = Some(false);
        }
        for entry in flags.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| FeatureError::MissingValue(entry.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let enabled = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => {
                    return Err(FeatureError::InvalidValue {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    });
                }
            };
            match name {
                "AllAlpha" => settings.all_alpha = Some(enabled),
                "AllBeta" => settings.all_beta = Some(enabled),
                _ => settings.explicit.push((find(name)?, enabled)),
            }
        }
        Ok(settings.resolve())
    }

    /// Whether `feature` is on.
    pub fn enabled(&self, feature: Feature) -> bool {
        self.0.get(feature as usize).copied().unwrap_or(false)
    }

    /// These gates with one of them changed and the dependency rules applied again.
    #[must_use]
    pub fn with(mut self, feature: Feature, enabled: bool) -> Self {
        self.set(feature, enabled);
        self.apply_dependencies();
        self
    }

    fn set(&mut self, feature: Feature, enabled: bool) {
        if let Some(slot) = self.0.get_mut(feature as usize) {
            *slot = enabled;
        }
    }

    fn disable(&mut self, features: &[Feature]) {
        for feature in features {
            self.set(*feature, false);
        }
    }

    /// The four rules of docs/behaviour/api-and-registration.md#dependencies-between-gates, in their order;
    /// they override explicit settings.
    fn apply_dependencies(&mut self) {
        use Feature::*;
        if !self.enabled(PodWebhook) {
            self.disable(&[
                KruisePodReadinessGate,
                PodUnavailableBudgetDeleteGate,
                PodUnavailableBudgetUpdateGate,
                WorkloadSpread,
                SidecarSetPatchPodMetadataDefaultsAllowed,
                EnhancedLivenessProbe,
                EnablePodProbeMarkerOnServerless,
            ]);
        }
        if !self.enabled(KruiseDaemon) {
            self.disable(&[
                PreDownloadImageForInPlaceUpdate,
                DaemonWatchingPod,
                InPlaceUpdateEnvFromMetadata,
                PreDownloadImageForDaemonSetUpdate,
                PodProbeMarkerGate,
                SidecarTerminator,
                ImagePullJobGate,
                EnhancedLivenessProbe,
            ]);
        }
        if self.enabled(PreDownloadImageForInPlaceUpdate) || self.enabled(PreDownloadImageForDaemonSetUpdate)
        {
            self.set(ImagePullJobGate, true);
        }
        if !self.enabled(ResourcesDeletionProtection) {
            self.disable(&[DeletionProtectionForCRDCascadingGate]);
        }
    }
}

impl Settings {
    fn resolve(&self) -> FeatureGates {
        let mut gates = FeatureGates(Feature::ALL.iter().map(|feature| self.default_of(*feature)).collect());
        for (feature, enabled) in &self.explicit {
            gates.set(*feature, *enabled);
        }
        gates.apply_dependencies();
        gates
    }

    fn default_of(&self, feature: Feature) -> bool {
        let stage = match feature.stage() {
            Stage::Alpha => self.all_alpha,
            Stage::Beta => self.all_beta,
        };
        let default = match (feature, self.pod_webhook_by_default) {
            (Feature::PodWebhook, Some(enabled)) => enabled,
            _ => feature.default_enabled(),
        };
        stage.unwrap_or(default)
    }
}

fn find(name: &str) -> Result<Feature, FeatureError> {
    Feature::ALL
        .iter()
        .copied()
        .find(|feature| feature.name() == name)
        .or_else(|| ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, feature)| *feature))
        .ok_or_else(|| FeatureError::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(flags: &str) -> FeatureGates {
        FeatureGates::parse(flags, "").unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_catalogue() {
        let gates = gates("");
        assert!(gates.enabled(Feature::PodWebhook));
        assert!(!gates.enabled(Feature::ResourcesDeletionProtection));
        assert!(!gates.enabled(Feature::ImagePullJobGate));
    }

    #[test]
    fn rollouts_are_off_unless_they_are_asked_for() {
        use Feature::*;
        let all = [
            Rollouts,
            AdvancedDeployment,
            RolloutHistory,
            AppendPodSelector,
            KeepWorkloadPausedOnRolloutDeletion,
        ];
        let enabled = |flags: &str| all.map(|feature| gates(flags).enabled(feature));
        assert_eq!(enabled(""), [false, true, false, false, false]);
        assert_eq!(enabled("Rollouts=true,AdvancedDeployment=false"), [true, false, false, false, false]);
        assert_eq!(enabled("AllAlpha=true"), [true; 5]);
    }

    #[test]
    fn scenario_36_unknown_gate_is_named() {
        let error = FeatureGates::parse("NoSuchGate=true", "").unwrap_err();
        assert!(error.to_string().contains("NoSuchGate"));
    }

    #[test]
    fn scenario_37_all_alpha_leaves_explicit_gates_alone() {
        for flags in [
            "AllAlpha=true,EnableExternalCerts=false,TemplateNoDefaults=false",
            "EnableExternalCerts=false,TemplateNoDefaults=false,AllAlpha=true",
        ] {
            let gates = gates(flags);
            assert!(!gates.enabled(Feature::EnableExternalCerts));
            assert!(!gates.enabled(Feature::TemplateNoDefaults));
            assert!(gates.enabled(Feature::CloneSetShortHash));
        }
    }

    #[test]
    fn dependencies_override_explicit_settings() {
        assert!(!gates("PodWebhook=false,WorkloadSpread=true").enabled(Feature::WorkloadSpread));
        assert!(
            !gates("DeletionProtectionForCRDCascadingGate=true")
                .enabled(Feature::DeletionProtectionForCRDCascadingGate)
        );
        assert!(
            gates("PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=false")
                .enabled(Feature::ImagePullJobGate)
        );
        let no_daemon =
            gates("KruiseDaemon=false,PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=true");
        assert!(!no_daemon.enabled(Feature::ImagePullJobGate));
    }

    #[test]
    fn legacy_environment_turns_the_default_of_the_pod_webhook_off() {
        assert!(!FeatureGates::parse("", "CloneSet,StatefulSet").unwrap().enabled(Feature::PodWebhook));
        assert!(FeatureGates::parse("", "CloneSet,SidecarSet").unwrap().enabled(Feature::PodWebhook));
        assert!(FeatureGates::parse("PodWebhook=true", "CloneSet").unwrap().enabled(Feature::PodWebhook));
    }

    #[test]
    fn documented_misspellings_are_aliases() {
        assert!(gates("EnhancedLivenessProbeGate=true").enabled(Feature::EnhancedLivenessProbe));
    }

    #[test]
    fn malformed_entries_say_what_is_wrong() {
        assert_eq!(
            FeatureGates::parse("PodWebhook", ""),
            Err(FeatureError::MissingValue("PodWebhook".to_owned()))
        );
        assert!(matches!(
            FeatureGates::parse("PodWebhook=maybe", ""),
            Err(FeatureError::InvalidValue { .. })
        ));
    }
}
