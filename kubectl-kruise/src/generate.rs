//! The generator of ResourceDistributions, which Kustomize runs.

use std::io::Read;
use std::path::{Component, Path};
use std::process::ExitCode;

use anyhow::Context;
use plugin::generator::{Surroundings, generate};
use serde_json::Value;

/// Reads a ResourceList and prints it with one more object.
///
/// # Errors
/// The list can't be read, or the function's configuration is wrong.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut list: Value = serde_saphyr::from_str(&text).context("the ResourceList is not understood")?;
    let variable = |name: &str| std::env::var(name).ok();
    generate(&mut list, Surroundings { read: &read, variable: &variable }).map_err(anyhow::Error::msg)?;
    print!("{}", serde_saphyr::to_string(&list)?);
    Ok(ExitCode::SUCCESS)
}

/// A file below the working directory.
fn read(path: &str) -> Result<Vec<u8>, String> {
    let is_below =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below {
        return Err(format!("{path} is not below the working directory"));
    }
    let real = std::fs::canonicalize(path).map_err(|error| format!("{path} can't be read: {error}"))?;
    let here = std::env::current_dir().and_then(std::fs::canonicalize);
    let here = here.map_err(|error| format!("the working directory can't be read: {error}"))?;
    if !real.starts_with(here) {
        return Err(format!("{path} leads out of the working directory"));
    }
    std::fs::read(real).map_err(|error| format!("{path} can't be read: {error}"))
}
