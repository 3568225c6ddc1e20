//! Workloads that are scaled again and again: no subset gets a Pod beyond its maximum at the replicas of that moment,
//! subsets that lack Pods are filled, and those that have too many give them up first.

use api::kinds::workloadspread::SubsetStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::slots::{Answer, Claim, PodEvent, Slots};
use super::super::version::IGNORED;
use super::*;
use values::reservation::{Reservable, Reserved};

fn now() -> Timestamp {
    "2026-07-02T09:00:00Z".parse().unwrap()
}

/// A workload, its WorkloadSpread, and the subset of each Pod.
struct Scene {
    object: Value,
    replicas: i32,
    pods: BTreeMap<String, usize>,
    /// What is written on them.
    costs: BTreeMap<Box<str>, i64>,
    created: usize,
}

impl Scene {
    fn new(kind: &str, maxima: &[Option<Value>]) -> Self {
        let mut object = json!({"metadata": {"name": "ws", "namespace": "shop", "resourceVersion": "7"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"}}, "status": {}});
        let subset = |(index, max): (usize, &Option<Value>)| match max {
            Some(max) => json!({"name": format!("s{index}"), "maxReplicas": max}),
            None => json!({"name": format!("s{index}")}),
        };
        object["spec"]["subsets"] = maxima.iter().enumerate().map(subset).collect();
        Self { object, replicas: 0, pods: BTreeMap::new(), costs: BTreeMap::new(), created: 0 }
    }

    fn spread(&self) -> Spread {
        Spread::read(&self.object.to_string()).unwrap()
    }

    fn observed(&self) -> Vec<Arc<ObservedPod>> {
        let pod = |(name, subset): (&String, &usize)| {
            let mark = json!({"name": "ws", "subset": format!("s{subset}")}).to_string();
            let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "annotations": {"apps.kruise.io/matched-workloadspread": mark}},
                "spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            if let Some(cost) = self.costs.get(&**name) {
                pod["metadata"]["annotations"][POD_DELETION_COST] = json!(cost.to_string());
            }
            Arc::new(ObservedPod::read(&pod.to_string()).unwrap())
        };
        self.pods.iter().map(pod).collect()
    }

    fn claim(&mut self, replicas: Option<i32>, event: PodEvent) -> Answer {
        let claim = Claim { version: IGNORED.to_owned(), replicas, event };
        let Reserved { patch, mut answers } = Slots.reserve(&self.object.to_string(), &[claim], now());
        self.merge(patch);
        answers.remove(0)
    }

    fn merge(&mut self, patch: Option<String>) {
        if let Some(patch) = patch {
            json_patch::merge(&mut self.object, &serde_json::from_str(&patch).unwrap());
        }
    }

    /// The controller reconciles everything.
    fn count(&mut self) {
        let (spread, pods, versioned, candidates) =
            (self.spread(), self.observed(), VersionedKinds::parse(""), BTreeMap::new());
        let snapshot = Snapshot {
            spread: &spread,
            pods: &pods,
            replicas: self.replicas,
            latest: None,
            versioned: &versioned,
            candidates: &candidates,
        };
        self.merge(plan(&snapshot, now()).status);
    }

    /// How many Pods each subset has, and its maximum.
    fn subsets(&self) -> Vec<(i32, i32)> {
        let spread = self.spread();
        let subsets = spread.subsets().iter().enumerate().map(|(index, subset)| {
            let active = self.pods.values().filter(|of| **of == index).count() as i32;
            match maximum(subset, Some(self.replicas)) {
                Maximum::Pods(max) => (active, max),
                Maximum::Unlimited | Maximum::Unknown => (active, i32::MAX),
            }
        });
        subsets.collect()
    }

    /// How many Pods are beyond the maxima.
    fn excess(&self) -> i32 {
        self.subsets().iter().map(|(active, max)| (active - max).max(0)).sum()
    }

    fn create(&mut self) {
        self.created += 1;
        let id = format!("p{:03}", self.created);
        match self.claim(Some(self.replicas), PodEvent::Creation { id: id.clone() }) {
            Answer::Subset(subset) | Answer::Unlimited(subset) => {
                let subset: usize = subset[1..].parse().unwrap();
                self.pods.insert(id, subset);
                let (active, max) = self.subsets()[subset];
                assert!(active <= max, "{active} of {max} in {subset}: {:#}", self.object["status"]);
            }
            answer => {
                assert_eq!(answer, Answer::Full);
                let lacks = |(active, max): &(i32, i32)| active < max;
                assert!(!self.subsets().iter().any(lacks), "not filled: {:#}", self.object["status"]);
            }
        }
    }

    /// The workload wants another number of Pods, and uses the costs that it would have with `known` replicas.
    fn scale(&mut self, replicas: i32, known: i32) {
        let costs = present_costs(&self.spread(), &self.observed(), known, &VersionedKinds::parse(""));
        self.costs = costs.unwrap();
        let mut order: Vec<(i64, String)> =
            self.costs.iter().map(|(pod, cost)| (*cost, pod.to_string())).collect();
        order.sort();
        self.replicas = replicas;
        let down = (self.pods.len() as i32 - replicas).max(0);
        let before = self.excess();
        for (_, pod) in order.into_iter().take(down as usize) {
            let subset = format!("s{}", self.pods[&pod]);
            self.claim(None, PodEvent::Deletion { pod: pod.clone(), id: pod.clone(), subset });
            self.pods.remove(&pod);
        }
        assert_eq!(self.excess(), (before - down).max(0), "{down} of {before} beyond: {:?}", self.subsets());
        for _ in self.pods.len() as i32..replicas {
            self.create();
        }
    }

    fn active(&self) -> Vec<i32> {
        self.subsets().into_iter().map(|(active, _)| active).collect()
    }
}

fn shares(of: &[u32]) -> Vec<Option<Value>> {
    of.iter().map(|share| Some(json!(format!("{share}%")))).collect()
}

fn any_shares() -> impl Strategy<Value = Vec<Option<Value>>> {
    (0..=100_u32, 0..=100_u32).prop_map(|(one, other)| {
        let (low, high) = (one.min(other), one.max(other));
        shares(&[low, high - low, 100 - high])
    })
}

fn any_numbers() -> impl Strategy<Value = Vec<Option<Value>>> {
    (prop::collection::vec(0..5_i32, 1..4), any::<bool>()).prop_map(|(numbers, is_open)| {
        let numbers = numbers.into_iter().map(|number| Some(json!(number)));
        numbers.chain(is_open.then_some(None)).collect()
    })
}

#[test]
fn shares_of_three_zones_follow_every_scaling() {
    for kind in ["CloneSet", "Deployment"] {
        let mut scene = Scene::new(kind, &shares(&[34, 33, 33]));
        for (replicas, expected) in
            [(9, [4, 3, 2]), (3, [2, 1, 0]), (6, [3, 2, 1]), (9, [4, 3, 2]), (6, [3, 2, 1]), (4, [2, 2, 0])]
        {
            let known = if kind == "CloneSet" { replicas } else { scene.replicas };
            scene.scale(replicas, known);
            assert_eq!(scene.active(), expected, "{kind} of {replicas}");
            scene.count();
            let item: SubsetStatus =
                serde_json::from_value(scene.object["status"]["subsetStatuses"][0].clone()).unwrap();
            assert_eq!(item.replicas, expected[0]);
        }
    }
}

proptest! {
    /// Whenever the controller counts in between.
    #[test]
    fn a_workload_of_ours_follows_its_spread_at_every_scaling(
        maxima in prop_oneof![any_shares(), any_numbers()],
        steps in prop::collection::vec((0..16_i32, any::<bool>()), 1..12),
    ) {
        let mut scene = Scene::new("CloneSet", &maxima);
        for (replicas, counts) in steps {
            scene.scale(replicas, replicas);
            if counts {
                scene.count();
            }
        }
    }

    /// Kubernetes' controllers delete by what was written before.
    #[test]
    fn costs_are_right_before_replicas_are_fewer(
        maxima in prop_oneof![any_shares(), any_numbers()],
        replicas in 0..30_i32, fewer in 0..30_i32,
    ) {
        let mut scene = Scene::new("Deployment", &maxima);
        scene.scale(replicas, 0);
        scene.scale(fewer.min(replicas), replicas);
    }
}
