//! ImagePullJobs.

use super::secrets::{copies, secret};
use super::*;
use crate::registration::Replica;

#[tokio::test]
async fn a_job_of_either_version_gets_its_defaults_and_its_finalizer() {
    let town = Town::open("defaults", &[]).await;
    for version in ["v1alpha1", "v1beta1"] {
        let job = object(&format!("apps.kruise.io/{version}"), "ImagePullJob", version)
            .in_namespace(&town.name)
            .with(
                "/spec",
                json!({"image": "nginx", "completionPolicy": {}, "parallelism": "0",
                "selector": {"names": ["none"]}}),
            );
        let job = town.create(job).await;
        let spec = &job.object["spec"];
        assert_eq!(spec["completionPolicy"], json!({"type": "Always"}));
        assert_eq!(spec["pullPolicy"], json!({"timeoutSeconds": 600, "backoffLimit": 3}));
        assert_eq!(spec["imagePullPolicy"], "IfNotPresent");
        assert_eq!(job.object["metadata"].get("finalizers").is_some(), version == "v1alpha1");
    }
    let waiting = town
        .create(town.job("waiting", json!({"image": "nginx", "completionPolicy": {"type": "Never"}})))
        .await;
    wait_for("the finalizer", async || {
        let finalizers = waiting.get().await.1["metadata"]["finalizers"].clone();
        if finalizers == json!([FINALIZER]) { Ok(()) } else { Err(finalizers) }
    })
    .await;
    waiting.deleted().await;
    waiting.gone().await;
}

#[tokio::test]
async fn what_a_job_may_not_say_is_refused() {
    let town = Town::open("refused", &[]).await;
    let deadline = |seconds: u32| {
        json!({"image": "nginx", "pullPolicy": {"timeoutSeconds": 600},
            "completionPolicy": {"activeDeadlineSeconds": seconds}})
    };
    for (spec, refusal) in [
        (
            json!({"image": "nginx", "parallelism": "50%"}),
            Some("parallelism does not support percentage value"),
        ),
        (json!({"image": "nginx", "parallelism": "3"}), None),
        (deadline(599), Some("completionPolicy.activeDeadlineSeconds must be greater than")),
        (deadline(600), None),
    ] {
        let answer = create(&town.client, town.job("a", spec.clone()), "?dryRun=All").await;
        match refusal {
            None => assert_eq!(answer.0, 201, "{answer:?}"),
            Some(refusal) => {
                assert_eq!(answer.0, 400, "{answer:?}");
                assert!(message(&answer).contains(refusal), "{answer:?}");
            }
        }
    }
    let job = town.job("kept", json!({"image": "nginx", "pullSecrets": ["a"], "parallelism": 0}));
    let job = town.create(job).await;
    let answer = job.try_patch(&json!({"spec": {"pullSecrets": ["b"]}})).await;
    assert_eq!(answer.0, 403, "{answer:?}");
    assert!(message(&answer).ends_with("spec.pullSecrets is immutable"), "{answer:?}");
    job.deleted().await;
}

#[tokio::test]
async fn no_more_nodes_pull_at_a_time_than_may_and_those_that_fail_are_named() {
    let town = Town::open("five", &["a", "b", "c", "d", "bad"]).await;
    place().await.agents.count(&image(&town));
    let job = town.create(town.job("pull", json!({"image": image(&town), "parallelism": 2}))).await;
    let now = shows(&job, &json!({"message": "job has completed"})).await;
    let status = &now["status"];
    assert_eq!(
        (&status["desired"], &status["succeeded"], &status["failed"]),
        (&json!(5), &json!(4), &json!(1))
    );
    assert_eq!(status["failedNodes"], json!([town.node("bad")]));
    assert!(status["startTime"].is_string() && status["completionTime"].is_string(), "{status:#}");
    let peak = place().await.agents.peak();
    assert!((1..=2).contains(&peak), "{peak}");
    for node in ["a", "b", "c", "d", "bad"] {
        let tasks = town.tasks(node, &image(&town)).await;
        assert_eq!((tasks.len(), &tasks[0]["version"]), (1, &json!(0)), "{tasks:?}");
    }
    let kubeconfig = format!("--kubeconfig={}", place().await.site.server.kubeconfig().display());
    let words = ["explain", "imagepulljob", "pull", "--namespace", &town.name, &kubeconfig];
    let output = product::run(&words).await;
    let expected = format!("  {}: failed: no such image\n", town.node("bad"));
    assert!(output.stdout.contains(&expected), "{output:?}");
}

#[tokio::test]
async fn a_paused_job_waits_and_goes_on() {
    let town = Town::open("paused", &["a"]).await;
    let job = town.create(town.job("pull", json!({"image": image(&town), "parallelism": 0}))).await;
    shows(&job, &json!({"desired": 1, "message": "job is running, progress 0.0%"})).await;
    assert_eq!(town.tasks("a", &image(&town)).await, Vec::<Value>::new());
    // What has changed meanwhile counts for what is handed out from now on.
    job.patch(&json!({"spec": {"parallelism": 1, "pullPolicy": {"timeoutSeconds": 77}}})).await;
    shows(&job, &json!({"succeeded": 1, "message": "job has completed"})).await;
    let task = town.tasks("a", &image(&town)).await.remove(0);
    assert_eq!(task["pullPolicy"]["timeoutSeconds"], 77, "{task:#}");
}

#[tokio::test]
async fn nodes_of_pods_are_served_as_pods_come() {
    let town = Town::open("pods", &["a", "b"]).await;
    let pod = |name: &str| {
        let pod = kit::builders::pod(name).in_namespace(&town.name).label("app", "web");
        pod.container("main", "nginx:1.25").with("/spec/nodeName", json!(town.node(name)))
    };
    town.create(pod("a")).await;
    let spec = json!({"image": image(&town), "completionPolicy": {"type": "Never"},
        "podSelector": {"matchLabels": {"app": "web"}}});
    let job = town.create(town.job("pull", spec)).await;
    shows(&job, &json!({"desired": 1, "succeeded": 1})).await;
    town.create(pod("b")).await;
    let now = shows(&job, &json!({"desired": 2, "succeeded": 2})).await;
    // A job without an end has none.
    assert_eq!(now["status"].get("completionTime"), None);
    assert_eq!(now["status"]["message"], "job is running, progress 100.0%");
    let policy = town.tasks("b", &image(&town)).await[0]["pullPolicy"].clone();
    let ttl = policy["ttlSecondsAfterFinished"].as_i64().unwrap();
    assert!((85_800..=86_999).contains(&ttl), "{ttl}");
    assert_eq!(policy["activeDeadlineSeconds"], 1800);
    job.deleted().await;
    job.gone().await;
}

/// docs/behaviour/images.md#where-it-makes-sense.
#[tokio::test]
async fn a_node_pulls_once_it_shows_what_the_job_asks_for() {
    let town = Town::open("when", &["a", "b"]).await;
    let when = "label:driver,condition:GpuReady=True";
    let spec = json!({"image": image(&town), "parallelism": 1});
    let refused = town.job("refused", spec.clone()).annotation("kutter.io/pull-when", "condition:GpuReady");
    let answer = create(&town.client, refused, "?dryRun=All").await;
    assert_eq!(answer.0, 400, "{answer:?}");
    assert!(
        message(&answer).contains("metadata.annotations[kutter.io/pull-when]: Invalid value"),
        "{answer:?}"
    );

    let job = town.create(town.job("pull", spec).annotation("kutter.io/pull-when", when)).await;
    let waits = |progress: &str, nodes: usize| {
        let message =
            format!("job is running, progress {progress}, waits for kutter.io/pull-when on {nodes} nodes");
        json!({"desired": 2, "message": message})
    };
    shows(&job, &waits("0.0%", 2)).await;
    let node = |name: &str| {
        Stored::existing(&town.client, format!("/api/v1/nodes/{}", town.node(name)), Value::Null)
    };
    let ready = |status: &str| {
        json!({"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "GpuReady", "status": status}]})
    };
    // The second node is ready first, and the first one takes no turn of it.
    node("b").label("driver", "570").await;
    node("b").patch_status(&ready("True")).await;
    shows(&job, &waits("50.0%", 1)).await;
    assert_eq!(town.tasks("a", &image(&town)).await, Vec::<Value>::new());
    let kubeconfig = format!("--kubeconfig={}", place().await.site.server.kubeconfig().display());
    let words = ["explain", "imagepulljob", "pull", "--namespace", &town.name, &kubeconfig];
    let output = product::run(&words).await;
    let expected = format!("  {}: waits for label:driver, condition:GpuReady=True\n", town.node("a"));
    assert!(output.stdout.contains(&expected), "{output:?}");
    // What was handed out stays.
    node("b").patch_status(&ready("False")).await;
    node("a").patch_status(&ready("True")).await;
    node("a").label("driver", "570").await;
    shows(&job, &json!({"desired": 2, "succeeded": 2, "message": "job has completed"})).await;
}

#[tokio::test]
async fn a_job_is_deleted_after_its_time_and_its_tasks_go_with_it() {
    let town = Town::open("expired", &["a"]).await;
    let spec = json!({"image": image(&town), "completionPolicy": {"ttlSecondsAfterFinished": 1}});
    let job = town.create(town.job("pull", spec)).await;
    job.gone().await;
    wait_for("the task to leave", async || {
        let tasks = town.tasks("a", &image(&town)).await;
        if tasks.is_empty() { Ok(()) } else { Err(tasks) }
    })
    .await;
}

#[tokio::test]
async fn two_jobs_for_one_image_share_its_task() {
    let town = Town::open("shared", &["silent-a"]).await;
    let first = town.create(town.job("first", json!({"image": image(&town)}))).await;
    shows(&first, &json!({"active": 1})).await;
    let second = town.create(town.job("second", json!({"image": image(&town)}))).await;
    shows(&second, &json!({"active": 1})).await;
    let task = town.tasks("silent-a", &image(&town)).await.remove(0);
    assert_eq!((&task["version"], task["ownerReferences"].as_array().unwrap().len()), (&json!(1), 2));
    first.deleted().await;
    let owners = wait_for("the owner to leave", async || {
        let task = town.tasks("silent-a", &image(&town)).await.remove(0);
        let owners = task["ownerReferences"].as_array().unwrap().clone();
        if owners.len() == 1 { Ok(owners) } else { Err(owners) }
    })
    .await;
    assert_eq!(owners[0]["name"], "second");
    second.deleted().await;
}

#[tokio::test]
async fn what_the_reference_has_handed_out_is_not_pulled_again() {
    let town = Town::open("taken-over", &["a", "silent-done"]).await;
    secret(&town, &town.name, "pull").await;
    let copy = format!("pull-{}", town.name);
    let notes = json!({"imagepulljobs.kruise.io/source-key": format!("{}/pull", town.name),
        "imagepulljobs.kruise.io/references": format!("{}/pull", town.name)});
    let copied = object("v1", "Secret", &copy).in_namespace(CONFIG).with("/metadata/annotations", notes);
    town.create(copied.with("/data", json!({".dockerconfigjson": "e30="}))).await;
    let spec = json!({"image": image(&town), "parallelism": 0, "pullSecrets": ["pull"]});
    // Another job makes a copy of its own until the program knows this one.
    wait_for("the program to know the copy", async || {
        let probe = town.create(town.job("probe", spec.clone())).await;
        shows(&probe, &json!({"desired": 2})).await;
        let copies = copies(&town).await;
        probe.deleted().await;
        probe.gone().await;
        if copies.len() == 1 { Ok(()) } else { Err(copies) }
    })
    .await;
    let done = town.node_image("silent-done").await;
    let status = json!({"tag": "latest", "version": 4, "phase": "Succeeded", "completionTime": ago(5)});
    done.patch_status(&json!({"desired": 1, "imageStatuses": {(image(&town)): {"tags": [status]}}})).await;

    let job = town.create(town.job("pull", spec)).await;
    shows(&job, &json!({"desired": 2})).await;
    let owner = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "namespace": town.name,
        "name": "pull", "uid": job.object["metadata"]["uid"]});
    let task = json!({"tag": "latest", "version": 4, "createdAt": ago(9), "ownerReferences": [owner],
        "pullPolicy": {"ttlSecondsAfterFinished": 2000}});
    let references = json!([{"namespace": CONFIG, "name": copy}]);
    let images = json!({(image(&town)): {"tags": [task], "pullSecrets": references}});
    for node in [&done, &town.node_image("a").await] {
        node.patch(&json!({"spec": {"images": images}})).await;
    }
    job.patch(&json!({"spec": {"parallelism": 1}})).await;
    shows(&job, &json!({"succeeded": 2, "message": "job has completed"})).await;
    for node in ["a", "silent-done"] {
        let image = town.node_image(node).await.get().await.1["spec"]["images"][image(&town)].clone();
        assert_eq!((&image["tags"][0]["version"], &image["pullSecrets"]), (&json!(4), &references), "{node}");
    }
    wait_for("the copy to go", async || match copies(&town).await {
        copies if copies.is_empty() => Ok(()),
        copies => Err(copies),
    })
    .await;
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_job_hands_nothing_out_twice() {
    let server = product::server(kit::Options::default()).await;
    let program = Replica::ready(&server, options()).await;
    in_use(&server).await;
    let names = ["1", "2", "3", "4"];
    let town = Town::open_on(&server, "restarted", &names).await;
    let job = town.create(town.job("pull", json!({"image": image(&town), "parallelism": 2}))).await;
    shows(&job, &json!({"desired": 4, "active": 2})).await;
    let succeed = async |name: &str| {
        let status = json!({"tag": "latest", "version": 0, "phase": "Succeeded", "completionTime": ago(0)});
        let status = json!({"desired": 1, "imageStatuses": {(image(&town)): {"tags": [status]}}});
        town.node_image(name).await.patch_status(&status).await;
    };
    succeed("1").await;
    shows(&job, &json!({"active": 2, "succeeded": 1})).await;
    program.stop().await;
    succeed("2").await;
    let _program = Replica::ready(&server, options()).await;
    shows(&job, &json!({"active": 2, "succeeded": 2})).await;
    succeed("3").await;
    succeed("4").await;
    shows(&job, &json!({"active": null, "succeeded": 4, "message": "job has completed"})).await;
    for name in names {
        let node = town.node_image(name).await.get().await.1;
        // It was created, and got its task.
        assert_eq!(node["metadata"]["generation"], 2, "{node:#}");
        assert_eq!(node["spec"]["images"][image(&town)]["tags"][0]["version"], 0);
    }
}
