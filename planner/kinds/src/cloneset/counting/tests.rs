use api::kinds::cloneset::CloneSet;
use proptest::prelude::*;

use super::*;

/// Pods as docs/behaviour/cloneset.md#worked-results writes them: `5o 1n' o* n~`.
fn groups(text: &str) -> (Group, Group) {
    let (mut old, mut new) = (Group::default(), Group::default());
    for word in text.split_whitespace() {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        let rest = &word[digits.len()..];
        let group = if rest.starts_with('o') { &mut old } else { &mut new };
        for _ in 0..digits.parse().unwrap_or(1) {
            group.add(Facts {
                preparing_delete: rest.ends_with('-'),
                specified: rest.contains('*'),
                available: !rest.ends_with(['\'', '~']),
                serving: !rest.ends_with('\''),
            });
        }
    }
    (old, new)
}

fn answer(spec: &str, rollback: bool, pods: &str) -> Difference {
    let text = format!(r#"{{"spec":{spec}}}"#);
    let set: CloneSet = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let limits = Limits::of(&set.spec);
    let (old, new) = groups(pods);
    Question { limits, rollback, ..Question::default() }.answer(old, new)
}

fn spec(replicas: i32, partition: &str, unavailable: &str, surge: &str, more: &str) -> String {
    format!(
        r#"{{"replicas":{replicas},"updateStrategy":{{"type":"RollingUpdate","rollingUpdate":{{
        "partition":{partition},"maxUnavailable":{unavailable},"maxSurge":{surge}{more}}}}}}}"#
    )
}

const NONE: Difference = Difference {
    surge: 0,
    surge_old: 0,
    up: 0,
    up_old: 0,
    up_limit: 0,
    down: 0,
    down_old: 0,
    ready_limit: 0,
    proven_limit: 0,
    serving_limit: 0,
    update: 0,
    update_limit: 0,
    goes_back: false,
};

/// The table of docs/behaviour/cloneset.md#worked-results.
#[test]
fn worked_results() {
    let update = |update, update_limit| Difference { update, update_limit, ..NONE };
    let up = |up, up_limit| Difference { up, up_limit, ..NONE };
    let cases = [
        ("0", "1", "0", "", false, up(5, 5)),
        ("0", "1", "0", "4n n*", false, Difference { ready_limit: 1, ..NONE }),
        ("3", "1", "0", "5o", false, update(2, 1)),
        ("4", "2", "0", "4n 1o", true, Difference { goes_back: true, ..update(-3, 2) }),
        ("4", "1", "0", "4n 1o", false, NONE),
        ("0", "0", "1", "4n n*", false, Difference { surge: 1, ..up(1, 1) }),
        ("0", "0", "1", "4n n* 1n", false, Difference { surge: 1, ready_limit: 1, ..NONE }),
        ("3", "1", "1", "5o", false, Difference { surge: 1, up: 1, up_limit: 1, ..update(2, 1) }),
        ("3", "1", "1", "5o 1n'", false, Difference { surge: 1, ..update(1, 2) }),
        (
            "3",
            "1",
            "1",
            "4o o* 1n'",
            false,
            Difference { surge: 1, surge_old: 1, ready_limit: 1, ..update(1, 2) },
        ),
        ("3", "1", "1", "4o 1n'", false, Difference { surge: 1, up: 1, up_limit: 1, ..update(1, 1) }),
        ("3", "1", "1", "4o 2n'", false, Difference { down: 1, down_old: 1, ..NONE }),
        (r#""99%""#, "3", "2", "5o", false, Difference { surge: 1, up: 1, up_limit: 1, ..update(1, 3) }),
        (r#""99%""#, "3", "2", "5o 1n'", false, Difference { down: 1, down_old: 1, ready_limit: 3, ..NONE }),
    ];
    for (partition, unavailable, surge, pods, rollback, expected) in cases {
        // Where all that serve are available the limits are one.
        let limit = expected.ready_limit;
        let expected = Difference { proven_limit: limit, serving_limit: limit, ..expected };
        let spec = spec(5, partition, unavailable, surge, "");
        assert_eq!(answer(&spec, rollback, pods), expected, "P={partition} U={unavailable} S={surge} {pods}");
    }
}

/// The rows of docs/behaviour/cloneset.md#worked-results with other replicas, paused, or with a limit on
/// scaling.
#[test]
fn worked_results_with_other_settings() {
    let scaled_in = answer(&spec(4, "0", "1", "0", ""), false, "3n 2n*");
    assert_eq!(scaled_in, Difference { ready_limit: 2, proven_limit: 2, serving_limit: 2, ..NONE });
    let paused = answer(&spec(5, "0", "0", "3", r#","paused":true"#), false, "3o");
    assert_eq!(paused, Difference { up: 2, up_limit: 2, update: 3, update_limit: -2, ..NONE });
    for (pods, up_limit) in [("2n n'", 1), ("1n 2n'", 0)] {
        let limited =
            spec(6, "0", "1", "0", "").replacen('{', r#"{"scaleStrategy":{"maxUnavailable":2},"#, 1);
        assert_eq!(answer(&limited, false, pods), Difference { up: 3, up_limit, ..NONE }, "{pods}");
    }
}

/// "First steps of a rollout" of docs/behaviour/cloneset.md#worked-results.
#[test]
fn first_steps_of_a_rollout() {
    for (unavailable, surge, up, update, limit) in [
        ("1", "0", 0, 5, 1),
        ("2", "0", 0, 5, 2),
        ("0", "1", 1, 5, 0),
        ("0", "2", 2, 5, 0),
        ("0", "3", 3, 5, 0),
        ("1", "1", 1, 5, 1),
        ("1", "2", 2, 5, 1),
        ("2", "1", 1, 5, 2),
    ] {
        let first = answer(&spec(5, "0", unavailable, surge, ""), false, "5o");
        assert_eq!(
            (first.up, first.update, first.update_limit),
            (up, update, limit),
            "{unavailable} {surge}"
        );
    }
    // Three surge Pods exist: the gap is 2, so one old Pod is too many once the new ones are available.
    let waiting = answer(&spec(5, "0", "0", "3", ""), false, "5o 3n'");
    assert_eq!((waiting.surge, waiting.up, waiting.down), (3, 0, 0));
    let available = answer(&spec(5, "0", "0", "3", ""), false, "5o 3n");
    assert_eq!((available.down, available.ready_limit), (1, 3));
    assert_eq!(answer(&spec(5, "0", "0", "3", ""), false, "4o 3n").update, 2);
}

/// New Pods of a blue-green release are never available before its end: each larger `maxSurge` brings more of them.
#[test]
fn more_surge_brings_more_pods_beside_new_ones_that_are_not_available() {
    for (surge, pods, expected) in [
        ("1", "5o", (1, 1, 0)),
        ("3", "5o 1n~", (3, 2, 0)),
        ("5", "5o 3n~", (5, 2, 0)),
        ("5", "5o 5n~", (0, 0, 5)),
        // What was there may go where it is not needed: old Pods when new ones are available, broken ones at once.
        ("5", "5o 3n", (2, 0, 1)),
        ("5", "5o 1n 2n'", (4, 1, 0)),
        ("3", "5o 5n'", (0, 0, 5)),
    ] {
        let found = answer(&spec(5, "0", "0", surge, ""), false, pods);
        assert_eq!((found.surge, found.up, found.down), expected, "{surge} {pods}");
    }
}

/// A longer `minReadySeconds` makes no Pod broken, and no new Pod good enough for an old one to go.
#[test]
fn pods_that_serve_at_an_older_revision_may_go_only_beside_proven_ones() {
    for (replicas, unavailable, surge, pods, expected) in [
        (5, "0", "3", "5o~ 3n~", (0, 0, 0, 0)),
        (5, "0", "5", "5o~ 5n~", (5, 0, 0, 5)),
        (5, "1", "5", "5o~ 5n~", (5, 0, 1, 6)),
        (3, "0", "3", "5o~ 5n~", (7, 0, 2, 7)),
        (3, "1", "0", "5n~", (2, 0, 0, 3)),
        (5, "0", "3", "5o 5n~", (5, 0, 0, 5)),
        (5, "0", "3", "5o~ 3n", (1, 0, 3, 3)),
    ] {
        let found = answer(&spec(replicas, "0", unavailable, surge, ""), false, pods);
        let found = (found.down, found.ready_limit, found.proven_limit, found.serving_limit);
        assert_eq!(found, expected, "R={replicas} U={unavailable} S={surge} {pods}");
    }
}

/// The same where Pods go back: those at the update revision served before.
#[test]
fn pods_that_go_back_may_go_only_beside_proven_ones() {
    for (replicas, partition, unavailable, surge, pods, expected) in [
        (5, "5", "0", "3", "5n~ 3o~", (0, 0, 0, 0, 0)),
        (5, "5", "0", "5", "5n~ 5o~", (5, 5, 0, 0, 5)),
        (5, "5", "1", "5", "5n~ 5o~", (5, 5, 0, 1, 6)),
        (5, "3", "0", "3", "5n~ 3o~", (3, 3, 0, 0, 3)),
        (5, "3", "0", "3", "5n~ 3o", (3, 3, 0, 3, 3)),
        (5, "3", "0", "1", "4n~ n*~ o~", (0, 0, 0, 0, 1)),
        (5, "3", "0", "1", "4n~ n*~ o", (0, 0, 0, 1, 1)),
        (3, "3", "0", "5", "5n~ 5o~", (7, 5, 0, 2, 7)),
        (5, "2", "1", "0", "2o~ 6n~", (3, 3, 0, 2, 4)),
        // All that is new returns, also where as many old Pods are too many.
        (1, "1", "0", "5", "4n~ 5o~", (8, 4, 0, 3, 8)),
        // A named Pod counts as one that returns.
        (4, "3", "1", "0", "3o~ n~ n*~", (0, 0, 0, 0, 2)),
    ] {
        let found = answer(&spec(replicas, partition, unavailable, surge, ""), true, pods);
        let new = found.down - found.down_old;
        let limits = (found.down, new, found.ready_limit, found.proven_limit, found.serving_limit);
        assert_eq!(limits, expected, "R={replicas} P={partition} U={unavailable} S={surge} {pods}");
        assert!(found.goes_back && found.is_left(false) && !found.is_left(true), "{pods}");
    }
    let found = answer(&spec(5, "5", "0", "3", ""), true, "5n~ 3o~");
    assert_eq!((found.surge, found.surge_old, found.update, found.update_limit), (3, 3, -2, 3));
    // What is updated to the update revision leaves the older ones, gate or not, and so does what is at rest. Without a
    // partition nothing returns, whichever side has more Pods than it needs.
    for (partition, pods) in [("0", "5o~ 3n~"), ("3", "3o~ 2n~"), ("0", "2o~ 8n~")] {
        let found = answer(&spec(5, partition, "0", "3", ""), true, pods);
        assert!(!found.goes_back && found.is_left(true) && !found.is_left(false), "{pods}");
        assert_eq!(found, answer(&spec(5, partition, "0", "3", ""), false, pods), "{pods}");
    }
}

/// docs/behaviour/cloneset.md#numbers-and-percentages: percentages of maxUnavailable and maxSurge, and
/// paused.
#[test]
fn limits_follow_the_resolution_table() {
    let limits = |unavailable: &str, surge: &str, more: &str| {
        let text = format!(r#"{{"spec":{}}}"#, spec(10, "0", unavailable, surge, more));
        let limits = Limits::of(&serde_json::from_str::<CloneSet>(&text).unwrap().spec);
        (limits.max_unavailable, limits.max_surge)
    };
    assert_eq!(limits(r#""5%""#, "0", ""), (1, 0));
    assert_eq!(limits(r#""5%""#, "1", ""), (0, 1));
    assert_eq!(limits(r#""25%""#, r#""25%""#, ""), (2, 3));
    assert_eq!(limits(r#""25%""#, "3", r#","paused":true"#), (3, 0));
    assert_eq!(
        limits(r#""12.5%""#, r#""12.5%""#, ""),
        (1, 2),
        "decimals count (docs/behaviour/cloneset.md#numbers-and-percentages)"
    );
    let on_delete = r#"{"spec":{"replicas":9,"updateStrategy":{"type":"OnDelete"}}}"#;
    let limits = Limits::of(&serde_json::from_str::<CloneSet>(on_delete).unwrap().spec);
    assert_eq!(limits, Limits { replicas: 9, max_unavailable: 1, ..Limits::default() });
}

#[test]
fn a_ready_pod_does_not_go_beside_a_broken_one_that_goes() {
    let limits = Limits { replicas: 3, max_unavailable: 1, ..Limits::default() };
    let question = Question { limits, ..Question::default() };
    let mut new = Group::default();
    for (specified, available) in [(true, false), (true, true), (false, true)] {
        new.add(Facts { preparing_delete: false, specified, available, serving: available });
    }
    assert_eq!(question.answer(Group::default(), new).ready_limit, 0);
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let max = i64::from(i32::MAX);
    let limits = Limits {
        replicas: max,
        partition: max,
        max_surge: max,
        max_unavailable: max,
        scale_max_unavailable: Some(max),
    };
    let question = Question { limits, rollback: true, exclude_preparing_delete: true, keeps_serving: false };
    let group = Group {
        count: 9,
        preparing_delete: 2,
        active: 7,
        specified: 3,
        specified_unavailable: 1,
        unavailable: 1,
        waiting: 1,
    };
    assert!(question.answer(group, group).up > 0);
}

/// One Pod of the small stepper.
#[derive(Clone, Copy, Debug)]
struct Pod {
    new: bool,
    available: bool,
    specified: bool,
}

fn count(pods: &[Pod]) -> (Group, Group) {
    let (mut old, mut new) = (Group::default(), Group::default());
    for pod in pods {
        let Pod { specified, available, .. } = *pod;
        let facts = Facts { preparing_delete: false, specified, available, serving: available };
        if pod.new { new.add(facts) } else { old.add(facts) }
    }
    (old, new)
}

/// Carries out one answer; availability falls only by what the answer allows.
fn step(question: &Question, pods: &mut Vec<Pod>) {
    let (old, new) = count(pods);
    let difference = question.answer(old, new);
    if difference.up > 0 {
        for index in 0..difference.up_limit {
            pods.push(Pod { new: index >= difference.up_old, available: false, specified: false });
        }
        return;
    }
    let mut ready_limit = difference.ready_limit;
    let mut deletes = |pod: &Pod| {
        !pod.available || {
            ready_limit -= 1;
            ready_limit >= 0
        }
    };
    if pods.iter().any(|pod| pod.specified) {
        pods.retain(|pod| !pod.specified || !deletes(pod));
        return;
    }
    let (mut down_old, mut down_new) = (
        difference.down_old.min(difference.down),
        difference.down - difference.down_old.min(difference.down),
    );
    pods.sort_by_key(|pod| pod.available);
    pods.retain(|pod| {
        let left = if pod.new { &mut down_new } else { &mut down_old };
        if *left == 0 {
            return true;
        }
        *left -= 1;
        !deletes(pod)
    });
    if difference.down > 0 {
        return;
    }
    let mut unavailable = pods.iter().filter(|pod| !pod.available).count() as i64;
    for _ in 0..difference.update {
        let Some(pod) = pods.iter_mut().filter(|pod| !pod.new).min_by_key(|pod| pod.available) else { break };
        if pod.available {
            if unavailable >= difference.update_limit {
                break;
            }
            unavailable += 1;
        }
        *pod = Pod { new: true, available: false, specified: false };
    }
}

proptest! {
    /// Invariants 1 and 2: whatever the Pods do, our own steps keep the bounds.
    #[test]
    fn own_steps_keep_the_bounds(
        replicas in 0..12_i64, partition in 0..12_i64, surge in 0..6_i64, unavailable in 0..6_i64,
        moves in prop::collection::vec(0..4_u8, 1..60),
    ) {
        prop_assume!(surge + unavailable > 0);
        let partition = partition.min(replicas);
        let limits = Limits { replicas, partition, max_surge: surge, max_unavailable: unavailable, scale_max_unavailable: None };
        let question = Question { limits, ..Question::default() };
        let mut pods = vec![Pod { new: false, available: true, specified: false }; replicas as usize];
        for choice in moves {
            match choice {
                // The world: a Pod becomes available, breaks, or is named for deletion.
                0 => if let Some(pod) = pods.iter_mut().find(|pod| !pod.available) { pod.available = true },
                1 => if let Some(pod) = pods.first_mut() { pod.available = false },
                2 => if let Some(pod) = pods.last_mut() { pod.specified = true },
                _ => {}
            }
            let before = pods.iter().filter(|pod| pod.available).count() as i64;
            step(&question, &mut pods);
            let after = pods.iter().filter(|pod| pod.available).count() as i64;
            prop_assert!(pods.len() as i64 <= replicas + surge, "{} Pods", pods.len());
            prop_assert!(after >= before.min(replicas - unavailable), "{before} -> {after}: {pods:?}");
        }
        // Left alone, it converges: everything available, the partition kept.
        for pod in &mut pods {
            pod.available = true;
        }
        for _ in 0..200 {
            step(&question, &mut pods);
            for pod in &mut pods {
                pod.available = true;
            }
        }
        let new = pods.iter().filter(|pod| pod.new).count() as i64;
        prop_assert_eq!(pods.len() as i64, replicas);
        prop_assert!(new >= replicas - partition, "{} new of {}, partition {}", new, replicas, partition);
        prop_assert!(pods.iter().all(|pod| !pod.specified));
    }

    /// Back and forth are one: with the sides exchanged as many Pods may go.
    #[test]
    fn both_directions_have_the_same_limits(
        old in prop::collection::vec((any::<bool>(), 0..3_u8), 0..9),
        new in prop::collection::vec((any::<bool>(), 0..3_u8), 0..9),
        replicas in 0..9_i64, partition in 0..9_i64, surge in 0..4_i64, unavailable in 0..4_i64,
    ) {
        let group = |pods: &[(bool, u8)]| {
            let mut group = Group::default();
            for &(specified, health) in pods {
                group.add(Facts { preparing_delete: false, specified, available: health > 1, serving: health > 0 });
            }
            group
        };
        let (old, new) = (group(&old), group(&new));
        let partition = partition.min(replicas);
        let limits = Limits { replicas, partition, max_surge: surge, max_unavailable: unavailable, scale_max_unavailable: None };
        let question = Question { limits, rollback: true, ..Question::default() };
        let one = question.answer(old, new);
        let exchanged = Limits { partition: replicas - partition, ..limits };
        let other = Question { limits: exchanged, ..question }.answer(new, old);
        prop_assume!(one.goes_back != other.goes_back);
        prop_assert_eq!((one.down, one.update, one.update_limit), (other.down, -other.update, other.update_limit));
        prop_assert_eq!(one.allowance(), other.allowance());
    }
}
