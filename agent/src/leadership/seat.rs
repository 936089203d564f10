//! One seat: its standing, and the changes that are not handled yet.
//!
//! Any number of Flink's threads record announcements; one dispatcher handles what changed. The order in which the
//! states were swapped in is the only order there is. Each state links the one before it; the dispatcher walks from the
//! present state back to the last one that it handled, handles the oldest first, and cuts the link behind it. A wake-up
//! that comes late finds nothing to do.

use std::sync::Arc;

use super::ids::{SeatKey, SessionId};
use super::observation::Announcement;
use super::sync::{AtomicU64, Cell, Link, Ordering};
use super::transition::{self, Change, Standing};
use crate::clock::Moment;

/// How many unhandled states a seat links at the most. Beyond that the newest takes the place of the one before it, so
/// that a dispatcher that stands still costs bounded memory; how many were left out is told.
const MOST_UNHANDLED: u64 = if cfg!(feature = "loom-model") { 2 } else { 64 };

#[derive(Debug)]
struct State {
    /// Counts every state that the seat ever had; the first is 0.
    sequence: u64,
    /// How many unhandled states hang on this one, itself included.
    unhandled: u64,
    standing: Standing,
    step: Option<Step>,
    previous: Link<State>,
}

#[derive(Debug, Clone)]
struct Step {
    change: Change,
    at: Moment,
}

/// A change to handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatChange {
    /// Whose leadership changed.
    pub seat: SeatKey,
    /// What changed.
    pub change: Change,
    /// When it was announced.
    pub at: Moment,
    /// How many changes right before this one were left out, because the dispatcher was too far behind.
    pub left_out: u64,
}

/// A seat on the board.
#[derive(Debug)]
pub struct Seat {
    key: SeatKey,
    state: Cell<State>,
    /// Sequence of the last state that the dispatcher handled. Written by the dispatcher only.
    handled: AtomicU64,
}

impl Seat {
    /// A seat of which nothing was announced yet.
    pub fn new(key: SeatKey) -> Self {
        let standing = Standing::default();
        let first = State { sequence: 0, unhandled: 0, standing, step: None, previous: Link::new(None) };
        Self { key, state: Cell::new(Arc::new(first)), handled: AtomicU64::new(0) }
    }

    /// Whose seat it is.
    pub fn key(&self) -> SeatKey {
        self.key
    }

    /// Who leads, as of now.
    pub fn standing(&self) -> Standing {
        self.state.load().standing.clone()
    }

    /// Whether that leader leads, as of now.
    pub fn is_led_by(&self, id: SessionId) -> bool {
        self.state.peek(|state| state.standing.leader().is_some_and(|leader| leader.id == id))
    }

    /// Takes an announcement in; says whether anything changed. Lock-free: a loop of compare-and-swap.
    pub fn record(&self, announcement: &Announcement, at: Moment) -> bool {
        loop {
            let present = self.state.load();
            let Some((standing, change)) = transition::next(&present.standing, announcement, at) else {
                return false;
            };
            let next = Arc::new(self.successor(&present, standing, Step { change, at }));
            if self.state.compare_and_set(&present, next) {
                return true;
            }
        }
    }

    fn successor(&self, present: &Arc<State>, standing: Standing, step: Step) -> State {
        let sequence = present.sequence + 1;
        let step = Some(step);
        if present.sequence <= self.handled.load(Ordering::Acquire) {
            return State { sequence, unhandled: 1, standing, step, previous: Link::new(None) };
        }
        if present.unhandled < MOST_UNHANDLED {
            let previous = Link::new(Some(present.clone()));
            return State { sequence, unhandled: present.unhandled + 1, standing, step, previous };
        }
        let previous = Link::new(present.previous.load());
        State { sequence, unhandled: present.unhandled, standing, step, previous }
    }

    /// Handles every change since the last call, oldest first. Only one thread may call it.
    pub fn handle(&self, mut handle: impl FnMut(SeatChange)) {
        let newest = self.state.load();
        let mut handled = self.handled.load(Ordering::Acquire);
        for state in unhandled_oldest_first(&newest, handled) {
            let left_out = state.sequence - handled - 1;
            handled = state.sequence;
            let Some(Step { change, at }) = state.step.clone() else { continue };
            handle(SeatChange { seat: self.key, change, at, left_out });
        }
        self.handled.store(handled, Ordering::Release);
        newest.previous.cut();
    }
}

fn unhandled_oldest_first(newest: &Arc<State>, handled: u64) -> Vec<Arc<State>> {
    let mut states = Vec::new();
    let mut next = Some(newest.clone());
    while let Some(state) = next.filter(|state| state.sequence > handled) {
        next = state.previous.load();
        states.push(state);
    }
    states.reverse();
    states
}

#[cfg(all(test, not(feature = "loom-model")))]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::leadership::{Component, Leader, SessionId};

    fn announce(id: u128) -> Announcement {
        Announcement::Leader(Some(Leader { id: SessionId(id), address: None }))
    }

    fn handled(seat: &Seat) -> Vec<SeatChange> {
        let mut changes = Vec::new();
        seat.handle(|change| changes.push(change));
        changes
    }

    #[test]
    fn every_change_is_handled_once_and_in_order() {
        let now = ManualClock::default().now();
        let seat = Seat::new(SeatKey::cluster(Component::ResourceManager));
        assert!(seat.record(&announce(1), now));
        assert!(!seat.record(&announce(1), now));
        assert!(seat.record(&announce(2), now));
        let changes: Vec<Change> = handled(&seat).into_iter().map(|c| c.change).collect();
        assert!(matches!(changes[..], [Change::Elected { .. }, Change::Moved { .. }]));
        assert!(handled(&seat).is_empty());
        assert!(seat.record(&announce(3), now));
        assert_eq!(handled(&seat).len(), 1);
    }

    #[test]
    fn a_dispatcher_that_stands_still_costs_bounded_memory_and_learns_what_was_left_out() {
        let now = ManualClock::default().now();
        let seat = Seat::new(SeatKey::cluster(Component::ResourceManager));
        for id in 1..=1000 {
            assert!(seat.record(&announce(id), now));
        }
        let changes = handled(&seat);
        assert_eq!(changes.len() as u64, MOST_UNHANDLED);
        let left_out: u64 = changes.iter().map(|c| c.left_out).sum();
        assert_eq!(left_out, 1000 - MOST_UNHANDLED);
        assert!(matches!(&changes[changes.len() - 1].change, Change::Moved { new, .. } if new.id == SessionId(1000)));
    }
}
