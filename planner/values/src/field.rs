//! Field paths and field errors in the form in which Kubernetes prints them.

use std::collections::HashSet;
use std::fmt;

/// Path of a field, `spec.containers[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path of dotted names, `spec.template`.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// This path followed by a field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// This path followed by a list index.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// This path followed by a map key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What is wrong with a field; the words are those of Kubernetes' `field.Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// The field must be set.
    Required,
    /// The value breaks a rule; holds the value as Kubernetes prints it (strings with quotes).
    Invalid(String),
    /// The value is not one of the known ones; holds the value and the supported values.
    NotSupported(String, Vec<String>),
    /// The value is there already; holds the value as printed.
    Duplicate(String),
    /// The field may not be set here.
    Forbidden,
    /// The thing named is missing; holds the value as printed.
    NotFound(String),
    /// Longer than this many bytes or elements.
    TooLong(usize),
    /// A failure of our own while checking.
    Internal,
    /// What the API server says is wrong, in its words.
    Judged,
}

/// A rule that an object breaks, with the path of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where.
    pub path: FieldPath,
    /// What.
    pub kind: FieldErrorKind,
    /// Why, in a sentence.
    pub detail: String,
}

impl FieldError {
    /// `path: Required value: detail`.
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Required, detail: detail.into() }
    }

    /// `path: Invalid value: "value": detail` for text.
    pub fn invalid(path: FieldPath, value: &str, detail: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Invalid(quoted(value)), detail: detail.into() }
    }

    /// `path: Invalid value: value: detail` for a value printed without quotes.
    pub fn invalid_value(path: FieldPath, value: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Invalid(value.to_string()), detail: detail.into() }
    }

    /// `path: Unsupported value: "value": supported values: "a", "b"`, in the order given.
    pub fn not_supported(path: FieldPath, value: &str, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| quoted(value)).collect();
        Self { path, kind: FieldErrorKind::NotSupported(quoted(value), supported), detail: String::new() }
    }

    /// `path: Duplicate value: "value"`.
    pub fn duplicate(path: FieldPath, value: &str) -> Self {
        Self { path, kind: FieldErrorKind::Duplicate(quoted(value)), detail: String::new() }
    }

    /// `path: Forbidden: detail`.
    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Forbidden, detail: detail.into() }
    }

    /// `path: Not found: "value"`.
    pub fn not_found(path: FieldPath, value: &str) -> Self {
        Self { path, kind: FieldErrorKind::NotFound(quoted(value)), detail: String::new() }
    }

    /// `path: Too long: may not be more than N bytes`.
    pub fn too_long(path: FieldPath, limit: usize) -> Self {
        Self { path, kind: FieldErrorKind::TooLong(limit), detail: String::new() }
    }

    /// `path: words`, as the API server says them.
    pub fn judged(path: FieldPath, words: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Judged, detail: words.into() }
    }

    /// `path: Internal error: detail`.
    pub fn internal(path: FieldPath, detail: impl Into<String>) -> Self {
        Self { path, kind: FieldErrorKind::Internal, detail: detail.into() }
    }
}

/// `text` as Go's `%q` prints it, which is how Kubernetes shows values.
fn quoted(text: &str) -> String {
    crate::json_patch::string(text)
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.path)?;
        let detail = &self.detail;
        let separator = if detail.is_empty() { "" } else { ": " };
        match &self.kind {
            FieldErrorKind::Required => write!(formatter, "Required value{separator}{detail}"),
            FieldErrorKind::Invalid(value) => write!(formatter, "Invalid value: {value}{separator}{detail}"),
            FieldErrorKind::NotSupported(value, supported) => {
                write!(formatter, "Unsupported value: {value}: supported values: {}", supported.join(", "))
            }
            FieldErrorKind::Duplicate(value) => write!(formatter, "Duplicate value: {value}"),
            FieldErrorKind::Forbidden => write!(formatter, "Forbidden{separator}{detail}"),
            FieldErrorKind::NotFound(value) => write!(formatter, "Not found: {value}"),
            FieldErrorKind::TooLong(limit) => {
                write!(formatter, "Too long: may not be more than {limit} bytes")
            }
            FieldErrorKind::Internal => write!(formatter, "Internal error{separator}{detail}"),
            FieldErrorKind::Judged => formatter.write_str(detail),
        }
    }
}

/// Several errors as one message: the single error, or `[e1, e2]` with duplicates removed
/// (docs/behaviour/api-and-registration.md#codes-of-denials). `None` when there is no error.
pub fn aggregate(errors: &[FieldError]) -> Option<String> {
    let mut seen = HashSet::with_capacity(errors.len());
    let mut messages: Vec<String> =
        errors.iter().map(FieldError::to_string).filter(|message| seen.insert(message.clone())).collect();
    if messages.len() > 1 { Some(format!("[{}]", messages.join(", "))) } else { messages.pop() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_as_kubernetes_prints_them() {
        let path = FieldPath::new("spec").child("containers").index(1).child("name");
        assert_eq!(
            FieldError::duplicate(path.clone(), "main").to_string(),
            r#"spec.containers[1].name: Duplicate value: "main""#
        );
        assert_eq!(
            FieldError::not_supported(FieldPath::new("spec.restartPolicy"), "Never", &["Always"]).to_string(),
            r#"spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#
        );
        assert_eq!(FieldError::required(path, "").to_string(), "spec.containers[1].name: Required value");
    }

    #[test]
    fn aggregate_drops_duplicates_and_brackets_several() {
        let first = FieldError::required(FieldPath::new("a"), "");
        let second = FieldError::invalid(FieldPath::new("b"), "x", "is bad");
        assert_eq!(aggregate(&[]), None);
        assert_eq!(aggregate(&[first.clone(), first.clone()]).as_deref(), Some("a: Required value"));
        assert_eq!(
            aggregate(&[first, second]).as_deref(),
            Some(r#"[a: Required value, b: Invalid value: "x": is bad]"#)
        );
    }
}
