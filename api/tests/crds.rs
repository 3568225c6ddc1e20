//! The CustomResourceDefinitions agree with the table in `api::crds`, keep every promise of the reference
//! schemas and ask nothing more (docs/behaviour/api-and-registration.md#kinds), explain every field, and are
//! structural.
//!
//! `reference/schemas.txt` holds the promises of the reference: one line for each printer column,
//! subresource and field path. Our YAML is written out in the same lines and compared with it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

use std::collections::BTreeSet;

use api::crds::{self, CustomResourceDefinition, Scope};
use serde_json::{Map, Value, json};

const REFERENCE: &str = include_str!("reference/schemas.txt");

/// Fields of v1beta1 that v1alpha1 lists too, because the API server converts these kinds without
/// our webhook and would prune what the schema of the requested version does not list.
const CARRIED_BY_V1ALPHA1: &[(&str, &str)] = &[
    ("advancedcronjobs.apps.kruise.io", ".spec.template.imageListPullJobTemplate"),
    ("nodeimages.apps.kruise.io", ".spec.images{}.pullSecrets[].mode"),
];

/// Where UnitedDeployments of published releases have fields of the older shape of CloneSets
/// (docs/behaviour/api-and-registration.md#conversion-of-uniteddeployment).
const FLAT_IN_V1ALPHA1: [&str; 2] = [
    ".spec.template.cloneSetTemplate.spec.scaleStrategy",
    ".spec.template.cloneSetTemplate.spec.updateStrategy",
];

/// Objects that the reference prunes to `{}` although labels and annotations in them are meant for the
/// children (docs/behaviour/api-and-registration.md#what-schemas-leave-to-webhooks): ours keep what is in
/// them.
const KEPT_WHOLE: &[&str] =
    &[".spec.template.broadcastJobTemplate.metadata", ".spec.template.imageListPullJobTemplate.metadata"];

fn parse(definition: &CustomResourceDefinition) -> Value {
    serde_saphyr::from_str(definition.yaml).unwrap_or_else(|error| panic!("{}: {error}", definition.name()))
}

/// The definitions that the reference has too.
fn all() -> Vec<Value> {
    crds::ALL.iter().map(parse).collect()
}

/// Those of Rollouts too.
fn every() -> Vec<Value> {
    crds::every().map(parse).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().expect("versions")
}

/// Calls `visit` with the path of every schema in `schema`, itself included.
fn walk<'a>(schema: &'a Value, path: &str, visit: &mut dyn FnMut(&str, &'a Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), visit);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) {
        walk(values, &format!("{path}{{}}"), visit);
    }
}

fn root(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

/// The keywords of one schema, without the schemas in it and without its description.
fn keywords(schema: &Map<String, Value>) -> String {
    let mut words: Vec<String> = schema
        .iter()
        .filter(|(keyword, value)| match keyword.as_str() {
            "description" | "properties" | "items" => false,
            "additionalProperties" => !value.is_object(),
            _ => true,
        })
        .map(|(keyword, value)| match (keyword.as_str(), value) {
            ("required", Value::Array(names)) => {
                let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                names.sort_unstable();
                format!("{keyword}={}", json!(names))
            }
            _ => format!("{keyword}={value}"),
        })
        .collect();
    words.sort();
    words.join(" ")
}

/// One definition in the lines of the reference file, each with the object and version it is about.
fn facts(crd: &Value) -> Vec<String> {
    let name = text(crd, "/metadata/name");
    let names = &crd["spec"]["names"];
    let mut facts = vec![format!(
        "{name}: kind={} list={} singular={} short={} scope={}",
        text(names, "/kind"),
        text(names, "/listKind"),
        text(names, "/singular"),
        names.get("shortNames").unwrap_or(&json!([])),
        text(crd, "/spec/scope"),
    )];
    for version in versions(crd) {
        let context = format!("{name} {}:", text(version, "/name"));
        facts.push(format!("{context} served={} storage={}", version["served"], version["storage"]));
        let columns = version.get("additionalPrinterColumns");
        for (index, column) in columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
            facts.push(format!(
                "{context} column {index} {} {} priority={} {}",
                column["name"],
                text(column, "/type"),
                column.get("priority").unwrap_or(&json!(0)),
                column["jsonPath"],
            ));
        }
        for (subresource, settings) in version["subresources"].as_object().into_iter().flatten() {
            facts.push(format!("{context} subresource {subresource} {settings}"));
        }
        walk(root(version), "", &mut |path, schema| {
            let path = if path.is_empty() { "." } else { path };
            let words = keywords(schema.as_object().expect("a schema is an object"));
            facts.push(format!("{context} {path} {words}").trim_end().to_owned());
        });
    }
    facts
}

/// The reference in the same form as [`facts`].
fn reference() -> BTreeSet<String> {
    let (mut name, mut context) = (String::new(), String::new());
    let mut facts = BTreeSet::new();
    for line in REFERENCE.lines().filter(|line| !line.starts_with('#')) {
        if let Some((crd, rest)) = line.strip_prefix("crd ").and_then(|l| l.split_once(' ')) {
            crd.clone_into(&mut name);
            facts.insert(format!("{name}: {rest}"));
        } else if let Some((version, rest)) = line.strip_prefix("version ").and_then(|l| l.split_once(' ')) {
            context = format!("{name} {version}:");
            facts.insert(format!("{context} {rest}"));
        } else {
            facts.insert(format!("{context} {line}"));
        }
    }
    facts
}

/// Whether the line is about `path` or something below it in that version.
fn is_below(fact: &str, name: &str, version: &str, path: &str) -> bool {
    fact.strip_prefix(&format!("{name} {version}: {path}"))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', '[', '{']))
}

/// The same with the bounds of a number of 32 bits, which the API server does not take from the format. What is beyond 64
/// bits is no integer to it.
fn bounded(fact: &str) -> String {
    const FORMAT: &str = "format=\"int32\"";
    let limits = [("maximum", i32::MAX), ("minimum", i32::MIN)];
    let limits = limits.into_iter().filter(|(name, _)| !fact.contains(&format!(" {name}=")));
    let limits: String = limits.map(|(name, limit)| format!(" {name}={limit}")).collect();
    fact.replace(FORMAT, &format!("{FORMAT}{limits}"))
}

/// The reference with the differences that we want.
fn promised() -> BTreeSet<String> {
    let mut promised: BTreeSet<String> = reference()
        .into_iter()
        .map(|fact| {
            let is_object =
                |version: &str, path: &str| fact.ends_with(&format!("{version}: {path} type=\"object\""));
            let fact = bounded(&fact);
            let kept = KEPT_WHOLE.iter().any(|path| is_object("", path))
                || FLAT_IN_V1ALPHA1.iter().any(|path| is_object(" v1alpha1", path));
            if kept { fact + " x-kubernetes-preserve-unknown-fields=true" } else { fact }
        })
        .collect();
    for (name, path) in CARRIED_BY_V1ALPHA1 {
        let carried: Vec<String> = promised
            .iter()
            .filter(|fact| is_below(fact, name, "v1beta1", path))
            .map(|fact| fact.replacen(" v1beta1: ", " v1alpha1: ", 1))
            .collect();
        assert!(!carried.is_empty(), "{name} has no {path} in v1beta1");
        promised.extend(carried);
    }
    promised
}

/// What differs between the definitions and what is promised: `-` is missing, `+` is too much.
fn differences(crds: &[Value]) -> Vec<String> {
    let promised = promised();
    let ours: BTreeSet<String> = crds.iter().flat_map(facts).collect();
    let missing = promised.difference(&ours).map(|fact| format!("- {fact}"));
    let added = ours.difference(&promised).map(|fact| format!("+ {fact}"));
    missing.chain(added).collect()
}

#[test]
fn definitions_keep_every_promise_of_the_reference_and_ask_nothing_more() {
    let differences = differences(&all());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Changes one place of one definition and returns what the comparison says.
fn differences_after(kind: &str, pointer: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut crds = all();
    let crd = crds.iter_mut().find(|crd| crd["spec"]["names"]["kind"] == kind).expect("kind");
    change(crd.pointer_mut(pointer).expect("pointer"));
    differences(&crds)
}

#[test]
fn comparison_sees_a_deleted_enum_a_deleted_path_and_a_new_minimum() {
    let schema = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties";
    let removed = |name: &'static str| {
        move |value: &mut Value| {
            value.as_object_mut().expect("object").remove(name).expect(name);
        }
    };

    let place = format!("{schema}/injectionStrategy/properties/revision/properties/policy");
    let no_enum = differences_after("SidecarSet", &place, removed("enum"));
    assert_eq!(no_enum.len(), 2, "{no_enum:?}");
    assert!(no_enum[0].starts_with("- sidecarsets.apps.kruise.io v1beta1: .spec.injectionStrategy"));

    let no_path = differences_after("CloneSet", schema, removed("minReadySeconds"));
    assert_eq!(
        no_path,
        ["- clonesets.apps.kruise.io v1beta1: .spec.minReadySeconds format=\"int32\" maximum=2147483647 \
             minimum=-2147483648 type=\"integer\""]
    );

    let stricter = differences_after("CloneSet", &format!("{schema}/replicas"), |replicas| {
        replicas["minimum"] = json!(0);
    });
    assert_eq!(stricter.len(), 2, "{stricter:?}");

    let unserved = differences_after("StatefulSet", "/spec/versions/0", |version| {
        version["served"] = json!(false);
    });
    assert_eq!(unserved.len(), 2, "{unserved:?}");

    let no_column = differences_after("DaemonSet", "/spec/versions/1", |version| {
        version["additionalPrinterColumns"].as_array_mut().expect("columns").pop();
    });
    assert_eq!(no_column.len(), 1, "{no_column:?}");
}

#[test]
fn table_agrees_with_the_definitions() {
    assert_eq!((crds::ALL.len(), crds::ROLLOUTS.len()), (18, 4));
    assert!(crds::ROLLOUTS.iter().all(|definition| definition.group == api::ROLLOUTS_GROUP));
    for definition in crds::every() {
        let crd = parse(definition);
        let name = definition.name();
        let scope = match definition.scope {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        };
        assert_eq!(text(&crd, "/metadata/name"), name);
        assert_eq!(text(&crd, "/spec/group"), definition.group);
        assert_eq!(text(&crd, "/spec/scope"), scope, "{name}");
        assert_eq!(text(&crd, "/spec/names/kind"), definition.kind);
        assert_eq!(text(&crd, "/spec/names/plural"), definition.plural);
        assert_eq!(text(&crd, "/spec/names/singular"), definition.singular);
        assert_eq!(strings(crd.pointer("/spec/names/shortNames")), definition.short_names);
        let served: Vec<&str> = versions(&crd)
            .iter()
            .filter(|version| version["served"] == true)
            .map(|version| text(version, "/name"))
            .collect();
        assert_eq!(served, definition.versions, "{name}");
        let stored: Vec<&str> = versions(&crd)
            .iter()
            .filter(|version| version["storage"] == true)
            .map(|version| text(version, "/name"))
            .collect();
        assert_eq!(stored, [definition.storage_version], "{name}");
        let found = crds::find(definition.group, definition.kind).expect("found");
        assert_eq!(found.name(), name);
    }
    assert!(crds::find("apps", "StatefulSet").is_none());
    assert!(crds::find("apps.kruise.io", "PodUnavailableBudget").is_none());
}

#[test]
fn kinds_with_two_shapes_convert_through_the_service() {
    let converting: Vec<&str> = crds::every()
        .filter(|definition| definition.converts_by_webhook)
        .map(|definition| definition.plural)
        .collect();
    assert_eq!(
        converting,
        [
            "clonesets",
            "containerrecreaterequests",
            "daemonsets",
            "persistentpodstates",
            "resourcedistributions",
            "sidecarsets",
            "statefulsets",
            "uniteddeployments",
            "workloadspreads",
            "podunavailablebudgets",
            "batchreleases",
            "rollouts",
        ]
    );
    let stanza = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {
                    "name": "kruise-webhook-service",
                    "namespace": "kruise-system",
                    "path": "/convert",
                    "port": 443,
                },
            },
            "conversionReviewVersions": ["v1", "v1beta1"],
        },
    });
    for definition in crds::every() {
        let crd = parse(definition);
        let expected = definition.converts_by_webhook.then_some(&stanza);
        assert_eq!(crd["spec"].get("conversion"), expected, "{}", definition.name());
    }
}

#[test]
fn definitions_carry_the_version_of_their_form_and_fit_into_an_annotation() {
    for definition in crds::every() {
        let crd = parse(definition);
        assert_eq!(
            crd["metadata"]["annotations"],
            json!({"controller-gen.kubebuilder.io/version": "v0.17.3"})
        );
        // kubectl apply keeps the whole object in an annotation, of which all together may have
        // 256 KiB.
        let size = crd.to_string().len();
        assert!(size < 200 * 1024, "{}: {size} bytes", definition.name());
    }
}

/// Whether a description says more than the name of its field.
fn explains(name: &str, description: &str) -> bool {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_ascii_lowercase()
    };
    description.split_whitespace().count() >= 3
        && description.ends_with('.')
        && letters(description) != letters(name)
        && letters(description) != format!("the{}", letters(name))
}

#[test]
fn every_field_and_column_is_explained() {
    assert!(!explains("nodeName", "The node name."));
    assert!(!explains("replicas", ""));
    let mut unexplained = Vec::new();
    for crd in &every() {
        for version in versions(crd) {
            let context = format!("{} {}", text(crd, "/metadata/name"), version["name"]);
            let mut check = |place: &str, name: &str, described: &Value| {
                if !explains(name, text(described, "/description")) {
                    unexplained.push(format!("{context} {place}"));
                }
            };
            check(".", text(crd, "/spec/names/kind"), root(version));
            walk(root(version), "", &mut |path, schema| {
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    if path.is_empty() && name == "metadata" {
                        continue; // The API server describes it itself and refuses another text.
                    }
                    check(&format!("{path}.{name}"), name, property);
                }
            });
            let columns = version.get("additionalPrinterColumns");
            for column in columns.and_then(Value::as_array).into_iter().flatten() {
                check("column", text(column, "/name"), column);
            }
        }
    }
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}

/// What keeps a schema from being structural, as the API server understands it.
fn faults(path: &str, schema: &Value) -> Vec<String> {
    let is = |keyword: &str| schema.get(keyword) == Some(&json!(true));
    let has = |keyword: &str| schema.get(keyword).is_some();
    let kind = text(schema, "/type");
    let open = is("x-kubernetes-preserve-unknown-fields");
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, what: &str| {
        if wrong {
            faults.push(format!("{path}: {what}"));
        }
    };
    fault(kind.is_empty() && !open && !is("x-kubernetes-int-or-string"), "no type");
    fault(is("x-kubernetes-int-or-string") && !kind.is_empty(), "a type beside int-or-string");
    fault((kind == "array") != has("items"), "items without array or array without items");
    fault(has("properties") && has("additionalProperties"), "properties beside additionalProperties");
    fault(
        (has("properties") || has("additionalProperties")) && kind != "object",
        "fields of something that is no object",
    );
    fault(
        kind == "object"
            && !path.ends_with(" .metadata")
            && !has("properties")
            && !has("additionalProperties")
            && !open,
        "an object whose fields would all be pruned",
    );
    for name in strings(schema.get("required")) {
        fault(schema["properties"].get(name).is_none(), "requires a field that it does not list");
    }
    let item = &schema["items"];
    let keys = strings(schema.get("x-kubernetes-list-map-keys"));
    fault(
        (text(schema, "/x-kubernetes-list-type") == "map") == keys.is_empty(),
        "a list map without keys or keys without a list map",
    );
    for key in keys {
        let required = strings(item.get("required")).contains(&key);
        let defaulted = item["properties"][key].get("default").is_some();
        fault(!required && !defaulted, "a key that may be absent");
    }
    if let Some(default) = schema.get("default") {
        let fits = match kind {
            "string" => default.is_string(),
            "boolean" => default.is_boolean(),
            "integer" => default.is_i64(),
            _ => false,
        };
        fault(!fits, "a default of another type");
        let allowed = schema.get("enum").and_then(Value::as_array);
        fault(allowed.is_some_and(|allowed| !allowed.contains(default)), "a default that is not allowed");
    }
    faults
}

#[test]
fn schemas_are_structural() {
    let mut found = Vec::new();
    for crd in &every() {
        for version in versions(crd) {
            let context = format!("{} {}", text(crd, "/metadata/name"), version["name"]);
            walk(root(version), "", &mut |path, schema| {
                found.extend(faults(&format!("{context} {path}"), schema));
            });
            let fields = &root(version)["properties"];
            assert_eq!(text(fields, "/apiVersion/type"), "string", "{context}");
            assert_eq!(text(fields, "/kind/type"), "string", "{context}");
            assert_eq!(fields["metadata"], json!({"type": "object"}), "{context}");
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn structural_check_sees_faults() {
    for (schema, count) in [
        (json!({}), 1),
        (json!({"type": "array"}), 1),
        (json!({"type": "object", "properties": {}, "required": ["a"]}), 1),
        (json!({"type": "string", "default": 1}), 1),
        (json!({"type": "string", "default": "c", "enum": ["a", "b"]}), 1),
        (
            json!({
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            }),
            1,
        ),
        (json!({"type": "integer"}), 0),
    ] {
        assert_eq!(faults("here", &schema).len(), count, "{schema}");
    }
}

/// The printer columns of a version: name and path.
fn columns(kind: &str, version: &str) -> Vec<String> {
    let crds = every();
    let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).expect("kind");
    let version = versions(crd).iter().find(|listed| listed["name"] == version).expect("version");
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array).into_iter().flatten();
    columns.map(|column| format!("{} {}", text(column, "/name"), text(column, "/jsonPath"))).collect()
}

#[test]
fn rollouts_have_the_columns_of_their_reference() {
    let age = "AGE .metadata.creationTimestamp";
    for (version, release) in [("v1alpha1", ".status.canaryStatus"), ("v1beta1", ".status")] {
        let [step, state] = [format!("{release}.currentStepIndex"), format!("{release}.currentStepState")];
        let expected = [
            "STATUS .status.phase",
            &format!("CANARY_STEP {step}"),
            &format!("CANARY_STATE {state}"),
            "MESSAGE .status.message",
            age,
        ];
        assert_eq!(columns("Rollout", version), expected);
    }
    // The reference looks for the kind where v1beta1 has none.
    for (version, workload) in
        [("v1alpha1", ".spec.targetReference.workloadRef"), ("v1beta1", ".spec.workloadRef")]
    {
        let expected = [
            &format!("KIND {workload}.kind"),
            "PHASE .status.phase",
            "BATCH .status.canaryStatus.currentBatch",
            "BATCH-STATE .status.canaryStatus.batchState",
            age,
        ];
        assert_eq!(columns("BatchRelease", version), expected);
    }
    assert_eq!(
        columns("TrafficRouting", "v1alpha1"),
        ["STATUS .status.phase", "MESSAGE .status.message", age]
    );
    assert_eq!(columns("RolloutHistory", "v1alpha1"), [""; 0]);
}

#[test]
fn every_version_of_rollouts_has_a_status_subresource() {
    for definition in crds::ROLLOUTS {
        for version in versions(&parse(definition)) {
            assert_eq!(version["subresources"], json!({"status": {}}), "{}", definition.name());
        }
    }
}
