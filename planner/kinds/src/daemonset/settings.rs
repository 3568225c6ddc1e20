//! What a DaemonSet asks for, as numbers of Nodes (docs/behaviour/daemonset.md#numbers).

use api::kinds::daemonset::{RollingUpdateType, Spec};
use api::kinds::shared::{IntOrString, UpdateStrategyType};

use values::percent::{Rounding, scaled};
use values::selector::Selector;

/// Pods that are created, deleted or updated in place by one plan where the DaemonSet does not say.
const BURST: usize = 250;

/// What a DaemonSet asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pods are updated when somebody deletes them.
    pub on_delete: bool,
    /// No update begins; all else continues.
    pub paused: bool,
    /// Pods are updated in place where that is possible.
    pub in_place: bool,
    /// So many Nodes may be without an available Pod during an update; at least 1 where `max_surge` is 0.
    pub max_unavailable: usize,
    /// So many Nodes may have an old and a new Pod at the same time; 0 by default.
    pub max_surge: usize,
    /// A Node may have an old and a new Pod at the same time.
    pub surges: bool,
    /// So many Nodes stay at older revisions.
    pub partition: usize,
    /// So many Nodes stay without a Pod.
    pub(crate) unpopulated: Option<usize>,
    /// The Nodes whose Pods are updated; all where there is none.
    pub(crate) selector: Option<Selector>,
    pub(crate) burst: usize,
    /// Seconds that a Pod must be ready to count as available; 0 by default.
    pub min_ready_seconds: i32,
    /// What is written so that nothing can be updated.
    pub(crate) problem: Option<String>,
}

impl Settings {
    /// The numbers that `spec` means, where `desired` Nodes are to have a Pod.
    pub fn of(spec: &Spec, desired: usize) -> Self {
        let rolling = &spec.update_strategy.rolling_update;
        let on_delete = spec.update_strategy.kind == Some(UpdateStrategyType::OnDelete);
        let total = i32::try_from(desired).unwrap_or(i32::MAX);
        let mut problem = None;
        let mut count = |name: &str, value: Option<&IntOrString>, total: i32, rounding| {
            let Some(value) = value else { return 0 };
            let number = scaled(value, total, rounding);
            if number.is_none() {
                let text = match value {
                    IntOrString::Int(number) => number.to_string(),
                    IntOrString::String(text) => text.clone(),
                };
                problem.get_or_insert(format!(
                    "updateStrategy.rollingUpdate.{name} {text:?} is no number of nodes"
                ));
            }
            usize::try_from(number.unwrap_or(0)).unwrap_or(0)
        };
        let max_surge = count("maxSurge", rolling.max_surge.as_ref(), total, Rounding::Up);
        let surges = !on_delete && count("maxSurge", rolling.max_surge.as_ref(), 1, Rounding::Up) > 0;
        let max_unavailable = count("maxUnavailable", rolling.max_unavailable.as_ref(), total, Rounding::Up);
        let partition = count("partition", rolling.partition.as_ref(), total, Rounding::Down);
        let selector = rolling.selector.as_ref().map(Selector::compile);
        let selector = match selector.transpose() {
            Ok(selector) => selector,
            Err(error) => {
                problem
                    .get_or_insert(format!("updateStrategy.rollingUpdate.selector can't be used: {error}"));
                None
            }
        };
        let limits_creation = spec.scale_strategy.partitioned_scaling && !on_delete && partition > 0;
        Self {
            on_delete,
            paused: rolling.paused,
            in_place: rolling.rolling_update_type == Some(RollingUpdateType::InPlaceIfPossible),
            max_unavailable: if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable },
            max_surge,
            surges,
            partition,
            unpopulated: limits_creation.then(|| partition.min(desired)),
            selector,
            burst: burst(spec.burst_replicas.as_ref(), total),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0).max(0),
            problem: problem.filter(|_| !on_delete),
        }
    }
}

/// A share of few Nodes is at least one, or nothing would ever be done. What can't be read counts as not set.
fn burst(value: Option<&IntOrString>, total: i32) -> usize {
    let number = value.and_then(|value| match value {
        IntOrString::Int(number) => Some(*number),
        share @ IntOrString::String(_) => {
            let is_positive = scaled(share, i32::MAX, Rounding::Down)? > 0;
            scaled(share, total, Rounding::Down).map(|number| number.max(i32::from(is_positive)))
        }
    });
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(BURST)
}
