//! Deletion costs, by which a workload that is scaled in gives up the right Pods
//! (docs/behaviour/workloadspread.md#deletion-costs).

use std::collections::BTreeMap;
use std::iter::repeat_n;

use api::annotations::POD_DELETION_COST;
use api::kinds::workloadspread::Subset;

use super::spread::{Maximum, maximum};
use crate::workload::deletion_order::DeletionOrder;
use pod::observed::ObservedPod;

/// The active Pods of one version in one subset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'g, 'p> {
    pub(super) pods: &'g [&'p ObservedPod],
    /// The position of the subset; `None` for Pods that belong to none.
    pub(super) subset: Option<usize>,
    /// The most Pods of the subset; `None` where there is no limit.
    pub(super) max: Option<i32>,
    /// The Pods are of the version that the workload wants.
    pub(super) is_latest: bool,
    /// For how many replicas the subset keeps its first Pod, its second and so on, where costs have to hold for fewer
    /// replicas too.
    pub(super) needed: &'g [i32],
}

/// What such a Pod costs, less the replicas from which on it is needed.
const NEEDED: i64 = 1_000_000;
/// Nobody scales further at once.
const FARTHEST: i32 = 100_000;

/// For each subset the smallest number of replicas, up to `replicas`, with which it keeps its first Pod, its second and
/// so on: subsets are filled in their order up to their maximum at that number.
pub(super) fn needed(subsets: &[Subset], replicas: i32) -> Vec<Vec<i32>> {
    let mut needed = vec![Vec::new(); subsets.len()];
    for replicas in 1..=replicas.min(FARTHEST) {
        let mut left = replicas;
        for (subset, needed) in subsets.iter().zip(&mut needed) {
            let kept = match maximum(subset, Some(replicas)) {
                Maximum::Pods(max) => max.min(left),
                Maximum::Unlimited | Maximum::Unknown => left,
            };
            left -= kept;
            needed.resize(needed.len().max(usize::try_from(kept).unwrap_or(0)), replicas);
        }
    }
    needed
}

/// The cost of each Pod of a group, when there are `subsets` subsets. Where each Pod has a cost of its own, one that is
/// written stays as long as some Pod has to have it: else a deleted Pod would change those of all others.
pub(super) fn costs<'p>(group: &Group<'_, 'p>, subsets: usize) -> Vec<(&'p ObservedPod, i64)> {
    let count = i64::try_from(subsets).unwrap_or(i64::MAX / 1000);
    let Some(subset) = group.subset else {
        return group.pods.iter().map(|pod| (*pod, -100 * (count + 1))).collect();
    };
    // An old version leaves the first subset first, while the new one fills it.
    let position = i64::try_from(subset).unwrap_or(0);
    let position = if group.is_latest { position } else { count - 1 - position };
    let mut pods = group.pods.to_vec();
    pods.sort_by(|one, other| DeletionOrder::of(one).cmp(&DeletionOrder::of(other)));
    let max = group.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(0));
    let surplus = pods.len().saturating_sub(max);
    let last = pods.len().saturating_sub(1);
    let cost = |rank: usize| match group.needed.get(last - rank) {
        _ if rank < surplus => -100 * (position + 1),
        Some(replicas) => NEEDED - i64::from(*replicas),
        None => 100 * (count - position),
    };
    // How many Pods are still to get each cost.
    let mut left: BTreeMap<i64, usize> = BTreeMap::new();
    for rank in 0..pods.len() {
        *left.entry(cost(rank)).or_default() += 1;
    }
    let keep = |pod: &&ObservedPod| {
        let written = pod.annotation(POD_DELETION_COST).filter(|_| !group.needed.is_empty())?;
        let cost: i64 = written.parse().ok()?;
        let pods = left.get_mut(&cost)?;
        *pods = pods.checked_sub(1)?;
        Some(cost)
    };
    let kept: Vec<Option<i64>> = pods.iter().map(keep).collect();
    let mut others = left.into_iter().flat_map(|(cost, pods)| repeat_n(cost, pods));
    let costs = pods.into_iter().zip(kept);
    costs.filter_map(|(pod, kept)| Some((pod, kept.or_else(|| others.next())?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pods(count: usize) -> Vec<ObservedPod> {
        let pod = |number: usize| {
            let ready = if number.is_multiple_of(2) { "True" } else { "False" };
            let text = format!(
                r#"{{"metadata":{{"name":"p{number}"}},"spec":{{"nodeName":"n"}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
            );
            ObservedPod::read(&text).unwrap()
        };
        (0..count).map(pod).collect()
    }

    fn of(count: usize, subset: Option<usize>, max: Option<i32>, is_latest: bool) -> Vec<(String, i64)> {
        let pods = pods(count);
        let pods: Vec<&ObservedPod> = pods.iter().collect();
        let group = Group { pods: &pods, subset, max, is_latest, needed: &[] };
        costs(&group, 3).into_iter().map(|(pod, cost)| (pod.metadata.name.to_string(), cost)).collect()
    }

    #[test]
    fn costs_of_three_subsets() {
        for (subset, keep, surplus, old_keep, old_surplus) in
            [(0, 300, -100, 100, -300), (1, 200, -200, 200, -200), (2, 100, -300, 300, -100)]
        {
            for (is_latest, keep, surplus) in [(true, keep, surplus), (false, old_keep, old_surplus)] {
                assert_eq!(of(1, Some(subset), None, is_latest), [("p0".to_owned(), keep)]);
                let costs = of(2, Some(subset), Some(1), is_latest);
                assert_eq!(
                    costs,
                    [("p1".to_owned(), surplus), ("p0".to_owned(), keep)],
                    "the worst is surplus"
                );
            }
        }
        assert_eq!(of(1, None, None, true), [("p0".to_owned(), -400)]);
    }

    proptest! {
        #[test]
        fn what_is_kept_costs_more_than_what_is_too_much(
            count in 0..8_usize, subset in 0..3_usize, max in 0..8, is_latest: bool,
        ) {
            let costs = of(count, Some(subset), Some(max), is_latest);
            let kept = costs.iter().filter(|(_, cost)| *cost > 0).count();
            prop_assert_eq!(kept, count.min(max as usize));
            let none = of(1, None, None, is_latest)[0].1;
            prop_assert!(costs.iter().all(|(_, cost)| *cost > none && cost % 100 == 0 && *cost != 0));
        }
    }
}
