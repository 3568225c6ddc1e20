use serde_json::json;

use super::check;

#[test]
fn names_and_number_of_sources() {
    check(&[
        (
            &[("/spec/volumes/-", json!({"name": "data", "emptyDir": {}}))],
            &["spec.volumes[2].name: Duplicate value: \"data\""],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "A", "emptyDir": {}, "secret": {}}))],
            &[
                "spec.volumes[2].secret: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[2].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x"}))],
            &["spec.volumes[2]: Required value: must specify a volume type"],
        ),
        (&[("/spec/volumes/-", json!({"emptyDir": {}}))], &["spec.volumes[2].name: Required value"]),
        (&[("/spec/volumes/-", json!({"name": "x", "quantumStore": {}}))], &[]),
    ]);
}

#[test]
fn required_fields_of_sources() {
    for (source, value, missing) in [
        ("hostPath", json!({}), &["hostPath.path"][..]),
        ("gitRepo", json!({}), &["gitRepo.repository"]),
        ("gcePersistentDisk", json!({}), &["persistentDisk.pdName"]),
        ("awsElasticBlockStore", json!({}), &["awsElasticBlockStore.volumeID"]),
        ("secret", json!({}), &["secret.secretName"]),
        ("glusterfs", json!({}), &["glusterfs.endpoints", "glusterfs.path"]),
        ("persistentVolumeClaim", json!({}), &["persistentVolumeClaim.claimName"]),
        ("rbd", json!({}), &["rbd.monitors", "rbd.image"]),
        ("cinder", json!({"secretRef": {}}), &["cinder.volumeID", "cinder.secretRef.name"]),
        ("cephfs", json!({}), &["cephfs.monitors"]),
        ("flexVolume", json!({}), &["flexVolume.driver"]),
        ("configMap", json!({}), &["configMap.name"]),
        ("azureFile", json!({}), &["azureFile.secretName", "azureFile.shareName"]),
        ("vsphereVolume", json!({}), &["vsphereVolume.volumePath"]),
        ("photonPersistentDisk", json!({}), &["photonPersistentDisk.pdID"]),
        ("portworxVolume", json!({}), &["portworxVolume.volumeID"]),
        ("azureDisk", json!({}), &["azureDisk.diskName", "azureDisk.diskURI"]),
        ("storageos", json!({}), &["storageos.volumeName"]),
        ("scaleIO", json!({}), &["scaleIO.gateway", "scaleIO.system", "scaleIO.volumeName"]),
        ("ephemeral", json!({}), &["ephemeral.volumeClaimTemplate"]),
        ("image", json!({}), &["image.pullPolicy"]),
    ] {
        let errors = super::errors_after(&[("/spec/volumes/-", json!({"name": "x", source: value}))]);
        let expected: Vec<String> =
            missing.iter().map(|field| format!("spec.volumes[2].{field}: Required value")).collect();
        assert_eq!(errors, expected, "{source}");
    }
}

#[test]
fn rules_of_single_sources() {
    check(&[
        (
            &[("/spec/volumes/-", json!({"name": "x", "hostPath": {"path": "/a/..", "type": "Pipe"}}))],
            &[
                "spec.volumes[2].hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                "spec.volumes[2].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "emptyDir": {"sizeLimit": "-1"}}))],
            &[
                "spec.volumes[2].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
            ],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "nfs": {"server": "s", "path": "a"}}))],
            &["spec.volumes[2].nfs.path: Invalid value: \"a\": must be an absolute path"],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "secret": {"secretName": "s", "defaultMode": 512, "items": [{"key": "k", "path": "..x"}]}}),
            )],
            &[
                "spec.volumes[2].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[2].secret.items[0].path: Invalid value: \"..x\": must not start with '..'",
            ],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "iscsi": {"targetPortal": "p", "iqn": "iqn.bad", "lun": 256}}),
            )],
            &[
                "spec.volumes[2].iscsi.iqn: Invalid value: \"iqn.bad\": must be valid format",
                "spec.volumes[2].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "iscsi": {"targetPortal": "p", "iqn": "iqn.2015-02.example.com:test"}}),
            )],
            &[],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "fc": {"targetWWNs": ["a"]}}))],
            &["spec.volumes[2].fc.lun: Required value: lun is required if targetWWNs is specified"],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "quobyte": {"registry": "h:1,bad", "volume": "v"}}))],
            &[
                "spec.volumes[2].quobyte.registry: Invalid value: \"h:1,bad\": must be a host:port pair or multiple pairs separated by commas",
            ],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "flocker": {"datasetName": "a/b"}}))],
            &["spec.volumes[2].flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "flexVolume": {"driver": "d", "options": {"storage.k8s.io/x": "1"}}}),
            )],
            &[
                "spec.volumes[2].flexVolume.options[storage.k8s.io/x]: Invalid value: \"storage.k8s.io/x\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed"}}),
            )],
            &[
                "spec.volumes[2].azureDisk.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "csi": {"driver": "a".repeat(64)}}))],
            &["spec.volumes[2].csi.driver: Too long: may not be more than 63 bytes"],
        ),
        (
            &[("/spec/volumes/-", json!({"name": "x", "downwardAPI": {"items": [{"path": "p"}]}}))],
            &[
                "spec.volumes[2].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        ),
    ]);
}

#[test]
fn projected_sources() {
    check(&[
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "projected": {"sources": [
                    {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}, "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
                    {"serviceAccountToken": {"path": "/t", "expirationSeconds": 5}},
                    {"clusterTrustBundle": {"path": "b"}},
                ]}}),
            )],
            &[
                "spec.volumes[2].projected: Invalid value: \"m\": conflicting duplicate paths",
                "spec.volumes[2].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
                "spec.volumes[2].projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "spec.volumes[2].projected.path: Invalid value: \"/t\": must be a relative path",
                "spec.volumes[2].projected.sources[2].clusterTrustBundle: Required value: either name or signerName must be specified",
            ],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "projected": {"sources": [{"clusterTrustBundle": {"signerName": "example.com/s", "path": "b"}}]}}),
            )],
            &[],
        ),
    ]);
}

#[test]
fn claims_of_ephemeral_volumes() {
    check(&[
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "ephemeral": {"volumeClaimTemplate": {
                    "metadata": {"name": "n"},
                    "spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce", "Some"], "volumeMode": "Tape",
                             "dataSource": {"name": "a", "kind": "Odd"}},
                }}}),
            )],
            &[
                "spec.volumes[2].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: \"Some\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
                "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
                "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.dataSource: Invalid value: \"Odd\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ],
        ),
        (
            &[(
                "/spec/volumes/-",
                json!({"name": "x", "ephemeral": {"volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }}}),
            )],
            &[],
        ),
    ]);
}
