//! `kubectl kruise set`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use cluster::resource::{CONFIG_MAPS, SECRETS};
use plugin::containers::environment::{
    EnvironmentChange, Store, Stores, list_environment, parted, set_environment, stores,
};
use plugin::containers::{self, ResourceChange};
use plugin::edit;
use serde_json::Value;
use values::json_patch::Patch;

use super::connection::{Connection, Session};
use super::failures::{Failures, each, not_found};
use super::target::{Named, ObjectArguments};
use super::words::command_line;
use super::written::{Change, WriteArguments};
use super::{Call, standard_input};

/// Arguments of `set`.
#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Set images of containers: TYPE NAME CONTAINER=IMAGE..., or TYPE/NAME CONTAINER=IMAGE...
    Image(NamedValueArguments),
    /// Set environment variables: TYPE/NAME K=V..., and K- for each to remove
    Env(EnvironmentArguments),
    /// Set requests and limits of containers
    Resources(ResourcesArguments),
    /// Set the account that Pods run as: TYPE NAME ACCOUNT, or TYPE/NAME ACCOUNT
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(NamedValueArguments),
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "kubectl reads them")] Vec<OsString>),
}

/// How the objects are changed.
#[derive(Debug, Args)]
struct WayArguments {
    /// Change the objects of the files and print them; no request is sent
    #[arg(long, requires = "filename")]
    local: bool,
    /// Keep the command in annotation kubernetes.io/change-cause
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    write: WriteArguments,
}

/// Objects, with a value among their names.
#[derive(Debug, Args)]
struct NamedValueArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    #[command(flatten)]
    way: WayArguments,
}

#[derive(Debug, Args)]
struct EnvironmentArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// K=V, or K- to remove K; - reads lines from the standard input
    #[arg(short, long, allow_hyphen_values = true)]
    env: Vec<String>,
    /// secret/NAME or configmap/NAME, of which each key becomes a variable
    #[arg(long)]
    from: Option<String>,
    /// The keys to take with --from; all where none is given
    #[arg(long, value_delimiter = ',')]
    keys: Vec<String>,
    /// Text to put before the names of the variables
    #[arg(long, default_value = "")]
    prefix: String,
    /// The containers; * matches any characters
    #[arg(short, long, default_value = "*")]
    containers: String,
    /// Show the variables and set none
    #[arg(long)]
    list: bool,
    /// With --list: show the values that come from Secrets, ConfigMaps and metadata
    #[arg(long)]
    resolve: bool,
    /// Whether a variable that is there gets another value
    #[arg(long, default_value = "true")]
    overwrite: bool,
    #[command(flatten)]
    way: WayArguments,
}

#[derive(Debug, Args)]
struct ResourcesArguments {
    #[command(flatten)]
    objects: ObjectArguments,
    /// Limits, such as cpu=1,memory=1Gi
    #[arg(long, default_value = "")]
    limits: String,
    /// Requests, such as cpu=1,memory=1Gi
    #[arg(long, default_value = "")]
    requests: String,
    /// The containers; * matches any characters
    #[arg(short, long, default_value = "*")]
    containers: String,
    #[command(flatten)]
    way: WayArguments,
}

/// Sets what is meant.
pub(super) fn run(arguments: &mut SetArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    match &mut arguments.what {
        What::Image(arguments) => image(arguments, call),
        What::Env(arguments) => environment(arguments, call),
        What::Resources(arguments) => resources(arguments, call),
        What::ServiceAccount(arguments) => account(arguments, call),
        What::Other(_) => call.hand_over(),
    }
}

/// What is changed, and how.
struct Changes<'a> {
    objects: &'a ObjectArguments,
    way: &'a WayArguments,
    /// What is said of each object that changed.
    operation: &'static str,
}

impl Changes<'_> {
    /// The change with its cause, where that is kept.
    fn change(&self, object: &Value, patch: Option<Patch>) -> Change {
        let patch = patch.map(|mut patch| {
            if self.way.record {
                patch.extend(edit::cause(object, &command_line()));
            }
            patch
        });
        Change::new(patch, self.operation)
    }

    /// Changes each object, and follows the rollouts where that is wanted.
    fn make(
        &self,
        call: Call<'_>,
        decide: impl Fn(&Named, &Value) -> anyhow::Result<Option<Patch>>,
    ) -> anyhow::Result<ExitCode> {
        let decide = |named: &Named, object: &Value| Ok(self.change(object, decide(named, object)?));
        if self.way.local {
            let Some(all) = self.objects.local()? else { return call.hand_over() };
            self.way.write.change_local(&all, decide)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(all) = self.objects.resolve(call.connection)? else { return call.hand_over() };
        call.connection.with(async |session| {
            let decide = async |named: &Named, object: &Value| decide(named, object);
            session.change_all(&all, &self.way.write, decide).await
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

fn image(arguments: &mut NamedValueArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
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
    let NamedValueArguments { objects, way } = &*arguments;
    Changes { objects, way, operation: "image updated" }.make(call, |named, object| {
        containers::set_images(named.kind, object, &images).map_err(anyhow::Error::msg)
    })
}

fn environment(arguments: &mut EnvironmentArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let words = arguments.objects.words_mut();
    let (objects, variables) = parted(words).map_err(anyhow::Error::msg)?;
    *words = objects;
    if !arguments.keys.is_empty() && arguments.from.is_none() {
        bail!("when specifying --keys, a configmap or secret must be provided with --from");
    }
    if arguments.list {
        return list(arguments, call);
    }
    let wanted = wanted(arguments, &variables, call.connection)?;
    let EnvironmentArguments { objects, way, containers: pattern, .. } = &*arguments;
    Changes { objects, way, operation: "env updated" }.make(call, |named, object| {
        let known = containers::container_names(named.kind, object);
        let patch = set_environment(named.kind, object, pattern, &wanted).map_err(anyhow::Error::msg)?;
        if !known.iter().any(|name| containers::matches(pattern, name)) {
            eprintln!("warning: {} does not have any containers matching {pattern:?}", named.quoted());
        }
        Ok(patch)
    })
}

/// How the environment is to change, by the words about variables and the flags.
fn wanted(
    arguments: &EnvironmentArguments,
    variables: &[String],
    connection: &Connection,
) -> anyhow::Result<EnvironmentChange> {
    let words = [&arguments.env, variables].concat();
    let reads_input = words.iter().any(|word| word == "-");
    let input = if reads_input { String::from_utf8(standard_input()?.to_vec())? } else { String::new() };
    let wanted = EnvironmentChange::read(&words, &input, arguments.overwrite);
    let mut wanted = wanted.map_err(anyhow::Error::msg)?;
    if let Some(source) = &arguments.from {
        if arguments.way.local {
            bail!("--from asks the API server for the keys, which --local does not");
        }
        let (store, name) = Store::read(source).map_err(anyhow::Error::msg)?;
        let object =
            connection.with(async |session| read_store(session, &session.namespace, store, name).await)?;
        store.variables(name, &object, &arguments.keys).into_iter().for_each(|taken| wanted.add(taken));
    }
    wanted.put_before_names(&arguments.prefix);
    if wanted.is_empty() {
        bail!("at least one environment variable must be provided");
    }
    Ok(wanted)
}

/// A Secret or a ConfigMap.
async fn read_store(session: &Session, namespace: &str, store: Store, name: &str) -> anyhow::Result<Value> {
    let resource = match store {
        Store::Secret => SECRETS,
        Store::ConfigMap => CONFIG_MAPS,
    };
    let found = session.find(&resource.namespaced(namespace).name(name)).await?;
    found.ok_or_else(|| not_found(format!("{} {name:?}", resource.plural)))
}

fn list(arguments: &EnvironmentArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let print = |named: &Named, object: &Value, stores: Option<&Stores>| {
        let listing = list_environment(named.kind, object, &arguments.containers, stores);
        let listing = listing.map_err(anyhow::Error::msg)?;
        super::terminal::print(listing.text)?;
        let mut failures = Failures::default();
        for failure in listing.failures {
            failures.keep::<()>(Err(anyhow!(failure)));
        }
        failures.end()
    };
    if arguments.way.local {
        if arguments.resolve {
            bail!("--resolve asks the API server for the values, which --local does not");
        }
        let Some(all) = arguments.objects.local()? else { return call.hand_over() };
        all.iter().try_for_each(|(named, object)| print(named, object, None))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(all) = arguments.objects.resolve(call.connection)? else { return call.hand_over() };
    call.connection.with(async |session| {
        each(&all, async |named| {
            let object = session.read(named).await?;
            if !arguments.resolve {
                return print(named, &object, None);
            }
            let needed = stores(named.kind, &object, &arguments.containers);
            let mut found = Stores::new();
            for (store, name) in needed {
                let object = read_store(session, named.namespace(session), store, &name).await;
                found.insert((store, name), object.map_err(|error| error.to_string()));
            }
            print(named, &object, Some(&found))
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn resources(arguments: &ResourcesArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let ResourcesArguments { objects, limits, requests, containers: pattern, way } = arguments;
    let wanted = ResourceChange::read(limits, requests).map_err(anyhow::Error::msg)?;
    Changes { objects, way, operation: "resource requirements updated" }.make(call, |named, object| {
        containers::set_resources(named.kind, object, pattern, &wanted).map_err(anyhow::Error::msg)
    })
}

fn account(arguments: &mut NamedValueArguments, call: Call<'_>) -> anyhow::Result<ExitCode> {
    let account = arguments.objects.words_mut().pop().context("serviceaccount is required")?;
    let NamedValueArguments { objects, way } = &*arguments;
    Changes { objects, way, operation: "serviceaccount updated" }.make(call, |named, object| {
        containers::set_service_account(named.kind, object, &account).map_err(anyhow::Error::msg)
    })
}
