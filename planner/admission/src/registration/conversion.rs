//! The conversion stanza of a CustomResourceDefinition
//! (docs/behaviour/api-and-registration.md#conversion-stanzas).

use serde::Deserialize;

use super::entry::{ClientConfig, json};
use super::{RegistrationError, ServerAddress};
use crate::callers::Call;
use values::json_patch::{Patch, Pointer, string};
use values::segment::Segment;

const PATH: &str = "/convert";
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What matters of a live CustomResourceDefinition.
#[derive(Debug, Deserialize)]
pub struct Definition {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    uid: String,
}

#[derive(Debug, Deserialize)]
struct Spec {
    group: String,
    names: Names,
    #[serde(default)]
    versions: Vec<Version>,
    conversion: Option<Conversion>,
}

#[derive(Debug, Deserialize)]
struct Names {
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Conversion {
    strategy: String,
    webhook: Option<WebhookConversion>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookConversion {
    client_config: Option<ClientConfig>,
    #[serde(default)]
    conversion_review_versions: Vec<String>,
}

impl Definition {
    /// Reads the object as the API server sends it.
    ///
    /// # Errors
    /// The text is not a CustomResourceDefinition.
    pub fn parse(text: &str) -> Result<Self, RegistrationError> {
        serde_json::from_str(text).map_err(RegistrationError::Definition)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The object's UID.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// True where the API server converts through us: a kind and a first version of ours, and
    /// strategy `Webhook`, which only the installer sets.
    pub fn converts(&self) -> bool {
        let ours = api::crds::find(&self.spec.group, &self.spec.names.kind).is_some_and(|ours| {
            self.spec.versions.first().is_some_and(|first| ours.versions.contains(&first.name.as_str()))
        });
        ours && self.spec.conversion.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook")
    }

    /// The published bundle, base64.
    pub fn bundle(&self) -> Option<&str> {
        self.client_config()?.ca_bundle.as_deref()
    }

    /// How it is called.
    pub fn call(&self) -> Option<Call> {
        self.client_config()?.call()
    }

    /// The smallest patch after which the API server converts at `endpoint` behind `segment`, or behind what it has,
    /// and trusts `bundle` (base64); `None` where nothing is to be changed.
    pub fn plan(&self, endpoint: &ServerAddress, segment: Option<Segment>, bundle: &str) -> Option<Patch> {
        if !self.converts() {
            return None;
        }
        let present = self.client_config().cloned().unwrap_or_default();
        let wanted = present.renewed(endpoint, segment, PATH, Some(bundle));
        let place = Pointer::from_escaped("/spec/conversion/webhook");
        let mut patch = Patch::default();
        let webhook = self.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        match webhook.map(|webhook| (webhook, webhook.client_config.as_ref())) {
            Some((webhook, Some(live))) => {
                live.edit(&wanted, &place.key("clientConfig"), &mut patch);
                if webhook.conversion_review_versions != REVIEW_VERSIONS {
                    patch.add(place.key("conversionReviewVersions"), json(&REVIEW_VERSIONS));
                }
            }
            _ => patch.add(
                place,
                format!(
                    r#"{{"clientConfig":{},"conversionReviewVersions":{}}}"#,
                    json(&wanted),
                    json(&REVIEW_VERSIONS)
                ),
            ),
        }
        (!patch.is_empty()).then(|| super::guarded(&self.metadata.resource_version, patch))
    }

    /// What is wrong where somebody else publishes (`EnableExternalCerts`), in the words of the spec.
    pub fn mismatch(&self, bundle: &str) -> Option<String> {
        let name = self.name();
        if !self.converts() {
            None
        } else if self.client_config().is_none() {
            Some(format!("bad conversion configuration of CRD {name}"))
        } else if self.bundle() != Some(bundle) {
            Some(format!("caBundle of CRD {name} does not match external caBundle"))
        } else {
            None
        }
    }

    fn client_config(&self) -> Option<&ClientConfig> {
        self.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()
    }
}

/// A patch that first states the version of the object it was planned for: the API server refuses it
/// with a conflict if the object changed since.
pub(super) fn guarded(resource_version: &str, patch: Patch) -> Patch {
    let mut guarded = Patch::default();
    if !resource_version.is_empty() {
        guarded.replace(Pointer::from_escaped("/metadata/resourceVersion"), string(resource_version));
    }
    guarded.extend(patch);
    guarded
}
