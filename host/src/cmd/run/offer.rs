//! Offering to fetch ONNX Runtime when a run would use it and none is there.

use edgedyno_shared::device::{BackendInfo, DeviceInfo, RuntimeVerdict};

use super::ConductOptions;
use crate::cmd::runtime::fetch::{self, HOW_LARGE};
use crate::exit::CommandError;
use crate::plan::backend::RuntimeWish;
use crate::runtime::install::Outcome;
use crate::ui::print;

const NAME: &str = "onnxruntime";

/// Fetches a runtime when one is wanted, none is usable and the user says yes.
pub(super) fn fetch_missing(
    device: &DeviceInfo,
    named: Option<&str>,
    wish: Option<&RuntimeWish>,
    options: &ConductOptions,
) -> Result<Option<RuntimeWish>, CommandError> {
    let wanted = named.unwrap_or(NAME) == NAME && wish.is_none();
    let backend = device.backends.iter().find(|backend| backend.name == NAME);
    let missing = backend.is_some_and(|backend| !has_usable(backend));
    if !wanted || !missing || options.offline || options.dry_run {
        return Ok(None);
    }
    let question = format!("no ONNX Runtime was found. Fetch {HOW_LARGE}?");
    if !options.yes && !print::confirm(&question) {
        return Ok(None);
    }
    Ok(Some(fetch_newest()?))
}

/// Fetches the newest version; the file is what is asked for from then on.
pub(in crate::cmd) fn fetch_newest() -> Result<RuntimeWish, CommandError> {
    let outcome = fetch::with_pip(&NAME.parse()?)?;
    let (Outcome::Installed(installed) | Outcome::AlreadyThere(installed)) = outcome;
    Ok(RuntimeWish::File(installed.path))
}

pub(in crate::cmd) fn has_usable(backend: &BackendInfo) -> bool {
    let usable = |verdict: &RuntimeVerdict| matches!(verdict, RuntimeVerdict::Usable(_));
    backend.runtimes.iter().any(|found| usable(&found.verdict))
}
