//! Environment variables inside Pods that carry meaning
//! (docs/behaviour/api-and-registration.md#environment-variables-in-containers).

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

/// `true`, in any case, marks a sidecar that is ended when the main containers of its job are done.
pub const TERMINATE_SIDECAR_WHEN_JOB_EXIT: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";

/// The image that ends a sidecar in place when the main containers of its job are done.
pub const TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE: &str =
    "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";

/// `true`, in any case, keeps the exit code of such a sidecar out of the phase of its Pod.
pub const TERMINATE_SIDECAR_IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// In an ephemeral container of an EphemeralJob: the job's UID.
pub const EPHEMERAL_JOB_ID: &str = "KRUISE_EJOB_ID";
