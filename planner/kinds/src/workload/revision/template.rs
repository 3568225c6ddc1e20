//! The data of revisions that record a Pod template, and the hash of volume claim templates beside it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::data::RevisionData;
use super::stored::restored_template;
use pod::template::comparison::{DIRECTIVE, canonical};
use values::canonical::{CanonicalError, Kind, Numbers, Unknown, canonical_json, sorted_json, table};
use values::hash::deep_hash;
use values::recent::Recent;

thread_local! {
    // Canonical bytes are most of the cost of a plan.
    static TEMPLATES: RefCell<Recent<RevisionData>> = const { RefCell::new(Recent::new()) };
    static CLAIMS_HASHES: RefCell<Recent<String>> = const { RefCell::new(Recent::new()) };
}

impl RevisionData {
    /// The revision of a workload's `spec.template`, which must be defaulted already.
    ///
    /// # Errors
    /// The path and the problem, where a field does not decode into its Go type.
    pub fn of_template(template: &str) -> Result<Self, CanonicalError> {
        TEMPLATES.with_borrow_mut(|recent| recent.get_or_make(template, Self::made_of_template))
    }

    fn made_of_template(template: &str) -> Result<Self, CanonicalError> {
        let patch = |unknown, numbers| {
            let template = canonical(template, unknown)?;
            let members = template.strip_prefix('{').unwrap_or(&template);
            let data = format!(r#"{{"spec":{{"template":{{"{DIRECTIVE}":"replace",{members}}}}}"#);
            sorted_json(&data, numbers)
        };
        let (data, projection) =
            (patch(Unknown::Keep, Numbers::Exact)?, patch(Unknown::Drop, Numbers::Double)?);
        Ok(Self::new(data, projection, Self::of_data))
    }

    /// The revision that stored data restores.
    ///
    /// # Errors
    /// Where the data is not a patch of a template.
    pub fn of_data(data: &str) -> Result<Self, CanonicalError> {
        Self::of_template(restored_template(data)?.get())
    }
}

/// The labels of a Pod template.
///
/// # Errors
/// A template that can't be read.
pub fn template_labels(template: &str) -> Result<BTreeMap<String, String>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template {
        metadata: Option<Metadata>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        labels: Option<BTreeMap<String, String>>,
    }
    let template: Template = serde_json::from_str(template)?;
    Ok(template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default())
}

/// The hash of a CloneSet's `spec.volumeClaimTemplates`, a JSON list: a decimal number, or nothing where
/// there are none (docs/behaviour/revisions.md#claim-hash).
///
/// # Errors
/// The path and the problem, where a field does not decode into its Go type.
pub fn claims_hash(templates: &str) -> Result<String, CanonicalError> {
    CLAIMS_HASHES.with_borrow_mut(|recent| recent.get_or_make(templates, made_claims_hash))
}

fn made_claims_hash(templates: &str) -> Result<String, CanonicalError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Template<'a> {
        metadata: Option<TemplateMetadata>,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct TemplateMetadata {
        name: Option<String>,
    }
    let templates: Option<Vec<Template<'_>>> = serde_json::from_str(templates)?;
    let mut claims = Vec::new();
    for template in templates.into_iter().flatten() {
        let name = template.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        let kind = Kind::Struct(&table::PERSISTENT_VOLUME_CLAIM_SPEC);
        let spec = canonical_json(template.spec.map_or("null", RawValue::get), &kind, Unknown::Drop)?;
        let metadata = canonical_json(
            &serde_json::to_string(&BTreeMap::from([("name", &name)]))?,
            &Kind::Struct(&table::OBJECT_META),
            Unknown::Drop,
        )?;
        claims.push((name, format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{{}}}}"#)));
    }
    if claims.is_empty() {
        return Ok(String::new());
    }
    claims.sort_by(|(one, _), (another, _)| one.cmp(another));
    let claims: Vec<String> = claims.into_iter().map(|(_, claim)| claim).collect();
    Ok(deep_hash(&format!("[{}]", claims.join(","))).to_string())
}
