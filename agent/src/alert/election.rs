//! One election, one alert: gathers the seats that moved under one new leader, waits for the rest of them, and tells.
//!
//! An election opens with the first seat that moves, gathers members for `group_wait` and is then told. A member that
//! comes later joins the same alert. No clock and no disk in here: time comes in with each call, and what is to be done
//! goes out as an [`Effect`].
//!
//! From Flink 1.15 on one election gives all components of a JobManager process one session id, so the id alone says
//! what belongs together (FLINK-24038). Before, each component draws its own, and host and port of the old or new leader
//! say it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effect::{AlertSettings, Audience, Effect};
use super::id::alert_id;
use super::model::{Alert, Cause, Class, Member, Severity};
use crate::clock::Moment;
use crate::event::Event;
use crate::leadership::{Change, Component, Leader, SeatChange, SeatKey, SessionId};
use crate::target::{Action, Notice};

/// How long an election of jobs only waits for the ResourceManager's, before Flink 1.15.
const WAIT_FOR_RESOURCE_MANAGER: Duration = Duration::from_secs(10);
/// How long an election waits for the jobs that lost their leader with it. Measured on a busy machine: a job is told its
/// new leader up to 5 s after the ResourceManager's.
const WAIT_FOR_JOBS: Duration = Duration::from_secs(10);
/// A job that lost its leader longer ago is not waited for: it may have ended, which Flink does not announce.
const LOST_LATELY: Duration = Duration::from_secs(120);
/// How long an alert waits for the disk. Beyond it, it goes on without.
const WAIT_FOR_DISK: Duration = Duration::from_secs(1);
/// How many told elections are remembered, so that late members find their alert.
const TOLD_ELECTIONS: usize = 64;
/// How many members an alert lists; the alert log has them all.
const LISTED_MEMBERS: usize = 100;

/// A seat that moved to the new leader of an election, or was first seen under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Move {
    member: Member,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    leaderless_ms: Option<u64>,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unreachable: bool,
    /// The old leader said that it ended in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    orderly: bool,
}

/// What an election's members have in common, so that the next one can be told to belong.
#[derive(Debug, Default)]
struct Group {
    seats: HashSet<SeatKey>,
    new_ids: HashSet<SessionId>,
    new_places: HashSet<String>,
    old_places: HashSet<String>,
}

impl Group {
    fn add(&mut self, member: &Member) {
        self.seats.insert(seat_of(member));
        self.new_ids.extend(member.new_leader.as_ref().map(|leader| leader.id));
        self.new_places.extend(place_of(&member.new_leader).map(str::to_owned));
        self.old_places.extend(place_of(&member.old_leader).map(str::to_owned));
    }

    /// A seat takes part in an election once.
    fn admits(&self, member: &Member, how: Belonging) -> bool {
        if self.seats.contains(&seat_of(member)) {
            return false;
        }
        if member.new_leader.as_ref().is_some_and(|leader| self.new_ids.contains(&leader.id)) {
            return true;
        }
        let shares = |leader: &Option<Leader>, places: &HashSet<String>| {
            place_of(leader).is_some_and(|place| places.contains(place))
        };
        how == Belonging::ByIdOrPlace
            && (shares(&member.new_leader, &self.new_places) || shares(&member.old_leader, &self.old_places))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belonging {
    ById,
    ByIdOrPlace,
}

/// An election that still gathers.
#[derive(Debug)]
struct Open {
    opened: Moment,
    /// Since when `group_wait` runs: the first part is on disk, or the disk did not answer in time.
    waiting_since: Option<Duration>,
    group: Group,
    /// The moves that the alert lists; the ResourceManager's is always among them.
    moves: Vec<Move>,
    left_out: u64,
    has_job: bool,
    /// How many of the moves are saved.
    saved_moves: usize,
    saved_parts: Vec<String>,
}

impl Open {
    fn begun(at: Moment) -> Open {
        Open {
            opened: at,
            waiting_since: None,
            group: Group::default(),
            moves: Vec::new(),
            left_out: 0,
            has_job: false,
            saved_moves: 0,
            saved_parts: Vec::new(),
        }
    }

    fn add(&mut self, movement: Move) {
        self.group.add(&movement.member);
        self.has_job |= movement.member.component == Component::JobManager;
        let is_first_of_all = movement.member.component == Component::ResourceManager;
        if self.moves.len() < LISTED_MEMBERS || is_first_of_all {
            self.moves.push(movement);
        } else {
            self.left_out += 1;
        }
    }

    /// A name that no other election of this cluster has: the session id that its first seat moved to.
    fn name(&self) -> String {
        let first = self.moves.first().and_then(|m| m.member.new_leader.as_ref());
        first.map_or_else(String::new, |leader| leader.id.to_string())
    }

    fn has_resource_manager(&self) -> bool {
        self.group.seats.contains(&SeatKey::cluster(Component::ResourceManager))
    }
}

/// An election that was told.
#[derive(Debug)]
struct Told {
    alert: Alert,
    group: Group,
    opened: Moment,
    /// Members that joined and are not told to anybody yet.
    fresh: Vec<Member>,
    /// When those that do not update in place are told of who joined.
    late_due: Option<Duration>,
    messages: u32,
}

impl Told {
    fn add(&mut self, member: Member, group_interval: Duration, at: Moment) {
        self.group.add(&member);
        let earliest = self.opened.monotonic + group_interval;
        self.late_due.get_or_insert(earliest.max(at.monotonic));
        if self.alert.members.len() < LISTED_MEMBERS {
            self.alert.members.push(member.clone());
        } else {
            self.alert.members_left_out += 1;
        }
        self.fresh.push(member);
    }
}

/// All elections of the cluster, as far as this process saw them.
#[derive(Debug)]
pub struct Elections {
    pub(super) settings: Arc<AlertSettings>,
    open: Vec<Open>,
    told: Vec<Told>,
    /// The last leader that Flink held for dead.
    unreachable: Option<SessionId>,
    /// Jobs whose leader was lost lately and that have none yet, and when that was by the monotonic clock.
    leaderless_jobs: HashMap<SeatKey, Duration>,
}

impl Elections {
    /// No elections yet.
    pub fn new(settings: Arc<AlertSettings>) -> Self {
        Self { settings, open: Vec::new(), told: Vec::new(), unreachable: None, leaderless_jobs: HashMap::new() }
    }

    /// Takes a change of a seat in.
    pub fn take(&mut self, change: &SeatChange) {
        self.follow_leaderless(change);
        match &change.change {
            // What was first seen under this leader, and is now known to have moved to it, takes part already.
            Change::Moved { new, .. } if self.has_taken_part(change.seat, new.id) => {}
            Change::Moved { old, new, leaderless } => {
                let movement = self.moved(change.seat, old, new, *leaderless, change.at);
                if let Err(movement) = self.join(Box::new(movement), change.at, None) {
                    let mut open = Open::begun(change.at);
                    open.add(*movement);
                    self.open.push(open);
                }
            }
            Change::Elected { leader } if change.seat.component == Component::JobManager => {
                let movement = first_seen(change.seat, leader, change.at);
                // A job that no recent election explains was simply started.
                let _ = self.join(Box::new(movement), change.at, Some(self.settings.group_interval));
            }
            Change::Unreachable { leader: Some(leader), .. } => self.unreachable = Some(leader.id),
            _ => {}
        }
    }

    fn follow_leaderless(&mut self, change: &SeatChange) {
        let now = change.at.monotonic;
        match &change.change {
            Change::Lost { .. } if change.seat.component == Component::JobManager => {
                self.leaderless_jobs.retain(|_, lost| now.saturating_sub(*lost) < LOST_LATELY);
                self.leaderless_jobs.insert(change.seat, now);
            }
            Change::Elected { .. } | Change::Returned { .. } | Change::Moved { .. } => {
                self.leaderless_jobs.remove(&change.seat);
            }
            _ => {}
        }
    }

    /// The process of this leader ended in order, by its own word.
    pub fn ended_in_order(&mut self, leader: SessionId) {
        for movement in self.open.iter_mut().flat_map(|open| &mut open.moves) {
            movement.orderly |= movement.member.old_leader.as_ref().is_some_and(|old| old.id == leader);
        }
    }

    fn has_taken_part(&self, seat: SeatKey, new: SessionId) -> bool {
        let groups = self.open.iter().map(|open| &open.group).chain(self.told.iter().map(|told| &told.group));
        groups.into_iter().any(|group| group.seats.contains(&seat) && group.new_ids.contains(&new))
    }

    /// The part named `key` is on disk.
    pub fn written(&mut self, key: &str, now: Moment) {
        let election = self.open.iter_mut().find(|open| open.saved_parts.iter().any(|part| part == key));
        if let Some(open) = election {
            open.waiting_since.get_or_insert(now.monotonic);
        }
    }

    /// What is to be done by now.
    pub fn due(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.save_open(&mut effects);
        let (due, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<Open>, _>(|open| self.raise_at(open) <= now.monotonic);
        self.open = open;
        effects.extend(due.into_iter().map(|open| self.raise(open)));
        for told in &mut self.told {
            tell_fresh(&self.settings, told, &mut effects);
            tell_late(told, now, &mut effects);
        }
        effects
    }

    /// Raises what still gathers, without waiting: the process ends.
    pub fn raise_all(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.open).into_iter().map(|open| self.raise(open)).collect()
    }

    /// The alert of an election goes on under another id: it ends what was told under that one.
    pub fn continue_under(&mut self, id: &str, other_id: &str) {
        if let Some(told) = self.told.iter_mut().find(|told| told.alert.id == id) {
            told.alert.id = other_id.to_owned();
        }
    }

    /// When [`Elections::due`] has something to do again, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        let open = self.open.iter().map(|open| self.raise_at(open));
        let late = self.told.iter().filter_map(|told| told.late_due);
        open.chain(late).min()
    }

    /// Raises the elections that a dead process had saved, from the parts that it left.
    pub fn recover(&mut self, parts: impl IntoIterator<Item = (String, Value)>, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut elections: BTreeMap<String, Open> = BTreeMap::new();
        for (key, body) in parts {
            let Ok(moves) = serde_json::from_value::<Vec<Move>>(body) else {
                let what = format!("open election {key}");
                let reason = "what an earlier process wrote of it cannot be read; its alert is lost";
                effects.push(Effect::Record(Event::problem(what, reason)));
                continue;
            };
            let name = key.split('.').next().unwrap_or(&key).to_owned();
            let open = elections.entry(name).or_insert_with(|| Open::begun(now));
            for movement in moves {
                open.add(movement);
            }
            open.saved_parts.push(key);
        }
        let whole = elections.into_values().filter(|open| !open.moves.is_empty());
        effects.extend(whole.map(|open| self.raise_unless_told(open)));
        effects
    }

    fn moved(&self, seat: SeatKey, old: &Leader, new: &Leader, leaderless: Option<Duration>, at: Moment) -> Move {
        let member = Member {
            component: seat.component,
            job_id: seat.job_id,
            // What is saved of an election is told by a process that may never learn the name.
            job_name: seat.job_id.and_then(|job| self.settings.job_names.of(job)),
            old_leader: Some(old.clone()),
            new_leader: Some(new.clone()),
            joined: false,
        };
        let leaderless_ms = leaderless.map(|gap| u64::try_from(gap.as_millis()).unwrap_or(u64::MAX));
        Move { member, leaderless_ms, at: at.wall, unreachable: self.unreachable == Some(old.id), orderly: false }
    }

    /// Adds a move to the election that it belongs to: one that still gathers, or one that was told and opened no longer
    /// than `within` ago.
    fn join(&mut self, movement: Box<Move>, at: Moment, within: Option<Duration>) -> Result<(), Box<Move>> {
        let by_place = if self.settings.one_id_for_all { Belonging::ById } else { Belonging::ByIdOrPlace };
        if let Some(open) = self.open.iter_mut().find(|open| open.group.admits(&movement.member, by_place)) {
            open.add(*movement);
            return Ok(());
        }
        let group_interval = self.settings.group_interval;
        let belongs = |told: &&mut Told| {
            let age = at.since(told.opened);
            // Addresses come back with a later election; ids never do.
            let how = if age <= group_interval { by_place } else { Belonging::ById };
            within.is_none_or(|within| age <= within) && told.group.admits(&movement.member, how)
        };
        let Some(told) = self.told.iter_mut().rev().find(belongs) else { return Err(movement) };
        told.add(movement.member, group_interval, at);
        Ok(())
    }

    fn save_open(&mut self, effects: &mut Vec<Effect>) {
        if self.settings.group_wait.is_zero() && self.settings.one_id_for_all {
            return;
        }
        for open in &mut self.open {
            let unsaved = &open.moves[open.saved_moves..];
            if unsaved.is_empty() {
                continue;
            }
            // What is made of strings and numbers always has a JSON form.
            let Ok(body) = serde_json::to_value(unsaved) else { continue };
            let key = format!("{}.{}", open.name(), open.saved_parts.len());
            open.saved_moves = open.moves.len();
            open.saved_parts.push(key.clone());
            effects.push(Effect::Save { key, body });
        }
    }

    fn raise_at(&self, open: &Open) -> Duration {
        let group_wait = self.settings.group_wait;
        if group_wait.is_zero() && self.settings.one_id_for_all {
            return open.opened.monotonic;
        }
        let wait = if !self.settings.one_id_for_all && !open.has_resource_manager() {
            group_wait.max(WAIT_FOR_RESOURCE_MANAGER)
        } else if self.waits_for_jobs(open) {
            group_wait.max(WAIT_FOR_JOBS)
        } else {
            group_wait
        };
        open.waiting_since.unwrap_or(open.opened.monotonic + WAIT_FOR_DISK) + wait
    }

    /// An election that this process told itself is not told again for the one that died.
    fn raise_unless_told(&mut self, open: Open) -> Effect {
        let id = self.alert(&open).id;
        let is_told = self.told.iter().any(|told| told.alert.id == id);
        // What this process remembers of the same election is still gathering.
        if is_told || self.open.iter().any(|gathering| self.alert(gathering).id == id) {
            return Effect::Forget { saved: open.saved_parts };
        }
        self.raise(open)
    }

    fn waits_for_jobs(&self, open: &Open) -> bool {
        self.leaderless_jobs.values().any(|lost| open.opened.monotonic.saturating_sub(*lost) < LOST_LATELY)
    }

    fn raise(&mut self, open: Open) -> Effect {
        let alert = self.alert(&open);
        if self.told.len() == TOLD_ELECTIONS {
            self.told.remove(0);
        }
        let Open { opened, group, saved_parts, .. } = open;
        self.told.push(Told { alert: alert.clone(), group, opened, fresh: Vec::new(), late_due: None, messages: 1 });
        Effect::Raise { alert: Box::new(alert), saved: saved_parts }
    }

    fn alert(&self, open: &Open) -> Alert {
        let settings = &self.settings;
        let first = primary(&open.moves);
        let mut members: Vec<Member> = open.moves.iter().map(|m| m.member.clone()).collect();
        members.sort_by_key(|member| (member.component != Component::ResourceManager, seat_of(member)));
        settings.name_jobs(&mut members);
        let (old_leader, new_leader) = (first.member.old_leader.clone(), first.member.new_leader.clone());
        let new_id = new_leader.as_ref().map_or(SessionId::NO_HIGH_AVAILABILITY, |leader| leader.id);
        let id = alert_id("failover", settings.namespace.as_deref(), &settings.cluster, new_id);
        let mut alert = settings.alert(Class::Failover, id, first.at);
        alert.severity = if open.has_job { Severity::Critical } else { Severity::Warning };
        alert.leaderless_ms = first.leaderless_ms;
        alert.same_address = same_place(&old_leader, &new_leader);
        alert.cause = cause(first);
        alert.old_leader = old_leader;
        alert.new_leader = new_leader;
        alert.members = members;
        alert.members_left_out = open.left_out;
        settings.texts.write(&mut alert);
        alert
    }
}

/// Tells the log, and the targets that update in place, who joined a told alert.
fn tell_fresh(settings: &AlertSettings, told: &mut Told, effects: &mut Vec<Effect>) {
    if told.fresh.is_empty() {
        return;
    }
    let mut members = std::mem::take(&mut told.fresh);
    if members.iter().any(|member| member.component == Component::JobManager) {
        told.alert.severity = Severity::Critical;
    }
    members.truncate(LISTED_MEMBERS);
    settings.name_jobs(&mut members);
    settings.name_jobs(&mut told.alert.members);
    settings.texts.write(&mut told.alert);
    let alert = told.alert.clone();
    effects.push(Effect::Record(Event::AlertUpdated { alert_id: alert.id.clone(), members }));
    let notice = Notice { message_id: next_message(told), action: Action::Update, alert };
    effects.push(Effect::Notify { notice: Box::new(notice), audience: Audience::InPlace });
}

/// Tells the targets that do not update in place who joined since their last message, once an interval.
fn tell_late(told: &mut Told, now: Moment, effects: &mut Vec<Effect>) {
    if told.late_due.is_none_or(|due| due > now.monotonic) {
        return;
    }
    told.late_due = None;
    let notice = Notice { message_id: next_message(told), action: Action::Update, alert: told.alert.clone() };
    effects.push(Effect::Notify { notice: Box::new(notice), audience: Audience::NotInPlace });
}

/// The id of the next message about an alert. A receiver that drops repeats by this id must not drop an update.
fn next_message(told: &mut Told) -> String {
    let message_id = format!("{}-{}", told.alert.id, told.messages);
    told.messages += 1;
    message_id
}

fn first_seen(seat: SeatKey, leader: &Leader, at: Moment) -> Move {
    let member = Member {
        component: seat.component,
        job_id: seat.job_id,
        job_name: None,
        old_leader: None,
        new_leader: Some(leader.clone()),
        joined: true,
    };
    Move { member, leaderless_ms: None, at: at.wall, unreachable: false, orderly: false }
}

/// The move that speaks for the election: the ResourceManager's, else the first in the order of seats.
fn primary(moves: &[Move]) -> &Move {
    let rank = |m: &&Move| (m.member.joined, m.member.component != Component::ResourceManager, seat_of(&m.member));
    moves.iter().min_by_key(rank).expect("an election has at least the move that opened it")
}

fn seat_of(member: &Member) -> SeatKey {
    SeatKey { component: member.component, job_id: member.job_id }
}

fn place_of(leader: &Option<Leader>) -> Option<&str> {
    leader.as_ref()?.host_and_port()
}

fn same_place(one: &Option<Leader>, other: &Option<Leader>) -> Option<bool> {
    Some(place_of(one)? == place_of(other)?)
}

fn cause(first: &Move) -> Option<Cause> {
    if first.orderly {
        return Some(Cause::OrderlyStop);
    }
    if first.unreachable {
        return Some(Cause::Unreachable);
    }
    first.leaderless_ms.map(|_| Cause::Revoked)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::leadership::JobId;

    const RESOURCE_MANAGER: SeatKey = SeatKey { component: Component::ResourceManager, job_id: None };

    fn settings(one_id_for_all: bool) -> Arc<AlertSettings> {
        Arc::new(AlertSettings { one_id_for_all, ..AlertSettings::for_tests() })
    }

    fn leader(id: u128, host: &str) -> Leader {
        Leader { id: SessionId(id), address: Some(format!("akka.tcp://flink@{host}:6123/user/rpc/x_{id}").into()) }
    }

    struct Play {
        clock: ManualClock,
        elections: Elections,
        effects: Vec<Effect>,
    }

    impl Play {
        fn new(one_id_for_all: bool) -> Play {
            let elections = Elections::new(settings(one_id_for_all));
            Play { clock: ManualClock::default(), elections, effects: Vec::new() }
        }

        fn take(&mut self, seat: SeatKey, change: Change) {
            self.elections.take(&SeatChange { seat, change, at: self.clock.now(), left_out: 0 });
        }

        fn moved(&mut self, seat: SeatKey, old: Leader, new: Leader) {
            self.take(seat, Change::Moved { old, new, leaderless: None });
        }

        /// Lets time pass in steps of 100 ms with a disk that answers at once.
        fn pass(&mut self, duration: Duration) {
            let step = Duration::from_millis(100);
            let mut left = duration;
            loop {
                for effect in self.elections.due(self.clock.now()) {
                    if let Effect::Save { key, .. } = &effect {
                        self.elections.written(key, self.clock.now());
                    }
                    self.effects.push(effect);
                }
                if left.is_zero() {
                    return;
                }
                self.clock.advance(step);
                left = left.saturating_sub(step);
            }
        }

        fn raised(&self) -> Vec<&Alert> {
            fn alert(effect: &Effect) -> Option<&Alert> {
                if let Effect::Raise { alert, .. } = effect { Some(alert) } else { None }
            }
            self.effects.iter().filter_map(alert).collect()
        }

        fn updates(&self, wanted: Audience) -> Vec<&Notice> {
            let mut updates = Vec::new();
            for effect in &self.effects {
                if let Effect::Notify { notice, audience } = effect
                    && *audience == wanted
                {
                    updates.push(notice.as_ref());
                }
            }
            updates
        }
    }

    fn seats(alert: &Alert) -> Vec<SeatKey> {
        alert.members.iter().map(seat_of).collect()
    }

    #[test]
    fn all_seats_of_one_election_are_one_alert() {
        let mut play = Play::new(true);
        play.moved(SeatKey::job(JobId(1)), leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_millis(500));
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.moved(SeatKey::job(JobId(2)), leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(10));
        let raised = play.raised();
        assert_eq!(raised.len(), 1);
        assert_eq!(seats(raised[0]), [RESOURCE_MANAGER, SeatKey::job(JobId(1)), SeatKey::job(JobId(2))]);
        assert_eq!(raised[0].severity, Severity::Critical);
        assert_eq!(raised[0].id, alert_id("failover", None, "orders", SessionId(2)));
        assert_eq!(raised[0].same_address, Some(false));
    }

    #[test]
    fn two_elections_in_a_row_are_two_alerts() {
        let mut play = Play::new(true);
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.moved(RESOURCE_MANAGER, leader(2, "b"), leader(3, "a"));
        play.pass(Duration::from_secs(10));
        let ids: Vec<_> = play.raised().iter().map(|a| a.new_leader.as_ref().unwrap().id.0).collect();
        assert_eq!(ids, [2, 3]);
    }

    /// Flink 2.3.0 with three TaskManagers: the job comes back on one that never saw the old leader.
    #[test]
    fn a_job_first_seen_under_the_new_leader_joins() {
        let mut play = Play::new(true);
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_millis(500));
        play.take(SeatKey::job(JobId(7)), Change::Elected { leader: leader(2, "b") });
        play.pass(Duration::from_secs(10));
        let raised = play.raised();
        assert_eq!(raised.len(), 1);
        assert!(raised[0].members[1].joined);
        assert_eq!(raised[0].severity, Severity::Critical);
        assert_eq!(raised[0].old_leader, Some(leader(1, "a")));
    }

    /// Fault: on a busy machine the job is told its new leader after `group_wait`, and the alert named no job.
    #[test]
    fn jobs_that_lost_their_leader_are_waited_for() {
        let mut play = Play::new(true);
        let job = SeatKey::job(JobId(1));
        play.take(job, Change::Lost { leader: leader(1, "a") });
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(5));
        assert!(play.raised().is_empty());
        play.moved(job, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_millis(200));
        assert_eq!(seats(play.raised()[0]), [RESOURCE_MANAGER, job]);
    }

    #[test]
    fn a_job_that_has_ended_is_not_waited_for_for_ever() {
        let mut play = Play::new(true);
        let job = SeatKey::job(JobId(1));
        play.take(job, Change::Lost { leader: leader(1, "a") });
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_millis(10_100));
        assert_eq!(play.raised().len(), 1);
        play.pass(Duration::from_secs(200));
        play.moved(RESOURCE_MANAGER, leader(2, "b"), leader(3, "a"));
        play.pass(Duration::from_millis(2_200));
        assert_eq!(play.raised().len(), 2);
    }

    #[test]
    fn a_job_that_starts_is_no_alert_and_no_member() {
        let mut play = Play::new(true);
        play.take(SeatKey::job(JobId(7)), Change::Elected { leader: leader(2, "b") });
        play.pass(Duration::from_secs(10));
        assert!(play.effects.is_empty());
        play.moved(RESOURCE_MANAGER, leader(2, "b"), leader(3, "a"));
        play.pass(Duration::from_secs(400));
        play.take(SeatKey::job(JobId(8)), Change::Elected { leader: leader(3, "a") });
        play.pass(Duration::from_secs(400));
        assert_eq!(play.raised().len(), 1);
        assert_eq!(play.updates(Audience::NotInPlace).len(), 0);
    }

    #[test]
    fn late_members_update_in_place_at_once_and_tell_the_others_once() {
        let mut play = Play::new(true);
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(10));
        for job in 1..=3 {
            play.moved(SeatKey::job(JobId(job)), leader(1, "a"), leader(2, "b"));
        }
        play.pass(Duration::from_secs(1));
        assert_eq!(play.raised()[0].severity, Severity::Warning);
        assert_eq!(play.updates(Audience::InPlace).len(), 1);
        assert_eq!(play.updates(Audience::InPlace)[0].alert.severity, Severity::Critical);
        assert_eq!(play.updates(Audience::NotInPlace).len(), 0);
        play.pass(Duration::from_secs(600));
        let late = play.updates(Audience::NotInPlace);
        assert_eq!(late.len(), 1);
        assert_eq!(late[0].alert.members.len(), 4);
        assert_eq!(late[0].alert.id, play.raised()[0].id);
        assert_ne!(late[0].message_id, late[0].alert.id);
        assert_eq!(play.raised().len(), 1);
    }

    #[test]
    fn before_one_id_for_all_the_address_says_what_belongs_together() {
        let mut play = Play::new(false);
        play.moved(SeatKey::job(JobId(1)), leader(11, "a"), leader(21, "b"));
        play.pass(Duration::from_secs(6));
        assert!(play.raised().is_empty(), "an election of jobs only waits for the ResourceManager's");
        play.moved(RESOURCE_MANAGER, leader(10, "a"), leader(20, "b"));
        play.pass(Duration::from_secs(60));
        let raised = play.raised();
        assert_eq!(raised.len(), 1);
        assert_eq!(raised[0].id, alert_id("failover", None, "orders", SessionId(20)));
        assert_eq!(raised[0].members.len(), 2);
    }

    /// Up to Flink 1.14 each component has an election of its own, and they may be won by different JobManagers: what they
    /// share is where the old leader was.
    #[test]
    fn before_one_id_for_all_seats_that_went_to_different_job_managers_are_one_alert() {
        let mut play = Play::new(false);
        let dispatcher = SeatKey::cluster(Component::Dispatcher);
        let job = SeatKey::job(JobId(1));
        play.moved(dispatcher, leader(11, "a"), leader(21, "b"));
        play.pass(Duration::from_secs(1));
        play.moved(job, leader(12, "a"), leader(22, "b"));
        play.moved(RESOURCE_MANAGER, leader(10, "a"), leader(20, "c"));
        play.pass(Duration::from_secs(60));
        let raised = play.raised();
        assert_eq!(raised.len(), 1);
        assert_eq!(raised[0].id, alert_id("failover", None, "orders", SessionId(20)));
        assert_eq!(seats(raised[0]), [RESOURCE_MANAGER, job, dispatcher]);
    }

    #[test]
    fn before_one_id_for_all_an_address_that_comes_back_is_another_election() {
        let mut play = Play::new(false);
        play.moved(RESOURCE_MANAGER, leader(10, "a"), leader(20, "b"));
        play.pass(Duration::from_secs(1000));
        play.moved(RESOURCE_MANAGER, leader(20, "b"), leader(30, "a"));
        play.pass(Duration::from_secs(1000));
        play.moved(SeatKey::job(JobId(1)), leader(31, "a"), leader(41, "b"));
        play.pass(Duration::from_secs(1000));
        assert_eq!(play.raised().len(), 3);
    }

    #[test]
    fn group_wait_begins_when_the_election_is_on_disk_or_the_disk_is_late() {
        let mut play = Play::new(true);
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        let saved = play.elections.due(play.clock.now());
        assert!(matches!(&saved[..], [Effect::Save { .. }]));
        play.clock.advance(Duration::from_millis(2900));
        assert!(play.elections.due(play.clock.now()).is_empty());
        play.clock.advance(Duration::from_millis(100));
        assert!(matches!(&play.elections.due(play.clock.now())[..], [Effect::Raise { .. }]));
    }

    #[test]
    fn what_a_dead_process_saved_is_raised_under_the_same_id() {
        let mut play = Play::new(true);
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::ZERO);
        play.moved(SeatKey::job(JobId(1)), leader(1, "a"), leader(2, "b"));
        play.pass(Duration::ZERO);
        let parts: Vec<(String, Value)> = play
            .effects
            .iter()
            .map(|effect| match effect {
                Effect::Save { key, body } => (key.clone(), body.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts.len(), 2);
        let mut next = Play::new(true);
        let recovered = next.elections.recover(parts.clone(), next.clock.now());
        let [Effect::Raise { alert, saved }] = &recovered[..] else { panic!("{recovered:?}") };
        let again = next.elections.recover(parts.clone(), next.clock.now());
        assert!(matches!(&again[..], [Effect::Forget { .. }]), "told once");
        assert_eq!(alert.members.len(), 2);
        assert_eq!(alert.id, alert_id("failover", None, "orders", SessionId(2)));
        assert_eq!(saved.len(), parts.len());
    }

    #[test]
    fn what_cannot_be_read_of_a_dead_process_is_reported() {
        let mut play = Play::new(true);
        let parts = [("x.0".to_owned(), Value::from(1))];
        let recovered = play.elections.recover(parts, play.clock.now());
        assert!(matches!(&recovered[..], [Effect::Record(Event::AgentProblem { .. })]));
    }

    #[test]
    fn a_storm_of_jobs_is_one_alert_of_bounded_size() {
        let mut play = Play::new(true);
        for job in 0..10_000 {
            play.moved(SeatKey::job(JobId(job)), leader(1, "a"), leader(2, "b"));
        }
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(10));
        let raised = play.raised();
        assert_eq!(raised.len(), 1);
        assert_eq!(raised[0].members.len() as u64 + raised[0].members_left_out, 10_001);
        assert_eq!(raised[0].members.len(), LISTED_MEMBERS + 1);
        assert_eq!(seat_of(&raised[0].members[0]), RESOURCE_MANAGER);
    }

    #[test]
    fn the_cause_is_told_only_where_it_was_seen() {
        let cause_of = |changes: Vec<Change>| {
            let mut play = Play::new(true);
            for change in changes {
                play.take(RESOURCE_MANAGER, change);
            }
            play.pass(Duration::from_secs(10));
            play.raised()[0].cause
        };
        let moved = |leaderless| Change::Moved { old: leader(1, "a"), new: leader(2, "b"), leaderless };
        let verdict = crate::leadership::Verdict::HeartbeatTimeout;
        let unreachable = Change::Unreachable { verdict, leader: Some(leader(1, "a")) };
        assert_eq!(cause_of(vec![moved(None)]), None);
        assert_eq!(cause_of(vec![moved(Some(Duration::from_secs(1)))]), Some(Cause::Revoked));
        assert_eq!(cause_of(vec![unreachable, moved(None)]), Some(Cause::Unreachable));
    }

    #[test]
    fn an_orderly_stop_is_the_cause_where_the_old_leader_said_so_in_time() {
        for (said, cause) in [(1, Some(Cause::OrderlyStop)), (7, Some(Cause::Revoked))] {
            let mut play = Play::new(true);
            let leaderless = Some(Duration::from_millis(10));
            play.take(RESOURCE_MANAGER, Change::Moved { old: leader(1, "a"), new: leader(2, "b"), leaderless });
            play.pass(Duration::from_secs(1));
            play.elections.ended_in_order(SessionId(said));
            play.pass(Duration::from_secs(5));
            assert_eq!(play.raised()[0].cause, cause);
        }
    }

    /// A job that joined, and is then remembered under the old leader, is no second election.
    #[test]
    fn a_seat_moves_to_one_leader_once() {
        let mut play = Play::new(true);
        let job = SeatKey::job(JobId(7));
        play.moved(RESOURCE_MANAGER, leader(1, "a"), leader(2, "b"));
        play.take(job, Change::Elected { leader: leader(2, "b") });
        play.moved(job, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(10));
        play.moved(job, leader(1, "a"), leader(2, "b"));
        play.pass(Duration::from_secs(1000));
        assert_eq!(play.raised().len(), 1);
        assert_eq!(seats(play.raised()[0]), [RESOURCE_MANAGER, job]);
    }
}
