// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Wrapping`]: as many values as a queue has slots, by an index that counts on round the queue.

/// A power of two of values.
pub(crate) struct Wrapping<T> {
    values: Box<[T]>,
    /// Values, less one.
    mask: usize,
}

impl<T> Wrapping<T> {
    /// `1 << log2` values.
    pub(crate) fn new(log2: u8, value: impl FnMut(usize) -> T) -> Self {
        let values: Box<[T]> = (0..1 << log2).map(value).collect();
        Self { mask: values.len() - 1, values }
    }

    /// That of an index.
    #[inline]
    pub(crate) fn at(&self, index: u16) -> &T {
        // SAFETY: the number of values is a power of two, and the mask, one less, keeps the index below it.
        unsafe { self.values.get_unchecked(usize::from(index) & self.mask) }
    }
}

#[cfg(test)]
mod tests {
    use super::Wrapping;

    #[test]
    fn an_index_counts_on_round_the_values() {
        for log2 in [0, 1, 5, 15] {
            let values = Wrapping::new(log2, |i| i);
            for index in [0, 1, 2, 31, 32, 33, 32767, 32768, 65535] {
                assert_eq!(*values.at(index), usize::from(index) % (1 << log2), "{index} of 2^{log2}");
            }
        }
    }
}
