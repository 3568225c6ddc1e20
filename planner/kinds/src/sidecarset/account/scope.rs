//! Which Pods the API server asks admission about, as the registration says.

use api::labels::{COMPONENT, CONTROL_PLANE, NAMESPACE_NAME};
use api::meta::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;

use super::reason::Reason;
use super::record::PodRecord;
use crate::workload::namespace::Namespace;
use values::selector::{Labels, Selector};

/// The name of the entry that new Pods come by.
const ENTRY: &str = "mpod.kb.io";
/// A Namespace whose Pods are never reviewed.
const SYSTEM: &str = "kube-system";

/// The Pods that are reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    namespaces: Selector,
    objects: Selector,
}

#[derive(Deserialize)]
struct Configuration {
    webhooks: Option<Vec<Webhook>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    #[serde(default)]
    namespace_selector: LabelSelector,
    #[serde(default)]
    object_selector: LabelSelector,
}

impl Scope {
    /// The scope of an installation that nobody narrowed.
    pub fn of_installation(namespace: &str) -> Self {
        let requirement = |key: &str, operator: &str, values| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values,
        };
        let selector = |requirements| {
            let selector = LabelSelector { match_labels: None, match_expressions: Some(requirements) };
            Selector::compile(&selector).unwrap_or_default()
        };
        let named = Some(vec![SYSTEM.to_owned(), namespace.to_owned()]);
        Self {
            namespaces: selector(vec![
                requirement(CONTROL_PLANE, "DoesNotExist", None),
                requirement(NAMESPACE_NAME, "NotIn", named),
            ]),
            objects: selector(vec![requirement(COMPONENT, "DoesNotExist", None)]),
        }
    }

    /// The scope that a MutatingWebhookConfiguration gives; `None` where it has no entry for Pods.
    pub fn of_configuration(json: &str) -> Option<Self> {
        let configuration: Configuration = serde_json::from_str(json).ok()?;
        let entry = configuration.webhooks?.into_iter().find(|webhook| webhook.name == ENTRY)?;
        Some(Self {
            namespaces: Selector::compile(&entry.namespace_selector).ok()?,
            objects: Selector::compile(&entry.object_selector).ok()?,
        })
    }

    /// True where Pods of the Namespace are reviewed.
    pub(super) fn has_namespace(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.namespaces.matches(labels)
    }

    /// Why a Pod is not reviewed; `None` where it is.
    pub(super) fn excludes(&self, namespace: Option<&Namespace>, pod: &PodRecord) -> Option<Reason> {
        if namespace.is_some_and(|namespace| !self.has_namespace(namespace.labels())) {
            return Some(Reason::NamespaceExcluded);
        }
        (!self.objects.matches(&pod.labels)).then_some(Reason::OptedOut)
    }
}
