use super::*;

const EXIT: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=True";
const IGNORE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE=true";
const IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE=exit:1";

/// A container: its name, its variables, and its exit code once it has ended.
type Given<'a> = (&'a str, &'a [&'a str], Option<i32>);

fn pod(restart_policy: &str, phase: &str, containers: &[Given<'_>]) -> ObservedPod {
    let spec: Vec<String> = containers
        .iter()
        .map(|(name, variables, _)| {
            let variables = variables.iter().map(|variable| {
                let (name, value) = variable.split_once('=').unwrap();
                format!(r#"{{"name":"{name}","value":"{value}"}}"#)
            });
            let variables = variables.collect::<Vec<_>>().join(",");
            format!(r#"{{"name":"{name}","image":"{name}:1","env":[{variables}]}}"#)
        })
        .collect();
    let statuses: Vec<String> = containers
        .iter()
        .map(|(name, _, exit)| {
            let state = exit.map_or(r#"{"running":{}}"#.to_owned(), |exit| {
                format!(r#"{{"terminated":{{"exitCode":{exit}}}}}"#)
            });
            format!(r#"{{"name":"{name}","state":{state}}}"#)
        })
        .collect();
    ObservedPod::read(&format!(
        r#"{{"metadata":{{"namespace":"jobs","name":"job-x","uid":"u1"}},"spec":{{"restartPolicy":"{restart_policy}","containers":[{}]}},
            "status":{{"phase":"{phase}","containerStatuses":[{}]}}}}"#,
        spec.join(","),
        statuses.join(",")
    ))
    .unwrap()
}

fn planned(pod: &ObservedPod, virtual_node: bool) -> Vec<Action> {
    plan(pod, virtual_node, Timestamp::UNIX_EPOCH)
}

fn request(action: &Action) -> &RecreateRequest {
    match action {
        Action::Recreate(request, _) => request,
        other => panic!("no request: {other:?}"),
    }
}

#[test]
fn a_sidecar_is_killed_once_the_main_container_is_done_however_it_ended() {
    for exit in [0, 1] {
        let pod =
            pod("Never", "Running", &[("main", &[], Some(exit)), ("b", &[EXIT], None), ("a", &[EXIT], None)]);
        let actions = planned(&pod, false);
        let [Action::Recreate(request, event)] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(request.name, "sidecar-termination-u1");
        assert_eq!(
            request.json,
            concat!(
                r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"ContainerRecreateRequest","metadata":{"namespace":"jobs","#,
                r#""name":"sidecar-termination-u1","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"job-x","uid":"u1","controller":true}]},"#,
                r#""spec":{"podName":"job-x","containers":[{"name":"a"},{"name":"b"}],"strategy":{"failurePolicy":"Ignore","forceRecreate":true}}}"#
            )
        );
        assert_eq!(event.message, "Kruise SidecarTerminator is trying to terminate sidecar [a b] using crr");
        assert!(!event.warning && event.reason == "SidecarTerminator");
    }
}

#[test]
fn pods_that_are_not_due_are_left_alone() {
    let main = |exit| ("main", &[][..], exit);
    let sidecar = ("s", &[EXIT][..], None);
    let own = |of_pod: &str, policy: &str, exit| {
        let mut pod = pod(of_pod, "Running", &[main(Some(exit)), sidecar]);
        pod.spec.containers[0].restart_policy = policy.into();
        pod
    };
    assert!(is_due(&own("OnFailure", "Never", 1)));
    for (why, pod) in [
        ("the main container runs", pod("Never", "Running", &[main(None), sidecar])),
        ("the kubelet starts it again", pod("OnFailure", "Running", &[main(Some(1)), sidecar])),
        ("it is no job", pod("Always", "Running", &[main(Some(0)), sidecar])),
        ("its own policy has the kubelet start it again", own("Never", "OnFailure", 1)),
        ("it has not started", pod("Never", "Pending", &[main(Some(0)), sidecar])),
        ("there is no sidecar", pod("Never", "Running", &[main(Some(0))])),
        ("all sidecars have ended", pod("Never", "Running", &[main(Some(0)), ("s", &[EXIT], Some(0))])),
        ("there is nothing but sidecars", pod("Never", "Running", &[sidecar])),
        (
            "an exit code alone makes no sidecar",
            pod("Never", "Running", &[main(Some(0)), ("s", &[IGNORE], None)]),
        ),
    ] {
        assert!(!is_due(&pod) && planned(&pod, false).is_empty() && planned(&pod, true).is_empty(), "{why}");
    }
    let mut leaving = pod("Never", "Running", &[main(Some(0)), sidecar]);
    assert!(is_due(&leaving));
    leaving.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
    assert!(!is_due(&leaving));
    let mut unknown = pod("Never", "Running", &[main(Some(0)), sidecar]);
    unknown.status.container_statuses = unknown.status.container_statuses[..1].into();
    assert!(!is_due(&unknown));
}

#[test]
fn on_failure_waits_for_success() {
    let pod = pod("OnFailure", "Running", &[("main", &[], Some(0)), ("s", &[EXIT], None)]);
    assert_eq!(planned(&pod, false).len(), 1);
}

#[test]
fn an_ignored_exit_code_does_not_decide_the_phase() {
    for (exit, phase) in [(0, "Succeeded"), (3, "Failed")] {
        let mut pod = pod("Never", "Running", &[("main", &[], Some(exit)), ("s", &[EXIT, IGNORE], None)]);
        let actions = planned(&pod, false);
        let [Action::Write(write, None), recreate] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!((write.target, write.phase.as_deref()), (Target::Status, Some(phase)));
        let condition = &write.conditions[0];
        assert_eq!((&*condition.kind, &*condition.status), ("SidecarTerminated", "True"));
        assert_eq!(&*condition.message, "Terminated by Sidecar Terminator");
        assert_eq!(request(recreate).name, "sidecar-termination-u1");
        write.apply(&mut pod);
        assert_eq!(planned(&pod, false), actions[1..], "the phase is written once");
    }
}

#[test]
fn ignored_sidecars_end_after_the_others_with_a_request_of_their_own() {
    let both = |normal| {
        pod(
            "Never",
            "Running",
            &[("main", &[], Some(0)), ("i", &[EXIT, IGNORE], None), ("n", &[EXIT], normal)],
        )
    };
    let first = planned(&both(None), false);
    assert_eq!(first.len(), 1);
    assert!(request(&first[0]).json.contains(r#""containers":[{"name":"n"}]"#));
    let second = planned(&both(Some(137)), false);
    assert!(matches!(&second[0], Action::Write(write, None) if write.phase.as_deref() == Some("Succeeded")));
    let request = request(&second[1]);
    assert_eq!(request.name, "sidecar-termination-u1-ignored");
    assert!(request.json.contains(r#""containers":[{"name":"i"}]"#));
}

#[test]
fn the_phase_waits_for_a_sidecar_that_its_node_cannot_end() {
    let pod = |image_only| {
        pod(
            "Never",
            "Running",
            &[("main", &[], Some(0)), ("i", &[EXIT, IGNORE], None), ("p", &[IMAGE], image_only)],
        )
    };
    let held = planned(&pod(None), false);
    let [Action::Warn(event)] = &held[..] else { panic!("{held:?}") };
    assert!(event.message.starts_with("sidecar [p] can't be terminated"), "{event:?}");
    let free = planned(&pod(Some(0)), false);
    assert!(matches!(&free[..], [Action::Write(..), Action::Recreate(..)]), "{free:?}");
}

#[test]
fn a_virtual_node_gets_the_image_that_ends_once() {
    let mut pod =
        pod("Never", "Running", &[("main", &[], Some(0)), ("s", &[IMAGE], None), ("t", &[IMAGE], Some(0))]);
    let actions = planned(&pod, true);
    let [Action::Write(write, Some(event))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(
        event.message,
        "Kruise SidecarTerminator is trying to terminate sidecar [s] using in-place update"
    );
    write.apply(&mut pod);
    assert_eq!(&*pod.container("s").unwrap().image, "exit:1");
    assert_eq!(&*pod.container("t").unwrap().image, "t:1");
    assert!(planned(&pod, true).is_empty(), "nothing is left to change, so nothing is told");
}

#[test]
fn sidecars_that_cannot_be_ended_on_their_node_give_a_warning() {
    let pod = pod(
        "Never",
        "Running",
        &[("main", &[], Some(0)), ("k", &[EXIT], None), ("p", &[IMAGE], None), ("q", &[EXIT, IMAGE], None)],
    );
    let real = planned(&pod, false);
    assert!(request(&real[0]).json.contains(r#"[{"name":"k"},{"name":"q"}]"#));
    let Action::Warn(event) = &real[1] else { panic!("{real:?}") };
    assert!(
        event.warning
            && event.message.starts_with("sidecar [p] can't be terminated on a node with a kubelet"),
        "{event:?}"
    );
    let virtual_node = planned(&pod, true);
    assert!(matches!(&virtual_node[0], Action::Write(write, _) if write.containers.len() == 2));
    assert!(matches!(&virtual_node[1], Action::Warn(event) if event.message.contains("[k]")));
}
