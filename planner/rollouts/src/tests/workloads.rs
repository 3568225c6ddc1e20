//! The controllers of Kubernetes and OpenKruise, as far as releases see them.

use api::kinds::shared::IntOrString;
use api::labels::POD_TEMPLATE_HASH;
use serde_json::{Value, json};
use values::percent::{Rounding, partition, scaled};

use super::pods::{hash_of, is_available, is_ready};
use super::world::{NAMESPACE, World, name_of};
use crate::deployment::{same_template, template_hash};
use crate::object::{Object as _, ObjectName};

fn share(value: &Value) -> Option<IntOrString> {
    serde_json::from_value(value.clone()).ok().filter(|_| !value.is_null())
}

impl World {
    /// Every controller of others looks at its objects.
    pub(super) fn work(&mut self) {
        for object in self.of_kind("CloneSet") {
            self.roll_cloneset(&object);
        }
        for object in self.of_kind("Deployment") {
            self.roll_deployment(&object);
        }
        for object in self.of_kind("ReplicaSet") {
            self.scale_replica_set(&object);
        }
        for object in self.of_kind("Deployment") {
            self.report_deployment(&object);
        }
    }

    fn roll_cloneset(&mut self, cloneset: &Value) {
        let (spec, strategy) = (&cloneset["spec"], &cloneset["spec"]["updateStrategy"]);
        let replicas = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
        let hash = hash_of(&spec["template"]);
        let labels = json!({POD_TEMPLATE_HASH: hash, "controller-revision-hash": format!("web-{hash}")});
        self.record_revision(cloneset, &hash);
        let is_new = |pod: &Value| pod.label(POD_TEMPLATE_HASH) == Some(&hash);
        let kept = partition(share(&strategy["partition"]).as_ref(), replicas);
        let is_paused = strategy["paused"] == true;
        let surge = share(&strategy["maxSurge"])
            .and_then(|surge| scaled(&surge, replicas, Rounding::Up))
            .unwrap_or(0);
        let is_growing = surge > 0 && strategy["maxUnavailable"] == 0;
        let mut room = usize::try_from(replicas + if is_growing { surge } else { 0 }).unwrap();
        let pods = self.pods_of(cloneset.uid());
        let (new, old): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| is_new(pod));
        let wanted = usize::try_from(replicas - kept).unwrap();
        if pods.is_empty() {
            (0..replicas).for_each(|_| self.create_pod(cloneset, &spec["template"], &labels));
        } else if !is_paused && is_growing {
            let serving =
                new.iter().filter(|pod| is_available(pod, spec["minReadySeconds"].as_i64())).count();
            for pod in old.iter().take(serving.min(wanted)) {
                self.delete_pod(pod);
            }
            room -= pods.len().min(room);
            let missing = wanted.saturating_sub(new.len());
            (0..missing.min(room)).for_each(|_| self.create_pod(cloneset, &spec["template"], &labels));
        } else if !is_paused {
            let excess = pods.len().saturating_sub(room);
            let gone = wanted.saturating_sub(new.len()).min(old.len()).max(excess);
            for pod in old.iter().chain(&new).take(gone) {
                self.delete_pod(pod);
                if self.pods_of(cloneset.uid()).len() < room {
                    self.create_pod(cloneset, &spec["template"], &labels);
                }
            }
        }
        self.report_cloneset(cloneset, &hash);
    }

    fn record_revision(&mut self, cloneset: &Value, hash: &str) {
        let template = &cloneset["spec"]["template"];
        let mut recorded = template.clone();
        recorded["$patch"] = "replace".into();
        self.create(json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": format!("web-{hash}"), "labels": template["metadata"]["labels"], "ownerReferences": [
                {"apiVersion": cloneset["apiVersion"], "kind": "CloneSet", "name": "web", "uid": cloneset.uid(),
                    "controller": true}]},
            "data": {"spec": {"template": recorded}},
        }));
    }

    fn report_cloneset(&mut self, cloneset: &Value, hash: &str) {
        let pods = self.pods_of(cloneset.uid());
        let is_new = |pod: &&Value| pod.label(POD_TEMPLATE_HASH) == Some(hash);
        let updated = pods.iter().filter(is_new).count();
        let revision = format!("web-{hash}");
        let current = cloneset.text("/status/currentRevision");
        let is_current = current.is_empty() || updated == pods.len();
        let current = if is_current { &revision } else { current };
        let status = json!({
            "observedGeneration": cloneset["metadata"]["generation"],
            "replicas": pods.len(), "updatedReplicas": updated,
            "readyReplicas": pods.iter().filter(|pod| is_ready(pod)).count(),
            "availableReplicas": pods.iter().filter(|pod| is_ready(pod)).count(),
            "updatedReadyReplicas": pods.iter().filter(is_new).filter(|pod| is_ready(pod)).count(),
            "currentRevision": current, "updateRevision": revision,
        });
        self.update_status(&name_of(cloneset), &status);
    }

    fn replica_sets(&self, deployment: &Value) -> Vec<Value> {
        self.all("ReplicaSet").filter(|set| set.controller() == Some(deployment.uid())).cloned().collect()
    }

    fn roll_deployment(&mut self, deployment: &Value) {
        if deployment["spec"]["paused"] == true || deployment.is_deleting() {
            return;
        }
        let spec = &deployment["spec"];
        let replicas = spec["replicas"].as_i64().unwrap();
        let sets = self.replica_sets(deployment);
        let new = match sets.iter().find(|set| same_template(deployment, set)) {
            Some(new) => new.clone(),
            None => self.create_replica_set(deployment, if sets.is_empty() { replicas } else { 0 }),
        };
        let olds: Vec<&Value> = sets.iter().filter(|set| set.name() != new.name()).collect();
        let size = |set: &Value| set["spec"]["replicas"].as_i64().unwrap();
        let available = |set: &Value| set.number("/status/availableReplicas").unwrap_or(0);
        let old: i64 = olds.iter().map(|set| size(set)).sum();
        let surge = share(&spec["strategy"]["rollingUpdate"]["maxSurge"]);
        let surge =
            scaled(&surge.unwrap_or(IntOrString::Int(1)), i32::try_from(replicas).unwrap(), Rounding::Up);
        let room = (replicas + i64::from(surge.unwrap()) - old - size(&new)).max(0);
        let grown = if old == 0 { replicas } else { (size(&new) + room).min(replicas).max(size(&new)) };
        let mut spare = (old + available(&new) - replicas).max(0);
        self.resize(&new, grown, deployment["spec"]["minReadySeconds"].as_i64());
        for set in olds {
            let removed = spare.min(size(set));
            spare -= removed;
            self.resize(set, size(set) - removed, None);
        }
    }

    fn resize(&mut self, set: &Value, replicas: i64, min_ready_seconds: Option<i64>) {
        let patch = json!({"spec": {"replicas": replicas, "minReadySeconds": min_ready_seconds}});
        self.update(&name_of(set), &patch);
    }

    fn create_replica_set(&mut self, deployment: &Value, replicas: i64) -> Value {
        let mut template = deployment["spec"]["template"].clone();
        let hash = template_hash(&template, 0);
        template["metadata"]["labels"][POD_TEMPLATE_HASH] = hash.clone().into();
        let name = format!("{}-{hash}", deployment.name());
        self.create(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name(), "uid": deployment.uid(),
                    "controller": true}]},
            "spec": {"replicas": replicas, "template": template, "selector": {"matchLabels": template["metadata"]["labels"]}},
        }));
        self.get(&ObjectName::new("apps/v1", "ReplicaSet", NAMESPACE, &name)).clone()
    }

    fn scale_replica_set(&mut self, set: &Value) {
        let Some(set) = self.objects.get(&name_of(set)).cloned() else { return };
        let wanted = usize::try_from(set["spec"]["replicas"].as_i64().unwrap()).unwrap();
        let pods = self.pods_of(set.uid());
        (pods.len()..wanted).for_each(|_| self.create_pod(&set, &set["spec"]["template"], &json!({})));
        pods.iter().skip(wanted).for_each(|pod| self.delete_pod(pod));
        let pods = self.pods_of(set.uid());
        let seconds = set.number("/spec/minReadySeconds");
        let status = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": pods.len(),
            "readyReplicas": pods.iter().filter(|pod| is_ready(pod)).count(),
            "availableReplicas": pods.iter().filter(|pod| is_available(pod, seconds)).count(),
        });
        self.update_status(&name_of(&set), &status);
    }

    fn report_deployment(&mut self, deployment: &Value) {
        let Some(deployment) = self.objects.get(&name_of(deployment)).cloned() else { return };
        let sets = self.replica_sets(&deployment);
        let sum = |sets: &[&Value], pointer: &str| -> i64 {
            sets.iter().map(|set| set.number(pointer).unwrap_or(0)).sum()
        };
        let all: Vec<&Value> = sets.iter().collect();
        let new: Vec<&Value> = sets.iter().filter(|set| same_template(&deployment, set)).collect();
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": sum(&all, "/status/replicas"),
            "readyReplicas": sum(&all, "/status/readyReplicas"),
            "availableReplicas": sum(&all, "/status/availableReplicas"),
            "updatedReplicas": sum(&new, "/status/replicas"),
        });
        self.update_status(&name_of(&deployment), &status);
    }
}
