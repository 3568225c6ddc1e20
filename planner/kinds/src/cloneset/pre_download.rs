//! Pulling the images of the update revision before Pods are updated to it.

use api::kinds::shared::IntOrString;

use super::counting::{is_on_delete, replicas};
use super::update::policy;
use super::working::Working;
use crate::workload::action::Action;
use crate::workload::pre_download::{self, PreDownloadSettings, is_worthwhile};
use values::percent::{Rounding, scaled};

/// What to do about ImagePullJobs.
pub(super) fn plan(working: &Working<'_>) -> Vec<Action> {
    let set = working.set();
    let strategy = &set.spec.update_strategy.rolling_update.in_place_update_strategy;
    let settings = PreDownloadSettings::of_strategy(strategy);
    let (revisions, ready) = ((working.current, working.update), set.status.updated_ready_replicas);
    pre_download::from_one_revision(working.snapshot, revisions, &settings, ready, || {
        is_worthwhile_for(working)
    })
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
