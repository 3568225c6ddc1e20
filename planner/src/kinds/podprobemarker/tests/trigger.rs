use super::*;
use crate::kinds::podprobemarker::trigger::{markers_of, of_conditions, of_marker, of_pod};

#[test]
fn what_probes_depend_on_wakes_and_nothing_else_does() {
    let web = pod("web", |_| {});
    let changes: [(fn(&mut Value), bool); 6] = [
        (|pod| pod["metadata"]["labels"]["a"] = json!("b"), true),
        (|pod| pod["status"]["podIP"] = json!("10.0.0.8"), true),
        (|pod| pod["status"]["conditions"] = json!([]), true),
        (|pod| pod["status"]["phase"] = json!("Failed"), true),
        (|pod| pod["metadata"]["annotations"] = json!({"a": "b"}), false),
        (|pod| pod["status"]["containerStatuses"] = json!([{"name": "main", "restartCount": 1}]), false),
    ];
    for (change, wakes) in changes {
        let changed = pod("web", change);
        assert_eq!(of_pod(Some(&web), Some(&changed)), wakes, "{changed:?}");
    }
    assert!(of_pod(None, Some(&web)) && of_pod(Some(&web), None));
    assert!(!of_conditions(Some(&web), Some(&web)));
}

#[test]
fn a_status_of_our_own_wakes_nobody() {
    let game = marker("game", json!([exec("idle")]));
    let mut counted = (*game).clone();
    counted.object.status.matched_pods = Some(1);
    counted.object.metadata.resource_version = "8".to_owned();
    assert!(!of_marker(Some(&game), Some(&counted)));
    let more = marker("game", json!([exec("idle"), exec("busy")]));
    assert!(of_marker(Some(&game), Some(&more)) && of_marker(None, Some(&game)));
}

#[test]
fn a_node_pod_probe_is_found_by_the_whole_names_of_markers() {
    let known = json!({"spec": {"podProbes": [{"namespace": "shop", "probes": [
        {"name": "a-b#p"}, {"name": "a-b#q"}, {"name": "b#p"}, {"name": "#main"}, {"name": "odd"}]}]}});
    assert_eq!(markers_of(&read(&known)).into_iter().collect::<Vec<_>>(), ["shop/a-b", "shop/b"]);
}
