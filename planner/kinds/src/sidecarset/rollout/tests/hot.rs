use super::fixture::*;
use crate::sidecarset::rollout::{Hold, Step};
use pod::observed::ObservedPod;

/// A row of the state table: images, the working twin, `version` and `versionalt` of both twins.
fn row(pod: &ObservedPod) -> [String; 7] {
    let image = |name| pod.container(name).unwrap().image.to_string();
    let working = pod.annotation("kruise.io/sidecarset-working-hotupgrade-container").unwrap();
    let note = |prefix, twin| {
        pod.annotation(&format!("{prefix}.sidecarset.kruise.io/mesh-{twin}")).unwrap().to_owned()
    };
    [
        image("mesh-1"),
        image("mesh-2"),
        working.to_owned(),
        note("version", 1),
        note("version", 2),
        note("versionalt", 1),
        note("versionalt", 2),
    ]
}

const ONE: &str = r#"{"mesh":"mesh-1"}"#;
const TWO: &str = r#"{"mesh":"mesh-2"}"#;

fn hot(image: &str, resource_version: &str) -> Wanted {
    Wanted { resource_version: resource_version.to_owned(), ..Wanted::hot(image) }
}

#[test]
fn the_state_table_both_ways() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 1);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", EMPTY, ONE, "1", "0", "0", "1"], "S0");
    let v2 = hot("mesh:v2", "200").set();
    assert_eq!(names(&cluster.round(&v2), Step::Upgrade), ["p00"]);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", "mesh:v2", TWO, "1", "200", "200", "1"], "S1");
    let status = cluster.plan(&v2).status.unwrap();
    assert!(status.contains(r#""updatedPods":1,"readyPods":0"#), "{status}");
    assert!(cluster.round(&v2).pods.is_empty(), "the new twin has not started");
    cluster.kubelets();
    let reset = cluster.round(&v2);
    assert_eq!(names(&reset, Step::Reset), ["p00"]);
    assert_eq!(row(cluster.pod("p00")), [EMPTY, "mesh:v2", TWO, "0", "200", "200", "0"], "S2");
    let event = reset.pods[0].on_success().unwrap();
    assert_eq!((event.warning, event.reason), (false, "ResetContainerSucceed"));
    assert_eq!(event.message, "reset sidecar container image empty successfully");
    let event = reset.pods[0].on_failure("why").unwrap();
    assert_eq!((event.warning, event.reason), (true, "ResetContainerFailed"));
    assert_eq!(event.message, "reset sidecar container image empty failed: why");
    cluster.kubelets();
    assert!(cluster.plan(&v2).status.unwrap().contains(r#""readyPods":1,"updatedReadyPods":1"#));
    let v3 = hot("mesh:v3", "300").set();
    cluster.round(&v3);
    assert_eq!(
        row(cluster.pod("p00")),
        ["mesh:v3", "mesh:v2", ONE, "300", "200", "200", "300"],
        "S1 the other way"
    );
    cluster.kubelets();
    cluster.round(&v3);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v3", EMPTY, ONE, "300", "0", "0", "300"], "S2 the other way");
    cluster.kubelets();
    assert!(cluster.plan(&v3).pods.is_empty());
}

#[test]
fn a_twin_that_never_gets_ready_keeps_the_old_one_and_stops_the_rollout() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 3);
    cluster.broken.push("mesh:v2".to_owned());
    let v2 = hot("mesh:v2", "200").set();
    assert_eq!(names(&cluster.round(&v2), Step::Upgrade), ["p00"]);
    for _ in 0..5 {
        cluster.kubelets();
        assert!(cluster.round(&v2).pods.is_empty());
    }
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", "mesh:v2", TWO, "1", "200", "200", "1"]);
    assert!(cluster.pod("p00").container_status("mesh-1").unwrap().ready);
}

#[test]
fn a_rollback_to_what_the_older_twin_runs_makes_it_work_again() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 1);
    cluster.broken.push("mesh:v2".to_owned());
    cluster.round(&hot("mesh:v2", "200").set());
    cluster.kubelets();
    let v1 = hot("mesh:v1", "300").set();
    assert_eq!(names(&cluster.round(&v1), Step::Upgrade), ["p00"]);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", EMPTY, ONE, "1", "0", "0", "1"], "S0 again");
    assert_eq!(cluster.pod("p00").container_status("mesh-1").unwrap().restart_count, 0);
    cluster.kubelets();
    let plan = cluster.plan(&v1);
    assert!(plan.pods.is_empty() && plan.status.unwrap().contains(r#""updatedReadyPods":1"#));
}

#[test]
fn a_rollback_that_openkruise_left_half_done_is_finished() {
    // Its hash is that of v1, but the broken twin with v2 is the working one.
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 1);
    cluster.broken.push("mesh:v2".to_owned());
    let v1 = cluster.pod("p00").annotation("kruise.io/sidecarset-hash").unwrap().to_owned();
    cluster.round(&hot("mesh:v2", "200").set());
    cluster.kubelets();
    cluster.change("p00", |pod| {
        let hash = ("kruise.io/sidecarset-hash", v1.as_str());
        pod.metadata.annotations = pod.metadata.annotations.iter().chain([hash]).collect();
    });
    let set = hot("mesh:v1", "300").set();
    assert_eq!(names(&cluster.round(&set), Step::Reset), ["p00"]);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", EMPTY, ONE, "1", "0", "0", "1"]);
}

#[test]
fn a_fix_replaces_the_broken_twin() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 1);
    cluster.broken.push("mesh:v2".to_owned());
    cluster.round(&hot("mesh:v2", "200").set());
    cluster.kubelets();
    let v3 = hot("mesh:v3", "300").set();
    cluster.round(&v3);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", "mesh:v3", TWO, "1", "300", "300", "1"]);
    cluster.settle(&v3);
    assert_eq!(row(cluster.pod("p00")), [EMPTY, "mesh:v3", TWO, "0", "300", "300", "0"]);
}

#[test]
fn with_two_healthy_twins_the_idle_one_is_reset_before_the_next_upgrade() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 1);
    cluster.round(&hot("mesh:v2", "200").set());
    cluster.kubelets();
    let v3 = hot("mesh:v3", "300").set();
    let plan = cluster.round(&v3);
    assert_eq!((names(&plan, Step::Reset), names(&plan, Step::Upgrade)), (vec!["p00"], Vec::new()));
    assert_eq!(plan.waiting[0].hold, Hold::Resetting);
    cluster.settle(&v3);
    assert_eq!(row(cluster.pod("p00")), ["mesh:v3", EMPTY, ONE, "300", "0", "0", "300"]);
}

#[test]
fn what_was_begun_is_finished_while_paused() {
    let mut cluster = fleet(&hot("mesh:v1", "100").set(), 2);
    cluster.round(&hot("mesh:v2", "200").set());
    cluster.kubelets();
    let plan = cluster.round(&hot("mesh:v2", "200").strategy(r#"{"paused":true}"#).set());
    assert_eq!((names(&plan, Step::Reset), names(&plan, Step::Upgrade)), (vec!["p00"], Vec::new()));
}

#[test]
fn a_pair_without_an_empty_image_is_never_reset() {
    let wanted = Wanted::hot("mesh:v1");
    let containers = wanted.containers.replace(&format!(r#","hotUpgradeEmptyImage":"{EMPTY}""#), "");
    let set = Wanted { containers, ..wanted }.set();
    assert!(fleet(&set, 1).plan(&set).pods.is_empty());
}

#[test]
fn a_cold_sidecar_beside_a_hot_one_leaves_the_twins_alone() {
    let both = |cold: &str| {
        let (cold, hot) = (Wanted::cold(cold), Wanted::hot("mesh:v1"));
        let containers = format!(
            "[{},{}]",
            cold.containers.trim_matches(['[', ']']),
            hot.containers.trim_start_matches('[').trim_end_matches(']')
        );
        Wanted { containers, ..hot }.set()
    };
    let mut cluster = fleet(&both("log:1"), 1);
    cluster.round(&both("log:2"));
    assert_eq!(row(cluster.pod("p00")), ["mesh:v1", EMPTY, ONE, "1", "0", "0", "1"]);
    assert_eq!(&*cluster.pod("p00").container("log").unwrap().image, "log:2");
}

#[test]
fn another_empty_image_restarts_no_idle_twin() {
    let mut cluster = fleet(&Wanted::hot("mesh:v1").set(), 3);
    cluster.round(&Wanted::hot("mesh:v1").set());
    let wanted = Wanted::hot("mesh:v1");
    let set = Wanted { containers: wanted.containers.replace(EMPTY, "mesh:nothing"), ..wanted }.set();
    let plan = cluster.plan(&set);
    assert!(names(&plan, Step::Reset).is_empty() && names(&plan, Step::Upgrade).is_empty(), "{plan:?}");
    assert_eq!(names(&plan, Step::Condition).len(), 3);
    assert!(plan.status.unwrap().contains(r#""updatedPods":0,"readyPods":3"#));
}
