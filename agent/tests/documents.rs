//! Holds the documents to the code: keys, events, examples and links. A document that fails here tells users what is not so.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use leaderwatch_agent::alert::Alert;
use leaderwatch_agent::config::keys::{self, Key, Shape};
use leaderwatch_agent::config::{
    Fault, MailDefaults, Problem, SystemEnvironment, format_duration, parse_file, parse_options,
};
use leaderwatch_agent::event::{Event, Record};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// README, CONTRIBUTING and all of `docs/`, with their paths.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The code blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    text.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

fn takes(shape: Shape) -> String {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match shape {
        Shape::Text => "text".into(),
        Shape::Texts => "list of texts".into(),
        Shape::Flag => "`true`, `false`".into(),
        Shape::Path => "path".into(),
        Shape::Choice(words) if words == keys::KIND_NAMES => "a kind".into(),
        Shape::Choice(words) => format!("one of: {}", quoted(words)),
        Shape::Choices(words) => format!("list of: {}", quoted(words)),
        Shape::Duration(min, max) => format!("duration, {} to {}", format_duration(min), format_duration(max)),
        Shape::Labels => "table of texts".into(),
        Shape::Headers => "table".into(),
        Shape::TimeZone => "IANA name".into(),
        Shape::ClaimStore | Shape::Smtp => "see text".into(),
        Shape::Address => "address".into(),
        Shape::Addresses => "list of addresses".into(),
        Shape::ChatId => "number or text".into(),
        Shape::Secret => "secret".into(),
        Shape::Secrets => "secret, or list of secrets".into(),
        Shape::SecretUrl | Shape::ProxyUrl => "secret URL".into(),
        Shape::SecretUrls => "list of secret URLs".into(),
    }
}

fn table(keys: &[Key]) -> String {
    let mut table = "| key | takes | default | meaning |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let default = match key.default {
            _ if key.required => "**required**".to_owned(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        writeln!(table, "| `{}` | {} | {default} | {} |", key.name, takes(key.shape), key.doc).unwrap();
    }
    table
}

#[test]
fn the_reference_is_that_of_the_code() {
    let reference = document("docs/configuration.md");
    let own = [&keys::OPTIONS[..], &keys::TOP, &keys::ALERT, &keys::CLAIM, &keys::TEXT, &keys::SHARED];
    let kinds = keys::KINDS.iter().map(|kind| kind.keys);
    for expected in own.into_iter().chain(kinds).map(table) {
        assert!(reference.contains(&expected), "docs/configuration.md lacks this table:\n{expected}");
    }
    for kind in &keys::KINDS {
        assert!(reference.contains(&format!("#### `{}`\n\n{}", kind.name, kind.doc)), "{}", kind.name);
    }
}

/// All that may be wrong with an example: the files that it names are not there, and everybody can read the document.
fn faults(problems: Vec<Problem>) -> Vec<String> {
    let is_of_example = |fault: &Fault| {
        matches!(fault, Fault::Unreadable { .. } | Fault::SecretUnavailable(_) | Fault::WorldReadable { .. })
    };
    problems.into_iter().filter(|problem| !is_of_example(&problem.fault)).map(|problem| problem.to_string()).collect()
}

/// The configuration within a Kubernetes Secret, without its indentation.
fn toml_of_secret(yaml: &str) -> Option<String> {
    let (before, rest) = yaml.split_once("leaderwatch.toml: |\n")?;
    let indentation = before.rsplit('\n').next()?.len() + 2;
    let is_inside = |line: &&str| line.is_empty() || line.starts_with(&" ".repeat(indentation));
    Some(rest.lines().take_while(is_inside).map(|line| format!("{}\n", line.trim_start())).collect())
}

#[test]
fn every_configuration_in_the_documents_is_sound() {
    let mut count = 0;
    for (path, text) in documents() {
        let in_secrets = blocks(&text, "yaml").into_iter().filter_map(|yaml| toml_of_secret(&yaml));
        for example in blocks(&text, "toml").into_iter().chain(in_secrets) {
            let (settings, problems) = parse_file(&example, &path, &MailDefaults::default(), &SystemEnvironment);
            assert_eq!(faults(problems), Vec::<String>::new(), "{}", path.display());
            let named = example.lines().filter(|line| line.trim() == "[[target]]").count();
            assert_eq!(settings.targets.len(), named, "{}: {example}", path.display());
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} examples were found");
}

#[test]
fn every_agent_option_in_the_documents_is_sound() {
    let mut count = 0;
    for (path, text) in documents() {
        for option in text.split("libleaderwatch.so=").skip(1) {
            let option = option.split([' ', '\n', '`', '\'']).next().unwrap();
            // `KEY=VALUE` and `OPTIONS` stand for the user's own.
            if option.is_empty() || option.starts_with("KEY") || option.starts_with("OPTIONS") {
                continue;
            }
            let (_, problems) = parse_options(option, &SystemEnvironment);
            assert_eq!(faults(problems), Vec::<String>::new(), "{}: {option}", path.display());
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} options were found");
}

/// Where a document leaves something out for brevity, any value serves.
fn whole(mut alert: Value) -> Value {
    let fill = |object: &mut Value, key: &str, value: Value| {
        object.as_object_mut().unwrap().entry(key).or_insert(value);
    };
    fill(&mut alert, "text", json!(""));
    fill(&mut alert["observer"], "host", json!("h"));
    fill(&mut alert["observer"], "pid", json!(1));
    alert
}

/// Every key of `shown` is one that `known` has, too.
fn assert_no_more_than(shown: &Value, known: &Value, at: &str) {
    match (shown, known) {
        (Value::Object(shown), Value::Object(known)) => {
            for (key, value) in shown {
                let known = known.get(key).unwrap_or_else(|| panic!("the code knows no {at}.{key}"));
                assert_no_more_than(value, known, &format!("{at}.{key}"));
            }
        }
        (Value::Array(shown), Value::Array(known)) => {
            for (shown, known) in shown.iter().zip(known) {
                assert_no_more_than(shown, known, at);
            }
        }
        _ => {}
    }
}

#[test]
fn every_alert_and_record_in_the_documents_is_one() {
    let (mut alerts, mut records) = (0, 0);
    for (path, text) in documents() {
        for example in blocks(&text, "json") {
            for line in serde_json::Deserializer::from_str(&example).into_iter::<Value>() {
                let shown = line.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let known = if shown.get("schema").is_some() {
                    alerts += 1;
                    serde_json::to_value(serde_json::from_value::<Alert>(whole(shown.clone())).unwrap()).unwrap()
                } else {
                    records += 1;
                    serde_json::to_value(serde_json::from_value::<Record>(shown.clone()).unwrap()).unwrap()
                };
                assert_no_more_than(&shown, &known, "");
            }
        }
    }
    assert!(alerts >= 2 && records >= 2, "{alerts} alerts, {records} records");
}

#[test]
fn every_event_is_documented() {
    let refusal = serde_json::from_value::<Event>(json!({"event": "?"})).unwrap_err().to_string();
    let events: Vec<&str> = refusal.split('`').filter(|word| word.contains('.') && !word.contains(' ')).collect();
    assert!(events.contains(&"leader.moved") && events.contains(&"agent.stopped"), "{refusal}");
    let reference = document("docs/alert-log.md");
    for event in events {
        assert!(reference.contains(&format!("`{event}`")), "docs/alert-log.md lacks {event}");
    }
}

/// What follows that beginning of a name.
fn names_beginning(text: &str, beginning: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let rests = text.split(beginning).skip(1).map(|rest| rest.split(|c| !is_of_name(c)).next().unwrap());
    rests.filter(|rest| !rest.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let mut code = names_beginning(&document("agent/src/runtime/metrics.rs"), "\"leaderwatch_");
    code.retain(|name| !["_bucket", "_sum", "_count"].iter().any(|series| name.ends_with(series)));
    let documented = names_beginning(&document("docs/command.md"), "`leaderwatch_");
    assert_eq!(documented, code);
    assert!(documented.len() >= 10, "{documented:?}");
}

/// A heading's anchor, as the usual renderers of Markdown make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if wanted.is_empty() {
                continue;
            }
            let headings = fs::read_to_string(&target).unwrap();
            let headings = headings.lines().filter_map(|line| line.strip_prefix('#'));
            let mut anchors = headings.map(|heading| anchor(heading.trim_start_matches('#')));
            assert!(anchors.any(|anchor| anchor == wanted), "{}: {link}", path.display());
        }
    }
}
