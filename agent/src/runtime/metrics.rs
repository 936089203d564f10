//! Metrics in Prometheus's text format, for the textfile collector: counts what the records say.
//!
//! Format: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format". The collector reads `*.prom`, so what
//! is being written has another ending. Where several processes have the same path, the second takes the name with `.2`, and
//! so on; each series names its process, since the collector refuses two series of the same labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::event::Event;
use crate::status::Status;

/// Upper bounds of the latency histogram, in milliseconds.
const LATENCY_BOUNDS_MS: [u64; 10] = [100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000];
/// Most outcomes and reasons of one target that are told apart.
const MOST_REASONS: usize = 40;
/// How many processes may share a path.
const PLACES: u32 = 64;

/// What the records say, counted.
#[derive(Debug, Default)]
pub struct Metrics {
    moves: BTreeMap<&'static str, u64>,
    leaderless_ms: BTreeMap<&'static str, u64>,
    alerts: BTreeMap<&'static str, u64>,
    /// By target, outcome and, where that is none, why.
    deliveries: BTreeMap<(String, &'static str, String), u64>,
    latencies: BTreeMap<String, Histogram>,
    suppressed: u64,
    problems: u64,
}

/// Why a send came to nothing, as a label: `http_503`, `code_130101` (of a chat robot), `smtp_450`, `no_connection`,
/// `no_answer`, `other`. Taken from the reason that people read, which begins alike for every target.
fn reason_label(reason: &str) -> String {
    let number_behind = |mark: &str| {
        let rest = reason.split_once(mark)?.1;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').len();
        (digits > 0).then(|| rest[..digits].to_owned())
    };
    if let Some(code) = number_behind(" with code ") {
        return format!("code_{code}");
    }
    if let Some(status) = reason.strip_prefix("answered ").and_then(|_| number_behind("answered ")) {
        return format!("http_{status}");
    }
    if let Some(code) = number_behind(" error (") {
        return format!("smtp_{code}");
    }
    let beginnings = [("no connection", "no_connection"), ("no answer", "no_answer")];
    let known = beginnings.iter().find(|(beginning, _)| reason.starts_with(beginning));
    known.map_or("other", |(_, label)| label).to_owned()
}

/// What is so at the moment of a write.
#[derive(Debug)]
pub struct Gauges {
    outbox_oldest_age_ms: u64,
    seats_without_leader: u64,
    hooks_installed: u64,
}

impl Gauges {
    /// As the status says.
    pub fn of(status: &Status, now: Timestamp) -> Gauges {
        let age_ms = |at: Timestamp| u64::try_from(now.as_millisecond() - at.as_millisecond()).unwrap_or(0);
        Gauges {
            outbox_oldest_age_ms: status.outbox_oldest_at.map_or(0, age_ms),
            seats_without_leader: status.seats.iter().filter(|seat| seat.leader_id.is_none()).count() as u64,
            hooks_installed: status.hooks.values().filter(|state| *state == "installed").count() as u64,
        }
    }
}

/// How many took no longer than each bound.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; LATENCY_BOUNDS_MS.len()],
    count: u64,
    sum_ms: u64,
}

impl Histogram {
    fn take(&mut self, ms: u64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(LATENCY_BOUNDS_MS) {
            *bucket += u64::from(ms <= bound);
        }
        self.count += 1;
        self.sum_ms += ms;
    }
}

impl Metrics {
    /// Takes a record in.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::LeaderMoved { seat, leaderless_ms, .. } => {
                *self.moves.entry(seat.component.name()).or_default() += 1;
                *self.leaderless_ms.entry(seat.component.name()).or_default() += leaderless_ms.unwrap_or(0);
            }
            Event::LeaderReturned { seat, leaderless_ms, .. } => {
                *self.leaderless_ms.entry(seat.component.name()).or_default() += leaderless_ms.unwrap_or(0);
            }
            Event::AlertRaised { alert, .. } => *self.alerts.entry(alert.class.name()).or_default() += 1,
            Event::AlertSuppressed { .. } => self.suppressed += 1,
            Event::AlertDelivered { target, latency_ms, .. } => {
                self.count_delivery(target, "delivered", String::new());
                self.latencies.entry(target.clone()).or_default().take(*latency_ms);
            }
            Event::AlertRetrying { target, reason, .. } => self.count_delivery(target, "retried", reason_label(reason)),
            Event::AlertFailed { target, reason, .. } => self.count_delivery(target, "failed", reason_label(reason)),
            Event::AgentProblem { .. } => self.problems += 1,
            _ => {}
        }
    }

    fn count_delivery(&mut self, target: &str, outcome: &'static str, reason: String) {
        // A receiver may answer any code: beyond a bound they are one.
        let is_new = !self.deliveries.contains_key(&(target.to_owned(), outcome, reason.clone()));
        let known = self.deliveries.keys().filter(|(of, ..)| of == target).count();
        let reason = if is_new && known >= MOST_REASONS { "other".to_owned() } else { reason };
        *self.deliveries.entry((target.to_owned(), outcome, reason)).or_default() += 1;
    }

    /// All of it, as the collector reads it.
    pub fn text(&self, status: &Status, gauges: &Gauges) -> String {
        let mut page = Page::new(&status.cluster, status.pid);
        let role = format!("{:?}", status.role).to_lowercase();
        let flink_version = status.flink_version.as_deref().unwrap_or("unknown");
        page.family("leaderwatch_info", "gauge", "Version and role of the agent.");
        page.sample("", &[("version", &status.version), ("role", &role), ("flink_version", flink_version)], "1");
        page.one("leaderwatch_start_time_seconds", "gauge", "When the agent started, in seconds since 1970.", &{
            seconds(u64::try_from(status.started_at.as_millisecond()).unwrap_or(0))
        });
        self.leadership(&mut page);
        self.alerts(&mut page);
        self.latency(&mut page);
        let plain = [
            ("leaderwatch_outbox_alerts", "gauge", "Alerts that wait to be delivered.", status.outbox_pending),
            ("leaderwatch_seats_without_leader", "gauge", "Seats that have no leader.", gauges.seats_without_leader),
            ("leaderwatch_hooks_installed", "gauge", "Hooks that are installed.", gauges.hooks_installed),
            (
                "leaderwatch_dropped_observations_total",
                "counter",
                "Observations that could not be followed one by one.",
                status.dropped_observations,
            ),
            (
                "leaderwatch_lost_records_total",
                "counter",
                "Records that could not be written to the alert log.",
                status.lost_records,
            ),
        ];
        for (name, kind, help, value) in plain {
            page.one(name, kind, help, &value.to_string());
        }
        let age = seconds(gauges.outbox_oldest_age_ms);
        page.one("leaderwatch_outbox_oldest_age_seconds", "gauge", "Age of the oldest alert that waits; else 0.", &age);
        page.text
    }

    fn leadership(&self, page: &mut Page) {
        page.family("leaderwatch_leader_moves_total", "counter", "Seats whose leader became another one.");
        for (component, count) in &self.moves {
            page.sample("", &[("component", component)], &count.to_string());
        }
        page.family(
            "leaderwatch_leaderless_seconds_total",
            "counter",
            "Time without a leader, as announced, of all seats.",
        );
        for (component, ms) in &self.leaderless_ms {
            page.sample("", &[("component", component)], &seconds(*ms));
        }
    }

    fn alerts(&self, page: &mut Page) {
        page.family("leaderwatch_alerts_total", "counter", "Alerts that were raised.");
        for (class, count) in &self.alerts {
            page.sample("", &[("class", class)], &count.to_string());
        }
        let suppressed = self.suppressed.to_string();
        page.one("leaderwatch_suppressed_alerts_total", "counter", "Alerts that were not told.", &suppressed);
        page.one("leaderwatch_problems_total", "counter", "What was not as it should be.", &self.problems.to_string());
        page.family(
            "leaderwatch_deliveries_total",
            "counter",
            "Sends by outcome (delivered, retried, failed: given up) and why.",
        );
        for ((target, outcome, reason), count) in &self.deliveries {
            page.sample("", &[("target", target), ("outcome", outcome), ("reason", reason)], &count.to_string());
        }
    }

    fn latency(&self, page: &mut Page) {
        let help = "From the moment an alert was due to the receiver's answer.";
        page.family("leaderwatch_delivery_latency_seconds", "histogram", help);
        for (target, histogram) in &self.latencies {
            for (bound, count) in LATENCY_BOUNDS_MS.iter().zip(histogram.buckets) {
                page.sample("_bucket", &[("target", target), ("le", &seconds(*bound))], &count.to_string());
            }
            page.sample("_bucket", &[("target", target), ("le", "+Inf")], &histogram.count.to_string());
            page.sample("_sum", &[("target", target)], &seconds(histogram.sum_ms));
            page.sample("_count", &[("target", target)], &histogram.count.to_string());
        }
    }
}

/// The text under way: every sample carries cluster and process.
struct Page {
    text: String,
    name: &'static str,
    own: String,
}

impl Page {
    fn new(cluster: &str, pid: u32) -> Page {
        Page { text: String::new(), name: "", own: format!("cluster=\"{}\",pid=\"{pid}\"", escaped(cluster)) }
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a text does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn one(&mut self, name: &'static str, kind: &str, help: &str, value: &str) {
        self.family(name, kind, help);
        self.sample("", &[], value);
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        let labels: String = labels.iter().map(|(name, text)| format!(",{name}=\"{}\"", escaped(text))).collect();
        // As above.
        let _ = writeln!(self.text, "{}{suffix}{{{}{labels}}} {value}", self.name, self.own);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The file, owned by this process as long as it lives.
#[derive(Debug)]
pub struct MetricsFile {
    wanted: PathBuf,
    owned: Option<(PathBuf, File)>,
}

impl MetricsFile {
    /// Nothing is touched until the first write.
    pub fn new(wanted: PathBuf) -> MetricsFile {
        MetricsFile { wanted, owned: None }
    }

    /// Where it is written to.
    pub fn path(&self) -> &Path {
        self.owned.as_ref().map_or(&self.wanted, |(path, _)| path)
    }

    /// Replaces the content in one step.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        if self.owned.is_none() {
            self.owned = Some(take_place(&self.wanted)?);
        }
        let new = self.path().with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, self.path())
    }

    /// Removes the file, so that a dead process leaves no figures behind.
    pub fn remove(self) {
        if let Some((path, _lock)) = self.owned {
            // Nobody is left to be told.
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(lock_path(&path));
        }
    }
}

/// With which every file of figures begins.
const OWN_BEGINNING: &[u8] = b"# HELP leaderwatch_";

/// The first name that no other process holds, and the lock that holds it.
fn take_place(wanted: &Path) -> io::Result<(PathBuf, File)> {
    for place in 1..=PLACES {
        let path = numbered(wanted, place);
        may_be_replaced(&path)?;
        let lock = File::options().create(true).truncate(false).write(true).open(lock_path(&path))?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {}
            // A file system without locks: then the path must be given to one process only.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok((path, lock)),
        }
    }
    Err(io::Error::other(format!("{PLACES} processes write there already")))
}

/// What is there already must be figures of ours: a device, a link or somebody's file is left as it is.
fn may_be_replaced(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) => metadata.file_type(),
    };
    let foreign = || io::Error::other("something that is not the agent's is there; name a file of its own");
    if !kind.is_file() {
        return Err(foreign());
    }
    let mut beginning = Vec::new();
    File::open(path)?.take(OWN_BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    if beginning.is_empty() || beginning == OWN_BEGINNING { Ok(()) } else { Err(foreign()) }
}

fn numbered(wanted: &Path, place: u32) -> PathBuf {
    if place == 1 {
        return wanted.to_owned();
    }
    let ending = wanted.extension().unwrap_or_default().to_string_lossy();
    wanted.with_extension(format!("{place}.{ending}"))
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::event::SeatFields;
    use crate::leadership::{Component, SessionId};
    use crate::process::Role;
    use crate::status::SeatStatus;

    fn status() -> Status {
        Status {
            schema: 1,
            written_at: Timestamp::from_second(100).unwrap(),
            started_at: Timestamp::from_second(50).unwrap(),
            version: "0.1.0".into(),
            role: Role::TaskManager,
            cluster: "a\"b\\c\nd".into(),
            host: "tm-1".into(),
            pid: 7,
            flink_version: None,
            log: None,
            hooks: [("A".to_owned(), "installed".to_owned())].into(),
            seats: vec![SeatStatus {
                component: Component::ResourceManager,
                job_id: None,
                leader_id: None,
                address: None,
                since: Timestamp::UNIX_EPOCH,
            }],
            outbox_pending: 2,
            outbox_oldest_at: Timestamp::from_second(97).ok(),
            targets: Vec::new(),
            problems: Vec::new(),
            open_alerts: Vec::new(),
            dropped_observations: 3,
            lost_records: 4,
        }
    }

    fn metrics() -> Metrics {
        let mut metrics = Metrics::default();
        let seat = SeatFields { component: Component::ResourceManager, job_id: None };
        metrics.take(&Event::LeaderMoved {
            seat,
            leader_id: SessionId(2),
            address: None,
            old_leader_id: SessionId(1),
            old_address: None,
            leaderless_ms: Some(412),
        });
        let alert = crate::alert::drill::alert(crate::alert::Class::NoLeader, "orders");
        metrics.take(&Event::raised(&alert));
        for latency_ms in [90, 250, 400_000] {
            let (alert_id, target) = ("a".to_owned(), "chat".to_owned());
            metrics.take(&Event::AlertDelivered { alert_id, target, attempts: 1, latency_ms, receipt: None });
        }
        let reason = "mail:587 refuses the login: permanent error (535): no".to_owned();
        let (alert_id, target) = ("a".to_owned(), "mail".to_owned());
        metrics.take(&Event::AlertFailed { alert_id, target, attempts: 1, reason });
        metrics
    }

    /// A strict reader of the format: `# HELP`, `# TYPE`, then the family's samples; no series twice.
    fn parse(text: &str) -> HashMap<String, f64> {
        assert!(text.ends_with('\n'));
        let (mut samples, mut families) = (HashMap::new(), BTreeSet::new());
        let (mut family, mut kind) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap().to_owned();
                assert!(families.insert(family.clone()), "{family} twice");
            } else if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, of) = declared.split_once(' ').unwrap();
                assert_eq!(name, family);
                assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
                assert_eq!(of == "counter", name.ends_with("_total"), "{line}");
                kind = of.to_owned();
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap();
                let suffix = name.strip_prefix(family.as_str()).unwrap();
                assert!(suffix.is_empty() || (kind == "histogram" && ["_bucket", "_sum", "_count"].contains(&suffix)));
                assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
                check_labels(labels.strip_suffix('}').unwrap());
                assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{series} twice");
            }
        }
        samples
    }

    fn check_labels(mut rest: &str) {
        let mut names = BTreeSet::new();
        while !rest.is_empty() {
            let (name, value) = rest.split_once("=\"").unwrap();
            assert!(
                names.insert(name.to_owned()) && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                "{name}"
            );
            let mut characters = value.char_indices();
            let end = loop {
                match characters.next().unwrap() {
                    (_, '\\') => assert!(matches!(characters.next().unwrap().1, '\\' | '"' | 'n')),
                    (end, '"') => break end,
                    (_, character) => assert_ne!(character, '\n'),
                }
            };
            rest = &value[end + 1..];
            rest = if rest.is_empty() { rest } else { rest.strip_prefix(',').unwrap() };
        }
    }

    #[test]
    fn reasons_are_told_apart_up_to_a_bound() {
        for (reason, label) in [
            ("answered 503: busy", "http_503"),
            ("answered 200 with code 130101: send too fast", "code_130101"),
            ("mail.example.org:587 refuses user and password: permanent error (535): no", "smtp_535"),
            ("no connection to ops.example.org: refused", "no_connection"),
            ("no answer from ops.example.org within 10000 ms", "no_answer"),
            ("answered with a page", "other"),
            ("", "other"),
        ] {
            assert_eq!(reason_label(reason), label, "{reason}");
        }
        let mut metrics = Metrics::default();
        for code in 0..1000 {
            metrics.count_delivery("robot", "retried", reason_label(&format!("answered 200 with code {code}: no")));
        }
        assert!(metrics.deliveries.len() <= MOST_REASONS + 1);
        assert_eq!(metrics.deliveries.values().sum::<u64>(), 1000);
    }

    #[test]
    fn a_strict_reader_finds_every_figure() {
        let status = status();
        let text = metrics().text(&status, &Gauges::of(&status, status.written_at));
        let samples = parse(&text);
        let own = "cluster=\"a\\\"b\\\\c\\nd\",pid=\"7\"";
        let value = |name: &str, labels: &str| {
            let series = format!("{name}{{{own}{labels}}}");
            *samples.get(&series).unwrap_or_else(|| panic!("{series} in {text}"))
        };
        assert_eq!(value("leaderwatch_leader_moves_total", ",component=\"resourcemanager\""), 1.0);
        assert_eq!(value("leaderwatch_leaderless_seconds_total", ",component=\"resourcemanager\""), 0.412);
        assert_eq!(value("leaderwatch_alerts_total", ",class=\"no_leader\""), 1.0);
        assert_eq!(value("leaderwatch_deliveries_total", ",target=\"chat\",outcome=\"delivered\",reason=\"\""), 3.0);
        assert_eq!(
            value("leaderwatch_deliveries_total", ",target=\"mail\",outcome=\"failed\",reason=\"smtp_535\""),
            1.0
        );
        let bucket =
            |le: &str| value("leaderwatch_delivery_latency_seconds_bucket", &format!(",target=\"chat\",le=\"{le}\""));
        assert_eq!(["0.1", "0.25", "300", "+Inf"].map(bucket), [1.0, 2.0, 2.0, 3.0]);
        assert_eq!(value("leaderwatch_delivery_latency_seconds_sum", ",target=\"chat\""), 400.34);
        assert_eq!(value("leaderwatch_outbox_alerts", ""), 2.0);
        assert_eq!(value("leaderwatch_outbox_oldest_age_seconds", ""), 3.0);
        assert_eq!(value("leaderwatch_seats_without_leader", ""), 1.0);
        assert_eq!(value("leaderwatch_dropped_observations_total", ""), 3.0);
        assert_eq!(value("leaderwatch_lost_records_total", ""), 4.0);
    }

    /// Holds a fault: with `metrics_file = "/dev/null"` the device was replaced by a file and then removed.
    #[test]
    fn what_is_not_the_agents_is_neither_replaced_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (foreign, link) = (folder.path().join("foreign.prom"), folder.path().join("link.prom"));
        fs::write(&foreign, "root:x:0").unwrap();
        std::os::unix::fs::symlink("foreign.prom", &link).unwrap();
        for path in [&foreign, &link, &PathBuf::from("/dev/full"), &folder.path().to_owned()] {
            let mut file = MetricsFile::new(path.clone());
            let refused = file.write("# HELP leaderwatch_up up\n").unwrap_err();
            assert!(refused.to_string().contains("not the agent's"), "{}: {refused}", path.display());
            file.remove();
            assert!(path.exists(), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "root:x:0");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else was made");
    }

    #[test]
    fn processes_with_the_same_path_do_not_write_into_each_others_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaderwatch.prom");
        let (mut first, mut second) = (MetricsFile::new(path.clone()), MetricsFile::new(path.clone()));
        let text = |number: u32| format!("# HELP leaderwatch_up {number}\n");
        first.write(&text(1)).unwrap();
        second.write(&text(2)).unwrap();
        first.write(&text(3)).unwrap();
        assert_eq!(second.path(), folder.path().join("leaderwatch.2.prom"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text(3));
        assert_eq!(fs::read_to_string(second.path()).unwrap(), text(2));
        first.remove();
        assert!(!path.exists());
    }

    #[test]
    fn times_are_seconds_without_needless_digits() {
        assert_eq!([0, 100, 412, 1000, 30_000].map(seconds), ["0", "0.1", "0.412", "1", "30"]);
    }
}
