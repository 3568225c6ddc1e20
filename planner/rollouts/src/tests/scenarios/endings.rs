//! Releases that end otherwise than with their last step.

use super::*;

#[test]
fn a_rollout_that_is_deleted_or_disabled_lets_its_workload_go() {
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        for is_deleted in [true, false] {
            let mut world = at_first_step(&workload, extra);
            if is_deleted {
                world.delete(&rollout());
                world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
            } else {
                world.update(&rollout(), &json!({"spec": {"disabled": true}}));
                world.run_until("the end", |world| world.phase() == "Disabled");
            }
            world.run(20);
            assert_eq!(world.count("v2"), 5, "{} {extra} {is_deleted}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_disabled_rollout_holds_no_release_and_acts_again_once_enabled() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.update(&rollout(), &json!({"spec": {"disabled": true}}));
    // Before its controller has seen it.
    world.release(&cloneset(), "v2");
    world.run(5);
    assert_eq!((world.phase(), world.count("v2")), ("Disabled", 5));
    world.update(&rollout(), &json!({"spec": {"disabled": false}}));
    world.run(2);
    assert_eq!(world.phase(), "Healthy");
    world.release(&cloneset(), "v3");
    world.run_to(1, "StepPaused");
    assert_eq!(world.count("v3"), 1);
}

#[test]
fn a_workload_that_is_not_there_resets_the_status() {
    let mut world = World::new();
    world.release_by(&cloneset(), &three_steps());
    assert_eq!((world.phase(), world.rollout().text("/status/message")), ("Initial", "Workload Not Found"));
    assert_eq!(world.rollout()["metadata"]["finalizers"], json!(["rollouts.kruise.io/rollout"]));
}

#[test]
fn a_workload_that_goes_during_its_release_leaves_no_traffic_behind() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.delete(&cloneset());
    world.run_until("the reset", |world| world.phase() == "Initial");
    assert_eq!(world.selector("web"), Some(&json!({"app": "web"})));
    assert_eq!((world.selector("web-canary"), world.canary_weight()), (None, None));
    assert!(world.of_kind("BatchRelease").is_empty());
}

#[test]
fn a_workload_that_is_made_anew_is_not_the_one_that_is_released() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        let object = world.get(&workload).clone();
        world.release_by(&workload, &traffic_steps());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.delete(&workload);
        world.create(json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": "web"},
            "spec": {"replicas": 4, "selector": object["spec"]["selector"], "template": template("v3"),
                "updateStrategy": {"partition": 2}, "futureField": {"kept": true}},
        }));
        (0..3).for_each(|_| world.work());
        world.run_until("the end", |world| world.phase() == "Healthy");
        world.run(5);
        assert_eq!((world.count("v3"), world.images().len()), (4, 4), "{}", workload.kind);
        assert_eq!(world.get(&workload)["spec"]["updateStrategy"]["partition"], 2);
        world.assert_clean(&workload);
        world.release(&workload, "v4");
        world.run_until("the next release", |world| world.count("v4") == 1);
        world.run_to(1, "StepPaused");
        assert_eq!((world.count("v3"), world.count("v4")), (3, 1));
    }
}

#[test]
fn a_release_that_ends_before_its_first_step_lets_its_workload_go() {
    for workload in [cloneset(), deployment()] {
        for is_deleted in [true, false] {
            let mut world = world(&workload, 5);
            world.release_by(&workload, &three_steps());
            world.release(&workload, "v2");
            world.work();
            world.run(1);
            assert_eq!(world.condition("Progressing").unwrap()["reason"], "Initializing");
            if is_deleted {
                world.delete(&rollout());
                world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
            } else {
                world.release(&workload, "v1");
                world.run_until("the end", World::is_over);
            }
            world.run(20);
            let wanted = if is_deleted { "v2" } else { "v1" };
            assert_eq!(world.count(wanted), 5, "{} {is_deleted}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_template_that_changes_while_a_release_ends_waits_for_its_own_release() {
    for (routed, share) in [(json!([]), None), (routings(), Some("20%"))] {
        let one = steps(&[(json!(1), share)]);
        let two = steps(&[(json!("50%"), None), (json!("100%"), share)]);
        let extra = json!({"enableExtraWorkloadForCanary": true, "trafficRoutings": routed, "steps": one});
        let green = json!({"trafficRoutings": routed, "steps": two});
        for (strategy, last, first) in [(json!({"canary": extra}), 1, 1), (json!({"blueGreen": green}), 2, 3)]
        {
            let mut world = world(&deployment(), 6);
            world.release_by(&deployment(), &strategy);
            world.release(&deployment(), "v2");
            let take_steps = |world: &mut World| {
                for step in 1..=last {
                    world.run_to(step, "StepPaused");
                    world.approve();
                }
            };
            take_steps(&mut world);
            world.run_until("the end", |world| {
                world.of_kind("BatchRelease").iter().any(|release| release["status"]["phase"] == "Finalizing")
            });
            world.release(&deployment(), "v3");
            for _ in 0..100 {
                assert!(world.count("v3") <= first, "{strategy}");
                world.run(1);
            }
            assert_eq!((world.count("v3"), world.is_at(1, "StepPaused")), (first, true), "{strategy}");
            take_steps(&mut world);
            world.run_until("the end", World::is_over);
            assert_eq!((world.count("v3"), world.images().len()), (6, 6));
            world.assert_clean(&deployment());
        }
    }
}

#[test]
fn a_rollout_that_is_deleted_after_a_template_changed_at_the_end_lets_its_workload_go() {
    for deleted in 0..8 {
        let mut world = world(&deployment(), 6);
        let extra = json!({"enableExtraWorkloadForCanary": true, "steps": steps(&[(json!(1), None)])});
        world.release_by(&deployment(), &json!({"canary": extra}));
        world.release(&deployment(), "v2");
        world.run_to(1, "StepPaused");
        world.approve();
        world.run_until("the end", |world| {
            world.of_kind("BatchRelease").iter().any(|release| release["status"]["phase"] == "Finalizing")
        });
        world.release(&deployment(), "v3");
        world.run(deleted);
        world.delete(&rollout());
        world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
        world.run(20);
        assert_eq!((world.count("v3"), world.images().len()), (6, 6), "{deleted}");
        world.assert_clean(&deployment());
    }
}

#[test]
fn the_garbage_collector_may_delete_the_batch_release_before_the_rollout_ends_it() {
    let batches = named("rollouts.kruise.io/v1beta1", "BatchRelease", "web");
    for (workload, extra) in [(cloneset(), false), (deployment(), true), (deployment(), false)] {
        for collected in 0..8 {
            let mut world = at_first_step(&workload, extra);
            // As a deletion in the foreground does.
            world.delete(&rollout());
            for second in 0..60 {
                if second >= collected {
                    world.delete(&batches);
                }
                world.run(1);
            }
            assert!(!world.objects.contains_key(&rollout()), "{} {extra} {collected}", workload.kind);
            assert_eq!(world.count("v2"), 5, "{} {extra} {collected}", workload.kind);
            world.assert_clean(&workload);
        }
    }
}

#[test]
fn a_deleted_rollout_leaves_its_workload_as_it_is_where_the_gate_says_so() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        world.gates =
            FeatureGates::parse("Rollouts=true,KeepWorkloadPausedOnRolloutDeletion=true", "").unwrap();
        world.release_by(&workload, &traffic_steps());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.delete(&rollout());
        world.run_until("the end", |world| !world.objects.contains_key(&rollout()));
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (4, 1), "{}", workload.kind);
        assert!(world.of_kind("BatchRelease").is_empty() && world.serves("web", "v2"));
    }
}

#[test]
fn a_rollout_that_is_disabled_before_it_has_seen_a_release_lets_its_workload_go() {
    for workload in [cloneset(), deployment()] {
        let mut world = world(&workload, 5);
        world.release_by(&workload, &three_steps());
        world.release(&workload, "v2");
        world.update(&rollout(), &json!({"spec": {"disabled": true}}));
        world.run(20);
        assert_eq!((world.phase(), world.count("v2")), ("Disabled", 5), "{}", workload.kind);
        world.assert_clean(&workload);
    }
}

#[test]
fn of_two_rollouts_of_a_workload_one_releases_it() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    let mut second = world.rollout().clone();
    second["metadata"] = json!({"name": "web-again"});
    second.as_object_mut().unwrap().remove("status");
    world.create(second);
    world.run(2);
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.run(10);
    let again = named("rollouts.kruise.io/v1beta1", "Rollout", "web-again");
    assert_eq!(world.get(&again).text("/status/phase"), "Healthy");
    assert_eq!(world.of_kind("BatchRelease").len(), 1);
    let before = world.calls;
    world.run(20);
    assert_eq!(world.calls, before, "{:#?}", &world.log[before..]);
    // It has nothing to end either.
    world.delete(&again);
    world.run(10);
    assert!(!world.objects.contains_key(&again));
    assert!(world.is_at(1, "StepPaused") && world.count("v2") == 1);
}

#[test]
fn a_release_of_a_rollout_that_is_gone_is_taken_over() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    let mark = json!({"rollouts.kruise.io/in-progressing": r#"{"rolloutName":"former"}"#});
    world.update(&cloneset(), &json!({"metadata": {"annotations": mark}}));
    world.run_to(1, "StepPaused");
}

#[test]
fn a_traffic_routing_is_told_of_the_end_also_where_the_rollout_no_longer_names_it() {
    let mut world = world(&cloneset(), 5);
    let routing = gray(&mut world);
    world.release_by(&cloneset(), &three_steps());
    annotate(&mut world, "rollouts.kruise.io/trafficrouting", "gray");
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    assert!(world.get(&routing).has_finalizer("progressing.rollouts.kruise.io/web"));
    annotate(&mut world, "rollouts.kruise.io/trafficrouting", "");
    world.release(&cloneset(), "v1");
    world.run_until("the end", World::is_over);
    assert_eq!(world.get(&routing)["metadata"]["finalizers"], json!(["rollouts.kruise.io/trafficrouting"]));
}
