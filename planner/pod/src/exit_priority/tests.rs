use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::observed::ObservedPod;
use values::json_patch::apply;

const PRIORITY: &str = "kruise.io/container-exit-priority";
const MODE: &str = "kruise.io/container-exit-mode";
const RESERVE: &str = "kruise.io/container-exit-reserve-seconds";

fn settings() -> Settings {
    Settings { image: "agent:1".to_owned(), ..Settings::default() }
}

/// A Pod with the containers main, log-agent and envoy, and the edits of the test.
fn pod(order: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {PRIORITY: order}},
        "spec": {"containers": [{"name": "main"}, {"name": "log-agent"}, {"name": "envoy"}]},
    });
    edit(&mut pod);
    pod
}

fn reviewed(pod: &Value, settings: &Settings) -> (Value, Vec<String>) {
    let text = pod.to_string();
    match mutate(&text, settings, &FeatureGates::default()) {
        Verdict::Allow { edits, warnings } => {
            (serde_json::from_str(&apply(&text, &edits).unwrap()).unwrap(), warnings)
        }
        refused => panic!("{refused:?}"),
    }
}

fn mutated(pod: &Value) -> Value {
    let (mutated, warnings) = reviewed(pod, &settings());
    assert_eq!(warnings, [""; 0]);
    mutated
}

fn message(verdict: &Verdict) -> String {
    let denial = verdict.denial().unwrap_or_else(|| panic!("{verdict:?}"));
    assert_eq!(denial.code, 400);
    denial.message.clone()
}

fn command(pod: &Value, index: usize) -> &Value {
    &pod["spec"]["containers"][index]["lifecycle"]["preStop"]["exec"]["command"]
}

#[test]
fn later_containers_wait_for_all_that_end_before_them() {
    let pod = mutated(&pod(r#"{"log-agent":1,"envoy":2}"#, |_| {}));
    let spec = &pod["spec"];
    assert_eq!(spec["containers"][0], json!({"name": "main"}));
    let hook = |words: &str| -> Value { format!("/.kruise-exit/hook wait {words}").split(' ').collect() };
    let log = "--name=log-agent --after=main --grace=30 --tail=4 --window=10";
    assert_eq!(*command(&pod, 1), hook(log));
    let envoy = "--name=envoy --after=main,log-agent --grace=30 --tail=2 --window=10";
    assert_eq!(*command(&pod, 2), hook(envoy));
    assert_eq!(
        spec["containers"][1]["volumeMounts"],
        json!([
            {"name": "kruise-exit", "mountPath": "/.kruise-exit", "readOnly": true},
            {"name": "kruise-exit", "mountPath": "/.kruise-exit/state", "subPath": "state"},
        ])
    );
    assert_eq!(spec["volumes"], json!([{"name": "kruise-exit", "emptyDir": {"sizeLimit": "16Mi"}}]));
    let installer = json!({
        "name": "kruise-exit-init", "image": "agent:1", "imagePullPolicy": "IfNotPresent",
        "command": ["/kruise-exit-hook", "install", "/.kruise-exit"],
        "volumeMounts": [{"name": "kruise-exit", "mountPath": "/.kruise-exit"}],
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65534, "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    assert_eq!(spec["initContainers"], json!([installer]));
}

#[test]
fn how_long_a_hook_waits_for_a_word_is_a_setting() {
    let settings = Settings { window: std::time::Duration::from_secs(25), ..settings() };
    let pod = reviewed(&pod(r#"{"envoy":2}"#, |_| {}), &settings).0;
    assert_eq!(command(&pod, 2)[6], "--window=25");
}

/// Scenario 32.
#[test]
fn a_container_that_comes_later_is_hooked_too() {
    let mut pod = mutated(&pod(r#"{"log-agent":1,"envoy":2,"mesh":1}"#, |_| {}));
    pod["spec"]["containers"].as_array_mut().unwrap().insert(0, json!({"name": "mesh"}));
    pod["spec"]["initContainers"].as_array_mut().unwrap().push(json!({"name": "mesh-init"}));
    let pod = mutated(&pod);
    assert_eq!(command(&pod, 0)[3], "--after=main");
    assert_eq!(command(&pod, 3)[3], "--after=mesh,main,log-agent");
    assert_eq!(pod["spec"]["initContainers"][0]["name"], "mesh-init");
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "kruise-exit-init");
    assert_eq!(validate(&pod.to_string(), &FeatureGates::default()), Verdict::allow());
}

#[test]
fn no_order_changes_nothing() {
    for order in ["", "{}", r#"{"main":1,"log-agent":1,"envoy":1}"#, r#"{"native":3}"#] {
        let pod = pod(order, |_| {});
        assert_eq!(mutated(&pod), pod, "{order}");
    }
    let pod = pod(r#"{"envoy":1}"#, |_| {});
    let off = FeatureGates::default().with(Feature::ContainerExitPriority, false);
    assert_eq!(mutate(&pod.to_string(), &settings(), &off), Verdict::allow());
}

#[test]
fn the_time_is_shared_by_the_steps() {
    let tails = |reserve: &str| {
        let pod = mutated(&pod(r#"{"log-agent":1,"envoy":7}"#, |pod| {
            pod["metadata"]["annotations"][RESERVE] = json!(reserve);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
        }));
        let words = [1, 2].map(|index| command(&pod, index).as_array().unwrap()[4..6].to_vec());
        json!(words)
    };
    assert_eq!(tails("5"), json!([["--grace=60", "--tail=10"], ["--grace=60", "--tail=5"]]));
    assert_eq!(tails("0"), json!([["--grace=60", "--tail=0"], ["--grace=60", "--tail=0"]]));
}

#[test]
fn what_can_not_be_enforced_is_reported() {
    let reported = |settings: &Settings, edit: fn(&mut Value)| {
        let pod = pod(r#"{"envoy":1}"#, edit);
        let (after, warnings) = reviewed(&pod, settings);
        assert_eq!(after, pod);
        warnings.join(";")
    };
    let because = |reason: &str| format!("container exit priority is not enforced: {reason}");
    let windows = |pod: &mut Value| pod["spec"]["os"] = json!({"name": "windows"});
    assert_eq!(reported(&settings(), windows), because("the Pod runs on Windows"));
    let at_once = |pod: &mut Value| pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    assert_eq!(reported(&settings(), at_once), because("terminationGracePeriodSeconds is 0"));
    let mirror = |pod: &mut Value| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("x");
    assert_eq!(reported(&settings(), mirror), because("the kubelet runs the Pod from a file"));
    let hook = |pod: &mut Value| pod["metadata"]["annotations"][MODE] = json!("Hook");
    assert_eq!(reported(&Settings::default(), hook), because("the manager has no --exit-hook-image"));
    let in_place =
        |pod: &mut Value| pod["spec"]["readinessGates"] = json!([{"conditionType": "InPlaceUpdateReady"}]);
    assert_eq!(
        reported(&Settings::default(), in_place),
        because(
            "the Pod has the readiness gate InPlaceUpdateReady: variables of native sidecars do not change in place"
        )
    );
    let short = pod(r#"{"envoy":1}"#, |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(4));
    let (_, warnings) = reviewed(&short, &settings());
    let expected =
        "spec.terminationGracePeriodSeconds: 4 seconds are short for 1 steps of container exit priority";
    assert_eq!(warnings, [expected]);
}

#[test]
fn the_users_own_hooks_are_chained_and_come_back() {
    for (handler, chained) in [
        (json!({"exec": {"command": ["sh", "-c", "bye"]}}), &["--", "sh", "-c", "bye"][..]),
        (json!({"exec": {"command": ["--", "--then-sleep=1"]}}), &["--", "--", "--then-sleep=1"]),
        (json!({"sleep": {"seconds": 3}}), &["--then-sleep=3"]),
        (
            json!({"httpGet": {"port": 8080, "path": "/end", "scheme": "HTTPS", "host": "h",
                "httpHeaders": [{"name": "a", "value": "b"}]}}),
            &[r#"--then-http={"scheme":"HTTPS","host":"h","port":8080,"path":"/end","headers":[["a","b"]]}"#],
        ),
    ] {
        let before = pod(r#"{"envoy":1}"#, |pod| {
            pod["spec"]["containers"][2]["lifecycle"] = json!({"preStop": handler, "stopSignal": "SIGUSR1"});
        });
        let after = mutated(&before);
        assert_eq!(json!(command(&after, 2).as_array().unwrap()[7..]), json!(chained));
        assert_eq!(after["spec"]["containers"][2]["lifecycle"]["stopSignal"], "SIGUSR1");
        let mut without = after.clone();
        without["metadata"]["annotations"][PRIORITY] = json!("{}");
        assert_eq!(mutated(&without)["spec"], before["spec"]);
    }
}

#[test]
fn what_the_api_server_refuses_stays_for_it_to_see() {
    let get = |port: u32| json!({"httpGet": {"port": port}});
    for handler in [
        json!({}),
        json!({"exec": {"command": []}}),
        json!({"exec": {"command": ["true"]}, "sleep": {"seconds": 1}}),
        json!({"sleep": {"seconds": 31}}),
        json!({"sleep": {"seconds": -1}}),
        get(0),
        get(65536),
        json!({"httpGet": {"port": 80, "scheme": "FTP"}}),
        json!({"other": {}}),
        json!("text"),
    ] {
        let sent = pod(r#"{"envoy":1}"#, |pod| {
            pod["spec"]["containers"][2]["lifecycle"]["preStop"] = handler.clone();
        });
        let envoy = &mutated(&sent)["spec"]["containers"][2];
        assert_eq!(*envoy, sent["spec"]["containers"][2], "{handler}");
    }
}

#[test]
fn named_ports_become_numbers() {
    let named = |port: &str| {
        pod(r#"{"envoy":1}"#, |pod| {
            let container = &mut pod["spec"]["containers"][2];
            container["ports"] = json!([{"name": "admin", "containerPort": 15000}]);
            container["lifecycle"] = json!({"preStop": {"httpGet": {"port": port, "path": "/"}}});
        })
    };
    let expected = r#"--then-http={"scheme":"HTTP","host":"","port":15000,"path":"/","headers":[]}"#;
    assert_eq!(command(&mutated(&named("admin")), 2)[7], expected);
    let refused = mutate(&named("other").to_string(), &settings(), &FeatureGates::default());
    assert_eq!(
        message(&refused),
        "spec.containers[envoy].lifecycle.preStop.httpGet.port: Invalid value: \"other\": \
         the container has no such port"
    );
}

#[test]
fn the_init_container_has_the_resources_of_another() {
    let resources = |of_main: &Value, of_envoy: &Value| {
        let pod = mutated(&pod(r#"{"envoy":1}"#, |pod| {
            pod["spec"]["containers"][0]["resources"] = of_main.clone();
            pod["spec"]["containers"][2]["resources"] = of_envoy.clone();
        }));
        pod["spec"]["initContainers"][0]["resources"].clone()
    };
    let amounts = json!({"cpu": "1", "memory": "1Gi"});
    let guaranteed = json!({"requests": amounts, "limits": amounts});
    assert_eq!(resources(&json!({}), &json!({})), Value::Null, "the Pod is BestEffort");
    assert_eq!(resources(&guaranteed, &json!({"limits": {"cpu": "2"}})), guaranteed);
    assert_eq!(
        resources(&json!({"requests": {}}), &json!({"limits": {"cpu": "2"}})),
        json!({"limits": {"cpu": "2"}})
    );
    let others = json!({"claims": [{"name": "gpu"}], "limits": {"example.com/gpu": 1, "memory": "1Gi"}});
    assert_eq!(resources(&others, &guaranteed), json!({"limits": {"memory": "1Gi"}}));
}

#[test]
fn the_init_container_is_never_root() {
    let user = |of_pod: Value, run_as_user: u32| {
        let pod = pod(r#"{"envoy":1}"#, |pod| pod["spec"]["securityContext"] = json!({"runAsUser": of_pod}));
        let pod = reviewed(&pod, &Settings { run_as_user, ..settings() }).0;
        pod["spec"]["initContainers"][0]["securityContext"]["runAsUser"].clone()
    };
    assert_eq!(user(json!(0), 7), 7);
    assert_eq!(user(json!(0), 0), 65534);
    assert_eq!(user(json!(1000), 0), Value::Null);
    assert_eq!(user(Value::Null, 0), Value::Null);
}

#[test]
fn what_others_did_to_the_init_container_stays() {
    let mut pod = mutated(&pod(r#"{"envoy":1}"#, |_| {}));
    let installer = &mut pod["spec"]["initContainers"][0];
    installer["image"] = json!("mirror/agent:1");
    installer["imagePullPolicy"] = json!("Always");
    installer["resources"] = json!({"limits": {"ephemeral-storage": "1Gi"}});
    installer["volumeMounts"].as_array_mut().unwrap().push(json!({"name": "token", "mountPath": "/t"}));
    assert_eq!(mutated(&pod), pod);
    let changed = pod.clone();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let mut expected = pod.clone();
    expected["spec"]["initContainers"][0]["resources"]["requests"] = json!({"cpu": "1"});
    assert_eq!(mutated(&pod), expected);
    // A copy without the init containers is a Pod as it was sent.
    let mut copy = changed.clone();
    copy["spec"].as_object_mut().unwrap().remove("initContainers");
    assert_eq!(command(&mutated(&copy), 2), command(&changed, 2));
    // An init container that came later runs before it.
    pod = changed;
    pod["spec"]["initContainers"].as_array_mut().unwrap().push(json!({"name": "late"}));
    assert_eq!(mutated(&pod)["spec"]["initContainers"][1]["image"], "mirror/agent:1");
}

#[test]
fn annotations_are_checked_at_mutation() {
    let refused = |key: &str, value: &str| {
        let pod = pod(r#"{"envoy":1}"#, |pod| pod["metadata"]["annotations"][key] = json!(value));
        let message = message(&mutate(&pod.to_string(), &settings(), &FeatureGates::default()));
        let start = format!("metadata.annotations[{key}]: Invalid value: {}: ", string(value));
        message.strip_prefix(&start).unwrap_or_else(|| panic!("{message}")).to_owned()
    };
    let object = "must be a JSON object of container name to non-negative integer: ";
    for text in ["not json", "[]", "1", "{"] {
        assert!(refused(PRIORITY, text).starts_with(object), "{text}");
    }
    for value in [r#""1""#, "1.5", "true", "null", "{}", "[]"] {
        let detail = refused(PRIORITY, &format!(r#"{{"envoy":{value}}}"#));
        assert_eq!(detail, r#"exit priority of container "envoy" must be an integer"#, "{value}");
    }
    for (value, detail) in [
        ("-1", "not be negative"),
        ("2147483648", "not be greater than 2147483647"),
        ("1e40", "not be greater than 2147483647"),
    ] {
        let expected = format!(r#"exit priority of container "envoy" must {detail}"#);
        assert_eq!(refused(PRIORITY, &format!(r#"{{"envoy":{value}}}"#)), expected);
    }
    assert_eq!(refused(MODE, "hook"), r#"supported values: "Hook", "NativeSidecar""#);
    for seconds in ["", "-1", "301", "2.5", "x"] {
        assert_eq!(refused(RESERVE, seconds), "must be an integer between 0 and 300");
    }
    assert_eq!(*command(&mutated(&pod(r#"{"envoy":1,"envoy":0,"log-agent":1.0}"#, |_| {})), 2), Value::Null);
}

#[test]
fn names_of_ours_are_reserved() {
    let edits: [fn(&mut Value); 3] = [
        |spec| spec["volumes"] = json!([{"name": "kruise-exit"}]),
        |spec| spec["initContainers"] = json!([{"name": "kruise-exit-init", "command": ["sh"]}]),
        |spec| spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/.kruise-exit/"}]),
    ];
    for edit in edits {
        let pod = pod(r#"{"envoy":1}"#, |pod| edit(&mut pod["spec"])).to_string();
        let message = message(&mutate(&pod, &settings(), &FeatureGates::default()));
        assert!(message.ends_with("}\": name or path reserved for container exit priority"), "{message}");
    }
}

#[test]
fn names_and_native_sidecars_are_checked_at_validation() {
    let checked = |order: &str| {
        let pod = pod(order, |pod| {
            let native = |name: &str| json!({"name": name, "restartPolicy": "Always"});
            pod["spec"]["initContainers"] = json!([{"name": "setup"}, native("S"), native("T")]);
        });
        validate(&pod.to_string(), &FeatureGates::default())
    };
    for order in ["", "{}", r#"{"S":1}"#, r#"{"log-agent":1,"S":2}"#, r#"{"S":3,"T":2}"#, r#"{"S":3,"T":3}"#]
    {
        assert_eq!(checked(order), Verdict::allow(), "{order}");
    }
    for (order, detail) in [
        (r#"{"nope":1}"#, r#"container "nope" not found in the Pod"#),
        (r#"{"setup":1}"#, r#"init container "setup" can not have an exit priority"#),
        (
            r#"{"S":0}"#,
            r#"native sidecar "S" exits after all regular containers; its exit priority must be greater than that of "main""#,
        ),
        (
            r#"{"envoy":2,"S":2}"#,
            r#"native sidecar "S" exits after all regular containers; its exit priority must be greater than that of "envoy""#,
        ),
        (r#"{"S":1,"T":2}"#, r#"native sidecars exit in reverse order; "S" can not exit before "T""#),
    ] {
        let message = message(&checked(order));
        assert!(message.ends_with(&format!("}}\": {detail}")), "{message}");
    }
}

#[test]
fn a_mode_that_is_not_possible_is_refused_where_the_pod_chose_it() {
    let native = |edit: fn(&mut Value)| {
        pod(r#"{"envoy":1}"#, |pod| {
            pod["metadata"]["annotations"][MODE] = json!("NativeSidecar");
            edit(pod);
        })
    };
    let gate = native(|pod| pod["spec"]["readinessGates"] = json!([{"conditionType": "InPlaceUpdateReady"}]));
    assert_eq!(mutated(&gate), gate);
    let launch = native(|pod| {
        pod["spec"]["containers"][2]["env"] = json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": "-1"}]);
    });
    let as_listed = native(|pod| {
        for index in 0..3 {
            let barrier = json!({"configMapKeyRef": {"name": "b", "key": format!("p_{}", -index)}});
            let barrier = json!([{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": barrier}]);
            pod["spec"]["containers"][usize::try_from(index).unwrap()]["env"] = barrier;
        }
    });
    let own = native(|pod| pod["spec"]["containers"][2]["restartPolicy"] = json!("Never"));
    for (pod, detail) in [
        (own, r#"container "envoy" has a restartPolicy of its own, and native sidecars always restart"#),
        (as_listed, r#"container "envoy" would start before "main", which their launch priorities forbid"#),
        (
            gate,
            "the Pod has the readiness gate InPlaceUpdateReady: variables of native sidecars do not change in place",
        ),
        (launch, r#"container "envoy" would start before "log-agent", which their launch priorities forbid"#),
    ] {
        let message = message(&validate(&pod.to_string(), &FeatureGates::default()));
        assert_eq!(
            message,
            format!("metadata.annotations[{MODE}]: Invalid value: \"NativeSidecar\": {detail}")
        );
    }
    let other = native(|pod| pod["spec"]["containers"][0]["restartPolicy"] = json!("Never"));
    for pod in [native(|_| {}), other] {
        assert_eq!(validate(&mutated(&pod).to_string(), &FeatureGates::default()), Verdict::allow());
    }
}

#[test]
fn a_pod_of_very_many_containers_is_refused() {
    let many = |count: usize| {
        let containers = (0..count).map(|number| json!({"name": format!("c{number}")}));
        let containers: Vec<Value> = containers.collect();
        pod(r#"{"c1":1}"#, |pod| pod["spec"]["containers"] = json!(containers))
    };
    let most = mutated(&many(100));
    assert_eq!(command(&most, 1)[2], "--name=c1");
    assert_eq!(validate(&most.to_string(), &FeatureGates::default()), Verdict::allow());
    let reviews = [
        mutate(&many(101).to_string(), &settings(), &FeatureGates::default()),
        validate(&many(101).to_string(), &FeatureGates::default()),
    ];
    for review in reviews {
        let message = message(&review);
        assert!(message.ends_with("a Pod with an order must have at most 100 containers"), "{message}");
    }
}

#[test]
fn native_sidecars_are_listed_in_reverse_order() {
    let before = pod(r#"{"log-agent":1,"envoy":2}"#, |pod| {
        pod["spec"]["initContainers"] = json!([{"name": "setup"}]);
        pod["spec"]["containers"][1]["env"] = json!([{"name": "KRUISE_CONTAINER_BARRIER"}, {"name": "A"}]);
    });
    let (after, warnings) = reviewed(&before, &Settings::default());
    assert_eq!(warnings, [""; 0]);
    assert_eq!(after["spec"]["containers"], json!([{"name": "main"}]));
    let moved = json!([
        {"name": "setup"},
        {"name": "envoy", "restartPolicy": "Always"},
        {"name": "log-agent", "env": [{"name": "A"}], "restartPolicy": "Always"},
    ]);
    assert_eq!(after["spec"]["initContainers"], moved);
    assert_eq!(after["metadata"]["annotations"]["kruise.io/container-exit-moved"], "envoy,log-agent");
    assert_eq!(reviewed(&after, &Settings::default()).0, after);
}

#[test]
fn the_order_is_reported() {
    let reported = |pod: &Value| order(&pod.to_string());
    let equal = r#"{"log-agent":1,"envoy":1,"own":2}"#;
    let sent = pod(equal, |pod| {
        pod["spec"]["initContainers"] =
            json!([{"name": "setup"}, {"name": "own", "restartPolicy": "Always"}]);
    });
    assert_eq!(reported(&sent), None, "admission has not seen it");
    let by_hooks = "containers end in this order (mode Hook): main, then log-agent and envoy, then own";
    assert_eq!(reported(&mutated(&sent)).as_deref(), Some(by_hooks));
    let native = Settings { mode: Mode::NativeSidecar, ..settings() };
    let (moved, _) = reviewed(&pod(r#"{"main":2,"log-agent":1}"#, |_| {}), &native);
    let as_sidecars = "containers end in this order (mode NativeSidecar): envoy, then log-agent, then main";
    assert_eq!(reported(&moved).as_deref(), Some(as_sidecars));
    assert_eq!(reported(&mutated(&pod("{}", |_| {}))), None);
}

#[test]
fn a_change_of_a_running_pod_is_reported() {
    let reported = |old: &str, new: &str| {
        let [old, new] = [old, new].map(|order| pod(order, |_| {}).to_string());
        change_without_effect(Some(&old), Some(&new), &FeatureGates::default())
    };
    assert_eq!(reported("{}", "{}"), None);
    let expected = "kruise.io/container-exit-priority has no effect on a running Pod";
    assert_eq!(reported("{}", r#"{"envoy":1}"#).as_deref(), Some(expected));
    assert_eq!(change_without_effect(Some("{}"), None, &FeatureGates::default()), None);
}

#[test]
fn forged_hooks_do_no_harm() {
    for argument in ["--then-http=[]", "--then-http=null", "--then-sleep=x", "--"] {
        let pod = pod(r#"{"envoy":1}"#, |pod| {
            let command = json!(["/.kruise-exit/hook", "wait", argument]);
            pod["spec"]["containers"][2]["lifecycle"] = json!({"preStop": {"exec": {"command": command}}});
            pod["spec"]["initContainers"] =
                json!([{"name": "kruise-exit-init", "command": ["/kruise-exit-hook", "install"]}]);
        });
        assert_eq!(command(&mutated(&pod), 2)[2], "--name=envoy", "{argument}");
    }
    for odd in ["null", "{}", "[]", r#"{"metadata":{"annotations":{"kruise.io/container-exit-priority":7}}}"#]
    {
        drop(mutate(odd, &settings(), &FeatureGates::default()));
        drop(validate(odd, &FeatureGates::default()));
    }
    for lifecycle in [json!("x"), json!([]), json!({"preStop": 1}), json!({"preStop": {"httpGet": []}})] {
        let pod = pod(r#"{"envoy":1}"#, |pod| pod["spec"]["containers"][2]["lifecycle"] = lifecycle);
        drop(mutate(&pod.to_string(), &settings(), &FeatureGates::default()));
    }
}

fn handler() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(json!({"sleep": {"seconds": 2}}))),
        Just(Some(json!({"exec": {"command": ["sh", "--", "x=1"]}}))),
        Just(Some(json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}))),
    ]
}

fn any_pod() -> impl Strategy<Value = Value> {
    let container = (0..4i32, handler(), any::<bool>());
    proptest::collection::vec(container, 1..6).prop_map(|containers| {
        let mut order = serde_json::Map::new();
        let mut list = Vec::new();
        for (index, (priority, handler, mounts)) in containers.into_iter().enumerate() {
            let mut container = json!({"name": format!("c{index}"), "x-unknown": index});
            order.insert(format!("c{index}"), json!(priority));
            if let Some(handler) = handler {
                container["lifecycle"] = json!({"preStop": handler});
            }
            if mounts {
                container["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
            }
            list.push(container);
        }
        pod(&Value::Object(order).to_string(), |pod| pod["spec"]["containers"] = json!(list))
    })
}

proptest! {
    #[test]
    fn twice_is_once_and_the_pod_comes_back(pod in any_pod(), native in any::<bool>()) {
        let settings = if native { Settings::default() } else { settings() };
        let (once, _) = reviewed(&pod, &settings);
        let (twice, _) = reviewed(&once, &settings);
        prop_assert_eq!(&once, &twice);
        let read: ObservedPod = serde_json::from_value(once.clone()).unwrap();
        prop_assert!(plan::hooked(&read).is_ok());
        let mut without = once;
        without["metadata"]["annotations"][PRIORITY] = json!("{}");
        let (mut back, _) = reviewed(&without, &settings);
        back["metadata"]["annotations"][PRIORITY] = pod["metadata"]["annotations"][PRIORITY].clone();
        let by_name = |pod: &Value| {
            let mut pod = pod.clone();
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.sort_by_key(|container| container["name"].to_string());
            pod
        };
        // Containers that were moved come back behind the others.
        if native {
            prop_assert_eq!(by_name(&back), by_name(&pod));
        } else {
            prop_assert_eq!(back, pod);
        }
    }
}
