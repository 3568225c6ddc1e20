//! Names in reviews that would lead elsewhere on the API server.

use admission::world::{Watched, World};
use informers::{Index, Lookup};
use kit::double::api_server;
use serde_json::{Value, json};

use crate::support::{ask, create_pod, delete, labelled, with_index};

const NAMES: [&str; 6] = ["../secrets/x", "..", ".", "x/status", "/", "x?watch=true&x"];

/// The reviews of all webhooks that look for something by a name of the review.
fn reviews(name: &str) -> Vec<(&'static str, Value)> {
    let written = |resource: &str, object: Value| {
        json!({"uid": "1", "operation": "CREATE", "name": "web", "namespace": "shop", "object": object,
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": resource}})
    };
    let eviction = json!({"uid": "1", "operation": "CREATE", "subResource": "eviction", "name": name, "namespace": "shop",
        "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "shop"}}});
    let owned = |api_version: &str, name: &str| {
        let mut pod = create_pod(1);
        pod["namespace"] = json!("shop");
        pod["object"]["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": "ReplicaSet",
            "name": name, "uid": "u", "controller": true}]);
        pod
    };
    let mut elsewhere = create_pod(1);
    elsewhere["namespace"] = json!(name);
    let spread = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "ws"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}, "subsets": [{"name": "a"}]}});
    let recreate = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "crr"}, "spec": {"podName": name, "containers": [{"name": "main"}]}});
    let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}}, "scaleStrategy": {"podsToDelete": [name]},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": create_pod(1)["object"]["spec"]}}});
    vec![
        ("/validate-pod", eviction),
        ("/mutate-pod", owned("apps/v1", name)),
        ("/mutate-pod", owned(name, "web")),
        ("/mutate-pod", elsewhere),
        ("/validate-apps-kruise-io-workloadspread", written("workloadspreads", spread)),
        ("/mutate-apps-kruise-io-containerrecreaterequest", written("containerrecreaterequests", recreate)),
        ("/validate-apps-kruise-io-cloneset", written("clonesets", set)),
        ("/validate-namespace", delete("namespaces", "v1", &labelled("Namespace", "", name, "Cascading"))),
    ]
}

#[tokio::test]
async fn no_name_leads_to_another_path() {
    let kinds = json!({"resources": [
        {"name": "pods", "kind": "Pod", "namespaced": true},
        {"name": "replicasets", "kind": "ReplicaSet", "namespaced": true},
        {"name": "replicasets/scale", "kind": "Scale", "namespaced": true}]});
    let (client, requests) = api_server(move |request| match request.path {
        "/api/v1" | "/apis/apps/v1" => (200, kinds.to_string()),
        _ => (403, kit::double::status(403)),
    });
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spread = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "1"},
        "spec": {"targetRef": target, "subsets": [{"name": "a"}]}});
    for name in NAMES {
        for (path, review) in reviews(name) {
            let mut world = World::new(api::DEFAULT_NAMESPACE);
            world.apply(Watched::WorkloadSpread, &spread.to_string()).unwrap();
            let admission = with_index("", Index::fixed(world), Lookup::cluster(client.clone()));
            let answer = ask(&admission, path, &review).await;
            for request in std::mem::take(&mut *requests.lock().unwrap()) {
                let asked = request.split_whitespace().nth(1).unwrap();
                let known = ["/api/v1", "/apis/apps/v1"].contains(&asked);
                let is_escaped = name.contains('?') && asked.contains("x%3Fwatch%3Dtrue%26x");
                assert!(known || is_escaped, "{path} with {name:?} asks for {asked}: {answer}");
            }
            // What the API server says of our rights is not shown.
            assert!(
                name.contains('?') || !answer.to_string().contains("refused\""),
                "{path} {name:?}: {answer}"
            );
        }
    }
}
