//! Puts the containers of a SidecarSet together for one Pod
//! (docs/behaviour/pod-mutation.md#building-containers and docs/behaviour/pod-mutation.md#hot-upgrade-pair).

use std::borrow::Cow;

use api::annotations::{SIDECARSET_VERSION_ALT_PREFIX, SIDECARSET_VERSION_PREFIX};
use api::environment::{SIDECARSET_VERSION, SIDECARSET_VERSION_ALT};
use foldhash::HashSet;

use super::contribution::{Elements, Sidecar};
use super::resources;
use super::sources::Sources;
use pod::review::Draft;
use pod::review::draft::Addition;
use pod::review::lens::{Mount, Named};
use values::json_patch::{string, write_string};
use values::verdict::Denial;

/// What the containers of one pass are built from.
pub(crate) struct Builder<'d> {
    pub(crate) draft: &'d Draft<'d>,
    pub(crate) sources: Sources<'d>,
    /// Names of all sidecars of the pass, as in their SidecarSets and as in the Pod.
    pub(crate) sidecars: &'d [Cow<'d, str>],
}

impl Builder<'_> {
    /// The container, or the two twins, that a sidecar comes to.
    pub(crate) fn build(&self, sidecar: &Sidecar) -> Result<Vec<Addition>, Denial> {
        let computed = sidecar.resources_rule.as_deref();
        let computed =
            computed.map(|rule| resources::compute(rule, self.draft, self.sidecars)).transpose()?;
        let mut transferred = Vec::new();
        for transfer in &sidecar.transfers {
            transferred.extend(self.sources.transferred(transfer)?);
        }
        let mut mounts = Cow::Borrowed(&*sidecar.volume_mounts.text);
        let mut devices = Cow::Borrowed(&*sidecar.volume_devices.text);
        if sidecar.shares_mounts || sidecar.shares_devices {
            let own = sidecar.volume_mounts.keys.iter().chain(&sidecar.volume_devices.keys);
            let mut paths: HashSet<&str> = own.map(AsRef::as_ref).collect();
            if sidecar.shares_mounts {
                let shared = self.sources.shared_mounts()?;
                transferred.extend(&shared.env);
                share(mounts.to_mut(), &mut paths, &shared.mounts);
            }
            if sidecar.shares_devices {
                share(devices.to_mut(), &mut paths, self.sources.shared_devices()?);
            }
        }
        let env = environment(&sidecar.env, &transferred);
        let resources = computed.as_deref().or(sidecar.resources.as_deref());
        let parts = Parts { sidecar, resources, mounts: &mounts, devices: &devices };
        let image = sidecar.image.as_deref();
        let Some(idle_image) = sidecar.idle_image.as_deref() else {
            return Ok(vec![parts.container(String::from(&*sidecar.name), image, list(&[&env]))]);
        };
        let twin = |number: u8, image| {
            let name = format!("{}-{number}", sidecar.name);
            let versions = version_variables(&name);
            parts.container(name, image, list(&[&env, ",", &versions]))
        };
        Ok(vec![twin(1, image), twin(2, Some(idle_image))])
    }
}

/// Appends the shared elements whose paths are free.
fn share<'s>(list: &mut String, paths: &mut HashSet<&'s str>, shared: &'s [Mount<'_>]) {
    for mount in shared {
        if paths.insert(&mount.path) {
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(mount.text);
        }
    }
}

/// Own variables, then the others whose names are free; the first of a name wins.
fn environment(own: &Elements, others: &[&Named<'_>]) -> String {
    let length: usize = others.iter().map(|variable| variable.text.len() + 1).sum();
    let mut env = String::with_capacity(own.text.len() + length);
    env.push_str(&own.text);
    if others.is_empty() {
        return env;
    }
    let mut names: HashSet<&str> = own.keys.iter().map(AsRef::as_ref).collect();
    for variable in others {
        if names.insert(&variable.name) {
            env.push(',');
            env.push_str(variable.text);
        }
    }
    env
}

/// The variables that show a twin which version of its sidecar it runs.
fn version_variables(container: &str) -> String {
    let variable = |name: &str, prefix: &str| {
        let path = string(&format!("metadata.annotations['{prefix}{container}']"));
        format!(r#"{{"name":"{name}","valueFrom":{{"fieldRef":{{"fieldPath":{path}}}}}}}"#)
    };
    format!(
        "{},{}",
        variable(SIDECARSET_VERSION, SIDECARSET_VERSION_PREFIX),
        variable(SIDECARSET_VERSION_ALT, SIDECARSET_VERSION_ALT_PREFIX)
    )
}

/// What the twins of a sidecar have in common.
struct Parts<'p> {
    sidecar: &'p Sidecar,
    resources: Option<&'p str>,
    mounts: &'p str,
    devices: &'p str,
}

impl Parts<'_> {
    fn container(&self, name: String, image: Option<&str>, env: String) -> Addition {
        let members = &self.sidecar.members;
        let resources = self.resources.unwrap_or_default();
        let length =
            members.len() + resources.len() + self.mounts.len() + self.devices.len() + env.len() + name.len();
        let mut text = String::with_capacity(length + image.map_or(0, str::len) + 96);
        text.push_str("{\"name\":");
        write_string(&mut text, &name);
        text.push(',');
        for (key, value) in [("image", image), ("resources", self.resources)] {
            if let Some(value) = value {
                push_all(&mut text, &["\"", key, "\":", value, ","]);
            }
        }
        text.push_str(members);
        for (key, list) in [("volumeMounts", self.mounts), ("volumeDevices", self.devices)] {
            if !list.is_empty() {
                push_all(&mut text, &["\"", key, "\":[", list, "],"]);
            }
        }
        push_all(&mut text, &["\"env\":", &env, "}"]);
        Addition { name, env, text, before: self.sidecar.before, native: self.sidecar.native }
    }
}

/// A JSON list of what the pieces hold together.
fn list(pieces: &[&str]) -> String {
    let mut list = String::with_capacity(pieces.iter().map(|piece| piece.len()).sum::<usize>() + 2);
    list.push('[');
    push_all(&mut list, pieces);
    list.push(']');
    list
}

fn push_all(text: &mut String, pieces: &[&str]) {
    for piece in pieces {
        text.push_str(piece);
    }
}
