use admission::rotation::{DEFAULT_RENEW_BEFORE, Observation, Timing, UPTAKE, next};

use super::*;

const NAME: &str = "kruise-webhook-service.kruise-system.svc";

fn now() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn created() -> Material {
    carry_out(&Step::Create { bundle: vec![] }, &Material::default(), &[], NAME, now()).unwrap()
}

const TIMING: Timing = Timing { renew_before: DEFAULT_RENEW_BEFORE, uptake: UPTAKE };

fn next_step(material: &Material, published: bool) -> Step {
    let stored = material.facts(NAME);
    let published = published.then(|| now() - UPTAKE);
    let observation =
        Observation { stored: Some(&stored), remembered: None, served: None, authorities: &[], published };
    next(&observation, TIMING, now())
}

#[test]
fn what_is_created_is_sound_and_stays() {
    let material = created();
    let facts = material.facts(NAME);
    let leaf = facts.leaf.unwrap();
    assert!(facts.can_sign && leaf.fits);
    assert_eq!(leaf.issuer, facts.authorities.first().copied());
    assert_eq!(leaf.not_before, facts.authorities[0].not_before);
    assert_eq!(next_step(&material, true), Step::Keep);
    assert!(material.key.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
    assert!(material.authority_key.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
}

#[test]
fn names_and_usages_are_those_of_the_specification() {
    let material = created();
    let chain = certificates(&material.certificate);
    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    assert_eq!(leaf.subject().to_string(), format!("CN={NAME}"));
    assert_eq!(leaf.issuer().to_string(), "CN=webhook-cert-ca");
    assert!(leaf.extended_key_usage().unwrap().unwrap().value.server_auth);
    let bundle = certificates(&material.authorities);
    let (_, authority) = X509Certificate::from_der(&bundle[0]).unwrap();
    let usage = authority.key_usage().unwrap().unwrap().value;
    assert!(
        authority.is_ca() && usage.key_cert_sign() && usage.digital_signature() && usage.key_encipherment()
    );
    for name in ["localhost", NAME] {
        assert!(material.facts(name).leaf.unwrap().fits, "{name}");
    }
    assert!(!material.facts("other.svc").leaf.unwrap().fits);
}

#[test]
fn scenario_5_an_address_is_an_address_name() {
    let material =
        carry_out(&Step::Create { bundle: vec![] }, &Material::default(), &[], "10.0.0.5", now()).unwrap();
    assert!(material.facts("10.0.0.5").leaf.unwrap().fits);
    assert!(material.facts("localhost").leaf.unwrap().fits);
}

#[test]
fn rotation_overlaps_authorities() {
    let old = created();
    let id = old.facts(NAME).authorities[0].id;
    let known = certificates(&old.authorities);
    let during = carry_out(&Step::AddAuthority { bundle: vec![id] }, &old, &known, NAME, now()).unwrap();
    let facts = during.facts(NAME);
    assert!(facts.can_sign);
    assert_eq!(facts.authorities.len(), 2);
    assert_eq!(facts.leaf.unwrap().issuer.unwrap().id, id);
    assert_eq!(next_step(&during, false), Step::AwaitPublication);
    let after = carry_out(&next_step(&during, true), &during, &known, NAME, now()).unwrap();
    assert_eq!(after.authorities, during.authorities);
    let facts = after.facts(NAME);
    assert_eq!(facts.leaf.unwrap().issuer, facts.authorities.first().copied());
    assert_eq!(next_step(&after, true), Step::Keep);
}

#[test]
fn a_key_of_another_certificate_does_not_fit() {
    let (one, two) = (created(), created());
    let mixed = Material { key: two.key, authority_key: two.authority_key, ..one };
    let facts = mixed.facts(NAME);
    assert!(!facts.can_sign && !facts.leaf.unwrap().fits);
}

#[test]
fn unreadable_text_counts_as_missing() {
    let broken = Material {
        authorities: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        authority_key: "x".to_owned(),
        certificate: "x".to_owned(),
        key: "x".to_owned(),
        ..Material::default()
    };
    assert_eq!(broken.facts(NAME), Stored { authorities: vec![], can_sign: false, leaf: None });
    assert!(broken.certified_key().is_err());
}

#[test]
fn keys_never_appear_in_debug_output() {
    assert!(!format!("{:?}", created()).contains("PRIVATE KEY"));
}

#[test]
fn own_authorities_are_distinguished_from_others() {
    let material = created();
    assert_eq!(own_authorities(&STANDARD.encode(&material.authorities)).len(), 1);
    assert!(own_authorities(&STANDARD.encode(&material.certificate)).is_empty());
    assert!(own_authorities("Cg==").is_empty() && own_authorities("%").is_empty());
}

/// OpenKruise's own material: PKCS#1 keys, a PrintableString name, no key identifiers on the leaf.
#[test]
fn an_authority_made_by_other_tools_signs_our_leaf() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let status =
            std::process::Command::new("openssl").args(arguments).current_dir(&directory).output().unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    };
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    run(&["genrsa", "-traditional", "-out", "ca.key", "2048"]);
    run(&[
        "req",
        "-x509",
        "-key",
        "ca.key",
        "-subj",
        "/CN=webhook-cert-ca",
        "-days",
        "3650",
        "-out",
        "ca.crt",
        "-addext",
        "subjectAltName=DNS:webhook-cert-ca",
        "-addext",
        "keyUsage=keyEncipherment,digitalSignature,keyCertSign",
    ]);
    run(&["genrsa", "-traditional", "-out", "leaf.key", "2048"]);
    run(&["req", "-new", "-key", "leaf.key", "-subj", &format!("/CN={NAME}"), "-out", "leaf.csr"]);
    std::fs::write(
        directory.path().join("extensions"),
        format!("subjectAltName=DNS:localhost,DNS:{NAME}\nextendedKeyUsage=serverAuth\n"),
    )
    .unwrap();
    run(&[
        "x509",
        "-req",
        "-in",
        "leaf.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "3650",
        "-extfile",
        "extensions",
        "-out",
        "leaf.crt",
    ]);
    let adopted = Material {
        authorities: read("ca.crt"),
        authority_key: read("ca.key"),
        certificate: read("leaf.crt"),
        key: read("leaf.key"),
        ..Material::default()
    };
    assert!(adopted.authority_key.contains("BEGIN RSA PRIVATE KEY"));
    let facts = adopted.facts(NAME);
    assert!(facts.can_sign && facts.leaf.is_some_and(|leaf| leaf.fits && leaf.issuer.is_some()));
    let stored = Observation {
        stored: Some(&facts),
        remembered: None,
        served: None,
        authorities: &[],
        published: Some(now()),
    };
    let today =
        authority(&certificates(&adopted.authorities)[0]).unwrap().not_before + SignedDuration::from_hours(1);
    assert_eq!(next(&stored, TIMING, today), Step::Keep);

    let renewed = carry_out(&Step::SignLeaf, &adopted, &[], NAME, today).unwrap();
    assert_eq!(renewed.authorities, adopted.authorities);
    let leaf = renewed.facts(NAME).leaf.unwrap();
    assert!(leaf.fits && leaf.issuer.is_some() && leaf.id != facts.leaf.unwrap().id);
    // The other program must be able to take the renewed material back.
    std::fs::write(directory.path().join("renewed.crt"), &renewed.certificate).unwrap();
    std::fs::write(directory.path().join("renewed.key"), &renewed.key).unwrap();
    run(&["verify", "-CAfile", "ca.crt", "renewed.crt"]);
    run(&["rsa", "-in", "renewed.key", "-check", "-noout"]);
}
