//! What a request may say, and what it takes over from its Pod
//! (docs/behaviour/restarts.md#admission-of-a-containerrecreaterequest).

use std::collections::{BTreeMap, BTreeSet};

use api::annotations::{CRR_PRE_STOP_SLEEP, CRR_UNREADY_ACQUIRED};
use api::kinds::ObjectMeta;
use api::kinds::containerrecreaterequest::{ContainerRecreateRequest, FailurePolicy, KIND};
use api::labels::{CRR_ACTIVE, CRR_NODE_NAME, CRR_POD_UID, NODE_TYPE, VIRTUAL_KUBELET};
use serde::Deserialize;
use serde_json::{Value, json};

use super::pod::{Pod, is_virtual};
use crate::workload::submitted::{filled, leaves_spec};
use ::pod::template::place::Place;
use values::json_patch::{Patch, Pointer, string};
use values::read::from_str;
use values::verdict::{Denial, Verdict, refused};

/// The shortest `activeDeadlineSeconds`.
const SHORTEST_DEADLINE: i64 = 3;

/// Answers an update, in the API version of the request.
pub fn update(new: &str, old: &str, version: &str) -> Verdict {
    #[derive(Deserialize)]
    struct Head {
        metadata: ObjectMeta,
    }
    let mut patch = Patch::default();
    if !leaves_spec(new, Some(old)) {
        let Some(spec) = restored(new, old) else {
            return Verdict::deny(403, "spec of ContainerRecreateRequest is immutable");
        };
        patch.replace(Pointer::root().key("spec"), spec.to_string());
    }
    let (new, old): (Head, Head) = match (from_str(new), from_str(old)) {
        (Ok(new), Ok(old)) => (new, old),
        (Err(error), _) | (_, Err(error)) => return refused(error).into(),
    };
    let (new, old) = (new.metadata, old.metadata);
    for key in [CRR_POD_UID, CRR_NODE_NAME] {
        if new.labels.get(key) != old.labels.get(key) {
            return Verdict::deny(403, format!("not allowed to update immutable label {key}"));
        }
    }
    let key = CRR_UNREADY_ACQUIRED;
    let acquired = old.annotations.get(key);
    if version != "v1beta1" && acquired.is_some() && new.annotations.get(key) != acquired {
        return Verdict::deny(403, format!("not allowed to update immutable annotation {key}"));
    }
    if patch.is_empty() { Verdict::allow() } else { Verdict::edit(patch) }
}

/// The stored spec, where the new one is as it was written: without what the request took over from its Pod. So it comes
/// from those who apply a manifest again.
fn restored(new: &str, old: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct Head {
        spec: Value,
    }
    let read = |object: &str| serde_json::from_str::<Head>(object).ok().map(|head| head.spec);
    let (mut spec, stored) = (read(new)?, read(old)?);
    let complete = |part: &mut Value, stored: &Value, fields: &[&str]| {
        let Some(part) = part.as_object_mut() else { return };
        for field in fields {
            if let (false, Some(value)) = (part.contains_key(*field), stored.get(field)) {
                part.insert((*field).to_owned(), value.clone());
            }
        }
    };
    let strategy = spec.as_object_mut()?.entry("strategy").or_insert_with(|| json!({}));
    complete(strategy, stored.get("strategy")?, &["failurePolicy", "terminationGracePeriodSeconds"]);
    let containers = spec.get_mut("containers")?.as_array_mut()?;
    for (container, stored) in containers.iter_mut().zip(stored.get("containers")?.as_array()?) {
        complete(container, stored, &["preStop", "ports", "statusContext"]);
    }
    (spec == stored).then_some(stored)
}

/// A new request, sound in itself.
#[derive(Clone, Debug)]
pub struct Request {
    object: Value,
    read: ContainerRecreateRequest,
    /// What the schema requires, where it was left out.
    required: Patch,
}

/// A new request, and its Pod.
#[derive(Debug)]
pub struct Bound<'a> {
    request: &'a Request,
    pod: Pod<'a>,
}

impl Request {
    /// Reads a new request; both versions have the same spec.
    ///
    /// # Errors
    /// Code 400 for one that says what it may not, whatever its Pod is.
    pub fn read(object: &str) -> Result<Self, Denial> {
        let (object, required) = filled(object, None, KIND)?;
        let read: ContainerRecreateRequest = from_str(&object.to_string()).map_err(refused)?;
        let (spec, strategy) = (&read.spec, &read.spec.strategy);
        let is_negative = |number: Option<i64>| number.is_some_and(|number| number < 0);
        let problem = if spec.pod_name.is_empty() {
            "podName can not be empty"
        } else if spec.containers.is_empty() {
            "containers list can not be null"
        } else if spec.active_deadline_seconds.is_some_and(|deadline| deadline < SHORTEST_DEADLINE) {
            "activeDeadlineSeconds can not be less than 3s"
        } else if is_negative(strategy.termination_grace_period_seconds) {
            "terminationGracePeriodSeconds must be non-negative integer"
        } else if is_negative(strategy.unready_grace_period_seconds) {
            "unreadyGracePeriodSeconds must be non-negative integer"
        } else if is_negative(strategy.min_started_seconds.map(i64::from)) {
            "minStartedSeconds must be non-negative integer"
        } else if let Some(FailurePolicy::Other(policy)) = &strategy.failure_policy {
            return Err(refused(format!("unknown failurePolicy {policy}")));
        } else {
            return Ok(Self { object, read, required });
        };
        Err(refused(problem))
    }

    /// The name of the Pod.
    pub fn pod_name(&self) -> &str {
        &self.read.spec.pod_name
    }

    /// The request with the text of its Pod, if there is one of that name.
    ///
    /// # Errors
    /// Code 400 where there is none, or one whose containers can't be restarted.
    pub fn bind<'a>(&'a self, pod: Option<&'a str>) -> Result<Bound<'a>, Denial> {
        let pod = pod.ok_or_else(|| refused(format!("no found Pod named {}", self.pod_name())))?;
        Ok(Bound { request: self, pod: Pod::read(pod)? })
    }
}

impl Bound<'_> {
    /// The name of the Pod's node.
    pub fn node(&self) -> &str {
        self.pod.node()
    }

    /// What the request takes over. `node` is the text of the Node, if it exists.
    ///
    /// # Errors
    /// Code 400 for containers that can't be restarted.
    pub fn complete(&self, node: Option<&str>) -> Result<Patch, Denial> {
        let name = self.node();
        let node =
            node.ok_or_else(|| refused(format!("failed to get Node {name}: Node \"{name}\" not found")))?;
        let mut patch = self.request.required.clone();
        let root = Place::new(&self.request.object, Pointer::root());
        let mut labels =
            BTreeMap::from([(CRR_ACTIVE, "true"), (CRR_NODE_NAME, name), (CRR_POD_UID, self.pod.uid())]);
        if is_virtual(node) {
            labels.insert(NODE_TYPE, VIRTUAL_KUBELET);
        }
        let sleeps = self.complete_spec(&root, &mut patch)?;
        if let Some(metadata) = root.child_or_new("metadata", &mut patch) {
            set_entries(&metadata, "labels", labels, &mut patch);
            if !sleeps.is_empty() {
                let sleeps = json!(sleeps).to_string();
                set_entries(
                    &metadata,
                    "annotations",
                    BTreeMap::from([(CRR_PRE_STOP_SLEEP, &*sleeps)]),
                    &mut patch,
                );
            }
        }
        Ok(patch)
    }

    /// Gives how long preStop hooks sleep, by container.
    fn complete_spec(&self, root: &Place<'_>, patch: &mut Patch) -> Result<BTreeMap<&str, i64>, Denial> {
        let mut sleeps = BTreeMap::new();
        let Some(spec) = root.child("spec") else { return Ok(sleeps) };
        if let Some(strategy) = spec.child_or_new("strategy", patch) {
            strategy.default_text("failurePolicy", "Fail", patch);
            if let Some(seconds) = self.pod.grace_period() {
                strategy.default_json("terminationGracePeriodSeconds", &seconds.to_string(), patch);
            }
        }
        let mut seen = BTreeSet::new();
        for (place, container) in spec.list("containers").zip(&self.request.read.spec.containers) {
            let name = &*container.name;
            if !seen.insert(name) {
                return Err(refused(format!("can not recreate {name} multi times")));
            }
            if container.pre_stop.is_some()
                || !container.ports.is_empty()
                || container.status_context.is_some()
            {
                return Err(refused("preStop, ports, statusContext in container are ready-only fields"));
            }
            let copied = self.pod.container(name)?;
            let fields = [
                ("preStop", copied.pre_stop),
                ("ports", copied.ports),
                ("statusContext", Some(copied.status_context)),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    patch.add(place.pointer(field), value);
                }
            }
            sleeps.extend(copied.sleep.map(|seconds| (name, seconds)));
        }
        Ok(sleeps)
    }
}

/// Sets entries of a map of texts where they differ.
fn set_entries(holder: &Place<'_>, name: &str, entries: BTreeMap<&str, &str>, patch: &mut Patch) {
    let Some(existing) = holder.child_or_new(name, patch) else { return };
    for (key, value) in entries {
        if existing.get(key).and_then(Value::as_str) != Some(value) {
            patch.add(existing.pointer(key), string(value));
        }
    }
}
