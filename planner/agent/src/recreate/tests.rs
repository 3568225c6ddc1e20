use super::*;
use proptest::prelude::*;
use serde_json::Value;

const CREATED: &str = "2026-01-01T00:00:00Z";

/// So many seconds after the creation of the request.
fn at(seconds: i64) -> Timestamp {
    CREATED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A request for containers `a` and `b` with this strategy, as admission leaves it.
fn request(strategy: &Value, status: &Value) -> Value {
    let container = |name: &str| {
        let context = json!({"containerID": format!("containerd://{name}-0"), "restartCount": 0});
        json!({"name": name, "statusContext": context})
    };
    json!({
        "metadata": {"name": "crr", "namespace": "shop", "uid": "r", "resourceVersion": "7",
            "creationTimestamp": CREATED},
        "spec": {"podName": "web", "containers": [container("a"), container("b")], "strategy": strategy},
        "status": status,
    })
}

fn read(request: &Value) -> ContainerRecreateRequest {
    serde_json::from_value(request.clone()).unwrap()
}

fn container(name: &str, number: i32, condition: Condition, started: i64) -> RuntimeContainer {
    let label = ("io.kubernetes.container.name".to_owned(), name.to_owned());
    let count = ("io.kubernetes.container.restartCount".to_owned(), number.to_string());
    RuntimeContainer {
        id: format!("{name}-{number}"),
        condition,
        created: at(started),
        started: Some(at(started)),
        labels: [label].into(),
        annotations: [count].into(),
    }
}

fn both(condition: Condition) -> [RuntimeContainer; 2] {
    [container("a", 0, condition, -9), container("b", 0, condition, -9)]
}

/// The status after a step that writes it.
fn written(object: &Value, step: &Step) -> Value {
    let Step::Status(patch) = step else { panic!("no write: {step:?}") };
    let mut after = object.clone();
    json_patch::merge(&mut after, &serde_json::from_str(patch).unwrap());
    after["status"].clone()
}

fn recreating(strategy: &Value, more: &Value) -> Value {
    let mut status = json!({"phase": "Recreating"});
    json_patch::merge(&mut status, more);
    request(strategy, &status)
}

fn first(strategy: &Value, status: &Value, now: i64) -> (Value, Start<'static>) {
    let object = request(strategy, status);
    let start = match start(&read(&object), &["containerd"], at(now)) {
        Start::Step(step) => Start::Step(step),
        Start::Look(runtime) => {
            assert_eq!(runtime, "containerd");
            Start::Look("containerd")
        }
    };
    (object, start)
}

#[test]
fn a_request_begins_and_waits_until_its_pod_has_not_been_ready_for_long_enough() {
    let (object, begun) = first(&json!({}), &json!({"phase": "Pending"}), 0);
    let Start::Step(step) = begun else { panic!("it looks too early") };
    assert_eq!(written(&object, &step)["phase"], "Recreating");
    let strategy = json!({"unreadyGracePeriodSeconds": 5});
    let mut status = json!({"phase": "Recreating"});
    assert_eq!(first(&strategy, &status, 0).1, Start::Step(Step::Wait(None)));
    status["conditions"] =
        json!([{"type": "PreRecreateGrace", "status": "True", "lastTransitionTime": CREATED}]);
    let left = Some(Duration::from_millis(3100));
    assert_eq!(first(&strategy, &status, 2).1, Start::Step(Step::Wait(left)));
    assert_eq!(first(&strategy, &status, 5).1, Start::Look("containerd"));
    status["completionTime"] = json!(CREATED);
    assert_eq!(first(&strategy, &status, 5).1, Start::Step(Step::Wait(None)));
}

#[test]
fn a_request_for_a_runtime_that_is_not_here_ends() {
    for (pointer, value, why) in [
        (
            "/spec/containers/1/statusContext/containerID",
            json!("docker://b"),
            "its containers are in several runtimes",
        ),
        ("/spec/containers/0/statusContext", Value::Null, "container a has no ID"),
        ("/spec/containers", json!([]), "it names no container"),
    ] {
        let mut object = recreating(&json!({}), &json!({}));
        *object.pointer_mut(pointer).unwrap() = value;
        let request = read(&object);
        let Start::Step(step) = start(&request, &["containerd"], at(3)) else { panic!("{why}") };
        let status = written(&object, &step);
        assert_eq!(status["message"], format!("failed to find runtime service: {why}"));
        assert_eq!(
            (&status["phase"], &status["completionTime"]),
            (&json!("Completed"), &json!("2026-01-01T00:00:03Z"))
        );
    }
    let object = recreating(&json!({}), &json!({}));
    let request = read(&object);
    let Start::Step(step) = start(&request, &["cri-o"], at(3)) else { panic!("a runtime too much") };
    let message = "failed to find runtime service: there is no runtime containerd";
    assert_eq!(written(&object, &step)["message"], message);
}

#[test]
fn states_follow_the_containers() {
    let state = |strategy: &Value, more: &Value, container: Option<RuntimeContainer>, now: i64| {
        let object = recreating(strategy, more);
        let containers: Vec<RuntimeContainer> = container.into_iter().collect();
        let mut rest = None;
        let request = read(&object);
        let found = state(&request, &request.spec.containers[0], &containers, at(now), &mut rest);
        (found.phase, found.is_killed, found.message, rest)
    };
    let none = json!({});
    let killed = json!({"containerRecreateStates": [{"name": "a", "phase": "Recreating", "isKilled": true}]});
    let ready = json!({"name": "a", "containerID": "containerd://a-1", "ready": true});
    let snapshot = json!({"containerStatusSnapshot": [ready]});
    let new = || Some(container("a", 1, Condition::Running, 10));
    let old = || Some(container("a", 0, Condition::Running, -9));
    let plain = String::new;
    let missing = "not found container on Node".to_owned();
    assert_eq!(state(&none, &killed, None, 20), (Phase::Pending, true, missing, None));
    let exited = Some(container("a", 0, Condition::Exited, -9));
    assert_eq!(state(&none, &none, exited, 20), (Phase::Recreating, false, plain(), None));
    assert_eq!(state(&none, &none, old(), 20), (Phase::Pending, false, plain(), None));
    assert_eq!(state(&none, &none, new(), 20), (Phase::Recreating, false, plain(), None));
    let force = json!({"forceRecreate": true});
    assert_eq!(state(&force, &snapshot, new(), 20), (Phase::Pending, false, plain(), None));
    assert_eq!(state(&force, &killed, new(), 20), (Phase::Recreating, true, plain(), None));
    assert_eq!(state(&none, &snapshot, new(), 11), (Phase::Succeeded, false, plain(), None));
    let long = json!({"minStartedSeconds": 5});
    let left = Some(Duration::from_millis(4001));
    assert_eq!(state(&long, &snapshot, new(), 11), (Phase::Recreating, false, plain(), left));
    let instant = Some(INSTANT);
    assert_eq!(state(&long, &snapshot, new(), 15), (Phase::Recreating, false, plain(), instant));
    assert_eq!(state(&long, &snapshot, new(), 16).0, Phase::Succeeded);
    let ended = json!({"containerRecreateStates": [{"name": "a", "phase": "Failed", "message": "m"}]});
    assert_eq!(state(&none, &ended, new(), 20), (Phase::Failed, false, "m".to_owned(), None));
}

#[test]
fn a_stop_has_its_hook_and_its_time_and_its_end_is_written_whatever_happens() {
    let mut object = recreating(&json!({"terminationGracePeriodSeconds": 9}), &json!({}));
    object["metadata"]["annotations"] = json!({CRR_PRE_STOP_SLEEP: r#"{"a":3}"#});
    let containers = both(Condition::Running);
    let step = go_on(&read(&object), &containers, at(0));
    object["status"] = written(&object, &step);
    assert_eq!(object["status"]["containerRecreateStates"][0], json!({"name": "a", "phase": "Pending"}));
    let request = read(&object);
    let Step::Stop(stop) = go_on(&request, &containers, at(0)) else { panic!("nothing is stopped") };
    assert_eq!((stop.name.as_str(), stop.id.as_str(), stop.grace), ("a", "a-0", Duration::from_secs(9)));
    assert_eq!(stop.hook, Some(Hook::Sleep(Duration::from_secs(3))));
    let states = |result| {
        let patch: Value = serde_json::from_str(&stop.clone().ended(&request, result)).unwrap();
        assert_eq!(patch["metadata"], json!({"uid": "r"}), "it holds for every version");
        patch["status"]["containerRecreateStates"].clone()
    };
    let waits = json!({"name": "b", "phase": "Pending"});
    assert_eq!(states(Ok(())), json!([{"name": "a", "phase": "Recreating", "isKilled": true}, waits]));
    let failed = json!({"name": "a", "phase": "Failed", "message": "kill container error: no"});
    assert_eq!(states(Err("no")), json!([failed, waits]));
}

#[test]
fn a_container_that_can_not_be_stopped_ends_the_request_or_is_passed_over() {
    let failed = json!({"name": "a", "phase": "Failed", "message": "kill container error: no"});
    let states = json!({"containerRecreateStates": [failed, {"name": "b", "phase": "Pending"}]});
    let containers = both(Condition::Running);
    let object = recreating(&json!({"failurePolicy": "Fail"}), &states);
    let status = written(&object, &go_on(&read(&object), &containers, at(0)));
    assert_eq!((&status["phase"], status.get("message")), (&json!("Completed"), None));
    let object = recreating(&json!({"failurePolicy": "Ignore"}), &states);
    let Step::Stop(stop) = go_on(&read(&object), &containers, at(0)) else { panic!("b is not stopped") };
    assert_eq!(stop.name, "b");
}

#[test]
fn requests_for_one_pod_take_turns() {
    let named = |name: &str, phase: &str, created: &str| {
        let mut object = request(&json!({}), &json!({"phase": phase}));
        object["metadata"]["name"] = json!(name);
        object["metadata"]["creationTimestamp"] = json!(created);
        read(&object)
    };
    let late = "2026-01-01T00:00:09Z";
    let mut over = named("over", "Recreating", CREATED);
    over.status.completion_time = Some(at(0).into());
    let requests =
        [over, named("new", "", CREATED), named("later", "", late), named("going", "Recreating", late)];
    let found = turn(&requests);
    assert_eq!(found.current.unwrap().metadata.name, "going");
    let waiting: Vec<&str> = found.waiting.iter().map(|later| later.metadata.name.as_str()).collect();
    assert_eq!(waiting, ["new", "later"]);
    let patch: Value = serde_json::from_str(&wait(found.waiting[0])).unwrap();
    assert_eq!(patch["status"], json!({"phase": "Pending"}));
}

/// A node with the containers of one Pod, and what the controller says about them.
struct World {
    request: Value,
    containers: [RuntimeContainer; 2],
    stops: [u32; 2],
    down_for: i64,
    down: [i64; 2],
    now: i64,
}

impl World {
    /// A second passes: the kubelet starts what has exited, and the controller reports it.
    fn tick(&mut self) {
        self.now += 1;
        let mut snapshot = Vec::new();
        for (container, down) in self.containers.iter_mut().zip(&mut self.down) {
            if container.condition == Condition::Exited {
                *down += 1;
                if *down > self.down_for {
                    let name = container.name().to_owned();
                    *container =
                        self::container(&name, container.restart_count() + 1, Condition::Running, self.now);
                    *down = 0;
                }
            }
            if container.condition == Condition::Running && container.created >= at(0) {
                let id = format!("containerd://{}", container.id);
                snapshot.push(json!({"name": container.name(), "containerID": id, "ready": true}));
            }
        }
        if !snapshot.is_empty() {
            self.request["status"]["containerStatusSnapshot"] = json!(snapshot);
        }
    }

    fn exit(&mut self, name: &str) {
        for container in self.containers.iter_mut().filter(|container| container.name() == name) {
            container.condition = Condition::Exited;
        }
    }

    /// The agent takes one step; false where it waits.
    fn act(&mut self, fails: bool) -> bool {
        let request = read(&self.request);
        let step = match start(&request, &["containerd"], at(self.now)) {
            Start::Step(step) => step,
            Start::Look(_) => go_on(&request, &self.containers, at(self.now)),
        };
        let patch = match step {
            Step::Wait(_) => return false,
            Step::Status(patch) => patch,
            Step::Stop(stop) => {
                let position = usize::from(stop.name == "b");
                if position == 1 && request.spec.strategy.ordered_recreate {
                    let before = &request.status.container_recreate_states[0].phase;
                    assert!(
                        matches!(before, Phase::Succeeded | Phase::Failed),
                        "the order is kept: {before:?}"
                    );
                }
                if !fails {
                    self.stops[position] += 1;
                    self.exit(&stop.name);
                }
                stop.ended(&request, if fails { Err("no") } else { Ok(()) })
            }
        };
        json_patch::merge(&mut self.request, &serde_json::from_str(&patch).unwrap());
        true
    }
}

proptest! {
    /// Whatever the strategy, and whichever containers end by themselves: a request ends, stops no container twice,
    /// and leaves its end never.
    #[test]
    fn a_request_ends_and_stops_no_container_twice(
        ordered: bool,
        force: bool,
        ignore: bool,
        least in 0..4_i64,
        down_for in 0..3_i64,
        fails in prop::collection::vec(prop::bool::weighted(0.1), 400),
        crashes in prop::collection::vec((0..40_i64, prop::bool::ANY), 0..3),
    ) {
        let policy = if ignore { "Ignore" } else { "Fail" };
        let strategy = json!({"orderedRecreate": ordered, "forceRecreate": force, "failurePolicy": policy,
            "minStartedSeconds": least});
        let mut world = World {
            request: request(&strategy, &json!({"phase": ""})),
            containers: both(Condition::Running),
            stops: [0, 0],
            down_for,
            down: [0, 0],
            now: 0,
        };
        let mut fails = fails.into_iter().chain(std::iter::repeat(false));
        for _ in 0..100 {
            for (when, first) in &crashes {
                if *when == world.now {
                    world.exit(if *first { "a" } else { "b" });
                }
            }
            let mut steps = 0;
            while world.act(fails.next().unwrap_or_default()) {
                steps += 1;
                prop_assert!(steps < 20, "it writes without end: {}", world.request);
            }
            world.tick();
        }
        prop_assert_eq!(&world.request["status"]["phase"], "Completed", "{}", world.request);
        prop_assert!(world.stops.iter().all(|stops| *stops <= 1), "{:?}", world.stops);
        let last = world.request.clone();
        prop_assert!(!world.act(false));
        prop_assert_eq!(last["status"]["phase"].clone(), world.request["status"]["phase"].clone());
    }
}
