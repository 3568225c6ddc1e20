//! Objects that are made from a few words (docs/behaviour/kubectl-kruise.md#create).

use serde_json::{Map, Value, json};

/// A job, or a BroadcastJob.
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
        let text = |pointer: &str| cron_job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
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
    /// How long a Pod is not ready before, in seconds.
    pub unready_grace_period_seconds: i64,
    /// How long a container has to run to count as restarted, in seconds.
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
    let pod_name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let of_pod = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
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

/// A Service for the Pods of a CloneSet.
#[derive(Debug)]
pub struct Exposure<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its port.
    pub port: u16,
    /// The port of the Pods: a number or a name; the same as its own where none is given.
    pub target_port: Option<&'a str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: &'a str,
    /// `ClusterIP`, `NodePort` or `LoadBalancer`.
    pub kind: &'a str,
}

impl Exposure<'_> {
    /// The Service.
    ///
    /// # Errors
    /// What to say to the user.
    pub fn service(&self, clone_set: &Value) -> Result<Value, String> {
        let is_there = |value: &&Value| value.as_object().is_some_and(|members| !members.is_empty());
        let expressions = clone_set.pointer("/spec/selector/matchExpressions").and_then(Value::as_array);
        if expressions.is_some_and(|expressions| !expressions.is_empty()) {
            return Err("couldn't convert expressions to a selector: a Service only has labels".to_owned());
        }
        let labels = clone_set.pointer("/spec/selector/matchLabels").filter(is_there);
        let labels = labels.ok_or("the selector of the CloneSet has no matchLabels")?;
        let target = self.target_port.map_or_else(
            || json!(self.port),
            |port| port.parse::<u16>().map_or_else(|_| json!(port), |port| json!(port)),
        );
        let mut metadata = json!({"name": self.name});
        if let (Some(labels), Some(members)) =
            (clone_set.pointer("/metadata/labels").filter(is_there), metadata.as_object_mut())
        {
            members.insert("labels".to_owned(), labels.clone());
        }
        Ok(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"type": self.kind, "selector": labels,
                "ports": [{"port": self.port, "protocol": self.protocol, "targetPort": target}]}}))
    }
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
    fn a_service_has_the_labels_of_the_selector() {
        let clone_set = json!({"metadata": {"labels": {"team": "t"}}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        let exposure =
            Exposure { name: "web", port: 80, target_port: Some("http"), protocol: "TCP", kind: "ClusterIP" };
        let service = exposure.service(&clone_set).unwrap();
        let expected = json!({"type": "ClusterIP", "selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}]});
        assert_eq!(service["spec"], expected);
        assert_eq!(service["metadata"], json!({"name": "web", "labels": {"team": "t"}}));
        let odd = json!({"spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{}]}}});
        assert!(exposure.service(&odd).is_err());
        assert!(exposure.service(&json!({})).is_err());
    }
}
