use super::rollouts::server;
use super::*;

const AKS: &str = "kutter.io/aks-integration";

fn not_in(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "NotIn", "values": [value]})
}

/// The terms that AKS adds.
fn terms_of_aks() -> [Value; 2] {
    [not_in("control-plane", "true"), not_in("kubernetes.azure.com/managedby", "aks")]
}

/// The terms of the entry `name`.
fn terms(live: &str, name: &str) -> Vec<Value> {
    entry(live, name)["namespaceSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default()
}

/// `live` with these terms in the entry `name`.
fn with_terms(live: &str, name: &str, terms: &[Value]) -> String {
    change(live, |live| {
        let entries = live["webhooks"].as_array_mut().unwrap();
        let entry = entries.iter_mut().find(|entry| entry["name"] == name).unwrap();
        entry["namespaceSelector"] = json!({"matchExpressions": terms});
    })
}

/// `live` where AKS has added its terms to all entries.
fn enforced(live: &str) -> String {
    names(live).iter().fold(live.to_owned(), |live, name| {
        with_terms(&live, name, &[&terms(&live, name)[..], &terms_of_aks()].concat())
    })
}

fn annotated(live: &str, value: Value) -> String {
    change(live, |live| live["metadata"]["annotations"][AKS] = value)
}

fn template(live: &str) -> Value {
    let live: Value = serde_json::from_str(live).unwrap();
    live["metadata"]["annotations"]["template"].clone()
}

#[test]
fn terms_of_aks_are_no_difference() {
    let server = server();
    for kind in ConfigurationKind::ALL {
        let live = enforced(&server.apply(kind, &empty(kind)));
        assert_eq!(server.plan(kind, &live), Plan::default(), "{kind:?}");
    }
}

#[test]
fn terms_of_others_stay_wherever_they_stand() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let [first, second] = terms_of_aks();
    let own = terms(&live, "mpod.kb.io");
    assert_eq!(own.len(), 2);
    let absent = json!({"key": "kubernetes.azure.com/managedby", "operator": "DoesNotExist"});
    let [labels, names, first, second, absent] = [&own[0], &own[1], &first, &second, &absent];
    for order in [
        vec![second, first, labels, names],
        vec![labels, first, names, second],
        vec![names, second, labels, first],
        vec![labels, names, absent],
        // A term that is ours too.
        vec![labels, names, labels],
        vec![labels, names, first, first],
    ] {
        let order: Vec<Value> = order.into_iter().cloned().collect();
        let changed = with_terms(&live, "mpod.kb.io", &order);
        assert_eq!(server.plan(MUTATING, &changed), Plan::default(), "{order:?}");
    }
}

#[test]
fn all_else_is_repaired_beside_terms_of_others() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let [first, second] = terms_of_aks();
    let own = terms(&live, "mpod.kb.io");
    let [labels, names, first, second] = [&own[0], &own[1], &first, &second];
    let kept = [labels, names, second, first].map(Value::clone).to_vec();
    let foreign = [
        not_in("team", "a"),
        not_in("kubernetes.io/metadata.name", "shop"),
        json!({"key": "control-plane", "operator": "Exists"}),
        json!({"key": "control-plane", "operator": "In", "values": ["true"]}),
        json!({"key": "kubernetes.azure.com/managedby", "operator": "In", "values": ["aks"]}),
    ];
    for term in foreign {
        let order = [&term, second, labels, first, names].map(Value::clone);
        let repaired = server.apply(MUTATING, &with_terms(&live, "mpod.kb.io", &order));
        assert_eq!(terms(&repaired, "mpod.kb.io"), kept, "{term}");
    }
    // A term of ours is missing.
    for order in [vec![second, first], vec![names, second, first]] {
        let order: Vec<Value> = order.into_iter().cloned().collect();
        let repaired = server.apply(MUTATING, &with_terms(&live, "mpod.kb.io", &order));
        assert_eq!(terms(&repaired, "mpod.kb.io"), kept, "{order:?}");
    }
    let labelled = change(&with_terms(&live, "mpod.kb.io", &kept), |live| {
        live["webhooks"][0]["namespaceSelector"]["matchLabels"] = json!({"control-plane": "none"});
    });
    let repaired = entry(&server.apply(MUTATING, &labelled), "mpod.kb.io");
    assert_eq!(repaired["namespaceSelector"], json!({"matchExpressions": kept}));
    // Selectors of objects are not what AKS changes.
    let narrowed = change(&live, |live| {
        live["webhooks"][0]["objectSelector"]["matchExpressions"].as_array_mut().unwrap().push(first.clone());
    });
    assert_eq!(server.apply(MUTATING, &narrowed), live);
}

#[test]
fn what_is_remembered_has_all_our_entries_and_no_terms_of_others() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    let lost = change(&enforced(&live), |live| live["metadata"]["annotations"] = json!({}));
    let after = server.apply(MUTATING, &lost);
    assert_eq!(template(&after), template(&live));
    assert_eq!(after, enforced(&live));

    // Entries that a gate took away come back as they are wanted, beside those that AKS changed.
    let off = Server { gates: server.gates.clone().with(Feature::PodWebhook, false), ..Server::new() };
    let back = server.apply(MUTATING, &off.apply(MUTATING, &enforced(&live)));
    assert_eq!(terms(&back, "mpod.kb.io"), terms(&live, "mpod.kb.io"));
    assert_eq!(terms(&back, "mcloneset.kb.io"), terms_of_aks());
}

#[test]
fn what_users_chose_before_goes_with_their_choice() {
    let server = Server::new();
    let live = enforced(&server.apply(MUTATING, &empty(MUTATING)));
    let mut chosen = Server::new();
    let text = "defaults: {namespaceSelector: {matchExpressions: \
                [{key: control-plane, operator: NotIn, values: [mine]}]}}";
    chosen.settings.choices = Choices::parse(text).unwrap();
    let narrowed = chosen.apply(MUTATING, &live);
    for name in names(&live) {
        assert!(terms(&narrowed, &name).contains(&not_in("control-plane", "mine")), "{name}");
        assert!(terms_of_aks().iter().all(|term| terms(&narrowed, &name).contains(term)), "{name}");
    }
    assert_eq!(server.apply(MUTATING, &narrowed), live);
}

#[test]
fn an_annotation_adds_the_terms_of_aks_once() {
    let server = server();
    for kind in ConfigurationKind::ALL {
        let plain = server.apply(kind, &empty(kind));
        let wanted = annotated(&enforced(&plain), json!("true"));
        // Onto what is live, from the first entry on, and beside AKS.
        for live in [&plain, &empty(kind), &enforced(&plain)] {
            let after = server.apply(kind, &annotated(live, json!("true")));
            for name in names(&plain) {
                assert_eq!(entry(&after, &name), entry(&wanted, &name), "{kind:?}");
            }
        }
        assert_eq!(server.plan(kind, &annotated(&plain, json!("false"))), Plan::default());
    }
    // In whatever order AKS has written them.
    let live = server.apply(MUTATING, &empty(MUTATING));
    let [first, second] = terms_of_aks();
    let live = with_terms(&live, "mcloneset.kb.io", &[second.clone(), first.clone()]);
    let after = server.apply(MUTATING, &annotated(&live, json!("true")));
    assert_eq!(terms(&after, "mcloneset.kb.io"), [second, first]);
    // Without the annotation they are terms of others.
    let without = change(&after, |live| {
        live["metadata"]["annotations"].as_object_mut().unwrap().remove(AKS);
    });
    assert_eq!(server.plan(MUTATING, &without), Plan::default());
}
