//! The objects of the whole cluster: the program makes one unit, as it leaves it at rest, and the others are copies of it.

use benches::in_memory::{ApiServer, Kind};
use benches::program::Program;
use benches::report::progress;
use benches::review;
use benches::stand::TIMEOUT;
use bytes::Bytes;
use futures::{StreamExt, stream};
use kit::builders::Object;
use kit::fake_nodes::{FakeNodes, Options};
use kit::{objects, wait_within};
use serde_json::{Value, json};

use crate::unit::{NODES, POOL, Unit};

const WRITERS: usize = 16;
/// Images of a node.
const IMAGES: usize = 50;

/// Fills the server, whose program leads, with so many units.
pub(crate) async fn fill(server: &ApiServer, program: Program, units: u32) {
    let unit = Unit::new(0);
    progress("the program settles one unit");
    server.begin_uids_with(unit.prefix());
    let client = server.client();
    let options = Options::nodes(NODES).binding_pods();
    let options = (0..NODES).fold(options, |options, node| options.label(node, POOL, &unit.token()));
    let nodes = FakeNodes::start(client, options).await;
    create(server, unit.foundations()).await;
    program.wait_quiet().await;
    create(server, unit.workloads()).await;
    let owner = objects::create(&server.client(), unit.replica_set()).await.expect("a ReplicaSet");
    create(server, unit.foreign_pods(&serde_json::to_value(owner).expect("JSON")).collect()).await;
    for (plural, namespace, name, is_done) in unit.goals() {
        wait_within(TIMEOUT, &format!("{plural} {name}"), async || {
            let status = status(server, plural, &namespace, &name);
            if is_done(&status) { Ok(()) } else { Err(status) }
        })
        .await;
    }
    program.wait_quiet().await;
    program.stop();
    let names = nodes.names().to_vec();
    drop(nodes);
    server.begin_uids_with(0);
    copy(server, unit, &names, units);
}

/// Creates objects, some at a time.
pub(crate) async fn create(server: &ApiServer, objects: Vec<Object>) {
    let client = server.client();
    stream::iter(objects)
        .for_each_concurrent(WRITERS, |object| {
            let client = client.clone();
            async move { drop(objects::create(&client, object).await.expect("an object can be created")) }
        })
        .await;
}

/// The status of an object of ours, if that is of its present generation.
pub(crate) fn status(server: &ApiServer, plural: &str, namespace: &str, name: &str) -> Value {
    let groups = ["apps.kruise.io", "policy.kruise.io"];
    let key = (namespace.to_owned(), name.to_owned());
    let json = groups.iter().find_map(|group| server.store().get(&Kind::new(group, plural), &key));
    let mut object: Value = serde_json::from_slice(&json.expect("the object is there")).expect("an object");
    let observed = object["status"].get("observedGeneration");
    let is_new = observed.is_none_or(|observed| *observed == object["metadata"]["generation"]);
    if is_new { object["status"].take() } else { Value::Null }
}

/// Puts units in the place of that which was made, whose nodes have these names.
fn copy(server: &ApiServer, made: Unit, nodes: &[String], units: u32) {
    let token = made.token();
    let contains = |json: &[u8]| String::from_utf8_lossy(json).contains(&token);
    let made = server.store().take(|_, json| contains(json));
    progress(&format!("copying {} objects {units} times", made.len()));
    let renamed = |text: &str| {
        let numbered = nodes.iter().enumerate();
        numbered.fold(text.to_owned(), |text, (number, node)| {
            text.replace(node, &format!("{token}-node-{number:02}"))
        })
    };
    let made: Vec<(Kind, [String; 3])> = made
        .into_iter()
        .map(|(kind, key, json)| {
            let json = grown(&kind, &json);
            let texts = [key.0, key.1, json].map(|text| renamed(&text));
            (kind, texts)
        })
        .collect();
    for number in 0..units {
        let other = Unit::new(number).token();
        for (kind, texts) in &made {
            let [namespace, name, json] = texts.each_ref().map(|text| text.replace(&token, &other));
            server.store().import(kind, (namespace, name), Bytes::from(json));
        }
    }
}

/// With what objects of a real cluster carry along although nobody asked for it.
fn grown(kind: &Kind, json: &Bytes) -> String {
    let mut object: Value = serde_json::from_slice(json).expect("what is stored is an object");
    match kind.plural.as_str() {
        "pods" => {
            let managed = review::pod_object()["metadata"]["managedFields"].take();
            object["metadata"]["managedFields"] = managed;
        }
        "nodes" => {
            let image = |number| {
                let digest = format!("{number:064x}");
                let name = format!("registry.example.com/shop/image-{number:03}");
                json!({"names": [format!("{name}@sha256:{digest}"), format!("{name}:1.0.0")], "sizeBytes": 48_000_000})
            };
            object["status"]["images"] = (0..IMAGES).map(image).collect();
        }
        _ => {}
    }
    object.to_string()
}
