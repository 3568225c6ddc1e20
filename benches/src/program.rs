//! The program under test: a process that answers on ports of its own.

use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kit::wait_within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{Core, Process};
use crate::stand::TIMEOUT;

/// Without CPU time beyond this share of it, the program has nothing to do.
const QUIET: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(20));

/// A running replica.
#[derive(Debug)]
pub struct Program {
    process: Process,
    health: u16,
    metrics: u16,
}

impl Program {
    /// The server at a cluster, with further arguments.
    pub fn start(kutter: &Path, port: u16, kubeconfig: &Path, log: &Path, further: &[&str]) -> Self {
        let arguments = ["--kubeconfig".as_ref(), kubeconfig.as_os_str()];
        let arguments = arguments.into_iter().chain(further.iter().map(OsStr::new));
        Self::serve(kutter, Core::Server, port, log, arguments)
    }

    /// The server on a core, with these arguments.
    pub fn serve<'a>(
        kutter: &Path,
        core: Core,
        port: u16,
        log: &Path,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> Self {
        let (health, metrics) = (kit::api_server::free_port(), kit::api_server::free_port());
        let folder = log.with_extension("files");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut command = Command::new(kutter);
        command
            .arg("serve")
            .arg(format!("--health-probe-addr=:{health}"))
            .arg(format!("--metrics-addr=:{metrics}"))
            .arg("--drain-duration=0s")
            .arg(format!("--protection-log-path={}", folder.display()))
            .args(arguments)
            .env("WEBHOOK_PORT", port.to_string())
            .env("WEBHOOK_CERT_DIR", folder.join("certificates"));
        Self::spawn(core, command, (health, metrics), log)
    }

    /// The agent of a node whose runtime has its socket in the directory `sockets`.
    pub fn agent(kutter: &Path, node: &str, sockets: &Path, kubeconfig: &Path, log: &Path) -> Self {
        let metrics = kit::api_server::free_port();
        let mut command = Command::new(kutter);
        command
            .arg("node")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--socket-directory={}", sockets.display()))
            .arg(format!("--addr=127.0.0.1:{metrics}"))
            .env("NODE_NAME", node);
        Self::spawn(Core::Server, command, (metrics, metrics), log)
    }

    fn spawn(core: Core, mut command: Command, (health, metrics): (u16, u16), log: &Path) -> Self {
        let process = Process::start(core, command.envs(crate::ENVIRONMENT), log, None);
        Self { process, health, metrics }
    }

    /// Waits until it shows its metrics.
    pub async fn wait_answering(&self) {
        self.wait("the program to answer", self.metrics, "/metrics", |_| Ok(())).await;
    }

    /// Waits until it is ready.
    pub async fn wait_ready(&self) {
        self.wait("kutter to be ready", self.health, "/readyz", |answer| {
            if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer.to_owned()) }
        })
        .await;
    }

    /// Waits until a cache holds so many objects.
    pub async fn wait_cached(&self, cache: &str, objects: usize) {
        let metric = format!(r#"kutter_cache_objects{{cache="{cache}","#);
        let what = format!("{objects} objects in cache {cache}");
        self.wait(&what, self.metrics, "/metrics", |metrics| {
            let line = metrics.lines().find(|line| line.starts_with(&metric)).unwrap_or_default();
            if line.ends_with(&format!(" {objects}")) { Ok(()) } else { Err(line.to_owned()) }
        })
        .await;
    }

    /// Waits until it leads.
    pub async fn wait_leading(&self) {
        self.wait("kutter to lead", self.metrics, "/metrics", |metrics| {
            let leads = metrics.lines().any(|line| line == "kruise_manager_is_leader 1");
            if leads { Ok(()) } else { Err("it does not lead".to_owned()) }
        })
        .await;
    }

    /// Waits until it has nothing to do.
    pub async fn wait_quiet(&self) {
        loop {
            let before = self.cpu();
            tokio::time::sleep(QUIET.0).await;
            if self.cpu().saturating_sub(before) <= QUIET.1 {
                return;
            }
        }
    }

    /// Waits until what it answers passes the check.
    async fn wait(&self, what: &str, port: u16, path: &str, check: impl Fn(&str) -> Result<(), String>) {
        wait_within(TIMEOUT, what, async || {
            self.assert_running();
            check(&get(port, path).await.map_err(|error| error.to_string())?)
        })
        .await;
    }

    /// Only what the operating system knows of it.
    pub fn into_process(self) -> Process {
        self.process
    }

    /// Asks it to end, and waits until it has: a leader gives its Lease back.
    pub fn stop(self) {
        self.process.stop();
    }
}

impl Deref for Program {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// GET over plain HTTP: the whole answer.
async fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
