//! What a Node has to show before a job pulls there (docs/behaviour/images.md#where-it-makes-sense).

use std::collections::BTreeMap;
use std::fmt;

use api::annotations::PULL_WHEN;
use api::kinds::Object;
use serde::de::IgnoredAny;

use pod::node_fit::NodeFacts;
use pod::template::names;
use pod::template::node::invalid;
use values::field::{FieldPath, aggregate};
use values::verdict::{Verdict, refused};

#[cfg(test)]
pub(super) mod tests;

const FORM: &str = "label:KEY, label:KEY=VALUE or condition:TYPE=STATUS";
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// What annotation `kutter.io/pull-when` asks for. All terms have to hold; without any, every Node will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullWhen(Vec<Term>);

/// One thing that a Node has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A label, of any value where none is given.
    Label(String, Option<String>),
    /// A condition by its type, with this status.
    Condition(String, String),
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key, None) => write!(formatter, "label:{key}"),
            Self::Label(key, Some(value)) => write!(formatter, "label:{key}={value}"),
            Self::Condition(kind, status) => write!(formatter, "condition:{kind}={status}"),
        }
    }
}

impl Term {
    fn read(text: &str) -> Result<Self, Vec<String>> {
        let (subject, rest) = text.split_once(':').unwrap_or_default();
        let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key, Some(value)));
        let of_value = |value: &str| match subject {
            "label" => names::label_value(value),
            _ if STATUSES.contains(&value) => Vec::new(),
            _ => vec![format!("supported values: {}", STATUSES.join(", "))],
        };
        let term = match (subject, value) {
            ("label", value) => Self::Label(key.to_owned(), value.map(str::to_owned)),
            ("condition", Some(status)) => Self::Condition(key.to_owned(), status.to_owned()),
            _ => return Err(vec![format!("{text:?} is not of the form {FORM}")]),
        };
        let of_key = names::qualified_name(key).into_iter().map(|problem| format!("{key:?}: {problem}"));
        let of_value = value.into_iter().flat_map(|value| {
            of_value(value).into_iter().map(move |problem| format!("value {value:?}: {problem}"))
        });
        let problems: Vec<String> = of_key.chain(of_value).collect();
        if problems.is_empty() { Ok(term) } else { Err(problems) }
    }

    fn holds(&self, node: &NodeFacts) -> bool {
        match self {
            Self::Label(key, None) => node.labels.get(key).is_some(),
            Self::Label(key, Some(value)) => node.labels.get(key) == Some(value),
            Self::Condition(kind, status) => node.conditions.get(kind) == Some(status),
        }
    }
}

impl PullWhen {
    /// What these annotations ask for.
    ///
    /// # Errors
    /// What is wrong with it, in the words of Kubernetes.
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        let Some(text) = annotations.get(PULL_WHEN) else { return Ok(Self::default()) };
        let (mut terms, mut problems) = (Vec::new(), Vec::new());
        for term in text.split(',').map(str::trim) {
            match Term::read(term) {
                Ok(term) => terms.push(term),
                Err(faults) => problems.extend(faults),
            }
        }
        let mut errors = Vec::new();
        invalid(&FieldPath::new("metadata.annotations").key(PULL_WHEN), text, problems, &mut errors);
        aggregate(&errors).map_or(Ok(Self(terms)), Err)
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of it holds on a Node. On one that is not known nothing does.
    pub fn holds(&self, node: Option<&NodeFacts>) -> bool {
        self.lacking(node).next().is_none()
    }

    /// What does not hold on a Node.
    pub fn lacking(&self, node: Option<&NodeFacts>) -> impl Iterator<Item = &Term> {
        self.0.iter().filter(move |term| !node.is_some_and(|node| term.holds(node)))
    }
}

/// The refusal of a CREATE or, with `old`, of an UPDATE request whose annotation can't be read. One that stays as it is
/// is not looked at, or the object could not go.
pub fn refusal(new: &str, old: Option<&str>) -> Option<Verdict> {
    let annotations = |object: &str| {
        let object: Object<Option<IgnoredAny>, Option<IgnoredAny>> = serde_json::from_str(object).ok()?;
        Some(object.metadata.annotations)
    };
    let new = annotations(new)?;
    let stays = old.and_then(annotations).is_some_and(|old| old.get(PULL_WHEN) == new.get(PULL_WHEN));
    if stays { None } else { PullWhen::of(&new).err().map(|fault| refused(fault).into()) }
}
