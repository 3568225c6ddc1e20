//! `kutter simulate`, on the manifest of its page.

use crate::product::run;

/// The first block of YAML on the page.
fn manifest() -> String {
    manifest_of("simulate.md")
}

fn manifest_of(page: &str) -> String {
    let page = std::fs::read_to_string(format!("{}/docs/{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (_, behind) = page.split_once("```yaml\n").unwrap();
    behind.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn a_rollout_is_shown_step_by_step_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("web.yaml"), manifest()).unwrap();
    std::fs::write(path("edited.yaml"), manifest().replace("nginx:1.25", "nginx:1.26")).unwrap();
    let (web, edited, chart) = (path("web.yaml"), path("edited.yaml"), path("chart.svg"));
    let arguments = ["simulate", "-f", &web, "--edit", &edited, "--seed", "7", "--svg", &chart];
    let shown = run(&arguments).await.success();
    assert_eq!(shown.matches("is to run image nginx:1.26").count(), 4, "{shown}");
    assert!(shown.contains("4 updated, 4 available"), "{shown}");
    assert!(std::fs::read_to_string(&chart).unwrap().starts_with("<svg"));
    assert_eq!(run(&arguments).await.success(), shown, "the same seed gives the same course");
    let troubled = run(&["simulate", "-f", &web, "--edit", &edited, "--fault-rate", "0.2"]).await.success();
    assert!(troubled.contains("chance"), "{troubled}");
}

#[tokio::test]
async fn a_rollout_of_the_same_file_leads_the_edits() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let page = std::fs::read_to_string(format!("{}/docs/simulate.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut blocks = page.split("```yaml\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let (workload, rollout) = (blocks.next().unwrap(), blocks.next().unwrap());
    std::fs::write(path("web.yaml"), format!("{workload}---\n{rollout}")).unwrap();
    std::fs::write(path("edited.yaml"), workload.replace("nginx:1.25", "nginx:1.26")).unwrap();
    let (web, edited) = (path("web.yaml"), path("edited.yaml"));
    let shown = run(&["simulate", "-f", &web, "--edit", &edited]).await.success();
    assert!(
        shown.contains("approves step 1 of the Rollout") && shown.contains("\nconverged after"),
        "{shown}"
    );
    let held = run(&["simulate", "-f", &web, "--edit", &edited, "--approve", "-"]).await;
    assert_eq!(held.status.code(), Some(4));
    assert!(held.stdout.contains("1 of 4 have new version"), "{}", held.stdout);
    assert!(held.stdout.contains("rollout approve rollout/web"), "{}", held.stdout);
    std::fs::write(&web, format!("{workload}---\n{}", rollout.replace("\"50%\"", "\"0%\""))).unwrap();
    let refused = run(&["simulate", "-f", &web, "--edit", &edited]).await.failure();
    assert!(refused.contains("Steps[1].Replicas: Invalid value"), "{refused}");
}

#[tokio::test]
async fn a_job_is_shown_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("job.yaml");
    let job = r#"{"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob",
        "metadata": {"name": "prepare", "namespace": "default"},
        "spec": {"parallelism": 2, "completionPolicy": {"ttlSecondsAfterFinished": 30},
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}}}"#;
    std::fs::write(&file, job).unwrap();
    let shown = run(&["simulate", "-f", file.to_str().unwrap()]).await.success();
    assert_eq!(shown.matches("creates Pod prepare-").count(), 3, "{shown}");
    assert!(shown.contains("deletes the BroadcastJob") && shown.contains("\nconverged after"), "{shown}");
}

#[tokio::test]
async fn what_would_be_refused_is_not_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, manifest().replace("replicas: 4", "replicas: -1")).unwrap();
    let refused = run(&["simulate", "-f", file.to_str().unwrap()]).await.failure();
    assert!(refused.contains("spec.replicas: Invalid value: -1"), "{refused}");
}

#[tokio::test]
async fn every_kind_of_workload_with_a_plan_is_simulated() {
    let directory = tempfile::tempdir().unwrap();
    for page in ["statefulset.md", "daemonset.md"] {
        let (first, edited) = (directory.path().join("first.yaml"), directory.path().join("edited.yaml"));
        std::fs::write(&first, manifest_of(page)).unwrap();
        std::fs::write(&edited, manifest_of(page).replace("nginx:1.25", "nginx:1.26")).unwrap();
        let words = ["simulate", "-f", first.to_str().unwrap(), "--edit", edited.to_str().unwrap()];
        let shown = run(&words).await.success();
        assert!(shown.contains("converged after") && shown.contains("3 updated, 3 available"), "{shown}");
    }
}

#[tokio::test]
async fn the_ticks_of_a_cron_job_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.yaml");
    let manifest = r#"{"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "metadata": {"name": "report"},
        "spec": {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin", "template": {"jobTemplate": {"spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}}}}}}}"#;
    std::fs::write(&file, manifest).unwrap();
    let moments = ["--from", "2026-03-28T00:00:00Z", "--until", "2026-03-30T23:00:00Z"];
    let arguments = ["simulate", "-f", file.to_str().unwrap()];
    let shown = run(&[&arguments[..], &moments].concat()).await.success();
    assert_eq!(shown, "2026-03-28T01:30:00Z  report-1774661400\n2026-03-30T00:30:00Z  report-1774830600\n");
    std::fs::write(&file, manifest.replace("30 2 * * *", "* * * * 7")).unwrap();
    let refused = run(&[&arguments[..], &moments].concat()).await.failure();
    assert!(refused.contains("end of range (7) above maximum (6)"), "{refused}");
}
