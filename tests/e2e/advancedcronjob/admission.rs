//! What AdvancedCronJobs may say.

use super::*;
use crate::support::assert_holds;

async fn refused(shop: &Shop, manifest: Object, text: &str) {
    let answer = create(&shop.client, manifest, "?dryRun=All").await;
    assert_eq!(answer.0, 422, "{text}: {answer:#?}");
    assert!(message(&answer).contains(text), "{text}: {answer:#?}");
}

async fn stored(shop: &Shop, manifest: Object) -> Value {
    let (code, stored) = create(&shop.client, manifest, "?dryRun=All").await;
    assert_eq!(code, 201, "{stored:#}");
    stored
}

fn minutely(shop: &Shop, template: &Value) -> Object {
    manifest(&shop.namespace, "*/1 * * * *", template)
}

/// Scenarios 20 to 25 and 39.
#[tokio::test]
async fn objects_are_completed_and_checked() {
    let shop = Shop::open("cron-checks").await;
    for version in ["v1alpha1", "v1beta1"] {
        let version = format!("apps.kruise.io/{version}");
        let job = stored(&shop, minutely(&shop, &job()).api_version(&version)).await;
        let expected = json!({"concurrencyPolicy": "Allow", "paused": false, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1});
        assert_holds(&job["spec"], &expected);
        let pod = &job["spec"]["template"]["jobTemplate"]["spec"]["template"]["spec"];
        assert_holds(pod, &json!({"dnsPolicy": "ClusterFirst", "restartPolicy": "Never"}));
    }
    let list = stored(&shop, minutely(&shop, &list_of_images())).await;
    assert_eq!(list["spec"]["concurrencyPolicy"], "Replace");
    let pull = &list["spec"]["template"]["imageListPullJobTemplate"]["spec"];
    assert_holds(pull, &json!({"imagePullPolicy": "IfNotPresent", "pullPolicy": {"backoffLimit": 3}}));
    let allow = minutely(&shop, &list_of_images()).with("/spec/concurrencyPolicy", "Allow");
    refused(&shop, allow, "concurrencyPolicy should be Replace or Forbid").await;
    refused(&shop, minutely(&shop, &json!({})), "spec must have one template").await;
    let mut two = job();
    two["broadcastJobTemplate"] = broadcast_job()["broadcastJobTemplate"].take();
    refused(&shop, minutely(&shop, &two), "spec can have only one template").await;
    for (schedule, text) in [
        ("invalid-cron", "expected exactly 5 fields, found 1"),
        ("* * * * 7", "end of range (7) above maximum (6)"),
        ("TZ=UTC", "invalid cron schedule"),
    ] {
        refused(&shop, manifest(&shop.namespace, schedule, &job()), text).await;
    }
    for (zone, text) in [
        ("Mars/Phobos", "unknown time zone Mars/Phobos"),
        ("Local", "timeZone must be an explicit time zone as defined in"),
    ] {
        refused(&shop, minutely(&shop, &job()).with("/spec/timeZone", zone), text).await;
    }
    let both = manifest(&shop.namespace, "TZ=UTC * * * * *", &job()).with("/spec/timeZone", "UTC");
    refused(&shop, both, "cannot use both timeZone field and TZ or CRON_TZ in schedule").await;
    let always =
        minutely(&shop, &job()).with("/spec/template/jobTemplate/spec/template/spec/restartPolicy", "Always");
    refused(&shop, always, "pod restartPolicy can only be Never or OnFailure").await;
    let images = "/spec/template/imageListPullJobTemplate/spec";
    let lasting = minutely(&shop, &list_of_images())
        .with(&format!("{images}/completionPolicy/ttlSecondsAfterFinished"), 60);
    refused(&shop, lasting, "ttlSecondsAfterFinished is not supported in advancedCronJob").await;
    let twice = minutely(&shop, &list_of_images()).with(&format!("{images}/images"), json!(["a", "a"]));
    refused(&shop, twice, "images cannot have duplicate values").await;
    // The server continues serving.
    stored(&shop, minutely(&shop, &broadcast_job())).await;
}

/// Scenario 26.
#[tokio::test]
async fn only_some_fields_may_change() {
    let shop = Shop::open("cron-updates").await;
    let job = CronJob::create(&shop, manifest(&shop.namespace, "0 0 1 1 *", &job())).await;
    let image = json!([{"name": "main", "image": "busybox:1.37"}]);
    for change in [
        json!({"jobTemplate": {"spec": {"parallelism": 2}}}),
        json!({"jobTemplate": {"spec": {"template": {"spec": {"containers": image}}}}}),
    ] {
        let answer = job.stored.try_patch(&json!({"spec": {"template": change}})).await;
        assert_eq!(answer.0, 422, "{answer:#?}");
        assert!(
            message(&answer).contains("updates to advancedcronjob spec for fields other than"),
            "{answer:#?}"
        );
    }
    for change in
        [json!({"schedule": "0 0 2 1 *"}), json!({"timeZone": "Europe/Berlin"}), json!({"paused": true})]
    {
        job.stored.patch(&json!({"spec": change})).await;
    }
    let shop = Shop::open("cron-images").await;
    let list = CronJob::create(&shop, manifest(&shop.namespace, "0 0 1 1 *", &list_of_images())).await;
    let images = json!({"imageListPullJobTemplate": {"spec": {"images": ["nginx:1.26"]}}});
    list.stored.patch(&json!({"spec": {"template": images}})).await;
}
