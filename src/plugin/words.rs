//! Command lines that kubectl reads, taken apart as far as the plugin has to know them.

use anyhow::anyhow;
use clap::Parser;

use super::connection::Connection;

/// Flags of kubectl with a value behind them that come before a Pod.
const WITH_VALUE: [&str; 22] = [
    "-c",
    "--container",
    "--pod-running-timeout",
    "--since",
    "--since-time",
    "--tail",
    "--limit-bytes",
    "--retries",
    "--max-log-requests",
    "-l",
    "--selector",
    "--field-selector",
    "-L",
    "--label-columns",
    "-o",
    "--output",
    "--sort-by",
    "--template",
    "--chunk-size",
    "-v",
    "--v",
    "--cache-dir",
];

/// Flags about the connection with a value.
const OF_CONNECTION: [&str; 19] = [
    "-n",
    "--namespace",
    "--kubeconfig",
    "--context",
    "--cluster",
    "--user",
    "-s",
    "--server",
    "--token",
    "--as",
    "--as-group",
    "--as-uid",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--tls-server-name",
    "--request-timeout",
    "--username",
    "--password",
];

/// The flags about the connection alone.
#[derive(Debug, Parser)]
struct ConnectionAlone {
    #[command(flatten)]
    connection: Connection,
}

/// A command line of kubectl, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// The container of a SidecarSet.
    pub(super) sidecar: Option<String>,
    /// Where the Pod is named, among the rest.
    pub(super) target: Option<usize>,
    /// All but the sidecar.
    pub(super) rest: Vec<String>,
    connection: Vec<String>,
}

impl Words {
    /// Takes the words behind the name of the plugin apart.
    pub(super) fn read(words: &[String], verb: &str) -> anyhow::Result<Self> {
        let mut line = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                line.rest.push(word.clone());
                line.rest.extend(words.cloned());
                break;
            }
            let (flag, value) =
                word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
            if matches!(flag, "-S" | "--sidecar") {
                let value = value.map(str::to_owned).or_else(|| words.next().cloned());
                line.sidecar = Some(value.ok_or_else(|| anyhow!("flag needs an argument: {flag}"))?);
                continue;
            }
            let is_of_connection = OF_CONNECTION.contains(&flag);
            let is_of_connection_alone = flag == "--insecure-skip-tls-verify";
            let takes_value = value.is_none() && (is_of_connection || WITH_VALUE.contains(&flag));
            let is_target = !word.starts_with('-')
                && word != verb
                && line.target.is_none()
                && (verb != "cp" || word.contains(':'));
            if is_target {
                line.target = Some(line.rest.len());
            }
            line.rest.push(word.clone());
            let value = if takes_value { words.next() } else { None };
            line.rest.extend(value.cloned());
            if is_of_connection || is_of_connection_alone {
                line.connection.push(word.clone());
                line.connection.extend(value.cloned());
            }
        }
        Ok(line)
    }

    /// The flags about the connection.
    pub(super) fn connection(&self) -> anyhow::Result<Connection> {
        let flags = self.connection.iter().map(String::as_str);
        Ok(ConnectionAlone::try_parse_from(std::iter::once("kubectl-kruise").chain(flags))?.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Words {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Words::read(
            &words,
            words.iter().find(|word| ["exec", "logs", "cp"].contains(&word.as_str())).unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn the_pod_and_the_sidecar_are_found_among_flags() {
        let line = read("-n shop exec -it -S agent web-1 -- sh -S x");
        assert_eq!(line.sidecar.as_deref(), Some("agent"));
        assert_eq!(line.rest.join(" "), "-n shop exec -it web-1 -- sh -S x");
        assert_eq!(line.rest[line.target.unwrap()], "web-1");
        assert_eq!(line.connection, ["-n", "shop"]);
        let line = read("logs --tail 5 clone/web --sidecar=agent --namespace=shop");
        assert_eq!(line.rest[line.target.unwrap()], "clone/web");
        assert_eq!(line.connection, ["--namespace=shop"]);
        let line = read("cp here shop/web:/tmp/there -S agent");
        assert_eq!(line.rest[line.target.unwrap()], "shop/web:/tmp/there");
        let line = read("--insecure-skip-tls-verify -s a --request-timeout 5s logs -l app=web -o wide all");
        assert_eq!(line.rest[line.target.unwrap()], "all");
        assert_eq!(line.connection, ["--insecure-skip-tls-verify", "-s", "a", "--request-timeout", "5s"]);
        assert_eq!(read("exec").target, None);
    }
}
