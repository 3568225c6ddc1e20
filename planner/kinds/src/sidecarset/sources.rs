//! What sidecars take over from the Pod's own containers: mounts, devices and environment variables
//! (docs/behaviour/pod-mutation.md#shared-volumes and docs/behaviour/pod-mutation.md#transferred-variables).
//!
//! Sources are the containers of the Pod as it came, also those that this pass replaces; the sidecars of one pass do
//! not see each other. A second review of the same Pod finds a sidecar where such a container was: what the container
//! had is in an annotation, so that both reviews come to the same.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use api::annotations::SIDECARSET_REPLACED_SOURCES;
use api::environment::IS_INJECTED;
use foldhash::{HashSet, HashSetExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::contribution::{Source, Transfer};
use super::records::object;
use pod::review::Draft;
use pod::review::draft::Container;
use pod::review::lens::{Mount, Named, mounts, named};
use values::verdict::{Denial, refused};

/// Bytes of the record of what was replaced, at most: all annotations of an object together have 256 KiB.
const LONGEST_RECORD: usize = 64 * 1024;

/// The containers of a Pod as sources. What is read from them is read once, when first needed.
pub(crate) struct Sources<'d> {
    draft: &'d Draft<'d>,
    containers: Vec<SourceContainer<'d>>,
    mounts: OnceCell<Result<SharedMounts<'d>, Denial>>,
    devices: OnceCell<Result<Vec<Mount<'d>>, Denial>>,
}

struct SourceContainer<'d> {
    name: &'d str,
    /// The JSON lists of the container, as far as it has them.
    lists: Lists<'d>,
    /// A sidecar of this pass takes its place.
    is_replaced: bool,
    env: OnceCell<Result<Vec<Named<'d>>, Denial>>,
}

/// What sidecars may take over from one container, as JSON texts.
#[derive(Clone, Copy)]
struct Lists<'d> {
    env: Option<&'d str>,
    volume_mounts: Option<&'d str>,
    volume_devices: Option<&'d str>,
}

/// The same, as an annotation records it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'d> {
    #[serde(borrow)]
    env: Option<&'d RawValue>,
    #[serde(borrow)]
    volume_mounts: Option<&'d RawValue>,
    #[serde(borrow)]
    volume_devices: Option<&'d RawValue>,
}

/// The mounts to share, and the variables that their `subPathExpr` needs.
#[derive(Default)]
pub(crate) struct SharedMounts<'d> {
    pub(crate) mounts: Vec<Mount<'d>>,
    pub(crate) env: Vec<Named<'d>>,
}

impl<'d> Sources<'d> {
    /// `replaced` holds the names of the containers that this pass puts into `spec.containers`.
    pub(crate) fn new(draft: &'d Draft<'d>, replaced: &[Cow<'_, str>]) -> Self {
        let recorded = recorded(draft);
        let source = |container: &'d Container<'d>| {
            let is_replaced = replaced.contains(&container.name);
            let lists = match is_replaced && is_injected(container) {
                true => Lists::of_record(recorded.get(&*container.name)?),
                false => Lists::of(container),
            };
            Some(SourceContainer { name: &container.name, lists, is_replaced, env: OnceCell::new() })
        };
        let containers = draft.containers.iter().filter_map(source).collect();
        Self { draft, containers, mounts: OnceCell::new(), devices: OnceCell::new() }
    }

    /// What annotation [`SIDECARSET_REPLACED_SOURCES`] has to say for a second review; `None` where nothing is replaced, or
    /// where it would be too long: then a second review finds no sources there.
    pub(crate) fn replaced(&self) -> Option<String> {
        let replaced: BTreeMap<&str, String> = self
            .containers
            .iter()
            .filter(|source| source.is_replaced)
            .map(|source| (source.name, source.lists.record()))
            .collect();
        let record =
            (!replaced.is_empty()).then(|| object(replaced.iter().map(|(name, record)| (*name, record))));
        record.filter(|record| record.len() <= LONGEST_RECORD)
    }

    /// The mounts of all containers that were not injected, in the Pod's order.
    pub(crate) fn shared_mounts(&self) -> Result<&SharedMounts<'d>, Denial> {
        self.mounts.get_or_init(|| self.read_shared_mounts()).as_ref().map_err(Denial::clone)
    }

    /// The devices of all containers that were not injected, in the Pod's order.
    pub(crate) fn shared_devices(&self) -> Result<&[Mount<'d>], Denial> {
        let devices = self.devices.get_or_init(|| {
            let mut devices = Vec::new();
            for source in &self.containers {
                if let Some(list) = source.lists.volume_devices
                    && !source.is_injected()?
                {
                    devices.extend(mounts(list).map_err(|error| source.malformed("volumeDevices", &error))?);
                }
            }
            Ok(devices)
        });
        devices.as_deref().map_err(Denial::clone)
    }

    /// The variables that a transfer names, as far as its source has them.
    pub(crate) fn transferred(&self, transfer: &Transfer) -> Result<Vec<&Named<'d>>, Denial> {
        let label = |key: &str| {
            self.draft.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
        };
        let name = match &transfer.source {
            Source::Name(name) => Some(name.as_str()),
            Source::Label(key) => label(key),
            Source::Annotation(key) => self.draft.annotation(key),
            Source::Unsupported => None,
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Vec::new()) };
        let Some(source) = self.containers.iter().find(|source| source.name == name) else {
            return Ok(Vec::new());
        };
        let env = source.env()?;
        // Of repeated variables the last counts.
        let find = |name: &String| env.iter().rev().find(|variable| variable.name == name.as_str());
        Ok(transfer.names.iter().filter_map(find).collect())
    }

    fn read_shared_mounts(&self) -> Result<SharedMounts<'d>, Denial> {
        let mut shared = SharedMounts::default();
        let mut known = HashSet::new();
        for source in &self.containers {
            let Some(list) = source.lists.volume_mounts else { continue };
            if source.is_injected()? {
                continue;
            }
            let mounts = mounts(list).map_err(|error| source.malformed("volumeMounts", &error))?;
            for name in mounts.iter().flat_map(|mount| references(&mount.sub_path_expr)) {
                let variable = source.env()?.iter().find(|variable| variable.name == name);
                let Some(variable) = variable else { continue };
                if known.insert(variable.name.clone()) {
                    shared.env.push(variable.clone());
                }
            }
            shared.mounts.extend(mounts);
        }
        Ok(shared)
    }
}

impl<'d> SourceContainer<'d> {
    fn env(&self) -> Result<&[Named<'d>], Denial> {
        let env = self.env.get_or_init(|| {
            named(self.lists.env.unwrap_or("null")).map_err(|error| self.malformed("env", &error))
        });
        env.as_deref().map_err(Denial::clone)
    }

    fn is_injected(&self) -> Result<bool, Denial> {
        if !may_be_injected(self.lists.env) {
            return Ok(false);
        }
        is_marked(self.env()?).map_err(|error| self.malformed("env", &error))
    }

    fn malformed(&self, field: &str, error: &serde_json::Error) -> Denial {
        refused(format!("{field} of container {}: {error}", self.name))
    }
}

impl<'d> Lists<'d> {
    fn of(container: &'d Container<'d>) -> Self {
        let Container { env, volume_mounts, volume_devices, .. } = container;
        Self { env: env.as_deref(), volume_mounts: *volume_mounts, volume_devices: *volume_devices }
    }

    fn of_record(recorded: &Recorded<'d>) -> Self {
        Self {
            env: recorded.env.map(RawValue::get),
            volume_mounts: recorded.volume_mounts.map(RawValue::get),
            volume_devices: recorded.volume_devices.map(RawValue::get),
        }
    }

    fn record(&self) -> String {
        let members =
            [("env", self.env), ("volumeMounts", self.volume_mounts), ("volumeDevices", self.volume_devices)];
        object(members.into_iter().filter_map(|(key, list)| Some((key, list?))))
    }
}

/// What an earlier review recorded. Whatever else is there counts for nothing.
fn recorded<'d>(draft: &'d Draft<'d>) -> BTreeMap<String, Recorded<'d>> {
    let text = draft.annotation(SIDECARSET_REPLACED_SOURCES);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// True for a container that an earlier review put into the Pod.
pub(crate) fn is_injected(container: &Container<'_>) -> bool {
    let env = container.env.as_deref();
    let marked = |env: &str| named(env).and_then(|env| is_marked(&env)).unwrap_or(false);
    may_be_injected(env) && env.is_some_and(marked)
}

/// False where a container is surely the user's own: a search in the text is cheaper than reading it.
fn may_be_injected(env: Option<&str>) -> bool {
    env.is_some_and(|env| env.contains(IS_INJECTED) || env.contains("\\u"))
}

/// True where the variables say that an earlier injection made their container.
fn is_marked(env: &[Named<'_>]) -> Result<bool, serde_json::Error> {
    let Some(marker) = env.iter().find(|variable| variable.name == IS_INJECTED) else { return Ok(false) };
    Ok(marker.value()?.as_deref() == Some("true"))
}

/// The names in `$(NAME)` of an expression.
fn references(expression: &str) -> impl Iterator<Item = &str> {
    expression.split("$(").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once(')')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let valid = name.chars().all(is_name) && !name.starts_with(|c: char| c.is_ascii_digit());
        (valid && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::references;

    #[test]
    fn references_are_names_in_parentheses() {
        let names: Vec<&str> = references("x/$(POD_NAME)/$(a.b-c)/$(1st)/$()/$(no end/$HOME/$(_x)").collect();
        assert_eq!(names, ["POD_NAME", "a.b-c", "_x"]);
    }
}
