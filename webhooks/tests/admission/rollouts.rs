//! Rollouts in admission: what is held back, what is asked of the cluster for that, and what happens while it does not
//! answer (docs/behaviour/api-and-registration.md#workloads-of-rollouts).

use admission::world::{Watched, World};
use base64::Engine as _;
use informers::index::CacheState;
use informers::{Index, Lookup, files};
use kit::double::{Requests, api_server, status};
use serde_json::{Value, json};
use webhooks::Admission;

use crate::support::{ask, with_index};

const ON: &str = "Rollouts=true";
const FREEZE: &str = "/mutate-rollouts-kruise-io-workload";
const VALIDATE: &str = "/validate-rollouts-kruise-io-rollout";
const ROLLOUTS: &str = "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/rollouts";

fn rollout(name: &str, workload: &str) -> Value {
    let (api_version, kind) = match workload {
        "CloneSet" => ("apps.kruise.io/v1alpha1", workload),
        _ => ("apps/v1", "Deployment"),
    };
    json!({
        "apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "workloadRef": {"apiVersion": api_version, "kind": kind, "name": "web"},
            "strategy": {"canary": {"steps": [{"replicas": "20%"}, {"replicas": "100%"}]}},
        },
    })
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "labels": {"app": "web"}},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}}},
        "status": {"replicas": 5, "updatedReplicas": 5},
    })
}

fn clone_set(image: &str) -> Value {
    let mut set = deployment(image);
    (set["apiVersion"], set["kind"]) = (json!("apps.kruise.io/v1alpha1"), json!("CloneSet"));
    set
}

fn replica_set() -> Value {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-5d4f", "namespace": "shop", "uid": "r", "ownerReferences": [owner],
            "labels": {"app": "web", "pod-template-hash": "5d4f"}},
        "spec": {"replicas": 5, "template": deployment("nginx:1")["spec"]["template"]}})
}

fn labelled(mut object: Value) -> Value {
    object["metadata"]["labels"]["rollouts.kruise.io/workload-type"] = json!("deployment");
    object
}

fn world(rollouts: &[Value]) -> World {
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    for rollout in rollouts {
        world.apply(Watched::Rollout, &rollout.to_string()).unwrap();
    }
    world
}

/// Admission that knows these Rollouts; all of `objects` are on the API server.
fn knowing(rollouts: &[Value], objects: &[Value]) -> Admission {
    let mut stored = files::Objects::default();
    for object in objects {
        stored.parse("test", &object.to_string()).unwrap();
    }
    with_index(ON, Index::fixed(world(rollouts)), Lookup::files(stored))
}

/// Admission beside an API server that has these Rollouts, and the ReplicaSet of the Deployment. Without Rollouts it refuses
/// everything.
fn beside(index: Index, rollouts: Option<Vec<Value>>) -> (Admission, Requests) {
    let (client, requests) = api_server(move |request| {
        let Some(rollouts) = rollouts.as_ref() else { return (403, status(403)) };
        let served = |plural: &str, kind: &str| {
            (200, json!({"resources": [{"name": plural, "kind": kind, "namespaced": true}]}).to_string())
        };
        let list = |items: &[Value]| (200, json!({"metadata": {}, "items": items}).to_string());
        let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
        match path {
            "/apis/rollouts.kruise.io/v1beta1" => served("rollouts", "Rollout"),
            "/apis/apps/v1" => served("replicasets", "ReplicaSet"),
            "/api/v1" => served("configmaps", "ConfigMap"),
            "/apis/apps/v1/namespaces/shop/replicasets" => {
                assert!(query.starts_with("labelSelector=app%3Dweb"), "{query}");
                list(&[replica_set()])
            }
            ROLLOUTS => list(rollouts),
            _ => {
                let name = path.strip_prefix(&format!("{ROLLOUTS}/")).unwrap_or_default();
                let found = rollouts.iter().find(|rollout| rollout["metadata"]["name"] == name);
                found.map_or_else(|| (404, status(404)), |rollout| (200, rollout.to_string()))
            }
        }
    });
    (with_index(ON, index, Lookup::cluster(client)), requests)
}

async fn update(admission: &Admission, path: &str, old: &Value, new: &Value) -> Value {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let (group, version) = new["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let resource = format!("{}s", new["kind"].as_str().unwrap().to_lowercase());
    let request = json!({"uid": "1", "operation": operation, "name": new["metadata"]["name"], "namespace": "shop",
        "kind": {"group": group, "version": version, "kind": new["kind"]},
        "resource": {"group": group, "version": version, "resource": resource}, "object": new, "oldObject": old});
    ask(admission, path, &request).await
}

async fn changed(admission: &Admission, old: &Value, new: &Value) -> Value {
    update(admission, FREEZE, old, new).await
}

/// What is stored: the object with the patch of the answer.
fn stored(object: &Value, answer: &Value) -> Value {
    assert_eq!(answer["allowed"], true, "{answer}");
    let Some(patch) = answer["patch"].as_str() else { return object.clone() };
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
    let mut object = object.clone();
    json_patch::patch(&mut object, &serde_json::from_slice::<json_patch::Patch>(&patch).unwrap()).unwrap();
    object
}

fn is_held(object: &Value) -> bool {
    let held =
        object["metadata"]["annotations"]["rollouts.kruise.io/in-progressing"] == r#"{"rolloutName":"web"}"#;
    let stopped = match object["kind"].as_str().unwrap() {
        "CloneSet" => object["spec"]["updateStrategy"]["partition"] == "100%",
        _ => object["spec"]["paused"] == true,
    };
    assert_eq!(held, stopped, "{object:#}");
    held
}

#[tokio::test]
async fn a_new_template_is_held_back_and_nothing_of_the_object_is_lost() {
    let admission = knowing(&[rollout("web", "Deployment")], &[rollout("web", "Deployment"), replica_set()]);
    let mut new = deployment("nginx:2");
    new["metadata"]["annotations"] = json!({"a/b": "~1", "kept": "1"});
    new["spec"]["future"] = json!({"x": [1.5, null, {"y": "z"}]});
    new["spec"]["template"]["spec"]["future"] = json!(12_345_678_901_234_567_u64);
    let answer = changed(&admission, &deployment("nginx:1"), &new).await;
    let after = stored(&new, &answer);
    assert!(is_held(&after));
    assert_eq!(after["metadata"]["labels"]["rollouts.kruise.io/stable-revision"], "5d4f");
    // Without what was added it is the object that was sent.
    let mut rest = after.clone();
    rest["spec"].as_object_mut().unwrap().remove("paused");
    rest["metadata"]["labels"].as_object_mut().unwrap().remove("rollouts.kruise.io/stable-revision");
    rest["metadata"]["annotations"].as_object_mut().unwrap().remove("rollouts.kruise.io/in-progressing");
    assert_eq!(rest, new);
    // What is held already gets nothing more.
    let again = changed(&admission, &deployment("nginx:1"), &after).await;
    assert_eq!(stored(&after, &again), after);
}

#[tokio::test]
async fn nothing_else_is_held_back() {
    let admission = knowing(&[rollout("web", "Deployment")], &[rollout("web", "Deployment"), replica_set()]);
    let old = deployment("nginx:1");
    let mut scaled = old.clone();
    scaled["spec"]["replicas"] = json!(9);
    let mut other = deployment("nginx:2");
    other["metadata"]["name"] = json!("other");
    for new in [&old, &scaled, &other, &clone_set("nginx:2")] {
        let answer = changed(&admission, &old, new).await;
        assert!(answer.get("patch").is_none() && answer["allowed"] == true, "{answer}");
    }
    let created = update(&admission, FREEZE, &Value::Null, &deployment("nginx:2")).await;
    assert!(created.get("patch").is_none() && created["allowed"] == true);
}

#[tokio::test]
async fn without_the_gate_everything_passes() {
    let off = with_index(
        "",
        Index::fixed(world(&[rollout("web", "Deployment")])),
        Lookup::files(files::Objects::default()),
    );
    let answer = changed(&off, &deployment("nginx:1"), &deployment("nginx:2")).await;
    assert!(answer.get("patch").is_none() && answer["allowed"] == true, "{answer}");
    let invalid = update(&off, VALIDATE, &Value::Null, &rollout("web", "Deployment")).await;
    assert_eq!(invalid["allowed"], true);
}

#[tokio::test]
async fn without_the_definition_nothing_is_asked() {
    let absent = Index::awaiting(world(&[]), [Watched::Rollout]);
    absent.set_cache_state(Watched::Rollout, CacheState::Absent);
    let (admission, requests) = beside(absent, None);
    let answer = changed(&admission, &deployment("nginx:1"), &labelled(deployment("nginx:2"))).await;
    assert!(answer.get("patch").is_none() && answer["allowed"] == true, "{answer}");
    assert!(requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_rollout_that_is_gone_holds_nothing_any_more() {
    let web = rollout("web", "Deployment");
    let mut moved = web.clone();
    moved["spec"]["workloadRef"]["name"] = json!("other");
    for (now, held) in [(vec![web.clone()], true), (vec![], false), (vec![moved], false)] {
        let (admission, _) = beside(Index::fixed(world(std::slice::from_ref(&web))), Some(now));
        let new = deployment("nginx:2");
        let answer = changed(&admission, &deployment("nginx:1"), &new).await;
        assert_eq!(is_held(&stored(&new, &answer)), held, "{answer}");
    }
}

#[tokio::test]
async fn a_rollout_that_was_just_created_holds_its_workload() {
    let mut elsewhere = rollout("web", "Deployment");
    elsewhere["metadata"]["namespace"] = json!("bank");
    let mut other = rollout("other", "Deployment");
    other["spec"]["workloadRef"]["name"] = json!("other");
    for known in [vec![], vec![elsewhere], vec![other.clone()]] {
        let now = vec![other.clone(), rollout("web", "Deployment")];
        let (admission, _) = beside(Index::fixed(world(&known)), Some(now));
        let new = deployment("nginx:2");
        let answer = changed(&admission, &deployment("nginx:1"), &new).await;
        assert!(is_held(&stored(&new, &answer)));
    }
}

#[tokio::test]
async fn only_workloads_with_a_rollout_depend_on_the_cluster() {
    let pending = || Index::awaiting(world(&[]), [Watched::Rollout]);
    let (old, new) = (deployment("nginx:1"), deployment("nginx:2"));
    // It is not known which Rollouts there are: of a labelled workload there was one.
    let (admission, _) = beside(pending(), None);
    for (old, new) in [(labelled(old.clone()), new.clone()), (old.clone(), labelled(new.clone()))] {
        let refused = changed(&admission, &old, &new).await;
        assert_eq!(refused["status"]["code"], 503, "{refused}");
    }
    let answer = changed(&admission, &old, &new).await;
    assert!(answer["allowed"] == true && answer.get("patch").is_none(), "{answer}");
    assert!(answer["warnings"][0].as_str().unwrap().starts_with("Rollouts can't be read"), "{answer}");
    let (admission, _) = beside(pending(), Some(vec![rollout("web", "Deployment")]));
    assert!(is_held(&stored(&new, &changed(&admission, &old, &new).await)));

    // A Rollout is known: where the API server can't be asked it counts as it is known.
    let (admission, _) = beside(Index::fixed(world(&[rollout("web", "CloneSet")])), None);
    let answer = changed(&admission, &clone_set("nginx:1"), &clone_set("nginx:2")).await;
    assert!(is_held(&stored(&clone_set("nginx:2"), &answer)));
    // Without the ReplicaSets it can't be held back, and must not pass.
    let (admission, _) = beside(Index::fixed(world(&[rollout("web", "Deployment")])), None);
    let refused = changed(&admission, &old, &new).await;
    assert_eq!(refused["status"]["code"], 503, "{refused}");
    assert!(refused["status"]["message"].as_str().unwrap().starts_with("ReplicaSets can't be read"));
}

#[tokio::test]
async fn a_rollout_is_checked_against_the_others_of_its_namespace() {
    let admission = knowing(&[], &[rollout("web", "Deployment")]);
    let second = update(&admission, VALIDATE, &Value::Null, &rollout("again", "Deployment")).await;
    assert_eq!(second["status"]["code"], 422, "{second}");
    let conflict =
        "This rollout conflict with Rollout(shop/web), one workload only have less than one Rollout";
    assert!(second["status"]["message"].as_str().unwrap().contains(conflict), "{second}");
    let web = rollout("web", "Deployment");
    assert_eq!(update(&admission, VALIDATE, &web, &web).await["allowed"], true);
    let mut without_steps = web.clone();
    without_steps["spec"]["strategy"]["canary"]["steps"] = json!([]);
    assert_eq!(update(&admission, VALIDATE, &web, &without_steps).await["status"]["code"], 422);
}

#[tokio::test]
async fn a_rollout_can_lose_its_finalizers_while_nothing_can_be_read() {
    let (admission, requests) = beside(Index::awaiting(world(&[]), [Watched::Rollout]), None);
    let mut held = rollout("web", "Deployment");
    held["metadata"]["finalizers"] = json!(["rollouts.kruise.io/rollout"]);
    assert_eq!(update(&admission, VALIDATE, &held, &rollout("web", "Deployment")).await["allowed"], true);
    assert!(requests.lock().unwrap().is_empty());
    let created = update(&admission, VALIDATE, &Value::Null, &rollout("web", "Deployment")).await;
    assert_eq!(created["status"]["code"], 503, "{created}");
}
