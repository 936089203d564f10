//! Slack incoming webhooks.
//!
//! Delivered is status 200 with the body `ok` and nothing else (docs.slack.dev, "Sending messages using incoming
//! webhooks"). Text goes as `plain_text`, in which nothing is markup and nobody is pinged.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::{Chat, Service};
use super::http::{HttpClient, Reply};
use super::secret::SecretUrl;
use super::text::{cut_characters, one_line, printable};
use super::{Manner, Outcome};
use crate::alert::Alert;

/// Characters of a header block.
const HEADER_CHARACTERS: usize = 150;
/// Characters of a section.
const SECTION_CHARACTERS: usize = 3000;

static SERVICE: Service = Service {
    kind: "slack",
    // One a second, with short bursts tolerated.
    manner: Manner::people(20, Duration::from_secs(20)),
    message,
    judge,
};

/// A channel by its webhook's address.
pub fn slack(name: String, url: SecretUrl, http: HttpClient) -> Chat {
    Chat::new(&SERVICE, name, url, http)
}

fn message(alert: &Alert) -> Value {
    let title = one_line(&alert.title);
    let plain = |text: &str, limit| json!({"type": "plain_text", "text": cut_characters(text, limit), "emoji": false});
    let mut blocks = vec![json!({"type": "header", "text": plain(&title, HEADER_CHARACTERS)})];
    let text = printable(&alert.text);
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "section", "text": plain(text.trim(), SECTION_CHARACTERS)}));
    }
    // The outer text is what notifications show; it is markup, in which these three characters count.
    let shown = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({"text": shown, "blocks": blocks})
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    if reply.status == 200 && reply.is_whole && reply.text().trim() == "ok" {
        return Outcome::delivered();
    }
    reply.unclear()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn a_name_full_of_markup_pings_nobody() {
        let mut alert = test_notice("1", "<!channel> *job* & <@U1>\u{7}").alert;
        alert.title = "job <!here>\n& more".into();
        let message = message(&alert);
        assert_eq!(message["text"], "job &lt;!here&gt; &amp; more");
        assert_eq!(message["blocks"][1]["text"]["type"], "plain_text");
        assert_eq!(message["blocks"][1]["text"]["text"], "<!channel> *job* & <@U1>");
    }

    #[test]
    fn texts_keep_to_the_limits() {
        let mut alert = test_notice("1", &"长".repeat(10_000)).alert;
        alert.title = "标".repeat(1000);
        let message = message(&alert);
        let length = |value: &Value| value["text"]["text"].as_str().unwrap().chars().count();
        assert_eq!((length(&message["blocks"][0]), length(&message["blocks"][1])), (150, 3000));
    }
}
