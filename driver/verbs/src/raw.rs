// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Raw`]: a structure that the program reads and writes, too.

use std::cell::UnsafeCell;

/// The part of an object that C programs see. They may read and write it at any time, so this library makes no reference to it.
#[repr(transparent)]
pub struct Raw<T>(UnsafeCell<T>);

// SAFETY: it gives pointers only.
unsafe impl<T> Sync for Raw<T> {}
// SAFETY: its pointers are those of C, which may go to any thread.
unsafe impl<T> Send for Raw<T> {}

impl<T> Raw<T> {
    /// With these values.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The pointer that programs have.
    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// Declares how an object of this library is found by the pointer of its first part, which programs have.
macro_rules! object {
    ($object:ty, $part:ty) => {
        impl $object {
            /// The object of a program's pointer.
            ///
            /// # Safety
            /// The pointer came from this library, and the object lives.
            #[allow(dead_code)]
            pub unsafe fn of<'a>(part: *mut $part) -> &'a Self {
                // SAFETY: the part is the object's first, and this library gave the pointer of the whole.
                unsafe { &*part.cast::<Self>() }
            }

            /// The pointer that programs have. It is that of the whole object, to which `of` goes back.
            #[allow(dead_code)]
            pub fn pointer(&self) -> *mut $part {
                core::ptr::from_ref(self).cast_mut().cast()
            }

            /// The object of a program's pointer, which the program gives back.
            ///
            /// # Safety
            /// As of `of`; nothing uses it any more.
            #[allow(dead_code)]
            pub unsafe fn back(part: *mut $part) -> Box<Self> {
                // SAFETY: `give` made the pointer of a box.
                unsafe { Box::from_raw(part.cast::<Self>()) }
            }

            /// Gives the object to the program.
            #[allow(dead_code)]
            pub fn give(self: Box<Self>) -> *mut $part {
                Box::into_raw(self).cast()
            }
        }
    };
}

pub(crate) use object;
