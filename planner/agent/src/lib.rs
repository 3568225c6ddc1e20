//! What the agent of one node decides.
//!
//! ```text
//!   tasks     which pulls to start and to stop, and what the status of the NodeImage says
//!   pull      one pull: what is asked for, how often and for how long
//!   keyring   which credentials of which pull Secrets fit an image
//!   parties   which of them a task may use, and who has an image that is there
//!   provider  which programs of the node are asked for credentials, and how long their answers count
//!   server    where the server is that gives out pull Secrets
//!   probes    which probes run, and what the status of the NodePodProbe says
//!
//!   recreate  whose turn it is to have its containers restarted, and what to do next
//!   stop      what runs before a container is stopped, and how much time it has
//!   exit_order  which containers of a Pod that ends are held back, and which are let go
//!   meta      what is reported about the containers of a Pod
//!   container a container as the runtime knows it
//! ```

pub mod container;
pub mod exit_order;
pub mod keyring;
pub mod meta;
pub mod probes;
pub mod provider;
pub mod pull;
pub mod pull_groups;
pub mod recreate;
pub mod server;
pub mod stop;
pub mod tasks;
