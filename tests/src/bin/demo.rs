//! The demo: a real Flink cluster loses its leading JobManager, and people are told. See `scripts/demo`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::command_line;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::mail::{MailReceiver, Security};
use leaderwatch_tests::oracle::{self, Leader, Move};
use leaderwatch_tests::screen::{Screen, Tone};
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};
use serde_json::Value;

/// Longest time from the kill to an alert: the election takes 2 to 4 s with the demo's settings, the gathering 2 s.
const ALERT_LIMIT: Duration = Duration::from_secs(90);

const USAGE: &str = "\
Usage: scripts/demo [--version VERSION | --flink-home DIR]

Starts a real Flink cluster on this machine (ZooKeeper, two JobManagers, one TaskManager with the agent), kills the
leading JobManager, and shows the alert as it comes by webhook and by mail. Nothing leaves the machine.

  --version VERSION   the Flink to fetch and run: 2.3.0 (default), 1.14.6, ...
  --flink-home DIR    a Flink that is there already
  --help              this text

Exits 0 only if both alerts came.
";

struct Options {
    version: String,
    flink_home: Option<PathBuf>,
}

fn main() -> ExitCode {
    command_line::run("scripts/demo", USAGE, parse(std::env::args().skip(1)), |options| {
        let screen = Screen::new();
        let came = run(options, &screen);
        if let Err(problem) = &came {
            screen.line(Tone::Bad, "The demo failed", &format!("{problem:#}"));
        }
        Ok(came.is_ok())
    })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let mut options = Options { version: "2.3.0".to_owned(), flink_home: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--version" => options.version = value()?,
            "--flink-home" => options.flink_home = Some(PathBuf::from(value()?)),
            "--help" | "-h" => return Ok(None),
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options, screen: &Screen) -> Result<()> {
    let begin = Instant::now();
    let library = agent::library()?;
    screen.step("Flink and a Java for it", "at once; the first time up to 5 minutes");
    let installation = match &options.flink_home {
        Some(home) => Installation::at(home)?,
        None => Installation::fetch(&options.version)?,
    };
    screen.fact("Flink", &format!("{} in {}", installation.version, installation.flink_home.display()));
    screen.fact("Java", &installation.java_home.display().to_string());
    screen.fact("agent", &library.display().to_string());

    screen.step("Two receivers: a webhook and a mail server", "2 s; the first time 20 s");
    let webhook = WebhookReceiver::start()?;
    let mail = MailReceiver::start(Security::Plain)?;
    screen.fact("webhook", &webhook.url());
    screen.fact("mail", &format!("smtp://127.0.0.1:{}", mail.port()));

    screen.step("ZooKeeper, a JobManager, a TaskManager with the agent", "10 to 40 s");
    let java_option = agent::telling(&webhook, &mail, &[])?;
    let mut cluster = Cluster::builder(&installation).java_options(&java_option).remove_when_killed().start()?;
    screen.fact("option", &java_option);

    // Where this fails, the cluster tells the ends of its logs and keeps its folder.
    show(&mut cluster, screen, &webhook, &mail)?;
    cluster.finish();
    screen.line(
        Tone::Good,
        "Done",
        &format!("in {:.0} s: both alerts came, everything is stopped and removed", begin.elapsed().as_secs_f64()),
    );
    Ok(())
}

fn show(cluster: &mut Cluster, screen: &Screen, webhook: &WebhookReceiver, mail: &MailReceiver) -> Result<()> {
    screen.step("A streaming job with a checkpoint each second", "5 to 15 s");
    let job = cluster.submit("orders-to-invoices", 100)?;
    screen.fact("job", &job);
    screen.step("A second JobManager, as a standby", "5 to 20 s");
    cluster.start_standby(1)?;

    let leading = cluster.leader()?;
    let before = job_leader(cluster)?;
    screen.line(Tone::Good, "Leader before", &describe(cluster, leading, &before));

    let killed = Instant::now();
    screen.line(
        Tone::Bad,
        &format!("kill -9 {}", cluster.job_managers[leading].pid()?),
        &cluster.job_managers[leading].name.clone(),
    );
    cluster.job_managers[leading].kill()?;
    screen.step("The election, and what Flink tells its TaskManager", "2 to 6 s");
    let after = wait::until("another leader", ALERT_LIMIT, || {
        let now = job_leader(cluster)?;
        Ok((now.id != before.id).then_some(now))
    })?;
    screen.line(
        Tone::Good,
        "Leader after",
        &format!("{}   {:.1} s after the kill", describe(cluster, 1 - leading, &after), killed.elapsed().as_secs_f64()),
    );

    screen.step("The alert, gathered for 2 s and sent", "2 to 5 s");
    let alert = webhook.wait_for(1, ALERT_LIMIT).context("no alert came by webhook")?.remove(0);
    screen.line(Tone::Title, "By webhook", &format!("{:.1} s after the kill", killed.elapsed().as_secs_f64()));
    screen.plain(&serde_json::to_string_pretty(&alert)?);
    let letter = mail.wait_for(1, ALERT_LIMIT).context("no alert came by mail")?.remove(0);
    screen.line(Tone::Title, "By mail", &format!("{:.1} s after the kill", killed.elapsed().as_secs_f64()));
    screen.plain(&format!(
        "From: {}\nTo: {}\nSubject: {}\n\n{}",
        text(&letter["from"]),
        text(&letter["to"]),
        text(&letter["subject"]),
        text(&letter["text"]).trim_end()
    ));
    check(&alert, &oracle::moves(&oracle::announcements(&cluster.task_managers[0].log())))?;

    let log = wait::until("both deliveries in the alert log", ALERT_LIMIT, || {
        let records = cluster.task_managers[0].alert_log()?;
        let delivered = records.iter().filter(|record| record["event"] == "alert.delivered").count();
        Ok((delivered >= 2).then_some(records))
    })?;
    screen.line(Tone::Title, "The alert log", "beside Flink's own log, one JSON object a line; here in short");
    for record in &log {
        screen.record(record);
    }
    screen.step("The job, restored from its checkpoint", "1 to 10 s");
    cluster.wait_for_job(&job, ALERT_LIMIT)?;
    screen.line(Tone::Good, "The job runs again", &format!("{:.1} s after the kill", killed.elapsed().as_secs_f64()));
    Ok(())
}

/// The leader of the job by Flink's own word.
fn job_leader(cluster: &Cluster) -> Result<Leader> {
    let seen = oracle::announcements(&cluster.task_managers[0].log());
    let of_jobs = seen.into_iter().filter(|announcement| announcement.seat.job_id.is_some());
    of_jobs.filter_map(|announcement| announcement.leader).next_back().context("Flink's log names no leader of the job")
}

fn describe(cluster: &Cluster, index: usize, leader: &Leader) -> String {
    format!("{}   {}   {}", cluster.job_managers[index].name, leader.id, leader.address)
}

/// The alert must say what Flink's own log says.
fn check(alert: &Value, moves: &[Move]) -> Result<()> {
    let is_told = |a_move: &Move| {
        let same = |told: &Value, leader: &Leader| {
            told["id"] == leader.id.to_string() && told["address"] == leader.address.as_str()
        };
        same(&alert["old_leader"], &a_move.old) && same(&alert["new_leader"], &a_move.new)
    };
    if !moves.iter().any(is_told) {
        bail!("the alert tells other leaders than Flink's own log does: {moves:#?}");
    }
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<Options>> {
        parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn arguments_are_read_or_refused() {
        assert_eq!(parsed(&["--version", "1.14.6"]).unwrap().unwrap().version, "1.14.6");
        let at = parsed(&["--flink-home", "/opt/flink"]).unwrap().unwrap();
        assert_eq!(at.flink_home.as_deref(), Some(Path::new("/opt/flink")));
        assert!(parsed(&["--help"]).unwrap().is_none());
        assert!(parsed(&["--version"]).is_err());
        assert!(parsed(&["--flink"]).is_err());
    }
}
