//! The generic webhook: the alert's JSON by POST, signed by Standard Webhooks where keys are given.
//!
//! Source of headers and signature: standard-webhooks/standard-webhooks, `spec/standard-webhooks.md`. Delivered is any 2xx;
//! 410 says "stop for good", like every other 4xx but 408, 425 and 429.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use ring::hmac;

use super::http::{BadHttp, HttpClient, add_header, by_status};
use super::secret::{Secret, SecretUrl};
use super::{Notice, Outcome, Sending, Target, cloud_events};
use crate::clock::Clock;

/// Fewest bytes of a key: the specification asks for 24 to 64; shorter ones can be guessed.
const KEY_BYTES: usize = 24;

/// A generic webhook.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The user's name for it.
    pub name: String,
    /// Where to post.
    pub url: SecretUrl,
    /// Keys to sign with; each gives one signature, so that a key can be changed without a gap.
    pub keys: Vec<SigningKey>,
    /// Who we are.
    pub authorization: Option<Authorization>,
    /// More headers.
    pub headers: Vec<(String, Secret)>,
    /// What is posted.
    pub format: Format,
}

/// What a webhook posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The alert's JSON.
    #[default]
    Plain,
    /// The alert's JSON in a CloudEvents 1.0 envelope.
    CloudEvents,
}

/// Who we are, to the receiver.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// `Authorization: Basic`.
    Basic {
        /// User.
        user: String,
        /// Password.
        password: Secret,
    },
}

/// A symmetric key of Standard Webhooks.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

/// A text that is not such a key. Does not hold the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "is not a signing key: `whsec_` and the base64 of at least {KEY_BYTES} random bytes are")
    }
}

impl std::error::Error for BadKey {}

impl SigningKey {
    /// Reads `whsec_` and base64; the prefix may be missing.
    pub fn parse(text: &str) -> Result<SigningKey, BadKey> {
        let text = text.trim();
        let bytes = BASE64_STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|_| BadKey)?;
        if bytes.len() < KEY_BYTES {
            return Err(BadKey);
        }
        Ok(SigningKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// `v1,` and the base64 of the signature.
    fn sign(&self, id: &str, timestamp_seconds: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{timestamp_seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("…")
    }
}

/// The receiver.
pub struct Webhook {
    settings: WebhookSettings,
    headers: HeaderMap,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl Webhook {
    /// Makes the receiver; an error names the header that HTTP does not allow.
    pub fn new(settings: WebhookSettings, http: HttpClient, clock: Arc<dyn Clock>) -> Result<Webhook, BadHttp> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = &settings.authorization {
            add_header(&mut headers, AUTHORIZATION.as_str(), &authorization.header())?;
        }
        for (name, value) in &settings.headers {
            add_header(&mut headers, name, value)?;
        }
        Ok(Webhook { settings, headers, http, clock })
    }

    async fn post(&self, notice: &Notice) -> Outcome {
        let (content_type, body) = match self.settings.format {
            Format::Plain => ("application/json", serde_json::to_vec(&notice.alert)),
            Format::CloudEvents => (cloud_events::CONTENT_TYPE, serde_json::to_vec(&cloud_events::event(notice))),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => return Outcome::reject(format!("the alert is no JSON: {error}")),
        };
        let mut headers = match self.signed(&notice.message_id, &body) {
            Ok(headers) => headers,
            Err(error) => return Outcome::reject(error.to_string()),
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.http.send(Method::POST, &self.settings.url, headers, body, by_status).await
    }

    fn signed(&self, id: &str, body: &[u8]) -> Result<HeaderMap, BadHttp> {
        let mut headers = self.headers.clone();
        let timestamp_seconds = self.clock.now().wall.as_second();
        headers.insert("webhook-timestamp", HeaderValue::from(timestamp_seconds));
        add_header(&mut headers, "webhook-id", &Secret::new(id))?;
        if !self.settings.keys.is_empty() {
            let signatures: Vec<_> =
                self.settings.keys.iter().map(|key| key.sign(id, timestamp_seconds, body)).collect();
            add_header(&mut headers, "webhook-signature", &Secret::new(signatures.join(" ")))?;
        }
        Ok(headers)
    }
}

impl Authorization {
    /// The header's value.
    pub(super) fn header(&self) -> Secret {
        match self {
            Authorization::Bearer(token) => Secret::new(format!("Bearer {}", token.expose())),
            Authorization::Basic { user, password } => {
                let pair = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
                Secret::new(format!("Basic {pair}"))
            }
        }
    }
}

impl Target for Webhook {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        "webhook"
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(self.post(notice))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Behaviour, FakeHttp, Request};
    use super::super::http::{HttpSettings, Proxy};
    use super::super::resolver::Resolver;
    use super::*;
    use crate::clock::ManualClock;
    use crate::delivery::test_notice;

    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    async fn send(change: impl FnOnce(&mut WebhookSettings), behaviour: Behaviour) -> (Outcome, Request) {
        let server = FakeHttp::start(vec![behaviour]).await;
        let mut settings = WebhookSettings {
            name: "hook".into(),
            url: server.url("/hook"),
            keys: Vec::new(),
            authorization: None,
            headers: Vec::new(),
            format: Format::Plain,
        };
        change(&mut settings);
        let http = HttpSettings { proxy: Proxy::None, ..HttpSettings::default() };
        let http = HttpClient::new(&http, &Resolver::default()).unwrap();
        let hook = Webhook::new(settings, http, Arc::new(ManualClock::default())).unwrap();
        let outcome = hook.send(&test_notice("0123abcd", "text")).await;
        (outcome, server.requests().remove(0))
    }

    #[test]
    fn the_signature_is_that_of_the_specifications_own_test() {
        let key = SigningKey::parse(KEY).unwrap();
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_key_is_base64_of_enough_bytes() {
        assert!(SigningKey::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").is_ok());
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "not base64!"] {
            assert_eq!(SigningKey::parse(bad).unwrap_err(), BadKey, "{bad}");
        }
        assert_eq!(format!("{:?}", SigningKey::parse(KEY).unwrap()), "…");
    }

    #[tokio::test]
    async fn the_alert_is_posted_with_its_identity() {
        let (outcome, request) = send(|_| {}, Behaviour::reply(204, "")).await;
        assert_eq!(outcome, Outcome::delivered());
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hook"));
        assert_eq!(request.header("webhook-id"), Some("0123abcd"));
        assert_eq!(request.header("webhook-timestamp"), Some("1767225600"));
        assert_eq!(request.header("webhook-signature"), None);
        let json = request.json();
        assert_eq!((&json["schema"], &json["id"]), (&1.into(), &"0123abcd".into()));
        assert_eq!((&json["class"], &json["occurred_at"]), (&"failover".into(), &"1970-01-01T00:00:00.000Z".into()));
    }

    #[tokio::test]
    async fn each_key_gives_a_signature_of_what_was_sent() {
        let keys =
            [KEY, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="].map(|key| SigningKey::parse(key).unwrap());
        let given = keys.to_vec();
        let (_, request) = send(|settings| settings.keys = given, Behaviour::reply(200, "")).await;
        let expected = keys.map(|key| key.sign("0123abcd", 1_767_225_600, &request.body)).join(" ");
        assert_eq!(request.header("webhook-signature"), Some(expected.as_str()));
    }

    #[tokio::test]
    async fn who_we_are_and_other_headers_are_sent() {
        let change = |settings: &mut WebhookSettings| {
            settings.authorization =
                Some(Authorization::Basic { user: "Aladdin".into(), password: Secret::new("open sesame") });
            settings.headers = vec![("X-Team".into(), Secret::new("stream"))];
        };
        let (_, request) = send(change, Behaviour::reply(200, "")).await;
        // The example of RFC 7617, section 2.
        assert_eq!(request.header("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert_eq!(request.header("x-team"), Some("stream"));
        let bearer = Authorization::Bearer(Secret::new("t0ken"));
        let (_, request) = send(|settings| settings.authorization = Some(bearer), Behaviour::reply(200, "")).await;
        assert_eq!(request.header("authorization"), Some("Bearer t0ken"));
    }

    #[tokio::test]
    async fn any_2xx_is_delivered_whatever_the_body_does() {
        for behaviour in
            [Behaviour::reply(200, "<html>"), Behaviour::reply(202, ""), Behaviour::HalfReply("{"), Behaviour::Endless]
        {
            assert_eq!(send(|_| {}, behaviour).await.0, Outcome::delivered());
        }
    }

    #[tokio::test]
    async fn a_cloud_event_says_so_and_is_signed_as_a_whole() {
        let key = SigningKey::parse(KEY).unwrap();
        let change = |settings: &mut WebhookSettings| {
            settings.format = Format::CloudEvents;
            settings.keys = vec![key.clone()];
        };
        let (_, request) = send(change, Behaviour::reply(202, "")).await;
        assert_eq!(request.header("content-type"), Some("application/cloudevents+json; charset=UTF-8"));
        assert_eq!(request.json()["data"]["id"], "0123abcd");
        let expected = key.sign("0123abcd", 1_767_225_600, &request.body);
        assert_eq!(request.header("webhook-signature"), Some(expected.as_str()));
    }

    #[tokio::test]
    async fn a_wish_is_passed_on() {
        let busy = Behaviour::reply(429, "").with_header("retry-after", "7");
        let (outcome, _) = send(|_| {}, busy).await;
        let after = Some(std::time::Duration::from_secs(7));
        assert_eq!(outcome, Outcome::Retry { after, reason: "answered 429".into() });
    }
}
