//! Containers and volumes: the checks of Kubernetes, and those of the fields that a SidecarSet adds
//! (docs/behaviour/sidecarset.md#spec-rules).

use std::collections::HashMap;

use api::sidecarset::{ResourceExpressions, ResourcesPolicy, SidecarContainer, SidecarSet, TransferEnv};
use regex::Regex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{Context, Validation};
use crate::sidecarset::calculator::{self, CalculatorError, Expression};
use pod::template::metadata::{split_subscript, validate_subscript};
use pod::template::validate_sidecars;
use values::field::{FieldError, FieldPath};
use values::quantity::{Format, Quantity};

/// A twin of a hot upgrade has the name of its container and two more characters.
const HOT_UPGRADE_NAME_LIMIT: usize = 61;

pub(super) fn validate(
    new: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    validation: &mut Validation,
) {
    let spec = &new.spec;
    if spec.containers.is_empty() && spec.init_containers.is_empty() {
        let message = "no initContainer or container defined for SidecarSet";
        validation.errors.push(FieldError::required(FieldPath::new("spec"), message));
    }
    for (index, container) in spec.init_containers.iter().enumerate() {
        let path = FieldPath::new("spec").index(index).child("resourcesPolicy");
        if container.fields.resources_policy.is_some() && !container.is_native_sidecar() {
            let message = "resourcesPolicy is only supported for containers with RestartPolicy Always";
            validation.errors.push(FieldError::invalid(path.clone(), container.name(), message));
        }
        validate_resources_policy(container, &path, &mut validation.errors);
        validate_upgrade(container, "initContainers", index, old, validation);
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let path = FieldPath::new("spec").index(index);
        validate_policies(container, &mut validation.errors);
        for transfer in &container.fields.transfer_env {
            validate_transfer(transfer, &path.child("transferEnv").child("fieldRef"), &mut validation.errors);
        }
        validate_resources_policy(container, &path.child("resourcesPolicy"), &mut validation.errors);
        validate_upgrade(container, "containers", index, old, validation);
    }
    match made_up_spec(new) {
        Ok(pod) => {
            let errors = validate_sidecars(&pod, FieldPath::new("spec"), context.allow_privileged);
            validation.errors.extend(errors);
        }
        Err(error) => validation.errors.push(FieldError::internal(FieldPath::new("spec"), error.to_string())),
    }
    if let Some(old) = old {
        validate_changes(new, old, &mut validation.errors);
    }
}

/// The spec of a Pod that has these sidecars and nothing else.
fn made_up_spec(set: &SidecarSet) -> Result<Value, serde_json::Error> {
    let list = |texts: &mut dyn Iterator<Item = &str>| {
        texts.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()
    };
    let spec = &set.spec;
    let mut pod = Map::new();
    let containers = list(&mut spec.containers.iter().map(|container| container.raw.get()))?;
    let init_containers = list(&mut spec.init_containers.iter().map(|container| container.raw.get()))?;
    let volumes = list(&mut spec.volumes.iter().map(|volume| volume.raw.get()))?;
    pod.insert("containers".to_owned(), Value::Array(containers));
    pod.insert("initContainers".to_owned(), Value::Array(init_containers));
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    pod.insert("restartPolicy".to_owned(), Value::from("Always"));
    Ok(Value::Object(pod))
}

fn validate_policies(container: &SidecarContainer, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.container");
    let policy = container.fields.pod_inject_policy.as_str();
    if !matches!(policy, "BeforeAppContainer" | "AfterAppContainer") {
        errors.push(FieldError::invalid(
            path.child("podInjectPolicy"),
            policy,
            "unsupported pod inject policy",
        ));
    }
    let policy = container.fields.share_volume_policy.kind.as_str();
    if !matches!(policy, "enabled" | "disabled") {
        errors.push(FieldError::invalid(
            path.child("shareVolumePolicy"),
            policy,
            "unsupported share volume policy",
        ));
    }
}

fn validate_transfer(transfer: &TransferEnv, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let field = transfer.source_container_name_from.as_ref().and_then(|source| source.field_ref.as_ref());
    // Without a field the source counts as unset (docs/behaviour/sidecarset.md#spec-rules).
    let Some(field) = field else { return };
    for (value, name) in [(&field.api_version, "apiVersion"), (&field.field_path, "fieldPath")] {
        if value.is_empty() {
            errors.push(FieldError::required(path.child(name), ""));
            return;
        }
    }
    let field_path = field.field_path.as_str();
    let problem = match split_subscript(field_path) {
        _ if field.api_version != "v1" => format!("unsupported pod version: {}", field.api_version),
        Some((name @ ("metadata.labels" | "metadata.annotations"), key)) => {
            return validate_subscript(name, key, path, errors);
        }
        Some(_) => format!("field label does not support subscript: {field_path}"),
        None => format!("field label not supported: {field_path}"),
    };
    let message = format!("error converting fieldPath: {problem}");
    errors.push(FieldError::invalid(path.child("fieldPath"), field_path, message));
}

/// Values that would act as another one or break the creation of Pods
/// (docs/behaviour/sidecarset.md#spec-rules).
fn validate_upgrade(
    container: &SidecarContainer,
    list: &str,
    index: usize,
    old: Option<&SidecarSet>,
    validation: &mut Validation,
) {
    let path = FieldPath::new("spec").child(list).index(index);
    let strategy = &container.fields.upgrade_strategy;
    match strategy.upgrade_type.as_str() {
        "" | "ColdUpgrade" => {}
        "HotUpgrade" => {
            let place = path.child("upgradeStrategy").child("hotUpgradeEmptyImage");
            if strategy.hot_upgrade_empty_image.is_empty() {
                validation.refuse_new(old, FieldError::required(place, "must be set for HotUpgrade"));
            }
            let name = container.name();
            if name.len() > HOT_UPGRADE_NAME_LIMIT {
                let message =
                    format!("must be no more than {HOT_UPGRADE_NAME_LIMIT} characters for HotUpgrade");
                validation.refuse_new(old, FieldError::invalid(path.child("name"), name, message));
            }
        }
        kind => {
            let place = path.child("upgradeStrategy").child("upgradeType");
            validation
                .refuse_new(old, FieldError::not_supported(place, kind, &["ColdUpgrade", "HotUpgrade"]));
        }
    }
}

/// The resources that a container asks for itself.
#[derive(Deserialize)]
struct Asked {
    resources: Option<AskedResources>,
}

#[derive(Deserialize)]
struct AskedResources {
    limits: Option<HashMap<String, IgnoredAny>>,
    requests: Option<HashMap<String, IgnoredAny>>,
}

fn validate_resources_policy(container: &SidecarContainer, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(policy) = &container.fields.resources_policy else { return };
    // What does not decode is reported by the checks of the container itself.
    let asked: Option<Asked> = serde_json::from_str(container.raw.get()).ok();
    let resources = asked.and_then(|asked| asked.resources);
    let filled =
        |list: &Option<HashMap<String, IgnoredAny>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if resources.is_some_and(|resources| filled(&resources.limits) || filled(&resources.requests)) {
        let message = "resourcesPolicy and resources cannot be configured together";
        errors.push(FieldError::invalid(path.clone(), container.name(), message));
    }
    validate_target(policy, path, errors);
    let expressions = &policy.resources_expr;
    let path = path.child("resourcesExpr");
    if expressions.limits.is_none() && expressions.requests.is_none() {
        let shown = "{}";
        let message = "at least one of limits or requests must be configured";
        errors.push(FieldError::invalid_value(path.clone(), shown, message));
    }
    for (name, list) in [("limits", &expressions.limits), ("requests", &expressions.requests)] {
        if let Some(list) = list {
            validate_expressions(list, &path.child(name), errors);
        }
    }
}

fn validate_target(policy: &ResourcesPolicy, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mode = policy.target_containers_mode.as_str();
    if !matches!(mode, "sum" | "max") {
        errors.push(FieldError::not_supported(path.child("targetContainersMode"), mode, &["sum", "max"]));
    }
    let pattern = policy.target_containers_name_regex.as_str();
    let path = path.child("targetContainersNameRegex");
    if pattern.is_empty() {
        errors.push(FieldError::invalid(path, pattern, "invalid empty regex"));
    } else if let Err(error) = Regex::new(pattern) {
        // The crate shows its errors over several lines.
        let problem = error.to_string();
        let problem = problem.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        errors.push(FieldError::invalid(path, pattern, format!("invalid regex pattern: {problem}")));
    }
}

fn validate_expressions(list: &ResourceExpressions, path: &FieldPath, errors: &mut Vec<FieldError>) {
    // A small and a large amount: an expression may go below zero for one of them, not for both.
    let cpu = [Quantity::from_milli(1, Format::DecimalSi), Quantity::from_units(1 << 20, Format::DecimalSi)];
    let memory = [Quantity::from_units(1, Format::BinarySi), Quantity::from_units(1 << 50, Format::BinarySi)];
    for (name, foreign, text, amounts) in
        [("cpu", "memory", &list.cpu, cpu), ("memory", "cpu", &list.memory, memory)]
    {
        if text.is_empty() {
            continue;
        }
        if let Err(problem) = check_expression(text, foreign, amounts) {
            errors.push(FieldError::invalid(
                path.child(name),
                text,
                format!("invalid expression: {problem}"),
            ));
        }
    }
}

fn check_expression(text: &str, foreign: &str, amounts: [Quantity; 2]) -> Result<(), String> {
    let failed = |error: CalculatorError| {
        format!("failed to parse expression {}: {error}", values::json_patch::string(text))
    };
    let expression = Expression::parse(text).map_err(failed)?;
    if let Some(number) = expression.malformed_number() {
        return Err(format!("malformed number {number}"));
    }
    if text.to_lowercase().contains(foreign) {
        return Err(failed(CalculatorError::UndefinedVariable(foreign.to_owned())));
    }
    let mut negative = None;
    let mut valid = false;
    for amount in amounts {
        match expression.evaluate(&calculator::Value::Quantity(amount)) {
            Ok(_) => valid = true,
            Err(error @ CalculatorError::Negative(_)) => negative = Some(error),
            Err(error) => return Err(failed(error)),
        }
    }
    match negative {
        Some(error) if !valid => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Containers may be taken out but not added, and keep their upgrade type.
fn validate_changes(new: &SidecarSet, old: &SidecarSet, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.containers");
    let before: HashMap<&str, &SidecarContainer> =
        old.spec.containers.iter().map(|container| (container.name(), container)).collect();
    for container in &new.spec.containers {
        let name = container.name();
        let Some(known) = before.get(name) else {
            errors.push(FieldError::invalid(
                path.child("name"),
                name,
                format!("container {name} is not found"),
            ));
            continue;
        };
        let upgrade_type =
            |container: &SidecarContainer| match container.fields.upgrade_strategy.upgrade_type.as_str() {
                "" => "ColdUpgrade".to_owned(),
                kind => kind.to_owned(),
            };
        let kind = upgrade_type(container);
        if upgrade_type(known) != kind {
            let path = path.child("upgradeStrategy").child("upgradeType");
            let message = format!("container {name} upgradeType is immutable");
            errors.push(FieldError::invalid(path, &kind, message));
        }
    }
}
