//! Workloads whose Pods restart when ConfigMaps or Secrets change that an annotation names
//! (docs/behaviour/in-place-update.md#configuration-that-changes).
//!
//! The template shows a hash of what they contain, so that its change is a revision like any other. The workload keeps
//! the hash that was taken in last: the template is left alone until the contents differ from that one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::annotations::{CONFIGURATION_APPLIED, CONFIGURATION_HASH, RESTART_ON};
use api::features::{Feature, FeatureGates};
use api::kinds::{Object, ObjectMeta};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use pod::inplace::environment::shows_annotation;
use pod::template::names;
use pod::template::node::invalid;
use values::event::{Event, warning};
use values::field::{FieldError, FieldPath};
use values::hash::hex_sha256;

#[cfg(test)]
mod tests;

/// The most objects that a workload may name: each is read when one of them changes.
const MOST_SOURCES: usize = 16;

/// A kind of objects that Pods may restart on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// ConfigMaps.
    ConfigMap,
    /// Secrets.
    Secret,
}

impl SourceKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// As the annotation spells it.
    const fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// An object that Pods restart on, in the namespace of their workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Its kind.
    pub kind: SourceKind,
    /// Its name.
    pub name: Box<str>,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind.word(), self.name)
    }
}

/// The objects that a workload with this metadata names; none where the annotation can't be read.
pub fn sources(metadata: &ObjectMeta) -> BTreeSet<Source> {
    let text = metadata.annotations.get(RESTART_ON);
    text.and_then(|text| read(text).ok()).unwrap_or_default()
}

/// Reads the annotation, or says what is wrong with it.
fn read(text: &str) -> Result<BTreeSet<Source>, Vec<String>> {
    let (mut sources, mut problems) = (BTreeSet::new(), Vec::new());
    for term in text.split(',').map(str::trim) {
        let (word, name) = term.split_once('/').unwrap_or_default();
        let Some(kind) = SourceKind::ALL.into_iter().find(|kind| kind.word() == word) else {
            problems.push(format!("{term:?} is not of the form configmap/NAME or secret/NAME"));
            continue;
        };
        problems.extend(names::dns_subdomain(name).into_iter().map(|problem| format!("{term:?}: {problem}")));
        sources.insert(Source { kind, name: name.into() });
    }
    if sources.len() > MOST_SOURCES {
        problems.push(format!("must name at most {MOST_SOURCES} objects"));
    }
    if problems.is_empty() { Ok(sources) } else { Err(problems) }
}

/// Checks the annotation of a workload.
pub(crate) fn validate(metadata: &ObjectMeta, errors: &mut Vec<FieldError>) {
    let Some(text) = metadata.annotations.get(RESTART_ON) else { return };
    let problems = read(text).err().unwrap_or_default();
    invalid(&FieldPath::new("metadata.annotations").key(RESTART_ON), text, problems, errors);
}

/// Why the annotation of a workload, of which this was sent, restarts nothing. `in_place` says whether its Pods are
/// updated in place.
pub(crate) fn idle(sent: &Value, in_place: bool, gates: &FeatureGates) -> Option<String> {
    sent.get("metadata")?.get("annotations")?.get(RESTART_ON)?;
    if !gates.enabled(Feature::RestartOnConfiguration) {
        let gate = Feature::RestartOnConfiguration;
        return Some(format!("annotation {RESTART_ON} restarts nothing while feature gate {gate} is off"));
    }
    let mut containers =
        sent.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let is_shown = containers.any(|container| shows_annotation(container, CONFIGURATION_HASH));
    (in_place && !is_shown).then(|| {
        format!(
            "annotation {RESTART_ON} restarts no container: those that are to restart need a variable in env whose \
             valueFrom.fieldRef.fieldPath is metadata.annotations['{CONFIGURATION_HASH}']"
        )
    })
}

/// A workload that names objects, as much of it as its metadata shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarting {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The identity.
    pub uid: Box<str>,
    /// The version of this state.
    pub resource_version: Box<str>,
    /// The objects that it names; none where it is being deleted.
    pub sources: BTreeSet<Source>,
    /// The hash that was taken in last.
    pub applied: Option<Box<str>>,
}

impl Restarting {
    /// Reads a workload, or its metadata.
    ///
    /// # Errors
    /// The text is no object.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: Object<Option<IgnoredAny>, Option<IgnoredAny>> = serde_json::from_str(json)?;
        let metadata = &object.metadata;
        let is_ending = metadata.deletion_timestamp.is_some();
        Ok(Self {
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            uid: metadata.uid.as_str().into(),
            resource_version: metadata.resource_version.as_str().into(),
            sources: if is_ending { BTreeSet::new() } else { sources(metadata) },
            applied: metadata.annotations.get(CONFIGURATION_APPLIED).map(|hash| hash.as_str().into()),
        })
    }

    /// What matters of it.
    pub fn said(&self) -> (&str, &BTreeSet<Source>, Option<&str>) {
        (&self.uid, &self.sources, self.applied.as_deref())
    }
}

/// The digest of what an object of this kind contains. That of a Secret includes its UID, which those who may not read the
/// Secret don't know: nobody can try out what it contains.
///
/// # Errors
/// The text is no such object.
pub fn digest(kind: SourceKind, object: &str) -> Result<String, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Content {
        metadata: ObjectMeta,
        data: Option<BTreeMap<String, String>>,
        binary_data: Option<BTreeMap<String, String>>,
    }
    let Content { metadata, data, binary_data } = serde_json::from_str(object)?;
    let uid = if kind == SourceKind::Secret { metadata.uid } else { String::new() };
    let content = (uid, data.unwrap_or_default(), binary_data.unwrap_or_default());
    serde_json::to_string(&content).map(|text| hex_sha256(&text))
}

/// The hash of objects with these digests.
pub fn hash(digests: &BTreeMap<&Source, String>) -> String {
    let lines: String = digests.iter().map(|(source, digest)| format!("{source} {digest}\n")).collect();
    hex_sha256(&lines)
}

/// The merge patch by which a workload takes a hash in; `None` where it has it already, or where it is another one by now
/// than the one that was observed. The first hash is only kept: its Pods begin with what the objects contain then.
///
/// # Errors
/// The text is no workload.
pub fn patch(observed: &Restarting, workload: &str, hash: &str) -> Result<Option<String>, serde_json::Error> {
    let present = Restarting::read(workload)?;
    if present.said() != observed.said() || present.applied.as_deref() == Some(hash) {
        return Ok(None);
    }
    let metadata = json!({
        "uid": present.uid,
        "resourceVersion": present.resource_version,
        "annotations": {CONFIGURATION_APPLIED: hash},
    });
    if present.applied.is_none() {
        return Ok(Some(json!({"metadata": metadata}).to_string()));
    }
    let object: Value = serde_json::from_str(workload)?;
    let annotations = object.pointer("/spec/template/metadata/annotations");
    let shown = annotations.and_then(|all| all.get(CONFIGURATION_HASH)).and_then(Value::as_str);
    // Somebody went back to this hash while the objects contained something else.
    let shows = if shown == Some(hash) { format!("{hash}-again") } else { hash.to_owned() };
    let template = json!({"metadata": {"annotations": {CONFIGURATION_HASH: shows}}});
    Ok(Some(json!({"metadata": metadata, "spec": {"template": template}}).to_string()))
}

/// What to say about objects that are not there.
pub fn missing(sources: &[&Source]) -> Option<String> {
    let names: Vec<String> = sources.iter().map(ToString::to_string).collect();
    let is_missing = "not found, so nothing restarts on what changes";
    (!names.is_empty()).then(|| format!("annotation {RESTART_ON}: {} {is_missing}", names.join(", ")))
}

/// The Event that says so.
pub fn not_found(message: String) -> Event {
    warning("ConfigurationNotFound", message)
}
