use super::*;

/// Scenarios 32 and 40 of docs/behaviour/exit-priority.md.
#[test]
fn exit_priority_has_entries_of_its_own() {
    let server = Server::new();
    let live = server.apply(MUTATING, &empty(MUTATING));
    assert_eq!(names(&live)[..2], ["mpod.kb.io", "mpodexitpriority.kb.io"]);
    let [pods, ordered] = ["mpod.kb.io", "mpodexitpriority.kb.io"].map(|name| entry(&live, name));
    for field in ["namespaceSelector", "objectSelector", "rules", "failurePolicy"] {
        assert_eq!(ordered[field], pods[field], "{field}");
    }
    assert_eq!(ordered["reinvocationPolicy"], "IfNeeded");
    let expression = "has(object.metadata.annotations) && \
                      'kruise.io/container-exit-priority' in object.metadata.annotations";
    assert_eq!(ordered["matchConditions"][0]["expression"], expression);
    let gates = server.gates.clone().with(Feature::ContainerExitPriority, false);
    let off = Server { gates, ..Server::new() };
    for kind in [MUTATING, VALIDATING] {
        let named = |server: &Server| {
            let live = names(&server.apply(kind, &empty(kind)));
            live.iter().filter(|name| name.ends_with("podexitpriority.kb.io")).count()
        };
        assert_eq!((named(&server), named(&off)), (1, 0));
    }
}
