//! Evictions: never more Pods away than allowed, none that helps nobody, and no wait without a reason.

use super::*;

/// The Pods that are evicted now, and the words of why others are not.
fn decide(
    evictions: &mut Evictions,
    limit: u32,
    pods: &[ObservedPod],
    now: i64,
) -> (usize, Vec<&'static str>) {
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(now));
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    let members = pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records);
    let decision = evictions.decide(limit, &case, members, at(now));
    for uid in &decision.evict {
        let pod = pods.iter().position(|pod| Uid::of(&pod.metadata.uid) == *uid).unwrap();
        evictions.evicted(*uid, records[pod].owner().unwrap(), at(now), true);
    }
    let words = decision.findings.sorted().iter().map(|finding| finding.reason.word()).collect();
    (decision.evict.len(), words)
}

#[test]
fn evictions_rest_where_a_new_pod_is_missed_again() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![pod("a", CREATED + 9, |_| {}), pod("b", CREATED + 9, |_| {})];
    assert_eq!(
        decide(&mut evictions, 1, &pods, 2_005),
        (0, vec![]),
        "an earlier leader may have evicted some"
    );
    assert_eq!(decide(&mut evictions, 1, &pods, 2_010), (1, vec![]));
    pods[0] = pod("c", 2_010, |_| {});
    assert_eq!(decide(&mut evictions, 1, &pods, 2_012), (0, vec!["EvictionRests"]));
    assert_eq!(decide(&mut evictions, 1, &pods, 2_071), (0, vec!["EvictionRests"]));
    assert_eq!(decide(&mut evictions, 1, &pods, 2_072), (1, vec![]));
    pods[1] = pod("d", 2_073, |_| {});
    assert_eq!(decide(&mut evictions, 1, &pods, 2_074), (0, vec!["EvictionRests"]));
    assert_eq!(decide(&mut evictions, 1, &pods, 2_193), (0, vec!["EvictionRests"]), "for longer each time");
    assert_eq!(decide(&mut evictions, 1, &pods, 2_194).0, 1);
}

#[test]
fn pods_that_do_not_work_hold_up_evictions() {
    let broken = pod("broken", 1_500, |pod| {
        injected(pod);
        pod["status"] = json!({"phase": "Running"});
    });
    let mut evictions = Evictions::new(at(2_000));
    let pods = [broken, pod("a", CREATED + 9, |_| {})];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020), (0, vec!["EvictionWaits"]));
    assert_eq!(decide(&mut evictions, 2, &pods, 2_020), (1, vec![]));
}

#[test]
fn who_would_not_come_back_is_not_evicted_and_who_is_not_ready_goes_first() {
    let mut evictions = Evictions::new(at(2_000));
    let pods = [
        pod("alone", CREATED + 9, |pod| pod["metadata"]["ownerReferences"] = json!([])),
        pod("job", CREATED + 9, |pod| pod["metadata"]["ownerReferences"][0]["kind"] = json!("Job")),
    ];
    assert_eq!(decide(&mut evictions, 5, &pods, 2_020), (0, vec!["NotReplaced"]));
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(2_020));
    let ready = record(&pod("a", CREATED + 9, |_| {}));
    let unready = record(&pod("z", CREATED + 9, |pod| pod["status"] = json!({"phase": "Running"})));
    let members = [(uid("a"), &ready), (uid("z"), &unready)];
    assert_eq!(evictions.decide(1, &case, members, at(2_020)).evict, [uid("z")]);
    evictions.refused(uid("z"), "budget", at(2_020));
    let decision = evictions.decide(1, &case, members, at(2_021));
    assert_eq!(decision.evict, [uid("a")]);
    assert_eq!(
        decision.findings.sorted()[0].reason.to_string(),
        "not evicted: the eviction was refused (budget)"
    );
    let decision = evictions.decide(2, &case, members, at(2_051));
    assert_eq!(decision.evict, [uid("a"), uid("z")], "who was refused is tried again, behind the others");
    assert_eq!(decision.findings.sorted()[0].count, 1, "until that succeeds");
}

fn missed(name: &str, created: i64) -> ObservedPod {
    pod(name, created, |_| {})
}

fn of_owner(name: &str, created: i64, owner: &'static str) -> ObservedPod {
    pod(name, created, move |pod| pod["metadata"]["ownerReferences"][0]["uid"] = json!(owner))
}

fn with_sidecars(name: &str, created: i64, ready: bool) -> ObservedPod {
    pod(name, created, |pod| {
        injected(pod);
        if !ready {
            pod["status"] = json!({"phase": "Pending"});
        }
    })
}

#[test]
fn an_owner_that_makes_no_other_pod_loses_one_and_no_more() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![missed("a", CREATED + 9), missed("b", CREATED + 9), of_owner("z", CREATED + 9, "db")];
    let (patience, mut now) = (600, 2_020);
    assert_eq!(decide(&mut evictions, 1, &pods, now).0, 1);
    pods.remove(0);
    assert_eq!(decide(&mut evictions, 1, &pods, now + patience).0, 0);
    assert_eq!(
        decide(&mut evictions, 1, &pods, now + patience + 1),
        (0, vec!["EvictionRests", "NotReplaced"])
    );
    let mut evicted = 0;
    for _ in 0..240 {
        now += 60;
        evicted += decide(&mut evictions, 1, &pods, now).0;
        if evicted > 0 {
            pods.retain(|pod| &*pod.metadata.name != "z");
        }
    }
    assert_eq!(evicted, 1, "only that of the other owner");
    // It makes Pods again.
    pods.push(with_sidecars("c", now, true));
    assert_eq!(decide(&mut evictions, 1, &pods, now + 7_200), (1, vec![]));
}

#[test]
fn refusals_that_name_their_pods_are_told_as_one() {
    let mut evictions = Evictions::new(at(2_000));
    let pods: Vec<_> = (0..40).map(|number| missed(&format!("p{number}"), CREATED + 9)).collect();
    for pod in &pods {
        let name = &*pod.metadata.name;
        let text = format!("pods \"{name}\" is forbidden: {}", "x".repeat(9_000));
        evictions.refused(uid(name), &text, at(2_020));
    }
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(2_021));
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    let members = pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records);
    let decision = evictions.decide(1, &case, members, at(2_021));
    let told: Vec<_> =
        decision.findings.sorted().iter().map(|finding| (finding.reason.word(), finding.count)).collect();
    assert_eq!(told, [("EvictionRefused", 40)]);
    assert!(decision.findings.sorted()[0].reason.to_string().len() < 600);
}

#[test]
fn refused_evictions_are_tried_at_a_bounded_rate() {
    let mut evictions = Evictions::new(at(2_000));
    let pods: Vec<_> = (0..200).map(|number| missed(&format!("p{number:03}"), CREATED + 9)).collect();
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let mut tries = BTreeMap::new();
    for second in 0..600 {
        let now = at(2_020 + second);
        let case = Case::new(entry, &subject(), &cluster.inventory, &scope, now);
        let members = pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records);
        for uid in evictions.decide(1_000, &case, members, now).evict {
            evictions.refused(uid, "budget", now);
            *tries.entry(uid).or_insert(0) += 1;
        }
    }
    let all: i32 = tries.values().sum();
    assert!((200..=210).contains(&all), "{all}");
    assert_eq!(tries.len(), 200, "each of them has its turn");
}

#[test]
fn a_watch_that_is_late_gives_no_room() {
    let mut evictions = Evictions::new(at(2_000));
    let pods = [missed("a", CREATED + 9), missed("b", CREATED + 9)];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020).0, 1);
    for second in [21, 51, 80, 300] {
        assert_eq!(decide(&mut evictions, 1, &pods, 2_000 + second).0, 0, "{second}");
    }
}

#[test]
fn who_waits_for_a_pod_that_does_not_get_ready_is_told_so() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![missed("a", CREATED + 9), missed("b", CREATED + 9)];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020), (1, vec![]));
    pods[0] = with_sidecars("c", 2_021, false);
    assert_eq!(decide(&mut evictions, 1, &pods, 2_022), (0, vec![]), "the usual course");
    for second in [100, 3_000] {
        assert_eq!(decide(&mut evictions, 1, &pods, 2_000 + second), (0, vec!["EvictionWaits"]));
    }
    pods[0] = with_sidecars("c", 2_021, true);
    assert_eq!(decide(&mut evictions, 1, &pods, 5_001), (1, vec![]));
}

#[test]
fn many_pods_that_are_missed_in_one_outage_make_one_rest() {
    let mut evictions = Evictions::new(at(2_000));
    let mut pods = vec![missed("a", CREATED + 9), missed("b", CREATED + 9)];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020).0, 1);
    pods.remove(0);
    for second in 0..8 {
        pods.push(missed(&format!("n{second}"), 2_021 + second));
        assert_eq!(decide(&mut evictions, 1, &pods, 2_021 + second).0, 0);
    }
    assert_eq!(decide(&mut evictions, 1, &pods, 2_081).0, 1);
}

#[test]
fn after_a_success_rests_are_short_again() {
    let mut evictions = Evictions::new(at(2_000));
    let (mut now, mut pods) = (2_020, vec![missed("a", CREATED + 9), missed("b", CREATED + 9)]);
    for round in 0..4 {
        assert_eq!(decide(&mut evictions, 1, &pods, now).0, 1, "{round}");
        pods[0] = missed(&format!("again{round}"), now);
        pods.sort_by_key(|pod| pod.metadata.name.clone());
        decide(&mut evictions, 1, &pods, now + 1);
        now += 3_700;
    }
    assert_eq!(decide(&mut evictions, 1, &pods, now).0, 1);
    pods[0] = with_sidecars("good", now, true);
    assert_eq!(decide(&mut evictions, 1, &pods, now + 1).0, 1);
    pods[1] = missed("later", now + 2);
    decide(&mut evictions, 1, &pods, now + 2);
    pods.push(missed("last", now + 3));
    assert_eq!(decide(&mut evictions, 1, &pods, now + 3), (0, vec!["EvictionRests"]));
    assert_eq!(decide(&mut evictions, 1, &pods, now + 63).0, 1);
}

#[test]
fn pods_of_the_same_owner_that_leave_for_other_reasons_take_up_room() {
    let mut evictions = Evictions::new(at(2_000));
    let leaving = |name: &str| {
        pod(name, CREATED + 9, |pod| pod["metadata"]["deletionTimestamp"] = json!(at(2_021).to_string()))
    };
    let mut pods: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| missed(name, CREATED + 9)).into();
    assert_eq!(decide(&mut evictions, 1, &pods, 2_020).0, 1);
    pods[0] = leaving("a");
    pods[1] = leaving("b");
    assert_eq!(decide(&mut evictions, 2, &pods, 2_022), (0, vec!["EvictionWaits"]));
    assert_eq!(decide(&mut evictions, 3, &pods, 2_023).0, 1);
}

#[test]
fn pods_that_run_to_an_end_are_left_alone() {
    for policy in ["Never", "OnFailure"] {
        let workflow = pod("a", CREATED + 9, |pod| {
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("Workflow");
            pod["spec"]["restartPolicy"] = json!(policy);
        });
        let mut evictions = Evictions::new(at(2_000));
        assert_eq!(decide(&mut evictions, 5, &[workflow], 2_020), (0, vec!["NotReplaced"]), "{policy}");
    }
}

#[test]
fn a_pod_that_may_not_have_been_evicted_is_not_waited_for_where_it_stays() {
    let mut evictions = Evictions::new(at(2_000));
    let pods = [missed("a", CREATED + 9), missed("b", CREATED + 9)];
    assert_eq!(decide(&mut evictions, 1, &pods, 2_005).0, 0);
    evictions.evicted(uid("a"), Uid::of("rs"), at(2_020), false);
    assert_eq!(decide(&mut evictions, 1, &pods, 2_050).0, 0);
    assert_eq!(decide(&mut evictions, 1, &pods, 2_051).0, 1);
}

#[test]
fn who_was_there_before_does_not_come_for_a_pod_that_another_sidecarset_evicts() {
    let mut evictions = Evictions::new(at(2_000));
    assert_eq!(decide(&mut evictions, 1, &[with_sidecars("a", CREATED + 9, true)], 2_020).0, 0);
    let pods = [with_sidecars("a", CREATED + 9, true), missed("b", 2_100), missed("c", 2_100)];
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    evictions.look(pods.iter().map(|pod| Uid::of(&pod.metadata.uid)).zip(&records));
    evictions.evicted(uid("b"), Uid::of("rs"), at(2_101), true);
    assert!(evictions.is_full());
    assert_eq!(decide(&mut evictions, 1, &[pods[0].clone(), pods[2].clone()], 2_102).0, 0);
    let come = [pods[0].clone(), pods[2].clone(), with_sidecars("d", 2_102, true)];
    assert_eq!(decide(&mut evictions, 1, &come, 2_103).0, 1);
}

#[test]
fn nothing_is_evicted_while_admission_is_not_registered() {
    let mut evictions = Evictions::new(at(2_000));
    let cluster = cluster(json!({}));
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let lost = record(&missed("a", CREATED + 9));
    for (registered, expected) in [(false, 0), (true, 1)] {
        let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(2_020)).registered(registered);
        let decision = evictions.decide(1, &case, [(uid("a"), &lost)], at(2_020));
        assert_eq!(decision.evict.len(), expected);
        let words: Vec<_> = decision.findings.sorted().iter().map(|it| it.reason.word()).collect();
        assert_eq!(words == ["NotRegistered"], !registered, "{words:?}");
    }
}
