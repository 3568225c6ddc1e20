//! SidecarSets, injected Pods, and a cluster whose kubelets do what Pods ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::annotations::{
    SIDECARSET_HASH, SIDECARSET_HASH_WITHOUT_IMAGE, SIDECARSET_INJECTED_LIST, SIDECARSET_VERSION_ALT_PREFIX,
    SIDECARSET_VERSION_PREFIX, SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
};
use jiff::Timestamp;

use crate::sidecarset::records;
use crate::sidecarset::rollout::{Plan, PodUpdate, Refused, RolloutSet, Snapshot, Step, plan, plan_around};
use pod::observed::{Container, ContainerReport, ContainerStatus, ObservedPod, Pairs};
use pod::write::{PodWrite, Target, condition};
use values::hash::sidecarset_hashes;

pub(super) const EMPTY: &str = "mesh:empty";

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A SidecarSet to be made.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) containers: String,
    pub(super) strategy: String,
    /// Further members of the spec, each with a comma in front.
    pub(super) more: String,
    pub(super) status: String,
    pub(super) generation: i64,
    pub(super) resource_version: String,
}

impl Wanted {
    fn of(containers: String) -> Self {
        Self {
            containers,
            strategy: r#"{"type":"RollingUpdate"}"#.to_owned(),
            more: String::new(),
            status: "{}".to_owned(),
            generation: 1,
            resource_version: "100".to_owned(),
        }
    }

    /// One sidecar that is restarted.
    pub(super) fn cold(image: &str) -> Self {
        Self::of(format!(r#"[{{"name":"log","image":"{image}","env":[{{"name":"A","value":"1"}}]}}]"#))
    }

    /// One sidecar that is a pair of twins.
    pub(super) fn hot(image: &str) -> Self {
        Self::of(format!(
            r#"[{{"name":"mesh","image":"{image}","upgradeStrategy":{{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"{EMPTY}"}}}}]"#
        ))
    }

    pub(super) fn strategy(self, strategy: &str) -> Self {
        Self { strategy: strategy.to_owned(), ..self }
    }

    pub(super) fn more(self, more: &str) -> Self {
        Self { more: more.to_owned(), ..self }
    }

    pub(super) fn set(&self) -> RolloutSet {
        let spec = format!(
            r#"{{"selector":{{"matchLabels":{{"app":"web"}}}},"containers":{},"updateStrategy":{}{}}}"#,
            self.containers, self.strategy, self.more
        );
        let hashes = sidecarset_hashes(&spec).unwrap();
        let json = format!(
            r#"{{"metadata":{{"name":"side","uid":"s","resourceVersion":"{}","generation":{},
                "annotations":{{"{SIDECARSET_HASH}":"{}","{SIDECARSET_HASH_WITHOUT_IMAGE}":"{}"}}}},"spec":{spec},"status":{}}}"#,
            self.resource_version, self.generation, hashes.hash, hashes.hash_without_image, self.status
        );
        RolloutSet::read(&json).unwrap()
    }
}

/// The ID that runtimes give an image.
pub(super) fn image_id(image: &str) -> String {
    format!("registry/{}@sha256:{}", image.replace(':', "-"), image.replace([':', '.'], "-"))
}

fn status(name: &str, image: &str) -> ContainerStatus {
    let report = ContainerReport {
        name: name.into(),
        image: image.into(),
        image_id: image_id(image).into(),
        ready: true,
        ..ContainerReport::default()
    };
    ContainerStatus { container_id: format!("containerd://{name}-0").into(), ..report.into() }
}

/// A running, ready Pod into which the sidecars of `set` were injected, behind `app` and in front of `aa`.
pub(super) fn injected_pod(set: &RolloutSet, name: &str) -> ObservedPod {
    let mut pod = ObservedPod::read(
        r#"{"metadata":{"namespace":"shop","labels":{"app":"web"},"resourceVersion":"1"},
            "spec":{"nodeName":"n","containers":[{"name":"app","image":"app:1"}],
                "initContainers":[{"name":"proxy","image":"proxy:1","restartPolicy":"Always"},{"name":"load","image":"load:1"}]},
            "status":{"phase":"Running"}}"#,
    )
    .unwrap();
    pod.metadata.name = name.into();
    pod.metadata.uid = format!("uid-{name}").into();
    let mut containers = pod.spec.containers.to_vec();
    let mut annotations: BTreeMap<String, String> = BTreeMap::new();
    let mut working = BTreeMap::new();
    for sidecar in &set.sidecars {
        let images = match &sidecar.empty_image {
            None => vec![(sidecar.name.to_string(), sidecar.image.to_string())],
            Some(empty_image) => {
                let [one, two] = sidecar.twins();
                for (twin, version, alt) in [(&one, "1", "0"), (&two, "0", "1")] {
                    annotations.insert(format!("{SIDECARSET_VERSION_PREFIX}{twin}"), version.to_owned());
                    annotations.insert(format!("{SIDECARSET_VERSION_ALT_PREFIX}{twin}"), alt.to_owned());
                }
                working.insert(sidecar.name.to_string(), one.clone());
                vec![(one, sidecar.image.to_string()), (two, empty_image.to_string())]
            }
        };
        for (name, image) in images {
            let mut container = containers[0].clone();
            (container.name, container.image) = (name.into(), image.into());
            containers.push(container);
        }
    }
    containers.push(Container { name: "aa".into(), image: "aa:1".into(), ..Container::default() });
    pod.spec.containers = containers.into();
    pod.status.container_statuses =
        pod.spec.containers.iter().map(|container| status(&container.name, &container.image)).collect();
    let sidecars: Vec<&str> = set.sidecar_list.iter().map(AsRef::as_ref).collect();
    for (key, hash, revision) in
        [(SIDECARSET_HASH, &set.hash, "side-1"), (SIDECARSET_HASH_WITHOUT_IMAGE, &set.hash_without_image, "")]
    {
        let entry = records::entry("2026-01-01T00:00:00Z", hash, "side", &sidecars, revision);
        annotations.insert(key.to_owned(), records::object([("side", entry)].into_iter()));
    }
    annotations.insert(SIDECARSET_INJECTED_LIST.to_owned(), "side".to_owned());
    if !working.is_empty() {
        let working = serde_json::to_string(&working).unwrap();
        annotations.insert(SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER.to_owned(), working);
    }
    pod.metadata.annotations = annotations.into_iter().collect();
    set_ready(&mut pod, true, 0);
    pod
}

/// Sets condition `Ready`.
pub(super) fn set_ready(pod: &mut ObservedPod, ready: bool, second: i64) {
    let status = if ready { "True" } else { "False" };
    let mut conditions = pod.status.conditions.to_vec();
    conditions.retain(|condition| &*condition.kind != "Ready");
    conditions.push(condition("Ready", status, "", "", at(second)));
    pod.status.conditions = conditions.into();
}

pub(super) fn set_label(pod: &mut ObservedPod, key: &str, value: &str) {
    let labels: Pairs = pod.metadata.labels.iter().chain([(key, value)]).collect();
    pod.metadata.labels = labels;
}

/// `count` Pods p00, p01, ...
pub(super) fn fleet(set: &RolloutSet, count: usize) -> Cluster {
    let pods = (0..count).map(|index| injected_pod(set, &format!("p{index:02}")));
    Cluster { pods: pods.map(Arc::new).collect(), version: 1, second: 0, broken: Vec::new() }
}

pub(super) fn plan_for(set: &RolloutSet, pods: &[Arc<ObservedPod>]) -> Plan {
    let snapshot = Snapshot { set, pods, revisions: &[], latest_revision: "side-2", collision_count: 0 };
    plan(&snapshot, at(1000))
}

/// The names of the Pods of one step, in the order of their writes.
pub(super) fn names(plan: &Plan, step: Step) -> Vec<&str> {
    let updates = plan.pods.iter().filter(|update| update.step == step);
    updates.map(|update| &*update.pod.metadata.name).collect()
}

/// Pods, and kubelets that take two steps to restart a container.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) pods: Vec<Arc<ObservedPod>>,
    version: u64,
    second: i64,
    /// Images whose containers never get ready.
    pub(super) broken: Vec<String>,
}

impl Cluster {
    pub(super) fn pod(&self, name: &str) -> &ObservedPod {
        self.pods.iter().find(|pod| &*pod.metadata.name == name).unwrap()
    }

    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut ObservedPod)) {
        self.version += 1;
        let version = self.version.to_string();
        let pod = self.pods.iter_mut().find(|pod| &*pod.metadata.name == name).unwrap();
        let pod = Arc::make_mut(pod);
        change(pod);
        pod.metadata.resource_version = version.into();
    }

    pub(super) fn plan(&self, set: &RolloutSet) -> Plan {
        self.plan_around(set, &Refused::new())
    }

    pub(super) fn plan_around(&self, set: &RolloutSet, refused: &Refused) -> Plan {
        let snapshot =
            Snapshot { set, pods: &self.pods, revisions: &[], latest_revision: "side-2", collision_count: 0 };
        plan_around(&snapshot, refused, at(self.second))
    }

    /// Makes the first `writes` of the planned writes of one Pod; false on a conflict.
    pub(super) fn write(&mut self, update: &PodUpdate, writes: usize) -> bool {
        let name = update.pod.metadata.name.to_string();
        if self.pod(&name).metadata.resource_version != update.pod.metadata.resource_version {
            return false;
        }
        for write in update.writes.iter().take(writes) {
            check(write, &update.pod);
            self.change(&name, |pod| write.apply(pod));
        }
        true
    }

    /// Plans and makes all writes.
    pub(super) fn round(&mut self, set: &RolloutSet) -> Plan {
        let plan = self.plan(set);
        for update in &plan.pods {
            assert!(self.write(update, usize::MAX), "a Pod is in a plan twice");
        }
        plan
    }

    /// One step of the kubelet of one Pod: a container with another image restarts and is not ready, one
    /// that restarted before gets ready.
    pub(super) fn kubelet(&mut self, name: &str) {
        self.second += 1;
        let (second, broken) = (self.second, self.broken.clone());
        self.change(name, |pod| {
            let mut statuses = pod.status.container_statuses.to_vec();
            for status in &mut statuses {
                let image = pod.container(&status.name).unwrap().image.clone();
                if status.image != image {
                    status.restart_count += 1;
                    status.image_id = image_id(&image).into();
                    status.container_id =
                        format!("containerd://{}-{}", status.name, status.restart_count).into();
                    status.image = image;
                    status.ready = false;
                } else {
                    status.ready = !broken.contains(&image.to_string());
                }
            }
            let ready = statuses.iter().all(|status| status.ready);
            pod.status.container_statuses = statuses.into();
            if pod.is_ready() != ready {
                set_ready(pod, ready, second);
            }
        });
    }

    pub(super) fn kubelets(&mut self) {
        for name in self.pods.iter().map(|pod| pod.metadata.name.to_string()).collect::<Vec<_>>() {
            self.kubelet(&name);
            self.kubelet(&name);
        }
    }

    /// Continues until nothing is left to do; the number of rounds.
    pub(super) fn settle(&mut self, set: &RolloutSet) -> usize {
        for round in 0..500 {
            self.kubelets();
            if self.round(set).pods.is_empty() {
                return round;
            }
        }
        panic!("no end: {:?}", self.plan(set).summary());
    }
}

/// What holds for every write to a Pod.
fn check(write: &PodWrite, pod: &ObservedPod) {
    let is_sidecar = |name: &str| !["app", "aa"].contains(&name);
    assert!(write.containers.iter().all(|change| is_sidecar(&change.name)), "an app container is written");
    assert!(write.containers.iter().all(|change| change.resources == Default::default()));
    assert!(write.labels.is_empty() && write.finalizers.is_empty() && write.phase.is_none());
    assert!(!write.is_empty(), "an empty write to {}", pod.metadata.name);
    assert_eq!(write.target == Target::Status, !write.conditions.is_empty());
    assert!(write.keeps_places(pod), "the API server refuses {}", write.to_json(pod));
}
