//! What the API server refuses, and what it warns of.

use serde_json::json;

use super::{Fleet, with_claim};
use crate::support::{Shop, create, message};

/// The schema says nothing of claim templates.
#[tokio::test]
async fn a_mistyped_claim_template_is_refused_with_its_place() {
    let server = super::asked().await;
    let shop = Shop::open_on(server, "cloneset-mistyped").await;
    for version in ["v1alpha1", "v1beta1"] {
        let sound = with_claim(super::clone_set(&shop, version)).build();
        for (field, value, code, place) in [
            ("/spec/accessModes", json!("ReadWriteOnce"), 400, "[0].spec.accessModes"),
            ("/spec/resources/requests/storage", json!("10 Gi"), 400, "[0].spec.resources.requests.storage"),
            ("/metadata/name", json!(null), 422, "volumes[0].name: Required value"),
        ] {
            let mut set = sound.clone();
            *set["spec"]["volumeClaimTemplates"][0].pointer_mut(field).unwrap() = value;
            let answer = create(&shop.client, set, "?dryRun=All").await;
            assert!(answer.0 == code && message(&answer).contains(place), "{version}: {answer:#?}");
        }
        let (code, answer) = create(&shop.client, sound, "?dryRun=All").await;
        assert_eq!(code, 201, "{answer:#}");
    }
}

/// docs/behaviour/deletion-protection.md#warnings.
#[tokio::test]
async fn a_protection_that_means_nothing_is_warned_of() {
    let fleet = Fleet::launch("cloneset-warned", |set| set.replicas(1)).await;
    let server = super::asked().await;
    let label = "policy.kruise.io/delete-protection=always";
    let namespace = &fleet.shop.namespace;
    let reported = server.kubectl(["label", "cloneset", "web", "-n", namespace, label]).await;
    assert!(reported.stderr.contains("protects nothing"), "{}", reported.stderr);
}
