//! The page about UnitedDeployments.

use kit::wait_for;

use crate::docs::Reader;
use crate::support::shared;

#[tokio::test]
async fn the_page_about_united_deployments_works() {
    let (server, _) = shared().await;
    let namespace = server.namespace("united-docs").await;
    let mut page = Reader::open(server, &namespace, "uniteddeployment.md").await;
    page.read("Two zones").await;
    let words =
        ["get", "clonesets", "--output=jsonpath={.items[*].spec.replicas}", "--namespace", &namespace];
    let shares = async |expected: &str| {
        wait_for("the shares", async || {
            let shares = server.kubectl(words).await.success();
            if shares == expected { Ok(()) } else { Err(shares) }
        })
        .await;
    };
    shares("3 1").await;
    page.read("Something different in one zone").await;
    let printed = page.read("Roll out one zone first").await;
    assert!(
        printed.contains("UnitedDeployment web") && printed.contains("subset zone-b: 0 of 1 Pods ready"),
        "{printed}"
    );
    page.read("Remove it").await;
    page.end();
}
