//! Planned work: while alerts are paused, what would page people is recorded and not told; at the end of the pause one
//! message sums it up.
//!
//! - `failover`, `no_leader` and `flapping` are kept back. What was told before the pause goes on being told.
//! - An election gathers its members before it is told; one of the last seconds of a pause is kept back, too, and the
//!   summary waits for it.
//! - What ends something that was kept back is kept back, too, also after the pause.
//! - A `no_leader` that still holds at the end is told then: the pause is over, and nobody leads.
//! - A `flapping` is told with the first election after the end, if there is one.
//! - What was kept back is on disk, so that the next process sums it up where this one dies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effect::{AlertSettings, Audience, Effect};
use super::id::alert_id;
use super::model::{Alert, Class, Severity};
use crate::clock::Moment;
use crate::event::Event;
use crate::leadership::SessionId;
use crate::pause::Pause;
use crate::target::{Action, Notice};

/// What names of alerts that were kept back begin with on disk.
const KEY: &str = "pause.";
/// How many alerts a summary lists; the rest is counted.
const LISTED: usize = 30;
/// How many alerts of one pause are kept; the rest is counted.
const MOST_KEPT: usize = 256;
/// How long an election may wait for the ResourceManager's, beyond `group_wait`.
const LONGEST_ELECTION: Duration = Duration::from_secs(10);

/// The pause that is, if there is one, and what was kept back.
#[derive(Debug)]
pub struct Pauses {
    settings: Arc<AlertSettings>,
    current: Option<Current>,
    /// Ids of alerts that nobody was told of, and that are not resolved.
    untold: BTreeSet<String>,
}

#[derive(Debug)]
struct Current {
    pause: Pause,
    /// When it ends, by the monotonic clock: a wall clock that is stepped does not prolong it.
    ends_at: Duration,
    kept: Vec<Alert>,
    more: usize,
}

/// An alert that was kept back, on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    pause: Pause,
    alert: Alert,
}

impl Pauses {
    /// No pause.
    pub fn new(settings: Arc<AlertSettings>) -> Self {
        Self { settings, current: None, untold: BTreeSet::new() }
    }

    /// Goes on with other settings.
    pub fn reconfigure(&mut self, settings: AlertSettings) {
        self.settings = Arc::new(settings);
    }

    /// The pause file has changed; none: it is gone.
    pub fn set(&mut self, pause: Option<Pause>, now: Moment) {
        match (pause, &mut self.current) {
            (None, None) => {}
            (None, Some(current)) => {
                current.ends_at = current.ends_at.min(now.monotonic);
                current.pause.until = current.pause.until.min(now.wall);
            }
            (Some(pause), None) if pause.remaining(now.wall).is_zero() => {}
            (Some(pause), None) => self.current = Some(Current::new(pause, now)),
            (Some(pause), Some(current)) => {
                current.ends_at = now.monotonic + pause.remaining(now.wall);
                current.pause = Pause { from: current.pause.from, ..pause };
            }
        }
    }

    /// What is left to do of what the alerts ask for.
    pub fn filter(&mut self, effects: Vec<Effect>, now: Moment) -> Vec<Effect> {
        let mut left = Vec::new();
        for effect in effects {
            match effect {
                Effect::Raise { alert, saved } if self.keeps_back(&alert, now) => {
                    self.keep(*alert, saved, &mut left);
                }
                Effect::Notify { notice, .. } if self.flaps_on(&notice, now) => {
                    self.untold.remove(&notice.alert.id);
                    left.push(Effect::Raise { alert: Box::new(notice.alert), saved: Vec::new() });
                }
                Effect::Notify { notice, .. } if self.untold.contains(&notice.alert.id) => {
                    left.push(self.suppressed(&notice.alert.id));
                    if notice.action == Action::Resolve {
                        self.untold.remove(&notice.alert.id);
                    }
                }
                other => left.push(other),
            }
        }
        left
    }

    /// What is to be done by now: at the end of a pause, the summary.
    pub fn due(&mut self, now: Moment) -> Vec<Effect> {
        let late = self.late();
        match self.current.take_if(|current| current.ends_at + late <= now.monotonic) {
            Some(ended) => self.sum_up(ended, now),
            None => Vec::new(),
        }
    }

    /// When [`Pauses::due`] has something to do, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        self.current.as_ref().map(|current| current.ends_at + self.late())
    }

    /// Goes on with what a dead process had kept back. Returns what is something else.
    pub fn recover(&mut self, saved: Vec<(String, Value)>, now: Moment) -> Vec<(String, Value)> {
        let (own, others): (Vec<_>, Vec<_>) = saved.into_iter().partition(|(key, _)| key.starts_with(KEY));
        for (_, body) in own {
            // Another version's form: its alert is in the alert log.
            let Ok(Saved { pause, alert }) = serde_json::from_value(body) else { continue };
            self.untold.insert(alert.id.clone());
            self.current.get_or_insert_with(|| Current::new(pause, now)).add(alert);
        }
        others
    }

    /// How long after its end an election that fell into the pause may come.
    fn late(&self) -> Duration {
        self.settings.group_wait + LONGEST_ELECTION
    }

    fn keeps_back(&self, alert: &Alert, now: Moment) -> bool {
        let Some(Current { pause, ends_at, .. }) = &self.current else { return false };
        let fell_into_it = (pause.from..pause.until).contains(&alert.occurred_at);
        match alert.class {
            Class::Failover | Class::Flapping => now.monotonic < *ends_at || fell_into_it,
            // Whoever has no leader after the pause is to know it.
            Class::NoLeader => now.monotonic < *ends_at,
            Class::Resolved | Class::Test => false,
        }
    }

    /// Whether flapping that began in a pause goes on after it: then it is no planned work any more.
    fn flaps_on(&self, notice: &Notice, now: Moment) -> bool {
        let alert = &notice.alert;
        let goes_on = notice.action == Action::Update && alert.class == Class::Flapping;
        goes_on && self.untold.contains(&alert.id) && !self.keeps_back(alert, now)
    }

    fn keep(&mut self, alert: Alert, saved: Vec<String>, left: &mut Vec<Effect>) {
        let Some(current) = &mut self.current else { return };
        let (id, by) = (alert.id.clone(), current.by());
        let body = serde_json::to_value(Saved { pause: current.pause.clone(), alert: alert.clone() });
        left.push(Effect::Record(Event::raised(&alert)));
        left.push(Effect::Record(Event::AlertSuppressed { alert_id: id.clone(), target: None, by }));
        // What is made of strings and numbers always has a JSON form.
        left.extend(body.ok().map(|body| Effect::Save { key: key(&id), body }));
        left.push(Effect::Forget { saved });
        self.untold.insert(id);
        current.add(alert);
    }

    fn suppressed(&self, id: &str) -> Effect {
        let by =
            self.current.as_ref().map_or_else(|| "pause: it was not told during the pause".to_owned(), Current::by);
        Effect::Record(Event::AlertSuppressed { alert_id: id.to_owned(), target: None, by })
    }

    fn sum_up(&mut self, ended: Current, now: Moment) -> Vec<Effect> {
        if ended.kept.is_empty() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        for alert in ended.kept.iter().filter(|alert| alert.class == Class::NoLeader) {
            if self.untold.remove(&alert.id) {
                let notice = Notice { message_id: alert.id.clone(), action: Action::Raise, alert: alert.clone() };
                effects.push(Effect::Notify { notice: Box::new(notice), audience: Audience::All });
            }
        }
        let alert = self.summary(&ended, now);
        effects.push(Effect::Record(Event::raised(&alert)));
        let notice = Notice { message_id: alert.id.clone(), action: Action::Digest, alert };
        // Whoever was not told of an alert is told that there was one.
        let audience = Audience::AllAndOf(ended.kept.iter().map(|alert| alert.class).collect());
        effects.push(Effect::Notify { notice: Box::new(notice), audience });
        effects.push(Effect::Forget { saved: ended.kept.iter().map(|alert| key(&alert.id)).collect() });
        effects
    }

    /// The same id in every process that was paused.
    fn summary(&self, ended: &Current, now: Moment) -> Alert {
        let AlertSettings { cluster, namespace, texts, .. } = self.settings.as_ref();
        let began = SessionId(ended.pause.from.as_millisecond().unsigned_abs().into());
        let id = alert_id("pause", namespace.as_deref(), cluster, began);
        let lines = ended.kept.iter().take(LISTED).map(|alert| (texts.local(alert.occurred_at), alert.title.as_str()));
        let until = ended.pause.until.min(now.wall);
        let (title, text) = texts.pause_ended(&super::text::PauseEnded {
            cluster,
            from: texts.local(ended.pause.from),
            until: texts.local(until),
            reason: &ended.pause.reason,
            lines: lines.collect(),
            count: ended.kept.len() + ended.more,
        });
        Alert { title, text, severity: Severity::Info, ..self.settings.alert(Class::Resolved, id, now.wall) }
    }
}

impl Current {
    fn new(pause: Pause, now: Moment) -> Current {
        Current { ends_at: now.monotonic + pause.remaining(now.wall), pause, kept: Vec::new(), more: 0 }
    }

    fn add(&mut self, alert: Alert) {
        if self.kept.len() < MOST_KEPT {
            self.kept.push(alert);
        } else {
            self.more += 1;
        }
    }

    fn by(&self) -> String {
        format!("pause: {}", self.pause.reason)
    }
}

fn key(id: &str) -> String {
    format!("{KEY}{id}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    const MINUTE: Duration = Duration::from_secs(60);
    /// By the settings for tests, `group_wait` is 2 s.
    const LATE: Duration = Duration::from_secs(12);

    struct Play {
        clock: ManualClock,
        pauses: Pauses,
    }

    impl Play {
        fn new() -> Play {
            Play { clock: ManualClock::default(), pauses: Pauses::new(Arc::new(AlertSettings::for_tests())) }
        }

        fn pause(&mut self, length: Duration) -> Pause {
            let from = self.clock.now().wall;
            let pause = Pause { schema: 1, from, until: from + length, reason: "upgrade".into() };
            self.pauses.set(Some(pause.clone()), self.clock.now());
            pause
        }

        fn filter(&mut self, effect: Effect) -> Vec<String> {
            let left = self.pauses.filter(vec![effect], self.clock.now());
            told(&left)
        }

        fn due(&mut self) -> Vec<Effect> {
            self.pauses.due(self.clock.now())
        }

        fn pass(&mut self, time: Duration) -> Vec<Effect> {
            self.clock.advance(time);
            self.due()
        }
    }

    fn alert(class: Class, id: &str) -> Alert {
        let mut alert = crate::alert::drill::alert(class, "orders");
        (alert.id, alert.title) = (id.to_owned(), format!("title of {id}"));
        alert
    }

    fn raise(class: Class, id: &str) -> Effect {
        Effect::Raise { alert: Box::new(alert(class, id)), saved: vec!["election".into()] }
    }

    fn notify(action: Action, class: Class, id: &str) -> Effect {
        let notice = Notice { message_id: format!("{id}-more"), action, alert: alert(class, id) };
        Effect::Notify { notice: Box::new(notice), audience: Audience::All }
    }

    fn told(effects: &[Effect]) -> Vec<String> {
        effects
            .iter()
            .map(|effect| match effect {
                Effect::Raise { alert, .. } => format!("raise {}", alert.id),
                Effect::Notify { notice, .. } => format!("{:?} {}", notice.action, notice.alert.title),
                Effect::Record(Event::AlertSuppressed { alert_id, by, .. }) => format!("suppressed {alert_id} by {by}"),
                Effect::Record(Event::AlertRaised { alert, .. }) => format!("recorded {}", alert.title),
                Effect::Record(_) => "recorded".into(),
                Effect::Save { key, .. } => format!("save {key}"),
                Effect::Forget { saved } => format!("forget {}", saved.join(" ")),
            })
            .collect()
    }

    #[test]
    fn without_a_pause_all_is_told() {
        let mut play = Play::new();
        assert_eq!(play.filter(raise(Class::Failover, "a")), ["raise a"]);
        assert_eq!(play.pauses.next_due(), None);
    }

    #[test]
    fn a_pause_keeps_back_and_ends_with_one_summary() {
        let mut play = Play::new();
        play.pause(20 * MINUTE);
        let kept = ["recorded title of a", "suppressed a by pause: upgrade", "save pause.a", "forget election"];
        assert_eq!(play.filter(raise(Class::Failover, "a")), kept);
        assert_eq!(play.filter(raise(Class::Flapping, "b")).len(), 4);
        assert_eq!(play.pass(19 * MINUTE), []);
        assert_eq!(play.pass(MINUTE), []);
        let end = play.pass(LATE);
        let summary = "Flink orders: alerts are no longer paused, 2 alerts were not sent";
        let expected =
            [format!("recorded {summary}"), format!("Digest {summary}"), "forget pause.a pause.b".to_owned()];
        assert_eq!(told(&end), expected);
        let Effect::Notify { notice, audience } = &end[1] else { panic!("{end:?}") };
        assert_eq!(*audience, Audience::AllAndOf(vec![Class::Failover, Class::Flapping]));
        insta::assert_snapshot!(notice.alert.text);
        assert_eq!((notice.alert.class, notice.alert.severity), (Class::Resolved, Severity::Info));
        assert_eq!(play.due(), []);
        assert_eq!(play.filter(raise(Class::Failover, "c")), ["raise c"]);
    }

    #[test]
    fn a_pause_without_alerts_ends_in_silence() {
        let mut play = Play::new();
        play.pause(MINUTE);
        assert_eq!(play.pass(MINUTE + LATE), []);
        assert_eq!(play.pauses.next_due(), None);
    }

    /// An election of the last second was told when the pause was over.
    #[test]
    fn an_election_of_the_last_second_is_kept_back_too() {
        let mut play = Play::new();
        play.pause(MINUTE);
        play.clock.advance(59 * Duration::from_secs(1));
        let in_pause = play.clock.now().wall;
        play.pass(3 * Duration::from_secs(1));
        let at = |occurred_at, id| {
            let alert = Alert { occurred_at, ..alert(Class::Failover, id) };
            Effect::Raise { alert: Box::new(alert), saved: Vec::new() }
        };
        assert_eq!(play.filter(at(in_pause, "late")).len(), 4);
        assert_eq!(play.filter(at(play.clock.now().wall, "new")), ["raise new"]);
        assert_eq!(play.filter(raise(Class::NoLeader, "gone")), ["raise gone"]);
        assert_eq!(play.pass(LATE).len(), 3);
    }

    #[test]
    fn what_ends_something_untold_is_not_told_even_after_the_pause() {
        let mut play = Play::new();
        play.pause(MINUTE);
        play.filter(raise(Class::Failover, "a"));
        play.pass(2 * MINUTE);
        let resolve = || notify(Action::Resolve, Class::Resolved, "a");
        assert_eq!(play.filter(resolve()), ["suppressed a by pause: it was not told during the pause"]);
        assert_eq!(play.filter(resolve()), ["Resolve title of a"]);
    }

    /// Holds a fault: every election after the pause was suppressed by a `flapping` that nobody was told of.
    #[test]
    fn flapping_that_began_in_a_pause_is_told_with_the_first_election_after_it() {
        let mut play = Play::new();
        play.pause(MINUTE);
        play.filter(raise(Class::Flapping, "flaps"));
        let goes_on = || notify(Action::Update, Class::Flapping, "flaps");
        assert_eq!(play.filter(goes_on()).len(), 1, "suppressed in the pause");
        play.pass(MINUTE + LATE);
        let after = |play: &Play| {
            let Effect::Notify { mut notice, audience } = goes_on() else { unreachable!("it is a notice") };
            notice.alert.occurred_at = play.clock.now().wall;
            Effect::Notify { notice, audience }
        };
        let first = after(&play);
        assert_eq!(play.filter(first), ["raise flaps"]);
        let second = after(&play);
        assert_eq!(play.filter(second), ["Update title of flaps"]);
    }

    #[test]
    fn what_was_told_before_goes_on_being_told() {
        let mut play = Play::new();
        play.pause(MINUTE);
        assert_eq!(play.filter(notify(Action::Update, Class::Failover, "old")), ["Update title of old"]);
        assert_eq!(play.filter(notify(Action::Resolve, Class::Resolved, "old")), ["Resolve title of old"]);
    }

    #[test]
    fn a_cluster_that_still_has_no_leader_at_the_end_is_told() {
        let mut play = Play::new();
        play.pause(MINUTE);
        play.filter(raise(Class::NoLeader, "gone"));
        play.filter(raise(Class::NoLeader, "back"));
        play.filter(notify(Action::Resolve, Class::Resolved, "back"));
        let end = told(&play.pass(MINUTE + LATE));
        assert_eq!(end[0], "Raise title of gone");
        assert!(!end.iter().any(|line| line == "Raise title of back"), "{end:?}");
        assert_eq!(play.filter(notify(Action::Resolve, Class::Resolved, "gone")), ["Resolve title of gone"]);
    }

    #[test]
    fn it_is_ended_early_prolonged_and_never_lasts_longer_than_a_day() {
        let mut play = Play::new();
        let mut pause = play.pause(20 * MINUTE);
        play.filter(raise(Class::Failover, "a"));
        pause.until = play.clock.now().wall;
        play.pauses.set(Some(pause), play.clock.now());
        assert_eq!(play.pass(LATE).len(), 3);
        play.pause(MINUTE);
        play.pause(5 * MINUTE);
        play.filter(raise(Class::Failover, "b"));
        assert_eq!(play.pass(4 * MINUTE), []);
        play.pauses.set(None, play.clock.now());
        assert_eq!(play.pass(LATE).len(), 3);
        play.pause(1_000_000 * MINUTE);
        assert_eq!(play.pauses.next_due(), Some(play.clock.now().monotonic + crate::pause::LONGEST + LATE));
    }

    #[test]
    fn what_a_dead_process_kept_back_the_next_one_sums_up() {
        let mut play = Play::new();
        play.pause(MINUTE);
        let left = play.pauses.filter(vec![raise(Class::Failover, "a")], play.clock.now());
        let saved = left.into_iter().find_map(|effect| match effect {
            Effect::Save { key, body } => Some((key, body)),
            _ => None,
        });
        let mut next = Play::new();
        next.clock.advance(5 * MINUTE);
        let others = next.pauses.recover(vec![saved.unwrap(), ("open.b".into(), Value::Null)], next.clock.now());
        assert_eq!(others, [("open.b".to_owned(), Value::Null)]);
        assert_eq!(told(&next.pass(LATE))[2], "forget pause.a");
    }
}
