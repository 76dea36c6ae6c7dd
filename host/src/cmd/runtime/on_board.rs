//! `runtime install --board`: the library for a board's processor and C library, fetched here and sent by ssh.

use std::path::{Path, PathBuf};

use edgedyno_shared::device::{DeviceInfo, RuntimeVerdict};
use edgedyno_shared::ids::Sha256;

use super::InstallArgs;
use crate::board::any::{AnyBoard, unknown};
use crate::board::known::{KnownBoards, SshRoute};
use crate::board::settings::Settings;
use crate::board::ssh::Shell;
use crate::board::ssh::probe::{Libc, Probe};
use crate::board::ssh::put::{self, RuntimeFile};
use crate::board::{local, setup};
use crate::cmd::block_on;
use crate::cmd::board::failed;
use crate::cmd::run::inventory::Inquiry;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::runtime::Spec;
use crate::runtime::cache::{Cache, Installed};
use crate::runtime::error::RuntimeError;
use crate::runtime::install::{Installer, Outcome};
use crate::runtime::listing::Verdict;
use crate::ui::fetch::{FetchLine, Line};
use crate::ui::{self, print, units};

/// Installs on a board that ssh reaches.
pub(super) fn install(board: &str, spec: &Spec, args: &InstallArgs, json: bool) -> CommandResult {
    let settings = Settings::from_env()?;
    let boards = KnownBoards::read(&settings)?;
    let Some(known) = boards.get(board) else {
        let names = boards.iter().map(|(name, _)| name).chain([local::NAME]);
        return Err(unknown(board, names));
    };
    let Some(route) = &known.ssh else {
        let what =
            format!("board {board} is not reached by ssh, which is how a library comes there");
        return Err(CommandError::usage(what).hint(
            "on the board, put it where its loader finds it, or where EDGEDYNO_ONNXRUNTIME of the agent points to",
        ));
    };
    let cannot = format!("{spec} cannot be installed on board {board}");
    let probe = block_on(async {
        let probe = Probe::take(&Shell::new(route.destination.clone()), route.base()).await;
        probe.map_err(|why| failed(board, &cannot, why.into()))
    })?;
    let glibc = match probe.libc {
        Libc::Glibc(2, minor) => Some(minor),
        _ => None,
    };
    let installer = Installer::for_board(&Cache::from_environment()?, &route.architecture, glibc);
    let (installed, is_new) = match fetch(&installer, spec, args, &route.architecture, glibc)? {
        Outcome::Installed(installed) => (installed, true),
        Outcome::AlreadyThere(installed) => (installed, false),
    };
    let (path, device) = block_on(async {
        let path = send(&installer.cache, &installed, route).await;
        let path = path.map_err(|why| failed(board, &cannot, why))?;
        let reached = AnyBoard::of(board, known, &settings)?;
        let device = Inquiry::open(&reached).await?.device().await?;
        Ok((path, device))
    })?;
    let verdict = verdict(&device, &path, Sha256(*installed.sha256.as_bytes()));
    let installed = Installed {
        path: PathBuf::from(&path),
        ..installed
    };
    match json {
        true => print::json(&documents::installed(&installed, is_new, &verdict)),
        false => print::result(ui::runtime::installed(&installed, is_new, &verdict, board)),
    }
    match &verdict {
        Verdict::Usable { .. } => Ok(Exit::GOOD),
        Verdict::Refused { reason, hint, .. } => {
            let what = format!(
                "{} {} is installed but cannot be used on board {board}",
                installed.package, installed.version
            );
            Err(CommandError::new(Exit::UNEXPECTED, what)
                .cause(reason)
                .hint_if(hint.clone()))
        }
    }
}

fn fetch(
    installer: &Installer,
    spec: &Spec,
    args: &InstallArgs,
    architecture: &str,
    glibc: Option<u16>,
) -> Result<Outcome, CommandError> {
    if let Some(file) = &args.from {
        return super::from_file(installer, spec, file);
    }
    if args.offline {
        return super::offline(installer, spec);
    }
    let mut line = FetchLine::start();
    let fetched = installer.install(spec, &mut |step| line.tell(&step));
    fetched.map_err(|why| match why {
        RuntimeError::NoPackage { detail, .. } => {
            let glibc = glibc.map_or_else(|| "of unknown version".to_owned(), |minor| format!("2.{minor}"));
            let what = format!("there is no {spec} for boards of {architecture} with glibc {glibc}");
            CommandError::usage(what).cause(detail).hint(
                "the built-in runtime runs ONNX models there; a library that was built for the board comes with --from FILE",
            )
        }
        other => other.into(),
    })
}

/// Sends the library and its providers, and nothing else of the package; the library's path on the board.
async fn send(
    cache: &Cache,
    installed: &Installed,
    route: &SshRoute,
) -> Result<String, setup::SetupError> {
    let shell = Shell::new(route.destination.clone());
    let below = format!("runtimes/{}/{}", installed.package, installed.version);
    let files = cache
        .files(installed)
        .map_err(|why| setup::SetupError::Board {
            what: why.to_string(),
            hint: why.hint().into(),
        })?;
    let line = Line::start();
    let mut library = String::new();
    for (file, sha256) in files {
        let name = shown(&file);
        let all = std::fs::metadata(&file).map_err(|why| setup::SetupError::Board {
            what: format!("`{}` cannot be read: {why}", file.display()),
            hint: "install the runtime anew".into(),
        })?;
        let all = all.len();
        let mut tell = |done: u64| {
            line.show(format!(
                "sending {name}: {} of {}",
                units::bytes(done as f64),
                units::bytes(all as f64)
            ));
        };
        let sent = RuntimeFile {
            path: &file,
            bytes: all,
            sha256: &sha256.to_string(),
            below: &below,
        };
        let environment = route.environment();
        let path = put::runtime_file(&shell, &environment, &sent, &mut tell).await?;
        if library.is_empty() {
            library = path;
        }
    }
    Ok(library)
}

fn shown(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What the agent says of the file. What it opened must be what was sent: boards without a tool for hashes
/// have looked at no more than the size.
fn verdict(device: &DeviceInfo, path: &str, sent: Sha256) -> Verdict {
    let mut found = device.backends.iter().flat_map(|backend| &backend.runtimes);
    match found.find(|found| found.path == path) {
        Some(found) => match &found.verdict {
            RuntimeVerdict::Usable(facts) if facts.sha256.is_some_and(|there| there != sent) => {
                Verdict::Refused {
                    code: "damaged".into(),
                    reason: format!("{path} is not what was sent, by its sha256"),
                    hint: Some("run the command again, which sends it anew".into()),
                }
            }
            verdict => Verdict::from(verdict),
        },
        None => Verdict::Refused {
            code: "not_found".into(),
            reason: format!("the agent does not see {path}"),
            hint: Some("see that the agent runs as the user that ssh logs in as".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::{BackendInfo, RuntimeFacts, RuntimeFound};

    use super::*;

    const PATH: &str =
        "/home/u/.cache/edgedyno/runtimes/onnxruntime/1.30.0/libonnxruntime.so.1.30.0";

    fn device(verdict: RuntimeVerdict) -> DeviceInfo {
        let backend = BackendInfo {
            name: "onnxruntime".into(),
            summary: String::new(),
            simulated: false,
            built_in: false,
            formats: Vec::new(),
            version: None,
            runtimes: vec![RuntimeFound {
                path: PATH.into(),
                origin: "cache".into(),
                verdict,
            }],
        };
        DeviceInfo {
            backends: vec![backend],
            ..setup::sample().device
        }
    }

    fn opened(sha256: Option<Sha256>) -> RuntimeVerdict {
        RuntimeVerdict::Usable(RuntimeFacts {
            version: "1.30.0".into(),
            sha256,
            build: None,
            build_id: None,
            providers: Vec::new(),
        })
    }

    #[test]
    fn a_library_is_usable_when_the_agent_opened_what_was_sent() {
        let sent = Sha256([7; 32]);
        let of = |found| verdict(&device(found), PATH, sent);
        assert!(matches!(of(opened(Some(sent))), Verdict::Usable { .. }));
        let Verdict::Refused { code, reason, hint } = of(opened(Some(Sha256([8; 32])))) else {
            panic!("another file was opened");
        };
        assert_eq!(code, "damaged");
        assert!(reason.contains(PATH), "{reason}");
        assert!(hint.unwrap().contains("again"));
        let refused = RuntimeVerdict::Refused {
            code: "unavailable".into(),
            reason: "file too short".into(),
            hint: String::new(),
        };
        let Verdict::Refused { reason, .. } = of(refused) else {
            panic!("it was not opened");
        };
        assert_eq!(reason, "file too short");
        let elsewhere = verdict(&device(opened(Some(sent))), "/other", sent);
        assert!(matches!(elsewhere, Verdict::Refused { code, .. } if code == "not_found"));
    }
}
