//! The timed call allocates nothing on this side; in a process of its own because it counts.

mod support;

use edgedyno_sys::kernel::allocations::{CountingAllocator, calls_of_this_thread};
use edgedyno_sys::vendor::onnxruntime::{OutputChoice, SessionConfig};
use edgedyno_sys::vendor::tensor::Tensor;
use edgedyno_sys::vendor::value::ElementType;
use support::{packaged_model, runtime};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

#[test]
fn what_is_allocated_and_given_back_is_counted() {
    let before = calls_of_this_thread();
    let mut block = std::hint::black_box(vec![1_u8]);
    block.reserve_exact(1000);
    drop(std::hint::black_box(block));
    assert_eq!(calls_of_this_thread() - before, 3);
}

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

    let before = calls_of_this_thread();
    let failed = (0..1000).filter(|_| binding.run().is_err()).count();
    let after = calls_of_this_thread();

    assert_eq!(failed, 0);
    assert_eq!(after - before, 0);
}
