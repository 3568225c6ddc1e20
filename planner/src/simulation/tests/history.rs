//! A history: a CloneSet, and what users and chance do to it and when.

use api::Raw;
use api::features::Feature;
use api::kinds::cloneset::Spec;
use api::kinds::shared::{IntOrString, Lifecycle, LifecycleHook, PodUpdatePolicy, UpdateStrategyType};

use super::*;
use crate::simulation::cloneset::Edit;

/// A Pod template by what is changed in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) image: u64,
    /// The image of a second container, where there is one.
    pub(super) sidecar: Option<u64>,
    /// The image cannot be pulled.
    pub(super) is_bad: bool,
    /// That of the second container cannot.
    is_side_bad: bool,
    /// A variable, which a running Pod cannot take.
    pub(super) variable: u64,
    pub(super) label: u64,
    /// The second container starts first.
    is_ordered: bool,
    /// Pods are born with the hooks of their lifecycle.
    pub(super) is_hooked: bool,
}

impl Template {
    pub(super) fn json(self) -> Raw {
        let Self { image, sidecar, is_bad, is_side_bad, variable, label, is_ordered, is_hooked } = self;
        let bad = |is_bad: bool| if is_bad { "bad" } else { "" };
        let (bad, side_bad) = (bad(is_bad), bad(is_side_bad));
        // Some tags name the same image.
        let tag = format!("v{}-{}", image / 2, image % 2);
        let priority = if is_ordered { r#",{"name":"KRUISE_CONTAINER_PRIORITY","value":"5"}"# } else { "" };
        let sidecar = sidecar.map_or(String::new(), |sidecar| {
            format!(
                r#",{{"name":"side","image":"{side_bad}side:v{sidecar}","env":[{{"name":"Z","value":"1"}}{priority}]}}"#
            )
        });
        let hooks = if is_hooked { r#","hold-delete":"yes","hold-update":"yes""# } else { "" };
        let finalizers = if is_hooked { r#","finalizers":["hold/delete"]"# } else { "" };
        Raw::parse(format!(
            r#"{{"metadata":{{"labels":{{"app":"web","v":"{label}"{hooks}}}{finalizers}}},"spec":{{"containers":[
            {{"name":"main","image":"{bad}app:{tag}","env":[{{"name":"V","value":"{variable}"}}]}}{sidecar}]}}}}"#
        ))
        .unwrap()
    }
}

/// A CloneSet and what happens to it.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) settings: Settings,
    pub(super) spec: Spec,
    /// What happens, each so long after the one before.
    pub(super) steps: Vec<(Milliseconds, Step<CloneSet>)>,
}

/// Chance, in the words of this module.
pub(super) struct Dice(Random);

impl Dice {
    /// Chance from this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(Moment { now: Timestamp::UNIX_EPOCH, seed }.random())
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit.max(1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }

    pub(super) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    pub(super) fn number(&mut self, limit: u64) -> usize {
        self.below(limit) as usize
    }
}

pub(super) fn int(number: u64) -> IntOrString {
    IntOrString::Int(number as i32)
}

pub(super) fn percent(text: &str) -> IntOrString {
    IntOrString::String(text.to_owned())
}

/// What makes a CloneSet, kept apart so that an edit changes one thing.
#[derive(Clone)]
struct Author {
    dice: Dice,
    spec: Spec,
    template: Template,
    former: Vec<Template>,
}

impl Clone for Dice {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
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
        let kind = dice.below(if in_place_only { 10 } else { 12 });
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

    fn apply(&self) -> Step<CloneSet> {
        Step::Apply(Box::new(self.spec.clone()))
    }

    /// Something that a user or chance does.
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
            54..=58 => {
                let rolling = &mut self.spec.update_strategy.rolling_update;
                rolling.paused = !rolling.paused;
            }
            59 => self.spec.min_ready_seconds = Some(self.dice.of(&[0, 2, 5])),
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
        self.apply()
    }

    /// The last edit: nothing that keeps the CloneSet from its end for ever.
    fn conclude(&mut self) -> Option<Step<CloneSet>> {
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
        (self.spec != before).then(|| self.apply())
    }
}

pub(super) fn lifecycle(dice: &mut Dice) -> Lifecycle {
    let label = |key: &str| [(key.to_owned(), "yes".to_owned())].into();
    let hook = |key: &str, marks: bool| LifecycleHook {
        labels_handler: label(key),
        mark_pod_not_ready: marks,
        ..LifecycleHook::default()
    };
    let mut pre_delete = hook("hold-delete", dice.percent(25));
    if dice.percent(40) {
        pre_delete.finalizers_handler.push("hold/delete".to_owned());
    }
    Lifecycle {
        pre_delete: dice.percent(60).then_some(pre_delete),
        in_place_update: dice.percent(60).then(|| hook("hold-update", dice.percent(25))),
        pre_normal: dice.percent(30).then(|| hook("checked", false)),
    }
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
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
        let settings = Settings {
            seed,
            fault_rate: dice.of(&[0.0, 0.2, 1.0]),
            lag: dice.of(&[50, 300, 3_000, 20_000]),
            gates,
            ..Settings::default()
        };
        let mut author = Author::new(dice);
        let spec = author.spec.clone();
        let mut steps = Vec::new();
        if author.dice.percent(8) {
            steps.push((author.dice.below(40_000), Step::TakeOver(author.dice.percent(50))));
        }
        for _ in 0..1 + author.dice.below(6) {
            let pause = author.dice.of(&[100, 1_000, 4_000, 10_000, 40_000]);
            let pause = author.dice.below(pause);
            steps.push((pause, author.step()));
        }
        let pause = author.dice.below(20_000);
        steps.extend(author.conclude().map(|step| (pause, step)));
        Self { settings, spec, steps }
    }

    /// Lets the history happen. Gives the cluster at its end, and what went wrong.
    pub(super) fn run<'p>(
        &self,
        planner: Planner<'p, CloneSet>,
        record: bool,
    ) -> (Cluster<'p, CloneSet>, Option<String>) {
        let mut set = CloneSet { spec: self.spec.clone(), ..CloneSet::default() };
        set.metadata.name = "web".to_owned();
        set.metadata.namespace = "default".to_owned();
        played(set, Settings { record, ..self.settings.clone() }, &self.steps, planner)
    }

    /// The history without the steps and faults without which the same rule is broken.
    pub(super) fn shortened(mut self, planner: Planner<'_, CloneSet>) -> Self {
        let rule = |history: &Self| {
            let verdict = verdict(history, planner);
            verdict.and_then(|verdict| Some(verdict.split_once(':')?.0.to_owned()))
        };
        let broken = rule(&self);
        let calm = Settings { fault_rate: 0.0, ..self.settings.clone() };
        let quick = Settings { lag: 1, ..self.settings.clone() };
        for settings in [calm, quick] {
            let candidate = Self { settings, ..self.clone() };
            if rule(&candidate) == broken {
                self = candidate;
            }
        }
        let mut index = 0;
        // The last step keeps the CloneSet from nothing that it must come to.
        while index + 1 < self.steps.len() {
            let mut candidate = self.clone();
            candidate.steps.remove(index);
            if rule(&candidate) == broken { self = candidate } else { index += 1 }
        }
        self
    }
}
