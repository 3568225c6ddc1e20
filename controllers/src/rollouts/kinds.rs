//! How the API server serves a kind: those that releases usually touch are known, others are asked for.

use api::crds::{self, Scope};
use api::kinds::{batchrelease, rollout, trafficrouting};
use cluster::discovery::Discovery;
use cluster::resource::{CONFIG_MAPS, MUTATING_WEBHOOKS, PODS, Path, REVISIONS, Resource, SERVICES};
use cluster::{ApiError, ErrorReason};
use kube::Client;
use rollouts::object::{ObjectName, group};
use values::served::Served;

pub(super) const ROLLOUTS: Resource<'_> = Resource::new(rollout::API_VERSION, rollout::PLURAL, rollout::KIND);
pub(super) const BATCH_RELEASES: Resource<'_> =
    Resource::new(batchrelease::API_VERSION, batchrelease::PLURAL, batchrelease::KIND);
pub(super) const TRAFFIC_ROUTINGS: Resource<'_> =
    Resource::new(trafficrouting::API_VERSION, trafficrouting::PLURAL, trafficrouting::KIND);

/// The kinds of which all objects are kept.
pub(super) const OWN_KINDS: [Resource<'_>; 3] = [ROLLOUTS, BATCH_RELEASES, TRAFFIC_ROUTINGS];

/// Kinds of Kubernetes in namespaces.
const NAMESPACED: [Resource<'_>; 9] = [
    CONFIG_MAPS,
    PODS,
    SERVICES,
    REVISIONS,
    Resource::new("apps/v1", "daemonsets", "DaemonSet"),
    Resource::new("apps/v1", "deployments", "Deployment"),
    Resource::new("apps/v1", "replicasets", "ReplicaSet"),
    Resource::new("apps/v1", "statefulsets", "StatefulSet"),
    Resource::new("networking.k8s.io/v1", "ingresses", "Ingress"),
];

/// How kinds are served.
#[derive(Default)]
pub(super) struct Kinds(Discovery);

impl Kinds {
    /// How a kind is served; `None` where it is not.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn served(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Served>, ApiError> {
        if let Some(served) = Self::known(api_version, kind) {
            return Ok(Some(served));
        }
        match self.0.served(client, api_version, kind).await {
            Ok(served) => Ok(Some(served)),
            Err(error) if error.reason() == ErrorReason::Refused => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The path of an object, or of the collection where the name is empty; `None` where its kind is not served.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn path(&self, client: &Client, name: &ObjectName) -> Result<Option<Path>, ApiError> {
        let ObjectName { api_version, kind, namespace, name } = name;
        let served = self.served(client, api_version, kind).await?;
        Ok(served.map(|served| {
            let namespace = if served.namespaced { namespace } else { "" };
            let collection = Resource::new(&served.api_version, &served.plural, kind).namespaced(namespace);
            if name.is_empty() { collection } else { collection.name(name) }
        }))
    }

    /// How one of the usual kinds is served.
    pub(super) fn known(api_version: &str, kind: &str) -> Option<Served> {
        let is_meant =
            |resource: &&Resource<'_>| resource.api_version == api_version && resource.kind == kind;
        let built_in = NAMESPACED.iter().find(is_meant).map(|resource| (resource.plural, true));
        let webhooks = Some(&MUTATING_WEBHOOKS).filter(is_meant).map(|resource| (resource.plural, false));
        let own = || {
            let definition = crds::find(group(api_version), kind)?;
            let version = api::group_and_version(api_version).1;
            let is_served = definition.versions.contains(&version);
            is_served.then_some((definition.plural, definition.scope == Scope::Namespaced))
        };
        let (plural, namespaced) = built_in.or(webhooks).or_else(own)?;
        let [api_version, plural] = [api_version, plural].map(str::to_owned);
        Some(Served { api_version, plural, namespaced, has_scale: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    async fn paths(kinds: &Kinds, client: &Client, named: &[(&str, &str, &str)]) -> Vec<Option<String>> {
        let mut paths = Vec::new();
        for (api_version, kind, name) in named {
            let name = ObjectName::new(api_version, kind, "shop", name);
            paths.push(kinds.path(client, &name).await.unwrap().map(|path| path.to_string()));
        }
        paths
    }

    #[tokio::test]
    async fn usual_kinds_are_known_and_others_are_asked_for() {
        let list = r#"{"resources":[{"name":"httproutes","kind":"HTTPRoute","namespaced":true}]}"#;
        let (client, requests) = fake::api_server(|request| match request.path {
            "/apis/gateway.networking.k8s.io/v1" => (200, list.to_owned()),
            _ => (404, fake::status(404)),
        });
        let kinds = Kinds::default();
        let named = [
            ("v1", "Service", "web"),
            ("apps.kruise.io/v1beta1", "CloneSet", "web"),
            ("rollouts.kruise.io/v1beta1", "BatchRelease", ""),
            ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "w"),
        ];
        let found = paths(&kinds, &client, &named).await;
        let expected = [
            "/api/v1/namespaces/shop/services/web",
            "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web",
            "/apis/rollouts.kruise.io/v1beta1/namespaces/shop/batchreleases",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/w",
        ];
        assert_eq!(found, expected.map(|path| Some(path.to_owned())));
        assert!(requests.lock().unwrap().is_empty());
        let named = [("gateway.networking.k8s.io/v1", "HTTPRoute", "web"), ("example.com/v1", "Thing", "a")];
        let found = paths(&kinds, &client, &named).await;
        let route = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web";
        assert_eq!(found, [Some(route.to_owned()), None]);
    }
}
