//! `kutter finalizer`: the guard that the chart runs before an uninstall (spec 00 §6.2). Removing the
//! CRDs would remove every workload with them, so it fails while there are any.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Deserialize;

/// Workloads that must be gone: plural, version, words for the log.
const GUARDED: &[(&str, &str, &str)] = &[
    ("clonesets", "v1alpha1", "clonesets"),
    ("statefulsets", "v1alpha1", "advanced statefulsets"),
    ("statefulsets", "v1beta1", "advanced statefulsets"),
    ("daemonsets", "v1alpha1", "advanced daemonsets"),
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

/// Looks for workloads and says whether an uninstall may go on.
pub(crate) fn run(arguments: &FinalizerArguments) -> anyhow::Result<ExitCode> {
    crate::serve::install_cryptography();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let configuration = cluster::client::configuration(arguments.kubeconfig.as_deref()).await?;
        let client = cluster::client::connect(&configuration, "kruise-helm-hook")?;
        for (plural, version, words) in GUARDED {
            let path = format!("/apis/{}/{version}/{plural}?limit=1", api::APPS_GROUP);
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
