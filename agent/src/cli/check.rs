//! `leaderwatch check`: is it configured rightly?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use leaderwatch_agent::clock::SystemClock;
use leaderwatch_agent::config::{
    AlertSettings, Environment, Hindrance, MailDefaults, Report, SystemEnvironment, TargetSettings, Weight,
    behind_agentpath, check_file, check_flink_conf, cure_of_reading, example, flink_version, parse_file, parse_options,
    schema,
};
use leaderwatch_agent::target::{Builder, NotBuilt};

use super::{Verdict, complain};

/// Checks a configuration: every problem at once, each with its place, reason and cure, and what takes effect.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)
    .args(["file", "options", "flink_conf", "example", "schema"])))]
pub struct CheckArgs {
    /// The configuration file
    file: Option<PathBuf>,
    /// The agent's options too: `key=value,...`, or the whole `-agentpath:...=...`
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Option<String>,
    /// Is this cluster ready to fail over? The folder of Flink's own configuration, or Flink's home
    #[arg(long, value_name = "FOLDER")]
    flink_conf: Option<PathBuf>,
    /// Flink's version; else that of the jars in `lib` beside the folder
    #[arg(long, value_name = "VERSION", requires = "flink_conf")]
    flink_version: Option<String>,
    /// Exit with status 1 on warnings too
    #[arg(long)]
    strict: bool,
    /// Print a commented file with every key
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print the JSON Schema of the file, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> ExitCode {
    let (text, verdict) = match judge(args, &SystemEnvironment) {
        Ok(judged) => judged,
        Err(message) => return complain(Verdict::Misuse, message).into(),
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => verdict.into(),
        // The reader has seen enough: `leaderwatch check ... | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => verdict.into(),
        Err(error) => complain(Verdict::Misuse, format_args!("standard output: {error}")).into(),
    }
}

/// What to print, and the verdict; or why nothing can be judged.
fn judge(args: &CheckArgs, env: &dyn Environment) -> Result<(String, Verdict), String> {
    if args.example {
        return Ok((example(), Verdict::Done));
    }
    if args.schema {
        return Ok((format!("{:#}\n", schema()), Verdict::Done));
    }
    let mut reports = Vec::new();
    if args.file.is_some() || args.options.is_some() {
        reports.push(own_report(args, env)?);
    }
    if let Some(folder) = &args.flink_conf {
        reports.push(flink_report(args, folder, env)?);
    }
    let is_wrong = reports.iter().any(|report| report.errors > 0 || (args.strict && report.warnings > 0));
    let text = reports.into_iter().map(|report| report.text).collect::<Vec<_>>().join("\n");
    Ok((text, if is_wrong { Verdict::Wrong } else { Verdict::Done }))
}

fn own_report(args: &CheckArgs, env: &dyn Environment) -> Result<Report, String> {
    let options = behind_agentpath(args.options.as_deref().unwrap_or_default());
    let named = parse_options(options, env).0.config;
    let file = args.file.as_deref().or(named.as_deref());
    check_file(file, options, &tried, env).map_err(|error| {
        let cure = cure_of_reading(error.kind(), "you");
        format!("{}: {error}; {cure}", file.unwrap_or(Path::new("")).display())
    })
}

/// Makes the target as the agent would, and sends nothing.
pub(super) fn tried(target: &TargetSettings) -> Option<Hindrance> {
    let hindrance = Builder::new(Arc::new(SystemClock::new())).build(target).err()?;
    // Flink may well run in a pod where this command does not.
    let weight = if hindrance == NotBuilt::NoPod { Weight::Warning } else { Weight::Error };
    Some(Hindrance { reason: hindrance.to_string(), weight })
}

/// The folder that holds Flink's configuration: the one given, `conf` in it, or the one of the file given.
fn conf_folder(given: &Path) -> PathBuf {
    if given.is_file() {
        let parent = given.parent().filter(|parent| !parent.as_os_str().is_empty());
        return parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    }
    let below = given.join("conf");
    if below.is_dir() { below } else { given.to_owned() }
}

fn flink_report(args: &CheckArgs, folder: &Path, env: &dyn Environment) -> Result<Report, String> {
    let is_version =
        |text: &str| text.split('.').count() >= 2 && text.split('.').take(2).all(|part| part.parse::<u32>().is_ok());
    if let Some(wrong) = args.flink_version.as_deref().filter(|version| !is_version(version)) {
        return Err(format!("--flink-version: `{wrong}` is no version of Flink, such as 1.14.6 or 2.3.0"));
    }
    let folder = &conf_folder(folder);
    let version = args.flink_version.clone().or_else(|| version_beside(folder));
    let alert = args.file.as_deref().and_then(|file| alert_settings(file, env));
    match check_flink_conf(folder, version.as_deref(), alert.as_ref(), env) {
        Ok(Some(report)) => Ok(report),
        Ok(None) => Err(format!(
            "{}: no configuration of Flink here; name the folder that holds config.yaml or flink-conf.yaml",
            folder.display()
        )),
        Err(problem) => Err(problem.to_string()),
    }
}

fn alert_settings(file: &Path, env: &dyn Environment) -> Option<AlertSettings> {
    let text = env.read(file).ok()?;
    Some(parse_file(&text, file, &MailDefaults::default(), env).0.alert)
}

/// Flink's version by the jars in the folder `lib` of the same installation.
fn version_beside(folder: &Path) -> Option<String> {
    let jars = std::fs::read_dir(folder.join("../lib")).ok()?;
    let mut names = jars.filter_map(|jar| jar.ok()?.file_name().into_string().ok());
    names.find_map(|name| flink_version(&name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn judged(words: &[&str]) -> Result<(String, Verdict), String> {
        let command = Command::try_parse_from([&["check"], words].concat()).map_err(|error| error.to_string())?;
        judge(&command.args, &SystemEnvironment)
    }

    #[test]
    fn the_example_and_the_schema_are_printed() {
        assert!(judged(&["--example"]).unwrap().0.contains("[[target]]"));
        let (schema, verdict) = judged(&["--schema"]).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&schema).is_ok());
        assert_eq!(verdict, Verdict::Done);
    }

    #[test]
    fn the_verdict_follows_errors_and_on_demand_warnings() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let bad = path("bad.toml", "languge = 'en'\n");
        let bare = path("bare.toml", "");
        assert_eq!(judged(&[&bad]).unwrap().1, Verdict::Wrong);
        assert_eq!(judged(&[&bare]).unwrap().1, Verdict::Done);
        assert_eq!(judged(&[&bare, "--strict"]).unwrap().1, Verdict::Wrong);
        assert!(judged(&[folder.path().join("missing").to_str().unwrap()]).unwrap_err().contains("check the path"));
    }

    /// Regression: what `test` could not send with passed as sound.
    #[test]
    fn a_target_that_cannot_be_made_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (path, pem) = (folder.path().join("lw.toml"), folder.path().join("empty.pem"));
        std::fs::write(&pem, "no certificate").unwrap();
        let pem = pem.display();
        let unusable = [
            ("kind = 'webhook'\nurl = 'https://h.example/'\nsecret = 'no key'".to_owned(), "`secret`"),
            (format!("kind = 'slack'\nurl = 'https://h.example/'\nca_file = '{pem}'"), "empty.pem"),
            (
                format!("kind = 'slack'\nurl = 'https://h.example/'\nclient_cert = '{pem}'\nclient_key = '{pem}'"),
                "empty.pem",
            ),
            ("kind = 'slack'\nurl = 'https://h.example/'\nserver_name = 'a b'".to_owned(), "`a b`"),
            ("kind = 'email'\nto = ['a@b.example']\nproxy = 'https://proxy:3128'".to_owned(), "proxy for mail"),
        ];
        for (target, told) in unusable {
            std::fs::write(&path, format!("[[target]]\nname = 'x'\n{target}\n")).unwrap();
            let (text, verdict) = judged(&[path.to_str().unwrap()]).unwrap();
            assert_eq!(verdict, Verdict::Wrong, "{text}");
            assert!(text.contains(told) && text.contains("target `x` is disabled"), "{text}");
            assert!(text.contains("# disabled: name = \"x\""), "{text}");
        }
        std::fs::write(&path, "[[target]]\nkind = 'kubernetes_event'\n").unwrap();
        let (text, verdict) = judged(&[path.to_str().unwrap()]).unwrap();
        assert_eq!(verdict, Verdict::Done, "{text}");
        assert!(text.contains("warning") && text.contains("no pod of Kubernetes"), "{text}");
    }

    #[test]
    fn options_are_judged_as_they_stand_on_the_command_line() {
        let (text, verdict) = judged(&["--options", "-agentpath:/x/libleaderwatch.so=confg=/lw.toml"]).unwrap();
        assert!(text.contains("did you mean `config`?"), "{text}");
        assert_eq!(verdict, Verdict::Wrong);
    }

    #[test]
    fn a_cluster_is_judged_by_its_folder_and_the_version_beside_it() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("conf")).unwrap();
        std::fs::create_dir(home.path().join("lib")).unwrap();
        std::fs::write(home.path().join("lib/flink-dist-2.3.0.jar"), "").unwrap();
        std::fs::write(home.path().join("conf/config.yaml"), "high-availability:\n  type: NONE\n").unwrap();
        let conf = home.path().join("conf");
        let (text, verdict) = judged(&["--flink-conf", conf.to_str().unwrap()]).unwrap();
        assert!(text.contains("(Flink 2.3.0)") && text.contains("no high availability"), "{text}");
        assert_eq!(verdict, Verdict::Wrong);
        for other in [home.path().to_owned(), conf.join("config.yaml")] {
            let (same, _) = judged(&["--flink-conf", other.to_str().unwrap()]).unwrap();
            assert_eq!(same, text, "the home of Flink and its file mean the folder");
        }
        let empty = judged(&["--flink-conf", home.path().join("lib").to_str().unwrap()]);
        assert!(empty.unwrap_err().contains("no configuration of Flink here"));
        std::fs::rename(home.path().join("lib/flink-dist-2.3.0.jar"), home.path().join("lib/flink-dist-1.18.1.jar"))
            .unwrap();
        let not_read = judged(&["--flink-conf", conf.to_str().unwrap()]).unwrap_err();
        assert!(
            not_read.contains("no configuration of Flink here"),
            "Flink 1.18 reads flink-conf.yaml only: {not_read}"
        );
    }

    #[test]
    fn it_is_called_wrongly_without_anything_to_check() {
        assert!(judged(&[]).is_err());
        assert!(judged(&["--strict"]).is_err());
        assert!(judged(&["--example", "--schema"]).is_err());
    }
}
