//! Histories of rollouts through a UnitedDeployment: each of its workloads is run by its own planner, in a simulated
//! cluster for itself, and they are judged together.
//!
//! Templates, `minReadySeconds`, `maxSurge` and the partitions of subsets are edited; replicas and subsets stay, and
//! nothing fails. So Pods are taken away for the rollout only: of those that are available, or serve at an older
//! revision, as many stay as the workloads ask for in all (`replicas - maxUnavailable`). And in the end all Pods are at
//! the newest revision, and nothing is left to do.

use api::kinds::statefulset::StatefulSet;
use serde_json::{Value, json};

use super::history::Dice;
use super::scenarios::HASTY;
use super::*;
use crate::fleet::Fleet;
use kinds::uniteddeployment::children::ChildKind;
use kinds::uniteddeployment::plan::plan as plan_united;
use kinds::uniteddeployment::plan::world::{self, World};
use kinds::workload::kind::Workload;
use testing::histories::all_succeed;

/// Histories of each kind.
const HISTORIES: u64 = 60;
/// The longest time that all Pods may take to come up, and a rollout to come to its end.
const TIMEOUT: [Milliseconds; 2] = [120_000, 1_800_000];

/// What is edited in the template.
struct Template {
    kind: ChildKind,
    policy: &'static str,
    max_unavailable: u64,
    max_surge: Value,
    min_ready_seconds: u64,
    image: u64,
}

impl Template {
    fn new(kind: ChildKind, dice: &mut Dice) -> Self {
        // A StatefulSet has no surge: it takes 0 for 1.
        let least = u64::from(kind != ChildKind::CloneSet);
        let mut template = Self {
            kind,
            policy: dice.of(&["ReCreate", "InPlaceIfPossible"]),
            max_unavailable: least + dice.below(2),
            max_surge: json!(0),
            min_ready_seconds: dice.of(&[0, 5]),
            image: 0,
        };
        template.surge(dice);
        template
    }

    fn surge(&mut self, dice: &mut Dice) {
        let least = usize::from(self.max_unavailable == 0);
        self.max_surge = dice.of(&[json!(0), json!(1), json!(2), json!("100%")][least..]);
    }

    fn edit(&mut self, dice: &mut Dice) {
        match dice.below(6) {
            0 => self.surge(dice),
            1 | 2 => self.min_ready_seconds = dice.of(&[0, 5, 40, 3_600]),
            3 => self.image = self.image.saturating_sub(1),
            _ => self.image += 1,
        }
    }

    fn json(&self) -> Value {
        let mut template = world::template(self.kind, &format!("nginx:{}", self.image));
        let spec = &mut template[self.kind.member()]["spec"];
        let mut rolling = json!({"podUpdatePolicy": self.policy, "maxUnavailable": self.max_unavailable});
        if self.kind == ChildKind::CloneSet {
            spec["minReadySeconds"] = self.min_ready_seconds.into();
            rolling["maxSurge"] = self.max_surge.clone();
        } else {
            spec["podManagementPolicy"] = "Parallel".into();
            rolling["minReadySeconds"] = self.min_ready_seconds.into();
        }
        spec["updateStrategy"] = json!({"rollingUpdate": rolling});
        template
    }
}

fn history<W: Simulated>(
    (kind, seed): (ChildKind, u64),
    planner: Planner<'_, W>,
    united: world::Planner,
) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut template = Template::new(kind, &mut dice);
    let subsets = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    let subsets = &subsets.as_array().unwrap()[dice.number(2)..];
    let spec = json!({
        "replicas": 3 + dice.below(5), "template": template.json(), "topology": {"subsets": subsets},
    });
    let mut world = World::new(kind, &spec);
    world.planner = united;
    let mut fleet = Fleet::new(world, Settings { seed, ..Settings::default() }, planner);
    fleet.pass(TIMEOUT[0])?;
    fleet.rest()?;
    fleet.floor = fleet.clusters().map(|cluster| cluster.counts().floor).sum();
    for _ in 0..1 + dice.below(4) {
        if dice.percent(25) {
            let partitions = json!({"a": dice.below(3), "b": dice.below(3)});
            fleet.edit(
                &json!({"updateStrategy": {"type": "Manual", "manualUpdate": {"partitions": partitions}}}),
            );
        } else {
            template.edit(&mut dice);
            fleet.edit(&json!({"template": template.json()}));
        }
        fleet.pass(1_000 + dice.below(60_000))?;
    }
    template.image += 1;
    template.min_ready_seconds = dice.of(&[0, 5]);
    fleet.edit(&json!({"template": template.json(), "updateStrategy": {"type": "Manual"}}));
    fleet.pass(TIMEOUT[1])?;
    fleet.rest()
}

#[test]
fn rollouts_of_clone_sets_leave_enough_pods_that_serve_and_come_to_their_end() {
    all_succeed(HISTORIES, |seed| history((ChildKind::CloneSet, seed), &plan, plan_united).err());
}

#[test]
fn rollouts_of_stateful_sets_leave_enough_pods_that_serve_and_come_to_their_end() {
    let planner: Planner<'_, StatefulSet> = &StatefulSet::plan;
    all_succeed(HISTORIES, |seed| {
        history((ChildKind::AdvancedStatefulSet, seed), planner, plan_united).err()
    });
}

#[test]
fn wrong_planners_are_noticed() {
    let wrong: [(Planner<'_, CloneSet>, world::Planner); 3] = [
        (HASTY, plan_united),
        // A rollout takes a Pod from each subset.
        (&plan, |snapshot| {
            let mut plan = plan_united(snapshot);
            plan.updates.iter_mut().for_each(|(_, target)| target.replicas -= 1);
            plan
        }),
        // A rollout makes all workloads anew.
        (&plan, |snapshot| {
            let mut plan = plan_united(snapshot);
            let updates = std::mem::take(&mut plan.updates);
            plan.deletions.extend(updates.into_iter().map(|(observed, target)| (target.kind, observed)));
            plan
        }),
    ];
    for (number, (planner, united)) in wrong.into_iter().enumerate() {
        let failing = |seed| history((ChildKind::CloneSet, seed), planner, united).err();
        let (seed, failure) = first_failing(0..HISTORIES, failing).expect("nobody notices");
        assert!(failure.contains("is taken away"), "planner {number}, seed {seed}: {failure}");
    }
}
