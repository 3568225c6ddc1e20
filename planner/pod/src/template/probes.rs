//! Probes, lifecycle hooks and their handlers.

use serde_json::Value;

use super::limits::validate_range;
use super::names;
use super::node::{Node, invalid};
use values::field::{FieldError, FieldPath};

/// What probes of one place may say.
#[derive(Clone, Copy)]
pub struct ProbeRules {
    /// The handlers, of which there must be one.
    pub handlers: &'static [&'static str],
    /// Requests must say `HTTP` or `HTTPS`.
    pub needs_scheme: bool,
    /// Requests and connections may go to another host than the Pod.
    pub may_name_host: bool,
    /// It may have a grace period of its own, which must be positive then.
    pub may_end: bool,
}

const HOOK: ProbeRules = ProbeRules { handlers: &["exec", "httpGet", "tcpSocket", "sleep"], ..PROBE };
const PROBE: ProbeRules = ProbeRules {
    handlers: &["exec", "httpGet", "tcpSocket", "grpc"],
    needs_scheme: true,
    may_name_host: true,
    may_end: true,
};

/// Checks the hooks and probes of a container that may have them. `grace_period` in seconds.
pub(super) fn validate_hooks_and_probes(
    container: &Node<'_>,
    grace_period: Option<i64>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(lifecycle) = container.child("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.child(hook) {
                validate_handler(&handler, HOOK, grace_period, errors);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.child(name) else { continue };
        validate_probe(&probe, PROBE, errors);
        if name == "readinessProbe" {
            if let Some(seconds) = probe.integer_option("terminationGracePeriodSeconds") {
                let message = "must not be set for readinessProbes";
                let path = probe.at("terminationGracePeriodSeconds");
                errors.push(FieldError::invalid_value(path, seconds, message));
            }
        } else if probe.integer("successThreshold") != 1 {
            let threshold = probe.integer("successThreshold");
            errors.push(FieldError::invalid_value(probe.at("successThreshold"), threshold, "must be 1"));
        }
    }
}

/// Checks one probe whose types are right.
pub fn validate_probe(probe: &Node<'_>, rules: ProbeRules, errors: &mut Vec<FieldError>) {
    validate_handler(probe, rules, None, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        validate_not_negative(probe.integer(name), probe.at(name), errors);
    }
    let grace_period = probe.integer_option("terminationGracePeriodSeconds").filter(|_| rules.may_end);
    if let Some(seconds) = grace_period.filter(|seconds| *seconds <= 0) {
        let path = probe.at("terminationGracePeriodSeconds");
        errors.push(FieldError::invalid_value(path, seconds, "must be greater than 0"));
    }
}

/// Reports a negative number.
pub(crate) fn validate_not_negative(number: i64, path: FieldPath, errors: &mut Vec<FieldError>) {
    if number < 0 {
        errors.push(FieldError::invalid_value(path, number, "must be greater than or equal to 0"));
    }
}

/// Exactly one handler.
fn validate_handler(
    place: &Node<'_>,
    rules: ProbeRules,
    grace_period: Option<i64>,
    errors: &mut Vec<FieldError>,
) {
    let mut handlers = 0;
    for &name in rules.handlers {
        let Some(handler) = place.child(name) else { continue };
        handlers += 1;
        if handlers > 1 {
            errors.push(FieldError::forbidden(handler.path(), "may not specify more than 1 handler type"));
            continue;
        }
        if !rules.may_name_host && !handler.text("host").is_empty() {
            errors.push(FieldError::forbidden(handler.at("host"), "host field in probes is not allowed"));
        }
        match name {
            "exec" if handler.count("command") == 0 => {
                errors.push(FieldError::required(handler.at("command"), ""));
            }
            "exec" => {}
            "httpGet" => validate_http_get(&handler, rules, errors),
            "sleep" => validate_sleep(&handler, grace_period, errors),
            _ => validate_port(&handler, errors),
        }
    }
    if handlers == 0 {
        errors.push(FieldError::required(place.path(), "must specify a handler type"));
    }
}

fn validate_http_get(handler: &Node<'_>, rules: ProbeRules, errors: &mut Vec<FieldError>) {
    if handler.text("path").is_empty() {
        errors.push(FieldError::required(handler.at("path"), ""));
    }
    validate_port(handler, errors);
    let scheme = handler.text("scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") && (rules.needs_scheme || !scheme.is_empty()) {
        errors.push(FieldError::not_supported(handler.at("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in handler.list("httpHeaders") {
        let name = header.text("name");
        invalid(&handler.at("httpHeaders"), name, names::header_name(name), errors);
    }
}

fn validate_port(handler: &Node<'_>, errors: &mut Vec<FieldError>) {
    match handler.get("port") {
        Some(Value::String(name)) => invalid(&handler.at("port"), name, names::port_name(name), errors),
        _ => {
            validate_range(handler.integer("port"), 1..=65535, &handler.at("port"), errors);
        }
    }
}

fn validate_sleep(handler: &Node<'_>, grace_period: Option<i64>, errors: &mut Vec<FieldError>) {
    let Some(grace_period) = grace_period else { return };
    let seconds = handler.integer("seconds");
    if seconds <= 0 || seconds > grace_period {
        let message = format!(
            "must be greater than 0 and less than terminationGracePeriodSeconds ({grace_period}). Enable \
             AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        );
        errors.push(FieldError::invalid_value(handler.path(), seconds, message));
    }
}
