//! Histories of BroadcastJobs, each from one seed, as those of CloneSets.

use api::kinds::broadcastjob::{BroadcastJob, FailurePolicyType, Spec};
use api::kinds::shared::CompletionPolicyType;

use super::history::{Dice, Script, int, percent, settings};
use super::*;
use crate::NodeEdit;
use kinds::broadcastjob::plan;
use kinds::workload::action::{Action, DeleteReason};
use kinds::workload::object_version::ObjectVersion;

/// What makes a BroadcastJob, kept apart so that an edit changes one thing.
struct Author {
    dice: Dice,
    spec: Spec,
    restart_policy: &'static str,
    is_flaky: bool,
    image: u64,
    containers: u64,
}

impl Author {
    fn new(mut dice: Dice) -> Self {
        let mut spec = Spec::default();
        let policy = &mut spec.completion_policy;
        if dice.percent(25) {
            policy.kind = Some(CompletionPolicyType::Never);
        } else {
            policy.active_deadline_seconds = dice.of(&[None, None, None, Some(5), Some(30), Some(120)]);
            policy.ttl_seconds_after_finished = dice.of(&[None, None, Some(0), Some(5), Some(60)]);
        }
        let policies = [FailurePolicyType::FailFast, FailurePolicyType::Continue, FailurePolicyType::Pause];
        spec.failure_policy.kind = Some(dice.of(&policies));
        spec.failure_policy.restart_limit = dice.of(&[None, Some(1), Some(3)]);
        spec.paused = dice.percent(5);
        let mut author = Self {
            restart_policy: dice.of(&["Never", "OnFailure"]),
            is_flaky: dice.percent(40),
            image: 0,
            containers: dice.of(&[1, 1, 2]),
            spec,
            dice,
        };
        author.parallelism();
        author.write();
        author
    }

    fn write(&mut self) {
        let Self { restart_policy, is_flaky, image, .. } = self;
        let image = format!("{}app:v{image}", if *is_flaky { "flaky" } else { "" });
        let containers =
            (0..self.containers).rev().map(|index| format!(r#"{{"name":"c{index}","image":"{image}"}}"#));
        let containers: Vec<String> = containers.collect();
        let text = format!(
            r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"restartPolicy":"{restart_policy}","containers":[{}]}}}}"#,
            containers.join(",")
        );
        self.spec.template = Some(api::Raw::parse(text).unwrap());
    }

    fn parallelism(&mut self) {
        let limits = [None, None, Some(int(1)), Some(int(2)), Some(percent("50%")), Some(percent("10%"))];
        self.spec.parallelism = self.dice.of(&limits);
    }
}

impl Script<BroadcastJob> for Author {
    fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    fn workload(&self) -> BroadcastJob {
        BroadcastJob { spec: self.spec.clone(), ..BroadcastJob::default() }
    }

    fn step(&mut self) -> Step<BroadcastJob> {
        match self.dice.below(100) {
            0..=9 => {
                self.image += 1;
                self.write();
            }
            10..=19 => self.parallelism(),
            20..=29 => self.spec.paused = !self.spec.paused,
            30..=54 => {
                let edits = [
                    NodeEdit::Taint(Some("NoSchedule")),
                    NodeEdit::Taint(Some("NoExecute")),
                    NodeEdit::Taint(None),
                    NodeEdit::Cordon(true),
                    NodeEdit::Leave,
                    NodeEdit::Join,
                    NodeEdit::Join,
                ];
                return Step::EditNode(self.dice.number(6), self.dice.of(&edits));
            }
            55..=62 => return Step::Delete(self.dice.number(8)),
            63..=70 => return Step::Kill(self.dice.number(8)),
            71..=75 => return Step::Evict(self.dice.number(8)),
            76..=80 => {
                let recovers = self.dice.of(&[2_000, 10_000, 30_000]);
                return Step::FailNode(self.dice.number(4), Some(recovers));
            }
            81..=87 => return Step::Crash,
            88..=93 => {
                let relents = self.dice.of(&[2_000, 10_000, 60_000]);
                return Step::Refuse(self.dice.number(8), Some(relents));
            }
            _ => return Step::LoseWatch(self.dice.number(4), 500 + self.dice.below(20_000)),
        }
        Step::Amend(Box::new(self.spec.clone()))
    }

    fn conclude(&mut self) -> Vec<Step<BroadcastJob>> {
        self.spec.paused = false;
        if self.spec.failure_policy.kind == Some(FailurePolicyType::Pause) {
            self.spec.failure_policy.kind = Some(FailurePolicyType::Continue);
        }
        let free = (0..12).flat_map(|index| {
            [NodeEdit::Taint(None), NodeEdit::Cordon(false)].map(|edit| Step::EditNode(index, edit))
        });
        free.chain([Step::Amend(Box::new(self.spec.clone()))]).collect()
    }
}

fn history(seed: u64) -> History<BroadcastJob> {
    let mut dice = Dice::new(seed ^ 0xb0c7);
    let mut settings = settings(seed, &mut dice);
    settings.nodes = 1 + dice.number(5);
    History::new(settings, Author::new(dice))
}

#[test]
fn no_history_of_a_broadcast_job_breaks_a_rule_and_all_come_to_rest() {
    all_come_to_rest(history, 2);
}

#[test]
fn one_history_of_a_broadcast_job() {
    one(history);
}

#[test]
fn histories_of_broadcast_jobs_come_to_every_end() {
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..200 {
        let (cluster, _) = history(seed).run(&plan, false);
        let job = &cluster.server.workload;
        *ends.entry(job.status.phase.clone()).or_default() += 1;
        if job.metadata.deletion_timestamp.is_some() {
            *ends.entry("deleted".to_owned()).or_default() += 1;
        }
    }
    assert!(["completed", "failed", "running", "deleted"].iter().all(|end| ends[*end] >= 10), "{ends:?}");
}

fn noticed(rule: &str, planner: Planner<'_, BroadcastJob>) {
    super::noticed(history, (0..2_000, &[rule]), planner);
}

#[test]
fn a_planner_of_jobs_that_does_not_look_at_taints_is_noticed() {
    noticed("Fit", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            // A share of more Nodes would break another rule first.
            if spec.parallelism.is_some() {
                return;
            }
            let template = spec.template.as_ref().unwrap().get();
            let text =
                template.replacen(r#""spec":{"#, r#""spec":{"tolerations":[{"operator":"Exists"}],"#, 1);
            spec.template = Some(api::Raw::parse(text).unwrap());
        })
    });
}

#[test]
fn a_planner_of_jobs_that_ignores_parallelism_is_noticed() {
    noticed("Parallel", &|snapshot, moment| plan_with(snapshot, moment, |spec| spec.parallelism = None));
}

#[test]
fn a_planner_of_jobs_that_forgets_what_succeeded_is_noticed() {
    noticed("Twice", &|snapshot, moment| {
        let has_not_succeeded = |pod: &&Arc<ObservedPod>| &*pod.status.phase != "Succeeded";
        let pods: Vec<_> = snapshot.pods.iter().filter(has_not_succeeded).cloned().collect();
        plan(&Snapshot { pods: &pods, ..*snapshot }, moment)
    });
}

#[test]
fn a_planner_of_jobs_that_does_not_pause_is_noticed() {
    noticed("Held", &|snapshot, moment| plan_with(snapshot, moment, |spec| spec.paused = false));
}

#[test]
fn a_planner_that_deletes_its_job_at_once_is_noticed() {
    noticed("Time", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.completion_policy.ttl_seconds_after_finished = Some(0))
    });
}

#[test]
fn a_planner_that_deletes_what_succeeded_on_a_cordoned_node_is_noticed() {
    noticed("Kept", &|snapshot, moment| {
        let mut planned = plan(snapshot, moment);
        let is_cordoned = |pod: &&Arc<ObservedPod>| {
            let node = pod.spec.node().and_then(|node| snapshot.nodes.get(node));
            &*pod.status.phase == "Succeeded" && node.is_some_and(|node| node.unschedulable)
        };
        let unwanted = snapshot.pods.iter().filter(is_cordoned).map(|pod| Action::DeletePod {
            pod: ObjectVersion::pod(pod),
            claims: Vec::new(),
            reason: DeleteReason::Misplaced,
        });
        planned.scale.extend(unwanted);
        planned
    });
}
