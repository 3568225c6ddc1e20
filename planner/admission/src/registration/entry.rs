//! A webhook entry as the API server stores it, with the API server's own defaults for what is left
//! out, so that an entry that was only filled in counts as equal.

use std::collections::BTreeMap;

use api::labels::{COMPONENT, CONTROL_PLANE, DELETE_PROTECTION, NAMESPACE_NAME, ROLLOUT_WORKLOAD_TYPE};
use api::meta::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

use super::conditions::{MatchCondition, match_conditions};
use super::{ConfigurationKind, FailurePolicy, ServerAddress, Settings, Wanted};
use crate::callers::Call;
use crate::endpoint::{Entry, OLDER, Purpose};
use values::json_patch::{Patch, Pointer};
use values::segment::{self, Segment};
use values::selector::{Requirement, Selector};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    pub(super) name: String,
    admission_review_versions: Vec<String>,
    pub(super) client_config: ClientConfig,
    #[serde(default = "fail")]
    failure_policy: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    match_conditions: Vec<MatchCondition>,
    #[serde(default = "equivalent")]
    match_policy: String,
    #[serde(default)]
    pub(super) namespace_selector: LabelSelector,
    #[serde(default)]
    object_selector: LabelSelector,
    /// Only mutating webhooks have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reinvocation_policy: Option<String>,
    #[serde(default)]
    rules: Vec<Rule>,
    side_effects: String,
    #[serde(default = "ten")]
    timeout_seconds: i32,
}

/// The longest that a request waits which passes without an answer.
const PATIENCE: u8 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            api_groups: Vec::new(),
            api_versions: Vec::new(),
            operations: Vec::new(),
            resources: Vec::new(),
            scope: "*".to_owned(),
        }
    }
}

/// How the API server reaches a webhook; entries and conversion stanzas share the form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClientConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ca_bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceReference {
    name: String,
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default = "https")]
    port: i32,
}

fn fail() -> String {
    "Fail".to_owned()
}

fn equivalent() -> String {
    "Equivalent".to_owned()
}

fn ten() -> i32 {
    10
}

fn https() -> i32 {
    443
}

impl ClientConfig {
    /// Calls `path` behind `segment` at `endpoint`, verified by `bundle` (base64) where one is given.
    pub(super) fn new(
        endpoint: &ServerAddress,
        segment: Option<Segment>,
        path: &str,
        bundle: Option<&str>,
    ) -> Self {
        let ca_bundle = bundle.map(str::to_owned);
        let path = segment.map_or_else(|| path.to_owned(), |segment| segment.before(path));
        match endpoint {
            ServerAddress::Service { namespace, name } => Self {
                ca_bundle,
                service: Some(ServiceReference {
                    name: name.clone(),
                    namespace: namespace.clone(),
                    path: Some(path),
                    port: 443,
                }),
                url: None,
            },
            ServerAddress::Host { .. } => Self { ca_bundle, service: None, url: Some(endpoint.url(&path)) },
        }
    }

    /// [`ClientConfig::new`] in place of this one, whose segment stays where none is given.
    pub(super) fn renewed(
        &self,
        endpoint: &ServerAddress,
        segment: Option<Segment>,
        path: &str,
        bundle: Option<&str>,
    ) -> Self {
        let present = || self.called().and_then(|called| segment::split(called).0);
        Self::new(endpoint, segment.or_else(present), path, bundle)
    }

    /// Whether it calls the server at `endpoint`, at whatever path.
    pub(super) fn is_at(&self, endpoint: &ServerAddress) -> bool {
        match (endpoint, &self.service, &self.url) {
            (ServerAddress::Service { namespace, name }, Some(service), _) => {
                (&service.namespace, &service.name) == (namespace, name)
            }
            (ServerAddress::Host { .. }, None, Some(url)) => url.starts_with(&endpoint.url("/")),
            _ => false,
        }
    }

    /// How it is called.
    pub(super) fn call(&self) -> Option<Call> {
        self.called().map(segment::split).map(|(segment, path)| (segment, path.to_owned()))
    }

    /// The path that is called, apart from the segment in front of it.
    pub(super) fn path(&self) -> Option<&str> {
        self.called().map(|called| segment::split(called).1)
    }

    /// The whole path that is called, of a service or of a URL.
    fn called(&self) -> Option<&str> {
        let url_path = || {
            let (_, rest) = self.url.as_ref()?.split_once("://")?;
            rest.find('/').and_then(|start| rest.get(start..))
        };
        self.service.as_ref().and_then(|service| service.path.as_deref()).or_else(url_path)
    }

    /// Adds to `patch` what turns this configuration at `place` into `wanted`.
    pub(super) fn edit(&self, wanted: &Self, place: &Pointer, patch: &mut Patch) {
        let unverified = |config: &Self| Self { ca_bundle: None, ..config.clone() };
        if unverified(self) != unverified(wanted) {
            patch.add(place.clone(), json(wanted));
        } else if self.ca_bundle != wanted.ca_bundle
            && let Some(bundle) = &wanted.ca_bundle
        {
            patch.add(place.key("caBundle"), json(bundle));
        }
    }
}

impl Webhook {
    /// The entry as `settings` want it, to be published as `published` says, or to be remembered.
    pub(super) fn new(
        kind: ConfigurationKind,
        entry: &Entry,
        settings: &Settings,
        published: Option<&Wanted<'_>>,
    ) -> Self {
        let (segment, bundle) =
            published.map_or((None, None), |wanted| (wanted.segment, Some(wanted.bundle)));
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let policy = match entry.purpose {
            Purpose::Pods | Purpose::ExitPriority => settings.pod_failure_policy,
            Purpose::Protection => settings.protection_failure_policy,
            Purpose::OwnKind | Purpose::KnownWorkload => FailurePolicy::Fail,
            Purpose::OtherWorkload => FailurePolicy::Ignore,
        };
        let timeout = match entry.purpose {
            Purpose::OtherWorkload => settings.timeout_seconds.get().min(PATIENCE),
            _ => settings.timeout_seconds.get(),
        };
        let choice = settings.choices.of(entry.name);
        let (mut namespaces, mut objects) =
            (namespace_selector(entry.purpose, settings), object_selector(entry.purpose));
        choice.narrow_namespaces(&mut namespaces);
        choice.narrow_objects(&mut objects);
        Self {
            name: entry.name.to_owned(),
            admission_review_versions: owned(&["v1", "v1beta1"]),
            client_config: ClientConfig::new(&settings.endpoint, segment, entry.path, bundle),
            failure_policy: choice.failure_policy.unwrap_or(policy).as_str().to_owned(),
            match_conditions: match_conditions(entry),
            match_policy: equivalent(),
            namespace_selector: namespaces,
            object_selector: objects,
            reinvocation_policy: kind.is_mutating().then(|| reinvocation_policy(entry.purpose).to_owned()),
            rules: vec![Rule {
                api_groups: owned(&[entry.group]),
                api_versions: owned(entry.versions),
                operations: owned(entry.operations),
                resources: owned(&[entry.resource]),
                ..Rule::default()
            }],
            side_effects: "None".to_owned(),
            timeout_seconds: i32::from(choice.timeout_seconds.unwrap_or(timeout)),
        }
    }

    /// The same entry for releases of OpenKruise that know its kind in one version, by the name and the path that they
    /// have for it.
    pub(super) fn older(self, (name, path): (String, String), endpoint: &ServerAddress) -> Self {
        let one_version = |rule| Rule { api_versions: vec![OLDER.to_owned()], ..rule };
        Self {
            name,
            client_config: ClientConfig::new(endpoint, None, &path, None),
            rules: self.rules.into_iter().map(one_version).collect(),
            ..self
        }
    }

    /// The same entry, called so.
    pub(super) fn called(&self, client_config: ClientConfig) -> Self {
        Self { client_config, ..self.clone() }
    }

    /// Namespaces and labels: Pods that have both come here, those of our own installation aside. `None` where an
    /// expression decides, or values of labels are not all that does.
    pub(super) fn reviewed_pods(&self) -> Option<(Selector, BTreeMap<String, String>)> {
        let (namespaces, objects) =
            (&self.namespace_selector, Selector::compile(&self.object_selector).ok()?);
        let mut labels = BTreeMap::new();
        for requirement in objects.requirements() {
            match requirement {
                Requirement::In(key, values) => {
                    labels.insert(key.to_string(), values.first()?.to_string());
                }
                Requirement::Exists(key) => {
                    labels.entry(key.to_string()).or_default();
                }
                Requirement::NotIn(..) | Requirement::DoesNotExist(_) => {}
            }
        }
        let suffices = self.match_conditions.is_empty() && objects.matches(&labels);
        Selector::compile(namespaces).ok().filter(|_| suffices).map(|namespaces| (namespaces, labels))
    }

    /// Adds to `patch` the fields in which this entry at `place` differs from `wanted`.
    pub(super) fn edit(&self, wanted: &Self, place: &Pointer, patch: &mut Patch) {
        let mut set = |differs: bool, field: &str, value: String| {
            if differs {
                patch.add(place.key(field), value);
            }
        };
        let versions = &wanted.admission_review_versions;
        set(self.admission_review_versions != *versions, "admissionReviewVersions", json(versions));
        set(self.failure_policy != wanted.failure_policy, "failurePolicy", json(&wanted.failure_policy));
        set(self.match_policy != wanted.match_policy, "matchPolicy", json(&wanted.match_policy));
        let selector = &wanted.namespace_selector;
        set(!equal(&self.namespace_selector, selector), "namespaceSelector", json(selector));
        let selector = &wanted.object_selector;
        set(!equal(&self.object_selector, selector), "objectSelector", json(selector));
        set(self.rules != wanted.rules, "rules", json(&wanted.rules));
        set(self.side_effects != wanted.side_effects, "sideEffects", json(&wanted.side_effects));
        set(self.timeout_seconds != wanted.timeout_seconds, "timeoutSeconds", json(&wanted.timeout_seconds));
        if let Some(policy) = &wanted.reinvocation_policy {
            let live = self.reinvocation_policy.as_deref().unwrap_or("Never");
            set(live != policy, "reinvocationPolicy", json(policy));
        }
        if self.match_conditions != wanted.match_conditions {
            let place = place.key("matchConditions");
            match wanted.match_conditions.as_slice() {
                [] => patch.remove(place),
                conditions => patch.add(place, json(&conditions)),
            }
        }
        self.client_config.edit(&wanted.client_config, &place.key("clientConfig"), patch);
    }
}

/// The parts of any entry, of ours or not, that decide what happens to it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lens {
    pub(super) name: String,
    #[serde(default)]
    pub(super) client_config: ClientConfig,
}

/// The JSON text of plain data.
pub(super) fn json<T: Serialize>(value: &T) -> String {
    // Plain structs with text keys always serialize.
    serde_json::to_string(value).unwrap_or_default()
}

fn equal(left: &LabelSelector, right: &LabelSelector) -> bool {
    fn labels(selector: &LabelSelector) -> impl Iterator<Item = (&String, &String)> {
        selector.match_labels.iter().flatten()
    }
    fn expressions(selector: &LabelSelector) -> impl Iterator<Item = &LabelSelectorRequirement> {
        selector.match_expressions.iter().flatten()
    }
    labels(left).eq(labels(right)) && expressions(left).eq(expressions(right))
}

fn namespace_selector(purpose: Purpose, settings: &Settings) -> LabelSelector {
    let mut excluded: Vec<String> = match purpose {
        // The Pods that answer, and what replaces them, must never depend on an answer.
        Purpose::Pods | Purpose::ExitPriority | Purpose::KnownWorkload | Purpose::OtherWorkload => {
            vec!["kube-system".to_owned(), settings.namespace.clone()]
        }
        Purpose::Protection => vec!["kube-system".to_owned()],
        Purpose::OwnKind => return LabelSelector::default(),
    };
    for namespace in &settings.excluded_namespaces {
        if !excluded.contains(namespace) {
            excluded.push(namespace.clone());
        }
    }
    let mut requirements = Vec::new();
    if purpose.is_of_pods() {
        requirements.push(requirement(CONTROL_PLANE, "DoesNotExist"));
    }
    if !excluded.is_empty() {
        requirements.push(LabelSelectorRequirement {
            values: Some(excluded),
            ..requirement(NAMESPACE_NAME, "NotIn")
        });
    }
    selector(requirements)
}

fn object_selector(purpose: Purpose) -> LabelSelector {
    selector(match purpose {
        Purpose::Pods | Purpose::ExitPriority => vec![requirement(COMPONENT, "DoesNotExist")],
        Purpose::Protection => vec![requirement(DELETE_PROTECTION, "Exists")],
        Purpose::KnownWorkload => vec![requirement(ROLLOUT_WORKLOAD_TYPE, "Exists")],
        Purpose::OtherWorkload => vec![requirement(ROLLOUT_WORKLOAD_TYPE, "DoesNotExist")],
        Purpose::OwnKind => Vec::new(),
    })
}

/// Containers that a later webhook adds have their place in the order too.
fn reinvocation_policy(purpose: Purpose) -> &'static str {
    if purpose == Purpose::ExitPriority { "IfNeeded" } else { "Never" }
}

fn requirement(key: &str, operator: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values: None }
}

fn selector(requirements: Vec<LabelSelectorRequirement>) -> LabelSelector {
    LabelSelector {
        match_labels: None,
        match_expressions: (!requirements.is_empty()).then_some(requirements),
    }
}
