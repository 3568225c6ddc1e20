//! The admission webhooks: what the API server asks about, at which path, and with which gates. Routes, registration and
//! `kutter review` come from this table (docs/behaviour/api-and-registration.md#webhook-entries); a new kind's webhooks are
//! rows of it.

use api::features::{Feature, FeatureGates};
use api::{APPS_GROUP, POLICY_GROUP};
use kinds::deletion_protection::Kind;

mod rollouts;

/// The version that kinds had before they had two, and that paths of that time name.
pub(crate) const OLDER: &str = "v1alpha1";

/// One of the webhook configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurationKind {
    /// The `MutatingWebhookConfiguration` of everything but Rollouts.
    Mutating,
    /// The `ValidatingWebhookConfiguration` of everything but Rollouts.
    Validating,
    /// The `MutatingWebhookConfiguration` of Rollouts.
    MutatingRollouts,
    /// The `ValidatingWebhookConfiguration` of Rollouts.
    ValidatingRollouts,
}

impl ConfigurationKind {
    /// All, in the order in which API servers call them.
    pub const ALL: [Self; 4] =
        [Self::Mutating, Self::MutatingRollouts, Self::Validating, Self::ValidatingRollouts];

    /// The name of the object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutating => "kruise-mutating-webhook-configuration",
            Self::Validating => "kruise-validating-webhook-configuration",
            Self::MutatingRollouts => "kruise-rollout-mutating-webhook-configuration",
            Self::ValidatingRollouts => "kruise-rollout-validating-webhook-configuration",
        }
    }

    /// The kind of the object.
    pub fn kind(self) -> &'static str {
        if self.is_mutating() { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" }
    }

    /// Whether its webhooks change what they review.
    pub fn is_mutating(self) -> bool {
        matches!(self, Self::Mutating | Self::MutatingRollouts)
    }

    /// Whether it is published with these gates.
    pub fn is_published(self, gates: &FeatureGates) -> bool {
        match self {
            Self::Mutating | Self::Validating => true,
            Self::MutatingRollouts | Self::ValidatingRollouts => gates.enabled(Feature::Rollouts),
        }
    }

    /// The object without entries, as it is created where it is missing.
    pub fn empty_object(self) -> String {
        let (kind, name) = (self.kind(), self.name());
        format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}}}}"#
        )
    }
}

/// An admission webhook: what answers at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Mutation of Pods at their creation.
    MutatePod,
    /// Validation of requests that delete, evict or change Pods.
    ValidatePod,
    /// Mutation of Pods whose containers end in an order.
    MutateExitPriority,
    /// Validation of that order.
    ValidateExitPriority,
    /// Defaulting of AdvancedCronJobs.
    MutateAdvancedCronJob,
    /// Defaulting of BroadcastJobs.
    MutateBroadcastJob,
    /// Defaulting of CloneSets.
    MutateCloneSet,
    /// Completion and validation of ContainerRecreateRequests.
    MutateContainerRecreateRequest,
    /// Defaulting of DaemonSets.
    MutateDaemonSet,
    /// Defaulting of ImageListPullJobs.
    MutateImageListPullJob,
    /// Defaulting of ImagePullJobs.
    MutateImagePullJob,
    /// Defaulting of NodeImages.
    MutateNodeImage,
    /// Defaulting of SidecarSets.
    MutateSidecarSet,
    /// Defaulting of StatefulSets.
    MutateStatefulSet,
    /// Defaulting of UnitedDeployments.
    MutateUnitedDeployment,
    /// Validation of AdvancedCronJobs.
    ValidateAdvancedCronJob,
    /// Validation of BroadcastJobs.
    ValidateBroadcastJob,
    /// Validation of DaemonSets.
    ValidateDaemonSet,
    /// Validation of EphemeralJobs.
    ValidateEphemeralJob,
    /// Validation of ImageListPullJobs.
    ValidateImageListPullJob,
    /// Validation of ImagePullJobs.
    ValidateImagePullJob,
    /// Validation of NodeImages.
    ValidateNodeImage,
    /// Validation of PersistentPodStates.
    ValidatePersistentPodState,
    /// Validation of PodProbeMarkers.
    ValidatePodProbeMarker,
    /// Validation of PodUnavailableBudgets.
    ValidatePodUnavailableBudget,
    /// Validation of ResourceDistributions.
    ValidateResourceDistribution,
    /// Validation of SidecarSets.
    ValidateSidecarSet,
    /// Validation of WorkloadSpreads.
    ValidateWorkloadSpread,
    /// Holds workloads of Rollouts back when their template changes.
    FreezeWorkload,
    /// Validation of Rollouts.
    ValidateRollout,
    /// Deletion protection of one kind. Of the Kruise workloads creates and updates are validated too.
    Protect(Kind),
}

/// What an entry is for, which settles its selectors and its failure policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pods, wherever they come from.
    Pods,
    /// Pods that ask for an order in which their containers end.
    ExitPriority,
    /// Deletion protection of Kubernetes' own kinds and of definitions.
    Protection,
    /// Defaulting and validation of our own kinds.
    OwnKind,
    /// Workloads that carry the label of those with a Rollout.
    KnownWorkload,
    /// Workloads that may have a Rollout, though they don't carry its label.
    OtherWorkload,
}

/// One entry of a webhook configuration.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What answers.
    pub endpoint: Endpoint,
    /// The entry's name, which clients see in a denial. No two entries have the same.
    pub name: &'static str,
    /// The path under which it is registered.
    pub path: &'static str,
    /// A second path that older charts register.
    pub legacy_path: Option<&'static str>,
    /// API group of the resource; `*` for any.
    pub group: &'static str,
    /// The resource, with its subresource where there is one; `*` for any.
    pub resource: &'static str,
    /// API versions of the resource.
    pub versions: &'static [&'static str],
    /// Operations that are reviewed.
    pub operations: &'static [&'static str],
    /// What the entry is for.
    pub purpose: Purpose,
}

const A1: &[&str] = &["v1alpha1"];
const A1_B1: &[&str] = &["v1alpha1", "v1beta1"];
const V1: &[&str] = &["v1"];
const V1_BETA: &[&str] = &["v1", "v1beta1"];
const CREATE: &[&str] = &["CREATE"];
const CREATE_UPDATE: &[&str] = &["CREATE", "UPDATE"];
const CREATE_UPDATE_DELETE: &[&str] = &["CREATE", "UPDATE", "DELETE"];
const UPDATE: &[&str] = &["UPDATE"];
const UPDATE_DELETE: &[&str] = &["UPDATE", "DELETE"];
const DELETE: &[&str] = &["DELETE"];

const fn pods(
    endpoint: Endpoint,
    name: &'static str,
    path: &'static str,
    resource: &'static str,
    operations: &'static [&'static str],
) -> Entry {
    let (purpose, legacy_path) = (Purpose::Pods, None);
    Entry { endpoint, name, path, legacy_path, group: "", resource, versions: V1, operations, purpose }
}

const fn exit_priority(endpoint: Endpoint, name: &'static str, path: &'static str) -> Entry {
    Entry { purpose: Purpose::ExitPriority, ..pods(endpoint, name, path, "pods", CREATE) }
}

/// An entry that protects a kind of Kubernetes from deletion.
macro_rules! protecting {
    ($kind:ident, $name:literal, $path:literal, $group:literal, $resource:literal) => {
        Entry {
            group: $group,
            purpose: Purpose::Protection,
            ..pods(
                Endpoint::Protect(Kind::$kind),
                concat!("v", $name, ".kb.io"),
                concat!("/validate-", $path),
                $resource,
                DELETE,
            )
        }
    };
}

/// An entry of a kind of ours, by the kind in lower case.
macro_rules! own {
    ($endpoint:expr, $letter:literal, $verb:literal, $kind:literal) => {
        Entry {
            endpoint: $endpoint,
            name: concat!($letter, $kind, ".kb.io"),
            path: concat!("/", $verb, "-apps-kruise-io-", $kind),
            legacy_path: None,
            group: APPS_GROUP,
            resource: concat!($kind, "s"),
            versions: A1_B1,
            operations: CREATE_UPDATE,
            purpose: Purpose::OwnKind,
        }
    };
}

macro_rules! mutating {
    ($endpoint:expr, $kind:literal) => {
        own!($endpoint, "m", "mutate", $kind)
    };
}

macro_rules! validating {
    ($endpoint:expr, $kind:literal) => {
        own!($endpoint, "v", "validate", $kind)
    };
}

const MUTATING: &[Entry] = &[
    pods(Endpoint::MutatePod, "mpod.kb.io", "/mutate-pod", "pods", CREATE),
    exit_priority(Endpoint::MutateExitPriority, "mpodexitpriority.kb.io", "/mutate-pod-exit-priority"),
    mutating!(Endpoint::MutateAdvancedCronJob, "advancedcronjob"),
    mutating!(Endpoint::MutateBroadcastJob, "broadcastjob"),
    mutating!(Endpoint::MutateCloneSet, "cloneset"),
    mutating!(Endpoint::MutateContainerRecreateRequest, "containerrecreaterequest"),
    mutating!(Endpoint::MutateDaemonSet, "daemonset"),
    Entry {
        name: "mimagelistpulljob-v1beta1.kb.io",
        ..mutating!(Endpoint::MutateImageListPullJob, "imagelistpulljob")
    },
    Entry { name: "mimagepulljob-v1beta1.kb.io", ..mutating!(Endpoint::MutateImagePullJob, "imagepulljob") },
    mutating!(Endpoint::MutateNodeImage, "nodeimage"),
    mutating!(Endpoint::MutateSidecarSet, "sidecarset"),
    mutating!(Endpoint::MutateStatefulSet, "statefulset"),
    Entry {
        legacy_path: Some("/mutate-apps-kruise-io-v1alpha1-uniteddeployment"),
        ..mutating!(Endpoint::MutateUnitedDeployment, "uniteddeployment")
    },
];

const VALIDATING: &[Entry] = &[
    Entry {
        legacy_path: Some("/validate-apps-kruise-io-v1alpha1-resourcedistribution"),
        ..validating!(Endpoint::ValidateResourceDistribution, "resourcedistribution")
    },
    Entry {
        legacy_path: Some("/validate-apps-kruise-io-v1alpha1-workloadspread"),
        ..validating!(Endpoint::ValidateWorkloadSpread, "workloadspread")
    },
    validating!(Endpoint::ValidateAdvancedCronJob, "advancedcronjob"),
    validating!(Endpoint::ValidateBroadcastJob, "broadcastjob"),
    protecting!(Deployment, "builtindeployment", "apps-deployment", "apps", "deployments"),
    protecting!(ReplicaSet, "builtinreplicaset", "apps-replicaset", "apps", "replicasets"),
    protecting!(StatefulSet, "builtinstatefulset", "apps-statefulset", "apps", "statefulsets"),
    Entry {
        legacy_path: Some("/validate-apps-kruise-io-v1alpha1-cloneset"),
        operations: CREATE_UPDATE_DELETE,
        ..validating!(Endpoint::Protect(Kind::CloneSet), "cloneset")
    },
    Entry {
        versions: V1_BETA,
        ..protecting!(
            CustomResourceDefinition,
            "customresourcedefinition",
            "customresourcedefinition",
            "apiextensions.k8s.io",
            "customresourcedefinitions"
        )
    },
    validating!(Endpoint::ValidateDaemonSet, "daemonset"),
    Entry {
        name: "vephemeraljobs.kb.io",
        path: "/validate-apps-kruise-io-v1alpha1-ephemeraljob",
        versions: A1,
        ..validating!(Endpoint::ValidateEphemeralJob, "ephemeraljob")
    },
    Entry {
        name: "vimagelistpulljob-v1beta1.kb.io",
        ..validating!(Endpoint::ValidateImageListPullJob, "imagelistpulljob")
    },
    Entry {
        name: "vimagepulljob-v1beta1.kb.io",
        ..validating!(Endpoint::ValidateImagePullJob, "imagepulljob")
    },
    Entry {
        versions: V1_BETA,
        ..protecting!(Ingress, "ingress", "ingress", "networking.k8s.io", "ingresses")
    },
    protecting!(Namespace, "namespace", "namespace", "", "namespaces"),
    validating!(Endpoint::ValidateNodeImage, "nodeimage"),
    validating!(Endpoint::ValidatePersistentPodState, "persistentpodstate"),
    pods(Endpoint::ValidatePod, "vpod.kb.io", "/validate-pod", "pods", UPDATE_DELETE),
    pods(Endpoint::ValidatePod, "vpodeviction.kb.io", "/validate-pod", "pods/eviction", CREATE),
    // OpenKruise does not see resizes, which go through a resource of their own.
    pods(Endpoint::ValidatePod, "vpodresize.kb.io", "/validate-pod", "pods/resize", UPDATE),
    exit_priority(Endpoint::ValidateExitPriority, "vpodexitpriority.kb.io", "/validate-pod-exit-priority"),
    Entry { versions: A1, ..validating!(Endpoint::ValidatePodProbeMarker, "podprobemarker") },
    Entry {
        path: "/validate-policy-kruise-io-podunavailablebudget",
        group: POLICY_GROUP,
        ..validating!(Endpoint::ValidatePodUnavailableBudget, "podunavailablebudget")
    },
    protecting!(Service, "service", "service", "", "services"),
    validating!(Endpoint::ValidateSidecarSet, "sidecarset"),
    Entry {
        operations: CREATE_UPDATE_DELETE,
        ..validating!(Endpoint::Protect(Kind::AdvancedStatefulSet), "statefulset")
    },
    Entry {
        legacy_path: Some("/validate-apps-kruise-io-v1alpha1-uniteddeployment"),
        operations: CREATE_UPDATE_DELETE,
        ..validating!(Endpoint::Protect(Kind::UnitedDeployment), "uniteddeployment")
    },
];

impl Purpose {
    /// Whether Pods are what the entry sees.
    pub(crate) fn is_of_pods(self) -> bool {
        matches!(self, Self::Pods | Self::ExitPriority)
    }
}

impl Entry {
    /// The name and the path of this entry for releases of OpenKruise whose kinds have [`OLDER`] alone; `None` where
    /// they register it alike. The name is another one: a release may answer both paths.
    pub(crate) fn older(&self) -> Option<(String, String)> {
        let (verb, kind) = self.path.split_once("-apps-kruise-io-")?;
        let name = self.name.strip_suffix(".kb.io").filter(|_| !kind.starts_with(OLDER))?;
        let name = name.trim_end_matches("-v1beta1");
        Some((format!("{name}-{OLDER}.kb.io"), format!("{verb}-apps-kruise-io-{OLDER}-{kind}")))
    }

    /// Whether it is about this resource.
    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        [(self.group, group), (self.resource, resource)]
            .iter()
            .all(|(own, asked)| own == asked || *own == "*")
    }

    /// Whether `name` is that of this entry, in whatever release.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.older().is_some_and(|(older, _)| older == name)
    }
}

/// The entries of one configuration in their order.
pub fn entries(kind: ConfigurationKind) -> &'static [Entry] {
    match kind {
        ConfigurationKind::Mutating => MUTATING,
        ConfigurationKind::Validating => VALIDATING,
        ConfigurationKind::MutatingRollouts => rollouts::MUTATING,
        ConfigurationKind::ValidatingRollouts => rollouts::VALIDATING,
    }
}

fn all_entries() -> impl Iterator<Item = &'static Entry> {
    ConfigurationKind::ALL.into_iter().flat_map(entries)
}

/// The paths that are served with these gates.
pub fn paths(gates: &FeatureGates) -> impl Iterator<Item = &'static str> {
    Endpoint::all().into_iter().filter(|endpoint| endpoint.is_served(gates)).map(Endpoint::path)
}

impl Endpoint {
    /// Every webhook.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = all_entries().map(|entry| entry.endpoint).collect();
        // Entries of one webhook are adjacent.
        all.dedup();
        all
    }

    fn entry(self) -> Option<&'static Entry> {
        all_entries().find(|entry| entry.endpoint == self)
    }

    /// The path under which it is registered.
    pub fn path(self) -> &'static str {
        self.entry().map_or("", |entry| entry.path)
    }

    /// A second path that older charts register.
    pub fn legacy_path(self) -> Option<&'static str> {
        self.entry()?.legacy_path
    }

    /// The webhook behind a path, in either spelling.
    pub fn from_path(path: &str) -> Option<Self> {
        let found = all_entries().find(|entry| entry.path == path || entry.legacy_path == Some(path));
        found.map(|entry| entry.endpoint)
    }

    /// Whether it is served at all with these gates (docs/behaviour/api-and-registration.md#entries-that-gates-switch).
    pub fn is_served(self, gates: &FeatureGates) -> bool {
        match self {
            Self::MutatePod | Self::ValidatePod => gates.enabled(Feature::PodWebhook),
            Self::MutateExitPriority | Self::ValidateExitPriority => {
                gates.enabled(Feature::PodWebhook) && gates.enabled(Feature::ContainerExitPriority)
            }
            Self::Protect(Kind::Service | Kind::Ingress) => {
                gates.enabled(Feature::ResourcesDeletionProtection)
            }
            Self::FreezeWorkload | Self::ValidateRollout => gates.enabled(Feature::Rollouts),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_back_to_its_webhook() {
        for entry in all_entries() {
            assert_eq!(Endpoint::from_path(entry.path), Some(entry.endpoint));
            assert_eq!(entry.endpoint.path(), entry.path);
        }
        assert_eq!(
            Endpoint::from_path("/validate-apps-kruise-io-v1alpha1-cloneset"),
            Some(Endpoint::Protect(Kind::CloneSet))
        );
        assert_eq!(Endpoint::from_path("/validate-pods"), None);
    }

    #[test]
    fn a_path_that_older_charts_register_is_that_of_the_older_version() {
        for entry in all_entries() {
            let older = entry.older().map(|(_, path)| path);
            assert!(entry.legacy_path.is_none_or(|path| older.as_deref() == Some(path)), "{}", entry.name);
        }
    }

    #[test]
    fn every_protected_kind_has_a_path() {
        for kind in Kind::ALL {
            assert!(Endpoint::all().contains(&Endpoint::Protect(*kind)), "{kind:?}");
        }
    }

    #[test]
    fn services_and_ingresses_are_registered_only_with_the_gate() {
        let off: Vec<_> = paths(&FeatureGates::default()).collect();
        assert!(!off.contains(&"/validate-service") && !off.contains(&"/validate-ingress"));
        assert!(off.contains(&"/validate-namespace") && off.contains(&"/mutate-pod"));
        let on = FeatureGates::default().with(Feature::ResourcesDeletionProtection, true);
        assert_eq!(paths(&on).count(), Endpoint::all().len() - ROLLOUTS.len());
    }

    const ROLLOUTS: [&str; 2] =
        ["/mutate-rollouts-kruise-io-workload", "/validate-rollouts-kruise-io-rollout"];

    #[test]
    fn rollouts_are_registered_only_with_the_gate() {
        let off = FeatureGates::default();
        assert!(!paths(&off).any(|path| ROLLOUTS.contains(&path)));
        let on = off.clone().with(Feature::Rollouts, true);
        assert_eq!(paths(&on).filter(|path| ROLLOUTS.contains(path)).count(), 2);
        let published =
            |gates| ConfigurationKind::ALL.into_iter().filter(|kind| kind.is_published(gates)).count();
        assert_eq!((published(&off), published(&on)), (2, 4));
    }

    #[test]
    fn no_two_entries_have_the_same_name() {
        let names: std::collections::BTreeSet<&str> = all_entries().map(|entry| entry.name).collect();
        assert_eq!(names.len(), all_entries().count());
    }

    #[test]
    fn a_workload_of_another_kind_is_seen_by_the_entry_of_any_kind_alone() {
        let about = |group: &str, resource: &str| -> Vec<&str> {
            let entries = entries(ConfigurationKind::MutatingRollouts).iter();
            entries.filter(|entry| entry.is_about(group, resource)).map(|entry| entry.name).collect()
        };
        assert_eq!(about("example.com", "rings"), ["mrolloutworkload.kb.io"]);
        assert_eq!(about("apps", "daemonsets").len(), 3);
        assert!(!about("apps.kruise.io", "daemonsets").contains(&"mrolloutdaemonset.kb.io"));
    }

    #[test]
    fn pods_are_registered_only_with_the_gate() {
        let off = FeatureGates::default().with(Feature::PodWebhook, false);
        assert!(!paths(&off).any(|path| path == "/mutate-pod" || path == "/validate-pod"));
    }
}
