//! What a newer Kubernetes knows of Pods passes, and is stored as it was sent
//! (docs/behaviour/pod-template.md#validation-of-templates).

use api::schema::demand_of_spec;
use serde_json::{Value, json};

use crate::required::{admitted, specs};
use crate::support::admission;

/// Adds to every container, Pod spec and subset what Kubernetes 1.32 does not know.
fn renew(value: &mut Value) {
    let container = |name: &str, policy: &str| {
        json!({"name": name, "image": "a:1", "restartPolicy": policy,
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "Later"}]})
    };
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(renew),
        Value::Object(members) => {
            members.values_mut().for_each(renew);
            let tolerations =
                json!([{"key": "cores", "operator": "Gt", "value": "8", "effect": "NoSchedule"}]);
            if members.contains_key("subsets") {
                let term = json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]});
                members["subsets"][0]["tolerations"] = tolerations;
                members["subsets"][0]["nodeSelectorTerm"] = term;
            } else if let Some(containers) = members.get_mut("containers").and_then(Value::as_array_mut) {
                let mut other = container("other", "Never");
                other["restartPolicyRules"] =
                    json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
                other["env"] = json!([{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "A"}}}]);
                other["imagePullPolicy"] = json!("IfNewer");
                other["terminationMessagePolicy"] = json!("Both");
                containers.push(other);
                let mut init = vec![container("once", "Never")];
                // What a Pod has alone: native sidecars of a SidecarSet are not updated.
                if members.contains_key("restartPolicy") {
                    init.push(container("proxy", "Always"));
                    members.insert("tolerations".to_owned(), tolerations);
                }
                members.insert("initContainers".to_owned(), init.into());
            }
        }
        _ => {}
    }
}

/// All that was sent is there.
fn includes(stored: &Value, sent: &Value) -> bool {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            sent.iter().all(|(name, sent)| stored.get(name).is_some_and(|stored| includes(stored, sent)))
        }
        (Value::Array(stored), Value::Array(sent)) => {
            stored.len() == sent.len() && stored.iter().zip(sent).all(|(stored, sent)| includes(stored, sent))
        }
        (stored, sent) => stored == sent,
    }
}

#[tokio::test]
async fn what_a_newer_kubernetes_knows_stays_as_it_was_sent() {
    let on = admission("", "");
    for kind in [
        "AdvancedCronJob",
        "BroadcastJob",
        "CloneSet",
        "DaemonSet",
        "SidecarSet",
        "StatefulSet",
        "UnitedDeployment",
    ] {
        for version in ["v1alpha1", "v1beta1"] {
            let api_version = format!("apps.kruise.io/{version}");
            let demand = demand_of_spec(kind, &api_version).unwrap();
            for mut spec in specs(kind, version) {
                renew(&mut spec);
                let object = json!({"apiVersion": api_version, "kind": kind,
                    "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
                let stored = admitted(&on, kind, &object, demand).await;
                let stored = stored.unwrap_or_else(|refusal| panic!("{kind} {version}: {refusal}"));
                assert!(includes(&stored["spec"], &spec), "{kind} {version}: {stored}");
            }
        }
    }
}
