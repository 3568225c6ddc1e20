use super::fixture::*;
use crate::sidecarset::account::{Findings, not_updated};
use crate::sidecarset::rollout::{Hold, Refused, Step};

/// How many of `total` ready Pods are taken at once.
fn taken(total: usize, strategy: &str) -> usize {
    let cluster = fleet(&Wanted::cold("log:1").set(), total);
    names(&cluster.plan(&Wanted::cold("log:2").strategy(strategy).set()), Step::Upgrade).len()
}

#[test]
fn checks_of_the_spec() {
    for (total, strategy, expected) in [
        (5, r#"{"partition":"99%","maxUnavailable":"100%"}"#, 1),
        (5, r#"{"partition":"1%","maxUnavailable":"100%"}"#, 4),
        (10, r#"{"partition":"90%","maxUnavailable":"100%"}"#, 1),
        (5, r#"{"maxUnavailable":"5%"}"#, 1),
        (5, r#"{}"#, 1),
        (5, r#"{"maxUnavailable":0}"#, 0),
        (5, r#"{"partition":5,"maxUnavailable":5}"#, 0),
        (5, r#"{"partition":9,"maxUnavailable":5}"#, 0),
        (5, r#"{"maxUnavailable":3,"type":"SomethingElse"}"#, 3),
    ] {
        assert_eq!(taken(total, strategy), expected, "{strategy} of {total}");
    }
}

#[test]
fn pods_that_are_updated_and_not_ready_use_up_the_limit() {
    let (old, new) =
        (Wanted::cold("log:1").set(), Wanted::cold("log:2").strategy(r#"{"maxUnavailable":10}"#).set());
    let mut cluster = fleet(&old, 100);
    for index in 0..30 {
        let mut updated = injected_pod(&new, &format!("p{index:02}"));
        set_ready(&mut updated, index >= 4, 1);
        cluster.change(&format!("p{index:02}"), |pod| *pod = updated);
    }
    let plan = cluster.plan(&new);
    assert_eq!(names(&plan, Step::Upgrade).len(), 6);
    assert_eq!(plan.waiting.len(), 64);
    assert!(plan.waiting.iter().all(|waiting| waiting.hold == Hold::MaxUnavailable { busy: 10, limit: 10 }));
    assert_eq!(
        plan.summary().unwrap(),
        "64 wait (shop/p36, shop/p37, shop/p38, ...): 10 Pods are being updated and spec.updateStrategy.maxUnavailable is 10"
    );
}

#[test]
fn a_pod_that_is_not_ready_is_taken_for_free() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 3);
    cluster.change("p01", |pod| set_ready(pod, false, 1));
    let plan = cluster.plan(&Wanted::cold("log:2").strategy(r#"{"maxUnavailable":0}"#).set());
    assert_eq!(names(&plan, Step::Upgrade), ["p01"]);
}

#[test]
fn the_selector_decides_who_is_updated() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 3);
    cluster.change("p02", |pod| set_label(pod, "canary", "true"));
    let strategy = r#"{"selector":{"matchLabels":{"canary":"true"}},"maxUnavailable":3}"#;
    let set = Wanted::cold("log:2").strategy(strategy).set();
    let plan = cluster.round(&set);
    assert_eq!(names(&plan, Step::Upgrade), ["p02"]);
    assert!(plan.waiting.iter().all(|waiting| waiting.hold == Hold::NotSelected));
    cluster.kubelets();
    cluster.change("p00", |pod| set_label(pod, "canary", "true"));
    assert_eq!(names(&cluster.plan(&set), Step::Upgrade), ["p00"]);
    let broken = r#"{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}"#;
    assert!(cluster.plan(&Wanted::cold("log:2").strategy(broken).set()).pods.is_empty());
}

#[test]
fn heavier_pods_go_first() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 5);
    for name in ["p03", "p04"] {
        cluster.change(name, |pod| set_label(pod, "gpu", "true"));
    }
    let strategy = r#"{"maxUnavailable":2,"priorityStrategy":{"weightPriority":[{"weight":50,"matchSelector":{"matchLabels":{"gpu":"true"}}}]}}"#;
    assert_eq!(
        names(&cluster.plan(&Wanted::cold("log:2").strategy(strategy).set()), Step::Upgrade),
        ["p03", "p04"]
    );
}

#[test]
fn scattered_pods_come_first_sixth_and_last() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 10);
    for name in ["p00", "p01", "p02"] {
        cluster.change(name, |pod| set_label(pod, "hot", "yes"));
    }
    let strategy = r#"{"scatterStrategy":[{"key":"hot","value":"yes"}]}"#;
    let set = Wanted::cold("log:2").strategy(strategy).set();
    let plan = cluster.plan(&set);
    let order =
        plan.pods.iter().map(|update| &update.pod).chain(plan.waiting.iter().map(|waiting| &waiting.pod));
    let hot: Vec<usize> =
        order.enumerate().filter(|(_, pod)| pod.label("hot").is_some()).map(|(place, _)| place + 1).collect();
    assert_eq!(hot, [1, 6, 10]);
}

#[test]
fn what_waits_says_why() {
    let (old, new) =
        (Wanted::cold("log:1").set(), Wanted::cold("log:2").strategy(r#"{"partition":1}"#).set());
    let mut cluster = fleet(&old, 4);
    let first = cluster.round(&new);
    assert_eq!(names(&first, Step::Upgrade), ["p00"]);
    assert_eq!(
        first.summary().unwrap(),
        "1 wait (shop/p03): spec.updateStrategy.partition keeps 1 Pods as they are; \
         2 wait (shop/p01, shop/p02): 1 Pods are being updated and spec.updateStrategy.maxUnavailable is 1"
    );
}

/// The account of a SidecarSet and `kutter explain` say the same.
#[test]
fn what_a_strategy_holds_back_is_reported_by_a_word_and_a_message() {
    let cluster = fleet(&Wanted::cold("log:1").set(), 1);
    for (strategy, word, message) in [
        (r#"{"paused":true}"#, "UpdatePaused", "spec.updateStrategy.paused is true"),
        (r#"{"partition":1}"#, "Partition", "spec.updateStrategy.partition keeps 1 Pods as they are"),
        (
            r#"{"selector":{"matchLabels":{"wave":"1"}}}"#,
            "UpdateNotSelected",
            "spec.updateStrategy.selector does not match",
        ),
        (r#"{"type":"NotUpdate"}"#, "NeverUpdated", "spec.updateStrategy.type is NotUpdate"),
    ] {
        let set = Wanted::cold("log:2").strategy(strategy).set();
        let plan = cluster.plan(&set);
        let reported = not_updated(&set, &plan, cluster.pod("p00")).unwrap();
        assert_eq!((reported.word(), reported.to_string()), (word, format!("not updated: {message}")));
        let findings = Findings::of_rollout(&set, &plan, [cluster.pod("p00")]);
        let found: Vec<_> =
            findings.sorted().iter().map(|finding| (&finding.reason, finding.count)).collect();
        assert_eq!(found, [(&reported, 1)]);
    }
}

#[test]
fn a_pod_that_restarts_for_an_earlier_version_uses_up_the_limit() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 3);
    let newest = Wanted::cold("log:3").set();
    assert_eq!(names(&cluster.round(&Wanted::cold("log:2").set()), Step::Upgrade), ["p00"]);
    let plan = cluster.plan(&newest);
    assert!(plan.pods.is_empty(), "two Pods would restart at once: {plan:?}");
    assert_eq!(
        plan.summary().unwrap(),
        "1 wait (shop/p00): container log has not started with the image given to it before; \
         2 wait (shop/p01, shop/p02): 1 Pods are being updated and spec.updateStrategy.maxUnavailable is 1"
    );
    cluster.kubelets();
    assert_eq!(names(&cluster.plan(&newest), Step::Upgrade), ["p00"]);
}

/// What a plan takes and why Pods wait, when the API server refused these Pods.
fn around(cluster: &Cluster, strategy: &str, refused: &[&str]) -> (Vec<String>, Option<String>) {
    let set = Wanted::cold("log:2").strategy(strategy).set();
    let refused: Refused =
        refused.iter().map(|name| (format!("uid-{name}").into(), format!("no {name}").into())).collect();
    let plan = cluster.plan_around(&set, &refused);
    (names(&plan, Step::Upgrade).into_iter().map(str::to_owned).collect(), plan.summary())
}

#[test]
fn a_pod_that_is_refused_takes_nobodys_place() {
    let cluster = fleet(&Wanted::cold("log:1").set(), 10);
    assert_eq!(around(&cluster, r#"{"maxUnavailable":1}"#, &["p00"]).0, ["p01"]);
    // It is one of the nine that stay old.
    let (taken, waiting) = around(&cluster, r#"{"partition":9,"maxUnavailable":"100%"}"#, &["p00"]);
    assert_eq!(taken, ["p01"]);
    assert!(waiting.unwrap().contains("1 wait (shop/p00): the update was refused (no p00)"));
    assert_eq!(around(&cluster, r#"{"partition":9}"#, &["p00", "p01", "p02"]).0, ["p03"]);
    assert!(around(&cluster, r#"{"partition":10}"#, &["p00"]).0.is_empty());
}

#[test]
fn many_refusals_are_reported_in_one_sentence() {
    let cluster = fleet(&Wanted::cold("log:1").set(), 5);
    let (_, waiting) = around(&cluster, "{}", &["p00", "p01", "p02", "p03", "p04"]);
    assert_eq!(
        waiting.unwrap(),
        "5 wait (shop/p00, shop/p01, shop/p02, ...): the update was refused (no p00)"
    );
}

#[test]
fn a_refused_pod_gets_neither_its_reset_nor_its_condition() {
    let mut cluster = fleet(&Wanted::hot("mesh:1").set(), 2);
    let newer = Wanted::hot("mesh:2").strategy(r#"{"maxUnavailable":2}"#).set();
    cluster.round(&newer);
    cluster.kubelets();
    assert_eq!(names(&cluster.plan(&newer), Step::Reset), ["p00", "p01"]);
    let refused: Refused = [("uid-p00".into(), "no".into())].into();
    assert_eq!(names(&cluster.plan_around(&newer, &refused), Step::Reset), ["p01"]);
    let cluster = fleet(&Wanted::cold("log:1").set(), 2);
    let other = Wanted::cold("log:1").set();
    let changed = Wanted { containers: r#"[{"name":"log","image":"log:1"}]"#.to_owned(), ..Wanted::cold("") };
    assert!(cluster.plan(&other).pods.is_empty());
    assert_eq!(names(&cluster.plan_around(&changed.set(), &refused), Step::Condition), ["p01"]);
}

#[test]
fn an_annotation_that_cannot_be_patched_takes_no_room() {
    let mut cluster = fleet(&Wanted::cold("log:1").set(), 4);
    cluster.change("p00", |pod| {
        pod.metadata.annotations = pod.metadata.annotations.iter().chain([("config", "oops")]).collect();
    });
    let patch = r#","patchPodMetadata":[{"annotations":{"config":"{}"},"patchPolicy":"MergePatchJson"}]"#;
    let set = Wanted::cold("log:2").more(patch).strategy(r#"{"partition":3}"#).set();
    let plan = cluster.plan(&set);
    assert_eq!(names(&plan, Step::Upgrade), ["p01"]);
    assert!(matches!(&plan.waiting[0].hold, Hold::Annotation(_)), "{:?}", plan.waiting);
}
