//! Injection of SidecarSets into a Pod (docs/behaviour/pod-mutation.md#sidecarset-injection).
//!
//! ```text
//!   choose          which SidecarSets, in which state            matching
//!   patch           their annotations                            records
//!   build           their containers for this Pod                build, sources, resources
//!   merge           containers, volumes, pull secrets into the draft
//!   record          what was injected, as annotations            records
//! ```
//!
//! Guarantees: nothing of the user's is removed but a container that has the name of a sidecar, and that
//! is reported as a warning; a second run gives the same Pod; the order in which SidecarSets came into the
//! world does not matter.

use std::borrow::Cow;

use api::annotations::SIDECARSET_REPLACED_SOURCES;
use api::features::Feature;
use foldhash::{HashSet, HashSetExt as _};

use super::build::Builder;
use super::contribution::{PreparedVolume, Sidecar};
use super::explanation::Reason;
use super::inventory::Inventory;
use super::matching::{Chosen, choose};
use super::records::{Record, patch_annotations, record};
use super::sources::{Sources, is_injected};
use crate::workload::namespace::Namespace;
use pod::review::draft::{Addition, ContainerList, Placed};
use pod::review::lens::named;
use pod::review::{Draft, Reasons, ReviewContext};
use values::json_patch::string;
use values::verdict::{Denial, refused};

/// A container to merge, and whose it is.
struct Owned<'w> {
    addition: Addition,
    owner: &'w str,
}

/// Everything that the SidecarSets of one pass add.
#[derive(Default)]
struct Built<'w> {
    init_containers: Vec<Owned<'w>>,
    containers: Vec<Owned<'w>>,
    volumes: Vec<(&'w PreparedVolume, &'w str)>,
    pull_secrets: Vec<&'w str>,
    records: Vec<Record<'w>>,
    hot: Vec<&'w str>,
    /// What containers had that sidecars may take over, and that are replaced.
    replaced_sources: Option<String>,
}

/// Injects what matches the Pod. `namespace` is its Namespace as the caller read it, for when the inventory does not have
/// it; `None` where it does not exist, and a denial where it can't be read.
pub fn mutate(
    draft: &mut Draft<'_>,
    context: &mut ReviewContext<'_>,
    inventory: &Inventory,
    namespace: Result<Option<&Namespace>, &Denial>,
    reasons: &mut Reasons<Reason>,
) -> Result<(), Denial> {
    let chosen = choose(draft, context, inventory, namespace, reasons)?;
    patch_annotations(draft, &chosen)?;
    for choice in &chosen {
        reasons.note(choice.entry.name(), || reason(choice));
    }
    let mut built = build(draft, &chosen)?;
    if built.records.is_empty() {
        return Ok(());
    }
    built.init_containers.sort_by(|left, right| left.addition.name.cmp(&right.addition.name));
    if context.gates.enabled(Feature::EnableSortSidecarContainerByName) {
        built.containers.sort_by(|left, right| left.addition.name.cmp(&right.addition.name));
    }
    merge(draft, ContainerList::Init, built.init_containers);
    merge(draft, ContainerList::App, built.containers);
    add_volumes(draft, &built.volumes)?;
    add_pull_secrets(draft, &built.pull_secrets)?;
    if let Some(replaced) = built.replaced_sources {
        draft.set_annotation(SIDECARSET_REPLACED_SOURCES, replaced);
    }
    record(draft, &context.moment.rfc3339(), &built.records, &built.hot)
}

fn reason(choice: &Chosen<'_>) -> Reason {
    if choice.contribution.has_no_containers() {
        return Reason::OnlyAnnotations;
    }
    let mut names = Vec::new();
    choice.contribution.sidecars().for_each(|sidecar| sidecar.add_names_in_pod(&mut names));
    let containers = names.into_iter().map(Cow::into_owned).collect();
    Reason::Injected { containers, revision: choice.revision.to_owned() }
}

fn build<'w>(draft: &Draft<'_>, chosen: &[Chosen<'w>]) -> Result<Built<'w>, Denial> {
    let mut built = Built::default();
    let mut sidecars: Vec<Cow<'_, str>> = Vec::new();
    let mut replaced: Vec<Cow<'_, str>> = Vec::new();
    for choice in chosen {
        let contribution = choice.contribution;
        for sidecar in contribution.sidecars() {
            sidecars.push(Cow::Borrowed(&sidecar.name));
            sidecar.add_names_in_pod(&mut sidecars);
        }
        contribution.containers.iter().for_each(|sidecar| sidecar.add_names_in_pod(&mut replaced));
    }
    let builder = Builder { draft, sources: Sources::new(draft, &replaced), sidecars: &sidecars };
    for choice in chosen.iter().filter(|choice| !choice.contribution.has_no_containers()) {
        let (owner, contribution) = (choice.entry.name(), choice.contribution);
        let mut recorded = Vec::new();
        for (sidecars, list) in [
            (&contribution.init_containers, &mut built.init_containers),
            (&contribution.containers, &mut built.containers),
        ] {
            for sidecar in sidecars {
                let additions = builder.build(sidecar)?;
                list.extend(additions.into_iter().map(|addition| Owned { addition, owner }));
                let volumes =
                    sidecar.volumes.iter().filter_map(|position| contribution.volumes.get(*position));
                built.volumes.extend(volumes.map(|volume| (volume, owner)));
                if sidecar.idle_image.is_some() {
                    built.hot.push(&sidecar.name);
                }
            }
        }
        let native = contribution.init_containers.iter().filter(|sidecar| sidecar.native);
        recorded.extend(native.chain(&contribution.containers).map(|sidecar| &*sidecar.name));
        recorded.sort_unstable();
        recorded.dedup();
        built.pull_secrets.extend(contribution.image_pull_secrets.iter().map(|name| &**name));
        built.records.push(Record { choice: *choice, sidecars: recorded });
    }
    let mut all = chosen.iter().flat_map(|choice| choice.contribution.sidecars());
    built.replaced_sources = all.any(Sidecar::takes_over).then(|| builder.sources.replaced()).flatten();
    Ok(built)
}

/// Merges containers into the Pod's list and reports clashes.
fn merge(draft: &mut Draft<'_>, list: ContainerList, sidecars: Vec<Owned<'_>>) {
    if sidecars.is_empty() {
        return;
    }
    let containers = match list {
        ContainerList::Init => &draft.init_containers,
        ContainerList::App => &draft.containers,
    };
    let mut warnings = Vec::new();
    let mut additions: Vec<Placed> = Vec::with_capacity(sidecars.len());
    let mut owners: Vec<&str> = Vec::with_capacity(sidecars.len());
    for Owned { addition, owner } in sidecars {
        let name = &addition.name;
        // Sidecars are few: looking through them costs less than an index of them.
        let known = additions.iter_mut().zip(&mut owners).find(|(placed, _)| placed.addition.name == *name);
        if let Some((placed, other)) = known {
            // Two of one name would make the Pod invalid: the later takes the place of the earlier.
            warnings.push(format!(
                "container {name:?} of SidecarSet {owner} replaces that of SidecarSet {other}"
            ));
            placed.addition = Addition { before: placed.addition.before, ..addition };
            *other = owner;
            continue;
        }
        let replaces = containers.iter().rposition(|container| container.name == *name);
        if replaces.and_then(|index| containers.get(index)).is_some_and(|container| !is_injected(container)) {
            warnings.push(format!("container {name:?} of the Pod is replaced by that of SidecarSet {owner}"));
        }
        additions.push(Placed { addition, replaces });
        owners.push(owner);
    }
    draft.warnings.append(&mut warnings);
    draft.merge(list, additions);
}

/// Adds volumes whose names are free. The Pod's volume wins, and so does the first SidecarSet's.
fn add_volumes(draft: &mut Draft<'_>, volumes: &[(&PreparedVolume, &str)]) -> Result<(), Denial> {
    if volumes.is_empty() {
        return Ok(());
    }
    let list = draft.volumes;
    let present = named(list.unwrap_or("null")).map_err(|error| refused(format!("spec.volumes: {error}")))?;
    // Names, texts and owners of all volumes, the Pod's first.
    let mut known: Vec<(&str, &str, Option<&str>)> =
        present.iter().map(|volume| (&*volume.name, volume.text, None)).collect();
    let mut added = Vec::new();
    for (volume, owner) in volumes {
        let (name, text) = (&*volume.name, volume.text.get());
        match known.iter().rfind(|(known, _, _)| *known == name) {
            None => {
                known.push((name, text, Some(owner)));
                added.push(text.to_owned());
            }
            Some((_, winner, _)) if same_json(winner, text) => {}
            Some((_, _, winner)) => {
                let winner =
                    winner.map_or_else(|| "the Pod".to_owned(), |owner| format!("SidecarSet {owner}"));
                let warning = format!(
                    "volume {name:?} of SidecarSet {owner} is not added: {winner} has another volume of that name"
                );
                if !draft.warnings.contains(&warning) {
                    draft.warnings.push(warning);
                }
            }
        }
    }
    draft.append("/spec/volumes", list, added);
    Ok(())
}

/// Compares two values by meaning; they differ in spelling where the API server has filled in defaults.
fn same_json(left: &str, right: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    left == right || parse(left).is_some_and(|left| Some(left) == parse(right))
}

/// Adds pull secrets whose names are free, and drops those that the Pod names twice.
fn add_pull_secrets(draft: &mut Draft<'_>, secrets: &[&str]) -> Result<(), Denial> {
    let list = draft.image_pull_secrets;
    if secrets.is_empty() && list.is_none() {
        return Ok(());
    }
    let present =
        named(list.unwrap_or("null")).map_err(|error| refused(format!("spec.imagePullSecrets: {error}")))?;
    let mut known = HashSet::with_capacity(present.len() + secrets.len());
    let kept: Vec<&str> = present
        .iter()
        .filter(|secret| known.insert(secret.name.as_ref()))
        .map(|secret| secret.text)
        .collect();
    let added = secrets.iter().filter(|name| known.insert(**name));
    let added: Vec<String> = added.map(|name| format!("{{\"name\":{}}}", string(name))).collect();
    if kept.len() == present.len() {
        draft.append("/spec/imagePullSecrets", list, added);
        return Ok(());
    }
    let all: Vec<String> = kept.into_iter().map(str::to_owned).chain(added).collect();
    draft.set_list("/spec/imagePullSecrets", &all);
    Ok(())
}
