use serde_json::{Value, json};

use super::*;
use pod::node_fit::ObservedNode;

pub(crate) fn facts(labels: &Value, conditions: &[(&str, &str)]) -> NodeFacts {
    let conditions = conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status}));
    let status = json!({"conditions": conditions.collect::<Vec<_>>()});
    let node = json!({"metadata": {"name": "n", "labels": labels}, "status": status});
    serde_json::from_str::<ObservedNode>(&node.to_string()).unwrap().into_facts().1
}

fn read(text: &str) -> Result<PullWhen, String> {
    PullWhen::of(&BTreeMap::from([(PULL_WHEN.to_owned(), text.to_owned())]))
}

#[test]
fn all_terms_have_to_hold() {
    let node = facts(
        &json!({"gpu": "a100", "example.com/pool": ""}),
        &[("Ready", "True"), ("GpuReady", "False"), ("example.com/Warm", "Unknown")],
    );
    for (text, lacking) in [
        ("label:gpu", &[][..]),
        ("label:gpu=a100", &[]),
        ("label:gpu=h100", &["label:gpu=h100"]),
        ("label:example.com/pool=", &[]),
        ("label:zone", &["label:zone"]),
        ("condition:Ready=True", &[]),
        ("condition:GpuReady=True", &["condition:GpuReady=True"]),
        ("condition:GpuReady=False", &[]),
        ("condition:example.com/Warm=Unknown", &[]),
        ("condition:Missing=False", &["condition:Missing=False"]),
        ("label:gpu , condition:Ready=True", &[]),
        ("label:zone,label:gpu,condition:GpuReady=True", &["label:zone", "condition:GpuReady=True"]),
    ] {
        let when = read(text).unwrap();
        let found: Vec<String> = when.lacking(Some(&node)).map(ToString::to_string).collect();
        assert_eq!(found, lacking, "{text}");
        assert_eq!(when.holds(Some(&node)), lacking.is_empty(), "{text}");
        assert!(!when.holds(None), "{text}: nothing holds on a Node that is not known");
    }
    assert!(PullWhen::default().holds(None) && PullWhen::of(&BTreeMap::new()).unwrap().is_empty());
}

#[test]
fn what_is_no_list_of_terms_is_refused_with_its_path() {
    for (text, problem) in [
        ("", r#""" is not of the form label:KEY, label:KEY=VALUE or condition:TYPE=STATUS"#),
        ("gpu", r#""gpu" is not of the form"#),
        ("taint:gpu", r#""taint:gpu" is not of the form"#),
        ("condition:Ready", r#""condition:Ready" is not of the form"#),
        ("label:gpu,", r#""" is not of the form"#),
        ("label:a b", r#""a b": name part must consist of"#),
        ("label:", r#""": name part must be non-empty"#),
        ("label:gpu=a=b", r#"value "a=b": a valid label must be"#),
        ("condition:Ready=true", r#"value "true": supported values: True, False, Unknown"#),
        ("condition:a/b/c=True", r#""a/b/c": a qualified name must consist of"#),
    ] {
        let quoted = values::json_patch::string(text);
        let expected =
            format!("metadata.annotations[kutter.io/pull-when]: Invalid value: {quoted}: {problem}");
        let fault = read(text).unwrap_err();
        assert!(fault.trim_start_matches('[').starts_with(&expected), "{fault}");
    }
    let both = read("gpu,condition:Ready=yes").unwrap_err();
    assert!(both.starts_with('[') && both.matches("Invalid value").count() == 2, "{both}");
}

#[test]
fn an_annotation_is_looked_at_when_it_comes_or_changes() {
    let object = |text: Option<&str>| {
        let annotations = text.map(|text| json!({PULL_WHEN: text}));
        json!({"metadata": {"annotations": annotations}, "spec": {"image": "A"}}).to_string()
    };
    let (none, good, bad) = (object(None), object(Some("label:a")), object(Some("a")));
    let code = |new: &str, old: Option<&str>| refusal(new, old).map(|it| it.denial().unwrap().code);
    assert_eq!(code(&bad, None), Some(400));
    for old in [&none, &good] {
        assert_eq!(code(&bad, Some(old)), Some(400));
    }
    for new in [&bad, &good, &none] {
        assert_eq!(code(new, Some(&bad)), None, "{new}");
    }
    assert_eq!([code(&good, None), code(&none, None)], [None, None]);
}
