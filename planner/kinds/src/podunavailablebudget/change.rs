//! What a change of a Pod is to its budget (docs/behaviour/podunavailablebudget.md#changes-that-count).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::available::is_unavailable_label;
use super::terms::Operation;
use pod::inplace::qos::qos_class;
use pod::inplace::template::{resources, text};
use pod::observed::Pairs;
use values::json;
use values::quantity::Quantity;
use values::verdict::{Denial, refused};

/// The annotation of Pods that the kubelet takes from a file.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow)]
    labels: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

impl<'a> Pod<'a> {
    fn read(text: &'a str) -> Result<Self, Denial> {
        json::from_str(text).map_err(refused)
    }

    fn is_taken_out(&self) -> bool {
        self.metadata.labels.iter().flatten().any(|(key, _)| is_unavailable_label(key))
    }

    /// A Pod of a file on its node.
    fn is_static(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(CONFIG_SOURCE))
            .is_some_and(|source| source != "api")
    }

    fn spec(&self) -> Value {
        self.spec.and_then(|spec| serde_json::from_str(spec.get()).ok()).unwrap_or_default()
    }
}

/// The operation that takes a unit for this change; `None` where it makes nothing unavailable. Whether the Pod stays
/// ready is not known here: each change of the spec counts.
///
/// # Errors
/// What is no Pod.
pub(crate) fn operation(old: &str, new: &str) -> Result<Option<Operation>, Denial> {
    let (old, new) = (Pod::read(old)?, Pod::read(new)?);
    if new.is_taken_out() && !old.is_taken_out() {
        return Ok(Some(Operation::Update));
    }
    // Both texts come from one writer, so that equal specs are nearly always equal texts.
    if old.spec.map(RawValue::get) == new.spec.map(RawValue::get) {
        return Ok(None);
    }
    let is_static = old.is_static() || new.is_static();
    let (old, new) = (old.spec(), new.spec());
    if old == new {
        return Ok(None);
    }
    Ok(Some(if !is_static && is_resize(&old, &new) { Operation::Resize } else { Operation::Update }))
}

/// Nothing but amounts of `cpu` and `memory` differs, and no container restarts for it.
fn is_resize(old: &Value, new: &Value) -> bool {
    without_resources(old) == without_resources(new)
        && qos_class(containers(old)) == qos_class(containers(new))
        && containers(old).zip(containers(new)).all(|(old, new)| takes_new_amounts(old, new))
}

fn takes_new_amounts(old: &Value, new: &Value) -> bool {
    let policies = list(new, "resizePolicy");
    let is_free = |name: &str| {
        let policy = policies.iter().find(|policy| text(policy, "resourceName") == name);
        let policy = policy.map_or("", |policy| text(policy, "restartPolicy"));
        matches!(name, "cpu" | "memory") && matches!(policy, "" | "NotRequired")
    };
    let (old, new) = (resources(old), resources(new));
    [(&old.limits, &new.limits), (&old.requests, &new.requests)]
        .into_iter()
        .all(|(old, new)| changed(old, new).into_iter().all(is_free))
}

/// The resources whose amounts differ.
fn changed<'a>(old: &'a Pairs, new: &'a Pairs) -> BTreeSet<&'a str> {
    let names = old.iter().chain(new.iter()).map(|(name, _)| name);
    let amount = |pairs: &Pairs, name: &str| {
        pairs.get(name).map(|text| text.parse::<Quantity>().map_err(|_| text.to_owned()))
    };
    names.filter(|name| amount(old, name) != amount(new, name)).collect()
}

fn without_resources(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            Map::remove(container, "resources");
        }
    }
    spec
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(spec, "containers").iter().chain(list(spec, "initContainers"))
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
