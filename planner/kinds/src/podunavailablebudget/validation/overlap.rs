//! Whether two selectors are taken to match the same Pods: only if they ask about the same labels
//! (docs/behaviour/podunavailablebudget.md#conflicts).

use std::collections::{BTreeMap, BTreeSet};

use api::meta::LabelSelector;

/// What a selector asks of one label.
enum Ask<'a> {
    In(BTreeSet<&'a str>),
    NotIn(BTreeSet<&'a str>),
    Exists,
    DoesNotExist,
}

pub(super) fn loosely_overlap(one: &LabelSelector, other: &LabelSelector) -> bool {
    let (one, other) = (asks(one), asks(other));
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(|(one, other)| one.meets(other))
}

/// What is asked by label. `matchLabels` precedes an expression on the same label, and of expressions the last
/// one counts.
fn asks(selector: &LabelSelector) -> BTreeMap<&str, Ask<'_>> {
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.iter().flatten().map(String::as_str).collect();
        let ask = match expression.operator.as_str() {
            "In" => Ask::In(values),
            "NotIn" => Ask::NotIn(values),
            "Exists" => Ask::Exists,
            _ => Ask::DoesNotExist,
        };
        (expression.key.as_str(), ask)
    });
    let labels = selector.match_labels.iter().flatten();
    expressions
        .chain(labels.map(|(key, value)| (key.as_str(), Ask::In(BTreeSet::from([value.as_str()])))))
        .collect()
}

impl Ask<'_> {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::In(one), Self::In(other)) => !one.is_disjoint(other),
            (Self::In(values), Self::NotIn(refused)) | (Self::NotIn(refused), Self::In(values)) => {
                !values.is_subset(refused)
            }
            (Self::In(_) | Self::Exists, Self::DoesNotExist)
            | (Self::DoesNotExist, Self::In(_) | Self::Exists) => false,
            (Self::In(_) | Self::NotIn(_) | Self::Exists | Self::DoesNotExist, _) => true,
        }
    }
}
