//! The manifests of `examples/`: one directory for each kind that users write.

use std::collections::BTreeSet;
use std::path::Path;

use kit::fake_nodes::{FakeNodes, Options};
use kit::wait_for;

use crate::support::{Shop, Stored, shared};

/// Kinds that the program and its agents write themselves.
const OWN: [&str; 2] = ["nodeimage", "nodepodprobe"];

/// The API server and its webhooks take each example, and change nothing when it is applied again.
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

    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut kinds = BTreeSet::new();
    for directory in std::fs::read_dir(&examples).unwrap() {
        let directory = directory.unwrap();
        kinds.insert(directory.file_name().into_string().unwrap());
        let path = directory.path().into_os_string().into_string().unwrap();
        let words = ["--namespace", &shop.namespace, "--filename", &path];
        let kubectl = async |verb: &[&str]| server.kubectl(verb.iter().chain(&words)).await;
        let created = kubectl(&["apply"]).await.success();
        assert!(created.trim().ends_with(" created"), "{path}: {created}");
        kubectl(&["apply"]).await.success();
        let generation = kubectl(&["get", "--output=jsonpath={.metadata.generation}"]).await.success();
        assert_eq!(generation, "1", "{path}");
        kubectl(&["delete"]).await.success();
    }
    let expected = api::crds::ALL.iter().map(|definition| definition.singular.to_owned());
    let expected: BTreeSet<String> = expected.filter(|kind| !OWN.contains(&kind.as_str())).collect();
    assert_eq!(kinds, expected);
}
