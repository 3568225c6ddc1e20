//! The program under test: installed on an API server and started as a process.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use kit::{ApiServer, DEADLINE, Output, wait_within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

/// The install namespace.
pub const NAMESPACE: &str = "kruise-system";
/// The gates that most tests run with.
pub const GATES: &str = "ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true,\
     ResourceDistributionGate=true,ImagePullJobGate=true,RestartOnConfiguration=true";

const READY: Duration = Duration::from_secs(120);

/// How [`Product::start`] starts the program.
#[derive(Clone, Debug)]
pub struct Options {
    program: PathBuf,
    gates: String,
    drain: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    user: Option<String>,
    server: Option<String>,
    port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: program(),
            gates: GATES.to_owned(),
            drain: "1s".to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            user: None,
            server: None,
            port: None,
        }
    }
}

impl Options {
    /// Starts another program, such as that of an earlier release.
    pub fn program(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.program);
        self
    }

    /// Replaces the feature gates.
    pub fn gates(mut self, gates: &str) -> Self {
        gates.clone_into(&mut self.gates);
        self
    }

    /// Goes on accepting for this long after the stop signal.
    pub fn drain(mut self, duration: &str) -> Self {
        duration.clone_into(&mut self.drain);
        self
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Acts as this user, with the rights that this user has, instead of as an administrator.
    pub fn user(mut self, name: &str) -> Self {
        self.user = Some(name.to_owned());
        self
    }

    /// Reaches the API server at this address, where nobody asks who it is.
    pub fn server(mut self, url: &str) -> Self {
        self.server = Some(url.to_owned());
        self
    }

    /// Listens for webhooks at this port, to which a Service leads already.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running replica of the program.
pub struct Product {
    child: Child,
    /// HTTPS port of the webhooks.
    pub port: u16,
    /// HTTP port of the probes.
    pub health: u16,
    /// Port of the metrics.
    pub metrics: u16,
    directory: TempDir,
    _watchdog: Watchdog,
}

/// Kills a process when it is dropped or when the test process ends, in whatever way: values in statics
/// are never dropped.
struct Watchdog(std::process::Child);

impl Watchdog {
    fn over(id: u32) -> Self {
        let watchdog = std::process::Command::new("sh")
            .args(["-c", "read -r _; kill -KILL \"$1\"", "watchdog", &id.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self(watchdog.unwrap())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Starts an API server with the CRDs and the install namespace.
pub async fn server(options: kit::Options) -> ApiServer {
    ApiServer::start(options.storing(manifests(|_| ()).await)).await
}

/// Applies the CRDs and the install namespace, and waits until the kinds can be used.
pub async fn install(server: &ApiServer) {
    install_with(server, |_| ()).await;
}

/// [`install`], with a change of each CRD.
pub async fn install_with(server: &ApiServer, change: impl Fn(&mut Value)) {
    server.apply(&manifests(change).await).await;
}

async fn manifests(change: impl Fn(&mut Value)) -> Vec<Value> {
    let crds = run(&["crds"]).await.success();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&crds).unwrap();
    objects.iter_mut().for_each(change);
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"control-plane": "openkruise"}}}));
    objects
}

/// One replica on the API server that all tests of this process share, reached through its Service.
pub async fn shared() -> &'static Product {
    static SHARED: OnceCell<Product> = OnceCell::const_new();
    SHARED
        .get_or_init(async || {
            let server = kit::shared().await;
            install(server).await;
            let options = Options::default().argument("--exit-hook-image=kutter:test");
            Product::serve(server, options).await
        })
        .await
}

/// Runs a subcommand of the program to its end.
pub async fn run(arguments: &[&str]) -> Output {
    run_of(&program(), arguments).await
}

/// [`run`], of another program.
pub async fn run_of(program: &Path, arguments: &[&str]) -> Output {
    output(Command::new(program).args(arguments)).await
}

/// Runs a subcommand with text on standard input.
pub async fn run_with_input(arguments: &[&str], input: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), input).unwrap();
    output(Command::new(program()).args(arguments).stdin(std::fs::File::open(file.path()).unwrap())).await
}

async fn output(command: &mut Command) -> Output {
    let output = command.output().await.unwrap();
    Output {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The built program.
pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_kutter"))
}

impl Product {
    /// Starts a replica behind the Service of an installed API server and waits until it is ready.
    pub async fn serve(server: &ApiServer, options: Options) -> Self {
        let mut product = Self::start(server, options).await;
        server.route_service(NAMESPACE, "kruise-webhook-service", product.port).await;
        product.wait_ready().await;
        product
    }

    /// Starts a further replica behind the Service and waits until it is ready.
    pub async fn join(server: &ApiServer, options: Options) -> Self {
        let mut product = Self::start(server, options).await;
        product.wait_ready().await;
        server.add_endpoint(NAMESPACE, "kruise-webhook-service", product.port).await;
        product
    }

    /// Starts a replica without waiting for anything.
    pub async fn start(server: &ApiServer, options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = options.port.unwrap_or_else(kit::api_server::free_port);
        let health = kit::api_server::free_port();
        let metrics = kit::api_server::free_port();
        let log = std::fs::File::create(directory.path().join("output.log")).unwrap();
        let mut kubeconfig = server.kubeconfig().to_owned();
        if options.user.is_some() || options.server.is_some() {
            let text = std::fs::read_to_string(&kubeconfig).unwrap();
            let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
            if let Some(user) = &options.user {
                config["users"][0]["user"]["as"] = user.as_str().into();
            }
            if let Some(url) = &options.server {
                config["clusters"][0]["cluster"] = serde_json::json!({"server": url});
            }
            kubeconfig = directory.path().join("kubeconfig");
            std::fs::write(&kubeconfig, config.to_string()).unwrap();
        }
        let child = Command::new(&options.program)
            .arg("serve")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--feature-gates={}", options.gates))
            .arg(format!("--health-probe-addr=127.0.0.1:{health}"))
            .arg(format!("--metrics-addr=127.0.0.1:{metrics}"))
            .arg(format!("--protection-log-path={}", directory.path().display()))
            .arg(format!("--drain-duration={}", options.drain))
            .args(&options.arguments)
            .env("WEBHOOK_PORT", port.to_string())
            .env("WEBHOOK_CERT_DIR", directory.path().join("certificates"))
            .env("POD_NAMESPACE", NAMESPACE)
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let watchdog = Watchdog::over(child.id().expect("the program runs"));
        Self { child, port, health, metrics, directory, _watchdog: watchdog }
    }

    /// Waits until `/readyz` is 200.
    ///
    /// # Panics
    /// It does not within two minutes, with the end of the program's output.
    pub async fn wait_ready(&mut self) {
        let health = self.health;
        let directory = self.directory.path().to_owned();
        wait_within(READY, "the program to be ready", async || match get(health, "/readyz").await {
            Ok((200, _)) => Ok(()),
            answer => Err(format!("{answer:?}\n{}", end_of_log(&directory))),
        })
        .await;
    }

    /// Status and body of `/readyz`.
    pub async fn readiness(&self) -> Result<(u16, String), String> {
        get_patiently(self.health, "/readyz").await
    }

    /// Status and body of `/healthz`.
    pub async fn liveness(&self) -> Result<(u16, String), String> {
        get_patiently(self.health, "/healthz").await
    }

    /// Whether it leads; false where it does not answer.
    pub async fn leads(&self) -> bool {
        let answer = get(self.metrics, "/metrics").await;
        answer.is_ok_and(|(_, metrics)| metrics.contains("kruise_manager_is_leader 1"))
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> String {
        get_patiently(self.metrics, "/metrics").await.unwrap().1
    }

    /// The lines of `protection.log`.
    pub fn protection_log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("protection.log")).unwrap_or_default()
    }

    /// What the program printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("output.log")).unwrap_or_default()
    }

    /// A folder of this replica.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the program runs")
    }

    /// Sends the stop signal.
    pub fn terminate(&self) {
        let id = self.id().to_string();
        assert!(std::process::Command::new("kill").arg(id).status().unwrap().success());
    }

    /// Sends the stop signal and waits for the end.
    pub async fn stop(mut self) -> ExitStatus {
        self.terminate();
        self.wait_exit().await
    }

    /// Waits for the program to end by itself.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        tokio::time::timeout(Duration::from_secs(90), self.child.wait())
            .await
            .expect("the program ends")
            .unwrap()
    }

    /// Ends the program at once.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn end_of_log(directory: &Path) -> String {
    let log = std::fs::read_to_string(directory.join("output.log")).unwrap_or_default();
    let start = log.len().saturating_sub(3_000);
    log.get(start..).unwrap_or(&log).to_owned()
}

/// A plain HTTP/1.1 GET on this machine, which is answered within 5 s.
pub async fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    get_within(Duration::from_secs(5), port, path).await
}

/// [`get`], for those who would rather wait than fail.
async fn get_patiently(port: u16, path: &str) -> Result<(u16, String), String> {
    get_within(DEADLINE, port, path).await
}

async fn get_within(limit: Duration, port: u16, path: &str) -> Result<(u16, String), String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let work = async {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(limit, work)
        .await
        .map_err(|_| format!("no answer in {limit:?}"))?
        .map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
    Ok((status, body.to_owned()))
}
