//! What a Deployment may not change while its release is running.

use serde_json::{Value, json};

use crate::deployment::hold_strategy;
use crate::draft::set;
use crate::object::Object as _;
use crate::workload::Style;

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
