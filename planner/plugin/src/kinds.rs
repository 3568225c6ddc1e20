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
    /// Deployments of Kubernetes, which the plugin rolls back; all else of them is for kubectl.
    Deployment,
}

impl WorkloadKind {
    /// All kinds of Kruise.
    pub const ALL: &'static [Self] = Self::WITH_DEPLOYMENTS.split_last().unwrap().1;

    /// All kinds of Kruise, and at last Deployments.
    pub const WITH_DEPLOYMENTS: &'static [Self] = &[
        Self::CloneSet,
        Self::AdvancedStatefulSet,
        Self::AdvancedDaemonSet,
        Self::UnitedDeployment,
        Self::SidecarSet,
        Self::BroadcastJob,
        Self::AdvancedCronJob,
        Self::Rollout,
        Self::Deployment,
    ];

    /// The kind of Kruise that somebody means: by its plural or singular, with the group and maybe a version behind it, or
    /// by a short name. `statefulset` and `daemonset` alone mean those of Kubernetes.
    pub fn named(word: &str) -> Option<Self> {
        Self::named_among(word, Self::ALL)
    }

    /// The kind that somebody means, as by [`named`](Self::named), if it is one of these.
    pub fn named_among(word: &str, kinds: &[Self]) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let (name, rest) = word.split_once('.').unwrap_or((&word, ""));
        kinds.iter().copied().find(|kind| {
            let group = kind
                .versions()
                .iter()
                .find_map(|version| rest.strip_prefix(version)?.strip_prefix('.'))
                .unwrap_or(rest);
            let is_ours = group == kind.group();
            let is_named = name == kind.plural() || name == kind.singular();
            let is_of_kubernetes = matches!(kind, Self::AdvancedStatefulSet | Self::AdvancedDaemonSet);
            let by_name = is_named && (is_ours || (rest.is_empty() && !is_of_kubernetes));
            by_name || (rest.is_empty() && kind.names().2.contains(&name))
        })
    }

    /// Its name in objects, that of many in request paths, and short ones.
    fn names(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::CloneSet => ("CloneSet", "clonesets", &["clone"]),
            Self::AdvancedStatefulSet => ("StatefulSet", "statefulsets", &["asts"]),
            Self::AdvancedDaemonSet => ("DaemonSet", "daemonsets", &["ads", "daemon"]),
            Self::UnitedDeployment => ("UnitedDeployment", "uniteddeployments", &["ud"]),
            Self::SidecarSet => ("SidecarSet", "sidecarsets", &[]),
            Self::BroadcastJob => ("BroadcastJob", "broadcastjobs", &["bcj"]),
            Self::AdvancedCronJob => ("AdvancedCronJob", "advancedcronjobs", &["acj"]),
            Self::Rollout => ("Rollout", "rollouts", &[]),
            Self::Deployment => ("Deployment", "deployments", &["deploy"]),
        }
    }

    /// The name of many, as in request paths.
    pub fn plural(self) -> &'static str {
        self.names().1
    }

    /// The name of one, as kubectl prints it.
    pub fn singular(self) -> &'static str {
        self.plural().trim_end_matches('s')
    }

    /// Its name in objects.
    pub fn kind(self) -> &'static str {
        self.names().0
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

    /// The versions of its group that people may name.
    fn versions(self) -> &'static [&'static str] {
        if self == Self::Deployment { &["v1"] } else { &["v1alpha1", "v1beta1"] }
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
        for (word, is_known) in [
            ("deployment", true),
            ("deploy", true),
            ("Deployments.v1.apps", true),
            ("deployments.v1beta1.apps", false),
            ("deployments.apps.kruise.io", false),
        ] {
            let kind = is_known.then_some(WorkloadKind::Deployment);
            assert_eq!(WorkloadKind::named_among(word, WorkloadKind::WITH_DEPLOYMENTS), kind, "{word}");
        }
    }
}
