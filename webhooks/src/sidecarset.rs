//! The SidecarSet's own webhooks: defaulting and validation (spec 20 §3, §4).

use planner::kinds::sidecarset::account::{Scope, hints};
use planner::kinds::sidecarset::defaulting;
use planner::kinds::sidecarset::validation::{
    Context, PATCH_METADATA_ALLOW_LIST, RevisionQuery, Submitted, review,
};
use planner::server::world::{Watched, World};
use planner::text::verdict::Verdict;

use crate::admission::{Admission, not_loaded};
use crate::review::Request;

/// What validation compares with; all of it has to be there.
const READ: [Watched; 3] = [Watched::SidecarSet, Watched::ControllerRevision, Watched::ConfigMap];

/// Fills in defaults and hashes, in the version of the request. Needs no cache.
pub(crate) fn mutate(request: &Request<'_>) -> Verdict {
    if !is_write(request) {
        return Verdict::allow();
    }
    let object = request.object.map_or("null", |object| object.get());
    match defaulting::default(object, &request.resource.version) {
        Ok(edits) => Verdict::edit(edits),
        Err(denial) => denial.into(),
    }
}

/// Checks a SidecarSet against itself, its former self and the other SidecarSets.
pub(crate) fn validate(admission: &Admission, request: &Request<'_>) -> Verdict {
    if !is_write(request) {
        return Verdict::allow();
    }
    if let Some(kind) = READ.into_iter().find(|kind| !admission.index.can_answer(*kind)) {
        return not_loaded(kind, &admission.index.cache_state(kind));
    }
    let world = admission.index.world();
    let sidecar_sets: Vec<_> = world.sidecar_sets().iter().map(|entry| &entry.object).collect();
    let context = Context {
        sidecar_sets: &sidecar_sets,
        has_revision: &|query| has_revision(&world, query),
        allow_list: world.configuration(PATCH_METADATA_ALLOW_LIST),
        gates: &admission.gates,
        allow_privileged: admission.settings.allow_privileged,
    };
    let old = request.old_object.filter(|_| request.operation == "UPDATE");
    let object = request.object.map_or("null", |object| object.get());
    let mut verdict = review(object, old.map(|old| old.get()), &context);
    if let Verdict::Allow { warnings, .. } = &mut verdict
        && admission.index.can_answer(Watched::Namespace)
    {
        warnings.extend(warnings_of(object, &world));
    }
    verdict
}

/// Why the SidecarSet can match no Pod, as far as it is known here: selectors and Namespaces, but no Pods.
fn warnings_of(object: &str, world: &World) -> Vec<String> {
    let scope = Scope::of_installation(world.install_namespace());
    let reasons = Submitted::read(object).map(|set| hints::of(&set.object, world.inventory(), &scope));
    reasons.unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn has_revision(world: &World, query: RevisionQuery<'_>) -> bool {
    match query {
        RevisionQuery::Name { sidecar_set, name } => {
            world.revision(name).is_some_and(|revision| revision.sidecar_set == sidecar_set)
        }
        RevisionQuery::CustomVersion { sidecar_set, version } => {
            !world.revisions_of(sidecar_set, Some(version)).is_empty()
        }
    }
}

/// Only creates and updates of the object itself are registered.
fn is_write(request: &Request<'_>) -> bool {
    matches!(&*request.operation, "CREATE" | "UPDATE") && request.sub_resource.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_found_only_for_the_set_that_it_belongs_to() {
        let mut world = World::new("kruise-system");
        let revision = r#"{"metadata":{"name":"s1-abc","namespace":"kruise-system","labels":{"kruise.io/sidecarset-name":"s1"}},"revision":1,"data":{"spec":{}}}"#;
        world.apply(Watched::ControllerRevision, revision).unwrap();
        let found = |sidecar_set| has_revision(&world, RevisionQuery::Name { sidecar_set, name: "s1-abc" });
        assert!(found("s1") && !found("s2"));
    }
}
