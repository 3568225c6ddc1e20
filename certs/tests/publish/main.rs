//! Certificates and registration on a real API server: scenarios 1 to 5, 7, 10 of docs/behaviour/server.md
//! and 11, and the tests of docs/behaviour/server.md#certificates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure is a test failure"
)]

mod rollouts;
mod rotation;
mod testbed;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use admission::registration::ConfigurationKind;
use admission::rotation::{LIFETIME, Step, parse_renew_before};
use api::features::{Feature, FeatureGates};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{CallError, CertificateSettings, Clock, Material, Mode, Probe, carry_out};
use cluster::https::HttpError;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::{wait_for, wait_within};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use values::segment::{Segment, split};

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_1_2_10_and_loss_on_one_server() {
    let bed = Testbed::start().await;
    // The Secret as installers ship it: empty, with labels of their own.
    let empty =
        json!({"metadata": {"name": SECRET, "labels": {"installer": "x"}}, "data": {"foreign": "eA=="}});
    bed.secrets().create(&PostParams::default(), &serde_json::from_value(empty).unwrap()).await.unwrap();

    // Three replicas start together: one authority (docs/behaviour/server.md#certificates), everything
    // published (scenario 1).
    let mut replicas = [(); 3].map(|()| bed.replica(bed.settings()));
    for replica in &mut replicas {
        replica.registered().await;
    }
    let secret = bed.secret().await;
    let keys: Vec<&str> = secret.data.as_ref().unwrap().keys().map(String::as_str).collect();
    let ours = "ca-cert.pem ca-key.pem cert.pem foreign key.pem path-segments tls.crt tls.key";
    assert_eq!(keys.join(" "), ours);
    assert_eq!(secret.labels()["installer"], "x");
    let bundle = text(&secret, "ca-cert.pem");
    assert_eq!(certs::certificates(&bundle).len(), 1);
    bed.assert_published(&bundle).await;
    assert_eq!(
        bed.conversions().await.len(),
        api::crds::ALL.iter().filter(|crd| crd.converts_by_webhook).count()
    );
    let expected = |gates: &FeatureGates| -> Vec<&str> {
        ConfigurationKind::ALL.iter().flat_map(|kind| entries_of(*kind, gates)).collect()
    };
    let gates = bed.settings().gates;
    assert_eq!(bed.names().await, expected(&gates));
    for replica in &replicas {
        assert!(echoes(&mut connect(replica.listen().await, &bundle).await.unwrap()).await);
    }

    // A restart changes nothing (scenario 2).
    let versions = async || {
        let mutating =
            Api::<MutatingWebhookConfiguration>::all(bed.client.clone()).get(MUTATING).await.unwrap();
        (bed.secret().await.resource_version(), mutating.resource_version())
    };
    let before = versions().await;
    let mut restarted = bed.replica(bed.settings());
    restarted.registered().await;
    assert_eq!(versions().await, before);

    // A third party writes a placeholder: repaired in 5 s, and an Event says so (scenario 10,
    // docs/behaviour/api-and-registration.md#how-entries-are-kept).
    bed.patch_webhooks(json!({"webhooks": [{"name": "mpod.kb.io", "clientConfig": {"caBundle": "Cg=="}}]}))
        .await;
    wait_within(Duration::from_secs(30), "the repair of the entry", async || {
        let published = bed.published().await;
        if published.iter().all(|published| *published == bundle) { Ok(()) } else { Err(published) }
    })
    .await;
    wait_for("the Event", async || {
        let events = bed.events().await;
        if events.iter().any(|reason| reason == "BundleRepaired") { Ok(()) } else { Err(events) }
    })
    .await;

    // The same for a definition of the other group and one of ours.
    let definitions = Api::<CustomResourceDefinition>::all(bed.client.clone());
    let other = aged(DAY).authorities;
    let stanza =
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": STANDARD.encode(&other)}}}}});
    definitions
        .patch("clonesets.apps.kruise.io", &PatchParams::default(), &Patch::Merge(stanza))
        .await
        .unwrap();
    bed.assert_published(&bundle).await;

    // A deleted Secret is restored from what is served, a deleted configuration is made anew.
    bed.secrets().delete(SECRET, &DeleteParams::default()).await.unwrap();
    wait_for("the Secret", async || match bed.secrets().get_opt(SECRET).await.unwrap() {
        Some(secret) if text(&secret, "ca-cert.pem") == bundle => Ok(()),
        other => Err(other.map(|secret| secret.metadata)),
    })
    .await;
    let names = bed.names().await;
    let configurations = Api::<MutatingWebhookConfiguration>::all(bed.client.clone());
    configurations.delete(MUTATING, &DeleteParams::default()).await.unwrap();
    wait_for("the configuration", async || {
        let live = bed.names().await;
        if live == names { Ok(()) } else { Err(live) }
    })
    .await;
    bed.assert_published(&bundle).await;

    // Scenario 7: without the gate the Pod entries go, and they come back unchanged.
    drop((replicas, restarted));
    let mut settings = bed.settings();
    settings.gates = settings.gates.with(Feature::PodWebhook, false);
    let before = bed.webhooks().await;
    let mut off = bed.replica(settings);
    off.registered().await;
    let without_pods = bed.names().await;
    assert_eq!(without_pods, expected(&gates.with(Feature::PodWebhook, false)));
    assert!(!without_pods.contains(&"mpod.kb.io".to_owned()));
    let live = configurations.get(MUTATING).await.unwrap();
    assert!(live.annotations()["template"].contains("\"mpod.kb.io\""));
    drop(off);
    let mut on = bed.replica(bed.settings());
    on.registered().await;
    assert_eq!(bed.webhooks().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_3_and_4_renewal_keeps_the_authority() {
    let bed = Testbed::start().await;
    // A young authority, and a leaf that ends in 30 days.
    let young = aged(DAY);
    let signed = Timestamp::now() - LIFETIME + DAY * 30;
    let old = carry_out(&Step::SignLeaf, &young, &[], HOST, signed).unwrap();
    bed.store(&old).await;
    let mut settings = bed.settings();
    settings.timing.renew_before = parse_renew_before(Some("10d"));
    let mut patient = bed.replica(settings);
    patient.registered().await;
    assert_eq!(text(&bed.secret().await, "tls.crt"), old.certificate, "10 days are enough");
    let segment = text(&bed.secret().await, "path-segments");
    drop(patient);

    let mut settings = bed.settings();
    settings.timing.renew_before = parse_renew_before(Some("2x"));
    let mut replica = bed.replica(settings);
    replica.registered().await;
    let renewed = bed.secret().await;
    assert_ne!(text(&renewed, "tls.crt"), old.certificate);
    assert_eq!(text(&renewed, "ca-cert.pem"), old.authorities);
    assert!(!text(&renewed, "path-segments").starts_with(&segment), "the segment goes with the certificate");
    drop(replica);

    // One day before all of it ends, the renewal has happened already
    // (docs/behaviour/server.md#rotation-of-certificates).
    let ahead: Clock = Arc::new(|| Timestamp::now() + LIFETIME - DAY * 2);
    let mut late = bed.replica_with(bed.settings(), always(Ok), ahead);
    late.registered().await;
    let bundle = bed.bundle().await;
    assert!(bundle.ends_with(&old.authorities) && bundle.len() > old.authorities.len());
    bed.assert_published(&bundle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_wait_for_the_service_but_conversion_does_not() {
    let bed = Testbed::start().await;
    let reachable = Arc::new(AtomicBool::new(false));
    let probe: Probe = {
        let reachable = Arc::clone(&reachable);
        Arc::new(move |_, _| {
            let answer = reachable.load(Ordering::Relaxed);
            Box::pin(
                async move { if answer { Ok(()) } else { Err(CallError::TimedOut(Duration::from_secs(1))) } },
            )
        })
    };
    let mut replica = bed.replica_with(bed.settings(), probe, Arc::new(Timestamp::now));
    replica.published().await;
    let bundle = bed.bundle().await;
    bed.assert_published(&bundle).await;
    assert!(!bed.conversions().await.is_empty() && bed.names().await.is_empty());
    replica.until(|status| status.reason.contains("does not answer yet")).await;
    reachable.store(true, Ordering::Relaxed);
    replica.registered().await;
    assert!(bed.webhook("mpod.kb.io").await.is_some());
    drop(replica);

    // Scenario 5: the same server outside the cluster, called by address.
    let environment = |name: &str| match name {
        "WEBHOOK_HOST" => Some("10.0.0.5".to_owned()),
        "WEBHOOK_CERT_WRITER" => Some("secret".to_owned()),
        _ => None,
    };
    let settings = bed.settings();
    let settings = CertificateSettings::from_environment(environment, settings.gates).unwrap();
    let mut outside = bed.replica(settings);
    outside.registered().await;
    for webhook in bed.webhooks().await {
        let url = webhook["clientConfig"]["url"].as_str().unwrap();
        assert!(
            url.starts_with("https://10.0.0.5:9876/") && webhook["clientConfig"].get("service").is_none()
        );
    }
    for conversion in bed.conversions().await {
        let url = conversion["webhook"]["clientConfig"]["url"].as_str().unwrap();
        let called = url.strip_prefix("https://10.0.0.5:9876").unwrap();
        assert!(matches!(split(called), (Some(_), "/convert")), "{url}");
    }
    let secret = bed.secret().await;
    let stored = Material {
        authorities: text(&secret, "ca-cert.pem"),
        certificate: text(&secret, "cert.pem"),
        key: text(&secret, "key.pem"),
        ..Material::default()
    };
    for name in ["10.0.0.5", "localhost"] {
        assert!(stored.facts(name).leaf.unwrap().fits, "{name}");
    }
}

/// docs/behaviour/server.md#callers
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_called_behind_a_segment_once_all_answer_it() {
    let bed = Testbed::start().await;
    // The store of a release that knew no segments.
    bed.store(&aged(DAY)).await;
    let answers = Arc::new(AtomicBool::new(false));
    let probe: Probe = {
        let answers = Arc::clone(&answers);
        Arc::new(move |_, paths: BTreeSet<String>| {
            let behind = paths.iter().all(|path| split(path).0.is_some());
            let known = behind && answers.load(Ordering::Relaxed);
            Box::pin(
                async move { if known { Ok(()) } else { Err(CallError::TimedOut(Duration::from_secs(1))) } },
            )
        })
    };
    let mut replica = bed.replica_with(bed.settings(), probe, Arc::new(Timestamp::now));
    replica.published().await;
    replica.until(|status| status.reason.contains("does not answer yet")).await;
    let stored = async || Segment::parse_all(&text(&bed.secret().await, "path-segments"));
    let first = stored().await;
    assert_eq!(first.len(), 1);
    assert!(bed.calls().await.iter().all(|(segment, path)| segment.is_none() && path == "/convert"));
    // What is registered is answered, and nothing besides but what will be.
    replica
        .answers(|callers| {
            callers.admit(None, "/convert")
                && !callers.admit(None, "/mutate-pod")
                && callers.admit(Some(first[0]), "/mutate-pod")
        })
        .await;
    answers.store(true, Ordering::Relaxed);
    replica.registered().await;
    assert_eq!(bed.called_behind_another(&[]).await, first[0]);
    replica.answers(|callers| !callers.admit(None, "/convert")).await;

    // Somebody takes the segment away: there is another, and the old one ends after a while.
    let without = Patch::Merge(json!({"data": {"path-segments": null}}));
    bed.secrets().patch(SECRET, &PatchParams::default(), &without).await.unwrap();
    let second = bed.called_behind_another(&first).await;
    assert_eq!(stored().await, [second]);
    replica
        .answers(|callers| {
            !callers.admit(Some(first[0]), "/mutate-pod") && callers.admit(Some(second), "/mutate-pod")
        })
        .await;

    // Another release registers plain paths while it is there.
    answers.store(false, Ordering::Relaxed);
    let plain = json!({"webhooks": [{"name": "mpod.kb.io", "clientConfig": {"service": {
        "name": "kruise-webhook-service", "namespace": "kruise-system", "path": "/mutate-pod"}}}]});
    bed.patch_webhooks(plain).await;
    replica.answers(|callers| callers.admit(None, "/mutate-pod")).await;
    answers.store(true, Ordering::Relaxed);
    bed.called_behind_another(&first).await;
    replica.answers(|callers| !callers.admit(None, "/mutate-pod")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_11_external_certificates_are_only_compared() {
    let bed = Testbed::start().await;
    // What a self-managed server left behind.
    let mut own = bed.replica(bed.settings());
    own.registered().await;
    drop(own);
    let before = bed.published().await;

    let material = aged(DAY);
    let data =
        json!({"ca.crt": material.authorities, "tls.crt": material.certificate, "tls.key": material.key});
    let secret = json!({"metadata": {"name": "external"}, "stringData": data});
    bed.secrets().create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut settings = bed.settings();
    settings.gates = settings.gates.with(Feature::EnableExternalCerts, true);
    settings.mode = Mode::External;
    settings.secret = "external".to_owned();
    let mut replica = bed.replica(settings);
    replica.until(|status| status.reason.contains("does not match external caBundle")).await;
    assert!(!replica.0.status.borrow().published);
    assert_eq!(bed.published().await, before, "nothing is written");

    // The external issuer publishes.
    let bundle = STANDARD.encode(&material.authorities);
    for kind in [ConfigurationKind::Mutating, ConfigurationKind::Validating] {
        let webhooks: Vec<Value> = entries_of(kind, &bed.settings().gates)
            .iter()
            .map(|name| json!({"name": name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        let patch = json!({"webhooks": webhooks}).to_string();
        bed.server
            .kubectl(["patch", kind.kind(), kind.name(), "--type=strategic", "-p", &patch])
            .await
            .success();
    }
    for definition in api::crds::ALL.iter().filter(|definition| definition.converts_by_webhook) {
        let stanza =
            json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}).to_string();
        bed.server
            .kubectl(["patch", "crd", &definition.name(), "--type=merge", "-p", &stanza])
            .await
            .success();
    }
    replica.published().await;
    assert!(connect(replica.listen().await, &material.authorities).await.is_ok());

    // A missing entry is added, without a bundle, and readiness waits for the issuer.
    bed.patch_webhooks(json!({"webhooks": [{"$patch": "delete", "name": "mpod.kb.io"}]})).await;
    let added = wait_for("the entry", async || bed.webhook("mpod.kb.io").await.ok_or(())).await;
    assert_eq!(added["clientConfig"].get("caBundle"), None);
    replica.until(|status| !status.published).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn external_certificates_that_do_not_come_are_named_on_our_pod() {
    let bed = Testbed::start().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kruise-manager-0", "namespace": "kruise-system"}, "spec": {"containers": [{"name": "manager", "image": "manager"}]}});
    bed.server.kubectl_with_input(["create", "-f", "-"], &pod.to_string()).await.success();
    let pod =
        Api::<Pod>::namespaced(bed.client.clone(), "kruise-system").get("kruise-manager-0").await.unwrap();
    let mut settings = bed.settings();
    settings.mode = Mode::External;
    settings.secret = "external".to_owned();
    settings.pod = Some(pod.name_any());
    let ahead = Arc::new(AtomicI64::new(0));
    let clock: Clock = {
        let ahead = ahead.clone();
        Arc::new(move || Timestamp::now() + SignedDuration::from_secs(ahead.load(Ordering::Relaxed)))
    };
    let mut replica = bed.replica_with(settings, always(Ok), clock);
    let reported = async || {
        let events = Api::<Event>::namespaced(bed.client.clone(), "kruise-system");
        let events = events.list(&ListParams::default()).await.unwrap();
        events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some("ExternalCertificatesMissing"))
            .collect()
    };
    let reported = async |wanted: usize| -> Vec<Event> {
        wait_for("the Events", async || {
            let events: Vec<Event> = reported().await;
            if events.len() == wanted { Ok(events) } else { Err(events) }
        })
        .await
    };
    let named = |reason: &'static str| move |status: &certs::Status| status.reason.contains(reason);

    let all = "Secret external lacks ca.crt, tls.crt, tls.key: an issuer has to provide it";
    replica.until(named(all)).await;
    assert!(reported(0).await.is_empty(), "an issuer takes a while");
    ahead.store(60, Ordering::Relaxed);
    let event = reported(1).await.remove(0);
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.regarding.unwrap().uid, pod.uid());
    let note = event.note.unwrap();
    assert!(note.contains(all) && note.contains("AllAlpha=true"), "{note}");

    // Something else is missing now, but the last Event is young.
    let material = aged(DAY);
    let part = json!({"metadata": {"name": "external"}, "stringData": {"tls.crt": material.certificate, "tls.key": material.key}});
    bed.secrets().create(&PostParams::default(), &serde_json::from_value(part).unwrap()).await.unwrap();
    replica.until(named("Secret external lacks ca.crt:")).await;
    reported(1).await;
    ahead.store(60 + 11 * 60, Ordering::Relaxed);
    let notes = reported(2).await.into_iter().filter_map(|event| event.note);
    assert!(notes.filter(|note| note.contains("lacks ca.crt:")).count() == 1);

    let whole = Patch::Merge(json!({"stringData": {"ca.crt": material.authorities}}));
    bed.secrets().patch("external", &PatchParams::default(), &whole).await.unwrap();
    replica.until(named("not found MutatingWebhookConfiguration")).await;
    assert!(!replica.0.status.borrow().published);
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_go_with_the_install_namespace_and_repairs_are_spaced() {
    let bed = Testbed::start().await;
    let mut replica = bed.replica(bed.settings());
    replica.registered().await;
    let configurations = Api::<MutatingWebhookConfiguration>::all(bed.client.clone());
    let live = configurations.get(MUTATING).await.unwrap();
    let owner = &live.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.controller),
        ("Namespace", "kruise-system", None)
    );

    // Somebody disagrees as fast as possible.
    let begun = tokio::time::Instant::now();
    let mut repairs = 0;
    while begun.elapsed() < Duration::from_secs(5) || repairs < 3 && begun.elapsed() < Duration::from_secs(60)
    {
        if bed.webhook("mpod.kb.io").await.unwrap()["failurePolicy"] == "Fail" {
            repairs += 1;
            bed.patch_webhooks(json!({"webhooks": [{"name": "mpod.kb.io", "failurePolicy": "Ignore"}]}))
                .await;
        }
    }
    // The state at the start, two repairs at once, and one each two seconds.
    let most = 4 + begun.elapsed().as_secs() / 2;
    assert!((3..=most).contains(&repairs), "{repairs} of {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_ready_endpoint_must_answer_a_path() {
    let bed = Testbed::start().await;
    let mut replica = bed.replica(bed.settings());
    replica.registered().await;
    let endpoint = bed.settings().registration.endpoint;
    let probe = certs::through(bed.client.clone(), endpoint);
    let bundle = bed.bundle().await;
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kruise-webhook-service", "namespace": "kruise-system"}, "spec": {"ports": [{"name": "https", "port": 443}]}});
    bed.server.kubectl_with_input(["create", "-f", "-"], &service.to_string()).await.success();
    let mut ports = Vec::new();
    for (index, known) in [&["/old", "/new"][..], &["/old"]].into_iter().enumerate() {
        ports.push(replica.review(known).await);
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("slice-{index}"), "namespace": "kruise-system",
                "labels": {"kubernetes.io/service-name": "kruise-webhook-service"}},
            "ports": [{"name": "https", "port": ports[index]}, {"name": "metrics", "port": 1}],
            "endpoints": [
                {"addresses": [kit::api_server::host_address()]},
                {"addresses": ["192.0.2.1"], "conditions": {"ready": false}},
            ],
        });
        bed.server.kubectl_with_input(["create", "-f", "-"], &slice.to_string()).await.success();
        let asked = async |names: &[&str]| probe(bundle.clone(), paths(names)).await;
        wait_for("an answer", async || asked(&["/old"]).await).await;
        if index == 0 {
            wait_for("an answer to both", async || asked(&["/old", "/new"]).await).await;
        } else {
            assert!(asked(&["/old", "/new"]).await.is_err());
        }
    }
    assert!(probe(aged(DAY).authorities, paths(&["/old"])).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_cannot_be_watched_are_named() {
    kit::install_crypto_provider();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.read(&mut [0; 8192]).await);
            let body =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                "message": "not for you", "code": 403, "metadata": {}})
                .to_string();
            let head = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let settings = CertificateSettings::from_environment(|_| None, FeatureGates::default()).unwrap();
    let recorder = cluster::events::Recorder::new(client.clone(), "test", None);
    let mut replica = Replica(certs::start(client, settings, recorder, testbed::metrics()));
    let named = |status: &certs::Status| status.reason.contains("can't be watched");
    let status = tokio::time::timeout(Duration::from_secs(60), replica.0.status.wait_for(named));
    assert!(status.await.unwrap().unwrap().reason.contains("not for you"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_that_was_restored_from_elsewhere_is_taken_over() {
    let bed = Testbed::start().await;
    let mut replica = bed.replica(bed.settings());
    replica.registered().await;
    let address = replica.listen().await;
    let old = bed.bundle().await;
    let backup = aged(DAY * 30);
    let data = json!({
        "ca-cert.pem": backup.authorities, "ca-key.pem": backup.authority_key, "cert.pem": backup.certificate,
        "key.pem": backup.key, "tls.crt": backup.certificate, "tls.key": backup.key,
    });
    let patch = Patch::Merge(json!({"stringData": data}));
    bed.secrets().patch(SECRET, &PatchParams::default(), &patch).await.unwrap();
    wait_for("the restored leaf", async || connect(address, &backup.authorities).await.map(drop)).await;
    let bundle = format!("{}{old}", backup.authorities);
    assert_eq!(bed.bundle().await, bundle, "other replicas may still serve the old leaf");
    bed.assert_published(&bundle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_serve_without_an_api_server_and_pass_the_self_check() {
    kit::install_crypto_provider();
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let environment = |name: &str| match name {
        "WEBHOOK_CERT_WRITER" => Some("fs".to_owned()),
        "WEBHOOK_CERT_DIR" => Some(directory.path().join("certs").display().to_string()),
        "WEBHOOK_PORT" => Some(port.to_string()),
        _ => None,
    };
    let settings = CertificateSettings::from_environment(environment, FeatureGates::default()).unwrap();
    let (resolver, check) = certs::offline(&settings).await.unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(resolver);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A caller times out soon, and asks again.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = vec![0; 4096];
            let Ok(length) = stream.read(&mut request).await else { continue };
            let review = String::from_utf8_lossy(&request[..length]).starts_with("POST /validate-namespace");
            let body = if review { r#"{"response":{"uid":"self-check","allowed":true}}"# } else { "" };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    wait_for("an answer", async || check.run(Some("/validate-namespace")).await).await;
    assert!(check.run(Some("/other")).await.is_err());

    // A second start finds the files, and a check that trusts another authority fails.
    let (_, again) = certs::offline(&settings).await.unwrap();
    wait_for("an answer", async || again.run(None).await).await;
    std::fs::remove_file(directory.path().join("certs/tls.key")).unwrap();
    let (_, stranger) = certs::offline(&settings).await.unwrap();
    wait_for("a refusal", async || match stranger.run(None).await {
        Err(CallError::Unanswered(HttpError::Tls(_))) => Ok(()),
        answer => Err(answer),
    })
    .await;
}
