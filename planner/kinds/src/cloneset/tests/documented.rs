//! What `docs/cloneset.md` says in its section about Deployments.

use serde_json::{Value, json};

use super::super::fixture::Fleet;
use super::super::*;
use super::in_place;

/// The rows of the table, behind its heading.
fn rows() -> Vec<Vec<&'static str>> {
    let page = include_str!("../../../../../docs/cloneset.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Differences from Deployment"));
    let table = section.unwrap().split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let cells = |row: &'static str| row.split_whitespace().filter(|cell| *cell != "|").collect();
    table.lines().skip(1).map(cells).collect()
}

fn number_or_percentage(cell: &str) -> Value {
    cell.parse::<i32>().map_or_else(|_| json!(cell), |number| json!(number))
}

#[test]
fn the_table_of_percentages_is_right() {
    let rows = rows();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let [replicas, unavailable, surge, partition, down, pods, old] = row.as_slice() else {
            panic!("{row:?}")
        };
        let rolling = json!({
            "maxUnavailable": number_or_percentage(unavailable), "maxSurge": number_or_percentage(surge),
            "partition": number_or_percentage(partition),
        });
        let mut fleet = Fleet::new(Fleet::rolling("ReCreate", rolling));
        fleet.edit(json!({"spec": {"replicas": replicas.parse::<i32>().unwrap()}}));
        let limits = Limits::of(&fleet.set().spec);
        let found = [limits.max_unavailable, limits.replicas + limits.max_surge, limits.partition];
        let reported = [down, pods, old].map(|cell| cell.parse::<i64>().unwrap());
        assert_eq!(found, reported, "{row:?}");
    }
}

#[test]
fn a_pod_that_is_added_in_a_pause_has_the_new_image() {
    let mut fleet = Fleet::running(3, in_place(json!({"paused": true})));
    fleet.image("nginx:2");
    fleet.edit(json!({"spec": {"replicas": 4}}));
    fleet.settle();
    assert_eq!((fleet.with_image("nginx:1"), fleet.with_image("nginx:2")), (3, 1));
}

#[test]
fn surge_in_place_comes_first_and_goes_at_the_end() {
    let mut fleet = Fleet::running(3, in_place(json!({"maxSurge": 1, "maxUnavailable": 0})));
    fleet.image("nginx:2");
    fleet.step();
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (4, 1));
    fleet.settle();
    assert_eq!((fleet.pods.len(), fleet.with_image("nginx:2")), (3, 3));
}
