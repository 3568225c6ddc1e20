//! Why a release stands where it stands, as `kutter explain` prints it.

use api::kinds::batchrelease::{self, BatchRelease};
use api::kinds::rollout::{ConditionType, Phase, ReleaseStatus, Rollout, Step, StepState, StrategyKind};
use api::kinds::shared::{ConditionStatus, IntOrString};

use crate::batch_release;
use crate::object::ObjectName;
use crate::view::{Unread, View};
use crate::workload::{self, Style, Workload};

#[cfg(test)]
mod tests;

/// Where a release stands, what it waits for, and what comes next: a line each.
///
/// # Errors
/// Something has not been read.
pub fn explain(rollout: &Rollout, view: &View) -> Result<Vec<String>, Unread> {
    let strategy = &rollout.spec.strategy;
    let style = Style::of(strategy, &rollout.spec.workload_ref);
    let workload = workload::read(&rollout.spec.workload_ref, &rollout.metadata.namespace, style, view)?;
    let mut lines = vec![summary(rollout, style)];
    match &workload {
        Some(workload) => lines.push(versions(workload)),
        None => lines.push("the workload is not there, or is of a kind that can't be released".to_owned()),
    }
    let release = strategy.kind().and_then(|kind| rollout.status.release(kind));
    if let Some(release) = release.filter(|_| rollout.status.phase.is_releasing()) {
        lines.push(format!("step: {}", step(strategy.steps(), release)));
        lines.extend(batches(rollout, workload.as_ref(), view)?);
    }
    if !rollout.status.message.is_empty() {
        lines.push(format!("waits: {}", rollout.status.message));
    }
    let stalled = rollout.status.condition(&ConditionType::Stalled);
    if let Some(stalled) = stalled.filter(|stalled| stalled.status == ConditionStatus::True) {
        lines.push(format!("stalled: {}", stalled.message));
    }
    if let Some(release) = release.filter(|_| rollout.status.phase == Phase::Progressing) {
        lines.extend(next(rollout, release));
    }
    Ok(lines)
}

fn summary(rollout: &Rollout, style: Style) -> String {
    let phase = match &rollout.status.phase {
        Phase::Unset => "not looked at yet".to_owned(),
        phase => word(phase),
    };
    let condition = rollout.status.condition(&ConditionType::Progressing);
    let reason = condition.map(|condition| format!(", {}", word(&condition.reason)));
    let reason = reason.filter(|_| rollout.status.phase == Phase::Progressing).unwrap_or_default();
    let style = match style {
        Style::Partition => "in batches",
        Style::Canary => "with a second Deployment",
        Style::BlueGreen => "blue-green",
    };
    let reference = &rollout.spec.workload_ref;
    format!("{phase}{reason}: releases {} {} {style}", reference.kind, reference.name)
}

/// A word of the API as it is written.
fn word(word: &impl serde::Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn versions(workload: &Workload) -> String {
    let Workload { replicas, updated_replicas, updated_ready_replicas, .. } = workload;
    let known = |revision: &str| if revision.is_empty() { "unknown" } else { revision }.to_owned();
    let (new, old) = (known(&workload.update_revision), known(&workload.stable_revision));
    let held = if workload.in_progressing.is_some() { "held by a release" } else { "not held" };
    format!(
        "pods: {updated_replicas} of {replicas} have new version {new}, {updated_ready_replicas} of these ready; \
         old version {old}; the workload is {held}"
    )
}

fn step(steps: &[Step], release: &ReleaseStatus) -> String {
    let index = release.current_step_index;
    let (count, state) = (steps.len(), word(&release.current_step_state));
    let wanted = usize::try_from(index).ok().and_then(|index| steps.get(index.checked_sub(1)?));
    format!("{index} of {count} ({}), {state}", wanted.map(wants).unwrap_or_default())
}

/// What a step wants, in words.
fn wants(step: &Step) -> String {
    let pods = match &step.replicas {
        None => "no pods".to_owned(),
        Some(IntOrString::Int(number)) => format!("{number} pods new"),
        Some(IntOrString::String(share)) => format!("{share} of pods new"),
    };
    match (&step.traffic, step.matches.len()) {
        (None, 0) => pods,
        (Some(share), 0) => format!("{pods}, {share} of requests"),
        (_, 1) => format!("{pods}, requests by 1 match"),
        (_, matches) => format!("{pods}, requests by {matches} matches"),
    }
}

fn batches(rollout: &Rollout, workload: Option<&Workload>, view: &View) -> Result<Option<String>, Unread> {
    let (namespace, name) = (&rollout.metadata.namespace, &rollout.metadata.name);
    let name = ObjectName::new(batchrelease::API_VERSION, batchrelease::KIND, namespace, name);
    let Some(object) = view.object(&name)? else { return Ok(Some("batches: no BatchRelease".to_owned())) };
    let release: BatchRelease = serde_json::from_value(object.clone()).unwrap_or_default();
    let phase = word(&release.status.phase);
    let waits = match workload {
        Some(workload) => batch_release::waiting(&release, workload, view)?,
        None => None,
    };
    Ok(Some(match waits {
        Some(waits) => format!("batches: {phase}; {waits}"),
        None => format!("batches: {phase}"),
    }))
}

/// What comes after the present step, and what brings it about.
fn next(rollout: &Rollout, release: &ReleaseStatus) -> Vec<String> {
    let strategy = &rollout.spec.strategy;
    let steps = strategy.steps();
    let index = usize::try_from(release.current_step_index).unwrap_or(0);
    let mut lines = Vec::new();
    if strategy.paused {
        lines.push("remedy: set strategy.paused to false".to_owned());
    } else if release.current_step_state == StepState::StepPaused {
        let is_manual = index
            .checked_sub(1)
            .and_then(|at| steps.get(at))
            .is_some_and(|step| step.pause.duration.is_none());
        if is_manual {
            lines.push(format!("remedy: kubectl kruise rollout approve rollout/{}", rollout.metadata.name));
        }
    }
    lines.push(match (steps.get(index), strategy.kind()) {
        (Some(step), _) => format!("then: step {} ({})", index.saturating_add(1), wants(step)),
        (None, Some(StrategyKind::BlueGreen)) => {
            "then: all traffic goes to new pods, and old ones go".to_owned()
        }
        (None, _) => "then: all pods get the new version, and the network is as before".to_owned(),
    });
    lines
}
