//! A webhook receiver that keeps what it gets and can be made to misbehave as real ones do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::listener::Listener;
use crate::wait;

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// When its last byte came.
    pub at: Instant,
    /// `POST`, ...
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The status that it was answered with; None where it was left without an answer.
    pub status: Option<u16>,
}

impl Received {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the receiver does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// Answers with this status.
    Answer(u16),
    /// Takes the request and never answers.
    Hang,
}

/// The receiver. It listens until it is dropped or told to [`WebhookReceiver::go_down`].
pub struct WebhookReceiver {
    shared: Arc<Shared>,
    listener: Listener,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    behavior: Mutex<Behavior>,
}

impl WebhookReceiver {
    /// Listens on a free loopback port and answers 200.
    ///
    /// # Errors
    /// Where it cannot listen.
    pub fn start() -> Result<Self> {
        let shared = Arc::new(Shared { received: Mutex::default(), behavior: Mutex::new(Behavior::Answer(200)) });
        let served = Arc::clone(&shared);
        let mut listener = Listener::new(move |stream| serve(stream, &served));
        listener.come_up()?;
        Ok(Self { shared, listener })
    }

    /// Where to send to.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/alerts", self.listener.port())
    }

    /// From now on, requests are treated so.
    pub fn behave(&self, behavior: Behavior) {
        *self.shared.behavior.lock().unwrap_or_else(PoisonError::into_inner) = behavior;
    }

    /// Everything that came so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The alerts that were answered by 2xx and so are delivered.
    pub fn delivered(&self) -> Vec<Value> {
        let accepted = |received: &Received| received.status.is_some_and(|status| (200..300).contains(&status));
        self.received().iter().filter(|received| accepted(received)).map(Received::json).collect()
    }

    /// Waits until `count` alerts are delivered, and returns all that are.
    ///
    /// # Errors
    /// Where fewer came within `limit`.
    pub fn wait_for(&self, count: usize, limit: Duration) -> Result<Vec<Value>> {
        wait::until(&format!("{count} alert(s) by webhook"), limit, || {
            let delivered = self.delivered();
            Ok((delivered.len() >= count).then_some(delivered))
        })
    }

    /// Refuses connections and breaks off the open ones.
    pub fn go_down(&mut self) {
        self.listener.go_down();
    }

    /// Listens again, on the same port.
    ///
    /// # Errors
    /// Where it cannot listen.
    pub fn come_up(&mut self) -> Result<()> {
        self.listener.come_up()
    }
}

/// Requests of one connection until it ends, however it ends: a broken one is the sender's affair.
fn serve(mut stream: TcpStream, shared: &Shared) {
    let mut unread = Vec::new();
    while let Ok(Some(mut request)) = read_request(&mut stream, &mut unread) {
        let behavior = *shared.behavior.lock().unwrap_or_else(PoisonError::into_inner);
        let Behavior::Answer(status) = behavior else {
            shared.received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            // Ends when the sender gives up or the receiver goes down.
            let _ = stream.read(&mut [0; 1]);
            return;
        };
        request.status = Some(status);
        shared.received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let answer = format!("HTTP/1.1 {status} As told\r\nContent-Length: 2\r\n\r\nok");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<Option<Received>> {
    loop {
        if let Some((mut request, head_length, body_length)) = parse_head(unread)? {
            while unread.len() < head_length + body_length {
                if read_more(stream, unread)? == 0 {
                    return Ok(None);
                }
            }
            request.body = unread[head_length..head_length + body_length].to_vec();
            request.at = Instant::now();
            unread.drain(..head_length + body_length);
            return Ok(Some(request));
        }
        if read_more(stream, unread)? == 0 {
            return Ok(None);
        }
    }
}

fn read_more(stream: &mut TcpStream, into: &mut Vec<u8>) -> Result<usize> {
    let mut buffer = [0; 8192];
    let count = stream.read(&mut buffer)?;
    into.extend_from_slice(&buffer[..count]);
    Ok(count)
}

/// (request without its body, length of the head, length of the body), once the head is whole.
fn parse_head(bytes: &[u8]) -> Result<Option<(Received, usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes)? else { return Ok(None) };
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    if find("transfer-encoding").is_some() {
        bail!("the tests' receiver reads no chunked bodies");
    }
    let body_length = find("content-length").map_or(Ok(0), str::parse)?;
    let received = Received {
        at: Instant::now(),
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        headers,
        body: Vec::new(),
        status: None,
    };
    Ok(Some((received, length, body_length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(receiver: &WebhookReceiver) -> Result<u16> {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_millis(500)))
            .http_status_as_error(false)
            .build();
        let agent: ureq::Agent = config.into();
        Ok(agent.post(receiver.url()).header("X-Test", "1").send("{\"a\":1}")?.status().as_u16())
    }

    #[test]
    fn keeps_what_came_and_answers_as_told() {
        let mut receiver = WebhookReceiver::start().unwrap();
        assert_eq!(post(&receiver).unwrap(), 200);
        receiver.behave(Behavior::Answer(500));
        assert_eq!(post(&receiver).unwrap(), 500);
        receiver.behave(Behavior::Hang);
        assert!(post(&receiver).is_err());
        receiver.go_down();
        assert!(post(&receiver).is_err());
        receiver.behave(Behavior::Answer(204));
        receiver.come_up().unwrap();
        assert_eq!(post(&receiver).unwrap(), 204);

        let received = receiver.received();
        assert_eq!(
            received.iter().map(|request| request.status).collect::<Vec<_>>(),
            [Some(200), Some(500), None, Some(204)]
        );
        assert_eq!(received[0].header("x-test"), Some("1"));
        assert_eq!(receiver.delivered(), [serde_json::json!({"a": 1}), serde_json::json!({"a": 1})]);
    }
}
