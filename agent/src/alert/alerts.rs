//! All classes of alerts together: what the dispatcher talks to.
//!
//! Elections make `failover` alerts. Where they come too often, `flapping` takes their place; where one ends a `no_leader`
//! alert it goes on under that one's id. What was told stays open until it is resolved.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::effect::{AlertSettings, Audience, Effect};
use super::election::Elections;
use super::flapping::{Flapping, Verdict};
use super::model::{Alert, Class};
use super::no_leader::{Ending, NoLeader};
use super::open::{OpenAlerts, unwanted};
use crate::clock::Moment;
use crate::event::Event;
use crate::leadership::{Change, SeatChange, SeatKey, SessionId};
use crate::target::{Action, Notice};

/// From changes of leadership to what people are told.
#[derive(Debug)]
pub struct Alerts {
    elections: Elections,
    no_leader: NoLeader,
    flapping: Flapping,
    open: OpenAlerts,
    settings: Arc<AlertSettings>,
    /// A `no_leader` alert that a leader has ended; the election that it won goes on under its id.
    ended: Option<Alert>,
    /// What dead processes had told: which seat went to which leader.
    told_before: BTreeSet<(SeatKey, SessionId)>,
    effects: Vec<Effect>,
}

impl Alerts {
    /// Nothing has happened yet.
    pub fn new(settings: AlertSettings) -> Self {
        let settings = Arc::new(settings);
        Self {
            elections: Elections::new(Arc::clone(&settings)),
            no_leader: NoLeader::new(Arc::clone(&settings)),
            flapping: Flapping::new(Arc::clone(&settings)),
            open: OpenAlerts::new(Arc::clone(&settings)),
            settings,
            ended: None,
            told_before: BTreeSet::new(),
            effects: Vec::new(),
        }
    }

    /// A dead process had told this alert. What it was killed too early to remember must not be told again, under the id of
    /// another seat.
    pub fn inherit(&mut self, alert: &Alert) {
        for member in alert.members.iter().filter(|_| alert.class == Class::Failover) {
            let seat = SeatKey { component: member.component, job_id: member.job_id };
            self.told_before.extend(member.new_leader.as_ref().map(|leader| (seat, leader.id)));
        }
    }

    /// Whether a dead process had told that this seat went to this leader.
    pub fn was_told(&self, seat: SeatKey, leader: SessionId) -> bool {
        self.told_before.contains(&(seat, leader))
    }

    /// Goes on with other settings.
    pub fn reconfigure(&mut self, settings: AlertSettings) {
        let settings = Arc::new(settings);
        self.elections.settings = Arc::clone(&settings);
        self.no_leader.settings = Arc::clone(&settings);
        self.flapping.settings = Arc::clone(&settings);
        self.open.settings = Arc::clone(&settings);
        self.settings = settings;
    }

    /// Takes a change of a seat in.
    pub fn take(&mut self, change: &SeatChange) {
        self.elections.take(change);
        let Some(told) = self.no_leader.take(change) else { return };
        if !self.open.has(&told.id) {
            // It was not told, and there is nothing to go on with.
            return;
        }
        if matches!(change.change, Change::Moved { .. }) {
            // The election that the new leader won is told first, under the same id; that resolves it.
            self.ended = Some(told);
        } else {
            self.open.resolve(&told.id, change.at, &mut self.effects);
        }
    }

    /// The process of this leader ended in order, by its own word.
    pub fn ended_in_order(&mut self, leader: SessionId) {
        self.elections.ended_in_order(leader);
    }

    /// What was saved under `key` is on disk.
    pub fn written(&mut self, key: &str, now: Moment) {
        self.elections.written(key, now);
    }

    /// What is to be done by now.
    pub fn due(&mut self, now: Moment) -> Vec<Effect> {
        for effect in self.elections.due(now) {
            self.judge(effect, now);
        }
        self.tell_no_leader(now, Ending::No);
        if let Some(told) = self.flapping.ended(now) {
            self.open.resolve(&told.id, now, &mut self.effects);
        }
        self.open.due(now, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    /// What is to be done because the process ends: there is no later.
    pub fn at_end(&mut self, now: Moment, ending: Ending) -> Vec<Effect> {
        for effect in self.elections.raise_all() {
            self.judge(effect, now);
        }
        self.tell_no_leader(now, ending);
        std::mem::take(&mut self.effects)
    }

    /// When [`Alerts::due`] has something to do again, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        let times =
            [self.elections.next_due(), self.no_leader.next_due(), self.flapping.next_due(), self.open.next_due()];
        times.into_iter().flatten().min()
    }

    /// Goes on with what a dead process had saved: elections that it had not told, alerts that it had not resolved.
    pub fn recover(&mut self, saved: Vec<(String, Value)>, now: Moment) -> Vec<Effect> {
        let mut parts = Vec::new();
        for (key, body) in saved {
            match self.open.adopt(&key, &body, now) {
                Some(alert) if alert.class == Class::NoLeader => self.no_leader.adopt(alert),
                Some(alert) => self.inherit(&alert),
                None => parts.push((key, body)),
            }
        }
        for effect in self.elections.recover(parts, now) {
            self.judge(effect, now);
        }
        std::mem::take(&mut self.effects)
    }

    fn tell_no_leader(&mut self, now: Moment, ending: Ending) {
        if let Some(alert) = self.no_leader.due(now, ending) {
            self.raise(alert, Vec::new(), now);
        }
    }

    /// Decides how an election is told.
    fn judge(&mut self, effect: Effect, now: Moment) {
        let Effect::Raise { mut alert, saved } = effect else {
            self.effects.push(effect);
            return;
        };
        if self.open.has(&alert.id) {
            // A process before this one told it, and this one remembers the same move.
            self.effects.push(Effect::Forget { saved });
            return;
        }
        if let Some(ended) = self.ended.take() {
            self.elections.continue_under(&alert.id, &ended.id);
            alert.id = ended.id;
            self.effects.push(Effect::Record(Event::AlertUpdated {
                alert_id: alert.id.clone(),
                members: alert.members.clone(),
            }));
            let (id, message_id) = (alert.id.clone(), format!("{}-failover", alert.id));
            self.update(*alert, message_id, Audience::All);
            self.open.resolve(&id, now, &mut self.effects);
            self.effects.push(Effect::Forget { saved });
            return;
        }
        if !self.settings.wants(Class::Flapping) {
            return self.raise(*alert, saved, now);
        }
        match self.flapping.take(&alert, now) {
            Verdict::Single => self.raise(*alert, saved, now),
            Verdict::Begins(summary) => {
                self.suppress(&alert, &summary);
                self.raise(*summary, saved, now);
            }
            Verdict::GoesOn(summary) => {
                self.suppress(&alert, &summary);
                let message_id = format!("{}-{}", summary.id, summary.elections.unwrap_or_default());
                self.update(*summary, message_id, Audience::InPlace);
                self.effects.push(Effect::Forget { saved });
            }
        }
    }

    fn raise(&mut self, alert: Alert, saved: Vec<String>, now: Moment) {
        if !self.settings.wants(alert.class) {
            let suppressed = unwanted(&alert.id, alert.class);
            self.effects.push(Effect::Record(Event::raised(&alert)));
            self.effects.push(Effect::Record(suppressed));
            self.effects.push(Effect::Forget { saved });
            return;
        }
        let mut opened = Vec::new();
        self.open.opened(&alert, now, &mut opened);
        self.effects.push(Effect::Raise { alert: Box::new(alert), saved });
        self.effects.extend(opened);
    }

    fn update(&mut self, alert: Alert, message_id: String, audience: Audience) {
        let notice = Notice { message_id, action: Action::Update, alert };
        self.effects.push(Effect::Notify { notice: Box::new(notice), audience });
    }

    fn suppress(&mut self, alert: &Alert, by: &Alert) {
        let by = format!("flapping {}", by.id);
        self.effects.push(Effect::Record(Event::AlertSuppressed { alert_id: alert.id.clone(), target: None, by }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::leadership::{Component, Leader, SeatKey, Verdict as Flink};

    const SECOND: Duration = Duration::from_secs(1);

    struct Play {
        clock: ManualClock,
        alerts: Alerts,
        told: Vec<String>,
        saved: std::collections::BTreeMap<String, Value>,
    }

    fn leader(id: u128) -> Leader {
        Leader { id: SessionId(id), address: Some(format!("akka.tcp://flink@jm{id}:6123/user/rpc/x").into()) }
    }

    fn moved(old: u128, new: u128) -> Change {
        Change::Moved { old: leader(old), new: leader(new), leaderless: None }
    }

    impl Play {
        fn new() -> Play {
            Play::with_classes(AlertSettings::for_tests().classes)
        }

        fn with_classes(classes: Vec<Class>) -> Play {
            let alerts = Alerts::new(AlertSettings { classes, ..AlertSettings::for_tests() });
            Play { clock: ManualClock::default(), alerts, told: Vec::new(), saved: Default::default() }
        }

        fn take(&mut self, change: Change) {
            let seat = SeatKey::cluster(Component::ResourceManager);
            self.alerts.take(&SeatChange { seat, change, at: self.clock.now(), left_out: 0 });
            self.pass(Duration::ZERO);
        }

        fn note(&mut self, effects: Vec<Effect>) {
            for effect in effects {
                match effect {
                    Effect::Save { key, body } => {
                        self.alerts.written(&key, self.clock.now());
                        self.saved.insert(key, body);
                    }
                    Effect::Forget { saved } => self.saved.retain(|key, _| !saved.contains(key)),
                    Effect::Raise { alert, saved } => {
                        self.saved.retain(|key, _| !saved.contains(key));
                        self.told.push(format!("raise {:?} {}", alert.class, &alert.id[..4]));
                    }
                    Effect::Notify { notice, audience } => {
                        let Notice { action, alert, .. } = *notice;
                        self.told.push(format!("{action:?} {:?} {} {audience:?}", alert.class, &alert.id[..4]));
                    }
                    Effect::Record(Event::AlertSuppressed { alert_id, by, .. }) if !by.starts_with("flapping") => {
                        self.told.push(format!("suppressed {} by {by}", &alert_id[..4]));
                    }
                    Effect::Record(Event::AlertResolved { alert_id, resolves }) => {
                        self.told.push(format!("over {resolves:?} {}", &alert_id[..4]));
                    }
                    Effect::Record(_) => {}
                }
            }
        }

        fn pass(&mut self, duration: Duration) {
            let end = self.clock.now().monotonic + duration;
            loop {
                let effects = self.alerts.due(self.clock.now());
                self.note(effects);
                let now = self.clock.now().monotonic;
                let next = self.alerts.next_due().unwrap_or(end).clamp(now, end);
                if now >= end {
                    return;
                }
                self.clock.advance((next - now).max(Duration::from_millis(1)));
            }
        }

        fn told(&mut self) -> Vec<String> {
            std::mem::take(&mut self.told)
        }
    }

    fn id(salt: &str, leader: u128) -> String {
        super::super::id::alert_id(salt, None, "orders", SessionId(leader))[..4].to_owned()
    }

    #[test]
    fn a_seat_that_stays_empty_is_told_and_resolved_when_a_leader_comes() {
        let mut play = Play::new();
        play.take(Change::Elected { leader: leader(1) });
        play.take(Change::Lost { leader: leader(1) });
        play.pass(29 * SECOND);
        assert_eq!(play.told(), Vec::<String>::new());
        play.pass(SECOND);
        let id = id("no_leader", 1);
        assert_eq!(play.told(), [format!("raise NoLeader {id}")]);
        play.pass(600 * SECOND);
        assert_eq!(play.told(), Vec::<String>::new());
        play.take(Change::Returned { leader: leader(1), leaderless: None });
        assert_eq!(play.told(), [format!("over NoLeader {id}"), format!("Resolve Resolved {id} All")]);
        assert!(play.saved.is_empty());
    }

    #[test]
    fn a_failover_that_ends_no_leader_goes_on_under_its_id() {
        let mut play = Play::new();
        play.take(Change::Lost { leader: leader(1) });
        play.pass(31 * SECOND);
        play.told();
        play.take(moved(1, 2));
        play.pass(3 * SECOND);
        let id = id("no_leader", 1);
        let resolved = [format!("over NoLeader {id}"), format!("Resolve Resolved {id} All")];
        assert_eq!(play.told(), [vec![format!("Update Failover {id} All")], resolved.to_vec()].concat());
        play.pass(2000 * SECOND);
        assert_eq!(play.told(), Vec::<String>::new());
        assert!(play.saved.is_empty());
    }

    /// Kubernetes: no null is ever announced.
    #[test]
    fn flinks_verdict_is_told_unless_flink_takes_it_back() {
        let unreachable = || Change::Unreachable { verdict: Flink::HeartbeatTimeout, leader: Some(leader(1)) };
        let mut play = Play::new();
        play.take(unreachable());
        play.pass(20 * SECOND);
        play.take(Change::Reachable { leader: leader(1) });
        play.pass(60 * SECOND);
        assert_eq!(play.told(), Vec::<String>::new());
        play.take(unreachable());
        play.pass(30 * SECOND);
        assert_eq!(play.told(), [format!("raise NoLeader {}", id("no_leader", 1))]);
    }

    /// Holds a fault: a process that was killed between its alert and its note of the job's new leader left the next one to
    /// find that move out, and on Flink 1.14, where seats have ids of their own, to tell it as another election.
    #[test]
    fn what_a_dead_process_told_is_known_by_each_of_its_seats() {
        let mut dead = Play::new();
        dead.take(moved(1, 2));
        dead.pass(3 * SECOND);
        let saved = dead.saved.clone().into_iter().collect();
        let mut play = Play::new();
        let seat = SeatKey::cluster(Component::ResourceManager);
        assert!(!play.alerts.was_told(seat, SessionId(2)));
        play.alerts.recover(saved, play.clock.now());
        assert!(play.alerts.was_told(seat, SessionId(2)));
        assert!(!play.alerts.was_told(seat, SessionId(1)));
    }

    #[test]
    fn a_process_that_ends_with_an_empty_seat_tells_at_once() {
        let mut play = Play::new();
        play.take(Change::Lost { leader: leader(1) });
        let effects = play.alerts.at_end(play.clock.now(), Ending::InOrder);
        play.note(effects);
        assert_eq!(play.told(), [format!("raise NoLeader {}", id("no_leader", 1))]);
    }

    /// Holds a fault: stopping the leading JobManager for planned work paged at once.
    #[test]
    fn a_leader_that_somebody_stops_is_not_missed_by_itself() {
        for (ending, told) in [(Ending::InOrder, 0), (Ending::Fatal, 1)] {
            let mut play = Play::new();
            play.take(Change::Granted { id: SessionId(1) });
            play.take(Change::Lost { leader: leader(1) });
            let effects = play.alerts.at_end(play.clock.now(), ending);
            play.note(effects);
            assert_eq!(play.told().len(), told, "{ending:?}");
        }
    }

    #[test]
    fn a_failover_is_resolved_after_its_time() {
        let mut play = Play::new();
        play.take(moved(1, 2));
        play.pass(3 * SECOND);
        let id = id("failover", 2);
        assert_eq!(play.told(), [format!("raise Failover {id}")]);
        assert_eq!(play.saved.len(), 1);
        play.pass(900 * SECOND);
        assert_eq!(play.told(), [format!("over Failover {id}"), format!("Resolve Resolved {id} All")]);
        assert!(play.saved.is_empty());
    }

    #[test]
    fn what_a_dead_process_told_the_next_one_resolves() {
        let mut play = Play::new();
        play.take(moved(1, 2));
        play.pass(100 * SECOND);
        let saved: Vec<(String, Value)> = std::mem::take(&mut play.saved).into_iter().collect();
        let mut next = Play::new();
        next.clock.advance(100 * SECOND);
        let effects = next.alerts.recover(saved, next.clock.now());
        next.note(effects);
        assert_eq!(next.told(), Vec::<String>::new());
        next.pass(803 * SECOND);
        let id = id("failover", 2);
        assert_eq!(next.told(), [format!("over Failover {id}"), format!("Resolve Resolved {id} All")]);
    }

    /// Fault: the end of every alert was told in the words for a failover's.
    #[test]
    fn the_end_of_an_alert_says_what_has_ended() {
        let mut play = Play::new();
        play.take(Change::Lost { leader: leader(1) });
        play.pass(31 * SECOND);
        play.alerts.take(&SeatChange {
            seat: SeatKey::cluster(Component::ResourceManager),
            change: Change::Returned { leader: leader(1), leaderless: None },
            at: play.clock.now(),
            left_out: 0,
        });
        let end = play.alerts.due(play.clock.now()).into_iter().find_map(|effect| match effect {
            Effect::Notify { notice, .. } => Some(notice.alert),
            _ => None,
        });
        let end = end.expect("a leader that returns ends it");
        assert_eq!((end.class, end.resolves), (Class::Resolved, Some(Class::NoLeader)));
        assert!(end.text.contains("has a leading JobManager again"), "{}", end.text);
    }

    #[test]
    fn a_class_that_is_not_wanted_is_in_the_log_only() {
        let mut play = Play::with_classes(vec![Class::NoLeader, Class::Resolved]);
        play.take(moved(1, 2));
        play.pass(1000 * SECOND);
        let by = "`alert.classes`, which is without failover";
        assert_eq!(play.told(), [format!("suppressed {} by {by}", id("failover", 2))]);
        assert!(play.saved.is_empty());

        let mut play = Play::with_classes(vec![Class::Failover]);
        for election in 1..=4 {
            play.take(moved(election, election + 1));
            play.pass(5 * SECOND);
        }
        assert_eq!(
            play.told(),
            (2..=5).map(|won| format!("raise Failover {}", id("failover", won))).collect::<Vec<_>>()
        );
        play.take(Change::Lost { leader: leader(5) });
        play.pass(31 * SECOND);
        let by = "`alert.classes`, which is without no_leader";
        assert_eq!(play.told(), [format!("suppressed {} by {by}", id("no_leader", 5))]);
        play.take(moved(5, 6));
        play.pass(5 * SECOND);
        assert_eq!(play.told(), [format!("raise Failover {}", id("failover", 6))], "under its own id");
        play.pass(1000 * SECOND);
        let told = play.told();
        assert_eq!(told.iter().filter(|told| told.starts_with("over Failover")).count(), 5, "{told:?}");
        assert_eq!(told.iter().filter(|told| told.starts_with("suppressed")).count(), 5, "{told:?}");
    }

    /// Fault: what a dead process had told was told again by the next one, which remembered the same move.
    #[test]
    fn what_a_dead_process_told_the_next_one_does_not_tell_again() {
        let mut play = Play::new();
        play.take(moved(1, 2));
        play.pass(100 * SECOND);
        let saved: Vec<(String, Value)> = std::mem::take(&mut play.saved).into_iter().collect();
        let mut next = Play::new();
        next.clock.advance(101 * SECOND);
        let effects = next.alerts.recover(saved, next.clock.now());
        next.note(effects);
        next.take(moved(1, 2));
        next.pass(10 * SECOND);
        assert_eq!(next.told(), Vec::<String>::new());
        assert_eq!(next.saved.len(), 0, "the election is forgotten; the open alert was never this process's to save");
    }

    #[test]
    fn elections_that_come_too_often_are_one_summary_until_it_is_quiet() {
        let mut play = Play::new();
        for election in 1..=6 {
            play.take(moved(election, election + 1));
            play.pass(60 * SECOND);
        }
        let flapping = id("flapping", 2);
        let told = play.told();
        assert_eq!(
            told[..3],
            [
                format!("raise Failover {}", id("failover", 2)),
                format!("raise Failover {}", id("failover", 3)),
                format!("raise Flapping {flapping}"),
            ]
        );
        assert_eq!(told[3..], vec![format!("Update Flapping {flapping} InPlace"); 3]);
        play.pass(1200 * SECOND);
        assert!(play.told().contains(&format!("Resolve Resolved {flapping} All")));
        play.take(moved(7, 8));
        play.pass(3 * SECOND);
        assert_eq!(play.told(), [format!("raise Failover {}", id("failover", 8))]);
    }

    /// The window slides: failures that stop short of the threshold and come again later do not add up.
    #[test]
    fn elections_far_apart_are_told_one_by_one() {
        let mut play = Play::new();
        for election in 1..=6 {
            play.take(moved(election, election + 1));
            play.pass(310 * SECOND);
        }
        assert_eq!(play.told().iter().filter(|told| told.starts_with("raise Failover")).count(), 6);
    }
}
