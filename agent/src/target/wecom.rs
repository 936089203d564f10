//! WeCom (企业微信) group robots.
//!
//! Delivered is `errcode` 0 in the body; the status is always 200. There is no signature. Text messages hold no markup and
//! ping only whom `mentioned_list` names, which is nobody.

use std::time::Duration;

use serde_json::{Value, json};

use super::Manner;
use super::chat::{Chat, Service};
use super::http::HttpClient;
use super::robot::{Verdict, judge};
use super::secret::SecretUrl;
use super::text::{cut_bytes, one_line, printable};
use crate::alert::Alert;

/// Bytes of a text (document 91770).
const TEXT_BYTES: usize = 2048;

static SERVICE: Service = Service {
    kind: "wecom",
    manner: Manner::people(20, Duration::from_secs(60)),
    message,
    judge: |reply| judge(reply, &["errcode"], &["errmsg"], verdict),
};

/// A group by its robot's address.
pub fn wecom(name: String, url: SecretUrl, http: HttpClient) -> Chat {
    Chat::new(&SERVICE, name, url, http)
}

fn message(alert: &Alert) -> Value {
    let content = format!("{}\n\n{}", one_line(&alert.title), printable(&alert.text).trim_end());
    json!({"msgtype": "text", "text": {"content": cut_bytes(&content, TEXT_BYTES)}})
}

pub(super) fn verdict(code: i64, _: &str) -> Verdict {
    match code {
        45_009 => Verdict::TooMany,
        // Key unknown; parameter; content too long.
        93_000 | 40_058 | 45_002 => Verdict::Never,
        _ => Verdict::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn a_text_keeps_to_the_limit_in_bytes() {
        let message = message(&test_notice("1", &"企".repeat(2000)).alert);
        let content = message["text"]["content"].as_str().unwrap();
        assert!(content.len() <= 2048 && content.len() > 2040 && content.ends_with("企…"), "{}", content.len());
    }
}
