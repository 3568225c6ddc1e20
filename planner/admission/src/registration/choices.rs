//! What users choose about the webhook entries while the server runs
//! (docs/behaviour/api-and-registration.md#choices-of-users): the value [`CHOICES_KEY`] of ConfigMap
//! `kruise-configuration`, in YAML or JSON.
//!
//! ```yaml
//! defaults:                      # for every entry
//!   timeoutSeconds: 5
//! webhooks:                      # for one entry; a field here replaces that of `defaults`
//!   mpod.kb.io:
//!     failurePolicy: Ignore
//!     namespaces: {exclude: [batch]}
//! ```
//!
//! Selectors only narrow: they are added to those that keep the server from blocking itself.

use std::collections::BTreeMap;

use api::labels::NAMESPACE_NAME;
use api::meta::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{ConfigurationKind, FailurePolicy};
use crate::endpoint::entries;
use pod::template::metadata::validate_label_selector;
use pod::template::names::dns_label;
use pod::template::node::Node;
use values::field::{FieldError, FieldPath, aggregate};

/// The key in ConfigMap `kruise-configuration`.
pub const CHOICES_KEY: &str = "Webhook_Settings";
/// On the configurations: the choices in effect, as JSON. They outlive a text that can't be used.
pub const CHOICES_IN_EFFECT: &str = "kutter.io/webhook-settings";
/// On the configurations: why the present text is not in effect.
pub const CHOICES_REFUSED: &str = "kutter.io/webhook-settings-refused";

/// Why a text can't be used.
#[derive(Debug, Error)]
pub enum ChoicesError {
    /// Neither YAML nor JSON, a field that is not known, or a value of another type.
    #[error("{CHOICES_KEY}: {0}")]
    Syntax(String),
    /// A value that may not be.
    #[error("{CHOICES_KEY}: {0}")]
    Invalid(String),
}

/// All that users choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Choices {
    /// For every entry.
    #[serde(skip_serializing_if = "is_default")]
    defaults: Choice,
    /// For entries by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    webhooks: BTreeMap<String, Choice>,
}

/// What users choose for one entry; what is absent stays as it is without them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Choice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_policy: Option<FailurePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_seconds: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<Namespaces>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace_selector: Option<Selector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_selector: Option<Selector>,
}

/// Namespaces by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Namespaces {
    /// Only these are reviewed; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<String>,
    /// These are not reviewed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exclude: Vec<String>,
}

/// A label selector in which a misspelt field is an error, since it would select everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Selector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

fn is_default(choice: &Choice) -> bool {
    *choice == Choice::default()
}

impl Choices {
    /// Reads the value of the ConfigMap; a blank one chooses nothing.
    ///
    /// # Errors
    /// The text can't be used: nothing of it is.
    pub fn parse(text: &str) -> Result<Self, ChoicesError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let choices: Self =
            serde_saphyr::from_str(text).map_err(|error| ChoicesError::Syntax(error.to_string()))?;
        let mut errors = Vec::new();
        choices.defaults.validate(&FieldPath::new("defaults"), &mut errors);
        let known: Vec<&str> =
            ConfigurationKind::ALL.into_iter().flat_map(entries).map(|entry| entry.name).collect();
        for (name, choice) in &choices.webhooks {
            let path = FieldPath::new("webhooks").key(name);
            if !known.contains(&name.as_str()) {
                errors.push(FieldError::invalid(path.clone(), name, "there is no webhook of this name"));
            }
            choice.validate(&path, &mut errors);
        }
        match aggregate(&errors) {
            None => Ok(choices),
            Some(message) => Err(ChoicesError::Invalid(message)),
        }
    }

    /// What is in effect, and why the present text is not: a text that can't be used, or can't be read,
    /// changes nothing.
    pub fn settle(present: Result<Option<&str>, String>, last: &Self) -> (Self, Option<String>) {
        let parsed =
            present.and_then(|text| Self::parse(text.unwrap_or_default()).map_err(|error| error.to_string()));
        match parsed {
            Ok(choices) => (choices, None),
            Err(refusal) => (last.clone(), Some(refusal)),
        }
    }

    /// As JSON; `None` where nothing is chosen.
    pub(super) fn annotation(&self) -> Option<String> {
        (*self != Self::default()).then(|| super::json(self))
    }

    /// What is chosen for the entry `name`.
    pub(super) fn of(&self, name: &str) -> Choice {
        let mut choice = self.defaults.clone();
        if let Some(own) = self.webhooks.get(name) {
            let Choice { failure_policy, timeout_seconds, namespaces, namespace_selector, object_selector } =
                own.clone();
            choice.failure_policy = failure_policy.or(choice.failure_policy);
            choice.timeout_seconds = timeout_seconds.or(choice.timeout_seconds);
            choice.namespaces = namespaces.or(choice.namespaces);
            choice.namespace_selector = namespace_selector.or(choice.namespace_selector);
            choice.object_selector = object_selector.or(choice.object_selector);
        }
        choice
    }
}

impl Choice {
    fn validate(&self, path: &FieldPath, errors: &mut Vec<FieldError>) {
        if let Some(seconds) = self.timeout_seconds.filter(|seconds| !(1..=30).contains(seconds)) {
            let path = path.child("timeoutSeconds");
            errors.push(FieldError::invalid_value(path, seconds, "must be from 1 to 30"));
        }
        let namespaces = self.namespaces.iter();
        let lists = namespaces.flat_map(|names| [("include", &names.include), ("exclude", &names.exclude)]);
        for (field, list) in lists {
            for (index, name) in list.iter().enumerate() {
                let path = path.child("namespaces").child(field).index(index);
                errors.extend(
                    dns_label(name).into_iter().map(|detail| FieldError::invalid(path.clone(), name, detail)),
                );
            }
        }
        let selectors =
            [("namespaceSelector", &self.namespace_selector), ("objectSelector", &self.object_selector)];
        for (field, selector) in selectors {
            if let Some(selector) = selector
                && let Ok(value) = serde_json::to_value(selector)
            {
                validate_label_selector(&Node::new(&value, path.child(field)), true, errors);
            }
        }
    }

    /// Adds what is chosen to the entry's own selector of namespaces.
    pub(super) fn narrow_namespaces(&self, selector: &mut LabelSelector) {
        let names = self.namespaces.clone().unwrap_or_default();
        for (operator, names) in [("NotIn", names.exclude), ("In", names.include)] {
            if names.is_empty() {
                continue;
            }
            let same = |requirement: &&mut LabelSelectorRequirement| {
                requirement.key == NAMESPACE_NAME && requirement.operator == operator
            };
            let requirements = selector.match_expressions.get_or_insert_default();
            match requirements.iter_mut().find(same).and_then(|known| known.values.as_mut()) {
                Some(values) => {
                    let more = names.into_iter().filter(|name| !values.contains(name)).collect::<Vec<_>>();
                    values.extend(more);
                }
                None => requirements.push(requirement(NAMESPACE_NAME, operator, names)),
            }
        }
        narrow(selector, self.namespace_selector.as_ref());
    }

    /// Adds what is chosen to the entry's own selector of objects.
    pub(super) fn narrow_objects(&self, selector: &mut LabelSelector) {
        narrow(selector, self.object_selector.as_ref());
    }
}

fn narrow(selector: &mut LabelSelector, chosen: Option<&Selector>) {
    let Some(Selector { match_labels, match_expressions }) = chosen else { return };
    let labels = match_labels.iter().map(|(key, value)| requirement(key, "In", vec![value.clone()]));
    let expressions = match_expressions
        .iter()
        .map(|expression| requirement(&expression.key, &expression.operator, expression.values.clone()));
    let chosen: Vec<LabelSelectorRequirement> = labels.chain(expressions).collect();
    if !chosen.is_empty() {
        selector.match_expressions.get_or_insert_default().extend(chosen);
    }
}

fn requirement(key: &str, operator: &str, values: Vec<String>) -> LabelSelectorRequirement {
    let values = Some(values).filter(|values| !values.is_empty());
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Choices::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = "defaults: {timeoutSeconds: 5}\nwebhooks:\n  mpod.kb.io:\n    failurePolicy: Ignore\n";
        let json =
            r#"{"defaults":{"timeoutSeconds":5},"webhooks":{"mpod.kb.io":{"failurePolicy":"Ignore"}}}"#;
        let choices = Choices::parse(yaml).unwrap();
        assert_eq!(choices, Choices::parse(json).unwrap());
        assert_eq!(choices.annotation().as_deref(), Some(json));
        assert_eq!(Choices::parse(" \n").unwrap().annotation(), None);
    }

    #[test]
    fn an_entry_takes_from_the_defaults_what_it_does_not_say_itself() {
        let text = "defaults: {timeoutSeconds: 5, failurePolicy: Ignore}\nwebhooks: {mpod.kb.io: {timeoutSeconds: 3}}";
        let choices = Choices::parse(text).unwrap();
        let seen = |name: &str| (choices.of(name).timeout_seconds, choices.of(name).failure_policy);
        assert_eq!(seen("mpod.kb.io"), (Some(3), Some(FailurePolicy::Ignore)));
        assert_eq!(seen("vpod.kb.io"), (Some(5), Some(FailurePolicy::Ignore)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (text, words) in [
            ("defaults: {timeoutSecond: 5}", "timeoutSecond"),
            ("timeoutSeconds: 5", "timeoutSeconds"),
            (
                "defaults: {timeoutSeconds: 31}",
                "defaults.timeoutSeconds: Invalid value: 31: must be from 1 to 30",
            ),
            ("defaults: {timeoutSeconds: 0}", "must be from 1 to 30"),
            ("defaults: {failurePolicy: fail}", "fail"),
            ("webhooks: {mpods.kb.io: {timeoutSeconds: 5}}", "webhooks[mpods.kb.io]"),
            ("defaults: {namespaces: {exclude: [A b]}}", "defaults.namespaces.exclude[0]"),
            ("defaults: {namespaceSelector: {matchLabel: {a: b}}}", "matchLabel"),
            (
                "defaults: {objectSelector: {matchExpressions: [{key: a, operator: In}]}}",
                "defaults.objectSelector.matchExpressions[0].values",
            ),
            ("defaults: {objectSelector: {matchLabels: {a: b c}}}", "defaults.objectSelector.matchLabels"),
            ("defaults: [", "Webhook_Settings"),
            ("[]", "Webhook_Settings"),
        ] {
            assert!(refusal(text).contains(words), "{text}: {}", refusal(text));
        }
    }

    #[test]
    fn a_text_that_cannot_be_used_changes_nothing() {
        let last = Choices::parse("defaults: {timeoutSeconds: 5}").unwrap();
        let settle = |present| Choices::settle(present, &last);
        assert_eq!(settle(Ok(None)), (Choices::default(), None));
        let (kept, refusal) = settle(Ok(Some("defaults: {timeoutSeconds: 50}")));
        assert_eq!(kept, last);
        assert!(refusal.unwrap().contains("must be from 1 to 30"));
        assert_eq!(settle(Err("forbidden".to_owned())), (last.clone(), Some("forbidden".to_owned())));
    }
}
