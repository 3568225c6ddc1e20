//! Kinds of objects, and the paths of the API server at which their objects are.
//!
//! ```
//! use cluster::resource::PODS;
//! let path = PODS.namespaced("shop").name("web-0").subresource("status");
//! assert_eq!(&*path, "/api/v1/namespaces/shop/pods/web-0/status");
//! ```

use std::fmt;
use std::ops::Deref;

use kube::core::{ApiResource, GroupVersionKind};
use planner::kinds::resourcedistribution::resource::ResourceKind;
use planner::server::registration::ConfigurationKind;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource<'a> {
    /// Group and version, as objects name them; of the core group only the version.
    pub api_version: &'a str,
    /// The name in paths.
    pub plural: &'a str,
    /// The name in objects.
    pub kind: &'a str,
}

/// ConfigMaps.
pub const CONFIG_MAPS: Resource<'_> = Resource::new("v1", "configmaps", "ConfigMap");
/// PersistentVolumeClaims.
pub const CLAIMS: Resource<'_> = Resource::new("v1", "persistentvolumeclaims", "PersistentVolumeClaim");
/// StorageClasses.
pub const STORAGE_CLASSES: Resource<'_> =
    Resource::new("storage.k8s.io/v1", "storageclasses", "StorageClass");
/// Namespaces.
pub const NAMESPACES: Resource<'_> = Resource::new("v1", "namespaces", "Namespace");
/// Nodes.
pub const NODES: Resource<'_> = Resource::new("v1", "nodes", "Node");
/// Pods.
pub const PODS: Resource<'_> = Resource::new("v1", "pods", "Pod");
/// Secrets.
pub const SECRETS: Resource<'_> = Resource::new("v1", "secrets", "Secret");
/// CustomResourceDefinitions.
pub const DEFINITIONS: Resource<'_> =
    Resource::new("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition");
/// ControllerRevisions.
pub const REVISIONS: Resource<'_> = Resource::new("apps/v1", "controllerrevisions", "ControllerRevision");
/// Events.
pub const EVENTS: Resource<'_> = Resource::new("events.k8s.io/v1", "events", "Event");
/// PodUnavailableBudgets.
pub const BUDGETS: Resource<'_> = {
    use api::kinds::podunavailablebudget::{API_VERSION, KIND, PLURAL};
    Resource::new(API_VERSION, PLURAL, KIND)
};
/// NodeImages.
pub const NODE_IMAGES: Resource<'_> = {
    use api::kinds::nodeimage::{API_VERSION, KIND, PLURAL};
    Resource::new(API_VERSION, PLURAL, KIND)
};
/// Services.
pub const SERVICES: Resource<'_> = Resource::new("v1", "services", "Service");
/// TokenReviews.
pub const TOKEN_REVIEWS: Resource<'_> =
    Resource::new("authentication.k8s.io/v1", "tokenreviews", "TokenReview");
/// Leases.
pub const LEASES: Resource<'_> = Resource::new("coordination.k8s.io/v1", "leases", "Lease");

/// The webhook configurations of this kind.
pub fn webhook_configurations(kind: ConfigurationKind) -> Resource<'static> {
    Resource::new("admissionregistration.k8s.io/v1", kind.plural(), kind.kind())
}

/// What ResourceDistributions distribute.
pub fn distributed(kind: ResourceKind) -> Resource<'static> {
    match kind {
        ResourceKind::Secret => SECRETS,
        ResourceKind::ConfigMap => CONFIG_MAPS,
    }
}

impl<'a> Resource<'a> {
    /// The kind `kind` of this API version, which paths call `plural`.
    pub const fn new(api_version: &'a str, plural: &'a str, kind: &'a str) -> Self {
        Self { api_version, plural, kind }
    }

    /// All objects of a cluster-scoped kind, or those of all namespaces.
    pub fn all(self) -> Path {
        Path(format!("{}/{}", self.root(), self.plural))
    }

    /// The objects of a namespace. An empty name stands for a cluster-scoped kind.
    pub fn namespaced(self, namespace: &str) -> Path {
        if namespace.is_empty() {
            return self.all();
        }
        Path(format!("{}/namespaces/{namespace}/{}", self.root(), self.plural))
    }

    /// The kind as kube knows it.
    pub fn api_resource(self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.kind), self.plural)
    }

    fn root(self) -> String {
        let prefix = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{prefix}/{}", self.api_version)
    }
}

/// A path of the API server: a collection, an object or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(String);

impl Path {
    /// The object of this name in the collection.
    #[must_use]
    pub fn name(&self, name: &str) -> Self {
        Self(format!("{self}/{name}"))
    }

    /// A part of the object, such as `status`; an empty one stands for the object itself.
    #[must_use]
    pub fn subresource(&self, part: &str) -> Self {
        if part.is_empty() { self.clone() } else { self.name(part) }
    }

    /// The path with this query, such as `limit=1`.
    #[must_use]
    pub fn query(&self, query: impl fmt::Display) -> Self {
        Self(format!("{self}?{query}"))
    }
}

impl Deref for Path {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        let sets = Resource::new("apps.kruise.io/v1beta1", "clonesets", "CloneSet");
        for (path, expected) in [
            (PODS.all(), "/api/v1/pods"),
            (PODS.namespaced("shop").name("a").subresource(""), "/api/v1/namespaces/shop/pods/a"),
            (NODES.namespaced("").name("a"), "/api/v1/nodes/a"),
            (LEASES.namespaced("a"), "/apis/coordination.k8s.io/v1/namespaces/a/leases"),
            (
                sets.namespaced("shop").name("web").subresource("status"),
                "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web/status",
            ),
            (sets.all().query("limit=1"), "/apis/apps.kruise.io/v1beta1/clonesets?limit=1"),
        ] {
            assert_eq!(&*path, expected);
        }
    }

    #[test]
    fn kube_knows_the_same_kind() {
        let (pods, revisions) = (PODS.api_resource(), REVISIONS.api_resource());
        assert_eq!((pods.api_version.as_str(), pods.plural.as_str()), ("v1", "pods"));
        assert_eq!(
            (revisions.api_version.as_str(), revisions.kind.as_str()),
            ("apps/v1", "ControllerRevision")
        );
    }
}
