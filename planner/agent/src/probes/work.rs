//! One probe of a NodePodProbe, as it can be run (docs/behaviour/node-agent.md#probes).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use api::kinds::nodepodprobe::{ContainerProbe, PodProbe};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::Outcome;
use crate::container::{Condition, RuntimeContainer};
use crate::stop::{Exec, HttpGet, PortName, http, port};

/// A probe of a container, and all that is needed to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The namespace of the Pod.
    pub namespace: String,
    /// The name of the Pod.
    pub pod: String,
    /// The UID of the Pod.
    pub uid: String,
    /// The name of the container.
    pub container: String,
    /// The name of the probe.
    pub name: String,
    /// What is checked.
    pub handler: Handler,
    /// When and how often.
    pub terms: Terms,
}

/// What a probe checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handler {
    /// A command in the container.
    Exec(Vec<String>),
    /// A GET request.
    Http {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
        /// The path.
        path: String,
        /// Whether it is asked by TLS.
        tls: bool,
        /// Headers.
        headers: Vec<(String, String)>,
    },
    /// A connection.
    Tcp {
        /// Where to.
        host: String,
        /// Where to.
        port: u16,
    },
    /// Nothing can be checked, for this reason.
    Impossible(&'static str),
}

/// When a probe runs, and what its results count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// From the start of the container to the first run.
    pub initial_delay: Duration,
    /// The longest time of a run.
    pub timeout: Duration,
    /// From one run to the next.
    pub period: Duration,
    /// So many successes in a row count.
    pub successes: u32,
    /// So many failures in a row count.
    pub failures: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Probe {
    exec: Option<Exec>,
    http_get: Option<HttpGet>,
    tcp_socket: Option<TcpSocket>,
    initial_delay_seconds: Option<i32>,
    timeout_seconds: Option<i32>,
    period_seconds: Option<i32>,
    success_threshold: Option<i32>,
    failure_threshold: Option<i32>,
}

#[derive(Deserialize)]
struct TcpSocket {
    #[serde(default)]
    host: String,
    port: PortName,
}

impl Work {
    /// What a NodePodProbe says of a probe.
    pub(super) fn new(pod: &PodProbe, probe: &ContainerProbe) -> Self {
        let read = probe.probe.as_ref().map(|probe| serde_json::from_str::<Probe>(probe.get()));
        let (probe_read, error) = match read {
            Some(Ok(read)) => (read, None),
            Some(Err(_)) => (Probe::default(), Some("it can't be understood")),
            None => (Probe::default(), None),
        };
        let terms = Terms::new(&probe_read);
        let handler = error.map_or_else(|| Handler::new(probe_read, &pod.ip), Handler::Impossible);
        Self {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            container: probe.container_name.clone(),
            name: probe.name.clone(),
            handler,
            terms,
        }
    }

    /// When the first run is, in time since the agent began, for a probe that it finds when it has run so long: at once,
    /// but the probes of its start are spread over a period.
    pub fn first_run(&self, running: Duration) -> Duration {
        if running >= self.terms.period {
            return running;
        }
        let mut hasher = DefaultHasher::new();
        (&self.uid, &self.name).hash(&mut hasher);
        let place = hasher.finish().checked_rem(self.terms.period.as_secs()).unwrap_or_default();
        Duration::from_secs(place).max(running)
    }

    /// What comes of a run where nothing is checked; `None` where the container is to be checked.
    pub fn without_run(&self, container: &RuntimeContainer, now: Timestamp) -> Option<Outcome> {
        if container.condition != Condition::Running {
            return Some(Outcome::Stopped);
        }
        let delay = SignedDuration::try_from(self.terms.initial_delay).unwrap_or(SignedDuration::MAX);
        let is_old = container.started.is_some_and(|started| now.duration_since(started) >= delay);
        (!is_old).then_some(Outcome::Nothing)
    }
}

impl Handler {
    fn new(probe: Probe, address: &str) -> Self {
        const NO_PORT: &str = "its port is no number from 1 to 65535";
        const NO_HOST: &str = "the address of the Pod is not known yet";
        let or_address = |host: Option<String>| host.unwrap_or_else(|| address.to_owned());
        let handler = match probe {
            Probe { exec: Some(Exec { command }), .. } => return Self::Exec(command),
            Probe { http_get: Some(get), .. } => {
                let get = http(get, &[]);
                get.port.map(|port| Self::Http {
                    host: or_address(get.host),
                    port,
                    path: get.path,
                    tls: get.tls,
                    headers: get.headers,
                })
            }
            Probe { tcp_socket: Some(tcp), .. } => {
                let host = or_address(Some(tcp.host).filter(|host| !host.is_empty()));
                port(&tcp.port, &[]).map(|port| Self::Tcp { host, port })
            }
            _ => return Self::Impossible("it says neither exec nor httpGet nor tcpSocket"),
        };
        match handler {
            None => Self::Impossible(NO_PORT),
            // Without a host the agent would ask its own node.
            Some(Self::Http { host, .. } | Self::Tcp { host, .. }) if host.is_empty() => {
                Self::Impossible(NO_HOST)
            }
            Some(handler) => handler,
        }
    }

    /// The word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Http { .. } => "http",
            Self::Tcp { .. } => "tcp",
            Self::Impossible(_) => "none",
        }
    }
}

impl Terms {
    /// What is absent, and what makes no sense, counts as 1: nothing is defaulted on admission.
    fn new(probe: &Probe) -> Self {
        let count =
            |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1).max(1);
        let seconds = |number| Duration::from_secs(count(number).into());
        Self {
            initial_delay: seconds(probe.initial_delay_seconds),
            timeout: seconds(probe.timeout_seconds),
            period: seconds(probe.period_seconds),
            successes: count(probe.success_threshold),
            failures: count(probe.failure_threshold),
        }
    }
}
