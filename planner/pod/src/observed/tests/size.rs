//! What one Pod more costs a leader that knows many like it.

use serde_json::json;

use super::*;

/// How many Pods of one workload there are.
const PODS: usize = 1000;
/// Bytes of one of them.
const MOST: usize = 800;

/// A Pod with a sidecar, as it is when its workload, its node and injection have done their work.
fn pod(number: usize) -> ObservedPod {
    let second = format!("2026-01-02T03:04:{:02}Z", number % 60);
    let container = |name: &str| {
        let image = format!("registry.example.com/shop/{name}:2.41.0");
        let resources =
            json!({"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "512Mi"}});
        json!({"name": name, "image": image, "resources": resources})
    };
    let reported = |name: &str| {
        let mut status = container(name);
        status["imageID"] = json!(format!("registry.example.com/shop/{name}@sha256:{:064x}", name.len()));
        status["containerID"] = json!(format!("containerd://{:064x}", number * 8 + name.len()));
        status["ready"] = json!(true);
        status["restartCount"] = json!(0);
        status["state"] = json!({"running": {"startedAt": second}});
        status
    };
    let conditions = ["KruisePodReady", "InPlaceUpdateReady", "ContainersReady", "Ready"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": second}));
    let note = |hash: &str| {
        let note = json!({"log": {"updateTimestamp": second, "hash": hash, "sidecarSetName": "log",
            "sidecarList": ["log-shipper"]}});
        note.to_string()
    };
    let names = ["checkout", "log-shipper"];
    let (containers, statuses) = (names.map(container), names.map(reported));
    let json = json!({
        "metadata": {
            "name": format!("c0de0001-web-01-{number:05}"), "namespace": "c0de0001-team-01",
            "uid": format!("c0de0001-0000-0000-0000-{number:012}"), "resourceVersion": format!("{}", 123_456_789 + number),
            "creationTimestamp": second, "generation": 1,
            "labels": {
                "app": "c0de0001-web-01", "tier": "backend", "subset": "reserved",
                "apps.kruise.io/cloneset-instance-id": format!("{number:05}"),
                "controller-revision-hash": "c0de0001-web-01-6d4b75cb6d", "pod-template-hash": "6d4b75cb6d",
                "lifecycle.apps.kruise.io/state": "Normal",
            },
            "annotations": {
                "prometheus.io/scrape": "true", "kruise.io/sidecarset-injected-list": "log",
                "kruise.io/sidecarset-hash": note("a"), "kruise.io/sidecarset-hash-without-image": note("b"),
            },
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c0de0001-web-01",
                "uid": "c0de0001-0000-0000-0001-000000000001", "controller": true}],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 25), "restartPolicy": "Always",
            "containers": containers,
            "readinessGates": [{"conditionType": "KruisePodReady"}, {"conditionType": "InPlaceUpdateReady"}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.128.17.{}", number % 256), "observedGeneration": 1,
            "conditions": conditions, "containerStatuses": statuses,
        },
    });
    ObservedPod::read(&json.to_string()).unwrap()
}

/// The bytes of a part that only one Pod and its pool have, with the two counters and the pointer of each part, and
/// two pointers for its place in the pool.
fn part<T: ?Sized>(part: &Part<T>, bytes: impl Fn(&T) -> usize) -> usize {
    const OVERHEAD: usize = 6 * size_of::<usize>();
    if part.holders() > 2 { 0 } else { OVERHEAD + bytes(part) }
}

fn map(pairs: &Pairs) -> usize {
    let pair = |(key, value): &(Part<str>, Box<str>)| {
        size_of::<(Part<str>, Box<str>)>() + part(key, |key| key.len()) + value.len()
    };
    part(&pairs.0, |list| list.iter().map(|one| size_of_val(one) + part(one, pair)).sum())
}

fn containers(list: &Part<[Container]>) -> usize {
    part(list, size_of_val)
}

fn statuses(list: &[ContainerStatus]) -> usize {
    let reports = list.iter().map(|status| part(&status.report, size_of_val));
    size_of_val(list) + reports.sum::<usize>()
}

/// The bytes of a Pod that no other Pod shares, by where they are: the Pod itself, `metadata`, `spec`, the conditions
/// and the containers.
fn own(pod: &ObservedPod) -> [usize; 5] {
    let ObservedPod { metadata, spec, status } = pod;
    // All fields are named here, so that a new one is not forgotten.
    let PodMetadata {
        namespace,
        name,
        uid,
        resource_version,
        generation: _,
        creation_timestamp: _,
        deletion_timestamp: _,
        deletion_grace_period_seconds: _,
        labels,
        annotations,
        times,
        owner_references,
        finalizers,
    } = metadata;
    let texts = name.len() + uid.len() + resource_version.len() + part(namespace, str::len);
    let lists = part(owner_references, size_of_val) + part(finalizers, size_of_val);
    let metadata = texts + map(labels) + map(annotations) + size_of_val(&**times) + lists;
    let PodSpec {
        node_name,
        restart_policy,
        init_containers,
        containers: app_containers,
        ephemeral_containers,
        readiness_gates,
        claims,
        assigned_node,
    } = spec;
    let texts = [node_name, restart_policy].into_iter().chain(assigned_node).map(|text| part(text, str::len));
    let lists = [init_containers, app_containers, ephemeral_containers].map(containers);
    let spec = texts.sum::<usize>()
        + lists.iter().sum::<usize>()
        + part(readiness_gates, size_of_val)
        + size_of_val(&**claims);
    let PodStatus {
        observed_generation: _,
        phase,
        pod_ip,
        conditions,
        initialized: _,
        init_container_statuses,
        container_statuses,
        ephemeral_container_statuses,
    } = status;
    let conditions: usize =
        conditions.iter().map(|condition| size_of_val(condition) + part(&condition.text, size_of_val)).sum();
    let containers = part(phase, str::len)
        + pod_ip.len()
        + statuses(init_container_statuses)
        + statuses(container_statuses)
        + part(ephemeral_container_statuses, statuses);
    [size_of::<ObservedPod>(), metadata, spec, conditions, containers]
}

#[test]
fn one_pod_more_of_a_workload_costs_little() {
    let mut pool = Pool::default();
    let pods: Vec<ObservedPod> = (0..PODS)
        .map(|number| {
            let mut pod = pod(number);
            pod.take_times_out();
            pool.share(&mut pod);
            pod
        })
        .collect();
    let bytes: usize = pods.iter().flat_map(own).sum();
    let found = format!("{} bytes a Pod, of the first one {:?}", bytes / PODS, own(&pods[0]));
    println!("{found}");
    assert!(bytes / PODS < MOST, "{found}");
}
