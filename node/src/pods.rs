//! The Pods of the node: watched once for all that ask for them, and of each only what some rule reads.

use cluster::follow::follow;
use cluster::resource::PODS;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use pod::observed::ObservedPod;

use crate::known::{Kept, Known};

/// The Pods.
pub type Pods = Known<ObservedPod>;

impl Kept for ObservedPod {
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        Self::read(json)
    }

    fn state(&self) -> (&str, &str) {
        (&self.metadata.uid, &self.metadata.resource_version)
    }
}

/// Keeps `pods` current by a watch of those on `node`. Ends never.
pub async fn watch(client: Client, node: &str, pods: &Pods) {
    let config = Config::default().fields(&format!("spec.nodeName={node}"));
    follow(Api::all_with(client, &PODS.api_resource()), config, pods).await;
}
