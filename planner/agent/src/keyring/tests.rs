use super::*;
use proptest::prelude::*;
use serde_json::json;

fn secret(kind: &str, key: &str, value: &str) -> String {
    json!({"type": kind, "data": {key: STANDARD.encode(value)}}).to_string()
}

fn keyring(auths: &serde_json::Value) -> Keyring {
    let value = json!({"auths": auths}).to_string();
    Keyring::of_secret(&secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &value)).unwrap()
}

fn users<'k>(keyring: &'k Keyring, image: &str) -> Vec<&'k str> {
    keyring.candidates(image).into_iter().map(|found| found.username.as_str()).collect()
}

#[test]
fn the_longest_path_comes_first_and_hosts_are_compared_part_by_part() {
    let keyring = keyring(&json!({
        "reg.example.com": {"username": "host", "password": "p"},
        "https://reg.example.com/v2/team/": {"username": "team"},
        "*.example.com": {"username": "any"},
        "reg.example.com:5000": {"username": "port"},
        "http://reg.example.com/v1/": {"username": "old"},
        "other.example.com/": {"username": "other"},
    }));
    assert_eq!(users(&keyring, "reg.example.com/team/app:1"), ["team", "old", "host", "any"]);
    assert_eq!(users(&keyring, "reg.example.com/app"), ["old", "host", "any"]);
    assert_eq!(users(&keyring, "reg.example.com:5000/app"), ["port"]);
    assert_eq!(users(&keyring, "other.example.com/app"), ["other", "any"]);
    assert!(users(&keyring, "a.b.example.com/app").is_empty());
}

#[test]
fn the_usual_registry_has_a_key_of_its_own_that_serves_where_no_other_fits() {
    let old = json!({"https://index.docker.io/v1/": {"username": "index"}});
    assert_eq!(users(&keyring(&old), "nginx:1"), ["index"]);
    assert_eq!(users(&keyring(&old), "docker.io/team/app"), ["index"]);
    assert!(users(&keyring(&old), "reg.example.com/nginx").is_empty());
    let both = json!({"index.docker.io": {"username": "index"}, "docker.io": {"username": "host"}});
    assert_eq!(users(&keyring(&both), "nginx"), ["host"]);
}

#[test]
fn several_secrets_are_tried_in_their_order() {
    let mut all = keyring(&json!({"reg:5000": {"username": "wrong"}}));
    all.add(&keyring(&json!({"reg:5000": {"username": "right"}})));
    assert_eq!(users(&all, "reg:5000/app"), ["wrong", "right"]);
}

#[test]
fn the_field_auth_replaces_name_and_password() {
    for auth in ["dTpwOng=", "dTpwOng"] {
        let keyring = keyring(&json!({"reg:5000": {"username": "x", "password": "y", "auth": auth}}));
        let found = keyring.candidates("reg:5000/app");
        assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("u", "p:x"));
        assert!(!format!("{keyring:?}").contains("p:x"), "passwords are not printed");
    }
}

#[test]
fn the_older_form_has_no_auths_and_what_is_odd_is_useless_or_an_error() {
    let old = |value: &str| Keyring::of_secret(&secret("kubernetes.io/dockercfg", ".dockercfg", value));
    let plain = old(r#"{"reg:5000":{"username":"u","email":"e"}}"#).unwrap();
    assert_eq!(users(&plain, "reg:5000/app"), ["u"]);
    let confused = old(r#"{"auths":{"reg:5000":{"username":"u"}}}"#).unwrap();
    assert!(users(&confused, "reg:5000/app").is_empty());
    assert!(users(&old(r#"{"a":null}"#).unwrap(), "reg:5000/app").is_empty());
    for (value, error) in [
        ("{", SecretError::Configuration),
        (r#"{"a":1}"#, SecretError::Configuration),
        (r#"{"a":{"username":1}}"#, SecretError::Configuration),
        (r#"{"a":{"auth":"???"}}"#, SecretError::Auth),
        (r#"{"a":{"auth":"dQ=="}}"#, SecretError::Auth),
    ] {
        assert_eq!(old(value), Err(error), "{value}");
    }
    assert_eq!(Keyring::of_secret(r#"{"type":"Opaque","data":{"a":"?"}}"#), Ok(Keyring::default()));
    assert_eq!(Keyring::of_secret(r#"{"type":"kubernetes.io/dockercfg"}"#), Ok(Keyring::default()));
}

#[test]
fn no_name_of_a_secret_leads_to_another_path() {
    let secret = |namespace: &str, name: &str| PullSecret {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..PullSecret::default()
    };
    assert!(may_exist(&secret("kruise-daemon-config", "pull.secret-1")));
    for (namespace, name) in [("", "a"), ("a", ""), ("a", "../b"), ("a/b", "c"), ("a", "b?c"), ("a.b", "c")] {
        assert!(!may_exist(&secret(namespace, name)), "{namespace} {name}");
    }
}

proptest! {
    #[test]
    fn no_image_and_no_registry_stops_the_agent(registry in ".{0,40}", image in ".{0,40}") {
        let keyring = keyring(&json!({registry: {"username": "u"}}));
        keyring.candidates(&image);
    }

    #[test]
    fn a_registry_serves_its_images(host in "[a-z]{1,5}(\\.[a-z]{1,5}){1,3}", path in "[a-z]{1,5}(/[a-z]{1,5}){0,3}") {
        let keyring = keyring(&json!({host.clone(): {"username": "u"}}));
        prop_assert_eq!(keyring.candidates(&format!("{host}/{path}:1")).len(), 1);
    }
}
