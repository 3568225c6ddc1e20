//! `kutter explain rollout`: where a release stands, what it waits for, and what comes next.

use anyhow::Context;
use api::annotations::IN_PROGRESSING;
use api::kinds::rollout::{API_VERSION, KIND, Phase, Rollout};
use rollouts::explanation::explain;
use rollouts::object::{Object as _, ObjectName};
use rollouts::workload::version_of;
use serde_json::{Value, json};

use super::{Shown, Site, lines, of_object};
use crate::asked::Asked;

/// Explains the Rollout; well if no release is running.
pub(super) async fn of_rollout(site: &Site<'_>) -> anyhow::Result<Shown> {
    let Site { client, namespace, name, .. } = *site;
    let asked = Asked::new(client, namespace);
    let rollout: Option<Rollout> = asked.find(&ObjectName::new(API_VERSION, KIND, namespace, name)).await?;
    let rollout = rollout.with_context(|| format!("there is no {KIND} {name} in namespace {namespace}"))?;
    let reference = &rollout.spec.workload_ref;
    let workload = ObjectName::new(version_of(reference), &reference.kind, namespace, &reference.name);
    let workload = asked.find(&workload).await?;
    let found = asked.decide(|view| explain(&rollout, view)).await?;
    let is_complete = is_at_rest(&rollout, workload.as_ref());
    let state = if is_complete { "at rest" } else { "waiting" };
    let status = &rollout.status;
    let json =
        json!({"namespace": namespace, "phase": status.phase, "message": status.message, "lines": found});
    let text =
        || lines(format!("{KIND} {namespace}/{name}: {state}"), found.iter().map(|line| format!("  {line}")));
    Ok(site.shown(is_complete, text, of_object(KIND, name, is_complete, json)))
}

/// No release is running, nor about to begin.
fn is_at_rest(rollout: &Rollout, workload: Option<&Value>) -> bool {
    let is_observed = rollout.status.observed_generation == rollout.metadata.generation;
    let is_still = matches!(rollout.status.phase, Phase::Healthy | Phase::Disabled);
    let is_held = workload.is_some_and(|workload| workload.annotation(IN_PROGRESSING).is_some());
    is_observed && is_still && !is_held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_rests_once_it_has_seen_that_nothing_is_to_be_released() {
        let rollout = |observed: i64, phase: &str| -> Rollout {
            let rollout = json!({"metadata": {"name": "web", "generation": 2}, "spec": {},
                "status": {"observedGeneration": observed, "phase": phase}});
            serde_json::from_value(rollout).unwrap()
        };
        let held = json!({"metadata": {"annotations": {IN_PROGRESSING: "{}"}}});
        let free = json!({"metadata": {}});
        assert!(is_at_rest(&rollout(2, "Healthy"), Some(&free)));
        assert!(is_at_rest(&rollout(2, "Disabled"), None));
        assert!(!is_at_rest(&rollout(1, "Healthy"), Some(&free)));
        assert!(!is_at_rest(&rollout(2, "Healthy"), Some(&held)));
        assert!(!is_at_rest(&rollout(2, "Progressing"), Some(&free)));
    }
}
