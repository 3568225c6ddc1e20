//! The server that gives out pull Secrets (docs/behaviour/node-agent.md#pull-secrets-of-a-node).

use std::path::Path;

use admission::registration::ConfigurationKind;
use agent::server::{Place, Server, address, registered};
use cluster::client::{self, Peer};
use cluster::resource::{SERVICES, VALIDATING_WEBHOOKS};
use cluster::write::get;
use kube::Client;

/// The names under which the agent calls.
const USER_AGENT: &str = "kruise-daemon/kruise-daemon-imagepuller";

/// A connection to the server, as the agent whose token is in this file. Where the server is, and under which authority, is
/// asked each time: both may change, and Secrets are read seldom.
///
/// # Errors
/// It is not known where the server is, or there is no token.
pub(super) async fn connect(api: &Client, token: &Path) -> Result<Client, String> {
    let name = ConfigurationKind::Validating.name();
    let configuration = read(api, &VALIDATING_WEBHOOKS.all().name(name)).await?;
    let Server { place, authority } = registered(&configuration).ok_or("the server is not registered yet")?;
    let (url, name) = match place {
        Place::Url(url) => (url, None),
        Place::Service { namespace, name, port } => {
            let service = read(api, &SERVICES.namespaced(&namespace).name(&name)).await?;
            let url = address(&service, port).ok_or("the Service of the server has no address")?;
            (url, Some(format!("{name}.{namespace}.svc")))
        }
    };
    let peer = Peer { url, name, authority, token };
    let configuration = peer.configuration().await.map_err(|error| error.to_string())?;
    client::connect(&configuration, USER_AGENT).map_err(|error| error.to_string())
}

async fn read(api: &Client, path: &str) -> Result<String, String> {
    match get(api, path).await {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(format!("there is no {path}")),
        Err(error) => Err(error.to_string()),
    }
}
