//! Pulling the images of the update revision before Pods are updated to it.

use api::kinds::cloneset::{API_VERSION, KIND};
use api::kinds::shared::IntOrString;
use api::labels::CONTROLLER_HASH;

use super::counting::{is_on_delete, replicas};
use super::update::policy;
use super::working::Working;
use crate::workload::action::Action;
use crate::workload::owner::Owner;
use crate::workload::pre_download::{self, PreDownloadSettings, Rollout, is_worthwhile};
use values::percent::{Rounding, scaled};

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    let set = working.set();
    if !pre_download::is_enabled(working.snapshot) {
        return Vec::new();
    }
    let (current, update) = (working.current, working.update);
    if current.name() == update.name() {
        return pre_download::clear(working.snapshot.children);
    }
    let strategy = &set.spec.update_strategy.rolling_update.in_place_update_strategy;
    let is_known = set.status.update_revision == update.name();
    let rollout = Rollout {
        owner: Owner::of(API_VERSION, KIND, &set.metadata),
        namespace: &set.metadata.namespace,
        selector: &set.spec.selector,
        hash_label: CONTROLLER_HASH,
        old: &[current],
        update,
        settings: &PreDownloadSettings::of_strategy(strategy),
        updated_ready: if is_known { set.status.updated_ready_replicas } else { 0 },
        worthwhile: is_worthwhile_for(working),
    };
    // A template that can't be read is told of where Pods are updated.
    pre_download::plan(&rollout).unwrap_or_default()
}

fn is_worthwhile_for(working: &Working<'_>) -> bool {
    let spec = &working.set().spec;
    let in_place = !is_on_delete(spec) && policy(working, working.update).is_possible_from(working.current);
    let replicas = replicas(spec);
    let default = IntOrString::String("20%".to_owned());
    let unavailable = spec.update_strategy.rolling_update.max_unavailable.as_ref().unwrap_or(&default);
    let unavailable = scaled(unavailable, replicas, Rounding::Down).unwrap_or(0);
    let partition = i32::try_from(working.limits.partition).unwrap_or(i32::MAX);
    is_worthwhile(replicas, partition, unavailable, in_place)
}
