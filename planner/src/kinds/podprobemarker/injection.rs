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

use crate::pod::review::{Draft, Reasons, ReviewContext};
use crate::pod::selector::PodSelector;
use crate::text::canonical::{Kind, Unknown, canonical_json, table};
use crate::text::json_patch::string;
use crate::text::selector::SelectorError;
use crate::workload::namespaced::{Entry, Namespaced};

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
    pub(crate) fn read(name: &str, object: &str) -> Result<Self, serde_json::Error> {
        let PodProbeMarker { spec, .. } = serde_json::from_str(object)?;
        let probes = spec.probes.iter().filter(|probe| !probe.pod_condition_type.is_empty());
        Ok(Self {
            name: name.into(),
            selector: PodSelector::compile(Some(&spec.selector)),
            probes: probes.map(Probe::prepare).collect::<Result<_, _>>()?,
        })
    }

    /// Why the selector can't be used, if so.
    pub(crate) fn problem(&self) -> Option<&SelectorError> {
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
pub(crate) fn mutate(
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::server::pod_review::fixture::{Cluster, create, pod};
    use crate::server::pod_review::{Known, explain};
    use crate::server::world::Watched;

    fn on() -> Cluster {
        Cluster::new().gates("EnablePodProbeMarkerOnServerless=true")
    }

    fn marker(cluster: Cluster, name: &str, probes: Value) -> Cluster {
        selecting(cluster, name, json!({"matchLabels": {"app": "web"}}), probes)
    }

    fn selecting(cluster: Cluster, name: &str, selector: Value, probes: Value) -> Cluster {
        let mut object = json!({"metadata": {"name": name, "namespace": "shop"}});
        object["spec"]["selector"] = selector;
        object["spec"]["probes"] = probes;
        cluster.apply(Watched::PodProbeMarker, &object)
    }

    fn probe(container: &str, name: &str, condition: &str) -> Value {
        json!({"name": name, "containerName": container, "podConditionType": condition,
            "probe": {"periodSeconds": 5, "exec": {"command": ["check", name]}},
            "markerPolicy": [{"state": "Succeeded", "labels": {"a": "b"}}]})
    }

    fn probes(pod: &Value) -> Vec<String> {
        let list: Vec<Value> =
            serde_json::from_str(pod["metadata"]["annotations"]["kruise.io/podprobe"].as_str().unwrap())
                .unwrap();
        let text = |probe: &Value| {
            format!("{}/{}", probe["containerName"].as_str().unwrap(), probe["name"].as_str().unwrap())
        };
        list.iter().map(text).collect()
    }

    fn list(pod: &Value) -> &str {
        pod["metadata"]["annotations"]["kruise.io/podprobemarker-list"].as_str().unwrap()
    }

    fn main_only() -> Value {
        pod(json!([{"name": "m"}]))
    }

    #[test]
    fn scenario_30_the_first_probe_of_a_condition_is_written() {
        let cluster = marker(on(), "b", json!([probe("m", "later", "game/idle")]));
        let cluster = marker(cluster, "a", json!([probe("m", "first", "game/idle")]));
        let admitted = cluster.admit(&main_only());
        assert_eq!(
            admitted["metadata"]["annotations"],
            json!({"kruise.io/podprobe": r#"[{"name":"first","containerName":"m","probe":{"exec":{"command":["check","first"]},"periodSeconds":5},"podConditionType":"game/idle"}]"#,
                "kruise.io/podprobemarker-list": "a"})
        );
        assert_eq!(cluster.admit(&admitted), admitted);
    }

    #[test]
    fn without_the_gate_nothing_is_written() {
        let cluster = marker(Cluster::new(), "a", json!([probe("m", "p", "x/y")]));
        assert_eq!(cluster.admit(&main_only()), main_only());
    }

    #[test]
    fn probes_need_a_condition_a_name_of_their_own_and_a_container() {
        let mut silent = probe("m", "silent", "");
        let own = json!([
            silent,
            probe("m", "p", "x/1"),
            probe("gone", "p", "x/2"),
            probe("m", "p", "x/3"),
            probe("n", "p", "x/4")
        ]);
        let cluster = marker(on(), "a", own);
        let admitted = cluster.admit(&pod(json!([{"name": "m"}, {"name": "n"}])));
        assert_eq!((probes(&admitted), list(&admitted)), (vec!["m/p".to_owned(), "n/p".to_owned()], "a"));
        silent.as_object_mut().unwrap().remove("podConditionType");
        let cluster = marker(on(), "a", json!([silent, probe("gone", "p", "x/1")]));
        assert_eq!(cluster.admit(&main_only()), main_only());
    }

    #[test]
    fn injected_containers_and_native_sidecars_are_probed_and_init_containers_are_not() {
        let set = json!({"containers": [{"name": "agent"}],
            "initContainers": [{"name": "native", "restartPolicy": "Always"}, {"name": "setup"}]});
        let conditions = ["agent", "native", "setup", "own", "plain"]
            .map(|container| probe(container, "p", &format!("x/{container}")));
        let cluster = marker(on().set("s", set), "a", json!(conditions));
        let mut pod = main_only();
        pod["spec"]["initContainers"] =
            json!([{"name": "own", "restartPolicy": "Always"}, {"name": "plain"}]);
        let admitted = cluster.admit(&pod);
        assert_eq!(probes(&admitted), ["agent/p", "native/p", "own/p"]);
        assert_eq!(cluster.admit(&admitted), admitted);
    }

    #[test]
    fn a_pod_may_name_its_markers() {
        let cluster = selecting(on(), "c", json!({}), json!([probe("m", "c", "x/c")]));
        let cluster = marker(cluster, "b", json!([probe("m", "b", "x/b")]));
        let cluster =
            selecting(cluster, "a", json!({"matchLabels": {"app": "db"}}), json!([probe("m", "a", "x/a")]));
        assert_eq!(list(&cluster.admit(&main_only())), "b");
        let mut naming = main_only();
        naming["metadata"]["annotations"] = json!({"kruise.io/podprobemarker-list": "c, gone,a"});
        let admitted = cluster.admit(&naming);
        assert_eq!((list(&admitted), probes(&admitted)), ("a,c", vec!["m/a".to_owned(), "m/c".to_owned()]));
        assert_eq!(cluster.admit(&admitted), admitted);
        naming["metadata"]["annotations"] = json!({"kruise.io/podprobemarker-list": ""});
        assert_eq!(list(&cluster.admit(&naming)), "b");
    }

    #[test]
    fn every_marker_of_the_namespace_is_explained() {
        let cluster = marker(on(), "a", json!([probe("m", "p", "x/y")]));
        let cluster = marker(cluster, "b", json!([probe("m", "q", "x/y")]));
        let mut cluster = selecting(cluster, "c", json!({"matchLabels": {"app": "db"}}), json!([]));
        let broken = json!({"metadata": {"name": "d", "namespace": "shop"}, "spec": {"selector":
            {"matchExpressions": [{"key": "app", "operator": "In"}]}}});
        cluster.world.apply(Watched::PodProbeMarker, &broken.to_string()).unwrap_err();
        let object = main_only().to_string();
        let (outcome, told) =
            explain(&create(&object), &cluster.world, Known::default(), &cluster.gates, cluster.moment());
        assert_eq!(outcome, cluster.decide(&main_only()));
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told[0], "PodProbeMarker a: written on the Pod: m/p");
        assert!(told[1].starts_with("PodProbeMarker b: meant for the Pod, but"), "{told:?}");
        assert_eq!(
            told[2],
            "PodProbeMarker c: not written: spec.selector does not match the labels of the Pod"
        );
        assert!(told[3].starts_with("PodProbeMarker d: not written: spec.selector is invalid: "), "{told:?}");
    }
}
