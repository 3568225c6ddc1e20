//! Label selectors: parsed once, matched often.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::meta::LabelSelector;
use serde_json::Value;
use thiserror::Error;

/// Anything that labels can be looked up in.
pub trait Labels {
    /// The value of the label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Those of an object as JSON.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.pointer("/metadata/labels")?.get(key)?.as_str()
    }
}

impl Labels for [(Cow<'_, str>, Cow<'_, str>)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }
}

/// Why a selector can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectorError {
    /// An operator that Kubernetes does not know.
    #[error("\"{0}\" is not a valid label selector operator")]
    UnknownOperator(String),
    /// `In` or `NotIn` without values.
    #[error("for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    /// `Exists` or `DoesNotExist` with values.
    #[error("values set must be empty for exists and does not exist")]
    UnexpectedValues,
    /// A text that is no selector.
    #[error("{0:?} is not a label selector")]
    Unreadable(String),
}

/// One requirement of a compiled selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label is present with one of these values.
    In(Arc<str>, Vec<Box<str>>),
    /// The label is absent or has none of these values.
    NotIn(Arc<str>, Vec<Box<str>>),
    /// The label is present.
    Exists(Arc<str>),
    /// The label is absent.
    DoesNotExist(Arc<str>),
}

/// A compiled label selector. An empty one matches everything; where Kruise's rule is that an empty
/// selector matches nothing, ask [`Selector::is_empty`] first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

impl Selector {
    /// Compiles `selector`.
    ///
    /// # Errors
    /// An unknown operator, or values where none may be or none where some must be.
    pub fn compile(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            requirements.push(Requirement::In(key.as_str().into(), vec![value.as_str().into()]));
        }
        for expression in selector.match_expressions.iter().flatten() {
            let key: Arc<str> = expression.key.as_str().into();
            let values: Vec<Box<str>> =
                expression.values.iter().flatten().map(|value| value.as_str().into()).collect();
            requirements.push(match (expression.operator.as_str(), values.is_empty()) {
                ("In", false) => Requirement::In(key, values),
                ("NotIn", false) => Requirement::NotIn(key, values),
                ("In" | "NotIn", true) => return Err(SelectorError::NoValues),
                ("Exists", true) => Requirement::Exists(key),
                ("DoesNotExist", true) => Requirement::DoesNotExist(key),
                ("Exists" | "DoesNotExist", false) => return Err(SelectorError::UnexpectedValues),
                (operator, _) => return Err(SelectorError::UnknownOperator(operator.to_owned())),
            });
        }
        Ok(Self(requirements))
    }

    /// Reads a selector from the text in which `kubectl` and the `scale` subresource have it: `app=web,tier in (a,b)`.
    ///
    /// # Errors
    /// The text is none.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma inside parentheses parts values.
            let (mut depth, mut end) = (0, rest.len());
            for (position, letter) in rest.char_indices() {
                match letter {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    ',' if depth == 0 => {
                        end = position;
                        break;
                    }
                    _ => {}
                }
            }
            let (first, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
            let requirement = Requirement::parse(first.trim());
            requirements.push(requirement.ok_or_else(|| SelectorError::Unreadable(text.to_owned()))?);
            rest = behind.strip_prefix(',').unwrap_or_default().trim();
        }
        Ok(Self(requirements))
    }

    /// True when there is no requirement.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements; all must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// True when every requirement holds for `labels`.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        let is_word = |word: &str| {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
            word.chars().all(plain)
        };
        let key = |key: &str| (!key.is_empty() && is_word(key)).then(|| Arc::from(key));
        let value = |value: &str| is_word(value).then(|| Box::from(value));
        if let Some(absent) = text.strip_prefix('!') {
            return Some(Self::DoesNotExist(key(absent.trim())?));
        }
        if let Some((name, not)) = text.split_once("!=") {
            return Some(Self::NotIn(key(name.trim())?, vec![value(not.trim())?]));
        }
        if let Some((name, is)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Some(Self::In(key(name.trim())?, vec![value(is.trim())?]));
        }
        let Some((name, set)) = text.split_once(char::is_whitespace) else {
            return Some(Self::Exists(key(text)?));
        };
        let (operator, values) = set.trim().split_once('(')?;
        let values = values.strip_suffix(')')?.split(',').map(|one| value(one.trim()));
        let values = values.collect::<Option<Vec<_>>>()?;
        match operator.trim() {
            "in" => Some(Self::In(key(name)?, values)),
            "notin" => Some(Self::NotIn(key(name)?, values)),
            _ => None,
        }
    }

    fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let contains = |values: &[Box<str>], value: &str| values.iter().any(|known| **known == *value);
        match self {
            Self::In(key, values) => labels.label(key).is_some_and(|value| contains(values, value)),
            Self::NotIn(key, values) => !labels.label(key).is_some_and(|value| contains(values, value)),
            Self::Exists(key) => labels.label(key).is_some(),
            Self::DoesNotExist(key) => labels.label(key).is_none(),
        }
    }
}

/// True when `selector` has no requirement, before it is compiled: what it has may be wrong.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
        && selector.match_expressions.as_ref().is_none_or(|expressions| expressions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::meta::LabelSelectorRequirement;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            }]),
        }
    }

    #[test]
    fn operators_follow_kubernetes() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for (selector, expected) in [
            (expression("app", "In", &["web", "db"]), true),
            (expression("app", "NotIn", &["web"]), false),
            (expression("tier", "NotIn", &["web"]), true),
            (expression("app", "Exists", &[]), true),
            (expression("tier", "DoesNotExist", &[]), true),
            (expression("tier", "Exists", &[]), false),
        ] {
            assert_eq!(Selector::compile(&selector).unwrap().matches(&labels), expected, "{selector:?}");
        }
    }

    #[test]
    fn selectors_are_read_from_text() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for (text, expected) in [
            ("", Some(true)),
            ("app=web", Some(true)),
            ("app == web, tier!=db", Some(true)),
            ("app in (db,web),!tier", Some(true)),
            ("app,app notin (web)", Some(false)),
            ("tier", Some(false)),
            ("app web", None),
            ("app in web", None),
            ("app near (web)", None),
            ("app=a=b", None),
            ("=web", None),
            (",", None),
        ] {
            let selector = Selector::parse(text);
            assert_eq!(selector.ok().map(|selector| selector.matches(&labels)), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(
            Selector::compile(&expression("app", "Near", &["x"])),
            Err(SelectorError::UnknownOperator("Near".to_owned()))
        );
        assert_eq!(Selector::compile(&expression("app", "In", &[])), Err(SelectorError::NoValues));
        assert_eq!(
            Selector::compile(&expression("app", "Exists", &["x"])),
            Err(SelectorError::UnexpectedValues)
        );
    }
}
