//! What people read: title and text of an alert, in their language and time zone.
//!
//! Each language is two minijinja templates beside this file; the user may replace either by one of their own. Templates
//! get plain text: each target escapes its own markup afterwards. A template has bounded fuel, and one that fails never
//! keeps an alert from being told: the built-in one takes its place.

mod pause;

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::model::{Alert, Class, Member};
use crate::config::Language;
use crate::leadership::{Component, Leader};

pub(super) use self::pause::PauseEnded;

/// How many jobs a text lists by name; the rest is counted.
const LISTED_JOBS: usize = 10;
/// Steps that a template may take; the built-in ones take some hundreds.
const FUEL: u64 = 100_000;
/// Names under which the templates stand in the environment.
const TITLE: &str = "title";
const TEXT: &str = "text";
const BUILT_IN_TITLE: &str = "built-in title";
const BUILT_IN_TEXT: &str = "built-in text";

/// The user's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnTexts {
    /// Template of the title, instead of the built-in one.
    pub title: Option<String>,
    /// Template of the text, instead of the built-in one.
    pub text: Option<String>,
    /// Template of a link that stands below the built-in text.
    pub link: Option<String>,
}

/// A template of the user's that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTemplate {
    /// Which: `title`, `text` or `link`.
    pub key: &'static str,
    /// Why, with the line.
    pub reason: String,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "template `{}`: {}; the built-in one is used", self.key, self.reason)
    }
}

impl std::error::Error for BadTemplate {}

/// Writes what people read.
#[derive(Debug)]
pub struct Texts {
    language: Language,
    templates: Environment<'static>,
    time_zone: TimeZone,
}

impl Default for Texts {
    /// English, UTC.
    fn default() -> Self {
        Self::new(Language::English, TimeZone::UTC, OwnTexts::default()).0
    }
}

impl Texts {
    /// The templates of a language, with the user's own in their place. What does not work is left out and told.
    pub fn new(language: Language, time_zone: TimeZone, own: OwnTexts) -> (Texts, Vec<BadTemplate>) {
        let mut templates = Environment::new();
        templates.set_fuel(Some(FUEL));
        templates.set_undefined_behavior(UndefinedBehavior::Chainable);
        templates.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let (title, text) = built_in(language);
        for (name, template) in [(BUILT_IN_TITLE, title), (BUILT_IN_TEXT, text), (TITLE, title), (TEXT, text)] {
            templates.add_template(name, template).expect("built-in templates are sound, which a test holds");
        }
        templates.add_template("link", "").expect("an empty template is sound");
        let mut texts = Texts { language, templates, time_zone };
        let bad = [(TITLE, own.title), (TEXT, own.text), ("link", own.link)]
            .into_iter()
            .filter_map(|(key, source)| texts.replace(key, source?).err())
            .collect();
        (texts, bad)
    }

    /// Puts a template of the user's in, if it works for an alert of each class.
    fn replace(&mut self, key: &'static str, source: String) -> Result<(), BadTemplate> {
        let bad = |error: minijinja::Error| BadTemplate { key, reason: format!("{error}") };
        let mut trial = self.templates.clone();
        trial.add_template_owned(key, source.clone()).map_err(bad)?;
        let trial = Texts { language: self.language, templates: trial, time_zone: self.time_zone.clone() };
        for class in [Class::Failover, Class::NoLeader, Class::Flapping, Class::Resolved, Class::Test] {
            trial.render(key, &super::drill::alert(class, "example")).map_err(bad)?;
        }
        self.templates.add_template_owned(key, source).map_err(bad)
    }

    /// Fills [`Alert::title`] and [`Alert::text`] from what else the alert says.
    pub fn write(&self, alert: &mut Alert) {
        let title = self.render(TITLE, alert).or_else(|_| self.render(BUILT_IN_TITLE, alert));
        let text = self.render(TEXT, alert).or_else(|_| self.render(BUILT_IN_TEXT, alert));
        alert.title = title.map_or_else(|_| format!("Flink {}: {:?}", alert.cluster, alert.class), one_line);
        alert.text = text.unwrap_or_default().trim().to_owned() + "\n";
    }

    /// The built-in text of an alert, whatever the user's own is.
    pub(super) fn built_in_text(&self, alert: &Alert) -> String {
        let text = self.templates.get_template(BUILT_IN_TEXT).and_then(|text| text.render(self.values(alert, "")));
        text.unwrap_or_default().trim().to_owned()
    }

    /// What the built-in title of a drill begins with: `[DRILL]` in the reader's language.
    pub(super) fn drill_mark(&self, drill: &Alert) -> String {
        let title = self.templates.get_template(BUILT_IN_TITLE).and_then(|title| title.render(self.values(drill, "")));
        let title = title.unwrap_or_default();
        title.split_inclusive(']').next().unwrap_or_default().to_owned()
    }

    fn render(&self, name: &str, alert: &Alert) -> Result<String, minijinja::Error> {
        // An alert without a link is better than none.
        let link = self.templates.get_template("link").and_then(|link| link.render(self.values(alert, "")));
        let link = link.unwrap_or_default();
        self.templates.get_template(name)?.render(self.values(alert, link.trim()))
    }

    fn values(&self, alert: &Alert, link: &str) -> minijinja::Value {
        let jobs: Vec<Job<'_>> = jobs(alert).take(LISTED_JOBS).map(Job::of).collect();
        let job_count = jobs_in(alert);
        minijinja::Value::from(minijinja::value::Serde(Values {
            alert,
            time: self.local(alert.occurred_at),
            old: alert.old_leader.as_ref().map(Place::of),
            new: alert.new_leader.as_ref().map(Place::of),
            leaderless: alert.leaderless_ms.map(seconds),
            drill: alert.drill,
            jobs,
            job_count,
            more_jobs: job_count.saturating_sub(LISTED_JOBS as u64),
            link,
        }))
    }

    /// A time as people read it: `2026-11-30 18:56:23 +08:00`.
    pub fn local(&self, at: Timestamp) -> String {
        at.to_zoned_datetime(self.time_zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
    }
}

/// Title and text of a language.
fn built_in(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::English => (include_str!("en.title.jinja"), include_str!("en.text.jinja")),
        Language::SimplifiedChinese => (include_str!("zh_cn.title.jinja"), include_str!("zh_cn.text.jinja")),
        Language::TraditionalChinese => (include_str!("zh_tw.title.jinja"), include_str!("zh_tw.text.jinja")),
        Language::Korean => (include_str!("ko.title.jinja"), include_str!("ko.text.jinja")),
    }
}

/// What a template may name: every field of the alert's JSON, and these.
#[derive(Serialize)]
struct Values<'a> {
    #[serde(flatten)]
    alert: &'a Alert,
    time: String,
    old: Option<Place<'a>>,
    new: Option<Place<'a>>,
    leaderless: Option<String>,
    drill: bool,
    jobs: Vec<Job<'a>>,
    job_count: u64,
    more_jobs: u64,
    link: &'a str,
}

#[derive(Serialize)]
struct Place<'a> {
    id: String,
    address: Option<&'a str>,
    place: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(leader: &'a Leader) -> Self {
        Self { id: leader.id.to_string(), address: leader.address.as_deref(), place: leader.host_and_port() }
    }
}

#[derive(Serialize)]
struct Job<'a> {
    id: String,
    name: Option<&'a str>,
    joined: bool,
}

impl<'a> Job<'a> {
    fn of(member: &'a Member) -> Self {
        let id = member.job_id.map_or_else(String::new, |id| id.to_string());
        Self { id, name: member.job_name.as_deref(), joined: member.joined }
    }
}

fn jobs(alert: &Alert) -> impl Iterator<Item = &Member> {
    alert.members.iter().filter(|member| member.component == Component::JobManager)
}

fn jobs_in(alert: &Alert) -> u64 {
    jobs(alert).count() as u64 + alert.members_left_out
}

fn one_line(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::alert::drill;

    const LANGUAGES: [Language; 4] =
        [Language::English, Language::SimplifiedChinese, Language::TraditionalChinese, Language::Korean];
    const CLASSES: [Class; 5] = [Class::Failover, Class::NoLeader, Class::Flapping, Class::Resolved, Class::Test];

    fn written(texts: &Texts, class: Class) -> Alert {
        let mut alert = drill::alert(class, "orders");
        alert.drill = false;
        texts.write(&mut alert);
        alert
    }

    #[test]
    fn every_class_has_its_own_words_in_every_language() {
        for language in LANGUAGES {
            let (texts, bad) = Texts::new(language, TimeZone::UTC, OwnTexts::default());
            assert_eq!(bad, []);
            let titles: std::collections::BTreeSet<String> =
                CLASSES.iter().map(|class| written(&texts, *class).title).collect();
            assert_eq!(titles.len(), CLASSES.len(), "{language:?}: {titles:?}");
            for class in CLASSES {
                let alert = written(&texts, class);
                assert!(alert.title.contains("orders") && !alert.title.contains('\n'), "{alert:?}");
                assert!(alert.text.lines().count() >= 1 && !alert.text.contains("none"), "{}", alert.text);
            }
        }
    }

    #[test]
    fn a_failover_says_what_where_and_what_to_look_at() {
        let alert = written(&Texts::default(), Class::Failover);
        insta::assert_snapshot!(format!("{}\n---\n{}", alert.title, alert.text));
    }

    #[test]
    fn times_are_those_of_the_readers_zone() {
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        let (texts, _) = Texts::new(Language::SimplifiedChinese, zone, OwnTexts::default());
        assert_eq!(texts.local(Timestamp::UNIX_EPOCH), "1970-01-01 08:00:00 +08:00");
    }

    #[test]
    fn own_templates_take_the_place_of_the_built_in_ones() {
        let own = OwnTexts {
            title: Some("{{ cluster|upper }} moved".into()),
            text: None,
            link: Some("https://grafana.example.org/d/flink?var-cluster={{ cluster|urlencode }}".into()),
        };
        let (texts, bad) = Texts::new(Language::English, TimeZone::UTC, own);
        assert_eq!(bad, []);
        let alert = written(&texts, Class::Failover);
        assert_eq!(alert.title, "ORDERS moved");
        assert!(alert.text.contains("\nhttps://grafana.example.org/d/flink?var-cluster=orders\n"), "{}", alert.text);
    }

    #[test]
    fn a_template_that_does_not_work_is_named_and_the_built_in_one_serves() {
        let endless = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
        for title in ["{{ cluster", "{{ cluster|nosuchfilter }}", endless] {
            let own = OwnTexts { title: Some(title.into()), ..OwnTexts::default() };
            let (texts, bad) = Texts::new(Language::English, TimeZone::UTC, own);
            assert_eq!(bad.len(), 1, "{title}");
            assert_eq!(bad[0].key, "title");
            assert_eq!(written(&texts, Class::NoLeader).title, "Flink orders: no JobManager leads");
        }
    }

    #[test]
    fn what_names_hold_is_text_and_never_a_template() {
        let mut alert = drill::alert(Class::Failover, "{{ 7*7 }} <b>&");
        alert.drill = false;
        Texts::default().write(&mut alert);
        assert!(alert.title.contains("{{ 7*7 }} <b>&"), "{}", alert.title);
    }

    /// Holds a fault: a link that works for the alerts that it is tried with, and fails for one, took the whole text with it.
    #[test]
    fn a_link_that_fails_for_an_alert_costs_the_link_only() {
        let own = OwnTexts { link: Some("https://ops/{{ 1 // (members|length) }}".into()), ..OwnTexts::default() };
        let (texts, bad) = Texts::new(Language::English, TimeZone::UTC, own);
        assert_eq!(bad, Vec::new());
        let mut alert = drill::alert(Class::Failover, "orders");
        alert.members.clear();
        texts.write(&mut alert);
        assert!(alert.title.contains("orders") && alert.text.lines().count() > 1, "{alert:?}");
    }

    #[test]
    fn each_language_tells_it_whole() {
        let mut told = String::new();
        for language in LANGUAGES {
            let texts = Texts::new(language, TimeZone::UTC, OwnTexts::default()).0;
            for class in [Class::Failover, Class::NoLeader, Class::Flapping, Class::Resolved] {
                let mut alert = drill::alert(class, "orders");
                (alert.id, alert.drill) = ("7f3a5c1d".into(), false);
                alert.occurred_at = jiff::Timestamp::UNIX_EPOCH;
                texts.write(&mut alert);
                told += &format!("=== {language:?}, {class:?}\n{}\n{}\n", alert.title, alert.text);
            }
        }
        insta::assert_snapshot!(told);
    }
}
