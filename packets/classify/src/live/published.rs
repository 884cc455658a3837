//! The one place where writers hand a value to readers, which never wait; and the stand-in with
//! which loom explores what is built upon it.

#[cfg(not(loom))]
mod cell {
    use std::sync::Arc;

    use arc_swap::{ArcSwap, Guard};

    /// A value that is replaced as a whole.
    #[derive(Debug)]
    pub struct Published<T>(Arc<ArcSwap<T>>);

    /// A reader's way to the latest value.
    #[derive(Debug)]
    pub struct View<T>(Arc<ArcSwap<T>>);

    /// A reader's hold on a value.
    pub type Latest<T> = Guard<Arc<T>>;

    impl<T> Published<T> {
        pub fn new(value: Arc<T>) -> Self {
            Published(Arc::new(ArcSwap::new(value)))
        }

        /// Replaces the value, and returns the one before. Readers cannot reach that any more; the
        /// `Arc` counts those that still hold it.
        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            self.0.swap(value)
        }

        pub fn latest(&self) -> Latest<T> {
            self.0.load()
        }

        pub fn view(&self) -> View<T> {
            View(Arc::clone(&self.0))
        }
    }

    impl<T> View<T> {
        /// The latest value.
        #[inline]
        pub fn latest(&self) -> Latest<T> {
            self.0.load()
        }
    }

    impl<T> Clone for Published<T> {
        /// Another hand on the same value.
        fn clone(&self) -> Self {
            Published(Arc::clone(&self.0))
        }
    }

    impl<T> Clone for View<T> {
        fn clone(&self) -> Self {
            View(Arc::clone(&self.0))
        }
    }
}

#[cfg(loom)]
mod cell {
    use std::sync::{Arc, PoisonError};

    use loom::sync::{Arc as Shared, Mutex};

    #[derive(Debug)]
    pub struct Published<T>(Shared<Mutex<Arc<T>>>);

    #[derive(Debug)]
    pub struct View<T>(Shared<Mutex<Arc<T>>>);

    pub type Latest<T> = Arc<T>;

    impl<T> Published<T> {
        pub fn new(value: Arc<T>) -> Self {
            Published(Shared::new(Mutex::new(value)))
        }

        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), value)
        }

        pub fn latest(&self) -> Latest<T> {
            Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        pub fn view(&self) -> View<T> {
            View(Shared::clone(&self.0))
        }
    }

    impl<T> View<T> {
        pub fn latest(&self) -> Latest<T> {
            Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl<T> Clone for Published<T> {
        fn clone(&self) -> Self {
            Published(Shared::clone(&self.0))
        }
    }

    impl<T> Clone for View<T> {
        fn clone(&self) -> Self {
            View(Shared::clone(&self.0))
        }
    }
}

pub use cell::{Latest, Published, View};
