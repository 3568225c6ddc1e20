//! References to container images.

use std::sync::LazyLock;

use regex::Regex;

/// The tag of an image, `latest` where neither tag nor digest is given, and empty where there is only a
/// digest or the reference can't be parsed (docs/behaviour/sidecarset.md#defaulting).
pub(crate) fn tag(image: &str) -> &str {
    static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
        let domain = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
        let component = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
        let tag = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
        Regex::new(&format!(
            r"\A(?<name>(?:{domain}/)?{component}(?:/{component})*)(?::(?<tag>{tag}))?(?:@(?<digest>[^@]+))?\z"
        ))
        .ok()
    });
    const NAME_LIMIT: usize = 255;
    let captures = REFERENCE.as_ref().and_then(|regex| regex.captures(image));
    let Some(captures) = captures else { return "" };
    let name = captures.name("name").map_or("", |name| name.as_str());
    let bare_identifier = image.len() == 64 && image.bytes().all(is_lower_hex);
    if name.len() > NAME_LIMIT || bare_identifier || has_upper_path(name) {
        return "";
    }
    match (captures.name("tag"), captures.name("digest")) {
        (_, Some(digest)) if !is_digest(digest.as_str()) => "",
        (Some(tag), _) => tag.as_str(),
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

/// A first part without dot, colon and capital letters is part of the path, not a registry.
fn has_upper_path(name: &str) -> bool {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let registry = first.contains(['.', ':', '[']) || first == "localhost" || first.to_lowercase() != first;
    let path = if registry { rest } else { name };
    path.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_as_docker_finds_them() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (image, expected) in [
            ("nginx", "latest"),
            ("nginx:1.25", "1.25"),
            ("nginx:latest", "latest"),
            ("localhost:5000/team/app", "latest"),
            ("localhost:5000/team/app:v1", "v1"),
            ("Registry.example.com/app", "latest"),
            ("REGISTRY/app", "latest"),
            (&format!("app@{digest}"), ""),
            (&format!("app:latest@{digest}"), "latest"),
            ("app@sha256:00", ""),
            ("App", ""),
            ("registry.example.com/App", ""),
            ("bad image", ""),
            ("", ""),
            (&"a".repeat(64), ""),
            (" nginx", ""),
            ("nginx:", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
