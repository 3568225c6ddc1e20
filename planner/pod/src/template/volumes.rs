//! Volumes: names, one source each, and the rules of each source.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::limits::{validate_no_backsteps, validate_range, validate_relative_path};
use super::node::{Node, invalid, require_one_of, require_text};
use super::pod_context::VolumeUse;
use super::{claims, names, projected};
use values::field::{FieldError, FieldPath};

/// Every source in the order in which Kubernetes looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// True where a volume has a source, known or of a newer Kubernetes.
pub(super) fn has_source(volume: &Node<'_>) -> bool {
    SOURCES.iter().any(|source| volume.has(source)) || has_unknown_source(volume)
}

fn has_unknown_source(volume: &Node<'_>) -> bool {
    let members = volume.value().as_object().into_iter().flatten();
    members
        .into_iter()
        .any(|(name, value)| name != "name" && value.is_object() && !SOURCES.contains(&name.as_str()))
}

/// Checks the volumes and returns those without errors.
pub(super) fn validate_volumes<'a>(
    spec: &Node<'a>,
    errors: &mut Vec<FieldError>,
) -> HashMap<&'a str, VolumeUse> {
    let mut volumes = HashMap::new();
    for volume in spec.list("volumes") {
        let before = errors.len();
        validate_source(&volume, errors);
        let name = volume.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(volume.at("name"), ""));
        } else {
            invalid(&volume.at("name"), name, names::dns_label(name), errors);
        }
        if volumes.contains_key(name) {
            errors.push(FieldError::duplicate(volume.at("name"), name));
        }
        if errors.len() == before {
            let claim = volume.has("persistentVolumeClaim") || volume.has("ephemeral");
            volumes.insert(name, if claim { VolumeUse::Block } else { VolumeUse::Files });
        }
    }
    volumes
}

fn validate_source(volume: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut sources = 0;
    for name in SOURCES {
        let Some(source) = volume.child(name) else { continue };
        sources += 1;
        if sources == 1 {
            validate_known_source(volume, name, &source, errors);
        } else {
            // The two paths are misspelt in Kubernetes.
            let shown = match *name {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                name => name,
            };
            errors.push(FieldError::forbidden(volume.at(shown), "may not specify more than 1 volume type"));
        }
    }
    if sources == 0 && !has_unknown_source(volume) {
        errors.push(FieldError::required(volume.path(), "must specify a volume type"));
    }
}

fn validate_known_source(volume: &Node<'_>, name: &str, source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let mut required = |fields: &[&str]| {
        for field in fields {
            require_text(source, field, errors);
        }
    };
    match name {
        "awsElasticBlockStore" | "portworxVolume" => required(&["volumeID"]),
        "azureFile" => required(&["secretName", "shareName"]),
        "cinder" => required(&["volumeID"]),
        "configMap" => required(&["name"]),
        "flexVolume" => required(&["driver"]),
        "gitRepo" => required(&["repository"]),
        "glusterfs" => required(&["endpoints", "path"]),
        "nfs" => required(&["server", "path"]),
        "persistentVolumeClaim" => required(&["claimName"]),
        "photonPersistentDisk" => required(&["pdID"]),
        "scaleIO" => required(&["gateway", "system", "volumeName"]),
        "secret" => required(&["secretName"]),
        "vsphereVolume" => required(&["volumePath"]),
        _ => {}
    }
    match name {
        "emptyDir" if source.quantity("sizeLimit").is_some_and(|limit| limit.is_negative()) => {
            errors.push(FieldError::forbidden(
                source.at("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            ));
        }
        "hostPath" => validate_host_path(source, errors),
        "gitRepo" => validate_relative_path(source.text("directory"), &source.at("directory"), errors),
        "gcePersistentDisk" => {
            let source = Node::new(source.value(), volume.at("persistentDisk"));
            require_text(&source, "pdName", errors);
            validate_partition(&source, errors);
        }
        "awsElasticBlockStore" => validate_partition(source, errors),
        "secret" | "configMap" => {
            projected::validate_mode(source, "defaultMode", errors);
            for item in source.list("items") {
                projected::validate_item(&item, errors);
            }
        }
        "nfs" if !source.text("path").starts_with('/') => {
            let path = source.text("path");
            errors.push(FieldError::invalid(source.at("path"), path, "must be an absolute path"));
        }
        "iscsi" => validate_iscsi(volume, source, errors),
        "flocker" => validate_flocker(source, errors),
        "rbd" => {
            require_list(source, "monitors", errors);
            require_text(source, "image", errors);
        }
        "cinder" => require_secret_name(source, errors),
        "cephfs" => require_list(source, "monitors", errors),
        "quobyte" => validate_quobyte(source, errors),
        "downwardAPI" => projected::validate_downward_api(source, errors),
        "fc" => validate_fibre_channel(source, errors),
        "flexVolume" => validate_flex_options(source, errors),
        "azureDisk" => validate_azure_disk(source, errors),
        "storageos" => validate_storage_os(source, errors),
        "projected" => projected::validate_projected(source, errors),
        "csi" => validate_csi(source, errors),
        "ephemeral" => match source.child("volumeClaimTemplate") {
            Some(template) => claims::validate_claim_template(&template, errors),
            None => errors.push(FieldError::required(source.at("volumeClaimTemplate"), "")),
        },
        "image" => require_one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], errors),
        _ => {}
    }
}

fn require_list(source: &Node<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if source.count(name) == 0 {
        errors.push(FieldError::required(source.at(name), ""));
    }
}

fn require_secret_name(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    if let Some(reference) = source.child("secretRef") {
        require_text(&reference, "name", errors);
    }
}

fn validate_host_path(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = source.text("path");
    if path.is_empty() {
        errors.push(FieldError::required(source.at("path"), ""));
        return;
    }
    validate_no_backsteps(path, &source.at("path"), errors);
    let kind = source.text("type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(source.at("type"), kind, TYPES));
    }
}

fn validate_partition(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let partition = source.integer("partition");
    if !(0..=255).contains(&partition) {
        // Zero is allowed although the message says otherwise.
        let message = names::range_message(&(1..=255));
        errors.push(FieldError::invalid_value(source.at("partition"), partition, message));
    }
}

fn validate_initiator(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?:iqn\.[0-9]{4}-[0-9]{2}\.(?:[0-9A-Za-z.-]+)(?::[^,;*&$|\s]+)\z)",
            r"|(?:\Aeui.[0-9A-Za-z]{16}\z)|(?:\Anaa.[0-9A-Za-z]{32}\z)"
        ))
        .ok()
    });
    if !["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix)) {
        let message = "must be valid format starting with iqn, eui, or naa";
        errors.push(FieldError::invalid(path.clone(), name, message));
    } else if !NAME.as_ref().is_some_and(|regex| regex.is_match(name)) {
        errors.push(FieldError::invalid(path.clone(), name, "must be valid format"));
    }
}

fn validate_iscsi(volume: &Node<'_>, source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_text(source, "targetPortal", errors);
    match source.text("iqn") {
        "" => errors.push(FieldError::required(source.at("iqn"), "")),
        name => validate_initiator(name, &source.at("iqn"), errors),
    }
    validate_range(source.integer("lun"), 0..=255, &source.at("lun"), errors);
    let authenticated = source.is_true("chapAuthDiscovery") || source.is_true("chapAuthSession");
    if authenticated && !source.has("secretRef") {
        errors.push(FieldError::required(source.at("secretRef"), ""));
    }
    if let Some(initiator) = source.text_option("initiatorName") {
        validate_initiator(initiator, &source.at("initiatorname"), errors);
        let name = volume.text("name");
        if name.len() + 1 + source.text("targetPortal").len() > 64 {
            let message = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                           iscsi.initiatorName is specified.";
            errors.push(FieldError::invalid(volume.at("name"), name, message));
        }
    }
}

fn validate_flocker(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.push(FieldError::required(source.path(), "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let message = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(source.path(), "resource", message));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(source.at("datasetName"), name, "must not contain '/'"));
    }
}

fn validate_quobyte(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(source.at("registry"), pairs));
    } else if source.text("tenant").len() >= 65 {
        let message = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(source.at("tenant"), message));
    } else if !registry.split(',').all(is_host_and_port) {
        errors.push(FieldError::invalid(source.at("registry"), registry, pairs));
    }
    require_text(source, "volume", errors);
}

/// `host:port` or `[address]:port`; both may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(address) => match address.strip_suffix(']') {
            Some(address) => return !address.contains(['[', ']']) && !port.contains(['[', ']']),
            None => return false,
        },
        None => host,
    };
    !host.contains([':', '[', ']']) && !port.contains(['[', ']'])
}

fn validate_fibre_channel(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let (targets, ids) = (source.count("targetWWNs"), source.count("wwids"));
    let path = source.at("targetWWNs");
    if targets == 0 && ids == 0 {
        errors.push(FieldError::required(path, "must specify either targetWWNs or wwids, but not both"));
        return;
    }
    if targets > 0 && ids > 0 {
        let shown = source.get("targetWWNs").map(ToString::to_string).unwrap_or_default();
        let message = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid_value(path, shown, message));
    }
    if targets > 0 {
        match source.integer_option("lun") {
            None => errors
                .push(FieldError::required(source.at("lun"), "lun is required if targetWWNs is specified")),
            Some(lun) => validate_range(lun, 0..=255, &source.at("lun"), errors),
        }
    }
}

fn validate_flex_options(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let message = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(source.at("options").key(key), key, message));
        }
    }
}

fn validate_azure_disk(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    require_text(source, "diskName", errors);
    require_text(source, "diskURI", errors);
    for (name, supported) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(value) = source.text_option(name).filter(|value| !supported.contains(value)) {
            errors.push(FieldError::not_supported(source.at(name), value, &supported));
        }
    }
    let uri = source.text("diskURI");
    let (prefix, form) = match source.text_option("kind") {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(source.at("diskURI"), uri, &[form]));
    }
}

fn validate_storage_os(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    require_text(source, "volumeName", errors);
    for name in ["volumeName", "volumeNamespace"] {
        let value = source.text(name);
        if !value.is_empty() {
            invalid(&source.at(name), value, names::dns_label(value), errors);
        }
    }
    require_secret_name(source, errors);
}

fn validate_csi(source: &Node<'_>, errors: &mut Vec<FieldError>) {
    let (driver, path) = (source.text("driver"), source.at("driver"));
    require_text(source, "driver", errors);
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path.clone(), 63));
    }
    invalid(&path, driver, names::dns_subdomain(&driver.to_lowercase()), errors);
    if let Some(reference) = source.child("nodePublishSecretRef") {
        match reference.text("name") {
            "" => require_text(&reference, "name", errors),
            name => invalid(&source.at("name"), name, names::dns_subdomain(name), errors),
        }
    }
}
