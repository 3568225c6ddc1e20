//! Pods and SidecarSets from the review to the answer; the rules themselves are tested in the planner.

use admission::world::{Watched, World};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informers::files::Objects;
use informers::index::CacheState;
use informers::{Index, Lookup};
use serde_json::{Value, json};

use crate::support::{
    admission, ask, create_pod, create_sidecar_set, sidecar_set, with_index, with_sidecar_sets,
};

/// The object of a request with the answer's patch applied, as the API server does it.
fn patched(request: &Value, answer: &Value) -> Value {
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut object = request["object"].clone();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

fn container_names(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_matching_pod_gets_its_sidecar_by_patch() {
    let admission = with_sidecar_sets("", &[sidecar_set()]);
    let request = create_pod(1);
    let pod = patched(&request, &ask(&admission, "/mutate-pod", &request).await);
    let mut names = container_names(&pod);
    names.sort_unstable();
    assert_eq!(names, ["c0", "logs"]);
    let mut dry_run = request.clone();
    dry_run["dryRun"] = json!(true);
    assert_eq!(patched(&dry_run, &ask(&admission, "/mutate-pod", &dry_run).await), pod);
}

#[tokio::test]
async fn a_pod_that_nothing_matches_passes_without_patch() {
    let mut request = create_pod(1);
    request["object"]["metadata"]["labels"] = json!({"app": "other"});
    let answer = ask(&with_sidecar_sets("", &[sidecar_set()]), "/mutate-pod", &request).await;
    assert_eq!(answer["allowed"], true);
    assert!(answer.get("patch").is_none() && answer.get("patchType").is_none(), "{answer}");
}

#[tokio::test]
async fn updates_sent_to_the_pod_webhook_pass_and_other_kinds_do_not() {
    let admission = with_sidecar_sets("", &[sidecar_set()]);
    let mut request = create_pod(1);
    for subresource in ["", "status"] {
        request["operation"] = json!("UPDATE");
        request["subResource"] = json!(subresource);
        let answer = ask(&admission, "/mutate-pod", &request).await;
        assert!(answer["allowed"] == true && answer.get("patch").is_none(), "{answer}");
    }
    request["operation"] = json!("TELEPORT");
    assert_eq!(ask(&admission, "/mutate-pod", &request).await["status"]["code"], 400);
}

/// The namespace is in no cache and in no file: the answer comes all the same, and nothing is injected by
/// a selector that cannot be shown to match.
#[tokio::test]
async fn an_unknown_namespace_is_looked_up_and_then_counts_as_missing() {
    let mut selective = sidecar_set();
    selective["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "web"}});
    let answer = ask(&with_sidecar_sets("", &[selective]), "/mutate-pod", &create_pod(1)).await;
    assert!(answer["allowed"] == true && answer.get("patch").is_none(), "{answer}");
}

#[tokio::test]
async fn nothing_is_decided_from_caches_that_are_not_there() {
    let index = Index::awaiting(World::new(api::DEFAULT_NAMESPACE), [Watched::SidecarSet]);
    let admission = with_index("", index, Lookup::files(Objects::default()));
    for (path, request) in [
        ("/mutate-pod", create_pod(1)),
        ("/validate-apps-kruise-io-sidecarset", create_sidecar_set(&sidecar_set())),
    ] {
        let answer = ask(&admission, path, &request).await;
        assert_eq!((answer["allowed"].clone(), answer["status"]["code"].clone()), (json!(false), json!(503)));
    }
    let defaulted =
        ask(&admission, "/mutate-apps-kruise-io-sidecarset", &create_sidecar_set(&sidecar_set())).await;
    assert_eq!(defaulted["allowed"], true);
    // A kind that was absent may be there by now.
    admission.index.set_cache_state(Watched::SidecarSet, CacheState::Absent);
    let answer = ask(&admission, "/mutate-pod", &create_pod(1)).await;
    assert_eq!(answer["status"]["code"], 503);
    assert!(answer["status"]["message"].as_str().unwrap().contains("no such kind"), "{answer}");
    admission.index.set_cache_state(Watched::SidecarSet, CacheState::Synced);
    assert_eq!(ask(&admission, "/mutate-pod", &create_pod(1)).await["allowed"], true);
}

#[tokio::test]
async fn a_defaulted_sidecarset_is_valid() {
    let admission = admission("", "");
    let request = create_sidecar_set(&sidecar_set());
    let stored = patched(&request, &ask(&admission, "/mutate-apps-kruise-io-sidecarset", &request).await);
    assert!(stored["metadata"]["annotations"]["kruise.io/sidecarset-hash"].is_string());
    let answer = ask(&admission, "/validate-apps-kruise-io-sidecarset", &create_sidecar_set(&stored)).await;
    assert_eq!(answer["allowed"], true, "{answer}");
}

#[tokio::test]
async fn sidecarsets_that_break_a_rule_are_refused_with_code_500() {
    let admission = admission("", "");
    let mut broken = sidecar_set();
    broken["spec"]["selector"] = json!(null);
    let answer = ask(&admission, "/validate-apps-kruise-io-sidecarset", &create_sidecar_set(&broken)).await;
    assert_eq!(answer["status"]["code"], 500);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.contains("no selector defined for SidecarSet"), "{message}");
}

#[tokio::test]
async fn sidecarsets_of_an_unknown_version_are_refused_with_code_400() {
    let mut request = create_sidecar_set(&sidecar_set());
    request["resource"]["version"] = json!("v9");
    let answer = ask(&admission("", ""), "/mutate-apps-kruise-io-sidecarset", &request).await;
    assert_eq!(answer["status"]["code"], 400, "{answer}");
}
