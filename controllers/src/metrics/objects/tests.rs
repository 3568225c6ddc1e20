use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// The names of the family's exporter, with their labels beside `namespace` and that of the object's name.
const NAMES: &str = "\
kruise_broadcastjob_created
kruise_broadcastjob_status_active
kruise_broadcastjob_status_succeeded
kruise_broadcastjob_status_failed
kruise_broadcastjob_status_desired
kruise_broadcastjob_status_condition condition status
kruise_broadcastjob_spec_parallelism
kruise_broadcastjob_metadata_generation
kruise_broadcastjob_annotations
kruise_broadcastjob_labels
kruise_broadcastjob_spec_strategy_activedeadline_seconds
kruise_broadcastjob_spec_strategy_ttl_seconds
kruise_broadcastjob_spec_strategy_type strategy_type
kruise_cloneset_created
kruise_cloneset_status_replicas
kruise_cloneset_status_replicas_available
kruise_cloneset_status_replicas_unavailable
kruise_cloneset_status_replicas_updated
kruise_cloneset_status_observed_generation
kruise_cloneset_status_condition condition status
kruise_cloneset_spec_replicas
kruise_cloneset_spec_strategy_rollingupdate_max_unavailable
kruise_cloneset_spec_strategy_rollingupdate_max_surge
kruise_cloneset_metadata_generation
kruise_cloneset_annotations
kruise_cloneset_labels
kruise_cloneset_status_replicas_ready
kruise_cloneset_status_replicas_updated_ready
kruise_cloneset_spec_strategy_partition partition
kruise_cloneset_spec_strategy_type strategy_type
kruise_containerrecreaterequest_annotations
kruise_containerrecreaterequest_labels
kruise_containerrecreaterequest_created
kruise_containerrecreaterequest_containers_pending
kruise_containerrecreaterequest_containers_recreating
kruise_containerrecreaterequest_containers_succeeded
kruise_containerrecreaterequest_containers_failed
kruise_containerrecreaterequest_pending
kruise_containerrecreaterequest_recreating
kruise_containerrecreaterequest_completed
kruise_daemonset_created
kruise_daemonset_status_condition condition status
kruise_daemonset_spec_strategy_rollingupdate_max_surge
kruise_daemonset_spec_strategy_partition partition
kruise_daemonset_spec_strategy_type strategy_type
kruise_daemonset_status_current_number_scheduled
kruise_daemonset_status_desired_number_scheduled
kruise_daemonset_status_number_available
kruise_daemonset_status_number_misscheduled
kruise_daemonset_status_number_ready
kruise_daemonset_status_number_unavailable
kruise_daemonset_status_observed_generation
kruise_daemonset_status_updated_number_scheduled
kruise_daemonset_metadata_generation
kruise_daemonset_annotations
kruise_daemonset_labels
kruise_sidecarset_created
kruise_sidecarset_status_replicas_matched
kruise_sidecarset_status_replicas_updated
kruise_sidecarset_status_replicas_ready
kruise_sidecarset_status_observed_generation
kruise_sidecarset_status_replicas_updated_ready
kruise_sidecarset_spec_namespcace namespace
kruise_sidecarset_spec_strategy_rollingupdate_max_unavailable
kruise_sidecarset_spec_strategy_partition partition
kruise_sidecarset_spec_strategy_type strategy_type
kruise_sidecarset_spec_metadata_generation
kruise_sidecarset_annotations
kruise_sidecarset_labels
kruise_sidecarset_spec_containers_injectpolicy injectpolicy
kruise_sidecarset_spec_containers_strategy_type strategy_type
kruise_sidecarset_spec_containers_strategy_hotupgradeemptyimage hotupgradeemptyimage
kruise_sidecarset_spec_containers_volumepolicy volumepolicy
kruise_statefulset_created
kruise_statefulset_status_replicas
kruise_statefulset_status_replicas_available
kruise_statefulset_status_replicas_current
kruise_statefulset_status_replicas_ready
kruise_statefulset_status_replicas_updated
kruise_statefulset_status_observed_generation
kruise_statefulset_status_condition condition status
kruise_statefulset_replicas
kruise_statefulset_metadata_generation
kruise_statefulset_spec_replicas
kruise_statefulset_spec_strategy_rollingupdate_max_unavailable
kruise_statefulset_spec_reserveordinals
kruise_statefulset_annotations
kruise_statefulset_labels
kruise_statefulset_status_current_revision revision
kruise_statefulset_status_update_revision revision
kruise_statefulset_spec_strategy_type strategy_type
kruise_workloadspread_created
kruise_workloadspread_status_subset_replicas replicas
kruise_workloadspread_status_subset_replicas_missing missingreplicas
kruise_workloadspread_metadata_generation
kruise_workloadspread_annotations
kruise_workloadspread_labels
kruise_workloadspread_spec_strategy_type strategy_type";
/// When the objects of these tests were created.
const CREATED: &str = "created 1767323045";

/// The metadata of these objects.
fn metadata() -> Value {
    json!({"namespace": "shop", "name": "web", "generation": 7, "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"}, "annotations": {"note": "1"}})
}

fn object<O: DeserializeOwned>(value: &Value) -> O {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// Its series, in their order.
fn series<O>(table: &Table<O>, object: &O) -> Vec<String> {
    let text = table.text(&[object]).unwrap();
    let series: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let distinct: BTreeSet<&str> = series.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(distinct.len(), series.len(), "{text}");
    series
}

/// Its series without what all of them have in front: the kind, the namespace and the name.
fn shown<O>(table: &Table<O>, object: &O) -> Vec<String> {
    let about = (table.about)(object);
    let label = format!("namespace=\"{}\",{}=\"{}\"", about.namespace, table.kind, about.name);
    let short = |line: &String| {
        let line = line.strip_prefix(&format!("kruise_{}_", table.kind)).unwrap();
        line.replace(&format!("{{{label}}}"), "").replace(&format!("{{{label},"), "{")
    };
    series(table, object).iter().map(short).collect()
}

/// A CloneSet in the middle of an update, with this strategy.
fn clone_set(strategy: &Value) -> api::kinds::cloneset::CloneSet {
    object(&json!({
        "metadata": metadata(),
        "spec": {"replicas": 10, "updateStrategy": strategy, "template": {"spec": {}}},
        "status": {
            "replicas": 11, "readyReplicas": 9, "availableReplicas": 8, "updatedReplicas": 4,
            "updatedReadyReplicas": 3, "observedGeneration": 6,
            "conditions": [{"type": "Progressing", "status": "True"}, {"type": "FailedScale", "status": "Unknown"}],
        },
    }))
}

#[test]
fn a_clone_set() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {
        "podUpdatePolicy": "InPlaceIfPossible", "partition": "25%", "maxUnavailable": "25%", "maxSurge": "5%"}});
    let expected = [
        CREATED,
        "metadata_generation 7",
        "annotations 1",
        "labels 1",
        "spec_replicas 10",
        r#"spec_strategy_type{strategy_type="ReCreate"} 0"#,
        r#"spec_strategy_type{strategy_type="InPlaceIfPossible"} 1"#,
        r#"spec_strategy_type{strategy_type="InPlaceOnly"} 0"#,
        r#"spec_strategy_type{strategy_type="OnDelete"} 0"#,
        r#"spec_strategy_partition{partition="25%"} 3"#,
        // Down, as the planner does where surge moves the update already.
        "spec_strategy_rollingupdate_max_unavailable 2",
        "spec_strategy_rollingupdate_max_surge 1",
        "status_replicas 11",
        "status_replicas_ready 9",
        "status_replicas_available 8",
        "status_replicas_unavailable 2",
        "status_replicas_updated 4",
        "status_replicas_updated_ready 3",
        "status_observed_generation 6",
        r#"status_condition{condition="Progressing",status="true"} 1"#,
        r#"status_condition{condition="Progressing",status="false"} 0"#,
        r#"status_condition{condition="Progressing",status="unknown"} 0"#,
        r#"status_condition{condition="FailedScale",status="true"} 0"#,
        r#"status_condition{condition="FailedScale",status="false"} 0"#,
        r#"status_condition{condition="FailedScale",status="unknown"} 1"#,
    ];
    assert_eq!(shown(&cloneset::TABLE, &clone_set(&strategy)), expected);
}

#[test]
fn what_a_clone_set_does_not_say_has_its_default() {
    let shown = shown(&cloneset::TABLE, &clone_set(&json!({"type": "OnDelete"})));
    for expected in [
        r#"spec_strategy_type{strategy_type="ReCreate"} 0"#,
        r#"spec_strategy_type{strategy_type="OnDelete"} 1"#,
        r#"spec_strategy_partition{partition="0"} 0"#,
        "spec_strategy_rollingupdate_max_unavailable 2",
        "spec_strategy_rollingupdate_max_surge 0",
    ] {
        assert!(shown.iter().any(|line| line == expected), "{expected}: {shown:#?}");
    }
}

fn stateful_set() -> api::kinds::statefulset::StatefulSet {
    object(&json!({
        "metadata": metadata(),
        "spec": {
            "replicas": 5, "reserveOrdinals": [1, "3-5", 1],
            "updateStrategy": {"rollingUpdate": {"partition": 9, "maxUnavailable": "50%"}},
        },
        "status": {
            "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1,
            "currentRevision": "web-a", "updateRevision": "web-b", "observedGeneration": 7,
            "conditions": [{"type": "FailedUpdatePod", "status": "False"}],
        },
    }))
}

#[test]
fn a_stateful_set() {
    let expected = [
        CREATED,
        "metadata_generation 7",
        "annotations 1",
        "labels 1",
        "replicas 5",
        "spec_replicas 5",
        r#"spec_reserveordinals{ordinal="1"} 1"#,
        r#"spec_reserveordinals{ordinal="3-5"} 3"#,
        r#"spec_strategy_type{strategy_type="RollingUpdate"} 1"#,
        r#"spec_strategy_partition{partition="9"} 5"#,
        "spec_strategy_rollingupdate_max_unavailable 2",
        "status_replicas 5",
        "status_replicas_ready 4",
        "status_replicas_available 3",
        "status_replicas_current 2",
        "status_replicas_updated 1",
        r#"status_current_revision{revision="web-a"} 1"#,
        r#"status_update_revision{revision="web-b"} 1"#,
        "status_observed_generation 7",
        r#"status_condition{condition="FailedUpdatePod",status="true"} 0"#,
        r#"status_condition{condition="FailedUpdatePod",status="false"} 1"#,
        r#"status_condition{condition="FailedUpdatePod",status="unknown"} 0"#,
    ];
    assert_eq!(shown(&statefulset::TABLE, &stateful_set()), expected);
}

fn daemon_set() -> api::kinds::daemonset::DaemonSet {
    object(&json!({
        "metadata": metadata(),
        "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": "25%", "maxSurge": "25%"}}},
        "status": {
            "desiredNumberScheduled": 10, "currentNumberScheduled": 9, "updatedNumberScheduled": 8,
            "numberReady": 7, "numberAvailable": 6, "numberUnavailable": 4, "numberMisscheduled": 1,
            "observedGeneration": 7, "conditions": [{"type": "Blocked", "status": "True"}],
        },
    }))
}

#[test]
fn a_daemon_set() {
    let expected = [
        CREATED,
        "metadata_generation 7",
        "annotations 1",
        "labels 1",
        r#"spec_strategy_type{strategy_type="OnDelete"} 1"#,
        r#"spec_strategy_partition{partition="25%"} 2"#,
        "spec_strategy_rollingupdate_max_surge 3",
        "status_desired_number_scheduled 10",
        "status_current_number_scheduled 9",
        "status_updated_number_scheduled 8",
        "status_number_misscheduled 1",
        "status_number_ready 7",
        "status_number_available 6",
        "status_number_unavailable 4",
        "status_observed_generation 7",
        r#"status_condition{condition="Blocked",status="true"} 1"#,
        r#"status_condition{condition="Blocked",status="false"} 0"#,
        r#"status_condition{condition="Blocked",status="unknown"} 0"#,
    ];
    assert_eq!(shown(&daemonset::TABLE, &daemon_set()), expected);
}

fn broadcast_job(spec: &Value) -> api::kinds::broadcastjob::BroadcastJob {
    object(&json!({
        "metadata": metadata(), "spec": spec,
        "status": {"desired": 10, "active": 3, "succeeded": 2, "conditions": [{"type": "Failed", "status": "True"}]},
    }))
}

#[test]
fn a_broadcast_job() {
    let job = broadcast_job(&json!({"parallelism": "25%",
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 30}}));
    let expected = [
        CREATED,
        "metadata_generation 7",
        "annotations 1",
        "labels 1",
        "spec_parallelism 3",
        r#"spec_strategy_type{strategy_type="Always"} 1"#,
        "spec_strategy_activedeadline_seconds 60",
        "spec_strategy_ttl_seconds 30",
        "status_desired 10",
        "status_active 3",
        "status_succeeded 2",
        "status_failed 0",
        r#"status_condition{condition="Failed",status="true"} 1"#,
        r#"status_condition{condition="Failed",status="false"} 0"#,
        r#"status_condition{condition="Failed",status="unknown"} 0"#,
    ];
    assert_eq!(shown(&broadcastjob::TABLE, &job), expected);
    // What has no limit says none.
    let shown = shown(&broadcastjob::TABLE, &broadcast_job(&json!({})));
    assert!(shown.iter().any(|line| line == "spec_parallelism 2147483647"), "{shown:#?}");
    assert!(!shown.iter().any(|line| line.contains("_seconds")), "{shown:#?}");
}

fn sidecar_set() -> api::sidecarset::SidecarSet {
    object(&json!({
        "metadata": metadata(),
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
            "updateStrategy": {"partition": "50%", "maxUnavailable": "20%"},
            "containers": [
                {"name": "log", "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "enabled"},
                    "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}},
                {"name": "mesh", "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"},
                    "upgradeStrategy": {"upgradeType": "ColdUpgrade"}},
            ],
        },
        "status": {"matchedPods": 9, "updatedPods": 4, "readyPods": 8, "updatedReadyPods": 3, "observedGeneration": 7},
    }))
}

#[test]
fn a_sidecar_set() {
    let expected = [
        CREATED,
        "spec_metadata_generation 7",
        "annotations 1",
        "labels 1",
        r#"spec_namespcace{sidecarset="web",namespace="shop"} 1"#,
        r#"spec_strategy_type{strategy_type="RollingUpdate"} 1"#,
        r#"spec_strategy_partition{partition="50%"} 5"#,
        "spec_strategy_rollingupdate_max_unavailable 2",
        r#"spec_containers_injectpolicy{injectpolicy="BeforeAppContainer",container="log"} 1"#,
        r#"spec_containers_injectpolicy{injectpolicy="BeforeAppContainer",container="mesh"} 1"#,
        r#"spec_containers_strategy_type{strategy_type="HotUpgrade",container="log"} 1"#,
        r#"spec_containers_strategy_type{strategy_type="ColdUpgrade",container="mesh"} 1"#,
        r#"spec_containers_strategy_hotupgradeemptyimage{hotupgradeemptyimage="empty:1",container="log"} 1"#,
        r#"spec_containers_strategy_hotupgradeemptyimage{hotupgradeemptyimage="",container="mesh"} 1"#,
        r#"spec_containers_volumepolicy{volumepolicy="enabled",container="log"} 1"#,
        r#"spec_containers_volumepolicy{volumepolicy="disabled",container="mesh"} 1"#,
        "status_replicas_matched 9",
        "status_replicas_updated 4",
        "status_replicas_ready 8",
        "status_replicas_updated_ready 3",
        "status_observed_generation 7",
    ];
    assert_eq!(shown(&sidecarset::TABLE, &sidecar_set()), expected);
    let first = series(&sidecarset::TABLE, &sidecar_set()).remove(0);
    assert_eq!(first, r#"kruise_sidecarset_created{namespace="",sidecarset="web"} 1767323045"#);
}

fn spread() -> api::kinds::workloadspread::WorkloadSpread {
    object(&json!({
        "metadata": metadata(), "spec": {"scheduleStrategy": {"type": "Adaptive"}},
        "status": {"subsetStatuses": [
            {"name": "zone-a", "replicas": 2, "missingReplicas": 1},
            {"name": "zone-b", "replicas": 2, "missingReplicas": -1},
        ]},
    }))
}

#[test]
fn a_workload_spread() {
    let expected = [
        CREATED,
        "metadata_generation 7",
        "annotations 1",
        "labels 1",
        r#"spec_strategy_type{strategy_type="Adaptive"} 1"#,
        r#"status_subset_replicas{replicas="2",subset="zone-a"} 2"#,
        r#"status_subset_replicas{replicas="2",subset="zone-b"} 2"#,
        r#"status_subset_replicas_missing{missingreplicas="1",subset="zone-a"} 1"#,
        r#"status_subset_replicas_missing{missingreplicas="-1",subset="zone-b"} -1"#,
    ];
    assert_eq!(shown(&workloadspread::TABLE, &spread()), expected);
}

fn recreate_request() -> api::kinds::containerrecreaterequest::ContainerRecreateRequest {
    let state = |name: &str, phase: &str| json!({"name": name, "phase": phase});
    object(&json!({
        "metadata": metadata(),
        "status": {"phase": "Recreating", "containerRecreateStates": [
            state("a", "Pending"), state("b", "Pending"), state("c", "Recreating"), state("d", "Failed")]},
    }))
}

#[test]
fn a_container_recreate_request() {
    let expected = [
        CREATED,
        "annotations 1",
        "labels 1",
        "pending 0",
        "recreating 1",
        "completed 0",
        "containers_pending 2",
        "containers_recreating 1",
        "containers_succeeded 0",
        "containers_failed 1",
    ];
    assert_eq!(shown(&containerrecreaterequest::TABLE, &recreate_request()), expected);
}

#[test]
fn a_united_deployment() {
    let united = object(&json!({
        "metadata": metadata(), "spec": {"replicas": 6},
        "status": {
            "replicas": 5, "readyReplicas": 4, "updatedReplicas": 3, "updatedReadyReplicas": 2, "observedGeneration": 7,
            "conditions": [{"type": "SubsetFailure", "status": "True"}, {"type": "SubsetUpdated"}],
        },
    }));
    let expected = [
        CREATED,
        "metadata_generation 7",
        "spec_replicas 6",
        "status_replicas 5",
        "status_replicas_ready 4",
        "status_replicas_updated 3",
        "status_replicas_updated_ready 2",
        "status_observed_generation 7",
        r#"status_condition{condition="SubsetFailure",status="true"} 1"#,
        r#"status_condition{condition="SubsetFailure",status="false"} 0"#,
        r#"status_condition{condition="SubsetFailure",status="unknown"} 0"#,
    ];
    assert_eq!(shown(&uniteddeployment::TABLE, &united), expected);
}

#[test]
fn a_pod_unavailable_budget() {
    let budget = object(&json!({
        "metadata": metadata(),
        "status": {"totalReplicas": 5, "desiredAvailable": 4, "currentAvailable": 3, "observedGeneration": 6},
    }));
    let expected = [
        CREATED,
        "metadata_generation 7",
        "status_total_replicas 5",
        "status_desired_available 4",
        "status_current_available 3",
        "status_unavailable_allowed 0",
        "status_observed_generation 6",
    ];
    assert_eq!(shown(&podunavailablebudget::TABLE, &budget), expected);
}

#[test]
fn an_image_pull_job() {
    let job = object(&json!({"metadata": metadata(), "status": {"desired": 5, "active": 2, "succeeded": 3}}));
    let expected = [
        CREATED,
        "metadata_generation 7",
        "status_desired 5",
        "status_active 2",
        "status_succeeded 3",
        "status_failed 0",
    ];
    assert_eq!(shown(&imagepulljob::TABLE, &job), expected);
}

#[test]
fn an_advanced_cron_job() {
    let status = json!({"active": [{"name": "a"}], "lastScheduleTime": "2026-01-02T03:04:00Z"});
    let job = object(&json!({"metadata": metadata(), "status": status}));
    let expected =
        [CREATED, "metadata_generation 7", "status_active 1", "status_last_schedule_time 1767323040"];
    assert_eq!(shown(&advancedcronjob::TABLE, &job), expected);
    let job = object(&json!({"metadata": metadata()}));
    assert_eq!(shown(&advancedcronjob::TABLE, &job), [CREATED, "metadata_generation 7", "status_active 0"]);
}

#[test]
fn a_resource_distribution() {
    let distribution = kinds::resourcedistribution::Distribution::read(
        &json!({
            "metadata": metadata(),
            "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}, "targets": {}},
            "status": {"desired": 3, "succeeded": 2, "failed": 1, "observedGeneration": 7,
                "conditions": [{"type": "ConflictOccurred", "status": "False"}]},
        })
        .to_string(),
    );
    let expected = [
        "metadata_generation 7",
        "status_desired 3",
        "status_succeeded 2",
        "status_failed 1",
        "status_observed_generation 7",
        r#"status_condition{condition="ConflictOccurred",status="true"} 0"#,
        r#"status_condition{condition="ConflictOccurred",status="false"} 1"#,
        r#"status_condition{condition="ConflictOccurred",status="unknown"} 0"#,
    ];
    assert_eq!(shown(&resourcedistribution::TABLE, &distribution.unwrap()), expected);
}

#[test]
fn a_persistent_pod_state() {
    let status = json!({"observedGeneration": 7, "podStates": {"web-0": {}, "web-1": {}}});
    let state = object(&json!({"metadata": metadata(), "status": status}));
    let expected = [CREATED, "metadata_generation 7", "status_pod_states 2", "status_observed_generation 7"];
    assert_eq!(shown(&persistentpodstate::TABLE, &state), expected);
}

/// What dashboards and alerts query.
#[test]
fn every_name_of_the_exporter_is_there_with_its_labels() {
    let job = broadcast_job(&json!({"completionPolicy":
        {"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 30}}));
    let shown = [
        series(&broadcastjob::TABLE, &job),
        series(&cloneset::TABLE, &clone_set(&json!({}))),
        series(&containerrecreaterequest::TABLE, &recreate_request()),
        series(&daemonset::TABLE, &daemon_set()),
        series(&sidecarset::TABLE, &sidecar_set()),
        series(&statefulset::TABLE, &stateful_set()),
        series(&workloadspread::TABLE, &spread()),
    ]
    .concat();
    for line in NAMES.lines() {
        let (name, further) = line.split_once(' ').unwrap_or((line, ""));
        let kind = name.split('_').nth(1).unwrap();
        let mut of_name = shown.iter().filter(|series| series.starts_with(&format!("{name}{{"))).peekable();
        assert!(of_name.peek().is_some(), "{name}");
        for series in of_name {
            for label in further.split_whitespace().chain(["namespace", kind]) {
                let is_there = [format!("{{{label}=\""), format!(",{label}=\"")];
                assert!(is_there.iter().any(|text| series.contains(text)), "{label}: {series}");
            }
        }
    }
    let is_known = |name: &str| NAMES.lines().any(|line| line.split(' ').next() == Some(name));
    let further: BTreeSet<&str> = shown.iter().filter_map(|series| series.split('{').next()).collect();
    let ours: Vec<&str> = further.into_iter().filter(|name| !is_known(name)).collect();
    assert_eq!(ours, ["kruise_statefulset_spec_strategy_partition"], "what the exporter does not have");
}

#[test]
fn help_and_type_stand_above_the_series_of_all_objects() {
    let first = clone_set(&json!({}));
    let mut second = first.clone();
    second.metadata.name = "back\\slash \"quoted\"\nline".to_owned();
    second.metadata.creation_timestamp = None;
    let text = cloneset::TABLE.text(&[&first, &second]).unwrap();
    let expected = r#"# HELP kruise_cloneset_created When the object was created, in seconds since 1970.
# TYPE kruise_cloneset_created gauge
kruise_cloneset_created{namespace="shop",cloneset="web"} 1767323045
# HELP kruise_cloneset_metadata_generation The generation of the object, which grows with every change of its spec.
# TYPE kruise_cloneset_metadata_generation gauge
kruise_cloneset_metadata_generation{namespace="shop",cloneset="web"} 7
kruise_cloneset_metadata_generation{namespace="shop",cloneset="back\\slash \"quoted\"\nline"} 7
"#;
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(cloneset::TABLE.text(&[]).unwrap(), "");
}

#[test]
fn kinds_are_named_in_small_letters() {
    assert_eq!(ShownKinds::parse(""), Ok(ShownKinds::default()));
    let kinds = ShownKinds::parse("statefulset, cloneset,,cloneset").unwrap();
    assert_eq!(kinds, ShownKinds(["cloneset", "statefulset"].into()));
    let error = ShownKinds::parse("cloneset,CloneSet").unwrap_err().to_string();
    assert!(
        error.contains("\"CloneSet\"") && error.contains("cloneset, containerrecreaterequest"),
        "{error}"
    );
}

#[test]
fn only_kinds_that_are_named_are_shown_and_only_while_their_store_is_there() {
    let metrics = ObjectMetrics::of(ShownKinds::parse("cloneset").unwrap());
    let store = Arc::new(vec![Arc::new(clone_set(&json!({})))]);
    metrics.show(&cloneset::TABLE, &store, |store| store.clone(), |set| set);
    let others = Arc::new(vec![Arc::new(daemon_set())]);
    metrics.show(&daemonset::TABLE, &others, |store| store.clone(), |set| set);
    let text = metrics.text().unwrap();
    assert!(text.contains("kruise_cloneset_spec_replicas{") && !text.contains("daemonset"), "{text}");

    let next = Arc::new(vec![Arc::new(clone_set(&json!({})))]);
    metrics.show(&cloneset::TABLE, &next, |store| store.clone(), |set| set);
    drop(store);
    assert_eq!(metrics.text().unwrap(), text, "controllers that start again show each object once");
    drop(next);
    assert_eq!(metrics.text().unwrap(), "");
}
