//! From a code of NVML to an error.

use std::ffi::c_int;

use crate::vendor::loader::LoadError;

/// What can go wrong with NVML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// The library cannot be used here.
    #[error("{0}")]
    Load(LoadError),
    /// A call failed with a code of nvmlReturn_t.
    #[error("{call} failed with code {code}")]
    Code {
        /// The function.
        call: &'static str,
        /// The vendor's own number.
        code: i32,
    },
}

/// NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION and NVML_ERROR_GPU_IS_LOST.
const NOT_SUPPORTED: i32 = 3;
const NO_PERMISSION: i32 = 4;
const GPU_IS_LOST: i32 = 15;

impl NvmlError {
    pub(super) const fn lacks(call: &'static str) -> Self {
        Self::Code {
            call,
            code: NOT_SUPPORTED,
        }
    }

    /// This device, or this version of the library, has no such figure.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Code { code, .. } if *code == NOT_SUPPORTED)
    }

    /// This user may not read it.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Code { code, .. } if *code == NO_PERMISSION)
    }

    /// The device has gone from its bus.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Code { code, .. } if *code == GPU_IS_LOST)
    }
}

pub(super) fn check(call: &'static str, code: c_int) -> Result<(), NvmlError> {
    match code {
        0 => Ok(()),
        code => Err(NvmlError::Code { call, code }),
    }
}
