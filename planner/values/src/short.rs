//! Texts of others, which may be of any length, cut for a label, a message or a line of the log.

/// The longest name of an object, in bytes.
pub const NAME: usize = 253;
/// As much of a message as is reported, in bytes.
pub const MESSAGE: usize = 1024;

/// At most so many bytes of `text`, from its beginning.
pub fn shortened(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// JSON as messages show it: cut where it is long.
pub fn abridged(json: &str) -> String {
    const LIMIT: usize = 80;
    if json.len() > LIMIT { format!("{}...", shortened(json, LIMIT)) } else { json.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_kept_whole_or_left_out() {
        for (most, kept) in [(0, ""), (1, "a"), (2, "a"), (3, "a\u{e9}"), (4, "a\u{e9}b"), (9, "a\u{e9}b")] {
            assert_eq!(shortened("a\u{e9}b", most), kept, "{most}");
        }
    }
}
