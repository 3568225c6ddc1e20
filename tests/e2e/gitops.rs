//! What others do with objects that Kutter reconciles too: whoever applies manifests keeps what it set, sees no
//! difference that comes back, and can tell when an object was dealt with; autoscalers set the number of replicas.

use std::collections::BTreeMap;

use kit::api_server::ApiServer;
use kit::wait_for;
use serde_json::{Value, json};

use crate::conversion::samples;
use crate::support::{Shop, Stored, shared};

const DEPLOYER: &str = "--field-manager=argocd-controller";

async fn apply(server: &ApiServer, manifests: &Value) {
    let words = ["apply", "--server-side", DEPLOYER, "-f", "-"];
    server.kubectl_with_input(words, &manifests.to_string()).await.success();
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

/// The kinds that people write, in every version, applied by a deployer: no other manager sets a field of the spec, there is no difference
/// once controllers have dealt with it, and a second apply makes no new generation.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_fights_over_what_a_deployer_applies() {
    let (server, _) = shared().await;
    for version in ["v1alpha1", "v1beta1"] {
        let shop = Shop::open("deployed").await;
        // NodeImages are written by controllers, and requests to restart are made once.
        let mut samples = samples(&shop.namespace, version);
        samples.retain(|sample| {
            !["NodeImage", "ContainerRecreateRequest"].map(Value::from).contains(&sample.object["kind"])
        });
        for sample in &samples {
            sample.stock(&shop.client).await;
        }
        let list: Vec<Value> = samples.iter().map(|sample| sample.object.clone()).collect();
        let manifests = json!({"apiVersion": "v1", "kind": "List", "items": list});
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

/// Its controller has dealt with the newest spec, where its status tells that.
async fn dealt_with(object: &Stored) {
    const TELLING: [&str; 9] = [
        "CloneSet",
        "StatefulSet",
        "UnitedDeployment",
        "DaemonSet",
        "SidecarSet",
        "PersistentPodState",
        "ResourceDistribution",
        "WorkloadSpread",
        "PodUnavailableBudget",
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

/// An autoscaler sets the replicas of what a deployer applies without them, and reads how many there are by the selector.
#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_and_a_deployer_go_together() {
    let (server, _) = shared().await;
    let shop = Shop::open("scaled").await;
    for (kind, resource) in [("CloneSet", "clonesets"), ("StatefulSet", "statefulsets")] {
        let containers = json!([{"name": "main", "image": "nginx:1.25"}]);
        let manifest = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": "web", "namespace": shop.namespace},
            "spec": {"selector": {"matchLabels": {"app": kind}},
                "template": {"metadata": {"labels": {"app": kind}}, "spec": {"containers": containers}}},
        });
        apply(server, &manifest).await;
        let name = format!("{resource}.apps.kruise.io/web");
        let words = ["scale", &name, "--replicas=3", "--namespace", &shop.namespace];
        server.kubectl(words).await.success();
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/{resource}/web", shop.namespace);
        let scale = Stored::existing(&shop.client, format!("{path}/scale"), Value::Null);
        wait_for("the scale to be shown", async || {
            let (_, scale) = scale.get().await;
            let shown = (&scale["spec"]["replicas"], &scale["status"]["selector"]);
            if shown == (&json!(3), &json!(format!("app={kind}"))) { Ok(()) } else { Err(scale) }
        })
        .await;
        no_difference(server, &manifest).await;
        apply(server, &manifest).await;
        let (_, scale) = scale.get().await;
        assert_eq!(scale["spec"]["replicas"], 3, "{scale:#}");
    }
}
