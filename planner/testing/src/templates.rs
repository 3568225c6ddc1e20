//! Pod templates, and what is none.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Names that defaulting and validation look for.
const NAMES: &str = "
    metadata labels annotations spec containers initContainers volumes name image ports
    containerPort hostPort env valueFrom fieldRef fieldPath resources limits requests cpu
    hugepages-2Mi livenessProbe httpGet port lifecycle preStop sleep volumeMounts mountPath
    volumeDevices devicePath securityContext privileged sysctls emptyDir hostPath secret items
    projected sources serviceAccountToken downwardAPI ephemeral volumeClaimTemplate affinity
    nodeAffinity podAffinity requiredDuringSchedulingIgnoredDuringExecution
    preferredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchExpressions values
    operator tolerations topologySpreadConstraints dnsConfig dnsPolicy nameservers hostAliases ip os
    restartPolicy claims overhead status capacity updateStrategy transferEnv resourcesPolicy
    upgradeStrategy patchPodMetadata injectionStrategy revision selector matchLabels windowsOptions";

/// JSON made of these names.
pub fn arbitrary_template() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(NAMES.split_whitespace().collect::<Vec<_>>());
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "Always",
            "None",
            "1",
            "100m",
            "0.0001",
            "..",
            "/",
            "é\u{0}",
            "metadata.labels['é']"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| Value::Object(
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}
