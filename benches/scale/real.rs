//! A tenth of the cluster at etcd and kube-apiserver, where the program makes all of it.

use benches::report::progress;
use benches::stand;

use crate::Run;
use crate::stand::Stand;

/// How many units there are unless the command line tells otherwise.
const UNITS: u32 = 20;

/// Measures everything.
pub(crate) async fn measure(arguments: &Run) {
    let server = stand::Stand::start(&arguments.kutter).await;
    let alone = at(&server, arguments).alone().await;
    drop(server);

    let server = stand::Stand::start(&arguments.kutter).await;
    let stand = at(&server, arguments);
    // Their kubelets renew Leases to the end, and run the Pods of the rollout too.
    let _nodes = stand.settle(stand.units).await;
    progress("all units are settled");
    let leader = stand.replicas().await;
    stand.among(leader, &alone).await;
}

fn at<'a>(server: &'a stand::Stand, arguments: &'a Run) -> Stand<'a> {
    Stand {
        name: "scale-real",
        memory: [60.0, 40.0],
        units: arguments.units.unwrap_or(UNITS),
        client: server.server().client(),
        kubeconfig: server.server().kubeconfig().to_owned(),
        port: server.port(),
        calls: Box::new(|| server.all_calls()),
        arguments,
        directory: tempfile::tempdir().expect("a temporary directory"),
    }
}
