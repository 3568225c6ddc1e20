//! Whether the kubelet starts a container again that has ended: its own rules, else its own policy, else that of its Pod
//! (docs/behaviour/pod-template.md#restarts-of-single-containers).

use serde::Deserialize;

/// An element of a container's `restartPolicyRules`. All actions restart the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    exit_codes: Option<ExitCodes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct ExitCodes {
    operator: Box<str>,
    values: Option<Box<[i32]>>,
}

impl RestartRule {
    /// What a newer kubelet may know counts as a restart: waiting does less harm.
    fn may_restart(&self, exit_code: i32) -> bool {
        let Some(codes) = &self.exit_codes else { return true };
        let is_listed = codes.values.iter().flatten().any(|code| *code == exit_code);
        match &*codes.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => true,
        }
    }
}

/// A container that ended with this code does not run again. `own` is its policy, empty where it has none.
pub(crate) fn ends_for_good(rules: &[RestartRule], own: &str, of_pod: &str, exit_code: i32) -> bool {
    let policy = if own.is_empty() { of_pod } else { own };
    let ends = policy == "Never" || policy == "OnFailure" && exit_code == 0;
    ends && !rules.iter().any(|rule| rule.may_restart(exit_code))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_come_before_the_policies() {
        let rule = |operator: &str| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": [42]}}]);
        let none = json!([]);
        for (rules, own, of_pod, exit_code, expected) in [
            (&none, "", "Never", 1, true),
            (&none, "", "OnFailure", 0, true),
            (&none, "", "OnFailure", 1, false),
            (&none, "", "Always", 0, false),
            (&none, "", "", 0, false),
            (&none, "Never", "Always", 1, true),
            (&none, "OnFailure", "Always", 0, true),
            (&none, "OnFailure", "Never", 1, false),
            (&none, "Always", "Never", 0, false),
            (&rule("In"), "Never", "Always", 42, false),
            (&rule("In"), "Never", "Always", 1, true),
            (&rule("NotIn"), "Never", "Always", 42, true),
            (&rule("NotIn"), "Never", "Always", 1, false),
            (&rule("Near"), "Never", "Always", 1, false),
            (&json!([{"action": "Wait"}]), "Never", "Always", 1, false),
        ] {
            let read: Vec<RestartRule> = serde_json::from_value(rules.clone()).unwrap();
            assert_eq!(
                ends_for_good(&read, own, of_pod, exit_code),
                expected,
                "{rules} {own} {of_pod} {exit_code}"
            );
        }
    }
}
