//! Which probes run in the Pods of a node, and what its agent gets to know about them
//! (docs/behaviour/probes.md#what-a-nodepodprobe-says).

use std::sync::Arc;

use api::Raw;
use api::kinds::nodepodprobe::{ContainerProbe, PodProbe};
use api::kinds::podprobemarker;
use serde::Deserialize;
use serde_json::Value;

use super::SEPARATOR;
use super::liveness::{self, Moved, moved};
use super::marker::{Marker, is_probed};
use pod::observed::{Container, ObservedPod};
use values::canonical::{Kind, Unknown, canonical_json, table};
use values::json_patch::{Patch, Pointer, apply, string};

/// A Pod and the probes that run in it.
#[derive(Clone, Debug)]
pub struct Probed<'a> {
    /// The Pod.
    pub pod: &'a ObservedPod,
    /// Its probes, by the names of the markers and in their order.
    probes: Vec<(&'a Marker, &'a podprobemarker::ContainerProbe)>,
    /// The liveness probes that the agent runs.
    pub(super) liveness: Vec<Moved>,
}

/// The Pods of `pods` in which probes of `markers` run, by namespace and name; with `liveness` also those whose liveness
/// probes the agent runs.
pub fn probed<'a>(
    pods: &'a [Arc<ObservedPod>],
    markers: &'a [Arc<Marker>],
    liveness: bool,
) -> Vec<Probed<'a>> {
    let mut markers: Vec<&Marker> =
        markers.iter().map(|marker| &**marker).filter(|marker| marker.is_active()).collect();
    markers.sort_by(|one, other| one.object.metadata.name.cmp(&other.object.metadata.name));
    let probes_of = |pod: &ObservedPod| {
        let meant = markers.iter().copied().filter(|marker| {
            *marker.object.metadata.namespace == *pod.metadata.namespace && marker.includes(pod)
        });
        meant
            .flat_map(|marker| marker.object.spec.probes.iter().map(move |probe| (marker, probe)))
            .collect::<Vec<_>>()
    };
    let liveness_of = |pod: &ObservedPod| if liveness && is_probed(pod) { moved(pod) } else { Vec::new() };
    let all = pods.iter().map(|pod| Probed { pod, probes: probes_of(pod), liveness: liveness_of(pod) });
    let is_any = |probed: &Probed<'_>| !probed.probes.is_empty() || !probed.liveness.is_empty();
    let mut all: Vec<Probed<'_>> = all.filter(is_any).collect();
    all.sort_by(|one, other| one.key().cmp(&other.key()));
    all
}

impl<'a> Probed<'a> {
    fn key(&self) -> (&str, &str) {
        (&self.pod.metadata.namespace, &self.pod.metadata.name)
    }

    /// The probe that a NodePodProbe calls by this name.
    pub(super) fn named(&self, name: &str) -> Option<&'a podprobemarker::ContainerProbe> {
        let (marker, probe) = name.split_once(SEPARATOR)?;
        let mut probes = self.probes.iter();
        let found = probes.find(|(of, known)| of.object.metadata.name == marker && known.name == probe);
        found.map(|(_, probe)| *probe)
    }

    /// What the agent gets to know about this Pod; `None` where none of its probes can run.
    pub(super) fn entry(&self) -> Option<PodProbe> {
        let metadata = &self.pod.metadata;
        let probe = |name: String, container_name: &str, probe: &Raw| {
            // A native sidecar has no other turn than containers have.
            let probe = resolved(probe, self.pod.container(container_name)?)?;
            Some(ContainerProbe { container_name: container_name.to_owned(), name, probe: Some(probe) })
        };
        let of_markers = self.probes.iter().filter_map(|(marker, of_marker)| {
            let name = format!("{}{SEPARATOR}{}", marker.object.metadata.name, of_marker.name);
            probe(name, &of_marker.container_name, of_marker.probe.as_ref()?)
        });
        let of_liveness = self.liveness.iter().filter_map(|moved| {
            probe(liveness::name(&moved.container), &moved.container, &moved.liveness_probe)
        });
        let mut probes: Vec<ContainerProbe> = of_markers.chain(of_liveness).collect();
        probes.sort_by(|one, other| one.name.cmp(&other.name));
        (!probes.is_empty()).then(|| PodProbe {
            ip: self.pod.status.pod_ip.to_string(),
            name: metadata.name.to_string(),
            namespace: metadata.namespace.to_string(),
            probes,
            uid: metadata.uid.to_string(),
        })
    }
}

/// What a probe asks of the network, as far as it is to be completed.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Handlers {
    http_get: Option<Action>,
    tcp_socket: Option<Action>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Action {
    port: Value,
    scheme: Option<String>,
}

/// The probe with numbers for the names of ports and with a scheme; `None` where the container has no such port.
fn resolved(probe: &Raw, container: &Container) -> Option<Raw> {
    let Handlers { http_get, tcp_socket } = serde_json::from_str(probe.get()).ok()?;
    let mut patch = Patch::default();
    for (name, action) in [("httpGet", &http_get), ("tcpSocket", &tcp_socket)] {
        let Some(action) = action else { continue };
        let path = Pointer::root().key(name);
        if let Value::String(port) = &action.port {
            patch.replace(path.key("port"), number(port, container)?.to_string());
        }
        if name == "httpGet" && action.scheme.as_ref().is_none_or(String::is_empty) {
            patch.add(path.key("scheme"), string("HTTP"));
        }
    }
    canonical(&Raw::parse(apply(probe.get(), &patch).ok()?).ok()?)
}

/// The number of a port that is given by its name, or as text.
fn number(port: &str, container: &Container) -> Option<i32> {
    let named = container.ports.iter().find(|known| *known.name == *port);
    named.map_or_else(|| port.parse().ok(), |port| Some(port.container_port))
}

/// A probe in the form in which probes are compared.
pub(super) fn canonical(probe: &Raw) -> Option<Raw> {
    let text = canonical_json(probe.get(), &Kind::Struct(&table::PROBE), Unknown::Keep).ok()?;
    Raw::parse(text).ok()
}
