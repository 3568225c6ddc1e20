//! The syntax of names in Kubernetes, with its messages: each function returns what is wrong.

use std::ops::RangeInclusive;

const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const DNS_LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%'";

/// A message about a regular expression with examples of what it accepts.
pub fn regex_message(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// `must be no more than N characters`.
pub fn too_long_message(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// `must be between A and B, inclusive`.
pub(crate) fn range_message(range: &RangeInclusive<i64>) -> String {
    format!("must be between {} and {}, inclusive", range.start(), range.end())
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Non-empty, ends that satisfy `end`, and everything that satisfies `end` or is in `inner`.
fn is_word(text: &str, end: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(&end)
        && bytes.last().copied().is_some_and(&end)
        && bytes.iter().all(|byte| end(*byte) || inner.contains(byte))
}

fn is_dns_label(text: &str) -> bool {
    is_word(text, is_lower, b"-")
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_name_part(text: &str) -> bool {
    is_word(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// A DNS-1123 label, such as a container's name.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(too_long_message(63));
    }
    if !is_dns_label(text) {
        messages.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            regex_message(DNS_LABEL, DNS_LABEL_REGEX, &["my-name", "123-abc"])
        });
    }
    messages
}

/// A DNS-1123 subdomain, such as the name of a Secret.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(too_long_message(253));
    }
    if !is_dns_subdomain(text) {
        let regex = format!("{DNS_LABEL_REGEX}(\\.{DNS_LABEL_REGEX})*");
        messages.push(regex_message(DNS_SUBDOMAIN, &regex, &["example.com"]));
    }
    messages
}

/// A name with an optional DNS prefix, such as the key of a label.
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut messages = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(
                    dns_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")),
                );
            }
            name
        }
        _ => {
            let message = regex_message(QUALIFIED_NAME, QUALIFIED_NAME_REGEX, &examples);
            messages.push(format!(
                "a qualified name {message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return messages;
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push(format!("name part {}", too_long_message(63)));
    }
    if !is_name_part(name) {
        messages
            .push(format!("name part {}", regex_message(QUALIFIED_NAME, QUALIFIED_NAME_REGEX, &examples)));
    }
    messages
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(too_long_message(63));
    }
    if !text.is_empty() && !is_name_part(text) {
        let regex = format!("({QUALIFIED_NAME_REGEX})?");
        messages.push(regex_message(LABEL_VALUE, &regex, &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// The name of an HTTP header.
pub(crate) fn header_name(text: &str) -> Option<String> {
    let valid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!valid).then(|| regex_message(HEADER_NAME, "[-A-Za-z0-9]+", &["X-Header-Name"]))
}

/// The name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push(too_long_message(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// A percentage.
pub(crate) fn percent(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (!valid).then(|| regex_message(PERCENT, "[0-9]+%", &["1%", "93%"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_labels() {
        assert!(dns_label("my-name").is_empty() && dns_label("1").is_empty());
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_label("A_b"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
              and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(dns_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns_label("-a").len(), 1);
    }

    #[test]
    fn qualified_names() {
        for valid in ["a", "example.com/My_Name.x", "a/b"] {
            assert!(qualified_name(valid).is_empty(), "{valid}");
        }
        assert_eq!(qualified_name("").len(), 2);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert!(qualified_name("a/b/c").concat().starts_with("a qualified name must consist of"));
        assert_eq!(qualified_name(&"x".repeat(64)), ["name part must be no more than 63 characters"]);
        assert!(
            qualified_name("Upper.com/a").concat().starts_with("prefix part a lowercase RFC 1123 subdomain")
        );
    }

    #[test]
    fn values_and_ports() {
        assert!(label_value("").is_empty() && label_value("a_b.c").is_empty());
        assert_eq!(label_value("-a").len(), 1);
        assert!(port_name("http-1").is_empty());
        assert_eq!(port_name("123"), ["must contain at least one letter (a-z)"]);
        assert_eq!(port_name("a--b"), ["must not contain consecutive hyphens"]);
        assert_eq!(port_name(&format!("a{}", "b".repeat(15))), ["must be no more than 15 characters"]);
        assert!(percent("150%").is_none() && percent("5").is_some() && percent("%").is_some());
        assert!(header_name("X-A").is_none() && header_name("X A").is_some());
    }
}
