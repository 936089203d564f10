//! Was everybody told just what happened? Flink's own logs say what did; the webhook receiver says what people were told, and
//! the alert logs what else each agent saw of it: of those that see one election, one sends.
//!
//! Per seat, the leader session ids in the order in which any TaskManager first logged them: each but the first is a
//! change. Each change must be the `new_leader` of a member of exactly one alert, every alert must have come by webhook, and
//! no member may tell of an id that no log of Flink's has. Three kinds of change may be missing:
//!
//! - those that only TaskManagers saw which were killed within [`UNOBSERVABLE`] of it: they were gone before they could
//!   write it down;
//! - those that nobody who lived knew to be one: all TaskManagers that knew the leader before were gone, and one of them was
//!   stopped in order, which makes the agents forget, so that planned work raises no alert;
//! - those whose election people were told, by another seat of it, while an agent said that its alert log could not be
//!   written: a disk was full. Of one election are those with one id and, up to Flink 1.14, those to one JobManager within
//!   [`ONE_ELECTION`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use leaderwatch_agent::leadership::{SeatKey, SessionId};
use serde_json::Value;

use crate::oracle::{self, Leader};

/// How long after an announcement a TaskManager must have lived on, for the change to count as seen.
pub const UNOBSERVABLE: jiff::SignedDuration = jiff::SignedDuration::from_millis(1000);

/// What an agent says where its alert log lacks records.
const RECORDS_LOST: &str = "alert log could not be written";

/// How far apart two changes to one JobManager may be that are of one election.
const ONE_ELECTION: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// An announcement in the log of one TaskManager.
#[derive(Debug, Clone)]
struct Seen {
    at: jiff::civil::DateTime,
    seat: SeatKey,
    leader: Leader,
    /// When this TaskManager logged its last line before its next start: its process was gone soon after.
    lived_until: jiff::civil::DateTime,
    /// Whether it was stopped in order.
    stopped: bool,
}

/// A seat has another leader.
#[derive(Debug, Clone)]
struct Change {
    seat: SeatKey,
    id: SessionId,
    /// Host and port of the new leader, and when somebody was told first.
    place: String,
    at: jiff::civil::DateTime,
    /// Whether somebody lived to tell it.
    observable: bool,
    /// Whether nobody could know that it is a change.
    forgotten: bool,
}

/// What came out.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Changes of a leader by Flink's own logs.
    pub changes: usize,
    /// Alerts that came by webhook, each counted once.
    pub alerts: usize,
    /// Messages by webhook beyond the first with the same id and the same members.
    pub repeated: usize,
    /// Changes that nobody lived to tell.
    pub unobservable: Vec<String>,
    /// Changes after a planned stop of those who knew the leader before.
    pub forgotten: Vec<String>,
    /// Changes of an election that was told, which a full disk kept out of the alert log.
    pub unlogged: Vec<String>,
    /// Alerts that an agent raised and nobody got.
    pub undelivered: Vec<String>,
    /// Changes that no alert tells.
    pub missed: Vec<String>,
    /// Changes that more than one alert tells.
    pub told_twice: Vec<String>,
    /// What alerts tell and Flink does not.
    pub invented: Vec<String>,
}

impl Verdict {
    /// Holds the messages of the webhook receiver and the records of the alert logs against the logs of the TaskManagers;
    /// `all_logs` is every log of Flink's, for ids that no TaskManager came to log.
    pub fn of(task_manager_logs: &[String], all_logs: &str, messages: &[Value], records: &[Value]) -> Self {
        let changes = changes(task_manager_logs);
        let raised: Vec<&Value> = of_event(records, "alert.raised").map(|record| &record["alert"]).collect();
        let updated: Vec<Value> = of_event(records, "alert.updated").map(as_failover).collect();
        let told = told(messages.iter().chain(raised.iter().copied()).chain(&updated));
        let elections = ToldElections::of(messages);
        let has_lost_records = of_event(records, "agent.problem").any(|record| record["what"] == RECORDS_LOST);
        let mut verdict = Verdict { changes: changes.len(), alerts: distinct(messages), ..Self::default() };
        verdict.repeated = repeated(messages);
        let key = |change: &Change| (name(change.seat), change.id.to_string());
        for change in &changes {
            let what = format!("{} to {}", name(change.seat), change.id);
            match told.get(&key(change)).map_or(0, BTreeSet::len) {
                1 => {}
                0 if change.forgotten => verdict.forgotten.push(what),
                0 if !change.observable => verdict.unobservable.push(what),
                0 if has_lost_records && elections.hold(change) => verdict.unlogged.push(what),
                0 => verdict.missed.push(what),
                _ => verdict.told_twice.push(what),
            }
        }
        let came: BTreeSet<String> = messages.iter().map(|message| message["id"].to_string()).collect();
        let raised_ids =
            raised.iter().filter(|alert| alert["class"] == "failover").map(|alert| alert["id"].to_string());
        verdict.undelivered = raised_ids.collect::<BTreeSet<_>>().difference(&came).cloned().collect();
        let known: BTreeSet<(String, String)> = changes.iter().map(key).collect();
        for (seat, id) in told.keys().filter(|member| !known.contains(*member)) {
            if !is_logged(all_logs, id) {
                verdict.invented.push(format!("{seat} to {id}"));
            }
        }
        verdict
    }

    /// Whether all is as promised.
    pub fn holds(&self) -> bool {
        let wrong = [&self.missed, &self.told_twice, &self.invented, &self.undelivered];
        self.changes > 0 && wrong.iter().all(|list| list.is_empty())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "changes {}, alerts {}, repeated messages {}, changes that nobody lived to tell {}, that nobody knew {}, that a \
             full disk kept out of the alert log {}",
            self.changes,
            self.alerts,
            self.repeated,
            self.unobservable.len(),
            self.forgotten.len(),
            self.unlogged.len()
        )?;
        let lists = [
            ("missed", &self.missed),
            ("told twice", &self.told_twice),
            ("invented", &self.invented),
            ("undelivered", &self.undelivered),
        ];
        for (what, list) in lists {
            writeln!(out, "{what}: {}", if list.is_empty() { "none".to_owned() } else { list.join("; ") })?;
        }
        Ok(())
    }
}

/// Every change, by what the TaskManagers logged.
fn changes(logs: &[String]) -> Vec<Change> {
    let mut seen: Vec<Seen> = logs.iter().flat_map(|log| sightings(log)).collect();
    seen.sort_by_key(|sighting| sighting.at);
    let mut changes: Vec<Change> = Vec::new();
    let mut last: Vec<(SeatKey, SessionId)> = Vec::new();
    for (index, sighting) in seen.iter().enumerate() {
        let (seat, id) = (sighting.seat, sighting.leader.id);
        let observable = sighting.lived_until.duration_since(sighting.at) >= UNOBSERVABLE;
        if let Some(change) = changes.iter_mut().find(|change| change.seat == seat && change.id == id) {
            change.observable |= observable;
            continue;
        }
        let of_seat = || seen[..index].iter().filter(|earlier| earlier.seat == seat);
        if of_seat().any(|earlier| earlier.leader.id == id) {
            continue;
        }
        match last.iter_mut().find(|(known, _)| *known == seat) {
            None => last.push((seat, id)),
            Some((_, before)) => {
                let knew: Vec<&Seen> = of_seat().filter(|earlier| earlier.leader.id == *before).collect();
                let lives = knew.iter().any(|earlier| earlier.lived_until >= sighting.at);
                let forgotten = !lives && knew.iter().any(|earlier| earlier.stopped);
                let place = authority(&sighting.leader.address);
                changes.push(Change { seat, id, place, at: sighting.at, observable, forgotten });
                *before = id;
            }
        }
    }
    changes
}

/// What a TaskManager was told, in each of its lives.
fn sightings(log: &str) -> Vec<Seen> {
    let mut sightings: Vec<Seen> = Vec::new();
    let (mut unsettled, mut stopped) = (0, false);
    let mut last = None;
    for line in log.lines() {
        let Some(at) = time(line) else { continue };
        if line.contains(STARTED) {
            settle(&mut sightings[unsettled..], last, stopped);
            (unsettled, stopped) = (sightings.len(), false);
        }
        stopped |= line.contains(STOPPED);
        last = Some(at);
        for announcement in oracle::announcements(line) {
            let Some(leader) = announcement.leader else { continue };
            sightings.push(Seen { at, seat: announcement.seat, leader, lived_until: at, stopped: false });
        }
    }
    settle(&mut sightings[unsettled..], last, stopped);
    sightings
}

fn settle(sightings: &mut [Seen], last: Option<jiff::civil::DateTime>, stopped: bool) {
    for sighting in sightings {
        sighting.lived_until = last.unwrap_or(sighting.at);
        sighting.stopped = stopped;
    }
}

/// What a TaskManager logs first.
const STARTED: &str = "Preconfiguration";
/// What it logs when it is stopped in order.
const STOPPED: &str = "RECEIVED SIGNAL 15";

/// `2026-11-30 10:19:48,000`
fn time(line: &str) -> Option<jiff::civil::DateTime> {
    let text = line.get(..23)?.replacen(' ', "T", 1).replace(',', ".");
    text.parse().ok()
}

fn name(seat: SeatKey) -> String {
    let job = seat.job_id.map(|job| format!(" {job}")).unwrap_or_default();
    format!("{}{job}", seat.component.name())
}

fn of_event<'a>(records: &'a [Value], event: &'a str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["event"] == event)
}

/// The members that came late to an alert, as if they were one.
fn as_failover(record: &Value) -> Value {
    serde_json::json!({"class": "failover", "id": record["alert_id"], "members": record["members"]})
}

/// The elections that people were told of.
struct ToldElections {
    /// Session ids of new leaders.
    ids: BTreeSet<String>,
    /// Where new leaders are, and when that was.
    places: Vec<(String, jiff::civil::DateTime)>,
}

impl ToldElections {
    fn of(messages: &[Value]) -> Self {
        let ids = told(messages.iter()).into_keys().map(|(_, id)| id).collect();
        let mut places = Vec::new();
        for message in messages.iter().filter(|message| message["class"] == "failover") {
            let occurred_at = message["occurred_at"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let Some(at) = occurred_at else { continue };
            // As Flink's logs have it.
            let at = jiff::tz::TimeZone::system().to_datetime(at);
            let members = message["members"].as_array().into_iter().flatten();
            places
                .extend(members.filter_map(|member| Some((authority(member["new_leader"]["address"].as_str()?), at))));
        }
        Self { ids, places }
    }

    fn hold(&self, change: &Change) -> bool {
        let is_near = |at: jiff::civil::DateTime| change.at.duration_since(at).abs() <= ONE_ELECTION;
        self.ids.contains(&change.id.to_string())
            || self.places.iter().any(|(place, at)| *place == change.place && is_near(*at))
    }
}

/// Host and port of an address such as `akka.tcp://flink@host:6123/user/rpc/jobmanager_2`.
fn authority(address: &str) -> String {
    let behind = address.split_once("://").map_or(address, |(_, behind)| behind);
    let authority = behind.split('/').next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Which alerts tell of (seat, new id).
fn told<'a>(alerts: impl Iterator<Item = &'a Value>) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut told: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for message in alerts.filter(|message| message["class"] == "failover") {
        for member in message["members"].as_array().into_iter().flatten() {
            let job = member["job_id"].as_str().map(|job| format!(" {job}")).unwrap_or_default();
            let seat = format!("{}{job}", member["component"].as_str().unwrap_or_default());
            let id = member["new_leader"]["id"].as_str().unwrap_or_default().to_owned();
            told.entry((seat, id)).or_default().insert(message["id"].to_string());
        }
    }
    told
}

fn distinct(messages: &[Value]) -> usize {
    messages.iter().map(|message| message["id"].to_string()).collect::<BTreeSet<_>>().len()
}

fn repeated(messages: &[Value]) -> usize {
    let different: BTreeSet<String> =
        messages.iter().map(|message| format!("{}{}", message["id"], message["members"])).collect();
    messages.len() - different.len()
}

/// Flink's logs hold an id as a UUID, or as its halves swapped and without dashes.
fn is_logged(logs: &str, id: &str) -> bool {
    let swapped = id.parse::<SessionId>().map(|SessionId(number)| format!("{:032x}", number.rotate_left(64)));
    logs.contains(id) || swapped.is_ok_and(|swapped| logs.contains(&swapped))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "00112233-4455-6677-8899-aabbccddeeff";
    const B: &str = "00000000-0000-0001-0000-000000000002";

    /// A TaskManager that was told of A and then of B, and lived on for so many seconds.
    fn log(seconds_after: u32) -> String {
        format!(
            "2026-11-30 10:00:00,000 INFO  - Preconfiguration:\n\
             2026-11-30 10:00:01,000 INFO  - Connecting to ResourceManager akka://a(8899aabbccddeeff0011223344556677).\n\
             2026-11-30 10:00:09,000 INFO  - Connecting to ResourceManager akka://b(00000000000000020000000000000001).\n\
             2026-11-30 10:00:{:02},000 INFO  - anything\n",
            9 + seconds_after
        )
    }

    fn message(id: &str, new: &str) -> Value {
        json!({"class": "failover", "id": id,
               "members": [{"component": "resourcemanager", "old_leader": {"id": A}, "new_leader": {"id": new}}]})
    }

    #[test]
    fn one_alert_for_one_change_holds() {
        let verdict = Verdict::of(&[log(5), log(5)], "", &[message("1", B), message("1", B)], &[]);
        assert!(verdict.holds(), "{verdict}");
        assert_eq!((verdict.changes, verdict.alerts, verdict.repeated), (1, 1, 1));
    }

    #[test]
    fn a_missed_a_doubled_and_an_invented_change_do_not() {
        assert_eq!(Verdict::of(&[log(5)], "", &[], &[]).missed.len(), 1);
        assert_eq!(Verdict::of(&[log(5)], "", &[message("1", B), message("2", B)], &[]).told_twice.len(), 1);
        let other = "00000000-0000-0001-0000-000000000003";
        let messages = [message("1", B), message("2", other)];
        assert_eq!(Verdict::of(&[log(5)], "", &messages, &[]).invented.len(), 1);
        assert!(Verdict::of(&[log(5)], &format!("granted {other}"), &messages, &[]).holds());
        assert!(!Verdict::of(&[], "", &[], &[]).holds(), "nothing happened, so nothing is shown");
    }

    /// The leader is A; the TaskManager goes, and its next life is told of B.
    fn two_lives(end: &str) -> String {
        format!(
            "2026-11-30 10:00:00,000 INFO  - Preconfiguration:\n\
             2026-11-30 10:00:01,000 INFO  - Connecting to ResourceManager akka://a(8899aabbccddeeff0011223344556677).\n\
             2026-11-30 10:00:05,000 INFO  - {end}\n\
             2026-11-30 10:00:20,000 INFO  - Preconfiguration:\n\
             2026-11-30 10:00:29,000 INFO  - Connecting to ResourceManager akka://b(00000000000000020000000000000001).\n\
             2026-11-30 10:00:40,000 INFO  - anything\n"
        )
    }

    #[test]
    fn a_change_after_a_planned_stop_may_be_missing_and_one_after_a_kill_may_not() {
        let stopped = Verdict::of(&[two_lives("RECEIVED SIGNAL 15: SIGTERM.")], "", &[], &[]);
        assert_eq!((stopped.missed.len(), stopped.forgotten.len()), (0, 1));
        let killed = Verdict::of(&[two_lives("anything")], "", &[], &[]);
        assert_eq!((killed.missed.len(), killed.forgotten.len()), (1, 0));
        // Another one lived on.
        let beside = two_lives("anything").replace("20,000 INFO  - Preconfiguration:", "20,000 INFO  - anything");
        let survived = Verdict::of(&[two_lives("RECEIVED SIGNAL 15: SIGTERM."), beside], "", &[], &[]);
        assert_eq!((survived.missed.len(), survived.forgotten.len()), (1, 0));
    }

    #[test]
    fn who_was_killed_at_once_need_not_have_told() {
        let verdict = Verdict::of(&[log(0)], "", &[], &[]);
        assert_eq!((verdict.missed.len(), verdict.unobservable.len()), (0, 1));
    }

    fn raised(id: &str, new: &str) -> Value {
        json!({"event": "alert.raised", "alert": message(id, new)})
    }

    /// Of two agents that see one election one sends, and the other may have seen more of it.
    #[test]
    fn what_only_an_alert_log_tells_is_told_if_people_got_the_alert() {
        let other_seat = json!({"class": "failover", "id": "1", "members": []});
        let told = Verdict::of(&[log(5)], "", &[other_seat], &[raised("1", B)]);
        assert!(told.holds(), "{told}");
        let kept_back = Verdict::of(&[log(5)], "", &[], &[raised("1", B)]);
        assert_eq!((kept_back.missed.len(), kept_back.undelivered.len()), (0, 1));
        assert!(!kept_back.holds());
    }

    #[test]
    fn a_full_disk_excuses_a_record_and_no_alert() {
        let of_job = |id: &str| {
            json!({"class": "failover", "id": "1",
                   "members": [{"component": "jobmanager", "job_id": "0f", "new_leader": {"id": id}}]})
        };
        let full = [json!({"event": "agent.problem", "what": RECORDS_LOST})];
        let excused = Verdict::of(&[log(5)], "", &[of_job(B)], &full);
        assert_eq!((excused.missed.len(), excused.unlogged.len()), (0, 1));
        assert_eq!(Verdict::of(&[log(5)], "", &[of_job(B)], &[]).missed.len(), 1);
        assert_eq!(Verdict::of(&[log(5)], "", &[], &full).missed.len(), 1, "nobody was told of that election");
    }

    /// Up to Flink 1.14 each component has an id of its own.
    #[test]
    fn an_election_with_an_id_for_each_component_is_known_by_place_and_time() {
        let full = [json!({"event": "agent.problem", "what": RECORDS_LOST})];
        let missed = |place: &str, second: i8| {
            let at = jiff::civil::date(2026, 11, 30).at(10, 0, second, 0);
            let at = jiff::tz::TimeZone::system().to_timestamp(at).unwrap().to_string();
            let leader = json!({"id": "00000000-0000-0001-0000-000000000009", "address": format!("akka.tcp://flink@{place}/user/x")});
            let message = json!({"class": "failover", "id": "1", "occurred_at": at,
                "members": [{"component": "jobmanager", "job_id": "0f", "new_leader": leader}]});
            Verdict::of(&[log(5)], "", &[message], &full).missed.len()
        };
        assert_eq!((missed("b", 10), missed("c", 10), missed("b", 45)), (0, 1, 1));
    }
}
