//! Rule 8: where a workload settles; and the numbers that people follow.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::labels::{CONTROLLER_REVISION_HASH, LIFECYCLE_STATE};
use serde_json::Value;

use crate::Cluster;
use crate::kind::{Bounds, End, Simulated, count, is_at, is_available, is_ended, owns};
use crate::timeline::Counts;
use kinds::workload::kind::WorkloadStatus;
use pod::observed::ObservedPod;
use pod::revision_labels::short_hash;
use values::selector::Selector;

impl<W: Simulated> Cluster<'_, W> {
    /// Active Pods that belong to the workload.
    fn active_own_pods(&self) -> Vec<&Arc<ObservedPod>> {
        let workload = &*self.server.workload;
        let selector = Selector::compile(workload.selector()).ok();
        self.server.pods.values().filter(|pod| owns(workload, selector.as_ref(), pod)).collect()
    }

    /// Numbers of Pods now.
    pub(crate) fn counts(&self) -> Counts {
        let bounds = self.server.workload.bounds(&self.facts);
        let update = self.update_revision();
        let own = self.active_own_pods();
        // Where there are no revisions all Pods are of the present template.
        let new = count(own.iter().copied(), |pod| update.is_empty() || is_at(pod, &update));
        let available = |pod: &ObservedPod| is_available(pod, bounds.min_ready_seconds, self.now());
        Counts {
            new,
            old: count(own.iter().copied(), |_| true) - new,
            available: count(own.iter().copied(), available),
            floor: bounds.floor().max(0),
            ceiling: bounds.ceiling(),
        }
    }

    /// The newest revision.
    fn update_revision(&self) -> String {
        let newest = self.server.revisions.values().max_by_key(|revision| revision.revision);
        newest.map(|revision| revision.name().to_owned()).unwrap_or_default()
    }

    /// What is not as it should be, when nothing happens any more.
    pub(crate) fn unrest(&self) -> Vec<String> {
        let Bounds { replicas, min_ready_seconds, .. } = self.server.workload.bounds(&self.facts);
        let now = self.now();
        let own = self.active_own_pods();
        let end = End {
            workload: &*self.server.workload,
            nodes: &self.facts,
            available: count(own.iter().copied(), |pod| is_available(pod, min_ready_seconds, now)),
            pods: own,
            ended: self.own_pods().filter(|pod| is_ended(pod)).collect(),
            update_revision: self.update_revision(),
            claims: self.server.claims.values().map(|claim| &**claim).collect(),
            deleted: &self.ledger.deleted,
            gates: &self.settings.gates,
        };
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let total = end.count(|_| true);
        let left = if W::PODS_END { 0 } else { replicas };
        expect(total == left, format!("{total} Pods of {left}"));
        expect(end.available == total, format!("{} of {total} Pods are available", end.available));
        // Pods of very old versions have no state.
        let odd = end.pods.iter().find(|pod| !matches!(pod.label(LIFECYCLE_STATE), None | Some("Normal")));
        expect(odd.is_none(), format!("Pod {} is not Normal", odd.map_or("", |pod| &pod.metadata.name)));
        unrest.extend(W::unrest(&end));
        unrest.extend(end.pods.iter().filter_map(|pod| self.strange(pod)));
        unrest.extend(self.stray_revisions(&end));
        unrest
    }

    /// What of the Pod is not as its revision says. What hooks come and go with is left out.
    fn strange(&self, pod: &ObservedPod) -> Option<String> {
        let name = &pod.metadata.name;
        let Some(revision) = self.server.revisions.values().find(|revision| is_at(pod, revision.name()))
        else {
            return Some(format!("the revision of Pod {name} is gone"));
        };
        let data: Value = serde_json::from_str(revision.data.get()).unwrap_or_default();
        let template = data.pointer("/spec/template")?;
        let list = |list: &str| template.pointer(list).and_then(Value::as_array).into_iter().flatten();
        let is_sidecar = |container: &&Value| container.get("restartPolicy") == Some(&"Always".into());
        let sidecars = list("/spec/initContainers").filter(is_sidecar);
        for container in list("/spec/containers").chain(sidecars) {
            let text = |field: &str| container.get(field).and_then(Value::as_str).unwrap_or_default();
            let (container, image) = (text("name"), text("image"));
            let asked = pod.container(container).map(|container| &*container.image);
            let runs = pod.container_status(container).map(|status| &*status.image);
            if [asked, runs] != [Some(image); 2] {
                return Some(format!(
                    "Pod {name} is to run {asked:?} and runs {runs:?} in {container}, not {image}"
                ));
            }
        }
        let has = |field: &str, key: &str, value: &Value| {
            let known = if field == "labels" { pod.label(key) } else { pod.annotation(key) };
            known == value.as_str()
        };
        for field in ["labels", "annotations"] {
            let pairs = template.get("metadata").and_then(|metadata| metadata.get(field));
            for (key, value) in pairs.and_then(Value::as_object).into_iter().flatten() {
                if !self.ledger.hook_labels.contains(key) && !has(field, key, value) {
                    return Some(format!("Pod {name} lacks {key}={value} of its {field}"));
                }
            }
        }
        None
    }

    /// No more old revisions than are asked for.
    fn stray_revisions(&self, end: &End<'_, W>) -> Option<String> {
        let current = end.workload.status().current_revision();
        let used: BTreeSet<&str> = end
            .pods
            .iter()
            .filter_map(|pod| pod.label(CONTROLLER_REVISION_HASH))
            .chain([end.update_revision.as_str(), current])
            .map(short_hash)
            .collect();
        let idle = self.server.revisions.keys().filter(|name| !used.contains(short_hash(name))).count();
        let limit = end.workload.revision_history_limit();
        (idle > limit).then(|| format!("{idle} idle revisions, with a limit of {limit}"))
    }
}
