//! What every plan keeps, whatever the ReplicaSets are and whatever happens between two plans.

use proptest::prelude::{Just, ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use proptest::test_runner::TestCaseError;

use super::*;

/// What happens between plans.
#[derive(Clone, Debug)]
enum Happening {
    Plan,
    /// Kubernetes' own controller looks at the Deployment.
    Kubernetes,
    /// So many Pods become available; that is reported, or not yet.
    Work(usize, bool),
    /// A Pod breaks.
    Break(usize),
    Scale(i64),
    Limit(Value),
}

fn share() -> impl Generator<Value = Value> {
    prop_oneof![
        (0..12_i64).prop_map(|number| json!(number)),
        (0..=100_i64).prop_map(|share| json!(format!("{share}%"))),
        Just(Value::Null),
    ]
}

fn happening() -> impl Generator<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Plan),
        2 => Just(Happening::Kubernetes),
        4 => (1..5_usize, any::<bool>()).prop_map(|(number, is_reported)| Happening::Work(number, is_reported)),
        1 => (0..20_usize).prop_map(Happening::Break),
        1 => (0..12_i64).prop_map(Happening::Scale),
        1 => share().prop_map(Happening::Limit),
    ]
}

fn strategy(limits: (&Value, &Value), partition: &Value) -> Value {
    json!({"partition": partition, "rollingUpdate": {"maxSurge": limits.0, "maxUnavailable": limits.1}})
}

/// Carries out a plan, and checks what it may have changed.
fn check_plan(cluster: &mut Cluster) -> Result<(), TestCaseError> {
    let limits = Strategy::of(&cluster.deployment).unwrap().limits(&cluster.deployment);
    let (new, total, available) = (cluster.size("v2"), cluster.total(), cluster.available());
    cluster.advance();
    let after = (cluster.size("v2"), cluster.total(), cluster.available());
    let context = format!("{limits:?}: {new} of {total} new, {available} available; then {after:?}");
    prop_assert!(after.0 <= limits.updated.max(new), "too many are new: {context}");
    let first = i64::from(new == 0 && after.0 == 1);
    prop_assert!(after.1 <= (limits.replicas + limits.surge).max(total) + first, "too many: {context}");
    let least = (limits.replicas - limits.unavailable).min(available);
    prop_assert!(after.2 >= least, "too few are available: {context}");
    let old = (limits.replicas - limits.updated.max(after.0)).min(total - new);
    prop_assert!(after.1 - after.0 >= old, "too few are old: {context}");
    Ok(())
}

fn happen(
    cluster: &mut Cluster,
    happening: &Happening,
    limits: (&Value, &Value),
) -> Result<(), TestCaseError> {
    match happening {
        Happening::Plan => check_plan(cluster)?,
        Happening::Kubernetes => cluster.kubernetes(),
        Happening::Work(number, is_reported) => {
            let pods = cluster.pods.values_mut().flatten().filter(|available| !**available);
            pods.take(*number).for_each(|available| *available = true);
            if *is_reported {
                cluster.report();
            }
        }
        Happening::Break(number) => {
            let broken = cluster.pods.values_mut().flatten().nth(*number);
            broken.into_iter().for_each(|available| *available = false);
            cluster.report();
        }
        Happening::Scale(replicas) => cluster.deployment["spec"]["replicas"] = (*replicas).into(),
        Happening::Limit(partition) => cluster.strategy(&strategy(limits, partition)),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_keeps_its_limits_and_the_last_one_is_reached(
        replicas in 0..12_i64,
        limits in (share(), share()),
        partition in share(),
        others in proptest::collection::vec((0..8_i64, 0..8_i64), 0..3),
        new in proptest::option::of((0..8_i64, 0..8_i64)),
        happenings in proptest::collection::vec(happening(), 0..40),
    ) {
        let limits = (&limits.0, &limits.1);
        let mut cluster = Cluster::held(replicas, &strategy(limits, &partition));
        for (number, (size, available)) in others.into_iter().enumerate() {
            cluster.set(&format!("v0{number}"), size, available);
        }
        if let Some((size, available)) = new {
            cluster.set("v2", size, available);
        }
        for happening in &happenings {
            happen(&mut cluster, happening, limits)?;
        }
        cluster.roll();
        let wanted = Strategy::of(&cluster.deployment).unwrap().limits(&cluster.deployment);
        prop_assert_eq!(cluster.total(), wanted.replicas);
        prop_assert!(cluster.size("v2") >= wanted.updated);
        let sizes = cluster.sizes();
        cluster.kubernetes();
        prop_assert_eq!(cluster.sizes(), sizes, "Kubernetes agrees");
    }
}
