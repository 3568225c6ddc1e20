use serde_json::json;

use super::check;

#[test]
fn policies_and_names() {
    check(&[
        (
            &[("/spec/restartPolicy", json!("Often"))],
            &[
                "spec.restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            &[("/spec/dnsPolicy", json!("None"))],
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            &[("/spec/dnsPolicy", json!("X"))],
            &[
                "spec.dnsPolicy: Unsupported value: \"X\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
            ],
        ),
        (
            &[("/spec/terminationGracePeriodSeconds", json!(null))],
            &["spec.terminationGracePeriodSeconds: Required value"],
        ),
        (
            &[("/spec/activeDeadlineSeconds", json!(0))],
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            &[("/spec/hostname", json!("a.b"))],
            &["spec.hostname: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            &[("/spec/serviceAccountName", json!(null)), ("/spec/serviceAccount", json!("x y"))],
            &[
                "spec.serviceAccountName: Invalid value: \"x y\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (&[("/spec/serviceAccountName", json!("a")), ("/spec/serviceAccount", json!("x y"))], &[]),
        (
            &[("/spec/serviceAccountName", json!("A"))],
            &[
                "spec.serviceAccountName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            &[("/spec/preemptionPolicy", json!("X"))],
            &[
                "spec.preemptionPolicy: Unsupported value: \"X\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ],
        ),
        (
            &[("/spec/readinessGates", json!([{"conditionType": "/a"}]))],
            &["spec.readinessGates[0].conditionType: Invalid value: \"/a\": prefix part must be non-empty"],
        ),
        (
            &[("/spec/schedulingGates", json!([{"name": "a"}, {"name": "a"}]))],
            &["spec.schedulingGates[1]: Duplicate value: \"a\""],
        ),
        (
            &[("/spec/overhead", json!({"cpu": "-1"}))],
            &["spec.overhead[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            &[("/spec/nodeSelector", json!({"a/": "b"}))],
            &[
                "spec.nodeSelector: Invalid value: \"a/\": name part must be non-empty",
                "spec.nodeSelector: Invalid value: \"a/\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        ),
        (
            &[("/spec/resourceClaims", json!([{"name": "a"}]))],
            &[
                "spec.resourceClaims[0]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ],
        ),
    ]);
}

#[test]
fn name_resolution() {
    check(&[
        (
            &[(
                "/spec/dnsConfig",
                json!({"nameservers": ["1", "1.1.1.1", "1.1.1.1", "1.1.1.1"], "options": [{}]}),
            )],
            &[
                "spec.dnsConfig.nameservers: Invalid value: []string{\"1\", \"1.1.1.1\", \"1.1.1.1\", \"1.1.1.1\"}: must not have more than 3 nameservers",
                "spec.dnsConfig.nameservers[0]: Invalid value: \"1\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        ),
        (
            &[("/spec/dnsPolicy", json!("None")), ("/spec/dnsConfig", json!({}))],
            &[
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
        ),
        (
            &[("/spec/hostAliases", json!([{"ip": "x", "hostnames": ["ok.example."]}]))],
            &[
                "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.hostAliases[0].hostnames[0]: Invalid value: \"ok.example.\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
    ]);
}

#[test]
fn affinity() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    check(&[
        (
            &[("/spec/affinity", json!({"nodeAffinity": {required: {}}}))],
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (
            &[(
                "/spec/affinity",
                json!({"nodeAffinity": {preferred: [{"weight": 0, "preference": {
                    "matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Near"}, {"key": "a", "operator": "Gt", "values": []}],
                    "matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}],
                }}]}}),
            )],
            &[
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].operator: Invalid value: \"Near\": not a valid selector operator",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: \"spec.x\": not a valid field selector key",
            ],
        ),
        (
            &[(
                "/spec/affinity",
                json!({"podAntiAffinity": {required: [
                    {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}},
                    {"topologyKey": "zone", "matchLabelKeys": ["k"]},
                ]}}),
            )],
            &[
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
    ]);
}

#[test]
fn tolerations() {
    check(&[
        (
            &[("/spec/tolerations", json!([{}]))],
            &[
                "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ],
        ),
        (
            &[(
                "/spec/tolerations",
                json!([{"key": "a", "operator": "Exists", "value": "b", "effect": "Push", "tolerationSeconds": 1}]),
            )],
            &[
                "spec.tolerations[0].effect: Invalid value: \"Push\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[0].effect: Unsupported value: \"Push\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            &[("/spec/tolerations", json!([{"key": "a", "operator": "Like"}]))],
            &[
                "spec.tolerations[0].operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\"",
            ],
        ),
    ]);
}

#[test]
fn topology_spread() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    check(&[
        (
            &[("/spec/topologySpreadConstraints", json!([constraint, constraint]))],
            &[
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\"",
            ],
        ),
        (
            &[(
                "/spec/topologySpreadConstraints",
                json!([{"minDomains": 1, "matchLabelKeys": ["a"], "nodeTaintsPolicy": "X"}]),
            )],
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ",
                "spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: \"X\": supported values: \"Honor\", \"Ignore\"",
                "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
    ]);
}

#[test]
fn pod_security_and_operating_systems() {
    check(&[
        (
            &[(
                "/spec/securityContext",
                json!({"fsGroup": -1, "fsGroupChangePolicy": "X", "supplementalGroups": [1, -2]}),
            )],
            &[
                "spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.supplementalGroups[1]: Invalid value: -2: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnRootMismatch\"",
            ],
        ),
        (
            &[
                ("/spec/hostNetwork", json!(true)),
                (
                    "/spec/securityContext",
                    json!({"sysctls": [{"name": "net.a"}, {"name": "net.a"}, {"name": "net/b.c"}]}),
                ),
            ],
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
                "spec.securityContext.sysctls[1].name: Duplicate value: \"net.a\"",
                "spec.securityContext.sysctls[1].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
                "spec.securityContext.sysctls[2].name: Invalid value: \"net/b.c\": may not be specified when 'hostNetwork' is true",
            ],
        ),
        (
            &[("/spec/hostUsers", json!(false)), ("/spec/hostPID", json!(true))],
            &["spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
        (
            &[("/spec/shareProcessNamespace", json!(true)), ("/spec/hostPID", json!(true))],
            &[
                "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
            ],
        ),
        (
            &[("/spec/os", json!({"name": "plan9"}))],
            &["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
        ),
        (
            &[
                ("/spec/os", json!({"name": "windows"})),
                ("/spec/containers/0/securityContext", json!({"runAsUser": 1})),
            ],
            &["spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"],
        ),
        (
            &[("/spec/containers/0/securityContext", json!({"windowsOptions": {"hostProcess": true}}))],
            &[
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ],
        ),
    ]);
}
