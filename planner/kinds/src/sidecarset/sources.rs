//! What sidecars take over from the Pod's own containers: mounts, devices and environment variables
//! (docs/behaviour/pod-mutation.md#shared-volumes and docs/behaviour/pod-mutation.md#transferred-variables).
//!
//! A container that this pass replaces is never a source: on a second review of the same Pod it would be
//! the sidecar of the first, and the sidecars of one pass do not see each other.

use std::borrow::Cow;
use std::cell::OnceCell;

use api::environment::IS_INJECTED;
use foldhash::{HashSet, HashSetExt as _};

use super::contribution::{Source, Transfer};
use pod::review::draft::Container;
use pod::review::lens::{Mount, Named, mounts, named};
use pod::review::{Draft, Halt};

/// The containers of a Pod as sources. What is read from them is read once, when first needed.
pub(crate) struct Sources<'d> {
    draft: &'d Draft<'d>,
    containers: Vec<SourceContainer<'d>>,
    mounts: OnceCell<Result<SharedMounts<'d>, Halt>>,
    devices: OnceCell<Result<Vec<Mount<'d>>, Halt>>,
}

struct SourceContainer<'d> {
    container: &'d Container<'d>,
    env: OnceCell<Result<Vec<Named<'d>>, Halt>>,
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
        let containers = draft.containers.iter().filter(|container| !replaced.contains(&container.name));
        let containers = containers.map(|container| SourceContainer { container, env: OnceCell::new() });
        Self { draft, containers: containers.collect(), mounts: OnceCell::new(), devices: OnceCell::new() }
    }

    /// The mounts of all containers that were not injected, in the Pod's order.
    pub(crate) fn shared_mounts(&self) -> Result<&SharedMounts<'d>, Halt> {
        self.mounts.get_or_init(|| self.read_shared_mounts()).as_ref().map_err(Halt::clone)
    }

    /// The devices of all containers that were not injected, in the Pod's order.
    pub(crate) fn shared_devices(&self) -> Result<&[Mount<'d>], Halt> {
        let devices = self.devices.get_or_init(|| {
            let mut devices = Vec::new();
            for source in &self.containers {
                if let Some(list) = source.container.volume_devices
                    && !source.is_injected()?
                {
                    devices.extend(mounts(list).map_err(|error| source.malformed("volumeDevices", &error))?);
                }
            }
            Ok(devices)
        });
        devices.as_deref().map_err(Halt::clone)
    }

    /// The variables that a transfer names, as far as its source has them.
    pub(crate) fn transferred(&self, transfer: &Transfer) -> Result<Vec<&Named<'d>>, Halt> {
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
        let Some(source) = self.containers.iter().find(|source| source.container.name == name) else {
            return Ok(Vec::new());
        };
        let env = source.env()?;
        // Of repeated variables the last counts.
        let find = |name: &String| env.iter().rev().find(|variable| variable.name == name.as_str());
        Ok(transfer.names.iter().filter_map(find).collect())
    }

    fn read_shared_mounts(&self) -> Result<SharedMounts<'d>, Halt> {
        let mut shared = SharedMounts::default();
        let mut known = HashSet::new();
        for source in &self.containers {
            let Some(list) = source.container.volume_mounts else { continue };
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
    fn env(&self) -> Result<&[Named<'d>], Halt> {
        let env = self.env.get_or_init(|| {
            named(self.container.env.as_deref().unwrap_or("null"))
                .map_err(|error| self.malformed("env", &error))
        });
        env.as_deref().map_err(Halt::clone)
    }

    fn is_injected(&self) -> Result<bool, Halt> {
        if !may_be_injected(self.container) {
            return Ok(false);
        }
        is_marked(self.env()?).map_err(|error| self.malformed("env", &error))
    }

    fn malformed(&self, field: &str, error: &serde_json::Error) -> Halt {
        Halt::bad_request(format!("{field} of container {}: {error}", self.container.name))
    }
}

/// False where a container is surely the user's own: a search in the text is cheaper than reading it.
pub(crate) fn may_be_injected(container: &Container<'_>) -> bool {
    container.env.as_deref().is_some_and(|env| env.contains(IS_INJECTED) || env.contains("\\u"))
}

/// True where the variables say that an earlier injection made their container.
pub(crate) fn is_marked(env: &[Named<'_>]) -> Result<bool, serde_json::Error> {
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
