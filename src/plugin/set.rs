//! `kubectl kruise set`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use cluster::resource::{CONFIG_MAPS, SECRETS};
use planner::plugin::containers::{self, EnvironmentChange, ResourceChange};
use planner::plugin::edit;
use planner::text::json_patch::Patch;
use serde_json::{Value, json};

use super::connection::{Connection, Session};
use super::follow::follow_all;
use super::hand_over;
use super::target::{Change, Named, ObjectArguments, WriteArguments, each};

/// Arguments of `set`.
#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Set images of containers: TYPE NAME CONTAINER=IMAGE..., or TYPE/NAME CONTAINER=IMAGE...
    Image(ImageArguments),
    /// Set environment variables: TYPE/NAME K=V..., and K- for each that goes
    Env(EnvironmentArguments),
    /// Set requests and limits of containers
    Resources(ResourcesArguments),
    /// Set the account that Pods run as: TYPE NAME ACCOUNT, or TYPE/NAME ACCOUNT
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(AccountArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

/// How the objects are changed, beside what all writes know.
#[derive(Debug, Args)]
struct WayArguments {
    /// Change the objects of the files and print them; no request is sent
    #[arg(long, requires = "filename")]
    local: bool,
    /// Keep the command in annotation kubernetes.io/change-cause
    #[arg(long)]
    record: bool,
}

#[derive(Debug, Args)]
struct ImageArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    way: WayArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct EnvironmentArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// K=V; - reads lines from the standard input
    #[arg(short, long, allow_hyphen_values = true)]
    env: Vec<String>,
    /// secret/NAME or configmap/NAME, of which each key becomes a variable
    #[arg(long)]
    from: Option<String>,
    /// The keys that are taken, where not all are
    #[arg(long, value_delimiter = ',')]
    keys: Vec<String>,
    /// What stands before the names of variables that are taken
    #[arg(long, default_value = "")]
    prefix: String,
    /// The containers; * stands for anything
    #[arg(short, long, default_value = "*")]
    containers: String,
    /// Show the variables and set none
    #[arg(long)]
    list: bool,
    /// Whether a variable that is there gets another value
    #[arg(long, default_value = "true", num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    overwrite: bool,
    #[command(flatten)]
    way: WayArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct ResourcesArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// Limits, such as cpu=1,memory=1Gi
    #[arg(long)]
    limits: Option<String>,
    /// Requests, such as cpu=1,memory=1Gi
    #[arg(long)]
    requests: Option<String>,
    /// The containers; * stands for anything
    #[arg(short, long, default_value = "*")]
    containers: String,
    #[command(flatten)]
    way: WayArguments,
    #[command(flatten)]
    write: WriteArguments,
}

#[derive(Debug, Args)]
struct AccountArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    way: WayArguments,
    #[command(flatten)]
    write: WriteArguments,
}

/// Sets what is meant.
pub(super) fn run(
    arguments: &mut SetArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    match &mut arguments.what {
        What::Image(arguments) => image(arguments, connection, given),
        What::Env(arguments) => environment(arguments, connection, given),
        What::Resources(arguments) => resources(arguments, connection, given),
        What::ServiceAccount(arguments) => account(arguments, connection, given),
        What::Other(_) => hand_over(given),
    }
}

/// What is changed, and how.
struct Changes<'a> {
    objects: &'a ObjectArguments,
    way: &'a WayArguments,
    write: &'a WriteArguments,
    /// What is said of each object that changed.
    operation: &'static str,
}

impl Changes<'_> {
    /// The change with its cause, where that is kept.
    fn change(&self, object: &Value, patch: Option<Patch>) -> Change {
        let patch = patch.map(|mut patch| {
            if self.way.record {
                let words: Vec<String> =
                    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
                patch.extend(edit::cause(object, &format!("kubectl kruise {}", words.join(" "))));
            }
            patch
        });
        Change::new(patch, self.operation)
    }

    /// Changes each object, and follows the rollouts where that is wanted.
    fn make(
        &self,
        connection: &Connection,
        given: &[OsString],
        decide: impl Fn(&Named, &Value) -> anyhow::Result<Option<Patch>>,
    ) -> anyhow::Result<ExitCode> {
        let decide = |named: &Named, object: &Value| Ok(self.change(object, decide(named, object)?));
        if self.way.local {
            let Some(all) = self.objects.local()? else { return hand_over(given) };
            self.write.change_local(&all, decide)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(all) = self.objects.resolve(connection)? else { return hand_over(given) };
        connection.with(async |session| {
            each(&all, async |named| {
                session.change(named, self.write, async |object| decide(named, object)).await
            })
            .await?;
            follow_all(session, &all, self.write.following()).await
        })
    }
}

/// Takes the words with a `=` out of the names of objects.
fn pairs(words: &mut Vec<String>) -> Vec<String> {
    let (pairs, names) = std::mem::take(words).into_iter().partition(|word| word.contains('='));
    *words = names;
    pairs
}

pub(super) fn pair(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text.split_once('=').with_context(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn image(
    arguments: &mut ImageArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let pairs = pairs(arguments.objects.words_mut());
    let images = pairs.iter().map(|text| pair(text)).collect::<anyhow::Result<Vec<_>>>()?;
    if images.is_empty() {
        bail!("at least one image update is required");
    }
    if images.len() > 1 && images.iter().any(|(container, _)| container == "*") {
        bail!(
            "all containers are already specified by *, but saw more than one container_name=container_image pairs"
        );
    }
    let ImageArguments { objects, way, write } = &*arguments;
    Changes { objects, way, write, operation: "image updated" }.make(connection, given, |named, object| {
        containers::set_images(named.kind, object, &images).map_err(anyhow::Error::msg)
    })
}

fn environment(
    arguments: &mut EnvironmentArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let words = arguments.objects.words_mut();
    let mut pairs = pairs(words);
    let (gone, names) =
        std::mem::take(words).into_iter().partition(|word| word.ends_with('-') && word != "-");
    let gone: Vec<String> = gone;
    *words = names;
    if arguments.list {
        return list(arguments, connection, given);
    }
    for text in &arguments.env {
        match text.as_str() {
            "-" => pairs.extend(std::io::read_to_string(std::io::stdin())?.lines().map(str::to_owned)),
            _ => pairs.push(text.clone()),
        }
    }
    let mut wanted = EnvironmentChange {
        remove: gone.iter().map(|name| name.trim_end_matches('-').to_owned()).collect(),
        overwrite: arguments.overwrite,
        ..EnvironmentChange::default()
    };
    for text in pairs.iter().filter(|text| !text.trim().is_empty()) {
        let (name, value) = pair(text)?;
        wanted.set.push(json!({"name": name, "value": value}));
    }
    if let Some(source) = &arguments.from {
        if arguments.way.local {
            bail!("--from asks the API server for the keys, which --local does not");
        }
        wanted.set.extend(connection.with(async |session| taken(session, source, arguments).await)?);
    }
    if wanted.set.is_empty() && wanted.remove.is_empty() {
        bail!("at least one environment variable must be provided");
    }
    let EnvironmentArguments { objects, way, write, containers: pattern, .. } = &*arguments;
    Changes { objects, way, write, operation: "env updated" }.make(connection, given, |named, object| {
        let known = containers::container_names(named.kind, object);
        if !known.iter().any(|name| containers::matches(pattern, name)) {
            eprintln!("warning: {} does not have any containers matching {pattern:?}", named.quoted());
        }
        containers::set_environment(named.kind, object, pattern, &wanted).map_err(anyhow::Error::msg)
    })
}

fn list(
    arguments: &EnvironmentArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let print = |named: &Named, object: &Value| {
        print!("{}", containers::listed_environment(named.kind, object, &arguments.containers));
    };
    if arguments.way.local {
        let Some(all) = arguments.objects.local()? else { return hand_over(given) };
        all.iter().for_each(|(named, object)| print(named, object));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(all) = arguments.objects.resolve(connection)? else { return hand_over(given) };
    connection.with(async |session| {
        each(&all, async |named| {
            print(named, &session.read(named).await?);
            Ok(())
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A variable for each key of a Secret or a ConfigMap.
async fn taken(
    session: &Session,
    source: &str,
    arguments: &EnvironmentArguments,
) -> anyhow::Result<Vec<Value>> {
    let (kind, name) = source.split_once('/').context("write secret/NAME or configmap/NAME")?;
    let (resource, reference) = match kind.to_ascii_lowercase().as_str() {
        "secret" | "secrets" => (SECRETS, "secretKeyRef"),
        "configmap" | "configmaps" | "cm" => (CONFIG_MAPS, "configMapKeyRef"),
        _ => bail!("write secret/NAME or configmap/NAME, not {source:?}"),
    };
    let object = session.find(&resource.namespaced(&session.namespace).name(name)).await?;
    let object = object
        .ok_or_else(|| anyhow!("Error from server (NotFound): {} {name:?} not found", resource.plural))?;
    let keys = object.get("data").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
    let meant = keys.filter(|key| arguments.keys.is_empty() || arguments.keys.contains(key));
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    Ok(meant
        .map(|key| {
            let variable = format!("{}{}", arguments.prefix, key.chars().map(letter).collect::<String>());
            json!({"name": variable, "valueFrom": {reference: {"name": name, "key": key}}})
        })
        .collect())
}

/// Reads `cpu=1,memory=1Gi`.
fn quantities(text: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    text.into_iter().flat_map(|text| text.split(',')).map(pair).collect()
}

fn resources(
    arguments: &ResourcesArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let ResourcesArguments { objects, limits, requests, containers: pattern, way, write } = arguments;
    let wanted =
        ResourceChange { limits: quantities(limits.as_deref())?, requests: quantities(requests.as_deref())? };
    if wanted.limits.is_empty() && wanted.requests.is_empty() {
        bail!("you must specify an update to requests or limits (in the form of --requests/--limits)");
    }
    let operation = "resource requirements updated";
    Changes { objects, way, write, operation }.make(connection, given, |named, object| {
        containers::set_resources(named.kind, object, pattern, &wanted).map_err(anyhow::Error::msg)
    })
}

fn account(
    arguments: &mut AccountArguments,
    connection: &Connection,
    given: &[OsString],
) -> anyhow::Result<ExitCode> {
    let account = arguments.objects.words_mut().pop().context("serviceaccount is required")?;
    let AccountArguments { objects, way, write } = &*arguments;
    let operation = "serviceaccount updated";
    Changes { objects, way, write, operation }.make(connection, given, |named, object| {
        Ok(containers::set_service_account(named.kind, object, &account))
    })
}
