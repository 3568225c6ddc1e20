//! Credential providers with real programs.

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Configures a provider of this directory, whose program is this script for a shell.
pub(in super::super) fn configure(directory: &TempDir, script: &str) {
    // The program is the shell itself: a file that was written a moment ago may not be run yet.
    std::os::unix::fs::symlink("/bin/sh", directory.path().join("plugin")).unwrap();
    let file = directory.path().join("config.yaml");
    let provider = json!({"name": "plugin", "matchImages": ["reg:5000"], "defaultCacheDuration": "1h",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "args": ["-c", script],
        "env": [{"name": "DIRECTORY", "value": directory.path()}, {"name": "PASSWORD", "value": "secret"}]});
    let configuration = json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
        "providers": [provider]});
    std::fs::write(&file, configuration.to_string()).unwrap();
}

async fn providers(directory: &TempDir, script: &str) -> Providers {
    configure(directory, script);
    Providers::read(&directory.path().join("config.yaml"), directory.path()).await
}

/// Answers with what it finds in its environment, and remembers what it was asked.
pub(in super::super) const SCRIPT: &str = r#"cat >> "$DIRECTORY/asked"; echo >> "$DIRECTORY/asked"; echo complaint >&2
    echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
    "cacheKeyType": "Registry", "auth": {"reg:5000": {"username": "u", "password": "'"$PASSWORD"'"}}}'"#;

fn passwords((keyring, errors): &(Keyring, Vec<String>)) -> Vec<String> {
    assert!(errors.is_empty(), "{errors:?}");
    keyring.candidates("reg:5000/app").iter().map(|found| found.password.clone()).collect()
}

#[tokio::test]
async fn a_program_is_asked_once_for_all_images_of_its_registry() {
    let directory = TempDir::new().unwrap();
    let providers = providers(&directory, SCRIPT).await;
    let (one, two) = tokio::join!(providers.keyring("reg:5000/app:1"), providers.keyring("reg:5000/other"));
    assert_eq!((passwords(&one), passwords(&two)), (vec!["secret".to_owned()], vec!["secret".to_owned()]));
    let asked = || std::fs::read_to_string(directory.path().join("asked")).unwrap();
    let request: serde_json::Value = serde_json::from_str(&asked()).unwrap();
    assert_eq!((&request["image"], asked().lines().count()), (&json!("reg:5000/app"), 1));
    assert!(passwords(&providers.keyring("elsewhere/app").await).is_empty());
    providers.forget("reg:5000/app:1").await;
    passwords(&providers.keyring("reg:5000/app:1").await);
    assert_eq!(asked().lines().count(), 2, "what was not believed is asked for again");
}

#[tokio::test]
async fn a_program_that_fails_gives_no_credentials_and_says_why() {
    for (script, reason) in [
        ("cat; echo password >&2; exit 3", "exit status: 3"),
        ("echo nothing", "the answer is no CredentialProviderResponse"),
        ("yes", "the answer is longer than 65536 bytes"),
        // Complaints without an end don't fill the memory, nor do they stop the program.
        ("head -c 200000 /dev/zero >&2; exit 4", "exit status: 4"),
    ] {
        let directory = TempDir::new().unwrap();
        let (keyring, errors) = providers(&directory, script).await.keyring("reg:5000/app").await;
        assert_eq!(
            (keyring, errors),
            (Keyring::default(), vec![format!("credential provider plugin: {reason}")])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_hangs_is_given_up() {
    let directory = TempDir::new().unwrap();
    let providers = providers(&directory, "exec sleep 3600").await;
    let (_, errors) = providers.keyring("reg:5000/app").await;
    assert_eq!(errors, ["credential provider plugin: no answer in 60s"]);
}

#[tokio::test]
async fn without_a_configuration_that_can_be_used_nobody_is_asked() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.yaml");
    assert!(Providers::read(&file, directory.path()).await.0.is_empty(), "there is no file");
    std::fs::write(&file, "kind: Other").unwrap();
    assert!(Providers::read(&file, directory.path()).await.0.is_empty());
    std::fs::remove_file(&file).unwrap();
    let missing = directory.path().join("plugin");
    let providers = providers(&directory, "").await;
    std::fs::remove_file(missing).unwrap();
    let (_, errors) = providers.keyring("reg:5000/app").await;
    assert!(errors[0].starts_with("credential provider plugin: No such file"), "{errors:?}");
}
