use api::meta::LabelSelector;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use values::field::aggregate;
use values::json_patch::{self, Pointer};

/// A valid template with one of everything that the cases change.
fn template() -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "c", "image": "nginx:1", "ports": [{"containerPort": 80}], "env": [{"name": "A"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}], "resources": {}, "securityContext": {},
                "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"tcpSocket": {"port": "http"}},
                "startupProbe": {"exec": {"command": ["true"]}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }],
            "initContainers": [{"name": "i", "image": "nginx:1"}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "disk", "persistentVolumeClaim": {"claimName": "x"}}],
        },
    });
    let patch = default_template(&template, &Pointer::root(), false);
    serde_json::from_str(&json_patch::apply(&template.to_string(), &patch).unwrap()).unwrap()
}

fn rules() -> TemplateRules<'static> {
    TemplateRules {
        path: FieldPath::new("spec.template"),
        depth: Depth::Full,
        restart_policy: RestartPolicy::Any,
        selector: None,
        allow_privileged: true,
    }
}

/// The errors of the template after `edits`, paths without `spec.template.`.
fn errors_after(edits: &[(&str, Value)]) -> Vec<String> {
    let mut changed = template();
    for (pointer, value) in edits {
        let operation = json!([{"op": "add", "path": pointer, "value": value}]);
        json_patch_crate(&mut changed, operation);
    }
    let errors = validate_template(&changed, &rules());
    errors.iter().map(|error| error.to_string().trim_start_matches("spec.template.").to_owned()).collect()
}

fn json_patch_crate(document: &mut Value, operations: Value) {
    let patch: ::json_patch::Patch = serde_json::from_value(operations).unwrap();
    ::json_patch::patch(document, &patch).unwrap();
}

/// What is changed, and the errors that follow; none for what is valid.
type Case<'a> = (&'a [(&'a str, Value)], &'a [&'a str]);

fn check(cases: &[Case<'_>]) {
    for (edits, expected) in cases {
        assert_eq!(errors_after(edits), *expected, "{edits:?}");
    }
}

#[test]
fn a_complete_template_is_valid() {
    assert_eq!(errors_after(&[]), [""; 0]);
}

#[test]
fn wrong_types_are_named_with_their_place() {
    check(&[
        (
            &[("/spec/containers/0/name", json!(5)), ("/spec/hostNetwork", json!("yes"))],
            &[
                "spec.containers[0].name: Invalid value: 5: must be a string",
                "spec.hostNetwork: Invalid value: \"yes\": must be true or false",
            ],
        ),
        (&[("/spec/containers", json!({}))], &["spec.containers: Invalid value: {}: must be a list"]),
        (
            &[("/spec/containers/0/ports/0/containerPort", json!(1.5))],
            &["spec.containers[0].ports[0].containerPort: Invalid value: 1.5: must be an integer"],
        ),
        (
            &[("/spec/containers/0/resources", json!({"limits": {"cpu": "much"}}))],
            &[
                "spec.containers[0].resources.limits[cpu]: Invalid value: \"much\": must be a quantity, such as 500m, 1.5 or 2Gi",
            ],
        ),
        (&[("/spec/unknown", json!([1]))], &[]),
    ]);
}

#[test]
fn labels_and_annotations_are_reported_without_metadata_in_the_path() {
    let errors =
        errors_after(&[("/metadata/labels/a b", json!("-")), ("/metadata/annotations", json!({"/x": ""}))]);
    assert!(errors[0].starts_with("labels: Invalid value: \"a b\": name part must consist of"), "{errors:?}");
    assert!(errors[1].starts_with("labels: Invalid value: \"-\": a valid label must be"), "{errors:?}");
    assert_eq!(errors[2], "annotations: Invalid value: \"/x\": prefix part must be non-empty");
    check(&[(
        &[("/metadata/annotations", json!({"a": "x".repeat(262_144)}))],
        &["annotations: Too long: may not be more than 262144 bytes"],
    )]);
}

#[test]
fn common_mistakes_are_found_without_a_cluster() {
    let duplicate = "spec.initContainers[0].name: Duplicate value: \"c\"";
    check(&[
        (
            &[("/spec/containers/0/name", json!("a.b"))],
            &["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (&[("/spec/containers/0/name", json!(""))], &["spec.containers[0].name: Required value"]),
        (&[("/spec/initContainers/0/name", json!("c"))], &[duplicate]),
        (&[("/spec/containers", json!([]))], &["spec.containers: Required value"]),
        (&[("/spec/containers/0/image", json!(""))], &["spec.containers[0].image: Required value"]),
        (&[("/spec/containers/0/image", json!(" padded"))], &[]),
        (
            &[("/spec/containers/0/ports/0/containerPort", json!(0))],
            &["spec.containers[0].ports[0].containerPort: Required value"],
        ),
        (
            &[("/spec/containers/0/ports/0/containerPort", json!(65536))],
            &[
                "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            &[("/spec/containers/0/env/0/name", json!(""))],
            &["spec.containers[0].env[0].name: Required value"],
        ),
        (
            &[(
                "/spec/containers/0/resources",
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2", "memory": "1Gi"}}),
            )],
            &[
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
    ]);
}

#[test]
fn volumes_have_names_and_mounts_name_volumes() {
    check(&[
        (
            &[("/spec/volumes/-", json!({"name": "data", "emptyDir": {}}))],
            &["spec.volumes[2].name: Duplicate value: \"data\""],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "a.b", "emptyDir": {}}))],
            &["spec.volumes[2].name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (&[("/spec/volumes/-", json!({"emptyDir": {}}))], &["spec.volumes[2].name: Required value"]),
        (
            &[("/spec/containers/0/volumeMounts/0/name", json!("gone"))],
            &["spec.containers[0].volumeMounts[0].name: Not found: \"gone\""],
        ),
        (
            &[("/spec/containers/0/volumeMounts/1", json!({"name": "data", "mountPath": "/data"}))],
            &["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/data\": must be unique"],
        ),
        (&[("/spec/containers/0/volumeDevices", json!([{"name": "disk", "devicePath": "/dev/x"}]))], &[]),
        (
            &[("/spec/containers/0/volumeDevices", json!([{"name": "gone", "devicePath": "/dev/x"}]))],
            &["spec.containers[0].volumeDevices[0].name: Not found: \"gone\""],
        ),
    ]);
}

/// Whether a newer Kubernetes allows these is for the cluster to say.
#[test]
fn what_is_newer_than_this_build_is_left_to_the_cluster() {
    check(&[
        (&[("/spec/containers/0/restartPolicy", json!("Always"))], &[]),
        (&[("/spec/containers/0/imagePullPolicy", json!("IfNewer"))], &[]),
        (&[("/spec/containers/0/terminationMessagePolicy", json!("Both"))], &[]),
        (&[("/spec/initContainers/0/restartPolicy", json!("Never"))], &[]),
        (&[("/spec/containers/0/env/0/valueFrom", json!({"fileKeyRef": {"key": "A"}}))], &[]),
        (&[("/spec/tolerations", json!([{"key": "a", "operator": "Gt", "value": "1"}]))], &[]),
        (&[("/spec/volumes/-", json!({"name": "x", "quantumStore": {}}))], &[]),
    ]);
}

#[test]
fn privileged_containers_need_the_flag() {
    let mut template = template();
    template["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    assert_eq!(validate_template(&template, &rules()), []);
    let errors = validate_template(&template, &TemplateRules { allow_privileged: false, ..rules() });
    assert_eq!(
        aggregate(&errors).unwrap(),
        "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    );
}

#[test]
fn the_selector_must_match_the_labels() {
    let selector = LabelSelector {
        match_labels: Some([("app".to_owned(), "db".to_owned())].into()),
        ..Default::default()
    };
    let selector = Selector::compile(&selector).unwrap();
    let errors = validate_template(&template(), &TemplateRules { selector: Some(&selector), ..rules() });
    assert_eq!(
        aggregate(&errors).unwrap(),
        r#"spec.template.metadata.labels: Invalid value: map[string]string{"app":"web"}: `selector` does not match template `labels`"#
    );
    let everything = Selector::default();
    assert_eq!(validate_template(&template(), &TemplateRules { selector: Some(&everything), ..rules() }), []);
}

#[test]
fn each_kind_has_its_restart_policies() {
    let with = |policy: &str, rule| {
        let mut changed = template();
        changed["spec"]["restartPolicy"] = json!(policy);
        changed["spec"]["activeDeadlineSeconds"] = json!(5);
        let errors = validate_template(&changed, &TemplateRules { restart_policy: rule, ..rules() });
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        with("Never", RestartPolicy::Always { kind: "cloneset" }),
        [
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in cloneset is not Supported",
        ]
    );
    assert_eq!(
        with("Always", RestartPolicy::OnFailureOrNever),
        [
            r#"spec.template.spec.restartPolicy: Invalid value: "Always": pod restartPolicy can only be Never or OnFailure"#
        ]
    );
    assert_eq!(with("Never", RestartPolicy::OnFailureOrNever), [""; 0]);
    assert_eq!(with("Always", RestartPolicy::Any), [""; 0]);
}

#[test]
fn shallow_depth_does_not_look_into_the_spec() {
    let mut changed = template();
    let second = changed["spec"]["containers"][0].clone();
    changed["spec"]["containers"].as_array_mut().unwrap().push(second);
    let full = validate_template(&changed, &rules());
    assert_eq!(aggregate(&full).unwrap(), r#"spec.template.spec.containers[1].name: Duplicate value: "c""#);
    assert_eq!(validate_template(&changed, &TemplateRules { depth: Depth::Shallow, ..rules() }), []);
    let empty = validate_template(&json!({}), &TemplateRules { depth: Depth::Shallow, ..rules() });
    assert_eq!(empty, []);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test measures")]
fn ten_times_the_containers_take_not_much_more_than_ten_times_the_work() {
    let with_containers = |count: usize| {
        let mut changed = template();
        let container = changed["spec"]["containers"][0].clone();
        let containers = (0..count).map(|number| {
            let mut container = container.clone();
            container["name"] = json!(format!("c{}", number % (count / 2)));
            container
        });
        changed["spec"]["containers"] = containers.collect();
        changed
    };
    // CPU time of this thread: what else continues at the machine does not count.
    let spent = || -> u64 {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        statistics.split(' ').next().unwrap().parse().unwrap()
    };
    // Some kernels count it in steps of 4 ms: what is short is done ten times.
    let shortest = |template: &Value, problems: usize, rounds: usize| {
        let times = (0..3).map(|_| {
            let start = spent();
            for _ in 0..rounds {
                assert_eq!(validate_template(template, &rules()).len(), problems);
            }
            spent() - start
        });
        times.min().unwrap()
    };
    let ten_of_few = shortest(&with_containers(1_000), 500, 10);
    let many = shortest(&with_containers(10_000), 5_000, 1);
    assert!(many < ten_of_few * 6, "{ten_of_few} ns, {many} ns");
}

proptest! {
    #[test]
    fn no_json_makes_validation_panic(spec in testing::templates::arbitrary_template(), privileged: bool) {
        let template = json!({"metadata": spec, "spec": spec});
        validate_template(&template, &TemplateRules { allow_privileged: privileged, ..rules() });
        // Also without the check of types before it.
        let node = Node::new(&template["spec"], FieldPath::new("spec"));
        containers::validate_containers(&node, privileged, &mut Vec::new());
        validate_sidecars(&template["spec"], FieldPath::new("spec"), privileged);
    }

    #[test]
    fn names_of_any_text_are_judged(text in ".{0,70}") {
        for messages in [names::dns_label(&text), names::qualified_name(&text), names::label_value(&text)] {
            prop_assert!(messages.len() <= 4);
        }
        image::tag(&text);
    }
}
