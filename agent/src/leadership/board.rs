//! The lock-free board: all seats, and the hand-over of their changes to the dispatcher.
//!
//! Flink's thread looks the seat up, swaps its state and does one `try_send` of the seat. Where the channel is full it
//! raises a flag instead, and the dispatcher, which takes the flag at least every 100 ms, then visits all seats. So
//! nothing is lost however far the dispatcher is behind, and Flink's thread never waits.

use std::sync::Arc;

use papaya::HashMap;

use super::ids::{SeatKey, SessionId};
use super::observation::Observation;
use super::seat::{Seat, SeatChange};
use super::sync::{AtomicBool, Ordering, Receiver, Sender, bounded};

/// How many seats may wait in the channel. One slot is a pointer; beyond it the flag serves.
const WAITING_SEATS: usize = if cfg!(feature = "loom-model") { 1 } else { 1024 };

/// All seats that were ever announced in this process.
pub struct Board {
    seats: HashMap<SeatKey, Arc<Seat>>,
    handover: Handover,
}

/// The dispatcher's end of the board.
pub struct Changes {
    waiting: Receiver<Arc<Seat>>,
}

impl Board {
    /// An empty board and the dispatcher's end of it.
    pub fn new() -> (Board, Changes) {
        let (handover, changes) = Handover::new();
        (Board { seats: HashMap::new(), handover }, changes)
    }

    /// Takes an observation in, on Flink's thread: no lock, no input or output, no unbounded allocation.
    pub fn observe(&self, observation: &Observation) {
        let seats = self.seats.pin();
        let seat = seats.get_or_insert_with(observation.seat, || Arc::new(Seat::new(observation.seat)));
        self.handover.record(seat, observation);
    }

    /// Whether an announcement of that leader would say nothing new, whatever its address. On Flink's thread, where most
    /// announcements are such: no allocation.
    pub fn is_led_by(&self, seat: SeatKey, id: SessionId) -> bool {
        self.seats.pin().get(&seat).is_some_and(|seat| seat.is_led_by(id))
    }

    /// All seats, in no order.
    pub fn seats(&self) -> Vec<Arc<Seat>> {
        self.seats.pin().values().cloned().collect()
    }

    /// Handles what did not fit into the channel since the last call. The dispatcher calls this at least every 100 ms.
    pub fn handle_overflow(&self, mut handle: impl FnMut(SeatChange)) {
        if !self.handover.take_overflow() {
            return;
        }
        for seat in self.seats() {
            seat.handle(&mut handle);
        }
    }
}

/// The channel and the flag between Flink's threads and the dispatcher.
struct Handover {
    waiting: Sender<Arc<Seat>>,
    overflow: AtomicBool,
}

impl Handover {
    fn new() -> (Handover, Changes) {
        let (sender, receiver) = bounded(WAITING_SEATS);
        (Handover { waiting: sender, overflow: AtomicBool::new(false) }, Changes { waiting: receiver })
    }

    fn record(&self, seat: &Arc<Seat>, observation: &Observation) {
        if !seat.record(&observation.announcement, observation.at) {
            return;
        }
        if self.waiting.try_send(seat.clone()).is_err() {
            self.overflow.store(true, Ordering::Release);
        }
    }

    fn take_overflow(&self) -> bool {
        self.overflow.swap(false, Ordering::AcqRel)
    }
}

#[cfg(not(feature = "loom-model"))]
impl Changes {
    /// The channel of seats that changed, for `select!`. Each received seat is to be [handled](Seat::handle).
    pub fn waiting(&self) -> &Receiver<Arc<Seat>> {
        &self.waiting
    }
}

#[cfg(all(test, not(feature = "loom-model")))]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::leadership::{Announcement, JobId, Leader, SessionId};

    #[test]
    fn what_does_not_fit_into_the_channel_is_handled_all_the_same() {
        let now = ManualClock::default().now();
        let (board, changes) = Board::new();
        let jobs = WAITING_SEATS as u128 + 500;
        for job in 0..jobs {
            let leader = Some(Leader { id: SessionId(1), address: None });
            board.observe(&Observation {
                seat: SeatKey::job(JobId(job)),
                announcement: Announcement::Leader(leader),
                at: now,
            });
        }
        let mut handled = 0u128;
        while let Ok(seat) = changes.waiting().try_recv() {
            seat.handle(|_| handled += 1);
        }
        assert_eq!(handled, WAITING_SEATS as u128);
        board.handle_overflow(|_| handled += 1);
        assert_eq!(handled, jobs);
        board.handle_overflow(|_| handled += 1);
        assert_eq!(handled, jobs);
    }

    #[test]
    fn many_threads_on_many_seats_lose_nothing() {
        const THREADS: u128 = 4;
        const MOVES: u128 = 500;
        let clock = ManualClock::default();
        let (board, changes) = Board::new();
        let moves = std::sync::atomic::AtomicU64::new(0);
        let done = std::sync::atomic::AtomicBool::new(false);
        let count = |change: SeatChange| {
            moves.fetch_add(1 + change.left_out, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            let dispatcher = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    while let Ok(seat) = changes.waiting().try_recv() {
                        seat.handle(count);
                    }
                    board.handle_overflow(count);
                }
            });
            let hooks: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (board, clock) = (&board, &clock);
                    scope.spawn(move || {
                        for id in 1..=MOVES {
                            board.observe(&Observation {
                                seat: SeatKey::job(JobId(thread)),
                                announcement: Announcement::Leader(Some(Leader { id: SessionId(id), address: None })),
                                at: clock.now(),
                            });
                        }
                    })
                })
                .collect();
            for hook in hooks {
                hook.join().expect("a hook thread does not panic");
            }
            done.store(true, Ordering::Release);
            dispatcher.join().expect("the dispatcher does not panic");
        });
        while let Ok(seat) = changes.waiting().try_recv() {
            seat.handle(count);
        }
        board.handle_overflow(count);
        assert_eq!(moves.load(Ordering::Relaxed) as u128, THREADS * MOVES);
    }
}

/// Each test is one named race of the hand-over, explored over all interleavings.
#[cfg(all(test, feature = "loom-model"))]
mod loom_tests {
    use super::*;
    use crate::clock::Moment;
    use crate::leadership::transition::Change;
    use crate::leadership::{Announcement, Component, Leader, SessionId};
    use loom::sync::Mutex;
    use loom::thread;
    use std::time::Duration;

    fn announce(id: u128) -> Observation {
        let at = Moment { wall: jiff::Timestamp::UNIX_EPOCH, monotonic: Duration::ZERO };
        let leader = Some(Leader { id: SessionId(id), address: None });
        let seat = SeatKey::cluster(Component::ResourceManager);
        Observation { seat, announcement: Announcement::Leader(leader), at }
    }

    struct Model {
        handover: Handover,
        changes: Changes,
        seat: Arc<Seat>,
        handled: Mutex<Vec<SeatChange>>,
    }

    impl Model {
        fn new() -> Arc<Model> {
            let (handover, changes) = Handover::new();
            let seat = Arc::new(Seat::new(SeatKey::cluster(Component::ResourceManager)));
            Arc::new(Model { handover, changes, seat, handled: Mutex::new(Vec::new()) })
        }

        /// One round of the dispatcher.
        fn dispatch(&self) {
            let mut handled = self.handled.lock().unwrap();
            while let Some(seat) = self.changes.waiting.try_recv() {
                seat.handle(|change| handled.push(change));
            }
            if self.handover.take_overflow() {
                self.seat.handle(|change| handled.push(change));
            }
        }

        /// Ids that were told as leading, in order, with what was left out.
        fn told(&self) -> (Vec<u128>, u64) {
            let handled = self.handled.lock().unwrap();
            let ids = handled.iter().filter_map(|c| match &c.change {
                Change::Elected { leader } => Some(leader.id.0),
                Change::Moved { new, .. } => Some(new.id.0),
                _ => None,
            });
            (ids.collect(), handled.iter().map(|c| c.left_out).sum())
        }
    }

    fn run(race: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(race);
    }

    #[test]
    fn loom_record_against_dispatch() {
        run(|| {
            let model = Model::new();
            let hook = {
                let model = model.clone();
                thread::spawn(move || {
                    model.handover.record(&model.seat, &announce(1));
                    model.handover.record(&model.seat, &announce(2));
                })
            };
            model.dispatch();
            hook.join().unwrap();
            model.dispatch();
            assert_eq!(model.told(), (vec![1, 2], 0));
        });
    }

    #[test]
    fn loom_two_hooks_on_one_seat() {
        run(|| {
            let model = Model::new();
            model.handover.record(&model.seat, &announce(1));
            model.dispatch();
            let hooks: Vec<_> = [2, 3]
                .into_iter()
                .map(|id| {
                    let model = model.clone();
                    thread::spawn(move || model.handover.record(&model.seat, &announce(id)))
                })
                .collect();
            for hook in hooks {
                hook.join().unwrap();
            }
            model.dispatch();
            let (told, left_out) = model.told();
            assert_eq!(left_out, 0);
            assert!(told == [1, 2, 3] || told == [1, 3, 2], "{told:?}");
        });
    }

    #[test]
    fn loom_full_channel_recovers_by_the_flag() {
        run(|| {
            let model = Model::new();
            // The channel of the model holds one seat: it is full from here on.
            model.handover.record(&model.seat, &announce(1));
            let hook = {
                let model = model.clone();
                thread::spawn(move || model.handover.record(&model.seat, &announce(2)))
            };
            model.dispatch();
            hook.join().unwrap();
            model.dispatch();
            assert_eq!(model.told(), (vec![1, 2], 0));
        });
    }

    #[test]
    fn loom_bounded_chain_counts_what_it_leaves_out() {
        run(|| {
            let model = Model::new();
            let hook = {
                let model = model.clone();
                thread::spawn(move || {
                    for id in 1..=4 {
                        model.handover.record(&model.seat, &announce(id));
                    }
                })
            };
            model.dispatch();
            hook.join().unwrap();
            model.dispatch();
            let (told, left_out) = model.told();
            assert_eq!(told.len() as u64 + left_out, 4, "{told:?}");
            assert_eq!(told.last(), Some(&4));
            assert!(told.is_sorted());
        });
    }
}
