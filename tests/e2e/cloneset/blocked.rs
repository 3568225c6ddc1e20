//! What a CloneSet says where something stands in its way: conditions, Events, and `kutter explain`.

use std::time::Duration;

use kit::{wait_for, wait_within};
use serde_json::json;

use super::{Fleet, NEW, OLD, condition, image, in_place, is_available, name, with_image};
use crate::support::KeptImages;

const BLOCKED: &str = "kutter.io/Blocked";
const FAILED: &str = "FailedUpdate";

/// An administrator's policy refuses the update of one Pod: the others go on, and everybody can see which Pod
/// it is, and why.
#[tokio::test]
async fn an_update_that_is_refused_is_told_of_and_holds_no_other() {
    let fleet =
        Fleet::launch("cloneset-refused", |set| in_place(set.replicas(4), json!({"maxUnavailable": 1})))
            .await;
    let kept = &fleet.names().await[0];
    let policy = KeptImages::of(&fleet.shop, kept).await;
    fleet.roll(NEW).await;
    let message = fleet.event("FailedUpdatePodInPlace").await;
    let begin = format!("failed to update pod {kept} in-place(revision web-");
    let why = format!("{kept} keeps its images");
    assert!(message.starts_with(&begin) && message.contains(&why), "{message}");
    let set = fleet
        .observed("the failure to be told", |set| {
            condition(set, FAILED)["message"].as_str().is_some_and(|message| message.contains(&why))
        })
        .await;
    assert_eq!(condition(&set, FAILED)["status"], "True");
    let pods = fleet.wait_pods("the others to be updated", |pods| with_image(pods, NEW) == 3).await;
    let held: Vec<String> = pods.iter().filter(|pod| image(pod) == OLD).map(name).collect();
    assert_eq!(held, [kept.as_str()]);

    // Trying the same again and again is no movement.
    let set = wait_within(Duration::from_secs(120), "the blockade to be told", async || {
        let set = fleet.set.get().await.1;
        if condition(&set, BLOCKED).is_null() { Err(set["status"].clone()) } else { Ok(set) }
    })
    .await;
    let blocked = condition(&set, BLOCKED);
    assert_eq!((&blocked["status"], &blocked["reason"]), (&json!("True"), &json!("Refused")));
    let told = blocked["message"].as_str().unwrap();
    assert!(told.contains(&why) && told.contains(kept.as_str()), "{told}");
    let lines = [
        format!("  waits: Pod {kept} is not updated: the API server refuses it: "),
        "  status: FailedUpdate, since ".to_owned(),
        "  status: kutter.io/Blocked, since ".to_owned(),
    ];
    // A new try takes the condition away for a moment.
    wait_for("all of it to be explained", async || {
        let output = fleet.explained().await;
        let told = &output.stdout;
        let is_told =
            |line: &String| told.lines().any(|known| known.starts_with(line) && known.contains(&why));
        let waits = told.starts_with(&format!("CloneSet {}/web: waiting\n", fleet.shop.namespace));
        let is_all = output.status.code() == Some(2) && waits && lines.iter().all(is_told);
        if is_all { Ok(()) } else { Err(output) }
    })
    .await;
    policy.lift().await;
    fleet.change(json!({"minReadySeconds": 0})).await;
    let status = fleet.complete().await;
    assert!(condition(&json!({"status": status}), FAILED).is_null());
    let set = fleet.observed("the blockade to be over", |set| condition(set, BLOCKED).is_null()).await;
    assert!(condition(&set, FAILED).is_null(), "{:#}", set["status"]);
    assert!(fleet.pods().await.iter().all(is_available));
}
