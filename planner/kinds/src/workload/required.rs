//! Members that a schema requires and an author left out: OpenKruise reads objects into Go types before the schema is
//! checked, and so writes the empty values of these members
//! (docs/behaviour/api-and-registration.md#required-members-that-are-left-out).

use api::schema::{Demand, demand_of_spec};
use serde_json::Value;

use values::json_patch::{Patch, Pointer};

/// Puts what is required of the spec of this kind, and is not there, into the object and the patch. `null` counts as
/// absent, and as the empty value in a list.
pub(super) fn fill(object: &mut Value, kind: &str, patch: &mut Patch) {
    let version = object.get("apiVersion").and_then(Value::as_str);
    let demand = version.and_then(|version| demand_of_spec(kind, version));
    if let (Some(demand), Some(spec)) = (demand, object.get_mut("spec")) {
        fill_below(spec, demand, &Pointer::root().key("spec"), patch);
    }
}

fn fill_below(value: &mut Value, demand: &Demand, pointer: &Pointer, patch: &mut Patch) {
    match value {
        Value::Object(members) => {
            for (name, demand) in &demand.members {
                let is_absent = members.get(&**name).is_none_or(Value::is_null);
                if let Some(empty) = demand.empty.filter(|_| is_absent && demand.is_required) {
                    members.insert(name.to_string(), serde_json::from_str(empty).unwrap_or_default());
                    patch.add(pointer.key(name), empty);
                }
                if let Some(member) = members.get_mut(&**name) {
                    fill_below(member, demand, &pointer.key(name), patch);
                }
            }
            if let Some(each) = &demand.each {
                for (name, member) in members {
                    fill_below(member, each, &pointer.key(name), patch);
                }
            }
        }
        Value::Array(elements) => {
            let Some(each) = &demand.each else { return };
            for (index, element) in elements.iter_mut().enumerate() {
                let pointer = pointer.index(index);
                if let Some(empty) = each.empty.filter(|_| element.is_null()) {
                    *element = serde_json::from_str(empty).unwrap_or_default();
                    patch.replace(pointer.clone(), empty);
                }
                fill_below(element, each, &pointer, patch);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use values::json_patch::apply;

    /// The spec with what is required, and the text that the patch makes of it.
    fn filled(kind: &str, version: &str, spec: &Value) -> Value {
        let object = json!({"apiVersion": format!("apps.kruise.io/{version}"), "spec": spec});
        let (mut value, mut patch) = (object.clone(), Patch::default());
        fill(&mut value, kind, &mut patch);
        let patched: Value = serde_json::from_str(&apply(&object.to_string(), &patch).unwrap()).unwrap();
        assert_eq!(patched, value);
        value["spec"].take()
    }

    #[test]
    fn what_is_left_out_gets_its_empty_value() {
        let strategy = |scatter: Value, weights: Value| json!({"updateStrategy": {"scatterStrategy": scatter, "priorityStrategy": {"weightPriority": weights}}});
        let sent =
            strategy(json!([{"key": "zone"}, null, {"key": "a", "value": "b"}]), json!([{"weight": null}]));
        let expected = strategy(
            json!([{"key": "zone", "value": ""}, {"key": "", "value": ""}, {"key": "a", "value": "b"}]),
            json!([{"weight": 0, "matchSelector": {}}]),
        );
        assert_eq!(filled("SidecarSet", "v1beta1", &sent), expected);
        assert_eq!(filled("CloneSet", "v1alpha1", &sent), expected);
        let united = |spec: &Value| json!({"template": {"cloneSetTemplate": {"spec": spec}}});
        assert_eq!(filled("UnitedDeployment", "v1alpha1", &united(&sent)), united(&expected));
    }

    #[test]
    fn null_in_a_list_of_texts_is_an_empty_text() {
        let hook = |finalizers: Value| json!({"lifecycle": {"preDelete": {"finalizersHandler": finalizers}}});
        assert_eq!(filled("CloneSet", "v1beta1", &hook(json!(["a", null]))), hook(json!(["a", ""])));
    }

    #[test]
    fn members_below_what_is_filled_in_are_there_too() {
        let images = json!({"images": {"a/b": {"tags": [{}]}}});
        assert_eq!(
            filled("NodeImage", "v1beta1", &images),
            json!({"images": {"a/b": {"tags": [{"tag": ""}]}}})
        );
        let cron = json!({"schedule": "@daily"});
        assert_eq!(
            filled("AdvancedCronJob", "v1beta1", &cron),
            json!({"schedule": "@daily", "template": {}})
        );
    }

    #[test]
    fn what_has_no_empty_value_stays_away() {
        for (kind, spec) in [
            ("CloneSet", json!({"replicas": 1})),
            ("ImageListPullJob", json!({"completionPolicy": {}})),
            ("SidecarSet", json!({"containers": [{"resourcesPolicy": {"resourcesExpr": {}}}]})),
            ("CloneSet", json!({"updateStrategy": 7, "lifecycle": []})),
        ] {
            assert_eq!(filled(kind, "v1beta1", &spec), spec);
            assert_eq!(filled(kind, "v2", &spec), spec);
        }
    }
}
