//! AdmissionReview: read without a value tree, written by hand into one buffer.

use std::borrow::Cow;
use std::sync::LazyLock;

use api::LONGEST_UID;
use base64::engine::Simd;
use base64::engine::general_purpose::PAD;
use base64::{Engine as _, encoded_len};
use serde::Deserialize;
use serde_json::value::RawValue;
use values::json;
use values::json_patch::write_string;
use values::short::{MESSAGE, NAME, shortened};
use values::verdict::{Denial, Reason, Verdict};

/// Base64 by vector instructions where the processor has them.
static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));

/// The version of `admission.k8s.io` in which a review came and is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1beta1,
}

impl ReviewVersion {
    fn parse(api_version: &str) -> Option<Self> {
        match api_version {
            "admission.k8s.io/v1" => Some(Self::V1),
            "admission.k8s.io/v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// `request` of an AdmissionReview. Objects stay raw, but `object` may be read together with the review
/// around it as an `O`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a, O = &'a RawValue> {
    /// Echoed in the answer. Required: every API server sends it.
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    pub(crate) resource: GroupVersionResource<'a>,
    #[serde(borrow, default)]
    pub(crate) sub_resource: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) operation: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) user_info: UserInfo<'a>,
    pub(crate) object: Option<O>,
    #[serde(borrow)]
    pub(crate) old_object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) options: Option<&'a RawValue>,
    pub(crate) dry_run: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct GroupVersionKind<'a> {
    #[serde(borrow, default)]
    pub(crate) version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) kind: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct GroupVersionResource<'a> {
    #[serde(borrow, default)]
    pub(crate) version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) resource: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct UserInfo<'a> {
    #[serde(borrow, default)]
    pub(crate) username: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, O> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, bound(deserialize = "O: Deserialize<'de>"))]
    request: Option<Request<'a, O>>,
}

/// What can still be said of a review that does not parse as a whole.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow)]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RequestHeader {
    uid: String,
}

/// A review that could be read.
pub(crate) struct Review<'a, O = &'a RawValue> {
    pub(crate) version: ReviewVersion,
    pub(crate) request: Request<'a, O>,
}

/// A review, or something that should have been one, with the answer to give.
pub(crate) struct Unreadable {
    pub(crate) version: Option<ReviewVersion>,
    pub(crate) uid: String,
    pub(crate) denial: Denial,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The code inside the review; the HTTP status is 200 whatever it is.
    pub code: u16,
    /// The AdmissionReview as JSON.
    pub body: Vec<u8>,
}

impl<'a, O: Deserialize<'a>> Review<'a, O> {
    /// Reads an AdmissionReview in one pass; strings and objects borrow from `body`.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Unreadable> {
        if body.is_empty() {
            return Err(Unreadable::anonymous(400, "request body is empty"));
        }
        let text = std::str::from_utf8(body).map_err(|error| {
            Unreadable::anonymous(400, format!("the AdmissionReview is not UTF-8: {error}"))
        })?;
        let envelope: Envelope<'a, O> = json::from_str(text).map_err(|error| {
            Unreadable::with_header(text, format!("the AdmissionReview cannot be read: {error}"))
        })?;
        let Envelope { api_version, kind, request } = envelope;
        let Some(version) = ReviewVersion::parse(&api_version).filter(|_| kind == "AdmissionReview") else {
            return Err(Unreadable::with_header(
                text,
                format!(
                    "unknown review {:?} {:?}: \
                     an AdmissionReview of admission.k8s.io/v1 or admission.k8s.io/v1beta1 is expected",
                    shortened(&api_version, NAME),
                    shortened(&kind, NAME)
                ),
            ));
        };
        match request {
            Some(request) if request.uid.len() > LONGEST_UID => Err(Unreadable::with_header(
                text,
                format!("the uid of the AdmissionReview is longer than {LONGEST_UID} characters"),
            )),
            Some(request) => Ok(Self { version, request }),
            None => Err(Unreadable::with_header(text, "the AdmissionReview has no request".to_owned())),
        }
    }
}

impl Unreadable {
    fn anonymous(code: u16, message: impl Into<String>) -> Self {
        Self { version: None, uid: String::new(), denial: Denial { code, message: message.into() } }
    }

    /// Finds out who asked, where the rest does not parse.
    fn with_header(text: &str, mut message: String) -> Self {
        let (version, uid) = Self::sender(text.as_bytes());
        // It may cite a text of any length.
        message.truncate(message.floor_char_boundary(MESSAGE));
        Self { version, uid, denial: Denial { code: 400, message } }
    }

    /// Version and uid of what should be a review, as far as they can be read.
    pub(crate) fn sender(body: &[u8]) -> (Option<ReviewVersion>, String) {
        let Some(header) =
            std::str::from_utf8(body).ok().and_then(|text| json::from_str::<Header<'_>>(text).ok())
        else {
            return (None, String::new());
        };
        let api_version = header.api_version.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let request = header.request.and_then(|raw| serde_json::from_str::<RequestHeader>(raw.get()).ok());
        let version = api_version.as_deref().and_then(ReviewVersion::parse);
        let uid = request.map(|request| request.uid).filter(|uid| uid.len() <= LONGEST_UID);
        (version, uid.unwrap_or_default())
    }
}

impl Reply {
    /// The answer to a call that is not a review: no uid, no version
    /// (docs/behaviour/server.md#http-of-reviews).
    pub(crate) fn anonymous(code: u16, message: impl Into<String>) -> Self {
        Unreadable::anonymous(code, message).into()
    }

    /// The answer to a review of `version` with `uid`.
    pub(crate) fn new(version: Option<ReviewVersion>, uid: &str, verdict: &Verdict) -> Self {
        let patch = match verdict {
            Verdict::Allow { edits, .. } if !edits.is_empty() => edits.to_json(),
            _ => String::new(),
        };
        let mut json = String::with_capacity(384 + patch.len() * 4 / 3);
        json.push('{');
        if let Some(version) = version {
            json.push_str("\"kind\":\"AdmissionReview\",\"apiVersion\":\"");
            json.push_str(version.api_version());
            json.push_str("\",");
        }
        json.push_str("\"response\":{\"uid\":");
        write_string(&mut json, uid);
        let code = match verdict {
            Verdict::Allow { warnings, .. } => {
                json.push_str(",\"allowed\":true,\"status\":{\"metadata\":{},\"code\":200}");
                write_warnings(&mut json, warnings);
                200
            }
            Verdict::Deny(Denial { code, message }) | Verdict::Refuse(Denial { code, message }, _) => {
                json.push_str(",\"allowed\":false,\"status\":{\"metadata\":{},\"message\":");
                write_string(&mut json, message);
                write_reason(&mut json, verdict);
                json.push_str(",\"code\":");
                json.push_str(&code.to_string());
                json.push('}');
                *code
            }
        };
        let mut body = json.into_bytes();
        if !patch.is_empty() {
            body.extend_from_slice(b",\"patchType\":\"JSONPatch\",\"patch\":\"");
            write_base64(&mut body, patch.as_bytes());
            body.push(b'"');
        }
        body.extend_from_slice(b"}}");
        Self { code, body }
    }
}

/// Appends `bytes` in Base64, which is written into its place in one go.
fn write_base64(body: &mut Vec<u8>, bytes: &[u8]) {
    let start = body.len();
    body.resize(start + encoded_len(bytes.len(), true).unwrap_or_default(), 0);
    let place = body.get_mut(start..).unwrap_or_default();
    // There is room for it, so that it cannot fail.
    let written = BASE64.encode_slice(bytes, place).unwrap_or_default();
    body.truncate(start + written);
}

impl From<Unreadable> for Reply {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(unreadable.version, &unreadable.uid, &Verdict::Deny(unreadable.denial))
    }
}

fn write_reason(json: &mut String, verdict: &Verdict) {
    match verdict {
        Verdict::Refuse(_, Reason::Forbidden) => json.push_str(",\"reason\":\"Forbidden\""),
        Verdict::Refuse(_, Reason::TooManyRequests { retry_after_seconds }) => {
            json.push_str(",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":");
            json.push_str(&retry_after_seconds.to_string());
            json.push('}');
        }
        Verdict::Allow { .. } | Verdict::Deny(_) => {}
    }
}

fn write_warnings(json: &mut String, warnings: &[String]) {
    for (position, warning) in warnings.iter().enumerate() {
        json.push_str(if position == 0 { ",\"warnings\":[" } else { "," });
        write_string(json, warning);
    }
    if !warnings.is_empty() {
        json.push(']');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use values::json_patch::{Patch, Pointer};

    use super::*;

    fn unreadable(body: &str) -> Value {
        match Review::<&RawValue>::parse(body.as_bytes()) {
            Ok(_) => panic!("{body} was read"),
            Err(unreadable) => serde_json::from_slice(&Reply::from(unreadable).body).unwrap(),
        }
    }

    #[test]
    fn strings_and_objects_are_borrowed() {
        let body = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":
            {"uid":"u","operation":"DELETE","object":null,"oldObject":{"a":1.50},"options":{},"dryRun":true}}"#;
        let Ok(review) = Review::<&RawValue>::parse(body.as_bytes()) else { panic!("not read") };
        assert_eq!(review.version, ReviewVersion::V1beta1);
        assert!(matches!(review.request.uid, Cow::Borrowed("u")));
        assert!(matches!(review.request.operation, Cow::Borrowed("DELETE")));
        assert!(review.request.object.is_none());
        assert_eq!(review.request.old_object.map(RawValue::get), Some(r#"{"a":1.50}"#));
        assert_eq!(review.request.dry_run, Some(true));
    }

    #[test]
    fn an_empty_body_is_answered_without_version_and_uid() {
        assert_eq!(
            unreadable(""),
            json!({"response": {"uid": "", "allowed": false,
                "status": {"metadata": {}, "message": "request body is empty", "code": 400}}})
        );
    }

    #[test]
    fn the_uid_survives_what_cannot_be_read() {
        let wrong_type = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","namespace":7}}"#;
        let answer = unreadable(wrong_type);
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        let unknown =
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v7","request":{"uid":"u"}}"#;
        let answer = unreadable(unknown);
        assert_eq!(answer["response"]["uid"], "u");
        assert!(answer.get("apiVersion").is_none());
    }

    #[test]
    fn a_long_uid_is_refused_and_not_sent_back() {
        let review = |uid: &str| {
            format!(
                r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{uid}"}}}}"#
            )
        };
        assert!(Review::<&RawValue>::parse(review(&"u".repeat(128)).as_bytes()).is_ok());
        for body in [review(&"u".repeat(129)), review(&"u".repeat(129)).replace("/v1", &"v".repeat(50_000))] {
            let answer = unreadable(&body);
            assert_eq!(
                (&answer["response"]["uid"], &answer["response"]["status"]["code"]),
                (&json!(""), &json!(400))
            );
            assert!(answer.to_string().len() < 2000, "{answer}");
        }
        let wrong =
            format!(r#"{{"request":{{"uid":"u","namespace":"","dryRun":"{}"}}}}"#, "a".repeat(50_000));
        assert!(unreadable(&wrong).to_string().len() < 2000);
    }

    #[test]
    fn a_review_without_request_says_so() {
        for request in ["", r#","request":null"#] {
            let body = format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"{request}}}"#);
            let answer = unreadable(&body);
            assert_eq!(answer["response"]["status"]["message"], "the AdmissionReview has no request");
            assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
        }
    }

    #[test]
    fn lists_are_not_taken_for_objects() {
        unreadable("[]");
        unreadable(r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}"#);
    }

    #[test]
    fn a_refusal_carries_its_reason() {
        let refused = |reason| {
            let denial = Denial { code: 403, message: "no".to_owned() };
            let reply = Reply::new(Some(ReviewVersion::V1), "u", &Verdict::Refuse(denial, reason));
            serde_json::from_slice::<Value>(&reply.body).unwrap()["response"]["status"].clone()
        };
        let status = |reason: &str| json!({"metadata": {}, "message": "no", "reason": reason, "code": 403});
        assert_eq!(refused(Reason::Forbidden), status("Forbidden"));
        let mut later = status("TooManyRequests");
        later["details"] = json!({"retryAfterSeconds": 10});
        assert_eq!(refused(Reason::TooManyRequests { retry_after_seconds: 10 }), later);
    }

    #[test]
    fn patch_and_warnings_are_written() {
        let mut edits = Patch::default();
        edits.add(Pointer::root().key("a"), "1.50");
        let verdict = Verdict::Allow { edits, warnings: vec!["one".to_owned(), "two \"2\"".to_owned()] };
        let reply = Reply::new(Some(ReviewVersion::V1), "u\"1", &verdict);
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        let patch = BASE64.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(patch, br#"[{"op":"add","path":"/a","value":1.50}]"#);
        assert_eq!(answer["response"]["warnings"], json!(["one", "two \"2\""]));
        assert_eq!(answer["response"]["uid"], "u\"1");
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        assert_eq!(answer["response"]["status"]["code"], 200);
    }
}
