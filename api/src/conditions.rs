//! Pod conditions and readiness gates
//! (docs/behaviour/api-and-registration.md#pod-conditions-and-readiness-gates).

/// Readiness gate shared by several writers; injected into Pods of our workloads.
pub const KRUISE_POD_READY: &str = "KruisePodReady";

/// Readiness gate that is false while a Pod is updated in place.
pub const IN_PLACE_UPDATE_READY: &str = "InPlaceUpdateReady";

/// Whether the sidecars of a Pod can be updated in place.
pub const SIDECARSET_UPGRADABLE: &str = "SidecarSetUpgradable";

/// The sidecars of a finished job Pod were ended.
pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";
