use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::resourcedistribution::Distribution;

const NAMES: [&str; 6] = ["default", "kube-node-lease", "kube-public", "kube-system", "ns-1", "ns-2"];

fn targets(json: &str) -> Targets {
    Targets::compile(&serde_json::from_str(json).unwrap()).unwrap()
}

fn namespace(name: &str, labels: &str, terminating: bool) -> TargetNamespace {
    let deletion = if terminating { r#""2026-01-01T00:00:00Z""# } else { "null" };
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"u-{name}","resourceVersion":"1","labels":{labels},"deletionTimestamp":{deletion}}},
            "spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#
    );
    TargetNamespace::read(&json).unwrap()
}

fn matched(targets: &Targets, namespaces: &[TargetNamespace]) -> Vec<String> {
    Distribution::matched(targets, namespaces.iter()).into_keys().map(str::to_owned).collect()
}

#[test]
fn the_ways_to_choose_add_up_and_exclusion_wins() {
    let namespaces = [
        namespace("ns-1", r#"{"group":"one"}"#, false),
        namespace("ns-2", r#"{"group":"one"}"#, false),
        namespace("ns-3", "null", false),
        namespace("ns-4", r#"{"group":"one"}"#, false),
        namespace("ns-5", "{}", false),
        namespace("kube-system", r#"{"group":"one"}"#, false),
    ];
    let all = r#"{"includedNamespaces":{"list":[{"name":"ns-1"},{"name":"ns-3"},{"name":"ns-5"},{"name":"kube-public"}]},
        "namespaceSelector":{"matchLabels":{"group":"one"}},"excludedNamespaces":{"list":[{"name":"ns-4"}]}}"#;
    assert_eq!(matched(&targets(all), &namespaces), ["ns-1", "ns-2", "ns-3", "ns-5"]);
    assert_eq!(targets(all).place("ns-4", Some(&namespaces[3])), Place::Elsewhere);
    assert_eq!(targets(all).place("kube-system", Some(&namespaces[5])), Place::Elsewhere);
    for nothing in ["{}", r#"{"namespaceSelector":{}}"#, r#"{"namespaceSelector":{"matchExpressions":[]}}"#] {
        assert!(matched(&targets(nothing), &namespaces).is_empty(), "{nothing}");
    }
}

#[test]
fn beside_all_namespaces_the_list_says_nothing() {
    let all = targets(r#"{"allNamespaces":true,"includedNamespaces":{"list":[{"name":"ghost"}]}}"#);
    assert_eq!(matched(&all, &[namespace("a", "{}", false)]), ["a"]);
    assert_eq!(all.place("ghost", None), Place::LeftAlone);
}

#[test]
fn a_namespace_that_goes_counts_only_where_it_is_listed() {
    let (here, going) = (namespace("a", "{}", false), namespace("a", "{}", true));
    let listed = targets(r#"{"includedNamespaces":{"list":[{"name":"a"}]}}"#);
    let all = targets(r#"{"allNamespaces":true}"#);
    for (targets, going_is) in [(&listed, Place::Missing), (&all, Place::LeftAlone)] {
        assert_eq!(targets.place("a", Some(&here)), Place::Target);
        assert_eq!(targets.place("a", Some(&going)), going_is);
        assert!(targets.concerns("a", Some(&here), Some(&going)));
        assert!(!targets.concerns("a", Some(&going), None), "it is the same to it");
        assert!(targets.concerns("a", None, Some(&here)));
    }
    assert!(!Targets::default().concerns("a", None, Some(&here)));
}

#[test]
fn a_selector_that_cannot_be_used_is_reported() {
    let broken = r#"{"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}"#;
    Targets::compile(&serde_json::from_str(broken).unwrap()).unwrap_err();
}

proptest! {
    /// docs/behaviour/resourcedistribution.md#target-namespaces step by step, with sets.
    #[test]
    fn the_targets_are_those_of_the_plain_model(
        all in any::<bool>(),
        included in prop::collection::btree_set(prop::sample::select(&NAMES[..]), 0..4),
        excluded in prop::collection::btree_set(prop::sample::select(&NAMES[..]), 0..3),
        selector in prop::option::of(prop::option::of(prop::sample::select(vec!["x", "y"]))),
        existing in prop::collection::btree_map(
            prop::sample::select(&NAMES[..]),
            (prop::sample::select(vec!["x", "y", ""]), any::<bool>()),
            0..6,
        ),
    ) {
        let list = |names: &BTreeSet<&str>| {
            let names: Vec<_> = names.iter().map(|name| serde_json::json!({"name": name})).collect();
            serde_json::json!({"list": names})
        };
        let mut json = serde_json::json!({
            "allNamespaces": all, "includedNamespaces": list(&included), "excludedNamespaces": list(&excluded),
        });
        if let Some(labels) = selector {
            let labels: BTreeMap<&str, &str> = labels.into_iter().map(|value| ("group", value)).collect();
            json["namespaceSelector"] = serde_json::json!({"matchLabels": labels});
        }
        let namespaces: Vec<_> = existing.iter().map(|(name, (label, terminating))| {
            namespace(name, &format!(r#"{{"group":"{label}"}}"#), *terminating)
        }).collect();

        let mut model = BTreeSet::new();
        for (name, (label, terminating)) in &existing {
            if !terminating && (all || selector.flatten() == Some(*label)) {
                model.insert(*name);
            }
        }
        if !all {
            model.extend(&included);
        }
        model.retain(|name| !["kube-system", "kube-public"].contains(name) && !excluded.contains(name));
        let model: Vec<String> = model.into_iter().map(str::to_owned).collect();
        let targets = targets(&json.to_string());
        prop_assert_eq!(&matched(&targets, &namespaces), &model);

        for namespace in &namespaces {
            let place = targets.place(&namespace.name, Some(namespace));
            let expected = match (model.contains(&namespace.name), namespace.terminating) {
                (true, false) => Place::Target,
                (true, true) => Place::Missing,
                (false, true) => Place::LeftAlone,
                (false, false) => Place::Elsewhere,
            };
            prop_assert_eq!(place, expected);
        }
    }
}
