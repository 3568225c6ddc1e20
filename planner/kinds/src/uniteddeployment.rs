//! Decides what to do about a UnitedDeployment: which workload each of its subsets has, and how many Pods each gets
//! (docs/behaviour/uniteddeployment.md).
//!
//! ```text
//!   children    the workloads of subsets, as they are     template    the workloads as they are to be
//!   rollout     how they replace Pods                     found       which of them serves which subset
//!   allocation  how many Pods each subset gets            adaptive    which subsets have no capacity for theirs
//!   revision    what a ControllerRevision records         normal      specs without what says nothing
//!   scene       all of it together                        plan        what to do
//!   kind        what runs the Pods of subsets             snapshot    what a plan is made from
//!   status      what is reported                          explanation why it is so, for people
//!   defaulting, validation      of the object             trigger     whom a change concerns
//! ```

pub mod children;
pub mod defaulting;
pub mod explanation;
pub mod plan;
pub mod rollout;
pub mod template;
pub mod trigger;
pub mod validation;

mod adaptive;
mod allocation;
mod kind;
mod normal;
mod revision;
mod scene;
mod snapshot;
mod status;
mod subset_workloads;

use api::kinds::shared::ScheduleStrategyType;
use api::kinds::uniteddeployment::{AdaptiveStrategy, Spec};

pub use status::{Draft, Failure, StatusWrite};

/// Pods wanted where the UnitedDeployment does not say.
const REPLICAS: i32 = 1;

/// How Pods without capacity are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// They wait.
    Fixed,
    /// Later subsets get them for good.
    Adaptive,
    /// They wait, and later subsets have temporary ones meanwhile.
    Reserving,
}

fn strategy(spec: &Spec) -> Strategy {
    let strategy = &spec.topology.schedule_strategy;
    if strategy.kind != Some(ScheduleStrategyType::Adaptive) {
        return Strategy::Fixed;
    }
    let reserves = strategy.adaptive.as_ref().is_some_and(|adaptive| adaptive.reserve_unschedulable_pods);
    if reserves { Strategy::Reserving } else { Strategy::Adaptive }
}

/// Seconds that a Pod may wait for capacity, and seconds that a subset is not trusted after that.
fn durations(spec: &Spec) -> (i32, i32) {
    let adaptive: Option<&AdaptiveStrategy> = spec.topology.schedule_strategy.adaptive.as_ref();
    let critical = adaptive.and_then(|adaptive| adaptive.reschedule_critical_seconds);
    let duration = adaptive.and_then(|adaptive| adaptive.unschedulable_duration);
    (critical.unwrap_or(30), duration.unwrap_or(300))
}
