//! What the chart renders, with the real Helm and no cluster.

mod daemon;
mod installation;

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::product;

const CASCADING: &str =
    "featureGates=ResourcesDeletionProtection=true\\,DeletionProtectionForCRDCascadingGate=true";
const EXTERNAL: &str = "featureGates=EnableExternalCerts=true";
/// The gate of Rollouts.
pub(crate) const ROLLOUTS: &str = "featureGates=Rollouts=true";
const PROTECTED: &str = "featureGates=ResourcesDeletionProtection=true";
const PROTECTED_BY_POLICIES: &str =
    "featureGates=ResourcesDeletionProtection=true\\,KruiseDaemon=false,protection.mode=Policy";
const NO_DAEMON: &str = "featureGates=KruiseDaemon=false";
/// Values with which the claims below must hold.
const COMBINATIONS: [&[&str]; 8] = [
    &[],
    &[NO_DAEMON],
    &[CASCADING],
    &[EXTERNAL, "externalCerts.annotations.issuer=mine"],
    &["installation.namespace=elsewhere", "installation.createNamespace=false"],
    &[
        "manager.hostNetwork=true",
        "manager.webhook.port=9443",
        "manager.metrics.port=9080",
        "manager.healthProbe.port=9000",
    ],
    &[
        "networkPolicy.enabled=true",
        "serviceMonitor.enabled=true",
        "prometheusRule.enabled=true",
        "grafanaDashboard.enabled=true",
        "podDisruptionBudget.enabled=false",
    ],
    &["manager.drainSeconds=45", "webhookConfiguration.timeoutSeconds=12"],
];

fn template(arguments: impl IntoIterator<Item = String>) -> Output {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kutter");
    let mut helm = Command::new(kit::binaries::path("helm"));
    helm.args(["template", "kutter", chart]).args(arguments).output().unwrap()
}

pub(crate) fn render(values: &[&str]) -> Vec<Value> {
    let output = template(values.iter().map(|value| format!("--set={value}")));
    assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    documents(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn versions_of_kubernetes_that_are_not_supported_are_refused() {
    for (version, values, refusal) in [
        ("1.28.9", NO_DAEMON, Some("chart requires kubeVersion")),
        ("1.29.0", NO_DAEMON, None),
        ("1.29.0", "manager.replicas=2", Some("the node agent needs Kubernetes 1.30")),
        ("1.30.0-gke.100", "manager.replicas=2", None),
        ("1.29.0", PROTECTED_BY_POLICIES, Some("protection.mode=Policy needs Kubernetes 1.30")),
        ("1.30.0", PROTECTED_BY_POLICIES, None),
    ] {
        let output = template([format!("--kube-version={version}"), format!("--set={values}")]);
        let error = String::from_utf8_lossy(&output.stderr);
        let is_expected = refusal.map_or(output.status.success(), |refusal| error.contains(refusal));
        assert!(is_expected, "{version} {values}: {error}");
    }
}

/// A released chart knows the digest of its image. It is not that of an image of one's own.
#[test]
fn the_image_is_pulled_by_its_digest_unless_a_tag_is_chosen() {
    let digest = format!("manager.image.digest=sha256:{}", "0".repeat(64));
    let image = |values: &[&str]| {
        let deployment = one(&render(values), "Deployment").clone();
        deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    let pinned = format!("kutter/manager:{}@sha256:{}", env!("CARGO_PKG_VERSION"), "0".repeat(64));
    assert_eq!(image(&[&digest]), pinned);
    assert_eq!(image(&[&digest, "manager.image.tag=mine"]), "kutter/manager:mine");
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(Value::is_object).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

pub(crate) fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of_kind(objects, kind);
    assert_eq!(found.len(), 1, "{kind}");
    found[0]
}

fn manager(objects: &[Value]) -> &Value {
    &one(objects, "Deployment")["spec"]["template"]["spec"]
}

fn holds<T: ?Sized>(list: &Value, item: &T) -> bool
where
    Value: PartialEq<T>,
{
    list.as_array().is_some_and(|list| list.iter().any(|one| *one == *item))
}

#[test]
fn no_webhook_entry_is_in_the_chart() {
    for values in COMBINATIONS {
        let objects = render(values);
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configuration = one(&objects, kind);
            assert!(configuration.get("webhooks").is_none(), "{values:?}: {configuration:#}");
        }
    }
}

/// docs/behaviour/api-and-registration.md#terms-of-others.
#[test]
fn the_configurations_say_whether_aks_is_left_out() {
    let aks = json!({"kutter.io/aks-integration": "true"});
    let both = json!({"kutter.io/aks-integration": "true", "issuer": "mine"});
    let issuer = json!({"issuer": "mine"});
    let (aks_value, issuer_value) =
        ("webhookConfiguration.aksIntegration=true", "externalCerts.annotations.issuer=mine");
    for (values, annotations) in [
        (&[ROLLOUTS][..], &Value::Null),
        (&[ROLLOUTS, aks_value], &aks),
        (&[ROLLOUTS, issuer_value], &issuer),
        (&[ROLLOUTS, aks_value, issuer_value], &both),
    ] {
        let objects = render(values);
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configurations = of_kind(&objects, kind);
            assert_eq!(configurations.len(), 2);
            for configuration in configurations {
                assert_eq!(&configuration["metadata"]["annotations"], annotations, "{values:?}");
            }
        }
        // It concerns webhooks alone.
        let definition = &of_kind(&objects, "CustomResourceDefinition")[0]["metadata"]["annotations"];
        assert!(definition.get("kutter.io/aks-integration").is_none(), "{definition:#}");
    }
}

/// docs/behaviour/deletion-protection.md#protection-policies.
#[test]
fn policies_protect_where_gate_and_mode_want_it() {
    let policies = |objects: &[Value]| -> Vec<Value> {
        let policies = of_kind(objects, "ValidatingAdmissionPolicy").into_iter();
        let name = |policy: &Value| policy["metadata"]["name"].as_str().unwrap().to_owned();
        policies.filter(|policy| name(policy).starts_with("kruise-delete-protection-")).cloned().collect()
    };
    for (values, count, by_policies) in [
        (&[][..], 0, false),
        (&[PROTECTED], 2, false),
        (&["featureGates=AllBeta=true"], 2, false),
        (&["featureGates=AllBeta=true\\,ResourcesDeletionProtection=false"], 0, false),
        (&[PROTECTED, "protection.mode=Webhook"], 0, false),
        (&[PROTECTED, "protection.mode=Both"], 2, false),
        (&[PROTECTED_BY_POLICIES], 2, true),
        (&["protection.mode=Policy"], 0, false),
    ] {
        let objects = render(values);
        assert_eq!(policies(&objects).len(), count, "{values:?}");
        let args = &manager(&objects)["containers"][0]["args"];
        assert_eq!(holds(args, "--protection-by-policies"), by_policies, "{values:?}");
    }
    let output = template(["--set=protection.mode=policy".to_owned()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("must be Webhook, Policy or Both"));

    // They leave out what the entries of the webhooks leave out.
    let excluded =
        ["webhookConfiguration.excludedNamespaces={batch}", "webhookConfiguration.aksIntegration=true"];
    for policy in policies(&render(&[&[PROTECTED], &excluded[..]].concat())) {
        let expression = policy["spec"]["matchConditions"][1]["expression"].as_str().unwrap();
        assert!(expression.ends_with(r#"in ["kube-system","batch"])"#), "{expression}");
        let terms = &policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"];
        let aks = json!([
            {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
            {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
        ]);
        assert_eq!(*terms, aks);
    }
}

#[test]
fn the_namespace_admits_the_network_of_the_host_where_it_is_wanted() {
    for (values, level) in [
        (&[][..], "privileged"),
        (&[NO_DAEMON], "restricted"),
        (&[NO_DAEMON, "manager.hostNetwork=true"], "privileged"),
    ] {
        let objects = render(values);
        let mut namespaces = of_kind(&objects, "Namespace").into_iter();
        let ours = namespaces.find(|namespace| namespace["metadata"]["name"] == "kruise-system").unwrap();
        assert_eq!(ours["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], level);
    }
}

/// That an account may ask whose token it is and what that account may, and that somebody may read metrics.
fn judges(objects: &[Value], account: &str) -> bool {
    let roles = of_kind(objects, "ClusterRole");
    let role = |name: &str| roles.iter().find(|role| role["metadata"]["name"] == name);
    let rules = role(&format!("{account}-role")).unwrap()["rules"].as_array().unwrap();
    let may_ask = ["tokenreviews", "subjectaccessreviews"].iter().all(|resource| {
        rules.iter().any(|rule| holds(&rule["resources"], *resource) && holds(&rule["verbs"], "create"))
    });
    may_ask
        && role("kruise-metrics-reader")
            .is_some_and(|role| holds(&role["rules"][0]["nonResourceURLs"], "/metrics"))
}

#[test]
fn protected_metrics_bring_the_rights_to_judge_and_to_read_them() {
    let objects = render(&["manager.metrics.secure=true", "serviceMonitor.enabled=true"]);
    assert!(holds(&manager(&objects)["containers"][0]["args"], "--metrics-secure"));
    assert!(judges(&objects, "kruise-manager"));
    assert!(!judges(&objects, "kruise-daemon"), "those of the agent are another matter");
    assert_eq!(one(&objects, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"], "https");
}

#[test]
fn authorities_of_clients_come_from_a_config_map() {
    let objects = render(&["clientCertificates.configMap=authorities", "clientCertificates.names={a,b}"]);
    let pod = manager(&objects);
    let args = &pod["containers"][0]["args"];
    for argument in ["--client-ca-file=/clients/ca.crt", "--client-allowed-name=a", "--client-allowed-name=b"]
    {
        assert!(holds(args, argument), "{args:#}");
    }
    assert!(holds(&pod["volumes"], &json!({"name": "clients", "configMap": {"name": "authorities"}})));
}

#[test]
fn a_gate_brings_its_rights_in_every_form_that_the_program_understands() {
    let may_terminate = |gates: &str| {
        let objects = render(&[&format!("featureGates={gates}")]);
        let mut roles = of_kind(&objects, "ClusterRole").into_iter();
        let role = roles.find(|role| role["metadata"]["name"] == "kruise-manager-role").unwrap();
        let mut rules = role["rules"].as_array().unwrap().iter();
        rules.any(|rule| {
            holds(&rule["resources"], "containerrecreaterequests") && holds(&rule["verbs"], "create")
        })
    };
    for on in
        ["SidecarTerminator=true", "SidecarTerminator=1", "A=true\\, SidecarTerminator=T", "AllAlpha=True"]
    {
        assert!(may_terminate(on), "{on}");
    }
    for off in ["", "SidecarTerminator=false", "SidecarTerminator", "NoSidecarTerminator=true"] {
        assert!(!may_terminate(off), "{off}");
    }
}

/// docs/behaviour/resourcedistribution.md#feature-gate.
#[test]
fn only_the_gate_of_resource_distributions_brings_rights_on_all_secrets() {
    for (gates, expected) in [("", 0), ("ResourceDistributionGate=true", 1), ("AllBeta=true", 1)] {
        let objects = render(&[&format!("featureGates={gates}")]);
        let rules =
            of_kind(&objects, "ClusterRole").into_iter().flat_map(|role| role["rules"].as_array().unwrap());
        assert_eq!(rules.filter(|rule| holds(&rule["resources"], "secrets")).count(), expected, "{gates}");
    }
}

/// docs/behaviour/in-place-update.md#configuration-that-changes
#[test]
fn only_the_gate_of_configuration_brings_rights_to_watch_secrets_and_config_maps() {
    for (gates, expected) in [("", 0), ("RestartOnConfiguration=true", 1)] {
        let objects = render(&[&format!("featureGates={gates}")]);
        let rules =
            of_kind(&objects, "ClusterRole").into_iter().flat_map(|role| role["rules"].as_array().unwrap());
        let both = rules.filter(|rule| {
            holds(&rule["resources"], "secrets")
                && holds(&rule["resources"], "configmaps")
                && rule["verbs"] == json!(["get", "list", "watch"])
        });
        assert_eq!(both.count(), expected, "{gates}");
    }
}

/// docs/installation.md#rollouts
#[test]
fn only_the_gate_of_rollouts_brings_their_definitions_registrations_and_rights() {
    let rule = "rollouts.rules[0].apiGroups={example.com}";
    for (gates, is_on) in
        [("", false), ("Rollouts=false", false), ("Rollouts=true", true), ("AllAlpha=true", true)]
    {
        let objects = render(&[&format!("featureGates={gates}"), rule]);
        let text = serde_json::to_string(&objects).unwrap();
        assert_eq!(text.contains("rollouts.kruise.io"), is_on, "{gates}");
        assert_eq!(text.contains("example.com"), is_on, "{gates}");
        let count = |kind: &str| of_kind(&objects, kind).len();
        let expected = if is_on { (22, 2, 2) } else { (18, 1, 1) };
        let configurations = (count("MutatingWebhookConfiguration"), count("ValidatingWebhookConfiguration"));
        assert_eq!(
            (count("CustomResourceDefinition"), configurations.0, configurations.1),
            expected,
            "{gates}"
        );
    }
    let objects = render(&[ROLLOUTS]);
    for configuration in of_kind(&objects, "MutatingWebhookConfiguration") {
        assert!(configuration.get("webhooks").is_none(), "{configuration:#}");
    }
    let roles = of_kind(&objects, "ClusterRole");
    let may = |role: &str, group: &str, resource: &str, verb: &str| {
        let role = roles.iter().find(|one| one["metadata"]["name"] == role).unwrap();
        let mut rules = role["rules"].as_array().unwrap().iter();
        rules.any(|rule| {
            holds(&rule["apiGroups"], group)
                && holds(&rule["resources"], resource)
                && holds(&rule["verbs"], verb)
        })
    };
    for (group, resource, verbs) in [
        ("rollouts.kruise.io", "batchreleases", "get list watch create patch delete"),
        ("rollouts.kruise.io", "rollouts/status", "patch"),
        ("apps", "deployments", "get list watch create patch delete"),
        ("apps", "replicasets", "get list watch create patch delete"),
        ("apps", "statefulsets", "get list watch patch"),
        ("apps", "daemonsets", "get list watch patch"),
        ("apps", "controllerrevisions", "get list"),
        ("apps.kruise.io", "clonesets", "get list watch patch"),
        ("apps.kruise.io", "statefulsets", "get list watch patch"),
        ("apps.kruise.io", "daemonsets", "get list watch patch"),
        ("autoscaling", "horizontalpodautoscalers", "get list patch"),
        ("", "services", "get list watch create patch delete"),
        ("", "pods", "get list watch patch delete"),
        ("", "configmaps", "get"),
        ("networking.k8s.io", "ingresses", "get list watch create patch delete"),
        ("gateway.networking.k8s.io", "httproutes", "get list watch patch"),
    ] {
        for verb in verbs.split(' ') {
            assert!(may("kruise-manager-role", group, resource, verb), "{verb} {resource} of {group}");
        }
    }
    assert!(may("aggregate-kruise-view", "rollouts.kruise.io", "rollouts", "get"));
    assert!(!may("aggregate-kruise-view", "rollouts.kruise.io", "rollouts/status", "patch"));
    assert!(may("aggregate-kruise-edit", "rollouts.kruise.io", "rollouts/status", "patch"));
}

/// docs/behaviour/server.md#rights.
#[test]
fn roles_have_no_wildcard_and_no_secrets_outside_the_install_namespace() {
    for values in COMBINATIONS.into_iter().chain([&[ROLLOUTS][..]]) {
        let objects = render(values);
        for role in of_kind(&objects, "ClusterRole").into_iter().chain(of_kind(&objects, "Role")) {
            for rule in role["rules"].as_array().unwrap() {
                let wild = ["apiGroups", "resources", "verbs"].iter().any(|field| holds(&rule[field], "*"));
                let cascading = values.contains(&CASCADING) && rule["verbs"] == serde_json::json!(["list"]);
                // How many replicas a workload of a kind of its own has.
                let scale = rule["resources"] == serde_json::json!(["*/scale"])
                    && rule["verbs"] == serde_json::json!(["get"]);
                assert!(!wild || cascading || scale, "{values:?}: {rule:#}");
                // Pull Secrets are read wherever they are, and copied to a namespace of their own.
                let pulls = role["kind"] == "ClusterRole"
                    && rule["verbs"] == serde_json::json!(["get", "list", "watch"])
                    || role["metadata"]["namespace"] == "kruise-daemon-config";
                let secrets = holds(&rule["resources"], "secrets") && !pulls;
                assert!(!secrets || role["kind"] == "Role", "{values:?}: {rule:#}");
                let named =
                    rule["resourceNames"].is_array() || rule["verbs"] == serde_json::json!(["create"]);
                assert!(!secrets || named, "{values:?}: {rule:#}");
            }
        }
    }
}

/// docs/behaviour/server.md#shutdown: draining and the longest call fit into the grace period.
#[test]
fn the_grace_period_is_longer_than_draining_and_the_longest_call() {
    for values in COMBINATIONS {
        let objects = render(values);
        let pod = manager(&objects);
        let seconds = |prefix: &str| -> u64 {
            let arguments = pod["containers"][0]["args"].as_array().unwrap().iter();
            let mut found = arguments.filter_map(|argument| argument.as_str()?.strip_prefix(prefix));
            found.next().unwrap().trim_end_matches('s').parse().unwrap()
        };
        let needed = seconds("--drain-duration=") + seconds("--webhook-timeout-seconds=");
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > needed, "{values:?}");
    }
}

/// docs/behaviour/server.md#installed-objects: one value, every place.
#[test]
fn a_port_is_set_in_one_place() {
    let objects = render(&["manager.webhook.port=9443", "networkPolicy.enabled=true"]);
    let container = &manager(&objects)["containers"][0];
    let environment = container["env"].as_array().unwrap();
    assert!(environment.iter().any(|one| one["name"] == "WEBHOOK_PORT" && one["value"] == "9443"));
    assert_eq!(container["ports"][0]["containerPort"], 9443);
    assert_eq!(one(&objects, "Service")["spec"]["ports"][0]["targetPort"], 9443);
    assert_eq!(one(&objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"], 9443);
    assert!(!serde_json::to_string(&objects).unwrap().contains("9876"));
}

/// docs/behaviour/server.md#who-may-connect
#[test]
fn only_named_addresses_may_connect_where_those_of_the_api_servers_are_known() {
    let servers = "networkPolicy.apiServers={10.0.0.1,fd00::1,10.1.0.0/28}";
    let agents = "networkPolicy.agents={10.2.0.0/16}";
    let prometheus = "networkPolicy.prometheus[0].namespaceSelector.matchLabels.team=metrics";
    let block = |cidr: &str| json!({"ipBlock": {"cidr": cidr}});
    let objects = render(&[servers, agents, prometheus]);
    let rules = &one(&objects, "NetworkPolicy")["spec"]["ingress"];
    let replicas = json!({"podSelector": {"matchLabels": {"control-plane": "controller-manager"}}});
    let expected = json!([
        {"ports": [{"port": 9876}], "from": [
            replicas, block("10.0.0.1/32"), block("fd00::1/128"), block("10.1.0.0/28"), block("10.2.0.0/16"),
        ]},
        {"ports": [{"port": 8080}], "from": [{"namespaceSelector": {"matchLabels": {"team": "metrics"}}}]},
        {"ports": [{"port": 8000}]},
    ]);
    assert_eq!(*rules, expected);
    let everybody =
        json!([{"ports": [{"port": 9876}]}, {"ports": [{"port": 8080}]}, {"ports": [{"port": 8000}]}]);
    let objects = render(&["networkPolicy.enabled=true"]);
    assert_eq!(one(&objects, "NetworkPolicy")["spec"]["ingress"], everybody);
    for off in [vec![], vec![servers, agents, "networkPolicy.enabled=false"]] {
        assert!(of_kind(&render(&off), "NetworkPolicy").is_empty());
    }
}

#[test]
fn the_namespace_is_set_in_one_place() {
    let objects = render(&["installation.namespace=elsewhere"]);
    assert!(!serde_json::to_string(&objects).unwrap().contains("kruise-system"));
}

#[test]
fn the_containers_are_restricted() {
    let objects = render(&[]);
    let job = one(&objects, "Job");
    for pod in [manager(&objects), &job["spec"]["template"]["spec"]] {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let context = &pod["containers"][0]["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    }
}

#[test]
fn an_external_issuer_fills_a_secret_that_we_do_not_ship() {
    assert!(of_kind(&render(&[EXTERNAL]), "Secret").is_empty());
    assert!(!of_kind(&render(&[]), "Secret").is_empty());
}

#[tokio::test]
async fn the_definitions_are_those_of_the_program() {
    let name = |definition: &Value| definition["metadata"]["name"].to_string();
    let definitions = |values: &[&str]| {
        let rendered = render(values);
        let mut rendered: Vec<Value> =
            of_kind(&rendered, "CustomResourceDefinition").into_iter().cloned().collect();
        for definition in &mut rendered {
            let annotations = definition["metadata"]["annotations"].as_object_mut().unwrap();
            assert_eq!(annotations.remove("helm.sh/resource-policy").unwrap(), "keep");
        }
        rendered.sort_by_key(name);
        rendered
    };
    let mut printed = documents(&product::run(&["crds"]).await.success());
    printed.sort_by_key(name);
    assert_eq!(printed.len(), 18);
    assert_eq!(definitions(&[]), printed);
    let mut with_rollouts = documents(&product::run(&["crds", "--rollouts"]).await.success());
    with_rollouts.sort_by_key(name);
    assert_eq!(with_rollouts.len(), 22);
    assert_eq!(definitions(&[ROLLOUTS]), with_rollouts);
    let mut with_paths = definitions(&["featureGates=EnableExternalCerts=true"]);
    with_paths.iter_mut().for_each(leave_path_out);
    assert_eq!(with_paths, printed);
}

/// With certificates of others the path of the conversion is plain; otherwise the server sets it.
fn leave_path_out(object: &mut Value) {
    if let Some(service) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
        assert_eq!(service.as_object_mut().unwrap().remove("path").unwrap(), "/convert");
    }
}

/// One source of truth: what `kutter manifests` prints is what the chart renders, without Helm's own marks.
#[tokio::test]
async fn the_manifests_of_the_program_are_those_of_the_chart() {
    let values = [
        "installation.namespace=elsewhere",
        "manager.image.repository=registry.example.com/kutter",
        "manager.image.tag=7",
        "manager.replicas=3",
    ];
    let mut rendered: Vec<Value> = render(&values)
        .into_iter()
        .filter(|object| object["metadata"]["annotations"].get("helm.sh/hook").is_none())
        .collect();
    for object in &mut rendered {
        // Helm alone keeps CRDs, so that what the program prints does not say so.
        if object["kind"] == "CustomResourceDefinition" {
            object["metadata"]["annotations"].as_object_mut().unwrap().remove("helm.sh/resource-policy");
        }
        for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(manager) = object.pointer_mut(&format!("{labels}/app.kubernetes.io~1managed-by")) {
                assert_eq!(manager.take(), "Helm");
                *manager = "kubectl".into();
            }
        }
    }
    let mut printed = documents(&product::run(&ELSEWHERE).await.success());
    let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    rendered.sort_by_key(key);
    printed.sort_by_key(key);
    assert_eq!(printed.iter().map(key).collect::<Vec<_>>(), rendered.iter().map(key).collect::<Vec<_>>());
    for (printed, rendered) in printed.iter().zip(&rendered) {
        assert_eq!(printed, rendered, "run `make generate`");
    }
}

const ELSEWHERE: [&str; 8] = [
    "manifests",
    "--crds",
    "--namespace",
    "elsewhere",
    "--image",
    "registry.example.com/kutter:7",
    "--replicas",
    "3",
];

/// `kutter manifests --crds | kubectl apply --server-side -f -`, and again.
#[tokio::test]
async fn the_manifests_can_be_applied_as_they_are() {
    let server = kit::ApiServer::start(kit::Options::default()).await;
    for arguments in [&["manifests", "--crds"][..], &["manifests", "--crds"], &ELSEWHERE] {
        let manifests = product::run(arguments).await.success();
        server.kubectl_with_input(["apply", "--server-side", "-f", "-"], &manifests).await.success();
    }
    for namespace in ["kruise-system", "elsewhere"] {
        let replicas = [
            "get",
            "deployment",
            "kruise-controller-manager",
            "-n",
            namespace,
            "-o",
            "jsonpath={.spec.replicas}",
        ];
        let wanted = if namespace == "elsewhere" { "3" } else { "2" };
        assert_eq!(server.kubectl(replicas).await.success(), wanted);
    }
}
