//! Whole releases, in a world that plays the API server and the controllers of Kubernetes and OpenKruise in few lines.

mod kills;
mod pods;
mod scenarios;
mod workloads;
mod world;
