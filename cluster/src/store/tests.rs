use super::*;
use tokio::sync::mpsc::UnboundedReceiver;

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    name: &'static str,
    uid: &'static str,
    version: String,
    groups: Vec<&'static str>,
}

type Things = Store<Thing, &'static str>;

fn empty() -> Things {
    Store::grouped(
        |thing| Identity {
            namespace: "",
            name: thing.name,
            uid: thing.uid,
            resource_version: &thing.version,
        },
        |thing| thing.groups.clone(),
    )
}

fn key(name: &str) -> Key {
    (String::new(), name.to_owned())
}

fn thing(name: &'static str, version: u64) -> Thing {
    Thing { name, uid: name, version: version.to_string(), groups: vec!["all"] }
}

fn version(store: &Things, name: &str) -> Option<String> {
    store.get(&key(name)).map(|thing| thing.version.clone())
}

/// Each change as `name: old -> new`.
fn reported(changes: &mut UnboundedReceiver<Change<Thing>>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(change) = changes.try_recv() {
        let name = change.states().next().unwrap().name;
        let version =
            |state: &Option<Arc<Thing>>| state.as_ref().map_or("-".to_owned(), |it| it.version.clone());
        all.push(format!("{name}: {} -> {}", version(&change.old), version(&change.new)));
    }
    all
}

fn listed(things: impl IntoIterator<Item = Thing>) -> Things {
    let store = empty();
    list(&store, things);
    store
}

fn list(store: &Things, things: impl IntoIterator<Item = Thing>) {
    store.list_begins();
    for thing in things {
        store.apply(thing);
    }
    store.list_ends();
}

#[test]
fn invariant_1_no_reader_sees_a_state_from_before_our_own_write() {
    let store = listed([thing("a", 1)]);
    store.written(thing("a", 5));
    for late in [2, 4, 5] {
        store.apply(thing("a", late));
        assert_eq!(version(&store, "a").unwrap(), "5");
    }
    store.apply(thing("a", 6));
    store.written(thing("a", 5));
    assert_eq!(version(&store, "a").unwrap(), "6");
}

#[test]
fn invariant_2_a_late_answer_does_not_bring_back_what_is_gone() {
    let store = listed([thing("a", 1)]);
    store.delete(&key("a"), "7");
    store.written(thing("a", 5));
    assert_eq!(version(&store, "a"), None);
    // Created later than anything the watch has reported.
    store.written(thing("b", 8));
    assert_eq!(version(&store, "b").unwrap(), "8");
    store.delete(&key("b"), "6");
    assert_eq!(version(&store, "b").unwrap(), "8", "that was an earlier b");
}

#[test]
fn a_patch_brings_back_nothing_that_left_the_watch() {
    let store = listed([thing("a", 1)]);
    store.patched(thing("a", 3));
    store.patched(thing("a", 2));
    assert_eq!(version(&store, "a").unwrap(), "3");
    // Without the label that the watch asks for, it is gone; a patch that was in progress is answered later.
    store.delete(&key("a"), "4");
    store.patched(thing("a", 5));
    assert_eq!(version(&store, "a"), None);
}

#[test]
fn an_answer_about_an_object_does_not_replace_a_later_one_of_its_name() {
    let store = listed([thing("a", 5)]);
    store.delete(&key("a"), "6");
    store.apply(Thing { uid: "later", ..thing("a", 8) });
    for write in [Things::patched, Things::written] {
        write(&store, thing("a", 5));
        assert_eq!(store.get(&key("a")).unwrap().uid, "later");
    }
}

#[test]
fn invariant_3_a_list_is_believed_but_for_what_was_written_meanwhile() {
    let store = listed([thing("kept", 100), thing("gone", 101), thing("written", 102)]);
    store.list_begins();
    store.written(thing("written", 103));
    store.written(thing("created", 104));
    store.apply(thing("kept", 50));
    store.apply(thing("written", 51));
    store.list_ends();
    assert_eq!(version(&store, "kept").unwrap(), "50");
    assert_eq!(version(&store, "gone"), None);
    assert_eq!(version(&store, "written").unwrap(), "103");
    assert_eq!(version(&store, "created").unwrap(), "104");
    store.apply(thing("kept", 52));
    assert_eq!(version(&store, "kept").unwrap(), "52");
}

#[test]
fn a_creation_is_known_though_the_list_has_passed_its_version() {
    let store = listed([]);
    store.list_begins();
    store.apply(thing("first-page", 1003));
    store.written(thing("later-page", 1000));
    store.written(thing("gone-before", 1001));
    store.written(thing("made-after", 1009));
    assert_eq!(version(&store, "later-page").unwrap(), "1000", "no plan is made without it");
    store.apply(thing("later-page", 1000));
    store.list_ends();
    assert_eq!(version(&store, "later-page").unwrap(), "1000");
    assert_eq!(version(&store, "gone-before"), None, "the list would have shown it");
    assert_eq!(version(&store, "made-after").unwrap(), "1009");
}

#[test]
fn what_was_written_is_gone_where_a_later_list_does_not_show_it() {
    let store = listed([thing("gone", 10), thing("kept", 10)]);
    store.list_begins();
    store.written(thing("gone", 20));
    store.apply(thing("kept", 30));
    store.list_ends();
    assert_eq!((version(&store, "gone"), version(&store, "kept")), (None, Some("30".to_owned())));
}

#[test]
fn an_answer_does_not_show_how_far_the_watch_has_come() {
    let store = listed([thing("a", 1)]);
    store.written(thing("a", 9));
    store.deleted(&key("a"), "9");
    assert_eq!(version(&store, "a"), None);
    store.written(thing("b", 8));
    assert_eq!(version(&store, "b").unwrap(), "8", "the watch has not told of it yet");
}

#[test]
fn invariant_4_subscribers_hear_of_every_change_once() {
    let store = listed([thing("a", 1)]);
    let mut changes = store.subscribe();
    store.written(thing("a", 2));
    store.apply(thing("a", 2));
    store.apply(thing("b", 3));
    list(&store, [thing("b", 3), thing("c", 4)]);
    store.delete(&key("c"), "5");
    store.delete(&key("c"), "6");
    assert_eq!(
        reported(&mut changes),
        ["a: - -> 1", "a: 1 -> 2", "b: - -> 3", "c: - -> 4", "a: 2 -> -", "c: 4 -> -"]
    );
    drop(changes);
    store.apply(thing("a", 9));
    assert!(store.lock().subscribers.is_empty());
}

#[test]
fn groups_follow_their_members() {
    let store = listed([thing("a", 1), thing("b", 1)]);
    let members = |group: &'static str| {
        let mut names: Vec<_> = store.group(&group).iter().map(|thing| thing.name).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(members("all"), ["a", "b"]);
    store.apply(Thing { groups: vec!["all", "some"], ..thing("b", 2) });
    assert_eq!((members("all"), members("some")), (vec!["a", "b"], vec!["b"]));
    store.delete(&key("b"), "3");
    assert_eq!((members("all"), members("some")), (vec!["a"], vec![]));
    // A slot that became free is used again.
    store.apply(thing("c", 4));
    assert_eq!(members("all"), ["a", "c"]);
    assert_eq!(store.lock().slots.objects.len(), 2);
}

#[tokio::test]
async fn a_store_is_synced_after_its_first_list() {
    let store = empty();
    store.list_begins();
    assert!(!*store.synced.borrow());
    store.list_ends();
    store.synced().await;
}
