//! Releases with a second Deployment, and blue-green ones.

use super::*;

const ORIGINAL: &str = "rollouts.kruise.io/original-deployment-strategy";

fn plan_of(more: &Value) -> BatchRelease {
    serde_json::from_value(release(
        &reference(APPS, "Deployment"),
        &[],
        json!({"spec": {"releasePlan": more}}),
    ))
    .unwrap()
}

/// The writes of a release with a second Deployment.
fn with_canary<T>(
    cluster: &Cluster,
    release: &BatchRelease,
    act: impl Fn(&mut Task<'_>) -> Result<T, Unread>,
) -> (T, Vec<Write>) {
    let workload = read_in(cluster, &reference(APPS, "Deployment"), Style::Canary);
    cluster.read(|view| {
        let mut task = Task::of(release, &workload, view);
        let result = act(&mut task)?;
        Ok((result, task.into_writes().collect()))
    })
}

fn opened_canary(cluster: &mut Cluster, release: &BatchRelease, size: i32) -> usize {
    let size = IntOrString::Int(size);
    let ((), writes) = with_canary(cluster, release, |task| {
        actions::open(task, &Batch::of(&size, task.workload, None), false)
    });
    writes.iter().for_each(|write| cluster.carry_out(write));
    writes.len()
}

fn canary_of(cluster: &Cluster) -> &Value {
    let canaries = cluster.all("Deployment").into_iter().filter(|deployment| deployment.name() != "web");
    canaries.collect::<Vec<_>>().first().copied().unwrap()
}

#[test]
fn the_second_deployment_is_a_copy_that_only_grows() {
    let future = json!({"metadata": {"labels": {"argo": "x"}}, "spec": {"future": {"x": 1.50}}});
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let mut cluster = Cluster::of([deployment("v2", future), old]);
    let release = plan_of(
        &json!({"patchPodTemplateMetadata": {"labels": {"lane": "gray"}, "annotations": {"a": "b"}}}),
    );
    assert_eq!(opened_canary(&mut cluster, &release, 2), 1);
    let canary = canary_of(&cluster).clone();
    assert_eq!((&canary["spec"]["replicas"], &canary["spec"]["paused"]), (&json!(2), &json!(false)));
    assert_eq!(canary["spec"]["future"], json!({"x": 1.50}));
    let mut template = template("v2");
    merge(&mut template, json!({"metadata": {"labels": {"lane": "gray"}, "annotations": {"a": "b"}}}));
    assert_eq!(canary["spec"]["template"], template);
    // Labels of the first one are what others find it by.
    assert_eq!(canary["metadata"]["labels"], json!({"rollouts.kruise.io/canary-deployment": "web"}));
    assert_eq!(canary["metadata"]["finalizers"], json!(["finalizer.rollouts.kruise.io/batch-release"]));
    assert_eq!(canary.controller(), Some("rel-uid"));
    assert!(canary.name().starts_with("web-"));

    assert_eq!(opened_canary(&mut cluster, &release, 4), 1);
    assert_eq!(canary_of(&cluster)["spec"]["replicas"], 4);
    assert_eq!(opened_canary(&mut cluster, &release, 3), 0);
}

#[test]
fn new_pods_are_those_of_the_second_deployment() {
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let mut cluster = Cluster::of([deployment("v2", json!({})), old]);
    opened_canary(&mut cluster, &plan_of(&json!({})), 2);
    let name = canary_of(&cluster).name().to_owned();
    cluster.report(
        "Deployment",
        &name,
        json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 1}),
    );
    let mut set = replica_set("fresh", "v2", 2, 2, "2026-05-01T08:00:00Z");
    merge(&mut set, json!({"metadata": {"ownerReferences": managed_by(&format!("{name}-uid"))}}));
    cluster.put(set);
    cluster.put(pod("p", "web-fresh-uid", &json!({}), true));
    let workload = read_in(&cluster, &reference(APPS, "Deployment"), Style::Canary);
    assert_eq!((workload.updated_replicas, workload.updated_ready_replicas), (2, 1));
    assert_eq!((&*workload.stable_revision, &*workload.pod_template_hash), ("old", "fresh"));
    assert!(!workload.is_rolled_back);
    assert_eq!(cluster.read(|view| workload.new_pods(view).map(|pods| pods.len())), 1);
    cluster.change("Deployment", "web", json!({"spec": {"template": template("v1")}}));
    assert!(read_in(&cluster, &reference(APPS, "Deployment"), Style::Canary).is_rolled_back);
}

#[test]
fn a_second_deployment_of_openkruise_is_known_by_its_template() {
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let mut cluster = Cluster::of([deployment("v2", json!({})), old]);
    let canary = |name: &str, image: &str, created: &str| {
        object(
            APPS,
            "Deployment",
            name,
            json!({
                "metadata": {"labels": {"rollouts.kruise.io/canary-deployment": "web"}, "creationTimestamp": created,
                    "ownerReferences": managed_by("rel-uid")},
                "spec": {"replicas": 2, "selector": selector(), "template": template(image)},
                "status": {"updatedReplicas": 2, "availableReplicas": 2},
            }),
        )
    };
    cluster.put(canary("web-abcde", "v2", "2026-05-01T08:00:00Z"));
    assert_eq!(opened_canary(&mut cluster, &plan_of(&json!({})), 2), 0);
    let workload = read_in(&cluster, &reference(APPS, "Deployment"), Style::Canary);
    assert_eq!(workload.updated_replicas, 2);
    assert!(workload.is_release_of("unknown"));
    // One of an older version is none of this release.
    cluster.put(canary("web-fghij", "v1.5", "2026-05-01T09:00:00Z"));
    let workload = read_in(&cluster, &reference(APPS, "Deployment"), Style::Canary);
    assert_eq!((workload.updated_replicas, workload.is_release_of("unknown")), (2, false));
}

#[test]
fn a_restart_in_the_midst_of_a_release_gets_a_second_deployment_of_its_own() {
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let mut cluster = Cluster::of([deployment("v2", json!({})), old]);
    opened_canary(&mut cluster, &plan_of(&json!({})), 2);
    let restart = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
    cluster.change("Deployment", "web", json!({"spec": {"template": restart}}));
    let workload = read_in(&cluster, &reference(APPS, "Deployment"), Style::Canary);
    assert_eq!(workload.updated_replicas, 0);
    assert!(!workload.is_release_of("the version before"));
}

#[test]
fn the_second_deployment_stays_until_the_first_one_has_rolled() {
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    let mut cluster = Cluster::of([deployment("v2", json!({})), old]);
    let release = plan_of(&json!({"batchPartition": null, "finalizingPolicy": "WaitResume"}));
    opened_canary(&mut cluster, &release, 2);
    let end = |cluster: &mut Cluster| {
        let (words, writes) = with_canary(cluster, &release, |task| actions::end(task, End::HandBack));
        writes.iter().for_each(|write| cluster.carry_out(write));
        words
    };
    assert!(end(&mut cluster).is_some());
    assert_eq!(cluster.get("Deployment", "web")["spec"]["paused"], false);
    assert!(end(&mut cluster).is_some(), "the controller has not seen it");
    cluster.report("Deployment", "web", json!({"updatedReplicas": 4, "availableReplicas": 5}));
    assert_eq!(end(&mut cluster).as_deref(), Some("Deployment `web` rolls: 4 of 5 pods new, 5 available"));
    cluster.report("Deployment", "web", json!({"updatedReplicas": 5, "availableReplicas": 3}));
    assert!(end(&mut cluster).is_some());
    cluster.report("Deployment", "web", json!({"availableReplicas": 4}));
    assert_eq!(end(&mut cluster), None);
    assert_eq!(cluster.all("Deployment").len(), 1);
    assert_eq!(cluster.get("Deployment", "web").label("rollouts.kruise.io/stable-revision"), None);
}

#[test]
fn a_release_that_is_given_up_removes_the_second_deployment_at_once() {
    let old = replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z");
    for (policy, end, paused) in [("Immediate", End::HandBack, false), ("WaitResume", End::Continue, true)] {
        let mut cluster = Cluster::of([deployment("v2", json!({})), old.clone()]);
        let release = plan_of(&json!({"finalizingPolicy": policy}));
        opened_canary(&mut cluster, &release, 2);
        let (words, writes) = with_canary(&cluster, &release, |task| actions::end(task, end));
        writes.iter().for_each(|write| cluster.carry_out(write));
        assert_eq!((words, cluster.all("Deployment").len()), (None, 1));
        assert_eq!(cluster.get("Deployment", "web")["spec"]["paused"], paused);
    }
}

fn autoscaler(name: &str, target: &Value, behavior: &Value) -> Value {
    object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        name,
        json!({
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9, "behavior": behavior}}),
    )
}

fn blue_green(
    cluster: &mut Cluster,
    reference: &WorkloadRef,
    act: impl Fn(&mut Task<'_>) -> Result<Option<String>, Unread>,
) -> Option<String> {
    let workload = read_in(cluster, reference, Style::BlueGreen);
    let release = plan_of(&json!({}));
    let (words, writes) = cluster.read(|view| {
        let mut task = Task::of(&release, &workload, view);
        let words = act(&mut task)?;
        Ok((words, task.into_writes().collect::<Vec<_>>()))
    });
    writes.iter().for_each(|write| cluster.carry_out(write));
    words
}

fn opened_blue_green(cluster: &mut Cluster, reference: &WorkloadRef, size: &Value) {
    let size: IntOrString = serde_json::from_value(size.clone()).unwrap();
    blue_green(cluster, reference, |task| {
        actions::hold(task)?;
        actions::open(task, &Batch::of(&size, task.workload, None), false)?;
        Ok(None)
    });
}

#[test]
fn a_blue_green_deployment_grows_and_gets_its_settings_back_once_it_has_rolled() {
    let web = reference(APPS, "Deployment");
    let behavior = json!({"scaleUp": {"selectPolicy": "Max", "future": 1}});
    let target = json!({"apiVersion": "apps/v1beta2", "kind": "Deployment", "name": "web"});
    let held = autoscaler("mine", &target, &behavior);
    let other = autoscaler(
        "other",
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}),
        &Value::Null,
    );
    let before = deployment("v2", json!({"spec": {"minReadySeconds": 3}}));
    let mut cluster = Cluster::of([
        before.clone(),
        replica_set("old", "v1", 5, 5, "2026-05-01T07:00:00Z"),
        held.clone(),
        other.clone(),
    ]);
    opened_blue_green(&mut cluster, &web, &json!("60%"));

    let green = cluster.get("Deployment", "web");
    assert_eq!(
        green["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "60%", "maxUnavailable": 0}})
    );
    assert_eq!(
        (&green["spec"]["minReadySeconds"], &green["spec"]["progressDeadlineSeconds"]),
        (&json!(2147483646), &json!(2147483647))
    );
    assert_eq!(green["spec"]["paused"], false);
    let saved: Value = serde_json::from_str(green.annotation(ORIGINAL).unwrap()).unwrap();
    assert_eq!(
        saved,
        json!({"heldSurge": "60%", "maxSurge": "25%", "maxUnavailable": "25%", "minReadySeconds": 3,
            "progressDeadlineSeconds": 600})
    );
    assert_eq!(cluster.get("ReplicaSet", "web-old")["spec"]["minReadySeconds"], 2147483646);
    let scaler = cluster.get("HorizontalPodAutoscaler", "mine");
    assert_eq!(
        scaler["spec"]["behavior"],
        json!({"scaleUp": {"selectPolicy": "Disabled", "future": 1}, "scaleDown": {"selectPolicy": "Disabled"}})
    );
    assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], "web");
    assert_eq!(spec_of(cluster.get("HorizontalPodAutoscaler", "other")), spec_of(&other));

    // A smaller batch takes nothing back, and settings are saved once.
    opened_blue_green(&mut cluster, &web, &json!(1));
    let green = cluster.get("Deployment", "web");
    assert_eq!(green["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "60%");

    let end = |cluster: &mut Cluster| blue_green(cluster, &web, |task| actions::end(task, End::HandBack));
    assert!(end(&mut cluster).is_some());
    let green = cluster.get("Deployment", "web");
    assert_eq!(
        (&green["spec"]["strategy"], &green["spec"]["minReadySeconds"]),
        (&before["spec"]["strategy"], &json!(3))
    );
    assert_eq!((&green["spec"]["progressDeadlineSeconds"], green.annotation(ORIGINAL)), (&json!(600), None));
    // The autoscaler acts again only when the live status says that all is new and ready.
    cluster.put(replica_set("new", "v2", 5, 4, "2026-05-01T08:00:00Z"));
    cluster.report("Deployment", "web", json!({"replicas": 8}));
    assert!(end(&mut cluster).is_some());
    cluster.report("Deployment", "web", json!({"replicas": 5}));
    assert_eq!(
        end(&mut cluster).as_deref(),
        Some("Deployment `web` rolls: 5 of 5 pods new, 4 of these ready")
    );
    assert_ne!(cluster.get("HorizontalPodAutoscaler", "mine")["spec"]["behavior"], behavior);
    cluster.put(replica_set("new", "v2", 5, 5, "2026-05-01T08:00:00Z"));
    assert_eq!(end(&mut cluster), None);
    let scaler = cluster.get("HorizontalPodAutoscaler", "mine");
    assert_eq!((spec_of(scaler), scaler["metadata"].get("annotations")), (spec_of(&held), Some(&json!({}))));
}

#[test]
fn an_autoscaler_that_its_user_changes_during_a_release_is_held_and_keeps_the_change() {
    let web = reference(KRUISE, "CloneSet");
    let target = json!({"apiVersion": KRUISE, "kind": "CloneSet", "name": "web"});
    let behavior = |policy: &str, pods: i64| json!({"selectPolicy": policy, "policies": [{"type": "Pods", "value": pods}]});
    let original = json!({"scaleUp": behavior("Max", 4)});
    let mut cluster = Cluster::of([cloneset(json!({})), autoscaler("mine", &target, &original)]);
    opened_blue_green(&mut cluster, &web, &json!("60%"));
    let present =
        |cluster: &Cluster| cluster.get("HorizontalPodAutoscaler", "mine")["spec"]["behavior"].clone();
    let held = json!({"scaleUp": behavior("Disabled", 4), "scaleDown": {"selectPolicy": "Disabled"}});
    assert_eq!(present(&cluster), held);

    // A file that names other rules is applied, and with it one direction is free.
    let mut applied = cluster.get("HorizontalPodAutoscaler", "mine").clone();
    applied["spec"]["behavior"]["scaleUp"] = behavior("Disabled", 7);
    applied["spec"]["behavior"]["scaleDown"] = behavior("Min", 2);
    cluster.put(applied);
    let keep =
        |cluster: &mut Cluster| blue_green(cluster, &web, |task| actions::keep_held(task).map(|()| None));
    keep(&mut cluster);
    let held = json!({"scaleUp": behavior("Disabled", 7), "scaleDown": behavior("Disabled", 2)});
    assert_eq!(present(&cluster), held);
    keep(&mut cluster);
    assert_eq!(present(&cluster), held);

    let writes = cluster.read(|view| crate::workload::autoscaler::release(&web, "shop", view));
    writes.iter().for_each(|write| cluster.carry_out(write));
    assert_eq!(present(&cluster), json!({"scaleUp": behavior("Max", 7), "scaleDown": behavior("Min", 2)}));
}

#[test]
fn an_autoscaler_that_openkruise_renamed_gets_its_target_back() {
    let web = reference(KRUISE, "CloneSet");
    let target =
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web-DisableByRollout"});
    let rolled = json!({"status": {"updatedReplicas": 5, "updatedReadyReplicas": 5}, "metadata": {"annotations": {CONTROL: "{\"uid\":\"rel-uid\"}"}}});
    let mut cluster = Cluster::of([cloneset(rolled), autoscaler("mine", &target, &Value::Null)]);
    opened_blue_green(&mut cluster, &web, &json!("100%"));
    assert_eq!(
        cluster.get("HorizontalPodAutoscaler", "mine")["spec"]["scaleTargetRef"]["name"],
        "web-DisableByRollout"
    );
    blue_green(&mut cluster, &web, |task| actions::end(task, End::HandBack));
    cluster.report("CloneSet", "web", json!({}));
    assert_eq!(blue_green(&mut cluster, &web, |task| actions::end(task, End::HandBack)), None);
    assert_eq!(cluster.get("HorizontalPodAutoscaler", "mine")["spec"]["scaleTargetRef"]["name"], "web");
}

#[test]
fn an_autoscaler_without_behavior_is_without_it_again() {
    let web = reference(APPS, "Deployment");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut scaler = autoscaler("mine", &target, &Value::Null);
    merge(&mut scaler, json!({"spec": {"behavior": null}}));
    let mut cluster = Cluster::of([deployment("v2", json!({})), scaler.clone()]);
    opened_blue_green(&mut cluster, &web, &json!(1));
    assert!(cluster.get("HorizontalPodAutoscaler", "mine")["spec"].get("behavior").is_some());
    let writes = cluster.read(|view| crate::workload::autoscaler::release(&web, "shop", view));
    writes.iter().for_each(|write| cluster.carry_out(write));
    assert_eq!(spec_of(cluster.get("HorizontalPodAutoscaler", "mine")), spec_of(&scaler));
}

#[test]
fn a_blue_green_cloneset_has_its_deadline_lifted_too() {
    let web = reference("apps.kruise.io/v1alpha1", "CloneSet");
    for deadline in [Some(300), None] {
        let strategy = json!({"partition": "100%", "paused": true, "maxUnavailable": "20%"});
        let before =
            cloneset(json!({"spec": {"progressDeadlineSeconds": deadline, "updateStrategy": strategy}}));
        let mut cluster = Cluster::of([before.clone()]);
        blue_green(&mut cluster, &web, |task| actions::hold(task).map(|()| None));
        let green = cluster.get("CloneSet", "web");
        assert_eq!(
            green["spec"]["updateStrategy"],
            json!({"partition": "100%", "paused": false, "maxSurge": 1, "maxUnavailable": 0})
        );
        assert_eq!(green["spec"]["minReadySeconds"], 2147483646);
        assert_eq!(
            green["spec"].get("progressDeadlineSeconds"),
            deadline.map(|_| json!(2147483647)).as_ref()
        );
        opened_blue_green(&mut cluster, &web, &json!("100%"));
        let green = cluster.get("CloneSet", "web");
        assert_eq!(
            green["spec"]["updateStrategy"],
            json!({"paused": false, "maxSurge": "100%", "maxUnavailable": 0})
        );
        blue_green(&mut cluster, &web, |task| actions::end(task, End::HandBack));
        let mut after = before;
        merge(&mut after, json!({"spec": {"updateStrategy": {"partition": null, "paused": false}}}));
        assert_eq!(spec_of(cluster.get("CloneSet", "web")), spec_of(&after));
    }
}

#[test]
fn a_deployment_that_is_recreated_as_a_whole_is_so_again() {
    let web = reference(APPS, "Deployment");
    let strategy = json!({"type": "Recreate", "rollingUpdate": null});
    let before = deployment("v2", json!({"spec": {"strategy": strategy}}));
    let mut cluster = Cluster::of([before.clone()]);
    opened_blue_green(&mut cluster, &web, &json!(2));
    assert_eq!(cluster.get("Deployment", "web")["spec"]["strategy"]["type"], "RollingUpdate");
    blue_green(&mut cluster, &web, |task| actions::end(task, End::HandBack));
    assert_eq!(cluster.get("Deployment", "web")["spec"]["strategy"], before["spec"]["strategy"]);
}
