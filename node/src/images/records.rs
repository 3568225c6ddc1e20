//! Which images not everybody has, also after the agent has started again
//! (docs/behaviour/node-agent.md#record-of-private-images).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::pull::Present;
use agent::pull_groups::{Private, PullGroup};
use cri::messages::Image;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tracing::warn;

#[cfg(test)]
mod tests;

/// The file in the directory of the agent.
const FILE: &str = "private-images.json";

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct Record {
    /// The IDs of images that came with Secrets.
    images: BTreeSet<String>,
    /// The names of images that were asked for with Secrets, where it is not known what came of it.
    names: BTreeSet<String>,
    /// An earlier record can't be read: all images that are there may have come with Secrets.
    lost: bool,
}

#[derive(Debug, Default)]
struct State {
    /// With which Secrets images came, as far as this process knows.
    private: Private,
    /// As in the record.
    names: BTreeSet<String>,
    /// As in the record.
    lost: bool,
    /// The names that are being pulled with Secrets.
    open: BTreeSet<String>,
}

impl State {
    fn record(&self) -> Record {
        let images = self.private.ids().map(str::to_owned).collect();
        Record { images, names: self.names.clone(), lost: self.lost }
    }
}

/// Where the record is.
#[derive(Debug, Default)]
struct Store {
    /// Absent where nothing is to be written.
    path: Option<PathBuf>,
    written: Record,
}

/// The images of the node that not everybody has.
#[derive(Debug, Default)]
pub struct Records {
    state: Mutex<State>,
    store: Arc<tokio::sync::Mutex<Store>>,
}

impl Records {
    /// Those of this directory, which is made where it is missing.
    ///
    /// # Errors
    /// The directory can't be made, or the record in it not be read.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join(FILE);
        let written = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                warn!(file = %path.display(), %error, "the record of private images is lost: all images count as private");
                Record { lost: true, ..Record::default() }
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error),
        };
        let mut state = State { names: written.names.clone(), lost: written.lost, ..State::default() };
        written.images.iter().for_each(|id| state.private.came_with_some(id));
        let store = Store { path: Some(path), written };
        Ok(Self { state: Mutex::new(state), store: Arc::new(tokio::sync::Mutex::new(store)) })
    }

    // Held for single operations only, never over an await.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether not everybody has an image that is there.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.lock().private.knows(id)
    }

    /// Whether an image came with a Secret of a party.
    pub(super) fn admits(&self, id: &str, pull_group: &PullGroup) -> bool {
        self.lock().private.admits(id, pull_group)
    }

    /// Takes in which images are there.
    pub(super) fn see(&self, images: &[Image]) {
        let mut state = self.lock();
        let State { private, names, lost, open } = &mut *state;
        let all = std::mem::take(lost);
        let unclear: Vec<String> = names.extract_if(.., |name| !open.contains(name)).collect();
        let came = images.iter().filter(|image| all || unclear.iter().any(|name| is_called(image, name)));
        came.for_each(|image| private.came_with_some(&image.id));
        private.keep(|id| images.iter().any(|image| image.id == id));
    }

    /// Writes down that an image is about to be pulled with Secrets.
    pub(super) async fn begin<'r>(&'r self, name: &'r str) -> Result<Begun<'r>, String> {
        let is_clear = {
            let mut state = self.lock();
            state.open.insert(name.to_owned());
            state.names.insert(name.to_owned())
        };
        let begun = Begun { records: self, name, is_clear };
        match self.save().await {
            Ok(()) => Ok(begun),
            Err(error) => {
                begun.failed();
                Err(error)
            }
        }
    }

    /// Takes in that an image came without Secrets: everybody can have it.
    pub(super) fn is_public(&self, id: &str) {
        self.lock().private.is_public(id);
    }

    /// Writes the record where it has changed.
    async fn save(&self) -> Result<(), String> {
        let mut store = self.store.clone().lock_owned().await;
        let record = self.lock().record();
        if store.path.is_none() || store.written == record {
            return Ok(());
        }
        // It is written to its end, and nothing else meanwhile, also where the caller goes away.
        let written =
            spawn_blocking(move || store.write(record)).await.unwrap_or_else(|error| Err(error.into()));
        written.map_err(|error| format!("the record of private images can't be written: {error}"))
    }
}

impl Store {
    fn write(&mut self, record: Record) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.written = record;
        Ok(())
    }
}

/// A pull with Secrets that continues. Where it is dropped, it is not known what came of it.
pub(super) struct Begun<'r> {
    records: &'r Records,
    name: &'r str,
    /// What came of an earlier one of this name is known.
    is_clear: bool,
}

impl Begun<'_> {
    /// The image came with the Secrets of a party.
    pub(super) async fn came(self, id: Option<&str>, pull_group: &PullGroup) -> Result<(), String> {
        // An image that is not listed yet may be listed later.
        if let Some(id) = id {
            let mut state = self.records.lock();
            state.private.came(id, pull_group);
            state.names.remove(self.name);
        }
        self.records.save().await
    }

    /// It did not come.
    pub(super) fn failed(self) {
        if self.is_clear {
            self.records.lock().names.remove(self.name);
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.records.lock().open.remove(self.name);
    }
}

/// Whether this is the image of that name.
pub(super) fn is_called(image: &Image, name: &str) -> bool {
    Present { tags: &image.repo_tags, digests: &image.repo_digests }.is(name)
}
