//! Reads single values from text: the same for the options and for the file.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::duration::{format_duration, parse_duration};
use super::file::Language;
use super::keys::{CLASSES, Key, Shape};
use super::nearest::nearest;
use super::problem::Fault;
use crate::alert::{Class, OwnTexts, Texts};

/// Longest part of a value that a problem shows, in characters.
const SHOWN_CHARACTERS: usize = 80;

/// A value as a problem may show it.
pub(super) fn shown(value: &str) -> String {
    let mut text: String = value.chars().take(SHOWN_CHARACTERS).flat_map(char::escape_debug).collect();
    if value.chars().count() > SHOWN_CHARACTERS {
        text.push('…');
    }
    text
}

pub(super) fn bad_value(value: &str, allowed: impl Into<String>) -> Fault {
    Fault::BadValue { value: shown(value), allowed: allowed.into(), nearest: None }
}

/// A list of words for people.
pub(super) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// One of some words.
pub(super) fn choice<'c>(value: &str, choices: &[&'c str]) -> Result<&'c str, Fault> {
    let known = || choices.iter().copied();
    known().find(|choice| *choice == value).ok_or_else(|| Fault::BadValue {
        value: shown(value),
        allowed: listed(known()),
        nearest: nearest(value, known()).map(str::to_owned),
    })
}

/// What a duration between two ends is, for people.
pub(super) fn duration_allowed(min: Duration, max: Duration) -> String {
    format!("a duration such as `500ms`, `2s`, `5m`, `1h`, from {} to {}", format_duration(min), format_duration(max))
}

/// A duration between two ends, both included.
pub(super) fn duration(value: &str, min: Duration, max: Duration) -> Result<Duration, Fault> {
    let allowed = || duration_allowed(min, max);
    let duration =
        parse_duration(value).map_err(|error| Fault::BadDuration { value: shown(value), error, allowed: allowed() })?;
    if duration < min || duration > max {
        return Err(Fault::OutOfRange { value: shown(value), allowed: allowed() });
    }
    Ok(duration)
}

/// A duration within the bounds of a key that takes one; any duration for a key that takes something else.
pub(super) fn duration_of(key: &Key, value: &str) -> Result<Duration, Fault> {
    match key.shape {
        Shape::Duration(min, max) => duration(value, min, max),
        _ => duration(value, Duration::ZERO, Duration::MAX),
    }
}

/// A class of alerts that a user can ask for.
pub(super) fn class(value: &str) -> Result<Class, Fault> {
    choice(value, &CLASSES).map(|name| match name {
        "failover" => Class::Failover,
        "no_leader" => Class::NoLeader,
        "flapping" => Class::Flapping,
        _ => Class::Resolved,
    })
}

/// A text without control characters.
pub(super) fn text(value: &str) -> Result<String, Fault> {
    if value.chars().any(char::is_control) {
        return Err(bad_value(value, "a text of one line"));
    }
    Ok(value.to_owned())
}

/// A template of a title.
pub(super) fn title_template(value: &str) -> Result<String, Fault> {
    template(value, OwnTexts { title: Some(value.to_owned()), ..OwnTexts::default() })
}

/// A template of a text.
pub(super) fn body_template(value: &str) -> Result<String, Fault> {
    template(value, OwnTexts { text: Some(value.to_owned()), ..OwnTexts::default() })
}

/// A template of a link.
pub(super) fn link_template(value: &str) -> Result<String, Fault> {
    template(value, OwnTexts { link: Some(value.to_owned()), ..OwnTexts::default() })
}

/// A template works if it can be rendered for an alert of each class.
fn template(value: &str, own: OwnTexts) -> Result<String, Fault> {
    let (_, bad) = Texts::new(Language::English, TimeZone::UTC, own);
    match bad.first() {
        Some(bad) => {
            Err(bad_value(value, format!("a minijinja template that works; this one does not: {}", bad.reason)))
        }
        None => Ok(value.to_owned()),
    }
}

/// A path.
pub(super) fn path(value: &str) -> Result<PathBuf, Fault> {
    if value.contains('\0') {
        return Err(bad_value(value, "a path"));
    }
    Ok(PathBuf::from(value))
}

/// A time zone by its IANA name.
pub(super) fn time_zone(value: &str) -> Result<TimeZone, Fault> {
    TimeZone::get(value)
        .map_err(|_| bad_value(value, "a name of the IANA time zone database, such as `UTC`, `Europe/Berlin`"))
}

/// A name of a label, as Prometheus wants it: <https://prometheus.io/docs/concepts/data_model/>.
pub(super) fn is_label_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A name of an HTTP header: a token of RFC 9110, section 5.6.2.
pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// What an HTTP URL is, for people.
pub(super) const URL_ALLOWED: &str = "a URL that starts with `http://` or `https://` and names a host";
/// What a proxy's URL is, for people.
pub(super) const PROXY_ALLOWED: &str = "`http://`, `https://`, `socks5://` or `socks5h://` with host and port";

/// Whether a text is an HTTP URL with a host.
pub(super) fn is_http_url(value: &str) -> bool {
    has_scheme_and_host(value, &["http", "https"])
}

/// Whether a text is a proxy's URL.
pub(super) fn is_proxy_url(value: &str) -> bool {
    has_scheme_and_host(value, &["http", "https", "socks5", "socks5h"])
}

fn has_scheme_and_host(value: &str, schemes: &[&str]) -> bool {
    // The `url` crate forgives blanks and missing slashes, which here are slips to be told.
    if value.contains(char::is_whitespace) || !value.contains("://") {
        return false;
    }
    reqwest::Url::parse(value).is_ok_and(|url| schemes.contains(&url.scheme()) && url.has_host())
}

/// The host of a URL in lower case.
pub(super) fn host_of(url: &str) -> Option<String> {
    reqwest::Url::parse(url).ok()?.host_str().map(str::to_ascii_lowercase)
}

/// An email address, or `Name <address>`.
pub(super) fn address(value: &str) -> Result<String, Fault> {
    value
        .parse::<lettre::message::Mailbox>()
        .map(|_| value.to_owned())
        .map_err(|_| bad_value(value, "an email address, or `Name <address>`"))
}

/// Addresses joined by `+`. A part without `@` belongs to the next one: `ops+flink@example.org` is one address.
pub(super) fn joined_addresses(value: &str) -> Result<Vec<String>, Fault> {
    let mut addresses = Vec::new();
    let mut begun = String::new();
    for part in value.split('+') {
        begun.push_str(part);
        if part.contains('@') {
            addresses.push(address(&begun)?);
            begun.clear();
        } else {
            begun.push('+');
        }
    }
    if begun.is_empty() { Ok(addresses) } else { Err(bad_value(value, "email addresses joined by `+`")) }
}

/// When a mail connection turns to TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// `smtp://`: STARTTLS where the server offers it; a password is never sent without.
    Opportunistic,
    /// `smtp+starttls://`: STARTTLS, or nothing is sent.
    StartTls,
    /// `smtps://`: TLS from the first byte (RFC 8314).
    Implicit,
}

/// A mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpServer {
    /// When to turn to TLS.
    pub security: SmtpSecurity,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for SmtpServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.security {
            SmtpSecurity::Opportunistic => "smtp",
            SmtpSecurity::StartTls => "smtp+starttls",
            SmtpSecurity::Implicit => "smtps",
        };
        if self.host.contains(':') {
            write!(out, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// A mail server; without a port that of the scheme: 25, 587 for `smtp+starttls`, 465 for `smtps`.
pub(super) fn smtp(value: &str) -> Result<SmtpServer, Fault> {
    let allowed = "`smtp://host:port`, `smtps://host:port` or `smtp+starttls://host:port`, user and password in keys of their own";
    // What stands before an `@` may be a password.
    let safe_to_show = value.rsplit_once('@').map_or(value, |(_, after)| after);
    let refuse = || bad_value(safe_to_show, allowed);
    let (scheme, rest) = value.split_once("://").ok_or_else(refuse)?;
    let (security, default_port) = match scheme {
        "smtp" => (SmtpSecurity::Opportunistic, 25),
        "smtp+starttls" => (SmtpSecurity::StartTls, 587),
        "smtps" => (SmtpSecurity::Implicit, 465),
        _ => return Err(refuse()),
    };
    let (host, port) = host_and_port(rest.strip_suffix('/').unwrap_or(rest), default_port).ok_or_else(refuse)?;
    Ok(SmtpServer { security, host, port })
}

pub(crate) fn host_and_port(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |c: char| c.is_alphanumeric() || "-._:".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return None;
    }
    let port = match port {
        Some(digits) => digits.parse().ok().filter(|port| *port != 0)?,
        None => default_port,
    };
    Some((host.to_owned(), port))
}

/// Where the agents of a cluster agree on who sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimStore {
    /// Flink's own ZooKeeper, in-cluster Kubernetes, or a folder of Flink's HA storage, as Flink's configuration says.
    Auto,
    /// Nowhere: every agent sends.
    None,
    /// ZooKeeper.
    ZooKeeper {
        /// Servers, `host:port` joined by `,`.
        quorum: String,
        /// Path of the parent node, starting with `/`; outside Flink's own root, which Flink deletes recursively.
        path: String,
    },
    /// Leases of the Kubernetes API, in the pod's own cluster.
    Kubernetes {
        /// Namespace.
        namespace: String,
    },
    /// A folder that all agents of the cluster share.
    File {
        /// The folder.
        folder: PathBuf,
    },
}

impl fmt::Display for ClaimStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimStore::Auto => out.write_str("auto"),
            ClaimStore::None => out.write_str("none"),
            ClaimStore::ZooKeeper { quorum, path } => write!(out, "zookeeper://{quorum}{path}"),
            ClaimStore::Kubernetes { namespace } => write!(out, "kubernetes://{namespace}"),
            ClaimStore::File { folder } => write!(out, "file://{}", folder.display()),
        }
    }
}

/// Where claims are kept.
pub(super) fn claim_store(value: &str) -> Result<ClaimStore, Fault> {
    let refuse = || {
        Fault::BadValue {
        value: shown(value),
        allowed: "`auto`, `none`, `zookeeper://zk1:2181,zk2:2181/leaderwatch`, `kubernetes://NAMESPACE`, `file:///shared/folder`".to_owned(),
        nearest: nearest(value, ["auto", "none"]).map(str::to_owned),
    }
    };
    match value.split_once("://") {
        None if value == "auto" => Ok(ClaimStore::Auto),
        None if value == "none" => Ok(ClaimStore::None),
        Some(("zookeeper", rest)) => zookeeper_store(rest).ok_or_else(refuse),
        Some(("kubernetes", namespace)) if is_dns_label(namespace) => {
            Ok(ClaimStore::Kubernetes { namespace: namespace.to_owned() })
        }
        Some(("file", folder)) if folder.starts_with('/') && folder.len() > 1 => {
            Ok(ClaimStore::File { folder: PathBuf::from(folder) })
        }
        _ => Err(refuse()),
    }
}

fn zookeeper_store(rest: &str) -> Option<ClaimStore> {
    let (quorum, path) = rest.split_once('/').unwrap_or((rest, "leaderwatch"));
    let path = path.trim_end_matches('/');
    let path = if path.is_empty() { "leaderwatch" } else { path };
    // ZooKeeper refuses empty, `.` and `..` as names of nodes.
    if path.split('/').any(|node| node.is_empty() || node == "." || node == "..") {
        return None;
    }
    // 2181 is ZooKeeper's client port where none is given.
    let servers: Option<Vec<String>> = quorum
        .split(',')
        .map(|server| host_and_port(server, 2181))
        .map(|server| {
            server.map(
                |(host, port)| if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") },
            )
        })
        .collect();
    Some(ClaimStore::ZooKeeper { quorum: servers?.join(","), path: format!("/{path}") })
}

/// A name of a namespace: a DNS label of RFC 1123, as Kubernetes wants it.
fn is_dns_label(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(inside) && !name.starts_with('-') && !name.ends_with('-')
}

/// The kind of target that a host wants instead of a generic webhook. Sources: the receivers' own documents.
pub(super) fn chat_kind_of_host(host: &str) -> Option<&'static str> {
    let within = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let hosts: [(&str, &'static str); 12] = [
        ("hooks.slack.com", "slack"),
        ("logic.azure.com", "teams"),
        ("environment.api.powerplatform.com", "teams"),
        ("webhook.office.com", "teams"),
        ("discord.com", "discord"),
        ("discordapp.com", "discord"),
        ("oapi.dingtalk.com", "dingtalk"),
        ("open.feishu.cn", "feishu"),
        ("open.larksuite.com", "feishu"),
        ("qyapi.weixin.qq.com", "wecom"),
        ("api.telegram.org", "telegram"),
        ("events.pagerduty.com", "pagerduty"),
    ];
    hosts.into_iter().find(|(domain, _)| within(domain)).map(|(_, kind)| kind)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_joined_by_plus_and_may_hold_a_plus() {
        let read = |text| joined_addresses(text).unwrap();
        assert_eq!(read("a@x.org"), ["a@x.org"]);
        assert_eq!(read("a@x.org+b@y.org"), ["a@x.org", "b@y.org"]);
        assert_eq!(read("ops+flink@x.org"), ["ops+flink@x.org"]);
        assert_eq!(read("a@x.org+ops+flink@y.org+c@z.org"), ["a@x.org", "ops+flink@y.org", "c@z.org"]);
        for bad in ["", "a", "a@x.org+", "a@x.org+b", "@x.org", "a@"] {
            assert!(joined_addresses(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mail_servers_have_the_ports_of_their_schemes() {
        let read = |text| smtp(text).unwrap().to_string();
        assert_eq!(read("smtp://mail"), "smtp://mail:25");
        assert_eq!(read("smtps://mail.example/"), "smtps://mail.example:465");
        assert_eq!(read("smtp+starttls://mail"), "smtp+starttls://mail:587");
        assert_eq!(read("smtp://127.0.0.1:2525"), "smtp://127.0.0.1:2525");
        assert_eq!(read("smtps://[::1]:465"), "smtps://[::1]:465");
        for bad in [
            "mail:25",
            "http://mail",
            "smtp://",
            "smtp://:25",
            "smtp://mail:0",
            "smtp://mail:99999",
            "smtp://a b",
            "smtp://[::1",
        ] {
            assert!(smtp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_in_a_mail_server_is_refused_and_not_shown() {
        let fault = smtp("smtp://user:hunter2@mail:25").unwrap_err();
        assert!(!format!("{fault:?}").contains("hunter2"));
    }

    #[test]
    fn claim_stores_read_as_they_print() {
        for text in [
            "auto",
            "none",
            "zookeeper://zk1:2181,zk2:2182/leaderwatch",
            "zookeeper://[::1]:2181/a/b",
            "kubernetes://flink",
            "file:///shared/folder",
        ] {
            assert_eq!(claim_store(text).unwrap().to_string(), text);
        }
        assert_eq!(claim_store("zookeeper://zk").unwrap().to_string(), "zookeeper://zk:2181/leaderwatch");
        for bad in [
            "",
            "autos",
            "zookeeper://",
            "zookeeper://a,,b/x",
            "zookeeper://a/x//y",
            "kubernetes://A_b",
            "file://relative",
            "file:///",
            "redis://x",
        ] {
            assert!(claim_store(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn urls_need_a_scheme_a_host_and_no_blanks() {
        for good in ["http://h", "https://h:1/p?q=r", "http://[::1]:8080/", "https://u:p@h"] {
            assert!(is_http_url(good), "{good}");
        }
        for bad in ["", "h", "http://", "ftp://h", "http:h", "http:// h", "https://h /x"] {
            assert!(!is_http_url(bad), "{bad}");
        }
        assert!(is_proxy_url("socks5h://p:1080"));
    }

    #[test]
    fn chat_services_are_known_by_their_hosts() {
        assert_eq!(chat_kind_of_host("hooks.slack.com"), Some("slack"));
        assert_eq!(chat_kind_of_host("prod-01.westeurope.logic.azure.com"), Some("teams"));
        assert_eq!(chat_kind_of_host("nothooks.slack.com.example"), None);
        assert_eq!(chat_kind_of_host("mydiscord.com"), None);
    }
}
