//! Kinds of objects, and the paths of the API server at which their objects are.
//!
//! ```
//! use cluster::resource::PODS;
//! let path = PODS.namespaced("shop").name("web-0").subresource("status");
//! assert_eq!(&*path, "/api/v1/namespaces/shop/pods/web-0/status");
//! ```
//!
//! Objects may name others as they like, such as `../secrets/x`. A path keeps each name in a segment of its own, and
//! what can be no name is asked for by nobody (docs/behaviour/server.md#names-in-paths).

use std::fmt::{self, Write as _};
use std::ops::Deref;

use kube::core::{ApiResource, GroupVersionKind};

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
/// PodTemplates.
pub const POD_TEMPLATES: Resource<'_> = Resource::new("v1", "podtemplates", "PodTemplate");
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
/// WorkloadSpreads.
pub const SPREADS: Resource<'_> = {
    use api::kinds::workloadspread::{API_VERSION, KIND, PLURAL};
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
/// SubjectAccessReviews.
pub const SUBJECT_ACCESS_REVIEWS: Resource<'_> =
    Resource::new("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview");
/// Leases.
pub const LEASES: Resource<'_> = Resource::new("coordination.k8s.io/v1", "leases", "Lease");

/// MutatingWebhookConfigurations.
pub const MUTATING_WEBHOOKS: Resource<'_> = Resource::new(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
);
/// ValidatingWebhookConfigurations.
pub const VALIDATING_WEBHOOKS: Resource<'_> = Resource::new(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
);

/// The longest name of an object.
pub(crate) const LONGEST_NAME: usize = 253;

impl<'a> Resource<'a> {
    /// The kind `kind` of this API version, which paths call `plural`.
    pub const fn new(api_version: &'a str, plural: &'a str, kind: &'a str) -> Self {
        Self { api_version, plural, kind }
    }

    /// All objects of a cluster-scoped kind, or those of all namespaces.
    pub fn all(self) -> Path {
        self.root().name(self.plural)
    }

    /// The objects of a namespace. An empty name means a cluster-scoped kind.
    pub fn namespaced(self, namespace: &str) -> Path {
        if namespace.is_empty() {
            return self.all();
        }
        self.root().name("namespaces").name(namespace).name(self.plural)
    }

    /// The kind as kube knows it.
    pub fn api_resource(self) -> ApiResource {
        let (group, version) = api::group_and_version(self.api_version);
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.kind), self.plural)
    }

    fn root(self) -> Path {
        version(self.api_version)
    }
}

/// Where the API server reports this group, by all of its versions.
pub(crate) fn group(name: &str) -> Path {
    Path("/apis".to_owned()).name(name)
}

/// Where the API server reports the kinds of this group and version.
pub(crate) fn version(api_version: &str) -> Path {
    match api_version.split_once('/') {
        Some((name, version)) => group(name).name(version),
        None => Path("/api".to_owned()).name(api_version),
    }
}

/// Percent-encodes what would end a segment of a path or a part of a query.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Whether there can be something at `path`. The API server decodes a path before it reads its segments, so encoding
/// alone would let `../secrets/x` through; and an object without a name is the collection.
pub(crate) fn names_something(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path.split('/').skip(1).all(|segment| {
        !matches!(segment, "" | "." | "..") && !segment.contains("%2F") && segment.len() <= LONGEST_NAME
    })
}

/// A path of the API server: a collection, an object or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(String);

impl Path {
    /// The object of this name in the collection.
    #[must_use]
    pub fn name(&self, name: &str) -> Self {
        Self(format!("{self}/{}", encoded(name)))
    }

    /// A part of the object, such as `status`; an empty one means the object itself.
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
    fn a_name_stays_in_its_segment() {
        let long = "a".repeat(254);
        for (name, segment, is_name) in [
            ("web", "web", true),
            ("system:node:a", "system:node:a", true),
            ("a?watch=true", "a%3Fwatch%3Dtrue", true),
            ("a#b", "a%23b", true),
            ("a%2Fb", "a%252Fb", true),
            ("\u{e9} \n", "%C3%A9%20%0A", true),
            ("..a", "..a", true),
            ("../secrets/x", "..%2Fsecrets%2Fx", false),
            ("a/status", "a%2Fstatus", false),
            ("/", "%2F", false),
            (".", ".", false),
            ("..", "..", false),
            ("", "", false),
            (&long, &long, false),
        ] {
            let by_name = PODS.namespaced("shop").name(name);
            assert_eq!(&*by_name, format!("/api/v1/namespaces/shop/pods/{segment}"));
            let plurals = Resource::new("v1", name, "Kind");
            let group_and_version = (format!("{name}/v1"), format!("example.com/{name}"));
            let mut paths = vec![
                by_name.subresource("status").query("a=/../"),
                plurals.namespaced("shop").name("web"),
                version(name),
                group(name),
                version(&group_and_version.1),
                Resource::new(&group_and_version.1, "webs", "Web").all(),
            ];
            // Without a namespace a path leads to objects of the cluster, and with a slash a group has another end.
            if !name.is_empty() {
                paths.push(PODS.namespaced(name).name("web"));
            }
            paths.extend((!name.contains('/')).then(|| version(&group_and_version.0)));
            for path in paths {
                let is_version_of_group = name == "a/status" && *path == *version(name);
                assert_eq!(names_something(&path), is_name || is_version_of_group, "{path}");
                path.parse::<http::Uri>().unwrap();
            }
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
