//! SidecarSet in its hub version v1beta1, the fields that rules and controllers read
//! (docs/behaviour/sidecarset.md#api).
//!
//! Containers and volumes are schemaless in the API and are carried as [`Raw`] text; of a container only
//! what is needed to match and to order is read beside the text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kinds::objects;
use crate::meta::LabelSelector;
use crate::{Raw, annotations};

/// Kind of a SidecarSet.
pub const KIND: &str = "SidecarSet";
/// Plural of a SidecarSet in request paths.
pub const PLURAL: &str = "sidecarsets";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

objects! {
    /// A SidecarSet.
    pub struct SidecarSet {
        /// Name, labels and annotations.
        required pub metadata: Metadata,
        /// What is wanted.
        required pub spec: Spec,
        /// What the controller observed.
        required pub status: Status,
    }
}

impl SidecarSet {
    /// The metadata's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// True for one half of a canary pair (docs/behaviour/pod-mutation.md#canary-and-base).
    pub fn is_canary(&self) -> bool {
        self.annotation(annotations::SIDECARSET_CANARY) == Some("true")
    }

    /// The SidecarSet that this canary replaces; `None` unless this is a canary.
    pub fn canary_base(&self) -> Option<&str> {
        if self.is_canary() {
            Some(self.annotation(annotations::SIDECARSET_BASE).unwrap_or_default())
        } else {
            None
        }
    }
}

objects! {
    /// The object metadata that SidecarSet's rules read.
    pub struct Metadata {
        /// The object's name.
        required pub name: String,
        /// The object's identity.
        pub uid: String,
        /// The version of this state of the object.
        pub resource_version: String,
        /// Grows with every change of the spec.
        pub generation: Option<i64>,
        /// When the object was created, RFC 3339.
        pub creation_timestamp: Option<String>,
        /// When deletion was asked for, RFC 3339.
        pub deletion_timestamp: Option<String>,
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    }

    /// `spec` (docs/behaviour/sidecarset.md#defaults-of-fields).
    pub struct Spec {
        /// The Pods to inject.
        pub selector: Option<LabelSelector>,
        /// The namespaces whose Pods are injected; all if unset.
        pub namespace_selector: Option<LabelSelector>,
        /// Init containers to inject.
        pub init_containers: Vec<SidecarContainer>,
        /// Containers to inject and to update in place.
        pub containers: Vec<SidecarContainer>,
        /// Volumes that sidecars mount.
        pub volumes: Vec<Volume>,
        /// How running Pods are updated.
        required pub update_strategy: UpdateStrategy,
        /// How new Pods are injected.
        required pub injection_strategy: InjectionStrategy,
        /// Pull secrets to add to the Pods.
        pub image_pull_secrets: Vec<LocalObjectReference>,
        /// Number of ControllerRevisions to keep.
        pub revision_history_limit: Option<i32>,
        /// Annotations to put on the Pods.
        pub patch_pod_metadata: Vec<PatchPodMetadata>,
        /// The user's name of this version.
        pub custom_version: String,
    }
}

/// A container to inject: its text, and the fields that Kutter's own rules need.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct SidecarContainer {
    /// The whole container as it is stored, the fields of [`SidecarContainerFields`] included.
    pub raw: Raw,
    /// The typed part of `raw`.
    pub fields: SidecarContainerFields,
}

impl TryFrom<Raw> for SidecarContainer {
    type Error = serde_json::Error;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        let fields: Option<SidecarContainerFields> = serde_json::from_str(raw.get())?;
        Ok(Self { raw, fields: fields.unwrap_or_default() })
    }
}

impl From<SidecarContainer> for Raw {
    fn from(container: SidecarContainer) -> Self {
        container.raw
    }
}

impl SidecarContainer {
    /// The container's name.
    pub fn name(&self) -> &str {
        &self.fields.name
    }

    /// True for an init container that keeps running beside the others (`restartPolicy: Always`).
    pub fn is_native_sidecar(&self) -> bool {
        self.fields.restart_policy == "Always"
    }

    /// True where the container is injected as a pair of twins (docs/behaviour/sidecarset.md#hot-upgrade).
    pub fn is_hot_upgrade(&self) -> bool {
        self.fields.upgrade_strategy.upgrade_type == "HotUpgrade"
    }
}

/// Names the fields that a SidecarSet's container has and a Pod's container has not.
pub const SIDECAR_ONLY_FIELDS: &[&str] = &[
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
];

objects! {
    /// The typed part of a [`SidecarContainer`].
    pub struct SidecarContainerFields {
        /// The container's name.
        pub name: String,
        /// The container's image.
        pub image: String,
        /// `Always` for a native sidecar among the init containers, else empty.
        pub restart_policy: String,
        /// `BeforeAppContainer` or `AfterAppContainer`.
        pub pod_inject_policy: String,
        /// How the container is updated.
        pub upgrade_strategy: UpgradeStrategy,
        /// Whether the Pod's volume mounts are shared.
        pub share_volume_policy: ShareVolumePolicy,
        /// Whether the Pod's block devices are shared; unset is kept apart from `disabled`.
        pub share_volume_device_policy: Option<ShareVolumePolicy>,
        /// Environment variables to copy.
        pub transfer_env: Vec<TransferEnv>,
        /// Computed resources.
        pub resources_policy: Option<ResourcesPolicy>,
    }

    /// How a sidecar is updated in running Pods.
    pub struct UpgradeStrategy {
        /// `ColdUpgrade` or `HotUpgrade`.
        pub upgrade_type: String,
        /// Image of the idle twin.
        pub hot_upgrade_empty_image: String,
    }

    /// Sharing of mounts or devices: `enabled` or `disabled`.
    pub struct ShareVolumePolicy {
        /// `enabled` or `disabled`.
        #[serde(rename = "type")]
        pub kind: String,
    }
}

impl ShareVolumePolicy {
    /// True for `enabled`.
    pub fn is_enabled(&self) -> bool {
        self.kind == "enabled"
    }
}

objects! {
    /// Environment variables to copy from a container of the Pod.
    pub struct TransferEnv {
        /// The source container by name.
        pub source_container_name: String,
        /// The source container by a label or annotation of the Pod.
        pub source_container_name_from: Option<SourceContainerNameSource>,
        /// One variable to copy.
        pub env_name: String,
        /// Further variables to copy.
        pub env_names: Vec<String>,
    }

    /// Where the name of a source container comes from.
    pub struct SourceContainerNameSource {
        /// A field of the Pod; unset means that nothing is copied.
        pub field_ref: Option<FieldReference>,
    }

    /// A field of the Pod.
    pub struct FieldReference {
        /// `v1`.
        pub api_version: String,
        /// `metadata.labels['key']` or `metadata.annotations['key']`.
        pub field_path: String,
    }

    /// Resources computed from those of the Pod's own containers
    /// (docs/behaviour/pod-mutation.md#resources-policy).
    pub struct ResourcesPolicy {
        /// `sum` or `max`.
        pub target_containers_mode: String,
        /// Which containers count.
        pub target_containers_name_regex: String,
        /// The expressions.
        pub resources_expr: ResourcesExpressions,
    }

    /// Expressions for limits and requests.
    pub struct ResourcesExpressions {
        /// Expressions for the limits.
        pub limits: Option<ResourceExpressions>,
        /// Expressions for the requests.
        pub requests: Option<ResourceExpressions>,
    }

    /// One expression per resource; empty where the resource is not set.
    pub struct ResourceExpressions {
        /// Over the variable `cpu`.
        pub cpu: String,
        /// Over the variable `memory`.
        pub memory: String,
    }
}

/// A volume: its text and its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Volume {
    /// The whole volume as it is stored.
    pub raw: Raw,
    /// The volume's name.
    pub name: String,
}

impl TryFrom<Raw> for Volume {
    type Error = serde_json::Error;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        let reference: Option<LocalObjectReference> = serde_json::from_str(raw.get())?;
        Ok(Self { raw, name: reference.unwrap_or_default().name })
    }
}

impl From<Volume> for Raw {
    fn from(volume: Volume) -> Self {
        volume.raw
    }
}

objects! {
    /// A reference to an object of the same namespace.
    pub struct LocalObjectReference {
        /// The object's name.
        required pub name: String,
    }

    /// How running Pods are updated (docs/behaviour/sidecarset.md#reconcile).
    pub struct UpdateStrategy {
        /// `RollingUpdate` or `NotUpdate`.
        #[serde(rename = "type")]
        pub kind: String,
        /// Nothing is updated while true.
        pub paused: bool,
        /// Only Pods that match are updated.
        pub selector: Option<LabelSelector>,
        /// Pods to keep old.
        pub partition: Option<IntOrString>,
        /// Pods that may be unavailable during the update.
        pub max_unavailable: Option<IntOrString>,
        /// Which Pods go first.
        pub priority_strategy: Option<PriorityStrategy>,
        /// Which Pods are spread over the order.
        pub scatter_strategy: Vec<ScatterTerm>,
    }
}

impl UpdateStrategy {
    /// True where running Pods are left alone.
    pub fn is_not_update(&self) -> bool {
        self.kind == "NotUpdate"
    }
}

objects! {
    /// The order of the update; only one of both may be set.
    pub struct PriorityStrategy {
        /// By the number at the end of a label's value.
        pub order_priority: Vec<OrderTerm>,
        /// By the sum of the weights of matching terms.
        pub weight_priority: Vec<WeightTerm>,
    }

    /// A label whose value ends in a number.
    pub struct OrderTerm {
        /// The label's key.
        required pub ordered_key: String,
    }

    /// A weight for Pods that match.
    pub struct WeightTerm {
        /// 0 to 100.
        required pub weight: i32,
        /// The Pods that get the weight.
        required pub match_selector: LabelSelector,
    }

    /// Pods with this label are spread.
    pub struct ScatterTerm {
        /// The label's key.
        required pub key: String,
        /// The label's value; `*` for each value that occurs.
        required pub value: String,
    }

    /// How new Pods are injected.
    pub struct InjectionStrategy {
        /// Nothing is injected while true.
        pub paused: bool,
        /// Inject this older revision.
        pub revision: Option<InjectionRevision>,
    }

    /// A revision to inject, by name or by custom version; the name wins.
    pub struct InjectionRevision {
        /// The user's name of a version.
        pub custom_version: Option<String>,
        /// The name of a ControllerRevision.
        pub revision_name: Option<String>,
        /// `Always` or `Partial`.
        pub policy: String,
    }

    /// Annotations to put on Pods.
    pub struct PatchPodMetadata {
        /// The annotations.
        pub annotations: BTreeMap<String, String>,
        /// `Retain`, `Overwrite` or `MergePatchJson`.
        pub patch_policy: String,
    }

    /// `status` (docs/behaviour/sidecarset.md#status).
    pub struct Status {
        /// The generation that was reconciled.
        pub observed_generation: Option<i64>,
        /// Pods of this SidecarSet.
        required pub matched_pods: i32,
        /// Pods with the newest sidecars.
        required pub updated_pods: i32,
        /// Pods that are consistent and ready.
        required pub ready_pods: i32,
        /// Pods that are updated and ready.
        pub updated_ready_pods: Option<i32>,
        /// Name of the current ControllerRevision.
        pub latest_revision: String,
        /// Number of revision names that were taken by others.
        pub collision_count: Option<i32>,
    }
}

/// `intstr.IntOrString`: a number, or a text such as `50%`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(String),
}

impl Default for IntOrString {
    /// As in Go.
    fn default() -> Self {
        Self::Int(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"logship",
        "labels":null,"annotations":{"apps.kruise.io/sidecarset-canary":"true","apps.kruise.io/sidecarset-base":"s1"}},
        "spec":{"selector":{"matchLabels":{"app":"web"}},"initContainers":null,
        "containers":[{"name":"c","image":"i","future":1.50,"upgradeStrategy":{"upgradeType":"HotUpgrade"}}],
        "volumes":[{"name":"v","emptyDir":{}}],"updateStrategy":{"type":"NotUpdate","partition":"10%"}}}"#;

    #[test]
    fn containers_and_volumes_keep_their_text() {
        let set: SidecarSet = serde_json::from_str(OBJECT).unwrap();
        let container = set.spec.containers.first().unwrap();
        assert!(container.raw.get().contains("\"future\":1.50") && container.is_hot_upgrade());
        assert_eq!(container.name(), "c");
        let written = serde_json::to_string(&set).unwrap();
        assert!(
            written.contains("\"future\":1.50") && written.contains(r#"{"name":"v","emptyDir":{}}"#),
            "{written}"
        );
        assert_eq!(serde_json::from_str::<SidecarSet>(&written).unwrap(), set);
    }

    #[test]
    fn only_a_canary_has_a_base() {
        let mut set: SidecarSet = serde_json::from_str(OBJECT).unwrap();
        assert_eq!(set.canary_base(), Some("s1"));
        set.metadata.annotations.remove(annotations::SIDECARSET_CANARY);
        assert_eq!(set.canary_base(), None);
    }

    #[test]
    fn null_counts_as_unset() {
        let set: SidecarSet = serde_json::from_str(r#"{"metadata":null,"spec":null,"status":null}"#).unwrap();
        assert_eq!(set, SidecarSet::default());
    }
}
