//! Updates in place with hooks and grace, images pulled ahead, and taking over.

use std::time::Duration;

use std::sync::Arc;

use serde_json::json;

use super::super::fixture::{Fleet, image, sized, template};
use super::super::*;
use super::{in_place, with};

use crate::workload::action::IMAGE_PULL_JOB;
use crate::workload::children::Child;
use crate::workload::object_version::ObjectVersion;
use ::pod::write::PodWrite;
use ::pod::write::Target;
use api::features::FeatureGates;
use values::server_version::ServerVersion;

fn states(fleet: &Fleet) -> Vec<&str> {
    fleet.pods.iter().map(|pod| pod.label("lifecycle.apps.kruise.io/state").unwrap_or_default()).collect()
}

#[test]
fn an_update_in_place_waits_for_its_hook_before_and_after() {
    let mut labelled = template("nginx:1");
    labelled["metadata"]["labels"]["serves"] = "yes".into();
    let spec =
        json!({"lifecycle": {"inPlaceUpdate": {"labelsHandler": {"serves": "yes"}}}, "template": labelled});
    let mut fleet = Fleet::running(1, with(in_place(json!({"maxUnavailable": 1})), spec));
    let name = fleet.name(0);
    labelled["spec"]["containers"][0]["image"] = "nginx:2".into();
    fleet.edit(json!({"spec": {"template": labelled}}));
    fleet.settle();
    assert_eq!((states(&fleet), fleet.with_image("nginx:1")), (vec!["PreparingUpdate"], 1));
    assert!(fleet.plan().explanation.to_string().contains("remove label serves=yes from it"));
    let mut release = PodWrite::default();
    release.labels.insert("serves".to_owned(), None);
    release.apply(fleet.pod_mut(&name));
    fleet.settle();
    assert_eq!((states(&fleet), fleet.with_image("nginx:2")), (vec!["Updated"], 1));
    assert!(fleet.plan().explanation.to_string().contains("put label serves=yes on it"));
    let mut serve = PodWrite::default();
    serve.set_label("serves", "yes");
    serve.apply(fleet.pod_mut(&name));
    fleet.settle();
    assert_eq!(states(&fleet), ["Normal"]);
    assert!(fleet.plan().explanation.is_complete);
}

#[test]
fn an_update_in_place_takes_three_writes() {
    let mut fleet = Fleet::running(1, in_place(json!({"maxUnavailable": 1})));
    fleet.image("nginx:2");
    let mut writes = 0;
    for _ in 0..6 {
        let plan = fleet.step();
        writes += plan
            .update
            .iter()
            .map(|action| if let Action::WritePod { writes, .. } = action { writes.len() } else { 0 })
            .sum::<usize>();
        fleet.kubelet();
    }
    assert_eq!((writes, fleet.with_image("nginx:2"), states(&fleet)), (3, 1, vec!["Normal"]));
}

#[test]
fn a_grace_period_is_waited_for() {
    let strategy = json!({"maxUnavailable": 1, "inPlaceUpdateStrategy": {"gracePeriodSeconds": 10}});
    let mut fleet = Fleet::running(1, in_place(strategy));
    fleet.image("nginx:2");
    assert_eq!(fleet.step().requeue_after, Some(Duration::from_secs(10)));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 1);
    fleet.later(11);
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:2"), states(&fleet)), (1, vec!["Normal"]));
}

/// The Pod's own record says how long the period is that runs.
#[test]
fn a_change_that_comes_during_the_grace_period_waits() {
    let grace = |seconds: i32| in_place(json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": seconds}}));
    let mut fleet = Fleet::running(1, grace(20));
    fleet.image("nginx:2");
    fleet.settle();
    fleet.later(10);
    fleet.image("nginx:3");
    fleet.edit(json!({"spec": grace(0)}));
    fleet.settle();
    assert_eq!(fleet.with_image("nginx:1"), 1, "{}", fleet.plan());
    fleet.later(11);
    let mut images = vec!["nginx:1".to_owned()];
    for _ in 0..20 {
        fleet.step();
        images.push(image(&fleet.pods[0]).to_owned());
        fleet.kubelet();
    }
    images.dedup();
    assert_eq!(images, ["nginx:1", "nginx:2", "nginx:3"]);
}

/// The node takes its time, and the update waits for it.
#[test]
fn resources_change_through_resize() {
    let policy = |restart: &str| json!([{"resourceName": "cpu", "restartPolicy": restart}]);
    for (policy, stays_ready) in
        [(json!(null), true), (policy("NotRequired"), true), (policy("RestartContainer"), false)]
    {
        let sized = |limit: &str| {
            let mut template = sized(limit);
            template["spec"]["containers"][0]["resizePolicy"] = policy.clone();
            json!({"template": template})
        };
        let mut fleet = Fleet::new(with(in_place(json!({})), sized("200m")));
        fleet.gates = FeatureGates::default().with(Feature::InPlaceWorkloadVerticalScaling, true);
        fleet.environment.server = ServerVersion::parse("v1.35.0");
        fleet.edit(json!({"spec": {"replicas": 1}}));
        fleet.settle();
        let before = fleet.pods.clone();
        let mut resizes = Vec::new();
        fleet.edit(json!({"spec": sized("300m")}));
        for _ in 0..5 {
            for action in &fleet.step().update {
                let Action::WritePod { writes, .. } = action else { panic!("{action}") };
                let resize = writes.iter().filter(|write| write.target == Target::Resize);
                resizes.extend(resize.map(|_| fleet.pods[0].condition_is_true("InPlaceUpdateReady")));
            }
        }
        assert_eq!(resizes, [stays_ready]);
        let limit = fleet.pods[0].container("main").unwrap().resources.limits.get("cpu");
        assert_eq!((limit, states(&fleet)), (Some("300m"), vec!["Updating"]), "its node has done nothing");
        fleet.settle();
        assert_eq!((states(&fleet), fleet.pods[0].is_ready()), (vec!["Normal"], true));
        assert_eq!(fleet.pods[0].metadata.uid, before[0].metadata.uid);
    }
}

/// The image of a native sidecar changes as those of containers do, where kubelets restart it.
#[test]
fn a_native_sidecar_is_updated_in_place() {
    for (version, policy, stays) in [
        ("v1.32.0", "InPlaceIfPossible", true),
        ("v1.32.0", "InPlaceOnly", true),
        ("v1.31.0", "InPlaceIfPossible", false),
    ] {
        let mut fleet =
            Fleet::running(5, Fleet::rolling(policy, json!({"maxUnavailable": 1, "partition": 1})));
        fleet.environment.server = ServerVersion::parse(version);
        fleet.environment.pull_jobs = true;
        fleet.gates = FeatureGates::default().with(Feature::PreDownloadImageForInPlaceUpdate, true);
        let uids = |fleet: &Fleet| -> BTreeSet<Box<str>> {
            fleet.pods.iter().map(|pod| pod.metadata.uid.clone()).collect()
        };
        let before = uids(&fleet);
        let mut template = template("nginx:1");
        template["spec"]["initContainers"][0]["image"] = json!("proxy:2");
        fleet.edit(json!({"spec": {"template": template}}));
        let jobs = fleet.settled_plan().pre_download;
        let pulled = jobs
            .iter()
            .filter(|job| matches!(job, Action::CreateChild { name, .. } if name.ends_with("-proxy")));
        assert_eq!((pulled.count(), jobs.len()), if stays { (1, 2) } else { (0, 1) }, "{jobs:?}");
        fleet.settle();
        let updated = fleet.pods.iter().filter(|pod| &*pod.container("proxy").unwrap().image == "proxy:2");
        assert_eq!((updated.count(), fleet.available(), states(&fleet)), (4, 5, vec!["Normal"; 5]));
        assert_eq!(uids(&fleet) == before, stays, "{version} {policy}");
        if stays {
            // One write names the sidecar, and the containers are left alone.
            assert_eq!(fleet.with_image("nginx:1"), 5);
        }
    }
}

/// What takes no Pod out of service waits for no budget, and one write of each Pod is all.
#[test]
fn labels_change_in_all_pods_at_once() {
    let mut fleet = Fleet::running(5, in_place(json!({"maxUnavailable": 1, "maxSurge": 2, "partition": 1})));
    let before = fleet.pods.clone();
    fleet.edit(json!({"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}}));
    let plan = fleet.step();
    assert_eq!((plan.scale.len(), plan.update.len()), (0, 4), "{plan}");
    assert_eq!((fleet.available(), states(&fleet)), (5, vec!["Normal"; 5]));
    assert_eq!(fleet.pods.iter().filter(|pod| pod.label("team") == Some("blue")).count(), 4);
    for _ in 0..5 {
        assert_eq!(fleet.step().update, [], "nothing is left to be written");
    }
    let uids =
        |pods: &[_]| pods.iter().map(|pod: &Arc<ObservedPod>| pod.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!(uids(&fleet.pods), uids(&before));
}

fn resizing(policy: &str) -> Fleet {
    let rolling = Fleet::rolling(policy, json!({"maxUnavailable": 1}));
    let mut fleet = Fleet::new(with(rolling, json!({"template": sized("200m")})));
    fleet.gates = FeatureGates::default().with(Feature::InPlaceWorkloadVerticalScaling, true);
    fleet.environment.server = ServerVersion::parse("v1.35.0");
    fleet.edit(json!({"spec": {"replicas": 3}}));
    fleet.settle();
    fleet
}

#[test]
fn a_resize_that_can_not_be_done_is_told() {
    for (policy, reason, blocked) in [
        ("InPlaceOnly", "Infeasible", "InPlaceImpossible"),
        ("InPlaceOnly", "Deferred", "ResizeDeferred"),
        ("InPlaceIfPossible", "Infeasible", "ResizeInfeasible"),
        ("InPlaceIfPossible", "Deferred", "ResizeDeferred"),
    ] {
        let mut fleet = resizing(policy);
        let before: Vec<_> = fleet.pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
        fleet.edit(json!({"spec": {"template": sized("300m")}}));
        for _ in 0..5 {
            fleet.step();
        }
        let updating =
            fleet.pods.iter().zip(states(&fleet)).find(|(_, state)| *state == "Updating").unwrap().0;
        let name = updating.metadata.name.to_string();
        fleet.pend(&name, reason);
        fleet.later(61);
        let plan = fleet.step();
        let blockers = &plan.explanation.blockers;
        let told: Vec<_> = blockers.iter().map(|blocker| (&*blocker.pod, blocker.reason)).collect();
        assert_eq!(told, [(&*name, blocked)], "{policy} {reason}");
        let conditions = fleet.status().conditions;
        let is_told = |kind: &str| {
            conditions.iter().any(|known| known.kind == kind && known.message.contains("no room"))
        };
        assert!(is_told(crate::workload::explanation::BLOCKED), "{conditions:?}");
        assert_eq!(is_told("FailedUpdate"), blocked == "InPlaceImpossible", "{conditions:?}");
        for _ in 0..5 {
            fleet.step();
        }
        let after: Vec<_> = fleet.pods.iter().map(|pod| pod.metadata.uid.clone()).collect();
        assert_eq!(before, after);
    }
}

#[test]
fn images_are_pulled_ahead_only_with_gate_and_kind() {
    for (gate, pull_jobs) in [(false, true), (true, false), (true, true)] {
        let mut fleet = Fleet::running(5, in_place(json!({"partition": 4})));
        fleet.gates = FeatureGates::default().with(Feature::PreDownloadImageForInPlaceUpdate, gate);
        fleet.environment.pull_jobs = pull_jobs;
        let job = ObjectVersion { name: "old".to_owned(), ..ObjectVersion::default() };
        fleet.children.push(Arc::new(Child { kind: IMAGE_PULL_JOB, observed: job.clone() }));
        let before = fleet.plan().pre_download;
        fleet.image("nginx:2");
        let plan = fleet.settled_plan();
        if gate && pull_jobs {
            assert_eq!(before, [Action::DeleteChild { kind: IMAGE_PULL_JOB, child: job }]);
            let [
                Action::CreateChild { name, .. },
                Action::CreateChild { name: other, .. },
                Action::PatchChild { child: revision, .. },
            ] = plan.pre_download.as_slice()
            else {
                panic!("{plan}")
            };
            assert_eq!(
                [name, other].map(String::as_str),
                ["main", "aa"].map(|one| format!("{}-{one}", revision.name))
            );
        } else {
            assert_eq!((before, plan.pre_download), (Vec::new(), Vec::new()));
        }
    }
}

/// Scenario 37: what OpenKruise 1.8 stored is taken over as it is.
#[test]
fn scenario_37_a_set_of_open_kruise_is_taken_over_untouched() {
    const DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    for short in [false, true] {
        let mut fleet = Fleet::new(json!({"replicas": 2}));
        fleet.object["spec"]["selector"] = json!({"matchLabels": {"app": "demo"}});
        let template = json!({"metadata": {"labels": {"app": "demo"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}});
        fleet.object["spec"]["template"] = json!({});
        fleet.edit(json!({"spec": {"template": template}}));
        fleet.gates = FeatureGates::default().with(Feature::CloneSetShortHash, short);
        let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "set-uid", "controller": true}]);
        let revision = json!({"metadata": {"name": "web-86f599f8d5", "namespace": "shop", "uid": "r",
            "labels": {"app": "demo", "controller.kubernetes.io/hash": "86f599f8d5"}, "ownerReferences": owner}, "revision": 3});
        let text = revision.to_string().replacen('{', &format!(r#"{{"data":{DATA},"#), 1);
        fleet.revisions.push(Arc::new(StoredRevision::read(&text).unwrap()));
        for (name, revision) in [("aaaaa", "web-86f599f8d5"), ("bbbbb", "86f599f8d5")] {
            let pod = json!({
                "metadata": {"name": format!("web-{name}"), "uid": name, "ownerReferences": owner, "labels": {"app": "demo",
                    "controller-revision-hash": revision, "pod-template-hash": "86f599f8d5", "apps.kruise.io/cloneset-instance-id": name}},
                "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "nginx:1.25"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            });
            fleet.pods.push(Arc::new(ObservedPod::read(&pod.to_string()).unwrap()));
        }
        let plan = fleet.plan();
        assert!(plan.is_idle() && plan.explanation.is_complete, "{plan}");
        fleet.step();
        let status = fleet.status();
        assert_eq!((status.updated_replicas, status.current_revision.as_str()), (2, "web-86f599f8d5"));
    }
}
