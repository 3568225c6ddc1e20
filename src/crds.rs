//! `kutter crds`: the CustomResourceDefinitions on standard output.

use std::io::Write;
use std::process::ExitCode;

/// Prints every CRD as a document of one YAML stream.
pub(crate) fn print() -> anyhow::Result<ExitCode> {
    write(&mut std::io::stdout().lock(), api::DEFAULT_NAMESPACE)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes every CRD as a document of one YAML stream, converted by the Service of `namespace`.
pub(crate) fn write(output: &mut impl Write, namespace: &str) -> std::io::Result<()> {
    let place = format!("namespace: {}\n", api::DEFAULT_NAMESPACE);
    for definition in api::crds::ALL {
        let yaml = definition.yaml.trim_start_matches("---\n").trim_end();
        let yaml = yaml.replace(&place, &format!("namespace: {namespace}\n"));
        writeln!(output, "---\n{yaml}")?;
    }
    Ok(())
}
