//! Admission as its callers meet it: over HTTP, over TLS, and with anything at all in the body.
#![cfg(test)]

mod bodies;
mod callers;
mod connections;
mod disruptions;
mod early_answers;
mod fuzz;
mod http_contract;
mod images;
mod names;
mod newer;
mod panics;
mod persistentpodstate;
mod pod_steps;
mod pods;
mod probes;
mod protection;
mod required;
mod resourcedistribution;
mod restarts;
mod rollouts;
mod support;
mod templates;
mod tls;
mod unreadable;
mod workloadspread;
