use serde_json::json;

use super::*;

fn ranks(text: &str, pods: &[(&str, &str)]) -> Vec<usize> {
    let order = ScaleInOrder::read(text).unwrap();
    let pod = |(key, value): &(&str, &str)| {
        let labels = json!({*key: value, "app": "web"});
        ObservedPod::read(&json!({"metadata": {"name": "web-0", "labels": labels}}).to_string()).unwrap()
    };
    pods.iter().map(|labels| order.rank(&pod(labels))).collect()
}

#[test]
fn the_first_label_that_a_pod_has_counts() {
    let pods = [("release", "b"), ("release", "a"), ("pool", "spot"), ("pool", "reserved"), ("release", "c")];
    assert_eq!(ranks("release=a,release=b,pool=spot", &pods), [1, 0, 2, 3, 3]);
    assert_eq!(ranks(" release=b , release=a", &pods), [0, 1, 2, 2, 2]);
    assert_eq!(ranks("app=web,release=a", &pods), [0; 5]);
    assert_eq!(ranks("example.com/tier=", &[("example.com/tier", ""), ("tier", "")]), [0, 1]);
}

#[test]
fn what_is_no_list_of_labels_is_reported() {
    for (text, expected) in [
        ("", &["\"\" is not of the form LABEL=VALUE"][..]),
        ("release", &["\"release\" is not of the form LABEL=VALUE"]),
        ("release=a,", &["\"\" is not of the form LABEL=VALUE"]),
        ("=a", &["label \"\": name part must be non-empty"]),
        ("a b=c", &["label \"a b\": name part must consist of"]),
        ("release=a=b", &["value \"a=b\": a valid label must be"]),
        ("x,y=z z", &["\"x\" is not of the form LABEL=VALUE", "value \"z z\": a valid label must be"]),
    ] {
        let problems = ScaleInOrder::read(text).unwrap_err();
        assert!(expected.len() <= problems.len(), "{text}: {problems:?}");
        for part in expected {
            assert!(problems.iter().any(|problem| problem.starts_with(part)), "{text}: {problems:?}");
        }
    }
    let mut set = CloneSet::default();
    assert_eq!(ScaleInOrder::of(&set), ScaleInOrder::default());
    set.metadata.annotations.insert(SCALE_IN_ORDER.to_owned(), "release".to_owned());
    assert_eq!(ScaleInOrder::of(&set), ScaleInOrder::default(), "what can't be read orders nothing");
}
