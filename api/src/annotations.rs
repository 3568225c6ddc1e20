//! Well-known annotations (spec 00 §2.2).

/// On a SidecarSet and its revisions: the hash; on a Pod: a JSON map of what was injected.
pub const SIDECARSET_HASH: &str = "kruise.io/sidecarset-hash";

/// As [`SIDECARSET_HASH`], computed with the images left out.
pub const SIDECARSET_HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";

/// On a Pod: comma-separated names of the SidecarSets injected.
pub const SIDECARSET_INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";

/// On a Pod: JSON map from sidecar to its working container.
pub const SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER: &str =
    "kruise.io/sidecarset-working-hotupgrade-container";

/// Prefix, followed by a container: hot upgrade version of it.
pub const SIDECARSET_VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";

/// Prefix, followed by a container: hot upgrade version of its twin.
pub const SIDECARSET_VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";

/// On a SidecarSet: `true` marks a canary.
pub const SIDECARSET_CANARY: &str = "apps.kruise.io/sidecarset-canary";

/// On a canary SidecarSet: the name of the SidecarSet that it replaces; immutable.
pub const SIDECARSET_BASE: &str = "apps.kruise.io/sidecarset-base";

/// On a Pod: `Ordered` starts containers in their order.
pub const CONTAINER_LAUNCH_PRIORITY: &str = "apps.kruise.io/container-launch-priority";

/// On a Pod: `true` once every container was released.
pub const CONTAINER_LAUNCH_PRIORITY_COMPLETED: &str = "apps.kruise.io/container-launch-priority-completed";

/// On both webhook configurations: JSON of the full list of webhooks (spec 00 §4.4).
pub const WEBHOOK_TEMPLATE: &str = "template";

/// Image pre-download: how many nodes pull at a time.
pub const IMAGE_PREDOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";

/// Image pre-download: seconds for one pull.
pub const IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";

/// Image pre-download starts once this many Pods are updated and ready.
pub const IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS: &str =
    "apps.kruise.io/image-predownload-min-updated-ready-pods";

/// On a v1alpha1 DaemonSet: `true` stands for `spec.scaleStrategy.partitionedScaling`.
pub const PROGRESSIVE_CREATE_POD: &str = "daemonset.kruise.io/progressive-create-pod";

/// On a v1alpha1 ContainerRecreateRequest: JSON of `status.containerStatusSnapshot`.
pub const CRR_SYNC_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";

/// On a v1alpha1 ContainerRecreateRequest: when the Pod was forced to not ready, RFC 3339.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

/// On a PodUnavailableBudget: comma-separated operations to protect.
pub const PUB_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";

/// On a PodUnavailableBudget: total replicas to protect.
pub const PUB_PROTECT_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";
