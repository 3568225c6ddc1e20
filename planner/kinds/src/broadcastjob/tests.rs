//! What a job does with its Pods, and where it ends.

use std::sync::Arc;

use api::features::FeatureGates;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::workload::fleet::{Planned, merge};
use ::pod::node_fit::ObservedNode;
use values::json_patch::Patch;

type Fleet = crate::workload::fleet::Fleet<BroadcastJob>;

impl Planned for BroadcastJob {
    fn defaults(object: &str, before: Option<&str>, gates: &FeatureGates) -> Patch {
        defaulting::default(object, before, "v1beta1", gates).unwrap()
    }
}

impl Fleet {
    /// A job in a cluster with the Nodes `n1` to `n<count>`.
    fn job(count: usize, spec: Value) -> Self {
        let mut whole = json!({"template": {"spec": {"restartPolicy": "Never"}}});
        merge(&mut whole, spec);
        let mut fleet = Self::new(whole);
        for number in 1..=count {
            fleet.node(&format!("n{number}"), json!({}));
        }
        fleet
    }

    fn node(&mut self, name: &str, more: Value) {
        let mut node =
            json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "110", "cpu": "4"}}});
        merge(&mut node, more);
        let observed: ObservedNode = serde_json::from_value(node).unwrap();
        let (name, facts) = observed.into_facts();
        self.nodes.insert(name, Arc::new(facts));
    }

    /// The Pod of this Node ends, or whatever phase it comes to.
    fn phase(&mut self, node: &str, phase: &str) {
        let at = self.pods.iter().position(|pod| pod.spec.node() == Some(node)).unwrap();
        let name = self.name(at);
        self.pod_mut(&name).status.phase = phase.into();
    }

    fn node_names(&self) -> Vec<&str> {
        self.pods.iter().filter_map(|pod| pod.spec.node()).collect()
    }
}

#[test]
fn a_job_runs_once_on_each_node_that_suits_and_is_complete() {
    let mut fleet = Fleet::job(3, json!({}));
    fleet.node("n4", json!({"spec": {"unschedulable": true}}));
    fleet.node("n5", json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}));
    fleet.node("n6", json!({"status": {"allocatable": {"pods": "0"}}}));
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1", "n2", "n3"]);
    assert_eq!(fleet.pods[0].label("broadcastjob-name"), Some("web"));
    let status = fleet.status();
    assert_eq!((status.phase.as_str(), status.desired, status.active), ("running", Some(3), Some(0)));
    fleet.step();
    assert_eq!(fleet.status().active, Some(3));
    for node in ["n1", "n2", "n3"] {
        assert!(fleet.status().conditions.is_empty());
        fleet.phase(node, "Succeeded");
        fleet.step();
    }
    let status = fleet.status();
    assert_eq!((status.phase.as_str(), status.succeeded), ("completed", Some(3)));
    assert_eq!(status.conditions[0].message, "Job completed, 3 pods succeeded, 0 pods failed");
    assert!(fleet.reasons().ends_with(&["JobComplete"]) && fleet.pods.len() == 3);
    // What comes later is none of its business.
    fleet.node("n7", json!({}));
    assert!(fleet.plan().scale.is_empty());
}

#[test]
fn the_scheduler_binds_pods_or_they_are_created_on_their_nodes() {
    let mut fleet = Fleet::job(1, json!({}));
    fleet.step();
    let spec = &fleet.pods[0].spec;
    assert_eq!((&*spec.node_name, spec.assigned_node.as_deref()), ("", Some("n1")));
    let mut fleet = Fleet::job(1, json!({}));
    fleet.environment.bypasses_scheduler = true;
    fleet.step();
    let spec = &fleet.pods[0].spec;
    assert_eq!((&*spec.node_name, spec.assigned_node.as_deref()), ("n1", None));
}

#[test]
fn parallelism_limits_the_pods_that_run() {
    let mut fleet = Fleet::job(5, json!({"parallelism": "40%"}));
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1", "n2"]);
    fleet.step();
    assert_eq!(fleet.pods.len(), 2);
    fleet.phase("n1", "Succeeded");
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1", "n2", "n3"]);
}

#[test]
fn a_node_where_a_pod_was_refused_keeps_no_other_from_its_pod() {
    let mut fleet = Fleet::job(3, json!({"parallelism": 2}));
    fleet.refused.insert("n1".to_owned());
    fleet.step();
    assert_eq!(fleet.node_names(), ["n2", "n3"]);
    fleet.phase("n2", "Succeeded");
    fleet.step();
    assert_eq!(fleet.node_names(), ["n2", "n3", "n1"]);
}

#[test]
fn a_failed_pod_ends_pauses_or_is_passed_over() {
    let mut fleet = Fleet::job(3, json!({}));
    fleet.step();
    fleet.phase("n2", "Failed");
    fleet.step();
    let status = fleet.status();
    assert_eq!((status.phase.as_str(), status.failed, status.active), ("failed", Some(3), Some(0)));
    assert_eq!(
        status.conditions[0].message,
        "failure policy is FailurePolicyTypeFailFast and failed pod is found"
    );
    assert_eq!(fleet.node_names(), ["n1", "n2", "n3"], "what it came to is written first");
    fleet.step();
    assert_eq!((fleet.node_names(), fleet.status().failed), (vec!["n2"], Some(3)));

    let mut fleet = Fleet::job(2, json!({"failurePolicy": {"type": "Continue"}}));
    fleet.step();
    fleet.phase("n1", "Failed");
    fleet.step();
    fleet.phase("n2", "Succeeded");
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.status().failed), ("completed", Some(1)));

    let mut fleet = Fleet::job(2, json!({"failurePolicy": {"type": "Pause"}}));
    fleet.step();
    fleet.phase("n1", "Failed");
    fleet.step();
    fleet.node("n3", json!({}));
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.pods.len()), ("paused", 2));
    assert_eq!(fleet.reasons().iter().filter(|reason| **reason == "Paused").count(), 1);
    let name = fleet.name(0);
    fleet.remove(&name);
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.pods.len()), ("running", 3));
    assert!(fleet.reasons().contains(&"Continue"));
}

#[test]
fn a_paused_job_starts_nothing_and_does_not_end() {
    let mut fleet = Fleet::job(1, json!({"paused": true, "completionPolicy": {"activeDeadlineSeconds": 5}}));
    fleet.step();
    fleet.later(10);
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.pods.len()), ("paused", 0));
    fleet.edit(json!({"spec": {"paused": false}}));
    fleet.step();
    assert_eq!(fleet.status().phase, "failed");
}

#[test]
fn a_deadline_ends_a_job_and_its_pods() {
    let mut fleet = Fleet::job(2, json!({"completionPolicy": {"activeDeadlineSeconds": 10}}));
    fleet.step();
    assert!(fleet.plan().requeue_after.unwrap().as_secs_f64() > 9.9);
    fleet.later(11);
    fleet.step();
    fleet.step();
    let status = fleet.status();
    assert_eq!((status.phase.as_str(), status.failed, fleet.pods.len()), ("failed", Some(2), 0));
    assert_eq!(status.conditions[0].message, "Job shop/web was active longer than specified deadline");
    let reported = fleet.events.iter().find(|event| event.reason == "DeadlineExceeded").unwrap();
    assert!(reported.message.contains("2 pods failed"), "{reported:?}");
}

#[test]
fn a_pod_that_could_not_be_deleted_is_deleted_later() {
    let mut fleet = Fleet::job(2, json!({}));
    fleet.step();
    let kept = fleet.pods[0].clone();
    fleet.phase("n2", "Failed");
    fleet.step();
    fleet.step();
    fleet.pods.push(kept);
    assert_eq!(fleet.plan().scale.len(), 1);
}

#[test]
fn a_job_deletes_itself_when_its_time_is_over() {
    let mut fleet = Fleet::job(1, json!({"completionPolicy": {"ttlSecondsAfterFinished": 5}}));
    fleet.step();
    fleet.phase("n1", "Succeeded");
    fleet.step();
    let wait = fleet.plan().requeue_after.unwrap();
    assert!((4.9..5.2).contains(&wait.as_secs_f64()), "{wait:?}");
    fleet.later(6);
    let plan = fleet.plan();
    assert!(
        matches!(plan.scale.as_slice(), [Action::DeleteChild { child, .. }] if child.name == "web"),
        "{plan}"
    );
}

/// The kubelet writes how a Pod ended before it is gone.
#[test]
fn a_pod_that_ended_because_it_was_deleted_has_not_come_to_its_end() {
    let mut fleet = Fleet::job(2, json!({}));
    fleet.step();
    fleet.kubelet();
    fleet.phase("n2", "Succeeded");
    fleet.phase("n1", "Failed");
    let name = fleet.name(0);
    fleet.pod_mut(&name).metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.status().failed), ("running", Some(0)));
    fleet.remove(&name);
    fleet.step();
    assert_eq!(fleet.node_names(), ["n2", "n1"]);
}

#[test]
fn a_complete_job_that_is_to_stay_runs_again() {
    let mut fleet = Fleet::job(1, json!({}));
    fleet.step();
    fleet.phase("n1", "Succeeded");
    fleet.step();
    assert_eq!(fleet.status().phase, "completed");
    fleet.edit(json!({"spec": {"completionPolicy": {"type": "Never"}}}));
    fleet.node("n2", json!({}));
    fleet.step();
    assert!(fleet.status().conditions.is_empty() && fleet.status().completion_time.is_none());
    fleet.edit(json!({"spec": {"completionPolicy": {"type": "Always"}}}));
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.pods.len()), ("running", 2), "nothing is killed");
}

#[test]
fn a_job_that_never_completes_serves_new_nodes() {
    let mut fleet = Fleet::job(1, json!({"completionPolicy": {"type": "Never"}}));
    fleet.step();
    fleet.phase("n1", "Succeeded");
    fleet.step();
    assert!(fleet.status().conditions.is_empty() && fleet.plan().explanation.is_complete);
    fleet.node("n2", json!({}));
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1", "n2"]);
}

#[test]
fn pods_that_restart_too_often_count_as_failed_and_do_not_go_on() {
    let spec =
        json!({"template": {"spec": {"restartPolicy": "OnFailure"}}, "failurePolicy": {"restartLimit": 2}});
    restarts_count(spec);
    let container = json!({"name": "main", "image": "a", "restartPolicy": "OnFailure"});
    let own = json!({"restartPolicy": "Never", "containers": [container]});
    restarts_count(json!({"template": {"spec": own}, "failurePolicy": {"restartLimit": 2}}));
}

fn restarts_count(spec: Value) {
    let mut fleet = Fleet::job(2, spec);
    fleet.step();
    fleet.kubelet();
    let name = fleet.name(0);
    fleet.pod_mut(&name).status.container_statuses[0].restart_count = 2;
    fleet.step();
    assert_eq!(fleet.status().phase, "running");
    fleet.pod_mut(&name).status.container_statuses[0].restart_count = 3;
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.status().failed), ("failed", Some(2)));
    assert_eq!(fleet.node_names(), ["n1", "n2"], "they tell why until the status does");
    fleet.step();
    assert_eq!((fleet.pods.len(), fleet.status().failed), (0, Some(2)));
}

#[test]
fn a_pod_that_restarts_for_ever_is_done_where_failures_are_passed_over() {
    let spec =
        json!({"template": {"spec": {"restartPolicy": "OnFailure"}}, "failurePolicy": {"type": "Continue"}});
    let mut fleet = Fleet::job(2, spec);
    fleet.step();
    fleet.kubelet();
    let name = fleet.name(0);
    fleet.pod_mut(&name).status.container_statuses[0].restart_count = 1;
    fleet.phase("n2", "Succeeded");
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.status().failed), ("completed", Some(1)));
    fleet.step();
    assert_eq!(fleet.node_names(), ["n2"]);
}

#[test]
fn a_pod_on_a_node_that_has_left_keeps_no_job_from_its_end() {
    let mut fleet = Fleet::job(2, json!({}));
    fleet.step();
    fleet.kubelet();
    fleet.nodes.remove("n2");
    fleet.phase("n1", "Succeeded");
    fleet.step();
    let status = fleet.status();
    assert_eq!((status.phase.as_str(), status.active, status.failed), ("completed", Some(0), Some(0)));
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1"]);
}

#[test]
fn a_second_pod_on_a_node_is_reported() {
    let mut fleet = Fleet::job(1, json!({}));
    fleet.step();
    let mut second = (*fleet.pods[0]).clone();
    second.metadata.name = "web-zzzzz".into();
    fleet.pods.push(Arc::new(second));
    fleet.step();
    let event = fleet.events.iter().find(|event| event.reason == "DuplicatePodCreatedOnSameNode").unwrap();
    assert_eq!(event.message, "Duplicated pod web-zzzzz found on same node n1");
}

#[test]
fn a_parallelism_that_can_not_be_read_is_reported_once_there_is_a_node() {
    let mut fleet = Fleet::job(0, json!({"parallelism": "many"}));
    assert_eq!(fleet.plan().problems.scale, None);
    fleet.node("n1", json!({}));
    let plan = fleet.plan();
    assert!(plan.problems.scale.unwrap().contains("spec.parallelism") && plan.scale.is_empty());
}

#[test]
fn too_many_pods_are_reported_only_where_others_are_to_come() {
    let mut fleet = Fleet::job(2, json!({}));
    fleet.step();
    fleet.edit(json!({"spec": {"parallelism": 1}}));
    fleet.step();
    assert!(!fleet.reasons().contains(&"TooManyActivePods"));
    fleet.node("n3", json!({}));
    fleet.step();
    assert!(fleet.reasons().contains(&"TooManyActivePods") && fleet.pods.len() == 2);
}

#[test]
fn nodes_that_are_passed_over_are_named_with_what_is_in_the_way() {
    let mut fleet = Fleet::job(1, json!({"template": {"spec": {"nodeSelector": {"site": "a"}}}}));
    let node = |more: Value| {
        let mut node = json!({"metadata": {"labels": {"site": "a"}}});
        merge(&mut node, more);
        node
    };
    assert_eq!(fleet.plan().explanation.limits, ["no Node suits the template"]);
    fleet.node("n2", node(json!({"spec": {"unschedulable": true}})));
    fleet.node("n3", node(json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})));
    let expected = "2 Nodes do not suit: n2 is cordoned, n3 has taint gpu:NoSchedule";
    assert_eq!(fleet.plan().explanation.limits, ["no Node suits the template", expected]);
    fleet.node("n4", node(json!({})));
    fleet.step();
    fleet.phase("n4", "Failed");
    fleet.step();
    let explanation = fleet.plan().explanation;
    assert_eq!(explanation.limits, [fleet.status().conditions[0].message.as_str()]);
}

#[test]
fn a_complete_job_that_is_to_stay_goes_on() {
    let mut fleet = Fleet::job(1, json!({}));
    fleet.step();
    fleet.phase("n1", "Succeeded");
    fleet.step();
    fleet.edit(json!({"spec": {"completionPolicy": {"type": "Never"}}}));
    fleet.node("n2", json!({}));
    fleet.step();
    assert_eq!((fleet.status().phase.as_str(), fleet.node_names()), ("running", vec!["n1", "n2"]));
}

#[test]
fn what_ran_on_a_node_stays_though_the_node_does_not_suit_any_more() {
    let mut fleet = Fleet::job(3, json!({}));
    fleet.step();
    fleet.kubelet_of(0);
    fleet.phase("n2", "Succeeded");
    for node in ["n1", "n2", "n3"] {
        fleet.node(node, json!({"spec": {"unschedulable": true}}));
    }
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1", "n2"], "only the Pod that was not there yet goes");
    assert_eq!(fleet.status().desired, Some(2));
    fleet.phase("n1", "Succeeded");
    fleet.step();
    assert_eq!(fleet.status().phase, "completed");
}

#[test]
fn a_pod_that_is_deleted_while_it_runs_is_not_done() {
    let mut fleet = Fleet::job(1, json!({}));
    fleet.step();
    fleet.kubelet();
    fleet.lingering = true;
    let name = fleet.name(0);
    fleet.remove(&name);
    fleet.step();
    assert_eq!(fleet.status().phase, "running");
    fleet.lingering = false;
    fleet.remove(&name);
    fleet.step();
    assert_eq!(fleet.node_names(), ["n1"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever happens to Nodes and Pods: never two Pods on one Node, none where another succeeded, never more at a
    /// time than may run; and in the end the job ends.
    #[test]
    fn a_job_runs_at_most_once_to_success_and_always_ends(
        parallelism in 1..4_u32,
        policy in prop::sample::select(vec!["FailFast", "Continue", "Pause"]),
        deeds in prop::collection::vec((0..8_u8, 0..5_usize), 0..40),
    ) {
        let mut fleet = Fleet::job(3, json!({"parallelism": parallelism, "failurePolicy": {"type": policy}}));
        for (deed, number) in deeds {
            let node = format!("n{number}");
            let running = fleet.pods.iter().filter(|pod| pod.is_active()).nth(number).cloned();
            match (deed, running) {
                (0, _) => fleet.node(&node, json!({})),
                (1, _) => fleet.node(&node, json!({"spec": {"unschedulable": true}})),
                (2, Some(pod)) => fleet.pod_mut(&pod.metadata.name).status.phase = "Succeeded".into(),
                (3, Some(pod)) => fleet.pod_mut(&pod.metadata.name).status.phase = "Failed".into(),
                (4, Some(pod)) => fleet.remove(&pod.metadata.name),
                (5, _) => (0..fleet.pods.len()).filter(|at| fleet.pods[*at].is_active()).collect::<Vec<_>>().into_iter().for_each(|at| fleet.kubelet_of(at)),
                _ => drop(fleet.step()),
            }
            check(&fleet, parallelism);
        }
        // People take away what failed, so that a paused job continues; a Node is there; and all that runs succeeds.
        fleet.node("n1", json!({}));
        for _ in 0..60 {
            let failed = fleet.pods.iter().find(|pod| &*pod.status.phase == "Failed").cloned();
            if let Some(pod) = failed.filter(|_| policy == "Pause") {
                fleet.remove(&pod.metadata.name);
            }
            fleet.step();
            check(&fleet, parallelism);
            let names: Vec<_> = fleet.pods.iter().filter(|pod| pod.is_active()).map(|pod| pod.metadata.name.clone()).collect();
            names.iter().for_each(|name| fleet.pod_mut(name).status.phase = "Succeeded".into());
        }
        prop_assert!(matches!(fleet.status().phase.as_str(), "completed" | "failed"), "{:?}", fleet.status());
        prop_assert!(fleet.plan().scale.is_empty());
    }
}

fn check(fleet: &Fleet, parallelism: u32) {
    let mut nodes = fleet.node_names();
    nodes.sort_unstable();
    let count = nodes.len();
    nodes.dedup();
    assert_eq!(nodes.len(), count, "two Pods on one Node");
    let active = fleet.pods.iter().filter(|pod| pod.is_active()).count();
    assert!(active <= parallelism as usize, "{active} Pods run");
}
