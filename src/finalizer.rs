//! `kutter finalizer`: the guard that the chart runs before an uninstall
//! (docs/behaviour/server.md#uninstall-guard). Removing the CRDs would remove every workload with them, so it
//! fails while there are any.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use cluster::Resource;
use serde::Deserialize;

const ALPHA: &str = "apps.kruise.io/v1alpha1";
const BETA: &str = "apps.kruise.io/v1beta1";

/// Workloads that must be gone, and words for the log.
const GUARDED: [(Resource<'_>, &str); 4] = [
    (Resource::new(ALPHA, "clonesets", "CloneSet"), "clonesets"),
    (Resource::new(ALPHA, "statefulsets", "StatefulSet"), "advanced statefulsets"),
    (Resource::new(BETA, "statefulsets", "StatefulSet"), "advanced statefulsets"),
    (Resource::new(ALPHA, "daemonsets", "DaemonSet"), "advanced daemonsets"),
];

/// Arguments of `kutter finalizer`.
#[derive(Debug, Args)]
pub(crate) struct FinalizerArguments {
    /// Kubeconfig to use outside a cluster
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<serde::de::IgnoredAny>,
}

/// Looks for workloads and says whether an uninstall may continue.
pub(crate) fn run(arguments: &FinalizerArguments) -> anyhow::Result<ExitCode> {
    cluster::client::install_cryptography();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let configuration = cluster::client::configuration(arguments.kubeconfig.as_deref()).await?;
        let client = cluster::client::connect(&configuration, "kruise-helm-hook")?;
        for (resource, words) in GUARDED {
            let path = resource.all().query("limit=1");
            let list = cluster::write::get(&client, &path)
                .await
                .with_context(|| format!("{words} can't be listed, so the uninstall stops"))?;
            let Some(list) = list else { continue };
            if !serde_json::from_str::<List>(&list)?.items.is_empty() {
                eprintln!("there still exists some {words} in the cluster");
                return Ok(ExitCode::FAILURE);
            }
        }
        println!("cluster is clean, ready to delete kruise");
        Ok(ExitCode::SUCCESS)
    })
}
