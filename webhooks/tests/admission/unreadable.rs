//! What can't be read is refused with its path, in words of the API (docs/behaviour/api-and-registration.md#codes-of-denials).

use serde_json::{Value, json};

use crate::support::{admission, ask};

/// A kind, one odd value in its spec, and what is said of it in every version.
const ODD: &[(&str, &str, &str)] = &[
    ("AdvancedCronJob", r#"{"schedule":5}"#, "spec.schedule: Invalid value: 5: must be a string"),
    (
        "BroadcastJob",
        r#"{"parallelism":[]}"#,
        "spec.parallelism: Invalid value: []: must be an integer or a string",
    ),
    ("CloneSet", r#"{"replicas":"x"}"#, "spec.replicas: Invalid value: \"x\": must be an integer"),
    ("ContainerRecreateRequest", r#"{"podName":7}"#, "spec.podName: Invalid value: 7: must be a string"),
    (
        "DaemonSet",
        r#"{"minReadySeconds":1.5}"#,
        "spec.minReadySeconds: Invalid value: 1.5: must be an integer",
    ),
    ("EphemeralJob", r#"{"paused":"no"}"#, "spec.paused: Invalid value: \"no\": must be true or false"),
    ("ImageListPullJob", r#"{"images":{}}"#, "spec.images: Invalid value: {}: must be a list"),
    (
        "ImagePullJob",
        r#"{"selector":{"names":[7]}}"#,
        "spec.selector.names[0]: Invalid value: 7: must be a string",
    ),
    (
        "NodeImage",
        r#"{"images":{"a":{"tags":[{"version":"1"}]}}}"#,
        "spec.images.a.tags[0].version: Invalid value: \"1\": must be an integer",
    ),
    (
        "PersistentPodState",
        r#"{"targetRef":"web"}"#,
        "spec.targetRef: Invalid value: \"web\": must be an object",
    ),
    (
        "PodProbeMarker",
        r#"{"selector":{"matchLabels":{"a":"b"}},"probes":[{"name":"a","containerName":"a","podConditionType":"a/b","probe":{"periodSeconds":"x"}}]}"#,
        "spec.probe.periodSeconds: Invalid value: \"x\": must be an integer",
    ),
    ("PodUnavailableBudget", r#"{"selector":7}"#, "spec.selector: Invalid value: 7: must be an object"),
    (
        "ResourceDistribution",
        r#"{"targets":{"allNamespaces":1}}"#,
        "spec.targets.allNamespaces: Invalid value: 1: must be true or false",
    ),
    ("Rollout", r#"{"strategy":"x"}"#, "spec.strategy: Invalid value: \"x\": must be an object"),
    ("SidecarSet", r#"{"volumes":"x"}"#, "spec.volumes: Invalid value: \"x\": must be a list"),
    (
        "SidecarSet",
        r#"{"containers":[{"name":7}]}"#,
        "spec.containers[0].name: Invalid value: 7: must be a string",
    ),
    ("StatefulSet", r#"{"serviceName":7}"#, "spec.serviceName: Invalid value: 7: must be a string"),
    (
        "UnitedDeployment",
        r#"{"replicas":2147483648}"#,
        "spec.replicas: Invalid value: 2147483648: must be an integer of 32 bits",
    ),
    (
        "WorkloadSpread",
        r#"{"subsets":[{"name":7}]}"#,
        "spec.subsets[0].name: Invalid value: 7: must be a string",
    ),
];

/// What the webhooks of a kind say of an object.
async fn refusal(kind: &str, group: &str, version: &str, spec: &Value) -> String {
    let on = admission("ImagePullJobGate=true,ResourceDistributionGate=true,Rollouts=true", "");
    let lower = kind.to_lowercase();
    let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
    let request = json!({"uid": "1", "operation": "CREATE", "name": "web", "namespace": "shop",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": format!("{lower}s")},
        "object": object, "oldObject": null});
    let old = if kind == "EphemeralJob" { "v1alpha1-" } else { "" };
    for verb in ["mutate", "validate"] {
        let path = format!("/{verb}-{}-{old}{lower}", group.replace('.', "-"));
        if webhooks::Endpoint::from_path(&path).is_none() {
            continue;
        }
        let answer = ask(&on, &path, &request).await;
        if answer["allowed"] == false {
            assert_eq!(answer["status"]["code"], 400, "{kind}: {answer}");
            return answer["status"]["message"].as_str().unwrap().to_owned();
        }
    }
    panic!("{kind} of {version} passes")
}

#[tokio::test]
async fn what_can_not_be_read_is_named_by_its_path() {
    // Controllers alone write these.
    let unchecked = ["BatchRelease", "NodePodProbe", "RolloutHistory", "TrafficRouting"];
    let definitions = api::crds::ALL.iter().chain(api::crds::ROLLOUTS);
    for definition in definitions.filter(|definition| !unchecked.contains(&definition.kind)) {
        let odd = ODD.iter().filter(|(kind, _, _)| *kind == definition.kind).collect::<Vec<_>>();
        assert!(!odd.is_empty(), "{}", definition.kind);
        for (kind, spec, expected) in odd {
            for version in definition.versions {
                let spec = serde_json::from_str(spec).unwrap();
                assert_eq!(
                    refusal(kind, definition.group, version, &spec).await,
                    *expected,
                    "{kind} {version}"
                );
            }
        }
    }
}
