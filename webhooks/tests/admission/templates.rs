//! Templates that the API server judges (docs/behaviour/pod-template.md#what-the-cluster-judges).

use std::time::Duration;

use informers::Lookup;
use kit::double::{api_server, silent, status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{ask, create_sidecar_set, sidecar_set, with_lookup};

const PATH: &str = "/validate-apps-kruise-io-cloneset";
const TRIES: &str = "POST /api/v1/namespaces/shop/podtemplates?dryRun=All ";

fn clone_set(image: &str) -> Value {
    let container = json!({"name": "main", "image": image, "imagePullPolicy": "Always", "terminationMessagePolicy": "File"});
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}}}})
}

fn write(object: &Value, old: Option<&Value>) -> Value {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    json!({"uid": "1", "operation": operation, "name": "web", "namespace": "shop", "object": object, "oldObject": old,
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "clonesets"}})
}

/// What the API server says to a PodTemplate in which these fields are invalid.
fn invalid(fields: &[(&str, &str)]) -> (u16, String) {
    let mut status: Value = serde_json::from_str(&status(422)).unwrap();
    let cause = |(field, message): &(&str, &str)| json!({"reason": "FieldValueInvalid", "field": field, "message": message});
    status["details"] = json!({"causes": fields.iter().map(cause).collect::<Vec<_>>()});
    (422, status.to_string())
}

#[tokio::test]
async fn what_the_api_server_refuses_is_refused_in_its_words_and_at_our_paths() {
    let (client, requests) = api_server(|_| {
        invalid(&[
            ("template.spec.dnsPolicy", "Unsupported value: \"X\""),
            ("template.spec.tolerations[0].operator", "Invalid value: \"\": no"),
        ])
    });
    let admission = with_lookup("", Lookup::cluster(client));
    let answer = ask(&admission, PATH, &write(&clone_set("a"), None)).await;
    let message = "[spec.template.spec.dnsPolicy: Unsupported value: \"X\", \
                   spec.template.spec.tolerations[0].operator: Invalid value: \"\": no]";
    assert_eq!(answer["status"], json!({"metadata": {}, "code": 422, "message": message}));
    let requests = requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0].starts_with(TRIES) && requests[0].contains(r#""kind":"PodTemplate""#),
        "{requests:?}"
    );
}

#[tokio::test]
async fn an_update_is_refused_for_what_it_makes_wrong() {
    let (client, requests) = api_server(|request| {
        let known = ("template.spec.dnsPolicy", "Invalid value: \"X\"");
        let is_worse = request.body.contains(r#""image":"worse""#);
        invalid(&[known, ("template.spec.hostname", "Invalid value: \"Y\"")][..1 + usize::from(is_worse)])
    });
    let admission = with_lookup("", Lookup::cluster(client));
    let old = clone_set("a");
    let mut scaled = old.clone();
    scaled["spec"]["replicas"] = json!(2);
    let answer = ask(&admission, PATH, &write(&scaled, Some(&old))).await;
    assert_eq!((&answer["allowed"], &answer["warnings"]), (&json!(true), &Value::Null));
    assert!(requests.lock().unwrap().is_empty(), "a template that stays is not tried");
    assert_eq!(ask(&admission, PATH, &write(&clone_set("b"), Some(&old))).await["allowed"], true);
    let answer = ask(&admission, PATH, &write(&clone_set("worse"), Some(&old))).await;
    assert_eq!(answer["status"]["message"], "spec.template.spec.hostname: Invalid value: \"Y\"");
}

#[tokio::test]
async fn without_a_judgement_the_write_passes_with_a_warning() {
    for code in [400, 403, 404, 422, 429, 500, 503] {
        let (client, _) = api_server(move |_| (code, status(code)));
        let answer =
            ask(&with_lookup("", Lookup::cluster(client)), PATH, &write(&clone_set("a"), None)).await;
        let warning = "spec.template is not judged by the API server, its Pods will be: refused";
        assert_eq!((&answer["allowed"], &answer["warnings"]), (&json!(true), &json!([warning])), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_does_not_wait_for_an_api_server_that_is_silent() {
    let (admission, begun) = (with_lookup("", Lookup::cluster(silent())), Instant::now());
    let answer = ask(&admission, PATH, &write(&clone_set("a"), None)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    let warning = "spec.template is not judged by the API server, its Pods will be: no answer from the API server in time";
    assert_eq!((&answer["allowed"], &answer["warnings"]), (&json!(true), &json!([warning])));
}

#[tokio::test]
async fn sidecars_are_tried_in_the_namespace_of_the_installation() {
    let (client, requests) =
        api_server(|_| invalid(&[("template.spec.volumes[0].hostPath", "Forbidden: no")]));
    let admission = with_lookup("", Lookup::cluster(client));
    let mut set = sidecar_set();
    for (field, value) in [
        ("imagePullPolicy", "Always"),
        ("terminationMessagePolicy", "File"),
        ("podInjectPolicy", "BeforeAppContainer"),
    ] {
        set["spec"]["containers"][0][field] = json!(value);
    }
    set["spec"]["containers"][0]["shareVolumePolicy"] = json!({"type": "disabled"});
    let answer = ask(&admission, "/validate-apps-kruise-io-sidecarset", &create_sidecar_set(&set)).await;
    assert_eq!(answer["status"]["message"], "spec.volumes[0].hostPath: Forbidden: no", "{answer}");
    assert_eq!(answer["status"]["code"], 500);
    let requests = requests.lock().unwrap();
    assert!(
        requests[0].starts_with("POST /api/v1/namespaces/kruise-system/podtemplates?dryRun=All "),
        "{requests:?}"
    );
}
