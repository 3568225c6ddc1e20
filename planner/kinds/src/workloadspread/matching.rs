//! Which WorkloadSpread divides a Pod (docs/behaviour/workloadspread.md#which-workloadspread-a-pod-belongs-to).

use api::meta::OwnerReference;

use super::custom::{CustomWorkloads, is_built_in};
use super::spread::Spread;
use crate::workload::target::Workload;
use values::selector::Labels;

/// How many owners are followed upwards; nobody nests workloads deeper.
const HEIGHT: usize = 8;

/// Owners that were read: each with the owner that manages it, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(Vec<(OwnerReference, Option<OwnerReference>)>);

impl Owners {
    /// Takes in who manages `owner`.
    pub fn add(&mut self, owner: OwnerReference, above: Option<OwnerReference>) {
        self.0.push((owner, above));
    }

    fn above(&self, owner: &OwnerReference) -> Option<Option<&OwnerReference>> {
        self.0.iter().find(|(known, _)| known == owner).map(|(_, above)| above.as_ref())
    }
}

/// The WorkloadSpread of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Match<'s> {
    Nothing,
    Spread(&'s Spread),
    /// It hangs on who manages this object.
    NeedsOwner(OwnerReference),
}

/// Finds the WorkloadSpread of a Pod by its controller and labels: the nearest owner that has one, and of several
/// on that one the first by name.
pub(crate) fn find<'s>(
    controller: &OwnerReference,
    labels: &(impl Labels + ?Sized),
    spreads: &'s [Spread],
    custom: &CustomWorkloads,
    owners: &Owners,
) -> Match<'s> {
    let mut meant = spreads.iter().filter(|spread| spread.is_active() && spread.selects(labels)).peekable();
    if meant.peek().is_none() {
        return Match::Nothing;
    }
    let meant: Vec<&'s Spread> = meant.collect();
    let mut owner = controller.clone();
    for _ in 0..HEIGHT {
        let workload = Workload::from(&owner);
        if !custom.know(&workload) {
            return Match::Nothing;
        }
        if let Some(spread) = meant.iter().find(|spread| *spread.target() == workload) {
            return Match::Spread(spread);
        }
        // The name says which Deployment this is, if any: it is compared, and never asked for, since it need not exist.
        let deployment = workload.deployment(labels);
        if let Some(deployment) = &deployment
            && let Some(spread) = meant.iter().find(|spread| spread.target() == deployment)
        {
            return Match::Spread(spread);
        }
        let is_ruled_out = |spread: &Spread| deployment.is_some() && is_built_in(spread.target());
        if !meant.iter().any(|spread| may_be_above(spread, &workload) && !is_ruled_out(spread)) {
            return Match::Nothing;
        }
        match owners.above(&owner) {
            None => return Match::NeedsOwner(owner),
            Some(None) => return Match::Nothing,
            Some(Some(above)) => owner = above.clone(),
        }
    }
    Match::Nothing
}

/// Whether the target of a WorkloadSpread may own this object: of the known kinds only a Deployment owns another
/// one.
fn may_be_above(spread: &Spread, owned: &Workload<'_>) -> bool {
    let target = spread.target();
    !is_built_in(target) || (target.is("apps", "Deployment") && owned.is("apps", "ReplicaSet"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use pod::observed::Pairs;

    fn spread(name: &str, api_version: &str, kind: &str, target: &str, filter: Value) -> Spread {
        let mut object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": target}, "subsets": [{"name": "a"}]}});
        object["spec"]["targetFilter"] = filter;
        Spread::read(&object.to_string()).unwrap()
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..OwnerReference::default()
        }
    }

    fn labels(pairs: &[(&'static str, &'static str)]) -> Pairs {
        pairs.iter().copied().collect()
    }

    fn matched(controller: &OwnerReference, labels: &Pairs, spreads: &[Spread], owners: &Owners) -> String {
        let custom = r#"{"workloads":[{"group":"kubeflow.org","kind":"TFJob","subResources":[{"group":"kubeflow.org","kind":"Group"}]}]}"#;
        let custom = CustomWorkloads::parse(custom).unwrap();
        match find(controller, labels, spreads, &custom, owners) {
            Match::Nothing => String::new(),
            Match::Spread(spread) => spread.name().to_owned(),
            Match::NeedsOwner(owner) => format!("? {} {}", owner.kind, owner.name),
        }
    }

    #[test]
    fn versions_of_the_target_do_not_matter() {
        let spreads = [spread("ws", "apps.kruise.io/v1beta1", "CloneSet", "web", Value::Null)];
        let matched = |api_version: &str, kind: &str, name: &str| {
            matched(&owner(api_version, kind, name), &labels(&[]), &spreads, &Owners::default())
        };
        assert_eq!(matched("apps.kruise.io/v1alpha1", "CloneSet", "web"), "ws");
        assert_eq!(matched("apps.kruise.io/v1alpha1", "CloneSet", "web2"), "");
        assert_eq!(matched("apps/v1", "CloneSet", "web"), "", "not a kind that is known");
        assert_eq!(
            matched("apps/v1", "ReplicaSet", "web"),
            "",
            "a CloneSet owns no ReplicaSet: nothing is read"
        );
    }

    #[test]
    fn a_deployment_is_known_by_name_and_hash_or_read() {
        let spreads = [
            spread("a-deployment", "apps/v1", "Deployment", "web", Value::Null),
            spread("set", "apps/v1", "ReplicaSet", "web-77", Value::Null),
        ];
        let hashed = |hash: &'static str| labels(&[("pod-template-hash", hash)]);
        let (near, none) = (owner("apps/v1", "ReplicaSet", "web-77"), Owners::default());
        assert_eq!(matched(&near, &hashed("77"), &spreads, &none), "set", "the nearest owner goes first");
        let other = owner("apps/v1", "ReplicaSet", "web-5d4f");
        assert_eq!(matched(&other, &hashed("5d4f"), &spreads, &none), "a-deployment");
        assert_eq!(matched(&other, &hashed("4f"), &spreads, &none), "? ReplicaSet web-5d4f");
        let mut read = Owners::default();
        read.add(other.clone(), Some(owner("apps/v1", "Deployment", "web")));
        assert_eq!(matched(&other, &hashed("4f"), &spreads, &read), "a-deployment");
        let mut alone = Owners::default();
        alone.add(other.clone(), None);
        assert_eq!(matched(&other, &hashed("4f"), &spreads, &alone), "");
    }

    #[test]
    fn a_deployment_that_a_name_suggests_is_never_asked_for() {
        let set = owner("apps/v1", "ReplicaSet", "web-5d4f");
        let hash = labels(&[("pod-template-hash", "5d4f")]);
        let other = spread("a-deployment", "apps/v1", "Deployment", "other", Value::Null);
        let job = spread("job", "kubeflow.org/v1", "TFJob", "train", Value::Null);
        assert_eq!(
            matched(&set, &hash, std::slice::from_ref(&other), &Owners::default()),
            "",
            "nothing is read"
        );
        let spreads = [other, job];
        assert_eq!(matched(&set, &hash, &spreads, &Owners::default()), "? ReplicaSet web-5d4f");
        // Nobody owns it: its Deployment was deleted, and left it behind.
        let mut orphaned = Owners::default();
        orphaned.add(set.clone(), None);
        assert_eq!(matched(&set, &hash, &spreads, &orphaned), "");
    }

    #[test]
    fn scenario_35_a_chain_of_listed_owners_is_followed() {
        let spreads = [spread("ws", "kubeflow.org/v2", "TFJob", "train", Value::Null)];
        let group = owner("kubeflow.org/v1", "Group", "train-worker");
        assert_eq!(matched(&group, &labels(&[]), &spreads, &Owners::default()), "? Group train-worker");
        let mut read = Owners::default();
        read.add(group.clone(), Some(owner("kubeflow.org/v1", "TFJob", "train")));
        assert_eq!(matched(&group, &labels(&[]), &spreads, &read), "ws");
        let mut circle = Owners::default();
        circle.add(group.clone(), Some(group.clone()));
        assert_eq!(matched(&group, &labels(&[]), &spreads, &circle), "");
    }

    #[test]
    fn the_filter_chooses_among_the_pods() {
        let web = owner("apps.kruise.io/v1beta1", "CloneSet", "web");
        let matched = |filter: Value, labels: &Pairs| {
            let spreads = [spread("ws", "apps.kruise.io/v1beta1", "CloneSet", "web", filter)];
            matched(&web, labels, &spreads, &Owners::default())
        };
        let worker = labels(&[("role", "worker")]);
        for (filter, expected) in [
            (json!(null), "ws"),
            (json!({}), "ws"),
            (json!({"selector": {}}), "ws"),
            (json!({"selector": {"matchLabels": {"role": "worker"}}}), "ws"),
            (json!({"selector": {"matchLabels": {"role": "ps"}}}), ""),
            (json!({"selector": {"matchExpressions": [{"key": "role", "operator": "Near"}]}}), ""),
        ] {
            assert_eq!(matched(filter.clone(), &worker), expected, "{filter}");
        }
    }

    #[test]
    fn spreads_that_are_deleted_or_name_no_workload_divide_nothing() {
        let text = |patch: &str| {
            format!(
                r#"{{"metadata":{{"name":"ws"{patch}}},"spec":{{"targetRef":{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"}}}}}}"#
            )
        };
        let spreads = [Spread::read(&text(r#","deletionTimestamp":"2026-01-01T00:00:00Z""#)).unwrap()];
        let web = owner("apps/v1", "ReplicaSet", "web");
        assert_eq!(matched(&web, &labels(&[]), &spreads, &Owners::default()), "");
        assert!(!Spread::read(r#"{"metadata":{"name":"ws"},"spec":{}}"#).unwrap().is_active());
        assert!(Spread::read(&text("")).unwrap().is_active());
    }
}
