//! The agent against a real API server and a runtime without containers. The kubelet and the controller are played.

use std::time::Duration;

use api::kinds::nodepodprobe::{NodePodProbe, ProbeState};
use cri::messages::{ExecSyncRequest, ExecSyncResponse};
use kit::fake_runtime::Asked;
use kit::{wait_for, wait_until};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::testing::{Node, reported, server};

/// A node with its agent, and Pods whose UID is made of their name.
struct Site {
    node: Node,
    namespace: String,
    probes: Api<DynamicObject>,
    runtime: Runtime,
}

impl Site {
    /// An agent whose commands say their second word and fail where the first is `fail`.
    async fn open(pods: &Value) -> Self {
        let server = server().await;
        let namespace = server.namespace("probes").await;
        let mut node = Node::new();
        node.runtime.answer_commands(run_command);
        let (client, runtimes, ..) = node.tools().await;
        let probes = Api::all_with(server.client(), &NODE_POD_PROBES.api_resource());
        let metrics = Metrics::register(&node.registry).unwrap();
        let runtime = runtimes[0].clone();
        let name = node.name.clone();
        let probing =
            Probing { client, node: name, runtime: runtime.clone(), metrics, synced: Arc::default() };
        node.agent.spawn(run(probing));
        let site = Self { node, namespace, probes, runtime };
        let manifest = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": site.node.name},
            "spec": {"podProbes": site.named(pods)}});
        kit::objects::create(&server.client(), manifest).await.unwrap();
        site
    }

    /// The Pods with namespace and UID.
    fn named(&self, pods: &Value) -> Value {
        let mut pods = pods.clone();
        for pod in pods.as_array_mut().unwrap() {
            pod["namespace"] = json!(self.namespace);
            pod["uid"] = json!(self.uid(pod["name"].as_str().unwrap()));
        }
        pods
    }

    fn uid(&self, pod: &str) -> String {
        format!("{pod}-on-{}", self.node.name)
    }

    /// The kubelet starts the container of a Pod for the `number`th time.
    fn runs(&self, pod: &str, number: u32) {
        self.node.runtime.run_container([&self.namespace, pod, &self.uid(pod)], "main", number, &[]);
    }

    async fn want(&self, pods: &Value) {
        let patch = json!({"spec": {"podProbes": self.named(pods)}});
        let params = PatchParams::default();
        self.probes.patch(&self.node.name, &params, &Patch::Merge(&patch)).await.unwrap();
    }

    /// The status, once it has this of the first Pod: state and message of each probe, in the order of their names.
    async fn tells(&self, expected: &[(&str, &str)]) -> Vec<ProbeState> {
        let states = |object: &DynamicObject| -> Vec<ProbeState> {
            let node: NodePodProbe = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
            node.status.pod_probe_statuses.into_iter().flat_map(|pod| pod.probe_states).collect()
        };
        let is_so = |object: &DynamicObject| {
            let states = states(object);
            let known = states.iter().map(|state| (state.state.as_str(), state.message.as_str()));
            known.eq(expected.iter().copied())
        };
        states(&wait_until(&self.probes, &self.node.name, &format!("tells {expected:?}"), is_so).await)
    }

    /// Waits until so many commands have run.
    async fn ran(&self, count: usize) {
        wait_for("commands to run", async || match self.node.runtime.asked().len() {
            ran if ran < count => Err(ran),
            _ => Ok(()),
        })
        .await;
    }

    /// The value of a counter whose line contains these words.
    fn counted(&self, words: &[&str]) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.node.registry.gather()).unwrap();
        let is_meant = |line: &&str| !line.starts_with('#') && words.iter().all(|word| line.contains(word));
        let lines = text.lines().filter(is_meant);
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

fn run_command(request: &ExecSyncRequest) -> ExecSyncResponse {
    let said = request.cmd[1].clone().into_bytes();
    match request.cmd[0].as_str() {
        "fail" => ExecSyncResponse { stderr: said, exit_code: 1, ..ExecSyncResponse::default() },
        _ => ExecSyncResponse { stdout: said, ..ExecSyncResponse::default() },
    }
}

/// A Pod with these probes.
fn pod(name: &str, probes: &[(&str, Value)]) -> Value {
    let probes: Vec<Value> = probes
        .iter()
        .map(|(name, probe)| json!({"name": name, "containerName": "main", "probe": probe}))
        .collect();
    json!({"name": name, "IP": "127.0.0.1", "probes": probes})
}

fn exec(command: [&str; 2]) -> Value {
    json!({"exec": {"command": command}, "timeoutSeconds": 60})
}

#[tokio::test]
async fn a_command_that_fails_three_times_is_a_failure_and_says_why() {
    let mut probe = exec(["fail", "busy"]);
    probe["failureThreshold"] = json!(3);
    probe["periodSeconds"] = json!(8);
    let site = Site::open(&json!([pod("web", &[("a#b", probe)])])).await;
    site.runs("web", 0);
    site.tells(&[("Unknown", "")]).await;
    site.tells(&[("Failed", "busy")]).await;
    let command = Asked::Exec(format!("main-0-of-{}", site.uid("web")), vec!["fail".into(), "busy".into()]);
    let asked = site.node.runtime.asked();
    assert!(asked.len() >= 3 && asked.iter().all(|asked| *asked == command), "{asked:?}");
    assert_eq!(reported(&site.namespace, "Pod", "web", "KruiseProbeFailed").await, "busy");
    assert!(site.counted(&["kruise_daemon_probe_total", "exec", "failed"]) >= 3);
    assert_eq!(site.counted(&["kruise_daemon_probe_workers "]), 1);
}

#[tokio::test]
async fn two_probes_of_one_container_keep_their_results_and_nothing_more_is_written() {
    let probes = [("a#b", exec(["say", "yes"])), ("a#c", exec(["fail", "no"]))];
    let site = Site::open(&json!([pod("web", &probes)])).await;
    site.runs("web", 0);
    let states = site.tells(&[("Succeeded", "yes"), ("Failed", "no")]).await;
    assert_eq!((states[0].name.as_str(), states[1].name.as_str()), ("a#b", "a#c"));
    let events = ["kutter_api_requests_total", "resource=\"events\"", "verb=\"create\""];
    let written = || (site.counted(&["nodepodprobes/status"]), site.counted(&events));
    for (reason, note) in [("KruiseProbeSucceeded", "yes"), ("KruiseProbeFailed", "no")] {
        assert_eq!(reported(&site.namespace, "Pod", "web", reason).await, note);
    }
    let before = written();
    site.ran(site.node.runtime.asked().len() + 6).await;
    assert_eq!(written(), before);
    // What leaves the spec leaves the status.
    site.want(&json!([pod("web", &probes[1..])])).await;
    site.tells(&[("Failed", "no")]).await;
    site.want(&json!([])).await;
    site.tells(&[]).await;
}

#[tokio::test]
async fn a_container_that_starts_again_is_unknown_until_its_first_result() {
    let mut probe = exec(["say", "yes"]);
    probe["initialDelaySeconds"] = json!(15);
    let site = Site::open(&json!([pod("web", &[("a#b", probe.clone())])])).await;
    site.runs("web", 0);
    let first = site.tells(&[("Succeeded", "yes")]).await;
    site.runs("web", 1);
    site.tells(&[("Unknown", "")]).await;
    let second = site.tells(&[("Succeeded", "yes")]).await;
    let since = |states: &[ProbeState]| states[0].last_transition_time.clone().unwrap().timestamp().unwrap();
    assert!(since(&second) > since(&first));
    // Another period is heeded at once, and costs no result.
    probe["periodSeconds"] = json!(1000);
    let before = site.node.runtime.asked().len();
    site.want(&json!([pod("web", &[("a#b", probe)])])).await;
    site.ran(before + 1).await;
    assert_eq!(
        site.tells(&[("Succeeded", "yes")]).await[0].last_transition_time,
        second[0].last_transition_time
    );
}

#[tokio::test]
async fn requests_and_connections_go_to_the_address_of_the_pod() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            // A mere connection says nothing.
            let read = stream.read(&mut request).await.unwrap_or(0);
            let says = if request[..read].starts_with(b"GET /well") { "200 OK" } else { "503 No" };
            let answer = format!("HTTP/1.1 {says}\r\ncontent-length: 4\r\n\r\nbody");
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    // A socket that does not listen keeps its port from other tests.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap().port();
    let http =
        |path: &str| json!({"httpGet": {"path": path, "port": open, "scheme": "HTTP"}, "timeoutSeconds": 60});
    let probes = [
        ("a#1", http("/well")),
        ("a#2", http("/ill")),
        ("a#3", json!({"tcpSocket": {"port": open}, "timeoutSeconds": 60})),
        ("a#4", json!({"tcpSocket": {"port": closed}, "timeoutSeconds": 60})),
    ];
    let mut without = pod("web", &probes[2..3]);
    without["IP"] = json!("");
    let site = Site::open(&json!([without])).await;
    site.runs("web", 0);
    site.tells(&[("Unknown", "")]).await;
    site.want(&json!([pod("web", &probes)])).await;
    let refused = format!("dial tcp 127.0.0.1:{closed}: Connection refused (os error 111)");
    let ill = "HTTP probe failed with statuscode: 503";
    site.tells(&[("Succeeded", "body"), ("Failed", ill), ("Succeeded", ""), ("Failed", &refused)]).await;
    // A container that has ended is not asked, although its port is open.
    site.runtime.stop(&format!("main-0-of-{}", site.uid("web")), Duration::ZERO).await.unwrap();
    site.tells(&[("Failed", "Container(main) is Non-running"); 4]).await;
    serving.abort();
}

#[tokio::test]
async fn probes_that_run_at_the_same_time_share_their_questions_to_the_runtime() {
    let names: Vec<String> = (0..10).map(|number| format!("web-{number}")).collect();
    let probes = [("a#b", exec(["say", "b"])), ("a#c", exec(["say", "c"]))];
    let pods: Vec<Value> = names.iter().map(|name| pod(name, &probes)).collect();
    let site = Site::open(&json!([])).await;
    names.iter().for_each(|name| site.runs(name, 0));
    site.want(&json!(pods)).await;
    site.ran(80).await;
    let asked = |method: &str| site.counted(&["kruise_daemon_cri_requests_total", method]);
    assert_eq!(asked("ContainerStatus"), 10);
    // One before the containers are old enough, some more in a second of which a part has begun.
    assert!(asked("ListContainers") <= 20, "{}", asked("ListContainers"));
    assert!(site.counted(&["nodepodprobes/status"]) <= 4);
}
