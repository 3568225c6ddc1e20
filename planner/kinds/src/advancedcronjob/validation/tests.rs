use serde_json::json;

use super::*;
use values::json_patch::apply;

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "nginx"}], "restartPolicy": "Never"}})
}

fn with_template(template: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "report", "namespace": "shop"},
        "spec": {"schedule": "*/1 * * * *", "template": template}})
}

fn with_job() -> Value {
    with_template(&json!({"jobTemplate": {"spec": {"template": pod(), "parallelism": 1}}}))
}

fn with_images() -> Value {
    let spec = json!({"images": ["nginx:1"], "completionPolicy": {"type": "Always"}});
    with_template(&json!({"imageListPullJobTemplate": {"spec": spec}}))
}

fn set(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
    object
}

fn reviewed(new: &Value, old: Option<&Value>, gates: &str) -> Verdict {
    let gates = FeatureGates::parse(gates, "").unwrap();
    let context = Context { gates: &gates, allow_privileged: true };
    review(&new.to_string(), old.map(Value::to_string).as_deref(), &context)
}

fn message(new: &Value, old: Option<&Value>) -> String {
    match reviewed(new, old, "") {
        Verdict::Allow { .. } => "allowed".to_owned(),
        verdict => format!("{}: {}", verdict.denial().unwrap().code, verdict.denial().unwrap().message),
    }
}

#[test]
fn each_fault_has_its_message() {
    const TEMPLATES: &str =
        "either JobTemplate or BroadcastJobTemplate or ImageListPullJobTemplate should be provided";
    let long = "a".repeat(64);
    for (object, expected) in [
        (with_job(), "allowed"),
        (with_images(), "allowed"),
        (set(with_job(), "/apiVersion", json!("apps.kruise.io/v1alpha1")), "allowed"),
        (
            set(with_job(), "/metadata/name", json!("a.b")),
            "AdvancedCronJob name must consist of alphanumeric characters or '-' (e.g. 'example-com', regex used for validation is '^[a-zA-Z0-9\\-]+$')",
        ),
        (set(with_job(), "/metadata/name", json!(long)), "must be no more than 63 characters"),
        (
            set(with_job(), "/spec/schedule", json!("")),
            "schedule cannot be empty, please provide valid cron schedule.",
        ),
        (set(with_job(), "/spec/schedule", json!("")), "empty spec string"),
        (
            set(with_job(), "/spec/schedule", json!("invalid-cron")),
            "spec.schedule: Invalid value: \"invalid-cron\": expected exactly 5 fields, found 1",
        ),
        (set(with_job(), "/spec/schedule", json!("* * * * 7")), "end of range (7) above maximum (6)"),
        (set(with_job(), "/spec/schedule", json!("TZ=UTC")), "invalid cron schedule"),
        (
            set(with_job(), "/spec/timeZone", json!("")),
            "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
        ),
        (
            set(with_job(), "/spec/timeZone", json!("LOCAL")),
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ),
        (set(with_job(), "/spec/timeZone", json!("Mars/Phobos")), "unknown time zone Mars/Phobos"),
        (set(with_job(), "/spec/timeZone", json!("../x")), "time: invalid location name"),
        (
            set(set(with_job(), "/spec/timeZone", json!("UTC")), "/spec/schedule", json!("TZ=UTC * * * * *")),
            "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        ),
        (
            set(with_job(), "/spec/startingDeadlineSeconds", json!(-1)),
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (set(with_job(), "/spec/successfulJobsHistoryLimit", json!(-1)), "spec.successfulJobsHistoryLimit"),
        (set(with_job(), "/spec/failedJobsHistoryLimit", json!(-1)), "spec.failedJobsHistoryLimit"),
        (
            with_template(&json!({})),
            &format!("spec.template: Forbidden: spec must have one template, {TEMPLATES}"),
        ),
        (
            with_template(
                &json!({"jobTemplate": {"spec": {"template": pod()}}, "broadcastJobTemplate": {"spec": {"template": pod()}}}),
            ),
            &format!("spec.template: Forbidden: spec can have only one template, {TEMPLATES}"),
        ),
        (
            set(with_job(), "/spec/template/jobTemplate/spec/template/spec/restartPolicy", json!("Always")),
            "spec.template.jobTemplate.spec.template.spec.restartPolicy: Invalid value: \"Always\": pod restartPolicy can only be Never or OnFailure",
        ),
        (
            set(with_job(), "/spec/template/jobTemplate/spec/template/spec/containers", json!([])),
            "spec.template.jobTemplate.spec.template.spec.containers: Required value",
        ),
        (with_template(&json!({"jobTemplate": {}})), "spec.containers: Required value"),
        (
            set(with_images(), "/spec/concurrencyPolicy", json!("Allow")),
            "concurrencyPolicy should be Replace or Forbid, but current value is: Allow",
        ),
    ] {
        let found = message(&object, None);
        assert!(found.contains(expected), "{object}: {found}");
        assert!(found == "allowed" || found.starts_with("422: "), "{found}");
    }
}

#[test]
fn what_is_no_cron_job_has_code_400() {
    for object in [
        json!([]),
        set(with_job(), "/apiVersion", json!("apps.kruise.io/v2")),
        set(with_job(), "/spec/schedule", json!(5)),
        with_template(&json!({"jobTemplate": "x"})),
        with_template(&json!({"jobTemplate": {"metadata": {"labels": {"a": 1}}}})),
    ] {
        assert!(message(&object, None).starts_with("400: "), "{object}");
    }
}

#[test]
fn templates_are_read_with_the_types_of_their_kinds() {
    let beyond = json!(2_147_483_648_u64);
    let broadcast = |spec: Value| json!({"broadcastJobTemplate": {"metadata": {}, "spec": spec}});
    for (template, expected) in [
        (json!({"jobTemplate": "x"}), "jobTemplate: Invalid value: \"x\": must be an object"),
        (
            json!({"jobTemplate": {"spec": {"backoffLimit": beyond, "template": pod()}}}),
            "jobTemplate.spec.backoffLimit: Invalid value: 2147483648: must be an integer of 32 bits",
        ),
        (
            broadcast(json!({"template": pod(), "failurePolicy": {"restartLimit": beyond}})),
            "broadcastJobTemplate.spec.failurePolicy.restartLimit: Invalid value: 2147483648: must be an integer of 32 bits",
        ),
        (
            json!({"broadcastJobTemplate": {"metadata": {"labels": []}, "spec": {"template": pod()}}}),
            "broadcastJobTemplate.metadata.labels: Invalid value: []: must be an object",
        ),
        (
            json!({"imageListPullJobTemplate": {"spec": {"images": [7]}}}),
            "imageListPullJobTemplate.spec.images[0]: Invalid value: 7: must be a string",
        ),
    ] {
        assert_eq!(message(&with_template(&template), None), format!("400: spec.template.{expected}"));
    }
    let stored =
        with_template(&json!({"jobTemplate": {"spec": {"backoffLimit": beyond, "template": pod()}}}));
    let mut paused = stored.clone();
    paused["spec"]["paused"] = json!(true);
    assert_eq!(message(&paused, Some(&stored)), "allowed", "a stored template hinders no other change");
}

#[test]
fn lists_of_images_have_the_rules_of_their_kind_and_more() {
    const SPEC: &str = "/spec/template/imageListPullJobTemplate/spec";
    let expect = |name: &str, value: Value, field: &str, expected: &str| {
        let object = set(with_images(), &format!("{SPEC}/{name}"), value);
        let found = message(&object, None);
        let path = format!("spec.template.imageListPullJobTemplate.spec.{field}: Invalid value: ");
        assert!(found.starts_with(&format!("422: {path}")) && found.contains(expected), "{name}: {found}");
    };
    let labels = json!({"matchLabels": {"a": "b"}});
    expect(
        "selector",
        json!({"names": ["a"], "matchLabels": {"a": "b"}}),
        "selector",
        "can not set both names and labelSelector in this spec.selector",
    );
    expect("selector", json!({"names": ["a", "a"]}), "selector", "duplicated name in selector names");
    expect("selector", json!({"matchLabels": {"a b": "c"}}), "selector", "invalid selector: ");
    expect("podSelector", json!({"matchLabels": {"a b": "c"}}), "podSelector", "invalid selector: ");
    let both = set(with_images(), &format!("{SPEC}/selector"), labels.clone());
    assert!(
        message(&set(both, &format!("{SPEC}/podSelector"), labels), None)
            .contains("can not set both selector and podSelector")
    );
    expect("images", json!([]), "images", "image can not be empty");
    expect("images", json!(["a", "a"]), "images", "images cannot have duplicate values");
    expect("images", json!(["A"]), "images", "invalid image A: ");
    let policy = "completionPolicy";
    expect(
        policy,
        json!({"type": "Never"}),
        "completionPolicy.type",
        "completionPolicy should be Always, but current value is: Never",
    );
    let deadline = "completionPolicy.activeDeadlineSeconds";
    expect(
        policy,
        json!({"activeDeadlineSeconds": 86401}),
        deadline,
        "activeDeadlineSeconds must be less than 86400, current value is: 86401",
    );
    expect(
        policy,
        json!({"activeDeadlineSeconds": 599}),
        deadline,
        "completionPolicy.activeDeadlineSeconds must be greater than pullPolicy.timeoutSeconds(600)",
    );
    expect(
        policy,
        json!({"ttlSecondsAfterFinished": 0}),
        "completionPolicy.ttlSecondsAfterFinished",
        "ttlSecondsAfterFinished is not supported in advancedCronJob",
    );
    let equal = set(with_images(), &format!("{SPEC}/{policy}"), json!({"activeDeadlineSeconds": 600}));
    assert_eq!(message(&equal, None), "allowed");
}

#[test]
fn only_some_fields_may_change() {
    const FORBIDDEN: &str = "422: spec: Forbidden: updates to advancedcronjob spec for fields other than";
    let stored = {
        let text = with_job().to_string();
        let patch = crate::advancedcronjob::defaulting::default(&text, None, &FeatureGates::default());
        serde_json::from_str::<Value>(&apply(&text, &patch.unwrap()).unwrap()).unwrap()
    };
    for (pointer, value) in [
        ("/spec/schedule", json!("@daily")),
        ("/spec/concurrencyPolicy", json!("Forbid")),
        ("/spec/successfulJobsHistoryLimit", json!(9)),
        ("/spec/failedJobsHistoryLimit", json!(9)),
        ("/spec/startingDeadlineSeconds", json!(9)),
        ("/spec/timeZone", json!("UTC")),
        ("/spec/paused", json!(true)),
        // What says nothing is no change.
        ("/spec/template/jobTemplate/metadata", json!({"creationTimestamp": null})),
    ] {
        assert_eq!(message(&set(stored.clone(), pointer, value), Some(&stored)), "allowed", "{pointer}");
    }
    // Go clients leave out what is zero.
    let mut job = stored.clone();
    let job_spec = job["spec"]["template"]["jobTemplate"].take();
    job["spec"]["template"] = json!({"broadcastJobTemplate": job_spec});
    let mut sparse = job.clone();
    job["spec"]["template"]["broadcastJobTemplate"]["spec"]["paused"] = false.into();
    job["spec"]["template"]["broadcastJobTemplate"]["spec"]["failurePolicy"] = json!({"restartLimit": 0});
    sparse["spec"]["schedule"] = "@daily".into();
    assert_eq!(message(&sparse, Some(&job)), "allowed");
    // Nor are defaults that are left out.
    assert_eq!(message(&with_job(), Some(&stored)), "allowed");
    for (pointer, value) in [
        ("/spec/template/jobTemplate/spec/parallelism", json!(2)),
        ("/spec/template/jobTemplate/spec/template/spec/containers/0/image", json!("b")),
        ("/spec/template/jobTemplate/metadata", json!({"labels": {"a": "b"}})),
    ] {
        let found = message(&set(stored.clone(), pointer, value), Some(&stored));
        assert!(found.starts_with(FORBIDDEN), "{pointer}: {found}");
    }
    let images = set(with_images(), "/spec/template/imageListPullJobTemplate/spec/images", json!(["b"]));
    assert_eq!(message(&images, Some(&with_images())), "allowed");
    assert!(message(&with_job(), Some(&with_images())).starts_with(FORBIDDEN));
    assert!(message(&with_images(), Some(&with_job())).starts_with(FORBIDDEN));
}

#[test]
fn templates_are_checked_with_their_defaults_whatever_the_gate_says() {
    let verdict = reviewed(&with_job(), None, "TemplateNoDefaults=true");
    assert!(verdict.is_allowed(), "{verdict:?}");
}

#[test]
fn what_was_stored_with_a_fault_can_still_be_changed() {
    let stored =
        set(with_job(), "/spec/template/jobTemplate/spec/template/spec/restartPolicy", json!("Always"));
    let paused = set(stored.clone(), "/spec/paused", json!(true));
    assert_eq!(message(&paused, Some(&stored)), "allowed");
}

#[test]
fn its_author_is_warned_of_what_will_not_work() {
    let warnings = |new: &Value, old: Option<&Value>| match reviewed(new, old, "") {
        Verdict::Allow { warnings, .. } => warnings,
        verdict => panic!("{verdict:?}"),
    };
    assert_eq!(warnings(&with_job(), None), Vec::<String>::new());
    let long = set(with_job(), "/metadata/name", json!("a".repeat(53)));
    assert!(warnings(&long, None)[0].contains("more than 52 characters"));
    assert!(warnings(&long, Some(&long)).is_empty());
    let fits = set(with_job(), "/metadata/name", json!("a".repeat(52)));
    assert!(warnings(&fits, None).is_empty());
    let never = set(with_job(), "/spec/schedule", json!("0 0 30 2 *"));
    assert_eq!(warnings(&never, None), ["spec.schedule: \"0 0 30 2 *\" never comes due"]);
    assert!(warnings(&set(with_job(), "/spec/schedule", json!("0 0 29 2 *")), None).is_empty());
    let template =
        json!({"broadcastJobTemplate": {"spec": {"template": pod(), "completionPolicy": {"type": "Never"}}}});
    let endless = set(with_template(&template), "/spec/concurrencyPolicy", json!("Forbid"));
    assert!(warnings(&endless, None)[0].contains("it never ends"));
}

#[test]
fn the_pod_template_is_tried_when_it_changes() {
    let (stored, images) = (with_job().to_string(), with_images().to_string());
    let tried = trials(&stored, None);
    assert_eq!((tried.code, tried.list.len()), (422, 1));
    let warning = tried.list[0].not_judged("slow").warnings.concat();
    assert!(warning.starts_with("spec.template.jobTemplate.spec.template is not judged"), "{warning}");
    let later = set(with_job(), "/spec/schedule", json!("0 0 * * *")).to_string();
    assert!(trials(&later, Some(&stored)).list.is_empty() && trials(&images, None).list.is_empty());
}
