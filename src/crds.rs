//! `kutter crds`: the CustomResourceDefinitions on standard output.

use std::io::Write;
use std::process::ExitCode;

/// Prints every CRD as a document of one YAML stream.
pub(crate) fn print() -> anyhow::Result<ExitCode> {
    let mut output = std::io::stdout().lock();
    for definition in api::crds::ALL {
        let yaml = definition.yaml.trim_start_matches("---\n").trim_end();
        writeln!(output, "---\n{yaml}")?;
    }
    Ok(ExitCode::SUCCESS)
}
