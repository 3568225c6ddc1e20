//! Which changes are looked at (docs/behaviour/uniteddeployment.md#what-starts-a-look).

use api::kinds::uniteddeployment::UnitedDeployment;
use api::labels::{RESERVED_POD, SUBSET_NAME, UNITED_REVISION};

use super::children::Child;
use crate::pod::observed::ObservedPod;

/// Whether a UnitedDeployment that has changed is to be looked at: it is new, is gone, or says something else.
pub fn of_united(old: Option<&UnitedDeployment>, new: Option<&UnitedDeployment>) -> bool {
    let said = |united: &UnitedDeployment| {
        let metadata = &united.metadata;
        (metadata.uid.clone(), metadata.generation, metadata.deletion_timestamp.is_some())
    };
    old.map(said) != new.map(said)
}

/// Whether a change of a workload is one that a plan reads.
pub fn of_child(old: Option<&Child>, new: Option<&Child>) -> bool {
    let said = |child: &Child| Child { resource_version: "".into(), ..child.clone() };
    old.map(said) != new.map(said)
}

/// Namespace and subset of a Pod that has changed in what a plan reads.
pub fn of_pod<'p>(old: Option<&'p ObservedPod>, new: Option<&'p ObservedPod>) -> Option<(&'p str, &'p str)> {
    let said = |pod: &ObservedPod| {
        let label = |key| pod.label(key).map(str::to_owned);
        let refused = pod.condition("PodScheduled").map(|scheduled| scheduled.reason.clone());
        (
            pod.metadata.uid.clone(),
            label(SUBSET_NAME),
            label(UNITED_REVISION),
            label(RESERVED_POD),
            pod.metadata.deletion_timestamp.is_some(),
            pod.status.phase.clone(),
            pod.is_ready(),
            (refused, pod.spec.node_name.is_empty()),
        )
    };
    let pod = new.or(old)?;
    let news = old.map(said) != new.map(said);
    news.then(|| Some((&*pod.metadata.namespace, pod.label(SUBSET_NAME)?))).flatten()
}
