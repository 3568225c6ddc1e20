//! What a SidecarSet adds to Pods, prepared when the SidecarSet is indexed, so that a review only has to
//! put texts together. Fields that this build does not know stay in those texts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::Raw;
use api::environment::{CONTAINER_BARRIER, IS_INJECTED, SIDECARSET_VERSION, SIDECARSET_VERSION_ALT};
use api::sidecarset::{
    PatchPodMetadata, ResourceExpressions, ResourcesPolicy, SIDECAR_ONLY_FIELDS, SidecarContainer, Spec,
    TransferEnv,
};
use regex::Regex;
use serde_json::value::RawValue;

use super::calculator::{CalculatorError, Expression};
use pod::review::lens::{Mount, mounts, named};
use values::json_patch::{string, write_string};

/// What a SidecarSet adds to Pods.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    pub(crate) init_containers: Vec<Sidecar>,
    pub(crate) containers: Vec<Sidecar>,
    pub(crate) volumes: Vec<PreparedVolume>,
    /// Names of pull secrets.
    pub(crate) image_pull_secrets: Vec<Box<str>>,
    pub(crate) patches: Vec<AnnotationPatch>,
}

/// A volume that some sidecar mounts.
#[derive(Clone, Debug)]
pub(crate) struct PreparedVolume {
    pub(crate) name: Box<str>,
    pub(crate) text: Raw,
}

/// A sidecar as it is injected into Pods, in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub(crate) name: Box<str>,
    /// JSON text of the image; `None` where the SidecarSet has none.
    pub(crate) image: Option<Box<str>>,
    /// All other members of the container but those below, as `"key":value` with a comma behind each.
    pub(crate) members: Box<str>,
    /// Own variables and `IS_INJECTED`.
    pub(crate) env: Elements,
    pub(crate) volume_mounts: Elements,
    pub(crate) volume_devices: Elements,
    /// JSON text of the own resources; a resources policy replaces them.
    pub(crate) resources: Option<Box<str>>,
    /// Positions in [`Contribution::volumes`] of the volumes that its mounts and devices name.
    pub(crate) volumes: Vec<usize>,
    /// In front of the Pod's containers.
    pub(crate) before: bool,
    /// An init container that runs beside the others.
    pub(crate) native: bool,
    /// JSON text of the idle twin's image, for containers that are injected as a pair.
    pub(crate) idle_image: Option<Box<str>>,
    pub(crate) shares_mounts: bool,
    pub(crate) shares_devices: bool,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) resources_rule: Option<Box<ResourcesRule>>,
}

/// Elements of a JSON list, joined by commas, and the keys that others may not repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elements {
    pub(crate) text: Box<str>,
    /// Names of variables, or paths of mounts and devices.
    pub(crate) keys: Vec<Box<str>>,
}

/// Variables to copy from a container of the Pod.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) source: Source,
    /// Sorted, without duplicates.
    pub(crate) names: Vec<String>,
}

/// The name of the container to copy from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Name(String),
    /// The value of this label of the Pod.
    Label(String),
    /// The value of this annotation of the Pod.
    Annotation(String),
    /// A field that can't be followed: nothing is copied.
    Unsupported,
}

/// A resources policy with everything compiled that can be.
#[derive(Clone, Debug)]
pub(crate) struct ResourcesRule {
    pub(crate) pattern: String,
    pub(crate) regex: Result<Regex, String>,
    /// The largest of the targets' values instead of their sum.
    pub(crate) largest: bool,
    pub(crate) limits: Expressions,
    pub(crate) requests: Expressions,
}

/// The expressions for limits or for requests; `None` where the resource is not computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expressions {
    pub(crate) cpu: Option<PreparedExpression>,
    pub(crate) memory: Option<PreparedExpression>,
}

/// An expression, or why it can't be used.
#[derive(Clone, Debug)]
pub(crate) struct PreparedExpression {
    pub(crate) text: String,
    pub(crate) expression: Result<Expression, CalculatorError>,
}

/// One entry of `patchPodMetadata`.
#[derive(Clone, Debug)]
pub(crate) struct AnnotationPatch {
    pub(crate) policy: PatchPolicy,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// How an annotation meets one that the Pod has already (docs/behaviour/pod-mutation.md#patched-annotations).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchPolicy {
    Retain,
    Overwrite,
    MergePatchJson,
}

impl Contribution {
    /// Prepares the five fields of `spec` that go into Pods.
    ///
    /// # Errors
    /// The field and the parser's error, where a container is not one.
    pub fn prepare(spec: &Spec) -> Result<Self, String> {
        let volumes: Vec<PreparedVolume> = spec
            .volumes
            .iter()
            .map(|volume| PreparedVolume { name: volume.name.as_str().into(), text: volume.raw.clone() })
            .collect();
        let prepare = |field: &str, containers: &[SidecarContainer]| {
            let sidecar = |container: &SidecarContainer| {
                Sidecar::prepare(container, field == "initContainers", &volumes)
                    .map_err(|error| format!("spec.{field}: container {}: {error}", container.name()))
            };
            let mut sidecars = containers.iter().map(sidecar).collect::<Result<Vec<_>, _>>()?;
            sidecars.shrink_to_fit();
            Ok::<_, String>(sidecars)
        };
        Ok(Self {
            init_containers: prepare("initContainers", &spec.init_containers)?,
            containers: prepare("containers", &spec.containers)?,
            volumes,
            image_pull_secrets: spec
                .image_pull_secrets
                .iter()
                .map(|secret| secret.name.as_str().into())
                .collect(),
            patches: spec.patch_pod_metadata.iter().filter_map(AnnotationPatch::prepare).collect(),
        })
    }

    /// True where there is no container to inject.
    pub(crate) fn has_no_containers(&self) -> bool {
        self.init_containers.is_empty() && self.containers.is_empty()
    }

    /// Init containers, then containers.
    pub(crate) fn sidecars(&self) -> impl Iterator<Item = &Sidecar> {
        self.init_containers.iter().chain(&self.containers)
    }
}

impl AnnotationPatch {
    /// Reads an entry; `None` where its policy is none that is known.
    pub(crate) fn prepare(patch: &PatchPodMetadata) -> Option<Self> {
        let policy = match patch.patch_policy.as_str() {
            "" | "Retain" => PatchPolicy::Retain,
            "Overwrite" => PatchPolicy::Overwrite,
            "MergePatchJson" => PatchPolicy::MergePatchJson,
            _ => return None,
        };
        Some(Self { policy, annotations: patch.annotations.clone() })
    }
}

impl Sidecar {
    fn prepare(container: &SidecarContainer, init: bool, volumes: &[PreparedVolume]) -> Result<Self, String> {
        let fields = &container.fields;
        let native = container.is_native_sidecar();
        let hot = container.is_hot_upgrade() && (!init || native);
        let pieces: Pieces<'_> =
            serde_json::from_str(container.raw.get()).map_err(|error| error.to_string())?;
        let own_mounts = mounts(pieces.volume_mounts).map_err(|error| format!("volumeMounts: {error}"))?;
        let own_devices = mounts(pieces.volume_devices).map_err(|error| format!("volumeDevices: {error}"))?;
        let mut used = Vec::new();
        for mount in own_mounts.iter().chain(&own_devices) {
            let position = volumes.iter().position(|volume| *volume.name == *mount.volume);
            used.extend(position.filter(|position| !used.contains(position)));
        }
        let resources_rule =
            fields.resources_policy.as_ref().map(|policy| Box::new(ResourcesRule::prepare(policy)));
        Ok(Self {
            name: fields.name.as_str().into(),
            image: pieces.image.map(Into::into),
            members: pieces.others.into(),
            env: env(pieces.env, hot).map_err(|error| format!("env: {error}"))?,
            volume_mounts: Elements::of_mounts(&own_mounts),
            volume_devices: Elements::of_mounts(&own_devices),
            resources: pieces.resources.map(Into::into),
            volumes: used,
            // Unset, it means what defaulting would write (docs/behaviour/sidecarset.md#defaulting).
            before: match fields.pod_inject_policy.as_str() {
                "" => !init,
                policy => policy == "BeforeAppContainer",
            },
            native: native && init,
            idle_image: hot.then(|| string(&fields.upgrade_strategy.hot_upgrade_empty_image).into()),
            shares_mounts: fields.share_volume_policy.is_enabled(),
            shares_devices: fields
                .share_volume_device_policy
                .as_ref()
                .is_some_and(|policy| policy.is_enabled()),
            transfers: fields.transfer_env.iter().map(Transfer::prepare).collect(),
            resources_rule,
        })
    }

    /// It takes something over from containers of the Pod.
    pub(crate) fn takes_over(&self) -> bool {
        self.shares_mounts || self.shares_devices || !self.transfers.is_empty()
    }

    /// Appends the names under which it appears in a Pod: its own, or those of the two twins.
    pub(crate) fn add_names_in_pod<'s>(&'s self, names: &mut Vec<Cow<'s, str>>) {
        match self.idle_image {
            Some(_) => names.extend([1, 2].map(|twin| format!("{}-{twin}", self.name).into())),
            None => names.push(Cow::Borrowed(&self.name)),
        }
    }
}

/// Own variables without those that injection itself sets, then `IS_INJECTED`: users who define a sidecar by
/// copying it from a live Pod would else have them twice
/// (docs/behaviour/pod-mutation.md#building-containers).
fn env(list: &str, hot: bool) -> Result<Elements, serde_json::Error> {
    let mut elements = Elements::default();
    let mut text = String::with_capacity(list.len() + 64);
    for variable in named(list)? {
        if variable.name == IS_INJECTED || hot && is_version_variable(&variable.name) {
            continue;
        }
        text.push_str(variable.text);
        text.push(',');
        elements.keys.push(variable.name.as_ref().into());
    }
    text.push_str(&format!(r#"{{"name":"{IS_INJECTED}","value":"true"}}"#));
    elements.keys.push(IS_INJECTED.into());
    if hot {
        // Set for each twin on its own; nothing else may bring them along.
        elements.keys.extend([SIDECARSET_VERSION.into(), SIDECARSET_VERSION_ALT.into()]);
    }
    Ok(Elements { text: text.into(), ..elements })
}

fn is_version_variable(name: &str) -> bool {
    name == SIDECARSET_VERSION || name == SIDECARSET_VERSION_ALT
}

impl Elements {
    fn of_mounts(mounts: &[Mount<'_>]) -> Self {
        let texts: Vec<&str> = mounts.iter().map(|mount| mount.text).collect();
        let keys = mounts.iter().map(|mount| mount.path.as_ref().into()).collect();
        Self { text: texts.join(",").into(), keys }
    }
}

/// The members of a container, by their kind.
struct Pieces<'a> {
    image: Option<&'a str>,
    env: &'a str,
    volume_mounts: &'a str,
    volume_devices: &'a str,
    resources: Option<&'a str>,
    others: String,
}

impl<'de: 'a, 'a> serde::Deserialize<'de> for Pieces<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The last of repeated keys counts, as with Go.
        let members = BTreeMap::<String, &'de RawValue>::deserialize(deserializer)?;
        let get = |key: &str| members.get(key).map(|value| value.get()).filter(|text| *text != "null");
        let mut others = String::new();
        for (key, value) in &members {
            let apart = matches!(
                key.as_str(),
                "name" | "image" | "env" | "volumeMounts" | "volumeDevices" | "resources"
            );
            if !apart && !SIDECAR_ONLY_FIELDS.contains(&key.as_str()) {
                write_string(&mut others, key);
                others.push(':');
                others.push_str(value.get());
                others.push(',');
            }
        }
        Ok(Self {
            image: get("image"),
            env: get("env").unwrap_or("[]"),
            volume_mounts: get("volumeMounts").unwrap_or("[]"),
            volume_devices: get("volumeDevices").unwrap_or("[]"),
            resources: get("resources"),
            others,
        })
    }
}

impl Transfer {
    fn prepare(transfer: &TransferEnv) -> Self {
        let mut names = transfer.env_names.clone();
        if !transfer.env_name.is_empty() {
            names.push(transfer.env_name.clone());
        }
        // Each container waits for its own key; on a second review the Pod's containers have theirs already.
        names.retain(|name| name != CONTAINER_BARRIER);
        names.sort();
        names.dedup();
        let field = transfer.source_container_name_from.as_ref().and_then(|from| from.field_ref.as_ref());
        let source = match field {
            None => Source::Name(transfer.source_container_name.clone()),
            Some(field) => Source::of_field(&field.field_path),
        };
        Self { source, names }
    }
}

impl Source {
    fn of_field(path: &str) -> Self {
        let subscript =
            |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']").map(str::to_owned);
        if let Some(key) = subscript("metadata.labels") {
            return Self::Label(key);
        }
        subscript("metadata.annotations").map_or(Self::Unsupported, Self::Annotation)
    }
}

impl ResourcesRule {
    fn prepare(policy: &ResourcesPolicy) -> Self {
        let pattern = policy.target_containers_name_regex.clone();
        Self {
            regex: Regex::new(&pattern).map_err(|error| error.to_string()),
            pattern,
            largest: policy.target_containers_mode == "max",
            limits: Expressions::prepare(policy.resources_expr.limits.as_ref()),
            requests: Expressions::prepare(policy.resources_expr.requests.as_ref()),
        }
    }
}

impl Expressions {
    fn prepare(expressions: Option<&ResourceExpressions>) -> Self {
        let prepare = |text: &str| {
            (!text.is_empty())
                .then(|| PreparedExpression { text: text.to_owned(), expression: Expression::parse(text) })
        };
        expressions.map_or_else(Self::default, |expressions| Self {
            cpu: prepare(&expressions.cpu),
            memory: prepare(&expressions.memory),
        })
    }
}
