use jiff::SignedDuration;
use proptest::prelude::*;

use super::fixture::*;
use crate::sidecarset::rollout::{RolloutSet, Trigger, injected, trigger};
use pod::observed::{ContainerStatus, ObservedPod};
use std::sync::Arc;

const ONE: Trigger = Trigger::After(SignedDuration::from_secs(1));

fn changed(pod: &ObservedPod, change: impl FnOnce(&mut ObservedPod)) -> ObservedPod {
    let mut pod = pod.clone();
    change(&mut pod);
    pod
}

#[test]
fn triggers_of_the_spec() {
    let set = Wanted::cold("log:1").set();
    let pod = injected_pod(&set, "a");
    let asked = |set: &RolloutSet, new: &ObservedPod| trigger(set, Some(&pod), Some(new));
    let deleted = changed(&pod, |pod| pod.metadata.deletion_timestamp = Some(at(1).into()));
    let not_ready = changed(&pod, |pod| set_ready(pod, false, 1));
    let settling = changed(&pod, |pod| {
        let state = r#"{"side":{"lastContainerStatuses":{"log":{"imageID":"registry/log-1@sha256:log-1"}}}}"#;
        let key = "kruise.io/sidecarset-inplace-update-state";
        pod.metadata.annotations = pod.metadata.annotations.iter().chain([(key, state)]).collect();
        pod.spec.containers[1].image = "log:2".into();
    });
    let labelled = changed(&pod, |pod| set_label(pod, "canary", "true"));
    assert_eq!(trigger(&set, None, Some(&pod)), Trigger::Now, "created");
    assert_eq!(trigger(&set, Some(&pod), None), Trigger::Now, "gone");
    assert_eq!(asked(&set, &deleted), Trigger::Now, "is being deleted");
    assert_eq!(
        trigger(&set, Some(&deleted), Some(&changed(&deleted, |pod| set_ready(pod, false, 1)))),
        Trigger::Nothing
    );
    assert_eq!(asked(&set, &not_ready), Trigger::Now, "not ready any more");
    assert_eq!(asked(&set, &settling), Trigger::Now, "consistent no more");
    assert_eq!(asked(&set, &labelled), Trigger::Nothing, "labels matter to a selector only");
    assert_eq!(asked(&set, &pod), Trigger::Nothing);
    let restarted = changed(&pod, |pod| pod.status.container_statuses[0].restart_count = 7);
    assert_eq!(asked(&set, &restarted), Trigger::Nothing);
    let selecting = Wanted::cold("log:1").strategy(r#"{"selector":{"matchLabels":{"canary":"true"}}}"#).set();
    assert_eq!(asked(&selecting, &labelled), Trigger::Now, "selected");
    for strategy in [r#"{"type":"NotUpdate"}"#, r#"{"paused":true}"#] {
        let held = Wanted::cold("log:1").strategy(strategy).set();
        for new in [&deleted, &not_ready] {
            assert_eq!(asked(&held, new), ONE, "the status changes all the same");
        }
        assert_eq!(trigger(&held, Some(&pod), None), ONE);
    }
    let stranger = changed(&pod, |pod| pod.metadata.labels = Default::default());
    assert_eq!(trigger(&set, None, Some(&stranger)), Trigger::Nothing);
}

/// The Pod is ready throughout, so nothing else says that its sidecar has started.
#[test]
fn a_container_that_has_started_with_its_image_asks_for_a_plan_at_once() {
    let set = Wanted::cold("log:2").set();
    let old = Arc::new(injected_pod(&Wanted::cold("log:1").set(), "a"));
    let plan = plan_for(&set, std::slice::from_ref(&old));
    let mut written = (*old).clone();
    plan.pods[0].writes.iter().for_each(|write| write.apply(&mut written));
    assert_eq!(trigger(&set, Some(&old), Some(&written)), Trigger::Now, "given its image");
    let reported = |change: fn(&mut ContainerStatus)| {
        changed(&written, |pod| {
            let mut statuses = pod.status.container_statuses.to_vec();
            statuses.iter_mut().filter(|status| &*status.name == "log").for_each(change);
            pod.status.container_statuses = statuses.into();
        })
    };
    let image = reported(|status| status.image = "log:2".into());
    let image_id = reported(|status| status.image_id = "registry/log-2@sha256:log-2".into());
    let another = reported(|status| status.container_id = "containerd://another".into());
    for new in [image, image_id, another] {
        assert!(new.is_ready() && written.is_ready());
        assert_eq!(trigger(&set, Some(&written), Some(&new)), Trigger::Now, "{:?}", new.status);
    }
}

#[test]
fn injected_sidecarsets_are_named_by_the_pod() {
    let set = Wanted::cold("log:1").set();
    let pod = changed(&injected_pod(&set, "a"), |pod| {
        pod.metadata.annotations =
            [("kruise.io/sidecarset-injected-list", "a,side,,b")].into_iter().collect();
    });
    assert_eq!(injected(&pod).collect::<Vec<_>>(), ["a", "side", "b"]);
}

/// Any state that a Pod of the fleet may be in.
fn any_pod(sets: Vec<RolloutSet>) -> impl Strategy<Value = ObservedPod> {
    let count = sets.len();
    (0..count, any::<[bool; 7]>(), 0..4_usize).prop_map(move |(set, flags, image)| {
        let mut pod = injected_pod(&sets[set], "p");
        let [ready, deleted, ended, labelled, statuses, sidecar_ready, condition] = flags;
        set_ready(&mut pod, ready, 1);
        if deleted {
            pod.metadata.deletion_timestamp = Some(at(2).into());
        }
        if ended {
            pod.status.phase = "Succeeded".into();
        }
        if labelled {
            set_label(&mut pod, "canary", "true");
        }
        if statuses {
            pod.status.container_statuses = pod.status.container_statuses[1..].into();
        }
        if let Some(status) = pod.status.container_statuses.iter_mut().nth_back(1) {
            status.ready = sidecar_ready;
        }
        let images = ["log:1", "log:2", "mesh:v1", EMPTY];
        if let Some(container) = pod.spec.containers.iter_mut().nth_back(1) {
            container.image = images[image].into();
        }
        if condition {
            let mut conditions = pod.status.conditions.to_vec();
            conditions.push(pod::write::condition(
                "SidecarSetUpgradable",
                "False",
                "",
                r#"{"side":false}"#,
                at(0),
            ));
            pod.status.conditions = conditions.into();
        }
        pod
    })
}

fn sets() -> Vec<RolloutSet> {
    let selector = r#"{"selector":{"matchLabels":{"canary":"true"}}}"#;
    vec![
        Wanted::cold("log:1").set(),
        Wanted::cold("log:2").strategy(selector).set(),
        Wanted::hot("mesh:v1").set(),
        Wanted::hot("mesh:v2").set(),
    ]
}

proptest! {
    /// What is planned for a Pod, or counted of it, changes with a trigger only.
    #[test]
    fn no_change_that_matters_is_missed(old in any_pod(sets()), new in any_pod(sets()), set in 0..4_usize) {
        let set = &sets()[set];
        let seen = |pod: &ObservedPod| {
            let plan = plan_for(set, &[Arc::new(pod.clone())]);
            let writes: Vec<_> = plan.pods.into_iter().map(|update| (update.step, update.writes)).collect();
            (plan.status, writes, plan.waiting.into_iter().map(|waiting| waiting.hold).collect::<Vec<_>>())
        };
        let image = |pod: &ObservedPod| pod.spec.containers.iter().map(|container| container.image.clone()).collect::<Vec<_>>();
        if trigger(set, Some(&old), Some(&new)) == Trigger::Nothing {
            let (old_seen, new_seen) = (seen(&old), seen(&new));
            prop_assert_eq!(&old_seen.0, &new_seen.0);
            prop_assert_eq!(&old_seen.2, &new_seen.2);
            // The writes themselves depend on the images too, which only the planner must know.
            if image(&old) == image(&new) && old.status.container_statuses == new.status.container_statuses {
                prop_assert_eq!(old_seen.1, new_seen.1);
            }
        }
    }
}
