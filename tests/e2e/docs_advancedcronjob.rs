//! The page about AdvancedCronJobs.

use crate::docs::Reader;
use crate::support::shared;

#[tokio::test]
async fn the_page_about_advanced_cron_jobs_works() {
    let (server, _) = shared().await;
    let namespace = server.namespace("cron-docs").await;
    let mut page = Reader::open(server, &namespace, "advancedcronjob.md").await;
    let printed = page.read("A Job every night").await;
    assert!(printed.contains("AdvancedCronJob backup: next tick"), "{printed}");
    let printed = page.read("Something on every node").await;
    assert!(printed.contains("advancedcronjob.apps.kruise.io/cleanup"), "{printed}");
    page.read("Images before they are needed").await;
    let printed = page.read("Pause it").await;
    assert!(printed.contains("spec.paused is true"), "{printed}");
    page.end();
}
