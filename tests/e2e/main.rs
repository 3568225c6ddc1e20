//! End-to-end tests: the real program against a real API server.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod advancedcronjob;
mod agent_rights;
mod broadcastjob;
mod certificates;
mod chart;
mod chronicle;
mod client_certificates;
mod cloneset;
mod cloneset_admission;
mod conversion;
mod daemonset;
mod daemonset_admission;
#[path = "../docs.rs"]
mod docs;
mod docs_advancedcronjob;
mod docs_cloneset;
mod docs_daemonset;
mod docs_kubectl_kruise;
mod docs_podunavailablebudget;
mod docs_restart;
mod docs_rollouts;
mod docs_uniteddeployment;
mod docs_workloadspread;
mod election;
mod examples;
mod exit_priority;
mod gitops;
mod histories;
mod images;
mod injection;
mod launch_priority;
mod metrics;
mod monitoring;
mod outage;
mod persistentpodstate;
mod plugin;
mod pod_steps;
mod pod_templates;
mod podunavailablebudget;
mod podunavailablebudget_admission;
mod poison;
mod probes;
mod product;
mod protection;
mod readiness;
mod registration;
mod resourcedistribution;
mod restart;
mod review;
mod rollouts;
mod service;
mod settings;
mod sidecar_terminator;
mod sidecarset;
mod sidecarset_account;
mod sidecarset_rollout;
mod silence;
mod simulate;
mod statefulset;
mod statefulset_admission;
mod support;
mod takeover;
mod uniteddeployment;
mod upgrade;
mod workloadspread;
