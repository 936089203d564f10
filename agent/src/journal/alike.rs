//! Finds what several processes saw alike: every TaskManager logs the same election.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::reader::{Head, Stamp};

/// A leader may be lost and return again, with the same id. Two processes that tell it within this time, in seconds,
/// tell of the same time.
const SAME_WITHIN_SECONDS: i64 = 60;

/// How many facts are remembered, at least, and half as many as at most.
const REMEMBERED: usize = 65_536;

/// Remembers what was told, and by whom, in constant memory.
#[derive(Default)]
pub struct Alike {
    recent: HashMap<u64, Told>,
    older: HashMap<u64, Told>,
}

#[derive(Clone, Copy)]
struct Told {
    by: u64,
    at_seconds: i64,
}

/// How often the same fact may come true.
enum Fact {
    /// Once: its ids are drawn at random.
    Once(u64),
    /// Again and again.
    Repeating(u64),
}

impl Alike {
    /// Whether another process told the same before. What one process tells twice happened twice.
    pub fn told_before(&mut self, head: &Head<'_>) -> bool {
        let (key, repeating) = match fact(head) {
            None => return false,
            Some(Fact::Once(key)) => (key, false),
            Some(Fact::Repeating(key)) => (key, true),
        };
        let told =
            Told { by: hash(&(&*head.host, head.pid)), at_seconds: if repeating { epoch_seconds(head) } else { 0 } };
        let before = self.recent.get(&key).or_else(|| self.older.get(&key)).copied();
        if let Some(before) = before
            && before.by != told.by
            && told.at_seconds - before.at_seconds <= SAME_WITHIN_SECONDS
        {
            return true;
        }
        if self.recent.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, told);
        false
    }
}

fn epoch_seconds(head: &Head<'_>) -> i64 {
    Stamp::parse(&head.ts).and_then(|stamp| stamp.timestamp()).map_or(0, |at| at.as_second())
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// What a record tells, whoever tells it; none for what concerns the telling process only, and for deliveries: two of
/// the same alert are two messages that somebody got.
fn fact(head: &Head<'_>) -> Option<Fact> {
    let seat = (&*head.event, &*head.cluster, &head.component, &head.job_id, &head.leader_id);
    match &*head.event {
        "leader.elected" | "leader.moved" => Some(Fact::Once(hash(&seat))),
        event if event.starts_with("leader.") => Some(Fact::Repeating(hash(&seat))),
        "alert.raised" => {
            // What resolves an alert has its id.
            let alert = head.raised_alert()?;
            Some(Fact::Once(hash(&(&*head.event, &*head.cluster, &*alert.id, &*alert.class))))
        }
        "alert.updated" => {
            let members = head.members.map(|raw| raw.get());
            Some(Fact::Once(hash(&(&*head.event, &head.alert_id, members))))
        }
        "alert.suppressed" => Some(Fact::Once(hash(&(&*head.event, &head.alert_id, &head.target, &head.by)))),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn told(alike: &mut Alike, second: u32, event: &str, pid: u32, rest: &str) -> bool {
        let line = format!(
            r#"{{"ts":"2026-11-30T10:{:02}:{:02}.000Z","event":"{event}",{rest},"cluster":"c","host":"h","pid":{pid}}}"#,
            second / 60,
            second % 60
        );
        alike.told_before(&Head::of(line.as_bytes()).unwrap())
    }

    #[test]
    fn a_move_is_told_once() {
        let alike = &mut Alike::default();
        let seat = r#""component":"resourcemanager","leader_id":"a","leaderless_ms":12"#;
        assert!(!told(alike, 0, "leader.moved", 1, seat));
        assert!(told(alike, 1, "leader.moved", 2, &seat.replace("12", "407")));
        assert!(told(alike, 500, "leader.moved", 3, seat));
        assert!(!told(alike, 501, "leader.moved", 3, &seat.replace("\"a\"", "\"b\"")));
    }

    #[test]
    fn a_leader_that_returns_again_is_told_again() {
        let alike = &mut Alike::default();
        let seat = r#""component":"resourcemanager","leader_id":"a""#;
        assert!(!told(alike, 0, "leader.returned", 1, seat));
        assert!(told(alike, 1, "leader.returned", 2, seat));
        assert!(!told(alike, 20, "leader.returned", 1, seat));
        assert!(told(alike, 21, "leader.returned", 2, seat));
        assert!(!told(alike, 300, "leader.returned", 2, seat));
    }

    #[test]
    fn an_alert_is_raised_once_but_each_delivery_counts() {
        let alike = &mut Alike::default();
        let alert = r#""alert":{"schema":1,"id":"7","class":"failover"}"#;
        assert!(!told(alike, 0, "alert.raised", 1, alert));
        assert!(told(alike, 1, "alert.raised", 2, alert));
        assert!(!told(alike, 1, "alert.raised", 2, &alert.replace("failover", "resolved")));
        let delivery = r#""alert_id":"7","target":"mail""#;
        assert!(!told(alike, 2, "alert.delivered", 1, delivery));
        assert!(!told(alike, 2, "alert.delivered", 2, delivery));
    }
}
