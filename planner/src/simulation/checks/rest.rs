//! Rule 10: where a CloneSet comes to rest; and the numbers that people follow.

use std::collections::BTreeSet;

use api::features::Feature;
use serde_json::Value;

use super::{
    Arc, CLONESET_INSTANCE_ID, CONTROLLER_REVISION_HASH, LIFECYCLE_STATE, Limits, ObservedPod, Wanted, count,
    is_at, is_available, short_hash,
};
use crate::simulation::Cluster;
use crate::simulation::timeline::Counts;

impl Cluster<'_> {
    /// Numbers of Pods now.
    pub(in crate::simulation) fn counts(&self) -> Counts {
        let wanted = Wanted::of(&self.server.set);
        let update = self.update_revision();
        let own = || self.server.pods.values().filter(|pod| wanted.owns(pod));
        let new = count(own(), |pod| is_at(pod, &update));
        let Limits { replicas, max_unavailable, max_surge, .. } = wanted.limits;
        Counts {
            new,
            old: count(own(), |_| true) - new,
            available: count(own(), |pod| is_available(pod, wanted.min_ready_seconds, self.now())),
            floor: (replicas - max_unavailable).max(0),
            ceiling: replicas + max_surge,
        }
    }

    /// The newest revision.
    fn update_revision(&self) -> String {
        let newest = self.server.revisions.values().max_by_key(|revision| revision.revision);
        newest.map(|revision| revision.name().to_owned()).unwrap_or_default()
    }

    /// What is not as it should be, when nothing happens any more.
    pub(in crate::simulation) fn unrest(&self) -> Vec<String> {
        let set = &self.server.set;
        let wanted = Wanted::of(set);
        let now = self.now();
        let update = self.update_revision();
        let own: Vec<&Arc<ObservedPod>> = self.server.pods.values().filter(|pod| wanted.owns(pod)).collect();
        let all = |counts: &dyn Fn(&ObservedPod) -> bool| count(own.iter().copied(), counts);
        let Limits { replicas, partition, max_unavailable, max_surge, .. } = wanted.limits;
        let mut unrest = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                unrest.push(text);
            }
        };
        let total = all(&|_| true);
        expect(total == replicas, format!("{total} Pods of {replicas}"));
        let available = all(&|pod| is_available(pod, wanted.min_ready_seconds, now));
        expect(available == total, format!("{available} of {total} Pods are available"));
        let old = all(&|pod| !is_at(pod, &update));
        if !wanted.is_held() {
            expect(
                old <= partition,
                format!("{old} Pods are at older revisions, with partition {partition}"),
            );
        }
        if self.goes_back() && !wanted.is_held() {
            expect(
                old >= partition,
                format!("{old} Pods are at older revisions, with partition {partition} and rollback"),
            );
        }
        // What serves can't go where neither budget nor surge allow it.
        if max_unavailable > 0 || max_surge > 0 {
            let named = all(&|pod| wanted.leaves(pod));
            expect(named == 0, format!("{named} Pods are still to be deleted"));
        }
        // Pods of very old versions have no state.
        let odd = own.iter().find(|pod| !matches!(pod.label(LIFECYCLE_STATE), None | Some("Normal")));
        expect(odd.is_none(), format!("Pod {} is not Normal", odd.map_or("", |pod| &pod.metadata.name)));
        let exists = |name: &String| own.iter().any(|pod| *pod.metadata.name == **name);
        let gone = set.spec.scale_strategy.pods_to_delete.iter().find(|name| !exists(name));
        expect(gone.is_none(), format!("podsToDelete still names {}", gone.map_or("", String::as_str)));
        let status = &set.status;
        let counts = [status.replicas, status.available_replicas, status.updated_replicas].map(i64::from);
        expect(
            counts == [total, available, total - old]
                && status.update_revision == update
                && status.observed_generation == set.metadata.generation,
            format!("the status says {counts:?} of {:?}", [total, available, total - old]),
        );
        unrest.extend(own.iter().filter_map(|pod| self.strange(pod)));
        unrest.extend(self.stray_claims(&own));
        unrest.extend(self.stray_revisions(&own, &update));
        unrest
    }

    /// Pods at the newest revision go back where the partition is raised.
    fn goes_back(&self) -> bool {
        let status = &self.server.set.status;
        status.current_revision != status.update_revision
            && self.settings.gates.enabled(Feature::CloneSetPartitionRollback)
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
        for container in template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten()
        {
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

    /// Rule 6, at rest.
    fn stray_claims(&self, own: &[&Arc<ObservedPod>]) -> Vec<String> {
        let set = &self.server.set;
        let templates = set.spec.volume_claim_templates.as_ref().map_or("[]", |templates| templates.get());
        let templates: Vec<Value> = serde_json::from_str(templates).unwrap_or_default();
        let ids: BTreeSet<&str> = own.iter().filter_map(|pod| pod.label(CLONESET_INSTANCE_ID)).collect();
        let mut strays = Vec::new();
        let ours = self.server.claims.values().filter(|claim| {
            claim.metadata.owner_references.iter().any(|owner| owner.uid == set.metadata.uid)
        });
        for claim in ours {
            let id = claim.metadata.labels.get(CLONESET_INSTANCE_ID).unwrap_or_default();
            let is_deleted = claim.metadata.deletion_timestamp.is_some();
            if ids.contains(id) {
                if is_deleted {
                    strays.push(format!("claim {} is being deleted under its Pod", claim.metadata.name));
                }
            } else if !is_deleted
                && (!set.spec.scale_strategy.enable_pvc_reuse || self.ledger.deleted.contains(id))
            {
                strays.push(format!("claim {} has no Pod", claim.metadata.name));
            }
        }
        for id in ids {
            let claims = self.server.claims.values();
            let found =
                claims.filter(|claim| claim.metadata.labels.get(CLONESET_INSTANCE_ID) == Some(id)).count();
            if found < templates.len() {
                strays.push(format!("the Pod with id {id} has {found} of {} claims", templates.len()));
            }
        }
        strays
    }

    /// No more old revisions than are asked for.
    fn stray_revisions(&self, own: &[&Arc<ObservedPod>], update: &str) -> Option<String> {
        let set = &self.server.set;
        let used: BTreeSet<&str> = own
            .iter()
            .filter_map(|pod| pod.label(CONTROLLER_REVISION_HASH))
            .chain([update, set.status.current_revision.as_str()])
            .map(short_hash)
            .collect();
        let idle = self.server.revisions.keys().filter(|name| !used.contains(short_hash(name))).count();
        let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        (idle > limit).then(|| format!("{idle} idle revisions, with a limit of {limit}"))
    }
}
