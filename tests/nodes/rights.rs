//! The chart's roles against what the program asks of the API server (docs/behaviour/server.md#rights).

use std::collections::BTreeSet;

use kit::builders::{pod, workload};
use kit::{objects, wait_within};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::site::{NAMESPACE, Site, TIMEOUT, trial};

/// Group, resource with subresource, verb.
type Right = (String, String, String);

/// Rights that only rare turns of events need, which this test does not bring about: a repeated Event, a Pod
/// that was missed and is evicted, a claim whose creation was not answered, and a namespace or ReplicaSet that
/// was made so recently that it is not cached yet. The finalizers are never asked for: the admission plugin
/// OwnerReferencesPermissionEnforcement, where it is on, wants them of clients that write owner references that
/// block a deletion.
const RARE: [(&str, &str, &str); 24] = [
    // An agent asks for a pull Secret only where its node lacks the image.
    ("authentication.k8s.io", "tokenreviews", "create"),
    // A NodeImage that changed while it was written to, a Node that is deleted, and a list that owns jobs.
    ("apps.kruise.io", "nodeimages", "get"),
    ("apps.kruise.io", "nodeimages", "delete"),
    ("apps.kruise.io", "nodepodprobes", "delete"),
    ("apps.kruise.io", "imagelistpulljobs/finalizers", "update"),
    ("events.k8s.io", "events", "patch"),
    ("", "pods/eviction", "create"),
    ("", "persistentvolumeclaims", "get"),
    ("", "namespaces", "get"),
    ("apps", "replicasets", "get"),
    ("apps", "statefulsets", "get"),
    // Pods that lack the newest sidecars.
    ("apps.kruise.io", "sidecarsets", "get"),
    // A Pod that is adopted.
    ("apps.kruise.io", "daemonsets", "get"),
    // A child of an AdvancedCronJob whose creation was not answered.
    ("batch", "jobs", "get"),
    ("apps.kruise.io", "broadcastjobs", "get"),
    ("apps.kruise.io", "imagelistpulljobs", "get"),
    ("apps.kruise.io", "advancedcronjobs/finalizers", "update"),
    ("apps.kruise.io", "broadcastjobs/finalizers", "update"),
    ("apps.kruise.io", "uniteddeployments/finalizers", "update"),
    ("apps.kruise.io", "daemonsets/finalizers", "update"),
    ("apps.kruise.io", "statefulsets/finalizers", "update"),
    ("apps.kruise.io", "clonesets/finalizers", "update"),
    ("apps.kruise.io", "sidecarsets/finalizers", "update"),
    // It is for kinds that nobody knows here.
    ("*", "*/scale", "get"),
];

fn right(request: &Value) -> Right {
    let reference = &request["objectRef"];
    let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let resource = match reference["subresource"].as_str() {
        Some(subresource) => format!("{}/{subresource}", text("resource")),
        None => text("resource"),
    };
    (text("apiGroup"), resource, request["verb"].as_str().unwrap_or_default().to_owned())
}

/// Rights that roles grant and nobody used. Of a rule about our own kinds one kind represents all: they
/// are treated alike.
async fn unused(site: &Site, used: &BTreeSet<Right>) -> Vec<Right> {
    let role = async |path: &str| site.get(&format!("/apis/rbac.authorization.k8s.io/v1/{path}")).await;
    let roles = [
        role("clusterroles/kruise-manager-role").await,
        role("clusterroles/kruise-certs-role").await,
        role(&format!("namespaces/{NAMESPACE}/roles/kruise-webhook-role")).await,
    ];
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut idle = Vec::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        let (groups, resources) = (words(&rule["apiGroups"]), words(&rule["resources"]));
        for verb in words(&rule["verbs"]) {
            let granted: Vec<Right> = resources
                .iter()
                .map(|resource| (groups[0].clone(), resource.clone(), verb.clone()))
                .collect();
            let ours = groups[0].ends_with("kruise.io");
            if ours && granted.iter().any(|right| used.contains(right)) {
                continue;
            }
            idle.extend(granted.into_iter().filter(|right| !used.contains(right)));
        }
    }
    idle.retain(|(group, resource, verb)| {
        !RARE.contains(&(group.as_str(), resource.as_str(), verb.as_str()))
    });
    idle
}

/// Rights that requests lacked, and no later request for the same had: the API server learns of the roles of a fresh
/// install later than the program asks.
fn missing(requests: &[Value]) -> Vec<Right> {
    let code = |request: &Value| request["responseStatus"]["code"].as_u64().unwrap_or_default();
    let same = |request: &Value, later: &Value| {
        let (object, other) = (&request["objectRef"], &later["objectRef"]);
        right(request) == right(later)
            && object["namespace"] == other["namespace"]
            && (object["name"].is_null() || object["name"] == other["name"])
    };
    let lacked = requests.iter().enumerate().filter(|(_, request)| code(request) == 403);
    let missing = lacked.filter(|(position, request)| {
        let mut later = requests[position + 1..].iter();
        !later.any(|later| same(request, later) && code(later) < 400)
    });
    missing.map(|(_, request)| right(request)).collect()
}

/// Brings a SidecarSet to a new revision, back to the first one, and to a limit of one revision.
async fn roll_back_and_forth(site: &Site, set: &str) {
    let images = |image: &str| json!([{"op": "replace", "path": "/spec/containers/0/image", "value": image}]);
    let limit = json!([{"op": "add", "path": "/spec/revisionHistoryLimit", "value": 1}]);
    for patch in [images("busybox:1.35"), images("busybox:1.36"), limit] {
        let patch = format!("--patch={patch}");
        site.server().kubectl(["patch", "sidecarset", set, "--type=json", &patch]).await.success();
        wait_within(TIMEOUT, "the SidecarSet to be looked at", async || {
            let set = site.get(&format!("/apis/apps.kruise.io/v1beta1/sidecarsets/{set}")).await;
            let observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            if observed { Ok(()) } else { Err(set["status"].clone()) }
        })
        .await;
    }
}

/// Runs kubectl in a namespace, with its words in one text and a patch where there is one.
async fn kubectl(site: &Site, namespace: &str, words: &str, patch: &Value) -> String {
    let patch = format!("--patch={patch}");
    let patch = (words.starts_with("patch ")).then_some(patch.as_str());
    let words = words.split_whitespace().chain(["--namespace", namespace]).chain(patch);
    site.server().kubectl(words).await.success()
}

fn clone_set(namespace: &str, name: &str, spec: Value) -> Value {
    let set =
        workload("apps.kruise.io/v1beta1", "CloneSet", name).in_namespace(namespace).with("/spec", spec);
    set.matching("set", name)
        .with("/spec/template/spec/terminationGracePeriodSeconds", 0)
        .container("main", "busybox:1.35")
        .having("command", json!(["sleep", "infinity"]))
        .having("resources", json!({"requests": {"cpu": "10m"}}))
        .build()
}

/// Waits until a CloneSet counts that many Pods at its newest revision.
async fn counted(site: &Site, namespace: &str, set: &str, field: &str, count: usize) {
    wait_within(TIMEOUT, "the CloneSet to be counted", async || {
        let set = site.kruise(namespace, &format!("clonesets/{set}")).await;
        let status = &set["status"];
        let observed = status["observedGeneration"] == set["metadata"]["generation"];
        if observed && status[field] == count { Ok(()) } else { Err(status.clone()) }
    })
    .await;
}

/// A CloneSet whose images are pulled ahead, whose Pods are resized, whose revision is hidden, and one of whose
/// Pods is named.
async fn roll_a_clone_set(site: &Site, namespace: &str) {
    let strategy = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2}});
    let set = clone_set(namespace, "rolled", json!({"replicas": 4, "updateStrategy": strategy}));
    objects::create(&site.server().client(), set).await.unwrap();
    counted(site, namespace, "rolled", "availableReplicas", 4).await;
    let image =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "busybox:1.36"}]);
    kubectl(site, namespace, "patch cloneset rolled --type=json", &image).await;
    counted(site, namespace, "rolled", "updatedAvailableReplicas", 4).await;
    let cpu = "/spec/template/spec/containers/0/resources/requests/cpu";
    let cpu = json!([{"op": "replace", "path": cpu, "value": "20m"}]);
    kubectl(site, namespace, "patch cloneset rolled --type=json", &cpu).await;
    counted(site, namespace, "rolled", "updatedAvailableReplicas", 4).await;

    // A revision that is not found any more, whose name is taken when it is made anew.
    let set = site.kruise(namespace, "clonesets/rolled").await;
    let revision = set["status"]["updateRevision"].as_str().unwrap();
    kubectl(site, namespace, &format!("label controllerrevision {revision} set-"), &Value::Null).await;
    let pods = site.core(namespace, "pods?labelSelector=set=rolled").await;
    let pod = &pods["items"][0]["metadata"]["name"];
    let spec = json!({"spec": {"replicas": 3, "scaleStrategy": {"podsToDelete": [pod]}}});
    kubectl(site, namespace, "patch cloneset rolled --type=merge", &spec).await;
    wait_within(TIMEOUT, "the revision to be read", async || {
        let mut requests = site.audit().into_iter();
        let read = ("apps".to_owned(), "controllerrevisions".to_owned(), "get".to_owned());
        if requests.any(|request| right(&request) == read) { Ok(()) } else { Err("not yet") }
    })
    .await;
    kubectl(site, namespace, &format!("label controllerrevision {revision} set=rolled"), &Value::Null).await;
    counted(site, namespace, "rolled", "replicas", 3).await;
}

/// A CloneSet that restarts on a ConfigMap and a Secret, which it takes in.
async fn restart_on(site: &Site, namespace: &str) {
    let client = site.server().client();
    for kind in ["ConfigMap", "Secret"] {
        let metadata = json!({"name": "settings", "namespace": namespace});
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"a": "Yg=="}});
        objects::create(&client, object).await.unwrap();
    }
    let mut set = clone_set(namespace, "restarting", json!({"replicas": 0}));
    set["metadata"]["annotations"] = json!({"kutter.io/restart-on": "configmap/settings,secret/settings"});
    objects::create(&client, set).await.unwrap();
    let applied =
        "wait cloneset/restarting --for=jsonpath={.metadata.annotations.kutter\\.io/configuration-applied}";
    kubectl(site, namespace, &format!("{applied} --timeout=4m"), &Value::Null).await;
}

/// Tasks that no agent has answered for long, and a list of images that is pulled with a Secret.
async fn pull(site: &Site, namespace: &str) {
    let client = site.server().client();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": "Yg=="},
        "metadata": {"name": "pull", "namespace": namespace}});
    objects::create(&client, secret).await.unwrap();
    let task = json!({"tag": "1", "createdAt": "2026-01-01T00:00:00Z",
        "pullPolicy": {"ttlSecondsAfterFinished": 9000}});
    let silent = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": format!("silent-{namespace}"), "labels": {"apps.kruise.io/fake-nodeimage": "true"}},
        "spec": {"images": {"busybox": {"tags": [task]}}},
    });
    objects::create(&client, silent).await.unwrap();
    // The jobs are to find it: they would soon be over without it.
    let failed = "--for=jsonpath={.status.failed}=1 --timeout=4m";
    site.kubectl(&format!("wait nodeimage/silent-{namespace} {failed}")).await.success();
    let list = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob",
        "metadata": {"name": "images", "namespace": namespace},
        "spec": {"images": ["busybox:1.35", "busybox:1.36"], "pullSecrets": ["pull"],
            "completionPolicy": {"type": "Always"}},
    });
    objects::create(&client, list).await.unwrap();
    wait_within(TIMEOUT, "the jobs to be handed out", async || {
        let jobs = site.kruise(namespace, "imagepulljobs").await;
        let served =
            jobs["items"].as_array().unwrap().iter().filter(|job| job["status"]["active"] == 1).count();
        if served == 2 { Ok(()) } else { Err(jobs["items"].clone()) }
    })
    .await;
    // Their finalizers and copies go, and then they.
    let fewer = json!({"spec": {"images": ["busybox:1.35"]}});
    kubectl(site, namespace, "patch imagelistpulljob images --type=merge", &fewer).await;
    kubectl(site, namespace, "delete imagelistpulljob images", &Value::Null).await;
    let silent = format!("delete nodeimage silent-{namespace}");
    site.kubectl(&silent).await.success();
}

/// A CloneSet with a claim and spread Pods. Its first Pod is deleted by somebody else and held by a
/// finalizer, so that the claim is handed over; the second one is deleted with its claim when nodes were ranked.
async fn claim_and_spread(site: &Site, namespace: &str) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}}}});
    let set = clone_set(namespace, "claimed", json!({"replicas": 1, "volumeClaimTemplates": [claim]}));
    let mut set = set;
    set["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]);
    objects::create(&site.server().client(), set).await.unwrap();
    counted(site, namespace, "claimed", "replicas", 1).await;
    let pods = site.core(namespace, "pods?labelSelector=set=claimed").await;
    let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let hold = format!("patch pod {pod} --type=merge");
    kubectl(site, namespace, &hold, &held(json!(["example.com/held"]))).await;
    kubectl(site, namespace, &format!("delete pod {pod} --wait=false"), &Value::Null).await;
    wait_within(TIMEOUT, "the claim to be handed over", async || {
        let claims = site.core(namespace, "persistentvolumeclaims").await;
        let owners = claims["items"].as_array().unwrap().iter();
        let mut owners = owners.map(|claim| &claim["metadata"]["ownerReferences"][0]["kind"]);
        if owners.any(|kind| kind == "Pod") { Ok(()) } else { Err(claims["items"].clone()) }
    })
    .await;
    kubectl(site, namespace, &hold, &held(Value::Null)).await;
    counted(site, namespace, "claimed", "replicas", 1).await;
    kubectl(site, namespace, "scale cloneset claimed --replicas=0", &Value::Null).await;
    counted(site, namespace, "claimed", "replicas", 0).await;
}

/// A restart that no node agent carries out, which ends after a minute, and a job that adds a container. Both go when
/// they are over.
async fn restart_and_debug(site: &Site, namespace: &str, pod: &str) {
    let client = site.server().client();
    let metadata = |name: &str| json!({"name": name, "namespace": namespace});
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": metadata("restart"),
        "spec": {"podName": pod, "containers": [{"name": "first"}], "ttlSecondsAfterFinished": 0},
    });
    objects::create(&client, request).await.unwrap();
    let container = json!({"name": "debug", "image": "busybox:1.36", "command": ["true"]});
    let job = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "EphemeralJob", "metadata": metadata("debug"),
        "spec": {"selector": {"matchLabels": {"app": pod}}, "ttlSecondsAfterFinished": 0,
            "template": {"ephemeralContainers": [container]}},
    });
    objects::create(&client, job).await.unwrap();
    kubectl(site, namespace, "wait ejob/debug --for=delete --timeout=4m", &Value::Null).await;
}

/// A marker whose probe is written for an agent that does not exist, and taken away again.
async fn probe(site: &Site, namespace: &str, pod: &str) {
    let probe = json!({"name": "idle", "containerName": "first", "podConditionType": "example.com/idle",
        "probe": {"exec": {"command": ["true"]}}});
    let marker = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker",
        "metadata": {"name": "idle", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": pod}}, "probes": [probe]},
    });
    objects::create(&site.server().client(), marker).await.unwrap();
    let counted = "wait podprobemarker/idle --for=jsonpath={.status.matchedPods}=1 --timeout=4m";
    kubectl(site, namespace, counted, &Value::Null).await;
    kubectl(site, namespace, "delete podprobemarker idle --timeout=4m", &Value::Null).await;
}

/// A StatefulSet whose Pod remembers its Node, and then its zone, and then nothing; a DaemonSet for no Node; and a job
/// that is deleted when it is over.
async fn remember_and_broadcast(site: &Site, namespace: &str) {
    let client = site.server().client();
    let annotation = |key: &str, value: Value| {
        let mut annotations = json!({});
        annotations[format!("kruise.io/{key}")] = value;
        json!({"metadata": {"annotations": annotations}})
    };
    let set = workload("apps.kruise.io/v1beta1", "StatefulSet", "numbered")
        .in_namespace(namespace)
        .matching("app", "numbered")
        .annotation("kruise.io/auto-generate-persistent-pod-state", "true")
        .annotation("kruise.io/preferred-persistent-topology", "kubernetes.io/hostname")
        .replicas(1)
        .with("/spec/template/spec/terminationGracePeriodSeconds", 0)
        .container("main", "nginx:1.25");
    objects::create(&client, set).await.unwrap();
    let known = "wait persistentpodstate/numbered --for=jsonpath={.status.podStates.numbered-0.nodeName} --timeout=4m";
    kubectl(site, namespace, "wait persistentpodstate/numbered --for=create --timeout=4m", &Value::Null)
        .await;
    kubectl(site, namespace, known, &Value::Null).await;
    let set = "patch statefulset.apps.kruise.io numbered --type=merge";
    let zone = annotation("required-persistent-topology", json!("kubernetes.io/os"));
    kubectl(site, namespace, set, &zone).await;
    let changed = "wait persistentpodstate/numbered --for=jsonpath={.spec.requiredPersistentTopology.keys} --timeout=4m";
    kubectl(site, namespace, changed, &Value::Null).await;
    let nothing = annotation("auto-generate-persistent-pod-state", Value::Null);
    kubectl(site, namespace, set, &nothing).await;
    kubectl(site, namespace, "wait persistentpodstate/numbered --for=delete --timeout=4m", &Value::Null)
        .await;
    kubectl(site, namespace, "delete statefulset.apps.kruise.io numbered", &Value::Null).await;

    let set = workload("apps.kruise.io/v1beta1", "DaemonSet", "nowhere")
        .in_namespace(namespace)
        .matching("app", "nowhere")
        .with("/spec/template/spec/nodeSelector", json!({"example.com/nowhere": "true"}))
        .container("main", "nginx:1.25");
    objects::create(&client, set).await.unwrap();
    let reported =
        "wait daemonset.apps.kruise.io/nowhere --for=jsonpath={.status.updateRevision} --timeout=4m";
    kubectl(site, namespace, reported, &Value::Null).await;
    let job = workload("apps.kruise.io/v1beta1", "BroadcastJob", "once")
        .in_namespace(namespace)
        .with("/spec/completionPolicy", json!({"ttlSecondsAfterFinished": 0}))
        .with("/spec/template/spec/restartPolicy", "Never")
        .container("main", "busybox:1.36")
        .having("command", json!(["true"]));
    objects::create(&client, job).await.unwrap();
    kubectl(site, namespace, "wait broadcastjob/once --for=delete --timeout=4m", &Value::Null).await;
}

/// Children of each kind, each of which replaces the one before, and none of which is kept.
async fn repeat(site: &Site, namespace: &str) {
    let client = site.server().client();
    let containers = json!([{"name": "main", "image": "busybox:1.36", "command": ["sleep", "60"]}]);
    let pod = json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
    let images = json!({"images": ["busybox:1.36"], "completionPolicy": {"type": "Always"}});
    for (template, spec) in
        [("jobTemplate", pod.clone()), ("broadcastJobTemplate", pod), ("imageListPullJobTemplate", images)]
    {
        let mut cron_job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob",
            "metadata": {"name": template.to_lowercase(), "namespace": namespace},
            "spec": {"schedule": "@every 4s", "concurrencyPolicy": "Replace", "successfulJobsHistoryLimit": 0, "template": {}},
        });
        cron_job["spec"]["template"][template] = json!({"spec": spec});
        objects::create(&client, cron_job).await.unwrap();
    }
    wait_within(TIMEOUT, "children of each kind to be replaced", async || {
        let deleted: BTreeSet<Right> = site.audit().iter().map(right).collect();
        let missing =
            [("batch", "jobs"), ("apps.kruise.io", "broadcastjobs"), ("apps.kruise.io", "imagelistpulljobs")];
        let is_missing = |(group, resource): &(&str, &str)| {
            !deleted.contains(&((*group).to_owned(), (*resource).to_owned(), "delete".to_owned()))
        };
        let missing: Vec<_> = missing.into_iter().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    })
    .await;
    kubectl(site, namespace, "delete advancedcronjobs --all", &Value::Null).await;
}

/// UnitedDeployments with workloads of each kind, which are created, adopted, updated and deleted.
async fn divide(site: &Site, namespace: &str) {
    let client = site.server().client();
    let resources = [
        ("statefulSetTemplate", "apps/v1", "statefulsets"),
        ("advancedStatefulSetTemplate", "apps.kruise.io/v1beta1", "statefulsets"),
        ("cloneSetTemplate", "apps.kruise.io/v1beta1", "clonesets"),
        ("deploymentTemplate", "apps/v1", "deployments"),
    ];
    for (template, version, plural) in resources {
        let resource = format!("{plural}.{}", version.split('/').next().unwrap());
        let app = template.to_lowercase();
        let united = format!("uniteddeployment {app}");
        let labels = json!({"app": app});
        let containers = json!([{"name": "main", "image": "nginx:1.25"}]);
        let spec = json!({"serviceName": "web", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}});
        let mut object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
            "metadata": {"name": app, "namespace": namespace},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {}, "topology": {"subsets": [{"name": "a"}]}},
        });
        object["spec"]["template"][template] = json!({"metadata": {"labels": labels}, "spec": spec});
        objects::create(&client, object).await.unwrap();
        let child = wait_within(TIMEOUT, "the workload of a subset", async || {
            let path = format!("/apis/{version}/namespaces/{namespace}/{plural}?labelSelector=app={app}");
            let list = site.get(&path).await;
            list["items"][0]["metadata"]["name"].as_str().map(str::to_owned).ok_or(list)
        })
        .await;
        // It is left behind, and adopted.
        let nobody = json!({"metadata": {"ownerReferences": null}});
        kubectl(site, namespace, &format!("patch {resource} {child} --type=merge"), &nobody).await;
        let owner = "jsonpath={.metadata.ownerReferences[0].kind}=UnitedDeployment";
        kubectl(
            site,
            namespace,
            &format!("wait {resource} {child} --for={owner} --timeout=4m"),
            &Value::Null,
        )
        .await;
        kubectl(site, namespace, &format!("patch {united} --type=merge"), &json!({"spec": {"replicas": 1}}))
            .await;
        kubectl(
            site,
            namespace,
            &format!("wait {resource} {child} --for=jsonpath={{.spec.replicas}}=1 --timeout=4m"),
            &Value::Null,
        )
        .await;
        let nothing = json!({"spec": {"topology": {"subsets": []}}});
        kubectl(site, namespace, &format!("patch {united} --type=merge"), &nothing).await;
        kubectl(site, namespace, &format!("wait {resource} {child} --for=delete --timeout=4m"), &Value::Null)
            .await;
        kubectl(site, namespace, &format!("delete {united}"), &Value::Null).await;
    }
}

/// Budgets over workloads of each kind that is watched, and one that refuses.
async fn protect(site: &Site, namespace: &str) {
    let client = site.server().client();
    let budget = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": metadata, "spec": spec})
    };
    let kinds = [
        ("v1", "ReplicationController"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
    ];
    for (number, (api_version, kind)) in kinds.into_iter().enumerate() {
        let target = json!({"apiVersion": api_version, "kind": kind, "name": "none"});
        let budget = budget(&format!("of-{number}"), json!({"targetRef": target, "maxUnavailable": 1}));
        objects::create(&client, budget).await.unwrap();
    }
    let kept = pod("kept").in_namespace(namespace).label("app", "kept").container("main", "nginx:1.25");
    objects::create(&client, kept).await.unwrap();
    kubectl(site, namespace, "wait pod/kept --for=condition=Ready --timeout=4m", &Value::Null).await;
    let selector = json!({"matchLabels": {"app": "kept"}});
    let spec = json!({"selector": selector, "protectTotalReplicas": 1, "maxUnavailable": 0});
    objects::create(&client, budget("kept", spec)).await.unwrap();
    let pods = objects::namespaced(&client, &objects::kind("v1", "Pod"), namespace);
    wait_within(TIMEOUT, "the budget to refuse", async || {
        match pods.delete("kept", &DeleteParams::default().dry_run()).await {
            Err(refusal) if refusal.to_string().contains("pub unavailable allowed is negative") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await;
    kubectl(site, namespace, "delete podunavailablebudgets --all", &Value::Null).await;
}

#[tokio::test]
async fn every_right_of_the_chart_is_used_and_none_is_missing() {
    let Some(site) = Site::as_found().await else { return };
    // An uninstall takes the rights from replicas that are still draining: that is not counted.
    let earlier = site.audit().len();
    site.install().await;
    let client = site.server().client();
    let namespace = site.namespace_with_sidecars("rights").await;
    let waiting = pod("waiting")
        .in_namespace(&namespace)
        .label("app", "waiting")
        .annotation("apps.kruise.io/container-launch-priority", "Ordered")
        .readiness_gate("KruisePodReady")
        .container("first", "nginx:1.25")
        .container("second", "nginx:1.26")
        .having("env", json!([{"name": "SERVE_PORT", "value": "81"}]));
    objects::create(&client, waiting).await.unwrap();
    site.kubectl(&format!("wait pod/waiting -n {namespace} --for=condition=Ready --timeout=4m"))
        .await
        .success();
    restart_and_debug(&site, &namespace, "waiting").await;
    probe(&site, &namespace, "waiting").await;
    roll_back_and_forth(&site, &format!("set-{namespace}")).await;
    let job = pod("job")
        .in_namespace(&namespace)
        .with("/spec/restartPolicy", "Never")
        .container("main", "busybox:1.36")
        .having("command", json!(["true"]))
        .container("agent", "busybox:1.36")
        .having("command", json!(["sleep", "infinity"]))
        .having("env", json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]));
    objects::create(&client, job).await.unwrap();
    let sets = site.server().namespace("rights-sets").await;
    roll_a_clone_set(&site, &sets).await;
    claim_and_spread(&site, &sets).await;
    remember_and_broadcast(&site, &sets).await;
    repeat(&site, &sets).await;
    divide(&site, &sets).await;
    protect(&site, &sets).await;
    pull(&site, &sets).await;
    restart_on(&site, &sets).await;
    kubectl(&site, &sets, "delete clonesets --all", &Value::Null).await;
    // Counted are Pods, and where there are none, claims.
    let empty = site.server().namespace("empty").await;
    for name in [&namespace, &empty] {
        let label = format!("label namespace {name} policy.kruise.io/delete-protection=Cascading");
        site.kubectl(&label).await.success();
    }
    site.kubectl(&format!("delete namespace {namespace}")).await.failure();
    site.kubectl(&format!("delete namespace {empty} --wait=false")).await.success();

    // What the server has to put back.
    site.kubectl("delete mutatingwebhookconfigurations kruise-mutating-webhook-configuration")
        .await
        .success();
    site.kubectl("delete validatingwebhookconfigurations kruise-validating-webhook-configuration")
        .await
        .success();
    site.kubectl(&format!("delete secret kruise-webhook-certs -n {NAMESPACE}")).await.success();
    site.wait_registered().await;
    site.wait_injected(&trial(&namespace)).await;
    // Definitions with objects that may be stored in an older version; the next leader rewrites them.
    for kind in ["sidecarsets.apps", "podunavailablebudgets.policy"] {
        let words = ["patch", "crd", &format!("{kind}.kruise.io"), "--subresource=status", "--type=merge"];
        let versions = r#"--patch={"status":{"storedVersions":["v1alpha1","v1beta1"]}}"#;
        site.server().kubectl(words.iter().copied().chain([versions])).await.success();
    }
    let budget = objects::create(
        &client,
        json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
            "metadata": {"name": "budget", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        }),
    );
    budget.await.unwrap();
    // From the third Pod on there is no slot, which is checked once more.
    let spread = |name: &str| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"targetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "divided"},
                "subsets": [{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]},
        })
    };
    objects::create(&client, spread("spread")).await.unwrap();
    let containers = json!([{"name": "main", "image": "none.invalid/none:1"}]);
    let divided = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "divided", "namespace": namespace},
        "spec": {"parallelism": 0, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    });
    objects::create(&client, divided).await.unwrap();
    // No Pod comes before its WorkloadSpread is known.
    site.wait_known_spread(&spread("second")).await;
    let words = ["patch", "job", "divided", "-n", &namespace, r#"--patch={"spec":{"parallelism":6}}"#];
    site.server().kubectl(words).await.success();
    site.kubectl(&format!("delete pods --all -n {NAMESPACE} --wait=false")).await.success();

    wait_within(TIMEOUT, "every right to be used", async || {
        let used = site.audit().iter().map(right).collect();
        let idle = unused(&site, &used).await;
        if idle.is_empty() { Ok(()) } else { Err(idle) }
    })
    .await;
    site.wait_registered().await;
    let missing = missing(&site.audit()[earlier..]);
    assert!(missing.is_empty(), "rights are missing: {missing:?}");
}
