//! The configuration file: TOML, read so that every problem is told at once and costs no more than its own key or
//! target.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::keys::{self, Key, Kind};
use super::nearest::nearest;
use super::problem::{Effect, Fault, Place, Problem, Weight};
use super::reader::{EffectiveTable, Section, Source, chat_kind, quoted};
use super::salvage::{SyntaxError, salvage};
use super::secret::world_readable;
use super::target::{
    AlertmanagerConfig, ClientCertificate, ConnectionConfig, DingTalkConfig, EmailConfig, FeishuConfig,
    HeartbeatConfig, KindSettings, KubernetesEventConfig, Login, PagerDutyConfig, TargetSettings, TelegramConfig,
    UrlConfig, WebhookConfig, WebhookFormat,
};
use super::value::{self, ClaimStore, SmtpServer};
use crate::alert::{Class, OwnTexts};

/// Language of alerts for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English.
    English,
    /// Chinese in simplified characters.
    SimplifiedChinese,
    /// Chinese in traditional characters.
    TraditionalChinese,
    /// Korean.
    Korean,
}

impl Language {
    /// The tag of RFC 5646, as in the configuration.
    pub fn tag(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::SimplifiedChinese => "zh-CN",
            Language::TraditionalChinese => "zh-TW",
            Language::Korean => "ko",
        }
    }

    fn of_tag(tag: &str) -> Self {
        match tag {
            "zh-CN" => Language::SimplifiedChinese,
            "zh-TW" => Language::TraditionalChinese,
            "ko" => Language::Korean,
            _ => Language::English,
        }
    }
}

/// When to alert: the table `[alert]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertSettings {
    /// Classes that are raised at all.
    pub classes: Vec<Class>,
    /// How long an election gathers its members before the alert.
    pub group_wait: Duration,
    /// How long after an alert late members are told, once.
    pub group_interval: Duration,
    /// How long a seat stays empty before `no_leader`.
    pub no_leader_after: Duration,
    /// How long after a failover it counts as resolved where recovery is not seen.
    pub resolve_after: Duration,
    /// How long ago a remembered leader may have been seen alive.
    pub remember_for: Duration,
    /// Age from which alerts go out as a digest.
    pub max_age: Duration,
}

/// Who sends for the cluster: the table `[claim]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSettings {
    /// Where claims are kept.
    pub store: ClaimStore,
    /// How long a claim may stay unrenewed.
    pub lease: Duration,
}

/// What the file says, with defaults where it says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSettings {
    /// Name of the Flink cluster.
    pub cluster: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
    /// Labels of the user.
    pub labels: BTreeMap<String, String>,
    /// Language of alerts for people.
    pub language: Language,
    /// Time zone of alerts for people.
    pub time_zone: TimeZone,
    /// The alert log.
    pub log: Option<PathBuf>,
    /// Folder of the outbox.
    pub state: Option<PathBuf>,
    /// File for the textfile collector of Prometheus.
    pub metrics_file: Option<PathBuf>,
    /// When to alert.
    pub alert: AlertSettings,
    /// Who sends for the cluster.
    pub claim: ClaimSettings,
    /// The user's own words.
    pub texts: OwnTexts,
    /// Targets that can work, in the order of the file.
    pub targets: Vec<TargetSettings>,
    /// Where each of the targets stands in the file.
    pub places: Vec<Place>,
    /// Files that the file names and whose content matters: secrets, certificates.
    pub named_files: Vec<PathBuf>,
    /// The file as it takes effect, for people.
    pub effective: Vec<EffectiveTable>,
}

/// What the options say of mails, for targets that do not say it themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailDefaults {
    /// Mail server.
    pub smtp: Option<SmtpServer>,
    /// Sender.
    pub from: String,
}

/// Reads a file's text; `path` is its name in problems.
pub fn parse(text: &str, path: &Path, mail: &MailDefaults, env: &dyn Environment) -> (FileSettings, Vec<Problem>) {
    let source = Source::new(path, text, env);
    let (sound, errors) = salvage(text);
    let mut problems: Vec<Problem> = errors.into_iter().map(|error| syntax_problem(&source, error)).collect();
    let (document, _) = DeTable::parse_recoverable(&sound);
    let root = document.get_ref();
    let reader = Reader { source: &source, mail, empty: &DeTable::new(), effective: RefCell::default() };
    let settings = reader.file(root, &mut problems);
    if source.holds_secret.get()
        && let Some(mode) = world_readable(path, env)
    {
        problems.push(Problem {
            place: Place::File { path: path.to_owned(), line: None },
            key: String::new(),
            fault: Fault::WorldReadable { path: path.to_owned(), mode },
            effect: Effect::None,
            weight: Weight::Warning,
        });
    }
    problems.sort_by_key(|problem| problem.line().unwrap_or(0));
    (settings, problems)
}

fn syntax_problem(source: &Source<'_>, error: SyntaxError) -> Problem {
    let last = error.ignored.end.saturating_sub(1).max(error.ignored.start);
    Problem {
        place: source.place(&(error.offset..error.offset)),
        key: String::new(),
        fault: Fault::Syntax { message: error.message },
        effect: Effect::LinesIgnored { first: source.line(error.ignored.start), last: source.line(last) },
        weight: Weight::Error,
    }
}

struct Reader<'a> {
    source: &'a Source<'a>,
    mail: &'a MailDefaults,
    /// Stands in for a table that is not there.
    empty: &'a DeTable<'a>,
    /// Tables as they take effect, in the order of reading.
    effective: RefCell<Vec<EffectiveTable>>,
}

impl<'a> Reader<'a> {
    fn file(&self, root: &'a DeTable<'a>, problems: &mut Vec<Problem>) -> FileSettings {
        let alert = self.alert(self.table(root, "alert", problems), problems);
        let claim = self.claim(self.table(root, "claim", problems), problems);
        let texts = self.texts(self.table(root, "text", problems), problems);
        let (targets, places) = self.targets(root, &alert, problems);
        let mut top = Section::new(self.source, root, 0..0, "", problems);
        top.report_unknown(&keys::TOP, &keys::TABLES, None);
        let mut settings = FileSettings {
            cluster: top.text(&keys::CLUSTER),
            namespace: top.text(&keys::NAMESPACE),
            labels: top.labels(&keys::LABELS),
            language: Language::of_tag(top.choice(&keys::LANGUAGE).unwrap_or_default()),
            time_zone: top.value(&keys::TIME_ZONE, value::time_zone).unwrap_or(TimeZone::UTC),
            log: top.path(&keys::LOG),
            state: top.path(&keys::STATE),
            metrics_file: top.path(&keys::METRICS_FILE),
            alert,
            claim,
            texts,
            targets,
            places,
            named_files: self.source.named_files.take(),
            effective: self.effective.take(),
        };
        settings.effective.insert(0, top.effective(""));
        settings
    }

    /// A table by its name; an empty one where it is absent or no table.
    fn table(&self, root: &'a DeTable<'a>, name: &str, problems: &mut Vec<Problem>) -> (&'a DeTable<'a>, Range<usize>) {
        let Some(item) = root.get(name) else { return (self.empty, 0..0) };
        match item.get_ref() {
            DeValue::Table(table) => (table, item.span()),
            _ => {
                problems.push(Problem {
                    place: self.source.place(&item.span()),
                    key: name.to_owned(),
                    fault: Fault::WrongType { found: "no table", allowed: format!("a table: `[{name}]`") },
                    effect: Effect::KeyIgnored,
                    weight: Weight::Error,
                });
                (self.empty, item.span())
            }
        }
    }

    fn alert(&self, (table, span): (&'a DeTable<'a>, Range<usize>), problems: &mut Vec<Problem>) -> AlertSettings {
        let mut section = Section::new(self.source, table, span, "alert.", problems);
        section.report_unknown(&keys::ALERT, &[], None);
        let alert = AlertSettings {
            classes: section.classes(&keys::ALERT_CLASSES, &all_classes()),
            group_wait: section.duration(&keys::GROUP_WAIT),
            group_interval: section.duration(&keys::GROUP_INTERVAL),
            no_leader_after: section.duration(&keys::NO_LEADER_AFTER),
            resolve_after: section.duration(&keys::RESOLVE_AFTER),
            remember_for: section.duration(&keys::REMEMBER_FOR),
            max_age: section.duration(&keys::MAX_AGE),
        };
        self.effective.borrow_mut().push(section.effective("[alert]"));
        alert
    }

    fn claim(&self, (table, span): (&'a DeTable<'a>, Range<usize>), problems: &mut Vec<Problem>) -> ClaimSettings {
        let mut section = Section::new(self.source, table, span, "claim.", problems);
        section.report_unknown(&keys::CLAIM, &[], None);
        let claim = ClaimSettings {
            store: section.value(&keys::STORE, value::claim_store).unwrap_or(ClaimStore::Auto),
            lease: section.duration(&keys::LEASE),
        };
        self.effective.borrow_mut().push(section.effective("[claim]"));
        claim
    }

    fn texts(&self, (table, span): (&'a DeTable<'a>, Range<usize>), problems: &mut Vec<Problem>) -> OwnTexts {
        let mut section = Section::new(self.source, table, span, "text.", problems);
        section.report_unknown(&keys::TEXT, &[], None);
        let texts = OwnTexts {
            title: section.value(&keys::OWN_TITLE, value::title_template),
            text: section.value(&keys::OWN_BODY, value::body_template),
            link: section.value(&keys::DASHBOARD_URL, value::link_template),
        };
        self.effective.borrow_mut().push(section.effective("[text]"));
        texts
    }

    fn targets(
        &self,
        root: &'a DeTable<'a>,
        alert: &AlertSettings,
        problems: &mut Vec<Problem>,
    ) -> (Vec<TargetSettings>, Vec<Place>) {
        let Some(item) = root.get("target") else { return (Vec::new(), Vec::new()) };
        let items = match item.get_ref() {
            DeValue::Array(items) => &items[..],
            _ => std::slice::from_ref(item),
        };
        let mut taken = BTreeSet::new();
        let (mut targets, mut places) = (Vec::new(), Vec::new());
        for item in items {
            let place = self.source.place(&item.span());
            let DeValue::Table(table) = item.get_ref() else {
                problems.push(no_target(place));
                continue;
            };
            if let Some(target) = self.target(table, item.span(), alert, &mut taken, problems) {
                targets.push(target);
                places.push(place);
            }
        }
        (targets, places)
    }

    fn target(
        &self,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        alert: &AlertSettings,
        taken: &mut BTreeSet<String>,
        problems: &mut Vec<Problem>,
    ) -> Option<TargetSettings> {
        let mut section = Section::new(self.source, table, span.clone(), "target.", problems);
        let is_text = |item: &Spanned<DeValue<'_>>| matches!(item.get_ref(), DeValue::String(_));
        let written_kind = table.get(keys::KIND.name).filter(|item| is_text(item)).and_then(|i| i.get_ref().as_str());
        let written_name = section.text(&keys::NAME);
        let wanted = written_name.clone().unwrap_or_else(|| written_kind.unwrap_or("target").to_owned());
        let name = free_name(&wanted, taken);
        section.is_target(&name);
        section.note(keys::NAME.name, quoted(&name));
        if written_name.is_some() && name != wanted {
            let span = section.span_of(&keys::NAME);
            let fault = Fault::DuplicateName { renamed: name.clone() };
            section.push(keys::NAME.name, &span, fault, Effect::None, Weight::Error);
        }
        let kind = section.choice(&keys::KIND).and_then(keys::kind);
        report_unknown_of_target(&mut section, kind);
        let classes = match kind {
            Some(kind) if kind.name == "heartbeat" => no_classes(&mut section),
            _ => section.classes(&keys::TARGET_CLASSES, &alert.classes),
        };
        let fallback = section.text(&keys::FALLBACK);
        let connection = ConnectionConfig {
            proxy: section.secret(&keys::PROXY),
            ca_file: section.existing_path(&keys::CA_FILE),
            client_certificate: client_certificate(&mut section),
            server_name: section.text(&keys::SERVER_NAME),
            timeout: section.duration(&keys::TIMEOUT),
        };
        let settings = kind.and_then(|kind| self.kind(kind, &mut section)).filter(|_| !section.broken);
        self.effective.borrow_mut().push(section.effective("[[target]]"));
        let kind = settings?;
        Some(TargetSettings { name, classes, fallback, connection, kind })
    }

    fn kind(&self, kind: &Kind, section: &mut Section<'_, '_>) -> Option<KindSettings> {
        match kind.name {
            "webhook" => webhook(section).map(KindSettings::Webhook),
            "email" => self.email(section).map(KindSettings::Email),
            "slack" => url(section).map(KindSettings::Slack),
            "teams" => url(section).map(KindSettings::Teams),
            "discord" => url(section).map(KindSettings::Discord),
            "dingtalk" => dingtalk(section).map(KindSettings::DingTalk),
            "feishu" => feishu(section).map(KindSettings::Feishu),
            "wecom" => url(section).map(KindSettings::WeCom),
            "telegram" => telegram(section).map(KindSettings::Telegram),
            "pagerduty" => pagerduty(section).map(KindSettings::PagerDuty),
            "alertmanager" => Some(KindSettings::Alertmanager(alertmanager(section))),
            "kubernetes_event" => Some(KindSettings::KubernetesEvent(kubernetes_event(section))),
            "heartbeat" => heartbeat(section).map(KindSettings::Heartbeat),
            _ => None,
        }
    }

    fn email(&self, section: &mut Section<'_, '_>) -> Option<EmailConfig> {
        let written = section.value(&keys::SMTP, value::smtp)?;
        let is_written = section.is_written(&keys::SMTP);
        let smtp = self.mail.smtp.clone().filter(|_| !is_written).unwrap_or(written);
        let from = section.value(&keys::FROM, value::address).unwrap_or_else(|| self.mail.from.clone());
        section.note(keys::SMTP.name, quoted(&smtp.to_string()));
        section.note(keys::FROM.name, quoted(&from));
        let (to, login) = (section.addresses(&keys::TO), login(section));
        Some(EmailConfig { smtp, from, to, login })
    }
}

fn no_target(place: Place) -> Problem {
    let allowed = "`[[target]]` before the keys of each target".to_owned();
    let fault = Fault::WrongType { found: "no table", allowed };
    Problem { place, key: "target".to_owned(), fault, effect: Effect::KeyIgnored, weight: Weight::Error }
}

fn all_classes() -> Vec<Class> {
    vec![Class::Failover, Class::NoLeader, Class::Flapping, Class::Resolved]
}

/// The name itself, or the first of `name-2`, `name-3`, ... that is free.
fn free_name(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

fn report_unknown_of_target(section: &mut Section<'_, '_>, kind: Option<&Kind>) {
    let own: Vec<Key> = match kind {
        Some(kind) => kind.keys.to_vec(),
        // Without a kind, whatever some kind takes may be right.
        None => keys::KINDS.iter().flat_map(|kind| kind.keys.iter().copied()).collect(),
    };
    section.report_unknown(&[&keys::SHARED[..], &own].concat(), &[], kind);
}

/// A heartbeat has no classes, whatever is written.
fn no_classes(section: &mut Section<'_, '_>) -> Vec<Class> {
    if !section.classes(&keys::TARGET_CLASSES, &[]).is_empty() {
        let span = section.span_of(&keys::TARGET_CLASSES);
        section.push(keys::TARGET_CLASSES.name, &span, Fault::TakesNoAlerts, Effect::KeyIgnored, Weight::Warning);
        section.note(keys::TARGET_CLASSES.name, "[]".to_owned());
    }
    Vec::new()
}

fn url(section: &mut Section<'_, '_>) -> Option<UrlConfig> {
    Some(UrlConfig { url: section.secret(&keys::URL)? })
}

fn login(section: &mut Section<'_, '_>) -> Option<Login> {
    let username = section.text(&keys::USERNAME);
    let password = section.secret(&keys::PASSWORD);
    let (username, password) = section.pair((&keys::USERNAME, username), (&keys::PASSWORD, password))?;
    Some(Login { username, password })
}

fn webhook(section: &mut Section<'_, '_>) -> Option<WebhookConfig> {
    let url = section.secret(&keys::URL);
    if let Some(kind) = url.as_ref().and_then(|url| chat_kind(url, section.source.env)) {
        let span = section.span_of(&keys::URL);
        section.push(keys::URL.name, &span, Fault::ChatHost { kind }, Effect::None, Weight::Error);
    }
    let secrets = section.secrets(&keys::WEBHOOK_SECRETS);
    let token = section.secret(&keys::TOKEN);
    let login = login(section);
    let headers = section.headers(&keys::HEADERS);
    let format = match section.choice(&keys::FORMAT) {
        Some("cloudevents") => WebhookFormat::CloudEvents,
        _ => WebhookFormat::Plain,
    };
    Some(WebhookConfig { url: url?, secrets, token, login, headers, format })
}

fn client_certificate(section: &mut Section<'_, '_>) -> Option<ClientCertificate> {
    let cert = section.existing_path(&keys::CLIENT_CERT);
    let key = section.existing_path(&keys::CLIENT_KEY);
    let pair = section.pair((&keys::CLIENT_CERT, cert), (&keys::CLIENT_KEY, key));
    pair.map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file })
}

fn dingtalk(section: &mut Section<'_, '_>) -> Option<DingTalkConfig> {
    let url = section.secret(&keys::URL);
    let secret = section.secret(&keys::SECRET);
    let keywords = section.texts(&keys::KEYWORDS);
    let at_mobiles = section.texts(&keys::AT_MOBILES);
    let at_user_ids = section.texts(&keys::AT_USER_IDS);
    let at_all = section.flag(&keys::AT_ALL);
    Some(DingTalkConfig { url: url?, secret, keywords, at_mobiles, at_user_ids, at_all })
}

fn feishu(section: &mut Section<'_, '_>) -> Option<FeishuConfig> {
    let url = section.secret(&keys::URL);
    let secret = section.secret(&keys::SECRET);
    let keywords = section.texts(&keys::KEYWORDS);
    Some(FeishuConfig { url: url?, secret, keywords })
}

fn telegram(section: &mut Section<'_, '_>) -> Option<TelegramConfig> {
    let url = section.secret(&keys::TELEGRAM_URL);
    let token = section.secret(&keys::BOT_TOKEN);
    let chat_id = section.chat_id(&keys::CHAT_ID);
    Some(TelegramConfig { url: url?, token: token?, chat_id: chat_id? })
}

fn pagerduty(section: &mut Section<'_, '_>) -> Option<PagerDutyConfig> {
    let url = section.secret(&keys::PAGERDUTY_URL);
    let routing_key = section.secret(&keys::ROUTING_KEY);
    Some(PagerDutyConfig { url: url?, routing_key: routing_key? })
}

fn alertmanager(section: &mut Section<'_, '_>) -> AlertmanagerConfig {
    let urls = section.secrets(&keys::URLS);
    let token = section.secret(&keys::TOKEN);
    AlertmanagerConfig { urls, token, login: login(section), watchdog: section.optional_duration(&keys::WATCHDOG) }
}

fn kubernetes_event(section: &mut Section<'_, '_>) -> KubernetesEventConfig {
    let url = section.secret(&keys::KUBERNETES_URL);
    let token = section.secret(&keys::KUBERNETES_TOKEN);
    KubernetesEventConfig { url, token, namespace: section.text(&keys::EVENT_NAMESPACE) }
}

fn heartbeat(section: &mut Section<'_, '_>) -> Option<HeartbeatConfig> {
    let url = section.secret(&keys::URL);
    let interval = section.duration(&keys::INTERVAL);
    Some(HeartbeatConfig { url: url?, interval })
}

/// Checks the fallbacks of all targets against each other: drops those that name no working target or lead back to
/// where they started, and tells targets that no alert ever reaches.
pub(super) fn check_routes(
    targets: &mut [TargetSettings],
    places: &[Place],
    raised: &[Class],
    problems: &mut Vec<Problem>,
) {
    let is_heartbeat = |target: &TargetSettings| matches!(target.kind, KindSettings::Heartbeat(_));
    let names: Vec<String> =
        targets.iter().filter(|target| !is_heartbeat(target)).map(|target| target.name.clone()).collect();
    for at in 0..targets.len() {
        let Some(fallback) = targets[at].fallback.clone() else { continue };
        let fault = if !names.contains(&fallback) {
            let known = || names.iter().map(String::as_str);
            let nearest = nearest(&fallback, known()).map(str::to_owned);
            Fault::UnknownFallback { name: value::shown(&fallback), nearest, known: value::listed(known()) }
        } else if leads_back(targets, &targets[at].name) {
            Fault::FallbackLoop
        } else {
            continue;
        };
        targets[at].fallback = None;
        let name = &targets[at].name;
        problems.push(route_problem(name, "fallback", &places[at], fault, Effect::KeyIgnored, Weight::Error));
    }
    for (target, place) in targets.iter().zip(places) {
        let keeps_open = matches!(target.kind, KindSettings::PagerDuty(_) | KindSettings::Alertmanager(_));
        let (is_told, is_told_the_end) = (!target.classes.is_empty(), target.classes.contains(&Class::Resolved));
        if keeps_open && is_told && !(is_told_the_end && raised.contains(&Class::Resolved)) {
            let fault = Fault::NeverResolved;
            problems.push(route_problem(&target.name, "classes", place, fault, Effect::None, Weight::Warning));
        }
        let is_fallback = targets.iter().any(|other| other.fallback.as_ref() == Some(&target.name));
        let is_reached = target.classes.iter().any(|class| raised.contains(class)) || is_fallback;
        // A heartbeat carries no alerts.
        if !is_reached && !is_heartbeat(target) {
            let fault = Fault::NeverReached;
            problems.push(route_problem(&target.name, "classes", place, fault, Effect::None, Weight::Warning));
        }
    }
}

fn leads_back(targets: &[TargetSettings], start: &str) -> bool {
    let next = |name: &str| targets.iter().find(|target| target.name == name).and_then(|t| t.fallback.as_deref());
    let mut name = start;
    // A chain longer than there are targets runs in a circle further on, which is told of its own members.
    for _ in 0..targets.len() {
        match next(name) {
            Some(following) if following == start => return true,
            Some(following) => name = following,
            None => return false,
        }
    }
    false
}

fn route_problem(name: &str, key: &str, place: &Place, fault: Fault, effect: Effect, weight: Weight) -> Problem {
    Problem { place: place.clone(), key: format!("target.{name}.{key}"), fault, effect, weight }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::environment::FakeEnvironment;
    use super::*;

    fn environment() -> FakeEnvironment {
        FakeEnvironment::default()
            .with_var("TOKEN", "of-env")
            .with_file("/secret-url", "https://hooks.example/secret\n")
            .with_mode("/open", 0o644, "https://hooks.example/secret\n")
            .with_file("/no-url", "secret-nonsense")
            .with_file("/pem", "-----BEGIN CERTIFICATE-----")
    }

    fn read(text: &str) -> (FileSettings, String) {
        let mail = MailDefaults { smtp: None, from: "leaderwatch@tm-1".to_owned() };
        let (mut settings, mut problems) = parse(text, Path::new("lw.toml"), &mail, &environment());
        let places = settings.places.clone();
        check_routes(&mut settings.targets, &places, &settings.alert.classes, &mut problems);
        (settings, problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))
    }

    fn problems(text: &str) -> String {
        read(text).1
    }

    fn names(settings: &FileSettings) -> Vec<&str> {
        settings.targets.iter().map(|target| target.name.as_str()).collect()
    }

    #[test]
    fn each_error_says_where_what_and_what_instead() {
        let told: Vec<String> = [
            "grup_wait = 1",
            "cluster = 5\nlanguage = 'zh-cn'\ntime_zone = 'Mars/Olympus'\nlabels = { '1x' = 'a', ok = 'b', n = 3 }",
            "[alert]\ngroup_wait = 2\nno_leader_after = '0s'\nclasses = ['failovr', 'resolved']\nmax_ages = '1h'",
            "[claim]\nstore = 'zookeper://x'\nlease = '1s'",
            "alert = 5",
            "[target]\nkind = 'slack'\nurl = 'https://h/'",
            "[[target]]\nkind = 'slak'\nurl = 'https://h/'",
            "[[target]]\nurl = 'https://h/'",
            "[[target]]\nkind = 'slack'",
            "[[target]]\nkind = 'slack'\nurl = 'secret'\ntoken = 'x'",
            "[[target]]\nkind = 'slack'\nurl = 'https://h/secret'\nurl_file='/secret-url'",
            "[[target]]\nkind = 'slack'\nurl_file = '/missing'\n",
            "[[target]]\nkind = 'slack'\nurl_env = 'MISSING'\n",
            "[[target]]\nkind = 'slack'\nurl_file = '/no-url'\n",
            "[[target]]\nkind = 'slack'\nurl_file = '/open'\n",
            "[[target]]\nkind = 'webhook'\nurl = 'https://hooks.slack.com/secret'\nusername = 'u'\nclient_cert = '/missing'\nheaders = { 'a b' = 'x', c = 5, d = { file = '/missing' } }",
            "[[target]]\nkind = 'email'\nto = ['x', 'a@b.org']\nsmtp = 'mail'\n",
            "[[target]]\nkind = 'email'\nto = []\n",
            "[[target]]\nkind = 'slack'\nname = 'a'\nurl = 'https://h/'\nfallback = 'b'\n[[target]]\nkind = 'slack'\nname = 'b'\nurl = 'https://h/'\nfallback = 'a'\n[[target]]\nkind = 'slack'\nname = 'c'\nurl = 'https://h/'\nfallback = 'bb'\nclasses = []",
            "[[target]]\nkind = 'slack'\nname = 'a'\nurl = 'https://h/'\n[[target]]\nkind = 'slack'\nname = 'a'\nurl = 'https://h/'\n",
            "[[target]]\nkind = 'slack'\nurl = 'https://h/'\nproxy = 'ftp://secret'\nca_file = '/missing'\ntimeout = '1h'",
            "[[target]]\nkind = 'slack'\nname = 'a'\nurl = 'https://h/'\n[[target]\nkind = 'slack'\nname = 'b'\nurl = 'https://h/'\n[[target]]\nkind='slack'\nname = 'c'\nurl = 'https://h/'",
            "cluster = 'a\n[alert]\ngroup_wait = '3s'",
            "cluster = 'a'\ncluster = 'b'",
            "x = = 1\ny",
        ]
        .iter()
        .map(|text| {
            let (settings, problems) = read(text);
            format!("{}\n=> targets {:?}\n{problems}\n", text.trim_end(), names(&settings))
        })
        .collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    /// Every kind, with every key that it takes written as its example in the table of keys.
    fn all_kinds() -> String {
        let mut text = String::new();
        for kind in &keys::KINDS {
            text.push_str(&format!("[[target]]\nkind = \"{}\"\n", kind.name));
            for key in kind.keys {
                text.push_str(&format!("{}\n", key.line()));
            }
        }
        text.replace("/etc/leaderwatch/client.pem", "/pem")
            .replace("/etc/leaderwatch/client-key.pem", "/pem")
            .replace("/run/secrets/api-key", "/secret-url")
    }

    #[test]
    fn every_kind_takes_every_one_of_its_keys() {
        let (settings, problems) = read(&all_kinds());
        assert_eq!(problems, "");
        assert_eq!(names(&settings), keys::KIND_NAMES);
        let kinds: Vec<&str> = settings.targets.iter().map(|target| target.kind.name()).collect();
        assert_eq!(kinds, keys::KIND_NAMES);
        let told: Vec<String> = settings.targets.iter().map(|target| format!("{:?}", target.kind)).collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_kind_without_its_required_keys_is_disabled_and_says_so() {
        for kind in &keys::KINDS {
            let (settings, problems) = read(&format!("[[target]]\nkind = '{}'\n", kind.name));
            let required = kind.keys.iter().filter(|key| key.required).count();
            assert_eq!(settings.targets.is_empty(), required > 0, "{}", kind.name);
            assert_eq!(problems.lines().count(), required, "{problems}");
        }
    }

    #[test]
    fn a_bad_target_costs_no_other_one() {
        let text = "[[target]]\nkind = 'slack'\n[[target]]\nkind = 'teams'\nurl = 'https://h/'\n";
        assert_eq!(names(&read(text).0), ["teams"]);
    }

    #[test]
    fn a_mistyped_class_means_all_classes_rather_than_none() {
        let (settings, _) = read("[alert]\nclasses = ['failovr', 'resolved']");
        assert_eq!(settings.alert.classes, all_classes());
        let (settings, problems) = read("[[target]]\nkind = 'slack'\nurl = 'https://h/'\nclasses = 'resolved'");
        assert_eq!((settings.targets[0].classes.clone(), problems), (vec![Class::Resolved], String::new()));
    }

    #[test]
    fn a_file_with_secrets_that_all_can_read_is_told() {
        let mail = MailDefaults::default();
        let told = |text: &str| {
            let env = FakeEnvironment::default().with_mode("/lw.toml", 0o644, text);
            parse(text, Path::new("/lw.toml"), &mail, &env).1.iter().map(Problem::to_string).collect::<Vec<_>>()
        };
        let open = [
            "/lw.toml: `/lw.toml` (mode 0644) can be read by every user of this machine; let Flink's user alone read it: \
                    chown it to that user, and chmod 600 /lw.toml",
        ];
        assert_eq!(told("[[target]]\nkind = 'slack'\nurl = 'https://h/'\n"), open);
        assert_eq!(told("cluster = 'a'\n"), Vec::<String>::new());
    }

    /// Whatever stands in a secret key, sound or not, no problem and no Debug output shows it.
    #[test]
    fn no_secret_is_ever_shown() {
        for kind in &keys::KINDS {
            for key in kind.keys.iter().chain(&keys::SHARED).filter(|key| key.shape.is_secret()) {
                for value in [
                    "'MARKED'",
                    "'https://MARKED/'",
                    "'https://h/MARKED\\n'",
                    "['MARKED', 5]",
                    "{ MARKED = 'x' }",
                    "\"MARKED\\n\"",
                    "'MARKED",
                ] {
                    let (settings, problems) =
                        read(&format!("[[target]]\nkind = '{}'\n{} = {value}\n", kind.name, key.name));
                    assert!(!problems.contains("MARKED"), "{problems}");
                    assert!(!format!("{settings:?}").contains("MARKED"));
                }
            }
        }
        let (settings, problems) =
            read("[[target]]\nkind = 'webhook'\nurl = 'https://h'\nheaders = { A = 'MARKED', B = \"MARKED\\n\" }");
        assert!(!problems.contains("MARKED") && !format!("{settings:?}").contains("MARKED"), "{problems}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(.|\\n)*") {
            let _ = problems(&text);
        }

        /// Pieces of a sound file, put together at random.
        #[test]
        fn no_mixture_makes_it_panic(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "[[target]]\n", "[target]\n", "[alert]\n", "[claim", "kind = ", "'slack'\n", "'webhook'\n",
                    "url = ", "'https://h/'\n", "name = 'a'\n", "fallback = 'a'\n", "headers = {", "}\n",
                    "classes = [", "'failover'", "]\n", "\n", "= ", "\"", "'''", "#", "é", "5\n",
                    "secret = ['a', 'b']\n", "url_file = '/open'\n", "labels.x = 'y'\n", "timeout = '1s'\n",
                ]),
                0..24,
            ),
        ) {
            let _ = problems(&pieces.concat());
        }
    }
}
