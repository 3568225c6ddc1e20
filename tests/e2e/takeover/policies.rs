//! What steers Pods: sidecars, spreads, budgets, remembered places, probes, and distributed objects.

use kit::builders::{Object, object};
use serde_json::{Value, json};

use super::place::{Place, Subject, THEN, is_observed};
use super::workloads::Workload;
use crate::sidecarset_rollout::takeover::{logship, revision, web};
use crate::support::fleet::{condition, name, uid};

const HOST: &str = "kubernetes.io/hostname";
const IDLE: &str = "game.example.com/idle";

/// What admission did to a Pod of subset `a`, and the controller afterwards.
pub fn spread(pod: Object, node: &str) -> Object {
    let term = json!({"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    pod.annotation("apps.kruise.io/matched-workloadspread", r#"{"name":"spread","subset":"a"}"#)
        .annotation("controller.kubernetes.io/pod-deletion-cost", "200")
        .with("/spec/affinity", affinity)
}

/// What admission did to a Pod of the budget.
pub fn protected(pod: Object) -> Object {
    pod.annotation("kruise.io/related-pub", "budget").annotation("pub.kruise.io/related-pub", "budget")
}

/// What admission did to a Pod whose place is remembered.
pub fn remembered(pod: Object, node: &str) -> Object {
    pod.annotation("kruise.io/injected-persistent-pod-state", "places")
        .with("/spec/nodeSelector", json!({HOST: node}))
}

fn target(place: &Place, workload: &Workload) -> Value {
    json!({"apiVersion": place.api_version(), "kind": workload.stored.object["kind"], "name": name(&workload.stored.object)})
}

impl Place {
    /// With two Pods that have the sidecar, one with records in the form of older releases.
    pub async fn sidecar_set(&self) -> Subject {
        let set = self.create(logship(&self.shop).api_version(&self.api_version())).await;
        let of_set = revision(&set.object).with("/metadata/ownerReferences/0/apiVersion", self.api_version());
        self.create(of_set).await;
        for (name, old_form) in [("web-new", false), ("web-old", true)] {
            self.run(web(&self.shop, name, old_form).on_node(self.node(0)), &[]).await;
        }
        set.patch_status(
            &json!({"observedGeneration": 1, "matchedPods": 2, "updatedPods": 2, "readyPods": 2,
            "updatedReadyPods": 2, "latestRevision": "logship-64769cc7c5", "collisionCount": 0}),
        )
        .await;
        let mut containers = set.object["spec"]["containers"].clone();
        containers[0]["image"] = "registry.example.com/shipper:1.5.0".into();
        Subject::new(set, "sidecarset-controller", json!({"spec": {"containers": containers}}), |set| {
            is_observed(set) && set["status"]["updatedReadyPods"] == 2
        })
    }

    /// Over the Pod of a CloneSet, which is in the first of two subsets.
    pub async fn workload_spread(&self, workload: &Workload) -> Subject {
        let term = json!({"matchExpressions": [{"key": HOST, "operator": "In", "values": [self.node(0)]}]});
        let required = if self.is_old() { "requiredNodeSelectorTerm" } else { "requiredNodeSelector" };
        let spec = json!({"targetRef": target(self, workload),
            "subsets": [{"name": "a", "maxReplicas": 3, required: term}, {"name": "b"}]});
        let set = self.create(self.object("WorkloadSpread", "spread", spec)).await;
        let subsets = json!([{"name": "a", "replicas": 1, "missingReplicas": 2}, {"name": "b", "replicas": 0, "missingReplicas": -1}]);
        set.patch_status(&json!({"observedGeneration": 1, "subsetStatuses": subsets,
            "versionedSubsetStatuses": {"versionIgnored": subsets}}))
            .await;
        let edit = json!({"spec": {"subsets": [{"name": "a", "maxReplicas": 5, "requiredNodeSelector": term}, {"name": "b"}]}});
        Subject::new(set, "workloadspread-controller", edit, |spread| {
            is_observed(spread) && spread["status"]["subsetStatuses"][0]["missingReplicas"] == 4
        })
    }

    /// For the Pod of a workload.
    pub async fn pod_unavailable_budget(&self, workload: &Workload) -> Subject {
        let spec = json!({"targetRef": target(self, workload), "maxUnavailable": 1});
        let budget = self
            .object("PodUnavailableBudget", "budget", spec)
            .api_version(&format!("policy.kruise.io/{}", self.version));
        let budget = if self.is_old() {
            budget.annotation("kruise.io/pub-protect-operations", "DELETE,EVICT")
        } else {
            budget.with("/spec/protectOperations", json!(["DELETE", "EVICT"]))
        };
        let status = json!({"observedGeneration": 1, "unavailableAllowed": 1, "currentAvailable": 1, "desiredAvailable": 0, "totalReplicas": 1});
        let budget = self.create_with(budget, &status).await;
        let edit = json!({"spec": {"maxUnavailable": 0}});
        Subject::new(budget, "podunavailablebudget-controller", edit, |budget| {
            let status = &budget["status"];
            is_observed(budget)
                && (&status["desiredAvailable"], &status["unavailableAllowed"]) == (&json!(1), &json!(0))
        })
    }

    /// Of the Pod of a StatefulSet.
    pub async fn persistent_pod_state(&self, workload: &Workload) -> Subject {
        let keys = if self.is_old() { "nodeTopologyKeys" } else { "keys" };
        let spec = json!({"targetRef": target(self, workload), "requiredPersistentTopology": {keys: [HOST]},
            "preferredPersistentTopology": [{"weight": 10, "preference": {keys: [HOST]}}]});
        let state = self.create(self.object("PersistentPodState", "places", spec)).await;
        let pod = name(&workload.pod.object);
        let remembered = json!({"nodeName": self.node(0), "nodeTopologyLabels": {HOST: self.node(0)}});
        state.patch_status(&json!({"observedGeneration": 1, "podStates": {&pod: remembered}})).await;
        let preference = json!([{"weight": 20, "preference": {"keys": [HOST, "kubernetes.io/os"]}}]);
        let edit = json!({"spec": {"preferredPersistentTopology": preference}});
        Subject::new(state, "persistentpodstate-controller", edit, move |state| {
            is_observed(state)
                && state["status"]["podStates"][&pod]["nodeTopologyLabels"]["kubernetes.io/os"] == "linux"
        })
    }

    /// A ConfigMap in another namespace.
    pub async fn resource_distribution(&self) -> Subject {
        let resource = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"k": "v"}});
        let spec = json!({"resource": resource, "targets": {"includedNamespaces": {"list": [{"name": self.other}]}}});
        let distribution = self
            .create(object(&self.api_version(), "ResourceDistribution", "shared").with("/spec", spec))
            .await;
        let copy = object("v1", "ConfigMap", "shared")
            .in_namespace(&self.other)
            .annotation("kruise.io/resourcedistribution.resource.from", "shared")
            .annotation(
                "kruise.io/resourcedistribution.resource.hashcode",
                &hash(&distribution.object["spec"]["resource"].to_string()),
            )
            .with("/metadata/ownerReferences", self.owner(&distribution))
            .with("/data", json!({"k": "v"}));
        let copy = if self.is_old() {
            copy.annotation("kruise.io/resourcedistribution.resource.distributed.timestamp", THEN)
        } else {
            copy
        };
        let copy = self.create(copy).await;
        let kinds = [
            "GetResourceFailed",
            "CreateResourceFailed",
            "UpdateResourceFailed",
            "DeleteResourceFailed",
            "ConflictOccurred",
            "NamespaceNotExists",
        ];
        let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "Succeeded", "lastTransitionTime": THEN});
        distribution
            .patch_status(&json!({"observedGeneration": 1, "desired": 1, "succeeded": 1, "conditions": kinds.map(condition)}))
            .await;
        let mut changed = resource;
        changed["data"]["k"] = "w".into();
        Subject::new(
            distribution,
            "resourcedistribution-controller",
            json!({"spec": {"resource": changed}}),
            |_| false,
        )
        .shown_by(copy.path, |_, copy| copy["data"]["k"] == "w")
    }

    /// A marker, the NodePodProbes of both nodes, and a Pod that was probed with success.
    pub async fn probes(&self) -> Vec<Subject> {
        let alpha = "apps.kruise.io/v1alpha1";
        let probe = json!({"exec": {"command": ["idle"]}, "periodSeconds": 10});
        let policy = json!([{"state": "Succeeded", "labels": {"idle": "true"}}, {"state": "Failed", "labels": {"idle": "false"}}]);
        let idle = json!({"name": "idle", "containerName": "main", "probe": probe, "podConditionType": IDLE, "markerPolicy": policy});
        let spec = json!({"selector": {"matchLabels": {"app": "probed"}}, "probes": [idle]});
        let marker = self
            .object("PodProbeMarker", "marker", spec)
            .api_version(alpha)
            .finalizer("kruise.io/node-pod-probe-cleanup");
        let marker = self.create_with(marker, &json!({"observedGeneration": 1, "matchedPods": 1})).await;
        let marked = json!({"type": IDLE, "status": "True", "message": "nobody", "lastProbeTime": THEN, "lastTransitionTime": THEN});
        let pod = self.run(self.pod("probed").label("app", "probed").label("idle", "true"), &[marked]).await;
        let now = pod.get().await.1;
        assert_eq!(condition(&now, "Initialized")["status"], "True");
        let identity = json!({"name": "probed", "namespace": self.shop.namespace, "uid": uid(&now)});
        let mut probed = identity.clone();
        probed["IP"] = now["status"]["podIP"].clone();
        probed["probes"] = json!([{"name": "marker#idle", "containerName": "main", "probe": probe}]);
        let states = |state: &str| {
            let mut states = identity.clone();
            states["probeStates"] = json!([{"name": "marker#idle", "state": state, "message": "nobody",
                "lastProbeTime": THEN, "lastTransitionTime": THEN}]);
            json!({"podProbeStatuses": [states]})
        };
        let on_node =
            |index: usize, spec: Value| object(alpha, "NodePodProbe", self.node(index)).with("/spec", spec);
        let first = self.create_with(on_node(0, json!({"podProbes": [probed]})), &states("Succeeded")).await;
        self.create(on_node(1, json!({}))).await;

        let two = json!({"name": "two", "containerName": "main", "probe": probe, "podConditionType": "game.example.com/two"});
        let edit = json!({"spec": {"probes": [idle, two]}});
        let path = first.path.clone();
        let marker =
            Subject::new(marker, "podprobemarker-controller", edit, |_| false).shown_by(path, |_, probes| {
                let names = probes["spec"]["podProbes"][0]["probes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|probe| &probe["name"]);
                names.eq(["marker#idle", "marker#two"].iter())
            });
        let edit = json!({"status": states("Failed")});
        let probes = Subject::new(first, "nodepodprobe-controller", edit, |_| false).by_its_agent();
        let probes = probes.shown_by(pod.path.clone(), |_, pod| {
            pod["metadata"]["labels"]["idle"] == "false" && condition(pod, IDLE)["status"] == "False"
        });
        vec![marker, probes]
    }
}

/// SHA-256 in hexadecimal digits.
fn hash(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let output = std::process::Command::new("sha256sum").arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}
