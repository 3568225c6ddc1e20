//! Random objects that hit the fields the rules touch, with absent, odd and unknown values among them.

use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

/// Kinds with rules.
pub(super) const KINDS: [&str; 12] = [
    "BatchRelease",
    "CloneSet",
    "ContainerRecreateRequest",
    "DaemonSet",
    "PersistentPodState",
    "PodUnavailableBudget",
    "ResourceDistribution",
    "Rollout",
    "SidecarSet",
    "StatefulSet",
    "UnitedDeployment",
    "WorkloadSpread",
];

/// One of these values.
fn any_of(values: &[Value]) -> BoxedStrategy<Value> {
    proptest::sample::select(values.to_vec()).boxed()
}

fn flag() -> BoxedStrategy<Value> {
    any_of(&[json!(true), json!(false), json!(null), json!("true")])
}

fn number() -> BoxedStrategy<Value> {
    any_of(&[json!(0), json!(1), json!(7), json!("20%"), json!(null), json!(-3)])
}

fn text(values: &[&str]) -> BoxedStrategy<Value> {
    let mut values: Vec<Value> = values.iter().map(|value| json!(value)).collect();
    values.push(json!(""));
    any_of(&values)
}

fn blob() -> BoxedStrategy<Value> {
    any_of(&[json!({}), json!({"a": {"b": [1, {"c": null}]}}), json!([]), json!("x"), json!(null)])
}

/// An object with some of these fields, now and then with an unknown one.
fn fields(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let mut all: BoxedStrategy<Map<String, Value>> = prop_oneof![
        4 => Just(Map::new()),
        1 => Just(Map::from_iter([("unknown".to_owned(), json!({"x": 1}))])),
    ]
    .boxed();
    for (key, value) in fields {
        all = (all, proptest::option::weighted(0.6, value))
            .prop_map(move |(mut map, value)| {
                if let Some(value) = value {
                    map.insert(key.to_owned(), value);
                }
                map
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    proptest::collection::vec(item, 0..4).prop_map(Value::Array).boxed()
}

fn map_of(value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    fields(vec![("a", value.clone()), ("b", value.clone()), ("c", value)])
}

/// A spec or status: mostly of the right shape, now and then something else.
fn mostly(value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    Union::new_weighted(vec![(12, value), (1, blob())]).boxed()
}

fn rolling(flat: bool) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    let in_place = fields(vec![
        ("gracePeriodSeconds", number()),
        ("imagePreDownloadParallelism", number()),
        ("imagePreDownloadTimeoutSeconds", number()),
        ("imagePreDownloadMinUpdatedReadyPods", number()),
    ]);
    let policy = text(&["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete", "RollingUpdate", "Frob"]);
    let mut all = vec![
        ("partition", number()),
        ("paused", flag()),
        ("scatterStrategy", blob()),
        ("inPlaceUpdateStrategy", mostly(in_place)),
    ];
    all.push((if flat { "type" } else { "podUpdatePolicy" }, policy));
    all
}

fn clone_set_spec() -> BoxedStrategy<Value> {
    let mut strategy = rolling(true);
    strategy.push(("rollingUpdate", mostly(fields(rolling(false)))));
    let scale = fields(vec![
        ("disablePVCReuse", flag()),
        ("enablePVCReuse", flag()),
        ("excludePreparingDelete", flag()),
    ]);
    fields(vec![
        ("updateStrategy", mostly(fields(strategy))),
        ("scaleStrategy", mostly(scale)),
        ("replicas", number()),
    ])
}

/// Steps of both versions, in which either may have fields of the other.
fn strategy() -> BoxedStrategy<Value> {
    let matches = fields(vec![
        ("headers", blob()),
        ("path", any_of(&[json!({"value": "/a"}), json!(null)])),
        ("queryParams", blob()),
    ]);
    let step = fields(vec![
        ("weight", number()),
        ("traffic", text(&["20%", "7%", "020%", "x", "%"])),
        ("replicas", number()),
        ("matches", mostly(list(matches))),
        ("pause", any_of(&[json!({}), json!({"duration": 3})])),
    ]);
    let canary = fields(vec![
        ("steps", mostly(list(step.clone()))),
        ("enableExtraWorkloadForCanary", flag()),
        ("trafficRoutingRef", text(&["r", "s"])),
        ("disableGenerateCanaryService", flag()),
    ]);
    let blue_green = fields(vec![("steps", mostly(list(step))), ("trafficRoutingRef", text(&["r"]))]);
    fields(vec![("canary", mostly(canary)), ("blueGreen", mostly(blue_green)), ("paused", flag())])
}

/// Where a release stands, with mirrors of it that agree or don't.
fn release_status() -> BoxedStrategy<Value> {
    let index = || any_of(&[json!(1), json!(2), json!(null)]);
    let state = || text(&["StepPaused", "StepReady"]);
    let release = || {
        fields(vec![
            ("currentStepIndex", index()),
            ("currentStepState", state()),
            ("canaryRevision", text(&["v2"])),
        ])
    };
    fields(vec![
        ("phase", text(&["Healthy", "Progressing"])),
        ("message", text(&["m"])),
        ("currentStepIndex", index()),
        ("currentStepState", state()),
        ("canaryStatus", mostly(release())),
        ("blueGreenStatus", mostly(release())),
    ])
}

fn workload_reference() -> BoxedStrategy<Value> {
    any_of(&[
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}),
        json!({}),
        json!(null),
        json!("x"),
    ])
}

fn conditions() -> BoxedStrategy<Value> {
    list(fields(vec![
        ("type", text(&["PreRecreateGrace", "Schedulable"])),
        ("status", text(&["True", "False"])),
        ("reason", text(&["Unknown", "R"])),
        ("message", text(&["m"])),
        ("lastTransitionTime", text(&["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.5+02:00", "never"])),
        ("observedGeneration", number()),
        ("failedNamespace", blob()),
        ("failedNamespaces", blob()),
    ]))
}

fn spec(kind: &str) -> BoxedStrategy<Value> {
    let selector = || {
        any_of(&[
            json!({"matchLabels": {"a": "b"}}),
            json!({"matchLabels": {"kubernetes.io/metadata.name": "n"}}),
            json!({}),
        ])
    };
    match kind {
        "CloneSet" => clone_set_spec(),
        "UnitedDeployment" => fields(vec![(
            "template",
            mostly(fields(vec![("cloneSetTemplate", fields(vec![("spec", clone_set_spec())]))])),
        )]),
        "StatefulSet" => fields(vec![
            ("replicas", number()),
            ("lifecycle", blob()),
            ("ordinals", blob()),
            ("persistentVolumeClaimRetentionPolicy", blob()),
            ("reserveOrdinals", blob()),
            ("scaleStrategy", blob()),
            ("volumeClaimUpdateStrategy", blob()),
        ]),
        "DaemonSet" => {
            let rolling =
                fields(vec![("rollingUpdateType", text(&["Surging", "Standard"])), ("partition", number())]);
            fields(vec![
                ("scaleStrategy", mostly(fields(vec![("partitionedScaling", flag())]))),
                ("updateStrategy", mostly(fields(vec![("rollingUpdate", mostly(rolling))]))),
            ])
        }
        "SidecarSet" => fields(vec![
            ("namespace", text(&["n", "m"])),
            ("namespaceSelector", selector()),
            ("customVersion", text(&["v1", "v2"])),
            ("containers", blob()),
        ]),
        "ResourceDistribution" => fields(vec![(
            "targets",
            mostly(fields(vec![("namespaceSelector", selector()), ("namespaceLabelSelector", selector())])),
        )]),
        "PersistentPodState" => {
            let keys = || fields(vec![("keys", blob()), ("nodeTopologyKeys", blob())]);
            fields(vec![
                ("requiredPersistentTopology", mostly(keys())),
                (
                    "preferredPersistentTopology",
                    mostly(list(fields(vec![("preference", keys()), ("weight", number())]))),
                ),
            ])
        }
        "WorkloadSpread" => fields(vec![(
            "subsets",
            mostly(list(fields(vec![
                ("name", text(&["a", "b", "c"])),
                ("requiredNodeSelector", blob()),
                ("requiredNodeSelectorTerm", blob()),
                ("preferredNodeSelector", blob()),
                ("preferredNodeSelectorTerms", blob()),
            ]))),
        )]),
        "PodUnavailableBudget" => fields(vec![
            ("maxUnavailable", number()),
            ("protectOperations", any_of(&[json!([]), json!(["DELETE"]), json!(["EVICT", "DELETE"])])),
            ("protectTotalReplicas", any_of(&[json!(0), json!(15), json!(null)])),
            ("ignoredPodSelector", selector()),
        ]),
        "Rollout" => fields(vec![
            ("workloadRef", workload_reference()),
            ("objectRef", mostly(fields(vec![("workloadRef", workload_reference())]))),
            ("rolloutID", text(&["7"])),
            ("disabled", flag()),
            ("strategy", mostly(strategy())),
        ]),
        "BatchRelease" => {
            let plan = fields(vec![
                ("rollingStyle", text(&["Canary", "Partition", "BlueGreen", "Frob"])),
                ("enableExtraWorkloadForCanary", flag()),
                ("batchPartition", number()),
            ]);
            fields(vec![
                ("workloadRef", workload_reference()),
                ("targetReference", mostly(fields(vec![("workloadRef", workload_reference())]))),
                ("releasePlan", mostly(plan)),
            ])
        }
        _ => fields(vec![("podName", text(&["p"]))]),
    }
}

fn status(kind: &str) -> BoxedStrategy<Value> {
    if kind == "Rollout" {
        return release_status();
    }
    let subset = fields(vec![
        ("name", text(&["a", "b", "c"])),
        ("replicas", number()),
        ("partition", number()),
        ("conditions", mostly(conditions())),
    ]);
    let snapshot = fields(vec![
        ("name", text(&["c"])),
        ("ready", flag()),
        ("restartCount", number()),
        ("containerID", text(&["x"])),
    ]);
    fields(vec![
        ("phase", text(&["Pending"])),
        ("conditions", mostly(conditions())),
        ("containerStatusSnapshot", mostly(list(snapshot))),
        ("daemonSetHash", text(&["h"])),
        ("updateRevision", text(&["h"])),
        ("updatedRevision", text(&["r"])),
        (
            "updateStatus",
            mostly(fields(vec![("updatedRevision", text(&["q"])), ("currentPartitions", map_of(number()))])),
        ),
        ("subsetReplicas", mostly(map_of(number()))),
        ("subsetStatuses", mostly(list(subset.clone()))),
        ("versionedSubsetStatuses", mostly(map_of(list(subset)))),
        ("updatedReadyReplicas", number()),
        ("volumeClaims", blob()),
    ])
}

fn metadata() -> BoxedStrategy<Value> {
    let snapshot = r#"[{"name":"c","ready":true,"restartCount":2,"containerID":"x"}]"#;
    let annotations = fields(vec![
        ("own", text(&["x"])),
        ("apps.kruise.io/image-predownload-parallelism", text(&["5", "50%"])),
        ("apps.kruise.io/image-predownload-timeout-seconds", text(&["77", "x", "+7"])),
        ("daemonset.kruise.io/progressive-create-pod", text(&["true", "false"])),
        ("crr.apps.kruise.io/sync-container-statuses", text(&[snapshot, "[ ]", "{", r#"[{"name": "d"}]"#])),
        (
            "crr.apps.kruise.io/unready-acquired",
            text(&["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.5+02:00", "x"]),
        ),
        ("kruise.io/pub-protect-operations", text(&["DELETE", " DELETE ,EVICT", ",", "DELETE,FOO"])),
        ("pub.kruise.io/protect-total-replicas", text(&["15", "007", "+3", "-1", "x", ""])),
        ("rollouts.kruise.io/rolling-style", text(&["canary", "partition", "Partition", "bluegreen", "x"])),
        ("rollouts.kruise.io/trafficrouting", text(&["r", "s"])),
    ]);
    let labels = fields(vec![
        ("apps.kruise.io/cloneset-scaling-exclude-preparing-delete", text(&["true", "false"])),
        ("apps.kruise.io/sidecarset-custom-version", text(&["v1"])),
        ("own", text(&["x"])),
    ]);
    fields(vec![
        ("labels", labels),
        ("annotations", annotations),
        ("creationTimestamp", text(&["2024-01-01T00:00:00Z"])),
    ])
    .prop_map(|mut metadata| {
        metadata["name"] = json!("a");
        if metadata["annotations"].as_object().is_none_or(Map::is_empty) {
            metadata.as_object_mut().unwrap().remove("annotations");
        }
        metadata
    })
    .boxed()
}

/// An object of any kind with rules, in either version.
pub(super) fn object() -> BoxedStrategy<Value> {
    (proptest::sample::select(KINDS.to_vec()), proptest::sample::select(vec!["v1alpha1", "v1beta1"]))
        .prop_flat_map(|(kind, version)| object_of(kind, version))
        .boxed()
}

/// An object of one kind and version.
pub(super) fn object_of(kind: &'static str, version: &'static str) -> BoxedStrategy<Value> {
    let parts = (
        metadata(),
        proptest::option::weighted(0.95, mostly(spec(kind))),
        proptest::option::of(mostly(status(kind))),
    );
    parts
        .prop_map(move |(metadata, spec, status)| {
            let group = match kind {
                "PodUnavailableBudget" => "policy",
                "BatchRelease" | "Rollout" => "rollouts",
                _ => "apps",
            };
            let version = format!("{group}.kruise.io/{version}");
            super::object(
                &version,
                kind,
                metadata,
                spec.unwrap_or(Value::Null),
                status.unwrap_or(Value::Null),
            )
        })
        .boxed()
}

/// Two objects of the same kind and version.
pub(super) fn pair() -> BoxedStrategy<(Value, Value)> {
    (proptest::sample::select(KINDS.to_vec()), proptest::sample::select(vec!["v1alpha1", "v1beta1"]))
        .prop_flat_map(|(kind, version)| {
            let other = if version == "v1beta1" { "v1alpha1" } else { "v1beta1" };
            (object_of(kind, version), object_of(kind, other))
        })
        .boxed()
}
