//! One owner for every object of ONNX Runtime: all of them are released by a function of their own.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::result::{OrtError, check};
use super::runtime::Runtime;
use super::sys::OrtStatus;

/// An object of the runtime, released on drop; keeps the library's table alive.
pub(super) struct Handle<T> {
    object: NonNull<T>,
    release: unsafe extern "C" fn(*mut T),
    _runtime: Arc<Runtime>,
}

impl<T> Handle<T> {
    /// Owns what `make` stores through the pointer it is given.
    ///
    /// `make` calls a function of the table that hands its result over to the caller.
    pub(super) fn make(
        runtime: &Arc<Runtime>,
        call: &'static str,
        release: unsafe extern "C" fn(*mut T),
        make: impl FnOnce(*mut *mut T) -> *mut OrtStatus,
    ) -> Result<Self, OrtError> {
        let mut object = ptr::null_mut();
        check(&runtime.table, call, make(&raw mut object))?;
        // SAFETY: just handed over by the runtime.
        unsafe { Self::own(runtime, call, release, object) }
    }

    /// Owns an object that the runtime has handed over, or says that `call` gave none.
    ///
    /// # Safety
    ///
    /// `object` must be null or an object of the runtime's that nobody else releases.
    pub(super) unsafe fn own(
        runtime: &Arc<Runtime>,
        call: &'static str,
        release: unsafe extern "C" fn(*mut T),
        object: *mut T,
    ) -> Result<Self, OrtError> {
        let object = NonNull::new(object).ok_or(OrtError::NothingReturned { call })?;
        Ok(Self {
            object,
            release,
            _runtime: Arc::clone(runtime),
        })
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: made by the runtime, owned here alone, and released once.
        unsafe { (self.release)(self.object.as_ptr()) };
    }
}

// SAFETY: the objects of ONNX Runtime belong to no thread; it is enough that not two threads use one
// at the same time, which `&mut` sees to.
unsafe impl<T> Send for Handle<T> {}
