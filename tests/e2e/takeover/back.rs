//! The way back (docs/installation.md#going-back): OpenKruise's manager registers itself beside Kutter's replicas, which
//! give in, and once they are gone nothing of them is in its way.

use std::collections::BTreeSet;
use std::time::Duration;

use admission::endpoint::{Entry, entries as table};
use admission::registration::ConfigurationKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use kit::api_server::host_address;
use kit::builders::pod;
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;
use values::segment::split;

use super::installation::lease;
use crate::certificates::without_losing_a_call;
use crate::conversion::samples;
use crate::product::{self, Options};
use crate::registration::{
    CONFIGURATIONS, DEFINITIONS, Replica, conversions, entries, get, patch, paths, published, secret_path,
};
use crate::service::SERVICE;
use crate::support::{Stored, call, direct, in_use, pod_review, review};

/// A kind of which OpenKruise's release has the older paths alone.
const OLDER: &str = "UnitedDeployment";

#[tokio::test(flavor = "multi_thread")]
async fn openkruise_registers_itself_beside_kutter_and_is_alone_afterwards() {
    let server = product::server(kit::Options::default()).await;
    let client = server.client();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(Replica::ready(&server, Options::default().drain("10s")).await);
    }
    in_use(&server).await;
    let secret = get(&client, &secret_path("kruise-webhook-certs")).await["data"].take();
    applied(&client).await;
    let bundle = published(&client).await;
    tokio::select! {
        () = kept_registered(&client, &bundle) => unreachable!("it never ends"),
        () = way_back(&server, replicas, &secret) => {}
    }
}

async fn way_back(server: &ApiServer, replicas: Vec<Replica>, secret: &Value) {
    let client = server.client();
    let folder = TempDir::new().unwrap();
    let manager = Replica::ready(server, manager(&folder, secret)).await;
    for replica in &replicas {
        gives_in(replica, manager.product.port).await;
    }
    wait_for("plain paths everywhere", async || {
        let paths = paths(&client).await;
        if paths.iter().all(|path| split(path).0.is_none()) { Ok(()) } else { Err(paths) }
    })
    .await;
    without_losing_a_call(server, OLDER, async {
        let asked = pod("asked").in_namespace("default").container("main", "nginx:1.25").build();
        for replica in &replicas {
            let caller = direct(replica.product.port, secret["ca-cert.pem"].as_str().unwrap()).await;
            review(&caller, &pod_review("default", "CREATE", "", &asked)).await;
        }
        join_all(replicas.into_iter().map(Replica::stop)).await;
    })
    .await;
    is_alone(server, secret).await;
    manager.stop().await;
}

/// Nothing of Kutter's is called, led or lost, and all that was reviewed is.
async fn is_alone(server: &ApiServer, secret: &Value) {
    let client = server.client();
    wait_for("what OpenKruise answers, and no more", async || {
        let paths = paths(&client).await;
        if paths.iter().all(|path| path == "/convert" || answers(path)) { Ok(()) } else { Err(paths) }
    })
    .await;
    let all: BTreeSet<&str> = table_of_both().map(|entry| entry.resource).collect();
    let live = entries(&client).await;
    let reviewed = live.iter().map(|entry| entry["rules"][0]["resources"][0].as_str().unwrap());
    assert_eq!(reviewed.collect::<BTreeSet<&str>>(), all);
    let holder = lease(&client).await["spec"]["holderIdentity"].take();
    assert!(holder.as_str().unwrap_or_default().is_empty(), "{holder}");
    let now = get(&client, &secret_path("kruise-webhook-certs")).await["data"].take();
    assert_eq!(now, *secret);
    let namespace = server.namespace("back").await;
    let converted = ["CloneSet", OLDER].map(Value::from);
    for sample in samples(&namespace, "v1alpha1") {
        if !converted.contains(&sample.object["kind"]) {
            continue;
        }
        let stored = Stored::create(&client, sample.object).await;
        let (code, answer) = stored.in_version("v1beta1").get().await;
        assert_eq!(code, 200, "{answer:#}");
    }
    Stored::create(&client, pod("web").in_namespace(&namespace).container("main", "nginx:1.25")).await;
}

/// As a chart of OpenKruise applies the registrations: with plain paths, a placeholder for the bundle, and no list that
/// is remembered.
async fn applied(client: &Client) {
    for path in CONFIGURATIONS {
        let mut webhooks = get(client, path).await["webhooks"].take();
        for entry in webhooks.as_array_mut().unwrap() {
            let config = &mut entry["clientConfig"];
            config["caBundle"] = "Cg==".into();
            config["service"]["path"] = split(config["service"]["path"].as_str().unwrap()).1.into();
        }
        let lists = json!({"metadata": {"annotations": {"template": ""}}, "webhooks": webhooks});
        patch(client, path, &lists).await;
    }
}

/// How a program is started that answers as OpenKruise's manager does: by the certificate in the Secret, and at plain
/// paths alone.
fn manager(folder: &TempDir, secret: &Value) -> Options {
    let [objects, certificates] = ["objects", "certificates"].map(|name| folder.path().join(name));
    for directory in [&objects, &certificates] {
        std::fs::create_dir(directory).unwrap();
    }
    for (name, text) in secret.as_object().unwrap() {
        std::fs::write(certificates.join(name), STANDARD.decode(text.as_str().unwrap()).unwrap()).unwrap();
    }
    Options::default()
        .argument(&format!("--objects={}", objects.display()))
        .environment("WEBHOOK_CERT_DIR", certificates.to_str().unwrap())
}

/// Waits until this replica of Kutter has found that the one at `port` knows no segment.
async fn gives_in(replica: &Replica, port: u16) {
    let unknown = format!("404 Not Found from {}:{port}", host_address());
    wait_for("the replica to give in", async || {
        let log = replica.product.log();
        if log.lines().any(|line| line.contains(&unknown)) { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Registers OpenKruise's manager after each change.
async fn kept_registered(client: &Client, bundle: &str) {
    loop {
        register(client, bundle).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What OpenKruise's manager does after each change of what is registered: it takes the list of the annotation, or else
/// the live one, leaves out what it does not answer, and puts the bundle in.
async fn register(client: &Client, bundle: &str) {
    for path in CONFIGURATIONS {
        let live = get(client, path).await;
        let mut wanted = live.clone();
        let template = live["metadata"]["annotations"]["template"].as_str().unwrap_or_default();
        let mut list: Value = if template.is_empty() {
            wanted["metadata"]["annotations"]["template"] = live["webhooks"].to_string().into();
            live["webhooks"].clone()
        } else {
            serde_json::from_str(template).unwrap()
        };
        let list = list.as_array_mut().unwrap();
        list.retain(|entry| answers(entry["clientConfig"]["service"]["path"].as_str().unwrap()));
        list.iter_mut().for_each(|entry| entry["clientConfig"]["caBundle"] = bundle.into());
        wanted["webhooks"] = list.clone().into();
        if wanted != live {
            let (code, answer) = call(client, "PUT", path, &wanted).await;
            // It comes back to what somebody else has changed meanwhile.
            assert!(code == 200 || code == 409, "{answer:#}");
        }
    }
    let service = json!({"namespace": product::NAMESPACE, "name": SERVICE, "path": "/convert", "port": 443});
    let wanted = json!({"caBundle": bundle, "service": service});
    for (name, live) in conversions(client).await {
        if live != wanted {
            let stanza = json!({"spec": {"conversion": {"webhook": {"clientConfig": wanted}}}});
            patch(client, &format!("{DEFINITIONS}/{name}"), &stanza).await;
        }
    }
}

/// Whether OpenKruise's release answers at this path.
fn answers(path: &str) -> bool {
    let of_older = path.ends_with(&OLDER.to_lowercase());
    let known = table_of_both().any(|entry| entry.path == path && !path.contains("exit-priority"));
    if of_older { path.contains("-v1alpha1-") } else { known }
}

/// Kutter's entries of both configurations.
fn table_of_both() -> impl Iterator<Item = &'static Entry> {
    [ConfigurationKind::Mutating, ConfigurationKind::Validating].into_iter().flat_map(table)
}
