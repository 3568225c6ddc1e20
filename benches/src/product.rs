//! `kutter serve` as a child process.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use benches::load;
use benches::process::{Core, Process};
use benches::review::Template;
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Run;

const START_DEADLINE: Duration = Duration::from_secs(120);

/// A running admission server.
#[derive(Debug)]
pub(crate) struct Product {
    process: Process,
    address: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
}

impl Product {
    /// Pinned to the server's core, with objects from files: the same admission code, and no watches
    /// in the figures.
    pub(crate) fn with_objects(
        run: &Run,
        directory: &Path,
        objects: impl IntoIterator<Item = Value>,
    ) -> Self {
        fs::create_dir_all(directory).expect("a folder can be made");
        let documents: Vec<String> = objects.into_iter().map(|object| object.to_string()).collect();
        fs::write(directory.join("objects.yaml"), documents.join("\n---\n")).expect("a file can be written");
        let arguments = ["--objects".as_ref(), directory.as_os_str()];
        Self::start(
            run,
            Core::Server,
            kit::api_server::free_port(),
            &directory.with_extension("log"),
            &arguments,
        )
    }

    /// With a cluster; listens on `port`.
    pub(crate) fn with_cluster(run: &Run, core: Core, port: u16, kubeconfig: &Path, log: &Path) -> Self {
        Self::start(run, core, port, log, &["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
    }

    fn start(run: &Run, core: Core, port: u16, log: &Path, arguments: &[&std::ffi::OsStr]) -> Self {
        let health = kit::api_server::free_port();
        let metrics = kit::api_server::free_port();
        let protection_log = log.with_extension("protection");
        fs::create_dir_all(&protection_log).expect("a folder can be made");
        let mut command = Command::new(&run.kutter);
        command
            .arg("serve")
            .args(arguments)
            .arg(format!("--health-probe-addr=:{health}"))
            .arg(format!("--metrics-addr=:{metrics}"))
            .arg("--feature-gates=ResourcesDeletionProtection=true")
            .arg("--drain-duration=0s")
            .arg("--legacy-paths")
            .arg("--protection-log-path")
            .arg(protection_log)
            .envs(benches::ENVIRONMENT)
            .env("WEBHOOK_PORT", port.to_string())
            .env("WEBHOOK_CERT_DIR", log.with_extension("certificates"));
        let local = |port| (Ipv4Addr::LOCALHOST, port).into();
        Self {
            process: Process::start(core, &command, log, None),
            address: local(port),
            health: local(health),
            metrics: local(metrics),
        }
    }

    /// Sends the review again and again until the answer is as wanted.
    pub(crate) async fn wait_for_answer(
        &mut self,
        path: &str,
        review: Vec<u8>,
        wanted: impl Fn(&Bytes) -> bool,
    ) -> Bytes {
        let review = Template::new(review).fill(0);
        kit::wait_within(START_DEADLINE, "the answer of kutter", async || {
            self.process.assert_running();
            let answer = load::ask(self.address, path, review.clone()).await?;
            if wanted(&answer) { Ok(answer) } else { Err(String::from_utf8_lossy(&answer).into_owned()) }
        })
        .await
    }

    /// Waits until `/readyz` says so.
    pub(crate) async fn wait_ready(&mut self) {
        kit::wait_within(START_DEADLINE, "kutter to be ready", async || {
            self.process.assert_running();
            get(self.health, "/readyz").await
        })
        .await;
    }

    /// Whether it leads.
    pub(crate) async fn leads(&mut self) -> bool {
        self.process.assert_running();
        let metrics = get(self.metrics, "/metrics").await.unwrap_or_default();
        metrics.lines().any(|line| line == "kruise_manager_is_leader 1")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn into_server(self) -> (Process, SocketAddr) {
        (self.process, self.address)
    }

    /// Lets it end in order, which gives the Lease back.
    pub(crate) fn stop(self) {
        self.process.stop();
    }
}

/// GET over plain HTTP; the body.
///
/// # Errors
/// Nobody listens, or the status is not 200; says what came.
async fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
}
