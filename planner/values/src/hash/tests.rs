use proptest::prelude::*;

use super::*;

fn hashes(spec: &str) -> SidecarSetHashes {
    sidecarset_hashes(spec).unwrap()
}

const C: &str = r#"{"name":"container1","image":"test-image"}"#;
const I: &str = r#"{"name":"container1","image":"test-image","restartPolicy":"Always"}"#;

/// The hashes of one container, and the same without its image
/// (docs/behaviour/pod-mutation.md#sidecarset-hash).
const HASH_OF_C: &str = "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78";
const HASH_OF_C_WITHOUT_IMAGE: &str = "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759";

#[test]
fn one_container_hashes_as_the_reference_does() {
    let hashes = hashes(&format!(r#"{{"containers":[{C}]}}"#));
    assert_eq!(hashes.hash, HASH_OF_C);
    assert_eq!(hashes.hash_without_image, HASH_OF_C_WITHOUT_IMAGE);
}

#[test]
fn native_sidecars_count() {
    let hashes = hashes(&format!(r#"{{"initContainers":[{I}],"containers":[{C}]}}"#));
    assert_eq!(hashes.hash, "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w");
}

#[test]
fn init_containers_without_a_native_sidecar_do_not_count() {
    let init = I.replace("Always", "Never");
    assert_eq!(hashes(&format!(r#"{{"containers":[{C}],"initContainers":[{init}]}}"#)).hash, HASH_OF_C);
}

#[test]
fn defaulted_sidecar_hashes_as_the_reference_does() {
    let text = r#"{"containers":[{"name":"dns-f","image":"dns:1.0","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#;
    assert_eq!(hashes(text).hash, "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684");
}

#[test]
fn quantities_are_canonical_under_the_hash() {
    let text = r#"{"containers":null,"initContainers":[{"name":"agent","image":"registry.example.com/agent:1.0","resources":{"limits":{"cpu":"500m","memory":"1Gi"}},"restartPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"disabled"}}]}"#;
    let expected = "5w94dcfd947z76bcc75448bwf2dwdzwwxz54d78c9zzvzbwb4vf4fcxb52424w2f";
    assert_eq!(hashes(text).hash, expected);
    let written_otherwise = text.replace(r#""500m""#, "0.5").replace("1Gi", "1024Mi");
    assert_eq!(hashes(&written_otherwise).hash, expected);
}

#[test]
fn basic_example_has_the_hashes_of_the_reference() {
    let spec = r#"{"containers":[{"name":"shipper","image":"registry.example.com/shipper:1.4.0","env":[{"name":"LEVEL","value":"info"}],"resources":{},"volumeMounts":[{"name":"spool","mountPath":"/var/spool"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{"type":"enabled"},"transferEnv":[{"sourceContainerName":"shop","envName":"SHOP_REGION"}]}]}"#;
    assert_eq!(
        hashes(spec),
        SidecarSetHashes {
            hash: "bcxfw7cfx89vzd8v9d4z78946992xw946xwdvz8944d4496zdzx6xczbvv25xfx2".into(),
            hash_without_image: "7f4z7d4wwb6v2b7bxx64db6w24cz7b4wx45658d9zwf25w5dcd45242f54x5dxcd".into(),
        }
    );
}

#[test]
fn image_of_the_idle_twin_stays_without_image() {
    let spec = r#"{"containers":[{"name":"mesh","image":"registry.example.com/mesh:1.0","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","podInjectPolicy":"BeforeAppContainer","upgradeStrategy":{"upgradeType":"HotUpgrade","hotUpgradeEmptyImage":"registry.example.com/mesh-empty:1.0"},"shareVolumePolicy":{"type":"disabled"}}]}"#;
    assert_eq!(
        hashes(spec),
        SidecarSetHashes {
            hash: "d9xv2x66x8f6vf5cf58xz78xx545w4745vb7f8d424bvz2659v2b47454fc45zbz".into(),
            hash_without_image: "zxw4444dv4cv44xf457dw4dz8x6b47vz747578722v4c4cdfbd42z62248648z84".into(),
        }
    );
}

#[test]
fn absent_and_empty_containers_differ_under_the_hash() {
    assert_eq!(hashes("{}"), hashes(r#"{"containers":null}"#));
    assert_ne!(hashes("{}"), hashes(r#"{"containers":[]}"#));
}

#[test]
fn wrong_type_is_named_by_its_path() {
    let error = sidecarset_hashes(r#"{"containers":[{"env":[{"name":5}]}]}"#).unwrap_err();
    assert_eq!(error.to_string(), "containers[0].env[0].name: Invalid value: 5: must be a string");
}

#[test]
fn fnv_is_the_variant_that_multiplies_first() {
    let data = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","name":"main","resources":{}}]}}}}"#;
    assert_eq!(fnv1_32(format!("{data}0").bytes()), 344_500_901);
    assert_eq!(fnv1_32(format!("{data}1").bytes()), 344_500_900);
    assert_eq!(safe_encode("344500901"), "788944f45");
    assert_eq!(safe_encode("344500900"), "788944f44");
}

#[test]
fn stored_revision_of_the_reference_has_its_hash() {
    let data = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":[{"image":"nginx:1.25","imagePullPolicy":"Always","name":"main","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;
    assert_eq!(safe_encode(&fnv1_32(format!("{data}0").bytes()).to_string()), "86f599f8d5");
}

#[test]
fn alphabet_maps_hexadecimal_as_the_reference_does() {
    assert_eq!(safe_encode("0123456789abcdef"), "456789bcdfvwxz24");
}

proptest! {
    #[test]
    fn any_spec_hashes_or_fails_without_panic(spec in crate::canonical::tests::any_json()) {
        let _ = sidecarset_hashes(&format!(r#"{{"containers":[{spec}],"initContainers":{spec}}}"#));
    }

    #[test]
    fn any_image_gives_the_same_hash_without_image(image in ".{0,20}") {
        let image = serde_json::to_string(&image).unwrap();
        let spec = format!(r#"{{"containers":[{{"name":"container1","image":{image}}}]}}"#);
        prop_assert_eq!(hashes(&spec).hash_without_image, HASH_OF_C_WITHOUT_IMAGE);
    }
}
