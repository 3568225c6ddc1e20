//! The CustomResourceDefinitions, embedded from `api/crds/*.yaml`, and the facts about them that
//! other code needs without parsing YAML: names, scope, versions and how they convert.
//!
//! The YAML files are the source and are written by hand. The tests prove that this table agrees with them,
//! and that they keep what the reference schemas promise (docs/behaviour/api-and-registration.md#kinds).

use crate::{APPS_GROUP, POLICY_GROUP, ROLLOUTS_GROUP};

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// One kind, as its CustomResourceDefinition declares it.
#[derive(Clone, Copy, Debug)]
pub struct CustomResourceDefinition {
    /// The kind, such as `CloneSet`.
    pub kind: &'static str,
    /// The resource name in URLs and webhook rules, such as `clonesets`.
    pub plural: &'static str,
    /// The name of one object for kubectl, such as `cloneset`.
    pub singular: &'static str,
    /// The API group.
    pub group: &'static str,
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// Abbreviations for kubectl.
    pub short_names: &'static [&'static str],
    /// All versions, which are all served, the oldest first.
    pub versions: &'static [&'static str],
    /// The version in which objects are stored.
    pub storage_version: &'static str,
    /// Whether the API server converts by our `/convert`
    /// (docs/behaviour/api-and-registration.md#version-conversion and
    /// docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget). Otherwise it only changes
    /// `apiVersion`.
    pub converts_by_webhook: bool,
    /// The definition as YAML, ready to apply.
    pub yaml: &'static str,
}

impl CustomResourceDefinition {
    /// The name of the definition's object: `<plural>.<group>`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// The definition of `kind` in `group`, if it is one of ours.
#[must_use]
pub fn find(group: &str, kind: &str) -> Option<&'static CustomResourceDefinition> {
    every().find(|definition| definition.group == group && definition.kind == kind)
}

/// Every definition: those that are always there, then those of Rollouts.
pub fn every() -> impl Iterator<Item = &'static CustomResourceDefinition> {
    ALL.iter().chain(ROLLOUTS)
}

const V1ALPHA1: &[&str] = &["v1alpha1"];
const V1ALPHA1_AND_V1BETA1: &[&str] = &["v1alpha1", "v1beta1"];

/// All definitions, by group and plural.
pub static ALL: &[CustomResourceDefinition] = &[
    CustomResourceDefinition {
        kind: "AdvancedCronJob",
        plural: "advancedcronjobs",
        singular: "advancedcronjob",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["acj"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_advancedcronjobs.yaml"),
    },
    CustomResourceDefinition {
        kind: "BroadcastJob",
        plural: "broadcastjobs",
        singular: "broadcastjob",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["bcj"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_broadcastjobs.yaml"),
    },
    CustomResourceDefinition {
        kind: "CloneSet",
        plural: "clonesets",
        singular: "cloneset",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["clone"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_clonesets.yaml"),
    },
    CustomResourceDefinition {
        kind: "ContainerRecreateRequest",
        plural: "containerrecreaterequests",
        singular: "containerrecreaterequest",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["crr"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_containerrecreaterequests.yaml"),
    },
    CustomResourceDefinition {
        kind: "DaemonSet",
        plural: "daemonsets",
        singular: "daemonset",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["daemon", "ads"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_daemonsets.yaml"),
    },
    CustomResourceDefinition {
        kind: "EphemeralJob",
        plural: "ephemeraljobs",
        singular: "ephemeraljob",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["ejob"],
        versions: V1ALPHA1,
        storage_version: "v1alpha1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_ephemeraljobs.yaml"),
    },
    CustomResourceDefinition {
        kind: "ImageListPullJob",
        plural: "imagelistpulljobs",
        singular: "imagelistpulljob",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_imagelistpulljobs.yaml"),
    },
    CustomResourceDefinition {
        kind: "ImagePullJob",
        plural: "imagepulljobs",
        singular: "imagepulljob",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_imagepulljobs.yaml"),
    },
    CustomResourceDefinition {
        kind: "NodeImage",
        plural: "nodeimages",
        singular: "nodeimage",
        group: APPS_GROUP,
        scope: Scope::Cluster,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_nodeimages.yaml"),
    },
    CustomResourceDefinition {
        kind: "NodePodProbe",
        plural: "nodepodprobes",
        singular: "nodepodprobe",
        group: APPS_GROUP,
        scope: Scope::Cluster,
        short_names: &[],
        versions: V1ALPHA1,
        storage_version: "v1alpha1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_nodepodprobes.yaml"),
    },
    CustomResourceDefinition {
        kind: "PersistentPodState",
        plural: "persistentpodstates",
        singular: "persistentpodstate",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_persistentpodstates.yaml"),
    },
    CustomResourceDefinition {
        kind: "PodProbeMarker",
        plural: "podprobemarkers",
        singular: "podprobemarker",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1,
        storage_version: "v1alpha1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/apps.kruise.io_podprobemarkers.yaml"),
    },
    CustomResourceDefinition {
        kind: "ResourceDistribution",
        plural: "resourcedistributions",
        singular: "resourcedistribution",
        group: APPS_GROUP,
        scope: Scope::Cluster,
        short_names: &["distributor"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_resourcedistributions.yaml"),
    },
    CustomResourceDefinition {
        kind: "SidecarSet",
        plural: "sidecarsets",
        singular: "sidecarset",
        group: APPS_GROUP,
        scope: Scope::Cluster,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_sidecarsets.yaml"),
    },
    CustomResourceDefinition {
        kind: "StatefulSet",
        plural: "statefulsets",
        singular: "statefulset",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["sts", "asts"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_statefulsets.yaml"),
    },
    CustomResourceDefinition {
        kind: "UnitedDeployment",
        plural: "uniteddeployments",
        singular: "uniteddeployment",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["ud"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_uniteddeployments.yaml"),
    },
    CustomResourceDefinition {
        kind: "WorkloadSpread",
        plural: "workloadspreads",
        singular: "workloadspread",
        group: APPS_GROUP,
        scope: Scope::Namespaced,
        short_names: &["ws"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/apps.kruise.io_workloadspreads.yaml"),
    },
    CustomResourceDefinition {
        kind: "PodUnavailableBudget",
        plural: "podunavailablebudgets",
        singular: "podunavailablebudget",
        group: POLICY_GROUP,
        scope: Scope::Namespaced,
        short_names: &["pub"],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/policy.kruise.io_podunavailablebudgets.yaml"),
    },
];

/// The definitions of Rollouts, which the gate [`Rollouts`](crate::features::Feature::Rollouts) switches, in alphabetical
/// order.
pub static ROLLOUTS: &[CustomResourceDefinition] = &[
    CustomResourceDefinition {
        kind: "BatchRelease",
        plural: "batchreleases",
        singular: "batchrelease",
        group: ROLLOUTS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/rollouts.kruise.io_batchreleases.yaml"),
    },
    CustomResourceDefinition {
        kind: "Rollout",
        plural: "rollouts",
        singular: "rollout",
        group: ROLLOUTS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1_AND_V1BETA1,
        storage_version: "v1beta1",
        converts_by_webhook: true,
        yaml: include_str!("../crds/rollouts.kruise.io_rollouts.yaml"),
    },
    CustomResourceDefinition {
        kind: "RolloutHistory",
        plural: "rollouthistories",
        singular: "rollouthistory",
        group: ROLLOUTS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1,
        storage_version: "v1alpha1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/rollouts.kruise.io_rollouthistories.yaml"),
    },
    CustomResourceDefinition {
        kind: "TrafficRouting",
        plural: "trafficroutings",
        singular: "trafficrouting",
        group: ROLLOUTS_GROUP,
        scope: Scope::Namespaced,
        short_names: &[],
        versions: V1ALPHA1,
        storage_version: "v1alpha1",
        converts_by_webhook: false,
        yaml: include_str!("../crds/rollouts.kruise.io_trafficroutings.yaml"),
    },
];
