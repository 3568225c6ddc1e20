//! What the checks of a Pod's parts know of the Pod.

use std::collections::{BTreeSet, HashMap};

use super::node::Node;

/// How containers may use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeUse {
    /// A claim: as a mount or as a block device.
    Block,
    /// Only as a mount.
    Files,
}

/// What the checks of one container need to know of its Pod.
pub(super) struct PodContext<'a> {
    /// The volumes without errors.
    pub(super) volumes: HashMap<&'a str, VolumeUse>,
    /// Names of `resourceClaims`.
    pub(super) resource_claims: BTreeSet<&'a str>,
    /// Bound of sleeps in hooks, seconds; unset where the Pod is not known.
    pub(super) grace_period: Option<i64>,
    pub(super) restart_policy: &'a str,
    /// False where the Pod runs in a user namespace of its own.
    pub(super) host_users: bool,
    pub(super) allow_privileged: bool,
}

/// The containers of a Pod spec: init, ordinary and ephemeral ones.
pub(super) fn every_container<'a>(spec: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    spec.list("initContainers").chain(spec.list("containers")).chain(spec.list("ephemeralContainers"))
}
