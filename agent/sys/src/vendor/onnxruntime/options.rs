//! Writes a configuration into the runtime's session options.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::config::{Provider, SessionConfig};
use super::handle::Handle;
use super::result::{OrtError, c_number, c_text, check};
use super::runtime::Runtime;
use super::sys::{OrtSessionOptions, OrtStatus};

type Options = Handle<OrtSessionOptions>;

/// Makes the runtime's options from a configuration.
pub(super) fn session_options(
    runtime: &Arc<Runtime>,
    config: &SessionConfig,
) -> Result<Options, OrtError> {
    let options = Handle::make(
        runtime,
        "CreateSessionOptions",
        runtime.table.ReleaseSessionOptions,
        |out| {
            // SAFETY: `out` takes session options.
            unsafe { (runtime.table.CreateSessionOptions)(out) }
        },
    )?;
    let writer = Writer { runtime, options };
    writer.threads(config)?;
    writer.execution(config)?;
    writer.files(config)?;
    writer.entries(config)?;
    config
        .providers
        .iter()
        .try_for_each(|provider| writer.provider(provider))?;
    Ok(writer.options)
}

struct Writer<'a> {
    runtime: &'a Runtime,
    options: Options,
}

type SetNumber = unsafe extern "C" fn(*mut OrtSessionOptions, c_int) -> *mut OrtStatus;
type SetText = unsafe extern "C" fn(*mut OrtSessionOptions, *const c_char) -> *mut OrtStatus;
type Switch = unsafe extern "C" fn(*mut OrtSessionOptions) -> *mut OrtStatus;

impl Writer<'_> {
    fn threads(&self, config: &SessionConfig) -> Result<(), OrtError> {
        let table = &self.runtime.table;
        if let Some(threads) = config.intra_threads {
            self.number(
                "SetIntraOpNumThreads",
                table.SetIntraOpNumThreads,
                c_number("intra_threads", threads)?,
            )?;
        }
        if let Some(threads) = config.inter_threads {
            self.number(
                "SetInterOpNumThreads",
                table.SetInterOpNumThreads,
                c_number("inter_threads", threads)?,
            )?;
        }
        Ok(())
    }

    fn execution(&self, config: &SessionConfig) -> Result<(), OrtError> {
        let table = &self.runtime.table;
        let level = config.optimization as c_int;
        self.number(
            "SetSessionGraphOptimizationLevel",
            table.SetSessionGraphOptimizationLevel,
            level,
        )?;
        self.number(
            "SetSessionExecutionMode",
            table.SetSessionExecutionMode,
            config.execution as c_int,
        )?;
        if !config.cpu_arena {
            self.switch("DisableCpuMemArena", table.DisableCpuMemArena)?;
        }
        if !config.memory_pattern {
            self.switch("DisableMemPattern", table.DisableMemPattern)?;
        }
        Ok(())
    }

    fn files(&self, config: &SessionConfig) -> Result<(), OrtError> {
        let table = &self.runtime.table;
        if let Some(prefix) = &config.profile_prefix {
            self.text(
                "EnableProfiling",
                table.EnableProfiling,
                &c_text(prefix.as_os_str().as_bytes())?,
            )?;
        }
        if let Some(path) = &config.optimized_model {
            let path = c_text(path.as_os_str().as_bytes())?;
            self.text(
                "SetOptimizedModelFilePath",
                table.SetOptimizedModelFilePath,
                &path,
            )?;
        }
        Ok(())
    }

    fn entries(&self, config: &SessionConfig) -> Result<(), OrtError> {
        let table = &self.runtime.table;
        for (key, value) in &config.entries {
            let (key, value) = (c_text(key.as_str())?, c_text(value.as_str())?);
            // SAFETY: live options and two C texts, which are copied.
            let status = unsafe {
                (table.AddSessionConfigEntry)(self.options.as_ptr(), key.as_ptr(), value.as_ptr())
            };
            check(table, "AddSessionConfigEntry", status)?;
        }
        for (name, size) in &config.dimensions {
            let name = c_text(name.as_str())?;
            let size = i64::try_from(*size).map_err(|_| OrtError::OutOfRange {
                what: "dimension",
                value: *size,
            })?;
            // SAFETY: live options and a C text, which is copied.
            let status = unsafe {
                (table.AddFreeDimensionOverrideByName)(self.options.as_ptr(), name.as_ptr(), size)
            };
            check(table, "AddFreeDimensionOverrideByName", status)?;
        }
        Ok(())
    }

    fn provider(&self, provider: &Provider) -> Result<(), OrtError> {
        let table = &self.runtime.table;
        let name = c_text(provider.name.as_str())?;
        let keys = provider
            .options
            .iter()
            .map(|(key, _)| c_text(key.as_str()))
            .collect::<Result<Vec<_>, _>>()?;
        let values = provider
            .options
            .iter()
            .map(|(_, value)| c_text(value.as_str()))
            .collect::<Result<Vec<_>, _>>()?;
        let (keys, values) = (pointers(&keys), pointers(&values));
        let (options, append) = (
            self.options.as_ptr(),
            table.SessionOptionsAppendExecutionProvider,
        );
        // SAFETY: live options, and two arrays of `keys.len()` C texts, which are copied.
        let status = unsafe {
            append(
                options,
                name.as_ptr(),
                keys.as_ptr(),
                values.as_ptr(),
                keys.len(),
            )
        };
        check(table, "SessionOptionsAppendExecutionProvider", status)
    }

    fn number(&self, call: &'static str, set: SetNumber, value: c_int) -> Result<(), OrtError> {
        // SAFETY: the options are alive, and the number is passed by value.
        let status = unsafe { set(self.options.as_ptr(), value) };
        check(&self.runtime.table, call, status)
    }

    fn text(&self, call: &'static str, set: SetText, text: &CString) -> Result<(), OrtError> {
        // SAFETY: the options are alive, and the text is copied.
        let status = unsafe { set(self.options.as_ptr(), text.as_ptr()) };
        check(&self.runtime.table, call, status)
    }

    fn switch(&self, call: &'static str, switch: Switch) -> Result<(), OrtError> {
        // SAFETY: the options are alive.
        let status = unsafe { switch(self.options.as_ptr()) };
        check(&self.runtime.table, call, status)
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}
