//! Counting what a thread asks of the allocator, for tests and benchmarks that say "nothing".

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Const and without a destructor: reading it neither allocates nor fails, at any time of a thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting calls by thread. A program chooses it with
/// `#[global_allocator] static COUNTING: CountingAllocator = CountingAllocator;`
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

/// Calls of this thread so far: memory taken, resized and given back. Stays at zero where the program's
/// allocator is not [`CountingAllocator`].
pub fn calls_of_this_thread() -> u64 {
    CALLS.get()
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: every method hands its arguments and its result on unchanged to the system's allocator, which
// keeps the contract; counting touches neither memory nor layout, and cannot unwind or allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise (a layout with a size above zero), handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise (a layout with a size above zero), handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise (a block of ours with this layout, which is the system's).
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise (a block of ours with this layout, which is the system's).
        unsafe { System.dealloc(block, layout) }
    }
}
