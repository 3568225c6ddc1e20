//! The types of every kind agree with its schema in the stored version: objects made from the schema come
//! through the types unchanged, whether every field is set, only the required ones, or those with zeros.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Debug;

use api::crds::{self, CustomResourceDefinition};
use api::{kinds, sidecarset};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// What a type makes of a text: the text that it writes, and its `Debug` form.
type Reader = fn(&str) -> Result<(Value, String), String>;

fn read<T: DeserializeOwned + Serialize + Debug>(text: &str) -> Result<(Value, String), String> {
    let typed: T = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let written = serde_json::to_string(&typed).expect("written");
    Ok((serde_json::from_str(&written).expect("JSON"), format!("{typed:?}")))
}

fn default_of<T: Default + Serialize>() -> Value {
    serde_json::from_str(&serde_json::to_string(&T::default()).expect("written")).expect("JSON")
}

struct Kind {
    kind: &'static str,
    plural: &'static str,
    api_version: &'static str,
    spec: Reader,
    status: Reader,
    default_status: fn() -> Value,
}

macro_rules! kinds {
    ($($($segment:ident)::+),+ $(,)?) => {
        [$(Kind {
            kind: $($segment)::+::KIND,
            plural: $($segment)::+::PLURAL,
            api_version: $($segment)::+::API_VERSION,
            spec: read::<$($segment)::+::Spec>,
            status: read::<$($segment)::+::Status>,
            default_status: default_of::<$($segment)::+::Status>,
        }),+]
    };
}

const KINDS: [Kind; 22] = kinds![
    kinds::advancedcronjob,
    kinds::batchrelease,
    kinds::broadcastjob,
    kinds::cloneset,
    kinds::containerrecreaterequest,
    kinds::daemonset,
    kinds::ephemeraljob,
    kinds::imagelistpulljob,
    kinds::imagepulljob,
    kinds::nodeimage,
    kinds::nodepodprobe,
    kinds::persistentpodstate,
    kinds::podprobemarker,
    kinds::podunavailablebudget,
    kinds::resourcedistribution,
    kinds::rollout,
    kinds::rollouthistory,
    kinds::statefulset,
    kinds::trafficrouting,
    kinds::uniteddeployment,
    kinds::workloadspread,
    sidecarset,
];

impl Kind {
    fn definition(&self) -> &'static CustomResourceDefinition {
        let (group, _) = self.api_version.split_once('/').expect("group");
        crds::find(group, self.kind).expect("definition")
    }

    /// The schema of `spec` or `status` in the stored version.
    fn schema(&self, part: &str) -> Value {
        let definition = self.definition();
        let crd: Value = serde_saphyr::from_str(definition.yaml).expect("YAML");
        let versions = crd["spec"]["versions"].as_array().expect("versions");
        let stored = versions.iter().find(|version| version["name"] == definition.storage_version);
        stored.expect("stored version")["schema"]["openAPIV3Schema"]["properties"][part].clone()
    }

    fn parts(&self) -> [(&'static str, Reader, Value); 2] {
        [("spec", self.spec, self.schema("spec")), ("status", self.status, self.schema("status"))]
    }

    /// SidecarSet's older types write some empty objects that were absent.
    fn writes_empty_objects(&self) -> bool {
        self.kind == sidecarset::KIND
    }
}

/// Which object to make from a schema.
#[derive(Clone, Copy)]
struct Shape {
    /// Optional numbers, flags and texts are set.
    optional_values: bool,
    /// Optional objects, lists and maps are set.
    optional_objects: bool,
    /// Values are zeros and empty lists.
    zero: bool,
    /// Which of the possible values is taken, of words and of numbers or texts.
    choice: usize,
    /// A word to take in place of those that the schema lists.
    word: Option<&'static str>,
}

const FULL: Shape =
    Shape { optional_values: true, optional_objects: true, zero: false, choice: 0, word: None };
const SPARSE: Shape = Shape { optional_values: false, ..FULL };
const MINIMAL: Shape = Shape { optional_objects: false, ..SPARSE };

fn keyword<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn required(schema: &Value) -> BTreeSet<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_open(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true))
}

/// The words of an enum but the empty one, which the types read as its default.
fn words(schema: &Value) -> Vec<&Value> {
    schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter(|word| *word != "").collect()
}

fn text(path: &str, schema: &Value, shape: Shape) -> Value {
    let words = words(schema);
    match shape {
        Shape { zero: true, .. } => json!(""),
        Shape { word: Some(word), .. } if !words.is_empty() => json!(word),
        _ if !words.is_empty() => words[shape.choice % words.len()].clone(),
        _ if keyword(schema, "format") == "date-time" => json!("2026-01-02T03:04:05Z"),
        _ => json!(path),
    }
}

/// A value that fits `schema`. Texts are their own path, so that each differs from the others.
fn value(path: &str, schema: &Value, shape: Shape) -> Value {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return [json!(3), json!("30%")][shape.choice % 2].clone();
    }
    match keyword(schema, "type") {
        "integer" => json!(if shape.zero { 0 } else { 7 }),
        "boolean" => json!(!shape.zero),
        "string" => text(path, schema, shape),
        "array" if shape.zero && !shape.optional_objects => json!([]),
        "array" => json!([value(&format!("{path}[]"), &schema["items"], shape)]),
        "object" if schema.get("additionalProperties").is_some() => {
            json!({"key": value(&format!("{path}{{}}"), &schema["additionalProperties"], shape)})
        }
        _ if schema.get("properties").is_some() => object(path, schema, shape),
        // The schema leaves open that these are lists.
        _ if path == "spec.volumes" => json!([{"name": "v", "future": [1.5, null]}]),
        _ => json!({"future": [1.5, null]}),
    }
}

fn object(path: &str, schema: &Value, shape: Shape) -> Value {
    let required = required(schema);
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().expect("properties") {
        let is_object = matches!(keyword(property, "type"), "object" | "array");
        let wanted = if is_object { shape.optional_objects } else { shape.optional_values };
        if wanted || required.contains(name.as_str()) {
            fields.insert(name.clone(), value(&format!("{path}.{name}"), property, shape));
        }
    }
    if is_open(schema) {
        fields.insert("future".to_owned(), json!([1.5, null]));
    }
    Value::Object(fields)
}

/// The value without fields that are empty objects; elements of lists stay.
fn without_empty_objects(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), without_empty_objects(field)));
            Value::Object(fields.filter(|(_, field)| *field != json!({})).collect())
        }
        Value::Array(items) => items.iter().map(without_empty_objects).collect(),
        other => other.clone(),
    }
}

/// Sets what is absent to the default in the schema, as the API server does.
fn fill_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                if let Some(default) = property.get("default") {
                    fields.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_defaults(field, property);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_defaults(item, schema.get("items").unwrap_or(&Value::Null));
            }
        }
        _ => {}
    }
}

/// What a type does not carry: `-` was lost, `+` was added.
fn differences(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let missing = old.keys().filter(|name| !new.contains_key(*name));
            found.extend(missing.map(|name| format!("- {path}.{name}")));
            let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
            found.extend(added.map(|(name, value)| format!("+ {path}.{name}: {value}")));
            for (name, value) in old {
                if let Some(other) = new.get(name) {
                    differences(&format!("{path}.{name}"), value, other, found);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (value, other) in old.iter().zip(new) {
                differences(&format!("{path}[]"), value, other, found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("- {path}: {before}\n+ {path}: {after}")),
    }
}

/// What goes wrong when the object of that shape is read and written again.
fn faults(
    reader: Reader,
    part: &str,
    schema: &Value,
    shape: Shape,
    empty_objects_count: bool,
) -> Vec<String> {
    let before = value(part, schema, shape);
    let after = match reader(&before.to_string()) {
        Ok((after, _)) => after,
        Err(error) => return vec![format!("{part}: {error}")],
    };
    let [mut before, mut after] =
        if empty_objects_count { [before, after] } else { [&before, &after].map(without_empty_objects) };
    fill_defaults(&mut before, schema);
    fill_defaults(&mut after, schema);
    let mut found = Vec::new();
    differences(part, &before, &after, &mut found);
    found
}

/// Proves for every kind that objects of that shape come through unchanged.
fn come_through(shape: Shape, empty_objects_count: bool) {
    let mut found = Vec::new();
    for kind in &KINDS {
        let exact = empty_objects_count && !kind.writes_empty_objects();
        for (part, reader, schema) in kind.parts() {
            let faults = faults(reader, part, &schema, shape, exact);
            found.extend(faults.into_iter().map(|fault| format!("{}: {fault}", kind.kind)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_kind_has_types_that_bear_its_names() {
    let typed: BTreeSet<&str> = KINDS.iter().map(|kind| kind.kind).collect();
    let defined: BTreeSet<&str> = crds::every().map(|definition| definition.kind).collect();
    assert_eq!(typed, defined);
    for kind in &KINDS {
        let definition = kind.definition();
        assert_eq!(kind.plural, definition.plural);
        assert_eq!(kind.api_version, format!("{}/{}", definition.group, definition.storage_version));
    }
}

#[test]
fn objects_with_every_field_come_through_unchanged() {
    come_through(FULL, true);
    come_through(Shape { choice: 1, ..FULL }, true);
}

#[test]
fn objects_with_only_required_fields_come_through_unchanged() {
    come_through(MINIMAL, true);
    come_through(SPARSE, false);
}

#[test]
fn required_fields_are_written_when_they_are_zero() {
    come_through(Shape { zero: true, ..MINIMAL }, true);
    come_through(Shape { zero: true, ..SPARSE }, false);
}

#[test]
fn a_new_status_writes_what_is_required_and_nothing_else() {
    for kind in &KINDS {
        let written = (kind.default_status)();
        let names: BTreeSet<&str> = written.as_object().expect("object").keys().map(String::as_str).collect();
        assert_eq!(names, required(&kind.schema("status")), "{}", kind.kind);
    }
}

#[test]
fn null_reads_as_absent() {
    for kind in &KINDS {
        for (part, reader, schema) in kind.parts() {
            let names = schema["properties"].as_object().expect("properties").keys();
            let nulls: Map<String, Value> = names.map(|name| (name.clone(), Value::Null)).collect();
            let read = reader(&Value::Object(nulls).to_string());
            assert_eq!(read, reader("{}"), "{} {part}", kind.kind);
        }
    }
}

#[test]
fn words_of_the_schema_are_known_and_others_are_kept() {
    for choice in 0..5 {
        for kind in &KINDS {
            for (part, reader, schema) in kind.parts() {
                let before = value(part, &schema, Shape { choice, ..FULL });
                let (after, debug) = reader(&before.to_string()).expect("read");
                assert_eq!(after, before, "{} {part}", kind.kind);
                let unknown = words_below(&schema, choice)
                    .into_iter()
                    .find(|word| debug.contains(&format!("Other(\"{word}\")")));
                assert_eq!(unknown, None, "{} {part}", kind.kind);
            }
        }
    }
    come_through(Shape { word: Some("NotYetKnown"), ..FULL }, true);
}

/// The words that [`FULL`] with this choice takes anywhere in the schema.
fn words_below(schema: &Value, choice: usize) -> Vec<String> {
    let mut found = Vec::new();
    let words = words(schema);
    found.extend(words.get(choice % words.len().max(1)).and_then(|word| word.as_str()).map(str::to_owned));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for below in properties
        .map(|(_, below)| below)
        .chain(schema.get("items"))
        .chain(schema.get("additionalProperties"))
    {
        found.extend(words_below(below, choice));
    }
    found
}

#[test]
fn specs_that_are_carried_as_text_fit_their_types() {
    type Place = (&'static str, &'static str, Reader);
    let places: [Place; 4] = [
        ("AdvancedCronJob", "broadcastJobTemplate", read::<kinds::broadcastjob::Spec>),
        ("AdvancedCronJob", "imageListPullJobTemplate", read::<kinds::imagelistpulljob::Spec>),
        ("UnitedDeployment", "cloneSetTemplate", read::<kinds::cloneset::Spec>),
        ("UnitedDeployment", "advancedStatefulSetTemplate", read::<kinds::statefulset::Spec>),
    ];
    for (name, template, reader) in places {
        let kind = KINDS.iter().find(|kind| kind.kind == name).expect("kind");
        let schema =
            &kind.schema("spec")["properties"]["template"]["properties"][template]["properties"]["spec"];
        for shape in [FULL, MINIMAL] {
            let found = faults(reader, "spec", schema, shape, true);
            assert!(found.is_empty(), "{template}: {}", found.join("\n"));
        }
    }
}

/// The types read a container beside its text, so that coming through unchanged proves nothing: here the
/// texts that the schema names are looked for among the fields that were read.
#[test]
fn sidecar_containers_read_every_field_that_the_schema_names() {
    let schema = KINDS.iter().find(|kind| kind.kind == sidecarset::KIND).expect("kind").schema("spec");
    let container = value("", &schema["properties"]["containers"]["items"], FULL);
    let fields: sidecarset::SidecarContainerFields = serde_json::from_value(container.clone()).expect("read");
    let debug = format!("{fields:?}");
    let texts = texts(&container);
    assert!(texts.len() > 10, "{texts:?}");
    for text in texts {
        assert!(debug.contains(&text), "{text} is not in {debug}");
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![format!("{text:?}")],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn comparison_sees_missing_and_misnamed_fields_and_other_types() {
    let kind = KINDS.iter().find(|kind| kind.kind == "CloneSet").expect("kind");
    let faults_after = |pointer: &str, name: &str, property: Value| {
        let mut schema = kind.schema("spec");
        schema.pointer_mut(pointer).expect(pointer)[name] = property;
        faults(kind.spec, "spec", &schema, FULL, true)
    };
    let strategy = "/properties/updateStrategy/properties/rollingUpdate/properties";
    assert_eq!(
        faults_after(strategy, "minUpdated", json!({"type": "integer"})),
        ["- spec.updateStrategy.rollingUpdate.minUpdated"]
    );
    assert_eq!(faults_after(strategy, "paused", json!({"type": "string"})).len(), 1);
    assert_eq!(faults_after("/properties", "replicas", json!({"type": "boolean"})).len(), 1);
    assert_eq!(faults_after("/properties", "template", json!({"type": "integer"})), [""; 0]);

    let mut status = kind.schema("status");
    status["required"] = json!(["replicas"]);
    let added = faults(kind.status, "status", &status, MINIMAL, true);
    assert_eq!(added.len(), 4, "{added:?}");
}
