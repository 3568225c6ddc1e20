//! The installation that OpenKruise leaves: definitions, registrations, certificates, and who led.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::ApiServer;
use kit::builders::object;
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, NAMESPACE};
use crate::registration::{
    CONFIGURATIONS, DEFINITIONS, authority, foreign_material, get, published, secret_path,
};
use crate::service::SERVICE;
use crate::support::{Stored, call};

const LEASE: &str = "kruise-manager";
const LEADER: &str = "kruise-controller-manager-7d9c8b6f5-x2x4z_0b9f2c1e-7a55-4d0e-9a35-2f7b8f5a1c11";
/// What entries called in releases whose objects had one version.
const OLD_PATHS: [(&str, &str, &str); 2] = [
    ("mcloneset.kb.io", "cloneset", "clonesets"),
    ("muniteddeployment.kb.io", "uniteddeployment", "uniteddeployments"),
];

/// The definitions of releases that had `version` alone, which converted nothing.
pub async fn install_old(server: &ApiServer, version: &str) {
    product::install_with(server, |definition| {
        definition["metadata"]["annotations"] = Value::Null;
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        versions.retain(|one| one["name"] == version);
        versions[0]["storage"] = true.into();
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    })
    .await;
}

/// The definitions of ours, as an upgrade applies them.
pub async fn upgrade(server: &ApiServer) {
    let crds = product::run(&["crds"]).await.success();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    server.kubectl_with_input(apply, &crds).await.success();
    server.wait_established().await;
}

/// The names of definitions that have stored objects in other versions than that of ours.
pub async fn not_rewritten(client: &Client) -> Vec<Value> {
    let definitions = get(client, DEFINITIONS).await;
    let definitions = definitions["items"].as_array().unwrap().iter();
    let of_ours = |one: &&Value| {
        let mut versions = one["spec"]["versions"].as_array().unwrap().iter();
        let storage = versions.find(|version| version["storage"] == true).unwrap();
        one["status"]["storedVersions"] != json!([storage["name"]])
    };
    definitions.filter(of_ours).map(|one| one["metadata"]["name"].clone()).collect()
}

/// The Lease of who leads.
pub async fn lease(client: &Client) -> Value {
    get(client, &format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")).await
}

/// What OpenKruise's manager had written, which nobody renews any more.
pub struct Installation {
    authority: String,
    certificate: Value,
}

impl Installation {
    /// Both configurations with the list in their annotation, the Secret, and a Lease that has ended.
    pub async fn leave(client: &Client) -> Self {
        let material = foreign_material();
        // Of releases that did not know `tls.crt`.
        let data = json!({"ca-cert.pem": STANDARD.encode(&material.authorities), "ca-key.pem": STANDARD.encode(&material.authority_key),
            "cert.pem": STANDARD.encode(&material.certificate), "key.pem": STANDARD.encode(&material.key)});
        let secret = object("v1", "Secret", "kruise-webhook-certs")
            .in_namespace(NAMESPACE)
            .with("/data", data.clone());
        Stored::create(client, secret).await;
        let lease = object("coordination.k8s.io/v1", "Lease", LEASE).in_namespace(NAMESPACE).with(
            "/spec",
            json!({"holderIdentity": LEADER, "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2026-07-01T09:00:00.000000Z", "renewTime": "2026-07-01T10:00:00.000000Z"}),
        );
        Stored::create(client, lease).await;

        let entry = |(name, singular, plural): (&str, &str, &str)| {
            let path = format!("/mutate-apps-kruise-io-v1alpha1-{singular}");
            json!({"name": name, "admissionReviewVersions": ["v1", "v1beta1"], "sideEffects": "None", "failurePolicy": "Fail",
                "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}},
                "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}]})
        };
        let pods = |name: &str, path: &str, operations: &[&str]| {
            json!({"name": name, "admissionReviewVersions": ["v1", "v1beta1"], "sideEffects": "None", "failurePolicy": "Fail",
                "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}},
                "namespaceSelector": {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"]}]})
        };
        let mut mutating: Vec<Value> = OLD_PATHS.map(entry).into();
        mutating.push(pods("mpod.kb.io", "/mutate-pod", &["CREATE"]));
        let validating = vec![pods("vpod.kb.io", "/validate-pod", &["UPDATE", "DELETE"])];
        let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
        for ((path, kind), mut entries) in CONFIGURATIONS.iter().zip(kinds).zip([mutating, validating]) {
            let (collection, name) = path.rsplit_once('/').unwrap();
            let template = Value::from(entries.clone()).to_string();
            for entry in &mut entries {
                entry["clientConfig"]["caBundle"] = data["ca-cert.pem"].clone();
            }
            let manifest = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name, "annotations": {"template": template}}, "webhooks": entries});
            let (code, answer) = call(client, "POST", collection, &manifest).await;
            assert_eq!(code, 201, "{answer:#}");
        }
        Self { authority: authority(client).await, certificate: data["cert.pem"].clone() }
    }

    /// Everything calls Kutter by the certificate that was there, and somebody else leads.
    pub async fn is_taken_over(&self, client: &Client) {
        assert_eq!(published(client).await, self.authority);
        let secret = get(client, &secret_path("kruise-webhook-certs")).await;
        assert_eq!(secret["data"]["cert.pem"], self.certificate);
        let lease = lease(client).await;
        assert_ne!(lease["spec"]["holderIdentity"], LEADER, "{lease:#}");
        assert_eq!(lease["spec"]["leaseTransitions"], 4, "{lease:#}");
        for path in CONFIGURATIONS {
            let configuration = get(client, path).await;
            let entries = configuration["webhooks"].as_array().unwrap().iter();
            let old: Vec<&Value> = entries
                .map(|entry| &entry["clientConfig"]["service"]["path"])
                .filter(|path| path.as_str().unwrap().contains("v1alpha1-cloneset"))
                .collect();
            assert!(old.is_empty(), "{old:?}");
        }
    }
}
