//! Subsets of a StatefulSet's Pods: by their ordinals, not by counting
//! (docs/behaviour/workloadspread.md#statefulsets).

use api::kinds::workloadspread::Subset;

use super::spread::{Maximum, Spread, is_schedulable, maximum};

/// The subset of the Pod with this name. A subset whose Pods find no node is passed over, and those behind it move
/// up.
pub(crate) fn subset_of<'s>(spread: &'s Spread, pod: &str) -> Option<&'s Subset> {
    let ordinal = ordinal(pod);
    let statuses = &spread.object().status.subset_statuses;
    let mut limit = 0_i64;
    spread.subsets().iter().find(|subset| {
        let status = statuses.iter().find(|status| status.name == subset.name);
        if !status.is_none_or(is_schedulable) {
            return false;
        }
        limit += match maximum(subset, None) {
            Maximum::Pods(max) => i64::from(max),
            // Validation refuses shares here.
            Maximum::Unlimited | Maximum::Unknown => i64::from(i32::MAX),
        };
        ordinal < limit
    })
}

/// The digits behind the last `-`; -1 where there are none.
fn ordinal(name: &str) -> i64 {
    let digits = name.rsplit_once('-').map_or("", |(_, digits)| digits);
    let sound = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if sound { digits.parse().unwrap_or(i64::MAX) } else { -1 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scenario_20_ordinals_fill_the_subsets_in_their_order() {
        let spread = |unschedulable: &str| {
            let condition = json!([{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable"}]);
            let object = json!({"metadata": {"name": "ws"}, "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                "subsets": [{"name": "a", "maxReplicas": 2}, {"name": "b", "maxReplicas": 1}, {"name": "c"}]},
                "status": {"subsetStatuses": [{"name": unschedulable, "replicas": 0, "missingReplicas": 0, "conditions": condition}]}});
            Spread::read(&object.to_string()).unwrap()
        };
        let placed = |spread: &Spread| -> Vec<String> {
            let subset =
                |ordinal: i32| subset_of(spread, &format!("db-{ordinal}")).map_or("", |subset| &subset.name);
            (0..5).map(|ordinal| subset(ordinal).to_owned()).collect()
        };
        assert_eq!(placed(&spread("none")), ["a", "a", "b", "c", "c"]);
        assert_eq!(placed(&spread("a")), ["b", "c", "c", "c", "c"]);
        assert_eq!(subset_of(&spread("none"), "db").unwrap().name, "a", "without an ordinal it is the first");
    }
}
