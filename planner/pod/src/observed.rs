//! A Pod as the controllers remember it: the fields that rules read, small enough to keep for every Pod
//! of a large cluster. What is written back is a patch of single fields, never this.
//!
//! A [`Part`] is what many Pods have in common, so that a [`Pool`] can keep it once for all of them.

use std::fmt;
use std::sync::Arc;

use api::meta::OwnerReference;
use jiff::Timestamp;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::restart_policy::{RestartRule, ends_for_good};
use values::json;
use values::selector::Labels;

mod assigned_node;
mod container_id;
mod exit_hook;
mod part;
mod pool;
mod second;
mod status;
#[cfg(test)]
mod tests;
mod times;

pub use container_id::ContainerId;
pub use part::Part;
pub use pool::Pool;
pub use second::Second;
pub use status::{
    ConditionText, ContainerReport, ContainerState, ContainerStatus, PodCondition, Running, Terminated,
    Waiting,
};

/// A Pod of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ObservedPod {
    /// Names, labels, annotations, owners.
    #[serde(deserialize_with = "or_default")]
    pub metadata: PodMetadata,
    /// What was asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// What the kubelet and others reported.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `metadata` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// The Pod's namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: Part<str>,
    /// The Pod's name.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// The Pod's identity, which a later Pod of the same name does not have.
    #[serde(deserialize_with = "or_default")]
    pub uid: Box<str>,
    /// The version of this state of the Pod: the precondition of writes.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: Box<str>,
    /// Counts changes of `spec`, since Kubernetes 1.33; 0 where they are not counted.
    #[serde(deserialize_with = "or_default")]
    pub generation: i64,
    /// When the Pod was created.
    #[serde(deserialize_with = "second")]
    pub creation_timestamp: Option<Second>,
    /// When its deletion was asked for.
    #[serde(deserialize_with = "second")]
    pub deletion_timestamp: Option<Second>,
    /// The seconds that it has to end, from when its deletion was asked for.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: Pairs,
    /// Annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Pairs,
    /// Times that were taken out of the annotations; see [`ObservedPod::take_times_out`].
    #[serde(skip)]
    pub times: Box<[Second]>,
    /// The objects with which the Pod goes.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Part<[OwnerReference]>,
    /// What must be done before the Pod may go.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Part<[Box<str>]>,
}

impl PodMetadata {
    /// When the Pod was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.creation_timestamp.map(Timestamp::from)
    }
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that runs the Pod; empty while it is not scheduled.
    #[serde(deserialize_with = "or_default")]
    pub node_name: Part<str>,
    /// `Always`, `OnFailure` or `Never`.
    #[serde(deserialize_with = "or_default")]
    pub restart_policy: Part<str>,
    /// Init containers, native sidecars among them.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Part<[Container]>,
    /// Containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Part<[Container]>,
    /// Containers that were added while the Pod ran.
    #[serde(deserialize_with = "or_default")]
    pub ephemeral_containers: Part<[Container]>,
    /// Conditions that must hold for the Pod to be ready.
    #[serde(deserialize_with = "or_default")]
    pub readiness_gates: Part<[ReadinessGate]>,
    /// The volumes that are claims.
    #[serde(rename = "volumes", deserialize_with = "claim_volumes")]
    pub claims: Box<[ClaimVolume]>,
    /// The only node that its required node affinity admits by name; `None` where that admits others too. The
    /// scheduler binds it to no other.
    #[serde(rename = "affinity", deserialize_with = "assigned_node::read")]
    pub assigned_node: Option<Part<str>>,
}

impl PodSpec {
    /// The node that the Pod is on, or else the only one to which it can go.
    pub fn node(&self) -> Option<&str> {
        Some(&*self.node_name).filter(|name| !name.is_empty()).or(self.assigned_node.as_deref())
    }
}

/// A volume of a Pod that is a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimVolume {
    /// The volume's name.
    pub name: Box<str>,
    /// The claim's name.
    pub claim: Box<str>,
}

/// A container of a Pod's `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// The container's name.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// The container's image.
    #[serde(deserialize_with = "or_default")]
    pub image: Arc<str>,
    /// `Always` makes an init container a native sidecar. That of another container counts before the Pod's.
    #[serde(deserialize_with = "or_default")]
    pub restart_policy: Box<str>,
    /// After which exit codes it starts again, whatever the policies say.
    #[serde(deserialize_with = "or_default")]
    pub restart_policy_rules: Box<[RestartRule]>,
    /// Variables that some rule reads: those of Kruise, and those filled from labels or annotations.
    #[serde(deserialize_with = "variables")]
    pub env: Box<[Variable]>,
    /// The ports that have names.
    #[serde(deserialize_with = "named_ports")]
    pub ports: Box<[Port]>,
    /// Requests and limits.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// Which changes of resources restart the container.
    #[serde(deserialize_with = "or_default")]
    pub resize_policy: Box<[ResizePolicy]>,
    /// The preStop command, where it is the hook of container exit priority.
    #[serde(rename = "lifecycle", deserialize_with = "exit_hook::read")]
    pub exit_hook: Box<[Box<str>]>,
}

/// A port of a container that has a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// Its number.
    #[serde(deserialize_with = "or_default")]
    pub container_port: i32,
}

/// An environment variable of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variable {
    /// The variable's name.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// Its literal value; empty where it comes from elsewhere.
    #[serde(deserialize_with = "or_default")]
    pub value: Box<str>,
    /// Where the value comes from.
    #[serde(deserialize_with = "or_default")]
    pub value_from: Option<Box<VariableSource>>,
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VariableSource {
    /// A field of the Pod.
    pub field_ref: Option<FieldReference>,
    /// A key of a ConfigMap.
    pub config_map_key_ref: Option<KeyReference>,
}

/// A field of the Pod, such as `metadata.labels['app']`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldReference {
    /// The field's path.
    #[serde(deserialize_with = "or_default")]
    pub field_path: Box<str>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyReference {
    /// The ConfigMap's name.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// The key in it.
    #[serde(deserialize_with = "or_default")]
    pub key: Box<str>,
}

/// Requests and limits of a container, as texts of quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// What the container may not exceed.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Pairs::is_empty")]
    pub limits: Pairs,
    /// What the container is promised.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Pairs::is_empty")]
    pub requests: Pairs,
}

/// An element of a container's `resizePolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    /// `cpu` or `memory`.
    #[serde(deserialize_with = "or_default")]
    pub resource_name: Box<str>,
    /// `NotRequired` or `RestartContainer`.
    #[serde(deserialize_with = "or_default")]
    pub restart_policy: Box<str>,
}

/// An element of `spec.readinessGates`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    /// The type of the condition that must be `True`.
    #[serde(deserialize_with = "or_default")]
    pub condition_type: Box<str>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The generation that the kubelet knew when it reported this; 0 where it does not tell.
    #[serde(deserialize_with = "or_default")]
    pub observed_generation: i64,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(deserialize_with = "or_default")]
    pub phase: Part<str>,
    /// The Pod's address; empty while it has none.
    #[serde(rename = "podIP", deserialize_with = "or_default")]
    pub pod_ip: Box<str>,
    /// Conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Box<[PodCondition]>,
    /// The condition `Initialized` was `True` and is left out of the conditions.
    #[serde(skip)]
    pub initialized: bool,
    /// Statuses of init containers, sorted as the kubelet likes.
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// Statuses of containers, sorted as the kubelet likes, not as in `spec`.
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Box<[ContainerStatus]>,
    /// Statuses of ephemeral containers.
    #[serde(deserialize_with = "or_default")]
    pub ephemeral_container_statuses: Part<[ContainerStatus]>,
}

/// A map of texts, sorted by key and without spare room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pairs(Part<[Pair]>);

/// A key with its value. Pods whose maps differ have most of these in common.
type Pair = Part<(Part<str>, Box<str>)>;

impl Pairs {
    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let position = self.position(key)?;
        self.0.get(position).map(|pair| &*pair.1)
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|pair| (&*pair.0, &*pair.1))
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.0.binary_search_by(|pair| (*pair.0).cmp(key)).ok()
    }
}

impl<K: Into<Part<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Part<str>, Box<str>)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // Of equal keys the last one counts, as everywhere in JSON.
        pairs.reverse();
        pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
        pairs.dedup_by(|(later, _), (earlier, _)| later == earlier);
        Self(pairs.into_iter().map(Pair::from).collect())
    }
}

impl Labels for Pairs {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some((key, Scalar(value))) = map.next_entry::<Part<str>, Scalar>()? {
                    pairs.push((key, value));
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

impl Serialize for Pairs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// The volumes that are claims.
fn claim_volumes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[ClaimVolume]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Volume {
        #[serde(default)]
        name: Box<str>,
        #[serde(default)]
        persistent_volume_claim: Option<Source>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Source {
        #[serde(default)]
        claim_name: Box<str>,
    }
    let volumes: Option<Vec<Volume>> = Option::deserialize(deserializer)?;
    let claims = volumes.into_iter().flatten().filter_map(|volume| {
        Some(ClaimVolume { name: volume.name, claim: volume.persistent_volume_claim?.claim_name })
    });
    Ok(claims.collect())
}

/// A text, or the text of a number: quantities come in both forms.
struct Scalar(Box<str>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.into()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string().into()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string().into()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string().into()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl ObservedPod {
    /// Reads a Pod from its JSON text.
    ///
    /// # Errors
    /// A text that is no Pod: a field that is read has the wrong type.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        json::from_str(text)
    }

    /// Reads only `metadata`, which is enough to tell whose Pod it is: the rest of a Pod is long.
    ///
    /// # Errors
    /// Those of [`ObservedPod::read`].
    pub fn read_metadata(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default, deserialize_with = "or_default")]
            metadata: PodMetadata,
        }
        json::from_str(text).map(|Head { metadata }| Self { metadata, ..Self::default() })
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key)
    }

    /// The owner that manages the Pod.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// Neither ended nor being deleted (Kubernetes' `IsPodActive`).
    pub fn is_active(&self) -> bool {
        !matches!(&*self.status.phase, "Succeeded" | "Failed") && self.metadata.deletion_timestamp.is_none()
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// True where the condition of this type is `True`.
    pub fn condition_is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| &*condition.status == "True")
    }

    /// The Pod's init containers are done.
    pub fn is_initialized(&self) -> bool {
        self.status.initialized || self.condition_is_true("Initialized")
    }

    /// The condition `Ready` is `True`.
    pub fn is_ready(&self) -> bool {
        self.condition_is_true("Ready")
    }

    /// `Ready` for at least `seconds`. Kubernetes' rule: at once for 0, else the time of the transition
    /// must be known and lie more than `seconds` back.
    pub fn is_ready_for(&self, seconds: i32, now: Timestamp) -> bool {
        let Some(ready) = self.condition("Ready").filter(|condition| &*condition.status == "True") else {
            return false;
        };
        let wanted = jiff::SignedDuration::from_secs(seconds.into());
        seconds <= 0 || ready.since().is_some_and(|since| now.duration_since(since) > wanted)
    }

    /// True where the Pod is ready only if the condition of this type is `True`.
    pub fn has_readiness_gate(&self, kind: &str) -> bool {
        self.spec.readiness_gates.iter().any(|gate| &*gate.condition_type == kind)
    }

    /// The kubelet knows what `spec` asks for now; also true where it does not tell what it knows.
    pub fn spec_is_observed(&self) -> bool {
        let observed = self.status.observed_generation;
        observed == 0 || observed >= self.metadata.generation
    }

    /// The init containers that run beside the containers.
    pub fn native_sidecars(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().filter(|container| container.is_native_sidecar())
    }

    /// What runs side by side: `spec.containers` and native sidecars.
    pub fn running_containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.containers.iter().chain(self.native_sidecars())
    }

    /// The container or native sidecar of this name; both have their names from one set.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.running_containers().find(|container| &*container.name == name)
    }

    /// The container of this status has ended and does not run again.
    pub fn has_ended_for_good(&self, status: &ContainerStatus) -> bool {
        status.state.terminated.as_ref().zip(self.container(&status.name)).is_some_and(|(end, container)| {
            let Container { restart_policy, restart_policy_rules, .. } = container;
            ends_for_good(restart_policy_rules, restart_policy, &self.spec.restart_policy, end.exit_code)
        })
    }

    /// The status of the container or native sidecar of this name.
    pub fn container_status(&self, name: &str) -> Option<&ContainerStatus> {
        let PodStatus { container_statuses, init_container_statuses, .. } = &self.status;
        container_statuses.iter().chain(init_container_statuses).find(|status| &*status.name == name)
    }
}

impl Container {
    /// An init container that runs beside the others.
    pub fn is_native_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }

    /// The variable of this name; of several, the last, as the kubelet takes it.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.env.iter().rev().find(|variable| &*variable.name == name)
    }
}

/// Go's decoder leaves a field at its zero value where the document says `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A time; what can't be read counts as unset.
fn second<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Second>, D::Error> {
    let text = Option::<Box<str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse::<Timestamp>().ok()).map(Second::from))
}

/// Of a container's variables those that some rule reads; a Pod may have hundreds of others.
fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Variable]>, D::Error> {
    let all: Vec<Variable> = or_default(deserializer)?;
    Ok(all.into_iter().filter(Variable::is_read).collect())
}

/// Of a container's ports those that are called by their names.
fn named_ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Port]>, D::Error> {
    let all: Vec<Port> = or_default(deserializer)?;
    Ok(all.into_iter().filter(|port| !port.name.is_empty()).collect())
}

impl Variable {
    fn is_read(&self) -> bool {
        let from_metadata = self
            .value_from
            .as_ref()
            .and_then(|source| source.field_ref.as_ref())
            .is_some_and(|field| field.field_path.starts_with("metadata."));
        from_metadata || self.name.starts_with("KRUISE_") || &*self.name == api::environment::IS_INJECTED
    }
}
