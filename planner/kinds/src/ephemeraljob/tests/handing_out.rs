//! Whatever becomes of Pods, no more of them than `parallelism` are worked on at a time, none twice, and the job comes
//! to its end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{at, job, observed, pod, read};
use crate::ephemeraljob::step::{Step, step};

/// What becomes of a container that was added, after so many reconciles.
type Fate = (u8, &'static str);

fn fate() -> impl Strategy<Value = Fate> {
    (0_u8..4, prop_oneof![Just("0"), Just("1"), Just("RunContainerError")])
}

struct Model {
    job: Value,
    pods: Vec<(Value, Fate)>,
    now: i64,
}

fn is_added(pod: &Value) -> bool {
    pod["spec"].get("ephemeralContainers").is_some()
}

fn is_under_way(pod: &Value) -> bool {
    let state = &pod["status"]["ephemeralContainerStatuses"][0]["state"];
    is_added(pod) && state.get("terminated").is_none() && state["waiting"]["reason"] != "RunContainerError"
}

impl Model {
    /// The controller reconciles once; false where nothing was to do. `refused` is the Pod that takes nothing this time.
    fn control(&mut self, refused: usize) -> bool {
        let pods: Vec<Value> = self.pods.iter().map(|(pod, _)| pod.clone()).collect();
        let Step::Work(work) = step(&read(&self.job), &observed(&pods), at(self.now)) else { return false };
        if let Some(status) = &work.status {
            json_patch::merge(&mut self.job, &serde_json::from_str(status).unwrap());
        }
        let acts = work.status.is_some() || !work.injections.is_empty();
        for injection in work.injections {
            let name = injection.pod.metadata.name.to_string();
            let (position, (target, _)) = self
                .pods
                .iter_mut()
                .enumerate()
                .find(|(_, (pod, _))| pod["metadata"]["name"] == *name)
                .unwrap();
            assert!(!is_added(target), "twice");
            if position != refused {
                let patch: Value = serde_json::from_str(&injection.patch).unwrap();
                target["spec"]["ephemeralContainers"] = patch["spec"]["ephemeralContainers"].clone();
            }
        }
        acts
    }

    /// Each kubelet reports what has become of its container.
    fn report(&mut self) {
        for (target, (looks, end)) in &mut self.pods {
            if !is_under_way(target) {
                continue;
            }
            let state = match looks {
                0 => *end,
                1 => "running",
                2 => "waiting",
                _ => "added",
            };
            *looks = looks.saturating_sub(1);
            target["status"] = pod("any", 0, state)["status"].clone();
        }
    }

    fn under_way(&self) -> usize {
        self.pods.iter().filter(|(pod, _)| is_under_way(pod)).count()
    }
}

proptest! {
    #[test]
    fn places_are_never_exceeded_and_the_job_ends(
        fates in prop::collection::vec(fate(), 1..8),
        parallelism in prop::option::of(1_usize..4),
        replicas in prop::option::of(1_usize..9),
        refusals in prop::collection::vec(0_usize..8, 4),
    ) {
        let mut spec = json!({});
        if let Some(parallelism) = parallelism {
            spec["parallelism"] = json!(parallelism);
        }
        if let Some(replicas) = replicas {
            spec["replicas"] = json!(replicas);
        }
        let pods = fates.iter().enumerate().map(|(index, fate)| (pod(&format!("p{index}"), -9, "none"), *fate));
        let mut model = Model { job: job(&spec), pods: pods.collect(), now: 0 };
        let mut refusals = refusals.into_iter();
        for _ in 0..200 {
            model.control(refusals.next().unwrap_or(usize::MAX));
            prop_assert!(model.under_way() <= parallelism.unwrap_or(1));
            model.report();
            model.now += 1;
        }
        let touched = model.pods.iter().filter(|(pod, _)| is_added(pod)).count();
        prop_assert_eq!(touched, fates.len().min(replicas.unwrap_or(usize::MAX)));
        let ends: BTreeSet<&str> = fates.iter().take(touched).map(|(_, end)| *end).collect();
        let phase = if ends == BTreeSet::from(["0"]) { "Succeeded" } else { "Failed" };
        prop_assert_eq!(&model.job["status"]["phase"], phase);
        prop_assert!(!model.job["status"]["completionTime"].is_null());
        prop_assert!(!model.control(usize::MAX), "nothing is left to do");
    }
}
