//! PodProbeMarkers on serverless platforms
//! (docs/behaviour/pod-mutation.md#podprobemarker-on-serverless-platforms): the probes that a platform
//! without our node daemon runs itself are written on every new Pod, since its node is not known yet.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use api::Raw;
use api::annotations::{POD_PROBE, POD_PROBE_MARKER_LIST};
use api::features::Feature;
use api::kinds::podprobemarker::{ContainerProbe, PodProbeMarker};
use serde::de::Error as _;

use crate::workload::namespaced::{Entry, Namespaced};
use pod::review::{Draft, Reasons, ReviewContext};
use pod::selector::PodSelector;
use values::canonical::{Kind, Unknown, canonical_json, table};
use values::json_patch::string;
use values::selector::SelectorError;

/// A PodProbeMarker as far as new Pods need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    name: Box<str>,
    selector: PodSelector,
    /// Those that write a condition: a platform knows of nothing else.
    probes: Vec<Probe>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Probe {
    container: Box<str>,
    name: Box<str>,
    condition: Box<str>,
    /// The element of the Pod's annotation.
    text: Box<str>,
}

/// What a marker is to a new Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// These probes of it, as `container/name`, are written on the Pod.
    Probes(Vec<String>),
    /// It is meant for the Pod, but none of its probes is left: each lacks `podConditionType`, names a
    /// container that the Pod has not, or repeats the condition or the name of an earlier one.
    NoProbes,
    /// The Pod names its markers, and this one is not among them.
    NotNamed,
    /// `spec.selector` does not match the Pod's labels.
    OtherLabels,
    /// `spec.selector` is unset or empty and so matches no Pod.
    EmptySelector,
    /// `spec.selector` can't be used.
    BrokenSelector(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probes(probes) => write!(formatter, "written on the Pod: {}", probes.join(", ")),
            Self::NoProbes => formatter.write_str(
                "meant for the Pod, but each of its probes lacks a podConditionType, is for another container \
                 or repeats an earlier one",
            ),
            Self::NotNamed => {
                write!(formatter, "not written: annotation {POD_PROBE_MARKER_LIST} of the Pod names others")
            }
            Self::OtherLabels => {
                formatter.write_str("not written: spec.selector does not match the labels of the Pod")
            }
            Self::EmptySelector => {
                formatter.write_str("not written: spec.selector is empty and matches no Pod")
            }
            Self::BrokenSelector(problem) => {
                write!(formatter, "not written: spec.selector is invalid: {problem}")
            }
        }
    }
}

impl Marker {
    /// Reads the PodProbeMarker `name`; probes without a `podConditionType` are left out.
    pub fn read(name: &str, object: &str) -> Result<Self, serde_json::Error> {
        let PodProbeMarker { spec, .. } = serde_json::from_str(object)?;
        let probes = spec.probes.iter().filter(|probe| !probe.pod_condition_type.is_empty());
        Ok(Self {
            name: name.into(),
            selector: PodSelector::compile(Some(&spec.selector)),
            probes: probes.map(Probe::prepare).collect::<Result<_, _>>()?,
        })
    }

    /// Why the selector can't be used, if so.
    pub fn problem(&self) -> Option<&SelectorError> {
        self.selector.problem()
    }

    /// Why it is not meant for the Pod; `None` where it is. A Pod that names its markers needs no match.
    fn mismatch(&self, named: Option<&BTreeSet<&str>>, draft: &Draft<'_>) -> Option<Reason> {
        if let Some(named) = named {
            return (!named.contains(&*self.name)).then_some(Reason::NotNamed);
        }
        match (&self.selector, self.selector.matches(draft.labels.as_slice())) {
            (PodSelector::Nothing, _) => Some(Reason::EmptySelector),
            (_, Ok(true)) => None,
            (_, Ok(false)) => Some(Reason::OtherLabels),
            (_, Err(error)) => Some(Reason::BrokenSelector(error.to_string())),
        }
    }
}

impl Entry for Marker {
    fn name(&self) -> &str {
        &self.name
    }

    fn precedence(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl Probe {
    fn prepare(probe: &ContainerProbe) -> Result<Self, serde_json::Error> {
        let ContainerProbe { name, container_name, pod_condition_type, probe, .. } = probe;
        let probe = probe.as_ref().map_or("{}", Raw::get);
        let probe = canonical_json(probe, &Kind::Struct(&table::PROBE), Unknown::Keep)
            .map_err(|error| serde_json::Error::custom(format!("spec.probes: probe {name}: {error}")))?;
        let text = format!(
            r#"{{"name":{},"containerName":{},"probe":{probe},"podConditionType":{}}}"#,
            string(name),
            string(container_name),
            string(pod_condition_type)
        );
        Ok(Self {
            container: container_name.as_str().into(),
            name: name.as_str().into(),
            condition: pod_condition_type.as_str().into(),
            text: text.into(),
        })
    }
}

/// Writes the probes of the markers that are meant for the Pod, the first of each condition and name.
pub fn mutate(
    draft: &mut Draft<'_>,
    context: &ReviewContext<'_>,
    markers: &Namespaced<Marker>,
    reasons: &mut Reasons<Reason>,
) {
    if !context.gates.enabled(Feature::EnablePodProbeMarkerOnServerless) {
        return;
    }
    let markers = markers.of(&draft.namespace);
    if markers.is_empty() {
        return;
    }
    let named = draft.annotation(POD_PROBE_MARKER_LIST).filter(|list| !list.is_empty());
    let named: Option<BTreeSet<&str>> = named.map(|list| list.split(',').map(str::trim).collect());
    let sidecars = draft.init_containers.iter().filter(|container| container.restarts_always);
    let containers: HashSet<&str> =
        draft.containers.iter().chain(sidecars).map(|container| &*container.name).collect();
    let (mut conditions, mut names) = (HashSet::new(), HashSet::new());
    let (mut texts, mut contributing) = (Vec::new(), Vec::new());
    // In the order of their names, also where the Pod names them: the annotation is sorted, and a second
    // review that starts from it must come to the same probes.
    for marker in markers {
        let reason = marker.mismatch(named.as_ref(), draft).unwrap_or_else(|| {
            let mut taken = Vec::new();
            for probe in marker.probes.iter().filter(|probe| containers.contains(&*probe.container)) {
                let name = (&*probe.container, &*probe.name);
                if conditions.contains(&*probe.condition) || names.contains(&name) {
                    continue;
                }
                conditions.insert(&*probe.condition);
                names.insert(name);
                texts.push(&*probe.text);
                taken.push(format!("{}/{}", probe.container, probe.name));
            }
            if taken.is_empty() {
                return Reason::NoProbes;
            }
            contributing.push(&*marker.name);
            Reason::Probes(taken)
        });
        reasons.note(&marker.name, || reason);
    }
    if !texts.is_empty() {
        let (probes, list) = (format!("[{}]", texts.join(",")), contributing.join(","));
        draft.set_annotation(POD_PROBE, probes);
        draft.set_annotation(POD_PROBE_MARKER_LIST, list);
    }
}
