//! A DaemonSet that a release holds, in a cluster where Kubernetes brings Pods of the newest revision.

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use super::*;
use crate::view::ListName;

const NOW: &str = "2026-01-02T04:00:00Z";

/// A Pod on a Node.
#[derive(Clone, Debug)]
struct Pod {
    name: String,
    revision: &'static str,
    phase: &'static str,
    /// Seconds since it became ready.
    ready: Option<i64>,
    is_ending: bool,
    cost: Option<i32>,
    /// When it was created, in seconds.
    created: i64,
}

fn pod(name: &str, revision: &'static str) -> Pod {
    let (phase, name) = ("Running", name.to_owned());
    Pod { name, revision, phase, ready: Some(600), is_ending: false, cost: None, created: 0 }
}

impl Pod {
    fn unready(mut self) -> Self {
        self.ready = None;
        self
    }

    fn ready_for(mut self, seconds: i64) -> Self {
        self.ready = Some(seconds);
        self
    }

    fn phase(mut self, phase: &'static str) -> Self {
        self.phase = phase;
        self.unready()
    }

    fn ending(mut self) -> Self {
        self.is_ending = true;
        self
    }

    fn cost(mut self, cost: i32) -> Self {
        self.cost = Some(cost);
        self
    }

    fn created(mut self, second: i64) -> Self {
        self.created = second;
        self
    }

    fn observed(&self) -> Arc<ObservedPod> {
        let time = |seconds: i64| {
            let now: Timestamp = NOW.parse().unwrap();
            now.checked_sub(SignedDuration::from_secs(seconds)).unwrap().to_string()
        };
        let ready = if self.ready.is_some() { "True" } else { "False" };
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": self.name, "uid": format!("uid-{}", self.name),
                "labels": {CONTROLLER_REVISION_HASH: self.revision}, "creationTimestamp": time(10_000 - self.created)},
            "status": {"phase": self.phase, "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": time(self.ready.unwrap_or(0))}]},
        });
        if self.is_ending {
            pod["metadata"]["deletionTimestamp"] = time(1).into();
        }
        if let Some(cost) = self.cost {
            pod["metadata"]["annotations"] = json!({POD_DELETION_COST: cost.to_string()});
        }
        Arc::new(ObservedPod::read(&pod.to_string()).unwrap())
    }
}

fn daemonset(nodes: usize, control: &Value, maximum: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "shop", "uid": "d", "generation": 4,
            "annotations": {DAEMONSET_ADVANCED_CONTROL: control.to_string()}},
        "spec": {"selector": {"matchLabels": {"app": "log"}},
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": maximum}}},
        "status": {"observedGeneration": 4, "desiredNumberScheduled": nodes},
    })
}

fn control(partition: i64) -> Value {
    json!({"partition": partition.to_string(), "batch-revision": "new"})
}

fn revisions() -> (ListName, Vec<Value>) {
    let list = ListName {
        api_version: "apps/v1".to_owned(),
        kind: "ControllerRevision".to_owned(),
        namespace: "shop".to_owned(),
        selector: "app=log".to_owned(),
    };
    let revision = |hash: &str, number: i64, owner: &str| {
        json!({"metadata": {"name": format!("log-{hash}"), "labels": {CONTROLLER_REVISION_HASH: hash},
            "ownerReferences": [{"uid": owner, "controller": true}]}, "revision": number})
    };
    (list, vec![revision("old", 1, "d"), revision("new", 2, "d"), revision("strange", 9, "other")])
}

fn view(pods: &[Pod]) -> View {
    let mut view = View::default();
    let (list, found) = revisions();
    view.has_list(list, found);
    view.has_pods("d".to_owned(), pods.iter().map(Pod::observed).collect());
    view
}

fn moment() -> Moment {
    Moment { now: NOW.parse().unwrap(), seed: 1 }
}

fn planned(daemonset: &Value, pods: &[Pod]) -> Plan<()> {
    plan(daemonset, &view(pods), &moment()).unwrap().unwrap()
}

fn names(plan: &Plan<()>) -> Vec<&str> {
    let deletions = plan.writes.iter().map(|write| match write {
        Write::Delete { name, uid } => (name.name.as_str(), uid),
        other => panic!("{other:?}"),
    });
    deletions.inspect(|(name, uid)| assert_eq!(**uid, format!("uid-{name}"))).map(|(name, _)| name).collect()
}

fn deleted(partition: i64, maximum: i64, pods: &[Pod]) -> Vec<String> {
    let plan = planned(&daemonset(pods.len(), &control(partition), &json!(maximum)), pods);
    names(&plan).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_daemonset_that_no_release_holds_is_left_alone() {
    let held = daemonset(3, &control(1), &json!(1));
    let with = |pointer: &str, value: Value| {
        let mut changed = held.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        plan(&changed, &View::default(), &moment())
    };
    assert_eq!(with("/metadata/annotations", json!({})), Ok(None));
    assert_eq!(with("/spec/updateStrategy/type", json!("RollingUpdate")), Ok(None));
    assert_eq!(with("/apiVersion", json!("apps.kruise.io/v1beta1")), Ok(None));
    assert_eq!(
        with("/metadata/annotations", json!({DAEMONSET_ADVANCED_CONTROL: r#"{"partition":"half"}"#})),
        Ok(None)
    );
    let numbers = json!({DAEMONSET_ADVANCED_CONTROL: r#"{"partition":1}"#});
    assert!(matches!(with("/metadata/annotations", numbers), Err(Unread::List(_))));
}

#[test]
fn what_was_not_read_is_asked_for() {
    let held = daemonset(3, &control(1), &json!(1));
    let mut view = View::default();
    let (list, found) = revisions();
    assert_eq!(plan(&held, &view, &moment()), Err(Unread::List(list.clone())));
    view.has_list(list, found);
    assert_eq!(plan(&held, &view, &moment()), Err(Unread::PodsOf { owner: "d".to_owned() }));
}

#[test]
fn the_partition_says_how_many_pods_stay_old() {
    let pods: Vec<Pod> = ["a", "b", "c", "d"].map(|name| pod(name, "old")).into();
    for (partition, expected) in [(9, 0), (4, 0), (3, 1), (2, 2), (0, 4), (-1, 4)] {
        assert_eq!(deleted(partition, 10, &pods).len(), expected, "{partition}");
    }
}

#[test]
fn a_pod_that_is_ending_is_not_replaced_by_the_deletion_of_another() {
    let pods = [pod("a", "old").ending(), pod("b", "old"), pod("c", "old"), pod("d", "new")];
    assert_eq!(deleted(2, 4, &pods), [""; 0]);
    assert_eq!(deleted(1, 4, &pods).len(), 1);
}

#[test]
fn pods_that_wait_then_those_that_are_not_ready_then_cheap_then_young_ones_go_first() {
    let pods = [
        pod("old", "old").created(1),
        pod("young", "old").created(2),
        pod("cheap", "old").cost(-3),
        pod("dear", "old").cost(3).created(3),
        pod("unready", "old").unready().cost(9),
        pod("waiting", "old").phase("Pending").cost(9),
    ];
    let order = ["waiting", "unready", "cheap", "young", "old", "dear"];
    assert_eq!(deleted(0, 100, &pods), order);
    assert_eq!(deleted(4, 100, &pods), &order[..2]);
}

#[test]
fn ready_pods_need_room_and_others_do_not() {
    let olds: Vec<Pod> = (0..4).map(|number| pod(&format!("o{number}"), "old")).collect();
    let with = |more: &[Pod]| -> Vec<Pod> { olds.iter().chain(more).cloned().collect() };
    assert_eq!(deleted(0, 2, &with(&[])).len(), 2);
    assert_eq!(deleted(0, 2, &with(&[pod("n", "new").unready()])).len(), 1);
    assert_eq!(deleted(0, 2, &with(&[pod("n", "new").ending()])).len(), 1);
    assert_eq!(deleted(0, 2, &with(&[pod("n", "new").unready(), pod("e", "old").ending()])).len(), 0);
    let broken = [pod("b0", "old").unready(), pod("b1", "old").unready(), pod("b2", "old").unready()];
    assert_eq!(deleted(0, 2, &with(&broken)), ["b0", "b1", "b2"]);
    assert_eq!(deleted(0, 4, &with(&broken)).len(), 4);
}

#[test]
fn a_node_whose_next_pod_is_still_to_come_counts() {
    let pods = [pod("a", "old"), pod("b", "old"), pod("c", "new")];
    let plan = planned(&daemonset(4, &control(0), &json!(1)), &pods);
    assert_eq!(names(&plan), [""; 0]);
    let plan = planned(&daemonset(3, &control(0), &json!(1)), &pods);
    assert_eq!(names(&plan).len(), 1);
}

#[test]
fn a_share_of_the_nodes_is_rounded_down_and_at_least_one() {
    for (maximum, nodes, expected) in [
        (json!("19%"), 10, 1),
        (json!("20%"), 10, 2),
        (json!("5%"), 10, 1),
        (json!(0), 10, 1),
        (Value::Null, 10, 1),
        (json!(7), 10, 7),
    ] {
        assert_eq!(max_unavailable(&daemonset(nodes, &control(0), &maximum)), expected, "{maximum}");
    }
    assert_eq!(max_unavailable(&json!({})), 1);
}

#[test]
fn nothing_is_deleted_for_a_template_that_the_release_does_not_know() {
    let pods = [pod("a", "old"), pod("b", "old")];
    let of = |revision: &str| daemonset(2, &json!({"partition": "0", "batch-revision": revision}), &json!(2));
    assert_eq!(names(&planned(&of("older"), &pods)), [""; 0]);
    assert_eq!(names(&planned(&of("log-new"), &pods)).len(), 2);
    assert_eq!(names(&planned(&daemonset(2, &json!({"partition": "0"}), &json!(2)), &pods)).len(), 2);
    // A template of which there is no revision yet.
    let mut changed = of("new");
    changed["metadata"]["generation"] = 5.into();
    assert_eq!(planned(&changed, &pods), Plan::only(()));
}

#[test]
fn each_deletion_is_reported() {
    let pods = [pod("a", "old")];
    let plan = planned(&daemonset(1, &control(0), &json!(1)), &pods);
    assert_eq!(plan.events, [normal("PodDeleted", "Deleted pod shop/a for batch update".to_owned())]);
}

#[test]
fn a_pod_that_is_not_ready_for_long_enough_is_looked_at_again() {
    let mut held = daemonset(3, &control(0), &json!(1));
    held["spec"]["minReadySeconds"] = 30.into();
    let pods = [pod("a", "new").ready_for(20), pod("b", "old"), pod("c", "old")];
    let plan = planned(&held, &pods);
    assert_eq!(names(&plan), [""; 0]);
    let again = plan.again.unwrap();
    assert!((10.0..10.1).contains(&again.as_secs_f64()), "{again:?}");
    let pods = [pod("a", "new").ready_for(31), pod("b", "old"), pod("c", "old")];
    assert_eq!(names(&planned(&held, &pods)).len(), 1);
    // Nothing is left to do: no look.
    held["metadata"]["annotations"][DAEMONSET_ADVANCED_CONTROL] = control(2).to_string().into();
    let pods = [pod("a", "new").ready_for(20), pod("b", "old"), pod("c", "old")];
    assert_eq!(planned(&held, &pods), Plan::only(()));
}

/// Kubernetes: what was deleted ends or has gone, and new Pods come and work, as `luck` has it.
fn pass(pods: &mut Vec<Pod>, nodes: usize, number: &mut usize, luck: &mut impl FnMut() -> bool) {
    pods.retain(|pod| !pod.is_ending || !luck());
    while pods.len() < nodes && luck() {
        *number += 1;
        pods.push(pod(&format!("n{number}"), "new").phase("Pending"));
    }
    for pod in pods.iter_mut().filter(|pod| pod.revision == "new" && pod.ready.is_none()) {
        if luck() {
            (pod.phase, pod.ready) = ("Running", Some(60));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_keeps_its_budget_and_the_partition_is_reached(
        works in proptest::collection::vec(proptest::bool::weighted(0.8), 1..12),
        maximum in 0..5_i64,
        partition in 0..12_usize,
        seed in 0..u64::MAX,
    ) {
        let nodes = works.len();
        let held = daemonset(nodes, &control(i64::try_from(partition).unwrap()), &json!(maximum));
        let budget = usize::try_from(maximum.max(1)).unwrap();
        let mut random = Moment { seed, ..moment() }.random();
        let mut luck = || !random.next_u64().is_multiple_of(3);
        let olds = works.iter().enumerate().map(|(number, works)| {
            let old = pod(&format!("o{number}"), "old");
            if *works { old } else { old.unready() }
        });
        let mut pods: Vec<Pod> = olds.collect();
        let mut number = 0;
        let available = |pods: &[Pod]| pods.iter().filter(|pod| pod.ready.is_some() && !pod.is_ending).count();
        let old = |pods: &[Pod]| pods.iter().filter(|pod| pod.revision == "old" && !pod.is_ending).count();
        let least_old = partition.min(nodes);
        for _ in 0..80 {
            let before = available(&pods);
            let plan = planned(&held, &pods);
            for name in names(&plan) {
                pods.iter_mut().find(|pod| pod.name == name).unwrap().is_ending = true;
            }
            prop_assert!(old(&pods) >= least_old);
            let least = (nodes.saturating_sub(budget)).min(before);
            prop_assert!(available(&pods) >= least, "{} of {nodes}", available(&pods));
            pass(&mut pods, nodes, &mut number, &mut luck);
        }
        prop_assert_eq!(old(&pods), least_old);
        prop_assert_eq!(pods.len(), nodes);
    }
}
