use super::*;
use serde_json::json;

fn copy(source: &str, users: &str) -> Arc<Pass> {
    let annotations =
        json!({"imagepulljobs.kruise.io/source-key": source, "imagepulljobs.kruise.io/references": users});
    let name = source.replace('/', "-");
    let metadata = json!({"namespace": "config", "name": name, "annotations": annotations});
    Arc::new(Pass::of_secret(&json!({"metadata": metadata, "type": "Opaque"}).to_string()))
}

fn plain() -> Arc<Pass> {
    let metadata = json!({"namespace": "config", "name": "plain"});
    Arc::new(Pass::of_secret(&json!({"metadata": metadata, "type": "Opaque"}).to_string()))
}

fn owner(kind: &str, namespace: &str, name: &str) -> ObjectReference {
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    ObjectReference { kind, namespace, name, ..ObjectReference::default() }
}

fn job(namespace: &str, name: &str) -> ObjectReference {
    owner(KIND, namespace, name)
}

fn found(owners: &[ObjectReference], passes: &[Arc<Pass>]) -> Vec<(String, String)> {
    let pull_groups = pull_groups(owners, passes);
    let words = |pull_group: PullGroup| {
        (pull_group.owners.join(" "), pull_group.sources().into_iter().collect::<Vec<_>>().join(" "))
    };
    pull_groups.into_iter().map(words).collect()
}

fn pairs<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[test]
fn credentials_belong_to_the_jobs_that_brought_them() {
    let passes = [copy("shop/pull", "shop/a,shop/b"), copy("bank/pull", "bank/a"), plain()];
    let owners = [job("shop", "a"), job("bank", "a"), job("shop", "b"), job("shop", "c"), job("bank", "b")];
    let expected = [("shop/a shop/b", "shop/pull"), ("bank/a", "bank/pull"), ("shop/c bank/b", "")];
    assert_eq!(found(&owners, &passes), pairs(&expected));
    // What was put beside the agents by hand serves tasks by hand, and jobs of that namespace.
    assert_eq!(found(&[], &passes), pairs(&[("", "config/plain")]));
    let others = [job("config", "a"), owner("Other", "shop", "a")];
    assert_eq!(found(&others, &passes), pairs(&[("config/a shop/a", "config/plain")]));
}

#[test]
fn a_broken_secret_is_an_error_of_its_own_party() {
    let annotations = json!({"imagepulljobs.kruise.io/source-key": "bank/pull", "imagepulljobs.kruise.io/references": "bank/a"});
    let metadata = json!({"namespace": "config", "name": "broken", "annotations": annotations});
    let secret =
        json!({"metadata": metadata, "type": "kubernetes.io/dockercfg", "data": {".dockercfg": "?"}});
    let passes = [copy("shop/pull", "shop/a"), Arc::new(Pass::of_secret(&secret.to_string()))];
    let pull_groups = pull_groups(&[job("shop", "a"), job("bank", "a")], &passes);
    let errors: Vec<Option<String>> =
        pull_groups.iter().map(|pull_group| pull_group.keyring().err()).collect();
    let error = "Secret config/broken can't be used: its value is not base64".to_owned();
    assert_eq!(errors, [None, Some(error)]);
}

#[test]
fn a_copy_may_have_another_user_since_it_was_read() {
    let pass = copy("shop/pull", "shop/a");
    assert!(pass.may_be_outdated(&[job("shop", "a"), job("shop", "b")]));
    assert!(!pass.may_be_outdated(&[job("shop", "a"), job("bank", "b")]));
    assert!(!plain().may_be_outdated(&[job("config", "a")]));
}

#[test]
fn an_image_that_came_with_credentials_is_there_for_those_who_have_them() {
    let passes = [copy("shop/pull", "shop/a"), copy("bank/pull", "bank/a")];
    let pull_groups = pull_groups(&[job("shop", "a"), job("bank", "a"), job("shop", "c")], &passes);
    let mut private = Private::default();
    assert!(!private.knows("1"));
    private.came("1", &pull_groups[0]);
    let admitted = |private: &Private| -> Vec<bool> {
        pull_groups.iter().map(|pull_group| private.admits("1", pull_group)).collect()
    };
    assert_eq!((private.knows("1"), admitted(&private)), (true, vec![true, false, false]));
    private.came("1", &pull_groups[1]);
    assert_eq!(admitted(&private), [true, true, false]);
    private.keep(|id| id == "1");
    assert!(private.knows("1"));
    private.is_public("1");
    assert!(!private.knows("1"));
    private.came("2", &pull_groups[1]);
    private.keep(|id| id == "1");
    assert!(!private.knows("2"));
}
