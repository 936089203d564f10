//! Judges a configuration for people: what `leaderwatch check` prints.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::environment::Environment;
use super::flink_edit::ConfFormat;
use super::mounts::short_lived_file_system;
use super::options::Options;
use super::reader::quoted;
use super::readiness::{Circumstances, Finding, Readiness, assess, default_alert_settings};
use super::strict_yaml::first_fault;
use super::{
    AlertSettings, EMAIL_TARGET, Effect, EffectiveTable, Fault, FileSettings, FlinkConf, MailDefaults, Place, Problem,
    TargetSettings, WEBHOOK_TARGET, Weight, keys, parse_file, parse_options,
};

/// A judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What to print.
    pub text: String,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
}

impl Report {
    fn new(text: String, weights: impl Iterator<Item = Weight>) -> Self {
        let (errors, warnings): (Vec<Weight>, Vec<Weight>) = weights.partition(|weight| *weight == Weight::Error);
        Self { text, errors: errors.len(), warnings: warnings.len() }
    }
}

/// Why a target cannot be made of its settings. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hindrance {
    /// Why, and what to do.
    pub reason: String,
    /// A warning where it may be otherwise in the place where Flink runs.
    pub weight: Weight,
}

/// Tries to make a target, as the agent would.
pub type Trial<'t> = &'t dyn Fn(&TargetSettings) -> Option<Hindrance>;

/// Judges a file, the agent's options, or both; the file is the one given, else the one that the options name. An error:
/// the file cannot be read.
pub fn check_file(path: Option<&Path>, options: &str, trial: Trial<'_>, env: &dyn Environment) -> io::Result<Report> {
    let (options, mut problems) = parse_options(options, env);
    let path = path.or(options.config.as_deref()).unwrap_or(Path::new(""));
    let text = if path.as_os_str().is_empty() { String::new() } else { env.read(path)? };
    let mail = MailDefaults { smtp: options.smtp.clone(), from: "leaderwatch@HOST".to_owned() };
    let (file, found) = parse_file(&text, path, &mail, env);
    problems.extend(found);
    let (targets, places) = super::targets(&options, &file, env, &mut problems);
    tell_unusable(&targets, &places, trial, &mut problems);
    problems.extend(lasting_problem(path, &file, &options, env));
    problems.extend(target_problem(path, &file, &options));
    let mut text = listing(&problems);
    text.push_str("\nWhat takes effect (secrets masked):\n\n");
    for table in effective(file.effective, &options, &targets, &problems) {
        push_table(&mut text, &table);
    }
    Ok(Report::new(text, problems.iter().map(|problem| problem.weight)))
}

/// Tells targets that cannot be made though each key is of its form, and are not known to be disabled.
fn tell_unusable(targets: &[TargetSettings], places: &[Place], trial: Trial<'_>, problems: &mut Vec<Problem>) {
    for (target, place) in targets.iter().zip(places) {
        let key = format!("target.{}", target.name);
        let is_disabled = Effect::TargetDisabled(target.name.clone());
        let is_told = problems.iter().any(|problem| problem.effect == is_disabled && problem.place.is_of(place));
        let Some(Hindrance { reason, weight }) = trial(target).filter(|_| !is_told) else { continue };
        let effect = match weight {
            Weight::Error => is_disabled,
            Weight::Warning => Effect::None,
        };
        problems.push(Problem { place: place.clone(), key, fault: Fault::Unusable { reason }, effect, weight });
    }
}

/// Judges whether the cluster of a configuration folder is ready to fail over. None: the folder has no configuration
/// of Flink.
pub fn check_flink_conf(
    folder: &Path,
    version: Option<&str>,
    alert: Option<&AlertSettings>,
    env: &dyn Environment,
) -> Result<Option<Report>, Box<Problem>> {
    let Some(conf) = FlinkConf::read_folder(folder, version, env)? else { return Ok(None) };
    let defaults = default_alert_settings(env);
    let masters = env.read(&folder.join("masters")).ok().map(|text| lines_with_hosts(&text));
    let circumstances = Circumstances { version, masters, alert: alert.unwrap_or(&defaults) };
    let mut readiness = assess(&conf, circumstances, env);
    readiness.findings.splice(0..0, conf.file.as_deref().and_then(|file| unreadable_for_flink(file, env)));
    let mut text = String::new();
    if let Some(file) = &conf.file {
        let version = version.map_or_else(String::new, |version| format!(" (Flink {version})"));
        let _ = writeln!(text, "{}{version}\n", file.display());
    }
    push_readiness(&mut text, &readiness);
    Ok(Some(Report::new(text, readiness.findings.iter().map(|finding| finding.weight))))
}

/// A `config.yaml` that Flink refuses as a whole.
fn unreadable_for_flink(file: &Path, env: &dyn Environment) -> Option<Finding> {
    let name = file.file_name()?.to_str()?;
    let is_strict = name == ConfFormat::Standard.file_name();
    let fault = is_strict.then(|| env.read(file).ok()).flatten().and_then(|text| first_fault(&text))?;
    Some(Finding {
        weight: Weight::Error,
        key: format!("{name}:{}", fault.line),
        reason: format!("{}: Flink does not start with this file, and what is told of it may be wrong", fault.reason),
        cure: format!("mend line {} or the one behind it", fault.line),
    })
}

/// `masters` names a JobManager a line; `#` begins a comment (`config.sh`).
fn lines_with_hosts(text: &str) -> usize {
    text.lines().filter(|line| !line.split('#').next().unwrap_or_default().trim().is_empty()).count()
}

fn lasting_problem(path: &Path, file: &FileSettings, options: &Options, env: &dyn Environment) -> Option<Problem> {
    let (folder, place) = match (&options.state, &file.state) {
        (Some(folder), _) => (folder, Place::Options),
        (None, Some(folder)) => (folder, Place::File { path: path.to_owned(), line: None }),
        (None, None) => return None,
    };
    let file_system = short_lived_file_system(folder, env)?;
    let fault = Fault::ShortLived { path: folder.clone(), file_system };
    Some(warning(place, keys::STATE.name, fault))
}

fn target_problem(path: &Path, file: &FileSettings, options: &Options) -> Option<Problem> {
    let has_none = file.targets.is_empty() && options.webhook.is_none() && options.email.is_none();
    let place =
        if path.as_os_str().is_empty() { Place::Options } else { Place::File { path: path.to_owned(), line: None } };
    has_none.then(|| warning(place, "target", Fault::NoTarget))
}

fn warning(place: Place, key: &str, fault: Fault) -> Problem {
    Problem { place, key: key.to_owned(), fault, effect: Effect::None, weight: Weight::Warning }
}

fn listing(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let _ = writeln!(text, "{}: {}", weight_name(problem.weight), problem.what());
        let effect = problem.effect.to_string();
        push_paragraph(&mut text, &problem.fault.reason(), &problem.fault.cure(), &effect);
    }
    push_count(&mut text, problems.iter().map(|problem| problem.weight));
    text
}

fn push_readiness(text: &mut String, readiness: &Readiness) {
    for (name, value) in &readiness.figures {
        let _ = writeln!(text, "{name}:\n  {value}");
    }
    text.push('\n');
    for finding in &readiness.findings {
        let _ = writeln!(text, "{}: `{}`", weight_name(finding.weight), finding.key);
        push_paragraph(text, &finding.reason, &finding.cure, "");
    }
    push_count(text, readiness.findings.iter().map(|finding| finding.weight));
}

fn weight_name(weight: Weight) -> &'static str {
    match weight {
        Weight::Error => "error",
        Weight::Warning => "warning",
    }
}

fn push_paragraph(text: &mut String, reason: &str, cure: &str, effect: &str) {
    let _ = writeln!(text, "  {reason}");
    if !cure.is_empty() {
        let _ = writeln!(text, "  cure: {cure}");
    }
    if !effect.is_empty() {
        let _ = writeln!(text, "  until then: {effect}");
    }
}

fn push_count(text: &mut String, weights: impl Iterator<Item = Weight>) {
    let (errors, warnings): (Vec<Weight>, Vec<Weight>) = weights.partition(|weight| *weight == Weight::Error);
    let counted = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let _ = writeln!(text, "{}, {}", counted(errors.len(), "error"), counted(warnings.len(), "warning"));
}

fn push_table(text: &mut String, table: &EffectiveTable) {
    if table.lines.is_empty() {
        return;
    }
    let off = if table.is_disabled { "# disabled: " } else { "" };
    if !table.header.is_empty() {
        let _ = writeln!(text, "{off}{}", table.header);
    }
    for (key, value) in &table.lines {
        let _ = writeln!(text, "{off}{key} = {value}");
    }
    text.push('\n');
}

/// What the file says, with what the options put in its place, and with the targets that a problem disables marked so.
fn effective(
    mut tables: Vec<EffectiveTable>,
    options: &Options,
    targets: &[TargetSettings],
    problems: &[Problem],
) -> Vec<EffectiveTable> {
    let disabled: Vec<String> = problems
        .iter()
        .filter_map(|problem| match &problem.effect {
            Effect::TargetDisabled(name) => Some(quoted(name)),
            _ => None,
        })
        .collect();
    let without_fallback: Vec<String> =
        targets.iter().filter(|target| target.fallback.is_none()).map(|target| quoted(&target.name)).collect();
    for table in tables.iter_mut().filter(|table| table.header == TARGET) {
        let is_named =
            |names: &[String]| table.lines.iter().any(|(key, value)| key == keys::NAME.name && names.contains(value));
        let (is_disabled, has_no_fallback) = (is_named(&disabled), is_named(&without_fallback));
        table.is_disabled |= is_disabled;
        table.lines.retain(|(key, _)| !(has_no_fallback && key == keys::FALLBACK.name));
    }
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| quoted(&path.display().to_string()));
    let text = |text: &Option<String>| text.as_deref().map(quoted);
    let settings = [
        ("", keys::CLUSTER.name, text(&options.cluster)),
        ("", keys::NAMESPACE.name, text(&options.namespace)),
        ("", keys::LOG.name, path(&options.log)),
        ("", keys::STATE.name, path(&options.state)),
        ("[alert]", keys::GROUP_WAIT.name, options.group_wait.map(|wait| quoted(&super::format_duration(wait)))),
    ];
    for (header, key, value) in settings {
        if let (Some(value), Some(table)) = (value, tables.iter_mut().find(|table| table.header == header)) {
            let value = value + BY_OPTIONS;
            match table.lines.iter_mut().find(|(known, _)| known == key) {
                Some((_, of_file)) => *of_file = value,
                None => table.lines.push((key.to_owned(), value)),
            }
        }
    }
    tables.extend(option_tables(options));
    tables
}

const TARGET: &str = "[[target]]";
/// Stands behind what the options say.
const BY_OPTIONS: &str = "  # by the options";

/// The targets that the options make.
fn option_tables(options: &Options) -> impl Iterator<Item = EffectiveTable> {
    let table = |name: &str, more: Vec<(&str, Option<String>)>| {
        let name = [("name", Some(quoted(name) + BY_OPTIONS)), ("kind", Some(quoted(name)))];
        let lines = name.into_iter().chain(more).filter_map(|(key, value)| Some((key.to_owned(), value?)));
        EffectiveTable { header: TARGET.to_owned(), lines: lines.collect(), is_disabled: false }
    };
    let webhook = options.webhook.as_ref();
    let webhook = webhook.map(|url| table(WEBHOOK_TARGET, vec![("url", Some(quoted(&url.to_string())))]));
    let email = options.email.as_ref().map(|to| {
        let to: Vec<String> = to.iter().map(|address| quoted(address)).collect();
        let smtp = options.smtp.as_ref().map(ToString::to_string);
        let more = vec![
            ("smtp", Some(quoted(&smtp.unwrap_or_else(|| keys::SMTP.default.unwrap_or_default().to_owned())))),
            ("from", options.email_from.as_deref().map(quoted)),
            ("to", Some(format!("[{}]", to.join(", ")))),
        ];
        table(EMAIL_TARGET, more)
    });
    webhook.into_iter().chain(email)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::super::example;
    use super::*;

    fn report(file: &str, options: &str) -> Report {
        let env = FakeEnvironment::default()
            .with_mode("/lw.toml", 0o644, file)
            .with_file("/proc/self/mounts", "overlay / overlay rw 0 0\n");
        check_file(Some(Path::new("/lw.toml")), options, &|_| None, &env).unwrap()
    }

    #[test]
    fn the_example_passes() {
        let env = FakeEnvironment::default().with_file("/lw.toml", &example());
        let report = check_file(Some(Path::new("/lw.toml")), "", &|_| None, &env).unwrap();
        assert_eq!((report.errors, report.warnings), (0, 0), "{}", report.text);
        insta::assert_snapshot!(report.text);
    }

    #[test]
    fn every_problem_stands_with_line_key_reason_and_cure() {
        let file = "\
cluster = \"orders\"
state = \"/var/lib/leaderwatch\"
languge = \"en\"
[alert]
group_wait = \"2\"
[[target]]
name = \"chat\"
kind = \"slack\"
url = \"https://hooks.slack.com/services/T/B/MARKED\"
secret = \"MARKED\"
[[target]]
kind = \"email\"
to = [\"oncall@example.org\", \"nobody\"]
username = \"lw\"
password = \"MARKED\"
[[target]]
kind = \"telegram\"
token_file = \"/missing\"
";
        let report = report(file, "webhook=https://hooks.slack.com/services/MARKED,group_wait=1s,cluster=a;b");
        assert!(!report.text.contains("MARKED"), "{}", report.text);
        insta::assert_snapshot!(report.text);
    }

    #[test]
    fn what_takes_effect_is_what_takes_effect() {
        let file = "\
[[target]]
name = \"gone\"
kind = \"slack\"
url_file = \"/missing\"
[[target]]
name = \"own\"
kind = \"webhook\"
url = \"https://h.example/\"
fallback = \"own\"
username = \"alone\"
[[target]]
name = \"beat\"
kind = \"heartbeat\"
url = \"https://h.example/\"
classes = [\"failover\"]
[[target]]
name = \"refused\"
kind = \"slack\"
url = \"https://h.example/\"
";
        let env = FakeEnvironment::default().with_file("/lw.toml", file);
        let refused = Hindrance { reason: "it cannot be".to_owned(), weight: Weight::Error };
        let trial = |target: &TargetSettings| (target.name != "beat").then(|| refused.clone());
        let report = check_file(Some(Path::new("/lw.toml")), "", &trial, &env).unwrap();
        insta::assert_snapshot!(report.text);
    }

    #[test]
    fn a_file_without_targets_is_warned_of_and_a_missing_file_is_an_error() {
        let report = report("", "");
        assert_eq!((report.errors, report.warnings), (0, 1));
        assert!(report.text.contains("no target"), "{}", report.text);
        assert!(check_file(Some(Path::new("/missing")), "", &|_| None, &FakeEnvironment::default()).is_err());
    }

    #[test]
    fn a_folder_is_judged_by_the_file_that_flink_would_read() {
        let env = FakeEnvironment::default()
            .with_file("/conf/config.yaml", "high-availability.type: zookeeper\n")
            .with_file("/conf/masters", "# none\nlocalhost:8081\n");
        let report = check_flink_conf(Path::new("/conf"), Some("2.3.0"), None, &env).unwrap().unwrap();
        insta::assert_snapshot!(report.text);
        assert_eq!(check_flink_conf(Path::new("/empty"), None, None, &env), Ok(None));
    }
}
