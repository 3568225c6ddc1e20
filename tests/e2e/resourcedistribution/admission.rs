//! What a ResourceDistribution may say.

use serde_json::{Value, json};

use super::*;
use crate::support::{denied, gated};

fn names(names: &[&str]) -> Value {
    list(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

/// Scenarios 13, 14, 16 and 18.
#[tokio::test]
async fn only_what_can_be_distributed_is_accepted() {
    let town = Town::open(0, &[]).await;
    let answer = async |resource: Value, targets: Value| {
        create(&town.client, distribution(&town.name, resource, targets), "?dryRun=All").await
    };
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment")] {
        let text = refused(&answer(object(api_version, kind, "a").build(), json!({})).await);
        assert!(
            text.ends_with("unknown or unsupported resource GroupKind, only support [Secret ConfigMap]"),
            "{text}"
        );
    }
    let secret = || object("v1", "Secret", "a");
    for wrong in [
        secret().with("/data", json!({"a": "not Base64!"})),
        config_map("a", "no/key", "1"),
        config_map("A_Name", "a", "1"),
        config_map("a", "a", "1").with("/data", "text"),
    ] {
        let text = refused(&answer(wrong.build(), json!({})).await);
        assert!(text.contains("spec.resource is invalid: "), "{text}");
    }
    let mut unnamed = secret().build();
    unnamed["metadata"] = json!({"generateName": "a-"});
    assert!(
        refused(&answer(unnamed, json!({})).await).starts_with("spec.resource.metadata.name: Required value")
    );

    let valid = town.config_map().with("/items", json!([{"a": "b"}]));
    let both = json!({"includedNamespaces": names(&["ns-1"]), "excludedNamespaces": names(&["ns-1"])});
    assert!(refused(&answer(valid.clone().build(), both).await).contains("ambiguous targets"));
    for name in ["INVALID", ""] {
        let text =
            refused(&answer(valid.clone().build(), json!({"includedNamespaces": names(&[name])})).await);
        assert!(text.starts_with("spec.targets.includedNamespaces: Invalid value: "), "{text}");
    }
    let elsewhere = valid.in_namespace("other");
    for targets in [json!({}), json!({"includedNamespaces": names(&["kube-system"])})] {
        let (code, answer) = answer(elsewhere.clone().build(), targets).await;
        assert_eq!(code, 201, "{answer:#}");
    }
}

/// Scenario 15.
#[tokio::test]
async fn the_resource_stays_the_same_object() {
    let town = Town::open(0, &[]).await;
    let distribution = town.distribute(town.config_map(), json!({})).await;
    for change in
        [json!({"metadata": {"name": "other"}}), json!({"kind": "Secret"}), json!({"apiVersion": "v2"})]
    {
        let answer = distribution.try_patch(&json!({"spec": {"resource": change}})).await;
        let text = refused(&answer);
        assert!(text.contains("resource apiVersion, kind, and name are immutable"), "{text}");
    }
    distribution.patch(&json!({"spec": {"resource": {"data": {"a": "2"}}}})).await;
}

/// What the API server would not let us create is refused.
#[tokio::test]
async fn a_resource_that_must_not_be_created_is_refused() {
    let town = Town::open(0, &[]).await;
    let policy = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", &town.name);
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let expression = format!("object.metadata.name != '{}'", town.name);
    Stored::create(
        &town.client,
        policy.with(
            "/spec",
            json!({
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": "not this one", "reason": "Forbidden"}],
            }),
        ),
    )
    .await;
    let binding = object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", &town.name);
    Stored::create(
        &town.client,
        binding.with("/spec", json!({"policyName": town.name, "validationActions": ["Deny"]})),
    )
    .await;
    let text = wait_for("the policy to be in force", async || {
        let new = distribution(&town.name, town.config_map(), json!({}));
        match create(&town.client, new, "?dryRun=All").await {
            answer @ (422, _) => Ok(refused(&answer)),
            (_, answer) => Err(answer),
        }
    })
    .await;
    assert!(text.starts_with("spec.resource: Forbidden: spec.resource is forbidden: "), "{text}");
}

/// Scenario 21, on an API server where the gate is off. The rest of it is a matter of the webhook alone.
#[tokio::test]
async fn without_the_gate_none_is_accepted() {
    let client = gated().await.server.client();
    let new = distribution("gate-off", config_map("gate-off", "a", "1"), json!({}));
    let off = "feature-gate ResourceDistributionGate is not enabled";
    assert_eq!(create(&client, new, "").await, denied("vresourcedistribution.kb.io", 403, off));
}
