use serde_json::{Value, json};

use crate::pod_review::fixture::{Cluster, NOW, create, names, pod};
use crate::pod_review::{Resolved, Review};
use crate::world::Watched;
use values::verdict::Verdict;

mod examples;
mod properties;

fn agent(name: &str) -> Value {
    json!({"name": name, "image": "agent:1", "podInjectPolicy": "AfterAppContainer"})
}

fn containers(pod: &Value) -> Vec<&str> {
    names(&pod["spec"]["containers"])
}

fn env_of<'p>(pod: &'p Value, container: &str) -> Vec<&'p str> {
    let list = pod["spec"]["containers"].as_array().unwrap();
    names(&list.iter().find(|element| element["name"] == container).unwrap()["env"])
}

fn main_only() -> Value {
    pod(json!([{"name": "m"}]))
}

fn hashes(pod: &Value) -> Value {
    serde_json::from_str(pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap())
        .unwrap()
}

#[test]
fn scenario_4_a_paused_set_is_not_injected() {
    let cluster =
        Cluster::new().set("s", json!({"containers": [agent("a")], "injectionStrategy": {"paused": true}}));
    assert_eq!(cluster.admit(&main_only()), main_only());
}

#[test]
fn scenario_5_sidecars_go_to_their_sides() {
    let mut before = agent("a");
    before["podInjectPolicy"] = json!("BeforeAppContainer");
    let init = json!([agent("z"), agent("k")]);
    let cluster =
        Cluster::new().set("s", json!({"containers": [before, agent("b")], "initContainers": init}));
    let mut pod = main_only();
    pod["spec"]["initContainers"] = json!([{"name": "i"}]);
    let admitted = cluster.admit(&pod);
    assert_eq!(containers(&admitted), ["a", "m", "b"]);
    assert_eq!(names(&admitted["spec"]["initContainers"]), ["i", "k", "z"]);
}

#[test]
fn scenario_6_an_init_container_may_go_first() {
    let mut first = agent("f");
    first["podInjectPolicy"] = json!("BeforeAppContainer");
    let cluster = Cluster::new().set("s", json!({"initContainers": [first, agent("l")]}));
    let mut pod = main_only();
    pod["spec"]["initContainers"] = json!([{"name": "i"}]);
    let admitted = cluster.admit(&pod);
    assert_eq!(names(&admitted["spec"]["initContainers"]), ["f", "i", "l"]);
    // Plain init containers are not followed up.
    assert_eq!(hashes(&admitted)["s"]["sidecarList"], json!([]));
}

#[test]
fn scenario_7_sorting_by_name_has_a_gate() {
    let cluster = Cluster::new()
        .set("s1", json!({"containers": [agent("y")]}))
        .set("s2", json!({"containers": [agent("x")]}));
    assert_eq!(containers(&cluster.admit(&main_only())), ["m", "y", "x"]);
    let cluster = cluster.gates("EnableSortSidecarContainerByName=true");
    assert_eq!(containers(&cluster.admit(&main_only())), ["m", "x", "y"]);
}

#[test]
fn the_side_of_a_container_counts_before_its_name() {
    let mut before = agent("z");
    before["podInjectPolicy"] = json!("BeforeAppContainer");
    let cluster = Cluster::new()
        .set("s1", json!({"containers": [agent("b"), before]}))
        .set("s2", json!({"containers": [agent("a")]}))
        .gates("EnableSortSidecarContainerByName=true");
    assert_eq!(containers(&cluster.admit(&main_only())), ["z", "m", "a", "b"]);
}

#[test]
fn a_container_that_says_it_is_injected_shares_no_mounts() {
    let mut sharing = agent("a");
    sharing["shareVolumePolicy"] = json!({"type": "enabled"});
    let cluster = Cluster::new().set("s", json!({"containers": [sharing]}));
    let mount = |path: &str| json!([{"name": "v", "mountPath": path}]);
    let mark = json!([{"name": "IS_INJECTED", "value": "true"}]);
    let copied = json!({"name": "copied", "env": mark, "volumeMounts": mount("/copied")});
    let admitted = cluster.admit(&pod(json!([copied, {"name": "m", "volumeMounts": mount("/own")}])));
    assert_eq!(admitted["spec"]["containers"][2]["volumeMounts"], mount("/own"));
}

#[test]
fn an_init_container_is_no_source_of_variables() {
    let mut sidecar = agent("a");
    sidecar["transferEnv"] = json!([{"sourceContainerName": "setup", "envName": "A"}]);
    let mut pod = main_only();
    pod["spec"]["initContainers"] = json!([{"name": "setup", "env": [{"name": "A", "value": "1"}]}]);
    let admitted = Cluster::new().set("s", json!({"containers": [sidecar]})).admit(&pod);
    assert_eq!(env_of(&admitted, "a"), ["IS_INJECTED"]);
}

#[test]
fn scenario_8_the_volume_of_the_pod_wins() {
    let mut mounting = agent("a");
    mounting["volumeMounts"] = json!([{"name": "spool", "mountPath": "/spool"}]);
    let cluster = Cluster::new()
        .set("s", json!({"containers": [mounting], "volumes": [{"name": "spool", "emptyDir": {}}]}));
    let mut pod = main_only();
    pod["spec"]["volumes"] = json!([{"name": "spool", "hostPath": {"path": "/x"}}]);
    let (admitted, warnings) = cluster.review(&pod);
    assert_eq!(admitted["spec"]["volumes"], pod["spec"]["volumes"]);
    assert_eq!(
        warnings,
        [r#"volume "spool" of SidecarSet s is not added: the Pod has another volume of that name"#]
    );
    pod["spec"]["volumes"] = json!([{"emptyDir": {}, "name": "spool"}]);
    assert_eq!(cluster.review(&pod).1, Vec::<String>::new());
}

#[test]
fn scenario_9_own_mount_paths_are_not_shared() {
    let mut sharing = agent("a");
    sharing["shareVolumePolicy"] = json!({"type": "enabled"});
    sharing["volumeMounts"] = json!([{"name": "own", "mountPath": "/data"}]);
    let cluster = Cluster::new().set("s", json!({"containers": [sharing]}));
    let app = json!({"name": "m", "volumeMounts": [{"name": "d", "mountPath": "/data"}, {"name": "d", "mountPath": "/more"}]});
    let injected = json!({"name": "i", "env": [{"name": "IS_INJECTED", "value": "true"}], "volumeMounts": [{"name": "d", "mountPath": "/not"}]});
    let admitted = cluster.admit(&pod(json!([app, injected])));
    let mounts = &admitted["spec"]["containers"][2]["volumeMounts"];
    assert_eq!(*mounts, json!([{"name": "own", "mountPath": "/data"}, {"name": "d", "mountPath": "/more"}]));
}

#[test]
fn scenario_10_only_present_variables_of_a_sub_path_are_copied() {
    let mut sharing = agent("a");
    sharing["shareVolumePolicy"] = json!({"type": "enabled"});
    let cluster = Cluster::new().set("s", json!({"containers": [sharing]}));
    let app = json!({"name": "m", "env": [{"name": "POD_NAME", "value": "x"}, {"name": "OTHER", "value": "y"}],
        "volumeMounts": [{"name": "d", "mountPath": "/d", "subPathExpr": "x/$(POD_NAME)/$(MISSING)"}]});
    assert_eq!(env_of(&cluster.admit(&pod(json!([app]))), "a"), ["IS_INJECTED", "POD_NAME"]);
}

#[test]
fn scenario_11_devices_are_shared_but_for_used_paths() {
    let mut sharing = agent("a");
    sharing["shareVolumePolicy"] = json!({"type": "enabled"});
    sharing["shareVolumeDevicePolicy"] = json!({"type": "enabled"});
    sharing["volumeDevices"] = json!([{"name": "own", "devicePath": "/dev/own"}]);
    sharing["volumeMounts"] = json!([{"name": "mine", "mountPath": "/dev/mine"}]);
    let cluster = Cluster::new().set("s", json!({"containers": [sharing.clone()]}));
    let device = |path: &str| json!({"name": "d", "devicePath": path});
    let devices = ["/dev/own", "/dev/mine", "/dev/mount", "/dev/free", "/dev/free"].map(device);
    let app = json!({"name": "m", "volumeMounts": [{"name": "d", "mountPath": "/dev/mount"}],
        "volumeDevices": devices});
    let admitted = cluster.admit(&pod(json!([app])));
    let devices = &admitted["spec"]["containers"][1]["volumeDevices"];
    assert_eq!(*devices, json!([{"name": "own", "devicePath": "/dev/own"}, device("/dev/free")]));
    sharing.as_object_mut().unwrap().remove("shareVolumeDevicePolicy");
    let admitted = Cluster::new().set("s", json!({"containers": [sharing]})).admit(&pod(json!([app])));
    assert_eq!(admitted["spec"]["containers"][1]["volumeDevices"].as_array().unwrap().len(), 1);
}

#[test]
fn scenario_12_the_source_of_variables_may_come_from_a_label() {
    let transferring = |path: &str| {
        let mut sidecar = agent("a");
        sidecar["transferEnv"] = json!([{"sourceContainerNameFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}, "envNames": ["B", "A", "MISSING"]}]);
        Cluster::new().set("s", json!({"containers": [sidecar]}))
    };
    let app = json!({"name": "shop", "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"x": 1}}, {"name": "A", "value": "2"}]});
    let other = json!({"name": "other", "env": [{"name": "A", "value": "9"}]});
    let mut labelled = pod(json!([other, app]));
    labelled["metadata"]["labels"]["cName"] = json!("shop");
    let cluster = transferring("metadata.labels['cName']");
    let admitted = cluster.admit(&labelled);
    // Sorted by name; of repeated variables the last one counts.
    assert_eq!(
        admitted["spec"]["containers"][2]["env"],
        json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "A", "value": "2"}, {"name": "B", "valueFrom": {"x": 1}}])
    );
    assert_eq!(env_of(&cluster.admit(&pod(json!([app]))), "a"), ["IS_INJECTED"]);
    assert_eq!(env_of(&transferring("metadata.name").admit(&labelled), "a"), ["IS_INJECTED"]);
    labelled["metadata"]["annotations"] = json!({"k": "shop"});
    assert_eq!(
        env_of(&transferring("metadata.annotations['k']").admit(&labelled), "a"),
        ["IS_INJECTED", "A", "B"]
    );
}

#[test]
fn scenario_13_json_annotations_are_merged() {
    let patch = json!([{"annotations": {"oom": r#"{"log-agent":1}"#}, "patchPolicy": "MergePatchJson"}]);
    let cluster = Cluster::new().set("s", json!({"patchPodMetadata": patch}));
    let mut pod = main_only();
    assert_eq!(cluster.admit(&pod)["metadata"]["annotations"], json!({"oom": r#"{"log-agent":1}"#}));
    pod["metadata"]["annotations"] = json!({"oom": r#"{"main": 2}"#});
    assert_eq!(cluster.admit(&pod)["metadata"]["annotations"]["oom"], r#"{"log-agent":1,"main":2}"#);
    pod["metadata"]["annotations"] = json!({"oom": "oops"});
    assert_eq!(cluster.refuse(&pod).0, 500);
    let patch = json!([{"annotations": {"oom": "oops"}, "patchPolicy": "MergePatchJson"}]);
    assert_eq!(Cluster::new().set("s", json!({"patchPodMetadata": patch})).refuse(&pod).0, 500);
}

#[test]
fn the_barrier_of_another_container_is_not_transferred() {
    let mut sidecar = agent("a");
    sidecar["transferEnv"] =
        json!([{"sourceContainerName": "m", "envNames": ["KRUISE_CONTAINER_BARRIER", "OWN"]}]);
    let env = json!([{"name": "KRUISE_CONTAINER_BARRIER", "value": "p_9"}, {"name": "OWN", "value": "1"}]);
    let admitted = Cluster::new()
        .set("s", json!({"containers": [sidecar]}))
        .admit(&pod(json!([{"name": "m", "env": env}])));
    assert_eq!(env_of(&admitted, "a"), ["IS_INJECTED", "OWN"]);
}

#[test]
fn a_set_stored_without_defaults_is_injected_like_a_defaulted_one() {
    let bare = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "s"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "a", "image": "agent:1"}], "initContainers": [{"name": "i", "image": "i:1"}]}});
    let patch = kinds::sidecarset::defaulting::default(&bare.to_string(), "v1beta1").unwrap();
    let patch: json_patch::Patch = serde_json::from_str(&patch.to_json()).unwrap();
    let mut defaulted = bare.clone();
    json_patch::patch(&mut defaulted, &patch).unwrap();
    let admit = |set: &Value| {
        let mut pod = main_only();
        pod["spec"]["initContainers"] = json!([{"name": "own"}]);
        Cluster::new().apply(Watched::SidecarSet, set).admit(&pod)
    };
    let admitted = admit(&bare);
    assert_eq!(containers(&admitted), ["a", "m"]);
    assert_eq!(names(&admitted["spec"]["initContainers"]), ["own", "i"]);
    assert_eq!(hashes(&admitted)["s"]["hash"].as_str().unwrap().len(), 64);
    assert_eq!(admitted, admit(&defaulted));
}

#[test]
fn a_revision_without_an_inject_policy_has_its_default() {
    let mut unset = revision("s-2", 2, "old", json!({}));
    unset["data"]["spec"]["containers"][0].as_object_mut().unwrap().remove("podInjectPolicy");
    let cluster =
        pinned(json!({"revisionName": "s-2"}), json!({})).apply(Watched::ControllerRevision, &unset);
    assert_eq!(containers(&cluster.admit(&main_only())), ["a", "m"]);
}

#[test]
fn scenario_14_overwrite_changes_and_retain_does_not() {
    let patch = json!([{"annotations": {"r": "new", "r2": "new"}}, {"annotations": {"o": "new"}, "patchPolicy": "Overwrite"},
        {"annotations": {"x": "new"}, "patchPolicy": "Odd"}]);
    let cluster = Cluster::new().set("s", json!({"patchPodMetadata": patch}));
    let mut pod = main_only();
    pod["metadata"]["annotations"] = json!({"r": "old", "o": "old"});
    assert_eq!(cluster.admit(&pod)["metadata"]["annotations"], json!({"r": "old", "o": "new", "r2": "new"}));
}

#[test]
fn scenario_15_a_plain_init_container_is_no_pair() {
    let hot = |name: &str| json!({"name": name, "image": "i", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}});
    let mut native = hot("native");
    native["restartPolicy"] = json!("Always");
    let cluster = Cluster::new().set("s", json!({"initContainers": [hot("plain"), native]}));
    let admitted = cluster.admit(&main_only());
    assert_eq!(names(&admitted["spec"]["initContainers"]), ["native-1", "native-2", "plain"]);
    let working = &admitted["metadata"]["annotations"]["kruise.io/sidecarset-working-hotupgrade-container"];
    assert_eq!(working, r#"{"native":"native-1"}"#);
}

#[test]
fn scenario_16_native_sidecars_are_followed_up() {
    let mut native = agent("n");
    native["restartPolicy"] = json!("Always");
    let spec = json!({"initContainers": [native, agent("plain")], "updateStrategy": {"type": "NotUpdate"}});
    let admitted = Cluster::new().set("s", spec).admit(&main_only());
    assert_eq!(names(&admitted["spec"]["initContainers"]), ["n", "plain"]);
    assert_eq!(hashes(&admitted)["s"]["sidecarList"], json!(["n"]));
}

fn revision(name: &str, number: i64, image: &str, labels: Value) -> Value {
    let mut all = json!({"kruise.io/sidecarset-name": "s"});
    let Value::Object(labels) = labels else { panic!("not an object: {labels}") };
    for (key, value) in labels {
        all[key] = value;
    }
    let data = json!({"spec": {"$patch": "replace", "containers": [{"name": "a", "image": image}], "initContainers": null,
        "volumes": null, "imagePullSecrets": null, "patchPodMetadata": null}});
    json!({"metadata": {"name": name, "namespace": "kruise-system", "labels": all, "annotations":
        {"kruise.io/sidecarset-hash": format!("hash-{name}"), "kruise.io/sidecarset-hash-without-image": format!("bare-{name}")}},
        "revision": number, "data": data})
}

fn pinned(strategy: Value, update: Value) -> Cluster {
    let v1 = json!({"apps.kruise.io/sidecarset-custom-version": "v1"});
    let mut spec = json!({"containers": [agent("a")], "injectionStrategy": {}});
    spec["injectionStrategy"]["revision"] = strategy;
    spec["updateStrategy"] = update;
    Cluster::new()
        .apply(Watched::ControllerRevision, &revision("s-3", 3, "new", v1.clone()))
        .apply(Watched::ControllerRevision, &revision("s-2", 2, "old", v1))
        .apply(Watched::ControllerRevision, &revision("s-9", 9, "other", json!({})))
        .apply(
            Watched::ControllerRevision,
            &revision("t-1", 1, "foreign", json!({"kruise.io/sidecarset-name": "t"})),
        )
        .set("s", spec)
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"].as_array().unwrap().iter().find(|container| container["name"] == "a").unwrap()["image"].as_str().unwrap()
}

#[test]
fn scenario_17_the_newest_revision_of_a_custom_version_is_injected() {
    let admitted = pinned(json!({"customVersion": "v1"}), json!({})).admit(&main_only());
    assert_eq!(image(&admitted), "new");
    assert_eq!(hashes(&admitted)["s"]["controllerRevision"], "s-3");
    assert_eq!(hashes(&admitted)["s"]["hash"], "hash-s-3");
    let named = pinned(json!({"customVersion": "v1", "revisionName": "s-2"}), json!({})).admit(&main_only());
    assert_eq!(image(&named), "old");
}

#[test]
fn scenario_18_a_revision_that_is_gone_or_foreign_denies() {
    for name in ["gone", "t-1"] {
        let (code, message) = pinned(json!({"revisionName": name}), json!({})).refuse(&main_only());
        assert_eq!(code, 500);
        assert!(message.contains(name) && message.contains("kruise-system"), "{message}");
    }
    assert!(pinned(json!({"customVersion": "v2"}), json!({})).refuse(&main_only()).1.contains("v2"));
}

#[test]
fn a_revision_without_hashes_gets_them_computed() {
    let mut bare = revision("s-2", 2, "old", json!({}));
    bare["metadata"].as_object_mut().unwrap().remove("annotations");
    let cluster = pinned(json!({"revisionName": "s-2"}), json!({})).apply(Watched::ControllerRevision, &bare);
    assert_eq!(hashes(&cluster.admit(&main_only()))["s"]["hash"].as_str().unwrap().len(), 64);
}

#[test]
fn scenario_19_partial_chooses_by_selector_and_partition() {
    let mut labelled = main_only();
    labelled["metadata"]["labels"]["canary"] = json!("true");
    let canary = json!({"matchLabels": {"canary": "true"}});
    for (update, for_plain, for_labelled) in [
        (json!({"type": "NotUpdate", "selector": canary, "partition": "100%"}), "old", "old"),
        (json!({"type": "NotUpdate", "selector": canary, "partition": "0%"}), "old", "agent:1"),
        (json!({"type": "NotUpdate", "selector": canary, "partition": 5}), "old", "agent:1"),
        (json!({"selector": canary, "partition": 0}), "old", "agent:1"),
        (json!({"selector": canary, "paused": true}), "old", "old"),
        (json!({}), "agent:1", "agent:1"),
    ] {
        let cluster = pinned(json!({"revisionName": "s-2", "policy": "Partial"}), update.clone());
        assert_eq!(image(&cluster.admit(&main_only())), for_plain, "{update}");
        assert_eq!(image(&cluster.admit(&labelled)), for_labelled, "{update}");
    }
    let bad = pinned(json!({"revisionName": "s-2", "policy": "Partial"}), json!({"partition": "many"}));
    assert!(bad.refuse(&main_only()).1.contains("many"));
    let mut half = pinned(json!({"revisionName": "s-2", "policy": "Partial"}), json!({"partition": "50.5%"}));
    let old = (0..1000).filter(|seed| {
        half.seed = *seed;
        image(&half.admit(&main_only())) == "old"
    });
    assert!((400..600).contains(&old.count()));
}

#[test]
fn scenario_20_a_canary_stands_in_for_its_base() {
    let annotations =
        json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "s1"});
    let canary =
        json!({"containers": [agent("c")], "selector": {"matchLabels": {"app": "web", "canary": "yes"}}});
    let cluster =
        Cluster::new().set("s1", json!({"containers": [agent("a")]})).set_with("s2", canary, annotations);
    assert_eq!(containers(&cluster.admit(&main_only())), ["m", "a"]);
    let mut both = main_only();
    both["metadata"]["labels"]["canary"] = json!("yes");
    let admitted = cluster.admit(&both);
    assert_eq!(containers(&admitted), ["m", "c"]);
    assert_eq!(admitted["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"], "s2");
}

#[test]
fn scenario_21_records_of_the_old_form_are_kept() {
    let cluster = Cluster::new().set("s", json!({"containers": [agent("a")]}));
    let mut pod = main_only();
    pod["metadata"]["annotations"] =
        json!({"kruise.io/sidecarset-hash": r#"{"x":"abc"}"#, "kruise.io/sidecarset-injected-list": "x"});
    let admitted = cluster.admit(&pod);
    assert_eq!(
        admitted["metadata"]["annotations"]["kruise.io/sidecarset-hash"],
        format!(
            r#"{{"s":{{"updateTimestamp":"{NOW}","hash":"h","sidecarSetName":"s","sidecarList":["a"],"controllerRevision":"s-1"}},"x":{{"updateTimestamp":null,"hash":"abc","sidecarSetName":"x","sidecarList":null}}}}"#
        )
    );
    assert_eq!(admitted["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"], "s,x");
    pod["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": "garbage"});
    let (code, message) = cluster.refuse(&pod);
    let expected =
        "pod(shop/web-7) invalid annotations[kruise.io/sidecarset-hash] value garbage, unmarshal failed: ";
    assert!(code == 500 && message.starts_with(expected), "{message}");
}

#[test]
fn scenario_22_a_pattern_that_matches_nothing_denies() {
    let mut computed = agent("a");
    computed["resourcesPolicy"] = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^nobody$",
        "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let refusal = Cluster::new().set("s", json!({"containers": [computed.clone()]})).refuse(&main_only());
    assert_eq!(refusal, (500, r#"no containers match the regex pattern "^nobody$""#.to_owned()));
    computed["resourcesPolicy"]["targetContainersNameRegex"] = json!(".*");
    computed["resourcesPolicy"]["resourcesExpr"] = json!({"requests": {"cpu": "cpu*cpu"}});
    assert_eq!(
        Cluster::new().set("s", json!({"containers": [computed]})).refuse(&main_only()).1,
        r#"failed to evaluate CPU requests expression: failed to parse expression "cpu*cpu": multiplication of two quantities"#
    );
}

#[test]
fn a_container_of_the_pod_with_the_name_of_a_sidecar_is_replaced_and_reported() {
    let cluster = Cluster::new().set("s", json!({"containers": [agent("m")]}));
    let (admitted, warnings) =
        cluster.review(&pod(json!([{"name": "x"}, {"name": "m", "image": "mine"}, {"name": "y"}])));
    assert_eq!(containers(&admitted), ["x", "m", "y"]);
    assert_eq!(admitted["spec"]["containers"][1]["image"], "agent:1");
    assert_eq!(warnings, [r#"container "m" of the Pod is replaced by that of SidecarSet s"#]);
    assert_eq!(cluster.review(&admitted), (admitted, Vec::new()));
}

/// A sidecar that takes over what container `log` has.
fn heir(name: &str, mut source: Value) -> Value {
    let mut sidecar = agent(name);
    sidecar["shareVolumePolicy"] = json!({"type": "enabled"});
    sidecar["shareVolumeDevicePolicy"] = json!({"type": "enabled"});
    source["envNames"] = json!(["P", "Q"]);
    sidecar["transferEnv"] = json!([source]);
    sidecar
}

/// Members of a container that sidecars take over.
fn taken(pod: &Value, list: &str, name: &str) -> [Value; 3] {
    let containers = pod["spec"][list].as_array().unwrap();
    let container = containers.iter().find(|container| container["name"] == name).unwrap();
    ["env", "volumeMounts", "volumeDevices"].map(|member| container[member].clone())
}

#[test]
fn what_a_replaced_container_had_is_taken_over() {
    let from_label = json!({"sourceContainerNameFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['source']"}}});
    let from_name = json!({"sourceContainerName": "log"});
    let heir = |name: &str, source: &Value| heir(name, source.clone());
    let cluster = Cluster::new()
        .set("a", json!({"containers": [heir("log", &from_name)]}))
        .set("b", json!({"containers": [heir("proxy", &from_name)], "initContainers": [heir("setup", &from_label)]}))
        .set("c", json!({"containers": [heir("last", &from_label)]}));
    let env = json!([{"name": "P", "value": "1"}, {"name": "Q", "valueFrom": {"x": 1}}, {"name": "R", "value": "3"}]);
    let mounts = json!([{"name": "v", "mountPath": "/v", "subPathExpr": "$(R)"}]);
    let devices = json!([{"name": "d", "devicePath": "/dev/d"}]);
    let log = json!({"name": "log", "env": env, "volumeMounts": mounts, "volumeDevices": devices});
    let mut pod = pod(json!([{"name": "m", "volumeMounts": [{"name": "w", "mountPath": "/w"}]}, log]));
    pod["metadata"]["labels"]["source"] = json!("log");
    let (admitted, _) = cluster.review(&pod);
    assert_eq!(containers(&admitted), ["m", "log", "proxy", "last"]);
    let shared = json!([{"name": "w", "mountPath": "/w"}, mounts[0]]);
    let injected = json!([{"name": "IS_INJECTED", "value": "true"}, env[0], env[1], env[2]]);
    let expected = [injected, shared, devices];
    for (list, name) in
        [("containers", "log"), ("containers", "proxy"), ("containers", "last"), ("initContainers", "setup")]
    {
        assert_eq!(taken(&admitted, list, name), expected, "{name}");
    }
    assert_eq!(cluster.review(&admitted), (admitted.clone(), Vec::new()), "a second review");
    // Without what the first review recorded nothing is known of it any more.
    let key = "kutter.io/sidecarset-replaced-sources";
    let without = json!([{"name": "IS_INJECTED", "value": "true"}]);
    for text in ["", "null", "nonsense", r#"{"log":{}}"#, r#"{"log":1}"#] {
        let mut forgetful = admitted.clone();
        forgetful["metadata"]["annotations"][key] = json!(text);
        assert_eq!(taken(&cluster.admit(&forgetful), "containers", "proxy")[0], without, "{text}");
    }
}

#[test]
fn only_what_is_taken_over_is_recorded() {
    let own = json!({"name": "log", "env": [{"name": "P", "value": "1"}]});
    let recorded = |sets: &[Value], pod: &Value| {
        let add = |cluster: Cluster, (number, set): (usize, &Value)| {
            cluster.set(&format!("s{number}"), set.clone())
        };
        let cluster = sets.iter().enumerate().fold(Cluster::new(), add);
        cluster.admit(pod)["metadata"]["annotations"]["kutter.io/sidecarset-replaced-sources"].clone()
    };
    let replacing = json!({"containers": [agent("log")]});
    let heir = json!({"containers": [heir("proxy", json!({"sourceContainerName": "log"}))]});
    let both = [replacing.clone(), heir.clone()];
    assert_eq!(recorded(&both, &pod(json!([own]))), r#"{"log":{"env":[{"name":"P","value":"1"}]}}"#);
    assert_eq!(recorded(&both, &main_only()), Value::Null, "nothing is replaced");
    assert_eq!(recorded(&[heir], &pod(json!([own]))), Value::Null, "nor here");
    assert_eq!(recorded(&[replacing], &pod(json!([own]))), Value::Null, "nobody takes it over");
}

/// Init containers are no source, whatever replaces them.
#[test]
fn a_replaced_init_container_is_no_source() {
    let from_setup = json!({"sourceContainerName": "setup"});
    let cluster = Cluster::new().set("a", json!({"initContainers": [agent("setup")]})).set(
        "b",
        json!({"containers": [heir("proxy", from_setup.clone())], "initContainers": [heir("later", from_setup)]}),
    );
    let mut pod = main_only();
    pod["spec"]["initContainers"] = json!([{"name": "setup", "env": [{"name": "P", "value": "1"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
    let admitted = cluster.admit(&pod);
    for (list, name) in [("containers", "proxy"), ("initContainers", "later")] {
        let expected = [json!([{"name": "IS_INJECTED", "value": "true"}]), Value::Null, Value::Null];
        assert_eq!(taken(&admitted, list, name), expected, "{name}");
    }
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn two_sets_with_one_container_name_give_one_container_and_are_reported() {
    let mut other = agent("a");
    other["image"] = json!("agent:2");
    let cluster = Cluster::new()
        .set("s1", json!({"containers": [agent("a"), agent("b")]}))
        .set("s2", json!({"containers": [other]}));
    let (admitted, warnings) = cluster.review(&main_only());
    assert_eq!(containers(&admitted), ["m", "a", "b"]);
    assert_eq!(image(&admitted), "agent:2");
    assert_eq!(warnings, [r#"container "a" of SidecarSet s2 replaces that of SidecarSet s1"#]);
    assert_eq!(cluster.admit(&admitted), admitted);
}

#[test]
fn pull_secrets_are_named_once() {
    let cluster = Cluster::new()
        .set("s", json!({"containers": [agent("a")], "imagePullSecrets": [{"name": "x"}, {"name": "y"}]}));
    let mut pod = main_only();
    pod["spec"]["imagePullSecrets"] = json!([{"name": "x", "future": 1}]);
    assert_eq!(
        cluster.admit(&pod)["spec"]["imagePullSecrets"],
        json!([{"name": "x", "future": 1}, {"name": "y"}])
    );
    pod["spec"]["imagePullSecrets"] = json!([{"name": "z"}, {"name": "z"}, {"name": "x"}]);
    assert_eq!(names(&cluster.admit(&pod)["spec"]["imagePullSecrets"]), ["z", "x", "y"]);
}

#[test]
fn sidecars_copied_from_live_pods_do_not_repeat_variables() {
    let mut copied = agent("a");
    copied["env"] = json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "OWN", "value": "1"}, {"name": "SIDECARSET_VERSION", "value": "1"}]);
    copied["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"});
    let admitted = Cluster::new().set("s", json!({"containers": [copied]})).admit(&main_only());
    assert_eq!(
        env_of(&admitted, "a-1"),
        ["OWN", "IS_INJECTED", "SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"]
    );
}

#[test]
fn a_second_review_keeps_the_time_of_the_first() {
    let cluster = Cluster::new().set("s", json!({"containers": [agent("a")]}));
    let first = cluster.admit(&main_only());
    let later = values::moment::Moment { now: "2030-01-01T00:00:00Z".parse().unwrap(), seed: 9 };
    let text = first.to_string();
    let review = Review::begin(create(&text), &cluster.gates, later).unwrap();
    let Verdict::Allow { edits, .. } = review.decide(&cluster.world, &Resolved::default()) else { panic!() };
    let mut second = first.clone();
    let patch: json_patch::Patch = serde_json::from_str(&edits.to_json()).unwrap();
    json_patch::patch(&mut second, &patch).unwrap();
    assert_eq!(second, first);
}

#[test]
fn a_nonsense_selector_denies_only_what_it_could_concern() {
    let nonsense =
        json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "k", "operator": "Near"}]});
    let elsewhere = json!({"matchLabels": {"kubernetes.io/metadata.name": "other"}});
    let set = |namespaces: Value| {
        Cluster::new().set(
            "bad",
            json!({"selector": nonsense, "namespaceSelector": namespaces, "containers": [agent("a")]}),
        )
    };
    let (code, message) = set(Value::Null).refuse(&main_only());
    assert_eq!(code, 500);
    assert!(
        message.contains("bad") && message.contains(r#""Near" is not a valid label selector operator"#),
        "{message}"
    );
    assert_eq!(set(elsewhere).admit(&main_only()), main_only());
    let mut other = main_only();
    other["metadata"]["labels"]["app"] = json!("db");
    assert_eq!(set(Value::Null).admit(&other), other);
}

#[test]
fn containers_that_cannot_be_read_deny_only_the_pods_of_their_set() {
    let cluster = Cluster::new()
        .set("bad", json!({"selector": {"matchLabels": {"app": "db"}}, "containers": [{"name": "b", "env": "nonsense"}]}))
        .set("worse", json!({"selector": {"matchLabels": {"app": "db"}}, "containers": "nonsense"}))
        .set("good", json!({"containers": [agent("a")]}));
    assert_eq!(containers(&cluster.admit(&main_only())), ["m", "a"]);
    let mut concerned = main_only();
    concerned["metadata"]["labels"]["app"] = json!("db");
    let (code, message) = cluster.refuse(&concerned);
    assert!(code == 500 && message.contains("bad") && message.contains("env"), "{message}");
}
