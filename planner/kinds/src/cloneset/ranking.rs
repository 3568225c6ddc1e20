//! Which Pods go first when there are too many (docs/behaviour/cloneset.md#order-of-deletion): those that
//! serve least, cost least, and leave the others spread best.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use api::annotations::POD_DELETION_COST;

use super::scale_in_order::ScaleInOrder;
use crate::workload::deletion_order::DeletionOrder;
use crate::workload::member::Member;
use crate::workload::snapshot::Costs;
use pod::node_fit::Nodes;
use pod::observed::ObservedPod;

#[cfg(test)]
mod tests;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// How the Pods of a template are to be spread, and what is said about single ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topology<'a> {
    /// `topologyKey` of each constraint of the template.
    pub(super) keys: &'a [String],
    /// Labels of the nodes by name.
    pub(super) nodes: &'a Nodes,
    /// Costs that are about to be written, by name.
    pub(super) costs: &'a Costs,
    /// Labels of the Pods that go first.
    pub(super) labels: &'a ScaleInOrder,
}

/// The positions in `candidates`, the first to delete first. Pods that no rule distinguishes go by name.
pub(super) fn rank(candidates: &[&Member<'_>], topology: Topology<'_>) -> Vec<usize> {
    let by_node = same_node_ranks(candidates, topology);
    let ranks = if topology.keys.is_empty() { by_node } else { spread_ranks(candidates, &by_node, topology) };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let keys: Vec<Key<'_>> = candidates.iter().map(|member| Key::of(member, topology)).collect();
    let rank_of = |position: usize| ranks.get(position).copied().unwrap_or(0.0);
    order.sort_by(|left, right| match (keys.get(*left), keys.get(*right)) {
        (Some(one), Some(other)) => one.compare(other, true, rank_of(*right).total_cmp(&rank_of(*left))),
        _ => Ordering::Equal,
    });
    order
}

/// What the rules read of a Pod; smaller comes first.
struct Key<'a> {
    deletion_order: DeletionOrder<'a>,
    available: bool,
    label: usize,
    cost: i64,
}

impl<'a> Key<'a> {
    fn of(member: &Member<'a>, topology: Topology<'_>) -> Self {
        let pod = member.pod;
        let label = topology.labels.rank(pod);
        let cost =
            topology.costs.get(&*pod.metadata.name).copied().unwrap_or_else(|| deletion_cost(pod).into());
        Self { deletion_order: DeletionOrder::of(pod), available: member.is_available, label, cost }
    }

    /// Rules 1 to 9; `rank` is rule 6, and rule 3 considers availability only where `availability` says so.
    fn compare(&self, other: &Self, availability: bool, rank: Ordering) -> Ordering {
        let available = |key: &Self| availability && key.available;
        let (one, two) = (&self.deletion_order, &other.deletion_order);
        (one.placed.cmp(&two.placed))
            .then_with(|| available(self).cmp(&available(other)))
            .then_with(|| one.ready.cmp(&two.ready))
            .then_with(|| self.label.cmp(&other.label))
            .then_with(|| self.cost.cmp(&other.cost))
            .then(rank)
            .then_with(|| one.age.cmp(&two.age))
    }
}

/// The annotation's number as Kubernetes reads it; 0 where it is missing or no such number.
fn deletion_cost(pod: &ObservedPod) -> i32 {
    let text = pod.annotation(POD_DELETION_COST).unwrap_or_default();
    let first = text.bytes().next().unwrap_or(b'+');
    let sound = text == "0" || first == b'-' || (b'1'..=b'9').contains(&first);
    if sound { text.parse().unwrap_or(0) } else { 0 }
}

/// Of the Pods of one node the one to keep has rank 0, the first to go the highest.
fn same_node_ranks(candidates: &[&Member<'_>], topology: Topology<'_>) -> Vec<f64> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, member) in candidates.iter().enumerate() {
        let node = &*member.pod.spec.node_name;
        if !node.is_empty() {
            groups.entry(node).or_default().push(position);
        }
    }
    let mut ranks = vec![0.0; candidates.len()];
    for group in groups.values().filter(|group| group.len() > 1) {
        let size = group.len();
        for (index, position) in
            sorted(candidates, group, topology, |_, _| Ordering::Equal).into_iter().enumerate()
        {
            if let Some(rank) = ranks.get_mut(position) {
                *rank = (size - 1 - index) as f64;
            }
        }
    }
    ranks
}

/// The higher, the more Pods share the place with this one, summed over all constraints.
fn spread_ranks(candidates: &[&Member<'_>], by_node: &[f64], topology: Topology<'_>) -> Vec<f64> {
    let mut ranks = vec![0.0; candidates.len()];
    for key in topology.keys {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, member) in candidates.iter().enumerate() {
            let node = topology.nodes.get(&*member.pod.spec.node_name);
            if let Some(value) = node.and_then(|node| node.labels.get(key)) {
                groups.entry(value).or_default().push(position);
            }
        }
        let weight = ((groups.len() + 2) as f64).ln();
        let node_rank = |position: usize| by_node.get(position).copied().unwrap_or(0.0);
        for group in groups.values() {
            let order = sorted(candidates, group, topology, |left, right| {
                if key == HOSTNAME { Ordering::Equal } else { node_rank(right).total_cmp(&node_rank(left)) }
            });
            for (index, position) in order.into_iter().enumerate() {
                if let Some(rank) = ranks.get_mut(position) {
                    *rank += (group.len() - index) as f64 * weight;
                }
            }
        }
    }
    ranks
}

/// The Pods of a group by rules 1, 2, `Ready`, 4, 5, `rank`, 7 to 9.
fn sorted(
    candidates: &[&Member<'_>],
    group: &[usize],
    topology: Topology<'_>,
    rank: impl Fn(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut keyed: Vec<(Key<'_>, usize)> = group
        .iter()
        .filter_map(|position| Some((Key::of(candidates.get(*position)?, topology), *position)))
        .collect();
    keyed.sort_by(|(one, left), (other, right)| one.compare(other, false, rank(*left, *right)));
    keyed.into_iter().map(|(_, position)| position).collect()
}
