//! What it costs to start a JVM with the agent, and what an idle one holds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::figures::{Figure, Row, Table};
use super::hook::each;
use super::jvm::{Carried, Footprint, Ground, Talk, lines, number};
use crate::installation::Installation;

/// Classes of flink-dist that are loaded.
const CLASSES: usize = 4500;

/// Time of a start, of loading Flink's classes, and peak memory.
///
/// # Errors
/// Where a JVM does not do what it should.
pub fn measure(ground: &Ground, rounds: usize, options: &[(&str, &str)]) -> Result<Vec<Table>> {
    let columns: Vec<String> = Carried::ALL.iter().map(|carried| carried.name().to_owned()).collect();
    let flink = Installation::fetch("2.3.0")?.class_path()?;
    let names = class_names(ground, &flink)?;
    let (mut times, mut peaks, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for jdk in &ground.jdks {
        let start = |carried: Carried, words: &[&str], flags: &[&str]| -> Result<(f64, Vec<String>)> {
            let beside = if words[0] == "classes" { flink.as_str() } else { "" };
            let mut java = ground.java_with(jdk, carried, options, flags, beside)?;
            java.args(words);
            let begin = Instant::now();
            let told = lines(java)?;
            Ok((begin.elapsed().as_secs_f64() * 1000.0, told))
        };
        let release = &jdk.release;
        let names = names.display().to_string();
        for (what, words) in
            [("a main that ends at once", vec!["nothing"]), ("loading 4,500 classes of Flink", vec!["classes", &names])]
        {
            let (mut resident, mut size) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
            let figures = each(rounds, |carried| {
                let (ms, told) = start(carried, &words, &[])?;
                let index = Carried::ALL.iter().position(|it| *it == carried).unwrap_or_default();
                resident[index].push(number(&told, "VmHWM:")? / 1024.0);
                size[index].push(number(&told, "VmPeak:")? / 1024.0);
                Ok(ms)
            })?;
            times.push(Row { what: format!("JDK {release}, {what}"), figures });
            let figures = |rounds: Vec<Vec<f64>>| rounds.into_iter().map(|round| Some(Figure::of(round))).collect();
            peaks.push(Row { what: format!("JDK {release}, {what}, resident"), figures: figures(resident) });
            peaks.push(Row { what: format!("JDK {release}, {what}, virtual"), figures: figures(size) });
        }
        let figures = each(1, |carried| {
            let (_, told) = start(carried, &["nothing"], &["-Xlog:class+load"])?;
            Ok(told.iter().filter(|line| line.contains("shared objects file")).count() as f64)
        })?;
        shared.push(Row { what: format!("JDK {release}"), figures });
    }
    Ok(vec![
        Table {
            title: "JVM start".to_owned(),
            note: "From the start of the process to its end, by a main class that makes the agent active.".to_owned(),
            unit: "ms",
            columns: columns.clone(),
            rows: times,
        },
        Table {
            title: "Peak memory of those JVMs".to_owned(),
            note: "VmHWM and VmPeak of /proc/self/status.".to_owned(),
            unit: "MB",
            columns: columns.clone(),
            rows: peaks,
        },
        Table {
            title: "Classes that still come from the shared archive".to_owned(),
            note:
                "Class-data sharing stays on: lines `shared objects file` of -Xlog:class+load, for a main that ends at \
                   once."
                    .to_owned(),
            unit: "classes",
            columns,
            rows: shared,
        },
    ])
}

/// What an idle process holds, without and with the agent and eight targets, and after 1,000 alerts.
///
/// # Errors
/// Where a JVM does not do what it should.
pub fn footprint(
    ground: &Ground,
    rounds: usize,
    options: &[(&str, &str)],
    delivered: &dyn Fn() -> usize,
) -> Result<Table> {
    let compared = [Carried::Nothing, Carried::Leaderwatch];
    let mut rows = Vec::new();
    for jdk in &ground.jdks {
        for (what, moves) in [("idle", 0), ("after 1,000 alerts", 1000)] {
            let mut found: Vec<Vec<Footprint>> = vec![Vec::new(); 2];
            for _ in 0..rounds {
                for (carried, found) in compared.into_iter().zip(&mut found) {
                    // The heap is touched at once, so that it does not grow by what the bench itself allocates.
                    let mut java = ground.java(jdk, carried, options, &["-Xint", "-XX:+AlwaysPreTouch"])?;
                    java.args(["moves", &moves.to_string(), "2"]);
                    let before = delivered();
                    let mut talk = Talk::start(java)?;
                    talk.until("ready")?;
                    if carried == Carried::Leaderwatch {
                        crate::wait::until("the alerts", Duration::from_secs(120), || {
                            Ok((delivered() >= before + moves).then_some(()))
                        })?;
                    }
                    std::thread::sleep(Duration::from_secs(3));
                    found.push(Footprint::of(talk.pid())?);
                    talk.end()?;
                }
            }
            type Part = fn(&Footprint) -> f64;
            let parts: [(&str, Part); 4] = [
                ("resident, MB", |it| it.resident_mb),
                ("virtual, MB", |it| it.virtual_mb),
                ("threads", |it| it.threads),
                ("descriptors", |it| it.descriptors),
            ];
            for (name, part) in parts {
                let figures =
                    found.iter().map(|found| Some(Figure::of(found.iter().map(part).collect()))).collect::<Vec<_>>();
                rows.push(Row { what: format!("JDK {}, {what}, {name}", jdk.release), figures });
            }
        }
    }
    Ok(Table {
        title: "What a process holds".to_owned(),
        note: "A JVM with a heap of one size, -Xint, three seconds after its last alert; eight targets are configured."
            .to_owned(),
        unit: "",
        columns: compared.iter().map(|carried| carried.name().to_owned()).collect(),
        rows,
    })
}

fn class_names(ground: &Ground, class_path: &str) -> Result<PathBuf> {
    let dist = class_path.split(':').find(|jar| jar.contains("flink-dist")).context("no flink-dist")?;
    let mut list = Command::new("unzip");
    list.args(["-Z1", dist, "org/apache/flink/*.class"]);
    let names: Vec<String> = lines(list)?
        .iter()
        .filter_map(|path| Some(path.strip_suffix(".class")?.replace('/', ".")))
        // The benches have their own main class of that name.
        .filter(|name| !name.contains("TaskManagerRunner"))
        .take(CLASSES)
        .collect();
    let path = ground.path("classes.txt");
    fs::write(&path, names.join("\n"))?;
    Ok(path)
}
