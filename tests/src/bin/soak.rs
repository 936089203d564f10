//! The soak. See `scripts/soak`.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use leaderwatch_tests::bench::jvm::Ground;
use leaderwatch_tests::bench::soak::{ALERT_LOG, JOBS, Sample, growths, measure};
use leaderwatch_tests::command_line;
use leaderwatch_tests::webhook::WebhookReceiver;

const USAGE: &str = "\
Usage: scripts/soak [--minutes N]

One leader moves each second in one JVM, for N minutes (60, at least 50): memory, threads, descriptors and disk must not grow.
";

/// Each of the jobs takes its first turn in ten minutes.
const LEAST_MINUTES: u64 = 50;
/// Samples of a run.
const SAMPLES: u64 = 60;
/// Moves and alerts that may still be under way at the end.
const UNDER_WAY: u64 = 10;

fn main() -> ExitCode {
    command_line::run("scripts/soak", USAGE, parse(std::env::args().skip(1)), |minutes| run(*minutes))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<u64>> {
    let mut minutes = 60;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--minutes" => {
                let value = arguments.next().context("--minutes needs a number")?;
                minutes = value.parse().with_context(|| format!("--minutes wants a number, not `{value}`"))?;
            }
            "--help" | "-h" => return Ok(None),
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    if minutes < LEAST_MINUTES {
        bail!(
            "--minutes wants {LEAST_MINUTES} or more: each job is led once, and the memory of leaders is full, only then"
        );
    }
    Ok(Some(minutes))
}

fn run(minutes: u64) -> Result<bool> {
    let (ground, webhook) = (Ground::new()?, WebhookReceiver::start()?);
    let (url, seconds) = (webhook.url(), 60 * minutes);
    // So many moves are flapping; here they are to be told. Those of half a minute are one election.
    let config = ground.path("soak.toml");
    fs::write(&config, "[alert]\nclasses = [\"failover\"]\ngroup_interval = \"30s\"\n")?;
    let config = config.display().to_string();
    let options = [("config", config.as_str()), ("webhook", url.as_str()), ("group_wait", "0s")];
    let every = Duration::from_secs((seconds / SAMPLES).max(1));
    println!(
        "{:>7} {:>11} {:>10} {:>8} {:>12} {:>7} {:>9} {:>10}",
        "s", "resident MB", "virtual MB", "threads", "descriptors", "log kB", "state kB", "delivered"
    );
    let samples = measure(&ground, seconds, every, &options, &|| webhook.received().len(), print)?;
    let mut is_flat = true;
    for growth in growths(&samples)? {
        let grown = growth.late > growth.most;
        is_flat &= !grown;
        println!(
            "{}: {:.1} early, {:.1} at the end, {:.1} at most{}",
            growth.what,
            growth.early,
            growth.late,
            growth.most,
            if grown { ": GROWN" } else { "" }
        );
    }
    let log = fs::read_to_string(ground.path("soak").join(ALERT_LOG))?;
    let count = |event: &str| log.matches(&format!(r#""event":"{event}""#)).count() as u64;
    let (moved, raised, delivered) = (count("leader.moved"), count("alert.raised"), webhook.received().len() as u64);
    println!("{moved} moves, {raised} alerts raised, {delivered} delivered");
    // The first turn of each job is its first leader, which is no move.
    let expected = seconds.saturating_sub(u64::from(JOBS));
    let all_came = moved + UNDER_WAY >= expected && delivered + UNDER_WAY >= raised && raised > 0;
    if !all_came {
        println!("{expected} moves were to come, and all alerts to be delivered: MISSING");
    }
    Ok(is_flat && all_came)
}

fn print(sample: &Sample) {
    let it = sample.footprint;
    println!(
        "{:>7} {:>11.1} {:>10.1} {:>8} {:>12} {:>7.0} {:>9.0} {:>10}",
        sample.at_s,
        it.resident_mb,
        it.virtual_mb,
        it.threads,
        it.descriptors,
        sample.log_kb,
        sample.state_kb,
        sample.delivered
    );
}
