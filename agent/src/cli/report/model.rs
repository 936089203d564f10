//! What a report tells, gathered record by record. Its JSON form is `leaderwatch report --json`.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaderwatch_agent::alert::{Alert, Class};
use leaderwatch_agent::event::{Event, Record, SeatFields};
use leaderwatch_agent::journal::reader::{Entry, Skipped, Stamp};
use leaderwatch_agent::leadership::{Component, JobId, SessionId};
use serde::{Serialize, Serializer};

use crate::cli::log::undelivered::{self, Undelivered};

/// Moves of one cluster within this time, in milliseconds, are one election: before Flink 1.15 each component and job
/// has its own, and they end within seconds of each other.
const ONE_ELECTION_MS: i64 = 10_000;

/// How many problems are listed; the rest is counted.
const MAX_PROBLEMS: usize = 50;

/// Everything that a report tells.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Time of the first record.
    #[serde(serialize_with = "time")]
    pub from: Timestamp,
    /// Time of the last record.
    #[serde(serialize_with = "time")]
    pub to: Timestamp,
    /// Zone of the days.
    pub time_zone: String,
    /// Records that were counted.
    pub records: u64,
    /// Records that were not, because another process had told the same.
    pub seen_alike: u64,
    /// Lines that were no records.
    pub skipped_lines: u64,
    /// By name.
    pub clusters: Vec<ClusterReport>,
    /// By name.
    pub targets: Vec<TargetReport>,
    /// What needs somebody.
    pub unresolved: Unresolved,
}

/// One cluster.
#[derive(Debug, Serialize)]
pub struct ClusterReport {
    /// Its name.
    pub cluster: String,
    /// Elections that gave a new leader.
    pub failovers: u64,
    /// How many of them by day (`2026-11-30`); days without any are left out.
    pub failovers_per_day: BTreeMap<String, u64>,
    /// How long elections left the cluster without a leader.
    pub leaderless: Leaderless,
    /// Components and jobs.
    pub seats: Vec<SeatReport>,
}

/// Times without leader, of those elections in which Flink announced one.
#[derive(Debug, Serialize)]
pub struct Leaderless {
    /// Elections of which the time is known.
    pub known: usize,
    /// Half of them took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<u64>,
    /// 95 of 100 took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ms: Option<u64>,
}

/// A component or job, and who led it.
#[derive(Debug, Serialize)]
pub struct SeatReport {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The job's name, where an alert told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// Moves to another leader.
    pub moves: u64,
    /// Times without leader.
    pub gaps: u64,
    /// The longest time without leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<u64>,
    /// Who led, in order of time.
    pub spans: Vec<Span>,
}

/// A time under one leader, or without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    /// When it began, as far as the log knows.
    #[serde(serialize_with = "time")]
    pub from: Timestamp,
    /// Who led; absent where nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<SessionId>,
    /// Where it could be reached, if Flink told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// What became of the alerts for one target.
#[derive(Debug, Serialize)]
pub struct TargetReport {
    /// Its name.
    pub target: String,
    /// Kind of receiver, if an agent told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Delivered.
    pub delivered: u64,
    /// Of these, those that took more than one attempt.
    pub delivered_after_retry: u64,
    /// Attempts that failed and were repeated.
    pub retries: u64,
    /// Given up.
    pub failed: u64,
    /// Half of the deliveries took no longer, from the alert to the receiver's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<u64>,
    /// 95 of 100 took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ms: Option<u64>,
    /// Why an attempt failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What needs somebody.
#[derive(Debug, Default, Serialize)]
pub struct Unresolved {
    /// Seats without a leader at the end of the log.
    pub leaderless: Vec<LeaderlessSeat>,
    /// Alerts that some target does not have.
    pub undelivered: Vec<undelivered::Alert>,
    /// The last alert of a cluster, where nothing says that it is over.
    pub open_alerts: Vec<OpenAlert>,
    /// What agents complained of, the latest first.
    pub problems: Vec<Problem>,
    /// Other problems that are not listed.
    pub more_problems: u64,
}

/// A seat without a leader.
#[derive(Debug, Serialize)]
pub struct LeaderlessSeat {
    /// The cluster.
    pub cluster: String,
    /// The component.
    pub component: Component,
    /// The job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Since when.
    #[serde(serialize_with = "time")]
    pub since: Timestamp,
}

/// An alert without its end.
#[derive(Debug, Serialize)]
pub struct OpenAlert {
    /// The cluster.
    pub cluster: String,
    /// Its id.
    pub alert_id: String,
    /// What it is about.
    pub class: Class,
    /// One line.
    pub title: String,
    /// When it was raised.
    #[serde(serialize_with = "time")]
    pub raised_at: Timestamp,
}

/// What agents complained of.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    /// What is not as it should be.
    pub what: String,
    /// Why.
    pub reason: String,
    /// How often it was said.
    pub count: u64,
    /// When last.
    #[serde(serialize_with = "time")]
    pub last_at: Timestamp,
    /// By which host last.
    pub last_host: String,
}

fn time<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    leaderwatch_agent::event::with_milliseconds(at, out)
}

/// Gathers records, in order of time, without what several processes saw alike.
pub struct Gather {
    zone: TimeZone,
    /// What is told begins here.
    since: Option<Timestamp>,
    period: Option<(Timestamp, Timestamp)>,
    records: u64,
    clusters: BTreeMap<String, Cluster>,
    targets: BTreeMap<String, Target>,
    kinds: HashMap<String, String>,
    job_names: HashMap<JobId, String>,
    undelivered: Undelivered,
    problems: HashMap<(String, String), Problem>,
}

#[derive(Default)]
struct Cluster {
    elections: Vec<Election>,
    seats: BTreeMap<(Component, Option<JobId>), Seat>,
    last_alert: Option<(Alert, Timestamp)>,
}

struct Election {
    at: Timestamp,
    leader_id: SessionId,
    leaderless_ms: Option<u64>,
}

#[derive(Default)]
struct Seat {
    spans: Vec<Span>,
    moves: u64,
    /// Times without leader, by the monotonic clock where Flink announced both ends to one process.
    gaps_ms: Vec<u64>,
}

#[derive(Default)]
struct Target {
    latencies_ms: Vec<u64>,
    after_retry: u64,
    retries: u64,
    failed: u64,
    last_error: Option<String>,
}

impl Gather {
    /// Nothing gathered yet; days are those of `zone`.
    pub fn new(zone: TimeZone) -> Self {
        Self {
            zone,
            since: None,
            period: None,
            records: 0,
            clusters: BTreeMap::new(),
            targets: BTreeMap::new(),
            kinds: HashMap::new(),
            job_names: HashMap::new(),
            undelivered: Undelivered::default(),
            problems: HashMap::new(),
        }
    }

    /// What is told begins at `since`: of what was gathered only what still holds is kept - who leads, and what is
    /// unresolved.
    pub fn begin(&mut self, since: Option<Timestamp>) {
        self.since = since;
        self.period = None;
        self.records = 0;
        self.targets.values_mut().for_each(|target| *target = Target::default());
        self.problems.clear();
        for seat in self.clusters.values_mut().flat_map(|cluster| cluster.seats.values_mut()) {
            *seat = Seat { spans: seat.spans.pop().into_iter().collect(), ..Seat::default() };
        }
    }

    /// Takes in a record.
    pub fn add(&mut self, stamp: Stamp, entry: &Entry) {
        self.records += 1;
        if let Some(at) = stamp.timestamp() {
            let from = self.period.map_or(at, |(from, _)| from.min(at));
            let to = self.period.map_or(at, |(_, to)| to.max(at));
            self.period = Some((from, to));
        }
        let Entry::Known(record) = entry else { return };
        self.undelivered.add(stamp, record);
        self.add_leadership(record);
        self.add_delivery(record);
    }

    fn add_leadership(&mut self, record: &Record) {
        let cluster = match self.clusters.get_mut(&record.cluster) {
            Some(cluster) => cluster,
            None => self.clusters.entry(record.cluster.clone()).or_default(),
        };
        match &record.event {
            Event::LeaderElected { seat, leader_id, address } => {
                cluster.seat(seat).led_by(record.ts, *leader_id, address.as_deref());
            }
            Event::LeaderReturned { seat, leader_id, address, leaderless_ms } => {
                let seat = cluster.seat(seat);
                seat.gaps_ms.extend(*leaderless_ms);
                seat.led_by(record.ts, *leader_id, address.as_deref());
            }
            Event::LeaderLost { seat, leader_id, .. } => cluster.seat(seat).lost(record.ts, *leader_id),
            Event::LeaderMoved { seat, leader_id, address, leaderless_ms, .. } => {
                cluster.count_election(record.ts, *leader_id, *leaderless_ms);
                let seat = cluster.seat(seat);
                seat.moves += 1;
                seat.gaps_ms.extend(*leaderless_ms);
                seat.led_by(record.ts, *leader_id, address.as_deref());
            }
            Event::AlertRaised { alert, .. } => {
                for member in &alert.members {
                    if let (Some(id), Some(name)) = (member.job_id, &member.job_name) {
                        self.job_names.insert(id, name.clone());
                    }
                }
                let resolved = alert.class == Class::Resolved;
                let is_last = cluster.last_alert.as_ref().is_some_and(|(last, _)| last.id == alert.id);
                if resolved && is_last {
                    cluster.last_alert = None;
                } else if !resolved && alert.class != Class::Test {
                    cluster.last_alert = Some((alert.as_ref().clone(), record.ts));
                }
            }
            _ => {}
        }
    }

    fn add_delivery(&mut self, record: &Record) {
        match &record.event {
            Event::AgentStarted { targets, .. } => {
                for target in targets {
                    self.kinds.insert(target.name.clone(), target.kind.clone());
                    self.targets.entry(target.name.clone()).or_default();
                }
            }
            Event::AlertDelivered { target, attempts, latency_ms, .. } => {
                let target = self.targets.entry(target.clone()).or_default();
                target.latencies_ms.push(*latency_ms);
                target.after_retry += u64::from(*attempts > 1);
            }
            Event::AlertRetrying { target, reason, .. } => {
                let target = self.targets.entry(target.clone()).or_default();
                target.retries += 1;
                target.last_error = Some(reason.clone());
            }
            Event::AlertFailed { target, reason, .. } => {
                let target = self.targets.entry(target.clone()).or_default();
                target.failed += 1;
                target.last_error = Some(reason.clone());
            }
            Event::AgentProblem { what, reason } => {
                let new = || Problem {
                    what: what.clone(),
                    reason: reason.clone(),
                    count: 0,
                    last_at: record.ts,
                    last_host: String::new(),
                };
                let problem = self.problems.entry((what.clone(), reason.clone())).or_insert_with(new);
                problem.count += 1;
                problem.last_at = record.ts;
                problem.last_host.clone_from(&record.host);
            }
            _ => {}
        }
    }

    /// The report; none where there was no record.
    pub fn into_report(mut self, seen_alike: u64, skipped: Skipped) -> Option<Report> {
        let (from, to) = self.period?;
        let unresolved = self.unresolved();
        let (zone, since) = (&self.zone, self.since);
        let job_names = &self.job_names;
        let clusters = self.clusters.into_iter();
        let clusters = clusters.map(|(name, cluster)| cluster.into_report(name, since, zone, job_names)).collect();
        let kinds = &self.kinds;
        let targets = self
            .targets
            .into_iter()
            .map(|(name, target)| target.into_report(kinds.get(&name).cloned(), name))
            .collect();
        Some(Report {
            from,
            to,
            time_zone: self.zone.iana_name().unwrap_or("local").to_owned(),
            records: self.records,
            seen_alike,
            skipped_lines: skipped.total(),
            clusters,
            targets,
            unresolved,
        })
    }

    fn unresolved(&mut self) -> Unresolved {
        let mut problems: Vec<Problem> = std::mem::take(&mut self.problems).into_values().collect();
        problems.sort_by(|a, b| (b.last_at, &a.what, &a.reason).cmp(&(a.last_at, &b.what, &b.reason)));
        let more_problems = problems.len().saturating_sub(MAX_PROBLEMS) as u64;
        problems.truncate(MAX_PROBLEMS);
        let mut unresolved = Unresolved {
            undelivered: std::mem::take(&mut self.undelivered).into_alerts(),
            problems,
            more_problems,
            ..Unresolved::default()
        };
        for (name, cluster) in &self.clusters {
            for ((component, job_id), seat) in &cluster.seats {
                if let Some(Span { from, leader_id: None, .. }) = seat.spans.last() {
                    let (cluster, component, job_id, since) = (name.clone(), *component, *job_id, *from);
                    unresolved.leaderless.push(LeaderlessSeat { cluster, component, job_id, since });
                }
            }
            if let Some((alert, raised_at)) = &cluster.last_alert {
                unresolved.open_alerts.push(OpenAlert {
                    cluster: name.clone(),
                    alert_id: alert.id.clone(),
                    class: alert.class,
                    title: alert.title.clone(),
                    raised_at: *raised_at,
                });
            }
        }
        unresolved
    }
}

impl Cluster {
    fn seat(&mut self, seat: &SeatFields) -> &mut Seat {
        self.seats.entry((seat.component, seat.job_id)).or_default()
    }

    fn count_election(&mut self, at: Timestamp, leader_id: SessionId, leaderless_ms: Option<u64>) {
        let same = |election: &Election| {
            election.leader_id == leader_id || at.as_millisecond() - election.at.as_millisecond() <= ONE_ELECTION_MS
        };
        match self.elections.last_mut().filter(|election| same(election)) {
            Some(election) => election.leaderless_ms = election.leaderless_ms.max(leaderless_ms),
            None => self.elections.push(Election { at, leader_id, leaderless_ms }),
        }
    }

    fn into_report(
        mut self,
        cluster: String,
        since: Option<Timestamp>,
        zone: &TimeZone,
        job_names: &HashMap<JobId, String>,
    ) -> ClusterReport {
        self.elections.retain(|election| since.is_none_or(|since| election.at >= since));
        let mut failovers_per_day = BTreeMap::new();
        for election in &self.elections {
            *failovers_per_day.entry(zone.to_datetime(election.at).date().to_string()).or_default() += 1;
        }
        let mut leaderless_ms: Vec<u64> = self.elections.iter().filter_map(|election| election.leaderless_ms).collect();
        leaderless_ms.sort_unstable();
        let leaderless = Leaderless {
            known: leaderless_ms.len(),
            median_ms: quantile(&leaderless_ms, 50),
            p95_ms: quantile(&leaderless_ms, 95),
            longest_ms: leaderless_ms.last().copied(),
        };
        let failovers = self.elections.len() as u64;
        let seats = self
            .seats
            .into_iter()
            .map(|((component, job_id), seat)| SeatReport {
                component,
                job_id,
                job_name: job_id.and_then(|id| job_names.get(&id).cloned()),
                moves: seat.moves,
                gaps: seat.spans.iter().filter(|span| span.leader_id.is_none()).count() as u64,
                longest_gap_ms: seat.gaps_ms.iter().max().copied(),
                spans: seat.spans,
            })
            .collect();
        ClusterReport { cluster, failovers, failovers_per_day, leaderless, seats }
    }
}

impl Seat {
    fn led_by(&mut self, from: Timestamp, leader_id: SessionId, address: Option<&str>) {
        if self.spans.last().is_some_and(|last| last.leader_id == Some(leader_id)) {
            return;
        }
        self.spans.push(Span { from, leader_id: Some(leader_id), address: address.map(str::to_owned) });
    }

    /// A process that is told late may lose a leader who is not the present one any more.
    fn lost(&mut self, from: Timestamp, leader_id: SessionId) {
        if self.spans.last().is_none_or(|last| last.leader_id == Some(leader_id)) {
            self.spans.push(Span { from, leader_id: None, address: None });
        }
    }
}

impl Target {
    fn into_report(mut self, kind: Option<String>, target: String) -> TargetReport {
        self.latencies_ms.sort_unstable();
        TargetReport {
            target,
            kind,
            delivered: self.latencies_ms.len() as u64,
            delivered_after_retry: self.after_retry,
            retries: self.retries,
            failed: self.failed,
            median_ms: quantile(&self.latencies_ms, 50),
            p95_ms: quantile(&self.latencies_ms, 95),
            longest_ms: self.latencies_ms.last().copied(),
            last_error: self.last_error,
        }
    }
}

/// The smallest value that `percent` of 100 do not exceed (nearest rank).
fn quantile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn gather(lines: &[&str]) -> Report {
        let mut gather = Gather::new(TimeZone::UTC);
        for (second, line) in lines.iter().enumerate() {
            let line = format!(
                r#"{{"ts":"2026-11-30T10:{:02}:{:02}.000Z",{line},"cluster":"c","host":"h","pid":1}}"#,
                second / 60,
                second % 60
            );
            let bytes = line.as_bytes();
            gather.add(Stamp::of_line(bytes).unwrap(), &Entry::of(bytes).expect(&line));
        }
        gather.into_report(0, Skipped::default()).unwrap()
    }

    const A: &str = r#""component":"resourcemanager","leader_id":"00000000-0000-0000-0000-00000000000a""#;
    const B: &str = r#""component":"resourcemanager","leader_id":"00000000-0000-0000-0000-00000000000b""#;

    fn event(name: &str, rest: &str) -> String {
        format!(r#""event":"leader.{name}",{rest}"#)
    }

    #[test]
    fn a_seat_is_followed_through_loss_and_move() {
        let old = r#","old_leader_id":"00000000-0000-0000-0000-00000000000a","leaderless_ms":1000"#;
        let report = gather(&[
            &event("elected", A),
            &event("lost", A),
            &event("moved", &format!("{B}{old}")),
            // Another process was told late.
            &event("lost", A),
        ]);
        let cluster = &report.clusters[0];
        let leaders: Vec<Option<SessionId>> = cluster.seats[0].spans.iter().map(|span| span.leader_id).collect();
        assert_eq!(leaders, [Some(SessionId(10)), None, Some(SessionId(11))]);
        assert_eq!(cluster.failovers, 1);
        assert_eq!(cluster.failovers_per_day, BTreeMap::from([("2026-11-30".to_owned(), 1)]));
        assert_eq!(cluster.leaderless.median_ms, Some(1000));
        assert!(report.unresolved.leaderless.is_empty());
    }

    /// Regression: what had begun before `--since` was told as if it had begun then, or not at all.
    #[test]
    fn what_began_before_the_period_is_known_in_it() {
        let lines = [event("elected", A), event("lost", A), event("lost", A)];
        let mut gather = Gather::new(TimeZone::UTC);
        for (second, line) in lines.iter().enumerate() {
            if second == 2 {
                gather.begin("2026-11-30T10:00:02Z".parse().ok());
            }
            let line = format!(
                r#"{{"ts":"2026-11-30T10:00:0{second}.000Z",{line},"cluster":"c","host":"h{second}","pid":1}}"#
            );
            let bytes = line.as_bytes();
            gather.add(Stamp::of_line(bytes).unwrap(), &Entry::of(bytes).unwrap());
        }
        let report = gather.into_report(0, Skipped::default()).unwrap();
        assert_eq!(report.records, 1);
        let seat = &report.clusters[0].seats[0];
        assert_eq!(seat.spans.len(), 1, "{:?}", seat.spans);
        assert_eq!(report.unresolved.leaderless[0].since, "2026-11-30T10:00:01Z".parse().unwrap());
    }

    #[test]
    fn a_seat_without_leader_at_the_end_is_unresolved() {
        let report = gather(&[&event("elected", A), &event("lost", A)]);
        assert_eq!(report.unresolved.leaderless.len(), 1);
        assert_eq!(report.clusters[0].failovers, 0);
        assert_eq!(report.clusters[0].leaderless.median_ms, None);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values: Vec<u64> = (1..=20).collect();
        assert_eq!(quantile(&values, 50), Some(10));
        assert_eq!(quantile(&values, 95), Some(19));
        assert_eq!(quantile(&values[..1], 95), Some(1));
        assert_eq!(quantile(&[], 50), None);
    }
}
