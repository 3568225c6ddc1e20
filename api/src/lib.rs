//! The nouns of Kutter: every kind in every version, their conversion, the well-known labels and
//! annotations, and the feature gates. Pure data: no I/O, no clock, no client.
//!
//! ```text
//!   crds        the CustomResourceDefinitions, embedded from api/crds/*.yaml
//!   schema      what the schemas of the CustomResourceDefinitions require
//!   kinds       spec and status of every kind as structs, in the stored version
//!   conversion  v1alpha1 <-> v1beta1 on raw JSON, nothing lost
//!   labels, annotations, environment, finalizers, conditions   the catalogue of keys
//!   exit_hook   names of the hook by which containers end in an order
//!   features    feature gates, their defaults and dependency rules
//!   raw         JSON that is carried, never re-encoded
//! ```

pub mod annotations;
pub mod conditions;
pub mod conversion;
pub mod crds;
pub mod duration;
pub mod environment;
pub mod exit_hook;
pub mod features;
pub mod finalizers;
pub mod kinds;
pub mod labels;
pub mod meta;
pub mod raw;
pub mod raw_object;
pub mod schema;
pub mod sidecarset;

pub use raw::Raw;

/// API group of all kinds but PodUnavailableBudget and those of Rollouts.
pub const APPS_GROUP: &str = "apps.kruise.io";
/// API group of PodUnavailableBudget.
pub const POLICY_GROUP: &str = "policy.kruise.io";
/// API group of Rollout, BatchRelease, TrafficRouting and RolloutHistory.
pub const ROLLOUTS_GROUP: &str = "rollouts.kruise.io";
/// The install namespace when `POD_NAMESPACE` does not name another (docs/behaviour/server.md#environment).
pub const DEFAULT_NAMESPACE: &str = "kruise-system";
/// The `uid` of the reviews that a replica sends to itself to see whether it answers. They are not counted: the
/// counts say whether the API server calls.
pub const SELF_CHECK_UID: &str = "self-check";
/// The longest `uid` of a review, which is sent back: API servers send UUIDs of 36 characters
/// (docs/behaviour/server.md#http-of-reviews).
pub const LONGEST_UID: usize = 128;
/// ConfigMap in the install namespace with the allow-lists of
/// docs/behaviour/api-and-registration.md#the-configmap-kruise-configuration.
pub const CONFIGURATION_CONFIG_MAP: &str = "kruise-configuration";

/// Group and version of an `apiVersion`; the core group is empty.
pub fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}
