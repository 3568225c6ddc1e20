use super::*;

const FREEZING: ConfigurationKind = ConfigurationKind::MutatingRollouts;

/// With the gate of Rollouts too.
pub(super) fn server() -> Server {
    let plain = Server::new();
    let definitions = api::crds::ROLLOUTS.iter().map(|definition| definition.name());
    Server {
        gates: plain.gates.clone().with(Feature::Rollouts, true),
        definitions: plain.definitions.iter().cloned().chain(definitions).collect(),
        ..plain
    }
}

#[test]
fn rollouts_have_configurations_of_their_own() {
    let server = server();
    for (kind, name, count) in [
        (FREEZING, "kruise-rollout-mutating-webhook-configuration", 13),
        (ConfigurationKind::ValidatingRollouts, "kruise-rollout-validating-webhook-configuration", 1),
    ] {
        let live = server.apply(kind, &empty(kind));
        let object: Value = serde_json::from_str(&live).unwrap();
        assert_eq!((&object["metadata"]["name"], &object["kind"]), (&json!(name), &json!(kind.kind())));
        assert_eq!(names(&live).len(), count);
        // Nothing of the other configurations is there, and nothing of it in them.
        for other in ConfigurationKind::ALL.into_iter().filter(|other| *other != kind) {
            let others = names(&server.apply(other, &empty(other)));
            assert!(!others.iter().any(|name| names(&live).contains(name)));
        }
    }
    let validating =
        server.apply(ConfigurationKind::ValidatingRollouts, &empty(ConfigurationKind::ValidatingRollouts));
    let rollouts = entry(&validating, "vrollout.kb.io");
    assert_eq!(rollouts["failurePolicy"], "Fail");
    assert_eq!(rollouts["clientConfig"]["service"]["path"], "/validate-rollouts-kruise-io-rollout");
    let rule = json!([{"apiGroups": ["rollouts.kruise.io"], "apiVersions": ["v1alpha1", "v1beta1"],
        "operations": ["CREATE", "UPDATE"], "resources": ["rollouts"], "scope": "*"}]);
    assert_eq!(rollouts["rules"], rule);
}

#[test]
fn only_workloads_that_are_known_to_have_a_rollout_depend_on_an_answer() {
    let mut server = server();
    server.settings.timeout_seconds = NonZeroU8::new(30).unwrap();
    server.settings.excluded_namespaces = vec!["batch".to_owned()];
    let live = server.apply(FREEZING, &empty(FREEZING));
    let seen = |name: &str| {
        let entry = entry(&live, name);
        let label = entry["objectSelector"]["matchExpressions"][0].clone();
        assert_eq!(label["key"], "rollouts.kruise.io/workload-type");
        let namespaces = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
            "values": ["kube-system", "kruise-system", "batch"]}]);
        assert_eq!(entry["namespaceSelector"]["matchExpressions"], namespaces);
        (entry["failurePolicy"].clone(), label["operator"].clone(), entry["timeoutSeconds"].clone())
    };
    let known = (json!("Fail"), json!("Exists"), json!(30));
    let other = (json!("Ignore"), json!("DoesNotExist"), json!(5));
    for kind in
        ["cloneset", "deployment", "statefulset", "daemonset", "advancedstatefulset", "advanceddaemonset"]
    {
        assert_eq!(seen(&format!("mrollout{kind}.kb.io")), known);
        assert_eq!(seen(&format!("mrolloutnew{kind}.kb.io")), other);
    }
    assert_eq!(seen("mrolloutworkload.kb.io"), known);
}

#[test]
fn an_entry_names_the_changes_that_concern_a_release() {
    let live = server().apply(FREEZING, &empty(FREEZING));
    let conditions = |name: &str| -> Vec<(String, String)> {
        let conditions = entry(&live, name)["matchConditions"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        conditions.iter().map(|one| (text(&one["name"]), text(&one["expression"]))).collect()
    };
    let (release, any) = (conditions("mrolloutdeployment.kb.io"), conditions("mrolloutworkload.kb.io"));
    assert_eq!(release[0].0, "release");
    for word in [
        "template",
        "rollouts.kruise.io/rollout-id",
        "rollouts.kruise.io/in-progressing",
        "paused",
        "strategy",
        "rollouts.kruise.io/original-deployment-strategy",
        "minReadySeconds",
        "progressDeadlineSeconds",
        "updateStrategy",
    ] {
        assert!(release[0].1.contains(&format!("'{word}'")), "{word}: {}", release[0].1);
    }
    assert!(!release[0].1.contains("replicas"));
    assert_eq!(any[1], release[0]);
    let rest = "!(request.resource.group + '/' + request.resource.resource in ['apps.kruise.io/clonesets', \
                'apps/daemonsets', 'apps/deployments', 'apps/statefulsets', 'apps.kruise.io/daemonsets', \
                'apps.kruise.io/statefulsets'])";
    assert_eq!(any[0], ("without-own-entry".to_owned(), rest.to_owned()));
    assert_eq!(conditions("mrolloutnewdeployment.kb.io"), release);
}

#[test]
fn without_the_definition_of_rollouts_nothing_is_held_back() {
    let mut server = server();
    server.definitions.remove("rollouts.rollouts.kruise.io");
    assert_eq!(names(&server.apply(FREEZING, &empty(FREEZING))), Vec::<String>::new());
}

#[test]
fn with_the_gate_off_our_entries_go_and_those_of_others_stay() {
    let mut server = server();
    let live = server.apply(FREEZING, &empty(FREEZING));
    let shared = change(&live, |live| {
        live["webhooks"].as_array_mut().unwrap().insert(1, foreign("/mutate-elsewhere", Some("QQ==")));
    });
    let withdraw = |live: &str, endpoint: &ServerAddress| {
        let patch = Configuration::parse(live).unwrap().withdrawal(endpoint);
        (apply(live, &patch).unwrap(), patch.operations().len())
    };
    let (after, operations) = withdraw(&shared, &server.settings.endpoint);
    assert_eq!((names(&after), operations), (vec!["mine.example.com".to_owned()], 14));
    assert_eq!(withdraw(&after, &server.settings.endpoint), (after.clone(), 0));
    let elsewhere =
        ServerAddress::Service { namespace: "kruise-system".to_owned(), name: "other".to_owned() };
    assert_eq!(withdraw(&shared, &elsewhere).1, 0);

    let host = ServerAddress::Host { host: "10.0.0.5".to_owned(), port: 9876 };
    server.settings.endpoint = host.clone();
    let called = server.apply(FREEZING, &live);
    assert_eq!(names(&withdraw(&called, &host).0), Vec::<String>::new());
    assert_eq!(withdraw(&called, &settings().endpoint).1, 0);
}

#[test]
fn entries_of_openkruise_wait_in_the_template() {
    let server = server();
    let mut theirs = foreign("/mutate-apps-v1-deployment", Some("QQ=="));
    theirs["name"] = json!("mdeployment.kb.io");
    let live = change(&empty(FREEZING), |live| live["webhooks"] = json!([theirs]));
    let after = server.apply(FREEZING, &live);
    assert!(!names(&after).contains(&"mdeployment.kb.io".to_owned()));
    let object: Value = serde_json::from_str(&after).unwrap();
    assert!(object["metadata"]["annotations"]["template"].as_str().unwrap().contains("mdeployment.kb.io"));
}
