//! The agent of the nodes in the chart (docs/behaviour/node-agent.md#installation, docs/behaviour/node-agent.md#rights).

use serde_json::{Value, json};

use super::{NO_DAEMON, holds, judges, of_kind, one, render};

fn agent(objects: &[Value]) -> &Value {
    &one(objects, "DaemonSet")["spec"]["template"]["spec"]
}

#[test]
fn the_agent_is_installed_unless_its_gate_is_off() {
    for off in [NO_DAEMON, "featureGates=A=true\\, KruiseDaemon=F", "featureGates=AllBeta=false"] {
        let text = serde_json::to_string(&render(&[off])).unwrap();
        // The namespace of pull Secrets belongs to another gate.
        assert!(!text.replace("kruise-daemon-config", "").contains("kruise-daemon"), "{off}");
    }
    for on in ["featureGates=", "featureGates=KruiseDaemon=true\\,AllBeta=false"] {
        assert_eq!(of_kind(&render(&[on]), "DaemonSet").len(), 1, "{on}");
    }
}

#[test]
fn the_agent_runs_on_every_node_with_what_it_needs_and_no_more() {
    let objects = render(&[]);
    let set = one(&objects, "DaemonSet");
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"control-plane": "daemon"}));
    assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "10%");
    let pod = agent(&objects);
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!((&pod["hostNetwork"], &pod["serviceAccountName"]), (&json!(true), &json!("kruise-daemon")));
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/kruise-daemon"]));
    assert_eq!(container["env"][0]["name"], "NODE_NAME");
    let context = &container["securityContext"];
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(
        (&context["allowPrivilegeEscalation"], &context["readOnlyRootFilesystem"]),
        (&json!(false), &json!(true))
    );
    let mounts = container["volumeMounts"].as_array().unwrap();
    let written: Vec<&Value> =
        mounts.iter().filter(|mount| mount["readOnly"] != true).map(|mount| &mount["name"]).collect();
    assert_eq!(written, ["state"]);
    let paths: Vec<&Value> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["hostPath"]["path"]).collect();
    let state = json!("/var/lib/kruise-daemon");
    assert_eq!(paths, [&json!("/var/run/containerd"), &json!("/var/run/crio"), &Value::Null, &state]);
}

#[test]
fn values_of_the_agent_reach_it() {
    let objects = render(&[
        "daemon.port=10333",
        "daemon.socketLocation=/run/k3s",
        "daemon.socketFile=containerd/containerd.sock",
        "daemon.stateDirectory=/opt/agent",
        "daemon.log.level=5",
        "daemon.nodeSelector.pool=a",
        "daemon.seLinuxOptions.type=spc_t",
        "daemon.extraEnvs[0].name=A",
        "daemon.extraEnvs[0].value=b",
        "daemon.extraArguments={--max-workers-for-pull-image=2}",
    ]);
    let pod = agent(&objects);
    let container = &pod["containers"][0];
    for argument in [
        "--addr=:10333",
        "--socket-file=containerd/containerd.sock",
        "--v=5",
        "--max-workers-for-pull-image=2",
    ] {
        assert!(holds(&container["args"], argument), "{argument}: {container:#}");
    }
    assert_eq!(container["ports"][0]["containerPort"], 10333);
    assert!(holds(&container["env"], &json!({"name": "A", "value": "b"})), "{container:#}");
    assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/run/k3s");
    assert_eq!(pod["volumes"][1]["name"], "token", "nothing else of the host");
    assert_eq!(pod["volumes"][2]["hostPath"]["path"], "/opt/agent");
    assert_eq!(pod["nodeSelector"], json!({"pool": "a"}));
    assert_eq!(pod["securityContext"]["seLinuxOptions"], json!({"type": "spc_t"}));
}

#[test]
fn protected_metrics_of_the_agent_bring_the_rights_to_judge_and_to_read_them() {
    let objects = render(&["daemon.metrics.secure=true", "serviceMonitor.enabled=true"]);
    let container = &agent(&objects)["containers"][0];
    assert!(holds(&container["args"], "--metrics-secure"));
    for probe in ["startupProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["scheme"], "HTTPS");
    }
    assert!(judges(&objects, "kruise-daemon"));
    assert!(!judges(&objects, "kruise-manager") && !judges(&render(&[]), "kruise-daemon"));
    let endpoint = &one(&objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0];
    assert_eq!(
        (&endpoint["scheme"], &endpoint["tlsConfig"]["insecureSkipVerify"]),
        (&json!("https"), &json!(true))
    );
    // Agents are shown a token that is of use for metrics alone.
    let reader = "kruise-metrics-reader";
    assert_eq!(endpoint["authorization"]["credentials"], json!({"name": reader, "key": "token"}));
    let named = |kind: &str| {
        of_kind(&objects, kind).into_iter().find(|one| one["metadata"]["name"] == reader).unwrap()
    };
    let account = &named("Secret")["metadata"]["annotations"]["kubernetes.io/service-account.name"];
    assert_eq!(
        (account, &named("ServiceAccount")["automountServiceAccountToken"]),
        (&json!(reader), &json!(false))
    );
    let binding = named("ClusterRoleBinding");
    assert_eq!(
        (&binding["roleRef"]["name"], &binding["subjects"][0]["name"]),
        (&json!(reader), &json!(reader))
    );
}

#[test]
fn the_agent_sees_the_directory_of_the_socket_that_is_named() {
    for (file, below) in [
        ("cri-dockerd.sock", ""),
        ("crio.sock", ""),
        ("containerd/other.sock", "/containerd"),
        ("k3s/containerd/containerd.sock", "/k3s/containerd"),
    ] {
        let objects = render(&[&format!("daemon.socketFile={file}")]);
        let pod = agent(&objects);
        let (volumes, mounts) = (&pod["volumes"], &pod["containers"][0]["volumeMounts"]);
        assert_eq!(volumes[0]["hostPath"]["path"], format!("/var/run{below}"), "{file}");
        assert_eq!(
            mounts[0],
            json!({"name": volumes[0]["name"], "mountPath": format!("/hostvarrun{below}"), "readOnly": true})
        );
        assert_eq!(volumes[1]["name"], "token", "nothing else of the host");
    }
}

#[test]
fn credential_providers_are_shown_to_the_agent_where_they_are_enabled() {
    let paths = |settings: &[&str]| -> Vec<String> {
        let objects = render(settings);
        let container = &agent(&objects)["containers"][0];
        let given = |flag: &str| {
            let find = |argument: &Value| argument.as_str()?.strip_prefix(flag).map(str::to_owned);
            container["args"].as_array().unwrap().iter().find_map(find)
        };
        let (Some(file), Some(directory)) = (given("--plugin-config-file="), given("--plugin-bin-dir="))
        else {
            return Vec::new();
        };
        let source = |path: &str| -> Option<String> {
            let mounts = container["volumeMounts"].as_array().unwrap();
            let mount = mounts.iter().find(|mount| mount["mountPath"] == path)?;
            assert_eq!(mount["readOnly"], true);
            let volumes = agent(&objects)["volumes"].as_array().unwrap();
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let source = [&volume["hostPath"]["path"], &volume["configMap"]["name"]];
            source.iter().find_map(|source| source.as_str()).map(str::to_owned)
        };
        let (folder, _) = file.rsplit_once('/').unwrap();
        let places = [&directory, folder, &file, "/etc/ssl/certs", "/root/.aws"];
        places.iter().filter_map(|place| source(place)).collect()
    };
    let (on, programs) =
        ("daemon.credentialProvider.enable=true", "daemon.credentialProvider.hostPath=/opt/plugins");
    assert!(paths(&[]).is_empty() && paths(&[programs]).is_empty());
    assert_eq!(paths(&[on, programs]), ["/opt/plugins", "credential-provider-config"]);
    let more = ["configFile=/etc/plugins.yaml", "authorities=/etc/ssl/certs", "awsCredentialsDir=/home/aws"];
    let more = more.map(|value| format!("daemon.credentialProvider.{value}"));
    let settings: Vec<&str> = [on, programs].into_iter().chain(more.iter().map(String::as_str)).collect();
    assert_eq!(paths(&settings), ["/opt/plugins", "/etc/plugins.yaml", "/etc/ssl/certs", "/home/aws"]);
}

#[test]
fn the_agent_writes_nothing_without_a_policy_over_it_and_reads_no_secret() {
    let objects = render(&[]);
    let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
    let roles = of_kind(&objects, "ClusterRole").into_iter().chain(of_kind(&objects, "Role"));
    let rules: Vec<&Value> = roles
        .filter(|role| role["metadata"]["name"] == "kruise-daemon-role")
        .flat_map(|role| role["rules"].as_array().unwrap())
        .collect();
    for rule in &rules {
        assert!(!holds(&rule["resources"], "secrets"), "{rule:#}");
        let reads = ["get", "list", "watch"];
        if rule["verbs"].as_array().unwrap().iter().all(|verb| reads.contains(&verb.as_str().unwrap())) {
            continue;
        }
        for resource in rule["resources"].as_array().unwrap() {
            let (whole, _) =
                resource.as_str().unwrap().split_once('/').unwrap_or((resource.as_str().unwrap(), ""));
            let part = format!("{whole}/*");
            let covers = |policy: &&&Value| {
                let covered = &policy["spec"]["matchConstraints"]["resourceRules"][0];
                covered["apiGroups"] == rule["apiGroups"]
                    && holds(&covered["resources"], whole)
                    && (resource == whole || holds(&covered["resources"], part.as_str()))
            };
            assert_eq!(policies.iter().filter(covers).count(), 1, "{resource}");
        }
    }
    let bindings = of_kind(&objects, "ValidatingAdmissionPolicyBinding");
    for policy in policies {
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let binds = |binding: &&&Value| binding["spec"]["policyName"] == policy["metadata"]["name"];
        let binding = bindings.iter().find(binds).unwrap();
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    }
}
