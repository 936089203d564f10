//! Notices that the configuration file changed, and takes the change as a whole or not at all.
//!
//! At the start a bad key costs only itself, since the alternative would be no alerts. A running agent has a better
//! alternative: it keeps what it has until the file is sound.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::problem::{Place, Problem, Weight};
use super::{Settings, load};
use crate::process::{JvmFacts, Role};

/// What a look at the file showed.
#[derive(Debug, PartialEq)]
pub enum Change {
    /// The content is that of the last look.
    None,
    /// The content is new and sound; with warnings, if any.
    Taken(Box<Settings>, Vec<Problem>),
    /// The content is new and not sound, or the file cannot be read: nothing of it takes effect. Told once for each
    /// content.
    Refused(Vec<Problem>),
}

/// The file as it was at the last look.
#[derive(Debug, Clone)]
pub struct Watch {
    path: PathBuf,
    /// Checksum of the content; none where it could not be read.
    seen: Option<u32>,
}

impl Watch {
    /// Takes the present content as seen.
    pub fn new(path: &Path, env: &dyn Environment) -> Self {
        Self { path: path.to_owned(), seen: checksum(path, env) }
    }

    /// Looks at the file; the arguments are those of [`load`], and `options` must name the file. May block for as long
    /// as the file system does. A time stamp is not asked: mounted ConfigMaps and copies keep or repeat them.
    pub fn look(&mut self, facts: &JvmFacts, role: Role, options: &str, env: &dyn Environment) -> Change {
        let present = checksum(&self.path, env);
        if present == self.seen {
            return Change::None;
        }
        self.seen = present;
        let (settings, problems) = load(facts, role, options, env);
        // What is wrong with the options was told at the start, but that the file cannot be read is told at them.
        let is_of_file = |problem: &Problem| match &problem.place {
            Place::File { path, .. } => *path == self.path,
            Place::Options => present.is_none(),
        };
        let told: Vec<Problem> = problems.into_iter().filter(is_of_file).collect();
        if told.iter().any(|problem| problem.weight == Weight::Error) {
            return Change::Refused(told);
        }
        Change::Taken(Box::new(settings), told)
    }
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
            ("claim.store", self.claim.store != new.claim.store),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::*;

    fn look(watch: &mut Watch, env: &FakeEnvironment) -> Change {
        watch.look(&JvmFacts::default(), Role::TaskManager, "config=/lw.toml,colour=red", env)
    }

    #[test]
    fn a_change_is_taken_as_a_whole_or_refused_once() {
        let empty = FakeEnvironment::default();
        let mut watch = Watch::new(Path::new("/lw.toml"), &empty.clone().with_file("/lw.toml", "cluster = 'a'"));
        assert_eq!(look(&mut watch, &empty.clone().with_file("/lw.toml", "cluster = 'a'")), Change::None);

        let sound = empty.clone().with_file("/lw.toml", "cluster = 'b'");
        let Change::Taken(settings, problems) = look(&mut watch, &sound) else { panic!("a sound file is taken") };
        assert_eq!((settings.cluster.as_str(), problems), ("b", vec![]));

        let broken = empty.clone().with_file("/lw.toml", "cluster = 'c'\nlanguage = 'xx'\n");
        let Change::Refused(problems) = look(&mut watch, &broken) else { panic!("a broken file is refused") };
        assert_eq!(problems.len(), 1);
        assert_eq!(look(&mut watch, &broken), Change::None);

        assert!(matches!(look(&mut watch, &empty), Change::Refused(_)), "a file that is gone is refused");
        assert_eq!(look(&mut watch, &empty), Change::None);
        assert!(matches!(look(&mut watch, &sound), Change::Taken(..)));
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        let of = |options: &str| load(&JvmFacts::default(), Role::TaskManager, options, &FakeEnvironment::default()).0;
        let old = of("cluster=a,log=/x/l,state=/s");
        assert_eq!(old.needs_restart(&of("cluster=b,log=/x/l,state=/s,group_wait=1s")), ["cluster"]);
        assert_eq!(old.needs_restart(&of("cluster=a,log=/y/l,state=/t")), ["log", "state"]);
    }
}
