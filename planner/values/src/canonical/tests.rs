use proptest::prelude::*;

use super::*;

const TEMPLATE: Kind = Kind::Struct(&table::POD_TEMPLATE_SPEC);

fn template(json: &str) -> String {
    canonical_json(json, &TEMPLATE, Unknown::Drop).unwrap()
}

/// Any JSON, of names and values that Go types know and others.
pub(crate) fn any_json() -> impl Strategy<Value = String> {
    let text = prop_oneof![".{0,6}", "(Always|1Gi|500m|0|true|2024-05-01T10:00:00Z)",];
    let name = prop_oneof![
        "(metadata|spec|containers|initContainers|volumes|resources|limits|env|name|value|restartPolicy|ports)",
        ".{0,4}",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("{}".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-100..100_i32).prop_map(|number| number.to_string()),
        any::<f32>()
            .prop_filter("JSON has only finite numbers", |number| number.is_finite())
            .prop_map(|number| number.to_string()),
        text.prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(","))),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|members| object(&members)),
        ]
    })
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}: {value}", serde_json::to_string(name).unwrap()))
        .collect();
    format!("{{{}}}", members.join(" , "))
}

/// What Go's encoder printed for templates it had decoded.
#[test]
fn templates_are_written_as_go_writes_them() {
    for (json, written) in [
        ("{}", r#"{"metadata":{"creationTimestamp":null},"spec":{"containers":null}}"#),
        (
            r#"{"metadata":{"labels":{"b":"1","a":"<&>\u2028\u0001\b\f"},"creationTimestamp":"2024-05-01T10:00:00+02:00"},"spec":{"hostNetwork":false,"hostUsers":false,"containers":null,"volumes":[{"name":"v","emptyDir":{}},{"name":"c","configMap":{"name":"x","defaultMode":0}},{"name":"e","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"1024Mi"}}}}}}],"securityContext":{},"terminationGracePeriodSeconds":0,"tolerations":[],"overhead":{"memory":"1.500","cpu":0.5}}}"#,
            r#"{"metadata":{"creationTimestamp":"2024-05-01T08:00:00Z","labels":{"a":"\u003c\u0026\u003e\u2028\u0001\b\f","b":"1"}},"spec":{"volumes":[{"name":"v","emptyDir":{}},{"name":"c","configMap":{"name":"x","defaultMode":0}},{"name":"e","ephemeral":{"volumeClaimTemplate":{"metadata":{"creationTimestamp":null},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}}],"containers":null,"terminationGracePeriodSeconds":0,"securityContext":{},"overhead":{"cpu":"500m","memory":"1.500"},"hostUsers":false}}"#,
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","livenessProbe":{"httpGet":{"port":"http"},"grpc":{"port":5}},"env":[{"name":"X","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}],"unknown":{"z":1},"ports":[{"containerPort":80,"hostPort":0}],"resources":{"limits":{}},"securityContext":{"runAsUser":0,"privileged":false}},null],"initContainers":[],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}},"topologySpreadConstraints":[{"maxSkew":1,"minDomains":0,"labelSelector":{}}]}}"#,
            r#"{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}],"env":[{"name":"X","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}}],"resources":{},"livenessProbe":{"httpGet":{"port":"http"},"grpc":{"port":5,"service":null}},"securityContext":{"privileged":false,"runAsUser":0}},{"name":"","resources":{}}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":null}}},"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"","whenUnsatisfiable":"","labelSelector":{},"minDomains":0}]}}"#,
        ),
        (
            r#"{"metadata":{"managedFields":[{"manager":"m","time":"2024-05-01T08:00:00.5Z","fieldsV1":{"f:b": {"f:<a>":[1, 2.50 ]},"f:a":{}}}]},"spec":{"containers":[]}}"#,
            r#"{"metadata":{"creationTimestamp":null,"managedFields":[{"manager":"m","time":"2024-05-01T08:00:00Z","fieldsV1":{"f:b":{"f:\u003ca\u003e":[1,2.50]},"f:a":{}}}]},"spec":{"containers":[]}}"#,
        ),
    ] {
        assert_eq!(template(json), written);
        assert_eq!(template(written), written, "writing again changes nothing");
    }
}

#[test]
fn zero_moment_is_null() {
    let json = r#"{"time":"0001-01-01T00:00:00Z"}"#;
    let entry = Kind::Struct(&table::MANAGED_FIELDS_ENTRY);
    assert_eq!(canonical_json(json, &entry, Unknown::Drop).unwrap(), r#"{"time":null}"#);
}

#[test]
fn values_of_the_wrong_type_are_named_by_their_path() {
    for (json, message) in [
        (
            r#"{"spec":{"containers":[{"name":5}]}}"#,
            "spec.containers[0].name: Invalid value: 5: must be a string",
        ),
        (
            r#"{"spec":{"containers":[{"livenessProbe":{"periodSeconds":1.0}}]}}"#,
            "spec.containers[0].livenessProbe.periodSeconds: Invalid value: 1.0: must be an integer",
        ),
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"1x"}}}]}}"#,
            "spec.containers[0].resources.limits.cpu: Invalid value: \"1x\": must be a quantity, such as 500m, 1.5 or 2Gi",
        ),
        (r#"{"spec":{"containers":{}}}"#, "spec.containers: Invalid value: {}: must be a list"),
        ("[]", "Invalid value: []: must be an object"),
        (
            r#"{"spec":{"containers":[{"livenessProbe":{"periodSeconds":2147483648}}]}}"#,
            "spec.containers[0].livenessProbe.periodSeconds: Invalid value: 2147483648: must be an integer of 32 bits",
        ),
    ] {
        let error = canonical_json(json, &TEMPLATE, Unknown::Drop).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn unknown_fields_are_kept_on_request() {
    let json = r#"{"zone": {"b": 1.50, "a": "<"}, "key":"a", "value":null, "effect":""}"#;
    let toleration = Kind::Struct(&table::TOLERATION);
    assert_eq!(canonical_json(json, &toleration, Unknown::Drop).unwrap(), r#"{"key":"a"}"#);
    assert_eq!(
        canonical_json(json, &toleration, Unknown::Keep).unwrap(),
        r#"{"key":"a","zone":{"b":1.50,"a":"\u003c"}}"#
    );
}

#[test]
fn sorted_json_keeps_or_rounds_numbers() {
    let json = r#" {"b" : [1.50, 9007199254740993, -1e400], "a":{"d":"</>\u000b","c":null}} "#;
    assert_eq!(
        sorted_json(json, Numbers::Exact).unwrap(),
        r#"{"a":{"c":null,"d":"\u003c/\u003e\u000b"},"b":[1.50,9007199254740993,-1e400]}"#
    );
    assert_eq!(sorted_json("9223372036854775807", Numbers::Double).unwrap(), "9223372036854776000");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(sorted_json(&deep, Numbers::Exact).unwrap_err().problem, "nests too deep");
}

#[test]
fn table_knows_the_merge_keys() {
    let field = |shape: &Shape, name: &str| shape.0.iter().find(|field| field.name == name).unwrap().merge;
    let merge = |strategy, key| Some(Merge { strategy, key });
    assert_eq!(field(&table::POD_SPEC, "containers"), merge("merge", "name"));
    assert_eq!(field(&table::POD_SPEC, "volumes"), merge("merge,retainKeys", "name"));
    assert_eq!(field(&table::SIDECAR_CONTAINER, "volumeMounts"), merge("merge", "mountPath"));
    assert_eq!(field(&table::POD_SPEC, "tolerations"), None);
}

proptest! {
    #[test]
    fn any_json_is_written_or_refused_without_panic(json in any_json()) {
        for kind in [TEMPLATE, Kind::Struct(&table::POD), Kind::Struct(&table::SIDECAR_CONTAINER)] {
            if let Ok(written) = canonical_json(&json, &kind, Unknown::Drop) {
                prop_assert_eq!(canonical_json(&written, &kind, Unknown::Drop).unwrap(), written);
            }
            if let Ok(written) = canonical_json(&json, &kind, Unknown::Keep) {
                prop_assert_eq!(canonical_json(&written, &kind, Unknown::Keep).unwrap(), written);
            }
        }
    }

    #[test]
    fn any_text_is_written_or_refused_without_panic(text in ".{0,40}") {
        let _ = canonical_json(&text, &TEMPLATE, Unknown::Keep);
        let _ = sorted_json(&text, Numbers::Double);
    }

    #[test]
    fn sorting_is_idempotent_and_keeps_the_value(json in any_json()) {
        let sorted = sorted_json(&json, Numbers::Exact).unwrap();
        prop_assert_eq!(sorted_json(&sorted, Numbers::Exact).unwrap(), sorted.as_str());
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&json).unwrap(), serde_json::from_str(&sorted).unwrap());
        prop_assert_eq!(before, after);
    }

    #[test]
    fn order_and_unknown_members_do_not_matter(
        mut members in Just(vec![
            ("name", r#""a""#),
            ("image", r#""b:1""#),
            ("resources", r#"{"requests":{"memory":"1Gi","cpu":1}}"#),
            ("env", r#"[{"value":"1","name":"X"}]"#),
            ("tty", "true"),
            ("shareVolumePolicy", r#"{"type":"enabled"}"#),
        ]).prop_shuffle(),
        unknown in any_json(),
    ) {
        members.push(("notOfThisType", &unknown));
        let members: Vec<_> = members.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        prop_assert_eq!(
            canonical_json(&object(&members), &Kind::Struct(&table::SIDECAR_CONTAINER), Unknown::Drop).unwrap(),
            r#"{"name":"a","image":"b:1","env":[{"name":"X","value":"1"}],"resources":{"requests":{"cpu":"1","memory":"1Gi"}},"tty":true,"upgradeStrategy":{},"shareVolumePolicy":{"type":"enabled"}}"#
        );
    }
}
