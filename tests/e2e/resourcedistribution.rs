//! ResourceDistributions on one API server of their own, since the gate is off by default
//! (docs/behaviour/resourcedistribution.md#acceptance-scenarios).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kit::builders::{Object, config_map, object};
use kit::{Shared, wait_for};
use kube::Client;
use serde_json::{Value, json};

use crate::product::{self, Product};
use crate::support::{Site, Stored, call, create, in_use, message};

mod admission;
mod content;
mod page;
mod targets;

const KIND: &str = "ResourceDistribution";
const BETA: &str = "apps.kruise.io/v1beta1";
const HASH: &str = "kruise.io/resourcedistribution.resource.hashcode";
const FROM: &str = "kruise.io/resourcedistribution.resource.from";

/// The API server with the program on it, once it reviews ResourceDistributions.
async fn site() -> Arc<Site> {
    static SITE: Shared<Site> = Shared::new();
    SITE.get(async || {
        let server = product::server(kit::Options::default().with_controller_manager()).await;
        let options = product::Options::default().gates("ResourceDistributionGate=true");
        let product = Product::serve(&server, options).await;
        in_use(&server).await;
        let client = server.client();
        let wrong = distribution("probe", object("v1", "Pod", "a"), json!({}));
        wait_for("ResourceDistributions to be reviewed", async || {
            match create(&client, wrong.clone(), "?dryRun=All").await {
                (422, _) => Ok(()),
                (_, answer) => Err(answer),
            }
        })
        .await;
        Site { server, product }
    })
    .await
}

/// A ResourceDistribution.
fn distribution(name: &str, resource: impl Into<Value>, targets: Value) -> Value {
    let mut spec = json!({"resource": resource.into()});
    spec["targets"] = targets;
    object(BETA, KIND, name).with("/spec", spec).build()
}

/// Namespaces and names that only one test uses.
struct Town {
    client: Client,
    /// The name of its ResourceDistribution, of what that distributes, and of its label.
    name: String,
}

impl Town {
    /// Namespaces `NAME-ns-1` and so on, of which these have the label `group=NAME`.
    async fn open(namespaces: usize, labelled: &[usize]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("town-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let town = Self { client: site().await.server.client(), name };
        for number in 1..=namespaces {
            town.add(&town.namespace(number), labelled.contains(&number)).await;
        }
        town
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-ns-{number}", self.name)
    }

    fn namespaces(&self, numbers: &[usize]) -> Vec<String> {
        numbers.iter().map(|number| self.namespace(*number)).collect()
    }

    async fn add(&self, name: &str, labelled: bool) -> Stored {
        let namespace = object("v1", "Namespace", name);
        let namespace = if labelled { namespace.label("group", &self.name) } else { namespace };
        Stored::create(&self.client, namespace).await
    }

    /// A namespace to be changed.
    fn stored_namespace(&self, number: usize) -> Stored {
        Stored::existing(&self.client, format!("/api/v1/namespaces/{}", self.namespace(number)), Value::Null)
    }

    /// `targets` with these namespaces by name.
    fn listed(&self, numbers: &[usize]) -> Value {
        json!({"includedNamespaces": list(&self.namespaces(numbers))})
    }

    /// A ConfigMap with the key `a`, to be distributed.
    fn config_map(&self) -> Object {
        config_map(&self.name, "a", "1")
    }

    async fn distribute(&self, resource: impl Into<Value>, targets: Value) -> Stored {
        Stored::create(&self.client, distribution(&self.name, resource, targets)).await
    }

    /// The ConfigMap in a namespace.
    fn copy(&self, number: usize) -> Stored {
        self.copy_of("configmaps", number)
    }

    fn copy_of(&self, plural: &str, number: usize) -> Stored {
        let path = format!("/api/v1/namespaces/{}/{plural}/{}", self.namespace(number), self.name);
        Stored::existing(&self.client, path, Value::Null)
    }

    /// The namespaces that have a ConfigMap of this name.
    async fn having(&self) -> Vec<String> {
        let path = format!("/api/v1/configmaps?fieldSelector=metadata.name%3D{}", self.name);
        let list = call(&self.client, "GET", &path, &Value::Null).await.1;
        let items = list["items"].as_array().unwrap().iter();
        let mut names: Vec<_> =
            items.map(|item| item["metadata"]["namespace"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Waits until just these have one.
    async fn only(&self, numbers: &[usize]) {
        let expected = self.namespaces(numbers);
        wait_for("copies in these namespaces alone", async || {
            let found = self.having().await;
            if found == expected { Ok(()) } else { Err(found) }
        })
        .await;
    }
}

/// `targets` by the label of this town.
fn selected(town: &Town) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"group": town.name}}})
}

fn list(names: &[String]) -> Value {
    let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"list": names})
}

/// Waits until the object is such.
async fn eventually(object: &Stored, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, async || match object.get().await {
        (200, object) if is(&object) => Ok(object),
        (_, object) => Err(object),
    })
    .await
}

/// Waits until the status reports the newest spec with these numbers, where 0 means none.
async fn counted(distribution: &Stored, desired: u32, succeeded: u32, failed: u32) -> Value {
    let expected = [desired, succeeded, failed];
    let object = eventually(distribution, "the status", |object| {
        let status = &object["status"];
        let found = ["desired", "succeeded", "failed"].map(|name| status[name].as_u64().unwrap_or_default());
        status["observedGeneration"] == object["metadata"]["generation"] && found == expected.map(u64::from)
    })
    .await;
    object["status"].clone()
}

/// A condition of a status, which is at its place.
fn condition<'s>(status: &'s Value, kind: &str) -> &'s Value {
    let kinds = [
        "GetResourceFailed",
        "CreateResourceFailed",
        "UpdateResourceFailed",
        "DeleteResourceFailed",
        "ConflictOccurred",
        "NamespaceNotExists",
    ];
    let conditions = status["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|one| one["type"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
    conditions.iter().find(|one| one["type"] == kind).unwrap()
}

/// The condition names these namespaces.
#[track_caller]
fn assert_failed(status: &Value, kind: &str, namespaces: &[String]) {
    let condition = condition(status, kind);
    assert_eq!((&condition["status"], &condition["failedNamespaces"]), (&json!("True"), &json!(namespaces)));
}

#[track_caller]
fn assert_sound(status: &Value) {
    for one in status["conditions"].as_array().unwrap() {
        assert_eq!((&one["status"], &one["reason"]), (&json!("False"), &json!("Succeeded")), "{one}");
        assert!(one.get("failedNamespaces").is_none() && one["lastTransitionTime"].is_string(), "{one}");
    }
    condition(status, "NamespaceNotExists");
}

/// The text with which the webhook refuses.
#[track_caller]
fn refused(answer: &(u16, Value)) -> String {
    assert_eq!(answer.0, 422, "{answer:#?}");
    let text = message(answer)
        .strip_prefix("admission webhook \"vresourcedistribution.kb.io\" denied the request: ");
    text.unwrap_or_else(|| panic!("{answer:#?}")).to_owned()
}
