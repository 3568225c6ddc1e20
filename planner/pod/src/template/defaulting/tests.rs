use proptest::prelude::*;
use serde_json::json;
use testing::templates::arbitrary_template;

use super::*;

fn defaulted(template: &Value, host_ports: bool) -> Value {
    let patch = default_template(template, &Pointer::root(), host_ports);
    serde_json::from_str(&json_patch::apply(&template.to_string(), &patch).unwrap()).unwrap()
}

#[test]
fn a_minimal_template_gets_the_defaults_of_kubernetes() {
    let template = json!({"spec": {
        "containers": [{"name": "c", "image": "nginx:1.25"}],
        "initContainers": [{"name": "i", "image": "nginx:1.25"}, {"name": "l", "image": "nginx"}],
        "ephemeralContainers": [{"name": "e", "ports": [{"containerPort": 1}]}],
        "volumes": [{"name": "v"}],
    }});
    let messages =
        json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let container = |name: &str, image: &str, policy: &str| {
        let mut container = json!({"name": name, "image": image, "imagePullPolicy": policy});
        container.as_object_mut().unwrap().extend(messages.as_object().unwrap().clone());
        container
    };
    assert_eq!(
        defaulted(&template, false),
        json!({"spec": {
            "containers": [container("c", "nginx:1.25", "Always")],
            "initContainers": [container("i", "nginx:1.25", "IfNotPresent"), container("l", "nginx", "Always")],
            "ephemeralContainers": [{"name": "e", "ports": [{"containerPort": 1, "protocol": "TCP"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
        }})
    );
}

#[test]
fn probes_hooks_and_environment_are_completed() {
    let template = json!({"spec": {"containers": [{
        "name": "c", "image": "a:1",
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0, "failureThreshold": 5},
        "startupProbe": {"exec": {"command": ["x"]}},
        "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x", "scheme": ""}}},
    }]}});
    let container = defaulted(&template, false)["spec"]["containers"][0].clone();
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 5,
               "timeoutSeconds": 1, "successThreshold": 1})
    );
    assert_eq!(container["startupProbe"]["failureThreshold"], 3);
    assert_eq!(
        container["lifecycle"]["preStop"]["httpGet"],
        json!({"port": 80, "path": "/x", "scheme": "HTTP"})
    );
}

#[test]
fn volumes_are_completed_and_newer_sources_are_left_alone() {
    let item = json!({"path": "a", "fieldRef": {"fieldPath": "metadata.name"}});
    let template = json!({"spec": {"volumes": [
        {"name": "a", "hostPath": {"path": "/"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "configMap": {"name": "s", "defaultMode": 0}},
        {"name": "d", "downwardAPI": {"items": [item]}},
        {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": [item]}}]}},
        {"name": "f", "quantumStore": {"bits": 1}},
    ]}});
    let volumes = defaulted(&template, false)["spec"]["volumes"].clone();
    assert_eq!(volumes[0]["hostPath"]["type"], "");
    assert_eq!(volumes[1]["secret"]["defaultMode"], 420);
    assert_eq!(volumes[2]["configMap"]["defaultMode"], 0);
    assert_eq!(volumes[3]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(volumes[4]["projected"]["defaultMode"], 420);
    assert_eq!(volumes[4]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3600);
    assert_eq!(
        volumes[4]["projected"]["sources"][1]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"],
        "v1"
    );
    assert_eq!(volumes[5], json!({"name": "f", "quantumStore": {"bits": 1}}));
}

#[test]
fn quantities_are_rounded_up_and_exact_ones_keep_their_text() {
    let template = r#"{"spec":{"containers":[{"name":"c","resources":{"limits":
        {"cpu":"0.0001","memory":1.50,"x/y":"1000m"}}}],"overhead":{"cpu":"1.0005"}}}"#;
    let patch = default_template(&serde_json::from_str(template).unwrap(), &Pointer::root(), false);
    let text = json_patch::apply(template, &patch).unwrap();
    assert!(text.contains(r#""limits":{"cpu":"1m","memory":1.50,"x/y":"1000m"}"#), "{text}");
    assert!(text.contains(r#""overhead":{"cpu":"1001m"}"#), "{text}");
}

#[test]
fn host_ports_need_the_gate_and_the_host_network() {
    let template = |host_network: bool| json!({"spec": {"hostNetwork": host_network, "containers": [{"ports": [{"containerPort": 80}]}]}});
    let host_port = |template: &Value, gate| {
        defaulted(template, gate)["spec"]["containers"][0]["ports"][0]["hostPort"].clone()
    };
    assert_eq!(host_port(&template(true), true), 80);
    assert_eq!(host_port(&template(true), false), Value::Null);
    assert_eq!(host_port(&template(false), true), Value::Null);
}

#[test]
fn a_claim_template_becomes_pending_and_gets_no_volume_mode() {
    let claim = json!({"spec": {"resources": {"requests": {"storage": "0.0001"}}}});
    let patch = default_claim_template(&claim, &Pointer::root());
    let text = json_patch::apply(&claim.to_string(), &patch).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({"spec": {"resources": {"requests": {"storage": "1m"}}}, "status": {"phase": "Pending"}})
    );
}

#[test]
fn operations_are_relative_to_the_pointer() {
    let patch = default_template(&json!({}), &Pointer::from_escaped("/spec/template"), false);
    assert!(patch.to_json().starts_with(r#"[{"op":"add","path":"/spec/template/spec","value":{}}"#));
}

proptest! {
    #[test]
    fn defaulting_twice_changes_nothing_more(spec in arbitrary_template(), host_ports: bool) {
        let template = json!({"spec": spec});
        let once = defaulted(&template, host_ports);
        let again = default_template(&once, &Pointer::root(), host_ports);
        prop_assert!(again.is_empty(), "{}", again.to_json());
        let claim_patch = default_claim_template(&template, &Pointer::root());
        let claim: Value =
            serde_json::from_str(&json_patch::apply(&template.to_string(), &claim_patch).unwrap()).unwrap();
        prop_assert!(default_claim_template(&claim, &Pointer::root()).is_empty());
    }
}
