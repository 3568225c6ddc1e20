//! A history: a workload, and what users and chance do to it and when.

use api::Raw;
use api::kinds::shared::{IntOrString, Lifecycle, LifecycleHook};

use super::*;

/// A Pod template by what is changed in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) image: u64,
    /// The image of the native sidecar.
    pub(super) proxy: u64,
    /// The image of a second container, where there is one.
    pub(super) sidecar: Option<u64>,
    /// The image cannot be pulled.
    pub(super) is_bad: bool,
    /// That of the second container cannot.
    pub(super) is_side_bad: bool,
    /// A variable, which a running Pod cannot take.
    pub(super) variable: u64,
    pub(super) label: u64,
    /// The second container starts first.
    pub(super) is_ordered: bool,
    /// Pods are born with the hooks of their lifecycle.
    pub(super) is_hooked: bool,
}

impl Template {
    pub(super) fn json(self) -> Raw {
        let Self { image, proxy, sidecar, is_bad, is_side_bad, variable, label, is_ordered, is_hooked } =
            self;
        let bad = |is_bad: bool| if is_bad { "bad" } else { "" };
        let (bad, side_bad) = (bad(is_bad), bad(is_side_bad));
        // Some tags name the same image.
        let tag = format!("v{}-{}", image / 2, image % 2);
        let priority = if is_ordered { r#",{"name":"KRUISE_CONTAINER_PRIORITY","value":"5"}"# } else { "" };
        let sidecar = sidecar.map_or(String::new(), |sidecar| {
            format!(
                r#",{{"name":"aside","image":"{side_bad}side:v{sidecar}","env":[{{"name":"Z","value":"1"}}{priority}]}}"#
            )
        });
        let hooks = if is_hooked { r#","hold-delete":"yes","hold-update":"yes""# } else { "" };
        let finalizers = if is_hooked { r#","finalizers":["hold/delete"]"# } else { "" };
        Raw::parse(format!(
            r#"{{"metadata":{{"labels":{{"app":"web","v":"{label}"{hooks}}}{finalizers}}},"spec":{{"futureField":[2,1],
            "initContainers":[{{"name":"proxy","image":"proxy:v{proxy}","restartPolicy":"Always"}},{{"name":"load","image":"load:v1"}}],
            "containers":[{{"name":"main","image":"{bad}app:{tag}","env":[{{"name":"V","value":"{variable}"}}]}}{sidecar}]}}}}"#
        ))
        .unwrap()
    }
}

/// A workload and what happens to it.
#[derive(Clone, Debug)]
pub(super) struct History<W: Simulated> {
    settings: Settings,
    workload: W,
    /// What happens, each so long after the one before.
    steps: Vec<(Milliseconds, Step<W>)>,
    /// How many of the last steps keep the workload from nothing that it must come to.
    conclusion: usize,
}

/// What makes a workload and edits it.
pub(super) trait Script<W: Simulated> {
    /// Kutter takes over from OpenKruise in some histories.
    const TAKES_OVER: bool = false;

    fn dice(&mut self) -> &mut Dice;

    /// The workload as it is now.
    fn workload(&self) -> W;

    /// Something that a user or chance does.
    fn step(&mut self) -> Step<W>;

    /// The last edits: nothing that keeps the workload from its end forever.
    fn conclude(&mut self) -> Vec<Step<W>>;
}

/// How rough the cluster is in the history of this seed.
pub(super) fn settings(seed: u64, dice: &mut Dice) -> Settings {
    Settings {
        seed,
        fault_rate: dice.of(&[0.0, 0.2, 1.0]),
        lag: dice.of(&[50, 300, 3_000, 20_000]),
        ..Settings::default()
    }
}

impl<W: Simulated> History<W> {
    pub(super) fn new<S: Script<W>>(settings: Settings, mut script: S) -> Self {
        let mut workload = script.workload();
        workload.metadata_mut().name = "web".to_owned();
        workload.metadata_mut().namespace = "default".to_owned();
        let mut steps = Vec::new();
        if S::TAKES_OVER && script.dice().percent(8) {
            let pause = script.dice().below(40_000);
            steps.push((pause, Step::TakeOver(script.dice().percent(50))));
        }
        for _ in 0..1 + script.dice().below(6) {
            let pause = script.dice().of(&[100, 1_000, 4_000, 10_000, 40_000]);
            let pause = script.dice().below(pause);
            steps.push((pause, script.step()));
        }
        let pause = script.dice().below(20_000);
        let conclusion = script.conclude();
        let count = conclusion.len();
        let conclusion = conclusion.into_iter().enumerate();
        steps.extend(conclusion.map(|(index, step)| (if index == 0 { pause } else { 1 }, step)));
        Self { settings, workload, steps, conclusion: count.max(1) }
    }

    /// Lets the history happen. Gives the cluster at its end, and what went wrong.
    pub(super) fn run<'p>(&self, planner: Planner<'p, W>, record: bool) -> (Cluster<'p, W>, Option<String>) {
        let settings = Settings { record, ..self.settings.clone() };
        let mut cluster = Cluster::new(self.workload.clone(), settings, planner);
        let mut time = 0;
        for (pause, step) in &self.steps {
            time += pause;
            cluster.add(time, step.clone());
        }
        cluster.run_until(time);
        let rest = cluster.settle_down(LIMIT);
        let verdict = match (cluster.violations().first(), rest) {
            (Some(violation), _) => Some(violation.to_string()),
            (None, Rest::Converged) => None,
            (None, rest) => Some(format!("Rest: {rest:?}")),
        };
        (cluster, verdict)
    }

    /// The history without the steps and faults without which the same rule is broken.
    pub(super) fn shortened(mut self, planner: Planner<'_, W>) -> Self {
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
        while index + self.conclusion < self.steps.len() {
            let mut candidate = self.clone();
            candidate.steps.remove(index);
            if rule(&candidate) == broken { self = candidate } else { index += 1 }
        }
        self
    }
}

/// Chance, in the words of this module.
#[derive(Clone)]
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
