//! Which Pods go first when there are too many.

use std::collections::BTreeMap;

use kit::builders::Object;
use kit::{fake_nodes, wait_for};
use serde_json::{Value, json};

use super::{Fleet, asked, clone_set, name};
use crate::support::call;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A CloneSet whose Pods are bound here: the first to the first of `nodes`, and so on.
async fn placed(
    prefix: &str,
    zones: &[&str],
    places: &[usize],
    refine: impl FnOnce(Object) -> Object,
) -> (Fleet, BTreeMap<String, usize>) {
    let mut options = fake_nodes::Options::nodes(zones.len());
    for (index, zone) in zones.iter().enumerate() {
        options = options.label(index, ZONE, zone);
    }
    let replicas = u32::try_from(places.len()).unwrap();
    let fleet = Fleet::found(asked().await, prefix, options, |shop| {
        refine(clone_set(shop, "v1beta1").replicas(replicas))
    })
    .await;
    let pods = fleet.wait_pods("all Pods", |pods| pods.len() == places.len()).await;
    // Names of nodes come in the order of their numbers.
    let mut of = BTreeMap::new();
    for (pod, place) in pods.iter().map(name).zip(places) {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": fleet.nodes.names()[*place]});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
        let (code, answer) =
            call(&fleet.shop.client, "POST", &format!("{}/binding", fleet.pod(&pod).path), &binding).await;
        assert_eq!(code, 201, "{answer:#}");
        of.insert(pod, *place);
    }
    // The controllers know all Nodes once each has its NodeImage.
    for node in fleet.nodes.names() {
        let path = format!("/apis/apps.kruise.io/v1beta1/nodeimages/{node}");
        wait_for("the Node to be known", async || {
            match call(&fleet.shop.client, "GET", &path, &Value::Null).await {
                (200, _) => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }
    fleet.complete().await;
    (fleet, of)
}

/// Scales in by one Pod until only one is left in the place of which there are most, `most`. Of 13 Pods of
/// which 5 are there, chance would take the right ones in one of 143 runs.
async fn always_taken_from(fleet: &Fleet, mut of: BTreeMap<String, usize>, most: usize) {
    while of.values().filter(|place| **place == most).count() > 1 {
        fleet.scale(u32::try_from(of.len() - 1).unwrap()).await;
        fleet.complete().await;
        let left = fleet.names().await;
        let gone: Vec<usize> =
            of.iter().filter(|(name, _)| !left.contains(name)).map(|(_, place)| *place).collect();
        assert_eq!(gone, [most], "of {of:?}");
        of.retain(|name, _| left.contains(name));
    }
}

/// Scenario 22: no two Pods share a node, but some a zone.
#[tokio::test]
async fn the_fullest_zone_gives_a_pod() {
    let constraints = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let zones = [0, 1, 2, 3, 4, 5, 3, 3, 6, 7, 3, 8, 3];
    let names = zones.map(|zone| format!("z{zone}"));
    let places: Vec<usize> = (0..zones.len()).collect();
    let (fleet, of) = placed("cloneset-zone", &names.each_ref().map(String::as_str), &places, |set| {
        set.with("/spec/template/spec/topologySpreadConstraints", constraints)
    })
    .await;
    let of = of.into_iter().map(|(pod, place)| (pod, zones[place])).collect();
    always_taken_from(&fleet, of, 3).await;
}
