//! Whatever a node agent, a kubelet and users do, in whatever order: a request that has ended never continues, and
//! leaves nothing behind.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ACTIVE, FINALIZER, at, observed, pod, request};
use crate::containerrecreaterequest::step::{Step, reads_pod, step};
use pod::observed::ObservedPod;

/// More writes than any state needs until nothing is due.
const ENOUGH: usize = 6;

#[derive(Clone, Debug)]
enum Happening {
    Time(i64),
    /// The agent sets this phase, unless the request has ended.
    Agent(&'static str),
    PodGone,
    /// Container `a` starts again.
    Restarted,
    Deleted,
    /// The controller dies after so many writes.
    Controller(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (1_i64..40).prop_map(Happening::Time),
        prop_oneof![Just("Pending"), Just("Recreating"), Just("Completed")].prop_map(Happening::Agent),
        Just(Happening::PodGone),
        Just(Happening::Restarted),
        Just(Happening::Deleted),
        (0_usize..ENOUGH).prop_map(Happening::Controller),
    ]
}

struct Model {
    request: Option<Value>,
    pod: Option<ObservedPod>,
    now: i64,
    version: i64,
}

impl Model {
    fn now(&self) -> Timestamp {
        at(self.now)
    }

    /// Lets the controller write so often; true where nothing is due any more.
    fn control(&mut self, writes: usize) -> bool {
        for _ in 0..=writes {
            let Some(request) = &mut self.request else { return true };
            let read = super::read(request);
            let pod = self.pod.as_ref().filter(|_| reads_pod(&read));
            let patch = match step(&read, pod, at(self.now)) {
                Step::Wait(_) => return true,
                Step::Delete => {
                    assert!(read.metadata.finalizers.is_empty());
                    self.request = None;
                    return true;
                }
                Step::Pod(write) => {
                    let pod = self.pod.as_mut().unwrap();
                    let before = pod.clone();
                    write.apply(pod);
                    assert_ne!(before, *pod, "a write that changes nothing");
                    continue;
                }
                Step::Request(patch) | Step::Status(patch) => patch,
            };
            let patch: Value = serde_json::from_str(&patch).unwrap();
            assert_eq!(patch["metadata"]["resourceVersion"], request["metadata"]["resourceVersion"]);
            let before = request.clone();
            json_patch::merge(request, &patch);
            assert_ne!(before, *request, "a write that changes nothing");
            if !before["status"]["completionTime"].is_null() {
                assert_eq!(before["status"], request["status"], "it has ended");
            }
            self.changed();
            self.collect();
        }
        false
    }

    fn changed(&mut self) {
        self.version += 1;
        if let Some(request) = &mut self.request {
            request["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    /// The API server drops what is deleted and held by nobody.
    fn collect(&mut self) {
        let is_free = |request: &Value| {
            let finalizers = request["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            !request["metadata"]["deletionTimestamp"].is_null() && finalizers == 0
        };
        if self.request.as_ref().is_some_and(is_free) {
            self.request = None;
        }
    }

    fn happens(&mut self, happening: &Happening) {
        let now = self.now().to_string();
        match (happening, &mut self.request) {
            (Happening::Time(seconds), _) => self.now += seconds,
            (Happening::Agent(phase), Some(request)) if request["status"]["completionTime"].is_null() => {
                request["status"]["phase"] = json!(phase);
                if *phase == "Completed" {
                    request["status"]["completionTime"] = json!(now);
                }
            }
            (Happening::PodGone, _) => self.pod = None,
            (Happening::Restarted, _) => {
                if let Some(pod) = &mut self.pod {
                    let gates = pod.status.conditions.clone();
                    *pod = observed(&super::pod([self.now, -1], true));
                    pod.status.conditions = gates;
                }
            }
            (Happening::Deleted, Some(request)) => request["metadata"]["deletionTimestamp"] = json!(now),
            (Happening::Controller(writes), _) => drop(self.control(*writes)),
            (Happening::Agent(_) | Happening::Deleted, _) => return,
        }
        self.changed();
        self.collect();
    }

    /// What must hold at any moment.
    fn check(&self) {
        let held = self.pod.as_ref().is_some_and(|pod| {
            pod.condition("KruisePodReady").is_some_and(|gate| gate.message.contains("shop/crr"))
        });
        let finalizers = self.request.as_ref().map(|request| &request["metadata"]["finalizers"]);
        let guarded = finalizers.is_some_and(|list| list.to_string().contains(FINALIZER));
        assert!(!held || guarded, "nobody would let the Pod go");
    }
}

proptest! {
    #[test]
    fn a_request_never_leaves_its_end(
        happenings in prop::collection::vec(happening(), 0..30),
        grace in prop::option::of(Just(5)),
        deadline in prop::option::of(3_i64..60),
        lifetime in prop::option::of(0_i32..20),
    ) {
        let mut spec = json!({});
        if let Some(grace) = grace {
            spec["strategy"] = json!({"unreadyGracePeriodSeconds": grace});
        }
        if let Some(deadline) = deadline {
            spec["activeDeadlineSeconds"] = json!(deadline);
        }
        if let Some(lifetime) = lifetime {
            spec["ttlSecondsAfterFinished"] = json!(lifetime);
        }
        let mut model =
            Model { request: Some(request(&spec, json!({}))), pod: Some(observed(&pod([-1, -1], true))), now: 0, version: 7 };
        for happening in &happenings {
            model.happens(happening);
            model.check();
            prop_assert!(model.control(ENOUGH), "the controller comes to rest");
            model.check();
        }
        // In the end the Pod is deleted, and with it whatever is left to do.
        model.happens(&Happening::PodGone);
        prop_assert!(model.control(ENOUGH));
        model.happens(&Happening::Time(100));
        prop_assert!(model.control(ENOUGH));
        match &model.request {
            None => {}
            Some(request) => {
                prop_assert!(lifetime.is_none(), "{request:#}");
                prop_assert!(!request["status"]["completionTime"].is_null());
                prop_assert!(request["metadata"]["labels"].get(ACTIVE).is_none());
            }
        }
    }
}
