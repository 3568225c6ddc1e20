//! One pull: what is asked for, how often and for how long (docs/behaviour/node-agent.md#one-pull).

use std::collections::BTreeMap;
use std::time::Duration;

use api::kinds::nodeimage::{Tag, TagPullPolicy};
use api::kinds::shared::SandboxConfig;

use values::backoff::doubled;
use values::image_reference::ImageReference;

/// Names the puller to runtimes and their observers.
const PULLED_BY: (&str, &str) = ("apps.kruise.io/pulling-image-by", "kruise-daemon");
/// How long an attempt may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How often a pull is tried again where nothing is said.
const RETRIES: u32 = 3;
/// The first pause and the longest between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The name of an image with its tag, or with the digest that takes the place of one.
pub fn reference(image: &str, tag: &str) -> String {
    let separator = if tag.contains(':') { '@' } else { ':' };
    format!("{image}{separator}{tag}")
}

/// An image that is on the node.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// Its names with tags.
    pub tags: &'a [String],
    /// Its names with digests.
    pub digests: &'a [String],
}

impl Present<'_> {
    /// Whether it is the one of this name, however the runtime spells it.
    pub fn is(&self, reference: &str) -> bool {
        let wanted = ImageReference::new(reference);
        let names = if wanted.digest().is_some() { self.digests } else { self.tags };
        names.iter().any(|name| ImageReference::new(name).same_image(&wanted))
    }
}

/// Whether an image that is there is not asked for again.
pub fn is_satisfied_by_present(task: &Tag) -> bool {
    matches!(task.image_pull_policy.as_str(), "" | "IfNotPresent")
}

/// The metadata that is sent with a request. It is never empty: runtimes may fail without any.
pub fn sandbox(config: &SandboxConfig) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let mut annotations = config.annotations.clone();
    annotations.insert(PULLED_BY.0.to_owned(), PULLED_BY.1.to_owned());
    (config.labels.clone(), annotations)
}

/// How often and how long a pull is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long one attempt may take.
    timeout: Duration,
    /// How many there may be.
    pub attempts: u32,
    /// How long all of them may take.
    deadline: Option<Duration>,
}

/// What to do next about a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait so long.
    Wait(Duration),
    /// Try for so long at most.
    Try(Duration),
    /// It has failed: there are no attempts left.
    Exhausted,
    /// It has failed: there is no time left.
    Late,
}

impl Terms {
    /// Those of a task.
    pub fn new(policy: &TagPullPolicy) -> Self {
        let seconds = |value: i64| Duration::from_secs(u64::try_from(value).unwrap_or_default());
        let retries = policy.backoff_limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(RETRIES);
        Self {
            timeout: policy.timeout_seconds.map_or(TIMEOUT, |timeout| seconds(timeout.into())),
            attempts: retries.saturating_add(1),
            deadline: policy.active_deadline_seconds.map(seconds),
        }
    }

    /// What to do after so many failed attempts, so long after the start of the pull. `rested` says that the
    /// pause after the last of them is over.
    pub fn next(&self, failed: u32, elapsed: Duration, rested: bool) -> Next {
        let left = self.deadline.map(|deadline| deadline.saturating_sub(elapsed));
        if failed >= self.attempts {
            return Next::Exhausted;
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Next::Late;
        }
        let bounded = |time: Duration| left.map_or(time, |left| time.min(left));
        match failed.checked_sub(1) {
            Some(times) if !rested => Next::Wait(bounded(doubled(PAUSES, times))),
            _ => Next::Try(bounded(self.timeout)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(timeout: Option<i32>, backoff: Option<i32>, deadline: Option<i64>) -> Terms {
        Terms::new(&TagPullPolicy {
            timeout_seconds: timeout,
            backoff_limit: backoff,
            active_deadline_seconds: deadline,
            ..TagPullPolicy::default()
        })
    }

    /// All that a pull does whose attempts fail after `each`, in seconds.
    fn course(terms: Terms, each: u64) -> (Vec<Next>, u64) {
        let (mut steps, mut elapsed, mut failed, mut rested) = (Vec::new(), Duration::ZERO, 0, true);
        loop {
            let next = terms.next(failed, elapsed, rested);
            steps.push(next);
            match next {
                Next::Wait(pause) => (elapsed, rested) = (elapsed + pause, true),
                Next::Try(limit) => {
                    elapsed += limit.min(Duration::from_secs(each));
                    (failed, rested) = (failed + 1, false);
                }
                Next::Exhausted | Next::Late => return (steps, elapsed.as_secs()),
            }
        }
    }

    #[test]
    fn a_pull_ends_with_its_attempts_or_with_its_time() {
        let seconds = Duration::from_secs;
        let (steps, elapsed) = course(terms(Some(2), Some(1), None), 60);
        let expected =
            [Next::Try(seconds(2)), Next::Wait(seconds(1)), Next::Try(seconds(2)), Next::Exhausted];
        assert_eq!((steps.as_slice(), elapsed), (&expected[..], 5), "no pause follows the last attempt");
        let (steps, elapsed) = course(terms(None, None, Some(3)), 60);
        assert_eq!((steps.as_slice(), elapsed), (&[Next::Try(seconds(3)), Next::Late][..], 3));
        let (steps, elapsed) = course(terms(None, Some(9), Some(4)), 1);
        assert_eq!((steps.last(), elapsed), (Some(&Next::Late), 4), "a pause ends with the deadline");
        let (steps, _) = course(terms(None, Some(-1), None), 1);
        assert_eq!(steps.iter().filter(|next| matches!(next, Next::Try(_))).count(), 4);
        let (steps, _) = course(terms(None, Some(7), None), 0);
        let pauses: Vec<u64> = steps
            .iter()
            .filter_map(|next| if let Next::Wait(pause) = next { Some(pause.as_secs()) } else { None })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(course(terms(Some(0), Some(i32::MAX), Some(0)), 1).0, [Next::Late]);
    }

    #[test]
    fn images_are_known_by_tag_or_digest() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let tags = ["docker.io/library/busybox:1.36".to_owned()];
        let digests = [format!("docker.io/library/busybox@{digest}")];
        let present = Present { tags: &tags, digests: &digests };
        assert!(present.is(&reference("busybox", "1.36")) && present.is(&reference("busybox", &digest)));
        assert!(!present.is("busybox:1.37") && !present.is("team/busybox:1.36"));
        assert_eq!(reference("a", &digest), format!("a@{digest}"));
    }

    #[test]
    fn requests_say_who_pulls() {
        let mut config = SandboxConfig::default();
        config.annotations.insert("a".to_owned(), "b".to_owned());
        let (_, annotations) = sandbox(&config);
        let pairs: Vec<(&str, &str)> =
            annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "b"), PULLED_BY]);
    }
}
