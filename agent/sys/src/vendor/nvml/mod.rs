//! NVIDIA's management library, libnvidia-ml.so.1: what a GPU does (nvml.h, the part that has been the same
//! since driver 450).
//!
//! Functions that a version lacks are looked for one by one: their figures are not supported then. Jetson
//! boards from JetPack 7 on have the library and answer some of it with `NOT_SUPPORTED`.

mod result;
mod sys;

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::path::Path;

pub use self::result::NvmlError;
use self::result::check;
use self::sys::{Device, Memory, Table, Utilization};
use super::loader::{LoadError, SharedLibrary};
use super::search::Wanted;

/// Where the library is looked for.
pub const WANTED: Wanted = Wanted {
    variables: &["EDGEDYNO_NVML_LIBRARY"],
    files: &["libnvidia-ml.so.1", "libnvidia-ml.so"],
    folders: &["/usr/lib/aarch64-linux-gnu/nvidia", "/usr/lib/wsl/lib"],
    python_folders: &[],
};

/// The library, initialised. Dropped, it is shut down.
pub struct Nvml {
    table: Table,
    _library: SharedLibrary,
}

/// A GPU of it.
#[derive(Clone, Copy)]
pub struct Gpu<'a> {
    nvml: &'a Nvml,
    device: Device,
}

/// Which clock (nvmlClockType_t).
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub enum ClockOf {
    Graphics = 0,
    Multiprocessors = 1,
    Memory = 2,
}

impl Nvml {
    /// Opens and initialises it: runs the vendor's code, so call it in a process that may crash.
    ///
    /// # Errors
    /// When it cannot be opened, lacks what no version lacks, or refuses.
    pub fn open(path: &Path) -> Result<Self, NvmlError> {
        let library = SharedLibrary::open(path, sys::NEEDED)?;
        let table = Table::of(&library)?;
        // SAFETY: it takes nothing, and may be called at any time.
        check("nvmlInit_v2", unsafe { (table.init)() })?;
        Ok(Self {
            table,
            _library: library,
        })
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// What the library says.
    pub fn count(&self) -> Result<u32, NvmlError> {
        let mut count: c_uint = 0;
        // SAFETY: the library is initialised, and writes one number.
        check("nvmlDeviceGetCount_v2", unsafe {
            (self.table.count)(&raw mut count)
        })?;
        Ok(count)
    }

    /// The GPU of that number.
    ///
    /// # Errors
    /// What the library says.
    pub fn gpu(&self, number: u32) -> Result<Gpu<'_>, NvmlError> {
        let mut device = Device(std::ptr::null_mut());
        // SAFETY: the library is initialised, and writes one handle, which is good until it is shut down.
        let code = unsafe { (self.table.handle)(number, &raw mut device) };
        check("nvmlDeviceGetHandleByIndex_v2", code)?;
        Ok(Gpu { nvml: self, device })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: it was initialised once, and no GPU outlives it.
        unsafe { (self.table.shutdown)() };
    }
}

impl Gpu<'_> {
    /// Share of the time in which a kernel ran, and in which memory was read or written, in percent.
    ///
    /// # Errors
    /// What the library says.
    pub fn utilization(&self) -> Result<(u32, u32), NvmlError> {
        const CALL: &str = "nvmlDeviceGetUtilizationRates";
        let get = self.nvml.table.utilization.ok_or(NvmlError::lacks(CALL))?;
        let mut out = Utilization { gpu: 0, memory: 0 };
        // SAFETY: the handle is the library's own, and it writes one structure.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok((out.gpu, out.memory))
    }

    /// Bytes of its memory that are in use.
    ///
    /// # Errors
    /// What the library says.
    pub fn memory_used(&self) -> Result<u64, NvmlError> {
        const CALL: &str = "nvmlDeviceGetMemoryInfo";
        let get = self.nvml.table.memory.ok_or(NvmlError::lacks(CALL))?;
        let mut out = Memory {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: the handle is the library's own, and it writes one structure.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok(out.used)
    }

    /// A clock, in MHz.
    ///
    /// # Errors
    /// What the library says.
    pub fn clock_mhz(&self, of: ClockOf) -> Result<u32, NvmlError> {
        const CALL: &str = "nvmlDeviceGetClockInfo";
        let get = self.nvml.table.clock.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_uint = 0;
        // SAFETY: the handle is the library's own, the kind one of its own, and it writes one number.
        check(CALL, unsafe {
            get(self.device, of as c_uint, &raw mut out)
        })?;
        Ok(out)
    }

    /// Degrees Celsius of the chip.
    ///
    /// # Errors
    /// What the library says.
    pub fn celsius(&self) -> Result<u32, NvmlError> {
        /// NVML_TEMPERATURE_GPU.
        const CHIP: c_uint = 0;
        const CALL: &str = "nvmlDeviceGetTemperature";
        let get = self.nvml.table.temperature.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_uint = 0;
        // SAFETY: the handle is the library's own, and it writes one number.
        check(CALL, unsafe { get(self.device, CHIP, &raw mut out) })?;
        Ok(out)
    }

    /// Power of the board in milliwatts.
    ///
    /// # Errors
    /// What the library says.
    pub fn milliwatts(&self) -> Result<u32, NvmlError> {
        const CALL: &str = "nvmlDeviceGetPowerUsage";
        let get = self.nvml.table.power.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_uint = 0;
        // SAFETY: the handle is the library's own, and it writes one number.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok(out)
    }

    /// Energy in millijoules since the driver was loaded.
    ///
    /// # Errors
    /// What the library says.
    pub fn millijoules(&self) -> Result<u64, NvmlError> {
        const CALL: &str = "nvmlDeviceGetTotalEnergyConsumption";
        let get = self.nvml.table.energy.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_ulonglong = 0;
        // SAFETY: the handle is the library's own, and it writes one number.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok(out)
    }

    /// Why its clock is what it is, as bits (nvmlClocksEventReasons).
    ///
    /// # Errors
    /// What the library says.
    pub fn clock_reasons(&self) -> Result<u64, NvmlError> {
        const CALL: &str = "nvmlDeviceGetCurrentClocksEventReasons";
        let get = self.nvml.table.reasons.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_ulonglong = 0;
        // SAFETY: the handle is the library's own, and it writes one number.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok(out)
    }

    /// Its performance state, 0 the fastest.
    ///
    /// # Errors
    /// What the library says.
    pub fn performance_state(&self) -> Result<i32, NvmlError> {
        const CALL: &str = "nvmlDeviceGetPerformanceState";
        let get = self.nvml.table.state.ok_or(NvmlError::lacks(CALL))?;
        let mut out: c_int = 0;
        // SAFETY: the handle is the library's own, and it writes one number.
        check(CALL, unsafe { get(self.device, &raw mut out) })?;
        Ok(out)
    }
}

impl From<LoadError> for NvmlError {
    fn from(why: LoadError) -> Self {
        Self::Load(why)
    }
}
