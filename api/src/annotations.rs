//! Well-known annotations (docs/behaviour/api-and-registration.md#well-known-annotations and
//! docs/behaviour/rollouts.md#keys).

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

/// On a Pod: JSON object from container to a number; containers end in ascending order. Not known to OpenKruise.
pub const CONTAINER_EXIT_PRIORITY: &str = "kruise.io/container-exit-priority";

/// On a Pod: `Hook` or `NativeSidecar`, how its containers are made to end in their order.
pub const CONTAINER_EXIT_MODE: &str = "kruise.io/container-exit-mode";

/// On a Pod: the seconds that each step of the order keeps for its own end.
pub const CONTAINER_EXIT_RESERVE_SECONDS: &str = "kruise.io/container-exit-reserve-seconds";

/// On a Pod: the containers that admission moved to its init containers, with commas between them.
pub const CONTAINER_EXIT_MOVED: &str = "kruise.io/container-exit-moved";

/// On both webhook configurations: JSON of the full list of webhooks
/// (docs/behaviour/api-and-registration.md#the-template-annotation).
pub const WEBHOOK_TEMPLATE: &str = "template";

/// On a DaemonSet: the generation of its template, as very old releases of Kubernetes counted it.
pub const DEPRECATED_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Image pre-download: how many nodes pull at a time.
pub const IMAGE_PREDOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";

/// Image pre-download: seconds for one pull.
pub const IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS: &str = "apps.kruise.io/image-predownload-timeout-seconds";

/// Image pre-download starts once this many Pods are updated and ready.
pub const IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS: &str =
    "apps.kruise.io/image-predownload-min-updated-ready-pods";

/// On a v1alpha1 DaemonSet: `true` means `spec.scaleStrategy.partitionedScaling`.
pub const PROGRESSIVE_CREATE_POD: &str = "daemonset.kruise.io/progressive-create-pod";

/// On a v1alpha1 ContainerRecreateRequest: JSON of `status.containerStatusSnapshot`.
pub const CRR_SYNC_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";

/// On a v1alpha1 ContainerRecreateRequest: when the Pod was forced to not ready, RFC 3339.
pub const CRR_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";

/// On a ContainerRecreateRequest: JSON map from container to the seconds that its preStop hook sleeps, which
/// `spec.containers[].preStop` can't hold. OpenKruise never writes it.
pub const CRR_PRE_STOP_SLEEP: &str = "kutter.io/crr-pre-stop-sleep";

/// On a PodUnavailableBudget: comma-separated operations to protect.
pub const PUB_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";

/// On a PodUnavailableBudget: total replicas to protect.
pub const PUB_PROTECT_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";

/// On a Pod: the PodUnavailableBudget that protects it; read first.
pub const RELATED_PUB: &str = "pub.kruise.io/related-pub";

/// As [`RELATED_PUB`], in its older spelling: both are written, this one is read second.
pub const RELATED_PUB_OLDER: &str = "kruise.io/related-pub";

/// On a Pod: `true` lets it pass its budget. `spec.ignoredPodSelector` of the budget says it for many Pods.
pub const PUB_NO_PROTECT: &str = "pub.kruise.io/no-protect";

/// On a PodUnavailableBudget: `Protect` holds Pods that are not ready as it holds available ones, `Release` (the default)
/// lets them pass. Not known to OpenKruise.
pub const UNHEALTHY_PODS: &str = "kutter.io/unhealthy-pods";

/// On a Pod of a Kruise workload: `true` has its liveness probes run by the node daemon.
pub const USING_ENHANCED_LIVENESS: &str = "apps.kruise.io/using-enhanced-liveness";

/// On a Pod: JSON list of the liveness probes that were moved out of its containers.
pub const CONTAINER_PROBE_CONTEXT: &str = "apps.kruise.io/container-probe-context";

/// On a Pod: JSON list of the probes that a serverless platform runs.
pub const POD_PROBE: &str = "kruise.io/podprobe";

/// On a Pod: comma-separated names of the PodProbeMarkers behind [`POD_PROBE`].
pub const POD_PROBE_MARKER_LIST: &str = "kruise.io/podprobemarker-list";

/// On a Pod: JSON of its last update in place (docs/behaviour/in-place-update.md#state-annotation).
pub const IN_PLACE_UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";

/// As [`IN_PLACE_UPDATE_STATE`], in its older spelling: read second, never written.
pub const IN_PLACE_UPDATE_STATE_OLDER: &str = "inplace-update-state";

/// On a Pod: JSON of the change that waits for the end of its grace period
/// (docs/behaviour/in-place-update.md#grace-period).
pub const IN_PLACE_UPDATE_GRACE: &str = "apps.kruise.io/inplace-update-grace";

/// As [`IN_PLACE_UPDATE_GRACE`], in its older spelling: read second, never written.
pub const IN_PLACE_UPDATE_GRACE_OLDER: &str = "inplace-update-grace";

/// On a Pod: JSON of what the node agent saw of the running containers
/// (docs/behaviour/in-place-update.md#report-of-the-node-agent).
pub const RUNTIME_CONTAINERS_META: &str = "apps.kruise.io/runtime-containers-meta";

/// On a Pod: when its label [`LIFECYCLE_STATE`](crate::labels::LIFECYCLE_STATE) changed last, RFC 3339.
pub const LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";

/// On a ControllerRevision of a CloneSet: the hash of its volume claim templates
/// (docs/behaviour/revisions.md#claim-hash).
pub const CLONESET_CLAIMS_HASH: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";

/// On a ControllerRevision: `true` where its data has the fields of the template that OpenKruise does not
/// know, so that their absence there means something. OpenKruise never writes it.
pub const WHOLE_TEMPLATE: &str = "kutter.io/whole-template";

/// On a ControllerRevision of a CloneSet or StatefulSet: the claim templates that belong to it, a JSON list
/// (docs/behaviour/revisions.md#claim-templates). OpenKruise never writes it.
pub const CLAIM_TEMPLATES: &str = "kutter.io/volume-claim-templates";

/// On a Pod: JSON map from SidecarSet to what its sidecars ran before they were updated in place.
pub const SIDECARSET_IN_PLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";

/// On a Pod: JSON map from container to the image that a SidecarSet gave it last and the ID of the
/// container that ran before; once another container runs, the update is done. OpenKruise never writes it.
pub const SIDECARSET_REPLACED_CONTAINERS: &str = "kutter.io/sidecarset-replaced-containers";

/// On a Pod: JSON object from a container to the lists that it had before an injected one took its place, for sidecars
/// that take them over.
pub const SIDECARSET_REPLACED_SOURCES: &str = "kutter.io/sidecarset-replaced-sources";

/// On a SidecarSet: JSON of how many Pods it matches, how many have its sidecars, and why the others have
/// not. OpenKruise never writes it.
pub const SIDECARSET_PODS: &str = "kutter.io/sidecarset-pods";

/// On a SidecarSet: how many of the Pods that were created without its sidecars may be away at a time while
/// they are evicted, so that they come back with them. Without it none is.
pub const EVICT_MISSED_PODS: &str = "kutter.io/evict-missed-pods";

/// On a Pod: JSON with the WorkloadSpread and the subset that it belongs to.
pub const MATCHED_WORKLOADSPREAD: &str = "apps.kruise.io/matched-workloadspread";

/// On a WorkloadSpread: `true` keeps labels and annotations of a subset's patch from Pods that were there before.
pub const IGNORE_PATCH_EXISTING_PODS_METADATA: &str =
    "workloadspread.kruise.io/ignore-patch-existing-pods-metadata";

/// On a WorkloadSpread: `true` refuses Pods of its workload that no subset takes, so that none runs without the patch of
/// one. OpenKruise lets them through.
pub const REQUIRE_SUBSET: &str = "kutter.io/require-subset";

/// On a CloneSet: `LABEL=VALUE[,LABEL=VALUE...]`, which Pods go first when it is scaled in, by their labels. Not known to
/// OpenKruise.
pub const SCALE_IN_ORDER: &str = "kutter.io/scale-in-order";

/// On a CloneSet: `true` lets the claims of its Pods grow as its claim templates say. Not known to OpenKruise.
pub const GROW_CLAIMS: &str = "kutter.io/grow-claims";

/// On a CloneSet, StatefulSet or DaemonSet: `configmap/NAME[,secret/NAME...]`, what its Pods restart on. Not known to
/// OpenKruise.
pub const RESTART_ON: &str = "kutter.io/restart-on";

/// On a Pod template: the hash of what [`RESTART_ON`] names. Containers that show it restart when it changes.
pub const CONFIGURATION_HASH: &str = "kutter.io/configuration-hash";

/// On a workload: the hash that was taken in last. The template has it unless somebody has changed that since.
pub const CONFIGURATION_APPLIED: &str = "kutter.io/configuration-applied";

/// On a Pod: how much its deletion costs, compared with other Pods of its workload. Kubernetes' own.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// On a copy of a ResourceDistribution: the hexadecimal SHA-256 of `spec.resource`, byte for byte as the API
/// server delivered it. Clients compare it with the hash of what they read.
pub const DISTRIBUTED_HASH: &str = "kruise.io/resourcedistribution.resource.hashcode";

/// On a copy of a ResourceDistribution: the ResourceDistribution's name.
pub const DISTRIBUTED_FROM: &str = "kruise.io/resourcedistribution.resource.from";

/// On a copy of a ResourceDistribution: JSON of the keys of the labels and annotations that it has from
/// `spec.resource`, so that those which are taken out there go from the copy too. OpenKruise never writes it.
pub const DISTRIBUTED_METADATA: &str = "kutter.io/resourcedistribution-metadata";

/// On an ImagePullJob or ImageListPullJob: a list of `label:KEY`, `label:KEY=VALUE` and `condition:TYPE=STATUS`. A Node
/// pulls once all of them hold there. Not known to OpenKruise.
pub const PULL_WHEN: &str = "kutter.io/pull-when";

/// On a copy of a pull Secret: namespace and name of the Secret that it is a copy of.
pub const PULL_SECRET_SOURCE: &str = "imagepulljobs.kruise.io/source-key";

/// On a copy of a pull Secret: the ImagePullJobs that use it, `namespace/name` with commas between them.
pub const PULL_SECRET_REFERENCES: &str = "imagepulljobs.kruise.io/references";

/// On a copy of a pull Secret: `batch` where several ImagePullJobs may share it.
pub const PULL_SECRET_MODE: &str = "imagepulljobs.kruise.io/mode";

/// On a claim that an Advanced StatefulSet has enlarged: the name of the StatefulSet.
pub const OWNED_BY_ASTS: &str = "apps.kruise.io/owned-by-asts";

/// On a StatefulSet or a workload like it: `true` asks for a PersistentPodState of its name.
pub const AUTO_GENERATE_PERSISTENT_POD_STATE: &str = "kruise.io/auto-generate-persistent-pod-state";

/// On the same: keys of node labels, with commas between them, that the next node of a Pod must have in common with the
/// last one.
pub const REQUIRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/required-persistent-topology";

/// On the same: keys of node labels that the next node should have in common with the last one.
pub const PREFERRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";

/// On the same: keys of Pod annotations that are remembered.
pub const PERSISTENT_POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// On a Pod: the PersistentPodState by which it was steered to its last node or topology.
pub const INJECTED_PERSISTENT_POD_STATE: &str = "kruise.io/injected-persistent-pod-state";

/// On a child of an AdvancedCronJob: the tick of the schedule that it was created for, RFC 3339.
pub const SCHEDULED_AT: &str = "apps.kruise.io/scheduled-at";

/// On a workload of a UnitedDeployment: the patch of its subset, as it is written; empty without one.
pub const SUBSET_PATCH: &str = "apps.kruise.io/subset-patch";

/// On any object: the object as `kubectl apply` wrote it last, with which the next one compares.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// On the workload of a Rollout: JSON with the name of the Rollout, while a release is running.
pub const IN_PROGRESSING: &str = "rollouts.kruise.io/in-progressing";

/// On the workload of a Rollout: the identity that its user gives a release. As the label
/// [`ROLLOUT_ID`](crate::labels::ROLLOUT_ID).
pub const ROLLOUT_ID: &str = crate::labels::ROLLOUT_ID;

/// On a v1alpha1 Rollout: `partition` replaces the Pods of the workload, `canary` (the default) runs new Pods in a
/// second Deployment. On a v1alpha1 BatchRelease: its style in small letters.
pub const ROLLING_STYLE: &str = "rollouts.kruise.io/rolling-style";

/// On a Rollout: `true` rolls back by steps.
pub const ROLLBACK_IN_BATCH: &str = "rollouts.kruise.io/rollback-in-batch";

/// On a Rollout: the name of the TrafficRouting by which traffic follows its releases.
pub const ROLLOUT_TRAFFIC_ROUTING: &str = "rollouts.kruise.io/trafficrouting";

/// On a Rollout: the hash of its strategy without `paused`, pauses and thresholds.
pub const ROLLOUT_HASH: &str = "rollouts.kruise.io/hash";

/// On a workload: JSON of the owner reference to the BatchRelease that holds it.
pub const BATCH_RELEASE_CONTROL: &str = "batchrelease.rollouts.kruise.io/control-info";

/// On a Deployment: JSON of how Kutter rolls it in place of Kubernetes' own controller. Its `partition` is how many
/// Pods to update.
pub const DEPLOYMENT_STRATEGY: &str = "rollouts.kruise.io/deployment-strategy";

/// On the same: JSON of what the status of a Deployment lacks: `updatedReadyReplicas` and `expectedUpdatedReplicas`.
pub const DEPLOYMENT_EXTRA_STATUS: &str = "rollouts.kruise.io/deployment-extra-status";

/// On the workload of a blue-green release: JSON of its settings before the release.
pub const ORIGINAL_DEPLOYMENT_STRATEGY: &str = "rollouts.kruise.io/original-deployment-strategy";

/// On a DaemonSet, of either group: JSON of `stable-revision` and `canary-revision` of its release.
pub const DAEMONSET_REVISION: &str = "rollouts.kruise.io/daemonset-revision";

/// On a DaemonSet of Kubernetes: JSON of how far its release is: `partition` (how many Pods to keep old) and `batch-revision`.
pub const DAEMONSET_ADVANCED_CONTROL: &str = "rollouts.kruise.io/daemonset-advanced-control";

/// On the same: the type of its update strategy before the release.
pub const DAEMONSET_ORIGINAL_UPDATE_STRATEGY: &str = "rollouts.kruise.io/daemonset-original-update-strategy";

/// On a network object: JSON of its spec, labels and annotations before the release.
pub const ORIGINAL_SPEC_CONFIGURATION: &str = "rollouts.kruise.io/original-spec-configuration";

/// On a Rollout: after how many seconds without a further new Pod its release counts as stalled. Not known to OpenKruise.
pub const ROLLOUT_DEADLINE_SECONDS: &str = "kutter.io/rollout-deadline-seconds";

/// On a Rollout: after how many seconds without a further new Pod its release rolls itself back. Not known to OpenKruise.
pub const ROLLBACK_AFTER_SECONDS: &str = "kutter.io/rollback-after-seconds";

/// On a Rollout: the share of the new Pods, such as `20%`, of which more must fail before its release rolls itself back.
/// Not known to OpenKruise.
pub const ROLLBACK_FAILURE_SHARE: &str = "kutter.io/rollback-failure-share";

/// On a network object: a JSON object from each Rollout or TrafficRouting that has changed it to what it was made of it.
/// Not known to OpenKruise.
pub const RELEASED_NETWORK: &str = "kutter.io/released-network";

/// On a CloneSet, StatefulSet or DaemonSet that is released: identity of the release and number of its batch, as in
/// `7d6f/3`, which Pods that become new get as labels. Not known to OpenKruise.
pub const ROLLOUT_BATCH: &str = "kutter.io/rollout-batch";

/// On a workload that is released in batches: JSON of the partition that the release holds. Not known to OpenKruise.
pub const HELD_PARTITION: &str = "kutter.io/held-partition";

/// On a BatchRelease: the UID of its workload. Not known to OpenKruise.
pub const RELEASED_WORKLOAD: &str = "kutter.io/released-workload";

/// On a HorizontalPodAutoscaler that a release holds: JSON of its `spec.behavior` before. Not known to OpenKruise.
pub const BEHAVIOR_BEFORE_RELEASE: &str = "kutter.io/behavior-before-release";
