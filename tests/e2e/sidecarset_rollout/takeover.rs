//! What OpenKruise left behind is taken over: no Pod is touched and no revision is made.

use kit::ApiServer;
use kit::builders::{Object, object, pod, sidecar_set};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use serde_json::{Value, json};

use super::revisions::revisions;
use super::{HASH, HASH_WITHOUT_IMAGE, is_ready};
use crate::product::{self, NAMESPACE, Product};
use crate::support::{Shop, Stored, in_use};

/// Test vectors of docs/behaviour/pod-mutation.md#sidecarset-hash for the SidecarSet `logship`.
const LOGSHIP_HASH: &str = "bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2";
const LOGSHIP_HASH_WITHOUT_IMAGE: &str = "7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd";
/// The data of its revision, as the reference stores it (docs/behaviour/sidecarset.md#revisions).
const DATA: &str = r#"{"spec":{"$patch":"replace","containers":[{"env":[{"name":"LEVEL","value":"info"}],"image":"registry.example.com/shipper:1.4.0","imagePullPolicy":"IfNotPresent","name":"shipper","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"enabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","transferEnv":[{"envName":"SHOP_REGION","sourceContainerName":"shop"}],"upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/var/spool","name":"spool"}]}],"imagePullSecrets":[{"name":"regcred"}],"initContainers":[{"command":["sh","-c","mkdir -p /logs/a \u0026\u0026 ls /logs \u003e /logs/b"],"image":"registry.example.com/prep:2.0","imagePullPolicy":"IfNotPresent","name":"prep-logs","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"disabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/logs","name":"spool"}]}],"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"spool"},{"emptyDir":{},"name":"unused"}]}}"#;

/// The SidecarSet as the reference's webhook left it: what its types know, with their defaults.
pub fn logship(shop: &Shop) -> Object {
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

pub fn revision(set: &Value) -> Object {
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
pub fn web(shop: &Shop, name: &str, old_form: bool) -> Object {
    let record = |hash: &str, revision: &str| {
        if old_form {
            return format!(r#"{{"logship":"{hash}"}}"#);
        }
        format!(
            r#"{{"logship":{{"updateTimestamp":"2026-07-01T10:00:00Z","hash":"{hash}","sidecarSetName":"logship","sidecarList":["shipper"]{revision}}}}}"#
        )
    };
    pod(name)
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

#[tokio::test]
async fn an_installation_of_the_reference_is_taken_over_without_touching_a_pod() {
    let server = ApiServer::start(kit::Options::default()).await;
    product::install(&server).await;
    let shop = Shop::open_on(&server, "shop").await;
    let options = fake_nodes::Options::nodes(1).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(shop.client.clone(), options).await;
    let set = Stored::create(&shop.client, logship(&shop)).await;
    Stored::create(&shop.client, revision(&set.object)).await;
    let status = json!({
        "observedGeneration": 1, "matchedPods": 2, "updatedPods": 2, "readyPods": 2, "updatedReadyPods": 2,
        "latestRevision": "logship-64769cc7c5", "collisionCount": 0,
    });
    set.patch_status(&status).await;
    let set_before = set.get().await.1;
    // What it was about to write when it stopped shows that the new controller has looked at the Pods.
    set.patch_status(&json!({"readyPods": 1, "updatedReadyPods": 1})).await;
    let mut pods = Vec::new();
    for (name, old_form) in [("new-form", false), ("old-form", true)] {
        let pod = Stored::create(&shop.client, web(&shop, name, old_form)).await;
        let ready = wait_for("the Pod to be ready", async || {
            let now = pod.get().await.1;
            if is_ready(&now) { Ok(now) } else { Err(now["status"].clone()) }
        })
        .await;
        pods.push((pod, ready));
    }

    let product = Product::serve(&server, product::Options::default()).await;
    let counted = async |count: i64| {
        wait_for("the Pods to be counted", async || {
            let set = set.get().await.1;
            if set["status"]["updatedReadyPods"] == count { Ok(set) } else { Err(product.log()) }
        })
        .await
    };
    let set_after = counted(2).await;
    in_use(&server).await;
    // Another Pod is counted once the plan of the first count was carried out.
    Stored::create(&shop.client, web(&shop, "later", false)).await;
    counted(3).await;

    let list = revisions(&shop, "logship").await;
    assert_eq!(list.len(), 1, "{list:#?}");
    assert_eq!(
        (&list[0]["metadata"]["name"], &list[0]["revision"]),
        (&json!("logship-64769cc7c5"), &json!(1))
    );
    for (pod, before) in &pods {
        assert_eq!(pod.get().await.1["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    }
    for part in ["/spec", "/status", "/metadata/labels", "/metadata/generation"] {
        assert_eq!(set_after.pointer(part), set_before.pointer(part), "{part}");
    }
    // How many Pods have the sidecars is told from time to time.
    let annotations = |set: &Value| {
        let all = set["metadata"]["annotations"].as_object().cloned().into_iter().flatten();
        all.filter(|(name, _)| name != "kutter.io/sidecarset-pods").collect::<serde_json::Map<_, _>>()
    };
    assert_eq!(annotations(&set_after), annotations(&set_before));

    // The old form is understood, and written anew with the next update.
    let mut containers = set_before["spec"]["containers"].clone();
    containers[0]["image"] = json!("registry.example.com/shipper:1.5.0");
    wait_for("the set to be changed through our webhooks", async || {
        match set.try_patch(&json!({"spec": {"containers": containers}})).await {
            (200, set) if set["metadata"]["annotations"][HASH] != LOGSHIP_HASH => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    wait_for("the Pods to follow", async || {
        let status = set.get().await.1["status"].clone();
        if status["updatedReadyPods"] == 3 && status["observedGeneration"] == 2 {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    for (pod, before) in &pods {
        let after = pod.get().await.1;
        assert_eq!((super::restarts(&after, "shop"), super::restarts(&after, "shipper")), (0, 1));
        let entry = super::record(&after, HASH, "logship");
        assert_eq!(entry["controllerRevision"], "logship-6cf6fbbbcb", "{before:#}");
        assert!(super::record(&after, HASH_WITHOUT_IMAGE, "logship")["hash"] == LOGSHIP_HASH_WITHOUT_IMAGE);
    }
}
