//! Reads one table of the file key by key. Whatever is wrong with a key is collected, and the next key is read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::keys::{self, Key, Kind, Shape};
use super::nearest::nearest;
use super::problem::{Effect, Fault, Place, Problem, Weight};
use super::secret::{MASK, Secret, SecretSource, world_readable};
use super::value::{self, bad_value, listed, shown};
use crate::alert::Class;

/// What all tables of one file share.
pub(super) struct Source<'a> {
    path: &'a Path,
    line_starts: Vec<usize>,
    pub(super) env: &'a dyn Environment,
    /// Whether a secret is written in the file itself.
    pub(super) holds_secret: Cell<bool>,
    /// Files that the file names and whose content matters.
    pub(super) named_files: RefCell<Vec<PathBuf>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a Path, text: &str, env: &'a dyn Environment) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { path, line_starts, env, holds_secret: Cell::new(false), named_files: RefCell::default() }
    }

    /// The line, counted from 1, of a byte offset.
    pub(super) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        Place::File { path: self.path.to_owned(), line: Some(self.line(span.start)) }
    }
}

/// A table of the file as it takes effect: what was written, defaults where nothing sound was, secrets masked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectiveTable {
    /// `[alert]`, `[[target]]`; empty for the top of the file.
    pub header: String,
    /// Keys and values as they would be written.
    pub lines: Vec<(String, String)>,
    /// Whether it is a target that is disabled.
    pub is_disabled: bool,
}

/// A text as it would be written.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// What is wrong with a secret as it is now, and how much.
pub(super) fn faults_of_secret(source: &SecretSource, shape: Shape, env: &dyn Environment) -> Vec<(Fault, Weight)> {
    let mut faults = Vec::new();
    match source.current_in(env) {
        Err(error) => faults.push((Fault::SecretUnavailable(error), Weight::Error)),
        Ok(secret) if !has_form(secret.expose(), shape) => {
            faults.push((Fault::SecretMalformed { allowed: allowed(shape) }, Weight::Error));
        }
        Ok(_) => {}
    }
    if let SecretSource::File(path) = source
        && let Some(mode) = world_readable(path, env)
    {
        faults.push((Fault::WorldReadable { path: path.clone(), mode }, Weight::Warning));
    }
    faults
}

/// The kind of chat that a URL belongs to, where it is one.
pub(super) fn chat_kind(source: &SecretSource, env: &dyn Environment) -> Option<&'static str> {
    let url = source.current_in(env).ok()?;
    value::chat_kind_of_host(&value::host_of(url.expose())?)
}

fn has_form(secret: &str, shape: Shape) -> bool {
    match shape {
        Shape::SecretUrl | Shape::SecretUrls => value::is_http_url(secret),
        Shape::ProxyUrl => value::is_proxy_url(secret),
        // Goes into a header or a login: a line end there would be a second header.
        _ => !secret.chars().any(char::is_control),
    }
}

/// What a shape allows, for people.
pub(super) fn allowed(shape: Shape) -> String {
    match shape {
        Shape::Text => "a text in double quotes".to_owned(),
        Shape::Texts => "a list of texts".to_owned(),
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Path => "a path in double quotes".to_owned(),
        Shape::Choice(words) => listed(words.iter().copied()),
        Shape::Choices(words) => format!("a list of: {}", listed(words.iter().copied())),
        Shape::Duration(min, max) => value::duration_allowed(min, max),
        Shape::Labels => {
            "a table of texts, such as `{ env = \"prod\" }`, each name of letters, digits and `_`".to_owned()
        }
        Shape::Headers => {
            "a table of headers, each a text, `{ file = \"PATH\" }` or `{ env = \"VARIABLE\" }`".to_owned()
        }
        Shape::TimeZone => "a name of the IANA time zone database, such as `UTC`, `Europe/Berlin`".to_owned(),
        Shape::ClaimStore => "`auto`, `none`, or a URL of zookeeper, kubernetes or file".to_owned(),
        Shape::Smtp => "`smtp://host:port`, `smtps://host:port` or `smtp+starttls://host:port`".to_owned(),
        Shape::Address => "an email address, or `Name <address>`".to_owned(),
        Shape::Addresses => "a list of email addresses".to_owned(),
        Shape::ChatId => "a whole number, or a text such as `@channel`".to_owned(),
        Shape::Secret => "a text in double quotes, of one line".to_owned(),
        Shape::Secrets => "a text in double quotes, or a list of them".to_owned(),
        Shape::SecretUrl => value::URL_ALLOWED.to_owned(),
        Shape::SecretUrls => format!("a list, each item {}", value::URL_ALLOWED),
        Shape::ProxyUrl => value::PROXY_ALLOWED.to_owned(),
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn wrong_type(value: &DeValue<'_>, shape: Shape) -> Fault {
    Fault::WrongType { found: type_name(value), allowed: allowed(shape) }
}

/// Makes a source of what is written in one of the variants of a secret's key.
type MakeSource = fn(&str, &dyn Environment) -> SecretSource;
type Item<'a> = Spanned<DeValue<'a>>;

/// One table.
pub(super) struct Section<'a, 'p> {
    pub(super) source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    /// Where the table begins: the place of what is missing.
    span: Range<usize>,
    /// What stands before the names of its keys in problems: empty, `alert.`, `target.NAME.`.
    prefix: String,
    /// Name of the target that the table describes.
    target: Option<String>,
    /// Whether the target cannot work.
    pub(super) broken: bool,
    lines: Vec<(String, String)>,
    problems: &'p mut Vec<Problem>,
}

impl<'a, 'p> Section<'a, 'p> {
    pub(super) fn new(
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        prefix: &str,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        Self {
            source,
            table,
            span,
            prefix: prefix.to_owned(),
            target: None,
            broken: false,
            lines: Vec::new(),
            problems,
        }
    }

    /// From now on the table is that of a target: a missing or bad key that it cannot do without disables it.
    pub(super) fn is_target(&mut self, name: &str) {
        self.prefix = format!("target.{name}.");
        self.target = Some(name.to_owned());
    }

    /// The table as it was read.
    pub(super) fn effective(&mut self, header: &str) -> EffectiveTable {
        let lines = std::mem::take(&mut self.lines);
        EffectiveTable { header: header.to_owned(), lines, is_disabled: self.broken }
    }

    /// Notes what a key comes to, in place of what was noted before.
    pub(super) fn note(&mut self, key: &str, shown: String) {
        self.lines.retain(|(name, _)| name != key);
        self.lines.push((key.to_owned(), shown));
    }

    pub(super) fn push(&mut self, key: &str, span: &Range<usize>, fault: Fault, effect: Effect, weight: Weight) {
        let place = self.source.place(span);
        self.problems.push(Problem { place, key: format!("{}{key}", self.prefix), fault, effect, weight });
    }

    /// Reports a key that does not take effect. Without a key that it needs, or without a secret that the user meant it
    /// to have, a target does not work: to send unsigned or without a login is not what was asked for.
    fn reject(&mut self, key: &Key, span: &Range<usize>, fault: Fault) {
        self.reject_as(key.name, key, span, fault);
    }

    /// As [`Section::reject`], where the key is written under another name: a variant of it.
    fn reject_as(&mut self, name: &str, key: &Key, span: &Range<usize>, fault: Fault) {
        let effect = match (&self.target, key.default) {
            (Some(target), _) if key.required || key.shape.is_secret() => {
                self.broken = true;
                Effect::TargetDisabled(target.clone())
            }
            (_, Some(default)) => Effect::DefaultUsed(default.to_owned()),
            _ => Effect::KeyIgnored,
        };
        self.push(name, span, fault, effect, Weight::Error);
    }

    /// A target does not work as long as a file or variable that it needs is not there, or not as it should be.
    fn effect_of_fault(&self) -> Effect {
        self.target.clone().map_or(Effect::None, Effect::TargetDisabled)
    }

    pub(super) fn warn(&mut self, key: &Key, span: &Range<usize>, fault: Fault) {
        self.push(key.name, span, fault, Effect::None, Weight::Warning);
    }

    /// Whether a key is written, soundly or not.
    pub(super) fn is_written(&self, key: &Key) -> bool {
        self.table.contains_key(key.name)
    }

    /// Where a key stands; the table itself where it is not written.
    pub(super) fn span_of(&self, key: &Key) -> Range<usize> {
        let names = key.names();
        let written = self.table.iter().find(|(name, _)| names.iter().any(|known| known == name.get_ref()));
        written.map_or(self.span.clone(), |(name, _)| name.span())
    }

    /// Reports every key that is not among `known` and not among the names of tables `also`.
    pub(super) fn report_unknown(&mut self, known: &[Key], also: &[&str], kind: Option<&Kind>) {
        let names = keys::names(known);
        for (name, _) in self.table {
            let written: &str = name.get_ref();
            if names.iter().any(|known| known == written) || also.contains(&written) {
                continue;
            }
            let known = || names.iter().map(String::as_str).chain(also.iter().copied());
            let kinds = kinds_that_take(written);
            let nearest_here = nearest(written, known());
            let fault = match (kind, nearest_here, key_of_other_table(written)) {
                (Some(kind), _, _) if !kinds.is_empty() => {
                    Fault::KeyOfOtherKind { kind: kind.name.to_owned(), kinds: listed(kinds) }
                }
                (_, None, Some(elsewhere)) => elsewhere,
                _ => Fault::UnknownKey { nearest: nearest_here.map(str::to_owned), known: listed(known()) },
            };
            self.push(&shown(written), &name.span(), fault, Effect::KeyIgnored, Weight::Error);
        }
    }

    fn get(&mut self, key: &Key) -> Option<&'a Item<'a>> {
        let found = self.table.get(key.name);
        if found.is_none() && key.required {
            let span = self.span.clone();
            self.reject(key, &span, Fault::Missing { example: key.line() });
        }
        found
    }

    /// A value made from a text; the key's default where it is not given or not sound.
    fn parsed<T>(&mut self, key: &Key, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        let item = self.get(key);
        let written = item.map(|item| (item.span(), text_of(item.get_ref(), key.shape)));
        match written.map(|(span, text)| (span, text.and_then(|text| Ok((text, parse(text)?))))) {
            Some((_, Ok((text, value)))) => {
                self.note(key.name, quoted(text));
                return Some(value);
            }
            Some((span, Err(fault))) => self.reject(key, &span, fault),
            None => {}
        }
        let default = key.default?;
        self.note(key.name, quoted(default));
        parse(default).ok()
    }

    pub(super) fn text(&mut self, key: &Key) -> Option<String> {
        self.parsed(key, value::text)
    }

    pub(super) fn path(&mut self, key: &Key) -> Option<PathBuf> {
        self.parsed(key, value::path)
    }

    /// A path of a file that is there; one that is not is reported and kept, since it may appear.
    pub(super) fn existing_path(&mut self, key: &Key) -> Option<PathBuf> {
        let path = self.path(key)?;
        self.source.named_files.borrow_mut().push(path.clone());
        if let Err(error) = self.source.env.read(&path) {
            let fault = Fault::unreadable(&path, &error);
            let span = self.span_of(key);
            self.push(key.name, &span, fault, self.effect_of_fault(), Weight::Error);
        }
        Some(path)
    }

    pub(super) fn choice(&mut self, key: &Key) -> Option<&'static str> {
        let Shape::Choice(words) = key.shape else { return None };
        self.parsed(key, |text| value::choice(text, words))
    }

    /// A duration; zero for a key without a default, which no key of this shape is.
    pub(super) fn duration(&mut self, key: &Key) -> Duration {
        self.parsed(key, |text| value::duration_of(key, text)).unwrap_or_default()
    }

    /// A duration that has no default.
    pub(super) fn optional_duration(&mut self, key: &Key) -> Option<Duration> {
        self.parsed(key, |text| value::duration_of(key, text))
    }

    /// A value that some function makes from a text.
    pub(super) fn value<T>(&mut self, key: &Key, parse: fn(&str) -> Result<T, Fault>) -> Option<T> {
        self.parsed(key, parse)
    }

    pub(super) fn flag(&mut self, key: &Key) -> bool {
        let mut flag = false;
        if let Some(item) = self.get(key) {
            match item.get_ref() {
                DeValue::Boolean(written) => flag = *written,
                other => self.reject(key, &item.span(), wrong_type(other, key.shape)),
            }
        }
        self.note(key.name, flag.to_string());
        flag
    }

    /// A whole number or a text, as a text.
    pub(super) fn chat_id(&mut self, key: &Key) -> Option<String> {
        let item = self.get(key)?;
        let read = match item.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
            other => text_of(other, key.shape).and_then(value::text),
        };
        match read {
            Ok(chat) => {
                self.note(key.name, quoted(&chat));
                Some(chat)
            }
            Err(fault) => {
                self.reject(key, &item.span(), fault);
                None
            }
        }
    }

    /// Several values, written as a list or as a single text. None where the key is not given or nothing sound is left.
    fn items<T>(&mut self, key: &Key, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<Written<T>> {
        let item = self.get(key)?;
        let mut written = Written { values: Vec::new(), has_bad: false };
        for item in list_of(item) {
            match text_of(item.get_ref(), key.shape).and_then(&parse) {
                Ok(value) => written.values.push(value),
                Err(fault) => {
                    written.has_bad = true;
                    self.push(key.name, &item.span(), fault, Effect::KeyIgnored, Weight::Error);
                }
            }
        }
        if written.values.is_empty() && key.required {
            let fault = Fault::Empty { allowed: allowed(key.shape) };
            self.reject(key, &item.span(), fault);
        }
        Some(written)
    }

    pub(super) fn texts(&mut self, key: &Key) -> Vec<String> {
        self.listed(key, value::text)
    }

    pub(super) fn addresses(&mut self, key: &Key) -> Vec<String> {
        self.listed(key, value::address)
    }

    fn listed(&mut self, key: &Key, parse: fn(&str) -> Result<String, Fault>) -> Vec<String> {
        let Some(written) = self.items(key, parse) else { return Vec::new() };
        self.note(key.name, quoted_list(&written.values));
        written.values
    }

    /// Classes of alerts. A list with a word that is no class counts as not given: rather one alert too many than one
    /// too few.
    pub(super) fn classes(&mut self, key: &Key, default: &[Class]) -> Vec<Class> {
        let written = self.items(key, value::class).filter(|written| !written.has_bad);
        let mut classes = written.map_or_else(|| default.to_vec(), |written| written.values);
        classes.sort();
        classes.dedup();
        let names: Vec<String> = classes.iter().map(|class| class.name().to_owned()).collect();
        self.note(key.name, quoted_list(&names));
        classes
    }

    /// Texts under names that suit labels.
    pub(super) fn labels(&mut self, key: &Key) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        for (name, item) in self.entries(key) {
            let read = if value::is_label_name(name) {
                text_of(item.get_ref(), key.shape).and_then(value::text)
            } else {
                Err(bad_value(name, allowed(key.shape)))
            };
            match read {
                Ok(text) => {
                    self.note(&format!("{}.{name}", key.name), quoted(&text));
                    labels.insert(name.to_owned(), text);
                }
                Err(fault) => self.push(
                    &format!("{}.{}", key.name, shown(name)),
                    &item.span(),
                    fault,
                    Effect::KeyIgnored,
                    Weight::Error,
                ),
            }
        }
        labels
    }

    /// Headers of HTTP with their secret values.
    pub(super) fn headers(&mut self, key: &Key) -> Vec<(String, SecretSource)> {
        let mut headers = Vec::new();
        for (name, item) in self.entries(key) {
            let source = header_source(item.get_ref(), self.source.env);
            let label = format!("{}.{}", key.name, shown(name));
            match source {
                Ok(source) if value::is_header_name(name) => {
                    self.check_secret(&label, &item.span(), &source, Shape::Secret);
                    self.note(&format!("{}.{}", key.name, quoted(name)), quoted(&source.to_string()));
                    headers.push((name.to_owned(), source));
                }
                Ok(_) => {
                    let fault = bad_value(name, "a header's name: letters, digits and `-`");
                    self.push(&label, &item.span(), fault, Effect::KeyIgnored, Weight::Error);
                }
                Err(fault) => self.push(&label, &item.span(), fault, Effect::KeyIgnored, Weight::Error),
            }
        }
        headers
    }

    fn entries(&mut self, key: &Key) -> Vec<(&'a str, &'a Item<'a>)> {
        let Some(item) = self.get(key) else { return Vec::new() };
        match item.get_ref() {
            DeValue::Table(table) => table.iter().map(|(name, item)| (name.get_ref().as_ref(), item)).collect(),
            other => {
                let fault = wrong_type(other, key.shape);
                self.reject(key, &item.span(), fault);
                Vec::new()
            }
        }
    }

    /// A secret, written as `X`, `X_file` or `X_env`.
    pub(super) fn secret(&mut self, key: &Key) -> Option<SecretSource> {
        let found = self.secrets(key).into_iter().next();
        match key.default.filter(|_| found.is_none() && !self.broken) {
            Some(default) => {
                self.note(key.name, quoted(default));
                Some(SecretSource::Inline(Secret::new(default)))
            }
            None => found,
        }
    }

    /// One or several secrets, written as `X`, `X_file` or `X_env`.
    pub(super) fn secrets(&mut self, key: &Key) -> Vec<SecretSource> {
        let env = self.source.env;
        let variants: [(String, MakeSource); 3] = [
            (key.name.to_owned(), |text, _| SecretSource::Inline(Secret::new(text))),
            (format!("{}_file", key.name), |text, _| SecretSource::File(PathBuf::from(text))),
            (format!("{}_env", key.name), SecretSource::from_env),
        ];
        let written: Vec<_> =
            variants.iter().filter_map(|(name, make)| Some((name, make, self.table.get(name.as_str())?))).collect();
        let Some((name, make, item)) = written.first() else {
            // Reports the key if it is required.
            self.get(key);
            return Vec::new();
        };
        if let Some((_, _, second)) = written.get(1) {
            self.warn(key, &second.span(), Fault::SeveralVariants { used: (*name).clone() });
        }
        let takes_list = matches!(key.shape, Shape::Secrets | Shape::SecretUrls);
        let items = if takes_list { list_of(item) } else { std::slice::from_ref(*item) };
        let mut sources = Vec::new();
        for item in items {
            let source = text_of(item.get_ref(), key.shape).map(|text| make(text, env));
            match source.and_then(|source| check_inline(source, key.shape)) {
                Ok(source) => {
                    self.check_secret(name, &item.span(), &source, key.shape);
                    sources.push(source);
                }
                Err(fault) => self.reject_as(name, key, &item.span(), fault),
            }
        }
        if items.is_empty() {
            let fault = Fault::Empty { allowed: allowed(key.shape) };
            self.reject(key, &item.span(), fault);
        }
        let shown: Vec<String> = sources.iter().map(SecretSource::to_string).collect();
        self.note(key.name, if takes_list { quoted_list(&shown) } else { quoted(&shown.concat()) });
        sources
    }

    fn check_secret(&mut self, name: &str, span: &Range<usize>, source: &SecretSource, shape: Shape) {
        match source {
            SecretSource::Inline(_) => self.source.holds_secret.set(true),
            SecretSource::File(path) => self.source.named_files.borrow_mut().push(path.clone()),
            SecretSource::Env { .. } => {}
        }
        for (fault, weight) in faults_of_secret(source, shape, self.source.env) {
            let effect = if weight == Weight::Error { self.effect_of_fault() } else { Effect::None };
            self.push(name, span, fault, effect, weight);
        }
    }

    /// A user and a password, which are useless one without the other.
    pub(super) fn pair<A, B>(&mut self, first: (&Key, Option<A>), second: (&Key, Option<B>)) -> Option<(A, B)> {
        match (first.1, second.1) {
            (Some(a), Some(b)) => Some((a, b)),
            (Some(_), None) => self.report_alone(first.0, second.0),
            (None, Some(_)) => self.report_alone(second.0, first.0),
            (None, None) => None,
        }
    }

    fn report_alone<T>(&mut self, key: &Key, partner: &Key) -> Option<T> {
        self.lines.retain(|(name, _)| name != key.name);
        // A partner that is written but not sound has been reported as such.
        if !self.broken {
            let span = self.span_of(key);
            self.push(
                key.name,
                &span,
                Fault::NeedsPartner { partner: partner.name },
                Effect::KeyIgnored,
                Weight::Error,
            );
        }
        None
    }
}

struct Written<T> {
    values: Vec<T>,
    has_bad: bool,
}

fn list_of<'a, 'i>(item: &'a Item<'i>) -> &'a [Item<'i>] {
    match item.get_ref() {
        DeValue::Array(items) => items,
        _ => std::slice::from_ref(item),
    }
}

fn text_of<'v>(value: &'v DeValue<'_>, shape: Shape) -> Result<&'v str, Fault> {
    match value {
        DeValue::String(text) if text.is_empty() => Err(Fault::Empty { allowed: allowed(shape) }),
        DeValue::String(text) => Ok(text.as_ref()),
        other => Err(wrong_type(other, shape)),
    }
}

/// Refuses a secret in the file itself that has not the form of its shape; others may come to have it.
fn check_inline(source: SecretSource, shape: Shape) -> Result<SecretSource, Fault> {
    match &source {
        SecretSource::Inline(secret) if !has_form(secret.expose(), shape) => Err(bad_value(MASK, allowed(shape))),
        _ => Ok(source),
    }
}

fn header_source(value: &DeValue<'_>, env: &dyn Environment) -> Result<SecretSource, Fault> {
    let DeValue::Table(table) = value else {
        let source = text_of(value, Shape::Headers).map(|text| SecretSource::Inline(Secret::new(text)))?;
        return check_inline(source, Shape::Secret);
    };
    let entry = |name: &str| table.get(name).map(|item| text_of(item.get_ref(), Shape::Headers));
    match (table.len(), entry("file"), entry("env")) {
        (1, Some(path), None) => Ok(SecretSource::File(PathBuf::from(path?))),
        (1, None, Some(variable)) => Ok(SecretSource::from_env(variable?, env)),
        _ => Err(wrong_type(value, Shape::Headers)),
    }
}

/// The key of another table that was probably meant.
fn key_of_other_table(name: &str) -> Option<Fault> {
    let tables: [(Option<&'static str>, &'static [Key]); 4] =
        [(None, &keys::TOP), (Some("alert"), &keys::ALERT), (Some("claim"), &keys::CLAIM), (Some("text"), &keys::TEXT)];
    tables.into_iter().find_map(|(table, keys)| {
        let key = nearest(name, keys.iter().map(|key| key.name))?;
        Some(Fault::KeyOfOtherTable { key: key.to_owned(), table })
    })
}

fn kinds_that_take(name: &str) -> Vec<&'static str> {
    let takes = |kind: &&Kind| keys::names(kind.keys).iter().any(|known| known == name);
    keys::KINDS.iter().filter(takes).map(|kind| kind.name).collect()
}
