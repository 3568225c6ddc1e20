use proptest::prelude::*;

use super::*;

fn named(text: &str) -> BTreeSet<Source> {
    read(text).unwrap()
}

fn hash_of(objects: &[(&str, Value)]) -> String {
    let sources: Vec<Source> = objects.iter().flat_map(|(text, _)| named(text)).collect();
    let digests = sources.iter().zip(objects);
    let digests =
        digests.map(|(source, (_, object))| (source, digest(source.kind, &object.to_string()).unwrap()));
    hash(&digests.collect())
}

fn workload(annotations: &Value, template: &Value) -> Value {
    let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
        "annotations": annotations});
    json!({"metadata": metadata, "spec": {"replicas": 3, "template": template}})
}

/// What becomes of the workload where this is observed and the objects have this hash.
fn patched(workload: &Value, hash: &str) -> Option<Value> {
    let text = workload.to_string();
    let patch = patch(&Restarting::read(&text).unwrap(), &text, hash).unwrap()?;
    let mut after = workload.clone();
    json_patch::merge(&mut after, &serde_json::from_str(&patch).unwrap());
    Some(after)
}

#[test]
fn scenario_36_the_annotation_names_config_maps_and_secrets() {
    let sources = named("configmap/web, secret/tls.example.com,configmap/web");
    let words: Vec<String> = sources.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["configmap/web", "secret/tls.example.com"]);
    for (text, expected) in [
        ("", r#""" is not of the form configmap/NAME or secret/NAME"#),
        ("web", r#""web" is not of the form configmap/NAME or secret/NAME"#),
        ("ConfigMap/web", r#""ConfigMap/web" is not of the form configmap/NAME or secret/NAME"#),
        ("configmap/web,", r#""" is not of the form configmap/NAME or secret/NAME"#),
        ("pod/web", r#""pod/web" is not of the form configmap/NAME or secret/NAME"#),
        ("configmap/", r#""configmap/": a lowercase RFC 1123 subdomain"#),
        ("secret/../x", r#""secret/../x": a lowercase RFC 1123 subdomain"#),
        ("secret/Web", r#""secret/Web": a lowercase RFC 1123 subdomain"#),
    ] {
        let metadata = ObjectMeta {
            annotations: [(RESTART_ON.to_owned(), text.to_owned())].into(),
            ..Default::default()
        };
        let mut errors = Vec::new();
        validate(&metadata, &mut errors);
        let start = format!("metadata.annotations[{RESTART_ON}]: Invalid value: {text:?}: {expected}");
        assert!(errors.len() == 1 && errors[0].to_string().starts_with(&start), "{text}: {errors:?}");
        assert!(super::sources(&metadata).is_empty(), "what can't be read names nothing");
    }
    let many = |count: u32| (0..count).map(|number| format!("secret/{number}")).collect::<Vec<_>>().join(",");
    assert_eq!(named(&many(16)).len(), 16);
    assert_eq!(read(&many(17)), Err(vec!["must name at most 16 objects".to_owned()]));
}

#[test]
fn scenario_37_the_hash_is_one_of_what_the_objects_contain_and_of_nothing_else() {
    let map = |data: Value| json!({"metadata": {"name": "web", "uid": "1"}, "data": data});
    let plain = hash_of(&[("configmap/web", map(json!({"a": "1", "b": "2"})))]);
    // digest=$(printf '["",{"a":"1","b":"2"},{}]' | sha256sum | cut -c-64); echo "configmap/web $digest" | sha256sum
    assert_eq!(plain, "f8c4aab729b965e2d67ac05473f549c97addc332c4961698f5fc71f8c3a125da");
    let other = json!({"metadata": {"name": "web", "uid": "2", "labels": {"x": "y"}, "resourceVersion": "9"},
        "immutable": true, "data": {"b": "2", "a": "1"}, "binaryData": null});
    assert_eq!(hash_of(&[("configmap/web", other)]), plain);
    let secret =
        |uid: &str| json!({"metadata": {"uid": uid}, "type": "Opaque", "data": {"a": "1", "b": "2"}});
    let distinct = [
        plain,
        hash_of(&[("configmap/web", map(json!({"a": "1", "b": "3"})))]),
        hash_of(&[("configmap/web", map(json!({"a": "2", "b": "1"})))]),
        hash_of(&[("configmap/web", map(json!({"a": "1"})))]),
        hash_of(&[("configmap/web", map(json!({})))]),
        hash_of(&[("configmap/web", json!({"metadata": {}, "binaryData": {"a": "1", "b": "2"}}))]),
        hash_of(&[("configmap/wed", map(json!({"a": "1", "b": "2"})))]),
        hash_of(&[("configmap/a", map(json!({"a": "1"}))), ("configmap/b", map(json!({"b": "2"})))]),
        hash_of(&[("configmap/a", map(json!({"a": "1", "b": "2"}))), ("configmap/b", map(json!({})))]),
        hash_of(&[("secret/web", secret("1"))]),
        hash_of(&[("secret/web", secret("2"))]),
    ];
    assert_eq!(distinct.iter().collect::<BTreeSet<_>>().len(), distinct.len(), "{distinct:#?}");
}

#[test]
fn scenario_38_the_first_hash_is_kept_and_a_change_goes_into_the_template() {
    let names = json!({RESTART_ON: "configmap/web"});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let first = patched(&workload(&names, &template), "1").unwrap();
    assert_eq!(
        first["metadata"]["annotations"],
        json!({RESTART_ON: "configmap/web", CONFIGURATION_APPLIED: "1"})
    );
    assert_eq!(first["spec"]["template"], template);
    assert_eq!(patched(&first, "1"), None);

    let second = patched(&first, "2").unwrap();
    let expected = json!({"labels": {"app": "web"}, "annotations": {CONFIGURATION_HASH: "2"}});
    assert_eq!(
        second["spec"],
        json!({"replicas": 3, "template": {"metadata": expected, "spec": {"containers": []}}})
    );
    assert_eq!(second["metadata"]["annotations"][CONFIGURATION_APPLIED], "2");
    let bare = workload(&json!({RESTART_ON: "configmap/web", CONFIGURATION_APPLIED: "1"}), &Value::Null);
    let template = &patched(&bare, "2").unwrap()["spec"]["template"];
    assert_eq!(*template, json!({"metadata": {"annotations": {CONFIGURATION_HASH: "2"}}}));
}

#[test]
fn scenario_39_what_somebody_goes_back_to_stays_until_the_objects_change() {
    let annotations = |applied: &str| json!({RESTART_ON: "configmap/web", CONFIGURATION_APPLIED: applied});
    let template = |hash: &str| json!({"metadata": {"annotations": {CONFIGURATION_HASH: hash}}});
    let undone = workload(&annotations("2"), &template("1"));
    assert_eq!(patched(&undone, "2"), None);
    let shown = |after: Value| {
        after.pointer("/spec/template/metadata/annotations").unwrap()[CONFIGURATION_HASH].clone()
    };
    assert_eq!(shown(patched(&undone, "3").unwrap()), "3");
    // Its containers have started since with what was 2.
    let again = patched(&undone, "1").unwrap();
    assert_eq!(again["metadata"]["annotations"][CONFIGURATION_APPLIED], "1");
    assert_eq!(shown(again), "1-again");
    let undone_again = workload(&annotations("2"), &template("1-again"));
    assert_eq!(shown(patched(&undone_again, "1").unwrap()), "1");
}

#[test]
fn a_workload_that_is_another_one_by_now_is_left_alone() {
    let names = json!({RESTART_ON: "configmap/web", CONFIGURATION_APPLIED: "1"});
    let observed = Restarting::read(&workload(&names, &Value::Null).to_string()).unwrap();
    let left = |change: &Value| {
        let mut present = workload(&names, &Value::Null);
        json_patch::merge(&mut present["metadata"], change);
        patch(&observed, &present.to_string(), "2").unwrap().is_none()
    };
    assert!(!left(&json!({"resourceVersion": "8", "labels": {"a": "b"}})));
    for change in [
        json!({"uid": "v"}),
        json!({"annotations": {RESTART_ON: "configmap/web,configmap/b"}}),
        json!({"annotations": null}),
        json!({"annotations": {CONFIGURATION_APPLIED: "3"}}),
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ] {
        assert!(left(&change), "{change}");
    }
}

#[test]
fn scenario_40_an_annotation_that_restarts_nothing_is_told() {
    let on = FeatureGates::parse("RestartOnConfiguration=true", "").unwrap();
    let shows = |path: &str| json!({"name": "HASH", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let sent = |path: &str| {
        let container = json!({"name": "main", "env": [{"name": "A", "value": "b"}, shows(path)]});
        let template = json!({"spec": {"containers": [{"name": "other"}, container]}});
        workload(&json!({RESTART_ON: "configmap/web"}), &template)
    };
    let good = sent("metadata.annotations['kutter.io/configuration-hash']");
    let bad = sent("metadata.annotations['kutter.io/configuration']");
    assert_eq!(idle(&good, true, &on), None);
    assert_eq!(idle(&bad, false, &on), None, "Pods that are recreated read what there is");
    assert!(idle(&bad, true, &on).unwrap().contains("metadata.annotations['kutter.io/configuration-hash']"));
    assert!(idle(&workload(&json!({RESTART_ON: "x"}), &Value::Null), true, &on).is_some());
    assert_eq!(
        idle(&good, true, &FeatureGates::default()).unwrap(),
        "annotation kutter.io/restart-on restarts nothing while feature gate RestartOnConfiguration is off"
    );
    assert_eq!(idle(&workload(&json!({"a": "b"}), &Value::Null), true, &on), None);
}

/// What happens to a workload and to what it names.
#[derive(Clone, Debug)]
enum Happening {
    /// The objects contain something else.
    Contents(u8),
    /// Somebody goes back to an earlier template.
    Undo(usize),
    /// The controller looks.
    Look,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        (0..3_u8).prop_map(Happening::Contents),
        (0..9_usize).prop_map(Happening::Undo),
        Just(Happening::Look),
    ];
    prop::collection::vec(happening, 0..24)
}

proptest! {
    /// The template changes whenever the objects contain something else than the controller saw last, and never else.
    #[test]
    fn only_new_contents_change_the_template(happenings in happenings()) {
        let mut set = workload(&json!({RESTART_ON: "configmap/web"}), &json!({}));
        let (mut contents, mut seen) = (0, None);
        let mut templates = vec![set["spec"]["template"].clone()];
        for happening in happenings {
            match happening {
                Happening::Contents(other) => contents = other,
                Happening::Undo(back) => {
                    let earlier = templates[back % templates.len()].clone();
                    set["spec"]["template"] = earlier;
                }
                Happening::Look => {
                    let before = set["spec"]["template"].clone();
                    set = patched(&set, &contents.to_string()).unwrap_or(set);
                    let changes = seen.is_some_and(|seen| seen != contents);
                    prop_assert_eq!(set["spec"]["template"] != before, changes);
                    let applied = contents.to_string();
                    prop_assert_eq!(&set["metadata"]["annotations"][CONFIGURATION_APPLIED], &applied);
                    prop_assert_eq!(patched(&set, &applied), None);
                    templates.push(set["spec"]["template"].clone());
                    seen = Some(contents);
                }
            }
        }
    }
}
