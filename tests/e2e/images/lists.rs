//! ImageListPullJobs.

use super::*;

/// The jobs of a list that are not being deleted, by image.
async fn children(town: &Town) -> Vec<Value> {
    let path = format!("/apis/{BETA}/namespaces/{}/imagepulljobs", town.name);
    let list = call(&town.client, "GET", &path, &Value::Null).await.1;
    let mut jobs = list["items"].as_array().unwrap().clone();
    jobs.retain(|job| job["metadata"].get("deletionTimestamp").is_none());
    jobs.sort_by_key(|job| job["spec"]["image"].as_str().unwrap().to_owned());
    jobs
}

#[tokio::test]
async fn a_list_has_a_job_for_each_image_and_ends_with_the_last() {
    let town = Town::open("list", &["a", "bad-b"]).await;
    let images = [format!("{}:1", image(&town)), format!("{}:2", image(&town))];
    let list = town.of_kind("ImageListPullJob", "all", json!({"images": images}));
    let list = town.create(list).await;
    let now = shows(&list, &json!({"desired": 2, "completed": 2})).await;
    assert!(now["status"]["completionTime"].is_string(), "{now:#}");
    let jobs = children(&town).await;
    assert_eq!(jobs.len(), 2);
    for (job, image) in jobs.iter().zip(&images) {
        let metadata = &job["metadata"];
        assert!(metadata["name"].as_str().unwrap().starts_with("all-"));
        assert_eq!(metadata["ownerReferences"][0]["uid"], list.object["metadata"]["uid"]);
        let hash = "controller-revision-hash";
        assert_eq!(metadata["labels"][hash], now["metadata"]["labels"][hash]);
        assert_eq!(job["spec"]["image"], *image);
    }
    let failed = now["status"]["failedImageStatuses"].as_array().unwrap();
    let names: Vec<&Value> = failed.iter().map(|failed| &failed["name"]).collect();
    assert_eq!(names, [&json!(images[0]), &json!(images[1])]);
}

#[tokio::test]
async fn jobs_pull_where_their_list_may() {
    let town = Town::open("list-when", &["a"]).await;
    let images = [format!("{}:1", image(&town)), format!("{}:2", image(&town))];
    let list = town.of_kind("ImageListPullJob", "all", json!({"images": images}));
    let list = town.create(list.annotation("kutter.io/pull-when", "label:driver")).await;
    wait_for("the jobs to wait", async || {
        let jobs = children(&town).await;
        let waits = "job is running, progress 0.0%, waits for kutter.io/pull-when on 1 nodes";
        let all_wait = jobs.len() == 2 && jobs.iter().all(|job| job["status"]["message"] == waits);
        if all_wait { Ok(()) } else { Err(jobs) }
    })
    .await;
    list.patch(&json!({"metadata": {"annotations": {"kutter.io/pull-when": null}}})).await;
    shows(&list, &json!({"desired": 2, "completed": 2, "succeeded": 2})).await;
}

#[tokio::test]
async fn an_image_less_deletes_its_job_and_a_change_replaces_all() {
    let town = Town::open("changed", &["slow-a"]).await;
    let images = [format!("{}:1", image(&town)), format!("{}:2", image(&town))];
    let list = town.of_kind("ImageListPullJob", "all", json!({"images": images}));
    let list = town.create(list).await;
    shows(&list, &json!({"desired": 2, "active": 2})).await;
    let first = children(&town).await;
    list.patch(&json!({"spec": {"images": [images[1]]}})).await;
    shows(&list, &json!({"desired": 1, "active": 1})).await;
    let fewer = children(&town).await;
    assert_eq!((fewer.len(), &fewer[0]["metadata"]["uid"]), (1, &first[1]["metadata"]["uid"]));
    list.patch(&json!({"spec": {"parallelism": 7}})).await;
    wait_for("the job to be replaced", async || {
        let jobs = children(&town).await;
        let replaced = jobs.len() == 1 && jobs[0]["metadata"]["uid"] != first[1]["metadata"]["uid"];
        if replaced && jobs[0]["spec"]["parallelism"] == 7 { Ok(()) } else { Err(jobs) }
    })
    .await;
    list.deleted().await;
}
