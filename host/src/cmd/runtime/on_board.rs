//! `runtime install --board`: the library for a board's processor and C library, fetched here and sent by ssh.

use std::path::{Path, PathBuf};

use edgedyno_shared::device::DeviceInfo;

use super::InstallArgs;
use crate::board::any::{AnyBoard, unknown};
use crate::board::known::{KnownBoards, SshRoute};
use crate::board::settings::Settings;
use crate::board::ssh::probe::{Libc, Probe};
use crate::board::ssh::{Shell, deploy};
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
    let verdict = verdict(&device, &path);
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
        let all = std::fs::metadata(&file)
            .map(|file| file.len())
            .unwrap_or_default();
        let mut tell = |done: u64| {
            line.show(format!(
                "sending {name}: {} of {}",
                units::bytes(done as f64),
                units::bytes(all as f64)
            ));
        };
        let environment = route.environment();
        let sha256 = sha256.to_string();
        let path =
            deploy::put_runtime_file(&shell, &environment, &below, &file, &sha256, &mut tell)
                .await?;
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

/// What the agent says of the file.
fn verdict(device: &DeviceInfo, path: &str) -> Verdict {
    let mut found = device.backends.iter().flat_map(|backend| &backend.runtimes);
    match found.find(|found| found.path == path) {
        Some(found) => Verdict::from(&found.verdict),
        None => Verdict::Refused {
            code: "not_found".into(),
            reason: format!("the agent does not see {path}"),
            hint: Some("see that the agent runs as the user that ssh logs in as".into()),
        },
    }
}
