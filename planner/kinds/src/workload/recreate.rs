//! ContainerRecreateRequests that controllers make, for sidecars that have to end and for containers that fail their
//! liveness probes. Such a request belongs to its Pod without holding up its deletion, which takes a right on Pods.

use api::kinds::containerrecreaterequest::{API_VERSION, KIND};
use serde::Serialize;

use pod::observed::ObservedPod;

/// A ContainerRecreateRequest to create in the Pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecreateRequest {
    /// Its name.
    pub name: String,
    /// The object's JSON text.
    pub json: String,
}

/// What it asks for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec<'a> {
    pub(crate) pod_name: &'a str,
    pub(crate) containers: Vec<Named<'a>>,
    pub(crate) strategy: Strategy<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_seconds_after_finished: Option<i32>,
}

/// A container.
#[derive(Serialize)]
pub(crate) struct Named<'a> {
    name: &'a str,
}

/// How it is restarted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Strategy<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_policy: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force_recreate: bool,
}

/// The containers of these names.
pub(crate) fn named<'a>(names: &[&'a str]) -> Vec<Named<'a>> {
    names.iter().map(|&name| Named { name }).collect()
}

impl RecreateRequest {
    /// A request of this name for containers of `pod`.
    pub(crate) fn new(pod: &ObservedPod, name: String, spec: Spec<'_>) -> Self {
        let metadata = &pod.metadata;
        let object = Object {
            api_version: API_VERSION,
            kind: KIND,
            metadata: Metadata {
                namespace: &metadata.namespace,
                name: &name,
                owner_references: [Owner {
                    api_version: "v1",
                    kind: "Pod",
                    name: &metadata.name,
                    uid: &metadata.uid,
                    controller: true,
                }],
            },
            spec,
        };
        // Texts, numbers and flags alone: writing them as JSON cannot fail.
        let json = serde_json::to_string(&object).unwrap_or_default();
        Self { name, json }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    namespace: &'a str,
    name: &'a str,
    owner_references: [Owner<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: bool,
}
