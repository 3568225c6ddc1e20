//! Whether a running Pod can be changed from one template to another
//! (docs/behaviour/in-place-update.md#what-can-change-in-place).

use std::collections::{BTreeMap, BTreeSet};

use api::features::Feature;

use super::environment::{self, Source};
use super::qos::{QosClass, qos_class};
use super::resize::ResizeProblem;
use super::spec::{MetadataPatch, UpdateSpec};
use super::template::{Difference, Operation, Template, differences, text};
use crate::observed::Pairs;
use values::quantity::Quantity;
use values::server_version::ServerVersion;

/// What the decision hangs on beside the templates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// What the Pod's label will say: the new revision's name; of a DaemonSet its short hash.
    pub revision: &'a str,
    /// Seconds between marking the Pod and changing its containers.
    pub grace_seconds: i32,
    /// The volume claim templates changed, and that counts: gate `RecreatePodWhenChangeVCTInCloneSetGate`
    /// is on and the update policy is not `InPlaceOnly`.
    pub claims_differ: bool,
    /// Gate `InPlaceUpdateEnvFromMetadata`.
    pub env_from_metadata: bool,
    /// Gate `InPlaceWorkloadVerticalScaling`.
    pub vertical_scaling: bool,
    /// The API server, which says whether native sidecars can be changed.
    pub server: ServerVersion,
}

/// Why Pods must be recreated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A part of the template changed that a running Pod can't change.
    #[error("{operation} {path} needs a new Pod")]
    Unchangeable {
        /// What was done.
        operation: Operation,
        /// Where, as a JSON pointer in `spec.template`.
        path: String,
    },
    /// A change of resources while their gate is off.
    #[error("{operation} {path} needs a new Pod while the feature gate {gate} is off", gate = Feature::InPlaceWorkloadVerticalScaling)]
    GateOff {
        /// What was done.
        operation: Operation,
        /// Where, as a JSON pointer in `spec.template`.
        path: String,
    },
    /// The quality of service of a running Pod is fixed.
    #[error("the quality of service would change from {old} to {new}, which needs a new Pod")]
    QualityOfService {
        /// That of the old template.
        old: QosClass,
        /// That of the new template.
        new: QosClass,
    },
    /// The volume claim templates changed.
    #[error("spec.volumeClaimTemplates changed, which needs a new Pod")]
    Claims,
    /// The Pod's revision is not in the history, so what changed since is not known.
    #[error("the Pod's revision is no longer in the history, so what changed is not known")]
    UnknownRevision,
    /// Its Node can't give the Pod its new resources.
    #[error("{0}")]
    Resize(ResizeProblem),
    /// A recorded template can't be read.
    #[error("the recorded template can't be read: {0}")]
    Unreadable(String),
}

/// The change that takes a Pod from `old` to `new` in place. It hangs on the templates alone, so it holds
/// for every Pod of the old revision.
///
/// # Errors
/// Why that needs a new Pod.
pub fn decide(old: &Template, new: &Template, options: &Options<'_>) -> Result<UpdateSpec, Reason> {
    if options.claims_differ {
        return Err(Reason::Claims);
    }
    let mut spec = UpdateSpec {
        revision: options.revision.to_owned(),
        grace_seconds: options.grace_seconds.max(0),
        ..UpdateSpec::default()
    };
    for difference in differences(old, new) {
        classify(&difference, old, new, options, &mut spec)?;
    }
    if !spec.container_resources.is_empty() {
        let (old, new) = (qos_class(old.all_containers()), qos_class(new.all_containers()));
        if old != new {
            return Err(Reason::QualityOfService { old, new });
        }
    }
    change_metadata(old, new, options, &mut spec);
    Ok(spec)
}

/// Adds a difference outside of `metadata` to the change.
fn classify(
    difference: &Difference<'_>,
    old: &Template,
    new: &Template,
    options: &Options<'_>,
    spec: &mut UpdateSpec,
) -> Result<(), Reason> {
    let Difference { operation, path, value } = difference;
    let refused = || Reason::Unchangeable { operation: *operation, path: path.clone() };
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let ["spec", list @ ("containers" | "initContainers"), index, field @ ..] = parts.as_slice() else {
        return Err(refused());
    };
    let index: usize = index.parse().map_err(|_| refused())?;
    let container = old.containers(list).get(index).ok_or_else(refused)?;
    // Other init containers of a running Pod do not run again.
    let is_sidecar = *list == "initContainers";
    if is_sidecar && text(container, "restartPolicy") != "Always" {
        return Err(refused());
    }
    let name = text(container, "name").to_owned();
    match (*operation, field) {
        (Operation::Replace, ["image"]) if !is_sidecar || options.server.restarts_native_sidecars() => {
            spec.container_images.insert(name, value.as_str().ok_or_else(refused)?.to_owned());
        }
        (
            Operation::Replace,
            ["resources", amounts @ ("limits" | "requests"), resource @ ("cpu" | "memory")],
        ) if !is_sidecar || options.server.resizes_native_sidecars() => {
            if !options.vertical_scaling {
                return Err(Reason::GateOff { operation: *operation, path: path.clone() });
            }
            let quantity = value.as_str().filter(|text| text.parse::<Quantity>().is_ok());
            let quantity = quantity.ok_or_else(refused)?;
            let resources = spec.container_resources.entry(name).or_default();
            if *amounts == "limits" {
                set(&mut resources.limits, resource, quantity);
                // The API server gave the Pod a request as large as this limit where it had none.
                let container = new.containers(list).get(index);
                let requests = container.and_then(|container| container.pointer("/resources/requests"));
                if requests.and_then(|requests| requests.get(resource)).is_none() {
                    set(&mut resources.requests, resource, quantity);
                }
            } else {
                set(&mut resources.requests, resource, quantity);
            }
        }
        _ => return Err(refused()),
    }
    Ok(())
}

fn set(pairs: &mut Pairs, key: &str, value: &str) {
    *pairs = pairs.iter().chain([(key, value)]).collect();
}

/// Adds the changes of labels, annotations and finalizers. Maps are compared key by key, so the first
/// label of a template is a label like any other.
fn change_metadata(old: &Template, new: &Template, options: &Options<'_>, spec: &mut UpdateSpec) {
    let labels = changed_pairs(old, new, "labels");
    let annotations = changed_pairs(old, new, "annotations");
    let (old_finalizers, new_finalizers) = (old.finalizers(), new.finalizers());
    if labels.is_empty() && annotations.is_empty() && old_finalizers == new_finalizers {
        return;
    }
    let lacking = |wanted: &[&str], known: &[&str]| {
        wanted.iter().filter(|name| !known.contains(name)).map(|name| (*name).to_owned()).collect()
    };
    let mut patch = MetadataPatch {
        labels,
        annotations,
        finalizers: lacking(&new_finalizers, &old_finalizers),
        removed_finalizers: lacking(&old_finalizers, &new_finalizers),
    };
    if options.env_from_metadata {
        let mut referenced = BTreeSet::new();
        for container in new.containers("containers") {
            for source in environment::sources(container) {
                let value = match &source {
                    Source::Label(key) => patch.labels.get(*key),
                    Source::Annotation(key) => patch.annotations.get(*key),
                };
                let Some(Some(value)) = value else { continue };
                let metadata =
                    spec.container_ref_metadata.entry(text(container, "name").to_owned()).or_default();
                let (pairs, key) = match source {
                    Source::Label(key) => (&mut metadata.labels, key),
                    Source::Annotation(key) => (&mut metadata.annotations, key),
                };
                pairs.insert(key.to_owned(), value.clone());
                referenced.insert(source);
            }
        }
        for source in &referenced {
            match source {
                Source::Label(key) => patch.labels.remove(*key),
                Source::Annotation(key) => patch.annotations.remove(*key),
            };
        }
        spec.update_env_from_metadata = !referenced.is_empty();
    }
    spec.metadata_patch = Some(patch);
}

/// New values, and nothing where the key is gone.
fn changed_pairs(old: &Template, new: &Template, field: &str) -> BTreeMap<String, Option<String>> {
    let old: BTreeMap<&str, &str> = old.pairs(field).collect();
    let new: BTreeMap<&str, &str> = new.pairs(field).collect();
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| ((*key).to_owned(), None));
    let set = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    gone.chain(set.map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())))).collect()
}
