//! The objects that are meant, and requests about them.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use cluster::list::{ListError, list_all};
use cluster::resource::{PODS, Path, REVISIONS, Resource};
use cluster::write;
use informers::files::Objects;
use kinds::workload::revision::StoredRevision;
use kinds::workload::status::selector_text;
use plugin::kinds::WorkloadKind;
use plugin::{history, pods};
use serde::Deserialize;
use serde_json::Value;

use super::connection::{Connection, Session};
use super::failures::{not_found, refused};
use super::{feed, standard_input};
use crate::explain::labelled;

/// The ReplicaSets of Deployments.
const REPLICA_SETS: Resource<'_> = Resource::new("apps/v1", "replicasets", "ReplicaSet");
/// Workloads of Kubernetes that a Rollout controls too.
const STATEFUL_SETS: Resource<'_> = Resource::new("apps/v1", "statefulsets", "StatefulSet");
const DAEMON_SETS: Resource<'_> = Resource::new("apps/v1", "daemonsets", "DaemonSet");
/// The name of the standard input among files.
const STANDARD_INPUT: &str = "-";

/// The objects that are meant.
#[derive(Debug, Args)]
pub(super) struct ObjectArguments {
    /// TYPE NAME... or TYPE/NAME...
    words: Vec<String>,
    /// Files, folders or addresses with the objects; - is the standard input
    #[arg(short, long, global = false)]
    filename: Vec<String>,
    /// Look into folders of folders
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A folder with a kustomization
    #[arg(short, long)]
    kustomize: Option<String>,
    /// The objects with these labels
    #[arg(short = 'l', long)]
    selector: Option<String>,
    /// All objects of this type in the namespace
    #[arg(long)]
    all: bool,
}

/// An object that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: WorkloadKind,
    pub(super) name: String,
    /// Its namespace, where it is another than that of the session.
    pub(super) namespace: Option<String>,
}

impl Named {
    pub(super) fn new(kind: WorkloadKind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), namespace: None }
    }

    /// As kubectl prints it: `cloneset.apps.kruise.io/web`.
    pub(super) fn word(&self) -> String {
        format!("{}.{}/{}", self.kind.singular(), self.kind.group(), self.name)
    }

    /// As an error names it: `clonesets.apps.kruise.io "web"`.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{} {:?}", self.kind.plural(), self.kind.group(), self.name)
    }

    /// Its namespace; empty for a kind of the cluster.
    pub(super) fn namespace<'a>(&'a self, session: &'a Session) -> &'a str {
        let namespace = self.namespace.as_deref().unwrap_or(&session.namespace);
        if self.kind.is_namespaced() { namespace } else { "" }
    }

    /// How requests name its kind.
    pub(super) fn resource(&self, session: &Session) -> Resource<'static> {
        session.served.newest(Resource::new(self.kind.api_version(), self.kind.plural(), self.kind.kind()))
    }

    /// The request path of all objects of its kind in its namespace.
    pub(super) fn collection(&self, session: &Session) -> Path {
        self.resource(session).namespaced(self.namespace(session))
    }

    /// Its request path.
    pub(super) fn path(&self, session: &Session) -> Path {
        self.collection(session).name(&self.name)
    }
}

impl ObjectArguments {
    /// The words, of which some may say something else.
    pub(super) fn words_mut(&mut self) -> &mut Vec<String> {
        &mut self.words
    }

    /// The objects of Kruise that are meant; `None` where kinds are meant that kubectl deals with.
    pub(super) fn resolve(&self, connection: &Connection) -> anyhow::Result<Option<Vec<Named>>> {
        self.resolve_among(connection, WorkloadKind::ALL)
    }

    /// The objects of these kinds that are meant; `None` where others are meant, which are for kubectl.
    pub(super) fn resolve_among(
        &self,
        connection: &Connection,
        kinds: &[WorkloadKind],
    ) -> anyhow::Result<Option<Vec<Named>>> {
        if self.all && self.selector.is_some() {
            bail!("cannot set --all and --selector at the same time");
        }
        let is_simple =
            self.filename.is_empty() && self.kustomize.is_none() && self.selector.is_none() && !self.all;
        if is_simple && !self.words.first().is_some_and(|word| word.contains(',')) {
            return named_among(&self.words, kinds);
        }
        let mut command = Command::new("kubectl");
        command.args(["get", "-o", "json"]).args(connection.flags()).args(&self.words);
        command.args(self.filename.iter().flat_map(|file| ["-f", file]));
        command.args(self.recursive.then_some("-R"));
        command.args(self.kustomize.iter().flat_map(|folder| ["-k", folder]));
        command.args(self.selector.iter().flat_map(|selector| ["-l", selector]));
        let answer =
            self.asked(&mut command).context("kubectl, which finds the objects, can't be started")?;
        let Some(answer) = answer else { bail!("the objects were not found") };
        listed(&serde_json::from_slice(&answer).context("the answer of kubectl is not understood")?, kinds)
    }

    /// What kubectl prints that reads the standard input where that is named; `None` where it fails.
    fn asked(&self, command: &mut Command) -> anyhow::Result<Option<Vec<u8>>> {
        let reads = self.filename.iter().any(|file| file == STANDARD_INPUT);
        let input = if reads { Some(standard_input()?) } else { None };
        command.stdout(Stdio::piped()).stdin(if reads { Stdio::piped() } else { Stdio::inherit() });
        let mut kubectl = command.spawn()?;
        feed(&mut kubectl, input.unwrap_or_default());
        let output = kubectl.wait_with_output()?;
        Ok(output.status.success().then_some(output.stdout))
    }

    /// The objects of the files, which no server is asked for; `None` where kinds are meant that kubectl deals with.
    pub(super) fn local(&self) -> anyhow::Result<Option<Vec<(Named, Value)>>> {
        if self.filename.is_empty() || !self.words.is_empty() {
            bail!("--local is for the objects of files: say which by -f");
        }
        let mut objects = Objects::default();
        for file in &self.filename {
            if file == STANDARD_INPUT {
                objects.parse("standard input", std::str::from_utf8(standard_input()?)?)?;
            } else {
                objects.extend(Objects::read(&[PathBuf::from(file)])?);
            }
        }
        let (mut all, mut others) = (Vec::new(), Vec::new());
        for object in objects.iter() {
            let Some(kind) = kind_of(object.group(), &object.kind, WorkloadKind::ALL) else {
                others.push(format!("{} {}", object.kind, object.name));
                continue;
            };
            let namespace = Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty());
            let named = Named { kind, name: object.name.clone(), namespace };
            all.push((named, serde_json::from_str(&object.json)?));
        }
        one_side(all, &others)
    }
}

/// The kind by this name in this group, if it is one of `kinds`.
pub(super) fn kind_of(group: &str, kind: &str, kinds: &[WorkloadKind]) -> Option<WorkloadKind> {
    kinds.iter().copied().find(|one| one.kind() == kind && one.group() == group)
}

/// The objects of a list, or the one object.
fn listed(answer: &Value, kinds: &[WorkloadKind]) -> anyhow::Result<Option<Vec<Named>>> {
    let all = answer.get("items").and_then(Value::as_array);
    let all = all.map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
    let text = |object: &Value, pointer: &str| pods::text(object, pointer).to_owned();
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for object in all {
        let (version, kind, name) =
            (text(object, "/apiVersion"), text(object, "/kind"), text(object, "/metadata/name"));
        let (group, _) = api::group_and_version(&version);
        let known = kind_of(group, &kind, kinds);
        let namespace = Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        match known {
            Some(kind) => ours.push(Named { kind, name, namespace }),
            None => others.push(format!("{kind} {name}")),
        }
    }
    one_side(ours, &others)
}

/// The objects that are ours; `None` where all are for kubectl.
fn one_side<T>(ours: Vec<T>, others: &[String]) -> anyhow::Result<Option<Vec<T>>> {
    match (ours.is_empty(), others.is_empty()) {
        (true, true) => bail!("no objects passed to the command"),
        (true, false) => Ok(None),
        (false, true) => Ok(Some(ours)),
        (false, false) => {
            bail!("kubectl handles these objects; run the command separately for: {}", others.join(", "))
        }
    }
}

/// Reads `TYPE NAME...` or `TYPE/NAME...` of kinds of Kruise; `None` where kinds are meant that kubectl deals with.
pub(super) fn named(words: &[String]) -> anyhow::Result<Option<Vec<Named>>> {
    named_among(words, WorkloadKind::ALL)
}

fn named_among(words: &[String], kinds: &[WorkloadKind]) -> anyhow::Result<Option<Vec<Named>>> {
    let Some(first) = words.first() else { bail!("required resource not specified") };
    if !first.contains('/') {
        let Some(kind) = WorkloadKind::named_among(first, kinds) else { return Ok(None) };
        let names = words.get(1..).unwrap_or_default();
        if names.is_empty() {
            bail!("required resource not specified");
        }
        return names.iter().map(|name| one_named(kind, name)).collect::<anyhow::Result<_>>().map(Some);
    }
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for word in words {
        let (kind, name) = word.split_once('/').with_context(|| {
            format!("there is no need to specify a resource type as a separate argument when passing arguments in resource/name form: {word:?}")
        })?;
        match WorkloadKind::named_among(kind, kinds) {
            Some(kind) => ours.push(one_named(kind, name)?),
            None => others.push(word.clone()),
        }
    }
    one_side(ours, &others)
}

/// An object by its name, which has no further parts.
fn one_named(kind: WorkloadKind, name: &str) -> anyhow::Result<Named> {
    if name.is_empty() || name.contains('/') {
        bail!("arguments in resource/name form must have a single resource and name");
    }
    Ok(Named::new(kind, name))
}

/// Whether these words name a kind of Kruise: the first one, or any of the form `TYPE/NAME`.
pub(super) fn name_ours(words: &[&str]) -> bool {
    let is_ours = |kind: &str| WorkloadKind::named(kind).is_some();
    match words.first() {
        Some(first) if !first.contains('/') => first.split(',').any(is_ours),
        _ => words.iter().filter_map(|word| word.split_once('/')).any(|(kind, _)| is_ours(kind)),
    }
}

fn uid(object: &Value) -> &str {
    pods::text(object, "/metadata/uid")
}

/// The collection, as far as the selector of a workload selects from it.
fn selected(collection: Path, workload: &Value) -> Path {
    let selector = workload.pointer("/spec/selector").cloned().unwrap_or_default();
    let selector =
        serde_json::from_value(selector).map(|selector| selector_text(&selector)).unwrap_or_default();
    if selector.is_empty() { collection } else { collection.query(labelled(&selector)) }
}

impl Session {
    /// An object by its path; `None` if there is none.
    pub(super) async fn find(&self, path: &Path) -> anyhow::Result<Option<Value>> {
        let text = write::get(&self.client, path).await.map_err(|error| refused(&error))?;
        text.map(|text| serde_json::from_str(&text).with_context(|| format!("{path} is not understood")))
            .transpose()
    }

    /// The objects of a collection.
    pub(super) async fn list<T: for<'de> Deserialize<'de>>(
        &self,
        collection: &Path,
    ) -> anyhow::Result<Vec<T>> {
        let mut all = Vec::new();
        list_all(&self.client, collection, |one| all.push(one)).await.map_err(|error| match error {
            ListError::Unread { source, .. } => refused(&source),
            ListError::NotUnderstood { .. } => error.into(),
        })?;
        Ok(all)
    }

    /// The names of the objects of a collection.
    pub(super) async fn names(&self, collection: &Path) -> anyhow::Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Item {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        let all: Vec<Item> = self.list(collection).await?;
        Ok(all.into_iter().map(|item| item.metadata.name).collect())
    }

    /// The object.
    pub(super) async fn read(&self, named: &Named) -> anyhow::Result<Value> {
        match self.find(&named.path(self)).await? {
            Some(object) => Ok(object),
            None => Err(self.absent(named).await),
        }
    }

    /// Says that there is no such object, and which one may have been meant.
    async fn absent(&self, named: &Named) -> anyhow::Error {
        let error = not_found(named.quoted());
        let names = self.names(&named.collection(self)).await.unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let close = similar::get_close_matches(named.name.as_str(), &names, 1, 0.6);
        let Some(close) = close.first() else { return error };
        let mut text = error.to_string();
        if named.kind.is_namespaced() {
            // Writing to a String cannot fail.
            let _ = write!(text, " in namespace {:?}", named.namespace(self));
        }
        anyhow::Error::msg(format!("{text}; did you mean {close:?}?"))
    }

    /// The Pods that a workload of a namespace controls; of a Deployment those of its ReplicaSets.
    pub(super) async fn pods_of(&self, namespace: &str, workload: &Value) -> anyhow::Result<Vec<Value>> {
        let mut owners = vec![uid(workload).to_owned()];
        if pods::text(workload, "/kind") == "Deployment" {
            let sets = self.replica_sets_of(namespace, workload).await?;
            owners.extend(sets.iter().map(|set| uid(set).to_owned()));
        }
        let mut all = self.selected_pods(namespace, workload).await?;
        all.retain(|pod| owners.iter().any(|owner| pods::is_controlled_by(pod, owner)));
        Ok(all)
    }

    /// The Pods that the selector of a workload matches, whatever controls them.
    pub(super) async fn selected_pods(
        &self,
        namespace: &str,
        workload: &Value,
    ) -> anyhow::Result<Vec<Value>> {
        self.list(&selected(PODS.namespaced(namespace), workload)).await
    }

    /// The ReplicaSets that a Deployment controls.
    pub(super) async fn replica_sets_of(
        &self,
        namespace: &str,
        deployment: &Value,
    ) -> anyhow::Result<Vec<Value>> {
        let path = selected(REPLICA_SETS.namespaced(namespace), deployment);
        let mut all: Vec<Value> = self.list(&path).await?;
        all.retain(|set| pods::is_controlled_by(set, uid(deployment)));
        Ok(all)
    }
}

/// The kind of the workload that a Rollout controls, where the plugin rolls it back itself.
pub(super) fn kind_of_reference((group, kind, _): &(String, &str, &str)) -> Option<WorkloadKind> {
    kind_of(group, kind, WorkloadKind::WITH_DEPLOYMENTS)
}

/// The workload that a Rollout controls; `None` if it is not there, or of a kind that no Rollout controls.
pub(super) async fn workload_of(
    session: &Session,
    reference: &(String, &str, &str),
) -> anyhow::Result<Option<Value>> {
    let (group, kind, name) = reference;
    let path = match (kind_of_reference(reference), group.as_str(), *kind) {
        (Some(kind), ..) => Named::new(kind, name).path(session),
        (None, "apps", "StatefulSet") => STATEFUL_SETS.namespaced(&session.namespace).name(name),
        (None, "apps", "DaemonSet") => DAEMON_SETS.namespaced(&session.namespace).name(name),
        _ => return Ok(None),
    };
    session.find(&path).await
}

/// The revisions of a workload, oldest first.
pub(super) async fn revisions(
    session: &Session,
    named: &Named,
    object: &Value,
) -> anyhow::Result<Vec<StoredRevision>> {
    if !named.kind.has_revisions() {
        bail!("no history viewer has been implemented for {}", named.quoted());
    }
    let all = session.list(&REVISIONS.namespaced(named.namespace(session))).await?;
    Ok(history::of_owner(all, uid(object)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(found: Option<Vec<Named>>) -> Option<Vec<String>> {
        Some(found?.iter().map(Named::word).collect())
    }

    fn read(given: &[&str]) -> anyhow::Result<Option<Vec<String>>> {
        let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
        Ok(words(named(&given)?))
    }

    #[test]
    fn objects_are_named_in_both_ways() {
        let web = vec!["cloneset.apps.kruise.io/web".to_owned()];
        assert_eq!(read(&["clone", "web"]).unwrap(), Some(web.clone()));
        assert_eq!(read(&["clone/web"]).unwrap(), Some(web));
        let two = read(&["asts/a", "ads/b"]).unwrap().unwrap();
        assert_eq!(two, ["statefulset.apps.kruise.io/a", "daemonset.apps.kruise.io/b"]);
        assert_eq!(read(&["deployment", "web"]).unwrap(), None);
        assert_eq!(read(&["sts/web"]).unwrap(), None);
        for words in [
            &[][..],
            &["clone"],
            &["clone/a", "b"],
            &["clone/a", "deployment/b"],
            &["deployment/b", "clone/a"],
            &["clone/"],
            &["clone", ""],
            &["clone/web/status"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
        let words = ["deploy/a".to_owned(), "clone/b".to_owned()];
        let both = named_among(&words, WorkloadKind::WITH_DEPLOYMENTS).unwrap().unwrap();
        assert_eq!(both[0].word(), "deployment.apps/a");
    }

    #[test]
    fn what_kubectl_lists_is_ours_or_is_not() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "shop"}});
        let set = object("apps.kruise.io/v1alpha1", "CloneSet");
        let deployment = object("apps/v1", "StatefulSet");
        assert_eq!(
            words(listed(&set, WorkloadKind::ALL).unwrap()),
            Some(vec!["cloneset.apps.kruise.io/a".to_owned()])
        );
        let list = |items: &[&Value]| listed(&json!({"kind": "List", "items": items}), WorkloadKind::ALL);
        assert_eq!(list(&[&set]).unwrap().unwrap()[0].namespace.as_deref(), Some("shop"));
        assert_eq!(list(&[&deployment]).unwrap(), None);
        assert!(list(&[]).is_err());
        assert!(list(&[&set, &deployment]).is_err());
    }

    #[test]
    fn kinds_are_recognised_among_other_words() {
        assert!(name_ours(&["clone/web", "main=a"]));
        assert!(name_ours(&["deployment,clonesets", "K=V"]));
        assert!(!name_ours(&["deployment/web", "clone=a"]));
        assert!(!name_ours(&["deployment", "clone"]));
        assert!(!name_ours(&[]));
    }
}
