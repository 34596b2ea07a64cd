//! Counts what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            BYTES.fetch_add(layout.size() as isize, Relaxed);
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            BYTES.fetch_sub(layout.size() as isize, Relaxed);
        }
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// The bytes that what it makes takes.
pub fn counted<T>(make: impl FnOnce() -> T) -> isize {
    BYTES.store(0, Relaxed);
    ON.store(true, Relaxed);
    let made = make();
    let bytes = BYTES.load(Relaxed);
    ON.store(false, Relaxed);
    drop(made);
    bytes
}
