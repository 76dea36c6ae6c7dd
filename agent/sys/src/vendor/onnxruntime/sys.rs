//! The C types of ONNX Runtime and the part of its function table that is used here.
//!
//! `OrtGetApiBase` is the only symbol the library exports for this; it leads to a table of function
//! pointers that only ever grows at the end. So an index is valid in every later version, and a test
//! compares each with the position of the same name in the header.

use std::ffi::{c_char, c_int, c_void};

/// The interface version asked for: all slots below exist in it. It came with release 1.17.
pub(super) const API_VERSION: u32 = 17;

/// `ORT_LOGGING_LEVEL_WARNING`.
pub(super) const LOG_WARNINGS: c_int = 2;
/// `ONNX_TYPE_TENSOR`.
pub(super) const TYPE_TENSOR: c_int = 1;
/// `OrtDeviceAllocator`.
pub(super) const DEVICE_ALLOCATOR: c_int = 0;
/// `OrtMemTypeDefault`.
pub(super) const MEMORY_DEFAULT: c_int = 0;

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    OrtStatus OrtEnv OrtSession OrtSessionOptions OrtRunOptions OrtIoBinding OrtValue OrtTypeInfo
    OrtTensorTypeAndShapeInfo OrtMemoryInfo OrtAllocator
}

/// What `OrtGetApiBase` returns.
#[repr(C)]
pub(super) struct OrtApiBase {
    /// Null for a version beyond the library's own, with a line on stderr (seen).
    pub(super) get_api: unsafe extern "C" fn(version: u32) -> *const Slot,
    pub(super) version_string: unsafe extern "C" fn() -> *const c_char,
}

pub(super) type GetApiBase = unsafe extern "C" fn() -> *const OrtApiBase;

/// A function of the table before it has its type.
pub(super) type Slot = *const c_void;

type Status = *mut OrtStatus;
type Text = *const c_char;

macro_rules! table {
    ($($index:literal $name:ident fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions used, under their names in the header.
        #[expect(non_snake_case, reason = "the names of the header can be searched for")]
        pub(super) struct Table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Table {
            /// Takes the functions out of the vendor's table, or names one that is missing.
            ///
            /// # Safety
            ///
            /// `slots` must be what `get_api` returned for [`API_VERSION`] or a later version.
            pub(super) unsafe fn read(slots: *const Slot) -> Result<Self, &'static str> {
                $(
                    // SAFETY: the caller's table has at least the slots of `API_VERSION`, this among them.
                    let slot = unsafe { slots.add($index) };
                    let slot = slot.cast::<Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>>();
                    // SAFETY: it holds null or a function of this type, according to the header.
                    let function = unsafe { slot.read() };
                    #[expect(non_snake_case, reason = "the names of the header can be searched for")]
                    let $name = function.ok_or(stringify!($name))?;
                )*
                Ok(Self { $($name),* })
            }
        }

        #[cfg(test)]
        mod tests {
            #[test]
            fn every_slot_is_where_the_header_has_it() {
                $(
                    let index = std::mem::offset_of!(ort_sys::OrtApi, $name) / size_of::<usize>();
                    assert_eq!($index, index, "slot of {}", stringify!($name));
                )*
            }
        }
    };
}

table! {
    1 GetErrorCode fn(*const OrtStatus) -> c_int;
    2 GetErrorMessage fn(*const OrtStatus) -> Text;
    3 CreateEnv fn(c_int, Text, *mut *mut OrtEnv) -> Status;
    6 DisableTelemetryEvents fn(*const OrtEnv) -> Status;
    7 CreateSession fn(*const OrtEnv, Text, *const OrtSessionOptions, *mut *mut OrtSession) -> Status;
    10 CreateSessionOptions fn(*mut *mut OrtSessionOptions) -> Status;
    11 SetOptimizedModelFilePath fn(*mut OrtSessionOptions, Text) -> Status;
    13 SetSessionExecutionMode fn(*mut OrtSessionOptions, c_int) -> Status;
    14 EnableProfiling fn(*mut OrtSessionOptions, Text) -> Status;
    17 DisableMemPattern fn(*mut OrtSessionOptions) -> Status;
    19 DisableCpuMemArena fn(*mut OrtSessionOptions) -> Status;
    23 SetSessionGraphOptimizationLevel fn(*mut OrtSessionOptions, c_int) -> Status;
    24 SetIntraOpNumThreads fn(*mut OrtSessionOptions, c_int) -> Status;
    25 SetInterOpNumThreads fn(*mut OrtSessionOptions, c_int) -> Status;
    30 SessionGetInputCount fn(*const OrtSession, *mut usize) -> Status;
    31 SessionGetOutputCount fn(*const OrtSession, *mut usize) -> Status;
    33 SessionGetInputTypeInfo fn(*const OrtSession, usize, *mut *mut OrtTypeInfo) -> Status;
    34 SessionGetOutputTypeInfo fn(*const OrtSession, usize, *mut *mut OrtTypeInfo) -> Status;
    36 SessionGetInputName fn(*const OrtSession, usize, *mut OrtAllocator, *mut *mut c_char) -> Status;
    37 SessionGetOutputName fn(*const OrtSession, usize, *mut OrtAllocator, *mut *mut c_char) -> Status;
    39 CreateRunOptions fn(*mut *mut OrtRunOptions) -> Status;
    49 CreateTensorWithDataAsOrtValue
        fn(*const OrtMemoryInfo, *mut c_void, usize, *const i64, usize, c_int, *mut *mut OrtValue) -> Status;
    51 GetTensorMutableData fn(*mut OrtValue, *mut *mut c_void) -> Status;
    55 CastTypeInfoToTensorInfo fn(*const OrtTypeInfo, *mut *const OrtTensorTypeAndShapeInfo) -> Status;
    56 GetOnnxTypeFromTypeInfo fn(*const OrtTypeInfo, *mut c_int) -> Status;
    60 GetTensorElementType fn(*const OrtTensorTypeAndShapeInfo, *mut c_int) -> Status;
    61 GetDimensionsCount fn(*const OrtTensorTypeAndShapeInfo, *mut usize) -> Status;
    62 GetDimensions fn(*const OrtTensorTypeAndShapeInfo, *mut i64, usize) -> Status;
    63 GetSymbolicDimensions fn(*const OrtTensorTypeAndShapeInfo, *mut Text, usize) -> Status;
    65 GetTensorTypeAndShape fn(*const OrtValue, *mut *mut OrtTensorTypeAndShapeInfo) -> Status;
    69 CreateCpuMemoryInfo fn(c_int, c_int, *mut *mut OrtMemoryInfo) -> Status;
    76 AllocatorFree fn(*mut OrtAllocator, *mut c_void) -> Status;
    78 GetAllocatorWithDefaultOptions fn(*mut *mut OrtAllocator) -> Status;
    92 ReleaseEnv fn(*mut OrtEnv);
    93 ReleaseStatus fn(*mut OrtStatus);
    94 ReleaseMemoryInfo fn(*mut OrtMemoryInfo);
    95 ReleaseSession fn(*mut OrtSession);
    96 ReleaseValue fn(*mut OrtValue);
    97 ReleaseRunOptions fn(*mut OrtRunOptions);
    98 ReleaseTypeInfo fn(*mut OrtTypeInfo);
    99 ReleaseTensorTypeAndShapeInfo fn(*mut OrtTensorTypeAndShapeInfo);
    100 ReleaseSessionOptions fn(*mut OrtSessionOptions);
    110 SessionEndProfiling fn(*mut OrtSession, *mut OrtAllocator, *mut *mut c_char) -> Status;
    124 AddFreeDimensionOverrideByName fn(*mut OrtSessionOptions, Text, i64) -> Status;
    125 GetAvailableProviders fn(*mut *mut *mut c_char, *mut c_int) -> Status;
    126 ReleaseAvailableProviders fn(*mut *mut c_char, c_int) -> Status;
    130 AddSessionConfigEntry fn(*mut OrtSessionOptions, Text, Text) -> Status;
    133 RunWithBinding fn(*mut OrtSession, *const OrtRunOptions, *const OrtIoBinding) -> Status;
    134 CreateIoBinding fn(*mut OrtSession, *mut *mut OrtIoBinding) -> Status;
    135 ReleaseIoBinding fn(*mut OrtIoBinding);
    136 BindInput fn(*mut OrtIoBinding, Text, *const OrtValue) -> Status;
    137 BindOutput fn(*mut OrtIoBinding, Text, *const OrtValue) -> Status;
    138 BindOutputToDevice fn(*mut OrtIoBinding, Text, *const OrtMemoryInfo) -> Status;
    140 GetBoundOutputValues
        fn(*const OrtIoBinding, *mut OrtAllocator, *mut *mut *mut OrtValue, *mut usize) -> Status;
    142 ClearBoundOutputs fn(*mut OrtIoBinding);
    146 SessionGetProfilingStartTimeNs fn(*const OrtSession, *mut u64) -> Status;
    165 AddRunConfigEntry fn(*mut OrtRunOptions, Text, Text) -> Status;
    216 SessionOptionsAppendExecutionProvider
        fn(*mut OrtSessionOptions, Text, *const Text, *const Text, usize) -> Status;
    254 GetBuildInfoString fn() -> Text;
}
