//! What became of each hook: written at the JVM boundary, read by the dispatcher.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What became of one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    /// Flink has not loaded the class yet.
    NotSeen,
    /// The method is hooked.
    Installed,
    /// The class is there but is not hooked, and why.
    Refused(String),
}

impl HookState {
    /// As it stands in `agent.started`.
    pub fn text(&self) -> String {
        match self {
            HookState::NotSeen => "not seen yet".to_owned(),
            HookState::Installed => "installed".to_owned(),
            HookState::Refused(reason) => reason.clone(),
        }
    }
}

/// The states of all hooks, by class name. Its lock is taken while classes load, never at an announcement.
#[derive(Debug, Default)]
pub struct HookStates {
    states: Mutex<BTreeMap<String, HookState>>,
    changes: AtomicU64,
}

impl HookStates {
    /// None of these classes is seen yet.
    pub fn new(classes: &[&str]) -> Self {
        let states = classes.iter().map(|class| ((*class).to_owned(), HookState::NotSeen)).collect();
        Self { states: Mutex::new(states), changes: AtomicU64::new(0) }
    }

    /// The class is hooked.
    pub fn installed(&self, class: &str) {
        self.set(class, HookState::Installed);
    }

    /// The class is not hooked, and why.
    pub fn refused(&self, class: &str, reason: String) {
        self.set(class, HookState::Refused(reason));
    }

    /// Counts the changes, so that a reader sees at no cost whether there is anything new.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// All states as of now.
    pub fn snapshot(&self) -> BTreeMap<String, HookState> {
        self.states.lock().clone()
    }

    fn set(&self, class: &str, state: HookState) {
        self.states.lock().insert(class.to_owned(), state);
        self.changes.fetch_add(1, Ordering::Release);
    }
}
