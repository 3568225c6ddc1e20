//! Two sets of Pods side by side.

use super::*;

#[test]
fn blue_and_green_stand_side_by_side_until_the_last_approval() {
    for workload in [deployment(), cloneset()] {
        let mut world = world(&workload, 3);
        world.update(&workload, &json!({"spec": {"minReadySeconds": 7}}));
        (0..2).for_each(|_| world.work());
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        assert_eq!((world.count("v1"), world.count("v2")), (3, 2), "{}", workload.kind);
        world.approve();
        world.run_to(2, "StepPaused");
        assert_eq!((world.count("v1"), world.count("v2")), (3, 3));
        assert_eq!(world.canary_weight(), Some("100"));
        world.run(10);
        assert!(world.is_at(2, "StepPaused"), "the last step waits too");
        world.approve();
        world.run_until("the end", World::is_over);
        assert_eq!((world.count("v1"), world.count("v2")), (0, 3));
        assert_eq!(world.get(&workload)["spec"]["minReadySeconds"], 7);
        world.assert_clean(&workload);
    }
}

#[test]
fn a_manifest_that_is_applied_again_ends_no_blue_green_release() {
    let settings = json!({"maxSurge": "10%", "maxUnavailable": "50%"});
    for (workload, applied) in [
        (deployment(), json!({"minReadySeconds": 5, "strategy": {"rollingUpdate": settings}})),
        (cloneset(), json!({"minReadySeconds": 5, "updateStrategy": settings})),
    ] {
        let mut world = world(&workload, 3);
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        let held = world.get(&workload)["spec"].clone();
        world.update(&workload, &json!({"spec": applied}));
        assert_eq!(world.get(&workload)["spec"], held);
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v2")), (3, 2), "{}", workload.kind);
        // The same where no webhook sees it.
        let kind = "MutatingWebhookConfiguration";
        let webhook = world.of_kind(kind).remove(0);
        world.objects.retain(|name, _| name.kind != kind);
        world.update(&workload, &json!({"spec": applied}));
        world.reconcile();
        assert_eq!(world.get(&workload)["spec"], held);
        world.create(webhook);
        for step in [1, 2] {
            world.run_to(step, "StepPaused");
            world.approve();
        }
        world.run_until("the end", World::is_over);
        let spec = &world.get(&workload)["spec"];
        let strategy = if workload.kind == "Deployment" {
            &spec["strategy"]["rollingUpdate"]
        } else {
            &spec["updateStrategy"]
        };
        assert_eq!((&spec["minReadySeconds"], strategy), (&json!(5), &settings));
        world.assert_clean(&workload);
    }
}

#[test]
fn a_third_version_waits_while_blue_and_green_stand() {
    for workload in [deployment(), cloneset()] {
        let mut world = world(&workload, 3);
        world.release_by(&workload, &blue_green());
        world.release(&workload, "v2");
        world.run_to(1, "StepPaused");
        world.release(&workload, "v3");
        world.run(10);
        assert_eq!((world.count("v1"), world.count("v3")), (3, 0), "{}", workload.kind);
        let message =
            "new version releasing detected in the progress of blue-green release, please rollback first";
        assert_eq!(world.rollout()["status"]["message"], message);
        world.release(&workload, "v1");
        world.run_until("the end", World::is_over);
        assert_eq!((world.count("v1"), world.count("v2"), world.count("v3")), (3, 0, 0));
        world.assert_clean(&workload);
    }
}
