//! Runs credential providers, programs of the node that give credentials of registries
//! (docs/behaviour/node-agent.md#credential-providers).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::keyring::Keyring;
use agent::provider::{Answer, Answers, Provider, parse};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::{info, warn};

#[cfg(test)]
pub(super) mod tests;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest answer, in bytes: credentials are short, and many answers are kept.
const LONGEST: u64 = 64 << 10;
/// So much of what a program complains about is logged.
const WORDS: u64 = 1 << 10;

/// The credential providers of the node. Cheap to clone: clones share what was answered.
#[derive(Clone, Default)]
pub struct Providers(Arc<[Program]>);

struct Program {
    provider: Provider,
    file: PathBuf,
    /// When this process has read of it.
    began: Instant,
    /// Held while the program runs: it is asked once for all that wait for the same answer.
    answers: Mutex<Answers>,
}

impl Providers {
    /// Those of a configuration, whose programs are in a directory. Without the file there are none; a file that can't be
    /// used is reported in the log.
    pub async fn read(configuration: &Path, directory: &Path) -> Self {
        let text = match tokio::fs::read_to_string(configuration).await {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                warn!(file = %configuration.display(), %error, "the credential providers can't be read");
                return Self::default();
            }
        };
        let providers = parse(&text).unwrap_or_else(|error| {
            warn!(file = %configuration.display(), %error, "the credential providers can't be used");
            Vec::new()
        });
        let (useless, useful): (Vec<_>, Vec<_>) = providers.into_iter().partition(|one| one.needs_account);
        for Provider { name, .. } in useless {
            warn!(name, "a credential provider wants the account of a Pod and is passed over");
        }
        let names: Vec<&str> = useful.iter().map(|provider| provider.name.as_str()).collect();
        info!(?names, "credential providers are asked");
        let program = |provider: Provider| {
            let file = directory.join(&provider.name);
            Program { provider, file, began: Instant::now(), answers: Mutex::default() }
        };
        Self(useful.into_iter().map(program).collect())
    }

    /// The credentials that the providers of an image give, and why others give none.
    pub(super) async fn keyring(&self, image: &str) -> (Keyring, Vec<String>) {
        let (mut all, mut errors) = (Keyring::default(), Vec::new());
        for program in self.of(image) {
            match program.ask(image).await {
                Ok(keyring) => all.add(&keyring),
                Err(error) => {
                    let name = &program.provider.name;
                    warn!(name, image, error, "a credential provider fails and is passed over");
                    errors.push(format!("credential provider {name}: {error}"));
                }
            }
        }
        (all, errors)
    }

    /// Forgets what was answered for an image: the credentials were not believed.
    pub(super) async fn forget(&self, image: &str) {
        for program in self.of(image) {
            program.answers.lock().await.forget(image);
        }
    }

    fn of(&self, image: &str) -> impl Iterator<Item = &Program> {
        self.0.iter().filter(move |program| program.provider.serves(image))
    }
}

impl Program {
    async fn ask(&self, image: &str) -> Result<Arc<Keyring>, String> {
        let mut answers = self.answers.lock().await;
        if let Some(known) = answers.get(image, self.began.elapsed()) {
            return Ok(known);
        }
        let late = |_| Err(format!("no answer in {LIMIT:?}"));
        let answer = timeout(LIMIT, self.run(image)).await.unwrap_or_else(late)?;
        answers.keep(&answer, self.began.elapsed());
        Ok(answer.keyring)
    }

    /// Runs the program. It ends with this call, also where nobody waits for it any more.
    async fn run(&self, image: &str) -> Result<Answer, String> {
        let Provider { name, arguments, environment, .. } = &self.provider;
        let mut command = Command::new(&self.file);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (input, output, complaints) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let request = self.provider.request(image);
        let ask = async {
            if let Some(mut input) = input {
                // A program need not read what it is asked.
                drop(input.write_all(request.as_bytes()).await);
            }
            Ok(())
        };
        let ((), output, words) = tokio::try_join!(ask, whole(output), beginning(complaints))?;
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            warn!(name, image, %status, words, "a credential provider has failed");
            return Err(status.to_string());
        }
        self.provider.answer(image, &output).map_err(|error| error.to_string())
    }
}

/// All that is said, unless it is too much.
async fn whole(output: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    if let Some(output) = output {
        output.take(LONGEST + 1).read_to_end(&mut read).await.map_err(|error| error.to_string())?;
    }
    if read.len() as u64 > LONGEST {
        return Err(format!("the answer is longer than {LONGEST} bytes"));
    }
    Ok(read)
}

/// The beginning of what is said; the rest is read and dropped, so that the program does not wait.
async fn beginning(complaints: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let mut read = Vec::new();
    if let Some(mut complaints) = complaints {
        let mut first = (&mut complaints).take(WORDS);
        first.read_to_end(&mut read).await.map_err(|error| error.to_string())?;
        copy(&mut complaints, &mut sink()).await.map_err(|error| error.to_string())?;
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}
