use super::*;
use api::meta::LabelSelector;
use api::sidecarset::{OrderTerm, WeightTerm};
use proptest::prelude::*;

/// A Pod from JSON text in which single quotes replace double ones.
fn pod(json: &str) -> ObservedPod {
    ObservedPod::read(&json.replace('\'', "\"")).unwrap()
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> ObservedPod {
    let mut pod = pod("{'spec':{'nodeName':'n'},'status':{'phase':'Running'}}");
    pod.metadata.name = name.into();
    pod.metadata.labels = labels.iter().copied().collect();
    pod
}

fn scatter(terms: &[(&str, &str)]) -> Vec<ScatterTerm> {
    terms
        .iter()
        .map(|(key, value)| ScatterTerm { key: (*key).to_owned(), value: (*value).to_owned() })
        .collect()
}

/// The names of `pods` in the order of their update, where all of them wait.
fn names<'p>(order: &UpdateOrder, pods: &'p [ObservedPod]) -> Vec<&'p str> {
    let pods: Vec<&ObservedPod> = pods.iter().collect();
    order.sort(&pods, &pods).into_iter().map(|position| &*pods[position].metadata.name).collect()
}

/// The positions, counted from 1, that Pods with label `hot` get.
fn positions(order: &UpdateOrder, pods: &[ObservedPod]) -> Vec<usize> {
    let pods: Vec<&ObservedPod> = pods.iter().collect();
    let sorted = order.sort(&pods, &pods);
    let hot = sorted.iter().enumerate().filter(|(_, position)| pods[**position].label("hot").is_some());
    hot.map(|(place, _)| place + 1).collect()
}

fn fleet(count: usize, hot: usize) -> Vec<ObservedPod> {
    let labels = |index| if index < hot { vec![("hot", "yes")] } else { Vec::new() };
    (0..count).map(|index| labelled(&format!("p{index:02}"), &labels(index))).collect()
}

#[test]
fn what_hurts_least_goes_first() {
    let ready = "'conditions':[{'type':'Ready','status':'True','lastTransitionTime':";
    let pods = [
        pod(&format!("{{'metadata':{{'name':'7-long-ready'}},'spec':{{'nodeName':'n'}},'status':{{'phase':'Running',{ready}'2026-01-01T00:00:00Z'}}]}}}}")),
        pod(&format!("{{'metadata':{{'name':'6-just-ready'}},'spec':{{'nodeName':'n'}},'status':{{'phase':'Running',{ready}'2026-01-02T00:00:00Z'}}]}}}}")),
        pod(&format!("{{'metadata':{{'name':'5-unknown-since'}},'spec':{{'nodeName':'n'}},'status':{{'phase':'Running',{ready}null}}]}}}}")),
        pod("{'metadata':{'name':'4-not-ready','creationTimestamp':'2026-01-01T00:00:00Z'},'spec':{'nodeName':'n'},'status':{'phase':'Running'}}"),
        pod("{'metadata':{'name':'3-newer','creationTimestamp':'2026-01-02T00:00:00Z'},'spec':{'nodeName':'n'},'status':{'phase':'Running'}}"),
        pod("{'metadata':{'name':'2-restarted-sidecar'},'spec':{'nodeName':'n','initContainers':[{'name':'s','restartPolicy':'Always'},{'name':'i'}]},
             'status':{'phase':'Running','initContainerStatuses':[{'name':'s','restartCount':1},{'name':'i','restartCount':9}]}}"),
        pod("{'metadata':{'name':'1-restarted'},'spec':{'nodeName':'n'},'status':{'phase':'Running','containerStatuses':[{'name':'a','restartCount':1}]}}"),
        pod("{'metadata':{'name':'0b-unknown'},'spec':{'nodeName':'n'},'status':{'phase':'Unknown'}}"),
        pod("{'metadata':{'name':'0a-pending'},'spec':{'nodeName':'n'},'status':{'phase':'Pending'}}"),
        pod("{'metadata':{'name':'00-no-node'},'status':{'phase':'Running'}}"),
    ];
    let mut expected: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    expected.sort_unstable();
    assert_eq!(names(&UpdateOrder::default(), &pods), expected);
}

#[test]
fn pods_that_no_rule_distinguishes_are_ordered_by_name() {
    let pods = [labelled("c", &[]), labelled("a", &[]), labelled("b", &[])];
    assert_eq!(names(&UpdateOrder::default(), &pods), ["a", "b", "c"]);
}

fn weight_term(weight: i32, key: &str, value: &str) -> WeightTerm {
    let labels = [(key.to_owned(), value.to_owned())].into_iter().collect();
    WeightTerm {
        weight,
        match_selector: LabelSelector { match_labels: Some(labels), match_expressions: None },
    }
}

#[test]
fn heavier_pods_go_first_and_weights_add_up() {
    let priority = PriorityStrategy {
        weight_priority: vec![
            weight_term(50, "gpu", "true"),
            weight_term(30, "zone", "a"),
            weight_term(30, "idle", "true"),
        ],
        order_priority: vec![OrderTerm { ordered_key: "ignored".to_owned() }],
    };
    let pods = [
        labelled("none", &[("ignored", "x-9")]),
        labelled("zone", &[("zone", "a")]),
        labelled("gpu", &[("gpu", "true")]),
        labelled("both", &[("zone", "a"), ("idle", "true")]),
    ];
    assert_eq!(
        names(&UpdateOrder::of_workload(Some(&priority), &[]), &pods),
        ["both", "gpu", "zone", "none"]
    );
}

#[test]
fn a_weight_with_a_broken_selector_ranks_nobody() {
    let mut broken = weight_term(100, "a", "b");
    broken.match_selector.match_expressions = Some(vec![api::meta::LabelSelectorRequirement::default()]);
    let priority = PriorityStrategy { weight_priority: vec![broken], order_priority: Vec::new() };
    let pods = [labelled("b", &[("a", "b")]), labelled("a", &[])];
    assert_eq!(names(&UpdateOrder::of_workload(Some(&priority), &[]), &pods), ["a", "b"]);
}

#[test]
fn numbers_at_the_end_of_labels_rank_the_larger_first() {
    let keys = ["rank", "fallback"].map(|key| OrderTerm { ordered_key: key.to_owned() });
    let priority = PriorityStrategy { order_priority: keys.into(), ..PriorityStrategy::default() };
    let pods = [
        labelled("f7", &[("fallback", "x-7")]),
        labelled("r2", &[("rank", "node-2"), ("fallback", "99")]),
        labelled("r10", &[("rank", "node-10")]),
        labelled("r0", &[("rank", "node")]),
        labelled("huge", &[("rank", "99999999999999999999")]),
    ];
    assert_eq!(
        names(&UpdateOrder::of_workload(Some(&priority), &[]), &pods),
        ["r10", "r2", "huge", "r0", "f7"]
    );
}

#[test]
fn three_of_ten_are_spread_to_positions_1_6_and_10() {
    let order = UpdateOrder::of_sidecar_set(None, &scatter(&[("hot", "yes")]));
    assert_eq!(positions(&order, &fleet(10, 3)), [1, 6, 10]);
    assert_eq!(positions(&order, &fleet(10, 1)), [1], "one Pod can't be spread");
    assert_eq!(positions(&order, &fleet(10, 9)).len(), 9);
}

#[test]
fn pods_updated_before_count_when_the_rest_is_spread() {
    // 100 Pods, 50 with the label. 50 of these and 4 others wait: 12 and 1 come to each of 4 groups.
    let pods = fleet(100, 50);
    let all: Vec<&ObservedPod> = pods.iter().collect();
    let waiting: Vec<&ObservedPod> = all.iter().copied().take(54).collect();
    let order = UpdateOrder::of_workload(None, &scatter(&[("hot", "yes")]));
    let sorted = order.sort(&waiting, &all);
    let cold: Vec<usize> = (0..54).filter(|place| waiting[sorted[*place]].label("hot").is_none()).collect();
    assert_eq!(cold, [12, 25, 38, 51]);
    // 4 of these and 50 others wait: the 47 others that are too many go first, then one by one.
    let waiting: Vec<&ObservedPod> = all.iter().copied().skip(46).collect();
    let sorted = order.sort(&waiting, &all);
    let hot: Vec<usize> = (0..54).filter(|place| waiting[sorted[*place]].label("hot").is_some()).collect();
    assert_eq!(hot, [47, 49, 51, 53]);
}

#[test]
fn the_star_stands_for_each_value_only_with_sidecarsets() {
    let zones = ["a", "b", "c"];
    let pods: Vec<ObservedPod> =
        (0..9).map(|index| labelled(&format!("p{index}"), &[("zone", zones[index / 3])])).collect();
    let star = scatter(&[("zone", "*"), ("zone", "b")]);
    let expanded = scatter(&[("zone", "a"), ("zone", "b"), ("zone", "c")]);
    let of_star = names(&UpdateOrder::of_sidecar_set(None, &star), &pods);
    assert_eq!(of_star, names(&UpdateOrder::of_workload(None, &expanded), &pods));
    assert_ne!(of_star, names(&UpdateOrder::default(), &pods));
    assert_eq!(
        names(&UpdateOrder::of_workload(None, &scatter(&[("zone", "*")])), &pods),
        names(&UpdateOrder::default(), &pods)
    );
}

#[test]
fn an_empty_value_means_pods_without_the_label() {
    let pods: Vec<ObservedPod> = fleet(10, 7);
    let order = UpdateOrder::of_workload(None, &scatter(&[("hot", "")]));
    let pods: Vec<&ObservedPod> = pods.iter().collect();
    let sorted = order.sort(&pods, &pods);
    let cold: Vec<usize> =
        (0..10).filter(|place| pods[sorted[*place]].label("hot").is_none()).map(|place| place + 1).collect();
    assert_eq!(cold, [1, 6, 10]);
}

#[test]
fn prepared_pods_of_a_workload_go_first() {
    let pods = [labelled("a", &[]), labelled("b", &[(LIFECYCLE_STATE, "PreparingUpdate")])];
    assert_eq!(names(&UpdateOrder::of_workload(None, &[]), &pods), ["b", "a"]);
    assert_eq!(names(&UpdateOrder::of_sidecar_set(None, &[]), &pods), ["a", "b"]);
}

proptest! {
    /// Whatever the terms, the order is a permutation, and the order of the input does not matter.
    #[test]
    fn order_is_total(
        labels in prop::collection::vec((0..4_usize, 0..3_usize), 0..40),
        terms in prop::collection::vec((0..2_usize, 0..4_usize), 0..4),
        waits in prop::collection::vec(any::<bool>(), 40),
        rotation in 0..40_usize,
    ) {
        let values = ["", "x", "y", "z"];
        let pods: Vec<ObservedPod> = labels.iter().enumerate().map(|(index, (a, b))| {
            let pairs: Vec<(&str, &str)> = [("a", values[*a]), ("b", values[*b])].into_iter().filter(|(_, value)| !value.is_empty()).collect();
            labelled(&format!("p{index}"), &pairs)
        }).collect();
        let wanted = ["", "x", "y", "*"];
        let terms: Vec<(&str, &str)> = terms.iter().map(|(key, value)| (["a", "b"][*key], wanted[*value])).collect();
        let order = UpdateOrder::of_sidecar_set(None, &scatter(&terms));
        let mut all: Vec<&ObservedPod> = pods.iter().collect();
        let mut waiting: Vec<&ObservedPod> = all.iter().zip(&waits).filter(|(_, waits)| **waits).map(|(pod, _)| *pod).collect();
        let names = |waiting: &[&ObservedPod], all: &[&ObservedPod]| -> Vec<String> {
            order.sort(waiting, all).into_iter().map(|position| waiting[position].metadata.name.to_string()).collect()
        };
        let first = names(&waiting, &all);
        let mut sorted = order.sort(&waiting, &all);
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..waiting.len()).collect::<Vec<_>>());
        if !waiting.is_empty() {
            let (at, all_at) = (rotation % waiting.len(), rotation % all.len());
            waiting.rotate_left(at);
            all.rotate_left(all_at);
        }
        prop_assert_eq!(first, names(&waiting, &all));
    }
}
