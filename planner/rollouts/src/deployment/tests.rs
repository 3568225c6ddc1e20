//! A Deployment that a release holds, with its ReplicaSets, in a cluster that plays Kubernetes' own controllers.

use std::collections::BTreeMap;

use api::annotations::{BATCH_RELEASE_CONTROL, DEPLOYMENT_STRATEGY};
use api::labels::{POD_TEMPLATE_HASH, STABLE_REVISION};

use super::*;
use crate::view::ListName;

mod properties;

const CONFIGURATION: &str = "webhooks";

fn settings() -> Settings {
    Settings { webhook_configuration: CONFIGURATION.to_owned() }
}

fn configuration() -> ObjectName {
    ObjectName::new("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", CONFIGURATION)
}

fn template(version: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": version, "futureField": 1}]}})
}

/// A cluster with one Deployment, `web`.
#[derive(Clone)]
struct Cluster {
    deployment: Value,
    sets: Vec<Value>,
    /// Whether each Pod of a ReplicaSet is available, by its name.
    pods: BTreeMap<String, Vec<bool>>,
    configuration: Option<Value>,
    events: Vec<String>,
    writes: usize,
    /// How many Kubernetes' own controller made.
    scaled_by_kubernetes: usize,
}

impl Cluster {
    /// A Deployment of so many Pods of version `v1`, all available, which is held with the template `v2`.
    fn held(replicas: i64, strategy: &Value) -> Self {
        let annotations = json!({BATCH_RELEASE_CONTROL: "{}", "team": "shop", DEPLOYMENT_REVISION: "1"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "1",
                "labels": {STABLE_REVISION: "v1"}, "annotations": annotations},
            "spec": {"replicas": replicas, "paused": true, "strategy": {"type": "Recreate"}, "minReadySeconds": 5,
                "selector": {"matchLabels": {"app": "web"}}, "template": template("v2")},
        });
        let mut cluster = Self {
            deployment,
            sets: Vec::new(),
            pods: BTreeMap::new(),
            configuration: Some(json!({"metadata": {"name": CONFIGURATION}})),
            events: Vec::new(),
            writes: 0,
            scaled_by_kubernetes: 0,
        };
        cluster.strategy(strategy);
        cluster.set("v1", replicas, replicas);
        cluster
    }

    fn strategy(&mut self, strategy: &Value) {
        self.deployment["metadata"]["annotations"][DEPLOYMENT_STRATEGY] = strategy.to_string().into();
    }

    /// Adds a ReplicaSet of a version, of which so many Pods are available.
    fn set(&mut self, version: &str, replicas: i64, available: i64) {
        let revision = (self.sets.len() + 1).to_string();
        let mut template = template(version);
        template["metadata"]["labels"][POD_TEMPLATE_HASH] = version.into();
        let desired = self.deployment["spec"]["replicas"].to_string();
        self.sets.push(json!({
            "metadata": {"name": format!("web-{version}"), "namespace": "shop", "uid": version, "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-02T03:04:{:02}Z", self.sets.len()),
                "labels": {"app": "web", POD_TEMPLATE_HASH: version},
                "annotations": {DEPLOYMENT_REVISION: revision, DESIRED_REPLICAS: desired},
                "ownerReferences": [{"uid": "d", "controller": true}]},
            "spec": {"replicas": replicas, "template": template},
        }));
        let pods = (0..replicas).map(|number| number < available).collect();
        self.pods.insert(format!("web-{version}"), pods);
        self.report();
    }

    fn view(&self) -> View {
        let mut view = View::default();
        let name = |set: &Value| sets::name_of(set);
        let list = ListName {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            namespace: "shop".to_owned(),
            selector: "app=web".to_owned(),
        };
        view.has_list(list, self.sets.clone());
        view.has_object(configuration(), self.configuration.clone());
        for hash in [0, 1].map(|attempt| template_hash(&self.deployment["spec"]["template"], attempt)) {
            let free = ObjectName::new("apps/v1", "ReplicaSet", "shop", &format!("web-{hash}"));
            view.has_object(free, None);
        }
        for set in &self.sets {
            view.has_object(name(set), Some(set.clone()));
        }
        view
    }

    fn plan(&self) -> Plan<()> {
        plan(&self.deployment, &self.view(), &settings()).unwrap().unwrap()
    }

    /// Carries out the present plan, and says whether there was anything to write.
    fn advance(&mut self) -> bool {
        let plan = self.plan();
        assert_eq!(plan.again, None);
        self.events.extend(plan.events.iter().map(|event| event.message.clone()));
        for write in &plan.writes {
            self.write(write);
        }
        self.replace_pods();
        !plan.writes.is_empty()
    }

    fn write(&mut self, write: &Write) {
        self.writes += 1;
        match write {
            Write::Create { name, object } => {
                let mut set = object.clone();
                set["metadata"]["uid"] = name.name.clone().into();
                set["metadata"]["resourceVersion"] = "1".into();
                let created = format!("2026-01-02T03:05:{:02}Z", self.sets.len());
                set["metadata"]["creationTimestamp"] = created.into();
                self.sets.push(set);
            }
            Write::Patch { name, patch, .. } => {
                let object = match &*name.kind {
                    "Deployment" => &mut self.deployment,
                    _ => self.sets.iter_mut().find(|set| set.name() == name.name).unwrap(),
                };
                assert_eq!(object.resource_version(), patch.resource_version());
                let merged =
                    values::merge_patch::merge_patch(&object.to_string(), &patch.to_string()).unwrap();
                *object = serde_json::from_str(&merged).unwrap();
                let generation = object.number("/metadata/generation").unwrap_or(0);
                object["metadata"]["generation"] = (generation + 1).into();
            }
            Write::Delete { .. } => panic!("ReplicaSets are left to Kubernetes: {write:?}"),
        }
    }

    /// Every ReplicaSet gets or loses Pods; it loses those first that are not available.
    fn replace_pods(&mut self) {
        for set in &self.sets {
            let pods = self.pods.entry(set.name().to_owned()).or_default();
            let wanted = usize::try_from(set.number("/spec/replicas").unwrap()).unwrap();
            pods.sort_by_key(|available| !*available);
            pods.resize(wanted, false);
        }
    }

    fn report(&mut self) {
        for set in &mut self.sets {
            let pods = self.pods.entry(set.name().to_owned()).or_default();
            let available = pods.iter().filter(|available| **available).count();
            set["status"] = json!({"replicas": pods.len(), "readyReplicas": available, "availableReplicas": available,
                "observedGeneration": set.number("/metadata/generation").unwrap_or(0)});
        }
    }

    /// All Pods become available.
    fn settle(&mut self) {
        for pods in self.pods.values_mut() {
            pods.fill(true);
        }
        self.report();
    }

    /// What Kubernetes' own controller does with a paused Deployment of type Recreate.
    fn kubernetes(&mut self) {
        let replicas = self.deployment.number("/spec/replicas").unwrap();
        let size = |set: &Value| set.number("/spec/replicas").unwrap();
        let new = self.sets.iter().position(|set| same_template(&self.deployment, set));
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|position| size(&self.sets[*position]) > 0).collect();
        let is_saturated = |set: &Value| {
            size(set) == replicas
                && set.annotation(DESIRED_REPLICAS) == Some(&*replicas.to_string())
                && set.number("/status/availableReplicas") == Some(replicas)
        };
        let resized: Vec<(usize, i64)> = match *active {
            [] => new.or(self.sets.len().checked_sub(1)).map(|last| (last, replicas)).into_iter().collect(),
            [only] => vec![(only, replicas)],
            _ if new.is_some_and(|new| is_saturated(&self.sets[new])) => active
                .iter()
                .filter(|position| Some(**position) != new)
                .map(|position| (*position, 0))
                .collect(),
            _ => Vec::new(),
        };
        for (position, wanted) in resized {
            let set = &mut self.sets[position];
            if size(set) != wanted {
                set["spec"]["replicas"] = wanted.into();
                set["metadata"]["annotations"][DESIRED_REPLICAS] = replicas.to_string().into();
                self.scaled_by_kubernetes += 1;
            }
        }
        self.replace_pods();
    }

    /// The sizes of all ReplicaSets, by version.
    fn sizes(&self) -> Vec<(String, i64)> {
        let version = |set: &Value| set.text("/spec/template/spec/containers/0/image").to_owned();
        self.sets.iter().map(|set| (version(set), set.number("/spec/replicas").unwrap())).collect()
    }

    fn size(&self, version: &str) -> i64 {
        self.sizes().iter().find(|(known, _)| known == version).map_or(0, |(_, size)| *size)
    }

    fn total(&self) -> i64 {
        self.sizes().iter().map(|(_, size)| size).sum()
    }

    fn available(&self) -> i64 {
        i64::try_from(self.pods.values().flatten().filter(|available| **available).count()).unwrap()
    }

    /// Plans, and lets Pods become available, until nothing more happens.
    fn roll(&mut self) {
        for _ in 0..200 {
            self.kubernetes();
            self.settle();
            if !self.advance() {
                self.kubernetes();
                self.settle();
                if !self.advance() {
                    return;
                }
            }
        }
        panic!("it never ends: {:?}", self.sizes());
    }
}

fn sizes(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(version, size)| ((*version).to_owned(), *size)).collect()
}

#[test]
fn a_deployment_that_no_release_holds_is_left_alone() {
    let mut cluster = Cluster::held(3, &json!({"partition": 1}));
    cluster.deployment["spec"]["paused"] = false.into();
    assert_eq!(plan(&cluster.deployment, &View::default(), &settings()), Ok(None));
}

#[test]
fn what_was_not_read_is_asked_for() {
    let cluster = Cluster::held(3, &json!({"partition": 1}));
    let mut view = View::default();
    let unread = plan(&cluster.deployment, &view, &settings()).unwrap_err();
    assert_eq!(unread, Unread::Object(configuration()));
    view.has_object(configuration(), cluster.configuration.clone());
    let Unread::List(list) = plan(&cluster.deployment, &view, &settings()).unwrap_err() else { panic!() };
    assert_eq!((&*list.kind, &*list.selector), ("ReplicaSet", "app=web"));
    view.has_list(list, cluster.sets.clone());
    let Unread::Object(name) = plan(&cluster.deployment, &view, &settings()).unwrap_err() else { panic!() };
    assert_eq!(name.name, format!("web-{}", template_hash(&template("v2"), 0)));
}

#[test]
fn nothing_is_new_before_the_first_batch() {
    let mut cluster = Cluster::held(5, &json!({"partition": 0}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 5)]));
    assert_eq!(cluster.scaled_by_kubernetes, 0);
}

#[test]
fn a_step_brings_as_many_new_pods_as_it_says_and_no_more() {
    let mut cluster = Cluster::held(
        10,
        &json!({"partition": "30%", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
    );
    assert!(cluster.advance());
    assert_eq!(cluster.sizes(), sizes(&[("v1", 10), ("v2", 1)]));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 7), ("v2", 3)]));
    assert_eq!(cluster.scaled_by_kubernetes, 0);
    let extra = cluster.deployment.annotation(DEPLOYMENT_EXTRA_STATUS).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(extra).unwrap(),
        json!({"updatedReadyReplicas": 3, "expectedUpdatedReplicas": 3})
    );
    cluster.strategy(&json!({"partition": "100%"}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 0), ("v2", 10)]));
}

#[test]
fn a_step_costs_five_writes() {
    let mut cluster = Cluster::held(10, &json!({"partition": 3, "rollingUpdate": {"maxSurge": 3}}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 7), ("v2", 3)]));
    // The new ReplicaSet, twice the old one and how far the Deployment is: before the new Pods are available, and after.
    assert_eq!(cluster.writes, 5);
}

#[test]
fn the_new_replica_set_is_as_kubernetes_would_make_it() {
    let mut cluster = Cluster::held(10, &json!({"partition": 3, "rollingUpdate": {"maxSurge": "25%"}}));
    cluster.deployment["metadata"]["annotations"][LAST_APPLIED] = "{}".into();
    cluster.set("v0", 0, 0);
    cluster.advance();
    let hash = template_hash(&template("v2"), 0);
    let set = cluster.sets.last().unwrap();
    assert_eq!(set.name(), format!("web-{hash}"));
    assert_eq!(set.text("/metadata/namespace"), "shop");
    let labelled = json!({"app": "web", POD_TEMPLATE_HASH: hash});
    assert_eq!(set["metadata"]["labels"], labelled);
    assert_eq!(set["spec"]["selector"], json!({"matchLabels": labelled}));
    let mut expected = template("v2");
    expected["metadata"]["labels"] = labelled;
    assert_eq!(set["spec"]["template"], expected);
    assert_eq!(set["spec"]["minReadySeconds"], 5);
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true, "blockOwnerDeletion": true});
    assert_eq!(set["metadata"]["ownerReferences"], json!([owner]));
    let annotations = set.members("/metadata/annotations").unwrap();
    assert_eq!(annotations[DEPLOYMENT_REVISION], "3");
    assert_eq!((&annotations[DESIRED_REPLICAS], &annotations[MAX_REPLICAS]), (&json!("10"), &json!("13")));
    assert_eq!(annotations["team"], "shop");
    assert!(!annotations.contains_key(LAST_APPLIED));
    assert!(same_template(&cluster.deployment, set));
    assert_eq!(cluster.events.first().unwrap(), &format!("Scaled up replica set web-{hash} from 0 to 3"));
}

#[test]
fn a_name_that_another_template_has_is_not_used() {
    let mut cluster = Cluster::held(4, &json!({"partition": 1}));
    let taken = format!("web-{}", template_hash(&template("v2"), 0));
    cluster.set("v0", 0, 0);
    cluster.sets[1]["metadata"]["name"] = taken.clone().into();
    cluster.pods.insert(taken, Vec::new());
    cluster.roll();
    assert_eq!(cluster.sets[2].name(), format!("web-{}", template_hash(&template("v2"), 1)));
    assert_eq!(cluster.sizes(), sizes(&[("v1", 3), ("v0", 0), ("v2", 1)]));
}

#[test]
fn a_name_that_a_stranger_has_is_not_used() {
    let mut cluster = Cluster::held(4, &json!({"partition": 1}));
    cluster.set("v2", 1, 1);
    cluster.sets[1]["metadata"]["name"] = format!("web-{}", template_hash(&template("v2"), 0)).into();
    cluster.sets[1]["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    cluster.advance();
    assert_eq!(cluster.sets[2].name(), format!("web-{}", template_hash(&template("v2"), 1)));
}

#[test]
fn a_replica_set_that_is_only_not_listed_yet_is_not_made_twice() {
    let mut cluster = Cluster::held(4, &json!({"partition": 1}));
    let before = cluster.view();
    cluster.advance();
    let mut view = before;
    let made = cluster.sets.last().unwrap();
    view.has_object(sets::name_of(made), Some(made.clone()));
    let plan = plan(&cluster.deployment, &view, &settings()).unwrap().unwrap();
    assert!(!plan.writes.iter().any(|write| matches!(write, Write::Create { .. })), "{plan:?}");
}

#[test]
fn replica_sets_of_others_do_not_count() {
    let mut cluster = Cluster::held(4, &json!({"partition": 2}));
    cluster.set("v2", 4, 4);
    cluster.sets[1]["metadata"]["ownerReferences"] = json!([]);
    let made = format!("web-{}", template_hash(&template("v2"), 0));
    cluster.advance();
    assert_eq!(cluster.sets.last().unwrap().name(), made);
}

#[test]
fn of_several_replica_sets_of_the_template_the_oldest_is_the_new_one() {
    let mut cluster = Cluster::held(4, &json!({"partition": 4, "rollingUpdate": {"maxUnavailable": "100%"}}));
    cluster.set("v2", 1, 1);
    cluster.set("v2", 1, 1);
    cluster.sets[2]["metadata"]["name"] = "web-twin".into();
    cluster.pods.insert("web-twin".to_owned(), vec![true]);
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 0), ("v2", 4), ("v2", 0)]));
}

#[test]
fn without_surge_kubernetes_does_not_give_the_old_pods_back() {
    for maximum in [json!(1), json!(0), json!("50%")] {
        let strategy = json!({"partition": 2, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": maximum}});
        let mut cluster = Cluster::held(4, &strategy);
        cluster.roll();
        assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v2", 2)]));
        assert_eq!(cluster.scaled_by_kubernetes, 0);
        // The same where there is a ReplicaSet without Pods already.
        let mut cluster = Cluster::held(4, &strategy);
        cluster.set("v2", 0, 0);
        cluster.roll();
        assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v2", 2)]));
        assert_eq!(cluster.scaled_by_kubernetes, 0);
    }
}

#[test]
fn pods_that_are_not_available_go_first_and_the_stable_version_last() {
    let mut cluster =
        Cluster::held(10, &json!({"partition": 5, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}));
    cluster.sets.clear();
    cluster.set("v1", 5, 4);
    cluster.set("v0", 3, 3);
    cluster.set("v2", 2, 2);
    // Ten Pods of which nine are available: one that is not may go, and one that is.
    cluster.advance();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 4), ("v0", 2), ("v2", 2)]));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 4), ("v0", 1), ("v2", 5)]));
    cluster.strategy(&json!({"partition": 8}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v0", 0), ("v2", 8)]));
}

#[test]
fn of_the_versions_between_the_latest_goes_first_whenever_it_was_first_made() {
    let mut cluster =
        Cluster::held(9, &json!({"partition": 3, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}));
    cluster.sets.clear();
    for (version, revision) in [("v0", "3"), ("between", "2"), ("v1", "4")] {
        cluster.set(version, 3, 3);
        cluster.sets.last_mut().unwrap()["metadata"]["annotations"][DEPLOYMENT_REVISION] = revision.into();
    }
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v0", 0), ("between", 3), ("v1", 3), ("v2", 3)]));
    cluster.strategy(&json!({"partition": 7}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v0", 0), ("between", 0), ("v1", 2), ("v2", 7)]));
}

#[test]
fn a_report_from_before_a_replica_set_shrank_changes_nothing() {
    let mut cluster =
        Cluster::held(9, &json!({"partition": 3, "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}));
    cluster.sets.clear();
    cluster.set("v1", 5, 5);
    cluster.set("v0", 4, 4);
    cluster.sets[0]["status"]["availableReplicas"] = 8.into();
    cluster.advance();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 5), ("v0", 3), ("v2", 1)]));
}

#[test]
fn a_newer_template_waits_for_its_release_and_the_pods_of_the_last_one_stay() {
    let mut cluster = Cluster::held(10, &json!({"partition": 4, "rollingUpdate": {"maxSurge": 2}}));
    cluster.roll();
    cluster.deployment["spec"]["template"] = template("v3");
    cluster.strategy(&json!({"partition": 4, "paused": true}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 6), ("v2", 4)]));
    cluster.strategy(&json!({"partition": 2}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 6), ("v2", 2), ("v3", 2)]));
    cluster.strategy(&json!({"partition": 5}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 5), ("v2", 0), ("v3", 5)]));
}

#[test]
fn new_pods_beyond_the_limit_stay() {
    let mut cluster = Cluster::held(10, &json!({"partition": 6}));
    cluster.roll();
    cluster.strategy(&json!({"partition": 2}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 4), ("v2", 6)]));
}

#[test]
fn a_scaled_deployment_keeps_the_share_of_new_pods_and_its_notes() {
    let mut cluster = Cluster::held(10, &json!({"partition": "30%"}));
    cluster.roll();
    cluster.deployment["spec"]["replicas"] = 20.into();
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 14), ("v2", 6)]));
    assert_eq!(cluster.scaled_by_kubernetes, 0);
    for set in &cluster.sets {
        assert_eq!(set.annotation(DESIRED_REPLICAS), Some("20"));
        assert_eq!(set.annotation(MAX_REPLICAS), Some("25"));
    }
    cluster.deployment["spec"]["replicas"] = 4.into();
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v2", 2)]));
}

#[test]
fn a_deployment_that_shrinks_keeps_the_old_pods_that_its_release_leaves() {
    let mut cluster = Cluster::held(10, &json!({"partition": "30%"}));
    cluster.roll();
    cluster.deployment["spec"]["replicas"] = 3.into();
    let mut broken = cluster.clone();
    cluster.advance();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v2", 1)]));
    // New Pods go only where old ones work in their place.
    broken.pods.get_mut("web-v1").unwrap().fill(false);
    broken.pods.get_mut("web-v1").unwrap()[0] = true;
    broken.report();
    broken.advance();
    assert_eq!(broken.sizes(), sizes(&[("v1", 1), ("v2", 2)]));
}

#[test]
fn a_number_of_new_pods_that_covers_the_deployment_leaves_no_old_one() {
    let mut cluster = Cluster::held(10, &json!({"partition": 6}));
    cluster.roll();
    cluster.deployment["spec"]["replicas"] = 4.into();
    cluster.advance();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 0), ("v2", 4)]));
}

#[test]
fn a_replica_set_whose_size_stays_notes_the_size_of_the_deployment() {
    let mut cluster = Cluster::held(10, &json!({"partition": 3}));
    cluster.roll();
    cluster.deployment["spec"]["replicas"] = 12.into();
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 9), ("v2", 3)]));
    assert!(cluster.sets.iter().all(|set| set.annotation(DESIRED_REPLICAS) == Some("12")));
}

#[test]
fn a_deployment_scaled_to_nothing_loses_all_pods() {
    let mut cluster = Cluster::held(6, &json!({"partition": "50%"}));
    cluster.roll();
    cluster.deployment["spec"]["replicas"] = 0.into();
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 0), ("v2", 0)]));
}

#[test]
fn old_pods_come_back_to_the_stable_version() {
    let mut cluster = Cluster::held(6, &json!({"partition": 6}));
    cluster.set("v0", 0, 0);
    cluster.sets[1]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 0), ("v0", 0), ("v2", 6)]));
    cluster.deployment["spec"]["replicas"] = 8.into();
    cluster.advance();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 2), ("v0", 0), ("v2", 6)]));
}

#[test]
fn new_pods_that_never_work_take_nothing_away() {
    let mut cluster =
        Cluster::held(10, &json!({"partition": 5, "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}));
    for _ in 0..5 {
        cluster.advance();
        cluster.report();
    }
    assert_eq!(cluster.sizes(), sizes(&[("v1", 10), ("v2", 2)]));
    assert_eq!(cluster.available(), 10);
}

#[test]
fn a_deployment_that_nothing_guards_gets_its_own_way_to_update_back() {
    let rolling_update = json!({"maxSurge": "10%", "maxUnavailable": 0});
    let mut cluster = Cluster::held(4, &json!({"partition": 1, "rollingUpdate": rolling_update}));
    for configuration in [None, Some(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}))] {
        cluster.configuration = configuration;
        let plan = cluster.plan();
        let [Write::Patch { name, patch, .. }] = &*plan.writes else { panic!("{plan:?}") };
        assert_eq!(name, &deployment_name(&cluster.deployment));
        assert_eq!(plan.events, [event::unguarded(CONFIGURATION)]);
        assert_eq!(
            patch["spec"],
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}})
        );
    }
    assert!(cluster.advance());
    assert_eq!(cluster.plan().writes, []);
    cluster.configuration = Some(json!({"metadata": {"name": CONFIGURATION}}));
    assert!(cluster.advance());
    assert_eq!(cluster.deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    cluster.roll();
    assert_eq!(cluster.sizes(), sizes(&[("v1", 3), ("v2", 1)]));
}

#[test]
fn a_deployment_that_selects_all_pods_is_reported_and_left_alone() {
    let mut cluster = Cluster::held(4, &json!({"partition": 1}));
    for selector in [json!({}), json!({"matchLabels": {}, "matchExpressions": []})] {
        cluster.deployment["spec"]["selector"] = selector;
        let plan = cluster.plan();
        assert_eq!(plan.writes, []);
        assert_eq!(plan.events, [event::selecting_all()]);
    }
    cluster.deployment["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    assert!(!sets::selects_all(&cluster.deployment));
}

#[test]
fn how_far_the_deployment_is_is_written_only_when_it_changes() {
    let mut cluster = Cluster::held(4, &json!({"partition": 0}));
    assert_eq!(cluster.plan().writes.len(), 1);
    // As Go writes it.
    cluster.deployment["metadata"]["annotations"][DEPLOYMENT_EXTRA_STATUS] = "{}".into();
    assert_eq!(cluster.plan().writes, []);
    cluster.deployment["metadata"]["annotations"][DEPLOYMENT_EXTRA_STATUS] =
        r#"{"updatedReadyReplicas":1}"#.into();
    assert_eq!(cluster.plan().writes.len(), 1);
}

#[test]
fn a_failed_creation_is_reported_in_the_words_of_kubernetes() {
    let event = create_failed("web-5d4f", "quota exceeded");
    assert_eq!((event.warning, event.reason), (true, "ReplicaSetCreateError"));
    assert_eq!(event.message, r#"Failed to create new replica set "web-5d4f": quota exceeded"#);
}
