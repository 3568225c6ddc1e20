//! Whatever people do during a release, and wherever our controllers are killed: once they let it go on it ends, with all
//! Pods at the version that was wanted last, and with no trace of itself.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::pods::image;
use super::scenarios::{cloneset, deployment, rollout, routings, steps, world};
use super::world::World;
use crate::object::{Object as _, ObjectName};

/// What somebody does, or what happens.
#[derive(Clone, Debug)]
enum Act {
    Release(u8),
    Approve,
    Jump(i64),
    Pause(bool),
    Disable(bool),
    Traffic(u8),
    Scale(i64),
    Wait(i64),
    Kill(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..4_u8).prop_map(Act::Release),
        3 => Just(Act::Approve),
        1 => (-1..5_i64).prop_map(Act::Jump),
        1 => any::<bool>().prop_map(Act::Pause),
        1 => any::<bool>().prop_map(Act::Disable),
        1 => (1..50_u8).prop_map(Act::Traffic),
        1 => (1..7_i64).prop_map(Act::Scale),
        4 => (1..12_i64).prop_map(Act::Wait),
        1 => (0..6_usize).prop_map(Act::Kill),
    ]
}

/// Styles, each with a workload.
fn case(number: usize, has_traffic: bool) -> (ObjectName, Value) {
    let shares = [json!("20%"), json!("50%"), json!("100%")];
    let traffic = [Some("20%"), Some("50%"), None].map(|share| share.filter(|_| has_traffic));
    let steps = steps(&shares.into_iter().zip(traffic).collect::<Vec<_>>());
    let mut block = json!({"steps": steps});
    if has_traffic {
        block["trafficRoutings"] = routings();
    }
    match number {
        0 => (cloneset(), json!({"canary": block})),
        1 => (deployment(), json!({"canary": block})),
        2 => {
            block["enableExtraWorkloadForCanary"] = true.into();
            (deployment(), json!({"canary": block}))
        }
        3 => (deployment(), json!({"blueGreen": block})),
        _ => (cloneset(), json!({"blueGreen": block})),
    }
}

fn perform(world: &mut World, workload: &ObjectName, act: &Act) {
    let block = |value: Value| {
        let style =
            if world.rollout()["spec"]["strategy"]["canary"].is_null() { "blueGreen" } else { "canary" };
        json!({"spec": {"strategy": {style: value}}})
    };
    match *act {
        Act::Release(version) => world.release(workload, &format!("v{version}")),
        Act::Approve if world.state().1 == "StepPaused" => world.approve(),
        Act::Approve => {}
        Act::Jump(step) => world.jump(step),
        Act::Pause(paused) => world.update(&rollout(), &json!({"spec": {"strategy": {"paused": paused}}})),
        Act::Disable(disabled) => world.update(&rollout(), &json!({"spec": {"disabled": disabled}})),
        Act::Traffic(share) => {
            let strategy = &world.rollout()["spec"]["strategy"];
            let found = ["canary", "blueGreen"].into_iter().find(|style| !strategy[style].is_null()).unwrap();
            if strategy[found]["trafficRoutings"].is_null() {
                return;
            }
            let mut steps = strategy[found]["steps"].clone();
            steps[0]["traffic"] = format!("{share}%").into();
            world.update(&rollout(), &block(json!({"steps": steps})));
        }
        Act::Scale(replicas) => world.update(workload, &json!({"spec": {"replicas": replicas}})),
        Act::Wait(seconds) => world.run(seconds),
        Act::Kill(after) => world.killed_at = Some(world.calls + after),
    }
}

/// A blue-green release takes no third version: the old one has to be wanted again first.
fn roll_back(world: &mut World, workload: &ObjectName, wanted: &str) {
    let stable = world.rollout().text("/status/blueGreenStatus/stableRevision").to_owned();
    let pods = world.of_kind("Pod");
    let old = pods.iter().find(|pod| pod.label("pod-template-hash") == Some(&stable));
    let old = old.map_or(wanted, image).to_owned();
    world.release(workload, &old);
    world.run_until("the rollback", |world| world.phase() == "Healthy");
    world.run(10);
    world.release(workload, wanted);
}

fn finish(world: &mut World, workload: &ObjectName, replicas: i64) {
    world.killed_at = None;
    world.update(&rollout(), &json!({"spec": {"disabled": false, "strategy": {"paused": false}}}));
    world.update(workload, &json!({"spec": {"replicas": replicas}}));
    let wanted = image(&world.get(workload)["spec"]["template"]).to_owned();
    for _ in 0..60 {
        world.run(6);
        if world.rollout().text("/status/message").starts_with("new version releasing detected") {
            roll_back(world, workload, &wanted);
        } else if world.phase() == "Progressing" && world.state().1 == "StepPaused" {
            world.approve();
        }
        let is_whole = world.images() == vec![wanted.clone(); usize::try_from(replicas).unwrap()];
        if world.phase() == "Healthy" && is_whole && world.of_kind("BatchRelease").is_empty() {
            world.run(12);
            assert_eq!(world.images(), vec![wanted; usize::try_from(replicas).unwrap()]);
            assert_eq!(world.phase(), "Healthy");
            return world.assert_clean(workload);
        }
    }
    panic!("{wanted} is wanted, and {:?} are there: {:#}", world.images(), world.rollout()["status"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_release_ends_with_what_was_wanted_last(
        number in 0..5_usize,
        has_traffic: bool,
        acts in prop::collection::vec(act(), 1..14),
        replicas in 2..6_i64,
    ) {
        let (workload, strategy) = case(number, has_traffic);
        let mut world = world(&workload, 4);
        world.release_by(&workload, &strategy);
        for act in &acts {
            perform(&mut world, &workload, act);
        }
        finish(&mut world, &workload, replicas);
    }
}
