//! Whole updates of a Pod whose controller is killed between any two writes, on a node that takes its time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::lifecycle::{self, BeforeUpdate, Flavour};
use crate::observed::PodStatus;

/// The first template, a newer one, and one that may come before the Pod is at that.
const REVISIONS: [&str; 3] = ["demo-1", "demo-2", "demo-3"];

#[derive(Clone, Debug)]
struct ContainerCase {
    is_sidecar: bool,
    /// Means nothing in a native sidecar.
    priority: Option<i64>,
    new_image: bool,
    new_resources: bool,
    shows_metadata: bool,
    /// Changes of the third template: of the image, of resources.
    newest: (bool, bool),
}

impl ContainerCase {
    fn rank(&self) -> Option<i64> {
        self.priority.filter(|_| !self.is_sidecar)
    }

    fn image(&self, level: usize) -> &'static str {
        match level {
            2 if self.newest.0 => "app:v3",
            1.. if self.new_image => "app:v2",
            _ => "app:v1",
        }
    }

    fn cpu(&self, level: usize) -> &'static str {
        match level {
            2 if self.newest.1 => "400m",
            1.. if self.new_resources => "300m",
            _ => "200m",
        }
    }
}

/// What happens in one round: time passes, the node works, the controller writes and may die.
#[derive(Clone, Copy, Debug)]
struct Round {
    seconds: i64,
    restarts: bool,
    becomes_ready: bool,
    /// Writes that get through before the controller dies.
    writes: usize,
}

#[derive(Clone, Debug)]
struct Case {
    containers: Vec<ContainerCase>,
    new_annotation: bool,
    /// The third template changes the annotation.
    newest_annotation: bool,
    grace_seconds: i32,
    gated: bool,
    rounds: Vec<Round>,
}

fn case() -> impl Strategy<Value = Case> {
    let container = (
        proptest::option::of(-1_i64..3),
        any::<bool>(),
        proptest::bool::weighted(0.3),
        proptest::bool::weighted(0.3),
        (proptest::bool::weighted(0.4), proptest::bool::weighted(0.2)),
        proptest::bool::weighted(0.3),
    )
        .prop_map(|(priority, new_image, new_resources, shows_metadata, newest, is_sidecar)| ContainerCase {
            is_sidecar,
            priority,
            new_image,
            new_resources,
            shows_metadata: shows_metadata && !is_sidecar,
            newest,
        });
    let round = (0_i64..4, any::<bool>(), any::<bool>(), 0_usize..4).prop_map(
        |(seconds, restarts, becomes_ready, writes)| Round { seconds, restarts, becomes_ready, writes },
    );
    (
        proptest::collection::vec(container, 1..5),
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(0), 1..5],
        proptest::bool::weighted(0.8),
        proptest::collection::vec(round, 0..25),
    )
        .prop_map(|(containers, new_annotation, newest_annotation, grace_seconds, gated, rounds)| Case {
            containers,
            new_annotation,
            newest_annotation,
            grace_seconds,
            gated,
            rounds,
        })
}

impl Case {
    fn name(index: usize) -> String {
        format!("c{index}")
    }

    fn annotation(&self, level: usize) -> &'static str {
        match level {
            2 if self.newest_annotation => "v3",
            1.. if self.new_annotation => "v2",
            _ => "v1",
        }
    }

    fn template(&self, level: usize) -> Value {
        let container = |(index, case): (usize, &ContainerCase)| {
            let mut env = Vec::new();
            if case.shows_metadata {
                env.push(json!({"name": "K", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['k']"}}}));
            }
            if let Some(priority) = case.priority {
                let key = json!({"name": "b", "key": format!("p_{priority}")});
                env.push(json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": key}}));
            }
            json!({"name": Self::name(index), "env": env, "image": case.image(level),
                "restartPolicy": case.is_sidecar.then_some("Always"),
                "resources": {"limits": {"cpu": case.cpu(level)}, "requests": {"cpu": "100m"}}})
        };
        let list = |is_sidecar: bool| -> Vec<Value> {
            let cases = self.containers.iter().enumerate();
            cases.filter(|(_, case)| case.is_sidecar == is_sidecar).map(container).collect()
        };
        json!({"metadata": {"annotations": {"k": self.annotation(level)}},
            "spec": {"initContainers": list(true), "containers": list(false)}})
    }

    fn world(&self) -> World {
        let mut template = self.template(0);
        let gates = if self.gated { json!([{"conditionType": "InPlaceUpdateReady"}]) } else { json!([]) };
        template["spec"]["nodeName"] = json!("n");
        template["spec"]["readinessGates"] = gates;
        template["metadata"]["name"] = json!("p");
        template["metadata"]["labels"] =
            json!({"controller-revision-hash": "demo-1", "lifecycle.apps.kruise.io/state": "Normal"});
        template["status"] = json!({"phase": "Running", "conditions": [
            {"type": "InPlaceUpdateReady", "status": "True"},
            {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}]});
        let pod = ObservedPod::read(&template.to_string()).unwrap();
        let environment =
            pod.running_containers().map(|container| (container.name.to_string(), "v1".to_owned()));
        let mut world = World {
            environment: environment.collect(),
            incarnation: 0,
            now: now(),
            changes: BTreeMap::new(),
            writes: 0,
            started: None,
            wanted: 1,
            pod,
        };
        let status = |container: &Container| -> ContainerStatus {
            let name = &container.name;
            serde_json::from_value(json!({"name": name, "image": "app:v1", "imageID": "id app:v1",
                "containerID": format!("{name}/0"), "ready": true}))
            .unwrap()
        };
        world.pod.status.container_statuses = world.pod.spec.containers.iter().map(status).collect();
        world.pod.status.init_container_statuses = world.pod.native_sidecars().map(status).collect();
        world.report();
        world
    }
}

struct World {
    pod: ObservedPod,
    /// The value of the annotation that each container saw when it started.
    environment: BTreeMap<String, String>,
    incarnation: u32,
    now: Timestamp,
    /// How often each container was written to.
    changes: BTreeMap<String, u32>,
    writes: usize,
    started: Option<Timestamp>,
    /// The template that is wanted by now.
    wanted: usize,
}

impl World {
    /// The kubelet and the node agent: containers restart where they must.
    fn restart(&mut self) {
        for container in self.pod.clone().running_containers() {
            let name = container.name.to_string();
            let value = self.pod.annotation("k").unwrap_or_default().to_owned();
            let shows = container.env.iter().any(|variable| &*variable.name == "K");
            let PodStatus { container_statuses, init_container_statuses, .. } = &mut self.pod.status;
            let mut statuses = container_statuses.iter_mut().chain(init_container_statuses);
            let status = statuses.find(|status| *status.name == *container.name).unwrap();
            status.resources = Some(container.resources.clone());
            if status.image != container.image || (shows && self.environment[&name] != value) {
                self.incarnation += 1;
                status.image = container.image.clone();
                status.image_id = format!("id {}", container.image).into();
                status.container_id = format!("{name}/{}", self.incarnation).into();
                status.ready = false;
                self.environment.insert(name, value);
            }
        }
        self.report();
    }

    /// The node agent's annotation.
    fn report(&mut self) {
        let reported: Vec<Value> = self
            .pod
            .spec
            .containers
            .iter()
            .map(|container| {
                let status = self.pod.container_status(&container.name).unwrap();
                let mut seen = self.pod.clone();
                let mut write = PodWrite::default();
                write.set_annotation("k", self.environment[&*container.name].clone());
                write.apply(&mut seen);
                json!({"name": container.name, "containerID": status.container_id.to_string(), "hashes": {
                    "plainHash": 1,
                    "extractedEnvFromMetadataHash": environment::expected_hash(container, &seen).unwrap_or(0)}})
            })
            .collect();
        let mut write = PodWrite::default();
        write.set_annotation(
            "apps.kruise.io/runtime-containers-meta",
            json!({"containers": reported}).to_string(),
        );
        write.apply(&mut self.pod);
    }

    fn become_ready(&mut self) {
        let PodStatus { container_statuses, init_container_statuses, .. } = &mut self.pod.status;
        for status in container_statuses.iter_mut().chain(init_container_statuses) {
            status.ready = true;
        }
    }

    /// What the controller of a workload plans for the Pod.
    fn plan(&self, case: &Case) -> Vec<PodWrite> {
        let hooks = api::kinds::shared::Lifecycle::default();
        let updated = self.is_at(self.wanted);
        let refresh =
            lifecycle::refresh(&self.pod, &hooks, Flavour::CloneSet, &RULES, updated, self.now).unwrap();
        if !refresh.writes.is_empty() || updated || in_grace(&self.pod) {
            return refresh.writes;
        }
        assert_eq!(lifecycle::before_update(&self.pod, &hooks, self.now), BeforeUpdate::Update);
        let options = RULES.options(REVISIONS[self.wanted], case.grace_seconds, false);
        let present = (0..REVISIONS.len()).find(|level| self.is_at(*level)).unwrap();
        let (old, new) = (template(&case.template(present)), template(&case.template(self.wanted)));
        start(&self.pod, &decide(&old, &new, &options).unwrap(), &RULES, self.now).writes
    }

    fn is_at(&self, level: usize) -> bool {
        RULES.labels.is_at(&self.pod, REVISIONS[level])
    }

    /// Carries a write out, and checks what must hold for it.
    fn write(&mut self, case: &Case, write: &PodWrite) {
        self.writes += 1;
        let before = self.pod.clone();
        for container in &write.containers {
            // A resize is repeated only where its record was lost, and then finds nothing to do.
            *self.changes.entry(format!("{:?} {}", write.target, container.name)).or_default() += 1;
            assert!(
                write.target == Target::Resize
                    || !case.gated
                    || !before.condition_is_true(IN_PLACE_UPDATE_READY)
            );
            let started = self.started.unwrap_or(self.now);
            let grace = SignedDuration::from_secs(case.grace_seconds.into());
            assert!(self.now.duration_since(started) >= grace, "changed before the grace period was over");
            self.check_order(case, &container.name);
        }
        write.apply(&mut self.pod);
        if before.label("controller-revision-hash") != self.pod.label("controller-revision-hash") {
            self.started = Some(self.now);
        }
    }

    /// Everything of a higher priority that changes was changed before and is ready.
    fn check_order(&self, case: &Case, name: &str) {
        let level = (0..REVISIONS.len()).find(|level| self.is_at(*level)).unwrap().max(1);
        // Of those that change only in the second template nobody knows any more whether they have.
        let affected = |one: &ContainerCase| {
            let changes = |old: usize, new: usize| {
                one.image(old) != one.image(new)
                    || one.cpu(old) != one.cpu(new)
                    || (one.shows_metadata && case.annotation(old) != case.annotation(new))
            };
            changes(level - 1, level)
        };
        let index: usize = name[1..].parse().unwrap();
        let Some(priority) = case.containers[index].rank() else { return };
        if case.containers[index].shows_metadata || !affected(&case.containers[index]) {
            // It may have joined an earlier batch; or it begins the next update, which has batches of its own.
            return;
        }
        for (index, other) in case.containers.iter().enumerate() {
            if affected(other) && other.rank().is_some_and(|other| other > priority) {
                let name = Case::name(index);
                let (container, status) =
                    (self.pod.container(&name).unwrap(), self.pod.container_status(&name).unwrap());
                let image = other.image(level);
                assert_eq!((&*container.image, &*status.image), (image, image), "{name} was to change first");
                assert!(status.ready, "{name} was to be ready first");
            }
        }
    }

    /// Continues undisturbed until nothing is left to do.
    fn settle(&mut self, case: &Case) {
        for _ in 0..60 {
            let writes = self.plan(case);
            let arrived = self.is_at(self.wanted) && completed(&self.pod, &RULES).is_ok();
            if writes.is_empty() && arrived {
                return;
            }
            for write in &writes {
                self.write(case, write);
            }
            self.now += SignedDuration::from_secs(1);
            self.restart();
            self.become_ready();
        }
        panic!("it does not come to rest: {:?}", self.pod);
    }

    fn check_end(&self, case: &Case) {
        assert_eq!(completed(&self.pod, &RULES), Ok(()));
        assert!(self.is_at(self.wanted));
        assert_eq!(lifecycle::State::of(&self.pod), Some(lifecycle::State::Normal));
        assert!(!case.gated || self.pod.condition_is_true(IN_PLACE_UPDATE_READY));
        let value = case.annotation(self.wanted);
        assert_eq!(self.pod.annotation("k"), Some(value));
        for (index, container) in case.containers.iter().enumerate() {
            let found = self.pod.container(&Case::name(index)).unwrap();
            let (image, cpu) = (container.image(self.wanted), container.cpu(self.wanted));
            assert_eq!((&*found.image, found.resources.limits.get("cpu")), (image, Some(cpu)));
            assert_eq!(&*self.pod.container_status(&Case::name(index)).unwrap().image, image);
            if container.shows_metadata {
                assert_eq!(self.environment[&Case::name(index)], value);
            }
        }
        let most = u32::try_from(self.wanted).unwrap();
        assert!(
            self.changes.values().all(|count| (1..=most).contains(count)),
            "changed twice: {:?}",
            self.changes
        );
    }
}

fn two_images(gated: bool, grace_seconds: i32) -> (Case, PodWrite) {
    let container = |priority| ContainerCase {
        is_sidecar: false,
        priority: Some(priority),
        new_image: true,
        new_resources: false,
        shows_metadata: false,
        newest: (false, false),
    };
    let containers = vec![container(1), container(0)];
    let mut write = PodWrite::default();
    write.container("c1").image = Some("app:v2".to_owned());
    let (new_annotation, newest_annotation) = (false, false);
    let rounds = Vec::new();
    (Case { containers, new_annotation, newest_annotation, grace_seconds, gated, rounds }, write)
}

#[test]
#[should_panic(expected = "c0 was to change first")]
fn a_wrong_order_does_not_go_unnoticed() {
    let (case, write) = two_images(false, 0);
    case.world().write(&case, &write);
}

#[test]
#[should_panic(expected = "changed before the grace period was over")]
fn an_early_change_does_not_go_unnoticed() {
    let (case, write) = two_images(false, 1);
    case.world().write(&case, &write);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A controller that is killed between any two writes, again and again, updates every container once,
    /// in order, not before the grace period is over, and always gets there.
    #[test]
    fn scenario_35_updates_converge_whatever_is_lost(
        case in case(), newest in proptest::option::of(0..25_usize),
    ) {
        let mut world = case.world();
        for (number, round) in case.rounds.iter().enumerate() {
            if newest == Some(number) {
                world.wanted = 2;
            }
            world.now += SignedDuration::from_secs(round.seconds);
            if round.restarts {
                world.restart();
            }
            if round.becomes_ready {
                world.become_ready();
            }
            let writes = world.plan(&case);
            for write in writes.iter().take(round.writes) {
                world.write(&case, write);
            }
        }
        world.settle(&case);
        world.check_end(&case);
    }

    /// Undisturbed, an update of images in one batch takes three writes.
    #[test]
    fn an_undisturbed_update_takes_three_writes(mut case in case()) {
        case.gated = true;
        case.grace_seconds = 0;
        for container in &mut case.containers {
            (container.priority, container.new_resources) = (None, false);
        }
        // One that changes nothing in a container takes one.
        case.containers[0].new_image = true;
        let mut world = case.world();
        world.settle(&case);
        world.check_end(&case);
        prop_assert_eq!(world.writes, 3);
    }
}
