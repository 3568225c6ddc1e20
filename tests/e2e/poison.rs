//! Objects that nobody would accept today, stored while no webhook looked and under schemas that allowed all:
//! the program starts with one of each kind, and serves all the others
//! (docs/behaviour/server.md#controllers).

use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE, Options, Product};
use crate::support::{Shop, Stored, call, create, in_use, message, named, names};

const GATES: &str = "ResourcesDeletionProtection=true,SidecarTerminator=true,KruisePodReadinessGate=true,\
    PodProbeMarkerGate=true,PodUnavailableBudgetUpdateGate=true,PodUnavailableBudgetDeleteGate=true";
const PROTECTION: &str = "policy.kruise.io/delete-protection";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Contents in which nothing is of the type that it should have. The selector leads to no Pod of the test.
fn odd_contents() -> [Value; 4] {
    let odd = json!({
        "replicas": "many", "revisionHistoryLimit": {}, "minReadySeconds": -7, "template": "odd",
        "volumeClaimTemplates": {"a": 1}, "scaleStrategy": [], "updateStrategy": "sideways", "lifecycle": 7,
        "containers": [7, null, {"name": 7}], "initContainers": "none", "volumes": {}, "probes": [1, {"name": []}],
        "injectionStrategy": 7, "patchPodMetadata": [null], "namespaceSelector": {"matchLabels": {"odd": 7}},
        "targetRef": "web", "maxUnavailable": {"percent": 20}, "subsets": 1, "schedule": 9, "resource": "none",
        "podName": {}, "jobTemplate": [], "strategy": 3, "selector": {"matchLabels": {"odd": "odd"}},
    });
    let mut selecting_nothing_readable = odd.clone();
    selecting_nothing_readable["selector"] = json!(7);
    let huge = json!({
        "replicas": 99_999_999_999_999_999_u64, "selector": {"matchLabels": {"odd": "odd"}},
        "minReadySeconds": 9_223_372_036_854_775_807_u64, "revisionHistoryLimit": -1,
        "progressDeadlineSeconds": -5,
        "template": {"metadata": {"labels": null}, "spec": {"containers": null}},
        "updateStrategy": {"type": "Never heard of", "rollingUpdate": {"partition": "1e999%", "maxUnavailable": "x"}},
        "scaleStrategy": {"podsToDelete": [""], "maxUnavailable": -4},
        "containers": null,
    });
    [json!("odd"), odd, selecting_nothing_readable, huge]
}

/// Replaces the schemas of all definitions by ones that allow everything, and gives the old ones.
async fn loosened(client: &Client) -> Vec<(String, Value)> {
    let mut strict = Vec::new();
    for definition in api::crds::ALL {
        let path = format!("{DEFINITIONS}/{}", definition.name());
        let mut now = call(client, "GET", &path, &Value::Null).await.1;
        strict.push((path.clone(), now["spec"]["versions"].clone()));
        for version in now["spec"]["versions"].as_array_mut().unwrap() {
            version["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            version["subresources"] = json!({"status": {}});
        }
        let (code, answer) = call(client, "PUT", &path, &now).await;
        assert_eq!(code, 200, "{answer:#}");
    }
    strict
}

async fn tightened(client: &Client, strict: Vec<(String, Value)>) {
    for (path, versions) in strict {
        wait_for("the schema to be back", async || {
            let mut now = call(client, "GET", &path, &Value::Null).await.1;
            now["spec"]["versions"] = versions.clone();
            match call(client, "PUT", &path, &now).await {
                (200, _) => Ok(()),
                (_, answer) => Err(answer),
            }
        })
        .await;
    }
}

/// Stores odd objects of all our kinds.
async fn poison_our_kinds(client: &Client, namespace: &str) -> Vec<Stored> {
    let strict = loosened(client).await;
    let mut poisoned = Vec::new();
    for definition in api::crds::ALL {
        let version = format!("{}/{}", definition.group, definition.storage_version);
        for (number, content) in odd_contents().into_iter().enumerate() {
            let name = format!("odd-{}-{number}", definition.plural);
            let manifest = object(&version, definition.kind, &name).with("/spec", content);
            let manifest = match definition.scope {
                api::crds::Scope::Namespaced => manifest.in_namespace(namespace),
                api::crds::Scope::Cluster => manifest,
            };
            let manifest = manifest.annotation("odd", "odd").with("/status", "odd");
            let is_protected = ["CloneSet", "StatefulSet", "UnitedDeployment"].contains(&definition.kind);
            let manifest = if is_protected && number == 1 {
                manifest.label(PROTECTION, "Cascading").build()
            } else {
                manifest.build()
            };
            let stored = wait_for("the loose schema to be in force", async || {
                match create(client, manifest.clone(), "").await {
                    (201, object) => Ok(object),
                    (_, answer) => Err(answer),
                }
            })
            .await;
            assert_eq!(stored["spec"], manifest["spec"]);
            let path = format!("{}/{name}", crate::support::collection(&manifest));
            let stored = Stored::existing(client, path.clone(), stored);
            let mut now = stored.get().await.1;
            now["status"] =
                json!({"conditions": "odd", "observedGeneration": "x", "replicas": {}, "latestRevision": 7});
            let (code, answer) = call(client, "PUT", &format!("{path}/status"), &now).await;
            assert_eq!(code, 200, "{answer:#}");
            poisoned.push(stored);
        }
    }
    tightened(client, strict).await;
    poisoned
}

/// A Pod with nonsense wherever we keep something.
fn odd_pod(name: &str) -> Object {
    let annotations = [
        api::annotations::SIDECARSET_HASH,
        api::annotations::SIDECARSET_HASH_WITHOUT_IMAGE,
        api::annotations::SIDECARSET_INJECTED_LIST,
        api::annotations::SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER,
        api::annotations::SIDECARSET_IN_PLACE_UPDATE_STATE,
        api::annotations::CONTAINER_LAUNCH_PRIORITY,
        api::annotations::IN_PLACE_UPDATE_STATE,
        api::annotations::IN_PLACE_UPDATE_STATE_OLDER,
        api::annotations::IN_PLACE_UPDATE_GRACE,
        api::annotations::RUNTIME_CONTAINERS_META,
        api::annotations::LIFECYCLE_TIMESTAMP,
        api::annotations::POD_PROBE,
        api::annotations::POD_PROBE_MARKER_LIST,
    ];
    let pod = pod(name).container("main", "nginx:1.25").env("KRUISE_CONTAINER_PRIORITY", "x");
    let pod = pod.label("lifecycle.apps.kruise.io/state", "Odd").label("controller-revision-hash", "odd");
    annotations.into_iter().fold(pod, |pod, key| pod.annotation(key, r#"{"odd":["#))
}

/// Stores odd objects of the kinds of Kubernetes that we read.
async fn poison_other_kinds(client: &Client, namespace: &str) {
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": "odd-clonesets-3", "uid": "5a0b9f8e-0000-4000-8000-000000000001"}});
    let id = ("apps.kruise.io/cloneset-instance-id", "odd");
    for manifest in [
        odd_pod("odd-pod").in_namespace(namespace),
        odd_pod("odd-owned").in_namespace(namespace).controlled_by(&owner).label(id.0, id.1),
        object("v1", "PersistentVolumeClaim", "odd-claim")
            .in_namespace(namespace)
            .label(id.0, id.1)
            .controlled_by(&owner)
            .with(
                "/spec",
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}),
            ),
        object("apps/v1", "ControllerRevision", "odd-revision")
            .in_namespace(namespace)
            .controlled_by(&owner)
            .annotation("kruise.io/cloneset-volumeclaimtemplate-hash", "odd")
            .with("/data", json!({"spec": "odd"}))
            .with("/revision", 9_223_372_036_854_775_807_u64),
        object("apps/v1", "ControllerRevision", "odd-sidecars")
            .in_namespace(NAMESPACE)
            .label("kruise.io/sidecarset-name", "odd-sidecarsets-3")
            .with("/data", json!({"spec": 7}))
            .with("/revision", 0),
        object("v1", "ConfigMap", "kruise-configuration")
            .in_namespace(NAMESPACE)
            .with("/data", json!({"SidecarSet_PatchPodMetadata_WhiteList": "{\"rules\": [", "odd": "odd"})),
    ] {
        Stored::create(client, manifest).await;
    }
}

/// docs/behaviour/server.md#controllers.
#[tokio::test(flavor = "multi_thread")]
async fn odd_objects_of_all_kinds_stop_nobody_else() {
    let server = product::server(kit::Options::default()).await;
    let client = server.client();
    let elsewhere = server.namespace("odd").await;
    let poisoned = poison_our_kinds(&client, &elsewhere).await;
    assert!(poisoned.len() == 4 * api::crds::ALL.len());
    poison_other_kinds(&client, &elsewhere).await;

    let mut product = Product::serve(&server, Options::default().gates(GATES)).await;
    let id = product.id();
    in_use(&server).await;
    crate::cloneset::asks(&server).await;
    sidecars_are_injected_and_updated(&server).await;
    // NodeImages and NodePodProbes whose Node does not exist go, where they can be read.
    let kinds = ["/nodeimages/", "/nodepodprobes/"];
    let stays = |stored: &Stored| !kinds.iter().any(|kind| stored.path.contains(kind));
    let poisoned: Vec<_> = poisoned.into_iter().filter(stays).collect();
    for stored in &poisoned {
        let (code, now) = stored.get().await;
        let generation = |object: &Value| object["metadata"]["generation"].clone();
        assert_eq!((code, generation(&now)), (200, generation(&stored.object)), "{}", stored.path);
    }
    deletable(&poisoned).await;
    let log = product.log();
    assert!(!log.contains("panicked"), "{log}");
    product.wait_ready().await;
    assert_eq!(product.id(), id);
}

/// All of them can be deleted; but of the kinds that are protected, what is labelled stays.
async fn deletable(poisoned: &[Stored]) {
    let (labelled, free): (Vec<_>, Vec<_>) =
        poisoned.iter().partition(|stored| !stored.object["metadata"]["labels"].is_null());
    assert_eq!(labelled.len(), 3);
    for stored in labelled {
        let refused = stored.delete().await;
        let cannot = message(&refused).contains("=Cascading and what it holds cannot be read");
        assert!(refused.0 == 403 && cannot, "{refused:#?}");
    }
    for stored in &free {
        stored.deleted().await;
    }
    for stored in &free {
        stored.gone().await;
    }
}

/// Pods of a healthy CloneSet get the sidecar of a healthy SidecarSet; both are updated, but for one Pod in
/// which somebody scribbled.
async fn sidecars_are_injected_and_updated(server: &ApiServer) {
    let shop = Shop::open_on(server, "healthy").await;
    let options = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(shop.client.clone(), options).await;
    let sidecars = Stored::create(
        &shop.client,
        shop.sidecar_set("log")
            .container("log", "busybox:1.35")
            .with("/spec/updateStrategy/maxUnavailable", "100%"),
    )
    .await;
    shop.settle().await;
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let set = workload("apps.kruise.io/v1beta1", "CloneSet", "web")
        .in_namespace(&shop.namespace)
        .matching("app", "web")
        .replicas(3)
        .container("main", "nginx:1.25")
        .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
    let set = Stored::create(&shop.client, set).await;
    let reached = async |stored: &Stored, what: &str, fields: Value| {
        wait_for(what, async || {
            let now = stored.get().await.1;
            let status = &now["status"];
            let observed = status["observedGeneration"] == now["metadata"]["generation"];
            let holds = fields.as_object().unwrap().iter().all(|(key, value)| status[key] == *value);
            if observed && holds { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    };
    reached(&set, "the CloneSet to be complete", json!({"availableReplicas": 3, "updatedReplicas": 3})).await;
    reached(&sidecars, "the sidecars to be counted", json!({"matchedPods": 3, "updatedReadyPods": 3})).await;

    let path = format!("/api/v1/namespaces/{}/pods", shop.namespace);
    let pods =
        async || call(&shop.client, "GET", &path, &Value::Null).await.1["items"].as_array().unwrap().clone();
    let all = pods().await;
    assert!(all.iter().all(|pod| names(&pod["spec"]["containers"]).contains(&"log")));
    let scribbled = all[0]["metadata"]["name"].clone();
    let odd = Stored::existing(&shop.client, format!("{path}/{}", scribbled.as_str().unwrap()), Value::Null);
    let annotations = odd_pod("odd").build()["metadata"]["annotations"].clone();
    odd.patch(&json!({"metadata": {"annotations": annotations}})).await;

    let mut containers = set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = json!("nginx:1.26");
    set.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    let mut containers = sidecars.get().await.1["spec"]["containers"].clone();
    containers[0]["image"] = json!("busybox:1.36");
    sidecars.patch(&json!({"spec": {"containers": containers}})).await;
    wait_for("all others to be updated", async || {
        let pods = pods().await;
        let image =
            |pod: &Value, container: &str| named(&pod["spec"]["containers"], container)["image"].clone();
        let done = pods.iter().filter(|pod| {
            let name = &pod["metadata"]["name"];
            *name != scribbled && image(pod, "main") == "nginx:1.26" && image(pod, "log") == "busybox:1.36"
        });
        if done.count() == 2 { Ok(()) } else { Err(pods) }
    })
    .await;
}
