//! Spreads the Pods of one label value over the order of an update
//! (docs/behaviour/in-place-update.md#scatter).

use super::Term;
use pod::observed::ObservedPod;

/// Places the waiting Pods that match `term` as evenly among the others as they are among `all`. The order
/// within both groups stays; the last that matches is put at the very end.
pub(super) fn spread<'p>(
    waiting: Vec<(usize, &'p ObservedPod)>,
    all: &[&ObservedPod],
    term: &Term,
) -> Vec<(usize, &'p ObservedPod)> {
    let (mut matching, others): (Vec<_>, Vec<_>) =
        waiting.iter().copied().partition(|(_, pod)| term.matches(pod));
    if matching.len() <= 1 || others.len() <= 1 {
        return waiting;
    }
    let total_matching = all.iter().filter(|pod| term.matches(pod)).count();
    let total_others = all.len().saturating_sub(total_matching);
    let last = matching.pop();
    let total_matching = total_matching.saturating_sub(1);
    let sizes = (matching.len(), others.len());
    // Ratios are compared as products, which are exact.
    let groups = if total_others.saturating_mul(sizes.0) >= sizes.1.saturating_mul(total_matching) {
        let (part, rest) = group(sizes.0, sizes.1);
        Groups { count: sizes.0.min(sizes.1), part, rest, ahead: 0 }
    } else {
        let (part, rest) = group(total_matching, total_others);
        let count = (sizes.0 / part).min(sizes.1 / rest);
        Groups { count, part, rest, ahead: sizes.1.saturating_sub(count.saturating_mul(rest)) }
    };
    let (mut matching, mut others) = (matching.into_iter(), others.into_iter());
    let mut spread: Vec<_> = others.by_ref().take(groups.ahead).collect();
    for _ in 0..groups.count {
        spread.extend(matching.by_ref().take(groups.part));
        spread.extend(others.by_ref().take(groups.rest));
    }
    spread.extend(matching.chain(others).chain(last));
    spread
}

/// The order as `ahead` others, then `count` times `part` that match and `rest` others.
struct Groups {
    count: usize,
    part: usize,
    rest: usize,
    ahead: usize,
}

/// How many of each kind come to one of as many groups as the smaller kind has members, at least one.
fn group(matching: usize, others: usize) -> (usize, usize) {
    let groups = matching.min(others).max(1);
    // Half a Pod is rounded up.
    let size =
        |count: usize| (count.saturating_mul(2).saturating_add(groups) / groups.saturating_mul(2)).max(1);
    (size(matching), size(others))
}
