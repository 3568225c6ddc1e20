//! Canonical bytes: the JSON that Go's encoder gives for an object that was decoded into its Go type.
//! OpenKruise hashes such bytes and stores them in revisions, so hashes, revision names and comparisons here
//! start from them (docs/behaviour/pod-mutation.md#sidecarset-hash, docs/behaviour/sidecarset.md#revisions,
//! docs/behaviour/revisions.md#data). The Go types are the generated [`table`]; nothing in this module
//! touches an object that is written back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::quantity::Quantity;
use crate::short::abridged;

pub mod shape;
pub mod table;
mod text;

pub use shape::{Field, Kind, Merge, Presence, Shape};
pub use text::{Numbers, sorted_json};
use text::{separate, write_compact, write_string};

/// What becomes of the members of an object that its Go type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are left out, as Go's decoder does.
    Drop,
    /// They follow the known ones, sorted by name, their values as they are.
    Keep,
}

/// Why JSON does not decode into its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}{}{}{problem}",
    if .path.is_empty() { "" } else { ": " },
    .value.as_ref().map(|value| format!("Invalid value: {value}: ")).unwrap_or_default()
)]
pub struct CanonicalError {
    path: String,
    /// The value, for people; none where there is no JSON at all.
    value: Option<String>,
    problem: String,
}

impl CanonicalError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), value: None, problem: problem.into() }
    }

    /// The error as seen from the object that holds the member `name`.
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }

    /// The error as seen from the list that holds the element.
    pub(crate) fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    /// The value is not of its kind.
    fn unfit(json: &str, kind: &Kind) -> Self {
        let is_integer = json.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        Self::new(kind.wanted(is_integer)).about(json)
    }

    /// The error as that of this value.
    pub(crate) fn about(self, json: &str) -> Self {
        Self { value: Some(abridged(json)), ..self }
    }

    /// It names the value that it is about.
    pub(crate) fn is_named(&self) -> bool {
        self.value.is_some()
    }
}

impl From<serde_json::Error> for CanonicalError {
    fn from(error: serde_json::Error) -> Self {
        // The position is one inside the value that `path` names, so it would mislead.
        let message = error.to_string();
        Self::new(message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem))
    }
}

/// The bytes Go's encoder writes for `json` after decoding it into the Go type `kind`: fields in the
/// type's order, `omitempty` applied, maps sorted, quantities canonical, strings escaped its way.
///
/// # Errors
/// The field path and the problem, where a value does not have the type of its field.
pub fn canonical_json(json: &str, kind: &Kind, unknown: Unknown) -> Result<String, CanonicalError> {
    let mut writer = Writer { out: String::with_capacity(json.len()), unknown };
    writer.value(Some(serde_json::from_str(json)?), kind)?;
    Ok(writer.out)
}

fn read<'a, T: Deserialize<'a>>(json: &'a str, kind: &Kind) -> Result<T, CanonicalError> {
    serde_json::from_str(json).map_err(|_| CanonicalError::unfit(json, kind))
}

struct Writer {
    out: String,
    unknown: Unknown,
}

impl Writer {
    /// Writes a value. Absent and `null` are the zero value of the kind.
    fn value(&mut self, value: Option<&RawValue>, kind: &Kind) -> Result<(), CanonicalError> {
        let value = value.map(RawValue::get).filter(|json| *json != "null");
        let Some(json) = value else {
            return self.zero(kind);
        };
        match kind {
            Kind::Text => write_string(&mut self.out, &read::<String>(json, kind)?),
            Kind::Bool => self.out.push_str(if read(json, kind)? { "true" } else { "false" }),
            Kind::Int32 => self.out.push_str(&read::<i32>(json, kind)?.to_string()),
            Kind::Int64 => self.out.push_str(&read::<i64>(json, kind)?.to_string()),
            Kind::IntOrString if json.starts_with('"') => {
                write_string(&mut self.out, &read::<String>(json, kind)?);
            }
            Kind::IntOrString => self.out.push_str(&read::<i32>(json, kind)?.to_string()),
            Kind::Quantity => {
                // Go strips the quotes and resolves no escapes.
                let text = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
                let quantity: Quantity =
                    text.trim().parse().map_err(|_| CanonicalError::unfit(json, kind))?;
                write_string(&mut self.out, &quantity.to_string());
            }
            Kind::Time => self.time(&read::<String>(json, kind)?)?,
            Kind::Raw => write_compact(&mut self.out, json),
            Kind::Struct(shape) => self.object(read(json, kind)?, shape)?,
            Kind::List(element) => {
                let elements: Vec<&RawValue> = read(json, kind)?;
                self.out.push('[');
                let start = self.out.len();
                for (index, value) in elements.into_iter().enumerate() {
                    separate(&mut self.out, start);
                    self.value(Some(value), element).map_err(|error| error.at(index))?;
                }
                self.out.push(']');
            }
            Kind::Map(element) => {
                let members: BTreeMap<String, &RawValue> = read(json, kind)?;
                self.out.push('{');
                let start = self.out.len();
                for (name, value) in members {
                    self.name(start, &name);
                    self.value(Some(value), element).map_err(|error| error.within(&name))?;
                }
                self.out.push('}');
            }
        }
        Ok(())
    }

    fn zero(&mut self, kind: &Kind) -> Result<(), CanonicalError> {
        self.out.push_str(match kind {
            Kind::Text => "\"\"",
            Kind::Bool => "false",
            Kind::Int32 | Kind::Int64 | Kind::IntOrString => "0",
            Kind::Quantity => "\"0\"",
            Kind::Time | Kind::Raw | Kind::List(_) | Kind::Map(_) => "null",
            Kind::Struct(shape) => return self.object(BTreeMap::new(), shape),
        });
        Ok(())
    }

    fn time(&mut self, text: &str) -> Result<(), CanonicalError> {
        let moment: Timestamp =
            text.parse().map_err(|error: jiff::Error| CanonicalError::new(error.to_string()).about(text))?;
        let moment = Offset::UTC.to_datetime(moment);
        if (moment.year(), moment.month(), moment.day()) == (1, 1, 1)
            && moment.time() == jiff::civil::Time::MIN
        {
            self.out.push_str("null");
        } else {
            write_string(&mut self.out, &moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        Ok(())
    }

    fn object(
        &mut self,
        mut members: BTreeMap<String, &RawValue>,
        shape: &Shape,
    ) -> Result<(), CanonicalError> {
        self.out.push('{');
        let start = self.out.len();
        for field in shape.0 {
            let value = members.remove(field.name).filter(|value| value.get() != "null");
            self.field(value, field, start).map_err(|error| error.within(field.name))?;
        }
        if self.unknown == Unknown::Keep {
            for (name, value) in members {
                self.name(start, &name);
                write_compact(&mut self.out, value.get());
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn field(
        &mut self,
        value: Option<&RawValue>,
        field: &Field,
        object_start: usize,
    ) -> Result<(), CanonicalError> {
        let field_start = self.out.len();
        if value.is_none() && matches!(field.presence, Presence::Optional | Presence::NonEmpty) {
            return Ok(());
        }
        self.name(object_start, field.name);
        if value.is_none() && field.presence == Presence::Nullable {
            self.out.push_str("null");
            return Ok(());
        }
        let value_start = self.out.len();
        self.value(value, &field.kind)?;
        let empty = matches!(self.out.get(value_start..), Some("\"\"" | "0" | "false" | "[]" | "{}"));
        if empty && field.presence == Presence::NonEmpty {
            self.out.truncate(field_start);
        }
        Ok(())
    }

    /// The name of a member of the object that began at `object_start`.
    fn name(&mut self, object_start: usize, name: &str) {
        separate(&mut self.out, object_start);
        write_string(&mut self.out, name);
        self.out.push(':');
    }
}

#[cfg(test)]
pub(crate) mod tests;
