//! The objects that are meant, and requests about them.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::{BufRead, IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use cluster::files::Objects;
use cluster::resource::{Path, Resource};
use cluster::write::{self, PatchKind};
use cluster::{ApiError, ErrorReason};
use kube::Client;
use planner::plugin::kinds::WorkloadKind;
use planner::text::json_patch::{Patch, apply};
use serde::Deserialize;
use serde_json::Value;
use similar::TextDiff;

use super::connection::{Connection, Session};
use crate::explain::list_all;

/// How often a write is computed anew because somebody else changed the object.
const ATTEMPTS: usize = 5;

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

/// How what was done is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// The names of the objects
    Name,
    /// The objects
    Json,
    /// The objects
    Yaml,
    /// A form that kubectl knows: by JSONPath or by a template of Go
    Kubectl(String),
}

/// Forms that kubectl knows.
const KUBECTL_OUTPUTS: [&str; 7] = [
    "go-template",
    "go-template-file",
    "template",
    "templatefile",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
];

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "name" => Ok(Self::Name),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ if KUBECTL_OUTPUTS.contains(&text.split('=').next().unwrap_or(text)) => {
                Ok(Self::Kubectl(text.to_owned()))
            }
            _ => Err(format!("write name, json, yaml, {}", KUBECTL_OUTPUTS.join(", "))),
        }
    }
}

/// Which form an object is printed in.
#[derive(Debug, Args)]
pub(super) struct PrintArguments {
    /// How to print: name, json, yaml, jsonpath=..., go-template=... and the other forms of kubectl
    #[arg(short, long)]
    output: Option<Output>,
    /// The template, or the file that has it
    #[arg(long)]
    template: Option<String>,
    /// With json and yaml: who manages which field too
    #[arg(long)]
    show_managed_fields: bool,
    /// Pass over what a template names and the object has not
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    allow_missing_template_keys: bool,
}

impl PrintArguments {
    /// Prints an object, or `line` where nothing else is wanted.
    fn print(&self, word: &str, object: &Value, line: &str) -> anyhow::Result<()> {
        let default = self.template.as_ref().map(|_| Output::Kubectl("go-template".to_owned()));
        match self.output.as_ref().or(default.as_ref()) {
            None => println!("{line}"),
            Some(Output::Name) => println!("{word}"),
            Some(Output::Yaml) => print!("{}", serde_saphyr::to_string(&self.shown(object))?),
            Some(Output::Json) => println!("{}", serde_json::to_string_pretty(&self.shown(object))?),
            Some(Output::Kubectl(form)) => self.print_by_kubectl(object, form)?,
        }
        Ok(())
    }

    fn shown(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.show_managed_fields
        {
            metadata.remove("managedFields");
        }
        object
    }

    /// An empty patch of a local object is the way to have kubectl print it: no request is sent.
    fn print_by_kubectl(&self, object: &Value, form: &str) -> anyhow::Result<()> {
        let mut command = Command::new("kubectl");
        command.args(["patch", "--local", "-f", "-", "--type=merge", "-p", "{}", "-o", form]);
        command.args(self.template.iter().flat_map(|template| ["--template", template]));
        command.arg(format!("--allow-missing-template-keys={}", self.allow_missing_template_keys));
        let mut kubectl =
            command.stdin(Stdio::piped()).spawn().context("kubectl, which prints this, can't be started")?;
        // The pipe is closed where it goes out of scope.
        if let Some(mut input) = kubectl.stdin.take() {
            input.write_all(self.shown(object).to_string().as_bytes())?;
        }
        anyhow::ensure!(kubectl.wait()?.success(), "the object can't be printed as {form}");
        Ok(())
    }
}

/// Prints a value for programs.
pub(super) fn print_value(value: &Value, as_yaml: bool) -> anyhow::Result<()> {
    if as_yaml {
        print!("{}", serde_saphyr::to_string(value)?);
    } else {
        println!("{}", serde_json::to_string_pretty(value)?);
    }
    Ok(())
}

/// What a write really does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DryRun {
    /// It writes
    #[default]
    None,
    /// It sends nothing
    Client,
    /// The API server does all but store it
    Server,
}

/// How a write is done and told.
#[derive(Debug, Args)]
pub(super) struct WriteArguments {
    /// Only show what would be written
    #[arg(long, value_enum, default_value = "none", num_args = 0..=1, default_missing_value = "client", require_equals = true)]
    dry_run: DryRun,
    #[command(flatten)]
    print: PrintArguments,
    /// Show what changes
    #[arg(long)]
    diff: bool,
    /// Then follow the rollout to its end
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 5m; 0s for ever
    #[arg(long, default_value = "0s", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
}

impl WriteArguments {
    /// Nothing is sent to the API server.
    pub(super) fn sends_nothing(&self) -> bool {
        self.dry_run == DryRun::Client
    }

    /// The object is really written.
    pub(super) fn writes(&self) -> bool {
        self.dry_run == DryRun::None
    }

    /// How long to follow what was written, if at all: nothing is for ever.
    pub(super) fn following(&self) -> Option<Duration> {
        (self.wait && self.writes()).then_some(self.timeout)
    }

    /// Asks before something that can't be undone at once, where somebody is there to answer.
    pub(super) fn confirm(&self, question: &str) -> anyhow::Result<()> {
        let input = std::io::stdin();
        if self.yes || !self.writes() || !input.is_terminal() {
            return Ok(());
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        input.lock().read_line(&mut answer)?;
        if !answer.trim().eq_ignore_ascii_case("y") {
            bail!("nothing was done");
        }
        Ok(())
    }

    fn query(&self, path: Path) -> Path {
        if self.dry_run == DryRun::Server { path.query("dryRun=All") } else { path }
    }

    /// Prints what was done to an object.
    pub(super) fn tell(&self, word: &str, object: &Value, operation: &str) -> anyhow::Result<()> {
        let dry = match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        self.print.print(word, object, &format!("{word} {operation}{dry}"))
    }

    /// The flag that has kubectl write as much.
    pub(super) fn dry_run_flag(&self) -> &'static str {
        match self.dry_run {
            DryRun::None => "--dry-run=none",
            DryRun::Client => "--dry-run=client",
            DryRun::Server => "--dry-run=server",
        }
    }

    /// Changes objects of files, and sends nothing.
    pub(super) fn change_local(
        &self,
        objects: &[(Named, Value)],
        decide: impl Fn(&Named, &Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<()> {
        if self.dry_run == DryRun::Server {
            bail!("cannot specify --local and --dry-run=server - did you mean --dry-run=client?");
        }
        for (named, before) in objects {
            let change = decide(named, before)?;
            let Some(patch) = &change.patch else { continue };
            let after = apply(&before.to_string(), patch).context("the change can't be shown")?;
            let after: Value = serde_json::from_str(&after)?;
            if self.diff {
                print_difference(before, &after)?;
            }
            self.tell(&named.word(), &after, &change.operation)?;
        }
        Ok(())
    }
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

    pub(super) fn namespace<'a>(&'a self, session: &'a Session) -> &'a str {
        self.namespace.as_deref().unwrap_or(&session.namespace)
    }

    /// How requests name its kind.
    pub(super) fn resource(&self, session: &Session) -> Resource<'static> {
        session.served.newest(Resource::new(self.kind.api_version(), self.kind.plural(), self.kind.kind()))
    }

    fn collection(&self, session: &Session) -> Path {
        let namespace = if self.kind.is_namespaced() { self.namespace(session) } else { "" };
        self.resource(session).namespaced(namespace)
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

    /// The objects that are meant; `None` where kinds are meant that kubectl deals with.
    pub(super) fn resolve(&self, connection: &Connection) -> anyhow::Result<Option<Vec<Named>>> {
        let is_simple =
            self.filename.is_empty() && self.kustomize.is_none() && self.selector.is_none() && !self.all;
        if is_simple && !self.words.first().is_some_and(|word| word.contains(',')) {
            return named(&self.words);
        }
        let mut command = Command::new("kubectl");
        command.args(["get", "-o", "json"]).args(connection.flags()).args(&self.words);
        command.args(self.filename.iter().flat_map(|file| ["-f", file]));
        command.args(self.recursive.then_some("-R"));
        command.args(self.kustomize.iter().flat_map(|folder| ["-k", folder]));
        command.args(self.selector.iter().flat_map(|selector| ["-l", selector]));
        let output = command.stderr(Stdio::inherit()).stdin(Stdio::inherit()).output();
        let output = output.context("kubectl, which finds the objects, can't be started")?;
        if !output.status.success() {
            bail!("the objects were not found");
        }
        listed(&serde_json::from_slice(&output.stdout).context("the answer of kubectl is not understood")?)
    }
}

impl ObjectArguments {
    /// The objects of the files, which no server is asked for; `None` where kinds are meant that kubectl deals with.
    pub(super) fn local(&self) -> anyhow::Result<Option<Vec<(Named, Value)>>> {
        if self.filename.is_empty() || !self.words.is_empty() {
            bail!("--local is for the objects of files: say which by -f");
        }
        let paths: Vec<PathBuf> = self.filename.iter().map(PathBuf::from).collect();
        let (mut all, mut others) = (Vec::new(), Vec::new());
        for object in Objects::read(&paths)?.iter() {
            let Some(kind) = kind_of(object.group(), &object.kind) else {
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

fn kind_of(group: &str, kind: &str) -> Option<WorkloadKind> {
    WorkloadKind::ALL.into_iter().find(|one| one.kind() == kind && one.group() == group)
}

/// The objects of a list, or the one object.
fn listed(answer: &Value) -> anyhow::Result<Option<Vec<Named>>> {
    let all = answer.get("items").and_then(Value::as_array);
    let all = all.map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for object in all {
        let (version, kind, name) =
            (text(object, "/apiVersion"), text(object, "/kind"), text(object, "/metadata/name"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let known = kind_of(group, &kind);
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
        (false, false) => bail!("these are for kubectl, ask for them by themselves: {}", others.join(", ")),
    }
}

/// Reads `TYPE NAME...` or `TYPE/NAME...`; `None` where kinds are meant that kubectl deals with.
pub(super) fn named(words: &[String]) -> anyhow::Result<Option<Vec<Named>>> {
    let Some(first) = words.first() else { bail!("required resource not specified") };
    if !first.contains('/') {
        let Some(kind) = WorkloadKind::named(first) else { return Ok(None) };
        let names = words.get(1..).unwrap_or_default();
        if names.is_empty() {
            bail!("required resource not specified");
        }
        return Ok(Some(names.iter().map(|name| Named::new(kind, name)).collect()));
    }
    let mut all = Vec::new();
    for word in words {
        let (kind, name) = word.split_once('/').with_context(|| {
            format!("there is no need to specify a resource type as a separate argument when passing arguments in resource/name form: {word:?}")
        })?;
        match WorkloadKind::named(kind) {
            Some(kind) => all.push(Named::new(kind, name)),
            None if all.is_empty() => return Ok(None),
            None => bail!("{word:?} is for kubectl: ask for it by itself"),
        }
    }
    Ok(Some(all))
}

/// Whether one of these words names a kind that the plugin deals with itself.
pub(super) fn name_ours(words: &[OsString]) -> bool {
    words.iter().filter_map(|word| word.to_str()).any(|word| {
        word.split(',').any(|word| WorkloadKind::named(word.split('/').next().unwrap_or(word)).is_some())
    })
}

/// A change of an object that was read.
pub(super) struct Change {
    /// The patch; without one there is nothing to change.
    pub(super) patch: Option<Patch>,
    /// What is said of it: empty for nothing at all.
    pub(super) operation: String,
}

impl Change {
    pub(super) fn new(patch: Option<Patch>, operation: &str) -> Self {
        Self { operation: if patch.is_some() { operation.to_owned() } else { String::new() }, patch }
    }
}

impl Session {
    /// An object by its path; `None` if there is none.
    pub(super) async fn find(&self, path: &Path) -> anyhow::Result<Option<Value>> {
        let text = write::get(&self.client, path).await.map_err(|error| refused(&error))?;
        text.map(|text| serde_json::from_str(&text).with_context(|| format!("{path} is not understood")))
            .transpose()
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
        let mut text = format!("Error from server (NotFound): {} not found", named.quoted());
        let names = names(&self.client, &named.collection(self)).await.unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(close) = similar::get_close_matches(named.name.as_str(), &names, 1, 0.6).first() {
            // Writing to a String cannot fail.
            let _ = write!(text, " in namespace {:?}; did you mean {close:?}?", named.namespace(self));
        }
        anyhow!(text)
    }

    /// Changes an object as it is by then, and tells of it.
    pub(super) async fn change(
        &self,
        named: &Named,
        arguments: &WriteArguments,
        mut decide: impl AsyncFnMut(&Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<()> {
        let path = arguments.query(named.path(self));
        let mut attempt = 1;
        loop {
            let before = self.read(named).await?;
            let change = decide(&before).await?;
            let Some(patch) = &change.patch else {
                return if change.operation.is_empty() {
                    Ok(())
                } else {
                    arguments.tell(&named.word(), &before, &change.operation)
                };
            };
            let text = if arguments.sends_nothing() {
                apply(&before.to_string(), patch).context("the change can't be shown")?
            } else {
                match write::patch(&self.client, &path, PatchKind::Json, patch.to_json()).await {
                    Err(error) if error.reason() == ErrorReason::Conflict && attempt < ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    Err(error) => bail!("{} failed to patch: {}", named.quoted(), refused(&error)),
                    Ok(text) => text,
                }
            };
            let after: Value = serde_json::from_str(&text)?;
            if arguments.diff {
                print_difference(&before, &after)?;
            }
            return arguments.tell(&named.word(), &after, &change.operation);
        }
    }

    /// Changes the status of an object by a merge patch.
    pub(super) async fn change_status(
        &self,
        named: &Named,
        arguments: &WriteArguments,
        patch: &Value,
        operation: &str,
    ) -> anyhow::Result<()> {
        let before = self.read(named).await?;
        let path = arguments.query(named.path(self).subresource("status"));
        let after = if arguments.sends_nothing() {
            before
        } else {
            let text = write::patch(&self.client, &path, PatchKind::Merge, patch.to_string()).await;
            let text =
                text.map_err(|error| anyhow!("{} failed to patch: {}", named.quoted(), refused(&error)))?;
            serde_json::from_str(&text)?
        };
        arguments.tell(&named.word(), &after, operation)
    }

    /// Creates an object in the namespace of the session, tells of it, and gives it back.
    pub(super) async fn create(
        &self,
        resource: Resource<'_>,
        object: Value,
        arguments: &WriteArguments,
    ) -> anyhow::Result<Value> {
        let served = self.served.newest(resource);
        let object = if object.get("apiVersion").and_then(Value::as_str) == Some(served.api_version) {
            object
        } else {
            serde_json::from_str(api::conversion::convert(&object.to_string(), served.api_version)?.get())?
        };
        let path = arguments.query(served.namespaced(&self.namespace));
        let made = if arguments.sends_nothing() {
            object
        } else {
            let text = write::create(&self.client, &path, object.to_string()).await;
            serde_json::from_str(&text.map_err(|error| refused(&error))?)?
        };
        let name = made.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let group = resource.api_version.split_once('/').map(|(group, _)| format!(".{group}"));
        let word = format!("{}{}/{name}", resource.kind.to_lowercase(), group.unwrap_or_default());
        arguments.tell(&word, &made, "created")?;
        Ok(made)
    }
}

/// The names of the objects of a collection.
pub(super) async fn names(client: &Client, collection: &Path) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let mut all = Vec::new();
    list_all(client, collection, |item: Item| all.push(item.metadata.name)).await?;
    Ok(all)
}

/// Shows what changes, but for who changed it and when.
fn print_difference(before: &Value, after: &Value) -> anyhow::Result<()> {
    let text = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(name);
            }
        }
        serde_saphyr::to_string(&object)
    };
    let (before, after) = (text(before)?, text(after)?);
    print!("{}", TextDiff::from_lines(&before, &after).unified_diff().header("stored", "changed"));
    Ok(())
}

/// What the API server said, as kubectl says it.
pub(super) fn refused(error: &ApiError) -> anyhow::Error {
    match error.reason() {
        ErrorReason::NotFound => anyhow!("Error from server (NotFound): {error}"),
        ErrorReason::AlreadyExists => anyhow!("Error from server (AlreadyExists): {error}"),
        ErrorReason::Conflict => anyhow!("Error from server (Conflict): {error}"),
        _ => anyhow!("Error from server: {error}"),
    }
}

/// Does something with each object; what fails at one stops no other.
pub(super) async fn each(
    all: &[Named],
    mut work: impl AsyncFnMut(&Named) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for named in all {
        if let Err(error) = work(named).await {
            failures.push(error.to_string());
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(anyhow!("{}", failures.join("\nerror: "))) }
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
        for words in [&[][..], &["clone"], &["clone/a", "b"], &["clone/a", "deployment/b"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn what_kubectl_lists_is_ours_or_is_not() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "shop"}});
        let set = object("apps.kruise.io/v1alpha1", "CloneSet");
        let deployment = object("apps/v1", "StatefulSet");
        assert_eq!(words(listed(&set).unwrap()), Some(vec!["cloneset.apps.kruise.io/a".to_owned()]));
        let list = |items: &[&Value]| listed(&json!({"kind": "List", "items": items}));
        assert_eq!(list(&[&set]).unwrap().unwrap()[0].namespace.as_deref(), Some("shop"));
        assert_eq!(list(&[&deployment]).unwrap(), None);
        assert!(list(&[]).is_err());
        assert!(list(&[&set, &deployment]).is_err());
    }

    #[test]
    fn kinds_are_recognised_among_other_words() {
        let ours = |words: &[&str]| name_ours(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(ours(&["set", "image", "clone/web", "main=a"]));
        assert!(ours(&["set", "env", "deployment,clonesets", "K=V"]));
        assert!(!ours(&["set", "image", "deployment/web", "clone=a"]));
    }
}
