//! Notices that the configuration changed - its file, or a secret or certificate that it names - and takes the change
//! as a whole or not at all.
//!
//! At the start a bad key costs only itself, since the alternative would be no alerts. A running agent has a better
//! alternative: it keeps what it has until the configuration is sound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::problem::{Fault, Place, Problem, Weight};
use super::{Settings, load};
use crate::process::{JvmFacts, Role};

/// What a look at the files showed.
#[derive(Debug, PartialEq)]
pub enum Change {
    /// The content is that of the last look.
    None,
    /// The content is new and sound.
    Taken {
        /// What it makes.
        settings: Box<Settings>,
        /// Warnings about it, if any.
        told: Vec<Problem>,
        /// What is wrong with the options, which was told at the start.
        standing: Vec<Problem>,
    },
    /// The content is new and not sound, or a file cannot be read: nothing of it takes effect. Told once for each
    /// content.
    Refused(Vec<Problem>),
}

/// The files as they were at the last look.
#[derive(Debug, Clone)]
pub struct Watch {
    config_file: Option<PathBuf>,
    /// Checksum of the content of each file; none where it could not be read.
    seen: BTreeMap<PathBuf, Option<u32>>,
}

impl Watch {
    /// Watches the files of these settings; their present content counts as seen.
    pub fn new(settings: &Settings, env: &dyn Environment) -> Self {
        let files = settings.config_file.iter().chain(&settings.named_files);
        Self { config_file: settings.config_file.clone(), seen: checksums(files, env) }
    }

    /// Looks at the files; the arguments are those that the settings were loaded with. May block for as long as the
    /// file system does. Time stamps are not asked: mounted ConfigMaps and copies keep or repeat them.
    pub fn look(&mut self, facts: &JvmFacts, role: Role, options: &str, env: &dyn Environment) -> Change {
        let present = checksums(self.seen.keys(), env);
        if present == self.seen {
            return Change::None;
        }
        self.seen = present;
        let (settings, problems) = load(facts, role, options, env);
        let (told, standing): (Vec<Problem>, Vec<Problem>) =
            problems.into_iter().partition(|problem| self.concerns(problem));
        let new = Watch::new(&settings, env);
        if told.iter().any(|problem| problem.weight == Weight::Error) {
            // What is missing may be a file that only the new content names.
            self.seen.extend(new.seen);
            return Change::Refused(told);
        }
        *self = new;
        Change::Taken { settings: Box::new(settings), told, standing }
    }

    /// Somebody gives other options, and with them perhaps another file: they are taken as a whole or not at all, too.
    pub fn with_options(&mut self, facts: &JvmFacts, role: Role, options: &str, env: &dyn Environment) -> Change {
        let (settings, told) = load(facts, role, options, env);
        if told.iter().any(|problem| problem.weight == Weight::Error) {
            return Change::Refused(told);
        }
        *self = Watch::new(&settings, env);
        Change::Taken { settings: Box::new(settings), told, standing: Vec::new() }
    }

    /// Whether a problem is one of the files. What is wrong with the options themselves was told at the start, but that
    /// a file which they name cannot be read is told at them.
    fn concerns(&self, problem: &Problem) -> bool {
        match &problem.place {
            Place::File { path, .. } => self.config_file.as_deref() == Some(path.as_path()),
            Place::Options => matches!(
                problem.fault,
                Fault::Unreadable { .. } | Fault::SecretUnavailable(_) | Fault::SecretMalformed { .. }
            ),
        }
    }
}

fn checksums<'p>(files: impl Iterator<Item = &'p PathBuf>, env: &dyn Environment) -> BTreeMap<PathBuf, Option<u32>> {
    files.map(|path| (path.clone(), checksum(path, env))).collect()
}

fn checksum(path: &Path, env: &dyn Environment) -> Option<u32> {
    env.read(path).ok().map(|text| crc32fast::hash(text.as_bytes()))
}

impl Settings {
    /// Keys that differ in `new` but take effect only when the process starts again.
    pub fn needs_restart(&self, new: &Settings) -> Vec<&'static str> {
        let differs = [
            ("cluster", self.cluster != new.cluster),
            ("namespace", self.namespace != new.namespace),
            ("log", self.log != new.log),
            // The folder's last part follows cluster and namespace, which are told themselves.
            ("state", self.state.as_ref().map(|s| s.parent()) != new.state.as_ref().map(|s| s.parent())),
            ("metrics_file", self.metrics_file != new.metrics_file),
            ("alert.remember_for", self.alert.remember_for != new.alert.remember_for),
            ("claim.store", self.claim.store != new.claim.store),
            ("claim.lease", self.claim.lease != new.claim.lease),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::*;

    const OPTIONS: &str = "config=/lw.toml,colour=red";

    fn watch(env: &FakeEnvironment) -> Watch {
        Watch::new(&load(&JvmFacts::default(), Role::TaskManager, OPTIONS, env).0, env)
    }

    fn look(watch: &mut Watch, env: &FakeEnvironment) -> Change {
        watch.look(&JvmFacts::default(), Role::TaskManager, OPTIONS, env)
    }

    #[test]
    fn other_options_bring_another_file_or_change_nothing() {
        let env = FakeEnvironment::default()
            .with_file("/lw.toml", "cluster = 'a'")
            .with_file("/other.toml", "[alert]\ngroup_wait = '7s'\n");
        let mut watch = watch(&env);
        let mut with = |options: &str, env: &FakeEnvironment| {
            watch.with_options(&JvmFacts::default(), Role::TaskManager, options, env)
        };
        for bad in ["colour=red", "config=/missing.toml"] {
            assert!(matches!(with(bad, &env), Change::Refused(_)), "{bad}");
        }
        let Change::Taken { settings, told, standing } = with("config=/other.toml", &env) else {
            panic!("it is sound")
        };
        assert_eq!(settings.alert.group_wait, std::time::Duration::from_secs(7));
        assert_eq!((told.len(), standing.len()), (0, 0));
        let changed = env.with_file("/other.toml", "[alert]\ngroup_wait = '8s'\n");
        let change = watch.look(&JvmFacts::default(), Role::TaskManager, "config=/other.toml", &changed);
        assert!(matches!(change, Change::Taken { .. }), "the other file is watched from then on");
    }

    #[test]
    fn a_change_is_taken_as_a_whole_or_refused_once() {
        let empty = FakeEnvironment::default();
        let mut watch = watch(&empty.clone().with_file("/lw.toml", "cluster = 'a'"));
        assert_eq!(look(&mut watch, &empty.clone().with_file("/lw.toml", "cluster = 'a'")), Change::None);

        let sound = empty.clone().with_file("/lw.toml", "cluster = 'b'");
        let Change::Taken { settings, told: problems, .. } = look(&mut watch, &sound) else {
            panic!("a sound file is taken")
        };
        assert_eq!((settings.cluster.as_str(), problems), ("b", vec![]));

        let broken = empty.clone().with_file("/lw.toml", "cluster = 'c'\nlanguage = 'xx'\n");
        let Change::Refused(problems) = look(&mut watch, &broken) else { panic!("a broken file is refused") };
        assert_eq!(problems.len(), 1);
        assert_eq!(look(&mut watch, &broken), Change::None);

        assert!(matches!(look(&mut watch, &empty), Change::Refused(_)), "a file that is gone is refused");
        assert_eq!(look(&mut watch, &empty), Change::None);
        assert!(matches!(look(&mut watch, &sound), Change::Taken { .. }));
    }

    #[test]
    fn a_rotated_secret_is_a_change_and_one_that_is_gone_is_refused() {
        let with_url = |url: &str| {
            FakeEnvironment::default()
                .with_file("/lw.toml", "[[target]]\nkind = 'slack'\nurl_file = '/url'\n")
                .with_file("/url", url)
        };
        let mut watch = watch(&with_url("https://h/1"));
        assert_eq!(look(&mut watch, &with_url("https://h/1")), Change::None);
        assert!(matches!(look(&mut watch, &with_url("https://h/2")), Change::Taken { .. }));
        assert!(matches!(look(&mut watch, &with_url("")), Change::Refused(_)));
        assert_eq!(look(&mut watch, &with_url("")), Change::None);
        assert!(matches!(look(&mut watch, &with_url("https://h/3")), Change::Taken { .. }));
    }

    #[test]
    fn a_file_that_a_change_names_is_watched_from_then_on() {
        let with = |file: &str| FakeEnvironment::default().with_file("/lw.toml", file);
        let mut watch = watch(&with(""));
        let named = with("[[target]]\nkind = 'slack'\nurl_file = '/url'\n").with_file("/url", "https://h/1");
        assert!(matches!(look(&mut watch, &named), Change::Taken { .. }));
        assert!(matches!(look(&mut watch, &named.with_file("/url", "https://h/2")), Change::Taken { .. }));
    }

    /// Regression: the file that was missing was not watched, so that its appearance went unnoticed.
    #[test]
    fn a_change_that_waits_for_a_file_is_taken_when_the_file_is_there() {
        let with = |file: &str| FakeEnvironment::default().with_file("/lw.toml", file);
        let mut watch = watch(&with(""));
        let named = with("[[target]]\nkind = 'slack'\nurl_file = '/url'\n");
        assert!(matches!(look(&mut watch, &named), Change::Refused(_)));
        assert_eq!(look(&mut watch, &named), Change::None);
        assert!(matches!(look(&mut watch, &named.with_file("/url", "https://h/1")), Change::Taken { .. }));
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        let of = |options: &str| load(&JvmFacts::default(), Role::TaskManager, options, &FakeEnvironment::default()).0;
        let old = of("cluster=a,log=/x/l,state=/s");
        assert_eq!(old.needs_restart(&of("cluster=b,log=/x/l,state=/s,group_wait=1s")), ["cluster"]);
        assert_eq!(old.needs_restart(&of("cluster=a,log=/y/l,state=/t")), ["log", "state"]);
    }
}
