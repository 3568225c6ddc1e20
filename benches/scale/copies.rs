//! The objects of the whole cluster: the program makes one unit, as it leaves it at rest, and the others are copies of it.

use benches::in_memory::{ApiServer, Kind};
use benches::report::progress;
use benches::review;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::stand::Stand;
use crate::unit::Unit;

/// Images of a node.
const IMAGES: usize = 50;

/// Fills the server of the stand.
pub(crate) async fn fill(server: &ApiServer, stand: &Stand<'_>) {
    let unit = Unit::new(0);
    server.begin_uids_with(unit.prefix());
    let nodes = stand.settle(1).await;
    let names = nodes.names().to_vec();
    drop(nodes);
    server.begin_uids_with(0);
    copy(server, unit, &names, stand.units);
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
