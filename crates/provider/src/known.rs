//! What is found out about a key once.

use std::sync::OnceLock;

/// What is found out about a key when somebody first asks: something, or that there is nothing.
/// Where that could not be told, as without memory, the next who asks tries again.
pub(crate) struct Known<T>(OnceLock<Option<T>>);

/// Whether there is something could not be told.
#[derive(Debug)]
pub(crate) struct Untold;

impl<T> Known<T> {
    /// One that nobody has asked for.
    pub(crate) const fn new() -> Self {
        Known(OnceLock::new())
    }

    /// One that is told.
    pub(crate) fn of(something: T) -> Self {
        Known(Some(something).into())
    }

    /// What there is, found now if nobody has. Of several threads that find it, all get the same.
    pub(crate) fn get_or_find(
        &self,
        find: impl FnOnce() -> Result<Option<T>, Untold>,
    ) -> Option<&T> {
        if !self.is_told() {
            let _ = self.0.set(find().ok()?);
        }
        self.get()
    }

    /// What there is, if it has been found.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()?.as_ref()
    }

    /// Whether it was found, or that there is nothing.
    pub(crate) fn is_told(&self) -> bool {
        self.0.get().is_some()
    }

    /// Says what there is; false if that is told.
    pub(crate) fn tell(&self, something: Option<T>) -> bool {
        self.0.set(something).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_told_is_asked_for_again() {
        let known = Known::new();
        assert_eq!(known.get_or_find(|| Err(Untold)), None);
        assert!(!known.is_told());
        assert_eq!(known.get_or_find(|| Ok(Some(1))), Some(&1));
        assert_eq!(known.get_or_find(|| panic!("it is told")), Some(&1));
        let nothing = Known::<u8>::new();
        assert_eq!(nothing.get_or_find(|| Ok(None)), None);
        assert_eq!(nothing.get_or_find(|| panic!("there is nothing")), None);
    }
}
