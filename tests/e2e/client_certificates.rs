//! Client certificates of API servers (docs/behaviour/server.md#client-certificates).

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::builders::{pod, workload};
use serde_json::{Value, json};

use crate::product::{self, Options, Product};
use crate::support::{call, create, direct_of, direct_of_with, in_use, pod_review};

fn openssl(directory: &Path, words: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(words.split(' ')).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and certificates of these clients, as a kubeconfig holds them.
fn certificates(directory: &Path, names: [&str; 2]) -> [Value; 2] {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(directory, &format!("req -x509 {KEY} -keyout ca.key -out ca.crt -subj /CN=clients -days 1"));
    std::fs::write(directory.join("use"), "extendedKeyUsage=clientAuth\n").unwrap();
    names.map(|name| {
        openssl(directory, &format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        openssl(
            directory,
            &format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -out {name}.crt -days 1 -extfile use"
            ),
        );
        let read =
            |kind: &str| STANDARD.encode(std::fs::read(directory.join(format!("{name}.{kind}"))).unwrap());
        json!({"client-certificate-data": read("crt"), "client-key-data": read("key")})
    })
}

/// Has the API server show this certificate to webhooks; the argument that does it.
fn shown(directory: &Path, user: &Value) -> String {
    let kubeconfig = directory.join("kubeconfig");
    let users = json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]});
    std::fs::write(&kubeconfig, users.to_string()).unwrap();
    let plugins = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"].map(|name| {
        json!({"name": name, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": kubeconfig,
        }})
    });
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins,
    });
    let file = directory.join("admission.yaml");
    std::fs::write(&file, configuration.to_string()).unwrap();
    format!("--admission-control-config-file={}", file.display())
}

#[tokio::test]
async fn only_api_servers_with_a_certificate_are_answered() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, other] = certificates(directory.path(), ["kube-apiserver", "prometheus"]);
    let options = kit::Options::default().argument(&shown(directory.path(), &ours));
    let server = product::server(options).await;
    let authority = format!("--client-ca-file={}", directory.path().join("ca.crt").display());
    let options = Options::default().argument(&authority).argument("--client-allowed-name=kube-apiserver");
    let product = Product::serve(&server, options.argument("--webhooks-only")).await;
    // It has the certificate for reviews, and none for conversions.
    in_use(&server).await;
    let old = workload("apps.kruise.io/v1alpha1", "CloneSet", "old").matching("app", "web").replicas(1);
    let old = old.in_namespace("default").container("main", "nginx:1.25").build();
    let (code, answer) = create(&server.client(), old, "").await;
    assert_eq!(code, 201, "{answer:#}");

    let forged = pod("forged").in_namespace("default").container("main", "nginx:1.25").build();
    let forged = pod_review("default", "CREATE", "", &forged);
    let with = async |user: &Value| direct_of_with(&server, product.port, user).await;
    let (code, answer) = call(&with(&ours).await, "POST", "/mutate-pod", &forged).await;
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)), "{answer:#}");
    let stranger = direct_of(&server, product.port).await;
    assert_eq!(call(&stranger, "POST", "/mutate-pod", &forged).await.0, 401);
    let request = axum::http::Request::post("/mutate-pod").body(forged.to_string().into_bytes()).unwrap();
    let refused = with(&other).await.request_text(request).await;
    assert!(refused.is_err(), "{refused:?}");
}
