//! How the Pods of a UnitedDeployment are divided, and why, as `kutter explain` prints it.

use serde::Serialize;

use super::plan::{Plan, Snapshot, plan};
use super::template::Target;

/// What there is to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The subsets.
    pub subsets: Vec<SubsetExplanation>,
    /// What the controller would do next.
    pub next: Vec<String>,
    /// Why nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// There is nothing left to do, and all Pods are ready.
    pub is_complete: bool,
}

/// A subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubsetExplanation {
    /// Its name.
    pub name: String,
    /// Pods that it is to have.
    pub replicas: i32,
    /// Of these, those that are ready.
    pub ready: i32,
    /// Why it gets no more Pods, or what waits in it.
    pub why: Vec<String>,
}

/// Explains a UnitedDeployment.
pub fn explain(snapshot: &Snapshot<'_>) -> Explanation {
    let plan = plan(snapshot);
    let status = plan.status.as_ref().map(|draft| &draft.status);
    let reported = status.map(|status| status.subset_statuses.as_slice()).unwrap_or_default();
    let subsets: Vec<SubsetExplanation> = reported
        .iter()
        .map(|subset| SubsetExplanation {
            name: subset.name.clone(),
            replicas: subset.replicas.unwrap_or(0),
            ready: subset.ready_replicas.unwrap_or(0),
            why: why(&plan, &subset.name),
        })
        .collect();
    let next = next(&plan);
    let is_ready = subsets.iter().all(|subset| subset.ready >= subset.replicas);
    let is_complete = next.is_empty() && plan.problem.is_none() && is_ready;
    Explanation { subsets, next, problem: plan.problem, is_complete }
}

fn why(plan: &Plan, subset: &str) -> Vec<String> {
    let mut why = Vec::new();
    let Some(judgement) = plan.judgements.get(subset) else { return why };
    if let Some(condition) = judgement.condition.as_ref().filter(|_| judgement.is_unschedulable) {
        why.push(format!("it has no capacity for more Pods: {}", condition.message));
    }
    if judgement.reserved > 0 {
        why.push(format!("{} of its Pods wait for capacity or are not trusted yet", judgement.reserved));
    }
    if let Some(again) = judgement.again {
        why.push(format!("it is looked at again at {}", values::moment::rfc3339(again)));
    }
    why
}

fn next(plan: &Plan) -> Vec<String> {
    let revision = plan.revision.iter().map(|step| format!("record revision {}", step.name()));
    let adoptions = plan
        .adoptions
        .iter()
        .map(|(kind, patch)| format!("adopt {} {}", kind.display_name(), patch.observed.name));
    let creations = plan.creations.iter().map(|creation| match &creation.json {
        Ok(_) => format!("create the workload of subset {}", creation.subset),
        Err(problem) => format!("nothing for subset {}: {problem}", creation.subset),
    });
    let deletions = plan
        .deletions
        .iter()
        .map(|(kind, observed)| format!("delete {} {}", kind.display_name(), observed.name));
    let updates = plan.updates.iter().map(|(observed, target)| {
        let Target { replicas, partition, .. } = target;
        format!(
            "bring {} {} up to date: {replicas} replicas, partition {partition}",
            target.kind.display_name(),
            observed.name
        )
    });
    let labels =
        plan.labels.iter().map(|patch| format!("label Pod {} as reserved or not", patch.observed.name));
    let stuck = plan.stuck.iter().map(|pod| format!("delete Pod {}, which blocks its update", pod.name));
    let all =
        revision.chain(adoptions).chain(labels).chain(creations).chain(deletions).chain(updates).chain(stuck);
    all.collect()
}
