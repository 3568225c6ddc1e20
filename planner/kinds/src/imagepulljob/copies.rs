//! Pull Secrets: agents of nodes may read Secrets in one namespace only, so jobs copy theirs there
//! (docs/behaviour/images.md#pull-secrets).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::annotations::{LAST_APPLIED, PULL_SECRET_MODE, PULL_SECRET_REFERENCES, PULL_SECRET_SOURCE};
use api::kinds::nodeimage::PullSecret;
use api::kinds::{Object, ObjectMeta};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Job;
use crate::workload::object_version::ObjectVersion;
use values::moment::Moment;

/// The mode of copies that several jobs may share.
const BATCH: &str = "batch";

/// A Secret in the namespace that the agents read, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// Name, identity and version.
    pub observed: ObjectVersion,
    /// The namespace.
    pub namespace: String,
    /// Namespace and name of the Secret that it is a copy of; empty where it is none.
    pub source: String,
    /// The jobs that use it.
    pub users: BTreeSet<String>,
    /// How references name it.
    pub mode: String,
    /// Its deletion was asked for.
    pub deleting: bool,
}

impl Copy {
    /// Reads the metadata of a Secret.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let object: Object<Option<IgnoredAny>, Option<IgnoredAny>> = serde_json::from_str(json)?;
        let observed = ObjectVersion::object(&object.metadata);
        let ObjectMeta { namespace, mut annotations, deletion_timestamp, .. } = object.metadata;
        let mut take = |key: &str| annotations.remove(key).unwrap_or_default();
        let users = take(PULL_SECRET_REFERENCES);
        let users =
            users.split(',').map(str::trim).filter(|user| !user.is_empty()).map(str::to_owned).collect();
        Ok(Self {
            observed,
            namespace,
            source: take(PULL_SECRET_SOURCE),
            users,
            mode: take(PULL_SECRET_MODE),
            deleting: deletion_timestamp.is_some(),
        })
    }

    /// Namespace and name in one word.
    pub fn word(&self) -> String {
        format!("{}/{}", self.namespace, self.observed.name)
    }

    /// How a NodeImage names it.
    pub fn reference(&self) -> PullSecret {
        PullSecret {
            mode: self.mode.clone(),
            name: self.observed.name.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

/// The key of a Secret of the job.
pub fn source(job: &Job, name: &str) -> String {
    format!("{}/{name}", job.object.metadata.namespace)
}

/// The copy that a job uses for a source: one that it uses already, else any.
pub fn choose<'c>(job: &Job, source: &str, copies: &'c [Arc<Copy>]) -> Option<&'c Arc<Copy>> {
    let user = job.word();
    let mut usable: Vec<&Arc<Copy>> =
        copies.iter().filter(|copy| copy.source == source && !copy.deleting).collect();
    usable.sort_by_key(|copy| (!copy.users.contains(&user), &copy.observed.name));
    usable.first().copied()
}

/// The reference to a Secret of a job that is in the namespace of the agents itself.
pub fn own_reference(job: &Job, name: &str) -> PullSecret {
    PullSecret {
        mode: String::new(),
        name: name.to_owned(),
        namespace: job.object.metadata.namespace.clone(),
    }
}

/// What becomes of a copy that a job does not use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nobody uses it: it is deleted.
    Delete,
    /// Others use it: it is patched.
    Patch(String),
}

/// Takes a job out of the users of a copy.
pub fn release(copy: &Copy, job: &Job) -> Release {
    let mut users = copy.users.clone();
    users.remove(&job.word());
    if users.is_empty() { Release::Delete } else { Release::Patch(patch(copy, &users, None)) }
}

/// A Secret as the API server gives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Secret {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
    #[serde(rename = "type")]
    kind: String,
}

/// The copy of a Secret, for a job. It is never immutable, since it follows its source.
///
/// # Errors
/// The text is no Secret.
pub fn create(job: &Job, source: &str, namespace: &str, moment: Moment) -> Result<String, serde_json::Error> {
    let Secret { metadata, data, kind } = serde_json::from_str(source)?;
    let mut annotations = metadata.annotations;
    // The old content must not live on in copies.
    annotations.remove(LAST_APPLIED);
    annotations.insert(PULL_SECRET_SOURCE.to_owned(), format!("{}/{}", metadata.namespace, metadata.name));
    annotations.insert(PULL_SECRET_REFERENCES.to_owned(), job.word());
    annotations.insert(PULL_SECRET_MODE.to_owned(), BATCH.to_owned());
    let name = format!("{}-{:06x}", metadata.name, moment.random().next_u64() & 0x00ff_ffff);
    let metadata =
        json!({"name": name, "namespace": namespace, "labels": metadata.labels, "annotations": annotations});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind,
        "data": data.unwrap_or_default(),
    });
    Ok(secret.to_string())
}

/// The patch that makes the content of a copy that of its source, and the job one of its users; `None` where both hold.
///
/// # Errors
/// One of the texts is no Secret.
pub fn refresh(job: &Job, stored: &str, source: &str) -> Result<Option<String>, serde_json::Error> {
    let copy = Copy::read(stored)?;
    let has: BTreeMap<String, String> = serde_json::from_str::<Secret>(stored)?.data.unwrap_or_default();
    let wants = serde_json::from_str::<Secret>(source)?.data.unwrap_or_default();
    let mut users = copy.users.clone();
    let is_new = users.insert(job.word());
    if !is_new && has == wants {
        return Ok(None);
    }
    let mut data = Map::new();
    for (key, value) in &wants {
        if has.get(key) != Some(value) {
            data.insert(key.clone(), value.as_str().into());
        }
    }
    data.extend(has.keys().filter(|key| !wants.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
    Ok(Some(patch(&copy, &users, Some(data))))
}

fn patch(copy: &Copy, users: &BTreeSet<String>, data: Option<Map<String, Value>>) -> String {
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut patch = json!({"metadata": {
        "uid": copy.observed.uid, "resourceVersion": copy.observed.resource_version,
        "annotations": {PULL_SECRET_REFERENCES: users.join(",")},
    }});
    if let (Some(data), Some(members)) = (data.filter(|data| !data.is_empty()), patch.as_object_mut()) {
        members.insert("data".to_owned(), data.into());
    }
    patch.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imagepulljob::tests::fixture::job;
    use jiff::Timestamp;

    fn copy(name: &str, source: &str, users: &[&str]) -> Arc<Copy> {
        Arc::new(Copy {
            observed: ObjectVersion {
                name: name.to_owned(),
                uid: "u".to_owned(),
                resource_version: "1".to_owned(),
            },
            namespace: "config".to_owned(),
            source: source.to_owned(),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            mode: BATCH.to_owned(),
            deleting: false,
        })
    }

    #[test]
    fn a_job_uses_its_own_copy_before_that_of_others() {
        let job = job("a", json!({}));
        let copies = [
            copy("1", "shop/other", &[]),
            copy("2", "shop/pull", &["shop/b"]),
            copy("3", "shop/pull", &["shop/a"]),
        ];
        let chosen =
            |copies| choose(&job, &source(&job, "pull"), copies).map(|copy| copy.observed.name.clone());
        assert_eq!(chosen(&copies).as_deref(), Some("3"));
        assert_eq!(chosen(&copies[..2]).as_deref(), Some("2"));
        assert_eq!(chosen(&copies[..1]), None);
    }

    #[test]
    fn a_copy_goes_with_its_last_user() {
        let job = job("a", json!({}));
        assert_eq!(release(&copy("1", "shop/pull", &["shop/a"]), &job), Release::Delete);
        let Release::Patch(patch) = release(&copy("1", "shop/pull", &["shop/a", "shop/b"]), &job) else {
            panic!()
        };
        let patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(patch["metadata"]["annotations"][PULL_SECRET_REFERENCES], "shop/b");
        assert_eq!(patch["metadata"]["resourceVersion"], "1");
    }

    #[test]
    fn a_copy_has_what_its_source_has_but_for_what_apply_noted() {
        let source = json!({"metadata": {"namespace": "shop", "name": "pull", "labels": {"l": "1"},
            "annotations": {"a": "1", LAST_APPLIED: "old"}}, "type": "kubernetes.io/dockerconfigjson",
            "immutable": true, "data": {".dockerconfigjson": "e30="}});
        let moment = Moment { now: Timestamp::UNIX_EPOCH, seed: 1 };
        let job = job("a", json!({}));
        let made: Value =
            serde_json::from_str(&create(&job, &source.to_string(), "config", moment).unwrap()).unwrap();
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.strip_prefix("pull-").is_some_and(|hash| hash.len() == 6), "{name}");
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": "e30="},
            "metadata": {"name": name, "namespace": "config", "labels": {"l": "1"}, "annotations": {"a": "1",
                PULL_SECRET_SOURCE: "shop/pull", PULL_SECRET_REFERENCES: "shop/a", PULL_SECRET_MODE: "batch"}}});
        assert_eq!(made, expected);
        assert_eq!(refresh(&job, &made.to_string(), &source.to_string()).unwrap(), None);
        let changed = json!({"data": {"b": "1"}});
        let patch = refresh(&job, &made.to_string(), &changed.to_string()).unwrap().unwrap();
        let patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(patch["data"], json!({"b": "1", ".dockerconfigjson": null}));
    }

    #[test]
    fn copies_of_older_releases_are_read() {
        let text = json!({"metadata": {"name": "x", "namespace": "config", "uid": "u",
            "annotations": {PULL_SECRET_SOURCE: "shop/pull", PULL_SECRET_REFERENCES: "shop/b, shop/a"}}});
        let copy = Copy::read(&text.to_string()).unwrap();
        assert_eq!((copy.users.len(), copy.reference().mode.as_str()), (2, ""));
    }
}
