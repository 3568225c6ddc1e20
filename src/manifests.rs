//! `kutter manifests`: what the chart installs, on standard output. The text is the chart's own rendering, made
//! by `make generate`, with the values of the flags put in.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use crate::crds;

/// The chart's rendering, with a mark at the position of each flag.
const RENDERED: &str = include_str!("../charts/manifests.yaml");

/// Arguments of `kutter manifests`.
#[derive(Debug, Args)]
pub(crate) struct ManifestsArguments {
    /// Print the CustomResourceDefinitions first
    #[arg(long)]
    crds: bool,
    /// Namespace of the installation
    #[arg(long, default_value = api::DEFAULT_NAMESPACE, value_parser = namespace)]
    namespace: String,
    /// The program's image, with a tag or a digest
    #[arg(long, default_value = concat!("kutter/manager:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    image: String,
    /// How many replicas run
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
}

/// Prints the objects as one YAML stream, in an order in which they can be applied.
pub(crate) fn print(arguments: &ManifestsArguments) -> anyhow::Result<ExitCode> {
    let ManifestsArguments { crds, namespace, image, replicas } = arguments;
    let mut output = std::io::stdout().lock();
    if *crds {
        crds::write(&mut output, api::crds::ALL, namespace, crds::STORAGE_VERSION)?;
    }
    let text = RENDERED.replace("__NAMESPACE__", namespace).replace("__IMAGE__", image);
    output.write_all(text.replace("__REPLICAS__", &replicas.to_string()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A DNS label, as the names of namespaces are.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    let within = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let sound = (1..=63).contains(&text.len())
        && text.bytes().all(within)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if sound {
        Ok(text.to_owned())
    } else {
        Err("write lower-case letters, digits and '-', at most 63".to_owned())
    }
}

/// A reference of an image; what can't be part of one could change the meaning of the manifest. Without tag and digest
/// nodes would pull `latest`, which may be another program's version.
fn image(text: &str) -> Result<String, String> {
    let within = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/@".contains(&byte);
    let sound = text.bytes().all(within) && text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let name = text.rsplit('/').next().unwrap_or_default();
    // The port of a registry precedes the last slash.
    let chosen = name.split_once([':', '@']).is_some_and(|(_, version)| !version.is_empty());
    if sound && chosen && !text.ends_with(':') {
        Ok(text.to_owned())
    } else {
        Err("write a tag or a digest, for example registry.example.com/kutter:0.1.0".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_break_the_text_is_refused() {
        for text in ["", "Shop", "a b", "-a", "a-", "a: b", "a\nb"] {
            assert!(namespace(text).is_err(), "{text:?}");
        }
        for text in
            ["", "a b", "a #b", "a: b", "a:", "\"a\"", "*a", "a\nb", "kutter", "localhost:5000/kutter", "a@"]
        {
            assert!(image(text).is_err(), "{text:?}");
        }
        for text in ["kutter:1", "localhost:5000/kutter/manager:1.0_x", "a.b/c@sha256:0123"] {
            assert_eq!(image(text).as_deref(), Ok(text));
        }
    }
}
