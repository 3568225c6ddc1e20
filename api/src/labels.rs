//! Well-known labels (spec 00 §2.1).

/// Deletion protection: `Always` or `Cascading` (spec 50).
pub const DELETE_PROTECTION: &str = "policy.kruise.io/delete-protection";

/// Marks the objects and the namespace of the installation.
pub const CONTROL_PLANE: &str = "control-plane";

/// The name that Kubernetes itself puts on every Namespace.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// On a ControllerRevision: the SidecarSet it belongs to.
pub const SIDECARSET_NAME: &str = "kruise.io/sidecarset-name";

/// On a v1alpha1 SidecarSet and on its ControllerRevisions: the custom version.
pub const SIDECARSET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";

/// On a v1alpha1 CloneSet: `true` stands for `spec.scaleStrategy.excludePreparingDelete`.
pub const CLONESET_SCALING_EXCLUDE_PREPARING_DELETE: &str =
    "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
