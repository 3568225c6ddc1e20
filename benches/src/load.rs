//! The load generator: 8 connections with 10 streams each. In a closed loop every stream sends its next
//! review when it has the answer to the last; at a rate reviews are due at fixed times, and a review that has
//! to wait for a free stream is late by that.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::future::join_all;
use h2::client::{self, SendRequest};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::review::Template;
use crate::tls;

const CONNECTIONS: usize = 8;
const STREAMS: usize = 10;
/// The whole of a patch fits into these, so that no server waits for us.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// What the process of a load generator is started with.
#[derive(Args)]
pub struct Arguments {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    path: String,
    #[arg(long)]
    body: PathBuf,
    #[arg(long)]
    requests: u32,
    /// Reviews per second; without it, each stream sends its next when it has the answer to the last
    #[arg(long)]
    rate: Option<u32>,
}

/// What one round showed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Round {
    /// From the first review sent to the last answer received.
    pub seconds: f64,
    /// Median time from review to answer in microseconds.
    pub p50: f64,
    /// 99th percentile of it.
    pub p99: f64,
    /// Bytes of the shortest answer.
    pub shortest: usize,
    /// Bytes of the longest answer.
    pub longest: usize,
}

/// The process: connects, says `ready`, plays a round for each line on its standard input and prints
/// it as JSON.
pub fn generate(arguments: &Arguments) {
    let Arguments { address, path, body, requests, rate } = arguments;
    let (address, requests, rate) = (*address, *requests, *rate);
    kit::install_crypto_provider();
    let template = Template::new(std::fs::read(body).expect("the body can be read"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connections = (0..CONNECTIONS).map(|_| open(address));
        let senders = join_all(connections).await.into_iter().collect::<Result<Vec<_>, _>>();
        let load = Load {
            senders: senders.expect("the server accepts connections"),
            template: Arc::new(template),
            request: Arc::new(request(address, path)),
            next: Arc::default(),
            rate,
        };
        println!("ready");
        let mut lines = input();
        while lines.recv().await.is_some() {
            println!("{}", serde_json::to_string(&load.round(requests).await).expect("a round is JSON"));
        }
    });
}

/// The lines of the standard input, read by a thread of their own: between the rounds the connections
/// have to answer the server's pings.
fn input() -> UnboundedReceiver<()> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            sender.send(()).expect("the rounds end with the input");
        }
    });
    receiver
}

/// Sends one review and returns the answer.
///
/// # Errors
/// Nobody listens, the call breaks, or the status is not 200.
pub async fn ask(address: SocketAddr, path: &str, body: Bytes) -> Result<Bytes, String> {
    let sender = open(address).await?;
    Ok(exchange(sender, &request(address, path), body).await?.concat().into())
}

struct Load {
    senders: Vec<SendRequest<Bytes>>,
    template: Arc<Template>,
    request: Arc<Request<()>>,
    /// Goes on through all rounds: no review comes twice.
    next: Arc<AtomicU32>,
    /// Reviews per second; `None` for a closed loop.
    rate: Option<u32>,
}

/// When reviews are due.
#[derive(Clone, Copy)]
struct Schedule {
    first: u32,
    start: Instant,
    interval: Duration,
}

impl Schedule {
    /// Waits until the review of this number is due; gives that time.
    async fn due(self, number: u32) -> Instant {
        let due = self.start + self.interval * (number - self.first);
        tokio::time::sleep_until(due.into()).await;
        due
    }
}

impl Load {
    async fn round(&self, requests: u32) -> Round {
        let start = Instant::now();
        let first = self.next.load(Ordering::Relaxed);
        let end = first + requests;
        let schedule =
            self.rate.map(|rate| Schedule { first, start, interval: Duration::from_secs(1) / rate });
        let mut streams = JoinSet::new();
        for sender in self.senders.iter().flat_map(|sender| std::iter::repeat_n(sender, STREAMS)) {
            let (sender, next) = (sender.clone(), self.next.clone());
            let (template, request) = (self.template.clone(), self.request.clone());
            streams.spawn(stream(sender, template, request, next, end, schedule));
        }
        let mut calls: Vec<(u64, usize)> = streams.join_all().await.concat();
        let seconds = start.elapsed().as_secs_f64();
        self.next.store(end, Ordering::Relaxed);
        calls.sort_unstable();
        let percentile = |percent: usize| calls[(calls.len() - 1) * percent / 100].0 as f64 / 1e3;
        let sizes = || calls.iter().map(|call| call.1);
        Round {
            seconds,
            p50: percentile(50),
            p99: percentile(99),
            shortest: sizes().min().expect("calls were made"),
            longest: sizes().max().expect("calls were made"),
        }
    }
}

/// One stream: nanoseconds and answer bytes of each of its calls.
async fn stream(
    sender: SendRequest<Bytes>,
    template: Arc<Template>,
    request: Arc<Request<()>>,
    next: Arc<AtomicU32>,
    end: u32,
    schedule: Option<Schedule>,
) -> Vec<(u64, usize)> {
    let mut calls = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return calls;
        }
        let body = template.fill(number);
        let start = match schedule {
            Some(schedule) => schedule.due(number).await,
            None => Instant::now(),
        };
        let answer = exchange(sender.clone(), &request, body).await.expect("the server answers");
        let nanoseconds = start.elapsed().as_nanos().try_into().expect("less than 500 years");
        calls.push((nanoseconds, answer.iter().map(Bytes::len).sum()));
    }
}

async fn open(address: SocketAddr) -> Result<SendRequest<Bytes>, String> {
    let stream = tls::connect(address).await.map_err(|error| error.to_string())?;
    let (sender, connection) = client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(stream)
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}

/// The head of a call as the API server sends it.
fn request(address: SocketAddr, path: &str) -> Request<()> {
    Request::post(format!("https://{address}{path}?timeout=10s"))
        .header("accept", "application/json, */*")
        .header("content-type", "application/json")
        .header("user-agent", "kube-apiserver-admission")
        .header("accept-encoding", "gzip")
        .body(())
        .expect("a valid request")
}

async fn exchange(
    sender: SendRequest<Bytes>,
    request: &Request<()>,
    body: Bytes,
) -> Result<Vec<Bytes>, String> {
    let broken = |error: h2::Error| format!("the call broke: {error}");
    let mut sender = sender.ready().await.map_err(broken)?;
    let (response, mut stream) = sender.send_request(request.clone(), false).map_err(broken)?;
    stream.send_data(body, true).map_err(broken)?;
    let response = response.await.map_err(broken)?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status()));
    }
    let mut body = response.into_body();
    let mut chunks = Vec::with_capacity(1);
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(broken)?;
        body.flow_control().release_capacity(chunk.len()).map_err(broken)?;
        chunks.push(chunk);
    }
    Ok(chunks)
}
