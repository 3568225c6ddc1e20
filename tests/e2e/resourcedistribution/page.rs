//! The page about ResourceDistributions, and `kutter explain`.

use super::*;
use crate::docs::Reader;

#[tokio::test]
async fn the_page_about_resource_distributions_works() {
    let server = &site().await.server;
    let mut page = Reader::open(server, &server.namespace("docs").await, "resourcedistribution.md").await;
    let printed = page.read("Distribute a pull Secret").await;
    for part in
        ["ResourceDistribution registry: complete\n", "  team-a: has the copy\n", "  team-b: has the copy\n"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    page.read("A new team").await;
    let printed = page.read("Change the password").await;
    assert!(printed.ends_with(r#"{"auths": {}}"#), "{printed}");
    let printed = page.read("Something is in the way").await;
    assert!(printed.contains("  team-d: has the copy\n"), "{printed}");
    page.read("Take a namespace out").await;
    page.read("Delete it").await;
    page.end();
    page.shell("kubectl delete namespaces team-a team-b team-c team-d --wait=false").await.success();
}

#[tokio::test]
async fn what_is_wrong_in_each_namespace_is_explained() {
    let town = Town::open(2, &[]).await;
    let foreign = config_map(&town.name, "mine", "1").in_namespace(&town.namespace(2));
    let foreign = Stored::create(&town.client, foreign).await;
    let distribution = town.distribute(town.config_map(), town.listed(&[1, 2, 3])).await;
    counted(&distribution, 3, 1, 2).await;
    let kubeconfig = format!("--kubeconfig={}", site().await.server.kubeconfig().display());
    let explain = async |name: &str, format: &str| {
        product::run(&["explain", "resourcedistribution", name, &kubeconfig, "-o", format]).await
    };
    let output = explain(&town.name, "text").await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    for line in [
        format!("ResourceDistribution {}: not complete\n", town.name),
        format!("  {}: has the copy\n", town.namespace(1)),
        format!("  {}: conflict with existing resources because", town.namespace(2)),
        format!("  {}: namespace not found or is terminating\n", town.namespace(3)),
        format!("  status: ConflictOccurred ({}): conflict", town.namespace(2)),
    ] {
        assert!(output.stdout.contains(&line), "{line} is not in {}", output.stdout);
    }
    foreign.deleted().await;
    town.add(&town.namespace(3), false).await;
    counted(&distribution, 3, 3, 0).await;
    let output = explain(&town.name, "json").await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let object: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&object["complete"], &object["failures"]), (&json!(true), &json!([])));
    let nothing = explain("nothing", "text").await;
    assert_eq!(nothing.stderr, "error: there is no ResourceDistribution nothing\n");
}
