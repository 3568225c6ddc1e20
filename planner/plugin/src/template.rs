//! A Pod template in the lines in which kubectl describes it: labels, annotations, containers and volumes.

use serde_json::{Map, Value};

use super::pods::{list, plain, text};

/// The fields of a container that are shown as lists of words.
const WORDS: [(&str, &str); 2] = [("Command", "command"), ("Args", "args")];
/// The fields of a probe, of which one says what is checked.
const PROBES: [(&str, &str); 3] =
    [("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe")];

fn members<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object).filter(|members| !members.is_empty())
}

/// Lines, each of which may have a label.
struct Lines(String);

impl Lines {
    fn push(&mut self, indent: usize, label: &str, value: &str) {
        let line = format!("{:indent$}{label:<14}{value}", "");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    /// A heading with one line for each member.
    fn members(&mut self, indent: usize, label: &str, members: Option<&Map<String, Value>>) {
        let Some(members) = members else { return };
        self.push(indent, &format!("{label}:"), "");
        for (name, value) in members {
            self.push(indent + 2, &format!("{name}:"), &plain(value));
        }
    }
}

/// The lines of a Pod template.
pub fn described(template: &Value) -> String {
    let mut lines = Lines("Pod Template:\n".to_owned());
    for (label, pointer) in [("Labels:", "/metadata/labels"), ("Annotations:", "/metadata/annotations")] {
        let pairs = members(template, pointer).into_iter().flatten();
        for (number, (key, value)) in pairs.enumerate() {
            lines.push(2, if number == 0 { label } else { "" }, &format!("{key}={}", plain(value)));
        }
    }
    let account = text(template, "/spec/serviceAccountName");
    if !account.is_empty() {
        lines.push(2, "Service Account:", &format!(" {account}"));
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    for (title, name) in [("Init Containers:", "initContainers"), ("Containers:", "containers")] {
        for (number, container) in list(spec, &format!("/{name}")).enumerate() {
            if number == 0 {
                lines.push(2, title, "");
            }
            container_lines(&mut lines, container);
        }
    }
    for (number, volume) in list(spec, "/volumes").enumerate() {
        if number == 0 {
            lines.push(2, "Volumes:", "");
        }
        volume_lines(&mut lines, volume);
    }
    lines.members(2, "Node-Selectors", members(template, "/spec/nodeSelector"));
    lines.0
}

fn container_lines(lines: &mut Lines, container: &Value) {
    lines.push(3, &format!("{}:", text(container, "/name")), "");
    lines.push(4, "Image:", text(container, "/image"));
    for port in list(container, "/ports") {
        let number = port.get("containerPort").map(plain).unwrap_or_default();
        let protocol = port.get("protocol").map_or("TCP".to_owned(), plain);
        lines.push(4, "Port:", &format!("{number}/{protocol}"));
    }
    for (label, name) in WORDS {
        for (number, word) in list(container, &format!("/{name}")).enumerate() {
            if number == 0 {
                lines.push(4, &format!("{label}:"), "");
            }
            lines.push(6, &plain(word), "");
        }
    }
    lines.members(4, "Limits", members(container, "/resources/limits"));
    lines.members(4, "Requests", members(container, "/resources/requests"));
    for (label, name) in PROBES {
        if let Some(probe) = container.get(name).filter(|probe| probe.is_object()) {
            lines.push(4, &format!("{label}:"), &probe.to_string());
        }
    }
    environment_lines(lines, container);
    for (number, mount) in list(container, "/volumeMounts").enumerate() {
        if number == 0 {
            lines.push(4, "Mounts:", "");
        }
        let is_read_only = mount.get("readOnly") == Some(&Value::Bool(true));
        let mode = if is_read_only { "ro" } else { "rw" };
        let line = format!("{} from {} ({mode})", text(mount, "/mountPath"), text(mount, "/name"));
        lines.push(6, &line, "");
    }
}

fn environment_lines(lines: &mut Lines, container: &Value) {
    for (number, source) in list(container, "/envFrom").enumerate() {
        if number == 0 {
            lines.push(4, "Environment Variables from:", "");
        }
        for (kind, member) in [("ConfigMap", "configMapRef"), ("Secret", "secretRef")] {
            if let Some(reference) = source.get(member) {
                lines.push(6, &format!("{} {kind}", text(reference, "/name")), "");
            }
        }
    }
    for (number, variable) in list(container, "/env").enumerate() {
        if number == 0 {
            lines.push(4, "Environment:", "");
        }
        let value = match variable.get("valueFrom") {
            Some(source) => source_of(source),
            None => text(variable, "/value").to_owned(),
        };
        lines.push(6, &format!("{}:", text(variable, "/name")), &value);
    }
}

/// Where the value of a variable comes from.
fn source_of(source: &Value) -> String {
    let key = |kind: &str, reference: &Value| {
        format!("<set to the key '{}' in {kind} '{}'>", text(reference, "/key"), text(reference, "/name"))
    };
    if let Some(reference) = source.get("secretKeyRef") {
        return key("secret", reference);
    }
    if let Some(reference) = source.get("configMapKeyRef") {
        return key("config map", reference);
    }
    if let Some(reference) = source.get("fieldRef") {
        return format!("({}:{})", text(reference, "/apiVersion"), text(reference, "/fieldPath"));
    }
    match source.get("resourceFieldRef") {
        Some(reference) => format!("({})", text(reference, "/resource")),
        None => source.to_string(),
    }
}

fn volume_lines(lines: &mut Lines, volume: &Value) {
    lines.push(3, &format!("{}:", text(volume, "/name")), "");
    let sources = volume.as_object().into_iter().flatten().filter(|(name, _)| *name != "name");
    for (kind, source) in sources {
        lines.push(4, "Type:", kind);
        for (name, value) in source.as_object().into_iter().flatten() {
            lines.push(4, &format!("{name}:"), &plain(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_is_described_in_lines() {
        let template = json!({"metadata": {"labels": {"app": "web", "tier": "b"}}, "spec": {
            "containers": [{"name": "main", "image": "nginx:1", "command": ["a", "b"], "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 1}},
                "env": [{"name": "K", "value": "V"}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
                    {"name": "P", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}]}],
            "volumes": [{"name": "data", "configMap": {"name": "settings"}}]}});
        let expected = "\
Pod Template:
  Labels:       app=web
                tier=b
  Containers:
   main:
    Image:        nginx:1
    Port:         80/TCP
    Command:
      a
      b
    Limits:
      cpu:          1
    Environment:
      K:            V
      S:            <set to the key 'k' in secret 'n'>
      P:            (v1:metadata.name)
    Mounts:
      /data from data (ro)
  Volumes:
   data:
    Type:         configMap
    name:         settings
";
        assert_eq!(described(&template), expected);
        assert_eq!(described(&json!(7)), "Pod Template:\n");
    }
}
