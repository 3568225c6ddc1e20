use super::*;
use api::annotations::{SIDECARSET_HASH, WHOLE_TEMPLATE};
use serde_json::json;

use crate::workload::revision::NewRevision;

/// A SidecarSet with one container of this image; `more` is added to its spec.
fn set(image: &str, more: &str) -> RolloutSet {
    let json = format!(
        r#"{{"metadata":{{"name":"web","uid":"u","labels":{{"team":"a"}},
            "annotations":{{"kruise.io/sidecarset-hash":"h","kubectl.kubernetes.io/last-applied-configuration":"{{}}"}}}},
          "spec":{{"containers":[{{"name":"c","image":"{image}"}}]{more}}}}}"#
    );
    RolloutSet::read(&json).unwrap()
}

/// The revision that a registration creates.
fn created(registration: &Registration) -> &NewRevision {
    let Some(RevisionStep::Create(revision)) = &registration.step else {
        panic!("nothing is created: {registration:?}")
    };
    assert_eq!(registration.latest, revision.name);
    revision
}

/// The patch of a registration, and the name of the revision that it is for.
fn patched(registration: &Registration) -> (&str, &str) {
    let Some(RevisionStep::Patch { revision, patch }) = &registration.step else {
        panic!("nothing is patched: {registration:?}")
    };
    (&revision.name, patch)
}

/// Whether the current revision is stored already.
fn is_stored(registration: &Registration) -> bool {
    !matches!(registration.step, Some(RevisionStep::Create(_)))
}

/// The revision as it is stored after a registration created it.
fn stored(registration: &Registration, resource_version: &str) -> StoredRevision {
    let revision = created(registration);
    let metadata =
        format!(r#""metadata":{{"uid":"uid-{}","resourceVersion":"{resource_version}","#, revision.name);
    StoredRevision::read(&revision.to_json().replace(r#""metadata":{"#, &metadata)).unwrap()
}

fn register(set: &RolloutSet, stored: &[StoredRevision], pods: &[Arc<ObservedPod>]) -> Registration {
    plan(set, stored, pods, "kruise-system").unwrap().unwrap()
}

/// The revisions of images 1, 2, ... in their order.
fn history(images: u32) -> Vec<StoredRevision> {
    let mut history = Vec::new();
    for image in 1..=images {
        let registration = register(&set(&format!("i:{image}"), ""), &history, &[]);
        history.push(stored(&registration, "1"));
    }
    history
}

fn names(keys: &[ObjectVersion]) -> Vec<&str> {
    keys.iter().map(|key| key.name.as_str()).collect()
}

#[test]
fn the_first_revision_of_the_example_is_that_of_the_reference() {
    let json = r#"{"metadata":{"name":"logship","uid":"u1","labels":{"team":"a"},"annotations":{"kruise.io/sidecarset-hash":"h1",
        "kruise.io/sidecarset-hash-without-image":"h2","kubectl.kubernetes.io/last-applied-configuration":"{}"}},
        "spec":{"customVersion":"v1","selector":{"matchLabels":{"tier":"web"}},"volumes":[{"name":"spool","emptyDir":{}},{"name":"unused","emptyDir":{}}],
        "imagePullSecrets":[{"name":"regcred"}],
        "containers":[{"name":"shipper","image":"registry.example.com/shipper:1.4.0","env":[{"name":"LEVEL","value":"info"}],"resources":{},
          "volumeMounts":[{"name":"spool","mountPath":"/var/spool"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
          "imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},
          "shareVolumePolicy":{"type":"enabled"},"transferEnv":[{"sourceContainerName":"shop","envName":"SHOP_REGION"}]}],
        "initContainers":[{"name":"prep-logs","image":"registry.example.com/prep:2.0","command":["sh","-c","mkdir -p /logs/a && ls /logs > /logs/b"],"resources":{},
          "volumeMounts":[{"name":"spool","mountPath":"/logs"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
          "imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}}"#;
    let registration = register(&RolloutSet::read(json).unwrap(), &[], &[]);
    assert_eq!(registration.latest, "logship-64769cc7c5");
    assert!(registration.obsolete.is_empty());
    let revision = created(&registration);
    assert_eq!(revision.collision_count, 0);
    let object = revision.to_json();
    let head = concat!(
        r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"logship-64769cc7c5","namespace":"kruise-system","#,
        r#""labels":{"apps.kruise.io/sidecarset-custom-version":"v1","controller.kubernetes.io/hash":"64769cc7c5","kruise.io/sidecarset-name":"logship","team":"a"},"#,
        r#""annotations":{"kruise.io/sidecarset-hash":"h1","kruise.io/sidecarset-hash-without-image":"h2","kutter.io/whole-template":"true"},"#,
        r#""ownerReferences":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","name":"logship","uid":"u1","controller":true,"blockOwnerDeletion":true}]},"#,
        r#""data":{"spec":{"$patch":"replace","containers":[{"env":"#
    );
    assert!(object.starts_with(head), "{object}");
    assert!(object.ends_with(r#","revision":1}"#), "{object}");
}

#[test]
fn an_image_change_and_back_leaves_two_revisions_the_first_with_number_3() {
    let history = history(2);
    assert_eq!((history[0].revision, history[1].revision), (1, 2));
    let back = register(&set("i:1", ""), &history, &[]);
    assert_eq!(back.latest, history[0].name());
    let (name, patch) = patched(&back);
    assert_eq!(name, history[0].name());
    let expected =
        format!(r#"{{"metadata":{{"uid":"uid-{}","resourceVersion":"1"}},"revision":3}}"#, history[0].name());
    assert_eq!(patch, expected);
}

#[test]
fn the_newest_revision_is_left_alone_in_whatever_order_it_is_listed() {
    let mut history = history(3);
    history.reverse();
    let again = register(&set("i:3", ""), &history, &[]);
    assert_eq!(again.latest, history[0].name());
    assert!(again.step.is_none() && again.obsolete.is_empty());
}

#[test]
fn a_revision_of_openkruise_is_current_though_it_lacks_what_it_does_not_know() {
    let future = set("i:1", "");
    let mut theirs = stored(&register(&future, &[], &[]), "1");
    theirs.metadata.annotations.remove(WHOLE_TEMPLATE);
    let json = r#"{"metadata":{"name":"web","uid":"u"},"spec":{"containers":[{"name":"c","image":"i:1","future":1}]}}"#;
    let extended = RolloutSet::read(json).unwrap();
    let registration = register(&extended, &[theirs.clone()], &[]);
    assert!(is_stored(&registration) && registration.latest == theirs.name());
    theirs.metadata.annotations.insert(WHOLE_TEMPLATE.to_owned(), "true".to_owned());
    assert!(!is_stored(&register(&extended, &[theirs], &[])));
}

#[test]
fn revisions_of_another_owner_do_not_count() {
    let mut other = history(1);
    other[0].metadata.owner_references[0].uid = "another".to_owned();
    assert!(!is_stored(&register(&set("i:1", ""), &other, &[])));
    other[0].metadata.owner_references.clear();
    assert!(is_stored(&register(&set("i:1", ""), &other, &[])));
}

#[test]
fn a_taken_name_is_used_if_it_means_the_same_and_else_counted() {
    let registration = register(&set("i:1", ""), &[], &[]);
    let wanted = created(&registration);
    let same = stored(&register(&set("i:1", ""), &[], &[]), "1");
    assert_eq!(wanted.after_collision(&same), None);
    let other = stored(&register(&set("i:2", ""), &[], &[]), "1");
    let next = wanted.after_collision(&other).unwrap();
    assert_eq!(next.collision_count, 1);
    assert_ne!(next.name, wanted.name);
    let hash = |revision: &NewRevision| {
        StoredRevision::read(&revision.to_json()).unwrap().metadata.labels[CONTROLLER_HASH].clone()
    };
    assert_eq!(hash(&next), hash(wanted));
    assert!(wanted.name.ends_with(&hash(wanted)) && !next.name.ends_with(&hash(wanted)));
}

#[test]
fn a_new_custom_version_is_put_on_the_current_revision() {
    let history = history(1);
    let named = register(&set("i:1", r#","customVersion":"v7""#), &history, &[]);
    let (_, json) = patched(&named);
    assert!(json.ends_with(r#""labels":{"apps.kruise.io/sidecarset-custom-version":"v7"}}}"#), "{json}");
    let mut labelled = history;
    labelled[0].metadata.labels.insert(SIDECARSET_CUSTOM_VERSION.to_owned(), "v7".to_owned());
    assert!(register(&set("i:1", r#","customVersion":"v7""#), &labelled, &[]).step.is_none());
    assert!(register(&set("i:1", ""), &labelled, &[]).step.is_none(), "a version that is not given stays");
}

#[test]
fn the_oldest_go_first_and_those_in_use_stay() {
    let history = history(5);
    let limited = |more: &str| set("i:6", &format!(r#","revisionHistoryLimit":2{more}"#));
    let all: Vec<&str> = history.iter().map(StoredRevision::name).collect();
    assert_eq!(names(&register(&limited(""), &history, &[]).obsolete), all[..4]);
    let pod = format!(
        r#"{{"metadata":{{"annotations":{{"kruise.io/sidecarset-hash":"{{\"web\":{{\"hash\":\"h\",\"controllerRevision\":\"{}\"}}}}"}}}}}}"#,
        all[1]
    );
    let pods = [Arc::new(ObservedPod::read(&pod).unwrap())];
    assert_eq!(names(&register(&limited(""), &history, &pods).obsolete), [all[0], all[2], all[3], all[4]]);
    let pinned = limited(&format!(r#","injectionStrategy":{{"revision":{{"revisionName":"{}"}}}}"#, all[0]));
    assert_eq!(names(&register(&pinned, &history, &pods).obsolete), [all[2], all[3], all[4]]);
    let mut labelled = history.clone();
    for revision in &mut labelled[..3] {
        revision.metadata.labels.insert(SIDECARSET_CUSTOM_VERSION.to_owned(), "v1".to_owned());
    }
    let pinned = limited(r#","injectionStrategy":{"revision":{"customVersion":"v1"}}"#);
    assert_eq!(
        names(&register(&pinned, &labelled, &[]).obsolete),
        [all[0], all[1], all[3], all[4]],
        "the newest of the version stays"
    );
}

#[test]
fn a_pod_that_came_before_its_revision_keeps_the_one_with_its_hash() {
    let mut history = history(5);
    for (revision, hash) in history.iter_mut().zip(["h1", "h2", "h2", "h3", ""]) {
        revision.metadata.annotations.insert(SIDECARSET_HASH.to_owned(), hash.to_owned());
    }
    let all: Vec<&str> = history.iter().map(StoredRevision::name).collect();
    let obsolete = |entry: &str| {
        let pod = json!({"metadata": {"annotations": {SIDECARSET_HASH: format!(r#"{{"web":{entry}}}"#)}}});
        let pods = [Arc::new(ObservedPod::read(&pod.to_string()).unwrap())];
        let limited = set("i:6", r#","revisionHistoryLimit":2"#);
        names(&register(&limited, &history, &pods).obsolete).join(" ")
    };
    let kept = |number: usize| {
        let others = all.iter().enumerate().filter(|(index, _)| *index != number);
        others.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(obsolete(r#"{"hash":"h1"}"#), kept(0), "it names no revision");
    assert_eq!(obsolete(r#"{"hash":"h2"}"#), kept(2), "the newest with its hash");
    assert_eq!(obsolete(r#""h1""#), kept(0), "a plain hash");
    let naming = |hash: &str, number: usize| {
        obsolete(&format!(r#"{{"hash":"{hash}","controllerRevision":"{}"}}"#, all[number]))
    };
    assert_eq!(naming("h2", 1), kept(1), "the one that it names has its hash");
    assert_eq!(naming("h3", 1), kept(3), "it names the one before its own");
    assert_eq!(naming("unknown", 1), kept(1), "no other has its hash");
    assert_eq!(naming("h2", 4), kept(4), "the one that it names records no hash");
}

#[test]
fn one_revision_is_kept_whatever_the_limit_and_ten_by_default() {
    let history = history(12);
    let newest = register(&set("i:12", r#","revisionHistoryLimit":0"#), &history, &[]);
    assert_eq!(newest.obsolete.len(), 11);
    assert!(!names(&newest.obsolete).contains(&newest.latest.as_str()));
    assert_eq!(register(&set("i:12", ""), &history, &[]).obsolete.len(), 2);
    let rolled_back = register(&set("i:1", r#","revisionHistoryLimit":-1"#), &history, &[]);
    assert!(
        !names(&rolled_back.obsolete).contains(&rolled_back.latest.as_str()),
        "the one that becomes current stays"
    );
}

#[test]
fn nothing_is_written_for_a_sidecarset_that_is_being_deleted() {
    let json =
        r#"{"metadata":{"name":"web","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[]}}"#;
    assert_eq!(plan(&RolloutSet::read(json).unwrap(), &[], &[], "kruise-system").unwrap(), None);
}
