//! A Pod under review: what the steps read of it, and the edits they make. Each edit changes the draft
//! and notes the operation on the raw object, so that a step sees what earlier steps did.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::lens::{ContainerLens, Object, PodText, Text, text_or_empty};
use values::json::Spanned;
use values::json_patch::{self, ApplyError, Patch, Pointer, write_string};
use values::verdict::Denial;

const ANNOTATIONS: &str = "/metadata/annotations";

/// A list of containers in a Pod's `spec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerList {
    /// `spec.initContainers`
    Init,
    /// `spec.containers`
    App,
}

impl ContainerList {
    fn path(self) -> Pointer {
        Pointer::from_escaped(match self {
            Self::Init => "/spec/initContainers",
            Self::App => "/spec/containers",
        })
    }
}

/// A container of the draft, from the Pod or injected.
#[derive(Clone, Debug, Default)]
pub struct Container<'a> {
    /// Name of the container.
    pub name: Cow<'a, str>,
    /// The JSON list under `env`.
    pub env: Option<Cow<'a, str>>,
    /// The JSON list under `volumeMounts`; not kept for injected containers.
    pub volume_mounts: Option<&'a str>,
    /// The JSON list under `volumeDevices`; not kept for injected containers.
    pub volume_devices: Option<&'a str>,
    /// The JSON object under `resources`; not kept for injected containers.
    pub resources: Option<&'a str>,
    /// `restartPolicy: Always`, which makes an init container a native sidecar.
    pub restarts_always: bool,
}

/// The owner that manages the Pod.
#[derive(Clone, Debug)]
pub struct Controller<'a> {
    /// Its API group; empty for the core group.
    pub group: Cow<'a, str>,
    /// Its API version, without the group.
    pub version: Cow<'a, str>,
    /// Its kind.
    pub kind: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its UID.
    pub uid: Cow<'a, str>,
}

/// A finished container that a step adds to the Pod.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Name of the container.
    pub name: String,
    /// The JSON list under `env`.
    pub env: String,
    /// The whole container.
    pub text: String,
    /// In front of the Pod's own containers instead of behind them.
    pub before: bool,
    /// An init container that runs beside the others.
    pub native: bool,
}

/// The Pod under review.
#[derive(Debug)]
pub struct Draft<'a> {
    /// Name of the Pod; empty where one is still to be generated.
    pub name: Cow<'a, str>,
    pub(crate) generate_name: Cow<'a, str>,
    /// Namespace of the Pod, or else of the request.
    pub namespace: Cow<'a, str>,
    /// Labels of the Pod.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The owner that manages the Pod, if any.
    pub controller: Option<Controller<'a>>,
    /// Init containers, with those that steps added.
    pub init_containers: Vec<Container<'a>>,
    /// Containers, with those that steps added.
    pub containers: Vec<Container<'a>>,
    /// The JSON list under `spec.volumes`, as it came.
    pub volumes: Option<&'a str>,
    /// The JSON list under `spec.imagePullSecrets`, as it came.
    pub image_pull_secrets: Option<&'a str>,
    /// The JSON list under `spec.readinessGates`, as it came.
    pub(crate) readiness_gates: Option<&'a str>,
    /// Warnings for the client that made the request.
    pub warnings: Vec<String>,
    object: &'a str,
    annotations: Annotations<'a>,
    present: Present,
    patch: Patch,
}

/// Which parents of edited fields the raw object has.
#[derive(Clone, Copy, Debug)]
struct Present {
    metadata: bool,
    spec: bool,
    init_containers: bool,
    containers: bool,
}

#[derive(Debug)]
struct Annotations<'a> {
    /// What came; `None` where the object has no annotations.
    original: Option<Vec<(Cow<'a, str>, Cow<'a, str>)>>,
    changed: BTreeMap<String, String>,
}

impl<'a> Draft<'a> {
    /// A draft of a Pod. `namespace` is that of the request, for Pods that do not name theirs.
    ///
    /// # Errors
    /// A denial with code 400 for an object of another kind.
    pub fn new(Spanned { text: object, value }: PodText<'a>, namespace: &'a str) -> Result<Self, Denial> {
        let Object(pod) = value;
        let kind = text_or_empty(pod.kind);
        let api_version = text_or_empty(pod.api_version);
        if !matches!((&*api_version, &*kind), ("" | "v1", "" | "Pod")) {
            return Err(not_a_pod(&format_args!("the object is a {kind} of {api_version}")));
        }
        let (has_metadata, metadata) =
            (pod.metadata.is_some(), pod.metadata.map(|object| object.0).unwrap_or_default());
        let (has_spec, spec) = (pod.spec.is_some(), pod.spec.map(|object| object.0).unwrap_or_default());
        let present = Present {
            metadata: has_metadata,
            spec: has_spec,
            init_containers: spec.init_containers.is_some(),
            containers: spec.containers.is_some(),
        };
        let controller = metadata.owner_references.into_iter().flatten().map(|owner| owner.0);
        let controller = controller.into_iter().find(|owner| owner.controller == Some(true));
        let own_namespace = text_or_empty(metadata.namespace);
        Ok(Self {
            name: text_or_empty(metadata.name),
            generate_name: text_or_empty(metadata.generate_name),
            namespace: if own_namespace.is_empty() { Cow::Borrowed(namespace) } else { own_namespace },
            labels: metadata.labels.unwrap_or_default().0,
            controller: controller.map(|owner| {
                let (group, version) = group_and_version(owner.api_version);
                let [kind, name, uid] = [owner.kind, owner.name, owner.uid].map(text_or_empty);
                Controller { group, version, kind, name, uid }
            }),
            init_containers: containers(spec.init_containers),
            containers: containers(spec.containers),
            volumes: spec.volumes.map(RawValue::get),
            image_pull_secrets: spec.image_pull_secrets.map(RawValue::get),
            readiness_gates: spec.readiness_gates.map(RawValue::get),
            warnings: Vec::new(),
            object,
            annotations: Annotations {
                original: metadata.annotations.map(|pairs| pairs.0),
                changed: BTreeMap::new(),
            },
            present,
            patch: Patch::default(),
        })
    }

    /// True for a Pod whose controller is one of our workloads.
    pub(crate) fn is_of_kruise_workload(&self) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.group == api::APPS_GROUP)
    }

    /// The Pod with all edits so far but those of annotations. It is written anew as a whole: for steps
    /// that concern few Pods.
    pub fn current(&self) -> Result<String, ApplyError> {
        json_patch::apply(self.object, &self.patch)
    }

    /// Removes what is at `path`.
    pub(crate) fn remove(&mut self, path: Pointer) {
        self.patch.remove(path);
    }

    /// Adds a value somewhere in `spec`, over what is there.
    pub fn put(&mut self, path: Pointer, value: String) {
        self.need_spec();
        self.patch.add(path, value);
    }

    /// The value of an annotation as it is now.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.changed.get(key).map(String::as_str).or_else(|| self.annotations.original(key))
    }

    /// Sets an annotation. The operations follow when the review ends, one for each key that differs.
    pub fn set_annotation(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.changed.insert(key.into(), value.into());
    }

    /// Gives the Pod its name.
    pub(crate) fn set_name(&mut self, name: String) {
        self.need_metadata();
        let mut value = String::new();
        write_string(&mut value, &name);
        self.patch.add(Pointer::from_escaped("/metadata/name"), value);
        self.name = Cow::Owned(name);
    }

    /// Appends elements to the list at `path` in `spec`; `list` is the list as it came.
    pub fn append(&mut self, path: &str, list: Option<&str>, elements: Vec<String>) {
        if elements.is_empty() {
            return;
        }
        self.need_spec();
        let path = Pointer::from_escaped(path);
        if list.is_none() {
            self.patch.add(path, array(&elements));
            return;
        }
        for element in elements {
            self.patch.add(path.end(), element);
        }
    }

    /// Sets the list at `path` in `spec`.
    pub fn set_list(&mut self, path: &str, elements: &[String]) {
        self.need_spec();
        self.patch.add(Pointer::from_escaped(path), array(elements));
    }

    /// Merges containers into a list: one of the same name is replaced in place, the others go in front or
    /// behind, in their order (docs/behaviour/pod-mutation.md#merging-into-the-pod, rule M).
    pub fn merge(&mut self, list: ContainerList, additions: Vec<Placed>) {
        if additions.is_empty() {
            return;
        }
        self.need_spec();
        let path = list.path();
        let (containers, present) = match list {
            ContainerList::Init => (&mut self.init_containers, &mut self.present.init_containers),
            ContainerList::App => (&mut self.containers, &mut self.present.containers),
        };
        let (mut front, mut behind) = (Vec::new(), Vec::new());
        let (mut front_texts, mut behind_texts) = (Vec::new(), Vec::new());
        for Placed { addition: Addition { name, env, text, before, native }, replaces } in additions {
            let container = Container {
                name: name.into(),
                env: Some(env.into()),
                restarts_always: native,
                ..Container::default()
            };
            match replaces.and_then(|index| containers.get_mut(index).map(|replaced| (index, replaced))) {
                Some((index, replaced)) => {
                    *replaced = container;
                    // While the indexes are still those of the Pod: what is put in front follows below.
                    self.patch.replace(path.index(index), text);
                }
                None if before => {
                    front.push(container);
                    front_texts.push(text);
                }
                None => {
                    behind.push(container);
                    behind_texts.push(text);
                }
            }
        }
        front.append(containers);
        front.append(&mut behind);
        *containers = front;
        if !std::mem::replace(present, true) {
            front_texts.append(&mut behind_texts);
            self.patch.add(path, array(&front_texts));
            return;
        }
        for (index, text) in front_texts.into_iter().enumerate() {
            self.patch.add(path.index(index), text);
        }
        for text in behind_texts {
            self.patch.add(path.end(), text);
        }
    }

    /// Appends a variable to the container at `index` of `spec.containers`, or puts it in the place of
    /// the element at `replaces` of its `env`.
    pub(crate) fn set_env(&mut self, index: usize, replaces: Option<usize>, variable: String) {
        let Some(container) = self.containers.get_mut(index) else { return };
        let path = ContainerList::App.path().index(index).key("env");
        match (&container.env, replaces) {
            (Some(_), Some(position)) => self.patch.replace(path.index(position), variable),
            (Some(_), None) => self.patch.add(path.end(), variable),
            (None, _) => self.patch.add(path, array(&[variable])),
        }
    }

    /// All edits in order, and the warnings.
    pub fn finish(mut self) -> (Patch, Vec<String>) {
        self.write_annotations();
        (self.patch, self.warnings)
    }

    fn write_annotations(&mut self) {
        let mut changed = std::mem::take(&mut self.annotations.changed);
        changed.retain(|key, value| self.annotations.original(key) != Some(value));
        if changed.is_empty() {
            return;
        }
        self.need_metadata();
        let path = Pointer::from_escaped(ANNOTATIONS);
        if self.annotations.original.is_some() {
            for (key, value) in changed {
                self.patch.add(path.key(&key), values::json_patch::string(&value));
            }
            return;
        }
        let mut object = String::from("{");
        for (key, value) in changed {
            if object.len() > 1 {
                object.push(',');
            }
            write_string(&mut object, &key);
            object.push(':');
            write_string(&mut object, &value);
        }
        object.push('}');
        self.patch.add(path, object);
    }

    fn need_metadata(&mut self) {
        if !std::mem::replace(&mut self.present.metadata, true) {
            self.patch.add(Pointer::from_escaped("/metadata"), "{}");
        }
    }

    fn need_spec(&mut self) {
        if !std::mem::replace(&mut self.present.spec, true) {
            self.patch.add(Pointer::from_escaped("/spec"), "{}");
        }
    }
}

/// An addition and the container of the Pod's list that it replaces.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The container that is added.
    pub addition: Addition,
    /// Index of the replaced container in the Pod's list; `None` where it replaces none.
    pub replaces: Option<usize>,
}

impl Annotations<'_> {
    fn original(&self, key: &str) -> Option<&str> {
        let pairs = self.original.as_deref()?;
        pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }
}

pub(crate) fn not_a_pod(problem: &dyn std::fmt::Display) -> Denial {
    Denial { code: 400, message: format!("the object of the request can't be read as a Pod: {problem}") }
}

fn group_and_version(api_version: Option<Text<'_>>) -> (Cow<'_, str>, Cow<'_, str>) {
    match text_or_empty(api_version) {
        Cow::Borrowed(text) => {
            let (group, version) = api::group_and_version(text);
            (group.into(), version.into())
        }
        Cow::Owned(text) => {
            let (group, version) = api::group_and_version(&text);
            (group.to_owned().into(), version.to_owned().into())
        }
    }
}

fn containers<'a>(lenses: Option<Vec<Object<ContainerLens<'a>>>>) -> Vec<Container<'a>> {
    let container = |Object(lens): Object<ContainerLens<'a>>| Container {
        name: text_or_empty(lens.name),
        env: lens.env.map(|env| Cow::Borrowed(env.get())),
        volume_mounts: lens.volume_mounts.map(RawValue::get),
        volume_devices: lens.volume_devices.map(RawValue::get),
        resources: lens.resources.map(RawValue::get),
        restarts_always: lens.restart_policy.is_some_and(|policy| policy.0 == "Always"),
    };
    lenses.into_iter().flatten().map(container).collect()
}

/// A JSON list of elements that are JSON text.
fn array(elements: &[String]) -> String {
    let mut text = String::with_capacity(elements.iter().map(|element| element.len() + 1).sum::<usize>() + 2);
    text.push('[');
    for (position, element) in elements.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(element);
    }
    text.push(']');
    text
}
