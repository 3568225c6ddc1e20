use std::sync::OnceLock;

use admission::world::World;
use kit::double::{Objects, conflict};
use serde_json::{Value, json};
use values::event::Event;

use std::sync::Arc;

use super::*;
use crate::fake::{self, Request};

const CRON_JOB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/advancedcronjobs/web";
const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";

/// A Job of the AdvancedCronJob `web` that began two minutes ago, finished or not.
fn job(is_finished: bool) -> Value {
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob", "name": "web", "uid": "web",
        "controller": true});
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "shop", "name": "first",
        "uid": "first", "creationTimestamp": ago(120), "ownerReferences": [owner]}});
    if is_finished {
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    }
    job
}

fn ago(seconds: i64) -> Value {
    let now = Timestamp::from_second(Timestamp::now().as_second() - seconds).unwrap();
    json!(now.to_string())
}

/// Reconciles once an AdvancedCronJob with an active child, after its next tick. `trouble` decides over the requests that it
/// wants to. Gives what is stored then, the requests, and the Events.
async fn reconciled(
    policy: &str,
    trouble: impl Fn(&Request<'_>, &Objects, &Controller) -> Option<(u16, String)> + Clone + Send + 'static,
) -> (Objects, Vec<String>, Vec<Event>) {
    let server = Objects::default();
    let controller: Arc<OnceLock<Controller>> = Arc::default();
    let (answering, seeing) = (server.clone(), controller.clone());
    let (client, requests) = fake::api_server(move |request| {
        let decided = trouble(&request, &answering, seeing.get().unwrap());
        decided.unwrap_or_else(|| answering.answer(&request))
    });
    let (event_sender, mut reported) = cluster::event_sender::event_sender("Reconcile");
    let made = Controller {
        context: Context::fixed(client, World::new("kruise-system")),
        cron_jobs: Store::default(),
        children: ChildKind::ALL.map(Children::new),
        started: Mutex::default(),
        event_sender,
    };
    assert!(controller.set(made).is_ok());
    let controller = controller.get().unwrap();
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "nginx:1"}]}}}});
    let cron_job = server.put(
        CRON_JOB,
        json!({"metadata": {"namespace": "shop", "name": "web", "uid": "web", "creationTimestamp": ago(180)},
            "spec": {"schedule": "@every 1m", "concurrencyPolicy": policy, "template": {"jobTemplate": template}},
            "status": {"type": "Job", "lastScheduleTime": ago(120),
                "active": [{"apiVersion": "batch/v1", "kind": "Job", "namespace": "shop", "name": "first", "uid": "first"}]}}),
    );
    controller.cron_jobs.apply(serde_json::from_value(cron_job).unwrap());
    let children = controller.children_of(ChildKind::Job);
    children.stored.list_begins();
    children.take_in(&server.put(&format!("{JOBS}/first"), job(false)).to_string()).unwrap();
    children.stored.list_ends();
    controller.reconcile(&("shop".to_owned(), "web".to_owned())).await.unwrap();
    let events = std::iter::from_fn(|| reported.try_recv().ok()).map(|reported| reported.event).collect();
    let requests = requests.lock().unwrap().clone();
    (server, requests, events)
}

/// The first child finishes while the second one is created. Gives the Events that report the first. With `is_refused` the
/// status after that meets a conflict.
async fn events_of_the_first(is_refused: bool) -> Vec<String> {
    let (server, _, events) = reconciled("Allow", move |request, server, controller| {
        if request.method == "POST" {
            let finished = server.put(&format!("{JOBS}/first"), job(true));
            controller.children_of(ChildKind::Job).take_in(&finished.to_string()).unwrap();
        } else if is_refused && server.under(JOBS).len() > 1 {
            return Some(conflict("Conflict"));
        }
        None
    })
    .await;
    assert_eq!(server.under(JOBS).len(), 2, "another child is created");
    let ends = events.into_iter().filter(|event| event.reason == "SawCompletedJob");
    ends.map(|event| event.message).collect()
}

#[tokio::test]
async fn a_child_that_is_replaced_is_deleted_before_the_next_one_is_created() {
    let (server, requests, events) = reconciled("Replace", |_, _, _| None).await;
    let about_jobs: Vec<&String> = requests.iter().filter(|request| request.contains(JOBS)).collect();
    let [delete, create] = about_jobs.as_slice() else { panic!("{requests:?}") };
    assert!(
        delete.starts_with(&format!("DELETE {JOBS}/first ")) && delete.contains("Background"),
        "{delete}"
    );
    assert!(create.starts_with(&format!("POST {JOBS}")), "{create}");
    assert_eq!(server.under(JOBS).len(), 1);
    let deletions = events.iter().filter(|event| event.reason == "SuccessfulDelete");
    assert_eq!(deletions.map(|event| &*event.message).collect::<Vec<_>>(), ["Deleted job first"]);
}

#[tokio::test]
async fn a_child_that_finishes_while_another_is_created_is_reported_once() {
    assert_eq!(events_of_the_first(false).await, ["Saw completed job: first, condition: Complete"]);
}

#[tokio::test]
async fn nothing_is_reported_of_a_child_before_its_end_is_written() {
    assert_eq!(events_of_the_first(true).await, [""; 0]);
}
