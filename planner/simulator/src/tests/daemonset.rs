//! Histories of DaemonSets, each from one seed, as those of CloneSets.

use api::kinds::daemonset::{DaemonSet, RollingUpdateType, Spec, Status};
use api::kinds::shared::{IntOrString, UpdateStrategyType};

use super::history::{Dice, Script, Template, int, lifecycle, percent, settings};
use super::*;
use crate::NodeEdit;
use crate::kind::is_at;
use kinds::daemonset::plan;
use pod::observed::PodCondition;

/// What makes a DaemonSet, kept apart so that an edit changes one thing.
struct Author {
    dice: Dice,
    spec: Spec,
    template: Template,
}

impl Author {
    fn new(mut dice: Dice) -> Self {
        let template = Template {
            is_hooked: dice.percent(15),
            sidecar: dice.percent(25).then_some(0),
            ..Template::default()
        };
        let mut spec = Spec::default();
        spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
        spec.revision_history_limit = Some(dice.of(&[10, 10, 1, 0]));
        spec.min_ready_seconds = Some(dice.of(&[0, 0, 0, 3]));
        if dice.percent(20) {
            spec.burst_replicas = Some(dice.of(&[int(1), percent("20%")]));
        }
        let rolling = &mut spec.update_strategy.rolling_update;
        if dice.percent(30) {
            rolling.max_surge = Some(dice.of(&[int(1), int(2), percent("50%")]));
            rolling.max_unavailable = Some(int(0));
        } else {
            rolling.max_unavailable =
                Some(dice.of(&[int(1), int(1), int(2), percent("50%"), percent("100%")]));
            let kinds = [RollingUpdateType::Standard, RollingUpdateType::InPlaceIfPossible];
            rolling.rolling_update_type = Some(dice.of(&kinds));
        }
        if dice.percent(5) {
            spec.update_strategy.kind = Some(UpdateStrategyType::OnDelete);
        }
        if template.is_hooked {
            spec.lifecycle = lifecycle(&mut dice);
            spec.lifecycle.in_place_update = None;
        }
        spec.scale_strategy.partitioned_scaling = dice.percent(10);
        let mut author = Self { dice, spec, template };
        author.partition();
        author.write();
        author
    }

    fn write(&mut self) {
        self.spec.template = Some(self.template.json());
    }

    fn partition(&mut self) {
        let partition = if self.dice.percent(60) { None } else { Some(int(self.dice.below(5))) };
        self.spec.update_strategy.rolling_update.partition = partition;
    }

    fn template(&mut self) {
        match self.dice.below(11) {
            0..=3 => self.template.image += 1,
            4 => self.template.label += 1,
            5 if self.spec.update_strategy.kind.is_none() => {
                self.template.image += 1;
                self.template.is_bad = !self.template.is_bad;
            }
            6 => self.template.sidecar = self.template.sidecar.map(|image| image + 1),
            7 => self.template.proxy += 1,
            _ => self.template.variable += 1,
        }
        self.write();
    }
}

impl Script<DaemonSet> for Author {
    fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    fn workload(&self) -> DaemonSet {
        DaemonSet { spec: self.spec.clone(), ..DaemonSet::default() }
    }

    fn step(&mut self) -> Step<DaemonSet> {
        match self.dice.below(100) {
            0..=29 => self.template(),
            30..=37 => self.partition(),
            38..=39 => self.spec.min_ready_seconds = Some(self.dice.of(&[0, 3, 120])),
            40..=42 => {
                let rolling = &mut self.spec.update_strategy.rolling_update;
                rolling.paused = !rolling.paused;
            }
            43..=66 => {
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
            67..=73 => return Step::Delete(self.dice.number(8)),
            74..=79 => return Step::Kill(self.dice.number(8)),
            80..=83 => return Step::Evict(self.dice.number(8)),
            84..=87 => {
                let recovers = self.dice.of(&[2_000, 10_000, 30_000]);
                return Step::FailNode(self.dice.number(4), Some(recovers));
            }
            88..=92 => return Step::Crash,
            93..=95 => {
                let relents = self.dice.of(&[2_000, 10_000, 60_000]);
                return Step::Refuse(self.dice.number(8), Some(relents));
            }
            _ => return Step::LoseWatch(self.dice.number(4), 500 + self.dice.below(20_000)),
        }
        Step::Amend(Box::new(self.spec.clone()))
    }

    fn conclude(&mut self) -> Vec<Step<DaemonSet>> {
        self.template.is_bad = false;
        self.write();
        let rolling = &mut self.spec.update_strategy.rolling_update;
        rolling.partition = None;
        rolling.paused = false;
        let free = (0..12).map(|index| Step::EditNode(index, NodeEdit::Taint(None)));
        free.chain([Step::Amend(Box::new(self.spec.clone()))]).collect()
    }
}

fn history(seed: u64) -> History<DaemonSet> {
    let mut dice = Dice::new(seed ^ 0xd5e7);
    let mut settings = settings(seed, &mut dice);
    settings.nodes = 1 + dice.number(5);
    History::new(settings, Author::new(dice))
}

#[test]
fn no_history_of_a_daemon_set_breaks_a_rule_and_all_come_to_rest() {
    all_come_to_rest(history, 2);
}

#[test]
fn one_history_of_a_daemon_set() {
    one(history);
}

fn noticed(rule: &str, planner: Planner<'_, DaemonSet>) {
    super::noticed(history, (0..2_000, &[rule]), planner);
}

#[test]
fn a_planner_that_takes_too_many_nodes_down_is_noticed() {
    noticed("Nodes", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            let rolling = &mut spec.update_strategy.rolling_update;
            if rolling.max_surge.is_none() {
                rolling.max_unavailable = Some(int(100));
            }
        })
    });
}

#[test]
fn a_planner_that_ignores_partition_is_noticed() {
    noticed("Partition", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.update_strategy.rolling_update.partition = None;
            spec.scale_strategy.partitioned_scaling = false;
        })
    });
}

/// The plan of a planner that takes old Pods for available ones where a partition may keep them.
fn plan_blind_to(
    snapshot: &Snapshot<'_, DaemonSet>,
    moment: Moment,
    unseen: impl Fn(&ObservedPod) -> bool,
) -> Plan<Status> {
    let rolling = &snapshot.workload.spec.update_strategy.rolling_update;
    let is_partitioned = matches!(rolling.partition, Some(IntOrString::Int(1..)));
    if !is_partitioned || rolling.max_surge.is_some() {
        return plan(snapshot, moment);
    }
    let newest = &snapshot.workload.status.update_revision;
    let ready = |pod: &Arc<ObservedPod>| {
        let mut pod = (**pod).clone();
        if pod.is_active() && !pod.is_ready() && !is_at(&pod, newest) && unseen(&pod) {
            pod.status.phase = "Running".into();
            let others = pod.status.conditions.iter().filter(|condition| &*condition.kind != "Ready");
            let mut ready = PodCondition::default();
            (ready.kind, ready.status) = ("Ready".into(), "True".into());
            pod.status.conditions = others.cloned().chain([ready]).collect();
        }
        Arc::new(pod)
    };
    let pods: Vec<_> = snapshot.pods.iter().map(ready).collect();
    plan(&Snapshot { pods: &pods, ..*snapshot }, moment)
}

#[test]
fn a_planner_that_keeps_what_is_not_available_is_noticed() {
    noticed("First", &|snapshot, moment| plan_blind_to(snapshot, moment, |_| true));
}

#[test]
fn a_planner_that_does_not_count_what_it_keeps_is_noticed() {
    // One history of some thousands shows it.
    super::noticed(history, (5_500..6_500, &["Nodes"]), &|snapshot, moment| {
        plan_blind_to(snapshot, moment, |pod| snapshot.held.contains_key(&pod.metadata.uid))
    });
}

#[test]
fn a_planner_that_does_not_look_at_taints_is_noticed() {
    noticed("Fit", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            let template = spec.template.as_ref().unwrap().get();
            let text =
                template.replacen(r#""spec":{"#, r#""spec":{"tolerations":[{"operator":"Exists"}],"#, 1);
            spec.template = Some(api::Raw::parse(text).unwrap());
        })
    });
}

#[test]
fn a_planner_that_does_not_pause_is_noticed() {
    noticed("Held", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.update_strategy.rolling_update.paused = false)
    });
}
