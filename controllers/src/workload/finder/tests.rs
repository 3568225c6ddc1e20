use kit::double::{Objects, Requests, api_server, status};
use serde_json::{Value, json};

use super::*;

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true})
}

fn object(name: &str, owners: &[Value], replicas: impl Into<Value>) -> Value {
    let metadata =
        json!({"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "ownerReferences": owners});
    json!({"metadata": metadata, "spec": {"replicas": replicas.into()}})
}

fn reference<'a>(api_version: &'a str, kind: &'a str, name: &'a str) -> Reference<'a> {
    Reference { api_version, kind, name, uid: None }
}

/// An API server with these objects, where kinds of `example.com/v1` and their scales are served too.
fn cluster(objects: &[(&str, Value)]) -> (Client, Requests) {
    let stored = Objects::default();
    for (path, object) in objects {
        stored.put(path, object.clone());
    }
    let served = json!({"resources": [
        {"name": "rollouts", "kind": "Rollout", "namespaced": true},
        {"name": "rollouts/scale", "kind": "Scale", "namespaced": true},
        {"name": "parts", "kind": "Part", "namespaced": true},
        {"name": "secrets", "kind": "Secret", "namespaced": true},
    ]});
    api_server(move |request| match request.path {
        "/apis/example.com/v1" => (200, served.to_string()),
        path if path.contains("/secrets/") || path.ends_with("/shy/scale") => (403, status(403)),
        _ => stored.answer(&request),
    })
}

const ROLLOUT: &str = "/apis/example.com/v1/namespaces/shop/rollouts/web";

fn see(finder: &Finder, kind: &str, version: u64, mut object: Value) {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    let kind = finder.kinds.iter().find(|known| known.resource.kind == kind).unwrap();
    kind.objects().see(serde_json::from_value(object).unwrap());
}

fn lists_end(finder: &Finder) {
    finder.kinds.iter().for_each(|kind| kind.objects().list_ends());
}

fn pods(all: &[Value]) -> Pods {
    let pods = Pods::new(false);
    pods.want("Budget", &("shop".to_owned(), "web".to_owned()));
    pods.list_begins();
    for (number, pod) in all.iter().enumerate() {
        let mut pod = pod.clone();
        pod["metadata"]["resourceVersion"] = json!((number + 1).to_string());
        pods.see(serde_json::from_value(pod).unwrap());
    }
    pods.list_ends();
    pods
}

fn names(pods: &[Arc<ObservedPod>]) -> Vec<&str> {
    let mut names: Vec<_> = pods.iter().map(|pod| pod.name()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_replica_set_leads_to_its_deployment() {
    let finder = Finder::default();
    let (client, requests) = cluster(&[]);
    see(&finder, "Deployment", 1, object("web", &[], 5));
    see(&finder, "ReplicaSet", 2, object("web-1", &[owner("apps/v1", "Deployment", "web")], 2));
    see(&finder, "ReplicaSet", 3, object("web-2", &[owner("apps/v1", "Deployment", "web")], 3));
    see(&finder, "ReplicaSet", 4, object("lost-1", &[owner("apps/v1", "Deployment", "lost")], 3));
    lists_end(&finder);
    let behind = async |name: &str, uid: &str| {
        let mut owner: OwnerReference = serde_json::from_value(owner("apps/v1", "ReplicaSet", name)).unwrap();
        owner.uid = uid.to_owned();
        let found = finder.behind(&client, "shop", &owner).await.unwrap();
        found.map(|found| (found.name().to_owned(), found.replicas))
    };
    let web = Some(("web".to_owned(), Some(5)));
    assert_eq!(behind("web-1", "uid-web-1").await, web);
    assert_eq!(behind("web-2", "uid-web-2").await, web);
    assert_eq!(behind("web-2", "uid-other").await, None, "another object of this name");
    assert_eq!(behind("lost-1", "uid-lost-1").await, None);
    assert!(requests.lock().unwrap().is_empty());
    let pods = pods(&[
        object("a", &[owner("apps/v1", "ReplicaSet", "web-1")], Value::Null),
        object("b", &[owner("apps/v1", "ReplicaSet", "web-2")], Value::Null),
        object("c", &[owner("apps/v1", "ReplicaSet", "lost-1")], Value::Null),
    ]);
    let web =
        finder.find(&client, "shop", reference("apps/v1beta1", "Deployment", "web")).await.unwrap().unwrap();
    assert_eq!(names(&finder.pods(&pods, &web).await.unwrap()), ["a", "b"]);
}

#[tokio::test]
async fn a_kind_that_is_not_listed_yet_is_read() {
    let finder = Finder::default();
    let path = "/apis/apps/v1/namespaces/shop/statefulsets/db";
    let (client, _) = cluster(&[(path, object("db", &[], Value::Null))]);
    let find =
        async |name: &str| finder.find(&client, "shop", reference("apps/v1", "StatefulSet", name)).await;
    assert_eq!(find("db").await.unwrap().unwrap().replicas, Some(1));
    assert_eq!(find("other").await.unwrap(), None);
    lists_end(&finder);
    assert_eq!(find("db").await.unwrap(), None, "the list does not show it");
}

#[tokio::test(start_paused = true)]
async fn other_kinds_are_known_by_their_scale_and_remembered() {
    let finder = Finder::default();
    let scale = json!({"spec": {"replicas": 7}, "status": {"selector": "app=web"}});
    let part = object("part", &[owner("example.com/v1", "Rollout", "web")], Value::Null);
    let (client, requests) = cluster(&[
        (ROLLOUT, object("web", &[], 3)),
        (&format!("{ROLLOUT}/scale"), scale),
        ("/apis/example.com/v1/namespaces/shop/parts/part", part),
    ]);
    let asked = || std::mem::take(&mut *requests.lock().unwrap()).len();
    let owner = serde_json::from_value(owner("example.com/v1", "Part", "part")).unwrap();
    let found = finder.behind(&client, "shop", &owner).await.unwrap().unwrap();
    assert_eq!((found.name(), found.replicas), ("web", Some(7)));
    assert_eq!(asked(), 5);
    drop(finder.behind(&client, "shop", &owner).await.unwrap());
    assert_eq!(asked(), 0);
    tokio::time::sleep(MEMORY).await;
    drop(finder.behind(&client, "shop", &owner).await.unwrap());
    assert_eq!(asked(), 3, "how a kind is served is known for longer");
    let labelled = |name: &str, app: &str| {
        let mut pod = object(name, &[], Value::Null);
        pod["metadata"]["labels"] = json!({"app": app});
        pod
    };
    let pods = pods(&[labelled("a", "web"), labelled("b", "db")]);
    assert_eq!(names(&finder.pods(&pods, &found).await.unwrap()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_may_not_be_read_or_is_not_served_is_not_one_that_is_gone() {
    let finder = Finder::default();
    let (client, requests) = cluster(&[]);
    for (api_version, kind) in
        [("example.com/v1", "Secret"), ("example.com/v1", "Unknown"), ("gone.io/v1", "Gone")]
    {
        // Among the owners of Pods it stops nothing, in whichever order they are asked.
        let owner = serde_json::from_value(owner(api_version, kind, "x")).unwrap();
        assert_eq!(finder.behind(&client, "shop", &owner).await.unwrap(), None);
        requests.lock().unwrap().clear();
        let target = finder.find(&client, "shop", reference(api_version, kind, "x")).await;
        assert!(matches!(target, Err(ReconcileError::Unreadable(_))), "{kind}: {target:?}");
        assert!(requests.lock().unwrap().is_empty(), "that is remembered");
    }
    let gone = finder.find(&client, "shop", reference("example.com/v1", "Part", "x")).await;
    assert_eq!(gone.unwrap(), None);
    let (forbidding, _) = api_server(|_| (403, status(403)));
    let set = reference("apps/v1", "StatefulSet", "x");
    assert!(matches!(finder.find(&forbidding, "shop", set).await, Err(ReconcileError::Unreadable(_))));
    let (silent, _) = api_server(|_| (503, status(503)));
    assert!(finder.find(&silent, "shop", reference("example.com/v1", "Part", "y")).await.is_err());
    assert!(finder.find(&silent, "shop", reference("apps/v1", "Deployment", "x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_target_is_read_again_after_seconds_in_any_version_of_its_group() {
    let finder = Finder::default();
    let (served, objects) = (json!({"groupVersion": "example.com/v1"}), Objects::default());
    let group = json!({"versions": [served], "preferredVersion": served});
    let resources = json!([{"name": "rollouts", "kind": "Rollout", "namespaced": true}]);
    let stored = objects.clone();
    let (client, _) = api_server(move |request| match request.path {
        "/apis/example.com" => (200, group.to_string()),
        "/apis/example.com/v1" => (200, json!({"resources": resources}).to_string()),
        _ => stored.answer(&request),
    });
    let web = reference("example.com/v9", "Rollout", "web");
    for replicas in [3, 4] {
        objects.put(ROLLOUT, object("web", &[], replicas));
        let found = finder.find(&client, "shop", web).await.unwrap().unwrap();
        assert_eq!(found.replicas, Some(replicas));
        tokio::time::sleep(MEMORY_OF_TARGETS).await;
    }
}

#[tokio::test]
async fn replicas_that_are_hidden_are_not_unknown_ones() {
    let finder = Finder::default();
    let path = |name: &str| format!("/apis/example.com/v1/namespaces/shop/rollouts/{name}");
    let (client, _) = cluster(&[
        (&path("shy"), object("shy", &[], Value::Null)),
        (&path("open"), object("open", &[], Value::Null)),
    ]);
    let find = async |name: &str| {
        let found = finder.find(&client, "shop", reference("example.com/v1", "Rollout", name)).await;
        let found = found.unwrap().unwrap();
        (found.replicas, found.hidden.is_some())
    };
    assert_eq!(find("shy").await, (None, true), "its scale may not be read");
    assert_eq!(find("open").await, (None, false), "it has no scale");
}
