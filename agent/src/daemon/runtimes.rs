//! Libraries found on this machine: each file is opened once by a worker, and remembered by what it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::device::{RuntimeFacts, RuntimeFound, RuntimeVerdict};
use edgedyno_shared::file_mark::FileMark;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256 as Hasher};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use super::state::Daemon;
use crate::backend::{Backend, Candidate};
use crate::disk;
use crate::worker::message::{MESSAGE, Message, TASK, Task};

/// How long a worker may take to say what a library is.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// How long a library waits for its turn: whoever asked hears nothing meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it looks whether a repeat began meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a file is, as far as telling it from another goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FileIdentity {
    path: PathBuf,
    mark: FileMark,
}

/// What was learned of library files, kept between lives of the daemon.
#[derive(Debug)]
pub struct Runtimes {
    file: PathBuf,
    known: BTreeMap<FileIdentity, Known>,
}

/// The answer of a probe, or why there was none.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    backend: String,
    answer: Result<RuntimeFacts, Failure>,
}

impl Runtimes {
    pub fn open(state: &Path) -> Self {
        let file = state.join(format!("runtimes-{}", crate::BUILD_ID));
        // A cache that cannot be read is filled again.
        let known = fs::read(&file)
            .ok()
            .and_then(|bytes| frame::decode::<Vec<(FileIdentity, Known)>>(0, &bytes).ok());
        Self {
            file,
            known: known.unwrap_or_default().into_iter().collect(),
        }
    }

    /// The file of a library known by hash, if it is still the same.
    pub fn path(&self, sha256: &Sha256) -> Option<PathBuf> {
        let of_hash = |known: &Known| {
            known
                .answer
                .as_ref()
                .is_ok_and(|f| f.sha256 == Some(*sha256))
        };
        let mut files = self
            .known
            .iter()
            .filter(|(_, known)| of_hash(known))
            .map(|(file, _)| file);
        files
            .find(|file| identity(&file.path).is_ok_and(|now| now == **file))
            .map(|f| f.path.clone())
    }

    /// A refusal is remembered for this life only: what was missing may be there at the next.
    fn remember(&mut self, file: FileIdentity, known: Known) {
        self.known.insert(file, known);
        let all: Vec<(FileIdentity, Known)> = self
            .known
            .iter()
            .filter(|(_, known)| known.answer.is_ok())
            .map(|(file, known)| (file.clone(), known.clone()))
            .collect();
        let kept = postcard::to_stdvec(&all)
            .map_err(io::Error::other)
            .and_then(|bytes| disk::write_whole(&self.file, &bytes));
        if let Err(why) = kept {
            tracing::warn!("what was learned of runtimes cannot be kept: {why}");
        }
    }
}

/// Everything found for a backend: usable libraries first, in the order of its candidates.
pub async fn find_all(daemon: &Rc<Daemon>, backend: &'static dyn Backend) -> Vec<RuntimeFound> {
    let mut found: Vec<RuntimeFound> = Vec::new();
    for candidate in backend.candidates(&[]) {
        if !found.iter().any(|f| Path::new(&f.path) == candidate.path) {
            found.push(look_at(daemon, backend, candidate).await);
        }
    }
    found.sort_by_key(|f| !matches!(f.verdict, RuntimeVerdict::Usable(_)));
    found
}

/// Looks at one file.
pub async fn look_at(
    daemon: &Rc<Daemon>,
    backend: &'static dyn Backend,
    candidate: Candidate,
) -> RuntimeFound {
    let answer = answer(daemon, backend, &candidate.path).await;
    let verdict = match answer {
        Ok(facts) => RuntimeVerdict::Usable(facts),
        Err(failure) => RuntimeVerdict::Refused {
            code: failure.code.name().into(),
            reason: failure.detail,
            hint: failure.hint.unwrap_or_default(),
        },
    };
    let path = candidate.path.display().to_string();
    RuntimeFound {
        path,
        origin: candidate.origin,
        verdict,
    }
}

/// Waits for what is short, such as a look through what waits in the spool, and for no repeat: it may take
/// hours. The error says what is in the way.
async fn alone(daemon: &Daemon) -> Result<MutexGuard<'_, ()>, &'static str> {
    let mut turn = pin!(daemon.vendor_code.lock());
    let until = Instant::now() + PATIENCE;
    loop {
        if daemon.running.borrow().is_some() {
            return Err("a repeat runs");
        }
        if let Ok(alone) = timeout(LOOK_EVERY, &mut turn).await {
            return Ok(alone);
        }
        if Instant::now() >= until {
            return Err("results or another library are read");
        }
    }
}

async fn answer(
    daemon: &Rc<Daemon>,
    backend: &'static dyn Backend,
    path: &Path,
) -> Result<RuntimeFacts, Failure> {
    let file = identity(path).map_err(|why| unavailable(path, &why.to_string()))?;
    let known = daemon.runtimes.borrow().known.get(&file).cloned();
    if let Some(known) = known.filter(|k| k.backend == backend.name()) {
        return known.answer;
    }
    let _alone = alone(daemon).await.map_err(|what| {
        let detail = format!("{}: not looked at while {what}", path.display());
        Failure::new(FailureCode::Busy, detail).hint("ask again when it is over")
    })?;
    // What went wrong with the looking says nothing of the file, and is not remembered.
    let answer = probe(daemon, backend, path).await?;
    let known = Known {
        backend: backend.name().into(),
        answer: answer.clone(),
    };
    daemon.runtimes.borrow_mut().remember(file, known);
    answer
}

/// Asks a worker of its own, since opening a library runs its code; the hash is taken here. The inner result
/// is what the file is.
async fn probe(
    daemon: &Rc<Daemon>,
    backend: &'static dyn Backend,
    path: &Path,
) -> Result<Result<RuntimeFacts, Failure>, Failure> {
    let ended = |why: &str| unavailable(path, &format!("opening it ended its process: {why}"));
    let asked = timeout(PROBE_LIMIT, ask_worker(daemon, backend.name(), path)).await;
    let mut facts = match asked {
        Err(_) => return Err(unavailable(path, "opening it took more than 30 s")),
        Ok(Err(why)) => return Err(ended(&why.to_string())),
        Ok(Ok(Ok(facts))) => facts,
        Ok(Ok(Err(refused))) => return Ok(Err(refused)),
    };
    let hashed = path.to_owned();
    let sha256 = tokio::task::spawn_blocking(move || hash_file(&hashed)).await;
    let sha256 = sha256
        .map_err(io::Error::other)
        .and_then(|hash| hash)
        .map_err(|why| unavailable(path, &why.to_string()))?;
    facts.sha256 = Some(sha256);
    Ok(Ok(facts))
}

async fn ask_worker(
    daemon: &Rc<Daemon>,
    backend: &str,
    path: &Path,
) -> io::Result<Result<RuntimeFacts, Failure>> {
    let (mut command, control) = daemon.exec.worker(None)?;
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    control.set_nonblocking(true)?;
    let _child = Command::from(command).kill_on_drop(true).spawn()?;
    let mut control = UnixStream::from_std(control)?;
    let task = Task::Probe {
        backend: backend.into(),
        path: path.display().to_string(),
    };
    let frame = Frame::encode(TASK, &task).map_err(io::Error::other)?;
    control.write_all(&frame.to_bytes()).await?;
    loop {
        let frame = frame::read(&mut control, frame::LIMIT)
            .await
            .map_err(io::Error::other)?;
        let Some(frame) = frame else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if frame.kind == MESSAGE
            && let Ok(Message::Facts(answer)) = frame.decode()
        {
            return Ok(answer);
        }
    }
}

fn unavailable(path: &Path, why: &str) -> Failure {
    Failure::new(
        FailureCode::RuntimeUnavailable,
        format!("{}: {why}", path.display()),
    )
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    Ok(FileIdentity {
        path: path.into(),
        mark: FileMark::of(&fs::metadata(path)?),
    })
}

/// SHA-256 of a file, read once.
pub fn hash_file(path: &Path) -> io::Result<Sha256> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Hasher::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Sha256(hash.finalize().into())),
            n => hash.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::StoreId;
    use edgedyno_shared::repeat::Stage;
    use tokio::sync::watch;
    use tokio::task::spawn_local;
    use tokio::time::sleep;

    use super::super::state::Running;
    use super::super::testing::{block_on, daemon};
    use super::*;
    use crate::inputs::testing;
    use crate::worker::supervise::Cancel;

    fn running() -> Running {
        Running {
            number: 0,
            store: StoreId([7; 16]),
            key: testing::job().order.key,
            stage: Stage::Spawn,
            cancel: watch::channel(Cancel::No).0,
        }
    }

    #[test]
    fn a_library_has_its_turn_behind_a_look_through_results_and_not_behind_a_repeat() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        block_on(async {
            let looking = Rc::clone(&daemon);
            // One segment after the other, without a pause.
            let look = spawn_local(async move {
                loop {
                    let _alone = looking.vendor_code.lock().await;
                    sleep(Duration::from_millis(30)).await;
                }
            });
            sleep(Duration::from_millis(5)).await;
            drop(alone(&daemon).await.unwrap());
            look.abort();
            let _ = look.await;

            let _held = daemon.vendor_code.lock().await;
            let beginning = Rc::clone(&daemon);
            let begin = spawn_local(async move {
                sleep(Duration::from_millis(30)).await;
                *beginning.running.borrow_mut() = Some(running());
            });
            assert_eq!(alone(&daemon).await.unwrap_err(), "a repeat runs");
            begin.await.unwrap();
        });
    }
}
