//! The objects of any kind in a namespace.

use cluster::list::{ListError, list_all};
use cluster::resource::{Resource, encoded};
use serde_json::Value;
use values::selector::Selector;

use super::owners::in_time;
use super::{Live, Lookup, LookupError, Source};

impl Lookup {
    /// The objects of a kind in `namespace` that have labels: by a selector as requests have it, such as `app=web`, which
    /// may be empty. Of the version only the group matters.
    ///
    /// # Errors
    /// The API server does not serve the kind, did not answer in time, or refuses: which objects exist is not known.
    pub async fn list(
        &self,
        namespace: &str,
        (api_version, kind): (&str, &str),
        selector: &str,
    ) -> Result<Vec<Value>, LookupError> {
        match &*self.0 {
            Source::Cluster(live) => in_time(live.list(namespace, (api_version, kind), selector)).await,
            Source::Files(objects) => {
                let selector = Selector::parse(selector).map_err(|error| LookupError(error.to_string()))?;
                let (group, _) = api::group_and_version(api_version);
                let here = objects.iter().filter(|object| {
                    object.kind == kind
                        && object.group() == group
                        && (object.namespace == namespace || object.namespace.is_empty())
                });
                let read = here.filter_map(|object| serde_json::from_str(&object.json).ok());
                Ok(read.filter(|object| selector.matches(object)).collect())
            }
        }
    }
}

impl Live {
    async fn list(
        &self,
        namespace: &str,
        (api_version, kind): (&str, &str),
        selector: &str,
    ) -> Result<Vec<Value>, String> {
        let served = self.discovery.served(&self.client, api_version, kind).await;
        let served = served.map_err(|error| error.to_string())?;
        let mut path = Resource::new(&served.api_version, &served.plural, kind).namespaced(namespace);
        if !selector.is_empty() {
            path = path.query(format_args!("labelSelector={}", encoded(selector)));
        }
        let mut objects = Vec::new();
        let listed = list_all(&self.client, &path, |object| objects.push(object)).await;
        listed.map(|()| objects).map_err(|error| match error {
            ListError::Unread { source, .. } => source.to_string(),
            ListError::NotUnderstood { .. } => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use kit::double::{api_server, status};
    use serde_json::json;

    use super::*;
    use crate::files::Objects;

    const RINGS: (&str, &str) = ("example.com/v9", "Ring");

    fn names(objects: &[Value]) -> Vec<&str> {
        objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_in_the_version_that_is_served() {
        let served =
            json!({"resources": [{"name": "rings", "kind": "Ring", "namespaced": true}]}).to_string();
        let group = json!({"versions": [{"groupVersion": "example.com/v1"}]}).to_string();
        let page = |name: &str, next: &str| {
            json!({"metadata": {"continue": next}, "items": [{"metadata": {"name": name}}]}).to_string()
        };
        let (client, requests) = api_server(move |request| match request.path {
            "/apis/example.com" => (200, group.clone()),
            "/apis/example.com/v1" => (200, served.clone()),
            path if path.ends_with("limit=500") => (200, page("a", "more")),
            path if path.ends_with("&continue=more") => (200, page("b", "")),
            _ => (404, status(404)),
        });
        let found = Lookup::cluster(client).list("shop", RINGS, "app in (a,b)").await.unwrap();
        assert_eq!(names(&found), ["a", "b"]);
        let asked =
            "GET /apis/example.com/v1/namespaces/shop/rings?labelSelector=app%20in%20%28a%2Cb%29&limit=500 ";
        assert!(requests.lock().unwrap().iter().any(|request| request == asked), "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_not_be_listed_is_not_empty() {
        let (client, _) = api_server(|_| (403, status(403)));
        assert!(Lookup::cluster(client).list("shop", RINGS, "").await.is_err());
        assert!(Lookup::cluster(kit::double::silent()).list("shop", RINGS, "").await.is_err());
    }

    #[tokio::test]
    async fn files_are_listed_by_group_namespace_and_labels() {
        let ring = |group: &str, name: &str, namespace: &str, app: &str| {
            json!({"apiVersion": format!("{group}/v1"), "kind": "Ring",
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}}})
        };
        let mut objects = Objects::default();
        for object in [
            ring("example.com", "a", "shop", "web"),
            ring("example.com", "b", "", "web"),
            ring("example.com", "c", "shop", "db"),
            ring("example.com", "d", "bank", "web"),
            ring("example.org", "e", "shop", "web"),
        ] {
            objects.parse("test", &object.to_string()).unwrap();
        }
        let lookup = Lookup::files(objects);
        let found = lookup.list("shop", RINGS, "app=web").await.unwrap();
        assert_eq!(names(&found), ["a", "b"]);
        assert_eq!(lookup.list("shop", RINGS, "").await.unwrap().len(), 3);
        assert!(lookup.list("shop", RINGS, "app in").await.is_err());
    }
}
