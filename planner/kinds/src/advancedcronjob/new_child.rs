//! The object that a run creates (docs/behaviour/advancedcronjob.md#what-a-run-creates).

use std::collections::BTreeMap;

use api::Raw;
use api::annotations::SCHEDULED_AT;
use api::kinds::advancedcronjob::{API_VERSION, AdvancedCronJob, KIND};
use api::kinds::shared::WorkloadTemplate;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::children::ChildKind;
use crate::workload::owner::Owner;

/// What of a template's metadata its children get.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewChild<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Raw>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: [Owner<'a>; 1],
}

/// The name of the child of a tick, which it shares with no other tick: so no tick is run twice while its child exists.
pub(super) fn name(cron_job: &AdvancedCronJob, tick: Timestamp) -> String {
    format!("{}-{}", cron_job.metadata.name, tick.as_second())
}

/// The JSON of the child of a tick. The tick is written in the zone of the process.
///
/// # Errors
/// The template can't be read.
pub(super) fn new_child(
    cron_job: &AdvancedCronJob,
    tick: Timestamp,
    process: &TimeZone,
) -> Result<String, serde_json::Error> {
    let templates = &cron_job.spec.template;
    let kind = ChildKind::of(templates);
    let template: WorkloadTemplate = match kind {
        ChildKind::Job => {
            let template = templates.job_template.as_ref();
            template.map(|raw| serde_json::from_str(raw.get())).transpose()?.unwrap_or_default()
        }
        ChildKind::BroadcastJob => templates.broadcast_job_template.clone().unwrap_or_default(),
        ChildKind::ImageListPullJob => templates.image_list_pull_job_template.clone().unwrap_or_default(),
    };
    let metadata: Option<TemplateMetadata> =
        template.metadata.map(|raw| serde_json::from_str(raw.get())).transpose()?.flatten();
    let metadata = metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), local(tick, process));
    serde_json::to_string(&NewChild {
        api_version: kind.api_version(),
        kind: kind.kind(),
        metadata: Metadata {
            name: &name(cron_job, tick),
            namespace: &cron_job.metadata.namespace,
            labels: metadata.labels.unwrap_or_default(),
            annotations,
            owner_references: [Owner::of(API_VERSION, KIND, &cron_job.metadata)],
        },
        spec: template.spec,
    })
}

/// A moment as RFC 3339 has it in a zone.
pub(super) fn local(moment: Timestamp, zone: &TimeZone) -> String {
    let local = moment.to_zoned(zone.clone());
    let format = if local.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    local.strftime(format).to_string()
}
