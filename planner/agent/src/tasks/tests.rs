use super::*;
use kinds::workload::image_task::{self, TaskOutcome};
use proptest::prelude::*;

fn node(images: &Value, status: &Value) -> NodeImage {
    let metadata = json!({"name": "n", "resourceVersion": "7"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"images": images}, "status": status}))
        .unwrap()
}

fn images(tags: &[(&str, i64)]) -> Value {
    let tags: Vec<Value> =
        tags.iter().map(|(tag, version)| json!({"tag": tag, "version": version})).collect();
    json!({"a": {"tags": tags}})
}

fn key(tag: &str) -> Key {
    Key { image: "a".to_owned(), tag: tag.to_owned() }
}

fn refused(error: &str) -> Refusal {
    Refusal { owners: Vec::new(), error: error.to_owned() }
}

fn pulled(id: Option<&str>) -> Report {
    Report::Succeeded { id: id.map(str::to_owned), is_private: false }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// The NodeImage after the write that is due.
fn written(tasks: &Tasks, node: &NodeImage) -> NodeImage {
    let Some(change) = tasks.change(node) else { return node.clone() };
    let mut object = json!({"metadata": node.metadata, "spec": node.spec, "status": node.status});
    json_patch::merge(&mut object, &serde_json::from_str(&change.patch).unwrap());
    serde_json::from_value(object).unwrap()
}

#[test]
fn a_task_is_started_once_and_its_end_is_reported() {
    let mut tasks = Tasks::default();
    let node = node(&images(&[("1", 3)]), &json!({}));
    assert_eq!(tasks.follow(Some(&node)), [Step::Start(1, key("1"))]);
    assert_eq!(tasks.follow(Some(&node)), []);
    let waiting = written(&tasks, &node);
    assert_eq!((waiting.status.desired, waiting.status.waiting), (1, Some(1)));
    assert!(tasks.report(&key("1"), 1, &Report::Began, now()));
    let pulling = written(&tasks, &waiting);
    assert_eq!((pulling.status.pulling, pulling.status.waiting), (Some(1), None));
    assert!(tasks.report(&key("1"), 1, &Report::Stumbled(refused("timeout")), now()));
    assert_eq!(written(&tasks, &pulling).status.image_statuses["a"].tags[0].message, "timeout");
    assert!(tasks.report(&key("1"), 1, &pulled(Some("sha256:9")), now()));
    let done = written(&tasks, &pulling);
    let expected = json!({"tag": "1", "phase": "Succeeded", "version": 3, "progress": 100,
        "imageID": "a@sha256:9", "startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z"});
    assert_eq!(json!(done.status.image_statuses["a"].tags[0]), expected);
    assert_eq!(tasks.follow(Some(&pulling)), [], "the write may have been lost");
    assert_eq!((tasks.follow(Some(&done)), tasks.change(&done)), (vec![], None));
}

#[test]
fn a_new_round_stops_the_worker_of_the_old_one_whose_words_no_longer_count() {
    let mut tasks = Tasks::default();
    tasks.follow(Some(&node(&images(&[("1", 0)]), &json!({}))));
    let node = node(&images(&[("1", 1)]), &json!({}));
    assert_eq!(tasks.follow(Some(&node)), [Step::Stop(1), Step::Start(2, key("1"))]);
    assert!(!tasks.report(&key("1"), 1, &pulled(None), now()));
    assert_eq!(written(&tasks, &node).status.image_statuses["a"].tags[0].phase, WAITING);
    assert_eq!(tasks.follow(None), [Step::Stop(2)], "the NodeImage is gone");
}

#[test]
fn what_has_ended_before_this_process_is_left_as_it_is() {
    let done =
        json!({"tag": "1", "phase": "Succeeded", "version": 2, "completionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"desired": 1, "succeeded": 1, "imageStatuses": {"a": {"tags": [done]}}});
    let mut tasks = Tasks::default();
    let ended = node(&images(&[("1", 2)]), &status);
    assert_eq!((tasks.follow(Some(&ended)), tasks.change(&ended)), (vec![], None));
    let next = node(&images(&[("1", 3)]), &status);
    assert_eq!(tasks.follow(Some(&next)).len(), 1);
    let empty = node(&json!({}), &status);
    assert_eq!(tasks.follow(Some(&empty)), [Step::Stop(1)]);
    let patch: Value = serde_json::from_str(&tasks.change(&empty).unwrap().patch).unwrap();
    let expected = json!({"desired": 0, "succeeded": null, "imageStatuses": {"a": null}});
    assert_eq!(patch, json!({"metadata": {"resourceVersion": "7"}, "status": expected}));
}

#[test]
fn a_task_that_was_given_up_by_the_controller_is_no_longer_served() {
    let mut tasks = Tasks::default();
    tasks.follow(Some(&node(&images(&[("1", 0)]), &json!({}))));
    let failed =
        json!({"tag": "1", "phase": "Failed", "version": 0, "completionTime": "2026-01-01T00:00:00Z"});
    let given_up = node(
        &images(&[("1", 0)]),
        &json!({"desired": 1, "failed": 1, "imageStatuses": {"a": {"tags": [failed]}}}),
    );
    assert_eq!((tasks.follow(Some(&given_up)), tasks.change(&given_up)), (vec![Step::Stop(1)], None));
}

#[test]
fn a_wrong_status_is_written_again() {
    let mut tasks = Tasks::default();
    let wrong = json!({"desired": 9, "pulling": 4, "imageStatuses": {"b": {"tags": []}}});
    let node = node(&images(&[("1", 0)]), &wrong);
    tasks.follow(Some(&node));
    let after = written(&tasks, &node);
    assert_eq!((after.status.desired, after.status.pulling, after.status.waiting), (1, None, Some(1)));
    assert_eq!(tasks.change(&after), None);
}

#[test]
fn ends_are_reported_sooner_than_beginnings_and_messages_are_short() {
    let mut tasks = Tasks::default();
    let node = node(&images(&[("1", 0)]), &json!({}));
    tasks.follow(Some(&node));
    assert_eq!(tasks.change(&node).unwrap().gather, Duration::from_secs(1));
    tasks.report(&key("1"), 1, &Report::Failed(refused(&"é".repeat(1000))), now());
    assert_eq!(tasks.change(&node).unwrap().gather, Duration::from_millis(100));
    assert_eq!(written(&tasks, &node).status.image_statuses["a"].tags[0].message.len(), 1024);
    let reported = event(&key("1"), &Report::Failed(refused("no such host")), Duration::ZERO).unwrap();
    assert_eq!((reported.warning, reported.message.as_str()), (true, "Image a:1 no such host"));
    let reported = event(&key("1"), &pulled(None), Duration::from_millis(1234)).unwrap();
    assert_eq!(reported.message, "Image a:1, ecalpsedTime 1.2s");
}

#[test]
fn a_status_says_whom_it_is_about_and_whether_credentials_were_used() {
    let (mut tasks, node) = (Tasks::default(), node(&images(&[("1", 0)]), &json!({})));
    tasks.follow(Some(&node));
    let said = |tasks: &Tasks| written(tasks, &node).status.image_statuses["a"].tags[0].clone();
    let refusal = Refusal { owners: vec!["b/x".to_owned(), "b/y".to_owned()], error: "e: ".repeat(1000) };
    tasks.report(&key("1"), 1, &Report::Stumbled(refusal), now());
    for (owner, fate) in
        [("a/x", TaskOutcome::Succeeded), ("b/x", TaskOutcome::Open), ("b/y", TaskOutcome::Open)]
    {
        assert_eq!(image_task::fate(Some(&said(&tasks)), owner), fate, "{owner}");
    }
    let refusal = Refusal { owners: vec!["b/x".to_owned()], error: "401".to_owned() };
    let owner = |namespace: &str| ObjectReference {
        namespace: namespace.to_owned(),
        name: "x".to_owned(),
        ..ObjectReference::default()
    };
    assert!(
        refusal.concerns(&owner("b")) && !refusal.concerns(&owner("a")) && refused("").concerns(&owner("a"))
    );
    let mut others = tasks.clone();
    others.report(&key("1"), 1, &Report::Failed(refusal), now());
    assert_eq!(said(&others).message, "not for b/x: 401");
    for (owner, fate) in [("b/x", TaskOutcome::Failed), ("b/y", TaskOutcome::Succeeded)] {
        assert_eq!(image_task::fate(Some(&said(&others)), owner), fate, "{owner}");
    }
    tasks.report(&key("1"), 1, &Report::Succeeded { id: None, is_private: true }, now());
    assert_eq!(said(&tasks).message, "pulled with pull Secrets");
    assert!([said(&tasks), said(&others)].iter().all(image_task::is_private));
}

#[test]
fn a_new_round_of_an_image_that_came_with_credentials_says_so_until_it_ends() {
    let said = |node: &NodeImage| node.status.image_statuses["a"].tags[0].clone();
    let mut tasks = Tasks::default();
    let (first, next) = (images(&[("1", 0)]), images(&[("1", 1)]));
    let mut object = node(&first, &json!({}));
    tasks.follow(Some(&object));
    tasks.report(&key("1"), 1, &Report::Succeeded { id: None, is_private: true }, now());
    object = written(&tasks, &object);
    object.spec = node(&next, &json!({})).spec;
    for phase in [WAITING, PULLING] {
        // Each time by an agent that has just started.
        tasks = Tasks::default();
        assert_eq!(tasks.follow(Some(&object)), [Step::Start(1, key("1"))]);
        if phase == PULLING {
            tasks.report(&key("1"), 1, &Report::Began, now());
        }
        object = written(&tasks, &object);
        assert_eq!((said(&object).phase.as_str(), said(&object).version), (phase, Some(1)));
        assert!(image_task::is_doubtful(&object, "a", "1"), "{phase}");
        assert_eq!(image_task::fate(Some(&said(&object)), "shop/a"), TaskOutcome::Open);
    }
    tasks.report(&key("1"), 1, &pulled(None), now());
    assert_eq!(said(&written(&tasks, &object)).message, "");
}

proptest! {
    /// Whatever is requested, reported and written in whatever order: there is one worker for each open task, and one
    /// write leaves nothing to write.
    #[test]
    fn every_open_task_has_one_worker(steps in prop::collection::vec((0..6_u8, 0..3_usize, 0..3_i64), 1..60)) {
        let (mut tasks, mut running) = (Tasks::default(), BTreeMap::new());
        let mut object = node(&json!({}), &json!({}));
        let mut tags: BTreeMap<usize, i64> = BTreeMap::new();
        for (action, tag, version) in steps {
            match action {
                0 | 1 => {
                    tags.insert(tag, version);
                }
                2 => {
                    tags.remove(&tag);
                }
                3 | 4 => {
                    let key = key(&tag.to_string());
                    let worker = running.iter().find(|(_, known)| **known == key).map(|(worker, _)| *worker);
                    if let Some(worker) = worker {
                        let report = if action == 3 { Report::Began } else { pulled(None) };
                        prop_assert!(tasks.report(&key, worker, &report, now()));
                        if action == 4 {
                            running.remove(&worker);
                        }
                    }
                }
                _ => object = written(&tasks, &object),
            }
            let names: Vec<(String, i64)> =
                tags.iter().map(|(tag, version)| (tag.to_string(), *version)).collect();
            let names: Vec<(&str, i64)> =
                names.iter().map(|(tag, version)| (tag.as_str(), *version)).collect();
            object.spec = node(&images(&names), &json!({})).spec;
            for step in tasks.follow(Some(&object)) {
                match step {
                    Step::Stop(worker) => prop_assert!(running.remove(&worker).is_some()),
                    Step::Start(worker, key) => prop_assert!(running.insert(worker, key).is_none()),
                }
            }
            let served: BTreeSet<&Key> = running.values().collect();
            prop_assert_eq!(served.len(), running.len(), "no task has two workers");
            let settled = written(&tasks, &object);
            prop_assert_eq!(tasks.change(&settled), None);
            prop_assert_eq!(settled.status.desired as usize, names.len());
        }
    }
}
