//! The ReplicaSets of a Deployment: those that it manages. None is adopted, which Kubernetes' own controller does.

use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};
use api::meta::LabelSelector;
use kinds::workload::resolved::DEPLOYMENT_REVISION;
use kinds::workload::status::selector_text;
use pod::template::comparison;
use serde_json::{Map, Value};

use super::APPS;
use crate::object::{Object as _, ObjectName};
use crate::view::{ListName, Unread, View};

/// A ReplicaSet.
#[derive(Clone, Debug)]
pub(super) struct Set<'a> {
    pub(super) object: &'a Value,
    /// How many Pods it is to have.
    pub(super) replicas: i64,
    /// How many of these are available. Its controller ends others first.
    pub(super) available: i64,
    /// How many Pods are ready.
    pub(super) ready: i64,
    /// Its number in the history of the Deployment.
    pub(super) revision: i64,
    /// Its template is the one before the release.
    pub(super) is_stable: bool,
}

/// The ReplicaSets of a Deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets<'a> {
    /// That of the present template; of several, the oldest.
    pub(super) new: Option<Set<'a>>,
    /// The others, the oldest first.
    pub(super) old: Vec<Set<'a>>,
}

impl<'a> Set<'a> {
    fn of(object: &'a Value, stable: Option<&str>) -> Self {
        let count =
            |pointer: &str, default| object.number(pointer).unwrap_or(default).clamp(0, i32::MAX.into());
        let replicas = count("/spec/replicas", 1);
        Self {
            object,
            replicas,
            available: count("/status/availableReplicas", 0).min(replicas),
            ready: count("/status/readyReplicas", 0),
            revision: object.annotation(DEPLOYMENT_REVISION).and_then(|text| text.parse().ok()).unwrap_or(0),
            is_stable: stable.is_some() && object.label(POD_TEMPLATE_HASH) == stable,
        }
    }
}

impl<'a> Sets<'a> {
    /// The ReplicaSets of a Deployment.
    pub(super) fn read(deployment: &Value, view: &'a View) -> Result<Self, Unread> {
        let stable = deployment.label(STABLE_REVISION);
        let mut sets = Self::default();
        for object in replica_sets(deployment, view)? {
            let set = Set::of(object, stable);
            match sets.new {
                None if same_template(deployment, object) => {
                    // What was available before its size changed may have gone.
                    let generation = object.number("/metadata/generation").unwrap_or(0);
                    let seen = object.number("/status/observedGeneration");
                    let is_seen = seen.is_none_or(|seen| seen >= generation);
                    sets.new = Some(Set { available: if is_seen { set.available } else { 0 }, ..set });
                }
                _ => sets.old.push(set),
            }
        }
        Ok(sets)
    }

    /// The number in the history of the Deployment of what comes after the old ones.
    pub(super) fn next_revision(&self) -> i64 {
        self.old.iter().map(|set| set.revision).max().unwrap_or(0).saturating_add(1)
    }
}

/// The ReplicaSets that a Deployment manages, the oldest first.
///
/// # Errors
/// They have not been read.
pub fn replica_sets<'v>(deployment: &Value, view: &'v View) -> Result<Vec<&'v Value>, Unread> {
    let namespace = deployment.text("/metadata/namespace");
    let selector = selector_text(&selector(deployment));
    let listed = view.list(&ListName::new(APPS, "ReplicaSet", namespace, &selector))?;
    let owner = Some(deployment.uid());
    let mut sets: Vec<&Value> = listed.iter().filter(|set| set.controller() == owner).collect();
    sets.sort_by_key(|set| (set.text("/metadata/creationTimestamp"), set.name()));
    Ok(sets)
}

/// A ReplicaSet has the template of its Deployment, but for the label that distinguishes ReplicaSets.
pub fn same_template(deployment: &Value, set: &Value) -> bool {
    comparison::is_same(&template_of(deployment), &template_of(set))
}

/// The template of a workload or ReplicaSet, without that label.
pub(crate) fn template_of(object: &Value) -> Value {
    let mut template = object.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// The name of a ReplicaSet.
pub(super) fn name_of(set: &Value) -> ObjectName {
    ObjectName::new(APPS, "ReplicaSet", set.text("/metadata/namespace"), set.name())
}

/// The selector of the Deployment is empty.
pub(super) fn selects_all(deployment: &Value) -> bool {
    let has =
        |pointer: &str| deployment.members(pointer).is_some_and(|labels: &Map<_, _>| !labels.is_empty());
    !has("/spec/selector/matchLabels") && deployment.items("/spec/selector/matchExpressions").is_empty()
}

fn selector(deployment: &Value) -> LabelSelector {
    let selector = deployment.pointer("/spec/selector").cloned().unwrap_or_default();
    serde_json::from_value(selector).unwrap_or_default()
}
