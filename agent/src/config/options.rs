//! The agent's options: `key=value,key=value`, as they stand behind `-agentpath:/path/libleaderwatch.so=`.
//!
//! A bad key or value costs that key only. Where a key is repeated the last one holds, as with all JVM options.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::environment::Environment;
use super::keys::{self, Key, Shape};
use super::nearest::nearest;
use super::problem::{Effect, Fault, Place, Problem, Weight};
use super::reader::{allowed, chat_kind, faults_of_secret};
use super::secret::{MASK, Secret, SecretSource};
use super::value::{self, SmtpServer};

/// What the options say; none where a key is not given or not sound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Path of the file.
    pub config: Option<PathBuf>,
    /// URL of the target `webhook`.
    pub webhook: Option<SecretSource>,
    /// Recipients of the target `email`.
    pub email: Option<Vec<String>>,
    /// Mail server.
    pub smtp: Option<SmtpServer>,
    /// Sender of mails.
    pub email_from: Option<String>,
    /// The alert log.
    pub log: Option<PathBuf>,
    /// Folder of the outbox.
    pub state: Option<PathBuf>,
    /// Name of the Flink cluster.
    pub cluster: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
    /// How long an election gathers its members.
    pub group_wait: Option<Duration>,
}

/// Reads the options, with all that is wrong with them.
pub fn parse(text: &str, env: &dyn Environment) -> (Options, Vec<Problem>) {
    let mut reader = Reader { values: BTreeMap::new(), problems: Vec::new() };
    reader.split(text);
    let webhook = reader.webhook(env);
    let options = Options {
        config: reader.read(&keys::CONFIG, value::path),
        webhook,
        email: reader.read(&keys::EMAIL, value::joined_addresses),
        smtp: reader.read(&keys::SMTP, value::smtp),
        email_from: reader.read(&keys::EMAIL_FROM, value::address),
        log: reader.read(&keys::LOG, value::path),
        state: reader.read(&keys::STATE, value::path),
        cluster: reader.read(&keys::CLUSTER, value::text),
        namespace: reader.read(&keys::NAMESPACE, value::text),
        group_wait: reader.read(&keys::GROUP_WAIT, |text| value::duration_of(&keys::GROUP_WAIT, text)),
    };
    (options, reader.problems)
}

struct Reader<'t> {
    values: BTreeMap<&'t str, &'t str>,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    fn split(&mut self, text: &'t str) {
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                self.report(item, Fault::NotKeyValue, Effect::KeyIgnored);
                continue;
            };
            if !keys::OPTIONS.iter().any(|known| known.name == key) {
                self.report(key, unknown(key), Effect::KeyIgnored);
                continue;
            }
            if let Some((character, harm)) = first_unsafe(value) {
                self.warn(key, Fault::UnsafeCharacter { character, harm, others: other_unsafe(value, character) });
            }
            if self.values.insert(key, value).is_some() {
                self.warn(key, Fault::Repeated);
            }
        }
    }

    fn read<T>(&mut self, key: &Key, parse: impl FnOnce(&str) -> Result<T, Fault>) -> Option<T> {
        let text = *self.values.get(key.name)?;
        let parsed = if text.is_empty() { Err(Fault::Empty { allowed: allowed(key.shape) }) } else { parse(text) };
        match parsed {
            Ok(value) => Some(value),
            Err(fault) => {
                let effect = key.default.map_or(Effect::KeyIgnored, |d| Effect::DefaultUsed(d.to_owned()));
                self.report(key.name, fault, effect);
                None
            }
        }
    }

    fn webhook(&mut self, env: &dyn Environment) -> Option<SecretSource> {
        let inline = self.read(&keys::WEBHOOK, |text| {
            if !value::is_http_url(text) {
                return Err(value::bad_value(MASK, value::URL_ALLOWED));
            }
            Ok(SecretSource::Inline(Secret::new(text)))
        });
        let file = self.read(&keys::WEBHOOK_FILE, value::path).map(SecretSource::File);
        if inline.is_some() && file.is_some() {
            self.warn(keys::WEBHOOK.name, Fault::SeveralVariants { used: keys::WEBHOOK.name.to_owned() });
        }
        let name = if inline.is_some() { keys::WEBHOOK.name } else { keys::WEBHOOK_FILE.name };
        let source = inline.or(file)?;
        for (fault, weight) in faults_of_secret(&source, Shape::SecretUrl, env) {
            self.problems.push(problem(name, fault, Effect::None, weight));
        }
        if let Some(kind) = chat_kind(&source, env) {
            self.report(name, Fault::ChatHost { kind }, Effect::None);
        }
        Some(source)
    }

    fn report(&mut self, key: &str, fault: Fault, effect: Effect) {
        self.problems.push(problem(key, fault, effect, Weight::Error));
    }

    fn warn(&mut self, key: &str, fault: Fault) {
        self.problems.push(problem(key, fault, Effect::None, Weight::Warning));
    }
}

fn problem(key: &str, fault: Fault, effect: Effect, weight: Weight) -> Problem {
    Problem { place: Place::Options, key: value::shown(key), fault, effect, weight }
}

fn unknown(key: &str) -> Fault {
    let known = || keys::OPTIONS.iter().map(|key| key.name);
    Fault::UnknownKey { nearest: nearest(key, known()).map(str::to_owned), known: value::listed(known()) }
}

/// The first character that does not survive every Flink start script and YARN, and what may happen to it. Each was
/// tried through the start scripts of Flink 1.9 to 2.3.
pub fn first_unsafe(value: &str) -> Option<(char, &'static str)> {
    let character = value.chars().find(|c| !is_safe(*c))?;
    let harm = match character {
        c if c.is_whitespace() => "splits the option",
        ';' | '&' => "ends the command line: what follows is run as a shell command",
        '|' | '<' | '>' | '(' | ')' | '"' | '\'' | '`' => "makes the start fail or is lost",
        '$' => "starts a shell expansion",
        '\\' => "is removed by the shell",
        '#' => "starts a comment",
        '{' | '}' | '*' | '?' | '[' | ']' => "may be expanded by the shell",
        '%' => "may be taken for a placeholder by YARN",
        _ => "may be changed",
    };
    Some((character, harm))
}

/// The unsafe characters beside the first one, each once.
fn other_unsafe(value: &str, first: char) -> Vec<char> {
    let mut others = Vec::new();
    for character in value.chars().filter(|c| !is_safe(*c) && *c != first) {
        if !others.contains(&character) {
            others.push(character);
        }
    }
    others
}

fn is_safe(character: char) -> bool {
    character.is_ascii_alphanumeric() || ",=:/._-+@".contains(character)
}

/// The options within a whole JVM option, or the text itself.
pub fn behind_agentpath(text: &str) -> &str {
    match text.strip_prefix("-agentpath:") {
        // As the JVM does it: at the first `=`.
        Some(rest) => rest.split_once('=').map_or("", |(_, options)| options),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::environment::FakeEnvironment;
    use super::*;

    fn problems(text: &str) -> String {
        let env = FakeEnvironment::default()
            .with_mode("/open-url", 0o644, "https://h.example/secret-path")
            .with_file("/not-url", "secret-nonsense");
        let (_, problems) = parse(text, &env);
        problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn sound_options_are_read_without_a_word() {
        let text = "config=/etc/lw.toml,webhook=http://h:8080/x,email=a@x.org+b@y.org,smtp=smtps://mail:465,\
                    email_from=lw@x.org,log=/l.jsonl,state=/s,cluster=orders,namespace=flink,group_wait=500ms";
        let (options, problems) = parse(text, &FakeEnvironment::default());
        assert_eq!(problems, []);
        assert_eq!(options.config, Some(PathBuf::from("/etc/lw.toml")));
        assert_eq!(options.email.as_deref(), Some(&["a@x.org".to_owned(), "b@y.org".to_owned()][..]));
        assert_eq!(options.group_wait, Some(Duration::from_millis(500)));
        assert_eq!(options.cluster.as_deref(), Some("orders"));
        assert_eq!(options.webhook, Some(SecretSource::Inline(Secret::new("http://h:8080/x"))));
        assert_eq!(parse("", &FakeEnvironment::default()), (Options::default(), vec![]));
    }

    #[test]
    fn a_value_may_hold_an_equals_sign() {
        let (options, problems) = parse("webhook=http://h/x?a=b", &FakeEnvironment::default());
        assert_eq!(options.webhook, Some(SecretSource::Inline(Secret::new("http://h/x?a=b"))));
        // `?` may be expanded by a shell, and is said to be.
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn one_bad_key_costs_that_key_only() {
        let (options, problems) = parse("group_wait=soon,smtp=mail,webhok=x,cluster=c", &FakeEnvironment::default());
        assert_eq!(options, Options { cluster: Some("c".to_owned()), ..Options::default() });
        assert_eq!(problems.len(), 3);
    }

    #[test]
    fn each_error_says_what_and_what_instead() {
        let told: Vec<String> = [
            "webhok=http://h",
            "colour=red",
            "group_wait=2",
            "group_wait=1h",
            "smtp=mail:25",
            "email=nobody",
            "cluster=",
            "cluster=a,cluster=b",
            "verbose",
            "cluster=a b",
            "webhook=secret-token",
            "webhook=http://h,webhook_file=/url",
            "webhook_file=/missing",
            "webhook_file=/not-url",
            "webhook_file=/open-url",
            "webhook=https://hooks.slack.com/services/secret",
        ]
        .iter()
        .map(|text| format!("{text}\n  {}", problems(text).replace('\n', "\n  ")))
        .collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn no_error_shows_a_secret() {
        for text in [
            "webhook=secret",
            "webhook=ftp://secret",
            "webhook_file=/open-url",
            "webhook_file=/not-url",
            "webhok=secret",
            "webhook=https://hooks.slack.com/secret",
        ] {
            let told = problems(text).replace("secret URL", "");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = parse(&text, &FakeEnvironment::default());
        }

        #[test]
        fn no_option_like_text_makes_it_panic(
            items in proptest::collection::vec((proptest::sample::select(keys::OPTIONS.map(|k| k.name).to_vec()), ".*"), 0..6),
        ) {
            let text = items.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
            let (_, problems) = parse(&text, &FakeEnvironment::default());
            for problem in problems {
                prop_assert!(!problem.to_string().is_empty());
            }
        }
    }
}
