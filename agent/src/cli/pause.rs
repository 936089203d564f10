//! `leaderwatch pause`: planned work pages nobody.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaderwatch_agent::config::{SystemEnvironment, load_file, parse_duration};
use leaderwatch_agent::pause::{LONGEST, Pause};

use super::people::{duration, printable};
use super::{Verdict, complain, when};

/// What the folder of a user, namespace and cluster holds, once an agent ran.
const MARKS: [&str; 2] = ["outbox", "agents"];
/// Characters of a reason.
const REASON_CHARACTERS: usize = 200;

/// Keeps pages back during planned work. Always ends by itself, with one message that sums up what was not sent.
#[derive(Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["folder", "config"])))]
pub struct PauseArgs {
    /// State folder of the agents: that of one cluster, or the one above it for all clusters in it
    folder: Option<PathBuf>,
    /// The agents' configuration file, in place of the folder that it names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long: `20m`, `2h`; at most 24h; with --reason. Replaces the pause that is
    #[arg(long = "for", value_name = "DURATION", requires = "reason", conflicts_with = "end")]
    length: Option<String>,
    /// What for, which a pause needs: people read it in the summary
    #[arg(long, value_name = "TEXT", requires = "length")]
    reason: Option<String>,
    /// End the pause now
    #[arg(long)]
    end: bool,
}

/// Runs the command.
pub fn run(args: &PauseArgs) -> ExitCode {
    match pause(args, Timestamp::now(), &TimeZone::system(), &mut io::stdout().lock()) {
        Ok(verdict) => verdict.into(),
        Err(message) => complain(Verdict::Misuse, message).into(),
    }
}

fn pause(args: &PauseArgs, now: Timestamp, zone: &TimeZone, out: &mut dyn Write) -> Result<Verdict, String> {
    let wanted = wanted(args, now)?;
    let mut verdict = Verdict::Done;
    let is_change = args.end || wanted.is_some();
    let mut done = Vec::new();
    for folder in folders(args)? {
        let told = if args.end { end(&folder, now) } else { begin_or_show(&folder, wanted.as_ref(), now, zone) };
        match told {
            Ok(told) => done.push(format!("{}: {told}", folder.display())),
            Err(error) => verdict = complain(Verdict::Wrong, format_args!("{}: {error}", folder.display())),
        }
    }
    if is_change && done.is_empty() {
        return Ok(Verdict::Misuse);
    }
    // Told only when all is done: what cannot be told is done all the same.
    for line in done {
        match writeln!(out, "{}", printable(&line)) {
            Ok(()) => {}
            Err(error) if is_change => {
                return Ok(complain(
                    Verdict::Wrong,
                    format_args!("standard output: {error}; what was asked for is done, see `leaderwatch status`"),
                ));
            }
            Err(error) => return Err(format!("standard output: {error}")),
        }
    }
    Ok(verdict)
}

/// The pause that is asked for; none where it is to be ended or shown.
fn wanted(args: &PauseArgs, now: Timestamp) -> Result<Option<Pause>, String> {
    let (Some(length), Some(reason)) = (&args.length, &args.reason) else { return Ok(None) };
    let duration = parse_duration(length).map_err(|error| format!("--for: `{length}` is no duration: {error}"))?;
    if duration.is_zero() || duration > LONGEST {
        return Err(format!("--for: `{length}` is not within 1s and 24h: a pause always ends"));
    }
    let reason: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    if reason.is_empty() || reason.chars().count() > REASON_CHARACTERS {
        return Err(format!("--reason: give one of 1 to {REASON_CHARACTERS} characters: people read it"));
    }
    let until = now.checked_add(duration).map_err(|error| format!("--for: {error}"))?;
    Ok(Some(Pause { schema: 1, from: now, until, reason }))
}

fn begin_or_show(folder: &Path, wanted: Option<&Pause>, now: Timestamp, zone: &TimeZone) -> io::Result<String> {
    if let Some(pause) = wanted {
        pause.write(folder)?;
    }
    let known = Pause::read(folder).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::other(format!("{error}; `leaderwatch pause --end` removes it")),
        _ => error,
    })?;
    Ok(match known {
        Some(pause) if !pause.remaining(now).is_zero() => {
            // In whole seconds, rounded up: what was just begun for 20 minutes is not shown as 19.
            let left = duration(
                1000 * u64::try_from(pause.remaining(now).as_millis().div_ceil(1000)).unwrap_or(u64::MAX / 1000),
            );
            format!("paused until {}, for {left}: {}", when::shown(pause.until, zone), pause.reason)
        }
        _ => "not paused".to_owned(),
    })
}

fn end(folder: &Path, now: Timestamp) -> io::Result<String> {
    let known = match Pause::read(folder) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Pause::remove(folder)?;
            return Ok(format!("not paused; removed what stood there: {error}"));
        }
        known => known?,
    };
    match known {
        Some(pause) if !pause.remaining(now).is_zero() => {
            Pause { until: now, ..pause }.write(folder)?;
            Ok("the pause is ended; the agents sum up within some seconds".to_owned())
        }
        _ => Ok("not paused".to_owned()),
    }
}

/// The folders of the clusters that are meant.
fn folders(args: &PauseArgs) -> Result<Vec<PathBuf>, String> {
    let (top, cluster) = match (&args.folder, &args.config) {
        (Some(folder), _) => (folder.clone(), None),
        (None, Some(file)) => folder_of(file)?,
        (None, None) => return Err("give a state folder or --config".to_owned()),
    };
    if is_state_folder(&top) {
        return Ok(vec![top]);
    }
    let inside = fs::read_dir(&top).map_err(|error| format!("{}: {error}", top.display()))?;
    let is_meant =
        |path: &PathBuf| is_state_folder(path) && cluster.as_ref().is_none_or(|name| *name == below_user(path));
    let mut found: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).filter(is_meant).collect();
    found.sort();
    if found.is_empty() {
        return Err(format!("{}: no agent keeps its state in there; see `state` in the configuration", top.display()));
    }
    Ok(found)
}

/// The folder above those of users and clusters, and the name of the cluster's own below any user.
fn folder_of(file: &Path) -> Result<(PathBuf, Option<String>), String> {
    fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (settings, _) = load_file(file, "", &SystemEnvironment);
    let own = settings.state.ok_or_else(|| {
        format!(
            "{}: names neither `state` nor `log`, so the state is in the folder `leaderwatch` beside Flink's own log: name \
             that folder instead of --config",
            file.display()
        )
    })?;
    let top = own.parent().unwrap_or(&own).to_owned();
    Ok((top, Some(below_user(&own))))
}

/// `flink.orders` of `1000.flink.orders`: the command may be run by another user than Flink.
fn below_user(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split_once('.').map(|(_, cluster)| cluster.to_owned()).unwrap_or(name)
}

fn is_state_folder(path: &Path) -> bool {
    MARKS.iter().any(|mark| path.join(mark).is_dir())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: PauseArgs,
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn called(words: &[&str], now: &str) -> Result<String, String> {
        let command = Command::try_parse_from([&["pause"], words].concat()).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        let verdict = pause(&command.args, at(now), &TimeZone::UTC, &mut out)?;
        assert_eq!(verdict, Verdict::Done);
        Ok(String::from_utf8(out).unwrap())
    }

    fn state() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for cluster in ["1000..orders", "1000..billing"] {
            fs::create_dir_all(folder.path().join(cluster).join("outbox")).unwrap();
        }
        folder
    }

    #[test]
    fn it_is_begun_shown_and_ended() {
        let folder = state();
        let orders = folder.path().join("1000..orders");
        let path = orders.to_str().unwrap();
        let told = |words: &[&str], now: &str| {
            called(&[&[path], words].concat(), now).unwrap().replace(path, "ORDERS").trim_end().to_owned()
        };
        let begun = told(&["--for", "20m", "--reason", "upgrade  to\n2.3"], "2026-11-30T10:00:00Z");
        assert_eq!(begun, "ORDERS: paused until 2026-11-30 10:20:00.000, for 20 min 0 s: upgrade to 2.3");
        let shown = told(&[], "2026-11-30T10:19:00Z");
        assert_eq!(shown, "ORDERS: paused until 2026-11-30 10:20:00.000, for 1 min 0 s: upgrade to 2.3");
        let ended = told(&["--end"], "2026-11-30T10:19:30Z");
        assert_eq!(ended, "ORDERS: the pause is ended; the agents sum up within some seconds");
        assert_eq!(told(&[], "2026-11-30T10:19:31Z"), "ORDERS: not paused");
        assert_eq!(Pause::read(&orders).unwrap().unwrap().until, at("2026-11-30T10:19:30Z"));
    }

    #[test]
    fn the_folder_above_means_all_clusters_and_a_configuration_its_own() {
        let folder = state();
        let all = called(&[folder.path().to_str().unwrap()], "2026-11-30T10:00:00Z").unwrap();
        assert_eq!(all.matches("not paused").count(), 2, "{all}");
        let file = folder.path().join("leaderwatch.toml");
        fs::write(&file, format!("cluster = 'orders'\nstate = '{}'\n", folder.path().display())).unwrap();
        let own = called(&["--config", file.to_str().unwrap()], "2026-11-30T10:00:00Z").unwrap();
        assert!(own.contains("1000..orders: not paused") && !own.contains("billing"), "{own}");
        fs::write(&file, "cluster = 'orders'\n").unwrap();
        let refused = called(&["--config", file.to_str().unwrap()], "2026-11-30T10:00:00Z").unwrap_err();
        assert!(refused.contains("beside Flink's own log"), "{refused}");
    }

    /// Regression: an output that failed left the clusters behind the first one without the pause.
    #[test]
    fn what_cannot_be_told_is_done_all_the_same() {
        let folder = state();
        let path = folder.path().to_str().unwrap();
        let words = ["pause", path, "--for", "20m", "--reason", "upgrade"];
        let command = Command::try_parse_from(words).unwrap();
        let verdict = pause(&command.args, at("2026-11-30T10:00:00Z"), &TimeZone::UTC, &mut &mut [0_u8; 0][..]);
        assert_eq!(verdict, Ok(Verdict::Wrong));
        for cluster in ["1000..orders", "1000..billing"] {
            assert!(Pause::read(&folder.path().join(cluster)).unwrap().is_some(), "{cluster}");
        }
    }

    #[test]
    fn it_always_ends_and_has_a_reason() {
        let folder = state();
        let path = folder.path().to_str().unwrap();
        for words in [
            &["--for", "25h", "--reason", "r"][..],
            &["--for", "0s", "--reason", "r"],
            &["--for", "soon", "--reason", "r"],
            &["--for", "1h", "--reason", " "],
            &["--for", "1h"],
            &["--reason", "r"],
            &["--end", "--for", "1h", "--reason", "r"],
        ] {
            assert!(called(&[&[path], words].concat(), "2026-11-30T10:00:00Z").is_err(), "{words:?}");
        }
        let empty = tempfile::tempdir().unwrap();
        let refused = called(&[empty.path().to_str().unwrap()], "2026-11-30T10:00:00Z").unwrap_err();
        assert!(refused.contains("no agent keeps its state in there"), "{refused}");
    }
}
