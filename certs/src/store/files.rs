//! Certificates in files, replaced all at once by the swap of a symbolic link
//! (docs/behaviour/server.md#modes-of-certificates).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::material::Material;

const LINK: &str = "..data";
const NEW_LINK: &str = "..data_tmp";

/// The files' content; `None` unless all six exist.
pub(super) async fn read(directory: &Path) -> io::Result<Option<Material>> {
    let directory = directory.to_owned();
    blocking(move || {
        let mut texts = Vec::new();
        for (name, _) in super::fields(&Material::default()) {
            match fs::read(directory.join(name)) {
                Ok(bytes) => texts.push((name, String::from_utf8_lossy(&bytes).into_owned())),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let text = |wanted: &str| {
            let found = texts.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, text)| text.clone()).unwrap_or_default()
        };
        Ok(Some(Material {
            authorities: text("ca-cert.pem"),
            authority_key: text("ca-key.pem"),
            certificate: text("tls.crt"),
            key: text("tls.key"),
            segments: String::new(),
        }))
    })
    .await
}

/// Writes all files into a directory of their own and swaps the link to it. Only the owner may read.
pub(super) async fn write(directory: &Path, material: &Material) -> io::Result<()> {
    let (directory, material) = (directory.to_owned(), material.clone());
    blocking(move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let name = fresh_name(&directory);
        let target = directory.join(&name);
        DirBuilder::new().mode(0o700).create(&target)?;
        for (file, text) in super::fields(&material) {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(target.join(file))?;
            file.write_all(text.as_bytes())?;
        }
        let previous = fs::read_link(directory.join(LINK)).ok();
        remove(&directory.join(NEW_LINK))?;
        symlink(&name, directory.join(NEW_LINK))?;
        fs::rename(directory.join(NEW_LINK), directory.join(LINK))?;
        for (file, _) in super::fields(&material) {
            let (path, wanted) = (directory.join(file), Path::new(LINK).join(file));
            if fs::read_link(&path).ok().as_deref() != Some(&wanted) {
                remove(&path)?;
                symlink(&wanted, &path)?;
            }
        }
        match previous {
            // Only a name within the directory can be one of ours.
            Some(previous) if previous.components().count() == 1 && previous != Path::new(&name) => {
                fs::remove_dir_all(directory.join(previous))
            }
            _ => Ok(()),
        }
    })
    .await
}

fn fresh_name(directory: &Path) -> PathBuf {
    let stamp = jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    let mut name = PathBuf::from(&stamp);
    let mut number = 0;
    while directory.join(&name).exists() {
        number += 1;
        name = PathBuf::from(format!("{stamp}.{number}"));
    }
    name
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn material(text: &str) -> Material {
        Material {
            authorities: text.to_owned(),
            authority_key: text.to_owned(),
            certificate: text.to_owned(),
            key: text.to_owned(),
            segments: String::new(),
        }
    }

    #[tokio::test]
    async fn files_are_replaced_together_and_readable_by_the_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certs");
        assert_eq!(read(&path).await.unwrap(), None);
        for text in ["one", "two"] {
            write(&path, &material(text)).await.unwrap();
            assert_eq!(read(&path).await.unwrap(), Some(material(text)));
        }
        let mode = fs::metadata(path.join("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Six links, the link to the data, and one data directory: nothing old stays.
        assert_eq!(fs::read_dir(&path).unwrap().count(), 8);
    }

    #[tokio::test]
    async fn plain_files_give_way_and_a_missing_one_means_none() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tls.crt"), "plain").unwrap();
        assert_eq!(read(directory.path()).await.unwrap(), None);
        write(directory.path(), &material("new")).await.unwrap();
        assert_eq!(read(directory.path()).await.unwrap(), Some(material("new")));
    }
}
