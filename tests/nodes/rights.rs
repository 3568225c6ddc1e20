//! The chart's roles against what the program asks of the API server (user pain 18).

use std::collections::BTreeSet;
use std::time::Duration;

use kit::builders::pod;
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::site::{NAMESPACE, Site};

/// Group, resource with subresource, verb.
type Right = (String, String, String);

/// Rights that only rare turns of events need, which this test does not bring about: a repeated Event,
/// and a namespace that was made so recently that it is not cached yet.
const RARE: [(&str, &str, &str); 2] = [("events.k8s.io", "events", "patch"), ("", "namespaces", "get")];

fn right(request: &Value) -> Right {
    let reference = &request["objectRef"];
    let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let resource = match reference["subresource"].as_str() {
        Some(subresource) => format!("{}/{subresource}", text("resource")),
        None => text("resource"),
    };
    (text("apiGroup"), resource, request["verb"].as_str().unwrap_or_default().to_owned())
}

/// Rights that roles grant and nobody used. Of a rule about our own kinds one kind stands for all: they
/// are treated alike.
async fn unused(site: &Site, used: &BTreeSet<Right>) -> Vec<Right> {
    let roles = [
        site.get("clusterrole kruise-manager-role").await,
        site.get("clusterrole kruise-certs-role").await,
        site.get(&format!("role kruise-webhook-role -n {NAMESPACE}")).await,
    ];
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut idle = Vec::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        let (groups, resources) = (words(&rule["apiGroups"]), words(&rule["resources"]));
        for verb in words(&rule["verbs"]) {
            let granted: Vec<Right> = resources
                .iter()
                .map(|resource| (groups[0].clone(), resource.clone(), verb.clone()))
                .collect();
            let ours = groups[0].ends_with("kruise.io");
            if ours && granted.iter().any(|right| used.contains(right)) {
                continue;
            }
            idle.extend(granted.into_iter().filter(|right| !used.contains(right)));
        }
    }
    idle.retain(|(group, resource, verb)| {
        !RARE.contains(&(group.as_str(), resource.as_str(), verb.as_str()))
    });
    idle
}

/// Brings a SidecarSet to a new revision, back to the first one, and to a limit of one revision.
async fn roll_back_and_forth(site: &Site, set: &str) {
    let images = |image: &str| json!([{"op": "replace", "path": "/spec/containers/0/image", "value": image}]);
    let limit = json!([{"op": "add", "path": "/spec/revisionHistoryLimit", "value": 1}]);
    for patch in [images("busybox:1.35"), images("busybox:1.36"), limit] {
        let patch = format!("--patch={patch}");
        site.server().kubectl(["patch", "sidecarset", set, "--type=json", &patch]).await.success();
        wait_within(Duration::from_secs(60), "the SidecarSet to be looked at", async || {
            let set = site.get(&format!("sidecarset {set}")).await;
            let observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            if observed { Ok(()) } else { Err(set["status"].clone()) }
        })
        .await;
    }
}

#[tokio::test]
async fn every_right_of_the_chart_is_used_and_none_is_missing() {
    let Some(site) = Site::enter().await else { return };
    // An uninstall takes the rights from replicas that are still draining: that is not counted.
    let earlier = site.audit().len();
    site.install().await;
    let client = site.server().client();
    let namespace = site.namespace_with_sidecars("rights").await;
    let waiting = pod("waiting")
        .in_namespace(&namespace)
        .annotation("apps.kruise.io/container-launch-priority", "Ordered")
        .readiness_gate("KruisePodReady")
        .container("first", "nginx:1.25")
        .container("second", "nginx:1.26")
        .having("env", json!([{"name": "SERVE_PORT", "value": "81"}]));
    objects::create(&client, waiting).await.unwrap();
    site.kubectl(&format!("wait pod/waiting -n {namespace} --for=condition=Ready --timeout=90s"))
        .await
        .success();
    roll_back_and_forth(&site, &format!("set-{namespace}")).await;
    let job = pod("job")
        .in_namespace(&namespace)
        .with("/spec/restartPolicy", "Never")
        .container("main", "busybox:1.36")
        .having("command", json!(["true"]))
        .container("agent", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]))
        .having("env", json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]));
    objects::create(&client, job).await.unwrap();
    // Counted are Pods, and where there are none, claims.
    let empty = site.server().namespace("empty").await;
    for name in [&namespace, &empty] {
        let label = format!("label namespace {name} policy.kruise.io/delete-protection=Cascading");
        site.kubectl(&label).await.success();
    }
    site.kubectl(&format!("delete namespace {namespace}")).await.failure();
    site.kubectl(&format!("delete namespace {empty} --wait=false")).await.success();

    // What the server has to put back.
    site.kubectl("delete mutatingwebhookconfigurations kruise-mutating-webhook-configuration")
        .await
        .success();
    site.kubectl("delete validatingwebhookconfigurations kruise-validating-webhook-configuration")
        .await
        .success();
    site.kubectl(&format!("delete secret kruise-webhook-certs -n {NAMESPACE}")).await.success();
    // Definitions with objects that may be stored in an older version; the next leader rewrites them.
    for kind in ["sidecarsets.apps", "podunavailablebudgets.policy"] {
        let words = ["patch", "crd", &format!("{kind}.kruise.io"), "--subresource=status", "--type=merge"];
        let versions = r#"--patch={"status":{"storedVersions":["v1alpha1","v1beta1"]}}"#;
        site.server().kubectl(words.iter().copied().chain([versions])).await.success();
    }
    let budget = objects::create(
        &client,
        json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
            "metadata": {"name": "budget", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        }),
    );
    budget.await.unwrap();
    site.kubectl(&format!("delete pods --all -n {NAMESPACE} --wait=false")).await.success();

    wait_within(Duration::from_secs(90), "every right to be used", async || {
        let used = site.audit().iter().map(right).collect();
        let idle = unused(&site, &used).await;
        if idle.is_empty() { Ok(()) } else { Err(idle) }
    })
    .await;
    site.wait_registered().await;
    let audit = site.audit();
    let requests = audit.iter().skip(earlier);
    let refused: Vec<Right> =
        requests.filter(|request| request["responseStatus"]["code"] == 403).map(right).collect();
    assert!(refused.is_empty(), "rights are missing: {refused:?}");
}
