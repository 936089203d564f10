//! One HTTP request and what came of it: the client that all targets over HTTP share.
//!
//! Redirects are not followed (CloudEvents and Standard Webhooks forbid it, and a redirect would carry secrets elsewhere).
//! Connections are not kept: leaders move rarely, and a kept connection is dead when it is needed. Replies are read up to
//! 64 KiB. No text that comes from here holds more of an address than its host.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, redirect};
use serde_json::Value;

use super::Outcome;
use super::preview::Preview;
use super::resolver::Resolver;
use super::secret::{Secret, SecretUrl};
use super::tls::{BadTls, TlsSettings, client_config};

/// Most bytes that are read of a reply, where it is not said otherwise.
const REPLY_BYTES: usize = 64 * 1024;
/// Characters of a reply that are told.
const EXCERPT_CHARACTERS: usize = 200;

/// How HTTP is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// Longest time until a connection stands, name look-up and TLS included.
    pub connect_timeout: Duration,
    /// Longest time for the whole request, reply included.
    pub timeout: Duration,
    /// The way out.
    pub proxy: Proxy,
    /// Trust and own certificate.
    pub tls: TlsSettings,
    /// Most bytes that are read of a reply.
    pub reply_bytes: usize,
}

impl Default for HttpSettings {
    /// 5 s to connect, 15 s in all, proxies from the environment.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            proxy: Proxy::Environment,
            tls: TlsSettings::default(),
            reply_bytes: REPLY_BYTES,
        }
    }
}

/// The way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    Environment,
    /// Straight.
    None,
    /// Through `http://`, `https://`, `socks5://` or `socks5h://`; user and password may stand in it.
    Url(Secret),
}

/// A setting that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadHttp {
    /// Trust or own certificate.
    Tls(BadTls),
    /// The proxy's address.
    Proxy,
    /// A header of the user's.
    Header(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for BadHttp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHttp::Tls(error) => error.fmt(out),
            BadHttp::Proxy => out.write_str("`proxy` is not the address of a proxy: http://, https://, socks5:// or socks5h:// with host and port are"),
            BadHttp::Header(name) => write!(out, "header `{name}`: name or value holds a character that HTTP does not allow"),
            BadHttp::Other(reason) => out.write_str(reason),
        }
    }
}

impl Error for BadHttp {}

impl From<BadTls> for BadHttp {
    fn from(error: BadTls) -> Self {
        BadHttp::Tls(error)
    }
}

/// Speaks HTTP. Clones share everything.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: reqwest::Client,
    timeout: Duration,
    reply_bytes: usize,
    preview: Option<Arc<Preview>>,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body, at most 64 KiB of it.
    pub body: Vec<u8>,
    /// Whether that is all of the body.
    pub is_whole: bool,
}

impl HttpClient {
    /// Makes a client. It must live as long as the process, or be dropped inside its runtime: dropping one elsewhere during
    /// a hung name look-up blocks.
    pub fn new(settings: &HttpSettings, resolver: &Resolver) -> Result<HttpClient, BadHttp> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(client_config(&settings.tls)?)
            .http1_only()
            .user_agent(concat!("leaderwatch/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .pool_max_idle_per_host(0)
            .dns_resolver(resolver.clone());
        builder = match &settings.proxy {
            Proxy::Environment => builder,
            Proxy::None => builder.no_proxy(),
            Proxy::Url(url) => builder.proxy(reqwest::Proxy::all(url.expose()).map_err(|_| BadHttp::Proxy)?),
        };
        let client = builder.build().map_err(|error| BadHttp::Other(innermost(&error.without_url())))?;
        Ok(HttpClient { client, timeout: settings.timeout, reply_bytes: settings.reply_bytes, preview: None })
    }

    /// Sends nothing: hands to `preview` what would be sent, where there is one.
    pub fn with_preview(self, preview: Option<Arc<Preview>>) -> HttpClient {
        HttpClient { preview, ..self }
    }

    /// Posts JSON and lets the target judge the reply.
    pub async fn deliver(
        &self,
        url: &SecretUrl,
        headers: HeaderMap,
        body: &Value,
        judge: impl Fn(&Reply) -> Outcome,
    ) -> Outcome {
        match serde_json::to_vec(body) {
            Ok(body) => self.send(Method::POST, url, json_headers(headers), body, judge).await,
            Err(error) => Outcome::reject(format!("no JSON: {error}")),
        }
    }

    /// Sends a request and lets the target judge the reply, in which no secret of the request is left: what a receiver
    /// answers goes into the alert log, and some send back what they got.
    pub async fn send(
        &self,
        method: Method,
        url: &SecretUrl,
        headers: HeaderMap,
        body: Vec<u8>,
        judge: impl Fn(&Reply) -> Outcome,
    ) -> Outcome {
        let secrets = secrets(url, &headers);
        match self.request(method, url, headers, body).await {
            Ok(reply) => judge(&Reply { body: without(&secrets, reply.body), ..reply }),
            Err(outcome) => outcome,
        }
    }

    /// Sends a request. An `Err` says that no reply came, which may be different later.
    pub async fn request(
        &self,
        method: Method,
        url: &SecretUrl,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Reply, Outcome> {
        if let Some(preview) = &self.preview {
            return Err(preview.take_request(&method, url, &headers, &body));
        }
        let request = self.client.request(method, url.expose().clone()).headers(headers).body(body);
        let mut response = request.send().await.map_err(|error| Outcome::retry(self.explain(error, url)))?;
        let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
        let (mut body, mut is_whole) = (Vec::new(), false);
        // A body that breaks off does not undo the status.
        while let Ok(chunk) = response.chunk().await {
            let Some(chunk) = chunk else {
                is_whole = true;
                break;
            };
            let room = self.reply_bytes - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                break;
            }
        }
        Ok(Reply { status, headers, body, is_whole })
    }

    fn explain(&self, error: reqwest::Error, url: &SecretUrl) -> String {
        let error = error.without_url();
        let host = url.place();
        let reason = if error.is_timeout() && error.is_connect() {
            format!("no connection to {host} in time")
        } else if error.is_timeout() {
            format!("no answer from {host} within {} ms", self.timeout.as_millis())
        } else if error.is_connect() {
            format!("no connection to {host}: {}", innermost(&error))
        } else {
            format!("no answer from {host}: {}", innermost(&error))
        };
        url.scrub(&reason)
    }
}

impl Reply {
    /// What the status says by the rules that most receivers share, unless it is a success: 408, 425, 429 and 5xx may be
    /// different later, everything else will not.
    pub fn failure(&self) -> Option<Outcome> {
        let reason = || format!("answered {}{}", self.status, self.excerpt());
        match self.status {
            200..=299 => None,
            408 | 425 | 429 | 500..=599 => Some(Outcome::Retry { after: self.retry_after(), reason: reason() }),
            300..=399 => Some(Outcome::reject(format!(
                "answered {}; redirects are not followed: give the final address",
                self.status
            ))),
            _ => Some(Outcome::Reject { reason: reason() }),
        }
    }

    /// How long the receiver wants us to wait: header `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3); else
    /// `retry_after` in the body, in seconds (Slack, Discord); else header `X-RateLimit-Reset-After` (Discord).
    pub fn retry_after(&self) -> Option<Duration> {
        let header = |name: &str| parse_retry_after(self.headers.get(name)?.to_str().ok()?, Timestamp::now());
        let in_body = || Duration::try_from_secs_f64(self.json()?["retry_after"].as_f64()?).ok();
        header(RETRY_AFTER.as_str()).or_else(in_body).or_else(|| header("x-ratelimit-reset-after"))
    }

    /// For receivers that say in the body whether they took the message: a success by status whose body does not say so, such
    /// as the page of a proxy, or half a reply.
    pub fn unclear(&self) -> Outcome {
        let what = if self.is_whole { "something else than the receiver does" } else { "without an end" };
        self.failure().unwrap_or_else(|| Outcome::retry(format!("answered {} {what}{}", self.status, self.excerpt())))
    }

    /// How far this host's clock is ahead of the receiver's, in seconds; by header `Date`.
    pub fn clock_ahead_seconds(&self) -> Option<i64> {
        let date = self.headers.get(reqwest::header::DATE)?.to_str().ok()?;
        let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
        Some(Timestamp::now().as_second() - theirs.as_second())
    }

    /// The body as JSON, if it is whole and JSON.
    pub fn json(&self) -> Option<Value> {
        self.is_whole.then(|| serde_json::from_slice(&self.body).ok())?
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The beginning of the body for people, after a colon; empty where there is none.
    pub fn excerpt(&self) -> String {
        let text: String = self.text().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        match text.chars().count() {
            0 => String::new(),
            1..=EXCERPT_CHARACTERS => format!(": {text}"),
            _ => format!(": {}…", text.chars().take(EXCERPT_CHARACTERS).collect::<String>()),
        }
    }
}

fn json_headers(headers: HeaderMap) -> HeaderMap {
    let mut headers = headers;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Shortest part of a request that is taken for a secret: shorter ones stand in any text.
const SECRET_BYTES: usize = 6;

/// What a request holds that nobody else is to read: the address beyond its host, and headers that hold secrets, of
/// `Bearer TOKEN` the token.
fn secrets(url: &SecretUrl, headers: &HeaderMap) -> Vec<String> {
    let hidden = headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    let of_headers = hidden.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, token)| token)]).flatten();
    let mut secrets: Vec<String> = url.hidden().chain(of_headers).map(str::to_owned).collect();
    secrets.retain(|secret| secret.len() >= SECRET_BYTES);
    // The longest first: one may hold another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

/// A body that holds none of the secrets, though the receiver sent back what it got: its beginning goes into the alert log.
fn without(secrets: &[String], body: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&body);
    if !secrets.iter().any(|secret| text.contains(secret.as_str())) {
        return body;
    }
    secrets.iter().fold(text.into_owned(), |text, secret| text.replace(secret.as_str(), "…")).into_bytes()
}

/// For receivers of which every success by status says that they have the message.
pub fn by_status(reply: &Reply) -> Outcome {
    reply.failure().unwrap_or_else(Outcome::delivered)
}

/// Adds one of the user's headers.
pub fn add_header(headers: &mut HeaderMap, name: &str, value: &Secret) -> Result<(), BadHttp> {
    let bad = |_| BadHttp::Header(name.to_owned());
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| BadHttp::Header(name.to_owned()))?;
    let mut value = HeaderValue::from_str(value.expose()).map_err(bad)?;
    value.set_sensitive(true);
    headers.insert(parsed, value);
    Ok(())
}

fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        // More seconds than fit are a wish for the longest wait.
        let longest = (seconds > 0.0).then_some(Duration::MAX);
        return Duration::try_from_secs_f64(seconds).ok().or(longest);
    }
    let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

/// The text of the error at the bottom, which is the one that says something.
fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Behaviour, FakeHttp};
    use super::*;

    fn client(change: impl FnOnce(&mut HttpSettings)) -> HttpClient {
        let mut settings = HttpSettings { proxy: Proxy::None, ..HttpSettings::default() };
        change(&mut settings);
        HttpClient::new(&settings, &Resolver::default()).unwrap()
    }

    impl HttpClient {
        async fn post_json(&self, url: &SecretUrl, headers: HeaderMap, body: &Value) -> Result<Reply, Outcome> {
            self.request(Method::POST, url, json_headers(headers), serde_json::to_vec(body).unwrap()).await
        }
    }

    async fn ask(behaviour: Behaviour) -> Result<Reply, Outcome> {
        let server = FakeHttp::start(vec![behaviour]).await;
        let client = client(|settings| settings.timeout = Duration::from_millis(500));
        client.post_json(&server.url("/secret?key=token"), HeaderMap::new(), &Value::Null).await
    }

    #[tokio::test]
    async fn a_reply_is_read_whole() {
        let reply = ask(Behaviour::reply(200, "ok")).await.unwrap();
        assert_eq!((reply.status, reply.text().as_str(), reply.is_whole), (200, "ok", true));
        assert_eq!(reply.failure(), None);
    }

    #[tokio::test]
    async fn a_body_without_end_is_cut_and_its_status_stands() {
        let reply = ask(Behaviour::Endless).await.unwrap();
        assert_eq!((reply.status, reply.body.len(), reply.is_whole), (200, REPLY_BYTES, false));
    }

    /// Holds a fault: a receiver that sends the request back had its secrets written into the alert log.
    #[tokio::test]
    async fn a_receiver_that_sends_the_request_back_shows_no_secret() {
        let told = "POST /hooks/T0P5ECRET?key=abcdefgh authorization: Bearer T0KEN-OF-MINE, T0KEN-OF-MINE";
        let server = FakeHttp::start(vec![Behaviour::reply(500, told)]).await;
        let mut headers = HeaderMap::new();
        add_header(&mut headers, "authorization", &Secret::new("Bearer T0KEN-OF-MINE")).unwrap();
        let url = server.url("/hooks/T0P5ECRET?key=abcdefgh");
        let outcome = client(|_| {}).deliver(&url, headers, &Value::Null, by_status).await;
        assert_eq!(outcome, Outcome::retry("answered 500: POST …?… authorization: …, …"));
    }

    #[tokio::test]
    async fn half_a_reply_has_a_status_and_no_json() {
        let reply = ask(Behaviour::HalfReply("{\"errcode\":0}")).await.unwrap();
        assert_eq!((reply.status, reply.is_whole, reply.json()), (200, false, None));
    }

    #[tokio::test]
    async fn no_reply_may_be_different_later() {
        for behaviour in [Behaviour::Silent, Behaviour::Reset, Behaviour::Close, Behaviour::reply(0, "no HTTP")] {
            let Err(Outcome::Retry { after: None, reason }) = ask(behaviour).await else { panic!("no retry") };
            assert!(reason.starts_with("no answer from 127.0.0.1"), "{reason}");
            assert!(!reason.contains("secret") && !reason.contains("token"), "{reason}");
        }
    }

    #[tokio::test]
    async fn statuses_are_told_apart() {
        let outcome = async |status| ask(Behaviour::reply(status, "no\n\u{7} good")).await.unwrap().failure();
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            let reason = format!("answered {status}: no good");
            assert_eq!(outcome(status).await, Some(Outcome::Retry { after: None, reason }));
        }
        for status in [400, 401, 403, 404, 410, 413, 415, 422] {
            assert_eq!(outcome(status).await, Some(Outcome::reject(format!("answered {status}: no good"))));
        }
        for status in [301, 302, 307, 308] {
            let Some(Outcome::Reject { reason }) = outcome(status).await else { panic!("{status}") };
            assert!(reason.contains("redirects are not followed"));
        }
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let elsewhere = FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await;
        let redirect = Behaviour::Reply {
            status: 302,
            headers: vec![("location", elsewhere.url("/").expose().to_string())],
            body: String::new(),
        };
        assert_eq!(ask(redirect).await.unwrap().status, 302);
        assert!(elsewhere.requests().is_empty());
    }

    #[tokio::test]
    async fn an_unknown_name_and_a_closed_port_may_be_different_later() {
        let resolver = Resolver::new(|_| Err(std::io::Error::other("name service failed")));
        let settings = HttpSettings { proxy: Proxy::None, ..HttpSettings::default() };
        let client = HttpClient::new(&settings, &resolver).unwrap();
        let ask = async |url: &str| {
            client.post_json(&SecretUrl::parse(url).unwrap(), HeaderMap::new(), &Value::Null).await.unwrap_err()
        };
        let reason = "no connection to gone.example: cannot look up `gone.example`: name service failed";
        assert_eq!(ask("http://gone.example/secret").await, Outcome::retry(reason));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Outcome::Retry { reason, .. } = ask(&format!("http://{free}/secret")).await else { panic!("no retry") };
        assert!(reason.starts_with(&format!("no connection to {free}: ")) && reason.contains("refused"), "{reason}");
    }

    #[tokio::test]
    async fn the_user_agent_says_who_and_which_version() {
        let server = FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await;
        client(|_| {}).post_json(&server.url("/"), HeaderMap::new(), &Value::Null).await.unwrap();
        let request = &server.requests()[0];
        assert_eq!(request.header("user-agent"), Some(concat!("leaderwatch/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(request.header("content-type"), Some("application/json"));
    }

    #[tokio::test]
    async fn a_private_ca_is_trusted_only_where_it_is_set() {
        let server = FakeHttp::start_tls("localhost", vec![Behaviour::reply(200, "ok")]).await;
        let ask = async |client: HttpClient| client.post_json(&server.url("/"), HeaderMap::new(), &Value::Null).await;
        let trusting = client(|settings| settings.tls.ca_file = Some(server.ca_file()));
        assert_eq!(ask(trusting).await.unwrap().status, 200);
        let Err(Outcome::Retry { reason, .. }) = ask(client(|_| {})).await else { panic!("no retry") };
        assert!(reason.contains("certificate"), "{reason}");
    }

    #[tokio::test]
    async fn a_receiver_that_wants_to_know_who_we_are_is_shown_our_certificate() {
        let server = FakeHttp::start_mutual_tls("localhost", vec![Behaviour::reply(200, "ok")]).await;
        let ask = async |client: HttpClient| client.post_json(&server.url("/"), HeaderMap::new(), &Value::Null).await;
        let unknown = client(|settings| settings.tls.ca_file = Some(server.ca_file()));
        assert!(matches!(ask(unknown).await, Err(Outcome::Retry { .. })));
        assert!(server.requests().is_empty());
        let known = client(|settings| {
            settings.tls.ca_file = Some(server.ca_file());
            settings.tls.client_certificate = Some(server.client_certificate());
        });
        assert_eq!(ask(known).await.unwrap().status, 200);
    }

    #[tokio::test]
    async fn a_certificate_of_another_name_is_refused() {
        let server = FakeHttp::start_tls("other.example", vec![Behaviour::reply(200, "ok")]).await;
        let client = client(|settings| settings.tls.ca_file = Some(server.ca_file()));
        let asked = client.post_json(&server.url("/"), HeaderMap::new(), &Value::Null).await;
        let Err(Outcome::Retry { reason, .. }) = asked else { panic!("no retry") };
        assert!(reason.contains("certificate"), "{reason}");
        assert!(server.requests().is_empty());
    }

    #[tokio::test]
    async fn a_name_of_its_own_can_be_given_for_the_certificate() {
        let server = FakeHttp::start_tls("other.example", vec![Behaviour::reply(200, "ok")]).await;
        let ask = async |client: HttpClient| client.post_json(&server.url("/"), HeaderMap::new(), &Value::Null).await;
        let named = |name: &str, ca_file: Option<std::path::PathBuf>| {
            client(|settings| {
                settings.tls.ca_file = ca_file;
                settings.tls.server_name = Some(name.to_owned());
            })
        };
        assert_eq!(ask(named("other.example", Some(server.ca_file()))).await.unwrap().status, 200);
        assert!(ask(named("third.example", Some(server.ca_file()))).await.is_err());
        assert!(ask(named("other.example", None)).await.is_err(), "the authority is still checked");
    }

    #[tokio::test]
    async fn a_proxy_is_used_and_its_password_is_never_told() {
        let proxy = FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await;
        let port = proxy.url("/").expose().port().unwrap();
        let url = Secret::new(format!("http://user:hunter2@127.0.0.1:{port}"));
        let client = client(|settings| settings.proxy = Proxy::Url(url));
        let url = SecretUrl::parse("http://hooks.example/path").unwrap();
        assert_eq!(client.post_json(&url, HeaderMap::new(), &Value::Null).await.unwrap().status, 200);
        assert_eq!(proxy.requests()[0].target, "http://hooks.example/path");
        assert!(proxy.requests()[0].header("proxy-authorization").is_some());
        assert!(!format!("{client:?}").contains("hunter2"));
    }

    /// A SOCKS 5 proxy that takes one stream and carries it to `port`; and the name that it was asked for.
    async fn socks_proxy(port: u16) -> (u16, tokio::task::JoinHandle<String>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut hello = [0; 2];
            client.read_exact(&mut hello).await.unwrap();
            client.read_exact(&mut vec![0; usize::from(hello[1])]).await.unwrap();
            client.write_all(&[5, 0]).await.unwrap();
            let mut request = [0; 5];
            client.read_exact(&mut request).await.unwrap();
            assert_eq!(request[..4], [5, 1, 0, 3], "a name, which the proxy looks up");
            let mut name = vec![0; usize::from(request[4]) + 2];
            client.read_exact(&mut name).await.unwrap();
            client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
            String::from_utf8(name[..name.len() - 2].to_vec()).unwrap()
        });
        (at, task)
    }

    #[tokio::test]
    async fn socks_carries_http_with_and_without_tls() {
        for is_tls in [false, true] {
            let answers = vec![Behaviour::reply(200, "ok")];
            let server = match is_tls {
                true => FakeHttp::start_tls("hooks.example", answers).await,
                false => FakeHttp::start(answers).await,
            };
            let (port, asked) = socks_proxy(server.url("/").expose().port().unwrap()).await;
            let client = client(|settings| {
                settings.proxy = Proxy::Url(Secret::new(format!("socks5h://127.0.0.1:{port}")));
                settings.tls.ca_file = is_tls.then(|| server.ca_file());
            });
            let scheme = if is_tls { "https" } else { "http" };
            let url = SecretUrl::parse(&format!("{scheme}://hooks.example/path")).unwrap();
            assert_eq!(client.post_json(&url, HeaderMap::new(), &Value::Null).await.unwrap().status, 200);
            assert_eq!(asked.await.unwrap(), "hooks.example");
        }
    }

    #[test]
    fn a_wish_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
        let wish = |value| parse_retry_after(value, now);
        assert_eq!(wish("34"), Some(Duration::from_secs(34)));
        assert_eq!(wish("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wish("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(wish("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!((wish("soon"), wish("-1"), wish("NaN"), wish("")), (None, None, None, None));
        // Fault: what was too long to hold was no wish at all, and the receiver was asked again at once.
        assert_eq!(wish("99999999999999999999"), Some(Duration::MAX));
    }
}
