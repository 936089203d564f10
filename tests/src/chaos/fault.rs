//! What can befall the cluster. Each fault strikes one subject, lasts a while and is healed.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use super::ground::Ground;
use crate::webhook::Behavior;

/// What a fault strikes; one fault at a time strikes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A JobManager, by its index.
    JobManager(usize),
    /// A TaskManager, by its index.
    TaskManager(usize),
    /// The disk of a TaskManager's agent.
    Disk(usize),
    /// Flink's ZooKeeper.
    ZooKeeper,
    /// The webhook receiver.
    Webhook,
    /// The mail receiver.
    Mail,
}

/// How it is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// `kill -9`; healed by a start.
    Kill,
    /// SIGTERM; healed by a start.
    Stop,
    /// SIGSTOP; healed by SIGCONT.
    Freeze,
    /// Packets to and from its port vanish.
    Cut,
    /// Its disk has no room left.
    Fill,
    /// It refuses connections.
    Refuse,
    /// It answers 503.
    Fail,
    /// It takes requests and does not answer.
    Hang,
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What is struck.
    pub subject: Subject,
    /// How.
    pub blow: Blow,
    /// How long.
    pub lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} {:?} for {:.1} s", self.blow, self.subject, self.lasts.as_secs_f64())
    }
}

/// Blows that each subject can take; what stands here twice comes twice as often.
fn blows(subject: Subject) -> &'static [Blow] {
    match subject {
        Subject::JobManager(_) => &[Blow::Kill, Blow::Kill, Blow::Stop, Blow::Freeze, Blow::Cut],
        Subject::TaskManager(_) => &[Blow::Kill, Blow::Kill, Blow::Stop, Blow::Freeze],
        Subject::Disk(_) => &[Blow::Fill],
        Subject::ZooKeeper => &[Blow::Kill, Blow::Freeze, Blow::Cut],
        Subject::Webhook => &[Blow::Refuse, Blow::Fail, Blow::Hang],
        Subject::Mail => &[Blow::Refuse],
    }
}

/// A fault drawn at random, on a subject that is free.
pub fn draw(random: &mut fastrand::Rng, task_managers: usize, taken: &[Subject]) -> Option<Fault> {
    // Leaders are what this is about: they are struck most.
    let mut subjects = [Subject::JobManager(0), Subject::JobManager(1)].repeat(task_managers.max(2));
    subjects.extend([Subject::ZooKeeper, Subject::Webhook, Subject::Mail]);
    subjects.extend((0..task_managers).flat_map(|index| [Subject::TaskManager(index), Subject::Disk(index)]));
    let subject = *random.choice(&subjects)?;
    let blow = *random.choice(blows(subject))?;
    let longest_ms = match subject {
        Subject::Webhook | Subject::Mail | Subject::Disk(_) => 30_000,
        _ => 12_000,
    };
    let lasts = Duration::from_millis(random.u64(500..longest_ms));
    (!taken.contains(&subject)).then_some(Fault { subject, blow, lasts })
}

impl Fault {
    /// Begins it. A process that is gone by itself cannot be struck, and is not.
    ///
    /// # Errors
    /// Where the means fail, such as iptables.
    pub fn strike(&self, ground: &mut Ground) -> Result<()> {
        match (self.blow, self.subject) {
            (Blow::Refuse, Subject::Mail) => ground.mail.go_down(),
            (Blow::Refuse, _) => ground.webhook.go_down(),
            (Blow::Fail, _) => ground.webhook.behave(Behavior::Answer(503)),
            (Blow::Hang, _) => ground.webhook.behave(Behavior::Hang),
            (Blow::Fill, Subject::Disk(index)) => fill(ground, index),
            (Blow::Cut, _) => self.each_rule(ground, "-I")?,
            _ => self.strike_process(ground)?,
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// Where what was struck does not come back.
    pub fn heal(&self, ground: &mut Ground) -> Result<()> {
        match (self.blow, self.subject) {
            (Blow::Refuse, Subject::Mail) => ground.mail.come_up(),
            (Blow::Refuse, _) => ground.webhook.come_up(),
            (Blow::Fail | Blow::Hang, _) => {
                ground.webhook.behave(Behavior::Answer(200));
                Ok(())
            }
            (Blow::Fill, Subject::Disk(index)) => {
                let _ = fs::remove_file(ground.disk(index).join(FILLER));
                Ok(())
            }
            (Blow::Cut, _) => self.each_rule(ground, "-D"),
            (Blow::Freeze, _) => {
                let server = ground.server(self.subject)?;
                if server.runs() { server.thaw() } else { server.start() }
            }
            _ => ground.server(self.subject)?.start(),
        }
    }

    fn strike_process(&self, ground: &mut Ground) -> Result<()> {
        let server = ground.server(self.subject)?;
        if !server.runs() {
            return Ok(());
        }
        match self.blow {
            Blow::Freeze => server.freeze(),
            Blow::Stop => {
                // As an orchestrator does: TERM, and KILL to what is still there after a while.
                if server.terminate(Duration::from_secs(20)).is_err() {
                    println!("          {:?} did not stop within 20 s and was killed", self.subject);
                }
                Ok(())
            }
            _ => server.kill(),
        }
    }

    fn each_rule(&self, ground: &mut Ground, action: &str) -> Result<()> {
        let port = ground.server(self.subject)?.rpc_port.to_string();
        for side in ["--dport", "--sport"] {
            let rule = [action, "INPUT", "-p", "tcp", side, &port, "-j", "DROP"];
            let status = Command::new("iptables").arg("-w").args(rule).status()?;
            if !status.success() {
                bail!("iptables {} ended with {status}", rule.join(" "));
            }
        }
        Ok(())
    }
}

const FILLER: &str = "filler";

fn fill(ground: &Ground, index: usize) {
    // Ends by the error that is wanted.
    let _ = fs::write(ground.disk(index).join(FILLER), vec![0; super::ground::DISK_BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_faults_and_none_on_a_subject_that_is_taken() {
        let faults = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..200).filter_map(|_| draw(&mut random, 2, &[Subject::ZooKeeper])).collect::<Vec<_>>()
        };
        assert_eq!(faults(7), faults(7));
        assert_ne!(faults(7), faults(8));
        assert!(faults(7).iter().all(|fault| fault.subject != Subject::ZooKeeper));
        assert!(faults(7).iter().any(|fault| fault.subject == Subject::Disk(1)));
    }
}
