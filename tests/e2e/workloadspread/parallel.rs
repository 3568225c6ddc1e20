//! Quotas hold while several replicas of the program admit Pods at the same time.

use futures::future::join_all;

use super::*;

const PODS: usize = 200;
const QUOTA: i64 = 50;

/// Pods admitted by two replicas in turn, all at once; and the subset of each.
#[tokio::test]
async fn scenarios_3_and_40_no_quota_is_exceeded_by_parallel_creations_through_two_replicas() {
    let field = Field::open("ws-parallel").await;
    let site = site().await;
    let mut other = Product::start(&site.server, product::Options::default()).await;
    other.wait_ready().await;
    let programs =
        [direct_of(&site.server, site.product.port).await, direct_of(&site.server, other.port).await];
    let set = field.create(field.web(CLONESET).replicas(0)).await;
    let mut violations = 0;
    for round in 0..3 {
        let spread = field.divide(field.spread(CLONESET, first(QUOTA))).await;
        // The second replica has its own watch.
        let seen = field.pod_of(&set.object, "seen").build();
        for program in &programs {
            field.wait_offered(program, &seen, "a").await;
        }
        let pods: Vec<Value> = (0..PODS)
            .map(|number| field.pod_of(&set.object, &format!("p{round}-{number}")).build())
            .collect();
        let admitted = pods.iter().zip(programs.iter().cycle());
        let admitted = admitted.map(async |(pod, program)| field.offered(program, pod).await);
        let subsets = join_all(admitted).await;
        let of = |name: &str| subsets.iter().filter(|subset| *subset == name).count() as i64;
        assert_eq!(of("a") + of("b"), PODS as i64, "all have a slot");
        // One slot is that of the Pod by which the replicas were asked.
        violations += (of("a") - (QUOTA - 1)).abs();
        let status = spread.get().await.1["status"].clone();
        let item = &versioned(&status, IGNORED)[0];
        assert_eq!(item["missingReplicas"], 0, "{item}");
        assert_eq!(item["creatingPods"].as_object().unwrap().len() as i64, QUOTA);
        spread.deleted().await;
        spread.gone().await;
        let rival = field.spread(CLONESET, first(QUOTA)).with("/metadata/name", "probe").build();
        wait_for("admission to forget the WorkloadSpread", async || {
            match create(&field.shop.client, rival.clone(), "?dryRun=All").await {
                (201, _) => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }
    println!("figure workloadspread-violations {violations} pods goal 0");
    assert_eq!(violations, 0);
}
