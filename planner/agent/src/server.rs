//! Where the server is that gives out pull Secrets (docs/behaviour/node-agent.md#pull-secrets-of-a-node): where the API
//! server calls its webhooks, and under the same authority.

use serde::Deserialize;

/// The server, as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it is.
    pub place: Place,
    /// The certificates by which it is known: PEM in base64.
    pub authority: String,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address, outside the cluster.
    Url(String),
    /// Behind this Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(default)]
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    client_config: ClientConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    ca_bundle: Option<String>,
    url: Option<String>,
    service: Option<ServiceReference>,
}

#[derive(Deserialize)]
struct ServiceReference {
    namespace: String,
    name: String,
    port: Option<u16>,
}

#[derive(Deserialize)]
struct Service {
    spec: ServiceSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSpec {
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<std::net::IpAddr>,
}

/// The server of a webhook configuration with this JSON; `None` where nothing is registered yet.
pub fn registered(configuration: &str) -> Option<Server> {
    let configuration: Configuration = serde_json::from_str(configuration).ok()?;
    configuration.webhooks.into_iter().find_map(|Webhook { client_config }| {
        let ClientConfig { ca_bundle, url, service } = client_config;
        let place = match (url, service) {
            (Some(url), _) => Place::Url(origin(&url)?.to_owned()),
            (None, Some(ServiceReference { namespace, name, port })) => {
                Place::Service { namespace, name, port: port.unwrap_or(443) }
            }
            (None, None) => return None,
        };
        Some(Server { place, authority: ca_bundle.filter(|bundle| !bundle.is_empty())? })
    })
}

/// The address of a Service with this JSON, with a port of it. Names need a DNS, which a node may lack.
pub fn address(service: &str, port: u16) -> Option<String> {
    let service: Service = serde_json::from_str(service).ok()?;
    Some(format!("https://{}", std::net::SocketAddr::new(service.spec.cluster_ip?, port)))
}

/// `https://host:port` of a URL.
fn origin(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split('/').next().filter(|host| !host.is_empty())?;
    url.get(..url.len() - rest.len() + host.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn server(entries: &Value) -> Option<Server> {
        registered(&json!({"webhooks": entries}).to_string())
    }

    #[test]
    fn the_server_is_where_its_webhooks_are() {
        let place = Place::Service { namespace: "kruise-system".to_owned(), name: "s".to_owned(), port: 443 };
        let reference = json!({"namespace": "kruise-system", "name": "s", "path": "/mutate-pod"});
        let entry = json!({"clientConfig": {"caBundle": "QQ==", "service": reference}});
        assert_eq!(server(&json!([entry])), Some(Server { place, authority: "QQ==".to_owned() }));
        let entry = |url: &str| json!([{"clientConfig": {"caBundle": "QQ==", "url": url}}]);
        for (url, origin) in [
            ("https://10.0.0.1:9876/mutate-pod", Some("https://10.0.0.1:9876")),
            ("https://[::1]:1/", Some("https://[::1]:1")),
            ("https://a", Some("https://a")),
            ("http://a/b", None),
            ("https:///b", None),
        ] {
            let expected = origin.map(|origin| Place::Url(origin.to_owned()));
            assert_eq!(server(&entry(url)).map(|server| server.place), expected, "{url}");
        }
        for nothing in [
            json!([]),
            json!([{"clientConfig": {"url": "https://a"}}]),
            json!([{"clientConfig": {"caBundle": "QQ=="}}]),
        ] {
            assert_eq!(server(&nothing), None, "{nothing}");
        }
        assert_eq!(registered("{}"), None);
    }

    #[test]
    fn a_service_is_reached_at_its_address() {
        let of = |ip: &str| address(&json!({"spec": {"clusterIP": ip}}).to_string(), 443);
        assert_eq!(of("10.96.0.7").as_deref(), Some("https://10.96.0.7:443"));
        assert_eq!(of("fd00::7").as_deref(), Some("https://[fd00::7]:443"));
        assert_eq!(of("None"), None);
    }
}
