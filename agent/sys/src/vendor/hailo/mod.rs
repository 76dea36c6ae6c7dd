//! HailoRT, for the temperature of its chips alone (hailort.h of version 4: `hailo_get_chip_temperature`).
//!
//! Power is left alone: to measure it the library reprograms the chip's sensor, which another process may be
//! using. Not tried on a device.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;

use super::loader::{LoadError, SharedLibrary};
use super::search::Wanted;

/// Where the library is looked for.
pub const WANTED: Wanted = Wanted {
    variables: &["EDGEDYNO_HAILO_LIBRARY"],
    files: &["libhailort.so"],
    folders: &[],
    python_folders: &[],
};

/// hailo_device_id_t: HAILO_MAX_DEVICE_ID_LENGTH bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceId([u8; 32]);

/// hailo_chip_temperature_info_t.
#[repr(C)]
struct Temperatures {
    first: f32,
    second: f32,
    samples: u16,
}

type Handle = *mut c_void;

/// What can go wrong with HailoRT.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HailoError {
    /// The library cannot be used here.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call failed with a hailo_status.
    #[error("{call} failed with status {status}")]
    Status {
        /// The function.
        call: &'static str,
        /// The vendor's own number.
        status: i32,
    },
}

struct Table {
    scan: unsafe extern "C" fn(*mut c_void, *mut DeviceId, *mut usize) -> c_int,
    create: unsafe extern "C" fn(*const DeviceId, *mut Handle) -> c_int,
    release: unsafe extern "C" fn(Handle) -> c_int,
    temperature: unsafe extern "C" fn(Handle, *mut Temperatures) -> c_int,
}

const NEEDED: &[&str] = &[
    "hailo_scan_devices",
    "hailo_create_device_by_id",
    "hailo_release_device",
    "hailo_get_chip_temperature",
];

/// The devices of this board. Dropped, they are released.
pub struct Hailo {
    table: Table,
    devices: Vec<Handle>,
    _library: SharedLibrary,
}

impl Hailo {
    /// Opens the library and all devices: runs the vendor's code, so call it in a process that may crash.
    ///
    /// # Errors
    /// When it cannot be opened, or refuses.
    pub fn open(path: &Path) -> Result<Self, HailoError> {
        let library = SharedLibrary::open(path, NEEDED)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field's type is the signature that hailort.h gives this name.
                unsafe { library.function($name) }
            };
        }
        let table = Table {
            scan: function!("hailo_scan_devices")?,
            create: function!("hailo_create_device_by_id")?,
            release: function!("hailo_release_device")?,
            temperature: function!("hailo_get_chip_temperature")?,
        };
        let mut ids = [DeviceId([0; 32]); 8];
        let mut count = ids.len();
        // SAFETY: no parameters are allowed, and room and its size are told.
        let status = unsafe { (table.scan)(ptr::null_mut(), ids.as_mut_ptr(), &raw mut count) };
        check("hailo_scan_devices", status)?;
        let mut hailo = Self {
            table,
            devices: Vec::new(),
            _library: library,
        };
        for id in ids.iter().take(count) {
            let mut device: Handle = ptr::null_mut();
            // SAFETY: the id came from the scan, and one handle is written.
            let status = unsafe { (hailo.table.create)(id, &raw mut device) };
            check("hailo_create_device_by_id", status)?;
            hailo.devices.push(device);
        }
        Ok(hailo)
    }

    /// How many devices there are.
    pub fn count(&self) -> usize {
        self.devices.len()
    }

    /// The warmer of a chip's two sensors, in degrees Celsius.
    ///
    /// # Errors
    /// What the library says.
    pub fn celsius(&self, device: usize) -> Result<f32, HailoError> {
        let mut out = Temperatures {
            first: f32::NAN,
            second: f32::NAN,
            samples: 0,
        };
        // SAFETY: the handle came from the library and is released in drop only; one structure is written.
        let status = unsafe { (self.table.temperature)(self.devices[device], &raw mut out) };
        check("hailo_get_chip_temperature", status)?;
        Ok(out.first.max(out.second))
    }
}

impl Drop for Hailo {
    fn drop(&mut self) {
        for device in &self.devices {
            // SAFETY: each handle came from the library, and is released once.
            unsafe { (self.table.release)(*device) };
        }
    }
}

fn check(call: &'static str, status: c_int) -> Result<(), HailoError> {
    match status {
        0 => Ok(()),
        status => Err(HailoError::Status { call, status }),
    }
}
