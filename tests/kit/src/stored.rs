//! What API servers start with: a copy of the data of one that was started before. The rules and roles that every
//! API server makes, and CRDs, take most of the time of a start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{ApiServer, Options, binaries};

/// Puts the data of an API server that stores `objects` into the directory of one that is to start.
pub(crate) async fn put_into(directory: &Path, objects: &[Value]) {
    let data = data_with(objects).await;
    copy(&data, &directory.join("etcd"));
}

/// The data of an API server that stores `objects`, which is made once for all processes.
async fn data_with(objects: &[Value]) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster/bin/stored");
    fs::create_dir_all(&all).expect("a directory for the data can be made");
    let name = digest(objects);
    let data = all.join(&name);
    let lock = File::create(all.join(format!("{name}.lock"))).expect("a lock file can be created");
    lock.lock().expect("the lock file can be locked");
    if !data.exists() {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let server = ApiServer::launch(directory.path(), Options::default()).await;
        server.apply(objects).await;
        server.stop_storing();
        let copied = tempfile::tempdir_in(&all).expect("a temporary directory can be created");
        copy(&directory.path().join("etcd"), copied.path());
        fs::rename(copied.keep(), &data).expect("the data can be renamed");
    }
    data
}

/// What the data depends on.
fn digest(objects: &[Value]) -> String {
    let program = binaries::path("kube-apiserver");
    let file = fs::metadata(&program).expect("kube-apiserver is there");
    let program = (program, file.len(), file.modified().expect("Linux knows the time"));
    let mut hash = Sha256::new();
    hash.update(format!("{program:?}"));
    hash.update(Value::from(objects).to_string());
    crate::hex(&hash.finalize())
}

/// Most of a log of etcd is reserved, and empty: that takes no room in the copy.
fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.args(["-r", "--sparse=always", "--no-target-directory"]).arg(from).arg(to);
    assert!(command.status().is_ok_and(|status| status.success()), "{} can be copied", from.display());
}
