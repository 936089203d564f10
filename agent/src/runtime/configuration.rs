//! What the configuration makes: targets, what people are told, and what is wrong with it; at the start, and again
//! whenever the content of the file, or of a secret or certificate that it names, changes.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::alert::{AlertSettings, Texts};
use crate::clock::Clock;
use crate::config::{self, Problem, Settings, SystemEnvironment, TargetSettings, Watch};
use crate::delivery::{ForPeople, Route, Routes, Wording};
use crate::event::{Event, TargetFields};
use crate::job_names::JobNames;
use crate::process::{JvmFacts, Role};
use crate::target;

use super::dispatcher::Wanting;

/// What a configuration makes.
pub struct Configured {
    /// The targets, for the sender.
    pub routes: Routes,
    /// The targets, for the dispatcher.
    pub wanting: Vec<Wanting>,
    /// What alerts need to know.
    pub alerts: AlertSettings,
    /// What is wrong with it.
    pub problems: Vec<Event>,
    /// What is wrong with it, too, and was told before.
    pub standing: Vec<Event>,
}

impl Configured {
    /// The targets, as they stand in a record.
    pub fn targets(&self) -> Vec<TargetFields> {
        let fields =
            |route: &Route| TargetFields { name: route.target.name().to_owned(), kind: route.target.kind().to_owned() };
        self.routes.list().iter().map(fields).collect()
    }

    /// What is wrong with it, one text for each problem.
    pub fn problem_texts(&self) -> Vec<String> {
        let text = |problem: &Event| match problem {
            Event::AgentProblem { what, reason } => Some(format!("{what}: {reason}")),
            _ => None,
        };
        self.problems.iter().chain(&self.standing).filter_map(text).collect()
    }
}

/// What a change of the configuration came to.
pub enum Reloaded {
    /// It takes effect.
    Taken(Box<Configured>),
    /// It does not; all stays as it was.
    Refused(Vec<Event>),
}

/// Options that somebody gives to an agent at work, until it looks.
pub type NewOptions = Arc<Mutex<Option<String>>>;

/// Reads the configuration, and reads it again when it changes. Blocks for as long as the file system does.
pub struct Configuration {
    facts: JvmFacts,
    role: Role,
    options: String,
    new_options: NewOptions,
    job_names: Arc<JobNames>,
    builder: target::Builder,
    settings: Settings,
    watch: Watch,
}

impl Configuration {
    /// Reads it for the first time. Nothing in it is so bad that the rest does not take effect.
    pub fn read(
        facts: JvmFacts,
        role: Role,
        options: String,
        new_options: NewOptions,
        job_names: Arc<JobNames>,
        clock: Arc<dyn Clock>,
    ) -> (Configuration, Configured) {
        let (settings, problems) = config::load(&facts, role, &options, &SystemEnvironment);
        let watch = Watch::new(&settings, &SystemEnvironment);
        let builder = target::Builder::new(clock).of_cluster(&settings.cluster, settings.namespace.as_deref());
        let configuration = Configuration { facts, role, options, new_options, job_names, builder, settings, watch };
        let configured = configuration.make(&configuration.settings.targets, &problems, &[]);
        (configuration, configured)
    }

    /// What it says now.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the JVM told at its start.
    pub fn facts(&self) -> &JvmFacts {
        &self.facts
    }

    /// Whether somebody gave options that it has not looked at.
    pub fn has_new_options(&self) -> bool {
        self.new_options.lock().is_some()
    }

    /// Looks whether it has changed; none where it has not.
    pub fn look(&mut self) -> Option<Reloaded> {
        let new_options = self.new_options.lock().take();
        let change = match new_options {
            Some(options) => {
                let change = self.watch.with_options(&self.facts, self.role, &options, &SystemEnvironment);
                if matches!(change, config::Change::Taken { .. }) {
                    self.options = options;
                }
                change
            }
            None => self.watch.look(&self.facts, self.role, &self.options, &SystemEnvironment),
        };
        match change {
            config::Change::None => None,
            config::Change::Refused(problems) => {
                let refused = Event::problem("configuration", "its change is refused, all stays as it was, because:");
                let why = problems.iter().map(|problem| Event::problem(problem.what(), problem.refusal()));
                Some(Reloaded::Refused(std::iter::once(refused).chain(why).collect()))
            }
            config::Change::Taken { settings, told, standing } => {
                let restart = self.settings.needs_restart(&settings);
                // These are at work and stay so until a restart.
                let (cluster, namespace) = (self.settings.cluster.clone(), self.settings.namespace.clone());
                let before = std::mem::take(&mut self.settings.targets);
                self.settings = Settings { cluster, namespace, ..*settings };
                let mut configured = self.make(&before, &told, &standing);
                if !restart.is_empty() {
                    let reason = format!("{} changed, which takes effect at the next start", restart.join(", "));
                    configured.problems.push(Event::problem("configuration", reason));
                }
                Some(Reloaded::Taken(Box::new(configured)))
            }
        }
    }

    /// `before` are the targets until now; `standing` was told before.
    fn make(&self, before: &[TargetSettings], problems: &[Problem], standing: &[Problem]) -> Configured {
        let mut is_faulty = problems.iter().chain(standing).any(|problem| problem.effect.may_hide_a_target());
        let standing = standing.iter().map(event).collect();
        let mut problems: Vec<Event> = problems.iter().map(event).collect();
        let settings = &self.settings;
        let (texts, bad) = Texts::new(settings.language, settings.time_zone.clone(), settings.texts.clone());
        problems.extend(bad.iter().map(|template| Event::problem("configuration", template.to_string())));
        let (mut routes, mut wanting) = (Vec::new(), Vec::new());
        for target in &settings.targets {
            match self.builder.build(target) {
                Ok(built) => {
                    wanting.push(wanted(built.as_ref(), target));
                    routes.push(Route::new(built, target.fallback.clone()).changed(!before.contains(target)));
                }
                Err(reason) => {
                    is_faulty = true;
                    let what = format!("target {}", target.name);
                    problems.push(Event::problem(what, format!("it is disabled: {reason}")));
                }
            }
        }
        let routes = if is_faulty { Routes::of_faulty(routes) } else { routes.into() };
        let wording = Wording::new(settings.language, settings.time_zone.clone());
        let routes = routes.telling(ForPeople { wording, max_age: settings.alert.max_age });
        let alerts = alert_settings(settings, Arc::new(texts), Arc::clone(&self.job_names));
        Configured { routes, wanting, alerts, problems, standing }
    }
}

fn event(problem: &Problem) -> Event {
    Event::problem(problem.what(), problem.reason())
}

fn wanted(target: &dyn target::Target, settings: &TargetSettings) -> Wanting {
    Wanting {
        name: settings.name.clone(),
        classes: if target.takes_alerts() { settings.classes.clone() } else { Vec::new() },
        updates_in_place: target.manner().updates_in_place,
    }
}

fn alert_settings(settings: &Settings, texts: Arc<Texts>, job_names: Arc<JobNames>) -> AlertSettings {
    AlertSettings {
        cluster: settings.cluster.clone(),
        namespace: settings.namespace.clone(),
        labels: settings.labels.clone(),
        classes: settings.alert.classes.clone(),
        group_wait: settings.alert.group_wait,
        group_interval: settings.alert.group_interval,
        no_leader_after: settings.alert.no_leader_after,
        resolve_after: settings.alert.resolve_after,
        one_id_for_all: settings.observer.flink_version.as_deref().is_some_and(has_one_id_for_all),
        observer: settings.observer.clone(),
        texts,
        job_names,
    }
}

/// From Flink 1.15 on one election gives all components of a JobManager one session id (FLINK-24038).
fn has_one_id_for_all(flink_version: &str) -> bool {
    let mut numbers = flink_version.split('.').map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= (1, 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_for_all_comes_with_flink_1_15() {
        for version in ["1.15.0", "1.20.5", "2.0.2", "2.3.0", "10.0"] {
            assert!(has_one_id_for_all(version), "{version}");
        }
        for version in ["1.9.3", "1.14.6", "1.14-SNAPSHOT", "unknown", ""] {
            assert!(!has_one_id_for_all(version), "{version}");
        }
    }
}
