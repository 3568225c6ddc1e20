//! The program under test as a process, and what the operating system knows of it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kit::wait_within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stand;

const TIMEOUT: Duration = Duration::from_secs(300);
/// Clock ticks per second of /proc/PID/stat, a constant of Linux's interface.
const TICKS: f64 = 100.0;
/// Without CPU time beyond this share of it, the program has nothing to do.
const QUIET: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(20));

/// Which memory is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What the process has now.
    Now,
    /// The most that it had so far.
    Peak,
}

/// A running replica on one core, killed when it is dropped.
pub struct Program {
    child: Child,
    health: u16,
    metrics: u16,
}

impl Program {
    /// The server, with further arguments.
    pub fn start(kutter: &Path, port: u16, kubeconfig: &Path, log: &Path, further: &[&str]) -> Self {
        let (health, metrics) = (kit::api_server::free_port(), kit::api_server::free_port());
        let folder = log.with_extension("files");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut command = pinned(kutter);
        command
            .arg("serve")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--health-probe-addr=:{health}"))
            .arg(format!("--metrics-addr=:{metrics}"))
            .arg("--drain-duration=0s")
            .arg(format!("--protection-log-path={}", folder.display()))
            .args(further)
            .env("WEBHOOK_PORT", port.to_string())
            .env("WEBHOOK_CERT_DIR", folder.join("certificates"));
        Self::spawn(command, (health, metrics), log)
    }

    /// The agent of a node whose runtime has its socket in the directory `sockets`.
    pub fn agent(kutter: &Path, node: &str, sockets: &Path, kubeconfig: &Path, log: &Path) -> Self {
        let metrics = kit::api_server::free_port();
        let mut command = pinned(kutter);
        command
            .arg("node")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--socket-directory={}", sockets.display()))
            .arg(format!("--addr=127.0.0.1:{metrics}"))
            .env("NODE_NAME", node);
        Self::spawn(command, (metrics, metrics), log)
    }

    fn spawn(mut command: Command, (health, metrics): (u16, u16), log: &Path) -> Self {
        let output = File::create(log).expect("the log opens");
        let child = command
            .envs(crate::ENVIRONMENT)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .spawn()
            .expect("setpriv and taskset (util-linux) are installed");
        Self { child, health, metrics }
    }

    /// Waits until it shows its metrics.
    pub async fn wait_answering(&self) {
        wait_within(TIMEOUT, "the program to answer", async || get(self.metrics, "/metrics").await.map(drop))
            .await;
    }

    /// Waits until it is ready.
    pub async fn wait_ready(&self) {
        wait_within(TIMEOUT, "kutter to be ready", async || {
            let answer = get(self.health, "/readyz").await.map_err(|error| error.to_string())?;
            if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
        })
        .await;
    }

    /// Waits until a cache holds so many objects.
    pub async fn wait_cached(&self, cache: &str, objects: usize) {
        let metric = format!(r#"kutter_cache_objects{{cache="{cache}","#);
        wait_within(stand::TIMEOUT, &format!("{objects} objects in cache {cache}"), async || {
            let metrics = get(self.metrics, "/metrics").await.map_err(|error| error.to_string())?;
            let line = metrics.lines().find(|line| line.starts_with(&metric)).unwrap_or_default();
            if line.ends_with(&format!(" {objects}")) { Ok(()) } else { Err(line.to_owned()) }
        })
        .await;
    }

    /// Waits until it leads.
    pub async fn wait_leading(&self) {
        wait_within(TIMEOUT, "kutter to lead", async || {
            let metrics = get(self.metrics, "/metrics").await.map_err(|error| error.to_string())?;
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

    /// User and system time so far.
    pub fn cpu(&self) -> Duration {
        let stat = self.read("stat");
        // The second field is the name in parentheses, which may hold blanks.
        let fields = stat.rsplit_once(')').expect("stat has a name").1;
        let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().unwrap());
        Duration::from_secs_f64((ticks.next().unwrap() + ticks.next().unwrap()) / TICKS)
    }

    /// Memory in RAM in bytes.
    pub fn memory(&self, memory: Memory) -> u64 {
        let name = match memory {
            Memory::Now => "VmRSS:",
            Memory::Peak => "VmHWM:",
        };
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the process runs");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// How often its first thread has gone to rest so far, which is how often it was woken.
    pub fn rests(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.expect("the process runs").trim().parse().expect("a number")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("the process runs")
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) {
        let signalled = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(signalled.expect("kill runs").success());
        self.child.wait().expect("a child of ours");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command that runs the program on one core, and ends with us, in whatever way we do.
fn pinned(kutter: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "--cpu-list", &core()]).arg(kutter);
    command
}

/// The first core that we may use.
fn core() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("cores");
    list.trim().split([',', '-']).next().unwrap_or_default().to_owned()
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
