// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Lock`]: a mutex that an object of a single-threaded parent domain does without. [`Hold`]: a lock from one call of the program to another.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::thread::futex;

/// No thread has it.
const FREE: u32 = 0;
/// A thread has it.
const TAKEN: u32 = 1;
/// A thread has it, and others may sleep.
const AWAITED: u32 = 2;
/// Looks of a thread before it sleeps.
const LOOKS: u32 = 100;

/// A value that one thread has at a time: by a mutex, or because the program promised so.
///
/// Posting and polling take it each time, so it is one exchange each way when no thread waits. It is never poisoned: a panic ends the process at the border
/// to C.
pub struct Lock<T> {
    /// [`FREE`], [`TAKEN`] or [`AWAITED`].
    state: AtomicU32,
    /// The program uses the object in one thread at a time (`ibv_alloc_td(3)`, `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`).
    single: bool,
    value: UnsafeCell<T>,
}

// SAFETY: a guard is the only way to the value. It holds the mutex, or the program keeps other threads away.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, while this thread has it.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// It stays in its thread.
    _here: PhantomData<*mut T>,
}

impl<T> Lock<T> {
    /// With a mutex, unless the program promised to use the object in one thread at a time.
    pub const fn new(value: T, single_threaded: bool) -> Self {
        Self { state: AtomicU32::new(FREE), single: single_threaded, value: UnsafeCell::new(value) }
    }

    /// Waits for the value.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if !self.single
            && self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            self.wait();
        }
        Guard { lock: self, _here: PhantomData }
    }

    /// Waits until another thread lets it go, and takes it.
    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS {
            match self.state.load(Ordering::Relaxed) {
                FREE if self
                    .state
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok() =>
                {
                    return;
                }
                AWAITED => break,
                _ => spin_loop(),
            }
        }
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            // A failure of the call, such as EINTR, only costs a look.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    #[cold]
    fn wake(&self) {
        let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let lock = self.lock;
        if !lock.single && lock.state.swap(FREE, Ordering::Release) == AWAITED {
            lock.wake();
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one: see `Lock`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// What a thread locked with one call, until it calls again: from `ibv_wr_start` to `ibv_wr_complete`, from `ibv_start_poll` to `ibv_end_poll`.
/// Calls that the same thread makes in between take the value from here.
pub struct Hold<T: 'static> {
    /// A place that the thread has alone; null when nothing is held.
    owner: AtomicPtr<u8>,
    guard: UnsafeCell<Option<Guard<'static, T>>>,
}

// SAFETY: only the thread that holds it uses the guard.
unsafe impl<T: Send> Send for Hold<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Hold<T> {}

impl<T> Default for Hold<T> {
    fn default() -> Self {
        Self { owner: AtomicPtr::new(ptr::null_mut()), guard: UnsafeCell::new(None) }
    }
}

/// A place that the thread has alone.
fn this_thread() -> *mut u8 {
    thread_local!(static PLACE: UnsafeCell<u8> = const { UnsafeCell::new(0) });
    PLACE.with(UnsafeCell::get)
}

impl<T> Hold<T> {
    /// Holds what this thread has locked.
    pub fn begin(&self, guard: Guard<'static, T>) {
        // SAFETY: the guard says that no other thread holds it: `end` takes the old one out before it is dropped.
        unsafe { *self.guard.get() = Some(guard) };
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// The value, if it is held.
    ///
    /// # Safety
    /// If it is, then by this thread, which uses it nowhere else.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "a cell of which the caller promises that it has the value alone"
    )]
    pub unsafe fn get(&self) -> Option<&mut T> {
        // SAFETY: as promised.
        unsafe { (*self.guard.get()).as_deref_mut() }
    }

    /// The value, if this thread holds it.
    ///
    /// # Safety
    /// This thread uses it nowhere else meanwhile.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "as of `get`")]
    pub unsafe fn mine(&self) -> Option<&mut T> {
        let owner = self.owner.load(Ordering::Relaxed);
        // Only this thread stores and removes its own place.
        if owner.is_null() || owner != this_thread() {
            return None;
        }
        // SAFETY: this thread holds it.
        unsafe { self.get() }
    }

    /// Holds it no longer.
    ///
    /// # Safety
    /// As of [`get`](Self::get).
    pub unsafe fn end(&self) -> Option<Guard<'static, T>> {
        // SAFETY: as promised.
        let guard = unsafe { (*self.guard.get()).take() };
        if guard.is_some() {
            self.owner.store(ptr::null_mut(), Ordering::Relaxed);
        }
        guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_value_is_found_by_its_thread_alone() {
        static LOCK: Lock<u8> = Lock::new(1, false);
        let hold = Hold::default();
        let value = || {
            // SAFETY: no reference lives on.
            unsafe { hold.mine() }.map(|value| {
                *value += 1;
                *value
            })
        };
        assert!(value().is_none());
        hold.begin(LOCK.lock());
        assert_eq!(value(), Some(2));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(value().is_none()));
        });
        // SAFETY: this thread has begun.
        let guard = unsafe { hold.end() }.unwrap();
        assert_eq!(*guard, 2);
        assert!(value().is_none());
        // SAFETY: nothing is held.
        assert!(unsafe { hold.end() }.is_none());
    }

    #[test]
    fn threads_take_turns() {
        let lock = Lock::new(0u64, false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(lock.into_inner(), 40_000);
    }

    #[test]
    fn a_thread_that_waits_long_sleeps_until_the_value_is_free() {
        let lock = Lock::new(0u8, false);
        std::thread::scope(|scope| {
            let mut guard = lock.lock();
            let waiters = [0; 3].map(|_| scope.spawn(|| *lock.lock() += 1));
            while lock.state.load(Ordering::Relaxed) != AWAITED {
                std::thread::yield_now();
            }
            assert_eq!(*guard, 0);
            *guard = 10;
            drop(guard);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
        assert_eq!(lock.state.load(Ordering::Relaxed), FREE);
        assert_eq!(lock.into_inner(), 13);
    }

    #[test]
    fn a_single_threaded_object_has_no_mutex() {
        let lock = Lock::new(1u8, true);
        let mut guard = lock.lock();
        *guard += 1;
        assert_eq!(lock.state.load(Ordering::Relaxed), FREE);
        drop(guard);
        assert_eq!(lock.into_inner(), 2);
    }
}
