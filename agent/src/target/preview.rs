//! What would be sent: notes requests and mails in place of the network, for `leaderwatch test --dry-run`.

use parking_lot::Mutex;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::Outcome;
use super::secret::SecretUrl;
use crate::config::MASK;

/// Fields of a body that hold a secret, or what lets anybody post for some time: PagerDuty's key, Feishu's signature.
const SECRET_FIELDS: [&str; 2] = ["routing_key", "sign"];

/// A message as it would go, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// To whom: method and server, or server and recipients.
    pub to: String,
    /// Headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body; JSON with one field a line.
    pub body: String,
}

/// Takes what would be sent.
#[derive(Debug, Default)]
pub struct Preview {
    letters: Mutex<Vec<Letter>>,
}

impl Preview {
    /// What came so far.
    pub fn letters(&self) -> Vec<Letter> {
        self.letters.lock().clone()
    }

    /// Takes an HTTP request. The outcome is that of a request to which no reply came.
    pub(super) fn take_request(&self, method: &Method, url: &SecretUrl, headers: &HeaderMap, body: &[u8]) -> Outcome {
        let shown = |value: &reqwest::header::HeaderValue| match value.is_sensitive() {
            true => MASK.to_owned(),
            false => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), shown(value))).collect();
        headers.sort();
        self.take(Letter { to: format!("{method} {url:?}"), headers, body: body_without_secrets(body) })
    }

    /// Takes any message.
    pub(super) fn take(&self, letter: Letter) -> Outcome {
        self.letters.lock().push(letter);
        Outcome::retry("a dry run: nothing was sent")
    }
}

fn body_without_secrets(body: &[u8]) -> String {
    let Ok(mut json) = serde_json::from_slice::<Value>(body) else {
        return String::from_utf8_lossy(body).into_owned();
    };
    for field in SECRET_FIELDS {
        if let Some(secret) = json.get_mut(field) {
            *secret = MASK.into();
        }
    }
    format!("{json:#}")
}

#[cfg(test)]
mod tests {
    use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

    use super::*;

    #[test]
    fn no_secret_of_address_headers_or_body_is_seen() {
        let preview = Preview::default();
        let url = SecretUrl::parse("https://user:s3cret@hooks.example.com/s3cret?key=s3cret").unwrap();
        let mut token = HeaderValue::from_static("Bearer s3cret");
        token.set_sensitive(true);
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, token),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        let body = br#"{"routing_key":"s3cret","sign":"s3cret","text":"hello"}"#;
        let outcome = preview.take_request(&Method::POST, &url, &headers, body);
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
        let letters = preview.letters();
        assert!(!format!("{letters:?}").contains("s3cret"), "{letters:?}");
        assert_eq!(letters[0].to, "POST https://hooks.example.com/…");
        assert!(letters[0].body.contains("hello"), "{letters:?}");
    }
}
