//! Validation of SidecarSets.

use admission::world::{Watched, World};
use kinds::sidecarset::account::{Scope, hints};
use kinds::sidecarset::validation::{Context, PATCH_METADATA_ALLOW_LIST, RevisionQuery, Submitted, review};
use values::verdict::Verdict;

use super::resource::Write;

/// What validation compares with; all of it has to be there.
const READ: [Watched; 3] = [Watched::SidecarSet, Watched::ControllerRevision, Watched::ConfigMap];

/// Checks a SidecarSet against itself, its former self and the other SidecarSets.
pub(super) fn validate(write: &Write<'_>) -> Verdict {
    let admission = write.admission;
    if let Some(refused) = READ.into_iter().find_map(|kind| admission.not_loaded(kind)) {
        return refused;
    }
    let world = admission.index.world();
    let sidecar_sets: Vec<_> = world.sidecar_sets().iter().map(|entry| &entry.object).collect();
    let context = Context {
        sidecar_sets: &sidecar_sets,
        has_revision: &|query| has_revision(&world, query),
        allow_list: world.configuration(PATCH_METADATA_ALLOW_LIST),
        gates: &admission.gates,
        allow_privileged: admission.flags.allow_privileged,
    };
    let mut verdict = review(write.object, write.old, &context);
    if let Verdict::Allow { warnings, .. } = &mut verdict
        && admission.index.can_answer(Watched::Namespace)
    {
        warnings.extend(warnings_of(write.object, &world));
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
