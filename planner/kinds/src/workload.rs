//! What several kinds share.
//!
//! ```text
//!   kind           what a kind of workload brings: the trait Workload, whose plan(Snapshot) gives a Plan
//!   snapshot       what a plan is made from              plan      what to do, and how it is carried out
//!   start          the selector and the revisions, with which a plan begins
//!   action         one thing to do, and its Events       object_version   the precondition of a write
//!   outcome        what came of a step of the plan
//!   revision       ControllerRevisions: their data, names and history
//!   owner          the owner reference of children       children  claims and other children
//!   claims         claims beside their templates, and how they grow
//!   new_pod        Pods and claims to create             recipe    the template and the claim templates of a revision
//!   member         a Pod, read once                     in_place  the update of Pods, in place or not
//!   allowance      how many Pods may be taken out of service
//!   deletion_order which Pods are deleted first          deletion  the deletion of a Pod, which a hook may hold up
//!   membership     what begins and stops to belong to a workload
//!   failures       when a Pod that failed again is replaced
//!   update_order   which Pods are updated first          pre_download  ImagePullJobs ahead of an update
//!   status         the patch of the status               conditions, progress   what is in it for all kinds
//!   explanation    what blocks progress                 blocked_pod   why a Pod is not where it belongs
//!   trigger        which workloads to reconcile          compared_template   templates as updates in place compare them
//!   namespace      Namespaces and their labels           namespaced, listed   objects found by Namespace
//!   target         workloads by group, kind and name
//!   resolved       a workload of any kind behind Pods: how many it is to have
//!   image_pull     what jobs that pull images ask for    image_task  one image on one node, as NodeImages have it
//!   submitted      the object of a review: its defaults, and as it is stored
//!   required       what schemas require and authors leave out
//!   metadata       patches of finalizers and labels       recreate  ContainerRecreateRequests of controllers
//!   restart_on     ConfigMaps and Secrets whose changes restart Pods
//!   ordinal        names that end with a number           ordinals  which numbers the Pods of a StatefulSet have
//! ```
//!
//! A module belongs here once two kinds need it. It knows no kind: what differs between kinds comes in as an
//! argument.
//!
//! # The next kind
//! A kind's folder under [`crate`] holds only its rules: how many Pods it wants and where, which of them
//! it creates, deletes and updates now, and what its status counts. CloneSet is the example:
//! 1. Implement [`kind::Workload`] and [`kind::WorkloadStatus`] for the types of [`api::kinds`].
//! 2. In `plan`, begin with `start::Start`, which finds the revision; where it has to be written, return that alone.
//! 3. Take the Pods by [`member::own_pods`], release the others, and read each by [`member::Member::new`].
//! 4. Count. Create Pods by [`new_pod::pod`], choose those to delete; these are [`plan::Plan::scale`].
//! 5. Choose the Pods to update, sort them by [`update_order`], and let [`in_place::Updates`] continue with the
//!    others and update them; these are [`plan::Plan::update`].
//! 6. Fill in the status, [`progress::Watched`] included, and explain with [`blocked_pod::BlockedPods`] what
//!    waits. What is not a Pod or a claim is created and deleted by the actions for children.
//!
//! The controller, the simulation and `kutter explain` then take the kind as it is.

pub mod action;
pub mod allowance;
pub mod blocked_pod;
pub(crate) mod broken_pod;
pub mod children;
pub(crate) mod claims;
pub mod compared_template;
pub mod conditions;
pub(crate) mod deletion;
pub(crate) mod deletion_order;
pub mod explanation;
pub mod failures;
#[cfg(test)]
pub(crate) mod fleet;
pub mod image_pull;
pub mod image_task;
pub mod in_place;
pub mod kind;
pub mod listed;
pub mod member;
pub(crate) mod membership;
pub(crate) mod metadata;
pub mod namespace;
pub mod namespaced;
pub mod new_pod;
pub mod object_version;
pub mod ordinal;
pub mod ordinals;
pub mod outcome;
pub mod owner;
pub mod plan;
pub mod pre_download;
pub mod progress;
pub(crate) mod recipe;
pub mod recreate;
mod required;
pub mod resolved;
pub mod restart_on;
pub mod revision;
pub mod rollout_batch;
pub mod snapshot;
pub(crate) mod start;
pub mod status;
pub mod storage_class;
pub mod submitted;
pub mod target;
pub mod trials;
pub mod trigger;
pub mod update_order;
pub(crate) mod validation;
