use super::*;
use crate::workload::revision::{Author, StoredRevision};

/// The spec of docs/behaviour/pod-mutation.md#examples-of-injection, keys in the order a user writes, an
/// unknown strategy field beside them.
const SPEC: &str = r#"{"updateStrategy":{"type":"RollingUpdate"},"volumes":[{"name":"spool","emptyDir":{}},{"name":"unused","emptyDir":{}}],"imagePullSecrets":[{"name":"regcred"}],"containers":[{"name":"shipper","image":"registry.example.com/shipper:1.4.0","env":[{"name":"LEVEL","value":"info"}],"volumeMounts":[{"name":"spool","mountPath":"/var/spool"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"enabled"},"transferEnv":[{"sourceContainerName":"shop","envName":"SHOP_REGION"}]}],"initContainers":[{"name":"prep-logs","image":"registry.example.com/prep:2.0","command":["sh","-c","mkdir -p /logs/a && ls /logs > /logs/b"],"volumeMounts":[{"name":"spool","mountPath":"/logs"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#;

/// The data a running reference stored for it (docs/behaviour/sidecarset.md#revisions).
const DATA: &str = r#"{"spec":{"$patch":"replace","containers":[{"env":[{"name":"LEVEL","value":"info"}],"image":"registry.example.com/shipper:1.4.0","imagePullPolicy":"IfNotPresent","name":"shipper","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"enabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","transferEnv":[{"envName":"SHOP_REGION","sourceContainerName":"shop"}],"upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/var/spool","name":"spool"}]}],"imagePullSecrets":[{"name":"regcred"}],"initContainers":[{"command":["sh","-c","mkdir -p /logs/a \u0026\u0026 ls /logs \u003e /logs/b"],"image":"registry.example.com/prep:2.0","imagePullPolicy":"IfNotPresent","name":"prep-logs","podInjectPolicy":"AfterAppContainer","resources":{},"shareVolumePolicy":{"type":"disabled"},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"volumeMounts":[{"mountPath":"/logs","name":"spool"}]}],"patchPodMetadata":null,"volumes":[{"emptyDir":{},"name":"spool"},{"emptyDir":{},"name":"unused"}]}}"#;

fn revision(spec: &str) -> RevisionData {
    data_of_spec(spec).unwrap()
}

/// A stored revision with this data.
fn stored(data: &str, author: Author) -> StoredRevision {
    let mark = if author == Author::Kutter { "true" } else { "" };
    let metadata = format!(r#"{{"annotations":{{"kutter.io/whole-template":"{mark}"}}}}"#);
    StoredRevision::read(&format!(r#"{{"metadata":{metadata},"data":{data}}}"#)).unwrap()
}

#[test]
fn data_and_name_are_those_of_the_reference() {
    assert_eq!(revision(SPEC).data(), DATA);
    assert_eq!(revision(SPEC).name("logship", 0), "logship-64769cc7c5");
    let newer = SPEC.replace("shipper:1.4.0", "shipper:1.5.0");
    assert_eq!(revision(&newer).name("logship", 0), "logship-6cf6fbbbcb");
    assert_ne!(revision(SPEC).hash(0), revision(SPEC).hash(1));
}

#[test]
fn unknown_fields_are_kept_in_the_data_and_left_out_of_the_name() {
    let extended =
        revision(&SPEC.replace(r#""name":"shipper""#, r#""name":"shipper","future":{"b":1.50,"a":[]}"#));
    assert!(extended.data().contains(r#""future":{"a":[],"b":1.50},"image""#));
    assert_eq!(extended.hash(0), revision(SPEC).hash(0));
}

#[test]
fn empty_fields_are_null() {
    let expected = r#"{"spec":{"$patch":"replace","containers":null,"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":null,"volumes":null}}"#;
    assert_eq!(revision("{}").data(), expected);
    assert_eq!(revision(r#"{"containers":[],"volumes":null}"#).data(), expected);
}

#[test]
fn annotations_to_patch_are_part_of_the_data() {
    let spec = r#"{"patchPodMetadata":[{"patchPolicy":"Retain","annotations":{"b":"2","a":"1"}}]}"#;
    let expected = r#"{"spec":{"$patch":"replace","containers":null,"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":[{"annotations":{"a":"1","b":"2"},"patchPolicy":"Retain"}],"volumes":null}}"#;
    assert_eq!(revision(spec).data(), expected);
    assert_ne!(revision(spec).hash(0), revision(&spec.replace('2', "3")).hash(0));
    assert!(revision(spec).means_the_same_as(&stored(expected, Author::OpenKruise)));
    let invalid = r#"{"patchPodMetadata":[{"annotations":["a"]}]}"#;
    assert!(data_of_spec(invalid).is_err());
}

#[test]
fn large_integers_are_exact_in_the_data_and_rounded_in_the_name() {
    let with = |user: &str| {
        revision(&format!(r#"{{"containers":[{{"name":"a","securityContext":{{"runAsUser":{user}}}}}]}}"#))
    };
    assert!(with("9007199254740993").data().contains("9007199254740993"));
    assert_eq!(with("9007199254740993").hash(0), with("9007199254740992").hash(0));
}

#[test]
fn revision_of_the_reference_is_compared_by_what_it_can_hold() {
    let extended = revision(&SPEC.replace(r#""name":"shipper""#, r#""name":"shipper","future":1"#));
    assert!(extended.means_the_same_as(&stored(DATA, Author::OpenKruise)));
    assert!(!extended.means_the_same_as(&stored(DATA, Author::Kutter)));
    assert!(!extended.means_the_same_as(&stored(&DATA.replace("1.4.0", "1.5.0"), Author::OpenKruise)));
}

#[test]
fn notation_does_not_make_a_revision_differ() {
    let respelt = DATA.replace(r#""resources":{},"#, "").replace(r#","patchPodMetadata":null"#, "");
    for author in [Author::Kutter, Author::OpenKruise] {
        assert!(revision(SPEC).means_the_same_as(&stored(&respelt, author)));
        assert!(!revision(SPEC).means_the_same_as(&stored("[]", author)));
        assert!(!revision(SPEC).means_the_same_as(&stored(r#"{"spec":7}"#, author)));
    }
    let without_source = DATA.replace(r#"{"emptyDir":{},"name":"unused"}"#, r#"{"name":"unused"}"#);
    assert!(!revision(SPEC).means_the_same_as(&stored(&without_source, Author::OpenKruise)));
}

#[test]
fn restored_spec_makes_the_same_revision() {
    let spec = restored_spec(DATA).unwrap();
    assert!(!spec.get().contains("$patch") && !spec.get().contains("patchPodMetadata"));
    assert_eq!(revision(spec.get()).data(), DATA);
    assert!(restored_spec("[]").is_err());
}

#[test]
fn long_owner_names_are_cut() {
    let name = revision("{}").name(&"a".repeat(250), 0);
    assert_eq!(name.len(), 223 + 1 + revision("{}").hash(0).len());
}
