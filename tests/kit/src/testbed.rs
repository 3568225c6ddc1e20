//! `testbed`: a real Kubernetes for people.
fn main() {}
