//! Which cluster, namespace and user, by the flags that kubectl knows.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use cluster::client;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::runtime::Runtime;

use super::served::Served;

/// Which cluster and namespace, and who asks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// The namespace; where none is given, that of the kubeconfig
    #[arg(short, long, global = true)]
    pub(super) namespace: Option<String>,
    /// Kubeconfig to use instead of the one that kubectl would use
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true)]
    context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, global = true)]
    cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true)]
    user: Option<String>,
    /// Address of the API server
    #[arg(short, long, global = true)]
    server: Option<String>,
    /// Bearer token
    #[arg(long, global = true, hide_env_values = true)]
    token: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true)]
    impersonate: Option<String>,
    /// Group to act as; may be given several times
    #[arg(long, global = true)]
    as_group: Vec<String>,
    /// UID to act as
    #[arg(long, global = true)]
    as_uid: Option<String>,
    /// File with the certificates of the authority of the API server
    #[arg(long, global = true)]
    certificate_authority: Option<PathBuf>,
    /// File with the certificate of the user
    #[arg(long, global = true)]
    client_certificate: Option<PathBuf>,
    /// File with the key of the user
    #[arg(long, global = true)]
    client_key: Option<PathBuf>,
    /// Believe any certificate of the API server
    #[arg(long, global = true)]
    insecure_skip_tls_verify: bool,
    /// Name in the certificate of the API server
    #[arg(long, global = true)]
    tls_server_name: Option<String>,
    /// How long the API server may be silent, such as 30s; 0 for as long as the plugin thinks right
    #[arg(long, global = true, default_value = "0", value_parser = seconds)]
    request_timeout: Duration,
    /// User name for basic authentication
    #[arg(long, global = true)]
    username: Option<String>,
    /// Password for basic authentication
    #[arg(long, global = true, hide_env_values = true)]
    password: Option<String>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags that scripts pass, and that kubectl alone makes something of.
#[derive(Clone, Debug, Default, Args)]
struct WithoutEffect {
    /// Where kubectl keeps answers; without effect here
    #[arg(long, global = true, hide = true)]
    cache_dir: Option<PathBuf>,
    /// Without effect: answers are not compressed
    #[arg(long, global = true, hide = true)]
    disable_compression: bool,
    /// Without effect: any version will do
    #[arg(long, global = true, hide = true)]
    match_server_version: bool,
    /// Without effect
    #[arg(long, global = true, hide = true)]
    warnings_as_errors: bool,
    /// Without effect
    #[arg(long, global = true, hide = true)]
    profile: Option<String>,
    /// Without effect
    #[arg(long, global = true, hide = true)]
    profile_output: Option<PathBuf>,
    /// Without effect: nothing is logged
    #[arg(short, long, global = true, hide = true)]
    v: Option<u8>,
}

/// Reads `90s` or `5m`, and a number alone as seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| crate::arguments::duration(text))
}

/// How the plugin names itself to the API server.
const USER_AGENT: &str = "kubectl-kruise";

/// A connection to the cluster.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) served: Served,
}

impl Session {
    /// The same cluster, in another namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), client: self.client.clone(), served: self.served.clone() }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl Connection {
    /// Does something in the cluster.
    pub(super) fn with<T>(&self, work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        runtime()?.block_on(self.connected(work))
    }

    /// Does something in the cluster that takes no longer than this.
    pub(super) fn within<T>(
        &self,
        patience: Duration,
        work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let bounded = async { tokio::time::timeout(patience, self.connected(work)).await };
        runtime()?.block_on(bounded).context("the API server took too long")?
    }

    async fn connected<T>(&self, work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        crate::serve::install_cryptography();
        let configuration = self.configuration().await?;
        let namespace = self.namespace.as_deref().unwrap_or(&configuration.default_namespace).to_owned();
        let client = match self.request_timeout {
            Duration::ZERO => client::connect(&configuration, USER_AGENT)?,
            patience => client::connect_with_patience(&configuration, USER_AGENT, patience)?,
        };
        let served = Served::ask(&client).await;
        work(&Session { client, namespace, served }).await
    }

    /// The flags that were given, for kubectl.
    pub(super) fn flags(&self) -> Vec<OsString> {
        let mut flags = Vec::new();
        let words = [
            ("--namespace", &self.namespace),
            ("--context", &self.context),
            ("--cluster", &self.cluster),
            ("--user", &self.user),
            ("--server", &self.server),
            ("--token", &self.token),
            ("--as", &self.impersonate),
            ("--as-uid", &self.as_uid),
            ("--tls-server-name", &self.tls_server_name),
            ("--username", &self.username),
            ("--password", &self.password),
        ];
        for (flag, value) in words {
            flags.extend(value.as_ref().into_iter().flat_map(|value| [flag.into(), value.into()]));
        }
        let files = [
            ("--kubeconfig", &self.kubeconfig),
            ("--certificate-authority", &self.certificate_authority),
            ("--client-certificate", &self.client_certificate),
            ("--client-key", &self.client_key),
        ];
        for (flag, file) in files {
            flags.extend(file.as_ref().into_iter().flat_map(|file| [flag.into(), file.into()]));
        }
        flags.extend(self.as_group.iter().flat_map(|group| ["--as-group".into(), group.into()]));
        if !self.request_timeout.is_zero() {
            flags.push(format!("--request-timeout={}s", self.request_timeout.as_secs().max(1)).into());
        }
        if self.insecure_skip_tls_verify {
            flags.push("--insecure-skip-tls-verify".into());
        }
        flags
    }

    /// Where the API server is, and who asks.
    async fn configuration(&self) -> anyhow::Result<Config> {
        let file = match &self.kubeconfig {
            Some(path) => {
                Kubeconfig::read_from(path).with_context(|| format!("{} can't be used", path.display()))?
            }
            None => match Kubeconfig::read() {
                Ok(file) => file,
                // In a Pod there is none, and its account is used.
                Err(_) if self.server.is_none() => return Ok(client::configuration(None).await?),
                Err(_) => Kubeconfig::default(),
            },
        };
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let file = self.changed(file);
        Config::from_custom_kubeconfig(file, &options).await.context("the kubeconfig can't be used")
    }

    /// The kubeconfig with what the flags say.
    fn changed(&self, mut file: Kubeconfig) -> Kubeconfig {
        for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            self.change_cluster(cluster);
        }
        for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            self.change_user(user);
        }
        file
    }

    fn change_cluster(&self, cluster: &mut Cluster) {
        if self.server.is_some() {
            cluster.server.clone_from(&self.server);
        }
        if self.tls_server_name.is_some() {
            cluster.tls_server_name.clone_from(&self.tls_server_name);
        }
        if let Some(path) = &self.certificate_authority {
            cluster.certificate_authority = Some(path.display().to_string());
            cluster.certificate_authority_data = None;
        }
        if self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = Some(true);
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
    }

    fn change_user(&self, user: &mut AuthInfo) {
        if let Some(token) = &self.token {
            user.token = Some(token.clone().into());
        }
        if self.username.is_some() {
            user.username.clone_from(&self.username);
        }
        if let Some(password) = &self.password {
            user.password = Some(password.clone().into());
        }
        if self.impersonate.is_some() {
            user.impersonate.clone_from(&self.impersonate);
            user.impersonate_groups = Some(self.as_group.clone());
            user.impersonate_uid.clone_from(&self.as_uid);
        }
        if let Some(path) = &self.client_certificate {
            user.client_certificate = Some(path.display().to_string());
            user.client_certificate_data = None;
        }
        if let Some(path) = &self.client_key {
            user.client_key = Some(path.display().to_string());
            user.client_key_data = None;
        }
    }
}
