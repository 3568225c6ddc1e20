use serde_json::json;

use super::check;

#[test]
fn names_images_and_policies() {
    check(&[
        (
            &[("/spec/containers/0/name", json!("a.b"))],
            &["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (&[("/spec/containers/0/name", json!(""))], &["spec.containers[0].name: Required value"]),
        (&[("/spec/containers/0/image", json!(""))], &["spec.containers[0].image: Required value"]),
        (&[("/spec/containers/0/image", json!(" padded"))], &[]),
        (
            &[("/spec/initContainers/0/name", json!("c"))],
            &["spec.initContainers[0].name: Duplicate value: \"c\""],
        ),
        (
            &[("/spec/containers/0/imagePullPolicy", json!("Maybe"))],
            &[
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            &[("/spec/containers/0/terminationMessagePolicy", json!("X"))],
            &[
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"X\": supported values: \"File\", \"FallbackToLogsOnError\"",
            ],
        ),
        (
            &[("/spec/containers/0/restartPolicy", json!("Always"))],
            &["spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers"],
        ),
        (
            &[("/spec/initContainers/0/restartPolicy", json!("Never"))],
            &[
                "spec.initContainers[0].restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            ],
        ),
        (&[("/spec/containers", json!([]))], &["spec.containers: Required value"]),
        (
            &[(
                "/spec/containers/0/resizePolicy",
                json!([{"resourceName": "disk", "restartPolicy": "NotRequired"}]),
            )],
            &[
                "spec.containers[0].resizePolicy: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"",
            ],
        ),
        (
            &[("/spec/ephemeralContainers", json!([{"name": "e"}]))],
            &["spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
        ),
    ]);
}

#[test]
fn ports() {
    check(&[
        (
            &[("/spec/containers/0/ports/0/containerPort", json!(0))],
            &["spec.containers[0].ports[0].containerPort: Required value"],
        ),
        (
            &[("/spec/containers/0/ports/0/containerPort", json!(65536))],
            &[
                "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            &[("/spec/containers/0/ports/0/protocol", json!("ICMP"))],
            &[
                "spec.containers[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            &[("/spec/containers/0/ports/0/name", json!("Web"))],
            &[
                "spec.containers[0].ports[0].name: Invalid value: \"Web\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            ],
        ),
        (
            &[(
                "/spec/containers/0/ports",
                json!([
                    {"name": "a", "containerPort": 1, "hostPort": 8, "protocol": "TCP"},
                    {"name": "a", "containerPort": 2, "hostPort": 8, "protocol": "TCP"},
                ]),
            )],
            &[
                "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
                "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//8\"",
            ],
        ),
        (&[("/spec/hostNetwork", json!(true))], &[]),
        (
            &[("/spec/hostNetwork", json!(true)), ("/spec/containers/0/ports/0/hostPort", json!(81))],
            &[
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
    ]);
}

#[test]
fn environment() {
    check(&[
        (
            &[("/spec/containers/0/env/0/name", json!(""))],
            &["spec.containers[0].env[0].name: Required value"],
        ),
        (
            &[("/spec/containers/0/env/0/valueFrom", json!({}))],
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0",
                json!({"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
            )],
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0/valueFrom",
                json!({
                    "secretKeyRef": {"name": "s", "key": "k"}, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['a']"},
                }),
            )],
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0/valueFrom",
                json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.os"}}),
            )],
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.os\": error converting fieldPath: field label not supported: spec.os",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0/valueFrom",
                json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "status.phase"}}),
            )],
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0/valueFrom",
                json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['/a']"}}),
            )],
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef: Invalid value: \"/a\": prefix part must be non-empty",
            ],
        ),
        (
            &[(
                "/spec/containers/0/env/0/valueFrom",
                json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
            )],
            &[
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        ),
        (
            &[("/spec/containers/0/envFrom", json!([{}, {"configMapRef": {"name": "a"}, "prefix": "P_"}]))],
            &[
                "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ],
        ),
    ]);
}

#[test]
fn mounts_and_devices() {
    check(&[
        (
            &[("/spec/containers/0/volumeMounts/0/name", json!("gone"))],
            &["spec.containers[0].volumeMounts[0].name: Not found: \"gone\""],
        ),
        (
            &[("/spec/containers/0/volumeMounts/1", json!({"name": "data", "mountPath": "/data"}))],
            &["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/data\": must be unique"],
        ),
        (
            &[("/spec/containers/0/volumeMounts/0/subPath", json!("/a/../b"))],
            &[
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"/a/../b\": must be a relative path",
                "spec.containers[0].volumeMounts.subPath: Invalid value: \"/a/../b\": must not contain '..'",
            ],
        ),
        (
            &[
                ("/spec/containers/0/volumeMounts/0/subPath", json!("a")),
                ("/spec/containers/0/volumeMounts/0/subPathExpr", json!("b")),
            ],
            &[
                "spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive",
            ],
        ),
        (
            &[("/spec/containers/0/volumeMounts/0/mountPropagation", json!("Bidirectional"))],
            &[
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
        (
            &[("/spec/containers/0/volumeMounts/0/recursiveReadOnly", json!("Enabled"))],
            &[
                "spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            ],
        ),
        (&[("/spec/containers/0/volumeDevices", json!([{"name": "disk", "devicePath": "/dev/x"}]))], &[]),
        (
            &[("/spec/containers/0/volumeDevices", json!([{"name": "data", "devicePath": "/data"}]))],
            &[
                "spec.containers[0].volumeMounts[0].name: Invalid value: \"data\": must not already exist in volumeDevices",
                "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/data\": must not already exist as a path in volumeDevices",
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"data\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"data\": must not already exist in volumeMounts",
                "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/data\": must not already exist as a path in volumeMounts",
            ],
        ),
    ]);
}

#[test]
fn probes_and_hooks() {
    check(&[
        (
            &[("/spec/containers/0/livenessProbe/exec", json!({"command": ["x"]}))],
            &[
                "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
            ],
        ),
        (
            &[("/spec/containers/0/livenessProbe/successThreshold", json!(2))],
            &["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            &[("/spec/containers/0/readinessProbe/tcpSocket/port", json!(0))],
            &[
                "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            &[("/spec/containers/0/readinessProbe/terminationGracePeriodSeconds", json!(5))],
            &[
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
            ],
        ),
        (
            &[("/spec/containers/0/startupProbe", json!({"successThreshold": 1, "periodSeconds": -1}))],
            &[
                "spec.containers[0].startupProbe: Required value: must specify a handler type",
                "spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            &[("/spec/containers/0/livenessProbe/httpGet/scheme", json!("FTP"))],
            &[
                "spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
            ],
        ),
        (
            &[("/spec/containers/0/lifecycle/preStop", json!({"sleep": {"seconds": 31}}))],
            &[
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be greater than 0 and less than terminationGracePeriodSeconds (30). Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep.",
            ],
        ),
        (
            &[("/spec/initContainers/0/livenessProbe", json!({}))],
            &[
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            &[
                ("/spec/initContainers/0/restartPolicy", json!("Always")),
                ("/spec/initContainers/0/startupProbe", json!({"grpc": {"port": 9}})),
            ],
            &["spec.initContainers[0].startupProbe.successThreshold: Invalid value: 0: must be 1"],
        ),
    ]);
}

#[test]
fn resources() {
    check(&[
        (
            &[("/spec/containers/0/resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}))],
            &[
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            &[("/spec/containers/0/resources", json!({"requests": {"cpu": "-1"}}))],
            &[
                "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            &[(
                "/spec/containers/0/resources",
                json!({"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}),
            )],
            &[
                "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2",
            ],
        ),
        (
            &[("/spec/containers/0/resources", json!({"requests": {"example.com/gpu": "1500m"}}))],
            &[
                "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            &[("/spec/containers/0/resources", json!({"limits": {"hugepages-2Mi": "3Mi"}}))],
            &["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            &[("/spec/containers/0/resources", json!({"limits": {"disk": "1", "pods": "1"}}))],
            &[
                "spec.containers[0].resources.limits[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers",
                "spec.containers[0].resources.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        ),
        (
            &[("/spec/containers/0/resources", json!({"claims": [{"name": "x"}]}))],
            &["spec.containers[0].resources.claims[0]: Not found: \"x\""],
        ),
    ]);
}

#[test]
fn security_contexts() {
    check(&[
        (
            &[("/spec/containers/0/securityContext/runAsUser", json!(-1))],
            &[
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            &[(
                "/spec/containers/0/securityContext",
                json!({"privileged": true, "allowPrivilegeEscalation": false}),
            )],
            &[
                "spec.containers[0].securityContext: Invalid value: {\"privileged\":true,\"allowPrivilegeEscalation\":false}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        ),
        (
            &[("/spec/containers/0/securityContext", json!({"procMount": "Unmasked"}))],
            &[
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
            ],
        ),
        (
            &[(
                "/spec/containers/0/securityContext",
                json!({"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "Loud"}}),
            )],
            &[
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                "spec.containers[0].securityContext.appArmorProfile.type: Unsupported value: \"Loud\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
            ],
        ),
        (
            &[(
                "/spec/containers/0/securityContext",
                json!({"windowsOptions": {"runAsUserName": "a\\b\\c"}}),
            )],
            &[
                "spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash",
            ],
        ),
    ]);
}

#[test]
fn privileged_containers_need_the_flag() {
    let mut template = super::template();
    template["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let rules = super::TemplateRules { allow_privileged: false, ..super::rules() };
    let errors = super::validate_template(&template, &rules);
    assert_eq!(
        values::field::aggregate(&errors).unwrap(),
        "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
    );
}
