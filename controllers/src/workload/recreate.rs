//! Creates the ContainerRecreateRequests that controllers make.

use api::kinds::containerrecreaterequest::{API_VERSION, KIND, PLURAL};
use cluster::resource::Resource;
use cluster::write;
use kinds::workload::recreate::RecreateRequest;
use kube::Client;
use pod::observed::ObservedPod;

use crate::ReconcileError;

/// Creates the request; false where there is one of its name.
///
/// # Errors
/// The API server refuses, or can't be reached.
pub(crate) async fn recreate(
    client: &Client,
    pod: &ObservedPod,
    request: RecreateRequest,
) -> Result<bool, ReconcileError> {
    let requests = Resource::new(API_VERSION, PLURAL, KIND).namespaced(&pod.metadata.namespace);
    match write::create(client, &requests, request.json).await {
        Err(error) if error.is_conflict() => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(true),
    }
}
