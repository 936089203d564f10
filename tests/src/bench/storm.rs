//! All jobs of a large cluster move at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::figures::{Figure, Row, Table};
use super::jvm::{Carried, Footprint, Ground, Talk, number};

/// Time until all is in the log, memory, alerts; for more and more jobs.
///
/// # Errors
/// Where a record is missing.
pub fn measure(ground: &Ground, options: &[(&str, &str)], delivered: &dyn Fn() -> usize) -> Result<Table> {
    let jdk = ground.jdks.first().context("no JDK")?;
    let mut rows = Vec::new();
    for jobs in [10, 1_000, 10_000, 100_000] {
        let folder = ground.path(&format!("storm-{jobs}"));
        fs::create_dir(&folder)?;
        let paths = [folder.join("storm.jsonl"), folder.join("state")].map(|path| path.display().to_string());
        let mut all = options.to_vec();
        all.extend([("log", paths[0].as_str()), ("state", paths[1].as_str())]);
        let mut java = ground.java(jdk, Carried::Leaderwatch, &all, &["-Xmx256m"])?;
        java.args(["storm", &jobs.to_string()]);
        let mut talk = Talk::start(java)?;
        talk.until("led")?;
        wait_for(&folder, "\"event\":\"leader.elected\"", jobs)?;
        let (before, alerts) = (Footprint::of(talk.pid())?, delivered());
        let begin = Instant::now();
        talk.go_on()?;
        let told = talk.until("moved")?;
        wait_for(&folder, "\"event\":\"leader.moved\"", jobs)?;
        let logged = begin.elapsed().as_secs_f64();
        crate::wait::until("the alert", Duration::from_secs(60), || Ok((delivered() > alerts).then_some(())))?;
        let after = Footprint::of(talk.pid())?;
        let words: Vec<&str> = told.last().context("nothing told")?.split(' ').collect();
        let calls = number(&[format!("end {}", words[2])], "end")? - number(&[format!("begin {}", words[1])], "begin")?;
        let alerts = (delivered() - alerts) as f64;
        talk.end()?;
        let figures = [calls / 1e9, logged, after.resident_mb - before.resident_mb, alerts];
        rows.push(Row {
            what: format!("{jobs} jobs"),
            figures: figures.map(|figure| Some(Figure::of(vec![figure]))).to_vec(),
        });
    }
    Ok(Table {
        title: "A storm: all jobs move at once".to_owned(),
        note: "Seconds in Flink's thread for all calls together; seconds from the first call until each move is in the alert \
               log; memory added meanwhile; messages sent."
            .to_owned(),
        unit: "",
        columns: ["in Flink's thread, s", "all logged, s", "memory, MB", "messages"].map(str::to_owned).to_vec(),
        rows,
    })
}

fn wait_for(folder: &Path, text: &str, count: usize) -> Result<()> {
    crate::wait::until(&format!("{count} records with {text}"), Duration::from_secs(120), || {
        let found: usize =
            logs(folder).iter().map(|path| fs::read_to_string(path).map_or(0, |log| log.matches(text).count())).sum();
        Ok((found >= count).then_some(()))
    })
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.is_file()).collect()
}
