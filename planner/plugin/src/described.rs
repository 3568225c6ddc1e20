//! A Rollout as a page to read (docs/behaviour/kubectl-kruise.md#describe-rollout).

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::Value;

use super::pods::{age, is_revision, list, plain, ready_containers, restarts, state, text};

/// The label of a Pod that says in which step it was updated.
const BATCH: &str = "rollouts.kruise.io/rollout-batch-id";
/// Letters that start and end what is green on a terminal.
const GREEN: (&str, &str) = ("\u{1b}[32m", "\u{1b}[0m");

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The Rollout.
    pub rollout: &'a Value,
    /// The workload that it drives, where it is there.
    pub workload: Option<&'a Value>,
    /// The Pods of the workload.
    pub pods: &'a [Value],
    /// Pods of all steps, instead of the current one.
    pub all: bool,
    /// The current step is green.
    pub colour: bool,
    /// The present time.
    pub now: Timestamp,
}

fn shown(object: &Value, pointers: &[&str]) -> Option<String> {
    pointers.iter().find_map(|pointer| object.pointer(pointer)).filter(|value| !value.is_null()).map(plain)
}

/// A sign before a phase, which says nothing that the phase doesn't say.
fn sign(phase: &str) -> &'static str {
    match phase {
        "Healthy" | "Running" => "✔",
        "Progressing" | "Pending" | "Initial" => "⚠",
        _ => "✘",
    }
}

impl Page<'_> {
    /// The name of the style, its settings, and its status.
    fn style(&self) -> (&'static str, &Value, &Value) {
        let of = |setting: &str, status: &str| {
            (
                self.rollout.pointer(&format!("/spec/strategy/{setting}")),
                self.rollout.pointer(&format!("/status/{status}")),
            )
        };
        let (blue_green, canary) = (of("blueGreen", "blueGreenStatus"), of("canary", "canaryStatus"));
        let (name, (settings, status)) =
            if blue_green.0.is_some() { ("BlueGreen", blue_green) } else { ("Canary", canary) };
        (name, settings.unwrap_or(&Value::Null), status.unwrap_or(&Value::Null))
    }

    /// The page.
    pub fn text(&self) -> String {
        let mut page = String::new();
        let (style, settings, status) = self.style();
        let mut line = |label: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "{label:<19}{value}");
        };
        line("Name:", text(self.rollout, "/metadata/name"));
        line("Namespace:", text(self.rollout, "/metadata/namespace"));
        let number = |pointer: &str| self.rollout.pointer(pointer).and_then(Value::as_i64);
        if number("/status/observedGeneration") == number("/metadata/generation") {
            let phase = text(self.rollout, "/status/phase");
            line("Status:", &format!("{} {phase}", sign(phase)));
            line("Message:", text(self.rollout, "/status/message"));
        }
        line("Strategy:", style);
        let current = status.get("currentStepIndex").and_then(Value::as_u64).unwrap_or(0);
        line(" Step:", &format!("{current}/{}", list(settings, "/steps").count()));
        line(" Steps:", "");
        for (step, index) in list(settings, "/steps").zip(1_u64..) {
            let text = step_lines(step, (index == current).then(|| text(status, "/currentStepState")));
            let (before, behind) = if self.colour && index == current { GREEN } else { ("", "") };
            let _ = writeln!(page, "{before}{}{behind}", text.trim_end());
        }
        routing_lines(&mut page, settings);
        self.workload_lines(&mut page, status);
        condition_lines(&mut page, self.rollout);
        self.pod_lines(&mut page, status, current);
        page
    }

    fn workload_lines(&self, page: &mut String, status: &Value) {
        let workload = self.workload.unwrap_or(&Value::Null);
        let images = list(workload, "/spec/template/spec/containers").map(|one| text(one, "/image"));
        let _ = writeln!(page, "{:<19}{}", "Images:", images.collect::<Vec<_>>().join(", "));
        for (label, member) in
            [("Current Revision:", "stableRevision"), ("Update Revision:", "podTemplateHash")]
        {
            let _ = writeln!(page, "{label:<19}{}", text(status, &format!("/{member}")));
        }
        let _ = writeln!(page, "Replicas:");
        for (label, pointers) in [
            ("Desired", ["/spec/replicas", "/status/desiredNumberScheduled"]),
            ("Updated", ["/status/updatedReplicas", "/status/updatedNumberScheduled"]),
            ("Current", ["/status/replicas", "/status/currentNumberScheduled"]),
            ("Ready", ["/status/readyReplicas", "/status/numberReady"]),
            ("Available", ["/status/availableReplicas", "/status/numberAvailable"]),
        ] {
            let number = shown(workload, &pointers).unwrap_or_else(|| "0".to_owned());
            let _ = writeln!(page, " {:<18}{number}", format!("{label}:"));
        }
    }

    fn pod_lines(&self, page: &mut String, status: &Value, current: u64) {
        let revisions = ["/podTemplateHash", "/stableRevision"].map(|pointer| text(status, pointer));
        let label = |pod: &Value, name: &str| {
            pod.pointer("/metadata/labels")
                .and_then(|labels| labels.get(name)?.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        let revision = |pod: &Value| {
            let hash = label(pod, "pod-template-hash");
            if hash.is_empty() { label(pod, "controller-revision-hash") } else { hash }
        };
        let mut pods: Vec<&Value> = self.pods.iter().collect();
        pods.retain(|pod| revisions.iter().any(|name| is_revision(name, &revision(pod))));
        pods.retain(|pod| self.all || label(pod, BATCH) == current.to_string());
        let batch = |pod: &Value| label(pod, BATCH).parse::<u64>().unwrap_or(0);
        pods.sort_by_key(|pod| {
            let order = (batch(pod), ready_containers(pod).0);
            (std::cmp::Reverse(order), text(pod, "/metadata/name").to_owned())
        });
        if pods.is_empty() {
            page.push_str("Pods:              none\n");
            return;
        }
        let mut rows =
            vec![["NAME", "READY", "BATCH ID", "REVISION", "AGE", "RESTARTS", "STATUS"].map(str::to_owned)];
        rows.extend(pods.into_iter().map(|pod| {
            let (ready, all) = ready_containers(pod);
            [
                text(pod, "/metadata/name").to_owned(),
                format!("{ready}/{all}"),
                label(pod, BATCH),
                revision(pod),
                age(text(pod, "/metadata/creationTimestamp"), self.now),
                restarts(pod).to_string(),
                state(pod).to_owned(),
            ]
        }));
        let mut widths = [0; 7];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            let _ = writeln!(page, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

/// What a step does, and its state where it is the current one.
fn step_lines(step: &Value, state: Option<&str>) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let start = if text.is_empty() { "  -  " } else { "     " };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{start}{label:<14}{value}");
    };
    line("Replicas:", &shown(step, &["/replicas"]).unwrap_or_default());
    let weight = || shown(step, &["/weight"]).map(|weight| format!("{weight}%"));
    if let Some(traffic) = shown(step, &["/traffic"]).or_else(weight) {
        line("Traffic:", &traffic);
    }
    for conditions in list(step, "/matches").map(conditions) {
        conditions.iter().for_each(|condition| line("Matches:", condition));
    }
    if let Some(state) = state {
        line("State:", state);
    }
    text
}

/// What must hold of a request for a match of a step.
fn conditions(matched: &Value) -> Vec<String> {
    let or = |given: &str, default: &str| if given.is_empty() { default } else { given }.to_owned();
    let path = matched
        .get("path")
        .filter(|path| path.is_object())
        .map(|path| format!("Path {}, Type {}", text(path, "/value"), or(text(path, "/type"), "PathPrefix")));
    let named = |pointer: &str, word: &'static str| {
        list(matched, pointer).map(move |one| {
            let kind = or(text(one, "/type"), "Exact");
            format!("{word} {}, Value {}, Type {kind}", text(one, "/name"), text(one, "/value"))
        })
    };
    path.into_iter().chain(named("/headers", "Name")).chain(named("/queryParams", "Query")).collect()
}

fn routing_lines(page: &mut String, settings: &Value) {
    for (number, routing) in list(settings, "/trafficRoutings").enumerate() {
        if number == 0 {
            page.push_str("Traffic Routings:\n");
        }
        let _ = writeln!(page, "  -  {:<14}{}", "Service:", text(routing, "/service"));
        let of = |pointer: &str| text(routing, pointer);
        for (label, value) in [
            ("Ingress:", format!("{} {}", of("/ingress/classType"), of("/ingress/name")).trim().to_owned()),
            ("Gateway:", of("/gateway/httpRouteName").to_owned()),
        ] {
            if !value.is_empty() {
                let _ = writeln!(page, "     {label:<14}{value}");
            }
        }
        for reference in list(routing, "/customNetworkRefs") {
            let of = |pointer: &str| text(reference, pointer);
            let _ =
                writeln!(page, "     {:<14}{} {} {}", "Custom:", of("/apiVersion"), of("/kind"), of("/name"));
        }
    }
    let named = text(settings, "/trafficRoutingRef");
    if !named.is_empty() {
        let _ = writeln!(page, "{:<19}{named}", "Traffic Routing:");
    }
}

fn condition_lines(page: &mut String, rollout: &Value) {
    for (number, condition) in list(rollout, "/status/conditions").enumerate() {
        if number == 0 {
            page.push_str("Conditions:\n");
        }
        let of = |pointer: &str| text(condition, pointer);
        let line = format!(
            " {:<18}{} {} {}",
            format!("{}:", of("/type")),
            of("/status"),
            of("/reason"),
            of("/message")
        );
        let _ = writeln!(page, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn pod(name: &str, batch: &str, hash: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:59:00Z", "labels": {BATCH: batch, "controller-revision-hash": hash}},
            "spec": {"containers": [{}]}, "status": {"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 1}]}})
    }

    #[test]
    fn a_rollout_is_described_with_its_steps_and_pods() {
        let rollout = json!({"metadata": {"name": "web", "namespace": "shop", "generation": 2},
            "spec": {"strategy": {"canary": {"steps": [{"replicas": 1, "traffic": "5%", "matches": [{"headers": [{"name": "user", "value": "a"}]}]}, {"replicas": "50%"}],
                "trafficRoutings": [{"service": "web", "ingress": {"classType": "nginx", "name": "web"}}]}}},
            "status": {"observedGeneration": 2, "phase": "Progressing", "message": "step 1",
                "conditions": [{"type": "Progressing", "status": "True", "reason": "InRolling"}],
                "canaryStatus": {"currentStepIndex": 1, "currentStepState": "StepPaused", "podTemplateHash": "new", "stableRevision": "old"}}});
        let workload = json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": "nginx:2"}]}}}, "status": {"updatedReplicas": 1}});
        let pods = [pod("web-1", "1", "web-new"), pod("web-2", "", "web-old"), pod("stranger", "1", "else")];
        let mut page = Page {
            rollout: &rollout,
            workload: Some(&workload),
            pods: &pods,
            all: false,
            colour: false,
            now: now(),
        };
        let expected = "\
Name:              web
Namespace:         shop
Status:            ⚠ Progressing
Message:           step 1
Strategy:          Canary
 Step:             1/2
 Steps:            
  -  Replicas:     1
     Traffic:      5%
     Matches:      Name user, Value a, Type Exact
     State:        StepPaused
  -  Replicas:     50%
Traffic Routings:
  -  Service:      web
     Ingress:      nginx web
Images:            nginx:2
Current Revision:  old
Update Revision:   new
Replicas:
 Desired:          3
 Updated:          1
 Current:          0
 Ready:            0
 Available:        0
Conditions:
 Progressing:      True InRolling
NAME   READY  BATCH ID  REVISION  AGE   RESTARTS  STATUS
web-1  1/1    1         web-new   1m0s  1         Running
";
        assert_eq!(page.text(), expected);
        page.all = true;
        page.colour = true;
        let text = page.text();
        assert!(text.ends_with("web-2  1/1              web-old   1m0s  1         Running\n"), "{text}");
        assert!(text.contains("\u{1b}[32m  -  Replicas:     1\n"), "{text}");
        assert!(!text.contains("stranger"), "{text}");
    }

    #[test]
    fn steps_of_either_version_show_which_requests_they_lead() {
        assert!(step_lines(&json!({"replicas": 1, "weight": 20}), None).contains("Traffic:      20%\n"));
        let matches = json!([{"path": {"value": "/new"}, "queryParams": [{"name": "q", "value": "1"}]},
            {"path": {"value": "/a", "type": "Exact"}, "headers": [{"name": "user", "value": "a.*", "type": "RegularExpression"}]}]);
        let lines = step_lines(&json!({"matches": matches}), None);
        let conditions: Vec<&str> =
            lines.lines().filter_map(|line| line.strip_prefix("     Matches:      ")).collect();
        let expected = [
            "Path /new, Type PathPrefix",
            "Query q, Value 1, Type Exact",
            "Path /a, Type Exact",
            "Name user, Value a.*, Type RegularExpression",
        ];
        assert_eq!(conditions, expected);
    }
}
