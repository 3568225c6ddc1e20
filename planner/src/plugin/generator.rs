//! A ResourceDistribution from files and literals, as Kustomize makes ConfigMaps and Secrets
//! (docs/behaviour/kubectl-kruise.md#the-generator-of-resourcedistributions).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Length of the lines of binary data.
const LINE: usize = 70;

/// Reads a file below the working directory.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Appends the ResourceDistribution of `functionConfig` to the items of a ResourceList.
///
/// # Errors
/// What to say to the user.
pub fn generate(list: &mut Value, read: ReadFile<'_>) -> Result<(), String> {
    let config = list.get("functionConfig").ok_or("the ResourceList has no functionConfig")?;
    let made = distribution(config, read)?;
    let members = list.as_object_mut().ok_or("the input is no ResourceList")?;
    let items = members.entry("items").or_insert(Value::Null);
    if items.is_null() {
        *items = json!([]);
    }
    items.as_array_mut().ok_or("items is no list")?.push(made);
    Ok(())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn words<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a str> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The object of a configuration.
fn distribution(config: &Value, read: ReadFile<'_>) -> Result<Value, String> {
    let name = text(config, "/metadata/name");
    if name.is_empty() {
        return Err("a ResourceDistribution must have a name".to_owned());
    }
    let mut metadata = json!({"name": name});
    copy(config, "/options", &["labels", "annotations"], &mut metadata);
    Ok(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "metadata": metadata,
        "spec": {"resource": resource(config, read)?, "targets": targets(config)?}}))
}

fn copy(config: &Value, from: &str, members: &[&str], to: &mut Value) {
    for member in members {
        let value = config.pointer(&format!("{from}/{member}")).filter(|value| !value.is_null());
        if let (Some(value), Some(to)) = (value, to.as_object_mut()) {
            to.insert((*member).to_owned(), value.clone());
        }
    }
}

fn resource(config: &Value, read: ReadFile<'_>) -> Result<Value, String> {
    let kind = text(config, "/resource/resourceKind");
    if !matches!(kind, "ConfigMap" | "Secret") {
        return Err("resourceKind must be ConfigMap or Secret".to_owned());
    }
    let name = text(config, "/resource/resourceName");
    if name.is_empty() {
        return Err("resourceName must be given".to_owned());
    }
    let mut metadata = json!({"name": name});
    copy(config, "/resource/resourceOptions", &["labels", "annotations"], &mut metadata);
    let mut made = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    let (mut data, mut binary) = (Map::new(), Map::new());
    for (key, content) in contents(config, read)? {
        if !is_key(&key) {
            return Err(format!("{key:?} is not a valid key name"));
        }
        if data.contains_key(&key) || binary.contains_key(&key) {
            return Err(format!("cannot add key {key}, another key by that name already exists"));
        }
        if kind == "Secret" {
            data.insert(key, in_lines(&content).into());
            continue;
        }
        match String::from_utf8(content) {
            Ok(content) => data.insert(key, content.into()),
            Err(error) => binary.insert(key, in_lines(error.as_bytes()).into()),
        };
    }
    let Some(members) = made.as_object_mut() else { return Ok(made) };
    for (member, entries) in [("data", data), ("binaryData", binary)] {
        if !entries.is_empty() {
            members.insert(member.to_owned(), entries.into());
        }
    }
    if kind == "Secret" {
        let kind = Some(text(config, "/resource/type")).filter(|kind| !kind.is_empty());
        members.insert("type".to_owned(), kind.unwrap_or("Opaque").into());
    }
    if config.pointer("/resource/resourceOptions/immutable") == Some(&json!(true)) {
        members.insert("immutable".to_owned(), true.into());
    }
    Ok(made)
}

fn is_key(key: &str) -> bool {
    let is_meant = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !key.is_empty() && key.len() <= 253 && key.bytes().all(is_meant)
}

/// In base64, with a line break after every so many letters where there are more.
fn in_lines(content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    lines.join("\n")
}

/// Keys with their contents, from literals, files and files of variables.
fn contents(config: &Value, read: ReadFile<'_>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut all = Vec::new();
    let env = Some(text(config, "/resource/env")).filter(|path| !path.is_empty());
    for path in words(config, "/resource/envs").chain(env) {
        let content = String::from_utf8(read(path)?).map_err(|_| format!("{path} is not UTF-8"))?;
        let lines = content.trim_start_matches('\u{feff}').lines().map(str::trim_start);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) =
                line.split_once('=').ok_or_else(|| format!("{path}: {line:?} is not KEY=VALUE"))?;
            all.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    for source in words(config, "/resource/files") {
        let (key, path) =
            source.split_once('=').unwrap_or_else(|| (source.rsplit('/').next().unwrap_or(source), source));
        all.push((key.to_owned(), read(path)?));
    }
    for literal in words(config, "/resource/literals") {
        let (key, value) = literal
            .split_once('=')
            .ok_or_else(|| format!("literal values must be KEY=VALUE, not {literal:?}"))?;
        let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        all.push((key.to_owned(), quoted.unwrap_or(value).as_bytes().to_vec()));
    }
    Ok(all)
}

fn targets(config: &Value) -> Result<Value, String> {
    let mut targets = Map::new();
    if config.pointer("/targets/allNamespaces") == Some(&json!(true)) {
        targets.insert("allNamespaces".to_owned(), true.into());
    }
    for member in ["includedNamespaces", "excludedNamespaces"] {
        let names: Vec<Value> =
            words(config, &format!("/targets/{member}")).map(|name| json!({"name": name})).collect();
        if !names.is_empty() {
            targets.insert(member.to_owned(), json!({"list": names}));
        }
    }
    if let Some(selector) =
        config.pointer("/targets/namespaceLabelSelector").filter(|value| value.is_object())
    {
        targets.insert("namespaceLabelSelector".to_owned(), checked_selector(selector)?);
    }
    if targets.is_empty() {
        return Err("The targets field of the ResourceDistribution cannot be empty".to_owned());
    }
    Ok(targets.into())
}

/// A selector with its keys and values in order.
fn checked_selector(selector: &Value) -> Result<Value, String> {
    let mut made = Map::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        let mut labels: Vec<_> = labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        labels.sort_by(|one, other| one.0.cmp(&other.0));
        made.insert("matchLabels".to_owned(), labels.into_iter().collect::<Map<_, _>>().into());
    }
    let mut expressions = Vec::new();
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        let mut values: Vec<&str> = words(expression, "/values").collect();
        let given = values.len();
        values.sort_unstable();
        values.dedup();
        let is_right = match operator {
            "In" | "NotIn" => given > 0 && given == values.len() && !values.contains(&""),
            "Exists" | "DoesNotExist" => given == 0,
            _ => {
                return Err(format!(
                    "operator {operator:?} of {key:?} must be In, NotIn, Exists or DoesNotExist"
                ));
            }
        };
        if key.is_empty() || !is_right {
            return Err(format!(
                "the values of {key:?} with operator {operator} are missing, repeated or too many"
            ));
        }
        let mut made = json!({"key": key, "operator": operator});
        if let Some(made) = made.as_object_mut().filter(|_| given > 0) {
            made.insert("values".to_owned(), json!(values));
        }
        expressions.push(made);
    }
    expressions.sort_by(|one, other| text(one, "/key").cmp(text(other, "/key")));
    if !expressions.is_empty() {
        made.insert("matchExpressions".to_owned(), expressions.into());
    }
    Ok(made.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(path: &str) -> Result<Vec<u8>, String> {
        match path {
            "conf/app.properties" => Ok(b"a=1\n".to_vec()),
            "logo" => Ok(vec![0xff; 60]),
            "vars" => Ok(b"# comment\n\nX=1\nY=two=2\n".to_vec()),
            _ => Err(format!("{path} can't be read")),
        }
    }

    fn made(config: &Value) -> Result<Value, String> {
        let mut list =
            json!({"kind": "ResourceList", "functionConfig": config, "items": [{"kind": "Other"}]});
        generate(&mut list, &files)?;
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
        let logo = format!("{}\n{}", "/".repeat(70), "/".repeat(10));
        let expected = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution",
            "metadata": {"name": "conf", "annotations": {"a": "1"}},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "labels": {"l": "1"}},
                    "data": {"K": "V", "app.properties": "a=1\n", "X": "1", "Y": "two=2"}, "binaryData": {"picture": logo}, "immutable": true},
                "targets": {"includedNamespaces": {"list": [{"name": "one"}]}, "namespaceLabelSelector": {
                    "matchLabels": {"b": "2", "z": "1"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]}}}});
        assert_eq!(made, expected);
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
            ("/resource/files", json!(["absent"]), "absent can't be read"),
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
        config["targets"]["namespaceLabelSelector"]["matchExpressions"][0]["operator"] = "Exists".into();
        assert!(made(&config).is_err());
    }
}
