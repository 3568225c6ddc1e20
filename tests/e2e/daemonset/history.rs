//! Revisions, and taking over from OpenKruise (docs/behaviour/daemonset.md#revisions).

use serde_json::{Value, json};

use super::{asked, complete, identities, launch};
use crate::support::Stored;
use crate::support::fleet::{NEW, OLD, name};

/// Scenarios 36 and 37: what OpenKruise left is taken as it is, though its owner references name v1alpha1.
#[tokio::test]
async fn nothing_of_openkruise_changes_until_the_template_does() {
    let fleet = launch(asked().await, "daemonset-takeover", 2, |set| set).await;
    let of_old = |object: &Value| {
        let mut owner = object["metadata"]["ownerReferences"][0].clone();
        owner["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    for pod in fleet.pods().await {
        fleet.pod(&name(&pod)).patch(&of_old(&pod)).await;
    }
    let revision = fleet.revisions().await.remove(0);
    let path =
        format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{}", fleet.shop.namespace, name(&revision));
    Stored::existing(&fleet.shop.client, path, Value::Null).patch(&of_old(&revision)).await;
    let versions = |objects: &[Value]| -> Vec<String> {
        objects.iter().map(|object| object["metadata"]["resourceVersion"].to_string()).collect()
    };
    let before = (versions(&fleet.pods().await), versions(&fleet.revisions().await));
    fleet.change(json!({"revisionHistoryLimit": 5})).await;
    complete(&fleet).await;
    assert_eq!((versions(&fleet.pods().await), versions(&fleet.revisions().await)), before);
    let old = identities(&fleet.pods().await);
    fleet.roll(NEW).await;
    complete(&fleet).await;
    assert!(identities(&fleet.pods().await).iter().all(|uid| !old.contains(uid)));
    fleet.roll(OLD).await;
    complete(&fleet).await;
    assert_eq!(fleet.revisions().await.len(), 2, "the first revision came back");
}
