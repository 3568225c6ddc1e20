//! The JSON of annotations, letter by letter.

use super::*;

fn state(text: &str) -> State {
    let state: State = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&state).unwrap(), text);
    state
}

#[test]
fn examples_of_the_state_are_read_and_written_alike() {
    let simple = state(
        r#"{"revision":"demo-788944f45","updateTimestamp":"2026-05-01T08:00:00Z","lastContainerStatuses":{"main":{"imageID":"docker.io/library/nginx@sha256:aa"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2026-05-01T08:00:00Z","containers":["main"]}]}"#,
    );
    assert_eq!(simple.update_timestamp.0, now());
    let between = state(
        r#"{"revision":"demo-788944f45","updateTimestamp":"2026-05-01T08:00:00Z","lastContainerStatuses":null,"updateEnvFromMetadata":true,"updateImages":true,"nextContainerImages":{"main":"app:v2"},"preCheckBeforeNext":{"containersRequiredReady":["sidecar"]},"containerBatchesRecord":[{"timestamp":"2026-05-01T08:00:00Z","containers":["sidecar"]}]}"#,
    );
    assert!(between.has_next());
    state(
        r#"{"revision":"demo-788944f45","updateTimestamp":"2026-05-01T08:00:00Z","lastContainerStatuses":null,"containerBatchesRecord":[{"timestamp":"2026-05-01T08:00:00Z","containers":[]}]}"#,
    );
    state(
        r#"{"revision":"a","updateTimestamp":"2026-05-01T08:00:00Z","lastContainerStatuses":null,"updateResources":true,"nextContainerRefMetadata":{"a":{"creationTimestamp":null,"labels":{"k":"v"},"annotations":{"k":"v"}}},"nextContainerResources":{"a":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}}"#,
    );
}

#[test]
fn times_of_other_zones_and_null_are_read() {
    let read = |text: &str| serde_json::from_str::<Seconds>(text).map(|seconds| seconds.0);
    assert_eq!(read(r#""2026-05-01T10:00:00+02:00""#).unwrap(), now());
    assert_eq!(read("null").unwrap(), Timestamp::UNIX_EPOCH);
    assert!(read(r#""yesterday""#).is_err());
}

#[test]
fn a_waiting_change_is_written_as_the_reference_writes_it() {
    let text = r#"{"revision":"demo-788944f45","containerImages":{"main":"nginx:1.26"},"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsidiI6IjIifX19","graceSeconds":10}"#;
    let spec: UpdateSpec = serde_json::from_str(text).unwrap();
    assert_eq!(spec.metadata_patch.clone().unwrap().labels, [("v".to_owned(), Some("2".to_owned()))].into());
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    let empty = UpdateSpec { metadata_patch: Some(MetadataPatch::default()), ..UpdateSpec::default() };
    assert_eq!(serde_json::to_string(&empty).unwrap(), r#"{"revision":"","metaDataPatch":"e30="}"#);
    let mut full = MetadataPatch::default();
    full.labels.insert("gone".to_owned(), None);
    full.finalizers.push("x/y".to_owned());
    full.removed_finalizers.push("x/z".to_owned());
    let spec =
        UpdateSpec { metadata_patch: Some(full), update_env_from_metadata: true, ..UpdateSpec::default() };
    assert_eq!(serde_json::from_str::<UpdateSpec>(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
}

#[test]
fn what_a_waiting_change_has_beside_is_ignored() {
    // {"metadata":{"$setElementOrder/finalizers":["a"],"finalizers":["a"],"labels":null}}
    let text = r#"{"revision":"a","metaDataPatch":"eyJtZXRhZGF0YSI6eyIkc2V0RWxlbWVudE9yZGVyL2ZpbmFsaXplcnMiOlsiYSJdLCJmaW5hbGl6ZXJzIjpbImEiXSwibGFiZWxzIjpudWxsfX0=","containerImages":null,"oldTemplate":{"spec":{}},"newTemplate":null}"#;
    let spec: UpdateSpec = serde_json::from_str(text).unwrap();
    let patch = MetadataPatch { finalizers: vec!["a".to_owned()], ..MetadataPatch::default() };
    assert_eq!(
        spec,
        UpdateSpec { revision: "a".to_owned(), metadata_patch: Some(patch), ..UpdateSpec::default() }
    );
    assert!(serde_json::from_str::<UpdateSpec>(r#"{"metaDataPatch":"???"}"#).is_err());
}
