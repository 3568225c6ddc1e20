//! Identities of containers, in little room.

use std::fmt;

use serde::Deserialize;

/// The runtimes whose identities are 64 hexadecimal digits.
const RUNTIMES: [&str; 3] = ["containerd", "cri-o", "docker"];
const DIGITS: usize = 64;

/// The identity of a container with its runtime in front, as in the status of a Pod. Digits are kept as the bytes that they
/// stand for.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Box<str>")]
pub struct ContainerId(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Digits { runtime: &'static &'static str, bytes: [u8; DIGITS / 2] },
    Text(Box<str>),
}

impl ContainerId {
    /// There is no container.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    /// The runtime in which the container is.
    pub fn runtime(&self) -> Option<&str> {
        match &self.0 {
            Form::Digits { runtime, .. } => Some(runtime),
            Form::Text(text) => {
                let parts =
                    text.split_once("://").filter(|(runtime, id)| !runtime.is_empty() && !id.is_empty());
                parts.map(|(runtime, _)| runtime)
            }
        }
    }
}

fn digits(text: &str) -> Option<Form> {
    let (runtime, digits) = text.split_once("://")?;
    let runtime = RUNTIMES.iter().find(|known| **known == runtime)?;
    if digits.len() != DIGITS {
        return None;
    }
    let mut bytes = [0; DIGITS / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(Form::Digits { runtime, bytes })
}

/// The value of a digit. Runtimes write them in lower case.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl From<&str> for ContainerId {
    fn from(text: &str) -> Self {
        Self(digits(text).unwrap_or_else(|| Form::Text(text.into())))
    }
}

impl From<Box<str>> for ContainerId {
    fn from(text: Box<str>) -> Self {
        Self(digits(&text).unwrap_or(Form::Text(text)))
    }
}

impl From<String> for ContainerId {
    fn from(text: String) -> Self {
        text.into_boxed_str().into()
    }
}

impl Default for ContainerId {
    fn default() -> Self {
        Self::from("")
    }
}

impl PartialEq<str> for ContainerId {
    fn eq(&self, text: &str) -> bool {
        match &self.0 {
            Form::Digits { .. } => digits(text).is_some_and(|form| form == self.0),
            Form::Text(own) => **own == *text,
        }
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Digits { runtime, bytes } => {
                write!(formatter, "{runtime}://")?;
                bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
            Form::Text(text) => formatter.write_str(text),
        }
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_kept_and_digits_take_half_the_room() {
        let digits = "0123456789abcdef".repeat(4);
        let upper = digits.to_uppercase();
        for (text, is_packed) in [
            (format!("containerd://{digits}"), true),
            (format!("cri-o://{digits}"), true),
            (format!("containerd://{upper}"), false),
            (format!("containerd://+{}", &digits[1..]), false),
            (format!("containerd://{}", &digits[1..]), false),
            (format!("podman://{digits}"), false),
            (digits, false),
            (String::new(), false),
        ] {
            let id = ContainerId::from(&*text);
            assert_eq!(id.to_string(), text);
            assert!(id == *text && id != *"other" && id == ContainerId::from(text.clone()));
            assert_eq!(matches!(id.0, Form::Digits { .. }), is_packed, "{text}");
            assert_eq!(id.is_empty(), text.is_empty());
            assert_eq!(id.runtime(), text.split_once("://").map(|(runtime, _)| runtime));
        }
        assert_eq!(size_of::<ContainerId>(), 40);
    }
}
