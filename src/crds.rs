//! `kutter crds`: the CustomResourceDefinitions on standard output.

use std::io::Write;
use std::process::ExitCode;

use api::crds::{ALL, CustomResourceDefinition, ROLLOUTS};
use clap::Args;

use crate::manifests::namespace;

/// The version in which objects are stored, unless their kind has the older one alone.
pub(crate) const STORAGE_VERSION: &str = "v1beta1";

/// Arguments of `kutter crds`.
#[derive(Debug, Args)]
pub(crate) struct CrdsArguments {
    /// Namespace of the installation
    #[arg(long, default_value = api::DEFAULT_NAMESPACE, value_parser = namespace)]
    namespace: String,
    /// Version in which objects are stored; v1alpha1 prepares a return to OpenKruise. Kinds without it keep theirs
    #[arg(long, default_value = STORAGE_VERSION, value_parser = ["v1alpha1", "v1beta1"])]
    storage_version: String,
    /// Print those of Rollouts too, which the feature gate Rollouts needs
    #[arg(long)]
    rollouts: bool,
}

/// Prints the CRDs, each as a document of one YAML stream.
pub(crate) fn print(arguments: &CrdsArguments) -> anyhow::Result<ExitCode> {
    let CrdsArguments { namespace, storage_version, rollouts } = arguments;
    let output = &mut std::io::stdout().lock();
    write(output, ALL, namespace, storage_version)?;
    if *rollouts {
        write(output, ROLLOUTS, namespace, storage_version)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the server sets itself: it puts a segment that nobody can guess in front of it. Applied again, it would be taken
/// from a server that runs.
const CONVERSION_PATH: &str = "          path: /convert\n";

/// Writes each CRD as a document of one YAML stream, converted by the Service of `namespace` and stored in
/// `storage_version` where the kind has it.
pub(crate) fn write(
    output: &mut impl Write,
    definitions: &[CustomResourceDefinition],
    namespace: &str,
    storage_version: &str,
) -> std::io::Result<()> {
    let place = format!("namespace: {}\n", api::DEFAULT_NAMESPACE);
    for definition in definitions {
        let yaml = definition.yaml.trim_start_matches("---\n").trim_end();
        let yaml = yaml.replace(&place, &format!("namespace: {namespace}\n")).replace(CONVERSION_PATH, "");
        let yaml = if definition.versions.contains(&storage_version) {
            stored_as(&yaml, storage_version)
        } else {
            yaml
        };
        writeln!(output, "---\n{yaml}")?;
    }
    Ok(())
}

/// The definition with `storage: true` at `version` alone. Only the names of versions are indented by four, and they
/// come before `storage`.
fn stored_as(yaml: &str, version: &str) -> String {
    let mut name = "";
    let mut lines = Vec::new();
    for line in yaml.lines() {
        name = line.strip_prefix("    name: ").or_else(|| line.strip_prefix("  - name: ")).unwrap_or(name);
        if line.starts_with("    storage: ") {
            lines.push(format!("    storage: {}", name == version));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn printed(storage_version: &str) -> Vec<Value> {
        let mut output = Vec::new();
        for definitions in [ALL, ROLLOUTS] {
            write(&mut output, definitions, api::DEFAULT_NAMESPACE, storage_version).unwrap();
        }
        let text = String::from_utf8(output).unwrap();
        text.split("---\n").skip(1).map(|document| serde_saphyr::from_str(document).unwrap()).collect()
    }

    /// The version that each kind is stored in, and the definitions without that.
    fn stored(mut definitions: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
        let mut stored = Vec::new();
        for definition in &mut definitions {
            let versions = definition["spec"]["versions"].as_array_mut().unwrap();
            let mut storage = versions.iter_mut().filter_map(|version| {
                let is_stored = version["storage"].take().as_bool().unwrap();
                is_stored.then(|| version["name"].clone())
            });
            stored.push(storage.next().unwrap());
            assert_eq!(storage.next(), None);
        }
        (stored, definitions)
    }

    #[test]
    fn the_storage_version_changes_nothing_else() {
        let (alpha, rest) = stored(printed("v1alpha1"));
        let (own, usual) = stored(printed(STORAGE_VERSION));
        assert_eq!(rest, usual);
        assert!(alpha.iter().all(|version| version == "v1alpha1"), "{alpha:?}");
        let compiled = ALL.iter().chain(ROLLOUTS).map(|definition| Value::from(definition.storage_version));
        assert_eq!(own, compiled.collect::<Vec<_>>());
    }
}
