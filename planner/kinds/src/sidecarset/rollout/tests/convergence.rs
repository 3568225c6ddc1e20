use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::*;
use crate::sidecarset::rollout::{RolloutSet, Step};
use pod::observed::ObservedPod;

/// What happens next in a cluster.
#[derive(Clone, Debug)]
enum Happening {
    /// A plan, of which the writes of some Pods are lost or cut short.
    Round(Vec<u8>),
    /// A kubelet works.
    Kubelet(usize),
    /// The SidecarSet gets this version.
    Version(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        4 => prop::collection::vec(0..4_u8, 8).prop_map(Happening::Round),
        8 => (0..8_usize).prop_map(Happening::Kubelet),
        1 => (0..3_usize).prop_map(Happening::Version),
    ];
    prop::collection::vec(happening, 0..60)
}

fn wanted(hot: bool, version: usize, strategy: &str) -> RolloutSet {
    let wanted =
        if hot { Wanted::hot(&format!("mesh:v{version}")) } else { Wanted::cold(&format!("log:v{version}")) };
    Wanted { resource_version: format!("{}", 100 + version), ..wanted }.strategy(strategy).set()
}

/// Pods that were taken while ready and whose new sidecar does not work yet.
fn unavailable(cluster: &Cluster, taken: &BTreeSet<String>) -> usize {
    taken.iter().filter(|name| !cluster.pod(name).is_ready()).count()
}

/// Pods that are ready and whose sidecar will restart.
fn restarting(cluster: &Cluster) -> usize {
    let restarts = |pod: &ObservedPod| {
        let mut statuses = pod.status.container_statuses.iter();
        pod.is_ready() && statuses.any(|status| pod.container(&status.name).unwrap().image != status.image)
    };
    cluster.pods.iter().filter(|pod| restarts(pod)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens on the way, every Pod ends with the present sidecars, never more ready Pods are
    /// taken than may be, and the app containers stay as they are.
    #[test]
    fn every_rollout_ends(hot in any::<bool>(), count in 1..8_usize, limit in 1..4_usize, happenings in happenings()) {
        let strategy = format!(r#"{{"maxUnavailable":{limit}}}"#);
        let mut set = wanted(hot, 0, &strategy);
        let mut cluster = fleet(&set, count);
        for happening in happenings {
            match happening {
                Happening::Kubelet(index) => cluster.kubelet(&format!("p{:02}", index % count)),
                Happening::Version(version) => set = wanted(hot, version, &strategy),
                Happening::Round(cuts) => {
                    let plan = cluster.plan(&set);
                    let ready = plan.pods.iter().filter(|update| update.step == Step::Upgrade && update.pod.is_ready());
                    prop_assert!(ready.count() <= limit);
                    for (update, cut) in plan.pods.iter().zip(cuts) {
                        cluster.write(update, cut.into());
                    }
                    prop_assert!(hot || restarting(&cluster) <= limit);
                }
            }
        }
        cluster.settle(&set);
        let image = if hot { "mesh:v" } else { "log:v" };
        for pod in &cluster.pods {
            let running: Vec<&str> = pod.status.container_statuses.iter().map(|status| &*status.image).filter(|running| running.starts_with(image)).collect();
            let wanted: Vec<&str> = set.sidecars.iter().map(|sidecar| &*sidecar.image).collect();
            prop_assert_eq!(running, wanted);
            prop_assert_eq!(pod.container_status("app").unwrap().restart_count, 0);
            prop_assert_eq!(&*pod.container("app").unwrap().image, "app:1");
        }
        prop_assert!(cluster.plan(&set).pods.is_empty());
    }

    /// One version is rolled out with no disturbance: never more Pods are unavailable than may be.
    #[test]
    fn no_more_are_unavailable_than_may_be(
        hot in any::<bool>(), count in 1..9_usize, limit in 1..4_usize, partition in 0..4_usize, steps in prop::collection::vec(0..10_usize, 200),
    ) {
        let strategy = format!(r#"{{"maxUnavailable":{limit},"partition":{partition}}}"#);
        let mut cluster = fleet(&wanted(hot, 0, &strategy), count);
        let set = wanted(hot, 1, &strategy);
        let mut taken = BTreeSet::new();
        for step in steps {
            if step == 9 {
                let plan = cluster.round(&set);
                taken.extend(names(&plan, Step::Upgrade).into_iter().map(str::to_owned));
            } else {
                cluster.kubelet(&format!("p{:02}", step % count));
            }
            prop_assert!(unavailable(&cluster, &taken) <= limit);
            prop_assert!(taken.len() <= count.saturating_sub(partition));
        }
        cluster.settle(&set);
        let new = |pod: &&std::sync::Arc<ObservedPod>| {
            pod.spec.containers.iter().any(|container| *container.image == *set.sidecars[0].image)
        };
        prop_assert_eq!(cluster.pods.iter().filter(new).count(), count.saturating_sub(partition));
    }

    /// The same Pods in another order give the same plan.
    #[test]
    fn plans_do_not_depend_on_the_order_of_the_pods(hot in any::<bool>(), count in 1..9_usize, turn in 0..9_usize, unready in any::<[bool; 9]>()) {
        let mut cluster = fleet(&wanted(hot, 0, "{}"), count);
        for (index, unready) in unready.into_iter().enumerate().take(count) {
            cluster.change(&format!("p{index:02}"), |pod| set_ready(pod, !unready, index as i64));
        }
        let set = wanted(hot, 1, r#"{"maxUnavailable":2,"partition":1}"#);
        let first = cluster.plan(&set);
        cluster.pods.rotate_left(turn % count);
        let second = cluster.plan(&set);
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}
