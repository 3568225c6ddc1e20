//! SidecarSets that can meet the same Pod must not get into each other's way
//! (docs/behaviour/sidecarset.md#conflicts-with-other-sidecarsets).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use api::meta::LabelSelector;
use api::sidecarset::{SidecarContainer, SidecarSet, Volume};

use super::{Context, Validation};
use values::canonical::{Kind, Unknown, canonical_json, table};
use values::field::{FieldError, FieldPath};

pub(super) fn validate(new: &SidecarSet, context: &Context<'_>, validation: &mut Validation) {
    let own = Own::new(new);
    for other in context.sidecar_sets {
        let is_pair = new.canary_base() == Some(other.name()) || other.canary_base() == Some(new.name());
        if other.name() == new.name() || is_pair {
            continue;
        }
        if overlap(new, other, selectors_overlap) {
            own.report(other, &mut validation.errors);
        } else if overlap(new, other, satisfiable_together)
            && let Some(name) = own.shared_container(other)
        {
            validation.warnings.push(format!(
                "container {name} is also a container of SidecarSet {}, whose selector can match the same Pods",
                other.name()
            ));
        }
    }
}

/// What the SidecarSet under review claims for itself.
struct Own<'a> {
    containers: HashSet<&'a str>,
    init_containers: HashSet<&'a str>,
    volumes: HashMap<&'a str, &'a Volume>,
    /// Annotations that may be written, and whether over what is there.
    annotations: HashMap<&'a str, bool>,
}

impl<'a> Own<'a> {
    fn new(set: &'a SidecarSet) -> Self {
        let spec = &set.spec;
        Self {
            containers: spec.containers.iter().map(SidecarContainer::name).collect(),
            init_containers: spec.init_containers.iter().map(SidecarContainer::name).collect(),
            volumes: spec.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect(),
            annotations: written_annotations(set).collect(),
        }
    }

    fn report(&self, other: &SidecarSet, errors: &mut Vec<FieldError>) {
        let spec = &other.spec;
        for (names, list) in
            [(&self.init_containers, &spec.init_containers), (&self.containers, &spec.containers)]
        {
            for name in list.iter().map(SidecarContainer::name).filter(|name| names.contains(name)) {
                let message = format!("container {name} already exist in {}", other.name());
                errors.push(FieldError::invalid(FieldPath::new("spec.containers"), name, message));
            }
        }
        for volume in &spec.volumes {
            let name = volume.name.as_str();
            if self.volumes.get(name).is_some_and(|own| !same_volume(own, volume)) {
                let message = format!("volume {name} is in conflict with sidecarset {}", other.name());
                errors.push(FieldError::invalid(FieldPath::new("spec.volumes"), name, message));
            }
        }
        for (key, overwrites) in written_annotations(other) {
            if self.annotations.get(key).is_some_and(|own| *own || overwrites) {
                let message = format!("annotation {key} is in conflict with sidecarset {}", other.name());
                errors.push(FieldError::invalid(FieldPath::new("spec.patchPodMetadata"), key, message));
            }
        }
    }

    fn shared_container<'b>(&self, other: &'b SidecarSet) -> Option<&'b str> {
        let spec = &other.spec;
        let init_containers = spec.init_containers.iter().map(SidecarContainer::name);
        let containers = spec.containers.iter().map(SidecarContainer::name);
        let mut shared = init_containers
            .filter(|name| self.init_containers.contains(name))
            .chain(containers.filter(|name| self.containers.contains(name)));
        shared.next()
    }
}

/// The annotations of all entries but those that keep what a Pod has; true for `Overwrite`.
fn written_annotations(set: &SidecarSet) -> impl Iterator<Item = (&str, bool)> {
    let entries = set.spec.patch_pod_metadata.iter();
    let entries = entries.filter(|entry| !matches!(entry.patch_policy.as_str(), "" | "Retain"));
    entries.flat_map(|entry| {
        entry.annotations.keys().map(|key| (key.as_str(), entry.patch_policy == "Overwrite"))
    })
}

/// Equal after Go has read both: spelling, order of keys and empty fields do not count.
fn same_volume(one: &Volume, other: &Volume) -> bool {
    let canonical =
        |volume: &Volume| canonical_json(volume.raw.get(), &Kind::Struct(&table::VOLUME), Unknown::Keep).ok();
    one.raw == other.raw || canonical(one) == canonical(other)
}

fn overlap(one: &SidecarSet, other: &SidecarSet, meet: fn(&LabelSelector, &LabelSelector) -> bool) -> bool {
    let namespaces = match (&one.spec.namespace_selector, &other.spec.namespace_selector) {
        (Some(one), Some(other)) => meet(one, other),
        _ => true,
    };
    let pods = match (&one.spec.selector, &other.spec.selector) {
        (Some(one), Some(other)) => meet(one, other),
        _ => false,
    };
    namespaces && pods
}

/// The rule that decides about a denial. It takes `Exists` on a key that the other side does not
/// mention for disjoint.
fn selectors_overlap(one: &LabelSelector, other: &LabelSelector) -> bool {
    !is_disjoint(one, other) && !is_disjoint(other, one)
}

/// Values that a selector asks for by key; `None` for any value.
fn known_values(selector: &LabelSelector) -> BTreeMap<&str, Option<Vec<&str>>> {
    let mut known: BTreeMap<&str, Option<Vec<&str>>> = BTreeMap::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        known.insert(key, Some(vec![value]));
    }
    for expression in selector.match_expressions.iter().flatten() {
        match expression.operator.as_str() {
            "In" => {
                let values = expression.values.iter().flatten().map(String::as_str);
                if let Some(known) = known.entry(&expression.key).or_insert_with(|| Some(Vec::new())) {
                    known.extend(values);
                }
            }
            "Exists" => {
                known.insert(&expression.key, None);
            }
            _ => {}
        }
    }
    known
}

fn is_disjoint(one: &LabelSelector, other: &LabelSelector) -> bool {
    let known = known_values(one);
    let excluded = |key: &str, value: &str| {
        let values = known.get(key).and_then(Option::as_ref);
        values.is_some_and(|values| !values.contains(&value))
    };
    if other.match_labels.iter().flatten().any(|(key, value)| excluded(key, value)) {
        return true;
    }
    other.match_expressions.iter().flatten().any(|expression| {
        let values: HashSet<&str> = expression.values.iter().flatten().map(String::as_str).collect();
        let entry = known.get(expression.key.as_str());
        let listed = entry.and_then(Option::as_ref);
        match expression.operator.as_str() {
            "In" => listed.is_some_and(|listed| !listed.iter().any(|value| values.contains(value))),
            "NotIn" => listed.is_some_and(|listed| listed.iter().all(|value| values.contains(value))),
            "Exists" => entry.is_none(),
            "DoesNotExist" => entry.is_some(),
            _ => false,
        }
    })
}

/// What is demanded of one label.
#[derive(Default)]
struct Demand<'a> {
    /// Values that are allowed, if only some are.
    allowed: Option<BTreeSet<&'a str>>,
    refused: HashSet<&'a str>,
    present: bool,
    absent: bool,
}

impl<'a> Demand<'a> {
    fn allow(&mut self, values: BTreeSet<&'a str>) {
        self.present = true;
        self.allowed = Some(match self.allowed.take() {
            Some(allowed) => allowed.intersection(&values).copied().collect(),
            None => values,
        });
    }

    fn can_be_met(&self) -> bool {
        let value = self
            .allowed
            .as_ref()
            .is_none_or(|allowed| allowed.iter().any(|value| !self.refused.contains(value)));
        value && !(self.present && self.absent)
    }
}

/// Whether some set of labels matches both selectors.
fn satisfiable_together(one: &LabelSelector, other: &LabelSelector) -> bool {
    unsatisfiable(&[one, other]).is_none()
}

/// A label of which no value, nor its absence, meets all requirements of the selectors; `None` where some
/// set of labels matches them all.
pub(in crate::sidecarset) fn unsatisfiable<'a>(selectors: &[&'a LabelSelector]) -> Option<&'a str> {
    let mut demands: BTreeMap<&str, Demand<'_>> = BTreeMap::new();
    for selector in selectors {
        for (key, value) in selector.match_labels.iter().flatten() {
            demands.entry(key).or_default().allow(BTreeSet::from([value.as_str()]));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = expression.values.iter().flatten().map(String::as_str);
            let demand = demands.entry(&expression.key).or_default();
            match expression.operator.as_str() {
                "In" => demand.allow(values.collect()),
                "NotIn" => demand.refused.extend(values),
                "Exists" => demand.present = true,
                "DoesNotExist" => demand.absent = true,
                _ => {}
            }
        }
    }
    demands.into_iter().find_map(|(key, demand)| (!demand.can_be_met()).then_some(key))
}

#[cfg(test)]
mod tests;
