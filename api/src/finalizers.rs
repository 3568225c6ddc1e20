//! Well-known finalizers (docs/behaviour/api-and-registration.md#finalizers).

/// On an ImagePullJob until its copied pull secrets are cleaned.
pub const DELETION_PROTECTION: &str = "apps.kruise.io/deletion-protection";

/// On an EphemeralJob.
pub const EPHEMERAL_CONTAINERS_CLEANUP: &str = "apps.kruise.io/ephemeralcontainers-cleanup";

/// On a PodProbeMarker until its probes are taken out of all NodePodProbes.
pub const NODE_POD_PROBE_CLEANUP: &str = "kruise.io/node-pod-probe-cleanup";

/// On a ContainerRecreateRequest while its Pod is held not ready.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
