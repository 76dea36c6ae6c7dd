//! The opened library: its version, what it was built with, and the environment of its sessions.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::config::SessionConfig;
use super::handle::Handle;
use super::result::{OrtError, c_text, check, owned_text};
use super::session::Session;
use super::sys::{API_VERSION, GetApiBase, LOG_WARNINGS, OrtApiBase, OrtEnv, Table};
use crate::vendor::loader::{LoadError, SharedLibrary};

const ENTRY: &str = "OrtGetApiBase";

/// An ONNX Runtime library, ready to load models.
///
/// Any number of versions can be open in one process.
#[derive(Clone)]
pub struct OnnxRuntime {
    environment: Arc<Environment>,
}

/// What every object of the runtime needs until it is released.
pub(super) struct Runtime {
    pub(super) table: Table,
    version: String,
    library: SharedLibrary,
}

/// The environment of the sessions; they keep it until they are released.
pub(super) struct Environment {
    pub(super) handle: Handle<OrtEnv>,
    pub(super) runtime: Arc<Runtime>,
}

// SAFETY: the runtime locks its environment itself: sessions may be made from any thread.
unsafe impl Sync for Environment {}

impl OnnxRuntime {
    /// Opens a library; runs its code, and starts one idle thread (seen).
    ///
    /// # Errors
    ///
    /// When it cannot be used here, is older than 1.17 or refuses to start.
    pub fn open(path: &Path) -> Result<Self, OrtError> {
        let library = SharedLibrary::open(path, &[ENTRY])?;
        // SAFETY: the signature is the header's, the same in every version.
        let entry = unsafe { library.function::<GetApiBase>(ENTRY) }?;
        // SAFETY: it takes nothing and may be called at any time.
        let base = unsafe { entry() };
        // SAFETY: the base is null or a constant of the library, which is never unloaded.
        let base = unsafe { base.as_ref() }.ok_or(OrtError::NothingReturned { call: ENTRY })?;
        // SAFETY: the base is the library's own.
        let (version, table) = unsafe { connect(base, library.path()) }?;
        let runtime = Arc::new(Runtime {
            table,
            version,
            library,
        });
        Ok(Self {
            environment: Arc::new(Environment::new(runtime)?),
        })
    }

    /// The version as the library states it, for example `1.32.0`.
    pub fn version(&self) -> &str {
        &self.environment.runtime.version
    }

    /// The library itself, with its path and build id.
    pub fn library(&self) -> &SharedLibrary {
        &self.environment.runtime.library
    }

    /// How the library was built: git branch and commit, build type, flags.
    pub fn build_info(&self) -> String {
        // SAFETY: it takes nothing and returns a constant of the library.
        let text = unsafe { (self.environment.runtime.table.GetBuildInfoString)() };
        // SAFETY: null or a zero-terminated constant.
        unsafe { owned_text(text) }.unwrap_or_default()
    }

    /// The execution providers compiled in, in the order of their priority.
    ///
    /// # Errors
    ///
    /// As the runtime reports them.
    pub fn providers(&self) -> Result<Vec<String>, OrtError> {
        let table = &self.environment.runtime.table;
        let mut names = ptr::null_mut();
        let mut count = 0;
        // SAFETY: both pointers are to variables of the right type.
        let status = unsafe { (table.GetAvailableProviders)(&raw mut names, &raw mut count) };
        check(table, "GetAvailableProviders", status)?;
        // SAFETY: the runtime has just stored that many texts there.
        let copies = unsafe { copy_texts(names, count) };
        // SAFETY: the list as it was handed out, given back once.
        let status = unsafe { (table.ReleaseAvailableProviders)(names, count) };
        check(table, "ReleaseAvailableProviders", status)?;
        Ok(copies)
    }

    /// Loads a model from a file.
    ///
    /// # Errors
    ///
    /// When an option is refused or the model cannot be loaded, with the runtime's own message.
    pub fn session(&self, config: &SessionConfig, model: &Path) -> Result<Session, OrtError> {
        Session::load(&self.environment, config, model)
    }
}

impl Environment {
    fn new(runtime: Arc<Runtime>) -> Result<Self, OrtError> {
        let table = &runtime.table;
        let name = c_text("edgedyno")?;
        let handle = Handle::make(&runtime, "CreateEnv", table.ReleaseEnv, |out| {
            // SAFETY: the name is a C text and is copied; `out` takes an environment.
            unsafe { (table.CreateEnv)(LOG_WARNINGS, name.as_ptr(), out) }
        })?;
        // Builds with telemetry exist for Windows only so far; nothing of ours shall call home anyway.
        // SAFETY: the environment is alive.
        let status = unsafe { (table.DisableTelemetryEvents)(handle.as_ptr()) };
        check(table, "DisableTelemetryEvents", status)?;
        Ok(Self { handle, runtime })
    }
}

/// Reads the version, and the table only of a version that has it.
///
/// # Safety
///
/// The functions of `base` must be those of an ONNX Runtime.
unsafe fn connect(base: &OrtApiBase, path: &Path) -> Result<(String, Table), OrtError> {
    // SAFETY: it takes nothing and returns a constant of the library.
    let version = unsafe { (base.version_string)() };
    // SAFETY: null or a zero-terminated constant.
    let version = unsafe { owned_text(version) }.unwrap_or_default();
    let no_interface = |reason: String| OrtError::NoInterface {
        version: version.clone(),
        needed: API_VERSION,
        reason,
    };

    match major_and_minor(&version) {
        None => return Err(no_interface("its version cannot be read".into())),
        Some((major, minor)) if (major, minor) < (1, API_VERSION) => {
            let (path, found, needed) = (path.into(), version, format!("1.{API_VERSION}"));
            return Err(LoadError::TooOld {
                path,
                found,
                needed,
            }
            .into());
        }
        Some(_) => {}
    }
    // SAFETY: the version is one that the library is old enough to know.
    let slots = unsafe { (base.get_api)(API_VERSION) };
    if slots.is_null() {
        return Err(no_interface("it has no such table".into()));
    }
    // SAFETY: the table was asked for by this version.
    let table = unsafe { Table::read(slots) };
    let table = table.map_err(|name| no_interface(format!("its table has no {name}")))?;
    Ok((version, table))
}

fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// # Safety
///
/// `texts` must point to `count` zero-terminated texts.
unsafe fn copy_texts(texts: *mut *mut c_char, count: c_int) -> Vec<String> {
    let mut copies = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: inside the array that the caller vouches for.
        let slot = unsafe { texts.add(index) };
        // SAFETY: as above.
        let text = unsafe { slot.read() };
        // SAFETY: as above.
        copies.extend(unsafe { owned_text(text) });
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::onnxruntime::sys::Slot;

    extern "C" fn no_table(_: u32) -> *const Slot {
        ptr::null()
    }

    extern "C" fn never_asked(version: u32) -> *const Slot {
        panic!("asked for table {version}")
    }

    macro_rules! base {
        ($version:literal, $get_api:ident) => {{
            extern "C" fn version_string() -> *const c_char {
                $version.as_ptr()
            }
            OrtApiBase {
                get_api: $get_api,
                version_string,
            }
        }};
    }

    fn refused(base: &OrtApiBase) -> OrtError {
        // SAFETY: the functions of these bases are harmless.
        unsafe { connect(base, Path::new("/lib/libonnxruntime.so")) }
            .map(|(version, _)| version)
            .unwrap_err()
    }

    #[test]
    fn an_old_library_is_not_asked_for_a_table_it_cannot_have() {
        let error = refused(&base!(c"1.16.3", never_asked));

        let expected = LoadError::TooOld {
            path: "/lib/libonnxruntime.so".into(),
            found: "1.16.3".into(),
            needed: "1.17".into(),
        };
        assert_eq!(error, OrtError::Load(expected));
    }

    #[test]
    fn versions_compare_as_numbers_and_not_as_text() {
        assert!(matches!(
            refused(&base!(c"1.9.0", never_asked)),
            OrtError::Load(LoadError::TooOld { .. })
        ));
        assert!(matches!(
            refused(&base!(c"0.99", never_asked)),
            OrtError::Load(LoadError::TooOld { .. })
        ));
    }

    #[test]
    fn a_library_without_the_table_or_a_version_is_refused() {
        for base in [
            base!(c"1.32.0", no_table),
            base!(c"2.0.0", no_table),
            base!(c"main", never_asked),
        ] {
            assert!(matches!(refused(&base), OrtError::NoInterface { .. }));
        }
    }
}
