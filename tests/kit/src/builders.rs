//! Builders of JSON objects that read like sentences.
//!
//! ```
//! use kit::builders::{deployment, pod};
//!
//! let web = pod("web-0").in_namespace("shop").label("app", "web").container("main", "nginx:1.25");
//! let front = deployment("front").matching("app", "front").replicas(3).container("main", "nginx:1.25");
//! ```

use serde_json::{Value, json};

/// An object under construction. Passing it where a [`Value`] is wanted completes it.
#[derive(Debug, Clone)]
pub struct Object {
    value: Value,
    /// JSON pointer to what holds `metadata` and `spec` of the Pods: empty for a Pod.
    template: &'static str,
    /// JSON pointer to what holds `containers` and `initContainers`.
    containers: &'static str,
    /// The last container added, for the methods that refine it.
    last: String,
}

/// A Pod.
pub fn pod(name: &str) -> Object {
    Object::new("v1", "Pod", name, "", "/spec")
}

/// A Deployment; see [`Object::matching`].
pub fn deployment(name: &str) -> Object {
    workload("apps/v1", "Deployment", name)
}

/// A StatefulSet of Kubernetes.
pub fn stateful_set(name: &str) -> Object {
    workload("apps/v1", "StatefulSet", name).with("/spec/serviceName", name)
}

/// A workload with a Pod template at `spec.template`: `workload("apps.kruise.io/v1alpha1", "CloneSet", "web")`.
pub fn workload(api_version: &str, kind: &str, name: &str) -> Object {
    Object::new(api_version, kind, name, "/spec/template", "/spec/template/spec")
}

/// A SidecarSet (`apps.kruise.io/v1beta1`); [`Object::matching`] selects the Pods.
pub fn sidecar_set(name: &str) -> Object {
    Object::new("apps.kruise.io/v1beta1", "SidecarSet", name, "", "/spec")
}

/// A ConfigMap with one key; more come by [`Object::with`].
pub fn config_map(name: &str, key: &str, value: &str) -> Object {
    object("v1", "ConfigMap", name).with("/data", json!({key: value}))
}

/// An object of any other kind.
pub fn object(api_version: &str, kind: &str, name: &str) -> Object {
    Object::new(api_version, kind, name, "", "/spec")
}

impl Object {
    fn new(
        api_version: &str,
        kind: &str,
        name: &str,
        template: &'static str,
        containers: &'static str,
    ) -> Self {
        let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        Self { value, template, containers, last: String::new() }
    }

    /// In this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.with("/metadata/namespace", namespace)
    }

    /// With this API version instead.
    #[must_use]
    pub fn api_version(self, api_version: &str) -> Self {
        self.with("/apiVersion", api_version)
    }

    /// With this label on the object itself.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.with_entry("/metadata/labels", key, value)
    }

    /// With this annotation on the object itself.
    #[must_use]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.with_entry("/metadata/annotations", key, value)
    }

    /// With this finalizer.
    #[must_use]
    pub fn finalizer(self, name: &str) -> Self {
        self.pushed("/metadata/finalizers", json!(name))
    }

    /// Owned, as a controller, by the object whose JSON is given as the API server stored it.
    #[must_use]
    pub fn controlled_by(self, owner: &Value) -> Self {
        let reference = json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        self.pushed("/metadata/ownerReferences", reference)
    }

    /// Selects Pods by a label; a workload's template gets the label too.
    #[must_use]
    pub fn matching(self, key: &str, value: &str) -> Self {
        let selecting = self.with_entry("/spec/selector/matchLabels", key, value);
        if selecting.template.is_empty() { selecting } else { selecting.template_label(key, value) }
    }

    /// With this label on the Pods of a workload.
    #[must_use]
    pub fn template_label(self, key: &str, value: &str) -> Self {
        let labels = format!("{}/metadata/labels", self.template);
        self.with_entry(&labels, key, value)
    }

    /// With this annotation on the Pods of a workload.
    #[must_use]
    pub fn template_annotation(self, key: &str, value: &str) -> Self {
        let annotations = format!("{}/metadata/annotations", self.template);
        self.with_entry(&annotations, key, value)
    }

    /// With this number of replicas.
    #[must_use]
    pub fn replicas(self, count: u32) -> Self {
        self.with("/spec/replicas", count)
    }

    /// With a container.
    #[must_use]
    pub fn container(self, name: &str, image: &str) -> Self {
        self.added("containers", name, image)
    }

    /// With an init container.
    #[must_use]
    pub fn init_container(self, name: &str, image: &str) -> Self {
        self.added("initContainers", name, image)
    }

    /// With what containers rarely are without: one behind them that comes before them by name, an init container, and one
    /// that stays. The last container added stays the one that is refined.
    #[must_use]
    pub fn in_company(self) -> Self {
        let last = self.last.clone();
        let size = json!({"cpu": "10m", "memory": "16Mi"});
        let small = |object: Self| object.having("resources", json!({"limits": size, "requests": size}));
        let object = small(self.init_container("proxy", "busybox:1.36").having("restartPolicy", "Always"));
        let object = small(object.init_container("load", "busybox:1.36"));
        Self { last, ..small(object.container("aa", "busybox:1.35")) }
    }

    /// The last container added has this field: `.container("main", "nginx:1.25").having("command", json!(["sh"]))`.
    #[must_use]
    pub fn having(mut self, field: &str, value: impl Into<Value>) -> Self {
        let last = self.last.clone();
        let container = slot(&mut self.value, &last);
        container[field] = value.into();
        self
    }

    /// The last container added has this environment variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        let variables = format!("{}/env", self.last);
        self.pushed(&variables, json!({"name": name, "value": value}))
    }

    /// The last container added has an environment variable from a key of a ConfigMap.
    #[must_use]
    pub fn env_from_config_map(self, name: &str, config_map: &str, key: &str) -> Self {
        let variables = format!("{}/env", self.last);
        let source = json!({"configMapKeyRef": {"name": config_map, "key": key}});
        self.pushed(&variables, json!({"name": name, "valueFrom": source}))
    }

    /// Its Pods have this readiness gate.
    #[must_use]
    pub fn readiness_gate(self, condition: &str) -> Self {
        let gates = format!("{}/readinessGates", self.containers);
        self.pushed(&gates, json!({"conditionType": condition}))
    }

    /// Bound to this node from the beginning.
    #[must_use]
    pub fn on_node(self, node: &str) -> Self {
        let field = format!("{}/nodeName", self.containers);
        self.with(&field, node)
    }

    /// With any field, by JSON pointer: `.with("/spec/updateStrategy/partition", 2)`. Objects on
    /// the way are made.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        *slot(&mut self.value, pointer) = value.into();
        self
    }

    /// The finished object.
    pub fn build(self) -> Value {
        self.value
    }

    fn with_entry(mut self, pointer: &str, key: &str, value: &str) -> Self {
        slot(&mut self.value, pointer)[key] = value.into();
        self
    }

    fn pushed(mut self, pointer: &str, item: Value) -> Self {
        match slot(&mut self.value, pointer) {
            Value::Array(items) => items.push(item),
            empty => *empty = json!([item]),
        }
        self
    }

    fn added(mut self, list: &str, name: &str, image: &str) -> Self {
        let list = format!("{}/{list}", self.containers);
        let index = self.value.pointer(&list).and_then(Value::as_array).map_or(0, Vec::len);
        self.last = format!("{list}/{index}");
        self.pushed(&list, json!({"name": name, "image": image}))
    }
}

/// The value at a JSON pointer, made (as null) if absent, with the objects on the way.
///
/// # Panics
/// When the pointer leads into a list by what is no index of it.
pub fn slot<'v>(value: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(value, |value, segment| {
        let key = segment.replace("~1", "/").replace("~0", "~");
        if let Value::Array(_) = value {
            let index: usize = key.parse().unwrap_or_else(|_| panic!("{key} in {pointer} is not an index"));
            return &mut value[index];
        }
        &mut value[key]
    })
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_selects_the_pods_of_its_template() {
        let built = deployment("front")
            .in_namespace("shop")
            .matching("app", "front")
            .replicas(2)
            .init_container("setup", "busybox:1.36")
            .container("main", "nginx:1.25")
            .env_from_config_map("MODE", "settings", "mode")
            .having("resources", json!({"requests": {"cpu": "10m"}}))
            .build();
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "front", "namespace": "shop"},
            "spec": {
                "selector": {"matchLabels": {"app": "front"}},
                "template": {
                    "metadata": {"labels": {"app": "front"}},
                    "spec": {
                        "initContainers": [{"name": "setup", "image": "busybox:1.36"}],
                        "containers": [{
                            "name": "main", "image": "nginx:1.25",
                            "env": [{"name": "MODE", "valueFrom":
                                {"configMapKeyRef": {"name": "settings", "key": "mode"}}}],
                            "resources": {"requests": {"cpu": "10m"}},
                        }],
                    },
                },
                "replicas": 2,
            },
        });
        assert_eq!(built, expected);
    }

    #[test]
    fn company_stands_behind_and_the_container_is_still_refined() {
        let built = pod("web-0").container("main", "nginx:1.25").in_company().having("tty", true).build();
        let names = |list: &str| -> Vec<&str> {
            built["spec"][list].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
        };
        assert_eq!(
            (names("containers"), names("initContainers")),
            (vec!["main", "aa"], vec!["proxy", "load"])
        );
        assert_eq!(built["spec"]["containers"][0]["tty"], true);
    }

    #[test]
    fn sidecar_set_selects_but_has_no_template() {
        let built = sidecar_set("log").matching("app", "web").container("agent", "busybox:1.36").build();
        assert_eq!(built["spec"]["selector"]["matchLabels"], json!({"app": "web"}));
        assert_eq!(built["spec"]["containers"][0]["name"], "agent");
        assert!(built["spec"].get("template").is_none() && built["metadata"].get("labels").is_none());
    }
}
