//! What a call of the hooked method costs, in Flink's own thread.

use anyhow::Result;

use super::figures::{Figure, Row, Table};
use super::jvm::{Carried, Ground, Jdk, lines, number};

/// Calls in each round.
const CALLS: &str = "2000";

/// How the JVM compiles the method.
const MODES: [(&str, &[&str]); 4] = [
    ("as shipped", &[]),
    ("interpreter", &["-Xint"]),
    ("C1", &["-XX:TieredStopAtLevel=1"]),
    ("C2", &["-XX:-TieredCompilation"]),
];

/// One call a millisecond, median in microseconds; then the first call ever.
///
/// # Errors
/// Where a JVM does not do what it should.
pub fn measure(ground: &Ground, rounds: usize, options: &[(&str, &str)]) -> Result<Vec<Table>> {
    let columns: Vec<String> = Carried::ALL.iter().map(|carried| carried.name().to_owned()).collect();
    let (mut paced, mut first) = (Vec::new(), Vec::new());
    for jdk in &ground.jdks {
        for (mode, flags) in MODES {
            // The modes that nobody runs in production are there to show that nothing odd happens: fewer rounds.
            let rounds = if mode == "as shipped" { rounds } else { 1 };
            for (what, leader) in [("the same leader again", "same"), ("a new leader each time", "moving")] {
                let figures = each(rounds, |carried| {
                    let words = ["paced", CALLS, leader];
                    Ok(number(&told(ground, jdk, carried, options, flags, &words)?, "median")? / 1000.0)
                })?;
                paced.push(Row { what: format!("JDK {}, {mode}, {what}", jdk.release), figures });
            }
        }
        let figures = each(3 * rounds, |carried| {
            Ok(number(&told(ground, jdk, carried, options, &[], &["first"])?, "took")? / 1000.0)
        })?;
        first.push(Row { what: format!("JDK {}", jdk.release), figures });
    }
    Ok(vec![
        Table {
            title: "The hook, one call a millisecond".to_owned(),
            note: "Median of 2000 calls by a thread that sleeps between them, the clock's own cost included. The same \
                   leader again wakes nobody; a new leader wakes the consumer, which sleeps. An agent whose figures for a \
                   new leader are those of no agent did not hook."
                .to_owned(),
            unit: "µs",
            columns: columns.clone(),
            rows: paced,
        },
        Table {
            title: "The hook, first call".to_owned(),
            note: "The first call of the method in a JVM, with all that it makes the JVM load and link.".to_owned(),
            unit: "µs",
            columns,
            rows: first,
        },
    ])
}

fn told(
    ground: &Ground,
    jdk: &Jdk,
    carried: Carried,
    options: &[(&str, &str)],
    flags: &[&str],
    words: &[&str],
) -> Result<Vec<String>> {
    let mut java = ground.java(jdk, carried, options, flags)?;
    java.args(words);
    lines(java)
}

/// All agents in turn, round by round, so that what else the machine does strikes all alike.
pub(super) fn each(rounds: usize, mut run: impl FnMut(Carried) -> Result<f64>) -> Result<Vec<Option<Figure>>> {
    let mut found = vec![Vec::new(); Carried::ALL.len()];
    for _ in 0..rounds {
        for (carried, found) in Carried::ALL.into_iter().zip(&mut found) {
            found.push(run(carried)?);
        }
    }
    Ok(found.into_iter().map(|rounds| Some(Figure::of(rounds))).collect())
}
