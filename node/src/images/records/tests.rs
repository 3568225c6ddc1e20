use std::os::unix::fs::{MetadataExt, symlink};

use agent::pull_groups::pull_groups;
use tempfile::TempDir;

use super::*;

fn image(name: &str, id: &str) -> Image {
    Image { id: id.to_owned(), repo_tags: vec![name.to_owned()], ..Image::default() }
}

fn nobody() -> PullGroup {
    pull_groups(&[], &[]).remove(0)
}

#[tokio::test]
async fn an_image_that_came_with_secrets_stays_private_until_it_comes_without_or_goes() {
    let directory = TempDir::new().unwrap();
    let open = || Records::open(directory.path()).unwrap();
    let records = open();
    for (name, id) in [("a:1", "1"), ("b:1", "2"), ("c:1", "3")] {
        records.begin(name).await.unwrap().came(Some(id), &nobody()).await.unwrap();
    }
    let knows = |records: &Records| ["1", "2", "3"].map(|id| records.knows(id));
    assert_eq!(knows(&open()), [true; 3]);
    assert_eq!(fs::metadata(directory.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    records.is_public("1");
    records.see(&[image("a:1", "1"), image("b:1", "2")]);
    assert_eq!(knows(&records), [false, true, false]);
    records.save().await.unwrap();
    assert_eq!(knows(&open()), [false, true, false]);
}

#[tokio::test]
async fn a_pull_without_an_end_leaves_its_image_private() {
    let directory = TempDir::new().unwrap();
    let open = || Records::open(directory.path()).unwrap();
    let there = [image("a:1", "1"), image("b:1", "2")];
    let (records, first) = (open(), open());
    // An agent that is killed in the middle, and a pull that is cancelled.
    let begun = first.begin("a:1").await.unwrap();
    let next = open();
    next.see(&there);
    assert!(next.knows("1") && !next.knows("2"));
    first.see(&there);
    assert!(!first.knows("1"), "its end will tell");
    drop(begun);
    first.see(&there);
    assert!(first.knows("1"));
    // One that fails leaves what is there as it was.
    records.begin("b:1").await.unwrap().failed();
    records.see(&there);
    assert!(!records.knows("2"));
    drop(records.begin("b:1").await.unwrap());
    records.begin("b:1").await.unwrap().failed();
    records.see(&there);
    assert!(records.knows("2"), "the one before may have brought it");
}

#[tokio::test]
async fn a_record_that_is_lost_makes_all_images_private() {
    let directory = TempDir::new().unwrap();
    let open = || Records::open(directory.path()).unwrap();
    fs::write(directory.path().join(FILE), "{").unwrap();
    drop(open().begin("a:1").await.unwrap());
    let records = open();
    records.see(&[image("b:1", "2")]);
    records.see(&[image("b:1", "2"), image("c:1", "3")]);
    assert!(records.knows("2") && !records.knows("3"), "later ones are known");
    fs::remove_file(directory.path().join(FILE)).unwrap();
    assert!(!open().knows("2"));
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_pulled() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("state");
    let records = Records::open(&place).unwrap();
    fs::remove_dir(&place).unwrap();
    let refused = records.begin("a:1").await.err().unwrap();
    assert!(refused.starts_with("the record of private images can't be written: "), "{refused}");
    records.see(&[image("a:1", "1")]);
    assert!(!records.knows("1"), "nothing was begun");
    fs::create_dir(&place).unwrap();
    records.begin("a:1").await.unwrap();
    // A directory that leads nowhere.
    symlink("none", directory.path().join("broken")).unwrap();
    assert!(Records::open(&directory.path().join("broken")).is_err());
    // Without a directory it counts as long as the process runs.
    let records = Records::default();
    records.begin("a:1").await.unwrap().came(Some("1"), &nobody()).await.unwrap();
    assert!(records.knows("1"));
}
