//! The one place where writers hand a value to readers who never wait; and the stand-in with which
//! loom explores what is built upon it.

#[cfg(not(loom))]
mod cell {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use arc_swap::cache::Cache;

    /// A value that is replaced as a whole.
    #[derive(Debug)]
    pub struct Published<T>(Arc<ArcSwap<T>>);

    /// A reader's hold on the latest value that it has seen.
    #[derive(Debug)]
    pub struct View<T>(Cache<Arc<ArcSwap<T>>, Arc<T>>);

    impl<T> Published<T> {
        pub fn new(value: Arc<T>) -> Self {
            Published(Arc::new(ArcSwap::new(value)))
        }

        /// Replaces the value, and returns the one before.
        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            self.0.swap(value)
        }

        pub fn latest(&self) -> Arc<T> {
            self.0.load_full()
        }

        pub fn view(&self) -> View<T> {
            View(Cache::new(Arc::clone(&self.0)))
        }
    }

    impl<T> View<T> {
        /// The latest value. If it is the one seen last, this costs one load.
        #[inline]
        pub fn latest(&mut self) -> &Arc<T> {
            self.0.load()
        }
    }

    impl<T> Clone for View<T> {
        fn clone(&self) -> Self {
            View(self.0.clone())
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
    pub struct View<T>(Shared<Mutex<Arc<T>>>, Arc<T>);

    impl<T> Published<T> {
        pub fn new(value: Arc<T>) -> Self {
            Published(Shared::new(Mutex::new(value)))
        }

        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), value)
        }

        pub fn latest(&self) -> Arc<T> {
            Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        pub fn view(&self) -> View<T> {
            View(Shared::clone(&self.0), self.latest())
        }
    }

    impl<T> View<T> {
        pub fn latest(&mut self) -> &Arc<T> {
            self.1 = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
            &self.1
        }
    }

    impl<T> Clone for View<T> {
        fn clone(&self) -> Self {
            View(Shared::clone(&self.0), Arc::clone(&self.1))
        }
    }
}

pub use cell::{Published, View};
