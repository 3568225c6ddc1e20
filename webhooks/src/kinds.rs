//! The rules of each webhook, one file per kind: they read a review, ask the planner and give its verdict.
//! They know nothing of paths, HTTP or each other.

pub(crate) mod advancedcronjob;
pub(crate) mod broadcastjob;
pub(crate) mod cloneset;
pub(crate) mod containerrecreaterequest;
pub(crate) mod daemonset;
pub(crate) mod ephemeraljob;
pub(crate) mod exit_priority;
pub(crate) mod imagelistpulljob;
pub(crate) mod imagepulljob;
pub(crate) mod nodeimage;
pub(crate) mod persistentpodstate;
pub(crate) mod pod;
pub(crate) mod pod_validation;
pub(crate) mod podprobemarker;
pub(crate) mod podunavailablebudget;
pub(crate) mod protection;
pub(crate) mod resource;
pub(crate) mod resourcedistribution;
pub(crate) mod sidecarset;
pub(crate) mod statefulset;
pub(crate) mod templates;
pub(crate) mod uniteddeployment;
pub(crate) mod workloadspread;
