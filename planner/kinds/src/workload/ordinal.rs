//! Names that end with an ordinal: those of Pods and claims of StatefulSets.

/// A name that ends with `-` and an ordinal, taken apart. None where it does not, or where the ordinal has zeros
/// in front, which no controller writes, or is beyond the range of ordinals
/// (docs/behaviour/statefulset.md#identity).
pub fn split(name: &str) -> Option<(&str, i32)> {
    let (stem, digits) = name.rsplit_once('-')?;
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let ordinal = digits.parse().ok().filter(|_| is_plain && !stem.is_empty())?;
    Some((stem, ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_are_ordinals() {
        for (name, expected) in [
            ("web-0", Some(("web", 0))),
            ("my-web-12", Some(("my-web", 12))),
            ("web--1", Some(("web-", 1))),
            ("web-2147483647", Some(("web", i32::MAX))),
            ("web-2147483648", None),
            ("web-01", None),
            ("web-+1", None),
            ("web-", None),
            ("web", None),
            ("-1", None),
        ] {
            assert_eq!(split(name), expected, "{name}");
        }
    }
}
