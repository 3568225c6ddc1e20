//! What holds for all Rollouts.

use api::features::FeatureGates;

/// What holds for all Rollouts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The feature gates.
    pub gates: FeatureGates,
    /// The namespace of the installation, which has the scripts of users.
    pub namespace: String,
}
