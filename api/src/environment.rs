//! Environment variables inside Pods that carry meaning (spec 00 §2.4).

/// Integer launch priority of a container, set by the user.
pub const CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";

/// Blocks the start of a container until its key is in the ConfigMap `<pod>-barrier`.
pub const CONTAINER_BARRIER: &str = "KRUISE_CONTAINER_BARRIER";

/// `true` in containers that come from a SidecarSet.
pub const IS_INJECTED: &str = "IS_INJECTED";

/// Hot upgrade: version of this container, through the downward API.
pub const SIDECARSET_VERSION: &str = "SIDECARSET_VERSION";

/// Hot upgrade: version of its twin, through the downward API.
pub const SIDECARSET_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";
