use super::*;

fn moment() -> Moment {
    Moment { now: jiff::Timestamp::UNIX_EPOCH, seed: 1 }
}

fn rollout(phase: &str, reason: &str, id: &str) -> Value {
    json!({
        "apiVersion": rollout::API_VERSION, "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"later": 1, "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "strategy": {"canary": {"steps": [{"replicas": 1}], "trafficRoutings":
                [{"service": "web", "ingress": {"name": "in"}, "gateway": {"httpRouteName": "out"}}]}}},
        "status": {"phase": phase, "conditions": [{"type": "Progressing", "status": "True", "reason": reason}],
            "canaryStatus": {"observedRolloutID": id, "currentStepIndex": 1}},
    })
}

fn history(name: &str, id: &str, phase: &str, second: u8) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
            "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
        "spec": {"rollout": {"rolloutID": id, "name": "web"}}, "status": {"phase": phase},
    })
}

fn view(rollout: &Value, histories: Vec<Value>, pods: Vec<Value>) -> View {
    let mut view = View::default();
    let list = |kind: &str, api_version: &str, selector: &str| {
        let [api_version, kind, selector] = [api_version, kind, selector].map(str::to_owned);
        ListName { api_version, kind, namespace: "shop".to_owned(), selector }
    };
    view.has_list(list(KIND, API_VERSION, "rollouts.kruise.io/rollout-name=web"), histories);
    view.has_list(list("Pod", "v1", "rollouts.kruise.io/rollout-id=r1"), pods);
    view.has_object(ObjectName::new(rollout::API_VERSION, "Rollout", "shop", "web"), Some(rollout.clone()));
    for (api_version, kind, name) in [
        ("apps/v1", "Deployment", "web"),
        ("v1", "Service", "web"),
        ("networking.k8s.io/v1", "Ingress", "in"),
        (GATEWAY, "HTTPRoute", "out"),
    ] {
        let object = json!({"spec": {"of": kind}});
        view.has_object(ObjectName::new(api_version, kind, "shop", name), Some(object));
    }
    view
}

fn planned(rollout: &Value, histories: Vec<Value>, pods: Vec<Value>) -> Vec<Write> {
    let typed = serde_json::from_value(rollout.clone()).unwrap();
    plan(&typed, &view(rollout, histories, pods), &moment()).unwrap().writes
}

#[test]
fn a_release_is_recorded_once_with_all_its_objects() {
    let running = rollout("Progressing", "InRolling", "r1");
    let writes = planned(&running, Vec::new(), Vec::new());
    let [Write::Create { name, object }] = writes.as_slice() else { panic!("{writes:?}") };
    assert!(name.name.starts_with("web-") && name.name.len() == "web-".len() + 6, "{}", name.name);
    assert_eq!(object["metadata"]["labels"], json!({ROLLOUT_NAME: "web", ROLLOUT_ID: "r1"}));
    let expected = json!({
        "rollout": {"rolloutID": "r1", "name": "web", "data": running["spec"]},
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "data": {"of": "Deployment"}},
        "service": {"name": "web", "data": {"of": "Service"}},
        "trafficRouting": {"ingress": {"name": "in", "data": {"of": "Ingress"}},
            "httpRoute": {"name": "out", "data": {"of": "HTTPRoute"}}},
    });
    assert_eq!(object["spec"], expected);
    assert!(planned(&running, vec![history("web-a", "r1", "", 0)], Vec::new()).is_empty());
}

#[test]
fn nothing_is_recorded_of_a_blue_green_release_or_between_releases() {
    let mut green = rollout("Progressing", "InRolling", "r1");
    green["status"]["blueGreenStatus"] = green["status"]["canaryStatus"].take();
    assert!(planned(&green, Vec::new(), Vec::new()).is_empty());
    assert!(planned(&rollout("Healthy", "Completed", "r1"), Vec::new(), Vec::new()).is_empty());
}

#[test]
fn a_release_that_is_over_lists_the_pods_of_its_steps() {
    let pod = |name: &str, step: &str| {
        json!({"metadata": {"name": name, "labels": {ROLLOUT_ID: "r1", ROLLOUT_BATCH_ID: step}},
            "spec": {"nodeName": "n1"}, "status": {"podIP": "10.0.0.1"}})
    };
    let pods = vec![pod("b", "2"), pod("a", "1"), pod("c", "2"), pod("d", "none")];
    for over in [rollout("Healthy", "Completed", "r1"), rollout("Progressing", "Initializing", "r2")] {
        let writes = planned(&over, vec![history("web-a", "r1", "", 0)], pods.clone());
        let Some(Write::Patch { subresource: "status", patch, .. }) = writes.first() else {
            panic!("{writes:?}")
        };
        let info = |name: &str| json!({"name": name, "ip": "10.0.0.1", "nodeName": "n1"});
        let steps = json!([
            {"canaryStepIndex": 1, "pods": [info("a")]},
            {"canaryStepIndex": 2, "pods": [info("b"), info("c")]},
        ]);
        assert_eq!(patch["status"], json!({"phase": "completed", "canarySteps": steps}));
    }
}

#[test]
fn only_the_newest_releases_are_kept() {
    let histories = (0..13).map(|second| history(&format!("web-{second}"), "old", "completed", second));
    let writes = planned(&rollout("Healthy", "Completed", "r1"), histories.collect(), Vec::new());
    let deleted = writes.iter().map(|write| match write {
        Write::Delete { name, .. } => name.name.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(deleted.collect::<Vec<_>>(), ["web-0", "web-1", "web-2"]);
}
