//! Well-known finalizers (docs/behaviour/api-and-registration.md#finalizers and docs/behaviour/rollouts.md#keys).

/// On an ImagePullJob until its copied pull secrets are cleaned.
pub const DELETION_PROTECTION: &str = "apps.kruise.io/deletion-protection";

/// On an EphemeralJob.
pub const EPHEMERAL_CONTAINERS_CLEANUP: &str = "apps.kruise.io/ephemeralcontainers-cleanup";

/// On a PodProbeMarker until its probes are taken out of all NodePodProbes.
pub const NODE_POD_PROBE_CLEANUP: &str = "kruise.io/node-pod-probe-cleanup";

/// On a ContainerRecreateRequest while its Pod is held not ready.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

/// On a Rollout until network and workload are as they were.
pub const ROLLOUT: &str = "rollouts.kruise.io/rollout";

/// On a BatchRelease until the workload is handed back.
pub const BATCH_RELEASE: &str = "rollouts.kruise.io/batch-release-finalizer";

/// On the second Deployment of a release until the first has taken over.
pub const CANARY_DEPLOYMENT: &str = "finalizer.rollouts.kruise.io/batch-release";

/// On a TrafficRouting until its network objects are as they were.
pub const TRAFFIC_ROUTING: &str = "rollouts.kruise.io/trafficrouting";

/// On a TrafficRouting, followed by the name of a Rollout: that Rollout is releasing.
pub const PROGRESSING_ROLLOUT_PREFIX: &str = "progressing.rollouts.kruise.io/";
