//! Arrays that are cheap to copy: a copy shares all pages that are not changed afterwards.

use std::sync::Arc;

/// Elements of a page.
const PAGE: usize = 64;

/// An array of any length in pages. What lies beyond the end is the default.
#[derive(Clone, Debug)]
pub(super) struct Paged<T> {
    pages: Vec<Arc<[T; PAGE]>>,
}

impl<T: Clone + Default> Paged<T> {
    /// Room for `count` elements, all of them the default. They share one page.
    pub fn new(count: usize) -> Self {
        let blank = Arc::new(std::array::from_fn(|_| T::default()));
        Paged { pages: vec![blank; count.div_ceil(PAGE)] }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index / PAGE).map(|page| &page[index % PAGE])
    }

    /// The element, in a page of our own.
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        &mut Arc::make_mut(&mut self.pages[index / PAGE])[index % PAGE]
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter())
    }
}

/// A set of small numbers.
#[derive(Clone, Debug)]
pub(super) struct Bits(Paged<u64>);

impl Bits {
    /// Room for the numbers below `count`, none of which is in it.
    pub fn new(count: usize) -> Self {
        Bits(Paged::new(count.div_ceil(64)))
    }

    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub fn insert(&mut self, number: usize) {
        *self.0.get_mut(number / 64) |= 1 << (number % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_it_was() {
        let mut numbers = Bits::new(5000);
        numbers.insert(4999);
        let before = numbers.clone();
        numbers.insert(0);
        numbers.insert(64 * 64);
        let held = |bits: &Bits| (0..6000).filter(|&n| bits.contains(n)).collect::<Vec<_>>();
        assert_eq!(held(&before), [4999]);
        assert_eq!(held(&numbers), [0, 4096, 4999]);
    }
}
