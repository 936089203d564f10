//! What Flink itself says about leaders: reads a TaskManager's log, with DEBUG lines of its job leader service.

use leaderwatch_agent::leadership::{Component, JobId, SeatKey, SessionId};

/// A leader, as Flink names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Its session id.
    pub id: SessionId,
    /// Its address.
    pub address: String,
}

/// One thing that Flink said: who leads a seat now, or that nobody does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// What is led.
    pub seat: SeatKey,
    /// By whom.
    pub leader: Option<Leader>,
}

/// A move of a leader: the last leader that a seat had, and another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// What is led.
    pub seat: SeatKey,
    /// By whom before.
    pub old: Leader,
    /// By whom now.
    pub new: Leader,
}

/// Every announcement of a TaskManager's log, in order.
pub fn announcements(log: &str) -> Vec<Announcement> {
    log.lines().filter_map(|line| job_leader(line).or_else(|| resource_manager(line))).collect()
}

/// (id, address) of every ResourceManager that a TaskManager was told of, in order.
pub fn resource_managers(log: &str) -> Vec<(SessionId, String)> {
    let told = log.lines().filter_map(resource_manager);
    told.filter_map(|announcement| announcement.leader).map(|leader| (leader.id, leader.address)).collect()
}

/// The moves among these announcements.
pub fn moves(announcements: &[Announcement]) -> Vec<Move> {
    let mut last: Vec<(SeatKey, Leader)> = Vec::new();
    let mut moves = Vec::new();
    for Announcement { seat, leader } in announcements {
        let Some(new) = leader else { continue };
        match last.iter_mut().find(|(known, _)| known == seat) {
            None => last.push((*seat, new.clone())),
            Some((_, old)) if old.id == new.id => {}
            Some((_, old)) => {
                moves.push(Move { seat: *seat, old: old.clone(), new: new.clone() });
                *old = new.clone();
            }
        }
    }
    moves
}

/// `New leader information for job JOB. Address: ADDRESS, leader id: ID.`
fn job_leader(line: &str) -> Option<Announcement> {
    let rest = after(line, "New leader information for job ")?;
    let (job, rest) = rest.split_once(". Address: ")?;
    let (address, id) = rest.split_once(", leader id: ")?;
    let leader = match id.trim_end_matches('.') {
        "null" => None,
        id => Some(Leader { id: unswapped(id)?, address: address.to_owned() }),
    };
    Some(Announcement { seat: SeatKey::job(job.parse::<JobId>().ok()?), leader })
}

/// `Connecting to ResourceManager ADDRESS(ID).`
fn resource_manager(line: &str) -> Option<Announcement> {
    let rest = after(line, "Connecting to ResourceManager ")?;
    let (address, id) = rest.split_once('(')?;
    let id = unswapped(id.trim_end_matches(['.', ')']))?;
    let leader = Some(Leader { id, address: address.to_owned() });
    Some(Announcement { seat: SeatKey::cluster(Component::ResourceManager), leader })
}

fn after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    line.split_once(words).map(|(_, rest)| rest)
}

/// Flink prints a session id as its `AbstractID` does, lower half first: the halves of the UUID stand swapped.
fn unswapped(printed: &str) -> Option<SessionId> {
    let SessionId(number) = printed.parse().ok()?;
    Some(SessionId(number.rotate_left(64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-30 10:19:48,000 INFO  o.a.f.r.t.TaskExecutor [] - Connecting to ResourceManager akka.tcp://flink@127.0.0.1:1/user/rpc/resourcemanager_0(8899aabbccddeeff0011223344556677).
2026-11-30 10:19:48,001 DEBUG o.a.f.r.t.DefaultJobLeaderService [] - New leader information for job 0123456789abcdef0123456789abcdef. Address: akka.tcp://flink@127.0.0.1:1/user/rpc/jobmanager_2, leader id: 8899aabbccddeeff0011223344556677.
2026-11-30 10:19:49,001 DEBUG o.a.f.r.t.DefaultJobLeaderService [] - New leader information for job 0123456789abcdef0123456789abcdef. Address: null, leader id: null.
2026-11-30 10:19:50,001 DEBUG o.a.f.r.t.DefaultJobLeaderService [] - New leader information for job 0123456789abcdef0123456789abcdef. Address: akka.tcp://flink@127.0.0.1:2/user/rpc/jobmanager_2, leader id: 00000000000000020000000000000001.
2026-11-30 10:19:51,001 DEBUG o.a.f.r.t.DefaultJobLeaderService [] - New leader information for job 0123456789abcdef0123456789abcdef. Address: akka.tcp://flink@127.0.0.1:2/user/rpc/jobmanager_2, leader id: 00000000000000020000000000000001.
";

    #[test]
    fn the_halves_of_a_printed_session_id_are_swapped_back() {
        let seen = announcements(LOG);
        assert_eq!(seen.len(), 5);
        let leader = seen[0].leader.as_ref().unwrap();
        assert_eq!(leader.id.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(leader.address, "akka.tcp://flink@127.0.0.1:1/user/rpc/resourcemanager_0");
        assert_eq!(seen[2].leader, None);
    }

    #[test]
    fn a_move_reaches_across_a_null_and_a_repeat_is_none() {
        let moves = moves(&announcements(LOG));
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].old.id.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(moves[0].new.id.to_string(), "00000000-0000-0001-0000-000000000002");
        assert!(moves[0].new.address.contains(":2/"));
    }
}
