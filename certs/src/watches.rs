//! What wakes the publisher: the Secret, both configurations, the ConfigMap of users, and the definitions
//! of our kinds. Only metadata is watched, so that neither keys nor schemas lie in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;

use admission::registration::ConfigurationKind;
use cluster::watch_failures::WatchFailures;
use futures::stream::{BoxStream, SelectAll, select_all};
use futures::{FutureExt, StreamExt, future};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Error, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use values::segment::without_segments;

use crate::settings::{CertificateSettings, Mode};

enum Signal {
    /// An object with a fixed name changed.
    Object,
    Definition(Result<Box<Event<PartialObjectMeta<CustomResourceDefinition>>>, Error>),
}

/// All watches, and the definitions that exist.
pub(crate) struct Watches {
    signals: SelectAll<BoxStream<'static, Signal>>,
    /// Name and resourceVersion of each definition of ours; `None` before the first full list.
    definitions: Option<BTreeMap<String, String>>,
    listing: BTreeMap<String, String>,
    failures: WatchFailures,
    trouble: Option<String>,
}

impl Watches {
    pub(crate) fn start(client: &Client, settings: &CertificateSettings) -> Self {
        let mut streams = vec![
            object::<MutatingWebhookConfiguration>(
                Api::all(client.clone()),
                ConfigurationKind::Mutating.name(),
            ),
            object::<ValidatingWebhookConfiguration>(
                Api::all(client.clone()),
                ConfigurationKind::Validating.name(),
            ),
            object::<ConfigMap>(
                Api::namespaced(client.clone(), &settings.registration.namespace),
                api::CONFIGURATION_CONFIG_MAP,
            ),
            definitions(client.clone()),
        ];
        if settings.mode != Mode::Files {
            let secrets = Api::namespaced(client.clone(), &settings.registration.namespace);
            streams.push(object::<Secret>(secrets, &settings.secret));
        }
        Self {
            signals: select_all(streams),
            definitions: None,
            listing: BTreeMap::new(),
            failures: WatchFailures::default(),
            trouble: None,
        }
    }

    /// The definitions of ours that exist, with their versions; `None` as long as that is unknown.
    pub(crate) fn definitions(&self) -> Option<&BTreeMap<String, String>> {
        self.definitions.as_ref()
    }

    /// The last failure to list the definitions, for as long as they are unknown.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Waits until something happened that matters, and takes in all that is there.
    pub(crate) async fn changed(&mut self) {
        while let Some(signal) = self.signals.next().await {
            let mut matters = self.take(signal);
            while let Some(Some(signal)) = self.signals.next().now_or_never() {
                matters |= self.take(signal);
            }
            if matters {
                return;
            }
        }
    }

    fn take(&mut self, signal: Signal) -> bool {
        match signal {
            Signal::Object => true,
            Signal::Definition(Ok(event)) => self.take_definition(*event),
            Signal::Definition(Err(error)) => {
                self.failures.failed(&"CustomResourceDefinitions", &error);
                self.trouble = Some(without_segments(&error.to_string()));
                // Nothing happens before they are known, so that somebody must say why.
                self.definitions.is_none()
            }
        }
    }

    fn take_definition(&mut self, event: Event<PartialObjectMeta<CustomResourceDefinition>>) -> bool {
        if !matches!(event, Event::Init) {
            self.failures.succeeded();
        }
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) if is_ours(&object) => drop(insert(&mut self.listing, &object)),
            Event::InitDone => {
                let listed = Some(std::mem::take(&mut self.listing));
                let differs = self.definitions != listed;
                self.definitions = listed;
                self.trouble = None;
                return differs;
            }
            Event::Apply(object) if is_ours(&object) => {
                return self.definitions.as_mut().is_some_and(|definitions| insert(definitions, &object));
            }
            Event::Delete(object) => {
                let name = object.name_any();
                return self.definitions.as_mut().is_some_and(|known| known.remove(&name).is_some());
            }
            Event::InitApply(_) | Event::Apply(_) => {}
        }
        false
    }
}

fn insert(
    known: &mut BTreeMap<String, String>,
    object: &PartialObjectMeta<CustomResourceDefinition>,
) -> bool {
    let version = object.resource_version().unwrap_or_default();
    known.insert(object.name_any(), version.clone()) != Some(version)
}

fn is_ours(object: &PartialObjectMeta<CustomResourceDefinition>) -> bool {
    let name = object.name_any();
    let mut groups = [api::APPS_GROUP, api::POLICY_GROUP].into_iter();
    groups.any(|group| name.strip_suffix(group).is_some_and(|plural| plural.ends_with('.')))
}

fn object<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, Signal>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let (what, mut failures) = (name.to_owned(), WatchFailures::default());
    let signals = watcher(api, config).default_backoff().filter_map(move |event| {
        let has_changed = match event {
            // A list begins, of which nothing has come yet.
            Ok(Event::Init) => false,
            Ok(event) => {
                failures.succeeded();
                !matches!(event, Event::InitApply(_))
            }
            Err(error) => {
                failures.failed(&what, &error);
                false
            }
        };
        future::ready(has_changed.then_some(Signal::Object))
    });
    signals.boxed()
}

fn definitions(client: Client) -> BoxStream<'static, Signal> {
    // Applied definitions can carry a large annotation: few to a page.
    let config = Config::default().page_size(50);
    let events =
        watcher(Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client), config).default_backoff();
    events.map(|event| Signal::Definition(event.map(Box::new))).boxed()
}
