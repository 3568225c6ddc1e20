use super::*;
use pod::observed::ObservedPod;
use serde_json::json;

fn pod(name: &str, uid: &str, version: &str) -> WatchedObject {
    let metadata = json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": version});
    serde_json::from_str(&json!({"metadata": metadata}).to_string()).unwrap()
}

fn key(name: &str) -> Key {
    ("shop".to_owned(), name.to_owned())
}

/// The versions before and after each change since the last look.
fn told(changes: &mut mpsc::UnboundedReceiver<Change<ObservedPod>>) -> Vec<(String, String)> {
    let version = |pod: &Option<Arc<ObservedPod>>| {
        pod.as_ref().map_or_else(String::new, |pod| pod.metadata.resource_version.to_string())
    };
    let all = std::iter::from_fn(|| changes.try_recv().ok());
    all.map(|change| (version(&change.old), version(&change.new))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
}

#[test]
fn an_older_state_takes_the_place_of_none() {
    let known = Known::<ObservedPod>::default();
    let mut changes = known.subscribe();
    known.list_begins();
    known.see(pod("a", "u", "5"));
    assert!(!known.is_synced());
    known.list_ends();
    assert!(known.is_synced());
    let write = |version: &str| ObservedPod::read(pod("a", "u", version).json()).unwrap();
    known.written(&key("a"), write("9"));
    known.see(pod("a", "u", "7"));
    known.see(pod("a", "u", "9"));
    assert_eq!(told(&mut changes), pairs(&[("", "5"), ("5", "9")]));
    assert_eq!(told(&mut known.subscribe()), pairs(&[("", "9")]));
    known.see(pod("a", "v", "8"));
    known.gone(&pod("a", "v", "10"));
    known.written(&key("a"), write("11"));
    assert_eq!(told(&mut changes), pairs(&[("9", "8"), ("8", "")]));
    assert!(known.get(&key("a")).is_none());
}

#[test]
fn a_late_answer_does_not_bring_an_object_back_whose_name_another_has() {
    let known = Known::<ObservedPod>::default();
    known.see(pod("a", "u", "5"));
    known.gone(&pod("a", "u", "6"));
    known.see(pod("a", "v", "8"));
    known.written(&key("a"), ObservedPod::read(pod("a", "u", "5").json()).unwrap());
    assert_eq!(&*known.get(&key("a")).unwrap().metadata.uid, "v");
}

#[test]
fn a_list_shows_what_there_is() {
    let known = Known::<ObservedPod>::default();
    for name in ["a", "b"] {
        known.see(pod(name, name, "5"));
    }
    let mut changes = known.subscribe();
    told(&mut changes);
    known.list_begins();
    known.see(pod("a", "a", "3"));
    known.list_ends();
    assert_eq!(told(&mut changes), pairs(&[("5", "3"), ("5", "")]));
    assert_eq!(known.select(|pod| &*pod.metadata.name == "a").len(), 1);
}
