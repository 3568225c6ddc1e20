//! The webhooks of Rollouts, which have configurations of their own (docs/behaviour/api-and-registration.md#webhook-entries).
//!
//! Each kind of workload has two entries. Where a Rollout has been at work the workload carries its label, and is held
//! back whatever happens. All others are asked about too, since a Rollout may be newer than its label; but while nobody
//! answers, those can be changed.

use api::{APPS_GROUP, ROLLOUTS_GROUP};

use super::{A1_B1, CREATE_UPDATE, Endpoint, Entry, Purpose, UPDATE, V1};

macro_rules! freezing {
    ($name:literal, $group:expr, $resource:literal, $versions:expr, $purpose:ident) => {
        Entry {
            endpoint: Endpoint::FreezeWorkload,
            name: concat!("mrollout", $name, ".kb.io"),
            path: "/mutate-rollouts-kruise-io-workload",
            legacy_path: None,
            group: $group,
            resource: $resource,
            versions: $versions,
            operations: UPDATE,
            purpose: Purpose::$purpose,
        }
    };
}

pub(super) const MUTATING: &[Entry] = &[
    freezing!("cloneset", APPS_GROUP, "clonesets", A1_B1, KnownWorkload),
    freezing!("daemonset", "apps", "daemonsets", V1, KnownWorkload),
    freezing!("deployment", "apps", "deployments", V1, KnownWorkload),
    freezing!("statefulset", "apps", "statefulsets", V1, KnownWorkload),
    freezing!("advanceddaemonset", APPS_GROUP, "daemonsets", A1_B1, KnownWorkload),
    freezing!("advancedstatefulset", APPS_GROUP, "statefulsets", A1_B1, KnownWorkload),
    freezing!("workload", "*", "*", &["*"], KnownWorkload),
    freezing!("newcloneset", APPS_GROUP, "clonesets", A1_B1, OtherWorkload),
    freezing!("newdaemonset", "apps", "daemonsets", V1, OtherWorkload),
    freezing!("newdeployment", "apps", "deployments", V1, OtherWorkload),
    freezing!("newstatefulset", "apps", "statefulsets", V1, OtherWorkload),
    freezing!("newadvanceddaemonset", APPS_GROUP, "daemonsets", A1_B1, OtherWorkload),
    freezing!("newadvancedstatefulset", APPS_GROUP, "statefulsets", A1_B1, OtherWorkload),
];

pub(super) const VALIDATING: &[Entry] = &[Entry {
    endpoint: Endpoint::ValidateRollout,
    name: "vrollout.kb.io",
    path: "/validate-rollouts-kruise-io-rollout",
    legacy_path: None,
    group: ROLLOUTS_GROUP,
    resource: "rollouts",
    versions: A1_B1,
    operations: CREATE_UPDATE,
    purpose: Purpose::OwnKind,
}];
