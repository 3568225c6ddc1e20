//! Workloads and changes at random, all from one seed.

use jiff::Timestamp;
use kinds::uniteddeployment::children::ChildKind;
use kit::builders::slot;
use kit::fake_nodes;
use serde_json::{Map, Value, json};
use simulator::STORAGE_CLASS;
use values::moment::{Moment, Random};

use super::change::{Beside, Change, Deed, History, LATE, Of};

/// An image that neither the simulation nor the fake nodes can pull.
const BAD: &str = "bad/app:missing";
/// How many changes come before it has to settle, at most.
const AT_ONCE: u64 = 3;
/// How many Pods of each subset stay at older revisions.
const PARTITIONS: &str = "/updateStrategy/manualUpdate/partitions";

/// Chance.
pub struct Dice(Random);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Moment { now: Timestamp::UNIX_EPOCH, seed }.random())
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit.max(1)
    }

    /// True in so many of a hundred cases.
    fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }

    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index as u64 + 1) as usize);
        }
    }
}

/// What makes a history.
struct Author {
    dice: Dice,
    of: Of,
    /// The kind of ours that runs the Pods; empty where it is one of Kubernetes.
    kind: &'static str,
    /// Where its `spec` is, which may be that of a template.
    root: String,
    spec: Value,
    /// Templates that there were.
    former: Vec<Value>,
    beside: Beside,
    /// Makes every tag another.
    tag: u64,
}

/// The history of this seed, with so many steps, of a workload of this kind; of a UnitedDeployment by its template.
pub fn history(of: Of, seed: u64, steps: usize) -> History {
    let (kind, root) = match of {
        Of::Kind(kind) => (kind, String::new()),
        Of::Subsets(child) => {
            let kind = match child {
                ChildKind::CloneSet => "CloneSet",
                ChildKind::AdvancedStatefulSet => "StatefulSet",
                ChildKind::Deployment | ChildKind::StatefulSet => "",
            };
            (kind, format!("/template/{}/spec", child.member()))
        }
    };
    let mut author = Author {
        dice: Dice::new(seed),
        of,
        kind,
        root,
        spec: json!({}),
        former: Vec::new(),
        beside: Beside::default(),
        tag: 1,
    };
    author.begin();
    let spec = author.spec.clone();
    let dice = &mut author.dice;
    let has_replicas = matches!(of, Of::Kind("CloneSet" | "StatefulSet"));
    let is_alpha = dice.percent(20);
    author.beside = Beside {
        sidecar: kind != "BroadcastJob" && dice.percent(30),
        budget: has_replicas && dice.percent(30),
        spread: has_replicas && dice.percent(20),
    };
    let steps = (0..steps).map(|_| author.step()).collect();
    History { seed, of, is_alpha, spec, beside: author.beside, steps }
}

impl Author {
    /// A field of the `spec` that the kind has; the number of Pods is that of all subsets.
    fn at(&self, pointer: &str) -> String {
        let is_outer = pointer == "/replicas";
        if is_outer { pointer.to_owned() } else { format!("{}{pointer}", self.root) }
    }

    fn set(&mut self, pointer: &str, value: impl Into<Value>) {
        let pointer = self.at(pointer);
        *slot(&mut self.spec, &pointer) = value.into();
    }

    fn get(&self, pointer: &str) -> &Value {
        self.spec.pointer(&self.at(pointer)).unwrap_or(&Value::Null)
    }

    fn is_united(&self) -> bool {
        !self.root.is_empty()
    }

    fn begin(&mut self) {
        *slot(&mut self.spec, "/selector/matchLabels/app") = "web".into();
        self.template();
        if let Of::Subsets(child) = self.of {
            let labels = format!("/template/{}/metadata/labels/app", child.member());
            *slot(&mut self.spec, &labels) = "web".into();
            self.set("/selector/matchLabels/app", "web");
            let names = self.subset_names();
            *slot(&mut self.spec, "/topology/subsets") =
                names.iter().map(|name| json!({"name": name})).collect();
        }
        match self.kind {
            "" => return self.begin_foreign(),
            "CloneSet" => self.begin_clone_set(),
            "StatefulSet" => self.begin_stateful_set(),
            "BroadcastJob" => return self.begin_broadcast_job(),
            _ => self.begin_daemon_set(),
        }
        if self.dice.percent(25) {
            self.hooks();
        }
    }

    fn template(&mut self) {
        let dice = &mut self.dice;
        let mut containers =
            vec![json!({"name": "main", "image": "app:v1", "env": [{"name": "V", "value": "0"}]})];
        for name in ["aside", "extra"] {
            if dice.percent(30) {
                containers.push(json!({"name": name, "image": format!("{name}:v1"), "env": [{"name": "Z", "value": "1"}]}));
            }
        }
        dice.shuffle(&mut containers);
        if containers.len() > 1 && dice.percent(25) {
            let entry = json!({"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"});
            containers[0]["env"].as_array_mut().unwrap().push(entry);
        }
        let mut template = json!({
            "metadata": {"labels": {"app": "web", "v": "0"}}, "spec": {"containers": containers},
        });
        if dice.percent(30) {
            let load = json!({"name": "load", "image": "load:v1"});
            let proxy = json!({"name": "proxy", "image": "proxy:v1", "restartPolicy": "Always"});
            template["spec"]["initContainers"] =
                dice.of(&[json!([load]), json!([proxy, load]), json!([proxy])]);
        }
        if dice.percent(50) {
            let after = dice.of(&["100", "500"]);
            template["metadata"]["annotations"][fake_nodes::READY_AFTER] = after.into();
        }
        self.set("/template", template);
    }

    fn hooks(&mut self) {
        let dice = &mut self.dice;
        let mut delete = json!({"labelsHandler": {"hold-delete": "yes"}});
        if dice.percent(40) {
            delete["finalizersHandler"] = json!(["example.com/hold"]);
        }
        let mut lifecycle = json!({});
        if dice.percent(60) {
            lifecycle["preDelete"] = delete;
        }
        if self.kind != "DaemonSet" && self.dice.percent(60) {
            lifecycle["inPlaceUpdate"] = json!({"labelsHandler": {"hold-update": "yes"}});
        }
        for (hook, label) in [("preDelete", "hold-delete"), ("inPlaceUpdate", "hold-update")] {
            if lifecycle.get(hook).is_some() {
                self.set(&format!("/template/metadata/labels/{label}"), "yes");
            }
        }
        if let Some(finalizers) = lifecycle.pointer("/preDelete/finalizersHandler") {
            let finalizers = finalizers.clone();
            self.set("/template/metadata/finalizers", finalizers);
        }
        if lifecycle != json!({}) {
            self.set("/lifecycle", lifecycle);
        }
    }

    fn claims(&mut self) {
        let claim = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS,
                "resources": {"requests": {"storage": "1Gi"}}}})
        };
        let claims = self.dice.of(&[json!([claim("data")]), json!([claim("data"), claim("logs")])]);
        self.set("/volumeClaimTemplates", claims);
    }

    /// Deployments and StatefulSets of Kubernetes.
    fn begin_foreign(&mut self) {
        let replicas = self.dice.below(5) + 1;
        self.set("/replicas", replicas);
        if matches!(self.of, Of::Subsets(ChildKind::StatefulSet)) {
            self.set("/serviceName", "web");
            let management = self.dice.of(&["OrderedReady", "Parallel"]);
            self.set("/podManagementPolicy", management);
        }
    }

    /// One to three of them, in order.
    fn subset_names(&mut self) -> Vec<&'static str> {
        let mut names = vec!["a", "b", "c"];
        while names.len() > 1 && self.dice.percent(40) {
            let index = self.dice.below(names.len() as u64) as usize;
            names.remove(index);
        }
        names
    }

    /// Subsets come, go, and get another share; or they keep other numbers of Pods at older revisions.
    fn change_subsets(&mut self) -> Change {
        let known = self.spec["topology"]["subsets"].as_array().unwrap();
        let known: Vec<String> =
            known.iter().map(|subset| subset["name"].as_str().unwrap().to_owned()).collect();
        if self.dice.percent(40) && !self.kind.is_empty() {
            let some = known.into_iter().map(|name| (name, self.dice.below(3).into()));
            return Change::set(PARTITIONS, some.collect::<Map<_, _>>());
        }
        let names = self.subset_names();
        let mut subsets: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        if subsets.len() > 1 {
            let number = self.dice.below(4);
            let share = self.dice.of(&[
                json!({}),
                json!({"replicas": number}),
                json!({"replicas": "50%"}),
                json!({"maxReplicas": number}),
                json!({"minReplicas": number.min(1), "maxReplicas": number.max(1)}),
            ]);
            subsets[0].as_object_mut().unwrap().extend(share.as_object().unwrap().clone());
        }
        // Of subsets that are gone there is no partition.
        let mut kept = self.spec.pointer(PARTITIONS).and_then(Value::as_object).cloned().unwrap_or_default();
        kept.retain(|name, _| names.contains(&name.as_str()));
        Change::Spec(vec![
            (PARTITIONS.to_owned(), kept.into()),
            ("/topology/subsets".to_owned(), subsets.into()),
        ])
    }

    fn begin_clone_set(&mut self) {
        let replicas = self.dice.below(5) + 1;
        self.set("/replicas", replicas);
        let policies = ["ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"];
        // What a workload refuses then, its UnitedDeployment would try for ever.
        let policy = self.dice.of(&policies[..if self.is_united() { 3 } else { 4 }]);
        self.set("/updateStrategy/rollingUpdate/podUpdatePolicy", policy);
        if self.dice.percent(30) {
            self.claims();
            if self.dice.percent(50) {
                self.set("/scaleStrategy/disablePVCReuse", false);
            }
        }
        self.minutiae();
    }

    fn begin_stateful_set(&mut self) {
        let replicas = self.dice.below(4) + 1;
        self.set("/replicas", replicas);
        self.set("/serviceName", "web");
        self.set("/template/spec/readinessGates", json!([{"conditionType": "InPlaceUpdateReady"}]));
        let policy = self.dice.of(&["ReCreate", "InPlaceIfPossible", "InPlaceIfPossible"]);
        self.set("/updateStrategy/rollingUpdate/podUpdatePolicy", policy);
        let management = self.dice.of(&["OrderedReady", "Parallel"]);
        self.set("/podManagementPolicy", management);
        if self.dice.percent(40) {
            self.claims();
            let policies = ["Retain", "Delete"];
            let retention =
                json!({"whenDeleted": self.dice.of(&policies), "whenScaled": self.dice.of(&policies)});
            self.set("/persistentVolumeClaimRetentionPolicy", retention);
            if self.dice.percent(50) {
                self.set("/volumeClaimUpdateStrategy/type", "OnPodRollingUpdate");
            }
        }
        self.minutiae();
    }

    fn begin_daemon_set(&mut self) {
        let kind = self.dice.of(&["Standard", "InPlaceIfPossible"]);
        self.set("/updateStrategy/rollingUpdate/rollingUpdateType", kind);
        self.minutiae();
    }

    fn begin_broadcast_job(&mut self) {
        self.set("/selector", Value::Null);
        self.set("/template/spec/initContainers", Value::Null);
        let policy = self.dice.of(&["Never", "OnFailure"]);
        self.set("/template/spec/restartPolicy", policy);
        let containers = self.get("/template/spec/containers").as_array().unwrap().iter();
        let ends: Vec<String> =
            containers.map(|container| format!("{}=0", container["name"].as_str().unwrap())).collect();
        *slot(&mut self.spec, "/template/metadata/annotations") = json!({fake_nodes::EXIT: ends.join(",")});
        let parallelism = self.dice.of(&[json!(1), json!(2), json!("50%"), json!("100%")]);
        self.set("/parallelism", parallelism);
        let is_paused = self.dice.percent(50);
        self.set("/paused", is_paused);
    }

    /// Settings of the pace.
    fn minutiae(&mut self) {
        let seconds = self.dice.of(&[0, 0, 0, 1]);
        self.set(self.min_ready(), seconds);
        if let Change::Spec(fields) = self.budget() {
            for (pointer, value) in fields {
                self.set(&pointer, value);
            }
        }
    }

    fn min_ready(&self) -> &'static str {
        match self.kind {
            "StatefulSet" => "/updateStrategy/rollingUpdate/minReadySeconds",
            _ => "/minReadySeconds",
        }
    }

    /// maxUnavailable and maxSurge, as validation lets them be.
    fn budget(&mut self) -> Change {
        let in_place = self.get("/updateStrategy/rollingUpdate/podUpdatePolicy") == "InPlaceOnly"
            || self.get("/updateStrategy/rollingUpdate/rollingUpdateType") == "InPlaceIfPossible";
        let ordered = self.get("/podManagementPolicy") == "OrderedReady";
        let dice = &mut self.dice;
        let surges = self.kind != "StatefulSet" && !in_place && dice.percent(40);
        let surge = if surges { dice.of(&[json!(1), json!(2), json!("50%")]) } else { json!(0) };
        let unavailable = match (surges, ordered) {
            (_, true) => json!(1),
            (true, _) if self.kind == "DaemonSet" => json!(0),
            (true, _) => dice.of(&[json!(0), json!(1)]),
            _ => dice.of(&[json!(1), json!(1), json!(2), json!("50%"), json!("100%")]),
        };
        let field = |name: &str| format!("/updateStrategy/rollingUpdate/{name}");
        let mut fields = vec![(field("maxUnavailable"), unavailable)];
        if self.kind != "StatefulSet" {
            fields.push((field("maxSurge"), surge));
        }
        Change::Spec(fields)
    }

    /// Changes until it has to settle. Where it comes to must not depend on who is quicker: what is done to Pods is
    /// not mixed with changes of the `spec`. Of these what holds Pods back comes first, then what lets them go, and
    /// their number last; and none takes back what another did.
    fn step(&mut self) -> Vec<Change> {
        let count = if self.dice.percent(60) { 1 } else { 1 + self.dice.below(AT_ONCE) };
        let mut changes: Vec<Change> = vec![self.change()];
        let is_deed = |change: &Change| matches!(change, Change::Pod(..));
        for _ in 1..count {
            let change = self.change();
            let takes_back = changes.iter().any(|other| change.takes_back(other));
            if is_deed(&change) == is_deed(&changes[0]) && !takes_back {
                changes.push(change);
            }
        }
        changes.sort_by_key(|change| match change {
            change if change.scales() => 4,
            change if !change.paces() => 3,
            Change::Spec(fields)
                if fields.iter().any(|(_, value)| *value == false || value == "RollingUpdate") =>
            {
                2
            }
            Change::Spec(fields) if fields.iter().any(|(_, value)| *value == true || value == "OnDelete") => {
                0
            }
            _ => 1,
        });
        // How far it comes while its image can't be pulled depends on who is quicker. Other subsets have other partitions;
        // and a subset without Pods, whose partition is zero, may be through with a new template before it gets some.
        let has_partitions = self.spec.pointer(PARTITIONS).is_some();
        let is_alone = |change: &Change| {
            let text = format!("{change:?}");
            text.contains(BAD) || text.contains("/topology/subsets") || (has_partitions && change.scales())
        };
        if let Some(alone) = changes.iter().position(is_alone) {
            changes = vec![changes.remove(alone)];
        }
        for change in &changes {
            change.apply(&mut self.spec);
        }
        changes
    }

    fn change(&mut self) -> Change {
        if self.is_united() && self.dice.percent(25) {
            return self.change_subsets();
        }
        match self.change_kind() {
            Change::Spec(fields) => {
                Change::Spec(fields.into_iter().map(|(field, value)| (self.at(&field), value)).collect())
            }
            change => change,
        }
    }

    /// A change of what runs the Pods, and of Pods.
    fn change_kind(&mut self) -> Change {
        let partition = "/updateStrategy/rollingUpdate/partition";
        let paused = "/updateStrategy/rollingUpdate/paused";
        if self.kind == "BroadcastJob" {
            return match self.dice.below(4) {
                0 => Change::set("/paused", self.dice.percent(50)),
                1 => Change::set("/parallelism", self.dice.of(&[json!(1), json!(2), json!("50%")])),
                2 => Change::Pod(Deed::Delete, self.number()),
                _ => Change::Restart,
            };
        }
        match self.dice.below(100) {
            0..=31 => self.edit_template(),
            32..=37 => match self.former.last().cloned() {
                Some(former) => {
                    self.former.push(self.get("/template").clone());
                    Change::set("/template", former)
                }
                None => self.edit_template(),
            },
            32..=40 if !self.is_united() && self.get("/volumeClaimTemplates").is_array() => {
                self.change_claims()
            }
            38..=47 if self.kind != "DaemonSet" => Change::set("/replicas", self.dice.below(6)),
            76..=81 => Change::Pod(Deed::Delete, self.number()),
            82..=85 => Change::Pod(Deed::Evict, self.number()),
            90..=94 => Change::Pod(Deed::MakeUnready, self.number()),
            95 => Change::Restart,
            96..=97 if self.beside.sidecar => Change::Sidecar(self.next()),
            98..=99 if self.beside.spread => Change::Spread(self.number()),
            _ if self.kind.is_empty() => self.edit_template(),
            48..=57 if !self.is_united() => Change::set(partition, self.dice.of(&[0, 0, 0, 1, 2, 3])),
            58..=63 => self.budget(),
            64..=66 => {
                let is_paused = self.get(paused) == true;
                Change::set(paused, !is_paused)
            }
            // A StatefulSet refuses `OnDelete` beside `rollingUpdate`, and its UnitedDeployment would try for ever.
            67..=68 if !(self.is_united() && self.kind == "StatefulSet") => {
                Change::set("/updateStrategy/type", self.dice.of(&["RollingUpdate", "OnDelete"]))
            }
            69..=71 => Change::set(self.min_ready(), self.dice.of(&[0, 1])),
            72..=75 if self.kind == "StatefulSet" && !self.is_united() => {
                let reserved = self.dice.of(&[json!([]), json!([0]), json!([1]), json!([0, 2])]);
                Change::set("/reserveOrdinals", reserved)
            }
            72..=75 if self.kind == "CloneSet" => self.change_clone_set(),
            86..=87 if self.kind == "CloneSet" => Change::Pod(Deed::Name, self.number()),
            86..=89 if self.kind != "DaemonSet" => Change::Pod(Deed::MarkForDeletion, self.number()),
            _ => self.edit_template(),
        }
    }

    /// Claims are to be larger, or there is another one.
    fn change_claims(&mut self) -> Change {
        if self.dice.percent(60) {
            let size = format!("{}Gi", self.next());
            return Change::set("/volumeClaimTemplates/0/spec/resources/requests/storage", size);
        }
        let mut claims = self.get("/volumeClaimTemplates").clone();
        let mut another = claims[0].clone();
        another["metadata"]["name"] = format!("{LATE}{}", self.next()).into();
        claims.as_array_mut().unwrap().push(another);
        Change::set("/volumeClaimTemplates", claims)
    }

    /// Changes of what CloneSets alone have.
    fn change_clone_set(&mut self) -> Change {
        let rolling = |field: &str| format!("/updateStrategy/rollingUpdate/{field}");
        match self.dice.below(3) {
            0 => {
                let policy = self.dice.of(&["ReCreate", "InPlaceIfPossible"]);
                Change::Spec(vec![
                    (rolling("podUpdatePolicy"), policy.into()),
                    (rolling("maxSurge"), json!(0)),
                    (rolling("maxUnavailable"), json!(1)),
                ])
            }
            1 => {
                let weight = json!({"weight": 5, "matchSelector": {"matchLabels": {"v": "0"}}});
                let priority = self.dice.of(&[
                    json!({"orderPriority": [{"orderedKey": "v"}]}),
                    json!({"weightPriority": [weight]}),
                    Value::Null,
                ]);
                Change::set(&rolling("priorityStrategy"), priority)
            }
            _ => {
                let limit = self.dice.of(&[json!(1), json!("50%"), Value::Null]);
                Change::set("/scaleStrategy/maxUnavailable", limit)
            }
        }
    }

    fn number(&mut self) -> usize {
        self.dice.below(5) as usize
    }

    fn edit_template(&mut self) -> Change {
        let template = self.get("/template").clone();
        let containers = template["spec"]["containers"].as_array().unwrap().clone();
        // One that can't be pulled is repaired by the next edit: what comes of several depends on who is quicker.
        if let Some(index) = containers.iter().position(|container| container["image"] == BAD) {
            return Change::set(&format!("/template/spec/containers/{index}/image"), self.image("app"));
        }
        self.former.push(template);
        let main = containers.iter().position(|container| container["name"] == "main").unwrap();
        match self.dice.below(20) {
            // What else there is for the Pods would hold back those that could be tried beside it.
            0 if self.beside == Beside::default() && !self.kind.is_empty() => {
                self.former.pop();
                Change::set(&format!("/template/spec/containers/{main}/image"), BAD)
            }
            1..=3 => Change::set("/template/metadata/labels/v", self.next().to_string()),
            4..=6 => {
                let variable = format!("/template/spec/containers/{main}/env/0/value");
                Change::set(&variable, self.next().to_string())
            }
            7..=8 => Change::set("/template/metadata/annotations/note", self.next().to_string()),
            _ => {
                let mut changed: Vec<usize> =
                    (0..containers.len()).filter(|_| self.dice.percent(50)).collect();
                if changed.is_empty() {
                    changed.push(main);
                }
                let image = |author: &mut Self, index: usize| {
                    let name = containers[index]["name"].as_str().unwrap().replace("main", "app");
                    (format!("/template/spec/containers/{index}/image"), author.image(&name).into())
                };
                Change::Spec(changed.into_iter().map(|index| image(self, index)).collect())
            }
        }
    }

    fn image(&mut self, name: &str) -> String {
        format!("{name}:v{}", self.next())
    }

    fn next(&mut self) -> u64 {
        self.tag += 1;
        self.tag
    }
}
