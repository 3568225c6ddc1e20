//! What is rolled out while replicas are replaced.

use std::sync::Arc;

use kit::builders::slot;
use kit::wait_for;
use serde_json::{Value, json};

use crate::chronicle::Moment;
use crate::support::fleet::{IN_PLACE_UPDATE_READY, condition, is_ready, label, name, uid};
use crate::support::{Shop, Stored};

/// A workload or a SidecarSet, whose rollouts change an image of its Pods in place.
pub(super) struct Subject {
    set: Stored,
    /// The label `app` of its Pods.
    app: String,
    /// The list of them.
    list: Stored,
    /// How many there are.
    pub(super) pods: usize,
    /// The container that is changed.
    container: &'static str,
    /// Where its containers are, that one first.
    containers: &'static str,
    /// Where the partition is.
    strategy: &'static str,
    /// The field of the status that counts updated Pods.
    updated: &'static str,
}

/// The image that a rollout brings.
pub(super) fn image(rollout: usize) -> String {
    format!("nginx:1.{rollout}")
}

/// The Pods with this label `app`.
fn listed(shop: &Shop, app: &str) -> Stored {
    let path = format!("/api/v1/namespaces/{}/pods?labelSelector=app={app}", shop.namespace);
    Stored::existing(&shop.client, path, Value::Null)
}

/// Whether a Pod serves, and is not about to be updated.
fn serves(pod: &Value) -> bool {
    is_ready(pod) && condition(pod, IN_PLACE_UPDATE_READY)["status"] != "False"
}

/// What the kubelet reports of the containers.
fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten())
}

impl Subject {
    /// A workload whose Pods have its name as label `app`.
    pub(super) fn workload(shop: &Shop, set: Stored, pods: usize, updated: &'static str) -> Self {
        Self {
            app: name(&set.object),
            list: listed(shop, &name(&set.object)),
            set,
            pods,
            container: "main",
            containers: "/spec/template/spec/containers",
            strategy: "/spec/updateStrategy/rollingUpdate",
            updated,
        }
    }

    /// A SidecarSet for Pods with this label `app`.
    pub(super) fn sidecars(shop: &Shop, set: Stored, app: &str, pods: usize) -> Self {
        Self {
            set,
            app: app.to_owned(),
            list: listed(shop, app),
            pods,
            container: "log",
            containers: "/spec/containers",
            strategy: "/spec/updateStrategy",
            updated: "updatedReadyPods",
        }
    }

    /// Begins a rollout, which is to concern one Pod.
    pub(super) async fn roll_first(&self, rollout: usize) {
        let mut containers = self.set.get().await.1.pointer(self.containers).unwrap().clone();
        containers[0]["image"] = image(rollout).into();
        let mut change = json!({});
        *slot(&mut change, self.containers) = containers;
        self.partition(change, self.pods - 1).await;
    }

    /// Lets the rollout go on to all Pods.
    pub(super) async fn roll_all(&self) {
        self.partition(json!({}), 0).await;
    }

    async fn partition(&self, mut change: Value, partition: usize) {
        *slot(&mut change, &format!("{}/partition", self.strategy)) = partition.into();
        self.set.patch(&change).await;
    }

    /// Waits until so many Pods run the image of a rollout, all Pods serve, and the status has these counts.
    pub(super) async fn reaches(&self, rollout: usize, count: usize) {
        let image = image(rollout);
        wait_for(&format!("{count} Pods of {} to run {image}", self.set.path), async || {
            let (set, mut list) = (self.set.get().await.1, self.list.get().await.1);
            let pods = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let runs = |pod: &&Value| {
                statuses(pod).any(|status| status["name"] == self.container && status["image"] == image)
            };
            let is_reached = is_observed(&set)
                && set["status"][self.updated] == count
                && pods.iter().filter(runs).count() == count
                && pods.iter().filter(|pod| serves(pod)).count() == self.pods;
            if is_reached { Ok(()) } else { Err((set["status"].clone(), pods)) }
        })
        .await;
    }

    /// Waits until the controller has observed an edit that concerns no Pod.
    pub(super) async fn observes_an_edit(&self) {
        let limit = self.set.get().await.1["spec"]["revisionHistoryLimit"].as_i64().unwrap();
        self.set.patch(&json!({"spec": {"revisionHistoryLimit": limit + 1}})).await;
        wait_for(&format!("{} to be observed", self.set.path), async || {
            let set = self.set.get().await.1;
            if is_observed(&set) { Ok(()) } else { Err(set) }
        })
        .await;
    }

    /// The names of those of these revisions that it owns, and the newest one by its status.
    pub(super) async fn revisions(&self, list: &Value) -> (Vec<String>, Value) {
        let is_own =
            |revision: &&Value| revision["metadata"]["ownerReferences"][0]["uid"] == uid(&self.set.object);
        let own = list["items"].as_array().unwrap().iter().filter(is_own).map(name);
        let status = self.set.get().await.1["status"].take();
        let newest = status.get("updateRevision").or(status.get("latestRevision")).unwrap();
        (own.collect(), newest.clone())
    }

    /// The Pods were the same at each moment, and at most one of them did not serve. Each rollout has restarted its
    /// container once, and nothing restarted another one.
    pub(super) fn assert_intact(&self, moments: &[Moment], rollouts: usize) {
        let own = |moment: &'_ Moment| -> Vec<Arc<Value>> {
            moment.values().filter(|pod| label(pod, "app") == self.app).cloned().collect()
        };
        let uids = |pods: &[Arc<Value>]| -> Vec<String> { pods.iter().map(|pod| uid(pod)).collect() };
        let before = uids(&own(&moments[0]));
        assert_eq!(before.len(), self.pods);
        for pods in moments.iter().map(own) {
            assert_eq!(uids(&pods), before, "{pods:#?}");
            let away: Vec<_> = pods.iter().filter(|pod| !serves(pod)).collect();
            assert!(away.len() <= 1, "{away:#?}");
        }
        for pod in own(moments.last().unwrap()) {
            for status in statuses(&pod) {
                let expected = if status["name"] == self.container { rollouts } else { 0 };
                assert_eq!(status["restartCount"], expected, "{pod:#}");
            }
        }
    }
}

/// Whether the controller has observed the newest spec.
fn is_observed(set: &Value) -> bool {
    set["status"]["observedGeneration"] == set["metadata"]["generation"]
}
