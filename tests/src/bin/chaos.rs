//! Chaos: random faults on a real Flink cluster for some minutes, then the verdict. See `scripts/chaos`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use leaderwatch_tests::chaos::fault;
use leaderwatch_tests::chaos::ground::Ground;
use leaderwatch_tests::chaos::verdict::Verdict;
use leaderwatch_tests::command_line;

const USAGE: &str = "\
Usage: scripts/chaos [--minutes N] [--seed S] [--version VERSION]

Lets random faults befall a real Flink cluster (ZooKeeper, two JobManagers, two TaskManagers with the agent): kill -9,
stops, freezes, cut networks, full disks, receivers in trouble. Then holds what was told against Flink's own logs.

  --minutes N         how long (10)
  --seed S            draws the same faults again (the time of day)
  --version VERSION   the Flink to run (2.3.0)

Exits 0 only if each change of a leader was told by exactly one alert, nothing else was, and every alert came.
";

/// Faults at the same time.
const AT_ONCE: usize = 3;
const TASK_MANAGERS: usize = 2;

struct Options {
    minutes: u64,
    seed: u64,
    version: String,
}

fn main() -> ExitCode {
    command_line::run("scripts/chaos", USAGE, parse(std::env::args().skip(1)), run)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let mut options =
        Options { minutes: 10, seed: jiff::Timestamp::now().as_second().unsigned_abs(), version: "2.3.0".to_owned() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        let number = |text: String| text.parse().with_context(|| format!("{argument} wants a number, not `{text}`"));
        match argument.as_str() {
            "--minutes" => options.minutes = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--version" => options.version = value()?,
            "--help" | "-h" => return Ok(None),
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<bool> {
    println!("Flink {}, {} minutes, seed {}", options.version, options.minutes, options.seed);
    let mut ground = Ground::start(&options.version, TASK_MANAGERS)?;
    let begin = Instant::now();
    let calm = befall(&mut ground, options, begin).and_then(|()| {
        println!("{:6.1} s  healing all", begin.elapsed().as_secs_f64());
        ground.calm()?;
        ground.wait_for_elections()?;
        ground.wait_for_deliveries()
    });
    if let Err(problem) = calm {
        ground.keep_agent_logs();
        return Err(problem);
    }
    let verdict = judge(&ground)?;
    print!("{verdict}");
    for (name, words) in &ground.ended {
        println!("{name} ended by itself: {words}");
    }
    let crashed = ground.ended.iter().any(|(_, words)| !is_flinks_own_end(words)) || crash_report_left(&ground);
    let holds = verdict.holds() && !crashed;
    if holds {
        ground.finish();
    } else {
        ground.keep_agent_logs();
    }
    println!("{}", if holds { "All is as promised." } else { "Not as promised." });
    Ok(holds)
}

fn befall(ground: &mut Ground, options: &Options, begin: Instant) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let end = begin + Duration::from_secs(60 * options.minutes);
    let mut next = begin;
    while Instant::now() < end {
        for healed in ground.heal(false)? {
            println!("{:6.1} s  healed: {healed}", begin.elapsed().as_secs_f64());
        }
        ground.revive()?;
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(random.u64(1000..12_000));
            let taken = ground.taken();
            let drawn = fault::draw(&mut random, TASK_MANAGERS, &taken).filter(|_| taken.len() < AT_ONCE);
            if let Some(fault) = drawn {
                println!("{:6.1} s  {fault}", begin.elapsed().as_secs_f64());
                ground.strike(fault)?;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn judge(ground: &Ground) -> Result<Verdict> {
    let task_managers: Vec<String> = ground.cluster.task_managers.iter().map(|server| server.log()).collect();
    let all: String =
        ground.cluster.job_managers.iter().map(|server| server.log()).chain(task_managers.iter().cloned()).collect();
    Ok(Verdict::of(&task_managers, &all, &ground.webhook.delivered(), &ground.records()?))
}

/// Flink ends itself on purpose where it lost ZooKeeper or its leadership for too long, and says so.
fn is_flinks_own_end(words: &str) -> bool {
    words.contains("Fatal error") || words.contains("exit code")
}

fn crash_report_left(ground: &Ground) -> bool {
    let servers = ground.cluster.job_managers.iter().chain(&ground.cluster.task_managers);
    let mut left = false;
    for server in servers {
        let names = std::fs::read_dir(&server.folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        for name in names.filter(|name| name.to_string_lossy().starts_with("hs_err")) {
            println!("{} crashed: {}", server.name, name.to_string_lossy());
            left = true;
        }
    }
    left
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<Options>> {
        parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let options = parsed(&["--minutes", "3", "--seed", "7"]).unwrap().unwrap();
        assert_eq!((options.minutes, options.seed), (3, 7));
        assert!(parsed(&["--help"]).unwrap().is_none());
        assert!(parsed(&["--minutes", "soon"]).is_err());
        assert!(parsed(&["--minute"]).is_err());
    }
}
