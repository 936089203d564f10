//! Writes a made-up alert log to standard output, the same for the same arguments: for measuring and for looking at
//! reports. Several TaskManagers of two clusters see one election after the other.
//!
//! `synthetic_log RECORDS [TASKMANAGERS [SEED]]`: at least that many records.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use jiff::Timestamp;
use leaderwatch_agent::alert::{Alert, Cause, Class, Member, Severity};
use leaderwatch_agent::event::{Event, Record, SeatFields, TargetFields};
use leaderwatch_agent::leadership::{Component, JobId, Leader, SessionId};
use leaderwatch_agent::process::{Observer, Role};

const CLUSTERS: [&str; 2] = ["orders-prod", "payments-prod"];
const TARGETS: [&str; 2] = ["ops-chat", "mail"];
const JOBS: [(&str, u128); 3] = [
    ("orders-enrich", 0x3f0c_97a1_5b2e_4d60_8a11_c2f7_90d4_6be5),
    ("orders-sink", 0xb75e_0d13_88c4_4f2a_9e36_5a1b_7c08_e2d9),
    ("fraud", 0x0a64_e8f2_d19b_47c3_b05d_2e7f_4816_93ac),
];

/// Numbers that look random: Knuth's MMIX generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn id(&mut self) -> SessionId {
        SessionId::from_uuid_halves(self.roll(u64::MAX) << 32 | self.roll(u64::MAX), self.roll(u64::MAX) << 32)
    }
}

struct Log<W> {
    out: W,
    dice: Dice,
    now: Timestamp,
    written: u64,
    taskmanagers: u64,
}

impl<W: Write> Log<W> {
    fn pass(&mut self, milliseconds: u64) {
        self.now =
            self.now.checked_add(Duration::from_millis(milliseconds)).expect("the log ends before the year 9999");
    }

    fn write(&mut self, cluster: &str, taskmanager: u64, event: Event) -> io::Result<()> {
        let host = format!("{cluster}-taskmanager-1-{taskmanager}");
        let record = Record { ts: self.now, event, cluster: cluster.to_owned(), host, pid: 1 };
        serde_json::to_writer(&mut self.out, &record)?;
        self.written += 1;
        self.out.write_all(b"\n")
    }

    fn starts(&mut self, cluster: &str) -> io::Result<()> {
        for taskmanager in 1..=self.taskmanagers {
            let hook = "org.apache.flink.runtime.taskexecutor.TaskExecutor$ResourceManagerLeaderListener";
            let target = |name: &str, kind: &str| TargetFields { name: name.to_owned(), kind: kind.to_owned() };
            let event = Event::AgentStarted {
                version: "0.1.0".to_owned(),
                role: Role::TaskManager,
                java_version: Some("17.0.15".to_owned()),
                flink_version: Some("2.3.0".to_owned()),
                hooks: BTreeMap::from([(hook.to_owned(), "installed".to_owned())]),
                targets: vec![target("ops-chat", "slack"), target("mail", "email")],
            };
            self.write(cluster, taskmanager, event)?;
        }
        Ok(())
    }

    fn election(&mut self, cluster: &str, number: u64, old: SessionId, new: SessionId) -> io::Result<()> {
        let address = |number: u64| format!("pekko.tcp://flink@10.0.{}.{}:6123", number / 200 % 200, number % 200 + 1);
        let (old_address, new_address) = (address(number), address(number + 1));
        let leaderless_ms = [280, 350, 412, 640, 1_450, 3_600, 9_300, 61_000][self.dice.roll(8) as usize];
        let taskmanagers = self.taskmanagers;
        let returns = self.dice.roll(6) == 0;
        let seats: Vec<SeatFields> =
            std::iter::once(SeatFields { component: Component::ResourceManager, job_id: None })
                .chain(JOBS.map(|(_, id)| SeatFields { component: Component::JobManager, job_id: Some(JobId(id)) }))
                .collect();
        let seen: Vec<(SeatFields, u64)> =
            seats.into_iter().flat_map(|seat| (1..=taskmanagers).map(move |tm| (seat.clone(), tm))).collect();
        for (seat, taskmanager) in seen.clone() {
            let event = Event::LeaderLost { seat, leader_id: old, address: Some(old_address.clone()) };
            self.write(cluster, taskmanager, event)?;
        }
        self.pass(leaderless_ms);
        for (seat, taskmanager) in seen {
            let leaderless_ms = Some(leaderless_ms + self.dice.roll(40));
            let event = if returns {
                Event::LeaderReturned { seat, leader_id: old, address: Some(old_address.clone()), leaderless_ms }
            } else {
                Event::LeaderMoved {
                    seat,
                    leader_id: new,
                    address: Some(new_address.clone()),
                    old_leader_id: old,
                    old_address: Some(old_address.clone()),
                    leaderless_ms,
                }
            };
            self.write(cluster, taskmanager, event)?;
        }
        if returns {
            return Ok(());
        }
        let leader = |id, address: &str| Some(Leader { id, address: Some(address.into()) });
        let (old_leader, new_leader) = (leader(old, &old_address), leader(new, &new_address));
        let id = format!("{:032x}", new.0);
        let title = format!("Flink cluster {cluster}: the JobManager's leader moved, {} jobs concerned", JOBS.len());
        let members = JOBS.map(|(name, job)| Member {
            component: Component::JobManager,
            job_id: Some(JobId(job)),
            job_name: Some(name.to_owned()),
            old_leader: old_leader.clone(),
            new_leader: new_leader.clone(),
            joined: false,
        });
        let alert = Alert {
            schema: 1,
            id: id.clone(),
            class: Class::Failover,
            severity: Severity::Critical,
            cluster: cluster.to_owned(),
            namespace: Some("flink".to_owned()),
            occurred_at: self.now,
            text: format!("{title}.\nOld leader: {old_address}\nNew leader: {new_address}"),
            title,
            leaderless_ms: Some(leaderless_ms),
            same_address: Some(false),
            cause: Some(Cause::Revoked),
            old_leader: old_leader.clone(),
            new_leader: new_leader.clone(),
            members: members.to_vec(),
            resolves: None,
            drill: false,
            members_left_out: 0,
            elections: None,
            observer: Observer {
                host: format!("{cluster}-taskmanager-1-1"),
                pid: 1,
                pod: None,
                role: Role::TaskManager,
                flink_version: Some("2.3.0".to_owned()),
            },
            labels: BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
        };
        self.pass(2_000);
        for taskmanager in 1..=self.taskmanagers {
            let (alert, targets) = (Box::new(alert.clone()), TARGETS.map(str::to_owned).to_vec());
            self.write(cluster, taskmanager, Event::AlertRaised { alert, targets })?;
        }
        self.deliveries(cluster, &id)
    }

    fn deliveries(&mut self, cluster: &str, id: &str) -> io::Result<()> {
        for taskmanager in 2..=self.taskmanagers {
            let by = format!("{cluster}-taskmanager-1-1 delivered it");
            let (alert_id, target) = (id.to_owned(), Some("ops-chat".to_owned()));
            self.write(cluster, taskmanager, Event::AlertSuppressed { alert_id, target, by })?;
        }
        for target in TARGETS {
            let (alert_id, target) = (id.to_owned(), target.to_owned());
            let reason = "the receiver answered 503 Service Unavailable".to_owned();
            let attempts = u32::try_from(self.dice.roll(12).saturating_sub(8)).expect("below four") + 1;
            for attempts in 1..attempts {
                let next_ms = 1_000 << attempts;
                let (alert_id, target, reason) = (alert_id.clone(), target.clone(), reason.clone());
                self.write(cluster, 1, Event::AlertRetrying { alert_id, target, attempts, reason, next_ms })?;
                self.pass(next_ms);
            }
            let latency_ms = 80 + self.dice.roll(300);
            self.pass(latency_ms);
            let event = if self.dice.roll(60) == 0 {
                Event::AlertFailed { alert_id, target, attempts, reason: "the receiver answered 410 Gone".to_owned() }
            } else {
                Event::AlertDelivered { alert_id, target, attempts, latency_ms, receipt: None }
            };
            self.write(cluster, 1, event)?;
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |default: u64| arguments.next().transpose().map(|given| given.unwrap_or(default));
    let (Ok(records), Ok(taskmanagers), Ok(seed)) = (next(10_000), next(3), next(1)) else {
        eprintln!("usage: synthetic_log RECORDS [TASKMANAGERS [SEED]]");
        std::process::exit(2);
    };
    let mut log = Log {
        out: BufWriter::new(io::stdout().lock()),
        dice: Dice(seed),
        now: "2026-09-01T00:00:00Z".parse().expect("a time"),
        written: 0,
        taskmanagers,
    };
    let mut leaders = [log.dice.id(), log.dice.id()];
    for cluster in CLUSTERS {
        log.starts(cluster)?;
    }
    let mut number = 0;
    while log.written < records {
        let which = log.dice.roll(2) as usize;
        let new = log.dice.id();
        let before = log.written;
        log.election(CLUSTERS[which], number, leaders[which], new)?;
        // After a return the old leader goes on.
        if log.written - before > 8 * taskmanagers {
            leaders[which] = new;
            number += 1;
        }
        let hours = 1 + log.dice.roll(20);
        log.pass(hours * 3_600_000 + 7_919);
    }
    log.out.flush()
}
