use admission::world::World;
use kit::double::Objects;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::fake;
use crate::workload::pods::Pods;
use crate::workload::store::follow::Readable;

const UNITED_PATH: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/uniteddeployments/web";
const CHILDREN: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/";

struct Site {
    controller: Controller,
    server: Objects,
    requests: fake::Requests,
}

impl Site {
    /// A UnitedDeployment with one subset, of which the CloneSet was made.
    async fn open() -> Self {
        let site = Self::made(|_| false);
        site.reconcile().await;
        assert_eq!(site.child().1["spec"]["replicas"], 3);
        site
    }

    /// A UnitedDeployment with one subset. The answers to some requests are lost.
    fn made(loses: impl Fn(&fake::Request<'_>) -> bool + Clone + Send + 'static) -> Self {
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = fake::api_server(move |request| {
            let body = request.body.replace(r#""generateName":"web-a-""#, r#""name":"web-a-x""#);
            if request.method == "GET" && CHILDREN.trim_end_matches('/') == request.path {
                let items: Vec<Value> =
                    answering.under(CHILDREN).into_iter().map(|(_, child)| child).collect();
                return (200, json!({"metadata": {}, "items": items}).to_string());
            }
            let answer = answering.answer(&fake::Request { body: &body, ..request });
            if loses(&request) { (504, fake::status(504)) } else { answer }
        });
        let context = Context::fixed(client, World::new("kruise-system"));
        let stores = Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system");
        let controller = Controller {
            context,
            stores: Arc::new(stores),
            united: Store::default(),
            children: ChildKind::ALL.map(Children::new),
            limiter: Limiter::default(),
            unconfirmed: Unconfirmed::default(),
            event_sender: cluster::event_sender::event_sender("Reconcile").0,
        };
        for children in &controller.children {
            children.stored.list_begins();
            children.stored.list_ends();
        }
        let site = Self { controller, server, requests };
        let labels = json!({"app": "web"});
        let pods = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}});
        let child = json!({"metadata": {"labels": labels}, "spec": {"selector": {"matchLabels": labels}, "template": pods}});
        site.united(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "generation": 1},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"cloneSetTemplate": child},
                "topology": {"subsets": [{"name": "a"}]}},
        }));
        site
    }

    fn united(&self, united: Value) {
        let united = self.server.put(UNITED_PATH, united);
        self.controller.united.apply(UnitedDeployment::read(&united.to_string()).unwrap());
    }

    /// The CloneSet that the API server has, and its path.
    fn child(&self) -> (String, Value) {
        let mut children = self.server.under(CHILDREN);
        assert_eq!(children.len(), 1, "{children:#?}");
        children.remove(0)
    }

    /// The garbage collector lets the CloneSet go.
    fn let_go(&self) -> String {
        let (path, mut child) = self.child();
        child["metadata"].as_object_mut().unwrap().remove("ownerReferences").unwrap();
        self.server.put(&path, child).to_string()
    }

    async fn reconcile(&self) -> Next {
        self.controller.reconcile(&("shop".to_owned(), "web".to_owned())).await.unwrap()
    }

    /// How many CloneSets were asked for.
    fn creations(&self) -> usize {
        let creation = format!("POST {} ", CHILDREN.trim_end_matches('/'));
        self.requests.lock().unwrap().iter().filter(|request| request.starts_with(&creation)).count()
    }

    /// How many requests wrote to CloneSets.
    fn writes(&self) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| !request.starts_with("GET") && request.contains(CHILDREN)).count()
    }
}

#[tokio::test]
async fn a_workload_without_owner_is_adopted_but_not_by_one_that_is_being_deleted() {
    for deleted in [None, Some("2026-01-01T00:00:00Z")] {
        let site = Site::open().await;
        let orphan = site.let_go();
        site.controller.children_of(ChildKind::CloneSet).take_in(&orphan).unwrap();
        // Only the API server knows of the deletion.
        let mut united = site.server.get(UNITED_PATH).unwrap();
        united["metadata"]["deletionTimestamp"] = json!(deleted);
        site.server.put(UNITED_PATH, united);
        let next = site.reconcile().await;
        let owners = site.child().1["metadata"]["ownerReferences"].clone();
        match deleted {
            None => assert_eq!(owners[0]["uid"], "u"),
            Some(_) => {
                assert_eq!((owners, site.writes(), next), (Value::Null, 0, Next::After(OUTDATED_RETRY)));
            }
        }
    }
}

#[tokio::test]
async fn a_workload_that_was_let_go_meanwhile_is_not_updated() {
    let site = Site::open().await;
    let mut united = site.server.get(UNITED_PATH).unwrap();
    united["metadata"]["generation"] = json!(2);
    united["spec"]["replicas"] = json!(5);
    site.united(united);
    // The watch has yet to report it.
    site.let_go();
    site.reconcile().await;
    assert_eq!(site.writes(), 0);
}

/// The API server creates the CloneSet, and its answer is lost.
#[tokio::test]
async fn a_creation_without_a_clear_answer_is_looked_for_and_not_repeated() {
    let lost = Arc::new(AtomicBool::new(true));
    let losing = lost.clone();
    let site = Site::made(move |request| {
        let creation = request.method == "POST" && request.path == CHILDREN.trim_end_matches('/');
        creation && losing.swap(false, Ordering::SeqCst)
    });
    let key = ("shop".to_owned(), "web".to_owned());
    assert!(site.controller.reconcile(&key).await.is_err());
    site.reconcile().await;
    assert!(!lost.load(Ordering::SeqCst));
    assert_eq!((site.child().1["spec"]["replicas"].clone(), site.creations()), (json!(3), 1));
}
