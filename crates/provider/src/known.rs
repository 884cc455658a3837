//! What is made or found out once, at its first use.

use std::sync::OnceLock;

/// Something that is made at its first use. If that fails, for want of memory, say, the next use
/// tries again. Of several threads that make it, all get the same one.
pub(crate) struct Retried<T>(OnceLock<T>);

impl<T> Retried<T> {
    /// One that has not been made yet.
    pub(crate) const fn new() -> Self {
        Retried(OnceLock::new())
    }

    /// One that is there already.
    pub(crate) fn of(made: T) -> Self {
        Retried(made.into())
    }

    /// What there is, made now if there is nothing.
    pub(crate) fn get_or_try(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        if self.get().is_none() {
            self.set(make()?);
        }
        self.get()
    }

    /// What there is.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Takes what was made; false if there was something before.
    pub(crate) fn set(&self, made: T) -> bool {
        self.0.set(made).is_ok()
    }
}

/// A fact about a key, found on the first [`get_or_find`](Self::get_or_find): a value, or that the
/// key has none.
pub(crate) struct Known<T>(Retried<Option<T>>);

/// It could not be found out whether there is a value.
#[derive(Debug)]
pub(crate) struct Unknown;

impl<T> Known<T> {
    /// One that has not been found yet.
    pub(crate) const fn new() -> Self {
        Known(Retried::new())
    }

    /// One that is known to have this value.
    pub(crate) fn of(something: T) -> Self {
        Known(Retried::of(Some(something)))
    }

    /// The value, found now if it has not been before.
    pub(crate) fn get_or_find(
        &self,
        find: impl FnOnce() -> Result<Option<T>, Unknown>,
    ) -> Option<&T> {
        self.0.get_or_try(|| find().ok())?.as_ref()
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
        self.0.set(something)
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
