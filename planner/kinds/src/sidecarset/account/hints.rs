//! What can be said of a SidecarSet itself without reading any Pod: selectors that match nothing.

use api::meta::LabelSelector;
use api::sidecarset::SidecarSet;

use super::reason::Reason;
use super::scope::Scope;
use crate::sidecarset::index;
use crate::sidecarset::inventory::Inventory;
use crate::sidecarset::validation::unsatisfiable;
use values::selector::{Labels, Selector};

/// Why a SidecarSet matches no Pod, or fewer than it says, as far as its selectors and the Namespaces show it.
pub fn of(set: &SidecarSet, inventory: &Inventory, scope: &Scope) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if let Some(key) = set.spec.selector.as_ref().and_then(|selector| unsatisfiable(&[selector])) {
        reasons.push(Reason::NeverMatches(key.to_owned()));
    }
    if let Some(selector) = &set.spec.namespace_selector {
        of_namespaces(selector, inventory, scope, &mut reasons);
    }
    reasons
}

fn of_namespaces(selector: &LabelSelector, inventory: &Inventory, scope: &Scope, reasons: &mut Vec<Reason>) {
    let named = index::scope(Some(selector));
    let missing = named.iter().filter(|name| inventory.namespace(name).is_none());
    reasons.extend(missing.cloned().map(Reason::NoSuchNamespace));
    // One that can't be used is reported elsewhere.
    let Ok(compiled) = Selector::compile(selector) else { return };
    let mut matched = inventory
        .namespaces()
        .iter()
        .map(|(_, namespace)| namespace.labels())
        .filter(|labels| compiled.matches(*labels))
        .peekable();
    if matched.peek().is_none() {
        if reasons.is_empty() {
            reasons.push(Reason::NoNamespace);
        }
    } else if matched.all(|labels| !scope.has_namespace(labels)) {
        reasons.push(Reason::NamespaceExcluded);
    }
}

/// True where a workload's own labels meet `spec.selector` and those of its Pods do not: its author looked
/// for the labels in the wrong place.
pub fn is_meant_for_workload<L: Labels + ?Sized>(set: &SidecarSet, own: &L, of_pods: &L) -> bool {
    let selector = set.spec.selector.as_ref().and_then(|selector| Selector::compile(selector).ok());
    selector
        .is_some_and(|selector| !selector.is_empty() && selector.matches(own) && !selector.matches(of_pods))
}
