//! `kutter serve` as a contestant: the program, and where it answers reviews.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use benches::load;
use benches::process::{Core, Process};
use benches::program::Program;
use benches::review::Template;
use bytes::Bytes;
use serde_json::Value;

use crate::Run;

const START_DEADLINE: Duration = Duration::from_secs(120);

/// A running admission server.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
}

impl Product {
    /// Pinned to the server's core, with objects from files: the same admission code, and no watches
    /// in the figures.
    pub(crate) fn with_objects(
        run: &Run,
        directory: &Path,
        objects: impl IntoIterator<Item = Value>,
    ) -> Self {
        fs::create_dir_all(directory).expect("a folder can be made");
        let documents: Vec<String> = objects.into_iter().map(|object| object.to_string()).collect();
        fs::write(directory.join("objects.yaml"), documents.join("\n---\n")).expect("a file can be written");
        let (port, log) = (kit::api_server::free_port(), directory.with_extension("log"));
        Self::start(run, Core::Server, port, &log, ["--objects".as_ref(), directory.as_os_str()])
    }

    /// With a cluster; listens on `port`.
    pub(crate) fn with_cluster(run: &Run, core: Core, port: u16, kubeconfig: &Path, log: &Path) -> Self {
        Self::start(run, core, port, log, ["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
    }

    fn start(run: &Run, core: Core, port: u16, log: &Path, source: [&OsStr; 2]) -> Self {
        let further = ["--feature-gates=ResourcesDeletionProtection=true", "--legacy-paths"];
        let arguments = source.into_iter().chain(further.map(OsStr::new));
        let program = Program::serve(&run.kutter, core, port, log, arguments);
        Self { program, address: (Ipv4Addr::LOCALHOST, port).into() }
    }

    /// Sends the review again and again until the answer is as wanted.
    pub(crate) async fn wait_for_answer(
        &self,
        path: &str,
        review: Vec<u8>,
        wanted: impl Fn(&Bytes) -> bool,
    ) -> Bytes {
        let review = Template::new(review).fill(0);
        kit::wait_within(START_DEADLINE, "the answer of kutter", async || {
            self.program.assert_running();
            let answer = load::ask(self.address, path, review.clone()).await?;
            if wanted(&answer) { Ok(answer) } else { Err(String::from_utf8_lossy(&answer).into_owned()) }
        })
        .await
    }

    pub(crate) fn into_server(self) -> (Process, SocketAddr) {
        (self.program.into_process(), self.address)
    }
}
