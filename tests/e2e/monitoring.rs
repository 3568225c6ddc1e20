//! The alerts and the dashboard of the chart are about metrics, labels and values that exist, and each alert says what to
//! do (docs/metrics.md#alerts-and-a-dashboard).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kit::wait_for;
use serde_json::Value;

use crate::chart::{one, render};
use crate::support::{Shop, shared};

const PAGE: &str = include_str!("../../docs/metrics.md");
/// Served once something went wrong, or was refused.
const RARE: [&str; 6] = [
    "controller_runtime_reconcile_errors_total",
    "namespace_deletion_protection",
    "crd_deletion_protection",
    "workload_deletion_protection",
    "resource_deletion_protection",
    "pod_unavailable_budget",
];
/// Words of the query language that are neither metrics nor labels.
const WORDS: [&str; 15] = [
    "absent",
    "and",
    "by",
    "changes",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "on",
    "or",
    "rate",
    "sum",
    "time",
    "unless",
    "without",
];
/// What comes with the scrape, and the label of buckets.
const OUTSIDE: [&str; 4] = ["instance", "job", "le", "up"];
/// What agents of nodes serve, which do not run here.
const OF_AGENTS: &str = "kruise_daemon_";
/// What is served of objects, where their kinds are named.
const OF_OBJECTS: [&str; 4] =
    ["kruise_cloneset_", "kruise_statefulset_", "kruise_daemonset_", "kruise_podunavailablebudget_"];
/// The folders with the code that counts.
const CODE: [&str; 9] =
    ["certs", "cluster", "controllers", "informers", "kubectl-kruise", "node", "planner", "src", "webhooks"];

/// Nobody serves it to these tests.
fn is_elsewhere(metric: &str) -> bool {
    OF_OBJECTS.iter().chain([&OF_AGENTS]).any(|prefix| metric.starts_with(prefix))
}

/// What an expression names.
#[derive(Debug, Default, PartialEq)]
struct Named {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
    /// The values that labels are compared with, those of a regular expression one by one.
    values: BTreeSet<(String, String)>,
}

fn rendered() -> Vec<Value> {
    render(&["prometheusRule.enabled=true", "grafanaDashboard.enabled=true"])
}

fn alerts(objects: &[Value]) -> Vec<Value> {
    let groups = one(objects, "PrometheusRule")["spec"]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
}

fn dashboard(objects: &[Value]) -> Value {
    let of_grafana = |object: &&Value| {
        object["kind"] == "ConfigMap" && object["metadata"]["labels"]["grafana_dashboard"] == "1"
    };
    let text = objects.iter().find(of_grafana).unwrap()["data"]["kutter.json"].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

/// The code that is built into the program.
fn code() -> String {
    fn read(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                read(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                let whole = std::fs::read_to_string(&path).unwrap();
                text.push_str(whole.split("#[cfg(test)]\nmod tests").next().unwrap());
            }
        }
    }
    let mut text = String::new();
    for folder in CODE {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
    }
    text
}

/// A text is in quotes in the code, a number by itself.
fn is_written(code: &str, value: &str) -> bool {
    if value.bytes().any(|byte| !byte.is_ascii_digit()) {
        return code.contains(&format!("\"{value}\""));
    }
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    code.match_indices(value).any(|(start, _)| {
        !is_part(code[..start].chars().next_back()) && !is_part(code[start + value.len()..].chars().next())
    })
}

fn named(expression: &str) -> Named {
    let Named { mut metrics, mut labels, mut values } = Named::default();
    let (mut word, mut in_text, mut in_range, mut in_labels) = (String::new(), false, false, false);
    let (mut grouping, mut label, mut text) = (false, String::new(), String::new());
    for character in expression.chars().chain([' ']) {
        match character {
            '"' => {
                in_text = !in_text;
                if !in_text {
                    values.extend(text.split('|').map(|value| (label.clone(), value.to_owned())));
                    text.clear();
                }
            }
            _ if in_text => {
                text.push(character);
                continue;
            }
            '[' => in_range = true,
            ']' => in_range = false,
            _ if in_range => continue,
            _ if character.is_ascii_alphanumeric() || matches!(character, '_' | '.') => {
                word.push(character);
                continue;
            }
            _ => {}
        }
        let ended = std::mem::take(&mut word);
        if matches!(ended.as_str(), "by" | "on") {
            grouping = true;
        } else if ended.starts_with(|first: char| first.is_ascii_alphabetic()) && !WORDS.contains(&&*ended) {
            if in_labels {
                label.clone_from(&ended);
                labels.insert(ended)
            } else {
                metrics.insert(ended)
            };
        }
        match character {
            '{' => in_labels = true,
            '(' if grouping => in_labels = true,
            '}' | ')' => {
                in_labels = false;
                grouping = false;
            }
            _ => {}
        }
    }
    Named { metrics, labels, values }
}

#[test]
fn expressions_are_taken_apart() {
    let found = named(
        r#"histogram_quantile(0.99, sum by (le, a) (rate(x_bucket{b!="c d", f=~"1|2"}[5m]) and on (e) y)) > 0.5"#,
    );
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let values = [("b", "c d"), ("f", "1"), ("f", "2")];
    let expected = Named {
        metrics: set(&["x_bucket", "y"]),
        labels: set(&["a", "b", "e", "f", "le"]),
        values: values.map(|(label, value)| (label.to_owned(), value.to_owned())).into(),
    };
    assert_eq!(found, expected);
}

/// A value that the code never gives selects nothing, and nobody would notice.
#[test]
fn what_expressions_compare_with_is_in_the_code() {
    let code = code();
    assert!(is_written("f(\"a\", 503)", "a") && is_written("f(\"a\", 503)", "503"));
    assert!(!is_written("abc 15031 _503", "503") && !is_written("abc", "abc"));
    let mut compared = 0;
    for expression in expressions() {
        let Named { metrics, labels, values } = named(&expression);
        for (label, value) in values.iter().filter(|(label, _)| !OUTSIDE.contains(&label.as_str())) {
            assert!(is_written(&code, value), "{label}=\"{value}\" of {expression}");
            compared += 1;
        }
        if !metrics.iter().any(|metric| is_elsewhere(metric) || RARE.contains(&metric.as_str())) {
            continue;
        }
        // Nobody serves them here, so that the code has to show it.
        let words = metrics.iter().filter(|metric| is_elsewhere(metric)).chain(&labels);
        for word in words.filter(|word| !OUTSIDE.contains(&word.as_str())) {
            assert!(is_written(&code, word), "{word} of {expression}");
        }
    }
    assert!(compared > 6, "{compared}");
}

/// Of all alerts and panels.
fn expressions() -> Vec<String> {
    let objects = rendered();
    let of_alerts = alerts(&objects).into_iter().map(|alert| alert["expr"].clone());
    let panels = dashboard(&objects)["panels"].as_array().unwrap().clone();
    let of_panels = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let expressions = of_alerts.chain(of_panels.map(|target| target["expr"].clone()));
    let expressions: Vec<String> =
        expressions.map(|expression| expression.as_str().unwrap().to_owned()).collect();
    assert!(expressions.len() > 40, "{expressions:?}");
    expressions
}

/// docs/metrics.md#objects
#[test]
fn metrics_of_objects_are_served_and_fetched_where_kinds_are_named() {
    let rendered = |values: &[&str]| {
        let objects =
            render(&[&["serviceMonitor.enabled=true", "manager.metrics.secure=true"], values].concat());
        let container = &one(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
        let kinds = arguments.filter_map(|argument| argument.strip_prefix("--object-metrics="));
        let kinds: Vec<String> = kinds.map(str::to_owned).collect();
        (kinds, one(&objects, "ServiceMonitor")["spec"]["endpoints"].as_array().unwrap().clone())
    };
    let (kinds, endpoints) = rendered(&[]);
    assert_eq!((kinds.len(), endpoints.len()), (0, 1));
    assert_eq!(endpoints[0].get("honorLabels"), None);
    let (kinds, objects) = rendered(&["manager.objectMetrics={cloneset,daemonset}"]);
    assert_eq!(kinds, ["cloneset,daemonset"]);
    let mut expected = endpoints[0].clone();
    expected["path"] = "/metrics/objects".into();
    // The label is that of the object, not that of the replica.
    expected["honorLabels"] = true.into();
    assert_eq!(objects, [endpoints[0].clone(), expected]);
}

#[test]
fn each_alert_has_a_line_that_says_what_to_do() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `Kutter"));
    let written: Vec<String> = rows.map(|row| format!("Kutter{}", row.split('`').next().unwrap())).collect();
    let alerts = alerts(&rendered());
    let names: Vec<&str> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
    assert_eq!(names, written);
    for alert in &alerts {
        assert!(alert["annotations"]["summary"].is_string(), "{alert:#}");
        assert!(["critical", "warning"].map(Value::from).contains(&alert["labels"]["severity"]), "{alert:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_are_of_metrics_that_are_served() {
    let expressions = expressions();
    let (_, product) = shared().await;
    let shop = Shop::open("monitored").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    wait_for("all metrics of alerts and dashboard to be served", async || {
        let text = product.metrics().await;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let types: BTreeMap<&str, &str> = types.filter_map(|line| line.split_once(' ')).collect();
        for expression in &expressions {
            let Named { metrics, labels, .. } = named(expression);
            if metrics.iter().any(|metric| is_elsewhere(metric)) {
                continue;
            }
            for metric in metrics.iter().filter(|metric| !OUTSIDE.contains(&metric.as_str())) {
                let buckets = metric.strip_suffix("_bucket");
                let is_served = match buckets {
                    Some(histogram) => types.get(histogram) == Some(&"histogram"),
                    None => types.contains_key(metric.as_str()),
                };
                if !is_served && !RARE.contains(&metric.as_str()) {
                    return Err(format!("{metric} of {expression}"));
                }
            }
            if metrics.iter().any(|metric| RARE.contains(&metric.as_str())) {
                continue;
            }
            for label in labels.iter().filter(|label| !OUTSIDE.contains(&label.as_str())) {
                let is_of = |line: &&str| {
                    metrics.iter().any(|metric| line.starts_with(&format!("{metric}{{")))
                        && (line.contains(&format!("{{{label}=")) || line.contains(&format!(",{label}=")))
                };
                if !text.lines().any(|line| is_of(&line)) {
                    return Err(format!("label {label} of {expression}"));
                }
            }
        }
        Ok(())
    })
    .await;
}
