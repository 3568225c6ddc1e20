//! Objects that are made from a few words (docs/behaviour/kubectl-kruise.md#create).

use serde_json::{Map, Value, json};

use super::pods::{list, number, text};
use values::merge_patch::merge_patch;

/// A kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// A Job of Kubernetes.
    Job,
    /// A BroadcastJob.
    BroadcastJob,
}

impl JobKind {
    fn head(self) -> (&'static str, &'static str) {
        match self {
            Self::Job => ("batch/v1", "Job"),
            Self::BroadcastJob => ("apps.kruise.io/v1beta1", "BroadcastJob"),
        }
    }

    fn member(self) -> &'static str {
        if self == Self::Job { "jobTemplate" } else { "broadcastJobTemplate" }
    }

    fn in_status(self) -> &'static str {
        self.head().1
    }

    /// A job that runs an image.
    pub fn of_image(self, name: &str, image: &str, command: &[String]) -> Value {
        let (api_version, kind) = self.head();
        let mut container = json!({"name": name, "image": image});
        if let Some(members) = container.as_object_mut().filter(|_| !command.is_empty()) {
            members.insert("command".to_owned(), json!(command));
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}})
    }

    /// A job like those that an AdvancedCronJob runs.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn of_cron_job(self, name: &str, cron_job: &Value) -> Result<Value, String> {
        let text = |pointer: &str| text(cron_job, pointer);
        let member = format!("/spec/template/{}", self.member());
        let Some(template) = cron_job.pointer(&member).filter(|template| template.is_object()) else {
            let kind = if self == Self::Job { "job" } else { "broadcastjob" };
            return Err(format!("from must be a {kind} template, but got {}", text("/status/type")));
        };
        let kind_of_runs = text("/status/type");
        if !kind_of_runs.is_empty() && kind_of_runs != self.in_status() {
            return Err(format!("from must be a {} template, but got {kind_of_runs}", self.in_status()));
        }
        let (api_version, kind) = self.head();
        let mut annotations = Map::new();
        if let Some(given) = template.pointer("/metadata/annotations").and_then(Value::as_object) {
            annotations.clone_from(given);
        }
        annotations.insert("cronjob.kubernetes.io/instantiate".to_owned(), "manual".into());
        let mut metadata = json!({"name": name, "annotations": annotations, "ownerReferences": [{
            "apiVersion": text("/apiVersion"), "kind": "AdvancedCronJob",
            "name": text("/metadata/name"), "uid": text("/metadata/uid")}]});
        let labels = template.pointer("/metadata/labels").filter(|labels| labels.is_object());
        if let (Some(labels), Some(members)) = (labels, metadata.as_object_mut()) {
            members.insert("labels".to_owned(), labels.clone());
        }
        Ok(
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": template.get("spec")}),
        )
    }
}

/// How containers are restarted.
#[derive(Clone, Copy, Debug)]
pub struct RestartSettings {
    /// Seconds between marking the Pod not ready and restarting its containers.
    pub unready_grace_period_seconds: i64,
    /// Seconds that a container has to run to count as restarted.
    pub min_started_seconds: i64,
}

/// A request to restart containers of a Pod: those named, or all.
///
/// # Errors
/// What to say to the user.
pub fn restart_request(
    name: Option<&str>,
    pod: &Value,
    containers: &[String],
    settings: RestartSettings,
) -> Result<Value, String> {
    let pod_name = text(pod, "/metadata/name");
    let of_pod = list(pod, "/spec/containers");
    let known: Vec<&str> = of_pod.filter_map(|container| container.get("name")?.as_str()).collect();
    if let Some(unknown) = containers.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!(
            "container {unknown:?} not found in pod {pod_name:?}; it has {}",
            known.join(", ")
        ));
    }
    let meant: Vec<&str> =
        if containers.is_empty() { known } else { containers.iter().map(String::as_str).collect() };
    let meant: Vec<Value> = meant.into_iter().map(|name| json!({"name": name})).collect();
    let metadata = match name {
        Some(name) => json!({"name": name}),
        None => json!({"generateName": format!("{pod_name}-")}),
    };
    Ok(
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": metadata,
        "spec": {"podName": pod_name, "containers": meant,
            "strategy": {"failurePolicy": "Fail", "orderedRecreate": false,
                "unreadyGracePeriodSeconds": settings.unready_grace_period_seconds,
                "minStartedSeconds": settings.min_started_seconds},
            "activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 1800}}),
    )
}

/// How many Nodes pull at a time.
const PULLS: u32 = 10;

/// A job that pulls an image to the Nodes with these labels, or to all.
///
/// # Errors
/// What to say to the user.
pub fn pull_job(image: &str, selector: Option<&str>) -> Result<Value, String> {
    let mut labels = Map::new();
    for pair in selector.into_iter().flat_map(|selector| selector.split(',')) {
        let (key, value) = pair
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim_start_matches('=').trim()))
            .filter(|(key, _)| !key.is_empty() && !key.ends_with('!'))
            .ok_or_else(|| format!("a selector of nodes is KEY=VALUE,KEY=VALUE, not {pair:?}"))?;
        labels.insert(key.to_owned(), value.into());
    }
    let mut spec = json!({"image": image, "parallelism": PULLS,
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 3600}});
    if let Some(members) = spec.as_object_mut().filter(|_| !labels.is_empty()) {
        members.insert("selector".to_owned(), json!({"matchLabels": labels}));
    }
    Ok(json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
        "metadata": {"generateName": "pull-"}, "spec": spec}))
}

/// How far something is that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What to say to the user.
    pub message: String,
    /// Whether it succeeded, once it is over.
    pub end: Option<bool>,
}

/// How far a request to restart containers is.
pub fn restart_stage(request: &Value) -> Stage {
    let why = text(request, "/status/message");
    let states = list(request, "/status/containerRecreateStates");
    let states: Vec<(&str, &str)> = states
        .filter_map(|state| Some((state.get("name")?.as_str()?, state.get("phase")?.as_str()?)))
        .collect();
    let is_over = matches!(text(request, "/status/phase"), "Completed" | "Succeeded" | "Failed");
    let succeeded = states.iter().all(|(_, phase)| *phase == "Succeeded") && why.is_empty();
    let reported: Vec<String> = states.iter().map(|(name, phase)| format!("{name}: {phase}")).collect();
    let message = format!("{} {why}", reported.join(", ")).trim().to_owned();
    Stage { message, end: is_over.then_some(succeeded) }
}

/// How far a job that pulls an image is.
pub fn pull_stage(job: &Value) -> Stage {
    let [done, all, failed] =
        ["/status/succeeded", "/status/desired", "/status/failed"].map(|pointer| number(job, pointer));
    let message = format!("{done} of {all} nodes have it, {failed} failed");
    let is_over = job.pointer("/status/completionTime").is_some_and(|time| !time.is_null());
    Stage { message, end: is_over.then_some(failed == 0) }
}

/// The longest name of a Service.
const SERVICE_NAME: usize = 63;

/// A Service for the Pods of a CloneSet. What is empty was not given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exposure<'a> {
    /// Its name; that of the CloneSet where none is given.
    pub name: &'a str,
    /// Its ports, with commas between them.
    pub ports: &'a str,
    /// The port of the Pods: a number or a name; the same as its own where none is given.
    pub target_port: &'a str,
    /// `TCP`, `UDP` or `SCTP`; what containers say of the port where none is given.
    pub protocol: &'a str,
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    pub kind: &'a str,
    /// Labels of Pods, such as `app=web,tier=front`; those of the CloneSet's selector where none are given.
    pub selector: &'a str,
    /// Its own labels; those of the CloneSet where none are given.
    pub labels: &'a str,
    /// Its address in the cluster; `None` for none.
    pub cluster_ip: &'a str,
    /// An address outside the cluster.
    pub external_ip: &'a str,
    /// The address of its load balancer.
    pub load_balancer_ip: &'a str,
    /// `None` or `ClientIP`.
    pub session_affinity: &'a str,
    /// A JSON merge patch of the Service.
    pub overrides: &'a str,
    /// The name of its port, where it has one alone.
    pub port_name: Option<&'a str>,
}

impl Exposure<'_> {
    /// The Service.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn service(&self, clone_set: &Value) -> Result<Value, String> {
        let of_clone_set: String = text(clone_set, "/metadata/name").chars().take(SERVICE_NAME).collect();
        let mut metadata = Map::new();
        let name = if self.name.is_empty() { of_clone_set } else { self.name.to_owned() };
        metadata.insert("name".to_owned(), name.into());
        let labels = match self.labels {
            "" => clone_set.pointer("/metadata/labels").and_then(Value::as_object).cloned(),
            labels => Some(read_labels(labels)?),
        };
        let labels = labels.filter(|labels| !labels.is_empty());
        metadata.extend(labels.map(|labels| ("labels".to_owned(), labels.into())));
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": self.spec(clone_set)?});
        if self.overrides.is_empty() {
            return Ok(service);
        }
        let merged = merge_patch(&service.to_string(), self.overrides);
        let merged = merged.and_then(|json| serde_json::from_str(&json).map_err(|error| error.to_string()));
        let merged: Value = merged.map_err(|error| format!("invalid --overrides: {error}"))?;
        let is_same_kind =
            ["apiVersion", "kind"].iter().all(|member| merged.get(member) == service.get(member));
        if is_same_kind {
            Ok(merged)
        } else {
            Err("invalid --overrides: that is no Service any more".to_owned())
        }
    }

    fn spec(&self, clone_set: &Value) -> Result<Map<String, Value>, String> {
        let selector = match self.selector {
            "" => selector_labels(clone_set)?,
            selector => read_labels(selector)?,
        };
        let mut spec = Map::new();
        let mut put = |member: &str, value: Value| spec.insert(member.to_owned(), value);
        put("selector", selector.into());
        put("ports", self.ports(clone_set)?.into());
        let load_balancer_ip = if self.kind == "LoadBalancer" { self.load_balancer_ip } else { "" };
        if !matches!(self.session_affinity, "" | "None" | "ClientIP") {
            return Err(format!("unknown session affinity: {}", self.session_affinity));
        }
        let texts = [
            ("type", self.kind),
            ("clusterIP", self.cluster_ip),
            ("loadBalancerIP", load_balancer_ip),
            ("sessionAffinity", self.session_affinity),
        ];
        for (member, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            put(member, text.into());
        }
        if !self.external_ip.is_empty() {
            put("externalIPs", json!([self.external_ip]));
        }
        Ok(spec)
    }

    /// The ports, which have names where there are several.
    fn ports(&self, clone_set: &Value) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        let given: Vec<&str> = self.ports.split(',').map(str::trim).collect();
        for (index, port) in given.iter().enumerate() {
            let number: u16 = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
            let target = if self.target_port.is_empty() { port } else { self.target_port };
            let target = target.parse::<u16>().map_or_else(|_| json!(target), |port| json!(port));
            let protocols = match self.protocol {
                "" => protocols(clone_set, number),
                protocol => vec![protocol],
            };
            let place = index + 1;
            for protocol in &protocols {
                let mut made = Map::new();
                let name = match (protocols.len(), given.len()) {
                    (1, 1) => self.port_name.map(str::to_owned),
                    (1, _) => Some(format!("port-{place}")),
                    _ => Some(format!("port-{place}-{}", protocol.to_lowercase())),
                };
                made.extend(name.map(|name| ("name".to_owned(), name.into())));
                made.insert("port".to_owned(), number.into());
                made.insert("protocol".to_owned(), (*protocol).into());
                made.insert("targetPort".to_owned(), target.clone());
                all.push(made.into());
            }
        }
        Ok(all)
    }
}

/// The protocols that containers of a CloneSet speak at a port, each once; TCP where they name none.
fn protocols(clone_set: &Value, port: u16) -> Vec<&str> {
    let containers = list(clone_set, "/spec/template/spec/containers");
    let same = containers
        .flat_map(|container| list(container, "/ports"))
        .filter(|one| one.get("containerPort") == Some(&json!(port)));
    let mut protocols: Vec<&str> = Vec::new();
    for protocol in same.map(|one| one.get("protocol").and_then(Value::as_str).unwrap_or("TCP")) {
        if !protocols.contains(&protocol) {
            protocols.push(protocol);
        }
    }
    if protocols.is_empty() { vec!["TCP"] } else { protocols }
}

/// The labels that a CloneSet selects its Pods by.
fn selector_labels(clone_set: &Value) -> Result<Map<String, Value>, String> {
    if list(clone_set, "/spec/selector/matchExpressions").next().is_some() {
        return Err("couldn't convert expressions to a selector: a Service only has labels".to_owned());
    }
    let labels = clone_set.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let labels = labels.filter(|labels| !labels.is_empty()).cloned();
    labels.ok_or_else(|| "the selector of the CloneSet has no matchLabels".to_owned())
}

/// Reads `app=web,tier=front`.
fn read_labels(text: &str) -> Result<Map<String, Value>, String> {
    let mut labels = Map::new();
    for pair in text.split(',') {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, value)| !key.is_empty() && !value.contains('='))
            .ok_or_else(|| format!("unexpected label spec: {pair}"))?;
        labels.insert(key.to_owned(), value.into());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_made_of_images_and_of_cron_jobs() {
        let job = JobKind::Job.of_image("x", "busybox", &["true".to_owned()]);
        let container = json!({"name": "x", "image": "busybox", "command": ["true"]});
        assert_eq!(
            job["spec"]["template"]["spec"],
            json!({"containers": [container], "restartPolicy": "Never"})
        );
        let cron = json!({"apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "night", "uid": "u"}, "status": {"type": "BroadcastJob"},
            "spec": {"template": {"broadcastJobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 3}}}}});
        let job = JobKind::BroadcastJob.of_cron_job("now", &cron).unwrap();
        let expected = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "spec": {"parallelism": 3},
            "metadata": {"name": "now", "labels": {"a": "b"}, "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "name": "night", "uid": "u"}]}});
        assert_eq!(job, expected);
        let error = JobKind::Job.of_cron_job("now", &cron).unwrap_err();
        assert_eq!(error, "from must be a job template, but got BroadcastJob");
    }

    #[test]
    fn a_restart_names_containers_and_nothing_else() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "ports": [{}]}, {"name": "b"}]}});
        let settings = RestartSettings { unready_grace_period_seconds: 3, min_started_seconds: 3 };
        let all = restart_request(None, &pod, &[], settings).unwrap();
        assert_eq!(all["spec"]["containers"], json!([{"name": "a"}, {"name": "b"}]));
        assert_eq!(all["metadata"], json!({"generateName": "p-"}));
        let one = restart_request(Some("x"), &pod, &["b".to_owned()], settings).unwrap();
        assert_eq!(one["spec"]["containers"], json!([{"name": "b"}]));
        let error = restart_request(None, &pod, &["c".to_owned()], settings).unwrap_err();
        assert_eq!(error, r#"container "c" not found in pod "p"; it has a, b"#);
    }

    #[test]
    fn a_pull_goes_to_the_nodes_with_these_labels() {
        let job = pull_job("nginx:1", Some("pool=shop, zone==a")).unwrap();
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"pool": "shop", "zone": "a"}}));
        assert_eq!(pull_job("nginx:1", None).unwrap()["spec"].get("selector"), None);
        for selector in ["pool", "=x", "pool!=x", ""] {
            assert!(pull_job("nginx:1", Some(selector)).is_err(), "{selector}");
        }
    }

    #[test]
    fn restarts_are_over_when_they_say_so() {
        let request = |phase: &str, states: &[(&str, &str)], message: &str| {
            let states: Vec<Value> =
                states.iter().map(|(name, phase)| json!({"name": name, "phase": phase})).collect();
            let status = json!({"phase": phase, "containerRecreateStates": states, "message": message});
            restart_stage(&json!({"status": status}))
        };
        let stage = |message: &str, end| Stage { message: message.to_owned(), end };
        let two = [("a", "Succeeded"), ("b", "Recreating")];
        assert_eq!(request("Recreating", &two, ""), stage("a: Succeeded, b: Recreating", None));
        assert_eq!(request("Completed", &two[..1], ""), stage("a: Succeeded", Some(true)));
        assert_eq!(request("Completed", &two, ""), stage("a: Succeeded, b: Recreating", Some(false)));
        assert_eq!(request("Completed", &[], "no pod"), stage("no pod", Some(false)));
        assert_eq!(restart_stage(&json!({})), stage("", None));
    }

    #[test]
    fn pulls_are_over_at_their_completion_time() {
        let job = |failed: u8, time: Value| {
            pull_stage(
                &json!({"status": {"desired": 3, "succeeded": 2, "failed": failed, "completionTime": time}}),
            )
        };
        assert_eq!(job(0, Value::Null).end, None);
        assert_eq!(job(0, json!("2026-01-01T00:00:00Z")).end, Some(true));
        let failed = job(1, json!("2026-01-01T00:00:00Z"));
        assert_eq!((failed.message.as_str(), failed.end), ("2 of 3 nodes have it, 1 failed", Some(false)));
    }

    fn clone_set() -> Value {
        json!({"metadata": {"name": "web", "labels": {"team": "t"}}, "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [
                {"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
                {"ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 99, "protocol": "UDP"}]}, {}]}}}})
    }

    #[test]
    fn overrides_are_merged_into_the_service() {
        let exposure = Exposure { ports: "80", kind: "ClusterIP", ..Exposure::default() };
        let overriding = |overrides| Exposure { overrides, ..exposure }.service(&clone_set());
        let service = overriding(r#"{"metadata":{"labels":null},"spec":{"clusterIP":"None"}}"#).unwrap();
        assert_eq!(service["metadata"], json!({"name": "web"}));
        assert_eq!(
            (&service["spec"]["clusterIP"], &service["spec"]["type"]),
            (&json!("None"), &json!("ClusterIP"))
        );
        let error = overriding("{").unwrap_err();
        assert!(error.starts_with("invalid --overrides: the patch is not JSON"), "{error}");
        for overrides in ["[]", "null", r#"{"kind":"Pod"}"#] {
            assert_eq!(
                overriding(overrides).unwrap_err(),
                "invalid --overrides: that is no Service any more",
                "{overrides}"
            );
        }
        let named = Exposure { port_name: Some("default"), ..exposure }.service(&clone_set()).unwrap();
        assert_eq!(named["spec"]["ports"][0]["name"], "default");
    }

    #[test]
    fn a_service_has_the_labels_of_the_selector() {
        let exposure =
            Exposure { ports: "80", target_port: "http", kind: "ClusterIP", ..Exposure::default() };
        let service = exposure.service(&clone_set()).unwrap();
        let expected = json!({"type": "ClusterIP", "selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]});
        assert_eq!(service["spec"], expected);
        assert_eq!(service["metadata"], json!({"name": "web", "labels": {"team": "t"}}));
        let odd = json!({"spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{}]}}});
        assert!(exposure.service(&odd).is_err());
        assert!(exposure.service(&json!({})).is_err());
        let selecting = Exposure { selector: "tier=front", ..exposure };
        assert_eq!(selecting.service(&odd).unwrap()["spec"]["selector"], json!({"tier": "front"}));
    }

    #[test]
    fn ports_have_the_protocols_of_containers_and_names_where_there_are_several() {
        let ports = |ports, protocol| {
            let exposure = Exposure { ports, protocol, ..Exposure::default() };
            Ok::<_, String>(exposure.service(&clone_set())?["spec"]["ports"].clone())
        };
        let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "protocol": protocol, "targetPort": port});
        assert_eq!(ports("99", "").unwrap(), json!([{"port": 99, "protocol": "UDP", "targetPort": 99}]));
        assert_eq!(ports("7", "").unwrap()[0]["protocol"], "TCP");
        let two = json!([port("port-1", 80, "TCP"), port("port-2", 99, "UDP")]);
        assert_eq!(ports("80,99", "").unwrap(), two);
        let both = json!([port("port-1-udp", 53, "UDP"), port("port-1-tcp", 53, "TCP")]);
        assert_eq!(ports("53", "").unwrap(), both);
        assert_eq!(ports("53", "SCTP").unwrap()[0]["protocol"], "SCTP");
        for odd in ["", "80,", "http", "70000"] {
            assert!(ports(odd, "").is_err(), "{odd}");
        }
    }

    #[test]
    fn addresses_and_affinity_are_those_of_the_flags() {
        let exposure = Exposure {
            name: "front",
            ports: "80",
            kind: "LoadBalancer",
            labels: "a=1,b=2",
            cluster_ip: "None",
            external_ip: "192.0.2.1",
            load_balancer_ip: "192.0.2.2",
            session_affinity: "ClientIP",
            ..Exposure::default()
        };
        let service = exposure.service(&clone_set()).unwrap();
        assert_eq!(service["metadata"], json!({"name": "front", "labels": {"a": "1", "b": "2"}}));
        let mut spec = service["spec"].clone();
        spec.as_object_mut().unwrap().retain(|member, _| !["selector", "ports"].contains(&member.as_str()));
        let expected = json!({"type": "LoadBalancer", "clusterIP": "None", "externalIPs": ["192.0.2.1"],
            "loadBalancerIP": "192.0.2.2", "sessionAffinity": "ClientIP"});
        assert_eq!(spec, expected);
        let inside = Exposure { kind: "ClusterIP", ..exposure };
        assert_eq!(inside.service(&clone_set()).unwrap()["spec"].get("loadBalancerIP"), None);
        for labels in ["a", "=1", "a=1=2"] {
            assert!(Exposure { labels, ..inside }.service(&clone_set()).is_err(), "{labels}");
        }
        let error = Exposure { session_affinity: "Always", ..inside }.service(&clone_set()).unwrap_err();
        assert_eq!(error, "unknown session affinity: Always");
    }
}
