//! Defaults of Pod templates, claim templates and sidecars (docs/behaviour/pod-template.md), as patches: only
//! what is missing is written, everything else stays as the user spelt it.

use api::features::{Feature, FeatureGates};
use serde_json::Value;

use super::node::{Node, quantity};
use super::place::Place;
use super::{comparison, image, volumes};
use values::field::FieldPath;
use values::json_patch::{self, Patch, Pointer};

/// The pull policy that a container without one gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// `Always`, whatever the tag.
    Always,
    /// `Always` for the tag `latest` or no tag, else `IfNotPresent`.
    ByTag,
}

/// What differs between the defaults of one list of containers and another.
#[derive(Clone, Copy, Debug)]
pub struct ContainerDefaults {
    /// The pull policy of containers without one.
    pub pull_policy: PullPolicy,
    /// Startup probes get defaults, as other probes do.
    pub startup_probes: bool,
    /// A port without `hostPort` gets its `containerPort` as such.
    pub host_ports: bool,
    /// Quantities are replaced by their canonical text even where rounding does not change them.
    pub canonical_quantities: bool,
}

/// The operations that complete the Pod template at `pointer`. `host_ports` is the gate
/// `DefaultHostNetworkHostPortsInPodTemplates`.
pub fn default_template(template: &Value, pointer: &Pointer, host_ports: bool) -> Patch {
    let mut patch = Patch::default();
    let template = Place::new(template, pointer.clone());
    let Some(spec) = template.child_or_new("spec", &mut patch) else { return patch };
    spec.default_text("dnsPolicy", "ClusterFirst", &mut patch);
    spec.default_text("restartPolicy", "Always", &mut patch);
    spec.default_json("securityContext", "{}", &mut patch);
    spec.default_json("terminationGracePeriodSeconds", "30", &mut patch);
    spec.default_text("schedulerName", "default-scheduler", &mut patch);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let containers = ContainerDefaults {
        pull_policy: PullPolicy::Always,
        startup_probes: true,
        host_ports: host_ports && host_network,
        canonical_quantities: false,
    };
    for container in spec.list("containers") {
        default_container(&container, containers, &mut patch);
    }
    let init_containers = ContainerDefaults { pull_policy: PullPolicy::ByTag, ..containers };
    for container in spec.list("initContainers") {
        default_container(&container, init_containers, &mut patch);
    }
    for container in spec.list("ephemeralContainers") {
        default_container_parts(
            &container,
            ContainerDefaults { host_ports: false, ..containers },
            &mut patch,
        );
    }
    default_volumes(&spec, &mut patch);
    round_quantities(&spec, "overhead", false, &mut patch);
    patch
}

/// The operations that complete the claim template at `pointer`.
pub fn default_claim_template(claim: &Value, pointer: &Pointer) -> Patch {
    let mut patch = Patch::default();
    let claim = Place::new(claim, pointer.clone());
    if let Some(resources) = claim.child("spec").and_then(|spec| spec.child("resources")) {
        round_quantities(&resources, "limits", false, &mut patch);
        round_quantities(&resources, "requests", false, &mut patch);
    }
    if let Some(status) = claim.child_or_new("status", &mut patch) {
        status.default_text("phase", "Pending", &mut patch);
        round_quantities(&status, "capacity", false, &mut patch);
    }
    patch
}

/// Completes `template` and `volumeClaimTemplates` of the spec of a workload. Where the template says the same as
/// the one at `pointer` in `old`, the stored object, both stay as they are, so that an upgrade of this program rolls
/// nothing out.
pub fn default_templates(
    spec: &Place<'_>,
    (old, pointer): (Option<&str>, &str),
    gates: &FeatureGates,
    patch: &mut Patch,
) {
    let template = spec.get("template");
    // The plugin of OpenKruise merges data of revisions into templates, with a directive that is no part of them.
    if template.is_some_and(|template| template.get(comparison::DIRECTIVE).is_some()) {
        patch.remove(spec.pointer("template").key(comparison::DIRECTIVE));
    }
    // A stored object that can't be read has no template to compare with.
    let old: Option<Value> = old.and_then(|old| serde_json::from_str(old).ok());
    let old = old.as_ref().and_then(|old| old.pointer(pointer));
    let is_same = old.zip(template).is_some_and(|(old, new)| comparison::is_same(old, new));
    if is_same || gates.enabled(Feature::TemplateNoDefaults) {
        return;
    }
    if let Some(template) = template.filter(|template| template.is_object()) {
        let host_ports = gates.enabled(Feature::DefaultHostNetworkHostPortsInPodTemplates);
        patch.extend(default_template(template, &spec.pointer("template"), host_ports));
    }
    let claims = spec.get("volumeClaimTemplates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, claim) in claims.iter().enumerate().filter(|(_, claim)| claim.is_object()) {
        patch.extend(default_claim_template(claim, &spec.pointer("volumeClaimTemplates").index(index)));
    }
}

/// Completes a container.
pub fn default_container(container: &Place<'_>, defaults: ContainerDefaults, patch: &mut Patch) {
    let by_tag = defaults.pull_policy == PullPolicy::ByTag && image::tag(container.text("image")) != "latest";
    let pull_policy = if by_tag { "IfNotPresent" } else { "Always" };
    container.default_text("imagePullPolicy", pull_policy, patch);
    container.default_text("terminationMessagePath", "/dev/termination-log", patch);
    container.default_text("terminationMessagePolicy", "File", patch);
    default_container_parts(container, defaults, patch);
}

/// The defaults that ephemeral containers have as well.
fn default_container_parts(container: &Place<'_>, defaults: ContainerDefaults, patch: &mut Patch) {
    for port in container.list("ports") {
        port.default_text("protocol", "TCP", patch);
        if defaults.host_ports
            && let Some(number) =
                port.get("containerPort").and_then(Value::as_i64).filter(|number| *number != 0)
        {
            port.default_number("hostPort", number, patch);
        }
    }
    for variable in container.list("env") {
        if let Some(field) = variable.child("valueFrom").and_then(|source| source.child("fieldRef")) {
            field.default_text("apiVersion", "v1", patch);
        }
    }
    if let Some(resources) = container.child("resources") {
        round_quantities(&resources, "limits", defaults.canonical_quantities, patch);
        round_quantities(&resources, "requests", defaults.canonical_quantities, patch);
    }
    let probes: &[&str] = &["livenessProbe", "readinessProbe", "startupProbe"];
    let probes = if defaults.startup_probes { probes } else { &["livenessProbe", "readinessProbe"] };
    for probe in probes.iter().filter_map(|name| container.child(name)) {
        for (name, number) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            probe.default_number(name, number, patch);
        }
        default_http_get(&probe, patch);
    }
    if let Some(lifecycle) = container.child("lifecycle") {
        for hook in ["postStart", "preStop"].iter().filter_map(|name| lifecycle.child(name)) {
            default_http_get(&hook, patch);
        }
    }
}

fn default_http_get(handler: &Place<'_>, patch: &mut Patch) {
    if let Some(request) = handler.child("httpGet") {
        request.default_text("path", "/", patch);
        request.default_text("scheme", "HTTP", patch);
    }
}

/// Completes the volumes of a Pod spec or of a SidecarSet's spec.
pub fn default_volumes(spec: &Place<'_>, patch: &mut Patch) {
    const MODE: &str = "420";
    for volume in spec.list("volumes") {
        if !volumes::has_source(&volume.node()) {
            patch.add(volume.pointer("emptyDir"), "{}");
        }
        for source in ["secret", "configMap", "downwardAPI", "projected"] {
            if let Some(source) = volume.child(source) {
                source.default_json("defaultMode", MODE, patch);
            }
        }
        if let Some(host_path) = volume.child("hostPath") {
            host_path.default_json("type", "\"\"", patch);
        }
        if let Some(source) = volume.child("downwardAPI") {
            default_downward_items(&source, patch);
        }
        let Some(projected) = volume.child("projected") else { continue };
        for source in projected.list("sources") {
            if let Some(downward) = source.child("downwardAPI") {
                default_downward_items(&downward, patch);
            }
            if let Some(token) = source.child("serviceAccountToken") {
                token.default_json("expirationSeconds", "3600", patch);
            }
        }
    }
}

fn default_downward_items(source: &Place<'_>, patch: &mut Patch) {
    for field in source.list("items").filter_map(|item| item.child("fieldRef")) {
        field.default_text("apiVersion", "v1", patch);
    }
}

/// Rounds the quantities of a resource list up to thousandths. What is exact already keeps its text,
/// unless `canonical`.
fn round_quantities(holder: &Place<'_>, name: &str, canonical: bool, patch: &mut Patch) {
    let members = holder.get(name).and_then(Value::as_object).into_iter().flatten();
    for (resource, value) in members {
        let Some(exact) = quantity(value) else { continue };
        let rounded = exact.clone().rounded_up_to_milli();
        // The text of a fraction is not known here, so it is left to the readers of the quantity.
        let differs = match value {
            Value::String(text) => *text != rounded.to_string(),
            value => value.is_i64() || value.is_u64(),
        };
        if rounded != exact || (canonical && differs) {
            patch.replace(holder.pointer(name).key(resource), json_patch::string(&rounded.to_string()));
        }
    }
}

impl<'a> Place<'a> {
    fn node(&self) -> Node<'a> {
        Node::new(self.value(), FieldPath::default())
    }
}

#[cfg(test)]
mod tests;
