//! The dispatcher: takes what changed from the board, has it recorded, and decides what people are told. Its loop does no
//! input or output and never waits for the disk or the network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use tokio::sync::{mpsc, oneshot};

use super::disk::{Answer, DiskQueue, Task};
use super::hook_states::{HookState, HookStates};
use super::remembering::{Ask, counts};
use crate::alert::{Alert, Alerts, Audience, Class, Effect, Ending, Pauses};
use crate::clock::{Clock, Moment};
use crate::delivery::{Command, Progress, Report, Submission};
use crate::event::{Event, SeatFields};
use crate::leadership::{Board, Change, Changes, Leader, SeatChange, SessionId};
use crate::target::{Action, Notice};

/// The longest time between two looks at the board's overflow flag and at the hooks.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How long the end of the JVM may be held up in all; contract: no more than 3 s.
pub const LONGEST_STOP: Duration = Duration::from_millis(2500);
/// The part of it in which alerts are still sent.
const SEND_AT_STOP: Duration = Duration::from_millis(1800);
/// The part of it in which the sender may end.
const SENDER_ENDS: Duration = Duration::from_millis(2000);

/// How long it is of use to know why leadership moved: longer than an election gathers its members.
const CAUSE_COUNTS: Duration = Duration::from_secs(12);

/// The process ends.
#[derive(Debug)]
pub struct Stop {
    /// Whether it does so in order.
    pub in_order: bool,
    /// Answered when all is done that can be done in time.
    pub done: Sender<()>,
}

/// What a target is to the dispatcher.
#[derive(Debug, Clone)]
pub struct Wanting {
    /// Its name.
    pub name: String,
    /// The classes that go to it.
    pub classes: Vec<Class>,
    /// Whether it updates an open alert in place.
    pub updates_in_place: bool,
}

impl Wanting {
    fn takes(&self, class: Class, audience: &Audience) -> bool {
        let wants = |class: &Class| self.classes.contains(class);
        match audience {
            Audience::All => wants(&class),
            Audience::AllAndOf(classes) => wants(&class) || classes.iter().any(wants),
            Audience::InPlace => wants(&class) && self.updates_in_place,
            Audience::NotInPlace => wants(&class) && !self.updates_in_place,
        }
    }
}

/// What the dispatcher works with.
pub struct Dispatcher {
    /// All seats.
    pub board: Arc<Board>,
    /// What changes on the board.
    pub changes: Changes,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The hooks' states.
    pub hooks: Arc<HookStates>,
    /// What people are told.
    pub alerts: Alerts,
    /// What people are not told while work is planned.
    pub pauses: Pauses,
    /// The targets.
    pub targets: Vec<Wanting>,
    /// The way to the disk thread.
    pub disk: DiskQueue,
    /// What the disk thread answers.
    pub answers: Receiver<Answer>,
    /// The way to the sender.
    pub sender: mpsc::Sender<Command>,
    /// Told when the sender has ended.
    pub sender_ended: Receiver<()>,
    /// The way to what is remembered of leaders.
    pub memory: mpsc::Sender<Ask>,
    /// What was said once and is not said again.
    pub said: Said,
}

/// What was said once and is not said again.
#[derive(Debug, Default)]
pub struct Said {
    no_high_availability: bool,
    hook_changes: u64,
    hooks: BTreeMap<String, HookState>,
    unwritten_records: u64,
}

impl Dispatcher {
    /// Works until it is told to stop, and answers when all that can be done in time is done.
    pub fn run(mut self, stop: &Receiver<Stop>) {
        loop {
            let wait = self.longest_wait();
            select! {
                recv(self.changes.waiting()) -> seat => if let Ok(seat) = seat {
                    seat.handle(|change| self.handle(change));
                },
                recv(self.answers) -> answer => if let Ok(answer) = answer {
                    self.answer(answer);
                },
                recv(stop) -> stop => return self.stop(stop.ok()),
                default(wait) => {}
            }
            self.handle_waiting();
            self.say_hooks();
            let effects = self.alerts.due(self.clock.now());
            self.carry_out(effects);
            let effects = self.pauses.due(self.clock.now());
            self.carry_out(effects);
        }
    }

    fn longest_wait(&self) -> Duration {
        let now = self.clock.now().monotonic;
        let next = self.alerts.next_due().into_iter().chain(self.pauses.next_due()).min();
        let next = next.map_or(LONGEST_WAIT, |due| due.saturating_sub(now));
        next.min(LONGEST_WAIT)
    }

    fn handle_waiting(&mut self) {
        while let Ok(seat) = self.changes.waiting().try_recv() {
            seat.handle(|change| self.handle(change));
        }
        let board = Arc::clone(&self.board);
        board.handle_overflow(|change| self.handle(change));
    }

    fn handle(&mut self, change: SeatChange) {
        if change.left_out > 0 {
            self.disk.losses().add_observations(change.left_out);
            let reason = format!(
                "{} changes of {} came faster than they could be handled and are left out; the last one is not",
                change.left_out,
                change.seat.component.name()
            );
            self.record(change.at, Event::problem("alert log", reason));
        }
        self.record(change.at, event(&change));
        self.say_no_high_availability(&change);
        self.ask_memory(&change);
        self.alerts.take(&change);
    }

    /// Asks what only the memory knows. What finds no place there is a start, for a reason that was not seen.
    fn ask_memory(&self, change: &SeatChange) {
        let ask = match &change.change {
            Change::Elected { leader } if counts(leader) => {
                Ask::First { seat: change.seat, leader: leader.clone(), at: change.at }
            }
            Change::Moved { old, .. } => Ask::Moved { old: old.id, within: CAUSE_COUNTS },
            Change::Granted { id } => Ask::Granted(*id),
            _ => return,
        };
        let _ = self.memory.try_send(ask);
    }

    fn answer(&mut self, answer: Answer) {
        let now = self.clock.now();
        match answer {
            Answer::Saved(key) => self.alerts.written(&key, now),
            Answer::Pause(pause) => self.pauses.set(pause, now),
            Answer::Recovered(parts) => {
                let parts = self.pauses.recover(parts, now);
                let effects = self.alerts.recover(parts, now);
                self.carry_out(effects);
            }
            Answer::Reconfigured { wanting, alerts } => {
                self.targets = wanting;
                self.pauses.reconfigure((*alerts).clone());
                self.alerts.reconfigure(*alerts);
            }
            Answer::MovedBefore { seat, old, new, at } => {
                let was_told = self.alerts.was_told(seat, new.id);
                let change = SeatChange { seat, change: Change::Moved { old, new, leaderless: None }, at, left_out: 0 };
                if was_told {
                    return self.record(at, event(&change));
                }
                self.handle(change);
            }
            Answer::Inherited(notice) => self.alerts.inherit(&notice.alert),
            Answer::EndedInOrder(leader) => self.alerts.ended_in_order(leader),
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in self.pauses.filter(effects, self.clock.now()) {
            match effect {
                Effect::Save { key, body } => {
                    self.push(Task::Save { key, body });
                }
                Effect::Raise { alert, saved } => self.raise(*alert, saved),
                Effect::Notify { notice, audience } => self.notify(*notice, audience, Vec::new()),
                Effect::Record(event) => self.record(self.clock.now(), event),
                Effect::Forget { saved } => {
                    self.push(Task::Forget { saved });
                }
            }
        }
    }

    fn raise(&mut self, alert: Alert, saved: Vec<String>) {
        let notice = Notice { message_id: alert.id.clone(), action: Action::Raise, alert };
        let targets = self.targets_for(&notice, &Audience::All);
        self.record(self.clock.now(), Event::AlertRaised { alert: Box::new(notice.alert.clone()), targets });
        self.notify(notice, Audience::All, saved);
    }

    /// Hands a notice to the disk and to the sender at the same time; the sender waits for the disk, but not for long.
    fn notify(&mut self, notice: Notice, audience: Audience, saved: Vec<String>) {
        let targets = self.targets_for(&notice, &audience);
        let notice = Arc::new(notice);
        let (persisted, on_disk) = oneshot::channel();
        self.push(Task::Due { notice: Arc::clone(&notice), targets: targets.clone(), saved, persisted });
        if targets.is_empty() {
            return;
        }
        let command = Command::Send(Submission::new(notice, targets, Some(on_disk)));
        // A sender that has ended leaves it in the outbox.
        if let Err(mpsc::error::TrySendError::Full(Command::Send(submission))) = self.sender.try_send(command) {
            self.push(Task::Submit(submission));
        }
    }

    fn targets_for(&self, notice: &Notice, audience: &Audience) -> Vec<String> {
        let takes = |target: &&Wanting| target.takes(notice.alert.class, audience);
        self.targets.iter().filter(takes).map(|target| target.name.clone()).collect()
    }

    fn record(&mut self, at: Moment, event: Event) {
        if !self.push(Task::Record { at, event }) {
            self.said.unwritten_records += 1;
            return;
        }
        if self.said.unwritten_records > 0 {
            let reason = format!("the disk did not keep up; {} records are missing", self.said.unwritten_records);
            self.said.unwritten_records = 0;
            self.push(Task::Record { at, event: Event::problem("alert log", reason) });
        }
    }

    fn push(&self, task: Task) -> bool {
        self.disk.push(task)
    }

    fn say_hooks(&mut self) {
        let changes = self.hooks.changes();
        if changes == self.said.hook_changes {
            return;
        }
        self.said.hook_changes = changes;
        for (class, state) in self.hooks.snapshot() {
            if self.said.hooks.get(&class) == Some(&state) {
                continue;
            }
            self.said.hooks.insert(class.clone(), state.clone());
            match state {
                HookState::NotSeen => {}
                HookState::Installed => self.record(self.clock.now(), Event::AgentHooked { hook: class }),
                HookState::Refused(reason) => {
                    log::warn!("{class} is not hooked: {reason}");
                    self.record(self.clock.now(), Event::problem(format!("hook {class}"), reason));
                }
            }
        }
    }

    fn say_no_high_availability(&mut self, change: &SeatChange) {
        let Change::Elected { leader } = &change.change else { return };
        if leader.id != SessionId::NO_HIGH_AVAILABILITY || self.said.no_high_availability {
            return;
        }
        self.said.no_high_availability = true;
        let reason = "Flink runs without high availability, so a JobManager that fails has no successor and no failover \
                      can be seen; set `high-availability.type` (Flink 1.16 and earlier: `high-availability`)";
        self.record(change.at, Event::problem("leadership", reason));
    }

    fn stop(mut self, stop: Option<Stop>) {
        let stop_begins = self.clock.now();
        let in_order = stop.as_ref().is_some_and(|stop| stop.in_order);
        self.handle_waiting();
        self.say_hooks();
        let ending = if in_order { Ending::InOrder } else { Ending::Fatal };
        let effects = self.alerts.at_end(self.clock.now(), ending);
        self.carry_out(effects);
        // A memory that is behind has nothing new to say.
        let _ = self.memory.try_send(Ask::End { in_order });
        let told = self.sender.try_send(Command::Stop { within: SEND_AT_STOP }).is_ok();
        if told {
            // Beyond that time it does not end, and what it has not sent stays in the outbox.
            let _ = self.sender_ended.recv_timeout(SENDER_ENDS);
        }
        let (written, all_written) = bounded(1);
        self.push(Task::Stop { done: written });
        let spent = self.clock.now().since(stop_begins);
        // A disk that does not answer by then is left alone.
        let _ = all_written.recv_timeout(LONGEST_STOP.saturating_sub(spent));
        if let Some(stop) = stop {
            // Whoever waits may have given up.
            let _ = stop.done.send(());
        }
    }
}

/// Hands the sender's reports to the disk thread.
pub struct ReportToDisk(pub DiskQueue);

impl Report for ReportToDisk {
    fn report(&self, progress: Progress) {
        if !self.0.push(Task::Progress(progress)) {
            log::warn!("the disk does not keep up; a delivery is not recorded");
        }
    }
}

fn event(change: &SeatChange) -> Event {
    let seat = SeatFields { component: change.seat.component, job_id: change.seat.job_id };
    let address = |leader: &Leader| leader.address.as_deref().map(str::to_owned);
    let milliseconds = |gap: Duration| u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
    match &change.change {
        Change::Elected { leader } => Event::LeaderElected { seat, leader_id: leader.id, address: address(leader) },
        Change::Lost { leader } => Event::LeaderLost { seat, leader_id: leader.id, address: address(leader) },
        Change::Returned { leader, leaderless } => Event::LeaderReturned {
            seat,
            leader_id: leader.id,
            address: address(leader),
            leaderless_ms: leaderless.map(milliseconds),
        },
        Change::Moved { old, new, leaderless } => Event::LeaderMoved {
            seat,
            leader_id: new.id,
            address: address(new),
            old_leader_id: old.id,
            old_address: address(old),
            leaderless_ms: leaderless.map(milliseconds),
        },
        Change::Stale { leader } => Event::LeaderStale { seat, leader_id: leader.id, address: address(leader) },
        Change::Unreachable { verdict, leader } => Event::LeaderUnreachable {
            seat,
            verdict: verdict.name().to_owned(),
            leader_id: leader.as_ref().map(|leader| leader.id),
            address: leader.as_ref().and_then(address),
        },
        Change::Reachable { leader } => Event::LeaderReachable { seat, leader_id: leader.id, address: address(leader) },
        Change::Granted { id } => Event::LeaderGranted { seat, leader_id: *id },
        Change::Revoked => Event::LeaderRevoked { seat },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a fault: a target that takes no `resolved` was told neither of an alert in a pause nor of the pause's end.
    #[test]
    fn an_audience_is_told_by_class_and_manner() {
        let target = |classes: &[Class], updates_in_place| Wanting {
            name: "t".into(),
            classes: classes.into(),
            updates_in_place,
        };
        let pager = target(&[Class::Failover], true);
        assert!(!pager.takes(Class::Resolved, &Audience::All));
        assert!(pager.takes(Class::Resolved, &Audience::AllAndOf(vec![Class::NoLeader, Class::Failover])));
        assert!(!pager.takes(Class::Resolved, &Audience::AllAndOf(vec![Class::NoLeader])));
        assert!(target(&[Class::Resolved], false).takes(Class::Resolved, &Audience::AllAndOf(vec![Class::Failover])));
        assert!(
            pager.takes(Class::Failover, &Audience::InPlace) && !pager.takes(Class::Failover, &Audience::NotInPlace)
        );
    }
}
