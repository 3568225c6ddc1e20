//! `version`: of the plugin, of the API server, and of the manager that runs.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use cluster::resource::Resource;
use cluster::write;
use serde_json::{Map, Value};

use super::connection::{Connection, Session};
use super::failures::refused;
use super::terminal::print;
use super::written::print_value;

const DEPLOYMENTS: Resource<'_> = Resource::new("apps/v1", "deployments", "Deployment");
/// The Deployment of the manager, which has the name of OpenKruise's.
const MANAGER: &str = "kruise-controller-manager";

/// Arguments of `version`.
#[derive(Debug, Args)]
pub(super) struct VersionArguments {
    /// Only that of the plugin
    #[arg(long)]
    client: bool,
    /// The namespace that the manager is installed in
    #[arg(long, default_value = api::DEFAULT_NAMESPACE)]
    install_namespace: String,
    /// How to print it
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For programs
    Json,
    /// For programs
    Yaml,
}

/// Prints the versions.
pub(super) fn run(arguments: &VersionArguments, connection: &Connection) -> anyhow::Result<ExitCode> {
    let mut versions = Map::new();
    versions.insert("clientVersion".to_owned(), env!("CARGO_PKG_VERSION").into());
    if !arguments.client {
        let (server, manager) = connection.with(async |session| of_cluster(session, arguments).await)?;
        versions.extend([("serverVersion".to_owned(), server), ("managerImage".to_owned(), manager)]);
    }
    let versions = Value::Object(versions);
    if let Some(output) = arguments.output {
        print_value(&versions, output == Output::Yaml)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = |name: &str| versions.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    print(format_args!("Client Version: {}\n", text("clientVersion")))?;
    if !arguments.client {
        let (server, manager) = (text("serverVersion"), text("managerImage"));
        print(format_args!("Server Version: {server}\nManager Image: {manager}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_cluster(session: &Session, arguments: &VersionArguments) -> anyhow::Result<(Value, Value)> {
    let server =
        write::get(&session.client, "/version").await.map_err(|error| refused(&error))?.unwrap_or_default();
    let server: Value = serde_json::from_str(&server)?;
    let path = DEPLOYMENTS.namespaced(&arguments.install_namespace).name(MANAGER);
    // Not everybody may see the manager.
    let manager = session.find(&path).await.ok().flatten();
    let image =
        manager.as_ref().and_then(|manager| manager.pointer("/spec/template/spec/containers/0/image"));
    Ok((server.get("gitVersion").cloned().unwrap_or_default(), image.cloned().unwrap_or_default()))
}
