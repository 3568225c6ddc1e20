//! Jobs over nodes whose agents pull, fail and stay silent as chance has it.

pub(super) mod fixture;

use std::collections::BTreeSet;

use api::kinds::nodeimage::{NodeImage, PullSecret, TagStatus};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::progress::{Look, Stage, due, is_overdue, next_reconcile, patch, stage, status_of};
use super::pull_when::tests::facts;
use super::task::{TooManyImages, hand_out};
use super::trigger::{concerns, concerns_by_facts, is_about};
use super::*;
use fixture::{apply, conditional, job, node, report};
use pod::node_fit::{NodeFacts, Nodes as Facts};
use values::moment::Moment;

fn moment() -> Moment {
    Moment { now: "2026-01-01T12:00:00Z".parse().unwrap(), seed: 7 }
}

fn handed(job: &Job, node: &NodeImage) -> Arc<NodeImage> {
    apply(node, &hand_out(job, node, &[], 300, |_| false, moment()).unwrap().unwrap())
}

/// The nodes that are written to now.
fn to_serve<'n>(job: &Job, look: &Look<'n>, secrets: &[PullSecret]) -> Vec<&'n NodeImage> {
    let due = due(job, look, secrets);
    due.lacking.into_iter().chain(due.waiting.into_iter().take(due.free)).collect()
}

fn task_of(node: &NodeImage) -> Value {
    serde_json::to_value(&node.spec.images["nginx"].tags[0]).unwrap()
}

#[test]
fn a_new_task_has_the_times_of_its_job() {
    for (policy, ttl, deadline) in [
        (json!({}), 1800 + 300..1800 + 600, None),
        (json!({"ttlSecondsAfterFinished": 7}), 307..607, None),
        (json!({"activeDeadlineSeconds": 700}), 1000..1300, Some(700)),
        (json!({"type": "Never"}), 85_800..87_000, Some(1800)),
    ] {
        let task = task_of(&handed(&job("a", json!({"completionPolicy": policy})), &node("n")));
        let times = &task["pullPolicy"];
        let found = i32::try_from(times["ttlSecondsAfterFinished"].as_i64().unwrap()).unwrap();
        assert!(ttl.contains(&found), "{policy}: {found}");
        assert_eq!(times["activeDeadlineSeconds"].as_i64(), deadline, "{policy}");
        assert_eq!((&times["timeoutSeconds"], &times["backoffLimit"]), (&json!(600), &json!(3)));
        assert_eq!((&task["version"], &task["createdAt"]), (&json!(0), &json!("2026-01-01T12:00:00Z")));
        assert_eq!(
            task["ownerReferences"][0],
            json!({"apiVersion": "apps.kruise.io/v1beta1",
            "kind": "ImagePullJob", "namespace": "shop", "name": "a", "uid": "uid-a"})
        );
    }
}

#[test]
fn a_second_job_begins_a_new_round_unless_the_image_was_just_pulled() {
    let (first, second) = (job("a", json!({})), job("b", json!({})));
    let one = handed(&first, &node("n"));
    let both = handed(&second, &one);
    assert_eq!(task_of(&both)["version"], 1);
    assert_eq!(task_of(&both)["ownerReferences"].as_array().unwrap().len(), 2);
    assert_eq!(hand_out(&second, &both, &[], 300, |_| false, moment()), Ok(None));
    let pulled = report(&one, "Succeeded", moment().now - SignedDuration::from_secs(60));
    assert_eq!(task_of(&handed(&second, &pulled))["version"], 0);
    let nodes = [handed(&second, &pulled)];
    assert_eq!(Look::at(&second, &nodes).succeeded.len(), 1);
    let asks = job("b", json!({"imagePullPolicy": "Always"}));
    assert_eq!(task_of(&handed(&asks, &pulled))["version"], 1);
    let long_ago = report(&one, "Succeeded", moment().now - SignedDuration::from_hours(9));
    assert_eq!(task_of(&handed(&second, &long_ago))["version"], 1);
    // A task that left its NodeImage comes back in a new round.
    let mut left = (*pulled).clone();
    left.spec.images.clear();
    assert_eq!(task_of(&handed(&second, &left))["version"], 1);
}

#[test]
fn an_image_that_came_with_credentials_is_handed_to_no_other_job() {
    let (first, second) = (job("a", json!({})), job("b", json!({})));
    let said = |node: &NodeImage, phase: &str, message: &str| {
        let mut node = (*report(node, phase, moment().now)).clone();
        let status = &mut node.status.image_statuses.get_mut("nginx").unwrap().tags[0];
        message.clone_into(&mut status.message);
        Arc::new(node)
    };
    let pulled = said(&handed(&first, &node("n")), "Succeeded", "pulled with pull Secrets");
    let both = handed(&second, &pulled);
    assert_eq!(task_of(&both)["version"], 1);
    // A job that has ended is not pulled for.
    let alone = hand_out(&second, &pulled, &[], 300, |owner| owner.name == "a", moment()).unwrap().unwrap();
    assert_eq!(task_of(&apply(&pulled, &alone))["ownerReferences"].as_array().unwrap().len(), 1);
    let counts = |job: &Job, node: &Arc<NodeImage>| {
        let nodes = [node.clone()];
        let look = Look::at(job, &nodes);
        [look.active.len(), look.succeeded.len(), look.failed.len()]
    };
    assert_eq!([&first, &second].map(|job| counts(job, &both)), [[1, 0, 0], [1, 0, 0]]);
    let begun = report(&both, "Pulling", moment().now);
    let partly = said(&both, "Pulling", "not for shop/b: attempt 1 failed: 401");
    assert_eq!([&first, &second].map(|job| counts(job, &partly)), [[0, 1, 0], [1, 0, 0]]);
    assert!(is_about(&first, &begun, &partly) && !is_about(&second, &begun, &partly));
    let ended = said(&both, "Failed", "not for shop/b: 401");
    assert_eq!([&first, &second].map(|job| counts(job, &ended)), [[0, 1, 0], [0, 0, 1]]);
    let ended = said(&both, "Failed", "no such host");
    assert_eq!([&first, &second].map(|job| counts(job, &ended)), [[0, 0, 1], [0, 0, 1]]);
}

#[test]
fn missing_secrets_are_added_while_the_node_pulls() {
    let job = job("a", json!({}));
    let secrets = [PullSecret { name: "pull".to_owned(), ..PullSecret::default() }];
    let nodes = [handed(&job, &node("n"))];
    assert_eq!(to_serve(&job, &Look::at(&job, &nodes), &secrets).len(), 1);
    let after =
        apply(&nodes[0], &hand_out(&job, &nodes[0], &secrets, 300, |_| false, moment()).unwrap().unwrap());
    assert_eq!(after.spec.images["nginx"].pull_secrets, secrets);
    assert_eq!(task_of(&after)["version"], 0);
    let done = [report(&nodes[0], "Succeeded", moment().now)];
    assert!(to_serve(&job, &Look::at(&job, &done), &secrets).is_empty());
}

#[test]
fn a_node_takes_no_more_than_256_images() {
    let mut full = node("n");
    for number in 0..256 {
        full.spec.images.insert(format!("image-{number}"), api::kinds::nodeimage::Image::default());
    }
    assert_eq!(hand_out(&job("a", json!({})), &full, &[], 300, |_| false, moment()), Err(TooManyImages));
    let nodes = [Arc::new(full.clone())];
    let job = job("a", json!({}));
    let found = due(&job, &Look::at(&job, &nodes), &[]);
    assert_eq!((found.waiting.len(), found.full, found.free), (0, 1, 1));
    full.spec.images.remove("image-0");
    assert!(hand_out(&job, &full, &[], 300, |_| false, moment()).is_ok());
}

fn written(job: &Job, nodes: &[Arc<NodeImage>]) -> Value {
    serde_json::to_value(status_of(job, &Look::at(job, nodes), moment().now)).unwrap()
}

#[test]
fn the_status_says_how_far_the_job_is() {
    let job = job("a", json!({"parallelism": 9}));
    assert_eq!(written(&job, &[])["message"], "job has completed");
    let nodes: Vec<Arc<NodeImage>> = ["n3", "n2", "n1"].map(|name| handed(&job, &node(name))).to_vec();
    let mixed = [
        report(&nodes[0], "Failed", moment().now),
        report(&nodes[1], "Pulling", moment().now),
        report(&nodes[2], "Failed", moment().now),
    ];
    let status = written(&job, &mixed);
    assert_eq!(
        status,
        json!({"startTime": "2026-01-01T12:00:00Z", "desired": 3, "active": 1, "failed": 2,
        "failedNodes": ["n1", "n3"], "message": "job is running, progress 66.7%"})
    );
    let done = nodes.iter().map(|node| report(node, "Succeeded", moment().now)).collect::<Vec<_>>();
    let status = written(&job, &done);
    assert_eq!(
        status,
        json!({"startTime": "2026-01-01T12:00:00Z", "completionTime": "2026-01-01T12:00:00Z",
        "desired": 3, "succeeded": 3, "message": "job has completed"})
    );
    let endless = fixture::job("a", json!({"completionPolicy": {"type": "Never"}}));
    assert_eq!(written(&endless, &done)["message"], "job is running, progress 100.0%");
    assert_eq!(written(&endless, &[])["message"], "job is running, no progress");
}

#[test]
fn a_job_waits_for_what_is_not_known_yet_and_says_so() {
    let at = |seconds| moment().now + SignedDuration::from_secs(seconds);
    let said = |job: &Job, nodes: &[Arc<NodeImage>], unknown, missing: &[&str], now| {
        let mut look = Look::at(job, nodes);
        let missing: Vec<String> = missing.iter().map(|name| (*name).to_owned()).collect();
        look.wait_for(job, unknown, &missing, now);
        let wait = next_reconcile(job, &look, now).map(|wait| wait.as_secs());
        (status_of(job, &look, now).message, look.lacks_secret, wait)
    };
    let message = |text: &str, lacks, wait| (text.to_owned(), lacks, wait);
    let mut all = job("a", json!({}));
    let nothing = "job is running, no progress, waits for NodeImages";
    assert_eq!(said(&all, &[], 0, &[], at(0)), message(nothing, false, Some(10)));
    all.object.status.start_time = Some(at(0).into());
    assert_eq!(said(&all, &[], 0, &[], at(4)), message(nothing, false, Some(6)));
    assert_eq!(said(&all, &[], 0, &[], at(10)), message("job has completed", false, None));
    // Nodes that are ready will have one, whenever that is.
    let done = [report(&handed(&all, &node("n1")), "Succeeded", moment().now)];
    let unknown = "job is running, progress 100.0%, waits for the NodeImages of 2 nodes";
    assert_eq!(said(&all, &done, 2, &[], at(99)), message(unknown, false, Some(10)));
    assert_eq!(said(&all, &done, 0, &[], at(1)), message("job has completed", false, None));
    let mut named = job("a", json!({"selector": {"names": ["n1", "n2"]}}));
    let half = "job is running, progress 100.0%, waits for NodeImages";
    assert_eq!(said(&named, &done, 0, &[], at(0)), message(half, false, Some(10)));
    named.object.status.start_time = Some(at(0).into());
    assert_eq!(said(&named, &done, 0, &[], at(11)), message("job has completed", false, None));
    let waits = [Arc::new(node("n1"))];
    let secret = "job is running, progress 0.0%, waits for Secret pull";
    assert_eq!(said(&all, &waits, 0, &["pull"], at(3)), message(secret, true, Some(7)));
    let without = "job is running, progress 0.0%";
    assert_eq!(said(&all, &waits, 0, &["pull"], at(10)), message(without, false, None));
}

#[test]
fn what_has_not_ended_by_the_deadline_has_failed_once() {
    let mut job = job("a", json!({"completionPolicy": {"activeDeadlineSeconds": 600}}));
    job.object.status.start_time = Some((moment().now - SignedDuration::from_secs(600)).into());
    let nodes = [
        report(&handed(&job, &node("n1")), "Succeeded", moment().now),
        handed(&job, &node("n2")),
        Arc::new(node("n3")),
    ];
    assert!(is_overdue(&job, &Look::at(&job, &nodes), moment().now));
    let status = written(&job, &nodes);
    assert_eq!((&status["failed"], &status["succeeded"]), (&json!(2), &json!(1)));
    assert_eq!((&status["failedNodes"], status.get("active")), (&json!(["n2", "n3"]), None));
    assert_eq!(status["message"], "job exceeds activeDeadlineSeconds");
    let before = moment().now - SignedDuration::from_secs(60);
    assert_eq!(next_reconcile(&job, &Look::default(), before), Some(std::time::Duration::from_secs(60)));
    assert!(!is_overdue(&job, &Look::at(&job, &nodes), before));
}

#[test]
fn a_job_that_is_over_goes_after_its_time() {
    let mut job = job("a", json!({"completionPolicy": {"ttlSecondsAfterFinished": 10}}));
    assert_eq!(stage(&job, moment().now), Stage::Running);
    job.object.status.completion_time = Some((moment().now - SignedDuration::from_secs(4)).into());
    let left = |seconds| Stage::Completed(Some(std::time::Duration::from_secs(seconds)));
    assert_eq!(stage(&job, moment().now), left(6));
    assert_eq!(stage(&job, moment().now + SignedDuration::from_secs(9)), left(0));
    job.object.spec.completion_policy.ttl_seconds_after_finished = None;
    assert_eq!(stage(&job, moment().now), Stage::Completed(None));
    job.object.metadata.deletion_timestamp = Some(moment().now.into());
    assert_eq!(stage(&job, moment().now), Stage::Ending);
}

#[test]
fn nodes_are_chosen_by_name_by_label_or_all() {
    let mut labelled = node("n1");
    labelled.metadata.labels.insert("zone".to_owned(), "a".to_owned());
    for (spec, expected) in [
        (json!({}), [true, true]),
        (json!({"selector": {}}), [true, true]),
        (json!({"selector": {"names": ["n2", "n9"]}}), [false, true]),
        (json!({"selector": {"matchLabels": {"zone": "a"}}}), [true, false]),
    ] {
        let job = job("a", spec.clone());
        let included = [&labelled, &node("n2")].map(|node| job.nodes.include(node).unwrap());
        assert_eq!(included, expected, "{spec}");
        let woken = [&labelled, &node("n2")].map(|node| concerns(&job, None, Some(node)));
        assert_eq!(woken, expected, "{spec}");
    }
    let other = job("a", json!({"selector": {"matchLabels": {"zone": "a"}}}));
    assert!(
        concerns(&other, Some(&labelled), Some(&node("n1")))
            && !concerns(&other, Some(&node("n1")), Some(&node("n1")))
    );
}

#[test]
fn a_job_is_not_woken_by_what_a_node_has_pulled_of_an_image() {
    let job = job("a", json!({}));
    let one = report(&handed(&job, &node("n")), "Pulling", moment().now);
    let mut more = (*one).clone();
    more.status.image_statuses.get_mut("nginx").unwrap().tags[0].progress = Some(50);
    assert!(!is_about(&job, &one, &more));
    assert!(is_about(&job, &one, &report(&one, "Succeeded", moment().now)));
    assert!(!is_about(
        &fixture::job("b", json!({"image": "nginx:2"})),
        &one,
        &report(&one, "Succeeded", moment().now)
    ));
}

#[test]
fn the_finalizer_is_added_and_taken_away_once() {
    let mut job = job("a", json!({}));
    assert!(job.with_finalizer(true).unwrap().contains("apps.kruise.io/deletion-protection"));
    assert_eq!(job.with_finalizer(false), None);
    job.object.metadata.finalizers = vec!["x".to_owned(), api::finalizers::DELETION_PROTECTION.to_owned()];
    assert_eq!(job.with_finalizer(true), None);
    assert!(job.with_finalizer(false).unwrap().contains(r#""finalizers":["x"]"#));
}

#[test]
fn what_stands_still_is_explained() {
    let job = job("a", json!({}));
    let mut failed = (*report(&handed(&job, &node("n1")), "Failed", moment().now)).clone();
    let status: &mut TagStatus = &mut failed.status.image_statuses.get_mut("nginx").unwrap().tags[0];
    (status.message, status.progress) = ("no such image".to_owned(), Some(10));
    let nodes = [Arc::new(failed), handed(&job, &node("n2")), Arc::new(node("n3"))];
    let findings = explanation::findings(&job, &Look::at(&job, &nodes), &Facts::new());
    let found: Vec<(&str, &str)> =
        findings.iter().map(|(node, text)| (node.as_str(), text.as_str())).collect();
    assert_eq!(
        found,
        [
            ("n1", "failed, 10%: no such image"),
            ("n2", "its agent has not answered yet"),
            ("n3", "waits for its turn"),
        ]
    );
}

/// How far a job is while these are the Nodes.
fn look<'n>(job: &Job, nodes: &'n [Arc<NodeImage>], facts: &Facts) -> Look<'n> {
    let mut look = Look::at(job, nodes);
    look.hold(job, facts);
    look
}

fn warm(status: &str) -> NodeFacts {
    facts(&json!({}), &[("Ready", "True"), ("Warm", status)])
}

#[test]
fn a_node_waits_until_it_shows_what_the_job_asks_for() {
    let job = conditional("condition:Warm=True,label:gpu");
    let nodes = ["cold", "gone", "warm", "done"].map(|name| Arc::new(node(name)));
    let nodes = [
        nodes[0].clone(),
        nodes[1].clone(),
        nodes[2].clone(),
        report(&handed(&job, &nodes[3]), "Succeeded", moment().now),
    ];
    let gpu = json!({"gpu": "a"});
    let known = [
        ("cold", facts(&gpu, &[("Warm", "False")])),
        ("warm", facts(&gpu, &[("Warm", "True")])),
        ("done", facts(&json!({}), &[])),
    ];
    let known: Facts = known.map(|(name, facts)| (name.into(), Arc::new(facts))).into();
    let found = look(&job, &nodes, &known);
    let names = |list: &[&NodeImage]| list.iter().map(|node| node.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found.held), ["cold", "gone"]);
    assert_eq!(names(&to_serve(&job, &found, &[])), ["warm"], "one that waits takes nobody's turn");
    assert_eq!(names(&found.succeeded), ["done"], "what was handed out is not taken back");
    let status = serde_json::to_value(status_of(&job, &found, moment().now)).unwrap();
    assert_eq!(
        status,
        json!({"startTime": "2026-01-01T12:00:00Z", "desired": 4, "succeeded": 1,
        "message": "job is running, progress 25.0%, waits for kutter.io/pull-when on 2 nodes"})
    );
    assert_eq!(next_reconcile(&job, &found, moment().now), None, "it is woken by Nodes, and asks for none");
    let findings = explanation::findings(&job, &found, &known);
    assert_eq!(findings["cold"], "waits for condition:Warm=True");
    assert_eq!(findings["gone"], "waits for condition:Warm=True, label:gpu");
    assert_eq!(findings["warm"], "waits for its turn");
}

#[test]
fn a_node_that_never_shows_it_fails_at_the_deadline() {
    let mut job = conditional("label:gpu");
    let nodes = [Arc::new(node("n"))];
    let held = look(&job, &nodes, &Facts::new());
    job.object.status.start_time = Some((moment().now - SignedDuration::from_hours(9)).into());
    assert_eq!(status_of(&job, &held, moment().now).completion_time, None, "without a deadline it goes on");
    job.object.spec.completion_policy.active_deadline_seconds = Some(600);
    let status = status_of(&job, &held, moment().now);
    assert_eq!(status.message, "job exceeds activeDeadlineSeconds");
    assert_eq!((status.failed, status.failed_nodes), (Some(1), vec!["n".to_owned()]));
}

#[test]
fn a_job_whose_annotation_cannot_be_read_can_only_end() {
    let job = conditional("gpu");
    assert!(job.fault.is_some_and(|fault| fault.starts_with("metadata.annotations[kutter.io/pull-when]")));
}

#[test]
fn a_job_is_woken_by_the_nodes_that_it_waits_for() {
    let waits = node("n");
    let (cold, warm) = (warm("False"), warm("True"));
    let job = conditional("condition:Warm=True");
    let wakes = concerns_by_facts;
    assert!(wakes(&job, &waits, Some(&cold), Some(&warm)) && wakes(&job, &waits, Some(&warm), Some(&cold)));
    assert!(wakes(&job, &waits, None, Some(&warm)) && wakes(&job, &waits, Some(&warm), None));
    // Other conditions and labels change, and nothing follows from it.
    let other = facts(&json!({"zone": "a"}), &[("Ready", "False"), ("Warm", "True")]);
    assert!(!wakes(&job, &waits, Some(&warm), Some(&other)) && !wakes(&job, &waits, None, Some(&cold)));
    assert!(!wakes(&job, &handed(&job, &waits), Some(&cold), Some(&warm)), "it has its task");
    assert!(!wakes(&fixture::job("a", json!({})), &waits, Some(&cold), Some(&warm)), "nothing is asked for");
    let mut elsewhere = job;
    elsewhere.nodes = Nodes::Named(BTreeSet::from(["m".to_owned()]));
    assert!(!wakes(&elsewhere, &waits, Some(&cold), Some(&warm)), "the node is not among its nodes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However Nodes change, a task is handed out only where the annotation holds at that moment, once, to no more at a
    /// time than may be, never taken back; each change that matters wakes the job, and in the end all are served.
    #[test]
    fn no_node_pulls_before_it_shows_what_the_job_asks_for(
        count in 1_usize..12,
        parallelism in 1_i32..4,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 1..80),
    ) {
        let mut job = conditional("condition:Warm=True");
        job.object.spec.parallelism = Some(api::kinds::shared::IntOrString::Int(parallelism));
        let mut nodes: Vec<Arc<NodeImage>> = (0..count).map(|number| Arc::new(node(&format!("n{number}")))).collect();
        let mut known = Facts::new();
        let mut served = BTreeSet::new();
        let last = (0..count * 2).map(|number| (number % count, true, true));
        let mut is_due = true;
        for (place, is_warm, ends) in changes.iter().map(|(place, warm, ends)| (place.index(count), *warm, *ends)).chain(last) {
            let name = nodes[place].metadata.name.clone();
            let new = Arc::new(warm(if is_warm { "True" } else { "False" }));
            let old = known.insert(name.as_str().into(), new.clone());
            is_due |= concerns_by_facts(&job, &nodes[place], old.as_deref(), Some(&new));
            let found = look(&job, &nodes, &known);
            let now: Vec<String> = to_serve(&job, &found, &[]).iter().map(|node| node.metadata.name.clone()).collect();
            prop_assert!(found.active.len() + now.len() <= parallelism as usize);
            prop_assert!(is_due || now.is_empty(), "{:?} could be served, and nothing wakes the job", now);
            is_due = false;
            for name in now {
                prop_assert_eq!(known.get(&*name).and_then(|facts| facts.conditions.get("Warm")), Some("True"));
                prop_assert!(served.insert(name.clone()), "{} is served twice", name);
                let place = nodes.iter_mut().find(|node| node.metadata.name == name).unwrap();
                *place = handed(&job, place);
            }
            for place in &mut nodes {
                if ends && !Look::at(&job, std::slice::from_ref(place)).active.is_empty() {
                    *place = report(place, "Succeeded", moment().now);
                    is_due = true;
                }
            }
            let found = look(&job, &nodes, &known);
            prop_assert_eq!(found.active.len() + found.succeeded.len(), served.len());
            prop_assert_eq!(found.desired(), count);
        }
        prop_assert_eq!(served.len(), count);
        prop_assert!(status_of(&job, &look(&job, &nodes, &known), moment().now).completion_time.is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever the agents do, in whatever order, never do more nodes pull than may, each gets the task once, and in the
    /// end all have it and the job completes.
    #[test]
    fn every_node_is_served_once_and_no_more_at_a_time_than_may_be(
        count in 0_usize..40,
        parallelism in 1_i32..12,
        chances in proptest::collection::vec(any::<u64>(), 1..200),
    ) {
        let job = job("a", json!({"parallelism": parallelism}));
        let mut nodes: Vec<Arc<NodeImage>> = (0..count).map(|number| Arc::new(node(&format!("n{number}")))).collect();
        let mut served = BTreeSet::new();
        let mut chances = chances.iter().cycle();
        for _ in 0..=count * 4 {
            let look = Look::at(&job, &nodes);
            prop_assert!(look.active.len() <= parallelism as usize);
            let now: Vec<String> = to_serve(&job, &look, &[]).iter().map(|node| node.metadata.name.clone()).collect();
            prop_assert!(look.active.len() + now.len() <= parallelism as usize);
            for name in now {
                prop_assert!(served.insert(name.clone()), "{} is served twice", name);
                let place = nodes.iter_mut().find(|node| node.metadata.name == name).unwrap();
                *place = handed(&job, place);
            }
            let chance = *chances.next().unwrap();
            let busy: Vec<usize> = (0..count).filter(|place| {
                let one = &nodes[*place..=*place];
                !Look::at(&job, one).active.is_empty()
            }).collect();
            if let Some(place) = busy.get(chance as usize % busy.len().max(1)) {
                let phase = if chance % 3 == 0 { "Failed" } else { "Succeeded" };
                nodes[*place] = report(&nodes[*place], phase, moment().now);
            }
        }
        prop_assert_eq!(served.len(), count);
        let status = status_of(&job, &Look::at(&job, &nodes), moment().now);
        prop_assert!(status.completion_time.is_some());
        prop_assert_eq!(status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0), i32::try_from(count).unwrap());
        prop_assert!(patch(&job, &status).is_some());
    }
}

#[test]
fn a_job_that_is_paused_hands_nothing_out() {
    let job = job("a", json!({"parallelism": 0}));
    let nodes = [Arc::new(node("n"))];
    assert!(to_serve(&job, &Look::at(&job, &nodes), &[]).is_empty());
    for (parallelism, served) in [(json!("2"), 2), (Value::Null, 1)] {
        let job = fixture::job("a", json!({"parallelism": parallelism}));
        let nodes = ["a", "b", "c"].map(|name| Arc::new(node(name)));
        assert_eq!(to_serve(&job, &Look::at(&job, &nodes), &[]).len(), served);
    }
}

#[test]
fn nodes_of_pods_come_in_the_order_of_updates() {
    let job = job("a", json!({"podSelector": {"matchLabels": {"app": "web"}}}));
    let pod = |name: &str, node: &str, app: &str, phase: &str| {
        let text = json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": app}},
            "spec": {"nodeName": node}, "status": {"phase": phase}});
        Arc::new(ObservedPod::read(&text.to_string()).unwrap())
    };
    let pods = [
        pod("1", "n1", "web", "Running"),
        pod("2", "n2", "web", "Pending"),
        pod("3", "n3", "other", "Running"),
        pod("4", "n1", "web", "Running"),
        pod("5", "", "web", "Pending"),
        pod("6", "n6", "web", "Succeeded"),
    ];
    assert_eq!(job.nodes_of(&pods, &UpdateOrder::default()), ["n2", "n1"]);
    let mut ended = (*pods[1]).clone();
    ended.spec.node_name = "n9".into();
    assert!(trigger::concerns_by_pod(&job, Some(&pods[1]), Some(&ended)));
    assert!(
        !trigger::concerns_by_pod(&job, Some(&pods[4]), None)
            && trigger::concerns_by_pod(&job, Some(&pods[0]), None)
    );
    let weights = json!({"spec": {"updateStrategy": {"rollingUpdate": {"priorityStrategy": {"weightPriority": [
        {"weight": 9, "matchSelector": {"matchLabels": {"app": "web"}}}]}}}}});
    assert!(order_of_updates(&weights.to_string()).is_ok());
    let _: Timestamp = moment().now;
}
