//! The Pods and claims that a workload creates, made from the raw templates: fields that nobody here knows are
//! in them too.

use api::Raw;
use api::conditions::IN_PLACE_UPDATE_READY;
use api::meta::LabelSelector;
use api::raw_object::{RawNode, RawObject};
use serde::Deserialize;
use thiserror::Error;

use super::owner::Owner;
use values::moment::Random;

/// A Pod cannot be made from the template.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{part} is not a JSON object")]
pub struct TemplateError {
    part: String,
}

fn no_object(part: impl Into<String>) -> TemplateError {
    TemplateError { part: part.into() }
}

/// As much of `generateName` is used in a name, as the API server generates names.
const LONGEST_BASE: usize = 58;
const SUFFIX: usize = 5;

/// A name that begins with `generate_name` and is not taken.
pub fn generated_name(generate_name: &str, random: &mut Random, is_taken: impl Fn(&str) -> bool) -> String {
    let base: String = generate_name.chars().take(LONGEST_BASE).collect();
    loop {
        let name = format!("{base}{}", random.name_suffix(SUFFIX));
        if !is_taken(&name) {
            return name;
        }
    }
}

/// A claim to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Its name.
    pub name: String,
    /// Its JSON.
    pub json: String,
}

/// What a new Pod or claim gets beside what its template says.
#[derive(Clone, Debug)]
pub struct NewMetadata<'a> {
    /// Its name.
    pub name: &'a str,
    /// `generateName`, for a Pod.
    pub generate_name: Option<&'a str>,
    /// Its namespace.
    pub namespace: &'a str,
    /// Labels, which take the place of those of the template.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Annotations, likewise.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// The workload; none where the object stays when that is deleted.
    pub owner: Option<Owner<'a>>,
}

impl NewMetadata<'_> {
    /// The metadata, with labels, annotations and finalizers of the template.
    fn over<'n>(&self, template: &mut RawObject<'n>) -> RawObject<'n> {
        let mut given = template.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
        let mut metadata = RawObject::default();
        metadata.insert("name", RawNode::string(self.name));
        if let Some(name) = self.generate_name {
            metadata.insert("generateName", RawNode::string(name));
        }
        metadata.insert("namespace", RawNode::string(self.namespace));
        for (field, pairs) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let known = given.remove(field);
            if known.is_none() && pairs.is_empty() {
                continue;
            }
            let mut all = known.and_then(RawNode::into_object).unwrap_or_default();
            for (key, value) in pairs {
                all.insert(key, RawNode::string(value));
            }
            metadata.insert(field, all.into());
        }
        if let Some(finalizers) = given.remove("finalizers") {
            metadata.insert("finalizers", finalizers);
        }
        if let Some(owner) = self.owner {
            metadata.insert("ownerReferences", owner.references());
        }
        metadata
    }
}

/// `spec.volumeClaimTemplates`, taken apart: name and template.
///
/// # Errors
/// A template that is no object.
pub fn claim_templates(raw: Option<&Raw>) -> Result<Vec<(String, RawObject<'_>)>, TemplateError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let templates = RawNode::from_raw(raw.as_raw_value()).into_array().unwrap_or_default();
    templates
        .into_iter()
        .enumerate()
        .map(|(index, template)| {
            let mut template = template
                .into_object()
                .ok_or_else(|| no_object(format!("spec.volumeClaimTemplates[{index}]")))?;
            let name = template.object_mut("metadata").and_then(|metadata| metadata.string("name"));
            Ok((name.unwrap_or_default(), template))
        })
        .collect()
}

/// The volumes that containers of this Pod template mount, and that its Pods would not have.
pub fn unmade_volumes(template: &str, claims: Option<&Raw>) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        init_containers: Option<Vec<Mounting>>,
        containers: Option<Vec<Mounting>>,
        volumes: Option<Vec<Named>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Mounting {
        volume_mounts: Option<Vec<Named>>,
        volume_devices: Option<Vec<Named>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        name: String,
    }
    let template: Result<Template, _> = serde_json::from_str(template);
    let (Ok(template), Ok(claims)) = (template, claim_templates(claims)) else { return Vec::new() };
    let Spec { init_containers, containers, volumes } = template.spec;
    let mut known: Vec<String> = volumes.into_iter().flatten().map(|volume| volume.name).collect();
    known.extend(claims.into_iter().map(|(name, _)| name));
    let containers = init_containers.into_iter().chain(containers).flatten();
    let mounts = containers.flat_map(|container| [container.volume_mounts, container.volume_devices]);
    mounts.flatten().flatten().map(|mount| mount.name).filter(|name| !known.contains(name)).collect()
}

/// The claims of these templates for one Pod of the workload with this namespace and selector, with the labels that the
/// selector asks for and those of the Pod. `name` makes the name of a claim from that of its template.
///
/// # Errors
/// A template that is no object.
pub(crate) fn claims(
    (namespace, selector): (&str, &LabelSelector),
    templates: Option<&Raw>,
    labels_of_pod: &[(&str, &str)],
    owner: Option<Owner<'_>>,
    name: impl Fn(&str) -> String,
) -> Result<Vec<NewClaim>, TemplateError> {
    let selected = selector.match_labels.iter().flatten();
    let selected = selected.map(|(key, value)| (key.as_str(), value.as_str()));
    let labels: Vec<(&str, &str)> = selected.chain(labels_of_pod.iter().copied()).collect();
    let claim = |(template_name, template): (String, _)| {
        let metadata = NewMetadata {
            name: &name(&template_name),
            generate_name: None,
            namespace,
            labels: labels.clone(),
            annotations: Vec::new(),
            owner,
        };
        claim(template, &metadata)
    };
    Ok(claim_templates(templates)?.into_iter().map(claim).collect())
}

fn claim(mut template: RawObject<'_>, metadata: &NewMetadata<'_>) -> NewClaim {
    let wanted = metadata.over(&mut template);
    let mut claim = RawObject::default();
    claim.insert("apiVersion", RawNode::string("v1"));
    claim.insert("kind", RawNode::string("PersistentVolumeClaim"));
    claim.insert("metadata", wanted.into());
    for name in ["apiVersion", "kind", "status"] {
        template.remove(name);
    }
    for (name, value) in template.iter_mut() {
        claim.insert(name, value.clone());
    }
    NewClaim { name: metadata.name.to_owned(), json: claim.to_string() }
}

/// What a new Pod's `spec` gets beside what its template says.
#[derive(Clone, Debug, Default)]
pub struct NewSpec<'a> {
    /// One volume for each claim: the volume's name, and the claim's.
    pub claims: Vec<(String, String)>,
    /// The readiness gate of updates in place.
    pub has_readiness_gate: bool,
    /// Fields that are texts, such as `hostname`.
    pub texts: Vec<(&'a str, &'a str)>,
    /// The node to which the scheduler is to bind the Pod, whatever else the template requires of nodes.
    pub node: Option<&'a str>,
    /// Tolerations without a value. One of the template with the same key and effect, and without a value too, gives
    /// way.
    pub tolerations: Vec<NewToleration<'a>>,
}

/// Tolerates every taint of this key and effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewToleration<'a> {
    /// The key.
    pub key: &'a str,
    /// The effect.
    pub effect: &'a str,
}

/// The Pod of a template.
///
/// # Errors
/// A template that is no object, or has no `spec`.
pub fn pod(
    template: &str,
    metadata: &NewMetadata<'_>,
    additions: &NewSpec<'_>,
) -> Result<String, TemplateError> {
    let mut template = RawObject::parse(template).map_err(|_| no_object("spec.template"))?;
    let wanted = metadata.over(&mut template);
    let mut spec = template
        .remove("spec")
        .and_then(RawNode::into_object)
        .ok_or_else(|| no_object("spec.template.spec"))?;
    add_volumes(&mut spec, &additions.claims);
    if additions.has_readiness_gate {
        add_readiness_gate(&mut spec);
    }
    if let Some(node) = additions.node {
        assign(&mut spec, node);
    }
    add_tolerations(&mut spec, &additions.tolerations);
    for (field, text) in &additions.texts {
        spec.insert(field, RawNode::string(text));
    }
    let mut pod = RawObject::default();
    pod.insert("apiVersion", RawNode::string("v1"));
    pod.insert("kind", RawNode::string("Pod"));
    pod.insert("metadata", wanted.into());
    pod.insert("spec", spec.into());
    Ok(pod.to_string())
}

/// One volume for each claim; a volume of the template with its name gives way.
fn add_volumes(spec: &mut RawObject<'_>, claims: &[(String, String)]) {
    if claims.is_empty() {
        return;
    }
    let mut given = spec.remove("volumes").and_then(RawNode::into_array).unwrap_or_default();
    let mut volumes = Vec::with_capacity(claims.len() + given.len());
    for (name, claim) in claims {
        let mut source = RawObject::default();
        source.insert("claimName", RawNode::string(claim));
        let mut volume = RawObject::default();
        volume.insert("name", RawNode::string(name));
        volume.insert("persistentVolumeClaim", source.into());
        volumes.push(volume.into());
    }
    given.retain_mut(|volume| {
        let name = volume.as_object_mut().and_then(|volume| volume.string("name"));
        !name.is_some_and(|name| claims.iter().any(|(known, _)| *known == name))
    });
    volumes.append(&mut given);
    spec.insert("volumes", RawNode::array(volumes));
}

/// Has the scheduler bind the Pod to this node. Other requirements of the Pod stay: preferences, selectors, and where
/// other Pods are.
fn assign(spec: &mut RawObject<'_>, node: &str) {
    let mut field = RawObject::default();
    field.insert("key", RawNode::string("metadata.name"));
    field.insert("operator", RawNode::string("In"));
    field.insert("values", RawNode::array(vec![RawNode::string(node)]));
    let mut term = RawObject::default();
    term.insert("matchFields", RawNode::array(vec![field.into()]));
    let mut required = RawObject::default();
    required.insert("nodeSelectorTerms", RawNode::array(vec![term.into()]));
    let mut affinity = spec.remove("affinity").and_then(RawNode::into_object).unwrap_or_default();
    let mut nodes = affinity.remove("nodeAffinity").and_then(RawNode::into_object).unwrap_or_default();
    nodes.insert("requiredDuringSchedulingIgnoredDuringExecution", required.into());
    affinity.insert("nodeAffinity", nodes.into());
    spec.insert("affinity", affinity.into());
}

/// Adds tolerations behind those of the template.
fn add_tolerations(spec: &mut RawObject<'_>, additions: &[NewToleration<'_>]) {
    if additions.is_empty() {
        return;
    }
    let mut given = spec.remove("tolerations").and_then(RawNode::into_array).unwrap_or_default();
    given.retain_mut(|toleration| {
        let Some(toleration) = toleration.as_object_mut() else { return true };
        let text = |field| toleration.string(field).unwrap_or_default();
        let (key, operator, effect, value) = (text("key"), text("operator"), text("effect"), text("value"));
        let is_same = |addition: &NewToleration<'_>| addition.key == key && addition.effect == effect;
        operator != "Exists" || !value.is_empty() || !additions.iter().any(is_same)
    });
    for NewToleration { key, effect } in additions {
        let mut toleration = RawObject::default();
        toleration.insert("key", RawNode::string(key));
        toleration.insert("operator", RawNode::string("Exists"));
        toleration.insert("effect", RawNode::string(effect));
        given.push(toleration.into());
    }
    spec.insert("tolerations", RawNode::array(given));
}

/// The gate by which a Pod leaves its service while it is updated in place.
fn add_readiness_gate(spec: &mut RawObject<'_>) {
    let mut gates = spec.remove("readinessGates").and_then(RawNode::into_array).unwrap_or_default();
    let known = gates.iter_mut().any(|gate| {
        let kind = gate.as_object_mut().and_then(|gate| gate.string("conditionType"));
        kind.as_deref() == Some(IN_PLACE_UPDATE_READY)
    });
    if !known {
        let mut gate = RawObject::default();
        gate.insert("conditionType", RawNode::string(IN_PLACE_UPDATE_READY));
        gates.push(gate.into());
    }
    spec.insert("readinessGates", RawNode::array(gates));
}
