//! What happens to certificates that are lost, replaced or not trusted (docs/behaviour/server.md#certificates).

mod rotation;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::conversion::samples;
use crate::product::{self, Product};
use crate::registration::{authority, bundles, event, foreign_material, get, patch, published, secret_path};
use crate::service;
use crate::support::{call, create, direct, in_use, message};
pub use rotation::without_losing_a_call;

/// docs/behaviour/server.md#start and docs/behaviour/server.md#certificates: everything repairs itself, and
/// says so; docs/behaviour/server.md#metrics: callers that don't trust us are counted.
#[tokio::test(flavor = "multi_thread")]
async fn lost_and_replaced_certificates_repair_themselves() {
    let server = product::server(kit::Options::default()).await;
    let client = server.client();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let product = Product::start(&server, rotation::impatient()).await;
        let endpoint = service::join(&server, &product).await;
        replicas.push((product, endpoint));
    }
    objects_created_during_the_start_are_accepted_soon(&server).await;
    for (product, _) in &mut replicas {
        product.wait_ready().await;
    }
    in_use(&server).await;
    published(&client).await;
    let ports: Vec<u16> = replicas.iter().map(|(product, _)| product.port).collect();

    a_deleted_secret_is_restored(&client, &ports).await;
    without_losing_a_call(&server, "CloneSet", a_secret_from_a_backup_is_taken_over(&server, &ports)).await;
    callers_that_do_not_trust_us_are_counted(&replicas[0].0).await;
    for (product, _endpoint) in replicas {
        assert_eq!(product.liveness().await.unwrap().0, 200);
        assert!(product.stop().await.success());
    }
}

/// docs/behaviour/server.md#start: an object of each kind, in the version that needs us.
async fn objects_created_during_the_start_are_accepted_soon(server: &ApiServer) {
    let client = server.client();
    let namespace = server.namespace("early").await;
    for sample in samples(&namespace, "v1alpha1") {
        sample.stock(&client).await;
        wait_for("the object to be accepted", async || {
            let answer = create(&client, sample.object.clone(), "").await;
            if answer.0 == 201 {
                return Ok(());
            }
            // Nothing but that the program isn't there yet.
            let text = message(&answer);
            let early = ["conversion webhook for", "failed calling webhook"];
            assert!(early.iter().any(|words| text.contains(words)), "{text}");
            Err(text.to_owned())
        })
        .await;
    }
}

async fn a_deleted_secret_is_restored(client: &Client, ports: &[u16]) {
    let path = secret_path("kruise-webhook-certs");
    let before = get(client, &path).await;
    let (code, answer) = call(client, "DELETE", &path, &Value::Null).await;
    assert_eq!(code, 200, "{answer:#}");
    wait_for("the Secret", async || {
        let secret = get(client, &path).await;
        if secret["data"] == before["data"] { Ok(()) } else { Err(secret["metadata"].clone()) }
    })
    .await;
    event(client, "CertificatesRestored").await;
    let authority = published(client).await;
    for port in ports {
        assert!(trusts(*port, &authority).await);
    }
}

/// The Secret of another installation, such as one from before the cluster was restored.
async fn a_secret_from_a_backup_is_taken_over(server: &ApiServer, ports: &[u16]) {
    let client = server.client();
    let backup = foreign_material();
    let data = json!({
        "ca-cert.pem": backup.authorities, "ca-key.pem": backup.authority_key,
        "cert.pem": backup.certificate, "key.pem": backup.key,
        "tls.crt": backup.certificate, "tls.key": backup.key,
    });
    let former = authority(&client).await;
    patch(&client, &secret_path("kruise-webhook-certs"), &json!({"stringData": data})).await;
    let restored = STANDARD.encode(&backup.authorities);
    for port in ports {
        // The certificate that is served is good, so that the new one waits until API servers trust it.
        wait_for("every replica to serve the restored certificate", async || {
            if trusts(*port, &restored).await { Ok(()) } else { Err(port) }
        })
        .await;
    }
    published(&client).await;
    in_use(server).await;
    // The former authority is still trusted: somebody may serve its certificate for a moment.
    let bundles = bundles(&client).await;
    let text = String::from_utf8(STANDARD.decode(bundles.first().unwrap()).unwrap()).unwrap();
    assert!(text.starts_with(&backup.authorities));
    assert!(text.ends_with(&String::from_utf8(STANDARD.decode(former).unwrap()).unwrap()));
}

async fn callers_that_do_not_trust_us_are_counted(product: &Product) {
    let stranger = STANDARD.encode(foreign_material().authorities);
    assert!(!trusts(product.port, &stranger).await);
    wait_for("the refusal to be counted", async || {
        let metrics = product.metrics().await;
        let counted = metrics.lines().any(|line| {
            line.strip_prefix("kutter_tls_handshake_failures{reason=\"refused\"} ")
                .is_some_and(|count| count.parse::<f64>().unwrap() >= 1.0)
        });
        if counted { Ok(()) } else { Err(metrics) }
    })
    .await;
}

/// Whether the replica's certificate is of this authority.
async fn trusts(port: u16, authority: &str) -> bool {
    let request = axum::http::Request::get("/healthz").body(Vec::new()).unwrap();
    direct(port, authority).await.request_text(request).await.is_ok()
}
