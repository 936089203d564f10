//! What an announcement means: the pure function (standing, announcement) -> (standing, change).
//!
//! Flink announces leaders through several listeners, threads and retrieval services, with or without a null between
//! two leaders, and repeats itself after reconnects. Sequences seen on real clusters:
//!
//! | announced | meaning |
//! |---|---|
//! | `A, null, B` | lost, moved |
//! | `A, B` | moved (Kubernetes: never a null) |
//! | `A, null, A` | lost, returned (ZooKeeper blip) |
//! | `A, null, A, B` | lost, returned, moved (ZooKeeper outage, a stale announcement first) |
//! | `B, A, B` | a stale A from another thread or listener; B leads all the time |
//!
//! A session id is drawn at random for each election and never granted twice. So an id that is seen again after a newer
//! one is stale, whatever else happened between.

use std::sync::Arc;
use std::time::Duration;

use super::ids::SessionId;
use super::observation::{Announcement, Leader, Verdict};
use crate::clock::Moment;

/// How many ids before the last one a seat remembers, so as to know a stale one.
pub const REMEMBERED_IDS: usize = 8;

/// What is known of a seat's leadership.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// The last leader that was announced, also while the seat is empty; none before the first.
    last: Option<Leader>,
    /// Since when the seat is empty; none while `last` leads.
    empty_since: Option<Moment>,
    /// Ids that led before `last`, newest first; none until the first move.
    earlier: Option<Arc<[SessionId]>>,
    /// Whether Flink holds `last` for dead.
    doubted: bool,
}

impl Standing {
    /// Who leads now.
    pub fn leader(&self) -> Option<&Leader> {
        if self.empty_since.is_some() { None } else { self.last.as_ref() }
    }

    /// Who leads now, unless Flink holds it for dead.
    pub fn living_leader(&self) -> Option<&Leader> {
        self.leader().filter(|_| !self.doubted)
    }

    /// Who led last, also while the seat is empty.
    pub fn last_leader(&self) -> Option<&Leader> {
        self.last.as_ref()
    }

    /// Since when the seat is empty, where it is.
    pub fn empty_since(&self) -> Option<Moment> {
        self.empty_since
    }

    fn led_before(&self, id: SessionId) -> bool {
        self.earlier.as_deref().is_some_and(|ids| ids.contains(&id))
    }

    fn succeeded_by(&self, leader: Leader) -> Standing {
        let newest = self.last.iter().map(|last| last.id);
        let older = self.earlier.iter().flat_map(|ids| ids.iter().copied());
        let earlier: Arc<[SessionId]> = newest.chain(older).take(REMEMBERED_IDS).collect();
        Standing { last: Some(leader), earlier: (!earlier.is_empty()).then_some(earlier), ..Standing::default() }
    }
}

/// What changed. `leaderless` is the time since the null that was announced in this JVM, absent without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// First sight of a leader: a start, no failover.
    Elected {
        /// Who leads.
        leader: Leader,
    },
    /// The seat is empty.
    Lost {
        /// Who led.
        leader: Leader,
    },
    /// The same leader as before a null.
    Returned {
        /// Who leads again.
        leader: Leader,
        /// How long the seat was empty.
        leaderless: Option<Duration>,
    },
    /// A leader other than the last one.
    Moved {
        /// Who led last.
        old: Leader,
        /// Who leads.
        new: Leader,
        /// How long the seat was empty.
        leaderless: Option<Duration>,
    },
    /// An id that led before the last one: an announcement that comes late. Nothing changes.
    Stale {
        /// Who was announced.
        leader: Leader,
    },
    /// Flink holds the leader for dead. Nothing changes yet.
    Unreachable {
        /// Flink's verdict.
        verdict: Verdict,
        /// Who led last, where known.
        leader: Option<Leader>,
    },
    /// Flink has reached the leader again that it held for dead.
    Reachable {
        /// Who leads.
        leader: Leader,
    },
    /// A contender in this JobManager was elected. Nothing changes yet.
    Granted {
        /// The new session id.
        id: SessionId,
    },
    /// A contender in this JobManager lost its leadership. Nothing changes yet.
    Revoked,
}

/// The next standing and what changed; none where the announcement says nothing new.
pub fn next(standing: &Standing, announcement: &Announcement, at: Moment) -> Option<(Standing, Change)> {
    match announcement {
        Announcement::Leader(Some(leader)) => announced(standing, leader.clone(), at),
        Announcement::Leader(None) => lost(standing, at),
        Announcement::Unreachable(verdict) => {
            let leader = standing.last_leader().cloned();
            let next = Standing { doubted: true, ..standing.clone() };
            Some((next, Change::Unreachable { verdict: *verdict, leader }))
        }
        Announcement::Reachable => reached(standing),
        Announcement::Granted(id) => Some((standing.clone(), Change::Granted { id: *id })),
        Announcement::Revoked => Some((standing.clone(), Change::Revoked)),
    }
}

fn reached(standing: &Standing) -> Option<(Standing, Change)> {
    let leader = standing.leader().filter(|_| standing.doubted)?.clone();
    Some((Standing { doubted: false, ..standing.clone() }, Change::Reachable { leader }))
}

fn lost(standing: &Standing, at: Moment) -> Option<(Standing, Change)> {
    let leader = standing.leader()?.clone();
    let next = Standing { empty_since: Some(at), ..standing.clone() };
    Some((next, Change::Lost { leader }))
}

fn announced(standing: &Standing, leader: Leader, at: Moment) -> Option<(Standing, Change)> {
    let Some(last) = standing.last_leader() else {
        return Some((standing.succeeded_by(leader.clone()), Change::Elected { leader }));
    };
    if standing.led_before(leader.id) {
        return Some((standing.clone(), Change::Stale { leader }));
    }
    let leaderless = standing.empty_since.map(|since| at.since(since));
    if last.id != leader.id {
        let old = last.clone();
        return Some((standing.succeeded_by(leader.clone()), Change::Moved { old, new: leader, leaderless }));
    }
    standing.empty_since?;
    let next = Standing { last: Some(leader.clone()), empty_since: None, doubted: false, ..standing.clone() };
    Some((next, Change::Returned { leader, leaderless }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use proptest::prelude::*;

    fn leader(id: u128) -> Leader {
        Leader {
            id: SessionId(id),
            address: Some(format!("akka.tcp://flink@jm{id}:6123/user/rpc/jobmanager_1").into()),
        }
    }

    /// Plays ids (0 = null) one second apart and tells the changes as short words.
    fn play(ids: &[u128]) -> Vec<String> {
        let clock = ManualClock::default();
        let mut standing = Standing::default();
        let mut words = Vec::new();
        for id in ids {
            clock.advance(Duration::from_secs(1));
            let announcement = Announcement::Leader((*id != 0).then(|| leader(*id)));
            let Some((next, change)) = next(&standing, &announcement, clock.now()) else {
                words.push("-".to_owned());
                continue;
            };
            standing = next;
            words.push(word(&change));
        }
        words
    }

    fn word(change: &Change) -> String {
        let gap = |leaderless: &Option<Duration>| leaderless.map_or(String::new(), |d| format!("/{}s", d.as_secs()));
        match change {
            Change::Elected { leader } => format!("elected {}", leader.id.0),
            Change::Lost { leader } => format!("lost {}", leader.id.0),
            Change::Returned { leader, leaderless } => format!("returned {}{}", leader.id.0, gap(leaderless)),
            Change::Moved { old, new, leaderless } => format!("moved {}>{}{}", old.id.0, new.id.0, gap(leaderless)),
            Change::Stale { leader } => format!("stale {}", leader.id.0),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn sequences_seen_on_real_clusters_mean_what_they_are() {
        let table: &[(&[u128], &[&str])] = &[
            (&[1, 0, 2], &["elected 1", "lost 1", "moved 1>2/1s"]),
            (&[1, 2], &["elected 1", "moved 1>2"]),
            (&[1, 0, 1], &["elected 1", "lost 1", "returned 1/1s"]),
            (&[1, 0, 1, 2], &["elected 1", "lost 1", "returned 1/1s", "moved 1>2"]),
            (&[1, 0, 2, 0, 3], &["elected 1", "lost 1", "moved 1>2/1s", "lost 2", "moved 2>3/1s"]),
            (&[1, 2, 1, 2], &["elected 1", "moved 1>2", "stale 1", "-"]),
            (&[1, 2, 0, 1, 2], &["elected 1", "moved 1>2", "lost 2", "stale 1", "returned 2/2s"]),
            (&[1, 1, 1], &["elected 1", "-", "-"]),
            (&[0, 0, 1], &["-", "-", "elected 1"]),
            (&[1, 0, 0, 2], &["elected 1", "lost 1", "-", "moved 1>2/2s"]),
            (&[1, 0, 0], &["elected 1", "lost 1", "-"]),
        ];
        for (ids, expected) in table {
            assert_eq!(&play(ids), expected, "sequence {ids:?}");
        }
    }

    #[test]
    fn an_unreachable_leader_still_leads() {
        let clock = ManualClock::default();
        let (standing, _) = next(&Standing::default(), &Announcement::Leader(Some(leader(1))), clock.now()).unwrap();
        let announcement = Announcement::Unreachable(Verdict::HeartbeatTimeout);
        let (doubted, change) = next(&standing, &announcement, clock.now()).unwrap();
        assert_eq!(doubted.leader(), Some(&leader(1)));
        assert_eq!(change, Change::Unreachable { verdict: Verdict::HeartbeatTimeout, leader: Some(leader(1)) });
        let (after, change) = next(&doubted, &Announcement::Reachable, clock.now()).unwrap();
        assert_eq!(after, standing);
        assert_eq!(change, Change::Reachable { leader: leader(1) });
        assert!(next(&after, &Announcement::Reachable, clock.now()).is_none(), "it was never in doubt");
    }

    proptest! {
        /// However announcements of an election history are repeated, delayed (up to the remembered depth) and mixed
        /// with nulls: the moves are exactly the history, each once and in order.
        #[test]
        fn moves_are_exactly_the_elections(
            noise in prop::collection::vec((0usize..4, 0usize..REMEMBERED_IDS), 1..60),
        ) {
            let mut newest = 1u128;
            let mut ids = vec![1u128];
            for (kind, back) in noise {
                match kind {
                    0 => { newest += 1; ids.push(newest); }
                    1 => ids.push(0),
                    2 => ids.push(newest),
                    _ => ids.push(newest.saturating_sub(back as u128).max(1)),
                }
            }
            let moves: Vec<String> = play(&ids).into_iter().filter(|w| w.starts_with("moved")).collect();
            prop_assert_eq!(moves.len() as u128, newest - 1);
            for (index, word) in moves.iter().enumerate() {
                let expected = format!("moved {}>{}", index + 1, index + 2);
                prop_assert!(word.starts_with(&expected), "{} is not {}", word, expected);
            }
        }

        /// A seat never says that it lost a leader twice without an announcement between, and what it calls lost,
        /// returned or old was its last leader.
        #[test]
        fn losses_and_returns_alternate(ids in prop::collection::vec(0u128..5, 0..60)) {
            let mut empty = true;
            for word in play(&ids) {
                match word.split(' ').next().unwrap() {
                    "lost" => { prop_assert!(!empty); empty = true; }
                    "returned" => { prop_assert!(empty); empty = false; }
                    "elected" | "moved" => empty = false,
                    _ => {}
                }
            }
        }
    }
}
