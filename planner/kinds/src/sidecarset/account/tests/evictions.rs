//! Evictions: never more Pods of an owner away than allowed, none that helps nobody, and no wait without a reason.

use super::*;

/// What the API server answers.
enum Answer {
    Goes,
    Refused(&'static str),
}

/// Evicts what is chosen now, and gives the names of those Pods, and the words of why others stay.
fn decide_and(
    evictions: &mut Evictions,
    limit: u32,
    pods: &[ObservedPod],
    (now, registered): (i64, bool),
    answer: impl Fn(&str) -> Answer,
) -> (Vec<String>, Vec<String>) {
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(now)).registered(registered);
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    let members = pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records);
    let decision = evictions.decide(limit, &case, members, at(now));
    let chosen = decision.evict.iter().map(|(uid, owner)| {
        let pod = pods.iter().find(|pod| Uid::of(&pod.metadata.uid) == *uid).unwrap();
        match answer(&pod.metadata.name) {
            Answer::Goes => evictions.evicted(*uid, *owner),
            Answer::Refused(message) => evictions.refused(*uid, message, at(now)),
        }
        pod.metadata.name.to_string()
    });
    let chosen = chosen.collect();
    let words = decision.findings.sorted().iter().map(|finding| finding.reason.word().to_owned()).collect();
    (chosen, words)
}

fn decide(
    evictions: &mut Evictions,
    limit: u32,
    pods: &[ObservedPod],
    now: i64,
) -> (Vec<String>, Vec<String>) {
    decide_and(evictions, limit, pods, (now, true), |_| Answer::Goes)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn both(evicted: &[&str], words: &[&str]) -> (Vec<String>, Vec<String>) {
    (names(evicted), names(words))
}

fn missed(name: &str, created: i64) -> ObservedPod {
    pod(name, created, |_| {})
}

fn of_owner(name: &str, owner: &'static str) -> ObservedPod {
    pod(name, CREATED + 9, move |pod| pod["metadata"]["ownerReferences"][0]["uid"] = json!(owner))
}

fn leaving(name: &str) -> ObservedPod {
    pod(name, CREATED + 9, |pod| pod["metadata"]["deletionTimestamp"] = json!(at(2_021).to_string()))
}

fn with_sidecars(name: &str, ready: bool) -> ObservedPod {
    pod(name, 2_021, |pod| {
        injected(pod);
        if !ready {
            pod["status"] = json!({"phase": "Pending"});
        }
    })
}

#[test]
fn the_next_pod_of_an_owner_goes_when_another_one_is_ready_in_the_place_of_the_last() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![missed("a", CREATED + 9), missed("b", CREATED + 9), of_owner("z", "db")];
    assert_eq!(
        decide(&mut evictions, 1, &pods, 2_020),
        both(&["z", "a"], &["EvictionWaits"]),
        "of each owner"
    );
    // The watch is late; then the Pod leaves, and then its place is empty.
    assert_eq!(decide(&mut evictions, 1, &pods, 2_021), both(&[], &["EvictionWaits"]));
    pods[0] = leaving("a");
    assert_eq!(decide(&mut evictions, 1, &pods, 2_022), both(&[], &["EvictionWaits"]));
    pods.remove(0);
    assert_eq!(
        decide(&mut evictions, 1, &pods, 9_000),
        both(&[], &["EvictionWaits"]),
        "an owner that makes none"
    );
    pods.push(with_sidecars("c", false));
    assert_eq!(decide(&mut evictions, 1, &pods, 9_001), both(&[], &["EvictionWaits"]));
    pods.pop();
    pods.push(with_sidecars("c", true));
    assert_eq!(decide(&mut evictions, 1, &pods, 9_002), both(&["b"], &[]));
    assert!(evictions.is_under_way("log"));
}

#[test]
fn an_owner_of_which_a_pod_was_missed_just_now_is_left_alone() {
    let mut evictions = Evictions::new(at(2_000));
    let pods = [missed("a", CREATED + 9), missed("b", 2_000), of_owner("z", "db")];
    assert_eq!(decide(&mut evictions, 5, &pods, 2_059), both(&["z"], &["EvictionRests"]));
    assert_eq!(decide(&mut evictions, 5, &pods, 2_060).0, ["a", "b"]);
}

#[test]
fn pods_that_are_not_ready_or_leave_hold_up_evictions() {
    for other in [with_sidecars("broken", false), leaving("broken")] {
        let mut evictions = Evictions::new(at(2_000));
        let pods = [other, missed("a", CREATED + 9)];
        assert_eq!(decide(&mut evictions, 1, &pods, 2_020), both(&[], &["EvictionWaits"]));
        assert_eq!(decide(&mut evictions, 2, &pods, 2_020), both(&["a"], &[]));
    }
}

#[test]
fn who_would_not_come_back_is_not_evicted() {
    let pods = [
        pod("alone", CREATED + 9, |pod| pod["metadata"]["ownerReferences"] = json!([])),
        pod("job", CREATED + 9, |pod| pod["metadata"]["ownerReferences"][0]["kind"] = json!("Job")),
        pod("workflow", CREATED + 9, |pod| pod["spec"]["restartPolicy"] = json!("Never")),
    ];
    assert_eq!(decide(&mut Evictions::new(at(2_000)), 5, &pods, 2_020), both(&[], &["NotReplaced"]));
}

#[test]
fn who_is_not_ready_goes_first_and_who_was_refused_last() {
    let unready = pod("z", CREATED + 9, |pod| pod["status"] = json!({"phase": "Running"}));
    let pods = [missed("a", CREATED + 9), unready];
    let mut evictions = Evictions::new(at(2_000));
    let mut tried =
        |now: i64| decide_and(&mut evictions, 1, &pods, (now, true), |_| Answer::Refused("budget"));
    assert_eq!(tried(2_020), both(&["z"], &["EvictionWaits"]));
    assert_eq!(tried(2_021), both(&["a"], &["EvictionRefused"]));
    assert_eq!(tried(2_022), both(&[], &["EvictionRefused"]));
    assert_eq!(tried(2_050), both(&["z"], &["EvictionRefused"]));
    assert_eq!(decide(&mut evictions, 2, &pods, 2_081).0, ["a", "z"], "who was refused is tried again");
}

#[test]
fn refused_evictions_are_tried_at_a_bounded_rate() {
    let mut evictions = Evictions::new(at(2_000));
    let pods: Vec<_> = (0..200).map(|number| missed(&format!("p{number:03}"), CREATED + 9)).collect();
    let mut tries = BTreeMap::new();
    for second in 0..600 {
        let answer = |_: &str| Answer::Refused("budget");
        for name in decide_and(&mut evictions, 1_000, &pods, (2_020 + second, true), answer).0 {
            *tries.entry(name).or_insert(0) += 1;
        }
    }
    let all: i32 = tries.values().sum();
    assert!((200..=210).contains(&all), "{all}");
    assert_eq!(tries.len(), 200, "each of them has its turn");
}

#[test]
fn refusals_that_name_their_pods_are_reported_as_one() {
    let mut evictions = Evictions::new(at(2_000));
    let pods: Vec<_> = (0..40).map(|number| missed(&format!("p{number}"), CREATED + 9)).collect();
    for pod in &pods {
        let text = format!("pods {:?} is forbidden: {}", pod.metadata.name, "x".repeat(9_000));
        evictions.refused(Uid::of(&pod.metadata.uid), &text, at(2_020));
    }
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(2_021));
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    let members = pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records);
    let decision = evictions.decide(1, &case, members, at(2_021));
    let findings = decision.findings.sorted();
    assert_eq!((findings.len(), findings[0].reason.word(), findings[0].count), (1, "EvictionRefused", 40));
    assert!(findings[0].reason.to_string().len() < 600);
}

#[test]
fn an_eviction_without_an_answer_gives_no_room_while_its_place_is_empty() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![missed("a", CREATED + 9), missed("b", CREATED + 9)];
    let unclear = |_: &str| Answer::Refused("no answer");
    assert_eq!(decide_and(&mut evictions, 1, &pods, (2_020, true), unclear).0, ["a"]);
    pods.remove(0);
    assert_eq!(decide(&mut evictions, 1, &pods, 2_021).0, names(&[]));
    pods.push(with_sidecars("c", true));
    assert_eq!(decide(&mut evictions, 1, &pods, 2_022).0, ["b"]);
}

#[test]
fn another_sidecar_set_waits_until_the_place_is_taken_or_the_first_is_gone() {
    let mut evictions = Evictions::new(at(2_000));
    let pods = [missed("a", CREATED + 9), missed("b", CREATED + 9)];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020).0, ["a"]);
    evictions.forget("mesh");
    assert_eq!(decide(&mut evictions, 1, &pods[1..], 2_022).0, names(&[]));
    evictions.forget("log");
    assert_eq!(decide(&mut evictions, 1, &pods[1..], 2_023).0, ["b"]);
}

#[test]
fn nothing_is_evicted_while_admission_is_not_registered() {
    let (mut evictions, pods) = (Evictions::new(at(2_000)), [missed("a", CREATED + 9)]);
    let decided = decide_and(&mut evictions, 1, &pods, (2_020, false), |_| Answer::Goes);
    assert_eq!(decided, both(&[], &["NotRegistered"]));
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020), both(&["a"], &[]));
}
