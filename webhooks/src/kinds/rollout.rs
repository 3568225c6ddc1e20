//! Rollouts: their own webhook, and the one that holds a workload back when its template changes. What is asked of the
//! cluster for that is in docs/behaviour/api-and-registration.md#workloads-of-rollouts.

use std::sync::Arc;

use admission::world::Watched;
use api::kinds::rollout::{API_VERSION, KIND, Phase, Rollout};
use api::labels::ROLLOUT_WORKLOAD_TYPE;
use informers::LookupError;
use informers::index::CacheState;
use kinds::workload::submitted::in_hub_version;
use rollouts::freeze;
use rollouts::object::{Object as _, ObjectName};
use rollouts::reference::{self, is_same};
use rollouts::script::{CONFIGURATION, Scripts};
use rollouts::validation::{Context, review};
use rollouts::view::{Unread, View};
use serde_json::Value;
use values::json_patch::Patch;
use values::verdict::{Denial, Verdict, refused};

use super::resource::Write;

/// What one review reads of the cluster at most.
const READS: usize = 10;

/// Checks a Rollout against itself, its former self and the others of its namespace.
pub(super) async fn validate(write: &Write<'_>) -> Verdict {
    if let Some(answer) = write.early_answer(&[]) {
        return answer;
    }
    let (others, scripts) = match tokio::try_join!(listed(write), scripts(write)) {
        Ok(known) => known,
        Err(denial) => return denial.into(),
    };
    let flags = &write.admission.flags;
    let context = Context {
        others: &others,
        partition_percent_limit: flags.partition_percent_limit,
        filter_workload_type: flags.filter_workload_type,
        scripts: &scripts,
    };
    review(write.object, write.old, &context)
}

/// Holds a workload back whose template changes, where a Rollout is to release it.
pub(super) async fn freeze(write: &Write<'_>) -> Verdict {
    let Some(old) = write.old else { return Verdict::allow() };
    if write.admission.index.cache_state(Watched::Rollout) == CacheState::Absent {
        return Verdict::allow();
    }
    let [old, new] = match [old, write.object].map(serde_json::from_str::<Value>) {
        [Ok(old), Ok(new)] => [old, new],
        [Err(error), _] | [_, Err(error)] => return refused(error).into(),
    };
    match present(write, &old, &new).await {
        Ok(rollouts) => frozen(write, &old, &new, &rollouts).await.map_or_else(Verdict::from, Verdict::edit),
        Err(denial) if [&old, &new].iter().any(|it| it.label(ROLLOUT_WORKLOAD_TYPE).is_some()) => {
            denial.into()
        }
        // It has hardly a Rollout, and must not depend on us.
        Err(Denial { message, .. }) => Verdict::Allow { edits: Patch::default(), warnings: vec![message] },
    }
}

/// The Rollouts among which that of the workload is. Where a release may begin they are read as they are now: one that ended
/// must not hold the workload any more, and one that was just created may not be known yet.
async fn present(write: &Write<'_>, old: &Value, new: &Value) -> Result<Vec<Arc<Rollout>>, Denial> {
    let workload = reference::to(new);
    let is_its = |rollout: &Rollout| is_same(&rollout.spec.workload_ref, &workload);
    let known = write.admission.index.world().rollouts_in(write.namespace);
    if let Some(candidate) = known.iter().find(|rollout| is_its(rollout)) {
        // One that is switched on again may still be known as it was.
        if candidate.status.phase != Phase::Disabled && !freeze::may_begin_release(old, new) {
            return Ok(vec![candidate.clone()]);
        }
        let name = (API_VERSION, KIND, candidate.metadata.name.as_str());
        match object(write, write.namespace, name).await.map(|found| found.and_then(|text| read(&text))) {
            Ok(Some(rollout)) if is_its(&rollout) => return Ok(vec![rollout]),
            Ok(_) => {}
            Err(_) => return Ok(vec![candidate.clone()]),
        }
    }
    listed(write).await
}

/// What the update gets beside what its author wants.
async fn frozen(
    write: &Write<'_>,
    old: &Value,
    new: &Value,
    rollouts: &[Arc<Rollout>],
) -> Result<Patch, Denial> {
    let mut view = View::default();
    for _ in 0..READS {
        let context = freeze::Context { rollouts, gates: write.gates(), view: &view };
        match freeze::review(old, new, &context) {
            Ok(edits) => return Ok(edits),
            Err(unread) => look_up(write, unread, &mut view).await?,
        }
    }
    Err(Denial::failed("holding the workload back needs too much of the cluster"))
}

async fn look_up(write: &Write<'_>, unread: Unread, view: &mut View) -> Result<(), Denial> {
    match unread {
        Unread::Object(name) => {
            let ObjectName { api_version, kind, namespace, name: own } = &name;
            let found = object(write, namespace, (api_version, kind, own)).await?;
            let found = found.map(|text| serde_json::from_str(&text)).transpose();
            view.has_object(name, found.map_err(|error| Denial::failed(error.to_string()))?);
        }
        Unread::List(name) => {
            let kind = (name.api_version.as_str(), name.kind.as_str());
            let objects = list(write, &name.namespace, kind, &name.selector).await?;
            view.has_list(name, objects);
        }
        Unread::PodsOf { .. } => return Err(Denial::failed("no Pods are read to hold a workload back")),
    }
    Ok(())
}

/// The Rollouts of the namespace, as the API server has them.
async fn listed(write: &Write<'_>) -> Result<Vec<Arc<Rollout>>, Denial> {
    let objects = list(write, write.namespace, (API_VERSION, KIND), "").await?;
    Ok(objects.iter().filter_map(|object| read(&object.to_string())).collect())
}

/// A Rollout in either version; `None` for one that can't be read, which releases nothing.
fn read(text: &str) -> Option<Arc<Rollout>> {
    let stored = in_hub_version(text, API_VERSION).ok()?;
    serde_json::from_str(&stored).ok().map(Arc::new)
}

/// The scripts of users.
async fn scripts(write: &Write<'_>) -> Result<Scripts, Denial> {
    let world = write.admission.index.world();
    let found = object(write, world.install_namespace(), ("v1", "ConfigMap", CONFIGURATION)).await?;
    let map = found.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    Ok(Scripts::of(map.as_ref()))
}

async fn object(
    write: &Write<'_>,
    namespace: &str,
    reference: (&str, &str, &str),
) -> Result<Option<String>, Denial> {
    let (_, kind, name) = reference;
    let reading = write.admission.lookup.object(namespace, reference);
    match write.deadline.within("reading what a Rollout needs", reading).await {
        Ok(found) => found.map_err(|error| not_read(&format!("{kind} {name}"), &error)),
        Err(slow) => Err(Denial::new(504, slow.to_string())),
    }
}

async fn list(
    write: &Write<'_>,
    namespace: &str,
    kind: (&str, &str),
    selector: &str,
) -> Result<Vec<Value>, Denial> {
    let reading = write.admission.lookup.list(namespace, kind, selector);
    match write.deadline.within("reading what a Rollout needs", reading).await {
        Ok(found) => found.map_err(|error| not_read(&format!("{}s", kind.1), &error)),
        Err(slow) => Err(Denial::new(504, slow.to_string())),
    }
}

fn not_read(what: &str, error: &LookupError) -> Denial {
    Denial::new(503, format!("{what} can't be read, try again: {error}"))
}
