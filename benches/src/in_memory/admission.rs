//! Creations pass the mutating webhooks that are registered.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::Shared;
use super::request::{Kind, Request};
use super::write::Refusal;
use crate::load::ask;

/// Their objects pass no webhooks.
const EXEMPT: [&str; 3] = ["kube-system", "kruise-system", "kube-node-lease"];

impl Shared {
    /// The object as the webhooks want it. Rules alone decide which of them are called: where a selector excepts the object,
    /// the answer changes nothing.
    pub(super) async fn admit(&self, request: &Request, mut object: Value) -> Result<Value, Refusal> {
        let Some(address) = self.webhooks.filter(|_| !EXEMPT.contains(&request.namespace.as_str())) else {
            return Ok(object);
        };
        for path in self.paths(request) {
            let review = review(request, &object).to_string();
            let answer = ask(address, &path, review.into()).await.map_err(Refusal::bad)?;
            let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
            let response = &answer["response"];
            if response["allowed"] != true {
                return Err(Refusal::bad(response["status"]["message"].to_string()));
            }
            let Some(patch) = response["patch"].as_str() else { continue };
            let patch = BASE64_STANDARD.decode(patch).expect("a patch is base64");
            let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch is JSON");
            json_patch::patch(&mut object, &patch).expect("a patch fits");
        }
        Ok(object)
    }

    /// Where the creation of such an object is to be reviewed.
    fn paths(&self, request: &Request) -> Vec<String> {
        let kind = Kind::new("admissionregistration.k8s.io", "mutatingwebhookconfigurations");
        let configurations = self.store.keys(&kind).into_iter().filter_map(|key| self.store.get(&kind, &key));
        let configurations =
            configurations.map(|json| serde_json::from_slice(&json).expect("what is stored is an object"));
        let mut paths = Vec::new();
        for configuration in configurations.collect::<Vec<Value>>() {
            for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
                let mut rules = webhook["rules"].as_array().into_iter().flatten();
                if rules.any(|rule| is_for(rule, request)) {
                    paths.extend(webhook["clientConfig"]["service"]["path"].as_str().map(str::to_owned));
                }
            }
        }
        paths
    }
}

fn is_for(rule: &Value, request: &Request) -> bool {
    let holds = |field: &str, wanted: &str| {
        let mut values = rule[field].as_array().into_iter().flatten();
        values.any(|value| value == wanted || value == "*")
    };
    holds("operations", "CREATE")
        && holds("apiGroups", &request.kind.group)
        && holds("apiVersions", &request.version)
        && holds("resources", &request.kind.plural)
}

fn review(request: &Request, object: &Value) -> Value {
    let Request { kind: Kind { group, plural }, version, namespace, .. } = request;
    let kind = json!({"group": group, "version": version, "kind": object["kind"]});
    let resource = json!({"group": group, "version": version, "resource": plural});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "2b9d1c1e-0f6d-4a64-9c55-3f1d5ab0c0de", "operation": "CREATE", "dryRun": request.is_dry_run(),
            "namespace": namespace, "name": object["metadata"]["name"].as_str().unwrap_or_default(),
            "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
            "object": object, "oldObject": null, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}
