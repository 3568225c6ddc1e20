//! Terms of others in the selectors of namespaces, which stay because they only narrow
//! (docs/behaviour/api-and-registration.md#terms-of-others). AKS keeps all webhooks away from its own namespaces, and puts
//! its terms back as often as somebody takes them out:
//!
//! ```text
//!   - {key: control-plane, operator: NotIn, values: ["true"]}
//!   - {key: kubernetes.azure.com/managedby, operator: NotIn, values: [aks]}
//! ```
//!
//! Invariants:
//! 1. Every term of ours is there.
//! 2. A selector with all terms of ours, and beside them terms of others alone, stays as it is, in whatever order: AKS
//!    decides where its terms stand.
//! 3. What users chose before is no term of others: it goes with their choice.

use api::labels::CONTROL_PLANE;
use api::meta::{LabelSelector, LabelSelectorRequirement};

use super::entry::Webhook;
use super::{Choices, Configuration};

/// The label of what AKS manages.
const MANAGED_BY: &str = "kubernetes.azure.com/managedby";
/// On a configuration, `true`: its entries have the terms of AKS from the start. The chart sets it.
const AKS_INTEGRATION: &str = "kutter.io/aks-integration";

/// What a configuration says about terms beside those that its entries are wanted with.
pub(super) struct Narrowing {
    /// What users chose when it was written last.
    chosen_before: Choices,
    aks_integration: bool,
}

impl Narrowing {
    pub(super) fn of(configuration: &Configuration) -> Self {
        Self {
            chosen_before: configuration.choices().unwrap_or_default(),
            aks_integration: configuration.annotation(AKS_INTEGRATION) == Some("true"),
        }
    }

    /// The entry that is wanted, in place of `live`: with the terms that stay there and those that are added.
    pub(super) fn narrowed(&self, wanted: &Webhook, live: Option<&Webhook>) -> Webhook {
        let live = live.map(|live| live.namespace_selector.clone()).unwrap_or_default();
        let mut narrowed = wanted.clone();
        narrowed.namespace_selector = self.selector(&wanted.name, &wanted.namespace_selector, &live);
        narrowed
    }

    /// The selector of the entry `name`, which is wanted as `wanted`, in place of `live`.
    fn selector(&self, name: &str, wanted: &LabelSelector, live: &LabelSelector) -> LabelSelector {
        let mut chosen_before = LabelSelector::default();
        self.chosen_before.of(name).narrow_namespaces(&mut chosen_before);
        let mut selector = kept(wanted, live, expressions(&chosen_before));
        if self.aks_integration {
            let terms = selector.match_expressions.get_or_insert_default();
            for term in terms_of_aks() {
                if !terms.contains(&term) {
                    terms.push(term);
                }
            }
        }
        selector
    }
}

/// `wanted` with the terms of others in `live`. Those of `chosen_before` are of users.
fn kept(
    wanted: &LabelSelector,
    live: &LabelSelector,
    chosen_before: &[LabelSelectorRequirement],
) -> LabelSelector {
    let own = expressions(wanted);
    let mut missing: Vec<&LabelSelectorRequirement> = own.iter().collect();
    let (mut found, mut of_others) = (0, Vec::new());
    for term in expressions(live) {
        if let Some(position) = missing.iter().position(|own| *own == term) {
            missing.remove(position);
            found += 1;
        } else if only_narrows(term) && (own.contains(term) || !chosen_before.contains(term)) {
            of_others.push(term);
        }
    }
    let is_complete = missing.is_empty() && found + of_others.len() == expressions(live).len();
    if is_complete && live.match_labels.iter().flatten().eq(wanted.match_labels.iter().flatten()) {
        return live.clone();
    }
    let terms: Vec<LabelSelectorRequirement> = own.iter().chain(of_others).cloned().collect();
    LabelSelector {
        match_labels: wanted.match_labels.clone(),
        match_expressions: (!terms.is_empty()).then_some(terms),
    }
}

/// Whether a term is of the sort that AKS writes: it takes namespaces out by their label, and needs none.
fn only_narrows(term: &LabelSelectorRequirement) -> bool {
    [CONTROL_PLANE, MANAGED_BY].contains(&term.key.as_str())
        && ["DoesNotExist", "NotIn"].contains(&term.operator.as_str())
}

fn terms_of_aks() -> [LabelSelectorRequirement; 2] {
    [(CONTROL_PLANE, "true"), (MANAGED_BY, "aks")].map(|(key, value)| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![value.to_owned()]),
    })
}

fn expressions(selector: &LabelSelector) -> &[LabelSelectorRequirement] {
    selector.match_expressions.as_deref().unwrap_or_default()
}
