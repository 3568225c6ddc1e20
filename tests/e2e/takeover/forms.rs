//! The two forms in which OpenKruise left templates: as Go's types write them, with members that say nothing, and
//! sparse, as people wrote them.

use serde_json::{Value, json};

use crate::support::fleet::OLD;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Go,
    Sparse,
}

impl Form {
    pub const ALL: [Self; 2] = [Self::Go, Self::Sparse];

    /// A name for the form.
    pub fn name(self, name: &str) -> String {
        format!("{name}-{}", if self == Self::Go { "go" } else { "sparse" })
    }

    /// A Pod template in this form.
    pub fn write(self, template: Value) -> Value {
        if self == Self::Go { in_go(template) } else { template }
    }

    /// With members that say nothing, in the form that has them.
    pub fn with_empty(self, mut object: Value, members: &[&str]) -> Value {
        if self == Self::Go {
            for member in members {
                object[*member] = json!({});
            }
        }
        object
    }
}

/// As somebody wrote it.
pub fn written(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"image": OLD, "imagePullPolicy": "IfNotPresent", "name": "main"}]}})
}

/// As OpenKruise's webhook completed it.
pub fn completed(app: &str) -> Value {
    let container = json!({"image": OLD, "imagePullPolicy": "IfNotPresent", "name": "main",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30}})
}

/// A Pod template as Go's types write it.
pub fn in_go(mut template: Value) -> Value {
    template["metadata"]["creationTimestamp"] = Value::Null;
    for container in template["spec"]["containers"].as_array_mut().unwrap() {
        container["resources"] = json!({});
    }
    template
}

/// The data of a revision of a Pod template, which has one form only.
pub fn data(template: &Value) -> Value {
    let mut template = in_go(template.clone());
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}
