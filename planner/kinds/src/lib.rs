//! The rules of each kind and feature, a folder each.
//!
//! A kind brings its defaulting and validation, its plan (what a controller does about its Pods), its
//! explanation, and its step of the Pod webhook where it has one. What its rules read of the cluster it owns as
//! a structure of its own, such as [`sidecarset::inventory::Inventory`]; `admission::world` is composed
//! of these.
//!
//! Kinds don't use each other: what two of them need is in [`workload`] or in crate [`pod`].

pub mod advancedcronjob;
pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod deletion_protection;
pub mod ephemeraljob;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod podprobemarker;
pub mod podunavailablebudget;
pub mod resourcedistribution;
pub mod sidecar_terminator;
pub mod sidecarset;
pub mod statefulset;
pub mod uniteddeployment;
pub mod workload;
pub mod workloadspread;
