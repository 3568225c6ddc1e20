//! Registration of the webhooks: what the webhook configurations and the conversion stanzas should say, and
//! the smallest patch from what they say (docs/behaviour/api-and-registration.md#conversion-stanzas and
//! docs/behaviour/api-and-registration.md#webhook-configurations).
//!
//! ```text
//!   entries --settings--> wanted entries --gates, served paths, CRDs--> entries to be live
//!                            |                                             |
//!                 annotation `template` (all of them)          live list --diff--> Patch
//! ```
//!
//! Rules:
//! 1. Entries of the table belong to the server: a third party's change to them is repaired, but for terms that
//!    only narrow ([`narrowing`]).
//! 2. Entries of other names stay as somebody made them, if their path is served, and otherwise wait
//!    in the annotation; only where they call is corrected.
//! 3. An entry is added only when its path is answered everywhere behind the Service.
//! 4. Nothing is written where nothing differs; what the API server fills in is no difference.

mod choices;
mod conditions;
mod conversion;
mod entry;
mod narrowing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU8;

use api::Raw;
use api::annotations::WEBHOOK_TEMPLATE;
use api::features::FeatureGates;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::callers::Call;
pub use crate::endpoint::ConfigurationKind;
use crate::endpoint::{Endpoint, entries};
pub use choices::{CHOICES_IN_EFFECT, CHOICES_KEY, CHOICES_REFUSED, Choices, ChoicesError};
pub use conversion::Definition;
use conversion::guarded;
use entry::{ClientConfig, Lens, Webhook, json};
use narrowing::Narrowing;
use values::json_patch::{Patch, Pointer, string};
use values::segment::Segment;
use values::selector::Selector;

/// The entry that new Pods come by.
const POD_ENTRY: &str = "mpod.kb.io";

/// Why an object of the API server could not be understood.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// A webhook configuration.
    #[error("the webhook configuration is not readable: {0}")]
    Configuration(#[source] serde_json::Error),
    /// A CustomResourceDefinition.
    #[error("the CustomResourceDefinition is not readable: {0}")]
    Definition(#[source] serde_json::Error),
}

/// What the API server does when a webhook doesn't answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum FailurePolicy {
    /// Refuses the request.
    Fail,
    /// Lets the request pass.
    Ignore,
}

impl FailurePolicy {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// Where the API server finds the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// Through a Service, on port 443.
    Service {
        /// The Service's namespace.
        namespace: String,
        /// The Service's name.
        name: String,
    },
    /// At an address of its own (`WEBHOOK_HOST`), for a server outside the cluster.
    Host {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
}

impl ServerAddress {
    /// The name under which the server is called, which its certificate must carry.
    pub fn dns_name(&self) -> String {
        match self {
            Self::Service { namespace, name } => format!("{name}.{namespace}.svc"),
            Self::Host { host, .. } => host.clone(),
        }
    }

    /// The address of `path`.
    pub fn url(&self, path: &str) -> String {
        match self {
            Self::Service { .. } => format!("https://{}:443{path}", self.dns_name()),
            Self::Host { host, port } if host.contains(':') => format!("https://[{host}]:{port}{path}"),
            Self::Host { host, port } => format!("https://{host}:{port}{path}"),
        }
    }
}

/// What decides the entries' form: what the server was started with, and what users chose since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The install namespace: its Pods are never reviewed.
    pub namespace: String,
    /// Where the API server finds the webhooks.
    pub endpoint: ServerAddress,
    /// For the Pod entries; `Fail` by default.
    pub pod_failure_policy: FailurePolicy,
    /// For the deletion protection of Kubernetes' own kinds; `Fail` by default, `Ignore` in the chart.
    pub protection_failure_policy: FailurePolicy,
    /// Whether policies of the cluster protect the kinds that need no count, which then have no entries.
    pub protection_by_policies: bool,
    /// How long the API server waits, in seconds; 10 by default, 30 in the chart. At most 30.
    pub timeout_seconds: NonZeroU8,
    /// Further namespaces whose Pods and protected objects are not reviewed; `kube-system` in the chart.
    pub excluded_namespaces: Vec<String>,
    /// What users chose while the server runs; it wins.
    pub choices: Choices,
}

impl Settings {
    /// The settings of the plain manifests.
    pub fn new(namespace: impl Into<String>, endpoint: ServerAddress) -> Self {
        Self {
            namespace: namespace.into(),
            endpoint,
            pod_failure_policy: FailurePolicy::Fail,
            protection_failure_policy: FailurePolicy::Fail,
            protection_by_policies: false,
            timeout_seconds: NonZeroU8::MIN.saturating_add(9),
            excluded_namespaces: Vec::new(),
            choices: Choices::default(),
        }
    }
}

/// What the entries depend on besides what is live.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The form of the entries.
    pub settings: &'a Settings,
    /// Why the users' present choices are not in effect.
    pub refusal: Option<&'a str>,
    /// Feature gates.
    pub gates: &'a FeatureGates,
    /// Names of the CustomResourceDefinitions of ours that exist.
    pub definitions: &'a BTreeSet<String>,
    /// The bundle to publish, base64.
    pub bundle: &'a str,
    /// The prefix of every path; `None` leaves it as it is, and adds plain paths.
    pub segment: Option<Segment>,
    /// The paths that every server behind the endpoint answers: their entries may be added (rule 3).
    pub answering: &'a BTreeSet<String>,
    /// The install namespace; all configurations go with it.
    pub owner: Option<&'a Owner>,
}

/// The Namespace of the installation, as an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Owner {
    fn reference(&self) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","name":{},"uid":{}}}"#,
            string(&self.name),
            string(&self.uid)
        )
    }
}

/// An entry that is to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The entry's name.
    pub name: String,
    /// The path that has to be answered first.
    pub path: String,
}

impl Wanted<'_> {
    /// Whether `path` is served, is needed, and its gates are on
    /// (docs/behaviour/api-and-registration.md#entries-that-gates-switch).
    fn keeps(&self, path: &str) -> bool {
        let exists = |plural: &str, group: &str| self.definitions.contains(&format!("{plural}.{group}"));
        let Some(endpoint) = Endpoint::from_path(path).filter(|endpoint| endpoint.path() == path) else {
            return false;
        };
        let is_needed = match endpoint {
            Endpoint::MutatePod => exists("sidecarsets", api::APPS_GROUP),
            Endpoint::ValidatePod => exists("podunavailablebudgets", api::POLICY_GROUP),
            Endpoint::FreezeWorkload | Endpoint::ValidateRollout => exists("rollouts", api::ROLLOUTS_GROUP),
            Endpoint::Protect(kind) if kind.decides_alone() => !self.settings.protection_by_policies,
            _ => true,
        };
        is_needed && endpoint.is_served(self.gates)
    }
}

/// What to do about one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes; empty where nothing differs.
    pub patch: Patch,
    /// Entries whose bundle was not ours: a foreign or placeholder one is replaced.
    pub foreign_bundles: Vec<String>,
    /// Entries whose path is not known to be answered yet.
    pub waiting: Vec<Waiting>,
}

/// A live webhook configuration.
#[derive(Debug, Deserialize)]
pub struct Configuration {
    metadata: Metadata,
    webhooks: Option<Vec<Raw>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    uid: String,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// An entry that should be live.
enum Desired {
    /// Of the table.
    Own(Box<Webhook>),
    /// Of somebody else: the entry as it is kept, and how it must call.
    Foreign { name: String, kept: Raw, client_config: ClientConfig },
}

impl Desired {
    fn name(&self) -> &str {
        match self {
            Self::Own(webhook) => &webhook.name,
            Self::Foreign { name, .. } => name,
        }
    }

    fn path(&self) -> &str {
        let client_config = match self {
            Self::Own(webhook) => &webhook.client_config,
            Self::Foreign { client_config, .. } => client_config,
        };
        client_config.path().unwrap_or_default()
    }
}

impl Configuration {
    /// Reads the object as the API server sends it.
    ///
    /// # Errors
    /// The text is not a webhook configuration.
    pub fn parse(text: &str) -> Result<Self, RegistrationError> {
        serde_json::from_str(text).map_err(RegistrationError::Configuration)
    }

    /// The object's UID.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The bundles that its entries publish, base64.
    pub fn bundles(&self) -> Vec<String> {
        self.live().filter_map(|(_, lens)| lens?.client_config.ca_bundle).collect()
    }

    /// How its entries are called.
    pub fn calls(&self) -> Vec<Call> {
        self.live().filter_map(|(_, lens)| lens?.client_config.call()).collect()
    }

    /// The smallest patch to what is wanted.
    pub fn plan(&self, kind: ConfigurationKind, wanted: &Wanted<'_>) -> Plan {
        let foreign = self.foreign(kind);
        let desired = desired(kind, &foreign, wanted);
        let mut plan = Plan::default();
        let mut names = self.remove_unwanted(&desired, &mut plan.patch);
        self.repair(&names, &desired, wanted, &mut plan);
        self.add_missing(&mut names, &desired, wanted, &mut plan);
        let template = template(kind, &foreign, wanted.settings);
        let annotations = [
            (WEBHOOK_TEMPLATE, Some(template)),
            (CHOICES_IN_EFFECT, wanted.settings.choices.annotation()),
            (CHOICES_REFUSED, wanted.refusal.map(str::to_owned)),
        ];
        self.keep_annotations(&annotations, &mut plan.patch);
        if let Some(owner) = wanted.owner {
            self.keep_owner(owner, &mut plan.patch);
        }
        if !plan.patch.is_empty() {
            plan.patch = guarded(&self.metadata.resource_version, plan.patch);
        }
        plan
    }

    /// Takes away the entries that call the server at `endpoint`: with its gates the configuration is not published. Those
    /// that call another one stay.
    pub fn withdrawal(&self, endpoint: &ServerAddress) -> Patch {
        let mut patch = Patch::default();
        for (index, (_, lens)) in self.live().enumerate().rev() {
            if lens.is_some_and(|lens| lens.client_config.is_at(endpoint)) {
                patch.remove(webhooks().index(index));
            }
        }
        if patch.is_empty() { patch } else { guarded(&self.metadata.resource_version, patch) }
    }

    /// Where somebody else publishes (`EnableExternalCerts`): adds the entries of ours that are
    /// missing, without a bundle, and changes nothing else. `None` where none is missing.
    pub fn plan_external(&self, kind: ConfigurationKind, wanted: &Wanted<'_>) -> Option<Patch> {
        let mut names: Vec<String> =
            self.live().map(|(_, lens)| lens.map(|lens| lens.name).unwrap_or_default()).collect();
        let desired: Vec<Desired> = entries(kind)
            .iter()
            .filter(|entry| wanted.keeps(entry.path))
            .map(|entry| Desired::Own(Box::new(Webhook::new(kind, entry, wanted.settings, None))))
            .collect();
        let answering = desired.iter().map(|desired| desired.path().to_owned()).collect();
        let mut plan = Plan::default();
        self.add_missing(&mut names, &desired, &Wanted { answering: &answering, ..*wanted }, &mut plan);
        (!plan.patch.is_empty()).then(|| guarded(&self.metadata.resource_version, plan.patch))
    }

    /// What is wrong where somebody else publishes.
    pub fn mismatches(&self, kind: ConfigurationKind, wanted: &Wanted<'_>) -> Vec<String> {
        let live = |name: &str| self.live().any(|(_, lens)| lens.is_some_and(|lens| lens.name == name));
        let missing = entries(kind)
            .iter()
            .filter(|entry| wanted.keeps(entry.path) && !live(entry.name))
            .map(|entry| format!("webhook entry {} is missing", entry.name));
        let unequal = self
            .live()
            .filter_map(|(_, lens)| lens)
            .filter(|lens| lens.client_config.path().is_some_and(|path| wanted.keeps(path)))
            .filter(|lens| lens.client_config.ca_bundle.as_deref() != Some(wanted.bundle))
            .map(|lens| {
                let (kind, name) = (kind.kind(), lens.name);
                format!("caBundle of webhook {name} in {kind} does not match external caBundle")
            });
        missing.chain(unequal).collect()
    }

    /// The live entries, with what was understood of each.
    fn live(&self) -> impl DoubleEndedIterator<Item = (&Raw, Option<Lens>)> + ExactSizeIterator {
        let entries = self.webhooks.as_deref().unwrap_or_default();
        entries.iter().map(|raw| (raw, serde_json::from_str(raw.get()).ok()))
    }

    /// The entries that are not of the table, of whatever release: those remembered, then those that are new. A live
    /// entry without bundle was just applied by somebody, and wins
    /// (docs/behaviour/api-and-registration.md#the-template-annotation).
    fn foreign(&self, kind: ConfigurationKind) -> Vec<(Lens, Raw)> {
        let of_table = |lens: &Lens| entries(kind).iter().any(|entry| entry.is_called(&lens.name));
        let template =
            self.annotation(WEBHOOK_TEMPLATE).and_then(|text| serde_json::from_str::<Vec<Raw>>(text).ok());
        let mut foreign: Vec<(Lens, Raw)> = Vec::new();
        for raw in template.into_iter().flatten() {
            if let Ok(lens) = serde_json::from_str::<Lens>(raw.get())
                && !of_table(&lens)
                && foreign.iter().all(|(known, _)| known.name != lens.name)
            {
                foreign.push((lens, raw));
            }
        }
        for (raw, lens) in self.live() {
            let Some(lens) = lens.filter(|lens| !of_table(lens)) else { continue };
            let applied = lens.client_config.ca_bundle.as_deref().unwrap_or_default().is_empty();
            match foreign.iter_mut().find(|(known, _)| known.name == lens.name) {
                Some(known) if applied => *known = remembered(lens, raw),
                Some(_) => {}
                None => foreign.push(remembered(lens, raw)),
            }
        }
        foreign
    }

    /// Removes the entries that should not be live, from the last to the first; the names of the rest.
    fn remove_unwanted(&self, desired: &[Desired], patch: &mut Patch) -> Vec<String> {
        let lenses: Vec<Option<Lens>> = self.live().map(|(_, lens)| lens).collect();
        let mut names: Vec<String> = Vec::new();
        let mut unwanted = Vec::new();
        for (index, lens) in lenses.into_iter().enumerate() {
            match lens {
                Some(lens)
                    if desired.iter().any(|desired| desired.name() == lens.name)
                        && !names.contains(&lens.name) =>
                {
                    names.push(lens.name);
                }
                _ => unwanted.push(index),
            }
        }
        for index in unwanted.into_iter().rev() {
            patch.remove(webhooks().index(index));
        }
        names
    }

    /// Corrects the entries that stay, which lie in the order of `names`.
    fn repair(&self, names: &[String], desired: &[Desired], wanted: &Wanted<'_>, plan: &mut Plan) {
        let narrowing = Narrowing::of(self);
        for (index, name) in names.iter().enumerate() {
            let Some(desired) = desired.iter().find(|desired| desired.name() == name) else { continue };
            let Some((raw, Some(lens))) =
                self.live().find(|(_, lens)| lens.as_ref().is_some_and(|lens| lens.name == *name))
            else {
                continue;
            };
            let place = webhooks().index(index);
            if lens.client_config.ca_bundle.as_deref() != Some(wanted.bundle) {
                plan.foreign_bundles.push(name.clone());
            }
            let (endpoint, bundle) = (&wanted.settings.endpoint, Some(wanted.bundle));
            let client_config = lens.client_config.renewed(endpoint, wanted.segment, desired.path(), bundle);
            match (desired, serde_json::from_str::<Webhook>(raw.get())) {
                (Desired::Own(own), Ok(live)) => {
                    let own = narrowing.narrowed(own, Some(&live)).called(client_config);
                    live.edit(&own, &place, &mut plan.patch);
                }
                (Desired::Own(own), Err(_)) => {
                    let own = narrowing.narrowed(own, None).called(client_config);
                    plan.patch.replace(place, json(&own));
                }
                (Desired::Foreign { .. }, _) => {
                    lens.client_config.edit(&client_config, &place.key("clientConfig"), &mut plan.patch);
                }
            }
        }
    }

    /// Adds what is missing, in the place that the table gives it.
    fn add_missing(
        &self,
        names: &mut Vec<String>,
        desired: &[Desired],
        wanted: &Wanted<'_>,
        plan: &mut Plan,
    ) {
        let (narrowing, mut next) = (Narrowing::of(self), 0);
        for desired in desired {
            if let Some(position) = names.iter().position(|name| name == desired.name()) {
                next = position + 1;
                continue;
            }
            let (name, path) = (desired.name().to_owned(), desired.path().to_owned());
            if !wanted.answering.contains(&path) {
                plan.waiting.push(Waiting { name, path });
                continue;
            }
            if self.webhooks.is_none() && names.is_empty() {
                plan.patch.add(webhooks(), "[]");
            }
            let place = webhooks().index(next);
            match desired {
                Desired::Own(own) => plan.patch.add(place, json(&narrowing.narrowed(own, None))),
                Desired::Foreign { kept, client_config, .. } => {
                    plan.patch.add(place.clone(), kept.get());
                    plan.patch.add(place.key("clientConfig"), json(client_config));
                }
            }
            names.insert(next, name);
            next += 1;
        }
    }

    /// Namespaces and labels: new Pods that have both must come to us. `None` where Pods are not registered, or it is not
    /// known which must.
    pub fn reviewed_pods(&self) -> Option<(Selector, BTreeMap<String, String>)> {
        let webhooks = self.webhooks.iter().flatten();
        let mut webhooks = webhooks.filter_map(|raw| serde_json::from_str::<Webhook>(raw.get()).ok());
        webhooks.find(|webhook| webhook.name == POD_ENTRY)?.reviewed_pods()
    }

    /// The users' choices that were in effect when this was written; `None` where there are none.
    pub fn choices(&self) -> Option<Choices> {
        serde_json::from_str(self.annotation(CHOICES_IN_EFFECT)?).ok()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Sets these annotations, and removes those without a value.
    fn keep_annotations(&self, wanted: &[(&str, Option<String>)], patch: &mut Patch) {
        let annotations = Pointer::from_escaped("/metadata/annotations");
        if self.metadata.annotations.is_none() {
            patch.add(annotations.clone(), "{}");
        }
        for (key, wanted) in wanted {
            match (wanted, self.annotation(key)) {
                (Some(wanted), live) if live != Some(wanted) => {
                    patch.add(annotations.key(key), string(wanted));
                }
                (None, Some(_)) => patch.remove(annotations.key(key)),
                _ => {}
            }
        }
    }

    /// The configuration is garbage once the install namespace is gone: nobody would answer.
    fn keep_owner(&self, owner: &Owner, patch: &mut Patch) {
        let place = Pointer::from_escaped("/metadata/ownerReferences");
        let Some(references) = &self.metadata.owner_references else {
            patch.add(place, format!("[{}]", owner.reference()));
            return;
        };
        let same = |live: &OwnerReference| {
            live.api_version == "v1" && live.kind == "Namespace" && live.name == owner.name
        };
        match references.iter().position(same) {
            None => patch.add(place.end(), owner.reference()),
            Some(index) if references.get(index).is_some_and(|live| live.uid != owner.uid) => {
                // Of a namespace of that name that is gone.
                patch.replace(place.index(index), owner.reference());
            }
            Some(_) => {}
        }
    }
}

fn webhooks() -> Pointer {
    Pointer::from_escaped("/webhooks")
}

fn desired(kind: ConfigurationKind, foreign: &[(Lens, Raw)], wanted: &Wanted<'_>) -> Vec<Desired> {
    let own = entries(kind)
        .iter()
        .filter(|entry| wanted.keeps(entry.path))
        .map(|entry| Desired::Own(Box::new(Webhook::new(kind, entry, wanted.settings, Some(wanted)))));
    let others = foreign.iter().filter_map(|(lens, kept)| {
        let path = lens.client_config.path().filter(|path| wanted.keeps(path))?;
        let client_config =
            ClientConfig::new(&wanted.settings.endpoint, wanted.segment, path, Some(wanted.bundle));
        Some(Desired::Foreign { name: lens.name.clone(), kept: kept.clone(), client_config })
    });
    own.chain(others).collect()
}

/// The entry as it is kept in the annotation, from which other releases register: by its plain path.
fn remembered(lens: Lens, raw: &Raw) -> (Lens, Raw) {
    let plain = lens.client_config.call().and_then(|(segment, _)| {
        let text = raw.get().replace(&segment?.before("/"), "/");
        Raw::parse(text).ok()
    });
    (lens, plain.unwrap_or_else(|| raw.clone()))
}

/// The full list for the annotation, without bundles and segments of ours. Who registers from it leaves out what it does
/// not answer: for older releases their own paths are in it too.
fn template(kind: ConfigurationKind, foreign: &[(Lens, Raw)], settings: &Settings) -> String {
    let own = entries(kind).iter().flat_map(|entry| {
        let webhook = Webhook::new(kind, entry, settings, None);
        let older = entry.older().map(|called| webhook.clone().older(called, &settings.endpoint));
        std::iter::once(webhook).chain(older)
    });
    let own = own.map(|webhook| json(&webhook));
    let texts: Vec<String> = own.chain(foreign.iter().map(|(_, raw)| raw.get().to_owned())).collect();
    format!("[{}]", texts.join(","))
}
