use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use api::features::FeatureGates;
use pod::review::{Draft, Pod, Reasons, ReviewContext};
use values::moment::Moment;

use super::eviction::Evictions;
use super::ledger::Ledger;
use super::*;
use crate::sidecarset::injection;
use crate::sidecarset::subject::{Published, eviction_limit};
use crate::workload::namespace::Namespace;
use api::annotations::SIDECARSET_PODS;
use api::sidecarset::Metadata;
use pod::observed::Pool;

mod evictions;

/// Seconds after which the SidecarSets of these tests were created.
const CREATED: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn sidecar() -> Value {
    json!([{"name": "log", "image": "log:1"}])
}

/// A Pod of namespace `shop` that was created at this second.
fn pod(name: &str, created: i64, change: impl FnOnce(&mut Value)) -> ObservedPod {
    let mut pod = json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": uid(name).to_string(), "labels": {"app": "web"},
            "creationTimestamp": at(created).to_string(),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs",
                "controller": true}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    ObservedPod::read(&pod.to_string()).unwrap()
}

fn uid(name: &str) -> Uid {
    Uid::of(name)
}

fn injected(pod: &mut Value) {
    pod["metadata"]["annotations"] = json!({"kruise.io/sidecarset-injected-list": "other, log"});
}

fn record(pod: &ObservedPod) -> PodRecord {
    PodRecord::of(pod, &mut Pool::default()).unwrap()
}

#[test]
fn a_leader_keeps_a_few_bytes_of_each_pod() {
    assert!(size_of::<PodRecord>() <= 64, "{} bytes", size_of::<PodRecord>());
}

/// SidecarSets and Namespaces.
#[derive(Clone, Debug)]
struct Cluster {
    inventory: Inventory,
}

impl Cluster {
    /// Namespaces `shop` and `other`, nothing else.
    fn new() -> Self {
        let cluster = Self { inventory: Inventory::new(api::DEFAULT_NAMESPACE) };
        cluster.namespace("shop", &json!({})).namespace("other", &json!({}))
    }

    fn namespace(mut self, name: &str, labels: &Value) -> Self {
        let mut labels = labels.clone();
        labels["kubernetes.io/metadata.name"] = json!(name);
        self.inventory.apply_namespace(name, Namespace::new(serde_json::from_value(labels).unwrap()));
        self
    }

    fn set(self, name: &str, spec: Value) -> Self {
        self.set_with(name, spec, &json!({}))
    }

    fn set_with(mut self, name: &str, mut spec: Value, annotations: &Value) -> Self {
        if spec["selector"].is_null() {
            spec["selector"] = json!({"matchLabels": {"app": "web"}});
        }
        let object = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
        self.inventory.apply_sidecar_set(name, &object.to_string()).unwrap();
        self
    }
}

/// A SidecarSet `log` that was created at [`CREATED`], beside the Namespaces of an installation.
fn cluster(spec: Value) -> Cluster {
    let labels = json!({"control-plane": "openkruise"});
    let mut spec = spec;
    spec["containers"] = sidecar();
    Cluster::new().namespace("kube-system", &json!({})).namespace("kruise-system", &labels).set("log", spec)
}

fn subject() -> Subject {
    Subject { created: CREATED, ..Subject::default() }
}

fn scope() -> Scope {
    Scope::of_installation("kruise-system")
}

fn judge(cluster: &Cluster, set: &str, pod: &ObservedPod) -> Relation {
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get(set).unwrap());
    Case::new(entry, &subject(), &cluster.inventory, &scope, at(5_000)).judge(&record(pod))
}

fn account(cluster: &Cluster, pods: &[ObservedPod]) -> Account {
    let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
    let records: Vec<PodRecord> = pods.iter().map(record).collect();
    Account::of(&Case::new(entry, &subject(), &cluster.inventory, &scope, at(5_000)), &records)
}

#[test]
fn each_reason_is_found() {
    let later = CREATED + 1;
    let canary = json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "log"});
    let spec = json!({"selector": {"matchLabels": {"app": "web", "track": "new"}}, "containers": sidecar()});
    let plain = cluster(json!({})).set_with("canary", spec, &canary);
    let paused = cluster(json!({"injectionStrategy": {"paused": true}}));
    let narrow = cluster(json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}));
    let namespace = |name: &'static str| move |pod: &mut Value| pod["metadata"]["namespace"] = json!(name);
    let labelled = |key: &'static str, value: &'static str| {
        move |pod: &mut Value| pod["metadata"]["labels"][key] = json!(value)
    };
    let cases = [
        (&plain, pod("p", later, |_| {}), "Missed"),
        (&plain, pod("p", CREATED, |_| {}), "CreatedBefore"),
        (&plain, pod("p", later, injected), "yes"),
        (&paused, pod("p", later, injected), "yes"),
        (&plain, pod("p", later, namespace("kube-system")), "NamespaceExcluded"),
        (&plain, pod("p", later, namespace("kruise-system")), "NamespaceExcluded"),
        (&plain, pod("p", later, labelled("kutter.io/component", "manager")), "OptedOut"),
        (&plain, pod("p", later, labelled("track", "new")), "ReplacedByCanary"),
        (&plain, pod("p", later, labelled("app", "db")), "OtherLabels"),
        (&paused, pod("p", later, |_| {}), "InjectionPaused"),
        (&narrow, pod("p", later, |_| {}), "OtherNamespace"),
        (&narrow, pod("p", later, namespace("unknown")), "OtherNamespace"),
    ];
    let mut reported = BTreeMap::new();
    for (cluster, pod, expected) in cases {
        let word = match judge(cluster, "log", &pod) {
            Relation::Injected => "yes",
            Relation::Left(reason) | Relation::Unselected(reason) => {
                reported.insert(reason.word(), reason.to_string());
                reason.word()
            }
        };
        assert_eq!(word, expected, "{pod:?}");
    }
    assert_eq!(reported["ReplacedByCanary"], "not injected: its canary canary is injected instead");
    assert_eq!(reported["InjectionPaused"], "not injected: spec.injectionStrategy.paused is true");
}

#[test]
fn a_selector_that_can_t_be_used_is_named() {
    let broken = json!({"selector": {"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "a", "operator": "Near"}]}, "containers": sidecar()});
    let mut cluster = Cluster::new();
    let set = json!({"metadata": {"name": "log"}, "spec": broken});
    drop(cluster.inventory.apply_sidecar_set("log", &set.to_string()));
    let reported = judge(&cluster, "log", &pod("p", 1, |_| {}));
    assert!(matches!(reported, Relation::Unselected(Reason::BrokenSelector(_))), "{reported:?}");
}

#[test]
fn pods_are_counted_and_named() {
    let pods = [
        pod("b", CREATED + 9, |_| {}),
        pod("a", CREATED + 9, |_| {}),
        pod("old", CREATED - 9, |_| {}),
        pod("fine", CREATED + 9, injected),
        pod("db", CREATED + 9, |pod| pod["metadata"]["labels"]["app"] = json!("db")),
        pod("leaving", CREATED + 9, |pod| pod["metadata"]["deletionTimestamp"] = json!(at(1).to_string())),
    ];
    let annotation: Value = serde_json::from_str(&account(&cluster(json!({})), &pods).annotation()).unwrap();
    assert_eq!(
        annotation,
        json!({
            "matched": 4, "injected": 1, "missed": 2,
            "reasons": [
                {"reason": "CreatedBefore", "message": Reason::CreatedBefore.to_string(), "count": 1, "pods": ["shop/old"]},
                {"reason": "Missed", "message": Reason::Missed.to_string(), "count": 2, "pods": ["shop/a", "shop/b"]},
            ],
            "since": "1970-01-01T00:16:40Z", "selection": annotation["selection"],
        })
    );
    let ended = pod("job", CREATED + 9, |pod| pod["status"]["phase"] = json!("Succeeded"));
    assert_eq!(PodRecord::of(&ended, &mut Pool::default()), None);
}

#[test]
fn names_are_bounded_and_the_first_ones() {
    let mut pods: Vec<ObservedPod> =
        (0..100).map(|number| pod(&format!("p{number:02}"), CREATED + 9, |_| {})).collect();
    pods.reverse();
    let counted = account(&cluster(json!({})), &pods);
    assert_eq!((counted.missed, counted.findings.sorted()[0].count), (100, 100));
    let named: Vec<String> = counted.findings.sorted()[0].pods().collect();
    assert_eq!(named, (0..NAMED).map(|number| format!("shop/p{number:02}")).collect::<Vec<_>>());
    let mut many = Findings::default();
    for reason in 0..200 {
        for number in 0..30 {
            let reason = Reason::EvictionRefused(reason.to_string());
            many.add(&reason, &"n".repeat(63), &format!("{}{number}", "p".repeat(250)));
        }
    }
    many.add(&Reason::BrokenSelector("x".repeat(300_000)), "shop", "web");
    let annotation = Account { findings: many, ..counted }.annotation();
    assert!(annotation.len() < 3 * NAMES, "{} bytes", annotation.len());
}

#[test]
fn pods_count_since_the_selectors_are_what_they_are() {
    let set = |cluster: &Cluster| cluster.inventory.sidecar_sets().get("log").unwrap().clone();
    let (narrow, wide) = (cluster(json!({"selector": {"matchLabels": {"app": "db"}}})), cluster(json!({})));
    let published = |cluster: &Cluster, now: i64, annotations: &[(&str, String)]| {
        let metadata = Metadata {
            creation_timestamp: Some(at(CREATED).to_string()),
            annotations: annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            ..Metadata::default()
        };
        let (subject, scope) = (Subject::of(&metadata), scope());
        let annotation =
            Account::of(&Case::new(&set(cluster), &subject, &cluster.inventory, &scope, at(now)), [])
                .annotation();
        (subject.says(&annotation), annotation)
    };
    let since = |annotation: &str| serde_json::from_str::<Published>(annotation).unwrap().since.as_second();
    let (said, first) = published(&narrow, 2_000, &[]);
    assert_eq!((said, since(&first)), (false, CREATED));
    let (said, again) = published(&narrow, 2_500, &[(SIDECARSET_PODS, first.clone())]);
    assert_eq!((said, &again), (true, &first), "nothing is written twice");
    let (said, widened) = published(&wide, 3_000, &[(SIDECARSET_PODS, first.clone())]);
    assert_eq!((said, since(&widened)), (false, 3_000));
    assert_eq!(published(&wide, 4_000, &[(SIDECARSET_PODS, widened.clone())]), (true, widened));
    // Somebody takes the annotation away, and changes the selectors at the same time or later.
    let remembered = |cluster: &Cluster, known: &Cluster, now: i64| {
        let (scope, entry, known) = (scope(), set(cluster), set(known));
        let earlier = Case::new(&known, &subject(), &cluster.inventory, &scope, at(2_500));
        let known = Account { since: 2_000, ..Account::of(&earlier, []) }.since();
        let case = Case::new(&entry, &subject(), &cluster.inventory, &scope, at(now));
        Account::of(&case.remembering(Some(&known), &subject(), at(now)), []).since
    };
    assert_eq!(remembered(&wide, &wide, 3_000), 2_000);
    assert_eq!(remembered(&wide, &narrow, 3_000), 3_000);
    // A copy of an older SidecarSet's annotation.
    let copied = first.replace("1970-01-01T00:16:40Z", "1970-01-01T00:00:00Z");
    assert_eq!(since(&published(&narrow, 4_000, &[(SIDECARSET_PODS, copied)]).1), CREATED);
}

/// Where each of many tenants has a SidecarSet for the same labels, each Pod belongs to one of them.
#[test]
fn pods_of_other_namespaces_are_reported_only_where_there_are_no_others() {
    let tenant = |name: &str| {
        json!({"selector": {"matchLabels": {"app": "web"}}, "containers": sidecar(),
        "namespaceSelector": {"matchLabels": {"tenant": name}}})
    };
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        cluster = cluster.namespace(name, &json!({"tenant": name})).set(name, tenant(name));
    }
    let mut ledger = Ledger::default();
    let see = |ledger: &mut Ledger, name: &str, namespace: &str| {
        let pod = pod(name, CREATED + 9, |pod| pod["metadata"]["namespace"] = json!(namespace));
        ledger.see(uid(name), Some(record(&pod)));
        let mut touched = ledger.pass(&cluster.inventory);
        touched.append(&mut ledger.follow(&cluster.inventory));
        touched.iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(see(&mut ledger, "first", "a"), "abc");
    assert_eq!(see(&mut ledger, "second", "b"), "bc", "nothing is new for a");
    assert_eq!(see(&mut ledger, "third", "b"), "bc");
    let held: Vec<usize> = ["a", "b", "c"].iter().map(|name| ledger.members(name).count()).collect();
    assert_eq!(held, [1, 2, 0]);
    let scope = scope();
    let words = |name: &str| {
        let entry = cluster.inventory.sidecar_sets().get(name).unwrap();
        let account = ledger.account(&Case::new(entry, &subject(), &cluster.inventory, &scope, at(5_000)));
        account
            .findings
            .sorted()
            .iter()
            .map(|finding| (finding.reason.word(), finding.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(words("b"), [("Missed", 2)]);
    assert_eq!(words("c"), [("OtherNamespace", 3)]);
}

#[test]
fn a_number_of_pods_that_may_be_away_is_a_whole_one() {
    for (text, expected) in [("1", Some(1)), ("1000", Some(1000)), ("0", None), ("1001", None)] {
        assert_eq!(eviction_limit(text).ok(), expected);
    }
    for text in ["", "+1", "-1", "1.5", "10%", "all", " 1"] {
        assert!(eviction_limit(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_record_is_small_and_a_uid_survives() {
    assert!(size_of::<PodRecord>() <= 96, "{} bytes", size_of::<PodRecord>());
    let text = "705ab4f5-6393-11e8-b7cc-42010a800002";
    assert_eq!(Uid::of(text).to_string(), text);
    assert_ne!(Uid::of("a"), Uid::of("b"));
}

#[test]
fn the_registration_says_which_pods_are_reviewed() {
    let configuration = json!({"webhooks": [{"name": "other"}, {
        "name": "mpod.kb.io",
        "namespaceSelector": {"matchExpressions": [{"key": "batch", "operator": "DoesNotExist"}]},
        "objectSelector": {"matchLabels": {"reviewed": "yes"}},
    }]});
    let scope = Scope::of_configuration(&configuration.to_string()).unwrap();
    let cluster = cluster(json!({})).namespace("shop", &json!({"batch": "yes"}));
    let pod =
        |name: &'static str| record(&pod("p", 1, move |pod| pod["metadata"]["namespace"] = json!(name)));
    let excluded = |name: &'static str| {
        scope.excludes(cluster.inventory.namespace(name), &pod(name)).map(|it| it.word())
    };
    assert_eq!((excluded("shop"), excluded("other")), (Some("NamespaceExcluded"), Some("OptedOut")));
    assert_eq!(Scope::of_configuration(r#"{"webhooks":[]}"#), None);
}

#[test]
fn selectors_that_match_nothing_are_noticed() {
    let named = |names: &[&str]| {
        json!({"namespaceSelector": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]}})
    };
    let contradiction = json!({"selector": {"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}});
    let cases = [
        (json!({}), vec![]),
        (contradiction, vec![Reason::NeverMatches("app".to_owned())]),
        (named(&["shop"]), vec![]),
        (named(&["shop", "shpo"]), vec![Reason::NoSuchNamespace("shpo".to_owned())]),
        (named(&["kube-system"]), vec![Reason::NamespaceExcluded]),
        (named(&["shop", "kube-system"]), vec![]),
        (json!({"namespaceSelector": {"matchLabels": {"team": "nobody"}}}), vec![Reason::NoNamespace]),
    ];
    for (spec, expected) in cases {
        let cluster = cluster(spec);
        let set = &cluster.inventory.sidecar_sets().get("log").unwrap().object;
        assert_eq!(hints::of(set, &cluster.inventory, &scope()), expected, "{:?}", set.spec);
    }
    let set = &cluster(json!({})).inventory.sidecar_sets().get("log").unwrap().object.clone();
    let labels = |value: &str| BTreeMap::from([("app".to_owned(), value.to_owned())]);
    assert!(hints::is_meant_for_workload(set, &labels("web"), &labels("db")));
    assert!(!hints::is_meant_for_workload(set, &labels("web"), &labels("web")));
    assert!(!hints::is_meant_for_workload(set, &labels("db"), &labels("db")));
}

/// Some SidecarSets, and Namespaces with and without a label.
fn arbitrary_world() -> impl Strategy<Value = Cluster> {
    let label = prop::sample::select(vec!["web", "db"]);
    let set = (label, 0..4_usize, any::<bool>(), prop::option::of(0..3_usize));
    let labelled = prop::collection::vec(any::<bool>(), 3);
    (prop::collection::vec(set, 0..5), labelled).prop_map(|(sets, labelled)| {
        let mut cluster = Cluster::new();
        for (name, labelled) in ["shop", "other", "third"].into_iter().zip(labelled) {
            cluster = cluster.namespace(name, &if labelled { json!({"team": "a"}) } else { json!({}) });
        }
        for (number, (label, namespaces, paused, base)) in sets.into_iter().enumerate() {
            let mut spec = json!({"selector": {"matchLabels": {"app": label}}, "containers": sidecar(),
                "injectionStrategy": {"paused": paused}});
            match namespaces {
                0 => spec["namespaceSelector"] = json!({"matchLabels": {"team": "a"}}),
                1 => spec["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}),
                _ => {}
            }
            let annotations = base.map_or(json!({}), |base| {
                json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": format!("s{base}")})
            });
            cluster = cluster.set_with(&format!("s{number}"), spec, &annotations);
        }
        cluster
    })
}

fn arbitrary_pod() -> impl Strategy<Value = ObservedPod> {
    let namespace = prop::sample::select(vec!["shop", "other", "third", "nowhere"]);
    let label = prop::sample::select(vec!["web", "db", "none"]);
    (0..6_u8, namespace, label, any::<bool>(), any::<bool>()).prop_map(
        |(name, namespace, label, has, ready)| {
            pod(&format!("p{name}"), CREATED + 9, |pod| {
                pod["metadata"]["namespace"] = json!(namespace);
                pod["metadata"]["labels"] = json!({"app": label});
                if has {
                    pod["metadata"]["annotations"] = json!({"kruise.io/sidecarset-injected-list": "s0,s2"});
                }
                if !ready {
                    pod["status"] = json!({"phase": "Pending"});
                }
            })
        },
    )
}

/// What happens to a ledger.
#[derive(Clone, Debug)]
enum Change {
    See(Box<ObservedPod>),
    Gone(String),
    List(Vec<ObservedPod>),
    World(Cluster),
    Follow,
}

fn arbitrary_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => arbitrary_pod().prop_map(|pod| Change::See(Box::new(pod))),
        2 => (0..6_u8).prop_map(|name| Change::Gone(format!("p{name}"))),
        1 => prop::collection::vec(arbitrary_pod(), 0..5).prop_map(Change::List),
        1 => arbitrary_world().prop_map(Change::World),
        3 => Just(Change::Follow),
    ]
}

proptest! {
    /// Admission would inject a SidecarSet into a Pod exactly where a Pod like it is said to be missed.
    #[test]
    fn missed_is_who_admission_would_inject(cluster in arbitrary_world(), pod in arbitrary_pod()) {
        let metadata = &pod.metadata;
        let labels: BTreeMap<&str, &str> = metadata.labels.iter().collect();
        let mut object = json!({"metadata": {"name": "p", "namespace": &*metadata.namespace},
            "spec": {"containers": [{"name": "main"}]}});
        object["metadata"]["labels"] = labels.into_iter().collect();
        let (object, gates, moment) = (object.to_string(), FeatureGates::default(), Moment { now: at(5_000), seed: 1 });
        let mut context = ReviewContext::new(&gates, moment);
        let mut draft = Draft::new(Pod::read(&object).unwrap().0, &metadata.namespace).unwrap();
        let mut reasons = Reasons::new(true);
        drop(injection::mutate(&mut draft, &mut context, &cluster.inventory, Ok(None), &mut reasons));
        for (name, reason) in reasons.into_noted() {
            match judge(&cluster, &name, &pod) {
                Relation::Injected => {}
                Relation::Left(Reason::Missed) => {
                    prop_assert!(matches!(reason, explanation::Reason::Injected { .. }), "{name}: {reason}");
                }
                Relation::Left(reported) | Relation::Unselected(reported) => {
                    // A pause is reported before selectors that do not match.
                    prop_assert!(
                        reported == Reason::Admission(reason.clone()) || reason == explanation::Reason::Paused,
                        "{name}: {reported} but {reason}"
                    );
                }
            }
        }
    }

    /// Invariant 4: the ledger knows what reading each Pod would show, and reports each change.
    #[test]
    fn the_ledger_knows_all_members(changes in prop::collection::vec(arbitrary_change(), 1..60)) {
        let (mut ledger, mut cluster) = (Ledger::default(), Cluster::new());
        let mut pods: BTreeMap<Uid, ObservedPod> = BTreeMap::new();
        let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
        for change in changes.into_iter().chain([Change::Follow]) {
            let follows = matches!(change, Change::Follow);
            match change {
                Change::See(pod) => {
                    ledger.see(Uid::of(&pod.metadata.uid), Some(record(&pod)));
                    pods.insert(Uid::of(&pod.metadata.uid), *pod);
                }
                Change::Gone(name) => {
                    let known = pods.keys().copied().find(|known| *known == Uid::of(&uid(&name).to_string()));
                    known.into_iter().for_each(|known| {
                        ledger.gone(known);
                        pods.remove(&known);
                    });
                }
                Change::List(listed) => {
                    ledger.list_begins();
                    pods.clear();
                    for pod in listed {
                        ledger.see(Uid::of(&pod.metadata.uid), Some(record(&pod)));
                        pods.insert(Uid::of(&pod.metadata.uid), pod);
                    }
                    ledger.list_ends();
                }
                Change::World(next) => cluster = next,
                Change::Follow => {}
            }
            prop_assert_eq!(ledger.len(), pods.len());
            if !follows {
                continue;
            }
            let inventory = &cluster.inventory;
            let mut touched = ledger.pass(inventory);
            touched.append(&mut ledger.follow(inventory));
            let scope = scope();
            for entry in inventory.sidecar_sets().iter() {
                let case = Case::new(entry, &subject(), inventory, &scope, at(5_000));
                let found = ledger.account(&case);
                let all: Vec<PodRecord> = pods.values().map(record).collect();
                let expected = Account::of(&case, &all);
                prop_assert_eq!(&found, &expected, "{}", entry.name());
                let known = accounts.insert(entry.name().to_owned(), expected);
                prop_assert!(known.as_ref() == Some(&found) || touched.contains(entry.name()), "{} is not told", entry.name());
            }
            accounts.retain(|name, _| inventory.sidecar_sets().get(name).is_some());
        }
    }

    /// Whatever time owners and kubelets take, no more Pods are away than may be, and all come back.
    #[test]
    fn no_more_pods_are_away_than_may_be(
        limit in 1..4_u32,
        delays in prop::collection::vec((0..4_i64, 0..6_i64), 8),
        restarts in prop::collection::vec(0..60_i64, 0..3),
    ) {
        let cluster = cluster(json!({}));
        let (scope, entry) = (scope(), cluster.inventory.sidecar_sets().get("log").unwrap());
        let mut now = CREATED + 100;
        let mut evictions = Evictions::new(at(now));
        let mut pods: BTreeMap<Uid, PodRecord> =
            (0..8).map(|number| format!("p{number}")).map(|name| (uid(&name), record(&pod(&name, CREATED + 9, |_| {})))).collect();
        // When each replacement is created, when it is ready, and whether it is, as long as it is there.
        let mut coming: Vec<(i64, i64, String, Option<bool>)> = Vec::new();
        let mut done = 0;
        for _ in 0..400 {
            now += 1;
            if restarts.contains(&(now - CREATED - 100)) {
                evictions = Evictions::new(at(now));
            }
            for (created, ready, name, known) in &mut coming {
                let is_ready = *ready <= now;
                let present = (*created <= now).then_some(is_ready);
                if present.is_some() && *known != present {
                    *known = present;
                    pods.insert(uid(name), record(&pod(name, *created, |pod| {
                        injected(pod);
                        if !is_ready {
                            pod["status"] = json!({"phase": "Pending"});
                        }
                    })));
                }
            }
            let case = Case::new(entry, &subject(), &cluster.inventory, &scope, at(now));
            let members: Vec<(Uid, PodRecord)> = pods.iter().map(|(uid, pod)| (*uid, pod.clone())).collect();
            let decision = evictions.decide(limit, &case, members.iter().map(|(uid, pod)| (*uid, pod)), at(now));
            for (evicted, owner) in decision.evict {
                let (create, ready) = delays[done];
                pods.remove(&evicted).unwrap();
                evictions.evicted(evicted, owner);
                coming.push((now + create, now + create + ready, format!("r{done}"), None));
                done += 1;
            }
            let away = coming.iter().filter(|(_, ready, ..)| *ready > now).count();
            prop_assert!(away <= limit as usize, "{away} are away");
            if done == 8 && !evictions.is_under_way("log") {
                break;
            }
        }
        prop_assert_eq!(done, 8);
        prop_assert!(!evictions.is_under_way("log"));
    }
}
