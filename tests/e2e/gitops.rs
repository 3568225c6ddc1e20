//! What others do with objects that Kutter reconciles too: a client that applies manifests keeps what it set, sees no
//! difference that comes back, and can detect when an object was reconciled; autoscalers set the number of replicas;
//! and a client that waits for a rollout learns of its end, neither earlier nor never.

use std::collections::{BTreeMap, BTreeSet};

use api::crds::ALL;
use futures::future::join_all;
use kit::builders::object;
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};

use crate::conversion::{Sample, samples};
use crate::podunavailablebudget::guarded;
use crate::support::fleet::{self, condition, is_ready};
use crate::support::{Shop, Stored, call, shared};

const DEPLOYER: &str = "--field-manager=argocd-controller";

/// Applies manifests, and again where the program could not read in the time of a review what it has to.
async fn apply(server: &ApiServer, manifests: &Value) {
    let words = ["apply", "--server-side", DEPLOYER, "-f", "-"];
    wait_for("the manifests to be applied", async || {
        let output = server.kubectl_with_input(words, &manifests.to_string()).await;
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    })
    .await;
}

/// Waits until the controller of NodePodProbes knows the Nodes that there are: it deletes those of no Node.
async fn nodes_known(shop: &Shop) {
    let name = shop.name("later");
    let node = Stored::create(&shop.client, object("v1", "Node", &name)).await;
    node.patch_status(&json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    let path = format!("/apis/apps.kruise.io/v1alpha1/nodepodprobes/{name}");
    let probes = Stored::existing(&shop.client, path, Value::Null);
    wait_for("the Nodes to be known", async || match probes.get().await {
        (200, _) => Ok(()),
        answer => Err(answer),
    })
    .await;
}

/// An apply would change nothing.
async fn no_difference(server: &ApiServer, manifests: &Value) {
    let words = ["diff", "--server-side", DEPLOYER, "-f", "-"];
    wait_for("no difference to be seen", async || {
        let output = server.kubectl_with_input(words, &manifests.to_string()).await;
        if output.status.code() == Some(0) {
            Ok(())
        } else {
            Err((output.status, output.stdout, output.stderr))
        }
    })
    .await;
}

/// The managers of fields below `spec`.
fn managers_of_spec(object: &Value) -> Vec<&Value> {
    let managed = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let has_spec = |entry: &&Value| !entry["fieldsV1"]["f:spec"].is_null();
    managed.filter(has_spec).map(|entry| &entry["manager"]).collect()
}

/// Samples of the kinds that have one version: a marker probes the Pod.
fn unversioned(namespace: &str, pod: &Value) -> Vec<Sample> {
    let sample = |kind: &str, name: &str, spec: Value| {
        let object = object("apps.kruise.io/v1alpha1", kind, name).with("/spec", spec);
        let object = if kind == "NodePodProbe" { object } else { object.in_namespace(namespace) };
        Sample { object: object.build(), status: Value::Null }
    };
    let probe = json!({"exec": {"command": ["idle"]}, "periodSeconds": 10});
    let idle =
        json!({"name": "idle", "containerName": "c", "probe": probe, "podConditionType": "example.com/idle"});
    let listed = json!({"name": pod["metadata"]["name"], "namespace": namespace, "uid": pod["metadata"]["uid"], "IP": "10.0.0.7",
        "probes": [{"name": "marker#idle", "containerName": "c", "probe": probe}]});
    let container = json!({"name": "debug", "image": "busybox:1.36", "imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"});
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    vec![
        sample(
            "PodProbeMarker",
            "marker",
            json!({"selector": {"matchLabels": {"app": "probed"}}, "probes": [idle]}),
        ),
        sample("NodePodProbe", node, json!({"podProbes": [listed]})),
        sample(
            "EphemeralJob",
            "debug",
            json!({"selector": {"matchLabels": {"app": "none"}}, "template": {"ephemeralContainers": [container]}}),
        ),
    ]
}

/// All kinds, in every version, applied by a deployer: no other manager sets a field of the spec, there is no difference
/// once controllers have dealt with it, and a second apply makes no new generation.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_fights_over_what_a_deployer_applies() {
    let (server, _) = shared().await;
    for version in ["v1alpha1", "v1beta1"] {
        let shop = Shop::open("deployed").await;
        let mut samples = samples(&shop.namespace, version);
        for sample in &samples {
            sample.stock(&shop.client).await;
        }
        let pod = format!("/api/v1/namespaces/{}/pods/p", shop.namespace);
        let pod = Stored::existing(&shop.client, pod, Value::Null);
        pod.label("app", "probed").await;
        pod.patch_status(
            &json!({"podIP": "10.0.0.7", "conditions": [{"type": "Initialized", "status": "True"}]}),
        )
        .await;
        samples.extend(unversioned(&shop.namespace, &pod.get().await.1));
        let kinds: BTreeSet<&str> =
            samples.iter().map(|sample| sample.object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ALL.iter().map(|definition| definition.kind).collect());
        let mut list: Vec<Value> = samples.iter().map(|sample| sample.object.clone()).collect();
        let manifests = json!({"apiVersion": "v1", "kind": "List", "items": list});
        // A NodePodProbe loses probes whose marker or Pod is not known yet.
        list.retain(|object| object["kind"] != "NodePodProbe");
        apply(server, &json!({"apiVersion": "v1", "kind": "List", "items": list})).await;
        probed(&shop).await;
        nodes_known(&shop).await;
        apply(server, &manifests).await;
        let stored: Vec<Stored> = samples
            .iter()
            .map(|sample| Stored::existing(&shop.client, sample.path(), sample.object.clone()))
            .collect();
        let mut generations = BTreeMap::new();
        for object in &stored {
            let (_, now) = object.get().await;
            generations.insert(object.path.clone(), now["metadata"]["generation"].clone());
            dealt_with(object).await;
        }
        no_difference(server, &manifests).await;
        apply(server, &manifests).await;
        for object in &stored {
            let (_, now) = object.get().await;
            assert_eq!(now["metadata"]["generation"], generations[&object.path], "{}", object.path);
            assert_eq!(managers_of_spec(&now), ["argocd-controller"], "{now:#}");
        }
        for object in stored {
            object.deleted().await;
        }
    }
}

/// Waits until the marker of [`unversioned`] is known with its Pod.
async fn probed(shop: &Shop) {
    let path = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers/marker", shop.namespace);
    let marker = Stored::existing(&shop.client, path, Value::Null);
    wait_for("the marker to match its Pod", async || {
        let (_, now) = marker.get().await;
        if now["status"]["matchedPods"] == 1 { Ok(()) } else { Err(now["status"].clone()) }
    })
    .await;
}

/// Its controller has dealt with the newest spec, where its status says that.
async fn dealt_with(object: &Stored) {
    const TELLING: [&str; 10] = [
        "CloneSet",
        "StatefulSet",
        "UnitedDeployment",
        "DaemonSet",
        "SidecarSet",
        "PersistentPodState",
        "ResourceDistribution",
        "WorkloadSpread",
        "PodUnavailableBudget",
        "PodProbeMarker",
    ];
    if !TELLING.iter().any(|kind| object.object["kind"] == *kind) {
        return;
    }
    wait_for("the newest generation to be observed", async || {
        let (_, now) = object.get().await;
        let is_observed = now["status"]["observedGeneration"] == now["metadata"]["generation"];
        if is_observed { Ok(()) } else { Err(now["status"].clone()) }
    })
    .await;
}

/// The kinds with a scale subresource, as a deployer applies them: without replicas.
fn scaled(namespace: &str) -> Vec<(Value, &'static str)> {
    let kinds = [
        ("CloneSet", "clonesets"),
        ("StatefulSet", "statefulsets"),
        ("UnitedDeployment", "uniteddeployments"),
    ];
    let manifest = |kind: &str| {
        let selector = json!({"matchLabels": {"app": kind}});
        let containers = json!([{"name": "main", "image": "nginx:1.25"}]);
        let template = json!({"metadata": {"labels": {"app": kind}}, "spec": {"containers": containers}});
        let mut spec = json!({"selector": selector, "template": template});
        match kind {
            "StatefulSet" => spec["podManagementPolicy"] = "Parallel".into(),
            "UnitedDeployment" => {
                let child = json!({"metadata": {"labels": {"app": kind}}, "spec": {"selector": selector, "template": template}});
                spec["template"] = json!({"cloneSetTemplate": child});
                spec["topology"] = json!({"subsets": [{"name": "a"}, {"name": "b"}]});
            }
            _ => {}
        }
        object("apps.kruise.io/v1beta1", kind, "web").in_namespace(namespace).with("/spec", spec).build()
    };
    kinds.map(|(kind, plural)| (manifest(kind), plural)).into()
}

/// The scale of an object, once it shows so many replicas, wanted and there, and how to find them.
async fn shows_scale(shop: &Shop, kind: &str, plural: &str, replicas: u32) -> Stored {
    let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/{plural}/web/scale", shop.namespace);
    let scale = Stored::existing(&shop.client, path, Value::Null);
    wait_for(&format!("the scale of {plural} to be {replicas}"), async || {
        let (_, scale) = scale.get().await;
        let shown = (&scale["spec"]["replicas"], &scale["status"]["replicas"], &scale["status"]["selector"]);
        let wanted = json!(replicas);
        if shown == (&wanted, &wanted, &json!(format!("app={kind}"))) { Ok(()) } else { Err(scale) }
    })
    .await;
    scale
}

/// `kubectl scale`, and a client that writes the subresource, set the replicas of what a deployer applies without them.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_scales_and_a_deployer_go_together() {
    let (server, _) = shared().await;
    let shop = Shop::open("scaled").await;
    for (manifest, plural) in scaled(&shop.namespace) {
        let kind = manifest["kind"].as_str().unwrap();
        apply(server, &manifest).await;
        let name = format!("{plural}.apps.kruise.io/web");
        let words = ["scale", &name, "--replicas=3", "--namespace", &shop.namespace];
        server.kubectl(words).await.success();
        let scale = shows_scale(&shop, kind, plural, 3).await;
        no_difference(server, &manifest).await;
        apply(server, &manifest).await;
        wait_for("the scale to be written", async || {
            let (_, mut now) = scale.get().await;
            assert_eq!(now["spec"]["replicas"], 3, "{now:#}");
            now["spec"]["replicas"] = 2.into();
            match call(&shop.client, "PUT", &scale.path, &now).await {
                (200, _) => Ok(()),
                // Its controller has written meanwhile.
                (409, answer) => Err(answer),
                (_, answer) => panic!("{answer:#}"),
            }
        })
        .await;
        shows_scale(&shop, kind, plural, 2).await;
    }
}

/// By the controller of Kubernetes, which finds each kind, its replicas and its selector by the scale subresource.
#[tokio::test(flavor = "multi_thread")]
async fn a_horizontal_pod_autoscaler_and_a_deployer_go_together() {
    let server = &guarded().await.server;
    let shop = Shop::open_on(server, "autoscaled").await;
    let all = scaled(&shop.namespace);
    for (manifest, _) in &all {
        apply(server, manifest).await;
        let target = json!({"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": "web"});
        let name = manifest["kind"].as_str().unwrap().to_lowercase();
        let scaler = object("autoscaling/v2", "HorizontalPodAutoscaler", &name)
            .in_namespace(&shop.namespace)
            .with("/spec", json!({"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}));
        Stored::create(&shop.client, scaler).await;
    }
    for (manifest, plural) in &all {
        let kind = manifest["kind"].as_str().unwrap();
        let scale = shows_scale(&shop, kind, plural, 3).await;
        no_difference(server, manifest).await;
        apply(server, manifest).await;
        let (_, now) = scale.get().await;
        assert_eq!(now["spec"]["replicas"], 3, "{now:#}");
        let path = format!(
            "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/{}",
            shop.namespace,
            kind.to_lowercase()
        );
        let scaler = Stored::existing(&shop.client, path, Value::Null);
        wait_for("the autoscaler to have scaled", async || {
            let (_, now) = scaler.get().await;
            let able = condition(&now, "AbleToScale")["status"] == "True";
            if able && now["status"]["desiredReplicas"] == 3 { Ok(()) } else { Err(now["status"].clone()) }
        })
        .await;
    }
}

/// A workload of two Pods which need some time to become ready, and what shows that its rollout is over: what is asked
/// of kubectl, in turn, once the newest generation is observed.
struct Rolling {
    stored: Stored,
    resource: String,
    template: &'static str,
    ends: &'static [&'static str],
}

impl Rolling {
    async fn create(shop: &Shop, kind: &str, more: Value, ends: &'static [&'static str]) -> Self {
        let selector = json!({"matchLabels": {"app": kind}});
        let containers = json!([{"name": "main", "image": "nginx:0"}]);
        let template = json!({"metadata": {"labels": {"app": kind}, "annotations": {fake_nodes::READY_AFTER: "500"}},
            "spec": {"containers": containers}});
        let mut spec = json!({"selector": selector, "template": template});
        if kind != "DaemonSet" {
            spec["replicas"] = 2.into();
        }
        let mut path = "/spec/template";
        if kind == "UnitedDeployment" {
            path = "/spec/template/cloneSetTemplate/spec/template";
            let child = json!({"metadata": {"labels": {"app": kind}}, "spec": {"selector": selector, "template": template}});
            spec["template"] = json!({"cloneSetTemplate": child});
        }
        json_patch::merge(&mut spec, &more);
        let manifest =
            object("apps.kruise.io/v1beta1", kind, "web").in_namespace(&shop.namespace).with("/spec", spec);
        let stored = Stored::create(&shop.client, manifest).await;
        let resource = format!("{}s.apps.kruise.io/web", kind.to_lowercase());
        Self { stored, resource, template: path, ends }
    }

    /// Gives it an image. The object does not look done before anybody has dealt with that.
    async fn edit(&self, image: &str) {
        let mut now = self.stored.get().await.1;
        now.pointer_mut(&format!("{}/spec/containers/0", self.template)).unwrap()["image"] = image.into();
        let now = self.stored.patch(&json!({"spec": {"template": now["spec"]["template"]}})).await;
        assert!(!is_healthy(&now), "{now:#}");
    }

    /// Waits as people do, and reads the Pods in the same moment.
    async fn ends_with(&self, server: &ApiServer, shop: &Shop, image: &str) {
        let generation = self.stored.get().await.1["metadata"]["generation"].clone();
        let observed = format!("jsonpath={{.status.observedGeneration}}={generation}");
        for end in [observed.as_str()].iter().chain(self.ends) {
            let how = format!("--for={end}");
            let words = ["wait", &self.resource, &how, "--timeout=120s", "--namespace", &shop.namespace];
            server.kubectl(words).await.success();
        }
        let pods =
            call(&shop.client, "GET", &format!("/api/v1/namespaces/{}/pods", shop.namespace), &Value::Null)
                .await
                .1;
        // Replaced Pods may take longer to end than the new ones to become ready.
        let own = |pod: &&Value| {
            let metadata = &pod["metadata"];
            metadata["labels"]["app"] == self.stored.object["kind"] && metadata["deletionTimestamp"].is_null()
        };
        let pods = pods["items"].as_array().unwrap().iter().filter(own);
        let pods: Vec<_> = pods.map(|pod| (fleet::image(pod), is_ready(pod))).collect();
        assert_eq!(pods, [(image, true); 2]);
        let now = self.stored.get().await.1;
        assert!(is_healthy(&now), "{now:#}");
    }
}

/// As Argo CD judges by generations and counts.
fn is_healthy(workload: &Value) -> bool {
    let (status, count) =
        (&workload["status"], |field: &str| workload["status"][field].as_i64().unwrap_or(0));
    let members = match workload["kind"].as_str().unwrap() {
        "DaemonSet" => ["updatedNumberScheduled", "numberAvailable"],
        "UnitedDeployment" => ["updatedReplicas", "updatedReadyReplicas"],
        _ => ["updatedReplicas", "updatedAvailableReplicas"],
    };
    status["observedGeneration"] == workload["metadata"]["generation"]
        && members.into_iter().all(|field| count(field) == 2)
}

/// Each kind of workload, two rollouts after each other: neither is taken for the other.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_rollout_ends_when_its_pods_are_ready() {
    const AVAILABLE: &[&str] = &["jsonpath={.status.updatedAvailableReplicas}=2"];
    const TOLD: &[&str] =
        &["jsonpath={.status.conditions[?(@.type==\"Progressing\")].reason}=CloneSetAvailable"];
    const SCHEDULED: &[&str] =
        &["jsonpath={.status.updatedNumberScheduled}=2", "jsonpath={.status.numberAvailable}=2"];
    let (server, _) = shared().await;
    let shop = Shop::open("waits").await;
    let nodes = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let nodes = nodes.label(0, "waits", &shop.namespace).label(1, "waits", &shop.namespace);
    let _nodes = FakeNodes::start(shop.client.clone(), nodes).await;
    let on_both = json!({"template": {"spec": {"nodeSelector": {"waits": shop.namespace}}}});
    let subsets = json!({"topology": {"subsets": [{"name": "a"}, {"name": "b"}]}});
    let progress = json!({"progressDeadlineSeconds": 600});
    let all = [
        Rolling::create(&shop, "CloneSet", progress, TOLD).await,
        Rolling::create(&shop, "StatefulSet", json!({"serviceName": "web"}), AVAILABLE).await,
        Rolling::create(&shop, "DaemonSet", on_both, SCHEDULED).await,
        Rolling::create(&shop, "UnitedDeployment", subsets, &["condition=UnitedDeploymentUpdated"]).await,
    ];
    for rolling in &all {
        wait_for("the Pods of the beginning", async || {
            let now = rolling.stored.get().await.1;
            if is_healthy(&now) { Ok(()) } else { Err(now["status"].clone()) }
        })
        .await;
    }
    for image in ["nginx:1", "nginx:2"] {
        join_all(all.iter().map(async |rolling| {
            rolling.edit(image).await;
            rolling.ends_with(server, &shop, image).await;
        }))
        .await;
    }
    let template = json!({"metadata": {"annotations": {fake_nodes::EXIT: "main=0"}},
        "spec": {"restartPolicy": "Never", "nodeSelector": {"waits": shop.namespace}, "containers": [{"name": "main", "image": "nginx:1"}]}});
    let job = object("apps.kruise.io/v1beta1", "BroadcastJob", "job")
        .in_namespace(&shop.namespace)
        .with("/spec/template", template);
    let job = Stored::create(&shop.client, job).await;
    let words = [
        "wait",
        "broadcastjobs.apps.kruise.io/job",
        "--for=condition=Complete",
        "--timeout=120s",
        "--namespace",
        &shop.namespace,
    ];
    server.kubectl(words).await.success();
    let status = job.get().await.1["status"].clone();
    assert_eq!((&status["succeeded"], &status["desired"]), (&json!(2), &json!(2)), "{status:#}");
}
