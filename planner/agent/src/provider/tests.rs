use super::*;
use serde_json::Value;

const PROTOCOL: &str = "credentialprovider.kubelet.k8s.io/v1";

fn entry() -> Value {
    json!({"name": "ecr", "matchImages": ["*.dkr.ecr.*.amazonaws.com", "reg:5000/team"],
        "defaultCacheDuration": "12h", "apiVersion": PROTOCOL})
}

fn configuration(providers: &[Value]) -> String {
    json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": providers})
        .to_string()
}

fn provider() -> Provider {
    parse(&configuration(&[entry()])).unwrap().remove(0)
}

fn answer(scope: &str, kept: Option<&str>) -> Value {
    json!({"apiVersion": PROTOCOL, "kind": "CredentialProviderResponse", "cacheKeyType": scope,
        "cacheDuration": kept, "auth": {"reg:5000": {"username": "u", "password": "p"}}})
}

fn read(answer: &Value) -> Result<Answer, AnswerError> {
    provider().answer("reg:5000/team/app:1", answer.to_string().as_bytes())
}

#[test]
fn the_configuration_of_the_kubelet_is_understood() {
    let yaml = r#"
apiVersion: kubelet.config.k8s.io/v1beta1
kind: CredentialProviderConfig
providers:
- name: ecr-credential-provider
  matchImages:
  - "*.dkr.ecr.*.amazonaws.com"
  defaultCacheDuration: "12h"
  apiVersion: credentialprovider.kubelet.k8s.io/v1alpha1
  args:
  - get-credentials
  - --v=3
  env:
  - name: AWS_PROFILE
    value: nodes
- name: of-accounts
  matchImages: [registry.io]
  defaultCacheDuration: "0s"
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token}
"#;
    let providers = parse(yaml).unwrap();
    let [first, second] = providers.as_slice() else { panic!("{providers:?}") };
    assert_eq!(first.arguments, ["get-credentials", "--v=3"]);
    assert_eq!(first.environment, [("AWS_PROFILE".to_owned(), "nodes".to_owned())]);
    assert_eq!((first.needs_account, second.needs_account), (false, true));
    assert_eq!(parse(&configuration(&[])), Ok(Vec::new()));
}

#[test]
fn a_configuration_with_a_fault_is_not_used() {
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("..")),
        ("name", json!("../sh")),
        ("name", json!("a b")),
        ("apiVersion", json!("v1")),
        ("matchImages", json!([])),
        ("matchImages", Value::Null),
        ("defaultCacheDuration", Value::Null),
        ("defaultCacheDuration", json!("-1h")),
    ] {
        let mut entry = entry();
        entry[field] = value;
        let error = parse(&configuration(&[entry])).unwrap_err();
        assert!(matches!(error, ConfigurationError::Provider { .. }), "{field}: {error}");
    }
    let error = parse(&configuration(&[entry(), entry()])).unwrap_err();
    assert_eq!(error.to_string(), r#"provider "ecr": there are two of this name"#);
    let other = configuration(&[entry()]).replace("CredentialProviderConfig", "KubeletConfiguration");
    assert!(matches!(parse(&other), Err(ConfigurationError::Kind(_))));
    assert!(matches!(parse("{"), Err(ConfigurationError::Syntax(_))));
}

#[test]
fn a_provider_is_asked_for_images_that_match() {
    let provider = provider();
    for (image, serves) in [
        ("1.dkr.ecr.us-east-1.amazonaws.com/app:1", true),
        ("dkr.ecr.us-east-1.amazonaws.com/app", false),
        ("reg:5000/team/app@sha256:0a", true),
        ("reg:5000/other/app", false),
        ("reg/team/app", false),
        ("nginx", false),
    ] {
        assert_eq!(provider.serves(image), serves, "{image}");
    }
    let request: Value = serde_json::from_str(&provider.request("nginx:1")).unwrap();
    let expected = json!({"apiVersion": PROTOCOL, "kind": "CredentialProviderRequest", "image": "docker.io/library/nginx"});
    assert_eq!(request, expected, "an image is named without its tag");
}

#[test]
fn an_answer_has_credentials_and_is_of_the_form_that_was_asked_for() {
    let found = read(&answer("Image", None)).unwrap().keyring;
    let users: Vec<&str> = found.candidates("reg:5000/x").iter().map(|user| user.username.as_str()).collect();
    assert_eq!(users, ["u"]);
    let mut empty = answer("Global", Some("1h"));
    empty["auth"] = Value::Null;
    assert!(read(&empty).unwrap().keyring.candidates("reg:5000/x").is_empty());
    for (field, value, error) in [
        ("kind", json!("Secret"), AnswerError::Form),
        ("auth", json!({"reg": "u:p"}), AnswerError::Form),
        ("apiVersion", json!("credentialprovider.kubelet.k8s.io/v1beta1"), AnswerError::Version),
        ("cacheKeyType", json!("Pod"), AnswerError::Scope),
        ("cacheDuration", json!("soon"), AnswerError::Duration),
    ] {
        let mut answer = answer("Image", None);
        answer[field] = value;
        assert_eq!(read(&answer).unwrap_err(), error, "{field}");
    }
    assert_eq!(provider().answer("reg:5000/app", b"").unwrap_err(), AnswerError::Form);
}

#[test]
fn an_answer_counts_for_its_scope_and_its_time() {
    let (start, hour) = (Duration::ZERO, Duration::from_secs(3600));
    let images = ["reg:5000/team/app:2", "reg:5000/team/other", "elsewhere/app"];
    for (scope, kept, after, known) in [
        ("Image", None, hour * 11, [true, false, false]),
        ("Image", None, hour * 12, [false; 3]),
        ("Registry", Some("30m"), hour / 4, [true, true, false]),
        ("Registry", Some("30m"), hour, [false; 3]),
        ("Global", Some("1h30m"), hour, [true; 3]),
        ("Global", Some("0s"), Duration::ZERO, [false; 3]),
    ] {
        let mut answers = Answers::default();
        answers.keep(&read(&answer(scope, kept)).unwrap(), start);
        let found = images.map(|image| answers.get(image, start + after).is_some());
        assert_eq!(found, known, "{scope} {kept:?} after {after:?}");
        answers.forget(images[0]);
        assert!(answers.get(images[0], start).is_none());
    }
}

#[test]
fn answers_need_little_memory_and_the_narrowest_one_counts() {
    let (now, mut answers, provider) = (Duration::ZERO, Answers::default(), provider());
    let all = answer("Global", None);
    answers.keep(&provider.answer("a/b", all.to_string().as_bytes()).unwrap(), now);
    for number in 0..300 {
        let mut one = answer("Image", None);
        one["auth"]["reg:5000"]["username"] = json!(number.to_string());
        let image = format!("reg:5000/{number}");
        answers.keep(&provider.answer(&image, one.to_string().as_bytes()).unwrap(), now);
    }
    assert_eq!(answers.0.len(), MOST_KEPT);
    let user = |answers: &mut Answers, image: &str| {
        answers.get(image, now).unwrap().candidates("reg:5000/x")[0].username.clone()
    };
    assert_eq!(user(&mut answers, "reg:5000/7"), "7");
    assert_eq!(user(&mut answers, "reg:5000/299"), "u");
}
