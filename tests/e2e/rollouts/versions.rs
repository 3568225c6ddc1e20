//! Rollouts in both versions of their API.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn scenario_18_a_write_in_the_older_version_loses_nothing_of_blue_green() {
    let shop = Shop::open_on(&site().await.server, "ro-older").await;
    let strategy = json!({"blueGreen": {
    "disableGenerateCanaryService": true,
    "failureThreshold": "10%",
    "trafficRoutings": [{"service": "web", "gracePeriodSeconds": 1, "gateway": {"httpRouteName": "web"}}],
    "steps": [
        {"replicas": "50%", "traffic": "0%", "pause": {"duration": 7}},
        {"replicas": "100%", "matches": [{
            "path": {"type": "Exact", "value": "/new"},
            "headers": [{"type": "Exact", "name": "user", "value": "tester"}],
            "queryParams": [{"type": "Exact", "name": "region", "value": "north"}]}]},
    ]}});
    let rollout = Stored::create(&shop.client, rollout(&shop, ("apps/v1", "Deployment"), &strategy)).await;
    let before = wait_for("the Rollout to be looked at", async || {
        let now = rollout.get().await.1;
        let is_claimed = !now["metadata"]["finalizers"].is_null();
        if is_claimed && now["status"]["phase"] == "Initial" { Ok(now) } else { Err(now) }
    })
    .await;
    assert_eq!(before["spec"]["strategy"], strategy);
    let older = rollout.in_version("v1alpha1");
    let mut read = older.get().await.1;
    assert_eq!(read["spec"]["strategy"], json!({}), "{read:#}");
    read["metadata"]["labels"] = json!({"written": "true"});
    let (code, written) = call(&shop.client, "PUT", &older.path, &read).await;
    assert_eq!(code, 200, "{written:#}");

    let mut after = rollout.get().await.1;
    assert_eq!(after["metadata"]["labels"].take(), json!({"written": "true"}));
    for part in ["spec", "status"] {
        assert_eq!(after[part], before[part]);
    }
    for member in ["annotations", "finalizers", "generation"] {
        assert_eq!(after["metadata"][member], before["metadata"][member]);
    }
}
