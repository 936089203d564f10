//! A chat service that needs nothing but a secret address: what differs is the message, how a reply is judged, and the rate.

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::http::{HttpClient, Reply};
use super::secret::SecretUrl;
use super::{Manner, Notice, Outcome, Sending, Target};
use crate::alert::Alert;

/// A kind of chat service.
pub(super) struct Service {
    pub(super) kind: &'static str,
    pub(super) manner: Manner,
    pub(super) message: fn(&Alert) -> Value,
    pub(super) judge: fn(&Reply) -> Outcome,
}

/// A place in such a service where people read.
pub struct Chat {
    name: String,
    url: SecretUrl,
    http: HttpClient,
    service: &'static Service,
}

impl Chat {
    pub(super) fn new(service: &'static Service, name: String, url: SecretUrl, http: HttpClient) -> Chat {
        Chat { name, url, http, service }
    }
}

impl Target for Chat {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &'static str {
        self.service.kind
    }
    fn manner(&self) -> Manner {
        self.service.manner
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            let message = (self.service.message)(&notice.alert);
            self.http.deliver(&self.url, HeaderMap::new(), &message, self.service.judge).await
        })
    }
}
