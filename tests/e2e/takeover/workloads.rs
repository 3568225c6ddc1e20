//! CloneSets, StatefulSets, DaemonSets and UnitedDeployments with Pods, claims and revisions.

use kit::builders::{Object, object, workload};
use serde_json::{Value, json};

use super::forms::{Form, completed, data, in_go, written};
use super::place::{KRUISE_POD_READY, Place, THEN, gated};
use crate::support::Stored;
use crate::support::fleet::{IN_PLACE_UPDATE_READY, LIFECYCLE_STATE, REVISION, name};

const CONTROLLER_HASH: &str = "controller.kubernetes.io/hash";
const HASH: &str = "86f599f8d5";
const INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
const SUBSET: &str = "apps.kruise.io/subset-name";
const UNITED: &str = "apps.kruise.io/controller-revision-hash";
const HOST: &str = "kubernetes.io/hostname";

/// A workload with one Pod.
pub struct Workload {
    pub stored: Stored,
    pub controller: &'static str,
    /// Where its Pod template is, in the newest version.
    pub template: &'static str,
    pub pod: Stored,
    /// Whether an update leaves the Pod where it is.
    pub in_place: bool,
    /// The member of its status that counts updated Pods which are ready.
    pub done: &'static str,
}

impl Place {
    fn workload(&self, kind: &str, name: &str, template: Value) -> Object {
        workload(&self.api_version(), kind, name)
            .in_namespace(&self.shop.namespace)
            .matching("app", name)
            .with("/spec/template", template)
            .with("/spec/revisionHistoryLimit", 10)
    }

    /// The strategy of a CloneSet, completed.
    fn clone_set_strategy(&self, form: Form) -> Value {
        let all = form.with_empty(
            json!({"partition": 0, "maxUnavailable": "20%", "maxSurge": 0}),
            &["inPlaceUpdateStrategy"],
        );
        in_version(self.version, all)
    }

    /// `refine` completes the Pod.
    pub async fn clone_set(&self, form: Form, refine: impl FnOnce(Object) -> Object) -> Workload {
        let app = form.name("clones");
        let template = completed(&app);
        let set = self
            .workload("CloneSet", &app, form.write(template.clone()))
            .replicas(1)
            .with("/spec/updateStrategy", self.clone_set_strategy(form));
        let set = if form == Form::Go { set.with("/spec/scaleStrategy", json!({})) } else { set };
        let set = self.create(set).await;
        let labels = json!({"app": app});
        let revision = self.revision(&set, &labels, (CONTROLLER_HASH, HASH), data(&template)).await;
        // Of older releases the short hash; their Pods have no gates.
        let label = if form == Form::Go { &revision } else { HASH };
        let pod = clone(self.pod(&format!("{app}-abcde")), label, "abcde")
            .label("app", &app)
            .with("/metadata/ownerReferences", self.owner(&set));
        let pod = if form == Form::Go { gated(pod) } else { pod };
        let pod = self.run(refine(pod), &[]).await;
        set.patch_status(&clone_set_status(&revision, &format!("app={app}"))).await;
        Workload {
            stored: set,
            controller: "cloneset-controller",
            template: "/spec/template",
            pod,
            in_place: true,
            done: "updatedReadyReplicas",
        }
    }

    /// Ordered, with a claim.
    pub async fn stateful_set(&self, form: Form, refine: impl FnOnce(Object) -> Object) -> Workload {
        let app = form.name("db");
        let mut template = completed(&app);
        let policy = if form == Form::Go { "InPlaceIfPossible" } else { "ReCreate" };
        if form == Form::Go {
            template["spec"]["readinessGates"] = json!([{"conditionType": IN_PLACE_UPDATE_READY}]);
        }
        let mut rolling = json!({"partition": 0, "maxUnavailable": 1, "podUpdatePolicy": policy});
        if form == Form::Go {
            rolling["minReadySeconds"] = 0.into();
        }
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let mut claims =
            json!([{"metadata": {"name": "data"}, "spec": claim, "status": {"phase": "Pending"}}]);
        if form == Form::Go {
            claims[0]["metadata"]["creationTimestamp"] = Value::Null;
        }
        let set = self
            .workload("StatefulSet", &app, form.write(template.clone()))
            .replicas(1)
            .with("/spec/serviceName", "db")
            .with("/spec/podManagementPolicy", "OrderedReady")
            .with("/spec/volumeClaimTemplates", claims)
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": form.with_empty(rolling, &["inPlaceUpdateStrategy"])}));
        let set = if form == Form::Go && !self.is_old() {
            set.with("/spec/volumeClaimUpdateStrategy", json!({}))
        } else {
            set
        };
        let set = self.create(set).await;
        let labels = json!({"app": app});
        let revision = self.revision(&set, &labels, (CONTROLLER_HASH, "5d4f8c9b7"), data(&template)).await;
        let pod_name = format!("{app}-0");
        let stored = object("v1", "PersistentVolumeClaim", &format!("data-{pod_name}"))
            .in_namespace(&self.shop.namespace)
            .label("app", &app)
            .with("/spec", claim);
        let capacity =
            json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        self.create_with(stored, &capacity).await;
        let volume =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{pod_name}")}}]);
        let pod = self
            .pod(&pod_name)
            .label("app", &app)
            .label(REVISION, &revision)
            .label("statefulset.kubernetes.io/pod-name", &pod_name)
            .label("apps.kubernetes.io/pod-index", "0")
            .label(LIFECYCLE_STATE, "Normal")
            .annotation("lifecycle.apps.kruise.io/timestamp", THEN)
            .with("/metadata/generateName", format!("{app}-"))
            .with("/metadata/ownerReferences", self.owner(&set))
            .with("/spec/hostname", pod_name.clone())
            .with("/spec/subdomain", "db")
            .with("/spec/volumes", volume);
        let pod = if form == Form::Go { gated(pod) } else { pod.readiness_gate(KRUISE_POD_READY) };
        let pod = self.run(refine(pod), &[]).await;
        let mut status = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "currentReplicas": 1, "updatedReplicas": 1, "currentRevision": revision, "updateRevision": revision,
            "collisionCount": 0, "labelSelector": format!("app={app}")});
        if !self.is_old() {
            status["updatedReadyReplicas"] = 1.into();
            status["updatedAvailableReplicas"] = 1.into();
            status["volumeClaims"] =
                json!([{"volumeClaimName": "data", "compatibleReplicas": 1, "compatibleReadyReplicas": 1}]);
        }
        set.patch_status(&status).await;
        Workload {
            stored: set,
            controller: "statefulset-controller",
            template: "/spec/template",
            pod,
            in_place: form == Form::Go,
            done: "updatedReadyReplicas",
        }
    }

    /// On one node. Its template is as it was written.
    pub async fn daemon_set(&self, form: Form) -> Workload {
        let app = form.name("agents");
        let node = self.node(0);
        let mut template = written(&app);
        template["spec"]["nodeSelector"] = json!({HOST: node});
        let kind = if form == Form::Go { "InPlaceIfPossible" } else { "Standard" };
        let rolling = json!({"rollingUpdateType": kind, "maxUnavailable": 1, "maxSurge": 0});
        let set = self
            .workload("DaemonSet", &app, form.write(template.clone()))
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        let set = if form == Form::Go { set.with("/spec/burstReplicas", 250) } else { set };
        let set = self.create(set).await;
        self.revision(&set, &json!({"app": app}), (REVISION, HASH), data(&template)).await;
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let pod = self
            .pod(&format!("{app}-xyz12"))
            .label("app", &app)
            .label(REVISION, HASH)
            .with("/metadata/generateName", format!("{app}-"))
            .with("/metadata/ownerReferences", self.owner(&set))
            .with("/spec/nodeSelector", json!({HOST: node}))
            .with(
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
            );
        let pod = if form == Form::Go { gated(pod) } else { pod.readiness_gate(KRUISE_POD_READY) };
        let pod = self.run(pod, &[]).await;
        let hash = if self.is_old() { "daemonSetHash" } else { "updateRevision" };
        set.patch_status(&json!({"observedGeneration": 1, "currentNumberScheduled": 1, "desiredNumberScheduled": 1,
            "numberMisscheduled": 0, "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": 1, hash: HASH}))
            .await;
        Workload {
            stored: set,
            controller: "daemonset-controller",
            template: "/spec/template",
            pod,
            in_place: form == Form::Go,
            done: "numberAvailable",
        }
    }

    /// With one subset, whose CloneSet has one Pod. Its template is as it was written.
    pub async fn united_deployment(&self, form: Form) -> Workload {
        let app = form.name("united");
        let strategy = in_version(self.version, json!({"maxUnavailable": "20%"}));
        let spec = json!({"selector": {"matchLabels": {"app": app}}, "template": form.write(written(&app)), "updateStrategy": strategy});
        let mut child =
            json!({"metadata": {"labels": {"app": app}}, "spec": form.with_empty(spec, &["scaleStrategy"])});
        if form == Form::Go {
            child["metadata"]["creationTimestamp"] = Value::Null;
        }
        let topology = form.with_empty(json!({"subsets": [{"name": "a"}]}), &["scheduleStrategy"]);
        let manual = form.with_empty(json!({"type": "Manual"}), &["manualUpdate"]);
        let spec = json!({"replicas": 1, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": app}},
            "template": {"cloneSetTemplate": child}, "topology": topology, "updateStrategy": manual});
        let united = self.create(self.object("UnitedDeployment", &app, spec)).await;
        let mut recorded = child.clone();
        recorded["metadata"]["creationTimestamp"] = Value::Null;
        recorded["spec"]["template"] = in_go(written(&app));
        recorded["spec"]["scaleStrategy"] = json!({});
        let recorded = json!({"spec": {"template": {"$patch": "replace", "cloneSetTemplate": recorded}}});
        // That of a CloneSet template has no labels of the template.
        let of_united = self.revision(&united, &json!({}), (CONTROLLER_HASH, "7c9f4d8b6"), recorded).await;
        let pod = self.subset(&united, &of_united).await;
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": THEN});
        let mut conditions = vec![condition("SubsetProvisioned"), condition("SubsetUpdated")];
        if form == Form::Go {
            // It has had a rollout.
            conditions.push(json!({"type": "UnitedDeploymentUpdated", "status": "True", "reason": "UnitedDeploymentRevisionUpdated",
                "message": format!("updated to revision {of_united}"), "lastTransitionTime": THEN}));
        }
        let mut status = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
            "updatedReadyReplicas": 1, "currentRevision": of_united, "labelSelector": format!("app={app}"),
            "conditions": conditions,
            "subsetStatuses": [{"name": "a", "replicas": 1, "readyReplicas": 1, "partition": 0}]});
        if self.is_old() {
            status["subsetReplicas"] = json!({"a": 1});
            status["updateStatus"] = json!({"updatedRevision": of_united, "currentPartitions": {"a": 0}});
        } else {
            status["updatedRevision"] = of_united.into();
        }
        united.patch_status(&status).await;
        Workload {
            stored: united,
            controller: "uniteddeployment-controller",
            template: "/spec/template/cloneSetTemplate/spec/template",
            pod,
            in_place: true,
            done: "updatedReadyReplicas",
        }
    }

    /// The Pod of the subset's CloneSet, which was written by Go's types and completed by the webhook.
    async fn subset(&self, united: &Stored, of_united: &str) -> Stored {
        let app = name(&united.object);
        let labels = json!({"app": app, SUBSET: "a", UNITED: of_united});
        let mut template = completed(&app);
        template["metadata"]["labels"] = labels.clone();
        let mut strategy = in_version(
            self.version,
            json!({"maxUnavailable": "20%", "maxSurge": 0, "inPlaceUpdateStrategy": {}}),
        );
        let rolling = if self.is_old() { &mut strategy } else { &mut strategy["rollingUpdate"] };
        rolling["partition"] = 0.into();
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": app, SUBSET: "a"}}, "template": in_go(template.clone()),
            "scaleStrategy": {}, "updateStrategy": strategy, "revisionHistoryLimit": 10});
        let set_name = format!("{app}-a-fghij");
        let set = self
            .object("CloneSet", &set_name, spec)
            .with("/metadata/generateName", format!("{app}-a-"))
            .with("/metadata/labels", labels.clone())
            .annotation("apps.kruise.io/subset-patch", "")
            .with("/metadata/ownerReferences", self.owner(united));
        let set = self.create(set).await;
        let revision = self.revision(&set, &labels, (CONTROLLER_HASH, HASH), data(&template)).await;
        let pod = self
            .pod(&format!("{set_name}-klmno"))
            .with("/metadata/labels", labels)
            .with("/metadata/ownerReferences", self.owner(&set));
        let pod = self.run(gated(clone(pod, &revision, "klmno")), &[]).await;
        set.patch_status(&clone_set_status(&revision, &format!("app={app},{SUBSET}=a"))).await;
        pod
    }
}

/// The settings of an in-place update, where the version has them.
fn in_version(version: &str, mut settings: Value) -> Value {
    if version == "v1alpha1" {
        settings["type"] = "InPlaceIfPossible".into();
        return settings;
    }
    settings["podUpdatePolicy"] = "InPlaceIfPossible".into();
    json!({"type": "RollingUpdate", "rollingUpdate": settings})
}

/// What the Pods of a CloneSet have.
fn clone(pod: Object, revision: &str, id: &str) -> Object {
    pod.label(REVISION, revision)
        .label("pod-template-hash", HASH)
        .label(INSTANCE_ID, id)
        .label(LIFECYCLE_STATE, "Normal")
        .annotation("lifecycle.apps.kruise.io/timestamp", THEN)
}

fn clone_set_status(revision: &str, selector: &str) -> Value {
    json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1,
        "updatedReadyReplicas": 1, "updatedAvailableReplicas": 1, "expectedUpdatedReplicas": 1, "updateRevision": revision,
        "currentRevision": revision, "collisionCount": 0, "labelSelector": selector})
}
