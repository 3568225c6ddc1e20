//! What a Deployment may not change while its release is running.

use api::annotations::DEPLOYMENT_STRATEGY;
use serde_json::{Value, json};

use crate::object::Object as _;
use crate::workload::Style;
use crate::workload::draft::set;

/// Keeps the Deployment as its release holds it. `is_new`: the update brings another template.
pub(super) fn hold(deployment: &mut Value, old: &Value, style: Style, is_new: bool) {
    match style {
        Style::Partition => {
            set(deployment, &["spec", "paused"], json!(true));
            hold_strategy(deployment, is_new);
        }
        Style::Canary => {
            set(deployment, &["spec", "paused"], json!(true));
            if deployment.text("/spec/strategy/type") == "Recreate" {
                put_back_strategy(deployment, old);
            }
        }
        Style::BlueGreen => {
            if is_new {
                set(deployment, &["spec", "paused"], json!(true));
            }
            if deployment.text("/spec/strategy/type") != "RollingUpdate" {
                put_back_strategy(deployment, old);
            }
        }
    }
}

fn put_back_strategy(deployment: &mut Value, old: &Value) {
    let strategy = old.pointer("/spec/strategy").cloned();
    set(deployment, &["spec", "strategy"], strategy.unwrap_or_else(|| json!({"type": "RollingUpdate"})));
}

/// Type Recreate keeps Kubernetes' own controller from it. How it would update otherwise is noted, for the controller that
/// rolls it and for the end of the release. Before the release holds it there is no note.
pub(crate) fn hold_strategy(deployment: &mut Value, is_new: bool) {
    let noted = deployment.annotation(DEPLOYMENT_STRATEGY).and_then(|text| serde_json::from_str(text).ok());
    let Some(noted @ Value::Object(_)) = noted else { return };
    let mut note = noted.clone();
    if deployment.text("/spec/strategy/type") == "RollingUpdate" {
        let rolling_update = deployment.pointer("/spec/strategy/rollingUpdate").cloned();
        if let Some(rolling_update) = rolling_update.filter(Value::is_object) {
            set(&mut note, &["rollingUpdate"], rolling_update);
        }
        set(deployment, &["spec", "strategy"], json!({"type": "Recreate"}));
    }
    if is_new {
        set(&mut note, &["paused"], json!(true));
    }
    if note != noted {
        let path = ["metadata", "annotations", DEPLOYMENT_STRATEGY];
        set(deployment, &path, json!(note.to_string()));
    }
}
