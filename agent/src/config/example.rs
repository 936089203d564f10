//! The commented example of a whole file, made from the tables of keys.
//!
//! A line that begins with `#` and a blank is prose; one that begins with `#` and no blank can be put into effect by
//! taking the `#` away.

use std::fmt::Write;

use super::keys::{self, Key, Kind};

/// Longest line of prose, in characters.
const WIDTH: usize = 100;

/// A whole file: every key with its meaning and default. It is itself a sound configuration.
pub fn example() -> String {
    let mut text = prose(
        "Configuration of Leaderwatch. Every key is optional, but for those of a target that are marked as required. \
         Durations are a whole number with `ms`, `s`, `m` or `h`. Every secret `X` may also be given as `X_file`, a \
         file that holds it, or as `X_env`, an environment variable; a file is read anew at each use.",
    );
    text.push('\n');
    for key in &keys::TOP {
        push_key(&mut text, key, true);
    }
    push_table(&mut text, "alert", "When to alert.", &keys::ALERT);
    push_table(&mut text, "claim", "Who sends for the cluster, so that one election is one alert.", &keys::CLAIM);
    push_table(&mut text, "text", "Your own words in alerts.", &keys::TEXT);
    text.push_str(&prose("Keys that every target takes beside its own:"));
    for key in keys::SHARED.iter().filter(|key| **key != keys::KIND) {
        push_key(&mut text, key, true);
    }
    for (at, kind) in keys::KINDS.iter().enumerate() {
        push_kind(&mut text, kind, at > 0);
    }
    text
}

fn push_table(text: &mut String, name: &str, doc: &str, table: &[Key]) {
    text.push_str(&prose(doc));
    let _ = writeln!(text, "[{name}]");
    for key in table {
        push_key(text, key, true);
    }
}

fn push_kind(text: &mut String, kind: &Kind, is_off: bool) {
    text.push_str(&prose(kind.doc));
    let off = if is_off { "#" } else { "" };
    let _ = writeln!(text, "{off}[[target]]\n{off}kind = \"{}\"\n", kind.name);
    for key in kind.keys {
        push_key(text, key, is_off || !key.required);
    }
}

fn push_key(text: &mut String, key: &Key, is_off: bool) {
    let mut doc = key.doc.to_owned();
    if let Some(default) = key.default {
        let _ = write!(doc, " Default: {default}.");
    }
    if key.required {
        doc.push_str(" Required.");
    }
    text.push_str(&prose(&doc));
    let _ = writeln!(text, "{}{}\n", if is_off { "#" } else { "" }, key.line());
}

/// Lines of comment of at most [`WIDTH`] characters.
fn prose(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::environment::FakeEnvironment;
    use super::super::{Fault, MailDefaults, Problem, parse_file};
    use super::*;

    fn problems(text: &str) -> Vec<Problem> {
        parse_file(text, Path::new("lw.toml"), &MailDefaults::default(), &FakeEnvironment::default()).1
    }

    #[test]
    fn the_example_is_sound() {
        let (settings, problems) =
            parse_file(&example(), Path::new("lw.toml"), &MailDefaults::default(), &FakeEnvironment::default());
        assert_eq!(problems, []);
        assert_eq!(settings.targets.len(), 1);
    }

    #[test]
    fn every_line_of_it_can_be_put_into_effect() {
        // The keys that every target takes are shown once, before the targets; here they would stand in `[claim]`.
        let all = example();
        let (tables, targets) = all.split_once("# Keys that every target takes").unwrap_or_default();
        let targets = targets.split_once("\n# Generic JSON").unwrap_or_default().1;
        let text = format!("{tables}\n# Generic JSON{targets}");
        let is_off = |line: &str| line.starts_with('#') && !line.starts_with("# ");
        let on: String =
            text.lines().map(|line| if is_off(line) { &line[1..] } else { line }).map(|l| format!("{l}\n")).collect();
        // Its files are not there, which is all that is wrong with it.
        let wrong: Vec<Problem> = problems(&on)
            .into_iter()
            .filter(|p| !matches!(p.fault, Fault::Unreadable { .. } | Fault::SecretUnavailable(_)))
            .collect();
        assert_eq!(wrong, []);
        let shown = |key: &Key| on.lines().any(|line| line == key.line());
        assert!(keys::TOP.iter().chain(&keys::ALERT).chain(&keys::CLAIM).chain(&keys::TEXT).all(shown));
    }

    /// Every block of TOML in README and docs is a sound configuration, but for files and variables that are not here.
    #[test]
    fn the_configurations_of_the_documents_are_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = [root.join("docs"), root.join("docs/targets")].into_iter().filter_map(|dir| dir.read_dir().ok());
        let mut files: Vec<_> = pages.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.push(root.join("README.md"));
        let mut blocks = 0;
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
                blocks += 1;
                let elsewhere = |p: &Problem| matches!(p.fault, Fault::Unreadable { .. } | Fault::SecretUnavailable(_));
                let wrong: Vec<Problem> = problems(block).into_iter().filter(|p| !elsewhere(p)).collect();
                assert_eq!(wrong, [], "{}", file.display());
            }
        }
        assert!(blocks > 0, "the documents show at least one configuration");
    }
}
