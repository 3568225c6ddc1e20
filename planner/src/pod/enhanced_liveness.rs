//! Liveness probes that the node daemon runs instead of the kubelet
//! (docs/behaviour/pod-mutation.md#enhanced-liveness-probe): they move from the containers, injected ones
//! too, into an annotation.

use api::annotations::{CONTAINER_PROBE_CONTEXT, USING_ENHANCED_LIVENESS};
use api::features::Feature;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pod::review::lens::{Object, Text, text_or_empty};
use crate::pod::review::{Draft, Halt, ReviewContext};
use crate::text::canonical::{Kind, Unknown, canonical_json, table};
use crate::text::json_patch::{Pointer, write_string};

/// A container, or an entry of the annotation: both have these members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probed<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    liveness_probe: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    spec: Option<Object<Spec<'a>>>,
}

#[derive(Deserialize)]
struct Spec<'a> {
    #[serde(borrow)]
    containers: Option<Vec<Object<Probed<'a>>>>,
}

/// Moves the probes of Pods that ask for it. Only those pay for reading their containers a second time.
pub(crate) fn mutate(draft: &mut Draft<'_>, context: &ReviewContext<'_>) -> Result<(), Halt> {
    if !context.gates.enabled(Feature::EnhancedLivenessProbe)
        || !draft.is_of_kruise_workload()
        || draft.annotation(USING_ENHANCED_LIVENESS) != Some("true")
    {
        return Ok(());
    }
    let pod = draft.current().map_err(|error| Halt::failed(format!("enhanced liveness probe: {error}")))?;
    let malformed = |error: serde_json::Error| Halt::bad_request(format!("spec.containers: {error}"));
    let Object(pod) = serde_json::from_str::<Object<Pod<'_>>>(&pod).map_err(malformed)?;
    let containers = pod.spec.and_then(|spec| spec.0.containers).unwrap_or_default();
    if containers.iter().all(|container| container.0.liveness_probe.is_none()) {
        return Ok(());
    }
    // A review before this one has moved the probes of the Pod's own containers already; an injected one
    // is injected again, and its probe with it.
    let moved = draft.annotation(CONTAINER_PROBE_CONTEXT).and_then(|list| serde_json::from_str(list).ok());
    let moved: Vec<Object<Probed<'_>>> = moved.unwrap_or_default();
    let (mut list, mut places) = (String::from("["), Vec::new());
    for (index, Object(container)) in containers.into_iter().enumerate() {
        let name = text_or_empty(container.name);
        if let Some(probe) = container.liveness_probe {
            let probe = canonical_json(probe.get(), &Kind::Struct(&table::PROBE), Unknown::Keep)
                .map_err(|error| Halt::bad_request(format!("livenessProbe of container {name}: {error}")))?;
            push(&mut list, &name, &probe);
            places.push(index);
            continue;
        }
        let earlier =
            moved.iter().find(|Object(entry)| entry.name.as_ref().is_some_and(|text| text.0 == name));
        if let Some(probe) = earlier.and_then(|Object(entry)| entry.liveness_probe) {
            push(&mut list, &name, probe.get());
        }
    }
    list.push(']');
    let path = Pointer::from_escaped("/spec/containers");
    for index in places {
        draft.remove(path.index(index).key("livenessProbe"));
    }
    draft.set_annotation(CONTAINER_PROBE_CONTEXT, list);
    Ok(())
}

fn push(list: &mut String, name: &str, probe: &str) {
    if list.len() > 1 {
        list.push(',');
    }
    list.push_str("{\"name\":");
    write_string(list, name);
    list.push_str(",\"livenessProbe\":");
    list.push_str(probe);
    list.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::server::pod_review::fixture::{Cluster, pod};

    const CONTEXT: &str = "apps.kruise.io/container-probe-context";

    fn on() -> Cluster {
        Cluster::new().gates("EnhancedLivenessProbe=true")
    }

    /// A Pod of a CloneSet that asks for the feature.
    fn asking(containers: Value) -> Value {
        let mut pod = pod(containers);
        pod["metadata"]["annotations"] = json!({"apps.kruise.io/using-enhanced-liveness": "true"});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "c", "controller": true}]);
        pod["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
        pod
    }

    fn health() -> Value {
        json!({"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1,
            "httpGet": {"scheme": "HTTP", "port": 7001, "path": "/health"}})
    }

    fn context(pod: &Value) -> &str {
        pod["metadata"]["annotations"][CONTEXT].as_str().unwrap()
    }

    #[test]
    fn example_12_7_scenario_29_the_probe_moves() {
        let asking = asking(
            json!([{"name": "c1", "livenessProbe": health(), "readinessProbe": health()}, {"name": "c2"}]),
        );
        let admitted = on().admit(&asking);
        assert_eq!(
            context(&admitted),
            r#"[{"name":"c1","livenessProbe":{"httpGet":{"path":"/health","port":7001,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}}]"#
        );
        assert_eq!(
            admitted["spec"]["containers"],
            json!([{"name": "c1", "readinessProbe": health()}, {"name": "c2"}])
        );
        assert_eq!(on().admit(&admitted), admitted);
    }

    #[test]
    fn scenario_29_others_are_left_alone() {
        let probed = || asking(json!([{"name": "c1", "livenessProbe": health()}]));
        assert_eq!(Cluster::new().admit(&probed()), probed());
        let without_daemon = Cluster::new().gates("EnhancedLivenessProbe=true,KruiseDaemon=false");
        assert_eq!(without_daemon.admit(&probed()), probed());
        let mut deployed = probed();
        deployed["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
        let mut shouting = probed();
        shouting["metadata"]["annotations"]["apps.kruise.io/using-enhanced-liveness"] = json!("True");
        let mut initial = asking(json!([{"name": "c1", "livenessProbe": null}]));
        initial["spec"]["initContainers"] =
            json!([{"name": "i", "restartPolicy": "Always", "livenessProbe": health()}]);
        for pod in [deployed, shouting, initial] {
            assert_eq!(on().admit(&pod), pod);
        }
    }

    #[test]
    fn injected_probes_move_too_and_a_second_review_loses_none() {
        let exec = json!({"exec": {"command": ["true"]}, "future": 1});
        let sidecar = |name: &str, policy: &str| json!({"name": name, "podInjectPolicy": policy, "livenessProbe": exec});
        let sidecars = [sidecar("front", "BeforeAppContainer"), sidecar("behind", "AfterAppContainer")];
        let cluster = on().set("s", json!({"containers": sidecars}));
        let admitted = cluster
            .admit(&asking(json!([{"name": "m", "livenessProbe": {"grpc": {"port": 1}}}, {"name": "n"}])));
        let moved = r#"{"name":"front","livenessProbe":{"exec":{"command":["true"]},"future":1}},{"name":"m","livenessProbe":{"grpc":{"port":1,"service":null}}},{"name":"behind","livenessProbe":{"exec":{"command":["true"]},"future":1}}"#;
        assert_eq!(context(&admitted), format!("[{moved}]"));
        let containers = admitted["spec"]["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 4);
        assert!(containers.iter().all(|container| container.get("livenessProbe").is_none()), "{admitted:#}");
        assert_eq!(cluster.admit(&admitted), admitted);
    }

    #[test]
    fn a_probe_that_is_none_is_a_bad_request() {
        let (code, message) =
            on().refuse(&asking(json!([{"name": "c1", "livenessProbe": {"periodSeconds": "x"}}])));
        assert_eq!(code, 400);
        assert!(message.starts_with("livenessProbe of container c1: periodSeconds: "), "{message}");
    }
}
