//! A ResourceDistribution from files and literals, as Kustomize makes ConfigMaps and Secrets
//! (docs/behaviour/kubectl-kruise.md#the-generator-of-resourcedistributions).
//!
//! YAML has numbers and truth values where no quotes are: a field that holds text takes them as their text, and one that
//! holds a list or a map takes nothing else.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::containers::environment::check_name;

/// Length of the lines of binary data.
const LINE: usize = 70;

/// Where contents come from.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Reads a file below the working directory.
    pub read: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// The value of a variable of the process.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Appends the ResourceDistribution of `functionConfig` to the items of a ResourceList.
///
/// # Errors
/// What to say to the user.
pub fn generate(list: &mut Value, surroundings: Surroundings<'_>) -> Result<(), String> {
    let config = list.get("functionConfig").ok_or("the ResourceList has no functionConfig")?;
    let made = distribution(config, surroundings)?;
    let members = list.as_object_mut().ok_or("the input is no ResourceList")?;
    let items = members.entry("items").or_insert(Value::Null);
    if items.is_null() {
        *items = json!([]);
    }
    items.as_array_mut().ok_or("items is no list")?.push(made);
    Ok(())
}

/// A field that is there.
fn member<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|value| !value.is_null())
}

/// A field as people write it: `targets.includedNamespaces`.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The text of a scalar.
fn scalar(value: &Value, pointer: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(format!("{} must be text", dotted(pointer))),
    }
}

/// A text, which is empty where none is given.
fn text(value: &Value, pointer: &str) -> Result<String, String> {
    member(value, pointer).map_or_else(|| Ok(String::new()), |text| scalar(text, pointer))
}

fn flag(value: &Value, pointer: &str) -> Result<bool, String> {
    let flag = member(value, pointer).map_or(Some(false), Value::as_bool);
    flag.ok_or_else(|| format!("{} must be true or false", dotted(pointer)))
}

fn list<'a>(value: &'a Value, pointer: &str) -> Result<&'a [Value], String> {
    let all = member(value, pointer).map_or(Some(&[][..]), |list| list.as_array().map(Vec::as_slice));
    all.ok_or_else(|| format!("{} must be a list", dotted(pointer)))
}

fn texts(value: &Value, pointer: &str) -> Result<Vec<String>, String> {
    list(value, pointer)?.iter().map(|text| scalar(text, pointer)).collect()
}

/// The members of a map, in the order of their keys.
fn members(value: &Value, pointer: &str) -> Result<BTreeMap<String, Value>, String> {
    let Some(map) = member(value, pointer) else { return Ok(BTreeMap::new()) };
    let map = map.as_object().ok_or_else(|| format!("{} must be a map", dotted(pointer)))?;
    let members = map.iter().map(|(key, value)| Ok((key.clone(), scalar(value, pointer)?.into())));
    members.collect()
}

/// The object of a configuration.
fn distribution(config: &Value, surroundings: Surroundings<'_>) -> Result<Value, String> {
    let name = text(config, "/metadata/name")?;
    if name.is_empty() {
        return Err("a ResourceDistribution must have a name".to_owned());
    }
    let metadata = metadata(config, &name, "/options")?;
    Ok(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "metadata": metadata,
        "spec": {"resource": resource(config, surroundings)?, "targets": targets(config)?}}))
}

/// The metadata of an object with the labels and annotations of its options.
fn metadata(config: &Value, name: &str, options: &str) -> Result<Value, String> {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if member(config, options).is_some_and(|options| !options.is_object()) {
        return Err(format!("{} must be a map", dotted(options)));
    }
    for field in ["labels", "annotations"] {
        let members = members(config, &format!("{options}/{field}"))?;
        if !members.is_empty() {
            metadata.insert(field.to_owned(), json!(members));
        }
    }
    Ok(metadata.into())
}

fn resource(config: &Value, surroundings: Surroundings<'_>) -> Result<Value, String> {
    let kind = text(config, "/resource/resourceKind")?;
    if !matches!(kind.as_str(), "ConfigMap" | "Secret") {
        return Err("resourceKind must be ConfigMap or Secret".to_owned());
    }
    let name = text(config, "/resource/resourceName")?;
    if name.is_empty() {
        return Err("resourceName must be given".to_owned());
    }
    let is_secret = kind == "Secret";
    let mut made = Map::new();
    made.insert("apiVersion".to_owned(), "v1".into());
    made.insert("kind".to_owned(), kind.into());
    made.insert("metadata".to_owned(), metadata(config, &name, "/resource/resourceOptions")?);
    let (data, binary) = entries(contents(config, surroundings)?, is_secret)?;
    for (field, entries) in [("data", data), ("binaryData", binary)] {
        if !entries.is_empty() {
            made.insert(field.to_owned(), json!(entries));
        }
    }
    if is_secret {
        let kind = Some(text(config, "/resource/type")?).filter(|kind| !kind.is_empty());
        made.insert("type".to_owned(), kind.unwrap_or_else(|| "Opaque".to_owned()).into());
    }
    if flag(config, "/resource/resourceOptions/immutable")? {
        made.insert("immutable".to_owned(), true.into());
    }
    Ok(made.into())
}

/// Keys with their values, in order.
type Entries = BTreeMap<String, String>;

/// What becomes `data`, and what becomes `binaryData`.
fn entries(contents: Vec<(String, Vec<u8>)>, is_secret: bool) -> Result<(Entries, Entries), String> {
    let (mut data, mut binary) = (Entries::new(), Entries::new());
    for (key, content) in contents {
        if !is_key(&key) {
            return Err(format!("{key:?} is not a valid key name"));
        }
        if data.contains_key(&key) || binary.contains_key(&key) {
            return Err(format!("cannot add key {key}, another key by that name already exists"));
        }
        if is_secret {
            data.insert(key, in_lines(&content));
            continue;
        }
        match String::from_utf8(content) {
            Ok(content) => data.insert(key, content),
            Err(error) => binary.insert(key, in_lines(error.as_bytes())),
        };
    }
    Ok((data, binary))
}

fn is_key(key: &str) -> bool {
    let is_meant = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !key.is_empty() && key.len() <= 253 && key.bytes().all(is_meant)
}

/// In base64, as Kustomize writes it: what is longer than a line is broken into lines, each with a line break at its end.
fn in_lines(content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    if encoded.len() < LINE {
        return encoded;
    }
    let lines = encoded.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Keys with their contents, from literals, files and files of variables.
fn contents(config: &Value, surroundings: Surroundings<'_>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut all = Vec::new();
    let env = Some(text(config, "/resource/env")?).filter(|path| !path.is_empty());
    for path in texts(config, "/resource/envs")?.into_iter().chain(env) {
        all.extend(variables(&path, surroundings)?);
    }
    for source in texts(config, "/resource/files")? {
        let (key, path) = file_source(&source)?;
        all.push((key.to_owned(), (surroundings.read)(path)?));
    }
    for literal in texts(config, "/resource/literals")? {
        let (key, value) = literal
            .split_once('=')
            .ok_or_else(|| format!("literal values must be KEY=VALUE, not {literal:?}"))?;
        let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        all.push((key.to_owned(), quoted.unwrap_or(value).as_bytes().to_vec()));
    }
    Ok(all)
}

/// The variables of a file with a line for each. A line without a value means the variable of the process.
fn variables(path: &str, surroundings: Surroundings<'_>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let content =
        String::from_utf8((surroundings.read)(path)?).map_err(|_| format!("{path} is not UTF-8"))?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let lines = content.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let variables = lines.map(|line| {
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key, value.to_owned()),
            None => (line, (surroundings.variable)(line).unwrap_or_default()),
        };
        check_name(key).map_err(|error| format!("{path}: {error}"))?;
        Ok((key.to_owned(), value.into_bytes()))
    });
    variables.collect()
}

/// Reads `KEY=PATH`, or a path whose last part is the key.
fn file_source(source: &str) -> Result<(&str, &str), String> {
    match source.split_once('=') {
        None => Ok((source.rsplit('/').next().unwrap_or(source), source)),
        Some((_, path)) if path.contains('=') => {
            Err(format!("source {source:?} key name or file path contains '='"))
        }
        Some(("", path)) => Err(format!("missing key name for file path {path:?} in source {source:?}")),
        Some((key, "")) => Err(format!("missing file path for key name {key:?} in source {source:?}")),
        Some(pair) => Ok(pair),
    }
}

fn targets(config: &Value) -> Result<Value, String> {
    let mut targets = Map::new();
    if flag(config, "/targets/allNamespaces")? {
        targets.insert("allNamespaces".to_owned(), true.into());
    }
    for field in ["includedNamespaces", "excludedNamespaces"] {
        let names = texts(config, &format!("/targets/{field}"))?;
        let names: Vec<Value> = names.into_iter().map(|name| json!({"name": name})).collect();
        if !names.is_empty() {
            targets.insert(field.to_owned(), json!({"list": names}));
        }
    }
    let selector = selector(config, "/targets/namespaceLabelSelector")?;
    if !selector.is_empty() {
        targets.insert("namespaceLabelSelector".to_owned(), selector.into());
    }
    if targets.is_empty() {
        return Err("The targets field of the ResourceDistribution cannot be empty".to_owned());
    }
    Ok(targets.into())
}

/// A selector with its keys and values in order; empty where it selects nothing.
fn selector(config: &Value, pointer: &str) -> Result<Map<String, Value>, String> {
    if member(config, pointer).is_some_and(|selector| !selector.is_object()) {
        return Err(format!("{} must be a map", dotted(pointer)));
    }
    let mut made = Map::new();
    let labels = members(config, &format!("{pointer}/matchLabels"))?;
    if !labels.is_empty() {
        made.insert("matchLabels".to_owned(), json!(labels));
    }
    let expressions = list(config, &format!("{pointer}/matchExpressions"))?;
    let mut expressions = expressions.iter().map(requirement).collect::<Result<Vec<_>, _>>()?;
    expressions.sort_by(|(one, _), (other, _)| one.cmp(other));
    if !expressions.is_empty() {
        let expressions: Vec<Value> = expressions.into_iter().map(|(_, made)| made).collect();
        made.insert("matchExpressions".to_owned(), expressions.into());
    }
    Ok(made)
}

/// A requirement of a selector with its key, its values in order.
fn requirement(expression: &Value) -> Result<(String, Value), String> {
    let (key, operator) = (text(expression, "/key")?, text(expression, "/operator")?);
    let mut values = texts(expression, "/values")?;
    let given = values.len();
    values.sort_unstable();
    values.dedup();
    let is_right = match operator.as_str() {
        "In" | "NotIn" => given > 0 && given == values.len() && values.iter().all(|value| !value.is_empty()),
        "Exists" | "DoesNotExist" => given == 0,
        _ => {
            let known = "In, NotIn, Exists or DoesNotExist";
            return Err(format!("operator {operator:?} of {key:?} must be {known}"));
        }
    };
    if key.is_empty() || !is_right {
        return Err(format!(
            "the values of {key:?} with operator {operator} are missing, repeated or too many"
        ));
    }
    let made = if given > 0 {
        json!({"key": key, "operator": operator, "values": values})
    } else {
        json!({"key": key, "operator": operator})
    };
    Ok((key, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: &str) -> Result<Vec<u8>, String> {
        match path {
            "conf/app.properties" => Ok(b"a=1\n".to_vec()),
            "logo" => Ok(vec![0xff; 60]),
            "vars" => Ok("\u{feff}# comment\n\nX=1\n  Y=two=2\r\nHOME\nNONE\n".as_bytes().to_vec()),
            "odd" => Ok(b"1X=1\n".to_vec()),
            _ => Err(format!("{path} can't be read")),
        }
    }

    fn made(config: &Value) -> Result<Value, String> {
        let mut list =
            json!({"kind": "ResourceList", "functionConfig": config, "items": [{"kind": "Other"}]});
        let variable = |name: &str| (name == "HOME").then(|| "/root".to_owned());
        generate(&mut list, Surroundings { read: &files, variable: &variable })?;
        assert_eq!(list["items"][0]["kind"], "Other");
        Ok(list["items"][1].clone())
    }

    fn config() -> Value {
        json!({"metadata": {"name": "conf"},
            "resource": {"resourceKind": "ConfigMap", "resourceName": "app", "literals": ["K=\"V\""],
                "files": ["conf/app.properties", "picture=logo"], "envs": ["vars"],
                "resourceOptions": {"labels": {"l": "1"}, "immutable": true}},
            "options": {"annotations": {"a": "1"}},
            "targets": {"includedNamespaces": ["one"], "namespaceLabelSelector": {"matchLabels": {"z": "1", "b": "2"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}]}}})
    }

    #[test]
    fn a_distribution_has_what_files_and_literals_say() {
        let made = made(&config()).unwrap();
        let logo = format!("{}\n{}\n", "/".repeat(70), "/".repeat(10));
        let expected = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution",
            "metadata": {"name": "conf", "annotations": {"a": "1"}},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "labels": {"l": "1"}},
                    "data": {"HOME": "/root", "K": "V", "NONE": "", "X": "1", "Y": "two=2", "app.properties": "a=1\n"}, "binaryData": {"picture": logo}, "immutable": true},
                "targets": {"includedNamespaces": {"list": [{"name": "one"}]}, "namespaceLabelSelector": {
                    "matchLabels": {"b": "2", "z": "1"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]}}}});
        assert_eq!(made.to_string(), expected.to_string());
    }

    #[test]
    fn scalars_without_quotes_are_text_and_keys_are_in_order() {
        let mut config = config();
        config["resource"]["resourceOptions"]["labels"] = json!({"test": true, "a": 1.5});
        config["options"] = json!({"annotations": {"node": 123, "b": null}, "disableNameSuffixHash": true});
        config["resource"]["literals"] = json!([]);
        config["targets"] = json!({"excludedNamespaces": [2024, true], "includedNamespaces": null});
        let made = made(&config).unwrap();
        let labels = &made["spec"]["resource"]["metadata"]["labels"];
        assert_eq!(labels.to_string(), r#"{"a":"1.5","test":"true"}"#);
        assert_eq!(made["metadata"]["annotations"].to_string(), r#"{"b":"","node":"123"}"#);
        let excluded = json!({"excludedNamespaces": {"list": [{"name": "2024"}, {"name": "true"}]}});
        assert_eq!(made["spec"]["targets"], excluded);
    }

    #[test]
    fn all_namespaces_can_be_targets() {
        let mut config = config();
        config["targets"] = json!({"allNamespaces": true});
        assert_eq!(made(&config).unwrap()["spec"]["targets"], json!({"allNamespaces": true}));
        config["targets"] = json!({"allNamespaces": true, "excludedNamespaces": ["two"]});
        let expected = json!({"allNamespaces": true, "excludedNamespaces": {"list": [{"name": "two"}]}});
        assert_eq!(made(&config).unwrap()["spec"]["targets"], expected);
    }

    #[test]
    fn only_what_is_longer_than_a_line_is_broken() {
        assert_eq!(in_lines(&[0xff; 51]), "/".repeat(68));
        assert_eq!(in_lines(&[0xff; 54]), format!("{}\n//\n", "/".repeat(70)));
        assert_eq!(in_lines(&[0xff; 105]), format!("{0}\n{0}\n", "/".repeat(70)));
        assert_eq!(in_lines(&[]), "");
    }

    #[test]
    fn secrets_are_encoded_and_opaque() {
        let mut config = config();
        config["resource"] = json!({"resourceKind": "Secret", "resourceName": "s", "literals": ["K=V"]});
        let made = made(&config).unwrap();
        assert_eq!(made["spec"]["resource"]["data"], json!({"K": "Vg=="}));
        assert_eq!(made["spec"]["resource"]["type"], "Opaque");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (pointer, value, error) in [
            ("/metadata", json!({}), "a ResourceDistribution must have a name"),
            ("/resource/resourceKind", json!("Pod"), "resourceKind must be ConfigMap or Secret"),
            ("/resource/resourceName", json!(""), "resourceName must be given"),
            ("/targets", json!({}), "The targets field of the ResourceDistribution cannot be empty"),
            (
                "/targets",
                json!({"namespaceLabelSelector": {}, "excludedNamespaces": []}),
                "The targets field of the ResourceDistribution cannot be empty",
            ),
            (
                "/targets",
                json!({"allNamespaces": false}),
                "The targets field of the ResourceDistribution cannot be empty",
            ),
            ("/targets", json!({"allNamespaces": "yes"}), "targets.allNamespaces must be true or false"),
            ("/targets/includedNamespaces", json!("one"), "targets.includedNamespaces must be a list"),
            ("/targets/includedNamespaces", json!([["one"]]), "targets.includedNamespaces must be text"),
            ("/targets/namespaceLabelSelector", json!([]), "targets.namespaceLabelSelector must be a map"),
            ("/resource/envs", json!("vars"), "resource.envs must be a list"),
            ("/resource/literals", json!({"K": "V"}), "resource.literals must be a list"),
            (
                "/resource/resourceOptions/immutable",
                json!("yes"),
                "resource.resourceOptions.immutable must be true or false",
            ),
            ("/options/annotations", json!(["a"]), "options.annotations must be a map"),
            ("/options", json!("a"), "options must be a map"),
            ("/resource/files", json!(["absent"]), "absent can't be read"),
            ("/resource/files", json!(["a=b=c"]), r#"source "a=b=c" key name or file path contains '='"#),
            ("/resource/files", json!(["=b"]), r#"missing key name for file path "b" in source "=b""#),
            ("/resource/files", json!(["a="]), r#"missing file path for key name "a" in source "a=""#),
            (
                "/resource/literals",
                json!(["X=1"]),
                "cannot add key X, another key by that name already exists",
            ),
            ("/resource/literals", json!(["a/b=1"]), r#""a/b" is not a valid key name"#),
            ("/resource/literals", json!(["K"]), r#"literal values must be KEY=VALUE, not "K""#),
        ] {
            let mut config = config();
            *config.pointer_mut(pointer).unwrap() = value;
            assert_eq!(made(&config).unwrap_err(), error);
        }
        let mut config = config();
        config["resource"]["envs"] = json!(["odd"]);
        assert!(made(&config).unwrap_err().starts_with(r#"odd: "1X" is not a valid key name: "#));
        config["resource"]["envs"] = json!([]);
        config["targets"]["namespaceLabelSelector"]["matchExpressions"][0]["operator"] = "Exists".into();
        assert!(made(&config).is_err());
    }
}
