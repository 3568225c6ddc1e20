//! Releases whose controllers are killed between any two writes: they end in the same state.

use std::collections::BTreeMap;

use api::finalizers;
use serde_json::{Value, json};

use super::scenarios::{annotate, cloneset, deployment, rollout, routings, steps, world};
use super::world::World;
use crate::object::ObjectName;

/// What is left at the end, without what differs between any two runs.
fn outcome(world: &World) -> BTreeMap<ObjectName, Value> {
    let objects = world.objects.iter().filter(|(name, _)| name.kind != "Pod" && name.kind != "ReplicaSet");
    let mut outcome: BTreeMap<ObjectName, Value> =
        objects.map(|(name, object)| (name.clone(), without_times(object))).collect();
    outcome.insert(ObjectName::new("v1", "Pods", "", ""), json!(world.images()));
    outcome
}

fn without_times(object: &Value) -> Value {
    const CHANCE: [&str; 9] = [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "lastUpdateTime",
        "lastTransitionTime",
        "observedGeneration",
        "observedWorkloadGeneration",
        "observedRolloutID",
    ];
    match object {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !CHANCE.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), without_times(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_times).collect(),
        other => other.clone(),
    }
}

/// Takes a release to its end, killed before the write of this number.
fn killed(world: &World, play: &impl Fn(&mut World), at: Option<usize>) -> World {
    let mut world = world.clone();
    world.killed_at = at.map(|at| world.calls + at);
    play(&mut world);
    world.run(15);
    world
}

fn survives_kills(world: &World, play: impl Fn(&mut World)) {
    let whole = killed(world, &play, None);
    let expected = outcome(&whole);
    let writes = whole.calls - world.calls;
    assert!(writes > 8, "nothing was released");
    for at in 0..writes {
        let ended = killed(world, &play, Some(at));
        let outcome = outcome(&ended);
        let what = format!("killed before write {at} of {writes}, {}", whole.log[world.log.len() + at]);
        assert_eq!(outcome.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
        for (name, object) in &outcome {
            assert_eq!(object, &expected[name], "{what}");
        }
    }
}

/// All strategies, each with a workload that can be released by it.
fn cases() -> Vec<(&'static str, ObjectName, Value)> {
    let traffic = steps(&[(json!("20%"), Some("20%")), (json!("60%"), None), (json!("100%"), None)]);
    let canary = json!({"canary": {"trafficRoutings": routings(), "steps": traffic}});
    let mut extra = canary.clone();
    extra["canary"]["enableExtraWorkloadForCanary"] = true.into();
    let green = steps(&[(json!("50%"), Some("0%")), (json!("100%"), Some("100%"))]);
    let blue_green = json!({"blueGreen": {"trafficRoutings": routings(), "steps": green}});
    vec![
        ("CloneSet in batches", cloneset(), canary.clone()),
        ("Deployment in batches", deployment(), canary),
        ("second Deployment", deployment(), extra),
        ("blue-green Deployment", deployment(), blue_green.clone()),
        ("blue-green CloneSet", cloneset(), blue_green),
    ]
}

fn each_case(play: impl Fn(&mut World, &ObjectName)) {
    for (what, workload, strategy) in cases() {
        println!("{what}");
        let mut world = world(&workload, 5);
        world.release_by(&workload, &strategy);
        world.run(3);
        survives_kills(&world, |world| play(world, &workload));
    }
}

fn approve_all(world: &mut World) {
    let count = world.rollout()["spec"]["strategy"].as_object().unwrap().values().next().unwrap()["steps"]
        .as_array()
        .unwrap()
        .len();
    for _ in 0..count * 3 {
        world.run(8);
        if world.state().1 == "StepPaused" && world.phase() == "Progressing" {
            world.approve();
        }
    }
    world.run_until("the end", World::is_over);
}

#[test]
fn a_release_that_succeeds_survives_kills() {
    each_case(|world, workload| {
        world.release(workload, "v2");
        approve_all(world);
        assert_eq!(world.condition("Succeeded").unwrap()["status"], "True");
    });
}

#[test]
fn a_rollback_survives_kills() {
    each_case(|world, workload| {
        world.release(workload, "v2");
        world.run_to(1, "StepPaused");
        world.release(workload, "v1");
        world.run_until("the end", World::is_over);
        assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
    });
}

#[test]
fn an_automatic_rollback_survives_kills() {
    each_case(|world, workload| {
        world.broken.push("v2".to_owned());
        annotate(world, "kutter.io/rollback-after-seconds", "5");
        world.release(workload, "v2");
        world.run_until("the end", World::is_over);
        assert_eq!(
            (world.count("v1"), world.condition("Succeeded").unwrap()["status"].as_str()),
            (5, Some("False"))
        );
    });
}

#[test]
fn a_newer_version_survives_kills() {
    each_case(|world, workload| {
        if world.rollout()["spec"]["strategy"]["canary"].is_null() {
            // A blue-green release takes no third version.
            world.release(workload, "v2");
            return approve_all(world);
        }
        world.release(workload, "v2");
        world.run_to(1, "StepPaused");
        world.release(workload, "v3");
        world.run(4);
        approve_all(world);
    });
}

#[test]
fn a_deletion_survives_kills() {
    each_case(|world, workload| {
        world.release(workload, "v2");
        world.run_to(1, "StepPaused");
        world.delete(&rollout());
        world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
        assert!(world.objects.values().all(|object| {
            let held = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            held.is_empty() || held == [json!(finalizers::TRAFFIC_ROUTING)]
        }));
    });
}
