//! Shortcuts for objects of any kind as JSON.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, Error, ResourceExt};
use serde_json::Value;

/// The API of a kind such as `kind("apps.kruise.io/v1alpha1", "SidecarSet")`. The plural name is
/// derived from the English word.
pub fn kind(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The objects of a kind in a namespace.
pub fn namespaced(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// The objects of a cluster-wide kind, or those of all namespaces.
pub fn all(client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
    Api::all_with(client.clone(), resource)
}

/// A condition of an object's status; null where it has none of this type.
pub fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// The Pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

/// Creates the object that `manifest` describes (`apiVersion`, `kind`, `metadata.namespace`), and
/// returns it as the API server stored it.
///
/// # Errors
/// What the API server answers, such as the denial of a webhook.
pub async fn create(client: &Client, manifest: impl Into<Value>) -> Result<DynamicObject, Error> {
    post(client, &manifest.into(), &PostParams::default()).await
}

/// [`create`] for a trial: returns what the object would become.
///
/// # Errors
/// As of [`create`].
pub async fn try_create(client: &Client, manifest: impl Into<Value>) -> Result<DynamicObject, Error> {
    post(client, &manifest.into(), &PostParams { dry_run: true, ..PostParams::default() }).await
}

/// Applies an object as `kubectl apply --server-side` does.
///
/// # Errors
/// As of [`create`].
pub async fn apply(client: &Client, manifest: &Value) -> Result<DynamicObject, Error> {
    let (api, object) = described(client, manifest);
    api.patch(&object.name_any(), &PatchParams::apply("kubectl"), &Patch::Apply(manifest)).await
}

async fn post(client: &Client, manifest: &Value, parameters: &PostParams) -> Result<DynamicObject, Error> {
    let (api, object) = described(client, manifest);
    api.create(parameters, &object).await
}

/// The object of a manifest, and where it belongs.
fn described(client: &Client, manifest: &Value) -> (Api<DynamicObject>, DynamicObject) {
    let object: DynamicObject = serde_json::from_value(manifest.clone())
        .unwrap_or_else(|error| panic!("not an object ({error}): {manifest}"));
    let types = object.types.as_ref().unwrap_or_else(|| panic!("neither apiVersion nor kind: {manifest}"));
    let resource = kind(&types.api_version, &types.kind);
    let api = match object.namespace() {
        Some(namespace) => namespaced(client, &resource, &namespace),
        None => all(client, &resource),
    };
    (api, object)
}

/// The text under a key of a Secret.
pub async fn secret_text(client: &Client, namespace: &str, name: &str, key: &str) -> String {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(name).await.unwrap();
    let bytes = secret.data.and_then(|mut data| data.remove(key));
    String::from_utf8(bytes.unwrap_or_else(|| panic!("Secret {name} has no {key}")).0).unwrap()
}
