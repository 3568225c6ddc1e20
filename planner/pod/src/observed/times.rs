//! The times in what injection notes on a Pod. Without them the notes of Pods that run the same sidecars are
//! equal, and a [`super::Pool`] keeps them once; with them each Pod costs another half of a kilobyte.

use std::borrow::Cow;

use api::annotations::{SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE};
use jiff::Timestamp;

use super::{ObservedPod, Second};
use values::moment::rfc3339;

/// The annotations with times in them, in the order in which their times are kept.
const STAMPED: [&str; 2] = [SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE];
/// What comes before a time (docs/behaviour/pod-mutation.md#the-record-on-the-pod).
const FIELD: &str = r#""updateTimestamp":""#;
/// What stands where a time was.
const TAKEN: &str = r#""updateTimestamp":"~""#;
/// Bytes of a time, as in `2006-01-02T15:04:05Z`.
const LENGTH: usize = 20;

impl ObservedPod {
    /// Takes the times out of the annotations and keeps them beside. Nothing is taken from a Pod whose
    /// annotations look as if that had been done already.
    pub fn take_times_out(&mut self) {
        let stamped = |key: &str| self.annotation(key).unwrap_or_default();
        if !self.metadata.times.is_empty() || STAMPED.iter().any(|key| stamped(key).contains(TAKEN)) {
            return;
        }
        let mut times = Vec::new();
        for key in STAMPED {
            self.replace(key, |text| without_times(text, &mut times));
        }
        self.metadata.times = times.into();
    }

    /// Undoes [`Self::take_times_out`].
    pub fn put_times_back(&mut self) {
        let times = std::mem::take(&mut self.metadata.times);
        if times.is_empty() {
            return;
        }
        let mut times = times.iter();
        for key in STAMPED {
            self.replace(key, |text| with_times(text, &mut times));
        }
    }

    /// The Pod with its annotations as they are in the cluster.
    pub fn whole(&self) -> Cow<'_, Self> {
        if self.metadata.times.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut whole = self.clone();
        whole.put_times_back();
        Cow::Owned(whole)
    }

    fn replace(&mut self, annotation: &str, by: impl FnOnce(&str) -> String) {
        let pairs = &mut self.metadata.annotations;
        let Some(position) = pairs.position(annotation) else { return };
        if let Some(pair) = pairs.0.get_mut(position) {
            pair.1 = by(&pair.1).into();
        }
    }
}

/// `text` without its times, which go to `times`. One in another form stays.
fn without_times(text: &str, times: &mut Vec<Second>) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(FIELD) {
        short.push_str(before);
        match time(after) {
            Some((time, after)) => {
                times.push(time);
                short.push_str(TAKEN);
                rest = after;
            }
            None => {
                short.push_str(FIELD);
                rest = after;
            }
        }
    }
    short.push_str(rest);
    short
}

/// The time at the start of `text`, if it is written as we would write it, and what comes behind its quote.
fn time(text: &str) -> Option<(Second, &str)> {
    let (written, after) = text.split_at_checked(LENGTH)?;
    let time = Second::from(written.parse::<Timestamp>().ok()?);
    Some((time, after.strip_prefix('"')?)).filter(|_| rfc3339(time.into()) == written)
}

fn with_times<'t>(text: &str, times: &mut impl Iterator<Item = &'t Second>) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut parts = text.split(TAKEN);
    whole.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let time = times.next().map(|time| Timestamp::from(*time));
        whole.push_str(FIELD);
        whole.push_str(&time.map_or_else(String::new, rfc3339));
        whole.push('"');
        whole.push_str(part);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod(annotations: [&str; 2]) -> ObservedPod {
        let mut pod = ObservedPod::default();
        let other = ("a", r#"{"updateTimestamp":"2026-01-02T03:04:05Z"}"#);
        pod.metadata.annotations = STAMPED.into_iter().zip(annotations).chain([other]).collect();
        pod
    }

    fn note(time: &str) -> String {
        format!(
            r#"{{"log":{{"updateTimestamp":"{time}","hash":"x"}},"mesh":{{"hash":"y","updateTimestamp":"2026-01-02T03:04:05Z"}}}}"#
        )
    }

    #[test]
    fn pods_that_differ_in_times_become_alike() {
        let [mut first, mut second] = ["2026-11-21T10:00:00Z", "2031-12-31T23:59:59Z"].map(|time| {
            let text = note(time);
            pod([&text, &text])
        });
        assert_ne!(first.metadata.annotations, second.metadata.annotations);
        for pod in [&mut first, &mut second] {
            let before = pod.clone();
            pod.take_times_out();
            assert_eq!(pod.metadata.times.len(), 4);
            assert_eq!(*pod.whole(), before);
            let taken = pod.clone();
            pod.take_times_out();
            assert_eq!(*pod, taken, "twice is as once");
        }
        assert_eq!(first.metadata.annotations, second.metadata.annotations);
        assert_ne!(first.metadata.times, second.metadata.times);
    }

    #[test]
    fn a_text_that_looks_like_ours_is_left_alone() {
        let text = note("~");
        let mut odd = pod([&text, &note("2026-11-21T10:00:00Z")]);
        let before = odd.clone();
        odd.take_times_out();
        assert_eq!(odd, before);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(
            texts in prop::array::uniform2(prop::collection::vec(prop_oneof![
                Just(FIELD.to_owned()), Just(TAKEN.to_owned()), Just("2026-11-21T10:00:00Z\"".to_owned()),
                Just("2026-02-31T10:00:00Z\"".to_owned()), Just("2026-11-21T10:00:00.1Z\"".to_owned()),
                Just("~\"".to_owned()), "[a-z\"{}:é]{0,3}",
            ], 0..12)),
        ) {
            let [first, second] = texts.map(|parts| parts.concat());
            let before = pod([&first, &second]);
            let mut taken = before.clone();
            taken.take_times_out();
            prop_assert_eq!(&*taken.whole(), &before);
            taken.put_times_back();
            prop_assert_eq!(taken, before);
        }
    }
}
