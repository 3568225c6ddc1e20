//! The manifests of `examples/`: one directory for each kind that users write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::crds::{self, CustomResourceDefinition};
use kit::fake_nodes::{FakeNodes, Options};
use kit::{ApiServer, wait_for};

use crate::rollouts;
use crate::support::{Shop, Stored, shared};

/// Kinds that the program and its agents write themselves.
const OWN: [&str; 4] = ["nodeimage", "nodepodprobe", "batchrelease", "rollouthistory"];

/// The kinds of these definitions that users write.
fn written_by_users(definitions: &[CustomResourceDefinition]) -> BTreeSet<String> {
    let kinds = definitions.iter().map(|definition| definition.singular.to_owned());
    kinds.filter(|kind| !OWN.contains(&kind.as_str())).collect()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The API server and its webhooks take the examples of these kinds, and change nothing when they are applied again.
async fn can_be_applied(server: &ApiServer, namespace: &str, kinds: &BTreeSet<String>) {
    for kind in kinds {
        let path = examples().join(kind).into_os_string().into_string().unwrap();
        let words = ["--namespace", namespace, "--filename", &path];
        let kubectl = async |verb: &[&str]| server.kubectl(verb.iter().chain(&words)).await;
        let created = kubectl(&["apply"]).await.success();
        assert!(created.trim().ends_with(" created"), "{path}: {created}");
        kubectl(&["apply"]).await.success();
        let generation = kubectl(&["get", "--output=jsonpath={.metadata.generation}"]).await.success();
        assert_eq!(generation, "1", "{path}");
        kubectl(&["delete"]).await.success();
    }
}

#[tokio::test]
async fn each_kind_has_an_example_that_can_be_applied() {
    let server = shared().await.0;
    let shop = Shop::open("examples").await;
    // The one that is to be restarted.
    let options = Options::nodes(1).in_namespace(&shop.namespace).binding_pods();
    let _nodes = FakeNodes::start(shop.client.clone(), options).await;
    let pod = Stored::create(&shop.client, shop.pod("shop")).await;
    wait_for("the Pod to run", async || {
        let pod = pod.get().await.1;
        if pod["status"]["phase"] == "Running" { Ok(()) } else { Err(pod) }
    })
    .await;

    let directories = std::fs::read_dir(examples()).unwrap();
    let kinds = directories.map(|directory| directory.unwrap().file_name().into_string().unwrap());
    let mut kinds: BTreeSet<String> = kinds.collect();
    let optional = written_by_users(crds::ROLLOUTS);
    kinds.retain(|kind| !optional.contains(kind));
    assert_eq!(kinds, written_by_users(crds::ALL));
    can_be_applied(server, &shop.namespace, &kinds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_of_rollouts_have_examples_too() {
    let server = &rollouts::site().await.server;
    let namespace = server.namespace("ro-examples").await;
    can_be_applied(server, &namespace, &written_by_users(crds::ROLLOUTS)).await;
}
