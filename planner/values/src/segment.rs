//! Secret segments of paths, by which a server recognizes its callers, and texts without them.

use std::fmt;

/// Digits of a segment.
const DIGITS: usize = 32;

/// A segment of a path that nobody can guess: 128 random bits. It has no text form but those that registering
/// and storing need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment(u128);

impl Segment {
    /// The segment of these random bits.
    pub const fn new(random: u128) -> Self {
        Self(random)
    }

    /// Whether both are the same. The time that this takes reveals nothing of them.
    pub fn equals(self, other: Self) -> bool {
        std::hint::black_box(self.0 ^ other.0) == 0
    }

    /// The segment that `text` is.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let formed = text.len() == DIGITS && text.bytes().all(digits);
        formed.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    /// The segments of a stored text; what is none is left out.
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.split_whitespace().filter_map(Self::parse).collect()
    }

    /// The text under which segments are stored.
    pub fn store(segments: &[Self]) -> String {
        let texts: Vec<String> = segments.iter().map(|segment| format!("{:032x}", segment.0)).collect();
        texts.join(" ")
    }

    /// The path to register for `path`.
    pub fn before(self, path: &str) -> String {
        format!("/{:032x}{path}", self.0)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Segment(..)")
    }
}

/// The path that is called, apart from the segment in front of it.
pub fn split(called: &str) -> (Option<Segment>, &str) {
    let parts = || {
        let (segment, path) = called.strip_prefix('/')?.split_at_checked(DIGITS)?;
        Some((Segment::parse(segment).filter(|_| path.starts_with('/'))?, path))
    };
    parts().map_or((None, called), |(segment, path)| (Some(segment), path))
}

/// A text that may quote the URL of a call, as the API server's own do where a webhook fails, without the segment.
pub fn without_segments(text: &str) -> String {
    let mut parts = text.split('/');
    let start = parts.next();
    let kept = start.into_iter().chain(parts.filter(|part| Segment::parse(part).is_none()));
    kept.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Segment = Segment(0xa);
    const C: Segment = Segment(u128::MAX);

    #[test]
    fn a_segment_is_a_label_and_nothing_else_is_a_segment() {
        for segment in [A, C, Segment(0)] {
            let path = segment.before("/mutate-pod");
            let label = path.strip_suffix("/mutate-pod").unwrap().strip_prefix('/').unwrap();
            assert_eq!(label.len(), 32);
            assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            assert_eq!(split(&path), (Some(segment), "/mutate-pod"));
        }
        let label = "0123456789abcdef0123456789abcdef";
        for path in [
            "/mutate-pod".to_owned(),
            format!("/{label}"),
            format!("/{}/x", label.to_uppercase()),
            format!("/+{}/x", &label[1..]),
            format!("/{label}0/x"),
            format!("//{label}/x"),
            format!("/{}é/x", &label[..31]),
            String::new(),
        ] {
            assert_eq!(split(&path), (None, path.as_str()));
        }
        assert_eq!(Segment::parse_all(&format!("{} x {label}", Segment::store(&[C, A]))).len(), 3);
        assert_eq!(Segment::parse_all(&Segment::store(&[C, A])), [C, A]);
        let shown = format!("{A:?}");
        assert_eq!(shown, "Segment(..)");
    }

    #[test]
    fn texts_lose_segments_and_nothing_else() {
        let said = |segment: &str| {
            let url = format!(
                "https://kruise-webhook-service.kruise-system.svc:443{segment}/mutate-pod?timeout=10s"
            );
            format!(
                "failed calling webhook \"a/b\": failed to call webhook: Post \"{url}\": EOF; {segment}/convert"
            )
        };
        for segment in [A, C] {
            assert_eq!(without_segments(&said(&segment.before(""))), said(""));
        }
        let label = "0123456789abcdef0123456789abcdef";
        for text in
            ["", "/", "a//b/", label, &format!("{label}/x"), &format!("/{label}0/x"), &format!("/x{label}")]
        {
            assert_eq!(without_segments(text), text);
        }
    }
}
