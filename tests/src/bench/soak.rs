//! A JVM in which one leader moves each second, for as long as wanted: does anything grow?

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::jvm::{Carried, Footprint, Ground, Talk};

/// Name of the alert log in the folder `soak`.
pub const ALERT_LOG: &str = "soak.jsonl";
/// Jobs that take turns.
pub const JOBS: u32 = 600;

/// How a process stands at one time.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Seconds since the first move.
    pub at_s: u64,
    /// Memory, threads, descriptors.
    pub footprint: Footprint,
    /// Size of its alert log, in kB (1000 bytes).
    pub log_kb: f64,
    /// Size of its state folder, in kB.
    pub state_kb: f64,
    /// Messages that the receiver has.
    pub delivered: usize,
}

/// What is measured, and the most that it may be at the end by what it was after a fifth of the time, when everything is
/// warm.
pub struct Growth {
    /// For people.
    pub what: &'static str,
    /// After a fifth of the time.
    pub early: f64,
    /// At the end.
    pub late: f64,
    /// The most that it may be at the end.
    pub most: f64,
}

/// Lets leaders move for `seconds`; a sample each `every`.
///
/// # Errors
/// Where the JVM ends.
pub fn measure(
    ground: &Ground,
    seconds: u64,
    every: Duration,
    options: &[(&str, &str)],
    delivered: &dyn Fn() -> usize,
    mut tell: impl FnMut(&Sample),
) -> Result<Vec<Sample>> {
    let jdk = ground.jdks.first().context("no JDK")?;
    let folder = ground.path("soak");
    fs::create_dir(&folder)?;
    let paths = [folder.join(ALERT_LOG), folder.join("state")].map(|path| path.display().to_string());
    let mut all = options.to_vec();
    all.extend([("log", paths[0].as_str()), ("state", paths[1].as_str())]);
    let mut java = ground.java(jdk, Carried::Leaderwatch, &all, &[])?;
    java.args(["soak", &seconds.to_string(), &JOBS.to_string()]);
    let mut talk = Talk::start(java)?;
    let (begin, mut samples) = (Instant::now(), Vec::new());
    while begin.elapsed().as_secs() < seconds {
        std::thread::sleep(every.min(Duration::from_secs(seconds).saturating_sub(begin.elapsed())));
        let sample = Sample {
            at_s: begin.elapsed().as_secs(),
            footprint: Footprint::of(talk.pid())?,
            log_kb: (bytes_below(&folder) - bytes_below(&folder.join("state"))) as f64 / 1000.0,
            state_kb: bytes_below(&folder.join("state")) as f64 / 1000.0,
            delivered: delivered(),
        };
        tell(&sample);
        samples.push(sample);
    }
    talk.until("moved")?;
    talk.end()?;
    Ok(samples)
}

/// What has grown, and what it may have grown to.
///
/// # Errors
/// Where there are too few samples.
pub fn growths(samples: &[Sample]) -> Result<Vec<Growth>> {
    let early = samples.get(samples.len() / 5).context("too few samples")?;
    let late = samples.last().context("no sample")?;
    let growth = |what, of: fn(&Sample) -> f64, spare: f64| Growth {
        what,
        early: of(early),
        late: of(late),
        most: of(early) + spare,
    };
    Ok(vec![
        growth("resident memory, MB", |it| it.footprint.resident_mb, 4.0),
        growth("virtual memory, MB", |it| it.footprint.virtual_mb, 8.0),
        growth("threads", |it| it.footprint.threads, 0.0),
        growth("descriptors", |it| it.footprint.descriptors, 2.0),
        // A segment of the outbox grows to 256 KiB before it is written anew.
        growth("state, kB", |it| it.state_kb, 600.0),
        // Ten closed files of 10 MB, and the one that is written.
        Growth { most: 110_000.0, ..growth("alert log, kB", |it| it.log_kb, 0.0) },
    ])
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(it) if it.is_dir() => bytes_below(&entry.path()),
            Ok(it) => it.len(),
            Err(_) => 0,
        })
        .sum()
}
