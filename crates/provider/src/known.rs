//! A fact about a key that is found out once, on demand.

use std::sync::OnceLock;

/// A fact about a key, found on the first [`get_or_find`](Self::get_or_find): a value, or that the
/// key has none. If that failed, for want of memory, say, the next call tries again.
pub(crate) struct Known<T>(OnceLock<Option<T>>);

/// It could not be found out whether there is a value.
#[derive(Debug)]
pub(crate) struct Unknown;

impl<T> Known<T> {
    /// One that has not been found yet.
    pub(crate) const fn new() -> Self {
        Known(OnceLock::new())
    }

    /// One that is known to have this value.
    pub(crate) fn of(something: T) -> Self {
        Known(Some(something).into())
    }

    /// The value, found now if it has not been before. All threads that call this get the same one.
    pub(crate) fn get_or_find(
        &self,
        find: impl FnOnce() -> Result<Option<T>, Unknown>,
    ) -> Option<&T> {
        if !self.is_known() {
            let _ = self.0.set(find().ok()?);
        }
        self.get()
    }

    /// The value, if one has been found.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()?.as_ref()
    }

    /// Whether it has been found that there is a value, or that there is none.
    pub(crate) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the value, or that there is none; false if that was known before.
    pub(crate) fn set(&self, something: Option<T>) -> bool {
        self.0.set(something).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_found_is_looked_for_again() {
        let known = Known::new();
        assert_eq!(known.get_or_find(|| Err(Unknown)), None);
        assert!(!known.is_known());
        assert_eq!(known.get_or_find(|| Ok(Some(1))), Some(&1));
        assert_eq!(known.get_or_find(|| panic!("it is known")), Some(&1));
        let nothing = Known::<u8>::new();
        assert_eq!(nothing.get_or_find(|| Ok(None)), None);
        assert_eq!(nothing.get_or_find(|| panic!("there is nothing")), None);
    }
}
