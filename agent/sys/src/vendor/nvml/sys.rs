//! Types and functions of nvml.h that are used here.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use crate::vendor::loader::{LoadError, SharedLibrary};

/// nvmlDevice_t, a handle of the library's own.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Device(pub(super) *mut c_void);

/// nvmlUtilization_t.
#[repr(C)]
pub(super) struct Utilization {
    pub(super) gpu: c_uint,
    pub(super) memory: c_uint,
}

/// nvmlMemory_t.
#[repr(C)]
pub(super) struct Memory {
    pub(super) total: c_ulonglong,
    pub(super) free: c_ulonglong,
    pub(super) used: c_ulonglong,
}

type Plain = unsafe extern "C" fn() -> c_int;
type Number = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type Long = unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int;
type Of = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;

/// The functions; those in an `Option` came later, or may go.
pub(super) struct Table {
    pub(super) init: Plain,
    pub(super) shutdown: Plain,
    pub(super) count: unsafe extern "C" fn(*mut c_uint) -> c_int,
    pub(super) handle: unsafe extern "C" fn(c_uint, *mut Device) -> c_int,
    pub(super) utilization: Option<unsafe extern "C" fn(Device, *mut Utilization) -> c_int>,
    pub(super) memory: Option<unsafe extern "C" fn(Device, *mut Memory) -> c_int>,
    pub(super) clock: Option<Of>,
    pub(super) temperature: Option<Of>,
    pub(super) power: Option<Number>,
    pub(super) energy: Option<Long>,
    pub(super) reasons: Option<Long>,
    pub(super) state: Option<unsafe extern "C" fn(Device, *mut c_int) -> c_int>,
}

/// What every version has.
pub(super) const NEEDED: &[&str] = &[
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
];

impl Table {
    pub(super) fn of(library: &SharedLibrary) -> Result<Self, LoadError> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field's type is the signature that nvml.h gives this name.
                unsafe { library.function($name) }
            };
        }
        Ok(Self {
            init: function!("nvmlInit_v2")?,
            shutdown: function!("nvmlShutdown")?,
            count: function!("nvmlDeviceGetCount_v2")?,
            handle: function!("nvmlDeviceGetHandleByIndex_v2")?,
            utilization: function!("nvmlDeviceGetUtilizationRates").ok(),
            memory: function!("nvmlDeviceGetMemoryInfo").ok(),
            clock: function!("nvmlDeviceGetClockInfo").ok(),
            temperature: function!("nvmlDeviceGetTemperature").ok(),
            power: function!("nvmlDeviceGetPowerUsage").ok(),
            energy: function!("nvmlDeviceGetTotalEnergyConsumption").ok(),
            // The same by its older name, which newer libraries keep.
            reasons: function!("nvmlDeviceGetCurrentClocksEventReasons")
                .or_else(|_| function!("nvmlDeviceGetCurrentClocksThrottleReasons"))
                .ok(),
            state: function!("nvmlDeviceGetPerformanceState").ok(),
        })
    }
}
