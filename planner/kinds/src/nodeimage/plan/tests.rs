use super::*;

const NOW: &str = "2026-01-01T12:00:00Z";

fn moment() -> Moment {
    Moment { now: NOW.parse().unwrap(), seed: 1 }
}

fn ago(seconds: i64) -> String {
    (moment().now - SignedDuration::from_secs(seconds)).to_string()
}

fn node(ready_for: Option<i64>) -> Node {
    let ready_since = ready_for.map(|seconds| moment().now - SignedDuration::from_secs(seconds));
    Node { labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]), ready_since, deleting: false }
}

/// A NodeImage of a Node like [`node`].
fn image(spec: &Value, status: &Value) -> NodeImage {
    let metadata = json!({"name": "n", "uid": "u", "resourceVersion": "5", "labels": {"zone": "a"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// A task for `nginx:1` that was created so long ago.
fn task(created: i64, owners: &Value) -> Value {
    json!({"tag": "1", "version": 2, "createdAt": ago(created), "ownerReferences": owners,
        "pullPolicy": {"ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 100}})
}

fn spec(task: &Value) -> Value {
    json!({"images": {"nginx": {"tags": [task]}}})
}

fn ended(version: i64, seconds: i64) -> Value {
    let status =
        json!({"tag": "1", "phase": "Succeeded", "version": version, "completionTime": ago(seconds)});
    json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [status]}}})
}

fn job(uid: &str) -> Value {
    json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "namespace": "s", "name": "j", "uid": uid}])
}

/// The owners are named after what they are.
fn planned(node: Option<&Node>, image: Option<&NodeImage>) -> Plan {
    let owner = |reference: &ObjectReference| match reference.uid.as_str() {
        "gone" => Owner::Gone,
        "holds" => Owner::Holds,
        "ended" => Owner::Ended(moment().now - SignedDuration::from_secs(30)),
        _ => Owner::Alive,
    };
    let gone = |secret: &PullSecret| secret.name == "gone";
    let context = Context { owner: &owner, secret_is_gone: &gone, creation_delay: Duration::from_secs(30) };
    plan("n", node, image, context, moment())
}

/// What a patch makes of the images of a NodeImage.
fn images_after(image: &NodeImage) -> Option<Value> {
    let Step::Change(patch) = planned(Some(&node(Some(60))), Some(image)).step else { return None };
    let mut after = json!({"metadata": image.metadata, "spec": image.spec});
    let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
    json_patch::patch(&mut after, &patch).unwrap();
    Some(after["spec"]["images"].clone())
}

#[test]
fn a_node_that_is_ready_for_long_enough_has_a_node_image_with_its_labels() {
    let Step::Create(object) = planned(Some(&node(Some(30))), None).step else { panic!() };
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["metadata"], json!({"name": "n", "labels": {"zone": "a"}}));
    assert_eq!(planned(Some(&node(Some(10))), None).again, Some(Duration::from_secs(20)));
    let virtual_node = Node {
        labels: BTreeMap::from([("type".to_owned(), "virtual-kubelet".to_owned())]),
        ..node(Some(60))
    };
    for node in [node(None), virtual_node, Node { deleting: true, ..node(Some(60)) }] {
        assert_eq!(planned(Some(&node), None), Plan::of(Step::Nothing));
    }
}

#[test]
fn a_node_image_goes_with_its_node_unless_it_is_a_fake() {
    let mut image = image(&json!({}), &json!({}));
    let gone = Step::Delete(ObjectVersion {
        name: "n".to_owned(),
        uid: "u".to_owned(),
        resource_version: "5".to_owned(),
    });
    assert_eq!(planned(None, Some(&image)).step, gone);
    assert_eq!(planned(Some(&Node { deleting: true, ..node(None) }), Some(&image)).step, gone);
    image.metadata.labels.insert(FAKE.to_owned(), "true".to_owned());
    assert_eq!(planned(None, Some(&image)).step, Step::Nothing);
}

#[test]
fn labels_follow_the_node() {
    let image = image(&json!({}), &json!({}));
    assert_eq!(planned(Some(&node(None)), Some(&image)), Plan::of(Step::Nothing));
    let other = Node { labels: BTreeMap::from([("zone".to_owned(), "b".to_owned())]), ..node(None) };
    let Step::Change(patch) = planned(Some(&other), Some(&image)).step else { panic!() };
    assert!(patch.contains(r#""path":"/metadata/labels","value":{"zone":"b"}"#), "{patch}");
}

#[test]
fn tasks_leave_with_their_last_owner() {
    for (owners, kept) in [
        (job("gone"), false),
        (job("other"), true),
        (json!([]), true),
        (json!([{"apiVersion": "batch/v1", "kind": "Job", "uid": "gone"}]), true),
    ] {
        let image = image(&spec(&task(0, &owners)), &json!({}));
        assert_eq!(images_after(&image), (!kept).then(|| json!({})), "{owners}");
    }
    let mut both = job("gone");
    both.as_array_mut().unwrap().push(job("other")[0].clone());
    let after = images_after(&image(&spec(&task(0, &both)), &json!({}))).unwrap();
    assert_eq!(after["nginx"]["tags"][0]["ownerReferences"], job("other"));
}

#[test]
fn tasks_leave_some_time_after_they_end_but_not_while_their_job_counts_them() {
    for (owners, version, seconds, again) in [
        (json!([]), 2, 60, None),
        (json!([]), 2, 50, Some(10)),
        // The status of an older round says nothing.
        (json!([]), 1, 90, Some(600)),
        (job("other"), 2, 90, None),
        (job("ended"), 2, 90, Some(30)),
    ] {
        let image = image(&spec(&task(0, &owners)), &ended(version, seconds));
        let expected = again.map_or(Some(json!({})), |_| None);
        assert_eq!(images_after(&image), expected, "{owners} {version} {seconds}");
        let plan = planned(Some(&node(Some(60))), Some(&image));
        assert_eq!(plan.again, again.map(Duration::from_secs), "{owners} {version} {seconds}");
    }
    let image = image(&spec(&task(0, &job("holds"))), &ended(2, 90));
    assert_eq!(planned(Some(&node(Some(60))), Some(&image)), Plan::of(Step::Nothing));
}

#[test]
fn references_to_secrets_go_with_the_secrets() {
    let mut spec = spec(&task(0, &json!([])));
    spec["images"]["nginx"]["pullSecrets"] =
        json!([{"name": "gone"}, {"name": "there"}, {"name": "gone", "mode": "batch"}]);
    let after = images_after(&image(&spec, &json!({}))).unwrap();
    let batch = json!({"name": "gone", "mode": "batch"});
    assert_eq!(after["nginx"]["pullSecrets"], json!([{"name": "there"}, batch]));
    // Those to shared copies go when a task leaves and the others have ended.
    spec["images"]["nginx"]["pullSecrets"] = json!([batch]);
    let mut over = task(0, &job("gone"));
    over["tag"] = json!("2");
    spec["images"]["nginx"]["tags"].as_array_mut().unwrap().push(over);
    let after = |status: &Value| images_after(&image(&spec, status)).unwrap()["nginx"]["pullSecrets"].clone();
    assert_eq!((after(&ended(2, 1)), after(&json!({}))), (Value::Null, json!([batch])));
}

#[test]
fn silent_agents_fail_their_tasks() {
    let pulling = |version: i64| {
        let status = json!({"tag": "1", "phase": "Pulling", "version": version, "startTime": ago(700)});
        json!({"desired": 2, "waiting": 1, "imageStatuses": {"nginx": {"tags": [status]}, "old": {"tags": []}}})
    };
    let silent = "node has not responded for a long time";
    let late = "pulling exceeds the activeDeadlineSeconds";
    for (created, status, message) in [
        (600, json!({}), Some(silent)),
        (599, json!({}), None),
        (600, pulling(1), Some(silent)),
        (699, pulling(2), None),
        (700, pulling(2), Some(late)),
        (9000, ended(2, 1), None),
    ] {
        let image = image(&spec(&task(created, &job("other"))), &status);
        let plan = planned(Some(&node(Some(60))), Some(&image));
        let Step::Fail(patch, events) = plan.step else {
            assert_eq!((plan.step, message), (Step::Nothing, None), "{created} {status}");
            continue;
        };
        let patch: Value = serde_json::from_str(&patch).unwrap();
        let found = &patch["status"]["imageStatuses"]["nginx"]["tags"][0];
        assert_eq!(
            (&found["phase"], &found["message"]),
            (&json!("Failed"), &json!(message)),
            "{created} {status}"
        );
        assert_eq!((&found["version"], &found["completionTime"]), (&json!(2), &json!(NOW)));
        assert_eq!(found["startTime"].is_string(), message == Some(late));
        assert_eq!((&patch["status"]["failed"], &patch["status"]["desired"]), (&json!(1), &json!(1)));
        assert_eq!(patch["status"].get("waiting"), None);
        assert_eq!(patch["status"]["imageStatuses"].get("old").is_some(), status != json!({}));
        let kinds: Vec<&str> = events.iter().map(|(object, _)| object.kind.as_str()).collect();
        assert_eq!(kinds, ["ImagePullJob", "NodeImage"]);
        let text = format!("Failed to pull image nginx:1 on node n for {}", message.unwrap());
        assert!(events.iter().all(|(_, event)| event.warning && event.message == text), "{events:?}");
    }
}

#[test]
fn short_waits_are_stretched_by_chance() {
    let image = image(&spec(&task(599, &json!([]))), &json!({}));
    let again = planned(Some(&node(Some(60))), Some(&image)).again.unwrap();
    assert!(again >= SHORTEST && again < SHORTEST + Duration::from_secs(2), "{again:?}");
}
