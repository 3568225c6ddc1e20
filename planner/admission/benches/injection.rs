//! CPU time of the Pod mutating webhook's decision: a realistic Pod of 6 kB, of whose SidecarSets two
//! match. Parsing the Pod, matching, injection and the patch's text are all in it.

// A benchmark that can't set itself up may well stop.
#![allow(clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use admission::pod_review::{Resolved, Review};
use admission::world::{Watched, World};
use api::features::FeatureGates;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use pod::review::{Operation, Pod, PodReview};
use serde_json::{Value, json};
use values::moment::Moment;
use values::verdict::Verdict;

/// A Pod as Deployments make them, with two containers.
fn pod() -> String {
    let container = |name: &str| {
        let env: Vec<Value> = (0..21)
            .map(|number| json!({"name": format!("SETTING_{number}"), "value": format!("value-of-setting-{number}")}))
            .collect();
        let mounts: Vec<Value> = (0..4)
            .map(|number| json!({"name": format!("volume-{number}"), "mountPath": format!("/var/lib/{name}/{number}")}))
            .collect();
        let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        json!({"name": name, "image": format!("registry.example.com/team/{name}:1.27.3"),
            "command": ["/bin/sh", "-c", "exec /usr/local/bin/server --config /etc/server/config.yaml --verbose"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}], "env": env, "volumeMounts": mounts,
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": probe, "readinessProbe": probe, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            "securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}})
    };
    let volumes: Vec<Value> = (0..4)
        .map(|number| json!({"name": format!("volume-{number}"), "configMap": {"name": format!("config-{number}"), "defaultMode": 420}}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "shop-frontend-7c9d8b6f5d-", "creationTimestamp": null,
            "labels": {"app": "shop", "tier": "frontend", "team": "checkout", "version": "v42", "pod-template-hash": "7c9d8b6f5d"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-frontend-7c9d8b6f5d",
                "uid": "5f5b3f0e-7f2a-4a35-9f0b-0d5a6c1b2e3f", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}}}}]},
        "spec": {"containers": [container("frontend"), container("metrics")], "volumes": volumes,
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "shop", "securityContext": {}, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
                "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "shop"}}, "topologyKey": "kubernetes.io/hostname"}}]}}},
        "status": {}})
    .to_string()
}

fn sidecar_set(name: &str, selector: &Value) -> String {
    json!({"metadata": {"name": name, "annotations": {"kruise.io/sidecarset-hash": "b".repeat(64),
            "kruise.io/sidecarset-hash-without-image": "c".repeat(64)}},
        "spec": {"selector": {"matchLabels": selector}, "containers": [{"name": name, "image": "registry.example.com/agent:1.0",
            "env": [{"name": "LEVEL", "value": "info"}], "volumeMounts": [{"name": "spool", "mountPath": "/var/spool"}],
            "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent", "podInjectPolicy": "BeforeAppContainer",
            "shareVolumePolicy": {"type": "enabled"}, "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
            "transferEnv": [{"sourceContainerName": "frontend", "envNames": ["SETTING_1", "SETTING_2"]}]}],
            "volumes": [{"name": "spool", "emptyDir": {}}]},
        "status": {"latestRevision": format!("{name}-64769cc7c5")}})
    .to_string()
}

/// `count` SidecarSets, of which at most two match the Pod.
fn world(count: usize) -> World {
    let mut world = World::new(api::DEFAULT_NAMESPACE);
    for number in 0..count {
        let selector = match number {
            0 => json!({"app": "shop"}),
            1 => json!({"tier": "frontend", "team": "checkout"}),
            _ => json!({"tier": "frontend", "app": format!("app-{number}")}),
        };
        world
            .apply(Watched::SidecarSet, &sidecar_set(&format!("set-{number}"), &selector))
            .expect("a sound SidecarSet");
    }
    world
}

fn injection(criterion: &mut Criterion) {
    let object = pod();
    assert!((5_500..6_500).contains(&object.len()), "the Pod has {} bytes", object.len());
    let gates = FeatureGates::default();
    let moment = Moment { now: Timestamp::UNIX_EPOCH, seed: 1 };
    let review = |object| PodReview {
        operation: Operation::Create,
        dry_run: false,
        subresource: "",
        resource: "pods",
        namespace: "shop",
        object: Pod::read(object).expect("a Pod"),
    };
    let mut group = criterion.benchmark_group("injection");
    for count in [0, 1, 2, 100, 1_000] {
        let world = world(count);
        group.bench_function(BenchmarkId::new("sidecar_sets", count), |bencher| {
            bencher.iter(|| {
                let review = Review::begin(review(black_box(&object)), &gates, moment).expect("a creation");
                match review.decide(&world, &Resolved::default()) {
                    Verdict::Allow { edits, .. } => edits.to_json(),
                    verdict => panic!("{verdict:?}"),
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, injection);
criterion_main!(benches);
