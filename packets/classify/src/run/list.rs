//! Short lists whose room is not written before it is used: a call with few packets pays for few.
#![allow(unsafe_code, reason = "reading what has been written")]

use core::mem::MaybeUninit;

/// Up to `N` items. Those before `count` have been written.
pub(super) struct List<T, const N: usize> {
    items: [MaybeUninit<T>; N],
    count: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    #[inline(always)]
    pub fn new() -> Self {
        List { items: [const { MaybeUninit::uninit() }; N], count: 0 }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Holds `count` times the same item.
    ///
    /// # Panics
    ///
    /// If that is more than there is room for.
    #[inline(always)]
    pub fn fill(&mut self, count: usize, item: T) {
        self.items[..count].fill(MaybeUninit::new(item));
        self.count = count;
    }

    /// Adds items at the end until it is dropped.
    #[inline(always)]
    pub fn writer(&mut self) -> Writer<'_, T, N> {
        let List { items, count: kept } = self;
        let count = *kept;
        Writer { items, kept, count }
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        let written = &self.items[..self.count];
        // SAFETY: `fill` and the writers count only what they have written.
        unsafe { written.assume_init_ref() }
    }

    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let written = &mut self.items[..self.count];
        // SAFETY: `fill` and the writers count only what they have written.
        unsafe { written.assume_init_mut() }
    }
}

/// What adds items to a list. Unlike the list's own, its count can live in a register.
pub(super) struct Writer<'a, T, const N: usize> {
    items: &'a mut [MaybeUninit<T>; N],
    kept: &'a mut usize,
    count: usize,
}

impl<T: Copy, const N: usize> Writer<'_, T, N> {
    /// Writes an item down, and keeps it if `keep`: no branch depends on that.
    ///
    /// # Panics
    ///
    /// If the list is full, even if the item is not to be kept.
    #[inline(always)]
    pub fn push_if(&mut self, keep: bool, item: T) {
        self.items[self.count].write(item);
        self.count += usize::from(keep);
    }

    #[inline(always)]
    pub fn push(&mut self, item: T) {
        self.push_if(true, item);
    }
}

impl<T, const N: usize> Drop for Writer<'_, T, N> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.kept = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_was_kept() {
        let mut list = List::<u8, 4>::new();
        let mut writer = list.writer();
        for item in 0..7 {
            writer.push_if(item % 2 == 0 && item < 6, item);
        }
        drop(writer);
        assert_eq!(list.as_slice(), [0, 2, 4]);
        list.as_mut_slice()[1] = 9;
        list.writer().push(7);
        assert_eq!((list.as_slice(), list.len()), (&[0, 9, 4, 7][..], 4));
        list.clear();
        assert!(list.as_slice().is_empty());
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_full_list_takes_nothing() {
        let mut list = List::<u8, 1>::new();
        list.writer().push(1);
        list.writer().push_if(false, 2);
    }
}
