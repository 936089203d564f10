//! A heartbeat: a URL that is called while the agent lives, so that its silence is noticed by the service behind it.
//!
//! Delivered is any 2xx. It gets no alerts.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;

use super::http::{HttpClient, by_status};
use super::secret::SecretUrl;
use super::{Manner, Notice, Outcome, Sending, Target};

/// The receiver.
pub struct Heartbeat {
    name: String,
    url: SecretUrl,
    every: Duration,
    http: HttpClient,
}

impl Heartbeat {
    /// A URL and how often it is called.
    pub fn new(name: String, url: SecretUrl, every: Duration, http: HttpClient) -> Heartbeat {
        Heartbeat { name, url, every, http }
    }
}

impl Target for Heartbeat {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &'static str {
        "heartbeat"
    }
    fn manner(&self) -> Manner {
        Manner { beat: Some(self.every), ..Manner::MACHINE }
    }
    fn takes_alerts(&self) -> bool {
        false
    }
    fn beat(&self) -> Sending<'_> {
        Box::pin(self.http.send(Method::GET, &self.url, HeaderMap::new(), Vec::new(), by_status))
    }
    fn send<'a>(&'a self, _: &'a Notice) -> Sending<'a> {
        Box::pin(std::future::ready(Outcome::reject("a heartbeat takes no alerts")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Behaviour, FakeHttp, http_client};
    use super::*;

    #[tokio::test]
    async fn a_beat_calls_the_url() {
        let server = FakeHttp::start(vec![Behaviour::reply(200, "OK"), Behaviour::reply(404, "")]).await;
        let heart = Heartbeat::new("heart".into(), server.url("/ping/uuid"), Duration::from_secs(60), http_client());
        assert_eq!(heart.beat().await, Outcome::delivered());
        assert_eq!((server.requests()[0].method.as_str(), server.requests()[0].target.as_str()), ("GET", "/ping/uuid"));
        assert_eq!(heart.beat().await, Outcome::reject("answered 404"));
    }
}
