//! `kutter simulate`, on the manifest of its page.

use crate::product::run;

/// The first block of YAML on the page.
fn manifest() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/simulate.md")).unwrap();
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
async fn what_would_be_refused_is_not_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, manifest().replace("replicas: 4", "replicas: -1")).unwrap();
    let refused = run(&["simulate", "-f", file.to_str().unwrap()]).await.failure();
    assert!(refused.contains("spec.replicas: Invalid value: -1"), "{refused}");
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
