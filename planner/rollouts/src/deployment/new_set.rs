//! The ReplicaSet of a new template, as Kubernetes' own controller would make it. That one recognises it by its template
//! when the release ends, whatever its name.

use api::labels::POD_TEMPLATE_HASH;
use kinds::workload::owner::Owner;
use kinds::workload::resolved::DEPLOYMENT_REVISION;
use pod::template::comparison;
use serde_json::{Map, Value, json};
use values::hash::{fnv1_32, safe_encode};

use super::sets::{Sets, same_template};
use super::strategy::Limits;
use super::{APPS, OWN, notes};
use crate::object::{Object as _, ObjectName};
use crate::view::{Unread, View};

/// What distinguishes the ReplicaSet of a template from others; with another `attempt` another one.
pub fn template_hash(template: &Value, attempt: u32) -> String {
    let mut text = comparison::normal(template);
    if attempt > 0 {
        text.push_str(&attempt.to_string());
    }
    safe_encode(&fnv1_32(text.into_bytes()).to_string())
}

/// The ReplicaSet of the present template, of a size; `None` where there is one that is only not listed yet.
pub(super) fn new_set(
    deployment: &Value,
    sets: &Sets<'_>,
    limits: &Limits,
    size: i64,
    view: &View,
) -> Result<Option<Value>, Unread> {
    let namespace = deployment.text("/metadata/namespace");
    let template = deployment.pointer("/spec/template").unwrap_or(&Value::Null);
    let mut attempt = 0;
    loop {
        let hash = template_hash(template, attempt);
        let name = format!("{}-{hash}", deployment.name());
        match view.object(&ObjectName::new(APPS, "ReplicaSet", namespace, &name))? {
            None => return Ok(Some(made(deployment, (&name, &hash), (sets, limits, size)))),
            Some(found) if is_ours(deployment, found) => return Ok(None),
            // The name is taken by another template.
            Some(_) => attempt += 1,
        }
    }
}

fn is_ours(deployment: &Value, found: &Value) -> bool {
    found.controller() == Some(deployment.uid()) && same_template(deployment, found)
}

fn made(
    deployment: &Value,
    (name, hash): (&str, &str),
    (sets, limits, size): (&Sets<'_>, &Limits, i64),
) -> Value {
    // The members that the Deployment has at a pointer, and one more.
    let with = |pointer: &str, key: &str, value: Value| {
        let mut members = deployment.members(pointer).cloned().unwrap_or_default();
        members.insert(key.to_owned(), value);
        Value::Object(members)
    };
    let labels = with("/spec/template/metadata/labels", POD_TEMPLATE_HASH, hash.into());
    let metadata = with("/spec/template/metadata", "labels", labels.clone());
    let match_labels = with("/spec/selector/matchLabels", POD_TEMPLATE_HASH, hash.into());
    json!({
        "apiVersion": APPS,
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.text("/metadata/namespace"),
            "labels": labels,
            "annotations": annotations(deployment, sets, limits),
            "ownerReferences": [Owner::new(APPS, "Deployment", deployment.name(), deployment.uid())],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.number("/spec/minReadySeconds").unwrap_or(0),
            "selector": with("/spec/selector", "matchLabels", match_labels),
            "template": with("/spec/template", "metadata", metadata),
        },
    })
}

/// Those of the Deployment that are not its own, and what the ReplicaSet notes itself.
fn annotations(deployment: &Value, sets: &Sets<'_>, limits: &Limits) -> Map<String, Value> {
    let given = deployment.members("/metadata/annotations").into_iter().flatten();
    let given = given.filter(|(key, _)| !OWN.contains(&key.as_str()));
    let mut annotations: Map<String, Value> =
        given.map(|(key, value)| (key.clone(), value.clone())).collect();
    annotations.insert(DEPLOYMENT_REVISION.to_owned(), sets.next_revision().to_string().into());
    if let Value::Object(notes) = notes(limits) {
        annotations.extend(notes);
    }
    annotations
}
