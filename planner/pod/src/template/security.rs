//! Security contexts of Pods and containers, seccomp, AppArmor, sysctls and Windows options.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::limits::{validate_range, validate_relative_path};
use super::names;
use super::node::{Node, invalid};
use super::pod_context::{PodContext, every_container};
use values::field::{FieldError, FieldPath};

pub(super) const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_CONTAINER_ANNOTATIONS: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_ANNOTATIONS: &str = "container.apparmor.security.beta.kubernetes.io/";
const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;

pub(super) fn validate_container_security(
    security: &Node<'_>,
    context: &PodContext<'_>,
    errors: &mut Vec<FieldError>,
) {
    if security.is_true("privileged") && !context.allow_privileged {
        errors.push(FieldError::forbidden(security.at("privileged"), "disallowed by cluster policy"));
    }
    validate_ids(security, &["runAsUser", "runAsGroup"], errors);
    match security.text_option("procMount") {
        None | Some("Default") => {}
        Some("Unmasked") if !context.host_users => {}
        Some("Unmasked") => errors.push(FieldError::invalid(
            security.at("procMount"),
            "Unmasked",
            "`hostUsers` must be false to use `Unmasked`",
        )),
        Some(kind) => {
            errors.push(FieldError::not_supported(security.at("procMount"), kind, &["Default", "Unmasked"]));
        }
    }
    validate_profiles(security, errors);
    if security.flag("allowPrivilegeEscalation") == Some(false) {
        let shown = security.value().to_string();
        if security.is_true("privileged") {
            let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid_value(security.path(), &shown, message));
        }
        let added = security.child("capabilities").map(|capabilities| capabilities.texts("add"));
        if added.is_some_and(|added| added.contains(&"CAP_SYS_ADMIN")) {
            let message =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid_value(security.path(), shown, message));
        }
    }
}

pub(super) fn validate_pod_security(spec: &Node<'_>, security: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_ids(security, &["fsGroup", "runAsUser", "runAsGroup"], errors);
    let groups = security.get("supplementalGroups").and_then(serde_json::Value::as_array);
    for (index, group) in groups.into_iter().flatten().enumerate() {
        if let Some(group) = group.as_i64() {
            validate_range(group, IDS, &security.at("supplementalGroups").index(index), errors);
        }
    }
    if spec.is_true("shareProcessNamespace") && spec.is_true("hostPID") {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid_value(security.at("shareProcessNamespace"), true, message));
    }
    validate_sysctls(spec, security, errors);
    for (name, supported) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
        ("seLinuxChangePolicy", ["MountOption", "Recursive"]),
    ] {
        if let Some(value) = security.text_option(name).filter(|value| !supported.contains(value)) {
            errors.push(FieldError::not_supported(security.at(name), value, &supported));
        }
    }
    validate_profiles(security, errors);
}

fn validate_ids(security: &Node<'_>, names: &[&str], errors: &mut Vec<FieldError>) {
    for name in names {
        if let Some(id) = security.integer_option(name) {
            validate_range(id, IDS, &security.at(name), errors);
        }
    }
}

fn validate_sysctls(spec: &Node<'_>, security: &Node<'_>, errors: &mut Vec<FieldError>) {
    const REGEX: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = HashSet::new();
    for sysctl in security.list("sysctls") {
        let (name, path) = (sysctl.text("name"), sysctl.at("name"));
        let fresh = seen.insert(name);
        if name.is_empty() {
            errors.push(FieldError::required(path.clone(), ""));
        } else if !names::is_sysctl(name) {
            let message = format!("must have at most 253 characters and match regex {REGEX}");
            errors.push(FieldError::invalid(path.clone(), name, message));
        } else if !fresh {
            errors.push(FieldError::duplicate(path.clone(), name));
        }
        let dotted = dotted_sysctl(name);
        let ipc = matches!(dotted.as_str(), "kernel.sem") || dotted.starts_with("kernel.shm");
        let ipc = ipc || dotted.starts_with("kernel.msg") || dotted.starts_with("fs.mqueue.");
        if spec.is_true("hostNetwork") && dotted.starts_with("net.") {
            errors.push(FieldError::invalid(path, name, "may not be specified when 'hostNetwork' is true"));
        } else if spec.is_true("hostIPC") && ipc {
            errors.push(FieldError::invalid(path, name, "may not be specified when 'hostIPC' is true"));
        }
    }
}

/// A name in which the first separator is a slash has dots and slashes swapped.
fn dotted_sysctl(name: &str) -> String {
    if name.find('/') < name.find('.') && name.contains('/') || !name.contains('.') {
        let swap = |letter| match letter {
            '/' => '.',
            '.' => '/',
            other => other,
        };
        return name.chars().map(swap).collect();
    }
    name.to_owned()
}

fn validate_profiles(security: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(profile) = security.child("seccompProfile") {
        validate_seccomp(&profile, errors);
    }
    if let Some(options) = security.child("windowsOptions") {
        validate_windows_options(&options, errors);
    }
    if let Some(profile) = security.child("appArmorProfile") {
        validate_apparmor(&profile, errors);
    }
}

fn validate_profile_type(profile: &Node<'_>, noun: &str, errors: &mut Vec<FieldError>) {
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    match profile.text("type") {
        "" => errors
            .push(FieldError::required(profile.at("type"), format!("type is required when {noun} is set"))),
        kind if TYPES.contains(&kind) => {}
        kind => errors.push(FieldError::not_supported(profile.at("type"), kind, TYPES)),
    }
}

fn validate_seccomp(profile: &Node<'_>, errors: &mut Vec<FieldError>) {
    validate_profile_type(profile, "seccompProfile", errors);
    let path = profile.at("localhostProfile");
    match (profile.text("type"), profile.text_option("localhostProfile")) {
        ("Localhost", None) => {
            errors.push(FieldError::required(path, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(file)) => validate_relative_path(file, &path, errors),
        (_, None) => {}
        (_, Some(_)) => errors.push(FieldError::invalid_value(
            path,
            profile.value(),
            "can only be set when seccomp type is Localhost",
        )),
    }
}

fn validate_apparmor(profile: &Node<'_>, errors: &mut Vec<FieldError>) {
    const LIMIT: usize = 4095;
    validate_profile_type(profile, "appArmorProfile", errors);
    let path = profile.at("localhostProfile");
    let needed = "must be set when AppArmor type is Localhost";
    match (profile.text("type"), profile.text_option("localhostProfile")) {
        ("Localhost", None) => errors.push(FieldError::required(path, needed)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.push(FieldError::invalid(path.clone(), name, "must not be padded with whitespace"));
            } else if name.is_empty() {
                errors.push(FieldError::required(path.clone(), needed));
            }
            if name.len() > LIMIT {
                errors.push(FieldError::too_long(path, LIMIT));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.push(FieldError::invalid(path, name, "can only be set when AppArmor type is Localhost"));
        }
        _ => {}
    }
}

/// The old way to name a seccomp profile.
pub(super) fn validate_seccomp_annotation(profile: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(file) => validate_relative_path(file, path, errors),
        None => errors.push(FieldError::invalid(path.clone(), profile, "must be a valid seccomp profile")),
    }
}

/// Profiles in annotations must agree with those in fields.
pub(super) fn validate_profile_annotations(
    template: &Node<'_>,
    spec: &Node<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(metadata) = template.child("metadata") else { return };
    let Some(annotations) = metadata.child("annotations") else { return };
    let windows = spec.child("os").is_some_and(|os| os.text("name") == "windows");
    let pod = spec.child("securityContext");
    if let Some(profile) = pod.as_ref().and_then(|pod| pod.child("seccompProfile")) {
        match_annotation(
            &profile,
            annotations.text_option(SECCOMP_POD_ANNOTATION),
            "seccomp",
            &profile.path(),
            errors,
        );
    }
    let pod_apparmor = pod.as_ref().and_then(|pod| pod.child("appArmorProfile"));
    for container in every_container(spec) {
        let name = container.text("name");
        let own = container.child("securityContext");
        if let Some(profile) = own.as_ref().and_then(|own| own.child("seccompProfile")) {
            let annotation = annotations.text_option(&format!("{SECCOMP_CONTAINER_ANNOTATIONS}{name}"));
            match_annotation(&profile, annotation, "seccomp", &profile.path(), errors);
        }
        let profile =
            own.as_ref().and_then(|own| own.child("appArmorProfile")).or_else(|| pod_apparmor.clone());
        if let Some(profile) = profile.filter(|_| !windows) {
            let annotation = annotations.text_option(&format!("{APPARMOR_ANNOTATIONS}{name}"));
            let path = container.at("securityContext").child("appArmorProfile");
            match_annotation(&profile, annotation, "apparmor", &path, errors);
        }
    }
}

fn match_annotation(
    profile: &Node<'_>,
    annotation: Option<&str>,
    noun: &str,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(annotation) = annotation else { return };
    let agrees = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (noun == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(name) if profile.text_option("localhostProfile") != Some(name) => {
                let message = format!("{noun} profile in annotation and field must match");
                errors.push(FieldError::forbidden(path.child("localhostProfile"), message));
                true
            }
            name => name.is_some(),
        },
        _ => true,
    };
    if !agrees {
        errors.push(FieldError::forbidden(
            path.child("type"),
            format!("{noun} type in annotation and field must match"),
        ));
    }
}

fn validate_windows_options(options: &Node<'_>, errors: &mut Vec<FieldError>) {
    const SPEC_LIMIT: usize = 64 * 1024;
    if let Some(name) = options.text_option("gmsaCredentialSpecName") {
        invalid(&options.at("gmsaCredentialSpecName"), name, names::dns_subdomain(name), errors);
    }
    let path = options.at("gmsaCredentialSpec");
    match options.text_option("gmsaCredentialSpec") {
        Some("") => {
            errors.push(FieldError::invalid(path, "", "gmsaCredentialSpec cannot be an empty string"));
        }
        Some(spec) if spec.len() > SPEC_LIMIT => {
            errors.push(FieldError::invalid(path, spec, "gmsaCredentialSpec size must be under 64 KiB"));
        }
        _ => {}
    }
    if let Some(name) = options.text_option("runAsUserName") {
        for problem in user_name_problems(name) {
            errors.push(FieldError::invalid(
                options.at("runAsUserName"),
                name,
                format!("runAsUserName{problem}"),
            ));
        }
    }
}

fn user_name_problems(name: &str) -> Vec<&'static str> {
    let (domain, user) = match name.split_once('\\') {
        _ if name.is_empty() => return vec![" cannot be an empty string"],
        _ if name.chars().any(|letter| letter.is_ascii_control()) => {
            return vec![" cannot contain control characters"];
        }
        Some((_, user)) if user.contains('\\') => return vec![" cannot contain more than one backslash"],
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut problems = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        problems.push("'s Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_windows_domain(domain)) {
        problems.push("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        problems.push("'s User cannot be empty");
    } else if user.len() > 104 {
        problems.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|letter| letter == '.' || letter == ' ') {
        problems.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        problems.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    problems
}

fn is_windows_domain(domain: &str) -> bool {
    static DOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
        let net_bios = r#"[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}"#;
        Regex::new(&format!(r"\A(?:{net_bios}|{label}(?:\.{label})*)\z")).ok()
    });
    DOMAIN.as_ref().is_some_and(|regex| regex.is_match(domain))
}

/// Host process containers: all or none, on the host's network, and privileged.
pub(super) fn validate_host_process(spec: &Node<'_>, allow_privileged: bool, errors: &mut Vec<FieldError>) {
    let host_process =
        |node: &Node<'_>| node.child("securityContext")?.child("windowsOptions")?.flag("hostProcess");
    let pod = host_process(spec);
    let (mut containers, mut host_containers) = (0, 0);
    for container in every_container(spec) {
        containers += 1;
        let own = host_process(&container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let path = container.at("securityContext").child("windowsOptions").child("hostProcess");
            let message = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(FieldError::invalid_value(path, own, message));
        }
        if own.or(pod) == Some(true) {
            host_containers += 1;
        }
    }
    if host_containers == 0 {
        return;
    }
    if host_containers != containers {
        let message =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(spec.path(), "", message));
    }
    if !spec.is_true("hostNetwork") {
        let message = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid_value(spec.at("hostNetwork"), false, message));
    }
    if !allow_privileged {
        let message = "hostProcess containers are disallowed by cluster policy";
        errors.push(FieldError::forbidden(spec.path(), message));
    }
}

/// A Pod in a user namespace of its own can't share the host's other namespaces.
pub(super) fn validate_user_namespace(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.is_true(field) {
            errors.push(FieldError::forbidden(spec.at(shown), "when `hostUsers` is false"));
        }
    }
    for container in every_container(spec).filter(|container| container.count("volumeDevices") > 0) {
        errors.push(FieldError::forbidden(container.at("volumeDevices"), "when `hostUsers` is false"));
    }
}

/// Fields that mean nothing on the operating system the Pod asks for.
pub(super) fn validate_operating_system(spec: &Node<'_>, errors: &mut Vec<FieldError>) {
    const POD_LINUX: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const CONTAINER_LINUX: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let Some(os) = spec.child("os") else { return };
    let (message, pod_fields, container_fields) = match os.text("name") {
        "" => {
            errors.push(FieldError::required(os.at("name"), ""));
            return;
        }
        "linux" => {
            let fields: &[&str] = &["windowsOptions"];
            ("windows options cannot be set for a linux pod", fields, fields)
        }
        "windows" => {
            for field in ["hostUsers", "shareProcessNamespace"] {
                if spec.has(field) {
                    errors.push(FieldError::forbidden(spec.at(field), "cannot be set for a windows pod"));
                }
            }
            for field in ["hostPID", "hostIPC"] {
                if spec.is_true(field) {
                    errors.push(FieldError::forbidden(spec.at(field), "cannot be set for a windows pod"));
                }
            }
            ("cannot be set for a windows pod", POD_LINUX, CONTAINER_LINUX)
        }
        name => {
            errors.push(FieldError::not_supported(os.path(), name, &["linux", "windows"]));
            return;
        }
    };
    let mut forbid = |place: &Node<'_>, fields: &[&str]| {
        if let Some(security) = place.child("securityContext") {
            let present = fields.iter().filter(|field| security.has(field));
            errors.extend(present.map(|field| FieldError::forbidden(security.at(field), message)));
        }
    };
    forbid(spec, pod_fields);
    for container in every_container(spec) {
        forbid(&container, container_fields);
    }
}
