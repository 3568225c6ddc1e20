//! Requests that go where an Ingress controller sends them: to a Service as the weight of the canary Ingress says, and to a
//! Pod that is ready behind it. All that comes from watches of the API server, since Pods of fake nodes serve nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::reflector::{Store, reflector, store::Writer};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::traffic::WEIGHT;
use super::*;

/// Between two requests.
const PACE: Duration = Duration::from_millis(5);
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The Service to which a request went, and the image that answered; none where no Pod was ready.
type Answer = (&'static str, Option<String>);

/// Sends requests until it is dropped.
pub(super) struct Requests {
    answers: Arc<Mutex<Vec<Answer>>>,
    _tasks: JoinSet<()>,
}

/// What the controller knows.
struct Network {
    ingresses: Store<DynamicObject>,
    slices: Store<DynamicObject>,
    pods: Store<DynamicObject>,
    /// The images of Pods by name, also of those that are gone: these serve until their endpoints are taken away.
    images: HashMap<String, String>,
    sent: usize,
}

impl Requests {
    /// Begins once a Pod answers.
    pub(super) async fn begin(shop: &Shop) -> Self {
        let mut tasks = JoinSet::new();
        let mut follow = async |api_version, kind| {
            let resource = kit::objects::kind(api_version, kind);
            let objects = kit::objects::namespaced(&shop.client, &resource, &shop.namespace);
            let writer = Writer::new(resource);
            let store = writer.as_reader();
            let events = watcher(objects, watcher::Config::default()).default_backoff();
            tasks.spawn(reflector(writer, events).for_each(async |_| {}));
            store.wait_until_ready().await.unwrap();
            store
        };
        let mut network = Network {
            ingresses: follow("networking.k8s.io/v1", "Ingress").await,
            slices: follow("discovery.k8s.io/v1", "EndpointSlice").await,
            pods: follow("v1", "Pod").await,
            images: HashMap::new(),
            sent: 0,
        };
        wait_for("the first answer", async || match network.send() {
            Some((_, Some(_))) => Ok(()),
            answer => Err(answer),
        })
        .await;
        let answers = Arc::<Mutex<Vec<Answer>>>::default();
        let record = Arc::clone(&answers);
        tasks.spawn(async move {
            let mut pace = interval(PACE);
            loop {
                pace.tick().await;
                record.lock().unwrap().extend(network.send());
            }
        });
        Self { answers, _tasks: tasks }
    }

    /// Waits until an image answers at a Service.
    pub(super) async fn reached(&self, service: &str, image: &str) {
        let begun = self.answers.lock().unwrap().len();
        wait_for("the image to answer", async || {
            let answers = self.answers.lock().unwrap();
            let is_it = |answer: &&Answer| answer.0 == service && answer.1.as_deref() == Some(image);
            if answers[begun..].iter().any(|answer| is_it(&answer)) {
                Ok(())
            } else {
                Err(answers.last().cloned())
            }
        })
        .await;
    }

    /// How the next hundred requests are answered.
    pub(super) async fn hundred(&self) -> BTreeMap<Answer, usize> {
        let begun = self.answers.lock().unwrap().len();
        wait_for("a hundred answers", async || {
            let answers = self.answers.lock().unwrap();
            let next = answers.get(begun..begun + 100).ok_or(answers.len())?;
            let mut counts = BTreeMap::new();
            next.iter().for_each(|answer| *counts.entry(answer.clone()).or_default() += 1);
            Ok::<_, usize>(counts)
        })
        .await
    }

    /// Every request so far was answered, at these Services by these images.
    #[track_caller]
    pub(super) fn assert_all_answered_by(&self, allowed: &[(&str, &str)]) {
        let answers = self.answers.lock().unwrap().clone();
        for (number, (service, image)) in answers.iter().enumerate() {
            let is_allowed = image.as_deref().is_some_and(|image| allowed.contains(&(service, image)));
            assert!(is_allowed, "request {number} of {}: {service} {image:?}", answers.len());
        }
    }
}

impl Network {
    /// Sends one request; none while the watch of Pods is behind that of their endpoints.
    fn send(&mut self) -> Option<Answer> {
        for pod in self.pods.state() {
            let image = pod.data["spec"]["containers"][0]["image"].as_str().unwrap();
            self.images.insert(pod.name_any(), image.to_owned());
        }
        self.sent += 1;
        // Of any hundred requests in a row exactly as many go each way as the weight says.
        let service = if self.sent * 37 % 100 < self.weight() { "web-canary" } else { "web" };
        let ready = self.ready(service);
        if ready.is_empty() {
            return Some((service, None));
        }
        let image = self.images.get(&ready[self.sent % ready.len()])?;
        Some((service, Some(image.clone())))
    }

    /// How many of a hundred requests go to the canary Service.
    fn weight(&self) -> usize {
        let ingresses = self.ingresses.state();
        let canary = ingresses.iter().find(|ingress| ingress.name_any() == "web-canary");
        let weight = canary.and_then(|canary| canary.annotations().get(WEIGHT));
        weight.map_or(0, |weight| weight.parse().unwrap())
    }

    /// The Pods that are ready behind a Service.
    fn ready(&self, service: &str) -> Vec<String> {
        let slices = self.slices.state();
        let own =
            slices.iter().filter(|slice| slice.labels().get(SERVICE_NAME).is_some_and(|of| of == service));
        let endpoints = own.flat_map(|slice| slice.data["endpoints"].as_array().into_iter().flatten());
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        ready.map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap().to_owned()).collect()
    }
}
