//! Histories: subsets without capacity, edits, refusals and time at random, each from one seed.
//!
//! `KUTTER_SIMULATION_HISTORIES` sets how many are run. A failure names its seed.
//!
//! What must hold in each: no more Pods are wanted than replicas, but for reserved ones; a subset never has two workloads;
//! in adaptive mode Pods that are ready in a subset with capacity stay while nobody edits anything; where
//! waiting Pods keep their place a rollout continues beside them; and once there is capacity and nothing is refused, all Pods run at
//! the newest revision, and nothing is left to do.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::world::{Planner, World, template};
use super::*;
use crate::uniteddeployment::{self as united, allocation};
use testing::histories::{all_succeed, first_failing};
use values::moment::{Moment, Random};

const HISTORIES: u64 = 300;
const STEPS: usize = 25;

fn below(random: &mut Random, number: u64) -> u64 {
    random.next_u64() % number
}

fn subsets(random: &mut Random, is_elastic: bool) -> Value {
    let names = ["a", "b", "c"].into_iter().skip(usize::try_from(below(random, 2)).unwrap());
    let mut all: Vec<Value> = names.map(|name| json!({"name": name})).collect();
    if is_elastic && let Some(first) = all.first_mut() {
        first["maxReplicas"] = json!(2 + below(random, 3));
        first["minReplicas"] = json!(below(random, 3));
    }
    all.into()
}

fn history(seed: u64, planner: Planner) -> Result<(), String> {
    let mut random = Moment { now: Timestamp::UNIX_EPOCH, seed }.random();
    let mode = below(&mut random, 4);
    let kind = match (mode, below(&mut random, 4)) {
        (3, number) => [ChildKind::CloneSet, ChildKind::Deployment][usize::try_from(number % 2).unwrap()],
        (_, number) => ChildKind::ALL[usize::try_from(number).unwrap()],
    };
    let strategy = match mode {
        2 => json!({"type": "Adaptive"}),
        3 => json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}}),
        _ => json!({}),
    };
    let topology =
        |random: &mut Random| json!({"subsets": subsets(random, mode > 0), "scheduleStrategy": strategy});
    let first = topology(&mut random);
    let mut world = World::new(kind, &json!({"replicas": below(&mut random, 9), "topology": first}));
    world.planner = planner;
    for step in 0..STEPS {
        let mut edited = true;
        match below(&mut random, 9) {
            0 => world.edit(&json!({"replicas": below(&mut random, 9)})),
            1 => {
                let topology = topology(&mut random);
                world.edit(&json!({"topology": topology}));
            }
            2 => {
                world.edit(&json!({"template": template(kind, &format!("nginx:{}", below(&mut random, 3)))}));
            }
            3 => {
                let capacity = usize::try_from(below(&mut random, 5)).unwrap();
                world.capacity.insert(
                    ["a", "b", "c"][usize::try_from(below(&mut random, 3)).unwrap()].to_owned(),
                    capacity,
                );
            }
            4 => world.refuses = below(&mut random, 2) == 0,
            _ => edited = false,
        }
        let ready = world.running();
        let plan = world.look();
        check(&world, &plan, (!edited && mode == 2).then_some(&ready))
            .map_err(|error| format!("step {step}: {error}"))?;
        world.run();
        world.pass(i64::try_from(1 + below(&mut random, 120)).unwrap());
    }
    world.refuses = false;
    if mode == 3 {
        world.settle(1000);
        rolled_out(&world)?;
    }
    world.capacity.clear();
    world.settle(1500);
    settled(&world)
}

fn rolled_out(world: &World) -> Result<(), String> {
    let updated = &world.united.status.updated_revision;
    let old = world.pods.iter().filter(|pod| pod["metadata"]["labels"][UNITED_REVISION] != **updated).count();
    match old {
        0 => Ok(()),
        _ => Err(format!("{old} Pods stay at an older revision: {:?}", world.plan())),
    }
}

fn check(world: &World, plan: &Plan, ready: Option<&BTreeMap<String, usize>>) -> Result<(), String> {
    let spec = &world.united.spec;
    let total = spec.replicas.unwrap();
    let wanted: i32 = plan.shares.values().sum();
    if united::strategy(spec) != Strategy::Reserving && wanted > total {
        return Err(format!("{wanted} Pods are wanted of {total}: {:?}", plan.shares));
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, child) in &world.children {
        let name = child["metadata"]["labels"]["apps.kruise.io/subset-name"].as_str().unwrap();
        if names.contains(&name) {
            return Err(format!("subset {name} has two workloads"));
        }
        names.push(name);
    }
    for (subset, judgement) in &plan.judgements {
        let (Some(ready), Some(share)) = (ready, plan.shares.get(subset)) else { continue };
        let kept = i32::try_from(ready.get(subset).copied().unwrap_or(0)).unwrap();
        let number = |value: &Option<api::kinds::shared::IntOrString>| {
            value.as_ref().and_then(|value| allocation::count(value, total))
        };
        // Others may be guaranteed the place of what is ready here.
        let needed: i32 = spec
            .topology
            .subsets
            .iter()
            .map(|known| {
                let ready = i32::try_from(ready.get(&known.name).copied().unwrap_or(0)).unwrap();
                number(&known.min_replicas).unwrap_or(0).max(ready)
            })
            .sum();
        let limit = spec.topology.subsets.iter().find(|known| known.name == *subset);
        let is_limited =
            limit.and_then(|known| number(&known.max_replicas)).is_some_and(|limit| limit < kept);
        if !judgement.is_unschedulable && needed <= total && !is_limited && *share < kept {
            return Err(format!("subset {subset} has {kept} ready Pods, and is to have {share}"));
        }
    }
    Ok(())
}

fn settled(world: &World) -> Result<(), String> {
    let plan = world.plan();
    let idle = plan.creations.is_empty()
        && plan.deletions.is_empty()
        && plan.updates.is_empty()
        && plan.labels.is_empty();
    if !idle || plan.revision.is_some() || plan.problem.is_some() {
        return Err(format!("something is left to do: {plan:?}"));
    }
    let status = &world.united.status;
    let total = world.united.spec.replicas.unwrap();
    if world.running().values().sum::<usize>() != usize::try_from(total).unwrap() || status.replicas != total
    {
        return Err(format!("{:?} of {total} run: {status:?}", world.running()));
    }
    if status.updated_ready_replicas != Some(total) || status.current_revision != status.updated_revision {
        return Err(format!("not all are at the newest revision: {status:?}"));
    }
    let names = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let reported = names(status.subset_statuses.iter().map(|subset| subset.name.as_str()).collect());
    let wanted =
        names(world.united.spec.topology.subsets.iter().map(|subset| subset.name.as_str()).collect());
    if reported != wanted || world.children.len() != wanted.len() {
        return Err(format!(
            "subsets {reported:?} are told of, and {} workloads are there",
            world.children.len()
        ));
    }
    Ok(())
}

#[test]
fn all_histories_end_well() {
    all_succeed(HISTORIES, |seed| history(seed, plan).err());
}

#[test]
fn wrong_planners_are_noticed() {
    let wrong: [Planner; 5] = [
        |snapshot| Plan { deletions: Vec::new(), ..plan(snapshot) },
        |snapshot| {
            let mut plan = plan(snapshot);
            plan.creations.extend(plan.creations.clone());
            plan
        },
        |snapshot| {
            let mut plan = plan(snapshot);
            plan.updates.iter_mut().for_each(|(_, target)| target.replicas += 1);
            plan
        },
        |snapshot| {
            let mut united = snapshot.united.clone();
            united.spec.topology.schedule_strategy = Default::default();
            plan(&Snapshot { united: &united, ..*snapshot })
        },
        |snapshot| {
            let mut plan = plan(snapshot);
            for allowance in plan.updates.iter_mut().filter_map(|(_, target)| target.allowance.as_mut()) {
                allowance.lacking = (allowance.lacking - allowance.own).max(0);
            }
            plan
        },
    ];
    for (number, planner) in wrong.into_iter().enumerate() {
        let failing = first_failing(0..HISTORIES, |seed| history(seed, planner).err());
        assert!(failing.is_some(), "planner {number} is wrong, and nothing shows it");
    }
}
