//! What OpenKruise left behind is taken over, and a restart changes nothing (scenario 37 of
//! docs/behaviour/cloneset.md, docs/behaviour/cloneset.md#objects-of-openkruise).

use futures::future::join_all;
use kit::ApiServer;
use kit::builders::{Object, object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};

use super::{
    Fleet, IN_PLACE_UPDATE_READY, INSTANCE_ID, KRUISE_POD_READY, LIFECYCLE_STATE, NEW, OLD, REVISION, asks,
    image, in_place, is_ready, label, name, restarts, uid, update_state,
};
use crate::product::{self, Options, Product};
use crate::service;
use crate::support::{Shop, Stored, call, create, in_use};

/// The data of a revision, as a running reference stored it (docs/behaviour/revisions.md#hash-and-name).
pub(super) const DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
const HASH: &str = "86f599f8d5";
/// Of [`claim_templates`] (docs/behaviour/revisions.md#claim-hash).
const CLAIMS_HASH: &str = "1129974074";
const CLAIM: &str = "pvc-1";
/// CloneSets of each version.
const SETS: usize = 50;
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io";

/// A claim for each Pod, as the reference's webhook left it.
fn claim_templates() -> Value {
    let resources = json!({"limits": {"storage": "2Gi"}, "requests": {"storage": "1Gi"}});
    json!([{
        "metadata": {"name": CLAIM}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
        "status": {"phase": "Pending"},
    }])
}

/// A CloneSet as the reference's webhook left it, stored in this version.
fn clone_set(shop: &Shop, version: &str, name: &str) -> Object {
    let data: Value = serde_json::from_str(DATA).unwrap();
    let mut template = data["spec"]["template"].clone();
    template.as_object_mut().unwrap().remove("$patch");
    // Fields without a value are not in the stored CloneSet, though they are in the revision.
    template["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
    let mut strategy =
        json!({"partition": 0, "maxUnavailable": "20%", "maxSurge": 0, "inPlaceUpdateStrategy": {}});
    let old = version == "v1alpha1";
    let policy = if old { "type" } else { "podUpdatePolicy" };
    strategy[policy] = "InPlaceIfPossible".into();
    let strategy = if old { strategy } else { json!({"type": "RollingUpdate", "rollingUpdate": strategy}) };
    workload(&format!("apps.kruise.io/{version}"), "CloneSet", name)
        .in_namespace(&shop.namespace)
        .matching("app", "demo")
        .replicas(1)
        .with("/spec/revisionHistoryLimit", 10)
        .with("/spec/scaleStrategy", json!({}))
        .with("/spec/updateStrategy", strategy)
        .with("/spec/template", template)
}

/// The objects of one CloneSet as the reference stored them.
struct Left {
    set: Stored,
    pod: Stored,
    /// Of every other CloneSet.
    claim: Option<Stored>,
    revision: Stored,
}

impl Left {
    async fn new(shop: &Shop, version: &str, number: usize) -> Self {
        let name = format!("{version}-{number}");
        let revision_name = format!("{name}-{HASH}");
        let claims = number % 4 < 2;
        let manifest = clone_set(shop, version, &name);
        let manifest =
            if claims { manifest.with("/spec/volumeClaimTemplates", claim_templates()) } else { manifest };
        let set = Stored::create(&shop.client, manifest).await;
        let owner = json!([{
            "apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "name": name,
            "uid": uid(&set.object), "controller": true, "blockOwnerDeletion": true,
        }]);
        let revision = object("apps/v1", "ControllerRevision", &revision_name)
            .in_namespace(&shop.namespace)
            .label("app", "demo")
            .label("controller.kubernetes.io/hash", HASH)
            .annotation("kruise.io/cloneset-volumeclaimtemplate-hash", if claims { CLAIMS_HASH } else { "" })
            .with("/metadata/ownerReferences", owner.clone())
            .with("/data", serde_json::from_str::<Value>(DATA).unwrap())
            .with("/revision", 1);
        let revision = Stored::create(&shop.client, revision).await;
        // Both forms of the label (docs/behaviour/revisions.md#revision-labels-of-pods); the gate is missing
        // on Pods of older versions.
        let short = number % 2 == 1;
        let id = format!("{number:05}");
        let claim_name = format!("{CLAIM}-{name}-{id}");
        let claim = if claims {
            let manifest = object("v1", "PersistentVolumeClaim", &claim_name).in_namespace(&shop.namespace);
            let manifest = manifest.label("app", "demo").label(INSTANCE_ID, &id);
            let manifest = manifest.with("/metadata/ownerReferences", owner.clone());
            Some(
                Stored::create(&shop.client, manifest.with("/spec", claim_templates()[0]["spec"].clone()))
                    .await,
            )
        } else {
            None
        };
        let pod = pod(&format!("{name}-{id}"))
            .in_namespace(&shop.namespace)
            .label("app", "demo")
            .label(REVISION, if short { HASH } else { &revision_name })
            .label("pod-template-hash", HASH)
            .label(INSTANCE_ID, &id)
            .label(LIFECYCLE_STATE, "Normal")
            .annotation("lifecycle.apps.kruise.io/timestamp", "2026-07-01T10:00:00Z")
            .with("/metadata/ownerReferences", owner)
            .container("main", OLD)
            .having("imagePullPolicy", "Always");
        let pod = if short {
            pod
        } else {
            pod.readiness_gate(IN_PLACE_UPDATE_READY).readiness_gate(KRUISE_POD_READY)
        };
        let volume = json!([{"name": CLAIM, "persistentVolumeClaim": {"claimName": claim_name}}]);
        let pod = if claims { pod.with("/spec/volumes", volume) } else { pod };
        let pod = Stored::create(&shop.client, pod).await;
        if !short {
            let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-07-01T10:00:00Z"});
            let conditions = [condition(IN_PLACE_UPDATE_READY), condition(KRUISE_POD_READY)];
            let path = format!("{}/status", pod.path);
            wait_for("the gates to be open", async || {
                // Lists are replaced by this kind of patch: the node's conditions come first.
                let now = pod.get().await.1;
                let mut all = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
                all.retain(|known| !conditions.iter().any(|condition| condition["type"] == known["type"]));
                all.extend(conditions.clone());
                let version = &now["metadata"]["resourceVersion"];
                let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": all}});
                match call(&shop.client, "PATCH", &path, &patch).await {
                    (200, _) => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
        }
        let status = json!({
            "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1,
            "updatedReadyReplicas": 1, "updatedAvailableReplicas": 1, "expectedUpdatedReplicas": 1,
            "updateRevision": revision_name, "currentRevision": revision_name, "collisionCount": 0, "labelSelector": "app=demo",
        });
        set.patch_status(&status).await;
        Self { set, pod, claim, revision }
    }

    async fn ready(&self) {
        wait_for("the Pod to be ready", async || {
            let now = self.pod.get().await.1;
            if is_ready(&now) { Ok(()) } else { Err(now["status"].clone()) }
        })
        .await;
    }

    /// What no takeover changes: the Pod, its claim and the revision as they are stored, and what the CloneSet
    /// says.
    async fn state(&self) -> Value {
        let set = self.set.get().await.1;
        let mut state = json!({"spec": set["spec"], "status": set["status"]});
        state["status"]["observedGeneration"] = Value::Null;
        let parts =
            [("pod", Some(&self.pod)), ("claim", self.claim.as_ref()), ("revision", Some(&self.revision))];
        for (kind, part) in parts.into_iter().filter_map(|(kind, part)| Some((kind, part?))) {
            let (code, now) = part.get().await;
            assert_eq!(code, 200, "{kind}: {now:#}");
            state[kind] = json!([now["metadata"]["uid"], now["metadata"]["resourceVersion"]]);
        }
        state
    }

    /// Nobody has changed the CloneSet's spec.
    async fn is_as_it_was(&self) -> bool {
        let set = self.set.get().await.1;
        (&set["metadata"]["generation"], &set["status"]["observedGeneration"]) == (&json!(1), &json!(1))
    }

    /// Has the CloneSet reconciled: a setting that concerns nothing here is changed, and changed back.
    async fn looked_at(&self) {
        for limit in [9, 10] {
            let now = self.set.patch(&json!({"spec": {"revisionHistoryLimit": limit}})).await;
            wait_for("the CloneSet to be looked at", async || {
                let status = self.set.get().await.1["status"].clone();
                let seen = status["observedGeneration"] == now["metadata"]["generation"];
                if seen { Ok(()) } else { Err(status) }
            })
            .await;
        }
    }
}

/// Which version is stored, with conversion by nobody where it is the old one.
async fn store(client: &Client, version: &str, converted: &Value) -> Value {
    let definition = Stored::existing(client, DEFINITION.to_owned(), Value::Null);
    let mut now = definition.get().await.1;
    let before = now["spec"]["conversion"].clone();
    for each in now["spec"]["versions"].as_array_mut().unwrap() {
        each["storage"] = json!(each["name"] == version);
    }
    now["spec"]["conversion"] = converted.clone();
    let (code, answer) = call(client, "PUT", DEFINITION, &now).await;
    assert_eq!(code, 200, "{answer:#}");
    before
}

/// CloneSets of the reference, of an older one whose objects are stored in the old version too.
async fn leave_behind(shop: &Shop) -> Vec<Left> {
    let client = &shop.client;
    let mut left = join_all((0..SETS).map(|number| Left::new(shop, "v1beta1", number))).await;
    let webhook = store(client, "v1alpha1", &json!({"strategy": "None"})).await;
    let probe = clone_set(shop, "v1alpha1", "probe").build();
    wait_for("objects to be stored in the old version", async || {
        match create(client, probe.clone(), "?dryRun=All").await {
            (201, _) => Ok(()),
            (_, answer) => Err(answer),
        }
    })
    .await;
    left.extend(join_all((0..SETS).map(|number| Left::new(shop, "v1alpha1", number))).await);
    store(client, "v1beta1", &webhook).await;
    let old = left[SETS].set.in_version("v1beta1");
    wait_for("old objects to be converted", async || match old.get().await {
        (200, object) => Err(object),
        _ => Ok(()),
    })
    .await;
    join_all(left.iter().map(Left::ready)).await;
    left
}

/// Scenario 37 and scenarios 16 and 35 of docs/behaviour/in-place-update.md.
#[tokio::test]
async fn neither_takeover_nor_restart_touches_what_is_as_it_should_be() {
    let server = product::server(kit::Options::default()).await;
    let shop = Shop::open_on(&server, "older").await;
    let options = fake_nodes::Options::nodes(2).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(shop.client.clone(), options).await;
    let left = leave_behind(&shop).await;
    let before: Vec<Value> = join_all(left.iter().map(Left::state)).await;

    let (product, endpoint) = started(&server, Options::default()).await;
    all_reconciled(&product, left.len()).await;
    for (left, before) in left.iter().zip(&before) {
        assert_eq!(left.state().await, *before);
        assert!(left.is_as_it_was().await);
        assert_eq!(before["status"]["updateRevision"], format!("{}-{HASH}", name(&left.set.object)));
    }
    // Each of them, by an effect of its own.
    join_all(left.iter().map(Left::looked_at)).await;
    for (left, before) in left.iter().zip(&before) {
        assert_eq!(left.state().await, *before);
    }
    let claims = left.iter().filter(|left| left.claim.is_some()).count();
    for (api, plural, count) in [
        ("apis/apps/v1", "controllerrevisions", left.len()),
        ("api/v1", "pods", left.len()),
        ("api/v1", "persistentvolumeclaims", claims),
    ] {
        let path = format!("/{api}/namespaces/{}/{plural}", shop.namespace);
        let list = call(&shop.client, "GET", &path, &Value::Null).await.1;
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{plural}");
    }

    // An update is under way when the program stops, and another gate is on when it starts.
    let fleet = Fleet::launch_on(&server, "restarted", |set| {
        let set = set.replicas(2).container("first", OLD).env("KRUISE_CONTAINER_PRIORITY", "10");
        in_place(set, json!({}))
    })
    .await;
    // The next batch waits for as long as the first container is not ready.
    let names = fleet.names().await;
    for pod in &names {
        fleet.annotate(pod, fake_nodes::READY_AFTER, "never").await;
    }
    roll_both(&fleet, NEW).await;
    for pod in &names {
        fleet
            .wait_pod(pod, "the first batch", |pod| {
                update_state_if_any(pod)["nextContainerImages"] == json!({"main": NEW})
            })
            .await;
    }
    assert!(product.stop().await.success());
    endpoint.leave().await;
    for pod in &names {
        // Nobody answers reviews of Pods now; those of their status are not asked for.
        let ready = json!({"metadata": {"annotations": {fake_nodes::READY_AFTER: null}}});
        assert_eq!(fleet.pod(pod).try_patch_part("status", &ready).await.0, 200);
        fleet
            .wait_pod(pod, "the first container to be ready", |pod| {
                pod["status"]["containerStatuses"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|status| status["ready"] == true)
            })
            .await;
    }
    let gates = format!("{},CloneSetShortHash=true", product::GATES);
    let (product, _endpoint) = started(&server, Options::default().gates(&gates)).await;
    fleet.complete().await;
    for pod in fleet.pods().await {
        assert!(names.contains(&name(&pod)));
        assert_batches(&pod);
        assert_eq!(image(&pod), NEW);
    }
    all_reconciled(&product, left.len() + 1).await;
    join_all(left.iter().map(Left::looked_at)).await;
    for (left, state) in left.iter().zip(&before) {
        assert_eq!(left.state().await, *state);
    }

    // Both forms can be used: new Pods have the short label, and old ones are updated in place.
    for (index, version) in [(1, "v1beta1"), (2, "v1beta1"), (SETS, "v1alpha1"), (SETS + 3, "v1alpha1")] {
        use_it(&shop, &left[index], version).await;
    }
}

fn update_state_if_any(pod: &Value) -> Value {
    if pod["metadata"]["annotations"][super::STATE].is_null() { Value::Null } else { update_state(pod) }
}

/// A set that was taken over is scaled and updated by clients of its own version.
async fn use_it(shop: &Shop, left: &Left, version: &str) {
    let set = &left.set;
    assert!(set.path.contains(version));
    set.patch(&json!({"spec": {"replicas": 2}})).await;
    let counts = async |what: &str, wanted: i64| {
        wait_for(what, async || {
            let now = set.get().await.1;
            let status = &now["status"];
            let observed = status["observedGeneration"] == now["metadata"]["generation"];
            let counted = ["availableReplicas", "updatedReplicas", "replicas"]
                .iter()
                .all(|count| status[count] == wanted);
            if observed && counted { Ok(()) } else { Err(status.clone()) }
        })
        .await;
    };
    counts("a second Pod", 2).await;
    let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", shop.namespace);
    let claims = call(&shop.client, "GET", &claims, &Value::Null).await.1;
    let owned = |claim: &&Value| claim["metadata"]["ownerReferences"][0]["uid"] == json!(uid(&set.object));
    let own_claims = claims["items"].as_array().unwrap().iter().filter(owned).count();
    assert_eq!(own_claims, if left.claim.is_some() { 2 } else { 0 });
    let list =
        call(&shop.client, "GET", &format!("/api/v1/namespaces/{}/pods", shop.namespace), &Value::Null)
            .await
            .1;
    let own = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == json!(uid(&set.object));
    let items = list["items"].as_array().unwrap();
    let new: Vec<&Value> = items.iter().filter(own).filter(|pod| uid(pod) != uid(&left.pod.object)).collect();
    assert_eq!((new.len(), label(new[0], REVISION)), (1, HASH));

    let mut containers = set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = NEW.into();
    set.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    counts("both to be updated", 2).await;
    let old = left.pod.get().await.1;
    assert_eq!((uid(&old), image(&old), restarts(&old, "main")), (uid(&left.pod.object), NEW, 1));
}

async fn started(server: &ApiServer, options: Options) -> (Product, service::Endpoint) {
    let mut product = Product::start(server, options).await;
    let endpoint = service::join(server, &product).await;
    product.wait_ready().await;
    in_use(server).await;
    asks(server).await;
    (product, endpoint)
}

/// Waits until so many reconciles of CloneSets succeeded.
async fn all_reconciled(product: &Product, count: usize) {
    wait_for("all CloneSets to be reconciled", async || {
        let metrics = product.metrics().await;
        let total = r#"controller_runtime_reconcile_total{controller="cloneset-controller",result=""#;
        let done = metrics.lines().filter(|line| line.starts_with(total) && !line.contains("error"));
        let done: f64 = done.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        if done >= f64::from(u32::try_from(count).unwrap()) { Ok(()) } else { Err((done, product.log())) }
    })
    .await;
}

/// Gives the containers `main` and `first` this image.
async fn roll_both(fleet: &Fleet, image: &str) {
    let mut containers = fleet.set.get().await.1["spec"]["template"]["spec"]["containers"].clone();
    for container in containers.as_array_mut().unwrap() {
        if ["main", "first"].contains(&container["name"].as_str().unwrap()) {
            container["image"] = image.into();
        }
    }
    fleet.containers(containers).await;
}

/// Two batches, each of one container that was restarted once.
fn assert_batches(pod: &Value) {
    let batches = update_state(pod)["containerBatchesRecord"].clone();
    let containers: Vec<&Value> =
        batches.as_array().unwrap().iter().map(|batch| &batch["containers"]).collect();
    assert_eq!(containers, [&json!(["first"]), &json!(["main"])]);
    assert_eq!((restarts(pod, "first"), restarts(pod, "main")), (1, 1));
}
