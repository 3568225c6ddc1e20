//! What in a namespace carries the label of deletion protection.

use std::time::Duration;

use api::Raw;
use futures::future::join_all;
use kinds::deletion_protection::{NAMESPACED, Namespaced};

use super::{JSON, Live, Lookup, Source};
use cluster::list::List;
use cluster::resource::Resource;

/// Longest time for all lists: what they find only serves a warning.
const TIMEOUT: Duration = Duration::from_secs(1);
/// `policy.kruise.io/delete-protection in (Always,Cascading)`, and no more objects than can be reported.
const QUERY: &str =
    "labelSelector=policy.kruise.io%2Fdelete-protection%20in%20%28Always%2CCascading%29&limit=20";

impl Lookup {
    /// The objects of `namespace` that are labelled with deletion protection, as far as they could be
    /// found in a second: a kind that can't be listed is left out.
    pub async fn protected_objects(&self, namespace: &str) -> Vec<(Namespaced, Raw)> {
        let lists = match &*self.0 {
            Source::Cluster(live) => {
                join_all(NAMESPACED.map(|kind| live.protected_objects(kind, namespace))).await
            }
            Source::Files(objects) => {
                let of = |kind: Namespaced| {
                    let here = objects.iter().filter(move |object| {
                        object.kind == kind.kind.name()
                            && object.group() == kind.group
                            && object.namespace == namespace
                    });
                    here.filter_map(move |object| Some((kind, serde_json::from_str(&object.json).ok()?)))
                };
                NAMESPACED.map(|kind| of(kind).collect()).into()
            }
        };
        lists.concat()
    }
}

impl Live {
    async fn protected_objects(&self, kind: Namespaced, namespace: &str) -> Vec<(Namespaced, Raw)> {
        let Namespaced { group, version, plural, .. } = kind;
        let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = Resource::new(&version, plural, kind.kind.name());
        let path = resource.namespaced(namespace).query(QUERY);
        match tokio::time::timeout(TIMEOUT, self.get::<List<Raw>>(&path, JSON)).await {
            Ok(Ok(list)) => list.items.into_iter().map(|object| (kind, object)).collect(),
            Ok(Err(error)) => {
                tracing::debug!(namespace, plural, %error, "protected objects were not listed");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }
}
