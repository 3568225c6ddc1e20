//! A Pod spec as a whole, and its fields that are about neither containers, volumes nor scheduling.

use std::collections::{BTreeSet, HashSet};

use super::containers::{validate_containers, validate_host_network_ports, validate_init_containers};
use super::limits::validate_range;
use super::metadata::{text_entries, validate_labels};
use super::names;
use super::node::{Node, invalid, quantity, require_one_of, require_text};
use super::pod_context::PodContext;
use super::resources::{validate_quantity, validate_resource_name};
use super::volumes::validate_volumes;
use super::{scheduling, security};
use values::field::FieldError;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Checks the spec of a Pod template.
pub(super) fn validate_pod_spec(spec: &Node<'_>, allow_privileged: bool, errors: &mut Vec<FieldError>) {
    let grace_period = spec.integer_option("terminationGracePeriodSeconds");
    if grace_period.is_none() {
        errors.push(FieldError::required(spec.at("terminationGracePeriodSeconds"), ""));
    }
    let context = pod_context(spec, grace_period, allow_privileged, errors);
    validate_resource_claims(spec, errors);
    validate_containers(spec, &context, errors);
    validate_init_containers(spec, &context, errors);
    if spec.is_true("hostNetwork") {
        validate_host_network_ports(spec, errors);
    }
    require_one_of(spec, "restartPolicy", RESTART_POLICIES, errors);
    require_one_of(spec, "dnsPolicy", DNS_POLICIES, errors);
    validate_labels(text_entries(spec, "nodeSelector"), &spec.at("nodeSelector"), errors);
    if let Some(context) = spec.child("securityContext") {
        security::validate_pod_security(spec, &context, errors);
    }
    if let Some(affinity) = spec.child("affinity") {
        scheduling::validate_affinity(&affinity, errors);
    }
    validate_dns(spec, errors);
    validate_gates(spec, errors);
    scheduling::validate_topology_spread(spec, errors);
    security::validate_host_process(spec, allow_privileged, errors);
    if spec.flag("hostUsers") == Some(false) {
        security::validate_user_namespace(spec, errors);
    }
    validate_names(spec, errors);
    if let Some(seconds) = spec.integer_option("activeDeadlineSeconds") {
        validate_range(seconds, 1..=2_147_483_647, &spec.at("activeDeadlineSeconds"), errors);
    }
    scheduling::validate_tolerations(spec.list("tolerations"), errors);
    validate_host_aliases(spec, errors);
    validate_preemption_policy(spec, errors);
    for (name, value) in spec.entries("overhead") {
        let path = spec.at("overhead").key(name);
        validate_resource_name(name, &path, errors);
        if let Some(value) = quantity(value) {
            validate_quantity(name, &value, &path, errors);
        }
    }
    security::validate_operating_system(spec, errors);
}

/// What the checks of containers need of the spec; checks the volumes on the way.
pub(super) fn pod_context<'a>(
    spec: &Node<'a>,
    grace_period: Option<i64>,
    allow_privileged: bool,
    errors: &mut Vec<FieldError>,
) -> PodContext<'a> {
    let claims = spec.list("resourceClaims").map(|claim| claim.text("name")).filter(|name| !name.is_empty());
    let resource_claims: BTreeSet<&str> = claims.collect();
    PodContext {
        volumes: validate_volumes(spec, errors),
        resource_claims,
        grace_period,
        restart_policy: spec.text("restartPolicy"),
        host_users: spec.flag("hostUsers") != Some(false),
        allow_privileged,
    }
}

fn validate_resource_claims(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for claim in spec.list("resourceClaims") {
        let name = claim.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(claim.at("name"), ""));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(claim.at("name"), name));
        } else {
            invalid(&claim.at("name"), name, names::dns_label(name), errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let message = match sources.iter().filter(|source| claim.has(source)).count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(message) = message {
            errors.push(FieldError::invalid_value(claim.path(), claim.value(), message));
        }
        for source in sources {
            if let Some(value) = claim.text_option(source) {
                invalid(&claim.at(source), value, names::dns_subdomain(value), errors);
            }
        }
    }
}

fn validate_dns(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    let none = spec.text("dnsPolicy") == "None";
    let Some(config) = spec.child("dnsConfig") else {
        if none {
            let message = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(FieldError::required(spec.at("dnsConfig"), message));
        }
        return;
    };
    let (servers, searches) = (config.texts("nameservers"), config.texts("searches"));
    if none && servers.is_empty() {
        let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(FieldError::required(config.at("nameservers"), message));
        return;
    }
    let shown = |name: &str| {
        let texts: Vec<String> = config.texts(name).into_iter().map(values::json_patch::string).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    if servers.len() > 3 {
        let message = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid_value(config.at("nameservers"), shown("nameservers"), message));
    }
    for (index, server) in servers.into_iter().enumerate() {
        validate_ip(server, &config.at("nameservers").index(index), errors);
    }
    let path = config.at("searches");
    if searches.len() > 32 {
        let message = "must not have more than 32 search paths";
        errors.push(FieldError::invalid_value(path.clone(), shown("searches"), message));
    }
    if searches.join(" ").len() > 2048 {
        let message = "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(FieldError::invalid_value(path.clone(), shown("searches"), message));
    }
    for (index, search) in searches.into_iter().enumerate() {
        let search = search.strip_suffix('.').unwrap_or(search);
        invalid(&path.index(index), search, names::dns_subdomain(search), errors);
    }
    for (index, option) in config.list("options").enumerate() {
        if option.text("name").is_empty() {
            errors.push(FieldError::required(config.at("options").index(index), "must not be empty"));
        }
    }
}

fn validate_ip(address: &str, path: &values::field::FieldPath, errors: &mut Vec<FieldError>) {
    if !names::is_ip_address(address) {
        let message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path.clone(), address, message));
    }
}

fn validate_host_aliases(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    for alias in spec.list("hostAliases") {
        validate_ip(alias.text("ip"), &alias.at("ip"), errors);
        for (index, name) in alias.texts("hostnames").into_iter().enumerate() {
            invalid(&alias.at("hostnames").index(index), name, names::dns_subdomain(name), errors);
        }
    }
}

fn validate_gates(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    for gate in spec.list("readinessGates") {
        let condition = gate.text("conditionType");
        invalid(&gate.at("conditionType"), condition, names::qualified_name(condition), errors);
    }
    let mut seen = HashSet::new();
    for gate in spec.list("schedulingGates") {
        let name = gate.text("name");
        invalid(&gate.path(), name, names::qualified_name(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(gate.path(), name));
        }
    }
}

/// Names of other objects, and the Pod's own host name.
fn validate_names(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    // The older name counts where the newer one says nothing.
    let account = [spec.text("serviceAccountName"), spec.text("serviceAccount")];
    let account = account.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let others = ["nodeName", "priorityClassName"].map(|field| (field, spec.text(field)));
    for (field, name) in [("serviceAccountName", account)].into_iter().chain(others) {
        if !name.is_empty() {
            invalid(&spec.at(field), name, names::dns_subdomain(name), errors);
        }
    }
    if let Some(name) = spec.text_option("runtimeClassName") {
        invalid(&spec.at("runtimeClassName"), name, names::dns_subdomain(name), errors);
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.text(field);
        if !name.is_empty() {
            invalid(&spec.at(field), name, names::dns_label(name), errors);
        }
    }
}

fn validate_preemption_policy(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    match spec.text_option("preemptionPolicy") {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => require_text(spec, "preemptionPolicy", errors),
        Some(policy) => {
            let supported = &["PreemptLowerPriority", "Never"];
            errors.push(FieldError::not_supported(spec.at("preemptionPolicy"), policy, supported));
        }
    }
}
