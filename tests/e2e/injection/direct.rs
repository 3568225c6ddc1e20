//! Reviews sent straight to the program, which an API server would not send.

use serde_json::json;

use super::after;
use crate::support::{Shop, direct_of, names, patched, pod_review, review, shared};

/// Scenario 31.
#[tokio::test]
async fn updates_are_allowed_untouched() {
    let shop = Shop::open("updates").await;
    shop.stock([after(shop.sidecar_set("log"), "log")]).await;
    let (server, product) = shared().await;
    let program = direct_of(server, product.port).await;
    let pod = shop.pod("web").build();
    for subresource in ["", "status"] {
        let response = review(&program, &pod_review(&shop.namespace, "UPDATE", subresource, &pod)).await;
        assert_eq!(response["allowed"], true);
        assert!(response.get("patch").is_none() && response.get("patchType").is_none(), "{response:#}");
    }
}

/// Scenario 31.
#[tokio::test]
async fn what_is_no_pod_is_a_bad_request() {
    let shop = Shop::open("no-pod").await;
    shop.stock([after(shop.sidecar_set("log"), "log")]).await;
    let (server, product) = shared().await;
    let program = direct_of(server, product.port).await;
    for object in [
        json!("text"),
        json!({"metadata": [], "spec": {}}),
        json!({"metadata": {}, "spec": []}),
        json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "x"}}),
    ] {
        let response = review(&program, &pod_review(&shop.namespace, "CREATE", "", &object)).await;
        assert_eq!(
            (&response["allowed"], &response["status"]["code"]),
            (&json!(false), &json!(400)),
            "{object}"
        );
    }
    let mut bare = shop.pod("web").build();
    for key in ["apiVersion", "kind"] {
        bare.as_object_mut().unwrap().remove(key);
    }
    let response = review(&program, &pod_review(&shop.namespace, "CREATE", "", &bare)).await;
    assert_eq!(names(&patched(&bare, &response)["spec"]["containers"]), ["main", "log"]);
}

/// docs/behaviour/pod-mutation.md#the-review and docs/behaviour/pod-mutation.md: fields that this program has
/// never heard of stay where they are, also when containers come in front of theirs.
#[tokio::test]
async fn fields_of_the_future_stay_where_they_are() {
    let shop = Shop::open("future").await;
    shop.stock([after(shop.sidecar_set("log").container("first", "busybox:1.36"), "last")]).await;
    let (server, product) = shared().await;
    let program = direct_of(server, product.port).await;
    let mut future = shop.pod("web").init_container("setup", "busybox:1.36").build();
    let news = json!({"deep": [1, {"x": null}], "number": 12_345_678_901_234_567_u64});
    for pointer in ["", "/metadata", "/spec", "/spec/containers/0", "/spec/initContainers/0"] {
        future.pointer_mut(pointer).unwrap()["fromTheFuture"] = news.clone();
    }
    let response = review(&program, &pod_review(&shop.namespace, "CREATE", "", &future)).await;
    let pod = patched(&future, &response);
    assert_eq!(names(&pod["spec"]["containers"]), ["first", "main", "last"]);
    for pointer in ["", "/metadata", "/spec", "/spec/containers/1", "/spec/initContainers/0"] {
        assert_eq!(pod.pointer(pointer).unwrap()["fromTheFuture"], news, "{pointer}");
    }
    for pointer in ["/spec/containers/0", "/spec/containers/2"] {
        assert!(pod.pointer(pointer).unwrap().get("fromTheFuture").is_none(), "{pointer}");
    }
    // What comes from the Pod is not written again.
    assert_eq!(pod["spec"]["containers"][1], future["spec"]["containers"][0]);
}
