//! Probes and their results.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::container::{Condition, RuntimeContainer};

/// A NodePodProbe with one Pod that has these probes: name, and what it says.
fn node(probes: &[(&str, Value)]) -> NodePodProbe {
    let probes: Vec<Value> = probes
        .iter()
        .map(|(name, probe)| json!({"name": name, "containerName": "main", "probe": probe}))
        .collect();
    let pods = json!([{"namespace": "shop", "name": "web", "uid": "u", "IP": "10.0.0.7", "probes": probes}]);
    serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "1"},
        "spec": {"podProbes": pods}}))
    .unwrap()
}

fn check() -> Value {
    json!({"exec": {"command": ["check"]}})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(probe: &str) -> Key {
    Key { uid: "u".to_owned(), probe: probe.to_owned() }
}

fn says(succeeded: bool, message: &str) -> Outcome {
    Outcome::Ended { succeeded, message: message.to_owned() }
}

/// An agent and what the API server knows.
struct Site {
    node: NodePodProbe,
    probes: Probes,
    worker: Worker,
}

impl Site {
    fn new(node: NodePodProbe) -> Self {
        let mut site = Self { node, probes: Probes::default(), worker: 0 };
        site.follow();
        site
    }

    fn follow(&mut self) -> Vec<Step> {
        let steps = self.probes.follow(Some(&self.node));
        for step in &steps {
            if let Step::Start(worker, _) | Step::Restart(worker, _) = step {
                self.worker = *worker;
            }
        }
        steps
    }

    /// The worker of the only probe finds this in a container that was started at second 5.
    fn finds(&mut self, container: &str, outcome: Outcome, second: i64) -> Heard {
        let worker = self.worker;
        self.worker_finds("a#b", worker, container, outcome, second)
    }

    fn worker_finds(
        &mut self,
        probe: &str,
        worker: Worker,
        container: &str,
        outcome: Outcome,
        second: i64,
    ) -> Heard {
        let finding = Finding { container: container.to_owned(), started: Some(at(5)), outcome };
        self.probes.report(Some(&self.node), &key(probe), worker, finding, at(second)).unwrap()
    }

    /// Writes what is due.
    fn write(&mut self) {
        let Some(change) = self.probes.change(&self.node) else { return };
        let patch: Value = serde_json::from_str(&change.patch).unwrap();
        self.node.status = serde_json::from_value(patch["status"].clone()).unwrap();
        assert_eq!(self.probes.change(&self.node), None, "one write is enough");
    }

    /// State and message on the API server.
    fn known(&self, probe: &str) -> (String, String) {
        let state = reported(&self.node, &key(probe)).unwrap();
        (state.state.clone(), state.message.clone())
    }

    fn since(&self) -> i64 {
        let state = reported(&self.node, &key("a#b")).unwrap();
        state.last_transition_time.as_ref().and_then(Time::timestamp).unwrap().as_second()
    }
}

fn reasons(heard: &[Heard]) -> Vec<&'static str> {
    heard.iter().filter_map(|heard| heard.event.as_ref()).map(|event| event.reason).collect()
}

#[test]
fn what_is_absent_or_makes_no_sense_counts_as_one() {
    let mut probe = check();
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        probe[name] = json!(-3);
    }
    for probe in [probe, check()] {
        let known = wanted(Some(&node(&[("a#b", probe)])));
        let second = Duration::from_secs(1);
        let terms =
            Terms { initial_delay: second, timeout: second, period: second, successes: 1, failures: 1 };
        assert_eq!(known[&key("a#b")].terms, terms);
    }
}

#[test]
fn a_check_needs_an_address_and_a_port() {
    let handler = |address: &str, probe: Value| {
        let mut node = node(&[("a#b", probe)]);
        node.spec.pod_probes[0].ip = address.to_owned();
        wanted(Some(&node)).remove(&key("a#b")).unwrap().handler
    };
    let tcp = |host: &str, port| Handler::Tcp { host: host.to_owned(), port };
    assert_eq!(handler("10.0.0.7", json!({"tcpSocket": {"port": 80}})), tcp("10.0.0.7", 80));
    assert_eq!(handler("", json!({"tcpSocket": {"port": "80", "host": "db"}})), tcp("db", 80));
    let http = handler(
        "fd00::7",
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTPS",
        "httpHeaders": [{"name": "A", "value": "1"}]}}),
    );
    let headers = vec![("A".to_owned(), "1".to_owned())];
    let (host, path) = ("fd00::7".to_owned(), "/".to_owned());
    assert_eq!(http, Handler::Http { host, port: 80, path, tls: true, headers });
    for (address, probe) in [
        ("", json!({"tcpSocket": {"port": 80}})),
        ("", json!({"httpGet": {"port": 80, "path": "/"}})),
        ("10.0.0.7", json!({"tcpSocket": {"port": 0}})),
        ("10.0.0.7", json!({"tcpSocket": {"port": "http"}})),
        ("10.0.0.7", json!({"httpGet": {"port": 70000, "path": "/"}})),
        ("10.0.0.7", json!({"grpc": {"port": 80}})),
    ] {
        assert!(matches!(handler(address, probe.clone()), Handler::Impossible(_)), "{probe}");
    }
}

#[test]
fn so_many_results_in_a_row_count() {
    let mut probe = check();
    (probe["failureThreshold"], probe["successThreshold"]) = (json!(3), json!(2));
    let mut site = Site::new(node(&[("a#b", probe)]));
    for (succeeded, state) in [
        (false, "Unknown"),
        (false, "Unknown"),
        (true, "Unknown"),
        (false, "Unknown"),
        (false, "Unknown"),
        (false, "Failed"),
        (true, "Failed"),
        (true, "Succeeded"),
    ] {
        site.finds("c-1", says(succeeded, "said"), 10);
        site.write();
        assert_eq!(site.known("a#b").0, state);
    }
}

#[test]
fn a_new_container_begins_as_unknown_and_with_no_results_in_a_row() {
    let mut probe = check();
    probe["failureThreshold"] = json!(2);
    let mut site = Site::new(node(&[("a#b", probe)]));
    let mut heard = vec![site.finds("c-1", says(false, "no"), 10), site.finds("c-1", says(false, "no"), 11)];
    site.write();
    assert_eq!((site.known("a#b"), site.since()), (("Failed".to_owned(), "no".to_owned()), 11));
    heard.push(site.finds("c-1", Outcome::Stopped, 12));
    heard.push(site.finds("c-2", Outcome::Nothing, 13));
    site.write();
    assert_eq!((site.known("a#b"), site.since()), (("Unknown".to_owned(), String::new()), 13));
    heard.push(site.finds("c-2", says(false, "no"), 14));
    site.write();
    assert_eq!(site.known("a#b").0, "Unknown");
    // A failure of the new container is a new one, also where nobody has written that it was unknown.
    heard.push(site.finds("c-2", says(false, "no"), 15));
    site.write();
    assert_eq!((site.known("a#b").0.as_str(), site.since()), ("Failed", 15));
    assert_eq!(reasons(&heard), ["KruiseProbeFailed"; 3], "nothing is told of what is unknown");
    assert_eq!(heard[2].event.as_ref().unwrap().message, "Container(main) is Non-running");
}

#[test]
fn another_check_begins_anew_and_another_period_does_not() {
    let mut site = Site::new(node(&[("a#b", check())]));
    site.finds("c-1", says(true, "yes"), 10);
    site.write();
    let mut often = check();
    often["periodSeconds"] = json!(9);
    site.node.spec = node(&[("a#b", often)]).spec;
    let before = site.worker;
    let steps = site.follow();
    assert!(matches!(&steps[..], [Step::Stop(stopped), Step::Restart(started, work)]
        if *stopped == before && started != stopped && work.terms.period == Duration::from_secs(9)));
    let late = Finding { container: "c-1".to_owned(), started: None, outcome: says(false, "late") };
    assert_eq!(site.probes.report(Some(&site.node), &key("a#b"), before, late, at(11)), None);
    assert!(!site.finds("c-1", says(true, "yes"), 12).is_news);
    site.node.spec = node(&[("a#b", json!({"tcpSocket": {"port": 1}}))]).spec;
    site.follow();
    assert!(site.finds("c-1", Outcome::Nothing, 13).is_news);
    site.write();
    assert_eq!(site.known("a#b").0, "Unknown");
    assert_eq!(site.follow(), [], "nothing has changed");
}

#[test]
fn probes_of_one_container_do_not_disturb_each_other_and_what_leaves_is_forgotten() {
    let mut site = Site::new(node(&[("a#b", check()), ("a#c", check())]));
    let other = site.worker;
    let heard: Vec<Heard> = (10..15)
        .flat_map(|second| {
            let good = site.worker_finds("a#b", other - 1, "c-1", says(true, "yes"), second);
            let bad = site.worker_finds("a#c", other, "c-1", says(false, "no"), second);
            site.write();
            [good, bad]
        })
        .collect();
    assert_eq!(reasons(&heard), ["KruiseProbeSucceeded", "KruiseProbeFailed"]);
    assert!(heard[2..].iter().all(|heard| !heard.is_news));
    assert_eq!((site.known("a#b").0.as_str(), site.known("a#c").0.as_str()), ("Succeeded", "Failed"));
    site.node.spec = node(&[("a#c", check())]).spec;
    assert_eq!(site.follow(), [Step::Stop(other - 1)]);
    assert_eq!(site.probes.change(&site.node).unwrap().gather, RETRY_DELAY);
    site.write();
    assert_eq!((reported(&site.node, &key("a#b")), site.known("a#c").0.as_str()), (None, "Failed"));
    site.node.spec = node(&[]).spec;
    site.follow();
    site.write();
    assert_eq!(site.node.status.pod_probe_statuses, []);
}

#[test]
fn the_next_process_goes_on_with_what_was_reported_of_the_same_container() {
    let mut site = Site::new(node(&[("a#b", check())]));
    site.finds("c-1", says(true, "yes"), 10);
    site.write();
    for (started, state) in [(Some(at(9)), "Succeeded"), (Some(at(10)), "Unknown"), (None, "Unknown")] {
        let mut next = Site::new(site.node.clone());
        assert_eq!(next.probes.change(&next.node), None, "a start writes nothing");
        let finding = Finding { container: "c-1".to_owned(), started, outcome: Outcome::Nothing };
        let worker = next.worker;
        next.probes.report(Some(&next.node), &key("a#b"), worker, finding, at(20)).unwrap();
        next.write();
        assert_eq!(next.known("a#b").0, state);
    }
}

#[test]
fn what_stays_the_same_is_reported_again_after_a_while() {
    let mut site = Site::new(node(&[("a#b", check())]));
    site.finds("c-1", says(true, "yes"), 10);
    site.write();
    assert!(!site.finds("c-1", says(true, "yes"), 609).is_news);
    assert_eq!(site.finds("c-1", says(true, "yes"), 610), Heard { is_news: true, event: None });
    assert_eq!(site.probes.change(&site.node).unwrap().gather, AT_LEISURE);
    site.write();
    assert_eq!(site.since(), 10);
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let mut site = Site::new(node(&[("a#b", check())]));
    site.finds("c-1", says(true, &format!("x{}", "ü".repeat(1000))), 10);
    site.write();
    assert_eq!(site.known("a#b").1, format!("x{}", "ü".repeat(511)));
}

#[test]
fn a_container_is_checked_when_it_has_run_for_a_while() {
    let mut probe = check();
    probe["initialDelaySeconds"] = json!(10);
    let work = wanted(Some(&node(&[("a#b", probe)]))).remove(&key("a#b")).unwrap();
    let container =
        |condition, started| RuntimeContainer { condition, started, ..RuntimeContainer::default() };
    for (condition, started, outcome) in [
        (Condition::Exited, Some(at(0)), Some(Outcome::Stopped)),
        (Condition::Created, None, Some(Outcome::Stopped)),
        (Condition::Running, None, Some(Outcome::Nothing)),
        (Condition::Running, Some(at(91)), Some(Outcome::Nothing)),
        (Condition::Running, Some(at(90)), None),
    ] {
        assert_eq!(work.without_run(&container(condition, started), at(100)), outcome);
    }
}

#[test]
fn the_probes_of_a_start_are_spread_over_a_period() {
    let mut probe = check();
    probe["periodSeconds"] = json!(10);
    let names: Vec<String> = (0..100).map(|number| format!("a#{number}")).collect();
    let all: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), probe.clone())).collect();
    let works = wanted(Some(&node(&all)));
    let early = Duration::from_millis(5);
    let mut firsts: Vec<u64> = works.values().map(|work| work.first_run(early).as_secs()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts, (0..10).collect::<Vec<u64>>());
    let late = Duration::from_secs(10);
    assert!(works.values().all(|work| work.first_run(late) == late));
}

proptest! {
    /// Whatever is found, and however seldom it is written: the state is that of the last runs that agreed, in the
    /// newest container; an Event reports a change alone; and no result is older than its container.
    #[test]
    fn the_status_says_what_the_last_runs_of_the_container_agreed_on(
        successes in 1..4_u32,
        failures in 1..4_u32,
        steps in prop::collection::vec((0..8_u8, any::<bool>()), 1..60),
    ) {
        let mut probe = check();
        (probe["successThreshold"], probe["failureThreshold"]) = (json!(successes), json!(failures));
        let mut site = Site::new(node(&[("a#b", probe)]));
        let (mut container, mut born, mut runs, mut state) = (1, 10, Vec::new(), "Unknown");
        for (second, (step, writes)) in (10_i64..).zip(steps) {
            let before = state;
            let outcome = match step {
                0 => {
                    (container, born, state) = (container + 1, second, "Unknown");
                    runs.clear();
                    Outcome::Nothing
                }
                1 => {
                    (state, runs) = ("Failed", Vec::new());
                    Outcome::Stopped
                }
                2 => Outcome::Nothing,
                _ => {
                    let succeeded = step % 2 == 0;
                    runs.push(succeeded);
                    let needed = if succeeded { successes } else { failures };
                    let row = runs.iter().rev().take_while(|run| **run == succeeded).count();
                    if row >= usize::try_from(needed).unwrap() {
                        state = if succeeded { "Succeeded" } else { "Failed" };
                    }
                    says(succeeded, "")
                }
            };
            let heard = site.finds(&format!("c-{container}"), outcome, second);
            if state != before {
                prop_assert_eq!(heard.event.is_some(), state != "Unknown");
            }
            if writes {
                site.write();
                let known = site.known("a#b").0;
                prop_assert_eq!(known.as_str(), state);
                prop_assert!(site.since() >= born);
            }
        }
    }
}
