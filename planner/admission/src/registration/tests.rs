use serde_json::{Value, json};

use super::*;
use crate::endpoint::Purpose;
use api::features::Feature;
use values::json_patch::apply;

mod exit_priority;
mod narrowing;
mod rollouts;

fn settings() -> Settings {
    let endpoint = ServerAddress::Service {
        namespace: "kruise-system".to_owned(),
        name: "kruise-webhook-service".to_owned(),
    };
    Settings::new("kruise-system", endpoint)
}

/// One server with everything on, to be narrowed by a test.
struct Server {
    settings: Settings,
    gates: FeatureGates,
    definitions: BTreeSet<String>,
    answering: BTreeSet<String>,
    owner: Option<Owner>,
    bundle: &'static str,
    segment: Option<Segment>,
    refusal: Option<&'static str>,
}

impl Server {
    fn new() -> Self {
        let paths = ConfigurationKind::ALL.into_iter().flat_map(entries).map(|entry| entry.path.to_owned());
        Self {
            settings: settings(),
            gates: FeatureGates::default().with(Feature::ResourcesDeletionProtection, true),
            answering: paths.collect(),
            definitions: api::crds::ALL.iter().map(|definition| definition.name()).collect(),
            owner: None,
            bundle: "QQ==",
            segment: None,
            refusal: None,
        }
    }

    fn plan(&self, kind: ConfigurationKind, live: &str) -> Plan {
        let wanted = Wanted {
            settings: &self.settings,
            refusal: self.refusal,
            gates: &self.gates,
            definitions: &self.definitions,
            bundle: self.bundle,
            segment: self.segment,
            answering: &self.answering,
            owner: self.owner.as_ref(),
        };
        Configuration::parse(live).unwrap().plan(kind, &wanted)
    }

    /// Carries out the plan; asserts that a second one finds nothing to do.
    fn apply(&self, kind: ConfigurationKind, live: &str) -> String {
        let text = apply(live, &self.plan(kind, live).patch).unwrap();
        assert_eq!(self.plan(kind, &text).patch, Patch::default(), "the plan must be complete");
        text
    }
}

const MUTATING: ConfigurationKind = ConfigurationKind::Mutating;
const VALIDATING: ConfigurationKind = ConfigurationKind::Validating;

fn empty(kind: ConfigurationKind) -> String {
    let mut object: Value = serde_json::from_str(&kind.empty_object()).unwrap();
    object["metadata"]["resourceVersion"] = json!("7");
    object.to_string()
}

fn names(live: &str) -> Vec<String> {
    let live: Value = serde_json::from_str(live).unwrap();
    let list = live["webhooks"].as_array().cloned().unwrap_or_default();
    list.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
}

fn entry(live: &str, name: &str) -> Value {
    let live: Value = serde_json::from_str(live).unwrap();
    live["webhooks"].as_array().unwrap().iter().find(|webhook| webhook["name"] == name).unwrap().clone()
}

fn change(live: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(live).unwrap();
    edit(&mut value);
    value.to_string()
}

#[test]
fn an_empty_configuration_gets_every_entry_in_the_order_of_the_table() {
    let server = Server::new();
    for (kind, count) in [(MUTATING, 13), (VALIDATING, 27)] {
        let live = server.apply(kind, &empty(kind));
        let table: Vec<&str> = entries(kind).iter().map(|entry| entry.name).collect();
        assert_eq!(names(&live), table);
        assert_eq!(table.len(), count);
    }
}

#[test]
fn entries_wait_until_a_call_through_the_service_succeeded() {
    let server = Server { answering: BTreeSet::new(), ..Server::new() };
    let plan = server.plan(MUTATING, &empty(MUTATING));
    assert_eq!(plan.waiting.len(), 13);
    assert_eq!(names(&server.apply(MUTATING, &empty(MUTATING))), Vec::<String>::new());

    let answering = BTreeSet::from(["/mutate-pod".to_owned()]);
    let some = Server { answering, ..Server::new() };
    assert_eq!(names(&some.apply(MUTATING, &empty(MUTATING))), ["mpod.kb.io"]);
}

#[test]
fn both_configurations_belong_to_the_install_namespace_and_keep_other_owners() {
    let owner = Owner { name: "kruise-system".to_owned(), uid: "u2".to_owned() };
    let server = Server { owner: Some(owner), ..Server::new() };
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "name": "kruise-system", "uid": "u2"});
    let stale = json!({"apiVersion": "v1", "kind": "Namespace", "name": "kruise-system", "uid": "u1"});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": true});
    for (before, after) in [
        (Value::Null, json!([own])),
        (json!([other]), json!([other, own])),
        (json!([stale, other]), json!([own, other])),
        (json!([other, own]), json!([other, own])),
    ] {
        let live = change(&empty(VALIDATING), |live| {
            if !before.is_null() {
                live["metadata"]["ownerReferences"] = before;
            }
        });
        let live: Value = serde_json::from_str(&server.apply(VALIDATING, &live)).unwrap();
        assert_eq!(live["metadata"]["ownerReferences"], after);
    }
}

#[test]
fn scenario_7_gate_off_removes_entries_and_the_template_keeps_them() {
    let on = Server::new();
    let off = Server { gates: on.gates.clone().with(Feature::PodWebhook, false), ..Server::new() };
    let (mutating, validating) =
        (on.apply(MUTATING, &empty(MUTATING)), on.apply(VALIDATING, &empty(VALIDATING)));
    for (kind, before, gone) in [
        (MUTATING, &mutating, &["mpod.kb.io"][..]),
        (VALIDATING, &validating, &["vpod.kb.io", "vpodeviction.kb.io", "vpodresize.kb.io"]),
    ] {
        let without = off.apply(kind, before);
        let parsed: Value = serde_json::from_str(&without).unwrap();
        let template = parsed["metadata"]["annotations"]["template"].as_str().unwrap();
        for name in gone {
            assert!(!names(&without).contains(&(*name).to_owned()));
            assert!(template.contains(&format!("\"{name}\"")));
        }
        assert_eq!(on.apply(kind, &without), *before);
    }
}

#[test]
fn scenario_8_protection_gate_removes_services_and_ingresses_only() {
    let server = Server { gates: FeatureGates::default(), ..Server::new() };
    let names = names(&server.apply(VALIDATING, &empty(VALIDATING)));
    assert!(!names.iter().any(|name| name == "vservice.kb.io" || name == "vingress.kb.io"));
    assert!(names.iter().any(|name| name == "vnamespace.kb.io"));
}

#[test]
fn entries_of_kinds_that_policies_protect_go_and_come_back() {
    let (webhooks, mut policies) = (Server::new(), Server::new());
    policies.settings.protection_by_policies = true;
    let live = webhooks.apply(VALIDATING, &empty(VALIDATING));
    let without = policies.apply(VALIDATING, &live);
    let left = names(&without);
    let gone: Vec<String> = names(&live).into_iter().filter(|name| !left.contains(name)).collect();
    assert_eq!(
        gone,
        [
            "vbuiltindeployment.kb.io",
            "vbuiltinreplicaset.kb.io",
            "vbuiltinstatefulset.kb.io",
            "vingress.kb.io",
            "vservice.kb.io"
        ]
    );
    assert_eq!(webhooks.apply(VALIDATING, &without), live);
}

#[test]
fn a_missing_definition_removes_the_pod_entries_that_need_it() {
    let mut server = Server::new();
    server.definitions.remove("sidecarsets.apps.kruise.io");
    assert!(!names(&server.apply(MUTATING, &empty(MUTATING))).contains(&"mpod.kb.io".to_owned()));
    assert!(names(&server.apply(VALIDATING, &empty(VALIDATING))).contains(&"vpod.kb.io".to_owned()));
}

#[test]
fn scenario_5_a_host_is_called_by_url() {
    let mut server = Server::new();
    server.settings.endpoint = ServerAddress::Host { host: "10.0.0.5".to_owned(), port: 9876 };
    let through_service = Server::new().apply(MUTATING, &empty(MUTATING));
    let live = server.apply(MUTATING, &through_service);
    let config = &entry(&live, "mpod.kb.io")["clientConfig"];
    assert_eq!(*config, json!({"url": "https://10.0.0.5:9876/mutate-pod", "caBundle": "QQ=="}));
}

#[test]
fn scenario_10_a_foreign_bundle_is_repaired_by_one_operation() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let broken = change(&live, |live| live["webhooks"][4]["clientConfig"]["caBundle"] = json!("Wg=="));
    let plan = server.plan(MUTATING, &broken);
    assert_eq!(plan.foreign_bundles, ["mcloneset.kb.io"]);
    assert_eq!(
        plan.patch.to_json(),
        r#"[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/webhooks/4/clientConfig/caBundle","value":"QQ=="}]"#
    );
}

#[test]
fn third_party_changes_to_own_entries_are_repaired() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    for (field, value) in [
        ("failurePolicy", json!("Ignore")),
        ("timeoutSeconds", json!(1)),
        ("matchPolicy", json!("Exact")),
        ("reinvocationPolicy", json!("IfNeeded")),
        ("namespaceSelector", json!({"matchLabels": {"a": "b"}})),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
        ("matchConditions", json!([{"name": "never", "expression": "false"}])),
        ("rules", json!([])),
        ("sideEffects", json!("Unknown")),
        ("admissionReviewVersions", json!(["v1"])),
        ("rules", json!("nonsense")),
    ] {
        let broken = change(&live, |live| live["webhooks"][0][field] = value.clone());
        assert_eq!(
            entry(&server.apply(MUTATING, &broken), "mpod.kb.io"),
            entry(&live, "mpod.kb.io"),
            "{field}"
        );
    }
    let swapped = change(&live, |live| live["webhooks"][1]["name"] = json!("mpod.kb.io"));
    assert_eq!(names(&server.apply(MUTATING, &swapped)), names(&live));
}

#[test]
fn what_the_api_server_fills_in_is_no_difference() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let bare = change(&live, |live| {
        for webhook in live["webhooks"].as_array_mut().unwrap() {
            let webhook = webhook.as_object_mut().unwrap();
            for field in ["matchPolicy", "timeoutSeconds", "failurePolicy"] {
                webhook.remove(field);
            }
            if webhook["reinvocationPolicy"] == "Never" {
                webhook.remove("reinvocationPolicy");
            }
            webhook["rules"][0].as_object_mut().unwrap().remove("scope");
            webhook["clientConfig"]["service"].as_object_mut().unwrap().remove("port");
        }
    });
    assert_eq!(server.plan(MUTATING, &bare), Plan::default());
}

#[test]
fn selectors_are_those_of_the_table() {
    let server = Server::new();
    let (mutating, validating) =
        (server.apply(MUTATING, &empty(MUTATING)), server.apply(VALIDATING, &empty(VALIDATING)));
    let pods = entry(&mutating, "mpod.kb.io");
    assert_eq!(
        pods["namespaceSelector"]["matchExpressions"],
        json!([
            {"key": "control-plane", "operator": "DoesNotExist"},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kruise-system"]},
        ])
    );
    assert_eq!(
        pods["objectSelector"]["matchExpressions"],
        json!([{"key": "kutter.io/component", "operator": "DoesNotExist"}])
    );
    let protected = json!([{"key": "policy.kruise.io/delete-protection", "operator": "Exists"}]);
    let elsewhere = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
    ]});
    for (name, namespaces) in
        [("vnamespace.kb.io", elsewhere.clone()), ("vcustomresourcedefinition.kb.io", elsewhere)]
    {
        assert_eq!(entry(&validating, name)["objectSelector"]["matchExpressions"], protected, "{name}");
        assert_eq!(entry(&validating, name)["rules"][0]["operations"], json!(["DELETE"]), "{name}");
        assert_eq!(entry(&validating, name)["namespaceSelector"], namespaces, "{name}");
    }
    assert_eq!(entry(&validating, "vsidecarset.kb.io")["objectSelector"], json!({}));
    for name in ["vcloneset.kb.io", "vstatefulset.kb.io", "vuniteddeployment.kb.io"] {
        let reviewed = entry(&validating, name);
        assert_eq!(reviewed["rules"][0]["operations"], json!(["CREATE", "UPDATE", "DELETE"]), "{name}");
    }
    assert_eq!(entry(&validating, "vcloneset.kb.io")["objectSelector"], json!({}));
}

#[test]
fn each_setting_changes_its_entries_and_nothing_else() {
    let server = Server::new();
    let live = server.apply(VALIDATING, &empty(VALIDATING));
    let mut chart = Server::new();
    chart.settings.protection_failure_policy = FailurePolicy::Ignore;
    let with_ignore = chart.apply(VALIDATING, &live);
    for name in names(&live) {
        let protection = entries(VALIDATING)
            .iter()
            .any(|entry| entry.name == name && entry.purpose == Purpose::Protection);
        let policy = if protection { "Ignore" } else { "Fail" };
        assert_eq!(entry(&with_ignore, &name)["failurePolicy"], policy, "{name}");
        let restored =
            change(&entry(&with_ignore, &name).to_string(), |entry| entry["failurePolicy"] = json!("Fail"));
        assert_eq!(restored, entry(&live, &name).to_string());
    }
    chart.settings.timeout_seconds = NonZeroU8::new(30).unwrap();
    chart.settings.excluded_namespaces = vec!["batch".to_owned()];
    let live = chart.apply(VALIDATING, &with_ignore);
    assert_eq!(entry(&live, "vsidecarset.kb.io")["timeoutSeconds"], 30);
    assert_eq!(
        entry(&live, "vservice.kb.io")["namespaceSelector"]["matchExpressions"][0]["values"],
        json!(["kube-system", "batch"])
    );
}

fn foreign(path: &str, bundle: Option<&str>) -> Value {
    json!({
        "name": "mine.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "futureField": 1.50,
        "clientConfig": {"caBundle": bundle, "service": {"namespace": "other", "name": "other", "path": path}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    })
}

#[test]
fn sharp_edge_8_an_entry_of_another_name_for_a_served_path_is_kept_and_remembered() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let with_foreign = change(&live, |live| {
        live["webhooks"].as_array_mut().unwrap().push(foreign("/mutate-pod", None));
    });
    let after = server.apply(MUTATING, &with_foreign);
    let kept = entry(&after, "mine.example.com");
    assert_eq!(kept["clientConfig"]["service"]["name"], "kruise-webhook-service");
    assert_eq!(kept["clientConfig"]["caBundle"], "QQ==");
    assert_eq!(kept["futureField"], json!(1.5));

    // Its gate is switched off and on again: it comes back from the annotation.
    let off = Server { gates: server.gates.clone().with(Feature::PodWebhook, false), ..Server::new() };
    let without = off.apply(MUTATING, &after);
    assert!(!names(&without).contains(&"mine.example.com".to_owned()));
    assert_eq!(entry(&server.apply(MUTATING, &without), "mine.example.com"), kept);

    // Applied anew with other rules: the new rules win.
    let reapplied = change(&after, |live| {
        let list = live["webhooks"].as_array_mut().unwrap();
        let last = list.last_mut().unwrap();
        *last = foreign("/mutate-pod", None);
        last["rules"][0]["operations"] = json!(["UPDATE"]);
    });
    let after = server.apply(MUTATING, &reapplied);
    assert_eq!(entry(&after, "mine.example.com")["rules"][0]["operations"], json!(["UPDATE"]));
}

#[test]
fn entries_for_unknown_paths_wait_in_the_template() {
    let server = Server::new();
    let live = change(&server.apply(MUTATING, &empty(MUTATING)), |live| {
        live["webhooks"].as_array_mut().unwrap().insert(0, foreign("/unknown", Some("QQ==")));
    });
    let after = server.apply(MUTATING, &live);
    assert!(!names(&after).contains(&"mine.example.com".to_owned()));
    let parsed: Value = serde_json::from_str(&after).unwrap();
    assert!(parsed["metadata"]["annotations"]["template"].as_str().unwrap().contains("mine.example.com"));
}

#[test]
fn an_unreadable_template_is_written_anew() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    for text in ["", "nonsense", "{}", "[1]"] {
        let broken = change(&live, |live| live["metadata"]["annotations"]["template"] = json!(text));
        assert_eq!(server.apply(MUTATING, &broken), live);
    }
}

#[test]
fn older_releases_find_their_own_paths_in_the_template() {
    let server = Server { segment: Some(Segment::new(1)), ..Server::new() };
    for (kind, name, path) in [
        (MUTATING, "mcloneset-v1alpha1.kb.io", "/mutate-apps-kruise-io-v1alpha1-cloneset"),
        (VALIDATING, "vimagepulljob-v1alpha1.kb.io", "/validate-apps-kruise-io-v1alpha1-imagepulljob"),
    ] {
        let live = server.apply(kind, &empty(kind));
        let parsed: Value = serde_json::from_str(&live).unwrap();
        let template = parsed["metadata"]["annotations"]["template"].as_str().unwrap();
        let template: Vec<Value> = serde_json::from_str(template).unwrap();
        let mut older = template.iter().find(|entry| entry["name"] == name).unwrap().clone();
        assert_eq!(older["clientConfig"]["service"]["path"], path);
        assert_eq!(older["rules"][0]["apiVersions"], json!(["v1alpha1"]));
        let known: BTreeSet<&str> = template.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(known.len(), template.len());
        // What has one path in all releases is there once.
        assert!(
            !known.iter().any(|name| ["mpod-v1alpha1.kb.io", "vephemeraljobs-v1alpha1.kb.io"].contains(name))
        );
        // What such a release registered is removed again, and is remembered no more than once.
        older["clientConfig"]["caBundle"] = json!("QQ==");
        let registered = change(&live, |live| live["webhooks"].as_array_mut().unwrap().push(older));
        assert_eq!(server.apply(kind, &registered), live);
    }
}

#[test]
fn scenario_11_external_bundles_are_only_compared() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let wanted = Wanted {
        refusal: None,
        settings: &server.settings,
        gates: &server.gates,
        definitions: &server.definitions,
        bundle: "Wg==",
        segment: None,
        answering: &BTreeSet::new(),
        owner: None,
    };
    let configuration = Configuration::parse(&live).unwrap();
    assert_eq!(configuration.mismatches(MUTATING, &wanted).len(), 13);
    assert_eq!(configuration.plan_external(MUTATING, &wanted), None);
    assert!(configuration.mismatches(MUTATING, &Wanted { bundle: "QQ==", ..wanted }).is_empty());

    // Missing entries are named, and added without a bundle.
    let without = change(&live, |live| {
        live["webhooks"][0] = foreign("/unknown", Some("Wg=="));
        live["webhooks"].as_array_mut().unwrap().pop();
    });
    let configuration = Configuration::parse(&without).unwrap();
    let mismatches = configuration.mismatches(MUTATING, &wanted);
    assert!(mismatches.contains(&"webhook entry mpod.kb.io is missing".to_owned()), "{mismatches:?}");
    let patch = configuration.plan_external(MUTATING, &wanted).unwrap();
    let after = apply(&without, &patch).unwrap();
    assert_eq!(names(&after).len(), 14);
    assert_eq!(entry(&after, "mpod.kb.io")["clientConfig"].get("caBundle"), None);
    assert_eq!(entry(&after, "mine.example.com"), entry(&without, "mine.example.com"));
    assert_eq!(entry(&after, "mcloneset.kb.io"), entry(&live, "mcloneset.kb.io"));
}

fn definition(conversion: &Value) -> String {
    json!({
        "metadata": {"name": "clonesets.apps.kruise.io", "resourceVersion": "7"},
        "spec": {
            "group": "apps.kruise.io", "names": {"kind": "CloneSet"}, "conversion": conversion,
            "versions": [{"name": "v1alpha1", "schema": {}}, {"name": "v1beta1"}],
        },
    })
    .to_string()
}

#[test]
fn a_placeholder_conversion_becomes_ours_and_then_stays() {
    let endpoint = settings().endpoint;
    let service = json!({"namespace": "system", "name": "webhook-service", "path": "/convert"});
    for webhook in [
        json!({"clientConfig": {"service": service}, "conversionReviewVersions": ["v1", "v1beta1"]}),
        json!({"conversionReviewVersions": ["v1"]}),
        Value::Null,
    ] {
        let live = definition(&json!({"strategy": "Webhook", "webhook": webhook}));
        let patch = Definition::parse(&live).unwrap().plan(&endpoint, None, "QQ==").unwrap();
        let after: Value = serde_json::from_str(&apply(&live, &patch).unwrap()).unwrap();
        assert_eq!(
            after["spec"]["conversion"]["webhook"],
            json!({
                "clientConfig": {"caBundle": "QQ==", "service": {"name": "kruise-webhook-service",
                    "namespace": "kruise-system", "path": "/convert", "port": 443}},
                "conversionReviewVersions": ["v1", "v1beta1"],
            })
        );
        assert_eq!(after["metadata"]["resourceVersion"], "7");
        let after = Definition::parse(&after.to_string()).unwrap();
        assert_eq!(after.plan(&endpoint, None, "QQ=="), None);
        assert_eq!(after.plan(&endpoint, None, "Wg==").unwrap().operations().len(), 2);
    }
}

#[test]
fn conversion_of_other_kinds_or_by_strategy_none_is_left_alone() {
    let endpoint = settings().endpoint;
    let webhook = definition(&json!({"strategy": "Webhook"}));
    for live in [
        definition(&json!({"strategy": "None"})),
        webhook.replace("CloneSet", "Other"),
        webhook.replace("\"apps.kruise.io\"", "\"example.com\""),
        webhook.replace("v1alpha1", "v9"),
    ] {
        assert_eq!(Definition::parse(&live).unwrap().plan(&endpoint, None, "QQ=="), None, "{live}");
        assert_eq!(Definition::parse(&live).unwrap().mismatch("QQ=="), None);
    }
}

#[test]
fn external_conversion_bundles_are_compared_in_the_words_of_the_spec() {
    let bare = Definition::parse(&definition(&json!({"strategy": "Webhook"}))).unwrap();
    assert_eq!(
        bare.mismatch("QQ==").as_deref(),
        Some("bad conversion configuration of CRD clonesets.apps.kruise.io")
    );
    let other = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "Wg=="}}});
    assert_eq!(
        Definition::parse(&definition(&other)).unwrap().mismatch("QQ==").as_deref(),
        Some("caBundle of CRD clonesets.apps.kruise.io does not match external caBundle")
    );
}

#[test]
fn a_host_that_is_an_ipv6_address_is_bracketed() {
    let endpoint = ServerAddress::Host { host: "fd00::5".to_owned(), port: 9876 };
    assert_eq!(endpoint.url("/convert"), "https://[fd00::5]:9876/convert");
}

/// docs/behaviour/api-and-registration.md#choices-of-users: each choice changes its fields of its entries, is
/// visible, and is removed without a trace.
#[test]
fn each_choice_of_users_changes_its_entries_and_nothing_else() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let own = json!({"key": "control-plane", "operator": "DoesNotExist"});
    let excluding = |more: &[&str]| {
        let names = [&["kube-system", "kruise-system"], more].concat();
        json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names})
    };
    let component = json!({"key": "kutter.io/component", "operator": "DoesNotExist"});
    let expressions = |list: Value| json!({"matchExpressions": list});
    for (choice, field, value) in [
        ("{failurePolicy: Ignore}", "failurePolicy", json!("Ignore")),
        ("{timeoutSeconds: 5}", "timeoutSeconds", json!(5)),
        (
            "{namespaces: {exclude: [batch, kube-system]}}",
            "namespaceSelector",
            expressions(json!([own, excluding(&["batch"])])),
        ),
        (
            "{namespaces: {include: [shop]}}",
            "namespaceSelector",
            expressions(json!([own, excluding(&[]),
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]}])),
        ),
        (
            "{namespaceSelector: {matchLabels: {inject: 'true'}}}",
            "namespaceSelector",
            expressions(
                json!([own, excluding(&[]), {"key": "inject", "operator": "In", "values": ["true"]}]),
            ),
        ),
        (
            "{objectSelector: {matchExpressions: [{key: app, operator: Exists}]}}",
            "objectSelector",
            expressions(json!([component, {"key": "app", "operator": "Exists"}])),
        ),
    ] {
        let mut chosen = Server::new();
        let text = format!("webhooks: {{mpod.kb.io: {choice}}}");
        chosen.settings.choices = Choices::parse(&text).unwrap();
        let changed = chosen.apply(MUTATING, &live);
        assert_eq!(entry(&changed, "mpod.kb.io")[field], value, "{choice}");
        assert_eq!(Configuration::parse(&changed).unwrap().choices(), Some(chosen.settings.choices.clone()));
        let others_are_same = names(&live)
            .iter()
            .filter(|name| *name != "mpod.kb.io")
            .all(|name| entry(&live, name) == entry(&changed, name));
        assert!(others_are_same, "{choice}");
        assert_eq!(server.apply(MUTATING, &changed), live, "{choice}");
    }
}

#[test]
fn a_refused_choice_is_visible_until_it_is_mended() {
    let mut server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    server.refusal = Some("Webhook_Settings: nonsense");
    let refused = server.apply(MUTATING, &live);
    let parsed: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(
        parsed["metadata"]["annotations"]["kutter.io/webhook-settings-refused"],
        "Webhook_Settings: nonsense"
    );
    server.refusal = None;
    assert_eq!(server.apply(MUTATING, &refused), live);
}

#[test]
fn it_is_known_which_new_pods_must_come() {
    let mut server = Server::new();
    let scope = |live: &str| Configuration::parse(live).unwrap().reviewed_pods();
    assert_eq!(scope(&empty(MUTATING)), None);
    let live = server.apply(MUTATING, &empty(MUTATING));
    let labels = |name: &str| {
        std::collections::BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())])
    };
    let (namespaces, none) = scope(&live).unwrap();
    assert!(none.is_empty());
    assert!(namespaces.matches(&labels("shop")));
    assert!(!namespaces.matches(&labels("kube-system")) && !namespaces.matches(&labels("kruise-system")));
    for (requirements, expected) in [
        (
            "{key: a, operator: In, values: [b, c]}, {key: d, operator: Exists}",
            Some(json!({"a": "b", "d": ""})),
        ),
        ("{key: a, operator: NotIn, values: [b]}, {key: d, operator: DoesNotExist}", Some(json!({}))),
        ("{key: a, operator: Exists}, {key: a, operator: In, values: [b]}", Some(json!({"a": "b"}))),
        ("{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [b]}", None),
    ] {
        let choice =
            format!("webhooks: {{mpod.kb.io: {{objectSelector: {{matchExpressions: [{requirements}]}}}}}}");
        server.settings.choices = Choices::parse(&choice).unwrap();
        let labels = scope(&server.apply(MUTATING, &live)).map(|(_, labels)| json!(labels));
        assert_eq!(labels, expected, "{requirements}");
    }
}

#[test]
fn everything_is_called_behind_the_segment_and_remembered_without_it() {
    let (old, new) = (Segment::new(1), Segment::new(2));
    let plain = Server::new();
    let live = change(&plain.apply(MUTATING, &empty(MUTATING)), |live| {
        live["webhooks"].as_array_mut().unwrap().push(foreign("/mutate-pod", None));
    });
    let annotation = |text: &str| {
        let parsed: Value = serde_json::from_str(text).unwrap();
        parsed["metadata"]["annotations"]["template"].as_str().unwrap().to_owned()
    };
    let remembered = annotation(&plain.apply(MUTATING, &live));
    let mut after = live;
    for segment in [old, new] {
        let server = Server { segment: Some(segment), ..Server::new() };
        after = server.apply(MUTATING, &after);
        let calls = Configuration::parse(&after).unwrap().calls();
        assert_eq!(calls.len(), names(&after).len());
        assert!(calls.iter().all(|(called, path)| *called == Some(segment) && path.starts_with("/mutate-")));
        let path = &entry(&after, "mine.example.com")["clientConfig"]["service"]["path"];
        assert_eq!(*path, json!(segment.before("/mutate-pod")));
        assert_eq!(annotation(&after), remembered);
        // The annotation is lost: what is live reports it.
        let lost = change(&after, |live| live["metadata"]["annotations"] = json!({}));
        assert!(!annotation(&server.apply(MUTATING, &lost)).contains(&segment.before("")));
    }
    // While it is not known what all replicas answer, the paths stay, and all else is repaired.
    let changed = change(&after, |live| live["webhooks"][0]["clientConfig"]["caBundle"] = json!("Cg=="));
    assert_eq!(plain.apply(MUTATING, &changed), after);
}

#[test]
fn conversion_is_called_behind_the_segment() {
    let segment = Segment::new(u128::MAX);
    for endpoint in [settings().endpoint, ServerAddress::Host { host: "10.0.0.5".to_owned(), port: 9876 }] {
        let live = definition(&json!({"strategy": "Webhook", "webhook": null}));
        let patch = Definition::parse(&live).unwrap().plan(&endpoint, Some(segment), "QQ==").unwrap();
        let after = Definition::parse(&apply(&live, &patch).unwrap()).unwrap();
        assert_eq!(after.call(), Some((Some(segment), "/convert".to_owned())));
        assert_eq!(after.plan(&endpoint, Some(segment), "QQ=="), None);
        assert_eq!(after.plan(&endpoint, None, "QQ=="), None);
        assert!(after.plan(&endpoint, Some(Segment::new(0)), "QQ==").is_some());
    }
}
