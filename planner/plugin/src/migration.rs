//! Moving from a Deployment to a CloneSet (docs/behaviour/kubectl-kruise.md#migrate). What was planned is written on the
//! CloneSet, and how far it is follows from both objects: the next run continues where the last one was.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::edit::bound;
use values::json_patch::{Patch, Pointer, string};

/// The annotation of a CloneSet with its [`Migration`].
pub const PLAN: &str = "kutter.io/migration";
/// Annotations of a Deployment that mean nothing for another workload.
const LEFT_BEHIND: [&str; 3] = [
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment",
];

/// What was planned, and the replicas of both workloads at that time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The Deployment.
    pub source: String,
    /// Its replicas at the start.
    pub source_replicas: i64,
    /// Those of the CloneSet at the start.
    pub destination_replicas: i64,
    /// How many move.
    pub replicas: i64,
    /// How far the CloneSet has been allowed to be ahead, at most.
    pub surge: i64,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How many replicas move, or all.
    pub replicas: Option<Amount>,
    /// How many replicas more there may be meanwhile; less than 1 means 1.
    pub surge: i64,
}

/// How many replicas move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// All that the Deployment has.
    All,
    /// So many.
    Replicas(i64),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The CloneSet gets this many replicas.
    Grow(i64),
    /// The Deployment gets this many replicas.
    Shrink(i64),
    /// Nothing, until either object changes.
    Wait,
    /// All have moved.
    Done,
    /// Somebody else scaled one of the workloads, so that the plan holds no longer: what to say to the user.
    Stop(String),
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

fn replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

impl Amount {
    /// Reads `--replicas`: -1 means all.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn read(replicas: i64) -> Result<Self, String> {
        match replicas {
            -1 => Ok(Self::All),
            1.. => Ok(Self::Replicas(replicas)),
            _ => Err(format!("invalid replicas {replicas}")),
        }
    }

    fn of(self, all: i64) -> i64 {
        match self {
            Self::All => all,
            Self::Replicas(replicas) => replicas,
        }
    }
}

impl Request {
    fn surge(self) -> i64 {
        self.surge.max(1)
    }
}

impl Migration {
    /// The plan that is written on a CloneSet.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn of(clone_set: &Value) -> Result<Option<Self>, String> {
        let annotation = clone_set.pointer("/metadata/annotations").and_then(|all| all.get(PLAN));
        let Some(annotation) = annotation else { return Ok(None) };
        let plan: Option<Self> = annotation.as_str().and_then(|text| serde_json::from_str(text).ok());
        let plan = plan.filter(|plan| {
            let is_count = |count: i64| (0..=i64::from(i32::MAX)).contains(&count);
            let counts = [plan.source_replicas, plan.destination_replicas, plan.replicas, plan.surge];
            counts.into_iter().all(is_count) && plan.replicas <= plan.source_replicas
        });
        let unreadable =
            || format!("annotation {PLAN} of the CloneSet is not understood: remove it to begin a new move");
        plan.map(Some).ok_or_else(unreadable)
    }

    /// The plan for what somebody asks: the one that is written on the CloneSet, where the request means the same, or a new
    /// one. `None` where the Deployment has no replicas left to move.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn planned(deployment: &Value, clone_set: &Value, request: Request) -> Result<Option<Self>, String> {
        let source = deployment.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if let Some(begun) = Self::of(clone_set)? {
            return begun.resumed(source, request).map(Some);
        }
        let source_replicas = replicas(deployment);
        if source_replicas <= 0 {
            return Ok(None);
        }
        let wanted = request.replicas.unwrap_or(Amount::All).of(source_replicas);
        if wanted <= 0 || wanted > source_replicas {
            return Err(format!("invalid replicas {wanted}: Deployment/{source} has {source_replicas}"));
        }
        Ok(Some(Self {
            source: source.to_owned(),
            source_replicas,
            destination_replicas: replicas(clone_set),
            replicas: wanted,
            surge: request.surge(),
        }))
    }

    fn resumed(mut self, source: &str, request: Request) -> Result<Self, String> {
        let begun = format!(
            "a move of {} replicas from Deployment/{} to this CloneSet has not ended",
            self.replicas, self.source
        );
        if self.source != source {
            return Err(format!("{begun}: end it first, or remove annotation {PLAN} of the CloneSet"));
        }
        let wanted = request.replicas.map_or(self.replicas, |amount| amount.of(self.source_replicas));
        if wanted != self.replicas {
            return Err(format!(
                "{begun}: end it with --replicas {}, or remove annotation {PLAN} of the CloneSet to begin a new one",
                self.replicas
            ));
        }
        self.surge = self.surge.max(request.surge());
        Ok(self)
    }

    /// How many left the Deployment, and how many were added to the CloneSet. Less than 0 where somebody else scaled them.
    pub fn progress(&self, deployment: &Value, clone_set: &Value) -> (i64, i64) {
        let moved = self.source_replicas.saturating_sub(replicas(deployment));
        (moved, replicas(clone_set).saturating_sub(self.destination_replicas))
    }

    /// The next step; at most `surge` more replicas than before exist at any time, and never fewer than before.
    pub fn step(&self, deployment: &Value, clone_set: &Value, surge: i64) -> Step {
        let (moved, added) = self.progress(deployment, clone_set);
        if moved >= self.replicas && added >= self.replicas {
            return Step::Done;
        }
        if let Some(message) = self.drift(deployment, clone_set) {
            return Step::Stop(message);
        }
        if !is_observed(deployment) || !is_observed(clone_set) {
            return Step::Wait;
        }
        let surge = surge.max(1);
        let ahead = added.saturating_sub(moved);
        let more = surge.saturating_sub(ahead).min(self.replicas.saturating_sub(added));
        if more > 0 {
            return Step::Grow(replicas(clone_set).saturating_add(more));
        }
        let is_available = number(clone_set, "/status/availableReplicas") == Some(replicas(clone_set));
        let rest = self.replicas.saturating_sub(moved).min(replicas(deployment));
        let fewer = rest.min(ahead).min(surge);
        if is_available && fewer > 0 {
            return Step::Shrink(replicas(deployment).saturating_sub(fewer));
        }
        Step::Wait
    }

    /// What this move never does, so that somebody else must have scaled one of the workloads. A Deployment that has fewer
    /// replicas than expected is no drift: the CloneSet makes up for them.
    fn drift(&self, deployment: &Value, clone_set: &Value) -> Option<String> {
        let (moved, added) = self.progress(deployment, clone_set);
        let scaled = |workload: &str, now: i64, comparison: &str, planned: i64| {
            format!(
                "{workload} has {now} replicas, {comparison} the {planned} of the plan in annotation {PLAN} of the CloneSet: \
                 somebody else, maybe a HorizontalPodAutoscaler, scaled it. Stop that, and remove the annotation to begin a new move"
            )
        };
        let source = format!("Deployment/{}", self.source);
        let most = self.destination_replicas.saturating_add(self.replicas);
        if moved < 0 {
            Some(scaled(&source, replicas(deployment), "more than", self.source_replicas))
        } else if added < 0 {
            Some(scaled("the CloneSet", replicas(clone_set), "fewer than", self.destination_replicas))
        } else if added > self.replicas {
            Some(scaled("the CloneSet", replicas(clone_set), "more than", most))
        } else if added.saturating_sub(moved) > self.surge {
            let expected = self.source_replicas.saturating_sub(added).saturating_add(self.surge);
            Some(scaled(&source, replicas(deployment), "more than", expected))
        } else {
            None
        }
    }

    /// The plan in a line, for somebody who writes nothing.
    pub fn reported(&self, destination: &str, surge: i64) -> String {
        let (replicas, source) = (self.replicas, &self.source);
        let surge = surge.max(1);
        format!(
            "would move {replicas} replicas from Deployment/{source} to CloneSet/{destination}, with at most {surge} more meanwhile"
        )
    }

    /// Writes the plan on a CloneSet.
    pub fn noted(&self, clone_set: &Value) -> Patch {
        let mut edits = Patch::default();
        let path = Pointer::from_escaped("/metadata/annotations");
        if !clone_set.pointer(path.as_str()).is_some_and(Value::is_object) {
            edits.add(path.clone(), "{}");
        }
        edits.add(path.key(PLAN), string(&json!(self).to_string()));
        bound(clone_set, edits)
    }
}

/// Takes the plan away.
pub fn forgotten(clone_set: &Value) -> Patch {
    let mut edits = Patch::default();
    edits.remove(Pointer::from_escaped("/metadata/annotations").key(PLAN));
    bound(clone_set, edits)
}

/// Sets the number of replicas.
pub fn scaled(workload: &Value, replicas: i64) -> Patch {
    let mut edits = Patch::default();
    edits.add(Pointer::from_escaped("/spec/replicas"), replicas.to_string());
    bound(workload, edits)
}

/// A CloneSet like a Deployment, with no replicas or with as many.
pub fn clone_set_of(deployment: &Value, name: &str, with_replicas: bool) -> Value {
    let from = |pointer: &str| deployment.pointer(pointer).filter(|value| !value.is_null()).cloned();
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    metadata.extend(from("/metadata/namespace").map(|namespace| ("namespace".to_owned(), namespace)));
    metadata.extend(from("/metadata/labels").map(|labels| ("labels".to_owned(), labels)));
    let mut annotations = from("/metadata/annotations").unwrap_or_default();
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.retain(|key, _| !LEFT_BEHIND.iter().any(|left| key.starts_with(left)));
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
    let mut spec = Map::new();
    let replicas = if with_replicas { replicas(deployment) } else { 0 };
    spec.insert("replicas".to_owned(), replicas.into());
    for member in ["selector", "template", "revisionHistoryLimit", "minReadySeconds"] {
        spec.extend(from(&format!("/spec/{member}")).map(|value| (member.to_owned(), value)));
    }
    let mut rolling =
        json!({"podUpdatePolicy": "ReCreate", "paused": from("/spec/paused") == Some(json!(true))});
    if let Some(rolling) = rolling.as_object_mut() {
        for member in ["maxUnavailable", "maxSurge"] {
            let value = from(&format!("/spec/strategy/rollingUpdate/{member}"));
            rolling.extend(value.map(|value| (member.to_owned(), value)));
        }
    }
    spec.insert("updateStrategy".to_owned(), json!({"rollingUpdate": rolling}));
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deployment(replicas: i64) -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}, "finalizers": ["x"], "generation": 1,
                "annotations": {"deployment.kubernetes.io/revision": "3", "team": "t"}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"fieldOfTomorrow": 1},
                "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}, "status": {"observedGeneration": 1}})
    }

    fn clone_set(replicas: i64, available: i64) -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"replicas": replicas},
            "status": {"observedGeneration": 1, "availableReplicas": available}})
    }

    #[test]
    fn a_clone_set_takes_what_means_the_same_for_it() {
        let made = clone_set_of(&deployment(6), "new", false);
        let expected = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "new", "namespace": "shop", "labels": {"a": "b"}, "annotations": {"team": "t"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {"fieldOfTomorrow": 1},
                "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "ReCreate", "paused": false, "maxSurge": "25%"}}}});
        assert_eq!(made, expected);
        assert_eq!(clone_set_of(&deployment(6), "new", true)["spec"]["replicas"], 6);
    }

    fn request(replicas: Option<i64>, surge: i64) -> Request {
        Request { replicas: replicas.map(|replicas| Amount::read(replicas).unwrap()), surge }
    }

    fn planned(replicas: Option<i64>) -> Result<Option<Migration>, String> {
        Migration::planned(&deployment(6), &clone_set(0, 0), request(replicas, 2))
    }

    fn annotated(plan: &Value) -> Value {
        let mut set = clone_set(0, 0);
        set["metadata"]["annotations"] = json!({PLAN: plan.to_string()});
        set
    }

    #[test]
    fn a_plan_is_kept_on_the_clone_set() {
        let plan = planned(None).unwrap().unwrap();
        assert_eq!((plan.replicas, plan.surge), (6, 2));
        let set = annotated(&json!(plan));
        assert_eq!(Migration::of(&set), Ok(Some(plan.clone())));
        assert_eq!(Migration::of(&clone_set(0, 0)), Ok(None));
        assert!(planned(Some(7)).unwrap_err().starts_with("invalid replicas 7"));
        let again = |replicas, surge| Migration::planned(&deployment(4), &set, request(replicas, surge));
        for same in [None, Some(-1), Some(6)] {
            assert_eq!(again(same, 1).unwrap().unwrap(), plan, "{same:?}");
        }
        assert_eq!(again(None, 4).unwrap().unwrap().surge, 4);
        assert!(
            again(Some(3), 1).unwrap_err().contains("--replicas 6, or remove annotation kutter.io/migration")
        );
        let mut other = deployment(4);
        other["metadata"]["name"] = "other".into();
        let error = Migration::planned(&other, &set, request(None, 1)).unwrap_err();
        assert!(error.contains("from Deployment/web"), "{error}");
    }

    #[test]
    fn a_plan_that_cannot_be_is_refused() {
        let plan = |count: i64| json!({"source": "web", "sourceReplicas": count, "destinationReplicas": 0, "replicas": 1, "surge": 1});
        for odd in [json!("x"), json!({}), plan(i64::MIN), plan(i64::MAX), plan(0)] {
            let error = Migration::of(&annotated(&odd)).unwrap_err();
            assert!(error.contains(PLAN), "{error}");
        }
    }

    #[test]
    fn numbers_of_replicas_are_read() {
        assert_eq!(Amount::read(-1), Ok(Amount::All));
        assert_eq!(Amount::read(2), Ok(Amount::Replicas(2)));
        for (replicas, error) in [(0, "invalid replicas 0"), (-2, "invalid replicas -2")] {
            assert_eq!(Amount::read(replicas).unwrap_err(), error);
        }
    }

    #[test]
    fn nothing_is_left_of_a_deployment_without_replicas() {
        for replicas in [None, Some(6)] {
            let none = Migration::planned(&deployment(0), &clone_set(6, 6), request(replicas, 1));
            assert_eq!(none, Ok(None));
        }
    }

    #[test]
    fn workloads_that_somebody_else_scaled_stop_a_move() {
        let plan = planned(None).unwrap().unwrap();
        for (source, destination, named) in [
            (100, 2, "Deployment/web has 100 replicas, more than the 6"),
            (7, 0, "Deployment/web has 7 replicas, more than the 6"),
            (6, 3, "Deployment/web has 6 replicas, more than the 5"),
            (6, -1, "the CloneSet has -1 replicas, fewer than the 0"),
            (6, 7, "the CloneSet has 7 replicas, more than the 6"),
            (i64::MIN, i64::MIN, "the CloneSet"),
            (i64::MAX, i64::MAX, "Deployment/web"),
        ] {
            let step = plan.step(&deployment(source), &clone_set(destination, destination), 2);
            let Step::Stop(message) = step else { panic!("{source} {destination}: {step:?}") };
            assert!(message.starts_with(named) && message.contains(PLAN), "{message}");
        }
        // The CloneSet makes up for what the Deployment lost.
        assert_eq!(plan.step(&deployment(3), &clone_set(0, 0), 2), Step::Grow(5));
    }

    proptest! {
        /// Whatever is available when, no replica is lost, none too many is made, and it comes to an end.
        #[test]
        fn a_move_keeps_the_sum_of_replicas(all in 1..20_i64, part in 1..20_i64, start in 0..5_i64, surge in -1..6_i64, lags in prop::collection::vec(any::<bool>(), 200)) {
            let wanted = part.min(all);
            let (mut source, mut destination, mut available) = (all, start, start);
            let plan = Migration::planned(&deployment(all), &clone_set(start, start), request(Some(wanted), surge)).unwrap().unwrap();
            let mut lags = lags.into_iter();
            for _ in 0..400 {
                match plan.step(&deployment(source), &clone_set(destination, available), surge) {
                    Step::Grow(replicas) => destination = replicas,
                    Step::Shrink(replicas) => source = replicas,
                    Step::Wait if lags.next().unwrap_or(false) => {}
                    Step::Wait => available = destination,
                    Step::Done => break,
                    Step::Stop(message) => prop_assert!(false, "{message}"),
                }
                prop_assert!(source + available >= all + start.min(available), "{source} {available}");
                prop_assert!(source + destination <= all + start + surge.max(1));
            }
            prop_assert_eq!((source, destination), (all - wanted, start + wanted));
        }

        /// Even if others scale the workloads meanwhile, no step takes more replicas away than are ahead, or than may
        /// be.
        #[test]
        fn a_move_takes_nothing_away_that_somebody_else_added(
            all in 1..20_i64, start in 0..5_i64, surge in 1..6_i64, scaled in prop::collection::vec((any::<bool>(), -30..100_i64), 60),
        ) {
            let (mut source, mut destination) = (all, start);
            let plan = Migration::planned(&deployment(all), &clone_set(start, start), request(None, surge)).unwrap().unwrap();
            for (index, (is_source, by)) in scaled.into_iter().enumerate() {
                // Every third time somebody else scales.
                if index % 3 == 2 {
                    let workload = if is_source { &mut source } else { &mut destination };
                    *workload = (*workload + by).max(0);
                }
                match plan.step(&deployment(source), &clone_set(destination, destination), surge) {
                    Step::Grow(replicas) => destination = replicas,
                    Step::Shrink(replicas) => {
                        prop_assert!(source - replicas <= surge);
                        source = replicas;
                        prop_assert!(source + destination >= all + start, "{source} {destination}");
                    }
                    Step::Wait => {}
                    Step::Done | Step::Stop(_) => break,
                }
            }
        }

        #[test]
        fn no_number_is_too_large(source in any::<i64>(), destination in any::<i64>(), surge in any::<i64>(), counts in any::<[i64; 4]>()) {
            let [source_replicas, destination_replicas, replicas, planned_surge] = counts;
            let plan = Migration { source: "web".to_owned(), source_replicas, destination_replicas, replicas, surge: planned_surge };
            let _ = plan.step(&deployment(source), &clone_set(destination, destination), surge);
        }
    }
}
