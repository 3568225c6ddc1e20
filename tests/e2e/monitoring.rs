//! The alerts and the dashboard of the chart are about metrics that are served, and each alert says what to do
//! (docs/metrics.md#alerts-and-a-dashboard).

use std::collections::{BTreeMap, BTreeSet};

use kit::wait_for;
use serde_json::Value;

use crate::chart::{one, render};
use crate::support::{Shop, shared};

const PAGE: &str = include_str!("../../docs/metrics.md");
/// Served once something went wrong, or was refused.
const RARE: [&str; 7] = [
    "kutter_tls_handshake_failures",
    "controller_runtime_reconcile_errors_total",
    "namespace_deletion_protection",
    "crd_deletion_protection",
    "workload_deletion_protection",
    "resource_deletion_protection",
    "pod_unavailable_budget",
];
/// Words of the query language that are neither metrics nor labels.
const WORDS: [&str; 10] =
    ["absent", "and", "by", "histogram_quantile", "increase", "max", "on", "rate", "sum", "without"];
/// Labels that come with the scrape, and the one of buckets.
const OUTSIDE: [&str; 2] = ["instance", "le"];

fn rendered() -> Vec<Value> {
    render(&["prometheusRule.enabled=true", "grafanaDashboard.enabled=true"])
}

fn alerts(objects: &[Value]) -> Vec<Value> {
    one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

fn dashboard(objects: &[Value]) -> Value {
    let of_grafana = |object: &&Value| {
        object["kind"] == "ConfigMap" && object["metadata"]["labels"]["grafana_dashboard"] == "1"
    };
    let text = objects.iter().find(of_grafana).unwrap()["data"]["kutter.json"].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

/// The metrics of an expression, and all labels that it names.
fn named(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut metrics, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let (mut word, mut in_text, mut in_range, mut in_labels) = (String::new(), false, false, false);
    let mut grouping = false;
    for character in expression.chars().chain([' ']) {
        match character {
            '"' => in_text = !in_text,
            _ if in_text => continue,
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
    (metrics, labels)
}

#[test]
fn expressions_are_taken_apart() {
    let found = named(
        r#"histogram_quantile(0.99, sum by (le, a) (rate(x_bucket{b!="c d"}[5m]) and on (e) y)) > 0.5"#,
    );
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(found, (set(&["x_bucket", "y"]), set(&["a", "b", "e", "le"])));
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
    let objects = rendered();
    let of_alerts = alerts(&objects).into_iter().map(|alert| alert["expr"].clone());
    let panels = dashboard(&objects)["panels"].as_array().unwrap().clone();
    let of_panels = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap().clone());
    let expressions: Vec<Value> = of_alerts.chain(of_panels.map(|target| target["expr"].clone())).collect();
    assert!(expressions.len() > 40, "{expressions:?}");
    let (_, product) = shared().await;
    let shop = Shop::open("monitored").await;
    shop.stock([shop.sidecar_set("log").container("log", "busybox:1.36")]).await;
    wait_for("all metrics of alerts and dashboard to be served", async || {
        let text = product.metrics().await;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let types: BTreeMap<&str, &str> = types.filter_map(|line| line.split_once(' ')).collect();
        for expression in &expressions {
            let (metrics, labels) = named(expression.as_str().unwrap());
            for metric in &metrics {
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
