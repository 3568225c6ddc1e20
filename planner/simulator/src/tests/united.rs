//! Histories of rollouts through a UnitedDeployment: each of its workloads is run by its own planner, in a simulated
//! cluster for itself, and they are judged together.
//!
//! Templates, `minReadySeconds`, `maxSurge` and the partitions of subsets are edited; replicas and subsets stay, and
//! nothing fails. So whoever takes Pods away does so for the rollout: of those that are available, or serve at an older
//! revision, as many stay as the workloads ask for in all (`replicas - maxUnavailable`). And in the end all Pods are at
//! the newest revision, and nothing is left to do.

use std::collections::BTreeMap;

use api::kinds::statefulset::StatefulSet;
use api::labels::UNITED_REVISION;
use serde_json::{Value, json};

use super::history::Dice;
use super::scenarios::HASTY;
use super::*;
use crate::kind::{is_available, is_serving};
use kinds::uniteddeployment::children::ChildKind;
use kinds::uniteddeployment::plan::plan as plan_united;
use kinds::uniteddeployment::plan::world::{self, World};
use testing::histories::all_succeed;

/// Histories of each kind.
const HISTORIES: u64 = 60;
/// The shortest time between two looks at the UnitedDeployment.
const REST: Milliseconds = 500;
/// The longest time that all Pods may take to come up, and a rollout to come to its end.
const PATIENCE: [Milliseconds; 2] = [120_000, 1_800_000];

/// The workload of a subset.
struct Child<'p, W: Simulated> {
    uid: String,
    /// The spec that the UnitedDeployment gave it last.
    spec: Value,
    /// When it came: the time of its cluster begins there.
    born: Milliseconds,
    cluster: Cluster<'p, W>,
}

/// A UnitedDeployment and its workloads.
struct Fleet<'p, W: Simulated> {
    world: World,
    children: Vec<Child<'p, W>>,
    planner: Planner<'p, W>,
    seed: u64,
    now: Milliseconds,
    /// The versions of the workloads at the last look; none since the UnitedDeployment was edited.
    seen: Option<Vec<u64>>,
    look_at: Milliseconds,
    /// So many Pods have to stay.
    floor: i64,
}

impl<W: Simulated> Fleet<'_, W> {
    /// Pods that serve, with whether they are proven: available, or at an older revision.
    fn serving(&self) -> BTreeMap<(&str, Box<str>), bool> {
        let newest = Some(self.world.united.status.updated_revision.as_str());
        let of_child = |child: &'_ Child<'_, W>| {
            let Cluster { server, facts, .. } = &child.cluster;
            let (min_ready, now) =
                (server.workload.bounds(facts).min_ready_seconds, timestamp(self.now - child.born));
            let own = child.cluster.own_pods().filter(|pod| is_serving(pod));
            let proven = own.map(|pod| {
                let is_proven = is_available(pod, min_ready, now) || pod.label(UNITED_REVISION) != newest;
                (pod.metadata.name.clone(), is_proven)
            });
            proven.collect::<Vec<_>>()
        };
        let pods = |child| of_child(child).into_iter().map(|(pod, proven)| ((&*child.uid, pod), proven));
        self.children.iter().flat_map(pods).collect()
    }

    /// Lets something happen, and judges what it takes away.
    fn judged(&mut self, happens: impl FnOnce(&mut Self)) -> Result<(), String> {
        let proven =
            |(pod, is_proven): ((&str, Box<str>), bool)| is_proven.then(|| (pod.0.to_owned(), pod.1));
        let before: Vec<(String, Box<str>)> = self.serving().into_iter().filter_map(proven).collect();
        happens(self);
        let after = self.serving();
        let is_gone = |(uid, pod): &&(String, Box<str>)| !after.contains_key(&(uid.as_str(), pod.clone()));
        let left = after.values().filter(|is_proven| **is_proven).count();
        if let Some((_, pod)) = before.iter().find(is_gone)
            && i64::try_from(left).unwrap() < self.floor
        {
            return Err(format!("{}: Pod {pod} is taken away, {left} stay of {}", self.now, self.floor));
        }
        let mut broken = self.children.iter().flat_map(|child| child.cluster.violations());
        broken.next().map_or(Ok(()), |violation| Err(format!("{}: {violation}", self.now)))
    }

    fn versions(&self) -> Vec<u64> {
        self.children.iter().map(|child| child.cluster.server.version()).collect()
    }

    /// The UnitedDeployment sees its workloads, and they get what it writes.
    fn look(&mut self) {
        (self.seen, self.look_at) = (Some(self.versions()), self.now + REST);
        let Self { world, children, .. } = self;
        let uid_of = |known: &Value| known["metadata"]["uid"].as_str().unwrap().to_owned();
        for (_, known) in &mut world.children {
            let child = children.iter().find(|child| child.uid == uid_of(known)).unwrap();
            known["status"] = serde_json::to_value(child.cluster.server.workload.status()).unwrap();
        }
        let pods = children.iter().flat_map(|child| child.cluster.server.pods.values());
        world.observed = pods.cloned().collect();
        world.now = timestamp(self.now);
        world.look();
        children.retain(|child| world.children.iter().any(|(_, known)| uid_of(known) == child.uid));
        for (_, known) in &world.children {
            let (uid, spec) = (uid_of(known), known["spec"].clone());
            let Some(child) = children.iter_mut().find(|child| child.uid == uid) else {
                let seed = self.seed + u64::try_from(children.len()).unwrap();
                let workload: W = serde_json::from_value(known.clone()).unwrap();
                let cluster = Cluster::new(workload, Settings { seed, ..Settings::default() }, self.planner);
                children.push(Child { uid, spec, born: self.now, cluster });
                continue;
            };
            if child.spec != spec {
                child.spec = spec.clone();
                child.cluster.agenda.pass_until(self.now - child.born);
                child.cluster.add(0, Step::Amend(Box::new(serde_json::from_value(spec).unwrap())));
            }
        }
    }

    fn edit(&mut self, spec: &Value) {
        self.world.edit(spec);
        self.seen = None;
    }

    /// Lets things happen until this time has passed, or nothing more would happen.
    fn pass(&mut self, duration: Milliseconds) -> Result<(), String> {
        let end = self.now + duration;
        loop {
            let due = |(index, child): (usize, &Child<'_, W>)| {
                Some((child.born + child.cluster.agenda.next_time()?, index))
            };
            let next =
                self.children.iter().enumerate().filter_map(due).min().filter(|(time, _)| *time <= end);
            let is_dirty = self.seen != Some(self.versions());
            let look = is_dirty.then(|| self.look_at.max(self.now)).filter(|time| *time <= end);
            match (look, next) {
                (Some(time), next) if next.is_none_or(|(next, _)| time <= next) => {
                    self.now = time;
                    self.judged(Self::look)?;
                }
                (_, Some((time, index))) => {
                    self.now = time;
                    self.judged(|fleet| fleet.children[index].cluster.step())?;
                }
                _ => break,
            }
        }
        self.now = end;
        Ok(())
    }

    /// Whether all Pods are at the newest revision, and nothing is left to do.
    fn rest(&self) -> Result<(), String> {
        for child in &self.children {
            if let Some(unrest) = child.cluster.unrest().first() {
                return Err(format!("{}: {unrest}", child.uid));
            }
        }
        let plan = self.world.plan();
        let status = &self.world.united.status;
        let total = self.world.united.spec.replicas;
        let is_idle = plan.creations.is_empty() && plan.deletions.is_empty() && plan.updates.is_empty();
        let is_new =
            Some(status.updated_replicas) == total && status.current_revision == status.updated_revision;
        if is_idle && is_new { Ok(()) } else { Err(format!("{status:?}, {plan:?}")) }
    }
}

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
    let children = Vec::new();
    let mut fleet = Fleet { world, children, planner, seed, now: 0, seen: None, look_at: 0, floor: 0 };
    fleet.pass(PATIENCE[0])?;
    fleet.rest()?;
    let floor = |child: &Child<'_, W>| child.cluster.counts().floor;
    fleet.floor = fleet.children.iter().map(floor).sum();
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
    fleet.pass(PATIENCE[1])?;
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
            plan.deletions.extend(updates.into_iter().map(|(seen, target)| (target.kind, seen)));
            plan
        }),
    ];
    for (number, (planner, united)) in wrong.into_iter().enumerate() {
        let failing = |seed| history((ChildKind::CloneSet, seed), planner, united).err();
        let (seed, failure) = first_failing(0..HISTORIES, failing).expect("nobody notices");
        assert!(failure.contains("is taken away"), "planner {number}, seed {seed}: {failure}");
    }
}
