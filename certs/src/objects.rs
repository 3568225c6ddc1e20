//! The objects that publish the bundle, as raw text: the configurations and the definitions.

use std::collections::BTreeMap;

use admission::registration::{
    CHOICES_KEY, Configuration, ConfigurationKind, Definition, Owner, RegistrationError,
};
use api::ROLLOUTS_GROUP;
use api::features::{Feature, FeatureGates};
use cluster::ApiError;
use cluster::events::{about, about_in};
use cluster::resource::{DEFINITIONS, MUTATING_WEBHOOKS, Path, Resource, VALIDATING_WEBHOOKS};
use cluster::write::{self, PatchKind, unless_outdated};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference, Pod};
use kube::Client;
use kube::{Api, ResourceExt};
use thiserror::Error;
use tracing::debug;
use values::json_patch::Patch;

/// Why an object can't be read or written.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// The API server refused, or is out of reach.
    #[error("{kind} {name}: {source}")]
    Api {
        /// The object's kind.
        kind: &'static str,
        /// The object's name.
        name: String,
        /// What went wrong.
        #[source]
        source: ApiError,
    },
    /// The object isn't what it should be.
    #[error(transparent)]
    Unreadable(#[from] RegistrationError),
}

/// Reads and patches; remembers definitions for as long as their version stays.
pub(crate) struct Objects {
    client: Client,
    gates: FeatureGates,
    definitions: BTreeMap<String, (String, Option<Definition>)>,
}

impl ObjectError {
    fn of(kind: &'static str, name: &str, source: impl Into<ApiError>) -> Self {
        Self::Api { kind, name: name.to_owned(), source: source.into() }
    }

    /// The API server knows who asks, and refuses.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source, .. } if source.is_forbidden())
    }
}

impl Objects {
    pub(crate) fn new(client: Client, gates: FeatureGates) -> Self {
        Self { client, gates, definitions: BTreeMap::new() }
    }

    /// The configurations that are published; `None` for one that does not exist. Of the others those that exist, where
    /// something may be left of them: their definitions are there, and we may still read them.
    pub(crate) async fn configurations(
        &self,
    ) -> Result<Vec<(ConfigurationKind, Option<Configuration>)>, ObjectError> {
        let has_rollouts = self.definitions.keys().any(|name| is_of_group(name, ROLLOUTS_GROUP));
        let read = ConfigurationKind::ALL.map(|kind| async move {
            let is_published = kind.is_published(&self.gates);
            if !is_published && !has_rollouts {
                return Ok::<_, ObjectError>(None);
            }
            let path = configurations(kind).name(kind.name());
            let text = match self.get(kind.kind(), kind.name(), &path).await {
                Err(error) if !is_published && error.is_forbidden() => None,
                answer => answer?,
            };
            let configuration = text.as_deref().map(Configuration::parse).transpose()?;
            Ok((is_published || configuration.is_some()).then_some((kind, configuration)))
        });
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// What users chose, as they wrote it; the sentence of the API server where we may not read it.
    pub(crate) async fn choices(
        &self,
        namespace: &str,
    ) -> Result<Result<Option<String>, String>, ObjectError> {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        match maps.get_opt(api::CONFIGURATION_CONFIG_MAP).await {
            Ok(map) => Ok(Ok(map.and_then(|map| map.data?.remove(CHOICES_KEY)))),
            Err(source) => {
                let error = ObjectError::of("ConfigMap", api::CONFIGURATION_CONFIG_MAP, source);
                // Roles may be older than this build.
                if error.is_forbidden() { Ok(Err(error.to_string())) } else { Err(error) }
            }
        }
    }

    /// Brings the definitions up to date with the versions that the watch saw. A schema is large:
    /// only what changed is read, and only what publishes is kept.
    pub(crate) async fn refresh(&mut self, versions: &BTreeMap<String, String>) -> Result<(), ObjectError> {
        self.definitions.retain(|name, (version, _)| versions.get(name) == Some(version));
        let missing = versions.iter().filter(|(name, _)| !self.definitions.contains_key(*name));
        let this = &*self;
        let read = try_join_all(missing.map(|(name, version)| async move {
            let text = this.get(DEFINITIONS.kind, name, &DEFINITIONS.all().name(name)).await?;
            let definition = text.as_deref().map(Definition::parse).transpose()?;
            let is_published = !is_of_group(name, ROLLOUTS_GROUP) || this.gates.enabled(Feature::Rollouts);
            let publishes = definition.filter(|definition| is_published && definition.converts());
            Ok::<_, ObjectError>((name.clone(), (version.clone(), publishes)))
        }))
        .await?;
        self.definitions.extend(read);
        Ok(())
    }

    /// The definitions that publish the bundle.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.values().filter_map(|(_, definition)| definition.as_ref())
    }

    /// Forgets a definition, to read it anew.
    pub(crate) fn forget(&mut self, name: &str) {
        self.definitions.remove(name);
    }

    /// The Namespace as an owner, and whether it is being deleted; `None` where it does not exist.
    pub(crate) async fn namespace(&self, name: &str) -> Result<Option<(Owner, bool)>, ObjectError> {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let found = namespaces.get_metadata_opt(name).await;
        let found = found.map_err(|source| ObjectError::of("Namespace", name, source))?;
        Ok(found.map(|namespace| {
            let owner = Owner { name: name.to_owned(), uid: namespace.uid().unwrap_or_default() };
            (owner, namespace.metadata.deletion_timestamp.is_some())
        }))
    }

    /// A Pod, for an Event about it. `kubectl describe` finds the Event only by the UID.
    pub(crate) async fn pod_reference(&self, namespace: &str, name: &str) -> ObjectReference {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let pod = pods.get_metadata(name).await.inspect_err(|error| {
            debug!(name, error = cluster::client::message(error), "our own Pod was not read");
        });
        let uid = pod.ok().and_then(|pod| pod.uid()).unwrap_or_default();
        about_in(namespace, "v1", "Pod", name, &uid)
    }

    pub(crate) async fn create(&self, kind: ConfigurationKind) -> Result<bool, ObjectError> {
        let answer = write::create(&self.client, &configurations(kind), kind.empty_object()).await;
        has_written(kind.kind(), kind.name(), answer)
    }

    pub(crate) async fn patch_configuration(
        &self,
        kind: ConfigurationKind,
        patch: &Patch,
    ) -> Result<bool, ObjectError> {
        let path = configurations(kind).name(kind.name());
        has_written(kind.kind(), kind.name(), self.patch(&path, patch).await)
    }

    pub(crate) async fn patch_definition(&self, name: &str, patch: &Patch) -> Result<bool, ObjectError> {
        has_written(DEFINITIONS.kind, name, self.patch(&DEFINITIONS.all().name(name), patch).await)
    }

    async fn patch(&self, path: &str, patch: &Patch) -> Result<String, ApiError> {
        write::patch(&self.client, path, PatchKind::Json, patch.to_json()).await
    }

    async fn get(&self, kind: &'static str, name: &str, path: &str) -> Result<Option<String>, ObjectError> {
        write::get(&self.client, path).await.map_err(|error| ObjectError::of(kind, name, error))
    }
}

/// Whether a definition is of a kind of this group.
pub(crate) fn is_of_group(definition: &str, group: &str) -> bool {
    definition.strip_suffix(group).is_some_and(|plural| plural.ends_with('.'))
}

/// False where the object changed, appeared or went since it was read.
fn has_written(
    kind: &'static str,
    name: &str,
    answer: Result<String, ApiError>,
) -> Result<bool, ObjectError> {
    let written = unless_outdated(answer).map_err(|error| ObjectError::of(kind, name, error))?;
    Ok(written.is_some())
}

pub(crate) fn resource(kind: ConfigurationKind) -> Resource<'static> {
    if kind.is_mutating() { MUTATING_WEBHOOKS } else { VALIDATING_WEBHOOKS }
}

fn configurations(kind: ConfigurationKind) -> Path {
    resource(kind).all()
}

pub(crate) fn configuration_reference(kind: ConfigurationKind, uid: &str) -> ObjectReference {
    about(resource(kind).api_version, kind.kind(), kind.name(), uid)
}

pub(crate) fn choices_reference(namespace: &str) -> ObjectReference {
    about_in(namespace, "v1", "ConfigMap", api::CONFIGURATION_CONFIG_MAP, "")
}

pub(crate) fn definition_reference(definition: &Definition) -> ObjectReference {
    about(DEFINITIONS.api_version, DEFINITIONS.kind, definition.name(), definition.uid())
}
