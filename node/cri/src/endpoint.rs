//! Which sockets of the node belong to a runtime (docs/behaviour/node-agent.md#the-container-runtime).

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::error::CriError;
use crate::runtime::{Calls, Runtime};

/// Where runtimes listen, below the directory of sockets.
const SOCKETS: [&str; 6] = [
    "containerd.sock",
    "containerd/containerd.sock",
    "crio.sock",
    "crio/crio.sock",
    "cri-dockerd.sock",
    "cri-dockerd/cri-dockerd.sock",
];
/// Longest time for a socket to prove itself.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why no runtime can be used.
#[derive(Debug, Error)]
pub enum DetectError {
    /// There is no socket.
    #[error("not found container runtime sock: {} has none of {}", directory.display(), names.join(", "))]
    NoSocket {
        /// Where they were looked for.
        directory: PathBuf,
        /// Those that were looked for.
        names: Vec<String>,
    },
    /// There are sockets, and none can be used; this is what the last one said.
    #[error("no container runtime can be used: {}: {error}", socket.display())]
    Unusable {
        /// The last socket.
        socket: PathBuf,
        /// What is wrong with it.
        #[source]
        error: CriError,
    },
}

/// A runtime, and what was said of the sockets before it.
#[derive(Debug)]
pub struct Detected {
    /// The runtimes, the one first that serves the images.
    pub runtimes: Vec<Runtime>,
    /// The sockets that can't be used, with the reasons.
    pub passed_over: Vec<(PathBuf, CriError)>,
}

/// The sockets that exist: `file` alone where it is given, else all usual ones.
pub fn sockets(directory: &Path, file: Option<&str>) -> Vec<PathBuf> {
    names(file).into_iter().map(|name| directory.join(name)).filter(|path| path.exists()).collect()
}

fn names(file: Option<&str>) -> Vec<&str> {
    file.map_or(SOCKETS.to_vec(), |file| vec![file])
}

/// The runtimes behind the sockets that exist; one is enough.
///
/// # Errors
/// There is none.
pub async fn detect(directory: &Path, file: Option<&str>, calls: &Calls) -> Result<Detected, DetectError> {
    let mut found = Detected { runtimes: Vec::new(), passed_over: Vec::new() };
    for socket in sockets(directory, file) {
        let late = CriError::Late { method: "Version", limit: TIMEOUT };
        let proved = tokio::time::timeout(TIMEOUT, Runtime::prove(&socket, calls.clone())).await;
        match proved.unwrap_or(Err(late)) {
            Ok(runtime) => found.runtimes.push(runtime),
            Err(error) => found.passed_over.push((socket, error)),
        }
    }
    match found.passed_over.pop() {
        Some((socket, error)) if found.runtimes.is_empty() => Err(DetectError::Unusable { socket, error }),
        None if found.runtimes.is_empty() => {
            let names = names(file).into_iter().map(str::to_owned).collect();
            Err(DetectError::NoSocket { directory: directory.to_owned(), names })
        }
        last => {
            found.passed_over.extend(last);
            Ok(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_named_socket_counts_alone_and_others_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let error = detect(root, Some("other.sock"), &Calls::default()).await.unwrap_err().to_string();
        let place = root.display();
        assert_eq!(error, format!("not found container runtime sock: {place} has none of other.sock"));
        let error = detect(root, None, &Calls::default()).await.unwrap_err().to_string();
        assert!(error.contains("containerd.sock, containerd/containerd.sock, crio.sock"), "{error}");
        std::fs::create_dir(root.join("containerd")).unwrap();
        for name in ["crio.sock", "containerd/containerd.sock"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let named = |file| sockets(root, file).len();
        assert_eq!((named(None), named(Some("crio.sock")), named(Some("other.sock"))), (2, 1, 0));
        assert_eq!(sockets(root, None).first(), Some(&root.join("containerd/containerd.sock")));
        let error = detect(root, None, &Calls::default()).await.unwrap_err();
        assert!(error.to_string().contains("crio.sock"), "{error}");
    }
}
