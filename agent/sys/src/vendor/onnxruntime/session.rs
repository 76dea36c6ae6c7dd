//! A loaded model.

use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use super::binding::{Binding, OutputChoice};
use super::config::SessionConfig;
use super::describe::{inputs_of, outputs_of};
use super::handle::Handle;
use super::options::session_options;
use super::result::{OrtError, c_text, check, owned_text};
use super::runtime::{Environment, Runtime};
use super::sys::{OrtAllocator, OrtSession};
use crate::vendor::tensor::Tensor;
use crate::vendor::value::ValueInfo;

/// A loaded model; a clone is the same session.
///
/// Several bindings of one session may run at the same time on threads of their own.
#[derive(Clone)]
pub struct Session {
    core: Arc<Core>,
}

struct Core {
    // Fields are dropped in this order: the session goes before its environment.
    handle: Handle<OrtSession>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    environment: Arc<Environment>,
}

// SAFETY: the header documents a session as usable from several threads at once.
unsafe impl Sync for Core {}

impl Session {
    pub(super) fn load(
        environment: &Arc<Environment>,
        config: &SessionConfig,
        model: &Path,
    ) -> Result<Self, OrtError> {
        let runtime = &environment.runtime;
        let table = &runtime.table;
        let options = session_options(runtime, config)?;
        let path = c_text(model.as_os_str().as_bytes())?;
        let handle = Handle::make(runtime, "CreateSession", table.ReleaseSession, |out| {
            // SAFETY: environment and options are alive, the path is a C text, `out` takes a session.
            unsafe {
                (table.CreateSession)(
                    environment.handle.as_ptr(),
                    path.as_ptr(),
                    options.as_ptr(),
                    out,
                )
            }
        })?;
        let allocator = default_allocator(runtime)?;
        let inputs = inputs_of(runtime, &handle, allocator)?;
        let outputs = outputs_of(runtime, &handle, allocator)?;
        Ok(Self {
            core: Arc::new(Core {
                handle,
                inputs,
                outputs,
                environment: Arc::clone(environment),
            }),
        })
    }

    /// The inputs in the model's order, with sizes set by the configuration filled in.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.core.inputs
    }

    /// The outputs in the model's order.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.core.outputs
    }

    /// Binds tensors to all inputs and prepares the outputs, so that a run is one call.
    ///
    /// # Errors
    ///
    /// When a tensor is missing or does not fit its input, or an output cannot be bound.
    pub fn bind(
        &self,
        inputs: Vec<(String, Tensor)>,
        outputs: OutputChoice<'_>,
    ) -> Result<Binding, OrtError> {
        Binding::new(self, inputs, outputs)
    }

    /// Ends profiling and names the file that was written.
    ///
    /// # Errors
    ///
    /// As the runtime reports them. Without a `profile_prefix` the name is empty (seen).
    pub fn end_profiling(&self) -> Result<PathBuf, OrtError> {
        let runtime = self.runtime();
        let allocator = default_allocator(runtime)?;
        let mut name = ptr::null_mut();
        // SAFETY: session and allocator are alive, `name` takes a text; the profiler locks its events itself.
        let status =
            unsafe { (runtime.table.SessionEndProfiling)(self.as_ptr(), allocator, &raw mut name) };
        check(&runtime.table, "SessionEndProfiling", status)?;
        take_text(runtime, allocator, name).map(PathBuf::from)
    }

    /// When profiling started, in nanoseconds of the wall clock; time stamps in the file count from here.
    ///
    /// # Errors
    ///
    /// As the runtime reports them.
    pub fn profiling_start_ns(&self) -> Result<u64, OrtError> {
        let table = &self.runtime().table;
        let mut start = 0;
        // SAFETY: the session is alive, and `start` takes the number.
        let status =
            unsafe { (table.SessionGetProfilingStartTimeNs)(self.as_ptr(), &raw mut start) };
        check(table, "SessionGetProfilingStartTimeNs", status)?;
        Ok(start)
    }

    #[inline]
    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.core.environment.runtime
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut OrtSession {
        self.core.handle.as_ptr()
    }
}

/// The allocator for texts and lists; it belongs to the runtime and is never released.
pub(super) fn default_allocator(runtime: &Runtime) -> Result<*mut OrtAllocator, OrtError> {
    let mut allocator = ptr::null_mut();
    // SAFETY: `allocator` takes the pointer.
    let status = unsafe { (runtime.table.GetAllocatorWithDefaultOptions)(&raw mut allocator) };
    check(&runtime.table, "GetAllocatorWithDefaultOptions", status)?;
    Ok(allocator)
}

/// Copies a text that the runtime allocated for us, and gives it back.
pub(super) fn take_text(
    runtime: &Runtime,
    allocator: *mut OrtAllocator,
    text: *mut c_char,
) -> Result<String, OrtError> {
    // SAFETY: null or a zero-terminated text, ours until freed below.
    let copy = unsafe { owned_text(text) }.unwrap_or_default();
    // SAFETY: allocated by this allocator for the caller, and freed once.
    let status = unsafe { (runtime.table.AllocatorFree)(allocator, text.cast()) };
    check(&runtime.table, "AllocatorFree", status)?;
    Ok(copy)
}
