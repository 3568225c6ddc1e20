use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const GRACE: Duration = seconds(30);

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn hooked(container: &str, after: &[&str], tail: u64) -> Hooked {
    let after = after.iter().map(|name| (*name).to_owned()).collect();
    Hooked { container: container.to_owned(), after, grace: GRACE, tail: seconds(tail), window: seconds(10) }
}

fn container(name: &str, condition: Condition) -> RuntimeContainer {
    let labels = [("io.kubernetes.container.name".to_owned(), name.to_owned())].into();
    RuntimeContainer { id: format!("id-{name}"), condition, labels, ..RuntimeContainer::default() }
}

fn runs(names: &[&str]) -> Vec<RuntimeContainer> {
    names.iter().map(|name| container(name, Condition::Running)).collect()
}

/// `main`, then `log`, then `envoy`.
fn three() -> Vec<Hooked> {
    vec![hooked("log", &["main"], 4), hooked("envoy", &["main", "log"], 2)]
}

/// The containers that get a message, and the last argument.
fn shown(marks: &[Mark]) -> Vec<(&str, &str)> {
    marks.iter().map(|mark| (mark.container.as_str(), mark.command.last().unwrap().as_str())).collect()
}

fn pod(metadata: &Value, status: &Value) -> ObservedPod {
    serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
}

#[test]
fn the_time_that_is_left_is_that_of_the_deletion() {
    let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
    let deleted = |grace: Option<i64>| {
        let grace = json!(grace);
        let end = "2026-01-01T00:00:30Z";
        pod(&json!({"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}), &json!({}))
    };
    let left = |pod: &ObservedPod, is_news| remaining(pod, &three(), is_news, now).as_secs();
    assert_eq!(left(&deleted(Some(25)), true), 25);
    assert_eq!(left(&deleted(Some(25)), false), 20);
    assert_eq!(left(&deleted(Some(5)), false), 5, "the clock of the node is behind");
    assert_eq!(left(&deleted(Some(-1)), true), 0);
    assert_eq!(left(&deleted(None), true), 30);
    assert_eq!(left(&pod(&json!({}), &json!({})), false), 30);
}

fn log_released() -> Settled {
    let event = normal("ContainerExitReleased", "Container log released after main exited".to_owned());
    Settled { outcome: Outcome::Ordered, event: Some(event) }
}

#[test]
fn containers_are_held_and_let_go_in_their_order() {
    let mut end = End::new(three(), GRACE, seconds(100));
    let all = runs(&["main", "log", "envoy"]);
    let Step { holds, releases, .. } = end.step(&all, seconds(100));
    assert_eq!(shown(&holds), [("log", "--remaining-ms=25000"), ("envoy", "--remaining-ms=27000")]);
    assert_eq!(releases, []);
    assert_eq!(holds[0].command[..4], [HOOK, "mark", "--name=log", "--state=hold"]);
    assert_eq!(holds[0].id, "id-log");
    assert_eq!(end.step(&all, seconds(101)), Step::default());

    let rest = runs(&["log", "envoy"]);
    assert_eq!(shown(&end.step(&rest, seconds(105)).releases), [("log", "--state=release")]);
    assert_eq!(end.reported("log", true, seconds(105)), Some(log_released()));
    assert_eq!(end.step(&rest, seconds(106)), Step::default(), "log still ends");

    let last = [container("log", Condition::Exited), container("envoy", Condition::Running)];
    assert_eq!(shown(&end.step(&last, seconds(107)).releases), [("envoy", "--state=release")]);
    assert!(end.reported("envoy", true, seconds(107)).is_some());
    assert!(end.step(&last, seconds(108)).is_over);
}

#[test]
fn a_container_that_hangs_lets_the_others_go_in_their_time() {
    let mut end = End::new(three(), GRACE, Duration::ZERO);
    let all = runs(&["main", "log", "envoy"]);
    end.step(&all, Duration::ZERO);
    assert_eq!(end.step(&all, Duration::from_millis(24_999)), Step::default());
    let late = |message: &str| {
        let event = Some(warning("ContainerExitOrderTimeout", message.to_owned()));
        vec![Settled { outcome: Outcome::Timeout, event }]
    };
    let step = end.step(&all, seconds(25));
    assert_eq!((step.settled, step.is_over), (late("Container log was let go while main still run"), false));
    let step = end.step(&all, seconds(27));
    assert_eq!(
        (step.settled, step.is_over),
        (late("Container envoy was let go while main, log still run"), true)
    );
    assert_eq!(end.step(&all, seconds(28)).settled, []);
}

#[test]
fn a_shorter_time_counts_and_a_longer_one_does_not() {
    let mut end = End::new(three(), GRACE, Duration::ZERO);
    let all = runs(&["main", "log", "envoy"]);
    end.step(&all, Duration::ZERO);
    end.held("log", true, Duration::ZERO);
    end.shorten(seconds(40), seconds(1));
    assert_eq!(end.step(&all, seconds(1)), Step::default());
    end.shorten(seconds(9), seconds(1));
    assert_eq!(shown(&end.step(&all, seconds(1)).holds), [("log", "--remaining-ms=4000")]);
    // The message that is being delivered is not its time any more.
    end.held("envoy", true, seconds(1));
    assert_eq!(shown(&end.step(&all, seconds(1)).holds), [("envoy", "--remaining-ms=6000")]);
    assert!(end.step(&runs(&["main"]), seconds(1)).is_over, "nobody waits any more");
}

#[test]
fn a_hook_that_can_not_be_told_is_tried_four_times() {
    let mut end = End::new(vec![hooked("log", &["main"], 2)], GRACE, Duration::ZERO);
    let all = runs(&["log"]);
    let mut tries = Vec::new();
    for tick in 0..30 {
        let now = Duration::from_millis(tick * 100);
        let step = end.step(&all, now);
        if !step.releases.is_empty() {
            tries.push((tick, end.reported("log", false, now)));
        }
    }
    let given_up = Some(Settled { outcome: Outcome::ExecError, event: None });
    assert_eq!(tries, [(0, None), (2, None), (6, None), (14, given_up)]);
    assert!(end.step(&all, seconds(3)).is_over);
}

#[test]
fn a_container_that_ends_before_it_is_known_to_be_told_ends_in_order() {
    let ends = |others: &[&str]| {
        let mut end = End::new(vec![hooked("log", &["main"], 2)], GRACE, Duration::ZERO);
        assert_eq!(end.step(&runs(&["log"]), seconds(1)).releases.len(), 1);
        assert_eq!(end.reported("log", false, seconds(1)), None);
        end.step(&runs(others), seconds(2))
    };
    assert_eq!(ends(&[]), Step { settled: vec![log_released()], is_over: true, ..Step::default() });
    assert_eq!(ends(&["main"]), Step { is_over: true, ..Step::default() }, "main is back");
    let mut end = End::new(vec![hooked("log", &["main"], 2)], GRACE, Duration::ZERO);
    assert_eq!(end.step(&[], seconds(1)).settled, [], "nothing was tried");
}

#[test]
fn a_hook_that_can_not_be_told_to_wait_is_told_again_while_it_listens() {
    let mut end = End::new(vec![hooked("log", &["main"], 2)], GRACE, Duration::ZERO);
    let mut tries = Vec::new();
    for tick in 0..200 {
        let now = Duration::from_millis(tick * 100);
        for _ in end.step(&runs(&["main", "log"]), now).holds {
            tries.push(tick);
            end.held("log", false, now);
        }
    }
    assert_eq!(tries, (0..100).step_by(5).collect::<Vec<_>>());
    let mut end = End::new(vec![hooked("log", &["main"], 2)], GRACE, Duration::ZERO);
    let all = runs(&["main", "log"]);
    for (now, held) in [(0, false), (1, true)] {
        assert_eq!(end.step(&all, seconds(now)).holds.len(), 1);
        end.held("log", held, seconds(now));
    }
    assert_eq!(end.step(&all, seconds(2)).holds, [], "it knows");
}

/// A Pod that ends on a node, in steps of 100 ms.
struct Course {
    /// By name: its value, and how many steps it needs after it was asked to stop.
    containers: BTreeMap<String, (usize, u64)>,
    plan: Vec<Hooked>,
    /// Until when each hook waits, by its last message.
    held: BTreeMap<String, Duration>,
    /// When each container was asked to stop.
    asked: BTreeMap<String, u64>,
}

const STEP: Duration = Duration::from_millis(100);

fn at(step: u64) -> Duration {
    Duration::from_millis(step * 100)
}

impl Course {
    fn new(containers: &[(usize, u64)], reserve: u64) -> Self {
        let named = containers.iter().enumerate().map(|(index, container)| (format!("c{index}"), *container));
        let containers: BTreeMap<_, _> = named.collect();
        let mut values: Vec<usize> = containers.values().map(|(value, _)| *value).collect();
        values.sort_unstable();
        values.dedup();
        let plan = containers.iter().filter_map(|(name, (value, _))| {
            let lower = containers.iter().filter(|(_, (other, _))| other < value);
            let after: Vec<&str> = lower.map(|(name, _)| name.as_str()).collect();
            let behind = values.iter().filter(|other| *other >= value).count();
            (!after.is_empty()).then(|| hooked(name, &after, reserve * u64::try_from(behind).unwrap()))
        });
        let plan: Vec<_> = plan.collect();
        Self { containers, plan, held: BTreeMap::new(), asked: BTreeMap::new() }
    }

    fn is_alive(&self, name: &str, step: u64) -> bool {
        let needed = self.containers[name].1;
        at(step) < GRACE && self.asked.get(name).is_none_or(|asked| step < asked + needed)
    }

    fn running(&self, step: u64) -> Vec<RuntimeContainer> {
        let alive = self.containers.keys().filter(|name| self.is_alive(name, step));
        alive.map(|name| container(name, Condition::Running)).collect()
    }

    /// The kubelet asks those to stop whose hooks are over, each in its turn.
    fn go_on(&mut self, step: u64) {
        for name in self.containers.keys() {
            let waits = self.plan.iter().find(|hooked| hooked.container == *name);
            let is_held =
                waits.is_some_and(|hooked| at(step) < self.held.get(name).copied().unwrap_or(hooked.window));
            if !is_held && !self.asked.contains_key(name) {
                self.asked.insert(name.clone(), step);
            }
        }
    }

    /// Whether each container that was asked to stop at this step came after all lower ones, or had waited enough.
    fn keeps_its_order(&self, step: u64) -> bool {
        let asked = self.plan.iter().filter(|hooked| self.asked.get(&hooked.container) == Some(&step));
        let mut asked = asked.map(|hooked| {
            let waited = at(step) + STEP + hooked.tail + OWN >= GRACE;
            waited || hooked.after.iter().all(|name| !self.is_alive(name, step))
        });
        asked.all(|holds| holds)
    }
}

proptest! {
    /// Whatever containers need, and whenever the agent starts again: none is let go while one of a lower value runs
    /// unless its time to wait is over, and all messages are delivered in the end.
    #[test]
    fn no_container_ends_before_its_turn(
        containers in prop::collection::vec((0..4_usize, 0..400_u64), 1..6),
        reserve in 0..4_u64,
        down in 1..300_u64,
        down_for in 0..60_u64,
        fails in prop::collection::vec(prop::bool::weighted(0.2), 1000),
    ) {
        let mut course = Course::new(&containers, reserve);
        let mut fails = fails.into_iter();
        let mut end: Option<End> = None;
        let mut is_over = false;
        for step in 0..430 {
            if step == down {
                (end, is_over) = (None, false);
            }
            let is_down = step >= down && step < down + down_for;
            let observed = course.running(step);
            if !is_down && !is_over {
                let new = || End::new(course.plan.clone(), GRACE.saturating_sub(at(step)), at(step));
                let end = end.get_or_insert_with(new);
                let found = end.step(&observed, at(step));
                for mark in &found.holds {
                    let succeeded = fails.next() != Some(true);
                    end.held(&mark.container, succeeded, at(step));
                    if succeeded {
                        let rest = mark.command.last().unwrap().strip_prefix("--remaining-ms=").unwrap();
                        let until = at(step) + Duration::from_millis(rest.parse().unwrap());
                        // A hook that was let go stays so.
                        let known = course.held.entry(mark.container.clone()).or_insert(until);
                        *known = if known.is_zero() { Duration::ZERO } else { until };
                    }
                }
                for mark in &found.releases {
                    let succeeded = fails.next() != Some(true);
                    if succeeded {
                        course.held.insert(mark.container.clone(), Duration::ZERO);
                    }
                    end.reported(&mark.container, succeeded, at(step));
                }
                is_over = found.is_over;
            }
            course.go_on(step);
            prop_assert!(course.keeps_its_order(step), "step {step}: {:?} of {containers:?}", course.asked);
        }
        prop_assert!(course.running(301).is_empty() && is_over);
    }
}
