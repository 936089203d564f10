//! The benches. See `scripts/bench`.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use leaderwatch_tests::agent;
use leaderwatch_tests::bench::figures::Table;
use leaderwatch_tests::bench::jvm::Ground;
use leaderwatch_tests::bench::page::{Goal, number};
use leaderwatch_tests::bench::{board, hook, latency, page, start, storm};
use leaderwatch_tests::command_line;
use leaderwatch_tests::installation::source_root;
use leaderwatch_tests::webhook::WebhookReceiver;

const USAGE: &str = "\
Usage: scripts/bench [--rounds N] [PART...]

Measures Leaderwatch beside the same hook as a Java agent by ASM and by Byte Buddy, on each JDK of /usr/lib/jvm.
All parts together are written to docs/performance.md; single parts are only printed.

  PART         hook start footprint latency board storm
  --rounds N   rounds of each measurement (5)
";

const PARTS: [&str; 6] = ["hook", "start", "footprint", "latency", "board", "storm"];

fn main() -> ExitCode {
    command_line::run("scripts/bench", USAGE, parse(std::env::args().skip(1)), |(rounds, parts)| {
        run(*rounds, parts)?;
        Ok(true)
    })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<(usize, Vec<String>)>> {
    let (mut rounds, mut parts) = (5, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => {
                let value = arguments.next().context("--rounds needs a number")?;
                rounds = value.parse().with_context(|| format!("--rounds wants a number, not `{value}`"))?;
            }
            "--help" | "-h" => return Ok(None),
            part if PARTS.contains(&part) => parts.push(argument),
            _ => bail!("unknown part `{argument}`; there are {}", PARTS.join(", ")),
        }
    }
    Ok(Some((rounds, parts)))
}

fn run(rounds: usize, parts: &[String]) -> Result<()> {
    let ground = Ground::new()?;
    let webhook = WebhookReceiver::start()?;
    let url = webhook.url();
    let one = [("webhook", url.as_str()), ("group_wait", "0s")];
    let config = ground.path("eight.toml");
    fs::write(&config, eight_targets(&url))?;
    fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let config = config.display().to_string();
    let eight = [("config", config.as_str()), ("group_wait", "0s")];
    let alone = ground.path("failover.toml");
    fs::write(&alone, "[alert]\nclasses = [\"failover\"]\n")?;
    fs::set_permissions(&alone, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let alone = alone.display().to_string();
    let failover = [("config", alone.as_str()), ("webhook", url.as_str()), ("group_wait", "0s")];
    let delivered = || webhook.received().len();

    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|it| it == part);
    let mut tables = Vec::new();
    for part in PARTS.into_iter().filter(|part| wanted(part)) {
        eprintln!("scripts/bench: {part}");
        let measured = match part {
            "hook" => hook::measure(&ground, rounds, &one)?,
            "start" => start::measure(&ground, 2 * rounds + 1, &one)?,
            "footprint" => vec![start::footprint(&ground, rounds.min(3), &eight, &delivered)?],
            "latency" => vec![latency::measure(&ground, &failover, &webhook)?],
            "board" => board::measure(rounds)?,
            _ => vec![storm::measure(&ground, &one, &delivered)?],
        };
        for table in &measured {
            println!("{}", serde_json::to_string_pretty(&table.json())?);
        }
        tables.extend(measured);
    }
    if parts.is_empty() {
        page::write(&source_root().join("docs"), &machine()?, &goals(&tables)?, &tables)?;
        eprintln!("scripts/bench: docs/performance.md is written");
    }
    Ok(())
}

/// As many targets as an idle process is measured with; each takes alerts, one of them all of them.
fn eight_targets(url: &str) -> String {
    let mut text = "[alert]\nclasses = [\"failover\"]\n".to_owned();
    for number in 1..=8 {
        let classes = if number == 1 { "failover" } else { "no_leader" };
        text += &format!(
            "\n[[target]]\nname = \"hook-{number}\"\nkind = \"webhook\"\nurl = \"{url}\"\nclasses = [\"{classes}\"]\n"
        );
    }
    text
}

fn machine() -> Result<String> {
    let information = fs::read_to_string("/proc/cpuinfo")?;
    let model = information.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism()?;
    let now = jiff::Timestamp::now().to_string();
    let day = now.split('T').next().unwrap_or_default();
    Ok(format!("This run: {day}, {cores} cores of {model}."))
}

fn goals(tables: &[Table]) -> Result<Vec<Goal>> {
    let median = |title: &str, what: &str, column: &str| -> Result<f64> {
        let table = tables.iter().find(|table| table.title == title).with_context(|| format!("no table {title}"))?;
        Ok(table.figure(what, column).with_context(|| format!("no {what}, {column} in {title}"))?.median)
    };
    let mut goals = Vec::new();
    let releases: Vec<String> = tables
        .iter()
        .filter(|table| table.title == "The hook, first call")
        .flat_map(|table| table.rows.iter().map(|row| row.what.clone()))
        .collect();
    for jdk in &releases {
        let paced = "The hook, one call a millisecond";
        for (what, goal_us) in [("the same leader again", 0.25), ("a new leader each time", 3.0)] {
            let row = format!("{jdk}, as shipped, {what}");
            let over = |column: &str| anyhow::Ok(median(paced, &row, column)? - median(paced, &row, "no agent")?);
            let (ours, asm, byte_buddy) = (over("Leaderwatch")?, over("ASM")?, over("Byte Buddy")?);
            goals.push(Goal {
                what: format!("hook over no agent, {jdk}, {what}"),
                goal: format!("≤ {goal_us} µs, below both peers"),
                measured: format!("{} µs", number(ours)),
                peer: format!("ASM {} µs, Byte Buddy {} µs", number(asm), number(byte_buddy)),
                met: ours <= goal_us && ours < asm && ours < byte_buddy,
            });
        }
        let first = |column: &str| median("The hook, first call", jdk, column);
        let (ours, asm, byte_buddy) = (first("Leaderwatch")?, first("ASM")?, first("Byte Buddy")?);
        goals.push(Goal {
            what: format!("hook, first call, {jdk}"),
            goal: "≤ 60 µs; 60 times below both peers".to_owned(),
            measured: format!("{} µs", number(ours)),
            peer: format!("ASM {} µs, Byte Buddy {} µs", number(asm), number(byte_buddy)),
            met: ours <= 60.0 && ours * 60.0 <= asm.min(byte_buddy),
        });
        for what in ["a main that ends at once", "loading 4,500 classes of Flink"] {
            let row = format!("{jdk}, {what}");
            let ratio =
                |column: &str| anyhow::Ok(median("JVM start", &row, column)? / median("JVM start", &row, "no agent")?);
            let ours = ratio("Leaderwatch")?;
            goals.push(Goal {
                what: format!("JVM start, {row}"),
                goal: "≤ 1.05 of no agent".to_owned(),
                measured: number(ours),
                peer: format!("ASM {}, Byte Buddy {}", number(ratio("ASM")?), number(ratio("Byte Buddy")?)),
                met: ours <= 1.05,
            });
        }
        for (what, goal_mb) in
            [("idle, resident, MB", 3.0), ("after 1,000 alerts, resident, MB", 6.0), ("idle, virtual, MB", 16.0)]
        {
            let row = format!("{jdk}, {what}");
            let added = median("What a process holds", &row, "Leaderwatch")?
                - median("What a process holds", &row, "no agent")?;
            goals.push(Goal {
                what: format!("added by the agent, {row}"),
                goal: format!("≤ {goal_mb} MB"),
                measured: format!("{} MB", number(added)),
                peer: String::new(),
                met: added <= goal_mb,
            });
        }
        let row = format!("{jdk}, move to request read");
        let table = "From a move to the receiver";
        let (p50, p99) = (median(table, &row, "p50")?, median(table, &row, "p99")?);
        let bare = median(table, "bare round trip of the same client", "p50")?;
        let fsync = median(table, "one fsync of the same disk", "p50")?;
        goals.push(Goal {
            what: row,
            goal: "p50 ≤ bare round trip + one fsync + 1 ms, p99 ≤ 5 ms + one fsync".to_owned(),
            measured: format!("p50 {} ms, p99 {} ms", number(p50), number(p99)),
            peer: format!("round trip {} ms, fsync {} ms", number(bare), number(fsync)),
            met: p50 <= bare + fsync + 1.0 && p99 <= 5.0 + fsync,
        });
    }
    for threads in [1, 2, 8] {
        let row = format!("{threads} threads");
        let (ours, peer) =
            (median("The board", &row, "lock-free board")?, median("The board", &row, "mutex-guarded map")?);
        goals.push(Goal {
            what: format!("board, {row}"),
            goal: "ahead of the mutex-guarded map".to_owned(),
            measured: format!("{} million/s", number(ours)),
            peer: format!("{} million/s", number(peer)),
            met: ours > peer,
        });
    }
    let bytes = median("A seat at rest", "100,000 seats", "bytes a seat")?;
    goals.push(Goal {
        what: "board, a seat at rest".to_owned(),
        goal: "≤ 256 bytes".to_owned(),
        measured: format!("{} bytes", number(bytes)),
        peer: String::new(),
        met: bytes <= 256.0,
    });
    let storm = |row: &str| median("A storm: all jobs move at once", row, "all logged, s");
    let (ten, hundred) = (storm("10000 jobs")?, storm("100000 jobs")?);
    goals.push(Goal {
        what: "10,000 jobs move".to_owned(),
        goal: "all logged in ≤ 1 s, growth linear to 100,000".to_owned(),
        measured: format!("{} s; 100,000 in {} s", number(ten), number(hundred)),
        peer: String::new(),
        met: ten <= 1.0 && hundred <= 15.0 * ten.max(0.1),
    });
    let stripped_mb = stripped_bytes()? / 1e6;
    goals.push(Goal {
        what: "library, stripped".to_owned(),
        goal: "≤ 4.5 MB".to_owned(),
        measured: format!("{} MB", number(stripped_mb)),
        peer: String::new(),
        met: stripped_mb <= 4.5,
    });
    Ok(goals)
}

fn stripped_bytes() -> Result<f64> {
    let copy = tempfile::NamedTempFile::new()?;
    fs::copy(agent::library()?, copy.path())?;
    let status = Command::new("strip").arg(copy.path()).status().context("strip")?;
    if !status.success() {
        bail!("strip ended with {status}");
    }
    Ok(fs::metadata(copy.path())?.len() as f64)
}
