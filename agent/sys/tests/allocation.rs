//! The timed call allocates nothing on this side; in a process of its own because it counts.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use edgedyno_sys::vendor::onnxruntime::{OutputChoice, SessionConfig};
use edgedyno_sys::vendor::tensor::Tensor;
use edgedyno_sys::vendor::value::ElementType;
use support::{packaged_model, runtime};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_run_allocates_nothing_here() {
    let Some(runtime) = runtime() else { return };
    let session = runtime
        .session(
            &SessionConfig::default(),
            &packaged_model(&runtime, "mul_1.onnx"),
        )
        .unwrap();
    let x = Tensor::zeroed(ElementType::F32, &[3, 2]).unwrap();
    let mut binding = session
        .bind(vec![("X".into(), x)], OutputChoice::All)
        .unwrap();
    binding.run().unwrap();

    let before = ALLOCATIONS.get();
    let failed = (0..1000).filter(|_| binding.run().is_err()).count();
    let after = ALLOCATIONS.get();

    assert_eq!(failed, 0);
    assert_eq!(after - before, 0);
}
