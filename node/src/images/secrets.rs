//! The pull Secrets that the NodeImage names, read one by one from the server and kept for some minutes
//! (docs/behaviour/node-agent.md#pull-secrets). The agent itself may read no Secret.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::keyring::may_exist;
use agent::pull_groups::Pass;
use api::kinds::nodeimage::PullSecret;
use api::kinds::shared::ObjectReference;
use cluster::resource::SECRETS;
use cluster::write::get;
use kube::Client;
use tokio::time::Instant;
use tracing::warn;

use super::server::connect;

/// How long a Secret is kept at least; chance adds up to as much, so that nodes do not ask at the same time.
const KEPT: Duration = Duration::from_secs(300);

/// The namespace and the name of a Secret.
type Name = (String, String);

/// Reads pull Secrets. Cheap to clone: clones share what they have read.
#[derive(Clone)]
pub(crate) struct Secrets {
    client: Client,
    token: Arc<Path>,
    known: Arc<Mutex<HashMap<Name, Known>>>,
}

/// A Secret as it was read.
#[derive(Clone)]
struct Known {
    since: Instant,
    until: Instant,
    pass: Arc<Pass>,
}

impl Secrets {
    /// Asks the API server where the server is, and the server with the token of this file.
    pub(crate) fn new(client: Client, token: PathBuf) -> Self {
        Self { client, token: token.into(), known: Arc::default() }
    }

    /// These Secrets, for a pull for these owners that began at this time. One that can't be read is passed over.
    pub(crate) async fn passes(
        &self,
        secrets: &[PullSecret],
        owners: &[ObjectReference],
        began: Instant,
    ) -> Vec<Arc<Pass>> {
        // An owner was made a user of its copies before it had the task.
        let counts = |known: &Known| known.since >= began || !known.pass.may_be_outdated(owners);
        let (mut passes, mut server) = (Vec::new(), None);
        for secret in secrets {
            passes.extend(self.read(secret, counts, &mut server).await);
        }
        passes
    }

    /// Forgets these Secrets: their credentials were not believed, and may have been changed.
    pub(crate) fn forget(&self, secrets: &[PullSecret]) {
        let mut known = self.known();
        for secret in secrets {
            known.remove(&name_of(secret));
        }
    }

    /// One Secret, as it is known where that `counts`; `server` is where it is read, once it is known.
    async fn read(
        &self,
        secret: &PullSecret,
        counts: impl Fn(&Known) -> bool,
        server: &mut Option<Result<Client, String>>,
    ) -> Option<Arc<Pass>> {
        let now = Instant::now();
        {
            let mut known = self.known();
            known.retain(|_, known| known.until > now);
            if let Some(known) = known.get(&name_of(secret)).filter(|known| counts(known)) {
                return Some(known.pass.clone());
            }
        }
        let PullSecret { namespace, name, .. } = secret;
        if !may_exist(secret) {
            warn!(namespace, name, "a pull Secret can't have this name and is passed over");
            return None;
        }
        if server.is_none() {
            *server = Some(connect(&self.client, &self.token).await);
        }
        let server = match server.as_ref()? {
            Ok(server) => server,
            Err(reason) => {
                warn!(namespace, name, reason, "a pull Secret can't be read and is passed over");
                return None;
            }
        };
        let pass = match get(server, &SECRETS.namespaced(namespace).name(name)).await {
            Ok(Some(json)) => Arc::new(Pass::of_secret(&json)),
            Ok(None) => {
                warn!(namespace, name, "a pull Secret does not exist and is passed over");
                return None;
            }
            Err(error) => {
                warn!(namespace, name, %error, "a pull Secret can't be read and is passed over");
                return None;
            }
        };
        let chance = RandomState::new().hash_one(name) % KEPT.as_secs();
        let until = now + KEPT + Duration::from_secs(chance);
        self.known().insert(name_of(secret), Known { since: now, until, pass: pass.clone() });
        Some(pass)
    }

    // Held for single operations only, never over an await.
    fn known(&self) -> MutexGuard<'_, HashMap<Name, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(secret: &PullSecret) -> Name {
    (secret.namespace.clone(), secret.name.clone())
}
