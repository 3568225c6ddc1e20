//! The webhook entries of docs/behaviour/api-and-registration.md#webhook-entries as data.

use api::{APPS_GROUP, POLICY_GROUP};

use super::ConfigurationKind;

/// The version that kinds had before they had two, and that paths of that time name.
pub(super) const OLDER: &str = "v1alpha1";

/// What an entry is for, which settles its selectors and its failure policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pods, wherever they come from.
    Pods,
    /// Pods that ask for an order in which their containers end.
    ExitPriority,
    /// Deletion protection of Kubernetes' own kinds and of definitions.
    Protection,
    /// Defaulting and validation of our own kinds.
    OwnKind,
}

/// One entry of a webhook configuration.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The entry's name, which clients see in a denial.
    pub name: &'static str,
    /// The path that answers.
    pub path: &'static str,
    /// API group of the resource.
    pub group: &'static str,
    /// The resource, with its subresource where there is one.
    pub resource: &'static str,
    /// API versions of the resource.
    pub versions: &'static [&'static str],
    /// Operations that are reviewed.
    pub operations: &'static [&'static str],
    /// What the entry is for.
    pub purpose: Purpose,
}

const A1: &[&str] = &["v1alpha1"];
const A1_B1: &[&str] = &["v1alpha1", "v1beta1"];
const V1: &[&str] = &["v1"];
const V1_BETA: &[&str] = &["v1", "v1beta1"];
const CREATE: &[&str] = &["CREATE"];
const CREATE_UPDATE: &[&str] = &["CREATE", "UPDATE"];
const CREATE_UPDATE_DELETE: &[&str] = &["CREATE", "UPDATE", "DELETE"];
const UPDATE: &[&str] = &["UPDATE"];
const UPDATE_DELETE: &[&str] = &["UPDATE", "DELETE"];
const DELETE: &[&str] = &["DELETE"];

const fn pods(
    name: &'static str,
    path: &'static str,
    resource: &'static str,
    operations: &'static [&'static str],
) -> Entry {
    Entry { name, path, group: "", resource, versions: V1, operations, purpose: Purpose::Pods }
}

const fn exit_priority(name: &'static str, path: &'static str) -> Entry {
    Entry { purpose: Purpose::ExitPriority, ..pods(name, path, "pods", CREATE) }
}

const fn own(name: &'static str, path: &'static str, resource: &'static str) -> Entry {
    Entry {
        name,
        path,
        group: APPS_GROUP,
        resource,
        versions: A1_B1,
        operations: CREATE_UPDATE,
        purpose: Purpose::OwnKind,
    }
}

const fn protection(
    name: &'static str,
    path: &'static str,
    group: &'static str,
    resource: &'static str,
    versions: &'static [&'static str],
) -> Entry {
    Entry { name, path, group, resource, versions, operations: DELETE, purpose: Purpose::Protection }
}

const MUTATING: &[Entry] = &[
    pods("mpod.kb.io", "/mutate-pod", "pods", CREATE),
    exit_priority("mpodexitpriority.kb.io", "/mutate-pod-exit-priority"),
    own("madvancedcronjob.kb.io", "/mutate-apps-kruise-io-advancedcronjob", "advancedcronjobs"),
    own("mbroadcastjob.kb.io", "/mutate-apps-kruise-io-broadcastjob", "broadcastjobs"),
    own("mcloneset.kb.io", "/mutate-apps-kruise-io-cloneset", "clonesets"),
    own(
        "mcontainerrecreaterequest.kb.io",
        "/mutate-apps-kruise-io-containerrecreaterequest",
        "containerrecreaterequests",
    ),
    own("mdaemonset.kb.io", "/mutate-apps-kruise-io-daemonset", "daemonsets"),
    own("mimagelistpulljob-v1beta1.kb.io", "/mutate-apps-kruise-io-imagelistpulljob", "imagelistpulljobs"),
    own("mimagepulljob-v1beta1.kb.io", "/mutate-apps-kruise-io-imagepulljob", "imagepulljobs"),
    own("mnodeimage.kb.io", "/mutate-apps-kruise-io-nodeimage", "nodeimages"),
    own("msidecarset.kb.io", "/mutate-apps-kruise-io-sidecarset", "sidecarsets"),
    own("mstatefulset.kb.io", "/mutate-apps-kruise-io-statefulset", "statefulsets"),
    own("muniteddeployment.kb.io", "/mutate-apps-kruise-io-uniteddeployment", "uniteddeployments"),
];

const VALIDATING: &[Entry] = &[
    own(
        "vresourcedistribution.kb.io",
        "/validate-apps-kruise-io-resourcedistribution",
        "resourcedistributions",
    ),
    own("vworkloadspread.kb.io", "/validate-apps-kruise-io-workloadspread", "workloadspreads"),
    own("vadvancedcronjob.kb.io", "/validate-apps-kruise-io-advancedcronjob", "advancedcronjobs"),
    own("vbroadcastjob.kb.io", "/validate-apps-kruise-io-broadcastjob", "broadcastjobs"),
    protection("vbuiltindeployment.kb.io", "/validate-apps-deployment", "apps", "deployments", V1),
    protection("vbuiltinreplicaset.kb.io", "/validate-apps-replicaset", "apps", "replicasets", V1),
    protection("vbuiltinstatefulset.kb.io", "/validate-apps-statefulset", "apps", "statefulsets", V1),
    Entry {
        operations: CREATE_UPDATE_DELETE,
        ..own("vcloneset.kb.io", "/validate-apps-kruise-io-cloneset", "clonesets")
    },
    protection(
        "vcustomresourcedefinition.kb.io",
        "/validate-customresourcedefinition",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        V1_BETA,
    ),
    own("vdaemonset.kb.io", "/validate-apps-kruise-io-daemonset", "daemonsets"),
    Entry {
        versions: A1,
        ..own("vephemeraljobs.kb.io", "/validate-apps-kruise-io-v1alpha1-ephemeraljob", "ephemeraljobs")
    },
    own("vimagelistpulljob-v1beta1.kb.io", "/validate-apps-kruise-io-imagelistpulljob", "imagelistpulljobs"),
    own("vimagepulljob-v1beta1.kb.io", "/validate-apps-kruise-io-imagepulljob", "imagepulljobs"),
    protection("vingress.kb.io", "/validate-ingress", "networking.k8s.io", "ingresses", V1_BETA),
    protection("vnamespace.kb.io", "/validate-namespace", "", "namespaces", V1),
    own("vnodeimage.kb.io", "/validate-apps-kruise-io-nodeimage", "nodeimages"),
    own("vpersistentpodstate.kb.io", "/validate-apps-kruise-io-persistentpodstate", "persistentpodstates"),
    pods("vpod.kb.io", "/validate-pod", "pods", UPDATE_DELETE),
    pods("vpodeviction.kb.io", "/validate-pod", "pods/eviction", CREATE),
    // OpenKruise does not see resizes, which go through a resource of their own.
    pods("vpodresize.kb.io", "/validate-pod", "pods/resize", UPDATE),
    exit_priority("vpodexitpriority.kb.io", "/validate-pod-exit-priority"),
    Entry {
        versions: A1,
        ..own("vpodprobemarker.kb.io", "/validate-apps-kruise-io-podprobemarker", "podprobemarkers")
    },
    Entry {
        group: POLICY_GROUP,
        ..own(
            "vpodunavailablebudget.kb.io",
            "/validate-policy-kruise-io-podunavailablebudget",
            "podunavailablebudgets",
        )
    },
    protection("vservice.kb.io", "/validate-service", "", "services", V1),
    own("vsidecarset.kb.io", "/validate-apps-kruise-io-sidecarset", "sidecarsets"),
    Entry {
        operations: CREATE_UPDATE_DELETE,
        ..own("vstatefulset.kb.io", "/validate-apps-kruise-io-statefulset", "statefulsets")
    },
    Entry {
        operations: CREATE_UPDATE_DELETE,
        ..own("vuniteddeployment.kb.io", "/validate-apps-kruise-io-uniteddeployment", "uniteddeployments")
    },
];

impl Purpose {
    /// Whether Pods are what the entry sees.
    pub(super) fn is_of_pods(self) -> bool {
        matches!(self, Self::Pods | Self::ExitPriority)
    }
}

impl Entry {
    /// The name and the path of this entry for releases of OpenKruise whose kinds have [`OLDER`] alone; `None` where
    /// they register it alike. The name is another one: a release may answer both paths.
    pub(super) fn older(&self) -> Option<(String, String)> {
        let (verb, kind) = self.path.split_once("-apps-kruise-io-")?;
        let name = self.name.strip_suffix(".kb.io").filter(|_| !kind.starts_with(OLDER))?;
        let name = name.trim_end_matches("-v1beta1");
        Some((format!("{name}-{OLDER}.kb.io"), format!("{verb}-apps-kruise-io-{OLDER}-{kind}")))
    }

    /// Whether `name` is that of this entry, in whatever release.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.older().is_some_and(|(older, _)| older == name)
    }
}

/// The entries of one configuration in their order.
pub fn entries(kind: ConfigurationKind) -> &'static [Entry] {
    match kind {
        ConfigurationKind::Mutating => MUTATING,
        ConfigurationKind::Validating => VALIDATING,
    }
}
