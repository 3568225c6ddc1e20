//! An object of every kind with two versions, in each version.

use kit::builders::{object, pod};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use crate::support::{Stored, collection, create};

/// An object to be created.
pub struct Sample {
    /// Without status.
    pub object: Value,
    /// Written afterwards; null for none.
    pub status: Value,
}

impl Sample {
    /// Creates what it must not be created without: a request to restart containers needs its Pod.
    pub async fn stock(&self, client: &Client) {
        if self.object["kind"] != "ContainerRecreateRequest" {
            return;
        }
        let namespace = self.object["metadata"]["namespace"].as_str().unwrap();
        let node = format!("node-{namespace}");
        let web = pod("p").in_namespace(namespace).on_node(&node).container("c", "busybox:1.36").build();
        let path = format!("{}/p", collection(&web));
        for manifest in [object("v1", "Node", &node).build(), web] {
            wait_for("what the request needs", async || {
                match create(client, manifest.clone(), "").await {
                    // Other samples need it too.
                    (201 | 409, _) => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
        }
        let state = json!({"running": {"startedAt": "2024-01-01T00:00:00Z"}});
        let status = json!({"name": "c", "containerID": "x", "image": "busybox:1.36", "imageID": "", "ready": true,
            "restartCount": 2, "state": state});
        let pod = Stored::existing(client, path, Value::Null);
        pod.patch_status(&json!({"phase": "Running", "containerStatuses": [status]})).await;
    }

    /// Creates it with its status. The object that this gives shows it: controllers soon write their own.
    pub async fn create(&self, client: &Client) -> Stored {
        self.stock(client).await;
        let mut stored = Stored::create(client, self.object.clone()).await;
        if !self.status.is_null() {
            stored.object = stored.patch_status(&self.status).await;
        }
        stored
    }

    /// Where it is stored.
    pub fn path(&self) -> String {
        format!("{}/{}", collection(&self.object), self.object["metadata"]["name"].as_str().unwrap())
    }
}

/// A sample of every kind in this version, with the fields that only this version has.
pub fn samples(namespace: &str, version: &str) -> Vec<Sample> {
    let make = Maker { namespace, version };
    if version == "v1alpha1" { alpha(&make) } else { beta(&make) }
}

struct Maker<'a> {
    namespace: &'a str,
    version: &'a str,
}

impl Maker<'_> {
    fn sample(&self, kind: &str, metadata: Value, spec: Value, status: Value) -> Sample {
        let group = if kind == "PodUnavailableBudget" { api::POLICY_GROUP } else { api::APPS_GROUP };
        let definition = api::crds::find(group, kind).unwrap();
        let mut object = json!({"apiVersion": format!("{group}/{}", self.version), "kind": kind});
        (object["metadata"], object["spec"]) = (metadata, spec);
        // Names are unique in the cluster.
        object["metadata"]["name"] =
            format!("{}-{}-{}", definition.singular, self.version, self.namespace).into();
        object["metadata"]["labels"]["team"] = "x".into();
        if definition.scope == api::crds::Scope::Namespaced {
            object["metadata"]["namespace"] = self.namespace.into();
        }
        Sample { object, status }
    }

    fn plain(&self, kind: &str, spec: Value) -> Sample {
        self.sample(kind, json!({}), spec, Value::Null)
    }
}

/// [`template`] for Pods of nodes that nobody makes: there would be one on each node of the other tests.
fn nowhere() -> Value {
    let mut template = template();
    template["spec"]["nodeSelector"] = json!({"sample": "nowhere"});
    template
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
        {"name": "main", "image": "nginx:1.25", "fieldOfTomorrow": {"n": 7}}]}})
}

fn job_template() -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    template
}

fn selector() -> Value {
    json!({"matchLabels": {"app": "a"}})
}

fn target() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"})
}

fn stateful_set() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"})
}

fn node_selector() -> Value {
    json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]})
}

/// Kinds whose versions have one shape, or almost.
fn jobs_and_images(make: &Maker<'_>) -> Vec<Sample> {
    vec![
        make.plain(
            "BroadcastJob",
            json!({"template": job_template(), "parallelism": 2,
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 5}}),
        ),
        make.plain(
            "ImageListPullJob",
            json!({"images": ["nginx:1.25", "busybox:1.36"], "selector": {"names": ["none"]},
            "completionPolicy": {"type": "Always"}, "pullPolicy": {"timeoutSeconds": 60}}),
        ),
        make.sample(
            "ImagePullJob",
            json!({"finalizers": ["apps.kruise.io/deletion-protection"]}),
            json!({"image": "nginx:1.25", "completionPolicy": {"type": "Never"},
            "podSelector": {"matchLabels": {"app": "a"}}}),
            Value::Null,
        ),
    ]
}

fn alpha(make: &Maker<'_>) -> Vec<Sample> {
    let statuses = r#"[{"name":"c","ready":true,"restartCount":2,"containerID":"x"}]"#;
    let mut all = jobs_and_images(make);
    all.extend([
        make.plain("AdvancedCronJob", json!({"schedule": "0 0 30 2 *", "concurrencyPolicy": "Forbid",
            "template": {"jobTemplate": {"spec": {"template": job_template()}}}})),
        make.sample("NodeImage", json!({"labels": {"apps.kruise.io/fake-nodeimage": "true"}}),
            json!({"images": {"nginx": {"tags": [{"tag": "1.25", "pullPolicy": {"ttlSecondsAfterFinished": 9}}],
            "pullSecrets": [{"name": "s", "namespace": "n"}]}}}), Value::Null),
        make.sample("CloneSet",
            json!({"labels": {"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"},
                "annotations": {"apps.kruise.io/image-predownload-timeout-seconds": "77"}}),
            json!({"replicas": 3, "selector": selector(), "template": template(),
                "scaleStrategy": {"disablePVCReuse": true}, "updateStrategy": {"type": "InPlaceOnly", "partition": "20%",
                    "paused": true, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 10}}}),
            json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 0,
                "updatedReadyReplicas": 0, "labelSelector": "app=a"})),
        make.sample("ContainerRecreateRequest",
            json!({"annotations": {"crr.apps.kruise.io/sync-container-statuses": statuses,
                "crr.apps.kruise.io/unready-acquired": "2024-05-06T07:08:09Z"}}),
            json!({"podName": "p", "containers": [{"name": "c"}], "strategy": {"failurePolicy": "Fail"}}),
            json!({"phase": "Recreating"})),
        make.sample("DaemonSet",
            json!({"annotations": {"daemonset.kruise.io/progressive-create-pod": "true"}}),
            json!({"selector": selector(), "template": nowhere(), "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"rollingUpdateType": "Standard", "partition": 1}}}),
            json!({"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
                "updatedNumberScheduled": 1, "daemonSetHash": "h"})),
        make.plain("PersistentPodState", json!({"targetRef": stateful_set(),
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": ["rack"]}}]})),
        make.plain("ResourceDistribution", json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x"}, "data": {"k": "v"}},
            "targets": {"namespaceLabelSelector": {"matchLabels": {"team": "x"}}}})),
        make.sample("SidecarSet",
            json!({"labels": {"apps.kruise.io/sidecarset-custom-version": "v2"}}),
            json!({"namespace": make.namespace, "selector": {"matchLabels": {"alpha": "only"}},
                "containers": [{"name": "log", "image": "busybox:1.36", "fieldOfTomorrow": {"n": 7}}]}),
            Value::Null),
        make.plain("StatefulSet", json!({"replicas": 3, "serviceName": "s", "selector": selector(),
            "template": template(), "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}})),
        make.sample("UnitedDeployment", json!({}),
            json!({"replicas": 5, "selector": selector(), "template": {"statefulSetTemplate": {
                "metadata": {"labels": {"app": "a"}}, "spec": {"serviceName": "s", "selector": selector(), "template": template()}}},
                "topology": {"subsets": [{"name": "a", "replicas": 3}, {"name": "b"}]}}),
            json!({"replicas": 5, "updatedReplicas": 0, "currentRevision": "r", "subsetReplicas": {"a": 3, "b": 2},
                "updateStatus": {"updatedRevision": "r", "currentPartitions": {"a": 1, "b": 0}}})),
        make.sample("WorkloadSpread", json!({}),
            json!({"targetRef": target(), "subsets": [{"name": "a", "maxReplicas": 3,
                "requiredNodeSelectorTerm": node_selector(),
                "preferredNodeSelectorTerms": [{"weight": 1, "preference": node_selector()}]}]}),
            json!({"subsetStatuses": [{"name": "a", "missingReplicas": 1, "replicas": 0,
                "conditions": [{"type": "Schedulable", "status": "True", "lastTransitionTime": "2024-02-01T00:00:00Z"}]}]})),
        make.sample("PodUnavailableBudget",
            json!({"annotations": {"kruise.io/pub-protect-operations": "DELETE,EVICT",
                "pub.kruise.io/protect-total-replicas": "15"}}),
            json!({"selector": selector(), "maxUnavailable": 1}), Value::Null),
    ]);
    all
}

fn beta(make: &Maker<'_>) -> Vec<Sample> {
    let condition = json!({"type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace",
        "message": "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain",
        "lastTransitionTime": "2024-05-06T07:08:09Z"});
    let mut all = jobs_and_images(make);
    all.extend([
        make.plain("AdvancedCronJob", json!({"schedule": "0 0 30 2 *", "template": {"imageListPullJobTemplate": {
            "spec": {"images": ["nginx:1.25"], "completionPolicy": {"type": "Always"}}}}})),
        make.sample("NodeImage", json!({"labels": {"apps.kruise.io/fake-nodeimage": "true"}}),
            json!({"images": {"nginx": {"tags": [{"tag": "1.25", "pullPolicy": {"ttlSecondsAfterFinished": 9}}],
            "pullSecrets": [{"name": "s", "namespace": "n", "mode": "batch"}]}}}), Value::Null),
        make.plain("CloneSet", json!({"replicas": 3, "selector": selector(), "template": template(),
            "scaleStrategy": {"enablePVCReuse": true, "excludePreparingDelete": true},
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 3, "maxUnavailable": "20%", "maxSurge": 0,
                "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 5}}}})),
        make.sample("ContainerRecreateRequest", json!({}),
            json!({"podName": "p", "containers": [{"name": "c"}], "strategy": {"failurePolicy": "Ignore"}}),
            json!({"phase": "Recreating", "conditions": [condition],
                "containerStatusSnapshot": [{"name": "c", "ready": true, "restartCount": 2, "containerID": "x"}]})),
        make.sample("DaemonSet", json!({}),
            json!({"selector": selector(), "template": nowhere(), "scaleStrategy": {"partitionedScaling": true},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "Standard"}}}),
            json!({"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
                "updatedNumberScheduled": 1, "updateRevision": "h"})),
        make.plain("PersistentPodState", json!({"targetRef": stateful_set(),
            "requiredPersistentTopology": {"keys": ["zone"]}, "persistentPodStateRetentionPolicy": "WhenScaled"})),
        make.plain("ResourceDistribution", json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x"}, "data": {"k": "v"}},
            "targets": {"namespaceSelector": {"matchLabels": {"team": "x"}}}})),
        make.plain("SidecarSet", json!({"customVersion": "v2", "selector": {"matchLabels": {"beta": "only"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": make.namespace}},
            "containers": [{"name": "log", "image": "busybox:1.36"}]})),
        make.sample("StatefulSet", json!({}),
            json!({"replicas": 3, "serviceName": "s", "selector": selector(), "template": template(),
                "reserveOrdinals": [1], "ordinals": {"start": 2}, "scaleStrategy": {"maxUnavailable": 1},
                "lifecycle": {"preDelete": {"labelsHandler": {"hook": "true"}}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}),
            json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1, "currentReplicas": 3,
                "updatedReplicas": 0, "updatedReadyReplicas": 0, "updatedAvailableReplicas": 0})),
        make.sample("UnitedDeployment", json!({}),
            json!({"replicas": 5, "selector": selector(), "template": {"cloneSetTemplate": {
                "metadata": {"labels": {"app": "a"}}, "spec": {"selector": selector(), "template": template(),
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}}}},
                "topology": {"subsets": [{"name": "a", "replicas": 3}, {"name": "b"}]}}),
            json!({"replicas": 5, "updatedReplicas": 0, "currentRevision": "r", "updatedRevision": "r", "subsetStatuses": [
                {"name": "a", "replicas": 3, "partition": 1}, {"name": "b", "replicas": 2, "partition": 0}]})),
        make.sample("WorkloadSpread", json!({}),
            json!({"targetRef": target(), "subsets": [{"name": "a", "maxReplicas": 3,
                "requiredNodeSelector": node_selector()}]}),
            json!({"subsetStatuses": [{"name": "a", "missingReplicas": 1, "replicas": 0, "conditions": [
                {"type": "Schedulable", "status": "True", "reason": "Enough", "message": "m", "observedGeneration": 4,
                    "lastTransitionTime": "2024-02-01T00:00:00Z"}]}]})),
        make.plain("PodUnavailableBudget", json!({"selector": selector(), "maxUnavailable": 1,
            "protectTotalReplicas": 15, "protectOperations": ["DELETE", "RESIZE"],
            "ignoredPodSelector": {"matchLabels": {"a": "b"}}})),
    ]);
    all
}
