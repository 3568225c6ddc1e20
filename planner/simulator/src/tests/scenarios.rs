//! Single stories with a known end: the simulator itself does what it says.

use api::Raw;
use api::features::Feature;
use api::kinds::cloneset::Spec;
use api::kinds::shared::{IntOrString, PodUpdatePolicy};

use super::*;
use crate::timeline::Look;

pub(super) fn set(replicas: i32, image: &str) -> CloneSet {
    let mut set = CloneSet::default();
    set.metadata.name = "web".to_owned();
    set.metadata.namespace = "default".to_owned();
    set.spec.replicas = Some(replicas);
    set.spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    let template = format!(
        r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"main","image":"{image}"}},
        {{"name":"aa","image":"{image}"}}]}}}}"#
    );
    set.spec.template = Some(Raw::parse(template).unwrap());
    let rolling = &mut set.spec.update_strategy.rolling_update;
    rolling.pod_update_policy = Some(PodUpdatePolicy::InPlaceIfPossible);
    rolling.max_unavailable = Some(IntOrString::Int(1));
    set
}

pub(super) fn cluster(set: CloneSet) -> Cluster<'static, CloneSet> {
    Cluster::new(set, Settings { record: true, ..Settings::default() }, &plan)
}

#[test]
fn a_rollout_in_place_keeps_all_pods_and_its_budget() {
    let mut cluster = cluster(set(3, "app:v1"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    cluster.add(0, Step::Amend(Box::new(set(3, "app:v2").spec)));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let timeline = cluster.timeline();
    assert_eq!(timeline.tracks.len(), 3, "no Pod was recreated");
    for track in &timeline.tracks {
        let revisions: BTreeSet<&str> = track.spans.iter().map(|span| &*span.revision).collect();
        assert_eq!(revisions.len(), 2);
        assert_eq!(track.spans.last().unwrap().look, Look::Available);
    }
    let full = timeline.samples.iter().position(|(_, counts)| counts.available == 3).unwrap();
    assert!(timeline.samples[full..].iter().all(|(_, counts)| counts.available >= 2));
}

#[test]
fn an_image_that_cannot_be_pulled_stops_the_rollout_and_is_reported() {
    let mut cluster = cluster(set(3, "app:v1"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    cluster.add(0, Step::Amend(Box::new(set(3, "bad:v2").spec)));
    let Rest::Unfinished(reasons) = cluster.settle_down(LIMIT) else { panic!("it ends") };
    assert!(reasons.contains(&"2 of 3 Pods are available".to_owned()), "{reasons:?}");
    assert!(cluster.blockers().iter().any(|line| line.contains("ImagePullBackOff")));
    cluster.add(0, Step::Amend(Box::new(set(3, "app:v3").spec)));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
}

#[test]
fn a_pod_whose_update_is_refused_holds_up_no_other_and_is_updated_when_it_may() {
    let mut cluster = cluster(set(4, "app:v1"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let samples = cluster.timeline().samples.len();
    cluster.add(0, Step::Refuse(0, None));
    cluster.add(10, Step::Amend(Box::new(set(4, "app:v2").spec)));
    cluster.run_until(cluster.elapsed() + 1_800_000);
    let counts = cluster.counts();
    assert_eq!((counts.old, counts.new, counts.available), (1, 3, 4));
    assert!(cluster.blockers().iter().any(|line| line.contains("the API server refuses it")));
    assert!(cluster.timeline().samples[samples..].iter().all(|(_, counts)| counts.available >= 3));
    let refused = cluster.timeline().entries.iter().filter(|entry| entry.text.starts_with("is refused:"));
    assert!((10..60).contains(&refused.count()), "it is tried after pauses that grow");
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    assert_eq!(cluster.timeline().tracks.len(), 4, "no Pod was recreated");
}

#[test]
fn what_open_kruise_leaves_is_taken_over_untouched_and_can_be_updated() {
    for is_old in [false, true] {
        let mut cluster = cluster(set(3, "app:v1"));
        for image in ["app:v1", "app:v2"] {
            cluster.add(0, Step::Amend(Box::new(set(3, image).spec)));
            assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
        }
        let entries = cluster.timeline().entries.len();
        cluster.add(0, Step::TakeOver(is_old));
        assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
        let touched = cluster.timeline().entries[entries..].iter();
        let touched: Vec<_> = touched.filter(|entry| entry.actor == Actor::Kutter).collect();
        assert!(touched.is_empty(), "{touched:?}");
        assert_eq!(cluster.server.revisions.len(), 2);
        cluster.add(0, Step::Amend(Box::new(set(3, "app:v3").spec)));
        assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
        assert_eq!(cluster.timeline().tracks.len(), 3, "no Pod was recreated");
    }
}

#[test]
fn what_faults_take_is_not_held_against_the_controller() {
    let mut cluster = cluster(set(4, "app:v1"));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    for node in 0..3 {
        cluster.add(node * 100, Step::FailNode(node as usize, Some(60_000)));
    }
    cluster.add(300, Step::Amend(Box::new(set(4, "app:v2").spec)));
    cluster.run_until(cluster.elapsed() + 120_000);
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    assert!(cluster.violations().is_empty());
    assert!(cluster.timeline().samples.iter().any(|(_, counts)| counts.available < counts.floor));
}

#[test]
fn the_chart_has_a_row_for_each_pod_and_is_well_formed() {
    let mut cluster = cluster(set(3, "app:v1"));
    cluster.settle_down(LIMIT);
    let svg = chart::svg(cluster.timeline(), "web & <co>");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for track in &cluster.timeline().tracks {
        assert!(svg.contains(&format!(">{}</text>", track.name)));
    }
    assert!(svg.contains("web &amp; &lt;co&gt;"));
    let opened = svg.matches("<text").count() + svg.matches("<title").count();
    assert_eq!(opened, svg.matches("</text>").count() + svg.matches("</title>").count());
}

/// A rollout with so much surge of Pods that will not be available for 68 years, which begins when minReadySeconds have
/// been raised.
fn blue_green(
    surge: &str,
    planner: Planner<'_, CloneSet>,
    judge: impl Fn(&mut Cluster<'_, CloneSet>, &Spec),
) {
    let spec = |image: &str, min_ready_seconds: i32| {
        let mut spec = set(5, image).spec;
        spec.min_ready_seconds = Some(min_ready_seconds);
        let rolling = &mut spec.update_strategy.rolling_update;
        rolling.pod_update_policy = Some(PodUpdatePolicy::ReCreate);
        rolling.max_unavailable = Some(IntOrString::Int(0));
        rolling.max_surge = Some(IntOrString::String(surge.to_owned()));
        spec
    };
    let mut start = set(5, "app:v1");
    start.spec = spec("app:v1", 0);
    let mut cluster = Cluster::new(start, Settings { record: true, ..Settings::default() }, planner);
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    cluster.add(0, Step::Amend(Box::new(spec("app:v1", i32::MAX - 1))));
    cluster.add(60_000, Step::Amend(Box::new(spec("app:v2", i32::MAX - 1))));
    cluster.run_until(cluster.elapsed() + 3_600_000);
    judge(&mut cluster, &spec("app:v2", 0));
}

#[test]
fn serving_pods_stay_beside_new_ones_that_are_not_available_until_the_settings_are_put_back() {
    for (surge, new) in [("50%", 3), ("100%", 5)] {
        blue_green(surge, &plan, |cluster, after| {
            let counts = cluster.counts();
            assert_eq!((counts.old, counts.new), (5, new), "maxSurge {surge}");
            cluster.add(0, Step::Amend(Box::new(after.clone())));
            cluster.run_until(cluster.elapsed() + 3_600_000);
            let counts = cluster.counts();
            assert_eq!((counts.old, counts.new, counts.available), (0, 5, 5), "maxSurge {surge}");
            assert!(cluster.violations().is_empty(), "{:?}", cluster.violations());
        });
    }
}

/// Takes minReadySeconds for 0.
pub(super) const HASTY: Planner<'static, CloneSet> =
    &|snapshot, moment| plan_with(snapshot, moment, |spec| spec.min_ready_seconds = Some(0));

#[test]
fn a_planner_for_which_new_pods_that_serve_are_good_enough_is_noticed() {
    blue_green("50%", HASTY, |cluster, _| assert_eq!(cluster.violations()[0].rule, "Served"));
}

/// A rollout that has left one of five Pods is taken back by its partition, when minReadySeconds have been raised to 68
/// years.
fn taken_back(
    (surge, unavailable): (i32, i32),
    planner: Planner<'_, CloneSet>,
    judge: impl Fn(&mut Cluster<'_, CloneSet>, &Spec),
) {
    let spec = |image: &str, partition: i32, min_ready_seconds: i32| {
        let mut spec = set(5, image).spec;
        spec.min_ready_seconds = Some(min_ready_seconds);
        let rolling = &mut spec.update_strategy.rolling_update;
        rolling.pod_update_policy = Some(PodUpdatePolicy::ReCreate);
        rolling.partition = Some(IntOrString::Int(partition));
        rolling.max_unavailable = Some(IntOrString::Int(unavailable));
        rolling.max_surge = Some(IntOrString::Int(surge));
        spec
    };
    let mut start = set(5, "app:v1");
    start.spec = spec("app:v1", 0, 0);
    let gates = FeatureGates::default().with(Feature::CloneSetPartitionRollback, true);
    let settings = Settings { record: true, gates, ..Settings::default() };
    let mut cluster = Cluster::new(start, settings, planner);
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    cluster.add(0, Step::Amend(Box::new(spec("app:v2", 1, 0))));
    assert_eq!(cluster.settle_down(LIMIT), Rest::Converged);
    let counts = cluster.counts();
    assert_eq!((counts.old, counts.new, counts.available), (1, 4, 5));
    cluster.add(0, Step::Amend(Box::new(spec("app:v2", 1, i32::MAX - 1))));
    cluster.add(60_000, Step::Amend(Box::new(spec("app:v2", 4, i32::MAX - 1))));
    cluster.run_until(cluster.elapsed() + 3_600_000);
    judge(&mut cluster, &spec("app:v2", 4, 0));
}

#[test]
fn serving_pods_at_the_newest_revision_stay_beside_those_that_went_back_and_are_not_available() {
    // With maxUnavailable 2 one of the four is deleted: three of them, and not the old one, are as many as have to
    // stay.
    for (settings, expected) in
        [((1, 0), (2, 4)), ((3, 0), (4, 4)), ((3, 1), (4, 4)), ((0, 1), (1, 4)), ((0, 2), (2, 3))]
    {
        taken_back(settings, &plan, |cluster, after| {
            let case = format!("maxSurge and maxUnavailable are {settings:?}");
            let counts = cluster.counts();
            assert_eq!((counts.old, counts.new), expected, "{case}");
            cluster.add(0, Step::Amend(Box::new(after.clone())));
            cluster.run_until(cluster.elapsed() + 3_600_000);
            let counts = cluster.counts();
            assert_eq!((counts.old, counts.new, counts.available), (4, 1, 5), "{case}");
            assert!(cluster.violations().is_empty(), "{case}: {:?}", cluster.violations());
        });
    }
}

#[test]
fn a_planner_for_which_pods_that_went_back_and_serve_are_good_enough_is_noticed() {
    for settings in [(3, 0), (0, 1)] {
        taken_back(settings, HASTY, |cluster, _| assert_eq!(cluster.violations()[0].rule, "Served"));
    }
}
