//! The webhook of PodUnavailableBudgets (docs/behaviour/podunavailablebudget.md#acceptance-scenarios).

use kit::wait_for;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::product::run_with_input;
use crate::support::{Shop, Stored, create, denied, message, shared};

const WEBHOOK: &str = "vpodunavailablebudget.kb.io";

/// A namespace, once the API server asks about budgets.
async fn open(prefix: &str) -> Shop {
    static REVIEWED: OnceCell<()> = OnceCell::const_new();
    let shop = Shop::open(prefix).await;
    REVIEWED
        .get_or_init(async || {
            wait_for("budgets to be reviewed", async || {
                match create(&shop.client, budget(&shop, "asked", &json!({})), "?dryRun=All").await {
                    (400, _) => Ok(()),
                    (_, answer) => Err(answer),
                }
            })
            .await;
        })
        .await;
    shop
}

fn budget(shop: &Shop, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": name, "namespace": shop.namespace}, "spec": spec,
    })
}

fn targeting(api_version: &str, name: &str) -> Value {
    json!({"targetRef": {"apiVersion": api_version, "kind": "CloneSet", "name": name}, "maxUnavailable": 1})
}

fn selecting(selector: Value) -> Value {
    let mut spec = json!({"maxUnavailable": 1});
    spec["selector"] = selector;
    spec
}

/// The text with which a new budget is refused.
async fn refusal(client: &Client, budget: Value) -> String {
    let answer = create(client, budget, "?dryRun=All").await;
    assert_eq!(answer.0, 400, "{answer:#?}");
    let text =
        message(&answer).strip_prefix(&format!("admission webhook \"{WEBHOOK}\" denied the request: "));
    text.unwrap_or_else(|| panic!("{answer:#?}")).to_owned()
}

/// Scenarios 13 and 14.
#[tokio::test]
async fn annotations_of_v1alpha1_are_fields_of_v1beta1() {
    let shop = open("budget-versions").await;
    let mut old = budget(&shop, "old", &targeting("apps.kruise.io/v1alpha1", "web"));
    old["apiVersion"] = json!("policy.kruise.io/v1alpha1");
    old["metadata"]["annotations"] = json!({
        "kruise.io/pub-protect-operations": "DELETE, EVICT", "pub.kruise.io/protect-total-replicas": "15",
    });
    let old = Stored::create(&shop.client, old).await.in_version("v1beta1").get().await.1;
    assert_eq!(old["spec"]["protectOperations"], json!(["DELETE", "EVICT"]));
    assert_eq!(old["spec"]["protectTotalReplicas"], 15);

    let mut spec = targeting("apps.kruise.io/v1beta1", "db");
    spec["protectOperations"] = json!(["DELETE", "RESIZE"]);
    spec["ignoredPodSelector"] = json!({"matchLabels": {"force": "true"}});
    let new = Stored::create(&shop.client, budget(&shop, "new", &spec)).await;
    let read = new.in_version("v1alpha1").get().await.1;
    assert_eq!(read["metadata"]["annotations"]["kruise.io/pub-protect-operations"], "DELETE,RESIZE");
    // A write through the older version loses nothing.
    new.in_version("v1alpha1").patch(&json!({"spec": {"maxUnavailable": 2}})).await;
    spec["maxUnavailable"] = json!(2);
    assert_eq!(new.get().await.1["spec"], spec);
}

/// Scenario 20.
#[tokio::test]
async fn faults_are_named_in_the_words_of_the_reference() {
    let shop = open("budget-faults").await;
    let target = targeting("apps.kruise.io/v1beta1", "web");
    let with = |over: Value| {
        let mut spec = target.clone();
        for (name, value) in over.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec
    };
    for (spec, text) in [
        (json!({"maxUnavailable": 1}), "no selector or targetRef defined in PodUnavailableBudget"),
        (
            with(json!({"selector": {"matchLabels": {"app": "web"}}})),
            "selector and targetRef are mutually exclusive",
        ),
        (
            with(json!({"maxUnavailable": null})),
            "no maxUnavailable or minAvailable defined in PodUnavailableBudget",
        ),
        (with(json!({"minAvailable": 1})), "maxUnavailable and minAvailable are mutually exclusive"),
        (with(json!({"maxUnavailable": "101%"})), "must not be greater than 100%"),
        (with(json!({"maxUnavailable": -1})), "must be greater than or equal to 0"),
        (selecting(json!({})), "empty selector is not valid for PodUnavailableBudget."),
        (
            with(json!({"ignoredPodSelector": {}})),
            "empty ignoredPodSelector is not valid for PodUnavailableBudget",
        ),
    ] {
        let refusal = refusal(&shop.client, budget(&shop, "faulty", &spec)).await;
        assert!(refusal.contains(text), "{spec}: {refusal}");
    }
    let mut alpha = budget(&shop, "faulty", &target);
    alpha["apiVersion"] = json!("policy.kruise.io/v1alpha1");
    alpha["metadata"]["annotations"] = json!({"kruise.io/pub-protect-operations": "DELETE,KILL"});
    let text =
        "failed to convert v1alpha1 PUB to v1beta1: invalid kruise.io/pub-protect-operations value \"KILL\"";
    assert_eq!(create(&shop.client, alpha, "").await, denied(WEBHOOK, 400, text));
}

/// Scenario 21.
#[tokio::test]
async fn selector_and_target_are_fixed() {
    let shop = open("budget-fixed").await;
    let stored =
        Stored::create(&shop.client, budget(&shop, "web", &targeting("apps.kruise.io/v1alpha1", "web")))
            .await;
    let fixed = "spec.selector, targetRef: Required value: selector and targetRef cannot be modified";
    let other = stored.try_patch(&json!({"spec": {"targetRef": {"name": "db"}}})).await;
    assert_eq!(other, denied(WEBHOOK, 400, fixed));
    let version =
        json!({"spec": {"maxUnavailable": "50%", "targetRef": {"apiVersion": "apps.kruise.io/v1beta1"}}});
    assert_eq!(stored.patch(&version).await["spec"]["maxUnavailable"], "50%");
    let labelled =
        Stored::create(&shop.client, budget(&shop, "db", &selecting(json!({"matchLabels": {"app": "db"}}))))
            .await;
    let other = labelled.try_patch(&json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}})).await;
    assert_eq!(other, denied(WEBHOOK, 400, fixed));
}

/// Scenarios 22 and 23.
#[tokio::test]
async fn budgets_of_a_namespace_must_not_conflict() {
    let (shop, elsewhere) = (open("budget-conflict").await, open("budget-elsewhere").await);
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    Stored::create(&shop.client, budget(&shop, "first", &targeting("apps.kruise.io/v1beta1", "web"))).await;
    Stored::create(&shop.client, budget(&shop, "apps", &selecting(app("web")))).await;
    let any = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]});
    for (spec, other) in [
        (
            targeting("apps.kruise.io/v1alpha1", "web"),
            "pub.spec.targetReference is in conflict with other PodUnavailableBudget first",
        ),
        (selecting(any), "pub.spec.selector is in conflict with other PodUnavailableBudget apps"),
    ] {
        let second = budget(&shop, "second", &spec);
        // The program may not have observed the first one yet.
        wait_for("the conflict to be found", async || {
            match create(&shop.client, second.clone(), "?dryRun=All").await {
                answer @ (400, _) if message(&answer).ends_with(other) => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
        assert_eq!(
            create(&elsewhere.client, budget(&elsewhere, "second", &spec), "?dryRun=All").await.0,
            201
        );
    }
    let narrower = selecting(json!({"matchLabels": {"app": "web", "tier": "x"}}));
    Stored::create(&shop.client, budget(&shop, "narrower", &narrower)).await;
}

/// Scenario 24.
#[tokio::test]
async fn without_the_gates_no_budget_is_stored() {
    let manifest = "{apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget, metadata: {name: web}, \
        spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}}";
    let review =
        async |gates: &str| run_with_input(&["review", "-f", "-", "--feature-gates", gates], manifest).await;
    let refused = review("PodUnavailableBudgetDeleteGate=false").await;
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    let text = "feature PodUnavailableBudget is invalid, please open via \
        feature-gate(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)";
    assert!(
        refused.stderr.contains(text) || refused.stdout.contains(text),
        "{}{}",
        refused.stderr,
        refused.stdout
    );
    assert_eq!(review("").await.status.code(), Some(0));
}

/// Scenario 40.
#[tokio::test]
async fn columns_are_those_of_the_reference() {
    let shop = open("budget-columns").await;
    Stored::create(&shop.client, budget(&shop, "web", &targeting("apps.kruise.io/v1beta1", "web"))).await;
    let shown = shared().await.0.kubectl(["get", "pub", "-n", &shop.namespace]).await.success();
    let head: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["NAME", "ALLOWED", "CURRENT", "DESIRED", "TOTAL"]);
}

/// What a budget answers to a deletion is known from files too.
#[tokio::test]
async fn a_deletion_is_reviewed_offline() {
    let manifest = |left: u32| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1.25"}]}, "status": status,
        });
        let budget = json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "web"},
            "spec": selecting(json!({"matchLabels": {"app": "web"}})),
            "status": {"desiredAvailable": 1, "currentAvailable": 1 + left, "totalReplicas": 2, "unavailableAllowed": left},
        });
        format!("{pod}\n---\n{budget}\n")
    };
    let review = async |left: u32| {
        run_with_input(&["review", "-f", "-", "--operation", "delete"], &manifest(left)).await
    };
    let refused = review(0).await;
    assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
    let text =
        "podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative";
    assert!(
        refused.stderr.contains(text) || refused.stdout.contains(text),
        "{}{}",
        refused.stderr,
        refused.stdout
    );
    assert_eq!(review(1).await.status.code(), Some(0));
}
