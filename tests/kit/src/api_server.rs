//! etcd and kube-apiserver, alone or with the controller manager and the scheduler.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, ServiceAccount};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::supervisor::Process;
use crate::{binaries, stored, wait_for, wait_within};

const ADMIN_TOKEN: &str = "kutter-admin";
/// The certificate of an API server and its authority, in its directory.
const CERTIFICATE: &str = "api-server.crt";
const CERTIFICATE_KEY: &str = "api-server.key";
/// The Service of the API server.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 202, 0, 1);
const START_DEADLINE: Duration = Duration::from_secs(180);
/// Objects that are applied side by side.
const APPLIED_AT_ONCE: usize = 8;
const COMMAND_DEADLINE: Duration = Duration::from_secs(300);

/// What an [`ApiServer`] is started with. The default is etcd and kube-apiserver with RBAC.
#[derive(Debug, Clone, Default)]
pub struct Options {
    feature_gates: Vec<String>,
    arguments: Vec<String>,
    controller_manager: bool,
    scheduler: bool,
    advertise: Option<(Ipv4Addr, u16)>,
    stored: Vec<Value>,
}

impl Options {
    /// Stores objects from the start, such as CRDs.
    #[must_use]
    pub fn storing(mut self, objects: Vec<Value>) -> Self {
        self.stored = objects;
        self
    }

    /// Sets a feature gate, in all components.
    #[must_use]
    pub fn feature_gate(mut self, name: &str, enabled: bool) -> Self {
        self.feature_gates.push(format!("{name}={enabled}"));
        self
    }

    /// Adds an argument of kube-apiserver, such as `--runtime-config=api/all=true`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Also runs the controller manager: deletion of namespaces, garbage collection, Deployments,
    /// and service accounts with their admission plugin.
    #[must_use]
    pub fn with_controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// Also runs the scheduler.
    #[must_use]
    pub fn with_scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// Listens at this address and port instead of the loopback, for nodes with networks of their own.
    pub(crate) fn advertise(mut self, address: Ipv4Addr, port: u16) -> Self {
        self.advertise = Some((address, port));
        self
    }
}

/// A running API server, with an administrator's access to it. Dropping it ends all its processes
/// and removes its files.
#[derive(Debug)]
pub struct ApiServer {
    kubeconfig: PathBuf,
    config: Config,
    /// None: an existing cluster that isn't ours.
    own: Option<Own>,
}

/// The part of an [`ApiServer`] that we started. Fields are dropped in order: the servers before etcd, the files last.
#[derive(Debug)]
struct Own {
    directory: PathBuf,
    options: Options,
    port: u16,
    api_server: Mutex<Option<Process>>,
    _helpers: Vec<Process>,
    etcd: Mutex<Option<Process>>,
    _janitor: Process,
}

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl Output {
    /// The standard output of a command that succeeded.
    ///
    /// # Panics
    /// When it failed, with what it printed.
    pub fn success(self) -> String {
        assert!(self.status.success(), "{}\nstdout: {}\nstderr: {}", self.status, self.stdout, self.stderr);
        self.stdout
    }

    /// The standard error of a command that failed, as expected.
    ///
    /// # Panics
    /// When it succeeded.
    pub fn failure(self) -> String {
        assert!(!self.status.success(), "the command succeeded\nstdout: {}", self.stdout);
        self.stderr
    }
}

impl ApiServer {
    /// Starts an API server of its own in a temporary directory and waits until it is ready
    /// (some seconds).
    ///
    /// # Panics
    /// When a component doesn't start, with the end of its log.
    pub async fn start(options: Options) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("kutter-api-")
            .tempdir()
            .expect("a temporary directory can be created")
            .keep(); // the janitor removes it
        Self::start_in(&directory, options).await
    }

    /// [`start`](Self::start) in a given directory, which is removed at the end.
    pub(crate) async fn start_in(directory: &Path, options: Options) -> Self {
        crate::install_crypto_provider();
        stored::put_into(directory, &options.stored).await;
        let server = Self::launch(directory, options).await;
        server.wait_established().await;
        server.wait_for_service_account("default").await;
        server
    }

    /// Starts an API server with the data that is in the directory, if there is any.
    pub(crate) async fn launch(directory: &Path, options: Options) -> Self {
        let (address, port) = options.advertise.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, free_port()));
        let kubeconfig = directory.join("kubeconfig");
        write_credentials(directory, address);
        fs::write(&kubeconfig, kubeconfig_text(address, port, &directory.join(CERTIFICATE)))
            .expect("the kubeconfig can be written");

        let janitor = Process::janitor(directory);
        let etcd = start_etcd(directory);
        let mut api_server = start_api_server(directory, &options, port);
        let config = read_config(&kubeconfig).await;
        wait_ready(&config, &mut api_server).await;

        let helpers = start_helpers(directory, &options, &kubeconfig);
        let own = Own {
            directory: directory.to_owned(),
            options,
            port,
            api_server: Mutex::new(Some(api_server)),
            _helpers: helpers,
            etcd: Mutex::new(Some(etcd)),
            _janitor: janitor,
        };
        Self { kubeconfig, config, own: Some(own) }
    }

    /// Uses the existing cluster of a kubeconfig file. [`stop`](Self::stop) panics with it.
    pub async fn existing(kubeconfig: &Path) -> Self {
        crate::install_crypto_provider();
        Self { kubeconfig: kubeconfig.to_owned(), config: read_config(kubeconfig).await, own: None }
    }

    /// The file with an administrator's access.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The directory with the logs (`etcd.log`, `kube-apiserver.log`, …) of an API server of ours.
    pub fn directory(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.directory.as_path())
    }

    /// PEM of the authority that an API server of ours has.
    ///
    /// # Panics
    /// With an existing cluster.
    pub fn authority(&self) -> String {
        fs::read_to_string(self.own().directory.join(CERTIFICATE)).expect("the certificate is ours")
    }

    /// An administrator's configuration, to be changed or given to the product.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A new client with an administrator's rights. It works only on the tokio runtime of the
    /// caller, so each test takes its own.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).expect("the kubeconfig makes a client")
    }

    /// A new client that acts as another user (impersonation), such as
    /// `system:serviceaccount:NAMESPACE:NAME`, in the groups given.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut config = self.config();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        Client::try_from(config).expect("the kubeconfig makes a client")
    }

    /// Creates a namespace with a unique name that begins with `prefix`. With a controller manager,
    /// Pods can be created in it at once: its service account is there.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn namespace(&self, prefix: &str) -> String {
        let namespace = Namespace {
            metadata: kube::api::ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..Default::default()
            },
            ..Default::default()
        };
        let namespaces = Api::<Namespace>::all(self.client());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        let name = created.expect("a namespace can be created").name_any();
        self.wait_for_service_account(&name).await;
        name
    }

    /// Pods need the account `default` of their namespace, when there is somebody to make it.
    pub(crate) async fn wait_for_service_account(&self, namespace: &str) {
        if self.own.as_ref().is_some_and(|own| own.options.controller_manager) {
            let accounts = Api::<ServiceAccount>::namespaced(self.client(), namespace);
            wait_for("the namespace's service account", async || accounts.get("default").await.map(drop))
                .await;
        }
    }

    /// Creates the Service `name` so that calls of the API server to its port 443 (webhooks) arrive
    /// at `port` of this machine.
    pub async fn route_service(&self, namespace: &str, name: &str, port: u16) {
        let client = self.client();
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        });
        crate::objects::create(&client, service).await.expect("a Service can be created");
        self.add_endpoint(namespace, name, port).await;
    }

    /// Lets calls of a Service arrive at `port` of this machine too.
    pub async fn add_endpoint(&self, namespace: &str, service: &str, port: u16) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{service}-{port}"), "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [host_address()], "conditions": {"ready": true}}],
        });
        let client = self.client();
        crate::objects::create(&client, slice).await.expect("an EndpointSlice can be created");
        mirror_endpoints(&client, namespace, service).await;
    }

    /// Runs the real kubectl as an administrator.
    pub async fn kubectl<I, S>(&self, arguments: I) -> Output
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run("kubectl", arguments, "").await
    }

    /// [`kubectl`](Self::kubectl) with a standard input, for `apply -f -`.
    pub async fn kubectl_with_input<I, S>(&self, arguments: I, input: &str) -> Output
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run("kubectl", arguments, input).await
    }

    /// Applies objects as `kubectl apply --server-side` does, in a fraction of its time: Namespaces first, then all others
    /// side by side. Waits until the kinds that they define can be used.
    pub async fn apply(&self, objects: &[Value]) {
        let client = self.client();
        let (namespaces, others): (Vec<_>, Vec<_>) =
            objects.iter().partition(|object| object["kind"] == "Namespace");
        for objects in [namespaces, others] {
            let applied = objects.into_iter().map(|object| crate::objects::apply(&client, object));
            let applied = futures::stream::iter(applied).buffer_unordered(APPLIED_AT_ONCE);
            applied.try_collect::<Vec<_>>().await.expect("an object can be applied");
        }
        self.wait_established().await;
    }

    /// [`apply`](Self::apply), of YAML.
    pub async fn apply_yaml(&self, manifests: &str) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("YAML");
        self.apply(&objects).await;
    }

    /// Waits until all kinds that CRDs define can be used.
    pub async fn wait_established(&self) {
        let client = self.client();
        let get = async |path: &str| {
            let request = http::Request::get(path).body(Vec::new()).expect("a path");
            client.request::<Value>(request).await.map_err(|error| error.to_string())
        };
        let definitions = wait_for("the CRDs to be established", async || {
            let definitions = get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await?;
            let all = definitions["items"].as_array().into_iter().flatten();
            let is_established =
                |definition| crate::objects::condition(definition, "Established")["status"] == "True";
            let missing: Vec<_> = all.filter(|definition| !is_established(definition)).collect();
            match missing.first() {
                Some(definition) => Err(definition.to_string()),
                None => Ok(definitions),
            }
        })
        .await;
        // The API server serves them a moment later.
        let mut expected: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for definition in definitions["items"].as_array().into_iter().flatten() {
            let spec = &definition["spec"];
            for version in spec["versions"].as_array().into_iter().flatten() {
                if version["served"] == true {
                    let steps =
                        [&spec["group"], &version["name"]].map(|step| step.as_str().unwrap_or_default());
                    expected.entry(steps.join("/")).or_default().push(spec["names"]["plural"].clone());
                }
            }
        }
        for (version, plurals) in expected {
            wait_for("the kinds to be served", async || {
                let served = get(&format!("/apis/{version}")).await?;
                let resources = served["resources"].as_array().into_iter().flatten();
                let names: Vec<_> = resources.map(|resource| &resource["name"]).collect();
                if plurals.iter().all(|plural| names.contains(&plural)) {
                    Ok(())
                } else {
                    Err(served.to_string())
                }
            })
            .await;
        }
    }

    /// Runs the real helm as an administrator.
    pub async fn helm<I, S>(&self, arguments: I) -> Output
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run("helm", arguments, "").await
    }

    async fn run<I, S>(&self, program: &str, arguments: I, input: &str) -> Output
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let path = binaries::path(program);
        let mut child = tokio::process::Command::new(path)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let input = input.to_owned();
        let feed = tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        let output = tokio::time::timeout(COMMAND_DEADLINE, child.wait_with_output())
            .await
            .unwrap_or_else(|_| panic!("{program} took more than {COMMAND_DEADLINE:?}"))
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        drop(feed.await); // a command may well end without reading its input
        Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Kills kube-apiserver: an outage until [`restart`](Self::restart). etcd keeps the data.
    ///
    /// # Panics
    /// With an existing cluster, which isn't ours to stop.
    pub fn stop(&self) {
        drop(self.own().api_server.lock().expect("no test panicked here").take());
    }

    /// Stops kube-apiserver if it runs, starts it again on the same port with the same certificate,
    /// and waits until it is ready.
    ///
    /// # Panics
    /// With an existing cluster.
    pub async fn restart(&self) {
        self.stop();
        let own = self.own();
        let mut api_server = start_api_server(&own.directory, &own.options, own.port);
        wait_ready(&self.config, &mut api_server).await;
        *own.api_server.lock().expect("no test panicked here") = Some(api_server);
    }

    /// Keeps a copy of all that is stored, for [`restore`](Self::restore). Both servers are away meanwhile.
    ///
    /// # Panics
    /// With an existing cluster.
    pub async fn back_up(&self) {
        self.restart_etcd("cp -a etcd backup");
        self.restart().await;
    }

    /// Brings back what was stored when it was [backed up](Self::back_up), with its versions.
    ///
    /// # Panics
    /// With an existing cluster.
    pub async fn restore(&self) {
        self.restart_etcd("rm -r etcd && mv backup etcd");
        self.restart().await;
    }

    /// Kills kube-apiserver and etcd: what is stored changes no more.
    pub(crate) fn stop_storing(&self) {
        self.stop();
        drop(self.own().etcd.lock().expect("no test panicked here").take());
    }

    /// Stops kube-apiserver and etcd, runs a command in their directory, and starts etcd again.
    fn restart_etcd(&self, command: &str) {
        self.stop_storing();
        let own = self.own();
        let status =
            std::process::Command::new("sh").args(["-c", command]).current_dir(&own.directory).status();
        assert!(status.expect("sh runs").success(), "{command}");
        *own.etcd.lock().expect("no test panicked here") = Some(start_etcd(&own.directory));
    }

    fn own(&self) -> &Own {
        self.own.as_ref().expect("an existing cluster is not ours to stop")
    }
}

/// A port of this machine that is free and stays ours until this process ends, also for a server that is
/// down for a moment: it lies outside the range of outgoing connections, and other test processes pass over
/// it because of a locked file.
pub fn free_port() -> u16 {
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const PORTS: u16 = 12_000;
    let locks = std::env::temp_dir().join("kutter-ports");
    fs::create_dir_all(&locks).expect("a directory for locks can be made");
    let first = std::process::id() as u16 % PORTS;
    for _ in 0..PORTS {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS) % PORTS;
        let lock = File::create(locks.join(port.to_string())).expect("a lock file can be created");
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            TAKEN.lock().expect("no test panicked here").push(lock);
            return port;
        }
    }
    panic!("none of {PORTS} ports is free");
}

/// An address of this machine that isn't the loopback, which EndpointSlices refuse.
pub fn host_address() -> std::net::IpAddr {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket can be bound");
    // Nothing is sent: this only asks for the route.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).expect("this machine has a default route");
    socket.local_addr().expect("a connected socket has an address").ip()
}

/// Writes the Endpoints of a Service as its EndpointSlices are: API servers before 1.34 call by the former.
pub async fn mirror_endpoints(client: &Client, namespace: &str, service: &str) {
    if binaries::kubernetes_minor() >= 34 {
        return;
    }
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    // The API server may be away; then nobody calls.
    let Ok(slices) = slices.list(&of_service).await else { return };
    let subsets = slices.items.iter().map(|slice| {
        let ready = |endpoint: &&Endpoint| {
            endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
        };
        let addresses = slice.endpoints.iter().filter(ready).flat_map(|endpoint| &endpoint.addresses);
        let addresses: Vec<_> = addresses.map(|address| json!({"ip": address})).collect();
        json!({"addresses": addresses, "ports": slice.ports})
    });
    let subsets: Vec<_> = subsets.filter(|subset| subset["addresses"] != json!([])).collect();
    // No controller has to make slices of it.
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": service, "labels": labels}, "subsets": subsets});
    let force = PatchParams::apply("kit").force();
    drop(
        Api::<Endpoints>::namespaced(client.clone(), namespace)
            .patch(service, &force, &Patch::Apply(endpoints))
            .await,
    );
}

async fn read_config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("the kubeconfig makes a configuration")
}

async fn wait_ready(config: &Config, api_server: &mut Process) {
    let client = Client::try_from(config.clone()).expect("the kubeconfig makes a client");
    wait_within(START_DEADLINE, "the API server to be ready", async || {
        api_server.assert_running();
        // It says that it is ready before it has made the namespace.
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let request = http::Request::get(path).body(Vec::new()).expect("a valid request");
            client.request_text(request).await?;
        }
        Ok::<_, kube::Error>(())
    })
    .await;
}

fn write_credentials(directory: &Path, address: Ipv4Addr) {
    let write = |name: &str, text: String| {
        fs::write(directory.join(name), text).expect("a file of the API server can be written");
    };
    write("tokens.csv", format!("{ADMIN_TOKEN},admin,admin,system:masters\n"));
    let key = KeyPair::generate().expect("a key");
    write("service-account.key", key.serialize_pem());
    write("service-account.pub", key.public_key_pem());
    let (certificate, key) = certificate(address).expect("a certificate");
    write(CERTIFICATE, certificate);
    write(CERTIFICATE_KEY, key);
}

/// A certificate with its authority, and its key. kube-apiserver makes an RSA one for itself: with that a tenth of its time
/// would go into the beginning of connections.
fn certificate(address: Ipv4Addr) -> Result<(String, String), rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let addresses = [address, Ipv4Addr::LOCALHOST, SERVICE].map(|address| address.to_string());
    let parameters =
        CertificateParams::new(names.map(str::to_owned).into_iter().chain(addresses).collect::<Vec<_>>())?;
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, &authority)?;
    Ok((certificate.pem() + &authority.pem(), key.serialize_pem()))
}

fn kubeconfig_text(address: Ipv4Addr, port: u16, certificate: &Path) -> String {
    let cluster =
        json!({"server": format!("https://{address}:{port}"), "certificate-authority": certificate});
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "kutter",
        "clusters": [{"name": "kutter", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "kutter", "context": {"cluster": "kutter", "user": "admin"}}],
    });
    format!("{text:#}\n")
}

fn start_etcd(directory: &Path) -> Process {
    // Unix sockets: no ports that tests side by side could fight for.
    let file = |name: &str| directory.join(name).display().to_string();
    let arguments = [
        format!("--data-dir={}", file("etcd")),
        format!("--listen-client-urls=unix://{}", file("etcd.sock")),
        format!("--listen-peer-urls=unix://{}", file("etcd-peer.sock")),
        // Has to be a host and a port; nobody asks for it.
        "--advertise-client-urls=http://localhost:2379".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Process::start(&binaries::path("etcd"), arguments, &directory.join("etcd.log"))
}

fn start_api_server(directory: &Path, options: &Options, port: u16) -> Process {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut arguments = vec![
        format!("--etcd-servers=unix://{}", file("etcd.sock")),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file(CERTIFICATE)),
        format!("--tls-private-key-file={}", file(CERTIFICATE_KEY)),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.202.0.0/16".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged".to_owned(),
        "--enable-aggregator-routing".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--max-requests-inflight=2000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
    ];
    match options.advertise {
        Some((address, _)) => {
            arguments.extend([format!("--bind-address={address}"), format!("--advertise-address={address}")]);
        }
        None => arguments
            .extend(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"].map(str::to_owned)),
    }
    if !options.controller_manager {
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    arguments.extend(feature_gates(options));
    arguments.extend(options.arguments.iter().cloned());
    Process::start(&binaries::path("kube-apiserver"), arguments, &directory.join("kube-apiserver.log"))
}

fn start_helpers(directory: &Path, options: &Options, kubeconfig: &Path) -> Vec<Process> {
    let start = |name: &str, arguments: Vec<String>| {
        let common = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let arguments = common.into_iter().chain(arguments).chain(feature_gates(options));
        Process::start(&binaries::path(name), arguments, &directory.join(format!("{name}.log")))
    };
    let mut helpers = Vec::new();
    if options.controller_manager {
        let arguments = vec![
            format!("--service-account-private-key-file={}", directory.join("service-account.key").display()),
            format!("--root-ca-file={}", directory.join(CERTIFICATE).display()),
            "--use-service-account-credentials".to_owned(),
        ];
        helpers.push(start("kube-controller-manager", arguments));
    }
    if options.scheduler {
        helpers.push(start("kube-scheduler", Vec::new()));
    }
    helpers
}

fn feature_gates(options: &Options) -> Option<String> {
    (!options.feature_gates.is_empty())
        .then(|| format!("--feature-gates={}", options.feature_gates.join(",")))
}
