//! The Rollout of a workload that is simulated, from its manifests.

use anyhow::{Context as _, anyhow, bail};
use api::kinds::rollout::{API_VERSION, KIND, Rollout};
use informers::files::{Object, Objects};
use kinds::workload::submitted::in_hub_version;
use rollouts::reference::{self, is_same};
use rollouts::script::Scripts;
use rollouts::validation::{self, PARTITION_PERCENT_LIMIT};
use serde::Deserialize as _;
use serde_json::Value;
use simulator::Milliseconds;

/// The namespace of what names none.
const NAMESPACE: &str = "default";

/// A Rollout that leads a workload.
pub(super) struct Release {
    /// The Rollout as the API server stores it.
    pub(super) rollout: Value,
    /// What there is beside it and the workload, such as Services.
    pub(super) objects: Vec<Value>,
    /// After what time a step is approved; never where there is none.
    pub(super) approval: Option<Milliseconds>,
}

impl Release {
    /// The Rollout of a workload, if it has one.
    ///
    /// # Errors
    /// Admission would refuse it.
    pub(super) fn find(
        all: &Objects,
        workload: &Object,
        approval: Option<Milliseconds>,
    ) -> anyhow::Result<Option<Self>> {
        let reference = reference::to(&serde_json::from_str(&workload.json)?);
        let (mut rollout, mut objects) = (None, Vec::new());
        for object in all.iter() {
            let stored = stored(object).with_context(|| object.source.clone())?;
            if !is_rollout(object) {
                objects.push(stored);
            } else if is_same(&Rollout::deserialize(&stored)?.spec.workload_ref, &reference) {
                rollout = Some(stored);
            }
        }
        Ok(rollout.map(|rollout| Self { rollout, objects, approval }))
    }
}

fn is_rollout(object: &Object) -> bool {
    object.group() == api::ROLLOUTS_GROUP && object.kind == KIND
}

/// An object as it is stored. A Rollout is one that admission lets in.
fn stored(object: &Object) -> anyhow::Result<Value> {
    let mut value: Value = if is_rollout(object) {
        let context = validation::Context {
            others: &[],
            partition_percent_limit: PARTITION_PERCENT_LIMIT,
            filter_workload_type: false,
            scripts: &Scripts::default(),
        };
        if let Some(denial) = validation::review(&object.json, None, &context).denial() {
            bail!(denial.message.clone());
        }
        let stored = in_hub_version(&object.json, API_VERSION).map_err(|denial| anyhow!(denial.message))?;
        serde_json::from_str(&stored)?
    } else {
        serde_json::from_str(&object.json)?
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("namespace").or_insert_with(|| NAMESPACE.into());
    }
    Ok(value)
}
