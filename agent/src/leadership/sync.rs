//! The one place that chooses between the real primitives of the hand-over and their models under loom.
//!
//! The model keeps what the hand-over relies on: a cell that is read and compare-and-set as one step, and a bounded
//! channel that refuses when it is full.

#[cfg(not(feature = "loom-model"))]
pub use real::*;

#[cfg(feature = "loom-model")]
pub use model::*;

#[cfg(not(feature = "loom-model"))]
mod real {
    use std::sync::Arc;

    use arc_swap::{ArcSwap, ArcSwapOption};

    pub use crossbeam_channel::{Receiver, Sender, bounded};
    pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// A shared value that is replaced as a whole.
    #[derive(Debug)]
    pub struct Cell<T>(ArcSwap<T>);

    impl<T> Cell<T> {
        pub fn new(value: Arc<T>) -> Self {
            Self(ArcSwap::new(value))
        }

        pub fn load(&self) -> Arc<T> {
            self.0.load_full()
        }

        /// Looks at the value without a share of it.
        pub fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> R {
            look(&self.0.load())
        }

        /// Puts `new` in if `current` still stands; says whether it did.
        pub fn compare_and_set(&self, current: &Arc<T>, new: Arc<T>) -> bool {
            let before = self.0.compare_and_swap(current, new);
            Arc::ptr_eq(&before, current)
        }
    }

    /// A link to an older value, which can be cut.
    #[derive(Debug)]
    pub struct Link<T>(ArcSwapOption<T>);

    impl<T> Link<T> {
        pub fn new(value: Option<Arc<T>>) -> Self {
            Self(ArcSwapOption::new(value))
        }

        pub fn load(&self) -> Option<Arc<T>> {
            self.0.load_full()
        }

        pub fn cut(&self) {
            self.0.store(None);
        }
    }
}

#[cfg(feature = "loom-model")]
mod model {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use loom::sync::Mutex;
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[derive(Debug)]
    pub struct Cell<T>(Mutex<Arc<T>>);

    impl<T> Cell<T> {
        pub fn new(value: Arc<T>) -> Self {
            Self(Mutex::new(value))
        }

        pub fn load(&self) -> Arc<T> {
            self.0.lock().expect("a model's lock is never poisoned").clone()
        }

        pub fn peek<R>(&self, look: impl FnOnce(&T) -> R) -> R {
            look(&self.load())
        }

        pub fn compare_and_set(&self, current: &Arc<T>, new: Arc<T>) -> bool {
            let mut value = self.0.lock().expect("a model's lock is never poisoned");
            let stands = Arc::ptr_eq(&value, current);
            if stands {
                *value = new;
            }
            stands
        }
    }

    #[derive(Debug)]
    pub struct Link<T>(Mutex<Option<Arc<T>>>);

    impl<T> Link<T> {
        pub fn new(value: Option<Arc<T>>) -> Self {
            Self(Mutex::new(value))
        }

        pub fn load(&self) -> Option<Arc<T>> {
            self.0.lock().expect("a model's lock is never poisoned").clone()
        }

        pub fn cut(&self) {
            *self.0.lock().expect("a model's lock is never poisoned") = None;
        }
    }

    #[derive(Debug)]
    pub enum TrySendError<T> {
        Full(T),
    }

    struct Queue<T> {
        waiting: Mutex<VecDeque<T>>,
        capacity: usize,
    }

    pub struct Sender<T>(Arc<Queue<T>>);
    pub struct Receiver<T>(Arc<Queue<T>>);

    pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Queue { waiting: Mutex::new(VecDeque::new()), capacity });
        (Sender(queue.clone()), Receiver(queue))
    }

    impl<T> Sender<T> {
        pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
            let mut waiting = self.0.waiting.lock().expect("a model's lock is never poisoned");
            if waiting.len() == self.0.capacity {
                return Err(TrySendError::Full(value));
            }
            waiting.push_back(value);
            Ok(())
        }
    }

    impl<T> Receiver<T> {
        pub fn try_recv(&self) -> Option<T> {
            self.0.waiting.lock().expect("a model's lock is never poisoned").pop_front()
        }
    }
}
