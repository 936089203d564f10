//! Remembers who leads over restarts, and tells from it what a first sight means.
//!
//! A task on the sender's runtime: it asks the claim store, or, where the agents share none, the agent's own state folder.
//! The dispatcher asks by an [`Ask`] and never waits; what it must know comes back as an [`Answer`]. Nothing is written of
//! a cluster without high availability.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::disk::Answer;
use crate::claim::{FirstSight, Memory, Recalled, Sight, StoreError, judge};
use crate::clock::Moment;
use crate::delivery::{Problem, Progress, Report};
use crate::leadership::{Board, Leader, SeatKey, SessionId};

/// Asks that may wait. What finds no place is taken for a start.
pub const MOST_ASKS: usize = 16 * 1024;
/// How long the store may take for one answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often a store that does not answer is asked about a first sight, and the pause between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);
/// How often the board is looked at for who leads.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon after a move: when its alert is on disk, and no other process need raise it.
const LOOK_AFTER_MOVE: Duration = Duration::from_secs(2);
/// How often the store is asked whether the old leader of a move has ended in order.
const CAUSE_EVERY: Duration = Duration::from_millis(500);
/// How long what is to be remembered at the end of the process may take.
const AT_END: Duration = Duration::from_millis(1500);
/// The most seats that are told of; the store keeps as many.
const MOST_SEATS: usize = 256;
/// The most session ids of this process that are known.
const MOST_OWN: usize = 4096;

/// What the dispatcher asks and tells.
#[derive(Debug)]
pub enum Ask {
    /// A seat's first leader was seen. Answered by [`Answer::MovedBefore`], if it is a move.
    First {
        /// The seat.
        seat: SeatKey,
        /// The leader.
        leader: Leader,
        /// When it was announced.
        at: Moment,
    },
    /// Leadership was taken over from this leader. Answered by [`Answer::EndedInOrder`], if it said so within this time.
    Moved {
        /// The leader before.
        old: SessionId,
        /// How long an answer is of use.
        within: Duration,
    },
    /// A contender in this process was elected.
    Granted(SessionId),
    /// The process ends.
    End {
        /// Whether it does so in order.
        in_order: bool,
    },
}

/// The task.
pub struct Remembering {
    /// Where it is remembered.
    pub memory: Memory,
    /// How long it counts.
    pub remember_for: Duration,
    /// Who leads.
    pub board: Arc<Board>,
    /// The way to the dispatcher.
    pub answers: Sender<Answer>,
    /// Who hears of problems.
    pub report: Arc<dyn Report>,
}

/// What the task knows besides.
#[derive(Default)]
struct Known {
    /// Leaders in this process.
    own: Vec<SessionId>,
    /// What was written last, and when.
    written: Option<(Vec<Sight>, Instant)>,
    /// Old leaders of moves, and until when it is of use to know how they ended.
    causes: Vec<(SessionId, Instant)>,
    /// Whether a problem was told that has not ended.
    is_failing: bool,
}

impl Remembering {
    /// Works until the process ends or nobody asks any more.
    pub async fn run(self, mut asks: mpsc::Receiver<Ask>) {
        let mut known = Known::default();
        let mut next_look = Instant::now() + LOOK_EVERY;
        loop {
            let next_cause = (!known.causes.is_empty()).then(|| Instant::now() + CAUSE_EVERY);
            let wakes = next_cause.map_or(next_look, |cause| cause.min(next_look));
            let first = tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => Some(ask),
                    None => return,
                },
                () = sleep_until(wakes) => None,
            };
            let waiting = std::iter::from_fn(|| asks.try_recv().ok());
            let asked: Vec<Ask> = first.into_iter().chain(waiting).collect();
            if asked.iter().any(|ask| matches!(ask, Ask::Moved { .. })) {
                next_look = next_look.min(Instant::now() + LOOK_AFTER_MOVE);
            }
            if let Some(in_order) = self.take(asked, &mut known).await {
                // Beyond that time the process waits no longer.
                let _ = timeout(AT_END, self.end(in_order, &known)).await;
                return;
            }
            self.look_for_causes(&mut known).await;
            if Instant::now() >= next_look {
                self.look_at_board(&mut known).await;
                next_look = Instant::now() + LOOK_EVERY;
            }
        }
    }

    /// Deals with what was asked; says whether the process ends, and then whether in order.
    async fn take(&self, asked: Vec<Ask>, known: &mut Known) -> Option<bool> {
        let mut first_sights = Vec::new();
        let mut end = None;
        for ask in asked {
            match ask {
                Ask::First { seat, leader, at } => first_sights.push((seat, leader, at)),
                Ask::Moved { old, within } => known.causes.push((old, Instant::now() + within)),
                Ask::Granted(id) => {
                    known.own.push(id);
                    if known.own.len() > MOST_OWN {
                        known.own.remove(0);
                    }
                }
                Ask::End { in_order } => end = Some(in_order),
            }
        }
        // At the end there is nobody any more to answer to.
        if end.is_none() && self.remembers() && !first_sights.is_empty() {
            self.judge(first_sights, known).await;
        }
        end
    }

    async fn judge(&self, first_sights: Vec<(SeatKey, Leader, Moment)>, known: &mut Known) {
        let Some(recalled) = self.recall(known).await else { return };
        let mut starts = Vec::new();
        for (seat, leader, at) in first_sights {
            match judge(&recalled, seat, &leader, self.remember_for) {
                // What is a move is remembered with the next look, when its alert is on disk.
                FirstSight::Move { old } => self.answer(Answer::MovedBefore { seat, old, new: leader, at }),
                FirstSight::Start(_) => starts.push(Sight { is_own: known.own.contains(&leader.id), seat, leader }),
            }
        }
        starts.truncate(MOST_SEATS);
        // The next look tries again.
        let _ = self.ask(self.memory.saw(&starts), known).await;
    }

    /// What is remembered; none where the store does not tell in a while.
    async fn recall(&self, known: &mut Known) -> Option<Recalled> {
        for _ in 0..TRIES {
            if let Some(recalled) = self.ask(self.memory.recall(), known).await {
                return Some(recalled);
            }
            sleep(PAUSE).await;
        }
        None
    }

    async fn look_for_causes(&self, known: &mut Known) {
        let now = Instant::now();
        known.causes.retain(|(_, until)| *until > now);
        if known.causes.is_empty() {
            return;
        }
        let Some(recalled) = self.ask(self.memory.recall(), known).await else { return };
        known.causes.retain(|(old, _)| {
            let has_ended = recalled.ended.contains(old);
            if has_ended {
                self.answer(Answer::EndedInOrder(*old));
            }
            !has_ended
        });
    }

    /// Has remembered who leads, where that has changed or was not said for a while.
    async fn look_at_board(&self, known: &mut Known) {
        if !self.remembers() {
            return;
        }
        let sights = self.sights(&known.own);
        let is_known = known
            .written
            .as_ref()
            .is_some_and(|(written, at)| *written == sights && at.elapsed() < self.remember_for / 3);
        if sights.is_empty() || is_known {
            return;
        }
        if self.ask(self.memory.saw(&sights), known).await.is_some() {
            known.written = Some((sights, Instant::now()));
        }
    }

    /// Whether the user wants it.
    fn remembers(&self) -> bool {
        !self.remember_for.is_zero()
    }

    /// Who leads, the cluster's own seats first.
    fn sights(&self, own: &[SessionId]) -> Vec<Sight> {
        let mut sights: Vec<Sight> = self
            .board
            .seats()
            .iter()
            .filter_map(|seat| {
                let leader = seat.standing().living_leader().filter(|leader| counts(leader)).cloned()?;
                Some(Sight { seat: seat.key(), is_own: own.contains(&leader.id), leader })
            })
            .collect();
        sights.sort_by_key(|sight| (sight.seat.job_id.is_some(), sight.seat));
        sights.truncate(MOST_SEATS);
        sights
    }

    /// The process ends: what it led is said to have ended in order, what it saw is left.
    async fn end(&self, in_order: bool, known: &Known) {
        if !in_order {
            return;
        }
        let own: Vec<SessionId> =
            known.own.iter().copied().filter(|id| *id != SessionId::NO_HIGH_AVAILABILITY).collect();
        if !own.is_empty() {
            // There is nobody any more to tell of a store that fails now.
            let _ = self.memory.ended_in_order(&own).await;
            return;
        }
        // The one that was lost a moment ago, too: it may end with the cluster.
        let seats = self.board.seats().into_iter();
        let seen: Vec<SessionId> = seats
            .filter_map(|seat| seat.standing().last_leader().filter(|leader| counts(leader)).map(|leader| leader.id))
            .collect();
        if self.remembers() && !seen.is_empty() {
            let _ = self.memory.left(&seen).await;
        }
    }

    async fn ask<T>(&self, asking: impl Future<Output = Result<T, StoreError>>, known: &mut Known) -> Option<T> {
        let answer = timeout(PATIENCE, asking).await;
        let error = match answer {
            Ok(Ok(answer)) => {
                known.is_failing = false;
                return Some(answer);
            }
            Ok(Err(error)) => error,
            Err(_) => StoreError::Unreachable(format!("no answer within {} ms", PATIENCE.as_millis())),
        };
        if !std::mem::replace(&mut known.is_failing, true) {
            let what = format!("memory of leaders {}", self.memory.describe());
            let reason =
                format!("{error}; a failover that falls into a restart of this process may be taken for a start");
            self.report.report(Progress::Problem(Problem::new(what, reason)));
        }
        None
    }

    fn answer(&self, answer: Answer) {
        // A dispatcher that has ended needs no answer.
        let _ = self.answers.send(answer);
    }
}

/// Without high availability there is one leader for good.
pub fn counts(leader: &Leader) -> bool {
    leader.id != SessionId::NO_HIGH_AVAILABILITY
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crossbeam_channel::{Receiver, unbounded};
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::claim::memory::{Fault, MemoryStore};
    use crate::clock::{Clock, ManualClock};
    use crate::leadership::{Announcement, Component, JobId, Observation};

    const REMEMBER_FOR: Duration = Duration::from_secs(600);
    const RESOURCE_MANAGER: SeatKey = SeatKey { component: Component::ResourceManager, job_id: None };

    fn leader(id: u128) -> Leader {
        Leader { id: SessionId(id), address: None }
    }

    /// One process.
    struct Agent {
        board: Arc<Board>,
        asks: mpsc::Sender<Ask>,
        answers: Receiver<Answer>,
        task: tokio::task::JoinHandle<()>,
        problems: Arc<parking_lot::Mutex<Vec<Progress>>>,
    }

    impl Agent {
        fn start(store: &MemoryStore) -> Agent {
            let board = Arc::new(Board::new().0);
            let (answers_in, answers) = unbounded();
            let (asks, asked) = mpsc::channel(MOST_ASKS);
            let problems: Arc<parking_lot::Mutex<Vec<Progress>>> = Arc::default();
            let heard = Arc::clone(&problems);
            let remembering = Remembering {
                memory: Memory::new(Arc::new(store.clone()), REMEMBER_FOR),
                remember_for: REMEMBER_FOR,
                board: Arc::clone(&board),
                answers: answers_in,
                report: Arc::new(move |progress| heard.lock().push(progress)),
            };
            Agent { board, asks, answers, task: tokio::spawn(remembering.run(asked)), problems }
        }

        /// Flink announces a leader; what is first seen is asked about.
        async fn sees(&self, seat: SeatKey, id: u128) {
            let at = ManualClock::default().now();
            self.board.observe(&Observation { seat, announcement: Announcement::Leader(Some(leader(id))), at });
            self.asks.send(Ask::First { seat, leader: leader(id), at }).await.unwrap();
            sleep(LOOK_EVERY + Duration::from_secs(5)).await;
        }

        async fn ends(self, in_order: bool) {
            self.asks.send(Ask::End { in_order }).await.unwrap();
            self.task.await.unwrap();
        }

        async fn killed(self) {
            self.task.abort();
            let _ = self.task.await;
        }

        fn moves(&self) -> Vec<(u128, u128)> {
            let of = |answer| match answer {
                Answer::MovedBefore { old, new, .. } => Some((old.id.0, new.id.0)),
                _ => None,
            };
            self.answers.try_iter().filter_map(of).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failover_while_the_only_task_manager_is_dead_is_a_move() {
        let store = MemoryStore::default();
        let before = Agent::start(&store);
        before.sees(RESOURCE_MANAGER, 1).await;
        assert_eq!(before.moves(), []);
        before.killed().await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(after.moves(), [(1, 2)]);
        after.killed().await;
        let third = Agent::start(&store);
        third.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(third.moves(), [], "it was told");
    }

    #[tokio::test(start_paused = true)]
    async fn a_planned_restart_of_the_cluster_is_a_start() {
        let store = MemoryStore::default();
        let (job_manager, task_manager) = (Agent::start(&store), Agent::start(&store));
        job_manager.asks.send(Ask::Granted(SessionId(1))).await.unwrap();
        job_manager.sees(RESOURCE_MANAGER, 1).await;
        task_manager.sees(RESOURCE_MANAGER, 1).await;
        task_manager.ends(true).await;
        job_manager.ends(true).await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(after.moves(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_planned_restart_of_a_task_manager_hides_no_failover_where_the_job_manager_has_an_agent() {
        let store = MemoryStore::default();
        let (job_manager, task_manager) = (Agent::start(&store), Agent::start(&store));
        job_manager.asks.send(Ask::Granted(SessionId(1))).await.unwrap();
        job_manager.sees(RESOURCE_MANAGER, 1).await;
        task_manager.sees(RESOURCE_MANAGER, 1).await;
        task_manager.ends(true).await;
        job_manager.killed().await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(after.moves(), [(1, 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_agent_in_the_job_manager_a_planned_restart_is_a_start() {
        let store = MemoryStore::default();
        let task_manager = Agent::start(&store);
        task_manager.sees(RESOURCE_MANAGER, 1).await;
        task_manager.sees(SeatKey::job(JobId(1)), 1).await;
        task_manager.ends(true).await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        after.sees(SeatKey::job(JobId(1)), 2).await;
        assert_eq!(after.moves(), []);
    }

    /// As where the JobManager ends before the TaskManager does.
    #[tokio::test(start_paused = true)]
    async fn a_leader_that_was_lost_before_the_end_is_left_too() {
        let store = MemoryStore::default();
        let task_manager = Agent::start(&store);
        task_manager.sees(RESOURCE_MANAGER, 1).await;
        let at = ManualClock::default().now();
        task_manager.board.observe(&Observation {
            seat: RESOURCE_MANAGER,
            announcement: Announcement::Leader(None),
            at,
        });
        task_manager.ends(true).await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(after.moves(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_crashes_has_not_ended_in_order() {
        let store = MemoryStore::default();
        let job_manager = Agent::start(&store);
        job_manager.asks.send(Ask::Granted(SessionId(1))).await.unwrap();
        job_manager.sees(RESOURCE_MANAGER, 1).await;
        job_manager.ends(false).await;
        let after = Agent::start(&store);
        after.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(after.moves(), [(1, 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_saw_for_too_long_is_forgotten_and_who_lives_goes_on_saying_so() {
        let store = MemoryStore::default();
        let lives = Agent::start(&store);
        lives.sees(RESOURCE_MANAGER, 1).await;
        store.seconds.store(500, Ordering::SeqCst);
        sleep(REMEMBER_FOR / 2).await;
        store.seconds.store(1000, Ordering::SeqCst);
        let first = Agent::start(&store);
        first.sees(RESOURCE_MANAGER, 2).await;
        assert_eq!(first.moves(), [(1, 2)], "it was seen 500 s ago");
        first.killed().await;
        lives.killed().await;
        store.seconds.store(1700, Ordering::SeqCst);
        let second = Agent::start(&store);
        second.sees(RESOURCE_MANAGER, 3).await;
        assert_eq!(second.moves(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_leader_that_said_it_ended_in_order_is_the_cause() {
        let store = MemoryStore::default();
        let (old, witness) = (Agent::start(&store), Agent::start(&store));
        old.asks.send(Ask::Granted(SessionId(1))).await.unwrap();
        witness.asks.send(Ask::Moved { old: SessionId(1), within: Duration::from_secs(2) }).await.unwrap();
        witness.asks.send(Ask::Moved { old: SessionId(9), within: Duration::from_secs(2) }).await.unwrap();
        sleep(Duration::from_millis(700)).await;
        assert!(witness.answers.is_empty());
        old.ends(true).await;
        sleep(Duration::from_secs(5)).await;
        let told: Vec<Answer> = witness.answers.try_iter().collect();
        assert!(matches!(told[..], [Answer::EndedInOrder(SessionId(1))]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_comes_back_in_a_while_is_waited_for_and_an_outage_is_told_once() {
        let store = MemoryStore::default();
        let before = Agent::start(&store);
        before.sees(RESOURCE_MANAGER, 1).await;
        before.killed().await;
        store.break_by(Fault::Refuses);
        let after = Agent::start(&store);
        let at = ManualClock::default().now();
        after.asks.send(Ask::First { seat: RESOURCE_MANAGER, leader: leader(2), at }).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(after.moves(), []);
        store.break_by(Fault::None);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(after.moves(), [(1, 2)]);
        assert_eq!(after.problems.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_of_a_cluster_without_high_availability() {
        let store = MemoryStore::default();
        let agent = Agent::start(&store);
        let at = ManualClock::default().now();
        let announcement = Announcement::Leader(Some(leader(0)));
        agent.board.observe(&Observation { seat: RESOURCE_MANAGER, announcement, at });
        sleep(LOOK_EVERY * 3).await;
        agent.ends(true).await;
        assert_eq!(store.calls.load(Ordering::SeqCst), 0);
    }
}
