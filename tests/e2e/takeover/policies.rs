//! What steers Pods: sidecars, spreads, budgets, remembered places, probes, and distributed objects.

use kit::builders::{Object, object, sidecar_set};
use serde_json::{Value, json};

use super::place::{Place, Subject, THEN, is_observed};
use super::workloads::Workload;
use crate::product::NAMESPACE;
use crate::support::fleet::{condition, name, uid};
use crate::support::{Shop, Stored, annotation, named};

const SIDECARS: [&str; 2] = ["web-new", "web-old"];
const HASH: &str = "kruise.io/sidecarset-hash";
const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const HOST: &str = "kubernetes.io/hostname";
const IDLE: &str = "game.example.com/idle";

/// Test vectors of docs/behaviour/pod-mutation.md#sidecarset-hash for the SidecarSet `logship`.
const LOGSHIP_HASH: &str = "bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2";
const LOGSHIP_HASH_WITHOUT_IMAGE: &str = "7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd";
/// The data of its revision, as the reference stores it (docs/behaviour/sidecarset.md#revisions).
const DATA: &str = r#"{"spec":{"$patch":"replace","containers":[{"env":[{"name":"LEVEL","value":"info"}],"image":"registry.example.com/shipper:1.4.0","imagePullPolicy":"IfNotPresent","name":"shipper","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"enabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","transferEnv":[{"envName":"SHOP_REGION","sourceContainerName":"shop"}],"upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/var/spool","name":"spool"}]}],"imagePullSecrets":[{"name":"regcred"}],"initContainers":[{"command":["sh","-c","mkdir -p /logs/a \u0026\u0026 ls /logs \u003e /logs/b"],"image":"registry.example.com/prep:2.0","imagePullPolicy":"IfNotPresent","name":"prep-logs","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"disabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/logs","name":"spool"}]}],"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"spool"},{"emptyDir":{},"name":"unused"}]}}"#;

/// The SidecarSet as the reference's webhook left it: what its types know, with their defaults.
fn logship(shop: &Shop) -> Object {
    let data: Value = serde_json::from_str(DATA).unwrap();
    let mut spec = data["spec"].clone();
    let spec = spec.as_object_mut().unwrap();
    spec.remove("$patch");
    spec.remove("patchPodMetadata");
    spec.insert("selector".to_owned(), json!({"matchLabels": {"app": "web"}}));
    spec.insert(
        "updateStrategy".to_owned(),
        json!({"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1}),
    );
    spec.insert("injectionStrategy".to_owned(), json!({}));
    spec.insert("revisionHistoryLimit".to_owned(), json!(10));
    let set = sidecar_set("logship").with("/spec", Value::Object(spec.clone()));
    shop.selecting(set)
        .annotation(HASH, LOGSHIP_HASH)
        .annotation(HASH_WITHOUT_IMAGE, LOGSHIP_HASH_WITHOUT_IMAGE)
}

fn revision(set: &Value) -> Object {
    object("apps/v1", "ControllerRevision", "logship-64769cc7c5")
        .in_namespace(NAMESPACE)
        .label("controller.kubernetes.io/hash", "64769cc7c5")
        .label("kruise.io/sidecarset-name", "logship")
        .annotation(HASH, LOGSHIP_HASH)
        .annotation(HASH_WITHOUT_IMAGE, LOGSHIP_HASH_WITHOUT_IMAGE)
        .with(
            "/metadata/ownerReferences",
            json!([{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": "logship",
                "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            }]),
        )
        .with("/data", serde_json::from_str::<Value>(DATA).unwrap())
        .with("/revision", 1)
}

/// A Pod with the sidecar, and its records in the form of this version or in the old one.
fn web(shop: &Shop, name: &str, old_form: bool) -> Object {
    let record = |hash: &str, revision: &str| {
        if old_form {
            return format!(r#"{{"logship":"{hash}"}}"#);
        }
        format!(
            r#"{{"logship":{{"updateTimestamp":"2026-07-01T10:00:00Z","hash":"{hash}","sidecarSetName":"logship","sidecarList":["shipper"]{revision}}}}}"#
        )
    };
    kit::builders::pod(name)
        .in_namespace(&shop.namespace)
        .label("app", "web")
        .container("shop", "shop:3")
        .container("shipper", "registry.example.com/shipper:1.4.0")
        .env("LEVEL", "info")
        .env("IS_INJECTED", "true")
        .annotation(HASH, &record(LOGSHIP_HASH, r#","controllerRevision":"logship-64769cc7c5""#))
        .annotation(HASH_WITHOUT_IMAGE, &record(LOGSHIP_HASH_WITHOUT_IMAGE, ""))
        .annotation("kruise.io/sidecarset-injected-list", "logship")
}

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
        for (name, old_form) in SIDECARS.into_iter().zip([false, true]) {
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

    /// The sidecars of both Pods took the edit, and nothing else of them.
    pub async fn sidecars_are_new(&self) {
        for name in SIDECARS {
            let path = format!("/api/v1/namespaces/{}/pods/{name}", self.shop.namespace);
            let pod = Stored::existing(&self.shop.client, path, Value::Null).get().await.1;
            let restarts = ["shop", "shipper"]
                .map(|container| &named(&pod["status"]["containerStatuses"], container)["restartCount"]);
            assert_eq!(restarts, [0, 1], "{pod:#}");
            let record = |key: &str| -> Value { serde_json::from_str(annotation(&pod, key)).unwrap() };
            assert_eq!(record(HASH)["logship"]["controllerRevision"], "logship-6cf6fbbbcb", "{pod:#}");
            assert_eq!(record(HASH_WITHOUT_IMAGE)["logship"]["hash"], LOGSHIP_HASH_WITHOUT_IMAGE);
        }
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
