use serde_json::{Value, json};

use super::*;

const REQUIRED_SUBJECT: &str =
    "spec.selector, targetRef: Required value: no selector or targetRef defined in PodUnavailableBudget";

fn budget(name: &str, spec: &Value) -> Raw {
    Raw::parse(json!({"metadata": {"name": name}, "spec": spec}).to_string()).unwrap()
}

fn target(api_version: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": "CloneSet", "name": name})
}

fn selector(labels: &Value) -> Value {
    json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1})
}

struct Review<'a> {
    version: &'a str,
    gates: &'a str,
    annotations: Value,
    old: Option<Value>,
    others: Vec<Raw>,
}

impl Review<'_> {
    fn new() -> Self {
        Self { version: "v1beta1", gates: "", annotations: json!({}), old: None, others: Vec::new() }
    }

    /// The message of the denial; empty where the budget is allowed.
    fn of(self, spec: &Value) -> String {
        let object = |spec: &Value| {
            let version = format!("policy.kruise.io/{}", self.version);
            let metadata = json!({"name": "pub", "namespace": "shop", "annotations": self.annotations});
            json!({"apiVersion": version, "kind": "PodUnavailableBudget", "metadata": metadata, "spec": spec})
                .to_string()
        };
        let gates = FeatureGates::parse(self.gates, "").unwrap();
        let context = Context { version: self.version, gates: &gates, budgets: &self.others };
        let old = self.old.as_ref().map(object);
        let verdict = review(&object(spec), old.as_deref(), &context);
        assert!(verdict.denial().is_none_or(|denial| denial.code == 400));
        verdict.denial().map_or_else(String::new, |denial| denial.message.clone())
    }
}

fn message(spec: &Value) -> String {
    Review::new().of(spec)
}

#[test]
fn exactly_one_of_each_pair_is_required() {
    assert_eq!(message(&json!({"maxUnavailable": 1})), REQUIRED_SUBJECT);
    assert_eq!(
        message(&json!({})),
        format!(
            "[{REQUIRED_SUBJECT}, spec.maxUnavailable, minAvailable: Required value: \
             no maxUnavailable or minAvailable defined in PodUnavailableBudget]"
        )
    );
    let both = json!({"targetRef": target("a/v1", "web"), "selector": {"matchLabels": {"a": "b"}},
        "maxUnavailable": 1, "minAvailable": 1});
    assert_eq!(
        message(&both),
        "[spec.selector, targetRef: Required value: selector and targetRef are mutually exclusive, \
         spec.maxUnavailable, minAvailable: Required value: maxUnavailable and minAvailable are mutually exclusive]"
    );
}

#[test]
fn numbers_and_percentages_have_bounds() {
    let limit = |limit: Value| message(&json!({"targetRef": target("a/v1", "web"), "maxUnavailable": limit}));
    for fine in [json!(0), json!("0%"), json!("100%"), json!(100_000)] {
        assert_eq!(limit(fine.clone()), "", "{fine}");
    }
    for (limit_given, part) in [
        (json!("101%"), "must not be greater than 100%"),
        (json!("99999999999999999999999%"), "must not be greater than 100%"),
        (json!(-1), "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
        (json!("1.5%"), "a valid percent string must be"),
        (json!("5"), "a valid percent string must be"),
    ] {
        let message = limit(limit_given.clone());
        assert!(message.contains(part), "{limit_given}: {message}");
    }
}

#[test]
fn targets_and_selectors_have_to_be_usable() {
    for (spec, part) in [
        (json!({"targetRef": {"kind": "CloneSet", "name": "web"}}), "empty targetRef is not valid"),
        (json!({"targetRef": target("a/b/c", "web")}), "unexpected GroupVersion string: a/b/c"),
        (json!({"selector": {}}), "empty selector is not valid for PodUnavailableBudget."),
        (json!({"selector": {"matchLabels": {"a b": "c"}}}), "spec.selector.matchLabels"),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "values: Required value",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            "not a valid selector operator",
        ),
    ] {
        let mut spec = spec;
        spec["maxUnavailable"] = json!(1);
        let message = message(&spec);
        assert!(message.contains(part), "{spec}: {message}");
    }
    let ignoring = |ignored: Value| {
        message(
            &json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1, "ignoredPodSelector": ignored}),
        )
    };
    assert!(ignoring(json!({})).contains("empty ignoredPodSelector is not valid for PodUnavailableBudget"));
    assert_eq!(ignoring(json!({"matchLabels": {"a": "b"}})), "");
}

#[test]
fn operations_are_four_words() {
    let spec = json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1, "protectOperations": ["EVICT", "KILL"]});
    assert_eq!(
        message(&spec),
        r#"spec.protectOperations[1]: Unsupported value: "KILL": supported values: "DELETE", "UPDATE", "EVICT", "RESIZE""#
    );
}

#[test]
fn the_subject_stays_but_for_its_version() {
    let with = |target: Value| json!({"targetRef": target, "maxUnavailable": 1});
    let update = |old: Value, new: Value| Review { old: Some(old), ..Review::new() }.of(&new);
    let fixed = "spec.selector, targetRef: Required value: selector and targetRef cannot be modified";
    let beta = with(target("apps.kruise.io/v1beta1", "web"));
    assert_eq!(update(with(target("apps.kruise.io/v1alpha1", "web")), beta.clone()), "");
    assert_eq!(update(with(target("apps.kruise.io/v1beta1", "db")), beta.clone()), fixed);
    assert_eq!(update(selector(&json!({"app": "web"})), beta.clone()), fixed);
    assert_eq!(update(selector(&json!({"app": "web"})), selector(&json!({"app": "db"}))), fixed);
    let wider = json!({"targetRef": target("apps.kruise.io/v1beta1", "web"), "maxUnavailable": "50%"});
    assert_eq!(update(beta, wider), "");
}

#[test]
fn budgets_for_the_same_workload_conflict() {
    let one = json!({"targetRef": target("apps.kruise.io/v1beta1", "web"), "maxUnavailable": 1});
    let against = |spec: Value, other: &Value| {
        Review { others: vec![budget("other", other)], ..Review::new() }.of(&spec)
    };
    let same = json!({"targetRef": target("apps.kruise.io/v1alpha1", "web"), "maxUnavailable": 2});
    let message = against(same.clone(), &one);
    assert!(message.starts_with("spec.targetReference: Invalid value: "), "{message}");
    assert!(
        message.ends_with("pub.spec.targetReference is in conflict with other PodUnavailableBudget other")
    );
    assert_eq!(against(selector(&json!({"app": "web"})), &one), "");
    let itself = Review { others: vec![budget("pub", &one)], ..Review::new() };
    assert_eq!(itself.of(&same), "");
}

#[test]
fn selectors_conflict_only_on_the_same_labels() {
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
    let overlap = |one: &Value, other: &Value| {
        let read = |selector: &Value| serde_json::from_value::<LabelSelector>(selector.clone()).unwrap();
        let both = [loosely_overlap(&read(one), &read(other)), loosely_overlap(&read(other), &read(one))];
        assert_eq!(both[0], both[1], "{one} {other}");
        both[0]
    };
    let selectors = [
        json!({"matchLabels": {"app": "web"}}),
        expression("In", &["web", "db"]),
        expression("In", &["db"]),
        expression("NotIn", &["web"]),
        expression("Exists", &[]),
        expression("DoesNotExist", &[]),
    ];
    let expected = [
        [true, true, false, false, true, false],
        [true, true, true, true, true, false],
        [false, true, true, true, true, false],
        [false, true, true, true, true, true],
        [true, true, true, true, true, false],
        [false, false, false, true, false, true],
    ];
    for (one, row) in selectors.iter().zip(expected) {
        for (other, expected) in selectors.iter().zip(row) {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
        }
    }
    let narrower = json!({"matchLabels": {"app": "web", "tier": "x"}});
    assert!(
        !overlap(&selectors[0], &narrower)
            && !overlap(&selectors[0], &json!({"matchLabels": {"backend": "true"}}))
    );
    let both = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    assert!(overlap(&selectors[0], &both), "matchLabels goes first");
}

#[test]
fn nothing_is_stored_with_both_gates_off() {
    let off = "PodUnavailableBudgetDeleteGate=false";
    let spec = json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1});
    let review = |gates| Review { gates, ..Review::new() }.of(&spec);
    assert_eq!(review(off), GATES_OFF);
    assert_eq!(review("PodUnavailableBudgetDeleteGate=false,PodUnavailableBudgetUpdateGate=true"), "");
    assert_eq!(Review { version: "v2", ..Review::new() }.of(&spec), "unsupported version: v2");
}

#[test]
fn what_is_stored_can_go_whatever_is_wrong_with_it() {
    let spec = selector(&json!({"app": "web"}));
    let other = |over: Value| {
        let mut other = json!({"metadata": {"name": "other"}, "spec": spec});
        other["metadata"].as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        vec![Raw::parse(other.to_string()).unwrap()]
    };
    let review = |others| Review { others, ..Review::new() };
    assert!(review(other(json!({}))).of(&spec).contains("in conflict with other PodUnavailableBudget other"));
    let ending = json!({"deletionTimestamp": "2026-11-22T10:00:00Z"});
    assert_eq!(review(other(ending)).of(&spec), "");
    assert_eq!(Review { old: Some(spec.clone()), ..review(other(json!({}))) }.of(&spec), "");
    let changed = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 2});
    assert!(Review { old: Some(spec.clone()), ..review(other(json!({}))) }.of(&changed).contains("conflict"));
}

#[test]
fn annotations_of_v1alpha1_are_checked_before_they_become_fields() {
    let spec = json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1});
    let review =
        |version, annotations: Value, spec: &Value| Review { version, annotations, ..Review::new() }.of(spec);
    let operations = |text: &str| json!({"kruise.io/pub-protect-operations": text});
    let total = |text: &str| json!({"pub.kruise.io/protect-total-replicas": text});
    assert_eq!(review("v1alpha1", operations("DELETE, EVICT,"), &spec), "");
    assert_eq!(
        review("v1alpha1", operations("DELETE,KILL"), &spec),
        r#"failed to convert v1alpha1 PUB to v1beta1: invalid kruise.io/pub-protect-operations value "KILL""#
    );
    assert_eq!(review("v1beta1", operations("KILL"), &spec), "");
    assert_eq!(review("v1alpha1", total("15"), &spec), "");
    assert!(review("v1alpha1", total("x"), &spec).starts_with(
        "failed to convert v1alpha1 PUB to v1beta1: failed to parse pub.kruise.io/protect-total-replicas: "
    ));
    for text in ["x", ""] {
        assert!(review("v1beta1", total(text), &spec).ends_with("must be a valid int32"));
    }
    let differs = "must match spec.protectTotalReplicas when both are set";
    assert!(review("v1alpha1", total("007"), &spec).ends_with(differs));
    let with_total =
        json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1, "protectTotalReplicas": 3});
    assert!(review("v1beta1", total("4"), &with_total).ends_with(differs));
    assert_eq!(review("v1beta1", total("3"), &with_total), "");
}

#[test]
fn what_becomes_of_pods_that_are_not_ready_is_one_of_two_words() {
    let spec = json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1});
    let says = |word: &str| json!({"kutter.io/unhealthy-pods": word});
    for word in ["Protect", "Release"] {
        for version in ["v1beta1", "v1alpha1"] {
            let review = Review { version, annotations: says(word), ..Review::new() };
            assert_eq!(review.of(&spec), "", "{word} in {version}");
        }
    }
    for word in ["protect", "Always", ""] {
        let expected = format!(
            r#"metadata.annotations[kutter.io/unhealthy-pods]: Unsupported value: "{word}": supported values: "Protect", "Release""#
        );
        for version in ["v1beta1", "v1alpha1"] {
            let review = Review { version, annotations: says(word), ..Review::new() };
            assert_eq!(review.of(&spec), expected, "{version}");
        }
    }
}

#[test]
fn a_change_of_that_annotation_alone_is_checked() {
    let object = |word: Option<&str>, label: &str| {
        let annotations = json!({"kutter.io/unhealthy-pods": word});
        let annotations = if word.is_some() { annotations } else { json!({}) };
        let spec = json!({"targetRef": target("a/v1", "web"), "maxUnavailable": 1});
        let labels = json!({"label": label});
        json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "spec": spec,
            "metadata": {"name": "pub", "namespace": "shop", "annotations": annotations, "labels": labels}})
        .to_string()
    };
    let gates = FeatureGates::parse("", "").unwrap();
    let context = Context { version: "v1beta1", gates: &gates, budgets: &[] };
    let is_refused = |new: Option<&str>, old: Option<&str>| {
        review(&object(new, "new"), Some(&object(old, "old")), &context).denial().is_some()
    };
    assert!(is_refused(Some("Keep"), None) && is_refused(Some("Keep"), Some("Protect")));
    // As what is stored already, it does not hinder a change of something else.
    assert!(!is_refused(Some("Keep"), Some("Keep")));
    for (new, old) in [(Some("Protect"), None), (Some("Release"), Some("Keep")), (None, Some("Keep"))] {
        assert!(!is_refused(new, old), "{new:?} {old:?}");
    }
}
