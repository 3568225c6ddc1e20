//! Which SidecarSets a Pod gets, and from which revision (docs/behaviour/pod-mutation.md).

use std::collections::BTreeMap;

use api::sidecarset::{InjectionRevision, IntOrString};

use super::contribution::Contribution;
use super::explanation::Reason;
use super::index::{Entry, NamespaceSelector};
use super::inventory::Inventory;
use super::recorded::RecordedRevision;
use crate::workload::namespace::Namespace;
use pod::review::{Draft, Reasons, ReviewContext};
use pod::selector::PodSelector;
use values::moment::Random;
use values::selector::{Labels, Selector, SelectorError};
use values::verdict::Denial;

/// A SidecarSet to inject, in the state to inject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'w> {
    pub(crate) entry: &'w Entry,
    pub(crate) contribution: &'w Contribution,
    pub(crate) hash: &'w str,
    pub(crate) hash_without_image: &'w str,
    /// Name of the ControllerRevision; empty right after the SidecarSet was made.
    pub(crate) revision: &'w str,
}

/// The SidecarSets to inject, in the order of injection. `namespace` is the Pod's Namespace as the caller read it, for when
/// the inventory does not have it.
pub(crate) fn choose<'w>(
    draft: &Draft<'_>,
    context: &mut ReviewContext<'_>,
    inventory: &'w Inventory,
    namespace: Result<Option<&Namespace>, &Denial>,
    reasons: &mut Reasons<Reason>,
) -> Result<Vec<Chosen<'w>>, Denial> {
    let candidates = if reasons.are_wanted() {
        inventory.sidecar_sets().all()
    } else {
        inventory.sidecar_sets().candidates(&draft.namespace, &draft.labels)
    };
    let namespace = || inventory.namespace(&draft.namespace).map_or(namespace, |known| Ok(Some(known)));
    let mut chosen = Vec::new();
    for entry in candidates {
        match mismatch(entry, draft, namespace)? {
            Some(reason) => reasons.note(entry.name(), || reason),
            None => chosen.push(revision_to_inject(entry, draft, &mut context.random, inventory)?),
        }
    }
    let canaries = canaries(&chosen);
    chosen.retain(|choice| match canaries.get(choice.entry.name()) {
        Some(canary) => {
            let replaced = || Reason::ReplacedByCanary { canary: (*canary).to_owned() };
            reasons.note(choice.entry.name(), replaced);
            false
        }
        None => true,
    });
    Ok(chosen)
}

/// Why a SidecarSet does not match the Pod; `None` where it does.
fn mismatch<'n>(
    entry: &Entry,
    draft: &Draft<'_>,
    namespace: impl Fn() -> Result<Option<&'n Namespace>, &'n Denial>,
) -> Result<Option<Reason>, Denial> {
    if entry.object.spec.injection_strategy.paused {
        return Ok(Some(Reason::Paused));
    }
    match unselected(entry, draft.labels.as_slice(), || namespace().unwrap_or_default()) {
        // One that can't be read may be selected.
        Ok(Some(Reason::OtherNamespace)) => {
            namespace().map(|_| Some(Reason::OtherNamespace)).map_err(Denial::clone)
        }
        Ok(reason) => Ok(reason),
        Err(error) => Err(Denial::failed(format!(
            "SidecarSet {} may be meant for this Pod, but its spec.selector is invalid: {error}",
            entry.name()
        ))),
    }
}

/// Why a SidecarSet does not select Pods with these labels; `None` where it does. `namespace` gives their Namespace where it
/// is needed; one that does not exist is not selected by labels.
///
/// # Errors
/// `spec.selector` is invalid, and the Pod meets its sound part.
pub(crate) fn unselected<'e, 'n>(
    entry: &'e Entry,
    labels: &(impl Labels + ?Sized),
    namespace: impl FnOnce() -> Option<&'n Namespace>,
) -> Result<Option<Reason>, &'e SelectorError> {
    if matches!(entry.pods, PodSelector::Nothing) {
        return Ok(Some(Reason::EmptySelector));
    }
    // The Pod's labels are at hand, the Namespace may have to be asked for.
    let selected = entry.pods.matches(labels);
    if selected == Ok(false) {
        return Ok(Some(Reason::OtherLabels));
    }
    match &entry.namespaces {
        NamespaceSelector::All => {}
        NamespaceSelector::Broken => return Ok(Some(Reason::BrokenNamespaceSelector)),
        NamespaceSelector::Matching(selector) => {
            if !namespace().is_some_and(|namespace| selector.matches(namespace.labels())) {
                return Ok(Some(Reason::OtherNamespace));
            }
        }
    }
    selected.map(|_| None)
}

/// For each SidecarSet that a canary replaces, the canary.
fn canaries<'w>(chosen: &[Chosen<'w>]) -> BTreeMap<&'w str, &'w str> {
    let canaries =
        chosen.iter().filter_map(|choice| Some((choice.entry.object.canary_base()?, choice.entry.name())));
    canaries.filter(|(base, _)| !base.is_empty()).collect()
}

fn revision_to_inject<'w>(
    entry: &'w Entry,
    draft: &Draft<'_>,
    random: &mut Random,
    inventory: &'w Inventory,
) -> Result<Chosen<'w>, Denial> {
    let spec = &entry.object.spec;
    let pin = spec.injection_strategy.revision.as_ref().and_then(Pin::of);
    let Some(pin) = pin else { return live(entry) };
    // Loaded first in any case: a revision that is gone denies, however the choice falls.
    let history = history(entry, &pin, inventory)?;
    if pin.policy != "Partial" || spec.update_strategy.paused {
        return Ok(history);
    }
    if let Some(selector) = &spec.update_strategy.selector {
        let selector = Selector::compile(selector).map_err(|error| {
            Denial::failed(format!(
                "SidecarSet {}: spec.updateStrategy.selector is invalid: {error}",
                entry.name()
            ))
        })?;
        if !selector.matches(draft.labels.as_slice()) {
            return Ok(history);
        }
    }
    match &spec.update_strategy.partition {
        Some(IntOrString::String(text)) => {
            let share = percent(text).ok_or_else(|| {
                Denial::failed(format!(
                    "SidecarSet {}: spec.updateStrategy.partition {text:?} is not a percentage",
                    entry.name()
                ))
            })?;
            if random.next_fraction() <= share / 100.0 { Ok(history) } else { live(entry) }
        }
        None | Some(IntOrString::Int(_)) => live(entry),
    }
}

/// `12.5%` as `12.5`.
fn percent(text: &str) -> Option<f64> {
    text.strip_suffix('%')?.parse().ok().filter(|share: &f64| share.is_finite())
}

/// Which older state a SidecarSet asks for.
struct Pin<'a> {
    target: Target<'a>,
    policy: &'a str,
}

enum Target<'a> {
    Revision(&'a str),
    CustomVersion(&'a str),
}

impl<'a> Pin<'a> {
    fn of(revision: &'a InjectionRevision) -> Option<Self> {
        let given = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
        let target = given(&revision.revision_name)
            .map(Target::Revision)
            .or_else(|| given(&revision.custom_version).map(Target::CustomVersion))?;
        Some(Self { target, policy: &revision.policy })
    }
}

fn live(entry: &Entry) -> Result<Chosen<'_>, Denial> {
    let contribution = entry.contribution.as_ref().map_err(|problem| {
        Denial::failed(format!(
            "SidecarSet {} is meant for this Pod, but can't be read: {problem}",
            entry.name()
        ))
    })?;
    Ok(Chosen {
        entry,
        contribution,
        hash: entry.object.annotation(api::annotations::SIDECARSET_HASH).unwrap_or_default(),
        hash_without_image: entry
            .object
            .annotation(api::annotations::SIDECARSET_HASH_WITHOUT_IMAGE)
            .unwrap_or_default(),
        revision: &entry.object.status.latest_revision,
    })
}

fn history<'w>(entry: &'w Entry, pin: &Pin<'_>, inventory: &'w Inventory) -> Result<Chosen<'w>, Denial> {
    let found: Option<&RecordedRevision> = match pin.target {
        // Any ControllerRevision of the namespace would do, if its owner were not checked.
        Target::Revision(name) => {
            inventory.revisions().get(name).filter(|revision| revision.sidecar_set == entry.name())
        }
        Target::CustomVersion(version) => inventory.revisions().of(entry.name(), Some(version)).pop(),
    };
    let named = || match pin.target {
        Target::Revision(name) => format!("revisionName {name}"),
        Target::CustomVersion(version) => format!("customVersion {version}"),
    };
    let revision = found.ok_or_else(|| {
        Denial::failed(format!(
            "SidecarSet {} injects {}, but namespace {} holds no such ControllerRevision of it; \
             restore the revision or change spec.injectionStrategy.revision",
            entry.name(),
            named(),
            inventory.install_namespace()
        ))
    })?;
    let restored = revision.restored().map_err(|problem| {
        Denial::failed(format!(
            "SidecarSet {} injects {}, but ControllerRevision {} can't be read: {problem}",
            entry.name(),
            named(),
            revision.name
        ))
    })?;
    Ok(Chosen {
        entry,
        contribution: &restored.contribution,
        hash: &restored.hash,
        hash_without_image: &restored.hash_without_image,
        revision: &revision.name,
    })
}
