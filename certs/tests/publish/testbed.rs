//! An API server with the install namespace and the definitions, and replicas of the publisher.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use admission::callers::{Call, Callers};
use admission::endpoint::entries;
use admission::registration::ConfigurationKind;
use admission::rotation::Step;
use api::features::{Feature, FeatureGates};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{
    CallError, CertificateMetrics, CertificateSettings, Certificates, Clock, Material, Probe, Status,
    carry_out,
};
use cluster::events::Recorder;
use cluster::queue::QueueMetrics;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::{ApiServer, DEADLINE, Options, wait_for};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use values::segment::{Segment, split};

pub(crate) const MUTATING: &str = "kruise-mutating-webhook-configuration";
pub(crate) const VALIDATING: &str = "kruise-validating-webhook-configuration";
pub(crate) const SECRET: &str = "kruise-webhook-certs";
pub(crate) const HOST: &str = "kruise-webhook-service.kruise-system.svc";
/// The time of uptake in these tests.
pub(crate) const UPTAKE: SignedDuration = SignedDuration::from_secs(3);

/// Metrics of one replica.
pub(crate) fn metrics() -> CertificateMetrics {
    let registry = prometheus::Registry::new();
    CertificateMetrics::register(&registry, QueueMetrics::register(&registry).unwrap()).unwrap()
}

/// An API server with the definitions and the install namespace.
pub(crate) struct Testbed {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
}

/// The names of the entries of a configuration that belong to these gates, in their order there.
pub(crate) fn entries_of(kind: ConfigurationKind, gates: &FeatureGates) -> Vec<&'static str> {
    let served = entries(kind).iter().filter(|entry| entry.endpoint.is_served(gates));
    served.map(|entry| entry.name).collect()
}

impl Testbed {
    pub(crate) async fn start() -> Self {
        let server = ApiServer::start(Options::default()).await;
        let client = server.client();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}});
        server.kubectl_with_input(["create", "-f", "-"], &namespace.to_string()).await.success();
        let definitions: Vec<&str> = api::crds::ALL.iter().map(|definition| definition.yaml).collect();
        server.kubectl_with_input(["create", "-f", "-"], &definitions.join("\n---\n")).await.success();
        Self { server, client }
    }

    pub(crate) fn settings(&self) -> CertificateSettings {
        let gates = FeatureGates::default().with(Feature::ResourcesDeletionProtection, true);
        let mut settings = CertificateSettings::from_environment(|_| None, gates).unwrap();
        settings.timing.uptake = UPTAKE;
        settings
    }

    /// A replica that reaches its Service at once.
    pub(crate) fn replica(&self, settings: CertificateSettings) -> Replica {
        self.replica_with(settings, always(Ok), Arc::new(Timestamp::now))
    }

    pub(crate) fn replica_with(&self, settings: CertificateSettings, probe: Probe, clock: Clock) -> Replica {
        let recorder = Recorder::new(self.client.clone(), "test", None);
        Replica(certs::start_with(self.client.clone(), settings, recorder, metrics(), probe, clock))
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "kruise-system")
    }

    pub(crate) async fn secret(&self) -> Secret {
        self.secrets().get(SECRET).await.unwrap()
    }

    pub(crate) async fn bundle(&self) -> String {
        text(&self.secret().await, "ca-cert.pem")
    }

    pub(crate) async fn store(&self, material: &Material) {
        let data = json!({
            "ca-cert.pem": material.authorities, "ca-key.pem": material.authority_key,
            "cert.pem": material.certificate, "key.pem": material.key,
            "tls.crt": material.certificate, "tls.key": material.key,
        });
        let secret = json!({"metadata": {"name": SECRET}, "stringData": data});
        self.secrets()
            .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
            .await
            .unwrap();
    }

    /// The webhooks of both configurations that are always published.
    pub(crate) async fn webhooks(&self) -> Vec<Value> {
        let mutating =
            Api::<MutatingWebhookConfiguration>::all(self.client.clone()).get_opt(MUTATING).await.unwrap();
        let validating = Api::<ValidatingWebhookConfiguration>::all(self.client.clone())
            .get_opt(VALIDATING)
            .await
            .unwrap();
        let lists = [json!(mutating)["webhooks"].clone(), json!(validating)["webhooks"].clone()];
        lists.iter().flat_map(|list| list.as_array().cloned().unwrap_or_default()).collect()
    }

    /// An entry, where it is there.
    pub(crate) async fn webhook(&self, name: &str) -> Option<Value> {
        self.webhooks().await.into_iter().find(|webhook| webhook["name"] == name)
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.webhooks().await.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The stanzas of all definitions that convert by webhook.
    pub(crate) async fn conversions(&self) -> Vec<Value> {
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        let list = definitions.list(&ListParams::default()).await.unwrap();
        let conversions = list.iter().map(|definition| json!(definition.spec.conversion));
        conversions.filter(|conversion| conversion["strategy"] == "Webhook").collect()
    }

    /// How everything is called.
    pub(crate) async fn calls(&self) -> Vec<Call> {
        let webhooks = self.webhooks().await.into_iter().map(|webhook| webhook["clientConfig"].clone());
        let conversions = self.conversions().await.into_iter();
        let configs =
            webhooks.chain(conversions.map(|conversion| conversion["webhook"]["clientConfig"].clone()));
        let paths = configs.map(|config| config["service"]["path"].as_str().unwrap().to_owned());
        paths.map(|called| (split(&called).0, split(&called).1.to_owned())).collect()
    }

    /// Waits until everything is called behind one segment, which is none of `old`.
    pub(crate) async fn called_behind_another(&self, old: &[Segment]) -> Segment {
        wait_for("the segment to be everywhere", async || {
            let mut segments: Vec<_> = self.calls().await.into_iter().map(|(segment, _)| segment).collect();
            segments.sort();
            segments.dedup();
            match segments.as_slice() {
                [Some(segment)] if !old.contains(segment) => Ok(*segment),
                segments => Err(segments.len()),
            }
        })
        .await
    }

    /// All published bundles, as PEM.
    pub(crate) async fn published(&self) -> Vec<String> {
        let webhooks =
            self.webhooks().await.into_iter().map(|webhook| webhook["clientConfig"]["caBundle"].clone());
        let conversions = self.conversions().await;
        let conversions =
            conversions.iter().map(|conversion| conversion["webhook"]["clientConfig"]["caBundle"].clone());
        webhooks.chain(conversions).map(|bundle| decode(&bundle)).collect()
    }

    pub(crate) async fn assert_published(&self, bundle: &str) {
        wait_for("the bundle to be everywhere", async || {
            let published = self.published().await;
            if published.iter().all(|published| published == bundle) { Ok(()) } else { Err(published) }
        })
        .await;
    }

    pub(crate) async fn patch_webhooks(&self, patch: Value) {
        let configurations = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        configurations.patch(MUTATING, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        let events = Api::<Event>::all(self.client.clone()).list(&ListParams::default()).await.unwrap();
        events.into_iter().filter_map(|event| event.reason).collect()
    }
}

pub(crate) struct Replica(pub(crate) Certificates);

impl Drop for Replica {
    fn drop(&mut self) {
        self.0.task.abort();
    }
}

impl Replica {
    pub(crate) async fn published(&mut self) {
        self.until(|status| status.published).await;
    }

    pub(crate) async fn registered(&mut self) {
        self.until(|status| status.registered).await;
    }

    /// Waits until the callers are as `holds` says.
    pub(crate) async fn answers(&mut self, holds: impl FnMut(&Callers) -> bool) {
        let waiting = tokio::time::timeout(DEADLINE, self.0.callers.wait_for(holds)).await;
        drop(waiting.unwrap().unwrap());
    }

    /// Waits until the status is as `holds` says.
    pub(crate) async fn until(&mut self, holds: impl FnMut(&Status) -> bool) {
        let waiting = tokio::time::timeout(DEADLINE, self.0.status.wait_for(holds)).await;
        let in_time = waiting.map(|status| drop(status.unwrap())).is_ok();
        assert!(in_time, "waited {DEADLINE:?}; at last: {:?}", *self.0.status.borrow());
    }

    /// Answers reviews of these paths, and 404 to others; the port.
    pub(crate) async fn review(&self, known: &'static [&'static str]) -> u16 {
        let config =
            rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(self.0.resolver.clone());
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = vec![0; 4096];
                // A caller times out soon, and asks again.
                let Ok(length) = stream.read(&mut request).await else { continue };
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let called = request.split(' ').nth(1).unwrap_or_default();
                let knows = request.starts_with("POST ") && known.contains(&split(called).1);
                let body = if knows { r#"{"response":{"uid":"self-check"}}"# } else { "" };
                let status = if knows { "200 OK" } else { "404 Not Found" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        port
    }

    /// Answers TLS handshakes, and nothing else, with this replica's certificate.
    pub(crate) async fn listen(&self) -> SocketAddr {
        let config =
            rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(self.0.resolver.clone());
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok()
                    {
                    }
                });
            }
        });
        address
    }
}

pub(crate) fn always(answer: impl Fn(()) -> Result<(), CallError> + Send + Sync + Copy + 'static) -> Probe {
    Arc::new(move |_, _| Box::pin(async move { answer(()) }))
}

pub(crate) fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data.get(key).map(|bytes| bytes.0.clone()).unwrap_or_default()).unwrap()
}

pub(crate) fn decode(bundle: &Value) -> String {
    String::from_utf8(STANDARD.decode(bundle.as_str().unwrap_or_default()).unwrap()).unwrap()
}

/// A handshake that trusts `bundle`, kept open.
pub(crate) async fn connect(
    address: SocketAddr,
    bundle: &str,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, std::io::Error> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certs::certificates(bundle) {
        roots.add(certificate).unwrap();
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(HOST).unwrap();
    let stream = TcpStream::connect(address).await?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

pub(crate) async fn echoes(stream: &mut tokio_rustls::client::TlsStream<TcpStream>) -> bool {
    let mut byte = [0];
    stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut byte).await.is_ok()
}

/// Material that was made `age` ago: a certificate is valid for ten years.
pub(crate) fn aged(age: SignedDuration) -> Material {
    let then = Timestamp::now() - age;
    carry_out(&Step::Create { bundle: vec![] }, &Material::default(), &[], HOST, then).unwrap()
}

pub(crate) const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
pub(crate) const DAY: SignedDuration = SignedDuration::from_hours(24);
