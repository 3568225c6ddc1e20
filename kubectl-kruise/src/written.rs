//! How a write is done, and how it is printed.

use std::cell::Cell;
use std::io::{BufRead, IsTerminal, Write};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use cluster::ErrorReason;
use cluster::resource::{Path, Resource};
use cluster::write::{self, PatchKind};
use plugin::edit;
use plugin::pods::text;
use serde_json::Value;
use similar::TextDiff;
use values::json_patch::{Patch, apply};

use super::connection::Session;
use super::failures::{Failures, each, refused};
use super::follow::{Following, follow_all};
use super::target::Named;
use super::terminal::print;

/// How often a write is computed anew because somebody else changed the object.
const ATTEMPTS: usize = 5;

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
    #[arg(long, default_value = "true")]
    allow_missing_template_keys: bool,
    /// An object was printed: the next one begins another YAML document.
    #[arg(skip)]
    has_printed: Cell<bool>,
}

impl PrintArguments {
    /// Data is printed, and no line for people.
    fn prints_data(&self) -> bool {
        self.output.is_some() || self.template.is_some()
    }

    /// Prints an object, or `line` where nothing else is wanted.
    fn print(&self, word: &str, object: &Value, line: &str) -> anyhow::Result<()> {
        let default = self.template.as_ref().map(|_| Output::Kubectl("go-template".to_owned()));
        match self.output.as_ref().or(default.as_ref()) {
            None => print(format_args!("{line}\n")),
            Some(Output::Name) => print(format_args!("{word}\n")),
            Some(Output::Yaml) => {
                let separator = if self.has_printed.replace(true) { "---\n" } else { "" };
                print(format_args!("{separator}{}", serde_saphyr::to_string(&self.shown(object))?))
            }
            Some(Output::Json) => print_value(&self.shown(object), false),
            Some(Output::Kubectl(form)) => self.print_by_kubectl(object, form),
        }
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
        print(serde_saphyr::to_string(value)?)
    } else {
        print(format_args!("{}\n", serde_json::to_string_pretty(value)?))
    }
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

/// How a write is done and reported.
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
    /// How long to wait, such as 90s or 5m; 0s forever
    #[arg(long, default_value = "0s", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// With --wait: end with 2 when the time runs out, 3 when the rollout fails, 4 when it waits for a person
    #[arg(long)]
    exit_codes: bool,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
    /// The name under which the API server keeps who wrote which field
    #[arg(long)]
    field_manager: Option<String>,
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

    /// How to follow what was written; `None` does not follow.
    pub(super) fn following(&self) -> Option<Following> {
        let Self { timeout, exit_codes, .. } = *self;
        let following = Following { watches: true, timeout, exit_codes, detail: false };
        (self.wait && self.writes()).then_some(following)
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

    /// The path of a write, with what the API server is to know of it.
    pub(super) fn query(&self, path: Path) -> Path {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if self.dry_run == DryRun::Server {
            query.append_pair("dryRun", "All");
        }
        if let Some(manager) = &self.field_manager {
            query.append_pair("fieldManager", manager);
        }
        match query.finish() {
            query if query.is_empty() => path,
            query => path.query(query),
        }
    }

    /// Prints what was done to an object.
    pub(super) fn report(&self, word: &str, object: &Value, operation: &str) -> anyhow::Result<()> {
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
        let mut failures = Failures::default();
        for (named, before) in objects {
            failures.keep(decide(named, before).and_then(|change| self.change_one(named, before, &change)));
        }
        failures.end()
    }

    /// Shows what would become of an object.
    fn change_one(&self, named: &Named, before: &Value, change: &Change) -> anyhow::Result<()> {
        let Some(patch) = &change.patch else { return Ok(()) };
        self.reported(named, before, &applied(before, patch)?, &change.operation)
    }

    /// Prints what was done to an object, and what changed where that is wanted.
    fn reported(&self, named: &Named, before: &Value, after: &Value, operation: &str) -> anyhow::Result<()> {
        if self.diff {
            let difference = difference(before, after)?;
            if self.print.prints_data() {
                eprint!("{difference}");
            } else {
                print(difference)?;
            }
        }
        self.report(&named.word(), after, operation)
    }
}

/// The object after a patch.
pub(super) fn applied(object: &Value, patch: &Patch) -> anyhow::Result<Value> {
    let after = apply(&object.to_string(), patch).context("the change can't be shown")?;
    Ok(serde_json::from_str(&after)?)
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

/// An object that is to be created.
pub(super) struct Creation<'a> {
    resource: Resource<'a>,
    object: Value,
    operation: &'static str,
    save_config: bool,
}

impl<'a> Creation<'a> {
    /// An object that is reported as created.
    pub(super) fn new(resource: Resource<'a>, object: Value) -> Self {
        Self { resource, object, operation: "created", save_config: false }
    }

    /// With another word for what was done.
    pub(super) fn with_operation(self, operation: &'static str) -> Self {
        Self { operation, ..self }
    }

    /// Keeps the object, where this is true, in the annotation with which `kubectl apply` compares.
    pub(super) fn saving_config(self, save_config: bool) -> Self {
        Self { save_config, ..self }
    }
}

impl Session {
    /// Changes an object as it is by then, and reports it.
    pub(super) async fn change(
        &self,
        named: &Named,
        arguments: &WriteArguments,
        decide: impl AsyncFnMut(&Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<()> {
        self.change_part(named, "", arguments, decide).await
    }

    /// Changes each object as it is by then, and follows the rollouts where that is wanted.
    pub(super) async fn change_all(
        &self,
        all: &[Named],
        arguments: &WriteArguments,
        decide: impl AsyncFn(&Named, &Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<ExitCode> {
        each(all, async |named| {
            self.change(named, arguments, async |object| decide(named, object).await).await
        })
        .await?;
        follow_all(self, all, arguments.following()).await
    }

    /// Changes the status of an object, as [`change`](Self::change) does.
    pub(super) async fn change_status(
        &self,
        named: &Named,
        arguments: &WriteArguments,
        decide: impl AsyncFnMut(&Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<()> {
        self.change_part(named, "status", arguments, decide).await
    }

    async fn change_part(
        &self,
        named: &Named,
        part: &'static str,
        arguments: &WriteArguments,
        mut decide: impl AsyncFnMut(&Value) -> anyhow::Result<Change>,
    ) -> anyhow::Result<()> {
        let path = arguments.query(named.path(self).subresource(part));
        let mut attempt = 1;
        loop {
            let before = self.read(named).await?;
            let change = decide(&before).await?;
            let Some(patch) = &change.patch else {
                return if change.operation.is_empty() {
                    Ok(())
                } else {
                    arguments.report(&named.word(), &before, &change.operation)
                };
            };
            let after = if arguments.sends_nothing() {
                applied(&before, patch)?
            } else {
                match write::patch(&self.client, &path, PatchKind::Json, patch.to_json()).await {
                    Err(error) if error.reason() == ErrorReason::Conflict && attempt < ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    Err(error) => return Err(anyhow!("{} failed to patch: {error}", named.quoted())),
                    Ok(text) => serde_json::from_str(&text)?,
                }
            };
            return arguments.reported(named, &before, &after, &change.operation);
        }
    }

    /// Creates an object in the namespace of the session, reports it, and gives it back.
    pub(super) async fn create(
        &self,
        Creation { resource, object, operation, save_config }: Creation<'_>,
        arguments: &WriteArguments,
    ) -> anyhow::Result<Value> {
        let served = self.served.newest(resource);
        let object = if text(&object, "/apiVersion") == served.api_version {
            object
        } else {
            serde_json::from_str(api::conversion::convert(&object.to_string(), served.api_version)?.get())?
        };
        let object = if save_config { applied(&object, &edit::last_applied(&object))? } else { object };
        let path = arguments.query(served.namespaced(&self.namespace));
        let made = if arguments.sends_nothing() {
            object
        } else {
            let made = write::create(&self.client, &path, object.to_string()).await;
            serde_json::from_str(&made.map_err(|error| refused(&error))?)?
        };
        let name = text(&made, "/metadata/name");
        let group = resource.api_version.split_once('/').map(|(group, _)| format!(".{group}"));
        let word = format!("{}{}/{name}", resource.kind.to_lowercase(), group.unwrap_or_default());
        arguments.report(&word, &made, operation)?;
        Ok(made)
    }
}

/// What changes, but for who changed it and when.
fn difference(before: &Value, after: &Value) -> anyhow::Result<String> {
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
    Ok(TextDiff::from_lines(&before, &after).unified_diff().header("stored", "changed").to_string())
}
