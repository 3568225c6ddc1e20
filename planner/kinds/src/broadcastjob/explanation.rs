//! Why a job does not end: which Pods it waits for, and what holds it back ([`crate::workload::explanation`]).

use api::kinds::broadcastjob::Status;

use super::fit::Misfit;
use super::working::{Class, JobPod, Working};
use super::{is_finished, stays};
use crate::workload::blocked_pod::not_ready_since;
use crate::workload::explanation::{Blocker, Explanation, NAMED};

/// Explains what a plan found; `status` is what it comes to.
pub(super) fn explain(working: &Working<'_>, status: &Status, is_moving: bool) -> Explanation {
    let job = working.job();
    let done = working.slots.values().filter(|slot| slot.is_done()).count();
    let (desired, lacking) = (working.desired(), working.lacking().count());
    let is_over = is_finished(job) || matches!(status.phase.as_str(), "completed" | "failed");
    let is_idle = stays(job) && lacking == 0 && done == desired;
    let limits = if is_over { ending(status) } else { held_back(working, status) };
    let summary = match is_over {
        true => format!(
            "the job is {}: {} Pods succeeded, {} failed",
            status.phase,
            status.succeeded.unwrap_or(0),
            status.failed.unwrap_or(0)
        ),
        false => format!(
            "{desired} Nodes are to run a Pod to its end; {done} have, {} run one now",
            working.active()
        ),
    };
    let blockers = if is_over { Vec::new() } else { working.pods().filter_map(blocker).collect() };
    Explanation { summary, is_complete: is_over || is_idle, is_moving, limits, blockers }
}

/// Why the job has failed.
fn ending(status: &Status) -> Vec<String> {
    let failures = status.conditions.iter().filter(|condition| condition.kind == "Failed");
    failures.map(|failure| failure.message.clone()).collect()
}

/// What holds the job back now.
fn held_back(working: &Working<'_>, status: &Status) -> Vec<String> {
    let mut limits = Vec::new();
    let (active, lacking) = (working.active(), working.lacking().count());
    let used_up = working.parallelism().filter(|limit| lacking > 0 && active >= *limit);
    if working.job().spec.paused {
        limits.push("paused: no Pod is created, and the job does not end".to_owned());
    } else if status.phase == "paused" {
        limits.push("failurePolicy Pause: it waits until no failed Pod is left".to_owned());
    } else if let Some(limit) = used_up {
        limits.push(format!("parallelism {limit} is used up: {lacking} Nodes wait"));
    }
    if working.desired() == 0 {
        limits.push("no Node suits the template".to_owned());
    }
    limits.extend(passed_over(working));
    limits
}

/// Which Nodes have no Pod though the template selects them, and why.
fn passed_over(working: &Working<'_>) -> Option<String> {
    let unsuited = || {
        let empty = working.slots.iter().filter(|(_, slot)| slot.pods.is_empty());
        empty.filter_map(|(name, slot)| {
            slot.misfit.as_ref().filter(|why| **why != Misfit::NotSelected).map(|why| (*name, why))
        })
    };
    let count = unsuited().count();
    let mut named: Vec<String> = unsuited().take(NAMED).map(|(name, why)| format!("{name} {why}")).collect();
    if count > NAMED {
        named.push(format!("{} more", count - NAMED));
    }
    (count > 0).then(|| format!("{count} Nodes do not suit: {}", named.join(", ")))
}

/// What the job waits for at this Pod.
fn blocker(pod: &JobPod<'_>) -> Option<Blocker> {
    let node = pod.pod.spec.node().unwrap_or("no Node");
    let (reason, message, remedy) = match pod.class {
        Class::Succeeded | Class::Failed => return None,
        Class::Active if pod.pod.spec.node_name.is_empty() => {
            ("Unschedulable", format!("for {node} is not there yet"), "see the Events of the Pod")
        }
        Class::Active => ("Running", format!("on {node} has not ended"), "see the logs of the Pod"),
        Class::Broken => (
            "Restarts",
            format!("on {node} restarted more often than restartLimit"),
            "see the logs of the Pod",
        ),
        Class::Ending => ("Terminating", format!("on {node} is ending"), "on a lost Node delete it by force"),
    };
    Some(Blocker::of_pod(&pod.pod.metadata.name, reason, message, remedy, not_ready_since(pod.pod)))
}
