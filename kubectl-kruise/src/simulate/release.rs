//! The Rollout of a workload that is simulated, from its manifests.

use anyhow::{Context as _, anyhow, bail};
use api::kinds::rollout::{API_VERSION, KIND, Rollout};
use informers::files::{Object, Objects};
use kinds::workload::submitted::in_hub_version;
use rollouts::reference::{self, is_same};
use rollouts::script::Scripts;
use rollouts::validation::{self, PARTITION_PERCENT_LIMIT};
use serde_json::{Map, Value};
use simulator::Milliseconds;

/// The namespace of what names none.
const NAMESPACE: &str = "default";

/// A Rollout that leads a workload.
pub(super) struct Release {
    /// The Rollout as the API server stores it.
    pub(super) rollout: Value,
    /// What there is beside it and the workload, such as Services.
    pub(super) objects: Vec<Value>,
    /// After what time a step is approved; never where there is none.
    pub(super) approval: Option<Milliseconds>,
}

impl Release {
    /// The Rollout of a workload, if there is any in its file.
    ///
    /// # Errors
    /// Admission would refuse it, there are several, or none names the workload.
    pub(super) fn find(
        all: &Objects,
        workload: &Object,
        approval: Option<Milliseconds>,
    ) -> anyhow::Result<Option<Self>> {
        let namespace = namespace_of(workload);
        let is_rollout = |object: &&Object| object.group() == api::ROLLOUTS_GROUP && object.kind == KIND;
        let (rollouts, others): (Vec<&Object>, Vec<&Object>) = all.iter().partition(is_rollout);
        if rollouts.is_empty() {
            return Ok(None);
        }
        let reference = reference::to(&serde_json::from_str(&workload.json)?);
        let mut leading = Vec::new();
        for object in rollouts.into_iter().filter(|object| namespace_of(object) == namespace) {
            let json = placed(object)?;
            let json = in_hub_version(&json, API_VERSION).map_err(|denial| anyhow!(denial.message))?;
            let rollout: Rollout = serde_json::from_str(&json).with_context(|| object.source.clone())?;
            if is_same(&rollout.spec.workload_ref, &reference) {
                leading.push((object, json.into_owned()));
            }
        }
        let [(object, json)] = leading.as_slice() else {
            bail!("{} Rollouts name {} {}; it must be one", leading.len(), workload.kind, workload.name);
        };
        check(object)?;
        let mut rollout: Value = serde_json::from_str(json)?;
        // What is simulated begins now.
        if let Some(members) = rollout.as_object_mut() {
            members.remove("status");
        }
        let objects = others.into_iter().filter(|object| namespace_of(object) == namespace);
        let objects = objects.map(|object| Ok(serde_json::from_str(&placed(object)?)?));
        Ok(Some(Self { rollout, objects: objects.collect::<anyhow::Result<_>>()?, approval }))
    }
}

/// Refuses a Rollout that admission would refuse.
fn check(rollout: &Object) -> anyhow::Result<()> {
    let context = validation::Context {
        others: &[],
        partition_percent_limit: PARTITION_PERCENT_LIMIT,
        filter_workload_type: false,
        scripts: &Scripts::default(),
    };
    match validation::review(&rollout.json, None, &context).denial() {
        Some(denial) => bail!("{}: {}", rollout.source, denial.message),
        None => Ok(()),
    }
}

fn namespace_of(object: &Object) -> &str {
    if object.namespace.is_empty() { NAMESPACE } else { &object.namespace }
}

/// The object's JSON, with a namespace.
fn placed(object: &Object) -> anyhow::Result<String> {
    object.in_namespace(NAMESPACE).with_context(|| object.source.clone())
}

/// What `kubectl apply` makes of a live object: what the manifest names gets its value, what only the manifest before
/// named goes, all else stays.
pub(super) fn applied(before: &Value, manifest: &Value, live: &Value) -> Value {
    let Value::Object(wanted) = manifest else { return manifest.clone() };
    let none = Map::new();
    let [before, live] = [before, live].map(|object| object.as_object().unwrap_or(&none));
    let mut members = live.clone();
    members.retain(|name, _| wanted.contains_key(name) || !before.contains_key(name));
    for (name, value) in wanted {
        let of = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
        members.insert(name.clone(), applied(&of(before), value, &of(live)));
    }
    members.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_manifest_names_is_set_and_what_it_drops_goes() {
        let before = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"paused": true, "replicas": 3}});
        let manifest = json!({"metadata": {"labels": {"b": "2"}}, "spec": {"replicas": 3, "template": {"images": ["b"]}}});
        let live = json!({"metadata": {"labels": {"a": "1"}, "uid": "u"}, "status": {"ready": 3},
            "spec": {"paused": true, "partition": "80%", "replicas": 5, "template": {"images": ["a"], "grace": 30}}});
        let expected = json!({"metadata": {"labels": {"b": "2"}, "uid": "u"}, "status": {"ready": 3},
            "spec": {"partition": "80%", "replicas": 3, "template": {"images": ["b"], "grace": 30}}});
        assert_eq!(applied(&before, &manifest, &live), expected);
    }
}
