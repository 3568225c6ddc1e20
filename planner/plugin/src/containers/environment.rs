//! Environment variables of containers: what a command line says of them, how containers change by it, and how they are
//! listed with the values that Secrets and ConfigMaps keep.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{containers, matches, name, with_containers};
use crate::edit::bound;
use crate::kinds::WorkloadKind;
use crate::pods::text;
use pod::template::node::quantity;
use values::json_patch::{Patch, Pointer};
use values::quantity::{Format, Quantity};

/// What kubectl says of names that can't be those of variables.
const NAME_RULE: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
    and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', \
    regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')";

/// Changes of environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentChange {
    /// Variables with their values, as containers list them; each name once.
    set: Vec<Value>,
    /// Names of those that go.
    remove: Vec<String>,
    /// A variable that is there may get another value.
    overwrite: bool,
}

/// A kind of object that keeps values of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// Secrets.
    Secret,
    /// ConfigMaps.
    ConfigMap,
}

/// The objects that keep values of variables, or why they can't be read.
pub type Stores = BTreeMap<(Store, String), Result<Value, String>>;

/// Variables in lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The lines.
    pub text: String,
    /// What to say of values that were not found.
    pub failures: Vec<String>,
}

impl Store {
    /// Reads `secret/NAME` or `configmap/NAME`.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn read(source: &str) -> Result<(Self, &str), String> {
        let (kind, name) = source.split_once('/').unwrap_or((source, ""));
        let store = match kind.to_ascii_lowercase().as_str() {
            "secret" | "secrets" => Some(Self::Secret),
            "configmap" | "configmaps" | "cm" => Some(Self::ConfigMap),
            _ => None,
        };
        let found = store.filter(|_| !name.is_empty()).map(|store| (store, name));
        found.ok_or_else(|| format!("write secret/NAME or configmap/NAME, not {source:?}"))
    }

    fn reference(self) -> &'static str {
        match self {
            Self::Secret => "secretKeyRef",
            Self::ConfigMap => "configMapKeyRef",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
        }
    }

    /// A variable for each key of the object of this name, or for each of `keys` where some are given.
    pub fn variables(self, name: &str, object: &Value, keys: &[String]) -> Vec<Value> {
        let all = object.get("data").and_then(Value::as_object).into_iter().flatten();
        let meant = all.map(|(key, _)| key).filter(|key| keys.is_empty() || keys.contains(key));
        let letter = |letter: char| {
            if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' }
        };
        let variable = |key: &String| {
            let variable: String = key.chars().map(letter).collect();
            json!({"name": variable, "valueFrom": {self.reference(): {"name": name, "key": key}}})
        };
        meant.map(variable).collect()
    }

    /// The value of a key of such an object.
    fn value(self, name: &str, key: &str, object: &Value) -> Result<String, String> {
        let value = object.get("data").and_then(|data| data.get(key)?.as_str());
        let absent = || format!("key {key} not found in {} {name}", self.word());
        let value = value.ok_or_else(absent)?;
        match self {
            Self::ConfigMap => Ok(value.to_owned()),
            Self::Secret => {
                let decoded = STANDARD.decode(value).map_err(|error| error.to_string())?;
                Ok(String::from_utf8_lossy(&decoded).into_owned())
            }
        }
    }
}

/// Parts words into those that name objects and, behind them, those about variables: `K=V`, `K-` and `-`.
///
/// # Errors
/// What to say to the user.
pub fn parted(words: &[String]) -> Result<(Vec<String>, Vec<String>), String> {
    let is_variable = |word: &&String| {
        word.ends_with('-') || word.split_once('=').is_some_and(|(name, _)| !name.is_empty())
    };
    let first = words.iter().position(|word| is_variable(&word)).unwrap_or(words.len());
    let (objects, variables) = words.split_at_checked(first).unwrap_or_default();
    if !variables.iter().all(|word| is_variable(&word)) {
        let words = words.join(" ");
        return Err(format!("all resources must be specified before environment changes: {words}"));
    }
    Ok((objects.to_vec(), variables.to_vec()))
}

/// Whether a container can have a variable of this name.
///
/// # Errors
/// What to say to the user.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'.' | b'_');
    let is_first_right = name.bytes().next().is_some_and(is_letter);
    let rule = if !is_first_right || !name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit()) {
        NAME_RULE
    } else if name == "." {
        "must not be '.'"
    } else if name == ".." {
        "must not be '..'"
    } else if name.starts_with("..") {
        "must not start with '..'"
    } else {
        return Ok(());
    };
    Err(format!("{name:?} is not a valid key name: {rule}"))
}

impl EnvironmentChange {
    /// Sets one variable, whatever its value is.
    pub(super) fn of(name: &str, value: &str) -> Self {
        Self { set: vec![json!({"name": name, "value": value})], overwrite: true, ..Self::default() }
    }

    /// Reads `K=V` and `K-`; `-` means the lines of `input`, of which those without a `=` mean nothing, and all behind
    /// a `#`.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn read(words: &[String], input: &str, overwrite: bool) -> Result<Self, String> {
        let mut change = Self { overwrite, ..Self::default() };
        let set = |change: &mut Self, (name, value): (&str, &str)| {
            change.add(json!({"name": name, "value": value}));
            check_name(name)
        };
        for word in words {
            if word == "-" {
                let lines = input.lines().map(|line| line.split('#').next().unwrap_or_default());
                lines.filter_map(|line| line.split_once('=')).try_for_each(|pair| set(&mut change, pair))?;
            } else if let Some(pair) = word.split_once('=') {
                set(&mut change, pair)?;
            } else if let Some(name) = word.strip_suffix('-') {
                change.remove.push(name.to_owned());
            } else {
                return Err(format!("unknown environment variable: {word}"));
            }
        }
        if change.set.iter().any(|variable| change.removes(variable)) {
            let error = "can not both modify and remove the same environment variable in the same command";
            return Err(error.to_owned());
        }
        Ok(change)
    }

    /// Sets one more variable: of two with the same name the last is meant.
    pub fn add(&mut self, variable: Value) {
        match self.set.iter_mut().find(|one| name(one) == name(&variable)) {
            Some(one) => *one = variable,
            None => self.set.push(variable),
        }
    }

    /// Puts something before the name of each variable that is set.
    pub fn put_before_names(&mut self, prefix: &str) {
        for variable in &mut self.set {
            let named = format!("{prefix}{}", name(variable));
            if let Some(members) = variable.as_object_mut() {
                members.insert("name".to_owned(), named.into());
            }
        }
    }

    /// Nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    fn removes(&self, variable: &Value) -> bool {
        self.remove.iter().any(|removed| removed == name(variable))
    }

    /// What containers that have a variable already are not to lose.
    fn check(&self, variable: &Value, old: &Value) -> Result<(), String> {
        if self.overwrite || old == variable {
            return Ok(());
        }
        let (name, value) = (name(old), text(old, "/value"));
        Err(format!("'{name}' already has a value ({value}), and --overwrite is false"))
    }

    /// Changes the list of variables at `path`, which is `env`.
    pub(super) fn write(&self, edits: &mut Patch, path: &Pointer, env: Option<&Value>) -> Result<(), String> {
        let present = env.and_then(Value::as_array);
        let all = present.map_or(&[][..], Vec::as_slice);
        let removed = all.iter().enumerate().filter(|(_, one)| self.removes(one));
        let mut gone: Vec<usize> = removed.map(|(index, _)| index).collect();
        let mut added = Vec::new();
        for variable in self.set.iter().filter(|variable| !self.removes(variable)) {
            let mut same = all.iter().enumerate().filter(|(_, one)| name(one) == name(variable));
            let Some((index, old)) = same.next() else {
                added.push(variable);
                continue;
            };
            self.check(variable, old)?;
            if old != variable {
                edits.replace(path.index(index), variable.to_string());
            }
            // Of several variables with one name the last holds: it would hide the one that is set.
            for (index, old) in same {
                self.check(variable, old)?;
                gone.push(index);
            }
        }
        if added.is_empty() && !all.is_empty() && gone.len() == all.len() {
            edits.remove(path.clone());
            return Ok(());
        }
        if present.is_none() && !added.is_empty() {
            edits.add(path.clone(), json!(added).to_string());
        } else {
            added.into_iter().for_each(|variable| edits.add(path.end(), variable.to_string()));
        }
        gone.sort_unstable();
        // From the end on, so that no index moves before its turn.
        gone.into_iter().rev().for_each(|index| edits.remove(path.index(index)));
        Ok(())
    }
}

/// Sets and removes environment variables of the containers whose names match. `None` where nothing changes.
///
/// # Errors
/// What to say to the user.
pub fn set_environment(
    kind: WorkloadKind,
    object: &Value,
    pattern: &str,
    change: &EnvironmentChange,
) -> Result<Option<Patch>, String> {
    with_containers(kind, object)?;
    let mut edits = Patch::default();
    for (pointer, container) in containers(kind, object, true) {
        if matches(pattern, name(container)) {
            change.write(&mut edits, &pointer.key("env"), container.get("env"))?;
        }
    }
    Ok((!edits.is_empty()).then(|| bound(object, edits)))
}

fn matching<'a>(
    kind: WorkloadKind,
    object: &'a Value,
    pattern: &'a str,
) -> impl Iterator<Item = (&'a Value, &'a [Value])> {
    let all = containers(kind, object, true).into_iter().map(|(_, container)| container);
    all.filter(move |container| matches(pattern, name(container))).map(|container| {
        let env = container.get("env").and_then(Value::as_array);
        (container, env.map_or(&[][..], Vec::as_slice))
    })
}

/// The key of a Secret or a ConfigMap that a variable takes its value from.
fn stored(source: &Value) -> Option<(Store, &str, &str)> {
    [Store::Secret, Store::ConfigMap].into_iter().find_map(|store| {
        let reference = source.get(store.reference()).filter(|reference| reference.is_object())?;
        Some((store, text(reference, "/name"), text(reference, "/key")))
    })
}

/// The Secrets and ConfigMaps that variables of the containers whose names match take their values from.
pub fn stores(kind: WorkloadKind, object: &Value, pattern: &str) -> BTreeSet<(Store, String)> {
    let variables = matching(kind, object, pattern).flat_map(|(_, env)| env);
    let found = variables.filter_map(|variable| stored(variable.get("valueFrom")?));
    found.map(|(store, name, _)| (store, name.to_owned())).collect()
}

/// The environment of the containers whose names match, in lines. With `stores` the values from elsewhere are printed
/// too.
///
/// # Errors
/// What to say to the user.
pub fn list_environment(
    kind: WorkloadKind,
    object: &Value,
    pattern: &str,
    stores: Option<&Stores>,
) -> Result<Listing, String> {
    with_containers(kind, object)?;
    let mut listing = Listing::default();
    let of = text(object, "/metadata/name");
    for (container, env) in matching(kind, object, pattern) {
        // Writing to a String cannot fail.
        let _ = writeln!(listing.text, "# {} {of}, container {}", kind.kind(), name(container));
        for variable in env {
            let name = name(variable);
            let source = variable.get("valueFrom").filter(|source| !source.is_null());
            let value = source.map_or_else(
                || Some(Ok(text(variable, "/value").to_owned())),
                |source| stores.map(|stores| resolved(source, (kind, object, container), stores)),
            );
            let _ = match (&value, source) {
                (Some(Ok(value)), _) => writeln!(listing.text, "{name}={value}"),
                (_, Some(source)) => writeln!(listing.text, "# {name} from {}", describe_source(source)),
                (_, None) => Ok(()),
            };
            if let Some(Err(error)) = value {
                listing.failures.push(format!("error retrieving reference for {name}: {error}"));
            }
        }
    }
    Ok(listing)
}

fn describe_source(source: &Value) -> String {
    if let Some((store, name, key)) = stored(source) {
        return format!("{} {name}, key {key}", store.word());
    }
    if source.get("fieldRef").is_some() {
        return format!("field path {}", text(source, "/fieldRef/fieldPath"));
    }
    let container = text(source, "/resourceFieldRef/containerName");
    let container = if container.is_empty() { String::new() } else { format!("{container}/") };
    format!("resource field {container}{}", text(source, "/resourceFieldRef/resource"))
}

/// The value that a variable takes from elsewhere.
fn resolved(
    source: &Value,
    (kind, object, container): (WorkloadKind, &Value, &Value),
    stores: &Stores,
) -> Result<String, String> {
    if let Some((store, name, key)) = stored(source) {
        let found = stores.get(&(store, name.to_owned()));
        let found = found.ok_or_else(|| format!("{} {name} was not read", store.word()))?;
        return store.value(name, key, found.as_ref().map_err(Clone::clone)?);
    }
    match (source.get("fieldRef"), source.get("resourceFieldRef")) {
        (Some(_), _) => field(object, text(source, "/fieldRef/fieldPath")),
        (_, Some(_)) => resource(source, (kind, object, container)),
        _ => Err("invalid valueFrom".to_owned()),
    }
}

/// A request or a limit of a container, as a multiple of the divisor.
fn resource(
    source: &Value,
    (kind, object, container): (WorkloadKind, &Value, &Value),
) -> Result<String, String> {
    let named = text(source, "/resourceFieldRef/containerName");
    let container = match named {
        "" => container,
        _ => containers(kind, object, true)
            .into_iter()
            .find_map(|(_, container)| (name(container) == named).then_some(container))
            .ok_or_else(|| format!("container {named} not found"))?,
    };
    let field = text(source, "/resourceFieldRef/resource");
    let is_known =
        |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let (list, resource) = field
        .split_once('.')
        .filter(|(list, resource)| matches!(*list, "limits" | "requests") && is_known(resource))
        .ok_or_else(|| format!("unsupported container resource: {field:?}"))?;
    let of = |list: &str| {
        let value = container.get("resources").and_then(|all| quantity(all.get(list)?.get(resource)?));
        value.filter(|value| !value.is_zero())
    };
    // A request that is not there is that of the limit, a limit that of the Node.
    let value = match list {
        "limits" => of(list)
            .ok_or_else(|| format!("the container has no {field}: what it gets depends on its Node"))?,
        _ => of(list).or_else(|| of("limits")).unwrap_or(Quantity::ZERO),
    };
    let divisor = source.pointer("/resourceFieldRef/divisor").and_then(quantity);
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or_else(|| Quantity::from_units(1, Format::DecimalSi));
    let measure = if resource == "cpu" { Quantity::milli } else { Quantity::units };
    // The smallest number that is enough, as the kubelet rounds it.
    let (value, divisor) = (i128::from(measure(&value)), i128::from(measure(&divisor)).max(1));
    Ok(((value + divisor - 1) / divisor).to_string())
}

/// A field of the metadata of an object, named as `metadata.name` or `metadata.labels['app']`.
fn field(object: &Value, path: &str) -> Result<String, String> {
    if let Some((members, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return match members {
            "metadata.annotations" | "metadata.labels" => {
                let members = object.pointer(&format!("/{}", members.replace('.', "/")));
                let value = members.and_then(|members| members.get(key)?.as_str());
                Ok(value.unwrap_or_default().to_owned())
            }
            _ => Err(format!("fieldPath {path:?} does not support subscript")),
        };
    }
    match path {
        "metadata.annotations" | "metadata.labels" => {
            let members = object.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_object);
            let sorted: BTreeMap<&String, &Value> = members.into_iter().flatten().collect();
            let lines = sorted.iter().map(|(key, value)| format!("{key}={value}"));
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        "metadata.name" | "metadata.namespace" | "metadata.uid" => {
            Ok(text(object, &format!("/{}", path.replace('.', "/"))).to_owned())
        }
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use values::json_patch::apply;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    fn read(all: &[&str], input: &str) -> Result<EnvironmentChange, String> {
        EnvironmentChange::read(&words(all), input, true)
    }

    fn set(env: &Value) -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"team": "t", "app": "web"}, "resourceVersion": "7"},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}}})
    }

    /// The variables of a container that has `env`, after these words; `null` for none.
    fn after(env: &Value, change: &EnvironmentChange) -> Result<Value, String> {
        let object = set(env);
        let Some(patch) = set_environment(WorkloadKind::CloneSet, &object, "*", change)? else {
            return Ok(env.clone());
        };
        let after: Value = serde_json::from_str(&apply(&object.to_string(), &patch).unwrap()).unwrap();
        Ok(after["spec"]["template"]["spec"]["containers"][0]["env"].clone())
    }

    fn of(name: &str, value: &str) -> Value {
        json!({"name": name, "value": value})
    }

    #[test]
    fn objects_come_before_variables() {
        let (objects, variables) = parted(&words(&["clone", "web", "K=V", "L-", "-"])).unwrap();
        assert_eq!((objects.join(" "), variables.join(" ")), ("clone web".to_owned(), "K=V L- -".to_owned()));
        assert_eq!(parted(&words(&["clone/a", "=x"])).unwrap().0.len(), 2);
        let error = parted(&words(&["clone/a", "K=V", "clone/b"])).unwrap_err();
        assert_eq!(error, "all resources must be specified before environment changes: clone/a K=V clone/b");
    }

    #[test]
    fn variables_are_read_as_kubectl_reads_them() {
        let change = read(&["K=1", "K=2=3", "L-", "-"], "# comment\nA=b # why\nnothing\nK=4\n").unwrap();
        assert_eq!(change.set, [of("K", "4"), of("A", "b ")]);
        assert_eq!(change.remove, ["L"]);
        let conflict = "can not both modify and remove the same environment variable in the same command";
        assert_eq!(read(&["K=1", "K-"], "").unwrap_err(), conflict);
        assert_eq!(read(&["K"], "").unwrap_err(), "unknown environment variable: K");
        for name in ["1K", "a b", "", "ü", ".", "..", "..x"] {
            let error = read(&[&format!("{name}=1")], "").unwrap_err();
            assert!(error.starts_with(&format!("{name:?} is not a valid key name: ")), "{error}");
        }
        assert!(read(&["a.b-c_D1=1"], "").is_ok());
    }

    #[test]
    fn a_prefix_is_put_before_all_names() {
        let mut change = read(&["K=1"], "").unwrap();
        let object = json!({"data": {"some-key": "", "other": ""}});
        for variable in Store::ConfigMap.variables("conf", &object, &words(&["some-key"])) {
            change.add(variable);
        }
        change.put_before_names("P_");
        let taken = json!({"name": "P_SOME_KEY", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "some-key"}}});
        assert_eq!(change.set, [of("P_K", "1"), taken]);
        assert_eq!(Store::Secret.variables("s", &object, &[]).len(), 2);
        assert_eq!(Store::read("cm/conf"), Ok((Store::ConfigMap, "conf")));
        assert!(Store::read("pod/x").is_err() && Store::read("secret/").is_err());
    }

    #[test]
    fn each_name_is_left_once_and_no_list_stays_empty() {
        let twice = json!([of("K", "1"), of("L", "2"), of("K", "3")]);
        assert_eq!(after(&twice, &read(&["K=9"], "").unwrap()), Ok(json!([of("K", "9"), of("L", "2")])));
        assert_eq!(after(&twice, &read(&["K=1"], "").unwrap()), Ok(json!([of("K", "1"), of("L", "2")])));
        assert_eq!(after(&twice, &read(&["K-"], "").unwrap()), Ok(json!([of("L", "2")])));
        assert_eq!(after(&twice, &read(&["K-", "L-"], "").unwrap()), Ok(Value::Null));
        assert_eq!(after(&twice, &read(&["K-", "L-", "M=4"], "").unwrap()), Ok(json!([of("M", "4")])));
        assert_eq!(after(&json!([]), &read(&["K-"], "").unwrap()), Ok(json!([])));
        assert_eq!(after(&Value::Null, &read(&["K=1", "K=2"], "").unwrap()), Ok(json!([of("K", "2")])));
        let keep = EnvironmentChange::read(&words(&["K=3"]), "", false).unwrap();
        let error = after(&twice, &keep).unwrap_err();
        assert_eq!(error, "'K' already has a value (1), and --overwrite is false");
        let both = EnvironmentChange { remove: words(&["K"]), ..read(&["K=1"], "").unwrap() };
        assert_eq!(after(&twice, &both), Ok(json!([of("L", "2")])));
    }

    #[test]
    fn values_are_listed_and_resolved() {
        let env = json!([of("K", "V"),
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "absent"}}},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "T", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
            {"name": "R", "valueFrom": {"resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}}]);
        let object = set(&env);
        let listed = |stores| list_environment(WorkloadKind::CloneSet, &object, "m*", stores).unwrap();
        let expected = "# CloneSet web, container main\nK=V\n# S from secret s, key k\n# C from configmap c, key absent\n\
            # N from field path metadata.name\n# T from field path metadata.labels['team']\n\
            # A from field path metadata.labels\n# R from resource field main/limits.cpu\n";
        assert_eq!(listed(None), Listing { text: expected.to_owned(), failures: vec![] });
        let needed = stores(WorkloadKind::CloneSet, &object, "*");
        assert_eq!(needed, [(Store::Secret, "s".to_owned()), (Store::ConfigMap, "c".to_owned())].into());
        let secret = Ok(json!({"data": {"k": "dmFsdWU="}}));
        let found =
            [((Store::Secret, "s".to_owned()), secret), ((Store::ConfigMap, "c".to_owned()), Ok(json!({})))];
        let listing = listed(Some(&found.into()));
        let expected = "# CloneSet web, container main\nK=V\nS=value\n# C from configmap c, key absent\n\
            N=web\nT=t\nA=app=\"web\"\nteam=\"t\"\n# R from resource field main/limits.cpu\n";
        assert_eq!(listing.text, expected);
        let absent = "error retrieving reference for C: key absent not found in configmap c";
        let unknown = "error retrieving reference for R: the container has no limits.cpu: what it gets depends on its Node";
        assert_eq!(listing.failures, [absent, unknown]);
        assert!(list_environment(WorkloadKind::Rollout, &object, "*", None).is_err());
    }

    #[test]
    fn resources_are_resolved_as_the_kubelet_resolves_them() {
        let mut object = set(&Value::Null);
        object["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}});
        let mut of = |reference: Value| {
            let variable = json!([{"name": "R", "valueFrom": {"resourceFieldRef": reference}}]);
            object["spec"]["template"]["spec"]["containers"][0]["env"] = variable;
            let listing =
                list_environment(WorkloadKind::CloneSet, &object, "*", Some(&Stores::default())).unwrap();
            listing
                .failures
                .first()
                .cloned()
                .unwrap_or_else(|| listing.text.lines().nth(1).unwrap().to_owned())
        };
        assert_eq!(of(json!({"resource": "limits.cpu"})), "R=2");
        assert_eq!(of(json!({"resource": "limits.cpu", "divisor": "1m"})), "R=1500");
        assert_eq!(
            of(json!({"resource": "limits.memory", "divisor": "1Mi", "containerName": "main"})),
            "R=1024"
        );
        assert_eq!(of(json!({"resource": "requests.cpu", "divisor": "0"})), "R=1");
        assert_eq!(of(json!({"resource": "requests.memory", "divisor": "1Gi"})), "R=1", "that of the limit");
        assert_eq!(of(json!({"resource": "requests.ephemeral-storage"})), "R=0");
        let failure = |text: &str| format!("error retrieving reference for R: {text}");
        assert_eq!(
            of(json!({"resource": "limits.cpu", "containerName": "x"})),
            failure("container x not found")
        );
        for resource in ["cpu", "limits.example.com/gpu"] {
            let expected = failure(&format!("unsupported container resource: {resource:?}"));
            assert_eq!(of(json!({"resource": resource})), expected);
        }
    }
}
