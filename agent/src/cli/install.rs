//! `leaderwatch install`: puts the agent into a Flink installation, and takes it out again.
//!
//! The library goes to `FLINK_HOME/leaderwatch`, not to `lib`, which is Flink's class path. A record beside it says what
//! was put into Flink's configuration, so that `--undo` can give the file back byte for byte.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use leaderwatch_agent::config::flink_edit::{self, ConfFormat, Insertion};
use leaderwatch_agent::config::{
    SystemEnvironment, check_file, cure_of_reading, example, first_fault, first_unsafe, flink_version,
};
use serde::{Deserialize, Serialize};

use super::check::tried;
use super::replace::replace;
use super::{Verdict, complain};

const LIBRARY: &str = "libleaderwatch.so";
const CONFIG: &str = "leaderwatch.toml";
const RECORD: &str = "install.json";
/// The keys of one role each: those for all JVMs also reach `bin/flink` and the history server.
const KEYS: [&str; 2] = ["env.java.opts.jobmanager", "env.java.opts.taskmanager"];
/// The keys for all JVMs, under which the agent may stand already.
const KEYS_OF_ALL: [&str; 2] = ["env.java.opts.all", "env.java.opts"];

/// Puts the agent into a Flink installation: copies the library to FLINK_HOME/leaderwatch, writes a configuration
/// there, and adds the option to env.java.opts.jobmanager and env.java.opts.taskmanager in Flink's own configuration.
/// Shows the change first; doing it twice changes nothing.
#[derive(Args)]
#[group(skip)]
pub struct InstallArgs {
    /// The folder of Flink that holds bin, conf and lib
    flink_home: PathBuf,
    /// Take the agent out again: Flink's configuration becomes what it was, byte for byte
    #[arg(long, conflicts_with_all = ["config", "library"])]
    undo: bool,
    /// Only show what would be changed
    #[arg(long)]
    dry_run: bool,
    /// The agent's configuration; else an example is written, which logs and tells nobody yet
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The library; else the one beside this command
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &InstallArgs) -> ExitCode {
    let done = if args.undo { undo(args) } else { install(args) };
    match done {
        Ok(text) => {
            // Whoever reads it may have seen enough.
            let _ = io::stdout().lock().write_all(text.as_bytes());
            Verdict::Done.into()
        }
        Err(Refusal::NotDone(message)) => complain(Verdict::Misuse, message).into(),
        Err(Refusal::Faulty(message)) => complain(Verdict::Wrong, message).into(),
    }
}

/// Why it is not as it was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It could not be done.
    NotDone(String),
    /// It is done, and something is wrong.
    Faulty(String),
}

/// What was done to an installation.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Flink's configuration file.
    conf: PathBuf,
    format: ConfFormat,
    insertions: Vec<Insertion>,
    /// The option that was added.
    option: String,
}

/// An installation of Flink.
struct Home {
    /// Absolute, as the option names it.
    folder: PathBuf,
    conf: PathBuf,
    format: ConfFormat,
    version: String,
}

impl Home {
    fn at(folder: &Path) -> Result<Self, Refusal> {
        let folder = std::path::absolute(folder).map_err(|error| unusable(folder, &error))?;
        if let Some((character, harm)) = first_unsafe(&folder.to_string_lossy()) {
            return Err(Refusal::NotDone(format!(
                "{}: `{character}` in a path {harm} in Flink's start scripts; use another path",
                folder.display()
            )));
        }
        // The JVM ends the library's path at the first `=`, and options end at a `,`.
        if folder.to_string_lossy().contains(['=', ',']) {
            return Err(Refusal::NotDone(format!(
                "{}: in -agentpath a `=` ends the path of the library, and a `,` an option; use another path",
                folder.display()
            )));
        }
        let version = version_in(&folder.join("lib")).ok_or_else(|| {
            Refusal::NotDone(format!("{}: no Flink here; it has no lib/flink-dist-VERSION.jar", folder.display()))
        })?;
        let candidates = ConfFormat::candidates(&version).iter();
        let files = candidates.map(|(format, name)| (*format, folder.join("conf").join(name)));
        let (format, conf) = files.into_iter().find(|(_, file)| file.is_file()).ok_or_else(|| {
            let names: Vec<_> = ConfFormat::candidates(&version).iter().map(|(_, name)| *name).collect();
            let folder = folder.join("conf");
            Refusal::NotDone(format!(
                "{}: Flink {version} reads {}, and it is not there",
                folder.display(),
                names.join(" or ")
            ))
        })?;
        Ok(Self { folder, conf, format, version })
    }

    fn own(&self, name: &str) -> PathBuf {
        self.folder.join("leaderwatch").join(name)
    }

    fn record(&self) -> Result<Option<Record>, Refusal> {
        let file = self.own(RECORD);
        match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Refusal::NotDone(format!("{}: {error}; take the option out by hand", file.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&file, &error)),
        }
    }
}

/// Flink's version by the jars in its folder `lib`.
fn version_in(lib: &Path) -> Option<String> {
    let jars = fs::read_dir(lib).ok()?;
    let mut names = jars.filter_map(|jar| jar.ok()?.file_name().into_string().ok());
    names.find_map(|name| flink_version(&name))
}

fn install(args: &InstallArgs) -> Result<String, Refusal> {
    let home = Home::at(&args.flink_home)?;
    let library = library(args)?;
    let config = config(args, &home)?;
    let errors = errors_in(args.config.as_deref())?;
    let option = format!("-agentpath:{}=config={}", home.own(LIBRARY).display(), config.display());
    let before = read(&home.conf)?;
    if let Some(fault) = strict_fault(&home, &before) {
        return Err(fault);
    }
    let mut record = home.record()?.unwrap_or_else(|| Record {
        conf: home.conf.clone(),
        format: home.format,
        insertions: Vec::new(),
        option: option.clone(),
    });
    let after = add_options(&home, &before, &option, &mut record)?;

    let mut text = format!("Flink {} in {}\n", home.version, home.folder.display());
    if !is_same(&library, &home.own(LIBRARY)) {
        let _ = writeln!(text, "copy  {} to {}", library.display(), home.own(LIBRARY).display());
    }
    let writes_config = args.config.is_none() && !config.exists();
    if writes_config {
        let _ = writeln!(text, "write {}, an example", config.display());
    }
    text.push_str(&diff(&home.conf, &before, &after));
    if args.dry_run {
        return Ok(text + "Nothing is changed: this is a dry run.\n");
    }
    if after != before {
        writable(&home.conf)?;
    }
    // Shown before it is done, so that it is seen also where something of it fails.
    print(&text);
    let folder = home.folder.join("leaderwatch");
    fs::create_dir_all(&folder).map_err(|error| unusable(&folder, &error))?;
    if !is_same(&library, &home.own(LIBRARY)) {
        // By a new file: a JVM that runs goes on with the old one.
        let bytes = fs::read(&library).map_err(|error| unusable(&library, &error))?;
        put(&home.own(LIBRARY), &bytes, None)?;
    }
    if writes_config {
        put(&config, quiet_example().as_bytes(), None)?;
    }
    if after == before {
        return Ok("Flink's configuration names the agent already; it is left as it is.\n".to_owned());
    }
    // The record first: what it says too much is found missing at an undo, what it says too little would be left behind.
    let bytes = serde_json::to_vec_pretty(&record).map_err(|error| Refusal::NotDone(error.to_string()))?;
    put(&home.own(RECORD), &bytes, None)?;
    put(&home.conf, after.as_bytes(), Some(&home.conf))?;
    if errors > 0 {
        return Err(Refusal::Faulty(format!(
            "the agent is installed, but its configuration has errors ({errors}), which disable a part each: mend them, as \
             `leaderwatch check {}` tells, then restart JobManagers and TaskManagers",
            config.display()
        )));
    }
    Ok(format!("Done. Name your targets in {}, then restart JobManagers and TaskManagers.\n", config.display()))
}

/// What keeps Flink itself from reading its configuration.
fn strict_fault(home: &Home, text: &str) -> Option<Refusal> {
    let fault = (home.format == ConfFormat::Standard).then(|| first_fault(text)).flatten()?;
    Some(Refusal::NotDone(format!(
        "{}:{}: {}: Flink {} does not start with it; mend it first",
        home.conf.display(),
        fault.line,
        fault.reason,
        home.version
    )))
}

/// Flink's configuration with the option under both keys.
fn add_options(home: &Home, before: &str, option: &str, record: &mut Record) -> Result<String, Refusal> {
    let refused = |error| Refusal::NotDone(format!("{}: {error}", home.conf.display()));
    for key in KEYS_OF_ALL {
        // One that cannot be read on one line is not looked into.
        if flink_edit::value_of(before, home.format, key).ok().flatten().is_some_and(|value| value.contains(LIBRARY)) {
            return Err(Refusal::NotDone(format!(
                "{}: the agent stands under `{key}` already, for every JVM; take it out there first",
                home.conf.display()
            )));
        }
    }
    let mut text = before.to_owned();
    for key in KEYS {
        let value = flink_edit::value_of(&text, home.format, key).map_err(refused)?.unwrap_or_default();
        if value.split_whitespace().any(|word| word == option) {
            continue;
        }
        if matches!(value, "~" | "null" | "Null" | "NULL") {
            return Err(Refusal::NotDone(format!(
                "{}: `{key}` is `{value}`, behind which the option would be a word beside it; take that out first",
                home.conf.display()
            )));
        }
        if value.contains(LIBRARY) {
            return Err(Refusal::NotDone(format!(
                "{}: `{key}` names the agent already, with other options; take that out first, or leave it so",
                home.conf.display()
            )));
        }
        let (edited, insertion) = flink_edit::add(&text, home.format, key, option).map_err(refused)?;
        text = edited;
        record.insertions.retain(|earlier| earlier.key != key);
        record.insertions.push(insertion);
    }
    Ok(text)
}

fn undo(args: &InstallArgs) -> Result<String, Refusal> {
    let home = Home::at(&args.flink_home)?;
    let Some(record) = home.record()? else {
        return Ok(format!("{}: nothing was installed by this command\n", home.folder.display()));
    };
    let before = read(&record.conf)?;
    let mut after = before.clone();
    for insertion in record.insertions.iter().rev() {
        // Taken out by hand, or never put in: there is nothing to take back.
        let value = flink_edit::value_of(&after, record.format, &insertion.key).ok().flatten().unwrap_or_default();
        if !value.split_whitespace().any(|word| word == record.option) {
            continue;
        }
        after = flink_edit::take_back(&after, record.format, insertion)
            .map_err(|error| Refusal::NotDone(format!("{}: {error}", record.conf.display())))?;
    }
    let mut text = diff(&record.conf, &before, &after);
    let config = home.own(CONFIG);
    let is_own = fs::read(&config).is_ok_and(|bytes| bytes == quiet_example().as_bytes());
    if !is_own && config.exists() {
        let _ = writeln!(text, "keep  {}, which is not the example any more", config.display());
    }
    if args.dry_run {
        return Ok(text + "Nothing is changed: this is a dry run.\n");
    }
    print(&text);
    put(&record.conf, after.as_bytes(), Some(&record.conf))?;
    let own = [(LIBRARY, true), (CONFIG, is_own), (RECORD, true)];
    for file in own.iter().filter(|(_, goes)| *goes).map(|(name, _)| home.own(name)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(&file, &error)),
            _ => {}
        }
    }
    // What else lies there is the user's.
    let _ = fs::remove_dir(home.folder.join("leaderwatch"));
    Ok("Done. It takes effect when JobManagers and TaskManagers start again.\n".to_owned())
}

/// The library to copy.
fn library(args: &InstallArgs) -> Result<PathBuf, Refusal> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name(LIBRARY));
    let file = args.library.clone().or_else(beside).unwrap_or_else(|| PathBuf::from(LIBRARY));
    if !file.is_file() {
        let what = if file.is_dir() { "is a folder; name the library in it" } else { "no such library; name it" };
        return Err(Refusal::NotDone(format!("{}: {what} by --library", file.display())));
    }
    let mut head = [0; 20];
    let read = fs::File::open(&file).and_then(|mut library| library.read_exact(&mut head));
    if read.is_err() || head[..5] != *b"\x7fELF\x02" || head[16..20] != [SHARED_OBJECT, 0, MACHINE, 0] {
        // A JVM that is to load something else does not start.
        return Err(Refusal::NotDone(format!(
            "{}: is no library for Linux on {}",
            file.display(),
            std::env::consts::ARCH
        )));
    }
    Ok(file)
}

/// `e_type` of a library, and `e_machine` of this machine, in the head of an ELF file.
const SHARED_OBJECT: u8 = 3;
const MACHINE: u8 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The configuration that the option is to name.
fn config(args: &InstallArgs, home: &Home) -> Result<PathBuf, Refusal> {
    let Some(file) = &args.config else { return Ok(home.own(CONFIG)) };
    if !file.is_file() {
        let what = if file.is_dir() { "is a folder; name the file in it" } else { "no such file" };
        return Err(Refusal::NotDone(format!("{}: {what}", file.display())));
    }
    let file = std::path::absolute(file).map_err(|error| unusable(file, &error))?;
    match first_unsafe(&file.to_string_lossy()) {
        // It separates options.
        None if !file.to_string_lossy().contains(',') => Ok(file),
        _ => Err(Refusal::NotDone(format!(
            "{}: its path does not survive Flink's start scripts; use letters, digits and / . _ - only",
            file.display()
        ))),
    }
}

/// How many errors the configuration has that the user named.
fn errors_in(config: Option<&Path>) -> Result<usize, Refusal> {
    let Some(file) = config else { return Ok(0) };
    check_file(Some(file), "", &tried, &SystemEnvironment).map(|report| report.errors).map_err(|error| {
        Refusal::NotDone(format!("{}: {error}; {}", file.display(), cure_of_reading(error.kind(), "you")))
    })
}

/// The example with its one target out of effect: an agent that is just installed tells nobody.
fn quiet_example() -> String {
    let is_table = |line: &str| line.starts_with('[') && !line.starts_with("[[");
    let quiet = |line: &str| if line.is_empty() || line.starts_with('#') || is_table(line) { "" } else { "#" };
    example().lines().fold(String::new(), |text, line| text + quiet(line) + line + "\n")
}

/// What changes between two texts of which one has a few lines more or longer ones, with their numbers.
fn diff(file: &Path, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let mut text = format!("change {}\n", file.display());
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let (mut at_old, mut at_new) = (0, 0);
    let (most, least) = if new.len() >= old.len() { (&new, &old) } else { (&old, &new) };
    let mut spare = most.len() - least.len();
    while at_old < old.len() || at_new < new.len() {
        let (line_old, line_new) = (old.get(at_old), new.get(at_new));
        if line_old == line_new {
            (at_old, at_new) = (at_old + 1, at_new + 1);
            continue;
        }
        let is_replaced =
            line_old.zip(line_new).is_some_and(|(a, b)| a.starts_with(b) || b.starts_with(a) || spare == 0);
        if is_replaced || new.len() < old.len() {
            let _ = writeln!(text, "{:>5} - {}", at_old + 1, line_old.unwrap_or(&""));
            at_old += 1;
        }
        if is_replaced || new.len() >= old.len() {
            let _ = writeln!(text, "{:>5} + {}", at_new + 1, line_new.unwrap_or(&""));
            at_new += 1;
        }
        if !is_replaced {
            spare = spare.saturating_sub(1);
        }
    }
    text
}

fn print(text: &str) {
    let mut out = io::stdout().lock();
    // Whoever reads it may have seen enough; what was called for is done all the same.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn read(file: &Path) -> Result<String, Refusal> {
    fs::read_to_string(file).map_err(|error| unusable(file, &error))
}

/// Puts a file in the place of another in one step, or of none.
fn put(file: &Path, bytes: &[u8], model: Option<&Path>) -> Result<(), Refusal> {
    replace(file, bytes, model).map_err(|error| unusable(file, &error))
}

/// Whether the file can be replaced: asked before anything is done, so that nothing is left half done.
fn writable(file: &Path) -> Result<(), Refusal> {
    let target = fs::canonicalize(file).map_err(|error| unusable(file, &error))?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    let access = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(io::Error::from);
    access(&target).map_err(|error| unusable(&target, &error))?;
    access(folder).map_err(|error| unusable(folder, &error))
}

fn unusable(file: &Path, error: &io::Error) -> Refusal {
    Refusal::NotDone(format!("{}: {error}; check the path and that you may read and write there", file.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A Flink home with that configuration, and a library to install.
    fn home(version: &str, name: &str, conf: &str) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        for folder in ["lib", "conf"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join(format!("lib/flink-dist-{version}.jar")), "").unwrap();
        fs::write(home.path().join("conf").join(name), conf).unwrap();
        let head = [&b"\x7fELF\x02"[..], &[0; 11], &[SHARED_OBJECT, 0, MACHINE, 0]].concat();
        fs::write(home.path().join("library.so"), head).unwrap();
        home
    }

    fn args(home: &TempDir) -> InstallArgs {
        InstallArgs {
            flink_home: home.path().to_owned(),
            undo: false,
            dry_run: false,
            config: None,
            library: Some(home.path().join("library.so")),
        }
    }

    fn conf(home: &TempDir, name: &str) -> String {
        fs::read_to_string(home.path().join("conf").join(name)).unwrap()
    }

    #[test]
    fn installing_twice_is_once_and_undoing_leaves_nothing() {
        for (version, name, before) in [
            ("1.14.6", "flink-conf.yaml", "a: b\nenv.java.opts.jobmanager: -Dx=y\n"),
            ("2.3.0", "config.yaml", "a:\n  b: c\n"),
        ] {
            let home = home(version, name, before);
            install(&args(&home)).unwrap();
            let once = conf(&home, name);
            assert_eq!(once.matches(LIBRARY).count(), 2, "{once}");
            assert!(install(&args(&home)).unwrap().contains("already"));
            assert_eq!(conf(&home, name), once);
            undo(&InstallArgs { undo: true, ..args(&home) }).unwrap();
            assert_eq!(conf(&home, name), before);
            assert!(!home.path().join("leaderwatch").exists());
            assert!(undo(&InstallArgs { undo: true, ..args(&home) }).unwrap().contains("nothing was installed"));
        }
    }

    #[test]
    fn a_dry_run_shows_the_change_and_makes_none() {
        let home = home("1.14.6", "flink-conf.yaml", "a: b\nenv.java.opts.jobmanager: -Dx=y\nc: d\n");
        let shown = install(&InstallArgs { dry_run: true, ..args(&home) }).unwrap();
        let option =
            format!("-agentpath:{0}/leaderwatch/{LIBRARY}=config={0}/leaderwatch/{CONFIG}", home.path().display());
        for line in [
            "    2 - env.java.opts.jobmanager: -Dx=y".to_owned(),
            format!("    2 + env.java.opts.jobmanager: -Dx=y {option}"),
            format!("    4 + env.java.opts.taskmanager: {option}"),
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\nis not in\n{shown}");
        }
        assert_eq!(shown.lines().filter(|line| line.contains(" - ") || line.contains(" + ")).count(), 3, "{shown}");
        assert_eq!(conf(&home, "flink-conf.yaml").matches(LIBRARY).count(), 0);
        assert!(!home.path().join("leaderwatch").exists());
    }

    #[test]
    fn what_the_user_changed_since_is_kept() {
        let home = home("2.3.0", "config.yaml", "a: b\n");
        install(&args(&home)).unwrap();
        let file = home.path().join("conf/config.yaml");
        fs::write(&file, conf(&home, "config.yaml") + "c: d\n").unwrap();
        fs::write(home.path().join("leaderwatch").join(CONFIG), "cluster = 'mine'\n").unwrap();
        assert!(install(&args(&home)).unwrap().contains("already"));
        undo(&InstallArgs { undo: true, ..args(&home) }).unwrap();
        assert_eq!(conf(&home, "config.yaml"), "a: b\nc: d\n");
        assert!(home.path().join("leaderwatch").join(CONFIG).is_file());
        assert!(!home.path().join("leaderwatch").join(LIBRARY).exists());
    }

    /// Holds a fault: whoever had taken the option out by hand could never undo the rest.
    #[test]
    fn what_was_taken_out_by_hand_is_no_hindrance() {
        let home = home("2.3.0", "config.yaml", "a: b\n");
        install(&args(&home)).unwrap();
        fs::write(home.path().join("conf/config.yaml"), "a: b\n").unwrap();
        undo(&InstallArgs { undo: true, ..args(&home) }).unwrap();
        assert_eq!(conf(&home, "config.yaml"), "a: b\n");
        assert!(!home.path().join("leaderwatch").exists());
    }

    #[test]
    fn an_agent_that_stands_there_by_hand_is_not_doubled() {
        for key in ["env.java.opts.all", "env.java.opts", "env.java.opts.taskmanager"] {
            let before = format!("{key}: -agentpath:/x/{LIBRARY}=cluster=a\n");
            let home = home("1.20.5", "config.yaml", &before);
            let refusal = install(&args(&home)).unwrap_err();
            assert!(matches!(&refusal, Refusal::NotDone(why) if why.contains(key)), "{refusal:?}");
            assert_eq!(conf(&home, "config.yaml"), before);
        }
    }

    #[test]
    fn what_is_no_flink_or_has_no_library_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let elsewhere = InstallArgs { flink_home: empty.path().to_owned(), ..args(&empty) };
        assert!(matches!(install(&elsewhere), Err(Refusal::NotDone(why)) if why.contains("no Flink here")));
        let home = home("2.3.0", "flink-conf.yaml", "a: b\n");
        assert!(matches!(install(&args(&home)), Err(Refusal::NotDone(why)) if why.contains("reads config.yaml")));
        let no_library = InstallArgs { library: Some(empty.path().join("none.so")), ..args(&home) };
        fs::write(home.path().join("conf/config.yaml"), "").unwrap();
        assert!(matches!(install(&no_library), Err(Refusal::NotDone(why)) if why.contains("--library")));
    }

    #[test]
    fn the_configuration_that_is_named_is_the_one_in_the_option() {
        let home = home("1.20.5", "config.yaml", "a: b\n");
        let own = home.path().join("own.toml");
        fs::write(&own, "").unwrap();
        install(&InstallArgs { config: Some(own.clone()), ..args(&home) }).unwrap();
        assert_eq!(conf(&home, "config.yaml").matches(&format!("=config={}", own.display())).count(), 2);
        assert!(!home.path().join("leaderwatch").join(CONFIG).exists());
    }

    #[test]
    fn what_flink_cannot_read_is_left_alone() {
        let before = "a: b\na: c\n";
        let home = home("2.3.0", "config.yaml", before);
        assert!(
            matches!(install(&args(&home)), Err(Refusal::NotDone(why)) if why.contains("config.yaml:2: the key `a`"))
        );
        assert_eq!(conf(&home, "config.yaml"), before);
    }

    /// Holds faults: a JVM takes `a` for the library in `a=b`, and `null` for its main class.
    #[test]
    fn what_a_jvm_would_not_start_with_is_never_written() {
        for value in ["~", "null"] {
            let before = format!("env.java.opts.taskmanager: {value}\n");
            let home = home("2.3.0", "config.yaml", &before);
            assert!(matches!(install(&args(&home)), Err(Refusal::NotDone(why)) if why.contains("take that out")));
            assert_eq!(conf(&home, "config.yaml"), before);
        }
        let home = home("2.3.0", "config.yaml", "a: b\n");
        for name in ["a=b", "a,b"] {
            let flink_home = home.path().join(name);
            let refused = install(&InstallArgs { flink_home, ..args(&home) });
            assert!(matches!(refused, Err(Refusal::NotDone(why)) if why.contains("another path")), "{name}");
        }
    }

    /// A file that only its owner may read stays so, and a link stays a link.
    #[test]
    fn the_file_keeps_its_mode_and_its_link() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let home = home("2.3.0", "real.yaml", "a: b\n");
        let (real, link) = (home.path().join("conf/real.yaml"), home.path().join("conf/config.yaml"));
        symlink("real.yaml", &link).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        install(&args(&home)).unwrap();
        assert!(link.is_symlink());
        assert!(conf(&home, "real.yaml").contains(LIBRARY));
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_example_that_is_written_tells_nobody() {
        use leaderwatch_agent::config::{MailDefaults, SystemEnvironment, parse_file};
        let text = quiet_example();
        let (settings, problems) =
            parse_file(&text, Path::new("lw.toml"), &MailDefaults::default(), &SystemEnvironment);
        assert_eq!((settings.targets.len(), problems.len()), (0, 0), "{problems:?}");
    }
}
