//! Lists, watches and single objects as HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::request::{Kind, Request, Selection};
use super::store::{Key, Page, Store};
use super::write::Refusal;
use crate::calls::Call;

/// How often a watch tells up to which version it has shown all.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long a watch lasts where it does not say.
const WATCH: u64 = 1800;
/// The largest body that is read.
const LARGEST: usize = 8 << 20;
/// Ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(answer).with_state(shared)
}

async fn answer(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path == "/version" {
        return object(200, &json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0"}));
    }
    let query = head.uri.query().unwrap_or_default();
    let asked = Request::parse(head.method.as_str(), path, query);
    let (verb, resource) = match &asked {
        Some(request) => (request.verb, request.resource()),
        None => ("get", path.to_owned()),
    };
    let answer = match asked {
        Some(request) => respond(&shared, &head, request, body).await,
        None => Err(Refusal::not_found(&(String::new(), path.to_owned()))),
    };
    let response = answer.unwrap_or_else(|refusal| object(refusal.code, &refusal.status()));
    let agent = header(&head, USER_AGENT).to_owned();
    let call = Call { agent, verb: verb.to_owned(), resource, code: response.status().as_u16() };
    *shared.calls.lock().unwrap().entry(call).or_default() += 1;
    response
}

fn header(head: &Parts, name: http::HeaderName) -> &str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn respond(
    shared: &Arc<Shared>,
    head: &Parts,
    request: Request,
    body: Body,
) -> Result<Response, Refusal> {
    let metadata_only = header(head, ACCEPT).contains("as=PartialObjectMetadata");
    match (request.verb, &request.name) {
        ("watch", _) => return Ok(json_response(200, watch(shared, &request, metadata_only)?)),
        ("list", _) => return list(shared, &request, metadata_only),
        ("get", Some(name)) => {
            let key = (request.namespace.clone(), name.clone());
            let known = shared.store.get(&request.kind, &key).filter(|_| request.subresource.is_none());
            return known.map(|json| json_response(200, json.into())).ok_or_else(|| Refusal::not_found(&key));
        }
        _ => {}
    }
    let body = to_bytes(body, LARGEST).await.map_err(|error| Refusal::bad(error.to_string()))?;
    // Events are for people, of whom there are none.
    if request.kind.plural == "events" {
        return Ok(json_response(if request.verb == "create" { 201 } else { 200 }, body.into()));
    }
    if request.verb != "create" || request.name.is_some() {
        let content_type = header(head, CONTENT_TYPE);
        return shared.write(&request, content_type, &body).map(|written| object(200, &written));
    }
    let new = serde_json::from_slice(&body).map_err(|error| Refusal::bad(error.to_string()))?;
    let new = shared.admit(&request, new).await?;
    shared.create(&request, new).map(|created| object(201, &created))
}

fn object(code: u16, object: &Value) -> Response {
    json_response(code, object.to_string().into())
}

fn json_response(code: u16, body: Body) -> Response {
    Response::builder().status(code).header(CONTENT_TYPE, "application/json").body(body).expect("a response")
}

fn list(shared: &Shared, request: &Request, metadata_only: bool) -> Result<Response, Refusal> {
    let limit = request.parameter("limit").and_then(|limit| limit.parse().ok());
    let limit = limit.filter(|&limit| limit > 0).unwrap_or(usize::MAX);
    let begun = request.parameter("continue").filter(|token| !token.is_empty()).map(resume).transpose()?;
    let (version, after) = begun.unzip();
    let page = shared.store.page(&request.kind, &request.selection()?, after, limit);
    Ok(json_response(200, page.render(version, metadata_only).into()))
}

/// What a token says: the version at which the list began, and the last object that was shown.
fn resume(token: &str) -> Result<(u64, Key), Refusal> {
    let mut parts = token.splitn(3, '/');
    let mut next = || parts.next().ok_or_else(Refusal::expired);
    let version = next()?.parse().map_err(|_| Refusal::expired())?;
    Ok((version, (next()?.to_owned(), next()?.to_owned())))
}

impl Page {
    fn render(&self, begun: Option<u64>, metadata_only: bool) -> Vec<u8> {
        let version = begun.unwrap_or(self.version);
        let token = self
            .last
            .as_ref()
            .map(|(namespace, name)| format!("{version}/{namespace}/{name}"))
            .unwrap_or_default();
        let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
        let mut text =
            format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":["#).into_bytes();
        for (number, json) in self.objects.iter().enumerate() {
            if number > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&shown(json, metadata_only));
        }
        text.extend_from_slice(b"]}");
        text
    }
}

/// The object, or its metadata alone.
fn shown(json: &Bytes, metadata_only: bool) -> Bytes {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    if !metadata_only {
        return json.clone();
    }
    let Object { metadata } = serde_json::from_slice(json).expect("what is stored is an object");
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#)
        .into()
}

/// A watch in progress.
struct Watch {
    store: Arc<Store>,
    kind: Kind,
    selection: Selection,
    metadata_only: bool,
    /// All changes up to this version were shown.
    version: u64,
    /// What comes before all changes.
    initial: Option<Vec<u8>>,
    changed: watch::Receiver<()>,
    bookmarks: bool,
    bookmark_at: Instant,
    end: Instant,
    is_over: bool,
}

fn watch(shared: &Shared, request: &Request, metadata_only: bool) -> Result<Body, Refusal> {
    let seconds = request.parameter("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
    let now = Instant::now();
    let mut watch = Watch {
        store: shared.store.clone(),
        kind: request.kind.clone(),
        selection: request.selection()?,
        metadata_only,
        version: 0,
        initial: None,
        changed: shared.store.changed(&request.kind),
        bookmarks: request.is_set("allowWatchBookmarks"),
        bookmark_at: now + BOOKMARKS,
        end: now + Duration::from_secs(seconds.unwrap_or(WATCH)),
        is_over: false,
    };
    match request.parameter("resourceVersion").and_then(|version| version.parse().ok()) {
        Some(version) if version > 0 && !request.is_set("sendInitialEvents") => watch.version = version,
        _ => watch.begin(request.is_set("sendInitialEvents")),
    }
    let events = stream::unfold(watch, |mut watch| async move {
        let events = watch.next().await?;
        Some((Ok::<_, Infallible>(events), watch))
    });
    Ok(Body::from_stream(events))
}

impl Watch {
    /// Begins with what is there.
    fn begin(&mut self, is_streamed_list: bool) {
        let page = self.store.page(&self.kind, &self.selection, None, usize::MAX);
        let mut initial = Vec::new();
        for json in &page.objects {
            self.write("ADDED", json, &mut initial);
        }
        self.version = page.version;
        if is_streamed_list {
            initial.extend(self.bookmark(&BTreeMap::from([(INITIAL_EVENTS_END, "true")])));
        }
        self.initial = Some(initial).filter(|initial| !initial.is_empty());
    }

    /// The next events; none where the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(initial) = self.initial.take() {
            return Some(initial.into());
        }
        while !self.is_over {
            self.changed.borrow_and_update();
            let Some((changes, version)) = self.store.changes(&self.kind, self.version) else {
                self.is_over = true;
                return Some(event("ERROR", &Refusal::expired().status()).into());
            };
            self.version = version;
            let mut events = Vec::new();
            for change in changes.iter().filter(|change| self.selection.matches(&change.key, &change.object))
            {
                self.write(change.what, &change.object, &mut events);
            }
            if !events.is_empty() {
                return Some(events.into());
            }
            tokio::select! {
                changed = self.changed.changed() => self.is_over = changed.is_err(),
                () = sleep_until(self.bookmark_at), if self.bookmarks => {
                    self.bookmark_at += BOOKMARKS;
                    return Some(self.bookmark(&BTreeMap::new()).into());
                }
                () = sleep_until(self.end) => self.is_over = true,
            }
        }
        None
    }

    fn write(&self, what: &str, json: &Bytes, events: &mut Vec<u8>) {
        events.extend_from_slice(format!(r#"{{"type":"{what}","object":"#).as_bytes());
        events.extend_from_slice(&shown(json, self.metadata_only));
        events.extend_from_slice(b"}\n");
    }

    fn bookmark(&self, annotations: &BTreeMap<&str, &str>) -> Vec<u8> {
        let metadata = json!({"resourceVersion": self.version.to_string(), "annotations": annotations});
        event("BOOKMARK", &json!({"kind": "Bookmark", "apiVersion": "v1", "metadata": metadata}))
    }
}

fn event(what: &str, object: &Value) -> Vec<u8> {
    let mut event = json!({"type": what, "object": object}).to_string().into_bytes();
    event.push(b'\n');
    event
}
