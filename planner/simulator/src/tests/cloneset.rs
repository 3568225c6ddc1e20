//! Histories of CloneSets, each from one seed.

use api::Raw;
use api::features::Feature;
use api::kinds::cloneset::{CloneSet, Spec};
use api::kinds::shared::{PodUpdatePolicy, UpdateStrategyType};

use super::history::{Dice, Script, Template, int, lifecycle, percent, settings};
use super::*;
use crate::cloneset::Edit;

/// What makes a CloneSet, kept apart so that an edit changes one thing.
struct Author {
    dice: Dice,
    spec: Spec,
    template: Template,
    former: Vec<Template>,
}

impl Author {
    fn new(dice: Dice) -> Self {
        let mut author =
            Self { dice, spec: Spec::default(), template: Template::default(), former: Vec::new() };
        author.begin();
        author
    }

    fn begin(&mut self) {
        let dice = &mut self.dice;
        let big = dice.percent(8);
        let replicas = if big { 5 + dice.below(4) } else { dice.below(4) + u64::from(dice.percent(90)) };
        self.template.sidecar = dice.percent(30).then_some(0);
        self.template.is_ordered = dice.percent(60);
        self.template.is_hooked = dice.percent(20);
        let spec = &mut self.spec;
        spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
        spec.replicas = Some(replicas as i32);
        spec.min_ready_seconds = Some(dice.of(&[0, 0, 0, 3]));
        spec.revision_history_limit = Some(dice.of(&[10, 10, 10, 1, 0]));
        if dice.percent(25) {
            let claim = |name: &str| {
                format!(
                    r#"{{"metadata":{{"name":"{name}"}},"spec":{{"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
                )
            };
            let names: &[&str] = if dice.percent(30) { &["data", "logs"] } else { &["data"] };
            let claims: Vec<String> = names.iter().map(|name| claim(name)).collect();
            spec.volume_claim_templates = Some(Raw::parse(format!("[{}]", claims.join(","))).unwrap());
            spec.scale_strategy.enable_pvc_reuse = dice.percent(50);
        }
        spec.scale_strategy.exclude_preparing_delete = dice.percent(10);
        if dice.percent(10) {
            spec.scale_strategy.max_unavailable = Some(dice.of(&[int(1), int(2), percent("50%")]));
        }
        let rolling = &mut spec.update_strategy.rolling_update;
        rolling.pod_update_policy = Some(dice.of(&[
            PodUpdatePolicy::ReCreate,
            PodUpdatePolicy::InPlaceIfPossible,
            PodUpdatePolicy::InPlaceIfPossible,
            PodUpdatePolicy::InPlaceOnly,
        ]));
        if dice.percent(12) {
            rolling.in_place_update_strategy.grace_period_seconds = Some(2);
        }
        if dice.percent(4) {
            spec.update_strategy.kind = Some(UpdateStrategyType::OnDelete);
        }
        if self.template.is_hooked {
            self.spec.lifecycle = lifecycle(&mut self.dice);
        }
        self.budgets();
        self.partition();
        self.spec.template = Some(self.template.json());
    }

    fn is_in_place_only(&self) -> bool {
        self.spec.update_strategy.rolling_update.pod_update_policy == Some(PodUpdatePolicy::InPlaceOnly)
    }

    /// maxUnavailable and maxSurge as validation lets them be.
    fn budgets(&mut self) {
        let in_place_only = self.is_in_place_only();
        let dice = &mut self.dice;
        let surge = if in_place_only || dice.percent(55) {
            int(0)
        } else {
            dice.of(&[int(1), int(2), percent("25%"), percent("100%")])
        };
        let unavailable = if surge == int(0) {
            dice.of(&[int(1), int(1), int(2), percent("20%"), percent("50%"), percent("100%")])
        } else {
            dice.of(&[int(0), int(0), int(1), int(2), percent("20%"), percent("50%")])
        };
        let rolling = &mut self.spec.update_strategy.rolling_update;
        rolling.max_surge = Some(surge);
        rolling.max_unavailable = Some(unavailable);
    }

    fn partition(&mut self) {
        let dice = &mut self.dice;
        let partition = match dice.below(10) {
            0..=5 => int(0),
            6 => percent("50%"),
            7 => percent("99%"),
            _ => int(dice.below(5)),
        };
        self.spec.update_strategy.rolling_update.partition = Some(partition);
    }

    fn template(&mut self) {
        self.former.push(self.template);
        let in_place_only = self.is_in_place_only();
        let on_delete = self.spec.update_strategy.kind.is_some();
        let dice = &mut self.dice;
        let template = &mut self.template;
        let kind = dice.below(if in_place_only { 11 } else { 13 });
        match kind {
            0..=3 => template.image += 1,
            4 => template.label += 1,
            5 | 6 => {
                template.image += 1;
                template.sidecar = template.sidecar.map(|image| image + 1);
            }
            7 => {
                template.image += 1;
                template.is_bad = !template.is_bad && !on_delete;
            }
            8 | 9 => match &mut template.sidecar {
                Some(image) => {
                    *image += 1;
                    template.is_side_bad = kind == 9 && !template.is_side_bad && !on_delete;
                }
                None => template.image += 1,
            },
            10 => template.proxy += 1,
            _ => template.variable += 1,
        }
        self.spec.template = Some(template.json());
    }

    fn rollback(&mut self) {
        let in_place_only = self.is_in_place_only();
        let present = self.template;
        let fits = |template: &Template| !in_place_only || template.variable == present.variable;
        if let Some(former) = self.former.iter().rev().copied().find(fits) {
            self.former.push(present);
            self.template = former;
            self.spec.template = Some(former.json());
        }
    }
}

impl Script<CloneSet> for Author {
    const TAKES_OVER: bool = true;

    fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    fn workload(&self) -> CloneSet {
        CloneSet { spec: self.spec.clone(), ..CloneSet::default() }
    }

    fn step(&mut self) -> Step<CloneSet> {
        match self.dice.below(104) {
            0..=27 => self.template(),
            28..=34 => self.rollback(),
            35..=43 => {
                let replicas = self.dice.below(if self.dice.clone().percent(10) { 9 } else { 6 });
                self.spec.replicas = Some(replicas as i32);
                let hooks = &mut self.spec.lifecycle;
                if let Some(hook) = hooks.pre_delete.as_mut().filter(|_| self.dice.percent(25)) {
                    hook.mark_pod_not_ready = false;
                }
            }
            44..=49 => self.partition(),
            50..=53 => self.budgets(),
            54..=57 => {
                let rolling = &mut self.spec.update_strategy.rolling_update;
                rolling.paused = !rolling.paused;
            }
            58..=59 => self.spec.min_ready_seconds = Some(self.dice.of(&[0, 2, 120])),
            60 => {
                let policies = [PodUpdatePolicy::ReCreate, PodUpdatePolicy::InPlaceIfPossible];
                self.spec.update_strategy.rolling_update.pod_update_policy = Some(self.dice.of(&policies));
            }
            61 if self.template.is_hooked => self.spec.lifecycle = lifecycle(&mut self.dice),
            61..=66 => return Step::Edit(Edit::Name(self.dice.number(8), self.dice.clone().percent(50))),
            67..=71 => return Step::Mark(self.dice.number(8)),
            72 => return Step::Unmark,
            73..=78 => return Step::Delete(self.dice.number(8)),
            79..=80 => return Step::TakeOut(self.dice.number(8)),
            81..=84 => return Step::Kill(self.dice.number(8)),
            85..=87 => return Step::Evict(self.dice.number(8)),
            88..=91 => {
                let recovers = self.dice.of(&[None, Some(2_000), Some(10_000), Some(30_000)]);
                return Step::FailNode(self.dice.number(3), recovers);
            }
            92..=95 => return Step::Crash,
            100..=103 => {
                let relents = self.dice.of(&[None, Some(2_000), Some(10_000), Some(60_000)]);
                return Step::Refuse(self.dice.number(8), relents);
            }
            _ => return Step::LoseWatch(self.dice.number(4), 500 + self.dice.below(20_000)),
        }
        Step::Amend(Box::new(self.spec.clone()))
    }

    fn conclude(&mut self) -> Vec<Step<CloneSet>> {
        let before = self.spec.clone();
        let fails = |template: &Template| template.is_bad || template.is_side_bad;
        let has_failed = fails(&self.template) || self.former.iter().any(fails);
        (self.template.is_bad, self.template.is_side_bad) = (false, false);
        self.spec.template = Some(self.template.json());
        let rolling = &mut self.spec.update_strategy.rolling_update;
        if has_failed {
            rolling.partition = None;
        }
        if has_failed || self.dice.percent(60) {
            rolling.paused = false;
        }
        let edit = (self.spec != before).then(|| Step::Amend(Box::new(self.spec.clone())));
        edit.into_iter().collect()
    }
}

pub(super) fn history(seed: u64) -> History<CloneSet> {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let gates = [
        (Feature::CloneSetPartitionRollback, 15),
        (Feature::PreparingUpdateAsUpdate, 10),
        (Feature::CloneSetShortHash, 10),
    ];
    let gates = gates.into_iter().fold(FeatureGates::default(), |gates, (gate, cases)| {
        let enabled = dice.percent(cases);
        gates.with(gate, enabled)
    });
    let settings = Settings { gates, ..settings(seed, &mut dice) };
    History::new(settings, Author::new(dice))
}
