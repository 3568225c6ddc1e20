//! The configurations of Rollouts, and what an API server makes of their conditions. Nobody answers here: what concerns a
//! release of a workload that is known to have a Rollout is refused, and everything else passes.

use cluster::write::{PatchKind, patch};
use kit::builders::{Object, deployment, object, stateful_set, workload};

use super::*;

const LABEL: &str = "rollouts.kruise.io/workload-type";

/// A kind of somebody else, whose objects have the fields of a StatefulSet.
fn rings() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rings.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Ring", "plural": "rings", "singular": "ring", "listKind": "RingList"}}})
}

impl Testbed {
    /// An API server that has the definitions of Rollouts too, and a kind of somebody else.
    async fn with_rollouts() -> Self {
        let bed = Self::start().await;
        let mut definitions: Vec<String> =
            api::crds::ROLLOUTS.iter().map(|definition| definition.yaml.to_owned()).collect();
        definitions.push(rings().to_string());
        let text = definitions.join("\n---\n");
        bed.server.kubectl_with_input(["create", "-f", "-"], &text).await.success();
        bed.server.wait_established().await;
        bed
    }

    fn with_gate(&self) -> CertificateSettings {
        let mut settings = self.settings();
        settings.gates = settings.gates.with(Feature::Rollouts, true);
        settings
    }

    /// The entries of a configuration of Rollouts; `None` where there is none.
    async fn entries_of_rollouts(&self, kind: ConfigurationKind) -> Option<Vec<String>> {
        let words = ["get", kind.kind(), kind.name(), "--ignore-not-found", "--output=json"];
        let text = self.server.kubectl(words).await.success();
        let object: Value = serde_json::from_str(&text).ok()?;
        let webhooks = object["webhooks"].as_array().cloned().unwrap_or_default();
        Some(webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect())
    }

    /// Whether a change of an object passes; only the entries of Rollouts may refuse it.
    async fn passes(&self, path: &str, change: &Value) -> bool {
        match patch(&self.client, path, PatchKind::Merge, change.to_string()).await {
            Ok(_) => true,
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("failed calling webhook \"mrollout"), "{error}");
                false
            }
        }
    }
}

fn path(kind: &str, name: &str) -> String {
    let group = if kind == "rings" { "example.com/v1" } else { "apps/v1" };
    format!("/apis/{group}/namespaces/default/{kind}/{name}")
}

fn template(value: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"version": value}}}}})
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_concerns_no_release_never_calls() {
    let bed = Testbed::with_rollouts().await;
    let mut replica = bed.replica(bed.with_gate());
    replica.registered().await;
    for kind in [ConfigurationKind::MutatingRollouts, ConfigurationKind::ValidatingRollouts] {
        assert_eq!(bed.entries_of_rollouts(kind).await.unwrap(), entries_of(kind, &bed.with_gate().gates));
    }
    let converted = api::crds::ALL.iter().chain(api::crds::ROLLOUTS).filter(|crd| crd.converts_by_webhook);
    assert_eq!(bed.conversions().await.len(), converted.count());
    bed.assert_published(&bed.bundle().await).await;

    let mut objects = Vec::new();
    for (name, is_known) in [("known", true), ("new", false)] {
        let labelled = |object: Object| if is_known { object.label(LABEL, "deployment") } else { object };
        let with_pods =
            |object: Object| labelled(object.matching("app", "web").container("main", "nginx:1")).build();
        objects.push(with_pods(deployment(name).replicas(2)));
        objects.push(with_pods(stateful_set(name)));
        objects.push(with_pods(workload("apps/v1", "DaemonSet", name)));
        let ring = object("example.com/v1", "Ring", name).with("/spec/template/metadata/labels/a", "b");
        objects.push(labelled(ring).build());
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    bed.server.kubectl_with_input(["create", "-f", "-"], &list).await.success();
    let [known, new] = ["known", "new"].map(|name| path("deployments", name));
    wait_for("the API server to follow", async || {
        if bed.passes(&known, &template("0")).await { Err("a template passed") } else { Ok(()) }
    })
    .await;

    for (change, passes) in [
        (template("1"), false),
        (json!({"spec": {"replicas": 3}}), true),
        (json!({"spec": {"paused": true}}), true),
        (json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}), true),
        (json!({"metadata": {"labels": {"a": "b"}}}), true),
        (annotated("rollouts.kruise.io/rollout-id", "1"), false),
        (json!({"metadata": {"labels": {"rollouts.kruise.io/rollout-id": "1"}}}), false),
        // A release is running.
        (annotated("rollouts.kruise.io/in-progressing", "{}"), true),
        (json!({"spec": {"replicas": 4}}), true),
        (json!({"spec": {"paused": false}}), false),
        (json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}), false),
        (annotated("other", "1"), true),
        // It is over, and its annotation goes.
        (json!({"metadata": {"annotations": {"rollouts.kruise.io/in-progressing": null}}}), true),
        (json!({"spec": {"paused": false}}), true),
    ] {
        assert_eq!(bed.passes(&known, &change).await, passes, "{change}");
        assert!(bed.passes(&new, &change).await, "{change}");
    }
    for kind in ["statefulsets", "daemonsets", "rings"] {
        let [known, new] = ["known", "new"].map(|name| path(kind, name));
        assert!(!bed.passes(&known, &template("1")).await, "{kind}");
        assert!(bed.passes(&known, &json!({"metadata": {"labels": {"a": "b"}}})).await, "{kind}");
        assert!(bed.passes(&new, &template("1")).await, "{kind}");
    }
    assert!(bed.passes(&format!("{known}/scale"), &json!({"spec": {"replicas": 5}})).await);
    // Who takes the label away does not get rid of the release.
    let mut unlabelled = template("2");
    unlabelled["metadata"] = json!({"labels": {LABEL: null}});
    assert!(!bed.passes(&known, &unlabelled).await);

    drop(replica);
    with_the_gate_off_everything_passes(&bed).await;
}

async fn with_the_gate_off_everything_passes(bed: &Testbed) {
    let mut replica = bed.replica(bed.settings());
    replica.registered().await;
    for kind in [ConfigurationKind::MutatingRollouts, ConfigurationKind::ValidatingRollouts] {
        assert_eq!(bed.entries_of_rollouts(kind).await, Some(Vec::new()));
    }
    wait_for("the API server to follow", async || {
        if bed.passes(&path("deployments", "known"), &template("3")).await {
            Ok(())
        } else {
            Err("still refused")
        }
    })
    .await;
    // What others registered there is not ours to take.
    let foreign = json!({"webhooks": [{"name": "mine.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "other", "name": "other", "path": "/mutate-apps-v1-deployment"}}}]});
    let kind = ConfigurationKind::MutatingRollouts;
    let patch = foreign.to_string();
    bed.server.kubectl(["patch", kind.kind(), kind.name(), "--type=merge", "-p", &patch]).await.success();
    drop(replica);
    let mut replica = bed.replica(bed.settings());
    replica.registered().await;
    assert_eq!(bed.entries_of_rollouts(kind).await, Some(vec!["mine.example.com".to_owned()]));
}
