//! SidecarSet in its hub version v1beta1, the fields that rules and controllers read
//! (docs/behaviour/sidecarset.md#api).
//!
//! Containers and volumes are schemaless in the API and are carried as [`Raw`] text; of a container only
//! what is needed to match and to order is read beside the text.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::meta::LabelSelector;
use crate::{Raw, annotations};

/// Kind of a SidecarSet.
pub const KIND: &str = "SidecarSet";
/// Plural of a SidecarSet in request paths.
pub const PLURAL: &str = "sidecarsets";
/// The group and version of these types.
pub const API_VERSION: &str = "apps.kruise.io/v1beta1";

/// A SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarSet {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: Spec,
    /// What the controller observed.
    #[serde(deserialize_with = "null_is_default")]
    pub status: Status,
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

    /// The SidecarSet that this canary stands in for; `None` unless this is a canary.
    pub fn canary_base(&self) -> Option<&str> {
        if self.is_canary() {
            Some(self.annotation(annotations::SIDECARSET_BASE).unwrap_or_default())
        } else {
            None
        }
    }
}

/// The object metadata that SidecarSet's rules read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The object's name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The object's identity.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub uid: String,
    /// The version of this state of the object.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub resource_version: String,
    /// Grows with every change of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When the object was created, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When deletion was asked for, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

/// `spec` (docs/behaviour/sidecarset.md#defaults-of-fields).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The Pods to inject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The namespaces whose Pods are injected; all if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers to inject.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub init_containers: Vec<SidecarContainer>,
    /// Containers to inject and to update in place.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub containers: Vec<SidecarContainer>,
    /// Volumes that sidecars mount.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub volumes: Vec<Volume>,
    /// How running Pods are updated.
    #[serde(deserialize_with = "null_is_default")]
    pub update_strategy: UpdateStrategy,
    /// How new Pods are injected.
    #[serde(deserialize_with = "null_is_default")]
    pub injection_strategy: InjectionStrategy,
    /// Pull secrets to add to the Pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Number of ControllerRevisions to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Annotations to put on the Pods.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub patch_pod_metadata: Vec<PatchPodMetadata>,
    /// The user's name of this version.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub custom_version: String,
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

/// The typed part of a [`SidecarContainer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarContainerFields {
    /// The container's name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The container's image.
    #[serde(deserialize_with = "null_is_default")]
    pub image: String,
    /// `Always` for a native sidecar among the init containers, else empty.
    #[serde(deserialize_with = "null_is_default")]
    pub restart_policy: String,
    /// `BeforeAppContainer` or `AfterAppContainer`.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_inject_policy: String,
    /// How the container is updated.
    #[serde(deserialize_with = "null_is_default")]
    pub upgrade_strategy: UpgradeStrategy,
    /// Whether the Pod's volume mounts are shared.
    #[serde(deserialize_with = "null_is_default")]
    pub share_volume_policy: ShareVolumePolicy,
    /// Whether the Pod's block devices are shared; unset is kept apart from `disabled`.
    pub share_volume_device_policy: Option<ShareVolumePolicy>,
    /// Environment variables to copy.
    #[serde(deserialize_with = "null_is_default")]
    pub transfer_env: Vec<TransferEnv>,
    /// Computed resources.
    pub resources_policy: Option<ResourcesPolicy>,
}

/// How a sidecar is updated in running Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeStrategy {
    /// `ColdUpgrade` or `HotUpgrade`.
    #[serde(deserialize_with = "null_is_default")]
    pub upgrade_type: String,
    /// Image of the idle twin.
    #[serde(deserialize_with = "null_is_default")]
    pub hot_upgrade_empty_image: String,
}

/// Sharing of mounts or devices: `enabled` or `disabled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareVolumePolicy {
    /// `enabled` or `disabled`.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: String,
}

impl ShareVolumePolicy {
    /// True for `enabled`.
    pub fn is_enabled(&self) -> bool {
        self.kind == "enabled"
    }
}

/// Environment variables to copy from a container of the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TransferEnv {
    /// The source container by name.
    #[serde(deserialize_with = "null_is_default")]
    pub source_container_name: String,
    /// The source container by a label or annotation of the Pod.
    pub source_container_name_from: Option<SourceContainerNameSource>,
    /// One variable to copy.
    #[serde(deserialize_with = "null_is_default")]
    pub env_name: String,
    /// Further variables to copy.
    #[serde(deserialize_with = "null_is_default")]
    pub env_names: Vec<String>,
}

/// Where the name of a source container comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceContainerNameSource {
    /// A field of the Pod; unset means that nothing is copied.
    pub field_ref: Option<FieldReference>,
}

/// A field of the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldReference {
    /// `v1`.
    #[serde(deserialize_with = "null_is_default")]
    pub api_version: String,
    /// `metadata.labels['key']` or `metadata.annotations['key']`.
    #[serde(deserialize_with = "null_is_default")]
    pub field_path: String,
}

/// Resources computed from those of the Pod's own containers
/// (docs/behaviour/pod-mutation.md#resources-policy).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesPolicy {
    /// `sum` or `max`.
    #[serde(deserialize_with = "null_is_default")]
    pub target_containers_mode: String,
    /// Which containers count.
    #[serde(deserialize_with = "null_is_default")]
    pub target_containers_name_regex: String,
    /// The expressions.
    #[serde(deserialize_with = "null_is_default")]
    pub resources_expr: ResourcesExpressions,
}

/// Expressions for limits and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesExpressions {
    /// Expressions for the limits.
    pub limits: Option<ResourceExpressions>,
    /// Expressions for the requests.
    pub requests: Option<ResourceExpressions>,
}

/// One expression per resource; empty where the resource is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceExpressions {
    /// Over the variable `cpu`.
    #[serde(deserialize_with = "null_is_default")]
    pub cpu: String,
    /// Over the variable `memory`.
    #[serde(deserialize_with = "null_is_default")]
    pub memory: String,
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

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// The object's name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}

/// How running Pods are updated (docs/behaviour/sidecarset.md#reconcile).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate` or `NotUpdate`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub kind: String,
    /// Nothing is updated while true.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub paused: bool,
    /// Only Pods that match are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Pods to keep old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<IntOrString>,
    /// Pods that may be unavailable during the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Which Pods go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<PriorityStrategy>,
    /// Which Pods are spread over the order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub scatter_strategy: Vec<ScatterTerm>,
}

impl UpdateStrategy {
    /// True where running Pods are left alone.
    pub fn is_not_update(&self) -> bool {
        self.kind == "NotUpdate"
    }
}

/// The order of the update; only one of both may be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityStrategy {
    /// By the number at the end of a label's value.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub order_priority: Vec<OrderTerm>,
    /// By the sum of the weights of matching terms.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub weight_priority: Vec<WeightTerm>,
}

/// A label whose value ends in a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderTerm {
    /// The label's key.
    #[serde(deserialize_with = "null_is_default")]
    pub ordered_key: String,
}

/// A weight for Pods that match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightTerm {
    /// 0 to 100.
    #[serde(deserialize_with = "null_is_default")]
    pub weight: i32,
    /// The Pods that get the weight.
    #[serde(deserialize_with = "null_is_default")]
    pub match_selector: LabelSelector,
}

/// Pods with this label are spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScatterTerm {
    /// The label's key.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// The label's value; `*` for each value that occurs.
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
}

/// How new Pods are injected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectionStrategy {
    /// Nothing is injected while true.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "null_is_default")]
    pub paused: bool,
    /// Inject this older revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<InjectionRevision>,
}

/// A revision to inject, by name or by custom version; the name wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectionRevision {
    /// The user's name of a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// The name of a ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// `Always` or `Partial`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub policy: String,
}

/// Annotations to put on Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchPodMetadata {
    /// The annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
    /// `Retain`, `Overwrite` or `MergePatchJson`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub patch_policy: String,
}

/// `status` (docs/behaviour/sidecarset.md#status).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that was reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods of this SidecarSet.
    #[serde(deserialize_with = "null_is_default")]
    pub matched_pods: i32,
    /// Pods with the newest sidecars.
    #[serde(deserialize_with = "null_is_default")]
    pub updated_pods: i32,
    /// Pods that are consistent and ready.
    #[serde(deserialize_with = "null_is_default")]
    pub ready_pods: i32,
    /// Pods that are updated and ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_ready_pods: Option<i32>,
    /// Name of the current ControllerRevision.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub latest_revision: String,
    /// Number of revision names that were taken by others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
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

/// Go's decoder leaves a field at its zero value where the document says `null`.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
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
