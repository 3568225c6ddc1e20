//! How many Pods each subset gets (docs/behaviour/uniteddeployment.md#allocation).

use std::collections::BTreeMap;

use api::kinds::shared::IntOrString;
use api::kinds::uniteddeployment::{Spec, Subset};

use super::{REPLICAS, Strategy, strategy};
use values::percent::{Rounding, scaled};

#[cfg(test)]
mod tests;

/// What is known of a subset that has a workload, or is not trusted without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Present {
    /// Pods that its workload is to have.
    pub(super) replicas: i32,
    /// Pods that are ready.
    pub(super) ready: i32,
    /// Pods that wait for capacity, or are not trusted yet.
    pub(super) reserved: i32,
    /// It has no capacity for all of its Pods.
    pub(super) is_unschedulable: bool,
    /// The stored status already marked it as unschedulable.
    pub(super) was_marked: bool,
}

/// How many Pods each subset gets.
pub(super) type Shares = BTreeMap<String, i32>;

/// Divides the replicas.
///
/// # Errors
/// Why they can't be divided so.
pub(super) fn allocate(spec: &Spec, present: &BTreeMap<&str, Present>) -> Result<Shares, String> {
    let total = spec.replicas.unwrap_or(REPLICAS).max(0);
    let subsets = &spec.topology.subsets;
    match strategy(spec) {
        Strategy::Reserving => Ok(reserve(&bounds(subsets, total)?, total, present)),
        Strategy::Adaptive => {
            let adapted = bounds(subsets, total)?.into_iter().map(|bounds| adapt(bounds, present));
            Ok(fill(&adapted.collect::<Vec<_>>(), total))
        }
        Strategy::Fixed if subsets.iter().any(is_elastic) => Ok(fill(&bounds(subsets, total)?, total)),
        Strategy::Fixed => divide(subsets, total, present),
    }
}

/// A subset says between which numbers its Pods are.
pub(super) fn is_elastic(subset: &Subset) -> bool {
    subset.min_replicas.is_some() || subset.max_replicas.is_some()
}

/// A number of Pods, or a share of all; `None` where it can't be read.
pub(super) fn count(value: &IntOrString, total: i32) -> Option<i32> {
    scaled(value, total, Rounding::HalfUp)
}

/// Subsets with shares of their own get these, all others divide the rest.
fn divide(subsets: &[Subset], total: i32, present: &BTreeMap<&str, Present>) -> Result<Shares, String> {
    let mut given: Vec<(&Subset, Option<i32>)> = subsets
        .iter()
        .map(|subset| (subset, subset.replicas.as_ref().and_then(|share| count(share, total))))
        .collect();
    let is_complete = given.iter().all(|(_, share)| share.is_some());
    settle_rounding(&mut given, total, is_complete);
    let sum = given.iter().filter_map(|(_, share)| *share).fold(0_i32, i32::saturating_add);
    if sum > total && !subsets.is_empty() {
        return Err(format!(
            "specified subsets' replica ({sum}) is greater than UnitedDeployment replica ({total})"
        ));
    }
    if is_complete && sum < total && !subsets.is_empty() {
        return Err(format!(
            "specified subsets' replica ({sum}) is less than UnitedDeployment replica ({total})"
        ));
    }
    let mut shares: Shares =
        given.iter().filter_map(|(subset, share)| Some((subset.name.clone(), (*share)?))).collect();
    let mut others: Vec<&str> =
        given.iter().filter(|(_, share)| share.is_none()).map(|(subset, _)| subset.name.as_str()).collect();
    // Those with the most Pods keep them; without any it is the last by name.
    others.sort_by(|one, other| {
        let replicas = |name: &str| present.get(name).map_or(0, |present| present.replicas);
        replicas(other).cmp(&replicas(one)).then_with(|| other.cmp(one))
    });
    let rest = total.saturating_sub(sum);
    let number = i32::try_from(others.len()).unwrap_or(i32::MAX).max(1);
    let (each, mut odd) = (rest / number, rest % number);
    for name in others {
        shares.insert(name.to_owned(), each + i32::from(odd > 0));
        odd -= 1;
    }
    Ok(shares)
}

/// Shares in percent come to some Pods more or less than all, each by its rounding: the last ones of them make up for it.
fn settle_rounding(given: &mut [(&Subset, Option<i32>)], total: i32, is_complete: bool) {
    let sum = given.iter().filter_map(|(_, share)| *share).fold(0_i32, i32::saturating_add);
    let mut excess = sum.saturating_sub(total);
    let is_share = |subset: &Subset| matches!(subset.replicas, Some(IntOrString::String(_)));
    let shares = given.iter().filter(|(subset, _)| is_share(subset)).count();
    let is_rounding = usize::try_from(excess.unsigned_abs()).is_ok_and(|excess| excess < shares);
    if !is_rounding || (excess < 0 && !is_complete) {
        return;
    }
    for (_, share) in given.iter_mut().rev().filter(|(subset, _)| is_share(subset)) {
        let Some(share) = share else { continue };
        let step = excess.signum().min(*share);
        *share -= step;
        excess -= step;
    }
}

/// Between which numbers the Pods of a subset are.
#[derive(Clone, Copy, Debug)]
struct Bounds<'a> {
    name: &'a str,
    least: i32,
    most: i32,
}

fn bounds(subsets: &[Subset], total: i32) -> Result<Vec<Bounds<'_>>, String> {
    let number = |value: &Option<IntOrString>| value.as_ref().and_then(|value| count(value, total));
    let mut all = Vec::new();
    for (index, subset) in subsets.iter().enumerate() {
        let least = number(&subset.min_replicas).unwrap_or(0);
        let most = number(&subset.max_replicas).unwrap_or(i32::MAX);
        if least > most {
            return Err(format!(
                "subset[{index}].maxReplicas({most}) must be more than or equal to minReplicas({least})"
            ));
        }
        all.push(Bounds { name: &subset.name, least: least.max(0), most: most.max(0) });
    }
    Ok(all)
}

/// Each gets its least, in order; then each what it may have, in order.
fn fill(bounds: &[Bounds<'_>], total: i32) -> Shares {
    let mut shares = Shares::new();
    let mut used = 0;
    for subset in bounds {
        let least = subset.least.clamp(0, total - used);
        shares.insert(subset.name.to_owned(), least);
        used += least;
    }
    for subset in bounds {
        let more = (subset.most.saturating_sub(subset.least)).clamp(0, total - used);
        *shares.entry(subset.name.to_owned()).or_default() += more;
        used += more;
    }
    shares
}

/// A subset without capacity keeps the Pods that are ready; one with capacity keeps them too.
fn adapt<'a>(bounds: Bounds<'a>, present: &BTreeMap<&str, Present>) -> Bounds<'a> {
    let Bounds { name, least, most } = bounds;
    match present.get(name) {
        Some(subset) if subset.is_unschedulable => {
            Bounds { name, least: subset.ready.max(least).min(most), most: subset.ready.min(most) }
        }
        Some(subset) if subset.ready > least => Bounds { name, least: subset.ready.min(most), most },
        _ => bounds,
    }
}

/// Pods beyond the capacity of a subset are expected to wait, and later subsets get as many beside.
fn reserve(bounds: &[Bounds<'_>], total: i32, present: &BTreeMap<&str, Present>) -> Shares {
    let mut shares: Shares = bounds.iter().map(|subset| (subset.name.to_owned(), 0)).collect();
    let mut capacities: BTreeMap<String, i64> = BTreeMap::new();
    let mut rest = i64::from(total);
    let mut take = |subset: &Bounds<'_>, to: i32| {
        let capacity =
            capacities.entry(subset.name.to_owned()).or_insert_with(|| match present.get(subset.name) {
                Some(known) if known.is_unschedulable || known.was_marked => {
                    i64::from(known.replicas) - i64::from(known.reserved)
                }
                _ => i64::from(i32::MAX),
            });
        let share = shares.entry(subset.name.to_owned()).or_default();
        let more = i64::from(to.saturating_sub(*share)).clamp(0, rest.max(0));
        *share = share.saturating_add(i32::try_from(more).unwrap_or(i32::MAX));
        *capacity -= more;
        let counted = if *capacity >= 0 { more } else { (more + *capacity).max(0) };
        rest -= counted;
        rest > 0
    };
    let least = bounds.iter().map(|subset| (subset, subset.least));
    let most = bounds.iter().map(|subset| {
        let unschedulable = present.get(subset.name).filter(|known| known.is_unschedulable);
        (subset, unschedulable.map_or(subset.most, |known| known.replicas))
    });
    for (subset, to) in least.chain(most) {
        if !take(subset, to) {
            break;
        }
    }
    shares
}
