//! `leaderwatch log`: one story from many alert logs.

mod filter;
mod follow;
mod table;
pub mod undelivered;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use leaderwatch_agent::event::Event;
use leaderwatch_agent::journal::alike::Alike;
use leaderwatch_agent::journal::merge::Merge;
use leaderwatch_agent::journal::reader::{Entry, Head, Skipped, Stamp};
use leaderwatch_agent::journal::sources::{self, Source};

use self::filter::{Filter, Job};
use self::follow::Follow;
use self::table::{Style, Table};
use self::undelivered::Undelivered;
use super::people::{count, printable};
use super::progress::Progress;
use super::{Verdict, complain, when};

/// How often `--follow` looks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

const OUTPUT_BYTES: usize = 256 * 1024;

/// Events that tell what is not delivered.
const UNDELIVERED_BY: [&str; 3] = ["alert.", "agent.started", "agent.stopped"];

/// Shows one or many alert logs as one, by time, without what several TaskManagers saw alike.
#[derive(Args)]
pub struct LogArgs {
    /// Alert logs, gzipped or not, and folders that hold some; `-` is standard input, and so is nothing
    paths: Vec<PathBuf>,
    /// Print each record as it stands in the log, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Go on with what is written from now on, also when a log is closed and a new one begun
    #[arg(short, long)]
    follow: bool,
    /// Only what came since: `2h`, `1d`, `10:30`, `2026-11-30 10:30`, `2026-11-30T10:30:00Z`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only this job, its alerts and their deliveries: its id or the first digits of it
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only this component
    #[arg(long, value_parser = ["jobmanager", "resourcemanager", "dispatcher", "rest_server"])]
    component: Option<String>,
    /// Only these events: `leader.moved`, or `alert.` for all that begin so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    event: Vec<String>,
    /// Only alerts that some target does not have, with the last word on each; exit status 1 if there are any
    #[arg(long, conflicts_with_all = ["follow", "event", "component"])]
    undelivered: bool,
    /// Also what other processes saw alike
    #[arg(long)]
    all: bool,
    /// Zone of the times, such as `UTC` or `Asia/Shanghai`; else that of this machine
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Characters in a line; else as wide as the terminal, and without limit where there is none
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
}

/// Runs the command.
pub fn run(args: &LogArgs) -> ExitCode {
    let session = match Session::new(args) {
        Ok(session) => session,
        Err(message) => return complain(Verdict::Misuse, message).into(),
    };
    match session.run(args) {
        Ok(verdict) => verdict.into(),
        // The reader has seen enough: `leaderwatch log ... | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done.into(),
        Err(error) => complain(Verdict::Misuse, format_args!("standard output: {error}")).into(),
    }
}

/// Why there is nothing to see: that nothing happened, and that something else was asked for, look alike.
fn nothing_matches(args: &LogArgs, read: u64) -> String {
    if read == 0 {
        return "no record was read".to_owned();
    }
    let asked_for = if args.undelivered { "no alert" } else { "nothing" };
    let mut text = format!("{asked_for} of {} is what was asked for", count(read, "record"));
    if let Some(unknown) = args.event.iter().find(|name| !is_known_event(name)) {
        text += &format!("; this version knows no event `{unknown}`, but: {}", Event::NAMES.join(", "));
    }
    text
}

/// A later version may write events that this one does not know, so that a name that is not known is no error.
fn is_known_event(wanted: &str) -> bool {
    let beginning = wanted.strip_suffix('*').unwrap_or(wanted);
    let is_whole = beginning.len() == wanted.len() && !wanted.ends_with('.');
    Event::NAMES.iter().any(|name| if is_whole { *name == wanted } else { name.starts_with(beginning) })
}

/// Nobody adds to a gzipped log.
fn is_closed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz") && path.is_file()
}

/// Where wanted records go.
enum Sink {
    Json,
    Table(Table),
    Undelivered(Undelivered),
}

struct Session {
    paths: Vec<PathBuf>,
    filter: Filter,
    since: Option<Stamp>,
    alike: Option<Alike>,
    sink: Sink,
    style: Style,
    out: BufWriter<io::StdoutLock<'static>>,
    left_out: u64,
    /// Lines that could be records.
    read: u64,
    /// Records that were wanted.
    shown: u64,
}

impl Session {
    fn new(args: &LogArgs) -> Result<Session, String> {
        let zone = when::zone(args.time_zone.as_deref())?;
        let since = args.since.as_ref().map(|text| when::since(text, Timestamp::now(), &zone)).transpose()?;
        let since = since.map(Stamp::of);
        let filter = Filter {
            // What was raised before may have been delivered since.
            since: since.filter(|_| !args.undelivered),
            events: if args.undelivered { UNDELIVERED_BY.map(str::to_owned).to_vec() } else { args.event.clone() },
            component: args.component.clone(),
            job: args.job.as_deref().map(Job::new).transpose()?,
        };
        if args.paths.is_empty() && io::stdin().is_terminal() {
            return Err("no log given: name alert logs or folders, or `-` for standard input".to_owned());
        }
        if args.follow
            && let Some(closed) = args.paths.iter().find(|path| is_closed(path))
        {
            return Err(format!(
                "{}: is gzipped, so nothing will be added to it; leave out --follow",
                closed.display()
            ));
        }
        let paths = if args.paths.is_empty() { vec![PathBuf::from("-")] } else { args.paths.clone() };
        let (is_terminal, variable) = (io::stdout().is_terminal(), |name: &str| std::env::var(name).ok());
        let terminal_columns = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
        let width = args.width.or_else(|| width(is_terminal, variable, terminal_columns));
        let style = || Style { colour: wants_colour(is_terminal, variable), width, zone: zone.clone() };
        let sink = match (args.undelivered, args.json) {
            (true, _) => Sink::Undelivered(Undelivered::default()),
            (false, true) => Sink::Json,
            (false, false) => Sink::Table(Table::new(style())),
        };
        let out = BufWriter::with_capacity(OUTPUT_BYTES, io::stdout().lock());
        let alike = (!args.all && !args.undelivered).then(Alike::default);
        Ok(Session { paths, filter, since, alike, sink, style: style(), out, left_out: 0, read: 0, shown: 0 })
    }

    fn run(mut self, args: &LogArgs) -> io::Result<Verdict> {
        let found = match sources::find(&self.paths) {
            Ok(found) => found,
            Err(unreadable) => return Ok(complain(Verdict::Misuse, unreadable)),
        };
        let mut verdict = Verdict::Done;
        for unreadable in &found.unreadable {
            verdict = complain(Verdict::Wrong, unreadable);
        }
        let found = found.sources;
        if found.is_empty() && !args.follow && verdict == Verdict::Done {
            let names = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
            return Ok(complain(Verdict::Misuse, format_args!("{names}: no alert log (*.jsonl) in there")));
        }
        let mut progress = Progress::of(&found, !args.undelivered);
        // Somebody waits for the next line of a pipe.
        let is_live = args.follow && found.contains(&Source::StandardInput);
        let mut merge = Merge::new(found, args.follow);
        while let Some((stamp, line)) = merge.next_line() {
            progress.add(line);
            if !self.take(stamp, line)? {
                merge.count_foreign();
            }
            if is_live {
                self.flush()?;
            }
        }
        progress.end();
        // What ends with its pipe has nothing more to come.
        if args.follow && self.paths.iter().any(|path| path.as_os_str() != "-") {
            self.flush()?;
            return self.follow(merge);
        }
        for (source, error) in merge.failed() {
            verdict = complain(Verdict::Wrong, format_args!("{}: {error}", source.name()));
        }
        self.finish(args, merge.skipped(), merge.copies(), verdict)
    }

    /// Takes in a line; false where it is no record.
    fn take(&mut self, stamp: Stamp, line: &[u8]) -> io::Result<bool> {
        if self.filter.surely_unwanted(stamp, line) {
            self.read += 1;
            return Ok(true);
        }
        let Some(head) = Head::of(line) else { return Ok(false) };
        self.read += 1;
        if !self.filter.wants(stamp, &head, line) {
            return Ok(true);
        }
        if self.alike.as_mut().is_some_and(|alike| alike.told_before(&head)) {
            self.left_out += 1;
            return Ok(true);
        }
        self.shown += 1;
        match &mut self.sink {
            Sink::Json => {
                self.out.write_all(line)?;
                self.out.write_all(b"\n")?;
            }
            Sink::Table(table) => {
                let Some(entry) = Entry::with_head(&head, line) else { return Ok(false) };
                table.add(&mut self.out, stamp, &head, &entry)?;
            }
            Sink::Undelivered(undelivered) => {
                let Some(entry) = Entry::with_head(&head, line) else { return Ok(false) };
                let tells_of_alert = match entry {
                    Entry::Known(record) => undelivered.add(stamp, &record),
                    Entry::Unknown(_) => true,
                };
                self.shown -= u64::from(!tells_of_alert);
            }
        }
        Ok(true)
    }

    fn follow(mut self, merge: Merge) -> io::Result<Verdict> {
        let mut follow = Follow::after(merge, self.paths.clone());
        loop {
            for (stamp, line) in follow.more() {
                if !self.take(stamp, &line)? {
                    follow.skipped.foreign += 1;
                }
            }
            self.flush()?;
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Sink::Table(table) = &mut self.sink {
            table.write_out(&mut self.out)?;
        }
        self.out.flush()
    }

    fn finish(mut self, args: &LogArgs, skipped: Skipped, copies: u64, verdict: Verdict) -> io::Result<Verdict> {
        self.flush()?;
        let mut verdict = verdict;
        if let Sink::Undelivered(undelivered) = std::mem::replace(&mut self.sink, Sink::Json) {
            verdict = verdict.max(self.tell_undelivered(args, undelivered)?);
        }
        if self.shown == 0 && !args.json {
            eprintln!("{}", nothing_matches(args, self.read));
        }
        if self.read == 0 {
            verdict = verdict.max(Verdict::Wrong);
        }
        if !args.json && self.left_out > 0 {
            eprintln!("{} that other processes saw alike left out (--all shows them)", count(self.left_out, "record"));
        }
        if !args.json && copies > 0 {
            eprintln!("{} left out that another of the files holds, too", count(copies, "line"));
        }
        if skipped.total() > 0 {
            eprintln!(
                "{} skipped: {} torn, {} foreign, {} too long",
                count(skipped.total(), "line"),
                skipped.torn,
                skipped.foreign,
                skipped.too_long
            );
        }
        Ok(verdict)
    }
}

impl Session {
    /// Tells which alerts some target does not have.
    fn tell_undelivered(&mut self, args: &LogArgs, undelivered: Undelivered) -> io::Result<Verdict> {
        let stopped: Vec<_> = undelivered.stopped().cloned().collect();
        let mut alerts = undelivered.into_alerts();
        alerts.retain(|alert| self.since.is_none_or(|since| alert.last_at() >= Some(since.as_str())));
        for alert in &alerts {
            if args.json {
                serde_json::to_writer(&mut self.out, alert)?;
                self.out.write_all(b"\n")?;
                continue;
            }
            let line = format!("{}  {}", self.shown_at(alert.raised_at.as_deref()), alert.in_words());
            table::write_wrapped(&mut self.out, &printable(&line), self.style.width)?;
        }
        self.out.flush()?;
        // Where alerts are named, these are the ones that the agents left.
        let are_unnamed = alerts.is_empty() && !stopped.is_empty();
        for stopped in stopped.iter().filter(|_| are_unnamed) {
            let pending = count(stopped.pending, "alert");
            eprintln!(
                "{}",
                printable(&format!(
                    "{}: the agent of {} on {} (process {}) ended with {pending} in its outbox, raised before this log \
                     begins; none has begun there since to send what waits",
                    self.shown_at(Some(&stopped.at)),
                    stopped.cluster,
                    stopped.host,
                    stopped.pid,
                ))
            );
        }
        if !alerts.is_empty() || are_unnamed {
            return Ok(Verdict::Wrong);
        }
        if !args.json && self.shown > 0 {
            eprintln!("every alert that the log tells of was delivered to each target that it goes to");
        }
        Ok(Verdict::Done)
    }

    fn shown_at(&self, stamp: Option<&str>) -> String {
        let at = stamp.and_then(|at| at.parse().ok());
        at.map_or("-".to_owned(), |at| when::shown(at, &self.style.zone))
    }
}

/// Colour on a terminal, unless `NO_COLOR` is set (<https://no-color.org>) or the terminal is a dumb one.
fn wants_colour(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    is_terminal && !is_set("NO_COLOR") && variable("TERM").is_none_or(|term| term != "dumb")
}

/// As wide as `COLUMNS` says, else as the terminal is; without limit where there is none.
fn width(is_terminal: bool, variable: impl Fn(&str) -> Option<String>, of_terminal: Option<u16>) -> Option<usize> {
    let of_terminal = || of_terminal.filter(|columns| *columns > 0).map(usize::from);
    is_terminal.then(|| variable("COLUMNS").and_then(|columns| columns.parse().ok()).or_else(of_terminal))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn colour_is_for_terminals_whose_users_want_it() {
        assert!(wants_colour(true, variables(&[("TERM", "xterm")])));
        assert!(wants_colour(true, variables(&[("NO_COLOR", "")])), "an empty one is none");
        assert!(!wants_colour(true, variables(&[("NO_COLOR", "1")])));
        assert!(!wants_colour(true, variables(&[("TERM", "dumb")])));
        assert!(!wants_colour(false, variables(&[])));
    }

    #[test]
    fn a_line_is_as_wide_as_the_terminal() {
        assert_eq!(width(true, variables(&[]), Some(100)), Some(100));
        assert_eq!(width(true, variables(&[("COLUMNS", "90")]), Some(100)), Some(90));
        assert_eq!(width(true, variables(&[("COLUMNS", "wide")]), Some(100)), Some(100));
        assert_eq!(width(true, variables(&[]), Some(0)), None, "a serial line does not know");
        assert_eq!(width(false, variables(&[("COLUMNS", "90")]), Some(100)), None);
    }
}
