//! The leaders that the cluster's agents saw last, kept in the claim store: an agent that never saw the old leader can
//! still tell that the one it sees first is a move.
//!
//! One document holds them all. Times in it are readings of the **store's** clock, taken by the agent that writes and
//! compared with another reading of it by the agent that reads, so that no two hosts' clocks are ever compared.
//!
//! # A planned end is no failover
//! A leader whose process ends in order says so itself, where an agent is loaded into it ([`Memory::ended_in_order`]): its
//! successor is then a start for whoever never saw it. Where none is, a TaskManager that ends in order cannot know whether
//! it ends alone or with the cluster; it takes note that it [left](Memory::left), and what it remembered counts no more
//! until somebody sees that leader again.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::store::{Store, StoreError, Version, Written};
use crate::leadership::{Component, JobId, Leader, SeatKey, SessionId};

/// The document.
const NAME: &str = "seats";
/// Seats that are remembered: the cluster's own, and the jobs' that were seen last.
const SEATS: usize = 256;
/// Ids of earlier leaders that are remembered for each seat: those of a seat in memory.
const EARLIER: usize = 8;
/// Leaders that ended in order, of which the ids are kept.
const ENDED: usize = 64;
/// How often a write is tried anew that another agent's came before.
const TRIES: usize = 8;

/// A seat's leader, as the agents of the cluster saw it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_id: Option<JobId>,
    /// The leader.
    pub leader: Leader,
    /// When an agent saw it lead, by the store's clock.
    pub seen_at: Timestamp,
    /// Whether an agent in its own process keeps this, and so will say if it ends in order.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub says_its_end: bool,
    /// Whether an agent that saw it ended in order after that, and nobody has seen it since.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub left: bool,
    /// Leaders before it, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub earlier: Vec<SessionId>,
}

impl Remembered {
    /// The seat.
    pub fn seat(&self) -> SeatKey {
        SeatKey { component: self.component, job_id: self.job_id }
    }
}

/// A leader that leads now, as this agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The seat.
    pub seat: SeatKey,
    /// The leader.
    pub leader: Leader,
    /// Whether it is in this very process.
    pub is_own: bool,
}

/// The document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Document {
    #[serde(default)]
    seats: Vec<Remembered>,
    /// Leaders whose process ended in order, the newest first.
    #[serde(default)]
    ended: Vec<SessionId>,
}

/// What was remembered at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// The seats.
    pub seats: Vec<Remembered>,
    /// Leaders whose process ended in order, by their own word, the newest first.
    pub ended: Vec<SessionId>,
    /// That moment, by the store's clock.
    pub now: Timestamp,
}

impl Recalled {
    /// What is remembered of a seat.
    pub fn of(&self, seat: SeatKey) -> Option<&Remembered> {
        self.seats.iter().find(|remembered| remembered.seat() == seat)
    }
}

/// What it means to see the first leader of a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstSight {
    /// A start, for this reason.
    Start(&'static str),
    /// Leadership moved, from this leader.
    Move {
        /// The leader before.
        old: Leader,
    },
}

/// What it means to see `seen` as the first leader of a seat.
///
/// A move, only if another leader was seen alive within `remember_for`, and did not end in order: a planned stop, an
/// upgrade or a redeployment is no failover.
pub fn judge(recalled: &Recalled, seat: SeatKey, seen: &Leader, remember_for: Duration) -> FirstSight {
    let Some(remembered) = recalled.of(seat) else { return FirstSight::Start("no leader is remembered") };
    if remembered.leader.id == seen.id {
        return FirstSight::Start("the remembered leader still leads");
    }
    if seen.id == SessionId::NO_HIGH_AVAILABILITY || remembered.leader.id == SessionId::NO_HIGH_AVAILABILITY {
        return FirstSight::Start("without high availability leadership never moves");
    }
    if remembered.earlier.contains(&seen.id) {
        return FirstSight::Start("it led before the remembered leader");
    }
    if recalled.ended.contains(&remembered.leader.id) {
        return FirstSight::Start("the remembered leader ended in order");
    }
    if remembered.left {
        return FirstSight::Start("the agent that remembered its leader ended in order, maybe with its cluster");
    }
    let age = recalled.now.duration_since(remembered.seen_at);
    if SignedDuration::try_from(remember_for).is_ok_and(|longest| age > longest) {
        return FirstSight::Start("the remembered leader was not seen for too long");
    }
    FirstSight::Move { old: remembered.leader.clone() }
}

/// Remembers and recalls. Callers limit the time of each call.
#[derive(Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
    /// A sight that is younger need not be written again.
    renew_after: Duration,
}

impl Memory {
    /// A memory in a store, which counts for `remember_for`.
    pub fn new(store: Arc<dyn Store>, remember_for: Duration) -> Memory {
        Memory { store, renew_after: remember_for / 3 }
    }

    /// What it is and where, for people.
    pub fn describe(&self) -> String {
        self.store.describe()
    }

    /// What the agents of the cluster saw last.
    pub async fn recall(&self) -> Result<Recalled, StoreError> {
        let (_, Document { seats, ended }) = self.read().await?;
        Ok(Recalled { seats, ended, now: self.store.time().await? })
    }

    /// Takes note of who leads now. Writes only what is new, or older than a third of `remember_for`, so that many agents
    /// that see the same write once.
    pub async fn saw(&self, sights: &[Sight]) -> Result<(), StoreError> {
        self.change(|document, now| {
            let mut is_changed = false;
            for sight in sights {
                is_changed |= see(&mut document.seats, sight, now, self.renew_after);
            }
            is_changed
        })
        .await
    }

    /// Takes note that the process of these leaders ends in order.
    pub async fn ended_in_order(&self, leaders: &[SessionId]) -> Result<(), StoreError> {
        self.change(|Document { ended, .. }, _| {
            let new = leaders.iter().filter(|leader| !ended.contains(leader)).copied().collect::<Vec<_>>();
            ended.splice(..0, new.iter().copied());
            ended.truncate(ENDED);
            !new.is_empty()
        })
        .await
    }

    /// Takes note that this agent, which saw these leaders, ends in order: it does not know whether they do, too.
    pub async fn left(&self, leaders: &[SessionId]) -> Result<(), StoreError> {
        self.change(|Document { seats, .. }, _| {
            let mut is_changed = false;
            for seat in seats.iter_mut().filter(|seat| leaders.contains(&seat.leader.id) && !seat.says_its_end) {
                is_changed |= !std::mem::replace(&mut seat.left, true);
            }
            is_changed
        })
        .await
    }

    async fn read(&self) -> Result<(Option<Version>, Document), StoreError> {
        let Some(entry) = self.store.read(NAME).await? else { return Ok((None, Document::default())) };
        // What is not understood is of another version of Leaderwatch, and is written anew.
        Ok((Some(entry.version), serde_json::from_slice(&entry.body).unwrap_or_default()))
    }

    async fn change(&self, change: impl Fn(&mut Document, Timestamp) -> bool) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let (version, mut document) = self.read().await?;
            let now = self.store.time().await?;
            if !change(&mut document, now) {
                return Ok(());
            }
            document.seats.sort_by_key(|seat| (seat.job_id.is_some(), std::cmp::Reverse(seat.seen_at)));
            document.seats.truncate(SEATS);
            let body = serde_json::to_vec(&document).map_err(|error| StoreError::Unreachable(error.to_string()))?;
            let written = match &version {
                Some(version) => self.store.swap(NAME, version, &body).await?,
                None => self.store.create(NAME, &body).await?,
            };
            if let Written::Done(_) = written {
                return Ok(());
            }
        }
        Err(StoreError::Unreachable("what is remembered changes faster than it can be written".to_owned()))
    }
}

/// Whether there is something to write.
fn see(seats: &mut Vec<Remembered>, sight: &Sight, now: Timestamp, renew_after: Duration) -> bool {
    let Sight { seat, leader, is_own } = sight;
    let Some(known) = seats.iter_mut().find(|known| known.seat() == *seat) else {
        seats.push(Remembered {
            component: seat.component,
            job_id: seat.job_id,
            leader: leader.clone(),
            seen_at: now,
            says_its_end: *is_own,
            left: false,
            earlier: Vec::new(),
        });
        return true;
    };
    if known.leader.id == leader.id {
        let is_old = SignedDuration::try_from(renew_after).is_ok_and(|age| now.duration_since(known.seen_at) >= age);
        let is_due = is_old || known.left || (*is_own && !known.says_its_end);
        if is_due {
            (known.seen_at, known.left) = (now, false);
            known.says_its_end |= *is_own;
        }
        return is_due;
    }
    // An agent that lags behind does not undo what others saw.
    if known.earlier.contains(&leader.id) {
        return false;
    }
    known.earlier.insert(0, known.leader.id);
    known.earlier.truncate(EARLIER);
    (known.leader, known.seen_at, known.says_its_end, known.left) = (leader.clone(), now, *is_own, false);
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::memory::MemoryStore;
    use super::*;

    const REMEMBER_FOR: Duration = Duration::from_secs(600);

    fn leader(id: u128) -> Leader {
        Leader { id: SessionId(id), address: Some(format!("pekko.tcp://flink@jm{id}:6123/user/rpc/x").into()) }
    }

    fn seat() -> SeatKey {
        SeatKey::cluster(Component::ResourceManager)
    }

    fn memory() -> (Memory, MemoryStore) {
        let store = MemoryStore::default();
        (Memory::new(Arc::new(store.clone()), REMEMBER_FOR), store)
    }

    fn sight(id: u128) -> Sight {
        Sight { seat: seat(), leader: leader(id), is_own: false }
    }

    async fn verdict(memory: &Memory, id: u128) -> FirstSight {
        judge(&memory.recall().await.unwrap(), seat(), &leader(id), REMEMBER_FOR)
    }

    #[tokio::test]
    async fn a_new_leader_soon_after_another_is_a_move() {
        let (memory, store) = memory();
        assert!(matches!(verdict(&memory, 1).await, FirstSight::Start(_)), "nothing is remembered");
        memory.saw(&[sight(1)]).await.unwrap();
        assert!(matches!(verdict(&memory, 1).await, FirstSight::Start(_)), "it is the same");
        store.seconds.store(600, Ordering::SeqCst);
        assert_eq!(verdict(&memory, 2).await, FirstSight::Move { old: leader(1) });
        store.seconds.store(601, Ordering::SeqCst);
        assert!(matches!(verdict(&memory, 2).await, FirstSight::Start(_)), "too long ago");
        let of_job = memory.recall().await.unwrap();
        assert_eq!(of_job.of(SeatKey::job(JobId(1))), None);
    }

    #[tokio::test]
    async fn a_planned_stop_is_no_failover() {
        let (memory, _) = memory();
        memory.saw(&[sight(1)]).await.unwrap();
        memory.ended_in_order(&[SessionId(1)]).await.unwrap();
        // An agent that has not heard of it still sees the old one.
        memory.saw(&[sight(1)]).await.unwrap();
        assert!(matches!(verdict(&memory, 2).await, FirstSight::Start(_)));
        // The next leader is judged by itself.
        memory.saw(&[sight(2)]).await.unwrap();
        assert_eq!(verdict(&memory, 3).await, FirstSight::Move { old: leader(2) });
    }

    #[tokio::test]
    async fn an_agent_that_lags_behind_undoes_nothing() {
        let (memory, _) = memory();
        for id in [1, 2] {
            memory.saw(&[sight(id)]).await.unwrap();
        }
        memory.saw(&[sight(1)]).await.unwrap();
        assert_eq!(memory.recall().await.unwrap().of(seat()).unwrap().leader, leader(2));
        assert!(matches!(verdict(&memory, 1).await, FirstSight::Start(_)), "it is stale");
    }

    #[tokio::test]
    async fn many_agents_that_see_the_same_write_once_in_a_third_of_the_time() {
        let (memory, store) = memory();
        let version = async || store.read(NAME).await.unwrap().unwrap().version;
        memory.saw(&[sight(1)]).await.unwrap();
        let first = version().await;
        store.seconds.store(199, Ordering::SeqCst);
        for _ in 0..5 {
            memory.saw(&[sight(1)]).await.unwrap();
        }
        assert_eq!(version().await, first);
        store.seconds.store(200, Ordering::SeqCst);
        for _ in 0..5 {
            memory.saw(&[sight(1)]).await.unwrap();
        }
        assert_ne!(version().await, first);
        assert_eq!(memory.recall().await.unwrap().seats[0].seen_at, Timestamp::from_second(200).unwrap());
    }

    /// Without an agent in the JobManager nobody says whether the cluster ended in order.
    #[tokio::test]
    async fn a_task_manager_that_left_in_order_knows_nothing_until_somebody_sees_the_leader_again() {
        let (memory, _) = memory();
        memory.saw(&[sight(1)]).await.unwrap();
        memory.left(&[SessionId(1)]).await.unwrap();
        assert!(matches!(verdict(&memory, 2).await, FirstSight::Start(_)));
        memory.saw(&[sight(1)]).await.unwrap();
        assert_eq!(verdict(&memory, 2).await, FirstSight::Move { old: leader(1) });
    }

    #[tokio::test]
    async fn a_leader_that_would_say_its_end_is_missed_even_if_a_task_manager_left_in_order() {
        let (memory, _) = memory();
        memory.saw(&[sight(1)]).await.unwrap();
        memory.saw(&[Sight { is_own: true, ..sight(1) }]).await.unwrap();
        memory.left(&[SessionId(1)]).await.unwrap();
        assert_eq!(verdict(&memory, 2).await, FirstSight::Move { old: leader(1) });
        memory.ended_in_order(&[SessionId(1)]).await.unwrap();
        assert!(matches!(verdict(&memory, 2).await, FirstSight::Start(_)));
    }

    #[tokio::test]
    async fn without_high_availability_nothing_moves() {
        for (old, new, moves) in [(1, 0, false), (0, 1, false), (1, 2, true)] {
            let (memory, _) = memory();
            memory.saw(&[sight(old)]).await.unwrap();
            assert_eq!(matches!(verdict(&memory, new).await, FirstSight::Move { .. }), moves, "{old} to {new}");
        }
    }

    #[tokio::test]
    async fn no_more_seats_are_kept_than_fit_and_the_oldest_jobs_go() {
        let (memory, store) = memory();
        let old = SeatKey::job(JobId(1000));
        memory.saw(&[sight(1), Sight { seat: old, ..sight(1) }]).await.unwrap();
        store.seconds.store(10, Ordering::SeqCst);
        let jobs: Vec<_> = (0..300).map(|job| Sight { seat: SeatKey::job(JobId(job)), ..sight(1) }).collect();
        memory.saw(&jobs).await.unwrap();
        let recalled = memory.recall().await.unwrap();
        assert_eq!(recalled.seats.len(), SEATS);
        assert!(recalled.of(seat()).is_some());
        assert_eq!(recalled.of(old), None);
    }
}
