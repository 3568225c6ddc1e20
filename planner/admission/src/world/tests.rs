use serde_json::{Value, json};

use super::*;

fn world() -> World {
    World::new("kruise-system")
}

fn set(name: &str, selector: Value, namespaces: Value) -> String {
    let mut set = json!({"metadata": {"name": name, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "long"}},
        "spec": {"containers": [{"name": "c"}]}});
    set["spec"]["selector"] = selector;
    set["spec"]["namespaceSelector"] = namespaces;
    set.to_string()
}

fn found(world: &World, namespace: &str, labels: &[(&str, &str)]) -> Vec<String> {
    world
        .sidecar_sets()
        .candidates(namespace, labels)
        .into_iter()
        .map(|entry| entry.name().to_owned())
        .collect()
}

#[test]
fn candidates_are_found_by_namespace_and_label() {
    let mut world = world();
    let label = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let named = |name: &str| label("kubernetes.io/metadata.name", name);
    let any_of = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["n1", "n2"]}]});
    for object in [
        set("b-all", label("app", "web"), Value::Null),
        set("a-all", label("app", "web"), label("team", "x")),
        set("z-scoped", label("app", "web"), named("n1")),
        set("y-scoped", label("app", "web"), any_of),
        set("other-namespace", label("app", "web"), named("n3")),
        set("other-label", label("app", "db"), Value::Null),
        set("exists", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), Value::Null),
        set("nothing", json!({}), Value::Null),
    ] {
        world.apply(Watched::SidecarSet, &object).unwrap();
    }
    assert_eq!(found(&world, "n1", &[("app", "web")]), ["y-scoped", "z-scoped", "a-all", "b-all", "exists"]);
    assert_eq!(found(&world, "n2", &[("app", "web")]), ["y-scoped", "a-all", "b-all", "exists"]);
    assert_eq!(found(&world, "n9", &[("app", "db"), ("x", "y")]), ["exists", "other-label"]);
    assert_eq!(world.sidecar_sets().len(), 8);
}

#[test]
fn a_thousand_sets_with_one_common_label_leave_few_candidates() {
    let mut world = world();
    for number in 0..1000 {
        let selector = json!({"matchLabels": {"tier": "web", "app": format!("app-{number}")}});
        world.apply(Watched::SidecarSet, &set(&format!("s{number}"), selector, Value::Null)).unwrap();
    }
    let candidates = found(&world, "n", &[("tier", "web"), ("app", "app-7")]);
    assert!(candidates.contains(&"s7".to_owned()) && candidates.len() <= 3, "{candidates:?}");
}

#[test]
fn changes_and_deletions_are_followed() {
    let mut world = world();
    let label = |value: &str| json!({"matchLabels": {"app": value}});
    let in_n1 = json!({"matchLabels": {"kubernetes.io/metadata.name": "n1"}});
    world.apply(Watched::SidecarSet, &set("s", label("web"), in_n1)).unwrap();
    let snapshot = world.clone();
    world.apply(Watched::SidecarSet, &set("s", label("db"), Value::Null)).unwrap();
    assert!(found(&world, "n1", &[("app", "web")]).is_empty());
    assert_eq!(found(&world, "n2", &[("app", "db")]), ["s"]);
    let both = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["n1", "n2"]}]});
    world.apply(Watched::SidecarSet, &set("t", label("web"), both)).unwrap();
    world.apply(Watched::SidecarSet, &set("t", json!({}), Value::Null)).unwrap();
    assert!(["n1", "n2"].iter().all(|namespace| found(&world, namespace, &[("app", "web")]).is_empty()));
    world.remove(Watched::SidecarSet, "", "t");
    world.remove(Watched::SidecarSet, "", "s");
    assert!(found(&world, "n2", &[("app", "db")]).is_empty() && world.sidecar_sets().is_empty());
    assert_eq!(found(&snapshot, "n1", &[("app", "web")]), ["s"]);
}

#[test]
fn a_poisoned_object_is_reported_and_hides_no_other() {
    let mut world = world();
    let good = set("good", json!({"matchLabels": {"app": "web"}}), Value::Null);
    world.apply(Watched::SidecarSet, &good).unwrap();
    let bad = json!({"metadata": {"name": "bad"}, "spec": {"selector": 7}}).to_string();
    let error = world.apply(Watched::SidecarSet, &bad).unwrap_err();
    assert!(error.to_string().starts_with("SidecarSet \"bad\" can't be read"), "{error}");
    assert_eq!(world.unreadable_sidecar_sets().map(|(name, _)| name).collect::<Vec<_>>(), ["bad"]);
    assert_eq!(found(&world, "n", &[("app", "web")]), ["good"]);
    world.apply(Watched::SidecarSet, &bad.replace('7', r#"{"matchLabels":{"app":"web"}}"#)).unwrap();
    assert_eq!(world.unreadable_sidecar_sets().count(), 0);
    for kind in [
        Watched::SidecarSet,
        Watched::Namespace,
        Watched::ControllerRevision,
        Watched::ConfigMap,
        Watched::PodUnavailableBudget,
        Watched::PodProbeMarker,
    ] {
        assert!(world.apply(kind, "[]").is_err());
    }
}

#[test]
fn only_what_rules_read_is_kept() {
    let mut world = world();
    world.apply(Watched::SidecarSet, &set("s", Value::Null, Value::Null)).unwrap();
    let annotations = &world.sidecar_sets().get("s").unwrap().object.metadata.annotations;
    assert_eq!(
        annotations.keys().collect::<Vec<_>>(),
        ["kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"]
    );
    let config = |namespace: &str, name: &str| {
        json!({"metadata": {"namespace": namespace, "name": name}, "data": {"k": name}}).to_string()
    };
    world.apply(Watched::ConfigMap, &config("kruise-system", "kruise-configuration")).unwrap();
    world.apply(Watched::ConfigMap, &config("kruise-system", "other")).unwrap();
    world.apply(Watched::ConfigMap, &config("other", "kruise-configuration")).unwrap();
    assert_eq!(world.configuration("k"), Some("kruise-configuration"));
    world.remove(Watched::ConfigMap, "other", "kruise-configuration");
    assert!(world.configuration("k").is_some());
    world.remove(Watched::ConfigMap, "kruise-system", "kruise-configuration");
    assert_eq!(world.configuration("k"), None);
}

#[test]
fn revisions_are_found_by_set_and_custom_version() {
    let mut world = world();
    let revision = |name: &str, number: i64, namespace: &str, labels: Value| {
        json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}, "revision": number, "data": {"spec": {}}}).to_string()
    };
    let labels = |version: &str| json!({"kruise.io/sidecarset-name": "s", "apps.kruise.io/sidecarset-custom-version": version});
    for object in [
        revision("s-b", 2, "kruise-system", labels("v1")),
        revision("s-a", 3, "kruise-system", labels("v1")),
        revision("s-c", 1, "kruise-system", labels("v2")),
        revision("s-d", 9, "elsewhere", labels("v1")),
        revision("clone", 9, "kruise-system", json!({"app": "x"})),
    ] {
        world.apply(Watched::ControllerRevision, &object).unwrap();
    }
    let names = |found: Vec<&RecordedRevision>| {
        found.into_iter().map(|revision| revision.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(world.revisions_of("s", None)), ["s-c", "s-b", "s-a"]);
    assert_eq!(names(world.revisions_of("s", Some("v1"))), ["s-b", "s-a"]);
    world.remove(Watched::ControllerRevision, "kruise-system", "s-a");
    assert_eq!(names(world.revisions_of("s", Some("v1"))), ["s-b"]);
    assert!(world.revision("s-a").is_none() && world.count(Watched::ControllerRevision) == 2);
    world.apply(Watched::ControllerRevision, &revision("s-b", 2, "kruise-system", json!({}))).unwrap();
    assert!(world.revision("s-b").is_none());
}

#[test]
fn rollouts_are_known_by_namespace_until_they_go() {
    let rollout = |name: &str, namespace: &str| {
        json!({"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": name, "namespace": namespace,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "long", "rollouts.kruise.io/hash": "h"}},
            "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}}})
        .to_string()
    };
    let mut world = world();
    for (name, namespace) in [("b", "shop"), ("a", "shop"), ("a", "bank")] {
        world.apply(Watched::Rollout, &rollout(name, namespace)).unwrap();
    }
    let known = |world: &World, namespace: &str| -> Vec<String> {
        let rollouts = world.rollouts_in(namespace);
        rollouts.iter().map(|rollout| rollout.spec.workload_ref.name.clone()).collect()
    };
    assert_eq!(known(&world, "shop"), ["a", "b"]);
    assert_eq!(world.rollouts_in("bank")[0].metadata.annotations.len(), 1);
    world.remove(Watched::Rollout, "shop", "a");
    assert_eq!((known(&world, "shop"), world.count(Watched::Rollout)), (vec!["b".to_owned()], 2));
    assert!(world.rollouts_in("elsewhere").is_empty());
}
