//! The whole cluster at an API server in memory.

use std::path::Path;
use std::process::Command;

use benches::in_memory::ApiServer;
use benches::report::progress;
use kit::builders::object;
use serde_json::{Value, json};

use crate::Run;
use crate::copies;
use crate::rollout;
use crate::stand::Stand;
use crate::traffic::Traffic;

/// How many units there are unless the command line tells otherwise.
const UNITS: u32 = 200;
const INSTALL_NAMESPACE: &str = "kruise-system";
const SERVICE: &str = "kruise-webhook-service";

/// Measures everything.
pub(crate) async fn measure(arguments: &Run) {
    let server = Installed::start(&arguments.kutter).await;
    let alone = server.stand(arguments).alone().await;
    drop(server);

    let server = Installed::start(&arguments.kutter).await;
    let stand = server.stand(arguments);
    copies::fill(&server.server, &stand).await;
    progress("the program takes the copies over: hashes of names differ");
    let program = stand.program("second");
    stand.wait_filled(&program).await;
    program.wait_quiet().await;
    program.stop();

    let leader = stand.replicas().await;
    let _nodes = rollout::nodes(&stand.client).await;
    let _traffic = Traffic::start(&server.server);
    stand.among(leader, &alone).await;
}

/// An API server for which the program is installed.
struct Installed {
    server: ApiServer,
    port: u16,
}

impl Installed {
    async fn start(kutter: &Path) -> Self {
        let port = kit::api_server::free_port();
        let server = ApiServer::start(Some(port)).await;
        for definition in definitions(kutter) {
            server.put(definition);
        }
        for namespace in [INSTALL_NAMESPACE, "kruise-daemon-config", "kube-node-lease"] {
            server.put(object("v1", "Namespace", namespace));
        }
        let ports = json!([{"name": "https", "port": 443, "targetPort": port}]);
        let service = object("v1", "Service", SERVICE).in_namespace(INSTALL_NAMESPACE);
        server.put(service.with("/spec", json!({"clusterIP": "127.0.0.1", "ports": ports})));
        let slice = object("discovery.k8s.io/v1", "EndpointSlice", SERVICE).in_namespace(INSTALL_NAMESPACE);
        let endpoint = json!({"addresses": ["127.0.0.1"], "conditions": {"ready": true}});
        server.put(
            slice
                .label("kubernetes.io/service-name", SERVICE)
                .with("/addressType", "IPv4")
                .with("/ports", json!([{"name": "https", "port": port, "protocol": "TCP"}]))
                .with("/endpoints", json!([endpoint])),
        );
        Self { server, port }
    }

    fn stand<'a>(&'a self, arguments: &'a Run) -> Stand<'a> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Stand {
            name: "scale",
            memory: [250.0, 60.0],
            units: arguments.units.unwrap_or(UNITS),
            client: self.server.client(),
            kubeconfig: self.server.kubeconfig(directory.path()),
            port: self.port,
            calls: Box::new(|| self.server.calls()),
            arguments,
            directory,
        }
    }
}

/// The definitions of the program's kinds, as an API server has them that serves them.
fn definitions(kutter: &Path) -> Vec<Value> {
    let output = Command::new(kutter).arg("crds").output().expect("kutter runs");
    assert!(output.status.success(), "kutter crds failed");
    let text = String::from_utf8(output.stdout).expect("YAML");
    let definitions = text.split("---\n").skip(1);
    let definitions = definitions.map(|text| serde_saphyr::from_str::<Value>(text).expect("YAML"));
    definitions
        .map(|mut definition| {
            let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
            let stored = versions.filter(|version| version["storage"] == true);
            let stored: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
            let conditions =
                ["NamesAccepted", "Established"].map(|kind| json!({"type": kind, "status": "True"}));
            let names = definition["spec"]["names"].clone();
            definition["status"] =
                json!({"storedVersions": stored, "conditions": conditions, "acceptedNames": names});
            definition
        })
        .collect()
}
