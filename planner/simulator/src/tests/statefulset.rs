//! Histories of StatefulSets, each from one seed, as those of CloneSets.

use api::kinds::shared::{PodUpdatePolicy, UpdateStrategyType};
use api::kinds::statefulset::{ClaimRetention, PodManagementPolicy, Spec, StatefulSet, UnorderedUpdate};

use super::history::{Dice, Script, Template, int, lifecycle, percent, settings};
use super::*;
use crate::statefulset::Edit;

/// What makes a StatefulSet, kept apart so that an edit changes one thing.
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
        let parallel = dice.percent(55);
        spec.pod_management_policy =
            Some(if parallel { PodManagementPolicy::Parallel } else { PodManagementPolicy::OrderedReady });
        spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
        spec.replicas = Some(1 + dice.below(5) as i32);
        spec.revision_history_limit = Some(dice.of(&[10, 10, 1, 0]));
        if dice.percent(40) {
            let claim =
                r#"[{"metadata":{"name":"data"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}]"#;
            spec.volume_claim_templates = Some(api::Raw::parse(claim.to_owned()).unwrap());
            let mut retention = || Some(dice.of(&[ClaimRetention::Retain, ClaimRetention::Delete]));
            spec.persistent_volume_claim_retention_policy.when_deleted = retention();
            spec.persistent_volume_claim_retention_policy.when_scaled = retention();
        }
        let rolling = &mut spec.update_strategy.rolling_update;
        rolling.min_ready_seconds = Some(dice.of(&[0, 0, 0, 3]));
        rolling.pod_update_policy = Some(dice.of(&[
            PodUpdatePolicy::ReCreate,
            PodUpdatePolicy::InPlaceIfPossible,
            PodUpdatePolicy::InPlaceIfPossible,
        ]));
        rolling.max_unavailable = Some(dice.of(&[int(1), int(2), percent("50%"), percent("100%")]));
        if parallel {
            rolling.unordered_update = dice.percent(25).then(UnorderedUpdate::default);
            if dice.percent(20) {
                spec.scale_strategy.max_unavailable = Some(dice.of(&[int(1), int(2), percent("50%")]));
            }
        }
        if dice.percent(5) {
            spec.update_strategy.kind = Some(UpdateStrategyType::OnDelete);
        }
        if template.is_hooked {
            spec.lifecycle = lifecycle(&mut dice);
        }
        let mut author = Self { dice, spec, template };
        author.partition();
        author.write();
        author
    }

    fn write(&mut self) {
        let text = self.template.json().get().replacen(
            r#""spec":{"#,
            r#""spec":{"readinessGates":[{"conditionType":"InPlaceUpdateReady"}],"#,
            1,
        );
        self.spec.template = Some(api::Raw::parse(text).unwrap());
    }

    fn partition(&mut self) {
        let partition = if self.dice.percent(60) { 0 } else { self.dice.below(5) as i32 };
        self.spec.update_strategy.rolling_update.partition = Some(partition);
    }

    fn template(&mut self) {
        let on_delete = self.spec.update_strategy.kind.is_some();
        let kind = self.dice.below(11);
        match kind {
            0..=3 => self.template.image += 1,
            4 => self.template.label += 1,
            5 if !on_delete => {
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

impl Script<StatefulSet> for Author {
    const TAKES_OVER: bool = true;

    fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    fn workload(&self) -> StatefulSet {
        StatefulSet { spec: self.spec.clone(), ..StatefulSet::default() }
    }

    fn step(&mut self) -> Step<StatefulSet> {
        match self.dice.below(100) {
            0..=29 => self.template(),
            30..=41 => self.spec.replicas = Some(self.dice.below(6) as i32),
            42..=48 => self.partition(),
            49..=50 => {
                let seconds = self.dice.of(&[0, 3, 120]);
                self.spec.update_strategy.rolling_update.min_ready_seconds = Some(seconds);
            }
            51..=53 => {
                let rolling = &mut self.spec.update_strategy.rolling_update;
                rolling.paused = !rolling.paused;
            }
            54..=62 => return Step::Edit(Edit::Reserve(self.dice.below(6) as i32)),
            63..=67 => return Step::Mark(self.dice.number(8)),
            68 => return Step::Unmark,
            69..=75 => return Step::Delete(self.dice.number(8)),
            76..=80 => return Step::Kill(self.dice.number(8)),
            81..=84 => return Step::Evict(self.dice.number(8)),
            85..=88 => {
                // A Pod of a node that stays away keeps its name.
                let recovers = self.dice.of(&[2_000, 10_000, 30_000]);
                return Step::FailNode(self.dice.number(3), Some(recovers));
            }
            89..=93 => return Step::Crash,
            94..=96 => {
                let relents = self.dice.of(&[2_000, 10_000, 60_000]);
                return Step::Refuse(self.dice.number(8), Some(relents));
            }
            _ => return Step::LoseWatch(self.dice.number(4), 500 + self.dice.below(20_000)),
        }
        Step::Amend(Box::new(self.spec.clone()))
    }

    fn conclude(&mut self) -> Vec<Step<StatefulSet>> {
        self.template.is_bad = false;
        self.write();
        let rolling = &mut self.spec.update_strategy.rolling_update;
        rolling.partition = None;
        rolling.paused = false;
        vec![Step::Amend(Box::new(self.spec.clone()))]
    }
}

fn history(seed: u64) -> History<StatefulSet> {
    let mut dice = Dice::new(seed ^ 0x5e7);
    let settings = settings(seed, &mut dice);
    History::new(settings, Author::new(dice))
}

#[test]
fn no_history_of_a_stateful_set_breaks_a_rule_and_all_come_to_rest() {
    all_come_to_rest(history, 2);
}

#[test]
fn one_history_of_a_stateful_set() {
    one(history);
}

fn noticed(rule: &str, planner: Planner<'_, StatefulSet>) {
    super::noticed(history, (0..2_000, &[rule]), planner);
}

#[test]
fn a_planner_that_ignores_the_budget_is_noticed() {
    noticed("Budget", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.update_strategy.rolling_update.max_unavailable = Some(int(100));
        })
    });
}

#[test]
fn a_planner_that_ignores_partition_is_noticed() {
    noticed("Partition", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.update_strategy.rolling_update.partition = None)
    });
}

#[test]
fn a_planner_that_ignores_the_order_is_noticed() {
    noticed("Order", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.pod_management_policy = Some(PodManagementPolicy::Parallel);
        })
    });
}

#[test]
fn a_planner_that_ignores_reserved_ordinals_is_noticed() {
    noticed("Slots", &|snapshot, moment| plan_with(snapshot, moment, |spec| spec.reserve_ordinals.clear()));
}

#[test]
fn a_planner_that_lets_claims_go_against_the_policy_is_noticed() {
    noticed("Claims", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| {
            spec.persistent_volume_claim_retention_policy.when_scaled = Some(ClaimRetention::Delete);
        })
    });
}

#[test]
fn a_planner_that_does_not_pause_is_noticed() {
    noticed("Held", &|snapshot, moment| {
        plan_with(snapshot, moment, |spec| spec.update_strategy.rolling_update.paused = false)
    });
}
