//! Which subset a Pod belongs to that runs already, without the mark of this WorkloadSpread
//! (docs/behaviour/workloadspread.md#pods-that-were-there-before).

use api::annotations::{IGNORE_PATCH_EXISTING_PODS_METADATA, MATCHED_WORKLOADSPREAD};
use api::kinds::workloadspread::Subset;
use api::raw_object::{RawNode, RawObject};
use serde::Deserialize;
use serde_json::Value;

use super::record::Matched;
use super::spread::Spread;
use pod::node_fit::{Node, Placement, PreferredTerm, Taint, Term, Toleration};
use values::canonical::table;
use values::strategic_merge;

/// The taint of a Node that takes no new Pods for a while. Those that run there stay.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// A Pod without a mark, and the Node that runs it.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The Pod as JSON.
    pub pod: &'a str,
    /// Its Node.
    pub node: Node<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodPlacement {
    spec: Placement,
}

/// The position of the subset that suits a Pod best; `free` says of each subset whether it has slots left.
pub(super) fn best_subset(spread: &Spread, candidate: &Candidate<'_>, free: &[bool]) -> Option<usize> {
    let pod: PodPlacement = serde_json::from_str(candidate.pod).unwrap_or_default();
    let mut best: Option<(i64, usize)> = None;
    for (position, subset) in spread.subsets().iter().enumerate() {
        let rules = Rules::of(subset);
        if !rules.admit(&pod.spec, &candidate.node) {
            continue;
        }
        let weights: i64 = rules
            .preferred
            .iter()
            .filter(|term| term.preference.matches(&candidate.node))
            .map(|term| i64::from(term.weight))
            .sum();
        let score = 100 * weights
            + 10 * i64::from(is_patched(candidate.pod, subset))
            + i64::from(free.get(position) == Some(&true));
        if best.is_none_or(|(best, _)| score > best) {
            best = Some((score, position));
        }
    }
    best.map(|(_, position)| position)
}

/// What a subset says about Nodes.
struct Rules {
    tolerations: Vec<Toleration>,
    required: Option<Term>,
    preferred: Vec<PreferredTerm>,
}

impl Rules {
    fn of(subset: &Subset) -> Self {
        // What can't be read says nothing; the schema lets nothing of the kind in.
        Self {
            tolerations: subset
                .tolerations
                .iter()
                .filter_map(|raw| serde_json::from_str(raw.get()).ok())
                .collect(),
            required: subset
                .required_node_selector
                .as_ref()
                .and_then(|raw| serde_json::from_str::<Term>(raw.get()).ok())
                .filter(|term| !term.is_empty()),
            preferred: subset
                .preferred_node_selector
                .iter()
                .filter_map(|raw| serde_json::from_str(raw.get()).ok())
                .collect(),
        }
    }

    fn admit(&self, pod: &Placement, node: &Node<'_>) -> bool {
        let tolerated = |taint: &Taint| {
            let tolerations = pod.tolerations.iter().flatten().chain(&self.tolerations);
            tolerations.into_iter().any(|toleration| toleration.tolerates(taint))
        };
        let counts =
            |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute") && &*taint.key != CORDON;
        if !node.taints.iter().filter(counts).all(tolerated) {
            return false;
        }
        let Some(term) = &self.required else { return true };
        let own = pod.required();
        term.matches(node) && (own.is_empty() || own.iter().any(|own| own.holds(node)))
    }
}

/// Whether the patch of a subset would change nothing of a Pod but annotations.
fn is_patched(pod: &str, subset: &Subset) -> bool {
    let Some(patch) = subset.patch.as_ref().filter(|patch| !patch.is_null()) else { return true };
    let Ok(merged) = strategic_merge::merge(pod, patch.get(), &table::POD_TEMPLATE_SPEC) else {
        return false;
    };
    let compared = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("annotations");
        }
        value
    };
    compared(pod) == compared(&merged)
}

/// The patch of `metadata` that makes a running Pod a member of a subset. What the subset's patch says of `spec`
/// is for new Pods only.
pub(super) fn metadata<'s>(spread: &Spread, subset: &'s Subset) -> RawObject<'s> {
    let ignored = spread.object().metadata.annotations.get(IGNORE_PATCH_EXISTING_PODS_METADATA);
    let ignored = ignored.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let patch =
        subset.patch.as_ref().filter(|_| !ignored).map(|patch| RawNode::from_raw(patch.as_raw_value()));
    let patched = patch.and_then(RawNode::into_object).and_then(|mut patch| patch.remove("metadata"));
    let mut metadata = patched.and_then(RawNode::into_object).unwrap_or_default();
    let matched = Matched { name: spread.name().to_owned(), subset: subset.name.clone(), uid: String::new() };
    metadata.edit_object("annotations", |annotations| {
        annotations.insert(MATCHED_WORKLOADSPREAD, RawNode::string(&matched.to_json()));
    });
    metadata
}
