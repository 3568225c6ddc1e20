//! Environment variables that show labels or annotations of their Pod: they change only when the container
//! restarts (docs/behaviour/in-place-update.md#what-can-change-in-place and
//! docs/behaviour/in-place-update.md#deep-hash-and-hash-of-variables).

use std::cell::OnceCell;

use api::environment::{SIDECARSET_VERSION, SIDECARSET_VERSION_ALT};
use serde_json::Value;

use super::template::text;
use crate::observed::{Container, ObservedPod, Variable};
use values::hash::deep_hash;
use values::json_patch::string;

/// What a variable shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source<'a> {
    Label(&'a str),
    Annotation(&'a str),
}

impl<'a> Source<'a> {
    /// `metadata.labels['app']` or `metadata.annotations['app']`.
    fn parse(field_path: &'a str) -> Option<Self> {
        let key = |prefix| field_path.strip_prefix(prefix)?.strip_suffix("']");
        key("metadata.labels['")
            .map(Self::Label)
            .or_else(|| key("metadata.annotations['").map(Self::Annotation))
    }

    fn of_variable(name: &str, value: &str, field_path: Option<&'a str>) -> Option<Self> {
        // These two are written when a hot upgrade changes the image, and never alone.
        if matches!(name, SIDECARSET_VERSION | SIDECARSET_VERSION_ALT) || !value.is_empty() {
            return None;
        }
        Self::parse(field_path?)
    }

    fn of(variable: &'a Variable) -> Option<Self> {
        let field = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        Self::of_variable(&variable.name, &variable.value, field.map(|field| &*field.field_path))
    }
}

/// What the variables of a template's container show.
pub(super) fn sources(container: &Value) -> impl Iterator<Item = Source<'_>> {
    container.get("env").and_then(Value::as_array).into_iter().flatten().filter_map(|variable| {
        let field_path = variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str);
        Source::of_variable(text(variable, "name"), text(variable, "value"), field_path)
    })
}

/// Whether a variable of a template's container shows this annotation.
pub fn shows_annotation(container: &Value, key: &str) -> bool {
    sources(container).any(|source| source == Source::Annotation(key))
}

/// The variables of a container that show labels or annotations.
pub fn names(container: &Container) -> impl Iterator<Item = &str> {
    let shows = |variable: &&Variable| Source::of(variable).is_some();
    container.env.iter().filter(shows).map(|variable| &*variable.name)
}

/// The hash of the values that the variables of a container should show now; `None` where it has no such variable.
pub fn expected_hash(container: &Container, pod: &ObservedPod) -> Option<u32> {
    let whole = OnceCell::new();
    let variables: Vec<(&str, Option<&str>)> = container
        .env
        .iter()
        .filter_map(|variable| {
            let value = match Source::of(variable)? {
                Source::Label(key) => pod.label(key),
                Source::Annotation(key) => whole.get_or_init(|| pod.whole()).annotation(key),
            };
            Some((&*variable.name, value))
        })
        .collect();
    (!variables.is_empty()).then(|| hash(variables))
}

/// The hash of variables and their values (docs/behaviour/in-place-update.md#deep-hash-and-hash-of-variables).
pub fn hash(mut variables: Vec<(&str, Option<&str>)>) -> u32 {
    if variables.is_empty() {
        return deep_hash("null");
    }
    variables.sort_by_key(|(name, _)| *name);
    let variables: Vec<String> = variables
        .into_iter()
        .map(|(name, value)| {
            // Go leaves an empty value out as it does a missing one.
            let value = value.filter(|value| !value.is_empty());
            let value = value.map(|value| format!(r#","value":{}"#, go_string(value))).unwrap_or_default();
            format!(r#"{{"name":{}{value}}}"#, go_string(name))
        })
        .collect();
    deep_hash(&format!("[{}]", variables.join(",")))
}

/// `text` as a JSON string in the spelling of Go's encoder, on which hashes hang.
pub(super) fn go_string(text: &str) -> String {
    values::canonical::canonical_json(
        &string(text),
        &values::canonical::Kind::Text,
        values::canonical::Unknown::Drop,
    )
    .unwrap_or_default()
}
