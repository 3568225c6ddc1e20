//! What is kept of each Pod of the cluster, in some hundred bytes.

use std::fmt;

use api::annotations::SIDECARSET_INJECTED_LIST;
use jiff::Timestamp;

use crate::sidecarset::rollout::injected_names;
use pod::observed::{ObservedPod, Pairs, Part, PodMetadata, Pool};

/// Owners that put no other Pod in the place of an evicted one: a node's own Pods come from its files, and
/// a job counts an evicted Pod as failed.
const NOT_REPLACING: [&str; 2] = ["Node", "Job"];

/// The identity of an object, as 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid([u64; 2]);

impl Uid {
    /// Reads a UUID. Another text gets a number that is its own.
    pub fn of(text: &str) -> Self {
        let digits: String = text.chars().filter(|character| *character != '-').collect();
        let number = match u128::from_str_radix(&digits, 16) {
            Ok(number) if digits.len() == 32 => number,
            // FNV-1a
            _ => text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
            }),
        };
        Self([(number >> 64) as u64, number as u64])
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([high, low]) = self;
        write!(
            formatter,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

/// A Pod that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct PodRecord {
    /// The Pod's namespace.
    pub namespace: Part<str>,
    /// The Pod's name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: Pairs,
    /// Of its annotations only the list of what was injected.
    annotations: Pairs,
    owner: Uid,
    /// Seconds since 1970.
    created: u32,
    ready: bool,
    leaving: bool,
}

impl PodRecord {
    /// What is kept of a Pod; `None` for one that has ended. What Pods have in common is kept once in `pool`.
    pub fn of(pod: &ObservedPod, pool: &mut Pool) -> Option<Self> {
        if matches!(&*pod.status.phase, "Succeeded" | "Failed") {
            return None;
        }
        let metadata = &pod.metadata;
        let list = metadata.annotations.get(SIDECARSET_INJECTED_LIST);
        let mut shared = ObservedPod {
            metadata: PodMetadata {
                namespace: metadata.namespace.clone(),
                labels: metadata.labels.clone(),
                annotations: list.into_iter().map(|list| (SIDECARSET_INJECTED_LIST, list)).collect(),
                ..PodMetadata::default()
            },
            ..ObservedPod::default()
        };
        pool.share(&mut shared);
        let PodMetadata { namespace, labels, annotations, .. } = shared.metadata;
        // Pods that run to an end are steps of something: their owners take an eviction for a failure.
        let runs_on = matches!(&*pod.spec.restart_policy, "" | "Always");
        let owner = pod.controller().filter(|owner| runs_on && !NOT_REPLACING.contains(&owner.kind.as_str()));
        let created = metadata.created().map_or(0, Timestamp::as_second);
        Some(Self {
            namespace,
            name: metadata.name.clone(),
            labels,
            annotations,
            owner: owner.map(|owner| Uid::of(&owner.uid)).unwrap_or_default(),
            created: u32::try_from(created).unwrap_or(0),
            ready: &*pod.status.phase == "Running" && pod.is_ready(),
            leaving: metadata.deletion_timestamp.is_some(),
        })
    }

    /// Namespace and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The owner that puts another Pod in its place; `None` where there is none.
    pub fn owner(&self) -> Option<Uid> {
        Some(self.owner).filter(|owner| *owner != Uid::default())
    }

    /// When it was created, in seconds since 1970.
    pub fn created(&self) -> i64 {
        self.created.into()
    }

    /// It runs and is ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Its deletion was asked for.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// The names of the SidecarSets whose sidecars it has.
    pub fn injected(&self) -> impl Iterator<Item = &str> {
        injected_names(self.annotations.get(SIDECARSET_INJECTED_LIST).unwrap_or_default())
    }

    /// True if the two states differ in nothing but readiness, which decides about evictions alone.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        *self == Self { ready: self.ready, ..other.clone() }
    }
}
