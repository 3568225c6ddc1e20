//! Metrics of SidecarSets.

use api::labels::NAMESPACE_NAME;
use api::sidecarset::{SidecarContainerFields, SidecarSet};
use values::percent;

use super::samples::{
    About, Labelled, Table, annotations, count, created, generation, labelled, labels, number, observed,
    only, partition, partitions, strategies,
};

pub(crate) static TABLE: Table<SidecarSet> = Table {
    kind: "sidecarset",
    about: |set| About {
        namespace: "",
        name: set.name(),
        created: set.metadata.creation_timestamp.as_deref(),
        generation: set.metadata.generation,
    },
    rows: &[
        created("kruise_sidecarset_created"),
        generation("kruise_sidecarset_spec_metadata_generation"),
        annotations("kruise_sidecarset_annotations"),
        labels("kruise_sidecarset_labels"),
        labelled(
            "kruise_sidecarset_spec_namespcace",
            "1 for the namespace that the SidecarSet is for, where its selector names one.",
            &["namespace"],
            |set| namespace(set).into_iter().flat_map(only).collect(),
        ),
        strategies("kruise_sidecarset_spec_strategy_type", |set| {
            let kind = &set.spec.update_strategy.kind;
            only(if kind.is_empty() { "RollingUpdate".to_owned() } else { kind.clone() })
        }),
        partitions("kruise_sidecarset_spec_strategy_partition", |set| {
            let value = set.spec.update_strategy.partition.as_ref();
            partition(value, percent::partition(value, matched(set)).into())
        }),
        number(
            "kruise_sidecarset_spec_strategy_rollingupdate_max_unavailable",
            "Pods that may be unavailable during an update.",
            |set| {
                let value = set.spec.update_strategy.max_unavailable.as_ref();
                Some(percent::sidecarset_max_unavailable(value, matched(set)).into())
            },
        ),
        labelled(
            "kruise_sidecarset_spec_containers_injectpolicy",
            "1 for where each container is put among those of the Pod.",
            &["injectpolicy", "container"],
            |set| by_container(set, |fields| &fields.pod_inject_policy),
        ),
        labelled(
            "kruise_sidecarset_spec_containers_strategy_type",
            "1 for how each container is updated.",
            &["strategy_type", "container"],
            |set| by_container(set, |fields| &fields.upgrade_strategy.upgrade_type),
        ),
        labelled(
            "kruise_sidecarset_spec_containers_strategy_hotupgradeemptyimage",
            "1 for the image of each container's idle twin.",
            &["hotupgradeemptyimage", "container"],
            |set| by_container(set, |fields| &fields.upgrade_strategy.hot_upgrade_empty_image),
        ),
        labelled(
            "kruise_sidecarset_spec_containers_volumepolicy",
            "1 for whether each container shares the volume mounts of the Pod.",
            &["volumepolicy", "container"],
            |set| by_container(set, |fields| &fields.share_volume_policy.kind),
        ),
        number("kruise_sidecarset_status_replicas_matched", "Pods of the SidecarSet.", |set| {
            Some(matched(set).into())
        }),
        number("kruise_sidecarset_status_replicas_updated", "Pods with the newest sidecars.", |set| {
            Some(set.status.updated_pods.into())
        }),
        number("kruise_sidecarset_status_replicas_ready", "Pods that are ready.", |set| {
            Some(set.status.ready_pods.into())
        }),
        number(
            "kruise_sidecarset_status_replicas_updated_ready",
            "Pods with the newest sidecars that are ready.",
            |set| count(set.status.updated_ready_pods),
        ),
        observed("kruise_sidecarset_status_observed_generation", |set| set.status.observed_generation),
    ],
};

fn matched(set: &SidecarSet) -> i32 {
    set.status.matched_pods
}

/// What `spec.namespace` of v1alpha1 is since.
fn namespace(set: &SidecarSet) -> Option<String> {
    set.spec.namespace_selector.as_ref()?.match_labels.as_ref()?.get(NAMESPACE_NAME).cloned()
}

fn by_container(set: &SidecarSet, word: fn(&SidecarContainerFields) -> &String) -> Vec<Labelled> {
    let containers = set.spec.containers.iter();
    containers.map(|one| (vec![word(&one.fields).clone(), one.name().to_owned()], 1)).collect()
}
