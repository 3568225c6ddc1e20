//! Releases that go back, by somebody's doing or by themselves.

use super::*;

#[test]
fn a_rollback_takes_traffic_away_before_new_pods_go() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &traffic_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.release(&cloneset(), "v1");
    while world.canary_weight().is_some() {
        assert_eq!(world.count("v2"), 1, "new Pods go before traffic has left them");
        world.run(1);
    }
    world.run_until("the end", World::is_over);
    assert_eq!((world.count("v1"), world.count("v2")), (5, 0));
    assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
    world.assert_clean(&cloneset());
    assert!(world.events.iter().any(|event| event.contains("canceled")));
}

#[test]
fn a_step_back_takes_requests_back_and_then_pods() {
    let mut strategy = traffic_steps();
    strategy["canary"]["enableExtraWorkloadForCanary"] = true.into();
    let mut world = world(&deployment(), 5);
    world.release_by(&deployment(), &strategy);
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (3, Some("50")));
    world.jump(1);
    while world.canary_weight() == Some("50") {
        assert_eq!(world.count("v2"), 3);
        world.run(1);
    }
    world.run_to(1, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (1, Some("20")));
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!((world.count("v2"), world.canary_weight()), (3, Some("50")));
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
    world.assert_clean(&deployment());
}

#[test]
fn a_step_back_gives_a_cloneset_its_partition_of_that_step() {
    let mut world = world(&cloneset(), 5);
    world.release_by(&cloneset(), &three_steps());
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let partition = |world: &World| world.get(&cloneset())["spec"]["updateStrategy"]["partition"].clone();
    let first = partition(&world);
    world.approve();
    world.run_to(2, "StepPaused");
    assert_ne!(partition(&world), first);
    world.jump(1);
    world.run_to(1, "StepPaused");
    assert_eq!(partition(&world), first);
    // The last step is as near from there as the next one.
    world.jump(3);
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v2"), 5);
}

#[test]
fn a_rollback_in_batches_takes_the_steps_again() {
    let mut world = world(&cloneset(), 10);
    world.release_by(&cloneset(), &three_steps());
    world.update(
        &rollout(),
        &json!({"metadata": {"annotations": {"rollouts.kruise.io/rollback-in-batch": "true"}}}),
    );
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 6);
    world.release(&cloneset(), "v1");
    world.run_to(1, "StepPaused");
    assert_eq!(world.condition("Progressing").unwrap()["reason"], "InRolling");
    assert!(world.count("v2") < 6 && world.count("v2") > 0, "{}", world.count("v2"));
    world.approve();
    world.run_to(2, "StepPaused");
    world.approve();
    world.run_until("the end", World::is_over);
    assert_eq!(world.count("v1"), 10);
    world.assert_clean(&cloneset());
}

#[test]
fn a_release_without_progress_rolls_itself_back() {
    let mut extra = traffic_steps();
    extra["canary"]["enableExtraWorkloadForCanary"] = true.into();
    for (workload, strategy) in [
        (cloneset(), traffic_steps()),
        (deployment(), traffic_steps()),
        (deployment(), extra),
        (deployment(), blue_green()),
        (cloneset(), blue_green()),
    ] {
        let mut world = world(&workload, 5);
        world.broken.push("v2".to_owned());
        world.release_by(&workload, &strategy);
        annotate(&mut world, "kutter.io/rollback-after-seconds", "60");
        world.release(&workload, "v2");
        world.run_to(1, "StepUpgrade");
        world.run(50);
        assert!(world.is_at(1, "StepUpgrade") && world.count("v2") > 0, "{} {strategy}", workload.kind);
        world.run_until("the end", World::is_over);
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (5, 0), "{} {strategy}", workload.kind);
        assert_eq!(world.condition("Succeeded").unwrap()["status"], "False");
        assert!(
            world.events.iter().any(|event| event.starts_with("no progress for 60 seconds: batch 1: 0 of "))
        );
        world.assert_clean(&workload);
    }
}

#[test]
fn a_release_of_which_more_new_pods_fail_than_may_rolls_itself_back() {
    let mut world = world(&cloneset(), 10);
    world.release_by(&cloneset(), &three_steps());
    annotate(&mut world, "kutter.io/rollback-failure-share", "50%");
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepPaused");
    let new: Vec<Value> = world.of_kind("Pod").into_iter().filter(|pod| image(pod) == "v2").collect();
    let fail = |world: &mut World, pod: &Value| {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let status = json!({"containerStatuses": [{"name": "main", "ready": false, "restartCount": 2, "image": "v2",
            "imageID": "", "state": waiting}]});
        world.update_status(&named("v1", "Pod", pod.name()), &status);
    };
    assert_eq!(new.len(), 2);
    fail(&mut world, &new[0]);
    world.run(5);
    assert!(world.is_at(1, "StepPaused"), "one of two is not more than half");
    fail(&mut world, &new[1]);
    world.run_until("the end", World::is_over);
    assert_eq!(
        (world.count("v1"), world.condition("Succeeded").unwrap()["status"].clone()),
        (10, json!("False"))
    );
    assert!(
        world.events.iter().any(|event| event.starts_with("2 of 2 new pods fail: `web-")),
        "{:?}",
        world.events
    );
    world.assert_clean(&cloneset());
}

#[test]
fn a_release_stays_where_nothing_records_what_to_go_back_to() {
    let mut world = world(&cloneset(), 5);
    world.broken.push("v2".to_owned());
    world.release_by(&cloneset(), &three_steps());
    annotate(&mut world, "kutter.io/rollback-after-seconds", "10");
    for revision in world.of_kind("ControllerRevision") {
        world.delete(&named("apps/v1", "ControllerRevision", revision.name()));
    }
    world.release(&cloneset(), "v2");
    world.run_to(1, "StepUpgrade");
    world.run(20);
    assert!(world.rollout().text("/status/message").contains("no record of version"), "{}", world.rollout());
    world.mend("v2");
    world.run_to(1, "StepPaused");
}

/// A Deployment of ten at a step with half of its Pods and requests, whose old version is wanted again.
fn rolled_back_half_way(old_pods_come: bool) -> World {
    let mut world = world(&deployment(), 10);
    world.release_by(&deployment(), &traffic_steps());
    annotate(&mut world, "kutter.io/rollout-deadline-seconds", "60");
    world.release(&deployment(), "v2");
    world.run_to(1, "StepPaused");
    world.approve();
    world.run_to(2, "StepPaused");
    assert_eq!(world.count("v2"), 5);
    if !old_pods_come {
        world.broken.push("v1".to_owned());
    }
    world.release(&deployment(), "v1");
    world
}

#[test]
fn pods_that_are_rolled_back_get_no_requests_until_they_are_gone() {
    let mut world = rolled_back_half_way(true);
    while !world.is_over() {
        assert!(!world.serves("web", "v2"));
        world.run(1);
    }
    assert_eq!(world.count("v2"), 0);
    world.assert_clean(&deployment());
}

#[test]
fn pods_that_do_not_roll_back_hold_the_service_until_the_deadline() {
    let mut world = rolled_back_half_way(false);
    for _ in 0..60 {
        assert!(!world.serves("web", "v2"));
        world.run(1);
    }
    world.run_until("the end", World::is_over);
    assert!(world.count("v2") > 0);
    world.assert_clean(&deployment());
}

#[test]
fn a_newer_version_during_a_rollback_finds_a_service_of_old_pods() {
    let mut world = rolled_back_half_way(false);
    world.run_until("the wait", |world| {
        world.rollout().text("/status/message").ends_with("pods have the old version again")
    });
    world.release(&deployment(), "v3");
    for _ in 0..100 {
        assert!(!world.serves("web", "v2") && !world.serves("web", "v3"));
        world.run(1);
    }
    assert!(world.is_at(1, "StepPaused"), "{}", world.rollout());
}
