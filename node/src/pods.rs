//! The Pods of the node: watched once for all that ask for them, and of each only what some rule reads.

use cluster::follow::{follow_patiently, readable};
use cluster::resource::PODS;
use cluster::store::{Identity, Store};
use cluster::watched::Key;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use pod::observed::{ObservedPod, PodMetadata};

/// The Pods.
pub type Pods = Store<ObservedPod>;

/// No Pod is known yet.
pub fn pods() -> Pods {
    Store::new(|pod| {
        let PodMetadata { namespace, name, uid, resource_version, .. } = &pod.metadata;
        Identity { namespace, name, uid, resource_version }
    })
}

/// Namespace and name.
pub(crate) fn key(pod: &ObservedPod) -> Key {
    (pod.metadata.namespace.to_string(), pod.metadata.name.to_string())
}

/// Keeps `pods` current by a watch of those on `node`. Never returns.
pub async fn watch(client: Client, node: &str, pods: &Pods) {
    let config = Config::default().fields(&format!("spec.nodeName={node}"));
    let stored = pods.sifted(|object| readable(object, ObservedPod::read));
    follow_patiently(Api::all_with(client, &PODS.api_resource()), config, &stored).await;
}
