//! Microsoft Teams, by a workflow ("Post to a channel when a webhook request is received") that takes an Adaptive Card.
//!
//! 200 and 202 say that the workflow took the message, not that it was shown; its reply says nothing more. Lines go as
//! text runs, in which nothing is markup. The card is the one of Alertmanager's `notify/msteamsv2`.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::{Chat, Service};
use super::http::{HttpClient, Reply};
use super::secret::SecretUrl;
use super::text::{cut_characters, fit_json, one_line, printable};
use super::{Manner, Outcome};
use crate::alert::{Alert, Class, Severity};

/// Bytes of a whole message: 28 KB by the documents, less a margin for what the workflow adds.
const MESSAGE_BYTES: usize = 24 * 1024;
/// Characters of a title.
const TITLE_CHARACTERS: usize = 300;

static SERVICE: Service = Service {
    kind: "teams",
    // More than four in a second are throttled.
    manner: Manner::people(4, Duration::from_secs(2)),
    message,
    judge,
};

/// A channel by its workflow's address.
pub fn teams(name: String, url: SecretUrl, http: HttpClient) -> Chat {
    Chat::new(&SERVICE, name, url, http)
}

fn message(alert: &Alert) -> Value {
    let color = match (alert.class, alert.severity) {
        (Class::Resolved, _) => "Good",
        (_, Severity::Critical) => "Attention",
        (_, Severity::Warning) => "Warning",
        (_, Severity::Info) => "Default",
    };
    let title = cut_characters(&one_line(&alert.title), TITLE_CHARACTERS);
    let title = json!({"type": "TextRun", "text": title, "weight": "Bolder", "size": "Medium", "color": color});
    fit_json(&printable(&alert.text), MESSAGE_BYTES, |text| {
        let mut body = vec![json!({"type": "RichTextBlock", "inlines": [title]})];
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        body.extend(lines.map(
            |line| json!({"type": "RichTextBlock", "spacing": "None", "inlines": [{"type": "TextRun", "text": line}]}),
        ));
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": body,
                    "msteams": {"width": "full"},
                },
            }],
        })
    })
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    match reply.status {
        200 | 202 => Outcome::Delivered { receipt: Some("accepted; Teams does not confirm that it is shown".into()) },
        _ => reply.unclear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn each_line_is_a_text_run() {
        let card = message(&test_notice("1", "[link](http://x)\n\n**bold**").alert);
        let body = &card["attachments"][0]["content"]["body"];
        assert_eq!(body.as_array().unwrap().len(), 3);
        assert_eq!(body[0]["inlines"][0]["color"], "Attention");
        assert_eq!(body[1]["inlines"][0], json!({"type": "TextRun", "text": "[link](http://x)"}));
    }

    #[test]
    fn a_message_keeps_to_the_limit() {
        let card = message(&test_notice("1", &"\"\\长\n".repeat(20_000)).alert);
        let bytes = card.to_string().len();
        assert!(bytes <= MESSAGE_BYTES && bytes > 1000, "{bytes}");
    }
}
