//! Replicas of an earlier release are replaced by this one, one by one, and back again, while workloads are rolled out
//! (docs/behaviour/server.md#upgrade). `make test-upgrade` builds the earlier program.

mod subject;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kit::builders::{Object, object, sidecar_set, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::{ApiServer, wait_for};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::certificates::without_losing_a_call;
use crate::chronicle::Chronicle;
use crate::podunavailablebudget::{self, counted, establish};
use crate::product::{self, Options};
use crate::registration::{Replica, get};
use crate::support::{Shop, Stored, call, in_conflict, in_use, names};
use crate::{cloneset, daemonset, statefulset};
use subject::{Subject, image};

/// Long enough for a replica that has begun to lead to write to Pods, if it does so at all.
const QUIET: Duration = Duration::from_secs(4);
/// Pods of the CloneSet, as the budget counts them: one may be unavailable, and none is.
const CLONES: [i64; 4] = [1, 6, 5, 6];
/// Those in each of the two subsets.
const HALF: usize = 3;
/// Milliseconds that containers need until they are ready.
const READY_AFTER: &str = "500";
/// Between two Pods that come and go.
const PAUSE: Duration = Duration::from_millis(50);

/// Two replicas of the program, and what they manage.
struct Site<'s> {
    server: &'s ApiServer,
    shop: Shop,
    subjects: Vec<Subject>,
    budget: Stored,
    spread: Stored,
    /// What happened to the Pods.
    chronicle: Chronicle,
    /// The one that leads is the first.
    replicas: Vec<Replica>,
    /// Replicas that were told to stop.
    leaving: Vec<JoinHandle<()>>,
    /// How many rollouts there were.
    rollouts: usize,
    _nodes: FakeNodes,
}

impl<'s> Site<'s> {
    /// Both replicas run this program, and all rollouts are over.
    async fn open(server: &'s ApiServer, program: &Path) -> Self {
        product::install(server).await;
        define(server, program).await;
        // While there is one replica, every review comes to the one that knows the new objects.
        let first = replica(server, program).await;
        in_use(server).await;
        podunavailablebudget::asks(server, true).await;
        cloneset::asks(server).await;
        statefulset::asks(server).await;
        daemonset::asks(server).await;

        let shop = Shop::open_on(server, "upgrade").await;
        let nodes = fake_nodes::Options::nodes(4).binding_pods().in_namespace(&shop.namespace);
        let nodes = FakeNodes::start(shop.client.clone(), nodes).await;
        let mesh =
            sidecar_set(&shop.name("mesh")).matching("app", "clones").container("mesh", "busybox:1.36");
        let log = shop.sidecar_set("log").container("log", &image(0));
        let log = Stored::create(&shop.client, log.having("podInjectPolicy", "AfterAppContainer")).await;
        shop.stock([shop.selecting(mesh)]).await;
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "clones"});
        let budget = establish(&shop, json!({"targetRef": target, "maxUnavailable": 1})).await;
        let spread = object("apps.kruise.io/v1beta1", "WorkloadSpread", "ws")
            .in_namespace(&shop.namespace)
            .with("/spec/targetRef", target)
            .with("/spec/subsets", json!([{"name": "a", "maxReplicas": HALF}, {"name": "b"}]));
        let rival = spread.clone().with("/metadata/name", "rival");
        let spread = Stored::create(&shop.client, spread).await;
        in_conflict(&shop.client, rival).await;
        let subjects = subjects(&shop, log).await;
        for subject in &subjects {
            subject.reaches(0, subject.pods).await;
        }

        let second = replica(server, program).await;
        let chronicle = Chronicle::begin(&shop.client, &shop.namespace).await;
        let (replicas, leaving) = (vec![first, second], Vec::new());
        let site = Self {
            server,
            shop,
            subjects,
            budget,
            spread,
            chronicle,
            replicas,
            leaving,
            rollouts: 0,
            _nodes: nodes,
        };
        site.is_intact().await;
        site
    }

    /// The replica that leads leaves, the other one takes over, and one of this program joins.
    async fn replace(&mut self, program: &Path) {
        self.leaving.push(tokio::spawn(self.replicas.remove(0).stop()));
        let leader = &self.replicas[0].product;
        wait_for(
            "the other replica to lead",
            async || {
                if leader.leads().await { Ok(()) } else { Err(leader.log()) }
            },
        )
        .await;
        self.replicas.push(replica(self.server, program).await);
    }

    /// [`replace`](Self::replace) in the middle of a rollout of each subject.
    async fn replace_in_rollouts(&mut self, program: &Path) {
        self.rollouts += 1;
        for subject in &self.subjects {
            subject.roll_first(self.rollouts).await;
        }
        for subject in &self.subjects {
            subject.reaches(self.rollouts, 1).await;
        }
        let revisions = self.revisions().await;
        for subject in &self.subjects {
            subject.roll_all().await;
        }
        self.replace(program).await;
        for subject in &self.subjects {
            subject.reaches(self.rollouts, subject.pods).await;
        }
        assert_eq!(self.revisions().await, revisions);
        self.is_intact().await;
        self.at_rest().await;
    }

    /// [`replace`](Self::replace) where there is nothing to do: no Pod is written to.
    async fn replace_at_rest(&mut self, program: &Path) {
        let before = (self.at_rest().await, self.revisions().await);
        self.replace(program).await;
        // The new leader has observed each subject.
        for subject in &self.subjects {
            subject.observes_an_edit().await;
        }
        assert_eq!((self.at_rest().await, self.revisions().await), before);
        self.is_intact().await;
    }

    /// The ControllerRevisions of each subject, one for each template, and the newest one by its status.
    async fn revisions(&self) -> Vec<(Vec<String>, Value)> {
        let list = get(&self.shop.client, "/apis/apps/v1/controllerrevisions").await;
        let mut all = Vec::new();
        for subject in &self.subjects {
            let (names, newest) = subject.revisions(&list).await;
            assert_eq!(names.len(), 1 + self.rollouts, "{names:?}");
            all.push((names, newest));
        }
        all
    }

    /// The Pods are those of the beginning, only rollouts restarted them, and never too many of them at a time. The
    /// budget and the subsets count them as before.
    async fn is_intact(&self) {
        let moments = self.chronicle.moments().await;
        for subject in &self.subjects {
            subject.assert_intact(&moments, self.rollouts);
        }
        counted(&self.budget, CLONES).await;
        wait_for("the subsets to have their Pods", async || {
            let status = self.spread.get().await.1["status"].clone();
            let subsets = status["subsetStatuses"].as_array().into_iter().flatten();
            let counts: Vec<Value> = subsets.map(|subset| subset["replicas"].clone()).collect();
            if counts == [HALF, HALF] { Ok(()) } else { Err(status) }
        })
        .await;
    }

    /// The versions of the Pods, once nobody writes to them.
    async fn at_rest(&self) -> BTreeMap<String, Value> {
        let versions = async || {
            let moment = self.chronicle.moments().await.pop().unwrap();
            let version = |pod: &Value| pod["metadata"]["resourceVersion"].clone();
            moment.iter().map(|(name, pod)| (name.clone(), version(pod))).collect::<BTreeMap<_, _>>()
        };
        wait_for("nobody to write to the Pods", async || {
            let before = versions().await;
            // The length of the measurement, not a condition.
            tokio::time::sleep(QUIET).await;
            let after = versions().await;
            if after == before { Ok(after) } else { Err((before, after)) }
        })
        .await
    }

    /// All replicas end in order.
    async fn close(self) {
        for task in self.leaving {
            task.await.unwrap();
        }
        for replica in self.replicas {
            replica.stop().await;
        }
    }
}

/// A CloneSet with the subsets of a WorkloadSpread, whose rollouts only a budget holds up; a StatefulSet; a DaemonSet;
/// and a SidecarSet with Pods of its own.
async fn subjects(shop: &Shop, log: Stored) -> Vec<Subject> {
    let rolled = |kind: &str, app: &str, rolling: Value| {
        workload("apps.kruise.io/v1beta1", kind, app)
            .in_namespace(&shop.namespace)
            .matching("app", app)
            .template_annotation(fake_nodes::READY_AFTER, READY_AFTER)
            .container("main", &image(0))
            .in_company()
            .readiness_gate("InPlaceUpdateReady")
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
    };
    let in_place = json!({"podUpdatePolicy": "InPlaceIfPossible"});
    let unlimited = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let clones = rolled("CloneSet", "clones", unlimited).replicas(6);
    let members = rolled("StatefulSet", "members", in_place).replicas(4).with("/spec/serviceName", "members");
    let members = statefulset::parallel(members);
    let agents = rolled("DaemonSet", "agents", json!({"rollingUpdateType": "InPlaceIfPossible"}));
    for number in 0..4 {
        let pod = shop.pod(&format!("web-{number}")).annotation(fake_nodes::READY_AFTER, READY_AFTER);
        shop.admit(pod.in_company()).await;
    }
    let create = |set: Object| Stored::create(&shop.client, set);
    vec![
        Subject::workload(shop, create(clones).await, 2 * HALF, "updatedReadyReplicas"),
        Subject::workload(shop, create(members).await, 4, "updatedReadyReplicas"),
        Subject::workload(shop, create(agents).await, 4, "updatedNumberScheduled"),
        Subject::sidecars(shop, log, "web", 4),
    ]
}

/// A replica of this program that is called.
async fn replica(server: &ApiServer, program: &Path) -> Replica {
    // The API server may notice late that a replica leaves, and calls may take long.
    let options = Options::default().program(program).drain("30s").argument("--webhook-timeout-seconds=30");
    let gates = format!("{},PodUnavailableBudgetUpdateGate=true", product::GATES);
    Replica::ready(server, options.gates(&gates)).await
}

/// Applies the definitions of this program.
async fn define(server: &ApiServer, program: &Path) {
    let definitions = product::run_of(program, &["crds"]).await.success();
    // Earlier programs print the path of the conversion, which the running program sets.
    let definitions = definitions.replace("          path: /convert\n", "");
    server.apply_yaml(&definitions).await;
}

/// Creates a Pod, which gets its sidecar, and deletes it, on and on.
async fn pods_come_and_go(shop: &Shop) {
    let pod = shop.pod("asked").build();
    let path = format!("/api/v1/namespaces/{}/pods", shop.namespace);
    loop {
        let (code, stored) = call(&shop.client, "POST", &path, &pod).await;
        assert_eq!((code, names(&stored["spec"]["containers"])), (201, vec!["log", "main"]), "{stored:#}");
        let (code, answer) = call(&shop.client, "DELETE", &format!("{path}/asked"), &Value::Null).await;
        assert_eq!(code, 200, "{answer:#}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// How many calls of webhooks have failed by the API server's count, including those that a failure policy ignored.
async fn failed_calls(client: &Client) -> f64 {
    let (_, metrics) = call(client, "GET", "/metrics", &Value::Null).await;
    let lines = metrics.as_str().unwrap().lines().filter(|line| {
        line.starts_with("apiserver_admission_webhook_fail_open_count{")
            || line.starts_with("apiserver_admission_webhook_rejection_count{")
                && line.contains("error_type=\"calling_webhook_error\"")
            || line.starts_with("apiserver_conversion_webhook_request_total{")
                && line.contains("result=\"failure\"")
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the program of an earlier release: make test-upgrade"]
async fn replicas_of_two_releases_continue_the_rollouts_of_each_other() {
    let earlier =
        std::env::var_os("KUTTER_PREVIOUS").expect("KUTTER_PREVIOUS: the program of an earlier release");
    let (earlier, present) = (PathBuf::from(earlier), product::program());
    let server = ApiServer::start(kit::Options::default()).await;
    let mut site = Site::open(&server, &earlier).await;
    let asking = Shop::open_on(&server, "asking").await;
    asking.stock([asking.sidecar_set("log").container("log", "busybox:1.36")]).await;
    let failed = failed_calls(&asking.client).await;
    let changes = async {
        define(&server, &present).await;
        site.replace_in_rollouts(&present).await;
        // The present program takes over from the earlier one, and the other way round.
        site.replace_at_rest(&earlier).await;
        site.replace_at_rest(&present).await;
        site.replace_in_rollouts(&present).await;
        // The way back.
        define(&server, &earlier).await;
        site.replace_in_rollouts(&earlier).await;
        site.replace_in_rollouts(&earlier).await;
    };
    without_losing_a_call(&server, "CloneSet", async {
        tokio::select! {
            () = pods_come_and_go(&asking) => unreachable!("it never ends"),
            () = changes => {}
        }
    })
    .await;
    assert_eq!(failed_calls(&asking.client).await, failed);
    site.close().await;
}
