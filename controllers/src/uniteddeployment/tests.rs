use admission::world::World;
use kit::double::Objects;
use serde_json::{Value, json};

use super::*;
use crate::fake;
use crate::workload::pods::Pods;

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
        let server = Objects::default();
        let answering = server.clone();
        let (client, requests) = fake::api_server(move |request| {
            let body = request.body.replace(r#""generateName":"web-a-""#, r#""name":"web-a-x""#);
            answering.answer(&fake::Request { body: &body, ..request })
        });
        let context = Context::fixed(client, World::new("kruise-system"));
        let stores = Stores::new(Arc::new(Pods::new(false)), context.index.clone(), "kruise-system");
        let controller = Controller {
            context,
            stores: Arc::new(stores),
            united: Store::default(),
            children: ChildKind::ALL.map(Children::new),
            told: Told::default(),
            paces: Paces::default(),
            rests: Mutex::default(),
            teller: cluster::teller::teller("Reconcile").0,
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
        site.reconcile().await;
        assert_eq!(site.child().1["spec"]["replicas"], 3);
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
            Some(_) => assert_eq!((owners, site.writes(), next), (Value::Null, 0, Next::After(SOON))),
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
    // The watch has yet to tell of it.
    site.let_go();
    site.reconcile().await;
    assert_eq!(site.writes(), 0);
}
