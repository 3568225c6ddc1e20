//! The `/convert` endpoint as a function of the request body
//! (docs/behaviour/api-and-registration.md#the-convert-endpoint).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ConversionError, convert};
use crate::LONGEST_UID;
use crate::raw_object::RawNode;

/// The answer to a request: an HTTP status and a JSON body, empty unless the status is 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// 200, or 400 if the body is no ConversionReview with a request.
    pub status: u16,
    /// The ConversionReview with its response.
    pub body: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion", default)]
    desired_api_version: String,
    #[serde(borrow, default)]
    objects: Option<Vec<&'a RawValue>>,
}

/// Answers a ConversionReview of `apiextensions.k8s.io/v1` or `v1beta1`. Objects are converted in order; the
/// first error fails the review. Takes any bytes.
pub fn answer(body: &[u8]) -> Answer {
    let Ok(Review { api_version, kind, request }) = serde_json::from_slice::<Review<'_>>(body) else {
        return Answer { status: 400, body: Vec::new() };
    };
    let Request { uid, desired_api_version, objects } = request;
    if uid.len() > LONGEST_UID {
        return Answer { status: 400, body: Vec::new() };
    }
    let [kind, api_version, uid] = [kind, api_version, uid].map(|text| RawNode::string(&text));
    let head =
        format!(r#"{{"kind":{kind},"apiVersion":{api_version},"response":{{"uid":{uid},"convertedObjects":"#);
    let answer = match with_objects(&head, body.len(), &objects.unwrap_or_default(), &desired_api_version) {
        Ok(mut answer) => {
            answer.push_str(r#","result":{"status":"Success"}}}"#);
            answer
        }
        Err(error) => {
            let message = RawNode::string(&error.to_string());
            format!(r#"{head}null,"result":{{"status":"Failure","message":{message}}}}}}}"#)
        }
    };
    Answer { status: 200, body: answer.into_bytes() }
}

/// The answer up to and with the converted objects. Each is written as soon as it is converted: of a long
/// list only the text of the question and that of the answer are in memory. `room` bytes are set aside
/// for the objects.
fn with_objects(
    head: &str,
    room: usize,
    objects: &[&RawValue],
    desired_api_version: &str,
) -> Result<String, ConversionError> {
    let mut answer = String::with_capacity(head.len() + room);
    answer.push_str(head);
    answer.push('[');
    for (position, object) in objects.iter().enumerate() {
        if position > 0 {
            answer.push(',');
        }
        answer.push_str(convert(object.get(), desired_api_version)?.get());
    }
    answer.push(']');
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::answer;

    fn ask(body: &Value) -> (u16, Value) {
        let answer = answer(body.to_string().as_bytes());
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn review(version: &str, objects: &Value) -> Value {
        json!({"apiVersion": version, "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": objects}})
    }

    fn job(name: &str, version: &str) -> Value {
        json!({"apiVersion": version, "kind": "BroadcastJob", "metadata": {"name": name}})
    }

    #[test]
    fn objects_are_converted_in_order_and_the_review_echoed() {
        for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
            let alpha = "apps.kruise.io/v1alpha1";
            let (status, answer) = ask(&review(version, &json!([job("a", alpha), job("b", alpha)])));
            let beta = "apps.kruise.io/v1beta1";
            assert_eq!(status, 200);
            let response = json!({"uid": "u-1", "convertedObjects": [job("a", beta), job("b", beta)],
                "result": {"status": "Success"}});
            assert_eq!(
                answer,
                json!({"kind": "ConversionReview", "apiVersion": version, "response": response})
            );
        }
    }

    #[test]
    fn one_failure_fails_the_review() {
        let objects = json!([job("a", "apps.kruise.io/v1alpha1"), job("b", "apps.kruise.io/v1beta1")]);
        let (status, answer) = ask(&review("apiextensions.k8s.io/v1", &objects));
        assert_eq!(status, 200);
        let message = "conversion is not allowed between same type *v1beta1.BroadcastJob";
        let result = json!({"status": "Failure", "message": message});
        assert_eq!(answer["response"], json!({"uid": "u-1", "convertedObjects": null, "result": result}));
    }

    #[test]
    fn a_long_uid_is_not_sent_back() {
        for (length, status) in [(128, 200), (129, 400)] {
            let body = json!({"request": {"uid": "u".repeat(length)}});
            assert_eq!(answer(body.to_string().as_bytes()).status, status, "{length}");
        }
    }

    #[test]
    fn what_is_echoed_is_escaped() {
        let (status, answer) = ask(&json!({"apiVersion": "a\"\n", "kind": "\\k",
            "request": {"uid": "\u{1}\"", "desiredAPIVersion": "\"v\"", "objects": [job("a", "\"x")]}}));
        assert_eq!((status, &answer["apiVersion"], &answer["kind"]), (200, &json!("a\"\n"), &json!("\\k")));
        assert_eq!(answer["response"]["uid"], "\u{1}\"");
        let message = "no kind \"BroadcastJob\" is registered for version \"\"x\"";
        assert_eq!(answer["response"]["result"]["message"], message);
    }

    #[test]
    fn a_body_without_request_is_a_bad_request() {
        for body in
            ["", "{", "null", "[]", "{}", r#"{"kind":"ConversionReview","request":null}"#, r#"{"request":3}"#]
        {
            let answer = answer(body.as_bytes());
            assert_eq!((answer.status, answer.body.len()), (400, 0), "{body}");
        }
    }

    #[test]
    fn no_objects_are_no_error() {
        for objects in [json!([]), json!(null)] {
            let (_, answer) = ask(&review("apiextensions.k8s.io/v1", &objects));
            assert_eq!(answer["response"]["convertedObjects"], json!([]));
        }
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let deep = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
        let object = format!(
            r#"{{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{deep},"spec":{{"updateStrategy":{deep},"scaleStrategy":{{"x":{deep}}}}},"status":{deep}}}"#
        );
        let head = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":["#;
        assert_eq!(answer(format!("{head}{object}]}}}}").as_bytes()).status, 200);
        assert_eq!(answer(deep.as_bytes()).status, 400);
    }
}
