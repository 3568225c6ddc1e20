//! The program ends at some states of a release, and another one continues.

use super::*;

/// Ends the program in the midst of what it does, and starts another one.
pub(super) async fn restarted(server: &ApiServer, product: Product) -> Product {
    let port = product.port;
    product.kill().await;
    // Otherwise it would wait until the Lease of the killed one ends.
    let options = settings().port(port).argument("--enable-leader-election=false");
    let mut product = Product::start(server, options).await;
    product.wait_ready().await;
    product
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_16_a_release_survives_restarts_at_any_state() {
    let Site { server, mut product } = open(kit::Options::default()).await;
    let (release, service) = traffic::with_ingress(&server, "ro-restart", 1).await;
    release.roll(NEW).await;
    for state in ["StepUpgrade", "StepTrafficRouting"] {
        release
            .reaches("the first step to begin", |status| {
                let present = &status["canaryStatus"];
                present["currentStepState"] == state || present["currentStepState"] == "StepPaused"
            })
            .await;
        product = restarted(&server, product).await;
    }
    traffic::has_a_fifth(&release, &service, NEW).await;
    release.approve().await;
    product = restarted(&server, product).await;
    release.paused(2).await;
    assert_eq!(release.new_pods().await, 3);
    traffic::is_as_before(&release, &service).await;
    release.approve().await;
    release
        .reaches("the end to begin", |status| {
            let reason = &condition_of(status, "Progressing")["reason"];
            *reason == "Finalising" || *reason == "Completed"
        })
        .await;
    product = restarted(&server, product).await;
    release.over("True").await;
    release.settled(NEW).await;
    assert!(product.stop().await.success());
}
