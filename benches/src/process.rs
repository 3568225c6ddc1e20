//! The processes of a run, and what the operating system knows of them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::load::Round;

/// Clock ticks per second of /proc/PID/stat, a constant of Linux's interface.
const TICKS: f64 = 100.0;

/// The core that a process may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// That of the server under test.
    Server,
    /// That of the load generator.
    Client,
    /// Any.
    Any,
}

/// Which memory is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What the process has now.
    Now,
    /// The most that it had so far.
    Peak,
}

/// A child process, killed when it is dropped and when we end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program on a core. Its standard error goes to the file `log`, and its standard output
    /// too unless the command says otherwise.
    pub fn start(core: Core, command: &Command, log: &Path, output: Option<Stdio>) -> Self {
        let open = || File::options().create(true).append(true).open(log).expect("the log opens");
        let mut pinned = Command::new("setpriv");
        pinned.args(["--pdeathsig", "KILL"]);
        if core != Core::Any {
            pinned.args(["taskset", "--cpu-list", &core.number().to_string()]);
        }
        pinned.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            pinned.env(name, value.expect("variables are only added"));
        }
        let child = pinned
            .stdin(Stdio::piped())
            .stdout(output.unwrap_or_else(|| open().into()))
            .stderr(open())
            .spawn()
            .expect("setpriv and taskset (util-linux) are installed");
        Self { child, log: log.to_owned() }
    }

    /// User and system time so far.
    pub fn cpu(&self) -> Duration {
        let stat = self.stat();
        let mut ticks = stat.split_whitespace().skip(11).map(|field| field.parse::<f64>().unwrap());
        let (user, system) = (ticks.next().unwrap(), ticks.next().unwrap());
        Duration::from_secs_f64((user + system) / TICKS)
    }

    /// Memory in RAM in bytes.
    pub fn memory(&self, memory: Memory) -> u64 {
        let field = match memory {
            Memory::Now => "VmRSS:",
            Memory::Peak => "VmHWM:",
        };
        self.status(field) * 1024
    }

    /// How often its first thread has gone to rest so far, which is how often it was woken.
    pub fn rests(&self) -> u64 {
        self.status("voluntary_ctxt_switches:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = self.read("status");
        let value = status.lines().find_map(|line| line.strip_prefix(field)).expect("the process runs");
        value.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        let signalled = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(signalled.expect("kill runs").success(), "{}", self.log_tail());
        self.child.wait().expect("a child of ours");
    }

    /// Panics with the end of the log if the process has ended.
    pub fn assert_running(&self) {
        // It stays a zombie until we wait for it.
        let has_ended = self.stat().starts_with('Z');
        assert!(!has_ended, "the process ended; its log ends with:\n{}", self.log_tail());
    }

    fn log_tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(4_000)..]).into_owned()
    }

    /// The fields from its state on.
    fn stat(&self) -> String {
        let stat = self.read("stat");
        // The second field is the name in parentheses, which may hold blanks.
        stat.rsplit_once(") ").expect("stat has a name").1.to_owned()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("the process runs")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Core {
    /// The first core that we may use is the server's, the last one the client's.
    fn number(self) -> usize {
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("cores");
        let mut numbers = list.trim().split([',', '-']).map(|number| number.parse().expect("a core"));
        let first = numbers.next().expect("a core");
        if self == Self::Server { first } else { numbers.next_back().unwrap_or(first) }
    }
}

/// A load generator, connected to a server.
#[derive(Debug)]
pub struct Generator {
    process: Process,
    go: ChildStdin,
    results: BufReader<ChildStdout>,
}

impl Generator {
    /// Connects to `address`; each round sends `requests` reviews like `body` to `path` in a closed loop.
    pub fn start(directory: &Path, address: SocketAddr, path: &str, body: &[u8], requests: u32) -> Self {
        Self::connect(directory, address, path, body, &["--requests", &requests.to_string()])
    }

    /// Connects to `address`; a round sends `rate` reviews per second for so many `seconds`.
    pub fn steady(
        directory: &Path,
        address: SocketAddr,
        path: &str,
        body: &[u8],
        (rate, seconds): (u32, u32),
    ) -> Self {
        let (requests, rate) = ((rate * seconds).to_string(), rate.to_string());
        Self::connect(directory, address, path, body, &["--requests", &requests, "--rate", &rate])
    }

    fn connect(directory: &Path, address: SocketAddr, path: &str, body: &[u8], load: &[&str]) -> Self {
        let file = directory.join(format!("body-{}.json", address.port()));
        fs::write(&file, body).expect("the body can be written");
        let mut command = ourselves();
        command.args(["load", "--address", &address.to_string(), "--path", path]);
        command.args(load).arg("--body").arg(&file);
        let mut process =
            Process::start(Core::Client, &command, &directory.join("load.log"), Some(Stdio::piped()));
        let go = process.child.stdin.take().expect("piped");
        let results = BufReader::new(process.child.stdout.take().expect("piped"));
        let mut generator = Self { process, go, results };
        assert_eq!(generator.line().trim(), "ready");
        generator
    }

    /// Plays one round.
    pub fn round(&mut self) -> Round {
        writeln!(self.go, "go").expect("the load generator runs");
        let round: Round = serde_json::from_str(&self.line()).expect("a round");
        assert!(round.longest < round.shortest + round.shortest / 10 + 64, "answers differ: {round:?}");
        round
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.results.read_line(&mut line).expect("the load generator runs");
        if line.is_empty() {
            panic!("the load generator ended; its log ends with:\n{}", self.process.log_tail());
        }
        line
    }
}

/// Starts an echo server that answers `answer_bytes`.
pub fn echo(directory: &Path, answer_bytes: usize) -> (Process, SocketAddr) {
    let port = kit::api_server::free_port();
    let mut command = ourselves();
    command.args(["echo", "--port", &port.to_string(), "--answer-bytes", &answer_bytes.to_string()]);
    let process = Process::start(Core::Server, &command, &directory.join("echo.log"), None);
    (process, (Ipv4Addr::LOCALHOST, port).into())
}

fn ourselves() -> Command {
    Command::new(std::env::current_exe().expect("we know our program"))
}
