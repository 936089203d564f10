//! `leaderwatch report`: what happened, as one page or as JSON.

mod model;
mod page;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use leaderwatch_agent::journal::alike::Alike;
use leaderwatch_agent::journal::merge::Merge;
use leaderwatch_agent::journal::reader::{Entry, Head, Stamp};
use leaderwatch_agent::journal::sources::{self, Inode, Source};

use self::model::Gather;
use self::page::Events;
use super::progress::Progress;
use super::replace::replace;
use super::{Verdict, complain, when};

/// Makes one self-contained HTML page, or JSON, of what the alert logs tell: who led when, failovers, times without
/// leader, deliveries, and what is unresolved.
#[derive(Args)]
pub struct ReportArgs {
    /// Alert logs, gzipped or not, and folders that hold some; `-` is standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The page; `-` is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "json")]
    output: Option<PathBuf>,
    /// Print the figures as JSON instead, or into the file of `-o`
    #[arg(long)]
    json: bool,
    /// Only what came since: `2h`, `30d`, `2026-11-30 10:30`, `2026-11-30T10:30:00Z`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Zone of the days and times, such as `UTC` or `Asia/Shanghai`; else that of this machine
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// How many of the latest records the page lists; figures and timeline are of all
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, allow_negative_numbers = true)]
    max_events: usize,
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> ExitCode {
    make(args).unwrap_or_else(|verdict| verdict).into()
}

fn make(args: &ReportArgs) -> Result<Verdict, Verdict> {
    let misuse = |message: String| complain(Verdict::Misuse, message);
    let zone = when::zone(args.time_zone.as_deref()).map_err(misuse)?;
    let now = Timestamp::now();
    let since = args.since.as_ref().map(|text| when::since(text, now, &zone)).transpose().map_err(misuse)?;
    let since = since.map_or(Stamp::EARLIEST, Stamp::of);
    let found = sources::find(&args.paths).map_err(|unreadable| misuse(unreadable.to_string()))?;
    let mut verdict = Verdict::Done;
    for unreadable in &found.unreadable {
        verdict = complain(Verdict::Wrong, unreadable);
    }
    let found = found.sources;
    if found.is_empty() && verdict == Verdict::Done {
        let names = args.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        return Err(misuse(format!("{names}: no alert log (*.jsonl) in there")));
    }

    if let Some(log) = overwritten(args, &found) {
        return Err(misuse(format!("{}: is a log to report on; name another file with -o", log.name())));
    }
    let mut progress = Progress::of(&found, false);
    let mut merge = Merge::new(found, false);
    let mut gather = Gather::new(zone.clone());
    let mut events = Events::new(if args.json { 0 } else { args.max_events });
    let mut alike = Alike::default();
    let (mut seen_alike, mut has_begun) = (0, false);
    while let Some((stamp, line)) = merge.next_line() {
        progress.add(line);
        let is_before = stamp < since;
        if !is_before && !has_begun {
            has_begun = true;
            gather.begin(since.timestamp().filter(|_| since != Stamp::EARLIEST));
        }
        let Some(head) = Head::of(line) else {
            merge.count_foreign();
            continue;
        };
        if alike.told_before(&head) {
            seen_alike += u64::from(!is_before);
            continue;
        }
        let Some(entry) = Entry::with_head(&head, line) else {
            merge.count_foreign();
            continue;
        };
        gather.add(stamp, &entry);
        if !is_before {
            events.add(stamp, &head, &entry);
        }
    }

    progress.end();
    for (source, error) in merge.failed() {
        verdict = complain(Verdict::Wrong, format_args!("{}: {error}", source.name()));
    }
    let report = gather.into_report(seen_alike, merge.skipped()).filter(|_| has_begun);
    let Some(report) = report else {
        return Err(complain(Verdict::Wrong, "there is no record to report on"));
    };
    let text = if args.json {
        let json = serde_json::to_string_pretty(&report);
        json.map(|json| json + "\n").map_err(|error| complain(Verdict::Wrong, error))?
    } else {
        page::render(&report, &events, &zone, now).map_err(|error| complain(Verdict::Wrong, error))?
    };
    write_out(args, &text)?;
    Ok(verdict)
}

/// A log that the page would take the place of.
fn overwritten<'a>(args: &ReportArgs, found: &'a [Source]) -> Option<&'a Source> {
    let output = Inode::of_file(args.output.as_deref()?)?;
    found.iter().find(|source| matches!(source, Source::File(path) if Inode::of_file(path) == Some(output)))
}

fn write_out(args: &ReportArgs, text: &str) -> Result<(), Verdict> {
    let file = args.output.as_ref().filter(|path| path.as_os_str() != "-");
    let result = match file {
        Some(path) => replace(path, text.as_bytes(), None),
        None => io::stdout().lock().write_all(text.as_bytes()),
    };
    result.map_err(|error| match (file, error.kind()) {
        (None, io::ErrorKind::BrokenPipe) => Verdict::Done,
        (None, _) => complain(Verdict::Misuse, format_args!("standard output: {error}")),
        (Some(path), _) => complain(Verdict::Misuse, format_args!("{}: {error}", path.display())),
    })
}
