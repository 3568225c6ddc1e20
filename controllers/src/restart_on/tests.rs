use cluster::event_sender::PendingEvent;
use kit::double::{self, Requests};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

const SET: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/web";
const SECRET: &str = "/api/v1/namespaces/shop/secrets/tls";
const APPLIED: &str = "kutter.io/configuration-applied";
const HASH: &str = "kutter.io/configuration-hash";

/// A controller, and the API server that it writes to. Nothing is watched: tests show what watches would.
struct Site {
    controller: Arc<Controller>,
    server: double::Objects,
    requests: Requests,
    reported: mpsc::Receiver<PendingEvent>,
}

impl Site {
    /// CloneSet `web` has this annotation.
    fn open(names: &str) -> Self {
        let server = double::Objects::default();
        let answering = server.clone();
        let (client, requests) = double::api_server(move |request| match request.path {
            // Watches begin with a list.
            path if path.contains('?') => {
                (200, r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#.to_owned())
            }
            _ => answering.answer(&request),
        });
        let (event_sender, reported) = cluster::event_sender::event_sender("Restart");
        let controller = Arc::new(Controller::new(client, event_sender));
        let site = Self { controller, server, requests, reported };
        let annotations = json!({"kutter.io/restart-on": names});
        let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "annotations": annotations});
        site.server.put(SET, json!({"metadata": metadata, "spec": {"template": {"spec": {}}}}));
        site.watch();
        site
    }

    /// Shows the controller the CloneSet as it is; gives what is queued for it.
    fn watch(&self) -> Option<(Item, Duration)> {
        let mut changes = self.controller.clone_sets.subscribe();
        while changes.try_recv().is_ok() {}
        let object = self.server.get(SET).unwrap();
        self.controller.clone_sets.see(serde_json::from_value(object).unwrap());
        changes.try_recv().ok().and_then(|change| self.controller.of_workload(KINDS[0], &change))
    }

    fn data(&self, path: &str, data: &Value) {
        self.server.put(path, json!({"metadata": {"uid": "s"}, "data": data}));
    }

    async fn reconcile(&self) {
        assert_eq!(self.controller.reconcile(&item()).await.unwrap(), Next::Done);
    }

    /// The hash that was taken in last, and the one of the template.
    fn hashes(&self) -> (Value, Value) {
        let set = self.server.get(SET).unwrap();
        let shown = set["spec"]["template"]["metadata"]["annotations"][HASH].clone();
        (set["metadata"]["annotations"][APPLIED].clone(), shown)
    }

    fn writes(&self) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| !request.starts_with("GET")).count()
    }
}

fn item() -> Item {
    (KINDS[0], ("shop".to_owned(), "web".to_owned()))
}

fn object(name: &str) -> WatchedObject {
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}})).unwrap()
}

#[tokio::test]
async fn a_change_is_written_once_and_goes_into_the_template() {
    let site = Site::open("configmap/web,secret/tls");
    site.data(MAP, &json!({"a": "1"}));
    site.data(SECRET, &json!({"b": "2"}));
    for _ in 0..2 {
        site.reconcile().await;
        assert_eq!(site.writes(), 1);
    }
    let (first, shown) = site.hashes();
    assert!(first.is_string() && shown.is_null(), "the Pods begin with what there is");
    for (path, data) in [(MAP, json!({"a": "3"})), (SECRET, json!({"b": "4"}))] {
        let (before, writes) = (site.hashes().0, site.writes());
        site.data(path, &data);
        site.reconcile().await;
        let (applied, shown) = site.hashes();
        assert_eq!((&applied, site.writes()), (&shown, writes + 1));
        assert_ne!(applied, before);
    }
}

/// Scenario 41 of docs/behaviour/in-place-update.md#acceptance-scenarios.
#[tokio::test]
async fn an_object_that_is_missing_leaves_everything_as_it_is_and_is_told() {
    let mut site = Site::open("configmap/web,secret/tls");
    site.data(MAP, &json!({"a": "1"}));
    site.reconcile().await;
    assert_eq!((site.writes(), site.hashes()), (0, (Value::Null, Value::Null)));
    let event = site.reported.try_recv().unwrap().event;
    assert_eq!((event.reason, event.warning), ("ConfigurationNotFound", true));
    assert!(event.message.contains("secret/tls not found") && !event.message.contains("configmap/web"));

    site.data(SECRET, &json!({}));
    site.reconcile().await;
    let kept = site.hashes();
    site.server.remove(MAP);
    site.reconcile().await;
    assert_eq!((site.writes(), site.hashes()), (1, kept));
}

#[tokio::test]
async fn a_conflict_is_looked_at_again() {
    let site = Site::open("configmap/web");
    site.data(MAP, &json!({"a": "1"}));
    let answering = site.server.clone();
    let (client, _) = double::api_server(move |request| match request.method {
        "PATCH" => double::conflict("Conflict"),
        _ => answering.answer(&request),
    });
    let controller = Controller::new(client, site.controller.event_sender.clone());
    controller.clone_sets.see(serde_json::from_value(site.server.get(SET).unwrap()).unwrap());
    assert_eq!(controller.reconcile(&item()).await.unwrap(), Next::After(OUTDATED_RETRY));
}

#[tokio::test]
async fn workloads_that_name_nothing_are_not_kept_and_only_what_matters_wakes() {
    let site = Site::open("configmap/web");
    let mut set = site.server.get(SET).unwrap();
    set["status"] = json!({"replicas": 3});
    site.server.put(SET, set.clone());
    assert_eq!(site.watch(), None, "a status");
    set["metadata"]["annotations"][APPLIED] = json!("other");
    site.server.put(SET, set.clone());
    assert_eq!(site.watch(), Some((item(), Duration::ZERO)));
    for annotations in [json!({}), json!({"kutter.io/restart-on": "nonsense"})] {
        set["metadata"]["annotations"] = annotations;
        site.server.put(SET, set.clone());
        site.watch();
        assert_eq!(site.controller.clone_sets.len(), 0);
        site.reconcile().await;
    }
    assert!(site.requests.lock().unwrap().is_empty());
}

/// Scenario 42 of docs/behaviour/in-place-update.md#acceptance-scenarios.
#[tokio::test(start_paused = true)]
async fn objects_are_watched_only_while_a_workload_names_one() {
    let site = Site::open("nonsense");
    let lists = |kind: &str| {
        let requests = site.requests.lock().unwrap();
        requests.iter().filter(|request| request.contains(&format!("/api/v1/{kind}?"))).count()
    };
    let names = |names: &str| {
        let mut set = site.server.get(SET).unwrap();
        set["metadata"]["annotations"] = json!({"kutter.io/restart-on": names});
        site.server.put(SET, set);
        site.watch();
    };
    let (items, _queued) = unbounded_channel();
    let follow = |kind| site.controller.clone().follow(&site.controller.client, kind, items.clone());
    let course = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((lists("secrets"), lists("configmaps")), (0, 0));
        names("secret/tls");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(lists("secrets") > 0 && lists("configmaps") == 0);
        names("nonsense");
        let so_far = lists("secrets");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(lists("secrets"), so_far);
    };
    tokio::select! {
        () = follow(SourceKind::Secret) => unreachable!(),
        () = follow(SourceKind::ConfigMap) => unreachable!(),
        () = course => {}
    }
}

#[tokio::test]
async fn an_object_wakes_those_that_name_it() {
    let site = Site::open("secret/tls,configmap/web");
    let (items, mut woken) = unbounded_channel();
    for (kind, name, wakes) in [
        (SourceKind::Secret, "tls", true),
        (SourceKind::ConfigMap, "web", true),
        (SourceKind::ConfigMap, "tls", false),
        (SourceKind::Secret, "other", false),
    ] {
        let objects = Objects { kind, controller: &site.controller, items: items.clone() };
        objects.see(object(name));
        assert_eq!(woken.try_recv().ok(), wakes.then(item), "{name}");
        objects.gone(&object(name));
        assert_eq!(woken.try_recv().ok(), wakes.then(item), "{name}");
    }
}
