//! Probes that run outside the network of their Pod, and never against another host.

use serde_json::Value;

use super::limits::validate_range;
use super::names;
use super::node::{Node, invalid};
use values::field::FieldError;

/// Checks a probe whose types are right.
pub fn validate_probe(probe: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_handler(probe, errors);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        let number = probe.integer(name);
        if number < 0 {
            let message = "must be greater than or equal to 0";
            errors.push(FieldError::invalid_value(probe.at(name), number, message));
        }
    }
}

/// Exactly one handler.
fn validate_handler(probe: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut handlers = 0;
    for name in ["exec", "httpGet", "tcpSocket"] {
        let Some(handler) = probe.child(name) else { continue };
        handlers += 1;
        if handlers > 1 {
            errors.push(FieldError::forbidden(handler.path(), "may not specify more than 1 handler type"));
            continue;
        }
        if !handler.text("host").is_empty() {
            errors.push(FieldError::forbidden(handler.at("host"), "host field in probes is not allowed"));
        }
        match name {
            "exec" if handler.count("command") == 0 => {
                errors.push(FieldError::required(handler.at("command"), ""));
            }
            "exec" => {}
            "httpGet" => validate_http_get(&handler, errors),
            _ => validate_port(&handler, errors),
        }
    }
    if handlers == 0 {
        errors.push(FieldError::required(probe.path(), "must specify a handler type"));
    }
}

fn validate_http_get(handler: &Node<'_>, errors: &mut Vec<FieldError>) {
    if handler.text("path").is_empty() {
        errors.push(FieldError::required(handler.at("path"), ""));
    }
    validate_port(handler, errors);
    let scheme = handler.text("scheme");
    if !matches!(scheme, "" | "HTTP" | "HTTPS") {
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
