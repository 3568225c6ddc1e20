//! Container exit priority: in which order the containers of a Pod end (docs/behaviour/exit-priority.md).
//!
//! ```text
//!   request      what the annotations ask for
//!   hook         later containers wait in their preStop hook; plan: how the agent of the node reads that
//!   native       later containers become native sidecars, where there is no agent
//!   containers   reading and editing the raw lists of containers
//! ```
//!
//! A review first takes out what an earlier one put in, then decides anew: others may have added containers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use api::annotations::{CONTAINER_EXIT_MOVED, CONTAINER_EXIT_PRIORITY};
use api::features::{Feature, FeatureGates};
use api::raw_object::{RawNode, RawObject};
use serde::Deserialize;
use serde_json::Value;

use self::containers::{is_native, name, take, value};
use self::plan::{INIT_CONTAINER, WINDOW, hooked};
use self::request::{Request, refused, refused_mode};
use crate::observed::ObservedPod;
use crate::review::draft::not_a_pod;
use values::json_patch::{self, Patch, string};
use values::verdict::{Denial, Verdict};

pub mod plan;

mod containers;
mod hook;
mod native;
mod request;
#[cfg(test)]
mod tests;

pub use request::Mode;

/// The time that Pods have to end where they do not say it, in seconds.
const GRACE: u64 = 30;
/// The most containers of a Pod with an order: each hook names all that end before it.
const MOST_CONTAINERS: usize = 100;
/// On a Pod that the kubelet made from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// How containers are made to end in their order, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For Pods that do not choose.
    pub mode: Mode,
    /// The image with the program of the hook; empty where there is none.
    pub image: String,
    /// As whom the program is copied; 0 leaves it to the cluster.
    pub run_as_user: u32,
    /// How long a hook without a message waits, in whole seconds.
    pub window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: Mode::Hook, image: String::new(), run_as_user: 65534, window: WINDOW }
    }
}

/// The parts of a Pod that are read and edited.
struct Draft<'a> {
    object: RawObject<'a>,
    metadata: RawObject<'a>,
    annotations: RawObject<'a>,
    spec: RawObject<'a>,
    /// The init container that an earlier review put in, once it is taken out.
    installer: Option<RawObject<'a>>,
}

impl<'a> Draft<'a> {
    fn parse(pod: &'a str) -> Result<Self, Denial> {
        let mut object = RawObject::parse(pod).map_err(|error| not_a_pod(&error))?;
        let mut metadata = object.remove("metadata").and_then(RawNode::into_object).unwrap_or_default();
        let annotations = metadata.remove("annotations").and_then(RawNode::into_object);
        let spec = object.remove("spec").and_then(RawNode::into_object).unwrap_or_default();
        Ok(Self { object, metadata, annotations: annotations.unwrap_or_default(), spec, installer: None })
    }

    /// Refuses a Pod whose hooks would be too long, or that names more containers than it may have.
    fn check_size(&self, request: &Request) -> Result<(), Denial> {
        let lists = ["containers", "initContainers"].map(|list| value(&self.spec, list));
        let own =
            lists.iter().filter_map(Value::as_array).flatten().filter(|own| own["name"] != INIT_CONTAINER);
        if own.count().max(request.priorities.len()) <= MOST_CONTAINERS {
            return Ok(());
        }
        let text = self.annotations.string(CONTAINER_EXIT_PRIORITY).unwrap_or_default();
        Err(refused(&text, &format!("a Pod with an order must have at most {MOST_CONTAINERS} containers")))
    }

    /// Takes out what an earlier review put in.
    fn restore(&mut self) -> Result<(), Denial> {
        self.installer = hook::restore(&mut self.spec)?;
        native::restore(&mut self.annotations, &mut self.spec)
    }

    fn into_text(mut self) -> String {
        if !self.annotations.is_empty() {
            self.metadata.insert("annotations", self.annotations.into());
        }
        self.object.insert("metadata", self.metadata.into());
        self.object.insert("spec", self.spec.into());
        self.object.to_string()
    }

    /// The names in a list of containers.
    fn names(&self, list: &str) -> Vec<String> {
        let containers = value(&self.spec, list);
        let containers = containers.as_array().into_iter().flatten();
        containers.map(|container| container["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// The mutation of a Pod at its creation.
pub fn mutate(pod: &str, settings: &Settings, gates: &FeatureGates) -> Verdict {
    if !concerns(pod, gates) {
        return Verdict::allow();
    }
    match ordered(pod, settings, gates)
        .and_then(|(ordered, warnings)| Ok(Verdict::Allow { edits: edits(pod, &ordered)?, warnings }))
    {
        Ok(verdict) => verdict,
        Err(denial) => denial.into(),
    }
}

/// Most Pods have no order: a search in the text is cheaper than reading them.
fn concerns(pod: &str, gates: &FeatureGates) -> bool {
    gates.enabled(Feature::ContainerExitPriority)
        && (pod.contains("container-exit-priority") || pod.contains("\\u"))
}

/// What turns the Pod into the one that is wanted; nothing where they only differ in their spelling.
fn edits(pod: &str, wanted: &str) -> Result<Patch, Denial> {
    let read = |text| serde_json::from_str::<Value>(text).map_err(|error| not_a_pod(&error));
    if read(pod)? == read(wanted)? {
        return Ok(Patch::default());
    }
    json_patch::edits(pod, wanted).map_err(|error| not_a_pod(&error))
}

/// The Pod with its order, and what its author should know.
fn ordered(pod: &str, settings: &Settings, gates: &FeatureGates) -> Result<(String, Vec<String>), Denial> {
    let mut draft = Draft::parse(pod)?;
    if draft.annotations.get(CONTAINER_EXIT_PRIORITY).is_none() {
        return Ok((pod.to_owned(), Vec::new()));
    }
    let request = Request::read(&draft.annotations)?;
    draft.restore()?;
    let Some(request) = request else { return Ok((draft.into_text(), Vec::new())) };
    draft.check_size(&request)?;
    let grace = value(&draft.spec, "terminationGracePeriodSeconds").as_u64().unwrap_or(GRACE);
    let plan = hook::plan(&draft.names("containers"), &request, grace, settings);
    if plan.is_empty() {
        return Ok((draft.into_text(), Vec::new()));
    }
    let has_agent =
        [Feature::KruiseDaemon, Feature::DaemonWatchingPod].into_iter().all(|gate| gates.enabled(gate));
    let mode = match request.mode.unwrap_or(settings.mode) {
        Mode::Hook if request.mode.is_none() && (!has_agent || settings.image.is_empty()) => {
            Mode::NativeSidecar
        }
        mode => mode,
    };
    let obstacle = match mode {
        Mode::Hook => unhookable(&draft, grace, settings),
        Mode::NativeSidecar => native::impossible(&draft.spec, &request),
    };
    if let Some(reason) = obstacle {
        // A mode that the Pod chose itself is refused by the validation.
        let is_refused = request.mode == Some(Mode::NativeSidecar);
        let warning = format!("container exit priority is not enforced: {reason}");
        return Ok((draft.into_text(), if is_refused { Vec::new() } else { vec![warning] }));
    }
    let mut warnings = Vec::new();
    if mode == Mode::NativeSidecar {
        native::apply(&mut draft.annotations, &mut draft.spec, &request)?;
        return Ok((draft.into_text(), warnings));
    }
    if hook::is_occupied(&draft.spec) {
        let text = draft.annotations.string(CONTAINER_EXIT_PRIORITY).unwrap_or_default();
        return Err(refused(&text, "name or path reserved for container exit priority"));
    }
    let steps = hook::steps(&plan);
    if usize::try_from(grace).is_ok_and(|grace| grace < 3 + 2 * steps) {
        warnings.push(format!(
            "spec.terminationGracePeriodSeconds: {grace} seconds are short for {steps} steps of container exit priority"
        ));
    }
    hook::apply(&mut draft.spec, &plan, settings, draft.installer.take())?;
    Ok((draft.into_text(), warnings))
}

/// Why hooks can't do anything in this Pod.
fn unhookable(draft: &Draft<'_>, grace: u64, settings: &Settings) -> Option<String> {
    let is_windows = [("os", "name"), ("nodeSelector", "kubernetes.io/os")]
        .iter()
        .any(|(object, key)| value(&draft.spec, object).get(key).is_some_and(|system| system == "windows"));
    let obstacles = [
        (is_windows, "the Pod runs on Windows"),
        (grace == 0, "terminationGracePeriodSeconds is 0"),
        (draft.annotations.get(MIRROR).is_some(), "the kubelet runs the Pod from a file"),
        (settings.image.is_empty(), "the manager has no --exit-hook-image"),
    ];
    obstacles.into_iter().find(|(is_there, _)| *is_there).map(|(_, reason)| reason.to_owned())
}

/// The validation of a Pod at its creation, when all who change it have done so.
pub fn validate(pod: &str, gates: &FeatureGates) -> Verdict {
    match if concerns(pod, gates) { check(pod) } else { Ok(()) } {
        Ok(()) => Verdict::allow(),
        Err(denial) => denial.into(),
    }
}

fn check(pod: &str) -> Result<(), Denial> {
    let mut draft = Draft::parse(pod)?;
    let Some(request) = Request::read(&draft.annotations)? else { return Ok(()) };
    draft.check_size(&request)?;
    let text = draft.annotations.string(CONTAINER_EXIT_PRIORITY).unwrap_or_default();
    let refused = |detail: String| Err(refused(&text, &detail));
    native::restore(&mut draft.annotations, &mut draft.spec)?;
    let regular = draft.names("containers");
    let init_containers = take(&mut draft.spec, "initContainers")?;
    let find = |wanted: &str| init_containers.iter().find(|container| name(container) == wanted);
    for (container, _) in request.priorities.iter().filter(|(container, _)| !regular.contains(container)) {
        match find(container) {
            None => return refused(format!("container {} not found in the Pod", string(container))),
            Some(init) if !is_native(init) => {
                let container = string(container);
                return refused(format!("init container {container} can not have an exit priority"));
            }
            Some(_) => {}
        }
    }
    let sidecars = init_containers.iter().filter(|container| is_native(container)).map(name);
    let sidecars: Vec<(String, i32)> =
        sidecars.filter_map(|name| request.named(&name).map(|value| (name, value))).collect();
    for (sidecar, value) in &sidecars {
        if let Some(container) = regular.iter().find(|container| request.of(container) >= *value) {
            return refused(format!(
                "native sidecar {} exits after all regular containers; its exit priority must be greater than that of {}",
                string(sidecar),
                string(container)
            ));
        }
    }
    for ((sidecar, value), (later, later_value)) in sidecars.iter().zip(sidecars.iter().skip(1)) {
        if later_value > value {
            let [sidecar, later] = [sidecar, later].map(|name| string(name));
            return refused(format!(
                "native sidecars exit in reverse order; {sidecar} can not exit before {later}"
            ));
        }
    }
    let has_order =
        regular.iter().any(|name| Some(request.of(name)) != regular.first().map(|first| request.of(first)));
    match native::impossible(&draft.spec, &request).filter(|_| has_order) {
        Some(reason) if request.mode == Some(Mode::NativeSidecar) => {
            Err(refused_mode("NativeSidecar", &reason))
        }
        _ => Ok(()),
    }
}

/// In which order the containers of a Pod end, as admission has written it into the Pod; `None` where it has no order.
pub fn order(pod: &str) -> Option<String> {
    let mut draft = Draft::parse(pod).ok()?;
    let request = Request::read(&draft.annotations).ok()??;
    let is_moved = draft.annotations.get(CONTAINER_EXIT_MOVED).is_some();
    if !is_moved && hooked(&ObservedPod::read(pod).ok()?).ok()?.is_empty() {
        return None;
    }
    native::restore(&mut draft.annotations, &mut draft.spec).ok()?;
    let mut steps: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for container in draft.names("containers") {
        steps.entry(request.of(&container)).or_default().push(container);
    }
    let mut steps: Vec<String> = steps.into_values().map(|step| step.join(" and ")).collect();
    // The kubelet ends those that the user declared last, in the reverse of their order.
    let sidecars = take(&mut draft.spec, "initContainers").ok()?;
    steps.extend(sidecars.iter().filter(|container| is_native(container)).map(name).rev());
    let mode = if is_moved { "NativeSidecar" } else { "Hook" };
    Some(format!("containers end in this order (mode {mode}): {}", steps.join(", then ")))
}

/// The warning for a client that changes the order of an existing Pod.
pub fn change_without_effect(old: Option<&str>, new: Option<&str>, gates: &FeatureGates) -> Option<String> {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: Option<HashMap<String, String>>,
    }
    let order = |pod: &str| {
        let pod: Pod = serde_json::from_str(pod).ok()?;
        pod.metadata.annotations.unwrap_or_default().remove(CONTAINER_EXIT_PRIORITY)
    };
    let (old, new) = (old?, new?);
    if !concerns(old, gates) && !concerns(new, gates) {
        return None;
    }
    (order(old) != order(new)).then(|| format!("{CONTAINER_EXIT_PRIORITY} has no effect on a running Pod"))
}
