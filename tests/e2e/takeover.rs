//! A cluster as OpenKruise leaves it, with objects of all kinds: Kutter starts, and nothing is restarted, recreated, or
//! given a new revision (docs/installation.md#taking-over-from-openkruise).

use std::collections::BTreeMap;

use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use crate::conversion::samples;
use crate::product::{self, Product};
use crate::support::fleet::{NEW, OLD, REVISION, image, name, uid};
use crate::support::{Shop, Stored};

const HASH: &str = "86f599f8d5";
const SUBSET: &str = "apps.kruise.io/subset-name";
const UNITED: &str = "apps.kruise.io/controller-revision-hash";
const PLACE: &str = "kubernetes.io/hostname";

/// A Pod template as OpenKruise's webhook completes it.
fn template(app: &str) -> Value {
    let container = json!({"image": OLD, "imagePullPolicy": "IfNotPresent", "name": "main",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30}})
}

/// The data of a revision as Go's types write it: with members that say nothing.
fn data(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = "replace".into();
    template["metadata"]["creationTimestamp"] = Value::Null;
    template["spec"]["containers"][0]["resources"] = json!({});
    json!({"spec": {"template": template}})
}

/// What OpenKruise left in a namespace.
struct Left {
    shop: Shop,
    version: &'static str,
    /// Workloads with the container whose image is edited afterwards.
    workloads: Vec<(Stored, &'static str)>,
    /// Objects of other kinds.
    others: Vec<Stored>,
}

impl Left {
    fn workload(&self, kind: &str, name: &str) -> Object {
        workload(&format!("apps.kruise.io/{}", self.version), kind, name)
            .in_namespace(&self.shop.namespace)
            .matching("app", name)
            .with("/spec/template", template(name))
            .with("/spec/revisionHistoryLimit", 10)
    }

    fn owner(&self, owner: &Stored) -> Value {
        json!([{"apiVersion": format!("apps.kruise.io/{}", self.version), "kind": owner.object["kind"],
            "name": name(&owner.object), "uid": uid(&owner.object), "controller": true, "blockOwnerDeletion": true}])
    }

    async fn revision(&self, owner: &Stored, label: &str, data: Value) -> String {
        let app = name(&owner.object);
        let revision = format!("{app}-{HASH}");
        let manifest = object("apps/v1", "ControllerRevision", &revision)
            .in_namespace(&self.shop.namespace)
            .label("app", &app)
            .label(label, HASH)
            .with("/metadata/ownerReferences", self.owner(owner))
            .with("/data", data)
            .with("/revision", 1);
        Stored::create(&self.shop.client, manifest).await;
        revision
    }

    async fn pod(&self, owner: &Stored, name: &str, refine: impl FnOnce(Object) -> Object) {
        let manifest = pod(name)
            .in_namespace(&self.shop.namespace)
            .with("/metadata/ownerReferences", self.owner(owner))
            .container("main", OLD)
            .having("imagePullPolicy", "IfNotPresent");
        Stored::create(&self.shop.client, refine(manifest)).await;
    }

    async fn clone_set(&mut self) {
        let strategy = match self.version {
            "v1alpha1" => {
                json!({"type": "InPlaceIfPossible", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0})
            }
            _ => {
                json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}})
            }
        };
        let set = self.workload("CloneSet", "clones").replicas(1).with("/spec/updateStrategy", strategy);
        let set = Stored::create(&self.shop.client, set.with("/spec/scaleStrategy", json!({}))).await;
        let revision = self.revision(&set, "controller.kubernetes.io/hash", data(&template("clones"))).await;
        self.pod(&set, "clones-abcde", |pod| {
            pod.label("app", "clones")
                .label(REVISION, &revision)
                .label("pod-template-hash", HASH)
                .label("apps.kruise.io/cloneset-instance-id", "abcde")
                .label("lifecycle.apps.kruise.io/state", "Normal")
        })
        .await;
        self.workloads.push((set, "/spec/template"));
    }

    async fn stateful_set(&mut self) {
        let rolling = json!({"partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate"});
        let set = self
            .workload("StatefulSet", "db")
            .replicas(1)
            .with("/spec/serviceName", "db")
            .with("/spec/podManagementPolicy", "OrderedReady")
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        let set = Stored::create(&self.shop.client, set).await;
        let revision = self.revision(&set, "controller.kubernetes.io/hash", data(&template("db"))).await;
        self.pod(&set, "db-0", |pod| {
            pod.label("app", "db")
                .label(REVISION, &revision)
                .label("statefulset.kubernetes.io/pod-name", "db-0")
                .with("/spec/hostname", "db-0")
                .with("/spec/subdomain", "db")
        })
        .await;
        self.workloads.push((set, "/spec/template"));
    }

    async fn daemon_set(&mut self, node: &str) {
        let rolling = json!({"rollingUpdateType": "Standard", "maxUnavailable": 1, "maxSurge": 0, "partition": 0, "paused": false});
        let set = self
            .workload("DaemonSet", "agents")
            .with("/spec/template/spec/nodeSelector", json!({PLACE: node}))
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        let mut recorded = template("agents");
        recorded["spec"]["nodeSelector"] = json!({PLACE: node});
        let set = Stored::create(&self.shop.client, set).await;
        self.revision(&set, REVISION, data(&recorded)).await;
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        self.pod(&set, "agents-xyz12", |pod| {
            pod.label("app", "agents").label(REVISION, HASH).with(
                "/spec/affinity",
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
            )
        })
        .await;
        self.workloads.push((set, "/spec/template"));
    }

    /// With one subset, whose CloneSet has one Pod.
    async fn united_deployment(&mut self) {
        let strategy = match self.version {
            "v1alpha1" => json!({"type": "InPlaceIfPossible", "maxUnavailable": "20%"}),
            _ => {
                json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "20%"}})
            }
        };
        let child = json!({"metadata": {"labels": {"app": "united"}}, "spec": {"selector": {"matchLabels": {"app": "united"}},
            "template": template("united"), "updateStrategy": strategy, "scaleStrategy": {}}});
        let spec = json!({"replicas": 1, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "united"}},
            "template": {"cloneSetTemplate": child}, "topology": {"subsets": [{"name": "a"}]},
            "updateStrategy": {"type": "Manual"}});
        let united = object(&format!("apps.kruise.io/{}", self.version), "UnitedDeployment", "united")
            .in_namespace(&self.shop.namespace)
            .with("/spec", spec);
        let united = Stored::create(&self.shop.client, united).await;
        let mut recorded = child.clone();
        recorded["metadata"]["creationTimestamp"] = Value::Null;
        recorded["spec"]["template"] = data(&template("united"))["spec"]["template"].clone();
        recorded["spec"]["template"].as_object_mut().unwrap().remove("$patch");
        let recorded = json!({"spec": {"template": {"$patch": "replace", "cloneSetTemplate": recorded}}});
        let of_united = self.revision(&united, "controller.kubernetes.io/hash", recorded).await;
        let labels = json!({"app": "united", SUBSET: "a", UNITED: of_united});
        let mut pods = template("united");
        pods["metadata"]["labels"] = labels.clone();
        let selector = json!({"matchLabels": {"app": "united", SUBSET: "a"}});
        let mut spec = child["spec"].clone();
        (spec["replicas"], spec["selector"], spec["template"]) = (json!(1), selector, pods.clone());
        let set = object(&format!("apps.kruise.io/{}", self.version), "CloneSet", "united-a-fghij")
            .in_namespace(&self.shop.namespace)
            .with("/metadata/labels", labels)
            .with("/metadata/annotations", json!({"apps.kruise.io/subset-patch": ""}))
            .with("/metadata/ownerReferences", self.owner(&united))
            .with("/spec", spec);
        let set = Stored::create(&self.shop.client, set).await;
        let revision = format!("united-a-fghij-{HASH}");
        let manifest = object("apps/v1", "ControllerRevision", &revision)
            .in_namespace(&self.shop.namespace)
            .with("/metadata/labels", pods["metadata"]["labels"].clone())
            .label("controller.kubernetes.io/hash", HASH)
            .with("/metadata/ownerReferences", self.owner(&set))
            .with("/data", data(&pods))
            .with("/revision", 1);
        Stored::create(&self.shop.client, manifest).await;
        self.pod(&set, "united-a-fghij-klmno", |pod| {
            pod.with("/metadata/labels", pods["metadata"]["labels"].clone())
                .label(REVISION, &revision)
                .label("pod-template-hash", HASH)
                .label("apps.kruise.io/cloneset-instance-id", "klmno")
                .label("lifecycle.apps.kruise.io/state", "Normal")
        })
        .await;
        self.workloads.push((united, "/spec/template/cloneSetTemplate/spec/template"));
    }

    /// A job that is over: it must not run again.
    async fn broadcast_job(&mut self, node: &str) {
        let mut template = template("job");
        template["spec"]["restartPolicy"] = "Never".into();
        template["spec"]["nodeSelector"] = json!({PLACE: node});
        let spec = json!({"template": template, "parallelism": 1, "completionPolicy": {"type": "Always"}, "failurePolicy": {"type": "FailFast"}});
        let job = object(&format!("apps.kruise.io/{}", self.version), "BroadcastJob", "job")
            .in_namespace(&self.shop.namespace)
            .with("/spec", spec);
        let job = Stored::create(&self.shop.client, job).await;
        let time = "2026-07-01T10:00:00Z";
        let complete = json!({"type": "Complete", "status": "True", "reason": "Complete", "message": "Job completed, 1 pods succeeded, 0 pods failed",
            "lastProbeTime": time, "lastTransitionTime": time});
        job.patch_status(&json!({"conditions": [complete], "startTime": time, "completionTime": time, "active": 0, "succeeded": 1,
            "failed": 0, "desired": 1, "phase": "completed"}))
            .await;
        self.others.push(job);
    }

    /// Objects of all other kinds, with the status that they had.
    async fn others(&mut self) {
        let workloads = ["CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment", "BroadcastJob"];
        for sample in samples(&self.shop.namespace, self.version) {
            if !workloads.map(Value::from).contains(&sample.object["kind"]) {
                self.others.push(sample.create(&self.shop.client).await);
            }
        }
    }

    /// What must not change: each Pod with its spec and labels, and each revision with its data.
    async fn state(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for path in ["/api/v1/namespaces/NS/pods", "/apis/apps/v1/namespaces/NS/controllerrevisions"] {
            let path = path.replace("NS", &self.shop.namespace);
            let (_, list) = crate::support::call(&self.shop.client, "GET", &path, &Value::Null).await;
            for object in list["items"].as_array().unwrap() {
                let kept = json!({"uid": uid(object), "labels": object["metadata"]["labels"], "spec": object["spec"],
                    "data": object["data"], "revision": object["revision"], "containers": object["status"]["containerStatuses"]});
                all.insert(format!("{path}/{}", name(object)), kept);
            }
        }
        all
    }

    /// Each workload has been looked at, and is as it is wanted.
    async fn settled(&self, product: &Product) {
        for (workload, _) in &self.workloads {
            let workload = workload.in_version("v1beta1");
            wait_for(&format!("{} to settle", workload.path), async || {
                let (_, now) = workload.get().await;
                let (status, wanted) = (&now["status"], now["spec"]["replicas"].as_i64().unwrap_or(1));
                let count = |name: &str| status[name].as_i64();
                let is_daemon_set = now["kind"] == "DaemonSet";
                let ready = if is_daemon_set { count("numberAvailable") } else { count("readyReplicas") };
                let updated = count(if is_daemon_set { "updatedNumberScheduled" } else { "updatedReplicas" });
                let is_settled = status["observedGeneration"] == now["metadata"]["generation"]
                    && (ready, updated) == (Some(wanted), Some(wanted));
                if is_settled { Ok(()) } else { Err((now, product.log())) }
            })
            .await;
        }
    }
}

/// CustomResourceDefinitions of the time in which objects were stored in this version, which convert nothing.
async fn install_old(server: &ApiServer, version: &str) {
    product::install(server).await;
    let list = server.kubectl(["get", "crds", "-o", "json"]).await.success();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    for definition in list["items"].as_array_mut().unwrap() {
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        let stored = versions.iter().any(|one| one["name"] == version);
        for one in versions.iter_mut().filter(|_| stored) {
            one["storage"] = (one["name"] == version).into();
        }
        let name = name(definition);
        let patch = json!({"spec": {"versions": definition["spec"]["versions"], "conversion": {"strategy": "None", "webhook": null}}});
        server.kubectl(["patch", "crd", &name, "--type=merge", "-p", &patch.to_string()]).await.success();
    }
}

async fn taken_over(version: &'static str) {
    let server = ApiServer::start(kit::Options::default()).await;
    install_old(&server, version).await;
    let shop = Shop::open_on(&server, "left").await;
    let nodes = FakeNodes::start(shop.client.clone(), fake_nodes::Options::nodes(1).binding_pods()).await;
    let node = nodes.names()[0].clone();
    let mut left = Left { shop, version, workloads: Vec::new(), others: Vec::new() };
    left.clone_set().await;
    left.stateful_set().await;
    left.daemon_set(&node).await;
    left.united_deployment().await;
    left.broadcast_job(&node).await;
    left.others().await;
    wait_for("the Pods to run", async || {
        let state = left.state().await;
        let ready = state.values().filter(|object| object["containers"][0]["ready"] == true).count();
        if ready >= left.workloads.len() { Ok(()) } else { Err(state) }
    })
    .await;
    let before = left.state().await;
    let generations = async || {
        let mut all = Vec::new();
        for (object, _) in &left.workloads {
            all.push(object.in_version("v1beta1").get().await.1["metadata"]["generation"].clone());
        }
        all
    };

    let crds = product::run(&["crds"]).await.success();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    server.kubectl_with_input(apply, &crds).await.success();
    let product = Product::serve(&server, product::Options::default()).await;
    left.settled(&product).await;
    // Another look at each, which changes nothing either.
    for (workload, _) in &left.workloads {
        workload.in_version("v1beta1").patch(&json!({"spec": {"revisionHistoryLimit": 9}})).await;
    }
    left.settled(&product).await;
    let after = left.state().await;
    assert_eq!(after, before, "{version}");
    // What is stored anew gets what this version knows besides.
    let generation = if version == "v1beta1" { 2 } else { 3 };
    assert_eq!(generations().await, [generation; 4].map(Value::from));

    for object in &left.others {
        let object = object.in_version("v1beta1");
        let (code, answer) = object.try_patch(&json!({"metadata": {"annotations": {"edited": "yes"}}})).await;
        assert_eq!(code, 200, "{answer:#}");
    }
    for (workload, template) in &left.workloads {
        let workload = workload.in_version("v1beta1");
        let mut now = workload.get().await.1;
        now.pointer_mut(&format!("{template}/spec/containers/0")).unwrap()["image"] = NEW.into();
        workload.patch(&json!({"spec": {"template": now["spec"]["template"]}})).await;
    }
    left.settled(&product).await;
    wait_for("every Pod to have the new image", async || {
        let path = format!("/api/v1/namespaces/{}/pods", left.shop.namespace);
        let (_, list) = crate::support::call(&left.shop.client, "GET", &path, &Value::Null).await;
        let apps = ["clones", "db", "agents", "united"];
        let pods = list["items"].as_array().unwrap().iter();
        let old: Vec<String> = pods
            .filter(|pod| {
                apps.map(Value::from).contains(&pod["metadata"]["labels"]["app"]) && image(pod) != NEW
            })
            .map(name)
            .collect();
        if old.is_empty() { Ok(()) } else { Err(old) }
    })
    .await;
    let updated = left.state().await;
    let kept = |name: &str| {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", left.shop.namespace);
        assert_eq!(updated[&path]["uid"], before[&path]["uid"], "{name} is updated in place");
    };
    kept("clones-abcde");
    kept("united-a-fghij-klmno");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_stored_as_v1alpha1_are_taken_over() {
    taken_over("v1alpha1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_stored_as_v1beta1_are_taken_over() {
    taken_over("v1beta1").await;
}
