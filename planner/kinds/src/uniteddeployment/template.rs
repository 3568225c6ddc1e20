//! The workload of a subset, made from the raw template: fields that nobody here knows are in it too
//! (docs/behaviour/uniteddeployment.md#what-a-workload-gets).

use std::collections::BTreeMap;

use api::Raw;
use api::annotations::SUBSET_PATCH;
use api::kinds::uniteddeployment::{API_VERSION, KIND, Subset, UnitedDeployment};
use api::labels::{SUBSET_NAME, UNITED_REVISION};
use api::raw_object::{RawNode, RawObject};
use serde::Deserialize;

use super::children::ChildKind;
use crate::workload::owner::Owner;
use pod::placement::{add_required_term, append, taken};
use values::canonical::table;
use values::strategic_merge;

#[cfg(test)]
mod tests;

/// The longest name that the API server generates names from.
const LONGEST_PREFIX: usize = 253;

/// What the workload of a subset is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What it is.
    pub kind: ChildKind,
    /// The subset.
    pub subset: Subset,
    /// Pods that it is to have.
    pub replicas: i32,
    /// Pods that it keeps at the old revision.
    pub partition: i32,
    /// The revision of the UnitedDeployment.
    pub revision: String,
    /// How many Pods may be unavailable while a rollout continues beside Pods that wait; `None` where the template alone decides.
    pub allowance: Option<Allowance>,
}

/// How many Pods may be unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// As many as the template says.
    pub own: i32,
    /// And as many as will not be ready soon.
    pub lacking: i32,
}

impl Allowance {
    /// All of them.
    pub(super) fn sum(self) -> i32 {
        self.own.saturating_add(self.lacking)
    }
}

impl Target {
    /// The patch of the subset, as the workload's annotation has it.
    pub(super) fn patch(&self) -> &str {
        self.subset.patch.as_ref().filter(|patch| !patch.is_null()).map(Raw::get).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// The workload of a subset that has none yet.
///
/// # Errors
/// Why it can't be made.
pub fn new_child(united: &UnitedDeployment, target: &Target) -> Result<String, String> {
    let mut metadata = RawObject::default();
    let name = &united.metadata.name;
    let prefix =
        Some(format!("{name}-{}-", target.subset.name)).filter(|prefix| prefix.len() <= LONGEST_PREFIX);
    metadata.insert("generateName", RawNode::string(&prefix.unwrap_or_else(|| format!("{name}-"))));
    metadata.insert("namespace", RawNode::string(&united.metadata.namespace));
    let mut object = RawObject::default();
    object.insert("apiVersion", RawNode::string(target.kind.api_version()));
    object.insert("kind", RawNode::string(target.kind.kind()));
    object.insert("metadata", metadata.into());
    fill_in(&mut object, united, target)?;
    Ok(object.to_string())
}

/// A workload that is there, with what its template, its subset and its share say now. Labels and annotations that others
/// set stay, as does its status.
///
/// # Errors
/// Why it can't be made.
pub fn changed_child(live: &str, united: &UnitedDeployment, target: &Target) -> Result<String, String> {
    let mut object =
        RawObject::parse(live).map_err(|error| format!("the workload can't be read: {error}"))?;
    fill_in(&mut object, united, target)?;
    Ok(object.to_string())
}

fn fill_in<'a>(
    object: &mut RawObject<'a>,
    united: &'a UnitedDeployment,
    target: &'a Target,
) -> Result<(), String> {
    let template = target.kind.template(&united.spec.template).ok_or("the template is missing")?;
    let given = template.metadata.as_ref().filter(|metadata| !metadata.is_null());
    let given: Option<Metadata> = given
        .map(|metadata| serde_json::from_str(metadata.get()))
        .transpose()
        .map_err(|error| format!("the metadata of the template can't be read: {error}"))?;
    let given = given.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    labels.extend(united.spec.selector.match_labels.clone().unwrap_or_default());
    labels.extend(names(target));
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.insert(SUBSET_PATCH.to_owned(), target.patch().to_owned());
    let owner = Owner::of(API_VERSION, KIND, &united.metadata);
    object.edit_object("metadata", |metadata| {
        for (member, pairs) in [("labels", &labels), ("annotations", &annotations)] {
            metadata.edit_object(member, |known| set_all(known, pairs));
        }
        if metadata.get("ownerReferences").is_none() {
            metadata.insert("ownerReferences", owner.references());
        }
    });
    let spec = template.spec.as_ref().filter(|spec| !spec.is_null()).map_or("{}", Raw::get);
    object.insert("spec", of_spec(spec, united, target)?.into());
    Ok(())
}

/// The labels by which a workload and its Pods are known.
fn names(target: &Target) -> [(String, String); 2] {
    [
        (SUBSET_NAME.to_owned(), target.subset.name.clone()),
        (UNITED_REVISION.to_owned(), target.revision.clone()),
    ]
}

fn set_all(object: &mut RawObject<'_>, pairs: &BTreeMap<String, String>) {
    for (key, value) in pairs {
        object.insert(key, RawNode::string(value));
    }
}

fn of_spec<'a>(
    text: &'a str,
    united: &UnitedDeployment,
    target: &'a Target,
) -> Result<RawObject<'a>, String> {
    let unreadable = |error| format!("the spec of the template can't be read: {error}");
    let mut spec = RawObject::parse(text).map_err(unreadable)?;
    let mut selector = united.spec.selector.clone();
    let labels = selector.match_labels.get_or_insert_default();
    labels.insert(SUBSET_NAME.to_owned(), target.subset.name.clone());
    // Texts only: writing them as JSON cannot fail.
    let selector = serde_json::value::to_raw_value(&selector).map_err(unreadable)?;
    spec.insert("selector", RawNode::from_owned_raw(selector));
    spec.insert("replicas", RawNode::integer(target.replicas.into()));
    set_strategy(&mut spec, target);
    let mut template = taken(&mut spec, "template");
    template.edit_object("metadata", |metadata| {
        metadata.edit_object("labels", |labels| set_all(labels, &names(target).into_iter().collect()));
    });
    let mut pod = taken(&mut template, "spec");
    let tolerations = target.subset.tolerations.iter().map(|raw| RawNode::from_raw(raw.as_raw_value()));
    append(&mut pod, "tolerations", tolerations);
    if let Some(term) = target.subset.node_selector_term.as_ref().filter(|term| !term.is_null()) {
        let mut affinity = taken(&mut pod, "affinity");
        let mut nodes = taken(&mut affinity, "nodeAffinity");
        add_required_term(&mut nodes, term).ok_or("nodeSelectorTerm can't be read")?;
        if !nodes.is_empty() {
            affinity.insert("nodeAffinity", nodes.into());
        }
        if !affinity.is_empty() {
            pod.insert("affinity", affinity.into());
        }
    }
    template.insert("spec", pod.into());
    let patch = target.patch();
    let template = if patch.is_empty() {
        RawNode::from(template)
    } else {
        let merged = strategic_merge::merge(&template.to_string(), patch, &table::POD_TEMPLATE_SPEC)
            .map_err(|error| {
                format!("failed to merge the patch of subset {}: {error}", target.subset.name)
            })?;
        RawNode::from_owned_raw(serde_json::value::RawValue::from_string(merged).map_err(unreadable)?)
    };
    spec.insert("template", template);
    Ok(spec)
}

/// Sets the partition where the workload has one, and what else is not for the template to decide.
fn set_strategy(spec: &mut RawObject<'_>, target: &Target) {
    let kind = target.kind;
    spec.edit_object(kind.strategy(), |strategy| {
        let word = strategy.string("type").unwrap_or_default();
        let rolls = matches!(word.as_str(), "" | "RollingUpdate");
        if kind == ChildKind::CloneSet || (kind.has_partition() && rolls) {
            strategy.edit_object("rollingUpdate", |rolling| {
                rolling.insert("partition", RawNode::integer(target.partition.into()));
            });
        }
        if kind == ChildKind::StatefulSet && rolls {
            strategy.insert("type", RawNode::string("RollingUpdate"));
        }
        if let Some(allowance) = target.allowance.filter(|allowance| allowance.lacking > 0) {
            strategy.edit_object("rollingUpdate", |rolling| {
                rolling.insert("maxUnavailable", RawNode::integer(allowance.sum().into()));
            });
        }
    });
}
