//! How a container is stopped: what runs before, and how much time is left for the container itself
//! (docs/behaviour/restarts.md#how-a-container-is-stopped).

use std::collections::BTreeMap;
use std::time::Duration;

use api::Raw;
use serde::Deserialize;
use serde::de::IgnoredAny;

use pod::exit_priority::plan::WAIT;

/// Its argument where the container is stopped alone.
const ALONE: &str = "--no-wait";
/// The shortest time that a container gets between the request to stop and being killed.
const LEAST: Duration = Duration::from_secs(2);

/// What runs before a container is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A command in the container.
    Exec(Vec<String>),
    /// A GET request.
    Http(HttpHook),
    /// A pause.
    Sleep(Duration),
    /// Something else, which counts as a failure.
    Unsupported,
}

/// A GET request to a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpHook {
    /// Where to; the Pod's own address where it is absent.
    pub host: Option<String>,
    /// The port; absent where the container has none of this name.
    pub port: Option<u16>,
    /// The path, which may be empty.
    pub path: String,
    /// Whether it is asked by TLS. Its certificate is not checked.
    pub tls: bool,
    /// Headers.
    pub headers: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Handler {
    exec: Option<Exec>,
    http_get: Option<HttpGet>,
    tcp_socket: Option<IgnoredAny>,
    sleep: Option<Sleep>,
}

#[derive(Deserialize)]
pub(super) struct Exec {
    #[serde(default)]
    pub(super) command: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HttpGet {
    #[serde(default)]
    host: String,
    port: PortName,
    #[serde(default)]
    path: String,
    #[serde(default)]
    scheme: String,
    #[serde(default)]
    http_headers: Vec<Header>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum PortName {
    Number(u16),
    Name(String),
}

#[derive(Deserialize)]
struct Header {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Sleep {
    seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    #[serde(default)]
    name: String,
    container_port: u16,
}

/// The hook that a handler of a Pod describes; `ports` are those of its container.
pub fn hook(handler: &Raw, ports: &[Raw]) -> Option<Hook> {
    let Ok(handler) = serde_json::from_str::<Option<Handler>>(handler.get()) else {
        return Some(Hook::Unsupported);
    };
    let Handler { exec, http_get, tcp_socket, sleep } = handler?;
    if let Some(Exec { command }) = exec {
        return Some(Hook::Exec(alone(command)));
    }
    if let Some(get) = http_get {
        return Some(Hook::Http(http(get, ports)));
    }
    if let Some(Sleep { seconds }) = sleep {
        return Some(Hook::Sleep(Duration::from_secs(seconds)));
    }
    tcp_socket.map(|_| Hook::Unsupported)
}

/// The pause of a container in the annotation that carries those of a request.
pub fn pause(annotation: &str, container: &str) -> Option<Hook> {
    let pauses: BTreeMap<String, u64> = serde_json::from_str(annotation).ok()?;
    pauses.get(container).map(|seconds| Hook::Sleep(Duration::from_secs(*seconds)))
}

/// The command, which waits for no other container.
fn alone(mut command: Vec<String>) -> Vec<String> {
    if command.iter().take(WAIT.len()).eq(&WAIT) {
        command.insert(WAIT.len(), ALONE.to_owned());
    }
    command
}

pub(super) fn http(get: HttpGet, ports: &[Raw]) -> HttpHook {
    HttpHook {
        host: Some(get.host).filter(|host| !host.is_empty()),
        port: port(&get.port, ports),
        path: get.path,
        tls: get.scheme.eq_ignore_ascii_case("https"),
        headers: get.http_headers.into_iter().map(|header| (header.name, header.value)).collect(),
    }
}

/// The number of a port; `None` where the container has none of this name.
pub(super) fn port(port: &PortName, ports: &[Raw]) -> Option<u16> {
    let named = |name: &str| {
        let mut known = ports.iter().filter_map(|port| serde_json::from_str::<Port>(port.get()).ok());
        known.find(|port| port.name == name).map(|port| port.container_port)
    };
    let number = match port {
        PortName::Number(number) => Some(*number),
        PortName::Name(name) => name.parse().ok().or_else(|| named(name)),
    };
    number.filter(|number| *number > 0)
}

/// What is left for the container after its hook has taken so long, in whole seconds.
pub fn left(grace: Duration, hook: Duration) -> Duration {
    grace.saturating_sub(Duration::from_secs(hook.as_secs())).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text).unwrap()
    }

    #[test]
    fn hooks_are_read_and_odd_ones_fail() {
        let ports = [raw(r#"{"name":"web","containerPort":8080}"#)];
        let read = |text: &str| hook(&raw(text), &ports);
        let exec = Hook::Exec(vec!["sh".to_owned(), "-c".to_owned()]);
        assert_eq!(read(r#"{"exec":{"command":["sh","-c"]}}"#), Some(exec));
        let waits = r#"{"exec":{"command":["/.kruise-exit/hook","wait","--name=a","--","sh"]}}"#;
        let words = ["/.kruise-exit/hook", "wait", "--no-wait", "--name=a", "--", "sh"];
        assert_eq!(read(waits), Some(Hook::Exec(words.map(str::to_owned).into())));
        assert_eq!(read(r#"{"sleep":{"seconds":3}}"#), Some(Hook::Sleep(Duration::from_secs(3))));
        for (port, found) in
            [("8080", Some(8080)), (r#""web""#, Some(8080)), (r#""other""#, None), ("0", None)]
        {
            let get = format!(r#"{{"httpGet":{{"port":{port},"path":"/end","scheme":"HTTPS"}}}}"#);
            let expected =
                HttpHook { port: found, path: "/end".to_owned(), tls: true, ..HttpHook::default() };
            assert_eq!(read(&get), Some(Hook::Http(expected)), "{port}");
        }
        for odd in [r#"{"tcpSocket":{"port":1}}"#, r#"{"exec":1}"#, r#"{"httpGet":{"port":70000}}"#] {
            assert_eq!(read(odd), Some(Hook::Unsupported), "{odd}");
        }
        assert_eq!((read("{}"), read("null")), (None, None));
        assert_eq!(pause(r#"{"main":4}"#, "main"), Some(Hook::Sleep(Duration::from_secs(4))));
        assert_eq!((pause(r#"{"main":4}"#, "other"), pause("?", "main")), (None, None));
    }

    #[test]
    fn a_container_has_two_seconds_at_least() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(30), Duration::from_millis(4900)), seconds(26));
        assert_eq!((left(seconds(1), seconds(0)), left(seconds(5), seconds(9))), (seconds(2), seconds(2)));
    }
}
