use super::*;
use crate::podprobemarker::trigger::{concerns, markers_of, of_containers, of_marker, of_pod};

#[test]
fn what_probes_depend_on_wakes_and_nothing_else_does() {
    let (web, markers) = (pod("web", |_| {}), [marker("game", json!([exec("idle")]))]);
    let changes: [(Change, bool); 7] = [
        (|pod| pod["metadata"]["labels"]["app"] = json!("db"), true),
        (|pod| pod["status"]["podIP"] = json!("10.0.0.8"), true),
        (|pod| pod["status"]["conditions"] = json!([]), true),
        (|pod| pod["status"]["phase"] = json!("Failed"), true),
        (|pod| pod["metadata"]["labels"]["idle"] = json!("true"), false),
        (|pod| pod["metadata"]["annotations"] = json!({"a": "b"}), false),
        (|pod| pod["status"]["containerStatuses"] = json!([{"name": "main", "restartCount": 1}]), false),
    ];
    for (change, wakes) in changes {
        let changed = pod("web", change);
        assert_eq!(of_pod(Some(&web), Some(&changed), &markers), wakes, "{changed:?}");
        assert_eq!(concerns(&markers[0], (Some(&web), Some(&changed)), false), wakes, "{changed:?}");
        assert!(!of_containers(Some(&web), Some(&changed)), "no agent runs liveness probes of the Pod");
    }
    assert!(of_pod(None, Some(&web), &[]) && of_pod(Some(&web), None, &[]));
}

#[test]
fn a_marker_is_woken_by_pods_that_it_selects() {
    let (game, web) = (marker("game", json!([exec("idle")])), pod("web", |_| {}));
    let other = |address: &str| {
        pod("other", |pod| {
            pod["metadata"]["labels"]["app"] = json!("db");
            pod["status"]["podIP"] = json!(address);
        })
    };
    assert!(concerns(&game, (None, Some(&web)), false) && concerns(&game, (Some(&web), None), false));
    assert!(!concerns(&game, (None, Some(&other("10.0.0.8"))), false));
    assert!(!concerns(&game, (Some(&other("10.0.0.8")), Some(&other("10.0.0.9"))), false));
    let probed = pod("web", |pod| {
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "game/idle", "status": "True"}));
    });
    assert!(concerns(&game, (Some(&web), Some(&probed)), true), "a platform may have written it");
    assert!(!concerns(&game, (Some(&web), Some(&probed)), false));
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
