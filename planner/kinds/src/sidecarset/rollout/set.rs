//! What the controller keeps of a SidecarSet, and which Pods belong to it.

use std::collections::BTreeMap;
use std::fmt;

use api::Raw;
use api::annotations::{
    SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_INJECTED_LIST, SIDECARSET_PODS,
};
use api::meta::LabelSelector;
use api::sidecarset::{InjectionRevision, IntOrString, SidecarContainer, SidecarSet, Status};
use serde::Deserialize;

use super::record;
use crate::sidecarset::contribution::AnnotationPatch;
use crate::sidecarset::subject::Subject;
use crate::workload::update_order::UpdateOrder;
use pod::observed::ObservedPod;
use values::selector::{Labels, Selector};

/// A SidecarSet, read once, with its selectors and strategies compiled.
#[derive(Clone, Debug)]
pub struct RolloutSet {
    /// The SidecarSet's name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// The version of the object that was read.
    pub resource_version: Box<str>,
    /// Grows with every change of `spec`.
    pub generation: i64,
    /// Its deletion was asked for: nothing is done any more.
    pub deleting: bool,
    /// What the controller wrote last.
    pub status: Status,
    /// What it says about the account of its Pods.
    pub subject: Subject,
    pub(super) hash: Box<str>,
    pub(super) hash_without_image: Box<str>,
    pub(super) sidecars: Box<[Sidecar]>,
    /// Names of native sidecars and containers, sorted: what Pods get to know.
    pub(super) sidecar_list: Box<[Box<str>]>,
    pub(super) strategy: Strategy,
    pub(super) patches: Box<[AnnotationPatch]>,
    pub(in crate::sidecarset) recorded: Recorded,
    selector: Option<Selector>,
    namespaces: Namespaces,
}

/// The content of ControllerRevisions, and how many are kept.
#[derive(Clone, Debug)]
pub(in crate::sidecarset) struct Recorded {
    pub(in crate::sidecarset) spec: Raw,
    pub(in crate::sidecarset) labels: BTreeMap<String, String>,
    pub(in crate::sidecarset) annotations: BTreeMap<String, String>,
    pub(in crate::sidecarset) custom_version: Box<str>,
    pub(in crate::sidecarset) limit: Option<i32>,
    pub(in crate::sidecarset) pin: Option<InjectionRevision>,
}

/// An element of `spec.containers`.
#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    pub(super) name: Box<str>,
    pub(super) image: Box<str>,
    /// Of a pair of twins, the image of the idle one.
    pub(super) empty_image: Option<Box<str>>,
}

/// `spec.updateStrategy`, compiled.
#[derive(Clone, Debug)]
pub(super) struct Strategy {
    /// Running Pods are left alone.
    pub(super) never: bool,
    pub(super) paused: bool,
    /// Only these Pods are updated. One that can't be used selects nobody.
    pub(super) selector: Option<Option<Selector>>,
    pub(super) partition: Option<IntOrString>,
    pub(super) max_unavailable: Option<IntOrString>,
    pub(super) order: UpdateOrder,
}

#[derive(Clone, Debug)]
enum Namespaces {
    All,
    Matching(Selector),
    /// The selector is empty or can't be used.
    None,
}

/// Why a Pod does not belong to a SidecarSet, although its labels may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExclusionReason {
    /// Its labels do not match.
    OtherLabels,
    /// It has ended or is being deleted.
    Inactive,
    /// It was created before the SidecarSet, or skipped injection.
    NotInjected,
    /// It lacks this container: the SidecarSet has other containers than when the Pod was created.
    Lacks(Box<str>),
}

impl fmt::Display for ExclusionReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherLabels => formatter.write_str("its labels do not match spec.selector"),
            Self::Inactive => formatter.write_str("it has ended or is being deleted"),
            Self::NotInjected => formatter.write_str("it was created without the sidecars; recreate it"),
            Self::Lacks(container) => write!(formatter, "it has no container {container}; recreate it"),
        }
    }
}

impl RolloutSet {
    /// Reads a SidecarSet in version v1beta1 from its JSON text. What older versions of the webhooks let
    /// pass never makes it unreadable: a selector that can't be used selects nothing.
    ///
    /// # Errors
    /// A text that is no SidecarSet.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(default)]
            spec: Option<Raw>,
        }
        let SidecarSet { mut metadata, spec, status } = serde_json::from_str(json)?;
        let subject = Subject::of(&metadata);
        // It follows the Pods: no part of what is recorded.
        metadata.annotations.remove(SIDECARSET_PODS);
        let raw = serde_json::from_str::<Whole>(json)?.spec;
        let annotation = |key: &str| metadata.annotations.get(key).map_or("", String::as_str).into();
        let natives = spec.init_containers.iter().filter(|container| container.is_native_sidecar());
        let mut sidecar_list: Vec<Box<str>> =
            natives.chain(&spec.containers).map(|container| container.name().into()).collect();
        sidecar_list.sort();
        let update = &spec.update_strategy;
        Ok(Self {
            hash: annotation(SIDECARSET_HASH),
            hash_without_image: annotation(SIDECARSET_HASH_WITHOUT_IMAGE),
            sidecars: spec.containers.iter().map(Sidecar::new).collect(),
            sidecar_list: sidecar_list.into(),
            strategy: Strategy {
                never: update.is_not_update(),
                paused: update.paused,
                selector: update.selector.as_ref().map(|selector| Selector::compile(selector).ok()),
                partition: update.partition.clone(),
                max_unavailable: update.max_unavailable.clone(),
                order: UpdateOrder::of_sidecar_set(
                    update.priority_strategy.as_ref(),
                    &update.scatter_strategy,
                ),
            },
            patches: spec.patch_pod_metadata.iter().filter_map(AnnotationPatch::prepare).collect(),
            selector: spec.selector.as_ref().and_then(usable),
            namespaces: match &spec.namespace_selector {
                None => Namespaces::All,
                Some(selector) => usable(selector).map_or(Namespaces::None, Namespaces::Matching),
            },
            recorded: Recorded {
                spec: raw.map_or_else(|| Raw::parse("{}"), Ok)?,
                labels: metadata.labels,
                annotations: metadata.annotations,
                custom_version: spec.custom_version.into(),
                limit: spec.revision_history_limit,
                pin: spec.injection_strategy.revision,
            },
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.into(),
            generation: metadata.generation.unwrap_or(0),
            deleting: metadata.deletion_timestamp.is_some(),
            status,
            subject,
        })
    }

    /// True if Pods of a namespace with these labels may belong to it; `None` means a namespace that
    /// does not exist, which no selector matches.
    pub fn selects_namespace(&self, labels: Option<&(impl Labels + ?Sized)>) -> bool {
        match &self.namespaces {
            Namespaces::All => true,
            Namespaces::Matching(selector) => labels.is_some_and(|labels| selector.matches(labels)),
            Namespaces::None => false,
        }
    }

    /// True if every sidecar is in the Pod, as a container or as a pair of twins
    /// (docs/behaviour/sidecarset.md#triggers).
    pub fn fits(&self, pod: &ObservedPod) -> bool {
        self.lacking(pod).is_none()
    }

    /// Whether a Pod of a selected namespace belongs to the SidecarSet
    /// (docs/behaviour/sidecarset.md#pods-of-a-sidecarset).
    ///
    /// # Errors
    /// Why it does not.
    pub fn belongs(&self, pod: &ObservedPod) -> Result<(), ExclusionReason> {
        if !self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels)) {
            return Err(ExclusionReason::OtherLabels);
        }
        if !pod.is_active() {
            return Err(ExclusionReason::Inactive);
        }
        if !injected(pod).any(|name| name == &*self.name) {
            return Err(ExclusionReason::NotInjected);
        }
        self.lacking(pod).map_or(Ok(()), |container| Err(ExclusionReason::Lacks(container)))
    }

    fn lacking(&self, pod: &ObservedPod) -> Option<Box<str>> {
        // One that became a native sidecar is not updated.
        let has = |name: &str| pod.spec.containers.iter().any(|container| *container.name == *name);
        let hot = self.sidecars.iter().any(|sidecar| sidecar.empty_image.is_some());
        let working = if hot { record::working_twins(pod) } else { BTreeMap::new() };
        self.sidecars.iter().find_map(|sidecar| match sidecar.empty_image {
            None => (!has(&sidecar.name)).then(|| sidecar.name.clone()),
            Some(_) if !working.contains_key(&*sidecar.name) => Some(sidecar.name.clone()),
            Some(_) => sidecar.twins().into_iter().find(|twin| !has(twin)).map(String::into),
        })
    }
}

impl Sidecar {
    fn new(container: &SidecarContainer) -> Self {
        let fields = &container.fields;
        Self {
            name: fields.name.as_str().into(),
            image: fields.image.as_str().into(),
            empty_image: container
                .is_hot_upgrade()
                .then(|| fields.upgrade_strategy.hot_upgrade_empty_image.as_str().into()),
        }
    }

    /// The names under which it is in a Pod: its own, or those of the two twins.
    pub(super) fn names_in_pod(&self) -> Vec<String> {
        match self.empty_image {
            Some(_) => self.twins().into(),
            None => vec![self.name.to_string()],
        }
    }

    /// The names of the two containers of a hot upgrade.
    pub(super) fn twins(&self) -> [String; 2] {
        [format!("{}-1", self.name), format!("{}-2", self.name)]
    }
}

/// A selector that matches something: an empty one, which would match everything, matches nothing.
fn usable(selector: &LabelSelector) -> Option<Selector> {
    Selector::compile(selector).ok().filter(|selector| !selector.is_empty())
}

/// The names of the SidecarSets whose sidecars a Pod has.
pub fn injected(pod: &ObservedPod) -> impl Iterator<Item = &str> {
    injected_names(pod.annotation(SIDECARSET_INJECTED_LIST).unwrap_or_default())
}

/// The names in a list of SidecarSets, as Pods have it.
pub(in crate::sidecarset) fn injected_names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}
