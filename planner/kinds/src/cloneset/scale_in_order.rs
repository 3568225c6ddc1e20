//! The order in which users want Pods to go, by their labels (docs/behaviour/cloneset.md#order-of-deletion).

use api::annotations::SCALE_IN_ORDER;
use api::kinds::cloneset::CloneSet;

use pod::observed::ObservedPod;
use pod::template::names;

#[cfg(test)]
mod tests;

/// The labels that the annotation names, those of Pods that go first at the front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScaleInOrder(Vec<(String, String)>);

impl ScaleInOrder {
    /// What the CloneSet asks for. What can't be read orders nothing.
    pub(super) fn of(set: &CloneSet) -> Self {
        let text = set.metadata.annotations.get(SCALE_IN_ORDER);
        text.and_then(|text| Self::read(text).ok()).unwrap_or_default()
    }

    /// Reads the annotation.
    ///
    /// # Errors
    /// What is wrong with it, a message for each problem.
    pub(super) fn read(text: &str) -> Result<Self, Vec<String>> {
        let mut terms = Vec::new();
        let mut problems = Vec::new();
        for term in text.split(',').map(str::trim) {
            let Some((key, value)) = term.split_once('=') else {
                problems.push(format!("{term:?} is not of the form LABEL=VALUE"));
                continue;
            };
            let of_key =
                names::qualified_name(key).into_iter().map(|problem| format!("label {key:?}: {problem}"));
            let of_value =
                names::label_value(value).into_iter().map(|problem| format!("value {value:?}: {problem}"));
            problems.extend(of_key.chain(of_value));
            terms.push((key.to_owned(), value.to_owned()));
        }
        if problems.is_empty() { Ok(Self(terms)) } else { Err(problems) }
    }

    /// The smaller, the earlier the Pod goes. One with none of the labels goes last.
    pub(super) fn rank(&self, pod: &ObservedPod) -> usize {
        let matches = |(key, value): &(String, String)| pod.label(key) == Some(value);
        self.0.iter().position(matches).unwrap_or(self.0.len())
    }
}
