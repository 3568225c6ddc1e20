//! Which cluster, namespace and user, by the flags that kubectl knows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use cluster::client;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Client, Config};

use super::served::Served;

/// The name of what the flags choose from a kubeconfig.
const CHOSEN: &str = "chosen";

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection")]
struct ConnectionFlags {
    /// The namespace; where none is given, that of the kubeconfig
    #[arg(short, long, global = true)]
    namespace: Option<String>,
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
    /// Skip verification of the API server's certificate (insecure)
    #[arg(long, global = true)]
    insecure_skip_tls_verify: bool,
    /// Name in the certificate of the API server
    #[arg(long, global = true)]
    tls_server_name: Option<String>,
    /// Timeout of a request, such as 30s; 0 uses the plugin's defaults
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

/// Flags of kubectl that the plugin accepts and ignores, so that scripts keep working.
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

/// Which cluster and namespace, and who asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// The namespace, where a flag names one.
    pub(super) namespace: Option<String>,
    flags: ConnectionFlags,
    /// The other flags that were given, for kubectl.
    given: Vec<OsString>,
}

impl Args for Connection {
    fn augment_args(command: Command) -> Command {
        ConnectionFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ConnectionFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Connection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = ConnectionFlags::from_arg_matches(matches)?;
        Ok(Self { namespace: flags.namespace.clone(), flags, given: given(matches) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of a command line but for the namespace, each with its value in one word.
fn given(matches: &ArgMatches) -> Vec<OsString> {
    let known = ConnectionFlags::augment_args(Command::new("flags"));
    let mut words = Vec::new();
    for argument in known.get_arguments() {
        let id = argument.get_id().as_str();
        let Some(long) = argument.get_long().filter(|long| *long != "namespace") else { continue };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            words.push(word);
        }
    }
    words
}

/// Reads `90s` or `5m`, and a number alone as seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| crate::arguments::duration(text))
}

/// How the plugin names itself to the API server.
const USER_AGENT: &str = "kubectl-kruise";

/// A connection to the cluster.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(super) served: Served,
}

impl Session {
    /// The same cluster, in another namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), client: self.client.clone(), served: self.served.clone() }
    }
}

/// Waits for the end of `work`.
fn complete<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A resolver of names that hangs would keep the runtime alive.
    runtime.shutdown_background();
    done
}

impl Connection {
    /// Does something in the cluster.
    pub(crate) fn with<T>(&self, work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        complete(self.connected(work))
    }

    /// Does something in the cluster that takes no longer than this.
    pub(super) fn within<T>(
        &self,
        timeout: Duration,
        work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        complete(async {
            tokio::time::timeout(timeout, self.connected(work))
                .await
                .context("the API server took too long")?
        })
    }

    async fn connected<T>(&self, work: impl AsyncFnOnce(&Session) -> anyhow::Result<T>) -> anyhow::Result<T> {
        cluster::client::install_cryptography();
        let configuration = self.configuration().await?;
        let namespace = self.namespace.as_deref().unwrap_or(&configuration.default_namespace).to_owned();
        let client = match self.flags.request_timeout {
            Duration::ZERO => client::connect(&configuration, USER_AGENT)?,
            timeout => client::connect_with_timeout(&configuration, USER_AGENT, timeout)?,
        };
        let served = Served::ask(&client).await;
        work(&Session { client, namespace, served }).await
    }

    /// The flags that were given, for kubectl.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let namespace = self.namespace.iter().map(|namespace| format!("--namespace={namespace}").into());
        namespace.chain(self.given.iter().cloned()).collect()
    }

    /// The names of the contexts of the kubeconfig.
    pub(super) fn contexts(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.kubeconfig()?.contexts.into_iter().map(|context| context.name).collect())
    }

    /// Where the API server is, and who asks.
    async fn configuration(&self) -> anyhow::Result<Config> {
        let chosen = self.chosen(self.kubeconfig()?, Config::incluster().ok().as_ref())?;
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(chosen, &options).await.context("the kubeconfig can't be used")
    }

    /// The kubeconfig that is meant: that of the flag, which must be there, or what there is of the files of `KUBECONFIG`
    /// or of the home directory.
    fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        if let Some(path) = &self.flags.kubeconfig {
            return read(path);
        }
        let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let mut paths: Vec<PathBuf> =
            std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
        if paths.is_empty() {
            paths.extend(std::env::home_dir().map(|home| home.join(".kube/config")));
        }
        let files = paths.iter().filter(|path| path.exists());
        files.map(|path| read(path)).try_fold(Kubeconfig::default(), |all, file| {
            all.merge(file?).context("the files of KUBECONFIG don't go together")
        })
    }

    /// The cluster, the user and the namespace that are meant, as a kubeconfig of one context. Where neither a flag nor the
    /// kubeconfig names a cluster, the service account of the Pod is used.
    fn chosen(&self, file: Kubeconfig, pod: Option<&Config>) -> anyhow::Result<Kubeconfig> {
        let flags = &self.flags;
        if flags.impersonate.is_none() && (!flags.as_group.is_empty() || flags.as_uid.is_some()) {
            bail!("--as-group and --as-uid need --as");
        }
        let name = flags.context.as_ref().or(file.current_context.as_ref()).filter(|name| !name.is_empty());
        let context = match name {
            Some(name) => {
                let found = file.contexts.into_iter().find(|one| one.name == *name);
                found
                    .and_then(|one| one.context)
                    .with_context(|| format!("context {name:?} does not exist"))?
            }
            None => Context::default(),
        };
        let cluster = flags.cluster_of(file.clusters, &context)?;
        let user = flags.user_of(file.auth_infos, &context)?;
        let is_in_pod = flags.server.is_none() && cluster.is_none() && context.cluster.is_empty();
        let (own_cluster, own_user) = pod.filter(|_| is_in_pod).map(of_pod).unwrap_or_default();
        let (mut cluster, mut user) = (cluster.unwrap_or(own_cluster), user.unwrap_or(own_user));
        flags.change_cluster(&mut cluster);
        flags.change_user(&mut user);
        if cluster.server.is_none() {
            bail!("no cluster is known: there is no kubeconfig, no --server and no service account of a Pod");
        }
        let namespace = context.namespace.or_else(|| Some(pod?.default_namespace.clone()));
        Ok(of_one(cluster, user, namespace))
    }
}

/// A kubeconfig of one context.
fn of_one(cluster: Cluster, user: AuthInfo, namespace: Option<String>) -> Kubeconfig {
    let name = CHOSEN.to_owned();
    let context =
        Context { cluster: name.clone(), user: Some(name.clone()), namespace, ..Context::default() };
    let cluster = NamedCluster { name: name.clone(), cluster: Some(cluster), ..NamedCluster::default() };
    let user = NamedAuthInfo { name: name.clone(), auth_info: Some(user), ..NamedAuthInfo::default() };
    let context = NamedContext { name: name.clone(), context: Some(context), ..NamedContext::default() };
    Kubeconfig {
        clusters: vec![cluster],
        auth_infos: vec![user],
        contexts: vec![context],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

/// The cluster of a Pod, and its service account.
fn of_pod(pod: &Config) -> (Cluster, AuthInfo) {
    let authority = pod.root_cert_file.as_ref().map(|path| path.display().to_string());
    let cluster = Cluster {
        server: Some(pod.cluster_url.to_string()),
        certificate_authority: authority,
        ..Cluster::default()
    };
    (cluster, pod.auth_info.clone())
}

fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| format!("{} can't be used", path.display()))
}

impl ConnectionFlags {
    /// The cluster of the flag, which must exist, or of the context.
    fn cluster_of(&self, all: Vec<NamedCluster>, context: &Context) -> anyhow::Result<Option<Cluster>> {
        let name = self.cluster.as_ref().unwrap_or(&context.cluster);
        match all.into_iter().find(|one| one.name == *name) {
            Some(found) => Ok(found.cluster),
            None if self.cluster.is_some() => bail!("cluster {name:?} does not exist"),
            None => Ok(None),
        }
    }

    /// The user of the flag, who must exist, or of the context.
    fn user_of(&self, all: Vec<NamedAuthInfo>, context: &Context) -> anyhow::Result<Option<AuthInfo>> {
        let Some(name) = self.user.as_ref().or(context.user.as_ref()) else { return Ok(None) };
        match all.into_iter().find(|one| one.name == *name) {
            Some(found) => Ok(found.auth_info),
            None if self.user.is_some() => bail!("auth info {name:?} does not exist"),
            None => Ok(None),
        }
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
            (user.token_file, user.auth_provider, user.exec) = (None, None, None);
            (user.username, user.password) = (None, None);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::connection_of;

    const FILE: &str = r#"{"current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "one", "namespace": "shop"}}, {"name": "b", "context": {"cluster": "two", "user": "u"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://one"}}, {"name": "two", "cluster": {"server": "https://two"}}],
        "users": [{"name": "u", "user": {"username": "u", "password": "p"}}]}"#;

    /// Server, namespace and user of the context that is chosen.
    fn chosen(
        words: &[&str],
        file: &str,
        pod: Option<&Config>,
    ) -> anyhow::Result<(String, String, AuthInfo)> {
        let file = Kubeconfig::from_yaml(file)?;
        let mut chosen = connection_of(words)?.chosen(file, pod)?;
        let context = chosen.contexts.remove(0).context.unwrap();
        let cluster = chosen.clusters.remove(0).cluster.unwrap();
        let user = chosen.auth_infos.remove(0).auth_info.unwrap();
        Ok((cluster.server.unwrap(), context.namespace.unwrap_or_default(), user))
    }

    #[test]
    fn flags_choose_from_the_kubeconfig_and_change_it() {
        let found = chosen(&[], FILE, None).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str()), ("https://one", "shop"));
        let (server, _, user) = chosen(&["--context=b", "--as", "x", "--as-group=g"], FILE, None).unwrap();
        assert_eq!((server.as_str(), user.username.as_deref()), ("https://two", Some("u")));
        assert_eq!(
            (user.impersonate.as_deref(), user.impersonate_groups),
            (Some("x"), Some(vec!["g".into()]))
        );
        // A context may name no user.
        let (server, _, user) = chosen(&["--cluster=two", "--token=t"], FILE, None).unwrap();
        assert_eq!((server.as_str(), user.token.is_some()), ("https://two", true));
        for (words, message) in [
            (["--context=x"], r#"context "x" does not exist"#),
            (["--cluster=x"], r#"cluster "x" does not exist"#),
            (["--user=x"], r#"auth info "x" does not exist"#),
            (["--as-uid=1"], "--as-group and --as-uid need --as"),
        ] {
            assert_eq!(chosen(&words, FILE, None).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn no_kubeconfig_is_needed() {
        let (server, namespace, user) =
            chosen(&["--server", "https://s", "--token", "t"], "{}", None).unwrap();
        assert_eq!((server.as_str(), namespace.as_str(), user.token.is_some()), ("https://s", "", true));
        assert!(chosen(&[], "{}", None).unwrap_err().to_string().starts_with("no cluster is known"));
        let mut pod = Config::new("https://pod".parse().unwrap());
        pod.default_namespace = "own".to_owned();
        pod.auth_info.token_file = Some("token".to_owned());
        let (server, namespace, user) = chosen(&["--as=x"], "{}", Some(&pod)).unwrap();
        assert_eq!((server.as_str(), namespace.as_str()), ("https://pod/", "own"));
        assert_eq!((user.token_file.as_deref(), user.impersonate.as_deref()), (Some("token"), Some("x")));
        // Its account is for its own cluster alone.
        let (server, _, user) = chosen(&["--server=https://s"], "{}", Some(&pod)).unwrap();
        assert_eq!((server.as_str(), user.token_file), ("https://s", None));
        assert_eq!(chosen(&[], FILE, Some(&pod)).unwrap().0, "https://one");
        assert!(chosen(&["--context=x"], "{}", Some(&pod)).is_err());
    }

    #[test]
    fn kubectl_gets_the_flags_that_were_given() {
        let words = ["-nshop", "--as-group", "a", "--as-group=b", "--insecure-skip-tls-verify", "-v=6"];
        let expected =
            ["--namespace=shop", "--as-group=a", "--as-group=b", "--insecure-skip-tls-verify=true", "--v=6"];
        assert_eq!(connection_of(&words).unwrap().flags(), expected);
    }
}
