use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use kit::double::{self, Objects, Request, Requests, api_server, conflict, status};
use serde_json::{Value, json};
use values::reservation::Reserved;

use super::*;
use crate::resource::Resource;

const OBJECT: &str = "/apis/a/v1/namespaces/shop/budgets/web";

/// Notes names of claims in the status, as long as units are left.
struct Units;

#[derive(Clone)]
struct Claim {
    name: String,
    is_dry: bool,
}

impl Reservable for Units {
    type Claim = Claim;
    type Answer = bool;

    fn reserve(&self, object: &str, claims: &[Claim], _: Timestamp) -> Reserved<bool> {
        let object: Value = serde_json::from_str(object).unwrap();
        let mut left = object["status"]["left"].as_u64().unwrap();
        let mut taken = object["status"]["taken"].as_object().cloned().unwrap_or_default();
        let mut changed = false;
        let answers = claims.iter().map(|claim| {
            if taken.contains_key(&claim.name) {
                return true;
            }
            if left > 0 && !claim.is_dry {
                left -= 1;
                changed = true;
                taken.insert(claim.name.clone(), json!(true));
                return true;
            }
            left > 0
        });
        let answers = answers.collect();
        let version = &object["metadata"]["resourceVersion"];
        let patch =
            json!({"metadata": {"resourceVersion": version}, "status": {"left": left, "taken": taken}});
        Reserved { patch: changed.then(|| patch.to_string()), answers }
    }

    fn is_refusal(granted: &bool) -> bool {
        !granted
    }
}

fn path() -> Path {
    Resource::new("a/v1", "budgets", "Budget").namespaced("shop").name("web")
}

fn claim(number: usize) -> Claim {
    Claim { name: format!("pod-{number}"), is_dry: false }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// An API server with a budget of so many units.
fn budget(left: u64) -> (Objects, Raw) {
    let objects = Objects::default();
    let stored = objects.put(OBJECT, json!({"metadata": {"name": "web"}, "status": {"left": left}}));
    (objects, Raw::parse(stored.to_string()).unwrap())
}

fn replica(objects: &Objects) -> (Reservations<Units>, Requests) {
    let objects = objects.clone();
    replica_of(move |request| objects.answer(&request))
}

fn replica_of(
    answer: impl Fn(Request<'_>) -> (u16, String) + Clone + Send + 'static,
) -> (Reservations<Units>, Requests) {
    let (client, requests) = api_server(answer);
    (Reservations::new(Some(client), Units), requests)
}

fn methods(requests: &Requests) -> Vec<String> {
    let requests = std::mem::take(&mut *requests.lock().unwrap());
    requests.iter().map(|request| request.split(' ').next().unwrap().to_owned()).collect()
}

fn taken(objects: &Objects) -> usize {
    objects.get(OBJECT).unwrap()["status"]["taken"].as_object().map_or(0, serde_json::Map::len)
}

async fn claims(
    replica: &Reservations<Units>,
    watched: &Raw,
    numbers: impl IntoIterator<Item = usize>,
) -> Vec<bool> {
    let path = path();
    let all =
        numbers.into_iter().map(|number| replica.claim(&path, Some(watched.clone()), claim(number), soon()));
    join_all(all).await.into_iter().map(|outcome| outcome.unwrap().unwrap()).collect()
}

fn granted(answers: &[bool]) -> usize {
    answers.iter().filter(|granted| **granted).count()
}

#[tokio::test(start_paused = true)]
async fn a_claim_costs_one_write_and_no_read() {
    let (objects, watched) = budget(3);
    let (replica, requests) = replica(&objects);
    for number in 0..3 {
        // The watch lags behind: the answer to the last write is newer.
        assert_eq!(claims(&replica, &watched, [number]).await, [true]);
        assert_eq!(methods(&requests), ["PATCH"]);
    }
    assert_eq!(claims(&replica, &watched, [2]).await, [true], "taken already");
    assert_eq!(methods(&requests), ["GET"]);
    assert_eq!(claims(&replica, &watched, [3]).await, [false]);
    assert_eq!(methods(&requests), ["GET"], "nothing is refused on what was known before");
}

#[tokio::test(start_paused = true)]
async fn claims_at_the_same_time_share_their_writes() {
    let (objects, watched) = budget(5);
    let (replica, requests) = replica(&objects);
    let answers = claims(&replica, &watched, 0..60).await;
    assert_eq!((granted(&answers), taken(&objects)), (5, 5));
    assert_eq!(methods(&requests), ["GET", "PATCH"]);
}

#[tokio::test(start_paused = true)]
async fn replicas_never_give_out_more_than_there_is() {
    let (objects, watched) = budget(50);
    let replicas: Vec<_> = (0..3).map(|_| replica(&objects)).collect();
    let each = replicas.iter().enumerate().map(|(replica, (reservations, _))| {
        let watched = &watched;
        async move {
            let mut granted = 0;
            for round in 0..10 {
                let first = replica * 100 + round * 10;
                let answers = claims(reservations, watched, first..first + 10).await;
                granted += self::granted(&answers);
            }
            granted
        }
    });
    let granted: usize = join_all(each).await.into_iter().sum();
    assert_eq!((granted, taken(&objects)), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn a_trial_takes_nothing() {
    let (objects, watched) = budget(1);
    let (replica, requests) = replica(&objects);
    let trial = || Claim { is_dry: true, ..claim(9) };
    let path = path();
    let answer = replica.claim(&path, Some(watched.clone()), trial(), soon()).await.unwrap();
    assert_eq!((answer, taken(&objects)), (Some(true), 0));
    assert_eq!(methods(&requests), ["GET"]);
    claims(&replica, &watched, [0]).await;
    let answer = replica.claim(&path, Some(watched), trial(), soon()).await.unwrap();
    assert_eq!((answer, taken(&objects)), (Some(false), 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_not_repeated() {
    let (objects, watched) = budget(5);
    for acts in [true, false] {
        let lost = Arc::new(AtomicUsize::new(0));
        let stored = objects.clone();
        let (replica, requests) = replica_of(move |request| {
            if request.method == "PATCH" && lost.fetch_add(1, Ordering::SeqCst) == 0 {
                if acts {
                    stored.answer(&request);
                }
                return (504, status(504));
            }
            stored.answer(&request)
        });
        let before = taken(&objects);
        let number = usize::from(acts);
        assert_eq!(claims(&replica, &watched, [number]).await, [true]);
        assert_eq!(taken(&objects), before + 1);
        let expected: &[&str] = if acts { &["PATCH", "GET"] } else { &["PATCH", "GET", "PATCH"] };
        assert_eq!(methods(&requests), expected, "{acts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_decided_again_on_what_is_read() {
    let (objects, watched) = budget(5);
    let elsewhere = replica(&objects).0;
    claims(&elsewhere, &watched, 0..3).await;
    let (replica, requests) = replica(&objects);
    let answers = claims(&replica, &watched, 10..13).await;
    assert_eq!((granted(&answers), taken(&objects)), (2, 5));
    assert_eq!(methods(&requests), ["PATCH", "GET", "PATCH"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_distinguished_from_one_that_refuses() {
    let (objects, watched) = budget(5);
    let (replica, _) = replica(&objects);
    objects.remove(OBJECT);
    let answer = replica.claim(&path(), Some(watched), claim(1), soon()).await.unwrap();
    assert_eq!(answer, None);
    let answer = replica.claim(&path(), None, claim(1), soon()).await.unwrap();
    assert_eq!(answer, None);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_says_is_passed_on() {
    let (_, watched) = budget(5);
    let (replica, requests) = replica_of(|request| match request.method {
        "PATCH" => (403, status(403)),
        _ => (500, status(500)),
    });
    let error = replica.claim(&path(), Some(watched.clone()), claim(1), soon()).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), methods(&requests).len()), ("refused", 1));
    let stored = watched.get().to_owned();
    let (replica, requests) = replica_of(move |request| match request.method {
        "PATCH" => conflict("Conflict"),
        _ => (200, stored.clone()),
    });
    let error = replica.claim(&path(), Some(watched), claim(1), soon()).await.unwrap_err();
    assert_eq!(error.to_string(), "refused");
    assert_eq!(methods(&requests).len() as u32, ATTEMPTS * 2 - 1);
}

#[tokio::test(start_paused = true)]
async fn who_went_away_takes_nothing() {
    let (objects, watched) = budget(1);
    let tries = Arc::new(AtomicUsize::new(0));
    let stored = objects.clone();
    let (replica, _) = replica_of(move |request| match tries.fetch_add(1, Ordering::SeqCst) {
        0..4 => (503, double::status(503)),
        _ => stored.answer(&request),
    });
    let path = path();
    let hasty =
        replica.claim(&path, Some(watched.clone()), claim(1), Instant::now() + Duration::from_millis(3));
    let patient = replica.claim(&path, Some(watched.clone()), claim(2), soon());
    let (hasty, patient) = tokio::join!(hasty, patient);
    assert!(matches!(hasty, Err(ReservationError::Late)));
    assert_eq!(patient.unwrap(), Some(true));
    assert!(objects.get(OBJECT).unwrap()["status"]["taken"].get("pod-2").is_some());
}

#[tokio::test(start_paused = true)]
async fn objects_without_claims_are_forgotten() {
    let (objects, watched) = budget(5);
    let (replica, _) = replica(&objects);
    assert!(replica.is_empty());
    claims(&replica, &watched, [1]).await;
    assert_eq!(replica.len(), 1);
    tokio::time::sleep(MEMORY * 2).await;
    assert!(replica.is_empty());
    assert_eq!(claims(&replica, &watched, [2]).await, [true]);
}

#[tokio::test(start_paused = true)]
async fn without_an_api_server_claims_are_decided_on_what_is_known() {
    let (_, watched) = budget(1);
    let replica: Reservations<Units> = Reservations::new(None, Units);
    assert_eq!(granted(&claims(&replica, &watched, [1, 2]).await), 1);
    let other = Resource::new("a/v1", "budgets", "Budget").namespaced("shop").name("other");
    assert_eq!(replica.claim(&other, None, claim(1), soon()).await.unwrap(), None);
}

/// A rule with a defect.
struct Broken;

impl Reservable for Broken {
    type Claim = ();
    type Answer = ();

    fn reserve(&self, _: &str, _: &[()], _: Timestamp) -> Reserved<()> {
        panic!("a defect")
    }

    fn is_refusal((): &()) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_defect_of_the_rules_is_answered() {
    let (_, watched) = budget(1);
    let replica = Reservations::new(None, Broken);
    for _ in 0..2 {
        let outcome = replica.claim(&path(), Some(watched.clone()), (), soon()).await;
        assert!(matches!(outcome, Err(ReservationError::Lost)));
    }
}
