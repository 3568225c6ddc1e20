use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sidecarset::defaulting::default;
use testing::templates::arbitrary_template;
use values::json_patch;

/// A valid SidecarSet that went through defaulting, changed by `edits` before.
fn object(edits: &[(&str, Value)]) -> String {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "s1", "labels": {"team": "a"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "log", "image": "log:1"}],
            "volumes": [{"name": "spool"}],
        },
    });
    for (pointer, value) in edits {
        let operations = json!([{"op": "add", "path": pointer, "value": value}]);
        let patch: ::json_patch::Patch = serde_json::from_value(operations).unwrap();
        ::json_patch::patch(&mut object, &patch).unwrap();
    }
    let text = object.to_string();
    let patch = default(&text, "v1beta1").unwrap();
    json_patch::apply(&text, &patch).unwrap()
}

fn set(edits: &[(&str, Value)]) -> SidecarSet {
    serde_json::from_str(&object(edits)).unwrap()
}

#[derive(Default)]
struct World<'a> {
    others: Vec<SidecarSet>,
    revisions: &'a [&'a str],
    allow_list: Option<&'a str>,
    gates: FeatureGates,
}

impl World<'_> {
    fn with<T>(&self, ask: impl FnOnce(&Context<'_>) -> T) -> T {
        let sidecar_sets: Vec<&SidecarSet> = self.others.iter().collect();
        let has_revision = |query: RevisionQuery<'_>| match query {
            RevisionQuery::Name { sidecar_set, name: found }
            | RevisionQuery::CustomVersion { sidecar_set, version: found } => {
                self.revisions.contains(&format!("{sidecar_set}/{found}").as_str())
            }
        };
        ask(&Context {
            sidecar_sets: &sidecar_sets,
            has_revision: &has_revision,
            allow_list: self.allow_list,
            gates: &self.gates,
            allow_privileged: true,
        })
    }

    fn validate(&self, new: &SidecarSet, old: Option<&SidecarSet>) -> Validation {
        self.with(|context| validate(new, old, context))
    }

    fn errors(&self, new: &SidecarSet, old: Option<&SidecarSet>) -> Vec<String> {
        self.validate(new, old).errors.iter().map(ToString::to_string).collect()
    }
}

/// What is changed, and the errors of a create.
type Case<'a> = (&'a [(&'a str, Value)], &'a [&'a str]);

fn check(cases: &[Case<'_>]) {
    for (edits, expected) in cases {
        assert_eq!(World::default().errors(&set(edits), None), *expected, "{edits:?}");
    }
}

#[test]
fn a_minimal_sidecarset_is_valid() {
    check(&[(&[], &[])]);
}

#[test]
fn names_have_no_dots_and_at_most_63_characters() {
    check(&[
        (
            &[("/metadata/name", json!("a.b"))],
            &[
                r#"metadata.name: Invalid value: "a.b": sidecarset name must consist of alphanumeric characters or '-' (e.g. 'example-com', regex used for validation is '^[a-zA-Z0-9\-]+$')"#,
            ],
        ),
        (&[("/metadata/name", json!("A-1"))], &[]),
    ]);
    let long = "a".repeat(64);
    let errors = World::default().errors(&set(&[("/metadata/name", json!(long))]), None);
    assert_eq!(
        errors,
        [format!("metadata.name: Invalid value: \"{long}\": must be no more than 63 characters")]
    );
}

#[test]
fn selectors_must_select_something() {
    check(&[
        (
            &[("/spec/selector", json!(null))],
            &["spec.selector: Required value: no selector defined for SidecarSet"],
        ),
        (
            &[("/spec/selector", json!({}))],
            &[
                "spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: empty selector is not valid for sidecarset.",
            ],
        ),
        (
            &[("/spec/selector", json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}))],
            &[
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            ],
        ),
        (
            &[("/spec/namespaceSelector", json!({"matchLabels": {}}))],
            &[
                "spec.namespaceSelector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{}, MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: empty selector is not valid for sidecarset.",
            ],
        ),
    ]);
}

#[test]
fn something_must_be_injected() {
    check(&[
        (
            &[("/spec/containers", json!([]))],
            &["spec: Required value: no initContainer or container defined for SidecarSet"],
        ),
        (
            &[
                ("/spec/containers", json!([])),
                ("/spec/initContainers", json!([{"name": "i", "image": "i"}])),
            ],
            &[],
        ),
    ]);
}

#[test]
fn native_sidecars_are_not_updated_in_place() {
    let native = json!([{"name": "n", "image": "n", "restartPolicy": "Always"}]);
    check(&[
        (
            &[("/spec/initContainers", native.clone())],
            &[
                "spec.updateStrategy: Required value: The initContainer in-place upgrade is not currently supported.",
            ],
        ),
        (&[("/spec/initContainers", native), ("/spec/updateStrategy", json!({"type": "NotUpdate"}))], &[]),
    ]);
}

#[test]
fn update_strategies() {
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    let partition = format!(
        "spec.updateStrategy.partition: Invalid value: intstr.IntOrString{{Type:1, IntVal:0, StrVal:\"5\"}}: {percent}"
    );
    let path = "spec.updateStrategy.priorityStrategy: Required value:";
    let weights = |weight: i64| json!({"priorityStrategy": {"weightPriority": [{"weight": weight, "matchSelector": {"matchLabels": {"a": "b"}}}]}});
    let check =
        |strategy: Value, expected: &[&str]| check(&[(&[("/spec/updateStrategy", strategy)], expected)]);
    check(json!({"partition": "5"}), &[&partition]);
    check(json!({"partition": "150%", "maxUnavailable": 0}), &[]);
    check(
        json!({"maxUnavailable": -1}),
        &["spec.updateStrategy.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(weights(100), &[]);
    check(weights(101), &[&format!("{path} weight must be valid number in the range 1-100")]);
    check(
        json!({"priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": {}}], "orderPriority": [{"orderedKey": ""}]}}),
        &[
            &format!("{path} only one of weightPriority and orderPriority can be used"),
            &format!("{path} selector can not be empty"),
            &format!("{path} order key can not be empty"),
        ],
    );
    check(
        json!({"priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}}),
        &[
            "spec.updateStrategy.priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].values: Required \
             value: must be specified when `operator` is 'In' or 'NotIn'",
        ],
    );
    check(
        json!({"scatterStrategy": [{"key": "", "value": "a"}, {"key": "k", "value": "v"}, {"key": "k", "value": "v"}]}),
        &[
            "spec.updateStrategy.scatterStrategy: Required value: key should not be empty",
            "spec.updateStrategy.scatterStrategy: Required value: duplicated key=k value=v",
        ],
    );
    check(
        json!({"selector": {"matchLabels": {"a": "b"}}, "partition": 1}),
        &[
            r#"updateStrategy: Invalid value: {"type":"RollingUpdate","selector":{"matchLabels":{"a":"b"}},"partition":1,"maxUnavailable":1}: Partition and Selector cannot be used together"#,
        ],
    );
    check(json!({"selector": {"matchLabels": {"a": "b"}}}), &[]);
    check(json!({"type": "NotUpdate", "selector": {"matchLabels": {"a": "b"}}, "partition": "100%"}), &[]);
}

#[test]
fn selectors_with_values_that_no_label_has_are_refused_unless_they_are_stored() {
    let world = World::default();
    let odd = |image: &str| {
        let term = json!({"weight": 1, "matchSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x y"]}]}});
        let strategy = json!({"priorityStrategy": {"weightPriority": [term]}});
        set(&[("/spec/updateStrategy", strategy), ("/spec/containers/0/image", json!(image))])
    };
    let path =
        "spec.updateStrategy.priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].values[0]";
    let errors = world.errors(&odd("log:1"), None);
    assert!(
        matches!(&*errors, [error] if error.starts_with(&format!("{path}: Invalid value: \"x y\": a valid label"))),
        "{errors:?}"
    );
    assert_eq!(world.errors(&odd("log:2"), Some(&odd("log:1"))), [""; 0]);
    assert_eq!(world.errors(&odd("log:2"), Some(&set(&[]))), errors);
}

#[test]
fn null_in_a_list_is_an_empty_element_as_in_go() {
    let errors = World::default().errors(&set(&[("/spec/volumes", json!([null]))]), None);
    assert_eq!(errors, ["spec.volumes[0].name: Required value"]);
    let errors = World::default().errors(&set(&[("/spec/containers", json!([null]))]), None);
    assert!(errors.contains(&"spec.containers[0].name: Required value".to_owned()), "{errors:?}");
}

#[test]
fn what_can_not_be_read_is_named_by_its_path() {
    for (pointer, value, expected) in [
        (
            "/spec/containers/0/transferEnv",
            json!({}),
            "spec.containers[0].transferEnv: Invalid value: {}: must be a list",
        ),
        ("/spec/volumes/0/name", json!(7), "spec.volumes[0].name: Invalid value: 7: must be a string"),
        ("/spec/selector", json!([7]), "spec.selector: Invalid value: [7]: must be an object"),
    ] {
        let mut object: Value = serde_json::from_str(&object(&[])).unwrap();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name] = value;
        let denial = Submitted::read(&object.to_string()).unwrap_err();
        assert_eq!((denial.code, denial.message.as_str()), (400, expected));
    }
}

#[test]
fn a_pinned_revision_must_exist() {
    let pinned = |revision: Value| set(&[("/spec/injectionStrategy", json!({"revision": revision}))]);
    let world = World { revisions: &["s1/s1-abc", "s1/v1", "s2/s2-abc"], ..World::default() };
    assert_eq!(world.errors(&pinned(json!({"revisionName": "s1-abc"})), None), [""; 0]);
    assert_eq!(world.errors(&pinned(json!({"customVersion": "v1"})), None), [""; 0]);
    // A revision of another SidecarSet would deny every Pod.
    let foreign = world.errors(&pinned(json!({"revisionName": "s2-abc"})), None);
    assert!(foreign.len() == 1 && foreign[0].ends_with(r#"ControllerRevision.apps "s2-abc" not found"#));
    assert_eq!(
        world.errors(&pinned(json!({"policy": "Partial"})), None),
        [
            r#"revision: Invalid value: {"policy":"Partial"}: revisionName and customVersion cannot be empty simultaneously"#
        ]
    );
    assert_eq!(
        world.errors(&pinned(json!({"revisionName": "s1-x"})), None),
        [
            r#"revision: Invalid value: {"revisionName":"s1-x","policy":"Always"}: Cannot find specific ControllerRevision, err: ControllerRevision.apps "s1-x" not found"#
        ]
    );
    let missing = world.errors(&pinned(json!({"customVersion": "v2", "policy": "Odd"})), None);
    assert!(missing[0].ends_with(r#"ControllerRevision.apps "s1" not found"#), "{missing:?}");
    assert!(
        missing[1].starts_with(r#"revision.policy: Invalid value: "Odd": Invalid policy Odd"#),
        "{missing:?}"
    );
}

#[test]
fn canaries() {
    let canary = |base: &str, kind: &str| {
        set(&[
            ("/metadata/name", json!("canary")),
            (
                "/metadata/annotations",
                json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": base}),
            ),
            ("/spec/updateStrategy", json!({"type": kind})),
        ])
    };
    let world = World { others: vec![set(&[]), canary("s1", "NotUpdate")], ..World::default() };
    assert_eq!(world.errors(&canary("s1", "NotUpdate"), None), [""; 0]);
    // The base itself can still be updated while its canary has the same containers.
    assert_eq!(world.errors(&set(&[]), Some(&set(&[]))), [""; 0]);
    let text = |base: &str, message: &str| vec![format!("metadata: Invalid value: \"{base}\": {message}")];
    assert_eq!(
        world.errors(&canary("s1", "RollingUpdate"), None),
        text("s1", "RollingUpdate is not supported for canary sidecarSet")
    );
    assert_eq!(
        world.errors(&canary("canary", "NotUpdate"), None),
        text("canary", "base sidecarSet cannot be itself")
    );
    assert_eq!(
        world.errors(&canary("gone", "NotUpdate"), None),
        text("gone", r#"fetch base sidecarSet[gone] failed: SidecarSet.apps.kruise.io "gone" not found"#)
    );
    assert_eq!(
        world.errors(&canary("s2", "NotUpdate"), Some(&canary("s1", "NotUpdate")))[0],
        text("s2", "annotations[apps.kruise.io/sidecarset-base] is immutable")[0]
    );
    let mut second = canary("canary", "NotUpdate");
    second.metadata.name = "second".to_owned();
    assert_eq!(world.errors(&second, None), text("canary", "base sidecarSet cannot be canary"));
}

#[test]
fn containers_may_go_but_not_come() {
    let old = set(&[("/spec/containers/1", json!({"name": "a", "image": "a"}))]);
    let new = set(&[("/spec/containers/1", json!({"name": "b", "image": "b"}))]);
    let world = World::default();
    assert_eq!(
        world.errors(&new, Some(&old)),
        [r#"spec.containers.name: Invalid value: "b": container b is not found"#]
    );
    assert_eq!(world.errors(&set(&[]), Some(&old)), [""; 0]);
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let hot = set(&[("/spec/containers/0/upgradeStrategy", hot)]);
    assert_eq!(
        world.errors(&hot, Some(&set(&[]))),
        [
            r#"spec.containers.upgradeStrategy.upgradeType: Invalid value: "HotUpgrade": container log upgradeType is immutable"#
        ]
    );
}

#[test]
fn fields_of_sidecars() {
    check(&[
        (
            &[("/spec/containers/0/podInjectPolicy", json!("Beside"))],
            &["spec.container.podInjectPolicy: Invalid value: \"Beside\": unsupported pod inject policy"],
        ),
        (
            &[("/spec/containers/0/shareVolumePolicy", json!({"type": "some"}))],
            &["spec.container.shareVolumePolicy: Invalid value: \"some\": unsupported share volume policy"],
        ),
        (
            &[("/spec/containers/0/transferEnv", json!([{"sourceContainerNameFrom": {}, "envName": "A"}]))],
            &[],
        ),
        (
            &[("/spec/containers/0/transferEnv", json!([{"sourceContainerNameFrom": {"fieldRef": {}}}]))],
            &["spec[0].transferEnv.fieldRef.fieldPath: Required value"],
        ),
        (
            &[(
                "/spec/containers/0/transferEnv",
                json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            )],
            &[
                "spec[0].transferEnv.fieldRef.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: field label not supported: metadata.name",
            ],
        ),
        (
            &[(
                "/spec/containers/0/transferEnv",
                json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['/k']"}}}]),
            )],
            &["spec[0].transferEnv.fieldRef: Invalid value: \"/k\": prefix part must be non-empty"],
        ),
        (
            &[(
                "/spec/containers/0/transferEnv",
                json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['EXAMPLE.com/K']"}}}]),
            )],
            &[],
        ),
    ]);
}

#[test]
fn mistakes_in_sidecars_are_found_without_a_cluster() {
    check(&[
        (
            &[("/spec/containers/0/image", json!(" log"))],
            &[
                "spec.containers[0].image: Invalid value: \" log\": must not have leading or trailing whitespace",
            ],
        ),
        (
            &[("/spec/initContainers", json!([{"name": "log", "image": "i"}]))],
            &["spec.initContainers[0].name: Duplicate value: \"log\""],
        ),
        (
            &[("/spec/containers/0/volumeMounts", json!([{"name": "gone", "mountPath": "/a"}]))],
            &["spec.containers[0].volumeMounts[0].name: Not found: \"gone\""],
        ),
        (&[("/spec/containers/0/volumeMounts", json!([{"name": "spool", "mountPath": "/a"}]))], &[]),
        (&[("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 81}]))], &[]),
        (&[("/spec/containers/0/lifecycle", json!({"preStop": {"sleep": {"seconds": 600}}}))], &[]),
    ]);
}

#[test]
fn flaws_that_were_stored_once_only_warn_on_update() {
    for (edits, expected) in [
        (
            ("/spec/updateStrategy", json!({"type": "Odd"})),
            r#"spec.updateStrategy.type: Unsupported value: "Odd": supported values: "RollingUpdate", "NotUpdate""#,
        ),
        (
            ("/spec/containers/0/upgradeStrategy", json!({"upgradeType": "Odd"})),
            r#"spec.containers[0].upgradeStrategy.upgradeType: Unsupported value: "Odd": supported values: "ColdUpgrade", "HotUpgrade""#,
        ),
        (
            ("/spec/containers/0/upgradeStrategy", json!({"upgradeType": "HotUpgrade"})),
            "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: Required value: must be set for HotUpgrade",
        ),
    ] {
        let new = set(&[edits]);
        assert_eq!(World::default().errors(&new, None), [expected]);
        let update = World::default().validate(&new, Some(&new));
        assert_eq!((update.errors.len(), update.warnings), (0, vec![expected.to_owned()]));
    }
}

#[test]
fn names_that_do_not_fit_are_refused_and_only_warn_on_update() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let long = json!([{"name": "a".repeat(62), "image": "log:1", "upgradeStrategy": hot}]);
    let too_long = "v".repeat(64);
    for (edits, expected) in [
        (("/spec/containers", long), "must be no more than 61 characters for HotUpgrade"),
        (("/spec/customVersion", json!("v1 beta")), r#"spec.customVersion: Invalid value: "v1 beta": "#),
        (("/spec/customVersion", json!(too_long)), "must be no more than 63 characters"),
    ] {
        let new = set(&[edits]);
        let errors = World::default().errors(&new, None);
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
        let update = World::default().validate(&new, Some(&new));
        assert_eq!((update.errors.len(), update.warnings), (0, errors));
    }
    let longest = json!([{"name": "a".repeat(61), "image": "log:1", "upgradeStrategy": hot}]);
    for edits in [("/spec/containers", longest), ("/spec/customVersion", json!("v1.beta_2"))] {
        assert_eq!(World::default().errors(&set(&[edits]), None), [""; 0]);
    }
}

#[test]
fn expressions_are_tried_with_quantities() {
    let errors = |expressions: Value| {
        let policy = json!({"targetContainersMode": "sum", "resourcesExpr": expressions});
        World::default().errors(&set(&[("/spec/containers/0/resourcesPolicy", policy)]), None)
    };
    for valid in [
        json!({"limits": {"cpu": "max(cpu*50%, 50m)", "memory": "memory-1Mi"}}),
        json!({"limits": {"cpu": "CPU*2"}, "requests": {"cpu": "cpu-2", "memory": "100Mi"}}),
        json!({"limits": {}}),
    ] {
        assert_eq!(errors(valid.clone()), [""; 0], "{valid}");
    }
    for (field, text, problem) in [
        ("cpu", "cpu*cpu", "multiplication of two quantities"),
        ("cpu", "100m/cpu", "division by quantity"),
        ("cpu", "memory*2", "undefined variable: memory"),
        ("memory", "cpu*2", "undefined variable: cpu"),
        ("memory", "MEMORY*2", "undefined variable: memory"),
        ("cpu", "0-1", "calculation result is negative: -1"),
        ("cpu", "100X", "malformed number 100X"),
        ("cpu", "cpu*", "parse error"),
    ] {
        let found = errors(json!({"limits": {field: text}}));
        let start = format!(
            "spec[0].resourcesPolicy.resourcesExpr.limits.{field}: Invalid value: \"{text}\": invalid expression: "
        );
        assert!(found.len() == 1 && found[0].starts_with(&start) && found[0].contains(problem), "{found:?}");
    }
    assert_eq!(
        errors(json!({})),
        [
            "spec[0].resourcesPolicy.resourcesExpr: Invalid value: {}: at least one of limits or requests must be configured"
        ]
    );
}

#[test]
fn resource_policies_stand_alone() {
    let policy = |regex: &str| json!({"targetContainersMode": "max", "targetContainersNameRegex": regex, "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    check(&[
        (
            &[
                ("/spec/containers/0/resourcesPolicy", policy(".*")),
                ("/spec/containers/0/resources", json!({"requests": {"cpu": "1"}})),
            ],
            &[
                "spec[0].resourcesPolicy: Invalid value: \"log\": resourcesPolicy and resources cannot be configured together",
            ],
        ),
        (
            &[
                ("/spec/containers/0/resourcesPolicy", policy("(")),
                ("/spec/containers/0/resources", json!({"requests": {}})),
            ],
            &[
                "spec[0].resourcesPolicy.targetContainersNameRegex: Invalid value: \"(\": invalid regex pattern: unclosed group",
            ],
        ),
        (
            &[(
                "/spec/initContainers",
                json!([{"name": "i", "image": "i", "resourcesPolicy": policy(".*")}]),
            )],
            &[
                "spec[0].resourcesPolicy: Invalid value: \"i\": resourcesPolicy is only supported for containers with RestartPolicy Always",
            ],
        ),
    ]);
}

#[test]
fn patching_pods_needs_an_allow_list_or_the_gate() {
    use api::features::Feature::SidecarSetPatchPodMetadataDefaultsAllowed as GATE;
    let new = set(&[("/spec/patchPodMetadata", json!([{"annotations": {"log-agent": "1"}}]))]);
    let required = |text: &str| vec![format!("spec.patchPodMetadata: Required value: {text}")];
    let gated = || FeatureGates::default().with(GATE, true);
    let errors = |allow_list, gates| World { allow_list, gates, ..World::default() }.errors(&new, None);
    let closed = FeatureGates::default;
    assert_eq!(errors(None, closed()), required("SidecarSet patch metadata whitelist not found"));
    assert_eq!(errors(None, gated()), [""; 0]);
    let matching =
        r#"{"rules":[{"selector":{"matchLabels":{"team":"a"}},"allowedAnnotationKeyExprs":["^log"]}]}"#;
    let other_team =
        r#"{"rules":[{"selector":{"matchLabels":{"team":"b"}},"allowedAnnotationKeyExprs":["^log"]}]}"#;
    let other_key = r#"{"rules":[{"allowedAnnotationKeyExprs":["^trace"]}]}"#;
    assert_eq!(errors(Some(matching), closed()), [""; 0]);
    assert_eq!(
        errors(Some(other_team), closed()),
        required("sidecarSet patch metadata annotation is not allowed")
    );
    assert_eq!(errors(Some(other_team), gated()), [""; 0]);
    let refused = required("sidecarSet patch metadata annotation(log-agent) is not allowed");
    assert_eq!(errors(Some(other_key), closed()), refused);
    assert_eq!(errors(Some(other_key), gated()), refused);
    assert_eq!(errors(Some("{"), closed()).len(), 1);
    let more = set(&[("/spec/patchPodMetadata", json!([{"annotations": {"log-agent": "1", "logs": "2"}}]))]);
    let world = World { allow_list: Some(other_key), ..World::default() };
    assert_eq!(
        world.errors(&more, Some(&new)),
        refused,
        "one stored key that is refused lets no other one in"
    );
}

#[test]
fn patches_of_pod_metadata_are_complete_and_unique() {
    use api::features::Feature::SidecarSetPatchPodMetadataDefaultsAllowed as GATE;
    let world = World { gates: FeatureGates::default().with(GATE, true), ..World::default() };
    let mut new = set(&[(
        "/spec/patchPodMetadata",
        json!([{"annotations": {"a": "1"}}, {"annotations": {"a": "2"}}, {}]),
    )]);
    new.spec.patch_pod_metadata[0].patch_policy.clear();
    assert_eq!(
        world.errors(&new, None),
        [
            "spec.patchPodMetadata: Required value: no patchPolicy defined for patchPodMetadata",
            "spec.patchPodMetadata: Required value: patch annotation[a] already exist",
            "spec.patchPodMetadata: Required value: no annotations defined for SidecarSet",
        ]
    );
    let odd = set(&[("/spec/patchPodMetadata", json!([{"annotations": {"/a": "1"}, "patchPolicy": "Odd"}]))]);
    assert_eq!(
        world.errors(&odd, None),
        [
            r#"spec.patchPodMetadata[0].patchPolicy: Unsupported value: "Odd": supported values: "Retain", "Overwrite", "MergePatchJson""#,
            r#"patchPodMetadata.annotations: Invalid value: "/a": prefix part must be non-empty"#,
        ]
    );
}

#[test]
fn both_versions_are_reviewed_and_denied_with_code_500() {
    let world = World::default();
    let alpha =
        |edits: &[(&str, Value)]| object(edits).replace("apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1");
    let answer = |new: &str, old: Option<&str>| world.with(|context| review(new, old, context));
    assert_eq!(answer(&object(&[]), None), Verdict::allow());
    assert_eq!(answer(&alpha(&[]), Some(&object(&[]))), Verdict::allow());
    assert_eq!(
        answer(&alpha(&[("/spec/selector", json!(null)), ("/spec/containers", json!([]))]), None),
        Verdict::deny(
            500,
            "[spec.selector: Required value: no selector defined for SidecarSet, \
             spec: Required value: no initContainer or container defined for SidecarSet]"
        )
    );
    let both = alpha(&[
        ("/spec/namespace", json!("ns1")),
        ("/spec/namespaceSelector", json!({"matchLabels": {"a": "b"}})),
    ]);
    let Verdict::Allow { warnings, .. } = answer(&both, None) else { panic!("denied") };
    assert_eq!(warnings, ["spec.namespaceSelector is dropped because spec.namespace (ns1) is set as well"]);
    for broken in [
        "",
        "[]",
        "{}",
        r#"{"apiVersion":"apps.kruise.io/v1"}"#,
        r#"{"apiVersion":"apps.kruise.io/v1beta1","spec":5}"#,
    ] {
        let Verdict::Deny(denial) = answer(broken, None) else { panic!("allowed {broken}") };
        assert_eq!(denial.code, 400, "{broken}");
        let Verdict::Allow { warnings, .. } = answer(&object(&[]), Some(broken)) else {
            panic!("denied after {broken}")
        };
        assert!(warnings.len() == 1 && warnings[0].starts_with("the stored SidecarSet can't be read"));
    }
}

proptest! {
    #[test]
    fn no_json_makes_the_review_panic(spec in arbitrary_template(), metadata in arbitrary_template(), alpha: bool) {
        let version = if alpha { "apps.kruise.io/v1alpha1" } else { "apps.kruise.io/v1beta1" };
        let new = json!({"apiVersion": version, "kind": "SidecarSet", "metadata": metadata, "spec": spec}).to_string();
        World { others: vec![set(&[])], ..World::default() }.with(|context| {
            review(&new, None, context);
            review(&new, Some(&object(&[])), context);
        });
    }
}
