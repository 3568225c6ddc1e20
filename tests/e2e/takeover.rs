//! A cluster as OpenKruise's controllers and agents leave it, with objects of all kinds and what belongs to them: Kutter
//! starts, and nothing is restarted, recreated, or given a new revision. Then everything takes an edit
//! (docs/installation.md#taking-over-from-openkruise).

mod back;
mod forms;
mod installation;
mod jobs;
mod place;
mod policies;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use kit::fake_runtime::{FakeRuntime, Pull};
use kit::{ApiServer, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::product::{self, Product};
use crate::support::fleet::{NEW, image, is_ready, uid};
use crate::support::{agent, call, in_use};
use forms::Form;
use installation::Installation;
use jobs::{EXTRA, PULLED};
use place::{Place, Subject, is_observed};
use workloads::Workload;

/// Everything that was left.
struct Left {
    place: Place,
    workloads: Vec<Workload>,
    subjects: Vec<Subject>,
}

impl Left {
    async fn in_place(place: Place) -> Self {
        let node = place.node(0).to_owned();
        let mut workloads = Vec::new();
        for form in Form::ALL {
            let is_go = form == Form::Go;
            let set = place.clone_set(form, |pod| {
                if is_go { policies::spread(pod, &node) } else { policies::protected(pod) }
            });
            workloads.push(set.await);
            let set =
                place.stateful_set(form, |pod| if is_go { policies::remembered(pod, &node) } else { pod });
            workloads.push(set.await);
            workloads.push(place.daemon_set(form).await);
            workloads.push(place.united_deployment(form).await);
        }
        let of = |name: &str| {
            workloads.iter().find(|workload| workload.stored.object["metadata"]["name"] == name).unwrap()
        };
        let mut subjects = vec![
            place.workload_spread(of("clones-go")).await,
            place.pod_unavailable_budget(of("clones-sparse")).await,
            place.persistent_pod_state(of("db-go")).await,
            place.sidecar_set().await,
            place.resource_distribution().await,
            place.advanced_cron_job().await,
            place.ephemeral_job().await,
            place.container_recreate_request().await,
        ];
        subjects.extend(place.broadcast_jobs().await);
        subjects.extend(place.probes().await);
        subjects.extend(place.pull_jobs().await);
        let left = Self { place, workloads, subjects };
        left.has_every_kind();
        left
    }

    fn has_every_kind(&self) {
        let workloads = self.workloads.iter().map(|workload| &workload.stored);
        let all = workloads.chain(self.subjects.iter().map(|subject| &subject.stored));
        let kinds: BTreeSet<&str> = all.map(|stored| stored.object["kind"].as_str().unwrap()).collect();
        let wanted: BTreeSet<&str> = api::crds::ALL.iter().map(|definition| definition.kind).collect();
        assert_eq!(kinds, wanted);
    }

    /// Every controller has reconciled all its objects, and has nothing more to do.
    async fn looked_at(&self, product: &Product) {
        let mut wanted = BTreeMap::new();
        let workloads = self.workloads.iter().map(|workload| workload.controller);
        for controller in workloads.chain(self.subjects.iter().map(|subject| subject.controller)) {
            *wanted.entry(controller).or_insert(0.0) += 1.0;
        }
        wait_for("every object to be looked at", async || {
            let metrics = product.metrics().await;
            let sum = |prefix: &str| -> f64 {
                let lines = metrics
                    .lines()
                    .filter(|line| line.starts_with(prefix) && !line.contains(r#"result="error""#));
                lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
            };
            let looks = |controller: &str| {
                sum(&format!("controller_runtime_reconcile_total{{controller=\"{controller}\""))
            };
            let missing: Vec<_> =
                wanted.iter().filter(|(controller, count)| looks(controller) < **count).collect();
            let busy = sum("workqueue_depth{") + sum("controller_runtime_active_workers{");
            if missing.is_empty() && busy == 0.0 {
                Ok(())
            } else {
                Err((format!("{missing:?} {busy}"), product.log()))
            }
        })
        .await;
    }

    /// The newest spec of each workload was reconciled, and its Pod is as it is wanted.
    async fn settled(&self, product: &Product) {
        for workload in &self.workloads {
            let newest = self.place.newest(&workload.stored);
            wait_for(&format!("{} to settle", newest.path), async || {
                let (_, now) = newest.get().await;
                let updated =
                    now["status"].get("updatedReplicas").or(now["status"].get("updatedNumberScheduled"));
                let counts = (updated, now["status"].get(workload.done));
                let is_settled = is_observed(&now) && counts == (Some(&json!(1)), Some(&json!(1)));
                if is_settled { Ok(()) } else { Err((now, product.log())) }
            })
            .await;
        }
    }

    /// Each object takes an edit, which is answered.
    async fn edited(&self, product: &Product) {
        for subject in &self.subjects {
            let (code, answer) =
                call(&self.place.shop.client, "PATCH", &subject.edited_at, &subject.edit).await;
            assert_eq!(code, 200, "{}: {answer:#}", subject.edited_at);
        }
        for subject in &self.subjects {
            wait_for(&format!("{} to be answered", subject.edited_at), async || {
                let (code, now) = call(&self.place.shop.client, "GET", &subject.shown_at, &Value::Null).await;
                if (subject.shows)(code, &now) { Ok(()) } else { Err((now, product.log())) }
            })
            .await;
        }
    }

    /// Each Pod of a workload gets its new image, in place where that is wanted.
    async fn rolled_out(&self, product: &Product) {
        for workload in &self.workloads {
            let newest = self.place.newest(&workload.stored);
            let mut now = newest.get().await.1;
            now.pointer_mut(&format!("{}/spec/containers/0", workload.template)).unwrap()["image"] =
                NEW.into();
            newest.patch(&json!({"spec": {"template": now["spec"]["template"]}})).await;
        }
        self.settled(product).await;
        for workload in &self.workloads {
            let path = workload.pod.path.rsplit_once('/').unwrap().0;
            let (_, pods) = call(&self.place.shop.client, "GET", path, &Value::Null).await;
            let app = &workload.pod.object["metadata"]["labels"]["app"];
            let of_it = pods["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|pod| pod["metadata"]["labels"]["app"] == *app);
            let [pod] = of_it.collect::<Vec<_>>()[..] else { panic!("{app} has several Pods: {pods:#}") };
            assert!(image(pod) == NEW && is_ready(pod), "{pod:#}");
            let is_same = uid(pod) == uid(&workload.pod.object);
            assert_eq!(is_same, workload.in_place, "{pod:#}");
        }
    }

    /// The agent of the first node pulls what is missing there, and nothing again.
    async fn goes_on_pulling(&self) {
        let sockets = TempDir::new().unwrap();
        let runtime = FakeRuntime::start(sockets.path(), |_| Pull::Comes);
        let node = self.place.node(0);
        let _agent =
            agent::start(&self.place.server, node, sockets.path(), kit::api_server::free_port()).await;
        let path = format!("/apis/apps.kruise.io/v1beta1/nodeimages/{node}");
        wait_for("the images to be there", async || {
            let (_, now) = call(&self.place.shop.client, "GET", &path, &Value::Null).await;
            let statuses = &now["status"]["imageStatuses"];
            let is_done = |image: &str| statuses[image]["tags"][0]["phase"] == "Succeeded";
            if PULLED.into_iter().chain([EXTRA]).all(is_done) { Ok(()) } else { Err(now) }
        })
        .await;
        let pulls = runtime.pulls();
        let pulled: BTreeSet<String> = pulls.iter().map(|pull| pull.image.clone().unwrap().image).collect();
        assert!(!pulled.iter().any(|image| image.contains(PULLED[2])), "{pulled:?}");
        assert!(pulled.iter().any(|image| image.contains(EXTRA)), "{pulled:?}");
    }
}

/// Where two objects differ.
fn differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
                differences(old, new, &format!("{path}/{key}"), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(old, new, &format!("{path}/{index}"), found);
            }
        }
        _ if before != after => found.push(format!("{path}: {before} became {after}")),
        _ => {}
    }
}

/// Asserts that nothing is new, gone or changed but what `may_change` allows.
#[track_caller]
fn assert_same(
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
    may_change: impl Fn(&str) -> bool,
) {
    let mut found = Vec::new();
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (old, new) = (before.get(path).unwrap_or(&Value::Null), after.get(path).unwrap_or(&Value::Null));
        differences(old, new, path, &mut found);
    }
    found.retain(|difference| !may_change(difference));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What Kutter writes although nothing has happened: parts of the paths of objects and of what follows.
const WRITTEN: &[(&str, &str)] = &[
    // The hash of a template is computed anew; what was made of the template stays.
    ("/imagelistpulljobs/list/", "metadata/labels/controller-revision-hash:"),
    ("/imagepulljobs/list-wxyz2/", "metadata/labels/controller-revision-hash:"),
    // That no rollout is under way.
    ("/uniteddeployments/united-sparse/", "status/conditions:"),
    // How many Pods have the sidecars.
    ("/sidecarsets/logship/", "metadata/annotations/kutter.io/sidecarset-pods:"),
];
/// What changes with an edit of a field that concerns no Pod.
const EDITED: &[(&str, &str)] =
    &[("", "spec/revisionHistoryLimit:"), ("", "metadata/generation:"), ("", "status/observedGeneration:")];
/// What newer releases and ours fill in with the next write.
const FILLED_IN: &[(&str, &str)] = &[
    ("/clonesets/clones-sparse/", "inPlaceUpdateStrategy:"),
    ("/daemonsets/agents-sparse/", "spec/burstReplicas:"),
    ("/statefulsets/db-sparse/", "spec/updateStrategy/rollingUpdate/minReadySeconds:"),
    ("/statefulsets/db-", "spec/persistentVolumeClaimRetentionPolicy:"),
    ("/uniteddeployments/united-sparse/", "spec/updateStrategy/manualUpdate:"),
];
/// What is written besides where objects are stored anew in a newer version.
const STORED_ANEW: &[(&str, &str)] = &[
    ("/clonesets/clones-sparse/", "metadata/generation:"),
    ("/clonesets/clones-sparse/", "status/observedGeneration:"),
    ("/daemonsets/agents-sparse/", "metadata/generation:"),
    ("/daemonsets/agents-sparse/", "status/observedGeneration:"),
    ("/statefulsets/db-", "metadata/generation:"),
    ("/statefulsets/db-", "status/observedGeneration:"),
    ("/uniteddeployments/united-sparse/", "metadata/generation:"),
    ("/uniteddeployments/united-sparse/", "status/observedGeneration:"),
    // Members that CloneSets have in the newer version alone.
    ("/uniteddeployments/united-", "spec/template/cloneSetTemplate/spec/scaleStrategy"),
    ("/uniteddeployments/united-", "spec/template/cloneSetTemplate/spec/updateStrategy/"),
    // What the older version has no field for.
    ("/clonesets/clones-sparse/", "metadata/annotations: null became {\"kutter.io/converted-fields\""),
    ("/statefulsets/db-", "metadata/annotations: null became {\"kutter.io/converted-fields\""),
];

/// Whether a difference is among those.
fn is_listed(difference: &str, lists: &[&[(&str, &str)]]) -> bool {
    let mut all = lists.iter().copied().flatten();
    all.any(|(object, part)| difference.contains(object) && difference.contains(&format!("/{part}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_releases_that_had_v1alpha1_alone_are_taken_over() {
    let server = ApiServer::start(kit::Options::default()).await;
    installation::install_old(&server, "v1alpha1").await;
    let left = Left::in_place(Place::open(server, "v1alpha1").await).await;
    let client = &left.place.shop.client;
    let before = left.place.state().await;
    let installation = Installation::leave(client).await;
    installation::upgrade(&left.place.server).await;
    let product = Product::serve(&left.place.server, product::Options::default()).await;
    in_use(&left.place.server).await;
    wait_for("all to be stored anew", async || {
        let old = installation::not_rewritten(client).await;
        if old.is_empty() { Ok(()) } else { Err((old, product.log())) }
    })
    .await;
    taken_over(&left, &product, &before).await;
    installation.is_taken_over(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_stored_as_v1beta1_are_taken_over() {
    let server = product::server(kit::Options::default()).await;
    let left = Left::in_place(Place::open(server, "v1beta1").await).await;
    let before = left.place.state().await;
    let product = Product::serve(&left.place.server, product::Options::default()).await;
    in_use(&left.place.server).await;
    taken_over(&left, &product, &before).await;
}

async fn taken_over(left: &Left, product: &Product, before: &BTreeMap<String, Value>) {
    left.looked_at(product).await;
    left.settled(product).await;
    let after = left.place.state().await;
    let lists: &[_] = if left.place.is_old() { &[WRITTEN, FILLED_IN, STORED_ANEW] } else { &[WRITTEN] };
    assert_same(before, &after, |difference| is_listed(difference, lists));
    // Another reconcile of each workload, which changes nothing either.
    for workload in &left.workloads {
        left.place.newest(&workload.stored).patch(&json!({"spec": {"revisionHistoryLimit": 9}})).await;
    }
    left.settled(product).await;
    left.looked_at(product).await;
    let again = left.place.state().await;
    assert_same(&after, &again, |difference| is_listed(difference, &[WRITTEN, EDITED, FILLED_IN]));

    left.edited(product).await;
    left.place.sidecars_are_new().await;
    left.rolled_out(product).await;
    left.goes_on_pulling().await;
}
