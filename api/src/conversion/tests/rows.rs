//! The rows of the tables of docs/behaviour/api-and-registration.md#version-conversion and
//! docs/behaviour/api-and-registration.md#conversion-of-podunavailablebudget, kind by kind.

use serde_json::{Value, json};

use super::{ALPHA, BETA, CONVERTED_FIELDS, assert_flips, flip, object, visible};

const NONE: Value = Value::Null;

fn set(api_version: &str, kind: &str, spec: Value) -> Value {
    object(api_version, kind, json!({}), spec, NONE)
}

#[test]
fn cloneset_types_become_policies() {
    for (kind, policy) in [
        ("ReCreate", "ReCreate"),
        ("InPlaceIfPossible", "InPlaceIfPossible"),
        ("InPlaceOnly", "InPlaceOnly"),
        ("Frob", "ReCreate"),
        ("", "ReCreate"),
    ] {
        let alpha = json!({"updateStrategy": {"type": kind}});
        let beta = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy}},
            "scaleStrategy": {"enablePVCReuse": true}});
        assert_flips(&set(ALPHA, "CloneSet", alpha), &set(BETA, "CloneSet", beta));
    }
    for rolling in [json!({"podUpdatePolicy": ""}), json!({}), json!({"podUpdatePolicy": "Frob"}), NONE] {
        let beta = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "scaleStrategy": {"enablePVCReuse": true}});
        let alpha = json!({"updateStrategy": {"type": "ReCreate"}});
        assert_flips(&set(BETA, "CloneSet", beta), &set(ALPHA, "CloneSet", alpha));
    }
}

#[test]
fn cloneset_rolling_fields_move() {
    let fields = json!({"partition": "20%", "maxUnavailable": 1, "maxSurge": "10%", "paused": true,
        "priorityStrategy": {"orderPriority": [{"orderedKey": "k"}]}, "scatterStrategy": [{"key": "a", "value": "b"}],
        "inPlaceUpdateStrategy": {"gracePeriodSeconds": 10}});
    let mut alpha = json!({"updateStrategy": {"type": "InPlaceOnly"}});
    let mut beta = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}},
        "scaleStrategy": {"enablePVCReuse": true}});
    for (key, value) in fields.as_object().unwrap() {
        alpha["updateStrategy"][key] = value.clone();
        beta["updateStrategy"]["rollingUpdate"][key] = value.clone();
    }
    let (alpha, beta) = (set(ALPHA, "CloneSet", alpha), set(BETA, "CloneSet", beta));
    assert_flips(&alpha, &beta);
    assert_flips(&beta, &alpha);
    assert!(!flip(&alpha).to_string().contains(CONVERTED_FIELDS), "nothing is lost");
}

#[test]
fn cloneset_on_delete_keeps_rolling_fields_out_of_sight() {
    let alpha = json!({"updateStrategy": {"type": "OnDelete", "partition": 3, "paused": true}});
    let beta = json!({"updateStrategy": {"type": "OnDelete"}, "scaleStrategy": {"enablePVCReuse": true}});
    assert_flips(&set(ALPHA, "CloneSet", alpha), &set(BETA, "CloneSet", beta));
    let beta = json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "partition": 3}},
        "scaleStrategy": {"enablePVCReuse": true}});
    let alpha = json!({"updateStrategy": {"type": "OnDelete", "partition": 3}});
    assert_flips(&set(BETA, "CloneSet", beta), &set(ALPHA, "CloneSet", alpha));
}

#[test]
fn cloneset_pvc_reuse_is_negated() {
    for (alpha, beta) in [
        (json!({}), true),
        (json!({"disablePVCReuse": false}), true),
        (json!({"disablePVCReuse": true}), false),
    ] {
        let alpha =
            set(ALPHA, "CloneSet", json!({"updateStrategy": {"type": "ReCreate"}, "scaleStrategy": alpha}));
        let flipped = flip(&alpha);
        assert_eq!(flipped["spec"]["scaleStrategy"]["enablePVCReuse"], beta);
        assert_eq!(flip(&flipped), alpha);
        let unseen = flip(&visible(flipped))["spec"]["scaleStrategy"]["disablePVCReuse"].clone();
        assert_eq!(unseen.as_bool().unwrap_or(false), !beta);
    }
}

#[test]
fn cloneset_label_mirrors_exclude_preparing_delete() {
    let label = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    let strategy = json!({"type": "ReCreate"});
    let alpha = object(
        ALPHA,
        "CloneSet",
        json!({"labels": {label: "true"}}),
        json!({"updateStrategy": strategy}),
        NONE,
    );
    let mut beta = flip(&alpha);
    assert_eq!(beta["spec"]["scaleStrategy"]["excludePreparingDelete"], true);
    assert_eq!(beta["metadata"]["labels"][label], "true");
    assert_eq!(flip(&beta), alpha);
    // A v1beta1 client unsets the field: the label must not bring it back.
    beta["spec"]["scaleStrategy"]["excludePreparingDelete"] = false.into();
    let alpha = flip(&beta);
    assert_eq!(alpha["metadata"].get("labels"), None);
    assert_eq!(flip(&alpha), beta);
    // The field alone writes the label.
    beta["spec"]["scaleStrategy"]["excludePreparingDelete"] = true.into();
    beta["metadata"].as_object_mut().unwrap().remove("labels");
    assert_eq!(flip(&beta)["metadata"]["labels"][label], "true");
    assert_eq!(flip(&flip(&beta)), beta);
}

#[test]
fn cloneset_annotations_become_pre_download_fields() {
    let prefix = "apps.kruise.io/image-predownload-";
    let annotations = json!({format!("{prefix}parallelism"): "50%", format!("{prefix}timeout-seconds"): "77",
        format!("{prefix}min-updated-ready-pods"): "x"});
    let alpha = object(
        ALPHA,
        "CloneSet",
        json!({"annotations": annotations}),
        json!({"updateStrategy": {"type": "InPlaceOnly", "inPlaceUpdateStrategy": {"imagePreDownloadTimeoutSeconds": 5}}}),
        NONE,
    );
    let mut beta = flip(&alpha);
    let rolling = &beta["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(rolling["podUpdatePolicy"], "InPlaceOnly");
    assert_eq!(
        rolling["inPlaceUpdateStrategy"],
        json!({"imagePreDownloadParallelism": "50%", "imagePreDownloadTimeoutSeconds": 77})
    );
    assert_eq!(beta["metadata"]["annotations"][format!("{prefix}timeout-seconds")], "77");
    assert_eq!(flip(&beta), alpha);
    // Edits in v1beta1 win: one field changes, one is removed.
    beta["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"] =
        json!({"imagePreDownloadParallelism": 3});
    let alpha = flip(&beta);
    assert_eq!(alpha["metadata"]["annotations"][format!("{prefix}parallelism")], "3");
    assert_eq!(alpha["metadata"]["annotations"].get(format!("{prefix}timeout-seconds")), None);
    assert_eq!(visible(flip(&alpha)), visible(beta));
}

#[test]
fn statefulset_fields_of_v1beta1_come_back() {
    let beta = object(
        BETA,
        "StatefulSet",
        json!({"labels": {"a": "b"}}),
        json!({"replicas": 3, "reserveOrdinals": [1, "3-5"], "lifecycle": {"preDelete": {}}, "ordinals": {"start": 2},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}, "scaleStrategy": {"maxUnavailable": 1},
            "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}),
        json!({"replicas": 3, "updatedReadyReplicas": 1, "updatedAvailableReplicas": 1, "volumeClaims": []}),
    );
    let alpha = object(
        ALPHA,
        "StatefulSet",
        json!({"labels": {"a": "b"}}),
        json!({"replicas": 3}),
        json!({"replicas": 3}),
    );
    assert_flips(&beta, &alpha);
    let mut scaled = flip(&beta);
    scaled["spec"]["replicas"] = 5.into();
    let mut expected = beta;
    expected["spec"]["replicas"] = 5.into();
    assert_eq!(flip(&scaled), expected);
}

#[test]
fn daemonset_annotation_mirrors_partitioned_scaling() {
    let annotation = "daemonset.kruise.io/progressive-create-pod";
    let metadata = json!({"annotations": {annotation: "true"}});
    let alpha =
        json!({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "Surging", "partition": 1}}});
    let alpha =
        object(ALPHA, "DaemonSet", metadata.clone(), alpha, json!({"daemonSetHash": "h", "numberReady": 1}));
    let beta = json!({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "Standard", "partition": 1}},
        "scaleStrategy": {"partitionedScaling": true}});
    let beta = object(BETA, "DaemonSet", metadata, beta, json!({"updateRevision": "h", "numberReady": 1}));
    assert_flips(&alpha, &beta);
    let mut off = flip(&alpha);
    off["spec"]["scaleStrategy"]["partitionedScaling"] = false.into();
    let alpha = flip(&off);
    assert_eq!(alpha["metadata"]["annotations"].get(annotation), None);
    assert_eq!(visible(flip(&alpha)), visible(off));
    let other = object(ALPHA, "DaemonSet", json!({"annotations": {annotation: "True"}}), json!({}), NONE);
    assert_eq!(flip(&other)["spec"], json!({}));
    assert_eq!(flip(&flip(&other)), other);
}

#[test]
fn sidecarset_namespace_comes_back_unless_the_selector_was_edited() {
    let label = "apps.kruise.io/sidecarset-custom-version";
    let metadata = json!({"labels": {label: "v2"}});
    let alpha =
        object(ALPHA, "SidecarSet", metadata, json!({"namespace": "ns-1", "injectionStrategy": {}}), NONE);
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "ns-1"}});
    let beta = json!({"injectionStrategy": {}, "namespaceSelector": selector, "customVersion": "v2"});
    assert_flips(&alpha, &set(BETA, "SidecarSet", beta));
    let mut edited = flip(&alpha);
    edited["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "x"}});
    let seen = flip(&edited);
    assert_eq!(
        seen["spec"],
        json!({"injectionStrategy": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}})
    );
    assert_eq!(seen["metadata"]["labels"][label], "v2");
    assert_eq!(visible(flip(&seen)), visible(edited));
    let mut other = flip(&alpha);
    other["spec"]["containers"] = json!([{"name": "c"}]);
    assert_eq!(flip(&other)["spec"]["namespace"], "ns-1", "an edit elsewhere keeps it");
}

#[test]
fn sidecarset_namespace_wins_over_its_selector() {
    let alpha =
        set(ALPHA, "SidecarSet", json!({"namespace": "a", "namespaceSelector": {"matchLabels": {"b": "c"}}}));
    let beta = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}});
    assert_flips(&alpha, &set(BETA, "SidecarSet", beta));
    let native = set(
        BETA,
        "SidecarSet",
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}}),
    );
    assert_eq!(flip(&native)["spec"], native["spec"], "only what came from a namespace goes back to one");
}

#[test]
fn uniteddeployment_status_maps_are_merged_and_rebuilt() {
    let alpha = json!({"replicas": 5, "subsetStatuses": [{"name": "b", "readyReplicas": 1}],
        "subsetReplicas": {"z": 1, "b": 2, "a": 3}, "updateStatus": {"updatedRevision": "r", "currentPartitions": {"b": 1, "z": 0}}});
    let beta = json!({"replicas": 5, "updatedRevision": "r", "subsetStatuses": [
        {"name": "b", "readyReplicas": 1, "replicas": 2, "partition": 1}, {"name": "a", "replicas": 3}, {"name": "z", "replicas": 1}]});
    let alpha = object(ALPHA, "UnitedDeployment", json!({}), json!({}), alpha);
    let beta = object(BETA, "UnitedDeployment", json!({}), json!({}), beta);
    assert_flips(&alpha, &beta);
    let maps = json!({"subsetReplicas": {"b": 2, "a": 3, "z": 1},
        "updateStatus": {"updatedRevision": "r", "currentPartitions": {"b": 1, "a": 0, "z": 0}}});
    let rebuilt = flip(&beta);
    assert_eq!(rebuilt["status"]["subsetReplicas"], maps["subsetReplicas"]);
    assert_eq!(rebuilt["status"]["updateStatus"], maps["updateStatus"]);
    assert_eq!(flip(&rebuilt), beta);
    let empty = object(
        BETA,
        "UnitedDeployment",
        json!({}),
        json!({}),
        json!({"updatedRevision": "", "subsetStatuses": []}),
    );
    assert_eq!(visible(flip(&empty))["status"], json!({"subsetStatuses": []}));
    assert_eq!(flip(&flip(&empty)), empty);
}

#[test]
fn uniteddeployment_flat_clone_set_templates_are_nested() {
    let template = |spec: Value| json!({"template": {"cloneSetTemplate": {"spec": spec}}});
    let flat = template(
        json!({"updateStrategy": {"type": "InPlaceIfPossible", "partition": 1}, "scaleStrategy": {"disablePVCReuse": true}}),
    );
    let nested = template(json!({"updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 1}}, "scaleStrategy": {"enablePVCReuse": false}}));
    assert_flips(&set(ALPHA, "UnitedDeployment", flat), &set(BETA, "UnitedDeployment", nested.clone()));
    // A type is not needed, and claims are reused where nothing is said of it.
    let flat = template(json!({"updateStrategy": {"maxUnavailable": 1, "paused": true}}));
    let reusing = template(json!({"updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxUnavailable": 1, "paused": true}}, "scaleStrategy": {"enablePVCReuse": true}}));
    assert_flips(&set(ALPHA, "UnitedDeployment", flat), &set(BETA, "UnitedDeployment", reusing));
    let silent = set(ALPHA, "UnitedDeployment", template(json!({"replicas": 1})));
    let beta = visible(flip(&silent));
    assert_eq!(
        beta["spec"]["template"]["cloneSetTemplate"]["spec"]["scaleStrategy"],
        json!({"enablePVCReuse": true})
    );
    let silent = set(BETA, "UnitedDeployment", template(json!({"replicas": 1})));
    assert_eq!(flip(&flip(&silent)), silent);
    assert_flips(&set(ALPHA, "UnitedDeployment", nested.clone()), &set(BETA, "UnitedDeployment", nested));
}

#[test]
fn workloadspread_selectors_are_renamed_and_conditions_completed() {
    let alpha = object(
        ALPHA,
        "WorkloadSpread",
        json!({"creationTimestamp": "2024-01-01T00:00:00Z"}),
        json!({"subsets": [{"name": "a", "requiredNodeSelectorTerm": {"matchExpressions": []},
            "preferredNodeSelectorTerms": [{"weight": 1}], "patch": {"x": 1}}]}),
        json!({"subsetStatuses": [{"name": "a", "conditions": [{"type": "Schedulable", "status": "True"}]}],
            "versionedSubsetStatuses": {"v": [{"name": "a", "conditions": [{"type": "Schedulable", "status": "True",
                "reason": "", "message": "m", "lastTransitionTime": "2024-02-01T00:00:00Z"}]}]}}),
    );
    let beta = object(
        BETA,
        "WorkloadSpread",
        json!({"creationTimestamp": "2024-01-01T00:00:00Z"}),
        json!({"subsets": [{"name": "a", "requiredNodeSelector": {"matchExpressions": []},
            "preferredNodeSelector": [{"weight": 1}], "patch": {"x": 1}}]}),
        json!({"subsetStatuses": [{"name": "a", "conditions": [{"type": "Schedulable", "status": "True",
                "reason": "Unknown", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}],
            "versionedSubsetStatuses": {"v": [{"name": "a", "conditions": [{"type": "Schedulable", "status": "True",
                "reason": "Unknown", "message": "m", "lastTransitionTime": "2024-02-01T00:00:00Z"}]}]}}),
    );
    assert_flips(&alpha, &beta);
    // A reason that v1beta1 sets is not undone by the note.
    let mut edited = flip(&alpha);
    edited["status"]["subsetStatuses"][0]["conditions"][0]["reason"] = "Sufficient".into();
    let seen = flip(&edited);
    assert_eq!(seen["status"]["subsetStatuses"][0]["conditions"][0]["reason"], "Sufficient");
    assert_eq!(seen["status"]["versionedSubsetStatuses"]["v"][0]["conditions"][0]["reason"], "");
    let mut observed = beta;
    observed["status"]["subsetStatuses"][0]["conditions"][0]["observedGeneration"] = 4.into();
    let seen = flip(&observed);
    assert_eq!(seen["status"]["subsetStatuses"][0]["conditions"][0].get("observedGeneration"), None);
    assert_eq!(seen["status"]["subsetStatuses"][0]["conditions"][0]["reason"], "Unknown");
    assert_eq!(flip(&seen), observed);
}

#[test]
fn containerrecreaterequest_annotations_are_status_fields() {
    let statuses = "crr.apps.kruise.io/sync-container-statuses";
    let acquired = "crr.apps.kruise.io/unready-acquired";
    let text = r#"[{"name":"c","ready":true,"restartCount":2,"containerID":"x"},{"name":"d","ready":false,"restartCount":0}]"#;
    let annotations = json!({"annotations": {statuses: text, acquired: "2024-05-06T09:08:09+02:00"}});
    let alpha = object(
        ALPHA,
        "ContainerRecreateRequest",
        annotations.clone(),
        json!({"podName": "p"}),
        json!({"phase": "Recreating"}),
    );
    let condition = json!({"type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace",
        "message": "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain",
        "lastTransitionTime": "2024-05-06T07:08:09Z"});
    let status = json!({"phase": "Recreating", "conditions": [condition],
        "containerStatusSnapshot": [{"name": "c", "ready": true, "restartCount": 2, "containerID": "x"},
            {"name": "d", "ready": false, "restartCount": 0}]});
    let beta = object(BETA, "ContainerRecreateRequest", annotations, json!({"podName": "p"}), status.clone());
    assert_flips(&alpha, &beta);
    let native = object(BETA, "ContainerRecreateRequest", json!({}), json!({"podName": "p"}), status);
    let seen = flip(&native);
    assert_eq!(seen["metadata"]["annotations"][statuses], text);
    assert_eq!(seen["metadata"]["annotations"][acquired], "2024-05-06T07:08:09Z");
    assert_eq!(seen["status"], json!({"phase": "Recreating"}));
    assert_eq!(flip(&seen), native);
    let mut other = native;
    other["status"]["conditions"] =
        json!([{"type": "Other", "status": "True"}, {"type": "PreRecreateGrace", "status": "False"}]);
    let seen = flip(&other);
    assert_eq!(seen["metadata"]["annotations"].get(acquired), None, "only True is written");
    assert_eq!(flip(&seen), other);
}

#[test]
fn containerrecreaterequest_rubbish_is_dropped_and_no_status_made_up() {
    let annotations = json!({"annotations": {"crr.apps.kruise.io/sync-container-statuses": "{",
        "crr.apps.kruise.io/unready-acquired": "yesterday"}});
    let alpha = object(ALPHA, "ContainerRecreateRequest", annotations.clone(), json!({"podName": "p"}), NONE);
    let beta = object(BETA, "ContainerRecreateRequest", annotations, json!({"podName": "p"}), NONE);
    assert_flips(&alpha, &beta);
}

#[test]
fn persistentpodstate_keys_are_renamed() {
    let spec = |key: &str| {
        json!({"requiredPersistentTopology": {key: ["a"]}, "preferredPersistentTopology":
        [{"weight": 1, "preference": {key: ["b"]}}, {"weight": 2, "preference": {key: []}}]})
    };
    let (alpha, beta) = (spec("nodeTopologyKeys"), spec("keys"));
    let (alpha, beta) = (set(ALPHA, "PersistentPodState", alpha), set(BETA, "PersistentPodState", beta));
    assert_flips(&alpha, &beta);
    assert_flips(&beta, &alpha);
}

#[test]
fn resourcedistribution_names_are_renamed() {
    let make = |version: &str, selector: &str, failed: &str| {
        let spec = json!({"resource": {"kind": "Secret"}, "targets": {"allNamespaces": false, selector: {"matchLabels": {"a": "b"}}}});
        object(
            version,
            "ResourceDistribution",
            json!({}),
            spec,
            json!({"conditions": [{"type": "x", failed: ["n"]}, {"type": "y"}]}),
        )
    };
    let alpha = make(ALPHA, "namespaceLabelSelector", "failedNamespace");
    let beta = make(BETA, "namespaceSelector", "failedNamespaces");
    assert_flips(&alpha, &beta);
    assert_flips(&beta, &alpha);
}

#[test]
fn podunavailablebudget_annotations_are_fields() {
    let (operations, replicas) = ("kruise.io/pub-protect-operations", "pub.kruise.io/protect-total-replicas");
    let make = |version: &str, metadata: Value, spec: Value| {
        object(&format!("policy.kruise.io/{version}"), "PodUnavailableBudget", metadata, spec, NONE)
    };
    let metadata = json!({"annotations": {operations: "DELETE, EVICT,,", replicas: "15"}});
    let alpha = make("v1alpha1", metadata, json!({"maxUnavailable": 1}));
    let spec =
        json!({"maxUnavailable": 1, "protectTotalReplicas": 15, "protectOperations": ["DELETE", "EVICT"]});
    assert_flips(&alpha, &make("v1beta1", json!({}), spec));
    let spec =
        json!({"protectOperations": ["DELETE", "RESIZE"], "ignoredPodSelector": {"matchLabels": {"a": "b"}}});
    let stale = json!({"annotations": {replicas: "15"}});
    let seen = make("v1alpha1", json!({"annotations": {operations: "DELETE,RESIZE"}}), json!({}));
    assert_flips(&make("v1beta1", stale, spec), &seen);
    let odd = make("v1alpha1", json!({"annotations": {operations: "", replicas: "007"}}), json!({}));
    let kept = make(
        "v1beta1",
        json!({"annotations": {operations: "", replicas: "007"}}),
        json!({"protectTotalReplicas": 7}),
    );
    assert_flips(&odd, &kept);
}

#[test]
fn podunavailablebudget_annotations_that_cannot_be_read_fail_nothing() {
    let (operations, replicas) = ("kruise.io/pub-protect-operations", "pub.kruise.io/protect-total-replicas");
    let make = |version: &str, annotations: Value, spec: Value| {
        let metadata = json!({"annotations": annotations});
        object(&format!("policy.kruise.io/{version}"), "PodUnavailableBudget", metadata, spec, NONE)
    };
    for (key, value) in [(operations, "DELETE,FOO"), (replicas, "x"), (replicas, "3000000000")] {
        let alpha = make("v1alpha1", json!({key: value}), json!({"maxUnavailable": 1}));
        assert_flips(&alpha, &make("v1beta1", json!({key: value}), json!({"maxUnavailable": 1})));
    }
    // The other annotation becomes a field all the same.
    let alpha = make("v1alpha1", json!({operations: "FOO", replicas: "15"}), json!({}));
    let beta = make("v1beta1", json!({operations: "FOO"}), json!({"protectTotalReplicas": 15}));
    assert_flips(&alpha, &beta);
}
