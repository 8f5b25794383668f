//! Cells: elements of shared memory that others may write at any moment. Each load and each store
//! is a relaxed atomic access of the element's alignment. So a race with another thread is not
//! undefined behaviour, and a race with another process looks the same. A reader can see an element
//! that is wider than its alignment (a complex number) half written.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{align_of, size_of, MaybeUninit};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

use crate::dtype::Element;

/// An element that can be read and written while others do so too. `&[SharedCell<T>]` is the safe
/// view of writable shared memory.
#[repr(transparent)]
pub struct SharedCell<T>(UnsafeCell<T>);

/// An element that can be read while others write it. The memory itself may be read-only.
#[repr(transparent)]
pub struct ReadCell<T>(UnsafeCell<T>);

// SAFETY: every access is atomic, and T is Send and Sync itself.
unsafe impl<T: Element> Sync for SharedCell<T> {}
// SAFETY: as above, and there are only loads.
unsafe impl<T: Element> Sync for ReadCell<T> {}

impl<T: Element> SharedCell<T> {
    /// Makes a cell in this process's own memory, for tests and for code that takes cells.
    pub const fn new(value: T) -> SharedCell<T> {
        SharedCell(UnsafeCell::new(value))
    }

    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: self is a living, aligned T, and all accesses to it are atomic.
        unsafe { load(self.0.get()) }
    }

    /// Writes the value.
    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: as above, and a SharedCell is only made over memory that may be written.
        unsafe { store(self.0.get(), value) }
    }

    /// Returns the address.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Element> ReadCell<T> {
    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: self is a living, aligned T, and all accesses to it are atomic. Relaxed loads of
        // up to 8 bytes are allowed on memory that is mapped read-only ("Atomic accesses to
        // read-only memory" in std::sync::atomic).
        unsafe { load(self.0.get()) }
    }

    /// Returns the address.
    pub const fn as_ptr(&self) -> *const T {
        self.0.get()
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for SharedCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for ReadCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// # Safety
/// `at` is aligned and readable for a T, and others access it only atomically.
#[inline]
unsafe fn load<T: Element>(at: *mut T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr();
    for unit in 0..size_of::<T>() / align_of::<T>() {
        // SAFETY: T consists of units of its alignment (Element), so both addresses lie inside a T
        // and are aligned.
        unsafe {
            match align_of::<T>() {
                1 => to
                    .cast::<u8>()
                    .add(unit)
                    .write(AtomicU8::from_ptr(at.cast::<u8>().add(unit)).load(Ordering::Relaxed)),
                2 => to
                    .cast::<u16>()
                    .add(unit)
                    .write(AtomicU16::from_ptr(at.cast::<u16>().add(unit)).load(Ordering::Relaxed)),
                4 => to
                    .cast::<u32>()
                    .add(unit)
                    .write(AtomicU32::from_ptr(at.cast::<u32>().add(unit)).load(Ordering::Relaxed)),
                8 => to
                    .cast::<u64>()
                    .add(unit)
                    .write(AtomicU64::from_ptr(at.cast::<u64>().add(unit)).load(Ordering::Relaxed)),
                _ => unreachable!("Element allows alignments of 1, 2, 4 and 8"),
            }
        }
    }
    // SAFETY: all units were written, and every pattern is a T (Element).
    unsafe { value.assume_init() }
}

/// # Safety
/// `at` is aligned and writable for a T, and others access it only atomically.
#[inline]
unsafe fn store<T: Element>(at: *mut T, value: T) {
    let from = &value as *const T;
    for unit in 0..size_of::<T>() / align_of::<T>() {
        // SAFETY: as in load. T has no padding, so all of it is initialised.
        unsafe {
            match align_of::<T>() {
                1 => AtomicU8::from_ptr(at.cast::<u8>().add(unit))
                    .store(from.cast::<u8>().add(unit).read(), Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast::<u16>().add(unit))
                    .store(from.cast::<u16>().add(unit).read(), Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast::<u32>().add(unit))
                    .store(from.cast::<u32>().add(unit).read(), Ordering::Relaxed),
                8 => AtomicU64::from_ptr(at.cast::<u64>().add(unit))
                    .store(from.cast::<u64>().add(unit).read(), Ordering::Relaxed),
                _ => unreachable!("Element allows alignments of 1, 2, 4 and 8"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Bool;

    fn round_trip<T: Element + PartialEq + fmt::Debug>(one: T, other: T) {
        let cell = SharedCell::new(one);
        assert_eq!(cell.get(), one);
        cell.set(other);
        assert_eq!(cell.get(), other);
        // SAFETY: both types are transparent over the same type.
        let read = unsafe { &*(&cell as *const SharedCell<T>).cast::<ReadCell<T>>() };
        assert_eq!(read.get(), other);
    }

    #[test]
    fn pure_every_width() {
        round_trip(1u8, 255);
        round_trip(-2i16, 300);
        round_trip(1.5f32, -0.25);
        round_trip(u64::MAX, 0x0102_0304_0506_0708);
        round_trip([1.5f32, 2.5], [-1.0, 0.5]);
        round_trip([1e300f64, 2.5], [-1.0, 0.5]);
        round_trip(Bool(0), Bool(7));
    }

    #[test]
    fn pure_threads_race() {
        let cells: Vec<SharedCell<u32>> = (0..4).map(SharedCell::new).collect();
        std::thread::scope(|scope| {
            for value in 0..3 {
                let cells = &cells;
                scope.spawn(move || {
                    for cell in cells {
                        cell.set(value);
                        assert!(cell.get() < 4);
                    }
                });
            }
        });
        assert!(cells.iter().all(|cell| cell.get() < 3));
    }
}
