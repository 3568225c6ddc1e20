//! The kinds that the plugin deals with itself; kubectl deals with all others.

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// CloneSets.
    CloneSet,
    /// StatefulSets of our own group.
    AdvancedStatefulSet,
    /// DaemonSets of our own group.
    AdvancedDaemonSet,
    /// UnitedDeployments.
    UnitedDeployment,
    /// SidecarSets, which are in no namespace.
    SidecarSet,
    /// BroadcastJobs.
    BroadcastJob,
    /// AdvancedCronJobs.
    AdvancedCronJob,
    /// Rollouts of Kruise Rollouts, which drive workloads.
    Rollout,
    /// Deployments of Kubernetes, where a Rollout drives one: by its name it is for kubectl.
    Deployment,
}

impl WorkloadKind {
    /// All that people name.
    pub const ALL: [Self; 8] = [
        Self::CloneSet,
        Self::AdvancedStatefulSet,
        Self::AdvancedDaemonSet,
        Self::UnitedDeployment,
        Self::SidecarSet,
        Self::BroadcastJob,
        Self::AdvancedCronJob,
        Self::Rollout,
    ];

    /// The kind that somebody means: by its plural or singular, with the group and maybe a version behind it, or by a
    /// short name. `statefulset` and `daemonset` alone mean those of Kubernetes.
    pub fn named(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let (name, rest) = word.split_once('.').unwrap_or((&word, ""));
        let group = rest.strip_prefix("v1alpha1.").or_else(|| rest.strip_prefix("v1beta1.")).unwrap_or(rest);
        Self::ALL.into_iter().find(|kind| {
            let is_ours = group == kind.group();
            let is_named = name == kind.plural() || name == kind.singular();
            let is_of_kubernetes = matches!(kind, Self::AdvancedStatefulSet | Self::AdvancedDaemonSet);
            let by_name = is_named && (is_ours || (rest.is_empty() && !is_of_kubernetes));
            by_name || (rest.is_empty() && kind.short_names().contains(&name))
        })
    }

    /// The name of many, as in request paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::CloneSet => "clonesets",
            Self::AdvancedStatefulSet => "statefulsets",
            Self::AdvancedDaemonSet => "daemonsets",
            Self::UnitedDeployment => "uniteddeployments",
            Self::SidecarSet => "sidecarsets",
            Self::BroadcastJob => "broadcastjobs",
            Self::AdvancedCronJob => "advancedcronjobs",
            Self::Rollout => "rollouts",
            Self::Deployment => "deployments",
        }
    }

    /// The name of one, as kubectl prints it.
    pub fn singular(self) -> &'static str {
        self.plural().trim_end_matches('s')
    }

    /// Its name in objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::CloneSet => "CloneSet",
            Self::AdvancedStatefulSet => "StatefulSet",
            Self::AdvancedDaemonSet => "DaemonSet",
            Self::UnitedDeployment => "UnitedDeployment",
            Self::SidecarSet => "SidecarSet",
            Self::BroadcastJob => "BroadcastJob",
            Self::AdvancedCronJob => "AdvancedCronJob",
            Self::Rollout => "Rollout",
            Self::Deployment => "Deployment",
        }
    }

    /// Its API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Rollout => "rollouts.kruise.io",
            Self::Deployment => "apps",
            _ => "apps.kruise.io",
        }
    }

    /// Its group and version, as objects name them.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Rollout => "rollouts.kruise.io/v1beta1",
            Self::Deployment => "apps/v1",
            _ => "apps.kruise.io/v1beta1",
        }
    }

    /// Its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self != Self::SidecarSet
    }

    /// Where its objects may have Pod templates.
    pub fn pod_templates(self) -> &'static [&'static str] {
        match self {
            Self::CloneSet | Self::AdvancedStatefulSet | Self::AdvancedDaemonSet | Self::BroadcastJob => {
                &["/spec/template"]
            }
            Self::UnitedDeployment => &[
                "/spec/template/statefulSetTemplate/spec/template",
                "/spec/template/advancedStatefulSetTemplate/spec/template",
                "/spec/template/cloneSetTemplate/spec/template",
                "/spec/template/deploymentTemplate/spec/template",
            ],
            Self::AdvancedCronJob => &[
                "/spec/template/jobTemplate/spec/template",
                "/spec/template/broadcastJobTemplate/spec/template",
            ],
            Self::SidecarSet | Self::Rollout | Self::Deployment => &[],
        }
    }

    fn short_names(self) -> &'static [&'static str] {
        match self {
            Self::CloneSet => &["clone"],
            Self::AdvancedStatefulSet => &["asts"],
            Self::AdvancedDaemonSet => &["ads", "daemon"],
            Self::UnitedDeployment => &["ud"],
            Self::SidecarSet | Self::Rollout | Self::Deployment => &[],
            Self::BroadcastJob => &["bcj"],
            Self::AdvancedCronJob => &["acj"],
        }
    }

    /// Its revisions record its Pod template.
    pub fn has_revisions(self) -> bool {
        matches!(self, Self::CloneSet | Self::AdvancedStatefulSet | Self::AdvancedDaemonSet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_the_names_that_kubectl_knows() {
        for (word, kind) in [
            ("clone", Some(WorkloadKind::CloneSet)),
            ("CloneSet", Some(WorkloadKind::CloneSet)),
            ("clonesets.v1alpha1.apps.kruise.io", Some(WorkloadKind::CloneSet)),
            ("asts", Some(WorkloadKind::AdvancedStatefulSet)),
            ("statefulset.apps.kruise.io", Some(WorkloadKind::AdvancedStatefulSet)),
            ("statefulset", None),
            ("sts", None),
            ("statefulsets.apps", None),
            ("daemon", Some(WorkloadKind::AdvancedDaemonSet)),
            ("daemonsets", None),
            ("sidecarset", Some(WorkloadKind::SidecarSet)),
            ("rollout", Some(WorkloadKind::Rollout)),
            ("rollouts.rollouts.kruise.io", Some(WorkloadKind::Rollout)),
            ("rollouts.apps.kruise.io", None),
            ("deployment", None),
            ("", None),
        ] {
            assert_eq!(WorkloadKind::named(word), kind, "{word}");
        }
    }
}
