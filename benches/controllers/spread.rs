//! What a WorkloadSpread costs: its Pods are created and placed, by admission and by the controller.

use std::time::{Duration, Instant};

use benches::program::Program;
use benches::report::{figure, progress};
use benches::stand::{GROWTH, Stand};
use kit::builders::{object, pod, workload};
use kit::fake_nodes::{self, FakeNodes};
use kit::objects;
use serde_json::{Value, json};

/// Measures with these numbers of Pods, from small to large.
pub(crate) async fn measure(stand: &Stand, pods: &[usize]) {
    let program = stand.program("spread").await;
    let mut last: Option<(usize, f64)> = None;
    for &count in pods {
        let cost = place(stand, &program, count).await;
        if let Some((before, previous)) = last {
            figure(&format!("spread-cpu-growth-{before}-{count}"), cost / previous, "x", Some(GROWTH));
        }
        last = Some((count, cost));
    }
    program.stop();
}

/// Creates that many Pods of a workload over three subsets; CPU time per Pod in microseconds.
async fn place(stand: &Stand, program: &Program, count: usize) -> f64 {
    let namespace = stand.server().namespace("spread").await;
    let client = stand.server().client();
    let options = fake_nodes::Options::nodes(9).in_namespace(&namespace).binding_pods();
    let options =
        (0..9).fold(options, |options, node| options.label(node, "zone", ["a", "b", "c"][node % 3]));
    let _nodes = FakeNodes::start(client.clone(), options).await;
    let replicas = u32::try_from(count).expect("a number of Pods");
    let set = workload("apps/v1", "ReplicaSet", "web").in_namespace(&namespace).matching("app", "web");
    let set = set.replicas(replicas).container("checkout", "registry.example.com/shop/checkout:2.41.0");
    let set = objects::create(&client, set).await.expect("a ReplicaSet can be created");
    let set = serde_json::to_value(set).expect("JSON");
    let (half, quarter) = (count / 2, count / 4);
    let subset = |zone: &str| {
        let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!({
            "name": zone, "requiredNodeSelector": {"matchExpressions": [expression]},
            "patch": {"metadata": {"labels": {"subset": zone}}, "spec": {"nodeSelector": {"zone": zone}}},
        })
    };
    let mut subsets = ["a", "b", "c"].map(subset);
    subsets[0]["maxReplicas"] = json!(half);
    subsets[1]["maxReplicas"] = json!(quarter);
    let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"});
    let spread = object("apps.kruise.io/v1beta1", "WorkloadSpread", "web").in_namespace(&namespace);
    stand.create([spread.with("/spec", json!({"targetRef": target, "subsets": subsets}))]).await;
    let object = ["workloadspread", "web", "--namespace", &namespace];
    stand.wait_status(&object, |_, status| status["subsetStatuses"][2]["missingReplicas"] == -1).await;
    program.wait_quiet().await;

    progress(&format!("{count} Pods: creating"));
    let (cpu, start) = (program.cpu(), Instant::now());
    let (controllers, reviews) = (stand.calls().len(), stand.calls_of_reviews().len());
    stand
        .create((0..count).map(|number| {
            pod(&format!("web-{number:05}"))
                .in_namespace(&namespace)
                .label("app", "web")
                .label("pod-template-hash", "6d4b75cb6d")
                .controlled_by(&set)
                .container("checkout", "registry.example.com/shop/checkout:2.41.0")
                .env("LOG_LEVEL", "info")
        }))
        .await;
    let created = start.elapsed();
    let placed = |status: &Value| {
        let statuses = &status["subsetStatuses"];
        let wanted = [half, quarter, count - half - quarter];
        wanted.iter().enumerate().all(|(position, &wanted)| statuses[position]["replicas"] == wanted)
    };
    stand.wait_status(&object, |_, status| placed(status)).await;
    program.wait_quiet().await;
    let cost = program.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / count as f64;
    report(count, "cpu", cost, "us");
    report(count, "time", per_pod(created, count), "us");
    let calls = |calls: usize| calls as f64 / count as f64;
    report(count, "calls", calls(stand.calls().len() - controllers), "calls");
    report(count, "calls-of-reviews", calls(stand.calls_of_reviews().len() - reviews), "calls");
    cost
}

fn per_pod(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

fn report(count: usize, what: &str, value: f64, unit: &str) {
    figure(&format!("spread-{count}-{what}-per-pod"), value, unit, None);
}
