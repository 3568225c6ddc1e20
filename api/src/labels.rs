//! Well-known labels (docs/behaviour/api-and-registration.md#well-known-labels and docs/behaviour/rollouts.md#keys).

/// Deletion protection: `Always` or `Cascading` (docs/behaviour/deletion-protection.md).
pub const DELETE_PROTECTION: &str = "policy.kruise.io/delete-protection";

/// Marks the objects and the namespace of the installation.
pub const CONTROL_PLANE: &str = "control-plane";

/// On all Pods of the installation: admission leaves them alone, so that a server which is down can
/// come back.
pub const COMPONENT: &str = "kutter.io/component";

/// The name that Kubernetes itself puts on every Namespace.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// On a ControllerRevision: the SidecarSet it belongs to.
pub const SIDECARSET_NAME: &str = "kruise.io/sidecarset-name";

/// On a v1alpha1 SidecarSet and on its ControllerRevisions: the custom version.
pub const SIDECARSET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";

/// On a v1alpha1 CloneSet: `true` means `spec.scaleStrategy.excludePreparingDelete`.
pub const CLONESET_SCALING_EXCLUDE_PREPARING_DELETE: &str =
    "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";

/// On Pods and ReplicaSets of a Deployment: the hash that ends the name of the ReplicaSet.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// On a Pod: where it is in its life, such as `PreparingUpdate`
/// (docs/behaviour/lifecycle.md#lifecycle-hooks).
pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";

/// On a Pod: the revision that it is at, as a full name or as the hash that ends it.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";

/// On a Pod of a DaemonSet: the generation of the template that it was made from, where the DaemonSet counts these.
pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";

/// On a Pod of a BroadcastJob: the job's name.
pub const BROADCAST_JOB_NAME: &str = "broadcastjob-name";

/// On a Pod of a BroadcastJob: the job's UID.
pub const BROADCAST_JOB_CONTROLLER_UID: &str = "broadcastjob-controller-uid";

/// On a workload of a UnitedDeployment and on its Pods: the subset.
pub const SUBSET_NAME: &str = "apps.kruise.io/subset-name";

/// On a workload of a UnitedDeployment and on its Pods: the name of the revision of the UnitedDeployment.
pub const UNITED_REVISION: &str = "apps.kruise.io/controller-revision-hash";

/// On a Pod of a UnitedDeployment that reserves room: `true` while it waits for room or is not trusted yet.
pub const RESERVED_POD: &str = "apps.kruise.io/united-deployment-reserved-pod";

/// On a ControllerRevision and an ImagePullJob: the short hash of the revision.
pub const CONTROLLER_HASH: &str = "controller.kubernetes.io/hash";

/// On a ControllerRevision: `true` once jobs pull its new images ahead of the update.
pub const PRE_PREDOWNLOAD_CREATED: &str = "apps.kruise.io/pre-predownload-created";

/// On a ControllerRevision: `true` where nothing is pulled ahead of the update.
pub const IMAGE_PREDOWNLOAD_IGNORED: &str = "apps.kruise.io/image-predownload-ignored";

/// On a Pod, with any value: its workload deletes it, and replaces it unless it scales in.
pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";

/// On a Pod of a CloneSet and on its claims: the five characters that end the Pod's name.
pub const CLONESET_INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";

/// Begins the labels that make a Pod count as not available, whatever their values.
pub const UNAVAILABLE_POD_PREFIX: &str = "unavailable-pod.kruise.io/";

/// On a ContainerRecreateRequest: the UID of its Pod.
pub const CRR_POD_UID: &str = "crr.apps.kruise.io/pod-uid";

/// On a ContainerRecreateRequest: the node of its Pod, by which the node agent finds it.
pub const CRR_NODE_NAME: &str = "crr.apps.kruise.io/node-name";

/// On a ContainerRecreateRequest: `true` until it is completed.
pub const CRR_ACTIVE: &str = "crr.apps.kruise.io/active";

/// On a Node and what belongs to it: `virtual-kubelet` where no kubelet and no node agent runs.
pub const NODE_TYPE: &str = "type";

/// The [`NODE_TYPE`] of a node without a kubelet.
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";

/// On a Pod of a StatefulSet: its name.
pub const STATEFULSET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// On a Pod of a StatefulSet: its ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// On the workload of a Rollout, so that webhooks can select it: `cloneset`, `deployment`, `statefulset` or `daemonset`.
pub const ROLLOUT_WORKLOAD_TYPE: &str = "rollouts.kruise.io/workload-type";

/// On the workload of a Rollout and on its Pods: the identity that its user gives a release.
pub const ROLLOUT_ID: &str = "rollouts.kruise.io/rollout-id";

/// On a Pod: the number of the batch that brought it, from 1.
pub const ROLLOUT_BATCH_ID: &str = "rollouts.kruise.io/rollout-batch-id";

/// On a Pod that had the wanted version already when a rollback in batches began: the identity of that release.
pub const NO_NEED_UPDATE: &str = "rollouts.kruise.io/no-need-update";

/// On a Deployment of a Rollout: the [`POD_TEMPLATE_HASH`] of the version before the release.
pub const STABLE_REVISION: &str = "rollouts.kruise.io/stable-revision";

/// On a Deployment: `true` while Kutter rolls it in place of Kubernetes' own controller.
pub const CONTROLLED_BY_ADVANCED_DEPLOYMENT: &str =
    "rollouts.kruise.io/controlled-by-advanced-deployment-controller";

/// On the second Deployment of a release: the name of the first.
pub const CANARY_DEPLOYMENT: &str = "rollouts.kruise.io/canary-deployment";

/// On a RolloutHistory: the name of the Rollout.
pub const ROLLOUT_NAME: &str = "rollouts.kruise.io/rollout-name";
